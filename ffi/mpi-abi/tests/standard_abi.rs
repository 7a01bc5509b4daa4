//! The wrappers on a library with the MPI-5 ABI, named in `FERRORAIL_TEST_MPI_ABI`.

#![cfg(not(loom))]

mod common;

#[test]
#[ignore = "needs FERRORAIL_TEST_MPI_ABI=/path/to/libmpi_abi.so.1"]
fn the_standard_abi_is_understood() {
    let file = std::env::var("FERRORAIL_TEST_MPI_ABI").expect("FERRORAIL_TEST_MPI_ABI is set");
    common::exercise(&file, ferrorail_mpi_abi::AbiKind::Standard, "MPI");
}
