"""Region instances on streams, and the time in which kernels run on their devices."""

from __future__ import annotations

import numpy as np

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import Columns
from tracecols.enhance.devices.calls import DeviceCalls, nesting, transfers_of
from tracecols.enhance.devices.spans import NEVER, Coverage, running_max
from tracecols.enhance.scan.instances import outermost_call_paths
from tracecols.schema.enums import NCCL
from tracecols.vectors import Ints, Mask


class Streams:
    """The region instances on the streams of a slice.

    Attributes
    ----------
    inner : Columns
        Innermost and outermost instance over time (`region_stack`).
    is_copy, is_wait, communicates : (n_calls,) bool
        Masks of the call instances that are outermost transfers, that wait, and that belong to NCCL or the like.
    kernels : (n_kernels,) int64
        Outermost instances that are neither transfers nor waits.
    roots : (n_locations,) int64
        Call paths to which time without a call path is charged.
    """

    def __init__(self, d: DeviceCalls) -> None:
        self.inner, outermost = region_stack(d)
        regions = d.facts.regions
        transfers = transfers_of(regions)
        self.is_copy = outermost & transfers[d.region]
        self.is_wait = (regions.role == "task_wait")[d.region]
        self.communicates = (regions.paradigm == NCCL)[d.region]
        self.kernels = np.flatnonzero(outermost & ~self.is_copy & ~self.is_wait)
        chosen = d.members[d.is_device[d.members]]
        self.roots = outermost_call_paths(facts=d.facts, scans=d.scans, chosen=chosen)


class Busy:
    """Begin and end of processes, and the time in which kernels run on each device.

    Attributes
    ----------
    first, last : (n_processes,) int64
    """

    def __init__(self, d: DeviceCalls, streams: Streams, kernel: Columns, copy: Columns) -> None:
        process = d.facts.process
        self._process, self._device = process, d.facts.locations.device
        n = int(process.max(initial=-1)) + 1
        self.first, self.last = np.full(n, NEVER), np.full(n, -NEVER)
        of_process = d.facts.locations.is_cpu | d.is_device
        for i in d.members.tolist():
            if of_process[i] and d.scans[i].n:
                p = process[i]
                self.first[p] = min(self.first[p], d.scans[i].first_time)
                self.last[p] = max(self.last[p], d.scans[i].last_time)
        for found in (kernel, copy):
            np.minimum.at(self.first, found.process, found.begin)
            np.maximum.at(self.last, found.process, found.end)
        device = d.facts.locations.device
        # communication kernels do not hide copies: like copies, they are hidden by others
        computes = ~streams.communicates[kernel.number]
        location, begin, end = (of[computes] for of in (kernel.location, kernel.begin, kernel.end))
        self.kernel_time = Coverage(device[location].astype(np.int64), begin, end)

    def idle_since(self, kernel: Columns, copy: Columns) -> Ints:
        """Return the latest end of the kernels and copies that began before each kernel on its stream; the start of the
        process if there is none."""
        location = np.concatenate([kernel.location, copy.location])
        begin, end = np.concatenate([kernel.begin, copy.begin]), np.concatenate([kernel.end, copy.end])
        row = np.concatenate([kernel.row, copy.row])
        order = np.lexsort((row, begin, location))
        latest = running_max(location[order], end[order])
        head = starts_run(location[order])
        before = np.append(0, latest[:-1])[: order.size]
        before = np.where(head, self.first[self._process[location[order]]], before)
        result = np.empty(order.size, np.int64)
        result[order] = before
        return result[: len(kernel)]

    def hidden(self, location: Ints, begin: Ints, end: Ints) -> Ints:
        """Return the time in which kernels run on the device of a stream between two times, in ticks."""
        device = self._device[location].astype(np.int64)
        return self.kernel_time.until(device, end) - self.kernel_time.until(device, begin)


def region_stack(d: DeviceCalls) -> tuple[Columns, Mask]:
    """Find the outermost region instances on streams, and the innermost and outermost instance over time.

    The columns have a row for every ENTER and EXIT on streams, in order: `location`, `time`, and `call` and `outer`,
    the innermost and the outermost instance from then on, -1 none. The mask covers all call instances.
    """
    c = d.calls
    # regions that represent idle time (GPU IDLE, COMPUTE IDLE) contain copies, and are not operations themselves
    runs = d.on_device & (d.facts.regions.role != "artificial")[d.region]
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
