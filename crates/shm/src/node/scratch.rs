//! The scratch of a node's ranks: where it is, where its pages come from, and copies into it.

use super::NodeSegment;
use crate::copy::{ScratchKind, copy_into_shared};
use crate::segment::placement::{populate, prefer_numa_node};
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

    /// Has the kernel map `range`, scratch of the segment, into this process, and find pages for it, at once instead of page
    /// by page at the first access: a tenth of a microsecond for each instead of one. Systems that cannot (Linux before
    /// 5.14), or have no memory for it, leave it as it is.
    pub fn populate(&self, range: MemoryRange) {
        if populate(range).is_ok() {
            self.written.note(self.offset(range), range.bytes);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeGeometry, NodeSegment};
    use ferrorail_base::config::ShmKind;

    #[test]
    fn pages_are_there_before_they_are_written() {
        let geometry = NodeGeometry {
            local_ranks: 2,
            channels: 2,
            scratch_bytes: 64 << 10,
            ..NodeGeometry::default()
        };
        let segment = NodeSegment::create(ShmKind::Memfd, geometry, 0).unwrap();
        let scratch = segment.scratch(NodeRank(1), 0);
        let are_there = || {
            let mut pages = vec![0u8; scratch.bytes / 4096];
            // SAFETY: the range is mapped; a byte for each of its pages.
            let outcome = unsafe {
                libc::mincore(scratch.as_ptr().cast(), scratch.bytes, pages.as_mut_ptr())
            };
            assert_eq!(outcome, 0);
            pages.iter().map(|page| page & 1).collect::<Vec<_>>()
        };
        assert_eq!(are_there(), [0; 16]);
        segment.populate(scratch);
        assert_eq!(are_there(), [1; 16]);
        assert!(!segment.written.note(segment.offset(scratch), scratch.bytes));
    }
}
