"""The distinct values of an array, and its runs of equal values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def distinct(values: ArrayLike) -> NDArray[Any]:
    """Return the distinct values of an array in ascending order, as a one-dimensional array.

    `numpy.unique` without further outputs uses a hash table, which takes 1.4 s for 10^6 distinct numbers and 0.5 s for
    10^7 numbers with a thousand distinct ones; sorting takes 0.02 and 0.12 s (NumPy 2.4). It also imports `numpy.ma`,
    15 ms of a small analysis.

    Examples
    --------
    >>> distinct([3, 1, 3])
    array([1, 3])
    """
    ordered: NDArray[Any] = np.sort(values, axis=None)
    return ordered[starts_run(ordered)]


def starts_run(values: NDArray[Any], *others: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the elements that are the first of a run of equal ones, in several columns of rows that are
    equal in all; (n,) bool.

    Examples
    --------
    >>> starts_run(np.array([3, 3, 1]))
    array([ True, False,  True])
    """
    found = np.ones(values.size, bool)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    for column in others:
        found[1:] |= column[1:] != column[:-1]
    return found


def ends_run(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the elements that are the last of a run of equal ones; (n,) bool."""
    return starts_run(values[::-1])[::-1]
