//! Which operation runs in which channel, and when a channel may be used again.
//!
//! Every rank's sequence shows the same, because all ranks call the same operations in the same order.

use crate::team::map::{CHANNELS, SMALL_CHANNELS, SYNC_CHANNELS};
use eager_slots::VECTOR_SLOTS;
use entries::Entries;
use ferrorail_shm::layout::LINE;
use ferrorail_shm::{EAGER_SLOTS, EXCHANGE_SLOTS};
use part_ring::{GRANULES, NextPart, PartRing};
use rotation::{annexes_bytes, turning_bytes};
use std::hash::{DefaultHasher, Hash, Hasher};

pub(crate) use eager_slots::EagerSlots;
pub(crate) use rotation::{annex_bytes, longest_part, rotating_bytes, rotating_share};

mod eager_slots;
mod entries;
mod part_ring;
mod rotation;

/// Counts a team's operations.
///
/// Operations use channels, or eager slots, in turn. One may be used again when all ranks have
/// finished the operation that used it last. That is known in two ways:
///
/// * An operation whose result depends on every rank proves, on completing `n` at one rank, that
///   every rank has entered `n` and so finished `n - 1`.
/// * Rooted ones prove nothing. Each rank says in shared memory what it has finished. On one node a
///   rank that is a whole ring ahead looks there; between nodes leaders pass it on
///   ([`crate::quiescence`]), once in half a ring of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence {
    op: u64,
    /// All ranks are known to have finished this operation and those before it.
    completed: u64,
    /// The last operation that was known finished or wanted so, as all ranks know.
    requested: u64,
    channels: Entries<{ CHANNELS as usize }>,
    small: Entries<{ SMALL_CHANNELS as usize }>,
    eager: Entries<{ EAGER_SLOTS as usize }>,
    exchanges: Entries<{ EXCHANGE_SLOTS as usize }>,
    syncs: u64,
    rotation: PartRing,
    annexes: PartRing,
    /// The last operation whose part was one of few that may be under way.
    few: u64,
}

/// The channels among which an operation's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// Those with much scratch.
    Channels,
    /// Those with little, numbered after all others.
    Small,
}

/// So many adjacent channels of a ring, a power of two: their scratch is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelRequest {
    pub ring: Ring,
    pub width: u32,
    /// Bytes that the operation takes of the rotating scratch instead of its channels'; 0 if it does not.
    pub rotating: usize,
    /// Whether these may be used at their beginning only, or not at all, as no rank knows all lengths.
    pub partly: bool,
    /// Whether they lie where those of the operation before last lay, if they have room: of those that wait for each other no
    /// more are under way, and caches hold as much as is exchanged then.
    pub near: bool,
}

impl ChannelRequest {
    /// One channel with much scratch.
    pub const CHANNEL: Self = Self {
        ring: Ring::Channels,
        width: 1,
        rotating: 0,
        partly: false,
        near: false,
    };
}

/// A part of the rotating scratch of each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub start: usize,
    pub bytes: usize,
}

/// What an eager operation takes beside a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EagerRequest {
    /// What must have been finished everywhere before.
    pub needed: u64,
    slots: EagerSlots,
    annex: Option<NextPart>,
}

/// Most numbers that one call takes: of vector forms for eager slots, for channels and for blocks that go straight.
const CALL_NUMBERS: u64 = 3;

/// How often who waits for an operation is woken up, in operations: a prime above [`CALL_NUMBERS`], so that of as many like
/// calls in a row one ends with a number that wakes.
const WAKE_INTERVAL: u64 = 5;

/// Granules of rotating scratch: few, as short calls of vector forms pass over parts of it that may be long.
const ROTATION_GRANULES: usize = 32;

/// Number and channel of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// The number, or its tag.
    pub op: u64,
    /// The first of its channels, which has its flags.
    pub channel: u32,
    /// How many it has the scratch of.
    pub width: u32,
    /// The part of the rotating scratch that it has instead.
    pub rotating: Option<Part>,
    /// Whether a team of two ranks uses each other's scratch. It does in every other use of a channel, where the
    /// collective gains by it: who reads a line has it in its cache, and writes it next.
    pub swapped: bool,
}

