//! Cells of a segment that are found once.

use super::{AtomicCell, Segment};
use std::ptr::NonNull;

/// Consecutive cells of one segment. To check where they lie takes as long as to raise a flag, and every short operation
/// uses them.
#[derive(Debug)]
pub(crate) struct Found<T> {
    first: NonNull<T>,
    count: usize,
}

// SAFETY: an address of cells that all threads may use.
unsafe impl<T: AtomicCell + Sync> Send for Found<T> {}
// SAFETY: as above.
unsafe impl<T: AtomicCell + Sync> Sync for Found<T> {}

impl<T: AtomicCell> Found<T> {
    /// The `count` cells of `segment` from `offset` on.
    ///
    /// # Panics
    /// As [`Segment::cells`].
    pub fn new(segment: &Segment, offset: usize, count: usize) -> Self {
        let cells = segment.cells::<T>(offset, count);
        Self {
            first: NonNull::from(cells).cast(),
            count,
        }
    }

    /// The cells.
    ///
    /// # Safety
    /// They were found in `_segment`.
    #[inline(always)]
    pub unsafe fn of<'a>(&self, _segment: &'a Segment) -> &'a [T] {
        // SAFETY: so many cells were found there, and the mapping lives as long as the segment.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}
