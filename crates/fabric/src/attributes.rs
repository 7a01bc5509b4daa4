//! What a transport is, does and says by itself.

use crate::{Connections, RailCounters, RailInfo};
use ferrorail_base::sync::{AtomicBool, Ordering};
use std::os::fd::BorrowedFd;

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

/// What does not change while a transport is open.
#[derive(Debug)]
pub struct Attributes {
    /// `loopback` or `verbs`: the same word as in `FERRORAIL_FABRIC`.
    pub name: &'static str,
    /// The opened rails; `RailId(i)` is entry `i`.
    pub rails: Vec<RailInfo>,
    /// Rails that were asked for and are not among them, one line each with the reason.
    pub refused: Vec<String>,
    /// Reach of remote atomics.
    pub atomics: AtomicScope,
    /// Whether peers must be on the same host.
    pub same_host_only: bool,
    /// Largest put that needs no registered source, in bytes (verbs inline data).
    pub inline_bytes_max: usize,
    /// Whether peers can reach private (not shared-backed) registered memory. False on loopback
    /// where cross-memory attach is forbidden: zero-copy is then not offered. Turns false for good when
    /// connecting finds a peer that cross-memory attach does not reach, e.g. in another container.
    pub private_memory: AtomicBool,
    /// Whether an operation is complete when its post returns, so that none is ever in flight.
    pub immediate: bool,
    /// This process's end of each rail, by which other processes judge what connecting would come to.
    pub address: Vec<u8>,
}

impl Attributes {
    /// Planes of all opened rails, as bits.
    pub fn planes(&self) -> u8 {
        let bits = self.rails.iter().map(|rail| 1 << rail.plane);
        bits.fold(0, |all, plane: u8| all | plane)
    }

    /// Whether peers can reach private memory, as far as is known now.
    pub fn reaches_private_memory(&self) -> bool {
        self.private_memory.load(Ordering::Relaxed)
    }
}

/// What has happened since a transport was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Traffic by rail.
    pub rails: Vec<RailCounters>,
    /// Connections so far.
    pub connections: Connections,
}

/// Whose events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSource {
    /// Arrivals of [`crate::Kind::Wake`].
    Wake,
    /// What devices say of their ports by themselves.
    Device,
}

/// What events have told so far, and what tells of the next.
#[derive(Debug, Default)]
pub struct Events<'a> {
    /// Descriptors that become readable at the next event; none if there will be none.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// Rails, as bits, whose devices have said last that their port is down, that its address has changed,
    /// or that they are broken. Nothing gets through on these before they say something else.
    pub ports_down: u8,
}
