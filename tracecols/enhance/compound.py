"""A compound table: declared columns, each computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.schema import Table

if TYPE_CHECKING:
    import pandas as pd

Column = NDArray[Any] | Callable[[], NDArray[Any]]


class Columns:
    """Columns by name, as attributes and items; one that is a function is computed once, when it is asked for.

    Parameters
    ----------
    n : int
        Number of rows.
    columns : mapping
        Arrays, or functions that make them.
    """

    def __init__(self, n: int, columns: Mapping[str, Column]) -> None:
        self._n, self._columns = n, dict(columns)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        if callable(column):
            column = column()
            self._columns[name] = column
        return column

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name not in self._columns:
            raise AttributeError(f"{self} has no column {name!r}")
        return self[name]


class CompoundTable(Columns):
    """A declared table.

    Parameters
    ----------
    table : Table
        Its declaration.
    n : int
        Number of rows.
    columns : mapping
        For every declared column an array, or a function that makes it; others that steps behind need may stand beside.
    counts : mapping, optional
        What could not be matched, by words.
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

    def __str__(self) -> str:
        return f"table {self.table.name}"

    def read_only(self) -> CompoundTable:
        """Return the same table; its columns, made when they are first asked for, cannot be written to."""

        def column(name: str) -> NDArray[Any]:
            return read_only(self[name])

        return CompoundTable(self.table, len(self), {c: partial(column, c) for c in self._columns}, self.counts)

    def frame(self) -> pd.DataFrame:
        """Return the declared columns as a data frame."""
        import pandas as pd

        return pd.DataFrame({c.name: self[c.name] for c in self.table.columns}, copy=False)


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = values.view()
    view.flags.writeable = False
    return view


def pick(values: NDArray[Any], index: NDArray[np.signedinteger[Any]], null: int = -1) -> NDArray[Any]:
    """Take `values[index]`, and `null` where the index is negative."""
    if not values.size:
        return np.full(index.size, null, values.dtype)
    taken = values[index]
    if index.size and index.min() < 0:
        taken[index < 0] = null
    return taken
