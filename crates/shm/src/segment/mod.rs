//! One shared mapping of processes of a host.
//!
//! Two backings, each in its file: [`ShmKind::Memfd`] (the default: needs no file system and cannot
//! outlive its processes; peers open it through `/proc`) and [`ShmKind::Posix`] (a named file in
//! `/dev/shm`, for hosts where `/proc/<pid>/fd` of a peer is closed to us).

pub(crate) mod address_space;
pub(crate) mod descriptors;
mod error;
pub(crate) mod found;
mod handle;
mod memfd;
pub(crate) mod placement;
mod posix;

pub use error::ShmError;
pub use handle::SegmentHandle;
pub(crate) use handle::{identity, open_known};

use crate::flags::Flag;
use crate::slot::EagerSlot;
use ferrorail_base::config::ShmKind;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU8, AtomicU32, AtomicU64};
use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

/// The longest file, and so the largest segment, that this process may make (`ulimit -f`).
pub fn largest() -> u64 {
    getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft)
}

/// Refuses more than the [`largest`]: who tries gets SIGXFSZ, which ends the program.
fn may_have(bytes: usize) -> io::Result<()> {
    match bytes as u64 <= largest() {
        true => Ok(()),
        false => Err(Errno::EFBIG.into()),
    }
}

/// Types whose shared references may point into a segment.
///
/// # Safety
/// Made of atomics (and padding) only, so that a peer's writes are no data race: `repr(C)` or
/// `repr(transparent)`, valid for every bit pattern, without pointers, references, handles or drop glue.
pub unsafe trait AtomicCell {}

// SAFETY: an atomic integer.
unsafe impl AtomicCell for AtomicU8 {}
// SAFETY: as above.
unsafe impl AtomicCell for AtomicU32 {}
// SAFETY: as above.
unsafe impl AtomicCell for AtomicU64 {}
// SAFETY: `repr(C)`, atomic integers and padding.
unsafe impl AtomicCell for Flag {}
// SAFETY: `repr(C)`, atomic integers only.
unsafe impl AtomicCell for EagerSlot {}

/// A shared mapping, or a part of one; unmapped when the last part is dropped. A creator's name (if it has
/// one) is removed on drop too.
#[derive(Debug)]
pub struct Segment {
    map: Arc<MmapRaw>,
    /// The part: where it begins in the mapping, and its length.
    start: usize,
    bytes: usize,
    /// `None` once closed.
    file: Option<File>,
    device: u64,
    inode: u64,
    /// POSIX backing: the name to attach by, and the creator's duty to remove it.
    name: Option<posix::Name>,
}

impl Segment {
    /// Creates a zero-filled segment of at least `bytes` bytes, rounded up to pages. Its descriptor
    /// is close-on-exec and stays open until [`Segment::close`], for peers to attach to.
    ///
    /// [`ShmKind::Auto`] is a memfd, or POSIX shared memory where this process may not create one.
    /// Whether *peers* can attach to a memfd is for them to agree on.
    ///
    /// # Errors
    /// Each variant of [`ShmError`] names the act that failed; that `/dev/shm` is full is found here and not as a
    /// SIGBUS later.
    pub fn create(kind: ShmKind, bytes: usize) -> Result<Segment, ShmError> {
        let bytes = round_to_pages(bytes)?;
        match kind {
            ShmKind::Memfd => Self::create_memfd(bytes),
            ShmKind::Posix => Self::create_posix(Path::new(posix::DIRECTORY), bytes),
            ShmKind::Auto => match Self::create_memfd(bytes) {
                Err(error @ ShmError::CreateMemfd { .. }) => {
                    tracing::info!(%error, "taking POSIX shared memory instead");
                    Self::create_posix(Path::new(posix::DIRECTORY), bytes)
                }
                other => other,
            },
        }
    }

    fn create_memfd(bytes: usize) -> Result<Segment, ShmError> {
        Self::map(memfd::create(bytes)?, bytes, None)
    }

    fn create_posix(directory: &Path, bytes: usize) -> Result<Segment, ShmError> {
        posix::sweep(directory);
        let (file, name) = posix::create(directory, bytes)?;
        Self::map(file, bytes, Some(name))
    }

    /// Maps the segment that `handle` tells of.
    ///
    /// # Errors
    /// [`ShmError::AttachForbidden`] where the peer's descriptors are closed to us (another user,
    /// a hardened `/proc`, a process that made itself undumpable), [`ShmError::AttachGone`] where
    /// there is nothing (it ended, or it lives in another pid namespace),
    /// [`ShmError::AttachOther`] where there is something else. POSIX shared memory helps in all
    /// three cases if the processes share `/dev/shm`.
    pub fn attach(handle: &SegmentHandle) -> Result<Segment, ShmError> {
        Self::attach_in(Path::new(posix::DIRECTORY), handle)
    }

    fn attach_in(directory: &Path, handle: &SegmentHandle) -> Result<Segment, ShmError> {
        let path = match &handle.posix_name {
            Some(name) => posix::path_of(directory, name),
            None => memfd::path_of(handle),
        };
        let file = handle.open(&path)?;
        let bytes = usize::try_from(handle.bytes).map_err(|_| ShmError::TooLarge {
            bytes: handle.bytes,
        })?;
        let name = handle.posix_name.clone().map(posix::Name::of_peer);
        Self::map(file, bytes, name)
    }

