"""The different values of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def distinct(values: ArrayLike) -> NDArray[Any]:
    """Return the different values of an array in ascending order, as one dimension.

    The same as `numpy.unique`, which imports `numpy.ma`: 15 ms, 2 % of a small analysis.

    Examples
    --------
    >>> distinct([3, 1, 3])
    array([1, 3])
    """
    ordered: NDArray[Any] = np.sort(values, axis=None)
    is_first = np.ones(ordered.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
