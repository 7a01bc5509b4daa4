//! An accumulating operation whose target is checked.

use crate::window::shape::{Cutter, Shape};
use crate::window::update::Update;
use ferrorail_base::Rank;
use std::ptr;

/// One side of an accumulating operation: an address, and how elements lie there.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub address: *mut u8,
    pub shape: &'a Shape<'a>,
}

/// What an accumulating operation does, once its target is checked.
pub struct Job<'a> {
    pub target: Rank,
    /// First byte of the target's elements, from its base.
    pub base: isize,
    pub there: &'a Shape<'a>,
    pub origin: Option<Side<'a>>,
    pub result: Option<Side<'a>>,
    pub element_bytes: usize,
    pub update: Update<'a>,
}

impl Side<'_> {
    /// Copies the next `bytes` bytes between this side and `packed`.
    ///
    /// # Safety
    /// Both are valid for so many bytes.
    pub unsafe fn copy(
        &self,
        cutter: &mut Cutter<'_>,
        packed: *mut u8,
        bytes: usize,
        to_side: bool,
    ) {
        let mut done = 0;
        while done < bytes
            && let Some(piece) = cutter.take(bytes - done)
        {
            let here = self.address.wrapping_offset(piece.offset);
            let packed = packed.wrapping_add(done);
            // SAFETY: the caller's contract, for a part.
            unsafe {
                match to_side {
                    true => ptr::copy_nonoverlapping(packed, here, piece.bytes),
                    false => ptr::copy_nonoverlapping(here, packed, piece.bytes),
                }
            }
            done += piece.bytes;
        }
    }
}

impl Job<'_> {
    /// Whether it depends on the elements that are there.
    pub fn needs_elements(&self) -> bool {
        self.result.is_some() || !matches!(self.update, Update::Replace)
    }
}
