#!/usr/bin/env python3
"""Prints what ferrorail gains on this machine, as a table.

    gains.py APPLICATIONS.json COLLECTIVES.json...

The files are those of `ferrorail bench --json`: one of `bench apps`, and one for each number of ranks. A gain is
the host MPI's time over ferrorail's: of collectives the geometric mean over their sizes, of medians; of
applications that of whole runs on natural nodes, of the least disturbed run of either.
"""

import json
import sys
from collections import defaultdict


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def of_collectives(runs):
    """(collective and kind of buffers) to {ranks: gain}."""
    gains = defaultdict(dict)
    for run in runs:
        for name, ratio in run["geometric_means"].items():
            gains[name][run["ranks"]] = 1 / ratio
    return gains


def of_applications(run):
    """Application to {ranks: gain}."""
    least = defaultdict(dict)
    for row in run["rows"]:
        if row["nodes"] == "natural":
            least[row["application"], row["ranks"]][row["by"]] = min(row["total_us"])
    gains = defaultdict(dict)
    for (name, ranks), by in least.items():
        gains[f"application {name}"][ranks] = by["host"] / by["ferrorail"]
    return gains


def main(paths):
    if len(paths) < 2:
        sys.exit(__doc__)
    gains = of_collectives(map(read, paths[1:])) | of_applications(read(paths[0]))
    ranks = sorted({count for by_ranks in gains.values() for count in by_ranks})
    width = max(map(len, gains))
    print(" " * width, *(f"{count:3} ranks" for count in ranks))
    for name, by_ranks in gains.items():
        cells = (f"{by_ranks[count]:7.2f} x" if count in by_ranks else " " * 9 for count in ranks)
        print(f"{name:{width}}", *cells)


if __name__ == "__main__":
    main(sys.argv[1:])
