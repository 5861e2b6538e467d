"""Where a location synchronises with others: one point per event that waits, or lets others wait, and the pairs of
both.

Every stage finds those of its tables. `causes.pairs` puts them together. Times are seconds since the first event of the
trace, in float64, and waits differences of them: the reference computes like this, and what rounding leaves decides
some costs. Without this peculiarity (`quirks.Quirks.rounds_seconds`) they are ticks in int64: what is not rounded is
never a floating-point number, since sums over a trace of EPILOG need up to 60 bits. So all arrays of times have one
type in an analysis, that of `time_type`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments, number
from tracecols.enhance.dataflow.spill import Spill, keep, large_arrays
from tracecols.enhance.dataflow.steps import BUCKET, GLOBAL, RECEIVE, SEND, SPENT, WITHIN, step
from tracecols.enhance.definitions.regions import CONSTRUCTS as ROLES
from tracecols.enhance.mpi.waits import (
    BARRIER,
    COMMUNICATORS,
    HANDLES,
    N_TO_N,
    N_TO_ONE,
    ONE_TO_N,
    SCAN,
    Participants,
    latest_of_lower_ranks,
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
from tracecols.work.large import LargeArrays

WITHIN_CALL = ("lead", "tail")
"""Columns of points that only periods need: how long before `begin_time` the call begins, and how long after its
completion it ends."""

Times = NDArray[Any]
"""Times in one unit, as `time_type` says."""

NOBODY, EVERYBODY = -1, -2
"""Communicators of points that synchronise with one process or a set of them, and of those that do with all of MPI."""

OF_POINT: dict[str, Any] = {
    "location": np.int32, "event": np.int64, "kind": np.int8, "begin_time": np.int64, "wait": None, "total": None,
    "completion": None, "call_path": np.int32, "partner": np.int32, "communicator": np.int64, "set": np.int64,
    "lead": None, "tail": None,
}  # fmt: skip
OF_PAIR: dict[str, Any] = {
    "kind": np.int8, "cause": np.int64, "waiting": np.int64, "wait": None, "communicator": np.int64,
}  # fmt: skip
"""Columns of points and of pairs, by their types; None is that of times."""

NARROW = 1 << 31
"""From so many points on their numbers take 8 bytes instead of 4."""


def number_type(n_points: int) -> type[np.signedinteger[Any]]:
    """Return the type in which numbers of points are held for the whole trace."""
    return np.int32 if n_points < NARROW else np.int64


class Synchronisation:
    """Points and pairs that a slice of the trace finds.

    Parameters
    ----------
    points, pairs : sequence of mapping
        Columns, one after the other; scalars hold for all rows.

    Attributes
    ----------
    points : Columns
        `OF_POINT`: location, row of the event, kind (`schema.causes.POINTS`), when its call, or the operation, begins
        (ticks), time waited, in all, and of completion, call path, the process synchronised with (-1 several), the
        channel of the communicator (NOBODY, EVERYBODY), and the number of a set of points whose processes are
        synchronised with; and `WITHIN_CALL`, by default 0.
    pairs : Columns
        `OF_PAIR`: kind of the delay (`schema.causes.DELAYS`), rows of the events of the causing and of the waiting
        point, time waited, the channel of the communicator of a collective operation.
    """

    def __init__(
        self,
        quirks: Quirks,
        points: Sequence[dict[str, Any]],
        pairs: Sequence[dict[str, Any]],
        spill: Spill | None = None,
    ) -> None:
        self.points = keep(_joined(quirks, points, OF_POINT), spill)
        self.pairs = keep(_joined(quirks, pairs, OF_PAIR), spill)


def _joined(quirks: Quirks, parts: Sequence[dict[str, Any]], of: dict[str, Any]) -> Columns:
    """Put columns one after the other."""
    sizes = [max(np.size(v) for v in part.values()) if all(np.size(v) for v in part.values()) else 0 for part in parts]
    columns: dict[str, NDArray[Any]] = {}
    for name, type_of in of.items():
        dtype = type_of or time_type(quirks)
        arrays = [np.broadcast_to(np.asarray(p.get(name, 0), dtype), n) for p, n in zip(parts, sizes, strict=True)]
        columns[name] = np.concatenate([np.zeros(0, dtype), *arrays])
    return Columns(sum(sizes), columns)


def ticks_per_unit(facts: Facts, quirks: Quirks) -> int:
    """Return how many ticks the unit of all times of root causes has: those of a second, or one."""
    return facts.resolution if quirks.rounds_seconds else 1


def time_type(quirks: Quirks) -> type[np.float64] | type[np.int64]:
    """Return the type of all times of root causes: float64 for seconds, int64 for ticks."""
    return np.float64 if quirks.rounds_seconds else np.int64


def clock(facts: Facts, quirks: Quirks) -> Callable[[NDArray[np.int64]], Times]:
    """Return a function that turns clock readings into times since the first event of the trace; (n,) of
    `time_type`."""
    first = int(facts.store.manifest["first_time"] or 0)

    def times(ticks: NDArray[np.int64]) -> Times:
        return durations(facts, quirks, ticks - first)

    return times


def durations(facts: Facts, quirks: Quirks, ticks: NDArray[np.int64]) -> Times:
    """Return differences of clock readings in the unit of times; (n,) of `time_type`.

    Parameters
    ----------
    ticks : (n,) int64
    """
    return ticks.astype(np.float64) / facts.resolution if quirks.rounds_seconds else ticks


def in_ticks(facts: Facts, quirks: Quirks, times: Times) -> NDArray[np.int64]:
    """Return times in ticks; (n,) int64. Seconds are differences of times in seconds, so that ticks are met by
    rounding.

    Parameters
    ----------
    times : (n,) of `time_type`
    """
    return np.rint(times * facts.resolution).astype(np.int64) if quirks.rounds_seconds else times.astype(np.int64)


def _positive(values: Times) -> Times:
    return np.maximum(values, 0)


@step(RECEIVE, "late_senders", keeps=("late_senders",))
def late_senders(facts: Facts, quirks: Quirks, messages: CompoundTable, spill: Spill | None) -> Synchronisation:
    """Find the points of messages that are sent late: where they are received, and where they are sent."""
    m, times = messages, clock(facts, quirks)
    _, waits = wait_for_senders(facts, m)
    of = np.flatnonzero(waits)
    recv_enter, recv_exit, send_enter, send_exit = (
        times(m[c][of]) for c in ("recv_enter_time", "recv_exit_time", "send_enter_time", "send_exit_time")
    )
    wait = np.minimum(send_enter, recv_exit) - recv_enter
    waiting = {
        "location": m.recv_location[of],
        "event": m.recv[of],
        "kind": POINTS.index("late sender"),
        "begin_time": m.recv_enter_time[of],
        "wait": wait,
        "total": recv_exit - recv_enter,
        "completion": _positive(recv_exit - send_exit),
        "call_path": m.recv_call_path[of],
        "partner": facts.process[m.send_location[of]],
        "communicator": NOBODY,
        "set": -1,
    }
    causing = {
        "location": m.send_location[of],
        "event": m.send[of],
        "kind": POINTS.index("send"),
        "begin_time": m.send_enter_time[of],
        "wait": 0,
        "total": send_exit - send_enter,
        "completion": _positive(send_exit - recv_exit),
        "call_path": m.send_call_path[of],
        "partner": facts.process[m.recv_location[of]],
        "communicator": NOBODY,
        "set": -1,
    }
    pairs = {
        "kind": DELAYS.index("late_sender"),
        "cause": m.send[of],
        "waiting": m.recv[of],
        "wait": wait,
        "communicator": NOBODY,
    }
    return Synchronisation(quirks, [waiting, causing], [pairs], spill)


@step(SEND, "late_receivers", keeps=("late_receivers",))
def late_receivers(facts: Facts, quirks: Quirks, sent_messages: CompoundTable, spill: Spill | None) -> Synchronisation:
    """Find the points of messages that are received late: where their sends complete, and where their receives are
    posted."""
    m, times = sent_messages, clock(facts, quirks)
    _, waits = wait_for_receivers(facts, m)
    of = np.flatnonzero(waits)
    done_enter, done_exit, post_enter, post_exit = (
        times(m[c][of])
        for c in ("send_done_enter_time", "send_done_exit_time", "recv_post_enter_time", "recv_post_exit_time")
    )
    wait = post_enter - done_enter
    waiting = {
        "location": m.send_location[of],
        "event": m.send_done[of],
        "kind": POINTS.index("late receiver"),
        "begin_time": m.send_done_enter_time[of],
        "wait": wait,
        # the reference takes the minimum where the maximum is meant
        "total": done_exit - done_enter,
        "completion": np.minimum(done_exit - post_exit, 0)
        if quirks.negates_completion
        else _positive(done_exit - post_exit),
        "call_path": m.send_done_call_path[of],
        "partner": facts.process[m.recv_location[of]],
        "communicator": NOBODY,
        "set": -1,
    }
    causing = {
        "location": m.recv_location[of],
        "event": m.recv_post[of],
        "kind": POINTS.index("receive posted"),
        "begin_time": m.recv_post_enter_time[of],
        "wait": 0,
        "total": post_exit - post_enter,
        "completion": _positive(post_exit - done_exit),
        "call_path": m.recv_post_call_path[of],
        "partner": facts.process[m.send_location[of]],
        "communicator": NOBODY,
        "set": -1,
    }
    pairs = {
        "kind": DELAYS.index("late_receiver"),
        "cause": m.recv_post[of],
        "waiting": m.send_done[of],
        "wait": wait,
        "communicator": NOBODY,
    }
    return Synchronisation(quirks, [waiting, causing], [pairs], spill)


@step(BUCKET, "collective_points", keeps=("collective_points",))
def collective_points(
    facts: Facts, quirks: Quirks, collectives: CompoundTable, collective_members: CompoundTable, spill: Spill | None
) -> Synchronisation:
    """Find the points of collective operations, and who lets whom wait in them."""
    m, times = collective_members, clock(facts, quirks)
    points, pairs = [], []
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
            # those of start and end have points of their own, unless others create the process
            chosen &= np.isin(m.collective, m.collective[waits_here])
        row = np.flatnonzero(chosen)
        if not row.size:
            continue
        p = Participants(m, row)
        everyone = np.ones(row.size, bool)
        is_whole = everyone
        if kind == "barrier":
            cause, takes_part, waits = p.latest(everyone), everyone, everyone
        elif kind == "management":
            is_whole = p.min(p.end) >= p.max(p.begin)
            cause, waits = p.latest(everyone), waits_here[row]
            takes_part = is_whole & (waits | (cause == np.arange(row.size)))
        elif kind == "n_to_n":
            is_whole = p.min(p.end) > p.max(p.begin)
            cause = np.where(is_whole, p.latest(everyone), p.latest(p.sent > 0))
            takes_part, waits = synchronised(p)[2], everyone
        elif kind == "one_to_n":
            cause = p.latest(p.is_root & (p.sent > 0))
            waits = ~p.is_root & (p.received > 0) & (p.begin < pick(p.begin, cause))
            takes_part, is_whole = waits, ~everyone
        elif kind == "scan":
            until, cause = latest_of_lower_ranks(p)
            waits = ((p.sent > 0) | (p.received > 0)) & (p.begin < until)
            lets_wait = np.zeros(row.size, bool)
            lets_wait[cause[waits]] = True
            takes_part, is_whole = waits | lets_wait, ~everyone
        else:
            cause = p.latest(p.sent > 0)
            waits = p.is_root & (p.received > 0) & (p.begin < pick(p.begin, cause))
            takes_part, is_whole = waits, ~everyone
        at = np.arange(row.size)
        takes_part = takes_part & (cause >= 0)
        if kind in ("one_to_n", "n_to_one"):
            takes_part = takes_part | ((at == cause) & p.any(takes_part))
        elif kind == "n_to_n":
            # of a partial exchange the last sender, one of several that begin at the same time
            takes_part = takes_part & (is_whole | (p.begin < pick(p.begin, cause)) | (at == cause))
        begin, end = times(p.begin), times(p.end)
        until = np.minimum(pick(begin, cause), end)
        # of a broadcast the first receiver that waited
        counts = takes_part & (at != cause) if kind == "one_to_n" and quirks.completes_with_receivers else takes_part
        earliest = times(p.min(np.where(counts, p.end, np.iinfo(np.int64).max)))
        waits = waits & takes_part & (at != cause)
        wait = np.where(waits, _positive(until - begin), 0)
        completion = _positive(end - np.maximum(earliest, until))
        here = np.flatnonzero(takes_part)
        of = row[here]
        event, location = m.end[row], m.location[row]
        process = facts.process[location]
        channel = facts.communicators.channel(m.communicator[of], process[here])
        partner = np.full(here.size, -1, np.int32)
        if kind in ("one_to_n", "n_to_one"):
            # the cause synchronises with those that wait, each of them with the cause
            others = np.flatnonzero(takes_part & (at != cause))
            last = np.full(row.size, -1, np.int64)
            last[cause[others]] = others
            n_others = np.bincount(cause[others], minlength=row.size)
            partner = np.where(here != cause[here], process[cause[here]], pick(process, last[here]))
            partner = np.where(n_others[here] > 1, -1, partner)
        # a rank that waits in a scan may let others wait: all who do either synchronise with each other
        is_set = ~is_whole[here] & np.isin(kind, ["n_to_n", "one_to_n", "scan"])
        points.append(
            {
                "location": location[here],
                "event": event[here],
                "kind": POINTS.index("collective"),
                "begin_time": p.begin[here],
                "wait": wait[here],
                "total": times(m.exit_time[of]) - times(m.enter_time[of]),
                "completion": completion[here],
                "lead": begin[here] - times(m.enter_time[of]),
                "tail": times(m.exit_time[of]) - end[here],
                "call_path": m.call_path[of],
                "partner": partner,
                "communicator": np.where(is_whole[here], channel, NOBODY),
                "set": np.where(is_set, p.min(event)[here] if kind == "scan" else event[cause[here]], -1),
            }
        )
        e = np.flatnonzero(wait > 0)
        pairs.append(
            {
                "kind": DELAYS.index(kind),
                "cause": event[cause[e]],
                "waiting": event[e],
                "wait": wait[e],
                "communicator": facts.communicators.channel(m.communicator[row[e]], process[e]),
            }
        )
    return Synchronisation(quirks, points, pairs, spill)


@step(GLOBAL, "startup_points", keeps=("startup_points",))
def startup_points(
    facts: Facts, quirks: Quirks, startups: CompoundTable, created_processes: CompoundTable
) -> Synchronisation:
    """Find the points of MPI_Init and MPI_Finalize, and who lets whom wait there, which the reference does not tell;
    and where processes are created, which it does not know.

    Processes are created as soon as the call is entered, which waits for them.
    """
    m, times = startups, clock(facts, quirks)
    points: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    kinds = (True, "MPI_Init"), (False, "MPI_Finalize")
    for (is_init, kind), world in product(kinds, np.unique(m.communicator).tolist()):
        of = np.flatnonzero((m.is_init == is_init) & (m.communicator == world) & (m.exit >= 0))
        members = world if world >= 0 else EVERYBODY
        of = of[np.argsort(m.exit[of], kind="stable")]
        _, first = number(m.location[of].astype(np.int64))
        of = of[np.sort(first)]
        enter, leave, latest, earliest = (
            times(m[c][of]) for c in ("enter_time", "exit_time", "latest_enter_time", "earliest_exit_time")
        )
        until = np.minimum(latest, leave)
        wait = _positive(until - enter)
        if is_init and quirks.leaves_out_startup:
            wait = np.zeros_like(wait)
        points.append(
            {
                "location": m.location[of],
                "event": m.exit[of],
                "kind": POINTS.index(kind),
                "begin_time": m.enter_time[of],
                "wait": wait,
                "total": leave - enter,
                "completion": _positive(leave - np.maximum(latest if is_init else until, earliest)),
                "call_path": m.call_path[of],
                "partner": -1,
                "communicator": members,
                "set": -1,
            }
        )
        if not quirks.leaves_out_startup and of.size:
            # who enters last, of several the first location
            last = int(of[np.lexsort((m.location[of], -m.enter_time[of]))[0]])
            e = np.flatnonzero((wait > 0) & (of != last))
            pairs.append(
                {
                    "kind": DELAYS.index("startup"),
                    "cause": np.full(e.size, m.exit[last]),
                    "waiting": m.exit[of[e]],
                    "wait": wait[e],
                    "communicator": members,
                }
            )
    if not quirks.leaves_out_others:
        c = created_processes
        points += _births(facts, quirks, c, c.begin_time, c.create_enter)
    return Synchronisation(quirks, points, pairs)


@dataclass(frozen=True, eq=False)
class ParallelRegions:
    """The parallel regions that threads begin and leave.

    Attributes
    ----------
    regions : ColumnSource
        By thread and parallel region: location, rows of ENTER and EXIT, time from the FORK to the ENTER and from the
        EXIT to the JOIN, call path, whether another thread has forked it, and else the row of the JOIN (-1 none).
    with_tasks : ColumnSource
        Of threads that execute tasks in a barrier: row of the EXIT, ascending, and when the last thread of the team
        enters.
    """

    regions: ColumnSource
    with_tasks: ColumnSource


@step(WITHIN, "thread_points", "thread_regions", keeps=("thread_points", "thread_regions"))
def thread_points(
    facts: Facts,
    quirks: Quirks,
    constructs: CompoundTable,
    construct_members: CompoundTable,
    teams: CompoundTable,
    spill: Spill | None,
) -> tuple[Synchronisation, ParallelRegions]:
    """Find the points where threads begin in teams and meet at barriers, and who lets whom wait there; and the parallel
    regions of threads."""
    m, times = construct_members, clock(facts, quirks)
    team = constructs.team[m.construct] if len(constructs) else m.construct
    master = teams.master[team] if len(teams) else np.full(len(m), -1, np.int32)
    # parallel regions
    of = np.flatnonzero((m.role_number == ROLES.index("parallel")) & (master >= 0))
    location, row, begin_time, call_path, group = (
        m[c][of] for c in ("location", "enter", "enter_time", "call_path", "construct")
    )
    enter, leave = times(begin_time), times(m.exit_time[of])
    fork, join = (times(teams[c][team[of]]) for c in ("fork_time", "join_time"))
    earliest = Segments(group, len(constructs)).min(begin_time)[group]
    forks_it = location == master[of]
    after_fork = _positive(enter - fork)
    regions = Columns(
        of.size,
        {
            "location": location,
            "enter": row,
            "exit": m.exit[of],
            "fork": after_fork,
            "join": _positive(join - leave),
            "call_path": call_path,
            "is_guest": ~forks_it,
            "join_row": np.where(forks_it, teams.join[team[of]], -1),
        },
    )
    forks = {
        "location": location,
        "event": row,
        "kind": POINTS.index("fork"),
        "begin_time": begin_time,
        "wait": 0,
        "total": after_fork,
        "completion": enter - times(earliest),
        "call_path": call_path,
        "partner": -1,
        "communicator": NOBODY,
        "set": _masters(len(constructs), group, row, forks_it),
        # a thread is in a parallel region from the FORK on
        "lead": after_fork,
    }
    # barriers
    barriers = [ROLES.index(role) for role in ("barrier", "implicit_barrier")]
    of = np.flatnonzero(np.isin(m.role_number, barriers) & (master >= 0) & (m.exit >= 0))
    location, row, begin_time, latest_time, task_ticks, group = (
        m[c][of] for c in ("location", "exit", "enter_time", "latest_enter_time", "task_time", "construct")
    )
    enter, leave = times(begin_time), times(m.exit_time[of])
    latest = times(latest_time)
    whole = latest - enter
    last = np.where(begin_time == latest_time, np.arange(of.size), of.size)
    cause = Segments(group, len(constructs)).min(last)[group]
    task_time = durations(facts, quirks, task_ticks)
    waited = _positive(np.where(task_ticks > 0, whole - task_time, whole))
    charged = whole if quirks.ignores_tasks else waited
    points = {
        "location": location,
        "event": row,
        "kind": POINTS.index("thread barrier"),
        "begin_time": begin_time,
        "wait": waited,
        "total": leave - enter,
        "completion": 0,
        "call_path": m.call_path[of],
        "partner": -1,
        "communicator": NOBODY,
        "set": _masters(len(constructs), group, row, location == master[of]),
    }
    e = np.flatnonzero((charged > 0) & (cause < of.size))
    pairs = {
        "kind": DELAYS.index("thread_barrier"),
        "cause": row[cause[e]],
        "waiting": row[e],
        "wait": charged[e],
        "communicator": NOBODY,
    }
    executes = np.flatnonzero(task_ticks > 0)
    executes = executes[np.argsort(row[executes])]
    with_tasks = Columns(executes.size, {"exit": row[executes], "latest": latest[executes]})
    found = Synchronisation(quirks, [forks, points], [pairs], spill)
    return found, ParallelRegions(keep(regions, spill), keep(with_tasks, spill))


def _masters(
    n_constructs: int, construct: NDArray[np.int64], row: NDArray[np.int64], is_master: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Number the members of each construct alike, by the row of the thread that forked, else by the first; (n,)
    int64."""
    if not row.size:
        return row
    segments = Segments(construct, n_constructs)
    nothing = np.iinfo(np.int64).max
    masters = segments.min(np.where(is_master, row, nothing))
    found: NDArray[np.int64] = np.where(masters < nothing, masters, segments.min(row))[construct]
    return found


