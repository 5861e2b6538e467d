"""Two runs drawn below each other: the alignment of their times, and the shares of time that each spends on an
activity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.given.printable import printable
from tracecols.once import once
from tracecols.severity.axes import SystemAxis
from tracecols.severity.cube import SeverityCube
from tracecols.timeline.answers import Answer, QuestionError, Timeline, until
from tracecols.timeline.folded import Folds, Instances
from tracecols.timeline.rows import Row
from tracecols.timeline.trees import Trees
from tracecols.work.memory import Budget

WAYS = {"focus": "the beginning of the focus", "start": "the first event", "phase": "an instance of a phase or region"}
"""Ways to align two runs, with their names for people."""

FARTHEST = 1 << 62
"""Largest time, in ticks since the first event, at which runs can be aligned: differences fit into 64 bits."""


@dataclass(frozen=True)
class Run:
    """A run being shown, with the objects that answer questions about it."""

    timeline: Timeline
    trees: Trees
    folds: Folds

    @classmethod
    def of(
        cls,
        timeline: Timeline,
        jobs: int | None = None,
        budget: Budget | None = None,
        whole: SeverityCube | None = None,
    ) -> Run:
        """Make the objects for a timeline; they use all cores by default. `whole` is as of `Trees`."""
        return cls(timeline, Trees(timeline, jobs, budget, whole), Folds(timeline, jobs, budget))


@dataclass(frozen=True)
class Alignment:
    """Two times that are drawn below each other; both runs have the same scale in seconds."""

    first: int
    second: int
    """`first` and `second`: ticks since the first event of each run."""
    resolutions: tuple[int, ...]
    """Ticks per second of both."""

    def in_second(self, ticks: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the times of the second run that are drawn below times of the first one; exact to the tick if both
        have the same resolution."""
        own, other = self.resolutions
        since = ticks - self.first
        scaled: NDArray[np.float64] = since.astype(np.float64) if own == other else since * np.float64(other / own)
        return self.second + scaled


def kth_begin(instances: Instances, k: int) -> int | None:
    """Return the earliest begin over all locations, in ticks, of the k-th instance of a phase, counted from 0 on each
    location; None if no location has that many."""
    begin = instances.begin[instances.number == k]
    return int(begin.min()) if begin.size else None


def focus_begin(timeline: Timeline) -> int:
    """Return the time at which the first process enters the focus, in ticks since the first event; 0 if the focus is
    the whole run."""
    focus = OpenedTrace(timeline.store).focus
    return 0 if focus is None else int(focus[:, 0].min()) - timeline.first


def matched_rows(first: Sequence[Row], second: Sequence[Row], axes: tuple[SystemAxis, SystemAxis]) -> NDArray[np.int64]:
    """Return for each row of the second run the row of the first one that holds the same locations; -1 if there is
    none.

    Locations are the same if they have the same rank and thread number; if several have, they are matched in their
    order. The first rows, which hold all locations, always match.
    """
    known: dict[tuple[int, int, int], int] = {key: i for i, key in enumerate(_keys(axes[0]))}
    same = np.array([known.get(key, -1) for key in _keys(axes[1])], np.int64)
    holding = {tuple(sorted(row.locations.tolist())): i for i, row in enumerate(first)}
    found = [holding.get(tuple(sorted(same[row.locations].tolist())), -1) for row in second]
    return np.array([0, *found[1:]], np.int64)


def _keys(axis: SystemAxis) -> list[tuple[int, int, int]]:
    """Return, for each location, rank, thread, and its number among locations of this rank and thread, from 0."""
    n_of: dict[tuple[int, int], int] = {}
    found = []
    for key in zip(axis.rank.tolist(), axis.thread.tolist(), strict=True):
        found.append((*key, n_of.get(key, 0)))
        n_of[key] = n_of.get(key, 0) + 1
    return found


