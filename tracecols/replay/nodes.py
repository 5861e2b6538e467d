"""Nodes of a replay: events at which a location waits for another location, or makes one wait.

Nodes are rows of the event table, in their order: the first and the last of a location, ENTER and EXIT of outermost MPI
calls, of OpenMP barriers and of taskwaits, EXIT of parallel regions that do not end with a barrier, FORK, JOIN, begin
and end of threads in teams, the ENTER of calls that acquire a lock, ACQUIRE and RELEASE; ENTER of ordered constructs,
ENTER and EXIT of the sections in them; if threads are created one by one, ENTER and EXIT of the calls that create and
join them, THREAD_CREATE, BEGIN, END and WAIT; if tasks run, the events that create, switch and complete them. None is
strictly inside an outermost MPI call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import bounded, lookup, ranges
from tracecols.enhance.definitions.regions import CONSTRUCTS, IS_BARRIER, Regions
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.location_scan import forks_of
from tracecols.enhance.scan.region_rules import CONDITION, SIGNAL, either, in_role, is_in, named
from tracecols.enhance.scan.teams import IS_FORK, LATE, events_in_teams
from tracecols.kernels import arrays
from tracecols.kernels import replay as kernels
from tracecols.kernels.maxplus import BEGINS, CHAINED, ENDS
from tracecols.kernels.ranks import Ranks, count_rows, no_ranks, ranks_of
from tracecols.kernels.replay import FoundNodes
from tracecols.model.model import Model
from tracecols.once import once
from tracecols.replay.tasks import TaskRows, task_rows
from tracecols.schema import EventKind
from tracecols.vectors import Ints, Mask, offsets_of

BATCH = 1 << 20
"""Events per kernel call; locations with fewer events are processed together."""


class NodeClass(IntEnum):
    """Class of the weight of a node: the time between its last dependency and itself.

    THREADS is the time to create and join threads one by one, and to return from waiting for a condition; DEVICE the
    time of calls that wait for devices beyond waiting. Both are kept as they were recorded.
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
    DEVICE = 9


PROBES = ("mpi_probe", "mpi_mprobe", "mpi_iprobe", "mpi_improbe")
"""Calls that look for a message which a later call receives."""

TRANSFER = (NodeClass.POINT_TO_POINT, NodeClass.COLLECTIVE, NodeClass.START, NodeClass.OTHER_MPI)
"""Classes of transfer and overhead in MPI: an ideal network has none of it."""

THREAD_MANAGEMENT = either(
    in_role(["thread_create", "thread_wait"]), named("pthread_(cancel|create|detach|exit|join)", "pthread")
)
"""Rule for the regions that create and join threads one by one: no computation, and kept as recorded beyond waiting."""

_COLLECTIVE_ROLES = ("barrier", "coll_one2all", "coll_all2one", "coll_all2all", "coll_other")
_ONE_SIDED = (
    "mpi_win_", "mpi_put", "mpi_get", "mpi_rput", "mpi_rget", "mpi_accumulate", "mpi_raccumulate", "mpi_fetch_and_op",
    "mpi_compare_and_swap", "mpi_file_",
)  # fmt: skip


def classes_of(regions: Regions) -> NDArray[np.int8]:
    """Return the class of the calls of each region; (n_regions,) int8, computation if it is no MPI call."""
    result = np.full(len(regions), NodeClass.COMPUTATION, np.int8)
    is_mpi = mpi_regions(regions)
    result[is_mpi] = NodeClass.OTHER_MPI
    role = regions.role
    result[is_mpi & (role == "point2point")] = NodeClass.POINT_TO_POINT
    result[is_mpi & np.isin(role, _COLLECTIVE_ROLES)] = NodeClass.COLLECTIVE
    lower = regions.lower
    waits = np.array(
        [name.startswith(("mpi_wait", "mpi_test", *PROBES)) and name != "mpi_test_cancelled" for name in lower], bool
    )
    result[is_mpi & waits] = NodeClass.POINT_TO_POINT
    # MPI_Get_count and the like are queries; MPI_Get and MPI_Get_accumulate access a window
    opaque = [
        name.startswith(_ONE_SIDED) and not (name.startswith("mpi_get_") and name != "mpi_get_accumulate")
        for name in lower
    ]
    result[is_mpi & np.array(opaque, bool)] = NodeClass.OPAQUE
    result[regions.is_init | regions.is_finalize] = NodeClass.START
    return result


