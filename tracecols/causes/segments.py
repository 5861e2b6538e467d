"""Exclusive time per call path between synchronisation points, and sums of it over intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.causes.cuts import BatchCuts, Cutting, NestedCuts, cut_batches
from tracecols.causes.edges import PeriodEdgeCollector, PeriodEdges, dividing_of
from tracecols.causes.index import PointIndex
from tracecols.causes.near import KeptTable, near_rows
from tracecols.causes.pairs import CREATED
from tracecols.causes.points import ParallelRegions, Times, clock, number_type, time_type
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, pick, pieced
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import SPENT, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import WalkedEvents, walk_stacks
from tracecols.enhance.scan.location_scan import LocationScan, flush_stops_of
from tracecols.enhance.scan.teams import Teams
from tracecols.kernels import edges as of_edges
from tracecols.kernels import intervals, sums
from tracecols.kernels import segments as kernels
from tracecols.kernels.actions import FLUSH, JOIN, NOTHING, ON_OFF, POP, PUSH, TASK_COMPLETE, TASK_SWITCH, action_table
from tracecols.schema import EventKind as K
from tracecols.vectors import Ints, offsets_of
from tracecols.work.large import LargeArrays

LIMIT = 128
"""Maximum number of call paths in the reference's maps of times."""

PIECE = 1 << 22
"""Maximum number of segment entries buffered before they are stored; fewer if there is little memory, more only if a
single event needs them."""

ROOM = 1 << 14
"""Minimum number of segment entries that there is room for."""


ACTION = action_table(PUSH, POP, ON_OFF, FLUSH, JOIN, TASK_SWITCH, TASK_COMPLETE)
"""Action of each kind of event on the time of call paths."""
ACTION[K.MPI_IRECV_REQUEST] = kernels.REQUEST

ACTION_WITHOUT_TASKS = np.where(np.isin(ACTION, [TASK_SWITCH, TASK_COMPLETE]), np.uint8(NOTHING), ACTION)
"""The same if time is counted only from region to region (`quirks.Quirks.counts_unexecuted`)."""


class Segments(NamedTuple):
    """The time of some locations by call path, from cut to cut; call paths are numbered in the order in which they are
    met.
    """

    ends: ColumnSource
    """`end` int64, by segment, location by location: one past its last entry."""
    entries: ColumnSource
    """`call_path` int32, `time` (`points.time_type`)."""
    cuts: ColumnSource
    """By point of the locations, location by location: `cut`, the number of the segment that begins there, `left`, that
    of the segment after the begin of its call (int32 or int64), and `time`, the time until which the time before the
    cut is counted."""
    shift: Ints
    """(n_locations,): number of a point of each location minus its place in `cut` (`PointIndex.shift`)."""
    first: Ints
    """(n_locations,): first segment of each location; -1 where it has none here."""
    begin: Ints
    """(n_locations,): the segment after the time before the first event, which counts for the call path that the event
    enters if nothing is forgotten."""
    stop: Ints
    """(n_locations,): one past the last segment."""
    left: NestedCuts
    resumed: NestedCuts
    """`left` and `resumed`: of points whose calls execute something else before their event: cuts where the call
    begins, and where it has waited long enough."""
    join_row: Ints
    join_cut: Ints
    """`join_row` and `join_cut`: (n_joins,), rows of the JOINs, ascending within locations, and the segments that begin
    after them."""
    edges: PeriodEdges | None = None
    """The edges of phases or time bins, if they divide the trace."""

    def cut_of(self, point: Ints, location: NDArray[np.int32]) -> Ints:
        """Return the segments that begin at points of locations; -1 for point -1."""
        return self._at("cut", point, location).astype(np.int64, copy=False)

    def left_of(self, point: Ints, location: NDArray[np.int32]) -> Ints:
        """Return the segments after the begin of the calls of points."""
        return self._at("left", point, location).astype(np.int64, copy=False)

    def between(self, since: Ints, until: Ints) -> tuple[Ints, Ints]:
        """Return the segments that begin at the cuts `since`, and those after the begin of the calls of the cuts
        `until`; -1 for -1."""
        (cut,), (left,) = self.cuts.several_at(("cut",), since), self.cuts.several_at(("left",), until)
        return cut.astype(np.int64, copy=False), left.astype(np.int64, copy=False)

    def left_time(self, point: Ints, location: NDArray[np.int32]) -> Times:
        """Return the time until which the time before the begin of the calls of points is counted."""
        return self.left.replace(point, point, self._at("time", point, location))[1]

    def resumed_at(self, point: Ints, location: NDArray[np.int32]) -> tuple[Ints, Times]:
        """Return the segments that begin where points have waited long enough, and the times; segment -1 for point
        -1."""
        return self.resumed.replace(point, self.cut_of(point, location), self._at("time", point, location))

    def _at(self, name: str, point: Ints, location: NDArray[np.int32]) -> NDArray[Any]:
        """Return a column of the cuts at points of locations; -1 for point -1."""
        return self.cuts.several_at((name,), np.where(point < 0, -1, point - self.shift[location]))[0]

    def entries_between(self, first: Ints, stop: Ints, large: LargeArrays) -> tuple[Ints, Ints, intervals.Entries]:
        """Return the first entries of some runs of segments, one past their last, and the entries that these number."""
        bounds = np.append(first, np.maximum(first, stop)) - 1
        first, stop = self.ends.several_at(("end",), bounds, 0)[0].reshape(2, -1)
        begin, (path, time) = near_rows(self.entries, first, stop, ("call_path", "time"), large)
        return begin, begin + (stop - first), intervals.Entries(path, time)


