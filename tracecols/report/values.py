"""What a cube holds of a selection, as plain values for JSON: what the trees in the terminal show."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.severity import focus
from tracecols.severity.cube import SeverityCube


def plain(cube: SeverityCube, name: str | None, call_path: str | None, min_share: float) -> dict[str, Any]:
    """Return the properties of a cube, the call paths of a property, or the locations of some call paths.

    Parameters
    ----------
    name, call_path : str, optional
        As `SeverityCube.find_property` and `find_call_paths` take them.
    min_share : float
        What is less than this share of the whole is left out.

    Raises
    ------
    SeverityError
        If there is no such property or call path.
    """
    found: dict[str, Any] = {"format": "tracecols values", "focus": focus.in_words(cube.facts)}
    if name is None:
        return found | {"properties": _properties(cube, min_share)}
    name = cube.find_property(name)
    axis, number = cube.properties, cube.properties.number[cube.find_property(name)]
    whole = abs(cube.whole(name))
    found |= {"property": name, "title": axis.title[number], "unit": axis.unit[number]}
    if call_path is None:
        return found | {"value": cube.total(name), "call_paths": _call_paths(cube, name, whole * min_share)}
    mask = cube.find_call_paths(call_path)
    value = cube.cells[name].on(mask).total(axis.reduction(name)) * cube.scale(name)
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
