"""A cube as a folder of tables (`schema.severity`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.topologies import Topology
from tracecols.errors import SeverityError, StoreError
from tracecols.given.arguments import as_path
from tracecols.given.files import advice
from tracecols.schema.facts import MANIFEST_FACTS, wrong_fact
from tracecols.schema.severity import FORMAT_VERSION, MANIFEST_ENTRIES, OLDEST_MAJOR, PERIOD_TABLES, SEVERITY_TABLES
from tracecols.schema.versions import newer_note, version_of
from tracecols.severity import checks
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells
from tracecols.severity.narrowed import how_in_words, made_how
from tracecols.severity.periods import PeriodAxis, PeriodCells
from tracecols.severity.queries import Severities
from tracecols.store.arrow import StoredTable, write_table
from tracecols.store.layout import MANIFEST, await_manifest, checksum, identity, instead, reason, write_manifest
from tracecols.store.outputs import Output, alike
from tracecols.work.memory import physical

ROW_GROUP = 1 << 20
"""Number of cells that are written at a time."""

Tables = Mapping[str, Mapping[str, NDArray[Any]]]
"""Columns by table and name."""

VALUES_BY_PERIOD = ("period_cells", "outside_cells")
"""Tables of cells by call path, location and period; a cube may lack each of them."""


def how_it_differs(there: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Describe how an existing cube (`there`) and one to be written were made; empty if both were made in the same
    way."""
    return "" if made_how(there) == made_how(facts) else f"{how_in_words(there)}; this one: {how_in_words(facts)}"


def cube_folder(path: str | Path, facts: Mapping[str, Any], *, force: bool = False) -> Output:
    """Return the output folder of a cube that was made as `facts` say. It replaces cubes made in the same way; with
    `force`, any other cube and any regular file as well."""
    what = "a severity cube"
    recognise = alike(what, lambda manifest: how_it_differs(manifest["facts"], facts))
    return Output(Path(path), what, recognise, is_folder=True, force=force, error=SeverityError)


def save(cube: Severities, path: str | Path, *, force: bool = False) -> Path:
    """Write the cube to a folder, complete or not at all.

    Parameters
    ----------
    path : str or Path
        The folder `NAME.severity`; a cube there that was made in the same way is replaced.
    force : bool, optional
        Replace any other cube, and any file, as well.

    Raises
    ------
    SeverityError
        If the folder cannot be written, or something else exists in its place.
    """
    path = as_path(path, SeverityError)
    p = cube.properties
    tables: dict[str, dict[str, Any]] = tree_tables(cube)
    floats = [name for name in p.id if cube.cells[name].value.dtype.kind == "f"]
    content: dict[str, Any] = {"float_properties": floats, "facts": cube.facts}
    if cube.periods is not None:
        axis = cube.periods
        tables["periods"] = {name: getattr(axis, name) for name in ("begin_time", "end_time", "n_locations")}
        tables["period_cells"] = _cells_table(cube, cube.period_cells, set(floats))
        content["periods"] = {"kind": axis.kind, "words": axis.words}
    if cube.outside is not None:
        tables["outside_cells"] = _cells_table(cube, cube.outside, set(floats))
        content["has_outside"] = 1
    with cube_folder(path, cube.facts, force=force).new() as folder:
        for name, table in SEVERITY_TABLES.items():
            if name in tables:
                write_table(folder / f"{name}.parquet", table, [tables[name]])
        # most of a cube of many locations: written in blocks, without a copy of all cells
        write_table(folder / "cells.parquet", SEVERITY_TABLES["cells"], _blocks_of([cube.cells[i] for i in p.id]))
        write_manifest(folder, "a severity cube", FORMAT_VERSION, content)
    return path


def _blocks_of(cells: Sequence[Cells]) -> Iterator[dict[str, Any]]:
    """Yield the table of cells of some properties, in their order, at most `ROW_GROUP` rows at a time."""
    start = np.append(0, np.cumsum([len(of) for of in cells]))
    for low in range(0, max(int(start[-1]), 1), ROW_GROUP):
        high = min(low + ROW_GROUP, int(start[-1]))
        own = [slice(max(low - a, 0), max(high - a, 0)) for a in start[:-1].tolist()]
        found = [Cells(of.key[here], of.value[here]) for of, here in zip(cells, own, strict=True)]
        yield {
            "property": np.repeat(np.arange(len(cells), dtype=np.int32), [len(of) for of in found]),
            "call_path": np.concatenate([np.zeros(0, np.int32), *(of.call_path for of in found)]),
            "location": np.concatenate([np.zeros(0, np.int32), *(of.location for of in found)]),
            "value": np.concatenate([np.zeros(0, np.int64), *(of.value.view(np.int64) for of in found)]),
        }


