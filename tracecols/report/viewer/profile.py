"""Time profile of a divided cube, and groups of similar phases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.schema.properties import COMPUTATION, EXECUTION, TIME
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.cube import SeverityCube
from tracecols.severity.narrowed import ranges
from tracecols.severity.periods import OUTSIDE
from tracecols.severity.reduction import reduce_at
from tracecols.severity.similar import largest_outliers

WAITS = "waits"
"""Id of the part of the time in which locations wait for each other."""

SHOWN_OUTLIERS = 12
LONGEST = 60
"""Maximum length of the text that lists the phases of a group."""


def part_of(axis: PropertyAxis, name: str) -> str | None:
    """Return the part of the time to which the exclusive value of a property belongs; None for none.

    Parts are computation, the other properties below `execution` and `time` (MPI, OpenMP, idle threads and so on), and
    of all of these the wait states. They divide the time: each property is in exactly one part, except properties that
    overlap their siblings, which are in none.
    """
    part = COMPUTATION
    steps = [name, *axis.above(name)]
    if steps[-1] != TIME or any(axis.overlaps[axis.number[step]] for step in steps):
        return None
    if any(axis.is_wait[axis.number[step]] for step in steps):
        return WAITS
    for step in steps:
        if step not in (TIME, EXECUTION):
            part = step
    return part


def divided_time(axis: PropertyAxis, inclusive: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Divide the time into parts that add up to it, as in `time_profile`; parts that are 0 everywhere are left out,
    unless all are. `inclusive` are arrays of the values of properties, by id; missing ones are 0."""
    sums: dict[str, NDArray[Any]] = {}
    of: dict[str, list[int]] = {}
    nothing = np.zeros_like(inclusive[TIME])
    for name in axis.id:
        part, below = part_of(axis, name), [child for child in axis.parts(name) if child in inclusive]
        if part is not None and (name in inclusive or below):
            own = inclusive.get(name, nothing) - sum(inclusive[child] for child in below)
            sums[part] = sums.get(part, nothing) + own
            of.setdefault(part, []).append(axis.number[name])
    order = [COMPUTATION, *(c for c in axis.children.get(EXECUTION, ()) if c != COMPUTATION), WAITS]
    shown = [part for part in sums if sums[part].any()] or [*sums]
    shown.sort(key=lambda part: order.index(part) if part in order else len(order))
    titles = {COMPUTATION: "Computation", WAITS: "Waiting"}
    return [
        {"id": part, "title": titles.get(part) or axis.title_of(part), "of": of[part], "values": sums[part]}
        for part in shown
    ]


def time_profile(cube: SeverityCube) -> dict[str, Any] | None:
    """Return the time of each period, divided into parts that add up to it; None if the cube is not divided or has no
    time in any period.

    Each part has `id`; `title`; `of`, the numbers of the properties whose exclusive values are counted; and `values`,
    the ticks of every period. Parts that are 0 in all periods are left out.
    """
    axis = cube.properties
    if cube.periods is None or TIME not in cube.period_cells or not len(cube.period_cells[TIME]):
        return None
    inside = {name: cells.where(cells.period != OUTSIDE) for name, cells in cube.period_cells.items()}
    sums = {name: reduce_at(of.period, of.value, len(cube.periods)) for name, of in inside.items()}
    parts = [{**part, "values": part["values"].tolist()} for part in divided_time(axis, sums) if part["values"].any()]
    return {"parts": parts} if parts else None


def similar_phases(cube: SeverityCube) -> dict[str, Any] | None:
    """Return the groups of similar phases (`SeverityCube.similar_periods`); None if the cube is not divided by phases
    or has no times.

    The keys are `group`, the group number of every phase, -1 none; `groups`, each with its representative phase, number
    of phases, largest distance and list of phases; `outliers`, the phases that differ most from the median, each with
    the relative difference; and `n_outliers`, the number of all outliers.
    """
    if cube.periods is None or cube.periods.kind != "phase" or TIME not in cube.period_cells:
        return None
    table = cube.similar_periods(TIME)
    groups = []
    for _, members in table[table.group >= 0].groupby("group"):
        numbers = ranges(members.index.tolist()).replace(",", ", ")
        groups.append(
            {
                "representative": int(members.representative.iloc[0]),
                "n": len(members),
                "within": float(members.distance.max()),
                "phases": numbers if len(numbers) <= LONGEST else f"{numbers[:LONGEST].rpartition(',')[0]} and more",
            }
        )
    beyond = largest_outliers(table, SHOWN_OUTLIERS).fillna(0.0)
    return {
        "group": table.group.tolist(),
        "groups": groups,
        "outliers": [list(pair) for pair in zip(beyond.index.tolist(), beyond.tolist(), strict=True)],
        "n_outliers": int(table.is_outlier.sum()),
    }
