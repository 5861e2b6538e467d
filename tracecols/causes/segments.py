"""Exclusive time per call path between synchronisation points, and sums of it over intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.causes.edges import EdgeCollector, PeriodEdges, dividing_of, join_edges
from tracecols.causes.index import PointIndex, Ranges
from tracecols.causes.near import Near, whole
from tracecols.causes.pairs import CREATED, END, FORK
from tracecols.causes.points import ParallelRegions, Times, clock, number_type, time_type
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, pick, pieced
from tracecols.enhance.dataflow.grouping import bounded, lookup
from tracecols.enhance.dataflow.spill import Spill, keep, large_arrays
from tracecols.enhance.dataflow.steps import SPENT, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import WalkedEvents, walk_stacks
from tracecols.enhance.scan.scan import LocationScan, flush_stops_of
from tracecols.enhance.scan.teams import IS_JOIN, Teams
from tracecols.kernels import edges as of_edges
from tracecols.kernels import intervals, sums
from tracecols.kernels import segments as kernels
from tracecols.kernels.actions import FLUSH, JOIN, NOTHING, ON_OFF, POP, PUSH, TASK_COMPLETE, TASK_SWITCH, action_table
from tracecols.kernels.arrays import first
from tracecols.schema import EventKind as K
from tracecols.schema.causes import POINTS
from tracecols.work.large import LargeArrays

LIMIT = 128
"""Call paths that the reference's maps of times hold."""

PIECE = 1 << 22
"""Entries of segments, at most, that are held until they are kept, fewer where there is little memory; more only if a
single event needs them."""

ROOM = 1 << 14
"""Entries of segments that there is room for at least."""

TOGETHER = 1 << 20
"""Points of locations whose cuts are found together; more only of a single location."""


ACTION = action_table(PUSH, POP, ON_OFF, FLUSH, JOIN, TASK_SWITCH, TASK_COMPLETE)
"""What kinds of events do to the time of call paths."""
ACTION[K.MPI_IRECV_REQUEST] = kernels.REQUEST

ACTION_WITHOUT_TASKS = np.where(np.isin(ACTION, [TASK_SWITCH, TASK_COMPLETE]), np.uint8(NOTHING), ACTION)
"""The same where time is counted from region to region only (`quirks.Quirks.counts_unexecuted`)."""


