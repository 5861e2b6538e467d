"""Efficiencies of a run, as a few factors between 0 and 1 (docs/efficiencies.md).

Three models are evaluated on the same times: MPI (POP), hybrid multiplicative (BSC) and hybrid additive (POP).
`RunTimes` holds the times, whatever their source; `tabulate` makes the table from them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.errors import SeverityError
from tracecols.given.arguments import did_you_mean, show
from tracecols.schema import properties as ids
from tracecols.schema.notes import note
from tracecols.severity.cells import Cells
from tracecols.severity.focus import below, focused, mpi_call_paths, words_of
from tracecols.severity.narrowed import asked_for, in_words
from tracecols.severity.queries import Severities

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("model", "metric", "parent", "title", "unit", "value", "by")
"""Columns of the table of efficiencies."""

RUN, MPI, THREADS, MULTIPLICATIVE, ADDITIVE, COMPUTATION = MODELS = (
    "run", "mpi", "threads", "hybrid multiplicative", "hybrid additive", "computation",
)  # fmt: skip
"""Groups of metrics: the times, the models, and metrics of the computation, most of them from counters."""

MODEL_TITLES = {
    RUN: "Times",
    MPI: "MPI (POP)",
    THREADS: "Threads",
    MULTIPLICATIVE: "Hybrid, multiplicative (BSC)",
    ADDITIVE: "Hybrid, additive (POP)",
    COMPUTATION: "Computation",
}

APPROXIMATION, REPLAY, DIMEMAS = IDEALS = ("approximation", "replay", "dimemas")
"""How the runtime on an ideal network is found: from the time that remains without transfer, by replay of the trace,
or by replay of the whole run with the rules of the simulator Dimemas, as BSC's tools define the factors."""

INSTRUCTIONS = ("PAPI_TOT_INS", "instructions", "perf::INSTRUCTIONS")
CYCLES = ("PAPI_TOT_CYC", "cycles", "cpu-cycles", "perf::CYCLES")
"""`INSTRUCTIONS` and `CYCLES`: names of counters; the first one that a cube has is used."""


