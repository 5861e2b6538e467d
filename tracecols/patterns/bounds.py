"""Bounds on every cell of an analysis: no severity is negative, and none in the tree of `time` exceeds the time.

A cell that violates them is a mistake, of tracecols or of a pattern, and is refused. Five conditions excuse a cell, and
are counted in the notes of the cube:

* Explicit tasks count twice in the call tree; the reference subtracts the second appearance from the program's root,
  whose exclusive time may become negative (`profile.task_cells`).
* Call paths on which teams are forked whose threads are elsewhere at that time (a damaged recording): the time to fork
  and to join is subtracted more than once.
* Rules that do not end waiting with the call (`Pattern.ends_with_call`): if clocks disagree, waiting ends after the
  call.
* Calls in which several waits of one property overlap, each within the call.
* Processes in which recorded times decrease, or whose buffer flushes overlap with other events: the exclusive time of a
  call path is a sum of differences that may be negative, and less than the waiting recorded in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import AnalysisError
from tracecols.given.quantities import counted
from tracecols.model.model import Model
from tracecols.patterns.base import Conventions, Property
from tracecols.patterns.team_times import TeamTimes
from tracecols.schema.properties import TIME
from tracecols.severity.axes import CallAxis, SystemAxis
from tracecols.severity.cells import Cells, inclusive

Largest = Callable[[Property, Cells], NDArray[np.int64]]
"""Function of a property and some of its cells: the largest match in each, (n_cells,) int64."""

NEGATIVE_ROOTS = "cells of a program's root that are negative because the reference takes explicit tasks off it"
OVERLAPPING_TEAMS = "cells that are negative because teams overlap that were forked on one call path"
BACKWARDS = "cells that are negative because times decrease in the recording"
BEYOND_THE_CALL = "cells with more waiting than time, because clocks disagree or waits of one call overlap"


def check_bounds(
    model: Model,
    conventions: Conventions,
    teams: TeamTimes,
    declared: Sequence[Property],
    cells: Mapping[str, Cells],
    largest: Largest,
    call_paths: CallAxis,
    system: SystemAxis,
) -> dict[str, int]:
    """Refuse impossible severities, and count the excused ones by note.

    `teams` holds the costs of teams, and the call paths on which they are forked; `declared` properties are in
    depth-first order; `largest(p, cells)` is the largest match of a pattern in each of some cells. Raises AnalysisError
    if a cell is negative, or exceeds the time of its call path with all that it calls, without an excuse.
    """
    excused: Counter[str] = Counter()
    roots = _roots_of_tasks(model)
    # the idle time of workers is a copy of their master's time
    decreases = model.store.decreases
    backwards = np.array([scan.disordered > 0 or i in decreases for i, scan in enumerate(model.scans)], bool)
    disordered = np.isin(model.process, model.process[backwards])
    forking = np.zeros(len(call_paths), bool)
    forking[model.call_paths.path_of(teams.spent.call_path)] = True

    def refuse(p: Property, wrong: Cells, excuse: NDArray[np.bool_], what: str) -> None:
        if not excuse.all():
            raise _impossible(p, wrong.where(~excuse), what, call_paths, system, model.resolution)

    within: Cells | None = None
    tree = TIME
    in_time = {tree}
    for p in declared:
        # matches are not negative (`Search`), counters may be
        if p.id != tree and (p.parent not in in_time or p.unit != "sec"):
            continue
        in_time.add(p.id)
        found = cells[p.id]
        negative = found.where(found.value < 0)
        if len(negative):
            at_root, at_fork = roots[negative.call_path], forking[negative.call_path]
            refuse(p, negative, at_root | at_fork | disordered[negative.location], "is negative")
            excused[NEGATIVE_ROOTS] += int(at_root.sum())
            excused[OVERLAPPING_TEAMS] += int((at_fork & ~at_root).sum())
            excused[BACKWARDS] += int((~at_root & ~at_fork).sum())
        if p.id != tree:
            beyond = _beyond(found, cells[tree])
            if not len(beyond):
                continue
            if within is None:
                within = inclusive(cells[tree], call_paths)
            beyond = _beyond(beyond, within)
            if not len(beyond):
                continue
            ends_with_call = conventions.ends_with_call and (p.pattern is None or p.pattern.ends_with_call)
            excuse = disordered[beyond.location] | (not ends_with_call)
            if p.pattern is not None and not excuse.all():
                excuse |= largest(p, beyond) <= within.at(beyond.key)
            refuse(p, beyond, excuse, "exceeds the time of its call path")
            excused[BEYOND_THE_CALL] += len(beyond)
    return dict(excused)


def _beyond(found: Cells, limit: Cells) -> Cells:
    """Return the positive cells whose value is larger than that of the same cell in another set."""
    return found.where((found.value > limit.at(found.key)) & (found.value > 0))


def _roots_of_tasks(model: Model) -> NDArray[np.bool_]:
    """Find the call paths from which explicit tasks are subtracted (`profile.task_cells`); (n_call_paths,) bool."""
    tree = model.call_paths.whole
    roots = np.zeros(len(tree), bool)
    heads = np.flatnonzero(tree.region == model.regions.tasks)
    above = tree.parent[heads]
    roots[np.where(above >= 0, above, heads)] = True
    return roots


def _impossible(
    p: Property, wrong: Cells, what: str, call_paths: CallAxis, system: SystemAxis, resolution: int
) -> AnalysisError:
    """Return the error about some impossible cells, which describes the worst."""
    worst = int(np.abs(wrong.value.astype(np.float64)).argmax())
    location = int(wrong.location[worst])
    path = call_paths.paths_of([int(wrong.call_path[worst])])[0]
    value = f"{wrong.value[worst] / resolution:g} s" if p.unit == "sec" else f"{wrong.value[worst]} {p.unit}"
    return AnalysisError(
        f"property {p.id!r} {what} in {counted(len(wrong), 'cell')}, most at {path}, rank {system.rank[location]} "
        f"thread {system.thread[location]}: {value}\n"
        f"  this is a mistake in its pattern ({p.family}), not in the trace; please report it with the trace, and "
        "leave the property out with --property meanwhile"
    )
