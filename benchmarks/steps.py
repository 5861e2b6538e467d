"""The measured steps, from an archive to severities and beyond (`STEPS`, below).

A step is a function of a `Subject`, which does the preparation and returns the function that is measured. If the latter
returns a number, it is the number of events, cells or rows made. Within the benchmarks of steps, the engine is called
only here.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import goals
from benchmarks.process import held, peak, processor_seconds
from benchmarks.workloads import ROOT, is_otf2
from tracecols import convert
from tracecols import open as open_trace
from tracecols.converters.base import Report
from tracecols.converters.registry import open_source
from tracecols.export.archive import export_archive
from tracecols.export.tables import export
from tracecols.findings.search import facts_of_causes
from tracecols.kernels import bitcode
from tracecols.model.model import enhance
from tracecols.model.table_files import ENHANCED
from tracecols.model.table_writer import write_tables
from tracecols.patterns.registry import FAMILIES
from tracecols.replay.graph import find_graph
from tracecols.replay.replay import Replay
from tracecols.replay.scenarios import Scenario, predict, scaled
from tracecols.schema import EVENTS
from tracecols.schema.properties import ROOT_CAUSES
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import declared_for, trees_of, without
from tracecols.search.cube import analyze_model
from tracecols.severity import SeverityCube
from tracecols.store import Store
from tracecols.store.arrow import arrow_schema, event_writer

BATCH = 1 << 20
SAMPLE = 1 << 22
"""Maximum number of events for yardsticks."""

LARGEST = 50_000_000
"""Maximum number of events of traces for steps that hold the whole trace in memory: 2 to 3 GB."""

GROUPS = ("yardsticks", "read", "analysis", "tables", "export", "queries", "goals", "peers")
"""Groups of steps; those of the group `goals` are measured only where they have one."""


@dataclass
class Subject:
    """A trace to measure on, and a folder for files that steps write."""

    name: str  # of the workload
    archive: Path | None  # the anchor file; None of a store whose archive is not known
    store: Path
    scratch: Path
    jobs: int  # threads of the steps that use several
    conventions: str = DEFAULT
    facts: dict[str, Any] = field(default_factory=dict)  # numbers of events, locations and rows, sizes
    notes: dict[str, float] = field(default_factory=dict)  # figures of a step besides the number of things it makes

    def model(self, jobs: int = 1) -> Any:
        """Scan the store; return a model without any compound tables yet."""
        return enhance(Store(self.store), jobs)

    def trace(self, **more: Any) -> Any:
        """Open the store."""
        return open_trace(self.store, **more)

    def scanned(self, **more: Any) -> Any:
        """Open the store, and scan it."""
        trace = self.trace(**more)
        _ = trace.model
        return trace

    def empty(self, name: str) -> Path:
        """Return an empty folder."""
        shutil.rmtree(self.scratch / name, ignore_errors=True)
        (self.scratch / name).mkdir()
        return self.scratch / name

    def convert(self, jobs: int) -> Path:
        """Convert the archive, to the same path each time."""
        assert self.archive is not None
        return convert(self.archive, self.scratch / "made.trace", jobs=jobs)

    def cube(self) -> Path:
        """Return the path of the severities, which are made on the first call."""
        path = self.scratch / "kept.severity"
        if not path.exists():
            self.trace(jobs=self.jobs).analyze(self.conventions).save(path)
        return path

    def enhanced(self) -> Any:
        """Return the trace with all enhanced tables as files."""
        trace = self.trace(jobs=self.jobs)
        trace.catalog.enhanced(ENHANCED)
        return trace

    def columns(self) -> Iterator[dict[str, Any]]:
        """Yield time, kind and region of the first `SAMPLE` events, in batches like those of `decode`."""
        store, left = Store(self.store), SAMPLE
        for location in range(store.manifest["n_locations"]):
            for at in range(0, store.n_rows("events", location), BATCH):
                if left > 0:
                    batch = store.read("events", location, None, at, at + min(BATCH, left))
                    left -= batch["time"].size
                    yield batch


# -- declarations ------------------------------------------------------------------------------------------------------

Run = Callable[[], object]


@dataclass(frozen=True)
class Step:
    """A step: `prepare(subject)` returns the function that is measured."""

    name: str
    group: str
    title: str
    prepare: Callable[[Subject], Run]
    in_series: bool = False  # whether it is measured on the workloads of series
    family: str = ""  # family of events that the trace must have
    most_events: int | None = None  # traces with more events are omitted
    needs: str = ""  # property that the subject must have: `archive`, `otf2`, or empty
    package: str = ""  # package that must be installed
    missing: Callable[[], str] | None = None  # describes what else is missing
    against: str = ""  # of a peer: the step of tracecols that does the same
    counts_events: bool = False  # whether it returns how many events there are, which must then be right

    def has_goals_only(self, facts: dict[str, Any]) -> bool:
        """Return whether it is measured on a workload only if it has a goal there."""
        return self.group == "goals" or (facts.get("series") == goals.SERIES and self.group != "yardsticks")

    def why_not(self, subject: Subject) -> str:
        """Return the reason why the step cannot be measured on a subject; empty if it can."""
        facts, archive = subject.facts, subject.archive
        reasons = {
            "no goal": self.has_goals_only(facts) and (subject.name, self.name) not in goals.MEASURED,
            "not in series": facts.get("series") not in (None, "", goals.SERIES) and not self.in_series,
            "the archive is not known": bool(self.needs) and archive is None,
            "not an OTF2 archive": self.needs == "otf2" and archive is not None and not is_otf2(archive),
            "no such events": bool(self.family) and not facts["n_rows"].get(self.family),
            f"more than {self.most_events or 0:,} events": facts["n_events"] > (self.most_events or math.inf),
            f"{self.package} is not installed": bool(self.package) and not find_spec(self.package),
        }
        return next((why for why, holds in reasons.items() if holds), self.missing() if self.missing else "")


# -- yardsticks --------------------------------------------------------------------------------------------------------


def _copy_columns(subject: Subject) -> Run:
    """Copy the columns into buffers that are reused."""
    batches = list(subject.columns())
    buffers = {c: np.zeros(BATCH, v.dtype) for c, v in batches[0].items()}

    def run() -> int:
        for batch in batches:
            for name, values in batch.items():
                buffers[name][: values.size] = values
        return sum(b["time"].size for b in batches)

    return run


def _write_columns(subject: Subject) -> Run:
    """Write the columns with pyarrow into one file, with the store's settings."""
    import pyarrow as pa

    columns, schema = list(subject.columns()), arrow_schema(EVENTS)

    def run() -> int:
        with event_writer(subject.scratch / "yardstick.parquet", EVENTS) as writer:
            # locations may be short: each write needs as many rows as a batch
            tables, n = [], 0
            for batch in columns:
                tables.append(pa.table(batch, schema=schema))
                n += batch["time"].size
                if n >= BATCH or batch is columns[-1]:
                    writer.write_table(pa.concat_tables(tables), row_group_size=BATCH)
                    tables, n = [], 0
        return sum(b["time"].size for b in columns)

    return run


