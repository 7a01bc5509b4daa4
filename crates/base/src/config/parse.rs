//! Text to [`Settings`], and the complaints about what could not be read.

use super::choices::{DomainChoice, RailChoice, StatsSink, Words};
use super::{Kind, MulticastFaults, PREFIX, Setting, Settings, TABLE};
use crate::names::nearest;
use crate::units;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// Something wrong with a setting; the default stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {hint}")]
pub struct Problem {
    /// The variable as the user wrote it.
    pub name: String,
    /// The value as the user wrote it.
    pub value: String,
    /// What is wrong and what would be right.
    pub hint: String,
}

/// Reads every `FERRORAIL_*` variable out of `variables` (others are passed over).
///
/// A value that does not parse is reported and its default used, so that the caller can go on.
pub fn parse<N: AsRef<str>, V: AsRef<str>>(
    variables: impl IntoIterator<Item = (N, V)>,
) -> (Settings, Vec<Problem>) {
    let defaults = TABLE.iter().map(|row| (row.name, row.default.to_owned()));
    let mut reader = Reader {
        in_force: defaults.collect(),
        problems: Vec::new(),
    };
    for (name, value) in variables {
        let (name, value) = (name.as_ref(), value.as_ref());
        if let Some(setting) = TABLE.iter().find(|s| s.name == name) {
            match check(setting, value) {
                Ok(()) => {
                    reader
                        .in_force
                        .insert(setting.name, value.trim().to_owned());
                }
                Err(hint) => reader.complain(name, value, hint),
            }
        } else if name.starts_with(PREFIX) {
            let names = TABLE.iter().map(|s| s.name);
            let hint = format!("unknown setting{}", did_you_mean(name, names));
            reader.complain(name, value, hint);
        }
    }
    let settings = Settings::read(&mut reader);
    reader.problems.sort_by(|a, b| a.name.cmp(&b.name));
    (settings, reader.problems)
}

/// `"; did you mean X?"` for the nearest of `valid`, or nothing if none is near.
pub(super) fn did_you_mean<'a>(word: &str, valid: impl Iterator<Item = &'a str>) -> String {
    let hint = |nearest| format!("; did you mean {nearest}?");
    nearest(word, valid).map_or(String::new(), hint)
}

fn check(setting: &Setting, value: &str) -> Result<(), String> {
    let value = value.trim();
    match setting.kind {
        Kind::Word(words) if !words.contains(&value) => Err(format!(
            "not one of {}{}",
            words.join(", "),
            did_you_mean(value, words.iter().copied())
        )),
        Kind::Switch if !["0", "1"].contains(&value) => Err("not 0 or 1".into()),
        Kind::Number(min, max) => match value.parse::<u64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(()),
            _ => Err(format!("not a whole number from {min} to {max}")),
        },
        Kind::Bytes if units::parse_bytes(value).is_none() => {
            Err("not a size such as 4096, 64K or 2M".into())
        }
        _ => Ok(()),
    }
}

/// The settings in force as text, and what was wrong with others.
pub(super) struct Reader {
    in_force: HashMap<&'static str, String>,
    problems: Vec<Problem>,
}

impl Reader {
    pub(super) fn complain(&mut self, name: &str, value: &str, hint: String) {
        self.problems.push(Problem {
            name: name.into(),
            value: value.into(),
            hint,
        });
    }

    /// # Panics
    /// If the table has no such setting.
    pub(super) fn value(&mut self, name: &'static str) -> Value<'_> {
        Value {
            name,
            text: self.in_force[name].clone(),
            reader: self,
        }
    }
}

/// A setting in force, to be read as what it means.
pub(super) struct Value<'r> {
    name: &'static str,
    text: String,
    pub(super) reader: &'r mut Reader,
}

