"""Damaged, incomplete and strange EPILOG traces: the error says what, where and what to do, and nothing is left
behind."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracles.epilog import NONE, records
from support.epilog_writer import CALL_SITE, COMM, GROUP, LOCATION, REGION, SELF, WINDOW, WORLD, EpilogWriter
from support.refusals import refused

import tracecols
from tracecols.errors import UnsupportedError
from tracecols.report.info import describe
from tracecols.schema import EventKind
from tracecols.severity import SeverityCube
from tracecols.store import Store

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

CALLS = 5
HEADER = 10
NAN, INF = float("nan"), float("inf")


def make(n_calls: int = CALLS, *, n_metrics: int = 0, **options) -> EpilogWriter:
    """Return a writer with two ranks that call `work` `n_calls` times each; times are whole milliseconds."""
    w = EpilogWriter(**options)
    for i in range(n_metrics):
        w.metric(f"M{i}")
    w.process()
    w.process()
    w.comm([0, 1])
    for i in range(n_calls):
        for rank in (0, 1):
            t = 10 * i + rank
            w.enter(rank, t / 1000, "work").exit(rank, (t + 5) / 1000)
    w.events.sort(key=lambda r: struct.unpack_from(w.order + "d", r, 6)[0])
    return w


def printed(store: Store) -> str:
    """Return what `tracecols info` prints."""
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    console.print(describe(store))
    return console.export_text()


def archive(
    folder: Path,
    change: Callable[[EpilogWriter, int], object] | None = None,
    *,
    define: Callable[[EpilogWriter], object] | None = None,
    chart: Callable[[EpilogWriter], object] | None = None,
    compress: bool = True,
    n_threads: int = 1,
) -> Path:
    """Write an archive of two processes with ten events each, and the given additions; return its anchor."""
    w = EpilogWriter(last_def=False, n_events=-1)
    w.process(n_threads)
    w.process(n_threads)
    w.region("work")
    if define is None:
        w.comm_ref(w.group((), WORLD, 2))
    else:
        define(w)
    w.write(folder / "epik.esd")
    for process in (0, 1):
        e = EpilogWriter(last_def=False, n_events=-1)
        for i in range(CALLS):
            t = 10 * i + process
            at = process * n_threads if n_threads > 1 else None
            e.enter(at, t / 1000, 0).exit(at, (t + 5) / 1000)
        if change is not None:
            change(e, process)
        e.write(process_file(folder / "epik.esd", process), compress)
    if chart is not None:
        m = EpilogWriter(last_def=False, n_events=-1)
        chart(m)
        m.write(folder / "epik.map")
    return folder / "epik.esd"


def process_file(anchor: Path, process: int) -> Path:
    """Return the file of a process."""
    return anchor.parent / "ELG" / f"{process:05d}"


def starts(data: bytes) -> list[tuple[int, int]]:
    """Return the byte offset and the type of each record of a sound file."""
    result, at = [], HEADER
    for code, body in records(data):
        result.append((at, code))
        at += 2 + len(body)
    return result


def events_begin(data: bytes) -> int:
    """Return the byte offset of the first event."""
    return next(at for at, code in starts(data) if code >= 100)


def byte_of(text: str) -> int:
    """Return the byte offset that an error names."""
    return int(text.split(": byte ")[1].split(":")[0])


def accepted(path: Path, **options) -> Store:
    """Convert, and analyze under all conventions."""
    out = (path if path.is_dir() else path.parent).with_name("accepted")
    number = len(list(out.iterdir())) if out.is_dir() else 0
    store = Store(tracecols.convert(path, out / f"{number}.trace", **options))
    analyzed(store)
    return store


def analyzed(store: Store) -> list[SeverityCube]:
    """Analyze under all conventions."""
    trace = tracecols.open(store.path)
    return [trace.analyze(conventions) for conventions in ("scalasca", "expert")]


def salvaged(path: Path) -> tuple[Store, dict[int, str]]:
    """Convert and analyze with salvage; return the store and, by location identifier, why events were lost."""
    store = accepted(path, salvage=True)
    return store, {loss["location"]: loss["reason"] for loss in store.manifest["lost"]}


def is_prefix(store: Store, whole: Store, location: int) -> bool:
    """Return whether the events of a location are a prefix of those in another store."""
    mine, others = store.read("events", location), whole.read("events", location)
    n = mine["time"].size
    return all(np.array_equal(mine[c], others[c][:n]) for c in mine)


def peak_of(run: Callable[[], object]) -> int:
    """Return the peak memory of a call in bytes."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def path(tmp_path) -> Path:
    """The path to which a merged trace is written."""
    (tmp_path / "trace").mkdir()
    return tmp_path / "trace" / "epik.elg"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Store:
    """The store of the trace that `make` writes."""
    path = tmp_path_factory.mktemp("sound") / "trace" / "epik.elg"
    path.parent.mkdir()
    return accepted(make().write(path))


@pytest.fixture
def folder(tmp_path) -> Path:
    """The folder to which an archive is written."""
    return tmp_path / "archive"


# -- paths -------------------------------------------------------------------------------------------------------------


def test_folder__has_several_traces(tmp_path):
    make().write(tmp_path / "traces" / "a.elg")
    make().write(tmp_path / "traces" / "b.elg.gz", compress=True)
    refused(tmp_path / "traces", "several traces", "a.elg, b.elg.gz", "give the path of one of them")


@pytest.mark.slow
def test_folder__has_a_merged_trace_and_its_archive(folder):
    anchor = archive(folder)
    assert accepted(folder).manifest["source"]["format"] == "EPILOG 1.9, archive"
    make().write(folder / "epik.elg")
    assert accepted(folder).manifest["source"]["format"] == "EPILOG 1.9"
    assert accepted(anchor).manifest["source"]["format"] == "EPILOG 1.9, archive"


def test_folder__has_other_archives(folder):
    archive(folder)
    make().write(folder / "other.elg")
    refused(folder, "several traces", "epik.esd, other.elg")


def test_file__cannot_be_opened(path, folder):
    path.mkdir()
    refused(path, "no trace in the folder")
    anchor = archive(folder)
    process_file(anchor, 1).unlink()
    process_file(anchor, 1).mkdir()
    refused(anchor, process_file(anchor, 1), "cannot read")


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize(
    "data", [b"", b"E", b"EPILOG", b"nonsense and more of it", b"EPILOQ\0\1\x09\1", b"epilog\0\1\x09\1", bytes(100)]
)
def test_file__is_empty_or_something_else(data, pack, path):
    path.write_bytes(pack(data))
    what, advice = ("is not an EPILOG file", "expected 'EPILOG' at its beginning") if data else ("is empty", "copy the")
    refused(path, f"{path} {what}", advice)


def test_file__is_of_another_version(path):
    make(version=(2, 0)).write(path)
    refused(path, path, "EPILOG version 2.0", "only versions 1.x", error=UnsupportedError)
    refused(path, path, "EPILOG version 2.0", error=UnsupportedError, salvage=True)
    make(version=(0, 9)).write(path)
    refused(path, "EPILOG version 0.9", error=UnsupportedError)


