"""What is measured: every step of the way from an archive to severities and beyond, each a function and its declaration.

A step does what it needs beforehand, and then what is measured under its stopwatch:

    @step("scan", "scan (stacks, call paths, profile), one thread", "analysis", in_series=True)
    def scan(subject, watch):
        with watch:
            enhance(Store(subject.store), 1)

The engine is called here and nowhere else in the benchmarks.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import ROOT, is_otf2

BATCH = 1 << 20
SAMPLE = 1 << 22
"""Events that yardsticks are measured on, at most."""

LARGEST = 50_000_000
"""Events of a trace for which what holds all of it in memory is measured: 2 to 3 GB."""

GROUPS = ("read", "analysis", "tables", "export", "queries", "peers")


class Watch:
    """A stopwatch: what runs within `with watch:` counts; several blocks add up.

    Parameters
    ----------
    on_start : callable, optional
        Called before the first block.

    Attributes
    ----------
    seconds : float
    parts : dict of str to float
        Seconds of what a step is made of, if it says so.
    """

    def __init__(self, on_start: Callable[[], None] | None = None) -> None:
        self.seconds = 0.0
        self.parts: Counter[str] = Counter()
        self._on_start = on_start

    def __enter__(self) -> None:
        if self._on_start is not None:
            self._on_start()
            self._on_start = None
        self._begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._begin

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of a step."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.parts[name] += time.perf_counter() - begin


class Subject:
    """A trace to be measured, and room for what steps write.

    Parameters
    ----------
    archive : Path
        The anchor file.
    store : Path
        What it was converted to.
    scratch : Path
        A folder.
    jobs : int
        Threads of the steps that use several.
    """

    def __init__(self, archive: Path, store: Path, scratch: Path, jobs: int) -> None:
        self.archive, self.store, self.scratch, self.jobs = archive, store, scratch, jobs
        self.conventions = "scalasca" if is_otf2(archive) else "expert"

    def model(self, jobs: int = 1) -> Any:
        """Scan the store: return a model in which no compound table is made yet."""
        from tracecols.enhance.model import enhance
        from tracecols.store import Store

        return enhance(Store(self.store), jobs)

    def convert(self, jobs: int) -> Path:
        """Convert the archive; the same place each time."""
        from tracecols import convert

        return convert(self.archive, self.scratch / "made.trace", jobs=jobs)

    @cached_property
    def cube(self) -> Path:
        """The severities, saved."""
        from tracecols.patterns.engine import analyze_model

        return analyze_model(self.model(self.jobs), self.conventions).save(self.scratch / "kept.severity")

    @cached_property
    def columns(self) -> list[dict[str, Any]]:
        """Time, kind and region of events, the first `SAMPLE`, in batches like those that `decode` makes."""
        from tracecols.store import Store

        store = Store(self.store)
        batches: list[dict[str, Any]] = []
        left = SAMPLE
        for location in range(store.manifest["n_locations"]):
            for at in range(0, store.n_rows("events", location), BATCH):
                if left > 0:
                    batches.append(store.read("events", location, None, at, at + min(BATCH, left)))
                    left -= batches[-1]["time"].size
        return batches

    @property
    def n_sampled(self) -> int:
        """Events the yardsticks are measured on."""
        return sum(b["time"].size for b in self.columns)


# -- yardsticks --------------------------------------------------------------------------------------------------------


def copy_columns(subject: Subject, watch: Watch) -> None:
    """Copy the columns into buffers that are reused."""
    buffers = {c: np.zeros(BATCH, v.dtype) for c, v in subject.columns[0].items()}
    with watch:
        for batch in subject.columns:
            for name, values in batch.items():
                buffers[name][: values.size] = values


def write_columns(subject: Subject, watch: Watch) -> None:
    """Let pyarrow write the columns, with the store's settings and in one file."""
    import pyarrow as pa

    from tracecols.schema import EVENTS
    from tracecols.store.arrow import arrow_schema, event_writer

    columns, schema = subject.columns, arrow_schema(EVENTS)
    with watch, event_writer(subject.scratch / "yardstick.parquet", EVENTS) as writer:
        # locations may be short: what is written at a time has to be as long as a batch
        tables, n = [], 0
        for batch in columns:
            tables.append(pa.table(batch, schema=schema))
            n += batch["time"].size
            if n >= BATCH or batch is columns[-1]:
                writer.write_table(pa.concat_tables(tables), row_group_size=BATCH)
                tables, n = [], 0


YARDSTICKS: dict[str, Callable[[Subject, Watch], None]] = {"copy": copy_columns, "pyarrow": write_columns}


# -- steps -------------------------------------------------------------------------------------------------------------

