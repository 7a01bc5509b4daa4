//! Operators over vectors.

use crate::apply::*;
use crate::operator::Operator;

type Function = unsafe fn(left: *const u8, right: *const u8, result: *mut u8, elements: usize);

/// One operator on vectors of one number.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// A word, as a short number beside padding is stored in parts and loaded as a whole, for which processors wait.
    code: usize,
    function: Function,
}

impl Kernel {
    /// Combines each element of `left` with that of `right`; `result` takes what comes of it.
    ///
    /// # Safety
    /// `left` and `right` are readable and `result` writable for `elements` elements. The result begins where an operand
    /// that it overlaps begins, or before; nobody else writes the operands or touches the result meanwhile. No
    /// alignment is needed.
    #[inline]
    pub unsafe fn run(&self, left: *const u8, right: *const u8, result: *mut u8, elements: usize) {
        // SAFETY: the caller's contract.
        unsafe { (self.function)(left, right, result, elements) }
    }

    /// Names the operator and the number to another process of the same version.
    #[must_use]
    pub const fn code(&self) -> u16 {
        self.code as u16
    }

    pub(crate) const fn with_code(self, code: u16) -> Self {
        let code = code as usize;
        Self { code, ..self }
    }

    fn new<O: Apply<T>, T: Copy>() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            let function = with_avx2::<O, T>;
            return Self { code: 0, function };
        }
        let function = over_vectors::<O, T>;
        Self { code: 0, function }
    }
}

/// Elements that are read before any of them is written, so that vector code comes of them although the result may
/// overlap the operands. More would not stay in registers.
const BATCH: usize = 16;

/// # Safety
/// As [`Kernel::run`].
#[inline(always)]
unsafe fn over_vectors<O: Apply<T>, T: Copy>(
    left: *const u8,
    right: *const u8,
    result: *mut u8,
    elements: usize,
) {
    // SAFETY: the caller's contract, of elements before the last whole batch and after it.
    unsafe {
        let batches = elements / BATCH;
        for batch in 0..batches {
            let at = batch * size_of::<[T; BATCH]>();
            let left: [T; BATCH] = left.add(at).cast::<[T; BATCH]>().read_unaligned();
            let right: [T; BATCH] = right.add(at).cast::<[T; BATCH]>().read_unaligned();
            let values: [T; BATCH] = std::array::from_fn(|i| O::apply(left[i], right[i]));
            result.add(at).cast::<[T; BATCH]>().write_unaligned(values);
        }
        for element in batches * BATCH..elements {
            let at = element * size_of::<T>();
            let value = O::apply(
                left.add(at).cast::<T>().read_unaligned(),
                right.add(at).cast::<T>().read_unaligned(),
            );
            result.add(at).cast::<T>().write_unaligned(value);
        }
    }
}

/// [`over_vectors`] compiled for wider registers.
///
/// # Safety
/// As [`Kernel::run`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2<O: Apply<T>, T: Copy>(
    left: *const u8,
    right: *const u8,
    result: *mut u8,
    elements: usize,
) {
    // SAFETY: the caller's contract.
    unsafe { over_vectors::<O, T>(left, right, result, elements) }
}

/// Defines which operators a kind of number has.
macro_rules! kinds {
    ($($kind:ident: $($operator:ident)*;)*) => {$(
        pub(crate) fn $kind<T: Copy>(operator: Operator) -> Option<Kernel>
        where
            $($operator: Apply<T>,)*
        {
            match operator {
                $(Operator::$operator => Some(Kernel::new::<$operator, T>()),)*
                _ => None,
            }
        }
    )*};
}

kinds! {
    integer: Max Min Sum Prod Land Band Lor Bor Lxor Bxor;
    float: Max Min Sum Prod;
    complex: Sum Prod;
    logical: Land Lor Lxor;
    pair: Maxloc Minloc;
}
