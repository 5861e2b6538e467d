"""Tables of columns: declared, computed on first access, in memory or in a scratch file.

A `ColumnSource` is one of four: `Columns` holds arrays, `CompoundTable` is a `Columns` with a declared schema,
`SpilledColumns` (`enhance.dataflow.spill`) reads its columns from a scratch file, and `PiecedColumns` concatenates the
rows of several sources. A `ColumnSlice` is a range of rows of any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import ranges
from tracecols.schema import Table
from tracecols.vectors import Ints
from tracecols.work.ahead import expect_near, some_of

if TYPE_CHECKING:
    import pandas as pd

Column = NDArray[Any] | Callable[[], NDArray[Any]]


class ColumnSource(ABC):
    """Columns of a table, in memory or elsewhere."""

    names: tuple[str, ...]

    @abstractmethod
    def __len__(self) -> int: ...

    def column(self, name: str) -> NDArray[Any]:
        """Return a whole column; (n,)."""
        return self.rows(name, 0, len(self))

    @abstractmethod
    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Return the rows of a column with start <= row < stop."""

    @abstractmethod
    def several_at(
        self, names: Sequence[str], index: NDArray[np.signedinteger[Any]], null: int = -1
    ) -> list[NDArray[Any]]:
        """Return some columns at the rows `index`, and `null` for negative rows; (n_index,) each."""

    @abstractmethod
    def fill(self, arrays: Mapping[str, NDArray[Any]], begin: Ints, end: Ints) -> None:
        """Fill `arrays`, keyed by column name, with the rows of some ranges, ascending, one range after the other."""

    @abstractmethod
    def search(self, name: str, values: Sequence[int]) -> Ints:
        """Find insertion positions of values in an ascending column; (n_values,) int64."""


class Columns(ColumnSource):
    """Columns of `n` rows by name, as attributes and items. A column given as a function is computed once, on first
    access."""

    def __init__(self, n: int, columns: Mapping[str, Column]) -> None:
        self._n, self._columns = n, dict(columns)
        self._lock = RLock()
        self.names = tuple(self._columns)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        if callable(column):
            with self._lock:
                column = self._columns[name]
                if callable(column):
                    column = self._columns[name] = column()
        return column

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name not in self._columns:
            raise AttributeError(f"{self} has no column {name!r}")
        return self[name]

    def __str__(self) -> str:
        return f"{type(self).__name__} of {', '.join(self._columns)}"

    def __repr__(self) -> str:
        return f"<{self}: {len(self):,} rows>"

    def __getstate__(self) -> dict[str, Any]:
        state = {**vars(self), "_columns": {name: self[name] for name in self._columns}}
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=RLock())

    def column(self, name: str) -> NDArray[Any]:
        return self[name]

    def pop(self, name: str) -> NDArray[Any]:
        """Return a whole column, and remove it from the table."""
        found = self[name]
        self._columns = {n: column for n, column in self._columns.items() if n != name}
        return found

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        return self[name][start:stop]

    def several_at(
        self, names: Sequence[str], index: NDArray[np.signedinteger[Any]], null: int = -1
    ) -> list[NDArray[Any]]:
        return [pick(self[name], index, null) for name in names]

    def fill(self, arrays: Mapping[str, NDArray[Any]], begin: Ints, end: Ints) -> None:
        for name, values in arrays.items():
            values[:] = self[name].take(ranges(begin, end - begin))

    def search(self, name: str, values: Sequence[int]) -> Ints:
        return np.searchsorted(self[name], values)

    def computed(self) -> Columns:
        """Return the same columns, all of them as arrays."""
        return Columns(self._n, {name: self[name] for name in self._columns})

    def copy(self) -> Columns:
        return Columns(self._n, {name: self[name].copy() for name in self._columns})

    def at(self, name: str, index: NDArray[np.signedinteger[Any]]) -> NDArray[Any]:
        """Return a column at the rows `index`; values at negative rows are undefined; (n_index,)."""
        return pick(self[name], index)

    def take(self, index: Ints) -> Columns:
        """Return the rows `index`, in that order; (n_index,)."""
        return Columns(index.size, {name: self[name].take(index) for name in self._columns})


