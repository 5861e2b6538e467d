"""Sums of time by call path, for a limited number of call paths and for all.

Times are float64 seconds or int64 ticks, of the same type throughout a call, as in `kernels.segments`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import inner_part, part
from tracecols.kernels.ranks import n_set

FEW = 24
"""Number of call paths up to which they are sorted by insertion."""

# state of a sum: number of its call paths; its epoch; first entry and first wait of the interval, and the next ones;
# number of call paths that are in order
N_PATHS, EPOCH, FIRST, ENTRY, WAIT_FIRST, WAIT, N_SORTED, N_STATE = range(8)


class Sum(NamedTuple):
    """The time of an interval by call path: valid where the stamp is `state[EPOCH]`."""

    stamp: NDArray[np.int32]
    """(n_call_paths,)"""
    time: NDArray[Any]
    waited: NDArray[Any]
    """`time` and `waited`: (n_call_paths,) float64 or int64, `waited` is zero but for the waits of the interval."""
    path: NDArray[np.int32]
    """(limit,): the call paths of the sum, at most `limit`."""
    floor: NDArray[Any]
    """(1,) as `time`: no time of a full sum is less."""
    state: NDArray[np.int64]
    """(N_STATE,)"""
    word: NDArray[np.int64]
    group: NDArray[np.int64]
    """`word` and `group`: (n_call_paths // 64 + 1,), (n_call_paths // 4096 + 1,) int64, zeros: scratch for sorting."""


class Totals(NamedTuple):
    """Times by call path, for any number of call paths."""

    time: NDArray[Any]
    is_met: NDArray[np.bool_]
    """`time` and `is_met`: (n_call_paths,) float64 or int64, bool; which call paths have a time. All zero and false at
    first."""
    met: NDArray[np.int32]
    """(n_call_paths,): those that have a time, in the order in which they were met."""


@part
def add_to_total(c, x, n, totals):
    """Add to the time of a call path; return how many call paths have one."""
    if not totals.is_met[c]:
        totals.is_met[c] = True
        totals.met[n] = c
        n += 1
    totals.time[c] += x
    return n


@part
def _replace_smallest(c, x, epoch, sum_):
    """Put a call path into a full sum in place of the one with the smallest time, on ties the lowest call path, if that
    time is less than its own; the replaced time is lost."""
    if x <= sum_.floor[0]:
        return
    path, time = sum_.path, sum_.time
    m, next_ = 0, x
    for i in range(1, path.size):
        one, least = time[path[i]], time[path[m]]
        if one < least or (one == least and path[i] < path[m]):
            next_ = min(next_, least)
            m = i
        else:
            next_ = min(next_, one)
    least = time[path[m]]
    sum_.floor[0] = least
    if least < x:
        sum_.stamp[path[m]] = 0
        sum_.stamp[c] = epoch
        path[m] = c
        time[c] = x
        sum_.floor[0] = next_
        sum_.state[N_SORTED] = 0


@inner_part
def add_time(c, x, epoch, n, sum_):
    """Add to the time of a call path; return the number of call paths after that.

    A new call path in a full sum takes the place of the smallest time, if that is less than its own.

    Parameters
    ----------
    c, x : int, float or int
        Call path, time.
    epoch, n : int
        Epoch of the sum; number of its call paths.
    sum_ : Sum
    """
    if sum_.stamp[c] == epoch:
        sum_.time[c] += x
        sum_.floor[0] = min(sum_.floor[0], sum_.time[c])
        return n
    if n == sum_.path.size:
        _replace_smallest(c, x, epoch, sum_)
        return n
    sum_.stamp[c] = epoch
    sum_.time[c] = x
    sum_.path[n] = c
    sum_.floor[0] = min(sum_.floor[0], x) if n > 0 else x
    return n + 1


@part
def _lowest_bit(x):
    """Return the number of the lowest bit that is set."""
    return n_set(np.uint64((x & -x) - 1))


@part
def sort_paths(sum_):
    """Sort the call paths of a sum: many of them by setting a bit for each, and one for each word of these bits."""
    n, path = sum_.state[N_PATHS], sum_.path
    if sum_.state[N_SORTED] == n:
        return
    sum_.state[N_SORTED] = n
    if n <= FEW:
        for i in range(1, n):
            c = path[i]
            j = i
            while j > 0 and path[j - 1] > c:
                path[j] = path[j - 1]
                j -= 1
            path[j] = c
        return
    one = np.int64(1)
    for i in range(n):
        c = np.int64(path[i])
        sum_.word[c >> 6] |= one << (c & 63)
        sum_.group[c >> 12] |= one << ((c >> 6) & 63)
    k = 0
    for g in range(sum_.group.size):
        while sum_.group[g] != 0:
            w = (np.int64(g) << 6) + _lowest_bit(sum_.group[g])
            sum_.group[g] &= sum_.group[g] - 1
            while sum_.word[w] != 0:
                path[k] = (w << 6) + _lowest_bit(sum_.word[w])
                sum_.word[w] &= sum_.word[w] - 1
                k += 1
