"""Archives that tracecols writes: round trips are equal, trace slices are traces by themselves, and no partial output
remains."""

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA, SHARED
from support.command_line import executed, python, run
from support.epilog_writer import merged
from support.kernel_layouts import layouts
from support.otf2_workload import everything
from support.otf2_writer import Archive
from support.random_epilog import random_recording
from support.recordings import ALIKE

import tracecols
from tracecols.converters.base import Batch, Clock, Report
from tracecols.converters.otf2 import encode
from tracecols.converters.otf2.write import WriteError, write_archive
from tracecols.converters.registry import open_source
from tracecols.export.archive import export_archive
from tracecols.model.model import enhance
from tracecols.schema import DEFINITIONS, KINDS, EventKind
from tracecols.search.cube import analyze_model
from tracecols.search.notes import counts
from tracecols.slices import plan
from tracecols.slices import source as slices_source
from tracecols.slices.source import StoreSource
from tracecols.store import Store
from tracecols.testing import Program

ANCHORS = {p.parent.name: p for folder in (DATA, SHARED / "otf2") for p in folder.glob("*/traces.otf2")}
RECORDED = [pytest.param(anchor, id=name) for name, anchor in sorted(ANCHORS.items())]
CUT = [p for p in RECORDED if p.id not in (*ALIKE, "bt-mz_S_4x2", "omp_tasks", "omp_mix_8") or p.id == "coll"]
EPILOG = sorted(SHARED.glob("epilog/*/epik.elg"))

SCOPES = {
    "location": "locations", "location_group": "processes", "system_tree_node": "system_tree_nodes", "group": "groups",
}  # fmt: skip


def definition(store, name):
    """Return a definition table without identifiers of the source."""
    table = store.definition(name).to_pydict()
    table.pop("id", None)
    if name == "metric_sources":
        ids = {s: store.definition(t).column("id").to_pylist() for s, t in SCOPES.items()}
        table["scope_id"] = [
            ids[s].index(i) if i in ids[s] else i for s, i in zip(table["scope"], table["scope_id"], strict=True)
        ]
    return table


def columns(store, table, location):
    """Return the rows of a location; event rows count from its first event, floats are given as their bits."""
    found = store.read(table, location)
    if "row" in found:
        found["row"] = found["row"] - store.definition("locations").column("first_row").to_pylist()[location]
    return {c: (v.view(np.int64) if v.dtype.kind == "f" else v) for c, v in found.items()}


def check_same(first, second, *, more=(), without=(), n_groups=0):
    """Compare stores except for identifiers.

    Tables in `more` may have more rows in `second`, those in `without` are not compared; `second` has `n_groups` more
    groups, in front of the others.
    """
    for name in DEFINITIONS:
        if name in ("segments", "other_definitions", *without):
            continue
        a, b = definition(first, name), definition(second, name)
        for column, values in a.items():
            found = b[column][n_groups:] if name == "groups" else b[column]
            found = found[: len(values)] if name in more else found
            assert found == values, f"{name}.{column}"
    for table in first.tables:
        if table in without:
            continue
        for location in range(len(first.definition("locations"))):
            a, b = columns(first, table, location), columns(second, table, location)
            for column, values in a.items():
                if column == "group":
                    values = np.where(values >= 0, values + n_groups, values)
                np.testing.assert_array_equal(b[column], values, f"{table}.{column} of location {location}")
    assert {t for t in first.tables if t not in without} == set(second.tables)
    assert first.manifest["clock"] == second.manifest["clock"]


def convert(source, folder, name="x"):
    return Store(tracecols.convert(source, folder / f"{name}.trace"))


def there_and_back(store, folder, name="written", **options):
    """Write a store as an archive and convert it back."""
    report = Report()
    path = write_archive(StoreSource(store), folder / f"{name}.otf2", report=report, **options)
    return path, convert(path, folder, f"{name} again"), report


def check_library(anchor, store, original=None):
    """Compare a store, and the archive it was made of, with what the format's library reads of the new archive."""
    pytest.importorskip("otf2")
    from support.otf2_compare import check_definitions, check_events, rows_by_id
    from support.otf2_library import Library

    library = Library(anchor)
    try:
        check_definitions(store, library)
        assert check_events(store, library) == store.manifest["n_events"]
    finally:
        library.close()
    if original is None:
        return
    # event by event: times, kinds and regions as the library reads both archives
    path, source = original
    both = []
    for file, of in ((anchor, store), (path, source)):
        library = Library(file)
        regions = rows_by_id(of)["REGION"]
        both.append(
            [
                [
                    (t, k, regions[f[0]] if k in (12, 13) else len(f), len(a), v and len(v))
                    for t, k, f, a, v in library.events(i % (1 << 64))
                ]
                for i in of.definition("locations").column("id").to_pylist()
            ]
        )
        library.close()
    assert both[0] == both[1]


