"""Types of arrays that most signatures name, and the positions of consecutive parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def offsets_of(sizes: Sequence[int] | NDArray[Any]) -> Ints:
    """Return where each of consecutive parts of some sizes begins, and where the last one ends; (n + 1,) int64. Of a
    mask: how many elements before each position are set."""
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, dtype=np.int64, out=found[1:])
    return found
