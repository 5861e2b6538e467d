"""The graph of a replay: which node waits for which, and the sweep that says when each happens.

    T(v) = max(T(node before), T(u) + lag(u, v) for all edges u -> v) + weight(v)

Weights and lags are such that the sweep gives the recorded times again, to the tick. A lag is negative where clocks
disagree, so that a message arrived before it was sent. Where all wait for all, hubs between them keep the number of
edges linear; they follow the nodes by number and have no weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.edges import EdgeCollector, Edges
from tracecols.enhance.dataflow.grouping import Segments
from tracecols.enhance.mpi.waits import CONDITION, HANDLES, N_TO_N, N_TO_ONE, ONE_TO_N, SCAN
from tracecols.enhance.scan.region_rules import is_in
from tracecols.enhance.threads.locks import lock_order
from tracecols.errors import AnalysisError
from tracecols.kernels import replay as kernels
from tracecols.model.model import Model
from tracecols.replay.nodes import BARRIERS, NodeClass, Nodes, find_nodes
from tracecols.replay.task_edges import add_task_edges, with_tasks
from tracecols.schema.enums import COLLECTIVE_OPS

Rows = NDArray[np.int64]

PAIRWISE = ("alltoallv", "alltoallw")

_NOT_WAITING = ("mpi_sendrecv", "mpi_bsend", "mpi_rsend", "mpi_ibsend", "mpi_irsend", "mpi_test")
"""Calls that complete sends without waiting for the receiver, or whose waiting has other reasons."""

UNKNOWN_PARTNERS = "calls that may wait for others, which the recording does not tell (MPI_Probe, communicators, non-blocking collectives)"
KEPT_AS_RECORDED = "calls of one-sided communication and I/O that are kept as they were recorded"
BEGIN_AS_RECORDED = "threads whose creation is not recorded, kept at their recorded begin"
ENDLESS = "joins of threads whose end is not recorded, kept as long as they were"
CONDITIONS = "waits for condition variables whose signals are not recorded, kept as long as they were beyond waiting for the mutex"
DEVICE_CALLS = "calls that manage devices or wait for them, taken for computation"
SHMEM_CALLS = "calls of SHMEM, taken for computation"
DROPPED = "inferred waits of senders for receivers, or for locks, that contradict the order of other events, left out"
UNPLACED = "messages and participants outside of MPI calls, left out"


@dataclass(eq=False)
class Graph:
    """What waits for what in a trace.

    Attributes
    ----------
    nodes : Nodes
    edges : Edges
    n_hubs : int
    time : (n_all,) int64
        Recorded times of nodes and hubs, ticks.
    lag : (n_edges,) int64
        0, or negative where clocks disagree.
    weight : (n_all,) int64
        Ticks between the last dependency of a node and itself, never negative.
    counts : dict of str to int
        What the replay does not know, by description.
    """

    nodes: Nodes
    edges: Edges
    n_hubs: int
    time: Rows
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        e = self.edges
        self.lag = np.minimum(0, self.time[e.head] - self.time[e.tail])
        base = np.empty(self.time.size, np.int64)
        kernels.find_bases(self.nodes.is_first, e.tail, e.head, self.lag, self.time, base)
        self.weight = self.time - base
        self._edge_start, self._order = kernels.index_edges(e.tail, self.time.size)
        self._head = e.head[self._order]

    def sweep(self, weight: Rows | None = None, lag: Rows | None = None, start: Rows | None = None) -> Rows:
        """Return when every node happens; (n_nodes,) int64 ticks.

        Parameters
        ----------
        weight : (n_all,) int64, optional
        lag : (n_edges,) int64, optional
        start : (n_all,) int64, optional
            Times of nodes that depend on nothing. All are those recorded by default.
        """
        time, waiting = self._swept(weight, lag, start)
        assert (waiting == -1).all()
        return time[: len(self.nodes)]

    def _swept(
        self, weight: Rows | None = None, lag: Rows | None = None, start: Rows | None = None
    ) -> tuple[Rows, Rows]:
        n = self.time.size
        waiting, time = np.zeros(n, np.int64), np.full(n, kernels.NEVER, np.int64)
        kernels.count_dependencies(self.nodes.is_first, self._head, waiting)
        kernels.sweep_nodes(
            self.nodes.is_first,
            self.weight if weight is None else weight,
            self.time if start is None else start,
            self._edge_start,
            self._head,
            (self.lag if lag is None else lag)[self._order],
            waiting,
            time,
            np.empty(n, np.int64),
        )
        return time, waiting

    def without_contradictions(self) -> Graph:
        """Return the graph without the inferred edges that make nodes wait for themselves, which only clocks that
        disagree do.

        Raises
        ------
        AnalysisError
            If nodes wait for themselves without them.
        """
        graph, n_dropped = self, 0
        while True:
            _, waiting = graph._swept()
            stuck = waiting >= 0
            if not stuck.any():
                break
            n, e = len(graph.nodes), graph.edges
            drop = contradictions(graph.nodes.is_first, e.head, e.is_inferred, stuck)
            if not drop.any():
                v = int(np.flatnonzero(stuck)[0])
                where = (
                    f"row {graph.nodes.row[v]} at location {graph.nodes.location[v]}"
                    if v < n
                    else "a collective operation"
                )
                raise AnalysisError(
                    f"the trace cannot be replayed: {int(stuck.sum())} events wait for themselves, the first is {where}\n"
                    "  messages, locks or collective operations contradict each other, as tracecols check tells;\n"
                    "  efficiencies of this trace can be had with the approximation of the ideal network"
                )
            n_dropped += int(drop.sum())
            graph = Graph(graph.nodes, e.where(~drop), graph.n_hubs, graph.time, graph.counts)
        if n_dropped:
            graph.counts[DROPPED] = n_dropped
        return graph


def contradictions(
    is_first: NDArray[np.bool_], head: Rows, is_inferred: NDArray[np.bool_], stuck: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Find the inferred edges to leave out so that nodes may go on: into those that the node before does not keep from
    it.

    Parameters
    ----------
    is_first : (n_nodes,) bool
        First node of its location.
    head : (n_edges,) int64
    is_inferred : (n_edges,) bool
    stuck : (n_all,) bool
        Nodes and hubs that wait for themselves.
    """
    n = is_first.size
    before_done = np.ones(stuck.size, bool)
    before_done[1:n] = is_first[1:] | ~stuck[: n - 1]
    result: NDArray[np.bool_] = is_inferred & stuck[head] & before_done[head]
    return result


