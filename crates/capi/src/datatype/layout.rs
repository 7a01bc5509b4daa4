//! How elements of a datatype lie in memory.

use ferrorail_base::runs::{NoRuns, Runs};
use std::ptr;
use std::sync::Arc;

/// How elements of a datatype lie in memory. Two words, because every call makes a few of them.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Bytes of data in one element.
    pub bytes: usize,
    /// What differs from plain bytes at offset 0, one element after the other.
    other: Shared,
}

/// An `Option<Arc<Other>>` that stays in registers: the drop of an `Arc` wants its address, which
/// makes every move of what contains it a copy in memory.
#[derive(Debug)]
struct Shared(*const Other);

// SAFETY: as an `Arc` of what is `Send` and `Sync`.
unsafe impl Send for Shared {}
// SAFETY: likewise.
unsafe impl Sync for Shared {}

impl Shared {
    #[inline]
    fn get(&self) -> Option<&Other> {
        // SAFETY: null, or from an `Arc` that this has a share in.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Shared {
    #[inline]
    fn clone(&self) -> Self {
        if !self.0.is_null() {
            // SAFETY: from an `Arc` that this has a share in.
            unsafe { Arc::increment_strong_count(self.0) };
        }
        Self(self.0)
    }
}

impl Drop for Shared {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: gives up this share, once.
            unsafe { Arc::decrement_strong_count(self.0) };
        }
    }
}

#[derive(Debug)]
struct Other {
    extent: isize,
    lowest: isize,
    dense_at: Option<isize>,
    /// `None` if dense.
    runs: Option<Result<Runs, NoRuns>>,
}

impl Layout {
    /// Elements of plain bytes, one after the other.
    #[inline]
    pub fn plain(bytes: usize) -> Self {
        Self {
            bytes,
            other: Shared(ptr::null()),
        }
    }

    /// Elements `extent` bytes apart, whose lowest data byte is at offset `lowest`. Data is as in
    /// `runs`; without, only the host can tell.
    pub fn new(bytes: usize, extent: isize, lowest: isize, runs: Result<Runs, NoRuns>) -> Self {
        let single = runs.as_ref().ok().and_then(Runs::single);
        let joins = bytes == 0 || extent == bytes as isize;
        let dense_at = single.filter(|_| joins);
        let other = Other {
            extent,
            lowest,
            dense_at,
            runs: dense_at.is_none().then_some(runs),
        };
        Self {
            bytes,
            other: Shared(Arc::into_raw(Arc::new(other))),
        }
    }

    /// Distance between elements.
    #[inline]
    pub fn extent(&self) -> isize {
        let plain = self.bytes as isize;
        self.other.get().map_or(plain, |other| other.extent)
    }

    /// Offset of the lowest data byte.
    #[inline]
    pub fn lowest(&self) -> isize {
        self.other.get().map_or(0, |other| other.lowest)
    }

    /// Where data begins, if any number of elements is plain bytes in order and without gaps.
    #[inline]
    pub fn dense_at(&self) -> Option<isize> {
        match self.other.get() {
            None => Some(0),
            Some(other) => other.dense_at,
        }
    }

    /// Where data of `count` elements begins, if they are plain bytes in order and without gaps.
    #[inline]
    pub fn dense_for(&self, count: usize) -> Option<isize> {
        match self.other.get() {
            None => Some(0),
            Some(other) => match &other.runs {
                Some(Ok(runs)) if count == 1 => runs.single(),
                _ => other.dense_at,
            },
        }
    }

    /// Where data lies, if not dense. `None` if only the host can tell.
    #[inline]
    pub fn runs(&self) -> Option<&Runs> {
        self.other.get()?.runs.as_ref()?.as_ref().ok()
    }

    /// Why it is not known where data lies, where that is so.
    pub fn no_runs(&self) -> NoRuns {
        let other = self.other.get();
        match other.and_then(|other| other.runs.as_ref()) {
            Some(&Err(reason)) => reason,
            _ => NoRuns::Irregular,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_base::memory::NoMemory;

    #[test]
    fn elements_with_gaps_are_dense_one_by_one() {
        let layout = Layout::new(8, 16, 4, Runs::dense(8).shifted(4));
        assert_eq!((layout.dense_at(), layout.dense_for(2)), (None, None));
        assert_eq!(layout.dense_for(1), Some(4));
        assert_eq!((layout.extent(), layout.lowest()), (16, 4));
        assert!(layout.runs().is_some());
    }

    #[test]
    fn elements_that_join_are_dense() {
        let layout = Layout::new(8, 8, 4, Runs::dense(8).shifted(4));
        assert_eq!((layout.dense_at(), layout.dense_for(3)), (Some(4), Some(4)));
        assert!(layout.runs().is_none());
        let plain = Layout::plain(8);
        assert_eq!((plain.dense_for(3), plain.extent()), (Some(0), 8));
    }

    #[test]
    fn elements_that_overlap_are_not_dense() {
        let layout = Layout::new(16, 4, 0, Ok(Runs::dense(16)));
        assert_eq!((layout.dense_at(), layout.dense_for(2)), (None, None));
        assert_eq!(layout.dense_for(1), Some(0));
    }

    #[test]
    fn what_only_the_host_knows_is_not_dense() {
        let refused = NoRuns::NoMemory(NoMemory { bytes: 9 });
        let layout = Layout::new(8, 8, 0, Err(refused));
        assert_eq!((layout.dense_for(1), layout.runs()), (None, None));
        assert_eq!(layout.no_runs(), refused);
    }
}
