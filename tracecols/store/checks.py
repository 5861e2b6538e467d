"""Check the values of a store, so that other code can rely on them.

Files have checksums, and wrong lengths or types are reported when they are read. But a store that was made wrongly, or
changed together with its checksums, could still refer to a region that does not exist: kernels use such values as
indices without checks. The checks follow from the schema: a reference is null or a row of the table it points to, the
rows of a side table ascend and lie within their location, and its kinds are those of its family. Events and side tables
are compared with each other where both are read, which costs nothing there (`enhance.scan.batches`, `model.model`,
`kernels`).

Every function describes the first error in words, or returns an empty text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.schema import DEFINITIONS, KINDS, NAMES, SIDE_TABLES, Table
from tracecols.schema.enums import GROUPS_OF_LOCATIONS, METRIC_DTYPES, VALUE_TARGETS, VALUE_TYPES
from tracecols.schema.facts import STORE_FACTS, wrong_fact
from tracecols.store.arrow import to_numpy

Sizes = Callable[[str], int]
"""Returns the number of rows of a definition table."""

_INT64 = np.iinfo(np.int64)


def _kinds_of(family: str) -> NDArray[np.bool_]:
    mask = np.zeros(256, bool)
    mask[[int(k) for k in KINDS if k.family == family]] = True
    return mask


_KINDS = {name: _kinds_of(name) for name, table in SIDE_TABLES.items() if "kind" in table.names}
_BYTES = {name: bytes(np.flatnonzero(mask).tolist()) for name, mask in _KINDS.items()}


def first_outside(values: NDArray[Any], low: int, high: int) -> int:
    """Find the first value that is not low <= value < high; -1 if there is none."""
    if not values.size:
        return -1
    if low == 0 and values.dtype.kind == "i" and high - 1 <= np.iinfo(values.dtype).max:
        # negative values are large as unsigned ones: one pass instead of two
        is_inside = values.view(values.dtype.str.replace("i", "u")).max() < high
    else:
        is_inside = values.min() >= low and values.max() < high
    if is_inside:
        return -1
    return int(np.flatnonzero((values < low) | (values >= high))[0])


def _reference(values: NDArray[Any], target: str, sizes: Sizes, required: bool = False) -> tuple[int, str]:
    """Return the first position of a value that is no row of a table, -1 none, and what is wrong with it."""
    n = sizes(target)
    at = first_outside(values, 0 if required else -1, n)
    null = "" if required else ", or -1 for none"
    return at, f"{values[at]} is not a row of {target}, which are numbered from 0 to {n - 1}{null}" if at >= 0 else ""


def wrong_values(table: Table, columns: Mapping[str, NDArray[Any]], sizes: Sizes) -> tuple[int, str, str]:
    """Check the references and numbers in some columns of a whole table against their declarations; `sizes` returns the
    number of rows of the tables they point to.

    Returns the first wrong row of the first wrong column, -1 if there is none; the column's name; and the error.
    """
    for column in table.columns:
        values = columns.get(column.name)
        if values is None or not values.size:
            continue
        if column.target:
            at, what = _reference(values, column.target, sizes, column.required)
        elif column.low is not None or column.high is not None:
            low, high = column.low, column.high
            least, most = (-np.inf if low is None else low), (np.inf if high is None else high)
            # NaN is neither less nor more
            fits = values.min() >= least and values.max() <= most
            at = -1 if fits else int(np.flatnonzero(~((values >= least) & (values <= most)))[0])
            expected = (
                f"from {low}" + (f" to {high}" if high is not None else "") if low is not None else f"up to {high}"
            )
            what = f"{values[at]}, expected a number {expected}"
        else:
            continue
        if at >= 0:
            return at, column.name, what
    return -1, "", ""


class RowRanges(NamedTuple):
    """The rows of a side table that belong to each location, and the location's events; arrays of one entry per
    location.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    """`start` and `stop`: (k,), row of the location's first event, and one past that of its last."""
    n: NDArray[np.int64]
    """(k,): number of its rows in the side table, which follow those of the location before; at least 1."""


