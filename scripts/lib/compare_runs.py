#!/usr/bin/env python3
"""Compares runs of an application over the host MPI with runs under ferrorail.

Reads what each run printed, and the statistics (JSON) of one under ferrorail; the fastest of either
count. --rails: rails must have been used. Prints what ferrorail took and the times; exits with 1 if the outputs differ, if the sort is wrong, or
if ferrorail took fewer all-gathers than the application made.
"""

import argparse
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


def fastest(paths):
    """The result of the run that took least, if all sorted and agree."""
    runs = [read_line(path) for path in paths]
    if any(run["sorted"] != "yes" for run in runs):
        sys.exit("the keys are not sorted")
    if len({run["output_hash"] for run in runs}) > 1:
        sys.exit("the outputs differ from run to run")
    return min(runs, key=lambda run: float(run["total_seconds"]))


def report_taken(stats, expected, rails):
    """Prints what ferrorail carried."""
    rows = [row for row in stats["collectives"] if row["collective"] == "allgather"]
    taken = sum(row["calls"] for row in rows)
    ranks = stats["ranks"]
    print(f"all-gather calls taken: {taken} ({taken // ranks} by each of {ranks} ranks)")
    for row in rows:
        print(
            f"  {row['algorithm']}: {row['calls']} calls, {row['bytes']} bytes, "
            f"class {row['size_class_bytes']} B, through {row['protocol']}"
        )
    for rail in stats["rails"]:
        print(f"  rail {rail['rail']}: {rail['messages']} messages, {rail['bytes']} bytes")
    for row in stats["forwarded"]:
        print(f"  left to the host MPI: {row['calls']} {row['collective']} ({row['reason']})")
    if taken < expected:
        sys.exit(f"ferrorail took {taken} all-gather calls of {expected}")
    if rails and sum(rail["bytes"] for rail in stats["rails"]) == 0:
        sys.exit("nothing went over the rails")


def report_time(what, host, ours):
    """One line with both times and their ratio."""
    host, ours = float(host), float(ours)
    ratio = host / ours if ours > 0 else float("inf")
    print(f"{what:<20} {host * 1e3:9.1f} ms host MPI {ours * 1e3:9.1f} ms ferrorail {ratio:6.2f}x")


def main():
    """Compares the runs named on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rails", action="store_true")
    parser.add_argument("--statistics", required=True)
    parser.add_argument("--host", nargs="+", required=True)
    parser.add_argument("--ours", nargs="+", required=True)
    arguments = parser.parse_args()
    host, ours = fastest(arguments.host), fastest(arguments.ours)
    with open(arguments.statistics, encoding="utf-8") as file:
        stats = json.load(file)
    if host["output_hash"] != ours["output_hash"]:
        sys.exit(f"the outputs differ: {host['output_hash']} and {ours['output_hash']}")
    print(f"{ours['keys']} keys sorted; output identical (hash {ours['output_hash']})")
    calls = int(ours["allgather_calls"]) * int(ours["ranks"])
    report_taken(stats, calls, arguments.rails)
    report_time("all-gather time", host["allgather_seconds"], ours["allgather_seconds"])
    report_time("communication time", host["communication_seconds"], ours["communication_seconds"])
    report_time("total time", host["total_seconds"], ours["total_seconds"])


if __name__ == "__main__":
    main()