def build_graph(model: Model, nodes: Nodes | None = None) -> Graph:
    """Find the nodes, unless they are given, and edges of a trace; some 80 B per node stay in memory, whatever the
    trace's partitions."""
    nodes = find_nodes(model) if nodes is None else nodes
    found = EdgeCollector(len(nodes))
    counts = {UNPLACED: 0}
    counts[UNPLACED] += _messages(model, nodes, found)
    counts[UNPLACED] += _collectives(model, nodes, found)
    starts = _nonblocking_collectives(model, nodes, found)
    _start_and_end(model, nodes, found)
    _windows(model, nodes, found)
    _threads(model, nodes, found)
    counts |= _created_threads(model, nodes, found)
    add_task_edges(model, nodes, found)
    _locks(model, nodes, found)
    edges = found.edges()
    n_hubs = found.n - len(nodes)
    time = np.concatenate([nodes.time, np.full(n_hubs, kernels.NEVER, np.int64)])
    # hubs in chains come one after the other, so that each knows the one before
    into_hubs = edges.head >= len(nodes)
    from_hubs = edges.tail >= len(nodes)
    first = into_hubs & ~from_hubs
    kernels.latest_sources(edges.tail[first], edges.head[first], time, time)
    chained = np.flatnonzero(into_hubs & from_hubs)
    chained = chained[np.argsort(edges.head[chained], kind="stable")]
    kernels.latest_sources(edges.tail[chained], edges.head[chained], time, time)
    # nothing waits for hubs without a source
    time[time == kernels.NEVER] = 0
    counts |= _not_known(model, nodes, edges, starts)
    return Graph(nodes, edges, n_hubs, time, {k: n for k, n in counts.items() if n}).without_contradictions()


