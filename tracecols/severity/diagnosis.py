"""Diagnosis of a run: its times, its efficiencies, and the findings that cost most (docs/diagnosis.md).

It is computed from the cube alone. A finding is a property of the tree of times with its exclusive severity, so
findings add up and none exceeds its property. The idle time of threads is divided by what their master does meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.scan.paths import function_name
from tracecols.errors import SeverityError
from tracecols.given.arguments import is_whole_number, show
from tracecols.given.printable import one_line, printable
from tracecols.given.providers import provider
from tracecols.schema.properties import (
    COLLECTIVE,
    COMPUTATION,
    DEVICE_IDLE,
    EXECUTION,
    IDLE,
    MESSAGE_BYTES,
    MESSAGES,
    POINT_TO_POINT,
    SYNCHRONISATIONS,
    TIME,
    VISITS,
)
from tracecols.schema.properties import MPI as MPI_TIME
from tracecols.severity import accelerators, focus, wording
from tracecols.severity.causes import BY_CHANCE, NARROWED, Explained, causes_of, explain, is_part, piece_of, runtime_of
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
from tracecols.severity.narrowed import in_words
from tracecols.severity.queries import Severities
from tracecols.severity.tasks import roots_of_tasks, second_appearance, with_tasks_once

N_FINDINGS = 5
"""Default number of findings in a diagnosis."""

LEAST = 0.005
"""Share of the time in the focus below which a cost is no finding."""

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


@dataclass(frozen=True)
class Place:
    """A location, a call path or both, and its part of a finding."""

    location: str
    call_path: str
    """`location` and `call_path`: in words; empty if the place is about the other only."""
    seconds: float
    share: float
    """`seconds` and `share`: part of the finding, or of the costs that identify the cause."""
    n_call_paths: int = 1
    """If more than one, `call_path` is the name of a region that they all enter."""


@dataclass(frozen=True, repr=False)
class Finding:
    """A cause of lost time, or a property of lost time that no cause explains."""

    property: str
    """Its id."""
    title: str
    """With the titles above it that are needed to understand it."""
    seconds: float
    share: float
    """`seconds` and `share`: over all locations, and of the time in the focus."""
    where: Place
    """The call path with the largest part."""
    region: Place
    """The region with the largest part, on whatever call path."""
    paid_by: tuple[Place, ...]
    """The locations with the largest parts, at most three."""
    n_paying: int
    """Number of locations with more than 0.5 % of the total; if these have less than half of it together, of those with
    more than half the mean of all locations that have any."""
    is_even: bool
    """All of them have about the same: the largest less than 1.1 times the mean."""
    cause: Place | None
    """The location and call path that others wait for most, by delay costs; None if the cube has none."""
    meanwhile: tuple[tuple[str, float], ...]
    """Of idle threads: properties of the time of their masters with their shares."""
    advice: str
    """One sentence."""
    call_path: int
    """The number of `where.call_path` in the cube."""
    what: str = ""
    """The cause in one line; empty if the finding is a property without a known cause."""
    kind: str = ""
    """Kind of cause (`tracecols.findings.cause.KINDS`); empty likewise."""
    gain: float | None = None
    gain_share: float | None = None
    """`gain` and `gain_share`: seconds by which the run would be shorter if the cause were mended, and their part of
    the runtime, by replay."""
    rank: int | None = None
    thread: int | None = None
    """`rank` and `thread`: the rank of the culprit if it is a single process; its thread if processes have several and
    it is the same one in all culprit processes, or 0 if all masters are."""
    cause_region: str = ""
    """The region that is the cause."""
    parts: tuple[tuple[str, float], ...] = ()
    """The properties that it explains, with their seconds."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Quantities that prove it, by name."""
    shows: str = ""
    """The evidence in words."""

    def __repr__(self) -> str:
        where = one_line(self.where.call_path)
        return (
            f"<Finding {self.share:.1%}, {self.seconds:.6g} s: {self.what or self.title}, {where} "
            f"({self.where.share:.0%})>"
        )

    def _repr_html_(self) -> str:
        found: str = provider("finding as HTML")(self)
        return found

    def command(self, source: str = "CUBE") -> str:
        """Return the command that shows more of it."""
        return f"tracecols show {source} -p {self.property}"


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
    has_losses: bool = True
    """Whether there are properties that findings can be made of; not in a cube narrowed to others, such as root
    causes."""
    about_causes: str = ""
    """Remark on causes if the cube is narrowed or they were found in a piece of the trace; empty if none."""

    def text(self, source: str = "CUBE") -> str:
        """Return the diagnosis as plain text; `source` is the cube's path, for the commands that show more."""
        found: str = provider("diagnosis as text")(self, source)
        return found

    def __str__(self) -> str:
        return printable(self.text())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        found: str = provider("diagnosis as HTML")(self)
        return found

    def to_dict(self, source: str = "CUBE") -> dict[str, Any]:
        """Return all of it as plain lists, numbers and text for JSON; None where a number is not defined. `source` is
        the cube's path, for the commands that show more."""
        found = dict(vars(self))
        found["findings"] = [{**asdict(f), "command": f.command(source)} for f in self.findings]
        found["efficiencies"] = [metric._asdict() for metric in self.efficiencies]
        result: dict[str, Any] = _plain(found)
        return result


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    is_thread = np.array([t not in ("metric", "gpu") for t in s.location_type], bool)
    trace, interval = cube.facts.get("trace") or {}, cube.facts.get("mpi_interval") or {}
    narrowed = cube.facts.get("narrowed") or {}
    table = _efficiencies(cube, with_startup)
    has_teams = bool(parallel_call_paths(cube).any())
    recorded = (
        (trace["last_time"] - trace["first_time"]) / cube.resolution
        if trace
        else float(cube.by_location(TIME).max(initial=0.0))
    )
    runtime = _runtime(cube, with_startup, recorded)
    between = (interval["end"] - interval["begin"]) / cube.resolution if interval and not narrowed else math.nan
    threads = distinct((s.rank[is_thread].astype(np.int64) << 32) + s.thread[is_thread]).size
    words = focus.in_words(looked_at.facts) or ("the whole run" if not narrowed else "what the cube is narrowed to")
    devices = dict(cube.facts.get("device_efficiencies") or {})
    n_devices = len(devices.pop("devices", ())) or len(
        {(s.parent[i]) for i, kind in enumerate(s.kind) if kind == "stream"}
    )
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
        findings=tuple(findings(looked_at, seconds, runtime))[:n_findings],
        has_losses="properties" not in narrowed or any(True for _ in _candidates(looked_at)),
        about_causes=_about_causes(cube),
        counts={str(what): int(n) for what, n in (cube.facts.get("counts") or {}).items()},
    )


