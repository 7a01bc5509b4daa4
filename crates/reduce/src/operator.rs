//! Names: operators, and the groups of types for which the standard allows them.

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
