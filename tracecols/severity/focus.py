"""The focus of a run: the time between MPI_Init and MPI_Finalize of each process, without the creation of contexts of
devices (docs/diagnosis.md).

An analysis records the part of every severity that lies outside of it (`Severities.outside`). Cubes of other tools have
no times of single calls. There, start-up and shutdown are found by call path: MPI_Init, MPI_Finalize and what these
call, and the call paths above the one that encloses both, if it is entered only once, as their exclusive time lies
before or after it. Threads idle on the call path of their master and are excluded with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.regions import CONTEXTS
from tracecols.enhance.scan.paths import with_descendants
from tracecols.schema.enums import plain_name
from tracecols.schema.properties import TIME, VISITS
from tracecols.severity.cells import Cells, Made
from tracecols.severity.periods import PeriodCells
from tracecols.severity.queries import Cube, Severities
from tracecols.severity.tasks import TAKEN_OFF, SomeCells, roots_of_tasks, second_appearance

START = ("mpi_init", "mpi_init_thread")
END = ("mpi_finalize",)
"""`START` and `END`: regions in which MPI starts and ends, by `plain_name`."""

CHOSEN = frozenset(("within", "start", "stop"))
"""Narrowings by which the user has chosen what a cube shows; such a cube has no other focus."""


def mpi_call_paths(cube: Severities) -> NDArray[np.bool_]:
    """Select MPI calls and what is below them; (n_call_paths,) bool.

    In files without paradigms, MPI calls are recognised by name.
    """
    c = cube.call_paths
    unknown = np.isin(c.paradigm, ["", "unknown"])
    named = c.named(lambda name: name.lower().startswith("mpi_"))
    # a region that is called PARALLEL is the whole program
    whole = c.named(lambda name: plain_name(name) == "parallel")
    return below(cube, ((c.paradigm == "mpi") & ~whole) | (unknown & named))


def below(cube: Severities, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Select some call paths and what they call; (n_call_paths,) bool."""
    return with_descendants(mask, cube.call_paths.end)