def synchronised(model: Model, graph: Graph) -> Graph:
    """Let everybody wait for all in every blocking collective operation but Reduce: how the simulator Dimemas has them.

    These waits were none in the recorded run, so that they have no part in the weights, and no lag.

    Raises
    ------
    AnalysisError
        If the program relies on collective operations that do not synchronise.
    """
    found = EdgeCollector(graph.time.size)
    members, table = model.collective_members, model.collectives
    size = np.maximum(table.size, table.n_members)[members.collective]
    at = np.flatnonzero((size > 1) & ~np.isin(members.op, _ops("reduce")) & (members.op < len(_OF_DATA)))
    call = graph.nodes.calls_around(members.end[at])
    everybody = np.ones(at.size, bool)
    enter, leave = _node(graph.nodes.call_enter, call), _node(graph.nodes.call_exit, call)
    found.all_to_all(members.collective[at], enter, leave, everybody, everybody)
    more = found.edges()
    edges = Edges(
        *(np.concatenate([getattr(e, name) for e in (graph.edges, more)]) for name in Edges.__dataclass_fields__)
    )
    n_more = found.n - graph.time.size
    time = np.concatenate([graph.time, np.full(n_more, kernels.NEVER, np.int64)])
    into_hubs = more.head >= graph.time.size
    kernels.latest_sources(more.tail[into_hubs], more.head[into_hubs], time, time)
    result = Graph(graph.nodes, edges, graph.n_hubs + n_more, time, graph.counts)
    result.lag[len(graph.edges) :] = 0
    result.weight = np.concatenate([graph.weight, np.zeros(n_more, np.int64)])
    if (result._swept()[1] >= 0).any():
        raise AnalysisError(
            "the collective operations of this trace cannot synchronise: some process needs what another one sends behind one of them\n"
            "  leave them as they were recorded"
        )
    return result


_OF_DATA = COLLECTIVE_OPS[: COLLECTIVE_OPS.index("create_handle")]
"""Operations that move data or synchronise, the first of all."""


def _messages(model: Model, nodes: Nodes, found: EdgeCollector) -> int:
    m = model.sent_messages
    lower = model.regions.lower
    sender = nodes.calls_around(np.where(m.send_enter >= 0, m.send_enter, m.send))
    receiver = nodes.calls_around(np.where(m.recv_enter >= 0, m.recv_enter, m.recv))
    tail, head = _node(nodes.call_enter, sender), _node(nodes.call_exit, receiver)
    found.add(tail, head, length=np.maximum(m.length, 0), steps=1)
    # a sender that waits for its receiver: concluded from the times, since nothing records it
    poster, completer = nodes.calls_around(m.recv_post_enter), nodes.calls_around(m.send_done_enter)
    patient = np.array([not name.startswith(_NOT_WAITING) for name in [*lower, ""]], bool)
    region = _node(nodes.call_region.astype(np.int64), completer)
    waits = (m.send_done_enter_time < m.recv_post_enter_time) & (m.recv_post_enter_time < m.send_done_exit_time)
    waits &= (m.send_done_enter >= 0) & patient[region] & patient[_node(nodes.call_region.astype(np.int64), sender)]
    waits &= m.send_done_late == 0
    found.add(_node(nodes.call_enter, poster)[waits], _node(nodes.call_exit, completer)[waits], is_inferred=True)
    return int(((tail < 0) | (head < 0)).sum())


def _node(of_call: Rows, call: Rows) -> Rows:
    """Return a column of calls; -1 for no call."""
    return np.where(call >= 0, np.append(of_call, -1)[call], -1)


