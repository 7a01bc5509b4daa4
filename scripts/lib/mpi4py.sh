# shellcheck shell=bash
# Sourced after mpi_abi.sh: mpi4py, built for each host MPI, and the test suite of its source.

MPI4PY_VERSION=4.1.2

# Where they are, or will be: PREFIX/MPI/bin/python and PREFIX/suite. `ferrorail-tests` looks there.
mpi4py_prefix() { echo "$(cache_dir)/mpi4py-$MPI4PY_VERSION"; }

# build_mpi4py SOURCE PREFIX MPI COMPILER: into a virtual environment of its own. Optimising would
# take a minute and make no difference.
build_mpi4py() {
    echo "building mpi4py $MPI4PY_VERSION for $3"
    /usr/bin/python3 -m venv "$2/$3" || die "python3 -m venv $2/$3 failed"
    MPI4PY_BUILD_MPICC=$4 CFLAGS=-O0 "$2/$3/bin/pip" install --quiet --disable-pip-version-check \
        --no-cache-dir "$1" numpy || die "pip could not build mpi4py for $3"
}

need_mpi4py() {
    local prefix source
    prefix=$(mpi4py_prefix)
    [[ -e $prefix/complete ]] && return
    need python3 python3-dev python3-venv
    rm -rf "$prefix"
    mkdir -p "$prefix/suite"
    /usr/bin/python3 -m venv "$prefix/openmpi" || die "python3 -m venv $prefix/openmpi failed"
    "$prefix/openmpi/bin/pip" download --quiet --disable-pip-version-check --no-deps \
        --no-binary mpi4py --dest "$prefix" "mpi4py==$MPI4PY_VERSION" ||
        die "pip could not download mpi4py"
    source=$prefix/mpi4py-$MPI4PY_VERSION.tar.gz
    tar --extract --gzip --file "$source" --directory "$prefix/suite" --strip-components 2 \
        "mpi4py-$MPI4PY_VERSION/test"
    build_mpi4py "$source" "$prefix" openmpi mpicc.openmpi
    build_mpi4py "$source" "$prefix" mpich mpicc.mpich
    build_mpi4py "$source" "$prefix" abi "$(mpi_abi_prefix)/bin/mpicc_abi"
    touch "$prefix/complete"
}