# -- round trips -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("anchor", RECORDED)
def test_recorded_archive__comes_back(anchor, tmp_path):
    store = convert(anchor, tmp_path)
    path, again, report = there_and_back(store, tmp_path)
    check_same(store, again)
    assert {k for k in report.unknown if k.startswith("event")} == set()
    kept = {k: v for k, v in store.manifest["source"].items() if k not in ("path", "format")}
    assert kept == {k: v for k, v in again.manifest["source"].items() if k not in ("path", "format")}
    assert not [p.name for p in tmp_path.iterdir() if "partial" in p.name]
    if store.manifest["n_events"] < 100_000:
        check_library(path, again, (anchor, store))


@pytest.mark.slow
@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("seed", range(4))
def test_all_record_types__come_back(seed, big, tmp_path):
    work = everything(tmp_path / "traces.otf2", rounds=40, seed=seed, big=big)
    store = convert(work.write(), tmp_path)
    assert {int(k) for k in store.manifest["events_by_kind"]} == {k for k in KINDS if k <= 92}
    path, again, _ = there_and_back(store, tmp_path)
    check_same(store, again, more=("strings",))
    # some times are negative: they are written with a clock offset, and restored
    assert store.manifest["first_time"] < 0
    check_library(path, again)


@pytest.mark.slow
def test_many_chunks__as_the_library_reads_them(tmp_path):
    work = everything(tmp_path / "traces.otf2", rounds=200, event_chunk=1 << 18)
    store = convert(work.write(), tmp_path)
    path, again, _ = there_and_back(store, tmp_path, event_chunk=1 << 18)
    assert max(p.stat().st_size for p in path.with_suffix("").glob("*.evt")) > 1 << 18
    check_same(store, again, more=("strings",))
    check_library(path, again)


@pytest.mark.slow
def test_small_chunks_and_batches_and_jobs__change_nothing(tmp_path, monkeypatch):
    work = everything(tmp_path / "traces.otf2", rounds=20)
    store = convert(work.write(), tmp_path)
    whole, _, _ = there_and_back(store, tmp_path, "whole", jobs=1)
    _, again, _ = there_and_back(store, tmp_path, "small", event_chunk=4000)
    check_same(store, again, more=("strings",))
    monkeypatch.setattr(slices_source, "ROWS", 7)
    monkeypatch.setattr(slices_source, "SIDE_ROWS", 5)
    again = write_archive(StoreSource(store), tmp_path / "again.otf2", jobs=2)
    for path in (*whole.with_suffix("").iterdir(), whole.with_suffix(".def"), whole):
        twin = again.with_suffix("") / path.name if path.parent != tmp_path else again.with_suffix(path.suffix)
        assert twin.read_bytes() == path.read_bytes(), path
    assert len(list(again.with_suffix("").iterdir())) == 2 * len(work.archive.locations)


def test_archive__is_a_source_as_well(tmp_path, data):
    """The source of a written archive need not be a store."""
    path = write_archive(open_source(data / "hybrid_2x3"), tmp_path / "x.otf2")
    check_same(convert(data / "hybrid_2x3", tmp_path, "a"), convert(path, tmp_path, "b"))


@pytest.mark.slow
@pytest.mark.parametrize("source", [*sorted(DATA.glob("*/traces.otf2")), *EPILOG[1:4]], ids=lambda p: p.parent.name)
def test_archives__are_read_by_other_tools(source, tmp_path):
    """The library's own interface follows all references, which requires definitions before their first use."""
    pytest.importorskip("otf2")
    store = convert(source, tmp_path)
    start, stop = window(store, 1)
    for name, what in (("whole", {}), ("piece", {"start": start, "stop": stop})):
        path = write_archive(StoreSource(store, **what), tmp_path / f"{name}.otf2")
        # not in this process: it changes how the library is called
        code = (
            "import otf2, sys\n"
            "with otf2.reader.open(sys.argv[1]) as t:\n"
            "    print(sum(1 for _ in t.events), len(t.definitions.locations), len(t.definitions.comms))"
        )
        done = python("-c", code, path)
        expected = [
            Store(tracecols.convert(path, tmp_path / f"{name}.trace")).manifest["n_events"],
            len(store.definition("locations")),
            len(store.definition("communicators")),
        ]
        assert list(map(int, done.stdout.split())) == expected


