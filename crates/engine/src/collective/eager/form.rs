//! The eager forms of collectives on one node, and how long their blocks may be.

use ferrorail_coll::Collective;
use ferrorail_shm::EagerSlot;
use ferrorail_shm::layout::LINE;

/// Largest payload that rides in a slot.
pub(super) const BYTES_MAX: usize = EagerSlot::PAYLOAD_BYTES;

/// Longest vector that is reduced: two of them are on the stack.
pub(super) const REDUCED_MAX: usize = 16 << 10;

/// Some ranks of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranks {
    All,
    Root,
}

/// Who says what to whom: known where the collective is, so that its entry has no branches for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub publishers: Ranks,
    pub readers: Ranks,
    /// Whether what is published has a block for each reader but the publisher.
    pub block_per_reader: bool,
}

impl Shape {
    /// Of `collective`.
    #[inline(always)]
    pub const fn of(collective: Collective) -> Self {
        use Ranks::{All, Root};
        let (publishers, readers, block_per_reader) = match collective {
            Collective::Allgather | Collective::Allgatherv | Collective::Barrier => {
                (All, All, false)
            }
            Collective::Allreduce | Collective::Scan | Collective::Exscan => (All, All, false),
            Collective::Alltoall | Collective::Alltoallv => (All, All, true),
            Collective::ReduceScatterBlock | Collective::ReduceScatter => (All, All, true),
            Collective::Gather | Collective::Gatherv | Collective::Reduce => (All, Root, false),
            Collective::Bcast => (Root, All, false),
            Collective::Scatter | Collective::Scatterv => (Root, All, true),
        };
        Self {
            publishers,
            readers,
            block_per_reader,
        }
    }
}

/// Whether each rank publishes what it has made of what the one before has published.
#[inline(always)]
pub(super) fn passes_on(collective: Collective) -> bool {
    matches!(collective, Collective::Scan | Collective::Exscan)
}

/// Whether `collective` is an exchange of data: each rank waits for all others, so that one whose part has come waits as
/// well, as long as another's has not. Not of scans, whose ranks wait for those before them, nor of barriers, which ranks
/// are to leave together.
pub(crate) fn is_exchange(collective: Collective) -> bool {
    let shape = Shape::of(collective);
    let between_all = (shape.publishers, shape.readers) == (Ranks::All, Ranks::All);
    between_all && !passes_on(collective) && collective != Collective::Barrier
}

/// How long the blocks of a collective may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Whether a slot begins with an [`Entry`] for each block, of forms in which its length is known to its two ends alone. That
    /// of a rank's only block is part of the flag's value.
    pub(super) has_lengths: bool,
    /// Longest block that rides in a slot.
    pub(super) inlined: usize,
    /// Longest block of all: those that do not ride in the slot lie in the operation's annex.
    longest: usize,
    /// Blocks that a rank publishes.
    blocks: usize,
    /// Groups of ranks in which the last to come reduces what all have in their annexes; 0 where each rank reduces all itself.
    pub(super) groups: u32,
    /// Whether it is a vector form of two ranks, which both know how long their only block for each other is.
    pub(in crate::collective) of_pair: bool,
}

/// Largest payload that rides in a slot where there are annexes: slots are still in the caches of both cores when they
/// are written again, which costs more than to look elsewhere from here on.
const INLINED_MAX: usize = 1080;

/// How many times what other operations may an all-gather may take of the annexes: an eighth of them then.
const ALLGATHERED_PARTS: usize = 4;

/// What the ranks of a node may receive together in an all-gather that takes so much: results that no cache holds are
/// better written past the caches, as schedules have it.
const ALLGATHERED_MAX: usize = 16 << 20;

/// Bytes that each rank may read and reduce where all do: more is shared among the ranks, unless it is little from
/// each.
const REDUCED_BYTES_MAX: usize = 16 << 10;
/// How much that is.
const REDUCED_BLOCK: usize = 568;

/// Ranks that share cores are in groups from here on.
const GROUPED_RANKS_MIN: u32 = 4;

/// Longest vector that groups reduce.
const GROUPED_MAX: usize = 64 << 10;

/// Groups in which `size` ranks reduce vectors for all: as many as each has ranks, so that a rank reads the fewest lines that
/// another one has written. Not as many as there are cores: results of floating-point sums would depend on that.
fn groups(collective: Collective, size: u32, shares_cores: bool) -> u32 {
    match collective == Collective::Allreduce && shares_cores && size >= GROUPED_RANKS_MIN {
        true => size.isqrt(),
        false => 0,
    }
}

