"""The enhanced model of a trace, and the runs of its steps over the partitions of the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock, RLock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.call_paths import CallPaths, PeriodCallPaths, merge_call_paths
from tracecols.enhance.causes.quirks import OF_SCALASCA, Quirks
from tracecols.enhance.collectives import plan_buckets
from tracecols.enhance.facts import Definitions, Facts
from tracecols.enhance.partitions import EVERYTHING, Bucket, divide, undivided
from tracecols.enhance.periods import NO_PERIODS, Periods
from tracecols.enhance.scan import LocationScan, scan_locations
from tracecols.enhance.spill import ColumnSpill
from tracecols.enhance.steps import BUCKET, GIVEN, GLOBAL, ONCE, STAGES, Every
from tracecols.enhance.tables import STEP_OF, STEPS
from tracecols.enhance.topologies import Topology
from tracecols.once import once
from tracecols.store import Store

Result = TypeVar("Result")

Progress = Callable[[int, int], None]
"""Called with what is done and what is to be done."""


class Model:
    """What one slice of a trace holds: values by name, each made by its step when it is first asked for.

    Patterns and constraints get it as their first argument. Besides the values that steps make (`enhance.tables.STEPS`: compound
    tables, call instances, ...) it has the attributes of `Facts`.

    Parameters
    ----------
    jobs : int
        Threads for analyses.
    given : dict
        The values `steps.GIVEN`.
    stage : str, optional
        The stage whose values it makes itself; by default all, for a trace in one partition.
    run : Run, optional
        Where values of other stages and partitions come from, unless the trace is in one partition.
    scan_spill : ColumnSpill, optional
        Where the columns of the scans are kept.

    Attributes
    ----------
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
        scan_spill: ColumnSpill | None = None,
    ) -> None:
        self.jobs, self._stage, self._run, self.scan_spill = jobs, stage, run, scan_spill
        self.facts: Facts = given["facts"]
        self.scans: Sequence[LocationScan] = given["scans"]
        self.members: NDArray[np.int64] = given["members"]
        self._values = dict(given)
        # models with other peculiarities; of those the one they are made from, and what they do not share with it
        self._others: dict[Quirks, Model] = {}
        self._shared: Model | None = None
        self._own: set[str] = set()
        self._lock = RLock()

    def __repr__(self) -> str:
        return f"<Model of {self.facts.store.path.name}: {self.members.size} locations>"

    def get(self, name: str) -> Any:
        """Return a value by name; the step that makes it runs when it is first asked for.

        Raises
        ------
        KeyError
            If no step makes it.
        """
        with self._lock:
            if name not in self._values:
                step = STEP_OF[name]
                if self._shared is not None and name not in self._own:
                    return self._shared.get(name)
                if self._run is not None and name in step.keeps and step.stage != self._stage:
                    return self._run.value(name, -1 if step.stage in ONCE else self._values["partition"])
                made = step.function(*(self._read(what) for what in step.reads))
                self._values.update(zip(step.makes, made if len(step.makes) > 1 else (made,), strict=True))
            return self._values[name]

    def _read(self, what: str | Every) -> Any:
        if not isinstance(what, Every):
            return self.get(what)
        return [self.get(what.name)] if self._run is None else self._run.every(what.name)

    def every(self, name: str) -> list[Any]:
        """Return a value of all partitions, or buckets; one of what is made once, and of a trace in one partition."""
        if STEP_OF[name].stage in ONCE:
            return [self.get(name)]
        found: list[Any] = self._read(Every(name))
        return found

    def __getattr__(self, name: str) -> Any:
        if name in STEP_OF:
            return self.get(name)
        if name.startswith("_") or name in GIVEN:
            raise AttributeError(f"a model has no attribute {name!r}")
        return getattr(self.facts, name)

    def with_topologies(self, more: Sequence[Topology]) -> Model:
        """Return a model of the same trace that knows further topologies, before its own; it shares what has been computed."""
        facts = replace(self.facts, topologies=(*more, *self.facts.topologies))
        return Model(self.jobs, {**self._values, "facts": facts}, scan_spill=self.scan_spill)

    def with_quirks(self, quirks: Quirks) -> Model:
        """Return a model of the same trace with other peculiarities of root causes; it shares what does not depend on them."""
        if quirks == self._values["quirks"]:
            return self
        with self._lock:
            if quirks not in self._others:
                given = {name: self._values[name] for name in GIVEN} | {"quirks": quirks}
                other = self._others[quirks] = Model(self.jobs, given, scan_spill=self.scan_spill)
                other._shared, other._own = self, made_from("quirks")
            return self._others[quirks]

    def divided(self) -> Run:
        """Divide the trace for an analysis in bounded memory; use in a `with` statement."""
        return Run(self)