def check_epilog(source, folder):
    store = convert(source, folder)
    path, again, report = there_and_back(store, folder)
    beyond = {k: n for k, n in store.manifest["events_by_kind"].items() if int(k) > 92}
    assert again.manifest["n_events"] == store.manifest["n_events"] - sum(beyond.values())
    for kind, n in beyond.items():
        assert report.unknown[f"events of kind {EventKind(int(kind)).name}"] == n
    # the list of locations to which ranks refer is added as a group
    n_groups = len(again.definition("groups")) - len(store.definition("groups"))
    assert n_groups == (len(store.definition("groups")) > 0)
    without = ["topologies", "topology_coordinates", "call_sites", "enter_sites", "ties"]
    off = store.manifest["events_by_kind"].get(str(int(EventKind.MEASUREMENT_ON_OFF)), 0)
    if beyond or off:
        # rows differ: compare the events themselves
        without += [*store.tables, "locations"]
        for location in range(len(store.definition("locations"))):
            a, b = store.read("events", location), again.read("events", location)
            known = a["kind"] <= 92
            for column in ("time", "kind"):
                np.testing.assert_array_equal(a[column][known], b[column])
            named = np.isin(b["kind"], (EventKind.ENTER, EventKind.EXIT))
            np.testing.assert_array_equal(a["region"][known][named], b["region"][named])
        without += list(again.tables)
        for name in set(without) & set(again.tables):
            again.tables.pop(name)
    check_same(store, again, more=("strings", "regions"), without=without, n_groups=n_groups)
    check_library(path, convert(path, folder, "library"))


