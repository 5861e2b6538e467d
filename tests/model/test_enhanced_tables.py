"""Enhanced tables as Parquet files: the same rows as in Python, for any partitioning; SQL, polars and Arrow; memory and
limits."""

from __future__ import annotations

import errno
import gc
import importlib.util
import json
import os
import re
import shutil
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import slow
from support.command_line import executed, python, run
from support.random_programs import RandomProgram

import tracecols
from benchmarks.generate import record
from tracecols.conversion import write_store
from tracecols.docs.site.declared import schema
from tracecols.enhance.dataflow import partitions
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import BESIDE, BUCKET, ONCE, RECEIVE, SEND, STAGES, WITHIN
from tracecols.enhance.mpi import collectives
from tracecols.errors import StoreError
from tracecols.export.tables import write_csv
from tracecols.frames.catalog import Catalog, side_name
from tracecols.model import event_rows, model, table_writer
from tracecols.model.model import kept_for, side_by_side_of
from tracecols.model.table_files import ENHANCED, find_table, find_tables, schema_of
from tracecols.model.table_writer import with_referred, write_tables
from tracecols.model.tables import STEP_OF, TABLES
from tracecols.schema import DEFINITIONS, SIDE_TABLES
from tracecols.store import Store

OF_SLICES = WITHIN, RECEIVE, SEND, BUCKET


@pytest.fixture
def own(store, tmp_path):
    """Return a copy of the store without enhanced tables, for one test."""
    return Path(shutil.copytree(store, tmp_path / "own.trace", ignore=shutil.ignore_patterns("enhanced")))


def in_python(trace, name):
    """Return the data frame of an enhanced table."""
    if name == "events":
        return trace.read_events().reset_index(drop=True)
    return trace.frame(name, raw=True)


