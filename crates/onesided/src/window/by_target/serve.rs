//! The target's part: carrying out what origins left to it.

use super::super::attach::{CHUNK_BYTES, STAGED_MAX};
use super::super::shape::Shape;
use super::super::target::Memory;
use super::super::update::Update;
use super::super::{Window, WindowError, count, layout};
use super::order::Order;
use ferrorail_base::Rank;
use ferrorail_base::memory::{self, MemoryRange};
use ferrorail_base::sync::Ordering;
use ferrorail_fabric::Endpoint;
use ferrorail_shm::Cma;
use std::mem;
use std::ptr;

/// What this rank has done for others.
pub struct Served {
    /// By origin: how many lists.
    lists: Vec<u64>,
    words: Vec<u64>,
    /// Elements on the way.
    staging: Vec<u8>,
}

impl Served {
    pub fn new(ranks: usize) -> Self {
        Self {
            lists: vec![0; ranks],
            words: Vec::new(),
            staging: Vec::new(),
        }
    }
}

const NONSENSE: WindowError =
    WindowError::Synchronisation("an origin left something that makes no sense to its target");

impl<F: Endpoint> Window<F> {
    /// Carries out all lists that were handed over to this rank.
    pub(in crate::window) fn serve_lists(&self) -> Result<(), WindowError> {
        // One that fails is no reason to leave out others.
        let outcomes = self.ranks().map(|origin| self.serve_list(origin));
        outcomes.fold(Ok(()), Result::and)
    }

    /// Carries out the list of `origin`, if it handed one over.
    pub(in crate::window) fn serve_list(&self, origin: Rank) -> Result<(), WindowError> {
        let Some(control) = self.targets[origin.index()].control else {
            return Ok(());
        };
        let number = self.own_word(layout::left(self.size(), origin.0));
        let number = number.load(Ordering::Acquire);
        let mut served = self.claim(&self.by_target.served, origin)?;
        if mem::replace(&mut served.lists[origin.index()], number) == number {
            return Ok(());
        }
        let outcome = self.serve_orders(&mut served, origin);
        let done = number << 1 | u64::from(outcome.is_err());
        let answer = control + layout::left(self.size(), self.rank.0) + layout::LEFT_SERVED;
        self.segment.word(answer).store(done, Ordering::Release);
        outcome
    }

    /// Carries out the list to which `origin` points, which it leaves alone meanwhile.
    pub(super) fn serve_orders(
        &self,
        served: &mut Served,
        origin: Rank,
    ) -> Result<(), WindowError> {
        let line = layout::left(self.size(), origin.0);
        let word = |offset| self.own_word(line + offset).load(Ordering::Relaxed) as usize;
        let (address, bytes) = (word(layout::LEFT_ADDRESS), word(layout::LEFT_BYTES));
        let Memory::Attach { process, .. } = self.targets[origin.index()].memory else {
            return Err(NONSENSE);
        };
        let Served { words, staging, .. } = served;
        words.clear();
        memory::reserve(words, bytes / size_of::<u64>())?;
        words.resize(bytes / size_of::<u64>(), 0);
        let worker = Worker {
            window: self,
            origin,
            process,
        };
        worker.read(address, words.as_mut_ptr().cast(), bytes)?;
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            let (order, others) = Order::read(rest).ok_or(NONSENSE)?;
            worker.carry_out(&order, staging)?;
            rest = others;
        }
        if staging.len() > 4 * CHUNK_BYTES {
            *staging = Vec::new();
        }
        Ok(())
    }
}

/// This rank at work on a list.
struct Worker<'w, F: Endpoint> {
    window: &'w Window<F>,
    origin: Rank,
    process: Cma,
}

impl<F: Endpoint> Worker<'_, F> {
    /// Does what `order` says, a portion of elements at a time.
    fn carry_out(&self, order: &Order, staging: &mut Vec<u8>) -> Result<(), WindowError> {
        let update = order.update().ok_or(NONSENSE)?;
        let (first, there) = self.place(order)?;
        let room = there.portion(CHUNK_BYTES);
        if room == 0 || room > STAGED_MAX {
            return Err(NONSENSE);
        }
        if staging.len() < 2 * room {
            *staging = memory::filled(2 * room, 0u8)?;
        }
        let (operands, elements) = staging.split_at_mut(room);
        let (operands, elements) = (operands.as_mut_ptr(), elements.as_mut_ptr());
        let needs_elements = order.results != 0 || !matches!(update, Update::Replace);
        for (at, before, portion) in there.portions(CHUNK_BYTES) {
            let (place, bytes) = (first.wrapping_offset(at), portion.bytes());
            if order.operands != 0 {
                self.read(order.operands + before, operands, bytes)?;
            }
            // SAFETY: inside this rank's memory, as checked, which only the program itself touches between the calls that end an
            // epoch; both parts of the staging have room.
            unsafe {
                if !needs_elements {
                    portion.unpack(operands, place);
                    continue;
                }
                portion.pack(place, elements);
            }
            if order.results != 0 {
                self.write(elements, order.results + before, bytes)?;
            }
            if order.operands != 0 {
                // SAFETY: as above.
                unsafe {
                    update.combine(operands, elements, bytes, order.element_bytes as usize)?;
                    portion.unpack(elements, place);
                }
            }
        }
        count(&self.window.counters.for_origins);
        Ok(())
    }

    /// Address of the elements, and how they lie from there, if all are memory of this rank's.
    fn place<'o>(&self, order: &'o Order) -> Result<(*mut u8, Shape<'o>), WindowError> {
        let own = &self.window.targets[self.window.rank.index()];
        let Memory::Mapped(base) = own.memory else {
            return Err(NONSENSE);
        };
        let there = order.there.shape();
        if self.window.dynamic.is_some() {
            let displacement = order.base as i64;
            self.window
                .place_dynamic(self.window.rank, displacement, &there)?;
        } else if let Some((low, high)) = there.bounds() {
            let from = order.base as i128;
            if from + low < 0 || from + high > i128::from(own.bytes) {
                return Err(NONSENSE);
            }
        }
        let first = ptr::with_exposed_provenance_mut::<u8>(base.wrapping_add_signed(order.base));
        Ok((first, there))
    }

    /// Reads `bytes` bytes of the origin's into `into`.
    fn read(&self, address: usize, into: *mut u8, bytes: usize) -> Result<(), WindowError> {
        let here = MemoryRange::new(into, bytes);
        // SAFETY: every caller has room there, and nobody else touches it.
        let outcome = unsafe { self.process.read(address as u64, here) };
        outcome.map_err(|source| self.failed(source))
    }

    /// Writes `bytes` bytes at `from` to the origin's memory.
    fn write(&self, from: *const u8, address: usize, bytes: usize) -> Result<(), WindowError> {
        let here = MemoryRange::new(from, bytes);
        // SAFETY: every caller's bytes are readable; the origin waits for them at that address.
        let outcome = unsafe { self.process.write(here, address as u64) };
        outcome.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> WindowError {
        WindowError::CrossMemory {
            rank: self.origin.0,
            source,
        }
    }
}
