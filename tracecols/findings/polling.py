"""Loops of MPI_Test and MPI_Iprobe: one wait each, from their first call to their last."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels import replay as kernels
from tracecols.replay.graph import Graph
from tracecols.replay.replay import Replay

POLLING = ("mpi_test", "mpi_iprobe", "mpi_improbe")
"""What the names of calls begin with that ask whether something has come, in lower case."""


def is_polling(lower: list[str]) -> NDArray[np.bool_]:
    """Say which regions ask whether something has come; (n_regions,) bool."""
    return np.array([name.startswith(POLLING) and name != "mpi_test_cancelled" for name in lower], bool)


def collapsed(replay: Replay, graph: Graph, lag: NDArray[np.int64], call_path: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the weights of a graph in which what is between the calls of a loop that polls takes no time, so that its
    last call waits for what it completes.

    A loop is a series of such calls of one call path with no other call of MPI between them. What the program computes
    in between in regions of their own is no waiting, and stays.

    Parameters
    ----------
    lag : (n_edges,) int64
        Lags of the edges of the graph.
    call_path : (n_nodes,) int64
        Call path before each node.
    """
    nodes = graph.nodes
    weight = graph.weight.copy()
    polls = is_polling(list(replay.model.regions.lower))
    if not polls.any() or nodes.call_region.size < 2:
        return weight
    region, enter, leave = nodes.call_region, nodes.call_enter, nodes.call_exit
    # a loop goes on from one call to the next of the same location and call path
    goes_on = polls[region[1:]] & polls[region[:-1]]
    goes_on &= nodes.location[enter[1:]] == nodes.location[enter[:-1]]
    goes_on &= call_path[leave[1:]] == call_path[leave[:-1]]
    # nothing but the call path around it is between the two: no other node
    goes_on &= enter[1:] == leave[:-1] + 1
    # time in regions of their own is computation on another call path
    c = replay.computation
    parent = replay.model.call_paths.parent.astype(np.int64)
    around = parent[call_path[leave[:-1]]]
    at = np.full(len(nodes), -1, np.int64)
    at[enter[1:]] = around
    elsewhere = np.zeros(len(nodes), np.int64)
    foreign = at[c.node] != c.call_path
    np.add.at(elsewhere, c.node[foreign], c.ticks[foreign])
    # a call that completes something ends its loop, and only a loop that ends so is a wait
    completes = np.zeros(graph.time.size, bool)
    completes[graph.edges.head] = True
    goes_on &= ~completes[leave[:-1]]
    loop = np.cumsum(np.append(True, ~goes_on)) - 1
    last = np.append(~goes_on, True)
    is_wait = completes[leave[last]]
    joins = np.flatnonzero(goes_on & is_wait[loop[:-1]])
    if not joins.size:
        return weight
    time = graph.time.copy()
    n = len(nodes)
    # the calls of a loop but the last, and the way to the next
    weight[leave[joins]] = 0
    weight[enter[joins + 1]] = np.minimum(weight[enter[joins + 1]], elsewhere[enter[joins + 1]])
    inside = np.zeros(n, bool)
    inside[leave[joins]] = inside[enter[joins + 1]] = True
    # times in a loop are those it has without waiting; the last call makes up for it
    kernels.catch_up(nodes.is_first, inside, weight, time)
    base = np.empty(time.size, np.int64)
    kernels.find_bases(nodes.is_first, graph.edges.tail, graph.edges.head, lag, time, base)
    ends = np.setdiff1d(leave[joins + 1], leave[joins])
    weight[ends] = np.maximum(graph.time[ends] - base[ends], 0)
    return weight
