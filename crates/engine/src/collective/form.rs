//! The eager forms of collectives on one node ([`super::eager`]), and how long their blocks may be.

use ferrorail_coll::Collective;
use ferrorail_shm::EagerSlot;

/// Largest payload that rides in a slot.
pub(super) const BYTES_MAX: usize = EagerSlot::PAYLOAD_BYTES;

/// Some ranks of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranks {
    All,
    Root,
}

/// Who says what to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(super) publishers: Ranks,
    pub(super) readers: Ranks,
    /// Whether what is published has a block for each reader but the publisher.
    pub(super) block_per_reader: bool,
    /// Whether each reader reduces all that is published, so that all do the same work.
    all_reduce: bool,
}

/// Bytes that each rank may read and reduce where all do: more is shared among the ranks, unless it is little from
/// each.
const REDUCED_BYTES_MAX: usize = 16 << 10;
/// How much that is.
const REDUCED_BLOCK: usize = 568;

/// The eager form of `collective`.
pub(crate) fn form(collective: Collective) -> Form {
    use Ranks::{All, Root};
    let (publishers, readers, block_per_reader) = match collective {
        Collective::Allgather | Collective::Allgatherv | Collective::Barrier => (All, All, false),
        Collective::Allreduce | Collective::Scan | Collective::Exscan => (All, All, false),
        Collective::Alltoall | Collective::Alltoallv => (All, All, true),
        Collective::ReduceScatterBlock | Collective::ReduceScatter => (All, All, true),
        Collective::Gather | Collective::Gatherv | Collective::Reduce => (All, Root, false),
        Collective::Bcast => (Root, All, false),
        Collective::Scatter | Collective::Scatterv => (Root, All, true),
    };
    Form {
        publishers,
        readers,
        block_per_reader,
        all_reduce: collective == Collective::Allreduce,
    }
}

impl Form {
    /// What a block of `bytes` bytes takes.
    #[inline]
    pub(super) fn capacity(self, bytes: usize) -> usize {
        match self.block_per_reader {
            true => bytes.next_multiple_of(EagerSlot::PART_ALIGNMENT),
            false => 0,
        }
    }

    /// Longest block that fits in a team of `size`.
    #[inline]
    pub fn share(self, size: u32) -> usize {
        match self.block_per_reader {
            true => {
                let others = size.saturating_sub(1).max(1) as usize;
                (BYTES_MAX / others) & !(EagerSlot::PART_ALIGNMENT - 1)
            }
            false if self.all_reduce => {
                (REDUCED_BYTES_MAX / size as usize).clamp(REDUCED_BLOCK, BYTES_MAX)
            }
            false => BYTES_MAX,
        }
    }
}