@pytest.mark.slow
@pytest.mark.parametrize("version", [(1, 0), (1, 2), (1, 3), (1, 8), (1, 9), (1, 200)])
@pytest.mark.parametrize("big_endian", [False, True])
def test_file__of_all_minor_versions_is_read(version, big_endian, path):
    make(version=version, big_endian=big_endian).write(path)
    store = accepted(path)
    assert store.manifest["n_events"] == 4 * CALLS
    assert store.manifest["source"]["format"] == f"EPILOG {version[0]}.{version[1]}"


@pytest.mark.parametrize("value", [0, 3, 255])
def test_file__is_of_no_byte_order(value, path):
    data = bytearray(make().build())
    data[9] = value
    path.write_bytes(data)
    assert byte_of(refused(path, path, f"byte order ({value})")) == 9


def test_file__states_the_wrong_byte_order(path):
    data = bytearray(make().build())
    data[9] = 2
    path.write_bytes(data)
    refused(path, path)


@pytest.mark.slow
def test_file__cut_off_anywhere(path):
    n_calls = 3
    data = make(n_calls).build()
    path.write_bytes(data)
    whole = accepted(path)
    begin = events_begin(data)
    ends = [at for at, code in starts(data) if code >= 100]
    kept = set()
    for n in range(len(data)):
        path.write_bytes(data[:n])
        text = refused(path, path)
        if n < begin:
            if n > HEADER:
                assert byte_of(text) <= n
            if n % 9 == 0:
                refused(path, path, salvage=True)
            continue
        n_whole = sum(at <= n for at in ends) - 1
        if n in ends:
            assert f"{path} holds {n_whole} events, its definitions say {4 * n_calls}" in text
        else:
            assert byte_of(text) == ends[n_whole]
            assert "ends within a record" in text
        assert "--salvage" in text
        if n % 8 == 0 or n in ends:
            store, lost = salvaged(path)
            assert all(is_prefix(store, whole, location) for location in (0, 1))
            assert store.manifest["n_events"] == n_whole
            assert lost == {0: text.splitlines()[0], 1: text.splitlines()[0]}
            kept.add(store.manifest["n_events"])
    assert kept == set(range(4 * n_calls))


def test_file__followed_by_garbage(path):
    data = make().build()
    path.write_bytes(data + b"\x05")
    assert byte_of(refused(path, path, "ends within a record")) == len(data)
    store, lost = salvaged(path)
    assert store.manifest["n_events"] == 4 * CALLS
    assert len(lost) == 2


def test_file__has_no_events(path):
    store = accepted(make(0).write(path))
    assert store.manifest["n_events"] == 0
    assert store.read("events", 0)["time"].size == 0


def test_salvage__of_a_sound_trace_loses_nothing(path, folder):
    store, lost = salvaged(make().write(path))
    assert lost == {}
    assert store.manifest["n_events"] == 4 * CALLS
    store, lost = salvaged(archive(folder))
    assert lost == {}
    assert store.manifest["n_events"] == 4 * CALLS


# -- gzip --------------------------------------------------------------------------------------------------------------


def noisy(n_calls: int = 2000) -> EpilogWriter:
    """Return a trace that compresses badly, so that its records are spread over the compressed file."""
    w = make(0)
    chance = np.random.default_rng(1)
    t = 0
    for step in chance.integers(1, 1 << 30, n_calls).tolist():
        w.enter(0, t / 1e6, "work").exit(0, (t + step) / 1e6)
        t += step
    return w


