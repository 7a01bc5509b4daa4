//! What is under way on the rails of a window.

use super::layout::STAGING_SLOTS;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{RailId, Rank};
use ferrorail_fabric::stripe::{RailTurn, RailWeights, RateSampler};
use ferrorail_fabric::{LocalRegion, RAILS_MAX, Ticket};
use std::sync::Arc;

/// What is under way.
pub(super) struct Outstanding {
    pub pending: Vec<Pending>,
    /// Operations begun so far.
    pub begun: u64,
    /// Operations under way by target.
    pub counts: Vec<u32>,
    /// Free staging slots as bits.
    pub free: u64,
    pub weights_by_rank: Vec<RailWeights>,
    /// Whose turn it is among the rails.
    pub turn: RailTurn,
    /// Times the chunks of divided messages, where shares follow completions.
    pub sampler: RateSampler,
}

const _: () = assert!(STAGING_SLOTS == u64::BITS as usize);

/// One operation. A cache line or so, as each put of a few bytes moves one in and out.
pub(super) struct Pending {
    pub target: Rank,
    /// How many were begun before.
    pub number: u64,
    pub tickets: Tickets,
    pub after: After,
}

const _: () = assert!(size_of::<Pending>() <= 80);

/// What is not known to be complete of an operation.
pub(super) enum Tickets {
    /// It is not divided.
    One(Option<Ticket>),
    /// Its chunks.
    Divided(Box<[Option<Ticket>; RAILS_MAX]>),
}

impl Tickets {
    pub fn all(&mut self) -> &mut [Option<Ticket>] {
        match self {
            Self::One(ticket) => std::slice::from_mut(ticket),
            Self::Divided(tickets) => &mut **tickets,
        }
    }
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
    /// The end of the use of a buffer of the caller's.
    GiveBack(Buffer),
}

/// How a buffer of the caller's is registered.
#[derive(Debug)]
pub(super) enum Buffer {
    /// For one operation.
    Once(Box<LocalRegion>),
    /// By somebody who gives it back once no operation has it.
    Shared(Arc<LocalRegion>),
    /// In the node's segment, as long as there is the window.
    Segment,
    /// In this rank's window memory, as long as there is the window.
    Memory,
}

impl After {
    /// Whether the operation uses a buffer of the caller's.
    pub fn uses_buffer(&self) -> bool {
        !matches!(self, Self::Nothing | Self::FreeSlot(_))
    }
}

// SAFETY: the address is that of a buffer which the caller leaves to the window until the operation
// is complete, from whatever thread.
unsafe impl Send for After {}

impl Outstanding {
    /// Nothing, to so many ranks.
    pub fn new(weights_by_rank: Vec<RailWeights>) -> Self {
        Self {
            pending: Vec::new(),
            begun: 0,
            counts: vec![0; weights_by_rank.len()],
            free: u64::MAX,
            weights_by_rank,
            turn: RailTurn::default(),
            sampler: RateSampler::default(),
        }
    }

    /// A slot that is free, if one is.
    pub fn free_slot(&self) -> Option<u32> {
        let slot = self.free.trailing_zeros();
        (slot < u64::BITS).then_some(slot)
    }

    /// What is under way of the first `before` operations.
    pub fn first(&self, before: u64) -> impl Iterator<Item = &Pending> {
        self.pending.iter().filter(move |one| one.number < before)
    }

    /// Whether one of the first `before` operations is under way to `target`.
    #[inline]
    pub fn is_busy(&self, target: Rank, before: u64) -> bool {
        // Mostly none was begun since.
        let all = before == self.begun;
        let busy = || self.first(before).any(|one| one.target == target);
        self.counts[target.index()] > 0 && (all || busy())
    }

    /// Whether one of the first `before` operations is under way to `target` and uses a buffer of the caller's.
    pub fn uses_buffers(&self, target: Rank, before: u64) -> bool {
        let uses = |one: &Pending| one.target == target && one.after.uses_buffer();
        self.counts[target.index()] > 0 && self.first(before).any(uses)
    }

    /// Lets what was to be copied to `memory` go nowhere. Whether something is under way from or to a buffer itself, which may
    /// be this.
    pub fn disown(&mut self, memory: MemoryRange) -> bool {
        let mut direct = false;
        for pending in &mut self.pending {
            match &mut pending.after {
                After::CopyOut { to, bytes, .. } if memory.holds(MemoryRange::new(*to, *bytes)) => {
                    *bytes = 0;
                }
                After::GiveBack(_) => direct = true,
                _ => {}
            }
        }
        direct
    }

    /// The newest operation under way to `target`, if all are puts from slots on `rail`: what is posted
    /// there behind it takes effect behind all.
    pub fn last_put(&self, target: Rank, rail: RailId) -> Option<Ticket> {
        let mut last: Option<Ticket> = None;
        for pending in self.pending.iter().filter(|one| one.target == target) {
            match (&pending.after, &pending.tickets) {
                (After::FreeSlot(_), &Tickets::One(Some(put))) if put.rail == rail => {
                    let newer = last.is_none_or(|last| last.sequence < put.sequence);
                    last = if newer { Some(put) } else { last };
                }
                _ => return None,
            }
        }
        last
    }

    /// An operation on `target` that is not divided.
    #[inline]
    pub fn begin(&mut self, target: Rank, ticket: Ticket, after: After) {
        self.push(target, Tickets::One(Some(ticket)), after);
    }

    /// An operation on `target` with the tickets of its chunks, from the first place on.
    pub fn begin_all(&mut self, target: Rank, tickets: [Option<Ticket>; RAILS_MAX], after: After) {
        let tickets = match tickets[1] {
            None => Tickets::One(tickets[0]),
            Some(_) => Tickets::Divided(Box::new(tickets)),
        };
        self.push(target, tickets, after);
    }

    #[inline]
    fn push(&mut self, target: Rank, tickets: Tickets, after: After) {
        self.counts[target.index()] += 1;
        let number = self.begun;
        self.begun += 1;
        self.pending.push(Pending {
            target,
            number,
            tickets,
            after,
        });
    }
}
