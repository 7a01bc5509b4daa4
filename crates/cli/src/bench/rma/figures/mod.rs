//! The figures of Jiang's thesis (MPI-2 one-sided communication over InfiniBand, 2004; chapters 3
//! and 4), one file for each kind of question, and a few of today's.

mod accumulate;
mod bandwidth;
mod concurrency;
mod delay;
mod handover;
mod idle;
mod latency;
mod lock;
mod messages;
mod overlap;
mod sync;
mod threads;

use super::run::Run;
use super::window::Need;
use anyhow::Result;

/// What a number of a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// µs of the slowest rank that takes part.
    Time,
    /// µs in the mean of the ranks that take part.
    MeanTime,
    /// The same, of moving a burst of messages from each origin: shown as bytes per µs too.
    Burst,
    /// Per cent of a core, in the mean of the ranks that take part.
    Percent,
    /// Messages, in the mean of the ranks that take part.
    Messages,
}

/// A parameter beside the size of messages: its name, and its values for so many ranks.
pub type Parameter = (&'static str, fn(u32) -> Vec<u64>);

/// One benchmark.
pub struct Figure {
    /// What it is asked for by.
    pub name: &'static str,
    /// A line for people.
    pub about: &'static str,
    /// Its curves, and what each needs.
    pub variants: &'static [(&'static str, Need)],
    /// Sizes of messages in the form of `--bytes`, which overrides them; empty where none matters.
    pub bytes: &'static str,
    /// Another parameter.
    pub parameter: Option<Parameter>,
    /// Fewest ranks.
    pub ranks: u32,
    /// What its numbers are.
    pub kind: Kind,
    /// Whether all ranks but one may be origins, instead of one.
    pub many_origins: bool,
    /// Whether every rank has a window of its own.
    pub many_windows: bool,
    /// Does the work of one block; the value of this rank per iteration, if it takes part.
    pub run: fn(&mut Run<'_, '_>, &Cell) -> Result<Option<f64>>,
}

/// A point of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The curve.
    pub variant: &'static str,
    /// What that needs.
    pub need: Need,
    /// Bytes of a message.
    pub bytes: usize,
    /// Value of the other parameter, or 0.
    pub parameter: u64,
}

/// What most figures have.
const PLAIN: Figure = Figure {
    name: "",
    about: "",
    variants: &[],
    bytes: "",
    parameter: None,
    ranks: 2,
    kind: Kind::Time,
    many_origins: false,
    many_windows: false,
    run: |_, _| Ok(None),
};

/// All of them.
pub const FIGURES: &[Figure] = &[
    latency::FIGURE,
    bandwidth::FIGURE,
    sync::FIGURE,
    sync::ORIGINS,
    overlap::OVERLAP,
    overlap::SKEW,
    bandwidth::ORIGINS,
    accumulate::FIGURE,
    lock::FIGURE,
    handover::FIGURE,
    delay::FIGURE,
    concurrency::WINDOWS,
    concurrency::PAIRS,
    messages::FIGURE,
    threads::FIGURE,
    idle::FIGURE,
];

/// Origins 1 to all ranks but the target.
fn others(ranks: u32) -> Vec<u64> {
    (1..u64::from(ranks)).collect()
}