class NestedCuts(NamedTuple):
    """Cuts inside of the calls of points that execute other regions or tasks."""

    point: NDArray[np.int64]
    """(n,): points, ascending."""
    cut: NDArray[np.int64]
    """(n,): the segment that begins there."""
    time: Times
    """(n,) float64 or int64: when it is."""

    @classmethod
    def joined(cls, parts: Sequence[NestedCuts], dtype: DTypeLike) -> NestedCuts:
        """Put those of locations one after the other, ascending; `dtype` is that of times."""
        return cls(
            np.concatenate([np.zeros(0, np.int64), *(of.point for of in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(of.cut for of in parts)]),
            np.concatenate([np.zeros(0, dtype), *(of.time for of in parts)]),
        )

    def replace(self, point: NDArray[np.int64], cut: NDArray[np.int64], time: Times) -> tuple[NDArray[np.int64], Times]:
        """Return cuts of points and their times, with the nested ones in the place of others; (n,) each."""
        if not self.point.size:
            return cut, time
        at = lookup(self.point, point)
        return np.where(at >= 0, pick(self.cut, at), cut), np.where(at >= 0, pick(self.time, at), time)


class Segments(NamedTuple):
    """The time of some locations by call path, from cut to cut; call paths are numbered in the order in which they are
    met.
    """

    ends: ColumnSource
    """`end` int64, by segment, location by location: one past its last entry."""
    entries: ColumnSource
    """`call_path` int32, `time` (`points.time_type`)."""
    cuts: ColumnSource
    """Of the points of the locations, one location after the other: `cut`, the number of the segment that begins there,
    `left`, of the one after the begin of its call (int32 or int64), and `time`, until when the time before the cut is
    counted."""
    shift: NDArray[np.int64]
    """(n_locations,): how much greater the number of a point of each location is than its place in `cut`
    (`PointIndex.shift`)."""
    first: NDArray[np.int64]
    """(n_locations,): first segment of each location; -1 where it has none here."""
    begin: NDArray[np.int64]
    """(n_locations,): the segment after what lies before the first event, which counts for the call path that it enters
    if nothing is forgotten."""
    stop: NDArray[np.int64]
    """(n_locations,): one past the last."""
    left: NestedCuts
    resumed: NestedCuts
    """`left` and `resumed`: of points whose calls execute something else before their event: cuts where the call
    begins, and where it has waited long enough."""
    join_row: NDArray[np.int64]
    join_cut: NDArray[np.int64]
    """`join_row` and `join_cut`: (n_joins,), rows of the JOINs, ascending within locations, and the segments that begin
    after them."""
    edges: PeriodEdges | None = None
    """Where phases or bins of time begin, if they divide the trace."""

    def cut_of(self, point: NDArray[np.int64], location: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the segments that begin at points of locations; -1 for point -1."""
        return self._at("cut", point, location).astype(np.int64, copy=False)

    def left_of(self, point: NDArray[np.int64], location: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the segments after the begin of the calls of points."""
        return self._at("left", point, location).astype(np.int64, copy=False)

    def between(
        self, since: NDArray[np.int64], until: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the segments that begin at cuts, and those after the begins of the calls of others; -1 for -1."""
        (cut,), (left,) = self.cuts.several_at(("cut",), since), self.cuts.several_at(("left",), until)
        return cut.astype(np.int64, copy=False), left.astype(np.int64, copy=False)

    def left_time(self, point: NDArray[np.int64], location: NDArray[np.int32]) -> Times:
        """Return until when the time before the begin of the calls of points is counted."""
        return self.left.replace(point, point, self._at("time", point, location))[1]

    def resumed_at(self, point: NDArray[np.int64], location: NDArray[np.int32]) -> tuple[NDArray[np.int64], Times]:
        """Return the same where points have waited long enough; segment -1 for point -1."""
        return self.resumed.replace(point, self.cut_of(point, location), self._at("time", point, location))

    def _at(self, name: str, point: NDArray[np.int64], location: NDArray[np.int32]) -> NDArray[Any]:
        """Return a column of the cuts at points of locations; -1 for point -1."""
        return self.cuts.several_at((name,), np.where(point < 0, -1, point - self.shift[location]))[0]

    def entries_between(
        self, first: NDArray[np.int64], stop: NDArray[np.int64], large: LargeArrays
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], intervals.Entries]:
        """Return the first entries of some runs of segments, one past their last, and what these are numbers of."""
        bounds = np.append(first, np.maximum(first, stop)) - 1
        first, stop = self.ends.several_at(("end",), bounds, 0)[0].reshape(2, -1)
        near = Near(self.entries, first, stop, large)
        begin = near.place(first)
        return begin, begin + (stop - first), intervals.Entries(*near.columns("call_path", "time"))


class _Collector:
    """What `collect_segments` fills, one location after the other; `spill` keeps what is finished, piece by piece.

    The map of a segment can hold `limit` of the call paths. The locations have no more than `n_events` entries as a
    rule.
    """

    def __init__(
        self, dtype: DTypeLike, n_call_paths: int, limit: int, n_joins: int, n_events: int, spill: Spill | None
    ) -> None:
        self._large, self._spill = large_arrays(spill), spill
        self.state = np.zeros(kernels.N_STATE, np.int64)
        self.last = np.zeros(1, dtype)
        self.open_sum = new_sum(dtype, n_call_paths, limit)
        self._pieces: list[tuple[ColumnSource, ColumnSource]] = []
        entry_bytes = 12 + self.last.dtype.itemsize
        self._begin_arrays(max(ROOM, 4 * limit, min(n_events, self._large.block_of(entry_bytes, PIECE))))
        self.joins = kernels.Joins(np.full(n_joins, -1, np.int64), np.zeros(n_joins, np.int64))

    def _begin_arrays(self, room: int) -> None:
        """Make arrays for so many segments and entries."""
        of_times = self.last.dtype
        self.segments = kernels.Maps(*(self._large.empty(room, of) for of in (np.int64, np.int32, of_times)))

    @property
    def collected(self) -> kernels.Collected:
        """What the kernel writes."""
        return kernels.Collected(self.joins, self.state, self.last, self.open_sum, self.segments)

    def _keep_piece(self, is_last: bool = False) -> None:
        """Keep the segments in the arrays, and their entries, and begin with the arrays anew; if these are the last,
        they stay where they are."""
        state = self.state
        cut_off: Callable[[NDArray[Any], int], NDArray[Any]] = self._large.trimmed if is_last else _first
        n_segments = int(state[kernels.N_SEGMENTS] - state[kernels.FIRST_SEGMENT])
        n_entries = int(state[kernels.N_ENTRIES] - state[kernels.FIRST_ENTRY])
        end, path, value = self.segments
        ends = Columns(n_segments, {"end": cut_off(end, n_segments)})
        entries = Columns(n_entries, {"call_path": cut_off(path, n_entries), "time": cut_off(value, n_entries)})
        kept_ends, kept = (keep(of, self._spill, borrowed=not is_last, often=True) for of in (ends, entries))
        self._pieces.append((kept_ends, kept))
        state[kernels.FIRST_SEGMENT], state[kernels.FIRST_ENTRY] = state[kernels.N_SEGMENTS], state[kernels.N_ENTRIES]

    def kept(self) -> tuple[ColumnSource, ColumnSource]:
        """Return the segments, and their entries, once all locations are finished."""
        self._keep_piece(is_last=True)
        ends, entries = zip(*self._pieces, strict=True)
        return pieced(ends), pieced(entries)

    def grow(self) -> None:
        """Make room for more entries and segments; what fills the arrays is kept."""
        n_cuts = int(self.state[kernels.ROOM])
        self.state[kernels.ROOM] = 0
        if kernels.has_room(n_cuts, self.collected):
            return
        self._keep_piece()
        while not kernels.has_room(n_cuts, self.collected):
            self._begin_arrays(2 * self.segments.end.size)


def _first(array: NDArray[Any], n: int) -> NDArray[Any]:
    return array[:n]


@step(SPENT, "segments", keeps=("segments",))
def segments(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    members: NDArray[np.int64],
    team_instances: Teams,
    sync_points: CompoundTable,
    point_index: PointIndex,
    parallel_regions: ParallelRegions,
    spill: Spill | None,
) -> Segments:
    """Add up the time of some locations by call path between the cuts at their synchronisation points."""
    tree, large = facts.call_paths.whole, large_arrays(spill)
    n_locations = facts.n_locations
    tree_of = _CallTree.of(facts, quirks)
    times, dtype = clock(facts, quirks), time_type(quirks)
    fills = not quirks.forgets_workers
    mine = np.sort(members[facts.locations.is_cpu[members]])
    is_worker = facts.locations.master[mine] != mine
    last_times = times(np.array([scans[i].last_time for i in mine.tolist()], np.int64))
    n_joins = int(IS_JOIN[team_instances.events.of(mine)[0].kind].sum())
    limit = LIMIT if quirks.limits_maps else max(len(tree), 1)
    collector = _Collector(dtype, len(tree), limit, n_joins, sum(scans[i].n for i in mine.tolist()), spill)
    others = _others(facts, quirks, scans, mine[~is_worker], sync_points, point_index, parallel_regions, large)
    n_points = np.diff(point_index.start)[mine]
    since = _since(facts, quirks, scans, mine, sync_points, point_index)
    flush_stops = flush_stops_of(facts.store, mine)
    first, begin, stop = (np.full(n_locations, -1, np.int64) for _ in range(3))
    found_edges: list[PeriodEdges] = []
    n = int(n_points.sum())
    # an event begins few segments: one, one at each of two times in its call, one after a JOIN
    number = number_type(8 * int(facts.store.n_events[mine].sum()))
    of_cuts = {"cut": number, "left": number, "time": dtype}
    cuts = Columns(n, {name: large.empty(n, of) for name, of in of_cuts.items()})
    left, resumed = [], []
    shift = point_index.shift
    same = kernels.Tree(tree_of.action, tree_of.parent, tree_of.tasks)
    for some in bounded(n_points, TOGETHER):
        group, stops = mine[some], flush_stops[some]
        places = _Places.of(facts, quirks, sync_points, point_index, group, others, parallel_regions, large)
        locations = kernels.Locations(
            *_numbers_and_flushes(facts, tree_of, times, group, stops),
            places.mark_start,
            places.nested_ends,
            is_worker[some] & quirks.forgets_workers,
            ~is_worker[some] & fills,
            since[some],
            last_times[some],
            (facts.store.n_events[group] > 0) & fills,
            np.full(group.size, -1, np.int64),
            np.full(group.size, -1, np.int64),
            np.zeros(group.size, dtype),
        )
        edges, n_flushes = EdgeCollector(dividing_of(facts, quirks, scans, group)), 0
        for walked in walk_stacks(facts, scans, team_instances, group, stops):
            if locations.flush_paths.size:
                flush_paths = _flush_paths(facts, walked, tree_of)
                locations.flush_paths[n_flushes : n_flushes + flush_paths.size] = flush_paths
                n_flushes += flush_paths.size
            of_walked = kernels.Walked(
                int(np.searchsorted(group, walked.locations[0])), walked.bounds, walked.row, walked.is_end
            )
            of_events = kernels.Events(times(walked.time), walked.kind, walked.region, walked.node, 0)
            _collect(of_walked, of_events, locations, same, places, edges, collector)
        found_edges.append(edges.found())
        first[group], stop[group] = locations.first, locations.stop
        # a location that nothing forgets begins after its first event
        begin[group] = first[group]
        if fills:
            second = pick(places.marks.cut, lookup(places.marks.row, facts.first_rows[group] + 1))
            later = (second >= 0) & ~is_worker[some] & (facts.store.n_events[group] > 1)
            begin[group[later]] = second[later]
        left.append(places.nested_cuts(is_resume=False))
        resumed.append(places.nested_cuts(is_resume=True))
        places.put_cuts(cuts, int(n_points[: some.start].sum()), stop[group], locations.last)
        cuts.left[left[-1].point - shift[sync_points.location[left[-1].point]]] = left[-1].cut
    ends, entries = collector.kept()
    n_found = int(collector.state[kernels.N_JOINS])
    return Segments(
        ends,
        entries,
        keep(cuts, spill, often=True),
        shift,
        first,
        begin,
        stop,
        NestedCuts.joined(left, dtype),
        NestedCuts.joined(resumed, dtype),
        collector.joins.row[:n_found],
        collector.joins.cut[:n_found],
        None if facts.call_paths.divider is None else join_edges(found_edges, dtype, spill),
    )


def _since(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    locations: NDArray[np.int64],
    points: CompoundTable,
    index: PointIndex,
) -> Times:
    """Return from when on the time of locations counts; (n,) `points.time_type`.

    A thread that a process forks or creates is not there from the start of the run on, nor is a process that is
    created.
    """
    start = index.start[locations]
    has_points = index.start[locations + 1] > start
    late = facts.locations.master[locations] != locations
    late[has_points] |= points.kind[start[has_points]] == CREATED
    first_times = clock(facts, quirks)(np.array([scans[i].first_time for i in locations.tolist()], np.int64))
    return np.where(late & (not quirks.counts_unexecuted), first_times, 0)


class _Places(NamedTuple):
    """Where cuts are made on some locations, and after these have been gone through, which segments begin there."""

    points: Ranges
    """The points of each location."""
    marks: kernels.Marks
    """Of the locations, one after the other."""
    mark_start: NDArray[np.int64]
    """(n,): first mark of each location."""
    of_point: NDArray[np.int64]
    """(n_points,): mark of each point; -1 for the end of a location."""
    nested: kernels.Nested
    nested_point: NDArray[np.int64]
    is_resume: NDArray[np.bool_]
    nested_ends: NDArray[np.int64]
    """`nested_point`, `is_resume` and `nested_ends`: as `_nested` returns them."""
    large: LargeArrays

    @classmethod
    def of(
        cls,
        facts: Facts,
        quirks: Quirks,
        points: CompoundTable,
        index: PointIndex,
        group: NDArray[np.int64],
        others: kernels.Others,
        threads: ParallelRegions,
        large: LargeArrays,
    ) -> _Places:
        """Return those of some locations, ascending."""
        own_points, rows = index.points_of(group), facts.first_rows[group]
        stop = int(rows[-1]) + int(facts.store.n_events[group[-1]])
        marks, of_point = _marks(points, own_points, _between(others, int(rows[0]), stop), large)
        nested = _nested(facts, quirks, own_points, points, threads, large)
        return cls(own_points, marks, np.searchsorted(marks.row, rows), of_point, *nested, large)

    def nested_cuts(self, is_resume: bool) -> NestedCuts:
        """Return the cuts that were made at some of the nested times: those when calls begin, or when they have waited
        enough."""
        nested, resumes, point = self.nested, self.is_resume, self.nested_point
        made = self.large.chosen(point.size, lambda here: (nested.cut[here] >= 0) & (resumes[here] == is_resume))
        made = made[np.argsort(point[made], kind="stable")]
        return NestedCuts(point[made], nested.cut[made], nested.at[made])

    def put_cuts(self, cuts: Columns, row: int, stop: NDArray[np.int64], last: Times) -> None:
        """Write the cuts at the points, as `Segments` has them, all of them as if nothing were nested in their calls.

        The first point belongs to `row`; `stop` is one past the last segment of each location, and `last` until when
        its time is counted.
        """
        there = slice(row, row + self.of_point.size)
        written = (cuts[name][there] for name in ("cut", "left", "time"))
        kernels.put_cuts(self.points.end, self.of_point, self.marks, stop, last, *written)


class _CallTree(NamedTuple):
    """Call paths by the order in which they are met."""

    met: NDArray[np.int64]
    """(n_call_paths,): number of each call path of the tree in this order."""
    parent: NDArray[np.int64]
    """(n_call_paths,): as for `kernels.collect_segments`."""
    tasks: kernels.TaskPaths
    action: NDArray[np.uint8]
    """(256,): what kinds of events do to the time of call paths."""

    @classmethod
    def of(cls, facts: Facts, quirks: Quirks) -> _CallTree:
        """Return that of a trace."""
        tree, regions = facts.call_paths.whole, facts.regions
        met, above = tree.met.astype(np.int64), tree.parent.astype(np.int64)
        nothing = np.zeros(0, np.int64)
        parent = pick(met, above)
        is_of_task = np.zeros(len(tree), bool)
        no_tasks = kernels.TaskPaths(is_of_task, nothing, len(regions), nothing, nothing)
        if quirks.counts_unexecuted:
            return cls(met, parent[tree.creation], no_tasks, ACTION_WITHOUT_TASKS)
        # nothing is executed on the artificial call paths themselves
        region_above = pick(tree.region.astype(np.int64), above)
        parent = np.where(region_above == regions.threads, -1, parent)
        heads = np.flatnonzero(tree.region == regions.tasks)
        if not heads.size:
            return cls(met, parent[tree.creation], no_tasks, ACTION)
        parent = np.where(region_above == regions.tasks, kernels.OUTERMOST_OF_TASK, parent)
        for head in heads.tolist():
            is_of_task[head : tree.end[head]] = True
        key = ((pick(met, above) + 1) * len(regions) + tree.region).astype(np.int64)
        order = np.argsort(key, kind="stable")
        tasks = kernels.TaskPaths(
            is_of_task[tree.creation], tree.region.astype(np.int64)[tree.creation], len(regions), key[order], met[order]
        )
        return cls(met, parent[tree.creation], tasks, ACTION)


def _nested(
    facts: Facts,
    quirks: Quirks,
    own_points: Ranges,
    points: CompoundTable,
    threads: ParallelRegions,
    large: LargeArrays,
) -> tuple[kernels.Nested, NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Find the times inside of the calls of points where a cut is made if the calls execute something else.

    By location, ascending: the times; the point of each; whether it is the time when the point has waited long enough,
    and not the begin of its call; and where those of each location end, after a 0.
    """
    times = clock(facts, quirks)
    # a thread begins in a parallel region, and one that is created begins, with its point
    has_call = np.full(len(POINTS), not quirks.cuts_after_nested)
    has_call[[FORK, CREATED, END]] = False
    n = 0
    for _, of in own_points.runs():
        is_call = has_call.take(points.kind[of])
        waits = points.rows("wait", of.start, of.stop) > 0
        n += int(np.count_nonzero(is_call) + np.count_nonzero(is_call & waits))
    dtype = time_type(quirks)
    nested = kernels.Nested(
        large.empty(n, np.int64), large.empty(n, dtype), large.full(n, -1, np.int64), large.zeros(n, dtype)
    )
    point, is_resume = large.empty(n, np.int64), large.empty(n, bool)
    ends = np.zeros(own_points.end.size + 1, np.int64)
    exits, latest = (threads.with_tasks.column(c) for c in ("exit", "latest"))
    for here, of in own_points.runs():
        locations = own_points.of(here)
        row, begin, wait = (points.rows(name, of.start, of.stop) for name in ("event", "begin_time", "wait"))
        begin = times(begin)
        resumes = begin + wait
        if exits.size:
            with_tasks = _lookup_near(exits, row)
            resumes = np.where(with_tasks >= 0, pick(latest, with_tasks), resumes)
        # of locations without points there are none
        np.maximum.accumulate(ends[: locations.start + 1], out=ends[: locations.start + 1])
        calls = kernels.Calls(has_call.take(points.kind[of]), row, begin, resumes, wait > 0)
        bounds = own_points.bounds(here, locations)
        kernels.list_nested(of.start, locations.start, bounds, calls, nested, point, is_resume, ends)
    return nested, point, is_resume, np.maximum.accumulate(ends)


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
        # what lies before the first event is a segment of its own
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
    """Return what happens at the rows from `low` to one before `stop`."""
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
    points: CompoundTable, own_points: Ranges, others: kernels.Others, large: LargeArrays
) -> tuple[kernels.Marks, NDArray[np.int64]]:
    """Put the points of some locations and what else happens there in the order of their rows.

    Returns the marks, location by location, and the mark of each point of the locations, -1 for their ends.
    """
    n, dtype = len(own_points) + others.row.size, others.value.dtype
    marks = kernels.Marks(*(large.empty(n, of) for of in (np.int64, np.int8, dtype, np.int64, dtype)))
    of_point = large.empty(len(own_points), np.int64)
    row, kind = large.empty(len(own_points), np.int64), large.empty(len(own_points), np.int8)
    for here, of in own_points.runs():
        row[here], kind[here] = points.rows("event", of.start, of.stop), points.kind[of]
    own = kernels.OwnPoints(own_points.end, row, kind)
    return first(marks, int(kernels.list_marks(own, FORK, END, others, marks, of_point))), of_point


def _lookup_near(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find each of some wanted keys in `keys`, which ascend; its position, or -1. Of equal keys the first."""
    first, stop = (int(np.searchsorted(keys, *of)) for of in ((wanted.min(), "left"), (wanted.max(), "right")))
    found = lookup(keys[first:stop], wanted)
    return np.where(found >= 0, found + first, -1)


def _numbers_and_flushes(
    facts: Facts,
    tree_of: _CallTree,
    times: Callable[[NDArray[np.int64]], Times],
    locations: NDArray[np.int64],
    flush_stops: Sequence[NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Times, NDArray[np.int64]]:
    """Return the first fields of `kernels.Locations`; call paths of buffer flushes are not known yet."""
    number_start, number = facts.call_paths.whole.numbers_of(locations)
    flush_start = np.append(0, np.cumsum([of.size for of in flush_stops], dtype=np.int64))
    stop_times = times(np.concatenate([*flush_stops, np.zeros(0, np.int64)]))
    return number_start, tree_of.met[number], flush_start, stop_times, np.full(stop_times.size, -1, np.int64)


def _flush_paths(facts: Facts, walked: WalkedEvents, tree_of: _CallTree) -> NDArray[np.int64]:
    """Return the call paths of the buffer flushes among some events, in the order in which they are met; (n,) int64."""
    at_flush = np.flatnonzero(walked.kind == K.BUFFER_FLUSH)
    tree, n = facts.call_paths.whole, len(facts.regions)
    start, number = tree.numbers_of(walked.locations)
    node, of = walked.node[at_flush], np.searchsorted(walked.bounds, at_flush, "right") - 1
    # the call path of a flush is below the one around it
    around = pick(number, np.where(node >= 0, node + start[of], -1))
    flushed: NDArray[Any] = facts.regions.of_entry[walked.region[at_flush]]
    below = lookup((tree.parent.astype(np.int64) + 1) * n + tree.region, (around + 1) * n + flushed)
    return pick(tree_of.met, below)


def _collect(
    walked: kernels.Walked,
    events: kernels.Events,
    locations: kernels.Locations,
    tree: kernels.Tree,
    places: _Places,
    edges: EdgeCollector,
    c: _Collector,
) -> None:
    """Collect the segments of some locations, and note where their periods begin."""
    k, start = 0, 0
    while k < walked.row.size:
        k, start = of_edges.collect_locations(
            k,
            start,
            walked,
            events,
            locations,
            edges.dividing,
            edges.noted,
            tree,
            places.marks,
            places.nested,
            c.collected,
        )
        if k < walked.row.size:
            edges.grow()
            c.grow()


def new_sum(dtype: DTypeLike, n_call_paths: int, limit: int) -> sums.Sum:
    """Make scratch for the sum of times of so many call paths, of which it can hold some."""
    state = np.zeros(sums.N_STATE, np.int64)
    state[sums.EPOCH], state[sums.FIRST] = 1, -1
    return sums.Sum(
        stamp=np.zeros(n_call_paths, np.int32),
        time=np.empty(n_call_paths, dtype),
        waited=np.zeros(n_call_paths, dtype),
        path=np.empty(limit, np.int32),
        floor=np.zeros(1, dtype),
        state=state,
        word=np.zeros((n_call_paths >> 6) + 1, np.int64),
        group=np.zeros((n_call_paths >> 12) + 1, np.int64),
    )


def sum_of(facts: Facts, quirks: Quirks) -> sums.Sum:
    """Make scratch for the sum of an interval of a trace."""
    n = max(len(facts.call_paths.whole), 1)
    return new_sum(time_type(quirks), n, LIMIT if quirks.limits_maps else n)


def with_room(maps: kernels.Maps, filled: int, large: LargeArrays) -> kernels.Maps:
    """Return maps that are being written, with so many entries so far, with twice as much room for entries."""
    return kernels.Maps(maps.end, large.with_room(maps.path, filled), large.with_room(maps.value, filled))
