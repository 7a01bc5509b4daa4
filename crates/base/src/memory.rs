//! Memory that others may touch, as address ranges.
//!
//! Peers and NICs write this memory while we hold its address, so it never becomes `&[u8]` or
//! `&mut [u8]`; it is copied by raw pointer inside checked bounds.

mod copy;

pub use copy::{copies_slowly, copy, copy_overlapping};

/// The system refused memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {bytes} bytes")]
pub struct NoMemory {
    /// What was asked for.
    pub bytes: usize,
}

/// Makes room in `list` for `more` entries and no others. Lists whose length the program's data decides grow
/// by this, as running out is an error of a call there and not the end of the process.
///
/// # Errors
/// If the system refuses; `list` is as it was.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), NoMemory> {
    list.try_reserve_exact(more).map_err(|_| NoMemory {
        bytes: more.saturating_mul(size_of::<T>()),
    })
}

/// A list of `length` times `value`.
///
/// # Errors
/// As [`reserve`].
pub fn filled<T: Clone>(length: usize, value: T) -> Result<Vec<T>, NoMemory> {
    let mut list = Vec::new();
    reserve(&mut list, length)?;
    list.resize(length, value);
    Ok(list)
}

/// A list of `entries`, as many as they say.
///
/// # Errors
/// As [`reserve`].
pub fn listed<T>(entries: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, NoMemory> {
    let mut list = Vec::new();
    reserve(&mut list, entries.len())?;
    list.extend(entries);
    Ok(list)
}

/// An address range `[address, address + bytes)`. Holding one grants nothing; using it is `unsafe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// First byte.
    pub address: usize,
    /// Length in bytes.
    pub bytes: usize,
}

impl MemoryRange {
    /// Whether all of `part` is inside.
    #[must_use]
    pub fn holds(self, part: Self) -> bool {
        let offset = part.address.checked_sub(self.address);
        offset.is_some_and(|offset| offset <= self.bytes && part.bytes <= self.bytes - offset)
    }

    /// A range over `bytes` bytes at `address`.
    pub fn new(address: *const u8, bytes: usize) -> Self {
        Self {
            address: address as usize,
            bytes,
        }
    }

    /// The part `[offset, offset + bytes)`.
    ///
    /// # Panics
    /// If it does not lie inside this range: offsets come from verified schedules.
    #[inline(always)]
    #[track_caller]
    pub fn slice(self, offset: usize, bytes: usize) -> Self {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "{bytes} bytes at offset {offset} leave a range of {}",
            self.bytes
        );
        Self {
            address: self.address + offset,
            bytes,
        }
    }

    /// First byte as a pointer.
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.address as *mut u8
    }

    /// Copies this range to `dest`, which must be as long.
    ///
    /// # Safety
    /// Both ranges are mapped, do not overlap, and nobody else writes either, or writes `dest`'s
    /// bytes, during the call (the schedule's ordering proves that).
    #[inline]
    pub unsafe fn copy_to(self, dest: MemoryRange) {
        assert_eq!(
            self.bytes, dest.bytes,
            "source and destination differ in length"
        );
        // SAFETY: the caller vouches for both ranges; the lengths were just compared.
        unsafe { copy(self.as_ptr(), dest.as_ptr(), self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_inside() {
        let range = MemoryRange {
            address: 4096,
            bytes: 100,
        };
        assert_eq!(range.slice(100, 0).address, 4196);
        assert_eq!(
            range.slice(10, 90),
            MemoryRange {
                address: 4106,
                bytes: 90
            }
        );
        assert!(std::panic::catch_unwind(|| range.slice(10, 91)).is_err());
        assert!(std::panic::catch_unwind(|| range.slice(usize::MAX, 2)).is_err());
    }
}
