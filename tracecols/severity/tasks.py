"""Explicit tasks in a cube: their time appears twice, where they were scheduled and on call paths of their own below
TASKS.

As in the reference (`patterns.profile.task_cells`), the second appearance is deducted at the program's root, whose
cells may become negative. Sums over all call paths are right. Code that looks at single call paths, or leaves out the
root, has to account for both.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.schema.enums import TASKS
from tracecols.schema.properties import COMPUTATION, EXECUTION, IDLE, TIME
from tracecols.severity.cells import Cells
from tracecols.severity.periods import PeriodCells
from tracecols.severity.queries import Severities

SomeCells = TypeVar("SomeCells", Cells, PeriodCells)

TAKEN_OFF = {TIME: TIME, EXECUTION: EXECUTION, COMPUTATION: EXECUTION, IDLE: IDLE}
"""Properties of which the root deducts the second appearance, each with the property whose time below TASKS that is."""


def roots_of_tasks(cube: Severities) -> NDArray[np.int64]:
    """Return for call paths of tasks the root that deducts them, and -1 for all others; (n_call_paths,) int64.

    The root is the program, or TASKS itself if no program is recorded. The conventions of EXPERT do not distinguish
    tasks.
    """
    c = cube.call_paths
    result = np.full(len(c), -1, np.int64)
    if cube.facts.get("conventions") == "expert":
        return result
    for head in np.flatnonzero(c.named(lambda name: name == TASKS) & (c.role == "artificial")).tolist():
        above = int(c.parent[head])
        if above >= 0:
            result[head : c.end[head]] = above
        else:
            result[head + 1 : c.end[head]] = head
    return result


def second_appearance(roots: NDArray[np.int64], cells: SomeCells) -> SomeCells:
    """Add up the cells of tasks at the root that deducts them (`roots_of_tasks`)."""
    return cells.on(roots >= 0).moved(roots)


def with_tasks_once(roots: NDArray[np.int64], cells: Cells) -> Cells:
    """Return cells without tasks and without their deduction at the root; both cancel out, so the sum stays the
    same."""
    others = cells.on(roots < 0)
    return others + second_appearance(roots, cells) if len(others) < len(cells) else cells
