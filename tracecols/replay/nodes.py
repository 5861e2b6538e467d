"""Nodes of a replay: the events of each location at which something is waited for, or waited for elsewhere.

Rows of the event table, in their order: the first and the last of a location, ENTER and EXIT of outermost MPI calls, of
OpenMP barriers and of taskwaits, FORK, JOIN, begin and end of threads in teams, the ENTER of what acquires a lock,
ACQUIRE and RELEASE; where threads are created one by one ENTER and EXIT of the calls that create and join them,
THREAD_CREATE, BEGIN, END and WAIT; where tasks run the events that create, switch and complete them. None strictly
inside an outermost MPI call.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.mpi.waits import CONDITION
from tracecols.enhance.scan.region_rules import either, in_role, is_in, named
from tracecols.enhance.scan.scan import ForkSpans, fork_spans
from tracecols.enhance.scan.teams import IS_FORK, LATE, events_in_teams
from tracecols.kernels import replay as kernels
from tracecols.model.model import Model
from tracecols.replay.tasks import task_rows
from tracecols.schema import EventKind

BATCH = 1 << 20
"""Events per kernel call."""

BARRIERS = ("barrier", "implicit_barrier")
"""Roles of constructs in which threads wait for each other."""


class NodeClass(IntEnum):
    """What the weight of a node is: the time between the last thing it depends on and itself.

    THREADS is what takes to create and join threads one by one, and waiting for conditions, whose signals are not
    recorded.
    """

    COMPUTATION = 0
    POINT_TO_POINT = 1
    COLLECTIVE = 2
    START = 3
    OTHER_MPI = 4
    OPENMP = 5
    LOCK = 6
    OPAQUE = 7
    THREADS = 8


TRANSFER = (NodeClass.POINT_TO_POINT, NodeClass.COLLECTIVE, NodeClass.START, NodeClass.OTHER_MPI)
"""Classes of transfer and overhead in MPI: an ideal network has none of it."""

THREAD_MANAGEMENT = either(
    in_role(["thread_create", "thread_wait"]), named("pthread_(cancel|create|detach|exit|join)", "pthread")
)
"""Which regions create and join threads one by one: no computation, and kept as recorded beyond waiting."""

_COLLECTIVE_ROLES = ("barrier", "coll_one2all", "coll_all2one", "coll_all2all", "coll_other")
_ONE_SIDED = ("mpi_win_", "mpi_put", "mpi_get", "mpi_rput", "mpi_rget", "mpi_accumulate", "mpi_raccumulate", "mpi_fetch_and_op", "mpi_compare_and_swap", "mpi_file_")  # fmt: skip


def classes_of(regions: Regions) -> NDArray[np.int8]:
    """Return the class of the calls of each region; (n_regions,) int8, computation where it is no MPI call."""
    result = np.full(len(regions), NodeClass.COMPUTATION, np.int8)
    is_mpi = mpi_regions(regions)
    result[is_mpi] = NodeClass.OTHER_MPI
    role = regions.role
    result[is_mpi & (role == "point2point")] = NodeClass.POINT_TO_POINT
    result[is_mpi & np.isin(role, _COLLECTIVE_ROLES)] = NodeClass.COLLECTIVE
    lower = regions.lower
    waits = np.array(
        [name.startswith(("mpi_wait", "mpi_test")) and name != "mpi_test_cancelled" for name in lower], bool
    )
    result[is_mpi & waits] = NodeClass.POINT_TO_POINT
    # MPI_Get_count and the like ask for something; MPI_Get and MPI_Get_accumulate access a window
    opaque = [
        name.startswith(_ONE_SIDED) and not (name.startswith("mpi_get_") and name != "mpi_get_accumulate")
        for name in lower
    ]
    result[is_mpi & np.array(opaque, bool)] = NodeClass.OPAQUE
    result[regions.is_init | regions.is_finalize] = NodeClass.START
    return result


def mpi_regions(regions: Regions) -> NDArray[np.bool_]:
    """Say which regions are MPI calls; one that is called PARALLEL stands for all of a program."""
    return np.asarray((regions.paradigm == "mpi") & (regions.lower != "parallel"), np.bool_)


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a trace, location by location in the order of their events.

    Attributes
    ----------
    row : (n,) int64
        The event, ascending.
    location : (n,) int32
    time : (n,) int64
        Ticks; of late events those of the latest event before, so that they never decrease at a location.
    kind : (n,) int8
        `NodeClass` of the weight.
    is_first : (n,) bool
        First of its location.
    call_region : (n_calls,) int32
        Region of every outermost MPI call, in the order of their ENTERs.
    call_enter, call_exit : (n_calls,) int64
        Nodes where it begins and ends; a call that is open at the end of the recording ends with its location's last
        event.
    call_rows, call_stops : (n_calls,) int64
        Rows of these nodes.
    team_begins : (n_begins,) int64
        Node of each team begin (`Teams`), -1 for none.
    taskwaits : (n_taskwaits,) int64
        Nodes at which taskwaits end.
    """

    row: NDArray[np.int64]
    location: NDArray[np.int32]
    time: NDArray[np.int64]
    kind: NDArray[np.int8]
    is_first: NDArray[np.bool_]
    call_region: NDArray[np.int32]
    call_enter: NDArray[np.int64]
    call_exit: NDArray[np.int64]
    call_rows: NDArray[np.int64]
    call_stops: NDArray[np.int64]
    team_begins: NDArray[np.int64]
    taskwaits: NDArray[np.int64]

    def __len__(self) -> int:
        return self.row.size

    def at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes of some events; -1 where an event is none."""
        if not self.row.size:
            return np.full(rows.size, -1, np.int64)
        at = np.minimum(np.searchsorted(self.row, rows), self.row.size - 1)
        return np.where(self.row[at] == rows, at, -1)

    def calls_around(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the outermost MPI calls that events stand in, their ENTER and EXIT among them; -1 for none."""
        if not self.call_rows.size:
            return np.full(rows.size, -1, np.int64)
        at = np.searchsorted(self.call_rows, rows, "right") - 1
        return np.where((at >= 0) & (rows >= 0) & (rows <= self.call_stops[np.maximum(at, 0)]), at, -1)