def _about_causes(cube: Severities) -> str:
    """Return a remark on causes if the cube is narrowed or they were found in a piece of the trace; empty if none."""
    if NARROWED & set(cube.facts.get("narrowed") or {}):
        return "no causes: they are looked for in analyses of all properties with their usual parameters"
    said = []
    if is_part(cube) and causes_of(cube):
        said.append("causes, and what mending them gains, are those of the whole run; shares are of what is looked at")
    if piece := piece_of(cube):
        length = wording.seconds(piece[1] - piece[0])
        said.append(
            f"causes were tried on {length} in the middle: what they cost and gain is scaled to the run, other numbers "
            "are of this piece"
        )
    return "; ".join(said)


def _runtime(cube: Severities, with_startup: bool, otherwise: float) -> float:
    """Return the runtime used by efficiencies, in seconds; `otherwise` if the cube lacks what they need."""
    try:
        return times_of(cube, with_startup=with_startup).runtime
    except SeverityError:
        return otherwise


def _efficiencies(cube: Severities, with_startup: bool) -> tuple[Metric, ...]:
    narrowed = cube.facts.get("narrowed") or {}
    if {"properties", "locations"} & set(narrowed):
        # times removed by narrowing would count as lost
        return ()
    try:
        return tuple(metrics(times_of(cube, with_startup=with_startup)))
    except SeverityError:
        return ()


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


