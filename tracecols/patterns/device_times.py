"""How well devices are used: the efficiencies of TALP for accelerators, from times per device.

With n devices, a runtime R, and for each device its useful time (a kernel runs on one of its streams) and its active
time (a kernel or a copy does):

    device parallel efficiency  sum(useful) / (R n) = load balance x communication efficiency x orchestration efficiency
    load balance                sum(useful) / (n max(useful))
    communication efficiency    max(useful) / max(active)
    orchestration efficiency    max(active) / R
    host offload efficiency     host's computation / (host's computation + host's time in calls for devices)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.regions import DEVICE_PARADIGMS
from tracecols.enhance.devices.intervals import IDLE, KERNEL
from tracecols.enhance.devices.spans import covered
from tracecols.model.model import Model
from tracecols.severity.cells import Cells

NO_COMPUTATION = ("mpi", "openmp", "pthread", "shmem", "measurement_system", *DEVICE_PARADIGMS)
"""Paradigms of regions in which a host does not compute."""


@dataclass
class DeviceTimes:
    """Useful and active time of every device; (n_devices,) int64, ticks."""

    useful: NDArray[np.int64]
    active: NDArray[np.int64]

    @classmethod
    def none(cls, model: Model) -> DeviceTimes:
        n = len(model.locations.device_names)
        return cls(np.zeros(n, np.int64), np.zeros(n, np.int64))

    @classmethod
    def of(cls, view: Model) -> DeviceTimes:
        """Add up the intervals of a slice of the trace; the streams of a device are in one slice."""
        m, n = view.get("device_intervals"), len(view.locations.device_names)
        device = view.locations.device[m.location].astype(np.int64)
        times = []
        for mask in (m.state == KERNEL, m.state != IDLE):
            some = np.flatnonzero(mask)
            times.append(covered(device[some], m.begin_time[some], m.end_time[some], n))
        return cls(*times)

    def __add__(self, other: DeviceTimes) -> DeviceTimes:
        return DeviceTimes(self.useful + other.useful, self.active + other.active)


def device_efficiencies(model: Model, times: DeviceTimes, execution: Cells) -> dict[str, Any]:
    """Return the names of the devices, and their efficiencies and the factors of these; empty without devices.
    `execution` is each location's own time per call path."""
    n = times.useful.size
    takes_part = model.locations.is_cpu | model.locations.is_device
    spans = [(s.first_time, s.last_time) for s, mine in zip(model.scans, takes_part, strict=True) if mine and s.n]
    if not n or not spans:
        return {}
    runtime = max(last for _, last in spans) - min(first for first, _ in spans)
    useful, active = int(times.useful.sum()), int(times.active.max())
    longest = int(times.useful.max())
    regions = model.regions
    of_path = model.call_paths.region
    computes = ~np.isin(regions.paradigm, NO_COMPUTATION) & (regions.device_call < 0)
    host = int(execution.on(computes[of_path]).value.sum())
    calls = int(execution.on((regions.device_call >= 0)[of_path]).value.sum())

    def ratio(part: int, whole: int) -> float:
        return part / whole if whole > 0 else 0.0

    return {
        "devices": list(model.locations.device_names),
        "device_parallel_efficiency": ratio(useful, runtime * n),
        "device_load_balance": ratio(useful, n * longest),
        "device_communication_efficiency": ratio(longest, active),
        "device_orchestration_efficiency": ratio(active, runtime),
        "host_offload_efficiency": ratio(host, host + calls),
    }
