"""Nodes of a replay: the events of each location at which something is waited for, or waited for elsewhere.

Rows of the event table, in their order: the first and the last of a location, ENTER and EXIT of outermost MPI calls and of
OpenMP barriers, FORK, JOIN, begin and end of threads in teams, the ENTER of what acquires a lock, ACQUIRE and RELEASE; none
strictly inside an outermost MPI call.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.model import Model
from tracecols.enhance.regions import Regions
from tracecols.enhance.scan import ForkSpans, fork_spans
from tracecols.enhance.teams import IS_FORK, LATE, events_in_teams
from tracecols.kernels import replay as kernels
from tracecols.schema import EventKind

BATCH = 1 << 20
"""Events per kernel call."""

BARRIERS = ("barrier", "implicit_barrier")
"""Roles of constructs in which threads wait for each other."""


class NodeClass(IntEnum):
    """What the weight of a node is: the time between the last thing it depends on and itself."""

    COMPUTATION = 0
    POINT_TO_POINT = 1
    COLLECTIVE = 2
    START = 3
    OTHER_MPI = 4
    OPENMP = 5
    LOCK = 6
    OPAQUE = 7


TRANSFER = (NodeClass.POINT_TO_POINT, NodeClass.COLLECTIVE, NodeClass.START, NodeClass.OTHER_MPI)
"""Classes of transfer and overhead in MPI: an ideal network has none of it."""

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
        Nodes where it begins and ends; a call that is open at the end of the recording ends with its location's last event.
    call_rows, call_stops : (n_calls,) int64
        Rows of these nodes.
    team_begins : (n_begins,) int64
        Node of each team begin (`Teams`), -1 for none.
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
    """Find the nodes of a trace: one pass over its events, location by location; O(events), 8 B and less per event at a time."""
    facts, teams = model.facts, model.team_instances
    store, regions = facts.store, facts.regions
    is_mpi, of_region = mpi_regions(regions), classes_of(regions)
    members, locks = model.construct_members, model.lock_acquisitions
    in_barrier = np.isin(np.array(members.role, object), BARRIERS)
    barrier_enter, barrier_exit = np.sort(members.enter[in_barrier]), np.sort(members.exit[in_barrier])
    acquire, release, lock_enter = (np.sort(getattr(locks, name)) for name in ("acquire", "release", "enter"))
    found: dict[str, list[NDArray[np.int64]]] = {
        name: [np.zeros(0, np.int64)] for name in ("row", "location", "time", "kind")
    }
    calls: dict[str, list[NDArray[np.int64]]] = {name: [np.zeros(0, np.int64)] for name in ("region", "row", "stop")}
    firsts: list[NDArray[np.bool_]] = [np.zeros(0, bool)]
    begin_rows = np.full(teams.location.size, -1, np.int64)
    spans = {
        i: fork_spans([model.scans[i]], model.facts.order) for i in np.unique(teams.forker[teams.forker >= 0]).tolist()
    }
    for location in range(facts.n_locations):
        n = store.n_rows("events", location)
        if not n:
            continue
        first = int(facts.first_rows[location])
        time, mark, region = _read(model, location, n, first, is_mpi)
        enter, leave = np.flatnonzero(mark == 1), np.flatnonzero(mark == 2)
        call_region = region[enter].astype(np.int64)
        # only the last call may be open
        stop = leave if leave.size == enter.size else np.append(leave, n - 1)

        def between(rows: NDArray[np.int64], first: int = first, n: int = n) -> NDArray[np.int64]:
            low, high = np.searchsorted(rows, [first, first + n])
            return rows[low:high] - first

        own = teams.events[location]
        threads = own.row - first
        is_team_end = ~(IS_FORK[own.kind] | own.is_begin)
        begins = threads[own.is_begin]
        forker, mine = int(teams.forker[location]), teams.begins_of(location)
        if forker >= 0:
            n_begins = mine.stop - mine.start
            begins = _begins_with_the_team(spans[forker], n_begins, location == forker, time)
        begin_rows[mine] = np.where(begins >= 0, begins + first, -1)
        kinds = [
            (np.array([0, n - 1]), NodeClass.COMPUTATION), (enter, NodeClass.COMPUTATION),
            (between(barrier_enter), NodeClass.COMPUTATION), (between(lock_enter), NodeClass.COMPUTATION),
            (between(release), NodeClass.COMPUTATION), (threads[IS_FORK[own.kind]], NodeClass.COMPUTATION),
            (threads[is_team_end], NodeClass.OPENMP), (begins[begins >= 0], NodeClass.OPENMP), (between(barrier_exit), NodeClass.OPENMP),
            (between(acquire), NodeClass.LOCK),
        ]  # fmt: skip
        rows = np.unique(np.concatenate([*(r for r, _ in kinds), stop]))
        # nothing inside a call
        around = np.searchsorted(enter, rows, "right") - 1
        inside = (
            (around >= 0) & (rows > enter[around]) & (rows < stop[around]) if enter.size else np.zeros(rows.size, bool)
        )
        rows = rows[~inside]
        kind = np.zeros(rows.size, np.int64)
        for some, what in kinds:
            if what != NodeClass.COMPUTATION:
                at = np.minimum(np.searchsorted(rows, some), rows.size - 1)
                kind[at[rows[at] == some]] = what
        # a call that the recording ends with has no time of its own
        lasts = stop > enter
        kind[np.searchsorted(rows, stop[lasts])] = of_region[call_region[lasts]]
        is_first = np.zeros(rows.size, bool)
        is_first[0] = True
        firsts.append(is_first)
        for name, values in (
            ("row", rows + first),
            ("location", np.full(rows.size, location, np.int64)),
            ("time", time[rows]),
            ("kind", kind),
        ):
            found[name].append(values)
        for name, values in (("region", call_region), ("row", enter + first), ("stop", stop + first)):
            calls[name].append(values)
    row, call_rows, call_stops = (np.concatenate(a) for a in (found["row"], calls["row"], calls["stop"]))
    at = np.minimum(np.searchsorted(row, begin_rows), max(row.size - 1, 0))
    is_node = row[at] == begin_rows if row.size else np.zeros(begin_rows.size, bool)
    return Nodes(
        row, np.concatenate(found["location"]).astype(np.int32), np.concatenate(found["time"]),
        np.concatenate(found["kind"]).astype(np.int8), np.concatenate(firsts), np.concatenate(calls["region"]).astype(np.int32),
        np.searchsorted(row, call_rows), np.searchsorted(row, call_stops), call_rows, call_stops, np.where(is_node, at, -1),
    )  # fmt: skip


def _read(
    model: Model, location: int, n: int, first: int, is_mpi: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int32]]:
    """Read the times and regions of a location, and mark its outermost MPI calls."""
    time, region, mark = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.uint8)
    depth = 0
    for start in range(0, n, BATCH):
        stop = min(start + BATCH, n)
        events = model.store.read("events", location, ["time", "kind", "region"], start, stop)
        time[start:stop], region[start:stop] = events["time"], events["region"]
        depth = kernels.mark_calls(
            events["kind"], events["region"], is_mpi, int(EventKind.ENTER), int(EventKind.EXIT), depth, mark[start:stop]
        )
    return model.order.times_of(first, time), mark, region


def _begins_with_the_team(
    spans: ForkSpans, n_forks: int, is_forker: bool, time: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Find the first event of a thread in every team that its process forks, where no events of their own say when it begins.

    Returns
    -------
    (n_forks,) int64
        Numbers of events; -1 where the thread has none between FORK and JOIN, and for the thread that forks.
    """
    if is_forker:
        return np.full(n_forks, -1, np.int64)
    join_time = np.where(spans.join_row >= 0, spans.join_time, LATE)
    return events_in_teams(spans.fork_time[:n_forks], join_time[:n_forks], time)[0]
