"""Reductions of values to sums, minima and maxima, per index and up a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SeverityError

RESIDUE = 2.0**-50
"""Rounding residue of floating-point terms that cancel, relative to the sum of their magnitudes."""

LARGEST = int(np.iinfo(np.int64).max)
"""The largest severity a cell can hold: ticks, occurrences or bytes."""

REDUCTIONS: dict[str, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0),
    "min": (np.minimum, np.inf),
    "max": (np.maximum, -np.inf),
}
"""By name (`PropertyAxis.reduction`): the binary operation and its identity."""


def without_residue(sums: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    """Set sums to zero whose terms cancel except for rounding; integers are exact and stay as they are. `sizes` is the
    sum of the magnitudes of the terms of every sum."""
    return sums if sums.dtype.kind != "f" else np.where(np.abs(sums) <= RESIDUE * sizes, 0.0, sums)


def widened(values: NDArray[Any]) -> NDArray[Any]:
    """Return values in a type that holds the sum of any of them exactly: as they are, or as Python integers if a sum of
    some of them could exceed 64 bits."""
    if values.dtype.kind != "i" or not values.size:
        return values
    magnitude = max(abs(int(values.max())), abs(int(values.min())))
    if magnitude * values.size <= LARGEST or float(np.abs(values.astype(np.float64)).sum()) < 0.999 * LARGEST:
        return values
    return values.astype(object)


def reduce_at(index: NDArray[Any], values: NDArray[Any], n: int, how: str = "sum") -> NDArray[Any]:
    """Reduce the values that share an index to one: to their sum, minimum or maximum.

    Sums of integers are exact; sums of floating-point numbers that cancel except for their rounding are zero.

    `index`, from 0 to `n` - 1, is where each value belongs; `how` is `sum`, `min` or `max`. Sums are Python integers
    if they could exceed 64 bits (`widened`), minima and maxima float64. Where there is no value, the result is the
    identity of the reduction; `filled` replaces it by zero after the last reduction.
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

    `own` is what `reduce_at` returns for the nodes, `parent` -1 and `depth` 0 for roots, `how` `sum`, `min` or `max`.
    """
    order = np.argsort(depth, kind="stable")
    starts = np.searchsorted(depth[order], np.arange(depth.max(initial=0) + 2))

    def upwards(values: NDArray[Any]) -> NDArray[Any]:
        for at in range(starts.size - 2, 0, -1):
            level = order[starts[at] : starts[at + 1]]
            REDUCTIONS[how][0].at(values, parent[level], values[level])
        return values

    result = upwards(own.copy())
    if how != "sum" or own.dtype.kind != "f" or not (own < 0).any():
        return result
    return without_residue(result, upwards(np.abs(own)))


def ends(parent: NDArray[Any], depth: NDArray[Any]) -> NDArray[np.int64]:
    """Return the end of the subtree of every node of a tree in depth-first order; (n,) int64."""
    sizes = reduce_upwards(np.ones(parent.size, np.int64), parent, depth)
    return np.asarray(np.arange(parent.size) + sizes, np.int64)


def filled(values: NDArray[Any], how: str) -> NDArray[Any]:
    """Put zeros where `reduce_at` had no value to reduce."""
    return values if how == "sum" else np.where(np.isinf(values), 0, values)


def narrowed(sums: NDArray[Any]) -> NDArray[Any]:
    """Return sums of `widened` values as int64 again. Raises SeverityError if one of them does not fit."""
    if sums.dtype != object:
        return sums
    largest = max(map(abs, sums.tolist()), default=0)
    if largest > LARGEST:
        raise SeverityError(
            f"a severity of {largest} exceeds {LARGEST}, the largest number of ticks, occurrences or bytes of one call "
            "path and location\n  analyze a shorter time range"
        )
    return sums.astype(np.int64)
