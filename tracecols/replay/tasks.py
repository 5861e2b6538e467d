"""The nodes of a replay for explicit tasks of OpenMP: events at which threads switch between them, and wait for them.

A thread executes tasks in a barrier or a taskwait. The time of the tasks is computation like any other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.enhance.scan.instances import scan_stacks
from tracecols.enhance.scan.location_scan import ACTION
from tracecols.enhance.scan.tasks import COMPLETES, SWITCHES
from tracecols.kernels.actions import POP, PUSH
from tracecols.model.model import Model
from tracecols.vectors import Ints, Mask

TASK_CHANGES = (*SWITCHES, *COMPLETES)
"""Kinds of events after which another task runs."""

TASKWAIT = "task_wait"
"""Role of regions that wait for child tasks."""

WAITING = (TASKWAIT, "barrier", "implicit_barrier")
"""Roles of OpenMP regions in which threads wait for tasks, or execute them."""


class TaskRows(NamedTuple):
    """The nodes of locations for tasks, location by location."""

    row: Ints
    """(n,): events, ascending: those of tasks, ENTER and EXIT of taskwaits."""
    waits: Mask
    """(n,): whether the thread waits before the event, in a barrier or a taskwait, and executes no task."""
    taskwaits: Ints
    """(n_taskwaits,): EXITs of taskwaits, likewise ascending."""


def task_rows(model: Model, locations: Ints) -> TaskRows:
    """Find the nodes for tasks of some locations, ascending; one more pass over the events of locations with tasks."""
    nothing = TaskRows(np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, np.int64))
    found = [_task_rows(model, i) for i in locations[model.store.counts("tasks")[locations] > 0].tolist()]
    return TaskRows(*map(np.concatenate, zip(nothing, *found, strict=True)))


def _task_rows(model: Model, location: int) -> TaskRows:
    first = int(model.facts.first_rows[location])
    columns = scan_stacks(model.facts, model.scans, model.team_instances, location)
    regions, paths = model.regions, model.call_paths.whole
    before = call_path_before(paths, columns["kind"], model.call_paths.path_of(columns["call_path"]))
    of_openmp = regions.paradigm == "openmp"
    is_taskwait, is_waiting = (of_openmp & np.isin(regions.role, roles) for roles in ([TASKWAIT], WAITING))
    around = pick(paths.region.astype(np.int64), before)
    entered = columns["region"]
    of_taskwait = np.flatnonzero((entered >= 0) & np.append(is_taskwait, False)[entered])
    tasks = model.store.read("tasks", location, ["row"])["row"] - first
    row = np.union1d(tasks, of_taskwait)
    leaves = of_taskwait[ACTION[columns["kind"][of_taskwait]] == POP]
    return TaskRows(row + first, np.append(is_waiting, False)[around[row]], leaves + first)


def call_path_before(paths: CallPaths, kind: NDArray[np.uint8], call_path: Ints) -> Ints:
    """Return the call path that a location is in before each of its events, -1 for none, from the one that an ENTER
    enters or an EXIT leaves."""
    enters = ACTION[kind] == PUSH
    parent = pick(paths.parent.astype(np.int64), np.where(enters, call_path, -1))
    return np.where(enters, parent, call_path)
