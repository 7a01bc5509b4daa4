//! Put and get (MPI 4.1, section 12.3).

use super::rails::Direction;
use super::shape::{Shape, zip};
use super::target::Memory;
use super::{Window, WindowError, count};
use ferrorail_base::Rank;
use ferrorail_base::memory::{self, MemoryRange};
use ferrorail_fabric::Endpoint;
use ferrorail_shm::Cma;

/// Runs that are listed at a time for cross-memory attach.
const BATCH: usize = 1024;

/// Runs that are so many bytes apart on average, or less, are read together with the gaps between them: the kernel takes longer
/// for a run than to copy as many bytes.
const CLOSE: u64 = 512;

/// Most bytes that are put in the target's order before they are moved there by cross-memory attach, or after.
const STAGED_MAX: usize = 64 << 20;

impl<F: Endpoint> Window<F> {
    /// `MPI_Put`: starts writing `origin`, as `shape` says, to `displacement` at `target`, as `there`
    /// says. Complete when the epoch ends, or after a flush.
    ///
    /// # Errors
    /// Wrong arguments and epochs, before anything is written; failures of the way there.
    ///
    /// # Safety
    /// `origin` is readable as `shape` says, and not changed before the operation is complete.
    #[inline]
    pub unsafe fn put(
        &self,
        origin: *const u8,
        shape: &Shape<'_>,
        target: Rank,
        displacement: i64,
        there: &Shape<'_>,
    ) -> Result<(), WindowError> {
        count(&self.counters.puts);
        let here = (origin.cast_mut(), shape);
        // SAFETY: the caller's contract; a put only reads there.
        unsafe { self.move_all(Direction::Put, here, target, (displacement, there)) }
    }

    /// `MPI_Get`: as [`Window::put`] the other way.
    ///
    /// # Errors
    /// As [`Window::put`].
    ///
    /// # Safety
    /// `origin` is writable as `shape` says, and left alone before the operation is complete.
    #[inline]
    pub unsafe fn get(
        &self,
        origin: *mut u8,
        shape: &Shape<'_>,
        target: Rank,
        displacement: i64,
        there: &Shape<'_>,
    ) -> Result<(), WindowError> {
        count(&self.counters.gets);
        // SAFETY: the caller's contract.
        unsafe {
            self.move_all(
                Direction::Get,
                (origin, shape),
                target,
                (displacement, there),
            )
        }
    }

    /// Where elements of `shape` are, `displacement` units from `target`'s base.
    #[inline]
    pub(super) fn place(
        &self,
        target: Rank,
        displacement: i64,
        shape: &Shape<'_>,
    ) -> Result<isize, WindowError> {
        match self.dynamic {
            None => self.targets[target.index()].place(target, displacement, shape),
            Some(_) => self.place_dynamic(target, displacement, shape),
        }
    }

