//! Accumulating operations that change one element of eight bytes at a time, each by an atomic operation
//! of the CPU or of the rail, in windows whose program asks for that.
//!
//! All accumulating operations on elements of eight bytes go this way in such a window, of any operator,
//! count and layout, but for elements at addresses that eight does not divide, which always go the other
//! way: under the lock. So the two never meet at one element. A sum is an addition; other operators
//! compare and swap until nobody came between; even reading is an addition of nothing, since a card promises
//! atomicity towards other atomics only.

use super::accumulate::Job;
use super::held::Held;
use super::layout::STAGING_BYTES;
use super::shape::{Cutter, Shape, Side};
use super::update::Update;
use super::{Waiting, Window, WindowError, WindowRails, count};
use ferrorail_base::Rank;
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::{Endpoint, LocalSlice, Op, RemoteSlice, Ticket};
use ferrorail_reduce::{Number, Operator, kernel};

/// Bytes of an element.
const WORD: usize = size_of::<u64>();
/// Elements that are changed together; their values before land in one staging slot.
const BATCH: usize = STAGING_BYTES / WORD;
/// An exclusive holder of the target's lock moves more bytes than this as a whole.
const SINGLE_BYTES: usize = 8 * WORD;

/// What happens to one word.
#[derive(Clone, Copy)]
enum Change {
    Add(u64),
    CompareSwap(u64, u64),
}

impl<F: Endpoint> Window<F> {
    /// Where the memory of `target` lies in its node's segment, if elements of so many bytes are changed
    /// one at a time there.
    #[inline]
    pub(super) fn elements(&self, target: Rank, element_bytes: usize) -> Option<usize> {
        // On one node the lock costs no more than an atomic operation.
        self.rails.as_ref().filter(|_| element_bytes == WORD)?;
        self.targets[target.index()].elements
    }

    /// # Safety
    /// As [`Window::accumulate`].
    pub(super) unsafe fn accumulate_elements(
        &self,
        job: &Job<'_>,
        memory: usize,
        held: Held,
    ) -> Result<(), WindowError> {
        if self.is_alone(held) && job.there.bytes() > SINGLE_BYTES {
            // SAFETY: the caller's contract; nobody else accumulates.
            return unsafe { self.run(job) };
        }
        count(&self.counters.elements);
        let mut there = Cutter::new(job.there);
        let mut origin = job.origin.map(|side| (side, Cutter::new(side.shape)));
        let mut result = job.result.map(|side| (side, Cutter::new(side.shape)));
        let (mut operands, mut before) = ([0u64; BATCH], [0u64; BATCH]);
        while let Some(piece) = there.take(STAGING_BYTES) {
            let elements = piece.bytes / WORD;
            if let Some((side, cutter)) = &mut origin {
                // SAFETY: the caller's contract; there is room for a batch.
                unsafe { side.copy(cutter, operands.as_mut_ptr().cast(), piece.bytes, false) };
            }
            let offset = job.base + piece.offset;
            let at = memory.wrapping_add_signed(offset);
            if at.is_multiple_of(WORD) {
                let (operands, before) = (&operands[..elements], &mut before[..elements]);
                self.change_words(job.target, at, operands, before, job.update)?;
            } else {
                let shape = Shape::bytes_at(0, piece.bytes);
                let side = |words: &mut [u64; BATCH]| Side {
                    address: words.as_mut_ptr().cast(),
                    shape: &shape,
                };
                let part = Job {
                    base: offset,
                    there: &shape,
                    origin: job.origin.map(|_| side(&mut operands)),
                    result: Some(side(&mut before)),
                    ..*job
                };
                // SAFETY: as above, for a part.
                self.exclusively(job.target, held, || unsafe { self.run(&part) })?;
            }
            if let Some((side, cutter)) = &mut result {
                // SAFETY: the caller's contract.
                unsafe { side.copy(cutter, before.as_mut_ptr().cast(), piece.bytes, true) };
            }
        }
        Ok(())
    }

