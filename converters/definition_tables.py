"""Definition tables that a converter fills row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.schema import DEFINITIONS

UNNAMED = "unnamed"
"""Name of regions of which none is recorded, so that call paths and tables show them."""


def rows_by_number(rows: Mapping[int, int]) -> NDArray[np.int64]:
    """Return a table of rows by identifier, which kernels look up; -1 for those that are not defined."""
    table = np.full(max(rows, default=-1) + 1, -1, np.int64)
    table[list(rows)] = list(rows.values())
    return table


class DefinitionTables:
    """The definition tables of a trace: `tables` has columns by table."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, list[Any]]] = {
            name: {column: [] for column in table.names} for name, table in DEFINITIONS.items()
        }

    def add(self, table: str, /, **values: Any) -> int:
        """Add a row to a table; return its number."""
        rows = self.tables[table]
        number = len(next(iter(rows.values())))
        for column in DEFINITIONS[table].columns:
            nothing: Any = "" if column.dtype == "string" else [] if column.dtype.startswith("list") else -1
            rows[column.name].append(values.get(column.name, number if column.name == "id" else nothing))
        return number

    def add_process(self, name: str, node: int, rank: int, **values: Any) -> int:
        """Add a process of a node; return its row."""
        return self.add("processes", name=name, type="process", node=node, rank=rank, **values)

    def add_location(self, name: str, process: int, thread: int, *, is_device: bool = False, **values: Any) -> int:
        """Add a location whose events are not counted yet; return its row."""
        kind = "gpu" if is_device else "cpu_thread"
        return self.add(
            "locations", name=name, type=kind, process=process, thread=thread, first_row=0, n_events=0, **values
        )

    def add_region(
        self, name: str, role: str, paradigm: str, canonical: str = "", begin_line: int = 0, **values: Any
    ) -> int:
        """Add a region; return its row."""
        name = name or UNNAMED
        given = {"flags": 0, "end_line": 0, "begin_line": begin_line, **values}
        return self.add("regions", name=name, canonical_name=canonical or name, role=role, paradigm=paradigm, **given)

    def add_communicator(self, name: str, paradigm: str, members: list[int]) -> int:
        """Add a communicator, or a team of threads, and the group of its locations; return its row."""
        self.add("groups", name=name, type="comm_group", paradigm=paradigm, flags=0, members=members)
        return self.add("communicators", name=name, kind="group", paradigm=paradigm, flags=0, members=members)

    def add_counter(self, name: str, about: str, mode: str, value_type: str, number: int) -> int:
        """Add a counter with its identifier, whose values are stored unscaled; return its row."""
        kind = "papi" if name.startswith("PAPI") else "other"
        how = {"type": kind, "mode": mode, "value_type": value_type, "base": 1, "exponent": 0}
        return self.add("metric_members", id=number, name=name, description=about, **how)

    def add_class_of_counters(self) -> None:
        """Add a single class of all counters, which every location reads."""
        members = list(range(len(self.tables["metric_members"]["id"])))
        self.add("metric_classes", members=members, occurrence="synchronous_strict", recorder_kind="cpu")
        self.add("metric_sources", metric_class=0, scope="location")
