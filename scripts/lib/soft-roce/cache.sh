# shellcheck shell=bash
# The guest's kernel and initramfs, made once and kept in the user's cache.

# What the guest needs beyond the kernel's built-in parts; dependencies are added by depmod.
# The crc32 modules come first: without them rdma_rxe loads but refuses to add a device.
readonly GUEST_MODULES=(crc32_generic crc32c_generic virtio_pci virtio_console 9pnet_virtio 9p
    overlay virtio_net veth sch_netem ib_uverbs rdma_ucm rdma_rxe)

cache_directory() {
    local base=${XDG_CACHE_HOME:-${HOME:?neither XDG_CACHE_HOME nor HOME is set}/.cache}
    echo "$base/ferrorail/soft-roce"
}

# Sets KERNEL and INITRD, making them first where needed. Safe to run many times at once.
prepare_guest() {
    local cache lock
    cache=$(cache_directory)
    mkdir -p "$cache"
    ensure_packages
    exec {lock}>"$cache/lock"
    flock "$lock"
    if [[ ! -e $cache/kernel/vmlinuz ]]; then prepare_kernel "$cache"; fi
    # shellcheck disable=SC2034 # guest.sh reads it
    KERNEL=$cache/kernel/vmlinuz
    local version
    # The name also changes with the recipe, so that an edit of init takes effect.
    version=$(cat "$LIBRARY/init" "$LIBRARY/cache.sh" "$cache/kernel/release" | sha256sum)
    INITRD=$cache/initrd-${version:0:16}
    if [[ ! -e $INITRD ]]; then prepare_initrd "$cache" "$INITRD"; fi
    exec {lock}>&-
}

# Downloads the kernel and a static busybox into CACHE/kernel.
prepare_kernel() {
    local cache=$1 package part=$1/kernel.part
    rm -rf "$cache/kernel" "$part"
    package=$(kernel_package)
    if [[ -z $package ]]; then
        # A fresh container has no package lists.
        as_root apt-get -qq update >&2 </dev/null || die "please run as root: apt-get update"
        package=$(kernel_package)
    fi
    [[ -n $package ]] || die "apt knows no linux-image-*-amd64 package (Debian is needed)"
    note "fetching $package into $cache"
    unpack_package "$package" "$part/linux"
    unpack_package busybox-static "$part/busybox"
    mv "$part"/linux/boot/vmlinuz-* "$part/vmlinuz"
    local modules=("$part"/linux/lib/modules/* "$part"/linux/usr/lib/modules/*)
    local directory
    for directory in "${modules[@]}"; do
        if [[ ! -d $directory ]]; then continue; fi
        mkdir -p "$part/lib/modules"
        mv "$directory" "$part/lib/modules/"
        basename "$directory" >"$part/release"
    done
    [[ -s $part/release ]] || die "the package $package contains no modules"
    local busybox
    busybox=$(find "$part/busybox" -type f -name busybox -perm -u+x | head -n 1)
    mv "$busybox" "$part/busybox.static"
    PATH=$PATH:/usr/sbin:/sbin depmod -b "$part" "$(<"$part/release")"
    rm -rf "$part/linux" "$part/busybox"
    mv "$part" "$cache/kernel"
}

# The paths below lib/modules/RELEASE of GUEST_MODULES and all they depend on, in loading order.
module_order() {
    local table=$1
    awk -v wanted="${GUEST_MODULES[*]}" '
        { path = $1; sub(/:$/, "", path); name = path; sub(/.*\//, "", name); sub(/\.ko.*/, "", name)
          gsub(/-/, "_", name); file[name] = path
          # depmod lists the dependencies of a module with the deepest one last.
          needs[name] = ""; for (i = NF; i >= 2; i--) needs[name] = needs[name] " " $i }
        END { count = split(wanted, names, " ")
              for (i = 1; i <= count; i++) {
                  name = names[i]; if (!(name in file)) continue
                  total = split(needs[name] " " file[name], paths, " ")
                  for (j = 1; j <= total; j++) if (!seen[paths[j]]++) print paths[j] } }' "$table"
}

# Packs busybox, the modules and init into the initramfs FILE.
prepare_initrd() {
    local cache=$1 file=$2 tree=$1/initrd.tree source release path name
    release=$(<"$cache/kernel/release")
    source=$cache/kernel/lib/modules/$release
    rm -rf "$tree"
    mkdir -p "$tree/bin" "$tree/modules" "$tree/dev"
    cp "$cache/kernel/busybox.static" "$tree/bin/busybox"
    cp "$LIBRARY/init" "$tree/init"
    chmod 755 "$tree/bin/busybox" "$tree/init"
    while read -r path; do
        name=${path##*/}
        case $name in
        *.xz) xz -dc "$source/$path" >"$tree/modules/${name%.xz}" ;;
        *.zst) zstd -qdc "$source/$path" >"$tree/modules/${name%.zst}" ;;
        *) cp "$source/$path" "$tree/modules/$name" ;;
        esac
        name=${name%.xz}
        echo "${name%.zst}" >>"$tree/modules/order"
    done < <(module_order "$source/modules.dep")
    grep -qx rdma_rxe.ko "$tree/modules/order" || die "the kernel package has no rdma_rxe module"
    (cd "$tree" && find . | cpio -o -H newc --quiet) >"$file.part"
    mv "$file.part" "$file"
    rm -rf "$tree"
}
