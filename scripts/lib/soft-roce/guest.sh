# shellcheck shell=bash
# One emulated machine: writes its job directory, boots it, waits for it, reports.

# Environment that programs in the guest should see as the caller has it.
readonly PASSED_ENVIRONMENT='^(PATH|HOME|USER|LOGNAME|LANG|LC_.*|TERM|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|LD_PRELOAD)$'
readonly PASSED_PREFIXES='^(FERRORAIL|CARGO|RUST|OMPI|OPAL|ORTE|PMIX|PRTE|MPICH|MPIR|MPIO|MPIEXEC|HYDRA|UCX|FI|MPI4PY|PYTHON|SOFT_ROCE)_?'

# A comma separates the parts of a QEMU option; doubled, it stands for itself.
qemu_value() { echo "${1//,/,,}"; }

# The command with its directory and environment, as a script that the guest's bash runs.
write_command() {
    local name
    while read -r name; do
        if [[ $name =~ $PASSED_ENVIRONMENT || $name =~ $PASSED_PREFIXES ]]; then
            printf 'export %s=%q\n' "$name" "${!name}"
        fi
    done < <(compgen -e)
    # The guest's only user is root; without these Open MPI refuses to start.
    printf 'export %s=1\n' SOFT_ROCE_ACTIVE OMPI_ALLOW_RUN_AS_ROOT \
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM PRTE_ALLOW_RUN_AS_ROOT PRTE_ALLOW_RUN_AS_ROOT_CONFIRM
    # UCX spends half a minute of emulated time opening an rxe device: only on demand.
    if [[ -z ${UCX_TLS-} ]]; then echo 'export UCX_TLS=^ib'; fi
    local pair
    for pair in "${EXTRA_ENVIRONMENT[@]}"; do
        printf 'export %s=%q\n' "${pair%%=*}" "${pair#*=}"
    done
    printf 'cd -- %q || exit 125\nexec' "$PWD"
    printf ' %q' "$@"
    echo
}

# write_job DIRECTORY NODE CMD…
write_job() {
    local directory=$1 node=$2
    shift 2
    cp "$LIBRARY/node" "$LIBRARY/rails.sh" "$directory/"
    {
        printf 'rail_count=%q\n' "$RAIL_COUNT"
        printf 'node_index=%q\n' "$node"
        printf 'output_directory=%q\n' "$OUTPUT_DIRECTORY"
    } >"$directory/settings"
    write_command "$@" >"$directory/command"
    : >"$directory/console"
}

# Sets QEMU to the command line of the guest whose job directory is DIRECTORY.
guest_command() {
    local directory=$1 share=security_model=none,multidevs=remap
    # shellcheck disable=SC2054 # the commas belong to the options
    QEMU=(qemu-system-x86_64 -nodefaults -no-user-config -nographic -no-reboot
        -machine pc,usb=off -accel tcg,thread=multi -cpu max
        -smp "$GUEST_CPUS" -m "${GUEST_MEMORY}M"
        -kernel "$KERNEL" -initrd "$INITRD"
        -append "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nowatchdog cryptomgr.notests"
        -serial "file:$(qemu_value "$directory/console")"
        -virtfs "local,path=/,mount_tag=host,readonly=on,$share"
        -virtfs "local,path=$(qemu_value "$directory"),mount_tag=job,$share"
        -device virtio-serial-pci
        -chardev "file,id=out,path=$(qemu_value "$directory/out")"
        -device virtserialport,chardev=out,name=out)
    if [[ -p $directory/err ]]; then
        # shellcheck disable=SC2054
        QEMU+=(-chardev "file,id=err,path=$(qemu_value "$directory/err")"
            -device virtserialport,chardev=err,name=err)
    fi
    if [[ -n $OUTPUT_DIRECTORY ]]; then
        QEMU+=(-virtfs "local,path=$(qemu_value "$OUTPUT_DIRECTORY"),mount_tag=out,$share")
    fi
}

# Ends the emulator and removes the job directory, however the script ends.
end_guest() {
    if [[ -n ${GUEST_PID-} ]]; then kill "$GUEST_PID" 2>/dev/null || true; fi
    if [[ -n ${JOB_DIRECTORY-} ]]; then rm -rf "$JOB_DIRECTORY"; fi
}

show_console() {
    note "end of the guest's console:"
    # The firmware's escape sequences would clear the caller's screen.
    tail -n 40 "$JOB_DIRECTORY/console" | tr -d '\r' |
        LC_ALL=C sed 's/\x1b\[[?0-9;]*[a-zA-Z]//g; s/\x1bc//g' >&2
}

# Runs CMD in a guest and returns its exit code, or 124 where the guest did not get that far.
run_in_guest() {
    prepare_guest
    JOB_DIRECTORY=$(mktemp -d "${TMPDIR:-/tmp}/soft-roce.XXXXXXXX")
    trap end_guest EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    write_job "$JOB_DIRECTORY" 0 "$@"

    local forwarders=() status=0
    mkfifo "$JOB_DIRECTORY/out"
    cat "$JOB_DIRECTORY/out" &
    forwarders+=($!)
    # With one destination for both, one stream keeps their order.
    if [[ ! /proc/self/fd/1 -ef /proc/self/fd/2 ]]; then
        mkfifo "$JOB_DIRECTORY/err"
        cat "$JOB_DIRECTORY/err" >&2 &
        forwarders+=($!)
    fi

    guest_command "$JOB_DIRECTORY"
    timeout --kill-after=5 "$TIMEOUT_SECONDS" "${QEMU[@]}" </dev/null >"$JOB_DIRECTORY/qemu" 2>&1 &
    GUEST_PID=$!
    wait "$GUEST_PID" || status=$?
    GUEST_PID=
    # An emulator that never started has not opened the pipes: do not wait for their end then.
    if [[ -s $JOB_DIRECTORY/console || -e $JOB_DIRECTORY/exit ]]; then
        wait "${forwarders[@]}" || true
    else
        kill "${forwarders[@]}" 2>/dev/null || true
    fi

    if [[ -s $JOB_DIRECTORY/exit ]]; then return "$(<"$JOB_DIRECTORY/exit")"; fi
    cat "$JOB_DIRECTORY/qemu" >&2
    show_console
    if ((status == 124 || status == 137)); then
        note "the guest did not finish within $TIMEOUT_SECONDS s (--timeout)"
    else
        note "the guest ended without an exit code of the command"
    fi
    return 124
}
