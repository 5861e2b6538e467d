"""The controlled logical clock: backward amortisation over the graph of clock conditions, and the shifts of all events."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import inner_part, kernel


@kernel
def amortise(time, forward, limit, stretch, lookback, shift):
    """Let the events before a correction move towards it: the shift before a jump rises as slowly as all limits permit.

    From the last node to the first: the straight line that rises to a node is steep enough to stay below all limits before it
    (their lower convex hull), and ends where it meets what the forward pass has left. O(nodes) where few limits count, and
    `lookback` times that at most.

    Parameters
    ----------
    time : (n,) int64
        Nodes of one location: ticks, never decreasing.
    forward : (n,) int64
        By how much the forward pass shifts them.
    limit : (n,) int64
        By how much they may be shifted, at least that.
    stretch : float
        Share of the time that passes by which a shift rises at least, where it rises.
    lookback : int
        Nodes behind the last limit that counts in which others are looked for.
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
        # to the last limit that counts, or where the line meets what is there already: there another one begins
        top = anchor
        while anchor > last:
            anchor -= 1
            line = shift[top] - np.int64(np.floor(rate * (time[top] - time[anchor])))
            shift[anchor] = max(forward[anchor], min(limit[anchor], line))
            if line <= forward[anchor]:
                break


@kernel
def earliest_heads(tail, head, lag, time, earliest):
    """Find when each tail happens at the latest, `earliest[tail]`, that is before all of its heads: by their times without the lags, edge by edge."""
    for e in range(tail.size):
        earliest[tail[e]] = min(earliest[tail[e]], time[head[e]] - lag[e])


@kernel
def latest_tails(tail, head, lag, time, latest):
    """Find when each head happens at the earliest, `latest[head]`, that is behind all of its tails: by their times and the lags, edge by edge."""
    for e in range(tail.size):
        latest[head[e]] = max(latest[head[e]], time[tail[e]] + lag[e])


@inner_part
def shift_between(time, node, node_time, node_shift, shrink, stretch):
    """Return the shift of an event behind `node` nodes of its location: what remains of the shift before, or leads to the next."""
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
    """Find by how much the events of a location move, from the shifts of its nodes; O(n).

    Between two nodes the larger of two counts: what the first one leaves, which shrinks, and what leads to the second one, which grows
    evenly, no slower than it may.

    Parameters
    ----------
    row : (n,) int64
        Events, ascending.
    time : (n,) int64
        Ticks, never decreasing.
    node_row, node_time, node_shift : (n_nodes,) int64
        Those events whose shifts are known, ascending.
    node : int
        A number of nodes that are not behind the first event.
    shrink, stretch : float
        By which share of the time that passes a shift becomes smaller behind a node, and grows before it.
    shift : (n,) int64
        Result: ticks to be added.

    Returns
    -------
    int
        Nodes that are not behind the last event.
    """
    for i in range(row.size):
        while node < node_row.size and node_row[node] <= row[i]:
            node += 1
        shift[i] = shift_between(time[i], node, node_time, node_shift, shrink, stretch)
    return node


@kernel
def measure_intervals(shift, before, found):
    """Add up by how much the intervals between consecutive events of a location change.

    Parameters
    ----------
    shift : (n,) int64
        Ticks by which consecutive events move.
    before : int
        Shift of the event in front of them.
    found : (4,) int64
        Sum of the changes, largest change, largest shift, events that are moved: what is found is added to it.
    """
    for i in range(shift.size):
        change = abs(shift[i] - before)
        found[0] += change
        found[1] = max(found[1], change)
        found[2] = max(found[2], shift[i])
        found[3] += shift[i] != 0
        before = shift[i]
