"""Sparse values per (call path, location)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.grouping import combine, number
from tracecols.errors import SeverityError
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


LARGEST = int(np.iinfo(np.int64).max)
"""The largest severity a cell can hold: ticks, occurrences or bytes."""


def widened(values: NDArray[Any]) -> NDArray[Any]:
    """Return values in a type that holds the sum of any of them exactly.

    Parameters
    ----------
    values : (n,) int64 or float64
        Severities.

    Returns
    -------
    (n,) int64, float64 or object
        The values as they are; Python integers where a sum of some of them could exceed 64 bits.
    """
    if values.dtype.kind != "i" or not values.size:
        return values
    magnitude = max(abs(int(values.max())), abs(int(values.min())))
    if magnitude * values.size <= LARGEST or float(np.abs(values.astype(np.float64)).sum()) < 0.999 * LARGEST:
        return values
    return values.astype(object)


def sum_at(index: NDArray[Any], values: NDArray[Any], n: int) -> NDArray[Any]:
    """Add up values that share an index: integers exactly; floating-point numbers that cancel except for their rounding are zero.

    Parameters
    ----------
    index : (n_values,) int
        Where each value is added, from 0 to `n` - 1.
    values : (n_values,) int64 or float64
        Severities.
    n : int
        Number of sums.

    Returns
    -------
    (n,) int64, float64 or object
        Python integers where the sums could exceed 64 bits (`widened`).
    """
    values = widened(values)
    sums = np.zeros(n, values.dtype)
    np.add.at(sums, index, values)
    if values.dtype.kind != "f" or not (values < 0).any():
        return sums
    sizes = np.zeros(n, values.dtype)
    np.add.at(sizes, index, np.abs(values))
    return without_residue(sums, sizes)


def _narrowed(sums: NDArray[Any]) -> NDArray[Any]:
    """Return sums of `widened` values as int64 again.

    Raises
    ------
    SeverityError
        If one of them does not fit.
    """
    if sums.dtype != object:
        return sums
    largest = max(map(abs, sums.tolist()), default=0)
    if largest > LARGEST:
        raise SeverityError(
            f"a severity of {largest} exceeds {LARGEST}, the largest number of ticks, occurrences or bytes of one call path and "
            "location\n  analyze a shorter time range"
        )
    return sums.astype(np.int64)


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
        if value.dtype == np.uint64 and value.size and int(value.max()) > LARGEST:
            value = value.astype(object)
        else:
            # sums of integers are integers, sums of anything else float64
            value = value.astype(np.int64 if value.dtype.kind in "iub" else np.float64, copy=False)
            value = widened(value) if first.size < group.size else value
        if value.dtype == object:
            value = _narrowed(sum_at(group, value, key.size))
        elif first.size < group.size:
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
            key, sums = key[starts], np.add.reduceat(widened(value), starts)
            value = (
                without_residue(sums, np.add.reduceat(np.abs(value), starts))
                if value.dtype.kind == "f"
                else _narrowed(sums)
            )
        return self._sorted(key, value)

    def without(self, others: Sequence[Cells]) -> Cells:
        """Subtract the cells of others, all at once: what rounding leaves is measured by the largest of them."""
        return self._with(others, -1)

    @property
    def total(self) -> Any:
        """Exact sum of all values: int, or float where the values are."""
        return sum_at(np.zeros(len(self), np.int64), self.value, 1)[0]

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
