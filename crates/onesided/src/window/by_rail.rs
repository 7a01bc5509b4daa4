//! Moving data over rails: through slots, straight from and to the caller's buffer, or, where that
//! cannot be registered, through slots in pieces.

use super::layout::BOUNCE_BYTES;
use super::rails::Direction;
use super::{Window, WindowError};
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::{Fabric, FabricError, RemoteRegion, RemoteSlice};

impl<F: Fabric> Window<F> {
    /// Starts moving `here` to or from the bytes at `offset` of `region` at `target`.
    ///
    /// # Safety
    /// `here` is valid until nothing is under way to `target`; the target registered the bytes.
    pub(super) unsafe fn move_by_rail(
        &self,
        target: Rank,
        direction: Direction,
        here: MemoryRange,
        region: &RemoteRegion,
        offset: usize,
    ) -> Result<(), WindowError> {
        let there = RemoteSlice { region, offset };
        if here.bytes <= BOUNCE_BYTES {
            // SAFETY: the caller's contract.
            return self.on_rails(target, |rails| unsafe {
                rails.transfer(target, direction, here, there)
            });
        }
        // SAFETY: the caller's contract.
        match unsafe { self.rails().register(here) } {
            Ok(buffer) => {
                self.surroundings.registered();
                let mut buffer = Some(buffer);
                // SAFETY: the caller's contract.
                self.on_rails(target, |rails| unsafe {
                    rails.transfer_directly(target, direction, &mut buffer, there)
                })
            }
            Err(error @ FabricError::RegisterMemory { .. }) => {
                self.surroundings.refused(&error, here.bytes as u64);
                // SAFETY: the caller's contract.
                unsafe { self.move_in_pieces(target, direction, here, there) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// # Safety
    /// As [`Window::move_by_rail`].
    unsafe fn move_in_pieces(
        &self,
        target: Rank,
        direction: Direction,
        here: MemoryRange,
        there: RemoteSlice<'_>,
    ) -> Result<(), WindowError> {
        for at in (0..here.bytes).step_by(BOUNCE_BYTES) {
            let piece = here.slice(at, BOUNCE_BYTES.min(here.bytes - at));
            let offset = there.offset + at;
            let there = RemoteSlice { offset, ..there };
            // SAFETY: the caller's contract, for a part.
            self.on_rails(target, |rails| unsafe {
                rails.transfer(target, direction, piece, there)
            })?;
        }
        Ok(())
    }
}
