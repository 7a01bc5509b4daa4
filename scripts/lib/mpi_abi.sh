# shellcheck shell=bash
# Sourced after need.sh: an MPI library with the standard ABI of MPI 5, which Debian 12 lacks.

MPI_ABI_VERSION=5.0.2

# Where it is, or will be. `ferrorail-tests` looks in the same place.
mpi_abi_prefix() { echo "$(cache_dir)/mpi-abi-$MPI_ABI_VERSION"; }

# Installs the `mpich` wheel, which ships libmpi_abi.so.1, into a virtual environment of its own.
need_mpi_abi() {
    local prefix
    prefix=$(mpi_abi_prefix)
    [[ -x $prefix/bin/mpicc_abi && -e $prefix/lib/libmpi_abi.so.1 ]] && return
    install_wheel "$prefix" "mpich==$MPI_ABI_VERSION"
}
