//! What a network holds back of a lane that broke, and may deliver when nobody expects it.

use super::Core;
use super::flight::Flight;
use super::operation::detach_payload;
use ferrorail_base::sync::Ordering;

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
