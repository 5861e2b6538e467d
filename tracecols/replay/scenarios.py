"""Gains by changes of a run: many scenarios in one sweep over the graph of a replay.

    runtimes = predict(trace.replay, [
        Scenario((without_transfer(),)),                                   # an ideal network
        Scenario((without_overhead(paths),)),                              # OpenMP and locks in a region cost nothing
        Scenario((without_waiting(paths),)),                               # nobody waits for others in a region
        Scenario((scaled(0.5, paths),)),                                   # twice as fast
        Scenario((as_peers(trace.replay, paths, location),)),              # as long as the mean of the other locations
    ])
    gains = (recorded_runtime(trace.replay) - runtimes) / resolution

A scenario is a sequence of rules. A rule changes some call paths and locations, by default all; factors of rules that
overlap multiply. Runtimes are ticks from the first return of MPI_Init to the last call of MPI_Finalize; without these,
of the whole recording. `trace.replay.call_paths_of("solve")` gives the call paths of a region and of what it calls.
Eight scenarios take one and a half times as long as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import AnalysisError
from tracecols.kernels import maxplus
from tracecols.replay.cell_sums import sum_by_cell
from tracecols.replay.conventions import AS_RECORDED, Conventions
from tracecols.replay.costs import delays
from tracecols.replay.graph import Graph
from tracecols.replay.nodes import TRANSFER, NodeClass
from tracecols.replay.replayable import Replayable
from tracecols.vectors import Ints, Mask
from tracecols.work.executors import side_by_side

OVERHEAD = (NodeClass.OPENMP, NodeClass.LOCK)
"""Classes of the time that OpenMP and locks take beyond waiting."""


class Rule(NamedTuple):
    """A change on some call paths of some locations."""

    call_paths: Mask | None = None
    """(n_call_paths,) bool, optional: the call paths in which the changed time is spent; by default all. The call paths
    below them have to be selected as well."""
    locations: Mask | None = None
    """(n_locations,) bool, optional: the locations; by default all."""
    computation: float | NDArray[np.float64] = 1.0
    """float or (n_locations,) float64: factor for computation, or one for each location."""
    transfer: float = 1.0
    """Factor for the time that MPI takes beyond waiting."""
    overhead: float = 1.0
    """Factor for the time that OpenMP and locks take beyond waiting."""
    is_waiting: bool = True
    """Whether calls wait for others."""

    def factors(self, location: Ints) -> NDArray[np.float64]:
        """Return the factors by class at some locations, where the rule holds; (n, 11) float64."""
        result = np.ones((location.size, maxplus.WAITING + 1))
        result[:, NodeClass.COMPUTATION] = np.asarray(self.computation)[location] if self.differs else self.computation
        result[:, TRANSFER] = self.transfer
        result[:, OVERHEAD] = self.overhead
        result[:, maxplus.WAITING] = float(self.is_waiting)
        return result

    @property
    def differs(self) -> bool:
        """Whether locations have factors of their own."""
        return isinstance(self.computation, np.ndarray)

    @property
    def changes_computation(self) -> bool:
        """Whether the rule changes computation."""
        return bool((np.asarray(self.computation) != 1).any())

    @property
    def changes_calls(self) -> bool:
        """Whether the rule changes anything else."""
        return self.transfer != 1 or self.overhead != 1 or not self.is_waiting


class Scenario(NamedTuple):
    """A run with changes."""

    rules: tuple[Rule, ...] = ()
    latency: float = 0.0
    """Additional seconds that every message takes, and every step of a collective operation."""
    bandwidth: float = np.inf
    """Bytes of a message per second."""
    conventions: Conventions = AS_RECORDED
    """The rules that are followed."""


def scaled(factor: float | NDArray[np.float64], call_paths: Mask | None = None, locations: Mask | None = None) -> Rule:
    """Scale the time of computation by a factor for all locations, or one for each."""
    return Rule(call_paths, locations, computation=factor)


def as_peers(replay: Replayable, call_paths: Mask, location: int) -> Rule:
    """Let a location compute on some call paths as long as the mean of the others that compute there; it keeps its time
    if there are none."""
    total = replay.computation_of(call_paths)
    others = np.delete(total, location)
    others = others[others > 0]
    locations = np.zeros(total.size, bool)
    locations[location] = True
    return Rule(
        call_paths,
        locations,
        computation=float(others.mean() / total[location]) if others.size and total[location] else 1.0,
    )


def balanced(replay: Replayable, rules: Sequence[Rule] = (), whole_run: bool = False) -> Rule:
    """Let the threads of every process compute as much as the mean of all processes during the runtime, after some
    rules, and the streams of its devices execute as much as the mean of those that execute anything."""
    time, process = replay.nodes.time, np.asarray(replay.model.facts.process, np.int64)
    begin, end = replay.window(time, whole_run)
    c = sum_by_cell(replay.computation, replay.nodes, (time > begin) & (time <= end), len(replay.call_paths))
    locations = replay.model.locations
    ticks = c.ticks.astype(np.float64)
    for rule in rules:
        factor = np.broadcast_to(np.asarray(rule.computation, np.float64), process.shape)[c.location]
        where = np.ones(ticks.size, bool) if rule.call_paths is None else rule.call_paths[c.call_path]
        where &= True if rule.locations is None else rule.locations[c.location]
        ticks[where] *= factor[where]
    result = np.ones(process.size)
    for kind in (locations.is_cpu, locations.is_device):
        mine = np.flatnonzero(kind[c.location])
        of = process[c.location[mine]]
        total = np.bincount(of, ticks[mine], int(process.max(initial=-1)) + 1)
        computes = np.bincount(of, c.ticks[mine], total.size) > 0
        if computes.any():
            factor = np.divide(total[computes].mean(), total, out=np.ones(total.size), where=total > 0)
            result[kind] = factor[process[kind]]
    return Rule(computation=result)


def without_transfer(call_paths: Mask | None = None, locations: Mask | None = None) -> Rule:
    """Let MPI take no time but waiting: an ideal network."""
    return Rule(call_paths, locations, transfer=0.0)


def without_overhead(call_paths: Mask | None = None, locations: Mask | None = None) -> Rule:
    """Let OpenMP and locks take no time but waiting."""
    return Rule(call_paths, locations, overhead=0.0)


def without_waiting(call_paths: Mask | None = None, locations: Mask | None = None) -> Rule:
    """Let calls return without waiting for others: for messages, in barriers, for locks."""
    return Rule(call_paths, locations, is_waiting=False)


def predict(replay: Replayable, scenarios: Sequence[Scenario]) -> Ints:
    """Return the runtimes of scenarios in ticks, several in one sweep of the graph (`Trace.replay`). Raises
    AnalysisError if the trace cannot be replayed, or times could exceed 64 bits."""
    result = np.zeros(len(scenarios), np.int64)
    for conventions in dict.fromkeys(scenario.conventions for scenario in scenarios):
        some = [i for i, scenario in enumerate(scenarios) if scenario.conventions == conventions]
        result[some] = runtimes_of(replay, replay.graph_of(conventions), [scenarios[i] for i in some])
    return result


def runtimes_of(replay: Replayable, graph: Graph, scenarios: Sequence[Scenario], fine: int = 1) -> Ints:
    """Return the runtimes of scenarios of one graph; (n_scenarios,) int64, with `fine` units for each tick."""

    def of(some: Sequence[Scenario]) -> Ints:
        replay.model.executor.go_on()
        changes = changes_of(replay, some, fine)
        if fine == 1:
            check_range(graph, changes)
        begin, end, _ = graph.run(changes)
        runtime = end - begin
        return runtime if graph.tasks is None or fine > 1 else _with_tasks_moved(replay, graph, some, runtime)

    sweeps = [scenarios[at : at + maxplus.LANES] for at in range(0, len(scenarios), maxplus.LANES)]
    return np.concatenate([np.zeros(0, np.int64), *side_by_side(replay.model.jobs, of, sweeps)])


def _with_tasks_moved(replay: Replayable, graph: Graph, scenarios: Sequence[Scenario], runtime: Ints) -> Ints:
    """Return runtimes that are shorter if threads take tasks as they become free, given those with all tasks at the
    threads that executed them."""
    result = runtime.copy()
    for k, scenario in enumerate(scenarios):
        changes = changes_of(replay, [scenario])
        moved = graph.with_tasks_moved(graph.run(changes, is_whole=True)[2])
        if moved is not None:
            begin, end, _ = moved.run(changes)
            result[k] = min(result[k], int((end - begin)[0]))
    return result


def recorded_runtime(replay: Replayable) -> int:
    """Return the runtime of the recorded run, in ticks."""
    return replay.runtime(replay.nodes.time)


def times_of(replay: Replayable, scenario: Scenario) -> Ints:
    """Return the times of all nodes in a scenario; (n_nodes,) int64 ticks. Raises AnalysisError if they could exceed 64
    bits."""
    graph: Graph = replay.graph_of(scenario.conventions)
    changes = changes_of(replay, [scenario])
    check_range(graph, changes)
    return graph.run(changes, is_whole=True)[2][: len(graph.nodes)]


def check_range(graph: Graph, changes: maxplus.Changes) -> None:
    """Refuse scenarios in which times could exceed 64 bits: no path takes longer than all of the run times the largest
    factor, and the transfer of all messages, one after the other. Raises AnalysisError."""
    factor = changes.factor.max(initial=1.0)
    if factor == 1 and not changes.delay.size:
        return
    with np.errstate(over="ignore"):
        longest = np.full(changes.factor.shape[0], factor * graph.span)
        if changes.delay.size:
            steps, length = np.maximum(graph.edges.steps, 0).astype(np.float64), graph.edges.length
            latency, bandwidth, resolution = changes.delay.T
            longest += (steps.sum() * latency + (steps @ length) / bandwidth) * resolution
    if not (longest < -maxplus.NEVER).all():
        raise AnalysisError(
            "the predicted times could exceed 64 bits\n  give smaller factors, a smaller latency or a larger bandwidth"
        )


def changes_of(replay: Replayable, scenarios: Sequence[Scenario], fine: int = 1) -> maxplus.Changes:
    """Return scenarios, `maxplus.LANES` at most, in the form that the sweep takes, with `fine` ticks of the result for
    each recorded one."""
    model, nodes = replay.model, replay.nodes
    n_call_paths, n_locations = len(replay.call_paths), model.n_locations
    cells = [cells_of(s.rules, n_call_paths, n_locations) for s in scenarios]
    factor = np.ones((len(cells), max(f.shape[0] for f, _, _ in cells), maxplus.WAITING + 1))
    for k, (f, _, _) in enumerate(cells):
        factor[k, : f.shape[0]] = f
    is_one = factor.shape[1] == 1
    rules = [rule for scenario in scenarios for rule in scenario.rules]
    nothing, no_rows = np.zeros(0, np.int32), (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))
    in_computation = any(rule.changes_computation for rule in rules)
    needs_paths = any(rule.call_paths is not None and rule.changes_calls for rule in rules)
    return maxplus.Changes(
        factor,
        nothing.reshape(len(cells), 0) if is_one else np.stack([path for _, path, _ in cells]),
        nothing.reshape(len(cells), 0) if is_one else np.stack([location for _, _, location in cells]),
        replay.call_path if needs_paths else nothing,
        nodes.location_start,
        *(replay.computation.rows() if in_computation else no_rows),
        delays([s.latency for s in scenarios], [s.bandwidth for s in scenarios], model.facts.resolution),
        np.int64(fine),
        maxplus.NO_LESS,
    )


def cells_of(
    rules: Sequence[Rule], n_call_paths: int, n_locations: int
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]:
    """Divide call paths and locations into cells for which the same rules hold; return the factors, (n_cells, 11), the
    cell of each call path, the last one for no call path, and that of each location."""
    everywhere, anyone = np.ones(n_call_paths + 1, bool), np.ones(n_locations, bool)
    on_paths = [everywhere if r.call_paths is None else np.append(r.call_paths, False) for r in rules]
    at_locations = [anyone if r.locations is None else r.locations for r in rules]
    own = [np.asarray(r.computation) for r in rules if r.differs]
    paths, path_class = _classes(on_paths, n_call_paths + 1)
    locations, location_class = _classes([*at_locations, *own], n_locations)
    factor = np.ones((paths.size, locations.size, maxplus.WAITING + 1))
    for rule, on_path, at_location in zip(rules, on_paths, at_locations, strict=True):
        holds = on_path[paths][:, None] & at_location[locations][None, :]
        factor *= np.where(holds[:, :, None], rule.factors(locations)[None, :, :], 1.0)
    n_classes = max(locations.size, 1)
    return factor.reshape(-1, maxplus.WAITING + 1), (path_class * n_classes).astype(np.int32), location_class


def _classes(columns: Sequence[NDArray[np.generic]], n: int) -> tuple[Ints, NDArray[np.int32]]:
    """Return one element of each class in which all columns are the same, and the class of each element."""
    number = np.zeros(n, np.int64)
    for column in columns:
        _, values = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
    _, first = np.unique(number, return_index=True)
    return first, number.astype(np.int32)
