"""Annotations of a trace: parameters of calls, readings of counters, and markers, each with the region instance that it
lies in.

Scope: one location. Rows are built location by location, in another pass over the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.steps import WITHIN, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import LocationStacks, scan_location
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.enhance.scan.teams import Teams
from tracecols.schema.compound import COUNTER_VALUES, LOCATION_MARKERS, PARAMETER_VALUES
from tracecols.schema.enums import GROUPS_OF_LOCATIONS
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints

Rows = dict[str, NDArray[Any]]


def _instances(at_events: LocationStacks, event: Ints, location: int) -> Rows:
    """Return the columns that describe the region instances in which some events of a location lie.

    Events are numbered within the location; numbers beyond the last event give null.
    """
    n, first = at_events.time.size, at_events.first
    enter = pick(at_events.enterptr, np.where(event < n, event, -1))
    # a thread may begin in a region that another thread has entered
    own = np.where(enter >= first, enter - first, -1)
    leave = pick(at_events.exitptr, own)
    return {
        "location": np.full(event.size, location, np.int32),
        "enter": np.where(own >= 0, enter, -1),
        "exit": leave,
        "region": pick(at_events.region, own),
        "enter_time": pick(at_events.time, own),
        "exit_time": pick(at_events.time, np.where(leave >= 0, leave - first, -1)),
        "call_path": pick(at_events.numbers, pick(at_events.node, own)).astype(np.int32),
    }


@step(WITHIN, "parameter_values")
def parameter_values(
    facts: Facts, scans: Sequence[LocationScan], members: Iterable[int], team_instances: Teams
) -> CompoundTable:
    """Build the table of parameter values on some locations, with the region instances they belong to."""
    store = facts.store

    def of_location(location: int) -> Rows:
        side = store.read("parameters", location, ["row", "parameter", "value", "string"])
        at_events = scan_location(facts, scans, team_instances, location)
        event = side["row"] - at_events.first
        here = _instances(at_events, event, location)
        return {**here, **side, "event": side["row"], "time": at_events.time[event]}

    chosen = [i for i in np.asarray(members).tolist() if store.n_rows("parameters", i)]
    return CompoundTable.together(PARAMETER_VALUES, map(of_location, chosen))


@step(WITHIN, "counter_values")
def counter_values(
    facts: Facts, scans: Sequence[LocationScan], members: Iterable[int], team_instances: Teams
) -> CompoundTable:
    """Build the table of counter readings on some locations, with the region instances in which they were taken."""
    store = facts.store
    classes = store.definitions["metric_classes"].column("members").to_pylist()
    names = {number: f"metrics_{number}" for number in range(len(classes))}

    def of_location(location: int) -> Rows:
        at_events = scan_location(facts, scans, team_instances, location)
        found: list[Rows] = []
        for number, name in names.items():
            if not store.n_rows(name, location):
                continue
            columns = [f"value_{k}" for k in range(len(classes[number]))]
            side = store.read(name, location, ["row", *columns])
            found += [
                {"event": side["row"], "counter": np.full(side["row"].size, member), "value": side[c].astype(float)}
                for member, c in zip(classes[number], columns, strict=True)
            ]
        rows = {c: np.concatenate([of[c] for of in found]) for c in ("event", "counter", "value")}
        order = np.lexsort((rows["counter"], rows["event"]))
        rows = {c: values[order] for c, values in rows.items()}
        event = rows["event"] - at_events.first
        return {**_instances(at_events, event, location), **rows, "time": at_events.time[event]}

    chosen = [i for i in np.asarray(members).tolist() if any(store.n_rows(name, i) for name in names.values())]
    return CompoundTable.together(COUNTER_VALUES, map(of_location, chosen))


@step(WITHIN, "location_markers")
def location_markers(
    facts: Facts, scans: Sequence[LocationScan], members: Iterable[int], team_instances: Teams
) -> CompoundTable:
    """Build the table of the markers that refer to some locations, with the region instances in which they begin.

    A marker at the time of an ENTER lies inside the region, one at the time of an EXIT outside of it.
    """
    markers = facts.store.definitions["markers"]
    time, duration = (to_numpy(markers.column(name)) for name in ("time", "duration"))

    def of_location(location: int, about: list[int]) -> Rows:
        mine = np.array(about, np.int64)
        mine = mine[np.argsort(time[mine], kind="stable")]
        at_events = scan_location(facts, scans, team_instances, location)
        # the next event lies in the same region instance as the marker
        event = np.searchsorted(np.maximum.accumulate(at_events.time), time[mine], "right")
        here = _instances(at_events, event, location)
        return {**here, "marker": mine, "time": time[mine], "duration": duration[mine]}

    markers_of = _markers_about(facts, np.asarray(members).tolist())
    return CompoundTable.together(LOCATION_MARKERS, (of_location(i, about) for i, about in markers_of.items() if about))


def _markers_about(facts: Facts, locations: Sequence[int]) -> dict[int, list[int]]:
    """Return the markers that refer to each location, ascending."""
    markers = facts.store.definitions["markers"].to_pylist()
    of_scope = {scope: _locations_by_id(facts, scope) for scope in {m["scope"] for m in markers}}
    found: dict[int, list[int]] = {i: [] for i in locations}
    for number, marker in enumerate(markers):
        if marker["scope"] == "global":
            concerned = locations
        elif marker["scope"] == "location":
            concerned = [marker["location"]]
        else:
            concerned = of_scope[marker["scope"]].get(marker["scope_id"], [])
        for i in set(concerned) & found.keys():
            found[i].append(number)
    return found


def _locations_by_id(facts: Facts, scope: str) -> dict[int, list[int]]:
    """Return the locations of every definition that markers of a scope can refer to, by its identifier."""
    store = facts.store
    if scope == "location_group":
        processes = store.definitions["processes"].column("id").to_pylist()
        return {i: np.flatnonzero(facts.process == k).tolist() for k, i in enumerate(processes)}
    if scope == "system_tree_node":
        nodes, groups = store.definitions["system_tree_nodes"], store.definitions["processes"]
        parent, on = nodes.column("parent").to_pylist(), groups.column("node").to_pylist()
        below: list[list[int]] = [[] for _ in parent]
        for location, process in enumerate(facts.process.tolist()):
            node = on[process]
            while node >= 0:
                below[node].append(location)
                node = parent[node]
        return dict(zip(nodes.column("id").to_pylist(), below, strict=True))
    if scope == "group":
        found = store.definitions["groups"].to_pylist()
        return {g["id"]: g["members"] if g["type"] in GROUPS_OF_LOCATIONS else [] for g in found}
    if scope == "comm":
        found = store.definitions["communicators"].to_pylist()
        everywhere = list(range(facts.n_locations))
        return {c["id"]: everywhere if c["kind"] == "self" else [*c["members"], *c["remote_members"]] for c in found}
    return {}
