//! Where each cell of a node segment lies. Pure arithmetic, in bytes from the segment's start.
//!
//! ```text
//! header          magic, version, geometry           1 line
//! doorbell        sleepers, sequence                 1 line
//! quiescence           u64 per round; the completed watermark, doorbell    2 lines, 1 line
//! node flags      u64 per rank, what it was in       10 lines each
//! finished        u64 per rank                       1 line each
//! cores           u32 per rank                       whole lines
//! arrivals        u64 per slot and chunk             whole lines per (rank, synchronising channel); ends a page
//! eager slots     flag + 2104 bytes, in turn         33 lines each per rank, if there are any
//! arrivals        u64 per slot and chunk             whole lines per (rank, channel), small ones too
//! RTRs            64 bytes per slot from `rtr_base`  per (rank, channel)
//! checks          two cells and a word per slot      per (rank, channel), if there are any
//! scratch         scratch_bytes, page aligned        per (rank, channel)
//! rotating        rotating_bytes                     per rank, if there are any
//! areas           as much each                       per rank, if there are any
//! small scratch   3072 bytes                         per (rank, small channel)
//! eager messages  6 of 576 bytes to come, 6 to go    per (rank, small channel)
//! ```
//!
//! Channels are numbered through: the synchronising ones follow the others, and the small ones those. Only the
//! first kind has RTRs and checks, and synchronising ones have no scratch. The front, up to the eager slots, is all
//! that barriers and quiescence take.
//!
//! Cells of different writers never share a cache line, except arrival flags of one rank and
//! channel, which different peers raise rarely, and the numbers of cores, which seldom change.

use crate::EagerSlot;
use crate::flags::{Flag, STATUS};
use ferrorail_base::NodeRank;

mod geometry;
mod parts;

pub use geometry::NodeGeometry;
use geometry::{Channel, check_slot};
use parts::Parts;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Eager slots of a rank which operations use in turn that do not depend on every rank: that many a root may be ahead,
/// which is worth their room where ranks share cores, as it makes context switches rare.
pub const EAGER_SLOTS: u32 = 128;
/// Eager slots of a rank, behind those, of operations that depend on every rank, in which none is more than one ahead. So few
/// are touched by the first calls of a team, and stay in a core's first-level cache.
pub const EXCHANGE_SLOTS: u32 = 4;
/// Alignment of scratch, in bytes.
pub const PAGE: usize = 4096;
/// Scratch of a rank and small channel, in bytes. With its eager messages that is 10 KB.
pub const SMALL_SCRATCH: usize = 3072;
/// Most rounds of quiescence: enough for 65536 nodes.
pub const QUIESCENCE_ROUNDS: u32 = 16;
/// Bytes of an eager message: 64 from each of eight ranks, say, and a flag, which is the last word of its room.
pub const EAGER_MESSAGE: usize = 576;
/// The first slots of a small channel, which have room for eager messages: what a tree over 27 nodes takes.
pub const EAGER_MESSAGES: u32 = 6;

const DOORBELL: usize = LINE;
const FLAG: usize = size_of::<Flag>();
const QUIESCENCE: usize = 2 * LINE;
const QUIESCENT: usize = QUIESCENCE + 2 * LINE;
const FLAGS: usize = QUIESCENT + LINE;
const SLOT: usize = size_of::<EagerSlot>();
/// Eager messages of a rank and small channel, to come and to go.
const EAGER_MESSAGES_BYTES: usize = 2 * EAGER_MESSAGES as usize * EAGER_MESSAGE;
/// The number of a core.
const CORE: usize = size_of::<u32>();
/// A node flag, and the number of what was finished.
const RANK_BYTES: usize = FLAG + LINE;

/// The offsets of a node segment's cells; every rank of the node computes the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLayout {
    geometry: NodeGeometry,
    parts: Parts,
}

impl NodeLayout {
    /// The layout of `geometry`.
    pub fn of(geometry: NodeGeometry) -> Self {
        let parts = Parts::of(&geometry);
        Self { geometry, parts }
    }

    /// How many there are of each cell.
    #[inline]
    pub fn geometry(&self) -> &NodeGeometry {
        &self.geometry
    }

