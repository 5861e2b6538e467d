"""Group-wise numbers: occurrence within a group, dense keys, segments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def occurrence(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the elements of each group in order: 0 for the first with its key, 1 for the second, ...

    Parameters
    ----------
    key : (n,) int64
        Group of each element. O(n log n), 24 B per element.
    """
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if key.size else np.zeros(0, np.int64)
    )
    counts = np.diff(np.append(starts, key.size))
    result = np.empty(key.size, np.int64)
    result[order] = np.arange(key.size) - np.repeat(starts, counts)
    return result


def combine(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Make one int64 key of several non-negative or -1 integer columns; equal where all are equal.

    Columns are packed side by side while they fit into 63 bits, else numbered densely first.
    """
    result = np.zeros(keys[0].size, np.int64)
    room = 1
    for column in keys:
        values = column.astype(np.int64)
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        if (high - low + 1) * room >= 1 << 62:
            unique, values = np.unique(values, return_inverse=True)
            low, high = 0, unique.size
        if (high - low + 1) * room >= 1 << 62:
            unique, result = np.unique(result, return_inverse=True)
            room = unique.size
        result = result * (high - low + 1) + (values - low)
        room *= high - low + 1
    return result


class Segments:
    """Elements sorted by group, for reductions per group.

    Parameters
    ----------
    group : (n,) int64
        Group of each element, 0 .. n_groups - 1.
    n_groups : int
        Number of groups; every one has at least one element.
    """

    def __init__(self, group: NDArray[np.int64], n_groups: int) -> None:
        self.group, self.n_groups = group, n_groups
        self.order = np.argsort(group, kind="stable")
        self.starts = np.searchsorted(group[self.order], np.arange(n_groups))

    def reduce(self, ufunc: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """Reduce the values of each group; (n_groups,)."""
        if not self.n_groups:
            return values[:0]
        result: NDArray[Any] = ufunc.reduceat(values[self.order], self.starts)
        return result

    def max(self, values: NDArray[Any]) -> NDArray[Any]:
        """Largest value of each group."""
        return self.reduce(np.maximum, values)

    def min(self, values: NDArray[Any]) -> NDArray[Any]:
        """Smallest value of each group."""
        return self.reduce(np.minimum, values)

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum of each group."""
        return self.reduce(np.add, values)

    def any(self, values: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether any value of each group is true."""
        return self.reduce(np.logical_or, values)


def lookup(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find each wanted key in `keys`; its position, or -1. O((n + m) log n); of equal keys the first."""
    if not keys.size:
        return np.full(wanted.size, -1, np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    at = np.searchsorted(ordered, wanted)
    at[at == keys.size] = 0
    return np.where(ordered[at] == wanted, order[at], -1)


def pair_nested(is_open: NDArray[np.bool_], is_close: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Pair brackets: for each opening element its closing one, -1 if it is never closed."""
    depth = np.cumsum(is_open) - np.cumsum(is_close) + is_close
    result = np.full(is_open.size, -1, np.int64)
    chosen = np.flatnonzero(is_open | is_close)
    order = chosen[np.argsort(depth[chosen], kind="stable")]
    before, after = order[:-1], order[1:]
    paired = (depth[before] == depth[after]) & is_open[before] & is_close[after]
    result[before[paired]] = after[paired]
    return result


def pair_with_previous(
    key: NDArray[np.int64], is_first: NDArray[np.bool_], is_second: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Pair each second with the first that directly precedes it among the elements of the same key.

    Identifiers are reused: a pair is two neighbours, so an identifier may serve any number of times.

    Parameters
    ----------
    key : (n,) int64
        What both share.
    is_first, is_second : (n,) bool
        Elements that are neither are passed over.

    Returns
    -------
    (n,) int64
        For each second its first, for each first its second, -1 elsewhere and for those without partner.
    """
    result = np.full(key.size, -1, np.int64)
    chosen = np.flatnonzero(is_first | is_second)
    order = chosen[np.argsort(key[chosen], kind="stable")]
    before, after = order[:-1], order[1:]
    paired = (key[before] == key[after]) & is_first[before] & is_second[after]
    result[after[paired]] = before[paired]
    result[before[paired]] = after[paired]
    return result


def join_occurrences(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Join the k-th element of each key on the left with the k-th on the right.

    Returns
    -------
    left_index, right_index : (n_pairs,) int64
        Ordered by the index on the right.
    """
    left_order, right_order = np.argsort(left, kind="stable"), np.argsort(right, kind="stable")
    ordered_left, ordered_right = left[left_order], right[right_order]
    starts = np.searchsorted(ordered_left, ordered_right)
    k = np.arange(right.size) - np.searchsorted(ordered_right, ordered_right)
    at = starts + k
    found = at < left.size
    found[found] = ordered_left[at[found]] == ordered_right[found]
    left_index, right_index = left_order[at[found]], right_order[found]
    order = np.argsort(right_index, kind="stable")
    return left_index[order], right_index[order]