@dataclass(frozen=True, eq=False)
class RunTimes:
    """Times from which efficiencies are computed, in seconds."""

    runtime: float
    """From the start to the end of the evaluated interval."""
    useful: NDArray[np.float64]
    outside: NDArray[np.float64]
    """`useful` and `outside`: (n_threads,), time in computation of every CPU thread, and time outside MPI of the master
    of its process, which holds the CPUs of all its threads."""
    process: NDArray[np.int64]
    """(n_threads,): rank of each thread."""
    openmp: NDArray[np.float64]
    serial: NDArray[np.float64]
    """`openmp` and `serial`: (n_threads,), time in parallel regions outside MPI, and computation outside parallel
    regions, of the master of each thread's process."""
    ideal: float
    """Runtime on an ideal network; nan if it is not known."""
    ideal_by: str
    """How `ideal` was found, one of `IDEALS`; empty if it is not known."""
    window: str
    """The interval that the runtime covers, in words."""
    instructions: float = math.nan
    cycles: float = math.nan
    """`instructions` and `cycles`: counted in computation; nan if they were not recorded."""
    ideal_useful: float = math.nan
    """The largest computation of a process on the ideal network if it differs from the recorded one; else nan."""
    has_mpi: bool = True
    has_openmp: bool = True
    has_devices: bool = False
    """`has_mpi`, `has_openmp` and `has_devices`: whether the program uses these; models of the others have no rows."""
    device: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    """(n_threads,): time in device calls, of each thread in parallel regions and of its master outside of them."""
    present: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))
    """(n_threads,): share of the runtime during which each thread exists; below 1 in processes created by others."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """What the replay that found `ideal` does not know: notes, and how often each holds."""

    def mean(self, values: NDArray[np.float64]) -> float:
        """Return the mean time of threads, as if threads that start late did the same during the whole runtime."""
        if not values.size:
            return math.nan
        there = np.broadcast_to(self.present, values.shape)
        return float(values.mean() if (there == 1).all() else values.sum() / there.sum())

    def largest(self, values: NDArray[np.float64]) -> float:
        """Return the largest time of a thread, as if threads that start late did the same during the whole runtime."""
        return float((values / self.present).max()) if values.size else math.nan

    def largest_on_ideal(self, values: NDArray[np.float64]) -> float:
        """Return the largest time of a thread on the ideal network, where threads that start late exist for as long."""
        if math.isfinite(self.ideal_useful) or not values.size:
            return self.ideal_useful
        scale = np.where(self.present < 1, ratio(self.ideal, self.runtime), 1.0)
        return float((values / self.present * scale).max())

    @property
    def n_threads(self) -> int:
        return self.useful.size

    @property
    def n_processes(self) -> int:
        """Number of processes."""
        return int(distinct(self.process).size)


def ratio(numerator: float, denominator: float) -> float:
    """Divide; nan if the denominator is not positive, or either is not finite."""
    if not (math.isfinite(numerator) and math.isfinite(denominator)) or denominator <= 0:
        return math.nan
    return numerator / denominator


_ONE_SECOND = RunTimes(
    1.0, np.zeros(1), np.zeros(1), np.zeros(1, np.int64), np.zeros(1), np.zeros(1), 1.0, "", "", 1.0, 1.0
)
"""Times of a run that has all metrics."""

IDEAL_RUNTIME, REPLAY_NOTES = "ideal_runtime", "replay_notes"
"""Keys of the runtime on an ideal network by replay, in ticks, and of what the replay does not know, in the facts of a
cube."""


class Metric(NamedTuple):
    """One value of the table."""

    model: str
    metric: str
    parent: str
    title: str
    unit: str
    value: float
    by: str = ""


def metrics(times: RunTimes) -> Iterator[Metric]:
    """Yield the metrics of the models that apply to the program, parents before children; undefined values are nan.

    If the runtime on an ideal network is not known, communication is not divided into serialisation and transfer.
    """
    yield from _run(times)
    if times.has_mpi and not times.has_devices:
        yield from _pure(times, MPI, "communication")
        yield from _communication(times, MPI, "", "communication_efficiency", times.useful)
    if times.has_openmp or times.has_devices:
        yield from _multiplicative(times)
    elif not times.has_mpi:
        # threads of a program with neither MPI nor OpenMP wait for each other
        yield from _pure(times, THREADS, "synchronisation")
    if times.has_openmp and not times.has_devices:
        yield from _additive(times)
    yield from _computation(times)


def every_metric() -> dict[str, Metric]:
    """Return all metrics there are, by id."""
    variants = (
        _ONE_SECOND,
        replace(_ONE_SECOND, has_devices=True),
        replace(_ONE_SECOND, has_mpi=False, has_openmp=False),
    )
    return {m.metric: m for times in variants for m in metrics(times)}


WORDS = {"mpi": "MPI", "openmp": "OpenMP", "amdahl": "Amdahl's"}
"""Words of titles that differ from those in the ids of metrics."""


def _factor(model: str, name: str, parent: str, value: float, by: str = "") -> Metric:
    """Return a factor; its title is its id in words."""
    first, *others = name.split("_")
    title = " ".join([WORDS.get(first, first.capitalize()), *others])
    return Metric(model, name, parent, title, "share", value, by)


def _run(t: RunTimes) -> Iterator[Metric]:
    yield Metric(RUN, "runtime", "", "Runtime", "sec", t.runtime, t.window)
    yield Metric(RUN, "processes", "", "Processes", "occ", t.n_processes)
    yield Metric(RUN, "threads", "", "Threads", "occ", t.n_threads)
    yield Metric(RUN, "useful_mean", "", "Computation, mean of threads", "sec", t.mean(t.useful))
    yield Metric(RUN, "useful_max", "", "Computation, largest", "sec", t.largest(t.useful))
    if t.has_mpi:
        yield Metric(RUN, "outside_mpi_mean", "", "Outside MPI, mean of threads", "sec", t.mean(t.outside))
        yield Metric(RUN, "outside_mpi_max", "", "Outside MPI, largest", "sec", t.largest(t.outside))
        if math.isfinite(t.ideal):
            yield Metric(RUN, "ideal_runtime", "", "Runtime on an ideal network", "sec", t.ideal, t.ideal_by)


def _communication(t: RunTimes, model: str, prefix: str, parent: str, outside: NDArray[np.float64]) -> Iterator[Metric]:
    """Yield serialisation and transfer if the runtime on an ideal network is known; `outside` is the time of threads
    outside communication."""
    if math.isfinite(t.ideal):
        most, on_ideal = t.largest(outside), t.largest_on_ideal(outside)
        serialisation, transfer = ratio(on_ideal, t.ideal), ratio(t.ideal, t.runtime)
        if on_ideal != most:
            transfer = ratio(ratio(most, t.runtime), serialisation)
        yield _factor(model, f"{prefix}serialisation_efficiency", parent, serialisation, t.ideal_by)
        yield _factor(model, f"{prefix}transfer_efficiency", parent, transfer, t.ideal_by)


def _pure(t: RunTimes, model: str, what: str) -> Iterator[Metric]:
    """Yield the parallel efficiency and its factors: load balance and the efficiency of `what` (communication, ...)."""
    useful, most = t.mean(t.useful), t.largest(t.useful)
    parent = "parallel_efficiency"
    yield _factor(model, parent, "", ratio(useful, t.runtime))
    yield _factor(model, "load_balance", parent, ratio(useful, most))
    yield _factor(model, f"{what}_efficiency", parent, ratio(most, t.runtime))


def _multiplicative(t: RunTimes) -> Iterator[Metric]:
    """Yield the factors of MPI, of devices and of OpenMP, whose product is the parallel efficiency."""
    useful, outside, host = t.useful, t.outside, t.outside - t.device
    model, whole = MULTIPLICATIVE, "parallel_efficiency"
    yield _factor(model, whole, "", ratio(t.mean(useful), t.runtime))
    if t.has_mpi:
        name = "mpi_parallel_efficiency"
        yield _factor(model, name, whole, ratio(t.mean(outside), t.runtime))
        yield _factor(model, "mpi_load_balance", name, ratio(t.mean(outside), t.largest(outside)))
        part = "mpi_communication_efficiency"
        yield _factor(model, part, name, ratio(t.largest(outside), t.runtime))
        yield from _communication(t, model, "mpi_", part, outside)
    if t.has_devices:
        rest = host if t.has_openmp else useful
        value = ratio(t.mean(rest), t.mean(outside) if t.has_mpi else t.runtime)
        yield _factor(model, "host_offload_efficiency", whole, value)
    if t.has_openmp:
        name = "openmp_parallel_efficiency"
        before = t.runtime if not (t.has_mpi or t.has_devices) else t.mean(host)
        yield _factor(model, name, whole, ratio(t.mean(useful), before))
        balance = ratio(ratio(t.mean(useful), t.largest(useful)), ratio(t.mean(host), t.largest(host)))
        yield _factor(model, "openmp_load_balance", name, balance)
        most = ratio(t.largest(useful), t.largest(host))
        yield _factor(model, "openmp_communication_efficiency", name, most)


def _additive(t: RunTimes) -> Iterator[Metric]:
    """Yield the factors of the additive POP model: every process counts once per thread, since it holds their CPUs."""
    n, runtime, useful = t.n_threads, t.runtime, t.mean(t.useful)
    openmp, serial, of_process = t.mean(t.openmp), t.mean(t.serial), t.openmp + t.serial
    most = t.largest(of_process)
    process = ratio(openmp + serial, runtime)
    thread = 1 - ratio(openmp + serial - useful, runtime)
    # the serial computation of masters, divided evenly among the threads of their process
    of = np.unique(t.process, return_inverse=True)[1]
    shared = t.serial / np.bincount(of)[of] if n else t.serial
    amdahl = 1 - ratio(serial - t.mean(shared), runtime)
    in_regions = 1 - ratio(openmp - (useful - t.mean(shared)), runtime)
    whole = "parallel_efficiency"
    yield _factor(ADDITIVE, whole, "", process + thread - 1)
    if t.has_mpi:
        name = "process_efficiency"
        yield _factor(ADDITIVE, name, whole, process)
        balance = 1 - ratio(most - openmp - serial, runtime)
        yield _factor(ADDITIVE, "process_load_balance", name, balance)
        part = "process_communication_efficiency"
        yield _factor(ADDITIVE, part, name, ratio(most, runtime))
        if math.isfinite(t.ideal):
            on_ideal = t.largest_on_ideal(of_process) if (t.present < 1).any() else most
            lost, by = 1 - ratio(t.ideal - on_ideal, runtime), t.ideal_by
            yield _factor(ADDITIVE, "process_serialisation_efficiency", part, lost, by)
            transfer = ratio(t.ideal + most - on_ideal, runtime)
            yield _factor(ADDITIVE, "process_transfer_efficiency", part, transfer, by)
    yield _factor(ADDITIVE, "thread_efficiency", whole, thread)
    yield _factor(ADDITIVE, "amdahl_efficiency", "thread_efficiency", amdahl)
    yield _factor(ADDITIVE, "openmp_region_efficiency", "thread_efficiency", in_regions)


def _computation(t: RunTimes) -> Iterator[Metric]:
    """Yield the total computation and what counters measured in it."""
    total = float(t.useful.sum()) if t.n_threads else math.nan
    yield Metric(COMPUTATION, "useful_total", "", "Computation, all threads", "sec", total)
    if math.isfinite(t.instructions):
        yield Metric(COMPUTATION, "instructions", "", "Instructions in computation", "occ", t.instructions)
    if math.isfinite(t.cycles):
        yield Metric(COMPUTATION, "cycles", "", "Cycles in computation", "occ", t.cycles)
        frequency = ratio(t.cycles, float(t.useful.sum()))
        yield Metric(COMPUTATION, "frequency", "", "Frequency in computation", "Hz", frequency)
        if math.isfinite(t.instructions):
            yield Metric(COMPUTATION, "ipc", "", "Instructions per cycle", "ratio", ratio(t.instructions, t.cycles))


MULTIPLIED = "quotient of two factors, not a share of the time"
"""Meaning of a factor above 1 that has no entry in `ABOVE_ONE`."""

ABOVE_ONE = {"openmp_load_balance": "threads share computation more evenly than processes share the time outside MPI"}
"""Meaning of a factor above 1, by metric; quotients of factors may exceed 1 (docs/efficiencies.md, "Above 100 %")."""


def is_above_one(value: float, unit: str) -> bool:
    """Return whether a value is a factor, by its unit, and exceeds 1 by more than rounding, which needs explanation."""
    return unit == "share" and value > 1 + 1e-9


def why_above_one(metric: str) -> str:
    """Return what it means that a factor is above 1."""
    return ABOVE_ONE.get(metric, MULTIPLIED)


OF_SEVERAL = (
    "serialisation_efficiency", "transfer_efficiency", "ideal_runtime", "outside_mpi_mean", "outside_mpi_max",
)  # fmt: skip
"""Metrics that are meaningful only if several processes communicate, besides the factors of the MPI and process
efficiencies."""


def is_of_several(metric: str) -> bool:
    """Return whether a metric is meaningful only for runs of several processes."""
    is_sum = metric in ("mpi_parallel_efficiency", "process_efficiency")
    return metric in OF_SEVERAL or (metric.startswith(("mpi_", "process_")) and not is_sum)


def tabulate(times: RunTimes) -> pd.DataFrame:
    """Return the efficiencies of a run as a table (see `SeverityCube.efficiencies`)."""
    import pandas as pd

    rows = list(metrics(times))
    frame = pd.DataFrame({c: [getattr(row, c) for row in rows] for c in COLUMNS}).astype({"value": np.float64})
    frame.attrs["notes"] = [note(n, what) for what, n in times.unknown.items()]
    return frame


def efficiencies(
    cube: Severities, within: str | None = None, *, ideal: str | None = None, with_startup: bool = False
) -> pd.DataFrame:
    """Return the efficiencies of the run by several models of the same times (docs/efficiencies.md).

    The times are those of the focus: between MPI_Init and MPI_Finalize. Serialisation and transfer depend on the
    runtime on an ideal network, which an analysis finds by replay of the trace if that costs no more than the
    analysis; in other cubes communication is not divided.

    Parameters
    ----------
    within : str, optional
        A call path, a region, or a pattern: limits the times to it and what it calls.
    ideal : str, optional
        How the runtime on an ideal network is found: `replay`, which the analysis must have done, or `approximation` as
        in Cube's advisor, the largest time of a location without that part of MPI that is neither waiting nor I/O. By
        default the replay if the cube has it.
    with_startup : bool, optional
        Evaluate the whole run, with start-up and shutdown.

    Returns
    -------
    DataFrame
        One row per value: `model` (run, mpi, threads, hybrid multiplicative, hybrid additive, computation), `metric`
        and its `parent`, `title`, `unit` (share, sec, occ, Hz, ratio), `value` (float64; nan if it is not defined, as
        in a division by 0), and `by`: how the value was found, if there are several ways. `attrs["notes"]` lists what
        a replay on which values are based does not know.

    Raises
    ------
    SeverityError
        If the cube has no times or computation, or those of some locations only, `within` matches nothing, or `ideal`
        is not available in this cube.

    Examples
    --------
    >>> table = cube.efficiencies(within="solve")  # doctest: +SKIP
    >>> table[table.model == "mpi"].set_index("metric").value  # doctest: +SKIP
    """
    if ideal not in (None, *IDEALS):
        raise SeverityError(f"the ideal network cannot be found by {show(ideal)}\n  there are {', '.join(IDEALS)}")
    if ideal == DIMEMAS:
        raise SeverityError(
            "the ideal network of Dimemas needs the events of the run, and a cube has none\n"
            "  ask the trace: trace.efficiencies(ideal='dimemas')",
            in_shell="give the store or the archive of the trace: tracecols efficiency NAME.trace --ideal dimemas",
        )
    if ideal == REPLAY and with_startup:
        raise SeverityError(
            "the replay has the runtime without start-up and shutdown only\n"
            "  leave with_startup out, or give approximation as the ideal network",
            in_shell="leave --with-startup out, or give --ideal approximation",
        )
    if ideal == REPLAY and (within is not None or not has_replay(cube)):
        has_not = "has no replay of a part of it" if within is not None else "was made without a replay"
        raise SeverityError(
            f"this cube {has_not}\n"
            "  give the trace, or approximation as the ideal network; analyze(ideal_network=True) makes cubes "
            "with the replay",
            in_shell="give the store of the trace, or --ideal approximation; tracecols analyze --ideal-network makes "
            "cubes with the replay",
        )
    _check_narrowing(cube)
    return tabulate(times_of(cube, within, ideal=ideal, with_startup=with_startup))


def _check_narrowing(cube: Severities) -> None:
    """Raise SeverityError if a cube lacks times that would count as lost, or properties whose time would count as
    computation."""
    narrowed = cube.facts.get("narrowed") or {}
    if "locations" in narrowed:
        raise SeverityError(
            "efficiencies compare all locations of a run, and this cube has the times of some only: "
            f"{in_words(cube.facts).removeprefix('narrowed: ')}\n"
            "  give a cube of all locations",
            in_shell="give the trace, or a cube that was made without --locations",
        )
    if "properties" in narrowed and ids.COMPUTATION not in cube.cells:
        raise SeverityError(
            "efficiencies need times and computation, and this cube was narrowed to other properties: "
            f"{', '.join(asked_for(cube.facts))}\n"
            "  give a cube of all properties, or name comp, too"
        )


def has_replay(cube: Severities) -> bool:
    """Return whether a cube has the runtime on an ideal network by replay."""
    return isinstance(cube.facts.get(IDEAL_RUNTIME), int) and not cube.facts.get("operation")


def times_of(
    cube: Severities, within: str | None = None, *, ideal: str | None = None, with_startup: bool = False
) -> RunTimes:
    """Return the times of a run in a cube; of `within` (a call path, a region, or a pattern) and its calls if given.

    `ideal` is how the runtime on an ideal network is found, one of `IDEALS`, by default by replay if the cube has it;
    the replay covers neither a part of the run nor start-up and shutdown (`with_startup`). Raises SeverityError if the
    cube has no times or computation, or `within` matches nothing.
    """
    _check(cube)
    # devices may be used outside of the focus only
    is_mpi, parallel, has_devices = mpi_call_paths(cube), parallel_call_paths(cube), bool(_device_calls(cube))
    if not with_startup and within is None:
        cube = focused(cube)
    s, n_paths, is_thread = cube.system, len(cube.call_paths), cube.system.is_thread
    chosen = np.ones(n_paths, bool) if within is None else below(cube, cube.find_call_paths(within))

    def seconds(name: str, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        return cube.by_location(name, chosen & mask)[is_thread]

    total = seconds(ids.TIME, chosen)
    rank = s.rank[is_thread].astype(np.int64)
    # numbers among the threads
    master = (np.cumsum(is_thread) - 1)[s.master[is_thread]]
    outside = (total - seconds(ids.TIME, is_mpi))[master]
    # counters are evaluated where there is computation
    computed = np.zeros(n_paths, bool)
    computed[_computation_of(cube).call_path] = True
    device = (seconds(name, ~parallel)[master] + seconds(name, parallel) for name in _device_calls(cube))
    runtime = _runtime(cube, total, master) if within is None else _longest(total, master)
    present = _present(cube, rank, with_startup=with_startup) if within is None else np.ones(rank.size)
    replayed = has_replay(cube) and ideal != APPROXIMATION and within is None and not with_startup
    shortest, ideal_by = math.nan, ""
    if replayed:
        shortest, ideal_by = cube.facts[IDEAL_RUNTIME] / cube.resolution, REPLAY
    elif ideal == APPROXIMATION:
        kept = outside + _fixed_in_mpi(cube, chosen)[is_thread][master]
        # until the last process enters MPI_Finalize the others wait there, whatever the network
        kept += np.maximum(runtime - total[master], 0) if within is None else 0
        shortest, ideal_by = float(kept.max(initial=0.0)), APPROXIMATION
    return RunTimes(
        runtime=runtime,
        useful=_useful(cube, chosen)[is_thread],
        outside=outside,
        process=rank,
        openmp=seconds(ids.TIME, parallel & ~is_mpi)[master],
        serial=_useful(cube, chosen & ~parallel)[is_thread][master],
        ideal=shortest,
        ideal_by=ideal_by,
        window=_window(cube, within),
        instructions=_counted(cube, INSTRUCTIONS, chosen & computed),
        cycles=_counted(cube, CYCLES, chosen & computed),
        has_mpi=bool(is_mpi.any()),
        has_openmp=bool((cube.call_paths.paradigm == "openmp").any() or parallel.any()),
        has_devices=has_devices,
        device=sum(device, np.zeros(rank.size)),
        present=present,
        unknown=cube.facts.get(REPLAY_NOTES, {}) if replayed else {},
    )


def _present(cube: Severities, rank: NDArray[np.int64], *, with_startup: bool) -> NDArray[np.float64]:
    """Return the share of the runtime during which the process of each thread exists; (n_threads,) float64."""
    trace = cube.facts.get("trace") or {}
    whole: dict[str, Any] = {"begin": trace.get("first_time"), "end": trace.get("last_time")}
    window = whole if with_startup else cube.facts.get("focus_window") or whole
    result = np.ones(rank.size)
    for late in cube.facts.get("late_processes") or ():
        begin = late["begin"] if with_startup else late["focus"]
        if window["begin"] < begin < window["end"]:
            result[rank == late["rank"]] = (window["end"] - begin) / (window["end"] - window["begin"])
    return result


def _device_calls(cube: Severities) -> list[str]:
    """Return the properties of device calls that have cells; their time counts neither as MPI nor as OpenMP."""
    return [name for name in cube.properties.with_part("device") if name in cube.cells and len(cube.cells[name])]


def _window(cube: Severities, within: str | None) -> str:
    """Describe the interval that the runtime covers."""
    narrowed = cube.facts.get("narrowed") or {}
    within = within or narrowed.get("within")
    if within is not None:
        return f"within {within}"
    if {"start", "stop"} & set(narrowed):
        return " ".join(
            f"{word} {narrowed[at]:g} s" for word, at in (("from", "start"), ("to", "stop")) if at in narrowed
        )
    return words_of(cube.facts) or "whole run"


def _runtime(cube: Severities, total: NDArray[np.float64], master: NDArray[np.int64]) -> float:
    """Return the time from the first process that leaves MPI_Init to the last that enters MPI_Finalize, less the least
    time that a process takes to create device contexts; without these, that of the recording; of a part, `_longest`.
    """
    focus, trace = cube.facts.get("focus"), cube.facts.get("trace")
    window = cube.facts.get("focus_window") if focus else None
    if not window and trace and not {"within", "start", "stop"} & set(cube.facts.get("narrowed") or ()):
        # no process may last as long as the run; threads that the program creates may outlive the initial one
        window = {"begin": trace["first_time"], "end": trace["last_time"]}
    if not window:
        return _longest(total, master)
    creating = round((focus or {}).get("creating", 0.0) * cube.resolution)
    return float((window["end"] - window["begin"] - creating) / cube.resolution)


def _fixed_in_mpi(cube: Severities, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the time in MPI per location that an ideal network does not shorten by itself: waits and file I/O;
    (n_locations,) float64.

    Waits at the same time count once as far as possible: on each call path at a location, their sum is limited to the
    time in MPI.
    """
    result = np.zeros(cube.system.n_locations)
    if ids.MPI not in cube.cells:
        return result
    spent, fixed = cube.cells[ids.MPI], Cells.empty()
    for name in cube.properties.waits(ids.MPI, *cube.properties.with_part("io")):
        fixed = fixed + cube.cells[name]
    fixed = fixed.on(mask)
    value = np.minimum(fixed.value, spent.at(fixed.key))
    np.add.at(result, fixed.location, value)
    return result * cube.scale(ids.MPI)