/// The eager form of `collective` in a team of `size` ranks whose annexes have up to `annex_bytes` bytes, and which share
/// cores or not. None where a slot has no room for a word of each block with its length: of hundreds of ranks.
pub(crate) fn form(
    collective: Collective,
    (size, shares_cores): (u32, bool),
    annex_bytes: usize,
) -> Option<Form> {
    let groups = groups(collective, size, shares_cores);
    let blocks = match Shape::of(collective).block_per_reader {
        true => size.saturating_sub(1).max(1) as usize,
        false => 1,
    };
    let by_length = crate::choice::by_length(collective);
    let most = match collective {
        Collective::Allreduce => {
            (REDUCED_BYTES_MAX / size as usize).clamp(REDUCED_BLOCK, REDUCED_MAX)
        }
        Collective::Reduce | Collective::Scan | Collective::Exscan => REDUCED_MAX,
        Collective::ReduceScatter | Collective::ReduceScatterBlock => REDUCED_MAX,
        _ => usize::MAX,
    };
    let most_annexed = match collective {
        // Two ranks exchange scratch that they have read, which is faster.
        _ if size == 2 && is_exchange(collective) && collective != Collective::Allreduce => 0,
        Collective::Barrier => 0,
        // Each call takes as much, whatever it needs: many are to be under way.
        Collective::Gatherv | Collective::Scatterv if size > 2 => annex_bytes / 4,
        Collective::Alltoallv => annex_bytes / 2,
        // No more than two are under way.
        Collective::Allgather | Collective::Allgatherv => {
            let in_caches = ALLGATHERED_MAX / (size as usize).pow(2);
            in_caches.clamp(annex_bytes, ALLGATHERED_PARTS * annex_bytes)
        }
        _ => annex_bytes,
    };
    let of_annex = (most_annexed / blocks) & !(LINE - 1);
    let inline_max = match of_annex > 0 {
        true => INLINED_MAX,
        false => BYTES_MAX,
    };
    let longest = match groups {
        0 => most,
        _ => GROUPED_MAX,
    };
    let room = (inline_max / blocks) & !(EagerSlot::PART_ALIGNMENT - 1);
    let has_lengths = by_length && blocks > 1;
    let inlined = match has_lengths {
        true => room.checked_sub(Entry::BYTES).filter(|&bytes| bytes > 0)?,
        false => room.min(most),
    };
    Some(Form {
        has_lengths,
        inlined,
        longest: of_annex.min(longest).max(inlined),
        blocks,
        groups,
        of_pair: by_length && size == 2,
    })
}

/// What a slot says of one of its blocks, where only the block's two ends know its length: the length, which ends that
/// disagree find out by, and where in the slot it begins. So blocks lie one behind another, and short ones in the flag's line.
#[derive(Clone, Copy)]
pub(super) struct Entry(pub u64);

impl Entry {
    pub const BYTES: usize = size_of::<u64>();

    /// Its upper bits say where, the lower ones how long.
    const AT: u32 = 48;

    /// Of a block of `bytes` bytes that begins at byte `at` of the slot.
    #[inline(always)]
    pub fn new(bytes: usize, at: usize) -> Self {
        Self(bytes as u64 | (at as u64) << Self::AT)
    }

    #[inline(always)]
    pub fn is_of(self, bytes: usize) -> bool {
        self.0 << (u64::BITS - Self::AT) == (bytes as u64) << (u64::BITS - Self::AT)
    }

    #[inline(always)]
    pub fn at(self) -> usize {
        (self.0 >> Self::AT) as usize
    }
}

/// From where one reader's block begins to where the next one's does.
#[derive(Clone, Copy)]
pub(super) struct Spacing {
    pub slot: usize,
    pub annex: usize,
}

impl Form {
    /// Longest block that goes this way.
    #[inline]
    pub fn longest(self) -> usize {
        self.longest
    }

    /// Whether vectors of `bytes` bytes are reduced in groups. Not short ones: each rank takes as long to look for a result of
    /// each group as to read them all.
    #[inline(always)]
    pub(super) fn is_grouped(self, bytes: usize) -> bool {
        bytes > self.inlined && self.groups > 0
    }

    /// The same, of blocks of up to `bytes` bytes.
    pub fn up_to(self, bytes: usize) -> Self {
        Self {
            longest: self.longest.min(bytes).max(self.inlined),
            ..self
        }
    }

    /// What an operation takes of the annexes, as all ranks know: with blocks of `bytes` bytes, or of a form that goes
    /// `BY_LENGTH`, where only two ranks know how many these are.
    #[inline]
    pub fn annexed<const BY_LENGTH: bool>(self, bytes: usize) -> usize {
        let longest = match BY_LENGTH && !self.of_pair {
            true => self.longest,
            false => bytes,
        };
        match (self.inlined + 1..=self.longest).contains(&longest) {
            true => self.blocks * longest.next_multiple_of(LINE),
            false => 0,
        }
    }

    /// Of blocks of `bytes` bytes, or of a form that goes `BY_LENGTH`, whose slots have entries or a single block.
    #[inline]
    pub(super) fn spacing<const BY_LENGTH: bool>(self, bytes: usize) -> Spacing {
        let (inlined, longest) = match BY_LENGTH {
            true => (0, self.longest),
            false => (bytes.min(self.inlined), bytes),
        };
        Spacing {
            slot: inlined.next_multiple_of(EagerSlot::PART_ALIGNMENT),
            annex: longest.next_multiple_of(LINE),
        }
    }

