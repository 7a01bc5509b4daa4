# shellcheck shell=bash
# Sourced after need.sh: Intel's MPI benchmarks, compiled for Open MPI or as the binary of a wheel.

IMB_VERSION=2021.9.1
IMPI_VERSION=2021.19.0

# need_imb MPI SUITE: sets IMB to the command of IMB-SUITE (MPI1, NBC) and IMB_LAUNCH to what launches it, up to `-n`.
# shellcheck disable=SC2034 # the sourcing script reads them
need_imb() {
    local wheel
    wheel=$(cache_dir)/impi-rt-$IMPI_VERSION
    case $1 in
    openmpi)
        need openmpi-bin libopenmpi-dev git
        build_imb "$2"
        IMB=("$(imb_folder "$2")/src_cpp/IMB-$2")
        IMB_LAUNCH=(mpirun.openmpi --oversubscribe)
        ;;
    mpich)
        # The binary is of the ABI that MPICH and Intel's MPI share, under another name in Debian.
        need mpich libmpich-dev
        need_impi "$wheel"
        mkdir -p "$wheel/mpich"
        ln -sf "$(cc -print-file-name=libmpich.so.12)" "$wheel/mpich/libmpi.so.12"
        IMB=(env "LD_LIBRARY_PATH=$wheel/mpich" "$wheel/bin/IMB-$2")
        IMB_LAUNCH=(mpiexec.mpich)
        ;;
    intel)
        need_impi "$wheel"
        IMB=(env "LD_LIBRARY_PATH=$wheel/lib:$wheel/lib/mpi/release" "$wheel/bin/IMB-$2")
        IMB_LAUNCH=(env "I_MPI_ROOT=$wheel" I_MPI_FABRICS=shm "$wheel/bin/mpiexec.hydra")
        ;;
    *) die "--mpi $1 is none of openmpi, mpich, intel" ;;
    esac
}

# need_impi PREFIX: the wheel of Intel's MPI, in a virtual environment of its own.
need_impi() { need_wheel "$1" "impi-rt==$IMPI_VERSION" --no-deps; }

# imb_folder SUITE: where its source is compiled: suites share files that are compiled differently for each.
imb_folder() { echo "$(cache_dir)/imb-$IMB_VERSION-$1"; }

# build_imb SUITE: for Open MPI, whose C++ bindings do not compile under the warnings that IMB makes errors.
build_imb() {
    local folder log
    folder=$(imb_folder "$1")
    [[ ! -x $folder/src_cpp/IMB-$1 ]] || return 0
    rm -rf "$folder"
    mkdir -p "${folder%/*}"
    if [[ ${IMB_SOURCE:-} ]]; then
        cp -r "$IMB_SOURCE" "$folder" || die "IMB_SOURCE=$IMB_SOURCE cannot be copied"
    else
        echo "fetching IMB $IMB_VERSION" >&2
        git clone --quiet --depth 1 --branch "IMB-v$IMB_VERSION" \
            https://github.com/intel/mpi-benchmarks "$folder" ||
            die "cannot fetch IMB: set IMB_SOURCE to a folder with its source"
    fi
    log=$(mktemp)
    make -C "$folder/src_cpp" "TARGET=$1" CC=mpicc.openmpi \
        CXX="mpicxx.openmpi -DOMPI_SKIP_MPICXX" >"$log" 2>&1 || die "IMB does not compile (log: $log)"
    rm -f "$log"
}
