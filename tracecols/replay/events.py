"""Between the nodes of a replay: computation by call path, and the new times of all other events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import bounded
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.enhance.scan.instances import WALKED, scan_stacks, walk_stacks
from tracecols.enhance.scan.location_scan import ACTION
from tracecols.enhance.scan.paths import outermost_of
from tracecols.kernels import replay as kernels
from tracecols.kernels.actions import POP, PUSH
from tracecols.kernels.arrays import trimmed
from tracecols.model.model import Model
from tracecols.once import once
from tracecols.replay.nodes import Nodes, mpi_regions, runs_of_locations
from tracecols.replay.tasks import TASK_CHANGES, call_path_before
from tracecols.vectors import Ints, Mask
from tracecols.work.executors import side_by_side


class LocationEvents(NamedTuple):
    """The events of a location, and its call path from each of them on."""

    time: Ints
    """(n,): ticks, never decreasing."""
    call_path: NDArray[np.int32]
    """(n,): from the event on; -1 for none."""
    node: Ints
    """(n_nodes,): events that are nodes."""
    first_node: int
    """Number of the first of these nodes among all."""


def events_of(model: Model, nodes: Nodes, location: int) -> LocationEvents:
    """Read the events of a location, with their call paths; 40 B per event."""
    columns = scan_stacks(model.facts, model.scans, model.team_instances, location)
    own = model.call_paths.path_of(columns["call_path"])
    call_path = _call_path_after(model.call_paths.whole, columns["kind"], own)
    first = int(model.facts.first_rows[location])
    time = model.order.times_of(first, columns["time"])
    node = nodes.rows_between(first, first + time.size) - first
    return LocationEvents(time, call_path.astype(np.int32), node, int(nodes.location_start[location]))


def _call_path_after(paths: CallPaths, kind: NDArray[np.uint8], own: Ints) -> Ints:
    """Return the call path that a location is in after each of its events, given the call paths of `scan_stacks`."""
    leaves = ACTION[kind] == POP
    result: Ints = np.where(leaves, pick(paths.parent.astype(np.int64), np.where(leaves, own, -1)), own)
    # after the switch to another task the location is where that task continues: on the call path before the next event
    switches = np.flatnonzero(np.isin(kind[:-1], TASK_CHANGES))
    result[switches] = call_path_before(paths, kind, own)[switches + 1]
    return result


@dataclass(frozen=True, eq=False)
class Computation:
    """The computation before the nodes of a trace: a row for each node and call path; the call paths of the nodes."""

    start: NDArray[np.int32]
    """(n_nodes + 1,): first row of every node."""
    call_path: NDArray[np.int32]
    """(n,)"""
    ticks: Ints
    """(n,)"""
    before_node: NDArray[np.int32]
    """(n_nodes,): call path that the location is in before every node; -1 none."""
    location_of_node: NDArray[np.int32]
    """(n_nodes,)"""

    @once
    def location(self) -> NDArray[np.int32]:
        """The location of every row; (n,) int32."""
        return np.repeat(self.location_of_node, np.diff(self.start))

    @once
    def node(self) -> Ints:
        """The node of every row; (n,) int64."""
        return np.repeat(np.arange(self.before_node.size), np.diff(self.start))

    def rows(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Ints]:
        """Return the rows in the form that the sweep takes."""
        return self.start, self.call_path, self.ticks


def regions_of_calls(model: Model, calls: Ints, computation: Computation) -> NDArray[np.int32]:
    """Return the regions of outermost MPI calls, by the nodes at which they end; -1 unknown."""
    paths = model.call_paths.whole
    is_mpi = mpi_regions(model.regions)[paths.region] if len(paths) else np.zeros(0, bool)
    outermost = outermost_of(is_mpi, paths.end)
    return pick(paths.region, pick(outermost, computation.before_node[calls])).astype(np.int32)


OfNodes = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Columns of `Computation` by node: the number of rows, and the call path before the node."""

DOES = np.where(ACTION == PUSH, kernels.ENTERS, np.where(ACTION == POP, kernels.LEAVES, 0)).astype(np.uint8)
"""Effect of each kind of event on the call path of a location (`kernels.replay`)."""
DOES[list(TASK_CHANGES)] = kernels.CHANGES_TASK


