# shellcheck shell=bash
# The command line of a guest's emulator, and how several guests are joined.
#
# The guests form a star: on every rail, and on the control link, guest 0 listens on one unix socket
# for each other guest. With more than two guests its emulator joins the sockets of a rail in a hub.

# Rails that fit, with the other devices, on a guest's PCI bus.
# shellcheck disable=SC2034 # soft-roce reads it
readonly LINKED_RAILS_MAX=16

# A comma separates the parts of a QEMU option; doubled, it stands for itself.
qemu_value() { echo "${1//,/,,}"; }

# What is emulated decides how long jobs take: a kernel that finds `rep movsb` to be fast (ERMS) copies by it, which an
# emulator does byte by byte, so the processor is one from before; and what was translated of a library serves the
# processes that map it to the same place, so addresses are not random. Jobs take a third less.
#
# guest_command NODE: sets QEMU to the command line of the guest, to be run in its job directory.
guest_command() {
    local node=$1 share=security_model=none,multidevs=remap
    # shellcheck disable=SC2054 # the commas belong to the options
    QEMU=(qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot
        -machine pc,usb=off -accel tcg,thread=multi -cpu Nehalem
        -smp "$GUEST_CPUS" -m "${GUEST_MEMORY}M"
        -kernel "$KERNEL" -initrd "$INITRD"
        -append "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off norandmaps no_timer_check nowatchdog tsc=reliable cryptomgr.notests"
        -serial "file:console"
        -virtfs "local,path=/,mount_tag=host,readonly=on,$share"
        -virtfs "local,path=.,mount_tag=job,$share"
        -device virtio-serial-pci)
    if ((node == 0)); then
        # shellcheck disable=SC2054
        QEMU+=(-chardev "file,id=out,path=out" -device virtserialport,chardev=out,name=out)
        if [[ -p $JOB_DIRECTORY/0/err ]]; then
            # shellcheck disable=SC2054
            QEMU+=(-chardev "file,id=err,path=err" -device virtserialport,chardev=err,name=err)
        fi
    fi
    if [[ -n $OUTPUT_DIRECTORY ]]; then
        QEMU+=(-virtfs "local,path=$(qemu_value "$OUTPUT_DIRECTORY"),mount_tag=out,$share")
    fi
    if ((NODE_COUNT > 1)); then
        local link
        for ((link = 0; link < RAIL_COUNT; link++)); do add_card "$link" "$node"; done
        add_card "$CONTROL_LINK" "$node"
    fi
}

# add_card LINK NODE: the network card of a guest on a rail or on the control link.
add_card() {
    local link=$1 node=$2 peer backend=n$1
    if ((node > 0)); then
        QEMU+=(-netdev "stream,id=n$link,server=off,addr.type=unix,addr.path=../$link.$node")
    elif ((NODE_COUNT == 2)); then
        QEMU+=(-netdev "stream,id=n$link,server=on,addr.type=unix,addr.path=../$link.1")
    else
        for ((peer = 1; peer < NODE_COUNT; peer++)); do
            QEMU+=(-netdev "stream,id=n$link.$peer,server=on,addr.type=unix,addr.path=../$link.$peer"
                -netdev "hubport,id=h$link.$peer,hubid=$link,netdev=n$link.$peer")
        done
        backend=h$link
        QEMU+=(-netdev "hubport,id=h$link,hubid=$link")
    fi
    local card
    card="virtio-net-pci,netdev=$backend,mac=$(card_address "$link" "$node"),romfile="
    if ((link != CONTROL_LINK)); then card+=,host_mtu=$RAIL_MTU; fi
    QEMU+=(-device "$card")
}
