//! An operation on its way over a modelled rail, which may damage its bytes.

use super::Core;
use super::keys::Key;
use super::operation::{Operation, Refusal, detach_payload, execute};
use ferrorail_base::PeerId;
use std::time::Instant;

/// An operation on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) due: Instant,
    pub(super) peer: PeerId,
    /// Generation of the lane it was posted in.
    pub(super) generation: u64,
    pub(super) sequence: u64,
    /// Position among all operations of its rail, from 0.
    pub(super) number: u64,
    /// The region here that it was posted with.
    pub(super) region: Key,
    pub(super) operation: Operation,
}

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
