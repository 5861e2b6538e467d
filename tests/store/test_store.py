"""The store: data is read as written, whole or by range, for any number of threads; damage is reported."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import LONG
from support.command_line import python
from support.otf2_workload import everything
from support.otf2_writer import Archive
from support.store_changes import Numbers, change, definitions_for

import tracecols
from tracecols import conversion
from tracecols.converters.base import Clock, Report
from tracecols.converters.otf2 import archive as archive_module
from tracecols.converters.registry import open_source
from tracecols.errors import SourceError, StoreError
from tracecols.schema import DEFINITIONS, SIDE_TABLES, EventKind, metric_table
from tracecols.store import Store, StoreWriter


@pytest.fixture(scope="module")
def workload(tmp_path_factory) -> Path:
    """Return an archive with all record types."""
    return everything(tmp_path_factory.mktemp("archive") / "traces.otf2", rounds=30, seed=3).write()


def content(store: Store) -> dict[tuple[str, int, str], bytes]:
    """Return every column of every location as bytes."""
    n_locations = store.definition("locations").num_rows
    return {
        (table, location, name): column.tobytes()
        for table in sorted(store.tables)
        for location in range(n_locations)
        for name, column in store.read(table, location).items()
    }


def files(store: Store) -> dict[str, bytes]:
    """Return every file of a store by its name."""
    return {str(p.relative_to(store.path)): p.read_bytes() for p in store.path.rglob("*") if p.is_file()}


def manifest_for(n_locations: int) -> dict[str, object]:
    """Return the entries that a conversion adds to a manifest."""
    return {
        "written_by": "tests",
        "source": {"path": "numbers", "format": "numbers"},
        "clock": asdict(Clock(1000)),
        "n_locations": n_locations,
        "not_understood": {},
        "lost": [],
    }


def write(source: Numbers, folder: Path, jobs: int = 1) -> Store:
    """Write a source into a folder."""
    folder.mkdir()
    conversion.write_store(source, folder, jobs=jobs, salvage=False, progress=None)
    return Store(folder)


# -- data is read as written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_events", [[0], [1], [5, 0, 3], [2500, 1000, 999, 1001], [0, 0, 7000]])
def test_round_trip__of_columns(n_events, tmp_path):
    store = write(Numbers(n_events), tmp_path / "x.trace")
    first = 0
    for location, n in enumerate(n_events):
        number = np.arange(n)
        events = store.read("events", location)
        assert {k: v.dtype for k, v in events.items()} == {"time": np.int64, "kind": np.uint8, "region": np.int32}
        np.testing.assert_array_equal(events["time"], 1_000_000 * location + number)
        np.testing.assert_array_equal(events["kind"], np.where(number % 3 == 0, 57, 31))
        np.testing.assert_array_equal(events["region"], number % 5 - 1)
        locks = store.read("locks", location)
        np.testing.assert_array_equal(locks["row"], number[::3] + first)
        np.testing.assert_array_equal(locks["lock"], number[::3] * 7 - location)
        if n:
            np.testing.assert_array_equal(store.read("metrics_0", location)["value_0"], number / 7)
        assert store.n_rows("events", location) == n
        assert store.n_rows("locks", location) == number[::3].size
        first += n
    assert store.definition("locations")["n_events"].to_pylist() == n_events
    assert store.definition("locations")["first_row"].to_pylist() == [0, *np.cumsum(n_events)[:-1].tolist()]
    assert store.n_rows("events") == sum(n_events) == store.manifest["n_events"]
    assert sum(store.manifest["events_by_kind"].values()) == sum(n_events)
    if sum(n_events):
        used = [i for i, n in enumerate(n_events) if n]
        assert store.manifest["first_time"] == 1_000_000 * used[0]
        assert store.manifest["last_time"] == 1_000_000 * used[-1] + n_events[used[-1]] - 1


def test_round_trip__of_edges_of_types(tmp_path):
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    times = np.array([low, -1, 0, 1, high])
    events = {"time": times, "kind": np.full(5, 255, np.uint8), "region": np.array([-1, 0, 1, 2, 3], np.int32)}
    attributes = {
        "row": np.arange(5),
        "attribute": np.full(5, -1, np.int32),
        "type": np.arange(5, dtype=np.uint8) + 251,
        "value": times[::-1].copy(),
    }
    floats = np.array([np.nan, -0.0, np.inf, 5e-324, -1e308])
    metrics = {
        "row": np.arange(5),
        "source": np.zeros(5, np.int32),
        "value_0": floats,
        "value_1": np.array([0, 1, 1 << 63, (1 << 64) - 1, 7], np.uint64),
    }
    folder = tmp_path / "x.trace"
    folder.mkdir()
    writer = StoreWriter(folder, [["float64", "uint64"]])
    with writer.part(0) as part:
        part.add([(0, 5)], 0, events, {"attributes": attributes, "metrics_0": metrics})
    writer.finish(definitions_for([5], ("float64", "uint64")), [part.part], manifest_for(1))
    store = Store(folder)
    for table, columns in (("events", events), ("attributes", attributes), ("metrics_0", metrics)):
        found = store.read(table, 0)
        assert list(found) == list(columns)
        for name, column in columns.items():
            assert found[name].dtype == column.dtype
            assert found[name].tobytes() == column.tobytes(), name
    assert store.manifest["first_time"] == low
    assert store.manifest["last_time"] == high
    assert store.manifest["n_attributes"] == 5
    declared = metric_table(0, ["float64", "uint64"])
    assert [(c.name, c.dtype) for c in store.tables["metrics_0"].columns] == [
        (c.name, c.dtype) for c in declared.columns
    ]


def test_round_trip__of_definitions(tmp_path):
    definitions = definitions_for([0])
    definitions["strings"] = {"id": [0, 1 << 62, -5], "string": ["", "ä ☃ \U0001f600", "a\nb\0c"]}
    definitions["groups"] = {
        "id": [3, 4],
        "name": ["", "g"],
        "type": ["locations", "metric"],
        "paradigm": ["mpi", "none"],
        "flags": [0, 1],
        "members": [[], [1 << 62, -1, 0]],
    }
    folder = tmp_path / "x.trace"
    folder.mkdir()
    StoreWriter(folder, []).finish(definitions, [], manifest_for(1))
    store = Store(folder)
    assert set(store.definitions) == set(DEFINITIONS)
    for name, columns in definitions.items():
        if name != "segments":
            assert store.definition(name).to_pydict() == columns


def test_a_store_that_was_just_written__has_the_definitions_of_its_files(workload, tmp_path, monkeypatch):
    path = tmp_path / "x.trace"
    written = Store(path, conversion.convert_opened(open_source(workload), path, jobs=1))
    read = {name: Store(path).definition(name) for name in DEFINITIONS}
    # the definitions are not read from files
    monkeypatch.setattr(Store, "_open", None)
    for name in DEFINITIONS:
        assert written.definition(name).equals(read[name]), name


def test_read__by_range_and_column(tmp_path):
    n = 5300
    store = write(Numbers([100, n, 50]), tmp_path / "x.trace")
    for table in ("events", "locks", "metrics_0"):
        whole = store.read(table, 1)
        size = store.n_rows(table, 1)
        bounds = sorted({0, 1, 999, 1000, 1001, 1766, 2000, size - 1, size})
        for start in bounds:
            for stop in [*bounds, None, size + 5]:
                part = store.read(table, 1, start=start, stop=stop)
                for name, column in whole.items():
                    np.testing.assert_array_equal(part[name], column[start:stop])
                    assert part[name].dtype == column.dtype
    assert list(store.read("events", 1, ["region", "time"])) == ["region", "time"]
    np.testing.assert_array_equal(store.read("locks", 1, ["lock"], 5, 9)["lock"], whole_locks(n)[5:9] * 7 - 1)


def whole_locks(n: int) -> np.ndarray:
    """Return the numbers of the events of `Numbers` that have locks."""
    return np.arange(0, n, 3)


def test_read__of_a_table_without_rows(tmp_path):
    store = write(Numbers([10]), tmp_path / "x.trace")
    for name in set(SIDE_TABLES) - {"locks"}:
        found = store.read(name, 0)
        assert {k: (v.size, v.dtype) for k, v in found.items()} == {
            c.name: (0, np.dtype(c.dtype)) for c in SIDE_TABLES[name].columns
        }
        assert store.n_rows(name) == store.n_rows(name, 0) == 0
    with pytest.raises(StoreError, match=r"has no table metrics_9\n.*locks"):
        store.read("metrics_9", 0)


def test_segments__say_where_rows_stand(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "plan_parts", lambda n: [range(2), range(2, 3), range(3, 5)])
    n_events = [1500, 10, 0, 2200, 3]
    store = write(Numbers(n_events), tmp_path / "x.trace")
    segments = store.definition("segments").to_pylist()
    assert segments == sorted(segments, key=lambda s: (s["table"], s["location"]))
    assert [(s["location"], s["part"], s["offset"], s["n_rows"]) for s in segments if s["table"] == "events"] == [
        (0, 0, 0, 1500),
        (1, 0, 1500, 10),
        (3, 2, 0, 2200),
        (4, 2, 2200, 3),
    ]
    assert sorted(p.name for p in (store.path / "events").iterdir()) == ["part-00000.parquet", "part-00002.parquet"]
    for segment in segments:
        table = pq.ParquetFile(store.path / segment["table"] / f"part-{segment['part']:05d}.parquet").read()
        rows = table.slice(segment["offset"], segment["n_rows"])
        for name, column in store.read(segment["table"], segment["location"]).items():
            np.testing.assert_array_equal(rows[name].to_numpy(), column)


def row_groups(store):
    meta = pq.ParquetFile(store.path / "events" / "part-00000.parquet").metadata
    return [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]


def test_row_groups__of_events_are_shared_by_small_locations(tmp_path, monkeypatch):
    n_events = [1500, 10, 0, 2200, 3]
    store = write(Numbers(n_events), tmp_path / "x.trace")
    assert row_groups(store) == [sum(n_events)]
    monkeypatch.setattr("tracecols.store.writer.EVENT_ROWS", 1000)
    again = write(Numbers(n_events), tmp_path / "y.trace")
    # batches of 1000 events are written at once, smaller ones are collected
    assert row_groups(again) == [1000, 510, 1000, 1000, 203]
    for location in range(len(n_events)):
        for name, column in store.read("events", location).items():
            np.testing.assert_array_equal(again.read("events", location)[name], column)


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3, 4], [1, 3], [2], [4, 0, 3], []])
def test_rows_of_several_locations__are_those_of_each(chosen, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "plan_parts", lambda n: [range(2), range(2, 5)])
    monkeypatch.setattr("tracecols.store.writer.EVENT_ROWS", 1000)
    store = write(Numbers([1500, 10, 0, 2200, 3]), tmp_path / "x.trace")
    for table in ("events", "p2p", "locks"):
        found, counts = store.read_together(table, np.array(chosen, np.int64))
        assert counts.tolist() == [store.n_rows(table, i) for i in chosen]
        for name, column in found.items():
            each = [store.read(table, i)[name] for i in chosen]
            np.testing.assert_array_equal(column, np.concatenate([*each, np.empty(0, column.dtype)]))


def test_plan__covers_all_locations_once_and_in_order():
    for n_events in ([], [0], [5], [1 << 18] * 5, [1 << 30, 1, 1, 1 << 30], list(range(3000)), [1 << 26] * 300):
        parts = conversion.plan_parts(n_events)
        assert [i for part in parts for i in part] == list(range(len(n_events)))
    # 2**19 events at least and at most 2**25 per part, unless one location has more
    assert len(conversion.plan_parts([1000] * 524)) == 1
    assert [len(p) for p in conversion.plan_parts([1 << 19] * 4)] == [1, 1, 1, 1]
    assert max(sum([1 << 24] * len(p)) for p in conversion.plan_parts([1 << 24] * 1000)) <= 1 << 25


# -- independent of the machine ----------------------------------------------------------------------------------------


def test_jobs__do_not_change_a_byte(workload, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "plan_parts", lambda n: [range(k, k + 1) for k in range(len(n))])
    stores = [Store(tracecols.convert(workload, tmp_path / f"{jobs}.trace", jobs=jobs)) for jobs in (1, 2, 7)]
    assert len(files(stores[0])) > 60
    assert files(stores[0]) == files(stores[1]) == files(stores[2])


@pytest.mark.parametrize("rows", [128, 500])
def test_chunking__does_not_change_columns(rows, workload, tmp_path, monkeypatch):
    whole = content(Store(tracecols.convert(workload, tmp_path / "whole.trace")))
    monkeypatch.setattr(archive_module, "ROWS", rows)
    monkeypatch.setattr("tracecols.store.writer.SIDE_ROWS", 64)
    monkeypatch.setattr("tracecols.store.writer.EVENT_ROWS", 64)
    parts = Store(tracecols.convert(workload, tmp_path / "parts.trace"))
    assert pq.ParquetFile(parts.path / "events" / "part-00000.parquet").metadata.num_row_groups > 10
    assert content(parts) == whole


def test_partition__does_not_change_columns(workload, tmp_path, monkeypatch):
    whole = content(Store(tracecols.convert(workload, tmp_path / "whole.trace")))
    monkeypatch.setattr(conversion, "plan_parts", lambda n: [range(3), range(3, len(n))])
    assert content(Store(tracecols.convert(workload, tmp_path / "parts.trace", jobs=2))) == whole


def test_reading__by_several_threads(tmp_path):
    store = write(Numbers([3000] * 8), tmp_path / "x.trace")
    expected = content(Store(store.path))
    found: list[dict] = []
    threads = [threading.Thread(target=lambda: found.append(content(store))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_progress__reaches_the_number_of_events(workload, tmp_path):
    seen: list[tuple[int, int]] = []
    store = Store(tracecols.convert(workload, tmp_path / "x.trace", jobs=1, progress=lambda *n: seen.append(n)))
    assert seen[-1] == (store.manifest["n_events"],) * 2
    assert seen == sorted(seen)


# -- complete or not at all --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("fail_at", [(0, 0), (2, 1000), (3, 0)])
def test_failure__leaves_nothing(fail_at, jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "plan_parts", lambda n: [range(2), range(2, 4)])
    monkeypatch.setattr(conversion, "open_source", lambda _: Numbers([2000] * 4, fail_at=fail_at))
    with pytest.raises(SourceError, match="made to fail"):
        tracecols.convert("numbers", tmp_path / "x.trace", jobs=jobs)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError, OSError(28, "No space left on device")])
def test_failure__of_any_kind_keeps_the_older_store(error, workload, tmp_path, monkeypatch):
    out = tmp_path / "x.trace"
    before = files(Store(tracecols.convert(workload, out)))

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(StoreWriter, "finish", fail)
    expected = StoreError if isinstance(error, OSError) else error
    with pytest.raises(expected) as raised:
        tracecols.convert(workload, out)
    assert files(Store(out)) == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.trace"]
    if expected is StoreError:
        assert "cannot write" in str(raised.value)
        assert "No space left on device" in str(raised.value)


def test_older_store__is_replaced_at_the_end_only(workload, tmp_path, monkeypatch):
    out = tmp_path / "x.trace"
    tracecols.convert(workload, out)
    (out / "mark.parquet").write_text("old")
    finish = StoreWriter.finish

    def check(*arguments: object) -> None:
        finish(*arguments)
        assert (out / "mark.parquet").read_text() == "old"
        Store(out)

    monkeypatch.setattr(StoreWriter, "finish", check)
    tracecols.convert(workload, out)
    assert not (out / "mark.parquet").exists()


def test_older_store__behind_a_link(workload, tmp_path):
    tracecols.convert(workload, tmp_path / "there" / "x.trace")
    (tmp_path / "link.trace").symlink_to(tmp_path / "there" / "x.trace")
    (tmp_path / "there" / "x.trace" / "mark.parquet").write_text("old")
    tracecols.convert(workload, tmp_path / "link.trace")
    assert (tmp_path / "link.trace").is_symlink()
    assert Store(tmp_path / "link.trace").manifest["n_events"] > 0
    assert not (tmp_path / "there" / "x.trace" / "mark.parquet").exists()
    assert [p.name for p in (tmp_path / "there").iterdir()] == ["x.trace"]


# -- damage ------------------------------------------------------------------------------------------------------------


def test_store__does_not_exist(tmp_path):
    with pytest.raises(StoreError, match=r"no such store: .*none\.trace\n.*tracecols convert"):
        Store(tmp_path / "none.trace")


@pytest.mark.parametrize("text", [None, "", "{", "[]", "3", "\xff"])
def test_manifest__is_missing_or_nonsense(text, tmp_path):
    if text is not None:
        (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError, match=r"is not a store: its manifest\.json is missing or unreadable\n  convert"):
        Store(tmp_path)


def test_manifest__of_something_else(tmp_path):
    (tmp_path / "manifest.json").write_text('{"format": "tracecols severity"}')
    with pytest.raises(StoreError, match="'tracecols severity'"):
        Store(tmp_path)


def test_manifest__of_another_version(tmp_path):
    store = write(Numbers([10]), tmp_path / "x.trace")
    for version in (0, 1, 2, 4, "3", None):
        with pytest.raises(
            StoreError, match=rf"has store format {version}, this tracecols reads 3\n  convert the trace"
        ):
            Store(change(store, version=version))


@pytest.mark.slow
def test_manifest__with_any_other_value(tmp_path, data):
    """Every change is detected, since no other part of a store repeats the manifest."""
    path = tracecols.convert(data / "late_sender", tmp_path / "x.trace") / "manifest.json"
    text = path.read_text()
    n = 0
    for i in range(0, len(text), 3):
        changed = text[:i] + chr(ord(text[i]) ^ 1) + text[i + 1 :]
        path.write_bytes(changed.encode())
        try:
            assert Store(path.parent).manifest == json.loads(text)
        except StoreError as error:
            n += 1
            assert "\n  " in str(error)
    assert n > len(text) // 4


def test_manifest__that_leaves_out_a_table(tmp_path, data):
    store = Store(tracecols.convert(data / "late_sender", tmp_path / "x.trace"))
    tables = {name: columns for name, columns in store.manifest["tables"].items() if name != "p2p"}
    with pytest.raises(StoreError, match=r"manifest.json does not list the table p2p\n  the store is damaged"):
        tracecols.open(change(store, tables=tables)).analyze()


def test_manifest__with_other_tables(tmp_path):
    store = write(Numbers([10]), tmp_path / "x.trace")
    for tables in (None, 3, [1], {"locks": 5}, {"locks": [{"name": "row"}]}):
        with pytest.raises(StoreError, match="does not say what tables there are"):
            Store(change(store, tables=tables))
    with pytest.raises(StoreError, match="table locks has other columns"):
        Store(change(store, tables={"locks": [{"name": "row", "dtype": "int64"}]}))
    swapped = [*store.manifest["tables"]["metrics_0"][:-1], {"name": "value_0", "dtype": "int64"}]
    other = Store(change(store, tables={**store.manifest["tables"], "metrics_0": swapped}))
    with pytest.raises(StoreError, match=r"part-00000\.parquet has other columns than the manifest says"):
        other.read("metrics_0", 0)


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "head", "text"])
@pytest.mark.parametrize(
    "name", ["events/part-00000", "locks/part-00000", "definitions/segments", "definitions/regions"]
)
def test_file__is_damaged(name, damage, tmp_path):
    store = write(Numbers([3000]), tmp_path / "x.trace")
    path = store.path / f"{name}.parquet"
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {"empty": b"", "short": data[:-9], "head": data[: len(data) // 2], "text": b"nonsense" * 9}[damage]
        )
    store = Store(store.path)
    with pytest.raises(StoreError, match=rf"{path.name} cannot be read: .*\n") as raised:
        if name.startswith("definitions"):
            store.definition(path.stem)
        else:
            store.read(name.split("/")[0], 0)
    assert str(path) in str(raised.value)
    assert "convert the trace again" in str(raised.value)


def test_file__with_a_flipped_bit(tmp_path):
    store = write(Numbers([3000]), tmp_path / "x.trace")
    path = store.path / "events" / "part-00000.parquet"
    data = path.read_bytes()
    expected = content(store)
    told = 0
    for at in range(4, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        try:
            found = content(Store(store.path))
        except StoreError as error:
            told += 1
            assert "part-00000.parquet" in str(error)
        else:
            assert found == expected, f"a bit of byte {at} changed a column without a word"
    assert told > len(range(4, len(data), 97)) // 2


def test_file__of_another_trace(tmp_path):
    long, short = write(Numbers([3000]), tmp_path / "a.trace"), write(Numbers([1000]), tmp_path / "b.trace")
    shutil.copy(short.path / "events" / "part-00000.parquet", long.path / "events" / "part-00000.parquet")
    with pytest.raises(StoreError, match="has 1000 rows, expected at least 3000"):
        Store(long.path).read("events", 0)


# -- memory ------------------------------------------------------------------------------------------------------------

PEAK = """
import resource, sys
import tracecols
tracecols.convert(sys.argv[1], sys.argv[2], jobs=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def long_archive(folder: Path, n_chunks: int) -> Path:
    """One location with `n_chunks` full chunks of 2**18 bytes: sends with an attribute, and calls."""
    archive = Archive(folder / "traces.otf2", event_chunk=1 << 18)
    mpi = archive.mpi(1)
    attribute = archive.attribute("a", "int64")
    rank = mpi.ranks[0]
    for t in range(3000):
        rank.enter(10 * t, "work")
        rank.record(
            10 * t + 1, "MpiSend", peer=0, communicator=mpi.world, tag=t, length=t, attributes=[(attribute, "int64", t)]
        )
        rank.leave(10 * t + 2, "work")
    archive.write()
    path = folder / "traces" / "0.evt"
    one = path.read_bytes()
    assert 1 << 17 < len(one) < 1 << 18
    # the same chunk repeated, with later times each
    n_events, time = rank.n_records, 10 * 3000
    encode = archive.encode
    body = np.frombuffer(one[18:-2], np.uint8).copy()
    places = bytes_of_times(one[18:-2])
    times = body[places].view("<u8")
    with path.open("wb") as file:
        for k in range(n_chunks):
            body[places] = (times + k * time).view(np.uint8)
            last = k == n_chunks - 1
            chunk = (
                encode.chunk_header(k * n_events + 1, (k + 1) * n_events)
                + body.tobytes()
                + (b"\2\1" if last else b"\0")
            )
            file.write(chunk if last else chunk.ljust(1 << 18, b"\0"))
    rank.n_events = n_events * n_chunks
    rank.has_file = False
    return archive.write()


def bytes_of_times(body: bytes) -> np.ndarray:
    """Return the positions of the bytes of time stamps in a chunk of `long_archive`; (n, 8)."""
    places, at = [], 0
    while at < len(body):
        if body[at] == 5:
            places.append(at + 1)
            at += 9
        else:
            at += 2 + body[at + 1]
    return np.array(places)[:, np.newaxis] + np.arange(8)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="units of ru_maxrss differ")
