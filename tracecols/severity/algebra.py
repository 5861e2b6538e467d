"""Arithmetic on severity cubes (as Cube's algebra has it): difference, merge, mean, minimum, maximum.

The operands' trees are unified by names first. Results are cubes and support everything that cubes do; their values may
be negative. A ratio is not additive, so no cube can hold it; `tracecols.severity.comparison` has it in its tables.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.errors import SeverityError
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis, depths
from tracecols.severity.cells import Cells, Made
from tracecols.severity.periods import PeriodAxis, PeriodCells
from tracecols.severity.queries import Cube, Severities
from tracecols.severity.reduction import REDUCTIONS, ends

BY = ("position", "aggregate")
"""How locations of different cubes correspond: by rank and thread, or all locations of a cube as one."""

OF_ANY_TREES = ("conventions", "counts", "narrowed", "focus", "operation", "of", "whole", "left_out")
"""Facts that are neither times in ticks nor numbers of call paths and locations."""

MUST_AGREE = {
    "aggregation": ("its values are {!r} in one cube and {!r} in another", "the cubes come from different tools"),
    "formula": ("it is computed as {!r} in one cube and as {!r} in another", "give one of them another name"),
    "unit": ("it is in {!r} in one cube and in {!r} in another", "the cubes come from different tools or conventions"),
}
"""Columns in which a property is the same in all cubes, with the message if it is not."""


class _Forest:
    """Union of several trees, in which nodes are the same if they have the same key below the same node."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.origin: list[tuple[int, int]] = []
        self._number: dict[tuple[int, Hashable], int] = {}

    def add(self, parent: int, key: Hashable, cube: int, row: int) -> int:
        """Add a node unless it exists; return its number. Its attributes are those of the first cube that has it."""
        number = self._number.setdefault((parent, key), len(self.parent))
        if number == len(self.parent):
            self.parent.append(parent)
            self.origin.append((cube, row))
        return number

    def depth_first(self) -> NDArray[np.int64]:
        """Return the nodes in depth-first order, children in order of their appearance."""
        children: list[list[int]] = [[] for _ in range(len(self.parent) + 1)]
        for i, parent in enumerate(self.parent):
            children[parent].append(i)
        order: list[int] = []
        stack = children[-1][::-1]
        while stack:
            order.append(stack.pop())
            stack += reversed(children[order[-1]])
        return np.array(order, np.int64)


