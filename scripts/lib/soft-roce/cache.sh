# shellcheck shell=bash
# The guest's kernel and initramfs, made once and kept in the user's cache.

# What the guest needs beyond the kernel's built-in parts; dependencies are added by depmod.
# The crc32 modules come first: without them rdma_rxe loads but refuses to add a device.
readonly GUEST_MODULES=(crc32_generic crc32c_generic virtio_pci virtio_console 9pnet_virtio 9p
    overlay virtio_net veth sch_netem ib_uverbs rdma_ucm rdma_rxe)

# The ssh server and client by which guests reach each other: small, and without set-up.
readonly SSH_PACKAGES=(dropbear-bin libtomcrypt1 libtommath1)

cache_directory() { echo "$(cache_dir)/soft-roce"; }

# Sets KERNEL, INITRD and SSH_TREE, making them first where needed. Safe to run many times at once.
prepare_guest() {
    local cache lock
    cache=$(cache_directory)
    mkdir -p "$cache"
    need "${HOST_PACKAGES[@]}"
    exec {lock}>"$cache/lock"
    flock "$lock"
    if [[ ! -e $cache/kernel/wanted || $(<"$cache/kernel/wanted") != "${GUEST_MODULES[*]}" ]]; then
        prepare_kernel "$cache"
    fi
    # shellcheck disable=SC2034 # guest.sh reads it
    KERNEL=$cache/kernel/vmlinux
    local version
    # The name also changes with the recipe, so that an edit of init takes effect.
    version=$(cat "$LIBRARY/init" "$LIBRARY/cache.sh" "$cache/kernel/release" | sha256sum)
    INITRD=$cache/initrd-${version:0:16}
    if [[ ! -e $INITRD ]]; then prepare_initrd "$cache" "$INITRD"; fi
    SSH_TREE=$cache/ssh
    if [[ ! -d $SSH_TREE ]]; then prepare_ssh "$SSH_TREE"; fi
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
    extract_kernel "$part"/linux/boot/vmlinuz-* "$part/vmlinux"
    local modules=("$part"/linux/lib/modules/* "$part"/linux/usr/lib/modules/*)
    local directory
    for directory in "${modules[@]}"; do
        if [[ ! -d $directory ]]; then continue; fi
        mkdir -p "$part/lib/modules"
        mv "$directory" "$part/lib/modules/"
        basename "$directory" >"$part/release"
    done
    [[ -s $part/release ]] || die "the package $package contains no modules"
    PATH=$PATH:/usr/sbin:/sbin depmod -b "$part" "$(<"$part/release")"
    keep_guest_modules "$part/lib/modules/$(<"$part/release")"
    local busybox
    busybox=$(find "$part/busybox" -type f -name busybox -perm -u+x | sed -n 1p)
    mv "$busybox" "$part/busybox.static"
    rm -rf "$part/linux" "$part/busybox"
    echo "${GUEST_MODULES[*]}" >"$part/wanted"
    mv "$part" "$cache/kernel"
}

# Downloads the ssh server and its libraries into DIRECTORY.
prepare_ssh() {
    local directory=$1 package
    rm -rf "$directory.part"
    note "fetching ${SSH_PACKAGES[*]} into $directory"
    for package in "${SSH_PACKAGES[@]}"; do unpack_package "$package" "$directory.part"; done
    # Not in a directory whose name depends on the processor.
    mkdir "$directory.part/lib"
    find "$directory.part/usr/lib" -name 'libtom*.so.*' -exec cp -P -t "$directory.part/lib" {} +
    mv "$directory.part" "$directory"
}

# extract_kernel IMAGE FILE: the kernel out of its compressed image, which saves the guest two
# emulated seconds of decompressing. Where that cannot be done, the image itself boots as well.
extract_kernel() {
    local image=$1 file=$2 offset
    offset=$(LC_ALL=C grep -aboP -m 1 '\xfd7zXZ\x00' "$image" | sed -n 1p | cut -d : -f 1)
    if [[ -z $offset ]] ||
        ! xz -dcq --single-stream < <(tail -c "+$((offset + 1))" "$image") >"$file" ||
        [[ $(head -c 4 "$file") != $'\x7fELF' ]]; then
        cp "$image" "$file"
    fi
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

# Removes the thousands of modules that no guest loads, and notes the order of the rest.
keep_guest_modules() {
    local directory=$1
    module_order "$directory/modules.dep" >"$directory/order"
    grep -q '/rdma_rxe\.ko' "$directory/order" || die "the kernel package has no rdma_rxe module"
    (
        cd "$directory" || exit 1
        mkdir keep
        xargs cp --parents -t keep <order
        rm -rf kernel
        mv keep/kernel .
        rmdir keep
    )
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
    done <"$source/order"
    (cd "$tree" && find . | cpio -o -H newc --quiet) >"$file.part"
    mv "$file.part" "$file"
    rm -rf "$tree"
}