def _ops(*names: str) -> list[int]:
    return [COLLECTIVE_OPS.index(name) for name in names]


def _steps(n_members: Rows) -> Rows:
    """Return the latencies of operations among n processes: ceil(log2 n)."""
    size = int(n_members.max(initial=1)) + 1
    table = np.array([0, *(ceil(log2(n)) for n in range(1, size))], np.int64)
    return table[n_members]


def _collectives(model: Model, nodes: Nodes, found: EdgeCollector) -> int:
    members, table = model.collective_members, model.collectives
    size = np.maximum(table.size, table.n_members).astype(np.int64)[members.collective]
    call = nodes.calls_around(members.end)
    enter, leave = _node(nodes.call_enter, call), _node(nodes.call_exit, call)
    size = np.where(call >= 0, size, 0)
    _operations(nodes, found, members, members.collective, enter, leave, members.rank, size)
    at = _that_met(model, nodes, call, np.flatnonzero((size > 1) & np.isin(members.op, _ops(*HANDLES))))
    everybody = np.ones(at.size, bool)
    found.all_to_all(members.collective[at], enter[at], leave[at], everybody, everybody, 0, _steps(size[at]))
    return int((call < 0).sum())


def _nonblocking_collectives(model: Model, nodes: Nodes, found: EdgeCollector) -> NDArray[np.bool_]:
    """Let calls that complete non-blocking operations wait for those that start them; say which calls do; (n_calls,)
    bool."""
    members = model.nonblocking_members
    start, done = nodes.calls_around(members.begin), nodes.calls_around(members.done_enter)
    enter, leave = _node(nodes.call_enter, start), _node(nodes.call_exit, done)
    size = np.bincount(members.operation, minlength=1)[members.operation] if len(members) else np.zeros(0, np.int64)
    rank = model.facts.communicators.rank_of(members.communicator, model.facts.process[members.location])
    _operations(
        nodes, found, members, members.operation, enter, leave, rank, np.where((start >= 0) & (done >= 0), size, 0)
    )
    starts = np.zeros(nodes.call_region.size, bool)
    starts[start[start >= 0]] = True
    return starts


def _operations(
    nodes: Nodes,
    found: EdgeCollector,
    members: CompoundTable,
    instance: Rows,
    enter: Rows,
    leave: Rows,
    ranks: Rows,
    size: Rows,
) -> None:
    """Let the participants of collective operations wait for those they depend on.

    Parameters
    ----------
    members : CompoundTable
        `collective_members`, or `nonblocking_members`.
    instance : (n_members,) int64
        The operation.
    enter, leave : (n_members,) int64
        Nodes: the participant has come, and it leaves.
    ranks, size : (n_members,) int64
        Ranks of participants, and how many there are; 0 for participants that are left out.
    """
    op, sends, receives = members.op, members.sent > 0, members.received > 0
    length, steps = np.maximum(members.received, 0), _steps(size)
    everybody = np.ones(op.size, bool)

    def some(names: Iterable[str]) -> NDArray[np.int64]:
        return np.flatnonzero((size > 1) & np.isin(op, _ops(*names)))

    at = some(["barrier"])
    found.all_to_all(instance[at], enter[at], leave[at], everybody[at], everybody[at], 0, steps[at])
    at = some(N_TO_N)
    found.all_to_all(instance[at], enter[at], leave[at], sends[at], receives[at], length[at], steps[at])
    is_root = members.is_root
    at = some(ONE_TO_N)
    found.all_to_all(
        instance[at], enter[at], leave[at], (sends & is_root)[at], (receives & ~is_root)[at], length[at], steps[at]
    )
    at = some(N_TO_ONE)
    found.all_to_all(instance[at], enter[at], leave[at], sends[at], is_root[at], length[at], steps[at])
    # how much each sends to whom is not recorded: whoever had come by the end of a participant may have sent it
    # something
    at = some(PAIRWISE)
    begin, end = _times(nodes, enter[at]), _times(nodes, leave[at])
    order = np.lexsort((begin, instance[at]))
    sees = _count_until(instance[at], begin, order, end)
    found.chain(instance[at], order, enter[at], leave[at], sees, sends[at], receives[at], length[at], steps[at])
    # by rank: everybody waits for those before
    at = some(SCAN)
    order = np.lexsort((ranks[at], instance[at]))
    sees = np.empty(at.size, np.int64)
    sees[order] = np.arange(at.size)
    found.chain(instance[at], order, enter[at], leave[at], sees, sends[at], everybody[at], length[at], steps[at])


