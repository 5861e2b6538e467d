"""The grids a severity can be laid on."""

from __future__ import annotations

from typing import Any

from tracecols.severity.cube import SeverityCube


def topologies_of(cube: SeverityCube) -> list[dict[str, Any]]:
    """Return the Cartesian topologies of a cube, and the one every cube has: process x thread.

    Parameters
    ----------
    cube : SeverityCube
        Its attribute `topologies`, if it has one, holds those of the trace.

    Returns
    -------
    list of dict
        name; dimensions, each with name, size (0 unknown) and periodic; coordinates, for every location a list of one number per
        dimension, or None where it has no place. Several locations may share a place.
    """
    return [*getattr(cube, "topologies", ()), _process_thread(cube)]


def _process_thread(cube: SeverityCube) -> dict[str, Any]:
    """Count processes in the order of the system tree, and the threads of each."""
    s = cube.system
    process: dict[int, int] = {}
    threads: dict[int, int] = {}
    coordinates: list[list[int] | None] = [None] * s.n_locations
    for node, row in enumerate(s.location):
        if row >= 0:
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
