"""Group-wise operations: occurrence within a group, dense keys, segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels import groups
from tracecols.vectors import Ints, Mask


def mask_of(kinds: Iterable[int]) -> Mask:
    """Return a mask of some event kinds, indexed by kind; (256,) bool."""
    mask = np.zeros(256, bool)
    mask[list(kinds)] = True
    return mask


def combine(*keys: NDArray[Any]) -> Ints:
    """Combine integer columns into one int64 key; keys are equal if all columns are equal.

    Columns are packed as long as they fit into 62 bits; otherwise their values are numbered first.
    """
    result = np.zeros(keys[0].size, np.int64)
    if not result.size:
        return result
    room = 1
    for column in keys:
        low, high = int(column.min()), int(column.max())
        if low == high:
            continue
        values = column.astype(np.int64)
        if (high - low + 1) * room >= 1 << 62:
            values, first = groups.number_groups(values)
            low, high = 0, first.size
        if (high - low + 1) * room >= 1 << 62:
            result, first = groups.number_groups(result)
            room = first.size
        # `values` is a copy, and can be modified in place
        values -= low
        if room > 1:
            result *= high - low + 1
            result += values
        else:
            result = values
        room *= high - low + 1
    return result


def number(key: Ints) -> tuple[Ints, Ints]:
    """Number distinct keys in order of first appearance; return each element's number and each key's first element."""
    return groups.number_groups(key)


def number_ascending(key: Ints) -> tuple[Ints, Ints]:
    """Return the distinct keys in ascending order, and the position of each element's key; sorts distinct keys only."""
    group, first = groups.number_groups(key)
    order = np.argsort(key[first], kind="stable")
    return key[first[order]], positions(order)[group]


def number_chronologically(key: Ints, time: Ints) -> tuple[Ints, Ints]:
    """Number groups by the earliest time of their elements, then by their first element; return the number of each
    element and the first element of each group."""
    of, first = Segments.of(key)
    order = np.argsort(of.min(time), kind="stable")
    return positions(order)[of.group], first[order]


def positions(order: Ints) -> Ints:
    """Return the inverse of a permutation such as `numpy.argsort` returns: the position of each element."""
    found = np.empty(order.size, np.int64)
    found[order] = np.arange(order.size)
    return found


def preceding(key: Ints, order: Ints) -> Ints:
    """Return the element right before each one in an order, if it has the same key; -1 for none."""
    found = np.full(key.size, -1, np.int64)
    follows = key[order[1:]] == key[order[:-1]]
    found[order[1:][follows]] = order[:-1][follows]
    return found


def ranges(first: NDArray[np.signedinteger[Any]] | int, size: NDArray[np.signedinteger[Any]]) -> Ints:
    """Return the integers of some ranges, one range after the other, given the first integer and the size of each. With
    0 for all, these are positions within groups of such sizes."""
    end = np.cumsum(size)
    return np.arange(int(end[-1]) if end.size else 0) + np.repeat(first - (end - size), size)


def bounded(sizes: Ints, most: int) -> list[slice]:
    """Divide elements into runs of neighbours of total size `most` at most; a larger element is a separate run."""
    found, start, filled = [], 0, 0
    for i, size in enumerate(sizes.tolist()):
        if i > start and filled + size > most:
            found.append(slice(start, i))
            start, filled = i, 0
        filled += size
    return [*found, slice(start, sizes.size)] if sizes.size else found


def occurrence(key: Ints, order: Ints | None = None) -> Ints:
    """Number the elements of each group in order: 0 for the first with its key, 1 for the second, ...; in the order of
    a permutation if one is given."""
    if order is not None:
        return occurrence(key[order])[positions(order)]
    group, first = groups.number_groups(key)
    return groups.count_in_groups(group, first.size)


