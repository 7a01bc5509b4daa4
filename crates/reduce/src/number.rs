//! Names: operators, numbers, and the groups of types by which the standard allows one for another.

/// A predefined reduction operation (MPI 4.1, sections 6.9.2 and 6.9.4). `MPI_REPLACE` and
/// `MPI_NO_OP` are not for collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum Operator {
    Max,
    Min,
    Sum,
    Prod,
    Land,
    Band,
    Lor,
    Bor,
    Lxor,
    Bxor,
    Maxloc,
    Minloc,
}

impl Operator {
    /// Every operator.
    pub const ALL: [Self; 12] = [
        Self::Max,
        Self::Min,
        Self::Sum,
        Self::Prod,
        Self::Land,
        Self::Band,
        Self::Lor,
        Self::Bor,
        Self::Lxor,
        Self::Bxor,
        Self::Maxloc,
        Self::Minloc,
    ];
}

/// How one element lies in memory, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// Signed integer of 8 bits.
    I8,
    /// Of 16 bits.
    I16,
    /// Of 32 bits.
    I32,
    /// Of 64 bits.
    I64,
    /// Unsigned integer of 8 bits; a C or C++ `bool`; a byte.
    U8,
    /// Of 16 bits.
    U16,
    /// Of 32 bits.
    U32,
    /// Of 64 bits.
    U64,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Complex of two [`Number::F32`].
    C32,
    /// Complex of two [`Number::F64`].
    C64,
    /// Fortran `LOGICAL` of 8 bits. 0 is false; what is true depends on the compiler, so results
    /// are one of the operands, or 0.
    L8,
    /// Of 16 bits.
    L16,
    /// Of 32 bits.
    L32,
    /// Of 64 bits.
    L64,
    /// [`Number::F32`] and an index of type [`Number::I32`], packed (`MPI_FLOAT_INT`).
    F32I32,
    /// [`Number::F64`] and such an index, packed: 12 bytes.
    F64I32,
    /// [`Number::I64`] and such an index, packed: 12 bytes.
    I64I32,
    /// [`Number::I16`] and such an index, packed: 6 bytes.
    I16I32,
    /// Value and index of type [`Number::I32`].
    I32I32,
    /// Of type [`Number::I64`].
    I64I64,
    /// Of type [`Number::F32`].
    F32F32,
    /// Of type [`Number::F64`].
    F64F64,
}

impl Number {
    /// Every number.
    pub const ALL: [Self; 24] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::C32,
        Self::C64,
        Self::L8,
        Self::L16,
        Self::L32,
        Self::L64,
        Self::F32I32,
        Self::F64I32,
        Self::I64I32,
        Self::I16I32,
        Self::I32I32,
        Self::I64I64,
        Self::F32F32,
        Self::F64F64,
    ];

    /// Its length.
    pub const fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::L8 => 1,
            Self::I16 | Self::U16 | Self::L16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::L32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::L64 | Self::C32 => 8,
            Self::I16I32 => 6,
            Self::F32I32 | Self::I32I32 | Self::F32F32 => 8,
            Self::F64I32 | Self::I64I32 => 12,
            Self::C64 | Self::I64I64 | Self::F64F64 => 16,
        }
    }
}

/// The groups by which the standard allows operations on types (MPI 4.1, section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// `MPI_INT` and its like, of either signedness.
    CInteger,
    /// `MPI_INTEGER` and its like.
    FortranInteger,
    /// `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    MultiLanguage,
    /// Floating point.
    Floating,
    /// `MPI_LOGICAL`, `MPI_C_BOOL` and their like.
    Logical,
    /// Complex.
    Complex,
    /// `MPI_BYTE`.
    Byte,
    /// Value and index (section 6.9.4).
    Pair,
}

impl Group {
    /// Whether the standard allows `operator` on it.
    pub const fn permits(self, operator: Operator) -> bool {
        use Operator as O;
        match operator {
            O::Max | O::Min => matches!(
                self,
                Self::CInteger | Self::FortranInteger | Self::MultiLanguage | Self::Floating
            ),
            O::Sum | O::Prod => matches!(
                self,
                Self::CInteger
                    | Self::FortranInteger
                    | Self::MultiLanguage
                    | Self::Floating
                    | Self::Complex
            ),
            O::Land | O::Lor | O::Lxor => matches!(self, Self::CInteger | Self::Logical),
            O::Band | O::Bor | O::Bxor => matches!(
                self,
                Self::CInteger | Self::FortranInteger | Self::MultiLanguage | Self::Byte
            ),
            O::Maxloc | O::Minloc => matches!(self, Self::Pair),
        }
    }
}
