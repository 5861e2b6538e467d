"""Intervals: the time that they cover, and the last to end."""

from __future__ import annotations

import numpy as np

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import latest_before, positions
from tracecols.kernels.groups import find_largest_so_far
from tracecols.vectors import Ints

NEVER = np.iinfo(np.int64).max


class Coverage:
    """The union of the intervals of each key, to compute how much of a time span it covers."""

    def __init__(self, key: Ints, begin: Ints, end: Ints) -> None:
        order = np.lexsort((begin, key))
        key, begin, end = key[order], begin[order], end[order]
        reach = running_max(key, end)
        head = starts_run(key)
        opens = head | np.append(True, begin[1:] > reach[:-1])[: key.size]
        at = np.flatnonzero(opens)
        self._key, self._begin = key[at], begin[at]
        self._end = reach[np.append(at[1:], key.size) - 1] if at.size else at
        length = self._end - self._begin
        self._before = np.cumsum(length) - length

    def until(self, key: Ints, time: Ints) -> Ints:
        """Return the time covered before some times, up to a constant for each key; (n,) int64."""
        at = latest_before(self._key, self._begin, key, time)
        first = np.searchsorted(self._key, key)
        base = np.append(self._before, 0)[first]
        inside = pick(self._before, at, 0) + np.minimum(time, pick(self._end, at)) - pick(self._begin, at)
        return np.where(at >= 0, inside, base)


def covered(key: Ints, begin: Ints, end: Ints, n: int) -> Ints:
    """Return the length of the union of the intervals of each key, 0 to n - 1, in ticks."""
    order = np.lexsort((begin, key))
    key, begin, end = key[order], begin[order], end[order]
    reach = running_max(key, end)
    before = np.append(0, reach[:-1])[: key.size]
    head = starts_run(key)
    new = np.where(head, end - begin, np.maximum(end - np.maximum(begin, before), 0))
    result = np.zeros(n, np.int64)
    np.add.at(result, key, new)
    return result


def running_max(group: Ints, values: Ints) -> Ints:
    """Return the running maximum of values in each group; elements of a group are adjacent."""
    result = np.empty(values.size, np.int64)
    find_largest_so_far(np.ascontiguousarray(group, np.int64), np.ascontiguousarray(values), result)
    return result


def latest_end(key: Ints, time: Ints, end: Ints, wanted_key: Ints, wanted_time: Ints) -> Ints:
    """Find the element that ends last among those with the wanted key and time < the wanted time; -1 if there is none.
    Keys are locations or processes."""
    order = np.lexsort((np.arange(key.size), time, key))
    key, time = key[order], time[order]
    # ranks by end
    by_end = np.lexsort((order, end[order]))
    longest = order[by_end[running_max(key, positions(by_end))]] if order.size else order
    return pick(longest, latest_before(key, time, wanted_key, wanted_time - 1))