# -- from archives to severities ---------------------------------------------------------------------------------------


def _decode(subject: Subject) -> Run:
    """Decode all events into buffers that are reused.

    Opening an OTF2 archive only reads its definitions, and is not measured. Opening a merged trace passes over all
    records to find those of each location, which is part of decoding and is measured.
    """
    archive = subject.archive
    assert archive is not None
    opened = open_source(archive) if is_otf2(archive) else None

    def run() -> None:
        source = opened or open_source(archive)
        for location in range(len(source.definitions["locations"]["id"])):
            for _ in source.read(location, Report()):
                pass

    return run


@contextmanager
def _clocked_families(notes: dict[str, float]) -> Iterator[None]:
    """Time the declared functions of all properties by family, within the context."""

    def clocked(function: Callable[..., Any], family: str) -> Callable[..., Any]:
        @wraps(function)
        def run(*given: Any, **more: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*given, **more)
            finally:
                notes[family] = notes.get(family, 0.0) + time.perf_counter() - begin

        return run

    declared = {f.name: f.properties for f in FAMILIES}
    try:
        for family in FAMILIES:
            family.properties = [
                replace(p, found=replace(p.found, function=clocked(p.found.function, family.name)))
                if getattr(p.found, "function", None)
                else p
                for p in family.properties
            ]
        yield
    finally:
        for family in FAMILIES:
            family.properties = declared[family.name]


