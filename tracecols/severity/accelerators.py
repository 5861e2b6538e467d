"""Devices in a diagnosis: whether they are busy or idle, what their hosts do meanwhile, and what their start-up
costs."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.scan.paths import with_descendants
from tracecols.schema.properties import DEVICE_COPIES, DEVICE_IDLE, DEVICE_KERNELS, TIME
from tracecols.severity.causes import starts_of
from tracecols.severity.cells import Cells
from tracecols.severity.queries import Severities

MOST_BUSY = 0.8
"""Parallel efficiency of devices (orchestration efficiency if they mostly copy) from which on their being busy is a
finding: hosts cannot be the bottleneck."""

LEAST_BUSY = 0.5
"""Orchestration efficiency of devices below which their idling is a finding: their hosts give them no work."""

START_UP = re.compile(
    r"cuinit|cuctxcreate.*|cudevice(primaryctx.*|get.*)|cumoduleload.*|cudasetdevice|hipinit|hipctxcreate|"
    r"hipmoduleload.*"
    r"|hipsetdevice|clcreatecontext.*|clgetplatformids|clgetdeviceids|clbuildprogram|acc_init.*|omp_init_device"
)
"""Calls that start devices, by their names in lower case."""

INITIALISES = re.compile(
    r"(init|setup|start)\w*(cuda|hip|gpu|device|opencl|acc)|(cuda|hip|gpu|device|opencl|acc)\w*(init|setup|start)", re.I
)
"""Names of functions of a program that start devices; they count only if they are executed once."""


def starts_devices(cube: Severities) -> NDArray[np.bool_]:
    """Select the call paths on which devices are started, and what is below them; (n_call_paths,) bool."""
    c = cube.call_paths
    calls = c.named(lambda name: START_UP.fullmatch(name.lower()) is not None)
    functions = c.named(lambda name: INITIALISES.search(name) is not None) & np.isin(c.paradigm, ["user", "compiler"])
    visits = cube.cells.get("visits")
    if functions.any() and visits is not None:
        often = np.zeros(len(c), bool)
        often[visits.call_path[visits.value > 1]] = True
        functions &= ~often
    found = with_descendants(calls | functions, c.end)
    return found if "gpu" in cube.system.location_type or calls.any() else np.zeros(len(c), bool)


class StartUp(NamedTuple):
    """The time in which devices start."""

    call_paths: NDArray[np.bool_]
    """(n_call_paths,): call paths on which devices start whenever they are executed."""
    calls: Cells
    """Time of single calls on other call paths, by call path and location."""
    master: NDArray[np.int64]
    """(n_locations,): first thread of each location's process; the others idle on its call paths."""

    @classmethod
    def of(cls, cube: Severities, master: NDArray[np.int64]) -> StartUp:
        """Find the time in which devices start in a cube."""
        call_paths = starts_devices(cube)
        calls = starts_of(cube)
        return cls(call_paths, calls.where(~call_paths[calls.call_path]), master)

    def divide(self, cells: Cells) -> tuple[Cells, Cells]:
        """Divide time into start-up of devices and the rest."""
        whole = self.call_paths[cells.call_path]
        if not whole.any() and not len(self.calls):
            return Cells.empty(), cells
        path = cells.call_path.astype(np.int64) << 32
        single = np.maximum(self.calls.at(path | cells.location), self.calls.at(path | self.master[cells.location]))
        taken = np.where(whole, cells.value, np.minimum(np.maximum(cells.value, 0), single))
        is_start = taken != 0
        rest = Cells(cells.key, cells.value - taken).where(~whole & (cells.value != taken))
        return Cells(cells.key, taken).where(is_start), rest


class BusyDevices(NamedTuple):
    """Devices that are busy nearly all the time."""

    busy: float
    """Share of the time in which they are busy."""
    n_devices: int
    property: str
    """What they do: `device_kernels` or `device_copies`."""
    cells: Cells
    """The time of `property`."""


def busy_devices(cube: Severities) -> BusyDevices | None:
    """Return the devices if they execute kernels nearly all the time, or mostly copy and are busy nearly all the time;
    else None."""
    facts = cube.facts.get("device_efficiencies") or {}
    kernels, copies = (cube.cells.get(name, Cells.empty()) for name in (DEVICE_KERNELS, DEVICE_COPIES))
    copies_longer = float(copies.value.sum()) > float(kernels.value.sum())
    busy = float(facts.get(f"device_{'orchestration' if copies_longer else 'parallel'}_efficiency", 0.0))
    if busy < MOST_BUSY or not (len(kernels) or len(copies)):
        return None
    name, cells = (DEVICE_COPIES, copies) if copies_longer else (DEVICE_KERNELS, kernels)
    return BusyDevices(busy, len(facts.get("devices") or ()), name, cells)


class IdleDevices(NamedTuple):
    """Devices that idle."""

    busy: float
    """Share of the time in which they are busy."""
    n_devices: int
    call_path: int
    """Call path of the operations before which they idle longest."""
    hosts: NDArray[np.bool_]
    """(n_locations,): the threads that give them work."""
    host_call_path: int
    """The call path on which these spend most of their time."""
    host_share: float
    """Share of their time there. The start of devices is left out of both."""


def idle_devices(cube: Severities) -> IdleDevices | None:
    """Return the devices if they idle most of the time; else None."""
    facts = cube.facts.get("device_efficiencies") or {}
    busy = float(facts.get("device_parallel_efficiency", 1.0))
    idle = cube.cells.get(DEVICE_IDLE)
    orchestration = float(facts.get("device_orchestration_efficiency", 1.0))
    if orchestration >= LEAST_BUSY or idle is None or not len(idle):
        return None
    calls = [name for name in cube.properties.with_part("device") if name in cube.cells]
    launches = cube.cells_of(calls[0], "iee") if calls else Cells.empty()
    hosts = np.zeros(cube.system.n_locations, bool)
    hosts[launches.location] = True
    if not hosts.any():
        return None
    own = cube.cells_of(TIME, "iee")
    own = own.where(hosts[own.location] & ~starts_devices(cube)[own.call_path])
    if not len(own):
        return None
    by_path = np.bincount(own.call_path, np.maximum(own.value, 0), len(cube.call_paths))
    before = np.bincount(idle.call_path, idle.value, len(cube.call_paths))
    most = int(by_path.argmax())
    whole = float(by_path.sum())
    return IdleDevices(
        busy,
        len(facts.get("devices") or ()),
        int(before.argmax()),
        hosts,
        most,
        float(by_path[most]) / whole if whole else 0.0,
    )
