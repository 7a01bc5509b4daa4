//! Numbers, and the kernels of each.

use crate::apply::{Complex, Logical, Pair};
use crate::kernel::{Kernel, complex, float, integer, logical, pair};
use crate::operator::Operator;
use std::sync::LazyLock;

/// Defines the numbers, each by what kind it is, and what stands for it.
macro_rules! numbers {
    ($($(#[$doc:meta])* $number:ident: $kind:ident of $ty:ty;)*) => {
        /// How one element lies in memory, without gaps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Number {
            $($(#[$doc])* $number,)*
        }

        impl Number {
            /// Every number.
            pub const ALL: [Self; NUMBERS] = [$(Self::$number,)*];

            /// Its length.
            pub const fn bytes(self) -> usize {
                match self {
                    $(Self::$number => size_of::<$ty>(),)*
                }
            }
        }

        const NUMBERS: usize = [$(Number::$number,)*].len();

        /// The kernel without its code.
        fn functions(operator: Operator, number: Number) -> Option<Kernel> {
            match number {
                $(Number::$number => $kind::<$ty>(operator),)*
            }
        }
    };
}

numbers! {
    /// Signed integer of 8 bits.
    I8: integer of i8;
    /// Of 16 bits.
    I16: integer of i16;
    /// Of 32 bits.
    I32: integer of i32;
    /// Of 64 bits.
    I64: integer of i64;
    /// Unsigned integer of 8 bits; a C or C++ `bool`; a byte.
    U8: integer of u8;
    /// Of 16 bits.
    U16: integer of u16;
    /// Of 32 bits.
    U32: integer of u32;
    /// Of 64 bits.
    U64: integer of u64;
    /// IEEE single precision.
    F32: float of f32;
    /// IEEE double precision.
    F64: float of f64;
    /// Complex of two [`Number::F32`].
    C32: complex of Complex<f32>;
    /// Complex of two [`Number::F64`].
    C64: complex of Complex<f64>;
    /// Fortran `LOGICAL` of 8 bits. 0 is false; what is true depends on the compiler, so results
    /// are one of the operands, or 0.
    L8: logical of Logical<u8>;
    /// Of 16 bits.
    L16: logical of Logical<u16>;
    /// Of 32 bits.
    L32: logical of Logical<u32>;
    /// Of 64 bits.
    L64: logical of Logical<u64>;
    /// [`Number::F32`] and an index of type [`Number::I32`], packed (`MPI_FLOAT_INT`).
    F32I32: pair of Pair<f32, i32>;
    /// [`Number::F64`] and such an index, packed: 12 bytes.
    F64I32: pair of Pair<f64, i32>;
    /// [`Number::I64`] and such an index, packed: 12 bytes.
    I64I32: pair of Pair<i64, i32>;
    /// [`Number::I16`] and such an index, packed: 6 bytes.
    I16I32: pair of Pair<i16, i32>;
    /// Value and index of type [`Number::I32`].
    I32I32: pair of Pair<i32, i32>;
    /// Of type [`Number::I64`].
    I64I64: pair of Pair<i64, i64>;
    /// Of type [`Number::F32`].
    F32F32: pair of Pair<f32, f32>;
    /// Of type [`Number::F64`].
    F64F64: pair of Pair<f64, f64>;
}

/// All kernels by their code: every call of a reduction asks for one.
static KERNELS: LazyLock<[Option<Kernel>; Operator::ALL.len() * NUMBERS]> = LazyLock::new(|| {
    std::array::from_fn(|code| {
        let (operator, number) = (Operator::ALL[code / NUMBERS], Number::ALL[code % NUMBERS]);
        Some(functions(operator, number)?.with_code(code as u16))
    })
});

/// The kernel of `operator` on `number`; `None` if that means nothing.
#[inline]
pub fn kernel(operator: Operator, number: Number) -> Option<Kernel> {
    KERNELS[operator as usize * NUMBERS + number as usize]
}

impl Kernel {
    /// The kernel of that [`Kernel::code`].
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        *KERNELS.get(usize::from(code))?
    }
}
