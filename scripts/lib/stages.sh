# shellcheck shell=bash
# Sourced by scripts/test and scripts/check: runs named stages, some beside others, and counts their tests.

STAGES=() # wanted ones; all if empty
LOGS=     # folder for logs and results; the sourcing script sets it

# tests_in LOG: "passed failed", from the closing lines of cargo test, nextest and ferrorail-tests.
tests_in() {
    sed -e 's/\x1b\[[0-9;]*m//g' "$1" | awk '
        /^test result:/ || /^ *Summary \[/ || /^[0-9]+ passed, [0-9]+ failed$/ {
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) passed += $(i - 1)
                if ($i ~ /^failed/) failed += $(i - 1)
            }
        }
        END { print passed + 0, failed + 0 }'
}

# wanted NAME…: whether one of these stages was asked for.
wanted() {
    local name stage
    ((${#STAGES[@]})) || return 0
    for stage; do
        for name in "${STAGES[@]}"; do [[ $name == "$stage" ]] && return 0; done
    done
    return 1
}

# verdict NAME LOG STATUS KIND SECONDS CPU_SECONDS: notes what came of the stage and prints its line. A
# `check` counts as one test; `tests` must have run some.
verdict() {
    local passed=0 failed=0 verdict=ok
    if [[ $4 == tests ]]; then
        read -r passed failed < <(tests_in "$2")
        if ((passed + failed == 0)); then
            echo "no test ran" >>"$2"
            failed=1
        elif (($3 && !failed)); then
            failed=1
        fi
    elif (($3)); then
        failed=1
    else
        passed=1
    fi
    ((!failed)) || verdict=FAIL
    echo "$passed $failed $5 $1" >"$LOGS/$1.result"
    {
        printf '%-4s %-10s %4.0f s %5.0f cpu s %5d ok %4d not\n' "$verdict" "$1" "$5" "$6" "$passed" "$failed"
        if ((failed)); then
            grep -E '^(FAIL |error|.*panicked at|test .* FAILED| +FAIL )' "$2" | sed -n '1,40s/^/     ! /p' || true
            tail -n 20 "$2" | sed 's/^/     | /'
            echo "     log: $2"
        fi
    } >"$LOGS/$1.verdict"
    cat "$LOGS/$1.verdict"
}

# stage KIND NAME LIMIT COMMAND…: runs it under a limit in seconds, whatever the stages before did.
stage() {
    local kind=$1 name=$2 limit=$3 log status=0 elapsed user system
    shift 3
    wanted "$name" || return 0
    log=$LOGS/$name.log
    local TIMEFORMAT='%R %U %S'
    { time timeout --kill-after=20 "$limit" "$@" >"$log" 2>&1 </dev/null; } 2>"$log.time" || status=$?
    ((status != 124)) || echo "the stage did not end within $limit s" >>"$log"
    read -r elapsed user system < <(tail -n 1 "$log.time")
    rm -f "$log.time"
    verdict "$name" "$log" "$status" "$kind" "$elapsed" "$(awk "BEGIN { print $user + $system }")"
}

# The outcome must not depend on the caller's settings.
clean_environment() {
    local name
    for name in $(compgen -e FERRORAIL_ || true); do unset "$name"; done
    unset LD_PRELOAD RUSTFLAGS RUSTDOCFLAGS
    export CARGO_TERM_COLOR=never
}

# choose_unit: sets UNIT to what runs unit tests of the tested build, with nextest if it is installed.
choose_unit() {
    # shellcheck disable=SC2034 # the sourcing scripts read it
    if cargo nextest --version >/dev/null 2>&1; then
        # Those that start MPI jobs wait for a third of their time.
        UNIT=(cargo nextest run --locked --no-fail-fast --cargo-profile checked --test-threads "$(($(nproc) + 1))")
    else
        UNIT=(cargo test --locked --no-fail-fast --profile checked)
    fi
}

# begin_stages: forgets what came of earlier runs.
begin_stages() {
    mkdir -p "$LOGS"
    rm -f "$LOGS"/*.result "$LOGS"/*.verdict
}

# totals: "passed failed" of all stages so far.
totals() { awk '{ passed += $1; failed += $2 } END { print passed + 0, failed + 0 }' "$LOGS"/*.result; }

# end_stages: the slowest stages and tests, then the totals; fails if a test failed or none ran. Readers here
# read to the end: after `head`, SIGPIPE would end the writer and, with pipefail, the run.
end_stages() {
    local passed=0 failed=0 results=("$LOGS"/*.result)
    echo "slowest stages:"
    sort -k 3,3 -rn "${results[@]}" | awk 'NR <= 10 { printf "%8.1f s  %s\n", $3, $4 }'
    echo "slowest tests:"
    slowest_tests "${results[@]}"
    read -r passed failed < <(totals)
    echo "$passed passed, $failed failed"
    ((passed && !failed))
}

# slowest_tests RESULT…: of all tests of these stages, as nextest and ferrorail-tests print them.
slowest_tests() {
    local logs=("${@%.result}")
    sed -nE -e 's/^ *(PASS|FAIL) \[ *([0-9.]+)s\] (\([ 0-9/]*\) )?(.*)/\2 \4/p' \
        -e 's/^(ok  |FAIL) +(.*) \(([0-9.]+) s\).*/\3 \2/p' "${logs[@]/%/.log}" |
        sort -rn | awk 'NR <= 10 { seconds = $1; $1 = ""; printf "%8.1f s %s\n", seconds, $0 }'
}
