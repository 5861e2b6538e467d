"""Time that the causing side of a wait spent in excess of the waiting side, since both synchronised last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.index import PointIndex
from tracecols.causes.near import KeptTable
from tracecols.causes.pairs import END, IDLE
from tracecols.causes.points import Times, time_type
from tracecols.causes.quirks import Quirks
from tracecols.causes.segments import Segments, sum_of, with_room
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, pick, pieced
from tracecols.enhance.dataflow.grouping import bounded
from tracecols.enhance.dataflow.partitions import Division
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import DELAYS, SPENT, step
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import arrays
from tracecols.kernels import intervals as kernels
from tracecols.kernels.segments import Maps
from tracecols.kernels.sums import FIRST
from tracecols.vectors import Ints, Mask
from tracecols.work.ahead import expect_near, expect_ranges, some_of
from tracecols.work.large import LargeArrays, blocks

PAIR_BYTES, ENTRY_BYTES = 300, 40
"""Approximate bytes of memory for each pair that is compared, and for each entry of its intervals."""

END_OF_EVENTS = np.iinfo(np.int64).max
"""A row beyond those of the last location."""


class Intervals(NamedTuple):
    """The time spent in the intervals between points of some locations."""

    facts: Facts
    quirks: Quirks
    points: KeptTable
    point_index: PointIndex
    segments: Segments
    """Those of the locations."""
    large: LargeArrays
    """Makes the arrays that are needed for a short time."""

    def first(self, since: Ints, until: Ints) -> Ints:
        """Return the segments that intervals begin with; `since` -1 is the beginning of the location of `until`."""
        location = self.points.location[until]
        return np.where(since >= 0, self.segments.cut_of(since, location), self.segments.first[location])

    def stop(self, until: Ints) -> Ints:
        """Return the segments before which intervals end: those at which the calls of points begin."""
        return self.segments.left_of(until, self.points.location[until])

    def resumed(self, since: Ints, until: Ints) -> Ints:
        """Return the segments that begin where points have waited long enough; those of the beginning for -1."""
        location = self.points.location[until]
        return np.where(since >= 0, self.segments.resumed_at(since, location)[0], self.segments.first[location])

    def after_joins(self, since: Ints, until: Ints) -> Ints:
        """Return the segments after a JOIN: for the reference the first one after `since` (the beginning for -1), else
        the last one before `until` (the beginning if there is none)."""
        spent = self.segments
        if not self.quirks.leaves_out_others:
            # the last JOIN before the end is not one of a nested region: idle intervals end outside of outer ones
            location = self.points.location.take(until)
            last_row = np.append(self.facts.first_rows[1:], END_OF_EVENTS)
            row = np.minimum(self.points.at("event", until), last_row.take(location))
            at = np.searchsorted(spent.join_row, row, "left") - 1
            is_here = (at >= 0) & (pick(spent.join_row, at) >= self.facts.first_rows.take(location))
            return np.where(is_here, pick(spent.join_cut, at), spent.begin.take(location))
        at = np.searchsorted(spent.join_row, self.points.at("event", since), "right")
        after = pick(spent.join_cut, np.minimum(at, spent.join_row.size - 1))
        stop = self.stop(until)
        begin = np.where((at < spent.join_row.size) & (after <= stop), after, stop)
        return np.where(since >= 0, begin, self.first(since, until))

    def spans(self, since: Ints, until: Ints) -> tuple[kernels.Spans, kernels.Entries]:
        """Return the intervals between points, with the waits in between, and their entries.

        `since` -1 is the beginning of the location, `until` -1 is no interval.
        """
        return self.found(self.described(since, until), since, until)

    def described(self, since: Ints, until: Ints, idle: Mask | None = None) -> kernels.Spans:
        """Return intervals as `spans` does, of any locations, with the rows of the cuts of both points in place of
        entries. If a thread idles until its master comes (`idle`), the interval begins after a JOIN, otherwise when
        `since` begins to complete."""
        points, index, n = self.points, self.point_index, until.size
        counts_of = index.waits_before
        counts = counts_of.dtype
        spans = kernels.Spans(
            *(np.empty(n, t) for t in (np.int64, np.int64, counts, counts, np.int32, index.wait.dtype))
        )
        known = kernels.Known(
            points.location, points.call_path, self.facts.call_paths.whole.met, index.start, index.shift, counts_of
        )
        completion, total = points.several_at(("completion", "total"), since)
        some = some_of(until)
        for column in (points.location, points.call_path, counts_of):
            expect_near(column, some)
        is_whole = np.ones(n, bool) if idle is None else ~idle
        kernels.describe_spans(since, until, is_whole, completion - total, known, spans)
        return spans

    def found(
        self, spans: kernels.Spans, since: Ints, until: Ints, idle: Mask | None = None
    ) -> tuple[kernels.Spans, kernels.Entries]:
        """Return intervals that were `described`, and their entries."""
        points, spent = self.points, self.segments
        first, stop = spent.between(spans.first, spans.stop)
        begins, absent = np.flatnonzero((since < 0) & (until >= 0)), np.flatnonzero(until < 0)
        first[absent] = 0
        first[begins] = spent.first[points.location[until[begins]]]
        if idle is not None:
            of = np.flatnonzero(idle)
            first[of] = self.after_joins(since[of], until[of])
        entry, after, entries = spent.entries_between(first, stop, self.large)
        entry[absent] = -1
        return spans._replace(first=entry, stop=after), entries

    def pruned(self, since: Ints, until: Ints) -> TimeMaps:
        """Return the time by call path between points without the waits in between."""
        return self._summed(*self.spans(since, until), prune=True)

    def spent(self, since: Ints, until: Ints) -> TimeMaps:
        """Return all the time by call path between points, from when the first has waited long enough."""
        first, stop, entries = self.segments.entries_between(self.resumed(since, until), self.stop(until), self.large)
        nothing = np.zeros(first.size, self.point_index.waits_before.dtype)
        no_call, change = np.full(first.size, -1, np.int32), np.zeros(first.size, self.point_index.wait.dtype)
        return self._summed(kernels.Spans(first, stop, nothing, nothing, no_call, change), entries, prune=False)

    def _summed(self, spans: kernels.Spans, entries: kernels.Entries, prune: bool) -> TimeMaps:
        n, n_paths = spans.first.size, len(self.facts.call_paths.whole)
        room = max(1 << 12, 32 * n, 2 * n_paths)
        large = self.large
        out = Maps(np.zeros(n, np.int64), large.empty(room, np.int32), large.empty(room, time_type(self.quirks)))
        sum_, at, waits = sum_of(self.facts, self.quirks), 0, waits_of(self.point_index)
        for column in waits:
            expect_ranges(column, spans.wait_first, spans.wait_stop)
        while True:
            at = int(kernels.sum_intervals(at, spans, entries, waits, prune, sum_, out))
            if at == n:
                break
            out = with_room(out, int(out.end[at - 1]) if at else 0, large)
        filled = int(out.end[-1]) if n else 0
        return TimeMaps(out.end, large.trimmed(out.path, filled), large.trimmed(out.value, filled))


class TimeMaps(NamedTuple):
    """Time by call path of intervals."""

    end: Ints
    """(n,): one past the last entry of each map."""
    call_path: NDArray[np.int32]
    time: Times
    """`call_path` and `time`: (n_entries,) int32, `points.time_type`, in the order of the call paths."""

    @property
    def start(self) -> Ints:
        """First entry of each map."""
        return np.append(0, self.end[:-1]) if self.end.size else self.end


def waits_of(index: PointIndex) -> kernels.Entries:
    """Return the waits of all points."""
    return kernels.Entries(index.wait_path, index.wait)


def ends_of(members: Ints, points: CompoundTable, index: PointIndex) -> Ints:
    """Return the points at which some locations end, of those that have points."""
    last = index.start[1:][members] - 1
    end = last[last >= index.start[:-1][members]]
    return end[points.kind[end] == END]


def numbers_of(pairs: CompoundTable, rows: Ints, *columns: str) -> list[Ints]:
    """Return the numbers of points in some rows of `delay_pairs`."""
    return [pairs.at(name, rows).astype(np.int64, copy=False) for name in columns]


class Ends(NamedTuple):
    """The points at which the intervals of pairs end, -1 none, and after which they begin (`pairs.SINCE`); (n,) int64
    each."""

    cause: Ints
    own_since: Ints
    cause_since: Ints
    waiting: Ints
    waiting_since: Ints

    @classmethod
    def of(cls, pairs: CompoundTable, rows: Ints) -> Ends:
        """Read the points of some rows of `delay_pairs`."""
        return cls(*numbers_of(pairs, rows, *cls._fields))

    @property
    def begin(self) -> Ints:
        """The points after which the intervals of the causing sides begin."""
        return np.where(self.own_since >= 0, self.own_since, self.cause_since)

    def take(self, rows: Ints) -> Ends:
        """Return the points of some of the pairs."""
        return Ends(*(of[rows] for of in self))


class Delays(NamedTuple):
    """Time by call path that the causing sides of pairs spent in excess of the waiting sides."""

    pairs: ColumnSource
    """`pair` int64, the pairs whose causes are in the partition, ascending; `first` and `stop` int64, the first entry
    of each and one past its last; `total`, the sum of its entries."""
    entries: ColumnSource
    """`call_path` int32 (in the order in which they are met), `time` (`points.time_type`): the excess."""


@step(DELAYS, "delays")
def find_delays(
    facts: Facts,
    quirks: Quirks,
    members: Ints,
    partition: int,
    division: Division,
    sync_points: KeptTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    segments: Segments,
    every_segments: Sequence[Segments],
    spill: Spill,
) -> Delays:
    """Find the time by call path that the causing sides of pairs spent in excess of the waiting sides."""
    pairs = point_index.causing(members)
    # memory for both sides of each pair, and for the time that either lost
    size = spill.large.block_of(PAIR_BYTES + ENTRY_BYTES * (len(segments.entries) // max(len(pairs), 1)))
    intervals = Intervals(facts, quirks, sync_points, point_index, segments, LargeArrays())
    compared = Comparison(intervals, min(len(pairs), size), spill)
    for here in blocks(len(pairs), size):
        pair = pairs[here]
        ends = Ends.of(delay_pairs, pair)
        # intervals with the same beginning extend each other's sums; mostly they are in this order already
        cause, begins = ends.cause, ends.begin
        is_sorted = ((cause[1:] > cause[:-1]) | (begins[1:] >= begins[:-1])).all()
        order = np.arange(pair.size) if is_sorted else np.lexsort((begins, cause))
        at = facts.process[sync_points.location[ends.waiting]]
        of_partition = np.where(ends.waiting >= 0, division.of_process[at], partition)
        order = order[np.argsort(of_partition[order], kind="stable")]
        of_partition = of_partition[order]
        others, begin = np.unique(of_partition, return_index=True)
        inside = slice(*np.searchsorted(of_partition, (partition, partition + 1)).tolist())
        sides = _BothSides.of(intervals, ends.take(order), (delay_pairs.at("kind", pair) == IDLE)[order], order, inside)
        for other, rows in zip(others.tolist(), pairwise([*begin.tolist(), order.size]), strict=True):
            compared.compare(sides, slice(*rows), None if other == partition else every_segments[other])
        compared.keep(pair)
    return compared.kept()


class _BothSides(NamedTuple):
    """Both sides of some pairs whose causes are in a partition; entries near both are read once."""

    ends: Ends
    row: Ints
    """(n,): position of each pair in the result."""
    causing: kernels.Spans
    waiting: kernels.Spans
    """`causing` and `waiting`: their intervals; those of waiting sides in other partitions have no entries yet."""
    within: kernels.Spans
    """Those of `cause_since` to which causing sides with a beginning of their own are limited; empty without limits."""
    of_causing: kernels.Entries
    """Entries of causing sides, and of waiting sides in the same partition."""
    of_within: kernels.Entries

    @classmethod
    def of(cls, intervals: Intervals, ends: Ends, is_idle: Mask, row: Ints, inside: slice) -> _BothSides:
        """Describe the sides of some pairs.

        `is_idle` marks pairs whose causing sides idle until a master comes, `inside` are the pairs with both sides in
        the partition.
        """
        begins, has_own = ends.begin, ends.own_since >= 0
        causing = intervals.described(begins, ends.cause, is_idle)
        waiting = intervals.described(ends.waiting_since, ends.waiting)
        both = kernels.Spans(*map(np.append, causing, kernels.part_of(waiting, inside)))
        # nothing waits where threads idle
        until = np.append(ends.cause, ends.waiting[inside])
        idle = np.append(is_idle, np.zeros(until.size - begins.size, bool))
        both, of_causing = intervals.found(both, np.append(begins, ends.waiting_since[inside]), until, idle)
        causing = kernels.part_of(both, slice(begins.size))
        waiting.first[inside], waiting.stop[inside] = both.first[begins.size :], both.stop[begins.size :]
        limited = has_own if intervals.quirks.needs_shared_call_paths else has_own[:0]
        n = limited.size
        within, of_within = intervals.spans(ends.cause_since[:n], np.where(limited, ends.cause[:n], -1))
        return cls(ends, row, causing, waiting, within, of_causing, of_within)


class Comparison:
    """The comparison of both sides of the pairs whose causes are in a partition, block by block.

    `intervals` are those of the partition; at most `n` pairs are compared together, and `spill` stores the result.
    """

    def __init__(self, intervals: Intervals, n: int, spill: Spill) -> None:
        self._intervals, self._spill, facts, quirks = intervals, spill, intervals.facts, intervals.quirks
        self._sums = [sum_of(facts, quirks) for _ in range(3)]
        dtype = time_type(quirks)
        room = max(1 << 12, 4 * n, len(facts.call_paths.whole) + 1)
        first, stop = np.empty(n, np.int64), np.empty(n, np.int64)
        entries = np.empty(room, np.int32), np.empty(room, dtype)
        self._out = kernels.Listed(first, stop, np.empty(n, dtype), *entries)
        self._filled = self._n_kept = 0
        self._pieces: list[tuple[ColumnSource, ColumnSource]] = []

    def compare(self, both: _BothSides, rows: slice, other: Segments | None) -> None:
        """Compare both sides of some pairs, given as a slice of `both`, whose waiting sides are in one partition:
        `other` are its segments if it is another one."""
        waits, of_waiting = kernels.part_of(both.waiting, rows), both.of_causing
        if other is not None:
            intervals = self._intervals._replace(segments=other)
            waits, of_waiting = intervals.found(waits, both.ends.waiting_since[rows], both.ends.waiting[rows])
        causing, within = (kernels.part_of(of, rows) for of in (both.causing, both.within))
        sides, row = kernels.Sides(causing, waits, within), both.row[rows]
        # entries read for these pairs are numbered differently from those read for others, so sums cannot be extended
        for sum_ in self._sums:
            sum_.state[FIRST] = -1
        times = kernels.Times(both.of_causing, of_waiting, both.of_within, *self._sums)
        all_waits = waits_of(self._intervals.point_index)
        given, done = (sides, times, all_waits), 0
        for column in all_waits:
            expect_near(column, some_of(waits.wait_first))
            expect_near(column, some_of(causing.wait_first))
        while True:
            done, self._filled = kernels.compare_sides(done, self._filled, row, *given, self._out)
            if done == row.size:
                break
            path, value = (arrays.with_room(of, int(self._filled)) for of in (self._out.path, self._out.value))
            self._out = self._out._replace(path=path, value=value)

    def keep(self, pair: Ints) -> None:
        """Store the result for the pairs compared last, ascending."""
        n, filled, (first, stop, total, path, value) = pair.size, int(self._filled), self._out
        before, self._filled, self._n_kept = self._n_kept, 0, self._n_kept + filled
        rows = {"pair": pair, "first": first[:n] + before, "stop": stop[:n] + before, "total": total[:n]}
        entries = Columns(filled, {"call_path": path[:filled], "time": value[:filled]})
        self._pieces.append(
            (self._spill.keep(Columns(n, rows), borrowed=True), self._spill.keep(entries, borrowed=True))
        )

    def kept(self) -> Delays:
        """Return the result for all pairs."""
        if not self._pieces:
            self.keep(np.zeros(0, np.int64))
        pairs, entries = zip(*self._pieces, strict=True)
        return Delays(pieced(pairs), pieced(entries))


class OwnTimes(NamedTuple):
    """The time of locations by call path without the waits: `location` int32, `call_path` int32, `time`
    (`points.time_type`), by location."""

    location: NDArray[np.int32]
    call_path: NDArray[np.int32]
    time: Times


@step(SPENT, "own_times")
def own_times(
    facts: Facts,
    quirks: Quirks,
    members: Ints,
    sync_points: KeptTable,
    point_index: PointIndex,
    segments: Segments,
    spill: Spill,
) -> OwnTimes:
    """Add up the time of some locations by call path without the waits at their synchronisation points."""
    large = spill.large
    intervals = Intervals(facts, quirks, sync_points, point_index, segments, large.briefly())
    location, call_path, time = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [np.zeros(0, time_type(quirks))]
    # all entries between the points of the locations are read
    for some in bounded(np.diff(point_index.start)[members], large.block_of(ENTRY_BYTES)):
        end = ends_of(members[some], sync_points, point_index)
        maps = intervals.pruned(np.full(end.size, -1, np.int64), end)
        location.append(np.repeat(sync_points.location[end], maps.end - maps.start))
        call_path.append(facts.call_paths.whole.creation[maps.call_path].astype(np.int32))
        time.append(maps.time)
    return OwnTimes(np.concatenate(location), np.concatenate(call_path), np.concatenate(time))
