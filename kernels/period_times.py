"""The time of intervals by call path and period, from edge to edge of periods. Intervals may be as long as the run, so
segments and waits are given in parts.

Times are float64 seconds or int64 ticks, of the same type throughout a call, as in `kernels.segments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.sums import add_to_total

# state carried over when something is lacking: the interval, its next segment, wait and edge; the step for the time up
# to that edge; whether the segment that the edge lies in has entries; number of call paths listed, of times found
INTERVAL, SEGMENT, WAIT, EDGE, DOES, HAS_ENTRIES, N_LISTED, N_FOUND, N_STATE = range(9)

# steps for the time of an interval up to an edge, in this order
BEGINS, ADDS_SEGMENTS, TAKES_WAITS, WRITES = range(4)

# what may be lacking: the next segment, the next wait, room for results
NOTHING, SEGMENTS, WAITS, ROOM = range(4)


class Segments(NamedTuple):
    """Consecutive segments (`kernels.segments`), a part of all."""

    first: Any
    """Number of the first one."""
    end: NDArray[np.int64]
    """(n + 1,): where the entries of each begin, and one past the last entry of all."""
    path: NDArray[np.int32]
    value: NDArray[Any]
    """`path` and `value`: (n_entries,) int32, float64 or int64."""


class Waits(NamedTuple):
    """Waits in the order of their points, a part of all."""

    first: Any
    """Number of the first one."""
    path: NDArray[np.int32]
    begin: NDArray[Any]
    wait: NDArray[Any]
    """`path`, `begin` and `wait`: (n,) int32, and float64 or int64: call path, begin, how long."""


class Part(NamedTuple):
    """A part of a call inside of each interval: (n,) int32, and float64 or int64: its call path (-1 none), begin and
    end."""

    path: NDArray[np.int32]
    begin: NDArray[Any]
    end: NDArray[Any]


class Spans(NamedTuple):
    """Intervals between cuts that lie in several periods."""

    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    """`first` and `stop`: (n,), first segment of each, and one past its last."""
    edge: NDArray[np.int64]
    edge_stop: NDArray[np.int64]
    """`edge` and `edge_stop`: (n,), the first edge inside, and one past the last of the location."""
    period: NDArray[np.int32]
    """(n,): the period it begins in."""
    wait: NDArray[np.int64]
    wait_stop: NDArray[np.int64]
    """`wait` and `wait_stop`: (n,), first of the waits inside, which are taken off, and one past the last."""
    less: Part
    more: Part
    """`less` and `more`: what else is taken off, at the begin; and what is added at the end, possibly after the last
    cut."""


def spans_at(spans: Spans, at: NDArray[np.int64]) -> Spans:
    """Return some of the intervals."""
    *of_interval, less, more = spans
    parts = (Part(*(column[at] for column in of)) for of in (less, more))
    return Spans(*(column[at] for column in of_interval), *parts)


class Found(NamedTuple):
    """Time of intervals by period and call path, written: (n,) int64, int32, int32, float64 or int64."""

    interval: NDArray[np.int64]
    period: NDArray[np.int32]
    path: NDArray[np.int32]
    value: NDArray[Any]


@part
def _overlap(begin, end, since, is_first, until, is_last):
    """Return how much of a time lies between two edges."""
    low = begin if is_first else max(begin, since)
    high = end if is_last else min(end, until)
    return max(high - low, low - low)


@part
def _write(i, period, n, filled, totals, found):
    """Write the positive times up to an edge, and reset the sum; return the number of times found."""
    for j in range(n):
        c = totals.met[j]
        if totals.time[c] > 0:
            found.interval[filled], found.period[filled] = i, period
            found.path[filled], found.value[filled] = c, totals.time[c]
            filled += 1
        totals.time[c] = totals.time.dtype.type(0)
        totals.is_met[c] = False
    return filled


@kernel
def sum_periods(state, spans, waits, segments, edges, totals, found):
    """Add up the time of intervals by period and call path, from edge to edge, as far as it is positive.

    Parameters
    ----------
    state : (N_STATE,) int64
        Carried from call to call; zeros before the first interval.
    spans : Spans
    waits : Waits
    segments : Segments
        Of several locations one after the other.
    edges : edges.Edges
        Of the same, all of them.
    totals : sums.Totals
        The time up to an edge.
    found : Found, written

    Returns
    -------
    int
        What is needed to go on (`SEGMENTS`, `WAITS`, `ROOM`), from the next segment or wait of the state on; `NOTHING`
        when all intervals are done.
    """
    nothing, lacks = totals.time.dtype.type(0), NOTHING
    i, at, w, e = state[INTERVAL], state[SEGMENT], state[WAIT], state[EDGE]
    does, has_entries, n, filled = state[DOES], state[HAS_ENTRIES] == 1, state[N_LISTED], state[N_FOUND]
    first, last, waits_stop = segments.first, segments.first + segments.end.size - 1, waits.first + waits.wait.size
    while i < spans.first.size:
        if does == BEGINS:
            at, w, e, does = spans.first[i], spans.wait[i], spans.edge[i], ADDS_SEGMENTS
        is_first, has_edge = e == spans.edge[i], e < spans.edge_stop[i]
        since, until = nothing if is_first else edges.time[e - 1], edges.time[e] if has_edge else nothing
        inside = has_edge and edges.segment[e] < spans.stop[i]
        is_last = not (inside or (has_edge and spans.more.path[i] >= 0 and until < spans.more.end[i]))
        if does == ADDS_SEGMENTS:
            target = edges.segment[e] if inside else spans.stop[i]
            if at < target and first <= at < last:
                stop = min(target, last)
                for k in range(segments.end[at - first], segments.end[stop - first]):
                    n = add_to_total(segments.path[k], segments.value[k], n, totals)
                at = stop
            # the segment that the edge lies in is needed as well
            if at < target or (inside and not first <= at < last):
                lacks = SEGMENTS
                break
            # time that a thread has dropped is in no segment
            has_entries = inside and segments.end[at - first + 1] > segments.end[at - first]
            if has_entries:
                for k in range(edges.end[e - 1] if e > 0 else np.int64(0), edges.end[e]):
                    n = add_to_total(edges.path[k], edges.value[k], n, totals)
            does = TAKES_WAITS
        if does == TAKES_WAITS:
            while w < spans.wait_stop[i]:
                if not waits.first <= w < waits_stop:
                    lacks = WAITS
                    break
                begins, waited = waits.begin[w - waits.first], waits.wait[w - waits.first]
                if not is_last and begins >= until:
                    break
                x = _overlap(begins, begins + waited, since, is_first, until, is_last)
                n = add_to_total(waits.path[w - waits.first], -x, n, totals)
                if not is_last and begins + waited > until:
                    break
                w += 1
            if lacks != NOTHING:
                break
            c = spans.less.path[i]
            if c >= 0:
                x = _overlap(spans.less.begin[i], spans.less.end[i], since, is_first, until, is_last)
                n = add_to_total(c, -x, n, totals)
            c = spans.more.path[i]
            if c >= 0:
                x = _overlap(spans.more.begin[i], spans.more.end[i], since, is_first, until, is_last)
                n = add_to_total(c, x, n, totals)
            does = WRITES
        if filled + n > found.path.size:
            lacks = ROOM
            break
        filled = _write(i, spans.period[i] if is_first else edges.period[e - 1], n, filled, totals, found)
        n = np.int64(0)
        if is_last:
            i, does = i + 1, BEGINS
            continue
        if has_entries:
            for k in range(edges.end[e - 1] if e > 0 else np.int64(0), edges.end[e]):
                n = add_to_total(edges.path[k], -edges.value[k], n, totals)
        e, does = e + 1, ADDS_SEGMENTS
    state[INTERVAL], state[SEGMENT], state[WAIT], state[EDGE] = i, at, w, e
    state[DOES], state[HAS_ENTRIES], state[N_LISTED], state[N_FOUND] = does, has_entries, n, filled
    return lacks
