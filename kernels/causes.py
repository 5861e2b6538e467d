"""Causes of waits: last synchronisations with partners, the division of costs among call paths, and the critical path.

Times are float64 seconds or int64 ticks, of the same type throughout a call, as in `kernels.segments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.kernels.ordered import first_at_least, place_of
from tracecols.kernels.periods import Labels, label_of
from tracecols.kernels.sums import add_to_total

FEW = 12
"""Number of shares up to which all pairs are compared: no slower than passes over them, since no branches are
mispredicted."""


class Groups(NamedTuple):
    """Groups of processes that points synchronise with."""

    of_point: NDArray[np.int32]
    """(n_points,): group of each point; -1 none."""
    channel: NDArray[np.int64]
    """(n_channels,): communicators, ascending; these are the first groups."""
    is_listed: NDArray[np.bool_]
    """(n_groups,): whether a group belongs to one operation, and is used once; others are communicators."""
    start: NDArray[np.int64]
    member: NDArray[np.int64]
    """`start` and `member`: (n_groups + 1,), (any,) int64, processes of each group, ascending."""


class Queries(NamedTuple):
    """Points and processes whose last synchronisation before the point is searched for: (n,) int32 or int64, int32 or
    int64, int32. `order` has the numbers of the queries in the order of their points."""

    order: NDArray[np.signedinteger[Any]]
    point: NDArray[np.signedinteger[Any]]
    process: NDArray[np.int32]


@kernel
def find_last_synchronisations(location_start, partner, groups, queries, last, last_group, used, found):
    """Find, for each query, the last earlier point of the same location that synchronises with the process.

    Parameters
    ----------
    location_start : (n_locations + 1,) int64
        First point of each location; they are in order.
    partner : (n_points,) int32
        The process that a point synchronises with; -1 none.
    groups : Groups
        Members of listed groups are processed one by one.
    queries : Queries
    last : (n_processes,) int64
        Scratch, -1.
    last_group, used : (n_groups,) int64
        Scratch.
    found : (n_queries,) int32 or int64, written
        Points, -1 none.
    """
    group, is_listed, group_start, group_member = groups.of_point, groups.is_listed, groups.start, groups.member
    q, order = 0, queries.order
    for location in range(location_start.size - 1):
        begin, end = location_start[location], location_start[location + 1]
        n_used = 0
        for i in range(begin, end):
            while q < order.size and queries.point[order[q]] == i:
                r = queries.process[order[q]]
                best = last[r]
                for u in range(n_used):
                    # the group that was used last comes first
                    g = used[u]
                    if last_group[g] <= best:
                        break
                    if place_of(r, group_start[g], group_start[g + 1], group_member) >= 0:
                        best = last_group[g]
                        break
                found[order[q]] = best
                q += 1
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
def find_last_meetings(location_start, kind, meets, inner, left, open_, before):
    """Find the last point at which a location met other threads before each of its points, without those inside of
    nested parallel regions that it has left: there it met only threads that it had forked itself.

    Parameters
    ----------
    location_start : (n_locations + 1,) int64
    kind : (n_points,) int8
    meets : (n_kinds,) bool
        Kinds of the points at which threads meet.
    inner, left : (n_inner,) int64
        The points at which locations enter nested regions, ascending, and the first point after each region.
    open_ : (n_inner,) int64
        Scratch: the regions entered and not left.
    before : (n_points,) int32 or int64, written
        -1 where there is none.
    """
    k = 0
    for here in range(location_start.size - 1):
        last, depth = np.int64(-1), 0
        for i in range(location_start[here], location_start[here + 1]):
            while depth > 0 and i >= left[open_[depth - 1]]:
                depth -= 1
                last = np.int64(before[inner[open_[depth]]])
            before[i] = last
            if k < inner.size and inner[k] == i:
                open_[depth] = k
                depth += 1
                k += 1
            if meets[kind[i]]:
                last = np.int64(i)


@kernel
def count_waits(wait, n, before):
    """Count the waiting points before each of some further points.

    Parameters
    ----------
    wait : (n_points,) float64 or int64
    n : int
        Number of waiting points before these.
    before : (n_points + 1,) int32 or int64, written
        Number of waiting points before each of these, and after the last one.
    """
    for i in range(wait.size):
        before[i] = n
        if wait[i] > 0:
            n += 1
    before[wait.size] = n


@kernel
def list_waits(first, wait, call_path, met, waits, path, time):
    """List the waiting points among some further points.

    Parameters
    ----------
    first : int
        Number of the first of these points.
    wait : (n_points,) float64 or int64
    call_path : (n_points,) int32
        -1 is null.
    met : (n_call_paths,) int32
        Number of every call path in the order in which they are met.
    waits, path, time : (n_waits,) int32 or int64, int32, as `wait`; written
        The waiting points, their call paths as numbered by `met`, and their waits.
    """
    n = 0
    for i in range(wait.size):
        if wait[i] > 0:
            waits[n], time[n] = first + i, wait[i]
            path[n] = met[call_path[i]] if call_path[i] >= 0 else -1
            n += 1


@kernel
def list_last_pairs(waiting, pair_of):
    """Record the last pair of every waiting point; `pair_of` (n_points,) int32 or int64, -1 before, is written.

    Parameters
    ----------
    waiting : (n_pairs,) int32 or int64
        -1 where no point waits.
    """
    for p in range(waiting.size):
        if waiting[p] >= 0:
            pair_of[waiting[p]] = p


@kernel
def begin_at_points(kind, is_chosen, point, before, since):
    """Record `before` of the `point` of each pair of the chosen kinds; `since` (n_pairs,) int32 or int64 is written.

    Parameters
    ----------
    kind, point : (n_pairs,) int8, int32 or int64
    is_chosen : (n_kinds,) bool
    before : (n_points,) int32 or int64
    """
    for p in range(kind.size):
        if is_chosen[kind[p]]:
            since[p] = before[point[p]]


@kernel
def find_places(values, among, place):
    """Find the positions of values, many of which equal the previous one, among ascending ones; `place` (n,) int32 is
    filled, -1 if absent."""
    last, at = np.int64(0), np.int64(-1)
    for i in range(values.size):
        if i == 0 or values[i] != last:
            last = values[i]
            at = first_at_least(last, 0, among.size, among)
            if at == among.size or among[at] != last:
                at = np.int64(-1)
        place[i] = at


@kernel
def choose_causes(waiting, wait, cause, chosen):
    """Choose one pair of every waiting point: the one with the longest wait, on ties the one whose cause has the lowest
    number, or the first.

    Parameters
    ----------
    waiting, wait, cause : (n_pairs,) int32 or int64, float64 or int64, int32 or int64
        Where `waiting` is -1, no point waits.
    chosen : (n_points,) int32 or int64, written
        Pairs by waiting point; -1 initially, and for points that do not wait.
    """
    for p in range(waiting.size):
        if waiting[p] < 0:
            continue
        best = chosen[waiting[p]]
        if best < 0 or wait[p] > wait[best] or (wait[p] == wait[best] and cause[p] < cause[best]):
            chosen[waiting[p]] = p


@kernel
def keep_causes(n, chosen, waiting, wait, cause, wait_of_point, kept):
    """List the chosen pairs whose points differ, by waiting point, and set the waits of all other points to 0. Return
    one past the last one that is kept.

    Parameters
    ----------
    n : int
        Position of the first one in `kept`.
    chosen, waiting, wait, cause
        As for `choose_causes`.
    wait_of_point : (n_points,) as `wait`, written
    kept : (any,) int32 or int64, written
    """
    for i in range(chosen.size):
        wait_of_point[i] = 0
        p = chosen[i]
        if p >= 0 and cause[p] != waiting[p]:
            kept[n] = p
            wait_of_point[i] = wait[p]
            n += 1
    return n


@part
def _largest(m, n, value, pivot, spare):
    """Return the m-th largest of n values by quickselect: each round drops the values on one side of a pivot.

    Parameters
    ----------
    m, n : int
    value : (any,) int64
    pivot : int
        Pivot of the first round: any value, preferably close to the m-th largest.
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
    """Give one unit of the rest to each of the shares with the largest remainders, on ties to the first."""
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
    """Return a quotient and its remainder, after correcting a quotient that is off by one: the remainder has to lie
    between 0 and the divisor c."""
    if r < 0:
        return q - 1, r + c
    if r >= c:
        return q + 1, r - c
    return q, r


