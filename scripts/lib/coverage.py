#!/usr/bin/env python3
"""Holds what ran against what has to run.

    coverage.py check FILE LOG...    fails if a line of FILE is in none of the logs; lines that begin with
                                     `full` count with `check-full` only
    coverage.py write FILE LOG...    writes what the logs show to FILE; what FILE had besides gets `full`

ferrorail-tests --verbose prints lines `ran  PLACE MPI RANKS/NODES COLLECTIVE ALGORITHM:LANDING`, from the
statistics of its jobs, other than those that it drew. FILE has the same, with all algorithms of a collective in
one line.
"""

import sys
from collections import defaultdict


def of_logs(logs):
    """What ran: (place, mpi, shape, collective) to algorithms with their protocols."""
    ran = defaultdict(set)
    for log in logs:
        with open(log, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("ran  "):
                    *where, algorithm = line.split()[1:]
                    ran[tuple(where)].add(algorithm)
    return ran


def of_file(path):
    """The same, of a file of earlier runs: what each run has, and what only full ones have."""
    each, full = defaultdict(set), defaultdict(set)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if words and words[0] == "full":
                full[tuple(words[1:5])].update(words[5:])
            elif words and not line.startswith("#"):
                each[tuple(words[:4])].update(words[4:])
    return each, full


def joined(one, other):
    return {where: one[where] | other[where] for where in one.keys() | other.keys()}


def check(path, logs, all_of_it):
    each, full = of_file(path)
    wanted, ran = joined(each, full) if all_of_it else each, of_logs(logs)
    total = missing = 0
    for where, algorithms in sorted(wanted.items()):
        total += len(algorithms)
        for algorithm in sorted(algorithms - ran[where]):
            missing += 1
            print("FAIL never ran:", *where, algorithm)
    print(f"{total - missing} of {total} combinations of {path} ran")
    return 1 if missing or not total else 0


def write(path, logs):
    ran, known = of_logs(logs), joined(*of_file(path))
    lines = [(where, "", algorithms) for where, algorithms in ran.items()]
    rest = ((where, algorithms - ran[where]) for where, algorithms in known.items())
    lines += [(where, "full ", algorithms) for where, algorithms in rest if algorithms]
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "# What has to run at least: place, host MPI, ranks/nodes of the team, collective, and its algorithms\n"
            "# with their protocols. `full` says that only `scripts/test full` has to run it, and that scripts/test\n"
            "# may draw it. Lines may be added, and go only with what they name.\n"
        )
        for where, full, algorithms in sorted(lines):
            print(full + " ".join(where), *sorted(algorithms), file=file)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("check", "check-full", "write"):
        sys.exit(__doc__)
    action, path, logs = sys.argv[1], sys.argv[2], sys.argv[3:]
    sys.exit(write(path, logs) if action == "write" else check(path, logs, action == "check-full"))
