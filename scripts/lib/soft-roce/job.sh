# shellcheck shell=bash
# What a guest is told: its job directory, with the command and the environment of the caller.

# Environment that programs in the guest should see as the caller has it.
readonly PASSED_ENVIRONMENT='^(PATH|HOME|USER|LOGNAME|LANG|LC_.*|TERM|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|LD_PRELOAD)$'
readonly PASSED_PREFIXES='^(FERRORAIL|CARGO|RUST|OMPI|OPAL|ORTE|PMIX|PRTE|MPICH|MPIR|MPIO|MPIEXEC|HYDRA|UCX|FI|MPI4PY|PYTHON|HWLOC|SOFT_ROCE)_?'

# default NAME VALUE: exports it unless the caller has it set.
default() {
    if [[ -z ${!1-} ]]; then printf 'export %s=%q\n' "$1" "$2"; fi
}

# The host name of a guest.
guest_name() { echo "softroce$1"; }

# The environment, as a script that the guest's bash reads.
write_environment() {
    local name node hosts=()
    while read -r name; do
        if [[ $name =~ $PASSED_ENVIRONMENT || $name =~ $PASSED_PREFIXES ]]; then
            printf 'export %s=%q\n' "$name" "${!name}"
        fi
    done < <(compgen -e)
    # shellcheck disable=SC2016 # for the guest
    echo 'export PATH=/run/soft-roce/bin:$PATH'
    for ((node = 0; node < NODE_COUNT; node++)); do hosts+=("$(guest_name "$node")"); done
    printf 'export SOFT_ROCE_HOSTS=%s\n' "$(IFS=, && echo "${hosts[*]}")"
    # The guest's only user is root; without these Open MPI refuses to start.
    printf 'export %s=1\n' SOFT_ROCE_ACTIVE OMPI_ALLOW_RUN_AS_ROOT \
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM PRTE_ALLOW_RUN_AS_ROOT PRTE_ALLOW_RUN_AS_ROOT_CONFIRM
    # UCX spends half a minute of emulated time opening an rxe device: only on demand.
    default UCX_TLS '^ib'
    # hwloc's plugins load X11 and OpenCL, in every rank: two of the six seconds in which Open MPI starts four.
    default HWLOC_PLUGINS_PATH /nonexistent
    if ((NODE_COUNT > 1)); then write_launch_defaults; fi
    local pair
    for pair in "${EXTRA_ENVIRONMENT[@]}"; do
        printf 'export %s=%q\n' "${pair%%=*}" "${pair#*=}"
    done
}

# How Open MPI and MPICH start processes in other guests. What they exchange themselves keeps off the
# rails, so that a test may cut any of them.
write_launch_defaults() {
    local name
    for name in OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include PRTE_MCA_oob_tcp_if_include \
        HYDRA_IFACE FI_TCP_IFACE UCX_NET_DEVICES; do
        default "$name" c0
    done
    for name in OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent HYDRA_LAUNCHER_EXEC; do
        default "$name" /run/soft-roce/bin/ssh
    done
    default HYDRA_LAUNCHER ssh
}

# The command with its directory and environment, likewise.
write_command() {
    printf '. /run/soft-roce/environment\ncd -- %q || exit 125\nexec' "$PWD"
    printf ' %q' "$@"
    echo
}

# write_job DIRECTORY NODE CMD…: only the first node gets the command.
write_job() {
    local directory=$1 node=$2
    shift 2
    mkdir -p "$directory/bin"
    cp -t "$directory" "$LIBRARY"/{node,rails.sh,remote.sh,login}
    cp -t "$directory/bin" "$LIBRARY"/{ssh,rail}
    {
        printf 'rail_count=%q\n' "$RAIL_COUNT"
        printf 'node_index=%q\n' "$node"
        printf 'node_count=%q\n' "$NODE_COUNT"
        printf 'output_directory=%q\n' "$OUTPUT_DIRECTORY"
        printf 'ssh_tree=%q\n' "$SSH_TREE"
    } >"$directory/settings"
    write_environment >"$directory/environment"
    if ((node == 0)); then write_command "$@" >"$directory/command"; fi
    : >"$directory/console"
}