# -- findings ----------------------------------------------------------------------------------------------------------


def _candidates(cube: Severities) -> list[str]:
    """Return the properties of the tree of times that are losses, in a narrowed cube only those it was narrowed to;
    parents before children."""
    axis = cube.properties
    asked = (cube.facts.get("narrowed") or {}).get("properties")
    # without a property for computation, the exclusive time of execution is computation
    useful = {TIME, _of_computation(cube)}
    return [
        name
        for name in axis.id
        if name not in useful
        and axis.root_of(name) == TIME
        and axis.adds_up(name)
        and (asked is None or any(_is_below(cube, name, top) for top in asked))
    ]


def divided(cube: Severities) -> dict[str, Cells]:
    """Divide the lost time among properties, each without the properties below it, so that findings add up.

    A property that may overlap its siblings gets at most what they leave of its parent's cells; the parent keeps the
    rest.
    """
    axis = cube.properties
    candidates = _candidates(cube)
    overlapping = {name for name in candidates if axis.overlaps[axis.number[name]]}
    result: dict[str, Cells] = {}
    for name in candidates:
        if name in result or _overlaps(cube, axis.parent[axis.number[name]]):
            continue
        if name in overlapping:
            # its parent is not a candidate
            result[name] = cube.cells[name]
            continue
        own = cube.cells_of(name, "eee")
        for part in axis.children[name]:
            if part in overlapping:
                taken = result[part] = _common(own, cube.cells[part])
                own = own - taken if len(taken) else own
        result[name] = own
    return {name: result[name] for name in candidates if name in result}


def _overlaps(cube: Severities, name: str) -> bool:
    """Return whether a property, or one above it, may hold for the same time as its siblings."""
    axis = cube.properties
    while name and not axis.overlaps[axis.number[name]]:
        name = axis.parent[axis.number[name]]
    return bool(name)


def _common(cells: Cells, others: Cells) -> Cells:
    """Return the smaller of both times, cell by cell."""
    value = np.minimum(others.value, np.maximum(cells.at(others.key), 0))
    return Cells(others.key, value).where(value > 0)


def _is_below(cube: Severities, name: str, top: str) -> bool:
    axis = cube.properties
    while name and name != top:
        name = axis.parent[axis.number[name]]
    return name == top


def findings(cube: Severities, seconds: float, runtime: float) -> list[Finding]:
    """Return the findings, causes and what no cause explains, ordered by what mending them would gain; the parameters
    are those of `findings_with_cells`."""
    return [finding for finding, _ in findings_with_cells(cube, seconds, runtime)]


def findings_with_cells(cube: Severities, seconds: float, runtime: float) -> list[tuple[Finding, Mapping[str, Cells]]]:
    """Return the findings, each with the time lost because of it, by property; empty for one without a known cause.

    `cube` is evaluated as it is, nothing more is excluded. Shares refer to `seconds`, shares of gains to `runtime`;
    both include start-up and shutdown unless these are excluded.
    """
    parts = divided(cube)
    explained, parts = explain(cube, parts, IDLE, causes_of(cube))
    if is_part(cube):
        # gains of causes are relative to the whole run
        runtime = runtime_of(cube) / cube.resolution
    of_causes = [(_of_cause(cube, cause, seconds, runtime), cause.cells) for cause in explained]
    if is_part(cube):
        of_causes = [(f, cells) for f, cells in of_causes if f.seconds >= LEAST * seconds]
    # if the trace was replayed, its causes tell better what hosts do meanwhile
    found = list(_busy_devices(cube))
    found += [] if any(cause.facts["kind"] == IDLE_CAUSE for cause in explained) else list(_idle_devices(cube))
    starts = accelerators.StartUp.of(cube, masters(cube))
    for name, whole in parts.items():
        at_start, own = starts.divide(whole)
        found += _start_of_devices(cube, name, at_start, seconds)
        if name == IDLE:
            found += idle_findings(cube, own, seconds)
        elif len(own):
            rest = remainder_in_words(cube, name, parts)
            n_messages, n_bytes = _messages(cube, own) if _is_below(cube, name, POINT_TO_POINT) else (0, 0)
            advice = advice_of(cube, name)
            if rest and name == COLLECTIVE:
                # the property's advice on waiting applies to the properties below it
                advice = wording.ADVICE["collectives"]
            elif name == POINT_TO_POINT and not n_messages:
                advice = wording.NO_MESSAGES
            shows = wording.calls(*_visits(cube, own), n_messages, n_bytes) if _is_below(cube, name, MPI_TIME) else ""
            title = cube.properties.full_title[name] + rest
            found += _finding(cube, name, title, own, seconds, advice, _causes(cube, name), shows=shows)
    n_locations = max(int((cube.by_location(TIME) > 0).sum()), 1)
    part = (UNEXPLAINED if _is_searched(cube) else UNKNOWN) / n_locations
    no_cells: Mapping[str, Cells] = {}
    return sorted(
        [*of_causes, *((f, no_cells) for f in found)],
        key=lambda pair: (*_order(pair[0], part), pair[0].property, pair[0].title, pair[0].what),
    )


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