impl Sequence {
    /// Of a team of `ranks` with so much rotating scratch for each.
    pub fn new(ranks: u32, rotating: usize) -> Self {
        let bytes = turning_bytes(ranks, rotating);
        Self {
            rotation: PartRing::new(0, bytes, ROTATION_GRANULES),
            annexes: match rotating.checked_sub(annexes_bytes(ranks)) {
                Some(start) => PartRing::new(start, rotating - start, GRANULES),
                None => PartRing::default(),
            },
            ..Self::default()
        }
    }

    /// What must have been finished everywhere before the next operation of these channels.
    #[inline]
    pub fn needed(&self, request: ChannelRequest) -> u64 {
        let channel = match request.ring {
            Ring::Channels => self.channels.needed(request.width),
            Ring::Small => self.small.needed(request.width),
        };
        match request.rotating {
            0 => channel,
            _ => self.next_part(request).blocker.max(channel),
        }
    }

    /// The part of the rotating scratch that comes next.
    #[inline(always)]
    fn next_part(&self, request: ChannelRequest) -> NextPart {
        let bytes = request.rotating.next_multiple_of(LINE);
        match request.near {
            true => self.rotation.next_near(bytes),
            false => self.rotation.next(bytes),
        }
    }

    /// Whether the next operation of these channels must wait until more is known.
    #[inline]
    pub fn is_full(&self, wanted: ChannelRequest) -> bool {
        self.needed(wanted) > self.completed
    }

    /// The operation to prove finished now, so that half a ring later nobody needs to wait for it; none
    /// if that is under way, or known. The same on all ranks.
    #[inline]
    pub fn request(&mut self, ChannelRequest { ring, width, .. }: ChannelRequest) -> Option<u64> {
        let due = match ring {
            Ring::Channels => self.channels.due(width),
            Ring::Small => self.small.due(width),
        };
        (due > self.requested).then(|| {
            self.requested = self.op;
            self.op
        })
    }

    /// What the next eager operation takes, with `annex` bytes of the annexes, whole lines.
    #[inline(always)]
    pub fn eager(&self, slots: EagerSlots, annex: usize) -> EagerRequest {
        let slot = match slots {
            EagerSlots::Streams | EagerSlots::Vectors => self.eager.blocker(0),
            EagerSlots::Exchanges => self.exchanges.blocker(0),
        };
        let annex = (annex > 0).then(|| self.annexes.next(annex));
        EagerRequest {
            needed: annex.map_or(slot, |annex| slot.max(annex.blocker)),
            slots,
            annex,
        }
    }

    /// Whether it must wait.
    #[inline]
    pub fn is_full_eager(&self, wanted: &EagerRequest) -> bool {
        wanted.needed > self.completed
    }

    /// What must have been finished everywhere for the next operation of these channels, and half a ring more of them.
    pub fn half_a_ring(&self, request: ChannelRequest) -> u64 {
        let half = match request.ring {
            Ring::Channels => self.channels.blocker(CHANNELS as usize / 2),
            Ring::Small => self.small.blocker(SMALL_CHANNELS as usize / 2),
        };
        self.needed(request).max(half)
    }

    /// The same for what is `wanted` of eager slots. Channels that short calls of vector forms pass over are not waited for.
    pub fn half_an_eager_ring(&self, wanted: &EagerRequest) -> u64 {
        let slots = match wanted.slots {
            EagerSlots::Vectors => VECTOR_SLOTS as usize,
            EagerSlots::Streams => EAGER_SLOTS as usize,
            EagerSlots::Exchanges => return wanted.needed,
        };
        wanted.needed.max(self.eager.blocker_of(slots, slots / 2))
    }

    /// Equal on ranks that have counted alike, and hardly on others. What each knows of the others is no part of it.
    pub fn digest(&self) -> u64 {
        let uses = (
            self.channels.uses,
            self.small.uses,
            self.eager.uses,
            self.exchanges.uses,
        );
        let places = (self.rotation.place(), self.annexes.place());
        // The same in every process: its keys are fixed.
        let mut hasher = DefaultHasher::new();
        (self.op, uses, self.syncs, places).hash(&mut hasher);
        hasher.finish()
    }

