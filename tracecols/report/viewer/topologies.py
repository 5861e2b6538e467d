"""The grids a severity can be laid on."""

from __future__ import annotations

from typing import Any

from tracecols.severity.cube import SeverityCube


def topologies_of(cube: SeverityCube) -> list[dict[str, Any]]:
    """Return the Cartesian topologies of a cube, and process x thread unless that is one of them.

    Parameters
    ----------
    cube : SeverityCube
        Its `topologies`, if it has any, give themselves as plain lists by `to_dict`: name, dimensions (names), sizes, periodic,
        locations and their coordinates, is_artificial.

    Returns
    -------
    list of dict
        name; dimensions, each with name, size (0 unknown) and periodic; coordinates, for every location a list of one number per
        dimension, or None where it has no place. Several locations may share a place.
    """
    given = [t.to_dict() for t in getattr(cube, "topologies", ())]
    found = [_placed(t, cube.system.n_locations) for t in given]
    return found if any(t["is_artificial"] for t in given) else [*found, _process_thread(cube)]


def _placed(given: dict[str, Any], n_locations: int) -> dict[str, Any]:
    """Spread the coordinates of a topology over all locations."""
    coordinates: list[list[int] | None] = [None] * n_locations
    for row, at in zip(given["locations"], given["coordinates"], strict=True):
        coordinates[row] = at
    columns = zip(given["dimensions"], given["sizes"], given["periodic"], strict=True)
    return {
        "name": given["name"],
        "dimensions": [{"name": name, "size": size, "periodic": periodic} for name, size, periodic in columns],
        "coordinates": coordinates,
    }


def _process_thread(cube: SeverityCube) -> dict[str, Any]:
    """Count processes in the order of the system tree, and the threads of each."""
    s = cube.system
    process: dict[int, int] = {}
    threads: dict[int, int] = {}
    coordinates: list[list[int] | None] = [None] * s.n_locations
    for node, row in enumerate(s.location):
        if row >= 0 and s.location_type[row] not in ("metric", "gpu"):
            above = s.parent[node]
            column = process.setdefault(above, len(process))
            coordinates[row] = [column, threads.get(above, 0)]
            threads[above] = threads.get(above, 0) + 1
    return {
        "name": "Process x thread",
        "dimensions": [
            {"name": "process", "size": len(process), "periodic": False},
            {"name": "thread", "size": max(threads.values(), default=0), "periodic": False},
        ],
        "coordinates": coordinates,
    }
