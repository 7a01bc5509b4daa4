//! Where each cell of a node segment lies. Pure arithmetic, in bytes from the segment's start.
//!
//! ```text
//! header          magic, version, geometry           1 line
//! doorbell        sleepers, sequence                 1 line
//! barrier         arrivals                           as a node flag
//! quiescence           u64 per round; the completed watermark, doorbell    2 lines, 1 line
//! node flags      u64 per rank, what it was in       10 lines each
//! finished        u64 per rank                       1 line each
//! eager slots    flag + 2104 bytes, in turn         128 slots of 33 lines per rank
//! arrivals        u64 per slot and chunk             whole lines per (rank, channel), small ones too
//! RTRs   64 bytes per slot                  per (rank, channel)
//! checks          two cells and a word per slot      per (rank, channel), if there are any
//! scratch         scratch_bytes, page aligned        per (rank, channel)
//! small scratch   3072 bytes                         per (rank, small channel)
//! eager messages         6 of 576 bytes to come, 6 to go    per (rank, small channel)
//! ```
//!
//! Channels are numbered through: the small ones follow the others. They have no RTRs and
//! no checks.
//!
//! Cells of different writers never share a cache line, except arrival flags of one rank and
//! channel, which different peers raise rarely.

use crate::EagerSlot;
use crate::flags::{Flag, STATUS};
use ferrorail_base::NodeRank;

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
const BARRIER: usize = 2 * LINE;
const FLAG: usize = size_of::<Flag>();
const QUIESCENCE: usize = BARRIER + FLAG;
const QUIESCENT: usize = QUIESCENCE + 2 * LINE;
const FLAGS: usize = QUIESCENT + LINE;
const SLOT: usize = size_of::<EagerSlot>();
/// Eager messages of a rank and small channel, to come and to go.
const EAGER_MESSAGES_BYTES: usize = 2 * EAGER_MESSAGES as usize * EAGER_MESSAGE;
/// A node flag, the number of what was finished, and the eager slots.
const LINES_PER_RANK: u64 = 1 + ((FLAG + EAGER_SLOTS as usize * SLOT) / LINE) as u64;

/// Geometry of a node segment; every rank of the node computes the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    /// Ranks of the node.
    pub local_ranks: u32,
    /// Scratch channels of the team.
    pub channels: u32,
    /// Channels for operations of few bytes.
    pub small_channels: u32,
    /// Arrival slots per rank and channel.
    pub slots: u32,
    /// Rails: a message is at most as many chunks, each with a flag of its own in every slot.
    pub rails: u32,
    /// Scratch bytes per rank and channel.
    pub scratch_bytes: u64,
    /// Bytes of a check cell, in whole lines; 0 if messages are not checked.
    pub check_bytes: u32,
}

impl NodeLayout {
    /// Bytes of the whole segment; `u64::MAX` if they cannot be counted, which no segment can have.
    /// Every offset below is representable whenever this is a size that could be mapped.
    pub fn total_bytes(&self) -> u64 {
        self.checked_total().unwrap_or(u64::MAX)
    }