def wrong_columns(
    table: Table, columns: Mapping[str, NDArray[Any]], rows: RowRanges, sizes: Sizes
) -> tuple[int, str, str]:
    """Check some columns of the events or of a side table of some locations.

    Returns the first wrong row of the first wrong column, counting from the first of `columns`, -1 if there is none;
    the column's name; and the error.
    """
    for column in table.columns:
        values = columns.get(column.name)
        if values is None or not values.size:
            continue
        if column.target in DEFINITIONS:
            at, what = _reference(values, column.target, sizes, column.required)
            if at >= 0:
                return at, column.name, what
        elif column.name == "row":
            at, what = _wrong_rows(values, rows, table.repeats)
            if at >= 0:
                return at, column.name, what
        elif column.name == "kind" and table.name in _KINDS:
            fits = _KINDS[table.name]
            # kinds of most locations lie close together; otherwise searching in bytes takes a third of the time of a
            # look-up
            if not fits[values.min() : values.max() + 1].all() and values.tobytes().translate(None, _BYTES[table.name]):
                at = int(np.flatnonzero(~fits[values])[0])
                name = NAMES.get(int(values[at]), str(values[at]))
                return at, "kind", f"events of kind {name} have no attributes in this table"
    if table.name == "attributes" and {"type", "value"} <= columns.keys():
        return _wrong_values(columns["type"], columns["value"], sizes)
    return -1, "", ""


def _wrong_rows(row: NDArray[np.int64], rows: RowRanges, repeats: bool) -> tuple[int, str]:
    """Check that the rows of each location ascend and are rows of its events."""
    stop = np.cumsum(rows.n)
    start = stop - rows.n
    first, last = row[start], row[stop - 1]
    for values, at in ((first, start), (last, stop - 1)):
        wrong = np.flatnonzero((values < rows.start) | (values >= rows.stop))
        if wrong.size:
            k = int(wrong[0])
            low, high = int(rows.start[k]), int(rows.stop[k]) - 1
            return int(at[k]), f"{values[k]} is not an event of the location, which are numbered from {low} to {high}"
    descends = row[1:] < row[:-1] if repeats else row[1:] <= row[:-1]
    descends[start[1:] - 1] = False
    if descends.any():
        k = int(np.flatnonzero(descends)[0]) + 1
        return k, f"{row[k]} follows {row[k - 1]}, but rows ascend"
    return -1, ""


def wrong_sides(kind: NDArray[np.uint8], sides: Mapping[str, Mapping[str, NDArray[Any]]]) -> str:
    """Check that events have the rows in side tables that their kinds demand; `row` counts from the first event."""
    count = np.bincount(kind, minlength=256)
    for name, mask in _KINDS.items():
        columns = sides.get(name)
        n = 0 if columns is None else columns["row"].size
        if int(count[mask].sum()) != n:
            return f"{int(count[mask].sum())} events have attributes in the table {name}, which has {n} rows for them"
        if columns is not None and not np.array_equal(kind[columns["row"]], columns["kind"]):
            return f"the kinds of its events are not those in the table {name}"
    return ""


def _wrong_values(types: NDArray[np.uint8], values: NDArray[np.int64], sizes: Sizes) -> tuple[int, str, str]:
    """Check the values of additional attributes that are references."""
    for number in distinct(types).tolist():
        target = VALUE_TARGETS.get(VALUE_TYPES[number]) if number < len(VALUE_TYPES) else None
        if target is not None:
            mine = np.flatnonzero(types == number)
            at, what = _reference(values[mine], target, sizes)
            if at >= 0:
                return int(mine[at]), "value", what
    return -1, "", ""


# -- definitions -------------------------------------------------------------------------------------------------------


