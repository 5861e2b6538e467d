"""All synchronisation points of a trace in order, and the pairs of who waits and who causes it, with the intervals that
count.

The interval of a pair begins, on either side, at the last point that synchronises with the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.points import (
    EVERYBODY,
    NOBODY,
    OF_POINT,
    PAIR,
    WITHIN_CALL,
    Synchronisation,
    ThreadPoints,
    number_type,
    time_type,
)
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import lookup, number
from tracecols.enhance.dataflow.steps import CAUSES, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.scan import LocationScan
from tracecols.kernels import causes as kernels
from tracecols.kernels import points as ranking
from tracecols.kernels.orders import sort_by_number
from tracecols.kernels.ranks import count_rows, no_ranks
from tracecols.schema.causes import DELAY_PAIRS, DELAYS, POINTS, SYNC_POINTS

AT_END = np.iinfo(np.int64).max
"""Row of the point at the end of a location."""

FORK, THREAD_BARRIER, END, CREATED = (POINTS.index(k) for k in ("fork", "thread barrier", "end", "created"))
IDLE = DELAYS.index("idle")
OF_TWO = np.isin(DELAYS, ("late_sender", "late_receiver", "one_sided", "nonblocking", "file", "shmem"))
"""Kinds of delays whose intervals begin where the waiting process and the causing one have synchronised with each other
before; those of other operations of MPI begin where all of their members have."""

OF_THREADS = np.isin(DELAYS, ("thread_barrier", "lock", "join"))
THREADS_MEET = np.isin(np.arange(len(POINTS)), (FORK, THREAD_BARRIER, CREATED))
"""Which kinds of delays are those of threads, and at which kinds of points threads synchronise."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Processes that points synchronise with together.

    Attributes
    ----------
    of_point : (n_points,) int32
        Group of each point; -1 none.
    channel : (n_channels,) int64
        Communicators, which are the first groups.
    is_listed : (n,) bool
        Whether a group belongs to one operation; others are communicators.
    start, member : (n + 1,) int64, (any,) int64
        Processes, ascending.
    """

    of_point: NDArray[np.int32]
    channel: NDArray[np.int64]
    is_listed: NDArray[np.bool_]
    start: NDArray[np.int64]
    member: NDArray[np.int64]


def has_openmp(facts: Facts) -> bool:
    """Whether a program uses OpenMP: an OpenMP region is on one of its call paths.

    Regions that are defined and never entered do not count: recorders define those of all libraries they were built
    for.
    """
    return _enters(facts, "openmp")


def has_mpi(facts: Facts) -> bool:
    """Whether a program uses MPI: an MPI call is on one of its call paths."""
    return _enters(facts, "mpi")


def _enters(facts: Facts, paradigm: str) -> bool:
    """Say whether a region of a paradigm is on a call path."""
    return bool((facts.regions.paradigm[facts.call_paths.whole.region] == paradigm).any())


@step(CAUSES, "sync_points", "delay_pairs", keeps=("sync_points", "delay_pairs"))
def match_causes(
    facts: Facts,
    quirks: Quirks,
    scans: Sequence[LocationScan],
    every_late_senders: Sequence[Synchronisation],
    every_late_receivers: Sequence[Synchronisation],
    every_collective_points: Sequence[Synchronisation],
    startup_points: Synchronisation,
    operation_points: Synchronisation,
    every_thread_points: Sequence[ThreadPoints],
    every_lock_points: Sequence[Synchronisation],
) -> tuple[CompoundTable, CompoundTable]:
    """Build the tables of all synchronisation points and of the pairs of who causes a wait and who waits."""
    found = [
        *every_late_senders,
        *every_late_receivers,
        *every_collective_points,
        startup_points,
        operation_points,
        *every_thread_points,
        *every_lock_points,
    ]
    rows, points = _points(facts, quirks, scans, found)
    kind = points.kind
    pairs = _pairs(rows, found)
    idle = idle_since = np.zeros(0, np.int64)
    if not quirks.leaves_out_others:
        pairs = _with_causes(points, pairs)
        if has_openmp(facts):
            idle, idle_since = _idle_threads(facts, rows, points, every_thread_points)
    elif has_openmp(facts):
        # threads idle while their master is outside parallel regions
        is_master = facts.locations.master[points.location] == points.location
        idle = np.flatnonzero(((kind == FORK) | (kind == END)) & is_master)
    pairs = _in_order(len(points), _with_idle(pairs, idle))
    n_pairs = pairs["cause"].size

    beside = [c for c in ("set", "label", *WITHIN_CALL) if c in points.names]
    table = CompoundTable(SYNC_POINTS, len(points), {c: points[c] for c in (*SYNC_POINTS.names, *beside)})
    since = _intervals(facts, quirks, rows, points, Columns(n_pairs, pairs), idle_since)
    # what is held for the whole trace is held in as few bytes as it takes
    number = number_type(len(points))
    columns = {c: pairs.pop(c) for c in ("kind", "wait")}
    columns |= {
        c: of.pop(c).astype(number, copy=False) for of in (pairs, since) for c in list(of) if c != "communicator"
    }
    return table, CompoundTable(DELAY_PAIRS, n_pairs, columns)


def _points(
    facts: Facts, quirks: Quirks, scans: Sequence[LocationScan], found: Sequence[Synchronisation]
) -> tuple[ranking.Rows, Columns]:
    """Put all points in order, one for an event; columns of `points.POINT`, and `label` and `points.WITHIN_CALL` where
    periods divide the trace."""
    # every location that has events ends at a point
    has_events = np.fromiter((scan.n > 0 for scan in scans), bool, facts.n_locations)
    ends = facts.locations.is_cpu & has_events
    n_rows = int(facts.store.manifest["n_events"])
    ranks = no_ranks(n_rows + 1, number_type(n_rows))
    for f in found:
        ranking.mark_rows(f.points.column("event"), f.points.column("call_path"), ranks)
    n = int(count_rows(ranks)) + int(ends.sum())
    rows = ranking.Rows(ranks, np.append(facts.first_rows, n_rows), np.append(0, np.cumsum(ends)))
    is_divided = facts.call_paths.divider is not None
    columns = {
        name: np.empty(n if is_divided or name not in WITHIN_CALL else 0, dtype or time_type(quirks))
        for name, dtype in OF_POINT.items()
    }
    columns["location"][:] = -1
    for f in found:
        of_found = (f.points.column(c) if is_divided or c not in WITHIN_CALL else columns[c] for c in OF_POINT)
        ranking.place_points(ranking.Points(*of_found), rows, ranking.Points(**columns))
    at = location_starts_of(rows)[1:][ends] - 1
    last_time = np.array([scans[i].last_time for i in np.flatnonzero(ends).tolist()], np.int64)
    of_end: dict[str, Any] = {
        "location": np.flatnonzero(ends), "event": AT_END, "kind": END, "begin_time": last_time, "wait": 0, "total": 0, "completion": 0,
        "call_path": -1, "partner": -1, "communicator": -1, "set": -1, "lead": 0, "tail": 0,
    }  # fmt: skip
    for name, column in columns.items():
        if column.size:
            column[at] = of_end[name]
    if is_divided:
        # the call path in the period, beside that of the whole time
        columns["label"] = columns["call_path"]
        columns["call_path"] = facts.call_paths.path_of(columns["label"]).astype(np.int32)
    return rows, Columns(n, {name: column for name, column in columns.items() if is_divided or name not in WITHIN_CALL})


def location_starts_of(rows: ranking.Rows) -> NDArray[np.int64]:
    """Return the first point of each location; (n_locations + 1,) int64."""
    start = np.empty(rows.first_row.size, np.int64)
    ranking.start_locations(rows, start)
    return start


def points_at(rows: ranking.Rows, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the points at rows of events; (n,) int64, -1 where there is none."""
    found = np.empty(row.size, np.int64)
    ranking.number_rows(row, rows, found)
    return found


