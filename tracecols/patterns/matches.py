"""Results of patterns: rows of compound tables that show a behaviour, their further events, and their causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable, pick, read_only
from tracecols.severity.cells import Cells


@dataclass
class Matches:
    """Rows of a compound table that show a behaviour, and what each costs.

    Attributes
    ----------
    row : (n,) int64
        Rows of the table.
    severity : (n,) int64
        Ticks, occurrences or bytes.
    call_path, location : (n,) int32
        Where it is charged.
    """

    row: NDArray[np.int64]
    severity: NDArray[np.int64]
    call_path: NDArray[np.int32]
    location: NDArray[np.int32]

    def __len__(self) -> int:
        return self.row.size

    def where(self, mask: NDArray[np.bool_], **changed: NDArray[Any]) -> Matches:
        """Keep the matches a mask selects; `severity`, `call_path`, `location` may be replaced, for all matches before
        masking.

        Parameters
        ----------
        mask : (n,) bool
            Matches to keep.
        **changed : (n,) array
            New values of `severity`, `call_path` or `location`, of all matches before masking.
        """
        kept = np.flatnonzero(mask)
        if kept.size == len(self) and not changed:
            return self
        columns = (changed.get(name, getattr(self, name)) for name in ("severity", "call_path", "location"))
        return Matches(self.row.take(kept), *(column.take(kept) for column in columns))

    def counted(self, mask: NDArray[np.bool_]) -> Matches:
        """Keep the matches a mask selects; each counts as one occurrence.

        Parameters
        ----------
        mask : (n,) bool
            Matches to keep.
        """
        return self.where(mask, severity=np.ones(len(self), np.int64))

    def read_only(self) -> Matches:
        """Return the same matches in arrays that cannot be written to."""
        return Matches(*(read_only(column) for column in (self.row, self.severity, self.call_path, self.location)))

    def cells(self) -> Cells:
        """Add up the severities per call path and location."""
        found = np.flatnonzero((self.call_path >= 0) & (self.severity != 0))
        return Cells.sum(self.call_path.take(found), self.location.take(found), self.severity.take(found))


class Constituent(NamedTuple):
    """Further events of a compound event (thesis 3.7): rows of another table that a pointer of the root refers to.

    Attributes
    ----------
    pointer : str
        Column of the root table that holds rows of events, `recv_enter` for instance.
    table : str
        Table the rows are looked up in. It has to be complete where the root is (`model.tables.STEPS`).
    column : str
        Column of that table that holds the same rows, `enter` for instance.
    """

    pointer: str
    table: str
    column: str


class Cause(NamedTuple):
    """The cause of a match, as columns of its table.

    Attributes
    ----------
    location, call_path, time : str
        Columns with the location, call path and time of the causing event.
    awaited : callable, optional
        Function of the table that returns, for each row, the row that it waits for, which has these columns; -1 for
        none. By default they are columns of the row itself.
    """

    location: str
    call_path: str
    time: str
    awaited: Callable[[CompoundTable], NDArray[np.int64]] | None = None

    def of(self, table: CompoundTable, row: NDArray[np.int64]) -> Causes:
        """Return the causes of some rows of a table.

        Parameters
        ----------
        table : CompoundTable
            The table of the matches.
        row : (n,) int64
            Rows of the matches.
        """
        at = row if self.awaited is None else self.awaited(table)[row]
        return Causes(*(pick(table[name], at) for name in (self.location, self.call_path, self.time)))


class Causes(NamedTuple):
    """The causes of matches.

    Attributes
    ----------
    location, call_path : (n,) int32
        Where the causing event is; -1 not known.
    time : (n,) int64
        When it happens, in ticks.
    """

    location: NDArray[np.int32]
    call_path: NDArray[np.int32]
    time: NDArray[np.int64]


class Instances:
    """The constituents of all rows of a root table: the columns of their table, row by row; null where there is none.

    Attributes
    ----------
    row : (n,) int64
        Row of the table, -1 where there is none.
    found : (n,) bool
        Where there is one.
    table : CompoundTable
        The table of the constituents.
    """

    def __init__(self, table: CompoundTable, row: NDArray[np.int64]) -> None:
        self.table, self.row, self.found = table, row, row >= 0

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        return pick(getattr(self.table, name), self.row)