impl Value<'_> {
    fn complain(&mut self, hint: impl Into<String>) {
        self.reader.complain(self.name, &self.text, hint.into());
    }

    pub(super) fn is(&self, word: &str) -> bool {
        self.text == word
    }

    pub(super) fn is_not(&self, word: &str) -> bool {
        self.text != word
    }

    pub(super) fn word<W: Words>(self) -> W {
        W::of(&self.text)
    }

    pub(super) fn number<N: FromStr + Default>(self) -> N {
        self.text.parse().unwrap_or_default()
    }

    /// A number; nothing if it is 0.
    pub(super) fn nonzero<N: FromStr + Default + PartialEq>(self) -> Option<N> {
        Some(self.number()).filter(|number| *number != N::default())
    }

    pub(super) fn bytes(self) -> u64 {
        units::parse_bytes(&self.text).unwrap_or(0)
    }

    /// Bytes of scratch; none for `auto`.
    pub(super) fn scratch(mut self) -> Option<u64> {
        // What lies within does not overflow for as many ranks as a team may have.
        const RANGE: RangeInclusive<u64> = 4 << 10..=1 << 40;
        if self.text == "auto" {
            return None;
        }
        let bytes = units::parse_bytes(&self.text).filter(|bytes| RANGE.contains(bytes));
        if bytes.is_none() {
            self.complain("neither auto nor a size from 4K to 1024G, such as 64K");
        }
        bytes
    }

    pub(super) fn text(self) -> String {
        self.text
    }

    /// A filter of log lines. A word that is no level would be taken for the name of a module, and nothing be said.
    pub(super) fn log_filter(mut self) -> String {
        const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
        let is_level = |word: &str| LEVELS.contains(&word.to_lowercase().as_str());
        let is_directive = |word: &str| word.contains(['=', '[', ']', ':']);
        let is_right = |word: &str| {
            word.is_empty() || is_level(word) || is_directive(word) || word.starts_with("ferrorail")
        };
        let mut words = self.text.split(',').map(str::trim);
        let Some(wrong) = words.find(|word| !is_right(word)).map(str::to_owned) else {
            return self.text;
        };
        self.complain(format!(
            "`{wrong}` is not one of {}{}",
            LEVELS.join(", "),
            did_you_mean(&wrong, LEVELS.iter().copied())
        ));
        "warn".into()
    }

    pub(super) fn path(self) -> Option<PathBuf> {
        (!self.text.is_empty()).then(|| self.text.into())
    }

    pub(super) fn name_or_auto(self) -> Option<String> {
        (self.text != "auto").then_some(self.text)
    }

    pub(super) fn switch_or_auto(self) -> Option<bool> {
        match self.text.as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }

    pub(super) fn number_or_auto(mut self) -> Option<u32> {
        if self.text == "auto" {
            return None;
        }
        let number = self.text.parse().ok();
        if number.is_none() {
            self.complain("neither auto nor a whole number");
        }
        number
    }

    /// Whole numbers separated by commas.
    pub(super) fn numbers(mut self) -> Vec<u64> {
        const MOST: u64 = 1_000_000;
        if self.text.is_empty() {
            return Vec::new();
        }
        let numbers = self.text.split(',').map(|part| {
            let number = part.trim().parse().ok();
            number.filter(|&number| number <= MOST)
        });
        numbers.collect::<Option<_>>().unwrap_or_else(|| {
            self.complain(format!(
                "not whole numbers from 0 to {MOST}, separated by commas"
            ));
            Vec::new()
        })
    }

    /// Names and values: `collective=algorithm`, separated by commas.
    pub(super) fn pairs(mut self) -> BTreeMap<String, String> {
        let mut pairs = BTreeMap::new();
        let text = self.text.clone();
        let parts = text.split(',').map(str::trim);
        for part in parts.filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((name, value)) => {
                    pairs.insert(name.trim().to_owned(), value.trim().to_owned());
                }
                None => self.complain(format!("`{part}` is not of the form collective=algorithm")),
            }
        }
        pairs
    }

    pub(super) fn rails(mut self) -> RailChoice {
        match (self.text.as_str(), self.text.parse::<u64>()) {
            ("auto" | "", _) => RailChoice::Auto,
            (_, Ok(count @ 1..=8)) => RailChoice::Count(count as u8),
            (_, Ok(_)) => {
                self.complain("a count of rails is from 1 to 8");
                RailChoice::Auto
            }
            (names, Err(_)) => {
                let names = names.split(',').map(|name| name.trim().to_owned());
                RailChoice::Names(names.collect())
            }
        }
    }

    pub(super) fn domains(mut self) -> DomainChoice {
        match (self.text.as_str(), self.text.parse()) {
            ("auto", _) => DomainChoice::Auto,
            ("off", _) => DomainChoice::Off,
            ("cache", _) => DomainChoice::Cache,
            ("numa", _) => DomainChoice::Numa,
            (_, Ok(ranks @ 1..)) => DomainChoice::Ranks(ranks),
            _ => {
                self.complain("not one of auto, off, cache, numa, nor a number of ranks from 1");
                DomainChoice::Auto
            }
        }
    }

    pub(super) fn multicast_faults(mut self) -> MulticastFaults {
        MulticastFaults::parse(&self.text).unwrap_or_else(|hint| {
            self.complain(hint);
            MulticastFaults::default()
        })
    }

    pub(super) fn stats(self) -> StatsSink {
        match self.text.as_str() {
            "0" | "" => StatsSink::Off,
            "1" => StatsSink::Print,
            file => StatsSink::File(file.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FabricChoice, StripeChoice};

    #[test]
    fn defaults_hold_without_an_environment() {
        let (settings, problems) = parse([("PATH", "/bin")]);
        assert_eq!(problems, []);
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.stripe_threshold, 8192);
        assert_eq!(settings.stripe_policy, StripeChoice::Auto);
        assert_eq!(settings.rails, RailChoice::Auto);
    }

    #[test]
    fn values_are_read() {
        let (settings, problems) = parse([
            ("FERRORAIL_RAILS", "rxe0, rxe1:1"),
            ("FERRORAIL_ALGORITHM", "allgather=smp_bruck"),
            ("FERRORAIL_NODE_SIZE", "2"),
            ("FERRORAIL_DOMAINS", "3"),
            ("FERRORAIL_STATS", "out.json"),
            ("FERRORAIL_STRIPE_THRESHOLD", "64K"),
            ("FERRORAIL_STRIPE_POLICY", "round_robin"),
            ("FERRORAIL_LOOPBACK_BANDWIDTH", "1000, 250"),
        ]);
        assert_eq!(problems, []);
        assert_eq!(
            settings.rails,
            RailChoice::Names(vec!["rxe0".into(), "rxe1:1".into()])
        );
        assert_eq!(settings.algorithm["allgather"], "smp_bruck");
        assert_eq!(settings.node_size, Some(2));
        assert_eq!(settings.domains, DomainChoice::Ranks(3));
        assert_eq!(settings.stats, StatsSink::File("out.json".into()));
        assert_eq!(settings.stripe_threshold, 65536);
        assert_eq!(settings.stripe_policy, StripeChoice::RoundRobin);
        assert_eq!(settings.loopback_bandwidths_mb_s, [1000, 250]);
    }

    #[test]
    fn mistakes_are_reported_with_the_nearest_valid_one() {
        let (settings, problems) = parse([
            ("FERRORAIL_FABRIK", "verbs"),
            ("FERRORAIL_FABRIC", "verb"),
            ("FERRORAIL_PORTS", "99"),
            ("FERRORAIL_RAILS", "0"),
            ("FERRORAIL_DOMAINS", "0"),
            ("FERRORAIL_LOOPBACK_BANDWIDTH", "100,fast"),
            ("FERRORAIL_MULTICAST_FAULTS", "drop=2"),
            ("FERRORAIL_ALGORITHM", "bruck"),
            ("FERRORAIL_SCRATCH", "18446744073709551615"),
        ]);
        assert_eq!(settings.scratch_bytes, None);
        assert_eq!(settings.fabric, FabricChoice::Auto);
        let text: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            text,
            [
                "FERRORAIL_ALGORITHM=bruck: `bruck` is not of the form collective=algorithm",
                "FERRORAIL_DOMAINS=0: not one of auto, off, cache, numa, nor a number of ranks from 1",
                "FERRORAIL_FABRIC=verb: not one of auto, loopback, verbs; did you mean verbs?",
                "FERRORAIL_FABRIK=verbs: unknown setting; did you mean FERRORAIL_FABRIC?",
                "FERRORAIL_LOOPBACK_BANDWIDTH=100,fast: not whole numbers from 0 to 1000000, \
                 separated by commas",
                "FERRORAIL_MULTICAST_FAULTS=drop=2: `drop=2`: a probability is a decimal fraction \
                 from 0 to 1, such as 0.01",
                "FERRORAIL_PORTS=99: not a whole number from 0 to 8",
                "FERRORAIL_RAILS=0: a count of rails is from 1 to 8",
                "FERRORAIL_SCRATCH=18446744073709551615: neither auto nor a size from 4K to 1024G, such as 64K",
            ]
        );
    }
}
