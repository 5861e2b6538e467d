"""The controlled logical clock: backward amortisation over the graph of clock conditions, and the shifts of all
events."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tracecols.kernels.kernel import inner_part, kernel
from tracecols.kernels.ordered import last_until


class Conditions(NamedTuple):
    """Conditions between nodes: the head of a condition happens after its tail. Hubs follow the nodes by number."""

    start: Any
    """(n_all + 1,) int32 or int64: first condition of each tail."""
    head: Any
    """(n_conditions,) int32 or int64"""
    kind: Any
    """(n_conditions,) int8"""
    late: Any
    """(n,) int64: by how much nodes were recorded after events with later times; empty if none was."""
    latency: Any
    """int: minimum ticks of conditions whose kind is less than `n_transfers`."""
    n_transfers: Any
    """int"""


class Locations(NamedTuple):
    """Progress of a sweep at each location, and scratch memory."""

    first: Any
    """(n_locations + 1,) int64: first node of each location."""
    at: Any
    """(n_locations,) int64: next node; initially the first one."""
    ready: Any
    """(n_locations,) int64: scratch."""
    is_blocked: Any
    """(n_locations,) bool: initially False."""


@kernel
def amortise(time, forward, limit, stretch, lookback, shift):
    """Let the events before a correction move towards it: the shift before a jump rises as slowly as all limits permit.

    From the last node to the first: the straight line that rises to a node is steep enough to stay below all limits
    before it (their lower convex hull), and ends where it meets the shifts of the forward pass. O(nodes) if few limits
    count, and at most `lookback` times that.

    Parameters
    ----------
    time : (n,) int64
        Nodes of one location: ticks, never decreasing.
    forward : (n,) int64
        By how much the forward pass shifts them.
    limit : (n,) int64
        By how much they may be shifted; at least `forward`.
    stretch : float
        Minimum slope of a rising shift, as a share of the time that passes.
    lookback : int
        Number of nodes after the last limit that counts in which further limits are searched for.
    shift : (n,) int64
        Result.
    """
    anchor = time.size - 1
    if anchor >= 0:
        shift[anchor] = forward[anchor]
    while anchor > 0:
        rate, best, node, seen = stretch, -1, anchor - 1, 0
        while node >= 0 and seen < lookback:
            gap = time[anchor] - time[node]
            line = shift[anchor] - rate * gap
            if line <= forward[node]:
                break
            if limit[node] < line:
                best, seen = node, 0
                if gap == 0:
                    break
                rate = (shift[anchor] - limit[node]) / np.float64(gap)
            node -= 1
            seen += 1
        last = best if best >= 0 else max(node, 0)
        # to the last limit that counts, or where the line meets the forward shifts: another line begins there
        top = anchor
        while anchor > last:
            anchor -= 1
            line = shift[top] - np.int64(np.floor(rate * (time[top] - time[anchor])))
            shift[anchor] = max(forward[anchor], min(limit[anchor], line))
            if line <= forward[anchor]:
                break


@kernel
def place_conditions(tail, head, condition, is_inferred, at, waiting, out_head, out_condition, out_inferred):
    """Group conditions by tail; `at` holds the position of the next condition of each tail, `waiting` counts the
    conditions of each head."""
    for e in range(tail.size):
        place = at[tail[e]]
        at[tail[e]] = place + 1
        waiting[head[e]] += 1
        out_head[place] = head[e]
        out_condition[place] = condition[e]
        out_inferred[place] = is_inferred[e]


@inner_part
def lag_of(tail, e, conditions, n):
    """Return how much later than its tail the head of condition `e` has to be, at least. A hub takes no time: transfers
    through it take theirs after it."""
    lag = np.int64(0)
    head = np.int64(conditions.head[e])
    if head < n and conditions.kind[e] < conditions.n_transfers:
        lag += conditions.latency
    if conditions.late.size:
        if head < n:
            lag += conditions.late[head]
        if tail < n:
            lag -= conditions.late[tail]
    return lag


@kernel
def sweep_forward(time, conditions, shrink, locations, waiting, hubs, result):
    """Find the earliest times that satisfy all conditions, none earlier than recorded; O(nodes + conditions).

    Every location goes on until it meets a node that waits for others.

    Parameters
    ----------
    time : (n,) int64
        Recorded ticks, never decreasing at a location.
    conditions : Conditions
    shrink : float
        Share by which intervals may become shorter after a node that was moved.
    locations : Locations
    waiting : (n_all,) int32
        Number of conditions that lead to each node; counted down.
    hubs : (n_hubs + 1,) int64
        Scratch.
    result : (n_all,) int64, written
        Initially the recorded times, for hubs a time before all.
    """
    first, at, ready, is_blocked = locations
    start, head = conditions.start, conditions.head
    n = time.size
    for i in range(at.size):
        ready[i] = at.size - 1 - i
    n_ready = at.size
    while n_ready > 0:
        n_ready -= 1
        here = ready[n_ready]
        while at[here] < first[here + 1]:
            node = at[here]
            if waiting[node] > 0:
                is_blocked[here] = True
                break
            if node > first[here]:
                gap = time[node] - time[node - 1]
                least = result[node - 1] + gap - np.int64(np.floor(shrink * np.float64(gap)))
                result[node] = max(result[node], least)
            at[here] += 1
            tail, n_hubs = node, 0
            while True:
                for e in range(start[tail], start[tail + 1]):
                    to = np.int64(head[e])
                    result[to] = max(result[to], result[tail] + lag_of(tail, e, conditions, n))
                    waiting[to] -= 1
                    if waiting[to] > 0:
                        continue
                    if to >= n:
                        hubs[n_hubs] = to
                        n_hubs += 1
                        continue
                    there = last_until(to, 0, first.size - 1, first)
                    if is_blocked[there] and at[there] == to:
                        is_blocked[there] = False
                        ready[n_ready] = there
                        n_ready += 1
                if n_hubs == 0:
                    break
                n_hubs -= 1
                tail = hubs[n_hubs]


@kernel
def limit_tails(low, high, conditions, forward, limit_of_hub, limit):
    """Find the latest times of some tails that are before all of their heads; hubs are processed from the last to the
    first.

    Parameters
    ----------
    low, high : int
        Nodes, or all hubs.
    conditions : Conditions
    forward : (n_all,) int64
        Times of heads.
    limit_of_hub : (n_hubs,) int64
        Latest times of hubs; hubs with a lower number than a tail are not read.
    limit : (high - low,) int64, written
        The times; initially a time after all. For hubs the same array as `limit_of_hub`.
    """
    n = forward.size - limit_of_hub.size
    start, head = conditions.start, conditions.head
    for tail in range(high - 1, low - 1, -1):
        for e in range(start[tail], start[tail + 1]):
            to = np.int64(head[e])
            time = forward[to] if to < n else limit_of_hub[to - n]
            limit[tail - low] = min(limit[tail - low], time - lag_of(tail, e, conditions, n))


@kernel
def count_violations(time, shift, conditions, latest, counts):
    """Count the violated conditions by kind.

    Parameters
    ----------
    time, shift : (n,) int64
        Ticks, and the shifts to be added to them, which may be empty.
    conditions : Conditions
    latest : (n_hubs,) int64, written
        Times of hubs; initially a time before all. Hubs in a chain follow each other by number.
    counts : (n_kinds,) int64, written
        Zeros.
    """
    n, moved = time.size, shift.size > 0
    start, head = conditions.start, conditions.head
    for into_hubs in (True, False):
        for tail in range(n + latest.size):
            if tail >= n:
                at = latest[tail - n]
            else:
                at = time[tail] + shift[tail] if moved else time[tail]
            for e in range(start[tail], start[tail + 1]):
                to = np.int64(head[e])
                if (to >= n) != into_hubs:
                    continue
                until = at + lag_of(tail, e, conditions, n)
                if into_hubs:
                    latest[to - n] = max(latest[to - n], until)
                elif (time[to] + shift[to] if moved else time[to]) < until:
                    counts[conditions.kind[e]] += 1


@inner_part
def shift_between(time, node, node_time, node_shift, shrink, stretch):
    """Return the shift of an event after `node` nodes of its location: what remains of the shift of the node before, or
    leads to that of the next."""
    shift = 0
    rate = stretch
    if node > 0:
        before = node_time[node - 1]
        if time <= before:
            return node_shift[node - 1]
        shift = max(shift, node_shift[node - 1] - np.int64(np.floor(shrink * np.float64(time - before))))
        if node < node_time.size and node_time[node] > before:
            rise = np.float64(node_shift[node] - node_shift[node - 1])
            rate = max(rate, rise / np.float64(node_time[node] - before))
    if node < node_time.size:
        gap = np.float64(max(node_time[node] - time, 0))
        shift = max(shift, node_shift[node] - np.int64(np.floor(rate * gap)))
    return shift


@kernel
def shift_events(row, time, node_row, node_time, node_shift, node, shrink, stretch, shift):
    """Compute the shifts of the events of a location from those of its nodes, or of a location that it follows; O(n).
    Return the number of nodes that are not after the last event.

    Between two nodes, the larger of two shifts counts: the one that remains of the first node, which shrinks, and the
    one that leads to the second node, which grows evenly, no slower than it may.

    Parameters
    ----------
    row : (n,) int64
        Events, ascending; their times if nodes of another location are followed.
    time : (n,) int64
        Ticks, never decreasing.
    node_row, node_time, node_shift : (n_nodes,) int64
        Events whose shifts are known, ascending; `node_row` as `row`.
    node : int
        A number of nodes known not to be after the first event.
    shrink, stretch : float
        Share of the time that passes by which a shift decreases after a node, and grows before it.
    shift : (n,) int64
        Ticks to be added; raised to the shifts found, which are not negative.
    """
    for i in range(row.size):
        while node < node_row.size and node_row[node] <= row[i]:
            node += 1
        shift[i] = max(shift[i], shift_between(time[i], node, node_time, node_shift, shrink, stretch))
    return node


@kernel
def measure_intervals(shift, before, found):
    """Add up the changes of the intervals between consecutive events of a location.

    Parameters
    ----------
    shift : (n,) int64
        Ticks by which consecutive events move.
    before : int
        Shift of the event before them.
    found : (4,) int64
        Sum of the changes, largest change, largest shift, number of events that are moved; updated.
    """
    for i in range(shift.size):
        change = abs(shift[i] - before)
        found[0] += change
        found[1] = max(found[1], change)
        found[2] = max(found[2], shift[i])
        found[3] += shift[i] != 0
        before = shift[i]