    /// Compares and swaps the word `at` bytes into the segment of `target`'s node; the one before.
    pub(super) fn compare_swap_element(
        &self,
        target: Rank,
        at: usize,
        compare: u64,
        swap: u64,
    ) -> Result<u64, WindowError> {
        count(&self.counters.elements);
        if self.targets[target.index()].link.is_none() {
            let word = self.segment.word(at);
            let outcome = word.compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire);
            let (Ok(found) | Err(found)) = outcome;
            return Ok(found);
        }
        let change = Change::CompareSwap(compare, swap);
        let mut before = [0];
        self.change_far(target, at, &mut before, |_| Some(change))?;
        Ok(before[0])
    }

    /// Makes of the words from `at` on what `update` says; `before` gets what they were.
    fn change_words(
        &self,
        target: Rank,
        at: usize,
        operands: &[u64],
        before: &mut [u64],
        update: Update<'_>,
    ) -> Result<(), WindowError> {
        let sums = is_sum(&update);
        if self.targets[target.index()].link.is_none() {
            for (index, (operand, before)) in operands.iter().zip(before).enumerate() {
                let word = self.segment.word(at + WORD * index);
                *before = match update {
                    _ if sums => word.fetch_add(*operand, Ordering::AcqRel),
                    Update::Keep => word.load(Ordering::Acquire),
                    Update::Replace => word.swap(*operand, Ordering::AcqRel),
                    _ => loop {
                        let seen = word.load(Ordering::Acquire);
                        let new = updated(&update, *operand, seen)?;
                        let order = (Ordering::AcqRel, Ordering::Relaxed);
                        if word.compare_exchange(seen, new, order.0, order.1).is_ok() {
                            break seen;
                        }
                    },
                };
            }
            return Ok(());
        }
        if sums {
            return self.change_far(target, at, before, |index| {
                Some(Change::Add(operands[index]))
            });
        }
        self.change_far(target, at, before, |_| Some(Change::Add(0)))?;
        if let Update::Keep = update {
            return Ok(());
        }
        let mut open = [false; BATCH];
        open[..before.len()].fill(true);
        let mut seen = [0u64; BATCH];
        while open.contains(&true) {
            seen[..before.len()].copy_from_slice(before);
            let mut swaps = [0u64; BATCH];
            for index in (0..before.len()).filter(|&index| open[index]) {
                swaps[index] = updated(&update, operands[index], seen[index])?;
            }
            self.change_far(target, at, before, |index| {
                open[index].then_some(Change::CompareSwap(seen[index], swaps[index]))
            })?;
            for index in 0..before.len() {
                open[index] &= before[index] != seen[index];
            }
        }
        Ok(())
    }

    /// Changes words by atomics on the rail, those for which `change` says something, and waits; `before`
    /// gets what those were.
    fn change_far(
        &self,
        target: Rank,
        at: usize,
        before: &mut [u64],
        change: impl Fn(usize) -> Option<Change>,
    ) -> Result<(), WindowError> {
        let slot = self.on_rails(target, WindowRails::claim)?;
        let mut tickets = [None; BATCH];
        for (index, ticket) in tickets.iter_mut().enumerate().take(before.len()) {
            if let Some(change) = change(index) {
                let post = |rails: &WindowRails<F>| {
                    rails.change(target, at + WORD * index, change, slot, index)
                };
                *ticket = Some(self.on_rails(target, post)?);
            }
        }
        // What is under way when this fails may still write to the slot, which is never free again.
        self.wait_until("accumulating", Waiting::Rail(target), || {
            self.rails().fabric().progress()?;
            self.rails().are_complete(&mut tickets)
        })?;
        for (index, before) in before.iter_mut().enumerate() {
            if change(index).is_some() {
                let offset = self.rails().slot_offset(slot) + WORD * index;
                *before = self.segment.word(offset).load(Ordering::Acquire);
            }
        }
        self.rails().release(slot);
        Ok(())
    }
}

impl<F: Endpoint> WindowRails<F> {
    /// Takes a slot, if one is free.
    fn claim(&self) -> Result<Option<u32>, WindowError> {
        let mut outstanding = self.outstanding();
        let slot = self.free_slot(&mut outstanding)?;
        outstanding.free &= !slot.map_or(0, |slot| 1 << slot);
        Ok(slot)
    }

    /// Gives a slot back.
    fn release(&self, slot: u32) {
        self.outstanding().free |= 1 << slot;
    }

    /// Posts one change; `None` if the rail is full.
    fn change(
        &self,
        target: Rank,
        at: usize,
        change: Change,
        slot: u32,
        index: usize,
    ) -> Result<Option<Ticket>, WindowError> {
        let at = RemoteSlice {
            region: &self.link_of(target).segment,
            offset: at,
        };
        let into = LocalSlice {
            region: self.segment(),
            offset: self.slot_offset(slot) + WORD * index,
            bytes: WORD,
        };
        let op = match change {
            Change::Add(add) => Op::fetch_add(at, add, into, None),
            Change::CompareSwap(compare, swap) => Op::compare_swap(at, compare, swap, into),
        };
        // SAFETY: aligned words, of the target's memory and of a slot that is taken until this is
        // complete.
        unsafe { self.post(target, self.word_rail(), &op) }
    }
}

/// Whether this adds integers, wrapping.
fn is_sum(update: &Update<'_>) -> bool {
    let Update::Kernel(given) = update else {
        return false;
    };
    let sums = [Number::I64, Number::U64].map(|number| kernel(Operator::Sum, number));
    sums.into_iter()
        .flatten()
        .any(|sum| sum.code() == given.code())
}

/// One element after `update`.
fn updated(update: &Update<'_>, operand: u64, mut element: u64) -> Result<u64, WindowError> {
    let (from, into) = ((&raw const operand).cast(), (&raw mut element).cast());
    // SAFETY: both are one element.
    unsafe { update.combine(from, into, WORD, WORD)? };
    Ok(element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sums_of_integers_are_additions() {
        let of = |operator, number| Update::Kernel(kernel(operator, number).expect("computed"));
        assert!(is_sum(&of(Operator::Sum, Number::I64)));
        assert!(is_sum(&of(Operator::Sum, Number::U64)));
        for (operator, number) in [
            (Operator::Sum, Number::F64),
            (Operator::Sum, Number::C32),
            (Operator::Prod, Number::I64),
            (Operator::Max, Number::U64),
            (Operator::Sum, Number::U32),
        ] {
            assert!(!is_sum(&of(operator, number)), "{operator:?} of {number:?}");
        }
        assert!(!is_sum(&Update::Replace));
    }

    #[test]
    fn an_element_is_updated_in_place_of_the_right_operand() {
        let sum = Update::Kernel(kernel(Operator::Sum, Number::F64).expect("computed"));
        let new = updated(&sum, 1.5f64.to_bits(), 2.25f64.to_bits()).expect("computed here");
        assert_eq!(f64::from_bits(new), 3.75);
        assert_eq!(updated(&Update::Replace, 7, 9).expect("as above"), 7);
        assert_eq!(updated(&Update::Keep, 7, 9).expect("as above"), 9);
    }
}