def _visits(cube: Severities, own: Cells) -> tuple[int, float]:
    """Return the number of calls in which a property has time, and its mean seconds per call."""
    n = int(cube.cells_of(VISITS, "iee").at(own.key).sum()) if VISITS in cube.cells else 0
    return n, float(own.value.sum()) / cube.resolution / n if n else 0.0


def _messages(cube: Severities, own: Cells) -> tuple[int, int]:
    """Return the number of sends and receives where a property has time, and their bytes."""

    def number(*names: str) -> int:
        return sum(int(cube.cells_of(name, "iee").at(own.key).sum()) for name in names if name in cube.cells)

    return number(MESSAGES, SYNCHRONISATIONS), number(MESSAGE_BYTES)


UNKNOWN, UNEXPLAINED = 1 / 2, 1 / 8
"""`UNKNOWN` and `UNEXPLAINED`: part of its cost per location by which a finding is ranked if no replay predicts its
gain: if not all causes were searched for, and if all were and none explains it."""


def _is_searched(cube: Severities) -> bool:
    """Return whether all causes of time lost by threads were searched for; in programs with devices only some are."""
    return runtime_of(cube) > 0 and not (np.asarray(cube.system.location_type, object) == "gpu").any()


def _order(finding: Finding, part: float) -> tuple[int, float]:
    """Return the sort key of a finding, the smallest first: ranks that are late, devices, others by what mending them
    gains, or by a part of their cost if no replay predicts it, and last the start of devices."""
    if finding.kind in (STRAGGLER, DEVICE):
        return (0, -finding.evidence["waits"]) if finding.kind == STRAGGLER else (1, 0.0)
    if finding.kind == START_OF_DEVICES:
        return 3, -finding.seconds
    if finding.gain is None:
        return 2, -finding.seconds * part
    return 2, -finding.gain * BY_CHANCE.get(finding.kind, 1.0)


