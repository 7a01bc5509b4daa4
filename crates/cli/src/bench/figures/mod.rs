//! Figures of papers as data: what is compared, over which sizes and ranks, and what the paper found. A
//! paper is a file with a table.

mod yu2005;

use super::job_sizes::JobSizes;
use super::variant::{By, Variant};
use anyhow::{Result, bail};

/// Stands for the host MPI among curves.
pub const HOST: &str = "host";

/// A figure of a paper.
#[derive(Debug)]
pub struct Figure {
    /// What it is asked for by: the paper, and the number of the figure.
    pub name: &'static str,
    /// What the paper shows by it, in a line.
    pub claim: &'static str,
    /// The collective.
    pub collective: &'static str,
    /// What is compared beside the host.
    pub curves: &'static [Curve],
    /// Sizes in the form of `--bytes`, which overrides them.
    pub bytes: &'static str,
    /// Ranks; `--job-sizes` overrides them.
    pub job_sizes: JobSizes,
    /// The paper's numbers, and how ours are made.
    pub findings: &'static [Finding],
}

/// A curve.
#[derive(Debug)]
pub struct Curve {
    /// The paper's name for it.
    pub label: &'static str,
    /// Settings that make it.
    pub settings: &'static [(&'static str, &'static str)],
    /// What does the work.
    pub by: By,
}

/// Something that the paper found.
#[derive(Debug)]
pub struct Finding {
    /// Of what.
    pub what: &'static str,
    /// What the paper says it is.
    pub paper: &'static str,
    /// Bytes of a message.
    pub bytes: usize,
    /// What it is here.
    pub ours: Quantity,
}

/// A number made of the medians of curves; with several job sizes, of the largest.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// µs of a curve.
    Time(&'static str),
    /// µs that the first takes longer than the second.
    Added(&'static str, &'static str),
    /// The first by the second.
    Ratio(&'static str, &'static str),
    /// Of one curve, the largest job by the smallest.
    Growth(&'static str),
}

const PAPERS: &[&[Figure]] = &[yu2005::FIGURES];

/// All figures.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    PAPERS.iter().flat_map(|figures| figures.iter())
}

/// The figure that `names` ask for; `None` if they ask for no paper's.
///
/// # Errors
/// One line with the nearest name; that figures are measured one by one.
pub fn named(names: &[String]) -> Result<Option<&'static Figure>> {
    let Some(name) = names.iter().find(|name| name.contains(':')) else {
        return Ok(None);
    };
    let Some(figure) = all().find(|figure| figure.name == name) else {
        let distance = |figure: &&Figure| strsim::damerau_levenshtein(name, figure.name);
        let nearest = all().min_by_key(distance).expect("there are figures");
        bail!(
            "there is no figure {name:?}; did you mean {:?}?",
            nearest.name
        )
    };
    if names.len() > 1 {
        bail!(
            "{name} is measured in a run of its own, so that nothing else of ferrorail is at work"
        );
    }
    Ok(Some(figure))
}

impl Figure {
    /// Its curves.
    pub fn variants(&self) -> Vec<Variant> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let variant = |curve: &Curve| Variant {
            label: curve.label.to_owned(),
            settings: curve.settings.iter().map(owned).collect(),
            by: curve.by,
        };
        self.curves.iter().map(variant).collect()
    }
}

impl Quantity {
    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time(_) | Self::Added(..) => "us",
            Self::Ratio(..) | Self::Growth(_) => "x",
        }
    }

    /// Its value, if all was measured; `time` gives µs of a curve, for the largest or else for the
    /// smallest job.
    pub fn value(self, time: impl Fn(&str, bool) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Time(curve) => time(curve, true),
            Self::Added(curve, base) => Some(time(curve, true)? - time(base, true)?),
            Self::Ratio(curve, base) => Some(time(curve, true)? / time(base, true)?),
            Self::Growth(curve) => Some(time(curve, true)? / time(curve, false)?),
        }
    }

    /// The curves it is made of.
    #[cfg(test)]
    fn curves(self) -> Vec<&'static str> {
        match self {
            Self::Time(curve) | Self::Growth(curve) => vec![curve],
            Self::Added(curve, base) | Self::Ratio(curve, base) => vec![curve, base],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::operation::Operation;
    use crate::bench::{sizes, variant};
    use ferrorail_coll::{find, find_collective};

    #[test]
    fn figures_are_complete() {
        for figure in all() {
            let name = figure.name;
            assert_eq!(
                all().filter(|other| other.name == name).count(),
                1,
                "{name}"
            );
            assert!(name.split_once(':').is_some() && figure.claim.lines().count() == 1);
            Operation::named(figure.collective).unwrap();
            let sizes = sizes::parse(figure.bytes).unwrap().0;
            for curve in figure.curves {
                let is_raw = curve.by == By::RawMulticast;
                assert!(!is_raw || (curve.settings.is_empty() && figure.collective == "bcast"));
                for (setting, value) in curve.settings {
                    variant::check(setting, value).unwrap();
                    let forced = value
                        .split_once('=')
                        .filter(|_| *setting == "FERRORAIL_ALGORITHM");
                    let Some((collective, algorithm)) = forced else {
                        continue;
                    };
                    let algorithm = find(find_collective(collective).unwrap(), algorithm).unwrap();
                    let by = if algorithm.multicast {
                        By::Multicast
                    } else {
                        By::Library
                    };
                    assert_eq!(curve.by, by, "{name}: {}", curve.label);
                }
            }
            assert!(!figure.findings.is_empty(), "{name}");
            for finding in figure.findings {
                assert!(sizes.contains(&finding.bytes), "{name}: {}", finding.what);
                for label in finding.ours.curves() {
                    let known = figure.curves.iter().any(|curve| curve.label == label);
                    assert!(known || label == HOST, "{name}: {label}");
                }
            }
        }
    }

    #[test]
    fn figures_are_found_by_name() {
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            super::named(&names)
        };
        assert!(named(&["bcast", "gather"]).unwrap().is_none());
        let figure = named(&["yu2005:fig10"]).unwrap().unwrap();
        assert_eq!(figure.name, "yu2005:fig10");
        let text = |names| named(names).unwrap_err().to_string();
        assert!(text(&["yu2005:fig77"]).ends_with("did you mean \"yu2005:fig7\"?"));
        assert!(text(&["bcast", "yu2005:fig7"]).contains("in a run of its own"));
    }

    #[test]
    fn quantities_are_made_of_times() {
        let time = |curve: &str, largest: bool| match (curve, largest) {
            ("a", true) => Some(6.0),
            ("a", false) => Some(2.0),
            ("b", true) => Some(4.0),
            _ => None,
        };
        let value = |quantity: Quantity| quantity.value(time);
        assert_eq!(value(Quantity::Time("a")), Some(6.0));
        assert_eq!(value(Quantity::Added("a", "b")), Some(2.0));
        assert_eq!(value(Quantity::Ratio("a", "b")), Some(1.5));
        assert_eq!(value(Quantity::Growth("a")), Some(3.0));
        assert_eq!(value(Quantity::Growth("b")), None);
        assert_eq!(value(Quantity::Ratio("a", "c")), None);
    }
}