def mpi_regions(regions: Regions) -> Mask:
    """Return a mask of the MPI calls; a region named PARALLEL represents the whole program and is excluded."""
    return (regions.paradigm == "mpi") & (regions.lower != "parallel")


_NOT_WAITING = (
    "mpi_sendrecv", "mpi_bsend", "mpi_rsend", "mpi_ibsend", "mpi_irsend", "mpi_test", "mpi_iprobe", "mpi_improbe",
)  # fmt: skip
"""Calls that complete sends without waiting for the receiver, or whose waiting has other reasons; and probes that do
not wait."""

MAY_WAIT = (
    "mpi_comm_", "mpi_cart_create", "mpi_cart_sub", "mpi_graph_create", "mpi_dist_graph_create", "mpi_intercomm_",
    "mpi_ibarrier", "mpi_ibcast", "mpi_ireduce", "mpi_iallreduce", "mpi_iallgather", "mpi_ialltoall", "mpi_igather",
    "mpi_iscatter", "mpi_iscan", "mpi_iexscan", "mpi_neighbor_", "mpi_ineighbor_",
)  # fmt: skip
_NEVER_WAIT = (
    "mpi_comm_rank", "mpi_comm_size", "mpi_comm_group", "mpi_comm_get", "mpi_comm_set", "mpi_comm_compare",
    "mpi_comm_test", "mpi_comm_remote", "mpi_comm_delete", "mpi_comm_call",
)  # fmt: skip


