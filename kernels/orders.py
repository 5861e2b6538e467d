"""Orders in which things happen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel


@kernel
def search_smaller(values, item, start, stop, following, stack, result):
    """Find first smaller elements (see `first_smaller`); `following` and `stack` have the size of `values`, `result` is
    filled."""
    n = values.size
    depth = 0
    for i in range(n - 1, -1, -1):
        while depth > 0 and values[stack[depth - 1]] >= values[i]:
            depth -= 1
        following[i] = stack[depth - 1] if depth > 0 else n
        stack[depth] = i
        depth += 1
    for k in range(item.size):
        j = start[k]
        while j < stop[k] and values[j] >= values[item[k]]:
            j = following[j]
        result[k] = j if j < stop[k] else -1


def first_smaller(
    values: NDArray[np.int64], item: NDArray[np.int64], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For some elements find the first smaller one within a range that lies after them.

    Parameters
    ----------
    values : (n,) int64
    item : (m,) int64
        Elements to look from.
    start, stop : (m,) int64
        Range of each: `start <= j < stop`, with `item < start`.

    Returns
    -------
    (m,) int64
        The first j with `values[j] < values[item]`, or -1. O(n + m) for ranges that begin right after their element.
    """
    following, stack, result = np.empty_like(values), np.empty_like(values), np.empty(item.size, np.int64)
    # some callers read what they hand over from files, which cannot be written: the kernel is compiled for that only
    given = values.view(), item.view(), start.view(), stop.view()
    for array in given:
        array.flags.writeable = False
    search_smaller(*given, following, stack, result)
    return result
