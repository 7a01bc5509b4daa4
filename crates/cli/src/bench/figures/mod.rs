//! Figures and tables of papers: what is compared, over which sizes and ranks, and what the paper found. They are
//! data, in a file for each paper; what all of them have in common is here.
//!
//! A file has `rails`, the settings that make loopback rails like the paper's (figures may have others); `curves`
//! by names that its figures refer to; and the figures.

mod findings;
mod machine;
#[cfg(test)]
mod tests;

pub use findings::{Finding, HOST, Sample, Unit, json, print, print_head};
pub use machine::{Machine, is_one_host};

use super::job_sizes::JobSizes;
use super::variant::{Variant, settings};
use anyhow::{Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const FILES: [&str; 3] = [
    include_str!("qian2008.toml"),
    include_str!("jiang2004.toml"),
    include_str!("yu2005.toml"),
];

/// Names of papers, in the order in which their figures are listed.
const PAPERS: [&str; 5] = ["qian2008", "icpp2007", "hpcs2007", "jiang2004", "yu2005"];

/// A figure or table of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is asked for by: the paper, and the number of the figure.
    pub name: String,
    /// Its name in another paper, which has it too.
    also: Option<String>,
    /// What it is about, in a few words.
    pub title: String,
    /// What the paper shows by it, in a line.
    #[serde(default = "drawn")]
    pub claim: String,
    /// What the paper measured on, which one host can stand in for.
    #[serde(default)]
    pub machine: Machine,
    /// How it is repeated.
    pub what: What,
    /// What its numbers are.
    #[serde(default)]
    pub unit: Unit,
    /// Sizes in the form of `--bytes`, which overrides them; empty for the benchmark's own.
    #[serde(default)]
    pub bytes: String,
    /// Names of what is compared beside the host.
    #[serde(default)]
    curves: Vec<String>,
    /// The paper's numbers, and how ours are made.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// How a figure is repeated.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Collectives by algorithm, over sizes and ranks.
    Collectives(Collectives),
    /// Messages without any collective: the paper's names of what is compared, and what they are.
    Transfers(Vec<(String, Transfer)>),
    /// A benchmark of one-sided communication under several settings.
    OneSided(OneSided),
    /// The applications, in jobs of their own, on its machine.
    Applications,
    /// It draws how something works: this command shows it here.
    Shown(String),
}

/// Collectives by algorithm, over sizes and ranks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collectives {
    /// Their names.
    pub names: Vec<String>,
    /// Ranks; `--job-sizes` overrides them.
    #[serde(default)]
    pub job_sizes: JobSizes,
}

/// What moves a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneSided {
    /// One of `rma-…`.
    pub benchmark: String,
    /// What is shown of it.
    pub parts: Vec<Part>,
    /// The paper's name for one-sided communication over the host's messages; empty where it is not compared.
    #[serde(default)]
    pub messages: String,
}

/// A variant of a benchmark.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name there.
    pub variant: String,
    /// What it is called in the figure.
    pub panel: String,
    /// The one curve that it makes, as it does not depend on who does one-sided communication; else empty.
    #[serde(default)]
    pub curve: String,
}

/// A file, or all of them.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Papers {
    #[serde(default, deserialize_with = "settings")]
    rails: Vec<(String, String)>,
    curves: BTreeMap<String, Variant>,
    figure: Vec<Figure>,
}

static ALL: LazyLock<Papers> = LazyLock::new(|| {
    let mut all = Papers::default();
    for text in FILES {
        let file: Papers = toml::from_str(text).expect("a file of figures");
        all.curves.extend(file.curves);
        for mut figure in file.figure {
            if figure.machine.rails.is_empty() {
                figure.machine.rails.clone_from(&file.rails);
            }
            let other = figure.also.clone().map(|name| Figure {
                name,
                ..figure.clone()
            });
            all.figure.extend([figure].into_iter().chain(other));
        }
    }
    let place = |figure: &Figure| {
        PAPERS
            .iter()
            .position(|paper| figure.name.starts_with(paper))
    };
    all.figure.sort_by_key(place);
    all
});

/// What is claimed of a figure that draws something.
fn drawn() -> String {
    "a drawing; the command shows how it is here".to_owned()
}

/// All figures.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    ALL.figure.iter()
}

/// What stands for the native all-gather of the papers by Qian and Afsahi.
pub fn native_allgather() -> &'static Variant {
    &ALL.curves["elan-allgather"]
}

/// The figure that `names` ask for; `None` if they ask for no paper's.
///
/// # Errors
/// One line with the nearest name; that figures are measured one by one.
pub fn named(names: &[String]) -> Result<Option<&'static Figure>> {
    let Some(name) = names.iter().find(|name| name.contains(':')) else {
        return Ok(None);
    };
    let figure = super::find("figure", name, &ALL.figure, |figure| &figure.name)?;
    if names.len() > 1 {
        bail!(
            "{name} is measured in a run of its own, so that nothing else of ferrorail is at work"
        );
    }
    Ok(Some(figure))
}

impl Figure {
    /// What it says of collectives, if it is about those.
    pub fn collectives(&self) -> Option<&Collectives> {
        match &self.what {
            What::Collectives(collectives) => Some(collectives),
            _ => None,
        }
    }

    /// What is compared beside the host.
    pub fn variants(&self) -> Vec<Variant> {
        let curves = self.curves.iter();
        curves.map(|name| ALL.curves[name].clone()).collect()
    }

    /// Its line in the list.
    pub fn line(&self) -> String {
        format!("{}: {}", self.title, self.claim)
    }

    /// How to run it.
    pub fn command(&self) -> String {
        match &self.what {
            What::Applications => format!("ferrorail bench {}", self.name),
            What::Shown(command) => command.clone(),
            _ => format!(
                "mpirun -n {} ferrorail bench {}",
                self.machine.ranks, self.name
            ),
        }
    }
}
