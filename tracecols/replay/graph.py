"""The graph of a replay: which node waits for which, and the sweep that computes the time of each.

    T(v) = max(T(node before), T(u) + lag(u, v) for all edges u -> v) + weight(v)

Weights and lags are such that the sweep reproduces the recorded times, to the tick. A lag is negative if clocks
disagree, so that a message arrived before it was sent, and positive from a launch to what it launches (its latency). If
all wait for all, hubs between them keep the number of edges linear; they follow the nodes by number and have no weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.edges import EdgeCollector, Edges
from tracecols.enhance.dataflow.grouping import Segments, combine, number, occurrence, positions
from tracecols.enhance.dataflow.steps import BUCKET, GLOBAL, RECEIVE, SEND, WITHIN
from tracecols.enhance.definitions.regions import IS_BARRIER
from tracecols.enhance.mpi.waits import HANDLES, N_TO_N, N_TO_ONE, ONE_TO_N, PAIRWISE, SCAN, directions
from tracecols.enhance.scan.region_rules import CONDITION, in_role, is_in, named
from tracecols.enhance.threads.locks import lock_order
from tracecols.errors import AnalysisError
from tracecols.kernels import maxplus
from tracecols.kernels import replay as kernels
from tracecols.model.model import Model
from tracecols.once import once
from tracecols.replay.costs import MESSAGE_STEPS, collective_steps
from tracecols.replay.device_edges import add_device_edges, add_starts
from tracecols.replay.events import Computation, find_computation, join_computation
from tracecols.replay.nodes import NodeClass, Nodes, NodesOfSlice, find_nodes, join_nodes
from tracecols.replay.placement import PlacedTasks, find_tasks
from tracecols.replay.task_edges import TaskEvents, add_chains, add_task_edges, read_task_events, with_tasks
from tracecols.replay.window_edges import add_window_edges
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.vectors import Ints, Mask

JOINS = in_role(("thread_wait",))
"""Rule for the calls that wait for threads which the program has created."""

UNKNOWN_PARTNERS = (
    "calls whose communication partners are not recorded (communicators, non-blocking collectives, MPI_Probe)"
)
KEPT_AS_RECORDED = "calls of one-sided communication and I/O that are kept as they were recorded"
BEGUN_BY_PROCESS = (
    "threads and streams whose creation is not recorded: they begin as long after the preceding event of their process"
)
ENDLESS = "joins of threads whose end is not recorded: they take as long as they did"
CONDITIONS = (
    "waits for condition variables during which no other thread signals or holds the mutex: they take as long as they "
    "did"
)
BOUND_TASKS = (
    "explicit tasks of teams in which tasks wait for tasks: they stay at the threads that executed them, so that less "
    "is gained than if idle threads took them"
)
DEVICE_CALLS = "calls for devices: they count as computation unless they wait for streams"
SHMEM_CALLS = "calls of SHMEM: they count as computation"
DROPPED = "inferred waits of senders for receivers, or for locks, that contradict the order of other events, left out"
UNPLACED = "messages and participants outside of MPI calls, left out"


def unchanged(nodes: Nodes, less: maxplus.Less = maxplus.NO_LESS) -> maxplus.Changes:
    """Return the changes of scenarios that equal the recorded run, except that single nodes take less time."""
    nothing = np.zeros(0, np.int32)
    return maxplus.Changes(
        np.ones((0, 1, maxplus.WAITING + 1)),
        nothing.reshape(0, 0),
        nothing.reshape(0, 0),
        nothing,
        nodes.location_start,
        nothing,
        nothing,
        np.zeros(0, np.int64),
        np.zeros((0, 2)),
        1,
        less,
    )


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(eq=False)
class Graph:
    """The dependency graph of a trace.

    Attributes
    ----------
    nodes : Nodes
    edges : Edges
    time : (n_all,) int64
        Recorded times of nodes and hubs, ticks.
    lag : (n_edges,) int64
        0, negative where clocks disagree, or the latency of a launch. Empty if all are 0.
    counts : dict of str to int
        Counts of what the replay does not know, by description.
    weight : (n_all,) int64
        Ticks between the last dependency of a node and itself, never negative.
    """

    nodes: Nodes
    edges: Edges
    time: Ints
    counts: dict[str, int] = field(default_factory=dict)
    weight: Ints = field(default_factory=_none)
    lag: Ints = field(default_factory=_none)

    def __post_init__(self) -> None:
        if self.weight.size < self.time.size:
            self.weight = np.empty(self.time.size, np.int64)
            e = self.edges
            if maxplus.weigh(self.nodes.begins_chain, e.start, e.head, self.time, self.weight):
                self.lag = np.minimum(0, self.time[e.head] - self.time[e.tail])
        self._order, self._n_places, self.stuck = self._ordered()

    @property
    def n_hubs(self) -> int:
        """Number of hubs."""
        return self.time.size - self.nodes.kind.size

    @property
    def lags(self) -> Ints:
        """The lags of all edges; (n_edges,) int64."""
        return self.lag if self.lag.size else np.zeros(len(self.edges), np.int64)

    def _ordered(self) -> tuple[maxplus.Order, int, Mask]:
        """Find the order of nodes and hubs, the number of places it needs, and the nodes and hubs that wait for
        themselves."""
        n_all, is_first = self.time.size, self.nodes.begins_chain
        waiting, is_head = np.zeros(n_all, np.int32), np.empty(n_all, bool)
        n_heads = maxplus.count_dependencies(is_first, self.edges.head, waiting, is_head)
        # a run begins with the first node of a location, a hub, or a node that waits for others
        n_runs = n_heads + int(is_first.sum()) + self.n_hubs
        start, stop, following = (np.empty(n_runs, np.int32) for _ in range(3))
        place, edge_place = np.empty(n_heads, np.int32), np.empty(self.edges.head.size, np.int32)
        order = maxplus.Order(start, stop, following, is_head, place, edge_place)
        at, free = np.full(n_all, -1, np.int32), np.empty(n_heads, np.int32)
        n_runs, n_places = maxplus.order_nodes(is_first, self.edges.start, self.edges.head, waiting, at, free, order)
        order = order._replace(
            run_start=start[:n_runs].copy(), run_stop=stop[:n_runs].copy(), run_next=following[:n_runs].copy()
        )
        return order, n_places, waiting >= 0

    def sweep(self, weight: Ints | None = None, lag: Ints | None = None, start: Ints | None = None) -> Ints:
        """Return the time of every node. Nodes that depend on nothing have the times `start`; by default all is as
        recorded."""
        given = self._weights()
        given = given._replace(
            weight=given.weight if weight is None else weight,
            lag=given.lag if lag is None else lag,
            start=given.start if start is None else start - self._first,
        )
        return self._swept(given, unchanged(self.nodes), 1, is_whole=True)[2][: len(self.nodes)]

    def runtimes(self, weight: Ints, lag: Ints, less: maxplus.Less, k: int) -> Ints:
        """Return the runtimes, in ticks, of k scenarios, `maxplus.LANES` at most, in which single nodes take less time,
        or edges keep nothing waiting."""
        given = self._weights()._replace(weight=weight, lag=lag)
        begin, end, _ = self._swept(given, unchanged(self.nodes, less), k, is_whole=False)
        return end - begin

    def run(self, changes: maxplus.Changes, *, is_whole: bool = False) -> tuple[Ints, Ints, Ints]:
        """Sweep the graph in some scenarios, `maxplus.LANES` at most, side by side.

        Returns the begin and the end of the runtime of each, in ticks since the earliest node, both 0 without nodes,
        and the times of nodes and hubs in the first scenario, empty if not `is_whole`.
        """
        return self._swept(self._weights(), changes, changes.factor.shape[0], is_whole=is_whole)

    def _weights(self) -> maxplus.Weights:
        n, e = self.nodes, self.edges
        return maxplus.Weights(self._since, self.weight, n.kind, n.mark, e.start, e.head, self.lag, e.length, e.steps)

    def _swept(
        self, given: maxplus.Weights, changes: maxplus.Changes, k: int, *, is_whole: bool
    ) -> tuple[Ints, Ints, Ints]:
        lanes = maxplus.LANES
        never = maxplus.NEVER if self.time.size else 0
        begin, end = np.full(lanes, -never), np.full(lanes, never)
        times = np.full((self._n_places, lanes), maxplus.NEVER)
        found = np.empty(self.time.size if is_whole else 0, np.int64)
        may_drop = bool((changes.factor[:, :, maxplus.WAITING] == 0).any())
        now, change = np.empty(lanes, np.int64), np.empty(lanes)
        maxplus.sweep(self._order, given, changes, may_drop, now, change, times, begin, end, found)
        found += self._first
        return begin[:k], end[:k], found

    @once
    def tasks(self) -> PlacedTasks | None:
        """The tasks that threads may take over from each other; None if there are none."""
        nodes = self.nodes
        has_some = bool((nodes.mark & maxplus.CHAINED).any())
        return find_tasks(self.edges, nodes.location, nodes.mark, nodes.time) if has_some else None

    def with_tasks_moved(self, time: Ints) -> Graph | None:
        """Return the graph in which threads take tasks as they become free, given the times of the nodes if all tasks
        stay at their threads; None if all stay, or others contradict the order of other events."""
        if self.tasks is None:
            return None
        edge, head, later = self.tasks.placed(self.edges, self.time, time)
        if not edge.size:
            return None
        heads, lag = self.edges.head.copy(), self.lags.copy()
        heads[edge] = head
        lag[edge] += later
        result = replace(self, edges=replace(self.edges, head=heads), lag=lag)
        return None if result.stuck.any() else result

    @once
    def _first(self) -> int:
        """The time of the earliest node, ticks; 0 without nodes. Clocks may count from 1970; times of a sweep, which
        have to fit in 64 bits, count from here."""
        return int(self.time[: self.nodes.is_first.size].min()) if self.nodes.is_first.size else 0

    @once
    def _since(self) -> Ints:
        """Recorded times since the earliest node; (n_all,) int64."""
        return self.time - self._first

    @once
    def span(self) -> int:
        """Ticks that no recorded time since the earliest node or weight exceeds, at least 1."""
        return int(max(self._since.max(initial=1), self.weight.max(initial=1)))

    def without_contradictions(self) -> Graph:
        """Return the graph without the inferred edges that make nodes wait for themselves, which happens only if clocks
        disagree. Raises AnalysisError if nodes wait for themselves without them."""
        graph, n_dropped = self, 0
        while True:
            stuck = graph.stuck
            if not stuck.any():
                break
            n, e = len(graph.nodes), graph.edges
            drop = contradictions(graph.nodes.begins_chain, e.head, e.is_inferred, stuck)
            if not drop.any():
                v = int(np.flatnonzero(stuck)[0])
                where = (
                    f"row {graph.nodes.row[v]} at location {graph.nodes.location_of(np.array([v]))[0]}"
                    if v < n
                    else "a collective operation"
                )
                raise AnalysisError(
                    f"the trace cannot be replayed: {int(stuck.sum())} events wait for themselves, the first is "
                    f"{where}\n"
                    "  messages, locks or collective operations contradict each other, as tracecols check shows;\n"
                    "  efficiencies of this trace can be had with the approximation of the ideal network"
                )
            n_dropped += int(drop.sum())
            graph = Graph(graph.nodes, e.where(~drop), graph.time, graph.counts)
        if n_dropped:
            graph.counts[DROPPED] = n_dropped
        return graph


def contradictions(is_first: Mask, head: NDArray[np.integer], is_inferred: Mask, stuck: Mask) -> Mask:
    """Find the inferred edges to leave out so that nodes may go on: those into stuck nodes whose preceding node is not
    stuck.

    `stuck` are nodes and hubs that wait for themselves.
    """
    n = is_first.size
    before_done = np.ones(stuck.size, bool)
    before_done[1:n] = is_first[1:] | ~stuck[: n - 1]
    return is_inferred & stuck[head] & before_done[head]


STAGES = (WITHIN, RECEIVE, SEND, BUCKET, GLOBAL)
"""Stages whose results contribute nodes or edges."""


class Found(NamedTuple):
    """The contribution of one slice of a trace to the graph."""

    nodes: Nodes | None
    """Nodes of a partition, whose numbers its edges use. Edges of other slices use the numbers of the whole trace."""
    edges: EdgeCollector | None
    counts: dict[str, int]
    """Counts of what the replay does not know, by description."""
    computation: Computation | None = None
    """Computation of a partition, by its nodes."""


class GraphBuilder:
    """Builder of the nodes and edges of a trace, slice by slice: `Run.stages` calls `visit` for the stages `STAGES`,
    and `take` gets the results in that order.

    Once the first stage is complete, `nodes` are those of the whole trace, and, if asked for, `computation` is what is
    computed before each.
    """

    stages, in_windows, finds_much = STAGES, False, False

    def __init__(self, model: Model, with_computation: bool = False) -> None:
        self.model, self.with_computation = model, with_computation
        self._slices: list[tuple[Nodes, EdgeCollector]] = []
        self._computation: list[Computation] = []
        self._counts: Counter[str] = Counter()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that `visit` reads, which is sent to a cluster: the nodes, once the first stage is
        complete."""
        sent: dict[str, Any] = {"with_computation": self.with_computation}
        return sent | {"nodes": self.nodes} if self._slices or "nodes" in vars(self) else sent

    @once
    def nodes(self) -> Nodes:
        """The nodes of all partitions."""
        slices = [nodes for nodes, _ in self._slices]
        self._starts = [nodes.location_start for nodes in slices]
        n_paths = np.array([of.size for of in self.model.facts.call_paths.numbers], np.int64)
        # in a trace without regions all count
        idle = np.flatnonzero(n_paths == 0) if n_paths.any() else np.zeros(0, np.int64)
        return join_nodes(slices, self.model.facts, idle)

    @once
    def computation(self) -> Computation:
        """The computation of all partitions."""
        nodes, slices, self._computation = self.nodes, self._computation, []
        return join_computation(list(zip(self._starts, slices, strict=True)), nodes, self.model.jobs)

    @once
    def _found(self) -> EdgeCollector:
        """The edges within partitions, with the numbers of the whole trace."""
        nodes, found = self.nodes, EdgeCollector(len(self.nodes))
        for (_, edges), starts in zip(self._slices, self._starts, strict=True):
            shift = nodes.location_start - starts

            def number(node: NDArray[np.int32], starts: Ints = starts, shift: Ints = shift) -> Ints:
                return node + shift[np.searchsorted(starts, node, "right") - 1]

            found.take(edges, number)
        self._slices = []
        return found

    def visit(self, model: Model, stage: str) -> Found:
        """Find the nodes and edges of a slice."""
        if stage == WITHIN:
            return _within(model, self.with_computation)
        if stage == RECEIVE:
            lost = ("sends without receive", "receives without send")
            return Found(None, None, {k: n for k, n in model.messages.counts.items() if k in lost})
        nodes = self.nodes
        edges = EdgeCollector(len(nodes))
        if stage == SEND:
            return Found(None, edges, {UNPLACED: _messages(model, nodes, edges)})
        if stage == BUCKET:
            return Found(None, edges, {UNPLACED: _collectives(model, nodes, edges)})
        _nonblocking_collectives(model, nodes, edges)
        _start_and_end(model, nodes, edges)
        _created_processes(model, nodes, edges)
        _neighbours(nodes, edges)
        _windows(model, nodes, edges)
        add_window_edges(model, nodes, edges)
        _files(model, nodes, edges)
        return Found(None, edges, {})

    def take(self, found: Found) -> None:
        """Add the contribution of a slice."""
        self._counts.update(found.counts)
        if found.nodes is not None and found.edges is not None:
            self._slices.append((found.nodes, found.edges))
            self._computation += [] if found.computation is None else [found.computation]
        elif found.edges is not None:
            self._found.take(found.edges)

    def graph(self) -> Graph:
        """Return the graph, once all stages are complete. Raises AnalysisError if nodes wait for themselves."""
        nodes, found = self.nodes, self._found
        time, edges = np.append(nodes.time, np.full(found.n - len(nodes), maxplus.NEVER)), found.edges()
        maxplus.time_hubs(edges.start, edges.head, len(nodes), time)
        self._counts.update(_not_known(self.model, nodes, edges))
        counts = {k: n for k, n in self._counts.items() if n}
        graph = Graph(nodes, edges, time, counts).without_contradictions()
        _hide_latencies(graph, self.model.locations.is_device, np.asarray(self.model.facts.process, np.int64))
        return graph