def _position_of(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each node in an order, followed by -1 as the position of parent -1."""
    position = np.full(order.size + 1, -1, np.int64)
    position[order] = np.arange(order.size)
    return position


def _united_properties(cubes: Sequence[Severities]) -> PropertyAxis:
    """Unify properties by id; each keeps the parent that it has in the first cube with it."""
    forest = _Forest()
    number: dict[str, int] = {}
    for c, cube in enumerate(cubes):
        p = cube.properties
        for row, name in enumerate(p.id):
            if name not in number:
                number[name] = forest.add(number[p.parent[row]] if p.parent[row] else -1, name, c, row)
                continue
            first, at = forest.origin[number[name]]
            for column, (words, hint) in MUST_AGREE.items():
                one, other = getattr(cubes[first].properties, column)[at], getattr(p, column)[row]
                if one != other:
                    raise SeverityError(f"cannot compare property {name!r}: {words.format(one, other)}\n  {hint}")
    origin = [forest.origin[i] for i in forest.depth_first().tolist()]
    columns = PropertyAxis.__dataclass_fields__
    axis = PropertyAxis(*([getattr(cubes[c].properties, f)[row] for c, row in origin] for f in columns))
    ids = [*number, ""]
    axis.parent = [ids[forest.parent[number[name]]] for name in axis.id]
    return axis


def _united_call_paths(cubes: Sequence[Severities]) -> tuple[CallAxis, list[NDArray[np.int64]]]:
    """Unify call paths by the names and call sites from the root.

    Siblings that share both (two functions of one name in different files) are distinguished by their order. If every
    cube has one root, the roots count as the same whatever their names: programs are often named after the number of
    processes.
    """
    forest = _Forest()
    one_root = all(int((cube.call_paths.parent < 0).sum()) == 1 for cube in cubes)
    numbers = []
    for c, cube in enumerate(cubes):
        axis = cube.call_paths
        seen: dict[Hashable, int] = {}
        mine: list[int] = []
        for row, (parent, name, site) in enumerate(zip(axis.parent.tolist(), axis.name, axis.call_site, strict=True)):
            above = mine[parent] if parent >= 0 else -1
            alike = (above, name, site)
            seen[alike] = seen.get(alike, 0) + 1
            key: Hashable = "the program" if parent < 0 and one_root else (name, site, seen[alike])
            mine.append(forest.add(above, key, c, row))
        numbers.append(np.array(mine, np.int64))
    order = forest.depth_first()
    position = _position_of(order)
    parents = position[np.array(forest.parent, np.int64)[order]]
    depth = depths(parents.tolist())
    origin = [forest.origin[i] for i in order.tolist()]

    def column(field: str) -> NDArray[Any]:
        values = [getattr(cubes[c].call_paths, field)[row] for c, row in origin]
        return np.array([*values, None], object)[:-1]

    columns: dict[str, Any] = {field: column(field) for field in ("name", "role", "paradigm", "file", "call_site")}
    columns |= {field: column(field).astype(np.int64) for field in ("line", "end_line")}
    axis = CallAxis(parents.astype(np.int32), depth, ends(parents, depth), **columns)
    return axis, [position[n] for n in numbers]


def _united_systems(cubes: Sequence[Severities]) -> tuple[SystemAxis, list[NDArray[np.int64]]]:
    """Unify locations by rank and thread; each is placed as in the first cube that has it.

    If every cube has one machine, these count as the same whatever their names.
    """
    forest = _Forest()
    locations: list[tuple[int, int]] = []
    row_of: dict[Hashable, int] = {}
    node_of: list[int] = []
    group_of: dict[int, int] = {}
    numbers = []
    one_root = all(cube.system.parent.count(-1) == 1 for cube in cubes)
    for c, cube in enumerate(cubes):
        s = cube.system
        at = {location: node for node, location in enumerate(s.location) if location >= 0}
        seen: dict[Hashable, int] = {}
        mine = []

        def add_node(node: int, c: int = c, s: SystemAxis = s) -> int:
            if node < 0:
                return -1
            key = "the machine" if s.parent[node] < 0 and one_root else (s.kind[node], s.name[node])
            return forest.add(add_node(s.parent[node], c, s), key, c, node)

        for row, (rank, thread) in enumerate(zip(s.rank.tolist(), s.thread.tolist(), strict=True)):
            seen[rank, thread] = seen.get((rank, thread), 0) + 1
            key = (rank, thread, seen[rank, thread])
            if key not in row_of:
                row_of[key] = len(locations)
                locations.append((c, row))
                group = s.parent[at[row]]
                if rank not in group_of or rank < 0:
                    group_of[rank] = forest.add(add_node(s.parent[group]), ("process", rank, s.name[group]), c, group)
                node_of.append(forest.add(group_of[rank], key, c, at[row]))
            mine.append(row_of[key])
        numbers.append(np.array(mine, np.int64))
    order = forest.depth_first()
    of_node = {node: row for row, node in enumerate(node_of)}
    parents = _position_of(order)[np.array(forest.parent, np.int64)[order]]
    origin = [forest.origin[i] for i in order.tolist()]
    axis = SystemAxis(
        [cubes[c].system.kind[node] for c, node in origin],
        [cubes[c].system.name[node] for c, node in origin],
        parents.tolist(),
        [of_node.get(i, -1) for i in order.tolist()],
        np.array([cubes[c].system.rank[row] for c, row in locations], np.int32),
        np.array([cubes[c].system.thread[row] for c, row in locations], np.int32),
        [cubes[c].system.location_name[row] for c, row in locations],
        [cubes[c].system.location_type[row] for c, row in locations],
    )
    return axis, numbers


def _one_location(cubes: Sequence[Severities]) -> tuple[SystemAxis, list[NDArray[np.int64]]]:
    names = ["all locations"] * 3
    zero = np.zeros(1, np.int32)
    axis = SystemAxis(
        ["machine", "process", "thread"], names, [-1, 0, 1], [-1, -1, 0], zero, zero, names[:1], ["cpu_thread"]
    )
    return axis, [np.zeros(cube.system.n_locations, np.int64) for cube in cubes]


FINEST = 10**15
"""Maximum ticks per second of the clock that times of different clocks are converted to, unless one of them is finer:
sums stay exact in float64, too."""


def _times(cube: Severities) -> list[str]:
    """Return the ids of the properties in seconds."""
    return [i for i, unit in zip(cube.properties.id, cube.properties.unit, strict=True) if unit == "sec"]


def _common_clock(cubes: Sequence[Severities]) -> int:
    """Return the resolution of a clock that holds the times of all cubes as integer ticks; 1 if some are float64.

    It is the least common multiple of the resolutions, which is exact, if sums of its ticks fit into 64 bits; else the
    largest power of ten for which they do, up to `FINEST`: times are rounded to ticks, equal ones to the same. If that
    is coarser than all of the clocks, it is 1.
    """
    resolutions = {cube.resolution for cube in cubes}
    if len(resolutions) == 1:
        return resolutions.pop()
    values = [(cube.cells[name].value, cube.resolution) for cube in cubes for name in _times(cube)]
    if any(value.dtype.kind == "f" for value, _ in values):
        return 1
    longest = max((float(np.abs(value).sum(dtype=np.float64)) / of for value, of in values), default=0.0)
    # room for the sums of all cubes
    room = 2.0**62 / max(longest * len(cubes), 1e-9)
    multiple = math.lcm(*resolutions)
    if multiple <= min(room, 10**18):
        return multiple
    power = 10 ** int(math.log10(min(room, max(FINEST, *resolutions))))
    return power if power >= min(resolutions) else 1


def _ticks(value: NDArray[Any], of: int, resolution: int) -> NDArray[Any]:
    """Convert times in ticks of a clock with resolution `of` to ticks of another clock, each rounded; to float64
    seconds if `resolution` is 1."""
    if resolution == of:
        return value
    if resolution == 1:
        # rounded once, so that clocks of different resolutions agree on times that are equal
        return value / of
    seconds, rest = np.divmod(value, of)
    return seconds * resolution + np.rint(rest / of * resolution).astype(np.int64)


def _converted(cube: Severities, resolution: int) -> dict[str, Cells]:
    """Return the cells of a cube with times in ticks of another clock, or in float64 seconds if `resolution` is 1.

    Exclusive times are rounded and added up along the property tree, so that zeros stay zero.
    """
    axis, result = cube.properties, dict(cube.cells)

    for name in reversed(_times(cube)):
        parts = [child for child in axis.parts(name) if axis.unit_of(child) == "sec"] if resolution > 1 else []
        exclusive = cube.cells[name].without([cube.cells[child] for child in parts])
        cells = Cells(exclusive.key, _ticks(exclusive.value, cube.resolution, resolution))
        for child in parts:
            cells = cells + result[child]
        # for a minimum or maximum, no cell is not the same as zero
        result[name] = cells.where(cells.value != 0) if axis.adds_up(name) else cells
    return result


def unify(cubes: Sequence[Cube], by: str = "position") -> list[Cube]:
    """Bring cubes onto the same three trees, by names.

    Properties are the same if their ids are, call paths if the names of regions from the root and the call sites are,
    locations as `by` says. Nodes that only some cubes have are in all results, without values.

    `by` is `position`: locations of the same rank and thread are the same; or `aggregate`: all locations of a cube
    become one, for runs whose processes do not correspond.

    Times stay integer ticks: of the same clock if all cubes have the same, else of a clock that all are converted to
    (`_common_clock`). If a cube has float64 times, as those of other tools do, all are float64 seconds unless the
    resolutions are the same. Raises SeverityError if a property has different units, aggregations or formulas, or there
    is no cube.

    Facts about the run of a cube, which are in its own ticks and numbers of call paths and locations, are left out.
    """
    if not cubes or by not in BY:
        raise SeverityError(f"there is nothing to unify by {by!r}\n  give cubes, and one of {', '.join(BY)}")
    properties = _united_properties(cubes)
    call_paths, path_numbers = _united_call_paths(cubes)
    system, rows = _united_systems(cubes) if by == "position" else _one_location(cubes)
    resolution, labels = _common_clock(cubes), [_label(cube) for cube in cubes]
    result = []
    for cube, paths, locations in zip(cubes, path_numbers, rows, strict=True):
        given = cube.cells if cube.resolution == resolution else _converted(cube, resolution)
        cells = Made(properties.id, partial(_renumbered, given, paths, locations, properties))
        by_period = {
            name: _period_cells(cube, name, paths, locations, resolution) for name in properties.id if cube.period_cells
        }
        # a single location for all has no position on a grid
        topologies = [t.of_locations(locations) for t in cube.topologies] if by == "position" else []
        result.append(
            cube.replaced(
                properties=properties,
                call_paths=call_paths,
                system=system,
                cells=cells,
                facts=_united_facts(cube, labels, resolution),
                topologies=topologies,
                periods=_periods(cube, resolution),
                period_cells=by_period,
            )
        )
    return result


def _renumbered(
    given: Mapping[str, Cells],
    paths: NDArray[np.int64],
    locations: NDArray[np.int64],
    properties: PropertyAxis,
    name: str,
) -> Cells:
    """Return the cells of a property on other trees; the same cells if their numbers do not change."""
    found = given.get(name, Cells.empty())
    if all(np.array_equal(numbers, np.arange(numbers.size)) for numbers in (paths, locations)):
        return found
    return Cells.reduce(paths[found.call_path], locations[found.location], found.value, properties.reduction(name))


def _united_facts(cube: Severities, of: list[str], resolution: int) -> dict[str, Any]:
    """Return what a cube still says of itself on other trees and another clock, when united with those of `of`."""
    source = cube.facts.get("trace", cube.facts).get("source")
    kept = {k: cube.facts[k] for k in OF_ANY_TREES if k in cube.facts} | ({"source": source} if source else {})
    return {"operation": "unification", "of": of, **kept, "resolution": resolution}


def _periods(cube: Severities, resolution: int) -> PeriodAxis | None:
    """Return the periods of a cube, if any, in ticks of the given resolution since its first event."""
    if cube.periods is None:
        return None
    first = int(cube.facts.get("trace", {}).get("first_time") or 0)
    begin, end = (
        _ticks(t - first, cube.resolution, resolution) for t in (cube.periods.begin_time, cube.periods.end_time)
    )
    return replace(cube.periods, begin_time=begin, end_time=end)


def _period_cells(
    cube: Severities, name: str, paths: NDArray[np.int64], locations: NDArray[np.int64], resolution: int
) -> PeriodCells:
    """Return the severities of a property by period on other trees; times are in ticks of the given resolution."""
    found = cube.period_cells.get(name, PeriodCells.empty())
    value = found.value
    if len(found) and cube.properties.unit_of(name) == "sec":
        value = _ticks(value, cube.resolution, resolution)
    return PeriodCells.ordered(paths[found.call_path], locations[found.location], found.period, value)


def _label(cube: Severities) -> str:
    """Return where a cube comes from: the path of its trace, or an operation."""
    source = cube.facts.get("trace", cube.facts).get("source", {})
    return str(source.get("path", cube.facts.get("operation", "")))


def _result(operation: str, cubes: Sequence[Cube], cells: dict[str, Cells], **more: Any) -> Cube:
    conventions = {cube.facts["conventions"] for cube in cubes}
    facts = {
        "conventions": conventions.pop() if len(conventions) == 1 else "",
        "resolution": cubes[0].resolution,
        "counts": {},
        "operation": operation,
        "of": [_label(cube) for cube in cubes],
        **more,
    }
    first = cubes[0]
    narrowed = first.facts.get("narrowed")
    if narrowed and all(cube.facts.get("narrowed") == narrowed for cube in cubes):
        facts["narrowed"] = narrowed
    return first.replaced(cells=cells, facts=facts, periods=None, period_cells={})


def _left_out(cube: Severities) -> dict[str, Any]:
    """Return the fact that names properties that do not add up: differences and means of them do not either, so they
    have no cells."""
    names = [
        f"{n} ({a})"
        for n, a in zip(cube.properties.id, cube.properties.aggregation, strict=True)
        if a not in ("sum", "computed")
    ]
    return {"left_out": names} if names else {}


def difference(left: Cube, right: Cube, by: str = "position") -> Cube:
    """Subtract a cube from another one: `left - right`.

    The totals of `right` are kept in the result (fact `whole`), so that shares refer to something that is not zero.
    """
    # a ratio of differences is meaningless, so computed properties are left out
    left, right = unify([left.without_computed(), right.without_computed()], by)
    p = left.properties
    cells = {n: left.cells[n] - right.cells[n] if p.adds_up(n) else Cells.empty() for n in p.id}
    whole = {r: right.total(r) for r in right.properties.roots}
    return _result("difference", [left, right], cells, whole=whole, **_left_out(left))


def mean(cubes: Sequence[Cube], by: str = "position") -> Cube:
    """Average cubes, cell by cell; one that lacks a cell counts as 0 there. Values are float64."""
    cubes = unify(cubes, by)
    cells = {}
    for name in cubes[0].properties.id:
        total = Cells.empty()
        for cube in cubes if cubes[0].properties.adds_up(name) else ():
            total = total + cube.cells[name]
        cells[name] = Cells(total.key, total.value / len(cubes))
    return _result("mean", cubes, cells, **_left_out(cubes[0]))


def _extremes(operation: str, how: str, cubes: Sequence[Cube], by: str) -> Cube:
    cubes = unify([cube.without_computed() for cube in cubes], by)
    cells = {}
    for name in cubes[0].properties.id:
        if not cubes[0].properties.adds_up(name):
            # for a minimum or maximum, no cell is not the same as zero
            found = Cells.empty()
            for cube in cubes:
                found = found.joined(cube.cells[name], how)
            cells[name] = found
            continue
        keys = distinct(np.concatenate([cube.cells[name].key for cube in cubes]))
        values = REDUCTIONS[how][0].reduce(np.stack([cube.cells[name].at(keys) for cube in cubes]), axis=0)
        cells[name] = Cells(keys, values).where(values != 0)
    return _result(operation, cubes, cells)


def minimum(cubes: Sequence[Cube], by: str = "position") -> Cube:
    """Take the least value of every cell; one that lacks a cell counts as 0 there."""
    return _extremes("minimum", "min", cubes, by)


def maximum(cubes: Sequence[Cube], by: str = "position") -> Cube:
    """Take the greatest value of every cell; one that lacks a cell counts as 0 there."""
    return _extremes("maximum", "max", cubes, by)


def merge(cubes: Sequence[Cube], by: str = "position") -> Cube:
    """Combine cubes: take each property from the first cube that has it.

    For runs that recorded different counters, or the reports of different tools on one run.
    """
    united = unify(cubes, by)
    cells = {}
    for name in united[0].properties.id:
        first = next(i for i, cube in enumerate(cubes) if name in cube.properties.number)
        cells[name] = united[first].cells[name]
    return _result("merge", united, cells)