class _Collector:
    """The arrays that `collect_segments` fills, location by location; `spill` stores finished ones, piece by piece.

    The map of a segment can hold `limit` call paths. The locations usually have no more than `n_events` entries.
    """

    def __init__(
        self, dtype: DTypeLike, n_call_paths: int, limit: int, n_joins: int, n_events: int, spill: Spill
    ) -> None:
        self._large, self._spill = spill.large.briefly(), spill
        self.state = np.zeros(kernels.N_STATE, np.int64)
        self.last = np.zeros(1, dtype)
        self.open_sum = new_sum(dtype, n_call_paths, limit)
        self._pieces: list[tuple[ColumnSource, ColumnSource]] = []
        entry_bytes = 12 + self.last.dtype.itemsize
        self._begin_arrays(max(ROOM, 4 * limit, min(n_events, self._large.block_of(entry_bytes, PIECE))))
        self.joins = kernels.Joins(np.full(n_joins, -1, np.int64), np.zeros(n_joins, np.int64))

    def _begin_arrays(self, room: int) -> None:
        """Allocate arrays for `room` segments and entries."""
        of_times = self.last.dtype
        self.segments = kernels.Maps(*(self._large.empty(room, of) for of in (np.int64, np.int32, of_times)))

    @property
    def collected(self) -> kernels.Collected:
        """The arrays that the kernel writes."""
        return kernels.Collected(self.joins, self.state, self.last, self.open_sum, self.segments)

    def _keep_piece(self, is_last: bool = False) -> None:
        """Store the segments in the arrays and their entries, and start the arrays anew; the last ones stay where they
        are."""
        state = self.state
        cut_off: Callable[[NDArray[Any], int], NDArray[Any]] = self._large.trimmed if is_last else _first
        n_segments = int(state[kernels.N_SEGMENTS] - state[kernels.FIRST_SEGMENT])
        n_entries = int(state[kernels.N_ENTRIES] - state[kernels.FIRST_ENTRY])
        end, path, value = self.segments
        ends = Columns(n_segments, {"end": cut_off(end, n_segments)})
        entries = Columns(n_entries, {"call_path": cut_off(path, n_entries), "time": cut_off(value, n_entries)})
        kept_ends, kept = (self._spill.keep(of, borrowed=not is_last, often=True) for of in (ends, entries))
        self._pieces.append((kept_ends, kept))
        state[kernels.FIRST_SEGMENT], state[kernels.FIRST_ENTRY] = state[kernels.N_SEGMENTS], state[kernels.N_ENTRIES]

    def kept(self) -> tuple[ColumnSource, ColumnSource]:
        """Return the segments, and their entries, once all locations are finished."""
        self._keep_piece(is_last=True)
        ends, entries = zip(*self._pieces, strict=True)
        return pieced(ends), pieced(entries)

    def grow(self) -> None:
        """Make room for more entries and segments; those in the arrays are stored."""
        n_cuts = int(self.state[kernels.ROOM])
        self.state[kernels.ROOM] = 0
        if kernels.has_room(n_cuts, self.collected):
            return
        self._keep_piece()
        while not kernels.has_room(n_cuts, self.collected):
            self._begin_arrays(2 * self.segments.end.size)


def _first(array: NDArray[Any], n: int) -> NDArray[Any]:
    return array[:n]


