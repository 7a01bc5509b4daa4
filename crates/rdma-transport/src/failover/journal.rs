//! What is in flight on a lane, in enough detail to be done again on another rail.

use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::{
    FabricError, Kind, LaneId, LocalRegion, LocalSlice, Op, Operation, RAILS_MAX, RemoteRegion,
    RemoteSlice, Ticket, Tracking, Transport,
};
use std::collections::VecDeque;

/// Entries that a journal has room for from the beginning; deep queues make it grow once.
const ROOM: usize = 32;

/// Memory of this process with its keys.
#[derive(Clone, Copy, Debug)]
struct Here {
    range: MemoryRange,
    lkeys: [u32; RAILS_MAX],
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its number on its lane.
    pub sequence: u64,
    op: Operation<Here, RemoteRegion>,
}

impl Here {
    #[inline]
    fn new(slice: &LocalSlice<'_>) -> Self {
        Self {
            range: slice.region.range.slice(slice.offset, slice.bytes),
            lkeys: slice.region.lkeys,
        }
    }

    fn region(&self) -> LocalRegion {
        LocalRegion {
            range: self.range,
            lkeys: self.lkeys,
            rkeys: [0; RAILS_MAX],
            backing: None,
            handle: 0,
            description: Vec::new(),
        }
    }
}

fn part(slice: &RemoteSlice<'_>, bytes: usize) -> RemoteRegion {
    let region = slice.region;
    RemoteRegion {
        address: region.address + slice.offset as u64,
        bytes: bytes as u64,
        rkeys: region.rkeys,
        mapping: match region.mapping {
            0 => 0,
            mapping => mapping + slice.offset,
        },
    }
}

fn whole(region: &RemoteRegion) -> RemoteSlice<'_> {
    RemoteSlice { region, offset: 0 }
}

impl Entry {
    /// Operation `sequence` of its lane.
    #[inline]
    pub fn new(op: &Op<'_>, sequence: u64) -> Self {
        let here = Here::new(&op.local);
        Self {
            sequence,
            op: op.map(here, op.local.bytes, part),
        }
    }

    /// The same as operation `sequence` of another lane.
    pub fn numbered(&self, sequence: u64) -> Self {
        Self { sequence, ..*self }
    }

    /// The word that proves its arrival, and the least value that does.
    pub fn proof(&self) -> Option<(RemoteRegion, u64)> {
        match self.op.kind {
            Kind::Notify(word, value) | Kind::Wake(word, value) => Some((word, value)),
            Kind::Eager(trailing_flag) => {
                let end = RemoteSlice {
                    region: &self.op.remote,
                    offset: self.op.local.range.bytes - size_of::<u64>(),
                };
                Some((part(&end, size_of::<u64>()), trailing_flag))
            }
            _ => None,
        }
    }

    /// Whether its result comes back to this process, which the arrival of what was posted behind it does not prove.
    pub fn has_result(&self) -> bool {
        !self.op.kind.is_put()
    }

    /// Whether it uses memory of `region`, which is registered here.
    pub fn uses(&self, region: &LocalRegion) -> bool {
        self.op.local.lkeys == region.lkeys
    }

    /// Whether it is over when the memory that `word` lies in is gone: the word that proves its arrival
    /// lies there, or, without one, all that it writes.
    pub fn ends_with(&self, word: &RemoteRegion) -> bool {
        match (self.op.kind, self.proof()) {
            (_, Some((proof, _))) => proof.rkeys == word.rkeys,
            (Kind::Put | Kind::Ordered, None) => self.op.remote.rkeys == word.rkeys,
            _ => false,
        }
    }

    /// Whether doing it again can hurt nobody, even while its first doing may still land.
    pub fn is_harmless(&self) -> bool {
        match self.op.kind {
            Kind::Get => true,
            Kind::Put => self.op.local.range.bytes == 0,
            _ => false,
        }
    }

    /// Whether its effect must not happen twice: it cannot be done again.
    pub fn is_atomic(&self) -> bool {
        self.op.kind.is_atomic()
    }

    /// Does it again on `lane`. A wake-up is not repeated.
    ///
    /// # Safety
    /// Local memory is as the first doing demanded, which has not completed. It is no atomic.
    pub unsafe fn post(
        &self,
        transport: &dyn Transport,
        lane: LaneId,
    ) -> Result<Ticket, FabricError> {
        let region = self.op.local.region();
        let here = LocalSlice {
            region: &region,
            offset: 0,
            bytes: region.range.bytes,
        };
        let mut op = self.op.map(here, here.bytes, |there, _| whole(there));
        if let Kind::Wake(word, value) = op.kind {
            op.kind = Kind::Notify(word, value);
        }
        // SAFETY: the caller's promise.
        unsafe { transport.post(lane.peer, lane.rail, &op, Tracking::Tracked) }
    }
}

/// The operations of one lane that are not known to be complete, in order.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: VecDeque<Entry>,
}

impl Journal {
    /// Memory of the entries that there is room for from the beginning.
    pub const FIRST_BYTES: u64 = (ROOM * size_of::<Entry>()) as u64;

    /// Makes room for what is usually in flight.
    pub fn reserve(&mut self) {
        self.entries.reserve(ROOM);
    }

    /// Forgets what is complete, and adds `entry`.
    #[inline]
    pub fn record(&mut self, entry: Entry, completed: u64) {
        self.forget(completed);
        self.entries.push_back(entry);
    }

    /// Forgets what is complete: number `completed` and all before it.
    pub fn forget(&mut self, completed: u64) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.sequence <= completed)
        {
            self.entries.pop_front();
        }
    }

    /// Forgets what uses memory of `region`.
    pub fn abandon(&mut self, region: &LocalRegion) {
        self.entries.retain(|entry| !entry.uses(region));
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether an operation is in flight that cannot be done again.
    pub fn has_atomic(&self) -> bool {
        self.entries.iter().any(Entry::is_atomic)
    }

    /// Bytes that the operations move.
    pub fn bytes(&self) -> usize {
        self.entries
            .iter()
            .map(|entry| entry.op.local.range.bytes)
            .sum()
    }

    /// Whether number `sequence` is still accounted for here.
    pub fn holds(&self, sequence: u64) -> bool {
        let mut numbers = self.entries.iter().map(|entry| entry.sequence);
        numbers.any(|number| number == sequence)
    }

    /// Takes out what lies behind number `completed`.
    pub fn take(&mut self, completed: u64) -> VecDeque<Entry> {
        self.forget(completed);
        std::mem::replace(&mut self.entries, VecDeque::with_capacity(ROOM))
    }
}
