//! Memory of a call's own that it lends to operations on rails.
//!
//! A call that fails, because a peer's time is up for instance, returns while its operations are under way. What it lent is
//! gone then, on its stack or its heap, and an operation that completes later must not touch it.

use super::{Window, WindowError};
use ferrorail_base::memory::MemoryRange;
use ferrorail_fabric::Endpoint;
use std::mem;

impl<F: Endpoint> Window<F> {
    /// Runs `act`, which may have `memory` moved through slots as long as it runs.
    pub(super) fn lending<T, R>(
        &self,
        memory: &mut [T],
        act: impl FnOnce(&mut [T]) -> Result<R, WindowError>,
    ) -> Result<R, WindowError> {
        let range = range_of(memory);
        act(memory).inspect_err(|_| {
            self.disown(range);
        })
    }

    /// Runs `act`, which may have `memory` moved in any way as long as it runs. Where a rail goes on with that, the memory is left to
    /// it for good.
    pub(super) fn lending_heap<T, R>(
        &self,
        memory: &mut Vec<T>,
        act: impl FnOnce(&mut [T]) -> Result<R, WindowError>,
    ) -> Result<R, WindowError> {
        let range = range_of(memory);
        let outcome = act(memory);
        if outcome.is_err() && self.disown(range) {
            mem::forget(mem::take(memory));
        }
        outcome
    }

    /// Sees to it that gets which are under way through slots end without writing to `memory`. Whether a rail may still read it
    /// or write to it, so that it must never be freed.
    pub fn disown(&self, memory: MemoryRange) -> bool {
        let rails = self.rails.as_ref();
        rails.is_some_and(|rails| rails.outstanding().disown(memory))
    }
}

fn range_of<T>(memory: &mut [T]) -> MemoryRange {
    MemoryRange::new(memory.as_mut_ptr().cast(), size_of_val(memory))
}

#[cfg(test)]
mod tests;
