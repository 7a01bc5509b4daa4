//! Accumulating operations (MPI 4.1, sections 12.3.4 and 12.3.5): read-modify-write under the
//! accumulate lock of the target. See the module's text on atomicity.

use super::passive::Passive;
use super::rails::Direction;
use super::shape::{Cutter, Shape};
use super::target::Memory;
use super::transfer::same_length;
use super::word::Which;
use super::{Waiting, Window, WindowError, count};
use crate::lock::RemoteLock;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_fabric::Fabric;
use ferrorail_reduce::Kernel;
use std::ptr;

/// Most bytes that are combined at a time where the target's memory is not mapped, or has gaps.
const CHUNK_BYTES: usize = 64 << 10;

/// Longest element of a compare-and-swap.
const SWAP_BYTES_MAX: usize = 32;

/// An operation that no kernel computes.
pub trait Combine {
    /// `into = from ∘ into` for `elements` packed elements.
    ///
    /// # Errors
    /// Whatever its owner says.
    ///
    /// # Safety
    /// Both are that many packed elements, apart, `into` writable.
    unsafe fn combine(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// What becomes of the target's elements.
#[derive(Clone, Copy)]
pub enum Update<'a> {
    /// `MPI_REPLACE`.
    Replace,
    /// `MPI_NO_OP`.
    Keep,
    /// A predefined operation.
    Kernel(Kernel),
    /// Another.
    Call(&'a dyn Combine),
}

/// One side of an accumulating operation: an address, and how elements lie there.
#[derive(Clone, Copy)]
struct Side<'a> {
    address: *mut u8,
    shape: &'a Shape<'a>,
}

/// What an accumulating operation does, once its target is checked.
struct Job<'a> {
    target: Rank,
    /// First byte of the target's elements, from its base.
    base: isize,
    there: &'a Shape<'a>,
    origin: Option<Side<'a>>,
    result: Option<Side<'a>>,
    element_bytes: usize,
    update: Update<'a>,
}

impl<F: Fabric> Window<F> {
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
        let origin = (!matches!(update, Update::Keep)).then_some(Side {
            address: origin.0.cast_mut(),
            shape: origin.1,
        });
        let result = result.map(|(address, shape)| Side { address, shape });
        for side in [&origin, &result].into_iter().flatten() {
            same_length(side.shape, there)?;
        }
        let base = self.place(target, displacement, there)?;
        let mut passive = self.enter(target)?;
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
        // SAFETY: the caller's contract.
        self.alone(target, &mut passive, || unsafe { self.run(&job) })
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
        let mut passive = self.enter(target)?;
        count(&self.counters.accumulates);
        if bytes > SWAP_BYTES_MAX {
            return Err(WindowError::Lock(format!(
                "elements of {bytes} bytes cannot be compared and swapped"
            )));
        }
        self.alone(target, &mut passive, || {
            let mut before = [0u8; SWAP_BYTES_MAX];
            let mut expected = [0u8; SWAP_BYTES_MAX];
            let here = MemoryRange::new(before.as_mut_ptr(), bytes);
            // SAFETY: the caller's contract; both arrays have room; the target's bytes are inside.
            unsafe {
                ptr::copy_nonoverlapping(compare, expected.as_mut_ptr(), bytes);
                self.move_run(target, Direction::Get, here, base)?;
                self.settle(target)?;
                if before[..bytes] == expected[..bytes] {
                    let new = MemoryRange::new(origin, bytes);
                    self.move_run(target, Direction::Put, new, base)?;
                    self.settle(target)?;
                }
                ptr::copy_nonoverlapping(before.as_ptr(), result, bytes);
            }
            Ok(())
        })
    }

    /// Runs `act` while no other accumulating operation touches `target`'s memory.
    fn alone<R>(
        &self,
        target: Rank,
        passive: &mut Passive,
        act: impl FnOnce() -> Result<R, WindowError>,
    ) -> Result<R, WindowError> {
        if passive.is_exclusive() {
            return act();
        }
        if self.rails.is_none() {
            let control = self.targets[target.index()].control;
            let control = control.expect("without rails all ranks are of this node");
            let word = self.segment.word(control + super::layout::ACCUMULATE);
            self.take(target, word)?;
            let outcome = act();
            word.store(0, Ordering::Release);
            self.doorbell().ring();
            return outcome;
        }
        let doing = "waiting to accumulate";
        let site = self.site(target, Which::Accumulate);
        let mode = crate::lock::Mode::Exclusive;
        self.drive(target, doing, passive.accumulate.acquire(&site, mode))?;
        let outcome = act();
        self.drive(target, doing, passive.accumulate.release(&site))?;
        outcome
    }

    /// Takes the accumulate lock of a rank of this node, in a window that has no others.
    #[inline]
    fn take(&self, target: Rank, word: &AtomicU64) -> Result<(), WindowError> {
        let mine = u64::from(self.rank.0) + 1;
        let free = || {
            let taken = word.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        };
        if free() {
            return Ok(());
        }
        self.wait_until("waiting to accumulate", Waiting::Word(target), || {
            Ok(word.load(Ordering::Relaxed) == 0 && free())
        })
    }

    /// # Safety
    /// As [`Window::accumulate`].
    unsafe fn run(&self, job: &Job<'_>) -> Result<(), WindowError> {
        let memory = self.targets[job.target.index()].memory;
        let singles = [job.origin, job.result]
            .into_iter()
            .flatten()
            .all(|side| side.shape.single().is_some());
        if let (Memory::Mapped(base), Some(piece), true) = (memory, job.there.single(), singles) {
            let there = (base as *mut u8).wrapping_offset(job.base + piece.offset);
            // SAFETY: inside the target's mapped memory; the caller's contract.
            return unsafe { job.in_place(there, piece.bytes) };
        }
        // SAFETY: the caller's contract.
        unsafe { self.in_chunks(job) }
    }

    /// Brings some elements here, packed, combines them, and takes them back.
    ///
    /// # Safety
    /// As [`Window::accumulate`].
    unsafe fn in_chunks(&self, job: &Job<'_>) -> Result<(), WindowError> {
        let all = job.there.bytes();
        let chunk = (CHUNK_BYTES / job.element_bytes).max(1) * job.element_bytes;
        let chunk = chunk.min(all);
        let mut memory = vec![0u8; 2 * chunk];
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
                self.move_chunk(job, Direction::Get, &mut there.0, theirs, bytes)?;
                self.settle(job.target)?;
                if let Some((side, cutter)) = &mut result {
                    side.copy(cutter, theirs, bytes, true);
                }
                if let Some((side, cutter)) = &mut origin {
                    side.copy(cutter, ours, bytes, false);
                    job.combine(ours, theirs, bytes)?;
                    self.move_chunk(job, Direction::Put, &mut there.1, theirs, bytes)?;
                    self.settle(job.target)?;
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
        let mut done = 0;
        while done < bytes
            && let Some(piece) = there.take(bytes - done)
        {
            let part = MemoryRange::new(here.wrapping_add(done), piece.bytes);
            let offset = job.base.wrapping_add(piece.offset);
            // SAFETY: a part of what the caller vouches for, inside the target's memory.
            unsafe { self.move_run(job.target, direction, part, offset)? };
            done += piece.bytes;
        }
        Ok(())
    }
}

