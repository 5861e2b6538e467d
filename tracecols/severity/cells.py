"""Sparse values per (call path, location)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.grouping import Segments, combine, number
from tracecols.kernels import groups, trees
from tracecols.once import Recent
from tracecols.severity.axes import CallAxis
from tracecols.severity.reduction import LARGEST, filled, narrowed, reduce_at, reduce_upwards, widened

MOST_KEPT = 1 << 24
"""Maximum number of cells that `Made` keeps."""

C = TypeVar("C", bound=Sized)


class Made(Mapping[str, C]):
    """Cells by property, made on access: those of many locations or periods take much memory and time, so only those
    that are used are made, and only the most recently used ones are kept."""

    def __init__(self, names: Iterable[str], make: Callable[[str], C]) -> None:
        self._names, self._make = dict.fromkeys(names), make
        self._kept = Recent[str, C](MOST_KEPT, len)

    def __getitem__(self, name: str) -> C:
        if name not in self._names:
            raise KeyError(name)
        return self._kept.get(name, lambda: self._make(name))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        # without what is kept, which is made again
        return Made, (list(self._names), self._make)


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

    def __repr__(self) -> str:
        return f"<Cells: {len(self):,} values by call path and location>"

    @classmethod
    def empty(cls) -> Cells:
        """No cells."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def reduce(cls, call_path: NDArray[Any], location: NDArray[Any], value: NDArray[Any], how: str = "sum") -> Cells:
        """Reduce values per cell to their `sum`, `min` or `max` (`reduce_at`); an extreme may be zero."""
        key = (call_path.astype(np.int64) << 32) | location.astype(np.int64)
        is_ascending = bool((key[1:] >= key[:-1]).all())
        if is_ascending and how == "sum" and value.dtype == np.int64 and widened(value).dtype == np.int64:
            return cls(*groups.sum_ascending(key, value))
        if is_ascending:
            # values of the same cell are adjacent
            is_first = starts_run(key)
            group, first = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
        else:
            group, first = number(combine(call_path, location))
        key = key[first]
        if value.dtype == np.uint64 and value.size and int(value.max()) > LARGEST:
            value = value.astype(object)
        else:
            # sums of integers are integers, everything else is float64
            is_integer = how == "sum" and value.dtype.kind in "iub"
            value = value.astype(np.int64 if is_integer else np.float64, copy=False)
        if first.size < group.size or value.dtype == object:
            value = widened(value) if how == "sum" else value
            if how == "sum" and value.dtype == np.int64:
                # 18 ms for 5 million values of 128,000 cells instead of 30 with numpy.add.at; no cell exceeds 64 bits
                value = Segments(group, key.size).sum(value)
            else:
                value = narrowed(reduce_at(group, value, key.size, how))
        return cls._sorted(key, value, how)

    @classmethod
    def sum(cls, call_path: NDArray[Any], location: NDArray[Any], value: NDArray[Any]) -> Cells:
        """Add up values per cell; the order of the input does not matter for integers."""
        return cls.reduce(call_path, location, value)

    @classmethod
    def _sorted(cls, key: NDArray[np.int64], value: NDArray[Any], how: str) -> Cells:
        """Sort distinct cells; sums that are zero are left out."""
        kept = value != 0
        if how == "sum" and not kept.all():
            key, value = key[kept], value[kept]
        if (key[1:] < key[:-1]).any():
            order = np.argsort(key, kind="stable")
            key, value = key[order], value[order]
        return cls(key, value)

    def _with(self, others: Sequence[Cells], sign: int = 1, how: str = "sum") -> Cells:
        """Reduce these cells together with others; each is sorted, so a stable sort merges them."""
        others = [other for other in others if len(other)]
        if not others:
            return self
        key = np.concatenate([self.key, *(other.key for other in others)])
        order = np.argsort(key, kind="stable")
        key = key[order]
        value = np.concatenate([self.value, *(other.value if sign > 0 else -other.value for other in others)])[order]
        is_first = starts_run(key)
        if not is_first.all():
            group, key = np.cumsum(is_first) - 1, key[is_first]
            value = narrowed(reduce_at(group, value, key.size, how))
        return self._sorted(key, value, how)

    def without(self, others: Sequence[Cells]) -> Cells:
        """Subtract the cells of others, all at once, so that rounding residue is judged by the sizes of all of them."""
        return self._with(others, -1)

    def joined(self, other: Cells, how: str = "sum") -> Cells:
        """Reduce the cells of two together."""
        return self._with([other], how=how)

    @classmethod
    def together(cls, parts: Sequence[Cells]) -> Cells:
        """Add up the cells of several: one after the other unless all are integers, as rounding depends on order."""
        if all(part.value.dtype == np.int64 for part in parts):
            return parts[0]._with(parts[1:])
        return functools.reduce(Cells.joined, parts)

    def total(self, how: str = "sum") -> Any:
        """Return the reduction of all values, 0 if there are none; sums of integers are exact (int), all else float."""
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
        return self.where(call_paths[self.key >> 32]) if len(self) else self

    def moved(self, to: NDArray[np.int64]) -> Cells:
        """Add up the cells on other call paths: `to` is the one of each."""
        # no kernel call if there is nothing to add up
        return Cells.sum(to[self.call_path], self.location, self.value) if len(self) else self

    def at(self, key: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of given cells, 0 where there is none."""
        if not self.key.size:
            return np.zeros(key.size, self.value.dtype)
        position = np.searchsorted(self.key, key)
        position[position == self.key.size] = 0
        return np.where(self.key[position] == key, self.value[position], 0)


def keys_above(call_path: NDArray[Any], location: NDArray[Any], parent: NDArray[np.int32]) -> NDArray[np.int64]:
    """Find the cells that have a value in or below them.

    O(n log n) in the number of cells that are found, however deep the call tree is.

    Returns ``call_path << 32 | location``, ascending, each once.
    """
    order = np.argsort(location, kind="stable")
    given = call_path[order].astype(np.int32), location[order].astype(np.int32), parent
    nowhere = np.full(parent.size, -1, np.int32)
    key = np.empty(trees.cells_above(*given, nowhere.copy(), np.empty(0, np.int64)), np.int64)
    trees.cells_above(*given, nowhere, key)
    key.sort()
    return key


def inclusive(cells: Cells, call_paths: CallAxis, how: str = "sum") -> Cells:
    """Reduce the cells of every call path with those of all call paths below it, to their `sum`, `min` or `max`."""
    if not len(cells):
        return cells
    key = keys_above(cells.call_path, cells.location, call_paths.parent)
    call_path = key >> 32
    parent = call_paths.parent[call_path].astype(np.int64)
    above = np.where(parent >= 0, np.searchsorted(key, (parent << 32) | (key & 0xFFFFFFFF)), -1)
    own = reduce_at(np.searchsorted(key, cells.key), cells.value, key.size, how)
    value = narrowed(reduce_upwards(own, above, call_paths.depth[call_path], how))
    return Cells._sorted(key, value, how)
