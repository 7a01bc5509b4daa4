//! What accumulating operations make of elements.

use super::WindowError;
use super::attach::copy;
use ferrorail_reduce::Kernel;
use std::ptr;

/// Longest element of a compare-and-swap.
pub(super) const SWAP_BYTES_MAX: usize = 32;

/// An operation that no kernel computes.
pub trait Combine {
    /// `into = from ∘ into` for `elements` packed elements.
    ///
    /// # Errors
    /// Whatever its owner says.
    ///
    /// # Safety
    /// Both are that many packed elements, apart, `into` writable.
    unsafe fn combine(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// What becomes of the target's elements.
#[derive(Clone, Copy)]
pub enum Update<'a> {
    /// `MPI_REPLACE`.
    Replace,
    /// `MPI_NO_OP`.
    Keep,
    /// A predefined operation.
    Kernel(Kernel),
    /// Another.
    Call(&'a dyn Combine),
}

impl Update<'_> {
    /// Combines packed elements of `bytes` bytes in all where they are; those before go to `result` unless
    /// that is null.
    ///
    /// # Safety
    /// `there` is writable, and no other accumulating operation touches it; `result` is writable or null;
    /// `origin` is readable unless this is [`Update::Keep`].
    #[inline]
    pub(super) unsafe fn in_place(
        &self,
        there: *mut u8,
        origin: *const u8,
        result: *mut u8,
        bytes: usize,
        element_bytes: usize,
    ) -> Result<(), WindowError> {
        // SAFETY: the caller's contract. A program that passes its own window memory may overlap.
        unsafe {
            if !result.is_null() {
                copy(there, result, bytes);
            }
            self.combine(origin, there, bytes, element_bytes)
        }
    }

    /// Combines packed elements of `bytes` bytes in all, into the latter.
    ///
    /// # Safety
    /// `into` is readable and writable; `from` is readable unless this is [`Update::Keep`].
    #[inline]
    pub(super) unsafe fn combine(
        &self,
        from: *const u8,
        into: *mut u8,
        bytes: usize,
        element_bytes: usize,
    ) -> Result<(), WindowError> {
        let elements = match bytes == element_bytes {
            true => 1,
            false => bytes / element_bytes,
        };
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                Self::Replace => copy(from, into, bytes),
                Self::Keep => {}
                Self::Kernel(kernel) => kernel.run(into, from, into, elements),
                Self::Call(call) => call
                    .combine(from, into, elements)
                    .map_err(WindowError::Operation)?,
            }
        }
        Ok(())
    }
}

/// Replaces the element at `there` by that at `origin` if it equals that at `compare`; `result` gets the
/// one before. Whether it did.
///
/// # Safety
/// All have `bytes` bytes, at most [`SWAP_BYTES_MAX`]; `there` and `result` are writable, and no other
/// accumulating operation touches `there`.
#[inline]
pub(super) unsafe fn compare_and_swap(
    there: *mut u8,
    origin: *const u8,
    compare: *const u8,
    result: *mut u8,
    bytes: usize,
) -> bool {
    // SAFETY: the caller's contract; both arrays have room.
    unsafe {
        match bytes {
            8 => return swap_word::<u64>(there, origin, compare, result),
            4 => return swap_word::<u32>(there, origin, compare, result),
            _ => {}
        }
        let (mut before, mut expected) = ([0u8; SWAP_BYTES_MAX], [0u8; SWAP_BYTES_MAX]);
        ptr::copy(there, before.as_mut_ptr(), bytes);
        ptr::copy(compare, expected.as_mut_ptr(), bytes);
        let equal = before == expected;
        if equal {
            ptr::copy(origin, there, bytes);
        }
        ptr::copy(before.as_ptr(), result, bytes);
        equal
    }
}

/// [`compare_and_swap`] of a word.
///
/// # Safety
/// As [`compare_and_swap`].
#[inline]
unsafe fn swap_word<W: Copy + PartialEq>(
    there: *mut u8,
    origin: *const u8,
    compare: *const u8,
    result: *mut u8,
) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let before = there.cast::<W>().read_unaligned();
        let equal = before == compare.cast::<W>().read_unaligned();
        if equal {
            let new = origin.cast::<W>().read_unaligned();
            there.cast::<W>().write_unaligned(new);
        }
        result.cast::<W>().write_unaligned(before);
        equal
    }
}