def find_nodes(model: Model) -> Nodes:
    """Find the nodes of a trace: one pass over its events, location by location; O(events), 8 B and less per event at a
    time."""
    facts, teams = model.facts, model.team_instances
    store = facts.store
    is_mpi, of_region = mpi_regions(facts.regions), classes_of(facts.regions)
    is_management = THREAD_MANAGEMENT(facts.regions)
    given = _given_nodes(model)
    found: dict[str, list[NDArray[Any]]] = {
        name: [np.zeros(0, np.int64)]
        for name in ("row", "location", "time", "kind", "call_region", "call_row", "call_stop", "taskwait")
    }
    firsts: list[NDArray[np.bool_]] = [np.zeros(0, bool)]
    begin_rows = np.full(teams.location.size, -1, np.int64)
    spans = {
        i: fork_spans([model.scans[i]], teams.events, model.facts.order)
        for i in np.unique(teams.forker[teams.forker >= 0]).tolist()
    }
    for location in range(facts.n_locations):
        n = store.n_rows("events", location)
        if not n:
            continue
        first = int(facts.first_rows[location])
        e = _read(model, location, n, first, is_mpi, is_management)
        calls, managing = e.calls, e.managing

        own = teams.events[location]
        threads = own.row - first
        is_team_end = ~(IS_FORK[own.kind] | own.is_begin)
        begins = threads[own.is_begin]
        forker, mine = int(teams.forker[location]), teams.begins_of(location)
        if forker >= 0:
            n_begins = mine.stop - mine.start
            begins = _begins_with_the_team(spans[forker], n_begins, location == forker, e.time)
        begin_rows[mine] = np.where(begins >= 0, begins + first, -1)
        tasks = task_rows(model, location, n, first)
        # where several kinds name a row, the last counts
        kinds = [
            (np.array([0, n - 1]), NodeClass.COMPUTATION), (calls.enter, NodeClass.COMPUTATION),
            (managing.enter, NodeClass.COMPUTATION), (managing.stop, NodeClass.COMPUTATION),
            *((_of_location(r, first, n), NodeClass.COMPUTATION) for r in given[NodeClass.COMPUTATION]),
            (threads[IS_FORK[own.kind]], NodeClass.COMPUTATION),
            (tasks.row, NodeClass.COMPUTATION), (tasks.row[tasks.waits], NodeClass.OPENMP),
            (threads[is_team_end], NodeClass.OPENMP), (begins[begins >= 0], NodeClass.OPENMP),
            *((_of_location(r, first, n), what) for what in AFTER_WAITING for r in given[what]),
        ]  # fmt: skip
        rows = np.unique(np.concatenate([*(r for r, _ in kinds), calls.stop]))
        # nothing inside a call
        rows = rows[~(calls.hold(rows) & ~np.isin(rows, calls.stop))]
        kind = np.zeros(rows.size, np.int64)
        for some, what in kinds:
            at = np.minimum(np.searchsorted(rows, some), rows.size - 1)
            kind[at[rows[at] == some]] = what
        # a call that the recording ends with has no time of its own
        lasts = calls.stop > calls.enter
        kind[np.searchsorted(rows, calls.stop[lasts])] = of_region[calls.region[lasts]]
        kind[managing.hold(rows) & (kind == NodeClass.COMPUTATION)] = NodeClass.THREADS
        is_first = np.zeros(rows.size, bool)
        is_first[0] = True
        firsts.append(is_first)
        for name, values in (
            ("row", rows + first),
            ("location", np.full(rows.size, location, np.int64)),
            ("time", e.time[rows]),
            ("kind", kind),
            ("call_region", calls.region),
            ("call_row", calls.enter + first),
            ("call_stop", calls.stop + first),
            ("taskwait", tasks.taskwaits[np.isin(tasks.taskwaits, rows)] + first),
        ):
            found[name].append(values)
    row, call_rows, call_stops = (np.concatenate(found[name]) for name in ("row", "call_row", "call_stop"))
    at = np.minimum(np.searchsorted(row, begin_rows), max(row.size - 1, 0))
    is_node = row[at] == begin_rows if row.size else np.zeros(begin_rows.size, bool)
    return Nodes(
        row,
        np.concatenate(found["location"]).astype(np.int32),
        np.concatenate(found["time"]),
        np.concatenate(found["kind"]).astype(np.int8),
        np.concatenate(firsts),
        np.concatenate(found["call_region"]).astype(np.int32),
        np.searchsorted(row, call_rows),
        np.searchsorted(row, call_stops),
        call_rows,
        call_stops,
        np.where(is_node, at, -1),
        np.searchsorted(row, np.concatenate(found["taskwait"])),
    )