def find_computation(model: Model, nodes: Nodes) -> Computation:
    """Add up computation by node and call path in a slice of a trace, given its nodes: one walk over its events, of
    groups of locations side by side; 16 B are kept per node and call path before it."""
    n = len(nodes)
    by_node = np.zeros(n, np.int32), np.full(n, -1, np.int32)
    locations = np.flatnonzero(np.diff(nodes.location_start))
    n_events = model.facts.store.n_events[locations]
    groups = bounded(n_events, max(WALKED, -(-int(n_events.sum()) // model.jobs)))
    walks = side_by_side(model.jobs, lambda some: _computation_of(model, nodes, locations[some], by_node), groups)
    call_path, ticks = _concatenated(list(walks))
    n_rows, before_node = by_node
    return Computation(_starts(n_rows), call_path, ticks, before_node, nodes.location)


RowsOfPaths = tuple[NDArray[np.int32], Ints]
"""Call path and ticks of rows."""


def _concatenated(parts: list[RowsOfPaths]) -> RowsOfPaths:
    """Concatenate rows; those of a single part are not copied."""
    if len(parts) == 1:
        return parts[0]
    call_path, ticks = zip((np.zeros(0, np.int32), np.zeros(0, np.int64)), *parts, strict=True)
    return np.concatenate(call_path), np.concatenate(ticks)


def _starts(n_rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the first row of every node, and the number of rows; (n_nodes + 1,) int32."""
    start = np.zeros(n_rows.size + 1, np.int32)
    np.cumsum(n_rows, out=start[1:])
    return start


def _computation_of(model: Model, nodes: Nodes, locations: Ints, by_node: OfNodes) -> RowsOfPaths:
    """Return call paths and ticks of the rows of some locations, and fill in the columns by node."""
    paths = model.call_paths.whole
    size, state = len(paths), np.zeros(kernels.N_STATE, np.int64)
    sums = kernels.OpenSums(np.empty(size, np.int32), np.zeros(size, np.int64))
    # there are at most as many rows as events; memory that is not written takes no pages
    most, n = int(model.facts.store.n_events[locations].sum()) + size, 0
    call_path, ticks = np.empty(most, np.int32), np.empty(most, np.int64)
    for walked in walk_stacks(model.facts, model.scans, model.team_instances, locations):
        begins = walked.row == model.facts.first_rows[walked.locations]
        events = kernels.WalkedPaths(
            walked.bounds,
            walked.row - nodes.first_row,
            np.where(begins, nodes.location_start[walked.locations], -1),
            model.order.times_along(walked.row, walked.bounds, walked.time),
            walked.kind,
            walked.node,
            *paths.numbers_of(walked.locations),
        )
        found = kernels.FoundComputation(*by_node, call_path[n:], ticks[n:])
        n += kernels.add_computation(events, DOES, paths.parent, nodes.ranks, nodes.kind, state, sums, found)
    return trimmed(call_path, n), trimmed(ticks, n)


def join_computation(slices: Sequence[tuple[Ints, Computation]], nodes: Nodes, jobs: int) -> Computation:
    """Join the computation of slices of whole locations, copied by `jobs` threads; each comes with the first node of
    every location in the slice."""
    n = len(nodes)
    n_rows, before_node = np.empty(n, np.int32), np.empty(n, np.int32)
    for starts, c in slices:
        for here, there in runs_of_locations(starts, nodes.location_start):
            n_rows[there], before_node[there] = np.diff(c.start)[here], c.before_node[here]
    start = _starts(n_rows)
    call_path, ticks = np.empty(int(start[-1]), np.int32), np.empty(int(start[-1]), np.int64)

    def copy(of_slice: tuple[Ints, Computation]) -> None:
        starts, c = of_slice
        for here, there in runs_of_locations(starts, nodes.location_start):
            rows = slice(int(start[there.start]), int(start[there.stop]))
            own = slice(int(c.start[here.start]), int(c.start[here.stop]))
            call_path[rows], ticks[rows] = c.call_path[own], c.ticks[own]

    for _ in side_by_side(jobs, copy, slices):
        pass
    return Computation(start, call_path, ticks, before_node, nodes.location)


def new_times(events: LocationEvents, new_time: Ints, factor: NDArray[np.float64] | None = None) -> Ints:
    """Return the times of a location's events after its nodes have moved; ticks, never decreasing.

    `new_time` has the times of all nodes of the trace, `factor` the factor of computation on each call path; events
    between two nodes move accordingly.
    """
    mine = new_time[events.first_node : events.first_node + events.node.size]
    position = positions(events, factor)
    at = np.searchsorted(events.node, np.arange(events.time.size), "right") - 1
    result = np.empty(events.time.size, np.int64)
    kernels.retime(position, position[events.node], mine, at, result)
    return result


def positions(events: LocationEvents, factor: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the ticks since a location's first event, with computation scaled by `factor`; (n,) float64."""
    since = (events.time - events.time[:1]).astype(np.float64)
    if factor is None or not since.size:
        return since
    duration = np.diff(since) * np.append(factor, 1.0)[events.call_path[:-1]]
    return np.concatenate([[0.0], np.cumsum(duration)])


def without_waiting_in(computation: Computation, waits: Mask, weight: Ints) -> Computation:
    """Return computation without the time that kernels that communicate wait for those of other ranks.

    `waits` marks the call paths of such kernels, which otherwise are computation of their streams; `weight` is the
    ticks before each node beyond waiting.
    """
    c = computation
    node, mine = c.node, np.flatnonzero(waits[c.call_path])
    waited = np.maximum(np.bincount(node, c.ticks, weight.size).astype(np.int64) - weight, 0)
    ticks, of = c.ticks.copy(), node[mine]
    before = np.cumsum(ticks[mine]) - ticks[mine]
    first = np.searchsorted(of, of)
    ticks[mine] -= np.clip(waited[of] - (before - before[first]), 0, ticks[mine])
    return replace(c, ticks=ticks)