@pytest.mark.slow
@pytest.mark.parametrize("source", [p for p in EPILOG if p.parent.name not in ALIKE], ids=lambda p: p.parent.name)
def test_recorded_epilog__comes_back(source, tmp_path):
    check_epilog(source, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_epilog__comes_back(seed, tmp_path):
    recording = random_recording(
        seed, n_processes=3, n_threads=1 + seed % 3, n_rounds=10, n_metrics=seed % 3, rma=seed % 2 == 0
    )
    merged(recording).write(tmp_path / "x.elg")
    check_epilog(tmp_path / "x.elg", tmp_path)


# -- definitions -------------------------------------------------------------------------------------------------------


def test_communicators__find_their_groups_again(tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    mpi = archive.mpi(3, 2)
    archive.process("without locations")
    sub = archive.comm("sub", [2, 0], parent=mpi.world, flags=1)
    archive.comm("the same members", [2, 0], parent=sub)
    archive.comm_self()
    twin = archive.group("comm_group", [mpi.ranks[2], mpi.ranks[0]], flags=1)
    archive.define("Comm", name=archive.string("global"), group=twin, parent=None, flags=0)
    archive.define("Comm", name=archive.string("none"), group=None, parent=None, flags=0)
    locations = archive.group("locations", mpi.ranks)
    archive.define("Comm", name=archive.string("of locations"), group=locations, parent=None, flags=0)
    archive.define(
        "InterComm",
        self=archive.new_id("Comm"),
        name=archive.string("inter"),
        group_a=twin,
        group_b=locations,
        common_communicator=mpi.world,
        flags=1,
    )
    archive.group("regions", [archive.region("a"), archive.region("b")])
    mpi.ranks[0].call(1, 2, "a")
    store = convert(archive.write(), tmp_path)
    _, again, _ = there_and_back(store, tmp_path)
    check_same(store, again)


@pytest.mark.parametrize("empty", [False, True])
def test_groups_of_location_groups__come_back(empty, tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    processes = [archive.process(f"p{i}") for i in range(3)]
    for p in processes[1:] if empty else processes:
        archive.location(process=p).call(1, 2, "a")
    archive.group("comm_location_groups", [processes[i] for i in (2, 0, 1)], "mpi")
    archive.comm("world", [0, 1, 2])
    store = convert(archive.write(), tmp_path)
    _, again, _ = there_and_back(store, tmp_path)
    check_same(store, again)


def test_definitions_of_no_table__are_written_or_counted(tmp_path, data):
    store = convert(data / "hybrid_2x3", tmp_path)
    _, again, report = there_and_back(store, tmp_path)
    before, after = (s.definition("other_definitions").column("record").to_pylist() for s in (store, again))
    assert after == [r for r in before if r != "ParadigmProperty"]
    assert report.unknown == {"definitions ParadigmProperty": before.count("ParadigmProperty")}


def test_unknown_events__are_counted(archive, tmp_path):
    archive.location().enter(1, "a").unknown(2, 99, b"..").unknown(3, 101).leave(4, "a")
    _, again, report = there_and_back(convert(archive.write(), tmp_path), tmp_path)
    assert report.unknown == {"events of kind UNKNOWN": 2}
    assert again.read("events", 0)["time"].tolist() == [1, 4]
    assert again.definition("locations").column("n_events").to_pylist() == [2]


# -- data that cannot be written ---------------------------------------------------------------------------------------


class Source:
    """A source of one location with given batches."""

    def __init__(self, store, batches):
        whole = StoreSource(store)
        self.format, self.path, self.clock = "", Path(), Clock(1000)
        self.properties, self.metric_types, self.definitions = {}, whole.metric_types, whole.definitions
        self.batches = batches

    def read(self, location, report, *, salvage=False):
        for batch in self.batches if location == 0 else ():
            if isinstance(batch, BaseException):
                raise batch
            yield batch


def events(*rows, **sides):
    """Make a batch of events given as (time, kind, region)."""
    time, kind, region = zip(*rows, strict=True)
    return Batch(
        {"time": np.array(time, np.int64), "kind": np.array(kind, np.uint8), "region": np.array(region, np.int32)},
        sides,
    )


@pytest.fixture
def store(archive, tmp_path):
    """A store with two locations and a region."""
    archive.location().call(1, 2, "a")
    archive.location().call(1, 2, "a")
    return convert(archive.write(), tmp_path)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (events((1, 12, 0), (2, 13, -1)), "event 1 (EXIT) names no region"),
        (events((1, 12, 0), (2, 14, -1)), "event 1 (MPI_SEND) lacks its attributes"),
        (events((1, 12, 0), (2, 53, -1), threads={
            "row": np.array([1]), "kind": np.array([53]), "team": np.array([-1]), "model": np.array([3]),
            "requested": np.array([1 << 32]), "sequence": np.array([-1]),
        }), "event 1 (THREAD_FORK) has a value of requested that does not fit"),
        (events((1, 12, 0), attributes={
            "row": np.array([0]), "attribute": np.array([0]), "type": np.array([77]), "value": np.array([0]),
        }), "event 0 (ENTER) has an additional attribute of a type that is not known"),
    ],
    ids=["no region", "no attributes", "too large", "attribute type"],
)  # fmt: skip
def test_events_that_otf2_cannot_tell__are_named(batch, words, store, tmp_path):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(WriteError) as error:
        write_archive(Source(store, [batch]), tmp_path / "x.otf2")
    assert words in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


def test_times_that_fall_below_zero_later__are_named(store, tmp_path):
    with pytest.raises(WriteError, match="has the time -5"):
        write_archive(Source(store, [events((1, 12, 0)), events((-5, 13, 0))]), tmp_path / "x.otf2")


def test_events_larger_than_a_chunk__are_named(tmp_path):
    store = convert(everything(tmp_path / "traces.otf2", rounds=10).write(), tmp_path)
    with pytest.raises(WriteError, match="does not fit into a chunk of 1000 bytes"):
        write_archive(StoreSource(store), tmp_path / "x.otf2", event_chunk=1000)


def test_columns_of_several_metrics__follow_each_other(tmp_path):
    """Otherwise the kernel would be compiled again for their layout."""
    store = convert(everything(tmp_path / "traces.otf2", rounds=2).write(), tmp_path)
    write_archive(StoreSource(store), tmp_path / "x.otf2")
    assert layouts(encode.encode_events.kinds) == {"C"}


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_interrupted_writing__leaves_nothing(error, store, tmp_path):
    before = sorted(tmp_path.iterdir())
    expected = WriteError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        write_archive(Source(store, [events((1, 12, 0)), error]), tmp_path / "x.otf2")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["x.otf2", "x.def", "x"])
