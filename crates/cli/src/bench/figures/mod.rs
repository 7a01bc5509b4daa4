//! Figures and tables of papers as data: what is compared, over which sizes and ranks, and what the paper
//! found. A paper is a file with a table; figures that show the same kind of thing share one measurement.

mod applications;
mod findings;
mod hpcs2007;
mod icpp2007;
mod jiang2004;
mod machine;
mod native;
mod qian2008;
#[cfg(test)]
mod tests;
mod yu2005;

pub use findings::{Finding, HOST, Quantity, Sample, Unit, json, print, print_head};
pub use machine::{Machine, Nodes, is_one_host};
pub use native::ALLGATHER as NATIVE_ALLGATHER;

use super::job_sizes::JobSizes;
use super::variant::{By, Variant};
use anyhow::{Result, bail};

/// A figure or table of a paper.
#[derive(Debug)]
pub struct Figure {
    /// What it is asked for by: the paper, and the number of the figure.
    pub name: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// What the paper shows by it, in a line.
    pub claim: &'static str,
    /// What the paper measured on, which one host can stand in for.
    pub machine: Machine,
    /// How it is repeated.
    pub what: What,
    /// The paper's numbers, and how ours are made.
    pub findings: &'static [Finding],
}

/// How a figure is repeated.
#[derive(Debug)]
pub enum What {
    /// Collectives by algorithm, over sizes and ranks.
    Collectives(Collectives),
    /// Messages without any collective: puts over rails, copies within a node.
    Transfers(Transfers),
    /// A benchmark of one-sided communication under several settings.
    OneSided(OneSided),
    /// The applications, in jobs of their own, on its machine.
    Applications,
    /// It draws how something works: this command shows it here.
    Shown(&'static str),
}

/// Collectives by algorithm, over sizes and ranks.
#[derive(Debug)]
pub struct Collectives {
    /// Their names.
    pub names: &'static [&'static str],
    /// What is compared beside the host.
    pub curves: &'static [Curve],
    /// Sizes in the form of `--bytes`, which overrides them.
    pub bytes: &'static str,
    /// Ranks; `--job-sizes` overrides them.
    pub job_sizes: JobSizes,
    /// What is shown.
    pub unit: Unit,
}

/// Messages without any collective.
#[derive(Debug)]
pub struct Transfers {
    /// What is compared: the paper's names, and what they are.
    pub curves: &'static [(&'static str, Transfer)],
    /// Sizes in the form of `--bytes`, which overrides them.
    pub bytes: &'static str,
    /// What is shown.
    pub unit: Unit,
}

/// What moves a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Bursts of puts of rank 0 to the last rank over so many rails; or of both to each other.
    Put {
        /// Rails.
        rails: u8,
        /// Whether both put at once.
        both_ways: bool,
    },
    /// Puts of rank 0 and the last rank in turns: half of the way to and fro.
    Ping {
        /// Rails.
        rails: u8,
    },
    /// Gets of rank 0 from the last rank over one rail, one after the other.
    Get,
    /// Rank 0 and rank 1 in turns: copied into a shared buffer, announced by a flag, copied out of it.
    SharedBuffer,
    /// The first so many ranks copy at once into parts of a shared region.
    Copies(usize),
}

/// A benchmark of one-sided communication under several settings.
#[derive(Debug)]
pub struct OneSided {
    /// One of `rma-…`.
    pub benchmark: &'static str,
    /// What is shown of it.
    pub parts: &'static [Part],
    /// What is compared beside the host.
    pub curves: &'static [Curve],
    /// The paper's name for one-sided communication over the host's messages; empty where it is not compared.
    pub messages: &'static str,
    /// Sizes in the form of `--bytes`, which overrides them; empty for the benchmark's own.
    pub bytes: &'static str,
    /// What is shown.
    pub unit: Unit,
}

/// A variant of a benchmark.
#[derive(Debug)]
pub struct Part {
    /// Its name there.
    pub variant: &'static str,
    /// What it is called in the figure.
    pub panel: &'static str,
    /// The one curve that it makes, as it does not depend on who does one-sided communication; else empty.
    pub curve: &'static str,
}

/// A curve.
#[derive(Debug)]
pub struct Curve {
    /// The paper's name for it.
    pub label: &'static str,
    /// The only collective that it is about; empty for all of the figure.
    pub of: &'static str,
    /// Settings that make it.
    pub settings: &'static [(&'static str, &'static str)],
    /// What does the work.
    pub by: By,
}

const PAPERS: &[&[Figure]] = &[
    qian2008::FIGURES,
    &[applications::TABLE1],
    icpp2007::FIGURES,
    hpcs2007::FIGURES,
    jiang2004::ACTIVE,
    jiang2004::PASSIVE,
    yu2005::FIGURES,
];

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

/// The library, with these settings.
const fn library(label: &'static str, settings: &'static [(&str, &str)]) -> Curve {
    Curve {
        label,
        of: "",
        settings,
        by: By::Library,
    }
}

impl Curve {
    /// The same of one collective only.
    const fn of(self, collective: &'static str) -> Self {
        Self {
            of: collective,
            ..self
        }
    }

    /// As something that is compared.
    fn variant(&self) -> Variant {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Variant {
            label: self.label.to_owned(),
            of: self.of.to_owned(),
            settings: self.settings.iter().map(owned).collect(),
            by: self.by,
        }
    }
}

impl Figure {
    /// A drawing: what `command` shows here.
    const fn drawing(
        name: &'static str,
        title: &'static str,
        claim: &'static str,
        command: &'static str,
    ) -> Self {
        Self {
            name,
            title,
            claim,
            machine: Machine::HERE,
            what: What::Shown(command),
            findings: &[],
        }
    }

    /// What it says of collectives, if it is about those.
    pub fn collectives(&self) -> Option<&Collectives> {
        match &self.what {
            What::Collectives(collectives) => Some(collectives),
            _ => None,
        }
    }

    /// What its numbers are.
    pub fn unit(&self) -> Unit {
        match &self.what {
            What::Collectives(collectives) => collectives.unit,
            What::Transfers(transfers) => transfers.unit,
            What::OneSided(one_sided) => one_sided.unit,
            What::Applications | What::Shown(_) => Unit::Time,
        }
    }

    /// The settings that are compared.
    pub fn variants(&self) -> Vec<Variant> {
        let curves = match &self.what {
            What::Collectives(collectives) => collectives.curves,
            What::OneSided(one_sided) => one_sided.curves,
            _ => &[],
        };
        curves.iter().map(Curve::variant).collect()
    }

    /// Its line in the list.
    pub fn line(&self) -> String {
        format!("{}: {}", self.title, self.claim)
    }

    /// How to run it.
    pub fn command(&self) -> String {
        match self.what {
            What::Applications => format!("ferrorail bench {}", self.name),
            What::Shown(command) => command.to_owned(),
            _ => format!(
                "mpirun -n {} ferrorail bench {}",
                self.machine.ranks, self.name
            ),
        }
    }
}
