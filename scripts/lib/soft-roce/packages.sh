# shellcheck shell=bash
# Debian packages: those that the host must have installed (need.sh does that), and those only
# downloaded and unpacked.

# shellcheck disable=SC2034 # cache.sh reads it
readonly HOST_PACKAGES=(qemu-system-x86 kmod cpio xz-utils iproute2 libibverbs1 librdmacm1
    ibverbs-providers ibverbs-utils)

# unpack_package NAME DIRECTORY: downloads a package and unpacks it there, without installing it.
unpack_package() {
    local name=$1 directory=$2 debs
    mkdir -p "$directory"
    # The sandbox user of apt cannot write into a private directory.
    (cd "$directory" && apt-get -qq -o APT::Sandbox::User=root download "$name") >&2 ||
        die "cannot download the package $name"
    debs=("$directory"/*.deb)
    dpkg-deb -x "${debs[0]}" "$directory"
    rm -f "${debs[@]}"
}

# The kernel image package of this Debian release; names carry the version and change often.
kernel_package() {
    if [[ -n ${SOFT_ROCE_KERNEL-} ]]; then
        echo "$SOFT_ROCE_KERNEL"
        return
    fi
    local name
    name=$(apt-cache depends linux-image-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | sed -n 1p)
    if [[ -z $name ]]; then
        name=$(apt-cache search --names-only '^linux-image-[0-9][^ ]*[0-9]-amd64(-unsigned)?$' |
            cut -d ' ' -f 1 | sort -V | tail -n 1)
    fi
    echo "$name"
}
