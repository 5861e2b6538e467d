"""Edges: where the periods of a location begin between its synchronisation points.

Times are float64 seconds or int64 ticks, of the same type throughout a call, as in `kernels.segments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.actions import NOTHING, ON_OFF, POP, PUSH
from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.segments import (
    CUT,
    END_IN_TEAM,
    IDLES,
    IN,
    JOIN_TEAM,
    LEAVE_TEAM,
    N_FLUSHES,
    N_LISTED,
    N_MARKS,
    N_NESTED,
    N_SEGMENTS,
    NESTED_STOP,
    REQUEST,
    begin_location,
    collect_segments,
    count_nested,
    events_at,
    finish_location,
    has_room,
    meaning_at,
    owner_of_time,
    what_happens,
)
from tracecols.kernels.segments import FORK as FORK_TEAM

# state carried from batch to batch; call path whose time was counted early, and the one it was taken from; whether
# there is no room for more edges
N_EDGES, PERIOD, EARLY, ABOVE, IS_FULL, N_STATE = range(6)


class Dividing(NamedTuple):
    """Division of the time of a location."""

    bins: NDArray[Any]
    """(n_bins - 1,) float64 or int64: begin of all bins but the first; empty if phases divide the time."""
    node_period: NDArray[np.int32]
    """(n_nodes,): phase of each of the location's own call paths; -1 outside."""
    begin: NDArray[Any]
    end: NDArray[Any]
    """`begin` and `end`: (n_phases,) as `bins`, of the phases that begin on the location itself."""


class DividingAll(NamedTuple):
    """Division of the time of some locations, one location after the other: where the bins, the call paths and the
    phases of each begin, (n + 1,) int64 each, and the `Dividing` of all."""

    bin_start: NDArray[np.int64]
    node_start: NDArray[np.int64]
    phase_start: NDArray[np.int64]
    all: Dividing


class Edges(NamedTuple):
    """Where periods of locations begin, in order, one location after the other."""

    time: NDArray[Any]
    """(n_edges,) float64 or int64"""
    period: NDArray[np.int32]
    """(n_edges,): the period that begins."""
    segment: NDArray[np.int64]
    """(n_edges,): the segment that an edge lies in."""
    end: NDArray[np.int64]
    """(n_edges,): one past the last entry of each."""
    path: NDArray[np.int32]
    value: NDArray[Any]
    """`path` and `value`: (n_entries,) int32, as `time`, the time of the segment until the edge, by call path; several
    entries of a call path are added up."""


class Noted(NamedTuple):
    """Results and state of a walk through the events of locations."""

    edges: Edges
    state: NDArray[np.int64]
    """(N_STATE,)"""
    early_until: NDArray[Any]
    """(1,) as the times: time until which time was counted early."""


@part
def _charges(what):
    """Return whether time is counted at events with an action."""
    return what != NOTHING and what != REQUEST


@part
def _has_room(n_edges, n_listed, noted):
    """Return whether there is room for `n_edges` edges in a segment that holds `n_listed` call paths."""
    k, edges = noted.state[N_EDGES], noted.edges
    filled = edges.end[k - 1] if k > 0 else np.int64(0)
    return k + n_edges <= edges.time.size and filled + n_edges * (n_listed + 3) <= edges.path.size


@part
def _note(t, period, place, own, own_time, late, noted, open_sum):
    """Record an edge: the times in the open map, and the time of the call path `own` since then.

    Parameters
    ----------
    t : float or int
        Time of the edge.
    period : int
        The period that begins.
    place : tuple of int
        Segment it lies in; number of entries of the map that belong to it.
    own, own_time : int, float or int
        -1 none.
    late : bool
        Whether time that was counted early, up to `early_until`, is taken back as far as it lies after the edge.
    noted : Noted, written
    open_sum : sums.Sum
    """
    edges, state, early_until = noted
    segment, n = place
    k = state[N_EDGES]
    at = edges.end[k - 1] if k > 0 else np.int64(0)
    for j in range(n):
        edges.path[at] = open_sum.path[j]
        edges.value[at] = open_sum.time[open_sum.path[j]]
        at += 1
    if own >= 0:
        edges.path[at] = own
        edges.value[at] = own_time
        at += 1
    if late and t < early_until[0]:
        if state[EARLY] >= 0:
            edges.path[at] = state[EARLY]
            edges.value[at] = t - early_until[0]
            at += 1
        if state[ABOVE] >= 0:
            edges.path[at] = state[ABOVE]
            edges.value[at] = early_until[0] - t
            at += 1
    edges.time[k] = t
    edges.period[k] = period
    edges.segment[k] = segment
    edges.end[k] = at
    state[N_EDGES] = k + 1
    state[PERIOD] = period


