"""The focus of a run: the time between MPI_Init and MPI_Finalize of each process (docs/diagnosis.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.locations import PIECE, Locations
from tracecols.enhance.definitions.regions import Regions
from tracecols.kernels.actions import ON_OFF, POP, PUSH, action_table
from tracecols.store import Store

Columns = Mapping[str, NDArray[Any]]

COLUMNS = ["kind", "region", "time"]

SMALL = 1 << 15
"""Events of a location that are looked at first, from its begin and from its end. Locations with fewer are read
together."""

TOGETHER = 1 << 20
"""Events of small locations that are read together."""

GROWTH = 8
"""How many times as many events are looked at if those do not suffice."""

ACTION = action_table(PUSH, POP, ON_OFF)


def find_focus(store: Store, regions: Regions, locations: Locations) -> NDArray[np.int64] | None:
    """Find when each process leaves MPI_Init and when it enters MPI_Finalize; a fraction of the events is read.

    A process that never calls MPI_Init has the begin of the process that leaves it first, and one that never calls
    MPI_Finalize the end of the one that enters it last, or the end of the trace if none does.

    Parameters
    ----------
    store : Store
    regions : Regions
    locations : Locations

    Returns
    -------
    (n_locations, 2) int64 or None
        Ticks between which the focus of the process of each location lies. None if it is the whole run: MPI is not
        used, nothing lies between its start and its end, or the trace is a piece of one.
    """
    if not regions.is_init.any() or PIECE in store.manifest["source"] or not store.n_events.sum():
        return None
    begin, end = _begins_and_ends(store, regions, locations)
    if not begin:
        return None
    first = min(begin.values())
    last = max(end.values()) if end else int(store.manifest["last_time"]) + 1
    if last <= first:
        return None
    process = locations.process
    starts, stops = (np.full(int(process.max()) + 1, default, np.int64) for default in (first, last))
    for times, found in ((starts, begin), (stops, end)):
        times[list(found)] = list(found.values())
    return np.stack([starts, np.maximum(starts, stops)], axis=1)[process]


def _begins_and_ends(store: Store, regions: Regions, locations: Locations) -> tuple[dict[int, int], dict[int, int]]:
    """Return by process when it leaves MPI_Init and when it enters MPI_Finalize; mostly the masters do."""
    process = locations.process
    found: tuple[dict[int, int], dict[int, int]] = {}, {}
    is_master = locations.master == np.arange(len(locations))
    for members in (np.flatnonzero(locations.is_cpu & is_master), np.flatnonzero(locations.is_cpu & ~is_master)):
        for of, from_end, find in ((found[0], False, _exit_of_init), (found[1], True, _enter_of_finalize)):
            lacking = members[[int(p) not in of for p in process[members].tolist()]]
            for location, time in _search(store, lacking, from_end, partial(find, regions)):
                of.setdefault(int(process[location]), time)
    return found


def _search(
    store: Store, members: NDArray[np.int64], from_end: bool, find: Callable[[Columns], int | None]
) -> Iterator[tuple[int, int]]:
    """Yield locations and what is found in their first events, or their last ones: of larger ones in more and more of
    them until something is."""
    n_events = store.n_events[members]
    for group in _groups(members[n_events <= SMALL], store.n_events):
        columns, counts = store.read_together("events", group, COLUMNS)
        for location, stop, n in zip(group.tolist(), np.cumsum(counts).tolist(), counts.tolist(), strict=True):
            time = find({name: column[stop - n : stop] for name, column in columns.items()})
            if time is not None:
                yield location, time
    for location, n in zip(members[n_events > SMALL].tolist(), n_events[n_events > SMALL].tolist(), strict=True):
        time, size = None, SMALL
        while time is None and size < GROWTH * n:
            start, stop = (max(n - size, 0), n) if from_end else (0, min(size, n))
            time = find(store.read("events", location, COLUMNS, start, stop))
            size *= GROWTH
        if time is not None:
            yield location, time


def _groups(members: NDArray[np.int64], n_events: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Divide locations into groups that are read together."""
    group = np.cumsum(n_events[members]) // TOGETHER
    return [part for part in np.split(members, np.flatnonzero(np.diff(group)) + 1) if part.size]


def _changes(columns: Columns) -> NDArray[np.int64]:
    """Return by how much each event changes the depth of the region stack."""
    action = ACTION[columns["kind"]]
    is_push = (action == PUSH) | ((action == ON_OFF) & (columns["region"] >= 0))
    return is_push.astype(np.int64) - ((action == POP) | ((action == ON_OFF) & ~is_push))


def _exit_of_init(regions: Regions, columns: Columns) -> int | None:
    """Return when a location leaves MPI_Init for the first time; None if it does not."""
    entered = np.flatnonzero(_enters(columns, regions.is_init))
    if not entered.size:
        return None
    depth = np.cumsum(_changes(columns)[entered[0] :])
    left = np.flatnonzero(depth == 0)
    return int(columns["time"][entered[0] + left[0]]) if left.size else None


def _enter_of_finalize(regions: Regions, columns: Columns) -> int | None:
    """Return when a location enters MPI_Finalize; None if it does not."""
    entered = np.flatnonzero(_enters(columns, regions.is_finalize))
    return int(columns["time"][entered[0]]) if entered.size else None


def _enters(columns: Columns, which: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Select the events that enter one of some regions."""
    mask: NDArray[np.bool_] = np.append(which, False)[columns["region"]]
    return mask & (ACTION[columns["kind"]] == PUSH)