AFTER_WAITING = (NodeClass.OPENMP, NodeClass.THREADS, NodeClass.LOCK)
"""Classes of nodes before which a thread waits for others."""


def _given_nodes(model: Model) -> dict[NodeClass, list[NDArray[np.int64]]]:
    """Return the events that the tables name, by the class of the time before them: rows of the whole trace,
    ascending."""
    members, locks, created = model.construct_members, model.lock_acquisitions, model.created_threads
    in_barrier = np.isin(np.array(members.role, object), BARRIERS)
    waits_for_condition = is_in(model.facts, locks.call_path, CONDITION)
    # whatever comes before the wait for a thread, its end does not matter to
    joins = created.join[created.join >= 0]
    before_joins = np.setdiff1d(joins - 1, model.facts.first_rows - 1)
    rows = {
        NodeClass.COMPUTATION: [
            members.enter[in_barrier],
            locks.enter,
            locks.release,
            created.create,
            created.end,
            before_joins,
        ],
        NodeClass.OPENMP: [members.exit[in_barrier]],
        NodeClass.THREADS: [created.begin, joins, locks.acquire[waits_for_condition]],
        NodeClass.LOCK: [locks.acquire[~waits_for_condition]],
    }
    return {what: [np.sort(some) for some in parts] for what, parts in rows.items()}


