"""Changes among runs: what became slower or faster, where and since when, with few false alarms.

At each place between two positions of a series the mean before and after is compared in every cell, in units of its
noise. The largest of these differences, over all cells and places, is compared with the largest ones after many random
shuffles of the runs: if no run differs from the others but by noise, an alarm is raised in no more than the stated
share of series, however many cells there are and however their noise is distributed (Westfall and Young 1993). The unit
of noise is that of the cell and that of its property together, since few repetitions tell little about one cell (after
Tusher, Tibshirani and Chu 2001). If a change is found, the runs before and after it are examined separately.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracecols.runs.series import Floats, Series
from tracecols.vectors import Ints

SHUFFLES = 999
"""How often the runs of a series are shuffled."""


@dataclass(frozen=True)
class CellChange:
    """A cell that changed."""

    property: str
    title: str
    call_path: str
    before: float
    after: float
    """`before` and `after`: means of the runs on both sides, in the unit of the property."""


@dataclass(frozen=True)
class Change:
    """A change in a series of runs."""

    since: int
    """Position of the first run after it."""
    label: str
    """Label of that position."""
    chance: float
    """How often noise alone differs by as much somewhere: the p-value, corrected for all cells and places."""
    before: float
    after: float
    """`before` and `after`: means of the totals on both sides, up to the changes before and after this one."""
    cells: list[CellChange]
    """The cells that differ by more than noise, largest changes first; empty if only the total does."""


@dataclass(frozen=True, eq=False)
class Examined:
    """The cells that are examined, preceded by the total."""

    relative: Floats
    """(n_runs, 1 + n_cells) float64: values divided by their means, minus 1."""
    kind: Ints
    """(1 + n_cells,) int64: number of the property."""
    cells: Ints
    """(n_cells,) int64: numbers of the cells in the series."""


def find_changes(series: Series, rate: float = 0.05, min_share: float = 0.001) -> list[Change]:
    """Find the changes in a series, by position; `rate` is how often an alarm may be false in a series without any
    change. Cells with less than `min_share` of the total in all runs are left out."""
    looked_at = series.looked_at(min_share)
    # the total is a cell, too: many small changes may add up
    values = np.column_stack([series.totals, series.cells[:, looked_at]])
    means = values.mean(axis=0)
    relative = values / np.where(means > 0, means, 1) - (means > 0)
    kind = np.unique(np.array(["", *(series.properties[i] for i in looked_at.tolist())]), return_inverse=True)[1]
    found = list(_split(series, Examined(relative, kind, looked_at), np.arange(len(series.runs)), rate))
    return sorted(found, key=lambda change: change.since)


def _split(series: Series, looked: Examined, part: Ints, rate: float) -> Iterator[Change]:
    """Find the largest change in a part of the runs, and those before and after it."""
    positions = series.position[part]
    splits = np.flatnonzero(np.diff(positions)) + 1
    if part.size < 3 or not splits.size:
        return
    values = looked.relative[part]
    common = common_noise(values, looked.kind)
    differences = distances(values, common, splits)
    largest = shuffled(values, common, splits)
    by_split = differences.max(axis=1)
    at = int(by_split.argmax())
    chance = (1 + int((largest >= by_split[at]).sum())) / (1 + largest.size)
    if chance > rate:
        return
    before, after = part[: splits[at]], part[splits[at] :]
    limit = np.sort(largest)[max(math.ceil((1 - rate) * (largest.size + 1)) - 1, 0)]
    cells = looked.cells[np.flatnonzero(differences[at, 1:] >= limit)]
    yield _change(series, before, after, chance, cells)
    yield from _split(series, looked, before, rate)
    yield from _split(series, looked, after, rate)


def _change(series: Series, before: Ints, after: Ints, chance: float, cells: Ints) -> Change:
    was, is_now = series.cells[before].mean(axis=0), series.cells[after].mean(axis=0)
    order = cells[np.argsort(-np.abs(is_now[cells] - was[cells]), kind="stable")]
    since = int(series.position[after[0]])
    return Change(
        since,
        series.labels[since],
        chance,
        float(series.totals[before].mean()),
        float(series.totals[after].mean()),
        [
            CellChange(series.properties[i], series.titles[i], series.call_paths[i], float(was[i]), float(is_now[i]))
            for i in order.tolist()
        ],
    )


def common_noise(values: Floats, kind: Ints) -> Floats:
    """Return the median of the standard deviations of all cells of the same kind; (n_cells,) float64.

    It does not depend on the order of the runs.
    """
    deviation = values.std(axis=0, ddof=1)
    median = np.array([np.median(deviation[kind == i]) for i in range(int(kind.max()) + 1)])
    result: Floats = median[kind]
    return result


def distances(values: Floats, common: Floats, splits: Ints) -> Floats:
    """Return how far the means before and after each split, given as the first run after it, are apart, in units of
    noise (`common_noise`).

    `values`, (n_runs, n_cells), are divided by their means, minus 1.
    """
    n = len(values)
    before, after = splits[:, None].astype(np.float64), n - splits[:, None].astype(np.float64)
    sums, squares = np.cumsum(values, axis=0), (values**2).sum(axis=0)
    first = sums[splits - 1] / before
    second = (sums[-1] - sums[splits - 1]) / after
    within = np.maximum(squares - before * first**2 - after * second**2, 0) / (n - 2)
    noise = (np.sqrt(within) + common) * np.sqrt(1 / before + 1 / after)
    # without any noise, rounding is no change
    return np.abs(second - first) / np.maximum(noise, 1e-9)


def shuffled(values: Floats, common: Floats, splits: Ints) -> Floats:
    """Return the largest distance in each of many random orders of the runs; (`SHUFFLES`,) float64."""
    rng = np.random.default_rng(0)
    return np.array([distances(values[rng.permutation(len(values))], common, splits).max() for _ in range(SHUFFLES)])


def too_few(series: Series, rate: float) -> str:
    """Return a message if there are too few runs to distinguish changes from noise, else an empty text."""
    sizes = series.sizes
    if sizes.size != 2 or 2 / math.comb(int(sizes.sum()), int(sizes[0])) <= rate:
        return ""
    return (
        f"{sizes[0]} and {sizes[1]} runs are too few to distinguish changes from noise with false alarms in at most "
        f"{rate:.3g} of all series; for 0.05, record both at least four times"
    )
