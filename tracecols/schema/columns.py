"""The building blocks of the schema: columns, with functions that declare frequent kinds of them, and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
        Name in files and data frames.
    dtype : str
        A NumPy dtype, ``"string"``, or ``"list[...]"`` of one of them.
    doc : str
        What it holds.
    unit : str
        Ticks, seconds, bytes, occurrences, rank, ...; empty for identifiers and names.
    target : str
        The table a pointer or reference column points into; -1 is null.
    required : bool
        Whether a reference is never null.
    since : (int, int)
        Version of the format that added the column. In older files it reads as null, or as `default`, everywhere; (0,
        0) if no file may lack it.
    default : int, float, str or list, optional
        The value to use for a file that lacks the column; by default null: -1, an empty text or an empty list.
    is_duration : bool
        Of a column in ticks: whether it holds differences of clock readings, which have no null, rather than readings.
    nullable : bool
        Of a column of whole numbers that is no reference: whether -1 means null. References that are not `required`
        always have null.
    enum : tuple of str
        Of a column that holds numbers of an enumeration: the names of the numbers; empty for all others.
    low, high : int, optional
        The least and the greatest number of a column that is no reference, where its type allows others.

    Raises
    ------
    ValueError
        If a file may lack the column and there is no value to use for it.
    """

    name: str
    dtype: str
    doc: str
    unit: str = ""
    target: str = ""
    required: bool = False
    since: tuple[int, int] = (0, 0)
    default: Any = None
    is_duration: bool = False
    nullable: bool = False
    enum: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        if self.since > (0, 0):
            _ = self.absent
            if self.required:
                raise ValueError(
                    f"column {self.name!r}: a reference that is never null is part of a format from its beginning"
                )

    @property
    def has_null(self) -> bool:
        """Whether -1 means null in a column of whole numbers."""
        return self.dtype.startswith("int") and not self.is_duration and bool(self.target or self.nullable)

    @property
    def absent(self) -> Any:
        """The value to use for a file that lacks the column."""
        if self.default is not None:
            return self.default
        if self.dtype.startswith("list["):
            return []
        if self.dtype == "string":
            return ""
        if self.dtype.startswith("int"):
            return -1
        raise ValueError(f"column {self.name!r} of type {self.dtype} has no null\n  declare a default")


def event(name: str, doc: str, **how: Any) -> Column:
    """Declare a column that holds rows of events."""
    return Column(name, "int64", doc, "", "events", **how)


def reference(name: str, target: str, doc: str, **how: Any) -> Column:
    """Declare a column that holds rows of a table that does not grow with the events."""
    return Column(name, "int32", doc, "", target, **how)


def ticks(name: str, doc: str, **how: Any) -> Column:
    """Declare a column that holds clock readings, or differences of them (`is_duration`)."""
    return Column(name, "int64", doc, "ticks", **how)


@dataclass(frozen=True)
class Table:
    """One table.

    Parameters
    ----------
    name : str
        A plural noun.
    row : str
        What a row is.
    columns : tuple of Column
    source : str
        Records of the source that become rows.
    repeats : bool
        Of a side table whether an event may have several rows.
    since : (int, int)
        Version of the format that added the table; it is empty in older files. (0, 0) if no file may lack it.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    source: str = ""
    repeats: bool = False
    since: tuple[int, int] = (0, 0)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(c.name for c in self.columns))

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.names.index(name)]


def table(name: str, row: str, *columns: Column, **how: Any) -> Table:
    """Declare a table by its columns, one after the other; `how` are further fields, such as `source`."""
    return Table(name, row, columns, **how)


def by_name(*tables: Table) -> dict[str, Table]:
    """Return tables by their names."""
    return {t.name: t for t in tables}
