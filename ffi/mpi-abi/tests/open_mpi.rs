//! The wrappers on the Open MPI of the system.

#![cfg(not(loom))]

mod common;

#[test]
fn open_mpi_is_understood() {
    common::exercise(
        "libmpi.so.40",
        ferrorail_mpi_abi::AbiKind::OpenMpi,
        "Open MPI",
    );
}
