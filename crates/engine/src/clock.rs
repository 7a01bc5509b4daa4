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

    #[inline]
    fn next(&mut self, op: u64) -> u32 {
        self.uses += 1;
        let place = self.uses % PLACES;
        self.last[place] = op;
        place as u32
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
    pub channel: u32,
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
    /// What must have been finished everywhere before the next operation of `row`.
    #[inline]
    pub fn needed(&self, row: Row) -> u64 {
        match row {
            Row::Channels => self.channels.blocker(0),
            Row::Small => self.small.blocker(0),
        }
    }

    /// Whether the next operation of `row` must wait until more is proven.
    #[inline]
    pub fn is_full(&self, row: Row) -> bool {
        self.needed(row) > self.proven
    }

    /// The operation to prove finished now, so that half a row later nobody needs to wait for it; none
    /// if that is under way, or known. The same on all ranks.
    #[inline]
    pub fn want(&mut self, row: Row) -> Option<u64> {
        let due = match row {
            Row::Channels => self.channels.blocker(CHANNELS as usize / 2),
            Row::Small => self.small.blocker(SMALL_CHANNELS as usize / 2),
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

    /// The next operation, in a channel of `row`.
    pub fn next(&mut self, row: Row) -> Turn {
        let op = self.count();
        let channel = match row {
            Row::Channels => self.channels.next(op),
            Row::Small => CHANNELS + SYNC_CHANNELS + self.small.next(op),
        };
        Turn { op, channel }
    }

    /// The next operation, a barrier. It has channels of its own, whose flags no unfinished operation
    /// awaits; each proves the other free.
    pub fn next_sync(&mut self) -> Turn {
        self.syncs += 1;
        Turn {
            op: self.count(),
            channel: CHANNELS + (self.syncs % u64::from(SYNC_CHANNELS)) as u32,
        }
    }

    /// The next operation, carried by inline slots.
    #[inline]
    pub fn next_inline(&mut self) -> InlineTurn {
        let op = self.count();
        InlineTurn {
            op,
            slot: self.inline.next(op),
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
mod tests {
    use super::*;

    #[test]
    fn operations_that_synchronise_never_wait() {
        let mut clock = Clock::default();
        for _ in 0..100 {
            assert!(!clock.is_full(Row::Channels));
            assert_eq!(clock.want(Row::Channels), None);
            clock.next(Row::Channels);
            clock.synchronised();
        }
    }

    #[test]
    fn rooted_operations_want_proof_once_in_half_a_row() {
        for (row, places) in [(Row::Channels, CHANNELS), (Row::Small, SMALL_CHANNELS)] {
            let mut clock = Clock::default();
            let mut last_in = [0; (CHANNELS + SYNC_CHANNELS + SMALL_CHANNELS) as usize];
            let (mut proofs, mut wanted) = (0, 0);
            for _ in 0..10 * places {
                if let Some(op) = clock.want(row) {
                    assert_eq!(op, clock.op());
                    wanted = op;
                    proofs += 1;
                }
                if clock.is_full(row) {
                    assert!(clock.needed(row) <= wanted, "waits for what nobody proves");
                    clock.all_finished(clock.needed(row));
                }
                let turn = clock.next(row);
                let before = std::mem::replace(&mut last_in[turn.channel as usize], turn.op);
                assert!(before <= wanted, "channel used again too early");
            }
            assert!((18..=21).contains(&proofs), "{proofs} proofs");
        }
    }

    #[test]
    fn small_channels_are_a_row_of_their_own() {
        let mut clock = Clock::default();
        for n in 1..=SMALL_CHANNELS {
            assert!(!clock.is_full(Row::Small));
            let turn = clock.next(Row::Small);
            assert_eq!(turn.channel, CHANNELS + SYNC_CHANNELS + n % SMALL_CHANNELS);
        }
        assert!(clock.is_full(Row::Small) && !clock.is_full(Row::Channels));
        clock.next_sync();
        clock.synchronised();
        assert!(!clock.is_full(Row::Small));
    }

    #[test]
    fn inline_slots_are_used_again_only_when_proven_free() {
        let mut clock = Clock::default();
        for _ in 0..INLINE_SLOTS {
            assert!(!clock.is_full_inline());
            clock.next_inline();
        }
        assert!(clock.is_full_inline());
        assert!(!clock.is_full(Row::Channels), "channels are free");
        clock.next(Row::Channels);
        clock.synchronised();
        assert!(!clock.is_full_inline());
        let first = clock.next_inline();
        clock.synchronised();
        let second = clock.next_inline();
        assert_ne!(first.slot, second.slot);
        clock.synchronised();
        assert_eq!(clock.proven, second.op - 1, "not the last one");
    }

    #[test]
    fn a_row_ahead_of_the_slowest() {
        let mut clock = Clock::default();
        for op in 1..=u64::from(CHANNELS) {
            assert!(!clock.is_full(Row::Channels));
            assert_eq!(clock.next(Row::Channels).op, op);
        }
        assert!(clock.is_full(Row::Channels));
        assert_eq!(clock.half_a_row_ago(), u64::from(CHANNELS) / 2 + 1);
        clock.all_finished(1);
        assert!(!clock.is_full(Row::Channels));
        // One that needs no proof, as nothing of it passes here: later ones need it all the more.
        clock.next(Row::Channels);
        clock.next(Row::Channels);
        assert!(clock.is_full(Row::Channels));
        clock.all_finished(2);
        assert!(clock.is_full(Row::Channels));
        clock.all_finished(3);
        assert!(!clock.is_full(Row::Channels));
    }
}
