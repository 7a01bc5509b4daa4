//! `ferrorail bench rma-…`: one-sided communication.
//!
//! * `window`: what figures need of one-sided communication, and who has it: `mpi_window`, an MPI
//!   library (the host, or ours before it); `send_receive`, the baseline over messages;
//! * `figures`: what is measured, a small file for each kind of question;
//! * `run`: what a figure works with; `verify`: whether data arrives;
//! * `driver`: blocks of all implementations by turns; `report`: tables and JSON.

mod driver;
mod figures;
mod mpi_window;
mod report;
mod run;
mod send_receive;
mod verify;
mod window;

pub use driver::run;
pub use mpi_window::Memory;

use super::figures::{Figure as Paper, OneSided, Part};
use super::timing::Limits;
use super::variant::Variant;
use super::{Args, BUDGET, BUDGET_OF_FIGURE};
use anyhow::{Result, bail};
use figures::{Cell, FIGURES, Figure};
use std::fmt::Write as _;

/// What stands for all figures.
const ALL: &str = "rma";

/// What is compared beside the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Baseline {
    /// Operations queued, and sent at the end of the epoch
    SendReceive,
}

/// Which figures are measured, and how.
pub struct Plan<'a> {
    args: &'a Args,
    figures: Vec<&'static Figure>,
    /// Whether all were asked for, as far as the ranks suffice.
    all: bool,
    limits: Limits,
    baseline: Option<Baseline>,
    variants: Vec<Variant>,
    /// The figure of a paper that is repeated, and what it says of one-sided communication.
    paper: Option<(&'static Paper, &'static OneSided)>,
}

impl<'a> Plan<'a> {
    /// `None` if the arguments are about collectives.
    pub fn new(args: &'a Args) -> Result<Option<Self>> {
        let Some(figures) = named(&args.collectives)? else {
            return Ok(None);
        };
        let all = args.collectives.iter().any(|name| name == ALL);
        Self::of(args, figures, all).map(Some)
    }

    /// A figure of a paper.
    ///
    /// # Errors
    /// One line about what cannot be measured.
    pub fn of_paper(
        args: &'a Args,
        paper: &'static Paper,
        shown: &'static OneSided,
    ) -> Result<Self> {
        let figures = named(std::slice::from_ref(&shown.benchmark))?.unwrap_or_default();
        Ok(Self {
            limits: args.limits(BUDGET_OF_FIGURE),
            baseline: match shown.messages.as_str() {
                "" => args.baseline,
                _ => Some(Baseline::SendReceive),
            },
            variants: paper.variants(),
            paper: Some((paper, shown)),
            ..Self::of(args, figures, false)?
        })
    }

    fn of(args: &'a Args, figures: Vec<&'static Figure>, all: bool) -> Result<Self> {
        if !args.algorithms.is_empty() || args.is_for_collectives() {
            bail!(
                "--algorithms, --barrier, --buffers, --arrival, --root, --job-sizes and --plain are for collectives"
            );
        }
        Ok(Self {
            args,
            figures,
            all,
            limits: args.limits(BUDGET),
            baseline: args.baseline,
            variants: args.variants(),
            paper: None,
        })
    }

    /// What a paper's figure shows of this variant; `None` if nothing, or there is no such figure.
    fn part(&self, variant: &str) -> Option<&'static Part> {
        let (_, shown) = self.paper?;
        shown.parts.iter().find(|part| part.variant == variant)
    }

    /// The points of a figure for so many ranks.
    fn cells(&self, figure: &Figure, ranks: u32) -> Vec<Cell> {
        let of_paper = self.paper.map_or("", |(paper, _)| paper.bytes.as_str());
        let sizes = match (figure.bytes, of_paper) {
            ("", _) => vec![0],
            (usual, "") => self.args.sizes_or(usual),
            (_, usual) => self.args.sizes_or(usual),
        };
        let parameters = figure
            .parameter
            .map_or(vec![0], |(_, values)| values(ranks));
        let mut cells = Vec::new();
        let shown = |variant: &str| self.paper.is_none() || self.part(variant).is_some();
        let variants = figure.variants.iter().filter(|(name, _)| shown(name));
        for &(variant, need) in variants {
            for &bytes in &sizes {
                cells.extend(parameters.iter().map(|&parameter| Cell {
                    variant,
                    need,
                    bytes,
                    parameter,
                }));
            }
        }
        cells
    }
}

/// The figures of these names; `None` if none is one's.
fn named(names: &[String]) -> Result<Option<Vec<&'static Figure>>> {
    let is_ours = |name: &&String| **name == ALL || name.starts_with("rma-");
    match names.iter().filter(is_ours).count() {
        0 => return Ok(None),
        ours if ours < names.len() => {
            bail!("collectives and one-sided communication are measured in runs of their own")
        }
        _ => {}
    }
    if names.iter().any(|name| name == ALL) {
        return Ok(Some(FIGURES.iter().collect()));
    }
    let find = |name: &String| super::find("benchmark", name, FIGURES, |figure| figure.name);
    names.iter().map(find).collect::<Result<_>>().map(Some)
}

/// The figures, and a line about each.
pub fn listed() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIGURES.iter().map(|figure| (figure.name, figure.about))
}

/// What `--help` says of the figures.
pub fn help() -> String {
    let mut text =
        "Figures of papers are listed by --list. One-sided communication, between rank 0 and the last \
         where two take part:\n"
            .to_owned();
    for figure in FIGURES {
        let _ = writeln!(text, "  {:<15} {}", figure.name, figure.about);
    }
    text
}

/// The variants of a benchmark, and whether something else than sizes varies.
#[cfg(test)]
pub fn variants(benchmark: &str) -> (Vec<&'static str>, bool) {
    let found = FIGURES.iter().find(|figure| figure.name == benchmark);
    let figure = found.expect("the benchmark's name");
    let names = figure.variants.iter().map(|variant| variant.0);
    (names.collect(), figure.parameter.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_told_from_collectives() {
        let named =
            |names: &[&str]| named(&names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>());
        assert!(named(&["bcast"]).unwrap().is_none());
        assert_eq!(named(&["rma"]).unwrap().unwrap().len(), FIGURES.len());
        let two = named(&["rma-lock", "rma-sync"]).unwrap().unwrap();
        assert_eq!([two[0].name, two[1].name], ["rma-lock", "rma-sync"]);
        let error = named(&["rma-lok"]).err().unwrap().to_string();
        assert!(error.ends_with("did you mean \"rma-lock\"?"), "{error}");
        assert!(named(&["bcast", "rma-lock"]).is_err());
    }

    #[test]
    fn every_figure_has_a_name_of_its_own_and_points() {
        for (index, figure) in FIGURES.iter().enumerate() {
            assert!(figure.name.starts_with("rma-") && !figure.variants.is_empty());
            assert!(
                FIGURES[..index]
                    .iter()
                    .all(|other| other.name != figure.name)
            );
            if let Some((_, values)) = figure.parameter {
                assert!(!values(figure.ranks).is_empty(), "{}", figure.name);
            }
            let is_right = crate::bench::sizes::parse(figure.bytes).is_ok();
            assert!(figure.bytes.is_empty() || is_right, "{}", figure.name);
        }
    }
}