class Segments:
    """Reductions per group, 0 .. n_groups - 1, to (n_groups,); results for groups without elements are undefined."""

    def __init__(self, group: Ints, n_groups: int) -> None:
        self.group, self.n_groups = group, n_groups

    @classmethod
    def of(cls, key: Ints) -> tuple[Segments, Ints]:
        """Return the groups of equal keys, in order of first appearance, and the first element of each."""
        group, first = groups.number_groups(key)
        return cls(group, first.size), first

    def _reduce(self, values: NDArray[Any], how: int, start: int) -> NDArray[Any]:
        result = np.full(self.n_groups, start, np.int64)
        groups.reduce_groups(self.group, values.astype(np.int64, copy=False), result, how)
        return result.astype(values.dtype, copy=False)

    def max(self, values: NDArray[Any]) -> NDArray[Any]:
        return self._reduce(values, groups.MAX, np.iinfo(np.int64).min)

    def min(self, values: NDArray[Any]) -> NDArray[Any]:
        return self._reduce(values, groups.MIN, np.iinfo(np.int64).max)

    def sum(self, values: NDArray[Any]) -> Ints:
        """Return the sum of each group, in int64."""
        return self._reduce(values.astype(np.int64, copy=False), groups.SUM, 0)

    def any(self, values: Mask) -> Mask:
        return self.sum(values) > 0

    def first(self) -> Ints:
        return self.min(np.arange(self.group.size))

    def count(self) -> Ints:
        return np.bincount(self.group, minlength=self.n_groups)

    def median(self, values: Ints) -> Ints:
        """Return the median of each group, of two middle values the smaller one; 0 for groups without elements."""
        n, result = self.count(), np.zeros(self.n_groups, np.int64)
        middle = (np.cumsum(n) - n + (n - 1) // 2)[n > 0]
        result[n > 0] = values[np.lexsort((values, self.group))][middle]
        return result


SPARSE = 8
"""If there are more ascending keys per wanted key than this, the wanted keys are searched one by one, without a pass
over all keys."""

WIDEST = 1 << 62
"""Ascending keys are searched in blocks of numbers if their range is less than this."""


def lookup(keys: Ints, wanted: Ints) -> Ints:
    """Find each wanted key in `keys`; the position of the first equal key, or -1."""
    if keys.size and (keys[1:] >= keys[:-1]).all():
        if SPARSE * wanted.size >= keys.size and int(keys[-1]) - int(keys[0]) < WIDEST:
            return groups.find_ascending(keys, wanted)
        return find_sorted(keys, wanted)
    group, first = groups.number_groups(np.concatenate([keys, wanted]))
    at = first[group[keys.size :]]
    return np.where(at < keys.size, at, -1)


def find_sorted(keys: Ints, wanted: Ints) -> Ints:
    """Find each wanted key in ascending keys, without a pass over all of them; the position of the first equal key, or
    -1."""
    if not keys.size:
        return np.full(wanted.size, -1)
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[at] == wanted, at, -1)


def pair_nested(is_open: Mask, is_close: Mask, of: Ints | None = None) -> Ints:
    """Pair brackets: return for each opening element its closing element, -1 if it is never closed.

    `of` is the sequence of each element, ascending, by default one for all; brackets are paired within a sequence.
    """
    depth = np.cumsum(is_open, dtype=np.int64) - np.cumsum(is_close, dtype=np.int64) + is_close
    role = is_open.astype(np.int8)
    role[is_close] = 2
    group, first = groups.number_groups(depth if of is None else combine(of, depth))
    partner: Ints = groups.pair_neighbours(group, role, first.size)
    partner[~is_open] = -1
    return partner


def pair_with_previous(key: Ints, is_first: Mask, is_second: Mask, part: Ints | None = None) -> Ints:
    """Pair each second element with the first element that directly precedes it among those of the same key; -1 for
    elements without a partner, and for elements that are neither, which are skipped.

    Since a pair is two neighbours, an identifier may be reused any number of times. If `part` divides the elements of a
    key, first elements of the same part that have no partner come before others.
    """
    role = is_first.astype(np.int8)
    role[is_second] = 2
    group, first = groups.number_groups(key)
    return groups.pair_neighbours(group, role, first.size, None if part is None else number(part)[0])


def pair_within_processes(
    process: NDArray[np.signedinteger[Any]],
    location: NDArray[np.signedinteger[Any]],
    identifier: Ints,
    is_first: Mask,
    is_second: Mask,
) -> Ints:
    """Pair the events that begin and end something in processes, as `pair_with_previous` does; events are by process in
    order of time.

    Any thread may end what another one has begun. If several threads have begun something with the same identifier,
    each ends its own: some recorders number requests for each thread, or give all calls of a function one number.
    """
    key = combine(process, identifier)
    has_threads = bool(((process[1:] == process[:-1]) & (location[1:] != location[:-1])).any())
    return pair_with_previous(key, is_first, is_second, combine(key, location) if has_threads else None)


def pairs_of(partner: Ints, is_first: Mask) -> tuple[Ints, Ints]:
    """Return the first and the second elements of pairs, in the order of the first ones, given the partner of each."""
    first = np.flatnonzero(is_first & (partner >= 0))
    return first, partner[first]


def join_occurrences(left: Ints, right: Ints) -> Ints:
    """Find for the k-th element of each key on the right the k-th element with that key on the left; -1 if none."""
    group, first = groups.number_groups(np.concatenate([left, right]))
    return groups.join_in_order(group[: left.size], group[left.size :], first.size)


def latest_before(
    key: NDArray[np.signedinteger[Any]], time: Ints, wanted_key: NDArray[np.signedinteger[Any]], wanted_time: Ints
) -> Ints:
    """Find the last element of each wanted key with time <= the wanted time; its position, -1 if there is none.

    Among elements with the same time, the last one is found.
    """
    key, time, *wanted = (np.ascontiguousarray(a, np.int64) for a in (key, time, wanted_key, wanted_time))
    found = np.empty(wanted_key.size, np.int64)
    if groups.are_in_order(key, time):
        groups.find_latest(key, time, *wanted, found)
        return found
    order = np.lexsort((time, key))
    groups.find_latest(key[order], time[order], *wanted, found)
    known = found >= 0
    found[known] = order[found[known]]
    return found


def latest(values: Ints, group: Ints) -> Ints:
    """Return the last non-negative value up to each element in its group, -1 if none; groups are contiguous."""
    if not values.size:
        return values
    at = np.maximum.accumulate(np.where(values >= 0, np.arange(values.size), -1))
    same = (at >= 0) & (group[at] == group)
    return np.where(same, values[at], -1)
