//! Accumulating operations (MPI 4.1, sections 12.3.4 and 12.3.5): read-modify-write under the
//! accumulate lock of the target. See the module's text on atomicity.

mod by_service_thread;
mod job;

use super::attach::CHUNK_BYTES;
use super::rails::Direction;
use super::shape::{Cutter, Shape, Side};
use super::target::Memory;
use super::transfer::same_length;
use super::update::{self, SWAP_BYTES_MAX, Update};
use super::{Window, WindowError, count};
use ferrorail_base::Rank;
use ferrorail_base::memory::{self, MemoryRange};
use ferrorail_base::runs::Piece;
use ferrorail_base::sync::Claimed;
use ferrorail_fabric::Endpoint;
use std::ptr;

pub(super) use job::Job;

/// Most bytes that are combined without memory being allocated.
const LITTLE: usize = 1024;

impl<F: Endpoint> Window<F> {
    /// `MPI_Accumulate`, `MPI_Get_accumulate` and `MPI_Fetch_and_op`: the target's elements become
    /// what `update` makes of them and of `origin`'s; the ones before go to `result` if that is
    /// given. An element has `element_bytes` packed bytes. Complete on return.
    ///
    /// # Errors
    /// As [`Window::put`].
    ///
    /// # Safety
    /// `origin` is readable as its shape says, unless `update` is [`Update::Keep`]; `result` is
    /// writable.
    #[inline]
    pub unsafe fn accumulate(
        &self,
        origin: (*const u8, &Shape<'_>),
        result: Option<(*mut u8, &Shape<'_>)>,
        target: Rank,
        displacement: i64,
        there: &Shape<'_>,
        element_bytes: usize,
        update: Update<'_>,
    ) -> Result<(), WindowError> {
        let base = self.place(target, displacement, there)?;
        if let Memory::Mapped(start) = self.targets[target.index()].memory
            && self.rails.is_none()
            && let Some((origin, result, piece)) = in_one_run(origin, result, there)
        {
            let held = self.enter(target)?;
            count(&self.counters.accumulates);
            let exclusive = self.take(target, held)?;
            let there = (start as *mut u8).wrapping_offset(base + piece.offset);
            // SAFETY: inside the target's mapped memory, which is this operation's alone; the caller's
            // contract.
            let outcome =
                unsafe { update.in_place(there, origin, result, piece.bytes, element_bytes) };
            self.give_back(exclusive);
            // Not the result itself, which would be copied.
            outcome?;
            return Ok(());
        }
        // SAFETY: the caller's contract.
        unsafe {
            self.accumulate_shaped(origin, result, (target, base), there, element_bytes, update)
        }
    }

    /// [`Window::accumulate`] of elements, from byte `base` of the target's memory on, that are not one
    /// run in mapped memory.
    ///
    /// # Safety
    /// As [`Window::accumulate`].
    #[cold]
    unsafe fn accumulate_shaped(
        &self,
        origin: (*const u8, &Shape<'_>),
        result: Option<(*mut u8, &Shape<'_>)>,
        (target, base): (Rank, isize),
        there: &Shape<'_>,
        element_bytes: usize,
        update: Update<'_>,
    ) -> Result<(), WindowError> {
        let origin = (!matches!(update, Update::Keep)).then_some(Side {
            address: origin.0.cast_mut(),
            shape: origin.1,
        });
        let result = result.map(|(address, shape)| Side { address, shape });
        for side in [&origin, &result].into_iter().flatten() {
            same_length(side.shape, there)?;
        }
        let held = self.enter(target)?;
        count(&self.counters.accumulates);
        if there.bytes() == 0 {
            return Ok(());
        }
        let job = Job {
            target,
            base,
            there,
            origin,
            result,
            element_bytes,
            update,
        };
        if let Some(memory) = self.elements(target, element_bytes) {
            // SAFETY: the caller's contract.
            return unsafe { self.accumulate_elements(&job, memory, held) };
        }
        // SAFETY: the caller's contract.
        if unsafe { self.leave_job(&job, held)? } {
            return Ok(());
        }
        if self.is_for_service(&job) {
            // SAFETY: the caller's contract.
            return unsafe { self.ask_service(&job) };
        }
        // SAFETY: the caller's contract.
        self.exclusively(target, held, || unsafe {
            match self.is_for_target(&job, held) && self.offer(&job)? {
                true => Ok(()),
                false => self.run(&job),
            }
        })
    }

    /// `MPI_Compare_and_swap` of elements of `bytes` bytes. Complete on return.
    ///
    /// # Errors
    /// As [`Window::put`].
    ///
    /// # Safety
    /// `origin` and `compare` are readable, `result` is writable, for `bytes` bytes.
    pub unsafe fn compare_and_swap(
        &self,
        origin: *const u8,
        compare: *const u8,
        result: *mut u8,
        target: Rank,
        displacement: i64,
        bytes: usize,
    ) -> Result<(), WindowError> {
        let there = Shape::bytes_at(0, bytes);
        let base = self.place(target, displacement, &there)?;
        let held = self.enter(target)?;
        count(&self.counters.accumulates);
        if bytes > SWAP_BYTES_MAX {
            return Err(WindowError::Internal(format!(
                "elements of {bytes} bytes cannot be compared and swapped"
            )));
        }
        if let Memory::Mapped(start) = self.targets[target.index()].memory
            && self.rails.is_none()
        {
            let exclusive = self.take(target, held)?;
            // SAFETY: inside the target's mapped memory; the caller's contract.
            unsafe {
                let there = (start as *mut u8).wrapping_offset(base);
                update::compare_and_swap(there, origin, compare, result, bytes);
            }
            self.give_back(exclusive);
            return Ok(());
        }
        self.keep_order(target)?;
        let element = self.elements(target, bytes);
        let element = element.map(|memory| memory.wrapping_add_signed(base));
        if let Some(at) = element.filter(|at| at.is_multiple_of(size_of::<u64>())) {
            // SAFETY: the caller's contract, for eight bytes.
            unsafe {
                let compare = compare.cast::<u64>().read_unaligned();
                let swap = origin.cast::<u64>().read_unaligned();
                let before = self.compare_swap_element(target, at, compare, swap)?;
                result.cast::<u64>().write_unaligned(before);
            }
            return Ok(());
        }
        self.exclusively(target, held, || {
            let mut element = [0u8; SWAP_BYTES_MAX];
            self.lending(&mut element, |element| {
                let here = MemoryRange::new(element.as_mut_ptr(), bytes);
                // SAFETY: the caller's contract; the array has room; the target's bytes are inside.
                unsafe {
                    self.move_run(target, Direction::Get, here, base)?;
                    self.settled(target)?;
                    if update::compare_and_swap(here.as_ptr(), origin, compare, result, bytes) {
                        self.move_run(target, Direction::Put, here, base)?;
                        self.settled_here(target)?;
                    }
                }
                Ok(())
            })
        })
    }

    /// # Safety
    /// As [`Window::accumulate`].
    pub(super) unsafe fn run(&self, job: &Job<'_>) -> Result<(), WindowError> {
        let memory = self.targets[job.target.index()].memory;
        // Without an origin nothing is read there.
        let origin = job.origin.map_or((ptr::null(), job.there), |side| {
            (side.address.cast_const(), side.shape)
        });
        let result = job.result.map(|side| (side.address, side.shape));
        if let Memory::Mapped(base) = memory
            && let Some((origin, result, piece)) = in_one_run(origin, result, job.there)
        {
            let there = (base as *mut u8).wrapping_offset(job.base + piece.offset);
            // SAFETY: inside the target's mapped memory; the caller's contract.
            return unsafe {
                job.update
                    .in_place(there, origin, result, piece.bytes, job.element_bytes)
            };
        }
        if let Memory::Mapped(base) = memory
            && job.is_faster_packed()
        {
            // SAFETY: the caller's contract.
            return unsafe { job.combine_packed((base as *mut u8).wrapping_offset(job.base)) };
        }
        // SAFETY: the caller's contract.
        unsafe { self.in_chunks(job) }
    }

    /// Memory that stays registered, unless another thread uses it.
    fn staging(&self) -> Result<Option<Claimed<'_, Vec<u8>>>, WindowError> {
        let claimed = || Some((self.rails.as_ref()?, self.staging.take()?));
        let Some((rails, mut staging)) = claimed() else {
            return Ok(None);
        };
        if staging.is_empty() {
            *staging = memory::filled(2 * CHUNK_BYTES, 0)?;
            rails.owns(MemoryRange::new(staging.as_mut_ptr(), staging.len()));
        }
        Ok(Some(staging))
    }

    /// Brings some elements here, packed, combines them, and takes them back.
    ///
    /// # Safety
    /// As [`Window::accumulate`].
    unsafe fn in_chunks(&self, job: &Job<'_>) -> Result<(), WindowError> {
        let all = job.there.bytes();
        let chunk = match self.attached_range(job.target, job.base, job.there) {
            Some(_) if job.there.single().is_none() => all,
            _ => all.min((CHUNK_BYTES / job.element_bytes).max(1) * job.element_bytes),
        };
        if chunk <= LITTLE {
            let mut little = [0u8; 2 * LITTLE];
            // SAFETY: the caller's contract.
            return self.lending(&mut little, |memory| unsafe {
                self.combine_chunks(job, chunk, memory)
            });
        }
        let mut staging = match chunk {
            0..=CHUNK_BYTES => self.staging()?,
            _ => None,
        };
        let mut much;
        let memory = match &mut staging {
            Some(staging) => &mut **staging,
            None => {
                much = memory::filled(2 * chunk, 0u8)?;
                &mut much
            }
        };
        // SAFETY: the caller's contract.
        self.lending_heap(memory, |memory| unsafe {
            self.combine_chunks(job, chunk, memory)
        })
    }

    /// [`Window::in_chunks`] of `chunk` bytes, twice as many of which `memory` has room for.
    ///
    /// # Safety
    /// As [`Window::accumulate`].
    unsafe fn combine_chunks(
        &self,
        job: &Job<'_>,
        chunk: usize,
        memory: &mut [u8],
    ) -> Result<(), WindowError> {
        let all = job.there.bytes();
        let (theirs, ours) = memory.split_at_mut(chunk);
        let (theirs, ours) = (theirs.as_mut_ptr(), ours.as_mut_ptr());
        let mut there = (Cutter::new(job.there), Cutter::new(job.there));
        let mut origin = job.origin.map(|side| (side, Cutter::new(side.shape)));
        let mut result = job.result.map(|side| (side, Cutter::new(side.shape)));
        let mut done = 0;
        while done < all {
            let bytes = chunk.min(all - done);
            // SAFETY: each chunk has room for `bytes`, and the sides are the caller's.
            unsafe {
                if job.needs_elements() {
                    self.move_chunk(job, Direction::Get, &mut there.0, theirs, bytes)?;
                    self.settled(job.target)?;
                }
                if let Some((side, cutter)) = &mut result {
                    side.copy(cutter, theirs, bytes, true);
                }
                if let Some((side, cutter)) = &mut origin {
                    side.copy(cutter, ours, bytes, false);
                    job.update.combine(ours, theirs, bytes, job.element_bytes)?;
                    self.move_chunk(job, Direction::Put, &mut there.1, theirs, bytes)?;
                    self.settled_here(job.target)?;
                }
            }
            done += bytes;
        }
        Ok(())
    }

    /// # Safety
    /// `here` has `bytes` bytes, left alone until the target is settled.
    unsafe fn move_chunk(
        &self,
        job: &Job<'_>,
        direction: Direction,
        there: &mut Cutter<'_>,
        here: *mut u8,
        bytes: usize,
    ) -> Result<(), WindowError> {
        if job.there.single().is_some()
            && let Some(piece) = there.take(bytes)
        {
            let here = MemoryRange::new(here, piece.bytes);
            let offset = job.base.wrapping_add(piece.offset);
            // SAFETY: what the caller vouches for, inside the target's memory.
            return unsafe { self.move_run(job.target, direction, here, offset) };
        }
        let mut done = 0;
        let runs = std::iter::from_fn(|| {
            let left = bytes - done;
            let piece = (left > 0).then(|| there.take(left)).flatten()?;
            let part = MemoryRange::new(here.wrapping_add(done), piece.bytes);
            done += piece.bytes;
            Some((part, piece.offset))
        });
        // SAFETY: parts of what the caller vouches for, inside the target's memory.
        unsafe { self.move_runs(job.target, direction, (job.base, job.there), runs) }
    }
}

/// Addresses of operands and results, null without one, and the target's bytes, if all sides are one
/// run of as many bytes.
#[inline]
fn in_one_run(
    (origin, from): (*const u8, &Shape<'_>),
    result: Option<(*mut u8, &Shape<'_>)>,
    there: &Shape<'_>,
) -> Option<(*const u8, *mut u8, Piece)> {
    let (from, there) = (from.single()?, there.single()?);
    let (result, bytes) = match result {
        None => (ptr::null_mut(), there.bytes),
        Some((address, shape)) => {
            let into = shape.single()?;
            (address.wrapping_offset(into.offset), into.bytes)
        }
    };
    let alike = from.bytes == there.bytes && bytes == there.bytes && bytes > 0;
    alike.then_some((origin.wrapping_offset(from.offset), result, there))
}
