"""What the streams of devices do, and for whom: kernels and their launches, copies, calls that wait for them, idle
time.

Launches and kernels are joined like sends and receives: the k-th launch that refers to a stream with the k-th kernel on
it, and where both name a call site, the k-th of each call site and stream. Copies are joined with the calls that ask
for them likewise, or because the call encloses the copy in time. If calls and what devices do have correlation IDs,
those alone join them.

Scope: within a process; the streams of a process are those of its accelerators. Equality joins, and sorts by time:
O(n log n) in the calls for devices, the kernels and the copies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import (
    combine,
    join_occurrences,
    latest,
    latest_before,
    mask_of,
    occurrence,
    pair_with_previous,
)
from tracecols.enhance.dataflow.grouping import number as number_of
from tracecols.enhance.dataflow.steps import WITHIN, step
from tracecols.enhance.definitions.locations import CALLSITE, PIECE, PIECE_PENDING
from tracecols.enhance.definitions.regions import COPY, LAUNCH, WAIT, Regions
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances, attributed_events, outermost_call_paths
from tracecols.enhance.scan.scan import LocationScan
from tracecols.schema import EventKind as K
from tracecols.schema.compound import COPIES, DEVICE_INTERVALS, DEVICE_SYNCS, KERNELS
from tracecols.schema.enums import COPIED_BYTES, CORRELATION, NCCL, VALUE_TYPES
from tracecols.store import Store

UNKNOWN, TO_DEVICE, TO_HOST, WITHIN_DEVICES = range(4)
"""Directions of copies."""

IDLE, KERNEL, COPYING = range(3)
"""What a stream does."""

STREAM_REFERENCES, EVENT_REFERENCES = ("STREAM_REF", "QUEUE_REF"), ("EVENT_REF",)
"""How the names of attributes end that refer to a stream (CUDA_STREAM_REF, OPENCL_QUEUE_REF), or to an event recorded
in one."""

ENDS = mask_of((K.RMA_OP_COMPLETE_BLOCKING, K.RMA_OP_COMPLETE_NON_BLOCKING, K.RMA_OP_COMPLETE_REMOTE))

TRANSFER = re.compile(r"(^|\W)target ?update\b")
"""Regions on streams by lower-case name that are transfers whatever their role says."""

TRUE = ("yes", "true", "1")
"""Values of properties that hold."""

PAIRS = 1 << 22
"""Calls that wait, and streams each may wait for, that are looked at at once; some 100 B each."""

NEVER = np.iinfo(np.int64).max

BEFORE = -2
"""Instead of the call that asks for a kernel or a copy: it lies before the piece of the trace."""

LACKING = -3
"""Instead of the call that asks for a copy while others are joined: it would have the copy's correlation ID, but is not
recorded."""

WorkKey = tuple[str, int, int, int]
"""What is asked for, `kernel` or `copy`, and process, stream and call site; -1 for what is not recorded."""

Ints = NDArray[np.int64]


@dataclass
class Calls:
    """Call instances of one kind, in order of their ENTERs within each process.

    Attributes
    ----------
    number : (n,) int64
        In the call instances of the slice.
    process, location : (n,) int64
    stream : (n,) int64
        The stream a call refers to, -1 none.
    event, callsite : (n,) int64
        The event of the device and the call site it names, -1 none.
    """

    number: Ints
    process: Ints
    location: Ints
    stream: Ints
    event: Ints
    callsite: Ints

    def at(self, rows: Ints) -> Calls:
        """Return some calls, in the order of their rows."""
        return Calls(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@step(WITHIN, "kernels", "copies", "device_syncs", "device_intervals")
def match_devices(
    facts: Facts, scans: Sequence[LocationScan], members: NDArray[np.int64], call_instances: CallInstances
) -> tuple[CompoundTable, CompoundTable, CompoundTable, CompoundTable]:
    """Build the tables of kernels, copies, calls that wait for devices, and of what every stream does when."""
    if not facts.locations.is_device[members].any():
        empty = CompoundTable.empty
        return empty(KERNELS), empty(COPIES), empty(DEVICE_SYNCS), empty(DEVICE_INTERVALS)
    return _Devices(facts, scans, members, call_instances).tables()


def transfers_of(regions: Regions) -> NDArray[np.bool_]:
    """Say which regions on streams are transfers; (n_regions,) bool."""
    named = np.fromiter((TRANSFER.search(name) is not None for name in regions.lower), bool, len(regions))
    found: NDArray[np.bool_] = (regions.role == "data_transfer") | named
    return found


@dataclass(frozen=True)
class PendingWork:
    """What devices were asked for before a piece of a trace, and what of it was done; false for whole traces.

    Attributes
    ----------
    called, done : Counter
        Calls that are over, and kernels and copies that are, by what, process, stream and call site; -1 for what is not
        told.
    """

    called: Counter[WorkKey]
    done: Counter[WorkKey]

    @classmethod
    def of(cls, store: Store) -> PendingWork:
        """Read what the manifest of a piece says."""
        found = cls(Counter(), Counter())
        for entry in str(store.manifest["source"].get(PIECE_PENDING, "")).split():
            what, *numbers = entry.split(":")
            process, stream, site, n_called, n_done = (int(n) for n in numbers)
            for counts, n in ((found.called, n_called), (found.done, n_done)):
                if n:
                    counts[what, process, stream, site] = n
        return found

    def __bool__(self) -> bool:
        return bool(self.called or self.done)

    def __str__(self) -> str:
        keys = sorted(self.called.keys() | self.done.keys())
        return " ".join(":".join(map(str, (*key, self.called[key], self.done[key]))) for key in keys)

    @cached_property
    def _streams(self) -> set[tuple[str, int]]:
        return {(what, stream) for what, _, stream, _ in self.called if stream >= 0}

    @cached_property
    def _of_streams(self) -> Counter[tuple[str, int, int]]:
        """Calls less what is done, by what, stream and call site."""
        found: Counter[tuple[str, int, int]] = Counter()
        for counts, sign in ((self.called, 1), (self.done, -1)):
            for (what, _, stream, site), n in counts.items():
                found[what, stream, site] += sign * n
        return found

    @cached_property
    def _of_sites(self) -> Counter[tuple[str, int, int]]:
        """By process and call site: launches that refer to a stream (`stream`), other launches (`none`), kernels
        (`done`)."""
        found: Counter[tuple[str, int, int]] = Counter()
        for (what, process, stream, site), n in self.called.items():
            if what == "kernel":
                found["stream" if stream >= 0 else "none", process, site] += n
        for (what, process, _, site), n in self.done.items():
            if what == "kernel":
                found["done", process, site] += n
        return found

    def streams(self, what: str) -> list[int]:
        """Return the streams that calls before the piece refer to."""
        return sorted(stream for of, stream in self._streams if of == what)

    def processes(self) -> Ints:
        """Return the processes whose launches before the piece refer to streams or name call sites."""
        return np.array([k[1] for k in self.called if k[0] == "kernel" and max(k[2:]) >= 0], np.int64)

    def of_stream(self, what: str, stream: int, site: int = -1) -> int:
        """Count the calls that refer to a stream, and a call site, less what is done; 0 where no call refers to the
        stream."""
        return self._of_streams[what, stream, site] if (what, stream) in self._streams else 0

    def of_site(self, process: int, site: int) -> int:
        """Count the launches of a process that name a call site and no stream, less the kernels that are theirs."""
        of_streams, others, done = (self._of_sites[of, process, site] for of in ("stream", "none", "done"))
        return others - max(done - of_streams, 0)

    def of_process(self, process: int) -> int:
        """Count the launches of a process that refer to nothing, less all its kernels."""
        done = sum(n for k, n in self.done.items() if k[:2] == ("kernel", process))
        return self.called["kernel", process, -1, -1] - done


class _Devices:
    """The streams of a slice and the calls of their hosts."""

    def __init__(
        self, facts: Facts, scans: Sequence[LocationScan], members: NDArray[np.int64], calls: CallInstances
    ) -> None:
        self.facts, self.scans, self.members, self.calls = facts, scans, members, calls
        self.is_device = facts.locations.is_device
        self.region = facts.call_paths.region[calls.call_path].astype(np.int64)
        self.what = facts.regions.device_call[self.region].astype(np.int64)
        self.on_device = self.is_device[calls.location]
        # directions of copies, as far as the names of their regions tell
        self.toward = np.fromiter((_direction_of(n) for n in facts.regions.lower), np.int64, len(facts.regions))
        self.counts: dict[str, int] = {}
        self.pending = PendingWork.of(facts.store)
        self.is_piece = PIECE in facts.store.manifest["source"]
        self.stream, self.event = self._references()
        self.callsite = self._callsites()
        self.correlation = self._attribute(CORRELATION)

    def tables(self) -> tuple[CompoundTable, CompoundTable, CompoundTable, CompoundTable]:
        """Return the four tables."""
        inner, outermost = self._stack()
        regions = self.facts.regions
        transfers = transfers_of(regions)
        self._is_copy = (outermost & transfers[self.region]) if self.region.size else outermost
        self._is_wait = (regions.role == "task_wait")[self.region]
        self._communicates = (regions.paradigm == NCCL)[self.region]
        kernel = self._kernels(np.flatnonzero(outermost & ~self._is_copy & ~self._is_wait))
        copy = self._copies(np.flatnonzero(self._is_copy))
        self._busy(kernel, copy)
        self.roots = outermost_call_paths(
            facts=self.facts, scans=self.scans, chosen=self.members[self.is_device[self.members]]
        )
        return (
            self._kernel_table(kernel, copy),
            self._copy_table(copy),
            self._sync_table(kernel, copy),
            self._interval_table(kernel, copy, inner),
        )

    def _count(self, what: str, n: Any) -> None:
        self.counts[what] = self.counts.get(what, 0) + int(n)

    # -- what calls refer to
    # ---------------------------------------------------------------------------------------------

    def _of_kind(self, mask: NDArray[np.bool_]) -> Calls:
        """Return the calls of hosts that a mask selects, in order."""
        c = self.calls
        number = np.flatnonzero(mask & ~self.on_device)
        process = self.facts.process[c.location[number]].astype(np.int64) if number.size else np.zeros(0, np.int64)
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
                    at, k = _find(edge[low:high], row)
                    result[low + at] = value[k]
        self._count("references of calls to streams that do not exist in their process", unknown)
        # what a call does inside of another one it does for the same stream (WAIT FOR COMMAND QUEUE in clFinish)
        host = np.flatnonzero((self.what >= 0) & ~self.on_device)
        call, is_enter, depth = nesting(c, host)
        position = np.arange(call.size)
        for level in range(2, int(depth.max(initial=0)) + 1):
            around = call[np.maximum.accumulate(np.where(is_enter & (depth == level - 1), position, -1))]
            inner = np.flatnonzero(is_enter & (depth == level))
            some = inner[stream[call[inner]] < 0]
            stream[call[some]] = stream[around[some]]
        return stream, event

    def _innermost(self, kind: int) -> NDArray[np.bool_]:
        """Say which calls of hosts are of a kind and hold none of it: of a library's function those of the driver
        inside."""
        mine = (self.what == kind) & ~self.on_device
        call, is_enter, depth = nesting(self.calls, np.flatnonzero((self.what >= 0) & ~self.on_device))
        position = np.arange(call.size)
        holds = np.zeros(mine.size, bool)
        for k in range(int(depth.max(initial=0)), 1, -1):
            around = call[np.maximum.accumulate(np.where(is_enter & (depth == k - 1), position, -1))]
            inner = np.flatnonzero(is_enter & (depth == k))
            some = inner[(mine | holds)[call[inner]]]
            holds[around[some]] = True
        return mine & ~holds

    def _callsites(self) -> Ints:
        """Find the call site that a parameter inside of each launch or kernel names; -1 none."""
        c, store = self.calls, self.facts.store
        result = np.full(c.enter.size, -1, np.int64)
        names = store.definitions["parameter_definitions"].column("name").to_pylist()
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

    def _attribute(self, name: str) -> Ints:
        """Return the value of an integer attribute of the ENTER of each call instance; -1 none."""
        c, store = self.calls, self.facts.store
        result = np.full(c.enter.size, -1, np.int64)
        names = store.definitions["attribute_definitions"].column("name").to_pylist()
        ids = [i for i, n in enumerate(names) if n == name]
        for i in self.members.tolist() if ids else ():
            low, high = c.start[i], c.start[i + 1]
            if low < high and store.n_rows("attributes", i):
                found = store.read("attributes", i, ["row", "attribute", "value"])
                mine = np.isin(found["attribute"], ids)
                at, k = _find(c.enter[low:high], found["row"][mine])
                result[low + at] = found["value"][mine][k] & NEVER
        return result

    def _correlated(self, number: Ints, process: Ints) -> tuple[NDArray[np.bool_], Ints]:
        """Join kernels or copies with the calls of their process that have their correlation ID.

        Returns
        -------
        has : (n,) bool
            Whether a kernel or copy has such a number.
        call : (n,) int64
            The call; BEFORE where a piece of a trace lacks it, -1 where the trace does.
        """
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
            at, k = _find(keys[: hosts.size], keys[hosts.size :])
            call[wanted[k]] = hosts[at]
        return has, call

    # -- what runs on streams
    # --------------------------------------------------------------------------------------------

    def _stack(self) -> tuple[Columns, NDArray[np.bool_]]:
        """Find which region instances on streams are outermost, and what is innermost and outermost when.

        Returns
        -------
        inner : Columns
            Of every ENTER and EXIT on streams in order: `location`, `time`, and `call` and `outer`, the innermost and
            the outermost instance from then on, -1 none.
        outermost : (n_calls,) bool
        """
        c = self.calls
        # regions that stand for idle time (GPU IDLE, COMPUTE IDLE) hold copies, and nothing runs because of them
        runs = (
            self.on_device & (self.facts.regions.role != "artificial")[self.region] if c.enter.size else self.on_device
        )
        call, is_enter, depth = nesting(c, np.flatnonzero(runs))
        level = np.where(is_enter, depth, depth - 1)
        number = np.arange(call.size)
        innermost, outer = np.full(call.size, -1, np.int64), np.full(call.size, -1, np.int64)
        for k in range(1, int(level.max(initial=0)) + 1):
            last = np.maximum.accumulate(np.where(is_enter & (depth == k), number, -1))
            here = level == k
            innermost[here] = call[last[here]]
            if k == 1:
                outer[level >= 1] = call[last[level >= 1]]
        outermost = np.zeros(c.enter.size, bool)
        outermost[call[is_enter & (depth == 1)]] = True
        time = np.where(is_enter, c.enter_time[call], c.exit_time[call])
        location = c.location[call].astype(np.int64)
        return Columns(call.size, {"location": location, "time": time, "call": innermost, "outer": outer}), outermost

    def _kernels(self, runs: Ints) -> Columns:
        """Join kernels with the calls that launch them."""
        c = self.calls
        order = np.lexsort((c.enter[runs], c.enter_time[runs]))
        number = runs[order]
        location = c.location[number].astype(np.int64)
        process = self.facts.process[location].astype(np.int64)
        callsite = self.callsite[number]
        launches = self._of_kind(self._innermost(LAUNCH))
        of = np.full(number.size, -1, np.int64)
        has_correlation = self.correlation[launches.number] >= 0
        free = ~has_correlation
        is_correlated, request = self._correlated(number, process)

        def join(
            some: NDArray[np.bool_],
            kernels: NDArray[np.bool_],
            left: tuple[Ints, ...],
            right: tuple[Ints, ...],
            before: Callable[..., int],
        ) -> None:
            """Join the k-th of some launches with the k-th of some kernels that have the same key.

            In a piece of a trace the first kernels of a key are those of launches before it, as many as were not done.
            """
            a, b = np.flatnonzero(some & free), np.flatnonzero(kernels & (of == -1) & ~is_correlated)
            if not b.size:
                return
            keys = combine(*(np.concatenate([x[a], y[b]]) for x, y in zip(left, right, strict=True)))
            if self.pending:
                group, head = number_of(keys)
                values = (np.concatenate([x[a], y[b]])[head].tolist() for x, y in zip(left, right, strict=True))
                n = np.array([before(*of_key) for of_key in zip(*values, strict=True)], np.int64)[group]
                kept_a, kept_b = occurrence(keys[: a.size]) >= -n[: a.size], occurrence(keys[a.size :]) >= n[a.size :]
                free[a[~kept_a]] = False
                of[b[~kept_b]] = BEFORE
                keys = np.concatenate([keys[: a.size][kept_a], keys[a.size :][kept_b]])
                a, b = a[kept_a], b[kept_b]
            found = join_occurrences(keys[: a.size], keys[a.size :])
            of[b] = np.where(found >= 0, a[found] if a.size else -1, -1)
            free[a[found[found >= 0]]] = False

        has_stream, has_site = launches.stream >= 0, launches.callsite >= 0
        names_site = callsite >= 0
        join(
            has_stream & has_site,
            names_site,
            (launches.stream, launches.callsite),
            (location, callsite),
            lambda stream, site: self.pending.of_stream("kernel", stream, site),
        )
        join(
            ~has_stream & has_site,
            names_site,
            (launches.process, launches.callsite),
            (process, callsite),
            self.pending.of_site,
        )
        # what names a call site belongs to what names the same, or lacks it
        join(
            has_stream & ~has_site,
            ~names_site,
            (launches.stream,),
            (location,),
            lambda stream: self.pending.of_stream("kernel", stream),
        )
        # without any reference: a process with one stream has one queue
        told = np.concatenate([launches.process[has_stream | has_site | has_correlation], self.pending.processes()])
        silent = ~np.isin(process, told) & ~is_correlated
        streams = np.unique(location)
        n_streams = np.bincount(self.facts.process[streams], minlength=int(self.facts.process.max()) + 1)
        join(
            ~has_stream & ~has_site,
            silent & (n_streams[process] == 1),
            (launches.process,),
            (process,),
            self.pending.of_process,
        )

        launch = np.where(of == BEFORE, BEFORE, pick(launches.number, np.maximum(of, -1)))
        launch = np.where(is_correlated, request, launch)
        free |= has_correlation & ~np.isin(launches.number, launch)
        self._count("kernels launched before the piece", (launch == BEFORE).sum())
        self._count("kernels without a launch", ((launch == -1) & ~silent).sum())
        self._count(
            "kernels whose launches are not recorded: late hosts and launch latency are not known",
            ((launch == -1) & silent).sum(),
        )
        told = np.isin(launches.process, process)
        lacking = "launches without a kernel in the piece" if self.is_piece else "launches without a kernel"
        self._count(lacking, (free & (has_stream | has_site | has_correlation) & told).sum())
        early = (launch >= 0) & (c.enter_time[number] < c.enter_time[np.maximum(launch, 0)])
        self._count("kernels that begin before their launch", early.sum())
        return Columns(
            number.size,
            {
                "location": location,
                "process": process,
                "row": c.enter[number],
                "begin": c.enter_time[number],
                "end": np.maximum(c.exit_time[number], c.enter_time[number]),
                "number": number,
                "request": launch,
                "direction": np.full(number.size, -1, np.int64),
            },
        )

    def _copies(self, regions: Ints) -> Columns:
        """Join copies with the calls that ask for them."""
        c = self.calls
        e = attributed_events(
            self.facts, self.scans, self.members, c, "rma", ["window", "remote", "sent", "received", "matching"]
        )
        key = combine(e.location, e.window, e.matching) if e.row.size else np.zeros(0, np.int64)
        is_begin = mask_of((K.RMA_PUT, K.RMA_GET))[e.kind]
        partner = pair_with_previous(key, is_begin, ENDS[e.kind])
        begin = np.flatnonzero(is_begin)
        recorder = e.location[begin].astype(np.int64)
        remote = self._location_of(e.window[begin], e.remote[begin])
        by_device, far = self.is_device[recorder] if begin.size else np.zeros(0, bool), pick(self.is_device, remote, 0)
        mine = by_device | far
        begin, recorder, remote, by_device, far = (x[mine] for x in (begin, recorder, remote, by_device, far))
        is_put = e.kind[begin] == K.RMA_PUT
        known = (remote >= 0) | ~by_device
        # a stream puts to the host and gets from it, a host the other way round
        direction = np.where(is_put == by_device, TO_HOST, TO_DEVICE)
        direction = np.where(by_device & far, WITHIN_DEVICES, np.where(known, direction, UNKNOWN))
        end = partner[begin]
        self._count("copies that never end", (end < 0).sum())
        own_call = np.where(by_device, -1, e.call[begin])

        rma = {
            "location": np.where(by_device, recorder, remote), "row": e.row[begin], "begin": e.time[begin],
            "end": np.where(end >= 0, e.time[end], e.time[begin]), "direction": direction,
            "bytes": np.where(is_put, e.sent[begin], e.received[begin]), "request": own_call,
            "number": np.full(begin.size, -1, np.int64),
        }  # fmt: skip
        # where the host records them, too, regions show the same copies once more
        regions = regions[~np.isin(c.location[regions], rma["location"])]
        there = {
            "location": c.location[regions], "row": c.enter[regions], "begin": c.enter_time[regions],
            "end": c.exit_time[regions], "direction": self.toward[self.region[regions]], "bytes": self._attribute(COPIED_BYTES)[regions],
            "request": np.full(regions.size, -1), "number": regions,
        }  # fmt: skip
        both = {name: np.concatenate([rma[name], there[name]]).astype(np.int64) for name in rma}
        both["end"] = np.maximum(both["begin"], both["end"])
        order = np.lexsort((both["row"], both["begin"]))
        found = Columns(order.size, {name: values[order] for name, values in both.items()})
        process = self.facts.process[found.location].astype(np.int64) if len(found) else np.zeros(0, np.int64)
        request = self._requests(found, process)
        request[request == LACKING] = -1
        unknown = request == -1
        self._count("copies asked for before the piece", (request == BEFORE).sum())
        self._count("copies whose call is not known", unknown.sum())
        self._count("copies without bytes", (found.bytes < 0).sum())
        return Columns(len(found), {**{n: found[n] for n in found.names}, "process": process, "request": request})

    def _location_of(self, window: NDArray[Any], remote: NDArray[Any]) -> Ints:
        """Return the location at a rank of a window's communicator; -1 none."""
        d = self.facts.store.definitions
        members = d["communicators"].column("members").to_pylist()
        of_window = [c if 0 <= c < len(members) else -1 for c in d["windows"].column("communicator").to_pylist()]
        sizes = np.array([len(members[c]) if c >= 0 else 0 for c in of_window] + [0], np.int64)
        flat = np.array([m for c in of_window if c >= 0 for m in members[c]], np.int64)
        start = np.cumsum(sizes) - sizes
        w = window.astype(np.int64)
        inside = (w >= 0) & (remote >= 0) & (remote < sizes[w])
        return pick(flat, np.where(inside, start[w] + remote, -1)) if flat.size else np.full(w.size, -1, np.int64)

    def _requests(self, copies: Columns, process: Ints) -> Ints:
        """Find the call that asks for every copy; -1 not known."""
        c = self.calls
        is_correlated, request = self._correlated(copies.number, process)
        request = np.where(is_correlated, np.where(request == -1, LACKING, request), copies.request)
        calls = self._of_kind(self._innermost(COPY))
        for stream in self.pending.streams("copy") if len(copies) else ():
            # the first copies of a stream are those that were asked for before the piece
            n = max(self.pending.of_stream("copy", stream), 0)
            request[np.flatnonzero((copies.location == stream) & (request == -1))[:n]] = BEFORE
        if not calls.number.size or not len(copies):
            return request
        toward = self.toward[self.region[calls.number]]
        taken = np.isin(calls.number, request[request >= 0])
        is_async = np.fromiter(("async" in n for n in self.facts.regions.lower), bool, len(self.facts.regions))
        blocks = (calls.stream < 0) & ~is_async[self.region[calls.number]]
        enter, leave = c.enter_time[calls.number], c.exit_time[calls.number]

        def join_streams(streams: NDArray[np.bool_]) -> None:
            """Join the k-th call that refers to one of some streams with its k-th copy."""
            a, b = np.flatnonzero((calls.stream >= 0) & ~taken), np.flatnonzero(request == -1)
            a, b = a[streams[calls.stream[a]]], b[streams[copies.location[b]]]
            found = join_occurrences(calls.stream[a], copies.location[b])
            request[b] = np.where(found >= 0, calls.number[a[found]] if a.size else -1, -1)
            taken[a[found[found >= 0]]] = True

        # streams of which all copies are asked for by calls that refer to them
        counts = [
            np.bincount(x, minlength=self.facts.n_locations)
            for x in (calls.stream[(calls.stream >= 0) & ~taken], copies.location[request == -1])
        ]
        join_streams(counts[0] == counts[1])
        # a call that returns when its copy is done: the last one that ends in it, of the same direction if its name
        # tells
        for same in (True, False):
            b = np.flatnonzero((request == -1) & ((copies.direction != UNKNOWN) | (not same)))
            a = np.flatnonzero(blocks & ~taken & ((toward != UNKNOWN) == same))
            if not a.size or not b.size:
                continue
            of_copies = process[b] * 4 + (copies.direction[b] if same else 0)
            of_calls = calls.process[a] * 4 + (toward[a] if same else 0)
            at = latest_before(of_copies, copies.end[b], of_calls, leave[a])
            holds = (at >= 0) & (copies.begin[b[at]] >= enter[a])
            # of calls that overlap the one that began last
            request[b[at[holds]]] = calls.number[a[holds]]
            taken[np.isin(calls.number, request[b])] = True
        join_streams(np.ones(self.facts.n_locations, bool))
        # all others of a direction, if there are as many calls as copies: in order
        a, b = np.flatnonzero(~taken & (calls.stream < 0)), np.flatnonzero(request == -1)
        left, right = calls.process[a] * 4 + toward[a], process[b] * 4 + copies.direction[b]
        for key in np.intersect1d(left, right).tolist():
            of_calls, of_copies = a[left == key], b[right == key]
            if (
                of_calls.size == of_copies.size
                and (c.enter_time[calls.number[of_calls]] <= copies.begin[of_copies]).all()
            ):
                request[of_copies] = calls.number[of_calls]
        return request

    # -- when streams are busy
    # -------------------------------------------------------------------------------------------

    def _busy(self, kernel: Columns, copy: Columns) -> None:
        """Prepare the first and last time of every process, and when kernels run on each device."""
        process = self.facts.process
        n = int(process.max(initial=-1)) + 1
        self.first, self.last = np.full(n, NEVER), np.full(n, -NEVER)
        of_process = self.facts.locations.is_cpu | self.is_device
        for i in self.members.tolist():
            if of_process[i] and self.scans[i].n:
                p = process[i]
                self.first[p] = min(self.first[p], self.scans[i].first_time)
                self.last[p] = max(self.last[p], self.scans[i].last_time)
        for found in (kernel, copy):
            np.minimum.at(self.first, found.process, found.begin)
            np.maximum.at(self.last, found.process, found.end)
        device = self.facts.locations.device
        # kernels that communicate hide nothing: they are hidden themselves, like copies
        computes = ~self._communicates[kernel.number]
        location, begin, end = (of[computes] for of in (kernel.location, kernel.begin, kernel.end))
        self.kernel_time = _Coverage(device[location].astype(np.int64), begin, end)

    def _idle_since(self, kernel: Columns, copy: Columns) -> Ints:
        """Return when the last kernel or copy that began before each kernel on its stream ended; the start of the
        process if none."""
        location = np.concatenate([kernel.location, copy.location])
        begin, end = np.concatenate([kernel.begin, copy.begin]), np.concatenate([kernel.end, copy.end])
        row = np.concatenate([kernel.row, copy.row])
        order = np.lexsort((row, begin, location))
        latest = running_max(location[order], end[order])
        head = np.append(True, location[order][1:] != location[order][:-1]) if order.size else np.zeros(0, bool)
        before = np.append(0, latest[:-1])[: order.size]
        before = np.where(head, self.first[self.facts.process[location[order]]], before)
        result = np.empty(order.size, np.int64)
        result[order] = before
        return result[: len(kernel)]

    def _kernel_table(self, kernel: Columns, copy: Columns) -> CompoundTable:
        c, number = self.calls, kernel.number
        return CompoundTable(
            KERNELS,
            len(kernel),
            {
                "location": kernel.location.astype(np.int32),
                "call_path": c.call_path[number],
                "enter": c.enter[number],
                "exit": c.exit[number],
                "enter_time": kernel.begin,
                "exit_time": kernel.end,
                "idle_since_time": self._idle_since(kernel, copy),
                "callsite": self.callsite[number],
                **self._call_columns("launch", kernel.request),
            },
            self.counts,
        )

    def _copy_table(self, copy: Columns) -> CompoundTable:
        return CompoundTable(
            COPIES,
            len(copy),
            {
                "location": copy.location.astype(np.int32),
                "event": copy.row,
                "begin_time": copy.begin,
                "end_time": copy.end,
                "direction": copy.direction.astype(np.int8),
                "bytes": copy.bytes,
                "hidden_time": self._hidden(copy.location, copy.begin, copy.end),
                "call_path": np.where(
                    copy.request >= 0,
                    pick(self.calls.call_path, np.maximum(copy.request, -1)),
                    self.roots[copy.location],
                ).astype(np.int32),
                **self._call_columns("copy", copy.request),
            },
        )

    def _hidden(self, location: Ints, begin: Ints, end: Ints) -> Ints:
        """Return how long kernels run on the device of a stream between two times."""
        device = self.facts.locations.device[location].astype(np.int64)
        return self.kernel_time.until(device, end) - self.kernel_time.until(device, begin)

    def _call_columns(self, role: str, number: Ints) -> dict[str, NDArray[Any]]:
        """Return the columns of a call of another location."""
        number = np.maximum(number, -1)
        location = pick(self.calls.location, number).astype(np.int32)
        return {f"{role}_location": location, **self.calls.columns_of(role, number)}

    # -- calls that wait
    # -------------------------------------------------------------------------------------------------

    def _sync_table(self, kernel: Columns, copy: Columns) -> CompoundTable:
        """Find for every call that waits what was pending when it began and ended last."""
        c = self.calls
        host = np.flatnonzero((self.what >= 0) & ~self.on_device)
        own_time, waits_inside = self._inside(host)
        # the last copy of each call that returns only when it is over
        done = np.full(c.enter.size, -NEVER)
        asked = np.flatnonzero(copy.request >= 0)
        np.maximum.at(done, copy.request[asked], copy.end[asked])
        blocks = (self.what == COPY) & (done > -NEVER) & (c.exit_time >= done)
        all_calls = self._of_kind(((self.what == WAIT) & ~waits_inside) | blocks)
        known = np.flatnonzero(np.isin(all_calls.process, np.concatenate([kernel.process, copy.process])))
        # in the order of the event table, which does not depend on what other processes do
        calls = all_calls.at(known[np.argsort(c.enter[all_calls.number[known]])])
        number = calls.number
        enter, leave = c.enter_time[number], c.exit_time[number]
        stream, limit, null_stream = self._scope(calls, enter)

        acts = {
            n: np.concatenate([kernel[n], copy[n]]) for n in ("location", "process", "begin", "end", "row", "request")
        }
        told = acts["request"] != -1
        since = (
            np.where(acts["request"] >= 0, c.enter_time[np.maximum(acts["request"], 0)], acts["begin"])
            if c.enter.size
            else acts["begin"]
        )
        since = np.where(acts["request"] == BEFORE, -NEVER, since)
        cause = self._last_pending(acts, since, told, calls, stream, null_stream, limit)
        begin = pick(acts["begin"], cause)
        return CompoundTable(
            DEVICE_SYNCS,
            number.size,
            {
                "location": c.location[number],
                "enter": c.enter[number],
                "exit": c.exit[number],
                "enter_time": enter,
                "exit_time": leave,
                "call_path": c.call_path[number],
                "is_copy": self.what[number] != WAIT,
                "stream": stream.astype(np.int32),
                "own_time": own_time[number],
                "cause": pick(acts["row"], cause),
                "cause_location": pick(acts["location"], cause).astype(np.int32),
                "cause_begin_time": begin,
                "cause_end_time": pick(acts["end"], cause),
                "wait_begin_time": np.where(cause >= 0, np.maximum(enter, begin), enter),
            },
        )

    def _last_pending(
        self,
        acts: dict[str, Ints],
        since: Ints,
        told: NDArray[np.bool_],
        calls: Calls,
        stream: Ints,
        null_stream: Ints,
        limit: Ints,
    ) -> Ints:
        """Find for every call that waits the kernel or copy that was pending and ended last; -1 none.

        A call that does not say for which stream it waits has returned when all it waits for was over. So what ended in
        the call comes first; what ended later, on another device or in another queue, only where nothing else was
        pending.

        Parameters
        ----------
        acts : dict of str to (n_acts,) int64
            Kernels and copies.
        since : (n_acts,) int64
            When each was asked for; its begin where that is not recorded.
        told : (n_acts,) bool
            Whether it is.
        stream, null_stream : (n_calls,) int64
            For which stream a call waits, -1 for several; and if these are those of one device with its null stream,
            that one.
        limit : (n_calls,) int64
            Before when the work was asked for that it waits for.
        """
        c, members = self.calls, self.members
        enter, leave = c.enter_time[calls.number], c.exit_time[calls.number]
        streams = members[self.is_device[members]]
        streams = streams[np.argsort(self.facts.process[streams], kind="stable")]
        process = self.facts.process[streams].astype(np.int64)
        first = np.searchsorted(process, calls.process)
        n_streams = np.where(stream >= 0, 1, np.searchsorted(process, calls.process, "right") - first)
        cause = np.full(stream.size, -1, np.int64)
        size = max(1, PAIRS // int(n_streams.max(initial=1)))
        for start in range(0, stream.size, size):
            n = n_streams[start : start + size]
            call = np.repeat(np.arange(start, start + n.size), n)
            within = np.arange(call.size) - np.repeat(np.cumsum(n) - n, n)
            candidate = np.where(
                stream[call] >= 0, stream[call], streams[np.minimum(first[call] + within, streams.size - 1)]
            )
            null = null_stream[call]
            waited = (null < 0) | self._is_blocking(candidate, null)
            call, candidate = call[waited], candidate[waited]
            act = np.full(call.size, -1, np.int64)
            for mask, before in ((told, limit), (~told, leave)):
                some = np.flatnonzero(mask)
                found = latest_end(acts["location"][some], since[some], acts["end"][some], candidate, before[call])
                found = pick(some, found)
                later = (found >= 0) & (acts["end"][found] > enter[call])
                later &= (act < 0) | (acts["end"][found] > acts["end"][act])
                act[later] = found[later]
            at = np.flatnonzero(act >= 0)
            end = acts["end"][act[at]]
            at = at[np.lexsort((acts["row"][act[at]], -end, end > leave[call[at]], call[at]))]
            chosen = at[np.append(True, call[at][1:] != call[at][:-1])[: at.size]]
            cause[call[chosen]] = act[chosen]
        return cause

    def _is_blocking(self, stream: Ints, null_stream: Ints) -> NDArray[np.bool_]:
        """Say whether streams wait for the null stream of their device, and it for them."""
        device = self.facts.locations.device
        return (device[stream] == device[null_stream]) & ~self._streams_with("nonblocking")[stream]

    def _streams_with(self, word: str) -> NDArray[np.bool_]:
        """Find the locations with a property in whose name a word is (hipNullStream, CUDA_NULL_STREAM,
        hipStreamNonBlocking)."""
        table = self.facts.store.definitions["properties"].to_pydict()
        result = np.zeros(self.facts.n_locations, bool)
        for of, row, name, value in zip(*(table[n] for n in ("table", "of", "name", "value")), strict=True):
            if of == "locations" and word in name.lower().replace("_", "") and str(value).lower() in TRUE:
                result[row] = True
        return result

    def _scope(self, calls: Calls, enter: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the stream a call waits for, -1 for several, before when the work was asked for that it waits for, and
        a null stream.

        Who waits for an event waits for what its stream was given before the event was recorded. Who waits for the null
        stream waits for all streams of its device that block with it.
        """
        c, stream, limit = self.calls, calls.stream.copy(), enter.copy()
        names = self.facts.regions.lower
        records = np.fromiter(("eventrecord" in n for n in names), bool, len(names))
        records &= self.facts.regions.device_call >= 0
        recorded = self._of_kind(records[self.region] & (self.event >= 0))
        of = np.flatnonzero((calls.event >= 0) & (stream < 0))
        if of.size and recorded.number.size:
            n = recorded.number.size
            key = combine(
                np.concatenate([recorded.process, calls.process[of]]), np.concatenate([recorded.event, calls.event[of]])
            )
            at = latest_before(key[:n], c.enter_time[recorded.number], key[n:], enter[of])
            found = at >= 0
            stream[of[found]] = recorded.stream[at[found]]
            limit[of[found]] = c.enter_time[recorded.number[at[found]]]
        is_null = (stream >= 0) & self._streams_with("nullstream")[stream]
        return np.where(is_null, -1, stream), limit, np.where(is_null, stream, -1)

    def _inside(self, host: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the time of calls without calls inside, and whether one of these waits; (n_calls,) each."""
        c = self.calls
        own_time = c.exit_time - c.enter_time
        waits = np.zeros(c.enter.size, bool)
        call, is_enter, depth = nesting(c, host)
        number = np.arange(call.size)
        spent = own_time.copy()
        for k in range(2, int(depth.max(initial=0)) + 1):
            last = np.maximum.accumulate(np.where(is_enter & (depth == k - 1), number, -1))
            here = np.flatnonzero(is_enter & (depth == k))
            parent = call[last[here]]
            np.subtract.at(own_time, parent, spent[call[here]])
            waits[parent[self.what[call[here]] == WAIT]] = True
        return own_time, waits

    # -- what streams do when
    # --------------------------------------------------------------------------------------------

    def _interval_table(self, kernel: Columns, copy: Columns, inner: Columns) -> CompoundTable:
        """Divide the time of every stream into intervals in which a kernel runs, a copy, or nothing."""
        c, process = self.calls, self.facts.process
        streams = self.members[self.is_device[self.members]]
        first, last = self.first[process[streams]], self.last[process[streams]]
        streams, first, last = (x[first <= last] for x in (streams, first, last))
        n, m, k = len(inner), len(copy), streams.size
        location = np.concatenate([inner.location, copy.location, copy.location, streams, streams])
        time = np.concatenate([inner.time, copy.begin, copy.end, first, last])
        order = np.lexsort((np.arange(location.size), time, location))
        location, time = location[order], time[order]
        step = np.concatenate(
            [np.zeros(n, np.int64), np.ones(m, np.int64), -np.ones(m, np.int64), np.zeros(2 * k, np.int64)]
        )
        n_copies = np.cumsum(step[order])
        # what began last: an event of a region, a copy
        event = latest(np.where(order < n, order, -1), location)
        copying = latest(np.where((order >= n) & (order < n + m), order - n, -1), location)
        call, outer = pick(inner.call, event), pick(inner.outer, event)

        copy_of = np.full(c.enter.size + 1, -1, np.int64)
        copy_of[copy.number[copy.number >= 0]] = np.flatnonzero(copy.number >= 0)
        kernel_of = np.full(c.enter.size + 1, -1, np.int64)
        kernel_of[kernel.number] = np.arange(len(kernel))
        copies = copy_of[outer]
        waits = (call >= 0) & np.append(self._is_wait, False)[call]
        transfers = (outer >= 0) & np.append(self._is_copy, False)[outer]
        runs = (call >= 0) & ~transfers & ~waits
        copies = np.where(runs | waits, -1, np.where(copies >= 0, copies, np.where(n_copies > 0, copying, -1)))
        state = np.where(runs, KERNEL, np.where((copies >= 0) | transfers, COPYING, IDLE))

        rows = np.flatnonzero((location[1:] == location[:-1]) & (time[1:] > time[:-1]))
        begin, end, location = time[rows], time[rows + 1], location[rows]
        state, call, outer, copies = (x[rows] for x in (state, call, outer, copies))
        request = np.where(state == COPYING, pick(copy.request, copies), -1)
        ends_idle = np.where(state == KERNEL, pick(kernel.request, kernel_of[outer]), request)
        # who asks for what ends idle time: of the next interval that is not idle
        following = latest(np.where(state != IDLE, np.arange(rows.size), -1)[::-1], location[::-1])[::-1]
        next_request = pick(ends_idle, following)
        request = np.where(state == IDLE, next_request, request)
        root = self.roots[location]
        known = np.maximum(request, -1)
        request_time = np.where(request >= 0, pick(c.enter_time, known), np.where(following < 0, end, -1))
        # what was asked for before the piece was asked for all the time
        request_time = np.where(request == BEFORE, begin, request_time)
        path = np.where(request >= 0, pick(c.call_path, known), root)
        communicates = (state == KERNEL) & np.append(self._communicates, False)[call]
        hidden = np.where((state == COPYING) | communicates, self._hidden(location, begin, end), 0)
        return CompoundTable(
            DEVICE_INTERVALS,
            rows.size,
            {
                "location": location.astype(np.int32),
                "begin_time": begin,
                "end_time": end,
                "state": state.astype(np.int8),
                "direction": np.where(state == COPYING, pick(copy.direction, copies), -1).astype(np.int8),
                "hidden_time": hidden,
                "call_path": np.where(state == KERNEL, pick(c.call_path, call), path).astype(np.int32),
                "request_time": np.where(state == IDLE, request_time, -1),
            },
        )


class _Coverage:
    """The union of intervals of each key, to ask how much of a time span it covers.

    Parameters
    ----------
    key, begin, end : (n,) int64
        Of every interval.
    """

    def __init__(self, key: Ints, begin: Ints, end: Ints) -> None:
        order = np.lexsort((begin, key))
        key, begin, end = key[order], begin[order], end[order]
        reach = running_max(key, end)
        head = np.append(True, key[1:] != key[:-1])[: key.size]
        opens = head | np.append(True, begin[1:] > reach[:-1])[: key.size]
        at = np.flatnonzero(opens)
        self._key, self._begin = key[at], begin[at]
        self._end = reach[np.append(at[1:], key.size) - 1] if at.size else at
        length = self._end - self._begin
        self._before = np.cumsum(length) - length

    def until(self, key: Ints, time: Ints) -> Ints:
        """Return the time covered before some times, up to a constant for each key; (n,) int64."""
        at = latest_before(self._key, self._begin, key, time)
        first = np.searchsorted(self._key, key)
        base = np.append(self._before, 0)[first]
        inside = pick(self._before, at, 0) + np.minimum(time, pick(self._end, at)) - pick(self._begin, at)
        return np.where(at >= 0, inside, base)


def covered(key: Ints, begin: Ints, end: Ints, n: int) -> Ints:
    """Return how long the intervals of each key cover together, whatever they overlap; (n,) int64.

    Parameters
    ----------
    key : (n_intervals,) int64
        What each interval belongs to: 0 <= key < n.
    begin, end : (n_intervals,) int64
        Ticks; begin <= end.
    n : int
        Number of keys.
    """
    order = np.lexsort((begin, key))
    key, begin, end = key[order], begin[order], end[order]
    reach = running_max(key, end)
    before = np.append(0, reach[:-1])[: key.size]
    head = np.append(True, key[1:] != key[:-1])[: key.size]
    new = np.where(head, end - begin, np.maximum(end - np.maximum(begin, before), 0))
    result = np.zeros(n, np.int64)
    np.add.at(result, key, new)
    return result


def nesting(calls: CallInstances, chosen: Ints) -> tuple[Ints, NDArray[np.bool_], Ints]:
    """Put ENTERs and EXITs of some call instances in the order of the event table.

    Parameters
    ----------
    chosen : (n_chosen,) int64
        Numbers of call instances.

    Returns
    -------
    call : (n,) int64
        The instance of each event.
    is_enter : (n,) bool
    depth : (n,) int64
        Of the instance: 1 for those that are in no other.
    """
    closed = chosen[calls.exit[chosen] >= 0]
    call = np.concatenate([chosen, closed])
    is_enter = np.arange(call.size) < chosen.size
    row = np.concatenate([calls.enter[chosen], calls.exit[closed]])
    order = np.argsort(row, kind="stable")
    call, is_enter = call[order], is_enter[order]
    location = calls.location[call]
    level = np.cumsum(np.where(is_enter, 1, -1))
    # what never ended at one location is no depth of the next
    head = np.flatnonzero(np.append(True, location[1:] != location[:-1])[: call.size])
    carried = np.append(0, level)[head]
    level = level - np.repeat(carried, np.diff(np.append(head, call.size)))
    return call, is_enter, np.where(is_enter, level, level + 1)


def _direction_of(name: str) -> int:
    """Tell the direction of a copy from the lower-case name of its call or region."""
    name = name.replace("_", "").replace("-", "")
    if any(word in name for word in ("dtod", "devicetodevice", "peer", "memset")):
        return WITHIN_DEVICES
    if any(word in name for word in ("htod", "hosttodevice", "upload", "enqueuewrite", "todevice", "copyin")):
        return TO_DEVICE
    if any(word in name for word in ("dtoh", "devicetohost", "download", "enqueueread", "fromdevice", "copyout")):
        return TO_HOST
    return UNKNOWN


def _find(values: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Find where wanted values are; return positions in `values`, and in `wanted`."""
    order = np.argsort(values, kind="stable")
    at = np.minimum(np.searchsorted(values[order], wanted), values.size - 1)
    found = values[order[at]] == wanted
    return order[at[found]], np.flatnonzero(found)


def running_max(group: Ints, values: Ints) -> Ints:
    """Return the largest value so far in each group; equal groups are side by side. (n,) int64.

    Parameters
    ----------
    group : (n,) int64
        Group of each value.
    values : (n,) int64
    """
    if not values.size:
        return values
    distinct, rank = np.unique(values, return_inverse=True)
    number = np.cumsum(np.append(False, group[1:] != group[:-1]))
    latest: Ints = np.maximum.accumulate(number * distinct.size + rank)
    return distinct[latest - number * distinct.size]


def latest_end(key: Ints, time: Ints, end: Ints, wanted_key: Ints, wanted_time: Ints) -> Ints:
    """Find of the elements of a key with time < the wanted time the one that ends last; -1 if there is none.

    Parameters
    ----------
    key : (n_elements,) int64
        What each element belongs to: a location or a process.
    time, end : (n_elements,) int64
        Ticks by which it is chosen, and at which it ends.
    wanted_key, wanted_time : (n,) int64
        For what, and for which time in ticks, an element is wanted.
    """
    order = np.lexsort((np.arange(key.size), time, key))
    key, time = key[order], time[order]
    # numbers in the order of their ends
    by_end = np.lexsort((order, end[order]))
    rank = np.empty(order.size, np.int64)
    rank[by_end] = np.arange(order.size)
    longest = order[by_end[running_max(key, rank)]] if order.size else order
    return pick(longest, latest_before(key, time, wanted_key, wanted_time - 1))