def _of_cause(cube: Severities, explained: Explained, seconds: float, runtime: float) -> Finding:
    """Return the finding of a cause."""
    facts, resolution = explained.facts, cube.resolution
    of_property = {name: float(cells.value.sum()) * cube.scale(name) for name, cells in explained.cells.items()}
    # a location that computes too long may be waited for in MPI_Finalize only, which is outside the focus
    otherwise = DEVICE_IDLE if facts["kind"] == IDLE_CAUSE and DEVICE_IDLE in cube.cells else _of_computation(cube)
    name = max(of_property, key=lambda p: of_property[p], default=otherwise)
    own = Cells.empty()
    for cells in explained.cells.values():
        own = own + cells
    total = sum(of_property.values())
    at = int(facts["call_path"])
    if total > 0:
        # of the named property, so that place and property match
        path, region, best = largest_places(cube, explained.cells[name], cube.scale(name))
        path, region = (replace(place, share=place.seconds / total) for place in (path, region))
    else:
        best, path = at, Place("", cube.call_paths.paths_of([at])[0], 0.0, 0.0)
        region = Place("", str(cube.call_paths.name[at]), 0.0, 0.0)
    by_location = np.bincount(own.location, own.value, cube.system.n_locations) * cube.scale(name)
    paying, paid_by = _payers(cube, by_location, total)
    who = [int(i) for i in facts["locations"]]
    words = _culprits(cube, who, bool(facts["is_process"]))
    name_of_cause = str(facts["evidence"].get("phases") or cube.call_paths.name[at])
    region_of_cause = wording.short(name_of_cause)
    several = bool((cube.system.thread > 0).any())
    unit = "thread" if several else "rank"
    path_of_cause = cube.call_paths.paths_of([at])[0]
    where = str(cube.call_paths.name[best])
    subject = wording.Subject(
        region_of_cause, words, cube.properties.full_title[name], where, unit, "!$omp" in path_of_cause
    )
    # if no waiting is recorded, a replay predicts no gain
    gain = float(facts["gain"]) / resolution or None
    ranks = distinct(cube.system.rank[who])
    return Finding(
        property=name,
        title=cube.properties.full_title[name],
        seconds=total,
        share=total / seconds if seconds else 0.0,
        where=path,
        region=region,
        paid_by=paid_by,
        n_paying=paying.size,
        is_even=_is_even(by_location, paying),
        cause=Place(words, path_of_cause, explained.certain * total, explained.certain),
        meanwhile=(),
        advice=wording.advice(facts, subject),
        call_path=best,
        what=wording.what(facts, subject),
        kind=str(facts["kind"]),
        gain=gain,
        gain_share=None if gain is None else gain / runtime if runtime else 0.0,
        rank=int(ranks[0]) if ranks.size == 1 else None,
        thread=_thread_of(cube, facts, who) if several else None,
        cause_region=name_of_cause,
        parts=tuple(sorted(of_property.items(), key=lambda part: -part[1])),
        evidence=_known(facts["evidence"]),
        shows=wording.evidence(facts, subject),
    )


def _thread_of(cube: Severities, facts: Mapping[str, Any], who: list[int]) -> int | None:
    """Return the number of the thread that causes a finding, if it is the same in all processes that do; 0 if all
    masters do; otherwise None."""
    if len(who) == 1:
        return int(cube.system.thread[who[0]])
    threads = distinct(cube.system.thread[who])
    if len(who) > 1 and threads.size == 1:
        return int(threads[0])
    return 0 if facts["kind"] == "serial" and not who else None


DEVICE, START_OF_DEVICES = "device", "device_start"
"""Kinds of findings of devices, which no replay tries."""

OF_DEVICES: dict[str, Any] = {
    "seconds": 0.0, "share": 0.0, "paid_by": (), "n_paying": 0, "is_even": False, "kind": DEVICE,
}  # fmt: skip
"""Fields that findings of devices have in common: their time belongs to no thread."""

IDLE_CAUSE = "idle"
"""Kind of findings: devices have nothing to do because of their hosts (`tracecols.findings.idle`)."""

STRAGGLER = "straggler"
"""Kind of findings: kernels of other ranks wait for a rank (`tracecols.findings.devices`)."""

MOSTLY = 0.2
"""Share of the hosts' time from which on the region with most of it is named first."""


def _idle_devices(cube: Severities) -> Iterator[Finding]:
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
        busy_with, meanwhile = (
            "hosts give too little work",
            f"hosts spend their time in many regions, {longest} and less in each other one",
        )
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


