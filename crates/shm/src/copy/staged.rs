//! Copies between processes by way of a staging buffer, where processors are slow at the direct way.
//!
//! The kernel copies page by page with `rep movsb`, which may take many times as long where the destination is a few
//! bytes further in its page than the source is ([`memory::copies_slowly`]). A copy by way of memory that lies where the other
//! process's does in its page takes the usual time for one half, and [`memory::copy`] is never slow.

use ferrorail_base::memory::{self, MemoryRange};
use std::io;

const PAGE: usize = 4096;

/// Bytes of a chunk, for each of which there is a system call.
const CHUNK: usize = 64 << 10;

/// Shorter copies take the direct way.
const BYTES_MIN: usize = 4 << 10;

/// Memory for a chunk that begins anywhere in a page. Not on the stack: threads of a program may have little.
pub(super) struct Staging(Vec<u8>);

impl Staging {
    /// For a copy of `bytes` bytes from one address to another; None where the direct way is better, or there is no memory
    /// for this one.
    #[inline]
    pub fn of(from: usize, into: usize, bytes: usize) -> Option<Self> {
        let gains = bytes >= BYTES_MIN && memory::copies_slowly(from, into);
        if gains { Self::new() } else { None }
    }

    #[cold]
    fn new() -> Option<Self> {
        let mut buffer = Vec::new();
        memory::reserve(&mut buffer, 2 * PAGE + CHUNK).ok()?;
        Some(Self(buffer))
    }

    /// `bytes` bytes of it that begin where `like` is in its page.
    fn chunk(&mut self, like: usize, bytes: usize) -> MemoryRange {
        let all = MemoryRange::new(self.0.as_mut_ptr(), self.0.capacity());
        let offset = like.wrapping_sub(all.address) % PAGE;
        all.slice(offset, bytes)
    }

    /// Calls `act` with each part of `local`, the chunk through which it goes, and its address in what begins at `remote`.
    ///
    /// # Errors
    /// The first of `act`.
    pub fn each(
        mut self,
        local: MemoryRange,
        remote: u64,
        mut act: impl FnMut(MemoryRange, MemoryRange, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        for at in (0..local.bytes).step_by(CHUNK) {
            let part = local.slice(at, CHUNK.min(local.bytes - at));
            let there = remote.wrapping_add(at as u64);
            act(part, self.chunk(there as usize, part.bytes), there)?;
        }
        Ok(())
    }
}
