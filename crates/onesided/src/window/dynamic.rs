//! Dynamic windows (MPI 4.1, section 12.2.4): memory is attached and detached by its owner alone, and
//! named by its address.
//!
//! The owner keeps a table of what is attached in its control block, or, once that has no room, in
//! memory of its own, and tells every rank, in a word of its own there, how often the table has
//! changed. An origin that finds the number it knows uses its copy of the table; else it reads the
//! table, over rails if need be. A sequence lock tells it whether the table changed meanwhile.

mod table;

use super::rails::Direction;
use super::shape::Shape;
use super::{Waiting, Window, WindowError, layout};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::{Claim, Claimed, Ordering};
use ferrorail_fabric::{Endpoint, FabricError, LocalRegion, RemoteRegion};
use std::sync::Arc;
use table::Grown;

/// What this rank has attached, and what it knows of others.
pub(super) struct Dynamic {
    own: Claim<Own>,
    /// By rank.
    known: Vec<Claim<Known>>,
}

#[derive(Default)]
struct Own {
    entries: Vec<Entry>,
    changes: u64,
    /// Tables that the control block had no room for, the one in use last. Ranks may still read the
    /// others.
    grown: Vec<Grown>,
}

struct Entry {
    address: usize,
    bytes: usize,
    region: Option<Arc<LocalRegion>>,
}

#[derive(Default)]
struct Known {
    changes: u64,
    /// By address.
    regions: Vec<RemoteRegion>,
}

impl Dynamic {
    /// Nothing attached anywhere.
    pub fn new(ranks: usize) -> Self {
        Self {
            own: Claim::default(),
            known: (0..ranks).map(|_| Claim::default()).collect(),
        }
    }
}

const NOT_DYNAMIC: WindowError = WindowError::Attachment("the window is not dynamic");

impl<F: Endpoint> Window<F> {
    /// `MPI_Win_attach`.
    ///
    /// # Errors
    /// [`WindowError::Attachment`] if the memory overlaps with what is attached, [`WindowError::Unattachable`].
    ///
    /// # Safety
    /// The memory stays valid until it is detached.
    pub unsafe fn attach(&self, address: *mut u8, bytes: usize) -> Result<(), WindowError> {
        let dynamic = self.dynamic.as_ref().ok_or(NOT_DYNAMIC)?;
        let mut own = self.claim(&dynamic.own, self.rank)?;
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
        self.extend(&mut own).map_err(unattachable)?;
        let region = match &self.rails {
            Some(rails) if bytes > 0 => {
                // SAFETY: the caller's contract; it is given back by detaching.
                let region = unsafe { rails.fabric().register(address, bytes, None) };
                Some(Arc::new(
                    region.map_err(|error| unattachable(error.into()))?,
                ))
            }
            _ => None,
        };
        own.entries.push(Entry {
            address: start,
            bytes,
            region,
        });
        let last = own.entries.len() - 1;
        self.publish(&mut own, last)
    }

    /// `MPI_Win_detach`, of memory that was attached from `address` on.
    ///
    /// # Errors
    /// [`WindowError::Attachment`] if none was.
    pub fn detach(&self, address: *const u8) -> Result<(), WindowError> {
        let dynamic = self.dynamic.as_ref().ok_or(NOT_DYNAMIC)?;
        let mut own = self.claim(&dynamic.own, self.rank)?;
        let found = own
            .entries
            .iter()
            .position(|entry| entry.address == address as usize)
            .ok_or(WindowError::Attachment("it is not attached"))?;
        let gone = own.entries.swap_remove(found);
        let published = self.publish(&mut own, found);
        if let (Some(rails), Some(region)) = (&self.rails, gone.region) {
            rails.fabric().deregister(self.unused(region)?);
        }
        published
    }

    /// The registration of attached memory that holds all of `here`.
    pub(super) fn attached(&self, here: MemoryRange) -> Option<Arc<LocalRegion>> {
        let own = self.dynamic.as_ref()?.own.take()?;
        let mut regions = own.entries.iter().filter_map(|entry| entry.region.as_ref());
        regions.find(|region| region.range.holds(here)).cloned()
    }