impl Side<'_> {
    /// Copies the next `bytes` bytes between this side and `packed`.
    ///
    /// # Safety
    /// Both are valid for so many bytes.
    unsafe fn copy(&self, cutter: &mut Cutter<'_>, packed: *mut u8, bytes: usize, to_side: bool) {
        let mut done = 0;
        while done < bytes
            && let Some(piece) = cutter.take(bytes - done)
        {
            let here = self.address.wrapping_offset(piece.offset);
            let packed = packed.wrapping_add(done);
            // SAFETY: the caller's contract, for a part.
            unsafe {
                match to_side {
                    true => ptr::copy_nonoverlapping(packed, here, piece.bytes),
                    false => ptr::copy_nonoverlapping(here, packed, piece.bytes),
                }
            }
            done += piece.bytes;
        }
    }
}

impl Job<'_> {
    /// Combines elements that are one run on every side, where they are.
    ///
    /// # Safety
    /// `there` has `bytes` bytes, which no other accumulating operation touches; the caller's sides
    /// are valid.
    #[inline]
    unsafe fn in_place(&self, there: *mut u8, bytes: usize) -> Result<(), WindowError> {
        let start = |side: &Side<'_>| {
            let offset = side.shape.single().map_or(0, |piece| piece.offset);
            side.address.wrapping_offset(offset)
        };
        // SAFETY: the caller's contract. A program that passes its own window memory may overlap.
        unsafe {
            if let Some(result) = &self.result {
                ptr::copy(there, start(result), bytes);
            }
            match &self.origin {
                Some(origin) => self.combine(start(origin), there, bytes),
                None => Ok(()),
            }
        }
    }

    /// # Safety
    /// Both have `bytes` bytes of packed elements.
    #[inline]
    unsafe fn combine(
        &self,
        from: *const u8,
        into: *mut u8,
        bytes: usize,
    ) -> Result<(), WindowError> {
        let elements = bytes / self.element_bytes;
        // SAFETY: the caller's contract.
        unsafe {
            match self.update {
                Update::Replace => ptr::copy(from, into, bytes),
                Update::Keep => {}
                Update::Kernel(kernel) => kernel.run(from, into, elements, false),
                Update::Call(call) => call
                    .combine(from, into, elements)
                    .map_err(WindowError::Operation)?,
            }
        }
        Ok(())
    }
}
