//! Where each cell of a node segment lies. Pure arithmetic, in bytes from the segment's start.
//!
//! ```text
//! header          magic, version, geometry           1 line
//! doorbell        sleepers, sequence                 1 line
//! barrier         arrivals                           1 line
//! node flags      u64 per rank                       1 line each
//! finished        u64 per rank                       1 line each
//! inline slots    flag + 568 bytes, in turn          128 slots of 9 lines per rank
//! arrivals        u64 per slot and chunk             whole lines per (rank, channel)
//! announcements   64 bytes per slot                  per (rank, channel)
//! checks          two cells and a word per slot      per (rank, channel), if there are any
//! scratch         scratch_bytes, page aligned        per (rank, channel)
//! ```
//!
//! Cells of different writers never share a cache line, except arrival flags of one rank and
//! channel, which different peers raise rarely.

use crate::InlineSlot;
use ferrorail_base::NodeRank;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Inline slots of a rank, which its operations use in turn: that many a root may be ahead, which is
/// worth their room where ranks share cores, as it makes context switches rare.
pub const INLINE_SLOTS: u32 = 128;
/// Alignment of scratch, in bytes.
pub const PAGE: usize = 4096;

const DOORBELL: usize = LINE;
const BARRIER: usize = 2 * LINE;
const FLAGS: usize = 3 * LINE;
const SLOT: usize = size_of::<InlineSlot>();
/// A node flag, the number of what was finished, and the inline slots.
const LINES_PER_RANK: u64 = 2 + (INLINE_SLOTS as usize * SLOT / LINE) as u64;

