"""Synchronisation points, one per event at which a location waits or makes others wait, and their pairs.

Every stage finds the points of its own tables; `causes.pairs` puts them together. Times are seconds since the first
event of the trace, in float64, and waits are differences of them, because the reference computes like this and its
rounding errors decide some costs. Without this peculiarity (`quirks.Quirks.rounds_seconds`) times are ticks in int64,
never floating-point numbers, since sums over an EPILOG trace need up to 60 bits. Within an analysis all arrays of times
have the same type, `time_type`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.quirks import Quirks
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments, number
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import BUCKET, GLOBAL, RECEIVE, SEND, WITHIN, step
from tracecols.enhance.definitions.regions import CONSTRUCTS as ROLES
from tracecols.enhance.definitions.regions import IS_BARRIER
from tracecols.enhance.mpi.waits import (
    BARRIER,
    COMMUNICATORS,
    HANDLES,
    N_TO_N,
    N_TO_ONE,
    ONE_TO_N,
    SCAN,
    Participants,
    are_causes,
    of_operations,
    synchronised,
    wait_for_locks,
    wait_for_receivers,
    wait_for_senders,
    wait_for_signals,
    wait_for_threads,
)
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.region_rules import is_in
from tracecols.schema.causes import DELAYS, POINTS
from tracecols.vectors import Ints, Mask

WITHIN_CALL = ("lead", "tail")
"""Columns of points that only periods need: how long before `begin_time` the call begins, and how long after its
completion it ends."""

Times = NDArray[Any]
"""Times, of the type that `time_type` returns."""

NOBODY, EVERYBODY = -1, -2
"""Values of `communicator` for points that synchronise with one process or a set, and for those that do with all of
MPI."""

OF_POINT: dict[str, Any] = {
    "location": np.int32, "event": np.int64, "kind": np.int8, "begin_time": np.int64, "wait": None, "total": None,
    "completion": None, "call_path": np.int32, "partner": np.int32, "communicator": np.int64, "set": np.int64,
    "lead": None, "tail": None,
}  # fmt: skip
OF_PAIR: dict[str, Any] = {
    "kind": np.int8, "cause": np.int64, "waiting": np.int64, "wait": None, "communicator": np.int64,
}  # fmt: skip
"""Columns of points and of pairs with their types; None is the type of times."""

LEFT_OUT: dict[str, Any] = {"partner": -1, "communicator": NOBODY, "set": -1}
"""Defaults of columns that are not given, if not 0. The partners of points without these columns follow from the
pairs."""

NARROW = 1 << 31
"""Number of points from which on point numbers take 8 bytes instead of 4."""


def number_type(n_points: int) -> type[np.signedinteger[Any]]:
    """Return the type in which numbers of points are held for the whole trace."""
    return np.int32 if n_points < NARROW else np.int64


@dataclass(frozen=True, eq=False)
class Alike:
    """Rows of points or of pairs, some of whose columns are the same in all rows."""

    columns: ColumnSource
    """The other columns."""
    same: dict[str, NDArray[Any]]
    """dict of str to (1,) array: the value common to all rows."""
    is_by_event: bool
    """Whether the points are sorted by event."""

    def __len__(self) -> int:
        return len(self.columns)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column, or the one value that holds for all rows; (n,) or (1,)."""
        return self.same[name] if name in self.same else self.columns.column(name)

    def between(self, first: int, stop: int, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return columns of the points at the rows first <= row < stop; other points may be included."""
        low, high = self.columns.search("event", [first, stop]).tolist() if self.is_by_event else (0, len(self))
        return {name: self.same[name] if name in self.same else self.columns.rows(name, low, high) for name in names}


class Synchronisation:
    """Points and pairs found in a slice of the trace.

    Parameters
    ----------
    points, pairs : sequence of mapping
        Columns of points or pairs of one kind; scalars hold for all rows.
    by_event : bool, optional
        Sort the points of each kind by event. For points of many processes, of which `Alike.between` then reads only
        the requested ones.

    Attributes
    ----------
    points : list of Alike
        `OF_POINT`: location, row of the event, kind (`schema.causes.POINTS`), begin of its call or operation (ticks),
        time waited, total time, time of the completion, call path, the process it synchronises with (-1 several), the
        channel of the communicator (NOBODY, EVERYBODY), and `set`: the number of the set of points with whose processes
        it synchronises; for threads, the row of the event of the master's point at a fork or barrier, or at which a
        thread was created; and `WITHIN_CALL`, by default 0.
    pairs : list of Alike
        `OF_PAIR`: kind of the delay (`schema.causes.DELAYS`), rows of the events of the causing and of the waiting
        point, time waited, the channel of the communicator of a collective operation.
    """

    def __init__(
        self,
        quirks: Quirks,
        points: Sequence[dict[str, Any]],
        pairs: Sequence[dict[str, Any]],
        spill: Spill,
        by_event: bool = False,
    ) -> None:
        self.points = [_alike(quirks, of, OF_POINT, spill, by_event) for of in points if np.size(of["event"])]
        self.pairs = [_alike(quirks, of, OF_PAIR, spill) for of in pairs if np.size(of["cause"])]


@cache
def _single(value: float, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of one value: one object for all windows, of which a long trace has thousands."""
    return np.full(1, value, dtype)


def _alike(quirks: Quirks, given: dict[str, Any], of: dict[str, Any], spill: Spill, by_event: bool = False) -> Alike:
    """Store the columns, and separately the values common to all rows."""
    columns: dict[str, NDArray[Any]] = {}
    same: dict[str, NDArray[Any]] = {}
    for name, type_of in of.items():
        value: Any = given.get(name, LEFT_OUT.get(name, 0))
        dtype = np.dtype(type_of or time_type(quirks))
        if np.ndim(value):
            columns[name] = np.ascontiguousarray(value, dtype)
        else:
            same[name] = _single(np.asarray(value).item(), dtype)
    kept = Columns(next(iter(columns.values())).size, columns)
    if by_event:
        kept = kept.take(np.argsort(kept["event"], kind="stable"))
    return Alike(spill.keep(kept), same, by_event)


def ticks_per_unit(facts: Facts, quirks: Quirks) -> int:
    """Return the number of ticks per unit of the times of root causes: ticks per second, or 1."""
    return facts.resolution if quirks.rounds_seconds else 1


def time_type(quirks: Quirks) -> type[np.float64] | type[np.int64]:
    """Return the type of all times of root causes: float64 for seconds, int64 for ticks."""
    return np.float64 if quirks.rounds_seconds else np.int64


def clock(facts: Facts, quirks: Quirks) -> Callable[[Ints], Times]:
    """Return a function that turns clock readings into times since the first event of the trace; (n,) of
    `time_type`."""
    first = first_time(facts)

    def times(ticks: Ints) -> Times:
        return durations(facts, quirks, ticks - first)

    return times


def first_time(facts: Facts) -> int:
    """Return the clock reading of the first event of a trace; 0 without events."""
    return int(facts.store.manifest["first_time"] or 0)


def durations(facts: Facts, quirks: Quirks, ticks: Ints) -> Times:
    """Return differences of clock readings in the unit of times."""
    return ticks.astype(np.float64) / facts.resolution if quirks.rounds_seconds else ticks


def in_ticks(facts: Facts, quirks: Quirks, times: Times) -> Ints:
    """Return times in ticks. Differences of times in seconds are rounded, which recovers the ticks."""
    return np.rint(times * facts.resolution).astype(np.int64) if quirks.rounds_seconds else times.astype(np.int64)


def _positive(values: Times) -> Times:
    return np.maximum(values, 0)


def points_of(
    kind: str, location: Any, event: Any, begin_time: Any, call_path: Any, wait: Any = 0, total: Any = 0, **more: Any
) -> dict[str, Any]:
    """Return the columns of points of one kind; columns that are not given default to `LEFT_OUT`, or 0."""
    return {
        "kind": POINTS.index(kind),
        "location": location,
        "event": event,
        "begin_time": begin_time,
        "call_path": call_path,
        "wait": wait,
        "total": total,
        **more,
    }


def pairs_of(delay: str, cause: Any, waiting: Any, wait: Any, communicator: Any = NOBODY) -> dict[str, Any]:
    """Return the columns of pairs with one kind of delay."""
    return {"kind": DELAYS.index(delay), "cause": cause, "waiting": waiting, "wait": wait, "communicator": communicator}


class _Side(NamedTuple):
    """The calls at one end of messages: rows, begin in ticks, times of ENTER and EXIT, locations and call paths."""

    event: Ints
    begin_time: Ints
    enter: Times
    leave: Times
    location: NDArray[np.int32]
    call_path: NDArray[np.int32]

    def points(self, facts: Facts, kind: str, other: _Side, wait: Any, completion: Times) -> dict[str, Any]:
        """Return the points of this side, which synchronises with the other one."""
        return points_of(
            kind,
            self.location,
            self.event,
            self.begin_time,
            self.call_path,
            wait,
            self.leave - self.enter,
            completion=completion,
            partner=facts.process[other.location],
        )


def _side(facts: Facts, quirks: Quirks, m: CompoundTable, of: Ints, call: str) -> _Side:
    """Return one side of the messages `of`: the calls whose columns begin with `call`."""
    times, begin_time = clock(facts, quirks), m[f"{call}_enter_time"][of]
    # another thread than the one that sends or receives may complete the send, or post the receive
    event = m[call][of]
    return _Side(
        event, begin_time, times(begin_time), times(m[f"{call}_exit_time"][of]), facts.order.locations_of(event),
        m[f"{call}_call_path"][of],
    )  # fmt: skip


@step(RECEIVE, "late_senders")
def late_senders(facts: Facts, quirks: Quirks, messages: CompoundTable, spill: Spill) -> Synchronisation:
    """Find the points of messages that are sent late: their receives and their sends."""
    of = np.flatnonzero(wait_for_senders(facts, messages)[1])
    recv, send = (_side(facts, quirks, messages, of, call) for call in ("recv", "send"))
    wait = np.minimum(send.enter, recv.leave) - recv.enter
    points = [
        recv.points(facts, "late sender", send, wait, _positive(recv.leave - send.leave)),
        send.points(facts, "send", recv, 0, _positive(send.leave - recv.leave)),
    ]
    pairs = [pairs_of("late_sender", send.event, recv.event, wait)]
    return Synchronisation(quirks, points, pairs, spill, by_event=True)


@step(SEND, "late_receivers")
def late_receivers(facts: Facts, quirks: Quirks, sent_messages: CompoundTable, spill: Spill) -> Synchronisation:
    """Find the points of messages that are received late: where their sends complete, and where their receives are
    posted."""
    of = np.flatnonzero(wait_for_receivers(facts, sent_messages)[1])
    done, post = (_side(facts, quirks, sent_messages, of, call) for call in ("send_done", "recv_post"))
    wait, longer = post.enter - done.enter, done.leave - post.leave
    # the reference takes the minimum where the maximum is meant
    completion = np.minimum(longer, 0) if quirks.negates_completion else _positive(longer)
    points = [
        done.points(facts, "late receiver", post, wait, completion),
        post.points(facts, "receive posted", done, 0, _positive(-longer)),
    ]
    pairs = [pairs_of("late_receiver", post.event, done.event, wait)]
    return Synchronisation(quirks, points, pairs, spill, by_event=True)


class _Shares(NamedTuple):
    """Roles of the members of collective operations of one kind: the member waited for, which begins last (-1 none),
    and whether each member takes part in the synchronisation, waits in it, and synchronises with the whole
    communicator."""

    cause: Ints
    takes_part: Mask
    waits: Mask
    is_whole: Mask


def _who_waits(kind: str, p: Participants, waits_here: Mask) -> _Shares:
    """Find who waits for whom in operations of a kind.

    For calls that manage communicators, `waits_here` marks those in which members wait.
    """
    everyone = np.ones(p.begin.size, bool)
    at = np.arange(p.begin.size)
    if kind == "barrier":
        cause, is_whole = p.latest(everyone), p.all_meet() | ~p.crosses
        takes_part = is_whole | (p.begin < pick(p.begin, cause)) | are_causes(cause)
        return _Shares(cause, takes_part, everyone, is_whole)
    if kind == "management":
        is_whole, cause = p.min(p.end) >= p.max(p.begin), p.latest(everyone)
        return _Shares(cause, is_whole & (waits_here | (cause == at)), waits_here, is_whole)
    if kind == "n_to_n":
        is_whole = p.all_meet()
        cause = np.where(is_whole, p.latest(everyone), p.latest(p.sent > 0))
        return _Shares(cause, synchronised(p)[2], is_whole | (p.received > 0), is_whole)
    if kind == "scan":
        until, cause = p.latest_of_lower_ranks()
        waits = ((p.sent > 0) | (p.received > 0)) & (p.begin < until)
        return _Shares(cause, waits | are_causes(cause[waits], at.size), waits, ~everyone)
    if kind == "one_to_n":
        cause, receives = p.latest(p.is_root & (p.sent > 0)), ~p.is_root
    else:
        cause, receives = p.latest(p.sent > 0), p.is_root
    waits = receives & (p.received > 0) & (p.begin < pick(p.begin, cause))
    return _Shares(cause, waits | ((at == cause) & p.any(waits & (cause >= 0))), waits, ~everyone)


def _partners(process: NDArray[np.integer[Any]], cause: Ints, others: Ints, here: Ints) -> NDArray[np.integer[Any]]:
    """Return the process that each of the members `here` synchronises with: that of the cause for a member that waits,
    that of the waiting member for the cause; -1 if several."""
    last = np.full(cause.size, -1, np.int64)
    last[cause[others]] = others
    n_others = np.bincount(cause[others], minlength=cause.size)
    partner = np.where(here != cause[here], process[cause[here]], pick(process, last[here]))
    return np.where(n_others[here] > 1, -1, partner)


@step(BUCKET, "collective_points")
def collective_points(
    facts: Facts, quirks: Quirks, collectives: CompoundTable, collective_members: CompoundTable, spill: Spill
) -> Synchronisation:
    """Find the points of collective operations, and the pairs of causing and waiting members."""
    m = collective_members
    found = []
    for kind, ops in (
        ("barrier", BARRIER),
        ("n_to_n", N_TO_N),
        ("one_to_n", ONE_TO_N),
        ("n_to_one", N_TO_ONE),
        ("scan", SCAN),
        ("management", HANDLES),
    ):
        if kind in ("scan", "management") and quirks.leaves_out_others:
            continue
        chosen = of_operations(collectives, m, ops)
        waits_here = is_in(facts, m.call_path, COMMUNICATORS) if kind == "management" else chosen
        if kind == "management":
            # operations at start and end have points of their own, unless other processes create this one
            chosen &= np.isin(m.collective, m.collective[waits_here])
        row = np.flatnonzero(chosen)
        if row.size:
            found.append(_points_of_kind(facts, quirks, m, row, kind, waits_here[row]))
    points, pairs = ([of[k] for of in found] for k in range(2))
    return Synchronisation(quirks, points, pairs, spill, by_event=True)


def _points_of_kind(
    facts: Facts, quirks: Quirks, m: CompoundTable, row: Ints, kind: str, waits_here: Mask
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the points and pairs of the members `row` of collective operations of a kind."""
    p, at, times = Participants(m, row), np.arange(row.size), clock(facts, quirks)
    cause, takes_part, waits, is_whole = _who_waits(kind, p, waits_here)
    takes_part = takes_part & (cause >= 0)
    others = takes_part & (at != cause)
    begin, end = times(p.begin), times(p.end)
    until = np.minimum(pick(begin, cause), end)
    # for a broadcast, the earliest of the receivers that waited
    counts = others if kind == "one_to_n" and quirks.completes_with_receivers else takes_part
    earliest = times(p.min(np.where(counts, p.end, np.iinfo(np.int64).max)))
    wait = np.where(waits & others, _positive(until - begin), 0)
    here = np.flatnonzero(takes_part)
    of = row[here]
    event, process = m.end[row], facts.process[m.location[row]]
    with_one = kind in ("one_to_n", "n_to_one")
    # a rank that waits in a scan may make others wait: all ranks that do either synchronise with each other
    is_set = ~is_whole[here] & (kind not in ("n_to_one", "management"))
    channel = facts.communicators.channel(m.communicator[of], process[here])
    points = points_of(
        "collective",
        m.location[of],
        event[here],
        p.begin[here],
        m.call_path[of],
        wait[here],
        times(m.exit_time[of]) - times(m.enter_time[of]),
        completion=_positive(end - np.maximum(earliest, np.maximum(until, begin)))[here],
        lead=begin[here] - times(m.enter_time[of]),
        tail=times(m.exit_time[of]) - end[here],
        partner=_partners(process, cause, np.flatnonzero(others), here) if with_one else -1,
        communicator=np.where(is_whole[here], channel, NOBODY),
        set=np.where(is_set, event[cause[here]] if with_one else p.min(event)[here], -1),
    )
    e = np.flatnonzero(wait > 0)
    channels = facts.communicators.channel(m.communicator[row[e]], process[e])
    return points, pairs_of(kind, event[cause[e]], event[e], wait[e], channels)


@step(GLOBAL, "startup_points")
def startup_points(
    facts: Facts, quirks: Quirks, startups: CompoundTable, created_processes: CompoundTable, spill: Spill
) -> Synchronisation:
    """Find the points of MPI_Init and MPI_Finalize and their pairs, which the reference does not report, and the points
    at which processes are created, which it does not know.

    Processes are created as soon as the creating call is entered; the call waits for them.
    """
    m, times = startups, clock(facts, quirks)
    points: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    kinds = (True, "MPI_Init"), (False, "MPI_Finalize")
    # others may wait for a process that never leaves: what it does is known until it enters
    leaves = m.exit >= 0
    row = np.where(leaves, m.exit, m.enter)
    for (is_init, kind), world in product(kinds, distinct(m.communicator).tolist()):
        is_one = (m.is_init == is_init) & (m.communicator == world)
        of = np.flatnonzero(is_one & (leaves | (not quirks.leaves_out_startup)))
        members = world if world >= 0 else EVERYBODY
        of = of[np.argsort(row[of], kind="stable")]
        _, first = number(m.location[of].astype(np.int64))
        of = of[np.sort(first)]
        enter, leave, latest, earliest = (
            times(m[c][of]) for c in ("enter_time", "exit_time", "latest_enter_time", "earliest_exit_time")
        )
        leave = np.where(leaves[of], leave, enter)
        until = np.minimum(latest, leave)
        wait = _positive(until - enter)
        if is_init and quirks.leaves_out_startup:
            wait = np.zeros_like(wait)
        completion = _positive(leave - np.maximum(latest if is_init else until, earliest))
        ends = m.location[of], row[of], m.enter_time[of], m.call_path[of]
        points.append(points_of(kind, *ends, wait, leave - enter, completion=completion, communicator=members))
        if not quirks.leaves_out_startup and of.size:
            # the member that enters last; of several, the one on the first location
            last = int(of[np.lexsort((m.location[of], -m.enter_time[of]))[0]])
            e = np.flatnonzero((wait > 0) & (of != last))
            pairs.append(pairs_of("startup", np.full(e.size, row[last]), row[of[e]], wait[e], members))
    if not quirks.leaves_out_others:
        c = created_processes
        points += _births(facts, quirks, c, c.begin_time, c.create_enter)
    return Synchronisation(quirks, points, pairs, spill)


class ParallelRegions(NamedTuple):
    """The parallel regions of threads."""

    regions: ColumnSource
    """By thread and parallel region, ascending by the row of ENTER: location, rows of ENTER and EXIT, time from the
    FORK to the ENTER and from the EXIT to the JOIN, call path, whether another thread forked it, and otherwise the row
    of the JOIN (-1 none)."""
    extents: Ints
    """(n_locations, 2): rows of the first and of the last ENTER on each location that has any."""
    with_tasks: ColumnSource
    """By thread that executes tasks in a barrier: row of the EXIT, ascending, and time at which the last thread of the
    team enters."""


@step(WITHIN, "thread_points", "thread_regions")
def thread_points(
    facts: Facts,
    quirks: Quirks,
    constructs: CompoundTable,
    construct_members: CompoundTable,
    teams: CompoundTable,
    spill: Spill,
) -> tuple[Synchronisation, ParallelRegions]:
    """Find the points at which threads begin in teams and meet at barriers, the pairs of the latter, and the parallel
    regions of threads."""
    m = construct_members
    team = constructs.team[m.construct] if len(constructs) else m.construct
    master = teams.master[team] if len(teams) else np.full(len(m), -1, np.int32)
    forks, regions = _fork_points(facts, quirks, len(constructs), m, teams, team, master)
    meetings, pairs, with_tasks = _barrier_points(facts, quirks, len(constructs), m, master)
    found = Synchronisation(quirks, [forks, meetings], [pairs], spill)
    return found, ParallelRegions(spill.keep(regions), _extents(regions), spill.keep(with_tasks))


def _fork_points(
    facts: Facts,
    quirks: Quirks,
    n_constructs: int,
    m: CompoundTable,
    teams: CompoundTable,
    team: Ints,
    master: NDArray[np.integer[Any]],
) -> tuple[dict[str, Any], Columns]:
    """Return the points where threads begin in teams, and their parallel regions (`ParallelRegions.regions`).

    `team` is the row of the team of each member of a construct, `master` the location that forked it, -1 for none.
    """
    times = clock(facts, quirks)
    of = np.flatnonzero((m.role_number == ROLES.index("parallel")) & (master >= 0))
    of = of[np.argsort(m.enter[of])]
    location, row, begin_time, call_path, group = (
        m[c].take(of) for c in ("location", "enter", "enter_time", "call_path", "construct")
    )
    team, enter, leave = team.take(of), times(begin_time), times(m.exit_time.take(of))
    fork, join = (times(teams[c][team]) for c in ("fork_time", "join_time"))
    earliest = Segments(group, n_constructs).min(begin_time).take(group)
    forks_it = location == master.take(of)
    after_fork = _positive(enter - fork)
    regions = {
        "location": location,
        "enter": row,
        "exit": m.exit.take(of),
        "fork": after_fork,
        "join": _positive(join - leave),
        "call_path": call_path,
        "is_guest": ~forks_it,
        "join_row": np.where(forks_it, teams.join[team], -1),
    }
    forks = points_of(
        "fork",
        location,
        row,
        begin_time,
        call_path,
        total=after_fork,
        completion=enter - times(earliest),
        set=_masters(n_constructs, group, row, forks_it),
        # a thread is in a parallel region from the FORK on
        lead=after_fork,
    )
    return forks, Columns(of.size, regions)


def _extents(regions: Columns) -> Ints:
    """Return `ParallelRegions.extents` of parallel regions, which ascend by their rows of ENTER."""
    first = np.flatnonzero(np.diff(regions["location"], prepend=-1))
    return regions["enter"][np.stack([first, np.append(first[1:], len(regions))[: first.size] - 1], axis=1)]


def _barrier_points(
    facts: Facts, quirks: Quirks, n_constructs: int, m: CompoundTable, master: NDArray[np.integer[Any]]
) -> tuple[dict[str, Any], dict[str, Any], Columns]:
    """Return the points at which threads meet at barriers, their pairs, and the threads that execute tasks there
    (`ParallelRegions.with_tasks`)."""
    times = clock(facts, quirks)
    of = np.flatnonzero(IS_BARRIER[m.role_number])
    location, row, begin_time, latest_time, task_ticks, group = (
        m[c].take(of) for c in ("location", "exit", "enter_time", "latest_enter_time", "task_time", "construct")
    )
    # others may wait for a thread that never leaves: what it does is known until it enters
    leaves = row >= 0
    row = np.where(leaves, row, m.enter.take(of))
    enter, latest = times(begin_time), times(latest_time)
    whole = np.where(leaves, latest - enter, 0)
    last = np.where(begin_time == latest_time, np.arange(of.size), of.size)
    cause = Segments(group, n_constructs).min(last).take(group)
    task_time = durations(facts, quirks, task_ticks)
    waited = _positive(np.where(task_ticks > 0, whole - task_time, whole))
    charged = whole if quirks.ignores_tasks else waited
    masters = _masters(n_constructs, group, row, location == master.take(of))
    total = np.where(leaves, times(m.exit_time.take(of)) - enter, 0)
    points = points_of("thread barrier", location, row, begin_time, m.call_path.take(of), waited, total, set=masters)
    e = np.flatnonzero((charged > 0) & (cause < of.size))
    pairs = pairs_of("thread_barrier", row.take(cause.take(e)), row.take(e), charged.take(e))
    executes = np.flatnonzero(leaves & (task_ticks > 0))
    executes = executes[np.argsort(row[executes])]
    return points, pairs, Columns(executes.size, {"exit": row[executes], "latest": latest[executes]})


def _masters(n_constructs: int, construct: Ints, row: Ints, is_master: Mask) -> Ints:
    """Return one number for all members of a construct: the row of the thread that forked, else the first row; (n,)
    int64."""
    if not row.size:
        return row
    segments = Segments(construct, n_constructs)
    nothing = np.iinfo(np.int64).max
    masters = segments.min(np.where(is_master, row, nothing))
    return np.where(masters < nothing, masters, segments.min(row))[construct]


@step(WITHIN, "lock_points")
def lock_points(facts: Facts, quirks: Quirks, lock_acquisitions: CompoundTable, spill: Spill) -> Synchronisation:
    """Find the points at which threads wait for locks and for conditions, and their pairs, which the reference does not
    know."""
    if quirks.leaves_out_others:
        return Synchronisation(quirks, [], [], spill)
    m, times = lock_acquisitions, clock(facts, quirks)
    since = times(m.lock_wait_time)
    _, waits = wait_for_locks(facts, m, "lock_wait_time")
    of = np.flatnonzero(
        waits & (m.previous_owner >= 0) & (m.previous_owner != m.location) & (m.previous_call_path >= 0)
    )
    wait = times(m.previous_release_time[of]) - since[of]
    enter, released = times(m.enter_time[of]), m.released[of]
    acquires = points_of(
        "lock",
        m.location[of],
        m.acquire[of],
        m.lock_wait_time[of],
        m.call_path[of],
        wait,
        times(m.acquire_time[of]) - enter,
        lead=since[of] - enter,
    )
    owners = m.previous_owner[of], released, m.previous_release_time[of], m.previous_call_path[of]
    releases = points_of("release", *owners)
    of_locks = pairs_of("lock", released, m.acquire[of], wait)
    conditional, signals, of_conditions = _condition_points(facts, quirks, m)
    points = [conditional, signals, acquires, releases]
    return Synchronisation(quirks, points, [of_locks, of_conditions], spill)


def _condition_points(
    facts: Facts, quirks: Quirks, m: CompoundTable
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the points of waits for conditions, at which the locks are given up, the points of the signals that end
    the waits, and the pairs of both."""
    ticks, waits = wait_for_signals(m)
    of = np.flatnonzero(waits)
    wait = durations(facts, quirks, ticks[of])
    gives_up = points_of("condition", m.location[of], m.given_up[of], m.enter_time[of], m.call_path[of], wait, wait)
    signal = m.signal_exit[of]
    signals = points_of("signal", m.signal_location[of], signal, m.signal_time[of], m.signal_call_path[of])
    return gives_up, signals, pairs_of("condition", signal, m.given_up[of], wait)


@step(RECEIVE, "created_points")
def created_points(facts: Facts, quirks: Quirks, created_threads: CompoundTable, spill: Spill) -> Synchronisation:
    """Find the points at which threads are created, begin, end and are waited for, and their pairs, which the reference
    does not know."""
    if quirks.leaves_out_others:
        return Synchronisation(quirks, [], [], spill)
    c, times = created_threads, clock(facts, quirks)
    births = _births(facts, quirks, c, c.enter_time, c.create_exit)
    until, waits = wait_for_threads(c)
    of = np.flatnonzero(waits & (c.join_location >= 0) & (c.join_exit >= 0))
    enter, leave = times(c.join_enter_time[of]), times(c.join_exit_time[of])
    wait = times(until[of]) - enter
    ends_of_joins = c.join_location[of], c.join_exit[of], c.join_enter_time[of], c.join_call_path[of]
    joins = points_of("join", *ends_of_joins, wait, leave - enter)
    # a thread whose creation is not recorded, as in a trace slice, ends where it is joined
    call_path = np.where(c.create_call_path >= 0, c.create_call_path, c.join_call_path)[of]
    ends = points_of("thread ends", c.location[of], c.end[of], c.end_time[of], call_path)
    of_threads = pairs_of("join", c.end[of], c.join_exit[of], wait)
    return Synchronisation(quirks, [*births, joins, ends], [of_threads], spill)


def _births(facts: Facts, quirks: Quirks, c: CompoundTable, begin_time: Ints, created: Ints) -> list[dict[str, Any]]:
    """Return the points at which threads or processes begin, and at which others create them.

    The creator runs on concurrently, so the critical path goes back from the begin to the creator; the launch counts as
    completion.

    `c` is `created_threads` or `created_processes`; `created` are the events at which they are created, -1 for none.
    """
    times, born = clock(facts, quirks), np.flatnonzero(created >= 0)
    launch = _positive(times(begin_time[born]) - times(c.create_enter_time[born]))
    call_path, event = c.create_call_path[born], created[born]
    begins = points_of(
        "created", c.location[born], c.begin[born], begin_time[born], call_path, completion=launch, set=event
    )
    creates = points_of("creates", c.create_location[born], event, c.create_enter_time[born], call_path)
    return [begins, creates]