@pytest.mark.slow
def test_packed__is_cut_off(tmp_path):
    path = tmp_path / "trace" / "epik.elg.gz"
    w = noisy()
    data = w.write(path, compress=True).read_bytes()
    whole = accepted(path)
    kept = []
    for n in (len(data) // 2, len(data) * 9 // 10, len(data) - 9, len(data) - 4, len(data) - 1):
        path.write_bytes(data[:n])
        text = refused(path, path, "unpacking stops", "--salvage")
        assert "is empty" not in text
        assert byte_of(text) <= len(w.build())
        store, lost = salvaged(path)
        assert is_prefix(store, whole, 0)
        assert set(lost) == {0, 1}
        kept.append(store.manifest["n_events"])
    assert kept[0] > 1000
    assert kept == sorted(kept)
    # the last cuts remove bytes of the trailer only, which is for checking the data
    assert kept[-1] == kept[-2] == 4000


@pytest.mark.parametrize("n", [2, 3, 9, 10, 11, 15])
def test_packed__is_cut_off_early(n, tmp_path):
    path = tmp_path / "trace" / "epik.elg.gz"
    path.write_bytes(make().write(path, compress=True).read_bytes()[:n])
    assert "is empty" not in refused(path, path)
    refused(path, path, salvage=True)


@pytest.mark.slow
def test_packed__is_corrupted(tmp_path):
    path = tmp_path / "trace" / "epik.elg.gz"
    data = bytearray(noisy().write(path, compress=True).read_bytes())
    whole = accepted(path)
    data[len(data) // 2 : len(data) // 2 + 200] = b"\xff" * 200
    path.write_bytes(data)
    refused(path, path, "--salvage")
    store, lost = salvaged(path)
    assert set(lost) == {0, 1}
    # damaged codes may be noticed late, but what precedes them is right
    assert store.manifest["n_events"] > 1000
    n = 500
    for location in (0, 1):
        for column, values in store.read("events", location, stop=n).items():
            np.testing.assert_array_equal(values, whole.read("events", location, stop=n)[column])


@pytest.mark.parametrize("what", ["a wrong check sum", "garbage after it"])
def test_packed__ends_with(what, tmp_path):
    path = tmp_path / "trace" / "epik.elg.gz"
    data = make().write(path, compress=True).read_bytes()
    if what == "garbage after it":
        path.write_bytes(data + b"garbage")
    else:
        path.write_bytes(data[:-8] + bytes([data[-8] ^ 1]) + data[-7:])
    refused(path, path, "unpacking stops", "--salvage")
    store, lost = salvaged(path)
    assert store.manifest["n_events"] == 4 * CALLS
    assert set(lost) == {0, 1}


def test_packed__in_pieces_or_padded_is_read_whatever_it_is_called(path):
    data = make().build()
    packed = gzip.compress(data[:100]) + gzip.compress(data[100:]) + bytes(500)
    for name, content in (("epik.elg.gz", packed), ("epik.elg", gzip.compress(data)), ("plain.elg.gz", data)):
        path.with_name(name).write_bytes(content)
        assert accepted(path.with_name(name)).manifest["n_events"] == 4 * CALLS


def test_packed__definitions_of_an_archive_are_cut_off(folder):
    anchor = archive(folder, chart=lambda m: (m.map_section(0), m.map_section(1), m.offset(0.0, 5.0)))
    for file in (anchor, anchor.with_suffix(".map")):
        data = file.read_bytes()
        packed = gzip.compress(data)
        file.write_bytes(packed)
        accepted(anchor)
        for n in (len(packed) - 1, len(packed) - 8, len(packed) // 2):
            file.write_bytes(packed[:n])
            refused(anchor, file)
            refused(anchor, file, salvage=True)
        # the data ends with a record: only the damaged gzip trailer shows that a record is missing
        end = starts(data)[-1][0]
        file.write_bytes(gzip.compress(data[:end])[:-4])
        refused(anchor, file)
        file.write_bytes(data)


# -- definitions -------------------------------------------------------------------------------------------------------


def test_definitions__without_end(path):
    w = make(last_def=False)
    text = refused(w.write(path), path, "an event is among the definitions, before LAST_DEF")
    assert byte_of(text) == events_begin(w.build())
    w = make(0, last_def=False)
    text = refused(w.write(path), path, "the file ends within the definitions, before LAST_DEF")
    assert byte_of(text) == len(w.build())


def test_definitions__with_an_event_among_them(path):
    w = make()
    w.definitions.insert(4, w.events[0])
    text = refused(w.write(path), "an event is among the definitions")
    assert byte_of(text) == starts(w.build())[4][0]


def test_definitions__after_their_end_are_counted(path):
    w = make()
    w.events.insert(3, w.record(9, w.u4(5, 0, NONE, 0, 0, NONE) + b"\1"))
    w.events.insert(7, w.record(13, b""))
    w.events.append(w.record(14, w.u4(3)))
    store = accepted(w.write(path))
    assert store.manifest["not_understood"] == {"record type 13": 1, "record type 14": 1, "record type 9": 1}
    assert store.manifest["n_events"] == 4 * CALLS


def test_definitions__of_unknown_types_are_counted(path, folder):
    w = make()
    for code in (0, 50, 50, 99, 62):
        w.define(code, b"what is this")
    w.write(path)
    expected = {"record type 0": 1, "record type 50": 2, "record type 62": 1, "record type 99": 1}
    assert accepted(path).manifest["not_understood"] == expected

    def define(e: EpilogWriter) -> None:
        e.comm_ref(e.group((), WORLD, 2))
        e.define(77, b"")

    anchor = archive(folder, lambda e, _: e.raw(77, b"..").raw(240, b""), define=define)
    assert accepted(anchor).manifest["not_understood"] == {"record type 240": 2, "record type 77": 3}


@pytest.mark.parametrize(("n_events", "sound"), [(-1, True), (0, True), (4 * CALLS, True), (19, False), (21, False)])
def test_definitions__state_a_number_of_events(n_events, sound, path):
    make(n_events=n_events).write(path)
    if sound:
        assert accepted(path).manifest["n_events"] == 4 * CALLS
        return
    refused(path, f"{path} holds 20 events, its definitions say {n_events}", "--salvage")
    store, lost = salvaged(path)
    assert store.manifest["n_events"] == 4 * CALLS
    assert f"say {n_events}" in lost[0]


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (1, b"\1\0\0\0", "a STRING record of 4 bytes is too short"),
        (2, b"x", "a STRING_CNT record"),
        (3, bytes(11), "a MACHINE record of 11 bytes is too short"),
        (4, bytes(23), "a NODE record of 23 bytes is too short"),
        (5, b"", "a PROCESS record of 0 bytes is too short"),
        (6, bytes(8), "a THREAD record of 8 bytes is too short"),
        (7, bytes(19), "a LOCATION record of 19 bytes is too short"),
        (8, bytes(7), "a FILE record of 7 bytes is too short"),
        (9, bytes(24), "a REGION record of 24 bytes is too short"),
        (10, bytes(14), "a METRIC record of 14 bytes is too short"),
        (11, bytes(8), "a MPI_COMM record of 8 bytes is too short"),
        (12, bytes(15), "a OFFSET record of 15 bytes is too short"),
        (14, bytes(3), "a NUM_EVENTS record of 3 bytes is too short"),
        (15, bytes(19), "a CALL_SITE record of 19 bytes is too short"),
        (16, bytes(8) + b"\3" + bytes(14), "a CART_TOPOLOGY record of 23 bytes is too short"),
        (
            16,
            struct.pack("<IIBIIBBII", 0, NONE, 2, 5, 6, 0, 0, NONE, NONE),
            "a CART_TOPOLOGY record of 27 bytes is too short",
        ),
        (17, bytes(8) + b"\xff" + bytes(8), "a CART_COORDS record of 17 bytes is too short"),
        (18, bytes(7), "a MPI_WIN record of 7 bytes is too short"),
        (20, bytes(19), "a CALL_PATH record of 19 bytes is too short"),
        (21, b"\xff\xff\xff\xff\1", "a EVENT_TYPES record of 5 bytes is too short"),
        (22, b"\xff\xff\xff\x3f" + bytes(4), "a EVENT_COUNTS record of 8 bytes is too short"),
        (27, bytes(8), "a MPI_GROUP record of 8 bytes is too short"),
        (29, bytes(7), "a MPI_COMM_REF record of 7 bytes is too short"),
    ],
)
def test_definitions__with_a_record_that_is_too_short(code, body, words, path):
    w = make()
    w.definitions.insert(0, w.record(code, body))
    assert byte_of(refused(w.write(path), path, words)) == HEADER


def test_definitions__with_fields_added_later(path):
    w = make()
    w.define(9, w.u4(7, 0, NONE, 0, 0, NONE) + b"\1new")
    w.define(18, w.u4(0, 0) + b"new")
    accepted(w.write(path))


@pytest.mark.parametrize("code", [2, 19, 26, 28])
def test_definitions__that_continue_nothing(code, path):
    w = make(0)
    w.definitions.insert(0, w.record(code, bytes(8)))
    assert byte_of(refused(w.write(path), path, "_CNT record continues nothing")) == HEADER


def drop_string(w, n):
    """Define a long string without the first `n` of its continuation records."""
    w.string("x" * 600)
    at = next(i for i, r in enumerate(w.definitions) if r[1] == 2)
    del w.definitions[at : at + n]


def on_grid(w, coordinates):
    w.coords(w.topology(None, [2, 3], [True, False]), 0, coordinates)


def of_size(w, n):
    w.define(COMM, w.u4(5) + b"\0" + w.u4(n) + b"\3\0")


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda w: drop_string(w, 1), "STRING"),
        (lambda w: drop_string(w, 2), "STRING"),
        (lambda w: (w.string("short"), w.define(2, b"more\0")), "STRING"),
        (lambda w: w.location(0, 0, 0, 1 << 31), "LOCATION"),
        (lambda w: w.location(0, 0, 0, NONE), "LOCATION"),
        (lambda w: w.location(0, 0, NONE - 1, 0), "LOCATION"),
        (lambda w: w.location(0, 0, 1 << 31, 0), "LOCATION"),
        (lambda w: w.location(0, 0, 1, 0), "defines a location twice"),
        (lambda w: (w.group([0, 1]), w.define(29, w.u4(0, 0))), "defines a communicator twice"),
        *((lambda w, n=n: of_size(w, n), f"an MPI_COMM says {n} bytes, and holds 2") for n in (0, 1, 3, 100, NONE)),
        *((lambda w, n=n: w.group([0, 1], n_ranks=n), f"an MPI_GROUP of {n} lists 2 ranks") for n in (1, 3, 70, NONE)),
        *((lambda w, c=c: on_grid(w, c), "do not lie in their topology") for c in ([], [0], [0, 1, 0], [2, 0], [0, 3])),
        (lambda w: on_grid(w, [NONE, 0]), "do not lie in their topology"),
        (lambda w: [w.metric(f"more {i}") for i in range(41)], "bytes, which does not fit its type"),
    ],
)
def test_definitions__that_contradict_themselves_or_others(define, words, path):
    w = make()
    define(w)
    refused(w.write(path), path, words)


