"""Rows of columns that partitions have kept: of files only the rows near those needed are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, PiecedColumns
from tracecols.kernels import near as kernels
from tracecols.schema import Table
from tracecols.vectors import Ints
from tracecols.work.large import LargeArrays

BITS = 6
"""Rows of a file are read in groups of 2 ** BITS neighbours; finding the groups needed takes a pass over all groups."""


def near_rows(
    source: ColumnSource, first: Ints, stop: Ints, names: Sequence[str], large: LargeArrays
) -> tuple[Ints, list[NDArray[Any]]]:
    """Read columns of some ranges of rows, first <= row < stop, one range after the other, and find where each range
    begins there; anything for ranges without rows. Ranges may overlap, and those that begin at -1 are left out.

    Sources in memory are used as a whole; of several pieces, only one in memory that has all of the rows, if there is
    one. `large` makes the arrays of the rows that are read.
    """
    start = 0
    if isinstance(source, PiecedColumns):
        source, start = source.piece_with(*kernels.find_extent(first, stop))
    if isinstance(source, Columns):
        return np.maximum(first - start, 0) if start else first, [source.column(name) for name in names]
    change = np.zeros((len(source) >> BITS) + 2, np.int32)
    near = np.empty((3, change.size // 2 + 1), np.int64)
    begin, end, before = near[:, : kernels.list_near(first, stop, BITS, len(source), change, near)]
    place, n = np.empty(first.size, np.int64), int((end - begin).sum())
    kernels.find_places(first, begin, before, place)
    found = {name: large.empty(n, source.rows(name, 0, 0).dtype) for name in names}
    source.fill(found, begin, end)
    return place, list(found.values())


def some_rows(source: ColumnSource, name: str, start: int, stop: int, large: LargeArrays) -> NDArray[Any]:
    """Return the rows of a column with start <= row < stop: uncopied if they are in memory, else in an array that
    `large` makes, block by block."""
    if isinstance(source, PiecedColumns):
        source, before = source.piece_with(start, stop)
        start, stop = start - before, stop - before
    if isinstance(source, Columns):
        return source.rows(name, start, stop)
    rows, dtype = source.rows, source.rows(name, 0, 0).dtype
    return large.computed(stop - start, dtype, lambda here: rows(name, start + here.start, start + here.stop))


class KeptTable(CompoundTable):
    """A declared table, some of whose columns are kept for long: of these only the rows near those needed are read.

    Parameters
    ----------
    held : mapping
        Columns in memory, or in arrays of the whole trace.
    kept : mapping
        Sources of the other columns.
    """

    def __init__(
        self, table: Table, n: int, held: Mapping[str, NDArray[Any]], kept: Mapping[str, ColumnSource]
    ) -> None:
        super().__init__(table, n, {**held, **{name: partial(of.column, name) for name, of in kept.items()}})
        self._kept = dict(kept)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        del state["_lock"]
        return state

    def at(self, name: str, index: NDArray[np.signedinteger[Any]]) -> NDArray[Any]:
        """Return a column at some rows, anything at negative ones; (n_index,)."""
        return self.several_at((name,), index)[0] if name in self._kept else super().at(name, index)

    def several_at(
        self, names: Sequence[str], index: NDArray[np.signedinteger[Any]], null: int = -1
    ) -> list[NDArray[Any]]:
        """Return columns that are kept together at some rows, and `null` at negative ones; (n_index,) each."""
        return self._kept[names[0]].several_at(names, index, null)

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Return the rows of a column with start <= row < stop."""
        stop = min(stop, len(self))
        return self._kept[name].rows(name, start, stop) if name in self._kept else super().rows(name, start, stop)
