"""The severities of a selection as plain values for JSON, as the trees in the terminal show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.severity import focus
from tracecols.severity.cells import Cells
from tracecols.severity.cube import SeverityCube
from tracecols.severity.queries import Severities


def in_focus(cube: SeverityCube, name: str | None, call_path: str | None) -> tuple[SeverityCube, str]:
    """Return a cube without start-up and shutdown, and a note; the whole cube if the selection lies in them only.
    Raises SeverityError if there is no such property or call path."""
    focused = cube.focused()
    if name is None or focused is cube:
        return focused, ""
    name = cube.find_property(name)
    mask = None if call_path is None else cube.find_call_paths(call_path)

    def has_any(of: SeverityCube) -> bool:
        return len(of.cells[name] if mask is None else of.cells[name].on(mask)) > 0

    if has_any(focused) or not has_any(cube):
        return focused, ""
    return cube, "all of it lies in start-up and shutdown, which are set apart by default"


def plain(cube: SeverityCube, name: str | None, call_path: str | None, min_share: float) -> dict[str, Any]:
    """Return the properties of a cube, the call paths of a property, or the locations of some call paths
    (`SeverityCube.find_property`, `find_call_paths`); values below `min_share` of the whole are left out. Raises
    SeverityError if there is no such property or call path."""
    found: dict[str, Any] = {"format": "tracecols values", "focus": focus.in_words(cube.facts)}
    if name is None:
        return found | {"properties": _properties(cube, min_share)}
    name = cube.find_property(name)
    axis, number = cube.properties, cube.properties.number[name]
    whole = abs(cube.whole(name))
    found |= {"property": name, "title": axis.title[number], "unit": axis.unit[number]}
    if call_path is None:
        return found | {"value": cube.total(name), "call_paths": _call_paths(cube, name, whole * min_share)}
    mask = cube.find_call_paths(call_path)
    value = cube.total(name, mask)
    paths = cube.call_paths.paths_of(np.flatnonzero(mask).tolist())
    return found | {"value": value, "selected": paths, "locations": _locations(cube, name, mask)}


def _properties(cube: SeverityCube, min_share: float) -> list[dict[str, Any]]:
    axis = cube.properties
    rows = []
    for i, name in enumerate(axis.id):
        value, whole = cube.total(name), cube.whole(name)
        if value and abs(value) >= min_share * abs(whole):
            share = value / whole if whole and axis.adds_up(name) else None
            named = {"property": name, "parent": axis.parent[i], "title": axis.title[i], "unit": axis.unit[i]}
            rows.append({**named, "value": value, "share": share})
    return rows


def _call_paths(cube: SeverityCube, name: str, least: float) -> list[dict[str, Any]]:
    inclusive, exclusive = cube.by_call_path(name, "iie"), cube.by_call_path(name)
    chosen = np.flatnonzero((np.abs(inclusive) >= least) & (inclusive != 0)).tolist()
    paths = cube.call_paths.paths_of(chosen)
    return [
        {"call_path": path, "inclusive": float(inclusive[i]), "exclusive": float(exclusive[i])}
        for i, path in zip(chosen, paths, strict=True)
    ]


def _locations(cube: SeverityCube, name: str, mask: NDArray[np.bool_]) -> list[dict[str, Any]]:
    s = cube.system
    values = cube.by_location(name, mask)
    return [
        {"rank": int(s.rank[i]), "thread": int(s.thread[i]), "name": s.location_name[i], "value": float(values[i])}
        for i in np.flatnonzero(values).tolist()
    ]


def plain_cells(cube: Severities, cells: Mapping[str, Cells], rows: slice) -> list[dict[str, Any]]:
    """Return some cells of properties in time units (`cells` by property) as rows, the largest first."""
    s, names = cube.system, list(cells)
    which = np.repeat(np.arange(len(names)), [len(of) for of in cells.values()])
    seconds = np.concatenate([of.value * cube.scale(name) for name, of in cells.items()])
    path, location = (np.concatenate([getattr(of, n) for of in cells.values()]) for n in ("call_path", "location"))
    at = np.argsort(-seconds, kind="stable")[rows]
    columns = {
        "property": [names[k] for k in which[at].tolist()],
        "call_path": cube.call_paths.paths_of(path[at].tolist()),
        "rank": s.rank[location[at]].tolist(),
        "thread": s.thread[location[at]].tolist(),
        "value": seconds[at].tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