def _hide_latencies(graph: Graph, is_device: Mask, process: Ints) -> None:
    """Turn the latency of a launch, if an operation waits for nothing else, into the lag of its edge: it passes while
    the stream is still busy, if the launch comes earlier. Other launches of the process take the median of these
    latencies, unless the operation began sooner. `process` is that of each location."""
    if not is_device.any():
        return
    e, n = graph.edges, len(graph.nodes)
    on_device = np.append(is_device[graph.nodes.location], np.zeros(graph.n_hubs, bool))
    edge = np.flatnonzero(on_device[e.head] & ~on_device[e.tail] & (e.tail < n))
    head, since = e.head[edge], np.maximum(graph.time[e.head[edge]] - graph.time[e.tail[edge]], 0)
    binds, of = graph.weight[head] == since, process[graph.nodes.location[head]]
    usual = Segments(of[binds], process.size).median(since[binds])
    lag = np.where(binds, since, np.minimum(since, usual[of]))
    graph.lag = graph.lags
    graph.lag[edge] += lag
    graph.weight[head] = np.minimum(graph.weight[head], since - lag)


def find_graph(model: Model) -> GraphBuilder:
    """Find the nodes and edges of a trace, slice by slice."""
    builder = GraphBuilder(model)
    with model.divided() as run:
        for found in run.stages(builder.visit, STAGES):
            builder.take(found)
    return builder


