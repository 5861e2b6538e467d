"""Exclusive time of intervals between cuts, by call path, and the excess of one side of a wait over the other.

Times are float64 seconds or int64 ticks, of the same type throughout a call, as in `kernels.segments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.kernels.sums import ENTRY, EPOCH, FIRST, N_PATHS, N_SORTED, WAIT, WAIT_FIRST, Sum, add_time, sort_paths


class Entries(NamedTuple):
    """Times by call path, one cut after the other: (n_entries,) int32, and float64 or int64."""

    path: NDArray[np.int32]
    time: NDArray[Any]


class Spans(NamedTuple):
    """Intervals between cuts of one location each."""

    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    """`first` and `stop`: (n,), first entry, and one past the last; first is -1 where there is no interval."""
    wait_first: NDArray[np.signedinteger[Any]]
    wait_stop: NDArray[np.signedinteger[Any]]
    """`wait_first` and `wait_stop`: (n,) int32 or int64, first of the waits inside, and one past the last."""
    call: NDArray[np.int32]
    """(n,): call path that the interval begins in; -1 none."""
    change: NDArray[Any]
    """(n,) float64 or int64: change of the time of this call path, which does not become negative."""


def part_of(spans: Spans, rows: slice) -> Spans:
    """Return views of some intervals."""
    return Spans(*[column[rows] for column in spans])  # type: ignore[arg-type]


class Known(NamedTuple):
    """Points, and their locations."""

    location: NDArray[np.int32]
    call_path: NDArray[np.int32]
    """`location` and `call_path`: (n_points,)"""
    met: NDArray[np.signedinteger[Any]]
    """(n_call_paths,) int32 or int64: number of each call path in the order in which they are met."""
    start: NDArray[np.int64]
    shift: NDArray[np.int64]
    """`start` and `shift`: (n_locations + 1,), (n_locations,) int64, first point of each location; how much greater
    the number of a point is than the row of its cut."""
    waits_before: NDArray[np.signedinteger[Any]]
    """(n_points + 1,) int32 or int64: number of waiting points before each one."""


@kernel
def describe_spans(since, until, is_whole, change, points, spans):
    """Describe the intervals between points.

    Parameters
    ----------
    since, until : (n,) int64
        Points of the same location; `since` -1 is its beginning, `until` -1 no interval.
    is_whole : (n,) bool
        Whether each interval begins when `since` begins to complete, not after its call.
    change : (n,) float64 or int64
        Time in the call of `since` after the point less the whole time of the call; not positive.
    points : Known
    spans : Spans, written
        `first` and `stop` are the rows of the cuts of both points, -1 for the beginning and for no interval.
    """
    nothing = spans.change.dtype.type(0)
    for i in range(until.size):
        spans.call[i], spans.change[i], spans.first[i], spans.stop[i] = -1, nothing, -1, -1
        if until[i] < 0:
            spans.wait_first[i] = spans.wait_stop[i] = 0
            continue
        s, here = since[i], points.location[until[i]]
        begin = points.start[here]
        if s >= 0:
            begin = s + 1
            spans.first[i] = s - points.shift[here]
            if is_whole[i]:
                spans.change[i] = change[i]
                if points.call_path[s] >= 0:
                    spans.call[i] = points.met[points.call_path[s]]
        spans.stop[i] = until[i] - points.shift[here]
        spans.wait_first[i], spans.wait_stop[i] = points.waits_before[begin], points.waits_before[until[i]]


@inner_part
def _add_up(i, spans, entries, waits, sum_):
    """Add up an interval; if it begins where the previous one begins, and ends no earlier, it continues the sums of
    that."""
    state = sum_.state
    first, stop, wait_first, wait_stop = spans.first[i], spans.stop[i], spans.wait_first[i], spans.wait_stop[i]
    goes_on = state[FIRST] == first and state[WAIT_FIRST] == wait_first
    if not (goes_on and stop >= state[ENTRY] and wait_stop >= state[WAIT]):
        for w in range(state[WAIT_FIRST], state[WAIT]):
            sum_.waited[waits.path[w]] = sum_.floor.dtype.type(0)
        state[EPOCH] += 1
        state[N_PATHS] = state[N_SORTED] = 0
        state[FIRST] = state[ENTRY] = first
        state[WAIT_FIRST] = state[WAIT] = wait_first
    epoch, n = np.int32(state[EPOCH]), state[N_PATHS]
    for e in range(state[ENTRY], stop):
        n = add_time(entries.path[e], entries.time[e], epoch, n, sum_)
    for w in range(state[WAIT], wait_stop):
        sum_.waited[waits.path[w]] += waits.time[w]
    state[N_PATHS] = n
    state[ENTRY] = max(stop, state[ENTRY])
    state[WAIT] = max(np.int64(wait_stop), state[WAIT])


@inner_part
def _time_of(c, call, change, sum_):
    """Return the time of a call path in an interval, without the waits, and with the change for the call it begins
    in."""
    nothing = sum_.floor.dtype.type(0)
    x = nothing
    if sum_.stamp[c] == np.int32(sum_.state[EPOCH]):
        x = max(sum_.time[c] - sum_.waited[c], nothing)
    return max(x + change, nothing) if c == call else x


@part
def _insert(c, x, first, n, out):
    """Insert an entry into the n entries of a map that begin at `first`, in the order of call paths."""
    j = first + n
    while j > first and out.path[j - 1] > c:
        out.path[j] = out.path[j - 1]
        out.value[j] = out.value[j - 1]
        j -= 1
    out.path[j] = c
    out.value[j] = x


@kernel
def sum_intervals(start, spans, entries, waits, prune, sum_, out):
    """Add up intervals by call path; without the waits inside, if they are to be pruned.

    Parameters
    ----------
    start : int
        Interval to begin with.
    spans : Spans
    entries, waits : Entries
        Entries of the locations of the intervals; all waits.
    prune : bool
        Keep times that are positive after the waits are taken off; else all that are not zero.
    sum_ : Sum
        Scratch.
    out : segments.Maps, written

    Returns
    -------
    int
        The interval to go on with: n, or less if the arrays of entries are full.
    """
    filled, nothing = out.end[start - 1] if start > 0 else np.int64(0), sum_.floor.dtype.type(0)
    for i in range(start, spans.first.size):
        _add_up(i, spans, entries, waits, sum_)
        n = sum_.state[N_PATHS]
        if filled + n + 1 > out.path.size:
            return i
        sort_paths(sum_)
        call, change, first = spans.call[i], spans.change[i], filled
        for j in range(n):
            c = sum_.path[j]
            x = _time_of(c, call, change, sum_) if prune else sum_.time[c]
            if x > 0 or (x != 0 and not prune):
                out.path[filled] = c
                out.value[filled] = x
                filled += 1
        if prune and call >= 0 and change > 0 and sum_.stamp[call] != np.int32(sum_.state[EPOCH]):
            _insert(call, change + nothing, first, filled - first, out)
            filled += 1
        out.end[i] = filled
    return spans.first.size


class Sides(NamedTuple):
    """The two sides of pairs, and for some pairs a further interval of the causing side."""

    causing: Spans
    waiting: Spans
    within: Spans
    """Only call paths that have time in this interval as well, or that it begins in, count; empty if all count."""


class Times(NamedTuple):
    """Entries of the locations of `Sides`, and scratch for their intervals."""

    of_causing: Entries
    of_waiting: Entries
    of_within: Entries
    causing: Sum
    waiting: Sum
    within: Sum


class Listed(NamedTuple):
    """Excess time of the causing sides; written."""

    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    """`first` and `stop`: (n_pairs,), first entry of each pair, and one past its last."""
    total: NDArray[Any]
    """(n_pairs,) float64 or int64: the sum of each pair."""
    path: NDArray[np.int32]
    value: NDArray[Any]
    """`path` and `value`: (any,) int32, as `total`, of each pair in the order of call paths."""


@kernel
def compare_sides(start, filled, row, sides, times, waits, out):
    """Compute, for pairs, how much more time the causing side spent than the waiting side, by call path.

    Parameters
    ----------
    start, filled : int
        Pair to begin with; number of entries so far.
    row : (n,) int64
        Position of the results of each pair.
    sides : Sides
    times : Times
    waits : Entries
        All waits.
    out : Listed, written

    Returns
    -------
    at, filled : int
        The pair to go on with: n, or less if the arrays of entries are full; number of entries now.
    """
    nothing = out.total.dtype.type(0)
    for i in range(start, row.size):
        causing, waiting, within = times.causing, times.waiting, times.within
        _add_up(i, sides.causing, times.of_causing, waits, causing)
        n = causing.state[N_PATHS]
        if filled + n + 1 > out.path.size:
            return i, filled
        sort_paths(causing)
        compares = sides.waiting.first[i] >= 0
        is_within = sides.within.first.size > 0 and sides.within.first[i] >= 0
        if compares:
            _add_up(i, sides.waiting, times.of_waiting, waits, waiting)
        if is_within:
            _add_up(i, sides.within, times.of_within, waits, within)
        call, change, first = sides.causing.call[i], sides.causing.change[i], filled
        other_call, other_change = sides.waiting.call[i], sides.waiting.change[i]
        is_absent = call >= 0 and change > 0 and causing.stamp[call] != np.int32(causing.state[EPOCH])
        for j in range(n + is_absent):
            c = causing.path[j] if j < n else call
            x = _time_of(c, call, change, causing)
            if is_within and c != sides.within.call[i] and not _time_of(c, np.int32(-1), nothing, within) > 0:
                continue
            if compares:
                x -= _time_of(c, other_call, other_change, waiting)
            if x > 0:
                _insert(c, x, first if j == n else filled, filled - first if j == n else 0, out)
                filled += 1
        total = nothing
        for j in range(first, filled):
            total += out.value[j]
        r = row[i]
        out.first[r], out.stop[r], out.total[r] = first, filled, total
    return row.size, filled
