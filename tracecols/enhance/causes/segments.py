"""Exclusive time per call path between synchronisation points, and sums of it over intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.enhance.causes.index import PointIndex
from tracecols.enhance.causes.pairs import END, FORK
from tracecols.enhance.causes.points import ThreadPoints, Times, clock, time_type
from tracecols.enhance.causes.quirks import Quirks
from tracecols.enhance.columns import Columns, ColumnSource, CompoundTable, pick
from tracecols.enhance.facts import Facts
from tracecols.enhance.grouping import lookup
from tracecols.enhance.instances import walk_stacks
from tracecols.enhance.scan import LocationScan, flush_stops_of
from tracecols.enhance.spill import Spill, keep
from tracecols.enhance.teams import IS_JOIN, Teams
from tracecols.kernels import segments as kernels
from tracecols.kernels.actions import FLUSH, JOIN, ON_OFF, POP, PUSH, action_table
from tracecols.schema import EventKind as K

LIMIT = 128
"""Call paths that the reference's maps of times hold."""


ACTION = action_table(PUSH, POP, ON_OFF, FLUSH, JOIN)
"""What kinds of events do to the time of call paths."""
ACTION[K.MPI_IRECV_REQUEST] = kernels.REQUEST


@dataclass(frozen=True, eq=False)
class Segments:
    """The time of some locations by call path, from cut to cut; call paths are numbered in the order in which they are met.

    Attributes
    ----------
    end : (n_segments,) int64
        One past the last entry of each segment, location by location.
    entries : ColumnSource
        `call_path` int32, `time` (`points.time_type`).
    cut : (n_own_points,) int64
        Of the points of the locations, one location after the other: the number of the segment that begins there.
    cut_time : (n_own_points,) as `time`
        Until when the time before each cut is counted.
    shift : (n_locations,) int64
        How much greater the number of a point of each location is than its place in `cut`.
    first : (n_locations,) int64
        First segment of each location; -1 where it has none here.
    begin : (n_locations,) int64
        The segment behind what lies before the first event, which counts for the call path that it enters if nothing is forgotten.
    stop : (n_locations,) int64
        One past the last.
    join_row, join_cut : (n_joins,) int64
        Rows of the JOINs, ascending within locations, and the segments that begin behind them.
    """

    end: NDArray[np.int64]
    entries: ColumnSource
    cut: NDArray[np.int64]
    cut_time: Times
    shift: NDArray[np.int64]
    first: NDArray[np.int64]
    begin: NDArray[np.int64]
    stop: NDArray[np.int64]
    join_row: NDArray[np.int64]
    join_cut: NDArray[np.int64]

    def cut_of(self, point: NDArray[np.int64], location: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the segments that begin at points of locations; -1 for point -1."""
        return pick(self.cut, np.where(point < 0, -1, point - self.shift[location]))

    def time_of(self, point: NDArray[np.int64], location: NDArray[np.int32]) -> Times:
        """Return until when the time before the cuts at points of locations is counted."""
        return self.cut_time[point - self.shift[location]]


def open_map(dtype: DTypeLike, n_call_paths: int, limit: int) -> kernels.OpenMap:
    """Make an empty map that holds the times of so many call paths.

    Parameters
    ----------
    dtype : numpy.dtype
        Of times.
    n_call_paths, limit : int
        How many there are; how many of them the map can hold.
    """
    return kernels.OpenMap(
        slot=np.full(n_call_paths, -1, np.int32),
        path=np.empty(limit, np.int32),
        value=np.empty(limit, dtype),
        floor=np.zeros(1, dtype),
        spare_path=np.empty(limit, np.int32),
        spare_value=np.empty(limit, dtype),
    )


class _Collector:
    """What `collect_segments` fills for one location."""

    def __init__(self, dtype: DTypeLike, n_call_paths: int, limit: int, n_joins: int) -> None:
        self.limit = limit
        self.state = np.zeros(kernels.N_STATE, np.int64)
        self.state[kernels.IN] = -1
        self.last = np.zeros(1, dtype)
        self.open_map = open_map(dtype, n_call_paths, limit)
        # of memory that is not written there are no pages
        room = max(1 << 18, 4 * limit)
        self.segments = kernels.Maps(np.empty(1 << 14, np.int64), np.empty(room, np.int32), np.empty(room, dtype))
        self.joins = kernels.Joins(np.full(n_joins, -1, np.int64), np.zeros(n_joins, np.int64))

    def grow(self) -> None:
        """Make room for more entries or segments."""
        if self.state[kernels.N_ENTRIES] + 2 * self.limit > self.segments.path.size:
            self.segments = with_room(self.segments)
        end, path, value = self.segments
        if self.state[kernels.N_SEGMENTS] + 4 > end.size:
            self.segments = kernels.Maps(_doubled(end), path, value)

    def finish(self, forgets: bool, until: Times) -> None:
        """Close the last segment; of a worker what it has done since the last cut may be forgotten.

        Without that what is left of the time until the end, if that is given, counts for the call path that is open there, or was left last.
        """
        self.grow()
        n = int(self.state[kernels.N_LISTED])
        if not forgets and not self.state[kernels.IDLES] and self.state[kernels.IN] >= 0 and (until > self.last).any():
            left = (until - self.last)[0]
            n = kernels.add(int(self.state[kernels.IN]), left, n, *self.open_map[:4])
            self.state[kernels.N_LISTED] = n
            self.last = until.copy()
        n, at = int(self.state[kernels.N_LISTED]), int(self.state[kernels.N_ENTRIES])
        if not forgets:
            kernels.take_out(n, *self.open_map[:3], *self.segments[1:], at)
            at += n
        n_segments = int(self.state[kernels.N_SEGMENTS])
        end, path, value = self.segments
        end[n_segments] = at
        # the room itself is for the next location
        self.segments = kernels.Maps(end[: n_segments + 1].copy(), path[:at].copy(), value[:at].copy())


def segments(
    facts: Facts, quirks: Quirks, scans: Sequence[LocationScan], members: NDArray[np.int64], teams: Teams, points: CompoundTable,
    index: PointIndex, threads: ThreadPoints, spill: Spill | None,
) -> Segments:  # fmt: skip
    """Add up the time of some locations by call path between the cuts at their synchronisation points.

    Parameters
    ----------
    facts : Facts
        What every step knows of the whole trace.
    quirks : Quirks
        Peculiarities of the reference.
    scans : sequence of LocationScan
        Results of the scan, by location.
    members : (n_members,) int64
        Rows of the locations of the partition, ascending.
    teams : Teams
        Team instances of the partition.
    points : CompoundTable
        `sync_points`: all of the trace.
    index : PointIndex
        Of points and pairs.
    threads : ThreadPoints
        Points of the partition's threads, and their parallel regions.
    spill : Spill, optional
        Where the columns are kept; in memory if nowhere.
    """
    tree = facts.call_paths
    n_locations = facts.n_locations
    met = tree.met.astype(np.int64)
    parent = pick(met, tree.parent.astype(np.int64))[tree.creation] if len(tree) else met
    times, dtype = clock(facts, quirks), time_type(quirks)
    shift = np.zeros(n_locations, np.int64)
    cuts: list[NDArray[np.int64]] = []
    cut_times: list[Times] = []
    fills = not quirks.forgets_workers
    first, begin, stop = (np.full(n_locations, -1, np.int64) for _ in range(3))
    regions = threads.regions
    of_location = np.argsort(regions.location, kind="stable")
    region_start = np.searchsorted(regions.location[of_location], np.arange(n_locations + 1))
    done: list[kernels.Maps] = []
    joins: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    n_segments = n_entries = n_points = 0
    ends: list[NDArray[np.int64]] = []
    for i in sorted(members[facts.locations.is_cpu[members]].tolist()):
        here = np.arange(index.start[i], index.start[i + 1])
        shift[i] = index.start[i] - n_points
        n_points += here.size
        is_end = points.kind[here] == END
        real = here[~is_end]
        mine = of_location[region_start[i] : region_start[i + 1]]
        leaves = mine[regions.exit[mine] >= 0]
        rows = np.concatenate([points.row[real], regions.exit[leaves]])
        what = np.full(rows.size, kernels.CUT, np.int8)
        value = np.zeros(rows.size, dtype)
        is_fork = points.kind[real] == FORK
        # a thread that another one has forked idles outside, unless the time of its team counts in the call path around
        is_guest = regions.is_guest & (not quirks.forgets_workers)
        entered = mine[lookup(regions.enter[mine], points.row[real][is_fork])]
        what[: real.size][is_fork] = np.where(is_guest[entered], kernels.JOIN_TEAM, kernels.FORK)
        what[real.size :] = np.where(is_guest[leaves], kernels.END_IN_TEAM, kernels.LEAVE_TEAM)
        value[: real.size][is_fork] = regions.fork[entered]
        value[real.size :] = regions.join[leaves]
        is_worker = bool(facts.locations.master[i] != i)
        forgets = is_worker and quirks.forgets_workers
        second = int(facts.first_rows[i]) + 1
        if fills and not is_worker and scans[i].n > 1 and second not in rows:
            rows, what, value = (
                np.append(rows, second),
                np.append(what, np.int8(kernels.CUT)),
                np.append(value, dtype(0)),
            )
        order = np.argsort(rows, kind="stable")
        thread_rows = teams.events[i]
        limit = LIMIT if quirks.limits_maps else max(len(tree), 1)
        collector = _Collector(dtype, len(tree), limit, int(IS_JOIN[thread_rows.kind].sum()))
        marks = kernels.Marks(
            rows[order], what[order], value[order], np.zeros(rows.size, np.int64), np.zeros(rows.size, dtype)
        )
        _collect(facts, quirks, scans, teams, i, collector, met, parent, forgets, fills and not is_worker, marks)
        collector.finish(forgets, times(np.array([scans[i].last_time] if fills and scans[i].n else [], np.int64)))
        mark_cut, mark_time = np.empty(rows.size, np.int64), np.empty(rows.size, dtype)
        mark_cut[order], mark_time[order] = marks.cut, marks.time
        cut, cut_time = np.empty(here.size, np.int64), np.empty(here.size, dtype)
        cut[~is_end], cut_time[~is_end] = n_segments + mark_cut[: real.size], mark_time[: real.size]
        first[i] = begin[i] = n_segments
        if (rows == second).any() and fills and not is_worker:
            begin[i] += mark_cut[rows == second][0]
        ends.append(collector.segments.end + n_entries)
        n_segments += collector.segments.end.size
        n_entries += collector.segments.path.size
        stop[i] = n_segments
        cut[is_end], cut_time[is_end] = n_segments, collector.last[0]
        cuts.append(cut)
        cut_times.append(cut_time)
        found = collector.joins.row >= 0
        joins.append((collector.joins.row[found], collector.joins.cut[found] + first[i]))
        done.append(collector.segments)
    nothing = np.zeros(0, np.int64)
    entries = Columns(
        n_entries,
        {
            "call_path": np.concatenate([np.zeros(0, np.int32), *(maps.path for maps in done)]),
            "time": np.concatenate([np.zeros(0, dtype), *(maps.value for maps in done)]),
        },
    )
    return Segments(
        np.concatenate([nothing, *ends]), keep(entries, spill), np.concatenate([nothing, *cuts]),
        np.concatenate([np.zeros(0, dtype), *cut_times]), shift, first, begin, stop,
        np.concatenate([nothing, *(r for r, _ in joins)]), np.concatenate([nothing, *(c for _, c in joins)]),
    )  # fmt: skip


def _collect(
    facts: Facts, quirks: Quirks, scans: Sequence[LocationScan], teams: Teams, location: int, c: _Collector, met: NDArray[np.int64],
    parent: NDArray[np.int64], forgets: bool, fills: bool, marks: kernels.Marks,
) -> None:  # fmt: skip
    """Go through the events of one location."""
    times = clock(facts, quirks)
    stops = times(flush_stops_of(facts.store, np.array([location]))[0])
    flush_paths = np.full(stops.size, -1, np.int64)
    n_flushes = 0
    tree = facts.call_paths
    number = met[tree.numbers[location]]
    for base, columns in walk_stacks(facts, scans, teams, location):
        node = columns["node"]
        if stops.size:
            flushes = np.flatnonzero(columns["kind"] == K.BUFFER_FLUSH)
            if flushes.size:
                # the call path of a flush stands below the one around it
                around = pick(facts.call_paths.numbers[location], node[flushes].astype(np.int64))
                region = facts.regions.of_entry[columns["region"][flushes]]
                n = len(facts.regions)
                below = lookup((tree.parent.astype(np.int64) + 1) * n + tree.region, (around + 1) * n + region)
                flush_paths[n_flushes : n_flushes + flushes.size] = pick(met, below)
                n_flushes += flushes.size
        at, n, time = 0, node.size, times(columns["time"])
        while True:
            at = int(
                kernels.collect_segments(
                    time, columns["kind"], columns["region"], node, at, base, ACTION, number, parent, forgets, fills, stops,
                    flush_paths, marks, c.joins, c.state, c.last, c.open_map, c.segments,
                )
            )  # fmt: skip
            if at == n:
                break
            c.grow()


@dataclass(frozen=True, eq=False)
class TimeMaps:
    """Time by call path of intervals.

    Attributes
    ----------
    end : (n,) int64
        One past the last entry of each map.
    call_path, time : (n_entries,) int32, `points.time_type`
        In the order of the call paths.
    """

    end: NDArray[np.int64]
    call_path: NDArray[np.int32]
    time: Times

    @property
    def start(self) -> NDArray[np.int64]:
        """First entry of each map."""
        return np.append(0, self.end[:-1]) if self.end.size else self.end


def sum_intervals(
    facts: Facts, quirks: Quirks, spent: Segments, first: NDArray[np.int64], stop: NDArray[np.int64],
    pruned: kernels.Inside | None = None,
) -> TimeMaps:  # fmt: skip
    """Add up segments by call path.

    Parameters
    ----------
    facts : Facts
        What every step knows of the whole trace.
    quirks : Quirks
        Peculiarities of the reference.
    spent : Segments
    first, stop : (n,) int64
        First segment of each interval, and one past its last.
    pruned : Inside, optional
        What is inside of the intervals: take waits off.
    """
    n = first.size
    is_pruned = pruned is not None
    nothing, dtype = np.zeros(n, np.int64), time_type(quirks)
    inside = pruned or kernels.Inside(
        nothing, nothing, np.full(n, -1, np.int32), np.zeros(n, dtype), np.zeros(0, np.int32), np.zeros(0, dtype)
    )
    n_call_paths = len(facts.call_paths)
    limit = LIMIT if quirks.limits_maps else max(n_call_paths, 1)
    waited, filling = np.zeros(n_call_paths, dtype), open_map(dtype, n_call_paths, limit)
    room = max(1 << 18, 32 * n, 2 * limit)
    out = kernels.Maps(np.zeros(n, np.int64), np.empty(room, np.int32), np.empty(room, dtype))
    of_segments = kernels.Maps(spent.end, spent.entries.column("call_path"), spent.entries.column("time"))
    at = 0
    while True:
        at = int(kernels.sum_intervals(at, first, stop, inside, is_pruned, of_segments, filling, waited, out))
        if at == n:
            break
        out = with_room(out)
    filled = int(out.end[-1]) if n else 0
    return TimeMaps(out.end, out.path[:filled].copy(), out.value[:filled].copy())


def with_room(maps: kernels.Maps) -> kernels.Maps:
    """Return maps that are being written with twice as much room for entries.

    Parameters
    ----------
    maps : Maps
    """
    return kernels.Maps(maps.end, _doubled(maps.path), _doubled(maps.value))


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    found = np.empty(2 * array.size, array.dtype)
    found[: array.size] = array
    return found
