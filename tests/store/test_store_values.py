"""Stores whose values violate the schema although their checksums are right are refused with a message, without crashes."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.otf2_workload import everything

import tracecols
from tracecols.errors import StoreError
from tracecols.export.viewers import export_timeline
from tracecols.schema import DEFINITIONS, EVENTS, SIDE_TABLES, EventKind
from tracecols.store import Store, checks
from tracecols.store.arrow import to_arrow
from tracecols.store.layout import checksum


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """Return a store with all kinds of events."""
    folder = tmp_path_factory.mktemp("workload")
    archive = everything(folder / "archive" / "traces.otf2", rounds=3).write()
    return tracecols.convert(archive, folder / "x.trace", jobs=1)


@pytest.fixture
def store(sound, tmp_path) -> Path:
    """Return a copy of the store to be changed."""
    return shutil.copytree(sound, tmp_path / "x.trace")


def change(store: Path, table: str, /, **columns) -> None:
    """Change columns of a table by functions of their values; Parquet files are written with right checksums."""
    definition = store / "definitions" / f"{table}.parquet"
    path = definition if definition.exists() and table in DEFINITIONS else next((store / table).iterdir())
    file = pq.ParquetFile(path)
    found = file.read()
    arrays = []
    for field in found.schema:
        values = found.column(field.name)
        if field.name in columns:
            plain = pa.types.is_list(field.type) or pa.types.is_string(field.type)
            changed = values.to_pylist() if plain else values.to_numpy().copy()
            result = columns[field.name](changed)
            arrays.append(to_arrow(changed if result is None else result, field.type))
        else:
            arrays.append(values.combine_chunks())
    rows = max(file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
    out = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=found.schema), out, row_group_size=rows, write_page_checksum=True
    )
    path.write_bytes(out.getvalue())


def put(row: int, value):
    """Change one value."""

    def run(values):
        values[row] = value

    return run


def analyze(store: Path) -> None:
    tracecols.open(store, jobs=1).analyze()


def refusal(store: Path, use=analyze) -> str:
    """Use a store that must be refused; return the message without the path of the store."""
    with pytest.raises(StoreError) as raised:
        use(store)
    head, advice = str(raised.value).splitlines()
    assert advice == "  the store is damaged; convert the trace again"
    assert head.startswith(f"{store}: ")
    return head.removeprefix(f"{store}: ")


REFERENCES = [
    (table.name, column.name)
    for table in (EVENTS, *SIDE_TABLES.values())
    for column in table.columns
    if column.target in DEFINITIONS
]
"""Reference columns of events and side tables."""


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        *((*of, value) for of in REFERENCES for value in (-2, 1000)),
        *((*REFERENCES[0], value) for value in (2**31 - 1, -(2**31))),
    ],
)
def test_references__beyond_their_table_are_told(table, column, value, store):
    if not (store / table).exists():
        pytest.skip("no such events in OTF2")
    change(store, table, **{column: put(3, value)})
    target = {**SIDE_TABLES, "events": EVENTS}[table][column].target
    opened = Store(store)

    def read(_path):
        for location in range(opened.n_rows("events") and opened.manifest["n_locations"]):
            opened.read(table, location)

    assert re.fullmatch(
        rf"table {table}, column {column}, location \d+, row \d+: {value} is not a row of {target}, which are numbered from 0 to \d+.*",
        refusal(store, read),
    )


@pytest.mark.slow
def test_references__of_definitions_are_told(sound, tmp_path):
    n = 0
    for name, table in DEFINITIONS.items():
        rows = Store(sound).definition(name).num_rows
        for column in table.columns:
            if column.target not in DEFINITIONS or not rows:
                continue
            store = shutil.copytree(sound, tmp_path / f"{n}.trace")
            values = Store(sound).definition(name).column(column.name).to_pylist()
            if column.dtype.startswith("list"):
                at = next(i for i, v in enumerate(values) if v) if any(values) else -1
                if at < 0:
                    continue
                change(store, name, **{column.name: put(at, [10_000, *values[at][1:]])})
            else:
                change(store, name, **{column.name: put(rows - 1, 10_000)})
            told = refusal(store, lambda path: Store(path).definitions)
            assert told.startswith(f"definitions {name}, column {column.name}, row "), told
            assert "10000 is not a row of" in told
            n += 1
    assert n > 20


@pytest.mark.parametrize("table", [t for t in SIDE_TABLES if t not in ("ties", "enter_sites")])
def test_rows__of_side_tables_ascend_within_their_location(table, store):
    offset, n = 0, 0
    for segment in Store(store).definition("segments").to_pylist():
        if segment["table"] == table and segment["n_rows"] > 2:
            offset, n, location = segment["offset"], segment["n_rows"], segment["location"]
    assert n, table
    rows = Store(store).read(table, location)["row"]
    first, events = Store(store).first_rows[location], Store(store).n_rows("events", location)
    again = SIDE_TABLES[table].repeats
    for row, value, word in (
        (0, first - 1, "is not an event of the location"),
        (n - 1, first + events, "is not an event of the location"),
        (1, rows[0] - 1 if again else rows[0], "but rows ascend"),
        (n - 2, rows[n - 1] + 1, "but rows ascend"),
    ):
        if value == rows[row] or (word == "but rows ascend" and not first <= value < first + events):
            continue
        old = (next((store / table).iterdir())).read_bytes()
        change(store, table, row=put(offset + row, value))
        told = refusal(store, lambda path: Store(path).read(table, location))
        assert told.startswith(f"table {table}, column row, location {location}, row "), told
        assert word in told
        next((store / table).iterdir()).write_bytes(old)


def kinds_to(kind: int, of: int):
    """Turn the events of one kind into those of another."""
    return lambda values: np.where(values == of, kind, values).astype(np.uint8)


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        (EventKind.BUFFER_FLUSH, EventKind.METRIC), (EventKind.THREAD_TASK_SWITCH, EventKind.PARAMETER_INT),
        (EventKind.THREAD_TASK_COMPLETE, EventKind.IO_SEEK), (EventKind.THREAD_TEAM_BEGIN, EventKind.THREAD_TASK_CREATE),
        (EventKind.THREAD_FORK, EventKind.MPI_SEND), (EventKind.THREAD_JOIN, EventKind.THREAD_FORK),
        (EventKind.ENTER, EventKind.IO_SEEK), (EventKind.MPI_SEND, EventKind.IO_SEEK), (EventKind.MPI_SEND, EventKind.MPI_RECV),
        (EventKind.MPI_SEND, EventKind.RMA_PUT), (EventKind.METRIC, EventKind.IO_SEEK), (EventKind.IO_SEEK, EventKind.MPI_SEND),
        (EventKind.THREAD_TEAM_END, EventKind.THREAD_TEAM_BEGIN),
    ],
)  # fmt: skip
def test_kinds__of_events_are_those_of_their_side_tables(kind, of, store):
    """If there were more events than rows, kernels used to read past the end of arrays: SIGSEGV, or wrong times."""
    change(store, "events", kind=kinds_to(kind, of))
    assert "location" in refusal(store)


@pytest.mark.parametrize("kind", [EventKind.BUFFER_FLUSH, EventKind.THREAD_TASK_SWITCH, EventKind.ENTER])
def test_kinds__are_checked_for_pieces_and_timelines(kind, store, tmp_path):
    change(
        store, "events", kind=lambda values: np.full_like(values, kind), region=lambda values: np.full_like(values, -1)
    )
    trace = tracecols.open(store, jobs=1)
    span = (trace.manifest["first_time"] + trace.manifest["last_time"]) // 2
    assert "location" in refusal(
        store, lambda path: tracecols.open(path, jobs=1).analyze(start=float(trace.seconds(span)))
    )
    assert "location" in refusal(store, lambda path: export_timeline(path, tmp_path / "x.pftrace", jobs=1))


@pytest.mark.parametrize(
    ("table", "columns", "told"),
    [
        ("segments", {"offset": put(0, -5)}, r"definitions segments, column offset, row 0: -5, but"),
        ("segments", {"n_rows": put(1, -1)}, r"column n_rows, row 1: -1 is not a number of rows"),
        ("segments", {"n_rows": put(1, 1)}, r"column offset, row 2: \d+, but the rows of part 0 before end at \d+"),
        ("segments", {"location": put(1, 0)}, r"location 0 has rows of attributes already"),
        ("segments", {"table": put(-1, "p2p")}, r"has rows of p2p already|column offset"),
        ("locations", {"first_row": put(1, 7)}, r"definitions locations, column first_row, row 1: 7 instead of \d+"),
        ("locations", {"n_events": put(1, 7)}, r"definitions locations, column n_events, row 1: 7 instead of \d+"),
        ("locations", {"process": put(0, -1)}, r"column process, row 0: -1 is not a row of processes, which are numbered from 0 to \d+$"),
        ("system_tree_nodes", {"parent": lambda v: np.arange(v.size)[::-1].astype(np.int32)}, r"it is its own ancestor"),
        ("topologies", {"periodic": put(0, [1] * 9)}, r"row 0: dimensions, sizes, periodic have .* values, but one per dimension"),
        ("topologies", {"sizes": lambda v: [[-1] * len(x) for x in v]}, r"\[-1.*\] are not sizes of a grid"),
        ("metric_members", {"value_type": put(0, "object")}, r"'object' is none of int64, uint64, float64"),
        ("metric_classes", {"members": lambda v: v[::-1]}, r"table metrics_\d does not have the values of metric class \d"),
        ("groups", {"members": lambda v: [[99] * len(x) for x in v]}, r"99 is not a row of (locations|regions)"),
        ("properties", {"of": put(0, 77)}, r"column of, row 0: 77 is not a row of"),
        ("properties", {"table": put(0, "nothing")}, r"there is no definition table 'nothing'"),
    ],
)  # fmt: skip
def test_definitions__that_contradict_the_rest_are_told(table, columns, told, store):
    change(store, table, **columns)
    assert re.search(told, refusal(store, lambda path: Store(path).definitions))


def say(store: Path, **entries) -> Path:
    """Change entries of a manifest, with its checksum."""
    manifest = json.loads((store / "manifest.json").read_text())
    manifest = {k: v for k, v in {**manifest, **entries}.items() if v is not None}
    (store / "manifest.json").write_text(json.dumps({**manifest, "checksum": checksum(manifest)}))
    return store


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clock", {}), ("clock", {"resolution": 0, "origin": 0, "length": 0, "realtime": 0}), ("source", {"path": 3}), ("lost", [{}]),
        ("lost", 3), ("not_understood", {"x": "y"}), ("n_events", -1), ("n_events", True), ("n_locations", 2**70), ("first_time", 1.5),
        ("last_time", None), ("events_by_kind", {"x": 1}), ("events_by_kind", {"999": 1}), ("n_attributes", "many"),
    ],
)  # fmt: skip
def test_manifest__that_says_something_else_is_told(name, value, store):
    say(store, **{name: value})
    assert refusal(store, Store).startswith(f"manifest.json: {name} is ")


@pytest.mark.parametrize("n", [0, 6, 2**40])
def test_manifest__counts_the_locations_there_are(n, store):
    assert re.fullmatch(
        rf"definitions locations has \d+ rows, but the manifest counts {n}", refusal(say(store, n_locations=n), Store)
    )


@pytest.mark.parametrize("add", [{"12": 5}, {"14": 1}])
def test_manifest__counts_the_events_there_are(add, store):
    by_kind = json.loads((store / "manifest.json").read_text())["events_by_kind"]
    more = {**by_kind, **{k: by_kind.get(k, 0) + n for k, n in add.items()}}
    assert re.search(
        r"n_events is \d+, but events_by_kind adds up to \d+", refusal(say(store, events_by_kind=more), Store)
    )
    say(store, events_by_kind=more, n_events=sum(more.values()))
    assert re.search(r"table events has \d+ rows, but the manifest counts \d+", refusal(store))


def test_metrics__without_a_class_leave_the_others_in_place(archive, enhance):
    """Their events have no row in any table: values of the following ones must not slip to other call paths."""
    number = archive.metric_class(("c", "int64"))
    instance = archive.define("MetricInstance", self=99, metric_class=None, recorder=0, metric_scope=0, scope=0)
    (a,) = archive.mpi(1).ranks
    a.enter(0, "main").record(1, "Metric", source=instance, values=[]).enter(2, "f")
    a.record(3, "Metric", source=number, values=[(8, 5)]).leave(4, "f").leave(5, "main")
    model = enhance(archive)
    from tracecols.patterns.counters import counter_cells

    cells = counter_cells(model, [(0, 0)], "relative_point")
    assert [model.regions.name[model.call_paths.region[c]] for c in cells.call_path] == ["f"]
    assert cells.value.tolist() == [5]


def test_checks__know_every_reference_of_the_schema():
    """Each reference column refers to an existing table and is checked against it."""
    tables = [EVENTS, *SIDE_TABLES.values(), *DEFINITIONS.values()]
    targets = {c.target for t in tables for c in t.columns if c.target}
    assert targets <= {*DEFINITIONS, "events"}
    for table in SIDE_TABLES.values():
        columns = {c.name: np.array([1], c.dtype) for c in table.columns}
        for column in table.columns:
            if column.target in DEFINITIONS:
                of_one = checks.RowRanges(np.array([0]), np.array([9]), np.array([1]))
                assert (
                    checks.wrong_columns(table, {column.name: columns[column.name]}, of_one, lambda _: 1)[1]
                    == column.name
                )


def test_own_ancestor__is_found_at_any_depth():
    assert checks.own_ancestor(np.array([-1, 0, 1, 2, 3])) == -1
    assert checks.own_ancestor(np.zeros(0, np.int32)) == -1
    assert checks.own_ancestor(np.array([0])) == 0
    assert checks.own_ancestor(np.array([-1, 4, 1, 2, 3])) == 1
    deep = np.arange(-1, 4999)
    assert checks.own_ancestor(deep) == -1
    deep[1] = 4999
    assert checks.own_ancestor(deep) == 1


@pytest.mark.slow
def test_any_value__is_used_or_refused(tmp_path):
    """Values are changed at random, in a separate process with kernels as plain Python, where NumPy checks all bounds.
    Compiling kernels with bounds checks takes longer than the whole test."""
    tests = Path(__file__).parents[1]
    # no previously compiled kernels
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tests.parent), str(tests)])
    arguments = [sys.executable, "-m", "support.store_mutations", str(tmp_path / "stores"), "10000", "60"]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    used, refused = map(int, done.stdout.split())
    assert used + refused == 60
    assert min(used, refused) > 10


def test_rows__that_are_read_together_are_told_by_their_location(store):
    """The rows of all locations are checked at once; the error names the location of the wrong row."""
    opened = Store(store)
    counts = opened.counts("collectives")
    location = int(np.flatnonzero(counts)[-1])
    assert location > np.flatnonzero(counts)[0]
    segments = opened.definition("segments").to_pylist()
    offset = next(s["offset"] for s in segments if s["table"] == "collectives" and s["location"] == location)
    change(store, "collectives", communicator=put(offset + 1, 1000))

    def read(path):
        Store(path).read_together("collectives", np.flatnonzero(counts))

    assert refusal(store, read).startswith(
        f"table collectives, column communicator, location {location}, row 1: 1000 is not a row of communicators"
    )
