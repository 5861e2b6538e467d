"""The sweep of a replay: the times of all nodes of a dependency graph (max-plus), for many scenarios at once.

The order in which nodes happen depends only on the graph. It is found once, as runs of consecutive nodes, together with
a place for the time of every node that waits: `Order`. A sweep follows it for all scenarios side by side, and needs
memory only for nodes that wait at the same time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.kernels.ordered import last_until

NEVER = -(1 << 62)
"""Time of a node that has not happened."""

LANES = 8
"""Scenarios of a sweep."""

CUT = -(1 << 61)
"""Lag of an edge that delays nothing."""

COMPUTATION = 0
"""Class of nodes before which a location computes."""

BEGINS, ENDS, BEGUN, CHAINED, LEAVES = 1, 2, 4, 8, 16
"""Marks of nodes: the runtime extends between the first two; the third one marks the begin of a thread or a task that
others start, for which it always has to wait; the fourth one a node that follows the one before it at its thread by an
edge only, as tasks may move to other threads; the last one the EXIT of a wait in which threads execute such tasks."""

CHAIN = -1
"""Number of latencies of such an edge, which no scenario leaves out."""

WAITING = 10
"""Column of `Changes.factor`: whether nodes of a cell that wait for others still do."""


class Order(NamedTuple):
    """The order in which nodes and hubs happen."""

    run_start: NDArray[np.int32]
    run_stop: NDArray[np.int32]
    """`run_start` and `run_stop`: (n_runs,), consecutive nodes, or one hub, that happen one after the other."""
    run_next: NDArray[np.int32]
    """(n_runs,): place of the node after a run, which waits for something else; -1 where the location ends."""
    is_head: NDArray[np.bool_]
    """(n_all,): which nodes have a place: all that an edge leads to."""
    place: NDArray[np.int32]
    """(n_heads,): these places, in the order in which the nodes happen."""
    edge_place: NDArray[np.int32]
    """(n_edges,): the place of the head of every edge."""


class Weights(NamedTuple):
    """Properties of nodes and edges."""

    start: NDArray[np.int64]
    """(n_all,): time of a node that depends on nothing."""
    weight: NDArray[np.int64]
    """(n_all,): ticks between the last dependency of a node and itself."""
    kind: NDArray[np.int8]
    """(n_nodes,): class of the weight."""
    mark: NDArray[np.uint8]
    """(n_nodes,): `BEGINS`, `ENDS`, `BEGUN`."""
    edge_start: NDArray[np.int32]
    """(n_all + 1,): first edge out of every node or hub."""
    head: NDArray[np.int32]
    """(n_edges,)"""
    lag: NDArray[np.int64]
    """(n_edges,): empty if all are 0."""
    length: NDArray[np.int64]
    """(n_edges,): bytes."""
    steps: NDArray[np.int8]
    """(n_edges,): number of latencies on the way."""


class Less(NamedTuple):
    """Reductions of the weights of single nodes in some of k scenarios, and edges that delay nothing there."""

    start: NDArray[np.int32]
    """(n_all + 1,): first entry of every node. Empty if no weight is reduced."""
    scenario: NDArray[np.uint8]
    """(n_entries,)"""
    ticks: NDArray[np.int64]
    """(n_entries,): reduction of the weight, which does not become negative."""
    cut_start: NDArray[np.int32]
    """(n_edges + 1,): first entry of every edge. Empty if no edge is cut."""
    cut_scenario: NDArray[np.uint8]
    """(n_cut,)"""


NO_LESS = Less(*(np.zeros(0, dtype) for dtype in (np.int32, np.uint8, np.int64, np.int32, np.uint8)))
"""No weight is reduced, and no edge is cut."""


class Changes(NamedTuple):
    """Differences from the recorded run in each of k scenarios."""

    factor: NDArray[np.float64]
    """(k, n_cells, 11): factors of weights by cell and class; the last column is 0 where nothing is waited for. No
    elements (k = 0) if only `less` differs."""
    path_cell: NDArray[np.int32]
    """(k, n_call_paths + 1): first summand of the number of a cell; the last element is for nodes without a call path.
    Empty if there is only one cell."""
    location_cell: NDArray[np.int32]
    """(k, n_locations): second summand of the number of a cell."""
    call_path: NDArray[np.int32]
    """(n_nodes,): call path of every node, -1 for none. Empty if there is only one cell."""
    location_start: NDArray[np.int64]
    """(n_locations + 1,): first node of every location."""
    row_start: NDArray[np.int32]
    """(n_nodes + 1,): first row of computation before every node. Empty if computation is not changed."""
    row_path: NDArray[np.int32]
    """(n_rows,): call path."""
    row_ticks: NDArray[np.int64]
    """(n_rows,)"""
    delay: NDArray[np.float64]
    """(k, 3): seconds per latency, bytes per second, ticks per second; empty if edges take no additional time."""
    fine: Any
    """Ticks of the result per recorded tick."""
    less: Less
    """Reductions of the weights of single nodes, and edges that delay nothing, if there are no factors."""


class FoundEdges(NamedTuple):
    """Edges as they are found; the last three hold a single value if it is the same for all."""

    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    """`tail` and `head`: (n,)"""
    is_inferred: NDArray[np.bool_]
    """(n,) or (1,) bool"""
    length: NDArray[np.int64]
    """(n,) or (1,) int64"""
    steps: NDArray[np.int8]
    """(n,) or (1,) int8"""


@kernel
def place_less(node, ticks, scenario, at, less):
    """Write the reductions of nodes in a scenario to their entries; `at` holds the position of the next entry of each
    node."""
    for i in range(node.size):
        less.scenario[at[node[i]]], less.ticks[at[node[i]]] = scenario, ticks[i]
        at[node[i]] += 1


@kernel
def place_cuts(edge, scenario, at, less):
    """Write the edges that are cut in a scenario, likewise."""
    for i in range(edge.size):
        less.cut_scenario[at[edge[i]]] = scenario
        at[edge[i]] += 1


@kernel
def count_tails(tail, count):
    """Count the edges out of every node."""
    for e in range(tail.size):
        count[tail[e]] += 1


@kernel
def place_edges(found, at, head, is_inferred, length, steps):
    """Write edges grouped by tail; `at` holds the position of the next edge of each tail."""
    several_inferred, several_lengths = found.is_inferred.size > 1, found.length.size > 1
    several_steps = found.steps.size > 1
    for i in range(found.tail.size):
        e = at[found.tail[i]]
        at[found.tail[i]] += 1
        head[e] = found.head[i]
        is_inferred[e] = found.is_inferred[i if several_inferred else 0]
        length[e] = found.length[i if several_lengths else 0]
        steps[e] = found.steps[i if several_steps else 0]


@kernel
def time_hubs(edge_start, head, n_nodes, time):
    """Set the time of every hub to the latest of the nodes it waits for, 0 without any; hubs of a chain follow each
    other. The times of hubs are `NEVER` before."""
    for v in range(time.size):
        if time[v] == NEVER:
            time[v] = 0
        for e in range(edge_start[v], edge_start[v + 1]):
            if head[e] >= n_nodes:
                time[head[e]] = max(time[head[e]], time[v])


@kernel
def weigh(is_first, edge_start, head, time, weight):
    """Find the ticks between the last dependency of each node and itself in recorded time; 0 where it depends on
    nothing. Return the number of edges with a negative lag.

    An edge whose head was recorded before its tail has a negative lag of that size.
    """
    n, n_late = is_first.size, 0
    for v in range(time.size):
        weight[v] = NEVER if v >= n or is_first[v] else time[v - 1]
    for v in range(time.size):
        for e in range(edge_start[v], edge_start[v + 1]):
            h = head[e]
            n_late += time[h] < time[v]
            weight[h] = max(weight[h], min(time[v], time[h]))
    for v in range(time.size):
        weight[v] = 0 if weight[v] == NEVER else time[v] - weight[v]
    return n_late


@kernel
def count_dependencies(is_first, head, waiting, is_head):
    """Count the dependencies of every node: the node before it at its location, and edges; `waiting` holds zeros.
    Return the number of nodes that an edge leads to."""
    n_heads = 0
    for e in range(head.size):
        waiting[head[e]] += 1
    for v in range(waiting.size):
        is_head[v] = waiting[v] > 0
        n_heads += is_head[v]
        if v < is_first.size and not is_first[v]:
            waiting[v] += 1
    return n_heads


@kernel
def order_nodes(is_first, edge_start, head, waiting, at, free, order):
    """Find an order in which nodes and hubs can happen, and a place for the time of each that an edge leads to; O(nodes
    + edges).

    A node is followed by the next node of the same location if that waits for nothing else, so that most of memory is
    read in order.

    Parameters
    ----------
    is_first : (n_nodes,) bool
        First node of its location.
    edge_start : (n_all + 1,) int32
    head : (n_edges,) int32
        Edges by their tails.
    waiting : (n_all,) int32
        Dependencies of every node (`count_dependencies`); -1 after it has happened.
    at : (n_all,) int32
        All -1; scratch: the places of waiting nodes.
    free : (n_heads,) int32
        Scratch: places that are free again.
    order : Order
        Result; with room for one run for each node that is the first of its location or that an edge leads to.

    Returns
    -------
    n_runs, n_places : int
        Nodes that have a count in `waiting` at the end depend on themselves.
    """
    run = order.run_start
    n, top = is_first.size, run.size
    n_runs, n_heads, n_places, n_free = 0, 0, 0, 0
    for v in range(waiting.size - 1, -1, -1):
        if waiting[v] == 0:
            top -= 1
            run[top] = v
    while top < run.size:
        v = run[top]
        top += 1
        run[n_runs] = v
        order.run_next[n_runs] = -1
        while True:
            waiting[v] = -1
            if at[v] >= 0:
                order.place[n_heads] = free[n_free] = at[v]
                n_heads += 1
                n_free += 1
            for e in range(edge_start[v], edge_start[v + 1]):
                h = head[e]
                n_places, n_free = _give_place(h, at, free, n_places, n_free)
                order.edge_place[e] = at[h]
                waiting[h] -= 1
                if waiting[h] == 0:
                    top -= 1
                    run[top] = h
            following = v + 1
            if v >= n or following >= n or is_first[following]:
                break
            waiting[following] -= 1
            if waiting[following] != 0:
                n_places, n_free = _give_place(following, at, free, n_places, n_free)
                order.run_next[n_runs] = at[following]
                break
            v = following
        order.run_stop[n_runs] = v + 1
        n_runs += 1
    return n_runs, n_places


@part
def _give_place(v, at, free, n_places, n_free):
    """Give a place to a node that waits, unless it has one."""
    if at[v] < 0:
        if n_free > 0:
            n_free -= 1
            at[v] = free[n_free]
        else:
            at[v] = n_places
            n_places += 1
    return n_places, n_free


@part
def _cell(changes, k, call_path, location):
    """Return the cell that a call path of a location is in."""
    if changes.path_cell.size == 0:
        return 0
    path = call_path if call_path >= 0 else changes.path_cell.shape[1] - 1
    return changes.path_cell[k, path] + changes.location_cell[k, location]


@inner_part
def _add_weight(v, location, given, changes, now, change):
    """Add the weight of a node to the time of each scenario."""
    weight, of = given.weight[v], given.kind[v]
    if changes.factor.shape[0] == 0:
        _add_what_is_left(v, weight, changes.less, now)
        return
    if of == COMPUTATION and changes.row_start.size > 0:
        for k in range(changes.factor.shape[0]):
            change[k] = 0.0
        for r in range(changes.row_start[v], changes.row_start[v + 1]):
            for k in range(changes.factor.shape[0]):
                f = changes.factor[k, _cell(changes, k, changes.row_path[r], location), COMPUTATION]
                change[k] += (f - 1.0) * changes.row_ticks[r] * changes.fine
        for k in range(changes.factor.shape[0]):
            now[k] += max(0, weight * changes.fine + np.int64(np.rint(change[k])))
        return
    w = weight * changes.fine
    if of == COMPUTATION:
        for k in range(LANES):
            now[k] += w
        return
    call_path = changes.call_path[v] if changes.call_path.size > 0 else -1
    for k in range(changes.factor.shape[0]):
        f = changes.factor[k, _cell(changes, k, call_path, location), of]
        now[k] += w if f == 1.0 else np.int64(np.rint(w * f))


@inner_part
def _add_what_is_left(v, weight, less, now):
    """Add the weight of a node, reduced by `less`, to the time of each scenario."""
    most = max(weight, 0)
    for k in range(LANES):
        now[k] += most
    if less.start.size > 0:
        for i in range(less.start[v], less.start[v + 1]):
            now[less.scenario[i]] += max(weight - less.ticks[i], 0) - most


@inner_part
def _pass_on(e, place, given, changes, may_drop, now, times):
    """Let the head of an edge wait for its tail."""
    lag = given.lag[e] * changes.fine if given.lag.size > 0 else 0
    h = given.head[e]
    can_drop = may_drop and h < given.kind.size and given.mark[h] & BEGUN == 0 and given.steps[e] != CHAIN
    if can_drop or (changes.delay.size > 0 and given.steps[e] > 0):
        _pass_on_to_some(e, place, lag, can_drop, given, changes, now, times)
        return
    if changes.less.cut_start.size > 0:
        first, stop = changes.less.cut_start[e], changes.less.cut_start[e + 1]
        for i in range(first, stop):
            now[changes.less.cut_scenario[i]] += CUT - lag
        for k in range(LANES):
            times[place, k] = max(times[place, k], now[k] + lag)
        for i in range(first, stop):
            now[changes.less.cut_scenario[i]] -= CUT - lag
        return
    for k in range(LANES):
        times[place, k] = max(times[place, k], now[k] + lag)


@part
def _pass_on_to_some(e, place, lag, can_drop, given, changes, now, times):
    """Let the head of an edge wait for its tail, in the scenarios in which it does, plus the time that the edge takes
    there."""
    h = given.head[e]
    location, call_path = 0, -1
    if can_drop:
        location = last_until(h, 0, changes.location_start.size - 1, changes.location_start)
        call_path = changes.call_path[h] if changes.call_path.size > 0 else -1
    for k in range(changes.factor.shape[0]):
        if can_drop and changes.factor[k, _cell(changes, k, call_path, location), WAITING] == 0.0:
            continue
        t = now[k] + lag
        if changes.delay.size > 0 and given.steps[e] > 0:
            each = changes.delay[k, 0] + given.length[e] / changes.delay[k, 1]
            t += np.int64(np.rint(given.steps[e] * each * changes.delay[k, 2])) * changes.fine
        times[place, k] = max(times[place, k], t)


@inner_part
def _widen(mark, now, begin, end):
    """Extend the runtime of each scenario to a marked node."""
    if mark & BEGINS:
        for k in range(LANES):
            begin[k] = min(begin[k], now[k])
    if mark & ENDS:
        for k in range(LANES):
            end[k] = max(end[k], now[k])


@kernel
def sweep(order, given, changes, may_drop, now, change, times, begin, end, found):
    """Compute the times of all nodes in some scenarios, each as early as its dependencies allow; O(nodes + edges).

    A node's time is the latest time of its dependencies, plus its weight. All arrays have a place for each of `LANES`
    scenarios, a constant, so that operations on all of them are single vector instructions: a sixth of the time.

    Parameters
    ----------
    order : Order
    given : Weights
    changes : Changes
        Of at most `LANES` scenarios.
    may_drop : bool
        Whether some cell of a scenario does not wait for anything.
    now : (LANES,) int64
        Scratch for times.
    change : (LANES,) float64
        Scratch for changes of computation.
    times : (n_places, LANES) int64
        Scratch for the times of waiting nodes: all `NEVER`.
    begin, end : (LANES,) int64
        Result: the earliest time of nodes that are marked `BEGINS`, and the latest of those marked `ENDS`; initially
        the latest and the earliest possible time.
    found : (n_found,) int64
        Result: the times of all nodes and hubs in the first scenario. Empty if they are not wanted.
    """
    n, at = given.kind.size, 0
    for r in range(order.run_start.size):
        location = 0
        if changes.path_cell.size > 0 and order.run_start[r] < n:
            location = last_until(order.run_start[r], 0, changes.location_start.size - 1, changes.location_start)
        for k in range(LANES):
            now[k] = NEVER
        for v in range(order.run_start[r], order.run_stop[r]):
            if order.is_head[v]:
                place = order.place[at]
                at += 1
                for k in range(LANES):
                    now[k] = max(now[k], times[place, k])
                    times[place, k] = NEVER
            if may_drop or now[0] == NEVER:
                for k in range(LANES):
                    now[k] = given.start[v] * changes.fine if now[k] == NEVER else now[k]
            if v < n:
                _add_weight(v, location, given, changes, now, change)
                if given.mark[v] != 0:
                    _widen(given.mark[v], now, begin, end)
            if found.size > 0:
                found[v] = now[0]
            for e in range(given.edge_start[v], given.edge_start[v + 1]):
                _pass_on(e, order.edge_place[e], given, changes, may_drop, now, times)
        place = order.run_next[r]
        if place >= 0:
            for k in range(LANES):
                times[place, k] = max(times[place, k], now[k])