def test_definitions__with_strings_of_any_bytes(path):
    w = make()
    w.define(1, w.u4(9) + b"\0" + bytes(range(255, 127, -1)) + b"\0")
    w.define(1, w.u4(10) + b"\0" + b"no end")
    w.define(1, w.u4(11) + b"\0")
    w.define(9, w.u4(7, 9, NONE, 0, 0, 11) + b"\1")
    w.enter(0, 1.0, 7)
    any_bytes = bytes(range(255, 127, -1)).decode("latin-1")
    assert accepted(w.write(path)).definition("strings")["string"].to_pylist()[-3:] == [any_bytes, "no end", ""]


def test_definitions__without_locations(path):
    refused(EpilogWriter().write(path), f"{path} defines no locations")


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda w: w.define(1, w.u4(0) + b"\0again\0"), "STRING 0 is defined twice"),
        (lambda w: w.define(3, w.u4(0, 1, 0)), "MACHINE 0 is defined twice"),
        (lambda w: w.define(4, w.u4(0, 0, 1, 0) + w.d8(1.0)), "NODE 0 is defined twice"),
        (lambda w: (w.process_name(0, "a"), w.process_name(0, "b")), "PROCESS 0 is defined twice"),
        (lambda w: w.location(0, 0, 7, 0, 1), "LOCATION 1 is defined twice"),
        (lambda w: (w.file("a"), w.define(8, w.u4(0, 0))), "FILE 0 is defined twice"),
        (lambda w: w.define(9, w.u4(0, 0, NONE, 0, 0, NONE) + b"\1"), "REGION 0 is defined twice"),
        (lambda w: w.comm([0], number=0), "MPI_COMM 0 is defined twice"),
        (lambda w: (w.call_site(None, 1, 0, 0), w.define(15, w.u4(0, NONE, 1, 0, 0))), "CALL_SITE 0 is defined twice"),
        (lambda w: (w.window(0), w.define(18, w.u4(0, 0))), "MPI_WIN 0 is defined twice"),
        (
            lambda w: [w.define(16, w.u4(3, NONE) + b"\1" + w.u4(2) + b"\0") for _ in "12"],
            "CART_TOPOLOGY 3 is defined twice",
        ),
        (lambda w: (w.group([0]), w.define(27, w.u4(0) + b"\1" + w.u4(1))), "MPI_GROUP 0 is defined twice"),
    ],
)
def test_definitions__of_the_same_twice(define, words, path):
    w = make()
    before = len(w.definitions)
    define(w)
    assert byte_of(refused(w.write(path), path, words)) >= starts(w.build())[before][0]


@pytest.mark.parametrize(
    ("code", "name"), [(1, "STRING"), (3, "MACHINE"), (5, "PROCESS"), (7, "LOCATION"), (9, "REGION"), (11, "MPI_COMM")]
)
@pytest.mark.parametrize("number", [(1 << 24) + 1, 1 << 31, NONE - 1, NONE])
def test_definitions__with_an_impossible_number(code, name, number, path):
    w = make()
    w.define(code, w.u4(number) + b"\0" * 3 + bytes([code == 7] * 4) + bytes(21))
    refused(w.write(path), path, f"{name} has the impossible number {number}")


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda w: w.define(3, w.u4(5, 1, 99)), "STRING 99"),
        (lambda w: w.define(4, w.u4(5, 88, 1, 0) + w.d8(1.0)), "MACHINE 88"),
        (lambda w: w.define(4, w.u4(5, 0, 1, 99) + w.d8(1.0)), "STRING 99"),
        (lambda w: w.define(5, w.u4(0, 99)), "STRING 99"),
        (lambda w: w.define(6, w.u4(0, 0, 99)), "STRING 99"),
        (lambda w: w.define(7, w.u4(5, 3, 0, 4, 0)), "MACHINE 3"),
        (lambda w: w.define(7, w.u4(5, 0, 3, 4, 0)), "NODE 3"),
        (lambda w: w.define(8, w.u4(5, 99)), "STRING 99"),
        (lambda w: w.define(9, w.u4(5, 99, NONE, 0, 0, NONE) + b"\1"), "STRING 99"),
        (lambda w: w.define(9, w.u4(5, 0, 77, 0, 0, NONE) + b"\1"), "FILE 77"),
        (lambda w: w.define(9, w.u4(5, 0, NONE, 0, 0, 99) + b"\1"), "STRING 99"),
        (lambda w: w.define(10, w.u4(0, 99, NONE) + bytes(3)), "STRING 99"),
        (lambda w: w.define(15, w.u4(0, 77, 1, 0, 0)), "FILE 77"),
        (lambda w: w.define(15, w.u4(0, NONE, 1, 66, 0)), "REGION 66"),
        (lambda w: w.define(15, w.u4(0, NONE, 1, 0, 66)), "REGION 66"),
        (lambda w: w.define(15, w.u4(0, NONE, 1, NONE, 0)), "names no region that it enters"),
        (lambda w: w.define(16, w.u4(0, 55) + b"\1" + w.u4(2) + b"\0"), "MPI_COMM 55"),
        (lambda w: w.define(16, w.u4(0, NONE) + b"\1" + w.u4(2) + b"\0" + w.u4(99, NONE)), "STRING 99"),
        (lambda w: w.define(16, w.u4(0, NONE) + b"\1" + w.u4(2) + b"\0" + w.u4(NONE, 99)), "STRING 99"),
        (lambda w: w.coords(4, 0, [0]), "CART_TOPOLOGY 4"),
        (lambda w: w.coords(w.topology(0, [2], [False]), 44, [0]), "LOCATION 44"),
        (lambda w: w.window(55), "MPI_COMM 55"),
        (lambda w: w.define(29, w.u4(7, 33)), "MPI_GROUP 33"),
        (lambda w: w.comm([0, 5]), "process 5"),
        (lambda w: w.comm([2040], n_bytes=256), "process 2040"),
        (lambda w: w.group([0, 9]), "process 9"),
        (lambda w: w.group([NONE - 1]), f"process {NONE - 1}"),
        (lambda w: w.group((), WORLD, 3), "process 2"),
    ],
)
def test_definitions__that_lead_nowhere(define, words, path):
    w = make()
    define(w)
    text = refused(w.write(path), path, words)
    assert "defined" in text or "names no region" in text
    assert dict(starts(w.build())).get(byte_of(text)) is not None, "this is where no record begins"


@pytest.mark.slow
def test_definitions__of_a_communicator_in_pieces(path):
    w = EpilogWriter()
    for _ in range(2500):
        w.process()
    w.comm(range(2500))
    w.comm([0, 2499])
    w.enter(0, 0.0, "work").exit(0, 1.0)
    assert [r[1] for r in w.definitions].count(19) >= 2
    members = accepted(w.write(path)).definition("communicators")["members"].to_pylist()
    assert members == [[*range(2500)], [0, 2499]]
    at = max(i for i, r in enumerate(w.definitions) if r[1] == 19)
    more = w.definitions[at]
    del w.definitions[at]
    refused(w.write(path), path, "an MPI_COMM says 313 bytes, and holds 2")
    w.definitions[at:at] = [more, more]
    refused(w.write(path), path, "an MPI_COMM says 313 bytes, and holds ")


