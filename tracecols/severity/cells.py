"""Sparse values per (call path, location)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.grouping import combine, number
from tracecols.kernels import groups

_REDUCTIONS: dict[str, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0),
    "min": (np.minimum, np.inf),
    "max": (np.maximum, -np.inf),
}
"""By name: how two values become one, and what changes nothing."""


def reduce_at(at: Any, value: NDArray[Any], result: NDArray[Any], how: str) -> None:
    """Bring values to where they belong, together with what is there already; the result begins as `nothing`."""
    _REDUCTIONS[how][0].at(result, at, value)


def nothing(shape: int | tuple[int, ...], dtype: Any, how: str) -> NDArray[Any]:
    """Make an array of what changes nothing: zeros for sums, infinities for extremes, which are float64."""
    return np.full(shape, _REDUCTIONS[how][1], dtype if how == "sum" else np.float64)


def filled(values: NDArray[Any], how: str) -> NDArray[Any]:
    """Put zeros where nothing came (see `nothing`)."""
    return values if how == "sum" else np.where(np.isinf(values), 0, values)


class Cells:
    """Sparse values per (call path, location), sorted, without duplicates; sums also without zeros.

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
        # of integers the sum, of anything else a number that can hold it
        value = value.astype(np.int64 if value.dtype.kind in "iub" else np.float64, copy=False)
        if first.size < group.size:
            sums = np.zeros(key.size, value.dtype)
            groups.reduce_groups(group, value, sums, groups.SUM)
            value = sums
        return cls._sorted(key, value)

    @classmethod
    def reduce(cls, call_path: NDArray[Any], location: NDArray[Any], value: NDArray[Any], how: str) -> Cells:
        """Bring values together per cell, as a `sum`, `min` or `max`; an extreme may be zero."""
        if how == "sum":
            return cls.sum(call_path, location, value)
        group, first = number(combine(call_path, location))
        key = (call_path[first].astype(np.int64) << 32) | location[first].astype(np.int64)
        values = nothing(key.size, np.float64, how)
        reduce_at(group, value, values, how)
        order = np.argsort(key, kind="stable")
        return cls(key[order], values[order])

    def total(self, how: str) -> float:
        """Return what all values come together to; 0 where there is none."""
        return float(_REDUCTIONS[how][0].reduce(self.value)) if len(self) else 0.0

    def joined(self, other: Cells, how: str) -> Cells:
        """Bring the values of two together."""
        if how == "sum":
            return self + other
        key, value = np.concatenate([self.key, other.key]), np.concatenate([self.value, other.value])
        return Cells.reduce(key >> 32, key & 0xFFFFFFFF, value, how)

    @classmethod
    def _sorted(cls, key: NDArray[np.int64], value: NDArray[Any]) -> Cells:
        """Put different cells in order, without those that are zero."""
        kept = value != 0
        if not kept.all():
            key, value = key[kept], value[kept]
        if (key[1:] < key[:-1]).any():
            order = np.argsort(key, kind="stable")
            key, value = key[order], value[order]
        return cls(key, value)

    def _with(self, other: Cells, sign: int) -> Cells:
        """Add the cells of another, or subtract them; both are in order, and stable sorting merges what is."""
        if not len(other):
            return self
        key = np.concatenate([self.key, other.key])
        order = np.argsort(key, kind="stable")
        key = key[order]
        value = np.concatenate([self.value, other.value if sign > 0 else -other.value])[order]
        starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        if starts.size < key.size:
            key, value = key[starts], np.add.reduceat(value, starts)
        return self._sorted(key, value)

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
        return self._with(other, 1)

    def __sub__(self, other: Cells) -> Cells:
        return self._with(other, -1)

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
