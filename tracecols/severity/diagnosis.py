"""Diagnosis of a run: its times, its efficiencies, and the findings that cost most (docs/diagnosis.md).

It is computed from the cube alone. A finding is a property of the tree of times with its exclusive severity, so
findings add up and none exceeds its property. The idle time of threads is divided by what their master does meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tracecols.distinct import distinct
from tracecols.errors import SeverityError
from tracecols.given.arguments import is_whole_number, show
from tracecols.given.printable import finite, printable
from tracecols.given.providers import provider
from tracecols.schema.properties import TIME
from tracecols.severity import focus, wording
from tracecols.severity.axes import STREAM
from tracecols.severity.causes import NARROWED, causes_of, is_part, pieces_of
from tracecols.severity.cells import Cells
from tracecols.severity.efficiencies import (
    APPROXIMATION,
    MPI,
    MULTIPLICATIVE,
    THREADS,
    Metric,
    is_of_several,
    metrics,
    parallel_call_paths,
    times_of,
)
from tracecols.severity.finding import Finding
from tracecols.severity.findings import findings_with_cells
from tracecols.severity.lost_time import losses
from tracecols.severity.narrowed import in_words
from tracecols.severity.queries import Severities

N_FINDINGS = 5
"""Default number of findings in a diagnosis."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """The diagnosis of a run (`SeverityCube.diagnosis`). As text it takes at most 50 lines of 100 columns."""

    name: str
    """Of the trace."""
    narrowed: str
    """What the cube is narrowed to, in words."""
    runtime: float
    """Runtime in seconds, as in `SeverityCube.efficiencies`: from the first process that leaves MPI_Init to the last
    that enters MPI_Finalize, or the whole run."""
    recorded: float
    """Seconds from the first event to the last; if the cube does not know them, the largest time of a location."""
    between: float
    """Seconds from when the last process leaves MPI_Init to when the first enters MPI_Finalize; nan if unknown."""
    n_processes: int
    n_threads: int
    n_devices: int
    n_events: int
    focus: str
    """The part of the time that findings and shares refer to, in words."""
    seconds: float
    """Time of all threads in the focus."""
    apart: float
    """Seconds of all threads outside the focus, such as start-up and shutdown."""
    beside: float
    """Seconds in the focus that lie outside the interval between MPI_Init and MPI_Finalize; nan if unknown."""
    efficiencies: tuple[Metric, ...]
    """The rows of `SeverityCube.efficiencies`; empty if the cube lacks what they need."""
    has_teams: bool
    """Whether the program has OpenMP parallel regions, and therefore OpenMP factors."""
    lowest: str
    """The metric of the lowest factor; empty if there is none."""
    device_efficiencies: dict[str, float]
    findings: tuple[Finding, ...]
    """The costliest first."""
    counts: dict[str, int] = field(default_factory=dict)
    """Numbers of what could not be matched or is contradictory, by name."""
    n_findings: int = 0
    """Number of findings there are; `findings` has the first of them."""
    has_losses: bool = True
    """Whether there are properties that findings can be made of; not in a cube narrowed to others, such as root
    causes."""
    about_causes: str = ""
    """Remark on causes if the cube is narrowed or they were found in pieces of the trace; empty if none."""
    about_network: str = ""
    """How communication efficiency would be divided, if several processes communicate and it is not; else empty."""

    def text(self, source: str = "CUBE") -> str:
        """Return the diagnosis as plain text; `source` is the cube's path, for the commands that show more."""
        return str(provider("diagnosis as text")(self, source))

    def __str__(self) -> str:
        return printable(self.text())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return str(provider("diagnosis as HTML")(self))

    def to_dict(self, source: str = "CUBE") -> dict[str, Any]:
        """Return all of it as plain lists, numbers and text for JSON; None where a number is not defined. `source` is
        the cube's path, for the commands that show more."""
        found = {"format": "tracecols diagnosis", **vars(self)}
        found["findings"] = [{**asdict(f), "command": f.command(source)} for f in self.findings]
        found["efficiencies"] = [metric._asdict() for metric in self.efficiencies]
        return dict(finite(found))


def name_of(cube: Severities) -> str:
    """Return the name of the trace that a cube was made of; empty if it is not recorded."""
    return name_of_source(((cube.facts.get("trace") or {}).get("source") or {}).get("path", ""))


