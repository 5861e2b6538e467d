"""Work requested from devices before a trace slice, so that kernels and copies are paired with their own calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tracecols.enhance.definitions.locations import CALLSITE, Locations
from tracecols.enhance.definitions.regions import COPY, LAUNCH, Regions
from tracecols.enhance.devices.calls import STREAM_REFERENCES, transfers_of
from tracecols.enhance.devices.pending import PendingWork
from tracecols.enhance.devices.spans import NEVER
from tracecols.schema import EventKind as K
from tracecols.slices.plan import BATCH, COPY_ENDS, LocationSlice
from tracecols.store import Store
from tracecols.vectors import Ints, Mask


def pending_work(store: Store, slices: Sequence[LocationSlice]) -> str:
    """Count, by stream and call site, the calls for devices and the kernels and copies that are over before a slice:
    entries such as `kernel:PROCESS:STREAM:CALLSITE:CALLS:WORK`, separated by blanks."""
    locations, regions = Locations.of(store), Regions(store)
    if not locations.is_device.any():
        return ""
    pending = PendingWork.of(store)
    calls = regions.device_call
    for i, planned in enumerate(slices):
        if not planned.start:
            continue
        process = int(locations.process[i])
        if locations.is_device[i]:
            for what, sites in _work(store, regions, i, planned.start).items():
                for (site,), n in _counted(sites):
                    pending.done[what, process, i, site] += n
        elif locations.is_cpu[i]:
            for what, of in (("kernel", LAUNCH), ("copy", COPY)):
                wanted = np.append(calls == of, False)
                for (stream, site), n in _counted(*_calls(store, locations, wanted, i, planned.start)):
                    pending.called[what, process, stream, site] += n
    return str(pending)


def _counted(*columns: Ints) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the distinct rows of some columns, and the number of times each occurs."""
    rows, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    yield from zip(map(tuple, rows.T.tolist()), counts.tolist(), strict=True)


def _events(store: Store, location: int, stop: int, kinds: tuple[int, ...], wanted: Mask) -> tuple[Ints, ...]:
    """Return number, kind and region of the events of some kinds and regions before some event."""
    parts = [np.zeros((3, 0), np.int64)]
    for base in range(0, stop, BATCH):
        found = store.read("events", location, ["kind", "region"], base, min(base + BATCH, stop))
        at = np.flatnonzero(np.isin(found["kind"], kinds) & wanted[found["region"]])
        parts.append(np.stack([base + at, found["kind"][at].astype(np.int64), found["region"][at].astype(np.int64)]))
    return tuple(np.concatenate(parts, axis=1))


def _calls(store: Store, locations: Locations, wanted: Mask, location: int, stop: int) -> tuple[Ints, Ints]:
    """Return stream and call site of each innermost call that is over before an event; (n,) int64, -1 unknown."""
    row, kind, _ = _events(store, location, stop, (K.ENTER, K.EXIT), wanted)
    is_enter = kind == K.ENTER
    # calls that hold none of their kind: an ENTER and the EXIT after it
    at = np.flatnonzero(is_enter[:-1] & ~is_enter[1:])
    enter, leave = row[at], row[at + 1]
    stream = np.full(at.size, -1, np.int64)
    table = store.names("attribute_definitions")
    ids = [i for i, name in enumerate(table) if name.upper().endswith(STREAM_REFERENCES)]
    if ids and store.n_rows("attributes", location):
        found = store.read("attributes", location, ["row", "attribute", "value"])
        mine = np.isin(found["attribute"], ids)
        of, value = found["row"][mine] - store.first_rows[location], found["value"][mine].astype(np.int64)
        known = (value >= 0) & (value < len(locations))
        known[known] = locations.is_device[value[known]]
        for edge in (leave, enter):
            position = np.searchsorted(of[known], edge)
            inside = position < int(known.sum())
            inside[inside] = of[known][position[inside]] == edge[inside]
            stream[inside] = value[known][position[inside]]
    return stream, _call_sites(store, location, enter, leave)


def _call_sites(store: Store, location: int, enter: Ints, leave: Ints) -> Ints:
    """Return the call site of every call or kernel, given by its events; (n,) int64, -1 if not recorded."""
    site = np.full(enter.size, -1, np.int64)
    names = store.names("parameter_definitions")
    if CALLSITE in names and store.n_rows("parameters", location):
        found = store.read("parameters", location, ["row", "parameter", "value"])
        mine = np.array([n == CALLSITE for n in names])[found["parameter"]]
        of = found["row"][mine] - store.first_rows[location]
        position = np.searchsorted(of, enter)
        inside = position < of.size
        inside[inside] = of[position[inside]] < leave[inside]
        site[inside] = found["value"][mine][position[inside]] & NEVER
    return site


def _work(store: Store, regions: Regions, location: int, stop: int) -> dict[str, Ints]:
    """Return the call sites of kernels and copies of a stream that are over before an event; -1 unknown."""
    runs = np.append(regions.role != "artificial", False)
    row, kind, region = _events(store, location, stop, (K.ENTER, K.EXIT), runs)
    depth = np.cumsum(np.where(kind == K.ENTER, 1, -1))
    outermost = np.flatnonzero((kind == K.EXIT) & (depth == 0))
    begins = np.flatnonzero((kind == K.ENTER) & (depth == 1))[: outermost.size]
    is_copy, is_wait = transfers_of(regions), regions.role == "task_wait"
    works = ~is_wait[region[begins]]
    begins, outermost = begins[works], outermost[works]
    site = _call_sites(store, location, row[begins], row[outermost])
    copies = is_copy[region[begins]]
    n_completed = 0
    if store.n_rows("rma", location):
        side = store.read("rma", location, ["row", "kind"])
        is_over = side["row"] - store.first_rows[location] < stop
        n_completed = int((is_over & np.isin(side["kind"], COPY_ENDS)).sum())
    return {"kernel": site[~copies], "copy": np.append(site[copies], np.full(n_completed, -1, np.int64))}
