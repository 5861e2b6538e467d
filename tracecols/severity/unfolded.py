"""Phases as call paths, for other tools, which have no fourth axis."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.severity.axes import CallAxis
from tracecols.severity.cells import Cells, keys_above
from tracecols.severity.periods import OUTSIDE, PeriodCells
from tracecols.severity.queries import Cube, Severities
from tracecols.severity.reduction import ends

INSTANCE = "instance"
"""Score-P's name for instances of a region that it distinguishes: `instance=0` below the region, and so on."""


def with_phases_as_call_paths(cube: Cube) -> Cube:
    """Return the same severities with phases as separate call paths, as Score-P distinguishes the instances of dynamic
    regions.

    A region whose instances are phases gets a child `instance=k` for each, with what happens in it. Phases that last
    from one call to the next, and bins of time, are roots: `phase=k` and `bin=k`. Severities outside of all phases keep
    their call paths. The cube returned has no periods.

    Raises
    ------
    SeverityError
        If the cube is not divided.

    Examples
    --------
    >>> cube = tracecols.open("run.trace").analyze(phases="timestep")  # doctest: +SKIP
    >>> cube.with_phases_as_call_paths().call_paths.path[:3]  # doctest: +SKIP
    ['main', 'main/timestep', 'main/timestep/instance=0']
    """
    axis, periods = cube.call_paths, cube.divided()
    n, n_periods = len(axis), len(periods) + 1
    both = [*cube.period_cells.values(), *(cube.outside or {}).values()]
    found = [c.call_path.astype(np.int64) * n_periods + (c.period + 1) for c in both]
    key = distinct(np.concatenate([np.zeros(0, np.int64), *found]))
    path, period = np.divmod(key, n_periods)
    head = _heads(axis, path[period > 0], periods.kind == "bin" or periods.words.startswith("from:"))
    is_root = head < 0
    # call paths in phases and those above them up to a head; then those outside of phases, heads, and those above
    inside = period > 0
    key = keys_above(path[inside], period[inside], np.where(np.arange(n) == head, -1, axis.parent).astype(np.int32))
    around = head[path[inside]]
    outside = distinct(np.concatenate([path[~inside], around[around >= 0]]))
    key = np.sort(np.concatenate([key, keys_above(outside, np.zeros(outside.size, np.int64), axis.parent)]))
    path, period = key >> 32, key & 0xFFFFFFFF
    roots = distinct(period[(period > 0) & is_root[path]])
    path, period = np.append(path, np.full(roots.size, -1)), np.append(period, roots)
    inside = period > 0
    of = np.where(path >= 0, head[path], -1)
    # depth first: instances after everything else below their region
    last = np.where(of >= 0, axis.end[of] - 1, n)
    order = np.lexsort((path, period, inside, np.where(inside, last, path)))
    path, period, inside, of = path[order], period[order], inside[order], of[order]
    is_phase = inside & (path == of)
    number = np.full(path.size, -1, np.int64)
    key = (path + 1) * n_periods + period
    by_key = np.argsort(key)
    key = key[by_key]
    over = np.where(path >= 0, axis.parent[path], -1)
    wanted = np.where(is_phase, (of + 1) * n_periods, (over + 1) * n_periods + period)
    at = np.minimum(np.searchsorted(key, wanted), key.size - 1)
    has = np.where(is_phase, of >= 0, (over >= 0) | (inside & (of < 0)))
    number[has] = by_key[at[has]]
    depth = np.where(path >= 0, axis.depth[path], -1) + inside
    tree = _tree(cube, path, period, is_phase, number, depth.astype(np.int32))

    def moved(c: PeriodCells) -> NDArray[np.int64]:
        return by_key[np.searchsorted(key, (c.call_path.astype(np.int64) + 1) * n_periods + (c.period + 1))]

    cells = {name: Cells.sum(moved(c), c.location, c.value) for name, c in cube.period_cells.items()}
    apart = cube.outside and {
        name: PeriodCells.ordered(moved(c), c.location, np.full(len(c), OUTSIDE), c.value)
        for name, c in cube.outside.items()
    }
    facts = {k: v for k, v in cube.facts.items() if k != "narrowed"}
    if narrowed := {
        k: v for k, v in cube.facts.get("narrowed", {}).items() if k not in ("phases", "bins", "bin_width")
    }:
        facts["narrowed"] = narrowed
    return cube.replaced(call_paths=tree, cells=cells, facts=facts, periods=None, period_cells={}, outside=apart)


def _heads(axis: CallAxis, path: NDArray[np.int64], as_roots: bool) -> NDArray[np.int64]:
    """Return for every call path the outermost one above it, or itself, that occurs in phases; -1 if none does, or if
    phases are roots."""
    head = np.full(len(axis), -1, np.int64)
    if as_roots:
        return head
    occurs = np.zeros(len(axis), bool)
    occurs[path] = True
    reach = -1
    for i in np.flatnonzero(occurs).tolist():
        if i >= reach:
            reach = int(axis.end[i])
            head[i:reach] = i
    return head


def _tree(
    cube: Severities,
    path: NDArray[np.int64],
    period: NDArray[np.int64],
    is_phase: NDArray[np.bool_],
    parent: NDArray[np.int64],
    depth: NDArray[np.int32],
) -> CallAxis:
    """Return the call tree of some call paths in periods, in depth-first order."""
    axis, periods = cube.call_paths, cube.divided()
    named = periods.kind if periods.kind == "bin" or periods.words.startswith("from:") else INSTANCE

    def column(values: NDArray[np.object_], nothing: object) -> NDArray[np.object_]:
        result = values[path]
        result[is_phase] = nothing
        return result

    name = column(axis.name, "")
    name[is_phase] = [f"{named}={k + OUTSIDE}" for k in period[is_phase].tolist()]
    line, end_line = (np.where(is_phase, 0, values[path]) for values in (axis.line, axis.end_line))
    return CallAxis(
        parent.astype(np.int32),
        depth,
        ends(parent, depth),
        name,
        column(axis.role, "unknown"),
        column(axis.paradigm, "unknown"),
        column(axis.file, ""),
        line,
        column(axis.call_site, ""),
        end_line,
    )
