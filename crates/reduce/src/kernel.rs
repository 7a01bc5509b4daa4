//! Operators over vectors.

use crate::apply::*;
use crate::number::{Number, Operator};
use std::sync::LazyLock;

type Function = unsafe fn(from: *const u8, into: *mut u8, elements: usize);

/// One operator on vectors of one number.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    code: u16,
    /// `into = from ∘ into`.
    from_first: Function,
    /// `into = into ∘ from`.
    into_first: Function,
}

impl Kernel {
    /// Combines each element of `from` with that of `into`, which takes the result. The left
    /// operand is that of `from` if `from_first`.
    ///
    /// # Safety
    /// `from` is readable and `into` writable for `elements` elements, they do not overlap, and
    /// nobody writes the one or touches the other meanwhile. No alignment is needed.
    #[inline]
    pub unsafe fn run(&self, from: *const u8, into: *mut u8, elements: usize, from_first: bool) {
        let function = if from_first {
            self.from_first
        } else {
            self.into_first
        };
        // SAFETY: the caller's contract.
        unsafe { function(from, into, elements) }
    }

    /// Names the operator and the number to another process of the same version.
    #[must_use]
    pub const fn code(&self) -> u16 {
        self.code
    }

    /// The kernel of that [`Kernel::code`].
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        *KERNELS.get(usize::from(code))?
    }

    fn new<O: Apply<T>, T: Copy>() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            return Self {
                code: 0,
                from_first: with_avx2::<O, T, true>,
                into_first: with_avx2::<O, T, false>,
            };
        }
        Self {
            code: 0,
            from_first: over_vectors::<O, T, true>,
            into_first: over_vectors::<O, T, false>,
        }
    }
}

/// # Safety
/// As [`Kernel::run`].
#[inline(always)]
unsafe fn over_vectors<O: Apply<T>, T: Copy, const FROM_FIRST: bool>(
    from: *const u8,
    into: *mut u8,
    elements: usize,
) {
    let (from, into) = (from.cast::<T>(), into.cast::<T>());
    for i in 0..elements {
        // SAFETY: `i` is below the number of elements on either side.
        unsafe {
            let theirs = from.add(i).read_unaligned();
            let ours = into.add(i).read_unaligned();
            let value = if FROM_FIRST {
                O::apply(theirs, ours)
            } else {
                O::apply(ours, theirs)
            };
            into.add(i).write_unaligned(value);
        }
    }
}

/// [`over_vectors`] compiled for wider registers.
///
/// # Safety
/// As [`Kernel::run`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2<O: Apply<T>, T: Copy, const FROM_FIRST: bool>(
    from: *const u8,
    into: *mut u8,
    elements: usize,
) {
    // SAFETY: the caller's contract.
    unsafe { over_vectors::<O, T, FROM_FIRST>(from, into, elements) }
}

const NUMBERS: usize = Number::ALL.len();

/// All kernels by their code: every call of a reduction asks for one.
static KERNELS: LazyLock<[Option<Kernel>; Operator::ALL.len() * NUMBERS]> = LazyLock::new(|| {
    std::array::from_fn(|code| {
        Some(Kernel {
            code: code as u16,
            ..functions(Operator::ALL[code / NUMBERS], Number::ALL[code % NUMBERS])?
        })
    })
});

/// The kernel of `operator` on `number`; `None` if that means nothing.
#[inline]
pub fn kernel(operator: Operator, number: Number) -> Option<Kernel> {
    KERNELS[operator as usize * NUMBERS + number as usize]
}

/// The kernel without its code.
fn functions(operator: Operator, number: Number) -> Option<Kernel> {
    use Number as N;
    match number {
        N::I8 => integer::<i8>(operator),
        N::I16 => integer::<i16>(operator),
        N::I32 => integer::<i32>(operator),
        N::I64 => integer::<i64>(operator),
        N::U8 => integer::<u8>(operator),
        N::U16 => integer::<u16>(operator),
        N::U32 => integer::<u32>(operator),
        N::U64 => integer::<u64>(operator),
        N::F32 => float::<f32>(operator),
        N::F64 => float::<f64>(operator),
        N::C32 => complex::<Complex<f32>>(operator),
        N::C64 => complex::<Complex<f64>>(operator),
        N::L8 => logical::<Logical<u8>>(operator),
        N::L16 => logical::<Logical<u16>>(operator),
        N::L32 => logical::<Logical<u32>>(operator),
        N::L64 => logical::<Logical<u64>>(operator),
        N::F32I32 => pair::<Pair<f32, i32>>(operator),
        N::F64I32 => pair::<Pair<f64, i32>>(operator),
        N::I64I32 => pair::<Pair<i64, i32>>(operator),
        N::I16I32 => pair::<Pair<i16, i32>>(operator),
        N::I32I32 => pair::<Pair<i32, i32>>(operator),
        N::I64I64 => pair::<Pair<i64, i64>>(operator),
        N::F32F32 => pair::<Pair<f32, f32>>(operator),
        N::F64F64 => pair::<Pair<f64, f64>>(operator),
    }
}

/// Defines which operators a kind of number has.
macro_rules! kinds {
    ($($kind:ident: $($operator:ident)*;)*) => {$(
        fn $kind<T: Copy>(operator: Operator) -> Option<Kernel>
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
