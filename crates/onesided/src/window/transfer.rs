//! Put and get (MPI 4.1, section 12.3).

use super::attach::{BATCH, CHUNK_BYTES, STAGED_MAX, copy, copy_across, move_packed, move_staged};
use super::held::Held;
use super::packed::Packed;
use super::rails::Direction;
use super::shape::{Shape, Side, zip};
use super::target::Memory;
use super::{Window, WindowError, count};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::Endpoint;

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
        let held = self.enter(target)?;
        if let (Some(here), Some(there)) = (shape.single(), there.single()) {
            let here = MemoryRange::new(origin.wrapping_offset(here.offset), here.bytes);
            // SAFETY: the caller's contract; the target's bytes were checked.
            return unsafe { self.move_run(target, direction, here, base + there.offset) };
        }
        // SAFETY: as above.
        unsafe { self.move_shaped((target, held), direction, (origin, shape), (base, there)) }
    }

    /// [`Window::move_all`] of more than one run, from byte `base` of the target's memory on.
    ///
    /// # Safety
    /// As [`Window::move_run`], for each run of both sides.
    #[cold]
    unsafe fn move_shaped(
        &self,
        (target, held): (Rank, Held),
        direction: Direction,
        (origin, shape): (*mut u8, &Shape<'_>),
        (base, there): (isize, &Shape<'_>),
    ) -> Result<(), WindowError> {
        let side = Side {
            address: origin,
            shape,
        };
        let sides = match direction {
            Direction::Put => (Some(side), None),
            Direction::Get => (None, Some(side)),
        };
        // SAFETY: the caller's contract, which holds until the epoch ends.
        if unsafe { self.leave_transfer((target, held), sides, base, there)? } {
            return Ok(());
        }
        if let Memory::Mapped(start) = self.targets[target.index()].memory
            && Packed::is_faster(shape.bytes(), shape.piece_count().max(there.piece_count()))
        {
            let mapped = (start as *mut u8).wrapping_offset(base);
            let ((from, sent), (into, received)) = match direction {
                Direction::Put => ((origin, shape), (mapped, there)),
                Direction::Get => ((mapped, there), (origin, shape)),
            };
            let mut packed = Packed::room(shape.bytes())?;
            // SAFETY: the caller's contract; inside the target's mapped memory; the room is this call's own. Should the two overlap, all is
            // read before anything is written.
            unsafe {
                sent.pack(from, packed.as_mut_ptr());
                received.unpack(packed.as_mut_ptr(), into);
            }
            return Ok(());
        }
        if let Some(run) = there.single()
            && let Memory::Attach { process, address } = self.targets[target.index()].memory
            && shape.portion(CHUNK_BYTES) <= STAGED_MAX
        {
            let there = address.wrapping_add_signed((base + run.offset) as i64);
            // SAFETY: the caller's contract.
            return unsafe { move_packed(target, process, direction, (origin, shape), there) };
        }
        let runs = zip(shape, there).map(|(here, there, bytes)| {
            let here = MemoryRange::new(origin.wrapping_offset(here), bytes);
            (here, there)
        });
        // SAFETY: the caller's contract, for each part.
        unsafe { self.move_runs(target, direction, (base, there), runs) }
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

/// Whether both sides describe as much data.
#[inline]
pub(super) fn same_length(origin: &Shape<'_>, target: &Shape<'_>) -> Result<(), WindowError> {
    let (origin, target) = (origin.bytes(), target.bytes());
    match origin == target {
        true => Ok(()),
        false => Err(WindowError::Lengths { origin, target }),
    }
}