def _flat(column: pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the values of a column, with lists concatenated, and the row of each value."""
    if not pa.types.is_list(column.type):
        values = to_numpy(column)
        return values, np.arange(values.size)
    lengths = [
        np.diff(np.frombuffer(c.buffers()[1], np.int32)[c.offset : c.offset + len(c) + 1]) for c in column.chunks
    ]
    counts = np.concatenate([np.zeros(0, np.int64), *lengths]).astype(np.int64)
    # not c.flatten(): it imports pyarrow.compute, 80 ms
    chunks = [c.values[c.offsets[0].as_py() : c.offsets[len(c)].as_py()] for c in column.chunks if len(c)]
    values = to_numpy(pa.chunked_array(chunks, column.type.value_type))
    return values, np.repeat(np.arange(counts.size), counts)


def wrong_definition(name: str, table: pa.Table, sizes: Sizes) -> str:
    """Check a definition table: references, that no row is above itself, and further conditions of some tables."""
    for column in DEFINITIONS[name].columns:
        if column.target not in DEFINITIONS:
            continue
        values, row = _flat(table.column(column.name))
        at, what = _reference(values, column.target, sizes, column.required)
        if at >= 0:
            return f"column {column.name}, row {row[at]}: {what}"
        if column.target == name and not column.dtype.startswith("list"):
            at = own_ancestor(values)
            if at >= 0:
                return f"column {column.name}, row {at}: it is its own ancestor"
    check = _MORE.get(name)
    return check(table, sizes) if check is not None else ""


def own_ancestor(parent: NDArray[Any]) -> int:
    """Find the first row with an endless chain of ancestors; -1 if there is none. O(n log n)."""
    above = np.append(parent.astype(np.int64), -1)
    for _ in range(int(parent.size).bit_length()):
        above = above[above]
    endless = np.flatnonzero(above >= 0)
    return int(endless[0]) if endless.size else -1


def _wrong_groups(table: pa.Table, sizes: Sizes) -> str:
    values, row = _flat(table.column("members"))
    kinds = np.array(table.column("type").to_pylist(), object)
    for kind in distinct(kinds.astype(str)).tolist():
        target = "locations" if kind in GROUPS_OF_LOCATIONS else "regions" if kind == "regions" else ""
        if target:
            mine = np.flatnonzero(kinds[row] == kind)
            at, what = _reference(values[mine], target, sizes)
            if at >= 0:
                return f"column members, row {row[mine[at]]}: {what}"
    return ""


def _wrong_topologies(table: pa.Table, _sizes: Sizes) -> str:
    names = ("dimensions", "sizes", "periodic")
    for i, lists in enumerate(zip(*(table.column(c).to_pylist() for c in names), strict=True)):
        if len({len(values) for values in lists}) != 1:
            return (
                f"row {i}: {', '.join(names)} have {', '.join(str(len(v)) for v in lists)} values, but one per "
                "dimension each"
            )
        if not all(0 <= size < 1 << 32 for size in lists[1]):
            return f"column sizes, row {i}: {lists[1]} are not sizes of a grid"
    return ""


def _wrong_properties(table: pa.Table, sizes: Sizes) -> str:
    of = to_numpy(table.column("of"))
    for i, (target, row) in enumerate(zip(table.column("table").to_pylist(), of.tolist(), strict=True)):
        if target not in DEFINITIONS:
            return f"column table, row {i}: there is no definition table {target!r}"
        if not -1 <= row < sizes(target):
            return (
                f"column of, row {i}: {row} is not a row of {target}, which are numbered from 0 to {sizes(target) - 1}"
            )
    return ""


def _wrong_metric_members(table: pa.Table, _sizes: Sizes) -> str:
    for i, dtype in enumerate(table.column("value_type").to_pylist()):
        if dtype not in METRIC_DTYPES.values():
            return f"column value_type, row {i}: {dtype!r} is none of {', '.join(METRIC_DTYPES.values())}"
    return ""


def _wrong_records(table: pa.Table, _sizes: Sizes) -> str:
    for i, text in enumerate(table.column("values").to_pylist()):
        try:
            is_record = isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            is_record = False
        if not is_record:
            return f"column values, row {i}: {text[:40]!r} is not JSON of the fields of a record"
    return ""


_MORE: dict[str, Callable[[pa.Table, Sizes], str]] = {
    "groups": _wrong_groups, "topologies": _wrong_topologies, "properties": _wrong_properties,
    "metric_members": _wrong_metric_members, "other_definitions": _wrong_records,
}  # fmt: skip


# -- what the manifest says --------------------------------------------------------------------------------------------


def wrong_manifest(manifest: Mapping[str, Any]) -> str:
    """Check that the entries of a manifest are present and of the right type."""
    wrong = next((fact.name for fact in STORE_FACTS if wrong_fact(fact, manifest.get(fact.name))), "")
    if not wrong and len(manifest["clock"]) > len(STORE_FACTS[0].entries):
        wrong = "clock"
    elif not wrong and not all(k.isdecimal() and len(k) < 4 and int(k) < 256 for k in manifest["events_by_kind"]):
        wrong = "events_by_kind"
    if wrong:
        return f"{wrong} is {str(manifest.get(wrong, 'missing'))[:80]}"
    total = sum(manifest["events_by_kind"].values())
    if total != manifest["n_events"]:
        return f"n_events is {manifest['n_events']}, but events_by_kind adds up to {total}"
    return ""


def wrong_counts(manifest: Mapping[str, Any], n_rows: Callable[[str], int]) -> str:
    """Check that the numbers of events, and of rows of every side table, agree with the counts of the manifest."""
    by_kind = {int(k): n for k, n in manifest["events_by_kind"].items()}
    expected = {"events": manifest["n_events"], "attributes": manifest["n_attributes"]}
    for name in _KINDS:
        expected[name] = sum(by_kind.get(k, 0) for k in np.flatnonzero(_KINDS[name]).tolist())
    for name, n in expected.items():
        if n_rows(name) != n:
            return f"table {name} has {n_rows(name)} rows, but the manifest counts {n}"
    return ""


def wrong_segments(table: pa.Table) -> str:
    """Check that the segments of every part file are contiguous, and that a location has at most one in each table."""
    names = table.column("table").to_pylist()
    location, part, offset, n = (to_numpy(table.column(c)) for c in ("location", "part", "offset", "n_rows"))
    if first_outside(n, 0, _INT64.max) >= 0:
        at = first_outside(n, 0, _INT64.max)
        return f"column n_rows, row {at}: {n[at]} is not a number of rows"
    number = np.unique(np.array(names, object).astype(str), return_inverse=True)[1] if names else np.zeros(0, np.int64)
    order = np.lexsort((location, number))
    twice = (number[order][1:] == number[order][:-1]) & (location[order][1:] == location[order][:-1])
    if twice.any():
        at = int(order[np.flatnonzero(twice)[0] + 1])
        return f"row {at}: location {location[at]} has rows of {names[at]} already"
    order = np.lexsort((n, offset, part, number))
    same = (number[order][1:] == number[order][:-1]) & (part[order][1:] == part[order][:-1])
    due = np.zeros(order.size, np.int64)
    due[1:] = np.where(same, offset[order][:-1] + n[order][:-1], 0)
    wrong = np.flatnonzero(offset[order] != due)
    if wrong.size:
        at = int(order[wrong[0]])
        return f"column offset, row {at}: {offset[at]}, but the rows of part {part[at]} before end at {due[wrong[0]]}"
    return ""


def wrong_locations(table: pa.Table, n_events: NDArray[np.int64]) -> str:
    """Check that the event counts and first rows of locations agree with the segments."""
    first = np.cumsum(n_events) - n_events
    for name, expected in (("n_events", n_events), ("first_row", first)):
        found = to_numpy(table.column(name))
        if (found != expected).any():
            at = int(np.flatnonzero(found != expected)[0])
            return f"column {name}, row {at}: {found[at]} instead of {expected[at]}"
    return ""


def wrong_metric_classes(table: pa.Table, members: pa.Table, tables: Mapping[str, Table]) -> str:
    """Check that every table of metric values has a column for each member of its class, of its type."""
    types = members.column("value_type").to_pylist()
    classes = [[types[m] for m in of] for of in table.column("members").to_pylist()]
    for name, stored in tables.items():
        if name.startswith("metrics_"):
            number = int(name.removeprefix("metrics_"))
            head = [("row", "int64"), ("source", "int32")]
            values = [(f"value_{i}", t) for i, t in enumerate(classes[number])] if number < len(classes) else None
            if values is None or [(c.name, c.dtype) for c in stored.columns] != head + values:
                return f"table {name} does not have the values of metric class {number}"
    return ""