def roles_of(regions: Regions) -> NDArray[np.uint8]:
    """Return the role of the end of a call of each region; (n_regions,) uint8: sums of `IS_IMPATIENT`, ... of
    `kernels.replay`."""
    lower = regions.lower
    may_wait = [name.startswith((*MAY_WAIT, *PROBES)) and not name.startswith(_NEVER_WAIT) for name in lower]
    result = np.zeros(len(regions), np.uint8)
    for role, which in (
        (kernels.IS_IMPATIENT, [name.startswith(_NOT_WAITING) for name in lower]),
        (kernels.IS_INIT, regions.is_init),
        (kernels.IS_FINALIZE, regions.is_finalize),
        (kernels.MAY_WAIT, may_wait),
        (kernels.OF_NEIGHBOURS, [name.startswith("mpi_neighbor_") for name in lower]),
    ):
        result[np.asarray(which, bool)] |= role
    return result


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of some locations, one location after the other, in the order of their events.

    A call is the node at which it ends; one that is open at the end of the recording ends with its location's last
    event.
    """

    first_row: int
    """First row of the range of events that `ranks` covers."""
    ranks: Ranks
    """The events that are nodes."""
    time: Ints
    """(n,): ticks; late events have the time of the latest event before, so that times never decrease at a location."""
    kind: NDArray[np.int8]
    """(n,): `NodeClass` of the weight."""
    role: NDArray[np.uint8]
    """(n,): role of the node in an outermost MPI call (`kernels.replay.IS_CALL`, ...)."""
    mark: NDArray[np.uint8]
    """(n,): flags of the nodes between which the runtime extends, and at which threads and tasks are begun by others
    (`kernels.maxplus.BEGINS`, ...)."""
    location_start: Ints
    """(n_locations + 1,): first node of every location."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __len__(self) -> int:
        return self.time.size

    @once
    def is_first(self) -> Mask:
        """Whether each node is the first of its location; (n,) bool."""
        result = np.zeros(len(self), bool)
        starts = self.location_start[:-1]
        result[starts[starts < self.location_start[1:]]] = True
        return result

    @property
    def begins_chain(self) -> Mask:
        """Whether each node depends on no node before it at its location except by an edge; (n,) bool."""
        chained = self.mark & CHAINED > 0
        return self.is_first | chained if chained.any() else self.is_first

    @once
    def row(self) -> Ints:
        """The events; (n,) int64, ascending."""
        return self.rows_between(self.first_row, self.first_row + 64 * self.ranks.bits.size)

    @once
    def location(self) -> NDArray[np.int32]:
        """The locations; (n,) int32."""
        counts = np.diff(self.location_start)
        return np.repeat(np.arange(counts.size, dtype=np.int32), counts)

    def rows_between(self, start: int, stop: int) -> Ints:
        """Return the rows of the nodes with start <= row < stop."""
        low, high = (start - self.first_row) >> 6, (stop - self.first_row + 63) >> 6
        bits = np.unpackbits(self.ranks.bits[low:high].view(np.uint8), bitorder="little")
        rows = np.flatnonzero(bits) + (self.first_row + 64 * low)
        return rows[slice(*np.searchsorted(rows, [start, stop]))]

    def at(self, rows: Ints) -> Ints:
        """Return the nodes of some events; -1 where an event is none."""
        result = np.empty(rows.size, np.int64)
        kernels.nodes_at(np.asarray(rows, np.int64), self.first_row, self.ranks, result)
        return result

    def calls_around(self, rows: Ints) -> Ints:
        """Return the outermost MPI calls that events are in, including their ENTER and EXIT; -1 for none."""
        result = np.empty(rows.size, np.int64)
        kernels.calls_around(np.asarray(rows, np.int64), self.first_row, self.ranks, self.role, result)
        return result

    def enter_of(self, calls: Ints) -> Ints:
        """Return the nodes at which calls begin; -1 for no call."""
        if not len(self):
            return calls
        return np.where(calls >= 0, calls - 1 + (self.role[calls] & kernels.IS_OPEN > 0), -1)

    def before(self, calls: Ints) -> Ints:
        """Return the nodes right before calls at their locations; -1 for none, and for no call."""
        enter = self.enter_of(calls)
        return np.where((enter < 0) | pick(self.is_first, enter, True), -1, enter - 1)

    def is_query(self, nodes: Ints) -> Mask:
        """Select the ends of calls of MPI that neither communicate nor wait, such as MPI_Get_count; -1 is none."""
        role = pick(self.role, nodes, 0)
        return (role == kernels.IS_CALL) & (pick(self.kind, nodes) == NodeClass.OTHER_MPI)

    def is_probe(self, calls: Ints) -> Mask:
        """Select the calls that look for a message which a later call receives; -1 is none."""
        looks = (self.role[calls] & kernels.MAY_WAIT > 0) & (self.kind[calls] == NodeClass.POINT_TO_POINT)
        return (calls >= 0) & looks if len(self) else np.zeros(calls.size, bool)

    def with_role(self, role: int) -> Ints:
        """Return the calls with a role."""
        return np.flatnonzero(self.role & role)

    def last_of(self, location: NDArray[np.int32]) -> Ints:
        """Return the last node of locations."""
        return self.location_start[location + 1] - 1

    def location_of(self, nodes: Ints) -> Ints:
        """Return the locations of some nodes."""
        return np.searchsorted(self.location_start, nodes, "right") - 1


class NodesOfSlice(NamedTuple):
    """The nodes of a slice of a trace, and those needed to find its edges."""

    nodes: Nodes
    team_begins: Ints
    """(n_begins,): node of each team begin (`Teams`), -1 for none."""
    taskwaits: Ints
    """(n_taskwaits,): nodes at which taskwaits end."""


