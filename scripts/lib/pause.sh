#!/usr/bin/env bash
# How long an all-gather of 8 bytes stands still when a rail between two machines fails: prints the longest
# pause after each failure. Compiles here, runs in emulated machines, whose times are to be compared with each
# other only; on a busy host the processors of the machines pause too.
#
#     scripts/lib/pause.sh FAILURES [ACT…]      acts: down, cut (default both), none; settings from the environment
set -euo pipefail
failures=${1:-4}
shift || true
(($# > 0)) || set -- down cut
program=target/tmp/pause
mkdir -p target/tmp
mpicc.openmpi -O2 -pthread tests/c/pause.c -o "$program"

# shellcheck disable=SC2016 # the inner shell expands them
exec scripts/soft-roce --nodes 2 --rails 2 --timeout "${PAUSE_LIMIT:-460}" bash -c '
    program=$1 failures=$2 profile=$3 hold=$4
    shift 4
    # In the shell itself: a process for each line would take processors from the job when a rail fails.
    now_ms() { printf -v "$1" %d $((${EPOCHREALTIME/./} / 1000)); }
    log=/tmp/pause.log
    now_ms started
    timed() { while IFS= read -r line; do now_ms then; echo "$((then - started)) ms $line"; done; }
    settings=$(env | sed -n "s/^\(FERRORAIL_[A-Z_]*=.*\)/\1/p")
    start() {
        rm -f /tmp/stop
        : >"$log"
        # shellcheck disable=SC2086 # one word a setting
        mpirun.openmpi -H "$SOFT_ROCE_HOSTS" -n 2 env FERRORAIL_FABRIC=verbs FERRORAIL_RAILS=2 $settings \
            "target/$profile/ferrorail" exec "$program" /tmp/stop 10 >"$log" 2> >(timed >/tmp/pause.err) &
        until grep -q running "$log"; do sleep 0.2; done
    }
    # One shell for all acts: to begin another takes emulated processors a second of cryptography.
    exec 3> >(ssh softroce1 bash)
    # A link goes down by what shells do themselves, as no process is started where a cable breaks.
    rail_on() {
        local place=$1 act="bash /run/soft-roce/bin/rail $2 $3" flags=/sys/class/net/r$2/flags
        [[ $3 != down ]] || act="read -r f <$flags; echo \$((f & ~1)) >$flags"
        [[ $place == softroce0 ]] || echo "$act" >&3
        [[ $place == softroce1 ]] || eval "$act"
    }
    at() { now_ms then; echo "$(((then - begun) / 1000)).$(((then - begun) / 100 % 10))"; }
    longest() { sed -n "$1,\$s/^pause: \([0-9.]*\) ms.*/\1/p" "$log" | sort -n | tail -n 3 | tr "\n" " "; }
    # break_rail PLACE RAIL ACT
    break_rail() {
        local from=$(($(wc -l <"$log") + 1))
        [[ $3 == none ]] || rail_on "$@"
        sleep "$hold"
        echo "rail $2 of $1 $3 until $(at) s: longest three pauses $(longest "$from") ms"
        [[ $3 == none ]] || rail_on "$1" "$2" restore
        sleep "$hold"
    }
    # Emulated processors translate code when it first runs, of the kernel and of the library: the failures of a
    # first job are shown, but not those to look at.
    start
    now_ms begun
    sleep 3
    for act in "$@"; do break_rail all 0 "$act"; done | sed "s/^/first job: /"
    touch /tmp/stop
    wait $!
    start
    now_ms begun
    echo "running at $((begun - started)) ms"
    sleep 6
    echo "before any failure: $(longest 1) ms"
    places=(all softroce0 softroce1)
    for ((i = 0; i < failures; i++)); do
        for act in "$@"; do break_rail "${places[i % 3]}" $((i % 2)) "$act"; done
    done
    touch /tmp/stop
    exec 3>&-
    wait
    tail -n 2 "$log"
    echo "pauses of more than 250 ms:"
    sed -n "/^pause: \(2[5-9]\|[3-9].\|[1-9]..\).\./p" "$log"
    echo "left: $(grep -c "take over" /tmp/pause.err) times, used again: $(grep -c "in use again" /tmp/pause.err) times"
    cat /tmp/pause.err' bash "$program" "$failures" "${PAUSE_PROFILE:-checked}" "${PAUSE_HOLD:-7}" "$@"
