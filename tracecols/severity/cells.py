"""Sparse values per (call path, location)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.grouping import combine, number
from tracecols.kernels import groups

RESIDUE = 2.0**-50
"""Of the sizes of the terms: what is left of floating-point numbers that cancel except for their rounding."""


def without_residue(sums: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    """Take for zero what rounding leaves of sums whose terms cancel; integers are exact and stay.

    Parameters
    ----------
    sums : (n,) int64 or float64
    sizes : (n,) int64 or float64
        Of every sum what its terms amount to without their signs.

    Returns
    -------
    (n,) int64 or float64
    """
    return sums if sums.dtype.kind != "f" else np.where(np.abs(sums) <= RESIDUE * sizes, 0.0, sums)


def sum_at(at: NDArray[Any], value: NDArray[Any], n: int) -> NDArray[Any]:
    """Add up values by number; (n,) int64 or float64. Floating-point numbers that cancel except for their rounding are zero."""
    sums = np.zeros(n, value.dtype)
    np.add.at(sums, at, value)
    if value.dtype.kind != "f" or not (value < 0).any():
        return sums
    sizes = np.zeros(n, value.dtype)
    np.add.at(sizes, at, np.abs(value))
    return without_residue(sums, sizes)


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
        # of integers the sum, of anything else a number that can hold it
        value = value.astype(np.int64 if value.dtype.kind in "iub" else np.float64, copy=False)
        if first.size < group.size:
            sums = np.zeros(key.size, value.dtype)
            groups.reduce_groups(group, value, sums, groups.SUM)
            if value.dtype.kind == "f":
                sizes = np.zeros(key.size, value.dtype)
                groups.reduce_groups(group, np.abs(value), sizes, groups.SUM)
                sums = without_residue(sums, sizes)
            value = sums
        return cls._sorted(key, value)

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

    def _with(self, others: Sequence[Cells], sign: int) -> Cells:
        """Add the cells of others, or subtract them; all are in order, and stable sorting merges what is."""
        others = [other for other in others if len(other)]
        if not others:
            return self
        key = np.concatenate([self.key, *(other.key for other in others)])
        order = np.argsort(key, kind="stable")
        key = key[order]
        value = np.concatenate([self.value, *(other.value if sign > 0 else -other.value for other in others)])[order]
        starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        if starts.size < key.size:
            key, sums = key[starts], np.add.reduceat(value, starts)
            value = without_residue(sums, np.add.reduceat(np.abs(value), starts)) if value.dtype.kind == "f" else sums
        return self._sorted(key, value)

    def without(self, others: Sequence[Cells]) -> Cells:
        """Subtract the cells of others, all at once: what rounding leaves is measured by the largest of them."""
        return self._with(others, -1)

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
        return self._with([other], 1)

    def __sub__(self, other: Cells) -> Cells:
        return self._with([other], -1)

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
