"""Sparse values per (call path, location)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.grouping import combine, number
from tracecols.errors import SeverityError

RESIDUE = 2.0**-50
"""Of the sizes of the terms: what is left of floating-point numbers that cancel except for their rounding."""

LARGEST = int(np.iinfo(np.int64).max)
"""The largest severity a cell can hold: ticks, occurrences or bytes."""

REDUCTIONS: dict[str, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0),
    "min": (np.minimum, np.inf),
    "max": (np.maximum, -np.inf),
}
"""By name (`PropertyAxis.reduction`): the operation that makes two values one, and its identity."""


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


def reduce_at(index: NDArray[Any], values: NDArray[Any], n: int, how: str = "sum") -> NDArray[Any]:
    """Reduce the values that share an index to one: to their sum, minimum or maximum.

    Sums of integers are exact; sums of floating-point numbers that cancel except for their rounding are zero.

    Parameters
    ----------
    index : (n_values,) int
        Where each value belongs, from 0 to `n` - 1.
    values : (n_values,) int64, float64 or object
        Severities.
    n : int
        Number of results.
    how : str
        `sum`, `min` or `max`.

    Returns
    -------
    (n,) int64, float64 or object
        Of sums Python integers where they could exceed 64 bits (`widened`); of minima and maxima float64. The identity of the
        reduction where there is no value: `filled` turns it into zero when nothing is reduced any further.
    """
    operation, identity = REDUCTIONS[how]
    values = widened(values) if how == "sum" else values
    result = np.full(n, identity, values.dtype if how == "sum" else np.float64)
    operation.at(result, index, values)
    if how != "sum" or values.dtype.kind != "f" or not (values < 0).any():
        return result
    sizes = np.zeros(n, values.dtype)
    operation.at(sizes, index, np.abs(values))
    return without_residue(result, sizes)


def reduce_upwards(own: NDArray[Any], parent: NDArray[Any], depth: NDArray[Any], how: str = "sum") -> NDArray[Any]:
    """Reduce the value of every node of a tree with those of all nodes below it, from the deepest level up; O(n log n).

    Parameters
    ----------
    own : (n,) int64, float64 or object
        What `reduce_at` returns for the nodes.
    parent : (n,) int
        -1 for roots.
    depth : (n,) int
        0 for roots.
    how : str
        `sum`, `min` or `max`.

    Returns
    -------
    (n,) of the same type
    """
    order = np.argsort(depth, kind="stable")
    starts = np.searchsorted(depth[order], np.arange(depth.max(initial=0) + 2))

    def upwards(values: NDArray[Any]) -> NDArray[Any]:
        for at in range(starts.size - 2, 0, -1):
            level = order[starts[at] : starts[at + 1]]
            REDUCTIONS[how][0].at(values, parent[level], values[level])
        return values

    result = upwards(own.copy())
    return without_residue(result, upwards(np.abs(own))) if how == "sum" and own.dtype.kind == "f" else result


def filled(values: NDArray[Any], how: str) -> NDArray[Any]:
    """Put zeros where `reduce_at` had no value to reduce."""
    return values if how == "sum" else np.where(np.isinf(values), 0, values)


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
    def reduce(cls, call_path: NDArray[Any], location: NDArray[Any], value: NDArray[Any], how: str = "sum") -> Cells:
        """Reduce values per cell to their `sum`, `min` or `max` (`reduce_at`); an extreme may be zero."""
        group, first = number(combine(call_path, location))
        key = (call_path[first].astype(np.int64) << 32) | location[first].astype(np.int64)
        if value.dtype == np.uint64 and value.size and int(value.max()) > LARGEST:
            value = value.astype(object)
        else:
            # sums of integers are integers, all else is float64
            is_integer = how == "sum" and value.dtype.kind in "iub"
            value = value.astype(np.int64 if is_integer else np.float64, copy=False)
        if first.size < group.size or value.dtype == object:
            value = _narrowed(reduce_at(group, value, key.size, how))
        return cls._sorted(key, value, how)

    @classmethod
    def sum(cls, call_path: NDArray[Any], location: NDArray[Any], value: NDArray[Any]) -> Cells:
        """Add up values per cell; the order of the input does not matter for integers."""
        return cls.reduce(call_path, location, value)

    @classmethod
    def _sorted(cls, key: NDArray[np.int64], value: NDArray[Any], how: str) -> Cells:
        """Put different cells in order; sums without those that are zero."""
        kept = value != 0
        if how == "sum" and not kept.all():
            key, value = key[kept], value[kept]
        if (key[1:] < key[:-1]).any():
            order = np.argsort(key, kind="stable")
            key, value = key[order], value[order]
        return cls(key, value)

    def _with(self, others: Sequence[Cells], sign: int = 1, how: str = "sum") -> Cells:
        """Reduce the cells of this one and others together; all are in order, and stable sorting merges what is."""
        others = [other for other in others if len(other)]
        if not others:
            return self
        key = np.concatenate([self.key, *(other.key for other in others)])
        order = np.argsort(key, kind="stable")
        key = key[order]
        value = np.concatenate([self.value, *(other.value if sign > 0 else -other.value for other in others)])[order]
        is_first = np.concatenate([[True], key[1:] != key[:-1]])
        if not is_first.all():
            group, key = np.cumsum(is_first) - 1, key[is_first]
            value = _narrowed(reduce_at(group, value, key.size, how))
        return self._sorted(key, value, how)

    def without(self, others: Sequence[Cells]) -> Cells:
        """Subtract the cells of others, all at once: what rounding leaves is measured by the largest of them."""
        return self._with(others, -1)

    def joined(self, other: Cells, how: str = "sum") -> Cells:
        """Reduce the cells of two together."""
        return self._with([other], how=how)

    def total(self, how: str = "sum") -> Any:
        """Return what all values are reduced to, 0 if there is none: of integers the exact sum (int), else float."""
        return filled(reduce_at(np.zeros(len(self), np.int64), self.value, 1, how), how).tolist()[0]

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
        return self.joined(other)

    def __sub__(self, other: Cells) -> Cells:
        return self.without([other])

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
