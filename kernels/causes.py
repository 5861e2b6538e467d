"""Who caused which wait: the last synchronisation with each partner, and the way of costs back through time.

Times are float64 seconds or int64 ticks, in one call all the same, as in `kernels.segments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part

FEW = 12
"""Shares up to which each is compared with each: no slower than passes over them, since nothing has to be predicted."""


@kernel
def _is_member(process, group, group_start, group_member):
    low, high = group_start[group], group_start[group + 1]
    while low < high:
        middle = (low + high) // 2
        if group_member[middle] < process:
            low = middle + 1
        else:
            high = middle
    return low < group_start[group + 1] and group_member[low] == process


@kernel
def find_last_synchronisations(
    location_start,
    partner,
    group,
    is_listed,
    group_start,
    group_member,
    query_start,
    query_process,
    last,
    last_group,
    used,
    found,
):
    """Find for queries (synchronisation point, process) the last point of the same location before that synchronises
    with the process.

    Parameters
    ----------
    location_start : (n_locations + 1,) int64
        First point of each location; they are in order.
    partner, group : (n,) int32
        The process that a point synchronises with, or a group of processes; -1 none.
    is_listed : (n_groups,) bool
        Whether a group is used once: its members are gone through. Others are communicators.
    group_start, group_member : (n_groups + 1,), (any,) int64
        Processes of each group, ascending.
    query_start : (n + 1,) int64
        Queries of each point.
    query_process : (n_queries,) int32
    last : (n_processes,) int64
        Scratch, -1.
    last_group, used : (n_groups,) int64
        Scratch.
    found : (n_queries,) int64, written
        Points, -1 none.
    """
    for location in range(location_start.size - 1):
        begin, end = location_start[location], location_start[location + 1]
        n_used = 0
        for i in range(begin, end):
            for q in range(query_start[i], query_start[i + 1]):
                r = query_process[q]
                best = last[r]
                for u in range(n_used):
                    # the group that was used last comes first
                    g = used[u]
                    if last_group[g] <= best:
                        break
                    if _is_member(r, g, group_start, group_member):
                        best = last_group[g]
                        break
                found[q] = best
            if partner[i] >= 0:
                last[partner[i]] = i
            g = group[i]
            if g >= 0:
                if is_listed[g]:
                    for j in range(group_start[g], group_start[g + 1]):
                        last[group_member[j]] = i
                else:
                    u = 0
                    while u < n_used and used[u] != g:
                        u += 1
                    if u == n_used:
                        n_used += 1
                    while u > 0:
                        used[u] = used[u - 1]
                        u -= 1
                    used[0] = g
                    last_group[g] = i
        for i in range(begin, end):
            if partner[i] >= 0:
                last[partner[i]] = -1
            g = group[i]
            if g >= 0 and is_listed[g]:
                for j in range(group_start[g], group_start[g + 1]):
                    last[group_member[j]] = -1


@kernel
def find_last_of_kinds(location_start, kind, is_chosen, before):
    """Find the last point of some kinds before every point of the same location; `before` (n,) int64 is filled, -1
    where there is none."""
    for here in range(location_start.size - 1):
        last = np.int64(-1)
        for i in range(location_start[here], location_start[here + 1]):
            before[i] = last
            if is_chosen[kind[i]]:
                last = np.int64(i)


@kernel
def choose_causes(waiting, wait, cause, chosen):
    """Choose one pair of every waiting point: the one with the longest wait, of equals the one whose cause has the
    lowest number, or the first.

    Parameters
    ----------
    waiting, wait, cause : (n_pairs,) int64, float64 or int64, int64
    chosen : (n_points,) int64, written
        Pairs by waiting point; -1 before, and where nothing waits.
    """
    for p in range(waiting.size):
        best = chosen[waiting[p]]
        if best < 0 or wait[p] > wait[best] or (wait[p] == wait[best] and cause[p] < cause[best]):
            chosen[waiting[p]] = p


@part
def _largest(m, n, value, pivot, spare):
    """Return the m-th largest of n values: those that cannot be it are dropped round by round, on either side of a
    pivot.

    Parameters
    ----------
    m, n : int
    value : (any,) int64
    pivot : int
        Of the first round: any value; best one that is nearly the m-th largest.
    spare : (at least n,) int64
        Scratch.
    """
    for i in range(n):
        spare[i] = value[i]
    while n > 1:
        above, equal = 0, 0
        for i in range(n):
            above += spare[i] > pivot
            equal += spare[i] == pivot
        if above < m <= above + equal:
            return pivot
        # without branches: which values stay cannot be predicted
        kept = 0
        if m <= above:
            for i in range(n):
                x = spare[i]
                spare[kept] = x
                kept += x > pivot
        else:
            for i in range(n):
                x = spare[i]
                spare[kept] = x
                kept += x < pivot
            m -= above + equal
        n = kept
        pivot = spare[n // 2]
    return spare[0]


@part
def _give_rest(rest, n, total, share, remainder, spare):
    """Give one unit each to as many of n shares as there is a rest: to those with the largest remainders, of equals to
    the first."""
    if n <= FEW:
        for i in range(n):
            before = 0
            for j in range(n):
                before += (remainder[j] > remainder[i]) | ((remainder[j] == remainder[i]) & (j < i))
            share[i] += before < rest
        return
    # remainders lie anywhere between 0 and the sum of the weights
    least = _largest(rest, n, remainder, total - total // n * rest, spare)
    for i in range(n):
        is_more = remainder[i] > least
        share[i] += is_more
        rest -= is_more
    i = 0
    while rest > 0:
        if remainder[i] == least:
            share[i] += 1
            rest -= 1
        i += 1


@part
def _corrected(q, r, c):
    """Return a quotient and its remainder, of which the first may be wrong by one: a remainder lies between 0 and the
    divisor c."""
    if r < 0:
        return q - 1, r + c
    if r >= c:
        return q + 1, r - c
    return q, r


@part
def _multiply_divide(a, b, c, inverse):
    """Return the whole part of a * b / c and the remainder, both exact, whatever the product.

    The product may have 124 bits. So `a` comes in two digits of 31 bits, as in long division; the quotient of each
    digit has at most 32 bits, which float64 tells up to one, and the remainder, which fits in 64 bits though its terms
    may not, says which.

    Parameters
    ----------
    a, b, c : int64
        Not negative and less than 2**62; b is at most c, and c positive.
    inverse : float
        1 / c.
    """
    high, low = a >> 31, a & 0x7FFFFFFF
    q, r = np.int64(0), np.int64(0)
    if high > 0:
        q = np.int64(np.float64(high) * np.float64(b) * inverse)
        q, r = _corrected(q, high * b - q * c, c)
    p = np.int64((np.float64(r) * 2147483648.0 + np.float64(low) * np.float64(b)) * inverse)
    p, r = _corrected(p, (r << 31) + low * b - p * c, c)
    return (q << 31) + p, r


@kernel
def divide(amount, weight, start, n, share, remainder, spare):
    """Divide a whole amount into whole shares in proportion to weights, by the largest remainder; all to the first if
    there are none.

    Parameters
    ----------
    amount : int
    weight : (any,) int64
        From `start` on the weights, which are not negative; their sum is less than 2**62.
    start, n : int
    share : (n,) int64, written
    remainder, spare : (n,) int64
        Scratch.
    """
    total = np.int64(0)
    for i in range(n):
        total += weight[start + i]
    if total == 0 or n == 1:
        for i in range(n):
            share[i] = 0
        share[0] = amount
        return
    rest, inverse = amount, 1.0 / np.float64(total)
    for i in range(n):
        share[i], remainder[i] = _multiply_divide(amount, weight[start + i], total, inverse)
        rest -= share[i]
    # fewer units than shares
    if rest > 0:
        _give_rest(rest, n, total, share, remainder, spare)


@kernel
def divide_amounts(amount, first, size, weight, share, scratch, remainder, spare):
    """Divide whole amounts into whole shares in proportion to weights, each by the largest remainder.

    Parameters
    ----------
    amount : (n,) int64
    first, size : (n,) int64
        The weights of each; a single one may be missing.
    weight : (n_weights,) int64
        Not negative; where all are 0 the first gets everything.
    share : (n_shares,) int64, written
        Of one amount after the other.
    scratch, remainder, spare : (at least the weights of one,) int64
        Scratch.
    """
    filled = np.int64(0)
    for i in range(amount.size):
        n = size[i]
        if n == 1:
            share[filled] = amount[i]
            filled += 1
            continue
        if n == 0:
            continue
        divide(amount[i], weight, first[i], n, scratch, remainder, spare)
        for j in range(n):
            share[filled + j] = scratch[j]
        filled += n


class Charged(NamedTuple):
    """Times by call path and location: (n,) int32, int32, and float64 or int64, written."""

    call_path: NDArray[np.int32]
    location: NDArray[np.int32]
    time: NDArray[Any]


class Lost(NamedTuple):
    """By how much more time the causing sides of pairs spent on call paths.

    Attributes
    ----------
    first, stop : (n_pairs,) int64
        First entry of each pair, and one past its last.
    size : (n_pairs,) int64
        How many call paths are charged: where there is no entry none, or one, `otherwise`.
    otherwise : (n_pairs,) int32
        In the order in which call paths are met; -1 null.
    call_path, time : (n_entries,) int32, float64 or int64
    """

    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    size: NDArray[np.int64]
    otherwise: NDArray[np.int32]
    call_path: NDArray[np.int32]
    time: NDArray[Any]


@kernel
def charge_call_paths(location, pair, lost, time, sums, is_met, met, charged):
    """Add up the times that pairs cost call paths, location by location.

    Parameters
    ----------
    location, pair : (n,) int32, int64
        Of the pairs; those of a location are together.
    lost : Lost
    time : (n_times,) float64 or int64
        Of the call paths of one pair after the other.
    sums : (n_call_paths + 1,) as `time`
        Zeros; the last one, which is that at -1, is for null.
    is_met, met : (n_call_paths + 1,) bool, int32
        False; scratch.
    charged : Charged, written

    Returns
    -------
    int
        How many sums there are that are not zero.
    """
    n_met, n_charged, at = 0, 0, np.int64(0)
    for i in range(location.size):
        p = pair[i]
        for k in range(lost.first[p], lost.first[p] + lost.size[p]):
            c = lost.call_path[k] if k < lost.stop[p] else lost.otherwise[p]
            if not is_met[c]:
                is_met[c] = True
                met[n_met] = c
                n_met += 1
            sums[c] += time[at]
            at += 1
        if i + 1 == location.size or location[i + 1] != location[i]:
            for j in range(n_met):
                c = met[j]
                if sums[c] != 0:
                    charged.call_path[n_charged] = c
                    charged.location[n_charged] = location[i]
                    charged.time[n_charged] = sums[c]
                    n_charged += 1
                sums[c] = 0
                is_met[c] = False
            n_met = 0
    return n_charged


class Stops(NamedTuple):
    """Points, and at which of them the critical path may go on elsewhere.

    Attributes
    ----------
    start, first_row : (n_locations + 1,), (n_locations,) int64
        First point and first row of each location.
    location, kind, event, wait, set : (n_points,)
        Columns of points.
    pair_of, cause : (n_points,), (n_pairs,) int32 or int64
        Pair of each waiting point (-1 none), and the causing point of each pair.
    ends, always, if_waits, if_forked : (n_kinds,) bool
        Kinds of points at which the path ends, which it stops at always, where they wait for others, or where another
        location forked theirs.
    forks : (n_kinds,) bool
        Kinds of points at which the path goes on with the location that forked.
    team_set, team_member : (n,) int64
        Sets of the points of barriers from which the path goes on with all that do not wait, ascending, and the points.
    """

    start: NDArray[np.int64]
    first_row: NDArray[np.int64]
    location: NDArray[np.int32]
    kind: NDArray[np.int8]
    event: NDArray[np.int64]
    wait: NDArray[Any]
    set: NDArray[np.int64]
    pair_of: NDArray[np.signedinteger[Any]]
    cause: NDArray[np.signedinteger[Any]]
    ends: NDArray[np.bool_]
    always: NDArray[np.bool_]
    if_waits: NDArray[np.bool_]
    if_forked: NDArray[np.bool_]
    forks: NDArray[np.bool_]
    team_set: NDArray[np.int64]
    team_member: NDArray[np.int64]


@part
def _first_from(value, low, high, values):
    """Return where ascending values are no less than one, between two places."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _point_at(row, stops):
    """Return the point at a row of an event; -1 if there is none."""
    here = _first_from(row + 1, 0, stops.first_row.size, stops.first_row) - 1
    if row < 0 or here < 0:
        return np.int64(-1)
    p = _first_from(row, stops.start[here], stops.start[here + 1], stops.event)
    return p if p < stops.start[here + 1] and stops.event[p] == row else np.int64(-1)


