"""Findings about devices, which no replay tries: idle ones, busy ones, and their start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.scan.paths import function_name
from tracecols.schema.properties import DEVICE_IDLE, EXECUTION, IDLE
from tracecols.severity import accelerators, wording
from tracecols.severity.cells import Cells
from tracecols.severity.finding import Finding, Place, finding_of, largest_places, not_negative, of_computation
from tracecols.severity.queries import Severities

DEVICE, START_OF_DEVICES = "device", "device_start"
"""Kinds of findings of devices, which no replay tries."""


OF_DEVICES: dict[str, Any] = {
    "seconds": 0.0, "share": 0.0, "paid_by": (), "n_paying": 0, "is_even": False, "kind": DEVICE,
}  # fmt: skip
"""Fields that findings of devices have in common: their time belongs to no thread."""


MOSTLY = 0.2
"""Share of the hosts' time from which on the region with most of it is named first."""


def idle_devices(cube: Severities) -> Iterator[Finding]:
    """Yield the finding about idle devices, with what their hosts do meanwhile."""
    found = accelerators.idle_devices(cube)
    if found is None:
        return
    path, host = (cube.call_paths.paths_of([i])[0] for i in (found.call_path, found.host_call_path))
    region = str(cube.call_paths.name[found.host_call_path])
    n = max(found.n_devices, 1)
    devices = "the device is" if n == 1 else f"the {n:,} devices are"
    short = wording.short(region)
    longest = f"{found.host_share:.0%} of their time in {short}"
    if found.host_share < MOSTLY:
        busy_with = "hosts give too little work"
        meanwhile = f"hosts spend their time in many regions, {longest} and less in each other one"
    else:
        busy_with, meanwhile = f"hosts are longest in {short}", f"hosts spend {longest}"
    yield Finding(
        property=DEVICE_IDLE,
        title="Idle Devices",
        where=Place("", path, 0.0, 0.0),
        region=Place("", path.rpartition("/")[2], 0.0, 0.0),
        cause=Place("", host, 0.0, found.host_share),
        meanwhile=_hosts_meanwhile(cube, found.hosts),
        advice="Give devices work earlier and in larger pieces: let hosts do less, or something else, between "
        "launches.",
        call_path=found.call_path,
        what=f"{devices} busy {found.busy:.1%} of the time; {busy_with}",
        cause_region=region,
        shows=f"devices idle longest before {path.rpartition('/')[2]}; {meanwhile}",
        **OF_DEVICES,
    )


def busy_devices(cube: Severities) -> Iterator[Finding]:
    """Yield the finding about devices that are busy nearly all the time, so that only shorter operations help."""
    found = accelerators.busy_devices(cube)
    if found is None:
        return
    scale = cube.scale(found.property)
    path, region, best = largest_places(cube, found.cells, scale)
    devices = "the device is" if found.n_devices == 1 else f"the {found.n_devices:,} devices are"
    longest = _longest_functions(cube, found.cells)
    named = wording.listed([f"{wording.short(name)} ({share:.0%})" for name, share in longest])
    named = f", longest {named}" if named else ""
    takes, title, advice = wording.OF_BUSY_DEVICES[found.property]
    yield Finding(
        property=found.property,
        title="Busy Devices",
        where=path,
        region=region,
        cause=Place("", region.call_path, region.seconds, region.share, region.n_call_paths),
        meanwhile=(),
        advice=advice,
        call_path=best,
        what=f"{devices} busy {found.busy:.0%} of the time: {takes} the run time{named}",
        cause_region=region.call_path,
        shows=f"{title} take {wording.seconds(float(found.cells.value.sum()) * scale)} on all devices",
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
            found.append(
                (axis.title[axis.number[name]], float(np.maximum(cells.value[hosts[cells.location]], 0).sum()))
            )
    whole = sum(value for _, value in found)
    shares = [(title, value / whole) for title, value in found if whole and value / whole >= 0.005]
    return tuple(sorted(shares, key=lambda part: -part[1]))


def start_of_devices(cube: Severities, name: str, cells: Cells, seconds: float) -> Iterator[Finding]:
    """Yield the finding about the time of a property spent on starting devices, which is no fault of the program."""
    if not len(cells):
        return
    if name == IDLE:
        cells = not_negative(cells)
    advice = "It happens once: measure a longer run, or ignore it."
    for f in finding_of(
        cube, name, f"{cube.properties.full_title[name]} at the start of devices", cells, seconds, advice, None
    ):
        yield replace(f, kind=START_OF_DEVICES)
