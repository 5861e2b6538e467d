"""What lies between the nodes of a replay: computation by call path, and the new times of all other events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import Segments, combine, number
from tracecols.enhance.scan.instances import scan_stacks
from tracecols.enhance.scan.paths import outermost_of
from tracecols.enhance.scan.scan import ACTION
from tracecols.kernels import replay as kernels
from tracecols.kernels.actions import POP
from tracecols.model.model import Model
from tracecols.replay.nodes import NodeClass, Nodes, mpi_regions
from tracecols.replay.tasks import TASK_CHANGES, call_path_before


@dataclass(frozen=True, eq=False)
class LocationEvents:
    """The events of a location, and where it is from each of them on.

    Attributes
    ----------
    time : (n,) int64
        Ticks, never decreasing.
    call_path : (n,) int32
        From the event on; -1 for none.
    node : (n_nodes,) int64
        Events that are nodes.
    first_node : int
        Number of the first of them among all.
    """

    time: NDArray[np.int64]
    call_path: NDArray[np.int32]
    node: NDArray[np.int64]
    first_node: int


def events_of(model: Model, nodes: Nodes, location: int) -> LocationEvents:
    """Read the events of a location, with their call paths; 40 B per event."""
    columns = scan_stacks(model.facts, model.scans, model.team_instances, location)
    call_path = _call_path_after(model, columns["kind"], columns["call_path"])
    first = int(model.facts.first_rows[location])
    time = model.order.times_of(first, columns["time"])
    node = nodes.rows_between(first, first + time.size) - first
    return LocationEvents(time, call_path.astype(np.int32), node, int(nodes.location_start[location]))


def _call_path_after(model: Model, kind: NDArray[np.uint8], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the call path that a location is in after each of its events, given the call paths of `scan_stacks`."""
    leaves = ACTION[kind] == POP
    result: NDArray[np.int64] = np.where(
        leaves, pick(model.call_paths.parent.astype(np.int64), np.where(leaves, own, -1)), own
    )
    # after the switch to another task it is where that one continues, which is the call path of the next event
    switches = np.flatnonzero(np.isin(kind[:-1], TASK_CHANGES))
    result[switches] = call_path_before(model, kind, own)[switches + 1]
    return result


@dataclass(frozen=True, eq=False)
class Computation:
    """The computation before the nodes of a trace: a row for each node and call path; and the call paths of the nodes.

    Attributes
    ----------
    start : (n_nodes + 1,) int32
        First row of every node.
    call_path : (n,) int32
    location : (n,) int32
    ticks : (n,) int64
    of_node : (n_nodes,) int32
        Call path of every node, of what is entered or left there; -1 none.
    before_node : (n_nodes,) int32
        Call path that the location is in before every node; -1 none.
    """

    start: NDArray[np.int32]
    call_path: NDArray[np.int32]
    location: NDArray[np.int32]
    ticks: NDArray[np.int64]
    of_node: NDArray[np.int32]
    before_node: NDArray[np.int32]

    @property
    def node(self) -> NDArray[np.int64]:
        """The node of every row; (n,) int64."""
        return np.repeat(np.arange(self.of_node.size), np.diff(self.start))

    def rows(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Return the rows as the sweep takes them."""
        return self.start, self.call_path, self.ticks


def regions_of_calls(model: Model, calls: NDArray[np.int64], computation: Computation) -> NDArray[np.int32]:
    """Return the regions of outermost MPI calls; (n_calls,) int32, -1 unknown.

    Parameters
    ----------
    calls : (n_calls,) int64
        The nodes at which they end.
    """
    paths = model.call_paths
    is_mpi = mpi_regions(model.regions)[paths.region] if len(paths) else np.zeros(0, bool)
    outermost = outermost_of(is_mpi, paths.end)
    found: NDArray[np.int32] = pick(paths.region, pick(outermost, computation.before_node[calls])).astype(np.int32)
    return found


def find_computation(model: Model, nodes: Nodes) -> Computation:
    """Add up computation by node and call path; one more pass over all events. 16 B stay per node and call path before
    it."""
    found: list[tuple[NDArray[Any], ...]] = []
    is_computation = nodes.kind == NodeClass.COMPUTATION
    n_rows = np.zeros(len(nodes), np.int64)
    of_node, before_node = np.full(len(nodes), -1, np.int32), np.full(len(nodes), -1, np.int32)
    for location in np.flatnonzero(np.diff(nodes.location_start)).tolist():
        e = events_of(model, nodes, location)
        mine = slice(e.first_node, e.first_node + e.node.size)
        of_node[mine] = e.call_path[e.node]
        before_node[mine] = np.where(e.node > 0, e.call_path[np.maximum(e.node - 1, 0)], -1)
        at, call_path, ticks = kernels.list_computation(e.time, e.call_path, e.node, is_computation[mine])
        if not at.size:
            continue
        group, first = number(combine(at, call_path))
        total = Segments(group, first.size).sum(ticks)
        n_rows[mine] = np.bincount(at[first], minlength=e.node.size)
        found.append((call_path[first], np.full(first.size, location, np.int32), total))
    nothing = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))
    start = np.append(0, np.cumsum(n_rows)).astype(np.int32)
    call_path, location_of_row, ticks = (np.concatenate(parts) for parts in zip(nothing, *found, strict=True))
    return Computation(start, call_path, location_of_row, ticks, of_node, before_node)


def new_times(
    events: LocationEvents, new_time: NDArray[np.int64], factor: NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """Return the times of a location's events after its nodes have moved; (n,) int64 ticks, never decreasing.

    Parameters
    ----------
    new_time : (n_nodes,) int64
        Times of all nodes of the trace.
    factor : (n_call_paths,) float64, optional
        By how much computation takes longer on each call path: what lies between two nodes moves accordingly.
    """
    mine = new_time[events.first_node : events.first_node + events.node.size]
    position = positions(events, factor)
    at = np.searchsorted(events.node, np.arange(events.time.size), "right") - 1
    result = np.empty(events.time.size, np.int64)
    kernels.retime(position, position[events.node], mine, at, result)
    return result


def positions(events: LocationEvents, factor: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the ticks since a location's first event, as computation that is scaled takes them; (n,) float64."""
    since = (events.time - events.time[:1]).astype(np.float64)
    if factor is None or not since.size:
        return since
    duration = np.diff(since) * np.append(factor, 1.0)[events.call_path[:-1]]
    return np.concatenate([[0.0], np.cumsum(duration)])