@part
def _origin_of(s, stops):
    """Return the point at which the path goes on from another one: the cause of its wait, or the fork; -1 none."""
    if stops.forks[stops.kind[s]]:
        return _point_at(stops.set[s], stops)
    p = stops.pair_of[s]
    return np.int64(stops.cause[p]) if p >= 0 else np.int64(-1)


@part
def _stops_at(s, stops):
    """Whether the path stops at a point."""
    kind = stops.kind[s]
    if stops.always[kind] or (stops.if_waits[kind] and stops.wait[s] > 0 and stops.pair_of[s] >= 0):
        return True
    if not stops.if_forked[kind]:
        return False
    other = _origin_of(s, stops)
    return other >= 0 and other != s


@kernel
def walk_critical_path(begin, is_single, stops, seen, work, until, path):
    """Walk the critical path back through time, from stop to stop; only what lies on it is looked at.

    Parameters
    ----------
    begin : int
        The point it starts from.
    is_single : bool
        Whether the path is one, which never goes on at one place at several times.
    stops : Stops
    seen, work : (n_points,) bool, int64
        Scratch; false.
    until : (n_points,) int32 or int64, written
        Of stops on the path, which are -1 before, the point up to which their location is on it.
    path : (3, n_points + 1) int64, written
        In the order of the walk: stops (-1 is the beginning of a location), up to which point their location is on the
        path, and the points at which it goes on (-1 none).

    Returns
    -------
    int
        How many stops there are.
    """
    n_found, n = 0, 1
    work[0] = begin
    while n > 0:
        n -= 1
        i = work[n]
        first = stops.start[stops.location[i]]
        s = i - 1
        # what contradicts itself may come back to where a single path has left the location already
        while s >= first and ((is_single and until[s] >= 0) or not _stops_at(s, stops)):
            s -= 1
        if s >= first and until[s] >= 0:
            # two paths become one
            until[s] = min(until[s], i)
            continue
        path[0, n_found], path[1, n_found], path[2, n_found] = s if s >= first else np.int64(-1), i, -1
        n_found += 1
        if s < first:
            continue
        until[s] = i
        kind = stops.kind[s]
        if stops.ends[kind]:
            continue
        if stops.always[kind] and not stops.forks[kind]:
            team, k = stops.set[s], 0
            if _point_at(team, stops) < 0:
                if stops.wait[s] == 0 and not seen[s]:
                    seen[s] = True
                    work[n] = s
                    n += 1
                continue
            k = _first_from(team, 0, stops.team_set.size, stops.team_set)
            while k < stops.team_set.size and stops.team_set[k] == team:
                m = stops.team_member[k]
                if stops.wait[m] == 0 and not seen[m]:
                    seen[m] = True
                    work[n] = m
                    n += 1
                k += 1
            continue
        other = _origin_of(s, stops)
        path[2, n_found - 1] = other
        if other >= 0 and (is_single or not seen[other]):
            seen[other] = True
            work[n] = other
            n += 1
    return n_found