def _within(model: Model, with_computation: bool) -> Found:
    """Find the nodes of a partition, the edges within its processes, and optionally the computation before the
    nodes."""
    of_slice = find_nodes(model)
    nodes = of_slice.nodes
    found = EdgeCollector(len(nodes))
    tasks = read_task_events(model, nodes)
    counts = {BOUND_TASKS: _threads(model, of_slice, tasks, found)} | _created_threads(model, nodes, found)
    add_task_edges(of_slice, tasks, found)
    _locks(model, nodes, found)
    counts |= _conditions(model, nodes, found) | add_device_edges(model, nodes, found)
    counts[BEGUN_BY_PROCESS] = add_starts(model, nodes, found, found.is_head())
    # the edges show where threads wait
    return Found(nodes, found, counts, find_computation(model, nodes) if with_computation else None)


def lags_among(graph: Graph, edges: Edges) -> Ints:
    """Return the lags of edges to which more were added after those of a graph, which keep theirs; (n_edges,) int64, 0
    for the others."""
    before, lag = graph.edges, np.zeros(len(edges), np.int64)
    # for each tail those of the graph come first
    lag[edges.start[before.tail] + np.arange(len(before)) - before.start[before.tail]] = graph.lags
    return lag


def synchronised(model: Model, graph: Graph) -> Graph:
    """Let all participants wait for all in every blocking collective operation but Reduce, as the simulator Dimemas
    does.

    These waits did not occur in the recorded run, so they have no part in the weights, and no lag.

    Raises AnalysisError if the program relies on collective operations that do not synchronise.
    """
    found = EdgeCollector(graph.time.size)
    found.add_edges(graph.edges)
    nodes, members, table = graph.nodes, model.collective_members, model.collectives
    size = np.where(table.on_device, 0, np.maximum(table.size, table.n_members))[members.collective]
    at = np.flatnonzero((size > 1) & ~np.isin(members.op, _ops("reduce")) & (members.op < len(_OF_DATA)))
    call = nodes.calls_around(members.end[at])
    found.all_to_all(members.collective[at], nodes.enter_of(call), call)
    n_more, edges = found.n - graph.time.size, found.edges()
    time = np.append(graph.time, np.full(n_more, maxplus.NEVER))
    maxplus.time_hubs(edges.start, edges.head, graph.time.size, time)
    is_more = (edges.head >= graph.time.size) | (edges.tail >= graph.time.size)
    lag = np.minimum(0, time[edges.head] - time[edges.tail])
    lag[is_more] = 0
    weight = np.append(graph.weight, np.zeros(n_more, np.int64))
    result = replace(graph, edges=edges, time=time, weight=weight, lag=lag)
    if result.stuck.any():
        raise AnalysisError(
            "the collective operations of this trace cannot synchronise: some process needs what another one sends "
            "after one of them\n"
            "  leave them as they were recorded"
        )
    return result


