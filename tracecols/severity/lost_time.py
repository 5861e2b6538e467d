"""The lost time of a run, divided among properties so that findings add up."""

from __future__ import annotations

import numpy as np

from tracecols.schema.properties import TIME
from tracecols.severity.cells import Cells
from tracecols.severity.finding import is_below, of_computation
from tracecols.severity.queries import Severities


def losses(cube: Severities) -> list[str]:
    """Return the properties of the tree of times that are losses, in a narrowed cube only those it was narrowed to;
    parents before children."""
    axis = cube.properties
    asked = (cube.facts.get("narrowed") or {}).get("properties")
    # without a property for computation, the exclusive time of execution is computation
    useful = {TIME, of_computation(cube)}
    return [
        name
        for name in axis.id
        if name not in useful
        and axis.root_of(name) == TIME
        and axis.adds_up(name)
        and (asked is None or any(is_below(cube, name, top) for top in asked))
    ]


def divided(cube: Severities) -> dict[str, Cells]:
    """Divide the lost time among properties, each without the properties below it, so that findings add up.

    A property that may overlap its siblings gets at most what they leave of its parent's cells; the parent keeps the
    rest.
    """
    axis = cube.properties
    candidates = losses(cube)
    overlapping = {name for name in candidates if axis.overlaps[axis.number[name]]}
    result: dict[str, Cells] = {}
    for name in candidates:
        if name in result or any(axis.overlaps[axis.number[above]] for above in axis.above(name)):
            continue
        if name in overlapping:
            # its parent is not a candidate
            result[name] = cube.cells[name]
            continue
        own = cube.cells_of(name, "eee")
        for part in axis.children[name]:
            if part in overlapping:
                others = cube.cells[part]
                value = np.minimum(others.value, np.maximum(own.at(others.key), 0))
                taken = result[part] = Cells(others.key, value).where(value > 0)
                own = own - taken if len(taken) else own
        result[name] = own
    return {name: result[name] for name in candidates if name in result}