@step(SPENT, "segments")
def segments(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    members: Ints,
    team_instances: Teams,
    sync_points: KeptTable,
    point_index: PointIndex,
    own_thread_regions: Sequence[ParallelRegions],
    spill: Spill,
) -> Segments:
    """Add up the time of some locations by call path between the cuts at their synchronisation points."""
    n_paths, large = len(facts.call_paths.whole), spill.large
    times, dtype = clock(facts, quirks), time_type(quirks)
    mine = np.sort(members[facts.locations.is_cpu[members]])
    is_worker = facts.locations.master[mine] != mine
    n_joins = int(team_instances.n_joins()[mine].sum())
    limit = LIMIT if quirks.limits_maps else max(n_paths, 1)
    collector = _Collector(dtype, n_paths, limit, n_joins, sum(scans[i].n for i in mine.tolist()), spill)
    masters = mine[~is_worker]
    cutting = Cutting.of(facts, quirks, scans, masters, sync_points, point_index, own_thread_regions, large)
    flush_stops = flush_stops_of(facts.store, mine)
    locations = _locations_of(facts, quirks, scans, mine, sync_points, point_index, flush_stops)
    call_tree = _tree_of(facts, quirks)
    n = int(np.diff(point_index.start)[mine].sum())
    # an event begins few segments: one, one at each of two times in its call, one after a JOIN
    number = number_type(8 * int(facts.store.n_events[mine].sum()))
    of_cuts = {"cut": number, "left": number, "time": dtype}
    cuts = Columns(n, {name: large.empty(n, of) for name, of in of_cuts.items()})
    edges, n_cuts, n_flushes = PeriodEdgeCollector(dividing_of(facts, quirks, scans, mine)), 0, 0
    second, left, resumed = np.full(mine.size, -1, np.int64), [], []
    for walked, found in cut_batches(cutting, walk_stacks(facts, scans, team_instances, mine, flush_stops)):
        if locations.flush_paths.size:
            flush_paths = _flush_paths(facts, walked)
            locations.flush_paths[n_flushes : n_flushes + flush_paths.size] = flush_paths
            n_flushes += flush_paths.size
        here = slice(at := int(np.searchsorted(mine, walked.locations[0])), at + walked.locations.size)
        of_walked = kernels.Walked(at, walked.bounds, walked.row, walked.is_end, found.mark_start, found.nested_start)
        of_events = kernels.Events(times(walked.time), walked.kind, walked.region, walked.node, 0)
        _collect(of_walked, of_events, locations, call_tree, found, edges, collector)
        second[here] = np.maximum(second[here], found.cut_at(facts.first_rows[mine[here]] + 1))
        left.append(found.nested_cuts(is_resume=False))
        resumed.append(found.nested_cuts(is_resume=True))
        found.put_cuts(cuts, n_cuts, locations.stop[here], locations.last[here])
        n_cuts += len(found.points)
    nested = NestedCuts.joined(left, dtype)
    cuts.left[nested.point - point_index.shift[sync_points.location[nested.point]]] = nested.cut
    first, begin, stop = (np.full(facts.n_locations, -1, np.int64) for _ in range(3))
    first[mine], stop[mine] = locations.first, locations.stop
    # a location of which nothing is forgotten begins after its first event
    later = (second >= 0) & locations.fills & (facts.store.n_events[mine] > 1)
    begin[mine] = np.where(later, second, locations.first)
    ends, entries = collector.kept()
    n_found = int(collector.state[kernels.N_JOINS])
    return Segments(
        ends=ends,
        entries=entries,
        cuts=spill.keep(cuts, often=True),
        shift=point_index.shift,
        first=first,
        begin=begin,
        stop=stop,
        left=nested,
        resumed=NestedCuts.joined(resumed, dtype),
        join_row=collector.joins.row[:n_found],
        join_cut=collector.joins.cut[:n_found],
        edges=None if facts.call_paths.divider is None else edges.found(spill),
    )


def _since(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    locations: Ints,
    points: CompoundTable,
    index: PointIndex,
) -> Times:
    """Return the times from which on the time of locations counts; (n,) `points.time_type`.

    Forked and created threads, and created processes, do not exist from the start of the run on.
    """
    start = index.start[locations]
    has_points = index.start[locations + 1] > start
    late = facts.locations.master[locations] != locations
    late[has_points] |= points.kind[start[has_points]] == CREATED
    first_times = clock(facts, quirks)(np.array([scans[i].first_time for i in locations.tolist()], np.int64))
    return np.where(late & (not quirks.counts_unexecuted), first_times, 0)


