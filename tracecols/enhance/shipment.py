"""Rows that one part of a trace sends to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.compound import Columns
from tracecols.enhance.spool import Spool, rows, search


class Shipment:
    """Rows that a part sends to others, in the order of those who get them.

    Parameters
    ----------
    columns : Columns
        What is sent.
    names : sequence of str
        Which columns.
    spool : Spool, optional
        Keeps them; without it they are computed when they are asked for.
    relative : mapping, optional
        Columns that are close to another one (see `Spool.keep`).
    """

    def __init__(
        self, columns: Columns, names: Sequence[str], spool: Spool | None, relative: Mapping[str, str] | None = None
    ) -> None:
        self.n = len(columns)
        self._kept: Any = columns
        if spool is not None:
            self._kept = spool.keep(SimpleNamespace(**{name: columns[name] for name in names}), relative)

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return some rows of a column."""
        return rows(self._kept, name, start, self.n if stop is None else stop)

    def between(self, name: str, low: int, high: int) -> tuple[int, int]:
        """Find the rows of an ascending column with low <= value < high; their first, and one past their last."""
        start, stop = search(self._kept, name, [low, high])
        return int(start), int(stop)


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays; one alone is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