def name_of_source(path: str) -> str:
    """Return the name of a trace by the file it was converted from, or by its folder if the recorder gives all traces
    the same file name."""
    source = Path(path)
    if source.name in ("traces.otf2", "epik.elg", "epik.esd"):
        return source.parent.name
    name = source.stem
    # endings of two parts
    for ending in (".prv", ".json", ".pt.trace", ".pt"):
        name = name.removesuffix(ending)
    return name


def diagnose(cube: Severities, n_findings: int = N_FINDINGS, *, with_startup: bool = False) -> Diagnosis:
    """Diagnose what is wrong with the run (docs/diagnosis.md).

    Parameters
    ----------
    n_findings : int, optional
        Maximum number of findings.
    with_startup : bool, optional
        Include start-up and shutdown; by default they are excluded (`severity.focus`), unless the cube was narrowed.

    Returns
    -------
    Diagnosis
        It shows itself as text and as HTML; `to_dict` returns plain values.

    Raises
    ------
    SeverityError
        If the cube has no times, or is made of several, or the number of findings is not a whole number from 0.

    Examples
    --------
    >>> cube.diagnosis()  # doctest: +SKIP
    >>> cube.diagnosis().findings[0].cause  # doctest: +SKIP
    """
    if not is_whole_number(n_findings) or n_findings < 0:
        raise SeverityError(f"{show(n_findings)} is not a number of findings\n  give a whole number from 0")
    if TIME not in cube.cells:
        raise SeverityError(
            "a diagnosis needs times, and this cube has no property time\n  analyze without -p, or name time, too"
        )
    if cube.facts.get("operation"):
        raise SeverityError(
            f"a diagnosis is of one run, and this cube is the {cube.facts['operation']} of several\n"
            "  give the cubes it was made of"
        )
    looked_at = cube if with_startup else focus.focused(cube)
    seconds = looked_at.total(TIME)
    s = cube.system
    is_thread = s.is_thread
    trace, interval = cube.facts.get("trace") or {}, cube.facts.get("mpi_interval") or {}
    narrowed = cube.facts.get("narrowed") or {}
    try:
        times = times_of(cube, with_startup=with_startup)
    except SeverityError:
        times = None
    # times removed by narrowing would count as lost
    table = () if times is None or {"properties", "locations"} & set(narrowed) else tuple(metrics(times))
    has_teams = bool(parallel_call_paths(cube).any())
    recorded = float(cube.by_location(TIME).max(initial=0.0))
    if trace:
        recorded = (trace["last_time"] - trace["first_time"]) / cube.resolution
    runtime = recorded if times is None else times.runtime
    between = (interval["end"] - interval["begin"]) / cube.resolution if interval and not narrowed else math.nan
    threads = distinct((s.rank[is_thread].astype(np.int64) << 32) + s.thread[is_thread]).size
    words = focus.in_words(looked_at.facts) or ("the whole run" if not narrowed else "what the cube is narrowed to")
    devices = dict(cube.facts.get("device_efficiencies") or {})
    of_streams = {parent for parent, kind in zip(s.parent, s.kind, strict=True) if kind == STREAM}
    n_devices = len(devices.pop("devices", ())) or len(of_streams)
    found = [finding for finding, _ in findings_with_cells(looked_at, seconds, runtime)]
    return Diagnosis(
        name=name_of(cube),
        narrowed=in_words(cube.facts),
        runtime=runtime,
        recorded=recorded,
        between=between,
        n_processes=int(distinct(s.rank[is_thread]).size),
        n_threads=threads,
        n_devices=n_devices,
        n_events=int(trace.get("n_events", 0)),
        focus=words,
        seconds=seconds,
        apart=cube.total(TIME) - seconds,
        beside=seconds - between * int(is_thread.sum()) if not with_startup else math.nan,
        efficiencies=table,
        has_teams=has_teams,
        lowest=lowest(table, has_teams, devices),
        device_efficiencies=devices,
        findings=tuple(found[:n_findings]),
        n_findings=len(found),
        has_losses="properties" not in narrowed or any(True for _ in losses(looked_at)),
        about_causes=_about_causes(cube),
        about_network="" if with_startup or narrowed or not trace else _about_network(table),
        counts={str(what): int(n) for what, n in (cube.facts.get("counts") or {}).items()},
    )