def _n_cells(cube: Any) -> int:
    return sum(len(c) for c in cube.cells.values())


def _search(subject: Subject) -> Run:
    """Search for all properties in a model that was only scanned; notes: times of the functions of each family."""
    model = subject.model()

    def run() -> int:
        begin = time.perf_counter()
        with _clocked_families(subject.notes):
            cube = analyze_model(model, subject.conventions)
        subject.notes["tables and sums"] = time.perf_counter() - begin - sum(subject.notes.values())
        return _n_cells(cube)

    return run


def _analyze(subject: Subject, **more: Any) -> Run:
    """Go from a store to severities."""
    return lambda: _n_cells(subject.trace(jobs=subject.jobs).analyze(subject.conventions, **more))


def _causes(subject: Subject) -> Run:
    """Search for causes of lost time in a replay whose graph has been built."""
    replay = Replay(subject.model(subject.jobs))
    _ = replay.graph, replay.computation

    def run() -> int:
        found = facts_of_causes(replay)
        return 0 if found is None else len(found["found"])

    return run


def _analyze_without_replay(subject: Subject, causes: bool) -> Run:
    """Search for all properties by name, with or without root causes; properties requested by name are not replayed."""
    declared = declared_for(subject.model(subject.jobs), subject.conventions, ())
    searched = declared if causes else without(declared, trees_of(declared, ROOT_CAUSES))
    return _analyze(subject, properties=[p.id for p in searched])


def _analyze_archive(subject: Subject) -> Run:
    """Go from an archive to severities."""
    return lambda: _n_cells(open_trace(subject.convert(subject.jobs), jobs=subject.jobs).analyze(subject.conventions))


def _analyze_with_workers(subject: Subject) -> Run:
    """Go from a store to severities with worker processes, which have been started and have imported the engine.

    Notes: seconds without the start of the workers, processor time of workers and client, and memory of the workers.
    """
    from tracecols.work.cluster import local_workers

    def run() -> int:
        with local_workers(2) as client:
            client.run(import_module, "tracecols.search.cube")
            client.run(import_module, "benchmarks.process")
            before = processor_seconds() + sum(client.run(processor_seconds).values())
            begin = time.perf_counter()
            cube = subject.trace(jobs=1).analyze(subject.conventions, cluster=client, scratch=subject.scratch)
            subject.notes["seconds without start"] = time.perf_counter() - begin
            used = processor_seconds() + sum(client.run(processor_seconds).values()) - before
            subject.notes["processor seconds without start"] = used
            subject.notes["MiB of a worker"] = max(client.run(peak).values()) / 2**20
        return _n_cells(cube)

    return run


HOW = "--force --jobs {jobs} --conventions {conventions}"
ANALYZE = f"analyze {{store}} -o {{made}} {HOW}"
"""The command that analyses the store of a subject."""


def _call(subject: Subject, line: str, **variables: str) -> None:
    """Run a command of the tracecols that is installed in a new process, with the files and options of a subject."""
    scratch, archive = subject.scratch.absolute(), subject.archive
    given = {
        "archive": archive and archive.absolute(),
        "store": subject.store.absolute(),
        "first": scratch / "first.trace",
        "made": scratch / "made.severity",
        "jobs": subject.jobs,
        "conventions": subject.conventions,
    }
    words = [word.format(**given) for word in line.split()]
    command = [sys.executable, "-c", "from tracecols.cli import main; main()", *words]
    subprocess.run(command, check=True, capture_output=True, cwd=scratch, env={**os.environ, **variables})


def _command(line: str) -> Callable[[Subject], Run]:
    """Return the `prepare` function of a command as a user runs it: in a new process, with kernels compiled before."""
    return lambda subject: partial(_call, subject, line)


def _no_bitcode() -> str:
    """Explain why the first commands after an installation cannot be measured; empty if they can."""
    return "" if bitcode.FILE.exists() else "not installed from a wheel, which contains compiled kernels"


