"""Calls of hosts for devices: their purposes, and the streams, events and call sites that they refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import combine, lookup
from tracecols.enhance.definitions.locations import CALLSITE, PIECE
from tracecols.enhance.definitions.regions import LAUNCH, Regions
from tracecols.enhance.devices.pending import PendingWork
from tracecols.enhance.devices.spans import NEVER
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.schema.enums import CORRELATION, VALUE_TYPES
from tracecols.vectors import Ints, Mask

UNKNOWN, TO_DEVICE, TO_HOST, WITHIN_DEVICES = range(4)
"""Directions of copies."""

STREAM_REFERENCES, EVENT_REFERENCES = ("STREAM_REF", "QUEUE_REF"), ("EVENT_REF",)
"""Suffixes of the names of attributes that refer to a stream (CUDA_STREAM_REF, OPENCL_QUEUE_REF), or to an event
recorded in one."""

TRANSFER = re.compile(r"(^|\W)target ?update\b")
"""Lower-case names of regions on streams that are transfers whatever their role."""

SHORT = re.compile(r"(?<![a-z])([hmd])2([hmd])(?![a-z])")
"""Lower-case names of copies of Level Zero say from which memory to which: `zeCommandListAppendMemoryCopy(M2D)`, from
memory (M) or memory of the host (H) to a device (D)."""

BEFORE = -2
"""In place of the call that launches a kernel or requests a copy: the call lies before the start of the trace slice."""

LACKING = -3
"""In place of the call that requests a copy, during the join: the call would have the correlation ID of the copy, but
is not recorded."""


@dataclass
class Calls:
    """Call instances of one kind, in order of their ENTERs within each process."""

    number: Ints
    """(n,) int64: numbers of the call instances of the slice."""
    process: Ints
    location: Ints
    """`process` and `location`: (n,) int64"""
    stream: Ints
    """(n,) int64: the stream that a call refers to, -1 none."""
    event: Ints
    callsite: Ints
    """`event` and `callsite`: (n,) int64, the event of the device and the call site that a call refers to, -1 none."""

    def at(self, rows: Ints) -> Calls:
        return Calls(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


class DeviceCalls:
    """The calls of the hosts of a slice for devices, and the operations on their streams, as call instances.

    Attributes
    ----------
    region, what : (n_calls,) int64
        Region of each call instance, and its purpose for devices (`definitions.regions.LAUNCH`, ...); -1 none.
    on_device : (n_calls,) bool
        Whether it is on a stream.
    toward : (n_regions,) int64
        Directions of copies by the names of their regions, as far as these indicate them.
    stream, event, callsite, correlation : (n_calls,) int64
        Objects that each call instance refers to; -1 none.
    pending : PendingWork
    counts : dict
        Notes.
    """

    def __init__(self, facts: Facts, scans: Sequence[LocationScan], members: Ints, calls: CallInstances) -> None:
        self.facts, self.scans, self.members, self.calls = facts, scans, members, calls
        self.is_device = facts.locations.is_device
        self.region = facts.call_paths.region[calls.call_path].astype(np.int64)
        self.what = facts.regions.device_call[self.region].astype(np.int64)
        self.on_device = self.is_device[calls.location]
        self.toward = np.fromiter((direction_of(n) for n in facts.regions.lower), np.int64, len(facts.regions))
        self.counts: dict[str, int] = {}
        self.pending = PendingWork.of(facts.store)
        self.is_piece = PIECE in facts.store.manifest["source"]
        self.stream, self.event = self._references()
        self.callsite = self._callsites()
        self.correlation = self.attribute(CORRELATION)

    def count(self, what: str, n: Any) -> None:
        self.counts[what] = self.counts.get(what, 0) + int(n)

    def of_kind(self, mask: Mask) -> Calls:
        """Return the calls of hosts that a mask selects, in order."""
        c = self.calls
        number = np.flatnonzero(mask & ~self.on_device)
        process = self.facts.process[c.location[number]].astype(np.int64)
        order = self.facts.order.argsort(c.enter[number], c.enter_time[number], process)
        number, process = number[order], process[order]
        location = c.location[number].astype(np.int64)
        return Calls(number, process, location, self.stream[number], self.event[number], self.callsite[number])

    def _references(self) -> tuple[Ints, Ints]:
        """Find the stream and the event that attributes of ENTER and EXIT of each call refer to; -1 none."""
        c, store = self.calls, self.facts.store
        stream, event = (np.full(c.enter.size, -1, np.int64) for _ in range(2))
        table = store.definitions["attribute_definitions"].to_pydict()
        n_locations, unknown = self.facts.n_locations, 0
        location_type = VALUE_TYPES.index("location")
        for result, endings in ((stream, STREAM_REFERENCES), (event, EVENT_REFERENCES)):
            ids = [i for i, name in enumerate(table["name"]) if name.upper().endswith(endings)]
            if not ids:
                continue
            for i in self.members.tolist():
                low, high = c.start[i], c.start[i + 1]
                if self.is_device[i] or low == high or not store.n_rows("attributes", i):
                    continue
                found = store.read("attributes", i, ["row", "attribute", "type", "value"])
                mine = np.isin(found["attribute"], ids)
                row, value = found["row"][mine], found["value"][mine].astype(np.int64)
                if result is stream:
                    known = (found["type"][mine] == location_type) & (value >= 0) & (value < n_locations)
                    known[known] = self.is_device[value[known]]
                    own = self.facts.process[i]
                    known[known] = self.facts.process[value[known]] == own
                    unknown += int((~known).sum())
                    row, value = row[known], value[known]
                for edge in (c.exit, c.enter):
                    at, k = find_values(edge[low:high], row)
                    result[low + at] = value[k]
        self.count("references of calls to streams that do not exist in their process", unknown)
        # a nested call refers to the same stream as the call around it (WAIT FOR COMMAND QUEUE in clFinish)
        for inner, around in nested(c, np.flatnonzero((self.what >= 0) & ~self.on_device)):
            some = stream[inner] < 0
            stream[inner[some]] = stream[around[some]]
        return stream, event

    def innermost(self, kind: int) -> Mask:
        """Return a mask of the calls of hosts of a kind that contain no other call of that kind: the calls of the
        driver within a function of a library."""
        mine = (self.what == kind) & ~self.on_device
        holds = np.zeros(mine.size, bool)
        # the innermost level first
        for inner, around in reversed([*nested(self.calls, np.flatnonzero((self.what >= 0) & ~self.on_device))]):
            holds[around[(mine | holds)[inner]]] = True
        return mine & ~holds

    def _callsites(self) -> Ints:
        """Find the call site in a parameter within each launch or kernel; -1 none."""
        c, store = self.calls, self.facts.store
        result = np.full(c.enter.size, -1, np.int64)
        names = store.names("parameter_definitions")
        ids = [i for i, name in enumerate(names) if name == CALLSITE]
        if not ids:
            return result
        candidates = np.flatnonzero(self.on_device | (self.what == LAUNCH))
        for i in self.members.tolist():
            if not store.n_rows("parameters", i):
                continue
            own = candidates[(candidates >= c.start[i]) & (candidates < c.start[i + 1])]
            own = own[np.argsort(c.enter[own])]
            found = store.read("parameters", i, ["row", "parameter", "value"])
            mine = np.isin(found["parameter"], ids)
            row, value = found["row"][mine], found["value"][mine]
            at = np.searchsorted(c.enter[own], row) - 1
            inside = at >= 0
            at = own[at[inside]]
            row, value = row[inside], value[inside]
            held = (c.exit[at] < 0) | (row < c.exit[at])
            result[at[held]] = value[held] & NEVER
        return result

    def attribute(self, name: str) -> Ints:
        """Return the value of an integer attribute of the ENTER of each call instance; -1 none."""
        c, store = self.calls, self.facts.store
        result = np.full(c.enter.size, -1, np.int64)
        names = store.names("attribute_definitions")
        ids = [i for i, n in enumerate(names) if n == name]
        for i in self.members.tolist() if ids else ():
            low, high = c.start[i], c.start[i + 1]
            if low < high and store.n_rows("attributes", i):
                found = store.read("attributes", i, ["row", "attribute", "value"])
                mine = np.isin(found["attribute"], ids)
                at, k = find_values(c.enter[low:high], found["row"][mine])
                result[low + at] = found["value"][mine][k] & NEVER
        return result

    def correlated(self, number: Ints, process: Ints) -> tuple[Mask, Ints]:
        """Join kernels or copies with the calls of their process that have the same correlation ID. Return whether each
        has an ID, and the call: BEFORE if a trace slice lacks it, -1 if a whole trace does."""
        correlation = pick(self.correlation, number)
        has = correlation >= 0
        call = np.where(has & self.is_piece, BEFORE, -1)
        hosts = np.flatnonzero((self.correlation >= 0) & ~self.on_device)
        wanted = np.flatnonzero(has)
        if hosts.size and wanted.size:
            of_hosts = self.facts.process[self.calls.location[hosts]]
            keys = combine(
                np.concatenate([of_hosts, process[wanted]]).astype(np.int64),
                np.concatenate([self.correlation[hosts], correlation[wanted]]),
            )
            at, k = find_values(keys[: hosts.size], keys[hosts.size :])
            call[wanted[k]] = hosts[at]
        return has, call


def transfers_of(regions: Regions) -> Mask:
    """Return a mask of the regions that are transfers if they are on streams; (n_regions,) bool."""
    return (regions.role == "data_transfer") | regions.whose_name(TRANSFER.search)


def nesting(calls: CallInstances, chosen: Ints) -> tuple[Ints, Mask, Ints]:
    """Order the ENTERs and EXITs of some call instances as in the event table. Return the instance of each event,
    whether it is an ENTER, and the nesting depth of the instance, 1 if it is outermost."""
    closed = chosen[calls.exit[chosen] >= 0]
    call = np.concatenate([chosen, closed])
    is_enter = np.arange(call.size) < chosen.size
    row = np.concatenate([calls.enter[chosen], calls.exit[closed]])
    order = np.argsort(row, kind="stable")
    call, is_enter = call[order], is_enter[order]
    location = calls.location[call]
    level = np.cumsum(np.where(is_enter, 1, -1))
    # instances that never end on one location do not add to the depth on the next
    head = np.flatnonzero(starts_run(location))
    carried = np.append(0, level)[head]
    level = level - np.repeat(carried, np.diff(np.append(head, call.size)))
    return call, is_enter, np.where(is_enter, level, level + 1)


def nested(calls: CallInstances, chosen: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield, level by level from the outside, those of some call instances that are nested in others of them, and the
    instance around each."""
    call, is_enter, depth = nesting(calls, chosen)
    position = np.arange(call.size)
    for level in range(2, int(depth.max(initial=0)) + 1):
        last = np.maximum.accumulate(np.where(is_enter & (depth == level - 1), position, -1))
        inner = np.flatnonzero(is_enter & (depth == level))
        yield call[inner], call[last[inner]]


def direction_of(name: str) -> int:
    """Return the direction of a copy by the lower-case name of its call or region."""
    if short := SHORT.search(name):
        return (UNKNOWN, TO_DEVICE, TO_HOST, WITHIN_DEVICES)[(short[2] == "d") + 2 * (short[1] == "d")]
    name = name.replace("_", "").replace("-", "")
    if any(word in name for word in ("dtod", "ptop", "devicetodevice", "peer", "memset")):
        return WITHIN_DEVICES
    if any(word in name for word in ("htod", "hosttodevice", "upload", "enqueuewrite", "todevice", "copyin")):
        return TO_DEVICE
    if any(word in name for word in ("dtoh", "devicetohost", "download", "enqueueread", "fromdevice", "copyout")):
        return TO_HOST
    return UNKNOWN


def find_values(values: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Find wanted values; return the positions of matches in `values`, and in `wanted`."""
    at = lookup(values, wanted)
    known = np.flatnonzero(at >= 0)
    return at[known], known