def _of_location(rows: NDArray[np.int64], first: int, n: int) -> NDArray[np.int64]:
    """Return which of some ascending rows are a location's, counted from its first."""
    low, high = np.searchsorted(rows, [first, first + n])
    return rows[low:high] - first


@dataclass(frozen=True, eq=False)
class OutermostCalls:
    """The outermost calls of some regions at one location: rows of ENTER and EXIT, of the last event if it is open, and
    regions."""

    enter: NDArray[np.int64]
    stop: NDArray[np.int64]
    region: NDArray[np.int64]

    @classmethod
    def of(cls, mark: NDArray[np.uint8], region: NDArray[np.int32]) -> OutermostCalls:
        """Take them from the marks of `kernels.replay.mark_calls`."""
        enter, stop = np.flatnonzero(mark == 1), np.flatnonzero(mark == 2)
        # only the last call may be open
        stop = stop if stop.size == enter.size else np.append(stop, mark.size - 1)
        return cls(enter, stop, region[enter].astype(np.int64))

    def hold(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are inside one of them: after its ENTER, up to its EXIT."""
        if not self.enter.size:
            return np.zeros(rows.size, bool)
        around = np.searchsorted(self.enter, rows, "right") - 1
        return (around >= 0) & (rows > self.enter[around]) & (rows <= self.stop[around])


class _LocationCalls(NamedTuple):
    """Times of the events of one location, its outermost MPI calls, and its calls that create and join threads."""

    time: NDArray[np.int64]
    calls: OutermostCalls
    managing: OutermostCalls


def _read(
    model: Model, location: int, n: int, first: int, is_mpi: NDArray[np.bool_], is_management: NDArray[np.bool_]
) -> _LocationCalls:
    """Read the times of a location, and find its outermost calls of MPI and of the management of threads."""
    time, region = np.empty(n, np.int64), np.empty(n, np.int32)
    marks = [(which, np.zeros(n, np.uint8)) for which in (is_mpi, is_management)]
    depth = [0, 0]
    for start in range(0, n, BATCH):
        stop = min(start + BATCH, n)
        events = model.store.read("events", location, ["time", "kind", "region"], start, stop)
        time[start:stop], region[start:stop] = events["time"], events["region"]
        for i, (which, mark) in enumerate(marks):
            if which.any():
                depth[i] = kernels.mark_calls(
                    events["kind"],
                    events["region"],
                    which,
                    int(EventKind.ENTER),
                    int(EventKind.EXIT),
                    depth[i],
                    mark[start:stop],
                )
    calls, managing = (OutermostCalls.of(mark, region) for _, mark in marks)
    return _LocationCalls(model.order.times_of(first, time), calls, managing)


def _begins_with_the_team(
    spans: ForkSpans, n_forks: int, is_forker: bool, time: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Find the first event of a thread in every team that its process forks, where no events of their own say when it
    begins.

    Returns
    -------
    (n_forks,) int64
        Numbers of events; -1 where the thread has none between FORK and JOIN, and for the thread that forks.
    """
    if is_forker:
        return np.full(n_forks, -1, np.int64)
    join_time = np.where(spans.join_row >= 0, spans.join_time, LATE)
    return events_in_teams(spans.fork_time[:n_forks], join_time[:n_forks], time)[0]
