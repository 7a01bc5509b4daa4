//! Dynamic windows (MPI 4.1, section 12.2.4): memory is attached and detached by its owner alone, and
//! named by its address.
//!
//! The owner keeps a table of what is attached in its control block, and tells every rank, in a word
//! of its own there, how often the table has changed. An origin that finds the number it knows uses
//! its copy of the table; else it reads the table, over rails if need be. A sequence lock tells it
//! whether the table changed meanwhile.

use super::layout::{self, TABLE_ENTRIES};
use super::rails::Direction;
use super::shape::Shape;
use super::target::Memory;
use super::{Window, WindowError};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Ordering, fence};
use ferrorail_fabric::{Fabric, LocalRegion, RAILS_MAX, RemoteRegion};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a table: a sequence number, the number of entries in use, the entries.
const TABLE_BYTES: usize = layout::ENTRY_BYTES * (TABLE_ENTRIES + 1);

/// What this rank has attached, and what it knows of others.
pub(super) struct Dynamic {
    own: Mutex<Own>,
    /// By rank.
    known: Vec<Mutex<Known>>,
}

#[derive(Default)]
struct Own {
    entries: Vec<Entry>,
    changes: u64,
}

struct Entry {
    address: usize,
    bytes: usize,
    region: Option<LocalRegion>,
}

#[derive(Default)]
struct Known {
    changes: u64,
    regions: Vec<RemoteRegion>,
}