def _busy_devices(cube: Severities) -> Iterator[Finding]:
    """Yield the finding about devices that are busy nearly all the time, so that only shorter operations help."""
    found = accelerators.busy_devices(cube)
    if found is None:
        return
    scale = cube.scale(found.property)
    path, region, best = largest_places(cube, found.cells, scale)
    devices = "the device is" if found.n_devices == 1 else f"the {found.n_devices:,} devices are"
    longest = _longest_functions(cube, found.cells)
    named = wording.listed([f"{wording.short(name)} ({share:.0%})" for name, share in longest])
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
        what=f"{devices} busy {found.busy:.0%} of the time: {takes} the run time, longest {named}",
        cause_region=region.call_path,
        shows=f"{title} take {wording.seconds(float(found.cells.value.sum()) * scale)} on all devices",
        **OF_DEVICES,
    )


def _longest_functions(cube: Severities, cells: Cells) -> list[tuple[str, float]]:
    """Return the two functions (without types and arguments) with the largest shares of some time, and their shares."""
    names, of = cube.call_paths.numbered_names
    parts: dict[str, float] = {}
    by_name = np.bincount(of[cells.call_path], cells.value, len(names))
    for at in np.flatnonzero(by_name).tolist():
        name = function_name(names[at])
        parts[name] = parts.get(name, 0.0) + float(by_name[at] / by_name.sum())
    return sorted(parts.items(), key=lambda part: (-part[1], part[0]))[:2]


def _hosts_meanwhile(cube: Severities, hosts: NDArray[np.bool_]) -> tuple[tuple[str, float], ...]:
    """Return how threads that give work to devices spend their time: titles of properties with their shares."""
    axis = cube.properties
    found = []
    parts = [name for name, parent in zip(axis.id, axis.parent, strict=True) if parent == EXECUTION]
    for name in dict.fromkeys((_of_computation(cube), *parts)):
        if name in cube.cells:
            cells = cube.cells_of(name, "iee")
            found.append(
                (axis.title[axis.number[name]], float(np.maximum(cells.value[hosts[cells.location]], 0).sum()))
            )
    whole = sum(value for _, value in found)
    shares = [(title, value / whole) for title, value in found if whole and value / whole >= 0.005]
    return tuple(sorted(shares, key=lambda part: -part[1]))


def _start_of_devices(cube: Severities, name: str, cells: Cells, seconds: float) -> Iterator[Finding]:
    """Yield the finding about the time of a property spent on starting devices, which is no fault of the program."""
    if not len(cells):
        return
    if name == IDLE:
        cells = _not_negative(cells)
    advice = "It happens once: measure a longer run, or leave it out of account."
    for f in _finding(
        cube, name, f"{cube.properties.full_title[name]} at the start of devices", cells, seconds, advice, None
    ):
        yield replace(f, kind=START_OF_DEVICES)


def _of_computation(cube: Severities) -> str:
    """Return the property whose time is not lost: computation."""
    return COMPUTATION if COMPUTATION in cube.properties.number else EXECUTION


