//! What an origin leaves to one target.

use super::super::WindowError;
use super::super::accumulate::Job;
use super::super::attach::{CHUNK_BYTES, STAGED_MAX};
use super::super::shape::{Shape, Side};
use super::super::update::Update;
use super::order::{Layout, Order};
use ferrorail_base::Rank;
use ferrorail_base::memory::{self, MemoryRange, NoMemory};
use std::ptr;
use std::time::Duration;

/// Most bytes of packed data that a list keeps room for once it is carried out.
const KEPT_BYTES: usize = 1 << 20;

/// After so many operations that a target did not claim, one after the other, the number of those that are not offered to it
/// grows no more.
const UNCLAIMED_MAX: u32 = 7;

/// How long a target has to claim what is offered: it looks every 10 to 20 us while it polls with yields.
const CLAIM_TIMEOUT: Duration = Duration::from_micros(100);

/// How often that doubles while nothing is claimed: then a target that sleeps, for a millisecond or a few, wakes up meanwhile.
const DOUBLINGS_MAX: u32 = 4;

/// How offers to one target have fared.
#[derive(Default)]
pub struct Record {
    /// How many were not claimed, since one was.
    unclaimed: u32,
    /// How many operations are not to be offered before the next one is.
    to_skip: u32,
}

impl Record {
    /// Whether the next operation is to be offered.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.to_skip == 0;
        self.to_skip = self.to_skip.saturating_sub(1);
        is_due
    }

    /// How long the target has for the next one.
    pub fn claim_timeout(&self) -> Duration {
        CLAIM_TIMEOUT * (1 << self.unclaimed.min(DOUBLINGS_MAX))
    }

    /// The one after the first that is not claimed is offered at once: the target may have slept, and looks more often now.
    pub fn note(&mut self, was_claimed: bool) {
        self.unclaimed = match was_claimed {
            true => 0,
            false => UNCLAIMED_MAX.min(self.unclaimed + 1),
        };
        self.to_skip = (1 << self.unclaimed.max(1)) - 2;
    }
}

/// Whose the list is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The origin's, which appends to it.
    #[default]
    Open,
    /// The target's to read.
    HandedOver,
}

/// Operations in the order in which the program called them.
#[derive(Default)]
pub struct List {
    operations: Vec<Operation>,
    /// Operands, packed, and room for results.
    data: Vec<u8>,
    words: Vec<u64>,
    pub state: State,
    /// How many lists were handed over to this target, this one included once it is.
    pub number: u64,
    /// Whether there are accumulating operations among them.
    pub accumulates: bool,
    /// Of operations that were offered at once.
    pub record: Record,
}

struct Operation {
    /// What becomes of the elements, as [`Update::code`] says.
    code: u32,
    element_bytes: usize,
    base: isize,
    there: Layout,
    operands: Option<Operands>,
    /// Where results land in `data`, and where they belong.
    results: Option<(usize, usize, Layout)>,
}

/// Where operands are.
enum Operands {
    /// In `data`, from there on.
    Packed(usize),
    /// In the program's memory, at this address.
    Lent(usize),
}

impl List {
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Whether there are operations that later accumulating ones must not overtake.
    pub fn keeps_order(&self) -> bool {
        self.state == State::Open && self.accumulates
    }

    /// Forgets what was carried out.
    pub fn reset(&mut self) {
        self.operations.clear();
        self.data.clear();
        self.data.shrink_to(KEPT_BYTES);
        self.words.clear();
        self.words.shrink_to(KEPT_BYTES / size_of::<u64>());
        self.state = State::Open;
        self.accumulates = false;
    }

    /// Appends an operation, with a copy of its operands unless the program `lends` them and they are one run. Whether there was room and it
    /// can be told of.
    ///
    /// # Safety
    /// Operands are readable, and results writable until the list is carried out; so are lent operands.
    pub unsafe fn append(&mut self, job: &Job<'_>, lends: bool) -> bool {
        // SAFETY: the caller's contract.
        unsafe { self.try_append(job, lends) }.is_some()
    }

