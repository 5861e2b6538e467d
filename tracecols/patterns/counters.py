"""Hardware and software counters: one root property per counter that accumulates (EXPERT's measured metrics)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.scan.instances import outermost_call_paths
from tracecols.errors import SeverityError
from tracecols.model.model import Model
from tracecols.patterns.base import Findings, Property
from tracecols.patterns.found_by import Computed
from tracecols.patterns.registry import FAMILIES
from tracecols.schema import EventKind
from tracecols.severity.cells import Cells


def counter_properties(model: Model, conventions: str) -> list[Property]:
    """Declare the counters of a trace as properties.

    A counter counts if its values add up: those that accumulate from the start, of which differences between two
    consecutive events of a location belong to the call path in between, and relative ones, which are such differences.
    Absolute values (a temperature, a queue's length) cannot be added and stay in the metric tables.
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

        # a counter may be called anything: nothing, like another, or like a property
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
    """Add up a counter per call path and location.

    What streams of devices and locations of mere counters record outside of all regions belongs to the outermost call
    path of their process.
    """
    found: list[Cells] = []
    without = np.flatnonzero(~model.locations.is_cpu)
    outermost = outermost_call_paths(model.facts, model.scans, without)
    for location, scan in enumerate(model.scans):
        is_metric = scan.events.column("kind") == EventKind.METRIC
        node = scan.events.column("node")[is_metric]
        if not node.size:
            continue
        time = scan.events.column("time")[is_metric]
        rows = metric_rows(model, location)
        if rows.size != node.size:
            # a METRIC whose source has no class has no values
            kind = model.store.read("events", location, ["kind"])["kind"]
            own = scan.first_row + np.flatnonzero(kind == EventKind.METRIC)
            if own.size != node.size or not np.isin(rows, own).all():
                raise model.store.damaged(
                    f"location {location}: its METRIC events are not those in the tables of metrics"
                )
            rows = own
        for number, position in columns:
            side = model.store.read(f"metrics_{number}", location, ["row", "source", f"value_{position}"])
            if not side["row"].size:
                continue
            event = np.searchsorted(rows, side["row"])
            at = node[event]
            value = side[f"value_{position}"]
            value = value.astype(np.float64) if value.dtype.kind == "f" else value.view(np.int64)
            if mode.startswith("accumulated"):
                value = np.concatenate([np.zeros_like(value[:1]), np.diff(value)])
            call_path = np.where(at >= 0, pick(model.call_paths.numbers[location], at), outermost[location])
            inside = call_path >= 0
            call_path[inside] = model.call_paths.at(call_path[inside], time[event[inside]])
            call_path = call_path[inside]
            found.append(_sum(call_path, np.full(call_path.size, location), value[inside]))
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


def metric_rows(model: Model, location: int) -> NDArray[np.int64]:
    """Return the rows of all METRIC events of a location, in order."""
    tables = [t for t in model.store.tables if t.startswith("metrics_")]
    return np.sort(np.concatenate([model.store.read(t, location, ["row"])["row"] for t in tables]))
