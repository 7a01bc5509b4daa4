//! The scratch of a node's ranks: where it is, where its pages come from, and copies into it.

use super::NodeSegment;
use crate::copy::{ScratchKind, copy_into_shared};
use crate::segment::placement::prefer_numa_node;
use ferrorail_base::NodeRank;
use ferrorail_base::memory::MemoryRange;
use std::io;

impl NodeSegment {
    /// `r`'s scratch of `channel`.
    #[inline]
    pub fn scratch(&self, r: NodeRank, channel: u32) -> MemoryRange {
        self.wide_scratch(r, channel, 1)
    }

    /// `r`'s scratch of `width` adjacent channels from `channel` on.
    #[inline]
    pub fn wide_scratch(&self, r: NodeRank, channel: u32, width: u32) -> MemoryRange {
        let at = self.layout.scratch(r, channel);
        let bytes = self.geometry().run_bytes(channel, width) as usize;
        self.segment.range().slice(at, bytes)
    }

    /// `bytes` bytes of `r`'s rotating scratch, from `start` on.
    #[inline]
    pub fn rotating(&self, r: NodeRank, start: usize, bytes: usize) -> MemoryRange {
        let end = start + bytes;
        assert!(
            end as u64 <= self.geometry().rotating_bytes,
            "rotating scratch"
        );
        let at = self.layout.rotating(r);
        self.segment.range().slice(at + start, bytes)
    }

    /// Has the scratch of `r` come from NUMA node `numa_node`, where `r` reads what others write there first.
    ///
    /// # Errors
    /// The system's, which may not allow that.
    pub fn prefer_numa_node(&self, r: NodeRank, numa_node: u32) -> io::Result<()> {
        let bytes = self.geometry().channels as usize * self.geometry().scratch_capacity();
        // Channels lie one after the other.
        let scratch = self.segment.range().slice(self.layout.scratch(r, 0), bytes);
        prefer_numa_node(scratch, numa_node)?;
        match self.geometry().rotating_bytes {
            0 => Ok(()),
            bytes => prefer_numa_node(self.rotating(r, 0, bytes as usize), numa_node),
        }
    }

    /// Copies `from` to `into`, scratch of the segment that is as long, for a rank on another core.
    ///
    /// # Safety
    /// As [`MemoryRange::copy_to`].
    #[inline]
    pub unsafe fn copy_in(&self, from: MemoryRange, into: MemoryRange, kind: ScratchKind) {
        // SAFETY: passed on to the caller.
        unsafe {
            copy_into_shared(from, into, kind, || {
                self.written.note(self.offset(into), into.bytes)
            })
        }
    }

    fn offset(&self, range: MemoryRange) -> usize {
        range.address - self.segment.range().address
    }
}