Items = tuple[str, int] | None
"""What a step makes besides, and how many: messages, cells, rows."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A step.

    Attributes
    ----------
    name, title : str
        For commands; for tables.
    group : str
        One of `GROUPS`.
    run : callable
        `run(subject, watch)`; may return what it made and how many.
    in_series : bool
        Whether it is measured on the workloads of series.
    family : str
        Family of events without which there is nothing to measure.
    most_events : int, optional
        Traces with more are left out.
    against : str
        Of a peer: the step of tracecols that does the same.
    missing : callable, optional
        Says why it cannot be measured on an archive; empty if it can.
    counts_events : bool
        Whether it says how many events there are, which must then be right.
    """

    name: str
    title: str
    group: str
    run: Callable[[Subject, Watch], Items]
    in_series: bool = False
    family: str = ""
    most_events: int | None = None
    against: str = ""
    missing: Callable[[Path], str] | None = None
    counts_events: bool = False


STEPS: dict[str, Step] = {}


def step(name: str, title: str, group: str, **more: Any) -> Callable[[Callable[..., Items]], Callable[..., Items]]:
    """Declare a step; use as a decorator."""

    def declare(run: Callable[..., Items]) -> Callable[..., Items]:
        STEPS[name] = Step(name, title, group, run, **more)
        return run

    return declare


@step("decode", "decode, one thread", "read", in_series=True)
def decode(subject: Subject, watch: Watch) -> None:
    """Decode all events into buffers that are reused.

    To open an OTF2 archive is to read its definitions, which does not count. To open a merged trace is to go through all
    records for those of each location, which is a part of decoding them and counts.
    """
    from tracecols.converters.base import Report
    from tracecols.converters.registry import open_source

    if is_otf2(subject.archive):
        source = open_source(subject.archive)
    else:
        with watch:
            source = open_source(subject.archive)
    with watch:
        for location in range(len(source.definitions["locations"]["id"])):
            for _ in source.read(location, Report()):
                pass


@step("convert", "convert, one thread", "read", in_series=True)
def convert(subject: Subject, watch: Watch) -> None:
    """Convert the archive to a store."""
    with watch:
        subject.convert(1)


@step("convert_threads", "convert, all threads", "read", in_series=True)
def convert_threads(subject: Subject, watch: Watch) -> None:
    """Convert the archive to a store with all threads."""
    with watch:
        subject.convert(subject.jobs)


@step("scan", "scan (stacks, call paths, profile), one thread", "analysis", in_series=True)
def scan(subject: Subject, watch: Watch) -> None:
    """Scan the store."""
    with watch:
        subject.model()


@step("scan_threads", "scan, all threads", "analysis")
def scan_threads(subject: Subject, watch: Watch) -> None:
    """Scan the store with all threads."""
    with watch:
        subject.model(subject.jobs)


@contextmanager
def _clocked_families(watch: Watch) -> Iterator[None]:
    """Time the declared functions of all properties by family, for as long as this lasts."""
    from tracecols.patterns.registry import FAMILIES

    def clocked(function: Callable[..., Any], family: str) -> Callable[..., Any]:
        @wraps(function)
        def run(*given: Any, **more: Any) -> Any:
            with watch.part(family):
                return function(*given, **more)

        return run

    declared = {f.name: f.properties for f in FAMILIES}
    try:
        for family in FAMILIES:
            family.properties = [
                dataclasses.replace(
                    p, **{name: clocked(f, family.name) for name in ("match", "cells") if (f := getattr(p, name))}
                )
                for p in family.properties
            ]
        yield
    finally:
        for family in FAMILIES:
            family.properties = declared[family.name]


@step("patterns", "compound tables and patterns, one thread", "analysis", in_series=True)
def patterns(subject: Subject, watch: Watch) -> None:
    """Search for all properties in a model that was only scanned; parts: the declared functions of each family."""
    from tracecols.patterns.engine import analyze_model

    model = subject.model()
    with _clocked_families(watch), watch:
        analyze_model(model, subject.conventions)
    watch.parts["tables and sums"] = watch.seconds - sum(watch.parts.values())


@step("analyze", "analyze a store, all threads", "analysis", in_series=True)
def analyze(subject: Subject, watch: Watch) -> Items:
    """Go from a store to severities."""
    from tracecols.patterns.engine import analyze_model

    with watch:
        cube = analyze_model(subject.model(subject.jobs), subject.conventions)
    return "cells", sum(len(c) for c in cube.cells.values())


def _no_dask(archive: Path) -> str:
    from importlib.util import find_spec

    return "" if find_spec("distributed") else "dask is not installed"