def test_existing_files__are_not_overwritten(name, store, tmp_path):
    (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(WriteError, match="exists"):
        write_archive(StoreSource(store), tmp_path / "x.otf2")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / name).read_text() == "mine"


def test_what_appears_meanwhile__is_kept_and_nothing_else(store, tmp_path):
    def meddle(done, total):
        (tmp_path / "x").mkdir(exist_ok=True)
        (tmp_path / "x" / "mine").write_text("mine")

    before = sorted([*tmp_path.iterdir(), tmp_path / "x"])
    with pytest.raises(WriteError):
        write_archive(StoreSource(store), tmp_path / "x.otf2", progress=meddle)
    assert sorted(tmp_path.iterdir()) == before


def test_names__end_in_otf2(store, tmp_path):
    with pytest.raises(WriteError, match=r"ends in \.otf2"):
        write_archive(StoreSource(store), tmp_path / "x.trace2")


def test_progress__counts_all_events(tmp_path, data):
    seen = []
    store = convert(data / "hybrid_2x3", tmp_path)
    write_archive(StoreSource(store), tmp_path / "x.otf2", progress=lambda *at: seen.append(at))
    assert seen[-1] == (6708, 6708)


# -- trace slices ------------------------------------------------------------------------------------------------------


def window(store, seed):
    """Draw a time range, in ticks."""
    m = store.manifest
    low, high = sorted(random.Random(seed).sample(range(m["first_time"], m["last_time"]), 2))
    return low, high


def piece_of(store, folder, **what):
    path = write_archive(StoreSource(store, **what), folder / "piece.otf2")
    return path, convert(path, folder, "piece")


def clipped(store, start, stop):
    """Sum exclusive ticks by location and region within a time range, the obvious way."""
    result = defaultdict(int)
    for location in range(len(store.definition("locations"))):
        e = store.read("events", location)
        stack, last = [], 0
        for time, kind, region in zip(e["time"].tolist(), e["kind"].tolist(), e["region"].tolist(), strict=True):
            if stack:
                result[location, stack[-1]] += max(min(time, stop) - max(last, start), 0)
            last = time
            if kind in (EventKind.ENTER, EventKind.PROGRAM_BEGIN) or (
                kind == EventKind.MEASUREMENT_ON_OFF and region >= 0
            ):
                stack.append(region)
            elif kind in (EventKind.EXIT, EventKind.PROGRAM_END, EventKind.MEASUREMENT_ON_OFF):
                stack.pop()
    return {k: n for k, n in result.items() if n}


def profile(model):
    """Sum exclusive ticks by location and region as the analysis finds them."""
    result = defaultdict(int)
    table = model.profile
    for path, location, ticks in zip(table.call_path, table.location, table.exclusive, strict=True):
        result[int(location), int(model.call_paths.region[path])] += int(ticks)
    return {k: n for k, n in result.items() if n}


