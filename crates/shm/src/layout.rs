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

mod parts;

pub(crate) use parts::Starts;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Eager slots of a rank, which its operations use in turn: that many a root may be ahead, which is
/// worth their room where ranks share cores, as it makes context switches rare.
pub const EAGER_SLOTS: u32 = 128;
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

/// Geometry of a node segment; every rank of the node computes the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLayout {
    /// Ranks of the node.
    pub local_ranks: u32,
    /// Eager slots of a rank: [`EAGER_SLOTS`], or none between nodes, where nobody uses them.
    pub eager_slots: u32,
    /// Scratch channels of the team.
    pub channels: u32,
    /// Channels for operations that move nothing.
    pub sync_channels: u32,
    /// Channels for operations of few bytes.
    pub small_channels: u32,
    /// Arrival slots per rank and channel.
    pub slots: u32,
    /// The first slot of RTRs: those from here on have a cell.
    pub rtr_base: u32,
    /// Arrival slots per rank and synchronising channel.
    pub sync_slots: u32,
    /// Rails: a message is at most as many chunks, each with a flag of its own in every slot.
    pub rails: u32,
    /// Scratch bytes per rank and channel.
    pub scratch_bytes: u64,
    /// Scratch bytes per rank that belong to no channel, whole pages: operations take parts of them in turn.
    pub rotating_bytes: u64,
    /// Areas of a rank, as large as its scratch of a channel, which belong to no channel.
    pub areas: u32,
    /// Bytes of a check cell, in whole lines; 0 if messages are not checked.
    pub check_bytes: u32,
}

/// A channel as one of its kind.
#[derive(Clone, Copy)]
enum Channel {
    Ordinary,
    Sync(u32),
    Small(u32),
}

impl NodeLayout {
    /// Bytes of the whole segment; `u64::MAX` if they cannot be counted, which no segment can have.
    /// Every offset below is representable whenever this is a size that could be mapped.
    pub fn total_bytes(&self) -> u64 {
        self.total()
    }

    /// Bytes of the front of the segment, whole pages: what barriers and quiescence take.
    pub fn front_bytes(&self) -> usize {
        self.eager_slots_start()
    }

    /// Channels of all kinds.
    pub const fn channel_count(&self) -> u32 {
        self.first_small() + self.small_channels
    }

    /// The number of the first small channel.
    #[inline]
    pub const fn first_small(&self) -> u32 {
        self.channels + self.sync_channels
    }

    /// Arrival slots of a rank in `channel`.
    #[inline]
    pub const fn slots_of(&self, channel: u32) -> u32 {
        match self.kind(channel) {
            Channel::Sync(_) => self.sync_slots,
            Channel::Ordinary | Channel::Small(_) => self.slots,
        }
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
        self.check_rank(r);
        FLAGS + r.index() * FLAG
    }

    /// `r`'s word (u64) that says what it has finished, on a line with what only those use who wait long.
    #[inline]
    #[track_caller]
    pub fn finished(&self, r: NodeRank) -> usize {
        self.check_rank(r);
        FLAGS + self.local_ranks as usize * FLAG + r.index() * LINE
    }

    /// `r`'s status cell (u64), beside its node flag.
    #[track_caller]
    pub fn status(&self, r: NodeRank) -> usize {
        self.node_flag(r) + STATUS
    }

    /// The word (u64) in which `r` reads the status cells of other nodes' ranks.
    #[track_caller]
    pub fn probe(&self, r: NodeRank) -> usize {
        self.finished(r) + 8
    }

    /// The first rank's word (u32) that says on which core it waited last; those of all ranks follow each other.
    #[inline]
    pub const fn cores(&self) -> usize {
        FLAGS + self.local_ranks as usize * RANK_BYTES
    }

    /// `r`'s eager slot number `index`.
    #[inline]
    #[track_caller]
    pub fn eager_slot(&self, r: NodeRank, index: u32) -> usize {
        self.check_rank(r);
        assert!(index < self.eager_slots, "eager slot {index}");
        self.eager_slots_start() + (self.eager_slots as usize * r.index() + index as usize) * SLOT
    }

    /// The arrival flag (u64) of `slot` at `r` for chunk `chunk` of its message. The flags of a slot
    /// are consecutive and share a cache line, if there are at most eight.
    #[inline]
    #[track_caller]
    pub fn arrival(&self, r: NodeRank, channel: u32, slot: u32, chunk: u8) -> usize {
        self.starts().arrival(self, r, channel, (slot, chunk))
    }

    /// The RTR cell of `slot` at `r`: one line that holds a remote region's wire form.
    #[inline]
    #[track_caller]
    pub fn rtr(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        let pair = self.pair(r, channel);
        let slot = check_slot(slot, self.slots);
        assert!(slot >= self.rtr_base as usize, "slot {slot} is of a put");
        self.rtrs() + (pair * self.rtr_cells() + slot - self.rtr_base as usize) * LINE
    }

