"""Activities of the streams of devices: kernels and their launches, copies, calls that wait for them, idle time.

Launches and kernels are joined like sends and receives: the k-th launch that refers to a stream with the k-th kernel on
it; if both have a call site, the k-th of each call site and stream. Copies are joined likewise with the calls that
request them, or because the call encloses the copy in time. If calls and operations have correlation IDs, these alone
join them.

Scope: within a process; the streams of a process are those of its accelerators. Equality joins, and sorts by time:
O(n log n) in the calls for devices, the kernels and the copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.steps import WITHIN, step
from tracecols.enhance.devices.calls import DeviceCalls
from tracecols.enhance.devices.copies import find_copies
from tracecols.enhance.devices.intervals import interval_table
from tracecols.enhance.devices.kernels import join_kernels
from tracecols.enhance.devices.streams import Busy, Streams
from tracecols.enhance.devices.synchronisations import STREAM_WAIT, list_stream_waits, sync_table
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.schema.compound import COPIES, DEVICE_INTERVALS, DEVICE_SYNCS, KERNELS
from tracecols.vectors import Ints


@step(WITHIN, "kernels", "copies", "device_syncs", "device_intervals", "stream_waits")
def match_devices(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, call_instances: CallInstances
) -> tuple[CompoundTable, CompoundTable, CompoundTable, CompoundTable, Columns]:
    """Build the tables of kernels, copies, calls that wait for devices, and activities of streams over time; list the
    calls that make streams wait for others."""
    if not facts.locations.is_device[members].any():
        empty = CompoundTable.empty
        none = Columns(0, {name: np.zeros(0, np.int64) for name in STREAM_WAIT})
        return empty(KERNELS), empty(COPIES), empty(DEVICE_SYNCS), empty(DEVICE_INTERVALS), none
    d = DeviceCalls(facts, scans, members, call_instances)
    streams = Streams(d)
    kernel, copy = join_kernels(d, streams.kernels), find_copies(d, np.flatnonzero(streams.is_copy))
    busy = Busy(d, streams, kernel, copy)
    return (
        kernel_table(d, busy, kernel, copy),
        copy_table(d, streams, busy, copy),
        sync_table(d, kernel, copy),
        interval_table(d, streams, busy, kernel, copy),
        list_stream_waits(d),
    )


def kernel_table(d: DeviceCalls, busy: Busy, kernel: Columns, copy: Columns) -> CompoundTable:
    c, number = d.calls, kernel.number
    idle_since, launch = busy.idle_since(kernel, copy), call_columns(d, "launch", kernel.request)
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
            "idle_since_time": idle_since,
            "wait_begin_time": np.where(
                kernel.request >= 0, np.maximum(launch["launch_enter_time"], idle_since), idle_since
            ),
            "callsite": d.callsite[number],
            **launch,
        },
        d.counts,
    )


def copy_table(d: DeviceCalls, streams: Streams, busy: Busy, copy: Columns) -> CompoundTable:
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
            "hidden_time": busy.hidden(copy.location, copy.begin, copy.end),
            "call_path": np.where(
                copy.request >= 0, pick(d.calls.call_path, np.maximum(copy.request, -1)), streams.roots[copy.location]
            ).astype(np.int32),
            **call_columns(d, "copy", copy.request),
        },
    )


def call_columns(d: DeviceCalls, role: str, number: Ints) -> dict[str, NDArray[Any]]:
    """Return the columns that describe a call on another location."""
    number = np.maximum(number, -1)
    location = pick(d.calls.location, number).astype(np.int32)
    return {f"{role}_location": location, **d.calls.columns_of(role, number)}