def calls_of(cube: Severities, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Select the call paths that enter one of some MPI calls; (n_call_paths,) bool."""
    found = cube.call_paths.named(lambda name: plain_name(name) in names)
    return found & mpi_call_paths(cube) if found.any() else found


def start_and_end(cube: Severities) -> NDArray[np.bool_]:
    """Select the call paths that lie outside the focus of a run; (n_call_paths,) bool.

    None if MPI does not start in the cube.
    """
    start, end = calls_of(cube, START), calls_of(cube, END)
    result = below(cube, start | end)
    if start.any() and end.any():
        at = enclosing(cube, start | end)
        while at >= 0 and (at := int(cube.call_paths.parent[at])) >= 0:
            result[at] = True
    return result


def enclosing(cube: Severities, mask: NDArray[np.bool_]) -> int:
    """Return the deepest call path that has all of the selected ones below it and that no location enters twice; -1 if
    there is none."""
    c = cube.call_paths
    heads = np.flatnonzero(mask)
    at = int(c.parent[heads.min()])
    while at >= 0 and not (at <= heads.min() and heads.max() < c.end[at]):
        at = int(c.parent[at])
    visits = cube.cells.get(VISITS)
    if visits is None:
        return -1
    is_repeated = np.zeros(len(c), bool)
    is_repeated[visits.call_path[visits.value > 1]] = True
    while at >= 0 and is_repeated[at]:
        at = int(c.parent[at])
    return at


def contexts(cube: Severities) -> NDArray[np.bool_]:
    """Select the call paths that create contexts of devices, and what they call; (n_call_paths,) bool. None in a cube
    without devices."""
    if "gpu" not in cube.system.location_type:
        return np.zeros(len(cube.call_paths), bool)
    return below(cube, cube.call_paths.named(lambda name: CONTEXTS.fullmatch(plain_name(name)) is not None))


def set_apart(cube: Severities) -> NDArray[np.bool_]:
    """Select the call paths that are entirely outside the focus; (n_call_paths,) bool.

    None in a cube that was narrowed to a region or a time range, or made of several, as the user has chosen what it
    shows, and none if nothing would be left.
    """
    nothing = np.zeros(len(cube.call_paths), bool)
    narrowed: Mapping[str, Any] = cube.facts.get("narrowed") or {}
    if CHOSEN & set(narrowed) or cube.facts.get("operation") or TIME not in cube.cells:
        return nothing
    apart = start_and_end(cube)
    if not len(cube.cells[TIME].on(~apart)):
        apart = nothing
    with_contexts = apart | contexts(cube)
    return with_contexts if len(cube.cells[TIME].on(~with_contexts)) else apart


def without(cube: Cube, apart: NDArray[np.bool_]) -> Cube:
    """Return a cube without the cells of some call paths, but with what the program's root deducts for tasks that
    stay."""
    roots = roots_of_tasks(cube)
    # tasks that stay while their root does not: what the root deducts for them stays, too
    roots = np.where((roots >= 0) & ~apart & apart[roots], roots, -1)
    return _less(cube, partial(_without, apart, roots))


def _less(cube: Cube, left_of: Callable[[Any, str], Any]) -> Cube:
    """Return a cube with what `left_of` returns of the cells of a property, given all cells and its id."""
    cells: Made[Cells] = Made(cube.cells, partial(left_of, cube.cells))
    by_period: Made[PeriodCells] = Made(cube.period_cells, partial(left_of, cube.period_cells))
    return cube.replaced(cells=cells, period_cells=by_period, facts=dict(cube.facts))


def _without(
    apart: NDArray[np.bool_], roots: NDArray[np.int64], cells: Mapping[str, SomeCells], name: str
) -> SomeCells:
    """Return the cells of a property on the call paths that stay, less what the program's root deducts for tasks."""
    found, of = cells[name].on(~apart), TAKEN_OFF.get(name)
    if of is None or of not in cells or not (roots >= 0).any():
        return found
    return found - second_appearance(roots, cells[of])


def focused(cube: Cube) -> Cube:
    """Return a cube of the focus, described by its fact `focus`; the same cube if nothing lies outside of it.

    Its call paths, locations and properties are those of the whole cube.
    """
    if "focus" in cube.facts:
        return cube
    apart = set_apart(cube)
    if not apart.any():
        return cube
    whole, creates = cube.total(TIME), contexts(cube) & apart
    in_time = without(cube, start_and_end(cube) & apart) if cube.outside is None else without_start_and_end(cube)
    result = without(in_time, creates) if creates.any() else in_time
    inside = result.total(TIME)
    if not whole or inside <= 0:
        return cube
    parts = ["MPI_Init to MPI_Finalize"] * bool(start_and_end(cube).any())
    parts += ["without device contexts" if parts else "the run without device contexts"] * bool(creates.any())
    creating = in_time.by_location(TIME, creates)[cube.system.master[cube.system.is_thread]]
    result.facts["focus"] = {
        "share": inside / whole,
        "seconds": whole - inside,
        "words": " ".join(parts),
        "creating": float(creating.min()) if creating.size else 0.0,
    }
    return result


def without_start_and_end(cube: Cube) -> Cube:
    """Return a cube without what lies outside of the time between MPI_Init and MPI_Finalize."""
    return _less(cube, partial(_inside, cube.outside or {}))


def _inside(outside: Mapping[str, PeriodCells], cells: Mapping[str, SomeCells], name: str) -> SomeCells:
    """Return the cells of a property less what lies outside of the focus."""
    found, apart = cells[name], outside[name]
    return found - apart if isinstance(found, PeriodCells) else found - apart.summed()


def words_of(facts: Mapping[str, Any]) -> str:
    """Return what the focus of a cube covers, such as MPI_Init to MPI_Finalize; empty if it has none."""
    focus = facts.get("focus")
    return str(focus.get("words", "")) or "MPI_Init to MPI_Finalize" if focus else ""


def in_words(facts: Mapping[str, Any]) -> str:
    """Describe the focus of a cube; empty if it has none."""
    words = words_of(facts)
    return f"focus: {words}, {facts['focus']['share']:.1%} of the time" if words else ""
