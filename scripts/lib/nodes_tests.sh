#!/usr/bin/env bash
# Runs the transport's test of groups with members on two machines, then the MPI programs, on machines that
# nothing joins but two rails. Compiles here, runs in emulated machines.
#
#     scripts/lib/nodes_tests.sh SECONDS FERRORAIL-TESTS [OPTION…]
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=test_program.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/test_program.sh"
limit=$1
shift

"$@" --compile --only nodes
transport=$(test_program ferrorail-rdma-transport verbs)

# What ranks leave on their own machine the launched jobs show; of the others' it is asked here.
# shellcheck disable=SC2016 # the inner shells expand them
exec scripts/soft-roce --nodes 2 --rails 2 --timeout "$limit" bash -c '
    status=0
    "$1" groups::members_are_on_two_hosts --exact --ignored || status=1
    shift
    "$@" --hosts "$SOFT_ROCE_HOSTS" --only nodes || status=1
    for host in ${SOFT_ROCE_HOSTS//,/ }; do
        if ssh "$host" "pgrep -a -f \"[t]ests/(openmpi|mpich|abi)/\" || ls /dev/shm | grep ferrorail"; then
            echo "FAIL the above is left on $host"
            status=1
        fi
    done
    exit $status' bash "$transport" "$@"
