//! What a network does to what it carries: it holds back what it has of a lane that broke, and may
//! deliver it when nobody expects it; it damages bytes.

use super::Core;
use super::faults::Kind;
use super::model::{Flight, Queue};
use super::operation::{Refusal, detach_payload, execute};
use ferrorail_base::PeerId;
use ferrorail_base::sync::Ordering;
use std::time::Instant;

impl Flight {
    /// This put, with one bit of a copy of its payload flipped if `damaged`; the copy is to outlive
    /// it.
    ///
    /// # Safety
    /// Its source is readable.
    pub(super) unsafe fn damaged_if(mut self, damaged: bool) -> (Self, Option<Vec<u8>>) {
        if !damaged {
            return (self, None);
        }
        // SAFETY: the caller's promise.
        let mut copy = unsafe { detach_payload(&mut self.operation) };
        if let Some(payload) = copy.as_mut().filter(|payload| !payload.is_empty()) {
            let at = self.number as usize % payload.len();
            payload[at] ^= 1 << (self.number % 8);
            tracing::debug!(byte = at, of = payload.len(), "a damaged message");
        }
        (self, copy)
    }

    /// Carries the operation out, if the target lets this generation of the lane through.
    ///
    /// # Safety
    /// As [`execute`].
    pub(super) unsafe fn execute(&self, core: &Core, index: usize) -> Option<Result<(), Refusal>> {
        let peer = &core.peers[self.peer.index()];
        let plane = core.attributes.rails[index].plane;
        // SAFETY: the caller's promise.
        let carry = || unsafe { execute(&self.operation, peer, plane) };
        match peer.link() {
            Some(link) => link
                .keys
                .through_gate(link.gate, plane, self.generation, carry),
            None => Some(carry()),
        }
    }
}

impl Queue {
    /// What befalls the rail now.
    pub(super) fn fault(&mut self) -> Option<Kind> {
        self.faults.at(self.posted, Instant::now())
    }

    /// Where packets are late, holds those of what is in flight to `peer`, whose lane ends.
    ///
    /// # Safety
    /// As [`Late::hold`].
    pub(super) unsafe fn hold_late(&mut self, peer: PeerId) {
        if self.fault() == Some(Kind::Late) {
            let lost = self.flights.iter().filter(|flight| flight.peer == peer);
            // SAFETY: the caller's promise.
            lost.for_each(|flight| unsafe { self.late.hold(*flight) });
        }
    }
}

/// Puts on their way, with the bytes they had when they left.
#[derive(Debug, Default)]
pub(super) struct Late {
    held: Vec<(Flight, Vec<u8>)>,
}

impl Late {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds `flight` back; what is no put is dropped.
    ///
    /// # Safety
    /// Its source is readable.
    pub(super) unsafe fn hold(&mut self, mut flight: Flight) {
        // SAFETY: the caller's promise.
        let Some(bytes) = (unsafe { detach_payload(&mut flight.operation) }) else {
            return;
        };
        self.held.push((flight, bytes));
    }

    /// Delivers everything; what the target does not accept any more is lost.
    pub(super) fn release(&mut self, core: &Core, index: usize) {
        for (flight, bytes) in self.held.drain(..) {
            // SAFETY: the source is the copy; the target's table of keys vouches for its side.
            let outcome = unsafe { flight.execute(core, index) };
            drop(bytes);
            let accepted = matches!(outcome, Some(Ok(())));
            let posted = core.peers[flight.peer.index()].lanes[index]
                .posted
                .load(Ordering::Relaxed);
            tracing::debug!(accepted, posted, "a late put");
        }
    }
}
