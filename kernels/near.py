"""Columns of which only some ranges of rows are held, one range after the other."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import inner_part, kernel
from tracecols.kernels.ordered import last_until


@kernel
def find_extent(first, stop):
    """Return the first row of some ranges and one past the last; 0 and 0 if there are none.

    Parameters
    ----------
    first, stop : (n,) int64
        First row of each range, and one past its last. Ranges that are empty or begin at -1 are left out.
    """
    low, high = np.int64(np.iinfo(np.int64).max), np.int64(0)
    for i in range(first.size):
        if 0 <= first[i] < stop[i]:
            low, high = min(low, first[i]), max(high, stop[i])
    return min(low, high), high


@kernel
def list_near(first, stop, bits, n_rows, change, near):
    """List the ranges of rows formed by the groups of 2 ** bits rows that some ranges have rows in, and return their
    number.

    Parameters
    ----------
    first, stop : (n,) int64
        First row of each range, and one past its last. Ranges that are empty or begin at -1 are left out.
    bits : int
    n_rows : int
        Total number of rows.
    change : (n_groups + 1,) int32
        Scratch, zeros: how many more ranges begin in each group than have ended before it.
    near : (3, n_groups // 2 + 1) int64, written
        First row of each, one past the last, and the number of rows in those before.
    """
    for i in range(first.size):
        if 0 <= first[i] < stop[i]:
            change[first[i] >> bits] += 1
            change[((stop[i] - 1) >> bits) + 1] -= 1
    n, n_open, held = 0, 0, 0
    for group in range(change.size):
        is_open = n_open > 0
        n_open += change[group]
        if n_open > 0 and not is_open:
            near[0, n], near[2, n] = group << bits, held
        elif is_open and n_open == 0:
            near[1, n] = min(group << bits, n_rows)
            held += near[1, n] - near[0, n]
            n += 1
    return n


@inner_part
def _range_of(row, near, begin):
    """Return the last range that begins at a row or before, which is mostly that of the row before (`near`)."""
    if row >= begin[near] and (near + 1 == begin.size or row < begin[near + 1]):
        return near
    return max(last_until(row, 0, begin.size, begin), 0)


@kernel
def find_places(row, begin, before, found):
    """Find the positions of rows among those that are held, any position for rows that are not; `found` (n,) int64 is
    filled.

    Parameters
    ----------
    row : (n,) int64
    begin, before : (n_ranges,) int64
        First row of each range, ascending, and the number of rows held before it.
    """
    near = 0
    for i in range(row.size):
        found[i] = 0
        if begin.size > 0:
            near = _range_of(row[i], near, begin)
            found[i] = max(row[i] - begin[near] + before[near], 0)
