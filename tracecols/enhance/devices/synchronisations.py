"""Calls of hosts that wait for devices, with the awaited operations and the times, and calls that make streams wait."""

from __future__ import annotations

import numpy as np

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import combine, latest_before, ranges
from tracecols.enhance.definitions.regions import COPY, WAIT
from tracecols.enhance.devices.calls import BEFORE, Calls, DeviceCalls, nested
from tracecols.enhance.devices.spans import NEVER, latest_end
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.region_rules import called, is_in
from tracecols.schema.compound import DEVICE_SYNCS
from tracecols.vectors import Ints, Mask

TRUE = ("yes", "true", "1")
"""Values of properties that mean true."""

PAIRS = 1 << 22
"""Pairs of waiting calls and streams that they may wait for, per step; about 100 B each."""

STREAM_WAIT = ("process", "stream", "time", "other", "until")
"""Columns of calls that make a stream wait for an event of another one (cuStreamWaitEvent): process, stream that the
call refers to, -1 none, time of its ENTER, the stream in which the event was recorded, -1 not known, and the time
before which the awaited operations were launched: ENTER of the call that recorded the event, or else of this one."""

ASYNCHRONOUS = called("(?i:.*async.*)")
"""Calls of asynchronous copies, which do not wait whenever they return."""


def sync_table(d: DeviceCalls, kernel: Columns, copy: Columns) -> CompoundTable:
    """Build the table of the calls that wait for devices, each with the pending operation that ended last."""
    c = d.calls
    host = np.flatnonzero((d.what >= 0) & ~d.on_device)
    own_time, waits_inside = time_inside(d, host)
    # end of the last copy of each call, to find calls that return only after it
    done = np.full(c.enter.size, -NEVER)
    asked = np.flatnonzero(copy.request >= 0)
    np.maximum.at(done, copy.request[asked], copy.end[asked])
    blocks = (d.what == COPY) & (done > -NEVER) & (c.exit_time >= done)
    all_calls = d.of_kind(((d.what == WAIT) & ~waits_inside) | blocks)
    known = np.flatnonzero(np.isin(all_calls.process, np.concatenate([kernel.process, copy.process])))
    # in the order of the event table, which does not depend on other processes
    calls = all_calls.at(known[np.argsort(c.enter[all_calls.number[known]])])
    number = calls.number
    enter, leave = c.enter_time[number], c.exit_time[number]
    stream, limit, null_stream = scope_of(d, calls, enter)

    acts = {n: np.concatenate([kernel[n], copy[n]]) for n in ("location", "process", "begin", "end", "row", "request")}
    is_named = acts["request"] != -1
    since = np.where(acts["request"] >= 0, pick(c.enter_time, acts["request"]), acts["begin"])
    since = np.where(acts["request"] == BEFORE, -NEVER, since)
    cause = last_pending(d, acts, since, is_named, calls, stream, null_stream, limit)
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
            "is_copy": d.what[number] != WAIT,
            "stream": stream.astype(np.int32),
            "own_time": own_time[number],
            "cause": pick(acts["row"], cause),
            "cause_location": pick(acts["location"], cause).astype(np.int32),
            "cause_begin_time": begin,
            "cause_end_time": pick(acts["end"], cause),
            "wait_begin_time": np.where(cause >= 0, np.maximum(enter, begin), enter),
        },
    )


