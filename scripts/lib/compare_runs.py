#!/usr/bin/env python3
"""Compares a run of an application over the host MPI with one under ferrorail.

Arguments: the application's line of name=value pairs from either run, and the statistics (JSON) of
the second. Prints what ferrorail took and the times; exits with 1 if the outputs differ, if the
sort is wrong, or if ferrorail took fewer all-gathers than the application made.
"""

import json
import sys


def read_line(path):
    """The last line of name=value pairs in a file, as a dictionary."""
    pairs = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = [word.split("=", 1) for word in line.split() if "=" in word]
            if any(name == "output_hash" for name, _ in words):
                pairs = dict(words)
    if not pairs:
        sys.exit(f"{path}: the application printed no result")
    return pairs


def report_taken(stats, expected):
    """Prints what ferrorail carried; returns the number of all-gathers over all ranks."""
    rows = [row for row in stats["collectives"] if row["collective"] == "allgather"]
    taken = sum(row["calls"] for row in rows)
    ranks = stats["ranks"]
    print(f"all-gather calls taken: {taken} ({taken // ranks} by each of {ranks} ranks)")
    for row in rows:
        print(
            f"  {row['algorithm']}: {row['calls']} calls, {row['bytes']} bytes, "
            f"class {row['size_class_bytes']} B, through {row['landing']}"
        )
    for rail in stats["rails"]:
        print(f"  rail {rail['rail']}: {rail['messages']} messages, {rail['bytes']} bytes")
    for row in stats["forwarded"]:
        print(f"  left to the host MPI: {row['calls']} {row['collective']} ({row['reason']})")
    if taken < expected:
        sys.exit(f"ferrorail took {taken} all-gather calls of {expected}")
    if sum(rail["bytes"] for rail in stats["rails"]) == 0:
        sys.exit("nothing went over the rails")


def report_time(what, host, ours):
    """One line with both times and their ratio."""
    host, ours = float(host), float(ours)
    ratio = host / ours if ours > 0 else float("inf")
    print(f"{what:<20} {host * 1e3:9.1f} ms host MPI {ours * 1e3:9.1f} ms ferrorail {ratio:6.2f}x")


def main():
    """Compares the two runs named on the command line."""
    host, ours = read_line(sys.argv[1]), read_line(sys.argv[2])
    with open(sys.argv[3], encoding="utf-8") as file:
        stats = json.load(file)
    if host["sorted"] != "yes" or ours["sorted"] != "yes":
        sys.exit("the keys are not sorted")
    if host["output_hash"] != ours["output_hash"]:
        sys.exit(f"the outputs differ: {host['output_hash']} and {ours['output_hash']}")
    print(f"{ours['keys']} keys sorted; output identical (hash {ours['output_hash']})")
    report_taken(stats, int(ours["allgather_calls"]) * int(ours["ranks"]))
    report_time("all-gather time", host["allgather_seconds"], ours["allgather_seconds"])
    report_time("communication time", host["communication_seconds"], ours["communication_seconds"])
    report_time("total time", host["total_seconds"], ours["total_seconds"])


if __name__ == "__main__":
    main()