/// Geometry of a node segment; every rank of the node computes the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLayout {
    /// Ranks of the node.
    pub local_ranks: u32,
    /// Scratch channels of the team.
    pub channels: u32,
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
        let checks = match self.check_bytes {
            0 => 0,
            bytes => slots
                .checked_mul(2 * u64::from(bytes))?
                .checked_add((8 * slots).checked_next_multiple_of(line)?)?,
        };
        let front = pairs
            .checked_mul(arrivals.checked_add(slots * line)?.checked_add(checks)?)?
            .checked_add(FLAGS as u64 + ranks * LINES_PER_RANK * line)?
            .checked_next_multiple_of(page)?;
        let scratch = self.scratch_bytes.checked_next_multiple_of(page)?;
        front.checked_add(pairs.checked_mul(scratch)?)
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

    /// `r`'s node flag (u64, alone on its line); flags of consecutive ranks are consecutive lines.
    #[inline]
    #[track_caller]
    pub fn node_flag(&self, r: NodeRank) -> usize {
        self.check_rank(r);
        FLAGS + r.index() * LINE
    }

    /// `r`'s word (u64, alone on its line) that says which operations it has finished.
    #[inline]
    #[track_caller]
    pub fn finished(&self, r: NodeRank) -> usize {
        self.check_rank(r);
        FLAGS + (self.local_ranks as usize + r.index()) * LINE
    }

    /// `r`'s inline slot number `index`.
    #[inline]
    #[track_caller]
    pub fn inline_slot(&self, r: NodeRank, index: u32) -> usize {
        self.check_rank(r);
        assert!(index < INLINE_SLOTS, "an inline slot below {INLINE_SLOTS}");
        self.inline_slots() + (INLINE_SLOTS as usize * r.index() + index as usize) * SLOT
    }

    /// The arrival flag (u64) of `slot` at `r` for chunk `chunk` of its message. The flags of a slot
    /// are consecutive and share a cache line, if there are at most eight.
    #[inline]
    #[track_caller]
    pub fn arrival(&self, r: NodeRank, channel: u32, slot: u16, chunk: u8) -> usize {
        assert!(
            u32::from(chunk) < self.rails,
            "chunk {chunk} of {}",
            self.rails
        );
        let pair = self.pair(r, channel);
        let slot = self.check_slot(slot);
        let index = slot * self.slot_flags() + usize::from(chunk);
        self.arrivals() + pair * self.arrival_bytes() + 8 * index
    }

    /// The announcement cell of `slot` at `r`: one line that holds a remote region's wire form.
    #[inline]
    #[track_caller]
    pub fn announcement(&self, r: NodeRank, channel: u32, slot: u16) -> usize {
        let pair = self.pair(r, channel);
        let slot = self.check_slot(slot);
        self.announcements() + (pair * self.slots as usize + slot) * LINE
    }

    /// The check cell of `slot` at `r`: `check_bytes` bytes that the origin of the message writes.
    #[track_caller]
    pub fn check(&self, r: NodeRank, channel: u32, slot: u16) -> usize {
        self.checks(r, channel) + self.check_slot(slot) * self.check_bytes as usize
    }

    /// The cell in which `r` prepares the check of the `index`-th message that it sends.
    #[track_caller]
    pub fn own_check(&self, r: NodeRank, channel: u32, index: u16) -> usize {
        let before = self.slots as usize + self.check_slot(index);
        self.checks(r, channel) + before * self.check_bytes as usize
    }

    /// The word (u64) in which `r` is told what became of the `index`-th message that it sends.
    #[track_caller]
    pub fn verdict(&self, r: NodeRank, channel: u32, index: u16) -> usize {
        let cells = 2 * self.slots as usize * self.check_bytes as usize;
        self.checks(r, channel) + cells + 8 * self.check_slot(index)
    }

    /// `r`'s scratch of `channel`: `scratch_bytes` bytes, page aligned.
    #[inline]
    #[track_caller]
    pub fn scratch(&self, r: NodeRank, channel: u32) -> usize {
        let pair = self.pair(r, channel);
        let checks = self.all_checks() + self.pairs() * self.pair_checks();
        let start = checks.next_multiple_of(PAGE);
        start + pair * (self.scratch_bytes as usize).next_multiple_of(PAGE)
    }

    /// Where the checks of a pair of rank and channel begin.
    #[track_caller]
    fn checks(&self, r: NodeRank, channel: u32) -> usize {
        assert!(self.check_bytes > 0, "messages are not checked");
        self.all_checks() + self.pair(r, channel) * self.pair_checks()
    }

    #[inline]
    fn all_checks(&self) -> usize {
        self.announcements() + self.pairs() * self.slots as usize * LINE
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
    fn inline_slots(&self) -> usize {
        FLAGS + 2 * self.local_ranks as usize * LINE
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
    fn announcements(&self) -> usize {
        self.arrivals() + self.pairs() * self.arrival_bytes()
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
    fn check_slot(&self, slot: u16) -> usize {
        assert!(
            u32::from(slot) < self.slots,
            "slot {slot} of {}",
            self.slots
        );
        usize::from(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Every cell of a layout as (offset, bytes, owner).
    fn cells(layout: &NodeLayout) -> Vec<(usize, usize, String)> {
        let mut cells = vec![
            (NodeLayout::header(), LINE, "header".into()),
            (layout.doorbell(), 8, "doorbell".into()),
            (layout.barrier(), 8, "barrier".into()),
        ];
        for r in (0..layout.local_ranks).map(NodeRank) {
            cells.push((layout.node_flag(r), 8, format!("flag {r}")));
            cells.push((layout.finished(r), 8, format!("finished {r}")));
            for index in 0..INLINE_SLOTS {
                let at = layout.inline_slot(r, index);
                cells.push((at, SLOT, format!("inline {r} {index}")));
            }
            for channel in 0..layout.channels {
                for slot in 0..layout.slots as u16 {
                    for rail in 0..layout.rails as u8 {
                        let at = layout.arrival(r, channel, slot, rail);
                        cells.push((at, 8, format!("arrivals {r} {channel}")));
                    }
                    let at = layout.announcement(r, channel, slot);
                    cells.push((at, 64, format!("announcement {r} {channel} {slot}")));
                    if layout.check_bytes > 0 {
                        let bytes = layout.check_bytes as usize;
                        let at = layout.check(r, channel, slot);
                        cells.push((at, bytes, format!("check {r} {channel} {slot}")));
                        let at = layout.own_check(r, channel, slot);
                        cells.push((at, bytes, format!("own check {r} {channel} {slot}")));
                        let at = layout.verdict(r, channel, slot);
                        cells.push((at, 8, format!("verdicts {r} {channel}")));
                    }
                }
                let at = layout.scratch(r, channel);
                assert_eq!(at % PAGE, 0);
                let bytes = layout.scratch_bytes as usize;
                cells.push((at, bytes, format!("scratch {r} {channel}")));
            }
        }
        cells
    }

    #[test]
    fn cells_neither_overlap_nor_share_lines() {
        for (local_ranks, channels, slots, rails, scratch_bytes, check_bytes) in [
            (1, 1, 1, 1, 1, 0),
            (2, 2, 34, 2, 4096, 64),
            (5, 3, 42, 3, 5000, 0),
            (3, 1, 33, 8, 0, 192),
        ] {
            let layout = NodeLayout {
                local_ranks,
                channels,
                slots,
                rails,
                scratch_bytes,
                check_bytes,
            };
            let total = layout.total_bytes() as usize;
            let mut lines: BTreeMap<usize, String> = BTreeMap::new();
            let mut ends = Vec::new();
            for (at, bytes, owner) in cells(&layout) {
                assert_eq!(at % 8, 0);
                assert!(at + bytes <= total, "{owner} leaves the segment");
                for line in at / LINE..(at + bytes).div_ceil(LINE) {
                    let before = lines.insert(line, owner.clone());
                    assert!(before.is_none_or(|b| b == owner), "{owner} shares a line");
                }
                ends.push((at, at + bytes));
            }
            ends.sort_unstable();
            assert!(
                ends.windows(2).all(|pair| pair[0].1 <= pair[1].0),
                "overlap"
            );
            assert_eq!(total % PAGE, 0);
        }
    }

    #[test]
    fn arrival_flags_of_a_slot_are_consecutive() {
        let layout = NodeLayout {
            local_ranks: 2,
            channels: 2,
            slots: 9,
            rails: 3,
            scratch_bytes: 1,
            check_bytes: 0,
        };
        let first = layout.arrival(NodeRank(1), 1, 4, 0);
        assert_eq!(layout.arrival(NodeRank(1), 1, 4, 2), first + 16);
        assert_eq!(layout.arrival(NodeRank(1), 1, 5, 0), first + 32);
    }

    #[test]
    fn absurd_geometry_saturates() {
        let layout = NodeLayout {
            local_ranks: u32::MAX,
            channels: u32::MAX,
            slots: u32::MAX,
            rails: u32::MAX,
            scratch_bytes: u64::MAX,
            check_bytes: u32::MAX,
        };
        assert_eq!(layout.total_bytes(), u64::MAX);
    }

    #[test]
    fn indices_are_checked() {
        let layout = NodeLayout {
            local_ranks: 2,
            channels: 1,
            slots: 3,
            rails: 1,
            scratch_bytes: 1,
            check_bytes: 0,
        };
        let panics = |f: &(dyn Fn() -> usize + std::panic::RefUnwindSafe)| {
            std::panic::catch_unwind(f).is_err()
        };
        assert!(panics(&|| layout.node_flag(NodeRank(2))));
        assert!(panics(&|| layout.inline_slot(NodeRank(0), INLINE_SLOTS)));
        assert!(panics(&|| layout.arrival(NodeRank(0), 1, 0, 0)));
        assert!(panics(&|| layout.arrival(NodeRank(0), 0, 3, 0)));
        assert!(panics(&|| layout.arrival(NodeRank(0), 0, 0, 1)));
        assert!(panics(&|| layout.scratch(NodeRank(0), 1)));
    }
}