def _cells_table(cube: Severities, by_name: Mapping[str, PeriodCells], floats: set[str]) -> dict[str, Any]:
    cells = [by_name[name] for name in cube.properties.id]
    values = [
        c.value.astype(np.float64).view(np.int64) if name in floats else c.value
        for name, c in zip(cube.properties.id, cells, strict=True)
    ]
    return {
        "property": np.repeat(np.arange(len(cells), dtype=np.int32), [len(v) for v in cells]),
        **{
            column: np.concatenate([np.zeros(0, np.int32), *(getattr(c, column) for c in cells)])
            for column in ("call_path", "location", "period")
        },
        "value": np.concatenate([np.zeros(0, np.int64), *values]),
    }


def read(path: str | Path) -> dict[str, Any]:
    """Read a cube from the folder `NAME.severity`; return the attributes of `Severities` by name.

    Additions of a newer minor version are ignored, and reported by a note of the cube (`facts["counts"]`). Raises
    SeverityError if it is not a cube, damaged, or of a version this tracecols does not know.
    """
    path = as_path(path, SeverityError)
    manifest, found = _manifest_of(path)
    version = version_of(manifest)
    assert version is not None  # checked before

    def refuse_if(what: str) -> None:
        if what:
            raise SeverityError(f"{path} is damaged: {what}\n  analyze the trace again")

    refuse_if(wrong_fact(MANIFEST_FACTS, manifest))
    absent = set() if "periods" in manifest else set(PERIOD_TABLES)
    for name in PERIOD_TABLES:
        if name in absent and (path / f"{name}.parquet").exists():
            refuse_if(f"there is a table {name}, but the manifest has no periods")
    absent |= set() if manifest.get("has_outside") else {"outside_cells"}
    declared = {n: t for n, t in SEVERITY_TABLES.items() if n not in absent}
    try:
        stored = {n: StoredTable(path / f"{n}.parquet", t, version, FORMAT_VERSION) for n, t in declared.items()}
        rows, n_bytes = ({n: getattr(t, of) for n, t in stored.items()} for of in ("n_rows", "n_bytes"))
        what = checks.wrong_sizes(rows, n_bytes, physical())
        tables = {} if what else {n: t.read() for n, t in stored.items()}
    except StoreError as error:
        what = str(error)
    if identity(path) != found:
        raise SeverityError(f"{path} was replaced or removed while it was being read\n  load it again")
    refuse_if(what)
    floats, ids = set(manifest["float_properties"]), tables["properties"]["id"].tolist()
    is_float = np.array([name in floats for name in ids], bool)
    about_periods = manifest.get("periods", {})
    refuse_if(checks.wrong_tables(tables, about_periods.get("kind", ""), is_float))
    facts = manifest["facts"]
    if note := newer_note("cube", version, FORMAT_VERSION, _ignored(path, stored, manifest)):
        facts["counts"] = {note: 1, **facts.get("counts", {})}
    s, where = ({n: v.tolist() for n, v in tables[name].items()} for name in ("system", "locations"))
    at, c = tables["locations"], tables["cells"]
    key = (c["call_path"].astype(np.int64) << 32) | c["location"].astype(np.int64)
    by_period = {name: _period_cells_of(tables[name], ids, is_float) for name in VALUES_BY_PERIOD if name in tables}
    return {
        "properties": PropertyAxis(**{n: v.tolist() for n, v in tables["properties"].items()}),
        "call_paths": CallAxis(**tables["call_paths"]),
        "system": SystemAxis(
            s["kind"], s["name"], s["parent"], s["location"], at["rank"], at["thread"], where["name"], where["type"]
        ),
        "cells": {name: Cells(key[mine], value) for name, mine, value in _rows_of(c, ids, is_float)},
        "facts": facts,
        "topologies": _topologies_of(tables),
        "periods": PeriodAxis(about_periods["kind"], about_periods["words"], **tables["periods"])
        if about_periods
        else None,
        "period_cells": by_period.get("period_cells", {}),
        "outside": by_period.get("outside_cells"),
    }


def _ignored(path: Path, stored: Mapping[str, StoredTable], manifest: Mapping[str, Any]) -> list[str]:
    """List what a cube has that this version does not know."""
    return [
        *(f"column {name}.{column}" for name, table in stored.items() for column in table.unknown),
        *(f"table {f.stem}" for f in sorted(path.glob("*.parquet")) if f.stem not in SEVERITY_TABLES),
        *(f"entry {name} of the manifest" for name in manifest if name not in MANIFEST_ENTRIES),
    ]


