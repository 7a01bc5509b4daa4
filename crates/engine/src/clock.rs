//! Which operation runs in which channel, and when a channel may be used again.
//!
//! Every rank's clock shows the same, because all ranks call the same operations in the same order.

use crate::run::mark::mark;
use crate::team::map::{CHANNELS, SYNC_CHANNELS};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;
use ferrorail_shm::INLINE_SLOTS;

/// Counts a team's operations.
///
/// An operation whose result depends on every rank proves, on completing `n` at one rank, that
/// every rank has entered `n` and so finished `n - 1`. A rooted one proves nothing: when it would
/// use a channel again that is not proven free, the team synchronises first, once per
/// [`CHANNELS`] operations (the delayed synchronisation of Yu et al. 2005, section 3.3, applied to
/// all operations). Inline slots are another such row, of [`INLINE_SLOTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    op: u64,
    channels: Row<CHANNELS>,
    inline: Row<INLINE_SLOTS>,
    syncs: u64,
    last: Kind,
}

/// Places that operations use in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row<const PLACES: u32> {
    uses: u64,
    /// The uses that every rank is known to have finished.
    proven: u64,
}

impl<const PLACES: u32> Row<PLACES> {
    fn is_full(&self) -> bool {
        self.uses + 1 > self.proven + u64::from(PLACES)
    }

    fn next(&mut self) -> u32 {
        debug_assert!(!self.is_full());
        self.uses += 1;
        (self.uses % u64::from(PLACES)) as u32
    }
}

/// What an operation uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    Channel,
    Inline,
    #[default]
    Sync,
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
    /// Whether the team must synchronise before the next operation in a channel.
    pub fn must_synchronise(&self) -> bool {
        self.channels.is_full()
    }

    /// Whether it must before the next inline operation.
    pub fn must_synchronise_inline(&self) -> bool {
        self.inline.is_full()
    }

    fn count(&mut self, kind: Kind) -> u64 {
        self.last = kind;
        self.op += 1;
        self.op
    }

    /// The next operation, in a scratch channel.
    pub fn next(&mut self) -> Turn {
        Turn {
            op: self.count(Kind::Channel),
            channel: self.channels.next(),
        }
    }

    /// The next operation, a synchronisation. It has channels of its own, whose flags no unfinished
    /// operation awaits; each proves the other free.
    pub fn next_sync(&mut self) -> Turn {
        self.syncs += 1;
        Turn {
            op: self.count(Kind::Sync),
            channel: CHANNELS + (self.syncs % u64::from(SYNC_CHANNELS)) as u32,
        }
    }

    /// The next operation, carried by inline slots.
    pub fn next_inline(&mut self) -> InlineTurn {
        InlineTurn {
            op: self.count(Kind::Inline),
            slot: self.inline.next(),
        }
    }

    /// The next operation, of no bytes, which needs no channel and proves nothing.
    pub fn skip(&mut self) -> u64 {
        self.op += 1;
        self.op
    }

    /// The last operation has finished here, and depended on every rank.
    pub fn synchronised(&mut self) {
        self.channels.proven = self.channels.uses - u64::from(self.last == Kind::Channel);
        self.inline.proven = self.inline.uses - u64::from(self.last == Kind::Inline);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_synchronise_never_wait() {
        let mut clock = Clock::default();
        for _ in 0..100 {
            assert!(!clock.must_synchronise());
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
            if clock.must_synchronise() {
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
    fn inline_slots_are_used_again_only_when_proven_free() {
        let mut clock = Clock::default();
        for _ in 0..INLINE_SLOTS {
            assert!(!clock.must_synchronise_inline());
            clock.next_inline();
        }
        assert!(clock.must_synchronise_inline());
        assert!(!clock.must_synchronise(), "channels are free");
        clock.next();
        clock.synchronised();
        assert!(!clock.must_synchronise_inline());
        let first = clock.next_inline();
        clock.synchronised();
        let second = clock.next_inline();
        assert_ne!(first.slot, second.slot);
        clock.synchronised();
        assert_eq!(clock.inline.proven, clock.inline.uses - 1, "the last one");
    }
}
