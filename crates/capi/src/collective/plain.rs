//! Elements as the engine sees them: plain bytes, in the program's memory or packed.

use crate::datatype::{Elements, Packed};
use crate::error::CallError;
use crate::session::Session;
use std::ops::Range;

/// Where the engine finds an own block that is sent as well as received: in the program's memory, or `None` for
/// `own`, where the result has it. Overlapping buffers are wrong, but hosts that do not check copy the own block
/// first, too.
///
/// # Safety
/// The elements are readable; `own` has room for their bytes.
#[inline(always)]
pub unsafe fn own_block(
    session: &Session,
    elements: &Elements,
    own: *mut u8,
    output: &Range<usize>,
) -> Result<Option<*const u8>, CallError> {
    match elements.dense() {
        Some(address) if !overlap(&elements.range(address), output) => {
            Ok(Some(address.cast_const()))
        }
        _ => {
            // SAFETY: the caller's contract.
            unsafe { elements.pack(session, own)? };
            Ok(None)
        }
    }
}

/// Copies elements to others of as many bytes, whose gaps keep theirs.
///
/// # Safety
/// Those are readable, these are writable.
pub unsafe fn move_elements(
    session: &Session,
    from: &Elements,
    to: &Elements,
) -> Result<(), CallError> {
    // SAFETY: the caller's contract.
    unsafe {
        match to.dense() {
            Some(address) => from.pack(session, address),
            None => to.unpack(session, Input::new(session, from, 0..0)?.address()),
        }
    }
}

/// Plain bytes to send: the program's own memory, or a packed copy.
pub struct Input {
    address: *const u8,
    _copy: Option<Packed>,
}

impl Input {
    /// The bytes of `elements`. They are copied if they have gaps or lie in `output`: overlapping
    /// buffers are wrong, but hosts that do not check send what was there before.
    ///
    /// # Safety
    /// The elements are readable.
    #[inline(always)]
    pub unsafe fn new(
        session: &Session,
        elements: &Elements,
        output: Range<usize>,
    ) -> Result<Self, CallError> {
        match elements.dense() {
            Some(address) if !overlap(&elements.range(address), &output) => Ok(Self {
                address,
                _copy: None,
            }),
            // SAFETY: the caller's contract.
            _ => unsafe { Self::copied(session, elements) },
        }
    }

    /// A copy of the bytes of `elements`.
    ///
    /// # Safety
    /// As [`Input::new`].
    #[cold]
    pub unsafe fn copied(session: &Session, elements: &Elements) -> Result<Self, CallError> {
        let mut copy = Packed::new(size_of(elements)?)?;
        // SAFETY: the caller's contract; the copy has room.
        unsafe { elements.pack(session, copy.as_mut_ptr())? };
        Ok(Self {
            address: copy.as_mut_ptr(),
            _copy: Some(copy),
        })
    }

    /// First byte.
    #[inline]
    pub fn address(&self) -> *const u8 {
        self.address
    }
}

/// Plain bytes to receive into: the program's own memory, or memory to unpack from.
pub struct Output<'a> {
    address: *mut u8,
    elements: &'a Elements,
    packed: Option<Packed>,
}

impl<'a> Output<'a> {
    /// Room for the bytes of `elements`.
    #[inline]
    pub fn new(elements: &'a Elements) -> Result<Self, CallError> {
        match elements.dense() {
            Some(address) => Ok(Self {
                address,
                elements,
                packed: None,
            }),
            None => Self::with_room(elements, 0),
        }
    }

    /// Memory to unpack `elements` from, which are the first of at least `room` bytes.
    #[cold]
    fn with_room(elements: &'a Elements, room: usize) -> Result<Self, CallError> {
        let mut packed = Packed::new(size_of(elements)?.max(room))?;
        Ok(Self {
            address: packed.as_mut_ptr(),
            elements,
            packed: Some(packed),
        })
    }

    /// Room for the bytes of `elements`. If they are the first of `all` that the program has there, as
    /// in place, there is room for all of those where any have to be packed: few may be plain bytes
    /// where many are not, and the other way round (one element with gaps is, none is not).
    pub fn first_of(elements: &'a Elements, all: Option<&Elements>) -> Result<Self, CallError> {
        match all {
            Some(all) if elements.dense().is_none() || all.dense().is_none() => {
                Self::with_room(elements, size_of(all)?)
            }
            _ => Self::new(elements),
        }
    }

    /// First byte.
    #[inline]
    pub fn address(&self) -> *mut u8 {
        self.address
    }

    /// Where the program's bytes will be written during the call.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        match self.packed {
            None => self.elements.range(self.address),
            Some(_) => 0..0,
        }
    }

    /// Makes the data that is in `block` of the program's buffer part of the bytes, at `offset`.
    ///
    /// # Safety
    /// `block` is readable, and its bytes fit at `offset`.
    pub unsafe fn keep(
        &self,
        session: &Session,
        block: &Elements,
        offset: usize,
    ) -> Result<(), CallError> {
        if let Some(packed) = &self.packed {
            debug_assert!(
                packed.room() >= offset + size_of(block)?,
                "room for what is kept"
            );
            // SAFETY: the caller's contract.
            unsafe { block.pack(session, self.address.wrapping_add(offset))? };
        }
        Ok(())
    }

    /// Brings what was received to the program's elements; gaps keep their bytes.
    ///
    /// # Safety
    /// The elements are writable, all bytes were received.
    #[inline(always)]
    pub unsafe fn finish(&self, session: &Session) -> Result<(), CallError> {
        if self.packed.is_some() {
            // SAFETY: the caller's contract.
            unsafe { self.elements.unpack(session, self.address)? };
        }
        Ok(())
    }
}

fn size_of(elements: &Elements) -> Result<usize, CallError> {
    elements.bytes().ok_or(CallError::TooMuch)
}

/// Whether two ranges of addresses have bytes in common.
#[inline]
pub fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_do_not_overlap() {
        assert!(!overlap(&(100..108), &(108..172)));
        assert!(!overlap(&(172..180), &(108..172)));
        assert!(overlap(&(107..115), &(108..172)));
        assert!(overlap(&(171..179), &(108..172)));
        assert!(overlap(&(108..116), &(108..172)));
        assert!(!overlap(&(108..108), &(108..108)));
    }
}