@part
def _multiply_divide(a, b, c, inverse):
    """Return the integer quotient of a * b / c and the remainder, both exact however large the product is.

    The product may have 124 bits. So `a` is split into two digits of 31 bits, as in long division. The quotient of each
    digit has at most 32 bits: float64 gives it with an error of at most one, which the remainder corrects. The
    remainder fits in 64 bits even if its terms do not.

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


@inner_part
def divide(amount, weight, start, n, share, remainder, spare):
    """Divide an integer amount into integer shares in proportion to weights, by the largest remainder; if all weights
    are 0, the first share gets everything.

    Parameters
    ----------
    amount : int
    weight : (any,) int64
        The weights begin at `start` and are not negative; their sum is less than 2**62.
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
    """Divide integer amounts into integer shares in proportion to weights, each by the largest remainder.

    Parameters
    ----------
    amount : (n,) int64
    first, size : (n,) int64
        First weight of each amount, and number of weights; a single one is not read.
    weight : (n_weights,) int64
        Not negative; if all are 0, the first share gets everything.
    share : (n_shares,) int64, written
        Shares of one amount after the other.
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
    """Times by call path and location: (n,) int32 or int64, int32, and float64 or int64, written."""

    call_path: NDArray[np.signedinteger[Any]]
    location: NDArray[np.int32]
    time: NDArray[Any]


class Lost(NamedTuple):
    """Excess of the time that the causing sides of pairs spent on call paths."""

    location: NDArray[np.int32]
    """(n_pairs,): location of the causing side."""
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    """`first` and `stop`: (n_pairs,), first entry of each pair, and one past its last."""
    otherwise: NDArray[np.int32]
    """(n_pairs,): the call path that is charged if a pair has no entry, numbered in the order in which call paths are
    met; -1 null."""
    call_path: NDArray[np.int32]
    time: NDArray[Any]
    """`call_path` and `time`: (n_entries,) int32, float64 or int64"""


class Spread(NamedTuple):
    """Periods in which the causing sides of pairs spent their time."""

    interval: NDArray[np.signedinteger[Any]]
    """(n_pairs,) int32 or int64: the interval of each pair."""
    comes: NDArray[np.int32]
    """(n_pairs,): the period in which each cause occurs; it is charged for call paths without time in the interval."""
    period: NDArray[np.int32]
    is_single: NDArray[np.bool_]
    """`period` and `is_single`: (n_intervals,) int32, bool, the period that each interval begins in, and whether the
    whole interval lies in it."""
    key: NDArray[np.int64]
    """(n_times,): for the other intervals, ascending: number of the interval * number of call paths + call path."""
    of_period: NDArray[np.int32]
    ticks: NDArray[np.int64]
    """`of_period` and `ticks`: (n_times,) int32, int64, period and positive ticks of each key."""
    creation: NDArray[np.signedinteger[Any]]
    """(n_call_paths,) int32 or int64: call paths in the order in which they are met."""
    labels: Labels


class Shares(NamedTuple):
    """Scratch for dividing integer amounts, as large as the most shares of one: shares of pairs and of their parts, and
    two arrays for remainders."""

    of_pair: NDArray[np.int64]
    of_part: NDArray[np.int64]
    remainder: NDArray[np.int64]
    spare: NDArray[np.int64]


@part
def _take_sums(n, location, n_charged, sums, charged):
    """Charge a location with the nonzero sums, and reset all; return the number of charges."""
    for j in range(n):
        c = sums.met[j]
        if sums.time[c] != 0:
            charged.call_path[n_charged] = c
            charged.location[n_charged] = location
            charged.time[n_charged] = sums.time[c]
            n_charged += 1
        sums.time[c] = 0
        sums.is_met[c] = False
    return n_charged


@part
def _add_label(c, period, x, spread, n, sums):
    """Add to the sum of a call path in a period; return how many of these have one."""
    path = np.int64(spread.creation[c]) if c >= 0 else np.int64(-1)
    return add_to_total(label_of(path, period, spread.labels), x, n, sums)


@part
def _add_by_period(c, x, p, spread, shares, n, sums):
    """Add the cost of a pair for a call path to its sums by period."""
    i = np.int64(spread.interval[p])
    if spread.is_single[i] or c < 0:
        return _add_label(c, spread.period[i], x, spread, n, sums)
    return _divide_by_period(np.int64(spread.creation[c]), x, p, spread, shares, n, sums)


@part
def _move_to_period(n, period, sums, spread, n_paths, of_paths, n_labels, of_labels):
    """Add the sums of intervals that lie in one period to those by call path and by label, and reset them."""
    for j in range(n):
        c = sums.met[j]
        n_paths = add_to_total(c, sums.time[c], n_paths, of_paths)
        n_labels = _add_label(c, period, sums.time[c], spread, n_labels, of_labels)
        sums.time[c] = 0
        sums.is_met[c] = False
    return n_paths, n_labels


@part
def _divide_by_period(path, x, p, spread, shares, n, sums):
    """Divide the cost of a pair for a call path among its sums by period, in proportion to the time spent in each."""
    labels = spread.labels
    key = np.int64(spread.interval[p]) * labels.n_paths + path
    first = first_at_least(key, 0, spread.key.size, spread.key)
    stop = first
    while stop < spread.key.size and spread.key[stop] == key:
        stop += 1
    if stop == first:
        return add_to_total(label_of(path, spread.comes[p], labels), x, n, sums)
    if shares is None:
        total = 0.0
        for k in range(first, stop):
            total += spread.ticks[k]
        for k in range(first, stop):
            n = add_to_total(label_of(path, spread.of_period[k], labels), x * spread.ticks[k] / total, n, sums)
    else:
        divide(x, spread.ticks, first, stop - first, shares.of_part, shares.remainder, shares.spare)
        for k in range(first, stop):
            n = add_to_total(label_of(path, spread.of_period[k], labels), shares.of_part[k - first], n, sums)
    return n


@kernel
def charge_call_paths(pair, amount, lost, spread, shares, of_period, of_paths, of_labels, charged, labelled):
    """Charge call paths with the costs of pairs, in proportion to the excess time spent on them, location by location;
    likewise by period. Return the number of charges by call path, and of those by call path in a period.

    Parameters
    ----------
    pair : (n,) int32
        The pairs, grouped by location.
    amount : (n,) float64 or int64
        Cost of each pair: per unit of time, or in total in whole ticks, which are divided by the largest remainder.
    lost : Lost
    spread : Spread or None
        None without periods.
    shares : Shares or None
        None if amounts are not whole ticks.
    of_period, of_paths, of_labels : sums.Totals
        Of one location: for intervals that lie in one period, by call path, and by call path in a period. The last
        element, at index -1, is for null. All zero and false between locations.
    charged, labelled : Charged, written
        By call path, and by call path in a period.
    """
    n, n_charged, n_labels, n_labelled = 0, 0, 0, 0
    # consecutive pairs usually lie in the same period: whole ticks are summed up until the period changes
    n_here, period = 0, np.int64(-1)
    for i in range(pair.size):
        p = pair[i]
        first, size = lost.first[p], lost.stop[p] - lost.first[p]
        is_here = False
        if spread is not None and shares is not None:
            interval = np.int64(spread.interval[p])
            is_here = spread.is_single[interval]
            if is_here and spread.period[interval] != period:
                n, n_labels = _move_to_period(n_here, period, of_period, spread, n, of_paths, n_labels, of_labels)
                n_here, period = 0, np.int64(spread.period[interval])
        # a pair without entries charges whole ticks to one call path
        is_alone = size == 0 and shares is not None
        if size > 0 and shares is not None:
            divide(amount[i], lost.time, first, size, shares.of_pair, shares.remainder, shares.spare)
        for k in range(1 if is_alone else size):
            c = lost.otherwise[p] if is_alone else lost.call_path[first + k]
            if shares is None:
                x = amount[i] * lost.time[first + k]
            else:
                x = amount[i] if is_alone else shares.of_pair[k]
            if is_here:
                n_here = add_to_total(c, x, n_here, of_period)
                continue
            n = add_to_total(c, x, n, of_paths)
            if spread is not None:
                n_labels = _add_by_period(c, x, p, spread, shares, n_labels, of_labels)
        if i + 1 == pair.size or lost.location[pair[i + 1]] != lost.location[p]:
            if spread is not None:
                n, n_labels = _move_to_period(n_here, period, of_period, spread, n, of_paths, n_labels, of_labels)
                n_here = 0
            n_charged = _take_sums(n, lost.location[p], n_charged, of_paths, charged)
            n_labelled = _take_sums(n_labels, lost.location[p], n_labelled, of_labels, labelled)
            n, n_labels = 0, 0
    return n_charged, n_labelled


class Stops(NamedTuple):
    """Points, and those of them at which the critical path may continue at another point."""

    start: NDArray[np.int64]
    """(n_locations + 1,): first point of each location."""
    location: NDArray[np.int32]
    kind: NDArray[np.int8]
    """`location` and `kind`: (n_points,), columns of points."""
    waits_before: NDArray[np.signedinteger[Any]]
    """(n_points + 1,) int32 or int64: number of waiting points before each one."""
    of_team: NDArray[np.signedinteger[Any]]
    """(n_points,) int32 or int64: the point at which a thread was forked or created, or the master's point at a thread
    barrier; -1 if it is unknown, or for others. (0,) if the path follows neither forks nor teams."""
    pair_of: NDArray[np.signedinteger[Any]]
    cause: NDArray[np.signedinteger[Any]]
    """`pair_of` and `cause`: (n_points,), (n_pairs,) int32 or int64, pair of each waiting point (-1 none), and the
    causing point of each pair."""
    ends: NDArray[np.bool_]
    always: NDArray[np.bool_]
    if_waits: NDArray[np.bool_]
    if_forked: NDArray[np.bool_]
    """`ends`, `always`, `if_waits` and `if_forked`: (n_kinds,), kinds of points at which the path ends; at which it
    stops always, if the point waits for others, or if another location forked its own."""
    forks: NDArray[np.bool_]
    """(n_kinds,): kinds of points at which the path continues on the location that forked."""
    team_set: NDArray[np.int64]
    team_member: NDArray[np.int64]
    """`team_set` and `team_member`: (n,), masters' points at barriers (`of_team`), ascending, and the points of all
    threads; the path continues at all points of a barrier that do not wait."""


@part
def _origin_of(s, stops):
    """Return the point at which the path continues from point `s`: the cause of its wait, or the fork; -1 none."""
    if stops.forks[stops.kind[s]]:
        return np.int64(stops.of_team[s])
    p = stops.pair_of[s]
    return np.int64(stops.cause[p]) if p >= 0 else np.int64(-1)


@part
def _waits(s, stops):
    """Return whether a point waits."""
    return stops.waits_before[s + 1] > stops.waits_before[s]


@part
def _stops_at(s, stops):
    """Return whether the path stops at a point."""
    kind = stops.kind[s]
    if stops.always[kind] or (stops.if_waits[kind] and _waits(s, stops) and stops.pair_of[s] >= 0):
        return True
    if not stops.if_forked[kind]:
        return False
    other = _origin_of(s, stops)
    return other >= 0 and other != s


@kernel
def list_path_stops(stops, found, origin):
    """List the points from which the critical path may jump to another point, and their targets. Return their number.

    Parameters
    ----------
    stops : Stops
    found, origin : (n_points,) int64, written
        The points, ascending, and those at which the path continues.
    """
    n = 0
    for s in range(stops.kind.size):
        if _stops_at(s, stops):
            other = _origin_of(s, stops)
            if other >= 0 and other != s:
                found[n], origin[n] = s, other
                n += 1
    return n


@kernel
def walk_critical_path(begin, is_single, stops, seen, work, until, path):
    """Walk the critical path back through time, from stop to stop; only points on it are visited. Return the number of
    stops.

    Parameters
    ----------
    begin : int
        The point it starts from.
    is_single : bool
        Whether the path does not split: it continues at one point at a time.
    stops : Stops
    seen : (n_points,) bool
        Scratch; false.
    work : (n_points,) int64
        Scratch. (1,) for a single path.
    until : (n_points,) int32 or int64, written
        For each stop on the path, the point up to which its location is on it; -1 initially. (0,) for a single path.
    path : (3, n_points + 1) int32 or int64, written
        In the order of the walk: stops (-1 is the beginning of a location), the points up to which their locations are
        on the path, and the points at which it continues (-1 none).
    """
    n_found, n = 0, 1
    work[0] = begin
    while n > 0:
        n -= 1
        i = work[n]
        first = stops.start[stops.location[i]]
        s = i - 1
        # in an inconsistent recording, a single path may return to a stop at which it has already left the location
        while s >= first and ((is_single and seen[s]) or not _stops_at(s, stops)):
            s -= 1
        if s >= first and not is_single and until[s] >= 0:
            # two paths merge
            until[s] = min(until[s], i)
            continue
        path[0, n_found], path[1, n_found], path[2, n_found] = s if s >= first else np.int64(-1), i, -1
        n_found += 1
        if s < first:
            continue
        if is_single:
            seen[s] = True
        else:
            until[s] = i
        kind = stops.kind[s]
        if stops.ends[kind]:
            continue
        if stops.always[kind] and not stops.forks[kind]:
            team = stops.of_team[s]
            if team < 0:
                if not _waits(s, stops) and not seen[s]:
                    seen[s] = True
                    work[n] = s
                    n += 1
                continue
            k = first_at_least(team, 0, stops.team_set.size, stops.team_set)
            while k < stops.team_set.size and stops.team_set[k] == team:
                m = stops.team_member[k]
                if not _waits(m, stops) and not seen[m]:
                    seen[m] = True
                    work[n] = m
                    n += 1
                k += 1
            continue
        other = _origin_of(s, stops)
        path[2, n_found - 1] = other
        if other >= 0 and (is_single or not seen[other]):
            if not is_single:
                seen[other] = True
            work[n] = other
            n += 1
    return n_found
