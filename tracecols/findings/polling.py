"""Loops of MPI_Test and MPI_Iprobe: one wait each, from their first call to their last."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.kernels import replay as kernels
from tracecols.kernels.maxplus import NEVER
from tracecols.model.model import Model
from tracecols.replay.events import Computation
from tracecols.replay.graph import Graph
from tracecols.vectors import Ints


def collapsed(
    model: Model, graph: Graph, computation: Computation, call_path: Ints, leave: Ints, region: NDArray[np.int32]
) -> Ints:
    """Return the weights of a graph in which the time between the calls of a polling loop is removed, so that its last
    call waits for the operation that it completes.

    A loop is a series of such calls from one call path, with no other MPI call between them. It may contain several
    calls, such as MPI_Iprobe and MPI_Test. Computation of the program in between, in other regions, is not waiting, and
    stays. `call_path` is that of the call before each node. Outermost MPI calls end at the nodes `leave`; their regions
    are -1 if unknown.
    """
    nodes = graph.nodes
    weight = graph.weight.copy()
    polls = model.regions.is_poll
    if not polls.any() or leave.size < 2:
        return weight
    enter, is_poll = nodes.enter_of(leave), np.append(polls, False)[region]
    # a loop goes on from one call to the next of the same location, called from the same call path
    parent = model.call_paths.whole.parent.astype(np.int64)
    caller = pick(parent, call_path[leave])
    goes_on = is_poll[1:] & is_poll[:-1]
    goes_on &= nodes.location[enter[1:]] == nodes.location[enter[:-1]]
    goes_on &= caller[1:] == caller[:-1]
    # nothing but the call path around it is between the two: no other node
    goes_on &= enter[1:] == leave[:-1] + 1
    # time in regions of their own is computation on another call path
    c = computation
    at = np.full(len(nodes), -1, np.int64)
    at[enter[1:]] = caller[:-1]
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
    base = np.empty(n, np.int64)
    base[0], base[1:] = NEVER, np.where(nodes.is_first[1:], NEVER, time[: n - 1])
    into = np.flatnonzero(graph.edges.head < n)
    np.maximum.at(base, graph.edges.head[into], (time[graph.edges.tail] + graph.lags)[into])
    ends = np.setdiff1d(leave[joins + 1], leave[joins])
    weight[ends] = np.maximum(graph.time[ends] - base[ends], 0)
    return weight