def test_definitions__of_a_group_with_the_same_process_twice(path):
    w = make()
    w.comm_ref(w.group([0, 1, 0]))
    w.enter(0, 0.9, "MPI_Send").send(0, 0.95, 1, 1).exit(0, 1.0)
    assert accepted(w.write(path)).read("p2p", 0)["peer"].tolist() == [1]


def test_definitions__of_a_world_of_impossible_size(path):
    w = make(0)
    w.group((), WORLD, 1 << 22)
    w.write(path)
    assert peak_of(lambda: refused(path, path, "which is not defined")) < 50 << 20


def test_definitions__with_numbers_at_their_limits(path):
    w = make()
    w.define(9, w.u4(7, NONE, NONE, NONE - 1, NONE - 1, NONE) + b"\xff")
    w.define(3, w.u4(9, NONE - 1, NONE))
    w.define(4, w.u4(9, NONE, NONE - 1, NONE) + w.d8(NAN))
    w.topology(None, [NONE - 1, 0], [True, False])
    w.coords(0, 0, [NONE - 2, 5])
    w.call_path(0, None, (1 << 64) - 1)
    w.event_types(range(200))
    w.comm_dist(NONE - 1, 1, 2, 3, 4)
    w.define(12, w.d8(NAN, INF))
    w.define(25, b"\x09\0" + w.u4(5, 1))
    accepted(w.write(path))


def test_definitions__missing_among_others_are_noted(path):
    w = make()
    w.define(9, w.u4(3, NONE, NONE, 0, 0, NONE) + b"\1")
    accepted(w.write(path))
    store = Store(tracecols.convert(path, path.parent / "missing.trace"))
    assert store.manifest["source"]["definitions missing among others"] == 2
    assert "2 are missing" in printed(store)


def test_definitions__with_a_number_far_from_the_others(folder):
    """Identifiers count from 0: a table up to the largest identifier must not be far larger than the trace."""
    number = (1 << 24) - 1
    anchor = archive(folder, define=lambda w: w.define(9, w.u4(number, 0, NONE, 0, 0, NONE) + b"\1"))
    assert peak_of(lambda: refused(anchor, anchor, f"REGION has the impossible number {number}")) < 50 << 20


@pytest.mark.slow
@pytest.mark.parametrize("names", [[""], [None], ["time"], ["x", "x"], ["visits", "", "comp"]])
def test_definitions__of_counters_with_any_names(names, path):
    w = EpilogWriter()
    for i, name in enumerate(names):
        w.define(10, w.u4(i, w.string(name), NONE) + bytes(3))
    w.n_metrics = len(names)
    w.process()
    w.enter(0, 0.0, "work", [1] * len(names)).exit(0, 1.0, [5] * len(names))
    store = accepted(w.write(path))
    assert store.n_rows("metrics_0", 0) == 2
    for cube in analyzed(store):
        assert len(set(cube.properties.id)) == len(cube.properties.id)


# -- events ------------------------------------------------------------------------------------------------------------


def test_events__of_unknown_types_are_counted(path):
    w = make()
    for k, code in enumerate((100, 136, 250, 250, 62, 99)):
        w.events.insert(3 * k, w.record(code, bytes(k)))
    store = accepted(w.write(path))
    names = {"record type 100": 1, "record type 136": 1, "record type 250": 2, "record type 62": 1, "record type 99": 1}
    assert store.manifest["not_understood"] == names
    assert store.manifest["n_events"] == 4 * CALLS


@pytest.mark.parametrize("code", [99, 250, 9, 13])
def test_events__of_unknown_types_between_an_attribute_and_its_event(code, path):
    """Records of unknown types are skipped wherever they are."""
    w = make()
    w.attribute(1, 7).raw(code, b"\xff" * 30).enter(0, 0.9, "work").exit(0, 0.95)
    store = accepted(w.write(path))
    assert store.manifest["not_understood"] == {f"record type {code}": 1}
    assert store.manifest["events_by_kind"] == {str(EventKind.ENTER.value): 11, str(EventKind.EXIT.value): 11}
    assert store.read("attributes", 0)["row"].tolist() == [10]
    assert store.read("events", 0)["time"][-2:].tolist() == [
        round(t * store.manifest["clock"]["resolution"]) for t in (0.9, 0.95)
    ]


def test_records__without_location_are_of_the_only_one(path):
    w = EpilogWriter()
    w.process()
    w.enter(None, 0.0, "main").exit(None, 0.5)
    store = accepted(w.write(path))
    assert store.read("events", 0)["kind"].tolist() == [EventKind.ENTER, EventKind.EXIT]


