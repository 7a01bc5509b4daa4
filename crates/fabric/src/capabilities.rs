//! What a fabric can do.

/// What a compare-and-swap or fetch-and-add excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicScope {
    /// The rails have no remote atomics.
    None,
    /// Atomic towards operations of the same rail's device only (`IBV_ATOMIC_HCA`).
    Rail,
    /// Atomic towards CPUs too (`IBV_ATOMIC_GLOB`, loopback).
    Global,
}

/// Limits and abilities of a fabric, the same for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Reach of remote atomics.
    pub atomics: AtomicScope,
    /// Whether peers can reach private (not shared-backed) registered memory. False on loopback
    /// where cross-memory attach is forbidden: zero-copy is then not offered.
    pub private_memory: bool,
    /// Whether peers must be on the same host.
    pub same_host_only: bool,
    /// Largest put that needs no registered source, in bytes (verbs inline data).
    pub inline_bytes_max: usize,
}
