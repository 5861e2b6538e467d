"""Replay of a trace: its nodes, the computation between them, and the times of what lies between them (the sweep is in
`kernels.maxplus`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel
from tracecols.kernels.maxplus import NEVER


@kernel
def mark_calls(kind, region, is_mpi, enter, leave, depth, mark):
    """Mark where the outermost MPI calls of a location begin and end; O(n).

    Parameters
    ----------
    kind : (n,) uint8
        Kinds of consecutive events of one location.
    region : (n,) int32
        Region of ENTER and EXIT, -1 elsewhere.
    is_mpi : (n_regions,) bool
    enter, leave : int
        The kinds ENTER and EXIT.
    depth : int
        MPI calls that are open before the first event.
    mark : (n,) uint8
        Result: 1 at the ENTER of an outermost call, 2 at its EXIT, else 0.

    Returns
    -------
    int
        MPI calls that are open after the last event.
    """
    for i in range(kind.size):
        mark[i] = 0
        if region[i] < 0 or not is_mpi[region[i]]:
            continue
        if kind[i] == enter:
            if depth == 0:
                mark[i] = 1
            depth += 1
        elif kind[i] == leave and depth > 0:
            depth -= 1
            if depth == 0:
                mark[i] = 2
    return depth


@kernel
def place_edges(tail, at, order):
    """Fill `order` with edges tail by tail; `at` holds where those of each tail begin, and is used up."""
    for e in range(tail.size):
        order[at[tail[e]]] = e
        at[tail[e]] += 1


def index_edges(tail: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order edges by their tails; O(n + edges).

    Parameters
    ----------
    tail : (n_edges,) int64
    n : int
        Number of nodes.

    Returns
    -------
    start : (n + 1,) int64
        First edge of every node in `order`.
    order : (n_edges,) int64
        Edges, tail by tail.
    """
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(tail, minlength=n), dtype=np.int64)])
    order = np.empty(tail.size, np.int64)
    place_edges(tail, start[:-1].copy(), order)
    return start, order


@kernel
def latest_sources(tail, head, time, latest):
    """Find the latest time among the tails of the edges into each head, `latest[head]`, which starts from `NEVER`."""
    for e in range(tail.size):
        latest[head[e]] = max(latest[head[e]], time[tail[e]])


@kernel
def find_bases(is_first, tail, head, lag, time, base):
    """Find when the last dependency of each node is met in recorded time.

    Parameters
    ----------
    is_first : (n_nodes,) bool
        First node of its location.
    tail, head, lag : (n_edges,) int64
        Edges; heads and tails may be hubs, which follow the nodes.
    time : (n_all,) int64
        Recorded times of nodes and hubs, ticks.
    base : (n_all,) int64
        Result; the node's own time if it depends on nothing, so that its weight is 0.
    """
    n = is_first.size
    for v in range(time.size):
        base[v] = NEVER if v >= n or is_first[v] else time[v - 1]
    for e in range(tail.size):
        base[head[e]] = max(base[head[e]], time[tail[e]] + lag[e])
    for v in range(time.size):
        if base[v] == NEVER:
            base[v] = time[v]


@kernel
def fill_computation(time, call_path, node, is_computation, at, of, ticks):
    """Fill arrays of one element per event with runs, and return how many there are (see `list_computation`)."""
    n = 0
    for v in range(1, node.size):
        if not is_computation[v]:
            continue
        begun = n
        for i in range(node[v - 1], node[v]):
            since = time[i + 1] - time[i]
            if call_path[i] < 0 or since == 0:
                continue
            if n > begun and of[n - 1] == call_path[i]:
                ticks[n - 1] += since
                continue
            at[n], of[n], ticks[n] = v, call_path[i], since
            n += 1
    return n


def list_computation(
    time: NDArray[np.int64], call_path: NDArray[np.int32], node: NDArray[np.int64], is_computation: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """List the computation before the nodes of one location by call path: runs of consecutive events; O(n).

    Parameters
    ----------
    time : (n,) int64
        Ticks, never decreasing.
    call_path : (n,) int32
        Where the location is from each event on, -1 where it is in none.
    node : (n_nodes,) int64
        Events that are nodes, ascending, the first and the last event among them.
    is_computation : (n_nodes,) bool
        Whether the time before the node is computation.

    Returns
    -------
    at : (n_runs,) int64
        Number of the node.
    of : (n_runs,) int32
        Call path.
    ticks : (n_runs,) int64
    """
    at, of, ticks = np.empty(time.size, np.int64), np.empty(time.size, np.int32), np.empty(time.size, np.int64)
    n = fill_computation(time, call_path, node, is_computation, at, of, ticks)
    return at[:n].copy(), of[:n].copy(), ticks[:n].copy()


@kernel
def retime(position, node_position, new_time, at, result):
    """Move events of one location as its nodes move: between two nodes in proportion, behind the last as far as it.

    Parameters
    ----------
    position : (n,) float64
        Ticks since the location's first event, ascending; where computation is scaled, as long as it takes then.
    node_position : (n_nodes,) float64
        Those of the nodes.
    new_time : (n_nodes,) int64
        Times of the nodes afterwards, ascending.
    at : (n,) int64
        For each event the last node that is not behind it.
    result : (n,) int64
        Ticks.
    """
    last = node_position.size - 1
    for i in range(position.size):
        v = at[i]
        since = position[i] - node_position[v]
        if v == last:
            result[i] = new_time[v] + np.int64(since)
            continue
        before, after = node_position[v + 1] - node_position[v], np.float64(new_time[v + 1] - new_time[v])
        if before == after:
            result[i] = new_time[v] + np.int64(since)
        elif before <= 0.0:
            result[i] = new_time[v]
        else:
            result[i] = min(new_time[v] + np.int64(np.floor(since / before * after)), new_time[v + 1])


@kernel
def catch_up(is_first, inside, weight, time):
    """Move nodes that wait for nothing to when the node before them and their weight let them happen, in place; O(n).

    Parameters
    ----------
    is_first : (n_nodes,) bool
        First node of its location.
    inside : (n_nodes,) bool
        The nodes to move.
    weight : (n_all,) int64
    time : (n_all,) int64
        Recorded times, ticks.
    """
    for v in range(inside.size):
        if inside[v] and not is_first[v]:
            time[v] = time[v - 1] + weight[v]