@pytest.mark.slow
@pytest.mark.parametrize("anchor", CUT)
@pytest.mark.parametrize("seed", range(2))
def test_piece_by_time__is_a_trace_by_itself(seed, anchor, tmp_path):
    store = convert(anchor, tmp_path)
    start, stop = window(store, seed)
    whole = enhance(store, 1)
    path, piece = piece_of(store, tmp_path, start=start, stop=stop)
    model = enhance(piece, 1)
    assert all(s.bad_exits == 0 and s.open == 0 for s in model.scans)
    assert analyze_model(model).violations() == [] or analyze_model(whole).violations()
    assert profile(model) == clipped(store, start, stop)
    times = [piece.read("events", i)["time"] for i in range(model.n_locations)]
    assert all(((t >= start) & (t <= stop)).all() and (np.diff(t) >= 0).all() for t in times)
    for name in DEFINITIONS:
        if name not in ("segments", "other_definitions"):
            a, b = definition(store, name), definition(piece, name)
            for column in set(a) - {"n_events", "first_row"}:
                assert a[column] == b[column], f"{name}.{column}"

    # events within the time range are joined as in the whole trace
    def inside(table, *columns):
        return np.all([(table[c] >= start) & (table[c] < stop) for c in columns], axis=0)

    def messages(model):
        m = model.messages
        names = ("send_location", "send_time", "recv_location", "recv_time", "communicator", "tag", "length")
        kept = inside(m, "send_time", "recv_time")
        return sorted(zip(*(np.asarray(m[n])[kept].tolist() for n in names), strict=True))

    assert messages(model) == messages(whole)
    assert len(model.messages) == len(messages(model))
    assert {k: n for k, n in counts(model).items() if "receives without" in k or "disagree" in k} == {}

    def operations(model):
        c, m = model.collectives, model.collective_members
        ends = defaultdict(list)
        for of, location, time in zip(
            m["collective"].tolist(), m["location"].tolist(), m["end_time"].tolist(), strict=True
        ):
            ends[of].append((location, time))
        complete = [k for k in range(len(c)) if c["n_members"][k] == c["size"][k]]
        return sorted(sorted(ends[k]) for k in complete if all(start <= t < stop for _, t in ends[k]))

    assert operations(model) == operations(whole)

    def teams(model):
        """Return threads and times of the construct instances that lie within the time range."""
        m = model.construct_members
        found = defaultdict(list)
        rows = zip(*(m[c].tolist() for c in ("construct", "location", "enter_time", "exit_time")), strict=True)
        for of, *row in rows:
            found[of].append(tuple(row))
        return sorted(sorted(v) for v in found.values() if all(start < a and b < stop for _, a, b in v))

    # instances that cross an end of the range may be found in parts
    whole_teams = teams(whole)
    assert [t for t in teams(model) if t in whole_teams] == whole_teams
    if piece.manifest["n_events"] < 20_000:
        check_library(path, piece)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_piece_of_a_random_epilog_trace__is_a_trace_by_itself(seed, tmp_path):
    recording = random_recording(seed, n_processes=3, n_threads=1 + seed % 3, n_rounds=15)
    merged(recording).write(tmp_path / "x.elg")
    store = convert(tmp_path / "x.elg", tmp_path)
    start, stop = window(store, seed)
    _, piece = piece_of(store, tmp_path, start=start, stop=stop)
    model = enhance(piece, 1)
    assert all(s.bad_exits == 0 and s.open == 0 for s in model.scans)
    assert "receives without send" not in counts(model)


@pytest.mark.slow
def test_piece_by_time__repeats_what_is_open_and_closes_it(archive, tmp_path):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    archive.region("program", role="artificial", paradigm="measurement_system")
    note = archive.attribute("note", "uint32")
    a.record(0, "ProgramBegin", program="program", arguments=["x", "y"])
    a.record(10, "Enter", region="main", attributes=[(note, "uint32", 7)])
    a.enter(20, "MPI_Irecv").post_receive(21, 5).leave(22, "MPI_Irecv")
    a.call(30, 60, "work").enter(70, "MPI_Wait").complete_receive(75, 1, mpi.world, 5, tag=1).leave(
        80, "MPI_Wait"
    ).leave(90, "main")
    a.record(100, "ProgramEnd", exit_status=3)
    b.enter(10, "main").enter(25, "MPI_Send").send(26, 0, mpi.world, tag=1).leave(27, "MPI_Send").leave(90, "main")
    store = convert(archive.write(), tmp_path)
    k = EventKind

    def kinds(start, stop, name):
        path = write_archive(StoreSource(store, start=start, stop=stop), tmp_path / f"{name}.otf2")
        piece = convert(path, tmp_path, name)
        return piece, [
            list(zip(e["time"].tolist(), e["kind"].tolist(), strict=True))
            for e in (piece.read("events", i) for i in (0, 1))
        ]

    piece, found = kinds(26, 60, "a")
    assert found[0] == [
        (26, k.PROGRAM_BEGIN),
        (26, k.ENTER),
        (26, k.MPI_IRECV_REQUEST),
        (30, k.ENTER),
        (60, k.EXIT),
        (60, k.EXIT),
        (60, k.PROGRAM_END),
    ]
    assert found[1] == [(26, k.ENTER), (26, k.ENTER), (26, k.MPI_SEND), (27, k.EXIT), (60, k.EXIT)]
    assert piece.read("attributes", 0)["value"].tolist() == [7]
    strings = piece.definition("strings").column("string").to_pylist()
    assert [strings[i] for i in piece.read("program_arguments", 0)["argument"]] == ["x", "y"]
    assert piece.read("control", 0)["exit_status"].tolist() == [-1, -1]
    # the message was sent before the slice: its receive is left out
    piece, found = kinds(27, 1000, "b")
    assert k.MPI_IRECV not in [kind for _, kind in found[0]]
    assert (80, k.EXIT) in found[0]
    assert found[0][-1] == (100, k.PROGRAM_END)
    assert piece.read("control", 0)["exit_status"].tolist()[-1] == 3
    # a time range without events within a region still has that region
    _, found = kinds(28, 29, "c")
    assert found[1] == [(28, k.ENTER), (29, k.EXIT)]
    # after the end of a location nothing is open
    _, found = kinds(95, 99, "d")
    assert found[1] == []
    assert found[0] == [(95, k.PROGRAM_BEGIN), (99, k.PROGRAM_END)]


