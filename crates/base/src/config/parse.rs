//! Text to [`Settings`], and the complaints about what could not be read.

use super::{
    AccumulateChoice, AtomicsChoice, ChecksumChoice, FabricChoice, Kind, MulticastFaults, PREFIX,
    RailChoice, Setting, Settings, ShmKind, StatsSink, StripeChoice, TABLE,
};
use crate::units;
use std::collections::HashMap;
use std::fmt;

/// Something wrong with a setting; the default stays in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The variable as the user wrote it.
    pub name: String,
    /// The value as the user wrote it.
    pub value: String,
    /// What is wrong and what would be right.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}: {}", self.name, self.value, self.hint)
    }
}

/// Reads every `FERRORAIL_*` variable out of `variables` (others are passed over).
///
/// A value that does not parse is reported and its default used, so that the caller can go on.
pub fn parse<N: AsRef<str>, V: AsRef<str>>(
    variables: impl IntoIterator<Item = (N, V)>,
) -> (Settings, Vec<Problem>) {
    let mut reader = Reader {
        given: HashMap::new(),
        problems: Vec::new(),
    };
    for (name, value) in variables {
        let (name, value) = (name.as_ref(), value.as_ref());
        if let Some(setting) = TABLE.iter().find(|s| s.name == name) {
            match check(setting, value) {
                Ok(()) => {
                    reader.given.insert(setting.name, value.trim().to_owned());
                }
                Err(hint) => reader.complain(name, value, hint),
            }
        } else if name.starts_with(PREFIX) {
            let names = TABLE.iter().map(|s| s.name);
            let hint = format!("unknown setting{}", did_you_mean(name, names));
            reader.complain(name, value, hint);
        }
    }
    let settings = reader.settings();
    reader.problems.sort_by(|a, b| a.name.cmp(&b.name));
    (settings, reader.problems)
}

