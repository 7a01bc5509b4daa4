//! What a reduction does with two vectors.

use crate::EngineError;
use ferrorail_coll::Order;
use ferrorail_reduce::Kernel;
use std::fmt;

/// A reduction operation on elements of one type; the same on all ranks of a call.
#[derive(Clone, Copy)]
pub struct Reducer<'a> {
    /// Bytes from one element to the next, not 0.
    pub element_bytes: usize,
    /// Whether operands may change places. Where not, they are combined in rank order.
    pub commutes: bool,
    /// The operation itself, which is taken to be associative.
    pub combine: Combine<'a>,
}

/// Who combines two vectors.
#[derive(Clone, Copy)]
pub enum Combine<'a> {
    /// One of ferrorail's own loops.
    Kernel(Kernel),
    /// Somebody else: an operation that the program defined.
    Call(&'a dyn LocalReduction),
}

/// An operation on vectors that is not one of ferrorail's own.
pub trait LocalReduction {
    /// Combines `elements` elements at `from` with those at `into`, which take the result:
    /// `from ∘ into`, or `into ∘ from`, as `order` says.
    ///
    /// # Errors
    /// [`EngineError::Operation`], with the reason.
    ///
    /// # Safety
    /// `from` is readable and `into` writable for so many elements; they do not overlap, and
    /// nobody writes the one or touches the other meanwhile.
    unsafe fn combine(
        &self,
        from: *const u8,
        into: *mut u8,
        elements: usize,
        order: Order,
    ) -> Result<(), EngineError>;
}

impl Reducer<'_> {
    /// Combines the `bytes` bytes of whole elements at `from` with those at `into`.
    ///
    /// # Errors
    /// As [`LocalReduction::combine`].
    ///
    /// # Safety
    /// As [`LocalReduction::combine`].
    #[inline]
    pub(crate) unsafe fn run(
        &self,
        from: *const u8,
        into: *mut u8,
        bytes: usize,
        order: Order,
    ) -> Result<(), EngineError> {
        let elements = bytes / self.element_bytes;
        debug_assert_eq!(elements * self.element_bytes, bytes, "cut between elements");
        match self.combine {
            Combine::Kernel(kernel) => {
                // SAFETY: the caller's contract.
                unsafe { kernel.run(from, into, elements, order == Order::FromFirst) };
                Ok(())
            }
            // SAFETY: the caller's contract.
            Combine::Call(operation) if elements > 0 => unsafe {
                operation.combine(from, into, elements, order)
            },
            Combine::Call(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Reducer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reducer")
            .field("element_bytes", &self.element_bytes)
            .field("commutes", &self.commutes)
            .field("own", &matches!(self.combine, Combine::Kernel(_)))
            .finish()
    }
}
