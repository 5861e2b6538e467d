"""The replay of a trace as findings need it: what a change of weights or edges would gain, and whose waits it would
end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.edges import EdgeCollector, Edges
from tracecols.findings.conditions import queue_locks, signal_edges
from tracecols.findings.polling import collapsed
from tracecols.findings.windows import window_edges
from tracecols.once import once
from tracecols.replay.events import Computation, events_of, nodes_of
from tracecols.replay.graph import Graph
from tracecols.replay.nodes import NodeClass
from tracecols.replay.replay import Replay

Rows = NDArray[np.int64]

CUT = -(1 << 61)
"""Lag of an edge that keeps nothing waiting."""

RUN_TIME = (
    "mpi",
    "openmp",
    "pthread",
    "shmem",
    "measurement_system",
    "openmp_target",
    "openacc",
    "cuda",
    "hip",
    "opencl",
)
"""Paradigms whose regions are no code of the program."""

IN_CONSTRUCTS = (NodeClass.OPENMP, NodeClass.LOCK, NodeClass.THREADS)
"""Classes of the time that threads spend in constructs: what remains of it when others wait no longer is overhead."""


@dataclass(frozen=True, eq=False)
class Change:
    """A change of the run: less weight of some nodes, and edges that keep nothing waiting.

    Attributes
    ----------
    node : (n,) int64
        Nodes, each at most once.
    less : (n,) int64
        Ticks by which their weights shrink; negative where they grow.
    cut : (n_cut,) int64
        Edges that keep nothing waiting.
    """

    node: Rows = field(default_factory=lambda: np.zeros(0, np.int64))
    less: Rows = field(default_factory=lambda: np.zeros(0, np.int64))
    cut: Rows = field(default_factory=lambda: np.zeros(0, np.int64))


class Scenarios:
    """A replay, prepared for many small changes.

    Waits for conditions have edges from the thread that signals, and loops of MPI_Test are one wait each.

    Attributes
    ----------
    replay : Replay
    graph : Graph
        That of the replay, with the edges that it does not have.
    weight, lag : (n_all,), (n_edges,) int64
        Weights of nodes and hubs, lags of edges.
    call_path : (n_nodes,) int64
        Call path in which the time before each node is spent; -1 for none.
    in_window : (n_nodes,) bool
        Nodes after the first return of MPI_Init, up to the last call of MPI_Finalize, but those of start and end.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay, self.model = replay, replay.model
        self.call_path, signals = _call_paths(replay)
        of_signals, of_windows = signal_edges(replay, signals), window_edges(replay)
        without = queue_locks(replay) if of_signals[0].size else np.zeros(len(replay.graph.edges), bool)
        more = tuple(np.concatenate(both) for both in zip(of_signals, of_windows, strict=True))
        self.graph, self.lag = _with_edges(replay.graph, (more[0], more[1], more[2]), without)
        self.weight = collapsed(replay, self.graph, self.lag, self.call_path)
        nodes = self.graph.nodes
        begin, end = replay.window(nodes.time)
        self.in_window = (nodes.time > begin) & (nodes.time <= end) & (nodes.kind != NodeClass.START)
        self.time = self.sweep()
        self.runtime = replay.runtime(self.time)

    @property
    def computation(self) -> Computation:
        """The computation before each node, by call path."""
        return self.replay.computation

    @once
    def user_call_path(self) -> Rows:
        """By call path the nearest one above, or itself, that enters code of the program; (n_call_paths,) int64."""
        paths, regions = self.model.call_paths, self.model.regions
        is_run_time = np.isin(regions.paradigm, RUN_TIME)[paths.region] if len(paths) else np.zeros(0, bool)
        result = np.arange(len(paths))
        parent = paths.parent.astype(np.int64)
        while True:
            move = is_run_time[result] & (parent[result] >= 0)
            if not move.any():
                return result
            result = np.where(move, parent[result], result)

    @once
    def user_of_node(self) -> Rows:
        """The same of the call path before each node; (n_nodes,) int64, -1 for none."""
        return pick(self.user_call_path, self.call_path)

    def sweep(self, changes: Iterable[Change] = ()) -> Rows:
        """Return the times of the nodes after some changes together; (n_nodes,) int64."""
        return self.graph.sweep(*self._changed(changes))

    def _changed(self, changes: Iterable[Change]) -> tuple[Rows, Rows]:
        weight, lag = self.weight, self.lag
        for c in changes:
            if c.node.size:
                weight = weight.copy()
                weight[c.node] -= c.less
            if c.cut.size:
                lag = lag.copy()
                lag[c.cut] = CUT
        return np.maximum(weight, 0), lag

    def gain(self, change: Change, besides: Sequence[Change] = ()) -> int:
        """Return by how many ticks a change makes the run shorter, also after others."""
        before = self.runtime if not besides else self.replay.runtime(self.sweep(besides))
        return before - self.replay.runtime(self.sweep([*besides, change]))

    def losses(self, changes: Sequence[Change] = ()) -> Rows:
        """Return the ticks that are no computation before each node after some changes; (n_nodes,) int64.

        In front of nodes of computation that is waiting only, elsewhere all.
        """
        lost, idle = self.lost_and_idle(changes)
        return lost + idle

    def lost_and_idle(self, changes: Sequence[Change] = ()) -> tuple[Rows, Rows]:
        """Return the same, and apart from it how long threads wait for the begin of their teams."""
        weight, lag = self._changed(changes)
        time = self.graph.sweep(weight, lag)
        nodes = self.graph.nodes
        n = len(nodes)
        since = np.zeros(n, np.int64)
        since[1:] = time[1:] - time[:-1]
        since[nodes.is_first] = 0
        # threads that begin in a team for the first time idle since the start
        new = nodes.is_first & self.begins_in_team
        since[new] = np.maximum(time[new] - self.replay.window(time)[0], 0)
        waits = np.maximum(np.where(self.in_window, since - weight[:n], 0), 0)
        idle = np.where(self.begins_in_team, waits, 0)
        is_computation = nodes.kind == NodeClass.COMPUTATION
        lost = np.where(is_computation, waits, np.maximum(np.where(self.in_window, since, 0), 0)) - idle
        return np.maximum(lost, 0), idle

    @once
    def begins_in_team(self) -> NDArray[np.bool_]:
        """Select the nodes at which threads other than the forking one begin in a team; (n_nodes,) bool."""
        nodes = self.graph.nodes
        result = np.zeros(len(nodes), bool)
        result[nodes.team_begins[nodes.team_begins >= 0]] = True
        master = self.model.locations.master
        return np.asarray(result & (master[nodes.location] != nodes.location), np.bool_)

    def less_computation(self, rows: Rows, less: NDArray[np.floating[Any]]) -> Change:
        """Return the change that takes ticks from rows of the computation."""
        node = self.computation.node[rows]
        total = np.bincount(node, less, len(self.graph.nodes))
        changed = np.flatnonzero(total)
        return Change(changed, np.rint(total[changed]).astype(np.int64))

    def without_weight(self, nodes: Rows) -> Change:
        """Return the change in which some nodes take no time beyond waiting."""
        return Change(nodes, self.weight[nodes])


