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

    /// Where it is.
    pub fn place(&self) -> (usize, usize) {
        (self.next, self.first)
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
const ANNEX: usize = 64 << 10;

/// Memory of a rank for payloads that do not fit into eager slots: operations take parts of it in turn, one behind the
/// other. It is divided into granules, of which each remembers the operation that used it last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Annexes {
    /// Where it begins in the rank's rotating scratch.
    start: usize,
    /// Logarithm of a granule's length: divisions take as long as the rest.
    shift: u32,
    /// Where in it the next part begins, if there is room up to its end.
    next: usize,
    last: [u64; GRANULES],
    /// The last of the operations that had used granules which have been entered since, also for operations in which this
    /// rank wrote nothing and did not wait.
    overtaken: u64,
}

/// Granules of it.
const GRANULES: usize = 128;

/// Length of a granule where a node has few ranks.
const GRANULE: usize = OF_RANK / GRANULES;

impl Default for Annexes {
    fn default() -> Self {
        Self::new(2, 0)
    }
}

impl Annexes {
    /// The end of `rotating` bytes of rotating scratch, of a rank in a team of `ranks`.
    pub fn new(ranks: u32, rotating: usize) -> Self {
        Self {
            start: rotating.saturating_sub(annexes_bytes(ranks)),
            shift: granule(ranks).ilog2(),
            next: 0,
            last: [0; GRANULES],
            overtaken: 0,
        }
    }

    /// Where they are.
    pub fn place(&self) -> usize {
        self.next
    }

    /// The next part of `bytes` bytes, whole lines.
    #[inline(always)]
    pub fn next(&self, bytes: usize) -> Annex {
        let begins_anew = self.next + bytes > GRANULES << self.shift;
        let start = if begins_anew { 0 } else { self.next };
        let granules_to = |end: usize| (end + (1 << self.shift) - 1) >> self.shift;
        let (entered, end) = (granules_to(start), granules_to(start + bytes));
        // Of the granules that it enters the last one was used last. One in which it begins behind another has been entered
        // before.
        let blocker = match entered < end {
            true => self.overtaken.max(self.last[end - 1]),
            false => self.overtaken,
        };
        Annex {
            start,
            bytes,
            granules: (start >> self.shift, end),
            blocker,
        }
    }

    /// Where in the rank's rotating scratch operation `op` has its part, which was the `next`.
    #[inline(always)]
    pub fn take(&mut self, op: u64, next: Annex) -> usize {
        self.overtaken = next.blocker;
        if next.start != self.next {
            let passed_over = self.next >> self.shift;
            self.last[passed_over..].fill(op);
        }
        self.next = next.start + next.bytes;
        let (first, end) = next.granules;
        self.last[first..end].fill(op);
        self.start + next.start
    }
}

/// A part of the annexes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Annex {
    /// Where in them it begins.
    start: usize,
    bytes: usize,
    /// The first of its granules, and the first behind them.
    granules: (usize, usize),
    /// The operation that used last what it takes.
    pub blocker: u64,
}

/// The longest part that one operation may take of the annexes in `rotating` bytes of rotating scratch; 0 if there are
/// none.
pub(crate) fn annex_bytes(ranks: u32, rotating: usize) -> usize {
    match rotating {
        0 => 0,
        _ => ANNEX / GRANULE * granule(ranks),
    }
}

/// A power of two; less than [`GRANULE`] where a node has many ranks.
fn granule(ranks: u32) -> usize {
    let most = OF_NODE_MAX / ranks as usize / GRANULES;
    1 << GRANULE.min(most).max(1).ilog2()
}

fn annexes_bytes(ranks: u32) -> usize {
    GRANULES * granule(ranks)
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
    fn annexes_are_free_when_their_last_users_have_finished() {
        for ranks in [2, 3, 16, 17, 32] {
            let rotating = rotating_bytes(ranks, 64 << 10);
            let mut annexes = Annexes::new(ranks, rotating);
            let others = turning_bytes(ranks, rotating) + long_bytes(ranks);
            let most = annex_bytes(ranks, rotating);
            let mut seed = 1u64;
            let mut used: Vec<(usize, usize)> = Vec::new();
            for op in 1..20_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let bytes = LINE + (seed >> 20) as usize % (most >> (seed >> 61)) / LINE * LINE;
                let next = annexes.next(bytes);
                let free = next.blocker as usize;
                let start = annexes.take(op, next);
                assert!(start >= others && start + bytes <= rotating && start.is_multiple_of(LINE));
                let apart = |&(s, e): &(usize, usize)| start + bytes <= s || e <= start;
                // Of some this rank writes nothing, and does not wait.
                let writes = !seed.is_multiple_of(3);
                assert!(!writes || used[free..].iter().all(apart), "{ranks} ranks");
                used.push((start, start + bytes));
                // As many may be under way as have room.
                let under_way = used[free..]
                    .iter()
                    .map(|(start, end)| end - start)
                    .sum::<usize>();
                assert!(free == 0 || under_way + 3 * most >= annexes_bytes(ranks));
            }
        }
        assert_eq!(annex_bytes(64, 0), 0);
    }

    #[test]
    fn large_channels_and_large_nodes_have_none() {
        let annexes = |granule| GRANULES * granule;
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
