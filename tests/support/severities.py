"""Results in the form in which tests state them: severities in ticks by region and location."""

from __future__ import annotations

from typing import Any

from tracecols.severity import SeverityCube
from tracecols.testing import Program


def cube_of(program: Program, *conventions: str, **options: Any) -> SeverityCube:
    """Analyze a program."""
    with program.trace() as trace:
        return trace.analyze(*conventions, **options)


def cells(cube: SeverityCube, name: str) -> dict[tuple[str, int] | tuple[str, int, int], int]:
    """Return the severities of a property, in ticks, by name of the region, rank, and thread (omitted for masters).

    Call paths with the same last region are added up.
    """
    found: dict[tuple[str, int] | tuple[str, int, int], int] = {}
    of = cube.cells[name]
    for call_path, location, value in zip(of.call_path.tolist(), of.location.tolist(), of.value.tolist(), strict=True):
        rank, thread = int(cube.system.rank[location]), int(cube.system.thread[location])
        key = (str(cube.call_paths.name[call_path]), rank, *((thread,) if thread else ()))
        found[key] = found.get(key, 0) + value
    return found
