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
from tracecols.causes.near import KeptTable, whole
from tracecols.causes.pairs import CREATED, END, FORK
from tracecols.causes.points import ParallelRegions, Times, clock, time_type
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import WalkedEvents
from tracecols.enhance.scan.scan import LocationScan
from tracecols.kernels import segments as kernels
from tracecols.kernels.arrays import first
from tracecols.schema.causes import POINTS
from tracecols.work.large import LargeArrays, blocks

NEIGHBOURS = 1 << 12
"""Number of consecutive points whose earliest begin of a call is known: if none of their calls begins in a batch, they
are not read for it."""

EARLIEST = np.iinfo(np.int64).min


class NestedCuts(NamedTuple):
    """Cuts inside of the calls of points that execute other regions or tasks."""

    point: NDArray[np.int64]
    """(n,): points, ascending."""
    cut: NDArray[np.int64]
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

    def replace(self, point: NDArray[np.int64], cut: NDArray[np.int64], time: Times) -> tuple[NDArray[np.int64], Times]:
        """Return the given cuts of points and their times, replaced by the nested ones where there are any; (n,)
        each."""
        if not self.point.size:
            return cut, time
        at = lookup(self.point, point)
        return np.where(at >= 0, pick(self.cut, at), cut), np.where(at >= 0, pick(self.time, at), time)


class Cutting(NamedTuple):
    """The data by which the time of the locations of a partition is cut."""

    times: Callable[[NDArray[np.int64]], Times]
    """Turns clock readings into times (`points.clock`)."""
    dtype: type[np.float64] | type[np.int64]
    """Type of times."""
    first_rows: NDArray[np.int64]
    """(n_locations,): the first row of each location."""
    points: KeptTable
    point_index: PointIndex
    has_call: NDArray[np.bool_]
    """(n_kinds,): whether at points of each kind a cut is made inside of the call if it executes something else."""
    exit: NDArray[np.int64]
    latest: Times
    """`exit` and `latest`: `ParallelRegions.with_tasks`."""
    others: kernels.Others
    """Actions at rows other than points."""

    @classmethod
    def of(
        cls,
        facts: Facts,
        quirks: Quirks,
        scans: Sequence[LocationScan],
        masters: NDArray[np.int64],
        points: KeptTable,
        index: PointIndex,
        threads: ParallelRegions,
        large: LargeArrays,
    ) -> Cutting:
        """Return the data of a partition; `masters` are its locations that no other location has forked."""
        # forked and created threads begin with their points
        has_call = np.full(len(POINTS), not quirks.cuts_after_nested)
        has_call[[FORK, CREATED, END]] = False
        times = clock(facts, quirks)
        others = _others(facts, quirks, scans, masters, points, index, threads, large)
        exits, latest = (threads.with_tasks.column(c) for c in ("exit", "latest"))
        return cls(times, time_type(quirks), facts.first_rows, points, index, has_call, exits, latest, others)


