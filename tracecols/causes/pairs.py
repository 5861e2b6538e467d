"""All synchronisation points of a trace in order, and the pairs of causing and waiting points with their intervals.

On either side, the interval of a pair begins at the last point that synchronises with the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.near import KeptTable
from tracecols.causes.points import (
    EVERYBODY,
    NOBODY,
    OF_PAIR,
    OF_POINT,
    WITHIN_CALL,
    Alike,
    ParallelRegions,
    Synchronisation,
    number_type,
    time_type,
)
from tracecols.causes.quirks import Quirks
from tracecols.distinct import distinct, starts_run
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, pick, pieced
from tracecols.enhance.dataflow.grouping import lookup, number, ranges
from tracecols.enhance.dataflow.partitions import Division
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import CAUSES, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.kernels import arrays
from tracecols.kernels import causes as kernels
from tracecols.kernels import points as ranking
from tracecols.kernels.orders import sort_by_number
from tracecols.kernels.ranks import Ranks, count_rows, no_ranks
from tracecols.schema.causes import DELAY_PAIRS, DELAYS, POINTS, SYNC_POINTS
from tracecols.vectors import Ints, Mask, offsets_of
from tracecols.work.ahead import in_order, take
from tracecols.work.executors import side_by_side
from tracecols.work.large import LargeArrays, ascends, blocks

HELD = ("location", "kind", "wait", "call_path", "partner", "communicator")
"""Columns of points accessed in any order while pairs are matched, held in memory; the others are read where they
are."""

RANGES = 256
"""Maximum number of ranges of rows whose points are put in order separately. A read at arbitrary points searches the
columns of every range."""

SEVERAL = 1 << 20
"""Number of events from which on points are put in order in several ranges, each of about this many rows or more."""

POINT_BYTES = 80
"""Maximum bytes per point in columns that are not held in arrays of the whole trace."""

AT_END = np.iinfo(np.int64).max
"""Row of the point at the end of a location."""

FORK, THREAD_BARRIER, END, CREATED = (POINTS.index(k) for k in ("fork", "thread barrier", "end", "created"))
IDLE = DELAYS.index("idle")
OF_OPERATIONS = np.isin(DELAYS, ("one_sided", "nonblocking", "file", "shmem", "polling"))
OF_TWO = np.isin(DELAYS, ("late_sender", "late_receiver")) | OF_OPERATIONS
"""Masks of the kinds of delays of which one event may let several processes go on, one by one, and of those whose
intervals begin where the waiting and the causing process last synchronised with each other. Intervals of other MPI
operations begin where all of their members did."""

OF_THREADS = np.isin(DELAYS, ("thread_barrier", "lock", "join", "condition"))
OF_CREATED = np.isin(DELAYS, ("lock", "join", "condition"))
THREADS_MEET = np.isin(np.arange(len(POINTS)), (FORK, THREAD_BARRIER, CREATED))
"""Masks of the kinds of delays between threads, of those between threads that the program creates, and of the kinds of
points at which threads synchronise."""


SINCE = ("cause_since", "waiting_since", "own_since", "counts_from")
"""Points at which the intervals of pairs begin: `cause_since`, `waiting_since`, -1 is the beginning. `own_since`: for
collective operations, the point at which the waiting process synchronised with the causing one later than other members
did; -1 none. `counts_from`: the first point before the cause that takes on costs of the pair; -1 if that is where the
interval begins."""

Since = dict[str, NDArray[np.signedinteger[Any]]]
"""Points at which the intervals of pairs begin, by `SINCE`: (n_pairs,) each."""


def has_openmp(facts: Facts) -> bool:
    """Return whether a program uses OpenMP: an OpenMP region is on one of its call paths.

    Regions that are defined and never entered do not count: recorders define those of all libraries they were built
    for.
    """
    return _enters(facts, "openmp")


def has_mpi(facts: Facts) -> bool:
    """Return whether a program uses MPI: an MPI call is on one of its call paths."""
    return _enters(facts, "mpi")


def _enters(facts: Facts, paradigm: str) -> bool:
    """Return whether a region of a paradigm is on a call path."""
    return bool((facts.regions.paradigm[facts.call_paths.whole.region] == paradigm).any())


@step(CAUSES, "found_points")
def gather_points(
    every_late_senders: Sequence[Synchronisation],
    every_late_receivers: Sequence[Synchronisation],
    every_collective_points: Sequence[Synchronisation],
    startup_points: Synchronisation,
    operation_points: Synchronisation,
    every_thread_points: Sequence[Synchronisation],
    every_lock_points: Sequence[Synchronisation],
    every_created_points: Sequence[Synchronisation],
) -> list[Synchronisation]:
    """List the synchronisation points of all kinds, and their pairs, found in all partitions."""
    return [
        *every_late_senders,
        *every_late_receivers,
        *every_collective_points,
        startup_points,
        operation_points,
        *every_thread_points,
        *every_lock_points,
        *every_created_points,
    ]


@step(CAUSES, "sync_points", "delay_pairs")
def match_causes(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    found_points: Sequence[Synchronisation],
    every_thread_regions: Sequence[ParallelRegions],
    division: Division,
    spill: Spill,
    jobs: int,
) -> tuple[KeptTable, KeptTable]:
    """Build the tables of all synchronisation points and of the pairs of causing and waiting points."""
    large = spill.large.by_threads(jobs)
    rows, held, kept_columns = _points(facts, quirks, scans, found_points, spill, large)
    points = KeptTable(SYNC_POINTS, held["kind"].size, held, kept_columns)
    idle, idle_since = _idle_threads(facts, quirks, rows, points, every_thread_regions, division, large)
    every = _pairs(quirks, rows, len(points), found_points, idle, large)
    kept = _kept(quirks, points, every, idle.size, large)
    number, n_pairs, columns = every.cause.dtype, kept.size, every._asdict()
    del every
    # each column is freed once its kept rows are copied
    pairs = Columns(n_pairs, {c: large.taken(columns.pop(c), kept) for c in OF_PAIR})
    since = {c: large.full(n_pairs, -1, number) for c in SINCE[:2]}
    # one value for all, unless members of collective operations have intervals of their own
    for c in SINCE[2:]:
        alike = np.broadcast_to(number.type(-1), n_pairs)
        since[c] = large.full(n_pairs, -1, number) if is_by_members(quirks) else alike

    def find_intervals(of_threads: bool) -> None:
        # the two calls find the intervals of different pairs
        if of_threads:
            nested = _nested_regions(facts, quirks, rows, every_thread_regions, division, large)
            _intervals_of_threads(rows, points, pairs, nested, idle_since, kept, since, large)
        else:
            _intervals_of_processes(facts, quirks, rows, points, pairs, since, large)

    for _ in side_by_side(jobs, find_intervals, (False, True)):
        pass
    kept_columns["wait"] = spill.keep(Columns(len(points), {"wait": held["wait"]}), often=True)
    held = {c: held[c] for c in ("location", "kind", "call_path")}
    apart = {"wait": pairs.wait, "cause_since": since.pop("cause_since"), "waiting_since": since.pop("waiting_since")}
    of_pairs = dict.fromkeys(apart, spill.keep(Columns(n_pairs, apart), often=True))
    held_of_pairs = {c: pairs[c] for c in ("kind", "cause", "waiting")} | since
    table = KeptTable(SYNC_POINTS, len(points), held, kept_columns)
    return table, KeptTable(DELAY_PAIRS, n_pairs, held_of_pairs, of_pairs)


def _points(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    found: Sequence[Synchronisation],
    spill: Spill,
    large: LargeArrays,
) -> tuple[ranking.Rows, dict[str, NDArray[Any]], dict[str, ColumnSource]]:
    """Put all points in order, one per event.

    Returns
    -------
    rows : Rows
        Mapping from rows of events to points.
    held, kept : dict
        Columns of `points.OF_POINT`: the arrays of `HELD`, and the sources of the others, with `label` and
        `points.WITHIN_CALL` if periods divide the trace.
    """
    # every location that has events ends at a point
    has_events = np.fromiter((scan.n > 0 for scan in scans), bool, facts.n_locations)
    ends = facts.locations.is_cpu & has_events
    n_rows = int(facts.store.manifest["n_events"])
    ranks = no_ranks(n_rows + 1, number_type(n_rows), large.zeros)
    parts = [part for f in found for part in f.points]
    spans = _mark_rows(facts, parts, ranks, large)
    n = int(count_rows(ranks)) + int(ends.sum())
    rows = ranking.Rows(ranks, np.append(facts.first_rows, n_rows), offsets_of(ends))
    is_divided = facts.call_paths.divider is not None
    types = {name: dtype or time_type(quirks) for name, dtype in OF_POINT.items()}
    needed = [name for name in OF_POINT if is_divided or name not in WITHIN_CALL]
    held = {name: large.empty(n, types[name]) for name in HELD}
    held["location"][:] = -1
    of_end = _ends(facts, scans, ends)
    at_end = location_starts_of(rows)[1:][ends] - 1

    def place(here: tuple[int, int]) -> ColumnSource:
        before, stop = _points_before(rows, here)
        apart = [name for name in needed if name not in HELD]
        columns = {name: np.empty(0, types[name]) for name in OF_POINT}
        columns |= {name: held[name][before:stop] for name in HELD}
        columns |= {name: large.briefly().empty(stop - before, types[name]) for name in apart}
        for part, (low, high) in zip(parts, spans, strict=True):
            if low < here[1] and high > here[0]:
                of_found = part.between(*here, needed)
                call_path = _call_paths(facts, of_found.__getitem__)
                given = ranking.Points(**columns | of_found | {"call_path": call_path})
                ranking.place_points(given, rows, *here, before, ranking.Points(**columns))
        of_here = slice(*np.searchsorted(at_end, (before, stop)).tolist())
        for name in needed:
            columns[name][at_end[of_here] - before] = of_end[name][of_here]
        if not quirks.splits_path:
            # only a critical path that splits goes on at all threads of a barrier
            columns["set"][columns["kind"] == THREAD_BARRIER] = -1
        of_threads = np.flatnonzero(THREADS_MEET[columns["kind"]])
        columns["set"][of_threads] = points_at(rows, columns["set"][of_threads])
        if is_divided:
            # `label` is the call path in the period, `call_path` that of the whole time
            label, path_of = columns["call_path"].copy(), facts.call_paths.path_of
            columns["call_path"][:] = path_of(label)
            columns["label"] = label
            apart.append("label")
        return spill.keep(Columns(stop - before, {name: columns[name] for name in apart}), often=True)

    ranges = [(0, n_rows)] if n_rows < SEVERAL else _ranges_of_rows(facts, n_rows, n, large)
    of_ranges = [*side_by_side(large.jobs, place, ranges)]
    return rows, held, dict.fromkeys(of_ranges[0].names, pieced(of_ranges))


def _mark_rows(facts: Facts, parts: Sequence[Alike], ranks: Ranks, large: LargeArrays) -> list[tuple[int, int]]:
    """Mark the rows of events that are points; return the first row of each part, and one past its last."""
    spans = []

    def read(part: Alike) -> tuple[Ints, NDArray[np.int32]]:
        return part.column("event"), _call_paths(facts, part.column)

    for event, call_path in side_by_side(large.jobs, read, parts, ahead=1):
        ranking.mark_rows(event, call_path, ranks)
        spans.append((int(event.min()), int(event.max()) + 1))
    return spans


def _call_paths(facts: Facts, column: Callable[[str], NDArray[Any]]) -> NDArray[np.int32]:
    """Return the call paths of points by their columns; -1 on locations that are no threads, which have no time that
    could be a cause."""
    is_cpu, call_path = facts.locations.is_cpu, column("call_path")
    return call_path if is_cpu.all() else np.where(is_cpu[column("location")], call_path, np.int32(-1))


def _ends(facts: Facts, scans: Sequence[LocationScan], ends: Mask) -> dict[str, NDArray[Any]]:
    """Return the columns of the points at which locations end."""
    of = np.flatnonzero(ends)
    last_time = np.array([scans[i].last_time for i in of.tolist()], np.int64)
    same = {"event": AT_END, "kind": END, "call_path": -1, "partner": -1, "communicator": -1, "set": -1}
    other = {"location": of, "begin_time": last_time}
    return {name: other.get(name, np.full(of.size, same.get(name, 0))) for name in OF_POINT}


def _points_before(rows: ranking.Rows, here: tuple[int, int]) -> tuple[int, int]:
    """Return the numbers of points before two rows at which no location ends."""
    bounds = np.array(here)
    location = np.searchsorted(rows.first_row, bounds, "right") - 1
    before = np.empty(bounds.size, np.int64)
    ranking.start_locations(rows._replace(first_row=bounds, ends_before=rows.ends_before[location]), before)
    return int(before[0]), int(before[1])


def _ranges_of_rows(facts: Facts, n_rows: int, n_points: int, large: LargeArrays) -> list[tuple[int, int]]:
    """Divide the rows of events into ranges of whole processes. Most points are found process by process, so all writes
    to a range come together. If there are few processes, or they have more points than fit in memory, ranges have equal
    size."""
    start = facts.first_rows[np.flatnonzero(np.diff(facts.process, prepend=-1))]
    fewest = min(RANGES, max(2 * large.jobs, -(-n_points // large.block_of(POINT_BYTES, max(n_points, 1)))))
    n_ranges = max(min(RANGES, n_rows // max(SEVERAL, 1)), fewest)
    start = start[np.diff(start * n_ranges // max(n_rows, 1), prepend=-1) > 0]
    if start.size < fewest:
        start = distinct(np.linspace(0, n_rows, fewest, endpoint=False, dtype=np.int64))
    return [*pairwise([0, *start[1:].tolist(), n_rows])]


def location_starts_of(rows: ranking.Rows) -> Ints:
    """Return the first point of each location; (n_locations + 1,) int64."""
    start = np.empty(rows.first_row.size, np.int64)
    ranking.start_locations(rows, start)
    return start


def points_at(rows: ranking.Rows, row: Ints) -> Ints:
    """Find the points at rows of events; (n,) int64, -1 where there is none."""
    found = np.empty(row.size, np.int64)
    ranking.number_rows(row, rows, found)
    return found


def _pairs(
    quirks: Quirks, rows: ranking.Rows, n_points: int, found: Sequence[Synchronisation], idle: Ints, large: LargeArrays
) -> ranking.Pairs:
    """Put all pairs of known points together, first those of threads that idle until the points `idle` of their
    masters."""
    parts = [part for f in found for part in f.pairs]
    start = np.cumsum([idle.size, *map(len, parts)]).tolist()
    n, most, number = idle.size, start[-1], number_type(n_points)
    types = {**OF_PAIR, "cause": number, "waiting": number, "wait": time_type(quirks)}
    pairs = ranking.Pairs(**{c: large.empty(most, dtype) for c, dtype in types.items()})
    columns: tuple[NDArray[Any], ...] = pairs
    for column, value in zip(columns, (IDLE, idle, -1, 0, NOBODY), strict=True):
        column[:n] = value

    def place(k: int) -> int:
        of_found = ranking.Pairs(*(parts[k].column(c) for c in OF_PAIR))
        return int(ranking.place_pairs(of_found, rows, arrays.after(pairs, start[k])))

    for at, n_placed in zip(start, side_by_side(large.jobs, place, range(len(parts))), strict=False):
        # pairs whose points are unknown leave gaps
        for column in columns if at > n else ():
            column[n : n + n_placed] = column[at : at + n_placed]
        n += n_placed
    return arrays.first(pairs, n)


def _kept(
    quirks: Quirks, points: Columns, pairs: ranking.Pairs, n_idle: int, large: LargeArrays
) -> NDArray[np.signedinteger[Any]]:
    """Select the pairs that count, ordered by causing and then by waiting point; (n,) int.

    The reference keeps all of them. Without this peculiarity each waiting point keeps one, and only points with a known
    cause wait.
    """
    cause, waiting, n = pairs.cause, pairs.waiting, pairs.cause.size
    number = number_type(n)
    if not quirks.leaves_out_others:
        chosen, rows = large.full(len(points), -1, number), large.empty(n, number)
        with in_order(waiting, pairs.wait, cause):
            kernels.choose_causes(waiting, pairs.wait, cause, chosen)
        rows[:n_idle] = np.arange(n_idle)
        with in_order(chosen, points.wait):
            n = int(kernels.keep_causes(n_idle, chosen, waiting, pairs.wait, cause, points.wait, rows))
        rows = rows[:n]
    elif ascends(waiting):
        rows = large.computed(n, number, lambda here: np.arange(here.start, here.stop))
    else:
        # -1 is first
        following, rows = large.computed(n, waiting.dtype, lambda here: waiting[here] + 1), large.empty(n, number)
        sort_by_number(following, large.zeros(len(points) + 2, number), rows)
    order, of_rows = large.empty(n, number), large.taken(cause, rows)
    with in_order(of_rows):
        sort_by_number(of_rows, large.zeros(len(points) + 1, number), order)
    return large.taken(rows, order)


def _idle_threads(
    facts: Facts,
    quirks: Quirks,
    rows: ranking.Rows,
    points: Columns,
    threads: Sequence[ParallelRegions],
    division: Division,
    large: LargeArrays,
) -> tuple[Ints, Ints]:
    """Find the points until which threads idle because their master is outside the outermost parallel regions.

    Returns the points at which masters fork or end (none without OpenMP), and for each the last point before the JOIN
    from which on threads idle, -1 for the beginning. The latter is empty for the reference, in which threads idle from
    the last point of threads to each point at which a master forks.
    """
    nothing = np.zeros(0, np.int64)
    if not has_openmp(facts):
        return nothing, nothing
    if quirks.leaves_out_others:

        def is_of_master(here: slice) -> Mask:
            kind, location = points.kind[here], points.location[here]
            return ((kind == FORK) | (kind == END)) & (facts.locations.master[location] == location)

        return large.chosen(len(points), is_of_master), nothing
    n_others = facts.locations.n_threads - 1
    is_master = (facts.locations.master == np.arange(facts.n_locations)) & (n_others > 0)
    location, start = points.location, location_starts_of(rows)
    last = start[1:][is_master & (start[1:] > start[:-1])] - 1
    ends = last[points.kind[last] == END]
    found = []
    # the regions of a process are in the windows of its partition
    for partition in division.partitions:
        regions = _regions_of([threads[k] for k in division.windows_of(partition.number)], is_master)
        own = ends[np.isin(location[ends], partition.members)]
        found.append(_idle_between(rows, start, location, regions, own))
    n = sum(idle.size for idle, _ in found)
    idle, since = (large.joined(n, np.int64, of) for of in zip(*found, strict=True))
    return idle, since


def _idle_between(
    rows: ranking.Rows, start: Ints, location: NDArray[np.int32], regions: dict[str, NDArray[Any]], ends: Ints
) -> tuple[Ints, Ints]:
    """Find until when and since when the threads of some processes idle, as returned by `_idle_threads`.

    `regions` are the parallel regions of their masters (`_regions_of`); the masters end at the points `ends`.
    """
    order, outer = _outermost(regions)
    order = order[outer]
    of, enter = regions["location"][order].astype(np.int64), regions["enter"][order]
    leaves = _leaves(regions)[order]
    stays_open = distinct(of[(leaves == AT_END) | (regions["join_row"][order] < 0)])
    ends = ends[~np.isin(location[ends], stays_open)]
    idle = np.concatenate([points_at(rows, enter), ends])
    # the JOIN of the preceding outermost region on the same location
    until = np.concatenate([np.arange(of.size), np.searchsorted(of, location[ends], "right")]) - 1
    until = np.where((until >= 0) & (pick(of, until) == np.append(of, location[ends])), until, -1)
    join = pick(regions["join_row"][order], until)
    before = np.empty(join.size, np.int64)
    ranking.number_rows_before(join, rows, start, before)
    known = idle >= 0
    return idle[known], before[known]


def _leaves(regions: dict[str, NDArray[Any]]) -> Ints:
    """Return the rows at which parallel regions are left, `AT_END` for those that never are."""
    return np.where(regions["exit"] >= 0, regions["exit"], AT_END)


def _outermost(regions: dict[str, NDArray[Any]]) -> tuple[Ints, Mask]:
    """Order parallel regions by the rows of their ENTERs, and mark those that are in no other region of their
    location."""
    # the regions of each window are in this order already
    order = np.argsort(regions["enter"], kind="stable")
    leaves, of, enter = _leaves(regions)[order], regions["location"][order], regions["enter"][order]
    # rows ascend from location to location, so the last EXIT is a running maximum over all, except for regions never
    # left
    open_here = np.isin(of, of[leaves == AT_END])
    left = np.maximum.accumulate(np.where(leaves == AT_END, -1, leaves)) if leaves.size else leaves
    before = np.append(-1, left[:-1])
    outer = enter > before[: enter.size]
    for i in distinct(of[open_here]).tolist():
        # a region that is never left encloses all that follow
        mine = np.flatnonzero(of == i)
        outer[mine[int(np.argmax(leaves[mine] == AT_END)) + 1 :]] = False
    return order, outer


def _nested_regions(
    facts: Facts,
    quirks: Quirks,
    rows: ranking.Rows,
    threads: Sequence[ParallelRegions],
    division: Division,
    large: LargeArrays,
) -> tuple[Ints, Ints]:
    """Find the points at which locations enter parallel regions inside of others and leave them later, ascending, and
    the first point after each of these regions; none for the reference, which does not distinguish them."""
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    start = location_starts_of(rows)
    for partition in division.partitions if has_openmp(facts) and not quirks.leaves_out_others else ():
        of_windows = [threads[k] for k in division.windows_of(partition.number)]
        if not _any_nested(of_windows, facts.n_locations):
            continue
        regions = _regions_of(of_windows)
        order, outer = _outermost(regions)
        inner = order[~outer]
        inner = inner[regions["exit"][inner] >= 0]
        enters, last = points_at(rows, regions["enter"][inner]), np.empty(inner.size, np.int64)
        ranking.number_rows_before(regions["exit"][inner], rows, start, last)
        known = enters >= 0
        found.append((enters[known], last[known] + 1))
    n = sum(enters.size for enters, _ in found)
    enters, left = (large.joined(n, np.int64, of) for of in zip(*found, strict=True))
    order = np.argsort(enters)
    return enters[order], left[order]


def _any_nested(threads: Sequence[ParallelRegions], n_locations: int) -> bool:
    """Return whether any region is inside of another one of its location: window by window, as all regions of a long
    process take much memory."""
    left = np.full(n_locations, -1)
    for t in threads:
        regions = _regions_of([t])
        _, outer = _outermost(regions)
        if not outer.all() or (regions["enter"] < left[regions["location"]]).any():
            return True
        np.maximum.at(left, regions["location"], _leaves(regions))
    return False


def _regions_of(threads: Sequence[ParallelRegions], chosen: Mask | None = None) -> dict[str, NDArray[Any]]:
    """Put the parallel regions of chosen locations together, by default of all; four columns of
    `points.ParallelRegions`."""
    found: dict[str, list[NDArray[Any]]] = {c: [] for c in ("location", "enter", "exit", "join_row")}
    for t in threads:
        of = slice(None) if chosen is None else np.flatnonzero(chosen[t.regions.column("location")])
        for c, parts in found.items():
            parts.append(t.regions.column(c)[of])
    return {c: np.concatenate(parts) for c, parts in found.items()}


def location_starts(facts: Facts, location: NDArray[np.int32]) -> Ints:
    """Return the first point of each location, (n_locations + 1,), from the location of each point, ascending."""
    # with numbers of another type, searchsorted would convert a copy of the whole column
    return np.searchsorted(location, np.arange(facts.n_locations + 1, dtype=location.dtype))


def _intervals_of_threads(
    rows: ranking.Rows,
    points: Columns,
    pairs: Columns,
    nested: tuple[Ints, Ints],
    idle_since: Ints,
    kept: NDArray[np.signedinteger[Any]],
    since: Since,
    large: LargeArrays,
) -> None:
    """Find where the intervals of pairs of threads begin: at the last preceding point of threads, without those inside
    of nested parallel regions that have ended.

    `nested` is from `_nested_regions`, `idle_since` from `_idle_threads`; `kept` is the number of each pair in
    `_pairs`, in which those of idle threads come first.
    """
    cause_since, waiting_since = since["cause_since"], since["waiting_since"]
    before = large.empty(len(points), cause_since.dtype)
    either = OF_THREADS | (np.arange(OF_THREADS.size) == IDLE)
    with in_order(points.kind, before, pairs.kind, pairs.cause, cause_since):
        open_ = np.empty_like(nested[0])
        kernels.find_last_meetings(location_starts_of(rows), points.kind, THREADS_MEET, *nested, open_, before)
        kernels.begin_at_points(pairs.kind, either, pairs.cause, before, cause_since)
    # the waiting points of consecutive pairs are on different locations
    with in_order(pairs.kind, pairs.waiting, waiting_since):
        kernels.begin_at_points(pairs.kind, OF_THREADS, pairs.waiting, before, waiting_since)
    if idle_since.size:
        idle = large.chosen(len(pairs), lambda here: pairs.kind[here] == IDLE)
        cause_since[idle] = idle_since[kept[idle]]
    _begin_at_creations(points, pairs, since, large)


def _begin_at_creations(points: Columns, pairs: Columns, since: Since, large: LargeArrays) -> None:
    """Let the interval of a wait between a created thread and its creator begin at the creation on both sides.

    A creator that has ended may be followed by another created thread on its location, which begins later.
    """
    rows = large.chosen(len(pairs), lambda here: OF_CREATED[pairs.kind[here]])
    sides = (pairs.cause[rows], since["cause_since"]), (pairs.waiting[rows], since["waiting_since"])
    for (_, since_of_created), (other, since_of_creator) in (sides, sides[::-1]):
        born = since_of_created[rows]
        at = np.flatnonzero(pick(points.kind, born) == CREATED)
        creates = points.at("set", born[at])
        by_other = (creates >= 0) & (pick(points.location, creates) == points.location[other[at]])
        # the other side is still the creator, and no thread created after it on the same location
        of_other = since_of_creator[rows[at]]
        by_other &= (creates < other[at]) & ((pick(points.kind, of_other) != CREATED) | (of_other < creates))
        since_of_creator[rows[at[by_other]]] = creates[by_other]


def _intervals_of_processes(
    facts: Facts, quirks: Quirks, rows: ranking.Rows, points: Columns, pairs: Columns, since: Since, large: LargeArrays
) -> None:
    """Find where the intervals of pairs of processes begin: at the last point with the other side or, for the cause of
    a collective operation, with each other member."""
    groups = _groups(facts, points, pairs, large)
    last = _LastSynchronisations(location_starts_of(rows), points, groups, facts.process, large)
    cause, waiting = pairs.cause, pairs.waiting
    mpi = large.chosen(len(pairs), lambda here: ~(OF_THREADS[pairs.kind[here]] | (pairs.kind[here] == IDLE)))
    causing, waits = large.taken(cause, mpi), large.taken(waiting, mpi)
    since["waiting_since"][mpi] = last.find(waits, last.processes_of(causing))
    # each waiting member by itself: the interval begins where the cause last synchronised with this member
    alone = mpi[OF_TWO[pairs.kind[mpi]]] if is_by_members(quirks) else mpi
    if is_by_members(quirks):
        causing, waits = large.taken(cause, alone), large.taken(waiting, alone)
    since["cause_since"][alone] = last.find(causing, last.processes_of(waits))
    if is_by_members(quirks):
        _intervals_of_members(facts, quirks, points, pairs, mpi[~OF_TWO[pairs.kind[mpi]]], last, since)


def is_by_members(quirks: Quirks) -> bool:
    """Return whether members of collective operations have intervals of their own."""
    return quirks.shifts_intervals or quirks.ignores_the_other_of_two or quirks.needs_shared_call_paths


class _LastSynchronisations(NamedTuple):
    """Finder of the last points at which locations synchronised with processes."""

    start: Ints
    """(n_locations + 1,): first point of each location."""
    points: Columns
    groups: kernels.Groups
    process: NDArray[np.int32]
    """(n_locations,): process of each location."""
    large: LargeArrays

    def processes_of(self, point: NDArray[np.signedinteger[Any]]) -> NDArray[np.int32]:
        """Return the processes of some points; (n,) int32."""
        location = self.points.location
        with in_order(point):
            return self.large.computed(
                point.size, np.int32, lambda here: self.process.take(take(location, point[here]))
            )

    def find(self, point: NDArray[np.signedinteger[Any]], partner: NDArray[np.int32]) -> NDArray[np.signedinteger[Any]]:
        """Find for each point and process the last preceding point that synchronises with the process; (n,) of the type
        of `point`, -1 where there is none."""
        large, n = self.large, point.size
        order, found = large.empty(n, number_type(n)), large.empty(n, point.dtype)
        with in_order(point):
            sort_by_number(point, large.zeros(len(self.points) + 1, number_type(n)), order)
        last = np.full(int(self.process.max(initial=-1)) + 1, -1, np.int64)
        last_group, used = np.zeros((2, self.groups.is_listed.size), np.int64)
        queries = kernels.Queries(order, point, partner)
        with in_order(order, self.points.partner, self.groups.of_point):
            kernels.find_last_synchronisations(
                self.start, self.points.partner, self.groups, queries, last, last_group, used, found
            )
        return found


def _intervals_of_members(
    facts: Facts,
    quirks: Quirks,
    points: Columns,
    pairs: Columns,
    many: Ints,
    last: _LastSynchronisations,
    since_of: Since,
) -> None:
    """Find where the intervals of pairs of collective operations begin: at the earliest of the cause's last
    synchronisations with the other members."""
    groups = last.groups
    cause, waiting = pairs.cause[many], pairs.waiting[many]
    process_of_cause = last.processes_of(cause)
    is_first = starts_run(cause)
    head, number_of = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    group = lookup(groups.channel, pairs.communicator[many[head]])
    size = groups.start[group + 1] - groups.start[group]
    instance = np.repeat(np.arange(head.size), size)
    member = groups.member[ranges(groups.start[group], size)]
    since = last.find(cause[head][instance], member.astype(np.int32))
    n_all = int(facts.process.max(initial=-1)) + 2

    is_other = member != process_of_cause[head][instance]
    instance, member, since = instance[is_other], member[is_other], since[is_other]
    whole = np.full(head.size, AT_END, np.int64)
    np.minimum.at(whole, instance, since)
    whole = np.where(whole == AT_END, -1, whole)
    own = np.where(since > whole[instance], since, -1)
    if facts.locations.n_processes == 2 and quirks.ignores_the_other_of_two:
        # if there are two processes, a point with the other one does not count as a point with the group
        own = np.where((since >= 0) & (pick(points.partner, since) >= 0), since, own)
    since_of["cause_since"][many] = whole[number_of]
    # for each waiting member: its own point, and the next later one of any other member
    by_point = np.lexsort((own, instance))
    keys, owns = instance[by_point], own[by_point]
    is_first = starts_run(keys, owns)
    run, begins = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
    goes_on = np.append(keys[begins[1:]] == keys[begins[:-1]], False) if keys.size else np.zeros(0, bool)
    next_own = np.where(goes_on, np.append(owns[begins[1:]], AT_END)[: begins.size], AT_END)
    of_member = np.empty(keys.size, np.int64)
    of_member[by_point] = next_own[run]
    at = lookup(instance * n_all + member, number_of * n_all + last.processes_of(waiting).astype(np.int64))
    own_since = pick(own, at)
    since_of["own_since"][many] = own_since
    # if none follows, it never counts
    later = np.minimum(pick(of_member, at, AT_END), cause)
    if not quirks.shifts_intervals:
        later = own_since + 1
    since_of["counts_from"][many] = np.where(own_since >= 0, later, -1)


def _groups(facts: Facts, points: Columns, pairs: Columns, large: LargeArrays) -> kernels.Groups:
    """Collect the groups of processes that points synchronise with: communicators, the participants of one operation,
    and the processes that one event lets go on besides its partner."""
    # most communicators equal their predecessor
    parts = [of[here] for of in (points.communicator, pairs.communicator) for here in blocks(of.size)]
    channel = distinct(np.concatenate([np.zeros(0, np.int64), *(distinct(of[starts_run(of)]) for of in parts)]))
    channel = channel[channel != NOBODY]
    everybody = distinct(facts.process[facts.locations.is_cpu]).astype(np.int64)
    members = [everybody if c == EVERYBODY else facts.communicators.members_of(c) for c in channel.tolist()]
    collective = POINTS.index("collective")
    in_set = large.chosen(len(points), lambda here: points.kind[here] == collective)
    in_set = in_set[points.at("set", in_set) >= 0]
    process = facts.process[points.location[in_set]]
    numbers, first = number(points.at("set", in_set))
    by_set = np.lexsort((process, numbers))
    of_operations = large.chosen(len(pairs), lambda here: OF_OPERATIONS[pairs.kind[here]])
    lets_go_on, goes_on = pairs.cause[of_operations], facts.process[points.location[pairs.waiting[of_operations]]]
    others = (points.communicator[lets_go_on] == NOBODY) & (points.partner[lets_go_on] != goes_on)
    # pairs are ordered by cause
    lets_go_on, n_others = np.unique(lets_go_on[others], return_counts=True)
    sizes = np.concatenate([[m.size for m in members], np.bincount(numbers, minlength=first.size), n_others])
    member = np.concatenate([np.zeros(0, np.int64), *members, process[by_set], goes_on[others]])
    # NOBODY is not among the channels
    of_point = large.empty(len(points), np.int32)
    with in_order(points.communicator):
        kernels.find_places(points.communicator, channel, of_point)
    several = points.partner[in_set] < 0
    of_point[in_set[several]] = numbers[several] + channel.size
    of_point[lets_go_on] = np.arange(lets_go_on.size) + channel.size + first.size
    is_listed = np.arange(sizes.size) >= channel.size
    return kernels.Groups(of_point, channel, is_listed, offsets_of(sizes), member)
