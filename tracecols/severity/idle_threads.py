"""Findings about idle threads, by what their masters do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tracecols.schema.properties import EXECUTION, IDLE
from tracecols.severity.causes import is_part, not_negative
from tracecols.severity.cells import Cells
from tracecols.severity.finding import Finding, advice_of, costs_of, finding_of, is_below, of_computation
from tracecols.severity.queries import Severities
from tracecols.severity.tasks import roots_of_tasks, second_appearance, with_tasks_once

MEANWHILE = {
    "serial": ("while their master computes alone", ""),
    "mpi": (
        "while their master is in MPI",
        "Shorten the MPI time of the masters, or let the other threads compute meanwhile.",
    ),
    "device": (
        "while their master waits for a device",
        "Let the other threads compute while their master launches, copies and waits.",
    ),
    "other": ("while their master is in a run-time system", "Find out what the masters do on these call paths."),
}
"""Description and advice by kind of what a master does while its threads idle; empty advice means the property's."""

KINDS = {"computation": "serial", "mpi": "mpi", "io": "mpi", "device": "device"}
"""Kind in `MEANWHILE` by what the master's time counts as (`schema.properties.PARTS`); everything else is `other`."""


def activities(cube: Severities, idle: Cells) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Divide the idle time of threads by the properties of the time that their master spends on the same call path;
    yield each property and its share of every cell.

    `idle` is the exclusive severity of `omp_idle_threads`: on the call paths of masters, at the threads that idle. If
    the master has no exclusive time on a call path, all shares are 0.
    """
    key = (idle.call_path.astype(np.int64) << 32) | cube.system.master[idle.location]
    axis = cube.properties
    computes = of_computation(cube)
    tasks = second_appearance(roots_of_tasks(cube), cube.cells.get(EXECUTION, Cells.empty())).at(key)
    found = []
    for name in axis.id:
        if not is_below(cube, name, EXECUTION) or axis.overlaps[axis.number[name]]:
            continue
        value = cube.cells_of(name, "eee").at(key) + (tasks if name == computes else 0)
        # overlapping teams and clock errors may make exclusive times negative
        value = np.maximum(value, 0).astype(np.float64)
        if value.any():
            found.append((name, value))
    whole = sum((value for _, value in found), np.zeros(key.size))
    for name, value in found:
        yield name, np.divide(value, whole, out=np.zeros(key.size), where=whole > 0)


def idle_findings(cube: Severities, idle: Cells, seconds: float) -> Iterator[Finding]:
    """Yield the findings about idle threads, by what their masters do meanwhile: compute alone, MPI, devices, run-time
    systems."""
    idle = with_tasks_once(roots_of_tasks(cube), idle)
    idle = Cells(idle.key, not_negative(idle.value))
    shares: dict[str, dict[str, NDArray[np.float64]]] = {kind: {} for kind in MEANWHILE}
    rest = np.ones(len(idle))
    for name, share in activities(cube, idle):
        shares[_kind(cube, name)][name] = share
        rest -= share
    # if the master has no exclusive time, its activity is unknown
    shares["other"][""] = np.maximum(rest, 0.0)
    for kind, (words, advice) in MEANWHILE.items():
        together = sum(shares[kind].values(), np.zeros(len(idle)))
        kept = together > 0
        own = Cells(idle.key[kept], idle.value[kept] * together[kept])
        total = float(own.value.sum())
        parts = [
            (cube.properties.full_title[name].removeprefix("MPI, "), float((idle.value * share).sum()) / total)
            for name, share in shares[kind].items()
            if name and total > 0
        ]
        parts = sorted((p for p in parts if p[1] >= 0.005), key=lambda part: -part[1])
        title = f"{cube.properties.title_of(IDLE)} {words}"
        # in MPI, those that make the masters wait; otherwise the masters are the cause themselves
        causes = costs_of(cube, IDLE) if kind == "mpi" else None
        if (causes is None or not len(causes)) and not (kind == "mpi" and is_part(cube)):
            causes = Cells.sum(own.call_path, cube.system.master[own.location], own.value)
        meanwhile = tuple(parts) if kind != "serial" else ()
        advice = advice or advice_of(cube, IDLE)
        yield from finding_of(cube, IDLE, own, seconds, causes, title=title, advice=advice, meanwhile=meanwhile)


def _kind(cube: Severities, name: str) -> str:
    """Return the kind in `MEANWHILE` of the exclusive time of a property."""
    axis = cube.properties
    return "serial" if name == EXECUTION else KINDS.get(axis.nearest(name, axis.part), "other")
