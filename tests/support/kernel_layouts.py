"""The layouts of arrays that kernels have been compiled for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def layouts(kinds: Iterable[Any]) -> set[str]:
    """Return the layouts of the arrays among some kinds of arguments (`kernels.kinds`), including those in tuples."""
    found = set()
    for kind in kinds:
        is_array = isinstance(kind, tuple) and len(kind) == 4 and isinstance(kind[1], int)
        found |= {kind[2]} if is_array else layouts(kind) if isinstance(kind, tuple) else set()
    return found
