//! Which part of the rotating scratch an operation takes.

use crate::team::map::CHANNELS;
use ferrorail_shm::EAGER_SLOTS;
use ferrorail_shm::layout::{LINE, PAGE};

/// Operations take parts of it in turn, one behind the other, and begin anew at its end: each time a bit further on, as
/// parts of operations of which no rank knows the length are used at their beginning only.
///
/// No part is taken again too early: who takes one takes channels as well, and no more than a share of the whole, a
/// sixteenth, for each of them. Operations that are not known finished lie in the last [`CHANNELS`] channels, so their
/// parts and the next one are no more than eight shares; what is left over at the end is less than a part, of up to four,
/// and what at the beginning less than a share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rotation {
    bytes: usize,
    next: usize,
    /// Where it began this time.
    first: usize,
}

/// How much further it begins each time: messages up to three times as long do not lie where they lay one or two times
/// ago.
const STEP: usize = 5 * PAGE;

impl Rotation {
    /// Rotating scratch of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Where the next part of `bytes` bytes begins.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> usize {
        if self.next + bytes > self.bytes {
            self.first = (self.first + STEP) % (self.bytes / SHARES);
            self.next = self.first;
        }
        let start = self.next;
        self.next += bytes.next_multiple_of(LINE);
        start
    }
}

/// Shares of it.
const SHARES: usize = 2 * CHANNELS as usize;

/// Rotating scratch of a rank. Who writes a line that another core has read takes it from that core's cache, which is
/// slower than anything else between two cores; when a part is written again this much later, all its lines have left
/// the caches of both cores for the one that they share. Twice a core's own cache is enough.
const OF_RANK: usize = 2 << 20;

/// Most of a node together, beside what is for long blocks: more does not stay in the cache that cores share.
const OF_NODE_MAX: usize = 32 << 20;

/// Parts for long blocks of vector forms, which calls have in turn, at the end of rotating scratch.
pub(super) const LONG_PARTS: usize = 2;

/// How long each is: 64 KB for each of up to eight ranks.
pub(crate) const LONG_PART: usize = 512 << 10;

/// Rotating scratch of a rank in a team of `ranks` on one node, whose channels have `of_channel` bytes each: as much for
/// all teams of so many ranks, or none where a share would be less than a channel has.
pub(crate) fn rotating_bytes(ranks: u32, of_channel: usize) -> usize {
    let bytes = OF_RANK.min(OF_NODE_MAX / ranks as usize / PAGE * PAGE);
    match bytes / SHARES < of_channel {
        true => 0,
        false => bytes + long_bytes(ranks) + annexes_bytes(ranks),
    }
}

/// What an operation may take of `rotating` bytes of rotating scratch, of a rank in a team of `ranks`, for each of its
/// channels.
pub(crate) fn rotating_share(ranks: u32, rotating: usize) -> usize {
    turning_bytes(ranks, rotating) / SHARES
}

/// What of `rotating` bytes is neither for long blocks nor for annexes.
pub(super) fn turning_bytes(ranks: u32, rotating: usize) -> usize {
    rotating.saturating_sub(long_bytes(ranks) + annexes_bytes(ranks))
}

/// Longest payload of an eager operation that lies in an annex instead of its slot, where a node has few ranks.
pub(crate) const ANNEX: usize = 16 << 10;

/// Memory of a rank for payloads that do not fit into eager slots: operations take parts of it in turn, one behind the
/// other. A part is free when its operation's slot is, as no part is longer than what all slots have room for on average.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Annexes {
    /// Where it begins and ends in the rank's rotating scratch.
    start: usize,
    end: usize,
    next: usize,
}

impl Annexes {
    /// The end of `rotating` bytes of rotating scratch, of a rank in a team of `ranks`.
    pub fn new(ranks: u32, rotating: usize) -> Self {
        let start = rotating.saturating_sub(annexes_bytes(ranks));
        Self {
            start,
            end: rotating,
            next: start,
        }
    }

    /// Where the next part begins, of `bytes` bytes, whole lines.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> usize {
        if self.next + bytes > self.end {
            self.next = self.start;
        }
        let part = self.next;
        self.next += bytes;
        part
    }
}