@step(SPENT, "parallel_regions")
def join_parallel_regions(own_thread_regions: Sequence[ParallelRegions], spill: Spill | None) -> ParallelRegions:
    """Put the parallel regions of all windows of a partition together."""
    if len(own_thread_regions) == 1:
        return own_thread_regions[0]
    large = large_arrays(spill)
    regions, with_tasks = (
        _put_together([getattr(of, name) for of in own_thread_regions], large) for name in ("regions", "with_tasks")
    )
    return ParallelRegions(keep(regions, spill), keep(with_tasks.take(np.argsort(with_tasks["exit"])), spill))


def _put_together(sources: Sequence[ColumnSource], large: LargeArrays) -> Columns:
    """Return the columns of several tables with the same columns, one table after the other."""
    n = sum(map(len, sources))

    def column(name: str) -> NDArray[Any]:
        return large.joined(n, sources[0].rows(name, 0, 0).dtype, (of.column(name) for of in sources))

    return Columns(n, {name: column(name) for name in sources[0].names})


NO_PARTNER: dict[str, Any] = {"partner": -1, "communicator": NOBODY, "set": -1}
"""Of points whose pairs say with whom they synchronise."""


@step(WITHIN, "lock_points", keeps=("lock_points",))
def lock_points(facts: Facts, quirks: Quirks, lock_acquisitions: CompoundTable, spill: Spill | None) -> Synchronisation:
    """Find the points where threads wait for locks and for conditions, and who lets them wait, which the reference does
    not know."""
    if quirks.leaves_out_others:
        return Synchronisation(quirks, [], [], spill)
    m, times = lock_acquisitions, clock(facts, quirks)
    since = times(m.lock_wait_time)
    _, waits = wait_for_locks(facts, m, "lock_wait_time")
    of = np.flatnonzero(
        waits & (m.previous_owner >= 0) & (m.previous_owner != m.location) & (m.previous_call_path >= 0)
    )
    wait = times(m.previous_release_time[of]) - since[of]
    acquires = {
        "location": m.location[of],
        "event": m.acquire[of],
        "kind": POINTS.index("lock"),
        "begin_time": m.lock_wait_time[of],
        "wait": wait,
        "total": times(m.acquire_time[of]) - times(m.enter_time[of]),
        "completion": 0,
        "call_path": m.call_path[of],
        "lead": since[of] - times(m.enter_time[of]),
        **NO_PARTNER,
    }
    releases = {
        "location": m.previous_owner[of],
        "event": m.previous_release[of],
        "kind": POINTS.index("release"),
        "begin_time": m.previous_release_time[of],
        "wait": 0,
        "total": 0,
        "completion": 0,
        "call_path": m.previous_call_path[of],
        **NO_PARTNER,
    }
    of_locks = {
        "kind": DELAYS.index("lock"),
        "cause": m.previous_release[of],
        "waiting": m.acquire[of],
        "wait": wait,
        "communicator": NOBODY,
    }
    conditional, signals, of_conditions = _condition_points(facts, quirks, m)
    # the release in a wait for a condition is the point of that, also where others wait for the lock
    points = [conditional, signals, acquires, releases]
    return Synchronisation(quirks, points, [of_locks, of_conditions], spill)