    /// # Safety
    /// As [`List::append`].
    unsafe fn try_append(&mut self, job: &Job<'_>, lends: bool) -> Option<()> {
        let bytes = job.there.bytes();
        let code = job.update.code()?;
        let lent = job.origin.and_then(|side| side.single(lends));
        let packs = job.origin.is_some() && lent.is_none();
        let room = bytes * (usize::from(packs) + usize::from(job.result.is_some()));
        let end = self.data.len().checked_add(room)?;
        if end > STAGED_MAX || job.there.portion(CHUNK_BYTES) > STAGED_MAX {
            return None;
        }
        let there = Layout::of(job.there)?;
        let landing = match job.result {
            Some(side) => Some((side.address as usize, Layout::of(side.shape)?)),
            None => None,
        };
        self.operations.try_reserve(1).ok()?;
        let at = self.data.len();
        self.data.try_reserve(room).ok()?;
        self.data.resize(end, 0);
        let mut operands = lent.map(Operands::Lent);
        if let Some(side) = job.origin.filter(|_| packs) {
            // SAFETY: the caller's contract; `data` has room for as many bytes.
            unsafe { side.shape.pack(side.address, self.data[at..].as_mut_ptr()) };
            operands = Some(Operands::Packed(at));
        }
        self.operations.push(Operation {
            code,
            element_bytes: job.element_bytes,
            base: job.base,
            there,
            operands,
            results: landing.map(|(address, layout)| (end - bytes, address, layout)),
        });
        Some(())
    }

    /// The operations as words, for a target that reads them before the list changes.
    pub fn words(&mut self) -> Result<MemoryRange, NoMemory> {
        self.words.clear();
        let lengths = self.operations.iter();
        let length = lengths
            .map(|operation| Order::word_count(&operation.there))
            .sum();
        memory::reserve(&mut self.words, length)?;
        let data = self.data.as_mut_ptr().expose_provenance();
        for operation in &self.operations {
            let order = Order {
                code: operation.code,
                element_bytes: operation.element_bytes as u32,
                base: operation.base,
                operands: match operation.operands {
                    None => 0,
                    Some(Operands::Packed(at)) => data + at,
                    Some(Operands::Lent(address)) => address,
                },
                results: operation.results.as_ref().map_or(0, |(at, ..)| data + at),
                there: operation.there.clone(),
            };
            order.write(&mut self.words)?;
        }
        let words = self.words.as_ptr().cast();
        Ok(MemoryRange::new(words, size_of_val(&*self.words)))
    }

    /// Runs `act` on each operation, up to the first that fails.
    pub fn each_job(
        &mut self,
        target: Rank,
        mut act: impl FnMut(&Job<'_>) -> Result<(), WindowError>,
    ) -> Result<(), WindowError> {
        for operation in &self.operations {
            let Some(update) = Update::from_code(operation.code) else {
                return Err(WindowError::Internal("an operation without a code".into()));
            };
            let packed = Shape::bytes_at(0, operation.there.shape().bytes());
            let origin = operation.operands.as_ref().map(|operands| Side {
                address: match *operands {
                    Operands::Packed(at) => self.data[at..].as_ptr().cast_mut(),
                    Operands::Lent(address) => ptr::with_exposed_provenance_mut(address),
                },
                shape: &packed,
            });
            let landing = operation.results.as_ref();
            let landing = landing.map(|(_, address, layout)| (*address, layout.shape()));
            let result = landing.as_ref().map(|(address, shape)| Side {
                address: ptr::with_exposed_provenance_mut(*address),
                shape,
            });
            act(&Job {
                target,
                base: operation.base,
                there: &operation.there.shape(),
                origin,
                result,
                element_bytes: operation.element_bytes,
                update,
            })?;
        }
        Ok(())
    }

    /// Puts results where they belong.
    ///
    /// # Safety
    /// The target has written them, and the program's memory for them is writable.
    pub unsafe fn land(&self) {
        for operation in &self.operations {
            if let Some((at, address, layout)) = &operation.results {
                let into = ptr::with_exposed_provenance_mut(*address);
                // SAFETY: the caller's contract; `data` has room for them.
                unsafe { layout.shape().unpack(self.data[*at..].as_ptr(), into) };
            }
        }
    }
}

impl Side<'_> {
    /// Its address, if it is one run that the program `lends`.
    fn single(&self, lends: bool) -> Option<usize> {
        let piece = self.shape.single().filter(|_| lends)?;
        Some(
            self.address
                .wrapping_offset(piece.offset)
                .expose_provenance(),
        )
    }
}