/// The longest part that one operation may take of the annexes in `rotating` bytes of rotating scratch; 0 if there are
/// none.
pub(crate) fn annex_bytes(ranks: u32, rotating: usize) -> usize {
    match rotating {
        0 => 0,
        _ => annex_of(ranks),
    }
}

fn annex_of(ranks: u32) -> usize {
    ANNEX.min(OF_NODE_MAX / (ranks * EAGER_SLOTS) as usize) / PAGE * PAGE
}

/// A part for each slot, and what may be left over at the end.
fn annexes_bytes(ranks: u32) -> usize {
    (EAGER_SLOTS as usize + 1) * annex_of(ranks)
}

/// What of it is for long blocks: two ranks know the lengths of all that they have for each other.
pub(super) fn long_bytes(ranks: u32) -> usize {
    if ranks > 2 { LONG_PARTS * LONG_PART } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_use_never_overlap() {
        let rotating = rotating_bytes(2, 64 << 10);
        let (share, bytes) = (rotating_share(2, rotating), turning_bytes(2, rotating));
        let mut rotation = Rotation::new(bytes);
        let mut seed = 1u64;
        // Parts of the latest operations, with as many channels as there are.
        let mut used: Vec<(usize, usize, u32)> = Vec::new();
        for _ in 0..100_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let width = 1 << (seed >> 40 & 3).min(2);
            let part = 1 + (seed >> 20) as usize % (width as usize * share);
            let start = rotation.take(part);
            assert!(start.is_multiple_of(LINE) && start + part <= bytes);
            used.push((start, start + part, width));
            while used.iter().map(|&(.., width)| width).sum::<u32>() > CHANNELS {
                used.remove(0);
            }
            let (&(start, end, _), others) = used.split_last().expect("one was pushed");
            assert!(others.iter().all(|&(s, e, _)| end <= s || e <= start));
        }
    }

    #[test]
    fn all_of_it_is_used() {
        let bytes = turning_bytes(2, rotating_bytes(2, 4096));
        let mut rotation = Rotation::new(bytes);
        let starts: std::collections::BTreeSet<usize> =
            (0..bytes / 4096).map(|_| rotation.take(4096)).collect();
        assert_eq!(starts.len(), bytes / 4096);
    }

    #[test]
    fn annexes_in_use_never_overlap() {
        for ranks in [2, 3, 16, 17, 32] {
            let rotating = rotating_bytes(ranks, 64 << 10);
            let mut annexes = Annexes::new(ranks, rotating);
            let others = turning_bytes(ranks, rotating) + long_bytes(ranks);
            let mut seed = 1u64;
            let mut used: Vec<(usize, usize)> = Vec::new();
            for _ in 0..20_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let most = annex_bytes(ranks, rotating);
                let bytes = (1 + (seed >> 20) as usize % (most >> (seed >> 61))) / LINE * LINE;
                let start = annexes.take(bytes);
                assert!(start >= others && start + bytes <= rotating && start.is_multiple_of(LINE));
                let apart = |&(s, e): &(usize, usize)| start + bytes <= s || e <= start;
                let in_use = used.iter().rev().take(EAGER_SLOTS as usize - 1);
                assert!(bytes == 0 || in_use.clone().all(apart), "{ranks} ranks");
                used.push((start, start + bytes));
            }
        }
        assert_eq!(annex_bytes(64, 0), 0);
    }

    #[test]
    fn large_channels_and_large_nodes_have_none() {
        let annexes = |each| (EAGER_SLOTS as usize + 1) * each;
        assert_eq!(rotating_bytes(2, 64 << 10), (2 << 20) + annexes(16 << 10));
        let long = LONG_PARTS * LONG_PART;
        assert_eq!(
            rotating_bytes(8, 64 << 10),
            (2 << 20) + long + annexes(16 << 10)
        );
        assert_eq!(
            rotating_bytes(32, 64 << 10),
            (1 << 20) + long + annexes(8 << 10)
        );
        assert_eq!(rotating_bytes(64, 64 << 10), 0);
        assert_eq!(rotating_bytes(2, 1 << 20), 0);
    }
}