_OF_DATA = COLLECTIVE_OPS[: COLLECTIVE_OPS.index("create_handle")]
"""Operations that move data or synchronise, which come first of all."""


def _messages(model: Model, nodes: Nodes, found: EdgeCollector) -> int:
    m = model.sent_messages
    sender = nodes.calls_around(np.where(m.send_enter >= 0, m.send_enter, m.send))
    receiver = nodes.calls_around(np.where(m.recv_enter >= 0, m.recv_enter, m.recv))
    on_device = model.locations.is_device[m.send_location] & model.locations.is_device[m.recv_location]
    begin = np.where(on_device, nodes.at(m.send_enter), nodes.enter_of(sender))
    receiver = np.where(on_device, _first_at_the_time(nodes, nodes.at(m.recv_enter), nodes.at(m.recv)), receiver)
    found.add(begin, receiver, length=np.maximum(m.length, 0), steps=MESSAGE_STEPS)
    probe, sender_of_probe = _probed(nodes, nodes.calls_around(m.recv_post_enter), begin)
    found.add(sender_of_probe, probe, steps=MESSAGE_STEPS)
    # a sender that waits for its receiver: inferred from the times, since it is not recorded, unless it always does
    waits = (m.send_done_enter_time < m.recv_post_enter_time) | (_is_synchronous(model, m) & (m.recv_post_enter >= 0))
    waits &= m.recv_post_enter_time < m.send_done_exit_time
    at = np.flatnonzero(waits & ~on_device & (m.send_done_enter >= 0) & (m.send_done_late == 0))
    poster, completer = nodes.calls_around(m.recv_post_enter[at]), nodes.calls_around(m.send_done_enter[at])
    patient = _is_patient(nodes, completer) & _is_patient(nodes, sender[at])
    post, length = nodes.enter_of(poster)[patient], np.maximum(m.length[at[patient]], 0)
    # the transfer begins when both are ready, and both take part in it
    for head in (completer[patient], receiver[at[patient]]):
        found.add(post, head, is_inferred=True, length=length, steps=MESSAGE_STEPS)
    # a kernel that sends does not end before the one that receives has begun, unless it was recorded so
    meets = (m.recv_post_enter >= 0) & (m.recv_post_enter_time <= m.send_done_exit_time)
    at = np.flatnonzero(meets & on_device & (m.send_done_enter >= 0))
    leave = _first_at_the_time(nodes, nodes.at(m.send_done_enter[at]), nodes.at(m.send_done_exit[at]))
    found.add(nodes.at(m.recv_post_enter[at]), leave, is_inferred=True)
    return int(((begin < 0) | (receiver < 0)).sum())


