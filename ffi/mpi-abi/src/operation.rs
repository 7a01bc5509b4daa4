//! Predefined reduction operations: their handles in each interface.

use crate::handle::predefined_handles;

predefined_handles! {
    /// The predefined operations of MPI 4.1 (sections 6.9.2 and 6.9.4), and those for accumulation in windows alone.
    PREDEFINED_OPERATIONS:
    "MPI_MAX", "ompi_mpi_op_max", 0x5800_0001, 0x23;
    "MPI_MIN", "ompi_mpi_op_min", 0x5800_0002, 0x22;
    "MPI_SUM", "ompi_mpi_op_sum", 0x5800_0003, 0x21;
    "MPI_PROD", "ompi_mpi_op_prod", 0x5800_0004, 0x24;
    "MPI_LAND", "ompi_mpi_op_land", 0x5800_0005, 0x30;
    "MPI_BAND", "ompi_mpi_op_band", 0x5800_0006, 0x28;
    "MPI_LOR", "ompi_mpi_op_lor", 0x5800_0007, 0x31;
    "MPI_BOR", "ompi_mpi_op_bor", 0x5800_0008, 0x29;
    "MPI_LXOR", "ompi_mpi_op_lxor", 0x5800_0009, 0x32;
    "MPI_BXOR", "ompi_mpi_op_bxor", 0x5800_000a, 0x2a;
    "MPI_MINLOC", "ompi_mpi_op_minloc", 0x5800_000b, 0x38;
    "MPI_MAXLOC", "ompi_mpi_op_maxloc", 0x5800_000c, 0x39;
    "MPI_REPLACE", "ompi_mpi_op_replace", 0x5800_000d, 0x3c;
    "MPI_NO_OP", "ompi_mpi_op_no_op", 0x5800_000e, 0x3d;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_unique() {
        for (i, a) in PREDEFINED_OPERATIONS.iter().enumerate() {
            for b in &PREDEFINED_OPERATIONS[..i] {
                assert_ne!(a.name, b.name);
                assert_ne!(a.open_mpi, b.open_mpi);
                assert_ne!(a.mpich, b.mpich);
                assert_ne!(a.standard, b.standard);
            }
        }
    }
}