def find_nodes(model: Model) -> NodesOfSlice:
    """Find the nodes of a slice of a trace: one more pass over its events, location by location."""
    facts, teams = model.facts, model.team_instances
    is_mpi, is_management = mpi_regions(facts.regions), THREAD_MANAGEMENT(facts.regions)
    what = is_mpi * kernels.IS_MPI + is_management * kernels.IS_MANAGEMENT + SIGNAL(facts.regions) * kernels.IS_SIGNAL
    of_region = np.stack([what.astype(np.int8), classes_of(facts.regions), roles_of(facts.regions).view(np.int8)])
    members = np.sort(model.members)
    members = members[model.store.n_events[members] > 0]
    n_events, given = model.store.n_events[members], _given_nodes(model)
    begin_rows = np.full(teams.location.size, -1, np.int64)
    # memory that is not written takes no pages
    found, state = arrays.empty(FoundNodes, int(n_events.sum())), np.zeros(5, np.int64)
    taskwaits, sizes = [np.zeros(0, np.int64)], np.zeros(members.size, np.int64)
    for some in bounded(n_events, BATCH):
        group = _Group(members[some], facts.first_rows[members[some]], offsets_of(n_events[some]))
        _find_team_begins(model, group.locations, begin_rows)
        tasks = task_rows(model, group.locations)
        marks = _marks_of(model, group, begin_rows, tasks, given)
        _find_in(model, group, marks, of_region, state, found, sizes[some])
        taskwaits.append(tasks.taskwaits)
    of_location = np.zeros(facts.n_locations, np.int64)
    of_location[members] = sizes
    found = arrays.first(found, int(state[4]))
    return _together(model, members, of_location, found, begin_rows, np.concatenate(taskwaits))


class _Group(NamedTuple):
    """Locations whose nodes are found together: their numbers, ascending, the rows of their first events, and the
    bounds of the events of each among those of all of them."""

    locations: Ints
    first: Ints
    bounds: Ints

    def places(self, rows: Ints) -> Ints:
        """Return the places of some rows of the trace, ascending, among the events; rows of other locations are left
        out."""
        stop = self.first[-1] + self.bounds[-1] - self.bounds[-2]
        rows = rows[slice(*np.searchsorted(rows, [self.first[0], stop]))]
        at = np.searchsorted(self.first, rows, "right") - 1
        place = rows - self.first[at] + self.bounds[at]
        return place[place < self.bounds[at + 1]]


def _together(
    model: Model, members: Ints, sizes: Ints, found: FoundNodes, begin_rows: Ints, taskwaits: Ints
) -> NodesOfSlice:
    """Return the nodes of some locations, which follow each other."""
    facts = model.facts
    row = np.repeat(facts.first_rows[members], sizes[members]) + found.event
    # whole words, so that they can be put together
    low = int(facts.first_rows[members[0]]) & ~63 if members.size else 0
    high = int(facts.first_rows[members[-1]] + model.store.n_events[members[-1]]) if members.size else 0
    start = offsets_of(sizes)
    of_nodes = found.time, found.kind, found.role, np.zeros(row.size, np.uint8)
    nodes = Nodes(low, ranks_of(row, low, high), *of_nodes, start)
    waits = nodes.at(taskwaits)
    return NodesOfSlice(nodes, nodes.at(begin_rows), waits[waits >= 0])


