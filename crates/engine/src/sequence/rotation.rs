//! Which part of the rotating scratch an operation takes.

use crate::team::map::CHANNELS;
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
        false => bytes + long_bytes(ranks),
    }
}

/// What an operation may take of `rotating` bytes of rotating scratch, of a rank in a team of `ranks`, for each of its
/// channels.
pub(crate) fn rotating_share(ranks: u32, rotating: usize) -> usize {
    (rotating - long_bytes(ranks)) / SHARES
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
        let bytes = rotating_bytes(2, 64 << 10);
        let share = rotating_share(2, bytes);
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
        let bytes = rotating_bytes(2, 4096);
        let mut rotation = Rotation::new(bytes);
        let starts: std::collections::BTreeSet<usize> =
            (0..bytes / 4096).map(|_| rotation.take(4096)).collect();
        assert_eq!(starts.len(), bytes / 4096);
    }

    #[test]
    fn large_channels_and_large_nodes_have_none() {
        assert_eq!(rotating_bytes(2, 64 << 10), 2 << 20);
        let long = LONG_PARTS * LONG_PART;
        assert_eq!(rotating_bytes(8, 64 << 10), (2 << 20) + long);
        assert_eq!(rotating_bytes(32, 64 << 10), (1 << 20) + long);
        assert_eq!(rotating_bytes(64, 64 << 10), 0);
        assert_eq!(rotating_bytes(2, 1 << 20), 0);
    }
}
