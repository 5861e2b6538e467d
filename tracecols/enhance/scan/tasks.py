"""The tasks of a location, numbered for the kernels that walk through its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import combine
from tracecols.kernels.actions import TASK_COMPLETE, TASK_SWITCH, kinds_that
from tracecols.schema import EventKind
from tracecols.store import Store
from tracecols.vectors import Ints, Mask

SWITCHES, COMPLETES = kinds_that(TASK_SWITCH), kinds_that(TASK_COMPLETE)
CREATES = (EventKind.THREAD_TASK_CREATE, EventKind.OMP_TASK_CREATE)
OLDER = (EventKind.OMP_TASK_CREATE, EventKind.OMP_TASK_SWITCH, EventKind.OMP_TASK_COMPLETE)

NAMES = ("kind", "team", "creator", "generation", "task")
"""Columns of the table `tasks` that name a task."""


def name_tasks(
    process: NDArray[np.int32], kind: NDArray[np.uint8], *name: NDArray[np.signedinteger[Any]]
) -> tuple[Ints, Mask]:
    """Return a number for the name of the task of each event, which later tasks of the process may have again, and
    whether it is an implicit task; (n,).

    Older recordings number tasks, others count those of each creator in a team. `kind` and `name` are the columns
    `NAMES`.
    """
    team, creator, generation, task = (column.astype(np.int64) for column in name)
    old = np.isin(kind, OLDER)
    keys = [np.where(old, 0, column) for column in (team, creator, generation)]
    return combine(process, *keys, np.where(old, task, 0)), np.where(old, task, generation) == 0


@dataclass
class TaskEvents:
    """The events of one location that switch or complete tasks, in order."""

    row: Ints
    """(n,): rows of the events, relative to a first row."""
    kind: NDArray[np.uint8]
    """(n,)"""
    slot: Ints
    """(n,): number of the task; 0 is the implicit one."""

    @classmethod
    def of(cls, store: Store, location: int, first_row: int = 0) -> TaskEvents:
        """Read the events of a location; rows are relative to `first_row`."""
        if not store.n_rows("tasks", location):
            return NO_TASK_EVENTS
        t = store.read("tasks", location, ["row", "kind", "creator", "generation", "task"])
        mine = np.isin(t["kind"], (*SWITCHES, *COMPLETES))
        row, kind, creator, generation, task = (t[c][mine] for c in ("row", "kind", "creator", "generation", "task"))
        old = np.isin(kind, OLDER)
        implicit = np.where(old, task == 0, generation == 0)
        slot = np.zeros(row.size, np.int64)
        if not implicit.all():
            key = np.where(old, task, (creator.astype(np.int64) << 32) + generation)
            slot[~implicit] = np.unique(key[~implicit], return_inverse=True)[1] + 1
        return cls(row - first_row, kind, slot)

    @property
    def n_tasks(self) -> int:
        """Number of tasks, the implicit one included."""
        return int(self.slot.max(initial=0)) + 1


NO_TASK_EVENTS = TaskEvents(np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.int64))
"""The task events of a location that never switches between tasks."""
