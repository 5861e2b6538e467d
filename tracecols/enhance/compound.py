"""A compound table: declared columns, each computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.schema import Table

if TYPE_CHECKING:
    import pandas as pd

Column = NDArray[Any] | Callable[[], NDArray[Any]]


class CompoundTable:
    """Columns by name, as attributes and items.

    Parameters
    ----------
    table : Table
        Its declaration.
    n : int
        Number of rows.
    columns : mapping
        For every declared column an array, or a function that makes it.
    counts : mapping, optional
        What could not be matched, by words.
    """

    def __init__(
        self, table: Table, n: int, columns: Mapping[str, Column], counts: Mapping[str, int] | None = None
    ) -> None:
        missing = set(table.names) - set(columns)
        if missing:
            raise TypeError(f"table {table.name} lacks the columns {sorted(missing)}")
        self.table, self._n, self._columns = table, n, dict(columns)
        self.counts = dict(counts or {})

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
            raise AttributeError(
                f"table {self.__dict__['table'].name if 'table' in self.__dict__ else ''} has no column {name!r}"
            )
        return self[name]

    def frame(self) -> pd.DataFrame:
        """Return the declared columns as a data frame."""
        import pandas as pd

        return pd.DataFrame({c.name: self[c.name] for c in self.table.columns}, copy=False)


def pick(values: NDArray[Any], index: NDArray[np.int64], null: int = -1) -> NDArray[Any]:
    """Take `values[index]`, and `null` where the index is negative."""
    if not values.size:
        return np.full(index.size, null, values.dtype)
    taken = values[index]
    if (index < 0).any():
        taken = np.where(index < 0, np.array(null, values.dtype), taken)
    return taken