def _manifest_of(path: Path) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return the manifest of a cube of a known version, as it was written, and the identity of the folder. Raises
    SeverityError if there is none."""
    try:
        manifest, found = await_manifest(path)
        kind, version = manifest.get("format"), version_of(manifest)
    except (OSError, ValueError, AttributeError) as error:
        if path.is_file():
            raise SeverityError(
                f"{path} is a file, not a .severity folder\n  read .cubex and .cube with tracecols.read_cube"
            ) from error
        if what := instead(path, "a severity cube"):
            raise SeverityError(what) from error
        raise SeverityError(
            f"{path} is not a severity cube: its {MANIFEST} is missing or unreadable{reason(error)}\n"
            f"  {advice(error, 'make one with: tracecols analyze TRACE -o NAME.severity')}"
        ) from error
    if kind != "tracecols severity":
        raise SeverityError(
            f"{path} is not a severity cube (its manifest says {kind!r:.60})\n  make one with: tracecols analyze {path}"
        )
    if version is None or not OLDEST_MAJOR <= version.major <= FORMAT_VERSION.major:
        raise SeverityError(
            f"{path} has severity format {manifest.get('version')!s:.60}, this tracecols reads {OLDEST_MAJOR} to "
            f"{FORMAT_VERSION.major}\n"
            "  analyze the trace again"
        )
    if manifest.get("checksum") != checksum(manifest):
        raise SeverityError(
            f"{path}: its {MANIFEST} does not fit its checksum\n  the cube is damaged; analyze the trace again"
        )
    return manifest, found


def _period_cells_of(
    table: Mapping[str, NDArray[Any]], ids: list[str], is_float: NDArray[np.bool_]
) -> dict[str, PeriodCells]:
    path, location, period = (table[c] for c in ("call_path", "location", "period"))
    rows = _rows_of(table, ids, is_float)
    return {name: PeriodCells(path[mine], location[mine], period[mine], value) for name, mine, value in rows}


def _rows_of(
    table: Mapping[str, NDArray[Any]], ids: list[str], is_float: NDArray[np.bool_]
) -> Iterator[tuple[str, slice, NDArray[Any]]]:
    """Yield every property with its rows in a table of cells and its values, of which float64 ones are stored as the
    bits of an int64."""
    starts = checks.starts_of(table["property"], len(ids)).tolist()
    for name, of_floats, mine in zip(ids, is_float.tolist(), map(slice, starts[:-1], starts[1:]), strict=True):
        yield name, mine, table["value"][mine].view(np.float64) if of_floats else table["value"][mine]


def tree_tables(cube: Severities) -> dict[str, dict[str, Any]]:
    """Return the tables that hold the trees and topologies of a cube; no values are copied."""
    ts, s = cube.topologies, cube.system
    numbers = np.arange(len(ts), dtype=np.int32)
    of_dimension = np.repeat(numbers, [len(t.sizes) for t in ts])
    return {
        "properties": vars(cube.properties),
        "call_paths": vars(cube.call_paths),
        "system": {"kind": s.kind, "name": s.name, "parent": s.parent, "location": s.location},
        "locations": {"rank": s.rank, "thread": s.thread, "name": s.location_name, "type": s.location_type},
        "topologies": {"name": [t.name for t in ts], "is_artificial": [t.is_artificial for t in ts]},
        "topology_dimensions": {
            "topology": of_dimension,
            "name": [n for t in ts for n in t.dimensions],
            "size": [n for t in ts for n in t.sizes],
            "is_periodic": [p for t in ts for p in t.periodic],
        },
        "topology_positions": {
            "topology": np.repeat(numbers, [t.coordinates.size for t in ts]),
            "location": np.concatenate([np.zeros(0, np.int32), *(t.location.repeat(len(t.sizes)) for t in ts)]),
            "coordinate": np.concatenate([np.zeros(0, np.int64), *(t.coordinates.ravel() for t in ts)]),
        },
    }


def _topologies_of(tables: Tables) -> list[Topology]:
    t, d, p = (tables[n] for n in ("topologies", "topology_dimensions", "topology_positions"))
    numbers = np.arange(t["name"].size + 1)
    of_dimension, of_position = (np.searchsorted(of["topology"], numbers).tolist() for of in (d, p))
    result = []
    for i, (name, artificial) in enumerate(zip(t["name"].tolist(), t["is_artificial"].tolist(), strict=True)):
        mine, here = slice(*of_dimension[i : i + 2]), slice(*of_position[i : i + 2])
        n = max(mine.stop - mine.start, 1)
        names, sizes = tuple(d["name"][mine].tolist()), tuple(d["size"][mine].tolist())
        periodic = tuple(map(bool, d["is_periodic"][mine].tolist()))
        location, coordinates = p["location"][here][::n], p["coordinate"][here].reshape(-1, n)
        result.append(Topology(name, names, sizes, periodic, location, coordinates, bool(artificial)))
    return result
