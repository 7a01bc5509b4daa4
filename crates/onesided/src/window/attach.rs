//! Copies to and from memory that a program of this node brought to a window: private memory of another process.

use super::rails::Direction;
use super::shape::Shape;
use super::target::Memory;
use super::{Window, WindowError};
use ferrorail_base::Rank;
use ferrorail_base::memory::{self, MemoryRange};
use ferrorail_fabric::Endpoint;
use ferrorail_shm::Cma;

/// Most bytes that are packed or combined at a time where the target's memory is not mapped, or has gaps.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Runs that are listed at a time for cross-memory attach.
pub(super) const BATCH: usize = 1024;

/// Runs that are so many bytes apart on average, or less, are read together with the gaps between them: the kernel takes longer
/// for a run than to copy as many bytes.
pub(super) const CLOSE: u64 = 512;

/// Most bytes that are put in the target's order before they are moved there by cross-memory attach, or after.
pub(super) const STAGED_MAX: usize = 64 << 20;

impl<F: Endpoint> Window<F> {
    /// The range of `target`'s memory that the elements of `shape`, from `base` on, fill in whatever order, as those of
    /// a transposed matrix do, if it is reached into by system calls, of which each run would take one. Elements that
    /// overlap, which a put may not have and a get may, leave a gap elsewhere.
    pub(super) fn attached_range(
        &self,
        target: Rank,
        base: isize,
        shape: &Shape<'_>,
    ) -> Option<AttachedRange> {
        let Memory::Attach { process, address } = self.targets[target.index()].memory else {
            return None;
        };
        let ((first, end), bytes) = (shape.bounds()?, shape.bytes());
        let first = isize::try_from(first).ok()?;
        let is_filled = end - first as i128 == bytes as i128 && bytes <= STAGED_MAX;
        let address = address.wrapping_add_signed((base + first) as i64);
        // In a dynamic window there may be no memory in such a gap.
        (is_filled && self.is_memory(target, address, bytes)).then_some(AttachedRange {
            process,
            address,
            first,
            bytes,
        })
    }

    /// The target's memory from the first byte of `batch` to its last, if its runs lie close together.
    pub(super) fn close_range(
        &self,
        target: Rank,
        process: Cma,
        batch: &[(MemoryRange, u64)],
    ) -> Option<AttachedRange> {
        let address = batch.iter().map(|&(_, there)| there).min()?;
        let ends = batch.iter().map(|&(here, there)| there + here.bytes as u64);
        let bytes = ends.max()? - address;
        let is_close = batch.len() > 1 && bytes <= batch.len() as u64 * CLOSE;
        let bytes = bytes as usize;
        // In a dynamic window there may be no memory in a gap.
        (is_close && self.is_memory(target, address, bytes)).then_some(AttachedRange {
            process,
            address,
            first: 0,
            bytes,
        })
    }
}

/// Copies between elements here and one run there, by way of packed portions.
///
/// # Safety
/// As [`copy_across`]; the elements are valid.
pub(super) unsafe fn move_packed(
    target: Rank,
    process: Cma,
    direction: Direction,
    (origin, shape): (*mut u8, &Shape<'_>),
    there: u64,
) -> Result<(), WindowError> {
    let mut packed = memory::filled(shape.portion(CHUNK_BYTES), 0u8)?;
    for (at, before, portion) in shape.portions(CHUNK_BYTES) {
        let (here, staged) = (origin.wrapping_offset(at), packed.as_mut_ptr());
        let runs = [(
            MemoryRange::new(staged, portion.bytes()),
            there + before as u64,
        )];
        // SAFETY: the caller's contract; the copy has room for a portion.
        unsafe {
            match direction {
                Direction::Put => {
                    portion.pack(here, staged);
                    copy_across(target, process, direction, &runs)?;
                }
                Direction::Get => {
                    copy_across(target, process, direction, &runs)?;
                    portion.unpack(staged, here);
                }
            }
        }
    }
    Ok(())
}

/// A range of another process's memory.
pub(super) struct AttachedRange {
    process: Cma,
    pub address: u64,
    /// Offset of its first byte in the shape that fills it.
    first: isize,
    bytes: usize,
}

/// Copies between `there`, by way of a copy of it in `copied`, and ranges here, each with its offset in the shape.
///
/// # Safety
/// As [`copy_across`]; the ranges are valid.
pub(super) unsafe fn move_staged(
    target: Rank,
    direction: Direction,
    there: &AttachedRange,
    copied: &mut Vec<u8>,
    runs: impl Iterator<Item = (MemoryRange, isize)>,
) -> Result<(), WindowError> {
    if copied.len() < there.bytes {
        *copied = memory::filled(there.bytes, 0u8)?;
    }
    let whole = MemoryRange::new(copied.as_mut_ptr(), there.bytes);
    let place = |offset: isize, bytes| whole.slice((offset - there.first) as usize, bytes).as_ptr();
    // SAFETY: the caller's contract; the copy has room for the range.
    unsafe {
        let whole = [(whole, there.address)];
        match direction {
            Direction::Put => {
                runs.for_each(|(here, at)| copy(here.as_ptr(), place(at, here.bytes), here.bytes));
                copy_across(target, there.process, direction, &whole)
            }
            Direction::Get => {
                copy_across(target, there.process, direction, &whole)?;
                runs.for_each(|(here, at)| copy(place(at, here.bytes), here.as_ptr(), here.bytes));
                Ok(())
            }
        }
    }
}

/// Copies between ranges here and private memory of `process`.
///
/// # Safety
/// The ranges are valid; the addresses are of memory that the process lends to its window.
#[inline(never)]
pub(super) unsafe fn copy_across(
    target: Rank,
    process: Cma,
    direction: Direction,
    runs: &[(MemoryRange, u64)],
) -> Result<(), WindowError> {
    // SAFETY: the caller's contract; others may write there, which is for the program to prevent.
    let copied = unsafe {
        match direction {
            Direction::Put => process.write_all(runs),
            Direction::Get => process.read_all(runs),
        }
    };
    copied.map_err(|source| WindowError::CrossMemory {
        rank: target.0,
        source,
    })
}

/// [`memory::copy_overlapping`], without a call for a word.
///
/// # Safety
/// That of [`memory::copy_overlapping`].
#[inline]
pub(super) unsafe fn copy(from: *const u8, into: *mut u8, bytes: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        match bytes {
            8 => into
                .cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => into
                .cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => memory::copy_overlapping(from, into, bytes),
        }
    }
}
