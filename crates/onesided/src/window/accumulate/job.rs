//! An accumulating operation whose target is checked.

use crate::window::WindowError;
use crate::window::packed::Packed;
use crate::window::shape::{Shape, Side};
use crate::window::update::Update;
use ferrorail_base::Rank;

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

impl Job<'_> {
    /// Whether [`Job::combine_packed`] is faster than what goes piece by piece.
    pub fn is_faster_packed(&self) -> bool {
        let of = |side: Option<Side<'_>>| side.map_or(1, |side| side.shape.piece_count());
        let pieces = of(self.origin)
            .max(of(self.result))
            .max(self.there.piece_count());
        Packed::is_faster(self.there.bytes(), pieces)
    }

    /// Does all of it at once, with the target's elements from `mapped` on, by way of packed copies.
    ///
    /// # Safety
    /// The sides are valid, as are the elements at `mapped`, which no other accumulating operation touches.
    pub unsafe fn combine_packed(&self, mapped: *mut u8) -> Result<(), WindowError> {
        let bytes = self.there.bytes();
        let (mut elements, mut operands) = (Packed::room(bytes)?, Packed::room(bytes)?);
        let (elements, operands) = (elements.as_mut_ptr(), operands.as_mut_ptr());
        // SAFETY: the caller's contract; both rooms are this call's own.
        unsafe {
            if self.needs_elements() {
                self.there.pack(mapped, elements);
            }
            if let Some(Side { address, shape }) = self.origin {
                shape.pack(address, operands);
            }
            if let Some(Side { address, shape }) = self.result {
                shape.unpack(elements, address);
            }
            if self.origin.is_some() {
                (self.update).combine(operands, elements, bytes, self.element_bytes)?;
                self.there.unpack(elements, mapped);
            }
        }
        Ok(())
    }

    /// Whether it depends on the elements that are there.
    pub fn needs_elements(&self) -> bool {
        self.result.is_some() || !matches!(self.update, Update::Replace)
    }
}