def _with_edges(graph: Graph, more: tuple[Rows, Rows, Rows], without: NDArray[np.bool_]) -> tuple[Graph, Rows]:
    """Return a graph with further edges (tails, heads, lags) and without some others, and the lags of all; unchanged if
    the further ones contradict others."""
    tail, head, lag = more
    if not tail.size:
        return graph, graph.lag
    original, graph = graph, Graph(graph.nodes, graph.edges.where(~without), graph.n_hubs, graph.time, graph.counts)
    found = EdgeCollector(graph.time.size)
    found.add(tail, head, is_inferred=True)
    both = Edges(
        *(
            np.concatenate([getattr(e, name) for e in (graph.edges, found.edges())])
            for name in Edges.__dataclass_fields__
        )
    )
    result = Graph(graph.nodes, both, graph.n_hubs, graph.time, graph.counts)
    lags = np.concatenate([graph.lag, lag])
    result.lag = lags
    result.weight = weights_of(result, lags)
    if (result._swept(result.weight, lags)[1] >= 0).any():
        return original, original.lag
    return result, lags


def weights_of(graph: Graph, lag: Rows, time: Rows | None = None) -> Rows:
    """Return the weights with which a sweep gives the recorded times again; (n_all,) int64."""
    from tracecols.kernels import replay as kernels

    time = graph.time if time is None else time
    base = np.empty(time.size, np.int64)
    kernels.find_bases(graph.nodes.is_first, graph.edges.tail, graph.edges.head, lag, time, base)
    return time - base


def _call_paths(replay: Replay) -> tuple[Rows, list[tuple[int, Rows, Rows]]]:
    """Return the call path before each node, and the calls that signal conditions: location, row counted from its
    first event, and time; one pass over all events."""
    model, nodes = replay.model, replay.graph.nodes
    result = np.full(len(nodes), -1, np.int64)
    signals: list[tuple[int, Rows, Rows]] = []
    lower = model.regions.lower
    names = ("pthread_cond_signal", "pthread_cond_broadcast")
    signalling = np.array([name in names for name in lower], bool)[model.call_paths.region]
    for location in np.unique(nodes.location).tolist():
        e = events_of(model, nodes, location)
        low, high = nodes_of(nodes, location)
        before = np.maximum(e.node - 1, 0)
        result[low:high] = np.where(e.node > 0, e.call_path[before], -1)
        # a thread that begins in a team was nowhere: what that takes belongs to what it does next
        mine = result[low:high]
        nowhere = np.flatnonzero(mine[:-1] < 0)
        mine[nowhere] = mine[nowhere + 1]
        if signalling.any():
            inside = np.append(signalling, False)[e.call_path]
            at = np.flatnonzero(inside & ~np.append(False, inside[:-1]))
            signals.append((location, at.astype(np.int64), e.time[at]))
    return result, signals
