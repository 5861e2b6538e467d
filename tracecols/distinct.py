"""The different values of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def distinct(values: ArrayLike) -> NDArray[Any]:
    """Return the different values of an array in ascending order, as one dimension.

    `numpy.unique` of values alone puts them into a hash table: 10^6 different numbers take it 1.4 s, 10^7 of a thousand
    0.5 s, to sort them 0.02 and 0.12 s (NumPy 2.4). It imports `numpy.ma` as well, 15 ms of a small analysis.

    Examples
    --------
    >>> distinct([3, 1, 3])
    array([1, 3])
    """
    ordered: NDArray[Any] = np.sort(values, axis=None)
    is_first = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