def _that_met(model: Model, nodes: Nodes, call: Rows, at: Rows) -> Rows:
    """Choose the participants of operations on communicators in which everybody came before anybody left; others need
    not have waited.

    Start and end of MPI have edges of their own (`_start_and_end`).
    """
    of = nodes.call_region[call[at]]
    at = at[~(model.regions.is_init | model.regions.is_finalize)[of]]
    m = model.collective_members
    _, group = np.unique(m.collective[at], return_inverse=True)
    segments = Segments(group, int(group.max(initial=-1)) + 1)
    met = segments.min(m.exit_time[at]) >= segments.max(m.enter_time[at])
    return np.asarray(at[met[group]], np.int64)


def _times(nodes: Nodes, at: Rows) -> Rows:
    return nodes.time[at] if nodes.time.size else np.zeros(at.size, np.int64)


def _count_until(group: Rows, begin: Rows, order: Rows, end: Rows) -> Rows:
    """Find for each element the place in `order` behind the last of its group that begins until the element ends; O(n
    log n)."""
    n = order.size
    # elements and ends in one order: an end lies behind the begins of the same time
    both = np.lexsort((np.repeat([0, 1], n), np.concatenate([begin, end]), np.concatenate([group, group])))
    n_begun = np.cumsum(both < n)
    result = np.empty(2 * n, np.int64)
    result[both] = n_begun
    return result[n:]


