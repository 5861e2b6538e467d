"""Hardware and software counters: one root property per counter that accumulates (EXPERT's measured metrics)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import ColumnSlice, joined, joined_column, merged, pick
from tracecols.enhance.dataflow.grouping import bounded
from tracecols.enhance.scan.instances import outermost_call_paths
from tracecols.errors import SeverityError, StoreError
from tracecols.model.model import Model
from tracecols.patterns.base import Findings, Property
from tracecols.patterns.found_by import Computed
from tracecols.patterns.registry import FAMILIES
from tracecols.schema import EventKind
from tracecols.severity.cells import Cells

CHUNK = 1 << 20
"""Maximum number of attributed events whose counters are added up together: those of several locations, or a part of a
single one."""


def counter_properties(model: Model, conventions: str) -> list[Property]:
    """Declare the counters of a trace as properties.

    Only counters whose values add up are declared: accumulating ones, whose difference between two consecutive events
    of a location belongs to the call path in between, and relative ones, whose values are such differences. Absolute
    values (a temperature, a queue's length) cannot be added and stay in the metric tables.
    """
    definitions = model.store.definitions
    members = definitions["metric_members"].to_pylist()
    classes = definitions["metric_classes"].to_pylist()
    columns: dict[int, list[tuple[int, int]]] = {}
    for number, metric_class in enumerate(classes):
        if f"metrics_{number}" not in model.store.tables:
            continue
        for position, member in enumerate(metric_class["members"]):
            columns.setdefault(member, []).append((number, position))
    result = []
    taken = {p.id for family in FAMILIES for p in family.properties}
    for member, where in sorted(columns.items()):
        mode = members[member]["mode"]
        if not mode.startswith(("accumulated", "relative")):
            continue

        def cells(model: Model, findings: Findings, where: list[tuple[int, int]] = where, mode: str = mode) -> Cells:
            return findings.conventions.counted(model, counter_cells(model, where, mode))

        # a counter may have no name, or that of another counter or of a property
        name, number = members[member]["name"] or "counter", 1
        while (unique := name if number == 1 else f"{name} ({number})") in taken:
            number += 1
        taken.add(unique)
        result.append(
            Property(
                unique,
                "",
                unique,
                members[member]["description"] or "Counter recorded with the trace.",
                Computed(cells),
                members[member]["unit"] or "occ",
                conventions=conventions,
                family="counters",
            )
        )
    return result


def counter_cells(model: Model, columns: list[tuple[int, int]], mode: str) -> Cells:
    """Add up a counter per call path and location; `mode` is its mode in OTF2, which says how values are to be read.

    `columns` are the metric classes that have the counter, and its position among the members of each. Values that
    streams of devices and locations with counters only record outside of all regions belong to the outermost call path
    of their process.
    """
    without = np.flatnonzero(~model.locations.is_cpu)
    outermost = outermost_call_paths(model.facts, model.scans, without)
    found: list[Cells] = []
    for some in bounded(np.array([len(scan.events) for scan in model.scans], np.int64), CHUNK):
        of_locations = model.call_paths.numbers[some]
        numbers, shift = joined(of_locations), np.cumsum([0, *map(len, of_locations)])
        for metrics in _metric_events(model, np.arange(some.start, some.stop)):
            for number, position in columns:
                event, value = metrics.values(model, f"metrics_{number}", f"value_{position}", mode)
                location, node = metrics.location[event], metrics.node[event].astype(np.int64)
                own = pick(numbers, np.where(node >= 0, node + shift[location - some.start], -1))
                call_path = np.where(node >= 0, own, outermost[location])
                inside = np.flatnonzero(call_path >= 0)
                call_path, location = call_path[inside], location[inside]
                call_path = model.call_paths.at(call_path, metrics.time[event[inside]], location)
                found.append(_sum(call_path, location, value[inside]))
    if not found:
        return Cells.empty()
    key, value = np.concatenate([c.key for c in found]), np.concatenate([c.value for c in found])
    return _sum(key >> 32, key & 0xFFFFFFFF, value)


def _sum(call_path: NDArray[Any], location: NDArray[Any], value: NDArray[Any]) -> Cells:
    """Add up values of a counter per cell; sums that exceed 64 bits are rounded to float64."""
    try:
        return Cells.sum(call_path, location, value)
    except SeverityError:
        return Cells.sum(call_path, location, value.astype(np.float64))


class _MetricEvents(NamedTuple):
    """METRIC events of some locations, or consecutive ones of a single location."""

    locations: NDArray[np.int64]
    """(n_locations,): rows of the locations."""
    row: NDArray[np.int64]
    time: NDArray[np.int64]
    location: NDArray[np.int64]
    """`row`, `time` and `location`: (n,), row, time and location of each event."""
    node: NDArray[np.int32]
    """(n,): the call path of each event, as its location numbers them; -1 none."""
    rows: dict[str, slice]
    """The rows of these events in each table of metrics, for a single location."""

    def values(self, model: Model, table: str, name: str, mode: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the events that have values in a column of a table, and the growth of the counter at each; (n_values,)
        each.

        The growth of an accumulating counter at its first value on a location is 0.
        """
        accumulates, rows = mode.startswith("accumulated"), self.rows[table]
        is_continued = accumulates and rows.start > 0
        here = slice(rows.start - is_continued, rows.stop)
        side = _read(model, table, self.locations, ["row", "source", name], here)
        value = side[name].astype(np.float64) if side[name].dtype.kind == "f" else side[name].view(np.int64)
        event = np.searchsorted(self.row, side["row"][int(is_continued) :])
        if accumulates and value.size:
            grown = np.diff(value) if is_continued else np.concatenate([np.zeros_like(value[:1]), np.diff(value)])
            location = self.location[event]
            grown[np.flatnonzero(location[1:] != location[:-1]) + 1] = 0
            return event, grown
        return event, value


def _metric_events(model: Model, locations: NDArray[np.int64]) -> Iterator[_MetricEvents]:
    """Yield the METRIC events of some consecutive locations, all at once, or of a single one chunk by chunk. Raises
    StoreError if they do not match the tables of metrics."""
    events = [model.scans[i].events for i in locations.tolist()]
    # a single location may have more events than are read together
    chunks = [merged(events)] if len(events) > 1 else [[chunk] for chunk in _divided(events[0])]
    of_events = np.repeat(locations, [len(of) for of in events])
    tables = [table for table in model.store.tables if table.startswith("metrics_")]
    n_rows = {table: int(model.store.counts(table)[locations].sum()) for table in tables}
    n_events = sum(int(_is_metric(chunk).sum()) for chunk in chunks)
    # a METRIC whose source has no class has no values
    every_row = None if n_events == sum(n_rows.values()) else _rows_of_metrics(model, locations)
    n_done, done = 0, dict.fromkeys(tables, 0)
    if every_row is not None and every_row.size != n_events:
        raise _other_metrics(model, locations)
    for chunk in chunks:
        chosen = np.flatnonzero(_is_metric(chunk))
        if not chosen.size:
            continue
        here = slice(n_done, n_done + chosen.size)
        side = {
            table: _read(model, table, locations, ["row"], slice(before, before + chosen.size))["row"]
            for table, before in done.items()
        }
        row = np.sort(np.concatenate(list(side.values())))[: chosen.size] if every_row is None else every_row[here]
        if row.size < chosen.size:
            raise _other_metrics(model, locations)
        rows = {t: slice(done[t], done[t] + int(np.searchsorted(of, row[-1], "right"))) for t, of in side.items()}
        n_done, done = here.stop, {table: of.stop for table, of in rows.items()}
        if every_row is not None and not all(np.isin(of[of <= row[-1]], row).all() for of in side.values()):
            raise _other_metrics(model, locations)
        time, node = joined_column(chunk, "time", np.int64)[chosen], joined_column(chunk, "node", np.int32)[chosen]
        location = of_events[chosen] if len(events) > 1 else of_events[: chosen.size]
        yield _MetricEvents(locations, row, time, location, node, rows)
    if done != n_rows:
        raise _other_metrics(model, locations)


def _divided(events: ColumnSlice) -> list[ColumnSlice]:
    """Divide the attributed events of a location into chunks of at most `CHUNK`."""
    starts = range(events.start, events.stop, CHUNK)
    return [ColumnSlice(events.source, start, min(start + CHUNK, events.stop)) for start in starts]


def _is_metric(chunk: Sequence[ColumnSlice]) -> NDArray[np.bool_]:
    """Return a mask of the attributed events that are METRICs."""
    return joined_column(chunk, "kind", np.uint8) == EventKind.METRIC


def _read(
    model: Model, table: str, locations: NDArray[np.int64], columns: list[str], rows: slice
) -> dict[str, NDArray[Any]]:
    """Read a table of metrics: some rows of a single location, or all of several."""
    if locations.size == 1:
        return model.store.read(table, int(locations[0]), columns, rows.start, rows.stop)
    return model.store.read_together(table, locations, columns)[0]


def _rows_of_metrics(model: Model, locations: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of all METRIC events of some consecutive locations, in order."""
    kind = model.store.read_together("events", locations, ["kind"])[0]["kind"]
    return model.facts.first_rows[locations[0]] + np.flatnonzero(kind == EventKind.METRIC)


def _other_metrics(model: Model, locations: NDArray[np.int64]) -> StoreError:
    """Return the error about METRIC events that contradict their tables."""
    first, last = locations[0], locations[-1]
    which = f"location {first}" if first == last else f"locations {first} to {last}"
    return model.store.damaged(f"{which}: the METRIC events are not those in the tables of metrics")
