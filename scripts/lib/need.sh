# shellcheck shell=bash
# Sourced by the other scripts: installs what is missing, and names the places they share.

# Packages without which the workspace does not build.
# shellcheck disable=SC2034 # the sourcing scripts read it
BUILD_PACKAGES=(build-essential cmake clang libclang-dev pkg-config libibverbs-dev librdmacm-dev
    libhwloc-dev libnl-3-dev libnl-route-3-dev)

# built_dir ROOT PROFILE: where that build puts libferrorail.so and ferrorail.
built_dir() { echo "${CARGO_TARGET_DIR:-$1/target}/$2"; }

# Downloads that outlive a clone are kept here.
cache_dir() {
    echo "${XDG_CACHE_HOME:-${HOME:?neither XDG_CACHE_HOME nor HOME is set}/.cache}/ferrorail"
}

# die MESSAGE: the one line a user needs, then the end. 1, unless the script has a code of its own.
die() {
    echo "${0##*/}: $*" >&2
    exit "${DIE_STATUS:-1}"
}

# as_root COMMAND…: with sudo where it is needed; fails where there is none.
as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        command -v sudo >/dev/null && sudo "$@"
    fi
}

# need PACKAGE…: installs those Debian packages that are missing. Says so on stderr: stdout may be
# a program's.
need() {
    local missing=() package log
    command -v dpkg-query >/dev/null || die "no dpkg here; install the equivalents of: $*"
    for package; do
        [[ $(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    echo "installing ${missing[*]}" >&2
    log=$(mktemp)
    if ! { as_root apt-get update && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        die "please install, as root: apt-get install ${missing[*]} (log: $log)"
    fi
    rm -f "$log"
}

need_cargo() {
    command -v cargo >/dev/null || PATH=$PATH:$HOME/.cargo/bin
    command -v cargo >/dev/null || die "no cargo here: install Rust (apt-get install rustup, or rustup.rs)"
}

# install_wheel PREFIX NAME==VERSION [OPTION…]: a package of PyPI, in a virtual environment of its own; options
# are pip's.
install_wheel() {
    local prefix=$1 package=$2
    shift 2
    need python3 python3-venv
    echo "installing the ${package/==/ } wheel into $prefix" >&2
    rm -rf "$prefix"
    mkdir -p "${prefix%/*}"
    /usr/bin/python3 -m venv "$prefix" || die "python3 -m venv $prefix failed"
    "$prefix/bin/pip" install --quiet --disable-pip-version-check "$@" "$package" ||
        die "pip could not install $package"
}

# need_wheel PREFIX NAME==VERSION [OPTION…]: the same, unless it is there.
need_wheel() {
    [[ ! -e $1/complete ]] || return 0
    install_wheel "$@"
    touch "$1/complete"
}

# Open MPI refuses to start as root unless told twice; containers and CI machines are root.
allow_root() { export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; }
