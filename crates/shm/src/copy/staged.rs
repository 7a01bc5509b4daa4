//! Copies between processes by way of a staging buffer, where processors are slow at the direct way.
//!
//! The kernel copies page by page with `rep movsb`, which may take many times as long where the destination is a few
//! bytes further in its page than the source is ([`memory::copies_slowly`]). A copy by way of memory that lies where the other
//! process's does in its page takes the usual time for one half, and [`memory::copy`] is never slow.

use ferrorail_base::memory::{self, MemoryRange, NoMemory};
use std::io;

const PAGE: usize = 4096;

/// Bytes of a chunk, for each of which there is a system call.
const CHUNK: usize = 64 << 10;

/// Shorter copies take the direct way.
const BYTES_MIN: usize = 4 << 10;

/// Memory for a chunk that begins anywhere in a page. Not on the stack: threads of a program may have little.
struct Staging(Vec<u8>);

impl Staging {
    fn new() -> Result<Self, NoMemory> {
        let mut buffer = Vec::new();
        memory::reserve(&mut buffer, 2 * PAGE + CHUNK)?;
        Ok(Self(buffer))
    }

    /// `bytes` bytes of it that begin where `like` is in its page.
    fn chunk(&mut self, like: usize, bytes: usize) -> MemoryRange {
        let all = MemoryRange::new(self.0.as_mut_ptr(), self.0.capacity());
        let offset = like.wrapping_sub(all.address) % PAGE;
        all.slice(offset, bytes)
    }
}

/// Whether a copy of `bytes` bytes from one address to another should be staged.
#[inline]
pub(super) fn gains(from: usize, into: usize, bytes: usize) -> bool {
    bytes >= BYTES_MIN && memory::copies_slowly(from, into)
}

/// Reads what is at `remote` into `local`, in calls of `read` with its arguments: one, if there is no memory for more.
///
/// # Safety
/// `local` is writable and nobody else touches it meanwhile.
#[cold]
pub(super) unsafe fn read(
    remote: u64,
    local: MemoryRange,
    mut read: impl FnMut(u64, MemoryRange) -> io::Result<()>,
) -> io::Result<()> {
    let Ok(mut staging) = Staging::new() else {
        return read(remote, local);
    };
    for at in (0..local.bytes).step_by(CHUNK) {
        let part = local.slice(at, CHUNK.min(local.bytes - at));
        let from = remote.wrapping_add(at as u64);
        let chunk = staging.chunk(from as usize, part.bytes);
        read(from, chunk)?;
        // SAFETY: the caller vouches for `local`; the chunk was just filled.
        unsafe { chunk.copy_to(part) };
    }
    Ok(())
}

/// Writes `local` to `remote`, in calls of `write` with its arguments: one, if there is no memory for more.
///
/// # Safety
/// `local` is readable.
#[cold]
pub(super) unsafe fn write(
    local: MemoryRange,
    remote: u64,
    mut write: impl FnMut(MemoryRange, u64) -> io::Result<()>,
) -> io::Result<()> {
    let Ok(mut staging) = Staging::new() else {
        return write(local, remote);
    };
    for at in (0..local.bytes).step_by(CHUNK) {
        let part = local.slice(at, CHUNK.min(local.bytes - at));
        let into = remote.wrapping_add(at as u64);
        let chunk = staging.chunk(into as usize, part.bytes);
        // SAFETY: the caller vouches for `local`; the chunk is this call's own.
        unsafe { part.copy_to(chunk) };
        write(chunk, into)?;
    }
    Ok(())
}
