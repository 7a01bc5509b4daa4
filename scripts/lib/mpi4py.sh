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

# need_mpi4py MPI…: mpi4py for these host MPIs, and the suite.
need_mpi4py() {
    local prefix mpi
    prefix=$(mpi4py_prefix)
    need python3 python3-dev python3-venv
    if [[ ! -e $prefix/suite/complete ]]; then fetch_mpi4py "$prefix"; fi
    for mpi; do
        [[ ! -e $prefix/$mpi/complete ]] || continue
        rm -rf "${prefix:?}/$mpi"
        build_mpi4py "$(mpi4py_source)" "$prefix" "$mpi" "$(mpi4py_compiler "$mpi")"
        touch "$prefix/$mpi/complete"
    done
}

mpi4py_source() { echo "$(mpi4py_prefix)/mpi4py-$MPI4PY_VERSION.tar.gz"; }

mpi4py_compiler() {
    case $1 in
    openmpi | mpich) echo "mpicc.$1" ;;
    abi) echo "$(mpi_abi_prefix)/bin/mpicc_abi" ;;
    esac
}

# fetch_mpi4py PREFIX: its source, and the test suite in that.
fetch_mpi4py() {
    rm -rf "$1"
    mkdir -p "$1/suite"
    /usr/bin/python3 -m venv "$1/fetch" || die "python3 -m venv $1/fetch failed"
    "$1/fetch/bin/pip" download --quiet --disable-pip-version-check --no-deps \
        --no-binary mpi4py --dest "$1" "mpi4py==$MPI4PY_VERSION" ||
        die "pip could not download mpi4py"
    tar --extract --gzip --file "$(mpi4py_source)" --directory "$1/suite" --strip-components 2 \
        "mpi4py-$MPI4PY_VERSION/test"
    touch "$1/suite/complete"
}