class Nested(NamedTuple):
    """Times inside of the calls of points where a cut is made if the calls execute something else, by location,
    ascending."""

    times: kernels.Nested
    point: NDArray[np.int64]
    """(n,): the point of each."""
    is_resume: NDArray[np.bool_]
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
    mark_start: NDArray[np.int64]
    """(n_locations,): first mark of each location."""
    of_point: NDArray[np.int64]
    """(n_points,): mark of each point; -1 for the end of a location."""
    nested: Nested
    nested_start: NDArray[np.int64]
    """(n_locations + 1,): where the nested times of each location begin."""

    def cut_at(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the segments that begin at rows, -1 where there is no cut; (n,) int64."""
        return pick(self.marks.cut, lookup(self.marks.row, row))

    def nested_cuts(self, is_resume: bool) -> NestedCuts:
        """Return the cuts made at nested times, in any order: those at which calls begin, or have waited long enough
        (`is_resume`)."""
        times, point, resumes = self.nested
        made = np.flatnonzero((times.cut >= 0) & (resumes == is_resume))
        return NestedCuts(point[made], times.cut[made], times.at[made])

    def put_cuts(self, cuts: Columns, row: int, stop: NDArray[np.int64], last: Times) -> None:
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
    earliest: NDArray[np.int64]
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

    def begun(self, points: KeptTable, low: int, since: int, until: int) -> NDArray[np.int64]:
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
    for walked in walk:
        location, row = int(walked.locations[0]), int(walked.row[0])
        begins = row == cutting.first_rows[location]
        if begins and walked.is_end:
            own = Ranges.between(starts, walked.locations)
            at = _Points.within(points, own)
            yield walked, _cuts_of(cutting, walked, own, at, _calls(cutting, at, EARLIEST), nothing)
            continue
        # a location with more events than a batch; `low` is its first point that is in no batch so far; calls that
        # begin before `reached` are known
        if begins:
            long = _Long.of(points, *starts[location : location + 2].tolist())
            open_, low, reached = nothing, long.start, EARLIEST
        next_row = row + walked.time.size
        stop = long.stop if walked.is_end else long.before(points, low, next_row)
        until = max(reached, int(walked.time.max(initial=EARLIEST)))
        own = Ranges(np.array([low]), np.array([stop - low]))
        at, ahead = _Points.within(points, own), _Points.of(points, long.begun(points, stop, reached, until))
        calls = map(np.append, _calls(cutting, ahead, reached), _calls(cutting, at, reached))
        found = _cuts_of(cutting, walked, own, at, kernels.Calls(*calls), open_)
        yield walked, found
        open_, low, reached = found.nested.after(next_row), stop, until


def _cuts_of(
    cutting: Cutting, walked: WalkedEvents, own: Ranges, at: _Points, calls: kernels.Calls, open_: Nested
) -> BatchCuts:
    """Find where the time of the events of a batch is cut.

    `own` are the points at its events, with the columns `at`; `calls` are calls that end here, or begin here and go on,
    those of the first location first; `open_` are the nested times left by preceding batches of other open calls, which
    are of the first location.
    """
    n_more = int(np.count_nonzero(calls.is_cut) + np.count_nonzero(calls.is_cut & calls.waits))
    nested, ends = open_.with_room(n_more), np.zeros(own.end.size + 1, np.int64)
    ahead = calls.row.size - len(own)
    kernels.list_nested(np.append(0, ahead + own.end), calls, open_.point.size, *nested, ends)
    last_row = int(walked.row[-1] + walked.bounds[-1] - walked.bounds[-2])
    others = _between(cutting.others, int(walked.row[0]), last_row)
    return BatchCuts(own, *_marks(own.end, at, others, walked.row), nested, ends)


class _Points(NamedTuple):
    """Columns of some points (`schema.causes.SYNC_POINTS`), and their numbers."""

    number: NDArray[np.int64]
    kind: NDArray[np.int8]
    event: NDArray[np.int64]
    begin_time: NDArray[np.int64]
    wait: Times

    @classmethod
    def within(cls, points: KeptTable, own: Ranges) -> _Points:
        """Return the points of some ranges."""
        runs = [of for _, of in own.runs()] or [slice(0, 0)]
        columns = ([points.rows(name, of.start, of.stop) for of in runs] for name in cls._fields[1:])
        return cls(own[slice(0, len(own))], *(of[0] if len(of) == 1 else np.concatenate(of) for of in columns))

    @classmethod
    def of(cls, points: KeptTable, number: NDArray[np.int64]) -> _Points:
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


def _others(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    masters: NDArray[np.int64],
    points: CompoundTable,
    index: PointIndex,
    threads: ParallelRegions,
    large: LargeArrays,
) -> kernels.Others:
    """Find the rows of some locations where threads leave parallel regions, and the second rows of those that no other
    location has forked (`masters`)."""
    regions, dtype = threads.regions, time_type(quirks)
    location, enter, leave = (whole(regions, c, large) for c in ("location", "enter", "exit"))
    leaves = large.chosen(leave.size, lambda here: (leave[here] >= 0) & facts.locations.is_cpu[location[here]])
    leaves = leaves[np.argsort(leave[leaves], kind="stable")]
    # a thread that another one has forked idles outside, unless the time of its team counts in the call path around
    is_guest = whole(regions, "is_guest", large) & (not quirks.forgets_workers)
    row = large.computed(leaves.size, np.int64, lambda here: leave[leaves[here]])
    what = np.where(is_guest[leaves], kernels.END_IN_TEAM, kernels.LEAVE_TEAM).astype(np.int8)
    value = whole(regions, "join", large)
    value = large.computed(leaves.size, dtype, lambda here: value[leaves[here]])
    if not quirks.forgets_workers:
        # the time before the first event is a segment of its own
        second = _second_rows(facts, scans, masters, points, index)
        second = second[lookup(row, second) < 0]
        at = np.searchsorted(row, second)
        row, what, value = (np.insert(of, at, x) for of, x in ((row, second), (what, kernels.CUT), (value, 0)))
    order = np.argsort(enter, kind="stable")
    fork = whole(regions, "fork", large)
    return kernels.Others(
        row,
        what,
        value,
        large.computed(order.size, np.int64, lambda here: enter[order[here]]),
        np.where(is_guest[order], kernels.JOIN_TEAM, kernels.FORK).astype(np.int8),
        large.computed(order.size, dtype, lambda here: fork[order[here]]),
    )


def _between(others: kernels.Others, low: int, stop: int) -> kernels.Others:
    """Return the actions at the rows low <= row < stop."""
    here, entered = (slice(*np.searchsorted(rows, (low, stop)).tolist()) for rows in (others.row, others.enter))
    row, what, value, enter, at_enter, fork = others
    return kernels.Others(row[here], what[here], value[here], enter[entered], at_enter[entered], fork[entered])


def _second_rows(
    facts: Facts, scans: Sequence[LocationScan], locations: NDArray[np.int64], points: CompoundTable, index: PointIndex
) -> NDArray[np.int64]:
    """Return the second rows of locations, where there is one without a point; (n,) int64."""
    locations = locations[np.array([scans[i].n > 1 for i in locations.tolist()], bool)]
    second = facts.first_rows[locations] + 1
    is_point = np.zeros(second.size, bool)
    for k in range(2):
        at = index.start[locations] + k
        here = np.flatnonzero(at < index.start[locations + 1])
        is_point[here] |= points.at("event", at[here]) == second[here]
    return second[~is_point]


def _marks(
    end: NDArray[np.int64], at: _Points, others: kernels.Others, first_row: NDArray[np.int64]
) -> tuple[kernels.Marks, NDArray[np.int64], NDArray[np.int64]]:
    """Put the points of some locations and the other actions there in the order of their rows.

    `end` is the number of points up to the end of each location, `first_row` its first row. Returns the marks, location
    by location, the first of each location, and the mark of each point, -1 for ends of locations.
    """
    n, dtype = at.event.size + others.row.size, others.value.dtype
    marks = kernels.Marks(*(np.empty(n, of) for of in (np.int64, np.int8, dtype, np.int64, dtype)))
    of_point = np.empty(at.event.size, np.int64)
    own = kernels.OwnPoints(end, at.event, at.kind)
    marks = first(marks, int(kernels.list_marks(own, FORK, END, others, marks, of_point)))
    return marks, np.searchsorted(marks.row, first_row), of_point


def _lookup_near(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find each of some wanted keys in `keys`, which ascend; its position, or -1; the first of equal keys."""
    first, stop = (int(np.searchsorted(keys, *of)) for of in ((wanted.min(), "left"), (wanted.max(), "right")))
    found = lookup(keys[first:stop], wanted)
    return np.where(found >= 0, found + first, -1)
