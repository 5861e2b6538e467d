"""Severities and tables as Parquet, CSV and JSON; severities as cubes of other tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tracecols.errors import ExportError
from tracecols.export.cube3 import write_cube3
from tracecols.export.cube_read import is_cube, read_cube
from tracecols.export.cubex import write_cubex
from tracecols.export.outputs import TREES, cube_output, table_output
from tracecols.given.printable import finite
from tracecols.model.readable import readable_names
from tracecols.schema import DEFINITIONS, EVENTS, Table
from tracecols.schema.compound import CALL_PATHS
from tracecols.schema.severity import DEFAULT
from tracecols.severity.cube import SeverityCube
from tracecols.severity.storage import tree_tables
from tracecols.store import Store
from tracecols.store.outputs import text_output

if TYPE_CHECKING:
    import pandas as pd


ROWS = 1 << 20
"""Rows of a row group."""


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as Parquet; `frame.attrs` may hold the units of its columns, and facts of the table.

    The dictionary of a categorical column holds, in each row group, only the texts that occur there: a million call
    paths in each would be most of the file.
    """
    from tracecols.store.arrow import ParquetWriter

    table = with_units(pa.Table.from_pandas(frame, preserve_index=False), frame.attrs)
    with ParquetWriter(path, table.schema, compression="zstd", dictionary_pagesize_limit=1 << 30) as writer:
        for start in range(0, max(table.num_rows, 1), ROWS):
            rows = table.slice(start, ROWS)
            if table.num_rows > ROWS:
                columns = [_own_texts(c.combine_chunks()) for c in rows.columns]
                rows = pa.Table.from_arrays(columns, schema=table.schema)
            writer.write_table(rows, ROWS)


def with_units(table: pa.Table, about: Mapping[Any, Any]) -> pa.Table:
    """Return a table with the units of its columns and facts of the table in its metadata.

    `about` has `units`, the unit by column, which becomes metadata `unit` of the column, and `facts`, texts by name,
    which become metadata of the table.
    """
    units = about.get("units", {})
    fields = [
        field.with_metadata({"unit": units[field.name]}) if units.get(field.name) else field for field in table.schema
    ]
    facts = {f"tracecols.{name}": str(value) for name, value in about.get("facts", {}).items()}
    return table.cast(pa.schema(fields, {**(table.schema.metadata or {}), **facts}))


def _own_texts(column: pa.Array) -> pa.Array:
    """Return a column without the texts of its dictionary that do not occur."""
    if not pa.types.is_dictionary(column.type):
        return column
    import pyarrow.compute as pc

    # by index: decoded, the paths of a million rows exceed the capacity of an array of texts
    found = column.indices.unique().drop_null()
    codes = pc.index_in(column.indices, value_set=found).cast(column.type.index_type)
    return pa.DictionaryArray.from_arrays(codes, column.dictionary.take(found))


FORMULA = re.compile(r"[=+\-@\t\n]")
"""First character of texts that spreadsheets would run as formulas; texts such as region names are untrusted."""


def _no_formula(cell: Any) -> Any:
    """Return the content of a cell. A text that spreadsheets would execute gets a leading apostrophe, unless it is a
    number.

    Carriage returns are escaped as `\\r`: Python's `csv` does not quote them, and readers begin a row there. Lists are
    written as in JSON: numpy leaves out the middle of long ones.
    """
    if isinstance(cell, np.ndarray):
        return json.dumps(cell.tolist())
    if not isinstance(cell, str):
        return cell
    cell = cell.replace("\r", "\\r")
    if FORMULA.match(cell) is None:
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _without_formulas(column: pd.Series) -> pd.Series:
    """Return a column without texts that spreadsheets would execute; numbers stay numbers."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        texts = [_no_formula(text) for text in column.cat.categories]
        number, distinct = pd.factorize(np.array([*texts, None], object)[:-1])
        codes = np.append(number, -1)[column.cat.codes]
        return pd.Series(pd.Categorical.from_codes(codes, distinct), column.index, name=column.name)
    return column if pd.api.types.is_numeric_dtype(column.dtype) else column.map(_no_formula)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, without texts that a spreadsheet would execute as formulas."""
    import pandas as pd

    safe = {_no_formula(name): _without_formulas(column) for name, column in frame.items()}
    pd.DataFrame(safe, frame.index).to_csv(path, index=False)


