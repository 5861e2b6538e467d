"""Rows of columns of which only some ranges are held, one range after the other."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import inner_part, kernel
from tracecols.kernels.ordered import first_after


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
def count_ranges(first, stop, bits, change):
    """Count how many more ranges of rows begin in each group of 2 ** bits rows than have ended before it.

    Parameters
    ----------
    first, stop : (n,) int64
        First row of each range, and one past its last. Ranges that are empty or begin at -1 are left out.
    bits : int
    change : (n_groups + 1,) int64, counted up
    """
    for i in range(first.size):
        if 0 <= first[i] < stop[i]:
            change[first[i] >> bits] += 1
            change[((stop[i] - 1) >> bits) + 1] -= 1


@inner_part
def _range_of(row, near, begin):
    """Return the last range that begins at a row or before, which is mostly that of the row before (`near`)."""
    if row >= begin[near] and (near + 1 == begin.size or row < begin[near + 1]):
        return near
    return max(first_after(row, 0, begin.size, begin) - 1, 0)


@kernel
def find_places(row, begin, before, found):
    """Find where rows are among those that are held, any place for rows that are not; `found` (n,) int64 is filled.

    Parameters
    ----------
    row : (n,) int64
    begin, before : (n_ranges,) int64
        First row of each range, ascending, and how many are held before it.
    """
    near = 0
    for i in range(row.size):
        found[i] = 0
        if begin.size > 0:
            near = _range_of(row[i], near, begin)
            found[i] = max(row[i] - begin[near] + before[near], 0)


@kernel
def pick_places(values, row, begin, before, null, found):
    """Take the values at some rows, all of which are held but for negative ones; these are null.

    Parameters
    ----------
    values : (n_held,)
    row, begin, before
        As for `find_places`.
    null : int
    found : (n,), as `values`, written
    """
    near = 0
    for i in range(row.size):
        if row[i] < 0:
            found[i] = null
        else:
            near = _range_of(row[i], near, begin)
            found[i] = values[row[i] - begin[near] + before[near]]
