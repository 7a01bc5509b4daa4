# shellcheck shell=bash
# Runs on this machine's own devices, or on rxe devices made for the run where the kernel can.

device_count() {
    local devices=(/sys/class/infiniband/*)
    if [[ -e ${devices[0]} ]]; then echo "${#devices[@]}"; else echo 0; fi
}

# rxe devices can be made here: by root, with the module present or loadable.
can_make_rails() {
    if ((EUID != 0)) || ! command -v rdma >/dev/null || ! command -v ip >/dev/null; then return 1; fi
    if [[ ! -d /sys/module/rdma_rxe ]] && ! modprobe rdma_rxe 2>/dev/null; then return 1; fi
    [[ -d /sys/class/infiniband ]]
}

end_direct() {
    if ((${MADE_RAILS-0} > 0)); then rails_down "$MADE_RAILS"; fi
}

execute() (
    ulimit -l unlimited 2>/dev/null || note "cannot lift the limit of locked memory ($(ulimit -l) KB)"
    exec env SOFT_ROCE_ACTIVE=1 "${EXTRA_ENVIRONMENT[@]}" \
        timeout --foreground --kill-after=5 "$TIMEOUT_SECONDS" "$@"
)

# Runs CMD here and exits with its code; returns where this machine cannot.
# The lock keeps devices alive: many runs may share what exists, one alone may make and remove.
try_direct() {
    local lock status=0
    if (($(device_count) < RAIL_COUNT)) && ! can_make_rails; then return 0; fi
    mkdir -p "$(cache_directory)"
    exec {lock}>"$(cache_directory)/devices"
    flock -s "$lock"
    if (($(device_count) < RAIL_COUNT)); then
        flock -x "$lock"
        if (($(device_count) < RAIL_COUNT)); then
            MADE_RAILS=$RAIL_COUNT
            trap end_direct EXIT
            rails_up "$RAIL_COUNT" 0
        fi
    fi
    execute "$@" || status=$?
    exit "$status"
}
