"""Sparse values per (call path, location)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.grouping import combine, number
from tracecols.kernels import groups


class Cells:
    """Sparse sums per (call path, location), sorted, without zeros and duplicates.

    Attributes
    ----------
    key : (n,) int64
        `call_path << 32 | location`.
    value : (n,) int64 or float64
        Ticks, occurrences, bytes or counts.
    """

    __slots__ = ("key", "value")

    def __init__(self, key: NDArray[np.int64], value: NDArray[Any]) -> None:
        self.key, self.value = key, value

    @classmethod
    def empty(cls) -> Cells:
        """No cells."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def sum(cls, call_path: NDArray[Any], location: NDArray[Any], value: NDArray[Any]) -> Cells:
        """Add up values per cell; the order of the input does not matter for integers."""
        group, first = number(combine(call_path, location))
        key = (call_path[first].astype(np.int64) << 32) | location[first].astype(np.int64)
        return cls._added(key, group, value)

    @classmethod
    def _reduced(cls, key: NDArray[np.int64], value: NDArray[Any]) -> Cells:
        group, first = number(key)
        return cls._added(key[first], group, value)

    @classmethod
    def _added(cls, key: NDArray[np.int64], group: NDArray[np.int64], value: NDArray[Any]) -> Cells:
        # of integers the sum, of anything else a number that can hold it
        sums = np.zeros(key.size, np.int64 if value.dtype.kind in "iub" else np.float64)
        groups.reduce_groups(group, value.astype(sums.dtype, copy=False), sums, groups.SUM)
        order = np.argsort(key)
        order = order[sums[order] != 0]
        return cls(key[order], sums[order])

    @property
    def call_path(self) -> NDArray[np.int32]:
        """Call path of every cell; (n,) int32."""
        return (self.key >> 32).astype(np.int32)

    @property
    def location(self) -> NDArray[np.int32]:
        """Location of every cell; (n,) int32."""
        return (self.key & 0xFFFFFFFF).astype(np.int32)

    def __len__(self) -> int:
        return self.key.size

    def __add__(self, other: Cells) -> Cells:
        return self._reduced(np.concatenate([self.key, other.key]), np.concatenate([self.value, other.value]))

    def __sub__(self, other: Cells) -> Cells:
        return self._reduced(np.concatenate([self.key, other.key]), np.concatenate([self.value, -other.value]))

    def where(self, mask: NDArray[np.bool_]) -> Cells:
        """Keep the cells a mask selects."""
        return Cells(self.key[mask], self.value[mask])

    def on(self, call_paths: NDArray[np.bool_]) -> Cells:
        """Keep the cells of some call paths, given as a mask over all of them."""
        return self.where(call_paths[self.call_path]) if len(self) else self

    def at(self, key: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of given cells, 0 where there is none."""
        if not self.key.size:
            return np.zeros(key.size, self.value.dtype)
        position = np.searchsorted(self.key, key)
        position[position == self.key.size] = 0
        return np.where(self.key[position] == key, self.value[position], 0)