    /// The last operation's number.
    #[inline]
    pub fn op(&self) -> u64 {
        self.op
    }

    #[inline]
    fn count(&mut self) -> u64 {
        self.op += 1;
        self.op
    }

    /// The next operation, in these channels.
    pub fn next(&mut self, request: ChannelRequest) -> Allocation {
        let (op, channel, start) = self.take(request);
        let ChannelRequest { ring, width, .. } = request;
        Allocation {
            op,
            channel,
            width,
            rotating: start.map(|start| Part {
                start,
                bytes: request.rotating,
            }),
            swapped: ring == Ring::Channels && self.channels.is_odd_turn(),
        }
    }

    /// The number of the next operation, its channel and where its part of the rotating scratch begins.
    #[inline(always)]
    fn take(&mut self, request: ChannelRequest) -> (u64, u32, Option<usize>) {
        let ChannelRequest { ring, width, .. } = request;
        let op = self.count();
        let channel = match ring {
            Ring::Channels => self.channels.next(op, width),
            Ring::Small => CHANNELS + SYNC_CHANNELS + self.small.next(op, width),
        };
        let start = (request.rotating > 0).then(|| self.take_part(op, request));
        (op, channel, start)
    }

    /// Where the part of operation `op` begins. Out of line: registers of short calls are few.
    #[inline(never)]
    fn take_part(&mut self, op: u64, request: ChannelRequest) -> usize {
        let start = self.rotation.take(op, self.next_part(request));
        if self.rotation.is_young() {
            self.few = op;
        }
        if request.partly {
            self.rotation.note_partly_used();
        }
        start
    }

    /// The next operation, a barrier. It has channels of its own, whose flags no unfinished operation
    /// awaits; each proves the other free.
    pub fn next_sync(&mut self) -> Allocation {
        self.syncs += 1;
        Allocation {
            op: self.count(),
            channel: CHANNELS + (self.syncs % u64::from(SYNC_CHANNELS)) as u32,
            width: 1,
            rotating: None,
            swapped: false,
        }
    }

    /// The number of the next operation, the eager slot that carries it, and where a rank has its part of the annexes in its
    /// rotating scratch.
    #[inline(always)]
    pub fn next_eager(&mut self, request: EagerRequest) -> (u64, u32, Option<usize>) {
        let op = self.count();
        let slot = match request.slots {
            EagerSlots::Streams => self.eager.next(op, 1),
            EagerSlots::Vectors => {
                let slot = self.eager.next(op, 1);
                if slot >= VECTOR_SLOTS - 1 {
                    self.eager.begin_anew();
                }
                slot
            }
            EagerSlots::Exchanges => {
                self.eager.begin_anew();
                EAGER_SLOTS + self.exchanges.next(op, 1)
            }
        };
        let annex = request.annex.map(|annex| self.annexes.take(op, annex));
        if annex.is_some() && self.annexes.is_young() {
            self.few = op;
        }
        (op, slot, annex)
    }

    /// As [`Sequence::next`] and [`Sequence::skip`], of a call that sends nothing that way.
    #[inline(always)]
    pub fn pass_over(&mut self, request: ChannelRequest) {
        self.take(request);
        self.skip();
    }

    /// The next operation, of no bytes, which needs no channel and proves nothing.
    pub fn skip(&mut self) -> u64 {
        self.count()
    }

    /// The last operation has finished here, and depended on every rank.
    #[inline]
    pub fn synchronised(&mut self) {
        self.completed = self.op - 1;
        self.requested = self.requested.max(self.completed);
    }

    /// Whether who waits until the last operation is finished is woken up for it: not for each, as far as many more may be
    /// under way meanwhile.
    #[inline(always)]
    pub fn wakes(&self) -> bool {
        self.op.is_multiple_of(WAKE_INTERVAL) || self.op < self.few + CALL_NUMBERS
    }

    /// Every rank has finished operation `op`.
    pub fn all_finished(&mut self, op: u64) {
        self.completed = self.completed.max(op);
    }
}

#[cfg(test)]
mod tests;
