"""Propagation of costs back through time, from the waits in which they arise to the causes of these.

Times are float64 seconds or int64 ticks, of the same type throughout a call, as in `kernels.segments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.causes import divide
from tracecols.kernels.kernel import inner_part, kernel, part


@kernel
def count_open(cause, waiting, n_open):
    """Count the waiting points of each cause; `n_open` (n_points,) int32, zeros, is filled.

    Parameters
    ----------
    cause, waiting : (n_pairs,) int32 or int64
        Where `waiting` is -1, no point waits.
    """
    for p in range(cause.size):
        n_open[cause[p]] += waiting[p] >= 0


@kernel
def order_pairs(pair_start, point_start, location, cause, pair_of, n_open, scratch, is_blocked, order):
    """Order pairs, from the end of the trace to its beginning, so that every pair comes before all those whose waits
    end in the interval of its cause, or that depend on it.

    Every location goes back through its points until it meets a cause some of whose waiting points are still to come.

    Parameters
    ----------
    pair_start, point_start : (n_locations + 1,) int64
        First pair by the location of its cause, and first point, of each location.
    location : (n_points,) int32
    cause : (n_pairs,) int32 or int64
        Ascending.
    pair_of : (n_points,) int32 or int64
        Pair of each waiting point; -1 none.
    n_open : (n_points,) int32
        Number of waiting points of each cause that are still to come.
    scratch : (3, n_locations) int64
    is_blocked : (n_locations,) bool
        False.
    order : (n_pairs,) int32 or int64, written
        If points depend on each other, some pairs come before those they depend on.
    """
    n_locations = point_start.size - 1
    # the next point of each location, and one past its next pair; locations that can go on
    at, pair_at, ready = scratch[0], scratch[1], scratch[2]
    for here in range(n_locations):
        at[here], pair_at[here] = point_start[here + 1] - 1, pair_start[here + 1]
        ready[here] = n_locations - 1 - here
    n_ready, unfinished, filled = n_locations, 0, 0
    while True:
        forced = n_ready == 0
        if forced:
            # in an inconsistent recording, points may wait for each other in a cycle
            while unfinished < n_locations and at[unfinished] < point_start[unfinished]:
                unfinished += 1
            if unfinished == n_locations:
                break
            ready[0] = unfinished
            is_blocked[unfinished] = False
            n_ready = 1
        n_ready -= 1
        here = ready[n_ready]
        i, stop = at[here], pair_at[here]
        while i >= point_start[here]:
            first = stop
            while first > pair_start[here] and cause[first - 1] == i:
                first -= 1
            if n_open[i] > 0 and not forced:
                is_blocked[here] = True
                break
            p = pair_of[i]
            if first < stop or p >= 0:
                forced = False
            for k in range(first, stop):
                order[filled] = k
                filled += 1
            i, stop = i - 1, first
            if p >= 0:
                x = cause[p]
                n_open[x] -= 1
                other = location[x]
                if n_open[x] == 0 and is_blocked[other] and at[other] == x:
                    is_blocked[other] = False
                    ready[n_ready] = other
                    n_ready += 1
        at[here], pair_at[here] = i, stop


class Caused(NamedTuple):
    """Pairs, and the number of waits before each point."""

    kind: NDArray[np.int8]
    """(n_pairs,): kind of the wait."""
    cause: NDArray[np.signedinteger[Any]]
    waiting: NDArray[np.signedinteger[Any]]
    since: NDArray[np.signedinteger[Any]]
    counts_from: NDArray[np.signedinteger[Any]]
    """`cause`, `waiting`, `since` and `counts_from`: (n_pairs,) int32 or int64, points: the causing one, the waiting
    one (-1 none), the one after which the interval of the cause begins, and the first that takes on costs, (0,) if
    that is always the one after it."""
    waits_before: NDArray[np.signedinteger[Any]]
    """(n_points + 1,) int32 or int64"""
    wait: NDArray[Any]
    """(n_waits,) float64 or int64"""


class Lists(NamedTuple):
    """Amounts by kind, in a list for each wait."""

    head: NDArray[np.signedinteger[Any]]
    """(n,) int32 or int64: first item of each list; -1 none."""
    below: NDArray[np.signedinteger[Any]]
    """(any,) int32 or int64: the next item of the same list, or the next one that is free again."""
    kind: NDArray[np.int8]
    amount: NDArray[Any]
    """`kind` and `amount`: (any,) int8, float64 or int64"""
    state: NDArray[np.int64]
    """(3,): the first item that is free again (-1 none), the number of all free items, and the first that was never
    used."""


class Passed(NamedTuple):
    """Amounts by kind that pairs are charged with, those of each pair together, in the order in which costs are carried
    back."""

    n: NDArray[np.int8]
    """(n_pairs,): number of amounts of each pair, in this order."""
    kind: NDArray[np.int8]
    amount: NDArray[Any]
    """`kind` and `amount`: (any,) int8, float64 or int64"""
    state: NDArray[np.int64]
    """(1,): number of amounts."""


class OfPairs(NamedTuple):
    """The amounts of `Passed` in the order of the pairs; each pair has at most one of each kind, and any number of
    zeros."""

    begin: NDArray[np.signedinteger[Any]]
    """(n_pairs + 1,) int32 or int64: where the amounts of each pair begin."""
    kind: NDArray[np.int8]
    amount: NDArray[Any]
    """`kind` and `amount`: (n,) int8, float64 or int64"""


@inner_part
def _add_amount(i, kind, amount, lists):
    """Add an amount of a kind to a list."""
    at = lists.head[i]
    while at >= 0:
        if lists.kind[at] == kind:
            lists.amount[at] += amount
            return
        at = lists.below[at]
    at = lists.state[0]
    if at >= 0:
        lists.state[0] = lists.below[at]
    else:
        at = lists.state[2]
        lists.state[2] += 1
    lists.state[1] -= 1
    lists.kind[at] = kind
    lists.amount[at] = amount
    lists.below[at] = lists.head[i]
    lists.head[i] = at


@inner_part
def _take_amount(i, lists):
    """Take the first item from a list; return its kind and amount."""
    at = lists.head[i]
    lists.head[i] = lists.below[at]
    lists.below[at] = lists.state[0]
    lists.state[0] = at
    lists.state[1] += 1
    return np.int64(lists.kind[at]), lists.amount[at]


@inner_part
def _pass(k, kind, amount, passed):
    """Charge the k-th pair with an amount of a kind, after what it is charged with already."""
    at = passed.state[0]
    passed.kind[at], passed.amount[at] = kind, amount
    passed.state[0] = at + 1
    passed.n[k] += 1


@part
def _pass_all(i, n, lists, k, passed):
    """Take n items from a list and charge the k-th pair with them."""
    for _ in range(n):
        kind, amount = _take_amount(i, lists)
        _pass(k, kind, amount, passed)


@inner_part
def _has_room(n, passed):
    """Return whether there is room for n more amounts."""
    return passed.kind.size - passed.state[0] >= n


@inner_part
def _length(i, lists):
    """Return the number of items in a list; 0 for list -1."""
    n, at = 0, lists.head[i] if i >= 0 else lists.head.dtype.type(-1)
    while at >= 0:
        n += 1
        at = lists.below[at]
    return n


@inner_part
def _waits_of(p, pairs):
    """Return the first wait in the interval of a pair, the first that takes on costs, one past the last, and the wait
    that is caused (-1 none)."""
    before, x, since = pairs.waits_before, pairs.cause[p], pairs.since[p]
    stop = np.int64(before[x])
    first = min(np.int64(before[since + 1]), stop)
    counts_from = first
    if pairs.counts_from.size > 0:
        counts_from = min(np.int64(before[max(since + 1, pairs.counts_from[p])]), stop)
    e, v = pairs.waiting[p], np.int64(-1)
    if e >= 0 and before[e + 1] > before[e]:
        v = np.int64(before[e])
    return first, counts_from, stop, v


@kernel
def scale_costs(start, order, pairs, n_p2p, thread_kind, scale, whole, waited, costs, passed, propagated):
    """Carry the costs of final waits back through time in seconds: a wait takes on the costs of the waits it helped to
    cause.

    Parameters
    ----------
    start : int
        Position in `order` to begin with.
    order : (n,) int32 or int64
        Pairs, as `order_pairs` orders them.
    pairs : Caused
    n_p2p, thread_kind : int
        Kinds below `n_p2p` are point-to-point; kind of thread barriers, at which costs of this kind end (-1: they do
        not).
    scale, whole, waited : (n_pairs,) float64
        Seconds of waiting per second lost by the causing side; seconds that this side lost and waited in the interval;
        seconds that it waited.
    costs : Lists, written
        For each wait, the time of final waits that it helped to cause.
    passed : Passed, written
        For each pair, the costs of its wait per second that the causing side lost, one amount of each kind.
    propagated : (n_waits,) float64, written
        For each wait, how much of it makes others wait in point-to-point communication.

    Returns
    -------
    int
        The position to go on with: n, or less if there is no room in lists.
    """
    for k in range(start, order.size):
        p = order[k]
        if not whole[p] > 0:
            continue
        first, counts_from, stop, v_of = _waits_of(p, pairs)
        n_kinds, kind = _length(v_of, costs) + 1, pairs.kind[p]
        if not _has_room(n_kinds, passed) or costs.state[1] < n_kinds * (stop - counts_from):
            return k
        of_pair = passed.state[0]
        at = costs.head[v_of] if v_of >= 0 else costs.head.dtype.type(-1)
        while at >= 0:
            if (thread_kind < 0 or kind != thread_kind or costs.kind[at] != kind) and costs.amount[at] != 0:
                _pass(k, costs.kind[at], costs.amount[at] / whole[p], passed)
            at = costs.below[at]
        if not waited[p] > 0:
            continue
        if kind < n_p2p:
            for v in range(first, stop):
                propagated[v] = max(propagated[v], scale[p] * pairs.wait[v])
        for v in range(counts_from, stop):
            is_met = False
            for at in range(of_pair, passed.state[0]):
                share = passed.amount[at]
                if passed.kind[at] == kind:
                    is_met = True
                    share += scale[p]
                if share > 0:
                    _add_amount(v, passed.kind[at], pairs.wait[v] * share, costs)
            if not is_met and scale[p] > 0:
                _add_amount(v, kind, pairs.wait[v] * scale[p], costs)
    return order.size


@kernel
def divide_costs(start, order, pairs, n_p2p, lost, amount, costs, passed, propagated, scratch):
    """Carry the costs of final waits back through time in whole ticks, divided between the causing side and its own
    waits.

    Parameters
    ----------
    start, order, pairs, n_p2p, propagated
        As for `scale_costs`; all times are int64.
    lost : (n_pairs,) int64
        Ticks that the causing side lost.
    amount : (n_pairs,) int64
        The wait; overwritten with the part of it that is charged to the causing side.
    costs : Lists, written
        For each wait, the costs that it has taken on and not yet passed on.
    passed : Passed, written
        For each pair, the part of the costs of its wait that is charged to the causing side, one amount of each kind.
    scratch : (4, n) int64
        Scratch; n is one more than the largest number of waits in an interval.

    Returns
    -------
    int
        The position to go on with: n, or less if there is no room in lists.
    """
    weight, portion, remainder, spare = scratch[0], scratch[1], scratch[2], scratch[3]
    for k in range(start, order.size):
        p = order[k]
        _, first, stop, v_of = _waits_of(p, pairs)
        n, n_kinds = stop - first + 1, _length(v_of, costs)
        if not _has_room(n_kinds, passed) or costs.state[1] < (n_kinds + 1) * (n - 1):
            return k
        if n == 1:
            # the causing side did not wait: it is charged with everything
            _pass_all(v_of, n_kinds, costs, k, passed)
            continue
        # a wait without a known cause is not passed on: it is charged where the cause comes
        weight[0] = lost[p]
        for j in range(1, n):
            weight[j] = pairs.wait[first + j - 1]
        # the costs of the wait by kind, then the wait itself
        for left in range(n_kinds, -1, -1):
            is_own, of, cost = left == 0, np.int64(pairs.kind[p]), amount[p]
            if not is_own:
                of, cost = _take_amount(v_of, costs)
            if cost <= 0:
                continue
            divide(cost, weight, np.int64(0), n, portion, remainder, spare)
            if is_own:
                amount[p] = portion[0]
            elif portion[0] > 0:
                _pass(k, of, portion[0], passed)
            for j in range(1, n):
                if portion[j] > 0:
                    _add_amount(first + j - 1, of, portion[j], costs)
                if is_own and of < n_p2p:
                    v = first + j - 1
                    propagated[v] = max(propagated[v], min(portion[j], pairs.wait[v]))
    return order.size


@kernel
def settle_costs(start, pairs, costs, passed):
    """Charge the costs that reached waits after these had been passed on, because the waits depend on each other.

    Parameters
    ----------
    start : int
        Pair to begin with.
    pairs, costs
        As `divide_costs` leaves them.
    passed : Passed, written
        For all pairs, ascending.

    Returns
    -------
    int
        The pair to go on with: n, or less if there is no room.
    """
    for p in range(start, pairs.cause.size):
        _, _, _, v_of = _waits_of(p, pairs)
        n = _length(v_of, costs)
        if not _has_room(n, passed):
            return p
        _pass_all(v_of, n, costs, p, passed)
    return pairs.cause.size


@kernel
def place_amounts(pair, passed, left, of_pairs):
    """Put amounts in the order of the pairs; those of one kind of a pair are added up.

    Parameters
    ----------
    pair : (n,) int32 or int64
        The pairs in the order in which costs are carried back.
    passed : Passed
        Their amounts.
    left : (n_pairs,) int8, written
        Number of amounts of each pair that are still to come.
    of_pairs : OfPairs, written
        Zeros where nothing has been written.
    """
    at = 0
    for k in range(pair.size):
        p = pair[k]
        for i in range(at, at + passed.n[k]):
            # from the last place of the pair on
            first = np.int64(of_pairs.begin[p]) + left[p]
            to = first
            while to < of_pairs.begin[p + 1] and of_pairs.kind[to] != passed.kind[i]:
                to += 1
            if to == of_pairs.begin[p + 1]:
                to = first - 1
                left[p] -= 1
                of_pairs.kind[to] = passed.kind[i]
            of_pairs.amount[to] += passed.amount[i]
        at += passed.n[k]


@kernel
def count_charges(pair, kind, charged, shares, n_of):
    """Count the charges of some pairs by kind: first for their own waits, then for later ones.

    Parameters
    ----------
    pair : (n,) int64
    kind : (n_pairs,) int8
    charged : (n_pairs,) float64 or int64
        Amount that each pair is charged with for its own wait.
    shares : OfPairs
        Amounts that pairs are charged with for later waits.
    n_of : (2 * n_kinds,) int64
        Zeros; written.
    """
    n_kinds = n_of.size // 2
    for i in range(pair.size):
        p = pair[i]
        n_of[kind[p]] += charged[p] != 0
        for at in range(shares.begin[p], shares.begin[p + 1]):
            n_of[n_kinds + shares.kind[at]] += shares.amount[at] != 0


@kernel
def list_charges(pair, kind, charged, shares, begin, row, amount):
    """List the charges that `count_charges` counts, those of each kind in the order of the pairs.

    Parameters
    ----------
    pair, kind, charged, shares
        As for `count_charges`.
    begin : (2 * n_kinds,) int64
        Where the charges of each kind begin; afterwards, where they end.
    row, amount : (n_charges,) int32, as `charged`; written
        Positions among the pairs, and the amounts these are charged with.
    """
    n_kinds = begin.size // 2
    for i in range(pair.size):
        p = pair[i]
        if charged[p] != 0:
            k = begin[kind[p]]
            row[k], amount[k] = i, charged[p]
            begin[kind[p]] = k + 1
        for at in range(shares.begin[p], shares.begin[p + 1]):
            if shares.amount[at] != 0:
                of = n_kinds + shares.kind[at]
                k = begin[of]
                row[k], amount[k] = i, shares.amount[at]
                begin[of] = k + 1