def _start_and_end(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    for which in (model.regions.is_init, model.regions.is_finalize):
        calls = np.flatnonzero(which[nodes.call_region]) if nodes.call_region.size else np.zeros(0, np.int64)
        # who calls it once more is refused by MPI, and waits for nobody
        calls = calls[np.unique(nodes.location[nodes.call_enter[calls]], return_index=True)[1]]
        if calls.size > 1:
            everybody = np.ones(calls.size, bool)
            enter, leave = nodes.call_enter[calls], nodes.call_exit[calls]
            found.all_to_all(np.zeros(calls.size, np.int64), enter, leave, everybody, everybody)


def _windows(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    w = model.window_members
    call = nodes.calls_around(w.end)
    n_members = np.bincount(w.operation, minlength=1)[w.operation] if len(w) else np.zeros(0, np.int64)
    at = np.flatnonzero((call >= 0) & (n_members > 1))
    everybody = np.ones(at.size, bool)
    enter, leave = nodes.call_enter[call[at]], nodes.call_exit[call[at]]
    found.all_to_all(w.operation[at], enter, leave, everybody, everybody, 0, _steps(n_members)[at])


def _threads(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    teams = model.team_instances
    if teams.instance.size:
        fork = nodes.at(np.where(model.teams.fork >= 0, model.teams.fork, -2))
        found.add(fork[teams.instance], nodes.team_begins)
    members = model.construct_members
    at = np.flatnonzero(np.isin(np.array(members.role, object), BARRIERS))
    group = members.construct[at]
    several = np.bincount(group, minlength=1)[group] > 1 if at.size else np.zeros(0, bool)
    at, group = at[several], group[several]
    last = _last_nodes(nodes, members.location[at])
    leave = np.where(members.exit[at] >= 0, nodes.at(members.exit[at]), last)
    everybody = np.ones(at.size, bool)
    come, goes = with_tasks(model, nodes, group, nodes.at(members.enter[at]), leave)
    found.all_to_all(group, come, goes, everybody, everybody)


def _created_threads(model: Model, nodes: Nodes, found: EdgeCollector) -> dict[str, int]:
    """Let threads begin after their creation, and joins return after the end of the thread; count those without
    either."""
    c = model.created_threads
    # an event inside an MPI call is no node: the ENTER of the call creates the thread, its EXIT waits for it
    create = np.where(
        nodes.at(c.create) >= 0, nodes.at(c.create), _node(nodes.call_enter, nodes.calls_around(c.create))
    )
    join = np.where(nodes.at(c.join) >= 0, nodes.at(c.join), _node(nodes.call_exit, nodes.calls_around(c.join)))
    found.add_in_order(create, nodes.at(c.begin), nodes.time)
    found.add_in_order(nodes.at(c.end), join, nodes.time)
    return {BEGIN_AS_RECORDED: int((create < 0).sum()), ENDLESS: int(((join >= 0) & (c.end < 0)).sum())}


def _last_nodes(nodes: Nodes, location: NDArray[np.int32]) -> Rows:
    return np.searchsorted(nodes.location, location, "right") - 1


def _locks(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    locks = model.lock_acquisitions
    release, _ = lock_order(locks)
    found.add_in_order(nodes.at(release), nodes.at(locks.acquire), nodes.time)


MAY_WAIT = ("mpi_probe", "mpi_mprobe", "mpi_comm_", "mpi_cart_create", "mpi_cart_sub", "mpi_graph_create", "mpi_dist_graph_create", "mpi_intercomm_", "mpi_ibarrier", "mpi_ibcast", "mpi_ireduce", "mpi_iallreduce", "mpi_iallgather", "mpi_ialltoall", "mpi_igather", "mpi_iscatter", "mpi_iscan", "mpi_iexscan", "mpi_neighbor_", "mpi_ineighbor_")  # fmt: skip
_NEVER_WAIT = ("mpi_comm_rank", "mpi_comm_size", "mpi_comm_group", "mpi_comm_get", "mpi_comm_set", "mpi_comm_compare", "mpi_comm_test", "mpi_comm_remote", "mpi_comm_delete", "mpi_comm_call")  # fmt: skip


def _not_known(model: Model, nodes: Nodes, edges: Edges, starts: NDArray[np.bool_]) -> dict[str, int]:
    """Count what has no edge though it may wait, but what only starts an operation; calls on windows that have one are
    no longer kept as recorded."""
    lower, region = model.regions.lower, nodes.call_region
    reached = np.zeros(len(nodes), bool)
    reached[edges.head[edges.head < len(nodes)]] = True
    at_exit = nodes.call_exit
    joined = reached[at_exit] & (nodes.kind[at_exit] == NodeClass.OPAQUE)
    nodes.kind[at_exit[joined]] = NodeClass.COLLECTIVE
    may = np.array([n.startswith(MAY_WAIT) and not n.startswith(_NEVER_WAIT) for n in lower], bool)
    locks, regions, profile = model.lock_acquisitions, model.regions, model.profile
    on_cpu = model.locations.is_cpu[profile.location]
    entered = model.call_paths.region[profile.call_path[on_cpu]]

    def visits(mask: NDArray[np.bool_]) -> int:
        return int(profile.visits[on_cpu][mask[entered]].sum())

    return {
        UNKNOWN_PARTNERS: int((may[region] & ~reached[at_exit] & ~starts).sum()) if region.size else 0,
        KEPT_AS_RECORDED: int((nodes.kind[at_exit] == NodeClass.OPAQUE).sum()),
        CONDITIONS: int(is_in(model.facts, locks.call_path, CONDITION).sum()),
        DEVICE_CALLS: visits(regions.device_call >= 0),
        SHMEM_CALLS: visits(regions.paradigm == "shmem"),
        **{k: n for k, n in model.messages.counts.items() if k in ("sends without receive", "receives without send")},
    }
