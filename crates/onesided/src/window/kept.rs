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

use ferrorail_base::config::WindowSettings;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::LocalRegion;
use std::sync::Arc;

/// What is kept, within bounds. A region that only this refers to is in no operation.
#[derive(Default)]
pub(super) struct Kept {
    /// The least recently used first.
    regions: Vec<Arc<LocalRegion>>,
    bytes: u64,
    regions_max: usize,
    bytes_max: u64,
    /// Memory of the window's own that operations use.
    pub own: Option<MemoryRange>,
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
    pub fn may_keep(&self, part: MemoryRange, asked: bool) -> Option<MemoryRange> {
        let own = self.own.filter(|own| own.holds(part));
        own.or(asked.then_some(part))
    }

    pub fn find(&mut self, part: MemoryRange) -> Option<Arc<LocalRegion>> {
        let index = self
            .regions
            .iter()
            .rposition(|known| known.range.holds(part))?;
        let found = self.regions.remove(index);
        self.regions.push(Arc::clone(&found));
        Some(found)
    }

    /// Keeps `region`, and gives out what has to go for it; gives it back if there is no room.
    pub fn keep(
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

#[cfg(test)]
mod tests;
