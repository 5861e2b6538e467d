"""A cube as a folder of tables (`schema.severity`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.topologies import Topology
from tracecols.errors import SeverityError, StoreError
from tracecols.files import advice
from tracecols.schema.severity import (
    AGGREGATIONS,
    FORMAT_VERSION,
    MANIFEST_ENTRIES,
    OLDEST_MAJOR,
    PERIOD_TABLES,
    SEVERITY_TABLES,
    UNDIVIDED_VERSION,
)
from tracecols.schema.versions import newer_note, version_of
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells
from tracecols.severity.narrowed import how_in_words, made_how
from tracecols.severity.periods import PeriodAxis, PeriodCells
from tracecols.severity.queries import Severities
from tracecols.store.arrow import read_table, write_table
from tracecols.store.layout import (
    MANIFEST,
    await_folder,
    checksum,
    identity,
    instead,
    is_made_here,
    read_manifest,
    reason,
    write_manifest,
)
from tracecols.store.outputs import Output


def how_it_differs(there: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Say how a cube was made, and how another one is; empty if both are made in the same way.

    Parameters
    ----------
    there : mapping
        Facts of the cube that exists.
    facts : mapping
        Those of the one that is to be written.
    """
    return "" if made_how(there) == made_how(facts) else f"{how_in_words(there)}; this one: {how_in_words(facts)}"


def cube_folder(path: str | Path, facts: Mapping[str, Any], *, force: bool = False) -> Output:
    """Return the folder of a cube; it replaces cubes that were made in the same way.

    Parameters
    ----------
    path : str or Path
    facts : mapping
        Of the cube that is to be written: how it is made.
    force : bool
        Replace any other cube and any regular file as well.
    """
    what = "a severity cube"

    def recognise(found: Path) -> str | None:
        if not is_made_here(found, what):
            return None
        try:
            return how_it_differs(read_manifest(found)[0]["facts"], facts)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            # what is damaged is no loss
            return ""

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
    path = Path(path)
    p, c, s = cube.properties, cube.call_paths, cube.system
    cells = [cube.cells[name] for name in p.id]
    tables: dict[str, dict[str, Any]] = {
        "properties": vars(p),
        "call_paths": vars(c),
        "system": vars(s),
        "locations": {"rank": s.rank, "thread": s.thread, "name": s.location_name, "type": s.location_type},
        **_topology_tables(cube),
        "cells": {
            "property": np.repeat(np.arange(len(cells), dtype=np.int32), [len(v) for v in cells]),
            "call_path": np.concatenate([np.zeros(0, np.int32), *(v.call_path for v in cells)]),
            "location": np.concatenate([np.zeros(0, np.int32), *(v.location for v in cells)]),
            "value": np.concatenate([np.zeros(0, np.int64), *(v.value.view(np.int64) for v in cells)]),
        },
    }
    floats = [name for name in p.id if cube.cells[name].value.dtype.kind == "f"]
    content = {"float_properties": floats, "facts": cube.facts}
    version = UNDIVIDED_VERSION
    if cube.periods is not None:
        tables |= _period_tables(cube, cube.periods, set(floats))
        content["periods"] = {"kind": cube.periods.kind, "words": cube.periods.words}
        version = FORMAT_VERSION
    with cube_folder(path, cube.facts, force=force).new() as folder:
        for name, table in SEVERITY_TABLES.items():
            if name in tables:
                write_table(folder / f"{name}.parquet", table, tables[name])
        write_manifest(folder, "a severity cube", version, content)
    return path


def _period_tables(cube: Severities, axis: PeriodAxis, floats: set[str]) -> dict[str, dict[str, Any]]:
    """Return the tables of the periods of a cube and of its severities by period."""
    cells = [cube.period_cells[name] for name in cube.properties.id]
    values = [
        c.value.astype(np.float64).view(np.int64) if name in floats else c.value
        for name, c in zip(cube.properties.id, cells, strict=True)
    ]
    return {
        "periods": {"begin_time": axis.begin_time, "end_time": axis.end_time, "n_locations": axis.n_locations},
        "period_cells": {
            "property": np.repeat(np.arange(len(cells), dtype=np.int32), [len(v) for v in cells]),
            **{
                column: np.concatenate([np.zeros(0, np.int32), *(getattr(c, column) for c in cells)])
                for column in ("call_path", "location", "period")
            },
            "value": np.concatenate([np.zeros(0, np.int64), *values]),
        },
    }


def _period_cells_of(
    tables: Mapping[str, Mapping[str, NDArray[Any]]], ids: list[str], floats: set[str]
) -> dict[str, PeriodCells]:
    """Make severities by period from their table."""
    t = tables["period_cells"]
    starts = np.searchsorted(t["property"], np.arange(len(ids) + 1))
    cells = {}
    for i, name in enumerate(ids):
        mine = slice(int(starts[i]), int(starts[i + 1]))
        value = t["value"][mine].view(np.float64) if name in floats else t["value"][mine]
        cells[name] = PeriodCells(t["call_path"][mine], t["location"][mine], t["period"][mine], value)
    return cells


