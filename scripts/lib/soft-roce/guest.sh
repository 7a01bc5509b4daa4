# shellcheck shell=bash
# Boots the emulated machines, waits for the command in the first, reports.

# Emulators by node; those that have ended are removed.
declare -A GUEST_PIDS=()

# Ends the emulators and removes the job directories, however the script ends.
end_guests() {
    if ((${#GUEST_PIDS[@]})); then kill "${GUEST_PIDS[@]}" 2>/dev/null || true; fi
    wait "${GUEST_PIDS[@]}" 2>/dev/null || true
    if [[ -n ${JOB_DIRECTORY-} ]]; then rm -rf "$JOB_DIRECTORY"; fi
}

# show_console NODE
show_console() {
    cat "$JOB_DIRECTORY/$1/qemu" >&2
    note "end of the console of guest $1:"
    # The firmware's escape sequences would clear the caller's screen.
    tail -n 40 "$JOB_DIRECTORY/$1/console" | tr -d '\r' |
        LC_ALL=C sed 's/\x1b\[[?0-9;]*[a-zA-Z]//g; s/\x1bc//g' >&2
}

# start_guest NODE
start_guest() {
    local node=$1
    guest_command "$node"
    # The sockets' paths are relative: absolute ones may be too long.
    (cd "$JOB_DIRECTORY/$node" && exec timeout --kill-after=5 "$TIMEOUT_SECONDS" "${QEMU[@]}") \
        </dev/null >"$JOB_DIRECTORY/$node/qemu" 2>&1 &
    GUEST_PIDS[$node]=$!
}

# Starts the first guest and, when it listens, the others, which connect to it.
start_guests() {
    local node tick
    start_guest 0
    for ((node = 1; node < NODE_COUNT; node++)); do
        for ((tick = 0; tick < 300; tick++)); do
            if [[ -S $JOB_DIRECTORY/$CONTROL_LINK.$node ]]; then break; fi
            kill -0 "${GUEST_PIDS[0]}" 2>/dev/null || return 0
            sleep 0.05
        done
        start_guest "$node"
    done
}

# Waits for the end of any guest; sets ENDED to its node and STATUS to its emulator's exit code.
wait_for_guest() {
    local node ended
    STATUS=0
    wait -n -p ended "${GUEST_PIDS[@]}" || STATUS=$?
    for node in "${!GUEST_PIDS[@]}"; do
        if ((GUEST_PIDS[$node] == ended)); then ENDED=$node; fi
    done
    unset "GUEST_PIDS[$ENDED]"
}

# Runs CMD in the first guest and returns its exit code, or 124 where that was not reached.
run_in_guests() {
    prepare_guest
    JOB_DIRECTORY=$(mktemp -d "${TMPDIR:-/tmp}/soft-roce.XXXXXXXX")
    trap end_guests EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    local node
    for ((node = 0; node < NODE_COUNT; node++)); do write_job "$JOB_DIRECTORY/$node" "$node" "$@"; done
    if ((NODE_COUNT > 1)); then write_keys; fi

    local forwarders=() first=$JOB_DIRECTORY/0
    mkfifo "$first/out"
    cat "$first/out" &
    forwarders+=($!)
    # With one destination for both, one stream keeps their order.
    if [[ ! /proc/self/fd/1 -ef /proc/self/fd/2 ]]; then
        mkfifo "$first/err"
        cat "$first/err" >&2 &
        forwarders+=($!)
    fi

    start_guests
    wait_for_guest
    local ended=$ENDED status=$STATUS
    # Any other guest that ends takes the job with it.
    if ((ended != 0)); then
        kill "${GUEST_PIDS[0]}" 2>/dev/null || true
        wait "${GUEST_PIDS[0]}" 2>/dev/null || true
        unset 'GUEST_PIDS[0]'
    fi
    # An emulator that never started has not opened the pipes: do not wait for their end then.
    if [[ -s $first/console || -e $first/exit ]]; then
        wait "${forwarders[@]}" || true
    else
        kill "${forwarders[@]}" 2>/dev/null || true
    fi

    if [[ -s $first/exit ]]; then return "$(<"$first/exit")"; fi
    show_console "$ended"
    if ((status == 124 || status == 137)); then
        note "guest $ended did not finish within $TIMEOUT_SECONDS s (--timeout)"
    else
        note "guest $ended ended without an exit code of the command"
    fi
    return 124
}

# A key pair for this run alone, by which the guests trust each other.
write_keys() {
    local key=$JOB_DIRECTORY/0/key node
    LD_LIBRARY_PATH=$SSH_TREE/lib "$SSH_TREE/usr/bin/dropbearkey" -t ed25519 -f "$key" 2>/dev/null |
        awk '$1 == "ssh-ed25519" { print $1, $2 }' >"$key.pub"
    [[ -s $key.pub ]] || die "cannot make a key pair with $SSH_TREE/usr/bin/dropbearkey"
    for ((node = 1; node < NODE_COUNT; node++)); do
        cp "$key" "$key.pub" "$JOB_DIRECTORY/$node/"
    done
}