impl Dynamic {
    /// Nothing attached anywhere.
    pub fn new(ranks: usize) -> Self {
        Self {
            own: Mutex::default(),
            known: (0..ranks).map(|_| Mutex::default()).collect(),
        }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NOT_DYNAMIC: WindowError = WindowError::Attachment("the window is not dynamic");

impl<F: Fabric> Window<F> {
    /// `MPI_Win_attach`.
    ///
    /// # Errors
    /// [`WindowError::Attachment`] if the memory overlaps with what is attached, or too much is.
    ///
    /// # Safety
    /// The memory stays valid until it is detached.
    pub unsafe fn attach(&self, address: *mut u8, bytes: usize) -> Result<(), WindowError> {
        let dynamic = self.dynamic.as_ref().ok_or(NOT_DYNAMIC)?;
        let mut own = dynamic.own();
        let start = address as usize;
        let end = start
            .checked_add(bytes)
            .ok_or(WindowError::Attachment("the memory wraps around"))?;
        let overlaps = |entry: &Entry| {
            bytes > 0
                && entry.bytes > 0
                && entry.address < end
                && start < entry.address + entry.bytes
        };
        if own.entries.iter().any(overlaps) {
            return Err(WindowError::Attachment("some of it is attached already"));
        }
        if own.entries.len() == TABLE_ENTRIES {
            return Err(WindowError::Attachment("too much is attached"));
        }
        let region = match &self.rails {
            Some(rails) if bytes > 0 => {
                // SAFETY: the caller's contract; it is given back by detaching.
                Some(unsafe { rails.fabric().register(address, bytes, None)? })
            }
            _ => None,
        };
        own.entries.push(Entry {
            address: start,
            bytes,
            region,
        });
        self.publish(&mut own)
    }

    /// `MPI_Win_detach`, of memory that was attached from `address` on.
    ///
    /// # Errors
    /// [`WindowError::Attachment`] if none was.
    pub fn detach(&self, address: *const u8) -> Result<(), WindowError> {
        let dynamic = self.dynamic.as_ref().ok_or(NOT_DYNAMIC)?;
        let mut own = dynamic.own();
        let found = own
            .entries
            .iter()
            .position(|entry| entry.address == address as usize)
            .ok_or(WindowError::Attachment("it is not attached"))?;
        let gone = own.entries.remove(found);
        let published = self.publish(&mut own);
        if let (Some(rails), Some(region)) = (&self.rails, gone.region) {
            rails.fabric().deregister(region);
        }
        published
    }

    /// Writes the table, and tells everybody that it has changed.
    fn publish(&self, own: &mut Own) -> Result<(), WindowError> {
        own.changes += 1;
        let table = layout::table(self.size());
        let sequence = self.own_word(table);
        sequence.store(2 * own.changes - 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut count = 0;
        for entry in own.entries.iter().filter(|entry| entry.bytes > 0) {
            let region = match &entry.region {
                Some(region) => RemoteRegion::of(region),
                None => RemoteRegion {
                    address: entry.address as u64,
                    bytes: entry.bytes as u64,
                    rkeys: [0; RAILS_MAX],
                    mapping: 0,
                },
            };
            count += 1;
            let at = table + layout::ENTRY_BYTES * count;
            for (index, word) in region.to_wire().chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
                self.own_word(at + 8 * index).store(word, Ordering::Relaxed);
            }
        }
        self.own_word(table + 8)
            .store(count as u64, Ordering::Relaxed);
        sequence.store(2 * own.changes, Ordering::Release);
        fence(Ordering::SeqCst);
        let word = layout::changes(self.size(), self.rank.0);
        for rank in self.ranks() {
            self.tell(rank, word, own.changes)?;
        }
        // Whoever hears of the change in any way must find it.
        self.ranks().try_for_each(|rank| self.settle(rank))
    }

    /// The address that a displacement in a dynamic window is, if all of `shape` from there on is
    /// attached.
    pub(super) fn place_dynamic(
        &self,
        target: Rank,
        displacement: i64,
        shape: &Shape<'_>,
    ) -> Result<isize, WindowError> {
        let base = displacement as isize;
        let known = self.known(target)?;
        for piece in shape.pieces().filter(|piece| piece.bytes > 0) {
            let address = base.wrapping_add(piece.offset) as u64;
            if find(&known.regions, address, piece.bytes).is_none() {
                let low = i128::from(address);
                return Err(WindowError::Range {
                    rank: target.0,
                    low,
                    high: low + piece.bytes as i128,
                    bytes: 0,
                });
            }
        }
        Ok(base)
    }

    /// The attached memory that holds `bytes` bytes at `address` of a rank on another node.
    pub(super) fn attached(
        &self,
        target: Rank,
        address: u64,
        bytes: usize,
    ) -> Result<RemoteRegion, WindowError> {
        let known = self.known(target)?;
        find(&known.regions, address, bytes)
            .ok_or(WindowError::Attachment("the memory was detached meanwhile"))
    }

    /// What `target` has attached now.
    fn known(&self, target: Rank) -> Result<MutexGuard<'_, Known>, WindowError> {
        let dynamic = self.dynamic.as_ref().ok_or(NOT_DYNAMIC)?;
        let known = &dynamic.known[target.index()];
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.own_word(layout::changes(self.size(), target.0));
        loop {
            let now = changes.load(Ordering::Acquire);
            if known.changes == now {
                return Ok(known);
            }
            if let Some(regions) = self.read_table(target)? {
                known.regions = regions;
                known.changes = now;
            }
        }
    }

    /// The table of `target`; `None` if it changed meanwhile.
    fn read_table(&self, target: Rank) -> Result<Option<Vec<RemoteRegion>>, WindowError> {
        let mut head = [0; 2];
        self.read_control(target, 0, &mut head)?;
        let [before, count] = head;
        if before % 2 == 1 || count > TABLE_ENTRIES as u64 {
            return Ok(None);
        }
        let words = layout::ENTRY_BYTES / 8;
        let mut entries = vec![0; words * count as usize];
        self.read_control(target, layout::ENTRY_BYTES, &mut entries)?;
        let mut after = [0; 1];
        self.read_control(target, 0, &mut after)?;
        if after[0] != before {
            return Ok(None);
        }
        let regions = entries.chunks_exact(words).map(|entry| {
            let mut wire = [0; RemoteRegion::WIRE_BYTES];
            for (bytes, word) in wire.chunks_exact_mut(8).zip(entry) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            RemoteRegion::from_wire(&wire)
        });
        Ok(Some(regions.collect()))
    }

    /// Reads words of `target`'s table, from byte `at` of it on.
    fn read_control(&self, target: Rank, at: usize, into: &mut [u64]) -> Result<(), WindowError> {
        debug_assert!(at + 8 * into.len() <= TABLE_BYTES);
        let offset = layout::table(self.size()) + at;
        let there = &self.targets[target.index()];
        if let Some(control) = there.control {
            for (index, word) in into.iter_mut().enumerate() {
                let from = self.segment.word(control + offset + 8 * index);
                *word = from.load(Ordering::Acquire);
            }
            fence(Ordering::SeqCst);
            return Ok(());
        }
        if into.is_empty() {
            return Ok(());
        }
        let here = MemoryRange::new(into.as_mut_ptr().cast(), size_of_val(into));
        let link = self.rails().link_of(target);
        let (segment, offset) = (&link.segment, link.control + offset);
        // SAFETY: `into` is waited for just below; the peer's control block holds the words.
        unsafe { self.move_by_rail(target, Direction::Get, here, segment, offset)? };
        self.settle(target)
    }
}

fn find(regions: &[RemoteRegion], address: u64, bytes: usize) -> Option<RemoteRegion> {
    let holds = |region: &&RemoteRegion| {
        let offset = address.wrapping_sub(region.address);
        offset <= region.bytes && bytes as u64 <= region.bytes - offset
    };
    regions.iter().find(holds).copied()
}

impl<F: Fabric> Window<F> {
    /// Gives back what the program did not detach.
    pub(super) fn detach_all(&self) {
        let Some(dynamic) = &self.dynamic else { return };
        for entry in dynamic.own().entries.drain(..) {
            if let (Some(rails), Some(region)) = (&self.rails, entry.region) {
                rails.fabric().deregister(region);
            }
        }
    }

    /// Where in a rank's memory the bytes at `offset` are, over rails.
    pub(super) fn over_rails(
        &self,
        target: Rank,
        offset: isize,
        bytes: usize,
    ) -> Result<(RemoteRegion, usize), WindowError> {
        match self.targets[target.index()].memory {
            Memory::Rails {
                region,
                offset: base,
            } => Ok((region, base.wrapping_add_signed(offset))),
            _ => {
                let address = offset as u64;
                let region = self.attached(target, address, bytes)?;
                Ok((region, (address - region.address) as usize))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_inside_one_region_is_found() {
        let region = |address, bytes| RemoteRegion {
            address,
            bytes,
            rkeys: [7; RAILS_MAX],
            mapping: 0,
        };
        let regions = [region(1000, 10), region(5000, 100)];
        let start = |address, bytes| find(&regions, address, bytes).map(|found| found.address);
        assert_eq!(start(1000, 10), Some(1000));
        assert_eq!(start(1009, 1), Some(1000));
        assert_eq!(start(1009, 2), None);
        assert_eq!(start(999, 1), None);
        assert_eq!(start(5050, 50), Some(5000));
        assert_eq!(start(5050, 51), None);
        assert_eq!(start(u64::MAX, 1), None);
    }
}