def read(path: str | Path) -> dict[str, Any]:
    """Read what a cube holds from a folder.

    What a newer minor version has besides is ignored, and told by a note of the cube (`facts["counts"]`).

    Parameters
    ----------
    path : str or Path
        The folder `NAME.severity`.

    Returns
    -------
    dict
        The attributes of `Severities` by name.

    Raises
    ------
    SeverityError
        If it is no cube, damaged, or of a version this tracecols does not know.
    """
    path = Path(path)
    try:
        await_folder(path)
        manifest, found = read_manifest(path)
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
            f"{path} is not a severity cube (its manifest says {kind!r})\n  make one with: tracecols analyze {path}"
        )
    if version is None or not OLDEST_MAJOR <= version.major <= FORMAT_VERSION.major:
        raise SeverityError(
            f"{path} has severity format {manifest.get('version')}, this tracecols reads {OLDEST_MAJOR} to {FORMAT_VERSION.major}\n"
            "  analyze the trace again"
        )
    if manifest.get("checksum") != checksum(manifest):
        raise SeverityError(
            f"{path}: its {MANIFEST} does not fit its checksum\n  the cube is damaged; analyze the trace again"
        )
    try:
        found_tables = {
            n: read_table(path / f"{n}.parquet", t, version, FORMAT_VERSION)
            for n, t in SEVERITY_TABLES.items()
            if "periods" in manifest or n not in PERIOD_TABLES
        }
    except StoreError as error:
        if identity(path) == found:
            raise SeverityError(f"{path} is damaged: {error}\n  analyze the trace again") from error
    if identity(path) != found:
        raise SeverityError(f"{path} was replaced or removed while it was being read\n  load it again")
    tables = {name: columns for name, (columns, _) in found_tables.items()}
    ignored = [
        *(f"column {table}.{name}" for table, (_, unknown) in found_tables.items() for name in unknown),
        *(f"table {f.stem}" for f in sorted(path.glob("*.parquet")) if f.stem not in SEVERITY_TABLES),
        *(f"entry {name} of the manifest" for name in manifest if name not in MANIFEST_ENTRIES),
    ]
    note = newer_note("cube", version, FORMAT_VERSION, ignored)
    facts = manifest["facts"]
    if note:
        facts["counts"] = {note: 1, **(facts.get("counts") or {})}
    t, where = tables["system"], tables["locations"]
    p = PropertyAxis(**{n: v.tolist() for n, v in tables["properties"].items()})
    if unknown := set(p.aggregation) - set(AGGREGATIONS):
        raise SeverityError(
            f"{path} is damaged: no values come together as {min(unknown)!r}\n  analyze the trace again"
        )
    c = CallAxis(**tables["call_paths"])
    names, types = where["name"].tolist(), where["type"].tolist()
    nodes = [t[n].tolist() for n in ("kind", "name", "parent", "location")]
    s = SystemAxis(nodes[0], nodes[1], nodes[2], nodes[3], where["rank"], where["thread"], names, types)
    prop, call_path, location, value = tables["cells"].values()
    key = (call_path.astype(np.int64) << 32) | location.astype(np.int64)
    starts = np.searchsorted(prop, np.arange(len(p.id) + 1))
    floats = set(manifest["float_properties"])
    cells: dict[str, Cells] = {}
    for i, name in enumerate(p.id):
        mine = value[starts[i] : starts[i + 1]]
        cells[name] = Cells(key[starts[i] : starts[i + 1]], mine.view(np.float64) if name in floats else mine)
    divided: dict[str, Any] = {}
    if "periods" in manifest:
        t = tables["periods"]
        kind, words = (str(manifest["periods"].get(entry, "")) for entry in ("kind", "words"))
        divided = {
            "periods": PeriodAxis(kind, words, t["begin_time"], t["end_time"], t["n_locations"]),
            "period_cells": _period_cells_of(tables, p.id, floats),
        }
    return {
        "properties": p,
        "call_paths": c,
        "system": s,
        "cells": cells,
        "facts": facts,
        "topologies": _topologies_of(tables),
        **divided,
    }


def _topology_tables(cube: Severities) -> dict[str, dict[str, Any]]:
    """Return the tables that hold the topologies."""
    ts = cube.topologies
    numbers = np.arange(len(ts), dtype=np.int32)
    of_dimension = np.repeat(numbers, [len(t.sizes) for t in ts])
    return {
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


def _topologies_of(tables: Mapping[str, Mapping[str, NDArray[Any]]]) -> list[Topology]:
    """Make the topologies from their tables."""
    t, d, p = (tables[n] for n in ("topologies", "topology_dimensions", "topology_positions"))
    result = []
    for i, (name, artificial) in enumerate(zip(t["name"].tolist(), t["is_artificial"].tolist(), strict=True)):
        mine, here = d["topology"] == i, p["topology"] == i
        n = max(int(mine.sum()), 1)
        names, sizes = tuple(d["name"][mine].tolist()), tuple(d["size"][mine].tolist())
        periodic = tuple(map(bool, d["is_periodic"][mine].tolist()))
        location, coordinates = p["location"][here][::n], p["coordinate"][here].reshape(-1, n)
        result.append(Topology(name, names, sizes, periodic, location, coordinates, bool(artificial)))
    return result