SYNCHRONOUS = named("mpi_i?ssend", "mpi")
"""Calls whose messages are sent only once their receives have been posted."""


def _is_synchronous(model: Model, messages: CompoundTable) -> Mask:
    """Return a mask of the messages that such calls start."""
    region = pick(model.call_paths.whole.region, model.call_paths.path_of(messages.send_call_path))
    return np.append(SYNCHRONOUS(model.regions), False)[region]


def _probed(nodes: Nodes, poster: Ints, begin: Ints) -> tuple[Ints, Ints]:
    """Find the calls that probe for messages right before they are received, and the begins of their sends. Calls in
    between that only ask MPI for something do not matter (MPI_Get_count).

    `poster` is the call that posts the receive of each message, `begin` the begin of the call that sends it; -1 none.
    """
    before = nodes.before(poster)
    while (asks := np.flatnonzero(nodes.is_query(before))).size:
        before[asks] = nodes.before(before[asks])
    known = np.flatnonzero((before >= 0) & (begin >= 0))
    known = known[nodes.is_probe(before[known])]
    probe, begin = before[known], begin[known]
    # if clocks disagree, the probe is no evidence
    met = nodes.time[begin] <= nodes.time[probe]
    return probe[met], begin[met]


def _first_at_the_time(nodes: Nodes, enter: Ints, node: Ints) -> Ints:
    """Return the first node of a kernel with the same time as `node`, its ENTER left out: all nodes of this time wait
    for what the kernel waits for."""
    first = node.copy()
    while True:
        earlier = (enter >= 0) & (first - 1 > enter)
        earlier &= pick(nodes.time, np.where(earlier, first - 1, -1)) == pick(nodes.time, first)
        if not earlier.any():
            return first
        first = first - earlier


def _is_patient(nodes: Nodes, calls: Ints) -> Mask:
    """Return a mask of the calls that may wait for a receiver; nodes outside of all calls (-1) may, too."""
    return (calls < 0) | (nodes.role[calls] & kernels.IS_IMPATIENT == 0)


def _ops(*names: str) -> list[int]:
    return [COLLECTIVE_OPS.index(name) for name in names]