def join_nodes(slices: list[Nodes], facts: Facts, idle: Ints) -> Nodes:
    """Join the nodes of all slices, which have whole locations; `slices` is emptied. `idle` are locations that enter no
    region."""
    sizes = np.sum([np.zeros(facts.n_locations, np.int64), *(np.diff(of.location_start) for of in slices)], axis=0)
    start, last = offsets_of(sizes), facts.n_locations - 1
    n_events = int(facts.first_rows[last] + facts.store.n_rows("events", last)) if facts.n_locations else 0
    time, kind, role, mark = (np.empty(start[-1], of) for of in (np.int64, np.int8, np.uint8, np.uint8))
    nodes = Nodes(0, no_ranks(n_events), time, kind, role, mark, start)
    while slices:
        of = slices.pop()
        here_words = slice(of.first_row >> 6, (of.first_row >> 6) + of.ranks.bits.size)
        nodes.ranks.bits[here_words] |= of.ranks.bits
        for there, here in runs_of_locations(of.location_start, start):
            for name in ("time", "kind", "role", "mark"):
                getattr(nodes, name)[here] = getattr(of, name)[there]
    count_rows(nodes.ranks)
    begins, ends = (nodes.with_role(role) for role in (kernels.IS_INIT, kernels.IS_FINALIZE))
    everything = slice(None)
    nodes.mark[begins if begins.size else everything] |= BEGINS
    # a recording may end before MPI_Finalize
    nodes.mark[nodes.enter_of(ends) if begins.size and ends.size else everything] |= ENDS
    # threads that enter nothing only wait for the end of the run
    nodes.mark[ranges(start[idle], sizes[idle])] &= ~np.uint8(ENDS)
    return nodes


def runs_of_locations(starts: Ints, of_all: Ints) -> Iterator[tuple[slice, slice]]:
    """Yield the nodes of the locations of a slice, consecutive locations together: by their numbers there and in the
    whole trace."""
    filled = np.flatnonzero(np.diff(starts))
    shift = (of_all - starts)[filled]
    cuts = np.flatnonzero(np.diff(shift)) + 1
    for run in np.split(np.arange(filled.size), cuts) if filled.size else ():
        here = slice(int(starts[filled[run[0]]]), int(starts[filled[run[-1]] + 1]))
        by = int(shift[run[0]])
        yield here, slice(here.start + by, here.stop + by)


AFTER_WAITING = (NodeClass.OPENMP, NodeClass.THREADS, NodeClass.LOCK, NodeClass.DEVICE)
"""Classes of nodes before which a thread waits for others."""


def _given_nodes(model: Model) -> dict[NodeClass, list[Ints]]:
    """Return the rows of the events that the tables name, by the class of the time before them; of the whole trace,
    ascending."""
    members, locks, created = model.construct_members, model.lock_acquisitions, model.created_threads
    syncs, ordered = model.device_syncs, model.ordered_sections
    in_barrier = IS_BARRIER[members.role_number]
    parallel_exits = members.exit[members.role_number == CONSTRUCTS.index("parallel")]
    waits_for_condition = is_in(model.facts, locks.call_path, CONDITION)
    facts = model.facts
    has_worlds = (facts.communicators.world[facts.process] >= 0) & (model.store.n_events > 0)
    first_rows = facts.first_rows[has_worlds & (facts.locations.master == np.arange(facts.n_locations))]
    # the event before the wait for a thread does not depend on the end of the thread
    joins = created.join[created.join >= 0]
    before_joins = joins[lookup(facts.first_rows, joins) < 0] - 1
    rows = {
        NodeClass.COMPUTATION: [
            members.enter[in_barrier],
            # a thread that has just left a barrier has not computed since
            parallel_exits[~np.isin(parallel_exits - 1, members.exit[in_barrier])],
            locks.enter,
            locks.release,
            ordered.construct[ordered.construct >= 0],
            ordered.exit[ordered.exit >= 0],
            created.create,
            created.end,
            before_joins,
            model.kernels.launch_enter,
            model.copies.copy_enter,
            syncs.enter,
        ],
        NodeClass.OPENMP: [members.exit[in_barrier]],
        NodeClass.THREADS: [created.begin, first_rows, joins, locks.acquire[waits_for_condition]],
        NodeClass.LOCK: [locks.acquire[~waits_for_condition], ordered.enter[ordered.construct >= 0]],
        NodeClass.DEVICE: [syncs.exit[syncs.exit >= 0]],
    }
    return {what: [np.sort(some, kind="stable") for some in parts] for what, parts in rows.items()}


