"""The focus of a run: the time between MPI_Init and MPI_Finalize of each process (docs/diagnosis.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.grouping import bounded
from tracecols.enhance.definitions.locations import PIECE, Locations
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.periods import after_last
from tracecols.kernels.actions import ON_OFF, POP, PUSH, action_table
from tracecols.store import Store
from tracecols.vectors import Ints, Mask, offsets_of

Columns = Mapping[str, NDArray[Any]]

COLUMNS = ["kind", "region", "time"]

SMALL = 1 << 15
"""Locations with fewer events are read together."""

FIRST = 1 << 10
"""Events of a larger location that are read first, from its begin and from its end."""

TOGETHER = 1 << 20
"""Events of small locations that are read together, at most."""

GROWTH = 8
"""Factor by which the number of events grows if the event is not among them."""

ACTION = action_table(PUSH, POP, ON_OFF)


def find_focus(store: Store, regions: Regions, locations: Locations) -> Ints | None:
    """Find when each process leaves MPI_Init and when it enters MPI_Finalize; only a fraction of the events is read.

    If a process never calls MPI_Init, its focus begins with that of the process that leaves it first. If it never calls
    MPI_Finalize, its focus ends with that of the process that enters it last, or with the trace if none does.

    Returns ticks by location, (n_locations, 2), or None for the whole run: if MPI is not used, nothing lies between its
    start and its end, or the trace is a trace slice.
    """
    if not regions.is_init.any() or PIECE in store.manifest["source"] or not store.n_events.sum():
        return None
    times, is_known = _begins_and_ends(store, regions, locations)
    if not is_known[0].any():
        return None
    first = times[0][is_known[0]].min()
    last = times[1][is_known[1]].max() if is_known[1].any() else after_last(store.manifest)
    if last <= first:
        return None
    starts, stops = (np.where(*of) for of in zip(is_known, times, (first, last), strict=True))
    return np.stack([starts, np.maximum(starts, stops)], axis=1)[locations.process]


def _begins_and_ends(store: Store, regions: Regions, locations: Locations) -> tuple[Ints, Mask]:
    """Return by process when it leaves MPI_Init and enters MPI_Finalize, and whether it does; (2, n_processes) int64,
    bool. Masters are searched first, since mostly they make these calls."""
    process = locations.process
    times = np.zeros((2, int(process.max()) + 1), np.int64)
    is_known = np.zeros(times.shape, bool)
    is_master = locations.master == np.arange(len(locations))
    for members in (np.flatnonzero(locations.is_cpu & is_master), np.flatnonzero(locations.is_cpu & ~is_master)):
        lacking = members[~is_known[:, process[members]].all(axis=0)]
        for end, location, time in _search(store, regions, lacking):
            # if several locations of a process are found, the first counts
            new = np.flatnonzero(~is_known[end][process[location]])[::-1]
            times[end][process[location[new]]] = time[new]
            is_known[end][process[location]] = True
    return times, is_known


def _search(store: Store, regions: Regions, members: Ints) -> Iterator[tuple[int, Ints, Ints]]:
    """Yield 0 for begins or 1 for ends, locations, and the times found in their first or last events. In larger
    locations, more and more events are read until a time is found. Both ends may be in one row group."""
    n_events = store.n_events[members]
    finds = partial(_exits_of_init, regions), partial(_enters_of_finalize, regions)
    small = members[n_events <= SMALL]
    for group in (small[some] for some in bounded(store.n_events[small], TOGETHER)):
        columns, counts = store.read_together("events", group, COLUMNS)
        for end, find in enumerate(finds):
            of, time = find(columns, offsets_of(counts))
            yield end, group[of], time
    for location, n in zip(members[n_events > SMALL].tolist(), n_events[n_events > SMALL].tolist(), strict=True):
        for end, find in enumerate(finds):
            time, size = np.zeros(0, np.int64), FIRST
            while not time.size and size < GROWTH * n:
                start, stop = (max(n - size, 0), n) if end else (0, min(size, n))
                _, time = find(store.read("events", location, COLUMNS, start, stop), np.array([0, stop - start]))
                size *= GROWTH
            yield end, np.full(time.size, location), time


def _changes(columns: Columns) -> Ints:
    """Return by how much each event changes the depth of the region stack."""
    action = ACTION[columns["kind"]]
    is_push = (action == PUSH) | ((action == ON_OFF) & (columns["region"] >= 0))
    return is_push.astype(np.int64) - ((action == POP) | ((action == ON_OFF) & ~is_push))


def _first(at: Ints, bounds: Ints) -> tuple[Ints, Ints]:
    """Return locations and the first of the given events, which ascend, on each; `bounds` is where the events of each
    location begin."""
    of = np.searchsorted(bounds, at, "right") - 1
    is_first = starts_run(of)
    return of[is_first], at[is_first]


def _exits_of_init(regions: Regions, columns: Columns, bounds: Ints) -> tuple[Ints, Ints]:
    """Find the locations that leave MPI_Init, and when they do so for the first time."""
    of, entered = _first(np.flatnonzero(_enters(columns, regions.is_init)), bounds)
    depth, location = np.cumsum(_changes(columns)), np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
    since, before = bounds[1:].copy(), np.zeros(bounds.size - 1, np.int64)
    since[of], before[of] = entered, depth[entered] - 1
    is_left = (np.arange(depth.size) >= since[location]) & (depth == before[location])
    of, left = _first(np.flatnonzero(is_left), bounds)
    return of, columns["time"][left]


def _enters_of_finalize(regions: Regions, columns: Columns, bounds: Ints) -> tuple[Ints, Ints]:
    """Find the locations that enter MPI_Finalize, and when they do so for the first time."""
    of, entered = _first(np.flatnonzero(_enters(columns, regions.is_finalize)), bounds)
    return of, columns["time"][entered]


def _enters(columns: Columns, which: Mask) -> Mask:
    """Select the events that enter one of some regions."""
    mask: Mask = np.append(which, False).take(columns["region"])
    return mask & (ACTION.take(columns["kind"]) == PUSH)