    /// The check cell of `slot` at `r`: `check_bytes` bytes that the origin of the message writes.
    #[track_caller]
    pub fn check(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        self.checks(r, channel) + check_slot(slot, self.slots) * self.check_bytes as usize
    }

    /// The cell in which `r` prepares the check of the `index`-th message that it sends.
    #[track_caller]
    pub fn own_check(&self, r: NodeRank, channel: u32, index: u16) -> usize {
        let before = self.slots as usize + check_slot(index.into(), self.slots);
        self.checks(r, channel) + before * self.check_bytes as usize
    }

    /// The word (u64) in which `r` is told what became of the `index`-th message that it sends.
    #[track_caller]
    pub fn ack(&self, r: NodeRank, channel: u32, index: u16) -> usize {
        let cells = 2 * self.slots as usize * self.check_bytes as usize;
        self.checks(r, channel) + cells + 8 * check_slot(index.into(), self.slots)
    }

    /// `r`'s scratch of `channel`: [`NodeLayout::channel_bytes`], page aligned. Of a synchronising channel: the
    /// segment's start, with no bytes.
    #[inline]
    #[track_caller]
    pub fn scratch(&self, r: NodeRank, channel: u32) -> usize {
        self.starts().scratch(self, r, channel)
    }

    /// `r`'s rotating scratch, page aligned.
    #[track_caller]
    pub fn rotating(&self, r: NodeRank) -> usize {
        self.starts().rotating(self, r)
    }

    /// `r`'s area number `index`: [`NodeLayout::scratch_capacity`] bytes, page aligned.
    #[track_caller]
    pub fn area(&self, r: NodeRank, index: u32) -> usize {
        self.check_rank(r);
        assert!(index < self.areas, "area {index} of {}", self.areas);
        let area = r.index() * self.areas as usize + index as usize;
        self.all_areas() + area * self.scratch_capacity()
    }

    /// Bytes of a rank's scratch of `channel`.
    #[inline]
    pub fn channel_bytes(&self, channel: u32) -> u64 {
        self.run_bytes(channel, 1)
    }

    /// Bytes of a rank's scratch of `width` adjacent channels of one row from `channel` on, which is one
    /// range.
    #[inline]
    pub fn run_bytes(&self, channel: u32, width: u32) -> u64 {
        match self.kind(channel) {
            Channel::Ordinary => {
                u64::from(width - 1) * self.scratch_capacity() as u64 + self.scratch_bytes
            }
            Channel::Sync(_) => 0,
            Channel::Small(_) => u64::from(width) * SMALL_SCRATCH as u64,
        }
    }

    /// Whether `slot` of `channel` has room for eager messages.
    #[inline]
    pub fn has_eager_message(&self, channel: u32, slot: u32) -> bool {
        channel >= self.first_small() && slot < EAGER_MESSAGES
    }

    /// Room of the eager message to come in `slot` at `r`.
    #[inline]
    #[track_caller]
    pub fn eager_message(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        self.starts().eager_message(self, r, channel, slot)
    }

    /// Room in which `r` writes its `index`-th eager message to go.
    #[inline]
    #[track_caller]
    pub fn own_eager_message(&self, r: NodeRank, channel: u32, index: u32) -> usize {
        self.starts().own_eager_message(self, r, channel, index)
    }

    #[inline]
    const fn kind(&self, channel: u32) -> Channel {
        match channel {
            _ if channel < self.channels => Channel::Ordinary,
            _ if channel < self.first_small() => Channel::Sync(channel - self.channels),
            _ => Channel::Small(channel - self.first_small()),
        }
    }

    #[inline]
    #[track_caller]
    fn small_pair(&self, r: NodeRank, small: u32) -> usize {
        self.check_rank(r);
        assert!(
            small < self.small_channels,
            "small channel {small} of {}",
            self.small_channels
        );
        r.index() * self.small_channels as usize + small as usize
    }

    /// Bytes of scratch that a rank and channel has in fact: whole pages.
    #[inline]
    pub fn scratch_capacity(&self) -> usize {
        (self.scratch_bytes as usize).next_multiple_of(PAGE)
    }

    #[inline]
    #[track_caller]
    fn check_rank(&self, r: NodeRank) {
        assert!(
            r.0 < self.local_ranks,
            "node rank {r} of {}",
            self.local_ranks
        );
    }

    #[inline]
    #[track_caller]
    fn pair(&self, r: NodeRank, channel: u32) -> usize {
        self.check_rank(r);
        assert!(
            channel < self.channels,
            "channel {channel} of {}",
            self.channels
        );
        r.index() * self.channels as usize + channel as usize
    }
}

#[inline]
#[track_caller]
fn check_slot(slot: u32, slots: u32) -> usize {
    assert!(slot < slots, "slot {slot} of {slots}");
    slot as usize
}

#[cfg(all(test, not(loom)))]
mod tests;
