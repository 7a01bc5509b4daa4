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
/// * Rooted ones prove nothing. Between nodes the team then synchronises, once per [`CHANNELS`]
///   operations (the delayed synchronisation of Yu et al. 2005, section 3.3, applied to all
///   operations), or once per [`SMALL_CHANNELS`] of few bytes. On one node each rank says in shared memory what it has finished, and a rank that
///   is a whole row ahead looks there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    op: u64,
    /// All ranks are known to have finished this operation and those before it.
    proven: u64,
    channels: Row<{ CHANNELS as usize }>,
    small: Row<{ SMALL_CHANNELS as usize }>,
    inline: Row<{ INLINE_SLOTS as usize }>,
    syncs: u64,
}

/// Places that operations use in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row<const PLACES: usize> {
    uses: usize,
    /// The operation that used each place last.
    last: [u64; PLACES],
}

impl<const PLACES: usize> Default for Row<PLACES> {
    fn default() -> Self {
        Self {
            uses: 0,
            last: [0; PLACES],
        }
    }
}

impl<const PLACES: usize> Row<PLACES> {
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
    /// Whether the next operation in a channel must wait until more is proven.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.channels.blocker(0) > self.proven
    }

    /// Whether the next one in a small channel must.
    #[inline]
    pub fn is_full_small(&self) -> bool {
        self.small.blocker(0) > self.proven
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

    /// The next operation, in a scratch channel.
    pub fn next(&mut self) -> Turn {
        let op = self.count();
        Turn {
            op,
            channel: self.channels.next(op),
        }
    }

    /// The next operation, in a small channel. They are numbered after all others.
    pub fn next_small(&mut self) -> Turn {
        let op = self.count();
        Turn {
            op,
            channel: CHANNELS + SYNC_CHANNELS + self.small.next(op),
        }
    }

    /// The next operation, a synchronisation. It has channels of its own, whose flags no unfinished
    /// operation awaits; each proves the other free.
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
            assert!(!clock.is_full());
            clock.next();
            clock.synchronised();
        }
    }

    #[test]
    fn rooted_operations_synchronise_once_per_round_of_channels() {
        let mut clock = Clock::default();
        let mut last_in = [0; CHANNELS as usize];
        let mut finished_everywhere = 0;
        for _ in 0..10 * CHANNELS {
            if clock.is_full() {
                let sync = clock.next_sync();
                assert!(sync.channel >= CHANNELS);
                finished_everywhere = sync.op - 1;
                clock.synchronised();
            }
            let turn = clock.next();
            let before = std::mem::replace(&mut last_in[turn.channel as usize], turn.op);
            assert!(
                before <= finished_everywhere,
                "channel used again too early"
            );
        }
        assert!(
            (9..=11).contains(&clock.syncs),
            "{} synchronisations",
            clock.syncs
        );
    }

    #[test]
    fn small_channels_are_a_row_of_their_own() {
        let mut clock = Clock::default();
        for n in 1..=SMALL_CHANNELS {
            assert!(!clock.is_full_small());
            let turn = clock.next_small();
            assert_eq!(turn.channel, CHANNELS + SYNC_CHANNELS + n % SMALL_CHANNELS);
        }
        assert!(clock.is_full_small() && !clock.is_full());
        clock.next_sync();
        clock.synchronised();
        assert!(!clock.is_full_small());
    }

    #[test]
    fn inline_slots_are_used_again_only_when_proven_free() {
        let mut clock = Clock::default();
        for _ in 0..INLINE_SLOTS {
            assert!(!clock.is_full_inline());
            clock.next_inline();
        }
        assert!(clock.is_full_inline());
        assert!(!clock.is_full(), "channels are free");
        clock.next();
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
            assert!(!clock.is_full());
            assert_eq!(clock.next().op, op);
        }
        assert!(clock.is_full());
        assert_eq!(clock.half_a_row_ago(), u64::from(CHANNELS) / 2 + 1);
        clock.all_finished(1);
        assert!(!clock.is_full());
        // One that needs no proof, as nothing of it passes here: later ones need it all the more.
        clock.next();
        clock.next();
        assert!(clock.is_full());
        clock.all_finished(2);
        assert!(clock.is_full());
        clock.all_finished(3);
        assert!(!clock.is_full());
    }
}
