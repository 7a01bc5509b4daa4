#!/usr/bin/env bash
# Runs the MPI programs on two machines that nothing joins but two rails. Compiles here, runs in
# emulated machines.
#
#     scripts/lib/nodes_tests.sh SECONDS FERRORAIL-TESTS [OPTION…]
set -euo pipefail
limit=$1
shift

"$@" --compile --only nodes

# What ranks leave on their own machine the launched jobs show; of the others' it is asked here.
# shellcheck disable=SC2016 # the inner shells expand them
exec scripts/soft-roce --nodes 2 --rails 2 --timeout "$limit" bash -c '
    status=0
    "$@" --hosts "$SOFT_ROCE_HOSTS" --only nodes || status=1
    for host in ${SOFT_ROCE_HOSTS//,/ }; do
        if ssh "$host" "pgrep -a -f \"[t]ests/(openmpi|mpich|abi)/\" || ls /dev/shm | grep ferrorail"; then
            echo "FAIL the above is left on $host"
            status=1
        fi
    done
    exit $status' bash "$@"
