//! How a datatype was made, in numbers that each interface chooses for itself.

use crate::AbiKind;
use libc::c_int;

/// `MPI_COMBINER_*` (MPI 4.1, section 5.1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combiner {
    /// Predefined.
    Named,
    /// `MPI_Type_dup`.
    Dup,
    /// `MPI_Type_contiguous`.
    Contiguous,
    /// `MPI_Type_vector`.
    Vector,
    /// `MPI_Type_create_hvector`.
    Hvector,
    /// `MPI_Type_indexed`.
    Indexed,
    /// `MPI_Type_create_hindexed`.
    Hindexed,
    /// `MPI_Type_create_indexed_block`.
    IndexedBlock,
    /// `MPI_Type_create_hindexed_block`.
    HindexedBlock,
    /// `MPI_Type_create_struct`.
    Struct,
    /// `MPI_Type_create_subarray`.
    Subarray,
    /// `MPI_Type_create_resized`.
    Resized,
    /// `MPI_Type_create_f90_real` and the like: predefined without a name.
    F90,
    /// Another one: distributed arrays, and those that MPI removed.
    Other,
}

impl Combiner {
    /// What `value` means in `kind`.
    pub fn of(kind: AbiKind, value: c_int) -> Self {
        use Combiner::*;
        // Open MPI and MPICH keep the places of three that MPI 3.0 removed.
        const OLD: [Combiner; 19] = [
            Named,
            Dup,
            Contiguous,
            Vector,
            Other,
            Hvector,
            Indexed,
            Other,
            Hindexed,
            IndexedBlock,
            Other,
            Struct,
            Subarray,
            Other,
            F90,
            F90,
            F90,
            Resized,
            HindexedBlock,
        ];
        const STANDARD: [Combiner; 17] = [
            Named,
            Dup,
            Contiguous,
            Vector,
            Hvector,
            Indexed,
            Hindexed,
            IndexedBlock,
            HindexedBlock,
            Struct,
            Subarray,
            Other,
            F90,
            F90,
            F90,
            Resized,
            Other,
        ];
        let (first, table): (c_int, &[Combiner]) = match kind {
            AbiKind::OpenMpi => (0, &OLD),
            AbiKind::Mpich => (1, &OLD),
            AbiKind::Standard => (101, &STANDARD),
        };
        let index = usize::try_from(value.wrapping_sub(first)).ok();
        index
            .and_then(|index| table.get(index))
            .copied()
            .unwrap_or(Other)
    }

    /// Whether the type is predefined, and so never freed.
    pub fn is_predefined(self) -> bool {
        matches!(self, Self::Named | Self::F90)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_each_mpi_h() {
        for (value, combiner) in [
            (0, Combiner::Named),
            (11, Combiner::Struct),
            (18, Combiner::HindexedBlock),
        ] {
            assert_eq!(Combiner::of(AbiKind::OpenMpi, value), combiner);
            assert_eq!(Combiner::of(AbiKind::Mpich, value + 1), combiner);
        }
        for (value, combiner) in [
            (101, Combiner::Named),
            (110, Combiner::Struct),
            (111, Combiner::Subarray),
            (116, Combiner::Resized),
            (117, Combiner::Other),
            (0, Combiner::Other),
            (c_int::MIN, Combiner::Other),
        ] {
            assert_eq!(Combiner::of(AbiKind::Standard, value), combiner);
        }
    }
}
