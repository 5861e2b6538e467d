"""The grids on which severities can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracecols.severity.cube import SeverityCube
from tracecols.severity.grids import stand_ins

DRAWN = 3
"""Maximum number of dimensions drawn; severities are summed over the others."""


def topologies_of(cube: SeverityCube) -> list[dict[str, Any]]:
    """Return the Cartesian topologies of a cube, and process x thread unless that is one of them.

    Each has `name`; `dimensions`, each with name, size (0 unknown) and periodic; `coordinates`, for every location a
    list of one number per dimension, or None if it has no position; `axes`, the dimensions drawn initially as x, y and
    z, -1 none; and `is_artificial`, whether it only counts processes and threads. Several locations may share a
    position: as in `SeverityCube.on_topology`, threads without a position of their own take that of the first thread of
    their process.
    """
    given = [t.to_dict() for t in getattr(cube, "topologies", ())]
    found = [_placed(t, cube) for t in given]
    if not any(t["is_artificial"] for t in given):
        found.append(_process_thread(cube))
    return [t | {"axes": first_axes(sizes_of(t))} for t in found]


def sizes_of(topology: dict[str, Any]) -> list[int]:
    """Return the sizes of the dimensions; an unknown size is the largest coordinate of a location + 1."""
    placed = [at for at in topology["coordinates"] if at]
    return [
        dimension["size"] or max((at[d] + 1 for at in placed), default=0)
        for d, dimension in enumerate(topology["dimensions"])
    ]


def first_axes(sizes: Sequence[int]) -> list[int]:
    """Return the dimensions drawn initially: those with more than one position; if there are too many, the largest, in
    descending order of size; -1 none."""
    wide = [d for d, size in enumerate(sizes) if size > 1] or [0]
    if len(wide) > DRAWN:
        wide = sorted(wide, key=lambda d: -sizes[d])[:DRAWN]
    return wide + [-1] * (DRAWN - len(wide))


def default_topology(topologies: Sequence[dict[str, Any]]) -> int:
    """Return the number of the topology shown initially.

    It is one of the program with two or three dimensions that have more than one position; else processes x threads,
    except that a line of the program precedes it if either number is 1. Topologies with more dimensions than can be
    drawn come last.
    """

    def rank(number: int) -> tuple[int, int]:
        t = topologies[number]
        n_wide = sum(size > 1 for size in sizes_of(t))
        order = {(False, 2): 0, (False, 3): 0, (True, 2): 1, (False, 1): 2, (True, 1): 3, (True, 0): 4}
        return order.get((t["is_artificial"], n_wide), 5), -sum(at is not None for at in t["coordinates"])

    return min(range(len(topologies)), key=rank)


def _placed(given: dict[str, Any], cube: SeverityCube) -> dict[str, Any]:
    """Spread the coordinates of a topology over all locations."""
    position = dict(zip(given["locations"], given["coordinates"], strict=True))
    counts_at = stand_ins(cube.system, np.array(sorted(position), np.int32))
    coordinates = [position[at] if at >= 0 else None for at in counts_at.tolist()]
    columns = zip(given["dimensions"], given["sizes"], given["periodic"], strict=True)
    return {
        "name": given["name"],
        "dimensions": [{"name": name, "size": size, "periodic": periodic} for name, size, periodic in columns],
        "coordinates": coordinates,
        "is_artificial": given["is_artificial"],
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
        "is_artificial": True,
    }
