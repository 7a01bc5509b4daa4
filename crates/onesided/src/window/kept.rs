//! Registrations that outlive an operation: the thesis's pin-down cache (section 3.3.4), for memory of which
//! it is known how long it lives.
//!
//! * The window's own memory and what is attached to it are registered anyway: an origin's buffer inside
//!   needs nothing more.
//! * Buffers of the library's own (accumulations) live as long as the window.
//! * Buffers of the program live as long as it promises: with `FERRORAIL_REGISTRATION=keep`, or the info key
//!   `ferrorail_registration` of the window, that memory from which it puts and into which it gets stays
//!   mapped where it is until the window is freed. Without that promise a cache would go on
//!   using pages that the program has given back (`docs/design/0011-registration.md`).
//!
//! Registrations are kept up to a number and a sum of bytes. Who is new replaces whoever was not used for
//! longest, but nothing that an operation uses: where that leaves no room, it lives for its operation.

use super::rails::WindowRails;
use super::{Window, count};
use ferrorail_base::config::{Registration, WindowSettings};
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::{Endpoint, FabricError, LocalRegion};
use std::sync::Arc;

/// How a buffer is registered.
#[derive(Debug)]
pub(super) enum Buffer {
    /// For one operation.
    Once(LocalRegion),
    /// By somebody who gives it back once no operation has it.
    Shared(Arc<LocalRegion>),
    /// In the node's segment.
    Segment,
    /// In this rank's window memory.
    Memory,
}

impl Buffer {
    pub fn region<'a, F: Endpoint>(&'a self, rails: &'a WindowRails<F>) -> &'a LocalRegion {
        match self {
            Self::Once(region) => region,
            Self::Shared(region) => region,
            Self::Segment => rails.segment(),
            Self::Memory => rails.memory().expect("the buffer was found there"),
        }
    }
}

/// What is kept, within bounds. A region that only this refers to is in no operation.
pub(super) struct Kept {
    /// The least recently used first.
    regions: Vec<Arc<LocalRegion>>,
    bytes: u64,
    regions_max: usize,
    bytes_max: u64,
    /// Memory of the window's own that operations use.
    own: Option<MemoryRange>,
}

impl Kept {
    pub fn new(settings: &WindowSettings) -> Self {
        Self {
            regions: Vec::new(),
            bytes: 0,
            regions_max: settings.registrations_max as usize,
            bytes_max: settings.registrations_bytes_max,
            own: None,
        }
    }

    /// What to register for `part`, if that may be kept: `asked` if the program promised so.
    fn may_keep(&self, part: MemoryRange, asked: bool) -> Option<MemoryRange> {
        let own = self.own.filter(|own| own.holds(part));
        own.or(asked.then_some(part))
    }

    fn find(&mut self, part: MemoryRange) -> Option<Arc<LocalRegion>> {
        let index = self
            .regions
            .iter()
            .rposition(|known| known.range.holds(part))?;
        let found = self.regions.remove(index);
        self.regions.push(Arc::clone(&found));
        Some(found)
    }

    /// Keeps `region`, and gives out what has to go for it; gives it back if there is no room.
    fn keep(
        &mut self,
        region: LocalRegion,
    ) -> (Result<Arc<LocalRegion>, LocalRegion>, Vec<LocalRegion>) {
        let bytes = region.range.bytes as u64;
        if self.regions_max == 0 || bytes > self.bytes_max {
            return (Err(region), Vec::new());
        }
        let least = |kept: &Self| {
            kept.regions.len() < kept.regions_max && kept.bytes <= kept.bytes_max - bytes
        };
        let gone = self.leave(least);
        if !least(self) {
            return (Err(region), gone);
        }
        let region = Arc::new(region);
        self.regions.push(Arc::clone(&region));
        self.bytes += bytes;
        (Ok(region), gone)
    }

    /// Gives out what no operation uses, the least recently used first, until it is `enough`.
    fn leave(&mut self, enough: impl Fn(&Self) -> bool) -> Vec<LocalRegion> {
        let mut gone = Vec::new();
        let mut index = 0;
        while !enough(self) && index < self.regions.len() {
            if Arc::strong_count(&self.regions[index]) > 1 {
                index += 1;
                continue;
            }
            // Nobody else has it, and others get it from here only.
            let region = Arc::into_inner(self.regions.remove(index));
            gone.extend(region.inspect(|region| self.bytes -= region.range.bytes as u64));
        }
        gone
    }

    /// Gives out all that no operation uses.
    pub fn leave_all(&mut self) -> Vec<LocalRegion> {
        self.leave(|_| false)
    }
}

impl<F: Endpoint> Window<F> {
    /// `here`, registered.
    ///
    /// # Errors
    /// [`FabricError::RegisterMemory`] where that is refused.
    ///
    /// # Safety
    /// The buffer is left to the window until nothing uses it, and stays mapped as long as the module's text
    /// says.
    pub(super) unsafe fn buffer(&self, here: MemoryRange) -> Result<Buffer, FabricError> {
        let rails = self.rails();
        let attached = || self.attached(here).map(Buffer::Shared);
        if let Some(known) = rails.known(here).or_else(attached) {
            count(&self.counters.reused);
            return Ok(known);
        }
        let asked = self.settings.registration == Registration::Keep;
        let Some(range) = rails.kept().may_keep(here, asked) else {
            // SAFETY: the caller's contract.
            let region = unsafe { rails.register(here) }?;
            self.process_context.registered();
            return Ok(Buffer::Once(region));
        };
        if let Some(found) = rails.kept().find(here) {
            count(&self.counters.reused);
            return Ok(Buffer::Shared(found));
        }
        // SAFETY: the caller's contract; the window's own memory is its own.
        let mut registered = unsafe { rails.register(range) };
        if matches!(registered, Err(FabricError::RegisterMemory { .. })) {
            // What is kept counts against the limit, too.
            let unused = rails.kept().leave_all();
            if !unused.is_empty() {
                self.evict(unused);
                // SAFETY: as above.
                registered = unsafe { rails.register(range) };
            }
        }
        let region = registered?;
        self.process_context.registered();
        let (kept, gone) = rails.kept().keep(region);
        self.evict(gone);
        Ok(match kept {
            Ok(region) => {
                count(&self.counters.kept);
                Buffer::Shared(region)
            }
            Err(region) => Buffer::Once(region),
        })
    }

    fn evict(&self, regions: Vec<LocalRegion>) {
        for region in regions {
            self.rails().fabric().deregister(region);
            count(&self.counters.evicted);
        }
    }
}

impl<F: Endpoint> WindowRails<F> {
    /// How `here` is registered for as long as there is the window, if it is.
    fn known(&self, here: MemoryRange) -> Option<Buffer> {
        if self.segment().range.holds(here) {
            return Some(Buffer::Segment);
        }
        let memory = self.memory()?;
        memory.range.holds(here).then_some(Buffer::Memory)
    }

    /// Says that `memory` lives as long as the window.
    pub(super) fn owns(&self, memory: MemoryRange) {
        self.kept().own = Some(memory);
    }
}

#[cfg(test)]
mod tests;
