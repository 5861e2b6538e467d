"""The distinct values of an array."""

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
    is_first = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
