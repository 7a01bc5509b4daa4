//! libibverbs, librdmacm and libhwloc, loaded when first asked for instead of when the program starts.
//!
//! The preload library must load on hosts where none is installed, yet the crates `ibverbs`,
//! `rdma-sys` and `hwloc2` link both. This crate therefore *defines* every function of theirs that
//! those crates use, as a hidden one-instruction jump through a table of addresses. The linker meets
//! these definitions before it comes to the shared libraries, finds nothing left to take from them
//! and, linking as needed, does not record them (no `DT_NEEDED`).
//!
//! [`verbs`], [`rdmacm`] and [`hwloc`] open the library, fill its table, and say whether that worked. Code that
//! uses one of the crates calls them first; that is the whole contract:
//!
//! ```no_run
//! ferrorail_delay_load::verbs()?;
//! // From here on, everything of libibverbs in `ibverbs` and `rdma_sys` may be called.
//! # Ok::<(), ferrorail_delay_load::DelayLoadError>(())
//! ```
//!
//! Any final artifact that depends on this crate gets the jumps; nothing is to be added to it. A
//! function missing in `src/symbols.rs` shows at once: the artifact then needs the library again, which
//! `tests/artifact.rs` and `cargo xtask` look for.
//!
//! Jumps exist for x86-64 and AArch64 Linux. Elsewhere the libraries are linked as usual.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod symbols;

/// Linked as usual: the dynamic linker has loaded them or the program has not started.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod symbols {
    pub mod verbs {
        /// Nothing to do.
        pub fn load() -> Result<(), crate::DelayLoadError> {
            Ok(())
        }
    }
    pub use verbs as hwloc;
    pub use verbs as rdmacm;
}

/// Why a library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DelayLoadError {
    /// It cannot be opened; most often it is not installed.
    #[error("{library} cannot be loaded: {reason}")]
    Open {
        /// Name asked for.
        library: &'static str,
        /// The dynamic linker's words.
        reason: String,
    },
    /// It is too old.
    #[error("{library} has no {symbol}; version {version_min} or newer is needed")]
    Symbol {
        /// The library.
        library: &'static str,
        /// The function it lacks.
        symbol: &'static str,
        /// First version known to have all that is needed.
        version_min: &'static str,
    },
}

/// Loads libibverbs once; every later call repeats the first one's answer.
///
/// # Errors
/// If it is not installed or too old. Nothing of `ibverbs` or `rdma_sys` may then be called: a call
/// ends the process with a message.
pub fn verbs() -> Result<(), DelayLoadError> {
    symbols::verbs::load()
}

/// Loads librdmacm once; every later call repeats the first one's answer.
///
/// # Errors
/// As [`verbs`], for what begins with `rdma_` in `rdma_sys`.
pub fn rdmacm() -> Result<(), DelayLoadError> {
    symbols::rdmacm::load()
}

/// Loads libhwloc once; every later call repeats the first one's answer.
///
/// # Errors
/// As [`verbs`], for `hwloc2`.
pub fn hwloc() -> Result<(), DelayLoadError> {
    symbols::hwloc::load()
}
