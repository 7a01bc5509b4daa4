#!/usr/bin/env python3
"""Runs `ferrorail bench` under several host MPIs by turns, and compares ours with each host and with the best.

    margins.py --program FERRORAIL --host NAME=LAUNCHER [--host ...] [OPTION...]

A round is a short run of each collective, under all hosts before the next collective: a machine that is slow for
some seconds is so for all. Of a cell (ranks, buffers, collective, bytes) the least block of all rounds counts. Exits
with 1 if a run failed.
"""

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from statistics import geometric_mean

import plain_programs

COLLECTIVES = (
    "barrier bcast gather gatherv scatter scatterv allgather allgatherv alltoall alltoallv allreduce reduce "
    "reduce_scatter reduce_scatter_block scan exscan"
).split()
SLOWER = 1.1
# Above its bound a cell may be by so much, an all-gather of 8 bytes above the round trip of a cache line by that.
NEAR = 1.2
NEAR_ROUND_TRIP = 1.5


class Failure(Exception):
    """Why there are no numbers of a run."""


class Cell:
    """What was measured of one cell under one host, in all rounds."""

    def __init__(self):
        self.ours, self.theirs = [], []
        self.forwarded = False
        # Of each run: our least, and what the machine needs at least.
        self.bounds = []

    def add(self, row):
        ours = row["ferrorail"]["blocks_us"]
        self.ours += ours
        self.theirs += row["host"]["blocks_us"]
        self.forwarded |= row["forwarded"]
        if row["bound_us"]:
            self.bounds.append((min(ours), row["bound_us"]))

    def ratio(self, of):
        """Ours by the host's; `of` is min or statistics.median."""
        return of(self.ours) / of(self.theirs)

    def bound(self):
        """The run that is the middle one by how near it is to the bound."""
        by_ratio = sorted(self.bounds, key=lambda pair: pair[0] / pair[1])
        return by_ratio[(len(by_ratio) - 1) // 2] if by_ratio else None

    def json(self):
        def timing(blocks):
            return {"min_us": min(blocks), "median_us": statistics.median(blocks)}

        return {
            "ferrorail": timing(self.ours),
            "host": timing(self.theirs),
            "ratio_of_minima": self.ratio(min),
            "ratio_of_medians": self.ratio(statistics.median),
            "blocks": len(self.ours),
            "forwarded": self.forwarded,
            "bounds": [{"ferrorail_us": ours, "bound_us": bound} for ours, bound in self.bounds],
        }


class Measured:
    """All of one number of ranks."""

    def __init__(self):
        # (buffers, collective, bytes) to {host: Cell}.
        self.cells = defaultdict(lambda: defaultdict(Cell))
        # Of each host: why and from which collectives on it is left out.
        self.left_out = {}
        # Of each host: what it calls itself.
        self.versions = {}
        # Of each cell: the blocks of each plain program, in the runs under the first host.
        self.plain = defaultdict(lambda: defaultdict(list))

    def add(self, host, report):
        self.versions[host] = report["mpi"]["version"]
        for row in report["rows"]:
            cell = row["buffers"], row["collective"], row["bytes"]
            if row["algorithm"].startswith(plain_programs.PREFIX):
                self.plain[cell][row["algorithm"]] += row["ferrorail"]["blocks_us"]
            else:
                self.cells[cell][host].add(row)


def best(hosts, first, of=min):
    """Of one cell: the quickest host, its time and ours under `first`; None where there is none."""
    if first not in hosts or hosts[first].forwarded:
        return None
    name = min(hosts, key=lambda host: of(hosts[host].theirs))
    return name, of(hosts[name].theirs), of(hosts[first].ours)


def hardest(hosts, of=min):
    """Of one cell: the largest ratio of ours to a host's, both of the runs under that host, and which; or None."""
    taken = [(cell.ratio(of), name) for name, cell in hosts.items() if not cell.forwarded]
    return max(taken, default=None)


def stop(process):
    """Launchers pass SIGTERM on to their ranks; one that does not end is killed with its process group."""
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(launcher, program, limit):
    """The report of one run of `program`, a `ferrorail bench`."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*launcher, *program, "--json", file.name]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            stop(process)
            raise Failure(f"a run took more than {limit:g} s") from None
        except KeyboardInterrupt:
            stop(process)
            raise
        if process.returncode:
            print(f"{shlex.join(command)}\n{output[-2000:]}", file=sys.stderr)
            raise Failure(f"a run ended with {process.returncode}")
        return json.load(file)


def cores():
    return len(os.sched_getaffinity(0))


def launcher_of(name, words, ranks):
    """Open MPI wants to be told that ranks share cores, and binds none of them then."""
    crowded = name.startswith("openmpi") and ranks > cores()
    return [*words, *(["--oversubscribe"] if crowded else []), "-n", str(ranks)]


def measure(args, ranks):
    measured = Measured()
    limit = args.limit or 20 + 10 * ranks
    options = ["--bytes", args.sizes, "--buffers", args.buffers, "--budget", str(args.budget)]
    plain = [*options[:-1], str(round(plain_programs.BUDGET * args.budget)), "--plain"]
    for number in range(args.rounds):
        # Another host is the first in each round.
        turns = args.host[number % len(args.host) :] + args.host[: number % len(args.host)]
        for collective in args.collectives:
            print(f"{ranks} ranks, round {number + 1} of {args.rounds}: {collective}", file=sys.stderr)
            for name, words in turns:
                if name in measured.left_out:
                    continue
                with_plain = args.plain and name == args.host[0][0]
                program = [args.program, "bench", collective, *(plain if with_plain else options)]
                try:
                    measured.add(name, run(launcher_of(name, words, ranks), program, limit))
                except Failure as failure:
                    reason = f"{failure}; left out from {collective} on in round {number + 1}"
                    measured.left_out[name] = reason
                    print(f"{name}: {reason}", file=sys.stderr)
    return measured


def of_buffers(measured, buffers):
    """Cells with such buffers. A barrier has none: it is in the table of each choice."""
    found = {}
    for (kind, collective, size), hosts in measured.cells.items():
        if collective == "barrier" or kind == buffers:
            found[collective, size] = hosts
    order = {name: index for index, name in enumerate(COLLECTIVES)}
    return dict(sorted(found.items(), key=lambda item: (order[item[0][0]], item[0][1])))


def summary(name, minima, medians):
    """One line of the table of hosts, and the same for JSON."""
    slower = sum(ratio > SLOWER for ratio in minima)
    if not minima:
        print(f"{name:<16} {'-':>8} {'-':>8} {0:>6} {'-':>6}")
        return None
    print(f"{name:<16} {geometric_mean(minima):>8.3f} {geometric_mean(medians):>8.3f} {len(minima):>6} {slower:>6}")
    return {
        "minima": geometric_mean(minima),
        "medians": geometric_mean(medians),
        "cells": len(minima),
        "slower": slower,
    }


def print_hosts(cells, names):
    """Ours over each host, each as measured in its own runs, and over the best of all in each cell: of ours under
    the first host, and of the runs under the host that we are furthest behind."""
    print(f"{'# ours over':<16} {'minima':>8} {'medians':>8} {'cells':>6} {'> ' + str(SLOWER):>6}")
    found = {}
    for name in names:
        own = [hosts[name] for hosts in cells.values() if name in hosts and not hosts[name].forwarded]
        ratios = [[cell.ratio(of) for cell in own] for of in (min, statistics.median)]
        found[name] = summary(name, *ratios)
    compared, paired = [], []
    for of in (min, statistics.median):
        against = [best(hosts, names[0], of) for hosts in cells.values()]
        compared.append([ours / theirs for _, theirs, ours in filter(None, against)])
        largest = [hardest(hosts, of) for hosts in cells.values()]
        paired.append([ratio for ratio, _ in filter(None, largest)])
    found["best"] = summary("best of all", *compared)
    found["best_same_runs"] = summary("best, same runs", *paired)
    return found


def print_collectives(cells, first):
    """The means over the best of all, of minima, of each collective."""
    ratios = defaultdict(list)
    for (collective, _), hosts in cells.items():
        if against := best(hosts, first):
            ratios[collective].append(against[2] / against[1])
    words = [f"{collective} {geometric_mean(of):.2f}" for collective, of in ratios.items()]
    print("# Over the best of all: " + (", ".join(words) or "nothing"))


def print_slower(cells, first):
    """Cells slower than the best of all, worst first."""
    rows = []
    for (collective, size), hosts in cells.items():
        if against := best(hosts, first):
            name, theirs, ours = against
            same = hardest(hosts)
            rows.append((ours / theirs, collective, size, ours, theirs, name, *same))
    slower = sorted((row for row in rows if row[0] > SLOWER), reverse=True)
    print(f"# Cells above {SLOWER} times the best host's: {len(slower)} of {len(rows)}")
    if slower:
        print(f"# {'collective':<20} {'bytes':>8} {'ours us':>11} {'best us':>11} {'ratio':>7} {'of':<11} same runs")
    for ratio, collective, size, ours, theirs, name, same, of in slower:
        cell = f"{collective:<20} {size:>8} {ours:>11.3f} {theirs:>11.3f}"
        print(f"# {cell} {ratio:>7.3f} {name:<11} {same:.3f} {of}")


def print_bounds(cells, first):
    """Cells of which the machine's bound is known, each in the middle one of the first host's runs."""
    rows = []
    for (collective, size), hosts in cells.items():
        if first in hosts and (pair := hosts[first].bound()):
            rows.append((collective, size, *pair, best(hosts, first)))
    if rows:
        print(f"# {'collective':<20} {'bytes':>8} {'ours us':>11} {'bound us':>11} {'ratio':>7} {'best host':>11}")
    for collective, size, ours, bound, against in rows:
        theirs = f"{against[1] / bound:>11.3f}" if against else f"{'-':>11}"
        print(f"# {collective:<20} {size:>8} {ours:>11.3f} {bound:>11.3f} {ours / bound:>7.3f} {theirs}")
    long = [ours / bound for _, size, ours, bound, _ in rows if size >= 1 << 20]
    if long:
        near = sum(ratio <= NEAR for ratio in long)
        print(f"# Cells of 1 MB and more within {NEAR} times the bound: {near} of {len(long)}")


def print_plain(cells, plain, first):
    """How far ours, and plain programs, are from the best of all in the cells that have both."""
    rows = []
    for (collective, size), hosts in cells.items():
        against, ways = best(hosts, first), plain.get((collective, size))
        if against and ways:
            _, theirs, ours = against
            rows.append(plain_programs.Row(collective, size, ours, theirs, ways))
    return plain_programs.report(rows)


def print_round_trip(cells, first, ranks):
    """How near an all-gather of 8 bytes is to the round trip of a cache line, of which its bound is half."""
    hosts = cells.get(("allgather", 8), {})
    pair = hosts[first].bound() if first in hosts and ranks == 2 <= cores() else None
    if pair:
        ours, trip = pair[0], 2 * pair[1]
        verdict = "within" if ours <= NEAR_ROUND_TRIP * trip else "above"
        print(
            f"# All-gather of 8 bytes: {ours:.3f} us, {ours / trip:.2f} of the round trip of a cache line "
            f"({trip:.3f} us), {verdict} {NEAR_ROUND_TRIP}"
        )


def report(measured, ranks, args):
    """Prints the tables of one number of ranks; returns them for JSON."""
    names = [name for name, _ in args.host]
    summaries = {}
    for buffers in args.buffers.split(","):
        cells = of_buffers(measured, buffers)
        print(f"\n# {ranks} ranks, {buffers} buffers; ours beside the best of all is that under {names[0]}")
        summaries[buffers] = print_hosts(cells, names)
        for name, reason in measured.left_out.items():
            print(f"# {name}: {reason}")
        print_collectives(cells, names[0])
        print_slower(cells, names[0])
        print_bounds(cells, names[0])
        print_round_trip(cells, names[0], ranks)
        plain = {key[1:]: ways for key, ways in measured.plain.items() if key[0] == buffers or key[1] == "barrier"}
        summaries[buffers]["plain"] = print_plain(cells, plain, names[0])
    rows = []
    for (buffers, collective, size), hosts in measured.cells.items():
        against = best(hosts, names[0])
        rows.append(
            {
                "buffers": None if collective == "barrier" else buffers,
                "collective": collective,
                "bytes": size,
                "best": against and dict(zip(("host", "host_us", "ferrorail_us"), against)),
                "ratio": against and against[2] / against[1],
                "same_runs": dict(zip(("ratio", "host"), hardest(hosts) or ())) or None,
                "hosts": {name: cell.json() for name, cell in hosts.items()},
                "plain_us": {way: min(of) for way, of in measured.plain[buffers, collective, size].items()},
            }
        )
    return {
        "ranks": ranks,
        "versions": measured.versions,
        "left_out": measured.left_out,
        "summaries": summaries,
        "cells": rows,
    }


def host_of(text):
    """NAME=LAUNCHER, whose words are quoted as for a shell."""
    name, _, words = text.partition("=")
    return name, shlex.split(words)


def words_of(text):
    return text.split(",")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--host", action="append", type=host_of, required=True)
    parser.add_argument("--ranks", type=lambda text: [int(word) for word in text.split(",")], default=[2])
    parser.add_argument("--buffers", default="warm,rotating")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--sizes", default="4,8,16:4M:4")
    parser.add_argument("--collectives", type=words_of, default=COLLECTIVES)
    parser.add_argument("--budget", type=int, default=30)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    if unknown := set(args.collectives) - set(COLLECTIVES):
        parser.error(f"--collectives: {', '.join(sorted(unknown))} is none of {', '.join(COLLECTIVES)}")
    return args


def main():
    args = parse()
    # hwloc's plugins look for devices that nothing here needs, in each rank.
    os.environ["HWLOC_PLUGINS_PATH"] = "/nonexistent"
    reports, failed = [], False
    for ranks in args.ranks:
        measured = measure(args, ranks)
        failed |= any("ended with" in reason for reason in measured.left_out.values())
        reports.append(report(measured, ranks, args))
        sys.stdout.flush()
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump({"rounds": args.rounds, "budget_ms": args.budget, "jobs": reports}, file, indent=1)
    sys.exit(failed)


if __name__ == "__main__":
    main()
