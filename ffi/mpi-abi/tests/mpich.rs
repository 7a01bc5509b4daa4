//! The wrappers on the MPICH of the system.

#![cfg(not(loom))]

mod common;

#[test]
fn mpich_is_understood() {
    common::exercise("libmpich.so.12", ferrorail_mpi_abi::AbiKind::Mpich, "MPICH");
}
