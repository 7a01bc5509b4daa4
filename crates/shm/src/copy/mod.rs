//! Copying between the processes of a node.
//!
//! * Through a segment: copy in, copy out, both with
//!   [`MemoryRange::copy_to`](ferrorail_base::memory::MemoryRange::copy_to). The C library's
//!   `memcpy` behind it already switches to non-temporal stores for lengths beyond the shared cache,
//!   so there is no variant of our own.
//! * By cross-memory attach ([`Cma`]): one copy, no segment, but a system call that pins pages, and
//!   a right that the system may withhold.
//!
//! Which is faster from what size on is measured, not guessed:
//! `cargo run --release -p ferrorail-shm --example copy_cutoff`.

mod cma;

pub use cma::{Cma, cma_allow};
