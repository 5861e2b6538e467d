"""Activity of every stream over time: kernels, copies, and idle time."""

from __future__ import annotations

import numpy as np

from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import latest
from tracecols.enhance.devices.calls import BEFORE, DeviceCalls
from tracecols.enhance.devices.streams import Busy, Streams
from tracecols.schema.compound import DEVICE_INTERVALS

IDLE, KERNEL, COPYING = range(3)
"""Activities of a stream."""


def interval_table(d: DeviceCalls, streams: Streams, busy: Busy, kernel: Columns, copy: Columns) -> CompoundTable:
    """Divide the time of every stream into intervals in which a kernel runs, a copy runs, or the stream is idle."""
    c, process, inner = d.calls, d.facts.process, streams.inner
    located = d.members[d.is_device[d.members]]
    first, last = busy.first[process[located]], busy.last[process[located]]
    located, first, last = (x[first <= last] for x in (located, first, last))
    n, m, k = len(inner), len(copy), located.size
    location = np.concatenate([inner.location, copy.location, copy.location, located, located])
    time = np.concatenate([inner.time, copy.begin, copy.end, first, last])
    order = np.lexsort((np.arange(location.size), time, location))
    location, time = location[order], time[order]
    step = np.concatenate(
        [np.zeros(n, np.int64), np.ones(m, np.int64), -np.ones(m, np.int64), np.zeros(2 * k, np.int64)]
    )
    n_copies = np.cumsum(step[order])
    # the last event of a region, and the last copy to begin
    event = latest(np.where(order < n, order, -1), location)
    copying = latest(np.where((order >= n) & (order < n + m), order - n, -1), location)
    call, outer = pick(inner.call, event), pick(inner.outer, event)

    copy_of = np.full(c.enter.size + 1, -1, np.int64)
    copy_of[copy.number[copy.number >= 0]] = np.flatnonzero(copy.number >= 0)
    kernel_of = np.full(c.enter.size + 1, -1, np.int64)
    kernel_of[kernel.number] = np.arange(len(kernel))
    copies = copy_of[outer]
    waits = (call >= 0) & np.append(streams.is_wait, False)[call]
    transfers = (outer >= 0) & np.append(streams.is_copy, False)[outer]
    runs = (call >= 0) & ~transfers & ~waits
    copies = np.where(runs | waits, -1, np.where(copies >= 0, copies, np.where(n_copies > 0, copying, -1)))
    state = np.where(runs, KERNEL, np.where((copies >= 0) | transfers, COPYING, IDLE))

    rows = np.flatnonzero((location[1:] == location[:-1]) & (time[1:] > time[:-1]))
    begin, end, location = time[rows], time[rows + 1], location[rows]
    state, call, outer, copies = (x[rows] for x in (state, call, outer, copies))
    request = np.where(state == COPYING, pick(copy.request, copies), -1)
    ends_idle = np.where(state == KERNEL, pick(kernel.request, kernel_of[outer]), request)
    # the request that ends idle time: that of the next interval that is not idle
    following = latest(np.where(state != IDLE, np.arange(rows.size), -1)[::-1], location[::-1])[::-1]
    request = np.where(state == IDLE, pick(ends_idle, following), request)
    root = streams.roots[location]
    known = np.maximum(request, -1)
    request_time = np.where(request >= 0, pick(c.enter_time, known), np.where(following < 0, end, -1))
    # operations requested before the start of the slice were pending all the time
    request_time = np.where(request == BEFORE, begin, request_time)
    path = np.where(request >= 0, pick(c.call_path, known), root)
    communicates = (state == KERNEL) & np.append(streams.communicates, False)[call]
    hidden = np.where((state == COPYING) | communicates, busy.hidden(location, begin, end), 0)
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
