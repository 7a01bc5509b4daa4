//! Which operation runs in which channel, and when a channel may be used again.
//!
//! Every rank's clock shows the same, because all ranks call the same operations in the same order.

use crate::team::map::{CHANNELS, SYNC_CHANNELS};
use ferrorail_base::NodeRank;

/// Counts a team's operations.
///
/// An operation whose result depends on every rank proves, on completing `n` at one rank, that
/// every rank has entered `n` and so finished `n - 1`. A rooted one proves nothing: when it would
/// use a channel again that is not proven free, the team synchronises first, once per
/// [`CHANNELS`] operations (the delayed synchronisation of Yu et al. 2005, section 3.3, applied to
/// all rooted operations).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    op: u64,
    /// The last operation that every rank is known to have finished.
    proven: u64,
    syncs: u64,
    inlines: u64,
    /// The last inline operation, and who read the slots of the one before.
    last_inline: u64,
    readers: [Option<Readers>; 2],
}

/// Who reads the slots of an inline operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Every rank.
    All,
    /// One.
    One(NodeRank),
}

impl Readers {
    /// Whether `rank` is one.
    #[inline]
    pub fn include(self, rank: NodeRank) -> bool {
        self == Self::All || self == Self::One(rank)
    }
}

/// Number and slots of one inline operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InlineTurn {
    pub op: u64,
    pub parity: u32,
    /// The slot may be written once the slots of the other parity of these ranks have reached this
    /// operation; at once if `None`.
    pub after: Option<(Readers, u64)>,
}

/// Number and channel of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub op: u64,
    pub channel: u32,
}

impl Clock {
    /// Whether the team must synchronise before the next operation.
    pub fn must_synchronise(&self) -> bool {
        self.op + 1 > self.proven + u64::from(CHANNELS)
    }

    /// The next operation, in a scratch channel.
    pub fn next(&mut self) -> Turn {
        debug_assert!(!self.must_synchronise());
        self.op += 1;
        Turn {
            op: self.op,
            channel: (self.op % u64::from(CHANNELS)) as u32,
        }
    }

    /// The next operation, a synchronisation. It has channels of its own, whose flags no unfinished
    /// operation awaits; each proves the other free.
    pub fn next_sync(&mut self) -> Turn {
        self.op += 1;
        self.syncs += 1;
        Turn {
            op: self.op,
            channel: CHANNELS + (self.syncs % u64::from(SYNC_CHANNELS)) as u32,
        }
    }

    /// The next operation, carried by inline slots, which `readers` will read. Inline operations
    /// prove each other's slots free whatever runs between them: whoever has entered one has read
    /// the slots of the one before, and where all read the last one, all are known to have entered
    /// it. Where not, the readers' slots of the last one tell.
    pub fn next_inline(&mut self, readers: Readers) -> InlineTurn {
        self.op += 1;
        self.inlines += 1;
        let [last, same_slots] = std::mem::replace(&mut self.readers, [Some(readers), None]);
        self.readers[1] = last;
        let after = match (last, same_slots) {
            (Some(Readers::One(_)), Some(before)) => Some((before, self.last_inline)),
            _ => None,
        };
        self.last_inline = self.op;
        InlineTurn {
            op: self.op,
            parity: (self.inlines % 2) as u32,
            after,
        }
    }

    /// The last operation has finished here, and depended on every rank.
    pub fn synchronised(&mut self) {
        self.proven = self.op - 1;
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
    fn inline_slots_alternate_whatever_runs_between() {
        let mut clock = Clock::default();
        let first = clock.next_inline(Readers::All);
        clock.synchronised();
        clock.next();
        let second = clock.next_inline(Readers::All);
        assert_ne!(first.parity, second.parity);
        assert_eq!((first.after, second.after), (None, None));
    }

    #[test]
    fn inline_slots_wait_for_their_readers_after_a_rooted_operation() {
        let root = Readers::One(NodeRank(3));
        let mut clock = Clock::default();
        assert_eq!(clock.next_inline(Readers::All).after, None);
        let rooted = clock.next_inline(root);
        assert_eq!(rooted.after, None, "all have entered an all-gather");
        clock.next();
        let third = clock.next_inline(root);
        assert_eq!(third.after, Some((Readers::All, rooted.op)));
        let fourth = clock.next_inline(Readers::All);
        assert_eq!(fourth.after, Some((root, third.op)));
        assert_eq!(clock.next_inline(root).after, None);
    }
}
