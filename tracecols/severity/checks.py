"""Checks of the tables of a cube.

Files have checksums. But a cube that was made wrongly, or changed together with its checksums, could still refer to a
call path that does not exist, or have the same cell twice, and computations use such numbers as indices unchecked. So
everything is checked once, when a cube is read. References and ranges are checked as the schema declares them
(`schema.severity`); constraints beyond the schema are checked here.

Tables are columns by name: those of a .severity folder, or those that the trees of another file would be written as.
Every function returns a description of the first error, or an empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.errors import SeverityError
from tracecols.schema.facts import LARGEST_SEVERITY
from tracecols.schema.severity import AGGREGATIONS, SEVERITY_TABLES
from tracecols.severity.formulas import parse
from tracecols.severity.reduction import LARGEST
from tracecols.store.checks import first_outside, wrong_values

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]
"""The columns of a table by name."""

Constraint = tuple[NDArray[Any], Callable[[int], str]]
"""Where a constraint is violated (nonzero), and what to say of a violation at a row. A later constraint of a table is
computed only if the earlier ones hold, since it uses the columns as indices."""

KINDS_OF_PERIODS = ("phase", "bin")

VALUES = ("cells", "periods", "period_cells", "outside_cells")
"""The tables that are neither trees nor topologies."""

BYTES_PER_CELL = 48
"""Upper bound of the memory that reading takes for each row of `cells`, `period_cells` and `outside_cells`: measured 46
for a cube with 5 x 10^6 of them."""


def wrong_sizes(rows: Mapping[str, int], n_bytes: Mapping[str, int], memory: int | None) -> str:
    """Check the numbers of rows, known before anything is read, against each other, sizes of files and the memory.

    In most tables every row has a value that no other row has, so that it takes at least a byte of the file; four or
    more in all that tracecols writes. The numbers of rows of the other tables are limited by those of these.
    """
    n_cells = rows["properties"] * rows["call_paths"] * rows["locations"]
    by_period = n_cells * (rows.get("periods", 0) + 1), "one for each property, call path, location and period"
    limits = {
        "locations": (rows["system"], "one for each node of the system"),
        "topologies": (rows["topology_dimensions"] + n_bytes["topologies"], "one for each dimension and byte"),
        "topology_positions": (rows["topology_dimensions"] * rows["locations"], "one for each dimension and location"),
        "cells": (n_cells, "one for each property, call path and location"),
        "period_cells": by_period,
        "outside_cells": by_period,
    }
    for name, n in rows.items():
        most, why = limits.get(name, (n_bytes[name], "one for each byte of the file"))
        if n > most:
            return f"table {name} has {n:,} rows, but there can be {most:,} at most, {why}"
    n = rows["cells"] + rows.get("period_cells", 0) + rows.get("outside_cells", 0)
    if memory is not None and n * BYTES_PER_CELL > memory:
        return (
            f"cells, period_cells and outside_cells have {n:,} rows, which take {n * BYTES_PER_CELL:,} bytes of "
            f"memory, more than the {memory:,} there are"
        )
    return ""


def wrong_trees(tables: Mapping[str, Columns]) -> str:
    """Check properties, call paths, system, locations and topologies."""
    for name in SEVERITY_TABLES:
        if name not in VALUES and (what := wrong_references(name, tables)):
            return what
    if what := _wrong_properties(tables["properties"]):
        return f"table properties, {what}"
    constraints = {"call_paths": _of_call_paths, "system": _of_system, "topologies": _of_topologies}
    for name, of in constraints.items():
        for wrong, say in of(tables):
            if wrong.any():
                return f"table {name}, {say(int(np.argmax(wrong != 0)))}"
    return ""


def wrong_references(name: str, tables: Mapping[str, Columns]) -> str:
    """Check references and numbers of a table as the schema declares them."""

    def size(target: str) -> int:
        return len(next(iter(tables[target].values()))) if target in tables else 0

    declared = SEVERITY_TABLES[name]
    numbers = {c.name: np.asarray(tables[name][c.name]) for c in declared.columns if c.dtype != "string"}
    at, column, what = wrong_values(declared, numbers, size)
    return f"table {name}, column {column}, row {at}: {what}" if at >= 0 else ""


def wrong_tables(tables: Mapping[str, Mapping[str, NDArray[Any]]], kind: str, is_float: NDArray[np.bool_]) -> str:
    """Check all tables of a cube. `kind` is that of its periods, if it has any; values of properties in `is_float` are
    the bits of a float64."""
    found = wrong_trees(tables) or _wrong_cells("cells", tables, is_float)
    if not found and "periods" in tables:
        found = _wrong_periods(tables, kind)
    for name in ("period_cells", "outside_cells"):
        if not found and name in tables:
            found = _wrong_cells(name, tables, is_float)
    return found


def starts_of(prop: NDArray[Any], n_properties: int) -> NDArray[np.int64]:
    """Return the first row of every property in a table of cells, and the number of rows."""
    return np.asarray(np.searchsorted(prop, np.arange(n_properties + 1, dtype=np.int32)), np.int64)


def _wrong_cells(name: str, tables: Mapping[str, Mapping[str, NDArray[Any]]], is_float: NDArray[np.bool_]) -> str:
    """Check references of cells, that their rows ascend by all other columns, none occurs twice, and that all values
    are numbers."""
    if what := wrong_references(name, tables):
        return what
    value = tables[name]["value"]
    order = {c: column for c, column in tables[name].items() if c != "value"}
    starts = starts_of(order["property"], is_float.size)
    row = _first_disorder(*order.values(), starts=starts)
    if row >= 0:
        this, before = ([int(column[i]) for column in order.values()] for i in (row, row - 1))
        return (
            f"table {name}, row {row}: {this} follows {before}, but rows ascend by {', '.join(order)}, and none "
            "is there twice"
        )
    # only properties with floating-point numbers, unless an integer is too small
    suspects = np.ones(is_float.size, bool) if value.min(initial=0) < -LARGEST else is_float
    for i in np.flatnonzero(suspects & (starts[1:] > starts[:-1])).tolist():
        mine = value[starts[i] : starts[i + 1]]
        mine = mine.view(np.float64) if is_float[i] else mine
        at = first_wrong_number(mine)
        if at >= 0:
            return (
                f"table {name}, column value, row {starts[i] + at}: {mine[at]} is not a severity, "
                f"which is a finite number of less than {LARGEST_SEVERITY:g}, or a whole one of less than 64 bits"
            )
    return ""


def _first_disorder(prop: NDArray[Any], *columns: NDArray[Any], starts: NDArray[np.int64]) -> int:
    """Return a row that does not follow the one before in lexicographic order; -1 if there is none."""
    wrong = prop[1:] < prop[:-1]
    if wrong.any():
        return int(np.argmax(wrong)) + 1
    firsts = starts[(starts > 0) & (starts < prop.size)]
    for i, column in enumerate(columns):
        wrong = column[1:] <= column[:-1] if i == len(columns) - 1 else column[1:] < column[:-1]
        # a column may begin anew where the property or an earlier column changes
        wrong[firsts - 1] = False
        for earlier in reversed(columns[:i]):
            if not wrong.any():
                break
            wrong &= earlier[1:] == earlier[:-1]
        if wrong.any():
            return int(np.argmax(wrong)) + 1
    return -1


def first_wrong_number(values: NDArray[Any]) -> int:
    """Find the first value that no severity can have; -1 if there is none."""
    if not values.size:
        return -1
    if values.dtype.kind == "f":
        # NaN is neither larger nor less
        if values.min() > -LARGEST_SEVERITY and values.max() < LARGEST_SEVERITY:
            return -1
        return int(np.flatnonzero(~(np.abs(values) < LARGEST_SEVERITY))[0])
    return int(np.flatnonzero(values < -LARGEST)[0]) if values.min() < -LARGEST else -1


def _wrong_periods(tables: Mapping[str, Columns], kind: str) -> str:
    """Check phases or bins."""
    if kind not in KINDS_OF_PERIODS:
        return f"the manifest: periods are of kind {kind!r:.60}, expected {' or '.join(KINDS_OF_PERIODS)}"
    if what := wrong_references("periods", tables):
        return what
    begin, end, n_locations = (np.asarray(values) for values in tables["periods"].values())
    at = first_outside(n_locations, 0, len(tables["locations"]["rank"]) + 1)
    if at >= 0:
        return (
            f"table periods, column n_locations, row {at}: {n_locations[at]}, but there are "
            f"{len(tables['locations']['rank'])} locations"
        )
    if kind == "bin":
        wrong = np.flatnonzero((begin > end) | np.append(False, begin[1:] != end[:-1])[: begin.size])
        if wrong.size:
            at = int(wrong[0])
            return f"table periods, row {at}: the bin from {begin[at]} to {end[at]} does not follow the one before"
    return ""


# -- trees -------------------------------------------------------------------------------------------------------------


def _wrong_properties(table: Columns) -> str:
    seen: dict[str, int] = {}
    operands = {name for name, formula in zip(table["id"], table["formula"], strict=True) if not formula}
    # the property of the previous row, last, and those above it
    above: list[str] = [""]
    for row, (name, parent, together, formula) in enumerate(
        zip(table["id"], table["parent"], table["aggregation"], table["formula"], strict=True)
    ):
        if not name:
            return f"column id, row {row}: a property has no id"
        if name in seen:
            return f"column id, row {row}: {name!r:.60} is the id of row {seen[name]} already"
        if together not in AGGREGATIONS:
            return f"column aggregation, row {row}: no values come together as {together!r:.60}"
        if wrong := _wrong_formula(formula, together, operands):
            return f"column formula, row {row}: {wrong}"
        if parent and parent not in seen:
            return (
                f"column parent, row {row}: no property above is called {parent!r:.60}, and parents come before "
                "children"
            )
        while above[-1] != parent:
            above.pop()
            if not above:
                return (
                    f"column parent, row {row}: {parent!r:.60} is not above the property before, and properties "
                    "are in depth-first order"
                )
        above.append(name)
        seen[name] = row
        operands.add(name)
    return ""


def _wrong_formula(formula: str, together: str, known: Set[str]) -> str:
    """Return what is wrong with the formula of a property, which may use properties with cells, and computed ones in
    rows before it."""
    if bool(formula) != (together == "computed"):
        return f"{formula!r:.60} for a property whose values come together as {together!r}"
    try:
        names = parse(formula).names() if formula else ()
    except SeverityError as error:
        return str(error)
    unknown = next((name for name in names if name not in known), None)
    return "" if unknown is None else f"no property with cells, or before, is called {unknown!r:.60}"


def _of_call_paths(tables: Mapping[str, Columns]) -> Iterator[Constraint]:
    """Yield the constraints of a depth-first order on parents, depths and ends. O(n).

    By induction, a subtree is divided among the children of its head: the first begins after the head, each other one
    at the end of the one before.
    """
    parent, depth, end = (np.asarray(tables["call_paths"][c], np.int64) for c in ("parent", "depth", "end"))
    n = parent.size
    row = np.arange(n)
    yield parent >= row, lambda at: f"column parent, row {at}: {parent[at]}, but parents come before children"
    # parent -1 of roots selects the last entry, which is appended for them
    due = np.append(depth, -1)[parent] + 1
    yield (
        depth != due,
        lambda at: f"column depth, row {at}: {depth[at]}, but that of the call path above is {due[at] - 1}",
    )
    bound = np.append(end, n)[parent]
    yield (
        (end <= row) | (end > bound),
        lambda at: (
            f"column end, row {at}: {end[at]}, expected more than {at}, and at most {bound[at]}, the end of the call "
            "path above"
        ),
    )
    above = np.append(parent, -1)
    has_child, has_next = end > row + 1, end < bound
    wrong = np.zeros(n, bool)
    wrong[:1] = parent[:1] >= 0
    wrong |= has_child & (above[np.minimum(row + 1, n)] != row)
    wrong |= has_next & (above[np.minimum(end, n)] != parent)
    yield (
        wrong,
        lambda at: (
            f"row {at}: what is below it is not in the rows {at + 1} to {end[at] - 1}, and call paths are in "
            "depth-first order"
        ),
    )


def _of_system(tables: Mapping[str, Columns]) -> Iterator[Constraint]:
    parent, location = (np.asarray(tables["system"][c], np.int64) for c in ("parent", "location"))
    wrong = parent >= np.arange(parent.size)
    yield wrong, lambda at: f"column parent, row {at}: {parent[at]}, but parents come before children"
    is_leaf = location >= 0
    wrong = is_leaf & ((parent < 0) | np.append(is_leaf, False)[parent])
    yield wrong, lambda at: f"row {at}: a location is below no process"
    count = np.bincount(location[is_leaf], minlength=len(tables["locations"]["rank"]))
    yield count != 1, lambda at: f"column location: location {at} is there {count[at]} times, expected once"


def _of_topologies(tables: Mapping[str, Columns]) -> Iterator[Constraint]:
    """Yield the constraints that dimensions and positions are in the order of topologies and locations, and coordinates
    in range."""
    dimensions, positions = tables["topology_dimensions"], tables["topology_positions"]
    n = len(tables["topologies"]["name"])
    of_dimension, size = (np.asarray(dimensions[c], np.int64) for c in ("topology", "size"))
    of, location, coordinate = (np.asarray(positions[c], np.int64) for c in ("topology", "location", "coordinate"))

    def in_order(what: str, values: NDArray[np.int64]) -> Constraint:
        return (
            values[1:] < values[:-1],
            lambda at: (
                f"the {what} of topology {values[at + 1]} follow those of topology {values[at]}, but they are in order"
            ),
        )

    yield in_order("dimensions", of_dimension)
    yield in_order("positions", of)
    n_dimensions = np.bincount(of_dimension, minlength=n)
    count = np.bincount(of, minlength=n)
    yield (
        count % np.maximum(n_dimensions, 1) + (count > 0) * (n_dimensions == 0),
        lambda at: (
            f"topology {at} has {n_dimensions[at]} dimensions, and {count[at]} coordinates, not one for each dimension "
            "of a location"
        ),
    )
    start = np.cumsum(count) - count
    place = np.arange(of.size) - start[of]
    dimension = place % np.maximum(n_dimensions, 1)[of]
    step = np.diff(location, prepend=-1)
    yield (
        ~np.where(dimension > 0, step == 0, (step > 0) | (place == 0)),
        lambda at: (
            f"row {at} of topology_positions: location {location[at]} follows {location[at - 1]}, but a topology has "
            "each once, in order"
        ),
    )
    extent = size[(np.cumsum(n_dimensions) - n_dimensions)[of] + dimension]
    yield (
        (extent > 0) & (coordinate >= extent),
        lambda at: (
            f"row {at} of topology_positions: coordinate {coordinate[at]} is beyond the size {extent[at]} of its "
            "dimension"
        ),
    )
