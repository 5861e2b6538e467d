"""Edges of devices: an operation on a stream waits for the call that launches it and for operations on other streams,
calls that synchronise wait for the last operation before them. Kernels that communicate wait for those of other ranks
(`replay.graph`)."""

from __future__ import annotations

import numpy as np

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.edges import EdgeCollector
from tracecols.kernels.maxplus import BEGUN
from tracecols.model.model import Model
from tracecols.replay.nodes import Nodes
from tracecols.vectors import Ints, Mask

WITHOUT_LAUNCH = (
    "kernels and copies whose launching calls are not recorded: they begin as long after the preceding operation on "
    "their stream"
)


def add_device_edges(model: Model, nodes: Nodes, found: EdgeCollector) -> dict[str, int]:
    """Add the edges between hosts and the streams of devices; count the operations whose launches are not known.

    Waits of operations for others on other streams are inferred from the calls that request them
    (`causes.device_operations`).
    """
    n_unknown = _without_launch(model)
    for table, launch, begin in ((model.kernels, "launch_enter", "enter"), (model.copies, "copy_enter", "event")):
        tail, head = nodes.at(table[launch]), nodes.at(table[begin])
        found.add_in_order(tail, head, nodes.time)
        # an operation begins after its launch, also in scenarios without waiting
        nodes.mark[head[(tail >= 0) & (head >= 0)]] |= BEGUN
    depends = model.get("device_operations").dependencies
    for stream in distinct(depends.location).tolist():
        at = np.flatnonzero(depends.location == stream)
        tail = _last_before(nodes, stream, depends.end[at])
        found.add(tail, nodes.at(depends.row[at]), is_inferred=True)
    syncs = model.device_syncs
    if len(syncs):
        leave = nodes.at(syncs.exit)
        for stream in np.flatnonzero(model.locations.is_device & (np.diff(nodes.location_start) > 0)).tolist():
            process = model.facts.process
            waits = (syncs.stream == stream) | ((syncs.stream < 0) & (process[syncs.location] == process[stream]))
            at = np.flatnonzero(waits & (leave >= 0))
            found.add(_last_before(nodes, stream, nodes.time[leave[at]]), leave[at], is_inferred=True)
    return {WITHOUT_LAUNCH: n_unknown}


def _without_launch(model: Model) -> int:
    """Count the kernels and copies whose launches are not recorded, except those before the first known launch on their
    stream: these were under way when the recording began, and follow their predecessors."""
    kernels, copies = model.kernels, model.copies
    location = np.concatenate([kernels.location, copies.location])
    begin = np.concatenate([kernels.enter_time, copies.begin_time])
    launch = np.concatenate([kernels.launch_enter, copies.copy_enter])
    known = launch >= 0
    first = np.full(model.facts.n_locations, np.iinfo(np.int64).max)
    np.minimum.at(first, location[known], begin[known])
    streams_known = np.isin(location, location[known])
    return int((~known & (~streams_known | (begin >= first[location]))).sum())


def _last_before(nodes: Nodes, location: int, time: Ints) -> Ints:
    """Find the last node of a location that is not after some times; -1 for none."""
    first, stop = (int(nodes.location_start[i]) for i in (location, location + 1))
    at = np.searchsorted(nodes.time[first:stop], time, "right") - 1
    return np.where(at >= 0, first + at, -1)


def add_starts(model: Model, nodes: Nodes, found: EdgeCollector, is_begun: Mask) -> int:
    """Let threads and streams that nothing else begins follow the master of their process, with the recorded time since
    its last node before.

    Returns their number; `is_begun` marks the nodes that have an edge to them.
    """
    has_nodes = np.diff(nodes.location_start) > 0
    master = model.locations.master
    n = 0
    for location in np.flatnonzero(has_nodes).tolist():
        first, of = nodes.location_start[location : location + 1], int(master[location])
        if of in (location, -1) or not has_nodes[of] or is_begun[first[0]]:
            continue
        found.add(_last_before(nodes, of, nodes.time[first]), first)
        nodes.mark[first] |= BEGUN
        n += 1
    return n
