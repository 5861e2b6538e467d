"""Orders of rows: first smaller elements, and sorting by number."""

from __future__ import annotations

from typing import Any

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
    """Find, for some elements (`item`), the first smaller one within a range that lies after them: the first j with
    `start <= j < stop` and `values[j] < values[item]`, or -1; (n_items,) int64. O(values + items) for ranges that begin
    right after their element."""
    following, stack, result = np.empty_like(values), np.empty_like(values), np.empty(item.size, np.int64)
    # some callers pass arrays read from files, which are read-only: the kernel is compiled for read-only arrays alone
    given = values.view(), item.view(), start.view(), stop.view()
    for array in given:
        array.flags.writeable = False
    search_smaller(*given, following, stack, result)
    return result


@kernel
def sort_by_number(number, start, order):
    """Sort rows by number, stably; O(n).

    Parameters
    ----------
    number : (n,) int32 or int64
        Not negative.
    start : (largest number + 2,) int32 or int64
        Zeros; scratch.
    order : (n,) int32 or int64, written
    """
    for i in range(number.size):
        start[number[i] + 1] += 1
    for k in range(1, start.size):
        start[k] += start[k - 1]
    for i in range(number.size):
        order[start[number[i]]] = i
        start[number[i]] += 1


def order_by(*keys: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """Return the stable order of rows by columns of small integers from -1 on, the first column the most significant;
    (n,) int64. The work grows with the rows and with the largest number."""
    order = np.arange(keys[0].size)
    for key in reversed(keys):
        values = key[order].astype(np.int64)
        values += 1
        if (values[1:] < values[:-1]).any():
            by_key = np.empty(values.size, np.int64)
            sort_by_number(values, np.zeros(int(values.max()) + 2, np.int32), by_key)
            order = order[by_key]
    return order
