//! Collective algorithms as schedules, with verifier, cost model and selection.
//!
//! An algorithm is a pure function of (topology, rank, ports, protocol, root); its value is a
//! [`Schedule`] that the engine runs, `verify` proves, [`cost`] counts and [`select`] chooses.
//! Nothing here knows a network, a clock or an address.
//!
//! * [`schedule`]: steps, spans, buffers: the language;
//! * `builder`: writes schedules, hands out arrival slots and node phases;
//! * `pattern`: who talks to whom when, as pure arithmetic on indices;
//! * `group`: ranks, or nodes led by their leaders, as members that own runs of blocks;
//! * `tree`: messages along a tree of members; `node_tree`: the ranks of a node below its leader;
//! * [`EvenParts`]: consecutive things in parts, as many in each as can be;
//! * [`leaders`]: several leaders of a node, each with its own ports;
//! * `collective`, `algorithm`: what the tables of algorithms are made of;
//! * `allgather`, `bcast` and so on: a folder per collective, a file per algorithm, with the forms of it that use nodes'
//!   shared memory;
//! * `vector`: which of them serve the forms with blocks of different sizes;
//! * `registry`: the table of all algorithms by name; `semantics`: what collectives mean;
//! * `verify`: symbolic execution of all ranks' schedules with happens-before checking;
//! * [`cost`]: Hockney's model, counts of schedules and closed forms up to a million ranks;
//! * [`select`]: rules, as data, that choose an algorithm from what every rank knows.
//!
//! To add an algorithm: one file, one row in its collective's table; the exhaustive tests of
//! `verify` and [`cost`] walk the tables. To add a collective: a folder with a table, a variant
//! of [`Collective`] and its `Semantics`.
#![forbid(unsafe_code)]

mod algorithm;
mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod builder;
mod collective;
pub mod cost;
mod even_parts;
mod gather;
mod group;
pub mod leaders;
pub mod named;
mod node_tree;
mod pattern;
mod reduce;
mod reduce_scatter_block;
mod reduction;
mod registry;
#[cfg(test)]
mod sample;
mod scan;
mod scatter;
pub mod schedule;
pub mod select;
mod semantics;
mod tree;
mod vector;
#[cfg(test)]
mod verify;
mod work;

pub use algorithm::{Algorithm, Cut, RankOrder, Request};
pub use collective::{Collective, UnknownCollective, find_collective};
pub use even_parts::EvenParts;
pub use pattern::direct::place;
pub use registry::{UnknownAlgorithm, algorithms, find};
pub use schedule::{Buffer, Protocol, Schedule, Slot, Span, Step};
