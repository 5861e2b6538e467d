"""Replay of a trace: its nodes, the computation between them, and the times of what lies between them (the sweep is in
`kernels.maxplus`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel
from tracecols.kernels.ranks import is_chosen, n_before

THREADS = 8
"""Class of the time that creating and joining threads takes."""


IS_MPI, IS_MANAGEMENT, IS_SIGNAL = 1, 2, 4
"""What a region is: an MPI call; a call that creates or joins threads; one that signals a condition."""

IS_CALL, IS_ENTER, IS_OPEN, IS_IMPATIENT, IS_INIT, IS_FINALIZE, MAY_WAIT, SIGNALS = 1, 2, 4, 8, 16, 32, 64, 128
"""What a node of an outermost MPI call is: its end, its beginning, or the last event of the recording that is both; at
its end, what kind of call it is (`replay.nodes.roles_of`). Or a node at which a condition is signalled."""


class FoundNodes(NamedTuple):
    """Nodes of one location as they are found, as many as its events at most.

    Attributes
    ----------
    event : (n,) int32
        Number of the event at its location.
    time : (n,) int64
    kind : (n,) int8
        Class of the weight.
    role : (n,) uint8
    """

    event: NDArray[np.int32]
    time: NDArray[np.int64]
    kind: NDArray[np.int8]
    role: NDArray[np.uint8]


@kernel
def find_nodes(time, kind, region, given, of_region, enter, leave, state, is_last, nodes):
    """Find the nodes among consecutive events of one location; O(n).

    Nodes are the first and the last event, those that are given, where outermost calls of MPI or of the management of
    threads begin and end, and where conditions are signalled; but none inside an outermost MPI call.

    Parameters
    ----------
    time : (n,) int64
    kind : (n,) uint8
    region : (n,) int32
        Of ENTER and EXIT, -1 elsewhere.
    given : (n,) int8
        Class of the time before an event that is a node, -1 for no node.
    of_region : (3, n_regions) int8
        What each region is, the class of its calls, and their role.
    enter, leave : int
        The kinds ENTER and EXIT.
    state : (5,) int64
        What carries over to the next events, zeros at first: MPI calls and management calls that are open, the region
        of the outermost MPI call, events and nodes so far.
    is_last : bool
        Whether the location ends here.
    nodes : FoundNodes
        Result.
    """
    depth, managing, outermost, first, n = state[0], state[1], state[2], state[3], state[4]
    for i in range(time.size):
        what = of_region[0, region[i]] if region[i] >= 0 else 0
        of, role, is_inside, is_managing = given[i], 0, depth > 0, managing > 0
        is_end = is_last and i == time.size - 1
        if first + i == 0 or is_end:
            of = max(of, 0)
        if what & IS_MANAGEMENT:
            if kind[i] == enter:
                of = max(of, 0) if managing == 0 else of
                managing += 1
            elif kind[i] == leave and managing > 0:
                managing -= 1
                of = max(of, 0) if managing == 0 else of
        if what & IS_SIGNAL and kind[i] == enter:
            of, role = max(of, 0), SIGNALS
        if is_end and managing > 0:
            of = max(of, 0)
        if what & IS_MPI:
            if kind[i] == enter:
                if depth == 0:
                    outermost, of, role = region[i], max(of, 0), IS_ENTER
                depth += 1
            elif kind[i] == leave and depth > 0:
                depth -= 1
        if is_end and role == IS_ENTER:
            role |= IS_CALL | IS_OPEN | of_region[2, outermost]
        if is_inside:
            if depth > 0 and not is_end:
                continue
            of, role = of_region[1, outermost], IS_CALL | of_region[2, outermost]
        if of < 0:
            continue
        nodes.event[n], nodes.time[n], nodes.role[n] = first + i, time[i], role
        nodes.kind[n] = THREADS if of == 0 and is_managing else of
        n += 1
    state[0], state[1], state[2], state[3], state[4] = depth, managing, outermost, first + time.size, n


@kernel
def nodes_at(row, first, ranks, result):
    """Find the node that each row is; -1 where it is none."""
    for i in range(row.size):
        at = row[i] - first
        is_node = 0 <= at < 64 * ranks.bits.size and is_chosen(ranks, at)
        result[i] = n_before(ranks, at) if is_node else -1


@kernel
def calls_around(row, first, ranks, role, result):
    """Find the end of the outermost MPI call that each row is in, its ENTER and EXIT among them; -1 for none."""
    for i in range(row.size):
        result[i] = -1
        at = row[i] - first
        if at < 0 or at >= 64 * ranks.bits.size:
            continue
        v = n_before(ranks, at)
        if v < role.size and role[v] & IS_ENTER and not role[v] & IS_OPEN and is_chosen(ranks, at):
            v += 1
        if v < role.size and role[v] & IS_CALL:
            result[i] = v


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
    """Move events of one location as its nodes move: between two nodes in proportion, after the last as far as it.

    Parameters
    ----------
    position : (n,) float64
        Ticks since the location's first event, ascending; where computation is scaled, as long as it takes then.
    node_position : (n_nodes,) float64
        Those of the nodes.
    new_time : (n_nodes,) int64
        Times of the nodes afterwards, ascending.
    at : (n,) int64
        For each event the last node that is not after it.
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
