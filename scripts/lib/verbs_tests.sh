#!/usr/bin/env bash
# Runs the tests that need RDMA devices, in one go: the transport's own, then the MPI programs.
# Compiles here, runs where the devices are (on this machine, or in an emulated one).
#
#     scripts/lib/verbs_tests.sh SECONDS FERRORAIL-TESTS [OPTION…]
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=test_program.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/test_program.sh"
limit=$1
shift

"$@" --compile --only verbs
transport=$(test_program ferrorail-rdma-transport verbs)

# shellcheck disable=SC2016 # the inner shell expands them
exec scripts/soft-roce --timeout "$limit" bash -c '
    status=0
    "$1" --ignored --test-threads=2 || status=1
    shift
    "$@" --only verbs || status=1
    exit $status' bash "$transport" "$@"