def last_pending(
    d: DeviceCalls,
    acts: dict[str, Ints],
    since: Ints,
    is_named: Mask,
    calls: Calls,
    stream: Ints,
    null_stream: Ints,
    limit: Ints,
) -> Ints:
    """Find for every waiting call the pending kernel or copy that ended last; -1 none.

    A call that does not refer to a stream has returned after all awaited operations ended. So operations that ended
    within the call come first; those that ended later, on another device or in another queue, only count if nothing
    else was pending.

    `acts` are kernels and copies; `since` is when each was requested, or its begin if the request is not recorded, and
    `is_named` whether it is recorded. For calls, `stream` is the awaited stream, -1 for several; `null_stream` is the
    null stream of a device if a call waits for the streams that block with it, else -1; a call waits for operations
    requested before `limit`.
    """
    c, members = d.calls, d.members
    enter, leave = c.enter_time[calls.number], c.exit_time[calls.number]
    streams = members[d.is_device[members]]
    streams = streams[np.argsort(d.facts.process[streams], kind="stable")]
    process = d.facts.process[streams].astype(np.int64)
    first = np.searchsorted(process, calls.process)
    n_streams = np.where(stream >= 0, 1, np.searchsorted(process, calls.process, "right") - first)
    cause = np.full(stream.size, -1, np.int64)
    size = max(1, PAIRS // int(n_streams.max(initial=1)))
    for start in range(0, stream.size, size):
        n = n_streams[start : start + size]
        call = np.repeat(np.arange(start, start + n.size), n)
        of_process = np.minimum(ranges(first[start : start + size], n), streams.size - 1)
        candidate = np.where(stream[call] >= 0, stream[call], streams[of_process])
        null = null_stream[call]
        waited = (null < 0) | is_blocking(d.facts, candidate, null)
        call, candidate = call[waited], candidate[waited]
        act = np.full(call.size, -1, np.int64)
        for mask, before in ((is_named, limit), (~is_named, leave)):
            some = np.flatnonzero(mask)
            found = latest_end(acts["location"][some], since[some], acts["end"][some], candidate, before[call])
            found = pick(some, found)
            later = (found >= 0) & (acts["end"][found] > enter[call])
            later &= (act < 0) | (acts["end"][found] > acts["end"][act])
            act[later] = found[later]
        at = np.flatnonzero(act >= 0)
        end = acts["end"][act[at]]
        at = at[np.lexsort((acts["row"][act[at]], -end, end > leave[call[at]], call[at]))]
        chosen = at[starts_run(call[at])]
        cause[call[chosen]] = act[chosen]
    return cause


def is_blocking(facts: Facts, stream: Ints, null_stream: Ints) -> Mask:
    """Return a mask of the streams that synchronise with the null stream of their device."""
    device = facts.locations.device
    return (device[stream] == device[null_stream]) & ~_streams_with(facts, "nonblocking")[stream]


def null_streams(facts: Facts) -> Mask:
    return _streams_with(facts, "nullstream")


def _streams_with(facts: Facts, word: str) -> Mask:
    """Find the locations with a true property whose name contains a word (hipNullStream, CUDA_NULL_STREAM,
    hipStreamNonBlocking)."""
    table = facts.store.definitions["properties"].to_pydict()
    result = np.zeros(facts.n_locations, bool)
    for of, row, name, value in zip(*(table[n] for n in ("table", "of", "name", "value")), strict=True):
        if of == "locations" and word in name.lower().replace("_", "") and str(value).lower() in TRUE:
            result[row] = True
    return result


def scope_of(d: DeviceCalls, calls: Calls, enter: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the stream that each call waits for, -1 for several, the time before which the awaited operations were
    requested, and the null stream that it waits for, -1 none.

    A call that waits for an event waits for the operations given to the stream before the event was recorded. A call
    that waits for the null stream waits for all streams of its device that block with it.
    """
    recorder, limit = records_of_events(d, calls, enter)
    stream = np.where(calls.stream < 0, recorder, calls.stream)
    limit = np.where(calls.stream < 0, limit, enter)
    is_null = (stream >= 0) & null_streams(d.facts)[stream]
    return np.where(is_null, -1, stream), limit, np.where(is_null, stream, -1)


def records_of_events(d: DeviceCalls, calls: Calls, enter: Ints) -> tuple[Ints, Ints]:
    """Find the calls that recorded the events that some calls refer to: the last ones before the times `enter`.

    Returns the stream in which each was recorded, -1 not known, and the ENTER of the recording call, `enter` if there
    is none.
    """
    stream, time = np.full(enter.size, -1, np.int64), enter.copy()
    regions = d.facts.regions
    records = regions.whose_name(lambda n: "eventrecord" in n) & (regions.device_call >= 0)
    recorded = d.of_kind(records[d.region] & (d.event >= 0))
    of = np.flatnonzero(calls.event >= 0)
    if of.size and recorded.number.size:
        n = recorded.number.size
        key = combine(
            np.concatenate([recorded.process, calls.process[of]]), np.concatenate([recorded.event, calls.event[of]])
        )
        of_recorded = d.calls.enter_time[recorded.number]
        at = latest_before(key[:n], of_recorded, key[n:], enter[of])
        found = at >= 0
        stream[of[found]], time[of[found]] = recorded.stream[at[found]], of_recorded[at[found]]
    return stream, time


def list_stream_waits(d: DeviceCalls) -> Columns:
    """List the calls that make streams wait for others (`STREAM_WAIT`).

    In processes in which some of these calls refer to streams, those that refer to none are left out: nothing ran on
    their streams.
    """
    regions = d.facts.regions
    lets_wait = regions.whose_name(lambda n: "streamwaitevent" in n.replace("_", "")) & (regions.device_call >= 0)
    calls = d.of_kind(lets_wait[d.region])
    is_named = calls.stream >= 0
    calls = calls.at(np.flatnonzero(is_named | ~np.isin(calls.process, calls.process[is_named])))
    time = d.calls.enter_time[calls.number]
    other, until = records_of_events(d, calls, time)
    columns = {"process": calls.process, "stream": calls.stream, "time": time, "other": other, "until": until}
    return Columns(time.size, columns)


def time_inside(d: DeviceCalls, host: Ints) -> tuple[Ints, Mask]:
    """Return the time of calls without nested calls, and whether a nested call waits; (n_calls,) each."""
    c = d.calls
    own_time = c.exit_time - c.enter_time
    waits = np.zeros(c.enter.size, bool)
    spent = own_time.copy()
    for inner, around in nested(c, host):
        np.subtract.at(own_time, around, spent[inner])
        waits[around[d.what[inner] == WAIT]] = True
    return own_time, waits


def waits_of_hosts(facts: Facts, syncs: CompoundTable, copies: CompoundTable) -> tuple[Ints, Ints]:
    """Find the operation that each call waits for, and the wait: from the ENTER of the call to the end of the last
    awaited operation, or of the call. A blocking copy that returns only after its end waits for itself.

    `syncs` is `device_syncs`. Returns the event that begins the operation, -1 none, and the wait in ticks.
    """
    row, end = syncs.cause.copy(), np.where(syncs.cause >= 0, syncs.cause_end_time, syncs.enter_time)
    is_own = (copies.copy_enter >= 0) & (copies.copy_exit_time >= copies.end_time)
    at = np.flatnonzero(is_own)
    of = pick(at, latest_before(copies.copy_enter[at], copies.end_time[at], syncs.enter, syncs.exit_time))
    later = (of >= 0) & syncs.is_copy & (pick(copies.end_time, of) > end)
    row, end = np.where(later, pick(copies.event, of), row), np.where(later, pick(copies.end_time, of), end)
    wait = np.minimum(np.minimum(syncs.exit_time, end) - syncs.enter_time, syncs.own_time)
    row[syncs.is_copy & is_in(facts, syncs.call_path, ASYNCHRONOUS)] = -1
    return row, np.where(row >= 0, np.maximum(wait, 0), 0)
