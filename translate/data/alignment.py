"""Evaluation sets whose two sides have slipped: runs of lines that belong to a neighbour's.

Line n of both files should be one pair. Where a sentence has been cut in two on one side only, and
two have been joined further down, the sides keep equally many lines, and all pairs in between are
wrong. Scores on them mean nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from translate.data.lines import Split

REACH = 3  # lines that a run may be off by
OFFSETS = np.arange(-REACH, REACH + 1)
MOVES = [(1, 1), *((1 + k, 1) for k in range(1, REACH + 1)),
         *((1, 1 + k) for k in range(1, REACH + 1))]  # German and English lines of a bead
SLIP = 8.0  # nats for a bead of several lines: one in 3,000 by chance
FREE = 0.01  # the share of translations whose length says nothing
REPAIRED = "-repaired"  # ends the name of a realigned set: its scores are not the official one's


class Bead(NamedTuple):
    """Lines, counted from 0, that are each other's translation and no others'."""

    german: range
    english: range


def checked(split: Split, repair: bool) -> Split:
    """The set with a note on each run of shifted lines; realigned, and named so, if `repair`.

    No text is lost: lines too many on a side become part of a neighbour.
    """
    german, english = list(split.german), list(split.english)
    beads = align(german, english)
    runs = [list(run) for shifted, run in groupby(beads, lambda bead: bead.german != bead.english)
            if shifted]
    if not runs:
        return split
    if not repair:
        return replace(split, notes=[*split.notes, *(
            f"{split.source}: {_symptom(run)}; scores on them mean nothing until --repair "
            "(data.repair=true) realigns them" for run in runs)])
    return replace(
        split, name=split.name + REPAIRED,
        german=[_joined(german, bead.german) for bead in beads],
        english=[_joined(english, bead.english) for bead in beads],
        dropped={**split.dropped, "joined to a neighbour": len(german) - len(beads)},
        notes=[*split.notes, *(f"{split.source}: {_changes(run)}" for run in runs)])


def align(german: Sequence[str], english: Sequence[str]) -> list[Bead]:
    """The likeliest beads of two sides with equally many lines (Gale and Church 1993).

    Each character of a line gives rise to c characters of its translation, with variance s²: for
    x German and y English characters, (y - c x) / (s √x) is standard normal. Both are estimated
    from the lines as they stand, s by the median, which a run of wrong pairs cannot move far. Of
    all ways to cut the sides into beads, never more than REACH lines apart, dynamic programming
    finds the likeliest.

    Unlike those of the paper, these sides are aligned but for a mishap. So a bead of several lines
    costs much (SLIP) and pays only where it sets many pairs right, one pair can say only so much
    (FREE), and no line goes without a partner.
    """
    n = len(german)
    if n == 0:
        return []
    # Of k lines of a side: their characters, with one more a line, so that none is empty.
    totals = [np.cumsum([0.0, *(len(line) + 1 for line in side)]) for side in (german, english)]
    c = totals[1][n] / totals[0][n]
    x, y = np.diff(totals[0]), np.diff(totals[1])
    s = max(1.0, 1.4826 * float(np.median(np.abs(y - c * x) / np.sqrt(x))))
    costs = [_costs(totals, move, c, s) for move in MOVES]

    # best[i, REACH + k]: the least cost of i German and i - OFFSETS[k] English lines; infinite at
    # the edges. last[i, k]: the move that it ends with.
    width = len(OFFSETS)
    best = np.full((n + 1, width + 2 * REACH), np.inf)
    best[0, 2 * REACH] = 0.0
    last = np.zeros((n + 1, width), dtype=int)
    for i in range(1, n + 1):
        reached = np.array([best[max(0, i - a), REACH + b - a:][:width] + cost[i]
                            for (a, b), cost in zip(MOVES, costs, strict=True)])
        best[i, REACH:-REACH] = reached.min(axis=0)
        last[i] = reached.argmin(axis=0)

    beads = []
    i = j = n
    while i:
        a, b = MOVES[last[i, i - j + REACH]]
        beads.append(Bead(range(i - a, i), range(j - b, j)))
        i, j = i - a, j - b
    return beads[::-1]


def _costs(totals: list[NDArray[np.float64]], move: tuple[int, int], c: float, s: float,
           ) -> NDArray[np.float64]:
    """What the bead that ends at [i, k], as in `align`, costs in nats.

    Infinite where there are not so many German lines. English lines that there are not do no harm:
    no way from the sides' beginning to their end leads there.
    """
    (a, b), n = move, len(totals[0]) - 1
    i = np.arange(n + 1)[:, None]
    j = i - OFFSETS
    x = np.maximum(1.0, totals[0][i] - totals[0][np.maximum(i - a, 0)])
    y = totals[1][np.clip(j, 0, n)] - totals[1][np.clip(j - b, 0, n)]
    misfit = (y - c * x) / (s * np.sqrt(x))
    cost = -np.log((1 - FREE) * np.exp(-misfit ** 2 / 2) + FREE) + SLIP * (a != b)
    return np.where(i < a, np.inf, cost)


def _joined(lines: Sequence[str], numbers: range) -> str:
    return " ".join(lines[i] for i in numbers if lines[i])


def _symptom(run: Sequence[Bead]) -> str:
    """Such as: lines 907-978 (72 pairs) look shifted: German line n belongs to English line n-1."""
    first, last = run[0].german.start + 1, run[-1].german.stop  # where the sides meet again
    # The first bead begins where the sides are still level.
    by = Counter(bead.german.start - bead.english.start for bead in run[1:]).most_common(1)[0][0]
    return (f"lines {first}-{last} ({last - first + 1} pairs) look shifted: German line n belongs "
            f"to English line n{-by:+d}")


def _changes(run: Sequence[Bead]) -> str:
    """Such as: realigned lines 907-978, 72 pairs to 71 (German = English): 907+908 = 907, …"""
    first, last = run[0].german.start + 1, run[-1].german.stop
    parts = []
    for (_, single), group in groupby(run, lambda bead: (
            bead.german.start - bead.english.start, len(bead.german) == len(bead.english))):
        german, english = zip(*group, strict=True)
        parts.append(f"{_numbers(german, single)} = {_numbers(english, single)}")
    return (f"realigned lines {first}-{last}, {last - first + 1} pairs to {len(run)} "
            f"(German = English): {', '.join(parts)}")


def _numbers(ranges: Sequence[range], span: bool) -> str:
    """Lines counted from 1: the first and the last of a span, or each of a sum."""
    numbers = [number + 1 for lines in ranges for number in lines]
    return ("-".join(map(str, sorted({numbers[0], numbers[-1]}))) if span
            else "+".join(map(str, numbers)))
