//! Jiang, MPI-2 one-sided communication over InfiniBand (thesis, Ohio State University), 2004: `active` is
//! chapter 3 with what leads to it, `passive` chapter 4. It has no tables.

mod active;
mod passive;

pub use active::FIGURES as ACTIVE;
pub use passive::FIGURES as PASSIVE;

use super::{Machine, Nodes, Part};

/// Eight nodes with one process each; one rail, whose puts of 256 KB the thesis saw carry 865 MB/s.
const CLUSTER: Machine = Machine {
    ranks: 8,
    nodes: Nodes::OneEach,
    rails: &[
        ("FERRORAIL_RAILS", "1"),
        ("FERRORAIL_LOOPBACK_LATENCY", "5000"),
        ("FERRORAIL_LOOPBACK_BANDWIDTH", "870"),
    ],
};
/// The same where the host's messages are compared with, which no model slows down: rails without one.
const BESIDE_MESSAGES: Machine = Machine {
    rails: &[("FERRORAIL_RAILS", "1")],
    ..CLUSTER
};
const PAIR: Machine = Machine {
    ranks: 2,
    ..CLUSTER
};
const EVENT: &str = "Event Driven";
/// What is claimed of a figure that draws something.
const DRAWN: &str = "a drawing; the command shows how it is here";

const fn part(variant: &'static str, panel: &'static str) -> Part {
    Part {
        variant,
        panel,
        curve: "",
    }
}
