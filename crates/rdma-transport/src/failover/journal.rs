//! What is in flight on a lane, in enough detail to be done again on another rail.

use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::{
    Fabric, FabricError, LaneId, LocalRegion, LocalSlice, Notification, RAILS_MAX, RemoteRegion,
    RemoteSlice, Ticket, Tracking,
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

/// What an operation does.
#[derive(Clone, Copy, Debug)]
enum What {
    Put,
    Eager(u64),
    Notify(RemoteRegion, u64),
    Get,
    Atomic,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its number on its lane.
    pub sequence: u64,
    what: What,
    here: Here,
    there: RemoteRegion,
}

impl Here {
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

impl Entry {
    fn new(what: What, here: &LocalSlice<'_>, there: &RemoteSlice<'_>) -> Self {
        Self {
            sequence: 0,
            what,
            here: Here::new(here),
            there: part(there, here.bytes),
        }
    }

    pub fn put(from: &LocalSlice<'_>, to: &RemoteSlice<'_>) -> Self {
        Self::new(What::Put, from, to)
    }

    pub fn eager(from: &LocalSlice<'_>, to: &RemoteSlice<'_>, trailing_flag: u64) -> Self {
        Self::new(What::Eager(trailing_flag), from, to)
    }

    pub fn notify(from: &LocalSlice<'_>, to: &RemoteSlice<'_>, tell: &Notification<'_>) -> Self {
        Self::new(What::Notify(part(&tell.word, 8), tell.value), from, to)
    }

    pub fn get(from: &RemoteSlice<'_>, into: &LocalSlice<'_>) -> Self {
        Self::new(What::Get, into, from)
    }

    pub fn atomic(at: &RemoteSlice<'_>, into: &LocalSlice<'_>) -> Self {
        Self::new(What::Atomic, into, at)
    }

    /// The word that proves its arrival, and the least value that does.
    pub fn proof(&self) -> Option<(RemoteRegion, u64)> {
        match self.what {
            What::Notify(word, value) => Some((word, value)),
            What::Eager(trailing_flag) => {
                let end = RemoteSlice {
                    region: &self.there,
                    offset: self.here.range.bytes - size_of::<u64>(),
                };
                Some((part(&end, size_of::<u64>()), trailing_flag))
            }
            _ => None,
        }
    }

    /// Whether its result comes back to this process, which the arrival of what was posted behind it does not prove.
    pub fn has_result(&self) -> bool {
        matches!(self.what, What::Get | What::Atomic)
    }

    /// Whether it is over when the memory that `word` lies in is gone: the word that proves its arrival
    /// lies there, or, without one, all that it writes.
    pub fn ends_with(&self, word: &RemoteRegion) -> bool {
        match (self.what, self.proof()) {
            (_, Some((proof, _))) => proof.rkeys == word.rkeys,
            (What::Put, None) => self.there.rkeys == word.rkeys,
            _ => false,
        }
    }

    /// Whether doing it again can hurt nobody, even while its first doing may still land.
    pub fn is_harmless(&self) -> bool {
        match self.what {
            What::Get => true,
            What::Put => self.here.range.bytes == 0,
            What::Eager(..) | What::Notify(..) | What::Atomic => false,
        }
    }

    /// Whether its effect must not happen twice: it cannot be done again.
    pub fn is_atomic(&self) -> bool {
        matches!(self.what, What::Atomic)
    }

    /// Does it again on `lane`.
    ///
    /// # Safety
    /// Local memory is as the first doing demanded, which has not completed.
    pub unsafe fn post<F: Fabric>(&self, fabric: &F, lane: LaneId) -> Result<Ticket, FabricError> {
        let region = self.here.region();
        let here = LocalSlice {
            region: &region,
            offset: 0,
            bytes: self.here.range.bytes,
        };
        let there = RemoteSlice {
            region: &self.there,
            offset: 0,
        };
        let LaneId { peer, rail } = lane;
        let tracked = Tracking::Tracked;
        match self.what {
            // SAFETY: the caller's promise.
            What::Put | What::Eager(_) => unsafe { fabric.put(peer, rail, here, there, tracked) },
            What::Notify(word, value) => {
                let word = RemoteSlice {
                    region: &word,
                    offset: 0,
                };
                let notification = Notification { word, value };
                // SAFETY: the caller's promise.
                unsafe { fabric.put_notify(peer, rail, here, there, notification, tracked) }
            }
            // SAFETY: the caller's promise.
            What::Get => unsafe { fabric.get(peer, rail, there, here) },
            What::Atomic => Err(FabricError::BadPeerData {
                what: "repeated atomic",
            }),
        }
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

    /// Forgets what is complete, and adds `entry` as number `sequence`.
    #[inline]
    pub fn record(&mut self, mut entry: Entry, sequence: u64, completed: u64) {
        self.forget(completed);
        entry.sequence = sequence;
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
            .map(|entry| entry.here.range.bytes)
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
