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

/// Bytes of the strips of [`Reducer::fold`]: those of three vectors stay in the nearest cache.
const STRIP_BYTES: usize = 8 << 10;

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

    /// Combines the operands of each of `chain` in turn, left, right and the result, all as long, of which each but the first
    /// may read what the one before has made: by a kernel in strips, so that this is in the nearest cache.
    ///
    /// # Errors
    /// As [`LocalReduction::combine`].
    ///
    /// # Safety
    /// As [`Reducer::run`], of each. A result that overlaps what an earlier one of them reads begins there or before, as it
    /// does in place.
    pub(crate) unsafe fn fold(&self, chain: &[[MemoryRange; 3]]) -> Result<(), EngineError> {
        let bytes = chain.first().map_or(0, |[.., into]| into.bytes);
        let strip = match self.is_kernel() && chain.len() > 1 {
            true => (STRIP_BYTES / self.element_bytes).max(1) * self.element_bytes,
            false => bytes.max(1),
        };
        for offset in (0..bytes).step_by(strip) {
            for [left, right, into] in chain {
                let into = into.slice(offset, strip.min(bytes - offset));
                let [left, right] =
                    [left, right].map(|operand| operand.as_ptr().wrapping_add(offset));
                // SAFETY: the caller's contract.
                unsafe { self.run(left, right, into)? };
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_reduce::{Number, Operator, kernel};

    /// A fold of vectors of `count` numbers, of which the last result may lie before its last operand in the same memory, and
    /// what it has to be.
    fn folded(count: usize, apart: usize) -> (Vec<u32>, Vec<u32>) {
        let number = |vector: usize, index: usize| (vector * 1_000_003 + index * index) as u32;
        let vector = |vector| {
            (0..count)
                .map(|index| number(vector, index))
                .collect::<Vec<_>>()
        };
        let (first, mut second, third) = (vector(0), vector(1), vector(2));
        let mut last = [vec![0; apart], vector(3)].concat();
        let range = |address: *const u32| MemoryRange::new(address.cast(), 4 * count);
        let [first, third] = [&first, &third].map(|vector| range(vector.as_ptr()));
        let (second, result) = (range(second.as_mut_ptr()), range(last.as_mut_ptr()));
        let own = range(last.as_mut_ptr().wrapping_add(apart));
        let chain = [
            [first, second, second],
            [second, third, second],
            [second, own, result],
        ];
        let reducer = Reducer {
            element_bytes: 4,
            commutes: true,
            combine: Combine::Kernel(kernel(Operator::Sum, Number::U32).unwrap()),
        };
        // SAFETY: all lie in vectors of this function, which nobody else has.
        unsafe { reducer.fold(&chain) }.unwrap();
        last.truncate(count);
        let sum = |index| {
            (0..4).fold(0, |sum: u32, vector| {
                sum.wrapping_add(number(vector, index))
            })
        };
        (last, (0..count).map(sum).collect())
    }

    #[test]
    fn strips_make_what_whole_vectors_do() {
        let strip = STRIP_BYTES / 4;
        for count in [0, 1, strip - 1, strip, strip + 1, 3 * strip + 5] {
            for apart in [0, 1, 7, strip, 2 * strip] {
                let (found, expected) = folded(count, apart);
                assert_eq!(found, expected, "{count} numbers, {apart} apart");
            }
        }
    }
}
