"""Calls in which a run-time system of devices starts: its first calls create contexts, and the first launch of a kernel
loads its code. They take long once and are not a fault of their callers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, joined_columns, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, number, occurrence
from tracecols.enhance.dataflow.steps import WITHIN
from tracecols.enhance.definitions.regions import LAUNCH, MANAGEMENT, MEMORY
from tracecols.findings.scenarios import Scenarios
from tracecols.model.model import Model
from tracecols.vectors import Ints, Mask

LEAST = 1e-3
"""Seconds from which on a call may be one in which a device starts."""

TIMES = 100
"""Factor by which it must take longer than calls of the same region usually do."""

CALL = ("process", "location", "call_path", "region", "enter_time", "exit_time", "kernel")
"""Columns of calls of hosts for devices that make no further such calls: where and when they are, and the region of the
kernel that each launches; -1 none."""


def starts_of_devices(s: Scenarios) -> Columns:
    """Return the calls in which devices start (`CALL`): the first calls of a region in a process, as many as it has
    devices, or the first launch of a kernel, if it takes long, and much longer than such calls usually do."""
    if not s.model.has_device_work:
        return Columns(0, {name: np.zeros(0, np.int64) for name in CALL})
    with s.model.divided() as run:
        calls = joined_columns(list(run.stages(lambda model, _stage: calls_of_hosts(model), [WITHIN])))
    calls = calls.take(np.lexsort((calls.enter_time, calls.process)))
    is_launch = calls.kernel >= 0
    is_first = occurrence(combine(calls.process, calls.region)) < _number_of_devices(s.model)[calls.process]
    of_kernel = occurrence(combine(calls.process, np.where(is_launch, calls.kernel, -1)))
    is_first |= is_launch & (of_kernel == 0)
    ticks = calls.exit_time - calls.enter_time
    is_long = (ticks >= LEAST * s.resolution) & (ticks >= TIMES * usual(calls.process, calls.region, ticks, is_first))
    return calls.take(np.flatnonzero(is_first & is_long))


def _number_of_devices(model: Model) -> Ints:
    """Return the number of devices that each process gives work to; (n_processes,) int64."""
    process, at = np.asarray(model.facts.process, np.int64), np.flatnonzero(model.locations.is_device)
    device = np.unique(np.stack([process[at], model.locations.device[at].astype(np.int64)]), axis=1)
    return np.bincount(device[0], minlength=int(process.max(initial=-1)) + 1)


def usual(process: Ints, region: Ints, ticks: Ints, is_first: Mask) -> NDArray[np.float64]:
    """Return, for each call, the median ticks of the calls of the same region in its process, without first calls; if
    there are none, of those of all regions in the process, and infinity if there are none, either. (n,) float64."""
    result, later = np.full(ticks.size, np.inf), np.flatnonzero(~is_first)
    for key in (process, combine(process, region)):
        group, first = number(key)
        of_later = Segments(group[later], first.size)
        known = of_later.count()[group] > 0
        result[known] = of_later.median(ticks[later])[group[known]]
    return result


def calls_of_hosts(model: Model) -> Columns:
    """Return the calls of the hosts of a slice that manage devices and their memory, and that launch a kernel onto an
    idle stream (`CALL`)."""
    calls, kernels = model.call_instances, model.kernels
    region = model.call_paths.region[calls.call_path].astype(np.int64)
    on_host = np.isin(model.regions.device_call[region], (MANAGEMENT, MEMORY, LAUNCH))
    at = np.flatnonzero(on_host & ~model.locations.is_device[calls.location])
    at = at[np.lexsort((-calls.exit_time[at], calls.enter_time[at], calls.location[at]))]
    location, leave = calls.location[at].astype(np.int64), calls.exit_time[at]
    # of nested calls only the inner ones
    holds = (location[1:] == location[:-1]) & (calls.enter_time[at][1:] < leave[:-1])
    at = at[~np.append(holds, False)[: at.size]]
    by_launch = np.argsort(kernels.launch_enter, kind="stable")
    found = np.searchsorted(kernels.launch_enter[by_launch], calls.enter[at])
    kernel = pick(by_launch, np.where(found < by_launch.size, found, -1))
    launches = (kernel >= 0) & (pick(kernels.launch_enter, kernel) == calls.enter[at])
    # a launch onto a busy stream may take long because its queue is full
    waits = ~launches | (pick(kernels.idle_since_time, kernel) > calls.enter_time[at])
    kept = np.flatnonzero(~((model.regions.device_call[region[at]] == LAUNCH) & waits))
    at, kernel, launches = at[kept], kernel[kept], launches[kept]
    path = model.call_paths.path_of(calls.call_path[at])
    columns = (
        np.asarray(model.facts.process, np.int64)[calls.location[at]],
        calls.location[at].astype(np.int64),
        np.asarray(path, np.int64),
        region[at],
        calls.enter_time[at],
        calls.exit_time[at],
        np.where(launches, model.call_paths.region[pick(kernels.call_path, kernel, 0)], -1).astype(np.int64),
    )
    return Columns(at.size, dict(zip(CALL, columns, strict=True)))