NONSENSE = [
    ("length + 1", lambda w: w.raw(101, w.u4(0) + w.d8(0.9) + w.u4(0) + b"x"), "a record has 17 bytes"),
    ("length - 1", lambda w: w.raw(102, w.u4(0) + w.d8(0.9)[1:]), "a record has 11 bytes"),
    ("length 0", lambda w: w.raw(101, b""), "a record has 0 bytes"),
    ("attribute", lambda w: w.raw(61, b"\2\0\0"), "a record has 3 bytes"),
    ("attribute + 1", lambda w: w.raw(60, b"\2\0\0"), "a record has 3 bytes"),
    ("location", lambda w: w.exit(77, 0.9), "an event names location 77, which is not defined"),
    ("huge location", lambda w: w.exit(NONE - 1, 0.9), f"an event names location {NONE - 1}, which is not defined"),
    ("location NO_ID", lambda w: w.event("EXIT", 0, 0.9).events.append(
        w.record(102, w.u4(NONE) + w.d8(0.9))), "an event names"),
    ("no location", lambda w: w.exit(None, 0.9), "an event names no location"),
    ("negative time", lambda w: w.exit(0, -1e-9), "a time is negative"),
    ("NaN", lambda w: w.exit(0, NAN), "a time is"),
    ("-NaN", lambda w: w.exit(0, -NAN), "a time is"),
    ("infinite", lambda w: w.exit(0, INF), "a time is"),
    ("-infinite", lambda w: w.exit(0, -INF), "a time is"),
    ("huge time", lambda w: w.exit(0, 1e30), "time"),
    ("hugest time", lambda w: w.exit(0, 1.7e308), "time"),
    ("region", lambda w: w.enter(0, 0.9, 55), "an event names REGION 55, which is not defined"),
    ("region NO_ID", lambda w: w.event("ENTER", 0, 0.9, region=None), f"names REGION {NONE}"),
    ("region 2^31", lambda w: w.enter(0, 0.9, 1 << 31), f"names REGION {1 << 31}"),
    ("call site", lambda w: w.enter_cs(0, 0.9, 5), "an event names CALL_SITE 5, which is not defined"),
    ("call site NO_ID", lambda w: w.event("ENTER_CS", 0, 0.9, call_site=None), f"names CALL_SITE {NONE}"),
    ("communicator", lambda w: w.send(0, 0.9, 1, 5), "an event names MPI_COMM 5, which is not defined"),
    ("communicator of a receive", lambda w: w.recv(0, 0.9, 1, NONE - 1), f"names MPI_COMM {NONE - 1}"),
    ("communicator NO_ID", lambda w: w.event("MPI_SEND", 0, 0.9, dest=1, comm=None, tag=0, length=1), "MPI_COMM"),
    ("communicator of all", lambda w: w.collexit(0, 0.9, 7), "an event names MPI_COMM 7, which is not defined"),
    ("partner", lambda w: w.send(0, 0.9, 66), "an event names LOCATION 66, which is not defined"),
    ("root", lambda w: w.collexit(0, 0.9, 0, 66), "an event names LOCATION 66, which is not defined"),
    ("no member", lambda w: w.send(0, 0.9, 1, w.comm([0])), "location 1, which is not a member of its communicator"),
    ("source no member", lambda w: w.recv(0, 0.9, 1, w.comm([0])), "location 1, which is not a member"),
    ("root no member", lambda w: w.collexit(0, 0.9, w.comm([0]), 1), "location 1, which is not a member"),
    ("window", lambda w: w.put_start(0, 0.9, 1, 3, 1), "an event names MPI_WIN 3, which is not defined"),
    ("window of a call", lambda w: w.wincollexit(0, 0.9, 3), "an event names MPI_WIN 3, which is not defined"),
    ("group", lambda w: w.winexit(0, 0.9, w.window(0), 8, True), "8, which is not defined"),
    ("target", lambda w: w.put_start(0, 0.9, 66, w.window(0), 1), "an event names LOCATION 66, which is not defined"),
    ("target no member", lambda w: w.win_lock(0, 0.9, 1, w.window(w.comm([0]))), "location 1, which is not a member"),
    ("window NO_ID", lambda w: w.event("MPI_PUT_1TS", 0, 0.9, dest=1, window=None, rma=1, length=8), "MPI_WIN"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("spoil", "words"), [n[1:] for n in NONSENSE], ids=[n[0] for n in NONSENSE])
def test_events__with_one_that_is_nonsense(spoil, words, path, sound):
    expected = sound
    w = make()
    spoil(w)
    spoilt = w.events[20:]
    w.enter(0, 1.0, "work").exit(0, 1.1).enter(1, 1.2, "work").exit(1, 1.3)
    text = refused(w.write(path), path, words, "--salvage")
    at = byte_of(text)
    sizes = [len(r) for r in spoilt]
    begin = events_begin(w.build()) + sum(len(r) for r in w.events[:20])
    # in some cases a sound event precedes the bad one
    assert at in [begin + sum(sizes[:k]) for k in range(len(sizes))]
    store, lost = salvaged(path)
    assert text.splitlines()[0] in lost.values()
    assert 10 <= store.n_rows("events", 0) <= 11
    assert is_prefix(expected, store, 0)
    # if only the meaning of one event is wrong, all events of other locations are kept
    assert store.n_rows("events", 1) == (12 if list(lost) == [0] else 10)
    assert is_prefix(expected, store, 1)


def test_events__with_one_that_is_nonsense__at_another_location(path):
    """Errors name identifiers, not rows of our tables."""
    w = EpilogWriter()
    w.process()
    w.location(0, 0, 5, 0, 7)
    w.location(0, 0, 3, 0, 9)
    w.enter(9, 1.0, "work").exit(77, 1.5)
    refused(w.write(path), "an event names location 77, which is not defined")


@pytest.mark.parametrize("n_metrics", [0, 1, 3])
def test_events__salvaged_ahead_of_a_bad_one_leave_nothing_of_it(n_metrics, path):
    """Neither counter values nor attributes of an event that is not kept remain."""
    w = make(n_metrics=n_metrics)
    w.attribute(1, 7).attribute(3, 5).enter(0, 0.9, 55).enter(0, 1.0, "work")
    refused(w.write(path), "REGION 55")
    store, lost = salvaged(path)
    assert set(lost) == {0}
    kinds = store.read("events", 0)["kind"].tolist()
    assert kinds.count(EventKind.ENTER) == kinds.count(EventKind.EXIT) == CALLS
    assert kinds.count(EventKind.METRIC) == (2 * CALLS if n_metrics else 0)
    assert kinds[-1] == EventKind.EXIT
    assert store.n_rows("attributes") == 0
    # the lost ENTERs, and with counters a METRIC of each
    reported = store.manifest["lost"][0]["n_events"]
    assert reported == (4 if n_metrics else 2)


@pytest.mark.parametrize("attribute", [0, 5, 200, 255])
def test_events__with_unknown_attributes(attribute, path):
    w = make()
    w.attribute(attribute, 7).enter(0, 0.9, "work").exit(0, 0.95)
    store = accepted(w.write(path))
    n = len(store.definition("attribute_definitions")["id"])
    assert all(0 <= a < n for a in store.read("attributes", 0)["attribute"].tolist())
    assert store.n_rows("attributes") or store.manifest["not_understood"] == {"record type 61": 1}


def test_events__with_attributes_that_belong_to_none(path):
    w = make()
    for _ in range(200):
        w.attribute(1, 7)
    w.attribute(2, 7)
    store = accepted(w.write(path))
    assert store.manifest["n_events"] == 4 * CALLS
    assert store.n_rows("attributes") == 0


def test_events__with_very_many_attributes(path):
    w = make()
    for k in range(3000):
        w.attribute(1 + k % 4, k)
    w.enter(0, 0.9, "work").exit(0, 0.95)
    assert accepted(w.write(path)).n_rows("attributes") == 2250


def test_events__with_minus_zero_and_tiny_times(path):
    w = make(0)
    w.enter(0, -0.0, "work").exit(0, 0.0).enter(0, 5e-324, "work").exit(0, 1e-300)
    w.enter(1, 2.0, "work").exit(1, 3.0)
    assert (np.diff(accepted(w.write(path)).read("events", 0)["time"]) >= 0).all()


def test_events__after_very_long_times(path):
    w = make(0)
    w.enter(0, 0.0, "work").exit(0, 1e12)
    store = accepted(w.write(path))
    assert store.read("events", 0)["time"].tolist() == [0, 10**12 * store.manifest["clock"]["resolution"]]


def test_events__whose_time_decreases_between_locations(path):
    """Clocks of processes differ; times are in order only within a location."""
    w = make(0)
    w.enter(0, 1.0, "work").enter(1, 0.5, "work").exit(0, 1.1).exit(1, 0.9)
    assert accepted(w.write(path)).manifest["source"]["records earlier than the one before"] == 2


def test_events__exit_without_enter(path):
    w = make(0)
    w.exit(0, 0.1).enter(0, 0.2, "work").exit(0, 0.3).exit(0, 0.4).collexit(0, 0.5).enter(0, 0.6, "work").exit(0, 0.7)
    w.omp_collexit(1, 0.5).event("LOG_ON", 1, 0.6).event("EXIT_TRACING", 1, 0.7)
    store = accepted(w.write(path))
    assert store.manifest["n_events"] == 11
    for cube in analyzed(store):
        assert cube.facts["counts"]["exits that do not match their enter"] >= 5


@pytest.mark.slow
def test_events__regions_that_are_never_left(path):
    w = make(0)
    w.enter(0, 0.1, "work").enter(0, 0.2, "work").enter(0, 0.3, "MPI_Barrier").enter(1, 0.1, "!$omp parallel")
    w.event("LOG_OFF", 1, 0.5).event("ENTER_TRACING", 1, 0.6).fork(1, 0.7)
    store = accepted(w.write(path))
    for cube in analyzed(store):
        assert cube.facts["counts"]["region instances that never end"] >= 5


def test_events__with_a_stack_deeper_than_any(path):
    w = make(0)
    for k in range(5000):
        w.enter(0, k / 1000, "work")
    for k in range(5000):
        w.exit(0, 5 + k / 1000)
    assert accepted(w.write(path)).manifest["n_events"] == 10000


def test_events__that_fit_nothing_around_them(path):
    """Events of all types, alone and in any order, are read and analyzed; contradictions are counted."""
    w = make(0)
    window, site = w.window(0), w.call_site(None, None, w.region("work"), None)
    w.winexit(0, 0.1, window, 0, True).wincollexit(0, 0.1, window).win_unlock(0, 0.2, 1, window)
    w.put_end(0, 0.2, 1, window, 3).get_end(0, 0.2, 1, window, 4).get_origin(0, 0.2, 9)
    w.put_end_remote(0, 0.2, 1, window, 3).get_start_remote(0, 0.2, 1, window, 5).get_start(0, 0.2, 1, window, 5)
    w.event("PUT_1TS", 0, 0.3, dest=1, rma=1, length=8).event("GET_1TE", 0, 0.3, src=1, rma=1)
    w.join(0, 0.4).release(0, 0.4, 1).acquire(0, 0.4, 1).acquire(0, 0.4, 1).fork(0, 0.4).fork(0, 0.4)
    w.recv(0, 0.5, 0).recv(0, 0.5, 1).send(0, 0.5, 0).collexit(0, 0.6, 0, 1).enter_cs(0, 0.7, site)
    w.event("MPI_SEND_COMPLETE", 0, 0.8, request=4).event("MPI_CANCELLED", 0, 0.8, request=NONE)
    w.event("LOG_ON", 0, 0.9).win_lock(0, 0.9, 0, window).put_start(1, 0.9, 0, window, NONE)
    accepted(w.write(path))


# -- archives ----------------------------------------------------------------------------------------------------------


def test_archive__lacks_the_file_of_a_process(folder):
    anchor = archive(folder)
    process_file(anchor, 1).unlink()
    refused(anchor, process_file(anchor, 1), "is missing", "copy it again")


@pytest.mark.parametrize("data", [b"", b"nonsense", b"EPILOG\0\1\x09", b"\x1f\x8b"])
def test_archive__with_a_file_that_is_none(data, folder):
    anchor = archive(folder)
    process_file(anchor, 1).write_bytes(data)
    refused(anchor, process_file(anchor, 1))


@pytest.mark.parametrize("spoil", ["file", "esd", "map"])
def test_archive__with_a_file_of_another_version(spoil, folder):
    anchor = archive(folder, chart=lambda m: m.map_section(0), compress=False)
    file = {"file": process_file(anchor, 1), "esd": anchor, "map": anchor.with_suffix(".map")}[spoil]
    data = bytearray(file.read_bytes())
    data[7] = 4
    file.write_bytes(data)
    refused(anchor, file, "EPILOG version 4.9", error=UnsupportedError)


def test_archive__without_map(folder):
    """Without a map, identifiers are global and clocks agree."""
    anchor = archive(folder)
    assert not anchor.with_suffix(".map").exists()
    store = accepted(anchor)
    assert store.manifest["n_events"] == 4 * CALLS
    assert store.read("events", 1)["region"].tolist() == [0, 0] * CALLS


def test_archive__with_a_map_of_some_processes(folder):
    anchor = archive(folder, chart=lambda m: (m.map_section(1), m.idmap(REGION, {0: 0}), m.map_section(17)))
    assert accepted(anchor).manifest["n_events"] == 4 * CALLS


def test_archive__with_definitions_cut_off(folder):
    anchor = archive(folder)
    data = anchor.read_bytes()
    ends = [at for at, _ in starts(data)]
    for n in range(HEADER, len(data), 3):
        if n not in ends:
            anchor.write_bytes(data[:n])
            assert byte_of(refused(anchor, anchor, "the file ends within a record")) in ends
            refused(anchor, anchor, salvage=True)


def test_archive__with_its_map_cut_off(folder):
    anchor = archive(folder, chart=lambda m: (m.map_section(0), m.offset(0.0, 1.0), m.idmap(REGION, {0: 0})))
    file = anchor.with_suffix(".map")
    data = file.read_bytes()
    ends = [at for at, _ in starts(data)]
    for n in range(HEADER, len(data)):
        if n not in ends:
            file.write_bytes(data[:n])
            assert byte_of(refused(anchor, file, "the file ends within a record")) in ends


@pytest.mark.slow
@pytest.mark.parametrize("compress", [False, True])
def test_archive__with_a_file_cut_off(compress, folder):
    anchor = archive(folder, compress=compress)
    whole = accepted(anchor)
    file = process_file(anchor, 1)
    data = file.read_bytes()
    for n in range(len(data) // 2, len(data) - 1, 5):
        file.write_bytes(data[:n])
        if not compress and n in [at for at, _ in starts(data)]:
            # the number of records is not known: an end between two records is no error
            continue
        assert "is empty" not in refused(anchor, file, "--salvage")
        store, lost = salvaged(anchor)
        assert set(lost) == {1}
        assert str(file) in lost[1]
        assert store.n_rows("events", 0) == 2 * CALLS
        assert is_prefix(store, whole, 0)
        assert is_prefix(store, whole, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w, p: w.enter(None, 0.9, 7), "an event names REGION 7"),
        (lambda w, p: w.exit(0, 0.9) if p else w, "holds events of location 0, which belongs to another process"),
        (lambda w, p: w.exit(9, 0.9), "an event names location 9, which is not defined"),
        (lambda w, p: w.exit(None, NAN), "a time is"),
        (lambda w, p: w.exit(None, 1e30), "time"),
        (lambda w, p: w.send(None, 0.9, 0, 4), "an event names MPI_COMM 4"),
        (lambda w, p: w.send(None, 0.9, 2, 0), "rank 2"),
        (lambda w, p: w.recv(None, 0.9, NONE - 1, 0), f"rank {NONE - 1}"),
        (lambda w, p: w.collexit(None, 0.9, 0, 77), "rank 77"),
        (lambda w, p: w.winexit(None, 0.9, 0, 0, True), "an event names MPI_WIN 0"),
    ],
)
def test_archive__with_an_event_that_is_nonsense(change, words, folder):
    anchor = archive(folder, change)
    refused(anchor, anchor.parent / "ELG", words, "--salvage")


