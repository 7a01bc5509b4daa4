//! Memory of which operations take parts in turn.

use ferrorail_shm::layout::PAGE;

/// Memory of each rank of which operations take parts, one behind the other, and begin anew at its end. It is divided into
/// granules, of which each remembers the operation that used it last: when that has finished everywhere its memory is free.
///
/// Where parts begin follows from the operations that were counted, so ranks agree. As long as little has passed, parts
/// begin anew where few pages end: to touch a page for the first time takes longer than to copy what lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartRing {
    /// Where it begins in the rank's rotating scratch.
    start: usize,
    bytes: usize,
    /// Logarithm of a granule's length: divisions take as long as the rest.
    shift: u32,
    /// Where in it the last part began.
    previous: usize,
    /// Where in it the next part begins, if there is room.
    next: usize,
    /// Where in it the first part of this round began.
    first: usize,
    /// Whether parts of this round may have been used at their beginning only.
    partly_used: bool,
    /// Bytes of all parts so far, as far as they may have been used.
    taken: u64,
    last: [u64; GRANULES],
    /// The last of the operations that had used granules which have been entered since, also for operations in which this
    /// rank wrote nothing and did not wait.
    overtaken: u64,
}

/// Most granules of one.
pub(super) const GRANULES: usize = 128;

/// Until so many bytes have passed parts lie within [`NEAR_RING`], if two of them have room there.
const YOUNG_BYTES: u64 = 8 << 20;

const NEAR_RING: usize = 256 << 10;

/// How much further on a round begins than one whose parts were partly used: messages up to three times as long do not lie
/// where they lay one or two rounds ago.
const STEP: usize = 5 * PAGE;

/// Rounds begin within this part of it.
const BEGINNING: usize = 16;

impl Default for PartRing {
    fn default() -> Self {
        Self::new(0, 0, 1)
    }
}

impl PartRing {
    /// So many `bytes` from `start` on, in up to so many `granules`: an operation goes through all that its part enters.
    pub fn new(start: usize, bytes: usize, granules: usize) -> Self {
        let granule = bytes.div_ceil(granules).next_power_of_two();
        Self {
            start,
            bytes,
            shift: granule.ilog2(),
            previous: 0,
            next: 0,
            first: 0,
            partly_used: false,
            taken: 0,
            last: [0; GRANULES],
            overtaken: 0,
        }
    }

    /// Where it is, and what decides how it goes on.
    pub fn place(&self) -> (usize, usize, u64) {
        (self.next, self.first, self.taken)
    }

    /// The last part may be used at its beginning only, or not at all.
    #[inline(always)]
    pub fn note_partly_used(&mut self) {
        let bytes = (self.next - self.previous) as u64;
        self.taken -= bytes - bytes / 8;
        self.partly_used = true;
    }

    /// Whether little has passed yet.
    #[inline(always)]
    pub fn is_young(&self) -> bool {
        self.taken < YOUNG_BYTES
    }

    /// The next part of `bytes` bytes, whole lines.
    #[inline(always)]
    pub fn next(&self, bytes: usize) -> NextPart {
        self.next_of(bytes, self.is_young())
    }

    /// The same, and it is to begin anew as soon as may be.
    pub fn next_near(&self, bytes: usize) -> NextPart {
        self.next_of(bytes, true)
    }

    #[inline(always)]
    fn next_of(&self, bytes: usize, near: bool) -> NextPart {
        let wanted_end = match near {
            true => NEAR_RING.min(self.bytes),
            false => self.bytes,
        };
        match self.next + bytes <= wanted_end {
            true => self.part(self.next, bytes, false),
            false => self.beyond(bytes, near),
        }
    }

    /// The next part where it would end behind the end of the round.
    #[cold]
    #[inline(never)]
    fn beyond(&self, bytes: usize, near: bool) -> NextPart {
        let first = match self.partly_used && !near {
            true => (self.first + STEP) % (self.bytes / BEGINNING),
            false => 0,
        };
        // Of operations that depend on every rank the last one may be unfinished: they need not wait if its part is left
        // alone.
        let is_apart = self.granules_to(first + bytes) <= self.previous >> self.shift;
        match is_apart || self.next + bytes > self.bytes {
            true => self.part(first, bytes, true),
            false => self.part(self.next, bytes, false),
        }
    }

    #[inline(always)]
    fn part(&self, start: usize, bytes: usize, begins_anew: bool) -> NextPart {
        // One in which it goes on behind another has been entered before.
        let entered = match begins_anew {
            true => start >> self.shift,
            false => self.granules_to(start),
        };
        let end = self.granules_to(start + bytes);
        let users = self.last[entered.min(end)..end].iter().copied();
        NextPart {
            start,
            bytes,
            begins_anew,
            granules: (start >> self.shift, end),
            blocker: users.fold(self.overtaken, u64::max),
        }
    }

    #[inline(always)]
    fn granules_to(&self, end: usize) -> usize {
        (end + (1 << self.shift) - 1) >> self.shift
    }

