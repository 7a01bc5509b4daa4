//! Using the team of a freed communicator for another one of the same ranks.
//!
//! A team of one node is memory and counters that all its ranks have alike, and nothing in it knows the
//! communicator but its out-of-band exchange. Ranks that have all freed the communicator have finished
//! all operations on it. So another communicator of the same ranks in the same order goes on where the
//! freed one stopped, without a new segment and without the host's collectives that making one takes.
//! Flags hold operation numbers, which only rise, so nothing is reset.

use super::Team;
use super::state::{Life, State};
use ferrorail_base::sync::Ordering;
use ferrorail_bootstrap::Oob;

/// Identities are positive and fit into this many bits.
pub const IDENTITY_BITS: u32 = 62;

impl Team {
    /// Ends the team's use for the communicator that it was made for. Returns what identifies it on all its
    /// ranks if it may be used for another one; `None`, and nothing was done, between nodes, where peers may
    /// still send, after an error, and if it has no memory.
    pub fn park(&self) -> Option<u64> {
        let mut state = self.state();
        let identity = self.identity_after(&state)?;
        if self.map.rails.is_some() || !matches!(state.life, Life::InUse) {
            return None;
        }
        self.end(&mut state);
        state.life = Life::Parked;
        state.oob = None;
        Some(identity)
    }

    /// What identifies the team on all its ranks, if they have counted alike: one that is out of step, unnoticed so far,
    /// must not find the others on a communicator that has just been made. `None` if it has no memory.
    pub fn identity(&self) -> Option<u64> {
        self.identity_after(&self.state())
    }

    /// Where the team is, which is equal on ranks that have counted alike and hardly on others; `None` if it may not go on, as
    /// after an error.
    pub fn position(&self) -> Option<u64> {
        let state = self.state();
        matches!(state.life, Life::InUse).then(|| state.sequence.digest())
    }

    fn identity_after(&self, state: &State) -> Option<u64> {
        let segment = self.map.node_memory.as_ref()?.segment.segment();
        let bits = IDENTITY_BITS - 1;
        let mixed = segment.identity(bits) ^ state.sequence.digest() & ((1 << bits) - 1);
        Some(mixed << 1 | 1)
    }

    /// Bytes of memory that a parked team keeps on its node: at most those of its segment, and none before it was used.
    pub fn node_bytes(&self) -> u64 {
        match &self.map.node_memory {
            Some(memory) if self.state().sequence.op() > 0 => {
                memory.segment.segment().bytes() as u64
            }
            _ => 0,
        }
    }

    /// Uses a parked team for the communicator of `oob`. All its ranks do so, as they have agreed.
    pub fn adopt(&self, oob: Box<dyn Oob>) {
        let mut state = self.state();
        let state: &mut State = &mut state;
        state.oob = Some(oob);
        state.life = Life::InUse;
        self.calls.store(0, Ordering::Relaxed);
    }
}