    /// Bytes of the entries at the beginning of a slot.
    #[inline(always)]
    pub(super) fn directory<const BY_LENGTH: bool>(self) -> usize {
        match BY_LENGTH && self.has_lengths {
            true => self.blocks * Entry::BYTES,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reduced_has_room_on_the_stack() {
        use Collective::{Allreduce, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan};
        for collective in [
            Allreduce,
            Reduce,
            ReduceScatter,
            ReduceScatterBlock,
            Scan,
            Exscan,
        ] {
            for size in 2..64 {
                let form = form(collective, (size, false), 64 << 10).expect("there is room");
                assert!(
                    (1..=REDUCED_MAX).contains(&form.longest()),
                    "{collective:?}"
                );
            }
        }
    }

    #[test]
    fn ranks_that_share_cores_reduce_what_lies_in_annexes_in_groups() {
        let of =
            |size, annex_bytes| form(Collective::Allreduce, (size, true), annex_bytes).unwrap();
        for (size, annex_bytes, groups, longest) in [
            (2, 64 << 10, 0, 8 << 10),
            (3, 64 << 10, 0, 5461),
            (4, 64 << 10, 2, 64 << 10),
            (8, 64 << 10, 2, 64 << 10),
            (9, 64 << 10, 3, 64 << 10),
            (33, 16 << 10, 5, 16 << 10),
            (100, 0, 10, REDUCED_BLOCK),
        ] {
            let form = of(size, annex_bytes);
            assert_eq!((form.groups, form.longest()), (groups, longest), "{size}");
            let (inlined, annexed) = (
                form.is_grouped(form.inlined),
                form.is_grouped(form.longest()),
            );
            assert_eq!(
                (inlined, annexed),
                (false, groups > 0 && annex_bytes > 0),
                "{size}"
            );
        }
    }

    #[test]
    fn more_than_two_ranks_exchange_through_annexes() {
        let longest =
            |collective, size| form(collective, (size, true), 64 << 10).unwrap().longest();
        assert_eq!(longest(Collective::Alltoall, 2), BYTES_MAX & !7);
        assert_eq!(longest(Collective::Alltoall, 5), 16 << 10);
        assert_eq!(longest(Collective::Alltoallv, 5), 8 << 10);
        assert_eq!(longest(Collective::Allgather, 8), 256 << 10);
        assert_eq!(longest(Collective::Allgather, 16), 64 << 10);
    }

    #[test]
    fn two_ranks_take_of_annexes_what_a_block_needs() {
        let of = |collective, size| form(collective, (size, true), 64 << 10).unwrap();
        for collective in [Collective::Gatherv, Collective::Scatterv] {
            let (pair, more) = (of(collective, 2), of(collective, 5));
            assert_eq!(
                (pair.longest(), pair.up_to(20_000).longest()),
                (64 << 10, 20_000)
            );
            for (bytes, annexed) in [
                (0, 0),
                (1080, 0),
                (1081, 1088),
                (65_536, 65_536),
                (65_537, 0),
            ] {
                assert_eq!(pair.annexed::<true>(bytes), annexed);
                assert_eq!(more.annexed::<true>(bytes), 16 << 10);
            }
        }
        assert!(of(Collective::Alltoallv, 2).of_pair && !of(Collective::Gather, 2).of_pair);
    }

    #[test]
    fn entries_say_where_blocks_are_and_how_long() {
        for bytes in [0, 1, 64 << 10, 5 << 30] {
            let entry = Entry::new(bytes, 2096);
            assert!(entry.is_of(bytes) && !entry.is_of(bytes + 1) && entry.at() == 2096);
        }
    }

    #[test]
    fn blocks_fit_wherever_they_go() {
        for size in 2..700 {
            let annex_bytes = if size <= 64 { 16 << 10 } else { 0 };
            for &collective in Collective::ALL {
                let by_length = crate::choice::by_length(collective);
                let Some(form) = form(collective, (size, false), annex_bytes) else {
                    assert!(by_length && size > 128, "{collective:?} of {size}");
                    continue;
                };
                let per_reader = Shape::of(collective).block_per_reader;
                let entries = form.directory::<true>();
                assert!(entries + form.blocks * form.inlined <= BYTES_MAX);
                let blocks = if per_reader { size - 1 } else { 1 } as usize;
                for bytes in [0, 1, form.inlined, form.inlined + 1, form.longest()] {
                    let (spacing, annexed) = match by_length {
                        true => (form.spacing::<true>(bytes), form.annexed::<true>(bytes)),
                        false => (form.spacing::<false>(bytes), form.annexed::<false>(bytes)),
                    };
                    assert!(blocks * spacing.slot <= BYTES_MAX, "{size} ranks");
                    assert!(bytes > form.longest() || annexed <= ALLGATHERED_PARTS * annex_bytes);
                    assert!(annexed == 0 || form.of_pair || annexed == blocks * spacing.annex);
                    assert!(annexed <= blocks * spacing.annex);
                }
            }
        }
    }
}
