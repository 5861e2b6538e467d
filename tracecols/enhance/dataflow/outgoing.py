"""Rows that one partition sends to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, ColumnSource
from tracecols.enhance.dataflow.spill import Spill


class OutgoingRows:
    """Rows that a partition sends to others, in the order of the receivers: `kept`.

    `spill` stores them; without it, columns are computed on first access. `relative` columns have values close to those
    of another column (see `Spill.keep`).
    """

    def __init__(
        self, columns: Columns, names: Sequence[str], spill: Spill | None, relative: Mapping[str, str] | None = None
    ) -> None:
        self.n = len(columns)
        self.kept: ColumnSource = columns
        if spill is not None:
            self.kept = spill.keep(Columns(self.n, {name: columns[name] for name in names}), relative)

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return the rows of a column with start <= row < stop."""
        return self.kept.rows(name, start, self.n if stop is None else stop)

    def between(self, name: str, low: int, high: int) -> tuple[int, int]:
        """Find the rows with low <= value < high in an ascending column; the first, and one past the last."""
        start, stop = self.kept.search(name, [low, high])
        return int(start), int(stop)
