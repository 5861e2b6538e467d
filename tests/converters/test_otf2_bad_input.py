"""Damaged, incomplete and strange OTF2 archives: the error says what, where and what to do, and nothing is left
behind."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from support.otf2_writer import UNDEFINED, Archive, Location
from support.refusals import refused

import tracecols
from tracecols.errors import SourceError, StoreError, UnsupportedError
from tracecols.schema import EventKind
from tracecols.store import Store

CHUNK = 120


def make(folder: Path, **options) -> Archive:
    """Two ranks with 40 events each; their event files have several chunks of 120 bytes."""
    archive = Archive(folder / "traces.otf2", **{"event_chunk": CHUNK, **options})
    mpi = archive.mpi(2)
    for location in mpi.ranks:
        for t in range(20):
            location.call(10 * t, 10 * t + 5, "work")
    return archive


@pytest.fixture
def archive(tmp_path):
    return make(tmp_path)


def first(archive: Archive) -> Path:
    """Return the event file of the first location."""
    return archive.path.with_suffix("") / "0.evt"


def salvaged(archive: Archive) -> tuple[Store, dict[int, dict]]:
    """Convert with salvage; return the store and what was lost by location identifier."""
    out = archive.path.parent / "salvaged.trace"
    store = Store(tracecols.convert(archive.path, out, salvage=True))
    return store, {loss["location"]: loss for loss in store.manifest["lost"]}


def cut(path: Path, n: int) -> None:
    """Cut a file off after `n` bytes."""
    path.write_bytes(path.read_bytes()[:n])


def patch(path: Path, at: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(bytes(content))


# -- paths -------------------------------------------------------------------------------------------------------------


def test_path__does_not_exist(tmp_path):
    with pytest.raises(SourceError, match="no such file or folder"):
        tracecols.convert(tmp_path / "none.otf2", tmp_path / "x.trace")
    assert list(tmp_path.iterdir()) == []


def test_path__of_another_kind(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(SourceError, match=r"a\.txt is not a trace.*\n.*\.otf2"):
        tracecols.convert(tmp_path / "a.txt", tmp_path / "x.trace")


def test_folder__is_empty(tmp_path):
    with pytest.raises(SourceError, match=r"no trace in the folder .*\n.*\.otf2"):
        tracecols.convert(tmp_path, tmp_path / "x.trace")


def test_folder__of_folders_with_traces(tmp_path):
    make(tmp_path / "a").write()
    (tmp_path / "b").mkdir()
    with pytest.raises(SourceError, match=r"no trace in the folder .*\n  give the trace below it: .*a.traces\.otf2$"):
        tracecols.convert(tmp_path)
    for name in "cdef":
        make(tmp_path / name).write()
    with pytest.raises(SourceError, match=r"one of the traces below it: .*c.traces\.otf2, .*d.*, and 2 more$"):
        tracecols.convert(tmp_path)


def test_folder__has_several_anchors(tmp_path):
    make(tmp_path).write()
    Archive(tmp_path / "other.otf2").path.write_bytes(b"")
    with pytest.raises(SourceError, match=r"several traces .*other\.otf2, traces\.otf2\n.*give the path"):
        tracecols.convert(tmp_path, tmp_path / "x.trace")


def test_folder__is_taken_for_its_anchor(tmp_path):
    make(tmp_path / "a").write()
    assert Store(tracecols.convert(tmp_path / "a", tmp_path / "x.trace")).manifest["n_events"] == 80


@pytest.mark.parametrize("name", ["other.otf2", "with.dots.otf2", "with space.otf2", "ünï.otf2"])
def test_archive__may_have_any_name(name, archive, tmp_path, monkeypatch):
    archive.path = tmp_path / name
    archive.write()
    monkeypatch.chdir(tmp_path)
    path = tracecols.convert(tmp_path / name)
    assert path == Path(name.replace(".otf2", ".trace"))
    assert Store(path).manifest["n_events"] == 80


def test_archive__relative_path_and_name_of_its_folder(tmp_path, monkeypatch):
    make(tmp_path / "recording").write()
    monkeypatch.chdir(tmp_path)
    assert tracecols.convert("recording/traces.otf2") == Path("recording.trace")
    monkeypatch.chdir(tmp_path / "recording")
    assert tracecols.convert("traces.otf2") == Path("recording.trace")
    assert tracecols.convert(".", "sub/y.trace") == Path("sub/y.trace")
    assert Store("sub/y.trace").manifest["n_events"] == 80


def test_output__replaces_an_older_store(tmp_path):
    archive = make(tmp_path / "a")
    out = tmp_path / "x.trace"
    tracecols.convert(archive.write(), out)
    archive.locations[0].call(1000, 1001, "more")
    tracecols.convert(archive.write(), out)
    assert Store(out).manifest["n_events"] == 82
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "x.trace"]


def test_output__does_not_replace_other_folders(tmp_path):
    archive = make(tmp_path / "a")
    archive.write()
    out = tmp_path / "precious"
    out.mkdir()
    for manifest in (None, "{}", "[1]", '{"format": "tracecols severity"}', '{"name": "web app"}', "nonsense"):
        (out / "thesis.txt").write_text("words")
        if manifest is not None:
            (out / "manifest.json").write_text(manifest)
        with pytest.raises(StoreError, match=r"precious exists and is not a store of a trace\n"):
            tracecols.convert(archive.path, out)
        assert (out / "thesis.txt").read_text() == "words"
    file = tmp_path / "file"
    file.write_text("words")
    with pytest.raises(StoreError, match="file exists and is not a store"):
        tracecols.convert(archive.path, file)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "file", "precious"]


@pytest.mark.parametrize("name", ["file/x.trace", "file/further/x.trace", "n" * 300])
def test_output__below_a_file_or_with_a_name_that_is_too_long(name, tmp_path):
    archive = make(tmp_path / "a")
    archive.write()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*\n  choose a folder"):
        tracecols.convert(archive.path, tmp_path / name)


# -- anchor ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\3", b"nonsense and more of it", b"\3\x42OTF1\0" + bytes(90), bytes(200)])
def test_anchor__is_nonsense(data, archive):
    archive.write().write_bytes(data)
    refused(archive.path, archive.path, "not an OTF2 anchor file")


def test_anchor__is_cut_off_anywhere(archive, tmp_path):
    archive.properties = {"name": "value", "other": "more"}
    data = archive.write().read_bytes()
    for n in range(len(data)):
        archive.path.write_bytes(data[:n])
        refused(archive.path, archive.path)
    archive.path.write_bytes(data)
    tracecols.convert(archive.path, tmp_path / "y.trace")


def test_container__is_refused_by_what_it_holds(tmp_path):
    # whatever the name of the file
    for name in ("traces.sion", "x.bin"):
        (tmp_path / name).write_bytes(b"sion" + bytes(100))
        with pytest.raises(UnsupportedError, match=r"is a SIONlib container.*\n  unpack it with 'sionsplit'"):
            tracecols.convert(tmp_path / name, tmp_path / "x.trace")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trace_format": 3}, "trace format 3, which is newer"),
        ({"substrate": 2}, "SIONlib"),
        ({"substrate": 3}, "without files of events"),
        ({"substrate": 4}, "file substrate 4"),
        ({"compression": 2}, "is compressed"),
    ],
)
def test_anchor__of_an_archive_that_is_not_supported(change, words, archive):
    for name, value in change.items():
        setattr(archive, name, value)
    archive.write()
    refused(archive.path, archive.path, words, error=UnsupportedError)


@pytest.mark.parametrize("format_", [1, 2, 3])
@pytest.mark.parametrize("big", [False, True])
def test_anchor__of_older_formats_is_read(format_, big, tmp_path):
    archive = make(tmp_path, big=big)
    archive.anchor_format, archive.library, archive.creator = format_, (1, 5, 1), "someone"
    manifest = Store(tracecols.convert(archive.write(), tmp_path / "x.trace")).manifest
    assert manifest["n_events"] == 80
    assert manifest["source"]["format"] == "OTF2 1.5.1 (trace format 2)"
    assert manifest["source"]["creator"] == "someone"


@pytest.mark.parametrize("chunk", [0, 18, 1 << 31, 1 << 63])
def test_anchor__states_an_impossible_chunk_size(chunk, archive):
    archive.write()
    patch(archive.path, 12, struct.pack("<Q", chunk))
    refused(archive.path, archive.path, f"event chunk size of {chunk} bytes")
    patch(archive.path, 12, struct.pack("<QQ", CHUNK, chunk))
    refused(archive.path, f"definition chunk size of {chunk} bytes")


def test_anchor__states_other_numbers(archive):
    archive.n_locations = 3
    archive.write()
    refused(archive.path, "traces.def", "2 locations", "3")
    archive.n_locations, archive.n_definitions = None, 5
    archive.write()
    refused(archive.path, "traces.def", "definitions", "says 5")


# -- definitions -------------------------------------------------------------------------------------------------------


def test_definitions__are_missing(archive):
    archive.write()
    archive.path.with_suffix(".def").unlink()
    refused(archive.path, "traces.def", "No such file", "copy it again")


def test_definitions__are_cut_off_anywhere(tmp_path):
    archive = make(tmp_path, definition_chunk=100)
    archive.write()
    path = archive.path.with_suffix(".def")
    data = path.read_bytes()
    assert len(data) > 200
    for n in range(0, len(data) - 1, 7):
        path.write_bytes(data[:n])
        text = refused(archive.path, "traces.def")
        assert "chunk" in text
        assert "byte" in text
    # the byte after the end-of-file record may be missing
    path.write_bytes(data[:-1])
    tracecols.convert(archive.path, tmp_path / "y.trace")


def test_definitions__followed_by_garbage(archive):
    archive.write()
    path = archive.path.with_suffix(".def")
    path.write_bytes(path.read_bytes() + b"garbage")
    refused(archive.path, "traces.def", "8 bytes follow the end-of-file record")


def test_definitions__without_clock(archive):
    archive.definitions = [d for d in archive.definitions if d[0] != 5]
    refused(archive.write(), "traces.def", "no ClockProperties")


def test_definitions__with_a_clock_that_stands(tmp_path):
    refused(make(tmp_path, resolution=0).write(), "traces.def", "0 ticks per second")


def test_definitions__without_locations(tmp_path):
    refused(Archive(tmp_path / "traces.otf2").write(), "traces.def", "no locations")


@pytest.mark.parametrize(
    ("record", "fields", "words"),
    [
        ("Region", {"name": 99}, "Region 1 names name 99"),
        ("Region", {"source_file": 98}, "names source file 98"),
        ("Comm", {"name": 0, "group": 44, "parent": None}, "Comm 1 names group 44"),
        ("Comm", {"name": 0, "group": 0, "parent": 17}, "Comm 1 names parent 17"),
        ("Comm", {"name": 0, "group": 0, "parent": 1}, "Comm 1 is its own ancestor"),
        ("Group", {"members": [0, 5], "group_type": 5}, "Group 2 names rank 5"),
        ("Group", {"members": [1 << 63], "group_type": 5}, "Group 2 names rank"),
        ("Group", {"members": [9], "group_type": 4}, "Group 2 names member 9"),
        ("Group", {"members": [9], "group_type": 1}, "Group 2 names member 9"),
        ("Group", {"members": [9], "group_type": 2}, "Group 2 names member 9"),
        ("Group", {"members": [9], "group_type": 7}, "Group 2 names member 9"),
        ("LocationGroup", {"name": 0, "location_group_type": 1, "system_tree_parent": 9}, "system tree parent 9"),
        (
            "LocationGroup",
            {"name": 0, "location_group_type": 1, "system_tree_parent": 0, "creating_location_group": 2},
            "LocationGroup 2 is its own ancestor",
        ),
        ("SystemTreeNode", {"name": 0, "class_name": 0, "parent": 2}, "SystemTreeNode 2 is its own ancestor"),
        ("MetricClass", {"metric_members": [3], "metric_occurrence": 0}, "MetricClass 0 names member 3"),
        (
            "MetricInstance",
            {"metric_class": 3, "recorder": 0, "metric_scope": 0, "scope": 0},
            "MetricInstance 0 names metric class 3",
        ),
        ("RmaWin", {"name": 0, "comm": 3}, "RmaWin 0 names comm 3"),
        ("CartTopology", {"name": 0, "communicator": 0, "cart_dimensions": [4]}, "CartTopology 0 names dimension 4"),
        ("CartCoordinate", {"cart_topology": 5, "rank": 0, "coordinates": [0]}, "names cart topology 5"),
        ("CallingContext", {"region": 7, "source_code_location": None, "parent": None}, "names region 7"),
        ("CallingContext", {"region": 0, "source_code_location": 7, "parent": None}, "names source code location 7"),
        ("CallingContext", {"region": 0, "source_code_location": None, "parent": 0}, "is its own ancestor"),
        ("LocationProperty", {"of": 99, "name": 0, "string_value": 0}, "LocationProperty 99 names of 99"),
        ("String", {"self": 0, "string": "again"}, "identifier of a String twice"),
        ("SystemTreeNode", {"self": 0, "name": 0, "class_name": 0, "parent": None}, "SystemTreeNode twice"),
    ],
)
def test_definitions__that_lead_nowhere(record, fields, words, archive):
    if record == "Region":
        archive.region_of("work")
        required = "name", "description", "region_type", "source_file", "begin_line_number", "end_line_number"
        fields = dict.fromkeys(required, 0) | fields
    elif record == "Group":
        fields = {"name": 0, "group_type_pre12": 0, "paradigm": 4, "group_flags": 0, **fields}
    archive.define(record, **fields)
    refused(archive.write(), "traces.def", words, "damaged")


def test_definitions__with_longer_cycles(archive):
    for parent in (4, 2, 3):
        archive.define("SystemTreeNode", name=0, class_name=0, parent=parent)
    refused(archive.write(), "traces.def", "is its own ancestor")


def test_definitions__of_a_location_twice(archive):
    archive.locations.append(Location(archive, 1, "again", 0, "cpu_thread"))
    refused(archive.write(), "traces.def", "Location twice")


def test_definitions__of_a_location_in_no_process(archive):
    archive.locations[1].process = 12
    refused(archive.write(), "traces.def", "Location 1 names location group 12")


def test_definitions__of_a_coordinate_beyond_its_communicator(archive):
    archive.define("CartTopology", name=0, communicator=0, cart_dimensions=[])
    archive.define("CartCoordinate", cart_topology=0, rank=UNDEFINED - 1, coordinates=[0])
    refused(archive.write(), "traces.def", f"names rank {UNDEFINED - 1}")


@pytest.mark.parametrize(
    ("code", "payload", "words"),
    [
        (15, b"\1\0", "does not fit its type"),
        (18, b"\1\5\0\0" + b"\x04\xff\xff\xff\x7f", "impossible length or count"),
        (18, b"\1\5\0\0" + b"\xff", "impossible length or count"),
        (20, b"\0\xff\0", "impossible length or count"),
        (22, b"\1\5\0\x05\1\2\3\4\5", "integer states an impossible size"),
        (10, b"\1\x77text without end", "does not fit its type"),
    ],
)
def test_definitions__with_a_record_that_is_nonsense(code, payload, words, archive):
    archive.raw_definition(code, payload)
    text = refused(archive.write(), "traces.def: chunk 0, byte", words)
    at = int(text.split("byte ")[1].split(":")[0])
    assert archive.path.with_suffix(".def").read_bytes()[at] == code


def test_definitions__with_an_impossible_length(archive):
    archive.definitions.append(b"\x0f\xff" + struct.pack("<Q", (1 << 64) - 3) + b"\0")
    refused(archive.write(), "traces.def: chunk 0, byte", "impossible length")


@pytest.mark.slow
def test_definitions__of_unknown_types_and_longer_ones_are_kept(archive, tmp_path):
    archive.raw_definition(200, b"what is this")
    archive.region_of("work")
    archive.define("Comm", tail=b"\1\7new field", name=0, group=0, parent=None, flags=0)
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    other = store.definition("other_definitions").to_pydict()
    assert other == {"record": ["type 200"], "values": ['{"bytes": 12}']}
    assert store.definition("communicators")["id"].to_pylist() == [0, 1]


# -- local definitions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("add", "words"),
    [
        (lambda x: x.local.append(x.encode.framed(5, b"\3\1\1\7\1\0")), "mapping table of unknown mode 7"),
        (lambda x: x.local.append(x.encode.framed(5, b"\3\1\x40\0\1\0")), "impossible length or count"),
        (lambda x: x.local.append(x.encode.framed(5, b"\3\x08" + b"\xff" * 8 + b"\0")), "impossible length or count"),
        (lambda x: x.clock_offset(5, 0).clock_offset(5, 1), "not in increasing order"),
        (lambda x: x.clock_offset(5, 0).clock_offset(4, 1), "not in increasing order"),
        (lambda x: x.clock_offset(1 << 63, 0).clock_offset((1 << 63) + 1, 1), "not in increasing order"),
    ],
)
def test_local_definitions__that_are_nonsense(add, words, archive):
    add(archive.locations[0])
    refused(archive.write(), "0.def", words)
    store, lost = salvaged(archive)
    assert lost[0]["n_events"] == 40
    assert [store.n_rows("events", i) for i in range(2)] == [0, 40]


def test_local_definitions__that_turn_time_back(archive, tmp_path):
    archive.locations[0].clock_offset(50, 0).clock_offset(100, -200)
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    time = store.read("events", 0)["time"]
    # the offset drops by 200 ticks between the readings at 50 and 100: from 50 on, time runs back 3 ticks per tick
    assert store.decreases == {0: int((np.diff(time) < 0).sum())}
    assert store.decreases[0] > 10


def test_local_definitions__that_map_to_what_is_not_defined(archive):
    archive.region("work")
    archive.locations[0].mapping("REGION", [1234])
    refused(archive.write(), "0.evt: chunk 0, byte", "identifier 0 of kind REGION is not defined")


def test_local_definitions__may_be_missing(archive, tmp_path):
    archive.write()
    for path in archive.path.with_suffix("").glob("*.def"):
        path.unlink()
    assert Store(tracecols.convert(archive.path, tmp_path / "x.trace")).manifest["n_events"] == 80


# -- events ------------------------------------------------------------------------------------------------------------


def test_events__are_missing(archive):
    archive.write()
    first(archive).unlink()
    refused(archive.path, first(archive), "is missing, and should hold 40 events", "--salvage")
    store, lost = salvaged(archive)
    assert store.manifest["n_events"] == 40
    assert lost == {0: {"location": 0, "n_events": 40, "reason": lost[0]["reason"]}}
    assert "0.evt is missing" in lost[0]["reason"]
    assert store.definition("locations")["n_events"].to_pylist() == [0, 40]
    assert store.definition("locations")["first_row"].to_pylist() == [0, 0]


def test_events__may_be_missing_where_there_are_none(archive, tmp_path):
    archive.location("idle").has_file = False
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    assert store.definition("locations")["n_events"].to_pylist() == [40, 40, 0]


def test_events__are_none_at_all(tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    archive.mpi(2)
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    assert store.manifest["n_events"] == 0
    assert store.read("events", 0)["time"].size == 0


@pytest.mark.slow
def test_events__cut_off_anywhere(archive, tmp_path):
    archive.write()
    path = first(archive)
    data = path.read_bytes()
    whole = Store(tracecols.convert(archive.path, tmp_path / "whole.trace")).read("events", 0)
    n_chunks = -(-len(data) // CHUNK)
    assert n_chunks >= 3
    chunks_named = set()
    kept = set()
    # every 5th byte, since records are longer, and every byte near the ends of chunks and of the file
    near = {n + k for n in (*range(0, len(data), CHUNK), len(data)) for k in range(-9, 9)}
    for n in sorted({n for n in near if 0 <= n < len(data) - 1} | set(range(0, len(data) - 1, 5))):
        path.write_bytes(data[:n])
        text = refused(archive.path, path, "chunk", "byte", "--salvage")
        chunk, byte = int(text.split("chunk ")[1].split(",")[0]), int(text.split("byte ")[1].split(":")[0])
        assert byte <= n
        assert chunk * CHUNK <= byte <= (chunk + 1) * CHUNK
        chunks_named.add(chunk)
        store, lost = salvaged(archive)
        rows = store.read("events", 0)
        kept.add(rows["time"].size)
        for name, column in rows.items():
            np.testing.assert_array_equal(column, whole[name][: column.size])
        assert lost[0]["n_events"] == 40 - rows["time"].size
        assert store.n_rows("events", 1) == 40
    assert chunks_named >= set(range(n_chunks))
    assert kept == set(range(41))
    path.write_bytes(data[:-1])
    tracecols.convert(archive.path, tmp_path / "y.trace")


def test_events__followed_by_garbage(archive):
    archive.write()
    path = first(archive)
    path.write_bytes(path.read_bytes() + bytes(300))
    refused(archive.path, path, "301 bytes follow the end-of-file record")
    store, lost = salvaged(archive)
    assert store.n_rows("events", 0) == 40
    assert lost[0]["n_events"] == 0


@pytest.mark.parametrize(("at", "value"), [(2, 0), (2, 7), (10, 1), (10, 0), (10, 1 << 62)])
@pytest.mark.parametrize("chunk", [0, 1])
def test_events__with_a_wrong_chunk_header(chunk, at, value, archive):
    archive.write()
    patch(first(archive), chunk * CHUNK + at, struct.pack("<Q", value))
    text = refused(archive.path, f"0.evt: chunk {chunk}, byte ", "its header says")
    assert chunk * CHUNK <= int(text.split("byte ")[1].split(":")[0]) <= (chunk + 1) * CHUNK


def test_events__with_something_else_than_a_chunk_header(archive):
    archive.write()
    patch(first(archive), CHUNK, b"XX")
    refused(archive.path, f"0.evt: chunk 1, byte {CHUNK}: does not begin with a chunk header", "58 58")
    patch(first(archive), CHUNK, b"\3X")
    refused(archive.path, f"chunk 1, byte {CHUNK}: does not begin with a chunk header")


def test_events__with_chunks_of_both_byte_orders(tmp_path):
    """Every chunk states its own byte order; nobody writes such a file, but the format allows it."""
    mixed = make(tmp_path / "little")
    big = make(tmp_path / "big", big=True)
    mixed.write()
    big.write()
    data = bytearray(first(mixed).read_bytes())
    data[CHUNK : 2 * CHUNK] = first(big).read_bytes()[CHUNK : 2 * CHUNK]
    first(mixed).write_bytes(bytes(data))
    store = Store(tracecols.convert(mixed.path, tmp_path / "x.trace"))
    other = Store(tracecols.convert(big.path, tmp_path / "y.trace"))
    np.testing.assert_array_equal(store.read("events", 0)["time"], other.read("events", 0)["time"])


def test_events__fewer_or_more_than_the_definitions_say(archive):
    for n in (39, 41, 1 << 62, (1 << 64) - 1):
        archive.locations[0].n_events = n
        archive.write()
        refused(archive.path, "0.evt holds 40 events, the definitions say")
        store, _ = salvaged(archive)
        assert store.n_rows("events", 0) == 40
        assert store.definition("locations")["n_events"].to_pylist() == [40, 40]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda x: x.enter(1 << 63, "work"), f"a time stamp of {1 << 63} ticks is impossible"),
        (lambda x: x.enter((1 << 64) - 1, "work"), f"a time stamp of {(1 << 64) - 1} ticks is impossible"),
        (lambda x: x.enter(300, 4711), "identifier 4711 of kind REGION is not defined"),
        (lambda x: x.enter(300, None), f"identifier {UNDEFINED} of kind REGION is not defined"),
        (lambda x: x.leave(300, 1 << 31), f"identifier {1 << 31} of kind REGION is not defined"),
        (lambda x: x.send(300, 0, 55), "identifier 55 of kind COMM is not defined"),
        (lambda x: x.raw(300, b"\x0c\x05\1\2\3\4\5"), "an integer states an impossible size"),
        (lambda x: x.raw(300, b"\x0c\x09" + bytes(9)), "an integer states an impossible size"),
        (lambda x: x.raw(300, b"\x10\x09" + bytes(9)), "an integer states an impossible size"),
        (lambda x: x.raw(300, b"\x0e\x02\x05\0"), "an integer states an impossible size"),
        (lambda x: x.raw(300, b"\x16\xfe"), "impossible length or count (254)"),
        (lambda x: x.raw(300, b"\x16\xff" + b"\xff" * 8), "impossible length or count"),
        (lambda x: x.raw(300, b"\x16\xff" + struct.pack("<Q", (1 << 63) - 5)), "impossible length or count"),
        (lambda x: x.raw(300, b"\x0e\0"), "a record does not fit its type"),
        (lambda x: x.raw(300, b"\x0e\3\1\1\1"), "a record does not fit its type"),
        (lambda x: x.raw(300, b"\6\2\1\5\x16\0"), "impossible length or count (5)"),
        (lambda x: x.raw(300, b"\6\5\4\xff\xff\xff\x7f\x16\0"), "impossible length or count"),
        (lambda x: x.raw(300, x.attribute_list([(9, 3, 1)]) + b"\x16\0"), "identifier 9 of kind ATTRIBUTE"),
        (lambda x: x.raw(300, b"\6\4\1\1\0\x1a\x16\0"), "kind ATTRIBUTE"),
        (lambda x: x.raw(300, x.attribute_list([]) + b"\7"), "a record does not fit its type"),
        (lambda x: x.raw(300, b"\1"), "a record does not fit its type"),
        (lambda x: x.record(300, "Metric", source=0, values=[(4, 1)]), "identifier 0 of kind METRIC"),
        (lambda x: x.record(300, "Metric", source=None, values=[]), "does not hold the values of its class"),
        (lambda x: x.record(300, "ProgramBegin", program=0, arguments=[77]), "identifier 77 of kind STRING"),
        (lambda x: x.record(300, "ProgramBegin", program=0, n_arguments=9), "a record does not fit its type"),
    ],
)
def test_events__with_one_that_is_nonsense(spoil, words, archive):
    archive.event_chunk = 1 << 14
    location = archive.locations[0]
    spoil(location)
    n_spoiled = len(location.items) - 40
    location.call(400, 401, "work")
    archive.write()
    text = refused(archive.path, "0.evt: chunk 0, byte", words, "--salvage")
    byte = int(text.split("byte ")[1].split(":")[0])
    head = first(archive).read_bytes()
    # the error names the record or the time stamp before it
    assert head[byte] == location.items[40][1][0] or head[byte] in (5, 7, 1)
    store, lost = salvaged(archive)
    assert store.n_rows("events", 0) == 40
    assert lost[0]["n_events"] == n_spoiled + 2
    assert lost[0]["reason"] in text
    assert store.read("events", 0)["time"].tolist() == [t for k in range(20) for t in (10 * k, 10 * k + 5)]
    assert store.n_rows("attributes") == 0


def test_events__with_attributes_of_an_undefined_type(archive):
    attribute = archive.attribute("a", "int32")
    archive.locations[0].raw(300, archive.encode.framed(6, b"\1\1\0\x1a\0") + b"\x16\0")
    assert attribute == 0
    refused(archive.write(), "0.evt: chunk", "a record does not fit its type")


@pytest.mark.parametrize("values", [[(4, 1)], [(4, 1), (10, 2.0), (4, 3)], [(4, 1), (4, 2)], [(10, 1.0), (10, 1.0)]])
def test_events__with_other_metrics_than_those_of_the_class(values, archive):
    number = archive.metric_class(("a", "uint64"), ("b", "double"))
    archive.locations[0].record(300, "Metric", source=number, values=[(4, 7), (10, 0.5)])
    archive.locations[0].record(301, "Metric", source=number, values=values)
    refused(archive.write(), "0.evt: chunk", "does not hold the values of its class")
    store, _ = salvaged(archive)
    assert store.read("metrics_0", 0)["value_1"].tolist() == [0.5]
    assert store.n_rows("events", 0) == 41


def test_events__before_any_time_stamp(archive):
    archive.locations[0].items.insert(0, (None, b"\x16\0", 1))
    refused(archive.write(), "0.evt: chunk 0, byte 18: an event comes before any time stamp")


def test_events__with_a_record_past_its_chunk_or_without_end_of_chunk(archive):
    archive.write()
    data = first(archive).read_bytes()
    # the last record of the first chunk is the filler's; let a MpiCollectiveBegin reach into the next chunk
    end = len(data[:CHUNK].rstrip(b"\xee")) - 1
    patch(first(archive), end, bytes([0x16, CHUNK - end]))
    refused(archive.path, f"0.evt: chunk 0, byte {end}: a record states an impossible length")
    first(archive).write_bytes(data[:end])
    refused(archive.path, "0.evt: chunk 0, byte", "goes past the end of its chunk")


def test_events__without_end_of_file(tmp_path):
    archive = make(tmp_path, event_chunk=1 << 14)
    archive.write()
    data = first(archive).read_bytes()
    assert data.endswith(b"\2\1")
    first(archive).write_bytes(data[:-2] + b"\0")
    refused(archive.path, first(archive), "the file ends after 40 of 40 events")


def test_events__with_an_attribute_list_that_belongs_to_none(archive):
    attribute = archive.attribute("a", "int32")
    location = archive.locations[0]
    location.raw(400, location.attribute_list([(attribute, "int32", 5)]), n_events=0)
    refused(archive.write(), "0.evt: chunk", "an attribute list belongs to no event")
    store, _ = salvaged(archive)
    assert store.n_rows("events", 0) == 40
    assert store.n_rows("attributes") == 0


def test_events__of_unknown_types_are_kept_and_counted(archive, tmp_path):
    attribute = archive.attribute("a", "int32")
    location = archive.locations[0]
    location.unknown(300, 93).unknown(301, 250, b"x" * 20).unknown(302, 93, b"y")
    location.raw(303, location.attribute_list([(attribute, "int32", 5)]) + location.encode.framed(251, b""))
    location.call(304, 305, "work")
    archive.event_chunk = 1 << 14
    archive.locations[1].unknown(300, 93, bytes(400))
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace", jobs=2))
    assert store.manifest["not_understood"] == {"event type 250": 1, "event type 251": 1, "event type 93": 3}
    events = store.read("events", 0)
    assert events["kind"][40:].tolist() == [EventKind.UNKNOWN] * 4 + [EventKind.ENTER, EventKind.EXIT]
    assert events["region"][40:].tolist() == [-1, -1, -1, -1, 0, 0]
    assert store.manifest["events_by_kind"]["255"] == 5
    assert store.read("attributes", 0)["row"].tolist() == [43]


def test_events__with_fields_added_later(archive, tmp_path):
    archive.locations[0].record(300, "MpiSend", tail=b"\2\7\7new", peer=1, communicator=0, tag=5, length=6).call(
        301, 302, "work"
    )
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    assert store.read("p2p", 0)["tag"].tolist() == [5]
    assert store.n_rows("events", 0) == 43
    assert store.manifest["not_understood"] == {}


def test_events__damaged_at_one_location_do_not_touch_the_others(archive, tmp_path):
    archive.write()
    whole = Store(tracecols.convert(archive.path, tmp_path / "whole.trace"))
    cut(archive.path.with_suffix("") / "1.evt", CHUNK + 40)
    refused(archive.path, "1.evt: chunk 1")
    store, lost = salvaged(archive)
    assert list(lost) == [1]
    for name, column in store.read("events", 0).items():
        np.testing.assert_array_equal(column, whole.read("events", 0)[name])


def test_events__salvage_of_a_sound_archive_loses_nothing(archive):
    archive.write()
    store, lost = salvaged(archive)
    assert lost == {}
    assert store.manifest["n_events"] == 80


def test_events__that_cannot_be_opened(archive):
    archive.write()
    first(archive).unlink()
    first(archive).mkdir()
    refused(archive.path, first(archive), "cannot read", "Is a directory" if os.name == "posix" else "")
    shutil.rmtree(first(archive))
