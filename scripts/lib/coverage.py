#!/usr/bin/env python3
"""Holds what ran against what has to run.

    coverage.py check FILE LOG...    fails if a line of FILE is in none of the logs
    coverage.py write FILE LOG...    writes what the logs show to FILE

ferrorail-tests --verbose prints lines `ran  PLACE MPI RANKS/NODES COLLECTIVE ALGORITHM:LANDING`, from the
statistics of its jobs. FILE has the same, with all algorithms of a collective in one line.
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
    """The same, of a file of earlier runs."""
    wanted = defaultdict(set)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                words = line.split()
                wanted[tuple(words[:4])].update(words[4:])
    return wanted


def check(path, logs):
    wanted, ran = of_file(path), of_logs(logs)
    total = missing = 0
    for where, algorithms in sorted(wanted.items()):
        total += len(algorithms)
        for algorithm in sorted(algorithms - ran[where]):
            missing += 1
            print("FAIL never ran:", *where, algorithm)
    print(f"{total - missing} of {total} combinations of {path} ran")
    return 1 if missing or not total else 0


def write(path, logs):
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "# What scripts/test has to run at least: place, host MPI, ranks/nodes of the team, collective, and\n"
            "# its algorithms with their protocols. Lines may be added, and go only with what they name.\n"
        )
        for where, algorithms in sorted(of_logs(logs).items()):
            print(*where, *sorted(algorithms), file=file)
    return 0


if __name__ == "__main__":
    actions = {"check": check, "write": write}
    if len(sys.argv) < 4 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    sys.exit(actions[sys.argv[1]](sys.argv[2], sys.argv[3:]))