def _known(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return the quantities that are not None."""
    return {name: value for name, value in evidence.items() if value is not None}


def _culprits(cube: Severities, locations: list[int], is_process: bool) -> str:
    """Name the locations that cause something, or their process."""
    return wording.culprits(
        locations, is_process, cube.system.rank, cube.system.thread, lambda i: location_in_words(cube, i)
    )


def remainder_in_words(cube: Severities, name: str, parts: Mapping[str, Cells]) -> str:
    """Describe what the exclusive severity of a property leaves out; empty if nothing. `parts` are the properties that
    are findings themselves, as `divided` returns them."""
    axis = cube.properties
    beside = axis.parts(name)
    left_out = [c for c in axis.children[name] if (c in beside and len(cube.cells[c])) or len(parts.get(c, ()))]
    titles = [axis.title[axis.number[part]] for part in left_out]
    if not titles:
        return ""
    return f" without {' and '.join(titles)}" if len(titles) <= 2 else f" without the {len(titles)} properties below it"


def advice_of(cube: Severities, name: str) -> str:
    """Return the first sentence of the advice for a property, or for the nearest one above it that has some.

    The advice of a root is not used, as it is about the whole tree.
    """
    axis = cube.properties
    below_root = [at for at in (name, *axis.above(name)) if axis.parent[axis.number[at]]]
    advice = next((text for at in below_root if (text := axis.advice[axis.number[at]])), "")
    return advice.split(". ")[0].rstrip(".") + "." * bool(advice)


def _causes(cube: Severities, name: str) -> Cells | None:
    """Return the delay costs of a wait state; None if the cube has none, or covers a part of the run only, where they
    would include those of waits elsewhere."""
    if is_part(cube):
        return None
    axis = cube.properties
    # properties below a wait wait for the same
    of = [name, *(at for at in axis.above(name) if axis.is_wait[axis.number[at]])]
    return cube.cells.get(next((delay for at in of if (delay := axis.delay[axis.number[at]])), ""))


def _finding(
    cube: Severities,
    name: str,
    title: str,
    own: Cells,
    seconds: float,
    advice: str,
    causes: Cells | None,
    meanwhile: tuple[tuple[str, float], ...] = (),
    shows: str = "",
) -> Iterator[Finding]:
    total = float(own.value.sum()) * cube.scale(name)
    if total <= 0 or (seconds and total < LEAST * seconds):
        return
    scale = cube.scale(name)
    by_location = np.bincount(own.location, own.value, cube.system.n_locations) * scale
    paying, paid_by = _payers(cube, by_location, total)
    path, region, best = largest_places(cube, own, scale)
    yield Finding(
        property=name,
        title=title,
        seconds=total,
        share=total / seconds if seconds else 0.0,
        where=path,
        region=region,
        paid_by=paid_by,
        n_paying=paying.size,
        is_even=_is_even(by_location, paying),
        cause=_cause(cube, causes),
        meanwhile=meanwhile,
        advice=advice,
        call_path=best,
        parts=((name, total),),
        shows=shows,
    )


def _payers(
    cube: Severities, by_location: NDArray[np.floating[Any]], total: float
) -> tuple[NDArray[np.int64], tuple[Place, ...]]:
    """Return the locations that have a part of a finding, and the three with the largest."""
    paying = _paying(by_location) if total > 0 else np.zeros(0, np.int64)
    order = paying[np.argsort(-by_location[paying], kind="stable")][:3]
    return paying, tuple(
        Place(location_in_words(cube, int(i)), "", float(by_location[i]), float(by_location[i]) / total) for i in order
    )


def _is_even(by_location: NDArray[np.floating[Any]], paying: NDArray[np.int64]) -> bool:
    """Return whether all paying locations pay about the same."""
    return bool(paying.size > 3 and by_location.max() < 1.1 * by_location[paying].mean())


def _paying(parts: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the locations that have a relevant part of a finding (`Finding.n_paying`)."""
    total = parts.sum()
    paying = np.flatnonzero(parts > LEAST * total)
    if parts[paying].sum() < total / 2:
        # with many locations, none may have half a percent
        paying = np.flatnonzero(parts > parts[parts > 0].mean() / 2)
    return paying


def largest_places(cube: Severities, cells: Cells, scale: float) -> tuple[Place, Place, int]:
    """Return the call path with the largest part of some cells, the region with the largest part, and the call path's
    number."""
    by_path = np.bincount(cells.call_path, cells.value, len(cube.call_paths)) * scale
    whole = float(by_path.sum())
    best = int(by_path.argmax())
    names, of = cube.names_of_steps
    by_name = np.bincount(of, by_path, len(names))
    most = int(by_name.argmax())
    path = Place("", cube.call_paths.paths_of([best])[0], float(by_path[best]), float(by_path[best]) / whole)
    n = int(((by_path > 0) & (of == most)).sum())
    return path, Place("", names[most], float(by_name[most]), float(by_name[most]) / whole, n), best


def location_in_words(cube: Severities, location: int) -> str:
    """Return rank and, if processes have several threads, thread of a location; for a stream of a device, its name."""
    s = cube.system
    words = f"rank {s.rank[location]}"
    if s.location_type[location] == "gpu":
        return f"{words} stream {printable(s.location_name[location]) or s.thread[location]}"
    return words if not (s.thread > 0).any() else f"{words} thread {s.thread[location]}"


def _cause(cube: Severities, causes: Cells | None) -> Place | None:
    """Return the call path with the largest part of some costs, or the region if they are spread over its call paths,
    and the location with most of them there."""
    if causes is None or not len(causes) or causes.value.sum() <= 0:
        return None
    scale = 1 / cube.resolution
    path, region, best = largest_places(cube, causes, scale)
    is_spread = region.n_call_paths > 1 and path.share < 0.5 and region.share > 1.5 * path.share
    found = region if is_spread else path
    of, wanted = np.arange(len(cube.call_paths)), best
    if is_spread:
        names, of = cube.names_of_steps
        wanted = names.index(region.call_path)
    here = causes.on(of == wanted)
    by_location = np.bincount(here.location, here.value, cube.system.n_locations)
    most = int(by_location.argmax())
    seconds = float(by_location[most]) * scale
    share = float(by_location[most] / causes.value.sum())
    words = found.call_path
    if cube.system.location_type[most] == "gpu" and not is_spread and _is_program(cube, best):
        # on hosts and streams alike, operations whose launch is not known are charged to the program
        words = "operations whose launch is not recorded"
    return Place(location_in_words(cube, most), words, seconds, share, found.n_call_paths)


def _is_program(cube: Severities, call_path: int) -> bool:
    """Return whether a call path is a root that calls others."""
    tree = cube.call_paths
    return bool(tree.parent[call_path] < 0 and tree.end[call_path] > call_path + 1)


# -- idle threads ------------------------------------------------------------------------------------------------------


def masters(cube: Severities) -> NDArray[np.int64]:
    """Return for every location the lowest-numbered thread of its process, as a location; (n_locations,) int64."""
    s = cube.system
    is_thread = np.array([t not in ("metric", "gpu") for t in s.location_type], bool)
    order = np.lexsort((s.thread, ~is_thread, s.rank))
    first = np.searchsorted(s.rank[order], s.rank)
    return np.asarray(order[first], np.int64)


def activities(cube: Severities, idle: Cells) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Divide the idle time of threads by the properties of the time that their master spends on the same call path;
    yield each property and its share of every cell.

    `idle` is the exclusive severity of `omp_idle_threads`: on the call paths of masters, at the threads that idle. If
    the master has no exclusive time on a call path, all shares are 0.
    """
    key = (idle.call_path.astype(np.int64) << 32) | masters(cube)[idle.location]
    axis = cube.properties
    computes = _of_computation(cube)
    tasks = second_appearance(roots_of_tasks(cube), cube.cells.get(EXECUTION, Cells.empty())).at(key)
    found = []
    for name in axis.id:
        if not _is_below(cube, name, EXECUTION) or axis.overlaps[axis.number[name]]:
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
    idle = _not_negative(with_tasks_once(roots_of_tasks(cube), idle))
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
        title = f"{cube.properties.title[cube.properties.number[IDLE]]} {words}"
        # in MPI, those that make the masters wait; otherwise the masters are the cause themselves
        causes = _causes(cube, IDLE) if kind == "mpi" else None
        if (causes is None or not len(causes)) and not (kind == "mpi" and is_part(cube)):
            causes = Cells.sum(own.call_path, masters(cube)[own.location], own.value)
        yield from _finding(
            cube,
            IDLE,
            title,
            own,
            seconds,
            advice or advice_of(cube, IDLE),
            causes,
            tuple(parts) if kind != "serial" else (),
        )


def _not_negative(cells: Cells) -> Cells:
    """Return cells with the same sum and no negative ones: these are deducted from the positive ones in proportion."""
    kept = cells.where(cells.value > 0)
    total, positive = float(cells.value.sum()), float(kept.value.sum())
    if total == positive:
        return kept
    return Cells(kept.key, kept.value * (max(total, 0.0) / positive)) if positive else kept


def _kind(cube: Severities, name: str) -> str:
    """Return the kind in `MEANWHILE` of the exclusive time of a property."""
    axis = cube.properties
    return "serial" if name == EXECUTION else KINDS.get(axis.nearest(name, axis.part), "other")