def spread(ticks: NDArray[np.int64], edges: NDArray[np.int64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Redistribute ticks from bins to other time intervals; the ticks of a divided bin are spread evenly.

    `at` (m + 1,) are the bounds of the intervals, within the edges of the bins. The result, (n, m), is exact where they
    coincide with edges.
    """
    before = np.concatenate([np.zeros((ticks.shape[0], 1), np.int64), np.cumsum(ticks, axis=1)], axis=1)
    return np.array([np.diff(np.interp(at, edges, row)) for row in before]).reshape(ticks.shape[0], at.size - 1)


class Comparison:
    """Answers questions about two runs."""

    def __init__(self, first: Run, second: Run) -> None:
        self._runs = (first, second)
        self._timelines = one, other = first.timeline, second.timeline
        self._resolutions = tuple(int(t.store.manifest["clock"]["resolution"]) for t in self._timelines)
        self._row_of = matched_rows(one.rows, other.rows, (SystemAxis.of(one.store), SystemAxis.of(other.store)))

    @once
    def _begin_of_focus(self) -> tuple[int, int]:
        """When the focus of each run begins, in ticks since its first event."""
        one, other = self._timelines
        return focus_begin(one), focus_begin(other)

    def alignment(self, way: str, phase: str = "", k: int = 0) -> tuple[Alignment, dict[str, object]]:
        """Find the alignment of the two runs.

        `way` is one of `WAYS`; `phase` is an argument of `tracecols analyze --phases`, by default the first proposal of
        `tracecols phases` for the first run; `k` is the number of its instance, from 0. For phases, also returns
        `phase`, `k`, and `n`, for each run the largest number of instances on a location. Raises QuestionError if there
        is no such way or instance. Raises AnalysisError if a run has no such phase.
        """
        if way not in WAYS:
            raise QuestionError(f"two runs are aligned by {', '.join(WAYS)}, not by {way}")
        if way == "start":
            return Alignment(0, 0, self._resolutions), {}
        if way == "focus":
            return Alignment(*self._begin_of_focus, self._resolutions), {}
        words, of_first = self._runs[0].folds.instances(phase)
        _, of_second = self._runs[1].folds.instances(words)
        n = [int(found.number.max()) + 1 for found in (of_first, of_second)]
        begins = []
        for timeline, found, which, count in zip(self._timelines, (of_first, of_second), "AB", n, strict=True):
            begin = kth_begin(found, k)
            if begin is None:
                raise QuestionError(f"run {which} has no instance {k} of {words}: it has {count}, counted from 0")
            begins.append(begin - timeline.first)
        return Alignment(begins[0], begins[1], self._resolutions), {"phase": printable(words), "k": k, "n": n}

    def about(self, way: str, phase: str, k: int) -> Answer:
        """Return the alignment of the two runs: `first` and `second` of an `Alignment`, and the rest of `alignment`."""
        found, says = self.alignment(way, phase, k)
        return Answer({"way": way, "first": found.first, "second": found.second, **says})

    def difference(
        self, start: int, stop: int, rows: Sequence[int], columns: int, part: str, aligned: tuple[int, int]
    ) -> Answer:
        """Return the shares of time that both runs spend on a class of time or a property.

        Times are ticks since the first event of the first run, `rows` are rows of the second; `part` is the id of a
        class of time or of a property; `aligned` are the times that are drawn below each other. The answer has arrays
        `edges` (n_bins + 1): bounds of bins of the overview of the first run, as ticks of the second one; `first`,
        `second` (n_rows, n_bins): shares, NaN where one of the runs has no such row or no such time. Raises
        QuestionError if the arguments are invalid.
        """
        one, other = self._timelines
        stop = until(stop, one.last - one.first + 1)
        one.check(start, stop, (), columns)
        other.check(0, 1, rows)
        far = max(aligned, key=abs)
        if abs(far) > FARTHEST:
            raise QuestionError(f"no run has a time {far}")
        if not any(part in t.overview.classes or part in t.overview.properties for t in self._timelines):
            raise QuestionError("no class of time and no property of that id has time in these runs")
        overview = one.overview
        level = overview.level_for(start + one.first, stop + one.first, columns // 2)
        low, high = overview.between(level, start + one.first, stop + one.first)
        edges = overview.edges(level)[low : high + 1] - one.first
        in_second = Alignment(*aligned, self._resolutions).in_second(edges)
        pairs = [(int(self._row_of[i]), i) for i in rows]
        first = _shares(one, [a for a, _ in pairs], part, edges.astype(np.float64), columns)
        second = _shares(other, [b for _, b in pairs], part, in_second, columns)
        lacks = np.isnan(first) | np.isnan(second)
        first[lacks] = second[lacks] = np.nan
        return Answer({"level": level, "part": part}, {"edges": in_second, "first": first, "second": second})


def _shares(
    timeline: Timeline, rows: Sequence[int], part: str, at: NDArray[np.float64], columns: int
) -> NDArray[np.float64]:
    """Return the shares of a class of time or a property in the intervals between times since the first event;
    (n_rows, n_bins), NaN for row -1, or if an interval exceeds the run."""
    overview, first = timeline.overview, timeline.first
    found = np.full((len(rows), at.size - 1), np.nan)
    bounds = overview.edges(0) - first
    inside = (at[:-1] >= bounds[0]) & (at[1:] <= bounds[-1])
    if not inside.any():
        return found
    begin, end = int(np.floor(max(at[0], bounds[0]))), int(np.ceil(min(at[-1], bounds[-1])))
    # at least as fine as the bins of the other run, so that few bins are divided
    level = overview.level_for(begin + first, end + first, 2 * columns)
    low, high = overview.between(level, begin + first, end + first)
    edges = overview.edges(level)[low : high + 1] - first
    present = [i for i, row in enumerate(rows) if row >= 0]
    held = [timeline.rows[rows[i]].locations for i in present]
    ticks = np.zeros((len(held), high - low), np.int64)
    if part in overview.classes:
        number = overview.classes.index(part)
        for i, locations in enumerate(held):
            ticks[i] = overview.ticks(level, locations, low, high)[number].sum(axis=0)
    elif part in overview.properties:
        every = overview.severity(part, level, low, high)
        for i, locations in enumerate(held):
            ticks[i] = every[locations].sum(axis=0)
    n = np.array([locations.size for locations in held])[:, None]
    clipped = np.clip(at, edges[0], edges[-1])
    shares = spread(ticks, edges, clipped) / (np.diff(at) * n)
    shares[:, ~inside] = np.nan
    found[present] = shares
    return found