def test_archive__with_a_file_whose_first_record_is_nonsense(folder):
    """If nothing of a file can be read, it must not look like a process without events."""
    anchor = archive(folder)
    w = EpilogWriter(last_def=False, n_events=-1)
    w.exit(None, NAN).exit(None, 1.0)
    refused(anchor, w.write(process_file(anchor, 1)), "a time is", "--salvage")
    store, lost = salvaged(anchor)
    assert set(lost) == {1}
    assert [store.n_rows("events", i) for i in (0, 1)] == [10, 0]


def test_archive__with_an_event_that_is_nonsense__salvaged(folder):
    anchor = archive(folder, lambda w, p: w.enter(None, 0.9, 7 * p).exit(None, 1.0))
    refused(anchor, process_file(anchor, 1), "an event names REGION 7")
    store, lost = salvaged(anchor)
    assert set(lost) == {1}
    assert [store.n_rows("events", i) for i in (0, 1)] == [12, 10]


def test_archive__with_a_map_to_the_location_of_another_process(folder):
    anchor = archive(
        folder, n_threads=2, chart=lambda m: (m.map_section(1), m.idmap(LOCATION, {2: 1, 3: 3}, sparse=True))
    )
    refused(anchor, process_file(anchor, 1), "holds events of location 1, which belongs to another process")