/// `"; did you mean X?"` for the nearest of `valid`, or nothing if none is near.
pub(super) fn did_you_mean<'a>(word: &str, valid: impl Iterator<Item = &'a str>) -> String {
    valid
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min()
        .filter(|&(distance, _)| distance <= 2 + word.len() / 4)
        .map_or(String::new(), |(_, nearest)| {
            format!("; did you mean {nearest}?")
        })
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

pub(super) struct Reader {
    given: HashMap<&'static str, String>,
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

    pub(super) fn text(&self, name: &str) -> String {
        let row = TABLE
            .iter()
            .find(|s| s.name == name)
            .expect("settings are read by table name");
        self.given
            .get(name)
            .cloned()
            .unwrap_or_else(|| row.default.to_owned())
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    pub(super) fn bytes(&self, name: &str) -> u64 {
        units::parse_bytes(&self.text(name)).unwrap_or(0)
    }

    /// `auto`, or a number.
    fn auto_or_number(&mut self, name: &str) -> Option<u32> {
        let text = self.text(name);
        if text == "auto" {
            return None;
        }
        let number = text.parse().ok();
        if number.is_none() {
            self.complain(name, &text, "neither auto nor a whole number".into());
        }
        number
    }

    fn stripe_policy(&self) -> StripeChoice {
        match self.text("FERRORAIL_STRIPE_POLICY").as_str() {
            "even" => StripeChoice::Even,
            "weighted" => StripeChoice::Weighted,
            "adaptive" => StripeChoice::Adaptive,
            "round_robin" => StripeChoice::RoundRobin,
            _ => StripeChoice::Auto,
        }
    }

    fn rails(&mut self) -> RailChoice {
        let text = self.text("FERRORAIL_RAILS");
        if text == "auto" || text.is_empty() {
            return RailChoice::Auto;
        }
        if let Ok(count) = text.parse::<u64>() {
            if (1..=8).contains(&count) {
                return RailChoice::Count(count as u8);
            }
            self.complain(
                "FERRORAIL_RAILS",
                &text,
                "a count of rails is from 1 to 8".into(),
            );
            return RailChoice::Auto;
        }
        RailChoice::Names(text.split(',').map(|name| name.trim().to_owned()).collect())
    }

    /// Whole numbers separated by commas.
    fn numbers(&mut self, name: &str) -> Vec<u64> {
        const MOST: u64 = 1_000_000;
        let text = self.text(name);
        if text.trim().is_empty() {
            return Vec::new();
        }
        let numbers = text.split(',').map(|part| {
            let number = part.trim().parse().ok();
            number.filter(|&number| number <= MOST)
        });
        numbers.collect::<Option<_>>().unwrap_or_else(|| {
            let hint = format!("not whole numbers from 0 to {MOST}, separated by commas");
            self.complain(name, &text, hint);
            Vec::new()
        })
    }

    fn multicast_faults(&mut self) -> MulticastFaults {
        const NAME: &str = "FERRORAIL_MULTICAST_FAULTS";
        let text = self.text(NAME);
        MulticastFaults::parse(&text).unwrap_or_else(|hint| {
            self.complain(NAME, &text, hint);
            MulticastFaults::default()
        })
    }

    fn algorithm(&mut self) -> std::collections::BTreeMap<String, String> {
        let text = self.text("FERRORAIL_ALGORITHM");
        let mut forced = std::collections::BTreeMap::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            match part.split_once('=') {
                Some((collective, algorithm)) => {
                    forced.insert(collective.trim().to_owned(), algorithm.trim().to_owned());
                }
                None => self.complain(
                    "FERRORAIL_ALGORITHM",
                    &text,
                    format!("`{part}` is not of the form collective=algorithm"),
                ),
            }
        }
        forced
    }

    fn checksum(&self) -> ChecksumChoice {
        match self.text("FERRORAIL_BCAST_CHECKSUM").as_str() {
            "additive" => ChecksumChoice::Additive,
            "none" => ChecksumChoice::None,
            _ => ChecksumChoice::Crc32c,
        }
    }

    fn accumulate(&self) -> AccumulateChoice {
        match self.text("FERRORAIL_ACCUMULATE").as_str() {
            "event" => AccumulateChoice::Event,
            "auto" => AccumulateChoice::Auto,
            "nic" => AccumulateChoice::Nic,
            _ => AccumulateChoice::Origin,
        }
    }

    fn auto_or_switch(&self, name: &str) -> Option<bool> {
        match self.text(name).as_str() {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        }
    }

    fn settings(&mut self) -> Settings {
        let none_if_zero = |number: u64| (number != 0).then_some(number);
        let path = |text: String| (!text.is_empty()).then(|| text.into());
        Settings {
            enable: self.text("FERRORAIL_ENABLE") == "1",
            device_memory: self.text("FERRORAIL_DEVICE_MEMORY") != "none",
            presence_assumed: self.text("FERRORAIL_PRESENCE") == "assume",
            fabric: match self.text("FERRORAIL_FABRIC").as_str() {
                "loopback" => FabricChoice::Loopback,
                "verbs" => FabricChoice::Verbs,
                _ => FabricChoice::Auto,
            },
            rails: self.rails(),
            gid_index: self.auto_or_number("FERRORAIL_GID_INDEX"),
            ports: none_if_zero(self.number("FERRORAIL_PORTS")).map(|k| k as u8),
            queue_pairs_max: none_if_zero(self.number("FERRORAIL_QUEUE_PAIRS")),
            leaders: none_if_zero(self.number("FERRORAIL_LEADERS")).map(|l| l as u8),
            stripe_threshold: self.bytes("FERRORAIL_STRIPE_THRESHOLD"),
            stripe_policy: self.stripe_policy(),
            stripe_bytes_min: self.bytes("FERRORAIL_STRIPE_MIN"),
            node_size: none_if_zero(self.number("FERRORAIL_NODE_SIZE")).map(|q| q as u32),
            algorithm: self.algorithm(),
            tuning: path(self.text("FERRORAIL_TUNING")),
            scratch_bytes: self.bytes("FERRORAIL_SCRATCH").max(4096),
            zero_copy: self.auto_or_switch("FERRORAIL_ZERO_COPY"),
            shm: match self.text("FERRORAIL_SHM").as_str() {
                "memfd" => ShmKind::Memfd,
                "posix" => ShmKind::Posix,
                _ => ShmKind::Auto,
            },
            cma: self.text("FERRORAIL_CMA") != "off",
            spin: self.auto_or_number("FERRORAIL_SPIN"),
            peer_timeout_s: none_if_zero(self.number("FERRORAIL_PEER_TIMEOUT")),
            wait_signal: none_if_zero(self.number("FERRORAIL_WAIT_SIGNAL")).map(|n| n as i32),
            loopback_latency_ns: self.number("FERRORAIL_LOOPBACK_LATENCY"),
            loopback_bandwidths_mb_s: self.numbers("FERRORAIL_LOOPBACK_BANDWIDTH"),
            loopback_numa: self.numbers("FERRORAIL_LOOPBACK_NUMA"),
            loopback_faults: self.text("FERRORAIL_LOOPBACK_FAULTS"),
            multicast_faults: self.multicast_faults(),
            rail_timeout_ms: self.number("FERRORAIL_RAIL_TIMEOUT"),
            rail_suspect_ms: none_if_zero(self.number("FERRORAIL_RAIL_SUSPECT")),
            rail_retries: self.number("FERRORAIL_RAIL_RETRIES") as u8,
            rail_probe_ms: none_if_zero(self.number("FERRORAIL_RAIL_PROBE")),
            reliable: self.text("FERRORAIL_RELIABLE") == "1",
            multicast: self.text("FERRORAIL_MULTICAST") == "1",
            bcast_channels: self.number("FERRORAIL_BCAST_CHANNELS") as u32,
            bcast_eager_bytes: self.bytes("FERRORAIL_BCAST_EAGER"),
            bcast_reliable: self.text("FERRORAIL_BCAST_RELIABLE") == "1",
            bcast_checksum: self.checksum(),
            lock: match self.text("FERRORAIL_LOCK") {
                auto if auto == "auto" => None,
                name => Some(name),
            },
            accumulate: self.accumulate(),
            atomics: match self.text("FERRORAIL_ATOMICS").as_str() {
                "cpu" => AtomicsChoice::Cpu,
                "nic" => AtomicsChoice::Nic,
                _ => AtomicsChoice::Auto,
            },
            windows: self.windows(),
            stats: match self.text("FERRORAIL_STATS").as_str() {
                "0" | "" => StatsSink::Off,
                "1" => StatsSink::Print,
                file => StatsSink::File(file.into()),
            },
            log: self.text("FERRORAIL_LOG"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("FERRORAIL_LOOPBACK_BANDWIDTH", "100,fast"),
            ("FERRORAIL_MULTICAST_FAULTS", "drop=2"),
            ("FERRORAIL_ALGORITHM", "bruck"),
        ]);
        assert_eq!(settings.fabric, FabricChoice::Auto);
        let text: Vec<String> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            text,
            [
                "FERRORAIL_ALGORITHM=bruck: `bruck` is not of the form collective=algorithm",
                "FERRORAIL_FABRIC=verb: not one of auto, loopback, verbs; did you mean verbs?",
                "FERRORAIL_FABRIK=verbs: unknown setting; did you mean FERRORAIL_FABRIC?",
                "FERRORAIL_LOOPBACK_BANDWIDTH=100,fast: not whole numbers from 0 to 1000000, \
                 separated by commas",
                "FERRORAIL_MULTICAST_FAULTS=drop=2: `drop=2`: a probability is a decimal fraction \
                 from 0 to 1, such as 0.01",
                "FERRORAIL_PORTS=99: not a whole number from 0 to 8",
                "FERRORAIL_RAILS=0: a count of rails is from 1 to 8",
            ]
        );
    }
}
