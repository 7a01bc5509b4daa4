//! Copies between processes by way of a staging buffer, where processors are slow at the direct way.
//!
//! The kernel copies page by page with `rep movsb`, which may take many times as long where the destination is a few
//! bytes further in its page than the source is ([`memory::copies_slowly`]). A copy by way of memory that lies where the other
//! process's does in its page takes the usual time for one half, and [`memory::copy`] is never slow.

use ferrorail_base::memory::{self, MemoryRange};
use std::io;
use std::mem::MaybeUninit;

const PAGE: usize = 4096;

/// Bytes of the buffer, which is on the stack; there is a system call for each.
const CHUNK: usize = 64 << 10;

/// Shorter copies take the direct way.
const BYTES_MIN: usize = 4 << 10;

/// A chunk may begin anywhere in its first page.
#[repr(C, align(4096))]
struct Staging(MaybeUninit<[u8; PAGE + CHUNK]>);

impl Staging {
    const EMPTY: Self = Self(MaybeUninit::uninit());

    /// `bytes` bytes of it that begin where `like` is in its page.
    fn chunk(&mut self, like: usize, bytes: usize) -> MemoryRange {
        let all = MemoryRange::new(self.0.as_mut_ptr().cast::<u8>(), PAGE + CHUNK);
        all.slice(like % PAGE, bytes)
    }
}

/// Whether a copy of `bytes` bytes from one address to another should be staged.
#[inline]
pub(super) fn gains(from: usize, into: usize, bytes: usize) -> bool {
    bytes >= BYTES_MIN && memory::copies_slowly(from, into)
}

/// Reads what is at `remote` into `local`, in calls of `read` with its arguments.
///
/// # Safety
/// `local` is writable and nobody else touches it meanwhile.
#[cold]
pub(super) unsafe fn read(
    remote: u64,
    local: MemoryRange,
    mut read: impl FnMut(u64, MemoryRange) -> io::Result<()>,
) -> io::Result<()> {
    let mut staging = Staging::EMPTY;
    for at in (0..local.bytes).step_by(CHUNK) {
        let part = local.slice(at, CHUNK.min(local.bytes - at));
        let from = remote + at as u64;
        let chunk = staging.chunk(from as usize, part.bytes);
        read(from, chunk)?;
        // SAFETY: the caller vouches for `local`; the chunk was just filled.
        unsafe { chunk.copy_to(part) };
    }
    Ok(())
}

/// Writes `local` to `remote`, in calls of `write` with its arguments.
///
/// # Safety
/// `local` is readable.
#[cold]
pub(super) unsafe fn write(
    local: MemoryRange,
    remote: u64,
    mut write: impl FnMut(MemoryRange, u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut staging = Staging::EMPTY;
    for at in (0..local.bytes).step_by(CHUNK) {
        let part = local.slice(at, CHUNK.min(local.bytes - at));
        let into = remote + at as u64;
        let chunk = staging.chunk(into as usize, part.bytes);
        // SAFETY: the caller vouches for `local`; the chunk is this frame's own.
        unsafe { part.copy_to(chunk) };
        write(chunk, into)?;
    }
    Ok(())
}