    fn map(file: File, bytes: usize, name: Option<posix::Name>) -> Result<Segment, ShmError> {
        descriptors::leave_some(file.as_raw_fd())?;
        address_space::leave_some(bytes)?;
        let failed = |source| ShmError::Map {
            bytes: bytes as u64,
            source,
        };
        let [device, inode] = identity(&file.metadata().map_err(failed)?);
        let map = MmapOptions::new()
            .len(bytes)
            .map_raw(&file)
            .map_err(failed)?;
        Ok(Segment {
            map: Arc::new(map),
            start: 0,
            bytes,
            file: Some(file),
            device,
            inode,
            name,
        })
    }

    /// What a process of this host needs to attach. It refers to this process's descriptor, also
    /// where this process attached itself.
    pub fn handle(&self) -> SegmentHandle {
        SegmentHandle {
            pid: std::process::id(),
            fd: self.fd(),
            device: self.device,
            inode: self.inode,
            bytes: self.map.len() as u64,
            posix_name: self.name.as_ref().map(|name| name.as_str().to_owned()),
        }
    }

    /// Keeps the first `bytes` bytes, rounded up to pages, and returns as many more parts of that length as the
    /// mapping has. They have no descriptor.
    ///
    /// # Panics
    /// If the segment is a part already.
    pub fn split(&mut self, bytes: usize) -> Vec<Segment> {
        assert_eq!(self.bytes, self.map.len(), "split once");
        self.bytes = round_to_pages(bytes).map_or(self.bytes, |rounded| rounded.min(self.bytes));
        let part = |index| Segment {
            map: self.map.clone(),
            start: index * self.bytes,
            bytes: self.bytes,
            file: None,
            device: self.device,
            inode: self.inode,
            name: None,
        };
        (1..self.map.len() / self.bytes).map(part).collect()
    }

    /// A number that no other segment has which this process maps, of at most `bits` bits, and the same in all
    /// processes that map it.
    pub fn identity(&self, bits: u32) -> u64 {
        let part = (self.start / self.bytes) as u64;
        let mixed = self.inode ^ self.device.rotate_left(40) ^ part << 48;
        mixed & ((1 << bits) - 1)
    }

    /// Removes the name of a POSIX segment that this process created; to be called once everybody
    /// has attached, after which no crash can leave anything behind. Nothing to do for a memfd.
    pub fn unlink(&self) {
        if let Some(name) = &self.name {
            name.unlink();
        }
    }

    /// Gives the descriptor back, as programs have a limit of them; to be called once nobody attaches
    /// any more. The mapping stays.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// The mapping, as an address range of this process.
    #[inline]
    pub fn range(&self) -> MemoryRange {
        MemoryRange::new(self.as_ptr(), self.bytes)
    }

    /// This process's descriptor of the shared object; -1 once closed.
    pub fn fd(&self) -> i32 {
        self.file.as_ref().map_or(-1, File::as_raw_fd)
    }

    /// Length in bytes, a multiple of the page size.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn as_ptr(&self) -> *mut u8 {
        // SAFETY: a part lies in its mapping.
        unsafe { self.map.as_mut_ptr().add(self.start) }
    }

    /// The word at `offset`.
    ///
    /// # Panics
    /// If it is unaligned or leaves the segment.
    #[inline]
    #[track_caller]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        self.cell(offset)
    }

    /// The half word at `offset`.
    ///
    /// # Panics
    /// If it is unaligned or leaves the segment.
    #[inline]
    #[track_caller]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        self.cell(offset)
    }

    /// The cell at `offset`.
    ///
    /// # Panics
    /// If it is unaligned or leaves the segment.
    #[inline]
    #[track_caller]
    pub fn cell<T: AtomicCell>(&self, offset: usize) -> &T {
        &self.cells(offset, 1)[0]
    }

    /// `count` consecutive cells from `offset`.
    ///
    /// # Panics
    /// If they are unaligned or leave the segment.
    #[inline]
    #[track_caller]
    pub fn cells<T: AtomicCell>(&self, offset: usize, count: usize) -> &[T] {
        let end = count
            .checked_mul(size_of::<T>())
            .and_then(|bytes| offset.checked_add(bytes));
        assert!(
            end.is_some_and(|end| end <= self.bytes()) && offset.is_multiple_of(align_of::<T>()),
            "{count} cells at offset {offset} are unaligned or leave a segment of {}",
            self.bytes()
        );
        // SAFETY: inside the mapping, which lives as long as `self`, of which every part starts on a page; aligned
        // as just checked; `AtomicCell` is valid for every bit pattern and suffers peers' writes.
        unsafe { std::slice::from_raw_parts(self.as_ptr().add(offset).cast::<T>(), count) }
    }
}

pub(crate) fn round_to_pages(bytes: usize) -> Result<usize, ShmError> {
    // SAFETY: no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = usize::try_from(page).unwrap_or(crate::layout::PAGE);
    bytes
        .max(1)
        .checked_next_multiple_of(page)
        .filter(|&rounded| isize::try_from(rounded).is_ok())
        .ok_or(ShmError::TooLarge {
            bytes: bytes as u64,
        })
}

#[cfg(test)]
mod tests;
