//! What is under way on the rails of a window.

use super::WindowError;
use super::layout::BOUNCE_SLOTS;
use super::rails::WindowRails;
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::stripe::Balance;
use ferrorail_fabric::{Fabric, FabricError, LocalRegion, RAILS_MAX, Ticket};

/// What is under way.
pub(super) struct Outstanding {
    pub pending: Vec<Pending>,
    /// Operations under way by target.
    pub counts: Vec<u32>,
    /// Free bounce slots as bits.
    pub free: u64,
    pub balances: Vec<Balance>,
}

const _: () = assert!(BOUNCE_SLOTS == u64::BITS as usize);

pub(super) struct Pending {
    pub target: Rank,
    pub tickets: [Option<Ticket>; RAILS_MAX],
    pub after: After,
}

/// What is under way to a target.
pub(super) enum Tail {
    Nothing,
    /// Short puts on the rail of words: what is posted behind the newest takes effect behind all.
    Put(Ticket),
    Unordered,
}

/// What is left to do when an operation is complete.
pub(super) enum After {
    Nothing,
    FreeSlot(u32),
    /// Result of a get: from a slot to the caller's buffer.
    CopyOut {
        slot: u32,
        to: *mut u8,
        bytes: usize,
    },
    Deregister(LocalRegion),
}

// SAFETY: the address is that of a buffer which the caller leaves to the window until the operation
// is complete, from whatever thread.
unsafe impl Send for After {}

impl Outstanding {
    /// Nothing, to so many ranks.
    pub fn new(balances: Vec<Balance>) -> Self {
        Self {
            pending: Vec::new(),
            counts: vec![0; balances.len()],
            free: u64::MAX,
            balances,
        }
    }

    /// Takes a slot, if one is free.
    pub fn claim(&mut self) -> Option<u32> {
        let slot = self.free.trailing_zeros();
        (slot < u64::BITS).then(|| {
            self.free &= !(1 << slot);
            slot
        })
    }

    /// Whether something that is under way to `target` uses a buffer of the caller's.
    pub fn uses_buffers(&self, target: Rank) -> bool {
        let uses = |after: &After| matches!(after, After::CopyOut { .. } | After::Deregister(_));
        self.counts[target.index()] > 0
            && self
                .pending
                .iter()
                .any(|pending| pending.target == target && uses(&pending.after))
    }

    /// What is under way to `target`, as far as what is posted on `rail` has to follow it.
    fn tail(&self, target: Rank, rail: RailId) -> Tail {
        let mut tail = Tail::Nothing;
        for pending in self.pending.iter().filter(|one| one.target == target) {
            tail = match (&pending.after, pending.tickets, tail) {
                (After::FreeSlot(_), [Some(put), ..], Tail::Nothing) if put.rail == rail => {
                    Tail::Put(put)
                }
                (After::FreeSlot(_), [Some(put), ..], Tail::Put(last)) if put.rail == rail => {
                    Tail::Put(if put.sequence > last.sequence {
                        put
                    } else {
                        last
                    })
                }
                _ => return Tail::Unordered,
            };
        }
        tail
    }

    pub fn begin(&mut self, target: Rank, tickets: &[Ticket], after: After) {
        let mut all = [None; RAILS_MAX];
        for (place, ticket) in all.iter_mut().zip(tickets) {
            *place = Some(*ticket);
        }
        self.begin_all(target, all, after);
    }

    pub fn begin_all(&mut self, target: Rank, tickets: [Option<Ticket>; RAILS_MAX], after: After) {
        self.counts[target.index()] += 1;
        self.pending.push(Pending {
            target,
            tickets,
            after,
        });
    }
}

impl<F: Fabric> WindowRails<F> {
    /// What is under way to `target`, as far as a change of one of its words has to follow it.
    pub(super) fn tail(&self, target: Rank) -> Result<Tail, WindowError> {
        match self.is_idle(target)? {
            true => Ok(Tail::Nothing),
            false => Ok(self.outstanding().tail(target, self.word_rail())),
        }
    }
}

/// `None` if the rail's queue is full.
pub(super) fn accepted(posted: Result<Ticket, FabricError>) -> Result<Option<Ticket>, WindowError> {
    match posted {
        Ok(ticket) => Ok(Some(ticket)),
        Err(FabricError::WouldBlock) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