@part
def _note_inside(t, period, event, place, own, nested, noted, collected):
    """Record an edge between two events, after the nested cuts that the later one makes up to the edge.

    Parameters
    ----------
    event : tuple of float or int, int
        Time and row of the later event.
    t, period, place, own, noted
        As for `_note`.
    nested, collected
        As for `segments.collect_segments`.
    """
    state, before = collected.state, collected.last[0]
    m, since = count_nested(event[0], t, event[1], before, state[N_NESTED], state[NESTED_STOP], nested)
    n = place[1] if m == 0 else np.int64(0)
    own_time = max(t - since, collected.last.dtype.type(0))
    _note(t, period, (place[0] + m, n), own, own_time, True, noted, collected.open_sum)


@kernel
def collect_with_edges(dividing, noted, start, events, meaning, marks, nested, collected):
    """Collect the segments of a location as without periods, and record where each period begins.

    A period begins before the event that ends its first interval, after the cuts there. The time between a FORK and an
    ENTER, or an EXIT and a JOIN, belongs to the bins in which it lies, though all of it is counted at the ENTER or the
    EXIT; phases are those of the region.

    Parameters
    ----------
    dividing : Dividing
    noted : Noted, written
    start, events, meaning, marks, nested, collected
        As for `segments.collect_segments`.

    Returns
    -------
    int
        The event to go on with: the number of events, or less if arrays are full.
    """
    time, kind, region, node, base_row = events
    action, number, parent, tasks, _, fills, stop_times, flush_paths = meaning
    _, state, last, open_sum, _ = collected
    bins, node_period, begin, end = dividing
    _, edge_state, early_until = noted
    by_time = node_period.size == 0
    i = start
    while i < time.size:
        # the next event before which a period begins
        next_bin, j = edge_state[PERIOD], i
        if by_time:
            while (
                next_bin < bins.size and j < time.size and (time[j] < bins[next_bin] or not _charges(action[kind[j]]))
            ):
                j += 1
            if next_bin == bins.size:
                j = time.size
        else:
            now_in = edge_state[PERIOD]
            while j < time.size and (node[j] < 0 or node_period[node[j]] == now_in or not _charges(action[kind[j]])):
                j += 1
        if j > i:
            mark, n_flushes = state[N_MARKS], state[N_FLUSHES]
            i = collect_segments(i, j, events, meaning, marks, nested, collected)
            for m in range(mark, state[N_MARKS]):
                if marks.what[m] == LEAVE_TEAM or marks.what[m] == END_IN_TEAM:
                    at = marks.row[m] - base_row
                    c = number[node[at]]
                    early_until[0] = time[at] + marks.value[m]
                    edge_state[EARLY] = c
                    edge_state[ABOVE] = parent[c] if marks.what[m] == LEAVE_TEAM else np.int64(-1)
            if state[N_FLUSHES] > n_flushes and stop_times[state[N_FLUSHES] - 1] > early_until[0]:
                early_until[0] = stop_times[state[N_FLUSHES] - 1]
                edge_state[EARLY], edge_state[ABOVE] = flush_paths[state[N_FLUSHES] - 1], np.int64(-1)
            if i < j or j == time.size:
                return i
        mark = state[N_MARKS]
        here = mark < marks.row.size and marks.row[mark] == base_row + j
        what = action[kind[j]]
        now, before, nothing = time[j], last[0], last.dtype.type(0)
        n, segment = state[N_LISTED], state[N_SEGMENTS]
        c = number[node[j]] if node[j] >= 0 else np.int64(-1)
        above = parent[c] if c >= 0 else np.int64(-1)
        if what == ON_OFF:
            what = np.uint8(PUSH) if region[j] >= 0 else np.uint8(POP)
        mine = what_happens(marks.what[mark], what) if here else np.int64(-1)
        own = owner_of_time(what, mine, c, above, fills, state, tasks)
        forked = marks.value[mark] if mine == FORK_TEAM or mine == JOIN_TEAM else nothing
        if mine == CUT:
            n, segment = np.int64(0), segment + 1
        n_new = 2
        if by_time:
            n_new = 0
            while next_bin + n_new < bins.size and bins[next_bin + n_new] <= now:
                n_new += 1
        if not _has_room(n_new, n + 1, noted):
            edge_state[IS_FULL] = 1
            return j
        event, place = (now, base_row + j), (segment, n)
        if by_time:
            while next_bin < bins.size and bins[next_bin] <= now and bins[next_bin] <= now - forked:
                _note_inside(bins[next_bin], next_bin + 1, event, place, own, nested, noted, collected)
                next_bin += 1
        else:
            # the previous phase may have ended with an event whose surrounding call path is not known
            p, was = np.int64(node_period[node[j]]), edge_state[PERIOD]
            t = max(before, early_until[0])
            if what == PUSH and p >= 0 and p < begin.size and begin[p] == now:
                if was >= 0 and was < end.size and end[was] < now:
                    _note_inside(t, np.int64(-1), event, place, own, nested, noted, collected)
                t = now - forked
            _note_inside(t, p, event, place, own, nested, noted, collected)
        if by_time and next_bin < bins.size and bins[next_bin] <= now:
            # in the time since the FORK, which is counted at once
            i = collect_segments(j, j + 1, events, meaning, marks, nested, collected)
            while i > j and next_bin < bins.size and bins[next_bin] <= now:
                t, place = bins[next_bin], (state[N_SEGMENTS], state[N_LISTED])
                _note(t, next_bin + 1, place, c, t - now, False, noted, open_sum)
                next_bin += 1
            if i == j:
                return j
    return i