def _tree_of(facts: Facts, quirks: Quirks) -> kernels.Tree:
    """Return the call tree of a trace, with call paths numbered in the order in which they are met."""
    tree, regions = facts.call_paths.whole, facts.regions
    met, above, region = (of.astype(np.int64) for of in (tree.met, tree.parent, tree.region))
    nothing = np.zeros(0, np.int64)
    parent = met_above = pick(met, above)
    is_of_task = np.zeros(len(tree), bool)
    no_tasks = kernels.TaskPaths(is_of_task, nothing, len(regions), nothing, nothing)
    if quirks.counts_unexecuted:
        return kernels.Tree(ACTION_WITHOUT_TASKS, parent[tree.creation], no_tasks)
    # nothing is executed on the artificial call paths themselves
    region_above = pick(region, above)
    parent = np.where(region_above == regions.threads, -1, parent)
    heads = np.flatnonzero(region == regions.tasks)
    if not heads.size:
        return kernels.Tree(ACTION, parent[tree.creation], no_tasks)
    parent = np.where(region_above == regions.tasks, kernels.OUTERMOST_OF_TASK, parent)
    for head in heads.tolist():
        is_of_task[head : tree.end[head]] = True
    key = (met_above + 1) * len(regions) + region
    order = np.argsort(key, kind="stable")
    at = tree.creation
    tasks = kernels.TaskPaths(is_of_task[at], region[at], len(regions), key[order], met[order])
    return kernels.Tree(ACTION, parent[at], tasks)


def _locations_of(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    locations: Ints,
    points: CompoundTable,
    index: PointIndex,
    flush_stops: Sequence[Ints],
) -> kernels.Locations:
    """Return the properties of locations, and room for the results of each; call paths of buffer flushes are not known
    yet."""
    times, fills = clock(facts, quirks), not quirks.forgets_workers
    is_worker, n = facts.locations.master[locations] != locations, locations.size
    number_start, number = facts.call_paths.whole.numbers_of(locations)
    stop_times = times(np.concatenate([*flush_stops, np.zeros(0, np.int64)]))
    return kernels.Locations(
        number_start=number_start,
        number=facts.call_paths.whole.met[number].astype(np.int64),
        flush_start=offsets_of([of.size for of in flush_stops]),
        stop_times=stop_times,
        flush_paths=np.full(stop_times.size, -1, np.int64),
        forgets=is_worker & quirks.forgets_workers,
        fills=~is_worker & fills,
        since=_since(facts, quirks, scans, locations, points, index),
        until=times(np.array([scans[i].last_time for i in locations.tolist()], np.int64)),
        is_filled=(facts.store.n_events[locations] > 0) & fills,
        first=np.full(n, -1, np.int64),
        stop=np.full(n, -1, np.int64),
        last=np.zeros(n, time_type(quirks)),
    )


def _flush_paths(facts: Facts, walked: WalkedEvents) -> Ints:
    """Return the call paths of the buffer flushes among some events, in the order in which they are met; (n,) int64."""
    at_flush = np.flatnonzero(walked.kind == K.BUFFER_FLUSH)
    tree, n = facts.call_paths.whole, len(facts.regions)
    start, number = tree.numbers_of(walked.locations)
    node, of = walked.node[at_flush], np.searchsorted(walked.bounds, at_flush, "right") - 1
    # the call path of a flush is below the one around it
    around = pick(number, np.where(node >= 0, node + start[of], -1))
    flushed: NDArray[Any] = facts.regions.of_entry[walked.region[at_flush]]
    below = lookup((tree.parent.astype(np.int64) + 1) * n + tree.region, (around + 1) * n + flushed)
    return pick(tree.met, below).astype(np.int64)


def _collect(
    walked: kernels.Walked,
    events: kernels.Events,
    locations: kernels.Locations,
    tree: kernels.Tree,
    cuts: BatchCuts,
    edges: PeriodEdgeCollector,
    c: _Collector,
) -> None:
    """Collect the segments of some locations, and note where their periods begin."""
    k, start = 0, 0
    while k < walked.row.size:
        given = walked, events, locations, edges.dividing, edges.noted, tree
        k, start = of_edges.collect_locations(k, start, *given, cuts.marks, cuts.nested.times, c.collected)
        if k < walked.row.size:
            edges.grow()
            c.grow()


def new_sum(dtype: DTypeLike, n_call_paths: int, limit: int) -> sums.Sum:
    """Allocate scratch arrays for a sum of times by call path, which can hold `limit` of the call paths."""
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
    """Allocate scratch arrays for the sum of an interval of a trace."""
    n = max(len(facts.call_paths.whole), 1)
    return new_sum(time_type(quirks), n, LIMIT if quirks.limits_maps else n)


def with_room(maps: kernels.Maps, filled: int, large: LargeArrays) -> kernels.Maps:
    """Return partly written maps, which have `filled` entries so far, with twice as much room for entries."""
    return kernels.Maps(maps.end, large.with_room(maps.path, filled), large.with_room(maps.value, filled))
