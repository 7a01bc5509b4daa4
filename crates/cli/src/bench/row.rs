//! One row of the table of collectives.

use super::figures::Figure;
use super::mode::{self, Mode};
use super::operation::Operation;
use super::timing::Timing;
use ferrorail_engine::Facts;
use serde_json::{Value, json};

/// One size of one collective under one algorithm, beside the host's own.
pub struct Row {
    /// The collective.
    pub operation: &'static Operation,
    /// How it was measured.
    pub mode: Mode,
    /// The figure that it belongs to.
    pub figure: Option<&'static Figure>,
    /// Ranks that took part.
    pub ranks: usize,
    /// What rules see of them.
    pub facts: Option<Facts>,
    /// Bytes of a block or vector.
    pub bytes: usize,
    /// Forced algorithm, name of a curve or `auto`.
    pub algorithm: String,
    /// Settings in which it differs from the environment.
    pub settings: Vec<(String, String)>,
    /// Per block and implementation.
    pub iterations: u32,
    /// Whether ferrorail left calls to the host: the cell then says nothing about it.
    pub forwarded: bool,
    /// Multicasts that ranks sent for it, where it is about those: without any, a tree was measured.
    pub multicasts: Option<u64>,
    /// Datagrams that ranks did not receive, where nothing sends them again.
    pub lost: Option<u64>,
    /// Whether it is about a plain program.
    pub is_plain: bool,
    /// Ours.
    pub ferrorail: Timing,
    /// The host's.
    pub host: Timing,
    /// What this machine needs at least for a call, in µs, where that is known.
    pub bound_us: Option<f64>,
}

#[cfg(test)]
impl Row {
    /// Of `algorithm`, which took so many µs, and the host's 2.
    pub fn measured(name: &str, bytes: usize, algorithm: &str, us: f64) -> Self {
        Self {
            operation: Operation::named(name).unwrap(),
            mode: Mode::PLAIN,
            figure: None,
            ranks: 4,
            facts: None,
            bytes,
            algorithm: algorithm.to_owned(),
            settings: Vec::new(),
            iterations: 1,
            forwarded: false,
            multicasts: None,
            lost: None,
            is_plain: false,
            ferrorail: Timing::of(&[us]),
            host: Timing::of(&[2.0]),
            bound_us: None,
        }
    }
}

impl Row {
    /// Ours by the host's, of the medians: below 1 we are faster.
    pub fn ratio(&self) -> f64 {
        self.ferrorail.median_us() / self.host.median_us()
    }

    /// Ours by what this machine needs at least, of the median.
    pub fn by_bound(&self) -> Option<f64> {
        Some(self.ferrorail.median_us() / self.bound_us?)
    }

    /// Whether it says something about what it is named after, and about ferrorail.
    pub fn counts(&self) -> bool {
        !self.forwarded && !self.is_plain && self.multicasts != Some(0)
    }

    /// What goes into one mean: a curve of a figure, or else a collective.
    pub fn kind(&self) -> String {
        match self.figure {
            Some(_) => self.algorithm.clone(),
            None => self.name(),
        }
    }

    /// What limits what it says.
    pub fn remarks(&self) -> String {
        let forwarded = if self.forwarded { " forwarded" } else { "" };
        let by_tree = match self.multicasts {
            Some(0) => " no multicast",
            _ => "",
        };
        let lost = match self.lost {
            None | Some(0) => String::new(),
            Some(lost) => format!(" {lost} lost"),
        };
        format!("{forwarded}{by_tree}{lost}")
    }

    /// The collective, and how it was measured where that is not as usual.
    pub fn name(&self) -> String {
        format!("{}{}", self.operation.name, self.mode.suffix())
    }

    /// Everything that is needed to judge it later.
    pub fn json(&self) -> Value {
        let timing = |timing: &Timing| {
            json!({
                "median_us": timing.median_us(),
                "min_us": timing.min_us(),
                "blocks_us": timing.blocks_us,
            })
        };
        json!({
            "collective": self.operation.name,
            "buffers": mode::word(self.mode.reuse),
            "arrival": mode::word(self.mode.arrival),
            "barrier": self.mode.barrier,
            "ranks": self.ranks,
            "team": self.facts,
            "bytes": self.bytes,
            "algorithm": self.algorithm,
            "settings": self.settings.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "iterations": self.iterations,
            "forwarded": self.forwarded,
            "multicasts": self.multicasts,
            "lost": self.lost,
            "ferrorail": timing(&self.ferrorail),
            "host": timing(&self.host),
            "ratio": self.ratio(),
            "bound_us": self.bound_us,
        })
    }
}
