"""The replay of a trace for findings: the gain of a change of weights or edges, and the waits that it would end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import bounded
from tracecols.findings.polling import collapsed
from tracecols.findings.progress import with_progress
from tracecols.kernels import maxplus
from tracecols.kernels import replay as kernels
from tracecols.kernels.maxplus import BEGUN, CUT
from tracecols.kernels.replay import IS_CALL
from tracecols.once import once
from tracecols.patterns.candidates import Merged
from tracecols.replay.events import regions_of_calls
from tracecols.replay.graph import Graph
from tracecols.replay.nodes import NodeClass
from tracecols.replay.placement import PlacedTasks
from tracecols.replay.replay import Replay
from tracecols.vectors import Ints, Mask
from tracecols.work.executors import side_by_side

MOST_NODES = 2
"""Maximum number of changed nodes in one sweep, per node of the graph; 13 B for each."""

MOST_TASKS = 1 << 15
"""Maximum number of tasks that threads may take over from each other in the replay of each change."""

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
"""Paradigms whose regions are not code of the program."""


@dataclass(frozen=True, eq=False)
class Change:
    """A change of the run: less weight of some nodes, edges that no longer cause waits, and edges that lead
    elsewhere."""

    node: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n,) int64: nodes, each at most once."""
    less: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n,) int64: ticks by which their weights shrink; negative where they grow."""
    cut: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n_cut,) int64: edges that no longer cause waits."""
    moved: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    to: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """`moved` and `to`: (n_moved,) int64, edges that lead to other nodes, and these nodes."""
    later: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n_moved,) int64: ticks by which the lags of the moved edges grow; empty if they stay."""


def together(changes: Sequence[Change]) -> Change:
    """Return the change that reduces the weights of nodes, and cuts edges, as several changes do together."""
    node, of = np.unique(np.concatenate([c.node for c in changes]), return_inverse=True)
    less = np.zeros(node.size, np.int64)
    np.add.at(less, of, np.concatenate([c.less for c in changes]))
    return Change(node, less, cut=distinct(np.concatenate([c.cut for c in changes])))


class Scenarios:
    """A replay, prepared for many small changes.

    In it, each loop of MPI_Test is a single wait, and calls of MPI wait for processes outside of MPI.

    Attributes
    ----------
    replay : Replay
    graph : Graph
        The graph of the replay, with edges from processes that are outside of MPI (`findings.progress`).
    progress : (n_nodes,) int64
        Ticks for which nodes wait for such a process only.
    computation : Computation
        The computation before each node, by call path.
    calls, call_region : (n_calls,) int64, int32
        The nodes at which outermost MPI calls end, and their regions; -1 unknown.
    tail : (n_edges,) int32
        Where edges come from.
    weight, lag : (n_all,), (n_edges,) int64
        Ticks: weights of nodes and hubs, lags of edges.
    locations : (n,) int64
        The locations that have nodes.
    process : (n_locations,) int64
        The process of each location.
    resolution : int
        Ticks per second.
    call_path : (n_nodes,) int64
        Call path in which the time before each node is spent; -1 for none.
    in_window : (n_nodes,) bool
        Nodes after the first return of MPI_Init, up to the last call of MPI_Finalize, except those of start and end.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay, self.model, self.call_paths = replay, replay.model, replay.call_paths
        self.call_path = replay.call_path.astype(np.int64)
        self.resolution = self.model.facts.resolution
        self.process = np.asarray(self.model.facts.process, np.int64)
        recorded, self.computation = replay.graph, replay.computation
        self.graph, self.progress = with_progress(self.model, recorded, replay.runtime(replay.nodes.time))
        nodes = self.graph.nodes
        self.locations = np.flatnonzero(np.diff(nodes.location_start))
        self.calls = nodes.with_role(IS_CALL)
        self.call_region = regions_of_calls(self.model, self.calls, self.computation)
        self.tail, self.lag = self.graph.edges.tail, self.graph.lags
        self.weight = collapsed(self.model, self.graph, self.computation, self.call_path, self.calls, self.call_region)
        begin, end = replay.window(nodes.time)
        self.in_window = (nodes.time > begin) & (nodes.time <= end) & (nodes.kind != NodeClass.START)
        self.time = self.sweep()
        self.runtime = replay.runtime(self.time)

    @once
    def movable(self) -> PlacedTasks | None:
        """The explicit tasks that threads take as they become free; None if there are none, or more than `MOST_TASKS`,
        since each change needs an order of its own."""
        tasks = self.graph.tasks
        return tasks if tasks is not None and tasks.units.begin.size <= MOST_TASKS else None

    @once
    def merged(self) -> Merged:
        """The call paths without running numbers of steps."""
        return Merged(self.model, distinct(self.model.locations.master[self.model.locations.is_cpu]))

    @once
    def user_call_path(self) -> Ints:
        """For each call path, the nearest one above, or itself, that enters code of the program; (n_call_paths,)
        int64."""
        paths, regions = self.call_paths, self.model.regions
        of_run_time = np.isin(regions.paradigm, RUN_TIME) | (regions.device_call >= 0)
        is_run_time = of_run_time[paths.region] if len(paths) else np.zeros(0, bool)
        result = np.arange(len(paths))
        parent = paths.parent.astype(np.int64)
        while True:
            move = is_run_time[result] & (parent[result] >= 0)
            if not move.any():
                return result
            result = np.where(move, parent[result], result)

    @once
    def user_of_node(self) -> Ints:
        """`user_call_path` of the call path before each node; (n_nodes,) int64, -1 for none."""
        return pick(self.user_call_path, self.call_path)

    def sweep(self, changes: Iterable[Change] = ()) -> Ints:
        """Return the times of the nodes after some changes together; (n_nodes,) int64."""
        changes = list(changes)
        graph = self._ordered(changes)
        return graph.sweep(*self._changed(changes, graph))

    def _ordered(self, changes: Sequence[Change]) -> Graph:
        """Return the graph with edges moved as some changes say; the unchanged graph if that contradicts other
        edges."""
        g, moved = self.graph, [c for c in changes if c.moved.size]
        if not moved:
            return g
        head = g.edges.head.copy()
        for c in moved:
            head[c.moved] = c.to
        result = replace(g, edges=replace(g.edges, head=head))
        return g if result.stuck.any() else result

    def _changed(self, changes: Sequence[Change], graph: Graph) -> tuple[Ints, Ints]:
        """Return weights, which may be negative, and lags after some changes, given the graph with their moved edges
        (`_ordered`); lags of edges that cannot be moved stay."""
        weight = self.weight.copy() if any(c.node.size for c in changes) else self.weight
        lag = self.lag.copy() if any(c.cut.size or c.later.size for c in changes) else self.lag
        for c in changes:
            weight[c.node] -= c.less
            if c.later.size and graph is not self.graph:
                lag[c.moved] += c.later
            lag[c.cut] = CUT
        return weight, lag

    def gain(self, change: Change) -> int:
        """Return by how many ticks a change shortens the run."""
        return self.gains([change])[0]

    def gains(self, changes: Sequence[Change], besides: Sequence[Change] = ()) -> list[int]:
        """Return by how many ticks each of some changes shortens the run, after the changes `besides`; several share a
        sweep."""
        together = [i for i, c in enumerate(changes) if not c.moved.size]
        # the run without any of them is one more scenario of the sweep
        runtimes = self._runtimes([*(changes[i] for i in together), *([Change()] if besides else [])], besides)
        before = self._with_tasks_moved(Change(), besides, runtimes.pop()) if besides else self.runtime
        runtime = dict(zip(together, runtimes, strict=True))
        for i, c in enumerate(changes):
            # moved edges need a graph of their own
            moved = [*besides, Change(moved=c.moved, to=c.to, later=c.later)] if c.moved.size else besides
            if c.moved.size:
                (runtime[i],) = self._runtimes([c], moved)
            runtime[i] = self._with_tasks_moved(c, moved, runtime[i])
        return [before - runtime[i] for i in range(len(changes))]

    def _with_tasks_moved(self, change: Change, besides: Sequence[Change], runtime: int) -> int:
        """Return the runtime after a change and those besides it if threads take tasks as they become free, unless it
        is shorter with all tasks at the threads that executed them, `runtime`."""
        if self.movable is None:
            return runtime
        edge, to, later = self.movable.placed(self.graph.edges, self.time, self.sweep([*besides, change]))
        return min(runtime, *self._runtimes([change], [*besides, Change(moved=edge, to=to, later=later)]))

    def _runtimes(self, changes: Sequence[Change], besides: Sequence[Change]) -> list[int]:
        """Return the runtimes after each of some changes, whose `moved` is ignored, and those `besides`; several share
        a sweep."""
        graph = self._ordered(besides)
        weight, lag = self._changed(besides, graph)

        def of(together: Sequence[Change]) -> list[int]:
            less = less_of(together, weight.size, lag.size)
            return graph.runtimes(weight, lag, less, len(together)).tolist()

        sizes = np.array([c.node.size for c in changes], np.int64)
        sweeps = [
            changes[at : min(at + maxplus.LANES, some.stop)]
            for some in bounded(sizes, MOST_NODES * weight.size)
            for at in range(some.start, some.stop, maxplus.LANES)
        ]
        return list(chain.from_iterable(side_by_side(self.model.jobs, of, sweeps)))

    @once
    def recorded_losses(self) -> Ints:
        """The ticks other than computation before each node in the recorded run; (n_nodes,) int64."""
        return self.losses()

    def losses(self, changes: Sequence[Change] = ()) -> Ints:
        """Return the ticks other than computation before each node after some changes; (n_nodes,) int64.

        Before nodes of computation these are waits only, before others all ticks.
        """
        losses = np.empty(len(self.graph.nodes), np.int64)
        kernels.find_losses(self._places, self.moments(changes), losses)
        return losses

    def moments(self, changes: Sequence[Change] = ()) -> kernels.Moments:
        """Return the times and weights after some changes, and when the window begins."""
        graph = self._ordered(changes)
        weight, lag = self._changed(changes, graph)
        time = graph.sweep(weight, lag) if changes else self.time
        return kernels.Moments(time, weight, self.replay.window(time)[0])

    def less_lost(self, before: kernels.Moments, after: kernels.Moments) -> tuple[Ints, Ints]:
        """Return the nodes before which the lost time differs after further changes, (n,), and (3, n) ticks: how much
        less is lost, how much less threads wait for the begin of their teams, and the part of the former that is not
        waiting."""
        n = len(self.graph.nodes)
        node, less = np.empty(n, np.int64), np.empty((3, n), np.int64)
        found = kernels.compare_losses(self._places, before, after, node, less)
        return node[:found], less[:, :found]

    @once
    def _places(self) -> kernels.Places:
        nodes = self.graph.nodes
        return kernels.Places(nodes.location_start, nodes.kind, self.in_window, self.begins_in_team)

    def distinct(self, nodes: NDArray[np.integer[Any]]) -> Ints:
        """Return the distinct nodes and hubs among some; (n,) int64, ascending."""
        result = np.zeros(self.weight.size, bool)
        result[nodes] = True
        return np.flatnonzero(result)

    def in_locks(self, acquisitions: Mask | None = None) -> Mask:
        """Select the nodes before which a location holds a lock, in some acquisitions or all; (n_all,) bool."""
        locks, n = self.model.lock_acquisitions, self.weight.size
        begin, end = self.graph.nodes.at(locks.acquire), self.graph.nodes.at(locks.release)
        known = (begin >= 0) & (end >= 0) if acquisitions is None else acquisitions & (begin >= 0) & (end >= 0)
        begun, ended = (np.bincount(of[known] + 1, minlength=n + 1)[:n] for of in (begin, end))
        return np.asarray(np.cumsum(begun - ended) > 0)

    @once
    def begins_in_team(self) -> Mask:
        """Select the nodes at which threads other than the forking one begin in a team; (n_nodes,) bool."""
        nodes = self.graph.nodes
        # some recorders record an event of the thread before that of the team
        of_team = (nodes.kind == NodeClass.OPENMP) | (nodes.is_first & (nodes.kind == NodeClass.COMPUTATION))
        is_other = self.model.locations.master[nodes.location] != nodes.location
        return (nodes.mark & BEGUN > 0) & of_team & is_other

    def less_computation(self, of: NDArray[np.integer[Any]], less: NDArray[Any]) -> Change:
        """Return the change that subtracts ticks from rows of the computation, given the node of each, ascending."""
        return self.less_shares(of, np.array([of.size]), np.ones(1), np.asarray(less, np.float64))

    def less_shares(
        self, of: NDArray[np.integer[Any]], n_rows: Ints, share: NDArray[np.float64], ticks: NDArray[Any]
    ) -> Change:
        """Return the change that subtracts a share of the ticks of rows of the computation, given the node of each,
        ascending: share[0] of the first n_rows[0] rows, and so on."""
        most = min(of.size, len(self.graph.nodes))
        node, total = np.empty(most, np.int64), np.empty(most)
        n = kernels.sum_shares(of, n_rows, share, ticks, node, total)
        changed = np.flatnonzero(total[:n])
        return Change(node[changed], np.rint(total[changed]).astype(np.int64))

    def without_weight(self, nodes: Ints) -> Change:
        """Return the change in which some nodes take no time beyond waiting."""
        return Change(nodes, self.weight[nodes])


def less_of(changes: Sequence[Change], n_all: int, n_edges: int) -> maxplus.Less:
    """Convert changes, each a scenario of its own, to the input of the sweep."""
    start, n = _starts([c.node for c in changes], n_all)
    cut_start, n_cut = _starts([c.cut for c in changes], n_edges if any(c.cut.size for c in changes) else -1)
    less = maxplus.Less(start, np.empty(n, np.uint8), np.empty(n, np.int64), cut_start, np.empty(n_cut, np.uint8))
    at, cut_at = start.copy(), cut_start.copy()
    for k, c in enumerate(changes):
        maxplus.place_less(c.node, c.less, k, at, less)
        maxplus.place_cuts(c.cut, k, cut_at, less)
    return less


def _starts(parts: Sequence[Ints], n: int) -> tuple[NDArray[np.int32], int]:
    """Return the offset of the first entry of each of n nodes or edges, (n + 1,) with the number of entries at the end,
    and this number."""
    stop = np.zeros(n + 1, np.int32)
    for part in parts:
        maxplus.count_tails(part, stop)
    start = -stop
    np.cumsum(stop, out=stop)
    start += stop
    return start, int(stop[-1]) if stop.size else 0
