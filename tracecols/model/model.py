"""The enhanced model of a trace, and the runs of its steps over the partitions of the trace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from threading import RLock
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.quirks import NONE, Quirks
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.partitions import EVENTS, EVERYTHING, Bucket, divide, undivided
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import (
    BESIDE,
    BUCKET,
    EVERY,
    GIVEN,
    GLOBAL,
    ONCE,
    RECEIVE,
    SEND,
    STAGES,
    WITHIN,
    Input,
)
from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.definitions.topologies import Topology
from tracecols.enhance.mpi.collectives import plan_buckets
from tracecols.enhance.scan.call_paths import CallPaths, PeriodCallPaths, merge_call_paths
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.gaps import EVENT_BYTES, window_events
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.enhance.scan.periods import NO_PERIODS, Divider, Periods
from tracecols.enhance.scan.scan import plan_processes, scan_locations
from tracecols.enhance.scan.windows import divide_into_windows, seen_in
from tracecols.given.quantities import counted
from tracecols.model.tables import STEP_OF, STEPS, read_by
from tracecols.schema.causes import IN_SECONDS
from tracecols.store import Store
from tracecols.vectors import Ints
from tracecols.work.executors import Executor, Report, Threads, not_reported
from tracecols.work.memory import Turns

Result = TypeVar("Result")

Progress = Callable[[int, int], None]
"""Called with the amount done and the total."""

LATER_BYTES, MOST_LATER = 300, 150_000_000
"""Bytes of memory that a task of the stages of root causes takes for each call instance and attributed event of its
partition, and at most in all, since it processes them block by block."""

MESSAGE_BYTES = 400
"""Bytes of memory that a task takes for each send and receive of its partition while messages are matched."""


class Model:
    """The values of one slice of a trace, by name; each is made by its step on first access.

    Patterns and constraints get it as their first argument. Besides the values that steps make (`model.tables.STEPS`:
    compound tables, call instances, ...) it has the attributes of `Facts`.

    Parameters
    ----------
    given : dict
        The values `steps.GIVEN`.
    stage : str, optional
        The stage whose values it makes itself; by default all, for a trace in one partition.
    run : Run, optional
        The run that provides values of other stages and partitions, unless the trace is in one partition.
    executor : Executor, optional
        Executor of the work of analyses; by default `jobs` threads.

    Attributes
    ----------
    stage : str
    facts : Facts
    scans : sequence of LocationScan
        By location.
    members : (n,) int64
        Locations of the slice.
    """

    def __init__(
        self,
        jobs: int,
        given: dict[str, Any],
        stage: str = "",
        run: Run | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.jobs, self.stage, self._run = jobs, stage, run
        self.executor: Executor = Threads(jobs) if executor is None else executor
        self.facts: Facts = given["facts"]
        self.scans: Sequence[LocationScan] = given["scans"]
        self.members: Ints = given["members"]
        self._values = dict(given)
        # the last model with other topologies, and with other peculiarities, each with these; in such a model, the one
        # that it was made from and the names that it does not share with that
        self._others: dict[str, tuple[Any, Model]] = {}
        self._shared: Model | None = None
        self._own: set[str] = set()
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"<Model of {self.facts.store.path.name}: {counted(self.members.size, 'location')}>"

    def get(self, name: str) -> Any:
        """Return a value by name; the step that makes it runs on first access. Raises KeyError if no step makes it."""
        with self._lock:
            if name not in self._values:
                step = STEP_OF[name]
                if self._shared is not None and name not in self._own:
                    return self._shared.get(name)
                if self._run is not None and name in step.keeps and step.stage != self.stage:
                    return self._run.value(name, -1 if step.stage in ONCE else self._values["partition"])
                (self.executor if self._run is None else self._run.executor).go_on()
                made = step.function(*(self._read(what) for what in step.reads))
                self._values.update(zip(step.makes, made if len(step.makes) > 1 else (made,), strict=True))
            return self._values[name]

    def _read(self, what: Input) -> Any:
        if not what.scope:
            return self.get(what.name)
        if self._run is None:
            return [self.get(what.name)]
        if what.scope == EVERY:
            return self._run.every(what.name)
        windows = self._values["division"].windows_of(self._values["partition"])
        # in stage `within` a slice makes its own value
        is_own = self.stage == WITHIN and len(windows) == 1
        return [self.get(what.name) if is_own else self._run.value(what.name, k) for k in windows]

    def every(self, name: str) -> list[Any]:
        """Return a value from all partitions or buckets; a list of one if it is made once, or the trace is in one
        partition."""
        if STEP_OF[name].stage in ONCE:
            return [self.get(name)]
        return self._read(Input(name, EVERY))

    def __getattr__(self, name: str) -> Any:
        if name in STEP_OF:
            return self.get(name)
        if name.startswith("_") or name in GIVEN:
            raise AttributeError(f"a model has no attribute {name!r}")
        return getattr(self.facts, name)

    @property
    def n_calls(self) -> int:
        """Number of call instances of the whole trace."""
        return sum(scan.n_calls for scan in self.scans)

    @property
    def has_device_work(self) -> bool:
        """Whether devices execute a part of the program."""
        return any(self.store.n_rows("events", i) for i in np.flatnonzero(self.locations.is_device).tolist())

    def declared_table(self, name: str) -> CompoundTable:
        """Return a compound table in declared units: times in seconds, even if root causes are computed in whole
        ticks."""
        table: CompoundTable = self.get(name)
        quirks: Quirks = self.get("quirks")
        if name not in IN_SECONDS or quirks.rounds_seconds:
            return table
        resolution = self.facts.resolution

        def seconds(column: str) -> NDArray[Any]:
            return table[column] / resolution

        columns = {c: partial(seconds if c in IN_SECONDS[name] else table.column, c) for c in table.names}
        return CompoundTable(table.table, len(table), columns, table.counts)

    def _like(self, **changed: Any) -> Model:
        """Return a model of the same trace of which some given values differ."""
        return Model(self.jobs, {name: self._values[name] for name in GIVEN} | changed, executor=self.executor)

    def with_topologies(self, more: Sequence[Topology]) -> Model:
        """Return a model of the same trace with further topologies in front of its own; it shares all values, since no
        step reads topologies."""
        facts = replace(self.facts, topologies=(*more, *self.facts.topologies))
        return self._sharing("facts", facts, tuple(more), set())

    def with_quirks(self, quirks: Quirks) -> Model:
        """Return a model of the same trace with other peculiarities of root causes; it shares the values that do not
        depend on them."""
        if quirks == self._values["quirks"]:
            return self
        return self._sharing("quirks", quirks, quirks, made_from("quirks"))

    def _sharing(self, given: str, value: Any, key: Any, own: set[str]) -> Model:
        """Return a model of which a given value differs, and the values `own` that depend on it; that for the last
        `key` is kept."""
        with self._lock:
            if given not in self._others or self._others[given][0] != key:
                other = self._like(**{given: value})
                other._shared, other._own = self, own
                self._others[given] = key, other
            return self._others[given][1]

    def undivided(self) -> Model:
        """Return a model with the definitions and the call paths of the whole run, without periods; it has no
        tables."""
        return self._like(facts=replace(self.facts, call_paths=self.facts.call_paths.whole))

    def divided(self, in_windows: bool = False) -> Run:
        """Divide the trace for an analysis in bounded memory; use in a `with` statement.

        If `in_windows`, the steps within processes work on windows of long processes; values of their tables that
        concern whole processes are then incomplete, and those of the stage of clocks are not made.
        """
        return Run(self, in_windows)


class Run:
    """The partitions of a trace during one analysis, and the values they keep for each other; its scratch files are
    removed with it.

    On a cluster every worker has a run: the data that all tasks need is pickled once.

    Attributes
    ----------
    division : Division
    whole : Model or None
        The model of the trace itself if it is not divided.
    largest_first : list of int
        Numbers of the partitions in the order in which they are worked on.
    spill : Spill
        The values that slices keep for each other.
    turns : Turns
        Makes slices that need much memory run one after the other.
    """

    def __init__(self, model: Model, in_windows: bool = False) -> None:
        self.facts, self.scans, self.jobs, self.quirks = model.facts, model.scans, model.jobs, model.get("quirks")
        self.executor = model.executor
        sizes = np.array([s.n_calls + s.n_attributed + s.n // EVENTS for s in model.scans], np.int64)
        # the partitions are the same for any number of threads of one process
        slots = 1 if self.executor.folder is None else self.executor.slots
        self.division = divide(model.facts.process, sizes, slots, self.executor.memory)
        if in_windows:
            self.division = divide_into_windows(self.division, self.facts, self.scans)
        self.whole = model if len(self.division.windows) == 1 and self.executor.folder is None else None
        self.spill = Spill.between(self.executor, "run", model.get("spill"))
        self.turns = Turns(self.executor.budget.of_task(1))
        # so that no large one begins last, while other threads have nothing left to do
        of_partition = [int(sizes[p.members].sum()) for p in self.division.partitions]
        self.largest_first = sorted(range(len(of_partition)), key=of_partition.__getitem__, reverse=True)
        self.windows_first = [k for p in self.largest_first for k in self.division.windows_of(p)]

    def __reduce__(self) -> tuple[Callable[[Spill], Run], tuple[Spill]]:
        self.spill.get("run", -1, lambda: (self.facts, self.scans, self.division, self.quirks), always=True)
        return _run_on_worker, (self.spill,)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.spill.__exit__()

    def of_task(self, task: str) -> Run:
        """Return the run for one task: on a worker, each task keeps columns in a separate file."""
        spill = self.spill.of_task(task)
        if spill is self.spill:
            return self
        found = copy(self)
        found.spill = spill
        return found

    def slice(self, stage: str, number: int) -> Model:
        """Return the model that a stage works on, by its number: a partition, a window, a bucket, or -1: in stage
        `global`, all calls that join processes. If the trace is not divided, it is the model of the trace itself."""
        if self.whole is not None:
            return self.whole
        facts, scans, partition, members = self.facts, self.scans, -1, np.arange(0)
        if stage == WITHIN:
            window = self.division.windows[number]
            partition, members = window.partition, window.members
            facts, scans = seen_in(window, facts, scans)
        elif stage == GLOBAL:
            members = np.arange(facts.n_locations)
        elif stage not in (*ONCE, BUCKET):
            partition, members = number, self.division.partitions[number].members
        given = {
            "facts": facts,
            "scans": scans,
            "only_global": stage == GLOBAL,
            "partition": partition,
            "members": members,
            "division": self.division,
            "bucket": self.buckets[number] if stage == BUCKET else EVERYTHING,
            "spill": self.spill,
            "quirks": self.quirks,
            "jobs": self.jobs if stage in ONCE else 1,
        }
        return Model(self.jobs, given, stage, self)

    def value(self, name: str, partition: int, model: Model | None = None) -> Any:
        """Return a value that a partition, or bucket, keeps for others; it is made once, by `model` if given."""
        stage = STEP_OF[name].stage

        def make() -> Any:
            return (self.slice(stage, partition) if model is None else model).get(name)

        return self.spill.get(name, partition, make, always=stage in ONCE)

    def every(self, name: str) -> list[Any]:
        """Return a value of all partitions, windows or buckets, in the order of their numbers."""
        stage = STEP_OF[name].stage
        n = len(
            self.buckets if stage == BUCKET else self.division.windows if stage == WITHIN else self.division.partitions
        )
        return [self.value(name, number) for number in range(n)]

    def bytes_of(self, model: Model) -> int:
        """Return the approximate bytes of memory that a slice by processes takes; 0 if they do not depend on its
        size."""
        stage = model.stage
        if self.whole is not None or stage in ONCE or stage == BUCKET:
            return 0
        if stage in (RECEIVE, SEND):
            return MESSAGE_BYTES * int(self.facts.store.counts("p2p")[model.members].sum())
        rows = sum(model.scans[i].n_calls + model.scans[i].n_attributed for i in model.members.tolist())
        return rows * EVENT_BYTES if stage == WITHIN else min(rows * LATER_BYTES, MOST_LATER)

    def _numbers(self, stage: str) -> Sequence[int]:
        """Return the numbers of the slices of a stage, in the order in which they are worked on."""
        if stage in ONCE:
            return [-1]
        if stage == BUCKET:
            return range(len(self.buckets))
        return self.windows_first if stage == WITHIN else self.largest_first

    @property
    def buckets(self) -> list[Bucket]:
        """Ranges of collective operations that are matched together."""
        if self.whole is not None:
            return [EVERYTHING]

        def plan() -> list[Bucket]:
            return plan_buckets(self.every("outgoing_members"), self.executor.memory)

        return self.spill.get("buckets", -1, plan, always=True)

    def stages(
        self,
        visit: Callable[[Model, str], Result],
        wanted: Iterable[str],
        progress: Progress | None = None,
        ahead: int | None = None,
    ) -> Iterator[Result]:
        """Run the stages of an analysis: in each, visit all slices of the trace concurrently. The order of results is
        the same for every number of threads.

        `visit(model, stage)` gets a slice of the trace, in which the values of the stage are complete; on a cluster it
        is pickled. `progress` is called with the amount done and the total, in thousandths of stages. `ahead` limits
        the number of results that wait in memory to be consumed, for large results; by default there is no limit.
        """
        chosen = set(wanted)
        several = self.whole is None
        keeps = {s: kept_for(chosen & set(STAGES[i + 1 :]), s) if several else [] for i, s in enumerate(STAGES)}
        needed = [s for s in STAGES if s in chosen or keeps[s]]
        together = side_by_side_of(needed)
        done: list[str] = []
        for i, stages in enumerate(together):
            numbers = [(stage, number) for stage in stages for number in self._numbers(stage)]
            task = SliceTask(self, "+".join(stages), {s: tuple(keeps[s]) for s in stages}, chosen & {*stages}, visit)
            # what nothing looks at is not waited for
            most = ahead if len(stages) == 1 else None
            for k, found in enumerate(self.executor.map(task, numbers, ahead=most), 1):
                if progress is not None:
                    progress(1000 * i + 1000 * k // len(numbers), 1000 * len(together))
                yield from found
            done += stages
            self.spill.forget(no_longer_read(done, needed[len(done) :]))


@dataclass(eq=False, repr=False)
class SliceTask(Generic[Result]):
    """The task that runs on every slice of stages executed concurrently, given stage and number; on a cluster it is
    pickled.
    """

    run: Run
    name: str
    """Names of the stages, for people who watch a cluster."""
    keeps: dict[str, tuple[str, ...]]
    """By stage, the values that later stages need."""
    visited: set[str]
    """Stages whose slices are visited."""
    visit: Callable[[Model, str], Result]
    """The function that visits them (`Run.stages`)."""

    def __call__(self, which: tuple[str, int], report: Report = not_reported) -> list[Result]:
        stage, number = which
        run = self.run.of_task(f"{stage}-{number}")
        model = run.slice(stage, number)
        with run.turns.take(run.bytes_of(model)):
            result = [self.visit(model, stage)] if stage in self.visited else []
            for name in self.keeps[stage]:
                run.value(name, number, model)
            return result


def _run_on_worker(spill: Spill) -> Run:
    """Return the run of an analysis on a worker."""
    run: Run = object.__new__(Run)
    run.facts, run.scans, run.division, run.quirks = spill.get("run", -1, _not_there, always=True)
    run.jobs, run.whole, run.spill, run.executor, run.turns = 1, None, spill, Threads(1), Turns()
    return run


def _not_there() -> None:
    """Stop a worker that lacks the data of its tasks, since the folder was removed."""
    raise FileNotFoundError("what an analysis keeps for its workers is no longer there")


def side_by_side_of(stages: Iterable[str]) -> list[list[str]]:
    """Group stages, given in order, into those that run at the same time."""
    found: list[list[str]] = []
    for stage in stages:
        if found and BESIDE.get(stage) == found[-1][-1]:
            found[-1].append(stage)
        else:
            found.append([stage])
    return found


def made_from(name: str) -> set[str]:
    """Find the values that steps make from a value, directly or from others that they make from it."""
    found = {name}
    for step in STEPS:
        if any(what.name in found for what in step.reads):
            found.update(step.makes)
    return found - {name}


def kept_for(later: Collection[str], stage: str) -> list[str]:
    """Find the values of a stage that the steps of some later stages read, directly or through values made in
    between."""
    kept = {name for step in STEPS if step.stage == stage for name in step.keeps}
    return sorted(kept & read_by((step for step in STEPS if step.stage in later), kept))


def no_longer_read(done: Collection[str], later: Collection[str]) -> set[str]:
    """Find the values that the stages `done` keep and that none of the steps of `later` stages reads."""
    kept = {name for step in STEPS if step.stage in done for name in step.keeps}
    return kept - read_by((step for step in STEPS if step.stage in later), kept)


SCANS_PER_SLOT, SMALLEST_SCAN, LARGEST_SCAN = 4, 1 << 20, 1 << 26
"""Tasks of a scan per slot of a cluster, so that no slot is idle for long at the end; minimum and maximum number of
events of a task."""


@dataclass(eq=False, repr=False)
class ScanTask:
    """The task that scans the locations of a group of processes, given the number of the group."""

    definitions: Definitions
    groups: tuple[Ints, ...]
    """tuple of (n,) int64 array: locations of every group."""
    divider: Divider
    jobs: int
    """Threads for each group."""
    spill: Spill
    """Where the scans of every group are kept, as a dict by location."""
    memory: int | None
    """Bytes for each task of the steps within processes."""
    window: int
    """Approximate number of events of a process that a task of these steps processes at once."""
    name = "scan"

    def __call__(self, number: int, report: Report) -> None:
        d, members, spill = self.definitions, self.groups[number], self.spill.of_task(f"scan-{number}")

        def scan() -> dict[int, LocationScan]:
            scans = scan_locations(d, members, self.divider, self.jobs, spill, report, self.memory, self.window)
            return dict(zip(members.tolist(), scans, strict=True))

        spill.get("scan", number, scan)


class KeptScans(Sequence[LocationScan]):
    """The scans of all locations, one by one (no slices): kept by the number of their group, and read on access."""

    def __init__(self, spill: Spill, group: Ints) -> None:
        self._spill, self._group = spill, group

    def __len__(self) -> int:
        return self._group.size

    def __getitem__(self, location: Any) -> Any:
        found: dict[int, LocationScan] = self._spill.get("scan", int(self._group[location]), _not_there)
        return found[location]


def _scan(
    d: Definitions, divider: Divider, executor: Executor, spill: Spill, progress: Progress | None
) -> Sequence[LocationScan]:
    """Scan all locations: on a cluster in groups of whole processes, a task for each."""
    n_events = d.store.n_events
    done, total = 0, int(n_events.sum())

    def report(n: int) -> None:
        nonlocal done
        done += n
        if progress is not None:
            progress(done, total)

    groups = [np.arange(d.n_locations)]
    if executor.folder is not None:
        size = max(SMALLEST_SCAN, min(LARGEST_SCAN, total // (SCANS_PER_SLOT * executor.slots)))
        groups = [np.sort(group) for group in plan_processes(groups[0], n_events, d.process, size)]
    jobs = executor.jobs if executor.folder is None else 1
    window = window_events(total, executor.slots, executor.memory)
    for _ in executor.map(
        ScanTask(d, tuple(groups), divider, jobs, spill, executor.memory, window), range(len(groups)), report
    ):
        pass
    group = np.zeros(d.n_locations, np.int64)
    for number, members in enumerate(groups):
        group[members] = number
    scans = KeptScans(spill, group)
    return scans if executor.folder is not None else [*scans]


def enhance(
    store: Store,
    jobs: int,
    progress: Progress | None = None,
    periods: Periods | None = None,
    executor: Executor | None = None,
    focus: Ints | None = None,
) -> Model:
    """Scan all locations of a trace and merge their call trees; the model has the trace in one partition.

    Call paths are also divided at the ends of the `focus` of each location (`enhance.scan.focus`), unless periods are
    phases. `progress` is called with the number of events scanned and of all. `executor` does this work and that of
    analyses; by default `jobs` threads. With periods the call paths are `PeriodCallPaths`. Raises AnalysisError if the
    trace cannot be divided into these periods.
    """
    d = Definitions.of(store)
    by = (periods or NO_PERIODS).divider(d, focus)
    executor = Threads(jobs) if executor is None else executor
    spill = Spill.between(executor, "scan")
    scans = _scan(d, by, executor, spill, progress)
    call_paths: CallPaths = merge_call_paths(scans, d)
    if by.kind:
        call_paths = PeriodCallPaths.of(call_paths, scans, d.regions, by)
    facts = Facts(**vars(d), call_paths=call_paths)
    given = {
        "facts": facts,
        "scans": scans,
        "members": np.arange(facts.n_locations),
        "only_global": False,
        "partition": 0,
        "division": undivided(facts.process),
        "bucket": EVERYTHING,
        "spill": spill,
        "quirks": NONE,
        "jobs": jobs,
    }
    return Model(jobs, given, executor=executor)
