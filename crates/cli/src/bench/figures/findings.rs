//! What a paper found beside what was measured.

use super::Figure;
use ferrorail_base::units::{format_bytes, parse_bytes};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// Stands for the host MPI among curves.
pub const HOST: &str = "host";

/// One measured point.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Which part of the figure: a collective, a variant of a benchmark.
    pub panel: String,
    /// Whose point.
    pub curve: String,
    /// Bytes of a message, or another parameter.
    pub x: u64,
    /// Ranks that took part.
    pub ranks: usize,
    /// Median over blocks, in the figure's unit.
    pub value: f64,
    /// The same of the block that was disturbed least.
    pub best: f64,
}

impl Sample {
    /// Whether it is of the same curve at the same place.
    pub fn is_at(&self, other: &Self) -> bool {
        let place = |sample: &Self| (sample.x, sample.ranks);
        place(self) == place(other) && self.curve == other.curve && self.panel == other.panel
    }
}

/// What the numbers of a figure are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// µs.
    #[default]
    Time,
    /// 10^6 bytes per second.
    Bandwidth,
    /// Messages of a lock and unlock.
    Messages,
    /// Of a core.
    Percent,
}

impl Unit {
    /// As text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Time => "us",
            Self::Bandwidth => "MB/s",
            Self::Messages => "messages",
            Self::Percent => "%",
        }
    }
}

/// Something that the paper found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Of what.
    pub what: String,
    /// What the paper says it is.
    pub paper: String,
    /// Part of the figure; empty for the only one.
    #[serde(default)]
    pub panel: String,
    /// Bytes of a message, or the value of what else varies.
    #[serde(default, deserialize_with = "size")]
    pub at: u64,
    /// What it is here.
    pub ours: Quantity,
}

/// A number made of the medians of curves; with several job sizes, of the largest.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Of a curve.
    Value(String),
    /// By which the first is more than the second.
    Added(String, String),
    /// The first by the second.
    Ratio(String, String),
    /// Of one curve, the largest job by the smallest.
    Growth(String),
    /// Of one curve, there by its first point.
    Rise(String),
    /// The last size up to which the first is never slower than the second, from the smallest on.
    Crossing(String, String),
}

#[cfg(test)]
impl Quantity {
    /// The curves it is made of.
    pub fn curves(&self) -> Vec<&str> {
        match self {
            Self::Value(curve) | Self::Growth(curve) | Self::Rise(curve) => vec![curve],
            Self::Added(curve, base) | Self::Ratio(curve, base) | Self::Crossing(curve, base) => {
                vec![curve, base]
            }
        }
    }
}

/// A number in the form of sizes.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    parse_bytes(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is no size")))
}

impl Finding {
    /// Its unit in a figure that shows `unit`.
    pub fn unit(&self, unit: Unit) -> &'static str {
        match &self.ours {
            Quantity::Value(_) | Quantity::Added(..) => unit.text(),
            Quantity::Ratio(..) | Quantity::Growth(_) | Quantity::Rise(_) => "x",
            Quantity::Crossing(..) => "bytes",
        }
    }

    /// Its value in `samples`, of medians; `None` if something that it is made of was not measured.
    pub fn measured(&self, samples: &[Sample]) -> Option<f64> {
        self.made_of(samples, |sample| sample.value)
    }

    /// The same of blocks that were disturbed least, which says more beside other load.
    pub fn at_best(&self, samples: &[Sample]) -> Option<f64> {
        self.made_of(samples, |sample| sample.best)
    }

    fn made_of(&self, samples: &[Sample], value: fn(&Sample) -> f64) -> Option<f64> {
        let points = |curve: &str| -> Vec<&Sample> {
            let is_one = |sample: &&Sample| {
                sample.curve == curve && (self.panel.is_empty() || sample.panel == self.panel)
            };
            let mut points: Vec<&Sample> = samples.iter().filter(is_one).collect();
            points.sort_by_key(|sample| (sample.ranks, sample.x));
            points
        };
        let at = |curve: &str, largest: bool| {
            let here = points(curve).into_iter();
            let mut here = here.filter(|sample| sample.x == self.at);
            let sample = match largest {
                true => here.next_back(),
                false => here.next(),
            };
            sample.map(value)
        };
        match &self.ours {
            Quantity::Value(curve) => at(curve, true),
            Quantity::Added(curve, base) => Some(at(curve, true)? - at(base, true)?),
            Quantity::Ratio(curve, base) => Some(at(curve, true)? / at(base, true)?),
            Quantity::Growth(curve) => Some(at(curve, true)? / at(curve, false)?),
            Quantity::Rise(curve) => Some(at(curve, true)? / value(points(curve).first()?)),
            Quantity::Crossing(curve, base) => crossing(&points(curve), &points(base), value),
        }
    }

    /// What stands in the table.
    fn text(&self, value: Option<f64>, unit: Unit) -> String {
        let Some(value) = value else {
            return "not measured".to_owned();
        };
        match &self.ours {
            Quantity::Crossing(..) if value < 0.0 => "nowhere".to_owned(),
            Quantity::Crossing(..) => format!("up to {}", format_bytes(value as u64)),
            _ => format!("{value:.3} {}", self.unit(unit)),
        }
    }
}

