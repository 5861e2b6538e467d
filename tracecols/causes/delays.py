"""What the causing side of a wait spent more time on than the waiting side, since both synchronised last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.causes.index import PointIndex
from tracecols.causes.pairs import END, IDLE
from tracecols.causes.points import Times, time_type
from tracecols.causes.quirks import Quirks
from tracecols.causes.segments import Segments, TimeMaps, sum_intervals, with_room
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import lookup, ranges
from tracecols.enhance.dataflow.partitions import Division
from tracecols.enhance.dataflow.spill import Spill, keep
from tracecols.enhance.dataflow.steps import DELAYS, SPENT, step
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import causes as kernels
from tracecols.kernels.segments import Inside, Maps

END_OF_EVENTS = np.iinfo(np.int64).max
"""Beyond the rows of the last location."""


class Intervals:
    """How much time is spent in the intervals between points of some locations."""

    def __init__(self, facts: Facts, quirks: Quirks, points: CompoundTable, index: PointIndex, spent: Segments) -> None:
        self._facts, self._quirks, self._points, self._index, self._spent = facts, quirks, points, index, spent
        self._last_row = np.append(facts.first_rows[1:], END_OF_EVENTS)

    def first(self, since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the segments that intervals begin with; `since` -1 is the beginning of the location of `until`."""
        location = self._points.location[until]
        return np.where(since >= 0, self._spent.cut_of(since, location), self._spent.first[location])

    def stop(self, until: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the segments that intervals end in front of: where the calls of points begin."""
        return self._spent.left_at(until, self._points.location[until])[0]

    def resumed(self, since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the segments that begin where points have waited long enough; those of the beginning for -1."""
        location = self._points.location[until]
        return np.where(since >= 0, self._spent.resumed_at(since, location)[0], self._spent.first[location])

    def behind_joins(self, since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the segments behind the first JOIN after points, those of the beginning for -1."""
        spent = self._spent
        if not spent.join_row.size:
            return np.where(since >= 0, self.first(since, until), spent.begin[self._points.location[until]])
        if not self._quirks.leaves_out_others:
            # the last JOIN before the end, which nested regions inside of outer ones are not in front of
            location = self._points.location[until]
            row = np.minimum(self._points.event[until], pick(self._last_row, location))
            at = np.searchsorted(spent.join_row, row, "left") - 1
            is_here = (at >= 0) & (pick(spent.join_row, at) >= self._facts.first_rows[location])
            return np.where(is_here, pick(spent.join_cut, at), spent.begin[location])
        at = np.searchsorted(spent.join_row, pick(self._points.event, since), "right")
        after = pick(spent.join_cut, np.minimum(at, spent.join_row.size - 1))
        stop = self.stop(until)
        behind = np.where((at < spent.join_row.size) & (after <= stop), after, stop)
        return np.where(since >= 0, behind, self.first(since, until))

    def pruned(
        self,
        since: NDArray[np.int64],
        until: NDArray[np.int64],
        first: NDArray[np.int64] | None = None,
        whole: bool = True,
    ) -> TimeMaps:
        """Return the time by call path between points without the waits in between.

        Parameters
        ----------
        since, until : (n,) int64
            Points of the same location; `since` -1 is its beginning.
        first : (n,) int64, optional
            Segments that the sums begin with, if not at `since`.
        whole : bool
            Whether the interval begins when `since` begins to complete, not behind its call.
        """
        points, index = self._points, self._index
        of_since = np.full(since.size, -1, np.int32)
        change = np.zeros(since.size, time_type(self._quirks))
        if whole:
            of_since = pick(self._facts.call_paths.whole.met, pick(points.call_path, since))
            change = np.where(since >= 0, pick(points.completion, since, 0) - pick(points.total, since, 0), 0)
        begin = np.where(since >= 0, since + 1, index.start[points.location[until]])
        return sum_intervals(
            self._facts,
            self._quirks,
            self._spent,
            self.first(since, until) if first is None else first,
            self.stop(until),
            Inside(
                index.n_waits_before(begin), index.n_waits_before(until), of_since, change, index.wait_path, index.wait
            ),
        )

    def spent(self, since: NDArray[np.int64], until: NDArray[np.int64]) -> TimeMaps:
        """Return all the time by call path between points, from when the first has waited long enough."""
        return sum_intervals(self._facts, self._quirks, self._spent, self.resumed(since, until), self.stop(until))


def numbers_of(pairs: CompoundTable, rows: NDArray[np.int64], *columns: str) -> list[NDArray[np.int64]]:
    """Return the numbers of points in some rows of `delay_pairs`; a list of (n,) int64.

    Parameters
    ----------
    pairs : CompoundTable
        `delay_pairs`: all of the trace.
    rows : (n,) int64
    """
    return [pairs[name][rows].astype(np.int64, copy=False) for name in columns]


@dataclass(frozen=True, eq=False)
class WaitingTimes:
    """What the waiting sides of pairs did since they synchronised last, for the partitions of those who caused it.

    Attributes
    ----------
    start, entry_start : (n_partitions + 1,) int64
        First pair for each partition, and its first entry.
    pairs : ColumnSource
        `pair` int64, `size` int64 (entries).
    entries : ColumnSource
        `call_path` int32, `time` (`points.time_type`).
    """

    start: NDArray[np.int64]
    entry_start: NDArray[np.int64]
    pairs: ColumnSource
    entries: ColumnSource


@step(SPENT, "waiting_times", keeps=("waiting_times",))
def waiting_times(
    facts: Facts,
    quirks: Quirks,
    members: NDArray[np.int64],
    division: Division,
    sync_points: CompoundTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    segments: Segments,
    spill: Spill | None,
) -> WaitingTimes:
    """Find what the waiting sides of pairs did since they synchronised last with those who let them wait."""
    chosen = point_index.waiting(members)
    to = division.of_process[facts.process[sync_points.location[delay_pairs.cause[chosen]]]] if chosen.size else chosen
    order = np.argsort(to, kind="stable")
    chosen, to = chosen[order], to[order]
    since, until = numbers_of(delay_pairs, chosen, "waiting_since", "waiting")
    maps = Intervals(facts, quirks, sync_points, point_index, segments).pruned(since, until)
    start = np.searchsorted(to, np.arange(len(division) + 1))
    return WaitingTimes(
        start,
        np.append(0, maps.end)[start],
        keep(Columns(chosen.size, {"pair": chosen, "size": maps.end - maps.start}), spill),
        keep(Columns(maps.time.size, {"call_path": maps.call_path, "time": maps.time}), spill),
    )


@dataclass(frozen=True, eq=False)
class Delays:
    """What the causing sides of pairs spent more time on than the waiting sides.

    Attributes
    ----------
    pairs : ColumnSource
        `pair` int64, the pairs whose causes are in the partition; `end` int64, one past the last entry of each;
        `total`, the sum of its entries.
    entries : ColumnSource
        `call_path` int32 (in the order in which they are met), `time` (`points.time_type`): how much more.
    """

    pairs: ColumnSource
    entries: ColumnSource

    @property
    def pair(self) -> NDArray[np.int64]:
        """The pairs whose causes are in the partition; (n,) int64."""
        return self.pairs.column("pair")

    @property
    def end(self) -> NDArray[np.int64]:
        """One past the last entry of each; (n,) int64."""
        return self.pairs.column("end")

    @property
    def total(self) -> Times:
        """The sum of the entries of each; (n,) of `points.time_type`."""
        return self.pairs.column("total")


@step(DELAYS, "delays", keeps=("delays",))
def find_delays(
    facts: Facts,
    quirks: Quirks,
    members: NDArray[np.int64],
    partition: int,
    sync_points: CompoundTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    segments: Segments,
    every_waiting_times: Sequence[WaitingTimes],
    spill: Spill | None,
) -> Delays:
    """Find what the causing sides of pairs spent more time on than the waiting sides, by call path."""
    pair = point_index.causing(members)
    cause, own, since = numbers_of(delay_pairs, pair, "cause", "own_since", "cause_since")
    is_idle = delay_pairs.kind[pair] == IDLE
    # one map for every cause and beginning, and for those with other beginnings the call paths of the whole interval
    begins = np.where(own >= 0, own, since)
    key = np.lexsort((begins, cause))
    new = (
        np.append(True, (cause[key][1:] != cause[key][:-1]) | (begins[key][1:] != begins[key][:-1]))
        if key.size
        else key > 0
    )
    maps_of = np.empty(key.size, np.int64)
    maps_of[key] = np.cumsum(new) - 1
    head = key[new]
    intervals = Intervals(facts, quirks, sync_points, point_index, segments)
    first = np.where(
        is_idle[head], intervals.behind_joins(begins[head], cause[head]), intervals.first(begins[head], cause[head])
    ).astype(np.int64)
    plain = is_idle[head]
    times = _alternating(intervals, begins[head], cause[head], first, plain)
    has_own = np.flatnonzero((own >= 0) & quirks.needs_shared_call_paths)
    within = np.full(pair.size, -1, np.int64)
    if has_own.size:
        whole, first_of = np.unique(cause[has_own], return_index=True)
        # those that begin at the same point go on with each other's sums
        order = np.lexsort((whole, since[has_own][first_of]))
        limits = intervals.pruned(since[has_own][first_of][order], whole[order], whole=False)
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size)
        within[has_own] = head.size + rank[np.searchsorted(whole, cause[has_own])]
        times = TimeMaps(
            np.concatenate([times.end, times.time.size + limits.end]),
            np.concatenate([times.call_path, limits.call_path]),
            np.concatenate([times.time, limits.time]),
        )
    dtype = time_type(quirks)
    others = _received(dtype, every_waiting_times, partition)
    at = lookup(others[0], pair)
    call_path = pick(sync_points.call_path, since)
    keeps = pick(facts.call_paths.whole.met, call_path)
    dense, total = np.zeros(len(facts.call_paths.whole), dtype), np.zeros(pair.size, dtype)
    causing, other = (Maps(m.end, m.call_path, m.time) for m in (times, others[1]))
    # of memory that is not written there are no pages
    room = max(1 << 12, times.time.size)
    out = Maps(np.zeros(pair.size, np.int64), np.empty(room, np.int32), np.empty(room, dtype))
    done = 0
    while True:
        done = int(kernels.subtract_maps(done, maps_of, at, within, causing, other, keeps, dense, out, total))
        if done == pair.size:
            break
        out = with_room(out)
    n = int(out.end[-1]) if out.end.size else 0
    entries = Columns(n, {"call_path": out.path[:n].copy(), "time": out.value[:n].copy()})
    rows = Columns(pair.size, {"pair": pair, "end": out.end, "total": total})
    return Delays(keep(rows, spill), keep(entries, spill))


def _alternating(
    intervals: Intervals,
    since: NDArray[np.int64],
    until: NDArray[np.int64],
    first: NDArray[np.int64],
    plain: NDArray[np.bool_],
) -> TimeMaps:
    """Return pruned maps, of which some begin as their points do and others, `plain`, as they are."""
    whole, rest = np.flatnonzero(~plain), np.flatnonzero(plain)
    a = intervals.pruned(since[whole], until[whole], first[whole])
    if not rest.size:
        return a
    b = intervals.pruned(since[rest], until[rest], first[rest], whole=False)
    size = np.empty(since.size, np.int64)
    size[whole], size[rest] = a.end - a.start, b.end - b.start
    end = np.cumsum(size)
    call_path, time = np.empty(int(end[-1]), np.int32), np.empty(int(end[-1]), a.time.dtype)
    for of, maps in ((whole, a), (rest, b)):
        n = maps.end - maps.start
        at = ranges(end[of] - n, n)
        call_path[at], time[at] = maps.call_path, maps.time
    return TimeMaps(end, call_path, time)


def _received(dtype: DTypeLike, waiting: Sequence[WaitingTimes], partition: int) -> tuple[NDArray[np.int64], TimeMaps]:
    """Put together what all partitions have for one: pairs, and a map for each."""
    pairs, sizes, call_paths, times = (
        [np.zeros(0, np.int64)],
        [np.zeros(0, np.int64)],
        [np.zeros(0, np.int32)],
        [np.zeros(0, dtype)],
    )
    for w in waiting:
        rows = int(w.start[partition]), int(w.start[partition + 1])
        entries = int(w.entry_start[partition]), int(w.entry_start[partition + 1])
        pairs.append(w.pairs.rows("pair", *rows))
        sizes.append(w.pairs.rows("size", *rows))
        call_paths.append(w.entries.rows("call_path", *entries))
        times.append(w.entries.rows("time", *entries))
    return np.concatenate(pairs), TimeMaps(
        np.cumsum(np.concatenate(sizes)), np.concatenate(call_paths), np.concatenate(times)
    )


@dataclass(frozen=True, eq=False)
class OwnTimes:
    """The time of locations by call path without the waits: `location` int32, `call_path` int32, `time`
    (`points.time_type`), by location."""

    location: NDArray[np.int32]
    call_path: NDArray[np.int32]
    time: Times


@step(SPENT, "own_times", keeps=("own_times",))
def own_times(
    facts: Facts,
    quirks: Quirks,
    members: NDArray[np.int64],
    sync_points: CompoundTable,
    point_index: PointIndex,
    segments: Segments,
) -> OwnTimes:
    """Add up the time of some locations by call path without the waits at their synchronisation points."""
    last = point_index.start[1:][members] - 1
    end = last[last >= point_index.start[:-1][members]]
    end = end[sync_points.kind[end] == END]
    maps = Intervals(facts, quirks, sync_points, point_index, segments).pruned(np.full(end.size, -1, np.int64), end)
    location = np.repeat(sync_points.location[end], maps.end - maps.start)
    return OwnTimes(location, facts.call_paths.whole.creation[maps.call_path].astype(np.int32), maps.time)
