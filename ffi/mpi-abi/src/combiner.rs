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
    /// `MPI_Type_create_darray`.
    Darray,
    /// `MPI_Type_create_resized`.
    Resized,
    /// `MPI_Type_create_f90_real` and the like: predefined without a name.
    F90,
    /// Another one, as those that MPI removed.
    Other,
}

/// Each, with its numbers in Open MPI (MPICH's are one more) and in MPI 5.0. The gaps in the former were those
/// of combiners that MPI 3.0 removed.
const NUMBERS: [(Combiner, c_int, c_int); 16] = [
    (Combiner::Named, 0, 101),
    (Combiner::Dup, 1, 102),
    (Combiner::Contiguous, 2, 103),
    (Combiner::Vector, 3, 104),
    (Combiner::Hvector, 5, 105),
    (Combiner::Indexed, 6, 106),
    (Combiner::Hindexed, 8, 107),
    (Combiner::IndexedBlock, 9, 108),
    (Combiner::HindexedBlock, 18, 109),
    (Combiner::Struct, 11, 110),
    (Combiner::Subarray, 12, 111),
    (Combiner::Darray, 13, 112),
    (Combiner::F90, 14, 113),
    (Combiner::F90, 15, 114),
    (Combiner::F90, 16, 115),
    (Combiner::Resized, 17, 116),
];

impl Combiner {
    /// What `value` means in `kind`.
    pub fn of(kind: AbiKind, value: c_int) -> Self {
        let mut numbers = NUMBERS.iter();
        let found = numbers.find(|(_, open_mpi, standard)| match kind {
            AbiKind::OpenMpi => value == *open_mpi,
            AbiKind::Mpich => value == *open_mpi + 1,
            AbiKind::Standard => value == *standard,
        });
        found.map_or(Self::Other, |(combiner, ..)| *combiner)
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
