//! Copying between the processes of a node.
//!
//! * Through a segment: copied in by [`NodeSegment::copy_in`](crate::NodeSegment::copy_in), with the stores that suit the
//!   distance of the cores, and out by [`copy_out_of_shared`].
//! * By cross-memory attach ([`Cma`]): one copy, no segment, but a system call that pins pages, and
//!   a right that the system may withhold.
//!
//! Which is faster from what size on is measured, not guessed:
//! `cargo run --release -p ferrorail-shm --example copy_cutoff`.

mod cma;
mod loads;
mod past_caches;
mod staged;
mod stores;
mod written;

pub use cma::{Cma, cma_allow};
pub use loads::copy_out_of_shared;
pub use past_caches::{copy_past_caches, exceeds_caches};
pub use stores::ScratchKind;
pub(crate) use stores::copy_into_shared;
pub(crate) use written::Written;