def _about_network(table: Sequence[Metric]) -> str:
    """Return how to have the communication efficiency divided, if several processes use MPI and it is not; else
    empty."""
    found = {m.metric: m.value for m in table}
    if found.get("processes", 0) < 2 or "outside_mpi_max" not in found or "ideal_runtime" in found:
        return ""
    return "communication is not divided; tracecols analyze --ideal-network finds serialisation and transfer"


def _about_causes(cube: Severities) -> str:
    """Return a remark on causes if the cube is narrowed or they were found in pieces of the trace; empty if none."""
    if NARROWED & set(cube.facts.get("narrowed") or {}):
        return "no causes: they are searched for only if all properties are analysed, with default parameters"
    said = []
    if is_part(cube) and causes_of(cube):
        said.append("causes and gains are those of the whole run; shares are of the part that is analysed")
    if pieces := pieces_of(cube):
        n, length = len(pieces), wording.seconds(pieces[0][1] - pieces[0][0])
        tried, one = f"{length} in the middle", "this piece"
        if n > 1:
            tried, one = f"{n} pieces of {length} each, spread evenly over the run", "one of them"
        said.append(
            f"causes were tried on {tried}: costs and gains are scaled to the run, other numbers are those of {one}"
        )
    return "; ".join(said)


HYBRID = (
    "parallel_efficiency", "mpi_parallel_efficiency", "mpi_load_balance", "mpi_communication_efficiency",
    "mpi_serialisation_efficiency", "mpi_transfer_efficiency", "host_offload_efficiency", "openmp_parallel_efficiency",
    "openmp_load_balance", "openmp_communication_efficiency",
)  # fmt: skip

PURE = (
    "parallel_efficiency",
    "load_balance",
    "communication_efficiency",
    "serialisation_efficiency",
    "transfer_efficiency",
    "synchronisation_efficiency",
)
"""`HYBRID` and `PURE`: factors that a diagnosis shows for programs with several threads per process, and for others."""

DEVICE_FACTORS = ("device_load_balance", "device_communication_efficiency", "device_orchestration_efficiency")
"""The factors of the efficiency of devices."""


def factors(found: tuple[Metric, ...], has_teams: bool) -> dict[str, Metric]:
    """Return the efficiencies that a diagnosis shows, by metric: factors of MPI, and of OpenMP if processes have teams
    of threads. Hybrid models do not cover threads that a program creates itself."""
    if not found:
        return {}
    values, models = {m.metric: m.value for m in found}, {m.model for m in found}
    is_hybrid = "host_offload_efficiency" in values or (has_teams and values["threads"] > values["processes"])
    is_hybrid = is_hybrid or not models & {MPI, THREADS}
    names: tuple[str, ...]
    model, names = (MULTIPLICATIVE, HYBRID) if is_hybrid else (MPI if MPI in models else THREADS, PURE)
    if values["processes"] == 1:
        names = tuple(name for name in names if not (is_of_several(name) or name.startswith("mpi_")))
    shown = {m.metric: m for m in found if m.model == model}
    return {name: shown[name] for name in names if name in shown}


def lowest(found: tuple[Metric, ...], has_teams: bool, devices: Mapping[str, float]) -> str:
    """Return the metric of the lowest factor that is not divided further, device factors included; empty if none is
    below 1."""
    shown = factors(found, has_teams)
    divided = {m.parent for m in shown.values()}
    leaves = {name: m.value for name, m in shown.items() if name not in divided and m.by != APPROXIMATION}
    leaves |= {name: float(devices[name]) for name in DEVICE_FACTORS if name in devices}
    below = {name: value for name, value in leaves.items() if value < 1}
    return min(below, key=below.__getitem__) if below else ""


def finding_with_cells(cube: Severities, number: int) -> tuple[Finding, Mapping[str, Cells], Severities]:
    """Return a finding by its number in the diagnosis, from 1 on; the time lost because of it, by property (empty if no
    cause is known); and the cube that these cells belong to. Raises SeverityError as `diagnose` does, or if there is no
    such finding."""
    whole, looked_at = diagnose(cube, 0), focus.focused(cube)
    found = findings_with_cells(looked_at, whole.seconds, whole.runtime)
    if not 1 <= number <= len(found):
        raise SeverityError(
            f"there is no finding {show(number)}: the diagnosis has {len(found)}\n"
            "  give a number from 1 on, in the order of the diagnosis"
        )
    return *found[number - 1], looked_at