def _first_commands(subject: Subject) -> Run:
    """Convert and analyze as after an installation, when no machine code was made yet."""

    def run() -> None:
        with tempfile.TemporaryDirectory(dir=subject.scratch) as cache:
            code = {"NUMBA_CACHE_DIR": str(Path(cache).absolute())}
            _call(subject, "convert {archive} -o {first} --force --jobs {jobs}", **code)
            _call(subject, f"analyze {{first}} -o {{made}} {HOW}", **code)

    return run


def _scenarios(subject: Subject, n: int) -> Run:
    """Predict the runtime for `n` speeds of computation by a replay whose graph has been built."""
    replay = Replay(subject.model(subject.jobs))
    scenarios = [Scenario((scaled(1 - i / 20),)) for i in range(1, n + 1)]
    predict(replay, scenarios)
    return lambda: predict(replay, scenarios)


# -- tables and exports ------------------------------------------------------------------------------------------------


def _with_calls(subject: Subject) -> Any:
    """Scan the store, and make the region instances that compound tables refer to."""
    model = subject.model()
    _ = model.call_instances
    return model


def _with_tables(subject: Subject) -> Any:
    """Scan the store, and make the tables from which the graph of a replay is built."""
    model = subject.model()
    for name in ("sent_messages", "collective_members", "construct_members", "lock_acquisitions", "window_members"):
        getattr(model, name)
    return model


def _enhance(subject: Subject) -> Run:
    """Scan the store and write events with pointers, the call tree and all compound tables; return their bytes."""
    folder = subject.empty("enhanced")

    def run() -> int:
        write_tables(subject.model(subject.jobs), ENHANCED, folder)
        return sum(f.stat().st_size for f in folder.rglob("*.parquet"))

    return run


# -- queries -----------------------------------------------------------------------------------------------------------