/// Both by ranks and size; of the largest job. -1 if `curve` is slower from the start.
fn crossing(curve: &[&Sample], base: &[&Sample], value: fn(&Sample) -> f64) -> Option<f64> {
    let ranks = curve.last()?.ranks;
    let mut last = None;
    let largest = curve.iter().filter(|sample| sample.ranks == ranks);
    for sample in largest {
        let other = base
            .iter()
            .find(|other| other.ranks == ranks && other.x == sample.x)?;
        if value(sample) > value(other) {
            return Some(last.unwrap_or(-1.0));
        }
        last = Some(sample.x as f64);
    }
    last
}

/// Prints what a figure is about, above its table, and what stands for the paper's machine.
pub fn print_head(figure: &Figure) {
    outln!("# {}, {}: {}", figure.name, figure.title, figure.claim);
    let apart = ["FERRORAIL_PRESENCE", "FERRORAIL_LIBRARY"];
    let is_shown = |name: &str| name.starts_with("FERRORAIL_") && !apart.contains(&name);
    let set = std::env::vars().filter(|(name, _)| is_shown(name));
    let mut set: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
    set.sort();
    if !set.is_empty() {
        outln!("# With {}", set.join(" "));
    }
}

/// Prints a figure's claim and findings beside what `samples` make of them.
pub fn print(figure: &Figure, samples: &[Sample]) {
    outln!("#\n# {}: {}", figure.name, figure.claim);
    if figure.findings.is_empty() {
        return;
    }
    outln!(
        "# {:<52} {:<22} {:>16} {:>16}",
        "",
        "Paper",
        "least disturbed",
        "Here"
    );
    for finding in &figure.findings {
        let text = |value| finding.text(value, figure.unit);
        let (best, here) = (
            text(finding.at_best(samples)),
            text(finding.measured(samples)),
        );
        let (what, paper) = (&finding.what, &finding.paper);
        outln!("# {what:<52} {paper:<22} {best:>16} {here:>16}");
    }
}

/// The same for the report.
pub fn json(figure: &Figure, samples: &[Sample]) -> Value {
    let findings = figure.findings.iter().map(|finding| {
        json!({
            "what": finding.what,
            "paper": finding.paper,
            "at": finding.at,
            "unit": finding.unit(figure.unit),
            "here": finding.measured(samples),
            "least_disturbed": finding.at_best(samples),
        })
    });
    json!({
        "name": figure.name,
        "title": figure.title,
        "claim": figure.claim,
        "findings": findings.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Sample> {
        let sample = |curve: &str, x, ranks, value| Sample {
            panel: "gather".to_owned(),
            curve: curve.to_owned(),
            x,
            ranks,
            value,
            best: value / 2.0,
        };
        vec![
            sample("a", 4, 2, 2.0),
            sample("a", 4, 8, 6.0),
            sample("a", 8, 8, 9.0),
            sample("b", 4, 8, 7.5),
            sample("b", 8, 8, 8.0),
        ]
    }

    #[test]
    fn quantities_are_made_of_samples() {
        let finding = |ours: &str, panel: &str| -> Finding {
            let text =
                format!("what = ''\npaper = ''\npanel = '{panel}'\nat = '4'\nours = {{ {ours} }}");
            toml::from_str(&text).unwrap()
        };
        let value = |ours, panel| finding(ours, panel).measured(&samples());
        let of = |ours| value(ours, "");
        assert_eq!(of("value = 'a'"), Some(6.0));
        let of_best = finding("added = ['b', 'a']", "");
        assert_eq!(of_best.at_best(&samples()), Some(0.75));
        assert_eq!(of("rise = 'a'"), Some(3.0));
        assert_eq!(of("added = ['b', 'a']"), Some(1.5));
        assert_eq!(of("ratio = ['b', 'a']"), Some(1.25));
        assert_eq!(of("growth = 'a'"), Some(3.0));
        assert_eq!(of("growth = 'c'"), None);
        assert_eq!(of("crossing = ['a', 'b']"), Some(4.0));
        assert_eq!(of("crossing = ['b', 'a']"), Some(-1.0));
        assert_eq!(of("crossing = ['a', 'c']"), None);
        assert_eq!(value("value = 'a'", "gather"), Some(6.0));
        assert_eq!(value("value = 'a'", "bcast"), None);
    }
}
