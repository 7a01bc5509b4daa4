"""What `scripts/margins --plain` says of the plain programs of `ferrorail bench --plain`."""

from statistics import geometric_mean

# How the names of their rows begin.
PREFIX = "plain_"
# A cell has up to three of them beside ours, which is measured for as long with them.
BUDGET = 2.5
# So many cells are listed that are furthest behind them.
FURTHEST = 20


class Row:
    """One cell: our least time, that of the best host, and the blocks of each plain program."""

    def __init__(self, collective, size, ours, theirs, ways):
        self.collective, self.size, self.ours, self.theirs = collective, size, ours, theirs
        self.way = min(ways, key=lambda way: min(ways[way]))
        self.plain = min(ways[self.way])

    def ratio(self):
        return self.ours / self.plain


def report(rows):
    """Prints means of all cells, and the cells furthest behind; returns the means for JSON, None without cells."""
    if not rows:
        return None
    means = {
        "plain": geometric_mean(row.plain / row.theirs for row in rows),
        "ferrorail": geometric_mean(row.ours / row.theirs for row in rows),
        "by_plain": geometric_mean(row.ratio() for row in rows),
        "cells": len(rows),
    }
    print(
        f"# Plain programs over the best of all {means['plain']:.3f}, ours {means['ferrorail']:.3f}; "
        f"ours over plain programs {means['by_plain']:.3f}; {len(rows)} cells"
    )
    print(f"# {'collective':<20} {'bytes':>8} {'ours us':>11} {'plain us':>11} {'ratio':>7} {'of':<14} {'best host':>9}")
    for row in sorted(rows, key=Row.ratio, reverse=True)[:FURTHEST]:
        times = f"{row.ours:>11.3f} {row.plain:>11.3f} {row.ratio():>7.3f}"
        print(f"# {row.collective:<20} {row.size:>8} {times} {row.way:<14} {row.theirs:>9.3f}")
    return means
