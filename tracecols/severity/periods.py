"""The fourth axis of a cube: periods, which are phases of the program or bins of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import starts_run
from tracecols.severity.cells import Cells
from tracecols.severity.reduction import narrowed, reduce_at

OUTSIDE = -1
"""The period of what happens outside of all phases."""


@dataclass
class PeriodAxis:
    """The periods of a cube, in order."""

    kind: str
    """`phase` or `bin`."""
    words: str
    """The request: a region, a call, or the number of bins."""
    begin_time: NDArray[np.int64]
    end_time: NDArray[np.int64]
    """`begin_time` and `end_time`: (n,), ticks: when the first location begins a phase, and when the last one ends it;
    the edges of a bin."""
    n_locations: NDArray[np.int32]
    """(n,): number of locations that have the phase; for bins, all locations."""

    def __len__(self) -> int:
        return self.begin_time.size


@dataclass
class PeriodCells:
    """Sparse values per (call path, location, period), ordered by these, without duplicates and zeros."""

    call_path: NDArray[np.int32]
    location: NDArray[np.int32]
    period: NDArray[np.int32]
    """`call_path`, `location` and `period`: (n,), the period is -1 outside of all phases."""
    value: NDArray[Any]
    """(n,) int64 or float64: ticks, occurrences, bytes or counts."""

    @classmethod
    def empty(cls) -> PeriodCells:
        """No cells."""
        nothing = np.zeros(0, np.int32)
        return cls(nothing, nothing, nothing, np.zeros(0, np.int64))

    @classmethod
    def ordered(
        cls, call_path: NDArray[Any], location: NDArray[Any], period: NDArray[Any], value: NDArray[Any]
    ) -> PeriodCells:
        """Sort cells and add up duplicates; zeros are left out."""
        columns = tuple(c.astype(np.int32, copy=False) for c in (call_path, location, period))
        if not value.size:
            # most properties have nothing outside of the focus
            return cls(columns[0], columns[1], columns[2], value)
        spans = [int(c.max(initial=0)) + 2 for c in columns]
        if spans[0] * spans[1] * spans[2] < 1 << 62:
            key = (columns[0].astype(np.int64) * spans[1] + columns[1]) * spans[2] + (columns[2] + 1)
        else:
            # too large for one key: numbers of the distinct cells in their order, (n, 1) with numpy 2.0
            key = np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].ravel()
        if (key[1:] < key[:-1]).any():
            # cells of bins are ordered already
            order = np.argsort(key, kind="stable")
            key, value, columns = key[order], value[order], tuple(c[order] for c in columns)
        is_first = starts_run(key)
        if not is_first.all():
            value = narrowed(reduce_at(np.cumsum(is_first) - 1, value, int(is_first.sum())))
            columns = tuple(c[is_first] for c in columns)
        found = cls(columns[0], columns[1], columns[2], value)
        return found.where(value != 0)

    def __len__(self) -> int:
        return self.value.size

    def summed(self) -> Cells:
        """Return the sums over all periods."""
        key = (self.call_path.astype(np.int64) << 32) | self.location
        if (key[1:] > key[:-1]).all():
            # no kernel call if there is nothing to add up
            return Cells(key, self.value)
        return Cells.sum(self.call_path, self.location, self.value)

    def __sub__(self, other: PeriodCells) -> PeriodCells:
        return PeriodCells.ordered(
            np.append(self.call_path, other.call_path),
            np.append(self.location, other.location),
            np.append(self.period, other.period),
            np.append(self.value, -other.value),
        )

    def where(self, mask: NDArray[np.bool_]) -> PeriodCells:
        if mask.all():
            return self
        return PeriodCells(self.call_path[mask], self.location[mask], self.period[mask], self.value[mask])

    def on(self, call_paths: NDArray[np.bool_]) -> PeriodCells:
        """Keep the cells of some call paths, given as a mask over all of them."""
        return self.where(call_paths[self.call_path])

    def moved(self, to: NDArray[np.int64]) -> PeriodCells:
        """Add up the cells on other call paths: `to` is the one of each."""
        return PeriodCells.ordered(to[self.call_path], self.location, self.period, self.value)