@step("analyze_workers", "analyze a store, two worker processes", "analysis", missing=_no_dask)
def analyze_workers(subject: Subject, watch: Watch) -> Items:
    """Go from a store to severities with worker processes, which have been started and have imported the engine."""
    from importlib import import_module

    import tracecols
    from tracecols.cluster import local_workers

    with local_workers(2) as client:
        client.run(import_module, "tracecols.patterns.engine")
        with watch:
            cube = tracecols.open(subject.store, jobs=1).analyze(
                subject.conventions, cluster=client, scratch=subject.scratch
            )
    return "cells", sum(len(c) for c in cube.cells.values())


@step("analyze_archive", "archive to severities, all threads", "analysis", in_series=True)
def analyze_archive(subject: Subject, watch: Watch) -> Items:
    """Go from an archive to severities."""
    from tracecols.enhance.model import enhance
    from tracecols.patterns.engine import analyze_model
    from tracecols.store import Store

    with watch:
        cube = analyze_model(enhance(Store(subject.convert(subject.jobs)), subject.jobs), subject.conventions)
    return "cells", sum(len(c) for c in cube.cells.values())


@step("command", "the command tracecols analyze ARCHIVE", "analysis")
def command(subject: Subject, watch: Watch) -> None:
    """Go from an archive to severities as a user does: a process of its own, kernels compiled before."""
    words = [sys.executable, "-m", "tracecols", "analyze", str(subject.archive), "--conventions", subject.conventions]
    with watch:
        subprocess.run(
            [*words, "-o", str(subject.scratch / "made.severity"), "--jobs", str(subject.jobs)],
            check=True, capture_output=True, cwd=ROOT,
        )  # fmt: skip


@step("table_calls", "region instances of all locations", "tables", in_series=True, most_events=LARGEST)
def table_calls(subject: Subject, watch: Watch) -> Items:
    """Put the region instances of all locations together, which other tables refer to."""
    model = subject.model()
    with watch:
        calls = model.call_instances
    return "calls", calls.enter.size


TABLES = {
    "messages": "p2p",
    "collectives": "collectives",
    "teams": "threads",
    "constructs": "threads",
    "lock_acquisitions": "locks",
    "window_members": "rma",
    "epochs": "rma",
}
"""Compound tables, and the events without which there are none. An analysis makes them in parts, here they are made at once."""


def _make_table(name: str, family: str) -> None:
    @step(f"table_{name}", f"table {name}", "tables", family=family, in_series=True, most_events=LARGEST)
    def make(subject: Subject, watch: Watch) -> Items:
        model = subject.model()
        _ = model.call_instances
        with watch:
            table = getattr(model, name)
        return name.replace("_", " "), len(table)


for _name, _family in TABLES.items():
    _make_table(_name, _family)


@step(
    "replay_graph", "replay: nodes and edges from the tables, one thread", "tables", in_series=True, most_events=LARGEST
)
def replay_graph(subject: Subject, watch: Watch) -> Items:
    """Build the graph of a replay; its tables are there."""
    from tracecols.replay.graph import build_graph

    model = subject.model()
    for name in ("sent_messages", "collective_members", "construct_members", "lock_acquisitions", "window_members"):
        getattr(model, name)
    with watch:
        graph = build_graph(model)
    return "nodes", len(graph.nodes)


@step("replay_sweep", "replay: one sweep", "tables", in_series=True, most_events=LARGEST)
def replay_sweep(subject: Subject, watch: Watch) -> Items:
    """Let all nodes happen once."""
    from tracecols.replay.graph import build_graph

    graph = build_graph(subject.model())
    with watch:
        graph.sweep()
    return "nodes", len(graph.nodes)


def _export_cube(subject: Subject, watch: Watch, ending: str) -> Items:
    from tracecols.export.tables import export
    from tracecols.severity import SeverityCube

    cube = subject.cube
    with watch:
        export(cube, subject.scratch / f"made{ending}")
    return "cells", sum(len(c) for c in SeverityCube.load(cube).cells.values())


@step("export_parquet", "export a cube as Parquet", "export")
def export_parquet(subject: Subject, watch: Watch) -> Items:
    """Load a cube and export it."""
    return _export_cube(subject, watch, ".parquet")


@step("export_csv", "export a cube as CSV", "export")
def export_csv(subject: Subject, watch: Watch) -> Items:
    """Load a cube and export it."""
    return _export_cube(subject, watch, ".csv")


@step("export_otf2", "export a store as OTF2, all threads", "export", in_series=True)
def export_otf2(subject: Subject, watch: Watch) -> None:
    """Write all events as an OTF2 archive."""
    from tracecols.export.archive import export_archive

    folder = subject.scratch / "exported"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with watch:
        export_archive(subject.store, folder / "made.otf2", jobs=subject.jobs)
    shutil.rmtree(folder)


