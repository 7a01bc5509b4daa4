//! Rotating scratch: how much there is of it, and which parts are for what.

use super::part_ring::GRANULES;
use crate::team::map::CHANNELS;
use ferrorail_shm::layout::PAGE;

/// Shares of what operations take parts of in turn: an operation has no more than one for each of its channels.
const SHARES: usize = 2 * CHANNELS as usize;

/// Rotating scratch of a rank. Who writes a line that another core has read takes it from that core's cache, which is
/// slower than anything else between two cores; when a part is written again this much later, all its lines have left
/// the caches of both cores for the one that they share. Twice a core's own cache is enough.
const OF_RANK: usize = 2 << 20;

/// Most of a node together: more does not stay in the cache that cores share.
const OF_NODE_MAX: usize = 32 << 20;

/// Rotating scratch of a rank in a team of `ranks` on one node, whose channels have `of_channel` bytes each: as much for
/// all teams of so many ranks, or none where a share would be less than a channel has.
pub(crate) fn rotating_bytes(ranks: u32, of_channel: usize) -> usize {
    let bytes = OF_RANK.min(OF_NODE_MAX / ranks as usize / PAGE * PAGE);
    match bytes / SHARES < of_channel {
        true => 0,
        false => bytes + annexes_bytes(ranks),
    }
}

/// What an operation may take of `rotating` bytes of rotating scratch, of a rank in a team of `ranks`, for each of its
/// channels.
pub(crate) fn rotating_share(ranks: u32, rotating: usize) -> usize {
    turning_bytes(ranks, rotating) / SHARES
}

/// The longest part that one operation may take of `rotating` bytes of rotating scratch: four of them are in it.
pub(crate) fn longest_part(ranks: u32, rotating: usize) -> usize {
    turning_bytes(ranks, rotating) / 4
}

/// What of `rotating` bytes is not for annexes.
pub(super) fn turning_bytes(ranks: u32, rotating: usize) -> usize {
    rotating.saturating_sub(annexes_bytes(ranks))
}

/// Longest payload of an eager operation that lies in an annex instead of its slot, where a node has few ranks. Annexes are
/// taken in turn as well.
const ANNEX: usize = 64 << 10;

/// Length of one of annexes where a node has few ranks.
const GRANULE: usize = OF_RANK / GRANULES;

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

pub(super) fn annexes_bytes(ranks: u32) -> usize {
    GRANULES * granule(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_channels_and_large_nodes_have_none() {
        let annexes = |granule| GRANULES * granule;
        assert_eq!(rotating_bytes(2, 64 << 10), (2 << 20) + annexes(16 << 10));
        assert_eq!(rotating_bytes(8, 64 << 10), (2 << 20) + annexes(16 << 10));
        assert_eq!(rotating_bytes(32, 64 << 10), (1 << 20) + annexes(8 << 10));
        assert_eq!(longest_part(8, rotating_bytes(8, 64 << 10)), 512 << 10);
        assert_eq!(rotating_bytes(64, 64 << 10), 0);
        assert_eq!(rotating_bytes(2, 1 << 20), 0);
    }
}
