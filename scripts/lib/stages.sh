# shellcheck shell=bash
# Sourced by scripts/test: runs named stages, counts their tests, keeps their logs.

PASSED=0
FAILED=0
STAGES=() # wanted ones; all if empty

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

wanted() {
    local name
    ((${#STAGES[@]})) || return 0
    for name in "${STAGES[@]}"; do [[ $name == "$1" ]] && return 0; done
    return 1
}

# count NAME LOG STATUS KIND SECONDS: adds the stage to the totals and prints its line. A `check`
# counts as one test; `tests` must have run some.
count() {
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
    PASSED=$((PASSED + passed))
    FAILED=$((FAILED + failed))
    printf '%-4s %-14s %4d s  %5d ok %4d not\n' "$verdict" "$1" "$5" "$passed" "$failed"
    if ((failed)); then
        grep -E '^(FAIL |error|.*panicked at|test .* FAILED| +FAIL )' "$2" | head -n 40 | sed 's/^/     ! /' || true
        tail -n 20 "$2" | sed 's/^/     | /'
        echo "     log: $2"
    fi
}

# stage KIND NAME LIMIT COMMAND…: runs it under a limit in seconds, whatever the stages before did.
stage() {
    local kind=$1 name=$2 limit=$3 log status=0 start=$SECONDS
    shift 3
    wanted "$name" || return 0
    log=$LOGS/$name.log
    timeout --kill-after=20 "$limit" "$@" >"$log" 2>&1 </dev/null || status=$?
    ((status != 124)) || echo "the stage did not end within $limit s" >>"$log"
    count "$name" "$log" "$status" "$kind" $((SECONDS - start))
}