@dataclass(frozen=True, slots=True)
class ColumnSlice:
    """Rows `start` .. `stop` - 1 of columns, for instance those of one of several locations."""

    source: ColumnSource
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def names(self) -> tuple[str, ...]:
        return self.source.names

    def column(self, name: str) -> NDArray[Any]:
        """Return a whole column; (n,)."""
        return self.source.rows(name, self.start, self.stop)


def merged(slices: Iterable[ColumnSlice]) -> list[ColumnSlice]:
    """Merge slices that are adjacent in their source, and drop those without rows.

    Rows of few sources are then read with few calls, however many slices there are.
    """
    found: list[ColumnSlice] = []
    source, start, stop = None, 0, 0
    for rows in slices:
        if rows.start == rows.stop:
            continue
        if rows.source is not source or rows.start != stop:
            if source is not None:
                found.append(ColumnSlice(source, start, stop))
            source, start = rows.source, rows.start
        stop = rows.stop
    return found if source is None else [*found, ColumnSlice(source, start, stop)]


def joined_column(slices: Sequence[ColumnSlice], name: str, dtype: type) -> NDArray[Any]:
    """Return a column of several slices (`merged`), concatenated; empty, with `dtype`, if there are none."""
    return joined([rows.column(name) for rows in slices]) if slices else np.zeros(0, dtype)


def joined_columns(sources: Sequence[ColumnSource]) -> Columns:
    """Return the rows of one or more tables with the same columns, one table after the other; each column is read on
    first access."""

    def column(name: str) -> NDArray[Any]:
        return joined([source.column(name) for source in sources])

    return Columns(sum(map(len, sources)), {name: partial(column, name) for name in sources[0].names})


class PiecedColumns(ColumnSource):
    """The rows of one or more sources with the same columns, one source after the other, without copying them."""

    def __init__(self, pieces: Sequence[ColumnSource]) -> None:
        self._pieces = tuple(pieces)
        self._start = [0, *accumulate(map(len, pieces))]
        self.names = pieces[0].names

    def __len__(self) -> int:
        return self._start[-1]

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        first = min(bisect_right(self._start, start), len(self._pieces)) - 1
        last = max(bisect_left(self._start, stop), first + 1)
        return joined(
            [
                piece.rows(name, max(start - before, 0), min(stop - before, len(piece)))
                for piece, before in zip(self._pieces[first:last], self._start[first:last], strict=True)
            ]
        )

    def several_at(
        self, names: Sequence[str], index: NDArray[np.signedinteger[Any]], null: int = -1
    ) -> list[NDArray[Any]]:
        found = [np.full(index.size, null, self._pieces[0].rows(name, 0, 0).dtype) for name in names]
        n = len(self._pieces)
        # narrow integers are sorted by radix sort
        piece = (np.searchsorted(self._start, index, "right") - 1).astype(np.min_scalar_type(-n - 1))
        order = np.argsort(piece, kind="stable")
        bounds = np.searchsorted(piece[order], np.arange(n + 1, dtype=piece.dtype))
        for k in np.flatnonzero(np.diff(bounds)).tolist():
            here = order[bounds[k] : bounds[k + 1]]
            some = self._pieces[k].several_at(names, index[here] - self._start[k], null)
            for values, of_piece in zip(found, some, strict=True):
                values[here] = of_piece
        return found

    def fill(self, arrays: Mapping[str, NDArray[Any]], begin: Ints, end: Ints) -> None:
        done = 0
        for piece, (start, stop) in zip(self._pieces, pairwise(self._start), strict=True):
            here = slice(np.searchsorted(end, start, "right"), np.searchsorted(begin, stop))
            first, last = np.maximum(begin[here], start) - start, np.minimum(end[here], stop) - start
            n = int((last - first).sum())
            if n:
                piece.fill({name: values[done : done + n] for name, values in arrays.items()}, first, last)
            done += n

    def piece_with(self, start: int, stop: int) -> tuple[ColumnSource, int]:
        """Return the source in memory that has all rows with start <= row < stop, and the number of rows before it; all
        sources and 0 if there is none."""
        k = min(bisect_right(self._start, start), len(self._pieces)) - 1
        if stop <= self._start[k + 1] and isinstance(self._pieces[k], Columns):
            return self._pieces[k], self._start[k]
        return self, 0

    def search(self, name: str, values: Sequence[int]) -> Ints:
        return np.sum([piece.search(name, values) for piece in self._pieces], axis=0)