    fn checked_total(&self) -> Option<u64> {
        let [line, page] = [LINE as u64, PAGE as u64];
        let ranks = u64::from(self.local_ranks);
        let slots = u64::from(self.slots);
        let arrivals = slots
            .checked_mul(8 * u64::from(self.rails).next_power_of_two())?
            .checked_next_multiple_of(line)?;
        let pairs = ranks.checked_mul(u64::from(self.channels))?;
        let small = ranks.checked_mul(u64::from(self.small_channels))?;
        let checks = match self.check_bytes {
            0 => 0,
            bytes => slots
                .checked_mul(2 * u64::from(bytes))?
                .checked_add((8 * slots).checked_next_multiple_of(line)?)?,
        };
        let front = pairs
            .checked_mul(arrivals.checked_add(slots * line)?.checked_add(checks)?)?
            .checked_add(small.checked_mul(arrivals)?)?
            .checked_add(FLAGS as u64 + ranks * LINES_PER_RANK * line)?
            .checked_next_multiple_of(page)?;
        let scratch = self.scratch_bytes.checked_next_multiple_of(page)?;
        front
            .checked_add(pairs.checked_mul(scratch)?)?
            .checked_add(small.checked_mul((SMALL_SCRATCH + EAGER_MESSAGES_BYTES) as u64)?)?
            .checked_next_multiple_of(page)
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

    /// The node barrier's counter (u64).
    #[inline]
    pub const fn barrier(&self) -> usize {
        BARRIER
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

    /// `r`'s eager slot number `index`.
    #[inline]
    #[track_caller]
    pub fn eager_slot(&self, r: NodeRank, index: u32) -> usize {
        self.check_rank(r);
        assert!(index < EAGER_SLOTS, "an eager slot below {EAGER_SLOTS}");
        self.eager_slots() + (EAGER_SLOTS as usize * r.index() + index as usize) * SLOT
    }

    /// The arrival flag (u64) of `slot` at `r` for chunk `chunk` of its message. The flags of a slot
    /// are consecutive and share a cache line, if there are at most eight.
    #[inline]
    #[track_caller]
    pub fn arrival(&self, r: NodeRank, channel: u32, slot: u32, chunk: u8) -> usize {
        assert!(
            u32::from(chunk) < self.rails,
            "chunk {chunk} of {}",
            self.rails
        );
        let pair = match self.small(channel) {
            None => self.pair(r, channel),
            Some(channel) => self.pairs() + self.small_pair(r, channel),
        };
        let slot = self.check_slot(slot);
        let index = slot * self.slot_flags() + usize::from(chunk);
        self.arrivals() + pair * self.arrival_bytes() + 8 * index
    }

    /// The RTR cell of `slot` at `r`: one line that holds a remote region's wire form.
    #[inline]
    #[track_caller]
    pub fn rtr(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        let pair = self.pair(r, channel);
        let slot = self.check_slot(slot);
        self.rtrs() + (pair * self.slots as usize + slot) * LINE
    }

    /// The check cell of `slot` at `r`: `check_bytes` bytes that the origin of the message writes.
    #[track_caller]
    pub fn check(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        self.checks(r, channel) + self.check_slot(slot) * self.check_bytes as usize
    }

    /// The cell in which `r` prepares the check of the `index`-th message that it sends.
    #[track_caller]
    pub fn own_check(&self, r: NodeRank, channel: u32, index: u16) -> usize {
        let before = self.slots as usize + self.check_slot(index.into());
        self.checks(r, channel) + before * self.check_bytes as usize
    }

    /// The word (u64) in which `r` is told what became of the `index`-th message that it sends.
    #[track_caller]
    pub fn ack(&self, r: NodeRank, channel: u32, index: u16) -> usize {
        let cells = 2 * self.slots as usize * self.check_bytes as usize;
        self.checks(r, channel) + cells + 8 * self.check_slot(index.into())
    }

    /// `r`'s scratch of `channel`: [`NodeLayout::channel_bytes`], page aligned.
    #[inline]
    #[track_caller]
    pub fn scratch(&self, r: NodeRank, channel: u32) -> usize {
        match self.small(channel) {
            None => self.all_scratch() + self.pair(r, channel) * self.scratch_capacity(),
            Some(small) => self.all_small() + self.small_pair(r, small) * SMALL_SCRATCH,
        }
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
        match self.small(channel) {
            None => u64::from(width - 1) * self.scratch_capacity() as u64 + self.scratch_bytes,
            Some(_) => u64::from(width) * SMALL_SCRATCH as u64,
        }
    }

    /// Whether `slot` of `channel` has room for eager messages.
    #[inline]
    pub fn has_eager_message(&self, channel: u32, slot: u32) -> bool {
        channel >= self.channels && slot < EAGER_MESSAGES
    }

    /// Room of the eager message to come in `slot` at `r`.
    #[inline]
    #[track_caller]
    pub fn eager_message(&self, r: NodeRank, channel: u32, slot: u32) -> usize {
        assert!(slot < EAGER_MESSAGES, "eager message {slot}");
        let small = self.small(channel).expect("a small channel");
        let small_pairs = self.local_ranks as usize * self.small_channels as usize;
        let start = self.all_small() + small_pairs * SMALL_SCRATCH;
        start + self.small_pair(r, small) * EAGER_MESSAGES_BYTES + slot as usize * EAGER_MESSAGE
    }

    /// Room in which `r` writes its `index`-th eager message to go.
    #[inline]
    #[track_caller]
    pub fn own_eager_message(&self, r: NodeRank, channel: u32, index: u32) -> usize {
        self.eager_message(r, channel, index) + EAGER_MESSAGES as usize * EAGER_MESSAGE
    }

    /// The number of a small channel among them.
    #[inline]
    fn small(&self, channel: u32) -> Option<u32> {
        channel.checked_sub(self.channels)
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
    fn all_scratch(&self) -> usize {
        (self.all_checks() + self.pairs() * self.pair_checks()).next_multiple_of(PAGE)
    }

    #[inline]
    fn all_small(&self) -> usize {
        self.all_scratch() + self.pairs() * self.scratch_capacity()
    }

    /// Where the checks of a pair of rank and channel begin.
    #[track_caller]
    fn checks(&self, r: NodeRank, channel: u32) -> usize {
        assert!(self.check_bytes > 0, "messages are not checked");
        self.all_checks() + self.pair(r, channel) * self.pair_checks()
    }

    #[inline]
    fn all_checks(&self) -> usize {
        self.rtrs() + self.pairs() * self.slots as usize * LINE
    }

    #[inline]
    fn pair_checks(&self) -> usize {
        match self.check_bytes as usize {
            0 => 0,
            bytes => {
                2 * self.slots as usize * bytes + (8 * self.slots as usize).next_multiple_of(LINE)
            }
        }
    }

    #[inline]
    fn pairs(&self) -> usize {
        self.local_ranks as usize * self.channels as usize
    }

    #[inline]
    fn eager_slots(&self) -> usize {
        FLAGS + self.local_ranks as usize * (FLAG + LINE)
    }

    #[inline]
    fn arrivals(&self) -> usize {
        FLAGS + (u64::from(self.local_ranks) * LINES_PER_RANK) as usize * LINE
    }

    #[inline]
    fn slot_flags(&self) -> usize {
        (self.rails as usize).next_power_of_two()
    }

    #[inline]
    fn arrival_bytes(&self) -> usize {
        (self.slots as usize * self.slot_flags() * 8).next_multiple_of(LINE)
    }

    #[inline]
    fn rtrs(&self) -> usize {
        let small = self.local_ranks as usize * self.small_channels as usize;
        self.arrivals() + (self.pairs() + small) * self.arrival_bytes()
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

    #[inline]
    #[track_caller]
    fn check_slot(&self, slot: u32) -> usize {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        slot as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
