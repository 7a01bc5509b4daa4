//! Which operation runs in which channel, and when a channel may be used again.
//!
//! Every rank's clock shows the same, because all ranks call the same operations in the same order.

use crate::run::mark::mark;
use crate::team::map::{CHANNELS, SMALL_CHANNELS, SYNC_CHANNELS};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;
use ferrorail_shm::INLINE_SLOTS;

/// Counts a team's operations.
///
/// Operations use channels, or inline slots, in turn. One may be used again when all ranks have
/// finished the operation that used it last. That is known in two ways:
///
/// * An operation whose result depends on every rank proves, on completing `n` at one rank, that
///   every rank has entered `n` and so finished `n - 1`.
/// * Rooted ones prove nothing. Each rank says in shared memory what it has finished. On one node a
///   rank that is a whole row ahead looks there; between nodes leaders pass it on
///   ([`crate::proof`]), once in half a row of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    op: u64,
    /// All ranks are known to have finished this operation and those before it.
    proven: u64,
    /// The last operation that was proven finished or wanted so, as all ranks know.
    wanted: u64,
    channels: Places<{ CHANNELS as usize }>,
    small: Places<{ SMALL_CHANNELS as usize }>,
    inline: Places<{ INLINE_SLOTS as usize }>,
    syncs: u64,
}

/// The channels among which an operation's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// Those with much scratch.
    Channels,
    /// Those with little, numbered after all others.
    Small,
}

/// So many adjacent channels of a row, a power of two: their scratch is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub row: Row,
    pub width: u32,
}

impl Wanted {
    /// One channel with much scratch.
    pub const CHANNEL: Self = Self {
        row: Row::Channels,
        width: 1,
    };
}

/// Places that operations use in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Places<const PLACES: usize> {
    uses: usize,
    /// The operation that used each place last.
    last: [u64; PLACES],
}

impl<const PLACES: usize> Default for Places<PLACES> {
    fn default() -> Self {
        Self {
            uses: 0,
            last: [0; PLACES],
        }
    }
}

impl<const PLACES: usize> Places<PLACES> {
    /// The operation that used last what the use after `later` others will use.
    #[inline]
    fn blocker(&self, later: usize) -> u64 {
        self.last[(self.uses + 1 + later) % PLACES]
    }

    /// Places from the next one to the end of the next `width` adjacent ones, which begin at a multiple
    /// of that. Those passed over count as used with them.
    #[inline]
    fn reach(&self, width: u32) -> usize {
        let width = width as usize;
        (self.uses + 1).next_multiple_of(width) + width - 1 - self.uses
    }

    /// The operation that used last what the next `width` adjacent places will use.
    #[inline]
    fn needed(&self, width: u32) -> u64 {
        self.blocker(self.reach(width) - 1)
    }

    /// The operation after which there is room for half a row more than that, unless so much is never
    /// free: those that depend on every rank prove all but the one before.
    #[inline]
    fn due(&self, width: u32) -> u64 {
        let reach = self.reach(width);
        let most = PLACES - width as usize;
        self.blocker((reach + PLACES / 2).min(most).max(reach) - 1)
    }

    #[inline]
    fn next(&mut self, op: u64, width: u32) -> u32 {
        for _ in 0..self.reach(width) {
            self.uses += 1;
            self.last[self.uses % PLACES] = op;
        }
        ((self.uses + 1 - width as usize) % PLACES) as u32
    }
}

/// Number and inline slot of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InlineTurn {
    /// The number, or its mark.
    pub op: u64,
    pub slot: u32,
}

impl InlineTurn {
    /// As [`Turn::marked`].
    #[inline]
    pub fn marked(self, collective: Collective, root: Rank, bytes: usize) -> Self {
        Self {
            op: mark(self.op, collective, root, bytes),
            ..self
        }
    }
}

/// Number and channel of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The number, or its mark.
    pub op: u64,
    /// The first of its channels, which has its flags.
    pub channel: u32,
    /// How many it has the scratch of.
    pub width: u32,
}

impl Turn {
    /// With the number replaced by the mark of this call.
    pub fn marked(self, collective: Collective, root: Rank, bytes: usize) -> Self {
        Self {
            op: mark(self.op, collective, root, bytes),
            ..self
        }
    }
}

impl Clock {
    /// What must have been finished everywhere before the next operation of these channels.
    #[inline]
    pub fn needed(&self, Wanted { row, width }: Wanted) -> u64 {
        match row {
            Row::Channels => self.channels.needed(width),
            Row::Small => self.small.needed(width),
        }
    }

    /// Whether the next operation of these channels must wait until more is proven.
    #[inline]
    pub fn is_full(&self, wanted: Wanted) -> bool {
        self.needed(wanted) > self.proven
    }

    /// The operation to prove finished now, so that half a row later nobody needs to wait for it; none
    /// if that is under way, or known. The same on all ranks.
    #[inline]
    pub fn want(&mut self, Wanted { row, width }: Wanted) -> Option<u64> {
        let due = match row {
            Row::Channels => self.channels.due(width),
            Row::Small => self.small.due(width),
        };
        (due > self.wanted).then(|| {
            self.wanted = self.op;
            self.op
        })
    }

    /// Whether the next inline operation must.
    #[inline]
    pub fn is_full_inline(&self) -> bool {
        self.inline.blocker(0) > self.proven
    }

    /// What must have been finished everywhere for half of both rows to be free.
    pub fn half_a_row_ago(&self) -> u64 {
        let channels = self.channels.blocker(CHANNELS as usize / 2);
        channels.max(self.inline.blocker(INLINE_SLOTS as usize / 2))
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
    pub fn next(&mut self, Wanted { row, width }: Wanted) -> Turn {
        let op = self.count();
        let channel = match row {
            Row::Channels => self.channels.next(op, width),
            Row::Small => CHANNELS + SYNC_CHANNELS + self.small.next(op, width),
        };
        Turn { op, channel, width }
    }

    /// The next operation, a barrier. It has channels of its own, whose flags no unfinished operation
    /// awaits; each proves the other free.
    pub fn next_sync(&mut self) -> Turn {
        self.syncs += 1;
        Turn {
            op: self.count(),
            channel: CHANNELS + (self.syncs % u64::from(SYNC_CHANNELS)) as u32,
            width: 1,
        }
    }

    /// The next operation, carried by inline slots.
    #[inline]
    pub fn next_inline(&mut self) -> InlineTurn {
        let op = self.count();
        InlineTurn {
            op,
            slot: self.inline.next(op, 1),
        }
    }

    /// The next operation, of no bytes, which needs no channel and proves nothing.
    pub fn skip(&mut self) -> u64 {
        self.count()
    }

    /// The last operation has finished here, and depended on every rank.
    #[inline]
    pub fn synchronised(&mut self) {
        self.proven = self.op - 1;
        self.wanted = self.wanted.max(self.proven);
    }

    /// Every rank has finished operation `op`.
    pub fn all_finished(&mut self, op: u64) {
        self.proven = self.proven.max(op);
    }
}

#[cfg(test)]
mod tests;