    /// Bytes of the whole segment; `u64::MAX` if they cannot be counted, which no segment can have.
    /// Every offset below is representable whenever this is a size that could be mapped.
    pub fn total_bytes(&self) -> u64 {
        self.parts.end as u64
    }

    /// Bytes of the front of the segment, whole pages: what barriers and quiescence take.
    pub fn front_bytes(&self) -> usize {
        self.parts.eager_slots
    }

    /// The header: magic, version and geometry, written by the creator, checked by attachers.
    pub const fn header() -> usize {
        0
    }

    /// The node's doorbell: `sleepers` (u32), then `sequence` (u32).
    #[inline]
    pub const fn doorbell(&self) -> usize {
        DOORBELL
    }

    /// The word (u64) in which the node's leader hears of round `round` of quiescence; alike in all
    /// segments.
    #[inline]
    #[track_caller]
    pub const fn quiescence_word(&self, round: u32) -> usize {
        assert!(round < QUIESCENCE_ROUNDS, "a round of quiescence");
        QUIESCENCE + 8 * round as usize
    }

    /// The word (u64) that says what all ranks of all nodes have finished.
    #[inline]
    pub const fn completed_watermark(&self) -> usize {
        QUIESCENT
    }

    /// The doorbell that is rung when that rises, which shares its line.
    pub const fn quiescence_doorbell(&self) -> usize {
        QUIESCENT + 8
    }

    /// `r`'s node flag; those of consecutive ranks follow each other.
    #[inline]
    #[track_caller]
    pub fn node_flag(&self, r: NodeRank) -> usize {
        self.geometry.check_rank(r);
        FLAGS + r.index() * FLAG
    }

    /// `r`'s word (u64) that says what it has finished, on a line with what only those use who wait long.
    #[inline]
    #[track_caller]
    pub fn finished(&self, r: NodeRank) -> usize {
        self.geometry.check_rank(r);
        FLAGS + self.geometry.local_ranks as usize * FLAG + r.index() * LINE
    }

    /// `r`'s status cell (two u64), beside its node flag.
    #[track_caller]
    pub fn status(&self, r: NodeRank) -> usize {
        self.node_flag(r) + STATUS
    }

    /// The two words (u64) in which `r` reads the status cells of other nodes' ranks.
    #[track_caller]
    pub fn probe(&self, r: NodeRank) -> usize {
        self.finished(r) + 8
    }

    /// The first rank's word (u32) that says on which core it waited last; those of all ranks follow each other.
    #[inline]
    pub const fn cores(&self) -> usize {
        self.parts.cores
    }

    /// The first eager slot of the first rank; the others of that rank follow, then those of the next.
    #[inline]
    pub const fn eager_slots_start(&self) -> usize {
        self.parts.eager_slots
    }

    /// `r`'s eager slot number `index`.
    #[inline]
    #[track_caller]
    pub fn eager_slot(&self, r: NodeRank, index: u32) -> usize {
        self.geometry.check_rank(r);
        assert!(index < self.geometry.eager_slots, "eager slot {index}");
        let of_rank = self.geometry.eager_slots as usize;
        self.parts.eager_slots + (of_rank * r.index() + index as usize) * SLOT
    }

    /// The arrival flag (u64) of `slot` at `r` for chunk `chunk` of its message. The flags of a slot
    /// are consecutive and share a cache line, if there are at most eight.
    #[inline]
    #[track_caller]
    pub fn arrival(&self, r: NodeRank, channel: u32, slot: u32, chunk: u8) -> usize {
        let rails = self.geometry.rails;
        assert!(u32::from(chunk) < rails, "chunk {chunk} of {rails}");
        let slot = check_slot(slot, self.geometry.slots_of(channel));
        let parts = &self.parts;
        let start = match self.geometry.kind(channel) {
            Channel::Ordinary => {
                parts.arrivals + self.geometry.pair(r, channel) * parts.arrivals_of_pair
            }
            Channel::Sync(sync) => {
                parts.sync_arrivals + self.geometry.sync_pair(r, sync) * parts.arrivals_of_sync_pair
            }
            Channel::Small(small) => {
                let before = self.geometry.local_ranks as usize * self.geometry.channels as usize;
                parts.arrivals
                    + (before + self.geometry.small_pair(r, small)) * parts.arrivals_of_pair
            }
        };
        start + slot * parts.slot_flags + 8 * usize::from(chunk)
    }