def divide_small(monkeypatch, rows):
    """Make traces of a few hundred events large enough to be divided."""
    monkeypatch.setattr(partitions, "PARTITION_ROWS", rows)
    monkeypatch.setattr(collectives, "BUCKET_ROWS", max(rows // 8, 4))
    monkeypatch.setattr(table_writer, "ROWS", 50)
    monkeypatch.setattr(table_writer, "SAMPLE", 4)
    monkeypatch.setattr(table_writer, "PART_ROWS", 120)


def assert_same(store, parent, frames):
    for name, frame in frames.items():
        table = find_table(store, name, parent)
        found = table.frame()
        assert len(table) == len(frame)
        assert found.dtypes.to_dict() == frame.dtypes.to_dict(), name
        assert found.equals(frame), name


def same_for_any_partitioning(path, tmp_path, monkeypatch, rows, jobs=2):
    trace = tracecols.open(path)
    frames = {name: in_python(trace, name) for name in ENHANCED}
    waits, critical = trace.waits, trace.critical_path()
    divide_small(monkeypatch, rows)
    enhanced = model.enhance(trace.store, jobs)
    with enhanced.divided() as divided:
        n = len(divided.division)
    write_tables(enhanced, ENHANCED, tmp_path / "made")
    assert_same(trace.store, tmp_path / "made", frames)
    again = tracecols.open(path, jobs=jobs)
    for name, frame in frames.items():
        pd.testing.assert_frame_equal(in_python(again, name), frame, obj=name)
    pd.testing.assert_frame_equal(again.waits, waits)
    pd.testing.assert_frame_equal(again.critical_path(), critical)
    return n


# -- the rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [30, *slow([400, 1 << 30])])
def test_tables__are_the_frames_of_python_for_any_partitioning(rows, store, tmp_path, monkeypatch):
    n = same_for_any_partitioning(store, tmp_path, monkeypatch, rows)
    assert n == (2 if rows < 1000 else 1)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="disk space cannot be reserved")
@pytest.mark.parametrize("name", ["events", "messages"])
def test_tables__for_whose_mapped_files_there_is_no_disk_space(name, own, monkeypatch):
    """Storing into pages without disk space would end the process (SIGBUS)."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    divide_small(monkeypatch, 30)
    monkeypatch.setattr(table_writer, "rows_ascend", lambda _: False)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreError, match="No space left on device"):
        write_tables(tracecols.open(own).model, [name])
    assert find_tables(Store(own)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rma_real_5", "omp_mix_8"])
def test_tables__of_recorded_traces(name, shared_traces, tmp_path, monkeypatch):
    path = tracecols.convert(shared_traces / "otf2" / name, tmp_path / "x.trace")
    n = same_for_any_partitioning(path, tmp_path, monkeypatch, 50)
    assert n == {"rma_real_5": 5, "omp_mix_8": 1}[name]


@pytest.mark.slow
@pytest.mark.parametrize("program", ["multizone", "fft"])
def test_tables__of_generated_programs(program, tmp_path, monkeypatch):
    from benchmarks.generate import make

    source = make(program, 6, 2 if program == "multizone" else 1, 9000, depth=2)
    (tmp_path / "x.trace").mkdir()
    write_store(source, tmp_path / "x.trace", jobs=1, salvage=False, progress=None)
    assert same_for_any_partitioning(tmp_path / "x.trace", tmp_path, monkeypatch, 100) >= 5
    for name in ("sync_points", "delay_pairs", "root_causes", "run_causes"):
        assert len(find_table(Store(tmp_path / "x.trace"), name, tmp_path / "made")) > 20, name


@pytest.mark.slow
@pytest.mark.parametrize("ascends", [True, False])
def test_tables__of_programs_with_devices(ascends, tmp_path, monkeypatch):
    """Device tables used to have no order: the files of several processes held the rows of only one of them."""

    record("offload", tmp_path, 3, 2, 3000, 1)
    path = tracecols.convert(tmp_path / "traces.otf2", tmp_path / "x.trace")
    if not ascends:
        monkeypatch.setattr(table_writer, "rows_ascend", lambda _: False)
    assert same_for_any_partitioning(path, tmp_path, monkeypatch, 100) == 3
    for name in ("kernels", "copies", "device_syncs", "device_intervals"):
        assert len(find_table(Store(path), name, tmp_path / "made")) > 20, name


@pytest.mark.slow
@pytest.mark.parametrize("ascends", [True, False])
def test_tables__of_programs_that_create_threads(ascends, archive, tmp_path, monkeypatch):
    processes = [archive.process() for _ in range(3)]
    locations = [archive.location(f"thread {i}", processes[i // 4]) for i in range(12)]
    archive.group("comm_locations", locations, "pthread")
    archive.region("pthread_create", "thread_create", "pthread")
    for process in range(3):
        ranks = range(4 * process, 4 * process + 4)
        main, *threads = (locations[i] for i in ranks)
        pool = archive.comm("", ranks, paradigm="pthread")
        main.enter(0, "main")
        for k, thread in enumerate(threads, 1):
            main.enter(k, "pthread_create").create_thread(k, k, pool).leave(k, "pthread_create")
            thread.begin_thread(10 - k, k, pool).call(20, 30, "work")
            thread.end_thread(40 + process, k, pool)
        main.leave(50, "main")
    path = tracecols.convert(archive.write(), tmp_path / "x.trace")
    if not ascends:
        monkeypatch.setattr(table_writer, "rows_ascend", lambda _: False)
    assert same_for_any_partitioning(path, tmp_path, monkeypatch, 1) == 3
    table = find_table(Store(path), "created_threads", tmp_path / "made")
    assert (table.frame().create_enter >= 0).sum() == len(table) == 9
    assert len(table.files) == (3 if ascends else 1)


@pytest.mark.slow
def test_tables__where_the_locations_of_processes_alternate(archive, tmp_path, monkeypatch):
    """Rows of one partition lie between those of another, so their files cannot be concatenated."""

    program = RandomProgram(5, tmp_path / "traces.otf2", 60)
    path = tracecols.convert(tmp_path / "traces.otf2", tmp_path / "x.trace", jobs=1)
    del program
    trace = tracecols.open(path)
    process = trace.locations.process.to_numpy()
    division = partitions.divide(process, np.full(process.size, 1 << 30))
    assert len(division) > 1
    assert table_writer.rows_ascend(division)
    alternating = partitions.divide(np.arange(process.size) % 2, np.full(process.size, 1 << 30))
    assert not table_writer.rows_ascend(alternating)
    assert not table_writer.is_separable(TABLES["messages"], alternating)
    frames = {name: in_python(trace, name) for name in ENHANCED}
    divide_small(monkeypatch, 20)
    # merge even tables that could be written slice by slice
    monkeypatch.setattr(table_writer, "rows_ascend", lambda _: False)
    write_tables(trace.model, ENHANCED, tmp_path / "made")
    assert_same(trace.store, tmp_path / "made", frames)


@pytest.mark.slow
def test_tables__of_a_trace_without_events(data, tmp_path, archive):
    archive.mpi(2)
    path = tracecols.convert(archive.write(), tmp_path / "x.trace")
    write_tables(tracecols.open(path).model, ENHANCED)
    for name in ENHANCED:
        assert len(find_table(Store(path), name)) == 0


def test_tables__every_column_has_its_declared_type(store):
    trace = tracecols.open(store)
    for name, spec in TABLES.items():
        frame = in_python(trace, name)
        for column in spec.schema.columns:
            assert column.dtype == "string" or frame[column.name].dtype == column.dtype, (name, column.name)


def test_specs__say_what_slices_are_put_together_by():
    for spec in TABLES.values():
        assert bool(spec.order) == (spec.stage not in ("", *ONCE)), spec.name
        for target in spec.references.values():
            # rows of a slice are numbered within the slice, those of the whole trace globally
            assert TABLES[target].stage == spec.stage or {TABLES[target].stage, spec.stage} <= {*ONCE}
        assert not spec.by_location or STEP_OF[spec.name].makes == (spec.name,)
    assert with_referred(["construct_members"]) == ("teams", "constructs", "construct_members")


@pytest.mark.parametrize("wanted", [ENHANCED, ("root_causes",), ("sent_messages", "run_causes")])
def test_stages__forget_what_no_later_step_reads_and_make_nothing_twice(wanted, store, tmp_path, monkeypatch):
    divide_small(monkeypatch, 30)
    made, left = [], []
    get, forget = Spill.get, Spill.forget

    def counted(self, name, number, make, **given):
        return get(self, name, number, lambda: made.append((name, number)) or make(), **given)

    def noted(self, names):
        forget(self, names)
        left.append({name for name, _ in self._values})

    monkeypatch.setattr(Spill, "get", counted)
    monkeypatch.setattr(Spill, "forget", noted)
    write_tables(model.enhance(Store(store), 2), wanted, tmp_path / "made")
    assert len(made) == len(set(made)) > 20
    # only the limits of buckets are kept at the end, and what the last stages read before
    assert left[-1] == {"buckets"}
    assert "sync_points" in left[-2] and not {"outgoing_messages", "late_senders"} & left[-2]


def test_stages__that_run_beside_another_one_do_not_wait_for_it():
    for stage, before in BESIDE.items():
        assert STAGES.index(stage) == STAGES.index(before) + 1 and before in ONCE
        assert kept_for([stage], before) == []
    together = side_by_side_of(STAGES)
    assert [stage for stages in together for stage in stages] == [*STAGES]
    assert {tuple(stages) for stages in together if len(stages) > 1} == {(b, s) for s, b in BESIDE.items()}
    assert side_by_side_of(["causes", "spent", "sweep"]) == [["causes"], ["spent"], ["sweep"]]


@pytest.mark.slow
def test_finish__begins_when_nothing_is_kept_for_other_slices(store, tmp_path, monkeypatch):
    divide_small(monkeypatch, 30)
    runs, closed = [], []
    real, finish = model.Run.__init__, table_writer.finish_tables
    monkeypatch.setattr(model.Run, "__init__", lambda self, *given: runs.append(self) or real(self, *given))
    monkeypatch.setattr(
        table_writer, "finish_tables", lambda *a: closed.append(dict(runs[0].spill._values)) or finish(*a)
    )
    write_tables(model.enhance(Store(store), 1), ENHANCED, tmp_path / "made")
    assert closed == [{}]


# -- readers -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sql__sees_all_tables_under_the_names_of_python(own):
    pytest.importorskip("duckdb")
    trace = tracecols.open(own)
    for name in ("profile", "messages", "constructs", "region_instances", "startups", "epochs"):
        assert trace.sql(f"select count(*) n from {name}").n[0] == len(in_python(trace, name)), name
    joined = trace.sql(
        "select sum(m.sent) sent, any_value(c.sent) as whole from collective_members m join collectives c on c.row = m.collective group by c.row"
    )
    assert (joined.sent == joined["whole"]).all() and len(joined) == 12
    paths = trace.sql("select path from call_paths order by row")
    assert paths.path.tolist() == trace.call_paths.path.tolist()
    assert trace.sql("select * exclude (row) from messages order by row").equals(in_python(trace, "messages"))


@pytest.mark.slow
def test_names__are_the_same_in_python_sql_files_and_on_pages(own):
    """All interfaces that name tables agree with one declared list."""
    trace = tracecols.open(own)
    assert run("enhance", own).exit_code == 0
    assert {path.name for path in (own / "enhanced").iterdir()} == set(ENHANCED) == set(find_tables(trace.store))
    rows = {name: len(getattr(trace, name)) for name in ENHANCED}
    assert {name: len(trace.scan(name)) for name in ENHANCED} == rows
    if importlib.util.find_spec("duckdb"):
        counts = trace.sql(
            " union all ".join(f"select '{name}' as name, count(*) as n from {name}" for name in ENHANCED)
        )
        assert dict(zip(counts.name, counts.n, strict=True)) == rows
    pages = Path(tracecols.__file__).parent / "docs"
    declared = schema().split("\n## Enhanced events and call paths\n")[1].split("\n## Waits\n")[0]
    assert tuple(re.findall(r"^### (\w+)$", declared, re.M)) == ENHANCED
    page = (pages / "tables.md").read_text(encoding="utf-8")
    listed = page.split("`tracecols enhance` makes these: ")[1].split(".\n")[0]
    assert tuple(re.findall(r"`(\w+)`", listed)) == ENHANCED
    known = {*trace.catalog.names, *(side_name(name) for name in SIDE_TABLES)}
    asked = re.findall(r"(?:scan|frame|table)\(\"(\w+)\"|\bfrom (\w+) group", page)
    assert {name for pair in asked for name in pair if name} <= known
    attributes = set(re.findall(r"\btrace\.([a-z]\w*)", page)) - {"severity"}
    assert attributes <= {*known, *dir(trace)}


def test_sql__collectives_are_one_thing(own):
    pytest.importorskip("duckdb")
    trace = tracecols.open(own)
    assert side_name("collectives") == "collectives_events"
    assert trace.sql("select * from collectives limit 1").columns.tolist() == ["row", *in_python(trace, "collectives")]
    assert len(trace.sql("select * from collectives_events")) == len(trace.table("collectives"))
    assert trace.table("collectives_events").equals(trace.table("collectives"))
    assert len(trace.scan("collectives")) == 12
    assert len(trace.scan("collectives_events")) == len(trace.table("collectives"))


@pytest.mark.slow
def test_sql__makes_the_pointers_of_events_only_where_they_are_read(own):
    pytest.importorskip("duckdb")
    trace = tracecols.open(own)
    stored = trace.sql("select kind, count(*) n, min(row) first from events group by all order by kind")
    assert not (own / "enhanced").exists()
    waits = "select count(*) n from events r join events s on s.row = r.sendptr where s.time < r.time"
    assert trace.sql(waits).n[0] == 15
    assert list(find_tables(trace.store)) == ["events"]
    assert trace.sql("select kind, count(*) n, min(row) first from events group by all order by kind").equals(stored)
    assert trace.sql("select * from events order by row").set_index("row").equals(trace.read_events())


@pytest.mark.slow
def test_scan__gives_all_tables_there_are(own):
    trace = tracecols.open(own)
    for name in trace.catalog.names:
        table = trace.scan(name)
        assert len(table) == sum(batch.num_rows for batch in table.batches())
    assert set(trace.catalog.names) >= {"events", "call_paths", *TABLES, *DEFINITIONS, "p2p", "threads"}
    assert len(set(trace.catalog.names)) == len(trace.catalog.names)
    assert trace.scan("p2p").frame(["row", "tag"]).equals(trace.table("p2p")[["row", "tag"]])
    with pytest.raises(StoreError, match=r"no table 'mesages' in .*\n  did you mean messages"):
        trace.scan("mesages")
    with pytest.raises(StoreError, match="table rma has no rows"):
        trace.scan("rma")


def test_names__of_side_tables_do_not_collide():
    names = [side_name(name) for name in SIDE_TABLES]
    assert not set(names) & {*ENHANCED, *DEFINITIONS}
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_polars__reads_tables_lazily_and_as_streams(own):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    trace = tracecols.open(own)
    messages = polars.scan_parquet(trace.scan("messages").files, row_index_name="row")
    assert messages.select(polars.col("length").sum()).collect().item() == trace.messages.length.sum()
    for name in ("messages", "constructs", "events"):
        frame = polars.DataFrame(trace.scan(name))
        expected = in_python(trace, name)
        assert frame.columns == list(expected)
        assert all((frame[c].to_numpy() == expected[c].to_numpy()).all() for c in expected)
    assert polars.DataFrame(trace.model.constructs).equals(polars.DataFrame(trace.scan("constructs")))
    cube = trace.analyze()
    assert polars.DataFrame(cube).height == len(cube.frame())


@pytest.mark.slow
def test_duckdb__takes_tables_and_cubes_as_they_are(own):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    trace = tracecols.open(own)
    cube, files, arrays = trace.analyze(), trace.scan("construct_members"), trace.model.construct_members
    with duckdb.connect() as db:
        total = db.query("select sum(value) from cube where property = 'time'").df().iloc[0, 0]
        assert total == pytest.approx(cube.total("time"))
        counts = [
            db.query("select role, count(*) n from files group by 1 order by 1").df(),
            db.query("select role, count(*) n from arrays group by 1 order by 1").df(),
        ]
        assert counts[0].equals(counts[1])
        assert counts[0].n.sum() == len(files) == len(arrays)


def test_arrow__streams_come_piece_by_piece_with_declared_types(own):
    trace = tracecols.open(own)
    for source in (trace.scan("lock_acquisitions"), trace.model.lock_acquisitions):
        found = pa.table(source)
        assert [str(t) for t in found.schema.types] == [c.dtype for c in TABLES["lock_acquisitions"].schema.columns]
        assert found.to_pandas().equals(in_python(trace, "lock_acquisitions"))
    reader = pa.RecordBatchReader.from_stream(trace.scan("events"))
    assert reader.schema.names == list(schema_of("events").names)
    assert reader.read_all().num_rows == 6708


# -- made once, kept, removed ------------------------------------------------------------------------------------------


def count_writes(monkeypatch):
    written = []
    real = write_tables
    monkeypatch.setattr(
        "tracecols.frames.catalog.write_tables", lambda m, names, *a: written.append(tuple(names)) or real(m, names, *a)
    )
    return written


@pytest.mark.slow
def test_tables__are_made_once_and_again_for_another_store_or_version(own, monkeypatch):
    written = count_writes(monkeypatch)
    tracecols.open(own).scan("messages")
    tracecols.open(own).scan("messages")
    assert written == [("messages",)]
    manifest = own / "enhanced" / "messages" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "of": "another store"}))
    tracecols.open(own).scan("messages")
    monkeypatch.setattr("tracecols.model.table_files.__version__", "99")
    tracecols.open(own).scan("messages")
    (own / "enhanced" / "messages" / "part-00000.parquet").unlink()
    tracecols.open(own).scan("messages")
    assert written == [("messages",)] * 4
    tracecols.open(own).scan("constructs")
    assert written[-1] == ("teams", "constructs")


def test_tables__of_a_store_that_is_converted_again_are_gone(own, data):
    tracecols.open(own).scan("messages")
    tracecols.convert(data / "coll", own)
    assert not (own / "enhanced").exists()


def test_tables__are_complete_or_not_there(own, monkeypatch):
    trace = tracecols.open(own)

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(table_writer, "finish_tables", fail)
    with pytest.raises(KeyboardInterrupt):
        trace.scan("messages")
    assert not (own / "enhanced").exists()


@pytest.mark.slow
def test_tables__of_a_store_that_cannot_be_written_stand_elsewhere(own, monkeypatch):
    trace = tracecols.open(own)
    monkeypatch.setattr("tracecols.frames.catalog.os.access", lambda *_: False)
    table = trace.scan("sends")
    assert not (own / "enhanced").exists()
    assert table.frame().equals(in_python(trace, "sends"))
    folder = table.files[0].parent
    assert trace.scan("sends").files == table.files
    del table, trace
    gc.collect()
    assert not folder.exists()


def test_tables__are_freed_with_the_last_reference(store):
    """Tables with columns that refer to the table used to keep the data of a window until garbage was collected."""
    whole = model.enhance(Store(store), 1)
    steps = {s.makes[0]: s for s in map(STEP_OF.get, TABLES) if s.stage in OF_SLICES}
    read = {name: [whole._read(what) for what in step.reads] for name, step in steps.items()}
    gc.collect()
    gc.disable()
    try:
        for name, step in steps.items():
            made = step.function(*read[name])
            tables = [of for of in (made if isinstance(made, tuple) else (made,)) if isinstance(of, CompoundTable)]
            left = [weakref.ref(table) for table in tables]
            del made, tables
            assert [ref() for ref in left] == [None] * len(left), name
    finally:
        gc.enable()


def test_enhance__of_a_read_only_store_fails(own, monkeypatch):
    assert run("enhance", own, "messages").exit_code == 0
    monkeypatch.setattr("tracecols.frames.catalog.os.access", lambda _, mode: mode != os.W_OK)
    # existing tables need not be written
    assert run("enhance", own, "messages").exit_code == 0
    for arguments in (["collectives"], ["messages", "--again"], []):
        output = executed("enhance", own, *arguments, code=1)
        assert output == (
            f"error: cannot write {own / 'enhanced'}: the store is read-only\n"
            "  make it writable, or copy it to a folder you may write to\n"
        )
    assert not (own / "enhanced" / "collectives").exists()


@pytest.mark.slow
def test_enhance__of_a_store_without_write_permission_fails(own, unprivileged, forbid):
    forbid(own, 0o555)
    result = unprivileged("enhance", own)
    assert result.returncode == 1
    assert "the store is read-only\n  make it writable, or copy it" in result.stderr
    assert not (own / "enhanced").exists()


def test_tables__no_room_is_reported(own, monkeypatch):
    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table_writer, "part_writer", full)
    with pytest.raises(StoreError, match="No space left on device"):
        tracecols.open(own).scan("messages")


@pytest.mark.slow
def test_commands__know_the_folder_of_enhanced_tables(own):
    before = run("info", own).output
    assert run("enhance", own, "messages", "collectives").exit_code == 0
    info = run("info", own).output
    assert "messages, collectives" in info
    size = next(line for line in before.splitlines() if line.startswith("store"))
    assert size.split() == next(line for line in info.splitlines() if line.startswith("store")).split()
    assert run("check", own).output == "nothing contradicts itself\n"
    assert run("analyze", own, "-o", own.parent / "x.severity").exit_code == 0


@pytest.mark.slow
def test_enhance__writes_all_tables_or_some(own, monkeypatch):
    written = count_writes(monkeypatch)
    assert f"{own}/enhanced/messages: 15 rows" in executed("enhance", own, "teams", "messages")
    assert len(executed("enhance", own).splitlines()) == len(ENHANCED)
    assert run("enhance", own).exit_code == 0
    assert run("enhance", own, "teams", "--again").exit_code == 0
    assert written[0] == ("messages", "teams") or written[0] == ("teams", "messages")
    assert len(written) == 3 and len(written[1]) == len(ENHANCED) - 2 and written[2] == ("teams",)
    assert "there are events, call_paths" in executed("enhance", own, "mesages", code=1)


def test_export__takes_the_same_names(own, tmp_path):
    for name, rows in (("collectives", 12), ("collectives_events", 48), ("call_paths", 56)):
        assert run("export", own, tmp_path / f"{name}.parquet", "--table", name).exit_code == 0
        assert pq.ParquetFile(tmp_path / f"{name}.parquet").metadata.num_rows == rows


def test_export__as_csv_writes_long_lists_in_full(tmp_path):
    """Numpy leaves out the middle of lists of more than 1,000 numbers."""
    write_csv(pd.DataFrame({"members": [np.arange(2000), np.arange(0)]}), tmp_path / "x.csv")
    assert pd.read_csv(tmp_path / "x.csv").members.map(json.loads).tolist() == [list(range(2000)), []]


def test_export__as_json_keeps_all_decimals_of_times(own, tmp_path):
    assert run("export", own, tmp_path / "m.json", "--table", "messages").exit_code == 0
    found = pd.read_json(tmp_path / "m.json", precise_float=True).send_seconds
    assert found.tolist() == pytest.approx(tracecols.open(own).messages.send_seconds.tolist(), rel=0, abs=1e-15)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_frames__say_what_they_take_and_are_refused_beyond_a_limit(store):
    trace = tracecols.open(store)
    for name in ("events", "messages", "sends", "receives", "sent_messages", "collective_members", "lock_acquisitions"):
        frame = in_python(trace, name)
        assert trace.frame_bytes(name) >= sum(frame[c].to_numpy().nbytes for c in frame) > 0
    small = tracecols.open(store, frame_limit=trace.frame_bytes("events") - 1)
    with pytest.raises(
        StoreError, match=r"a data frame of events would take up to .* limit(.|\n)*scan\('events'\).*frame_limit"
    ) as e:
        _ = small.events
    assert "tracecols enhance" in e.value.for_shell
    assert len(small.read_events(0)) < len(trace.events)
    tiny = tracecols.open(store, frame_limit=500)
    for name in ("messages", "collectives", "constructs"):
        with pytest.raises(StoreError, match=f"a data frame of {name}"):
            getattr(tiny, name)
    with pytest.raises(StoreError, match="region_instances"):
        tiny.region_instances()
    tiny.frame_limit = None
    assert len(tiny.messages) == 15
    with pytest.raises(StoreError, match="not a number of bytes"):
        tracecols.open(store, frame_limit="much")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [30, 1 << 30])
def test_events__are_the_same_for_any_partitioning_and_selection(rows, store, monkeypatch):
    shown, whole = tracecols.open(store).events, tracecols.open(store).read_events()
    divide_small(monkeypatch, rows)
    monkeypatch.setattr(event_rows, "BATCH", 100)
    trace = tracecols.open(store)
    assert trace.events.equals(shown)
    assert trace.read_events().equals(whole)
    some = trace.read_events([5, 1], start=0.3, stop=0.4)
    assert some.equals(whole.loc[some.index])
    assert some.location.unique().tolist() == [5, 1]
    one = trace.read_events(3, columns=["forkptr", "pos"])
    assert one.equals(whole[whole.location == 3][["forkptr", "pos"]])


def test_events__only_what_is_asked_for_is_computed(store):
    trace = tracecols.open(store)
    model_ = trace.model
    trace.read_events(columns=["enterptr", "exitptr", "call_path", "cnodeptr", "cedgeptr"])
    assert not {"messages", "lockptr", "teams", "point_to_point"} & set(model_._values)


@pytest.mark.slow
def test_events__memory_is_little_more_than_the_frame(tmp_path):

    from benchmarks.generate import make

    (tmp_path / "x.trace").mkdir()
    write_store(
        make("multizone", 16, 4, 1_500_000, depth=4), tmp_path / "x.trace", jobs=2, salvage=False, progress=None
    )
    code = f"""
import tracecols
from benchmarks.process import held, peak, reset_peak
trace = tracecols.open({str(tmp_path / "x.trace")!r}, jobs=2)
trace.read_events(0, stop=0.001)
before = held()
reset_peak()
frame = trace.events
print((peak() - before) / sum(frame[c].to_numpy().nbytes for c in frame))
"""
    assert float(python("-c", code).stdout) < 1.3


def test_catalog__two_threads_make_a_table_once(own, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    written = count_writes(monkeypatch)
    trace = tracecols.open(own)
    assert isinstance(trace.catalog, Catalog)
    with ThreadPoolExecutor(4) as pool:
        sizes = list(pool.map(lambda _: len(trace.scan("messages")), range(8)))
    assert sizes == [15] * 8
    assert written == [("messages",)]


@pytest.mark.slow
def test_page__the_same_questions_have_the_same_answers(own):
    """Run the code of docs/tables.md in pandas and SQL, and in polars if it is installed."""
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    text = (Path(tracecols.__file__).parent / "docs" / "tables.md").read_text(encoding="utf-8")
    queries = text.split("```sql")[1].split("```")[0].split(";")[:3]
    trace = tracecols.open(own)
    m, r = trace.messages, trace.region_instances()
    sizes, late, regions = (trace.sql(query) for query in queries)
    assert sizes.iloc[:, 2].sum() == m.length.sum()
    wait = np.minimum(m.send_enter_time, m.recv_exit_time) - m.recv_enter_time
    assert late.iloc[:, 1].tolist() == wait[wait > 0].groupby(m.recv_call_path).sum().nlargest(5).tolist()
    ticks = (r.exit_time - r.enter_time).groupby(r.region).sum()
    assert dict(zip(regions.iloc[:, 0], regions.iloc[:, 1], strict=True)) == ticks.to_dict()
    polars = pytest.importorskip("polars", reason="polars is not installed")
    names = {"pl": polars, "trace": trace}
    exec(compile(text.split("# polars\n")[1].split("```")[0], "tables.md", "exec"), names)
    assert names["late"].collect()["wait"].sum() == wait[wait > 0].sum()
