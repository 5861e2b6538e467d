"""Findings about devices, which no replay tries: idle ones, busy ones, and their start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.scan.paths import function_name, with_descendants
from tracecols.schema.properties import DEVICE_COPIES, DEVICE_IDLE, DEVICE_KERNELS, EXECUTION, IDLE, TIME
from tracecols.severity import wording
from tracecols.severity.causes import not_negative, starts_of
from tracecols.severity.cells import Cells
from tracecols.severity.finding import Finding, Place, finding_of, largest_places, of_computation
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

DEVICE, START_OF_DEVICES = "device", "device_start"
"""Kinds of findings of devices, which no replay tries."""

OF_DEVICES: dict[str, Any] = {
    "seconds": 0.0, "share": 0.0, "paid_by": (), "n_paying": 0, "is_even": False, "kind": DEVICE,
}  # fmt: skip
"""Fields that findings of devices have in common: their time belongs to no thread."""

MOSTLY = 0.2
"""Share of the hosts' time from which on the region with most of it is named first."""


def idle_devices(cube: Severities) -> Iterator[Finding]:
    """Yield the finding about devices that idle most of the time, with what their hosts do meanwhile."""
    facts = cube.facts.get("device_efficiencies") or {}
    idle = cube.cells.get(DEVICE_IDLE, Cells.empty())
    if float(facts.get("device_orchestration_efficiency", 1.0)) >= LEAST_BUSY or not len(idle):
        return
    calls = [name for name in cube.properties.with_part("device") if name in cube.cells]
    hosts = np.zeros(cube.system.n_locations, bool)
    hosts[cube.cells_of(calls[0], "iee").location if calls else []] = True
    own = cube.cells_of(TIME, "iee")
    own = own.where(hosts[own.location] & ~starts_devices(cube)[own.call_path])
    if not len(own):
        return
    # the call path of the operations before which devices idle longest, and that of hosts with most of their time
    before = int(np.bincount(idle.call_path, idle.value).argmax())
    by_path = np.bincount(own.call_path, np.maximum(own.value, 0))
    most, whole = int(by_path.argmax()), float(by_path.sum())
    share = float(by_path[most]) / whole if whole else 0.0
    path, host = cube.call_paths.paths_of([before])[0], cube.call_paths.paths_of([most])[0]
    region = str(cube.call_paths.name[most])
    short = wording.short(region)
    longest = f"{share:.0%} of their time in {short}"
    if share < MOSTLY:
        busy_with = "hosts give too little work"
        meanwhile = f"hosts spend their time in many regions, {longest} and less in each other one"
    else:
        busy_with, meanwhile = f"hosts are longest in {short}", f"hosts spend {longest}"
    busy = float(facts.get("device_parallel_efficiency", 1.0))
    yield Finding(
        property=DEVICE_IDLE,
        title="Idle Devices",
        where=Place("", path, 0.0, 0.0),
        region=Place("", path.rpartition("/")[2], 0.0, 0.0),
        cause=Place("", host, 0.0, share),
        meanwhile=_hosts_meanwhile(cube, hosts),
        advice="Give devices work earlier and in larger pieces: let hosts do less, or something else, between "
        "launches.",
        call_path=before,
        what=f"{_devices_are(facts)} busy {busy:.1%} of the time; {busy_with}",
        cause_region=region,
        shows=f"devices idle longest before {path.rpartition('/')[2]}; {meanwhile}",
        **OF_DEVICES,
    )


def _devices_are(facts: Mapping[str, Any]) -> str:
    n = len(facts.get("devices") or ())
    return "the device is" if n <= 1 else f"the {n:,} devices are"


def busy_devices(cube: Severities) -> Iterator[Finding]:
    """Yield the finding about devices that are busy nearly all the time, with kernels or mostly with copies, so that
    only shorter operations help."""
    facts = cube.facts.get("device_efficiencies") or {}
    kernels, copies = (cube.cells.get(name, Cells.empty()) for name in (DEVICE_KERNELS, DEVICE_COPIES))
    copies_longer = float(copies.value.sum()) > float(kernels.value.sum())
    busy = float(facts.get(f"device_{'orchestration' if copies_longer else 'parallel'}_efficiency", 0.0))
    name, cells = (DEVICE_COPIES, copies) if copies_longer else (DEVICE_KERNELS, kernels)
    if busy < MOST_BUSY or not len(cells):
        return
    path, region, best = largest_places(cube, cells, cube.scale(name))
    longest = _longest_functions(cube, cells)
    named = wording.listed([f"{wording.short(function)} ({share:.0%})" for function, share in longest])
    named = f", longest {named}" if named else ""
    determine, title, advice = wording.OF_BUSY_DEVICES[name]
    yield Finding(
        property=name,
        title="Busy Devices",
        where=path,
        region=region,
        cause=Place("", region.call_path, region.seconds, region.share, region.n_call_paths),
        meanwhile=(),
        advice=advice,
        call_path=best,
        what=f"{_devices_are(facts)} busy {busy:.0%} of the time: {determine} the runtime{named}",
        cause_region=region.call_path,
        shows=f"{title} take {wording.seconds(float(cells.value.sum()) * cube.scale(name))} on all devices",
        **OF_DEVICES,
    )


def _longest_functions(cube: Severities, cells: Cells) -> list[tuple[str, float]]:
    """Return the two functions (without types and arguments) with the largest shares of some time, and their shares.

    Operations without a recorded call, which are on the call path of the program, have none.
    """
    names, of = cube.call_paths.numbered_names
    parent = cube.call_paths.parent
    whole = (parent < 0) & np.isin(np.arange(parent.size), parent)
    parts: dict[str, float] = {}
    by_name = np.bincount(of[cells.call_path], cells.value * ~whole[cells.call_path], len(names))
    for at in np.flatnonzero(by_name).tolist():
        name = function_name(names[at])
        parts[name] = parts.get(name, 0.0) + float(by_name[at] / cells.value.sum())
    largest = sorted(parts.items(), key=lambda part: (-part[1], part[0]))[:2]
    return [(name, share) for name, share in largest if share >= 0.005]


def _hosts_meanwhile(cube: Severities, hosts: NDArray[np.bool_]) -> tuple[tuple[str, float], ...]:
    """Return how threads that give work to devices spend their time: titles of properties with their shares."""
    axis = cube.properties
    found = []
    parts = [name for name, parent in zip(axis.id, axis.parent, strict=True) if parent == EXECUTION]
    for name in dict.fromkeys((of_computation(cube), *parts)):
        if name in cube.cells:
            cells = cube.cells_of(name, "iee")
            found.append((axis.title_of(name), float(np.maximum(cells.value[hosts[cells.location]], 0).sum())))
    whole = sum(value for _, value in found)
    shares = [(title, value / whole) for title, value in found if whole and value / whole >= 0.005]
    return tuple(sorted(shares, key=lambda part: -part[1]))


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


def start_of_devices(cube: Severities, name: str, cells: Cells, seconds: float) -> Iterator[Finding]:
    """Yield the finding about the time of a property spent on starting devices, which is no fault of the program."""
    if not len(cells):
        return
    if name == IDLE:
        cells = Cells(cells.key, not_negative(cells.value))
    title = f"{cube.properties.full_title[name]} at the start of devices"
    advice = "It happens once: measure a longer run, or ignore it."
    yield from finding_of(cube, name, cells, seconds, title=title, advice=advice, kind=START_OF_DEVICES)