def write_json(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as a JSON list of records, numbers with 15 decimals, the most that pandas writes."""
    frame.to_json(path, orient="records", lines=False, double_precision=15)


TABLES: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".parquet": write_parquet,
    ".csv": write_csv,
    ".json": write_json,
}

CUBES: dict[str, Callable[[SeverityCube, Path], None]] = {".cubex": write_cubex, ".cube": write_cube3}


def write_cube(cube: SeverityCube, output: Path, *, force: bool = False) -> None:
    """Write a whole cube; the ending of the output is the format: .severity, .cubex or .cube. An existing cube that was
    made in the same way is replaced. Raises ExportError, SeverityError if the format is unknown, the file cannot be
    written, or something else exists in its place."""
    if output.suffix == ".severity":
        cube.save(output, force=force)
        return
    if output.suffix not in CUBES:
        raise ExportError(
            f"cannot write a cube to {output.name}: no format ends in '{output.suffix}'\n"
            f"  there are .severity, {', '.join(CUBES)}"
        )
    with cube_output(output, cube.facts, force=force).new() as file:
        CUBES[output.suffix](cube, file)


def write_table(frame: pd.DataFrame, output: Path, *, force: bool = False) -> None:
    """Write a table; the ending of the output is the format: .parquet, .csv or .json. An existing table with these
    columns is replaced. Raises ExportError if the file cannot be written, or something else exists in its place."""
    with table_output(output, list(frame.columns), force=force).new() as file:
        TABLES[output.suffix](frame, file)


def trees(cube: SeverityCube) -> dict[str, Any]:
    """Return a cube as plain lists: its three trees, its topologies, and its cells as [property, call path, location,
    value]."""
    tables = tree_tables(cube)
    of_call_path = ("parent", "name", "paradigm", "role", "file", "line", "call_site", "end_line")
    cells = []
    for i, name in enumerate(cube.properties.id):
        found = cube.cells[name]
        values = finite((found.value * cube.scale(name)).tolist())
        rows = zip(found.call_path.tolist(), found.location.tolist(), values, strict=True)
        cells += [[i, *row] for row in rows]
    return {
        "format": "tracecols severity",
        "facts": cube.facts,
        "properties": _rows(tables["properties"], cube.properties.__dataclass_fields__),
        "call_paths": _rows(tables["call_paths"], of_call_path),
        "system": _rows(tables["system"]),
        "locations": _rows(tables["locations"]),
        "topologies": [t.to_dict() for t in cube.topologies],
        "cells": cells,
    }


def _rows(columns: Mapping[str, Any], names: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return some columns of a table, by default all, as plain rows."""
    lists = {name: np.asarray(columns[name], object).tolist() for name in names or columns}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def export(
    source: Path,
    output: Path,
    table: str | None = None,
    wide: bool = False,
    *,
    force: bool = False,
    unfolds: bool = False,
    raw: bool = False,
    conventions: str = DEFAULT,
    subdomains: Path | None = None,
) -> None:
    """Write a severity cube, or a table of a store; the ending of the output is the format. Raises ExportError if it is
    unknown, the source has no such contents, or the file cannot be written or must not be replaced.

    Of a store: a `table` of `tracecols.frames.catalog`, by default `events` with pointer columns; `raw` is the stored
    columns instead of seconds, ranks, threads and names. Of a cube: `wide` is a column per property instead of a row
    per value, and `unfolds` makes call paths of phases; subdomains are a column in .parquet and .csv, and replace
    machines and nodes in the system tree in other formats.
    """
    whole = {".severity", *CUBES}
    if output.suffix not in {*TABLES, *whole}:
        raise ExportError(
            f"cannot export to {output.name}: no format ends in '{output.suffix}'\n"
            f"  there are {', '.join(TABLES)}, of a store .otf2, .pftrace, .trace.json, and of severities "
            f"{', '.join(sorted(whole))}"
        )
    if is_cube(source):
        if table is not None or raw:
            raise ExportError(
                f"{source} holds severities, and no tables of a trace\n  give the store that was analysed",
                in_shell="give the store that was analysed, or neither --table nor --raw",
            )
        cube = read_cube(source)
        if unfolds:
            cube = cube.with_phases_as_call_paths()
        if subdomains is not None and output.suffix in {*whole, ".json"}:
            cube = cube.with_subdomains(subdomains)
        if output.suffix in whole:
            write_cube(cube, output, force=force)
        elif output.suffix == ".json":
            text_output(output, "a severity cube", TREES.encode(), force=force).write(json.dumps(trees(cube)))
        else:
            by_period = cube.periods is not None
            frame = cube.wide(subdomains=subdomains) if wide else cube.frame(by_period=by_period, subdomains=subdomains)
            write_table(frame, output, force=force)
        return
    store = Store(source)
    if output.suffix in whole or wide or unfolds or subdomains is not None:
        raise ExportError(
            f"{source} is a store, and has no severities yet\n  analyze it first: tracecols analyze {source}"
        )
    from tracecols.trace import Trace

    trace = Trace(store.path)
    table = trace.catalog.check(EVENTS.name if table is None else table)
    declared = trace.catalog.declared(table)
    is_stored = table == CALL_PATHS.name or (table in DEFINITIONS and table != "markers")
    units = units_of(declared, raw=raw or is_stored)
    table_output(output, list(units), force=force).check()
    frame = trace.frame(table, raw=raw, conventions=conventions)
    if table == EVENTS.name:
        frame = frame.reset_index()
    clock = trace.manifest["clock"]
    ticks = {"ticks_per_second": clock["resolution"], "origin": clock["origin"]} if "ticks" in units.values() else {}
    frame.attrs |= {"units": units, "facts": {"table": table, **ticks}}
    write_table(frame, output, force=force)


def units_of(table: Table, *, raw: bool) -> dict[str, str]:
    """Return the unit by column of a table, empty for names and numbers: of its stored columns if `raw`, else of its
    readable ones."""
    found: dict[str, str] = {}
    for column in table.columns:
        names = () if raw else readable_names(table, column)
        found |= dict.fromkeys(names, "s" if column.unit == "ticks" else "") if names else {column.name: column.unit}
    return found
