"""The layouts of arrays that kernels have been compiled for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def layouts(types: Iterable[Any]) -> set[str]:
    """Return the layouts of the arrays among some types of numba, also of those in tuples."""
    found = set()
    for t in types:
        found |= layouts(t) if hasattr(t, "__iter__") else {getattr(t, "layout", "C")}
    return found
