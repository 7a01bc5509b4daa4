//! Vocabulary of ferrorail, shared by every crate and free of policy.
//!
//! * [`fiber`]: calls that can be left while they wait;
//! * [`hash`]: numbers of bytes that all processes agree on;
//! * [`ids`]: rank, node, rail and peer newtypes;
//! * [`topology`]: which rank lives on which node, who leads;
//! * [`complaint`]: lines on standard error;
//! * [`config`]: the one table of every `FERRORAIL_*` setting;
//! * [`last_cache`]: what the kernel says of it;
//! * [`memory`]: user and shared memory as checked address ranges;
//! * [`names`]: those that are nearly right;
//! * [`process_time`]: time since a process began to ask;
//! * [`random`]: numbers from seeds;
//! * [`runs`]: where the data of a derived datatype lies, and packing it;
//! * [`sync`]: the only importer of the standard atomics (loom under `--cfg loom`);
//! * [`units`]: sizes such as `64K`.
//!
//! This crate imports no other crate of the project.

pub mod complaint;
pub mod config;
#[cfg(not(loom))]
pub mod fiber;
pub mod hash;
pub mod ids;
pub mod last_cache;
pub mod memory;
pub mod names;
pub mod process_time;
pub mod random;
pub mod runs;
pub mod sync;
pub mod topology;
pub mod units;

pub use complaint::complain;
pub use ids::{NodeId, NodeRank, PeerId, ProcessId, RailId, Rank};
pub use topology::Topology;
