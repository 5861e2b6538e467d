"""The two words the schema is written in: columns and tables."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    """

    name: str
    dtype: str
    doc: str
    unit: str = ""
    target: str = ""
    required: bool = False


@dataclass(frozen=True)
class Table:
    """One table: a plural noun, what a row is, and its columns; of a side table whether an event may have several rows."""

    name: str
    row: str
    columns: tuple[Column, ...]
    source: str = ""
    repeats: bool = False
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(c.name for c in self.columns))

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.names.index(name)]