def _pairs(rows: ranking.Rows, found: Sequence[Synchronisation]) -> dict[str, NDArray[Any]]:
    """Put all pairs of known points together; columns of `points.PAIR`."""
    pairs: dict[str, list[NDArray[Any]]] = {c: [] for c in PAIR}
    for f in found:
        cause, waiting = (points_at(rows, f.pairs.column(c)) for c in ("cause", "waiting"))
        both = np.flatnonzero((cause >= 0) & (waiting >= 0))
        of = {"cause": cause, "waiting": waiting}
        for c, kept in pairs.items():
            kept.append((of[c] if c in of else f.pairs.column(c))[both])
    return {c: np.concatenate(kept) for c, kept in pairs.items()}


def _in_order(n_points: int, pairs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Put pairs in the order of their causes and, of these, of the waiting points."""
    waiting = pairs["waiting"]
    if (waiting[1:] < waiting[:-1]).any():
        by_waiting = np.argsort(waiting, kind="stable")
        pairs = {c: v[by_waiting] for c, v in pairs.items()}
    order = np.empty(waiting.size, np.int64)
    sort_by_number(pairs["cause"], np.zeros(n_points + 1, number_type(waiting.size)), order)
    return {c: v[order] for c, v in pairs.items()}


def _with_causes(points: Columns, pairs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Keep one pair of each waiting point, and let only those points wait whose cause is known."""
    chosen = np.full(len(points), -1, np.int64)
    kernels.choose_causes(pairs["waiting"], pairs["wait"], pairs["cause"], chosen)
    order = chosen[chosen >= 0]
    order = order[pairs["cause"][order] != pairs["waiting"][order]]
    pairs = {c: v[order] for c, v in pairs.items()}
    wait = points.wait
    wait[:] = 0
    wait[pairs["waiting"]] = pairs["wait"]
    return pairs


def _with_idle(pairs: dict[str, NDArray[Any]], idle: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Put pairs of threads that idle until some points of their masters in front of others."""
    of_idle: dict[str, Any] = {"kind": IDLE, "cause": idle, "waiting": -1, "wait": 0, "communicator": -1}
    return {c: np.concatenate([np.broadcast_to(of_idle[c], idle.size).astype(v.dtype), v]) for c, v in pairs.items()}


def _idle_threads(
    facts: Facts, rows: ranking.Rows, points: Columns, threads: Sequence[ThreadPoints]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find until when threads idle because their master is outside the outermost parallel regions.

    Returns
    -------
    idle : (n,) int64
        Points: where masters fork, and where they end.
    since : (n_points,) int64
        The last point before the JOIN after which they idle until a point; -1 the beginning.
    """
    n_others = facts.locations.n_threads - 1
    kind, location = points.kind, points.location
    regions = {
        c: np.concatenate([t.regions.column(c) for t in threads]) for c in ("location", "enter", "exit", "join_row")
    }
    is_master = (facts.locations.master == np.arange(facts.n_locations)) & (n_others > 0)
    ends = np.flatnonzero((kind == END) & is_master[location])
    order = np.lexsort((regions["enter"], regions["location"]))
    order = order[is_master[regions["location"][order]]]
    leaves = np.where(regions["exit"] >= 0, regions["exit"], AT_END)[order]
    of, enter = regions["location"][order].astype(np.int64), regions["enter"][order]
    # rows are numbered location by location, so that what is left last is known across them but for what never is
    open_here = np.isin(of, of[leaves == AT_END])
    left = np.maximum.accumulate(np.where(leaves == AT_END, -1, leaves)) if leaves.size else leaves
    before = np.append(-1, left[:-1])
    outer = enter > before[: enter.size]
    for i in np.unique(of[open_here]).tolist():
        # a region that is never left holds all that follow
        mine = np.flatnonzero(of == i)
        outer[mine[int(np.argmax(leaves[mine] == AT_END)) + 1 :]] = False
    order, leaves, of, enter = order[outer], leaves[outer], of[outer], enter[outer]
    stays_open = np.unique(of[(leaves == AT_END) | (regions["join_row"][order] < 0)])
    ends = ends[~np.isin(location[ends], stays_open)]
    idle = np.concatenate([points_at(rows, enter), ends])
    # the JOIN of the outermost region before, of the same location
    until = np.concatenate([np.arange(of.size), np.searchsorted(of, location[ends], "right")]) - 1
    until = np.where((until >= 0) & (pick(of, until) == np.append(of, location[ends])), until, -1)
    join = pick(regions["join_row"][order], until)
    before = np.empty(join.size, np.int64)
    ranking.number_rows_before(join, rows, location_starts_of(rows), before)
    since = np.full(len(points), -1, np.int64)
    known = idle >= 0
    since[idle[known]] = before[known]
    return idle[known], since


def location_starts(facts: Facts, location: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the first point of each location; (n_locations + 1,) int64.

    Parameters
    ----------
    location : (n_points,) int32
        Location of each point, ascending.
    """
    return np.searchsorted(location, np.arange(facts.n_locations + 1))


def _intervals(
    facts: Facts, quirks: Quirks, rows: ranking.Rows, points: Columns, pairs: Columns, idle_since: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Find where the intervals of pairs begin.

    Returns
    -------
    dict of str to (n_pairs,) int64
        `cause_since`, `waiting_since`: -1 is the beginning. `own_since`: of collective operations the point at which
        the waiting process synchronised with the causing one later than others did; -1 none. `counts_from`: the first
        point before the cause that takes on costs of the pair; the cause if none does.
    """
    location, kind, n = points.location, points.kind, len(points)
    process = facts.process[location] if n else np.zeros(0, np.int32)
    start = location_starts_of(rows)
    cause, waiting = pairs.cause, pairs.waiting
    is_of_two, is_thread, is_idle = OF_TWO[pairs.kind], OF_THREADS[pairs.kind], pairs.kind == IDLE
    is_mpi = ~(is_thread | is_idle)
    cause_since, waiting_since, own_since, counts_from = (np.full(cause.size, -1, np.int64) for _ in range(4))

    # threads: the last point of threads before
    before = np.empty(n, np.int64)
    kernels.find_last_of_kinds(start, kind, THREADS_MEET, before)
    either = is_thread | is_idle
    cause_since[either] = before[cause[either]]
    waiting_since[is_thread] = before[waiting[is_thread]]
    # a thread and the one that created it synchronise last when that happens
    joins = np.flatnonzero(pairs.kind == DELAYS.index("join"))
    joins = joins[pick(kind, cause_since[joins]) == CREATED]
    creates = points_at(rows, points.set[cause_since[joins]])
    by_creator = (creates >= 0) & (pick(location, creates) == location[waiting[joins]]) & (creates < waiting[joins])
    waiting_since[joins[by_creator]] = creates[by_creator]
    if idle_since.size:
        cause_since[is_idle] = idle_since[cause[is_idle]]

    # processes: the last point with the other side; of the cause of a collective operation with each other member
    groups = _groups(facts, points, process, pairs.communicator)
    mpi = np.flatnonzero(is_mpi)
    one, many = mpi[is_of_two[mpi]], mpi[~is_of_two[mpi]]
    head = many[np.append(True, cause[many][1:] != cause[many][:-1])] if many.size else many
    group = lookup(groups.channel, pairs.communicator[head])
    size = groups.start[group + 1] - groups.start[group]
    instance = np.repeat(np.arange(head.size), size)
    offset = np.arange(instance.size) - np.repeat(np.cumsum(size) - size, size)
    member = groups.member[groups.start[group][instance] + offset] if instance.size else np.zeros(0, np.int64)
    point = np.concatenate([waiting[mpi], cause[one], cause[head][instance]])
    partner = np.concatenate([process[cause[mpi]], process[waiting[one]], member])
    order = np.argsort(point, kind="stable")
    found = np.empty(point.size, np.int64)
    n_processes = int(facts.process.max(initial=-1)) + 1
    n_groups = groups.is_listed.size
    answers = np.empty(point.size, np.int64)
    kernels.find_last_synchronisations(
        start,
        points.partner,
        groups.of_point,
        groups.is_listed,
        groups.start,
        groups.member,
        np.concatenate([[0], np.cumsum(np.bincount(point, minlength=n))]).astype(np.int64),
        partner[order].astype(np.int32),
        np.full(n_processes, -1, np.int64),
        np.zeros(n_groups, np.int64),
        np.zeros(n_groups, np.int64),
        answers,
    )
    found[order] = answers
    waiting_since[mpi] = found[: mpi.size]
    cause_since[one] = found[mpi.size : mpi.size + one.size]

    number_of = np.cumsum(np.append(False, cause[many][1:] != cause[many][:-1])) if many.size else many
    n_all = n_processes + 1
    if not (quirks.shifts_intervals or quirks.ignores_the_other_of_two or quirks.needs_shared_call_paths):
        # each member by itself: what the cause did since it has synchronised with this one
        at = lookup(instance * n_all + member, number_of * n_all + process[waiting[many]])
        cause_since[many] = pick(found[mpi.size + one.size :], at)
        return {
            "cause_since": cause_since,
            "waiting_since": waiting_since,
            "own_since": own_since,
            "counts_from": counts_from,
        }

    # the interval of a collective operation begins where the cause has synchronised with all others that have not later
    is_other = member != process[cause[head]][instance]
    instance, member, since = instance[is_other], member[is_other], found[mpi.size + one.size :][is_other]
    whole = np.full(head.size, AT_END, np.int64)
    np.minimum.at(whole, instance, since)
    whole = np.where(whole == AT_END, -1, whole)
    own = np.where(since > whole[instance], since, -1)
    if facts.locations.n_processes == 2 and quirks.ignores_the_other_of_two:
        # of two processes a point with the other one does not count as a point with the group
        own = np.where((since >= 0) & (pick(points.partner, since) >= 0), since, own)
    cause_since[many] = whole[number_of]
    # of each waiting member its own point, and the next one that any other has
    by_point = np.lexsort((own, instance))
    keys, owns = instance[by_point], own[by_point]
    run = np.cumsum(np.append(False, (keys[1:] != keys[:-1]) | (owns[1:] != owns[:-1]))) if keys.size else keys
    begins = np.flatnonzero(np.diff(run, prepend=-1))
    goes_on = np.append(keys[begins[1:]] == keys[begins[:-1]], False) if keys.size else np.zeros(0, bool)
    next_own = np.where(goes_on, np.append(owns[begins[1:]], AT_END)[: begins.size], AT_END)
    of_member = np.empty(keys.size, np.int64)
    of_member[by_point] = next_own[run]
    at = lookup(instance * n_all + member, number_of * n_all + process[waiting[many]])
    own_since[many] = pick(own, at)
    # where none follows it never counts
    later = np.minimum(pick(of_member, at, AT_END), cause[many])
    if quirks.shifts_intervals:
        counts_from[many] = np.where(own_since[many] >= 0, later, -1)
    else:
        counts_from[many] = np.where(own_since[many] >= 0, own_since[many] + 1, -1)
    return {
        "cause_since": cause_since,
        "waiting_since": waiting_since,
        "own_since": own_since,
        "counts_from": counts_from,
    }


def _groups(facts: Facts, points: Columns, process: NDArray[np.int32], more: NDArray[np.int64]) -> Groups:
    """Collect the processes that points synchronise with together: communicators, and what takes part in one
    operation."""
    has_group = np.flatnonzero(points.communicator != NOBODY)
    used = np.concatenate([points.communicator[has_group], more[more != NOBODY]])
    channel = np.sort(used[number(used)[1]])
    everybody = np.unique(facts.process[facts.locations.is_cpu]).astype(np.int64)
    members = [everybody if c == EVERYBODY else facts.communicators.members_of(c) for c in channel.tolist()]
    in_set = np.flatnonzero(points.kind == POINTS.index("collective"))
    in_set = in_set[points.set[in_set] >= 0]
    numbers, first = number(points.set[in_set])
    by_set = np.lexsort((process[in_set], numbers))
    sizes = np.append([m.size for m in members], np.bincount(numbers, minlength=first.size)).astype(np.int64)
    member = np.concatenate([np.zeros(0, np.int64), *members, process[in_set][by_set]])
    of_point = np.full(len(points), -1, np.int32)
    of_point[has_group] = lookup(channel, points.communicator[has_group])
    several = points.partner[in_set] < 0
    of_point[in_set[several]] = numbers[several] + channel.size
    return Groups(
        of_point, channel, np.arange(sizes.size) >= channel.size, np.concatenate([[0], np.cumsum(sizes)]), member
    )