    #[inline]
    unsafe fn move_all(
        &self,
        direction: Direction,
        (origin, shape): (*mut u8, &Shape<'_>),
        target: Rank,
        (displacement, there): (i64, &Shape<'_>),
    ) -> Result<(), WindowError> {
        same_length(shape, there)?;
        let base = self.place(target, displacement, there)?;
        self.enter(target)?;
        if let (Some(here), Some(there)) = (shape.single(), there.single()) {
            let here = MemoryRange::new(origin.wrapping_offset(here.offset), here.bytes);
            // SAFETY: the caller's contract; the target's bytes were checked.
            return unsafe { self.move_run(target, direction, here, base + there.offset) };
        }
        // SAFETY: as above.
        unsafe { self.move_shaped(target, direction, (origin, shape), (base, there)) }
    }

    /// [`Window::move_all`] of more than one run, from byte `base` of the target's memory on.
    ///
    /// # Safety
    /// As [`Window::move_run`], for each run of both sides.
    #[cold]
    unsafe fn move_shaped(
        &self,
        target: Rank,
        direction: Direction,
        (origin, shape): (*mut u8, &Shape<'_>),
        (base, there): (isize, &Shape<'_>),
    ) -> Result<(), WindowError> {
        let runs = zip(shape, there).map(|(here, there, bytes)| {
            let here = MemoryRange::new(origin.wrapping_offset(here), bytes);
            (here, there)
        });
        // SAFETY: the caller's contract, for each part.
        unsafe { self.move_runs(target, direction, (base, there), runs) }
    }

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
        let is_range = is_filled && shape.single().is_none();
        // In a dynamic window there may be no memory in such a gap.
        (is_range && self.is_memory(target, address, bytes)).then_some(AttachedRange {
            process,
            address,
            first,
            bytes,
        })
    }

    /// [`Window::move_run`] for each of `runs`, which have offsets in `there`, from byte `base` of the target's memory
    /// on. Together they are all of it where [`Window::attached_range`] knows a range.
    ///
    /// # Safety
    /// As [`Window::move_run`].
    #[cold]
    pub(super) unsafe fn move_runs(
        &self,
        target: Rank,
        direction: Direction,
        (base, there): (isize, &Shape<'_>),
        runs: impl Iterator<Item = (MemoryRange, isize)>,
    ) -> Result<(), WindowError> {
        if let Some(range) = self.attached_range(target, base, there) {
            // SAFETY: the caller's contract.
            return unsafe { move_staged(target, direction, &range, &mut Vec::new(), runs) };
        }
        let mut runs = runs.map(|(here, offset)| (here, base.wrapping_add(offset)));
        let Memory::Attach { process, address } = self.targets[target.index()].memory else {
            // SAFETY: the caller's contract.
            return runs.try_for_each(|(here, offset)| unsafe {
                self.move_run(target, direction, here, offset)
            });
        };
        let mut runs =
            runs.map(|(here, offset)| (here, address.wrapping_add_signed(offset as i64)));
        let (mut batch, mut copied) = (Vec::new(), Vec::new());
        loop {
            batch.clear();
            batch.extend(runs.by_ref().take(BATCH));
            if batch.is_empty() {
                return Ok(());
            }
            let range = match direction {
                Direction::Put => None,
                Direction::Get => self.close_range(target, process, &batch),
            };
            // SAFETY: the caller's contract; inside what the target made the window of.
            unsafe {
                let is_moved = range.is_some_and(|range| {
                    let place = |there| (there - range.address) as isize;
                    let runs = batch.iter().map(|&(here, there)| (here, place(there)));
                    // A window may have been made of addresses between which there is no memory.
                    move_staged(target, direction, &range, &mut copied, runs).is_ok()
                });
                if !is_moved {
                    copy_across(target, process, direction, &batch)?;
                }
            }
        }
    }

    /// The target's memory from the first byte of `batch` to its last, if its runs lie close together.
    fn close_range(
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

    /// Starts moving `here` to or from the bytes at `offset` of `target`'s memory.
    ///
    /// # Safety
    /// `here` is valid until the operation is complete; the bytes at `offset` are inside.
    #[inline]
    pub(super) unsafe fn move_run(
        &self,
        target: Rank,
        direction: Direction,
        here: MemoryRange,
        offset: isize,
    ) -> Result<(), WindowError> {
        if here.bytes == 0 {
            return Ok(());
        }
        match self.targets[target.index()].memory {
            Memory::Mapped(base) => {
                let there = (base as *mut u8).wrapping_offset(offset);
                // SAFETY: inside the target's mapped memory; the two may overlap, and others may
                // write there, which is for the program to prevent.
                unsafe {
                    match direction {
                        Direction::Put => copy(here.as_ptr(), there, here.bytes),
                        Direction::Get => copy(there, here.as_ptr(), here.bytes),
                    }
                }
                Ok(())
            }
            Memory::Attach { process, address } => {
                let there = address.wrapping_add_signed(offset as i64);
                // SAFETY: inside what the target made the window of; else as above.
                unsafe { copy_across(target, process, direction, &[(here, there)]) }
            }
            Memory::Rails {
                region,
                offset: base,
            } => {
                let offset = base.wrapping_add_signed(offset);
                // SAFETY: the caller's contract; the target registered the bytes.
                unsafe { self.move_by_rail(target, direction, here, &region, offset) }
            }
            // SAFETY: as above.
            Memory::Attached => unsafe {
                self.move_attached(target, direction, here, offset as u64)
            },
        }
    }
}

/// A range of another process's memory.
pub(super) struct AttachedRange {
    process: Cma,
    address: u64,
    /// Offset of its first byte in the shape that fills it.
    first: isize,
    bytes: usize,
}

/// Copies between `there`, by way of a copy of it in `copied`, and ranges here, each with its offset in the shape.
///
/// # Safety
/// As [`copy_across`]; the ranges are valid.
unsafe fn move_staged(
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
unsafe fn copy_across(
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

/// Whether both sides describe as much data.
#[inline]
pub(super) fn same_length(origin: &Shape<'_>, target: &Shape<'_>) -> Result<(), WindowError> {
    let (origin, target) = (origin.bytes(), target.bytes());
    match origin == target {
        true => Ok(()),
        false => Err(WindowError::Lengths { origin, target }),
    }
}