def _window(trace: Any) -> tuple[float, float]:
    """Return the seconds between which the tenth in the middle of the first location's events lies."""
    times = trace.store.read("events", 0, ["time"])["time"]
    start, stop = trace.seconds(times[[times.size * 45 // 100, times.size * 55 // 100]]).tolist()
    return start, stop


@step("read_window", "a tenth of a location's events, named", "queries")
def read_window(subject: Subject, watch: Watch) -> Items:
    """Read stored columns with names."""
    import tracecols

    trace = tracecols.open(subject.store)
    start, stop = _window(trace)
    with watch:
        frame = trace.read_events(0, start, stop, ["time", "kind", "region"], names=True)
    return "rows", len(frame)


@step("read_pointers", "the same with enterptr, exitptr, call path", "queries")
def read_pointers(subject: Subject, watch: Watch) -> Items:
    """Read computed columns; the trace was scanned before."""
    import tracecols

    trace = tracecols.open(subject.store)
    start, stop = _window(trace)
    _ = trace.model
    with watch:
        frame = trace.read_events(0, start, stop, ["time", "kind", "region", "enterptr", "exitptr", "call_path"])
    return "rows", len(frame)


@step("messages_frame", "messages as a data frame", "queries", family="p2p", most_events=200_000_000)
def messages_frame(subject: Subject, watch: Watch) -> Items:
    """Match messages and make a data frame; the trace was scanned before."""
    import tracecols

    trace = tracecols.open(subject.store)
    _ = trace.model
    with watch:
        frame = trace.messages
    return "messages", len(frame)


@step("enhance", "all enhanced tables as Parquet, all threads", "tables", in_series=True)
def enhance(subject: Subject, watch: Watch) -> Items:
    """Scan the store and write events with pointers, the call tree and all compound tables."""
    from tracecols.enhance.table_files import ENHANCED
    from tracecols.enhance.table_writer import write_tables

    folder = subject.scratch / "enhanced"
    shutil.rmtree(folder, ignore_errors=True)
    with watch:
        write_tables(subject.model(subject.jobs), ENHANCED, folder)
    n_bytes = sum(f.stat().st_size for f in folder.rglob("*.parquet"))
    shutil.rmtree(folder)
    return "bytes", n_bytes


@step("events_frame", "all events with pointers as a data frame, all threads", "queries", most_events=LARGEST)
def events_frame(subject: Subject, watch: Watch) -> Items:
    """Scan the store and make a data frame of all events with all pointer columns."""
    import tracecols

    trace = tracecols.open(subject.store, jobs=subject.jobs, frame_limit=1 << 40)
    with watch:
        frame = trace.events
    return "events", len(frame)


def _no_duckdb(archive: Path) -> str:
    from importlib.util import find_spec

    return "" if find_spec("duckdb") else "duckdb is not installed"


@step("sql", "SQL: events per region", "queries", missing=_no_duckdb)
def sql(subject: Subject, watch: Watch) -> Items:
    """Count events by region with DuckDB."""
    import tracecols

    trace = tracecols.open(subject.store)
    with watch:
        frame = trace.sql("select region, count(*) as n from events group by region")
    return "rows", len(frame)


@step("cube_frame", "a cube as a data frame", "queries")
def cube_frame(subject: Subject, watch: Watch) -> Items:
    """Make a long table of all severities."""
    from tracecols.severity import SeverityCube

    cube = SeverityCube.load(subject.cube)
    with watch:
        frame = cube.frame()
    return "rows", len(frame)


@step("load_events", "archive to a data frame of all events", "queries", most_events=LARGEST)
def load_events(subject: Subject, watch: Watch) -> Items:
    """Convert, and read all stored columns of all events."""
    import tracecols

    with watch:
        trace = tracecols.open(subject.convert(subject.jobs))
        frame = trace.read_events(columns=["location", "time", "kind", "region"], names=True)
    return "events", len(frame)


@step("load_profile", "archive to the profile", "queries")
def load_profile(subject: Subject, watch: Watch) -> Items:
    """Convert, scan, and return exclusive time per call path and location."""
    import tracecols

    with watch:
        frame = tracecols.open(subject.convert(subject.jobs)).profile
    return "rows", len(frame)


@step("load_messages", "archive to bytes by sender and receiver", "queries", family="p2p", most_events=200_000_000)
def load_messages(subject: Subject, watch: Watch) -> Items:
    """Convert, match messages, and add up their lengths by sender and receiver."""
    import tracecols

    with watch:
        messages = tracecols.open(subject.convert(subject.jobs)).messages
        sums = messages.groupby(["send_location", "recv_location"])["length"].sum()
    return "pairs", len(sums)
