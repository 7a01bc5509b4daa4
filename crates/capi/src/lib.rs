//! `libferrorail.so`: MPI entry points that call the engine, for `LD_PRELOAD` or `-lferrorail`.
//!
//! It translates and never computes. One file serves every MPI library, C and Fortran: handles stay
//! the host's own, what differs between libraries comes from `ferrorail_mpi_abi` at run time.
//!
//! * `exports`: the symbols, each under its `MPI_*` and `PMPI_*` name (the list is `exports.txt`);
//! * `runtime`: the host MPI, found at the first wrapped call;
//! * `session`, `lifetime`: what exists between `MPI_Init` and `MPI_Finalize`, and how it begins and ends;
//! * `thread`: what a thread has of its own;
//! * `stack`: whether a call is still under way, or a callback has left it by a jump;
//! * `collective`: argument checks, then the engine or the host;
//! * `window`: one-sided communication, likewise;
//! * `team_cache`: from a communicator to its team, without an MPI call when it was used last;
//! * `comm_settings`: settings that a program gives one communicator, by info keys;
//! * `datatype`: predefined types to bytes, derived ones flattened once, packed and unpacked;
//! * `operation`, `local_reduction`: reduction operations to kernels, or to the host's `PMPI_Reduce_local`;
//! * `wish`: what a rank says for or against a team, and the lines about it;
//! * `presence`: which ranks run ferrorail: others must not be met in a host call;
//! * `device`: whether buffers may be in the memory of a GPU;
//! * `oob_pmpi`: how the ranks of a communicator find each other: the host's `PMPI_*` calls;
//! * `private_comm`: the communicators on which they exchange messages, shared by teams;
//! * `parked`: teams of freed communicators, for others of the same ranks;
//! * `ballot`: how ranks find that all would take the same one;
//! * `handle_cache`: what a thread remembers of the communicators and windows it used last;
//! * `progress`: keeping the host going while a rank waits in here;
//! * `caller`: whose calls of `PMPI_*` are taken;
//! * `next`: the library behind this one, which gets every call that is not accelerated;
//! * `error`, `panic_guard`, `logging`.
//!
//! What is deliberately absent: own handles, a wrapped `MPI_Finalize` (attributes with delete callbacks
//! do its work, however the host gets there), and any thread, output or device before the first MPI
//! call.
//!
//! Calls that are wrong on one rank (negative count, null handle) are left to the host on that
//! rank, whose error handler then runs as without ferrorail. Its peers wait, as they would in the
//! host; `FERRORAIL_PEER_TIMEOUT` bounds that. Where the call can run all the same (equal buffers, a
//! root of gather or scatter that is wrong about its own side) it does, and the error comes after
//! it, so that the other ranks are not kept waiting and the next call finds all in step. Amounts of
//! data that differ between ranks are `MPI_ERR_TRUNCATE` at a rank that notices; how the communicator
//! goes on then says `docs/design/0053-going-on-after-an-error.md`.

#![cfg_attr(
    test,
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "a test program has no `exports`, from where all is used"
    )
)]

mod ballot;
mod caller;
mod collective;
mod comm_settings;
mod datatype;
mod device;
mod error;
#[cfg(not(test))]
mod exports;
mod handle_cache;
mod lifetime;
mod local_reduction;
mod logging;
mod maximum;
mod neighbourhood;
mod next;
mod nonblocking;
mod oob_pmpi;
mod operation;
mod panic_guard;
mod parked;
mod presence;
mod private_comm;
mod progress;
mod reason;
mod runtime;
mod session;
mod stack;
#[allow(clippy::disallowed_types)]
mod team_cache;
mod thread;
mod wait_signal;
mod window;
mod wish;
