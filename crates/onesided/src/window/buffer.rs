//! How the buffer of an operation over rails is registered: anyway, already, to be kept (`kept`), or for the
//! operation.

use super::outstanding::Buffer;
use super::rails::WindowRails;
use super::{Window, count};
use ferrorail_base::config::Registration;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::{Endpoint, FabricError, LocalRegion};

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

impl<F: Endpoint> Window<F> {
    /// `here`, registered.
    ///
    /// # Errors
    /// [`FabricError::RegisterMemory`] where that is refused.
    ///
    /// # Safety
    /// The buffer is left to the window until nothing uses it, and stays mapped as long as `kept`
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
            return Ok(Buffer::Once(Box::new(region)));
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
            Err(region) => Buffer::Once(Box::new(region)),
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
}
