"""Severities and tables as Parquet, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tracecols.errors import StoreError, TracecolsError
from tracecols.schema import EVENTS
from tracecols.schema.compound import COMPOUND_TABLES
from tracecols.severity.cube import SeverityCube
from tracecols.store import Store, layout
from tracecols.store.layout import MANIFEST

if TYPE_CHECKING:
    import pandas as pd


class ExportError(TracecolsError):
    """An export cannot be made."""


new_file = partial(layout.new_file, error=ExportError)


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as Parquet."""
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, compression="zstd")


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV."""
    frame.to_csv(path, index=False)


def write_json(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as a JSON list of records."""
    frame.to_json(path, orient="records", lines=False)


TABLES: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".parquet": write_parquet,
    ".csv": write_csv,
    ".json": write_json,
}


def trees(cube: SeverityCube) -> dict[str, Any]:
    """Return a cube as plain lists: its three trees, and its cells as [property, call path, location, value]."""
    p, c, s = cube.properties, cube.call_paths, cube.system
    cells = []
    for i, name in enumerate(p.id):
        found = cube.cells[name]
        scale = cube.scale(name)
        values = (found.value * scale).tolist()
        cells += [
            [i, a, b, v] for a, b, v in zip(found.call_path.tolist(), found.location.tolist(), values, strict=True)
        ]
    return {
        "format": "tracecols severity",
        "facts": cube.facts,
        "properties": [
            dict(zip(p.__dataclass_fields__, row, strict=True))
            for row in zip(*(getattr(p, f) for f in p.__dataclass_fields__), strict=True)
        ],
        "call_paths": [
            {
                "parent": int(c.parent[i]),
                "name": c.name[i],
                "paradigm": c.paradigm[i],
                "role": c.role[i],
                "file": c.file[i],
                "line": int(c.line[i]),
                "call_site": c.call_site[i],
            }
            for i in range(len(c))
        ],
        "system": [
            {"kind": k, "name": n, "parent": a, "location": b}
            for k, n, a, b in zip(s.kind, s.name, s.parent, s.location, strict=True)
        ],
        "locations": [
            {"rank": int(r), "thread": int(t), "name": n, "type": k}
            for r, t, n, k in zip(s.rank, s.thread, s.location_name, s.location_type, strict=True)
        ],
        "cells": cells,
    }


def export(source: Path, output: Path, table: str = "events") -> None:
    """Write a severity cube, or a table of a store; the output's ending says the format.

    Parameters
    ----------
    source : Path
        A cube or a store.
    output : Path
        Ends in .parquet, .csv or .json.
    table : str
        Of a store: `events` (with pointer columns), a compound table, a side table or a definition table.

    Raises
    ------
    ExportError
        If the format is not known or the file cannot be written.
    """
    if output.suffix not in TABLES:
        raise ExportError(
            f"cannot export to {output.name}: no format ends in '{output.suffix}'\n  there are {', '.join(TABLES)}, and of a store .otf2"
        )
    try:
        kind = json.loads((source / MANIFEST).read_text(encoding="utf-8")).get("format", "")
    except (OSError, ValueError, AttributeError):
        kind = ""
    if kind == "tracecols severity":
        cube = SeverityCube.load(source)
        with new_file(output) as file:
            if output.suffix == ".json":
                file.write_text(json.dumps(trees(cube)), encoding="utf-8")
            else:
                TABLES[output.suffix](cube.frame(), file)
        return
    from tracecols.trace import Trace

    trace = Trace(Store(source).path)
    if table == EVENTS.name:
        frame = trace.events.reset_index()
    elif table == "region_instances":
        frame = trace.region_instances()
    elif table in COMPOUND_TABLES:
        frame = getattr(trace, table)
    elif table == "call_paths":
        frame = trace.call_paths
    elif table in trace.store.tables:
        frame = trace.table(table)
    elif table in trace.store.definitions:
        frame = trace.definition(table)
    else:
        known = sorted({"events", "call_paths", *COMPOUND_TABLES, *trace.store.tables, *trace.store.definitions})
        raise StoreError(f"no table {table!r} in {source}\n  there are {', '.join(known)}")
    with new_file(output) as file:
        TABLES[output.suffix](frame, file)
