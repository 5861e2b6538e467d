"""Cuts in the time of locations: at their synchronisation points, inside of the calls of these, and where threads begin
and leave parallel regions.

Cuts are found batch by batch for the events that are walked through together (`cut_batches`), so memory use does not
depend on the number of events of a location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.causes.index import PointIndex, Ranges
from tracecols.causes.near import KeptTable
from tracecols.causes.pairs import CREATED, END, FORK
from tracecols.causes.points import ParallelRegions, Times, clock, time_type
from tracecols.causes.quirks import Quirks
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, joined_columns, pick
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import WalkedEvents
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.kernels import segments as kernels
from tracecols.kernels.arrays import first
from tracecols.schema.causes import POINTS
from tracecols.vectors import Ints, Mask
from tracecols.work.large import LargeArrays, blocks

NEIGHBOURS = 1 << 12
"""Number of consecutive points whose earliest begin of a call is known: if none of their calls begins in a batch, they
are not read for it."""

INSIDE = np.isin(POINTS, ("thread barrier", "creates", "MPI_Init", "MPI_Finalize", "release"))
"""Mask of the kinds of points whose event may be the ENTER of their call: calls that are never left, and those that
create processes or release a mutex and then wait for a condition."""

EARLIEST = np.iinfo(np.int64).min

USED = ("location", "enter", "exit", "fork", "join", "is_guest")
"""Columns of `points.ParallelRegions.regions` by which time is cut."""


class NestedCuts(NamedTuple):
    """Cuts inside of the calls of points that execute other regions or tasks."""

    point: Ints
    """(n,): points, ascending."""
    cut: Ints
    """(n,): the segment that begins there."""
    time: Times
    """(n,) float64 or int64: time of the cut."""

    @classmethod
    def joined(cls, parts: Sequence[NestedCuts], dtype: DTypeLike) -> NestedCuts:
        """Put the cuts of all batches in the order of their points; `dtype` is that of times."""
        point = np.concatenate([np.zeros(0, np.int64), *(of.point for of in parts)])
        cut = np.concatenate([np.zeros(0, np.int64), *(of.cut for of in parts)])
        time = np.concatenate([np.zeros(0, dtype), *(of.time for of in parts)])
        order = np.argsort(point, kind="stable")
        return cls(point[order], cut[order], time[order])

    def replace(self, point: Ints, cut: Ints, time: Times) -> tuple[Ints, Times]:
        """Return the given cuts of points and their times, replaced by the nested ones where there are any; (n,)
        each."""
        if not self.point.size:
            return cut, time
        at = lookup(self.point, point)
        return np.where(at >= 0, pick(self.cut, at), cut), np.where(at >= 0, pick(self.time, at), time)


class EnteredRegions(NamedTuple):
    """The parallel regions of a partition: the tables of its windows, of which only the rows near a batch are read."""

    tables: Sequence[ColumnSource]
    """`ParallelRegions.regions` of each window."""
    window: Ints
    """(n,): the window of each row of `extents`."""
    extents: Ints
    """(n, 2): `ParallelRegions.extents`, window by window."""

    @classmethod
    def of(cls, windows: Sequence[ParallelRegions]) -> EnteredRegions:
        """Return the parallel regions of some windows."""
        extents = [of.extents for of in windows]
        window = np.repeat(np.arange(len(windows)), list(map(len, extents)))
        return cls([of.regions for of in windows], window, np.concatenate(extents))

    def between(self, low: int, stop: int) -> Columns:
        """Return the parallel regions that are entered at the rows low <= row < stop, ascending by `enter`: columns
        `USED`."""
        first, last = self.extents.T
        # columns without rows have their types, too
        near = distinct(self.window[(last >= low) & (first < stop)]).tolist() or [0]
        return _by_enter([self._between(self.tables[k], low, stop) for k in near])

    @staticmethod
    def _between(table: ColumnSource, low: int, stop: int) -> Columns:
        start, end = table.search("enter", [low, stop]).tolist()
        return Columns(end - start, {name: table.rows(name, start, end) for name in USED})


def _by_enter(parts: Sequence[Columns]) -> Columns:
    """Put the parallel regions of several tables together, ascending by their rows of ENTER."""
    some = [of for of in parts if len(of)]
    if len(some) < 2:
        return (some or parts)[0]
    found = joined_columns(some)
    return found.take(np.argsort(found["enter"]))


class Cutting(NamedTuple):
    """The data by which the time of the locations of a partition is cut."""

    times: Callable[[Ints], Times]
    """Turns clock readings into times (`points.clock`)."""
    dtype: type[np.float64] | type[np.int64]
    """Type of times."""
    first_rows: Ints
    """(n_locations,): the first row of each location."""
    points: KeptTable
    point_index: PointIndex
    has_call: Mask
    """(n_kinds,): whether at points of each kind a cut is made inside of the call if it executes something else."""
    exit: Ints
    latest: Times
    """`exit` and `latest`: the threads of `ParallelRegions.with_tasks`, ascending by `exit`."""
    regions: EnteredRegions
    is_cpu: Mask
    """(n_locations,)"""
    second_rows: Ints
    """(n,): rows where a cut is made besides, ascending."""
    forgets_workers: bool
    """`Quirks.forgets_workers`."""

    @classmethod
    def of(
        cls,
        facts: Facts,
        quirks: Quirks,
        scans: Sequence[LocationScan],
        masters: Ints,
        points: KeptTable,
        index: PointIndex,
        windows: Sequence[ParallelRegions],
        large: LargeArrays,
    ) -> Cutting:
        """Return the data of a partition.

        `masters` are its locations that no other location has forked, `windows` the parallel regions of its windows.
        """
        # forked and created threads begin with their points
        has_call = np.full(len(POINTS), not quirks.cuts_after_nested)
        has_call[[FORK, CREATED, END]] = False
        second_rows = np.zeros(0, np.int64)
        if not quirks.forgets_workers:
            # the time before the first event is a segment of its own
            second_rows = _second_rows(facts, scans, masters, points, index)
        exits, latest = _with_tasks(windows, large)
        return cls(
            times=clock(facts, quirks),
            dtype=time_type(quirks),
            first_rows=facts.first_rows,
            points=points,
            point_index=index,
            has_call=has_call,
            exit=exits,
            latest=latest,
            regions=EnteredRegions.of(windows),
            is_cpu=facts.locations.is_cpu,
            second_rows=second_rows,
            forgets_workers=quirks.forgets_workers,
        )


class Nested(NamedTuple):
    """Times inside of the calls of points where a cut is made if the calls execute something else, by location,
    ascending."""

    times: kernels.Nested
    point: Ints
    """(n,): the point of each."""
    is_resume: Mask
    """(n,): whether it is the time when the point has waited long enough, and not the begin of its call."""

    @classmethod
    def empty(cls, n: int, dtype: DTypeLike) -> Nested:
        """Allocate room for `n` times; `dtype` is their type."""
        times = kernels.Nested(np.empty(n, np.int64), np.empty(n, dtype), np.full(n, -1, np.int64), np.zeros(n, dtype))
        return cls(times, np.empty(n, np.int64), np.empty(n, bool))

    def with_room(self, n: int) -> Nested:
        """Return these with room for n more after them."""
        times, point, is_resume = self
        size, longer = point.size, Nested.empty(point.size + n, times.time.dtype)
        longer.times.row[:size], longer.times.time[:size] = times.row, times.time
        longer.point[:size], longer.is_resume[:size] = point, is_resume
        return longer

    def after(self, row: int) -> Nested:
        """Return the times at which no cut is made yet, of the calls that end at `row` or after it."""
        rest = np.flatnonzero((self.times.cut < 0) & (self.times.row >= row))
        return Nested(kernels.Nested(*(of[rest] for of in self.times)), self.point[rest], self.is_resume[rest])


class BatchCuts(NamedTuple):
    """The cuts in the time of a batch of events and, once the batch has been walked through, the segments that begin
    there."""

    points: Ranges
    """The points at its events, location by location."""
    marks: kernels.Marks
    """The marks, location by location."""
    mark_start: Ints
    """(n_locations,): first mark of each location."""
    of_point: Ints
    """(n_points,): mark of each point; -1 for the end of a location."""
    nested: Nested
    nested_start: Ints
    """(n_locations + 1,): where the nested times of each location begin."""

    def cut_at(self, row: Ints) -> Ints:
        """Return the segments that begin at rows, -1 where there is no cut; (n,) int64."""
        return pick(self.marks.cut, lookup(self.marks.row, row))

    def nested_cuts(self, is_resume: bool) -> NestedCuts:
        """Return the cuts made at nested times, in any order: those at which calls begin, or have waited long enough
        (`is_resume`)."""
        times, point, resumes = self.nested
        made = np.flatnonzero((times.cut >= 0) & (resumes == is_resume))
        return NestedCuts(point[made], times.cut[made], times.at[made])

    def put_cuts(self, cuts: Columns, row: int, stop: Ints, last: Times) -> None:
        """Write the cuts at the points to the columns of `Segments.cuts`, all of them as if nothing were nested in
        their calls.

        The first point belongs to `row`; `stop` is one past the last segment of each location, and `last` the time
        until which its time is counted, for locations that end here.
        """
        there = slice(row, row + self.of_point.size)
        written = (cuts[name][there] for name in ("cut", "left", "time"))
        kernels.put_cuts(self.points.end, self.of_point, self.marks, stop, last, *written)


class _Long(NamedTuple):
    """The points of a location with more events than a batch."""

    start: int
    stop: int
    """`start` and `stop`: the first one, and one past the last."""
    earliest: Ints
    """(n,) int64: begin of the earliest call of each `NEIGHBOURS` of them, as a clock reading."""

    @classmethod
    def of(cls, points: KeptTable, start: int, stop: int) -> _Long:
        """Return the points of a location."""
        groups = (slice(start + of.start, start + of.stop) for of in blocks(stop - start, NEIGHBOURS))
        earliest = [points.rows("begin_time", of.start, of.stop).min() for of in groups]
        return cls(start, stop, np.array(earliest, np.int64))

    def before(self, points: KeptTable, low: int, row: int) -> int:
        """Return one past the last point from `low` on whose event is before `row`."""
        while low < self.stop:
            event = points.rows("event", low, min(low + NEIGHBOURS, self.stop))
            n = int(np.searchsorted(event, row))
            low += n
            if n < event.size:
                break
        return low

    def begun(self, points: KeptTable, low: int, since: int, until: int) -> Ints:
        """Return the points from `low` on whose calls begin at since <= time < until, in descending order: the points
        of outer calls, which come last, are first."""
        first_group, found = (low - self.start) // NEIGHBOURS, [np.zeros(0, np.int64)]
        for group in np.flatnonzero(self.earliest[first_group:] < until).tolist():
            start = self.start + (first_group + group) * NEIGHBOURS
            first_point = max(start, low)
            begin_time = points.rows("begin_time", first_point, min(start + NEIGHBOURS, self.stop))
            found.append(np.flatnonzero((begin_time >= since) & (begin_time < until)) + first_point)
        return np.concatenate(found)[::-1]


def cut_batches(cutting: Cutting, walk: Iterable[WalkedEvents]) -> Iterator[tuple[WalkedEvents, BatchCuts]]:
    """Find where the time of some events is cut, batch by batch.

    The cuts of a batch are made before the next batch is requested, which then takes over the open calls without cuts.
    """
    points, starts, nothing = cutting.points, cutting.point_index.start, Nested.empty(0, cutting.dtype)
    outside = cutting.regions.between(0, 0)
    for walked in walk:
        location, row = int(walked.locations[0]), int(walked.row[0])
        begins = row == cutting.first_rows[location]
        if begins and walked.is_end:
            own = Ranges.between(starts, walked.locations)
            at = _Points.within(points, own)
            others, _ = _others(cutting, row, _row_after(walked), outside)
            yield walked, _cuts_of(walked, own, at, _calls(cutting, at, EARLIEST), nothing, others)
            continue
        # a location with more events than a batch; `low` is its first point that is in no batch so far; calls that
        # begin before `reached` are known
        if begins:
            long = _Long.of(points, *starts[location : location + 2].tolist())
            open_, entered, low, reached = nothing, outside, long.start, EARLIEST
        next_row = _row_after(walked)
        stop = long.stop if walked.is_end else long.before(points, low, next_row)
        until = max(reached, int(walked.time.max(initial=EARLIEST)))
        own = Ranges(np.array([low]), np.array([stop - low]))
        at, ahead = _Points.within(points, own), _Points.of(points, long.begun(points, stop, reached, until))
        calls = map(np.append, _calls(cutting, ahead, reached), _calls(cutting, at, reached))
        others, entered = _others(cutting, row, next_row, entered)
        found = _cuts_of(walked, own, at, kernels.Calls(*calls), open_, others)
        yield walked, found
        open_, low, reached = found.nested.after(next_row), stop, until


def _row_after(walked: WalkedEvents) -> int:
    """Return the row after the last event of a batch."""
    return int(walked.row[-1] + walked.bounds[-1] - walked.bounds[-2])


def _cuts_of(
    walked: WalkedEvents, own: Ranges, at: _Points, calls: kernels.Calls, open_: Nested, others: kernels.Others
) -> BatchCuts:
    """Find where the time of the events of a batch is cut.

    `own` are the points at its events, with the columns `at`; `calls` are calls that end here, or begin here and go on,
    those of the first location first; `open_` are the nested times left by preceding batches of other open calls, which
    are of the first location; `others` are the other actions here.
    """
    n_more = int(np.count_nonzero(calls.is_cut) + np.count_nonzero(calls.is_cut & calls.waits))
    nested, ends = open_.with_room(n_more), np.zeros(own.end.size + 1, np.int64)
    ahead = calls.row.size - len(own)
    kernels.list_nested(np.append(0, ahead + own.end), calls, open_.point.size, *nested, ends)
    return BatchCuts(own, *_marks(own.end, at, others, walked.row), nested, ends)


class _Points(NamedTuple):
    """Columns of some points (`schema.causes.SYNC_POINTS`), and their numbers."""

    number: Ints
    kind: NDArray[np.int8]
    event: Ints
    begin_time: Ints
    wait: Times

    @classmethod
    def within(cls, points: KeptTable, own: Ranges) -> _Points:
        """Return the points of some ranges."""
        runs = [of for _, of in own.runs()] or [slice(0, 0)]
        columns = ([points.rows(name, of.start, of.stop) for of in runs] for name in cls._fields[1:])
        return cls(own[slice(0, len(own))], *(of[0] if len(of) == 1 else np.concatenate(of) for of in columns))

    @classmethod
    def of(cls, points: KeptTable, number: Ints) -> _Points:
        """Return the points with some numbers."""
        return cls(number, *(points.at(name, number) for name in cls._fields[1:]))


def _calls(cutting: Cutting, of: _Points, since: int) -> kernels.Calls:
    """Return the calls of some points; no cut is made in those that begin before `since`."""
    begin = cutting.times(of.begin_time)
    resumes = begin + of.wait
    if cutting.exit.size and of.event.size:
        with_tasks = _lookup_near(cutting.exit, of.event)
        resumes = np.where(with_tasks >= 0, pick(cutting.latest, with_tasks), resumes)
    is_cut = cutting.has_call.take(of.kind) & (of.begin_time >= since)
    return kernels.Calls(is_cut, of.number, of.event, begin, resumes, of.wait > 0)


def _with_tasks(windows: Sequence[ParallelRegions], large: LargeArrays) -> tuple[Ints, Times]:
    """Return the columns of the threads of some windows that execute tasks in barriers, ascending by their rows of
    EXIT."""
    tables = [of.with_tasks for of in windows]
    n = sum(map(len, tables))
    exits, latest = (
        large.joined(n, tables[0].rows(name, 0, 0).dtype, (of.column(name) for of in tables))
        for name in ("exit", "latest")
    )
    if len(tables) > 1:
        order = np.argsort(exits)
        exits, latest = exits[order], latest[order]
    return exits, latest


def _others(cutting: Cutting, low: int, stop: int, entered: Columns) -> tuple[kernels.Others, Columns]:
    """Return the actions at the rows low <= row < stop other than those at points: where threads leave parallel
    regions, and `Cutting.second_rows`.

    `entered` are the parallel regions entered before and left at `low` or later. Those left at `stop` or later are
    returned as well.
    """
    regions = cutting.regions.between(low, stop)
    inside = _by_enter([entered, regions])
    # a thread that another one has forked idles outside, unless the time of its team counts in the call path around
    is_guest = inside.is_guest & (not cutting.forgets_workers)
    leaves = np.flatnonzero((inside.exit >= low) & (inside.exit < stop) & cutting.is_cpu[inside.location])
    leaves = leaves[np.argsort(inside.exit[leaves], kind="stable")]
    row, value = inside.exit[leaves], inside.join[leaves]
    what = np.where(is_guest[leaves], kernels.END_IN_TEAM, kernels.LEAVE_TEAM).astype(np.int8)
    second = cutting.second_rows[slice(*np.searchsorted(cutting.second_rows, (low, stop)).tolist())]
    if second.size:
        second = second[lookup(row, second) < 0]
        at = np.searchsorted(row, second)
        row, what, value = (np.insert(of, at, x) for of, x in ((row, second), (what, kernels.CUT), (value, 0)))
    is_guest = regions.is_guest & (not cutting.forgets_workers)
    at_enter = np.where(is_guest, kernels.JOIN_TEAM, kernels.FORK).astype(np.int8)
    others = kernels.Others(row, what, value, regions.enter, at_enter, regions.fork)
    return others, inside.take(np.flatnonzero(inside.exit >= stop))


def _second_rows(
    facts: Facts, scans: Sequence[LocationScan], locations: Ints, points: CompoundTable, index: PointIndex
) -> Ints:
    """Return the second rows of locations, where there is one without a point; (n,) int64."""
    locations = locations[np.array([scans[i].n > 1 for i in locations.tolist()], bool)]
    second = facts.first_rows[locations] + 1
    is_point = np.zeros(second.size, bool)
    for k in range(2):
        at = index.start[locations] + k
        here = np.flatnonzero(at < index.start[locations + 1])
        is_point[here] |= points.at("event", at[here]) == second[here]
    return second[~is_point]


def _marks(end: Ints, at: _Points, others: kernels.Others, first_row: Ints) -> tuple[kernels.Marks, Ints, Ints]:
    """Put the points of some locations and the other actions there in the order of their rows.

    `end` is the number of points up to the end of each location, `first_row` its first row. Returns the marks, location
    by location, the first of each location, and the mark of each point, -1 for ends of locations.
    """
    n, dtype = at.event.size + others.row.size, others.value.dtype
    marks = kernels.Marks(*(np.empty(n, of) for of in (np.int64, np.int8, dtype, np.int64, dtype)))
    of_point = np.empty(at.event.size, np.int64)
    own = kernels.OwnPoints(end, at.event, np.where(INSIDE[at.kind], np.int8(kernels.INSIDE), at.kind))
    marks = first(marks, int(kernels.list_marks(own, FORK, END, others, marks, of_point)))
    return marks, np.searchsorted(marks.row, first_row), of_point


def _lookup_near(keys: Ints, wanted: Ints) -> Ints:
    """Find each of some wanted keys in `keys`, which ascend; its position, or -1; the first of equal keys."""
    first, stop = (int(np.searchsorted(keys, *of)) for of in ((wanted.min(), "left"), (wanted.max(), "right")))
    found = lookup(keys[first:stop], wanted)
    return np.where(found >= 0, found + first, -1)