@pytest.mark.parametrize(
    ("record", "words"), [(REGION, "REGION 0"), (LOCATION, "location 2"), (COMM, "MPI_COMM 0"), (WINDOW, "MPI_WIN 0")]
)
@pytest.mark.parametrize("to", [{}, {0: 99, 2: 99}, {0: NONE, 2: NONE}, {5: 0}])
def test_archive__with_a_map_to_what_is_not_defined(record, words, to, folder):
    def define(w: EpilogWriter) -> None:
        w.comm_ref(w.group((), WORLD, 2))
        w.window(0)

    def change(w: EpilogWriter, process: int) -> None:
        w.send(2 * process, 0.9, 0, 0).wincollexit(2 * process, 1.0, 0)

    anchor = archive(
        folder, change, define=define, n_threads=2, chart=lambda m: (m.map_section(1), m.idmap(record, to, sparse=True))
    )
    refused(anchor, process_file(anchor, 1), words, "which is not defined")


@pytest.mark.parametrize(
    ("chart", "words", "at"),
    [
        *(
            (lambda m, body=body: (m.map_section(0), m.define(25, body), m.map_section(1)), "an IDMAP", 1)
            for body in (
                b"\x09\0\5\0\0\0" + bytes(8), b"\x09\0\1\0\0\0" + bytes(8), b"\x09\0\xff\xff\xff\xff" + bytes(8),
                b"\x09\1\3\0\0\0" + bytes(12), b"\x09\7\2\0\0\0" + bytes(8),
            )
        ),
        (lambda m: m.offset(0.0, 1.0), "before the first MAP_SECTION", 0),
        (lambda m: m.idmap(REGION, {0: 0}), "before the first MAP_SECTION", 0),
        (lambda m: (m.map_section(0), m.define(26, m.u4(1, 2))), "IDMAP_CNT record continues nothing", 1),
    ],
)  # fmt: skip
def test_archive__with_a_map_that_is_nonsense(chart, words, at, folder):
    anchor = archive(folder, chart=chart)
    file = anchor.with_suffix(".map")
    assert byte_of(refused(anchor, file, words)) == starts(file.read_bytes())[at][0]


def test_archive__with_a_map_in_pieces(folder):
    """A map with continuation records, of which one is missing or one is repeated."""
    ids = dict.fromkeys(range(150), 0)
    anchor = archive(folder, chart=lambda m: (m.map_section(0), m.idmap(REGION, ids), m.map_section(1)))
    assert accepted(anchor).manifest["n_events"] == 4 * CALLS
    file = anchor.with_suffix(".map")
    data = file.read_bytes()
    at = next(at for at, code in starts(data) if code == 26)
    size = 2 + data[at]
    file.write_bytes(data[:at] + data[at + size :])
    refused(anchor, file, "an IDMAP says 150 numbers, and holds 87")
    file.write_bytes(data[:at] + data[at : at + size] + data[at:])
    refused(anchor, file, "an IDMAP says 150 numbers, and holds 213")


@pytest.mark.parametrize(
    "offsets",
    [
        [(1.0, 0.0), (0.5, 1.0)],
        [(1.0, 0.0), (1.0, 1.0)],
        [(NAN, 0.0), (1.0, 1.0)],
        [(0.0, 0.0), (1.0, -5.0)],
        [(0.0, 0.0), (1e-9, 1e300)],
        [(0.0, 0.0), (INF, 1.0)],
        [(0.0, NAN)],
        [(NAN, 1.0), (NAN, 2.0)],
        [(0.0, INF)],
        [(0.0, -INF)],
        [(0.0, 1e30)],
        [(0.0, 0.0), (1.0, NAN)],
    ],
)
@pytest.mark.parametrize("process", [0, 1])
def test_archive__with_clock_offsets_that_are_nonsense(offsets, process, folder):
    """Out of order, not finite, too large, or such that time would go backwards."""

    def chart(m: EpilogWriter) -> None:
        m.map_section(process)
        for local, offset in offsets:
            m.offset(local, offset)

    anchor = archive(folder, chart=chart)
    refused(anchor, anchor.with_suffix(".map"))
    refused(anchor, anchor.with_suffix(".map"), salvage=True)


def test_archive__with_clock_offsets_that_are_sound(folder):
    def chart(m: EpilogWriter) -> None:
        m.map_section(0)
        m.map_section(1)
        m.offset(0.0, -0.5)
        m.offset(0.5, 7.0)
        m.offset(1.0, -0.25)

    store = accepted(archive(folder, chart=chart))
    times = store.read("events", 1)["time"] / store.manifest["clock"]["resolution"]
    # the first event is at 0.001 s, and times count from there
    np.testing.assert_allclose(times[0], 0.0, atol=1e-12)
    np.testing.assert_allclose(times[-1], 0.045 * 1.25, atol=1e-12)
    assert (np.diff(times) > 0).all()


def test_archive__with_definitions_in_the_files(folder):
    def change(w: EpilogWriter, process: int) -> None:
        w.process()
        w.last_def = True

    assert accepted(archive(folder, change)).manifest["n_events"] == 4 * CALLS


def test_archive__with_a_file_in_the_other_byte_order(folder):
    anchor = archive(folder)
    w = EpilogWriter(True, last_def=False, n_events=-1)
    w.enter(None, 0.0, 0).exit(None, 1.0)
    w.write(process_file(anchor, 1), compress=True)
    assert accepted(anchor).manifest["n_events"] == 2 * CALLS + 2


def test_archive__with_events_among_its_definitions(folder):
    anchor = archive(folder)
    data = anchor.read_bytes()
    w = EpilogWriter().exit(0, 1.0)
    anchor.write_bytes(data + w.events[0])
    assert byte_of(refused(anchor, anchor, "an event is among the definitions")) == len(data)


def test_archive__with_communicators_of_undefined_processes(folder):
    anchor = archive(folder, define=lambda w: w.comm_ref(w.group([0, 5])))
    refused(anchor, anchor, "process 5, which is not defined")


def test_archive__with_a_group_of_one_for_all(folder):
    """Group of kind SELF: every process is the only member of its own communicator."""
    anchor = archive(
        folder,
        lambda w, p: w.send(None, 0.9, 0, 0).recv(None, 0.91, 0, 0),
        define=lambda w: w.comm_ref(w.group((), SELF, 1)),
    )
    assert accepted(anchor).read("p2p", 1)["peer"].tolist() == [0, 0]
    refused(
        archive(folder, lambda w, p: w.send(None, 0.9, 1, 0), define=lambda w: w.comm_ref(w.group((), SELF, 1))),
        "rank 1",
    )


def test_numbers__are_those_of_the_format():
    assert (CALL_SITE, LOCATION, REGION, COMM, WINDOW, GROUP) == (15, 7, 9, 11, 18, 27)