class _Once:
    """A value that is made once, whichever thread asks for it first."""

    def __init__(self) -> None:
        self._lock, self._done, self._value = Lock(), False, None

    def get(self, make: Callable[[], Any]) -> Any:
        with self._lock:
            if not self._done:
                self._value, self._done = make(), True
            return self._value


class Run:
    """The partitions of a trace during one analysis, and what they keep for each other; what it has in scratch files ends with it.

    Parameters
    ----------
    model : Model
        The trace in one partition.

    Attributes
    ----------
    division : Division
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        sizes = np.array([scan.n_calls + scan.n_attributed for scan in model.scans], np.int64)
        self.division = divide(model.facts.process, sizes)
        self._spill = ColumnSpill(beside=model.scan_spill)
        self._kept: dict[tuple[str, int], _Once] = {}
        self._lock = Lock()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.clear()
        self._spill.__exit__()

    def model(self, stage: str, partition: int = -1, bucket: Bucket = EVERYTHING) -> Model:
        """Return what a stage sees: a partition, a bucket or, in stage `global`, all calls that join processes; the trace itself if it is not divided."""
        if len(self.division) == 1:
            return self._model
        members = self.division.partitions[partition].members if partition >= 0 else np.arange(0)
        given = {
            "facts": self._model.facts, "scans": self._model.scans, "only_global": stage == GLOBAL, "partition": partition,
            "members": np.arange(self._model.facts.n_locations) if stage == GLOBAL else members,
            "division": self.division, "bucket": bucket, "spill": self._spill, "quirks": self._model.get("quirks"),
        }  # fmt: skip
        return Model(self._model.jobs, given, stage, self)

    def value(self, name: str, partition: int, model: Model | None = None) -> Any:
        """Return a value that a partition, or bucket, keeps for others; it is made once, by `model` or where it is asked for."""
        stage = STEP_OF[name].stage

        def make() -> Any:
            if model is not None:
                return model.get(name)
            at = self.model(stage, bucket=self.buckets[partition]) if stage == BUCKET else self.model(stage, partition)
            return at.get(name)

        with self._lock:
            once = self._kept.setdefault((name, partition), _Once())
        return once.get(make)

    def every(self, name: str) -> list[Any]:
        """Return a value of all partitions, or buckets, in the order of their numbers."""
        n = len(self.buckets) if STEP_OF[name].stage == BUCKET else len(self.division)
        return [self.value(name, number) for number in range(n)]

    @once
    def buckets(self) -> list[Bucket]:
        """Ranges of collective operations that are matched together."""
        return [EVERYTHING] if len(self.division) == 1 else plan_buckets(self.every("outgoing_members"))

    def stages(
        self,
        visit: Callable[[Model, str], Result],
        wanted: Iterable[str],
        pool: ThreadPoolExecutor,
        progress: Progress | None = None,
    ) -> Iterator[Result]:
        """Go through the stages of an analysis: in each visit all slices of the trace, side by side.

        Parameters
        ----------
        visit : callable
            `visit(model, stage)` gets a slice of the trace, in which the values of the stage are complete.
        wanted : iterable of str
            The stages to visit.
        pool : ThreadPoolExecutor
        progress : callable, optional
            Called with what is done and what is to be done, in thousandths of stages.

        Yields
        ------
        Result
            In the same order for every number of threads.
        """
        chosen = set(wanted)
        several = len(self.division) > 1
        keeps = {s: kept_for(chosen & set(STAGES[i + 1 :]), s) if several else [] for i, s in enumerate(STAGES)}
        needed = [s for s in STAGES if s in chosen or keeps[s]]

        def one(stage: str, number: int, model: Model) -> list[Result]:
            result = [visit(model, stage)] if stage in chosen else []
            for name in keeps[stage]:
                self.value(name, number, model)
            return result

        def results(stage: str) -> tuple[int, Iterator[list[Result]]]:
            """Return how many slices a stage has, and their results."""
            if stage in ONCE:
                return 1, iter([one(stage, -1, self.model(stage))])
            if stage == BUCKET:
                buckets = self.buckets
                return len(buckets), pool.map(lambda b: one(BUCKET, b.number, self.model(BUCKET, bucket=b)), buckets)
            numbers = [partition.number for partition in self.division.partitions]
            return len(numbers), pool.map(lambda number: one(stage, number, self.model(stage, number)), numbers)

        for i, stage in enumerate(needed):
            n, found = results(stage)
            for k, result in enumerate(found, 1):
                if progress is not None:
                    progress(1000 * i + 1000 * k // n, 1000 * len(needed))
                yield from result


def made_from(name: str) -> set[str]:
    """Find the values that steps make from a value, directly or from others that they make from it.

    Parameters
    ----------
    name : str
        What steps read.
    """
    found = {name}
    for step in STEPS:
        if any((what.name if isinstance(what, Every) else what) in found for what in step.reads):
            found.update(step.makes)
    return found - {name}


def kept_for(later: Iterable[str], stage: str) -> list[str]:
    """Find the values of a stage that the steps of some later stages read, directly or through what is kept in between.

    Parameters
    ----------
    later : iterable of str
        Names of later stages.
    stage : str
        Name of the stage.
    """
    needed: list[str] = []
    waiting = [step for step in STEPS if step.stage in set(later)]
    seen: set[str] = set()
    while waiting:
        step = waiting.pop()
        for what in step.reads:
            name = what.name if isinstance(what, Every) else what
            if name in STEP_OF and name not in seen:
                seen.add(name)
                source = STEP_OF[name]
                if source.stage == stage and name in source.keeps:
                    needed.append(name)
                else:
                    waiting.append(source)
    return sorted(needed)


def enhance(store: Store, jobs: int, progress: Progress | None = None, periods: Periods | None = None) -> Model:
    """Scan all locations of a trace and merge their call trees.

    Parameters
    ----------
    store : Store
        The trace.
    jobs : int
        Threads, also for analyses.
    progress : callable, optional
        Called with the number of events scanned and of all.
    periods : Periods, optional
        What to divide the time into.

    Returns
    -------
    Model
        The trace in one partition. With periods its call paths are `PeriodCallPaths`.

    Raises
    ------
    AnalysisError
        If the trace cannot be divided like that.
    """
    d = Definitions.of(store)
    spill = ColumnSpill()
    by = (periods or NO_PERIODS).divider(d.regions, store.manifest)
    scans = scan_locations(store, d.regions, d.locations, d.order, d.first_rows, jobs, spill, progress, by)
    call_paths: CallPaths = merge_call_paths(scans, d.regions, d.order, d.process)
    if by.kind:
        call_paths = PeriodCallPaths.of(call_paths, scans, d.regions, by)
    facts = Facts.with_call_paths(d, call_paths)
    given = {
        "facts": facts, "scans": scans, "members": np.arange(facts.n_locations), "only_global": False, "partition": 0,
        "division": undivided(facts.process), "bucket": EVERYTHING, "spill": None, "quirks": OF_SCALASCA,
    }  # fmt: skip
    return Model(jobs, given, scan_spill=spill)