    /// The registration, once no operation of this rank uses the memory as its buffer.
    fn unused(&self, region: Arc<LocalRegion>) -> Result<LocalRegion, WindowError> {
        let mut region = Some(region);
        let doing = "waiting for operations from memory that is detached";
        self.wait_for(doing, Waiting::Rail(self.rank), || {
            let shared = region.take().expect("given back below");
            let exclusively = Arc::try_unwrap(shared);
            Ok(exclusively.map_err(|shared| region = Some(shared)).ok())
        })
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
            if !holds(&known.regions, address, piece.bytes) {
                return Err(WindowError::NotAttached {
                    rank: target.0,
                    address,
                    bytes: piece.bytes,
                });
            }
        }
        Ok(base)
    }

    /// Whether all of the bytes at `address` of `target` are memory of the window: a dynamic one has what is attached.
    pub(super) fn is_memory(&self, target: Rank, address: u64, bytes: usize) -> bool {
        let is_attached = |known: Claimed<'_, Known>| holds(&known.regions, address, bytes);
        self.dynamic.is_none() || self.known(target).is_ok_and(is_attached)
    }

    /// Starts moving `here` to or from what a rank on another node has attached at `address`, which may
    /// be several regions that follow one another.
    ///
    /// # Safety
    /// As [`Window::move_by_rail`].
    pub(super) unsafe fn move_attached(
        &self,
        target: Rank,
        direction: Direction,
        here: MemoryRange,
        address: u64,
    ) -> Result<(), WindowError> {
        let mut done = 0;
        while done < here.bytes {
            let at = address.wrapping_add(done as u64);
            let found = find(&self.known(target)?.regions, at);
            let (region, offset) =
                found.ok_or(WindowError::Attachment("the memory was detached meanwhile"))?;
            let bytes = (here.bytes - done).min((region.bytes - offset) as usize);
            let part = here.slice(done, bytes);
            // SAFETY: the caller's contract, for a part.
            unsafe { self.move_by_rail(target, direction, part, &region, offset as usize)? };
            done += bytes;
        }
        Ok(())
    }

    /// What `target` has attached now.
    fn known(&self, target: Rank) -> Result<Claimed<'_, Known>, WindowError> {
        let dynamic = self.dynamic.as_ref().ok_or(NOT_DYNAMIC)?;
        let mut known = self.claim(&dynamic.known[target.index()], target)?;
        // Its owner may have died while it wrote, which a wait notices.
        let doing = "reading what a rank has attached";
        self.wait_until(doing, Waiting::Rail(target), || {
            self.refresh(target, &mut known)
        })?;
        Ok(known)
    }

    /// Reads what `target` has attached, if that changed. Whether it is `known` then: not while its owner writes.
    #[inline]
    fn refresh(&self, target: Rank, known: &mut Known) -> Result<bool, WindowError> {
        let changes = self.own_word(layout::changes(self.size(), target.0));
        let now = changes.load(Ordering::Acquire);
        if known.changes != now {
            let Some(regions) = self.read_table(target)? else {
                return Ok(false);
            };
            (known.changes, known.regions) = (now, regions);
        }
        Ok(true)
    }

    /// Has what this rank has attached be known without a wait, for those who are in one and may have any claim. Whether it is.
    pub(super) fn knows_own(&self) -> bool {
        let Some(dynamic) = &self.dynamic else {
            return true;
        };
        let known = dynamic.known[self.rank.index()].take();
        known.is_some_and(|mut known| matches!(self.refresh(self.rank, &mut known), Ok(true)))
    }

    /// Gives back what the program did not detach.
    pub(super) fn detach_all(&self) {
        let Some(mut own) = self.dynamic.as_ref().and_then(|own| own.own.take()) else {
            return;
        };
        let Own { entries, grown, .. } = &mut *own;
        let entries = entries
            .drain(..)
            .filter_map(|entry| Arc::into_inner(entry.region?));
        let tables = grown.iter_mut().filter_map(|table| table.region.take());
        for region in entries.chain(tables) {
            if let Some(rails) = &self.rails {
                rails.fabric().deregister(region);
            }
        }
    }
}

/// What a refusal of the system's means to who attaches memory.
fn unattachable(error: WindowError) -> WindowError {
    match error {
        WindowError::NoMemory(_) | WindowError::Fabric(FabricError::RegisterMemory { .. }) => {
            WindowError::Unattachable(Box::new(error))
        }
        other => other,
    }
}

/// The region that holds the byte at `address`, and where in that it is.
fn find(regions: &[RemoteRegion], address: u64) -> Option<(RemoteRegion, u64)> {
    let behind = regions.partition_point(|region| region.address <= address);
    let region = *regions.get(behind.checked_sub(1)?)?;
    let offset = address - region.address;
    (offset < region.bytes).then_some((region, offset))
}

/// Whether each byte is in some region.
fn holds(regions: &[RemoteRegion], address: u64, bytes: usize) -> bool {
    let Some(end) = address.checked_add(bytes as u64) else {
        return false;
    };
    let mut at = address;
    while at < end {
        match find(regions, at) {
            Some((region, _)) => at = region.address + region.bytes,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests;