def _find_team_begins(model: Model, locations: Ints, begin_rows: Ints) -> None:
    """Write the rows at which some locations begin in teams to `begin_rows`, by number of the begin (`Teams`)."""
    facts, teams = model.facts, model.team_instances
    is_forked = teams.forker[locations] >= 0
    saying = locations[~is_forked]
    own, _ = teams.events.of(saying)
    begin_rows[ranges(teams.begin_start[saying], np.diff(teams.begin_start)[saying])] = own.row[own.is_begin]
    for location in locations[is_forked].tolist():
        mine, first = teams.begins_of(location), int(facts.first_rows[location])
        if teams.forker[location] != location:
            # without TEAM_BEGIN events: the first event in each team, between FORK and JOIN
            time = facts.order.times_of(first, model.store.read("events", location, ["time"])["time"])
            spans = forks_of(model.scans[int(teams.forker[location])], teams.events, facts.order)
            n_forks, join_time = mine.stop - mine.start, np.where(spans.join_row >= 0, spans.join_time, LATE)
            events, _ = events_in_teams(spans.fork_time[:n_forks], join_time[:n_forks], time)
            begin_rows[mine] = np.where(events >= 0, events + first, -1)


def _marks_of(
    model: Model, group: _Group, begin_rows: Ints, tasks: TaskRows, given: dict[NodeClass, list[Ints]]
) -> NDArray[np.int8]:
    """Mark the events of some locations that are nodes in any case with the class of the time before them, others with
    -1; if several classes name an event, the last one counts."""
    teams, locations = model.team_instances, group.locations
    # all events of a stream
    on_stream = np.where(model.locations.is_device[locations], np.int8(NodeClass.COMPUTATION), np.int8(-1))
    marks = np.repeat(on_stream, np.diff(group.bounds))
    threads, _ = teams.events.of(locations)
    is_fork = IS_FORK[threads.kind]
    begins = begin_rows[ranges(teams.begin_start[locations], np.diff(teams.begin_start)[locations])]
    for what, rows in (
        *((NodeClass.COMPUTATION, rows) for rows in given[NodeClass.COMPUTATION]),
        (NodeClass.COMPUTATION, threads.row[is_fork]),
        (NodeClass.COMPUTATION, tasks.row),
        (NodeClass.OPENMP, tasks.row[tasks.waits]),
        (NodeClass.OPENMP, threads.row[~(is_fork | threads.is_begin)]),
        (NodeClass.OPENMP, begins[begins >= 0]),
        *((after, rows) for after in AFTER_WAITING for rows in given[after]),
    ):
        marks[group.places(rows)] = what
    return marks


def _find_in(
    model: Model,
    group: _Group,
    marks: NDArray[np.int8],
    of_region: NDArray[np.int8],
    state: Ints,
    found: FoundNodes,
    sizes: Ints,
) -> None:
    """Write the nodes of some locations to `found`, and the number of nodes of each to `sizes`."""
    store, n, columns = model.store, marks.size, ["time", "kind", "region"]
    state[:4] = 0
    for start in range(0, n, BATCH):
        here = slice(start, min(start + BATCH, n))
        if group.locations.size > 1:
            events, bounds = store.read_together("events", group.locations, columns)[0], group.bounds
        else:
            events = store.read("events", int(group.locations[0]), columns, here.start, here.stop)
            bounds = np.array([0, here.stop - here.start])
        time = model.order.times_along(group.first + start, bounds, events["time"])
        kinds = int(EventKind.ENTER), int(EventKind.EXIT)
        of_events = bounds, time, events["kind"], events["region"], marks[here]
        kernels.find_nodes(*of_events, of_region, kinds, state, here.stop == n, found, sizes)
