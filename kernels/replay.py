"""Replay of a trace: its nodes, the computation between them, and the times of events between them (the sweep is in
`kernels.maxplus`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.maxplus import COMPUTATION
from tracecols.kernels.ranks import is_chosen, n_before

THREADS = 8
"""Class of the time that creating and joining threads takes."""


IS_MPI, IS_MANAGEMENT, IS_SIGNAL = 1, 2, 4
"""Flags of regions: an MPI call; a call that creates or joins threads; one that signals a condition."""

IS_CALL, IS_ENTER, IS_OPEN, IS_IMPATIENT, IS_INIT, IS_FINALIZE, MAY_WAIT, OF_NEIGHBOURS = 1, 2, 4, 8, 16, 32, 64, 128
"""Roles of nodes of outermost MPI calls: the end of the call, its beginning, or the last event of the recording, which
is both; at the end also the kind of call (`replay.nodes.roles_of`)."""


class FoundNodes(NamedTuple):
    """Nodes of locations as they are found, at most as many as their events."""

    event: NDArray[np.int32]
    """(n,): number of the event at its location."""
    time: NDArray[np.int64]
    """(n,)"""
    kind: NDArray[np.int8]
    """(n,): class of the weight."""
    role: NDArray[np.uint8]
    """(n,)"""


@kernel
def find_nodes(bounds, time, kind, region, given, of_region, enters_and_leaves, state, is_last, nodes, sizes):
    """Find the nodes among consecutive events of some locations; O(n).

    Nodes are the first and the last event, the given ones, begins and ends of outermost calls of MPI or of thread
    management, and events that signal conditions; but no events inside an outermost MPI call.

    Parameters
    ----------
    bounds : (n_locations + 1,) int64
        Where the events of each begin.
    time : (n,) int64
    kind : (n,) uint8
    region : (n,) int32
        Of ENTER and EXIT, -1 elsewhere.
    given : (n,) int8
        Class of the time before an event that is a node, -1 for no node.
    of_region : (3, n_regions) int8
        Flags of each region, the class of its calls, and their role.
    enters_and_leaves : tuple of int
        The kinds ENTER and EXIT.
    state : (5,) int64
        Carried over to the next events: numbers of open MPI calls and management calls, the region of the outermost MPI
        call, the number of events of the location so far (0 if it begins), and that of nodes so far.
    is_last : bool
        Whether the locations end here.
    nodes : FoundNodes
        Result.
    sizes : (n_locations,) int64
        Number of nodes of each location, added to.
    """
    (enter, leave), n = enters_and_leaves, state[4]
    depth, managing, outermost, first = state[0], state[1], state[2], state[3]
    for k in range(bounds.size - 1):
        if k > 0 or first == 0:
            depth, managing, outermost, first = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        start, n_before = bounds[k], n
        for i in range(start, bounds[k + 1]):
            what = of_region[0, region[i]] if region[i] >= 0 else 0
            of, role, is_inside, is_managing = given[i], 0, depth > 0, managing > 0
            is_end = is_last and i == bounds[k + 1] - 1
            if first + i == start or is_end:
                of = max(of, 0)
            if what & IS_MANAGEMENT:
                if kind[i] == enter:
                    of = max(of, 0) if managing == 0 else of
                    managing += 1
                elif kind[i] == leave and managing > 0:
                    managing -= 1
                    of = max(of, 0) if managing == 0 else of
            if what & IS_SIGNAL and kind[i] == enter:
                of = max(of, 0)
            if is_end and managing > 0:
                of = max(of, 0)
            if what & IS_MPI:
                if kind[i] == enter:
                    if depth == 0:
                        outermost, of, role = np.int64(region[i]), max(of, 0), IS_ENTER
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
            nodes.event[n], nodes.time[n], nodes.role[n] = first + i - start, time[i], role
            nodes.kind[n] = THREADS if of == 0 and is_managing else of
            n += 1
        first += bounds[k + 1] - start
        sizes[k] += n - n_before
    state[0], state[1], state[2], state[3], state[4] = depth, managing, outermost, first, n


@kernel
def nodes_at(row, first, ranks, result):
    """Find the node at each row; -1 if there is none."""
    for i in range(row.size):
        at = row[i] - first
        is_node = 0 <= at < 64 * ranks.bits.size and is_chosen(ranks, at)
        result[i] = n_before(ranks, at) if is_node else -1


@kernel
def calls_around(row, first, ranks, role, result):
    """Find the end of the outermost MPI call that each row is in, which includes its ENTER and EXIT; -1 for none."""
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


ENTERS, LEAVES, CHANGES_TASK = 1, 2, 3
"""Effect of an event on the call path of its location; after a change of the task, the call path is that before the
next event."""

# state carried over to the next events: the next node; number of events of the location so far; time and call path
# after the last one, and whether it changes the task; number of call paths since the last node
NEXT_NODE, N_EVENTS, TIME, PATH, CHANGED, N_OPEN, N_STATE = range(7)


class WalkedPaths(NamedTuple):
    """Consecutive events of some locations and the call paths at them."""

    bounds: NDArray[np.int64]
    """(n_locations + 1,): where the events of each begin."""
    first: NDArray[np.int64]
    """(n_locations,): position of the first of them among the events that nodes are chosen from."""
    first_node: NDArray[np.int64]
    """(n_locations,): first node of each location, -1 if it continues."""
    time: NDArray[np.int64]
    """(n,): ticks, of each location never decreasing."""
    kind: NDArray[np.uint8]
    """(n,)"""
    node: NDArray[np.int32]
    """(n,): call path at each event, numbered within the location; of an EXIT the one it leaves; -1 none."""
    number_start: NDArray[np.int64]
    """(n_locations + 1,): where the call paths of each begin in `number`."""
    number: NDArray[np.int64]
    """(n_own,): number of each of these among all call paths; -1 none."""


class OpenSums(NamedTuple):
    """Time since the last node, by call path."""

    path: NDArray[np.int32]
    """(n_call_paths,): call paths in the order in which they are met."""
    ticks: NDArray[np.int64]
    """(n_call_paths,): 0 where there is none."""


class FoundComputation(NamedTuple):
    """Computation before nodes as it is found."""

    n_rows: NDArray[np.int32]
    before_node: NDArray[np.int32]
    """`n_rows` and `before_node`: (n_nodes,), number of rows before every node, the call path before it; -1 none."""
    call_path: NDArray[np.int32]
    ticks: NDArray[np.int64]
    """`call_path` and `ticks`: (n,) int32, int64, rows of the nodes of these events: at most as many as events and open
    sums."""


@kernel
def add_computation(events, does, parent, ranks, kind, state, sums, found):
    """Add up the time between the nodes of some locations by call path; O(n). Return the number of rows of these
    events.

    Parameters
    ----------
    events : WalkedPaths
    does : (256,) uint8
        Effect of each kind of event: `ENTERS`, `LEAVES`, `CHANGES_TASK`, or 0.
    parent : (n_call_paths,) int32
    ranks : Ranks
        Which events are nodes.
    kind : (n_nodes,) int8
        Class of the time before each node; only computation has rows.
    state : (N_STATE,) int64
        State carried over to the next events.
    sums : OpenSums
        Empty at first.
    found : FoundComputation
        Result.
    """
    v, seen, last, path = state[NEXT_NODE], state[N_EVENTS], state[TIME], state[PATH]
    is_changed, n_open, n = state[CHANGED] == 1, state[N_OPEN], 0
    for k in range(events.bounds.size - 1):
        if events.first_node[k] >= 0:
            v, seen, is_changed, n_open = events.first_node[k], np.int64(0), False, np.int64(0)
        start, numbers = events.bounds[k], events.number_start[k]
        for i in range(start, events.bounds[k + 1]):
            own = events.number[numbers + events.node[i]] if events.node[i] >= 0 else np.int64(-1)
            what, before, after = does[events.kind[i]], np.int64(-1), own
            if own >= 0 and (what == LEAVES or (is_changed and what == ENTERS)):
                after = np.int64(parent[own])
            if seen + i > start:
                if is_changed:
                    path = after if what == ENTERS else own
                before, since = path, events.time[i] - last
                if path >= 0 and since > 0:
                    if sums.ticks[path] == 0:
                        sums.path[n_open] = path
                        n_open += 1
                    sums.ticks[path] += since
            last, path, is_changed = events.time[i], after if what == LEAVES else own, what == CHANGES_TASK
            if not is_chosen(ranks, events.first[k] + i - start):
                continue
            found.before_node[v], found.n_rows[v] = before, 0
            if kind[v] == COMPUTATION:
                found.n_rows[v] = n_open
            for j in range(n_open):
                if kind[v] == COMPUTATION:
                    found.call_path[n], found.ticks[n] = sums.path[j], sums.ticks[sums.path[j]]
                    n += 1
                sums.ticks[sums.path[j]] = 0
            n_open = np.int64(0)
            v += 1
        seen += events.bounds[k + 1] - start
    state[NEXT_NODE], state[N_EVENTS], state[TIME], state[PATH] = v, seen, last, path
    state[CHANGED], state[N_OPEN] = is_changed, n_open
    return n


class Places(NamedTuple):
    """Properties of nodes, besides times and weights, on which the losses before them depend."""

    location_start: NDArray[np.int64]
    """(n_locations + 1,): first node of every location."""
    kind: NDArray[np.int8]
    """(n_nodes,): class of the weight."""
    in_window: NDArray[np.bool_]
    begins: NDArray[np.bool_]
    """`in_window` and `begins`: (n_nodes,), nodes that count; nodes at which threads begin in teams, after idling."""


class Moments(NamedTuple):
    """Times of all nodes in a scenario."""

    time: NDArray[np.int64]
    """(n_nodes,)"""
    weight: NDArray[np.int64]
    """(n_all,): time that a node takes besides waiting; none if negative."""
    since: Any
    """Begin of the run, from which on threads wait to begin in their first teams."""


@part
def _losses_before(v, is_first, places, moments):
    """Return the ticks before a node that are neither computation nor idling before the begin of a team, the ticks of
    idling, and the part of the former that is not waiting.

    If the node follows computation, only waiting is lost, else all ticks.
    """
    if not places.in_window[v]:
        return 0, 0, 0
    if not is_first:
        taken = moments.time[v] - moments.time[v - 1]
    else:
        taken = max(moments.time[v] - moments.since, 0) if places.begins[v] else 0
    weight, computes = max(moments.weight[v], 0), places.kind[v] == COMPUTATION
    waits = max(taken - weight, 0)
    idle = waits if places.begins[v] else 0
    return max((waits if computes else max(taken, 0)) - idle, 0), idle, 0 if computes else weight


@kernel
def find_losses(places, moments, losses):
    """Find the ticks before each node that are not computation; O(n), `losses` (n_nodes,) int64 is filled."""
    start = places.location_start
    for location in range(start.size - 1):
        for v in range(start[location], start[location + 1]):
            lost, idle, _ = _losses_before(v, v == start[location], places, moments)
            losses[v] = lost + idle


@kernel
def compare_losses(places, before, after, node, less):
    """Find the nodes before which the lost or idle ticks of two scenarios differ; O(n). Return their number.

    Parameters
    ----------
    places : Places
    before, after : Moments
    node : (n_nodes,) int64
        Result: these nodes, ascending; filled as far as there are any.
    less : (3, n_nodes) int64
        Result: decrease of the lost and of the idle ticks before them, and of the lost ticks that are not waiting.
    """
    start, n = places.location_start, 0
    for location in range(start.size - 1):
        for v in range(start[location], start[location + 1]):
            lost, idle, beyond = _losses_before(v, v == start[location], places, before)
            still_lost, still_idle, still_beyond = _losses_before(v, v == start[location], places, after)
            if lost != still_lost or idle != still_idle:
                node[n], less[0, n], less[1, n] = v, lost - still_lost, idle - still_idle
                less[2, n] = beyond - still_beyond
                n += 1
    return n


@kernel
def sum_shares(key, n_values, share, value, found, total):
    """Add up a share of each value over consecutive values with the same key, in their order: share[0] of the first
    n_values[0] values, and so on; return the number of keys found."""
    n = i = 0
    for k in range(share.size):
        for _ in range(n_values[k]):
            if n == 0 or found[n - 1] != key[i]:
                found[n], total[n] = key[i], 0.0
                n += 1
            total[n - 1] += share[k] * value[i]
            i += 1
    return n


@kernel
def retime(position, node_position, new_time, at, result):
    """Move events of one location as its nodes move: between two nodes in proportion, after the last one by the same
    amount.

    Parameters
    ----------
    position : (n,) float64
        Ticks since the location's first event, ascending; scaled computation counts with its scaled time.
    node_position : (n_nodes,) float64
        Positions of the nodes.
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
    """Set the time of nodes that wait for nothing to that of the node before them plus their weight, in place; O(n).

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