    /// Where in the rank's rotating scratch operation `op` has its part, which was the `next`.
    #[inline(always)]
    pub fn take(&mut self, op: u64, next: NextPart) -> usize {
        let NextPart { start, bytes, .. } = next;
        if next.begins_anew {
            self.first = start;
            self.partly_used = false;
        }
        self.overtaken = next.blocker;
        self.previous = start;
        self.next = start + bytes;
        self.taken += bytes as u64;
        let (first, end) = next.granules;
        self.last[first..end].fill(op);
        self.start + start
    }
}

/// The part that comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextPart {
    /// Where in the ring it begins.
    start: usize,
    bytes: usize,
    begins_anew: bool,
    /// The first of its granules, and the first behind them.
    granules: (usize, usize),
    /// The operation that used last what it takes.
    pub blocker: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_shm::layout::LINE;

    const BYTES: usize = 2 << 20;
    /// The longest part: four shares.
    const MOST: usize = BYTES / 4;

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
            self.0 = next.wrapping_add(1);
            (self.0 >> 20) as usize % limit
        }

        /// Whole lines: short parts as often as long ones.
        fn part(&mut self) -> usize {
            let most = MOST >> self.below(12);
            (1 + self.below(most)).next_multiple_of(LINE)
        }
    }

    #[test]
    fn parts_of_unfinished_operations_never_overlap() {
        for (bytes, granules) in [
            (BYTES, 128),
            (BYTES, 32),
            (BYTES - 3 * PAGE, 32),
            (1 << 20, 128),
        ] {
            let (mut ring, mut random) =
                (PartRing::new(4096, bytes, granules), Random(bytes as u64));
            let mut used = Vec::new();
            for op in 1..20_000 {
                let part = random.part().min(bytes / 4);
                let next = match random.below(3) {
                    0 => ring.next_near(part),
                    _ => ring.next(part),
                };
                let free = next.blocker as usize;
                let start = ring.take(op, next);
                assert!(start >= 4096 && start + part <= 4096 + bytes);
                let is_apart = |&(s, e): &(usize, usize)| start + part <= s || e <= start;
                // Of some this rank writes nothing, and does not wait.
                let writes = random.below(3) > 0;
                assert!(!writes || used[free..].iter().all(is_apart));
                used.push((start, start + part));
                if random.below(5) == 0 {
                    ring.note_partly_used();
                }
            }
        }
    }

    #[test]
    fn operations_that_depend_on_every_rank_never_wait() {
        let (mut ring, mut random) = (PartRing::new(0, BYTES, 32), Random(1));
        for op in 1..20_000u64 {
            let next = ring.next(random.part());
            assert!(next.blocker <= op.saturating_sub(2), "{op}: {next:?}");
            ring.take(op, next);
        }
    }

    #[test]
    fn many_may_be_under_way() {
        let (mut ring, mut random) = (PartRing::new(0, BYTES, GRANULES), Random(2));
        let (mut used, most) = (Vec::new(), NEAR_RING / 4);
        for op in 1..20_000 {
            let part = random.part().min(most);
            let next = ring.next(part);
            let under_way = used[next.blocker as usize..].iter().sum::<usize>();
            // After the first round through all of it.
            let room = match ring.taken > YOUNG_BYTES + 2 * BYTES as u64 {
                true => BYTES,
                false => NEAR_RING,
            };
            assert!(next.blocker == 0 || under_way + part + 3 * most >= room);
            ring.take(op, next);
            used.push(part);
        }
    }

    #[test]
    fn few_pages_are_touched_until_much_has_passed_and_then_all() {
        for part in [4096, 24 << 10, 192 << 10] {
            let mut ring = PartRing::new(0, BYTES, GRANULES);
            let mut end_of = |ops: u64| {
                let ends = (0..ops).map(|op| ring.take(op, ring.next(part)) + part);
                ends.max().expect("some")
            };
            let young = YOUNG_BYTES / part as u64;
            assert!(end_of(young) <= NEAR_RING.max(3 * part));
            assert!(end_of(BYTES as u64 / part as u64 + 1) > BYTES - part);
        }
    }

    #[test]
    fn near_parts_lie_where_those_before_last_lay() {
        let mut ring = PartRing::new(0, BYTES, 32);
        ring.taken = YOUNG_BYTES;
        let starts: Vec<usize> = (1..100)
            .map(|op| {
                ring.note_partly_used();
                ring.take(op, ring.next_near(MOST))
            })
            .collect();
        assert!(
            starts
                .windows(3)
                .all(|three| three[0] == three[2] && three[0] != three[1])
        );
    }

    #[test]
    fn rounds_begin_further_on_if_parts_are_used_at_their_beginning_only() {
        for partly_used in [false, true] {
            let mut ring = PartRing::new(0, BYTES, GRANULES);
            let part = BYTES / BEGINNING;
            let ops = YOUNG_BYTES / part as u64..200;
            ring.taken = YOUNG_BYTES;
            let starts = ops.map(|op| {
                let start = ring.take(op, ring.next(part));
                if partly_used {
                    ring.note_partly_used();
                }
                start
            });
            let starts: std::collections::BTreeSet<usize> = starts.collect();
            assert_eq!(starts.len() > BEGINNING, partly_used);
        }
    }
}