@kernel
def note_last_edges(dividing, noted, own, until, collected):
    """Record the beginnings of bins after the last event of a location. Return whether there was room for all.

    Parameters
    ----------
    dividing, noted, collected
        As for `collect_with_edges`.
    own : int
        The call path that is charged with the time until the end; -1 none.
    until : float or int
        The end.
    """
    _, state, last, open_sum, _ = collected
    bins, nothing = dividing.bins, last.dtype.type(0)
    first = noted.state[PERIOD]
    if dividing.node_period.size or first >= bins.size:
        return True
    if not _has_room(bins.size - first, state[N_LISTED], noted):
        noted.state[IS_FULL] = 1
        return False
    for k in range(first, bins.size):
        own_time = max(min(bins[k], until) - last[0], nothing)
        _note(bins[k], k + 1, (state[N_SEGMENTS], state[N_LISTED]), own, own_time, True, noted, open_sum)
    return True


@part
def _dividing_at(j, dividing):
    """Return the division of the time of location j."""
    bins, node_period, begin, end = dividing.all
    a, b = dividing.phase_start[j], dividing.phase_start[j + 1]
    return Dividing(
        bins[dividing.bin_start[j] : dividing.bin_start[j + 1]],
        node_period[dividing.node_start[j] : dividing.node_start[j + 1]],
        begin[a:b],
        end[a:b],
    )


@kernel
def collect_locations(k, start, walked, events, locations, dividing, noted, tree, marks, nested, collected):
    """Collect the segments of some locations, one after the other, and record where the periods of each begin.

    Parameters
    ----------
    k, start : int
        Location among those that were walked through, and its event, to begin with.
    walked : segments.Walked
    events : segments.Events
        Of all these locations.
    locations : segments.Locations, written
    dividing : DividingAll
    noted : Noted, written
    tree : segments.Tree
    marks, nested, collected
        As for `segments.collect_segments`.

    Returns
    -------
    k, start : int
        Where to go on; `k` is the number of locations, or less if arrays are full.
    """
    state = collected.state
    while k < walked.bounds.size - 1:
        j, n, of = walked.first + k, walked.bounds[k + 1] - walked.bounds[k], _dividing_at(walked.first + k, dividing)
        if locations.first[j] < 0:
            begin_location(j, locations, collected)
            noted.state[PERIOD] = -1 if of.node_period.size else 0
            noted.state[EARLY], noted.state[ABOVE], noted.early_until[0] = -1, -1, 0
        if start == 0:
            state[N_MARKS] = walked.mark_start[k]
            state[N_NESTED], state[NESTED_STOP] = walked.nested_start[k], walked.nested_start[k + 1]
        own, meaning = events_at(k, walked, events), meaning_at(j, tree, locations)
        start = collect_with_edges(of, noted, start, own, meaning, marks, nested, collected)
        if start < n:
            break
        if walked.is_end:
            # the remaining time counts as for segments
            fills = locations.is_filled[j]
            owner = state[IN] if fills and not state[IDLES] else np.int64(-1)
            until = locations.until[j] if fills else collected.last[0]
            if not has_room(0, collected) or not note_last_edges(of, noted, owner, until, collected):
                break
            finish_location(j, locations, collected)
        k, start = k + 1, np.int64(0)
    return k, start
