#!/usr/bin/env python3
"""Runs a suite of IMB with and without ferrorail, in turn, and compares the minima of the slowest rank's times.

    witness.py --library FILE [OPTION...] -- LAUNCHER... -n RANKS -- PROGRAM...

Interleaved short runs: a machine that is slow for some seconds is so for both. Exits with 1 if a run fails
or ferrorail is not in it.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from statistics import geometric_mean

# What runs of each suite without names.
COLLECTIVES = {
    "MPI1": "Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv Reduce "
    "Reduce_scatter Reduce_scatter_block Scatter Scatterv",
    "NBC": "Iallgather_pure Iallgatherv_pure Iallreduce_pure Ialltoall_pure Ialltoallv_pure Ibarrier_pure "
    "Ibcast_pure Igather_pure Igatherv_pure Ireduce_pure Ireduce_scatter_pure Iscatter_pure Iscatterv_pure",
}
SLOWER = 1.1
SECONDS = 900


def parse(text):
    """Times of the slowest rank in us, by benchmark and bytes."""
    times, benchmark = {}, None
    for line in text.splitlines():
        if heading := re.match(r"# Benchmarking (\w+)", line):
            benchmark = heading.group(1)
            continue
        numbers = line.split()
        if not benchmark or not re.fullmatch(r"[\d.\s]+", line) or len(numbers) not in (4, 5):
            continue
        # A barrier has no bytes. The last columns: least, most and mean over ranks.
        size = int(numbers[0]) if len(numbers) == 5 else 0
        times[benchmark, size] = float(numbers[-2])
    return times


def split(words):
    """The launcher's words and the program's."""
    end = words.index("--")
    return words[:end], words[end + 1 :]


def run(launcher, program, options, library):
    """One run, with ferrorail if a library is given."""
    preload = []
    with tempfile.NamedTemporaryFile(suffix=".json") as statistics:
        if library:
            preload = ["env", f"LD_PRELOAD={library}", f"FERRORAIL_STATS={statistics.name}"]
        command = launcher + preload + program + options
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        times = parse(done.stdout)
        if not times:
            sys.exit(f"{' '.join(command)}: no times\n{done.stdout[-2000:]}")
        if library:
            with open(statistics.name, encoding="utf-8") as file:
                text = file.read()
            if not text or not json.loads(text)["collectives"]:
                sys.exit("ferrorail carried no call; FERRORAIL_LOG=info says why")
    return times


def least(runs):
    """The minimum of each cell that all runs have."""
    cells = set.intersection(*(set(times) for times in runs))
    return {cell: min(times[cell] for times in runs) for cell in cells}


def report(host, ours):
    """Prints all cells, the mean of each benchmark, and what is slower; returns rows for JSON."""
    print(f"{'# Benchmark':<22} {'bytes':>9} {'ferrorail us':>13} {'host us':>13} {'ratio':>7}")
    rows = []
    for cell in sorted(set(host) & set(ours)):
        if host[cell] > 0 and ours[cell] > 0:
            rows.append((*cell, ours[cell], host[cell], ours[cell] / host[cell]))
    for name, size, mine, theirs, ratio in rows:
        print(f"{name:<22} {size:>9} {mine:>13.2f} {theirs:>13.2f} {ratio:>7.3f}")
    print("#\n# Geometric means of the ratios")
    for name in sorted({row[0] for row in rows}):
        print(f"# {name:<30} {geometric_mean([row[4] for row in rows if row[0] == name]):>7.3f}")
    print(f"# {'all':<30} {geometric_mean([row[4] for row in rows]):>7.3f}")
    slower = [row for row in rows if row[4] > SLOWER]
    print(f"# Cells slower than {SLOWER} times the host's: {len(slower)} of {len(rows)}")
    keys = ("benchmark", "bytes", "ferrorail_us", "host_us", "ratio")
    return [dict(zip(keys, row)) for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--sizes", default="2:20")
    parser.add_argument("--json")
    parser.add_argument("--suite", choices=COLLECTIVES, default="MPI1")
    parser.add_argument("--benchmarks", nargs="+")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    launcher, program = split(args.command[1:] if args.command[0] == "--" else args.command)
    benchmarks = args.benchmarks or COLLECTIVES[args.suite].split()
    options = [*benchmarks, "-npmin", str(args.ranks), "-msglog", args.sizes, "-time", "0.5"]
    host, ours = [], []
    for number in range(1, args.runs + 1):
        print(f"run {number} of {args.runs}", file=sys.stderr)
        host.append(run(launcher, program, options, None))
        ours.append(run(launcher, program, options, args.library))
    rows = report(least(host), least(ours))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"ranks": args.ranks, "runs": args.runs, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
