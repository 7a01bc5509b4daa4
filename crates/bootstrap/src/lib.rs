//! Who is there: how the ranks of a job find one another before any rail exists, and what each can
//! know about its host.
//!
//! * [`oob`]: the [`Oob`] trait (slow but safe exchange) and its implementations; [`from_env`] gives
//!   a program started by `ferrorail run` its world;
//! * [`run_env`]: the variables through which `ferrorail run` tells a process its place;
//! * [`probe`]: host and process identity, cores, NUMA nodes.
//!
//! Everything here may block and allocate: it serves start-up and team creation, never a collective.
//! A call that needs a rank which has died fails; none waits for it.
//!
//! This crate does not know fabrics: it works before any network does.

#![forbid(unsafe_code)]
// Ranks that are threads of one process wait for each other on a condition variable.
#![allow(clippy::disallowed_types)]

pub mod oob;
pub mod probe;
pub mod run_env;

pub use oob::{InProcess, Oob, OobError, Rendezvous, SocketOob, from_env, greatest};
pub use probe::HostInfo;
pub use run_env::RunEnv;