def _longest(total: NDArray[np.float64], master: NDArray[np.int64]) -> float:
    """Return the largest time of a master, or of any thread if no master has any, as in a region that only other
    threads execute."""
    return float(total[master].max(initial=0.0)) or float(total.max(initial=0.0))


def _check(cube: Severities) -> None:
    if ids.TIME not in cube.cells or not (ids.COMPUTATION in cube.cells or ids.EXECUTION in cube.cells):
        raise SeverityError(
            "efficiencies need times and computation, and this cube has no property time, or none of execution and "
            "comp\n"
            "  give a cube of all properties: one that was narrowed to some (analyze -p) lacks them"
        )
    if cube.facts.get("operation"):
        raise SeverityError(
            f"efficiencies are of one run, and this cube is the {cube.facts['operation']} of several\n"
            "  give the cubes it was made of"
        )


def _useful(cube: Severities, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the time in computation per location, outside the run-time systems; (n_locations,) float64."""
    if ids.COMPUTATION in cube.cells:
        return cube.by_location(ids.COMPUTATION, mask)
    own = _computation_of(cube).on(mask)
    result = np.bincount(own.location, own.value.astype(np.float64), cube.system.n_locations)
    return np.asarray(result * cube.scale(ids.EXECUTION), np.float64)


def _computation_of(cube: Severities) -> Cells:
    """Return the time in computation; without a property of its own it is the exclusive time of execution."""
    return cube.cells[ids.COMPUTATION] if ids.COMPUTATION in cube.cells else cube.cells_of(ids.EXECUTION, "eee")


def _counted(cube: Severities, names: Sequence[str], mask: NDArray[np.bool_]) -> float:
    """Return the total of a counter on some call paths; nan if the cube has none of these names."""
    name = next((n for n in names if n in cube.cells and len(cube.cells[n])), None)
    return math.nan if name is None else float(cube.by_location(name, mask).sum())


def parallel_call_paths(cube: Severities) -> NDArray[np.bool_]:
    """Select OpenMP parallel regions and what is below them; (n_call_paths,) bool. In files without roles they are
    recognised by name."""
    c = cube.call_paths
    unknown = np.isin(c.role, ["", "unknown"]) & np.isin(c.paradigm, ["", "unknown"])
    named = c.named(lambda name: re.match(r"!?\$omp parallel\b", name) is not None)
    return below(cube, ((c.role == "parallel") & (c.paradigm == "openmp")) | (unknown & named))


# -- several runs ------------------------------------------------------------------------------------------------------

SCALING = (
    ("speedup", "Speedup"),
    ("global_efficiency", "Global efficiency"),
    ("parallel_efficiency", "Parallel efficiency"),
    ("computation_scalability", "Computation scalability"),
    ("instruction_scalability", "Instruction scalability"),
    ("ipc_scalability", "IPC scalability"),
    ("frequency_scalability", "Frequency scalability"),
)
"""Metrics over runs and their titles."""


def scaling(tables: Sequence[pd.DataFrame], names: Sequence[str], weak: bool = False) -> pd.DataFrame:
    """Return how efficiencies (`efficiencies` of each run) change over runs; the first run is the reference.

    If `weak`, the problem grows with the number of threads. A row for each run: run, processes, threads, runtime (s),
    speedup, global_efficiency (parallel efficiency times computation scalability), parallel_efficiency,
    computation_scalability, and its factors instruction_, ipc_ and frequency_scalability, which need counters.
    Undefined values are nan.
    """
    import pandas as pd

    found = [dict(zip(table["metric"], table["value"], strict=True)) for table in tables]
    rows = []
    base = found[0] if found else {}

    def per_work(run: dict[str, float], metric: str) -> float:
        """Return an amount of a run, per thread if the problem grows with the number of threads."""
        value = run.get(metric, math.nan)
        return ratio(value, run["threads"]) if weak else value

    for name, run in zip(names, found, strict=True):
        computation = ratio(per_work(base, "useful_total"), per_work(run, "useful_total"))
        parallel = run["parallel_efficiency"]
        rows.append(
            {
                "run": name,
                "processes": int(run["processes"]),
                "threads": int(run["threads"]),
                "runtime": run["runtime"],
                "speedup": ratio(base["runtime"], run["runtime"]),
                "global_efficiency": parallel * computation,
                "parallel_efficiency": parallel,
                "computation_scalability": computation,
                "instruction_scalability": ratio(per_work(base, "instructions"), per_work(run, "instructions")),
                "ipc_scalability": ratio(run.get("ipc", math.nan), base.get("ipc", math.nan)),
                "frequency_scalability": ratio(run.get("frequency", math.nan), base.get("frequency", math.nan)),
            }
        )
    return pd.DataFrame(rows)


# -- requirements ------------------------------------------------------------------------------------------------------


class Requirement(NamedTuple):
    """A requirement on a run: a metric, `>=` or `<=`, and a bound."""

    metric: str
    at_least: bool
    bound: float

    @classmethod
    def of(cls, text: str) -> Requirement:
        """Parse `parallel efficiency>=0.8`, `load balance >= 80%`, `runtime<=12`. Raises SeverityError if the text is
        not of that form, or there is no such metric."""
        parts = re.fullmatch(r"\s*([^<>=]+?)\s*(>=|<=)\s*([0-9.eE+-]+)\s*(%?)\s*", text)
        try:
            bound = float(parts[3]) / (100 if parts[4] else 1) if parts else math.nan
        except ValueError:
            bound = math.nan
        if parts is None or not math.isfinite(bound):
            raise SeverityError(f"{show(text)} is not a requirement\n  give one such as 'parallel efficiency>=0.8'")
        return cls(find_metric(parts[1]), parts[2] == ">=", bound)

    def is_met(self, value: float) -> bool:
        """Return whether a value meets the requirement; nan does not."""
        return bool(value >= self.bound if self.at_least else value <= self.bound)

    def __str__(self) -> str:
        return f"{self.metric.replace('_', ' ')} {'>=' if self.at_least else '<='} {self.bound:g}"


def find_metric(name: str) -> str:
    """Return the id of a metric given by id or title, with spaces, hyphens or underscores. Raises SeverityError if
    there is none."""
    known = {name: m.title for name, m in every_metric().items()}
    titles = {_plain(title): metric for metric, title in known.items()}
    wanted = _plain(name)
    found = wanted if wanted in known else titles.get(wanted)
    if found is None:
        hint = did_you_mean(wanted, known, f"there are {', '.join(known)}")
        raise SeverityError(f"no metric of efficiency is called {show(name)}\n  {hint}")
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower().replace("serialization", "serialisation")).strip("_")


def failures(table: pd.DataFrame, requirements: Sequence[Requirement]) -> list[dict[str, Any]]:
    """Return the requirements that a run does not meet, with its value; nan if it has none."""
    values = dict(zip(table["metric"], table["value"], strict=True))
    found = []
    for r in requirements:
        value = float(values.get(r.metric, math.nan))
        if not r.is_met(value):
            found.append({"requirement": str(r), "metric": r.metric, "value": value})
    return found
