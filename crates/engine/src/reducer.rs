//! What a reduction does with two vectors.

use crate::EngineError;
use ferrorail_base::memory::MemoryRange;
use ferrorail_reduce::Kernel;

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

/// Which of two vectors is the left operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// `into = from ∘ into`.
    FromFirst,
    /// `into = into ∘ from`.
    IntoFirst,
}

impl Reducer<'_> {
    /// Whether it is not an operation of the program or of the host.
    #[inline]
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self.combine, Combine::Kernel(_))
    }

    /// Elements of `bytes` bytes. Their length is a power of two but for types of the program and pairs, and a division
    /// takes a tenth of the time of a short call.
    #[inline]
    fn elements(&self, bytes: usize) -> usize {
        match self.element_bytes.is_power_of_two() {
            true => bytes >> self.element_bytes.trailing_zeros(),
            false => bytes / self.element_bytes,
        }
    }

    /// Combines the `into.bytes` bytes of whole elements of `left` and `right` into `into`.
    ///
    /// # Errors
    /// As [`LocalReduction::combine`].
    ///
    /// # Safety
    /// As [`Kernel::run`], and the result overlaps `left` only if it is the same.
    #[inline]
    pub(crate) unsafe fn run(
        &self,
        left: *const u8,
        right: *const u8,
        into: MemoryRange,
    ) -> Result<(), EngineError> {
        let elements = self.elements(into.bytes);
        debug_assert_eq!(
            elements * self.element_bytes,
            into.bytes,
            "cut between elements"
        );
        match self.combine {
            Combine::Kernel(kernel) => {
                // SAFETY: the caller's contract.
                unsafe { kernel.run(left, right, into.as_ptr(), elements) };
                Ok(())
            }
            // SAFETY: the caller's contract.
            Combine::Call(operation) if elements > 0 => unsafe {
                call(operation, left, right, into, elements)
            },
            Combine::Call(_) => Ok(()),
        }
    }
}

/// [`Reducer::run`] by an operation whose result takes the place of an operand.
///
/// # Safety
/// As [`Reducer::run`].
unsafe fn call(
    operation: &dyn LocalReduction,
    left: *const u8,
    right: *const u8,
    into: MemoryRange,
    elements: usize,
) -> Result<(), EngineError> {
    let result = into.as_ptr();
    // SAFETY: the caller's contract.
    unsafe {
        if left == result.cast_const() {
            return operation.combine(right, result, elements, Order::IntoFirst);
        }
        if right != result.cast_const() {
            std::ptr::copy(right, result, into.bytes);
        }
        operation.combine(left, result, elements, Order::FromFirst)
    }
}