def pieced(pieces: Sequence[ColumnSource]) -> ColumnSource:
    """Return the rows of one or more sources with the same columns, one source after the other."""
    return pieces[0] if len(pieces) == 1 else PiecedColumns(pieces)


class CompoundTable(Columns):
    """A declared table; it may have further columns that later steps read.

    `counts` has, by description, the number of recorded items that could not be matched or are inconsistent.
    """

    def __init__(
        self, table: Table, n: int, columns: Mapping[str, Column], counts: Mapping[str, int] | None = None
    ) -> None:
        missing = set(table.names) - set(columns)
        if missing:
            raise TypeError(f"table {table.name} lacks the columns {sorted(missing)}")
        super().__init__(n, columns)
        self.table = table
        self.counts = dict(counts or {})

    @classmethod
    def empty(cls, table: Table) -> CompoundTable:
        """Return a table without rows."""
        return cls(table, 0, {c.name: np.zeros(0, object if c.dtype == "string" else c.dtype) for c in table.columns})

    def __str__(self) -> str:
        return f"table {self.table.name}"

    @classmethod
    def together(cls, table: Table, parts: Iterable[Mapping[str, NDArray[Any]]]) -> CompoundTable:
        """Return a table with the rows of some parts, which have its columns, one part after the other."""
        found = list(parts)
        columns = {c.name: joined([of[c.name] for of in found] or [np.zeros(0, c.dtype)]) for c in table.columns}
        columns = {c.name: columns[c.name].astype(c.dtype, copy=False) for c in table.columns}
        return cls(table, columns[table.names[0]].size, columns)

    def read_only(self) -> CompoundTable:
        """Return the same table with read-only columns, which are computed on first access."""

        def column(name: str) -> NDArray[Any]:
            return read_only(self[name])

        return CompoundTable(self.table, len(self), {c: partial(column, c) for c in self._columns}, self.counts)

    def frame(self) -> pd.DataFrame:
        """Return the declared columns as a data frame."""
        import pandas as pd

        columns: dict[str, Any] = {c.name: self.declared(c.name) for c in self.table.columns}
        if not len(self):
            # pandas infers the type of strings from their values
            columns |= {c.name: pd.Series([], dtype="str") for c in self.table.columns if c.dtype == "string"}
        return pd.DataFrame(columns, copy=False)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the declared columns through the Arrow PyCapsule interface; numbers are not copied."""
        import pyarrow as pa

        from tracecols.store.arrow import arrow_schema, as_batch

        batch = as_batch(arrow_schema(self.table), self.declared)
        return pa.Table.from_batches([batch]).__arrow_c_stream__(requested_schema)

    def declared(self, name: str) -> NDArray[Any]:
        """Return a column with its declared type; strings are objects."""
        dtype = self.table[name].dtype
        return self[name] if dtype == "string" else self[name].astype(dtype, copy=False)


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = values.view()
    view.flags.writeable = False
    return view


def pick(values: NDArray[Any], index: NDArray[np.signedinteger[Any]], null: int = -1) -> NDArray[Any]:
    """Return `values[index]`, and `null` where the index is negative."""
    if not values.size:
        return np.full(index.size, null, values.dtype)
    expect_near(values, some_of(index))
    # for many indices `take` needs two thirds of the time of values[index], and half if the indices are not int64; but
    # it copies all values if they are not contiguous, for instance if one value is broadcast to all rows
    taken = values.take(index, 0) if values.flags.c_contiguous else values[index]
    if index.size and index.min() < 0:
        taken[index < 0] = null
    return taken


def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate one or more arrays; a single one is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
