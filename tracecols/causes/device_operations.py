"""Operations on streams of devices, their predecessors, and the hosts that launch and wait.

An operation on a stream begins after the operation before it on the stream, after the ENTER of the call that launches
it, and after the operations on other streams that it is made to wait for. A call of a host that waits returns after the
last operation that it waited for. The latest of these is the predecessor; the time since then is latency
(docs/root-causes.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tracecols.causes.host_lines import lines_of_locations
from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import combine, latest_before, lookup
from tracecols.enhance.dataflow.steps import WITHIN, step
from tracecols.enhance.devices.synchronisations import is_blocking, null_streams, waits_of_hosts
from tracecols.enhance.mpi.waits import NCCL
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.region_rules import is_in
from tracecols.kernels.chains import HOST, NOTHING
from tracecols.vectors import Ints, Mask

OPERATION = (
    "process", "host", "location", "row", "begin", "end", "call_path", "launch_call_path", "launch_time", "before",
    "since", "free_before", "free_since",
)  # fmt: skip
SYNC = ("host", "location", "call_path", "enter_time", "exit_time", "operation", "until", "wait")

NEVER = np.iinfo(np.int64).min


class DeviceOperations(NamedTuple):
    """The operations on the streams of a partition."""

    operations: Columns
    """`OPERATION`, by process, stream and begin: the line of the host that launches it (`host_lines`), row of the event
    that begins it, ENTER of its launch (-1 not known), its predecessor (number of an operation, `HOST` or `NOTHING`)
    and the end of that, and both if kernels that communicate on its stream are ignored."""
    syncs: Columns
    """`SYNC`, by line of the host and EXIT: calls that have waited, the number of the operation, the end of that or of
    the call if earlier, and the time waited."""
    dependencies: Columns
    """Of operations that wait for others on other streams: `row` of the event that begins it, and `location` and `end`
    of the other one."""


@step(WITHIN, "device_operations")
def device_operations(
    facts: Facts, kernels: CompoundTable, copies: CompoundTable, device_syncs: CompoundTable, stream_waits: Columns
) -> DeviceOperations:
    """Find the predecessors of the operations on streams, and the operations that hosts wait for."""
    names = {
        "location": ("location", "location"),
        "row": ("enter", "event"),
        "begin": ("enter_time", "begin_time"),
        "end": ("exit_time", "end_time"),
        "call_path": ("call_path", "call_path"),
        "launch": ("launch_enter", "copy_enter"),
        "launch_call_path": ("launch_call_path", "copy_call_path"),
        "launch_time": ("launch_enter_time", "copy_enter_time"),
        "launch_location": ("launch_location", "copy_location"),
    }
    of = {name: np.concatenate([kernels[k], copies[c]]).astype(np.int64) for name, (k, c) in names.items()}
    process = facts.process[of["location"]].astype(np.int64) if of["row"].size else of["row"]
    order = np.lexsort((of["row"], of["begin"], of["location"], process))
    of = {name: values[order] for name, values in of.items()}
    of["process"] = process[order]
    of["launch_call_path"] = np.where(of["launch"] >= 0, of["launch_call_path"], -1)
    of["launch_time"] = np.where(of["launch"] >= 0, of["launch_time"], -1)
    line_of = lines_of_locations(facts)
    of["host"] = line_of[np.where(of["launch"] >= 0, of["launch_location"], of["location"])]
    communicates = is_in(facts, of["call_path"].astype(np.int32), NCCL)
    depends = _dependencies(facts, of, stream_waits)
    before, since = _predecessors(of, depends, np.zeros(communicates.size, bool))
    free_before, free_since = _predecessors(of, depends, communicates)
    columns = {**of, "before": before, "since": since, "free_before": free_before, "free_since": free_since}
    operations = Columns(of["row"].size, {name: columns[name] for name in OPERATION})
    at, other = depends
    named = {"row": of["row"][at], "location": of["location"][other], "end": of["end"][other]}
    dependencies = Columns(at.size, named)
    return DeviceOperations(operations, _syncs(facts, operations, device_syncs, copies), dependencies)


def _predecessors(of: dict[str, Ints], depends: tuple[Ints, Ints], ignored: Mask) -> tuple[Ints, Ints]:
    """Find the latest predecessor of every operation, and its end, no later than the begin of the operation.

    `depends` has operations, and those of other streams that they wait for; `ignored` marks operations that are no
    predecessors of others on their stream.
    """
    begin, end, number = of["begin"], of["end"], np.arange(of["row"].size)
    # the last on the stream that is not ignored
    first = np.maximum.accumulate(np.where(starts_run(of["location"]), number, 0))
    shown = np.maximum.accumulate(np.where(ignored, -1, number))
    last = np.append(-1, shown[:-1])[: number.size]
    last = np.where(last >= first, last, -1)
    since, before = np.where(last >= 0, pick(end, last), NEVER), last.copy()
    of_host = (of["launch"] >= 0) & (of["launch_time"] >= since)
    since, before = np.where(of_host, of["launch_time"], since), np.where(of_host, HOST, before)
    at, other = depends
    later = end[other] > since[at]
    at, other = at[later], other[later]
    order = np.lexsort((end[other], at))
    since[at[order]], before[at[order]] = end[other[order]], other[order]
    nothing = since == NEVER
    since = np.minimum(np.where(nothing, begin, since), begin)
    return np.where(nothing, NOTHING, before), since


def _dependencies(facts: Facts, of: dict[str, Ints], stream_waits: Columns) -> tuple[Ints, Ints]:
    """Find which operations wait for operations of other streams.

    A call that lets a stream wait, between two launches on a stream, makes the later operation depend on the one
    launched last on the stream of the event before this was recorded. If the stream of the event is not known, it
    depends on the operation launched last on each other stream before the call. An operation on a null stream depends
    on the one launched last on each stream that blocks with it, and the other way round. All this only counts if that
    operation ended before the later one begins.
    """
    nothing = np.zeros(0, np.int64)
    launch, location = of["launch_time"], of["location"]
    launched = np.flatnonzero(launch != -1)
    if not launched.size:
        return nothing, nothing
    launched = launched[np.lexsort((launched, launch[launched], location[launched]))]
    has_event = (stream_waits.stream >= 0) & (stream_waits.other >= 0)
    awaited = [
        _awaited_by_events(of, launched, stream_waits.take(np.flatnonzero(has_event))),
        *_awaited_on_all(of, launched, stream_waits.take(np.flatnonzero(~has_event))),
        *_awaited_of_null_streams(facts, of, launched),
    ]
    at, other, until = (np.concatenate(columns) for columns in zip(*awaited, strict=True))
    candidate = pick(launched, latest_before(location[launched], launch[launched], other, until))
    known = (candidate >= 0) & (location[at] != other) & (pick(of["end"], candidate) <= of["begin"][at])
    return at[known], candidate[known]


Awaited = tuple[Ints, Ints, Ints]
"""Operations, the streams that they wait for, and the times before which awaited operations were launched there."""


def _awaited_by_events(of: dict[str, Ints], launched: Ints, waits: Columns) -> Awaited:
    """Find the operations that wait for streams in which events were recorded: those launched next on the stream.

    `launched` are the operations with launches, by stream and time of the launch.
    """
    stream, time = of["location"][launched], of["launch_time"][launched]
    last = latest_before(stream, time, waits.stream, waits.time - 1)
    following = np.where(last >= 0, last + 1, np.searchsorted(stream, waits.stream))
    is_there = pick(stream, np.where(following < stream.size, following, -1)) == waits.stream
    return launched[following[is_there]], waits.other[is_there], waits.until[is_there]


def _awaited_on_all(of: dict[str, Ints], launched: Ints, waits: Columns) -> Iterator[Awaited]:
    """Find the operations that wait for all other streams of their process, as it is not known for which."""
    process, stream, time = of["process"][launched], of["location"][launched], of["launch_time"][launched]
    previous = np.where(starts_run(stream), NEVER, np.append(NEVER, time[:-1])[: time.size])
    streams, first = np.unique(stream, return_index=True)
    n = len(waits)
    # calls that refer to the stream, and those that refer to none
    for referred in (stream, np.full(stream.size, -1)):
        keys = combine(np.concatenate([waits.process, process]), np.concatenate([waits.stream, referred]))
        call = latest_before(keys[:n], waits.time, keys[n:], time)
        at = np.flatnonzero((call >= 0) & (pick(waits.time, call, NEVER) > previous))
        until = waits.until[call[at]]
        for other, of_other in zip(streams.tolist(), process[first].tolist(), strict=True):
            mine = np.flatnonzero(process[at] == of_other)
            yield launched[at[mine]], np.full(mine.size, other), until[mine]


def _awaited_of_null_streams(facts: Facts, of: dict[str, Ints], launched: Ints) -> Iterator[Awaited]:
    """Find the operations that wait for null streams, and those on null streams that wait for others.

    `launched` are the operations with launches, by stream and time of the launch.
    """
    time = of["launch_time"][launched]
    streams, first = np.unique(of["location"][launched], return_index=True)
    rows = dict(zip(streams.tolist(), pairwise([*first.tolist(), launched.size]), strict=True))
    for null in streams[null_streams(facts)[streams]].tolist():
        blocking = streams[is_blocking(facts, streams, np.full(streams.size, null)) & (streams != null)]
        for other in blocking.tolist():
            for waiting, awaited in ((null, other), (other, null)):
                mine = slice(*rows[waiting])
                yield launched[mine], np.full(launched[mine].size, awaited), time[mine] - 1


def _syncs(facts: Facts, operations: Columns, device_syncs: CompoundTable, copies: CompoundTable) -> Columns:
    """List the calls that have waited for an operation, by process and EXIT."""
    row, wait = waits_of_hosts(facts, device_syncs, copies)
    number = lookup(operations.row, row)
    at = np.flatnonzero((wait > 0) & (number >= 0))
    number = number[at]
    # clocks of hosts and devices may disagree about the begin, not about the launch
    held = operations.launch_time[number] < device_syncs.exit_time[at]
    at, number = at[held], number[held]
    host = lines_of_locations(facts)[device_syncs.location[at]]
    leave = device_syncs.exit_time[at]
    order = np.lexsort((device_syncs.enter[at], leave, host))
    columns = {
        "host": host,
        "location": device_syncs.location[at].astype(np.int64),
        "call_path": device_syncs.call_path[at].astype(np.int64),
        "enter_time": device_syncs.enter_time[at],
        "exit_time": leave,
        "operation": number,
        "until": np.minimum(leave, operations.end[number]),
        "wait": wait[at],
    }
    return Columns(at.size, {name: columns[name][order] for name in SYNC})
