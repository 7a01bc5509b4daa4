#!/usr/bin/env bash
# Runs the tests that need RDMA devices: the transport's own, then the MPI programs of the groups `verbs` (one
# machine) and `nodes` (two that nothing joins but two rails). Compiles here, runs where the devices are: `verbs` on
# this machine if it has any, the rest in emulated machines, which boot once for both groups.
#
#     scripts/lib/device_tests.sh SECONDS GROUP[,GROUP] FERRORAIL-TESTS [OPTION…]
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=test_program.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/test_program.sh"
limit=$1 groups=$2
shift 2

for group in ${groups//,/ }; do "$@" --compile --only "$group"; done
transport=$(test_program ferrorail-rdma-transport verbs)

# run NODES GROUPS FERRORAIL-TESTS [OPTION…]. What ranks leave on their own machine the launched jobs show; of
# the others' it is asked here.
run() {
    local nodes=$1
    shift
    # shellcheck disable=SC2016 # the inner shells expand them
    scripts/soft-roce --nodes "$nodes" --rails 2 --timeout "$limit" bash -c '
        transport=$1 groups=$2 status=0
        shift 2
        if [[ $groups == *verbs* ]]; then
            "$transport" --ignored --test-threads=2 --skip members_are_on_two_hosts || status=1
            "$@" --only verbs || status=1
        fi
        if [[ $groups == *nodes* ]]; then
            "$transport" groups::members_are_on_two_hosts --exact --ignored || status=1
            "$@" --hosts "$SOFT_ROCE_HOSTS" --only nodes || status=1
            for host in ${SOFT_ROCE_HOSTS//,/ }; do
                if ssh "$host" "pgrep -a -f \"[t]ests/(openmpi|mpich|abi)/\" || ls /dev/shm | grep ferrorail"; then
                    echo "FAIL the above is left on $host"
                    status=1
                fi
            done
        fi
        exit $status' bash "$transport" "$@"
}

status=0
if [[ $groups == *,* ]] && scripts/soft-roce --native true; then
    run 1 verbs "$@" || status=1
    groups=nodes
fi
if [[ $groups == verbs ]]; then run 1 verbs "$@"; else run 2 "$groups" "$@"; fi || status=1
exit $status