def _read_window(subject: Subject, columns: list[str], **more: Any) -> Run:
    """Read the tenth in the middle of the first location's events; the trace was scanned before."""
    trace = subject.scanned()
    times = trace.store.read("events", 0, ["time"])["time"]
    start, stop = trace.seconds(times[[times.size * 45 // 100, times.size * 55 // 100]]).tolist()
    return lambda: len(trace.read_events(0, start, stop, columns, **more))


def _loaded(subject: Subject, ask: Callable[[Any], Any]) -> Run:
    """Convert, and run a query."""
    return lambda: len(ask(open_trace(subject.convert(subject.jobs))))


def _frame(subject: Subject, make: Callable[[Any], Any]) -> Run:
    """Make a frame of all events of a trace that was scanned before; notes: its size, and the memory that making it
    takes."""
    trace, before = subject.scanned(jobs=subject.jobs, frame_limit=None), held()

    def run() -> int:
        frame = make(trace)
        size = int(frame.memory_usage(index=False).sum())
        subject.notes["GB of the frame"] = size / 1e9
        if before is not None:
            subject.notes["times that beyond the scan"] = (peak() - before) / size
        return len(frame)

    return run


def _polars_over_events(subject: Subject) -> Run:
    import polars as pl

    of = pl.scan_parquet(subject.enhanced().scan("events").files).filter(pl.col("enterptr") >= 0)
    of = of.select(pl.len(), pl.col("exitptr").max(), pl.col("pos").sum())
    return lambda: int(of.collect(engine="streaming")[0, 0])


PAGE = ROOT / "tracecols" / "docs" / "tables.md"


def _questions(subject: Subject, mark: str, **modules: str) -> Run:
    """Answer the three questions of docs/tables.md with its code after a mark; frames are made from a trace that was
    not scanned."""
    code = PAGE.read_text(encoding="utf-8").split(mark)[1].split("```")[0]
    trace = subject.trace(jobs=subject.jobs, frame_limit=None) if "np" in modules else subject.enhanced()
    if not modules:
        return lambda: [trace.sql(query) for query in code.split(";") if query.strip()]
    names = {name: import_module(module) for name, module in modules.items()}
    return partial(exec, compile(code, PAGE.name, "exec"), {**names, "trace": trace})


OVER_EVENTS = "select count(*) as n, max(exitptr) as m, sum(pos) as p from events where enterptr >= 0"


def _ask(of: Callable[[Subject], Any], run: Callable[[Any], object]) -> Callable[[Subject], Run]:
    """Return the `prepare` function of a step that runs `run` on the result of `of`, which is not measured."""
    return lambda subject: partial(run, of(subject))


# -- the list ----------------------------------------------------------------------------------------------------------

SERIES, ARCHIVE = {"in_series": True}, {"needs": "archive"}
WHOLE, WIDE = {"most_events": LARGEST}, {"most_events": 200_000_000, "family": "p2p"}
P2P, THREADS, RMA = ({"family": name} for name in ("p2p", "threads", "rma"))
STORED, NAMED = ["time", "kind", "region"], ["location", "time", "kind", "region"]

# fmt: off
_STEPS: tuple[tuple[str, str, str, Callable[[Subject], Run], dict[str, Any]], ...] = (
    ("copy", "yardsticks", "copy of the columns", _copy_columns, {}),
    ("pyarrow", "yardsticks", "pyarrow writes the columns", _write_columns, {}),
    ("decode", "read", "decode, one thread", _decode, SERIES | ARCHIVE),
    ("convert", "read", "convert, one thread", lambda s: partial(s.convert, 1), SERIES | ARCHIVE),
    ("convert_threads", "read", "convert, all threads", lambda s: partial(s.convert, s.jobs), SERIES | ARCHIVE),
    ("scan", "analysis", "scan (stacks, call paths, profile), one thread", lambda s: partial(s.model, 1), SERIES),
    ("scan_threads", "analysis", "scan, all threads", lambda s: partial(s.model, s.jobs), {}),
    ("patterns", "analysis", "compound tables and patterns, one thread", _search, SERIES),
    ("analyze", "analysis", "analyze a store, all threads", _analyze, SERIES),
    ("analyze_causes", "analysis", "analyze a store without replay", partial(_analyze_without_replay, causes=True), SERIES),
    ("analyze_waits", "analysis", "wait states without root causes", partial(_analyze_without_replay, causes=False), SERIES),
    ("causes", "analysis", "causes of lost time in a replay, all threads", _causes, SERIES | WHOLE),
    ("analyze_workers", "analysis", "analyze a store, two worker processes", _analyze_with_workers, {"package": "distributed"}),
    ("analyze_archive", "analysis", "archive to severities, all threads", _analyze_archive, SERIES | ARCHIVE),
    ("command", "analysis", "`tracecols analyze ARCHIVE`", _command(f"analyze {{archive}} -o {{made}} {HOW}"), ARCHIVE),
    ("table_calls", "tables", "region instances of all locations", _ask(Subject.model, lambda m: m.call_instances.enter.size), SERIES | WHOLE),
    ("table_messages", "tables", "table messages", _ask(_with_calls, lambda m: len(m.messages)), SERIES | WHOLE | P2P),
    ("table_collectives", "tables", "table collectives", _ask(_with_calls, lambda m: len(m.collectives)),
     SERIES | WHOLE | {"family": "collectives"}),
    ("table_teams", "tables", "table teams", _ask(_with_calls, lambda m: len(m.teams)), SERIES | WHOLE | THREADS),
    ("table_constructs", "tables", "table constructs", _ask(_with_calls, lambda m: len(m.constructs)), SERIES | WHOLE | THREADS),
    ("table_locks", "tables", "table lock acquisitions", _ask(_with_calls, lambda m: len(m.lock_acquisitions)),
     SERIES | WHOLE | {"family": "locks"}),
    ("table_windows", "tables", "table window members", _ask(_with_calls, lambda m: len(m.window_members)), SERIES | WHOLE | RMA),
    ("table_epochs", "tables", "table epochs", _ask(_with_calls, lambda m: len(m.epochs)), SERIES | WHOLE | RMA),
    ("replay_graph", "tables", "replay: nodes and edges from the tables, one thread",
     _ask(_with_tables, lambda m: len(find_graph(m).graph().nodes)), SERIES | WHOLE),
    ("replay_sweep", "tables", "replay: one sweep", lambda s: find_graph(s.model()).graph().sweep, SERIES | WHOLE),
    ("enhance", "tables", "all enhanced tables as Parquet, all threads", _enhance, SERIES),
    ("export_parquet", "export", "export a cube as Parquet", lambda s: partial(export, s.cube(), s.scratch / "made.parquet"), {}),
    ("export_csv", "export", "export a cube as CSV", lambda s: partial(export, s.cube(), s.scratch / "made.csv"), {}),
    ("export_otf2", "export", "export a store as OTF2, all threads",
     lambda s: partial(export_archive, s.store, s.empty("exported") / "made.otf2", jobs=s.jobs), SERIES),
    ("read_window", "queries", "a tenth of a location's events, named", lambda s: _read_window(s, STORED, names=True), {}),
    ("read_pointers", "queries", "the same with enterptr, exitptr, call path",
     lambda s: _read_window(s, [*STORED, "enterptr", "exitptr", "call_path"]), {}),
    ("messages_frame", "queries", "messages as a data frame", _ask(Subject.scanned, lambda t: len(t.messages)), WIDE),
    ("sql", "queries", "SQL: events per region",
     _ask(Subject.trace, lambda t: len(t.sql("select region, count(*) as n from events group by region"))), {"package": "duckdb"}),
    ("cube_frame", "queries", "a cube as a data frame", _ask(lambda s: SeverityCube.load(s.cube()), lambda cube: len(cube.frame())), {}),
    ("load_events", "queries", "archive to a data frame of all events",
     lambda s: _loaded(s, lambda trace: trace.read_events(columns=NAMED, names=True)), ARCHIVE | WHOLE),
    ("events_frame", "queries", "all events with pointers as a data frame, all threads",
     lambda s: _frame(s, lambda trace: trace.events), WHOLE),
    ("events_raw", "queries", "the same, numbers only", lambda s: _frame(s, lambda trace: trace.frame("events", raw=True)), WHOLE),
    ("events_sql", "queries", "SQL over all events with pointers",
     _ask(Subject.enhanced, lambda t: int(t.sql(OVER_EVENTS).n[0])), {"package": "duckdb"}),
    ("events_polars", "queries", "polars over all events with pointers", _polars_over_events, {"package": "polars"}),
    ("questions_pandas", "queries", "three questions in pandas", lambda s: _questions(s, "# pandas\n", np="numpy"), WIDE),
    ("questions_sql", "queries", "three questions in SQL", lambda s: _questions(s, "```sql\n"), P2P | {"package": "duckdb"}),
    ("questions_polars", "queries", "three questions in polars", lambda s: _questions(s, "# polars\n", pl="polars"),
     P2P | {"package": "polars"}),
    ("questions_dask", "queries", "three questions in Dask DataFrame", lambda s: _questions(s, "# Dask DataFrame\n", dd="dask.dataframe"),
     P2P | {"package": "distributed"}),
    ("command_store", "goals", "`tracecols analyze STORE`", _command(ANALYZE), {}),
    ("command_memory", "goals", "`tracecols analyze STORE --memory 2GB`", _command(f"{ANALYZE} --memory 2GB"), {}),
    ("command_bins", "goals", "`tracecols analyze STORE --bins 100`", _command(f"{ANALYZE} --bins 100"), {}),
    ("command_phases", "goals", "`tracecols analyze STORE --phases from:MPI_Waitall`",
     _command(f"{ANALYZE} --phases from:MPI_Waitall"), {}),
    ("command_replay", "goals", "`tracecols analyze STORE --ideal-network`",
     _command(f"{ANALYZE} --ideal-network"), {}),
    ("command_first", "goals", "first `tracecols convert` and `analyze` after installation", _first_commands,
     ARCHIVE | {"missing": _no_bitcode}),
    ("command_help", "goals", "`tracecols --help`", _command("--help"), {}),
    ("scenario", "goals", "replay of one scenario", partial(_scenarios, n=1), {}),
    ("scenarios", "goals", "replay of ten scenarios", partial(_scenarios, n=10), {}),
    ("ask_messages", "goals", "`trace.messages` of a store", _ask(Subject.trace, lambda t: len(t.messages)), {}),
    ("ask_waits", "goals", "`trace.waits` of a store", _ask(Subject.trace, lambda t: len(t.waits)), {}),
    ("ask_critical_path", "goals", "`trace.critical_path()` of a store", _ask(Subject.trace, lambda t: len(t.critical_path())), {}),
)
# fmt: on

STEPS: dict[str, Step] = {row[0]: Step(*row[:4], **row[4]) for row in _STEPS}
"""Steps by name, in the order of measurement."""