def _collectives(model: Model, nodes: Nodes, found: EdgeCollector) -> int:
    members, table = model.collective_members, model.collectives
    size = np.maximum(table.size, table.n_members).astype(np.int64)[members.collective]
    call = nodes.calls_around(members.end)
    # kernels on streams begin and end with their own events
    on_device = members.on_device
    enter = np.where(on_device, nodes.at(members.begin), nodes.enter_of(call))
    leave = np.where(on_device, nodes.at(members.end), call)
    size = np.where(leave >= 0, size, 0)
    _operations(nodes, found, members, members.collective, enter, leave, members.rank, size)
    at = _that_met(model, nodes, call, np.flatnonzero((size > 1) & np.isin(members.op, _ops(*HANDLES))))
    found.all_to_all(members.collective[at], enter[at], leave[at], steps=collective_steps(size[at]))
    return int((leave < 0).sum())


def _nonblocking_collectives(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    """Let calls that complete non-blocking operations wait for those that start them."""
    members = model.nonblocking_members
    start, leave = nodes.calls_around(members.begin), nodes.calls_around(members.done_enter)
    enter = nodes.enter_of(start)
    size = np.bincount(members.operation, minlength=1)[members.operation] if len(members) else np.zeros(0, np.int64)
    rank = model.facts.communicators.rank_of(members.communicator, model.facts.process[members.location])
    size = np.where((start >= 0) & (leave >= 0), size, 0)
    _operations(nodes, found, members, members.operation, enter, leave, rank, size)
    at = np.flatnonzero((size > 1) & np.isin(members.op, _ops(*HANDLES)))
    found.all_to_all(members.operation[at], enter[at], leave[at], steps=collective_steps(size[at]))
    # calls that only start an operation do not wait
    nodes.role[start[start >= 0]] &= ~np.uint8(kernels.MAY_WAIT)


def _operations(
    nodes: Nodes,
    found: EdgeCollector,
    members: CompoundTable,
    instance: Ints,
    enter: Ints,
    leave: Ints,
    ranks: Ints,
    size: Ints,
) -> None:
    """Let the participants of collective operations (`collective_members` or `nonblocking_members`) wait for those they
    depend on.

    `enter` and `leave` are the nodes at which a participant arrives and leaves. `size` is the number of participants of
    its operation; 0 for participants that are left out.
    """
    row, instance, lets_wait, waits = directions(instance, members.group)
    enter, leave, ranks, size = enter[row], leave[row], ranks[row], size[row]
    op, received, is_root = members.op[row], members.received[row], members.is_root[row]
    sends, receives = lets_wait & (members.sent[row] > 0), waits & (received > 0)
    length, steps = np.maximum(received, 0), collective_steps(size)

    def some(names: Iterable[str]) -> Ints:
        return np.flatnonzero((size > 1) & np.isin(op, _ops(*names)))

    at = some(["barrier"])
    found.all_to_all(instance[at], enter[at], leave[at], lets_wait[at], waits[at], 0, steps[at])
    at = some(N_TO_N)
    found.all_to_all(instance[at], enter[at], leave[at], sends[at], receives[at], length[at], steps[at])
    at = some(ONE_TO_N)
    found.all_to_all(
        instance[at], enter[at], leave[at], (sends & is_root)[at], (receives & ~is_root)[at], length[at], steps[at]
    )
    at = some(N_TO_ONE)
    found.all_to_all(instance[at], enter[at], leave[at], sends[at], (waits & is_root)[at], length[at], steps[at])
    # it is not recorded how much each sends to whom: any participant that arrived before the end of another may have
    # sent to it
    at = some(PAIRWISE)
    _by_arrival(nodes, found, instance[at], enter[at], leave[at], sends[at], receives[at], length[at], steps[at])
    # by rank: all participants wait for those before them
    at = some(SCAN)
    order = np.lexsort((ranks[at], instance[at]))
    sees = positions(order)
    found.chain(instance[at], order, enter[at], leave[at], sees, sends[at], waits[at], length[at], steps[at])


def _by_arrival(
    nodes: Nodes,
    found: EdgeCollector,
    instance: Ints,
    enter: Ints,
    leave: Ints,
    sends: Mask,
    receives: Mask,
    length: Ints | int,
    steps: Ints | int,
) -> None:
    """Let receivers wait for all senders of the same instance that had arrived before the receivers left."""
    begin, end = _times(nodes, enter), _times(nodes, leave)
    order = np.lexsort((begin, instance))
    sees = _count_until(instance, begin, order, end)
    found.chain(instance, order, enter, leave, sees, sends, receives, length, steps)


def _that_met(model: Model, nodes: Nodes, call: Ints, at: Ints) -> Ints:
    """Select the participants of operations on communicators in which all arrived before any left; others need not have
    waited.

    Start and end of MPI have edges of their own (`_start_and_end`).
    """
    at = at[nodes.role[call[at]] & (kernels.IS_INIT | kernels.IS_FINALIZE) == 0]
    m = model.collective_members
    _, group = np.unique(m.collective[at], return_inverse=True)
    segments = Segments(group, int(group.max(initial=-1)) + 1)
    met = segments.min(m.exit_time[at]) >= segments.max(m.enter_time[at])
    return at[met[group]]


def _times(nodes: Nodes, at: Ints) -> Ints:
    return nodes.time[at] if nodes.time.size else np.zeros(at.size, np.int64)


def _count_until(group: Ints, begin: Ints, order: Ints, end: Ints) -> Ints:
    """Find for each element the place in `order` after the last one of its group that begins by the end of the element;
    O(n log n)."""
    n = order.size
    # begins and ends in one order: an end lies after the begins of the same time
    both = np.lexsort((np.repeat([0, 1], n), np.concatenate([begin, end]), np.concatenate([group, group])))
    n_begun = np.cumsum(both < n)
    result = np.empty(2 * n, np.int64)
    result[both] = n_begun
    return result[n:]


def _start_and_end(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    m = model.startups
    for role in (kernels.IS_INIT, kernels.IS_FINALIZE):
        world = np.full(len(model.locations), -1, np.int64)
        mine = m.is_init == (role == kernels.IS_INIT)
        world[m.location[mine]] = m.communicator[mine]
        calls = nodes.with_role(role)
        # MPI refuses a second call, which waits for nobody
        calls = calls[np.unique(nodes.location_of(calls), return_index=True)[1]]
        if calls.size > 1:
            found.all_to_all(world[nodes.location_of(calls)], nodes.enter_of(calls), calls)


def _created_processes(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    """Let processes that others create begin after the ENTER of the call that creates them."""
    c = model.created_processes
    create, begin = nodes.at(c.create_enter), nodes.at(c.begin)
    nodes.mark[begin[begin >= 0]] |= maxplus.BEGUN
    found.add_in_order(create, begin, nodes.time)


def _neighbours(nodes: Nodes, found: EdgeCollector) -> None:
    """Let collective operations of neighbours, of which no participants are recorded, wait for all processes that had
    arrived before their ends, as any of these may be neighbours. The k-th calls of all processes are taken as one
    operation if all make the same number of them."""
    call = nodes.with_role(kernels.OF_NEIGHBOURS)
    location = nodes.location_of(call)
    instance = occurrence(location)
    if call.size and (np.bincount(instance) == distinct(location).size).all():
        everybody = np.ones(call.size, bool)
        _by_arrival(nodes, found, instance, nodes.enter_of(call), call, everybody, everybody, 0, 1)


def _windows(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    w = model.window_members
    _everybody(nodes, found, w.operation, w.end, np.ones(len(w), bool))


def _files(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    """Let all processes wait for each other in collective calls for files in which all arrived before any left; others
    need not have waited."""
    m = model.file_members
    met = (m.latest_enter_time != -1) & (m.latest_enter_time <= m.earliest_exit_time)
    _everybody(nodes, found, m.operation, m.event, met)


def _everybody(nodes: Nodes, found: EdgeCollector, operation: Ints, event: Ints, met: Mask) -> None:
    """Let the participants of operations wait for each other if they met; `event` is an event in the call of each."""
    call = nodes.calls_around(event)
    n_members = np.bincount(operation, minlength=1)[operation] if operation.size else np.zeros(0, np.int64)
    at = np.flatnonzero((call >= 0) & (n_members > 1) & met)
    call, steps = call[at], collective_steps(n_members)[at]
    found.all_to_all(operation[at], nodes.enter_of(call), call, steps=steps)


def _threads(model: Model, of_slice: NodesOfSlice, tasks: TaskEvents, found: EdgeCollector) -> int:
    """Let threads begin after forks, and wait for each other in barriers; count the tasks that cannot move to other
    threads."""
    teams, nodes = model.team_instances, of_slice.nodes
    if teams.instance.size:
        fork, begins = nodes.at(model.teams.fork), of_slice.team_begins
        found.add(fork[teams.instance], begins)
        nodes.mark[begins[begins >= 0]] |= maxplus.BEGUN
    members = model.construct_members
    at = np.flatnonzero(IS_BARRIER[members.role_number])
    group = members.construct[at]
    several = np.bincount(group, minlength=1)[group] > 1 if at.size else np.zeros(0, bool)
    at, group = at[several], group[several]
    leave = nodes.at(members.exit[at])
    is_left = members.exit[at] >= 0
    leave = np.where(is_left, leave, nodes.last_of(members.location[at]))
    come, goes = with_tasks(nodes, tasks, group, nodes.at(members.enter[at]), leave, is_left)
    # tasks that may move to other threads end before the barrier is left
    movable = add_chains(of_slice, tasks, group, np.where(is_left, leave, -1), found)
    ends = np.arange(at.size + movable.done.size) < at.size
    given = (group, movable.team), (come, movable.done), (goes, movable.done)
    group, come, goes = (np.append(*of) for of in given)
    found.all_to_all(group, come, goes, to_some=ends)
    return movable.n_bound


def _created_threads(model: Model, nodes: Nodes, found: EdgeCollector) -> dict[str, int]:
    """Let threads begin after their creation, and joins return after the end of the thread; count joins of threads
    without a recorded end."""
    c = model.created_threads
    # an event inside an MPI call is no node: the ENTER of the call creates the thread, its EXIT waits for it
    create, join = nodes.at(c.create), nodes.at(c.join)
    create = np.where(create >= 0, create, nodes.enter_of(nodes.calls_around(c.create)))
    join = np.where(join >= 0, join, nodes.calls_around(c.join))
    begin = nodes.at(c.begin)
    nodes.mark[begin[begin >= 0]] |= maxplus.BEGUN
    found.add_in_order(create, begin, nodes.time)
    found.add_in_order(nodes.at(c.end), join, nodes.time)
    if len(c):
        _unfinished_joins(model, nodes, found)
    return {ENDLESS: int(((join >= 0) & (c.end < 0)).sum())}


def _unfinished_joins(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    """Let joins that still wait when the recording ends wait for all threads of their process that are not known to
    have been joined: else a trace slice would last as long as it does, whatever these threads do in it."""
    c, calls = model.created_threads, model.get("call_instances")
    at = np.flatnonzero(is_in(model.facts, calls.call_path, JOINS) & ~np.isin(calls.enter, c.join_enter))
    leave = nodes.at(calls.exit[at])
    at, leave = at[leave >= 0], leave[leave >= 0]
    is_last = nodes.time[leave] == nodes.time[nodes.last_of(calls.location[at])]
    leave, waits = leave[is_last], calls.location[at[is_last]]
    end = nodes.at(c.end)
    running = np.flatnonzero((c.join < 0) & (end >= 0) & ~np.isin(c.location, waits))
    process = model.facts.process[np.concatenate([c.location[running], waits])].astype(np.int64)
    node = np.concatenate([end[running], leave])
    is_end = np.arange(node.size) < running.size
    # a join is left, and a thread that ends waits for nobody
    found.all_to_all(process, np.where(is_end, node, node - 1), node, is_end, ~is_end)


def _conditions(model: Model, nodes: Nodes, found: EdgeCollector) -> dict[str, int]:
    """Let waits for conditions return after the last signal before, of any thread of the process, since the condition
    of a signal is not recorded. Count waits for which nothing is known."""
    locks = model.lock_acquisitions
    at = np.flatnonzero(is_in(model.facts, locks.call_path, CONDITION))
    if not at.size:
        return {}
    tail = nodes.at(locks.signal[at])
    found.add(tail, nodes.at(locks.acquire[at]), is_inferred=True)
    # a thread that has released the mutex meanwhile is waited for, too (`_locks`)
    release, release_time = (column[at] for column in lock_order(locks))
    is_own = nodes.location_of(nodes.at(release)) == locks.location[at]
    is_known = (tail >= 0) | ((release >= 0) & ~is_own & (release_time >= locks.enter_time[at]))
    return {CONDITIONS: int((~is_known).sum())}


def _of_queues(model: Model) -> Mask:
    """Select the acquisitions of locks of work queues, which are used together with conditions: a faster run would not
    keep the order in which threads get work. Waits for conditions that nobody signals end with the lock; (n,) bool."""
    locks = model.lock_acquisitions
    waits = is_in(model.facts, locks.call_path, CONDITION) if len(locks) else np.zeros(0, bool)
    group, first = number(combine(locks.process, locks.lock))
    signalled = np.zeros(first.size, bool)
    signalled[group[waits & (locks.signal >= 0)]] = True
    return signalled[group] & ~(waits & (locks.signal < 0))


def _locks(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    locks = model.lock_acquisitions
    release, _ = lock_order(locks)
    kept = np.flatnonzero(~_of_queues(model))
    found.add_in_order(nodes.at(release[kept]), nodes.at(locks.acquire[kept]), nodes.time)
    # sections wait for their turn as for a lock
    ordered = model.ordered_sections
    found.add_in_order(nodes.at(ordered.previous), nodes.at(ordered.enter), nodes.time)


def _not_known(model: Model, nodes: Nodes, edges: Edges) -> dict[str, int]:
    """Count calls that have no edge though they may wait; calls on windows that have one are no longer kept as
    recorded."""
    n = len(nodes)
    is_reached, meets = np.zeros(n, bool), np.zeros(n, bool)
    # all wait for all through hubs, one process for another directly; edges are in the order of their tails
    of_hubs = edges.head[edges.start[n] :]
    is_reached[edges.head[edges.head < n]] = True
    meets[of_hubs[of_hubs < n]] = True
    is_call = nodes.role & kernels.IS_CALL > 0
    is_opaque = is_call & (nodes.kind == NodeClass.OPAQUE)
    nodes.kind[is_opaque & is_reached] = NodeClass.OTHER_MPI
    nodes.kind[is_opaque & meets] = NodeClass.COLLECTIVE
    # probes that do not wait are not counted
    may_wait = nodes.role & (kernels.MAY_WAIT | kernels.IS_IMPATIENT) == kernels.MAY_WAIT
    regions, profile = model.regions, model.profile
    on_cpu = model.locations.is_cpu[profile.location]
    entered = model.call_paths.region[profile.call_path[on_cpu]]

    def visits(mask: Mask) -> int:
        return int(profile.visits[on_cpu][mask[entered]].sum())

    return {
        UNKNOWN_PARTNERS: int((may_wait & ~is_reached).sum()),
        KEPT_AS_RECORDED: int((is_call & (nodes.kind == NodeClass.OPAQUE)).sum()),
        DEVICE_CALLS: visits(regions.device_call >= 0),
        SHMEM_CALLS: visits(regions.paradigm == "shmem"),
    }