    /// The RTR cell of `slot` at `r`: one line that holds a remote region's wire form.
    #[inline]
    #[track_caller]
    pub fn rtr(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        let before = self.geometry.pair(r, channel) * self.geometry.rtr_cells();
        self.parts.rtrs + (before + self.geometry.rtr_cell(slot)) * LINE
    }

    /// The check cell of `slot` at `r`: `check_bytes` bytes that the origin of the message writes.
    #[track_caller]
    pub fn check(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        self.checks(r, channel)
            + check_slot(slot, self.geometry.slots) * self.geometry.check_bytes as usize
    }

    /// The cell in which `r` prepares the check of the `index`-th message that it sends.
    #[track_caller]
    pub fn own_check(&self, r: NodeRank, channel: u32, index: u16) -> usize {
        let before = self.geometry.slots as usize + check_slot(index.into(), self.geometry.slots);
        self.checks(r, channel) + before * self.geometry.check_bytes as usize
    }

    /// The word (u64) in which `r` is told what became of the `index`-th message that it sends.
    #[track_caller]
    pub fn ack(&self, r: NodeRank, channel: u32, index: u16) -> usize {
        let cells = 2 * self.geometry.slots as usize * self.geometry.check_bytes as usize;
        self.checks(r, channel) + cells + 8 * check_slot(index.into(), self.geometry.slots)
    }

    /// Where the checks of a pair of rank and channel begin.
    #[track_caller]
    fn checks(&self, r: NodeRank, channel: u32) -> usize {
        assert!(self.geometry.check_bytes > 0, "messages are not checked");
        self.parts.checks + self.geometry.pair(r, channel) * self.parts.checks_of_pair
    }

    /// `r`'s scratch of `channel`: [`NodeGeometry::channel_bytes`], page aligned. Of a synchronising channel: the
    /// segment's start, with no bytes.
    #[inline]
    #[track_caller]
    pub fn scratch(&self, r: NodeRank, channel: u32) -> usize {
        let parts = &self.parts;
        match self.geometry.kind(channel) {
            Channel::Ordinary => {
                parts.scratch + self.geometry.pair(r, channel) * parts.scratch_of_pair
            }
            Channel::Sync(_) => 0,
            Channel::Small(small) => {
                parts.small_scratch + self.geometry.small_pair(r, small) * SMALL_SCRATCH
            }
        }
    }

    /// `r`'s rotating scratch, page aligned.
    #[inline]
    #[track_caller]
    pub fn rotating(&self, r: NodeRank) -> usize {
        self.geometry.check_rank(r);
        self.parts.rotating + r.index() * self.geometry.rotating_bytes as usize
    }

    /// `r`'s area number `index`: [`NodeGeometry::scratch_capacity`] bytes, page aligned.
    #[track_caller]
    pub fn area(&self, r: NodeRank, index: u32) -> usize {
        self.geometry.check_rank(r);
        assert!(
            index < self.geometry.areas,
            "area {index} of {}",
            self.geometry.areas
        );
        let area = r.index() * self.geometry.areas as usize + index as usize;
        self.parts.areas + area * self.parts.scratch_of_pair
    }

    /// Room of the eager message to come in `slot` at `r`.
    #[inline]
    #[track_caller]
    pub fn eager_message(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        assert!(slot < EAGER_MESSAGES, "eager message {slot}");
        let Channel::Small(small) = self.geometry.kind(channel) else {
            panic!("channel {channel} is no small one");
        };
        let before = self.geometry.small_pair(r, small) * EAGER_MESSAGES_BYTES;
        self.parts.eager_messages + before + slot as usize * EAGER_MESSAGE
    }

    /// Room in which `r` writes its `index`-th eager message to go.
    #[inline]
    #[track_caller]
    pub fn own_eager_message(&self, r: NodeRank, channel: u32, index: u32) -> usize {
        self.eager_message(r, channel, index) + EAGER_MESSAGES as usize * EAGER_MESSAGE
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
