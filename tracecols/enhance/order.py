"""The chronological order of events across locations (thesis 3.1): by time, and how events of the same time follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.store import Store


class EventOrder:
    """Order events by time; ties go to the lower location unless the source says otherwise (side table `ties`).

    Parameters
    ----------
    store : Store
    first_rows : (n_locations,) int64
        Row of the first event of every location.
    """

    def __init__(self, store: Store, first_rows: NDArray[np.int64]) -> None:
        self._first_rows = first_rows
        with_ties = [i for i in range(first_rows.size) if store.n_rows("ties", i)]
        parts = [store.read("ties", i) for i in with_ties]
        self._rows = np.concatenate([*(p["row"] for p in parts), np.zeros(0, np.int64)])
        self._places = np.concatenate([*(p["place"] for p in parts), np.zeros(0, np.int64)])

    def place(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a number by which events of the same time are ordered, before their rows; (n,) int64."""
        if not self._rows.size:
            return rows
        location = np.searchsorted(self._first_rows, rows, "right") - 1
        at = np.minimum(np.searchsorted(self._rows, rows), self._rows.size - 1)
        return np.where(self._rows[at] == rows, self._places[at], location << 32)

    def is_listed(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the source gives events a place of their own; (n,) bool."""
        return np.isin(rows, self._rows) if self._rows.size else np.zeros(rows.size, bool)

    def argsort(self, rows: NDArray[np.int64], time: NDArray[np.int64], *groups: NDArray[Any]) -> NDArray[np.int64]:
        """Sort events chronologically within groups, the first of which matters most; O(n log n)."""
        if not self._rows.size:
            return np.lexsort((rows, time, *groups[::-1]))
        return np.lexsort((rows, self.place(rows), time, *groups[::-1]))

    def rank(self, rows: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number events chronologically; equal events get different numbers. (n,) int64."""
        result = np.empty(rows.size, np.int64)
        result[self.argsort(rows, time)] = np.arange(rows.size)
        return result

    def precedes(
        self, rows: NDArray[np.int64], time: NDArray[np.int64], other: NDArray[np.int64], other_time: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each event comes before another one; (n,) bool."""
        place, other_place = self.place(rows), self.place(other)
        tied = (place < other_place) | ((place == other_place) & (rows < other))
        return (time < other_time) | ((time == other_time) & tied)