@pytest.mark.slow
def test_piece_by_time__with_suspended_tasks(archive, tmp_path):
    (t,), team = archive.openmp(1)

    def task(time, name, generation):
        t.record(time, name, team=team, creator=0, generation=generation)

    t.enter(1, "main").fork(2, 1).begin_team(3, team).enter(4, "!$omp implicit barrier @a.c:1")
    task(5, "ThreadTaskSwitch", 1)
    t.enter(6, "one")
    task(10, "ThreadTaskSwitch", 2)
    t.enter(11, "two")
    task(20, "ThreadTaskSwitch", 1)
    t.leave(21, "one")
    task(22, "ThreadTaskComplete", 1)
    task(30, "ThreadTaskSwitch", 2)
    t.leave(31, "two")
    task(32, "ThreadTaskComplete", 2)
    t.leave(40, "!$omp implicit barrier @a.c:1").end_team(41, team).join(42).leave(43, "main")
    store = convert(archive.write(), tmp_path)
    for start, stop in ((7, 12), (12, 25), (12, 35), (20, 21), (25, 31), (23, 28), (3, 41)):
        path = write_archive(StoreSource(store, start=start, stop=stop), tmp_path / f"{start}-{stop}.otf2")
        piece = convert(path, tmp_path, f"{start}-{stop}")
        scan = enhance(piece, 1).scans[0]
        assert (scan.bad_exits, scan.open) == (0, 0), (start, stop)
        e = piece.read("events", 0)
        n = [int((e["kind"] == k).sum()) for k in (EventKind.THREAD_FORK, EventKind.THREAD_JOIN)]
        assert n == [1, 1]
    # at 25 task 1 is complete and task 2 suspended, and the thread is back in its implicit task
    e = Store(tmp_path / "25-31.trace").read("tasks", 0)
    assert e["generation"].tolist() == [2, 0, 2, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hybrid_2x3", "coll", "omp_basic"])
def test_piece_by_locations__leaves_their_severities_alone(name, tmp_path, data):
    store = convert(data / name, tmp_path)
    n = len(store.definition("locations"))
    # workers inherit call paths from the master of their process
    process = store.definition("locations").column("process").to_pylist()
    chosen = [i for i in range(n) if process[i] == process[-1]]
    _, piece = piece_of(store, tmp_path, locations=chosen)
    whole, part = analyze_model(enhance(store, 1)), analyze_model(enhance(piece, 1))
    for location in range(n):
        if location not in chosen:
            assert piece.n_rows("events", location) == 0
            continue
        for table in store.tables:
            a, b = columns(store, table, location), columns(piece, table, location)
            for column in a:
                np.testing.assert_array_equal(a[column], b[column])

    ranks = {(whole.system.rank[i], whole.system.thread[i]) for i in chosen}

    def cells(cube, of):
        frame = cube.frame()
        frame = frame[frame.property == of]
        rows = zip(frame.call_path, frame["rank"], frame.thread, frame.value, strict=True)
        return sorted(row for row in rows if row[1:3] in ranks)

    for of in ("visits", "time"):
        assert cells(whole, of)
        assert cells(part, of) == cells(whole, of)


def test_window_around_everything__is_the_whole(tmp_path, data):
    store = convert(data / "hybrid_2x3", tmp_path)
    m = store.manifest
    paths = [
        write_archive(StoreSource(store, **what), tmp_path / f"{i}.otf2")
        for i, what in enumerate(({}, {"start": m["first_time"], "stop": m["last_time"] + 1}, {"locations": range(6)}))
    ]
    for path in paths[1:]:
        for file in paths[0].with_suffix("").iterdir():
            assert (path.with_suffix("") / file.name).read_bytes() == file.read_bytes()


def test_pieces__do_not_depend_on_batches(tmp_path, data, monkeypatch):
    store = convert(data / "hybrid_2x3", tmp_path)
    start, stop = window(store, 3)
    a = write_archive(StoreSource(store, start=start, stop=stop), tmp_path / "a.otf2")
    monkeypatch.setattr(slices_source, "ROWS", 7)
    monkeypatch.setattr(slices_source, "SIDE_ROWS", 5)
    monkeypatch.setattr(plan, "BATCH", 11)
    b = write_archive(StoreSource(store, start=start, stop=stop), tmp_path / "b.otf2")
    for file in a.with_suffix("").iterdir():
        assert (b.with_suffix("") / file.name).read_bytes() == file.read_bytes()


# -- command line ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def work(tmp_path_factory, data):
    """A folder with a store and a cube of the hybrid recording."""
    folder = tmp_path_factory.mktemp("work")
    tracecols.convert(data / "hybrid_2x3", folder / "h.trace")
    assert run("analyze", folder / "h.trace", "-o", folder / "h.severity").exit_code == 0
    return folder


@pytest.mark.slow
def test_command__writes_a_piece(work, opened, tmp_path):
    output = executed(
        "export", work / "h.trace", tmp_path / "p.otf2", "--from", 0.3, "--to", 0.35, "--locations", "0,3-5"
    )
    assert "p.otf2" in output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p", "p.def", "p.otf2"]
    piece = opened(tmp_path / "p.otf2")
    assert sorted(set(piece.events.location)) == [0, 3, 4, 5]
    whole = tracecols.open(work / "h.trace").read_events([0, 3, 4, 5])
    both = []
    for e in (whole, piece.events):
        inner = (e.time > piece.ticks(0.3)) & (e.time < piece.ticks(0.35)) & e.kind.isin([12, 13])
        both.append(e.loc[inner, ["location", "time", "kind", "region"]].to_numpy().tolist())
    assert both[0] == both[1]
    assert len(both[0]) > 100


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ("h.trace", "x.csv", "--from", "1"),
            2,
            "--from: only for an archive or a timeline as output (.otf2, .pftrace, .perfetto-trace, .trace.json), not for x.csv",
        ),
        (("h.severity", "x.json", "--locations", "1"), 2, "--locations: only for an archive"),
        (("h.trace", "x.otf2", "--table", "events"), 2, "--table, --raw and --wide have no meaning"),
        (("h.trace", "x.otf2", "--locations", "1,x"), 2, "'x' is neither a number nor a range"),
        (("h.trace", "x.otf2", "--locations", "3-1"), 2, "'3-1' is neither"),
        (("h.trace", "x.otf2", "--locations", "5,6"), 1, "no location 6"),
        (("h.trace", "x.otf2", "--from", "2", "--to", "1"), 1, "nothing lies between 2 s and 1 s"),
        (("h.severity", "x.otf2"), 1, "is a severity cube, and has no events"),
        (("nowhere.trace", "x.otf2"), 1, "no such store"),
        (("h.trace", "no/x.otf2"), 1, "cannot write"),
    ],
)
def test_command__says_what_is_wrong(arguments, code, words, work, monkeypatch):
    monkeypatch.chdir(work)
    before = sorted(work.iterdir())
    assert words in executed("export", *arguments, code=code)
    assert sorted(work.iterdir()) == before


def test_command__tells_what_is_left_out(tmp_path, archive):
    archive.location().enter(1, "a").unknown(2, 99).leave(4, "a")
    convert(archive.write(), tmp_path)
    result = run("export", tmp_path / "x.trace", tmp_path / "y.otf2")
    assert "left out, as OTF2 has no record for them: 1 event of kind UNKNOWN" in result.output


def test_command__tells_that_call_sites_are_left_out(tmp_path):
    program = Program()
    site = program.define("call_sites", file="a.c", line=7, region=program.region("f"))
    program.locations[0].enter(0, "main").add(1, EventKind.ENTER, "f", enter_sites={"call_site": site})
    program.locations[0].leave(2).leave(3)
    with program.trace() as trace:
        result = run("export", trace.path, tmp_path / "y.otf2")
    assert "1 call with a call site: those of a region from several places are one call path there" in result.output


def test_function__returns_what_is_left_out(work, tmp_path):
    report = export_archive(work / "h.trace", tmp_path / "x.otf2", start=0.3)
    assert set(report.unknown) == {"definitions ParadigmProperty"}