def test_memory__does_not_grow_with_the_trace(tmp_path):
    peaks = {}
    for n_chunks in (150, 600):
        anchor = long_archive(tmp_path / f"{n_chunks}", n_chunks)
        done = python("-c", PEAK, str(anchor), str(tmp_path / "x.trace"), timeout=LONG)
        peaks[n_chunks] = int(done.stdout) >> 10
        assert Store(tmp_path / "x.trace").manifest["n_events"] == 9000 * n_chunks
    # 1.35 and 5.4 million events; the longer one has 120 MB more in columns alone
    assert peaks[600] - peaks[150] < 60, peaks


def test_source__is_opened_by_its_interface(workload):
    source = open_source(workload)
    report = Report()
    n_events = source.definitions["locations"]["n_events"]
    n = [sum(b.events["time"].size for b in source.read(i, report)) for i in range(len(n_events))]
    assert n == n_events
    assert report == Report()


def test_writer__notes_what_is_of_each_of_several_locations(tmp_path):
    folder = tmp_path / "x.trace"
    folder.mkdir()
    enter, fork = int(EventKind.ENTER), int(EventKind.THREAD_FORK)

    def events(*rows):
        time, kind = zip(*rows, strict=True)
        return {"time": np.array(time), "kind": np.array(kind, np.uint8), "region": np.zeros(len(rows), np.int32)}

    def rows(*numbers):
        row = np.array(numbers)
        return {
            "attributes": {
                "row": row,
                "attribute": np.zeros(row.size, np.int32),
                "type": np.zeros(row.size, np.uint8),
                "value": row,
            }
        }

    with StoreWriter(folder, []).part(0) as part:
        # location 2 has no event; 3 begins earlier than 1 ends, and continues in the next batch with a decreasing
        # time
        part.add(
            [(1, 3), (2, 0), (3, 2)],
            10,
            events((5, enter), (9, fork), (7, enter), (3, enter), (6, fork)),
            rows(0, 2, 2, 3),
        )
        part.add([(3, 1), (4, 2)], 13, events((4, fork), (20, enter), (21, fork)), rows(0, 2, 3, 4))
        found = part.part
    assert found.decreases == {1: 1, 3: 1}
    assert found.forks == {1: 9, 3: 6, 4: 21}
    assert (found.first_time, found.last_time, found.n_attributes) == (3, 21, 8)
    assert (found.counts[enter], found.counts[fork]) == (4, 4)
    assert sorted(found.segments) == [
        ("attributes", 1, 0, 0, 3),
        ("attributes", 3, 0, 3, 3),
        ("attributes", 4, 0, 6, 2),
        ("events", 1, 0, 0, 3),
        ("events", 3, 0, 3, 3),
        ("events", 4, 0, 6, 2),
    ]