def _condition_points(
    facts: Facts, quirks: Quirks, m: CompoundTable
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the points of waits for conditions, where they give up their locks, those of the signals that end them,
    and the pairs of both."""
    ticks, waits = wait_for_signals(m)
    of = np.flatnonzero(waits)
    wait = durations(facts, quirks, ticks[of])
    gives_up = {
        "location": m.location[of],
        "event": m.given_up[of],
        "kind": POINTS.index("condition"),
        "begin_time": m.enter_time[of],
        "wait": wait,
        "total": wait,
        "completion": 0,
        "call_path": m.call_path[of],
        **NO_PARTNER,
    }
    signals = {
        "location": m.signal_location[of],
        "event": m.signal_exit[of],
        "kind": POINTS.index("signal"),
        "begin_time": m.signal_time[of],
        "wait": 0,
        "total": 0,
        "completion": 0,
        "call_path": m.signal_call_path[of],
        **NO_PARTNER,
    }
    of_conditions = {
        "kind": DELAYS.index("condition"),
        "cause": m.signal_exit[of],
        "waiting": m.given_up[of],
        "wait": wait,
        "communicator": NOBODY,
    }
    return gives_up, signals, of_conditions


@step(RECEIVE, "created_points", keeps=("created_points",))
def created_points(
    facts: Facts, quirks: Quirks, created_threads: CompoundTable, spill: Spill | None
) -> Synchronisation:
    """Find the points where threads are created, begin, end and are waited for, and who lets whom wait, which the
    reference does not know."""
    if quirks.leaves_out_others:
        return Synchronisation(quirks, [], [], spill)
    c, times = created_threads, clock(facts, quirks)
    births = _births(facts, quirks, c, c.enter_time, c.create_exit)
    until, waits = wait_for_threads(c)
    of = np.flatnonzero(waits & (c.join_location >= 0) & (c.join_exit >= 0))
    enter, leave = times(c.join_enter_time[of]), times(c.join_exit_time[of])
    wait = times(until[of]) - enter
    joins = {
        "location": c.join_location[of],
        "event": c.join_exit[of],
        "kind": POINTS.index("join"),
        "begin_time": c.join_enter_time[of],
        "wait": wait,
        "total": leave - enter,
        "completion": 0,
        "call_path": c.join_call_path[of],
        **NO_PARTNER,
    }
    # a thread whose creation is not recorded, as in a trace slice, ends where it is joined
    is_born = c.create_call_path >= 0
    ends = {
        "location": c.location[of],
        "event": c.end[of],
        "kind": POINTS.index("thread ends"),
        "begin_time": c.end_time[of],
        "wait": 0,
        "total": 0,
        "completion": 0,
        "call_path": np.where(is_born, c.create_call_path, c.join_call_path)[of],
        **NO_PARTNER,
    }
    of_threads = {
        "kind": DELAYS.index("join"),
        "cause": c.end[of],
        "waiting": c.join_exit[of],
        "wait": wait,
        "communicator": NOBODY,
    }
    return Synchronisation(quirks, [*births, joins, ends], [of_threads], spill)


def _births(
    facts: Facts, quirks: Quirks, c: CompoundTable, begin_time: NDArray[np.int64], created: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return the points at which threads or processes begin, and at which others create them.

    Where one begins its creator goes on beside it: the path goes back to the creator; the launch completes the
    creation.

    Parameters
    ----------
    c : CompoundTable
        `created_threads` or `created_processes`.
    begin_time, created : (n,) int64
        When they begin to do something, and the events at which they are created; -1 none.
    """
    times, born = clock(facts, quirks), np.flatnonzero(created >= 0)
    launch = _positive(times(begin_time[born]) - times(c.create_enter_time[born]))
    begins = {
        "location": c.location[born],
        "event": c.begin[born],
        "kind": POINTS.index("created"),
        "begin_time": begin_time[born],
        "wait": 0,
        "total": 0,
        "completion": launch,
        "call_path": c.create_call_path[born],
        "partner": -1,
        "communicator": NOBODY,
        "set": created[born],
    }
    creates = {
        "location": c.create_location[born],
        "event": created[born],
        "kind": POINTS.index("creates"),
        "begin_time": c.create_enter_time[born],
        "wait": 0,
        "total": 0,
        "completion": 0,
        "call_path": c.create_call_path[born],
        **NO_PARTNER,
    }
    return [begins, creates]
