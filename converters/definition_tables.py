"""Definition tables that a converter fills row by row."""

from __future__ import annotations

from typing import Any

from tracecols.schema import DEFINITIONS


class DefinitionTables:
    """The definition tables of a trace: `tables` has columns by table."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, list[Any]]] = {
            name: {column: [] for column in table.names} for name, table in DEFINITIONS.items()
        }

    def add(self, table: str, /, **values: Any) -> int:
        """Add a row to a table; returns its number."""
        rows = self.tables[table]
        number = len(next(iter(rows.values())))
        for column in DEFINITIONS[table].columns:
            nothing: Any = "" if column.dtype == "string" else [] if column.dtype.startswith("list") else -1
            rows[column.name].append(values.get(column.name, number if column.name == "id" else nothing))
        return number
