"""Times that decrease at a location are counted and never refused; the order in the file is program order.

EPIK writes ENTER and EXIT of its flush region TRACING, then the event that filled the buffer, with the earlier time it
had taken. Other recorders leave such events for other reasons; OTF2's BUFFER_FLUSH is in test_buffer_flush.
"""

import math
import random

import numpy as np
import pytest
from conftest import SHARED
from oracles.epilog import read_epilog
from oracles.expert import severities
from oracles.recorded import Recorded
from support.command_line import python
from support.earl_events import compare as compare_states
from support.epilog_compare import compare
from support.epilog_writer import EpilogWriter, merged
from support.expert_cells import cells, differences
from support.flushed import late_event
from support.laws import divide
from support.otf2_writer import Archive
from support.random_epilog import random_recording, with_late_events

import tracecols
from tracecols import conversion
from tracecols.earl import EventTrace
from tracecols.slices.source import StoreSource
from tracecols.store import Store
from tracecols.store.layout import write_manifest

DECREASES = "events earlier than the one before them"


@pytest.fixture
def small(tmp_path):
    return tracecols.open(tracecols.convert(late_event(tmp_path), tmp_path / "x.trace"))


def seconds(cube, name):
    """Return the severities of the first location in seconds, by call path."""
    of = cube.cells[name]
    return {
        cube.call_paths.path[c]: v * cube.scale(name)
        for c, at, v in zip(of.call_path.tolist(), of.location.tolist(), of.value.tolist(), strict=True)
        if at == 0
    }


@pytest.mark.slow
def test_epilog__keeps_order_and_times_and_counts_decreases(small):
    events = small.read_events(columns=["location", "time", "pos"])
    mine = events[events.location == 0]
    assert small.seconds(mine.time).tolist() == [0, 4, 6, 3, 9, 10]
    # positions in the file
    assert mine.pos.tolist() == [0, 2, 3, 4, 7, 8]
    assert small.store.decreases == {0: 1}
    assert small.manifest["last_time"] == small.ticks(10)


def test_exclusive_time__is_the_difference_of_times_also_where_they_decrease(small):
    # main 0..10 without TRACING 4..6 and work 3..9: 10 - 2 - 6
    cube = small.analyze("expert")
    assert seconds(cube, "time") == {"main": 2, "main/TRACING": 2, "main/work": 6}
    assert cube.facts["counts"][DECREASES] == 1


@pytest.mark.slow
def test_check_and_analyze__tell_of_decreasing_times(small):
    def run(command):
        return python("-m", "tracecols", command, str(small.path), code=None)

    told = run("check")
    assert told.returncode == 1
    assert "1  event earlier than the one before it\n" in told.stdout
    assert "3.000000000 s  location 0" in told.stdout
    assert "ENTER 3.000000000 s before the event in front of it" in told.stdout
    noted = run("analyze")
    assert noted.returncode == 0
    assert "note: 1 event earlier than the one before it\n" in noted.stderr


def test_otf2__with_decreasing_times_is_converted_and_told(opened, tmp_path):
    archive = Archive(tmp_path / "traces.otf2")
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(10, "main").enter(50, "f").leave(40, "f").enter(45, "g").leave(44, "g").leave(100, "main")
    trace = opened(archive)
    assert trace.events.time.tolist() == [10, 50, 40, 45, 44, 100]
    assert trace.store.decreases == {0: 2}
    assert seconds(trace.analyze(), "time") == pytest.approx({"main": 101e-9, "main/f": -10e-9, "main/g": -1e-9})


def test_otf2__with_decreasing_times_has_the_clock_of_each_time(opened, tmp_path):
    """A time is corrected by the clock readings around it, also if events with later times precede it."""
    archive = Archive(tmp_path / "traces.otf2")
    with archive.location("thread", archive.process("p")) as thread:
        thread.clock_offset(0, 0).clock_offset(100, 0).clock_offset(200, 100)
        thread.enter(10, "main").enter(150, "f").leave(90, "f").enter(150, "f").leave(160, "f").leave(200, "main")
    trace = opened(archive)
    assert trace.events.time.tolist() == [10, 200, 90, 200, 220, 300]


@pytest.mark.parametrize("rows", [2, 3, 1 << 20])
def test_decreases__are_counted_between_batches_too(tmp_path, monkeypatch, rows):
    monkeypatch.setattr("tracecols.converters.otf2.archive.ROWS", rows)
    archive = Archive(tmp_path / "traces.otf2")
    with archive.location("thread", archive.process("p")) as thread:
        thread.enter(0, "main")
        for t in range(20, 0, -1):
            thread.call(t, t, "f")
        thread.leave(30, "main")
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    assert store.decreases == {0: 19}
    assert (store.manifest["first_time"], store.manifest["last_time"]) == (0, 30)


def test_stores_made_before_decreases_were_counted__are_read(small):
    left_out = ("format", "version", "checksum", "decreases")
    manifest = {k: v for k, v in small.manifest.items() if k not in left_out}
    write_manifest(small.path, "a store of a trace", small.manifest["version"], manifest)
    store = Store(small.path)
    assert store.decreases == {}
    assert store.n_rows("events") == 10


# -- lookups by time ---------------------------------------------------------------------------------------------------


def test_read_events__divides_a_trace_at_any_time(small):
    def numbers(start, stop):
        return small.read_events(0, start, stop, ["time"]).index.tolist()

    assert numbers(0, 3.5) == [0]
    # the event of 3 s follows one of 6 s
    assert numbers(3.5, 6) == [1]
    assert numbers(6, None) == [2, 3, 4, 5]
    for at in np.arange(0.25, 10, 0.5):
        assert numbers(None, at) + numbers(at, None) == list(range(6))


@pytest.mark.slow
def test_pieces__add_up_also_where_time_decreases(small):
    whole = small.analyze("expert")
    for at in (0.5, 3.5, 4.5, 5.5, 6.5, 9.5):
        parts = [small.analyze("expert", stop=at), small.analyze("expert", start=at)]
        added = {}
        for part in parts:
            for path, value in seconds(part, "time").items():
                added[path] = added.get(path, 0) + value
        assert {k: v for k, v in added.items() if v} == pytest.approx(seconds(whole, "time")), at


@pytest.mark.slow
def test_pieces__hold_every_event_once(tmp_path):
    recording = with_late_events(random_recording(3, n_processes=3, n_threads=1, n_rounds=20), 3)
    merged(recording).write(tmp_path / "x.elg")
    store = Store(tracecols.convert(tmp_path / "x.elg", tmp_path / "x.trace"))
    assert sum(store.decreases.values()) > 10
    draw = random.Random(1)
    for _ in range(10):
        at = draw.randrange(store.manifest["first_time"] + 1, store.manifest["last_time"])
        for location, n in enumerate(store.definition("locations")["n_events"].to_pylist()):
            before = StoreSource(store, [location], None, at)._slices[location]
            after = StoreSource(store, [location], at, None)._slices[location]
            assert (before.start, before.stop, after.start, after.stop) == (0, after.start, before.stop, n)


def test_earl__counts_positions_as_the_file_does(tmp_path, monkeypatch):
    monkeypatch.setattr("tracecols.enhance.definitions.order.SAMPLE", 4)
    monkeypatch.setattr("tracecols.enhance.definitions.order.WINDOW", 64)
    recording = with_late_events(random_recording(5, n_processes=3, n_threads=1, n_rounds=20), 5)
    merged(recording).write(tmp_path / "x.elg")
    trace = EventTrace(tracecols.convert(tmp_path / "x.elg", tmp_path / "x.trace"))
    # an EXIT of a collective operation is two events here: consecutive duplicates are dropped on both sides
    ours = [(e.loc.id, e.time) for e in trace]
    plain = [(e.location, e.time) for e in recording.events]
    assert [x for i, x in enumerate(ours) if not i or x != ours[i - 1]] == [
        (location, pytest.approx(time)) for i, (location, time) in enumerate(plain) if not i or plain[i] != plain[i - 1]
    ]


@pytest.mark.parametrize("seed", range(3))
def test_earl__has_the_states_of_the_definitions(seed, tmp_path):
    recording = random_recording(seed, n_processes=3, n_threads=1, n_rounds=8)
    merged(with_late_events(recording, seed, 0.2)).write(tmp_path / "x.elg")
    trace = EventTrace(tracecols.convert(tmp_path / "x.elg", tmp_path / "x.trace"))
    assert sum(trace.columns.store.decreases.values()) > 5
    compare_states(trace, Recorded(trace.columns))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["x.pftrace", "x.trace.json", "x.otf2"])
def test_exports__of_a_trace_whose_time_decreases(small, tmp_path, form):
    out = tmp_path / "out" / form
    out.parent.mkdir()
    python("-m", "tracecols", "export", str(small.path), str(out))
    if form == "x.otf2":
        back = Store(tracecols.convert(out, tmp_path / "back.trace"))
        assert back.decreases == {0: 1}
        for location in (0, 1):
            assert (back.read("events", location)["time"] == small.store.read("events", location)["time"]).all()


# -- against the oracles -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_programs__with_flushes_have_the_severities_of_the_simulation(seed, opened, tmp_path):
    draw = random.Random(seed)
    recording = random_recording(
        seed,
        n_processes=draw.choice([1, 2, 4]),
        n_threads=draw.choice([1, 1, 3]),
        n_rounds=20,
        n_metrics=draw.choice([0, 2]),
        tick=draw.choice([None, 0.001]),
        rma=seed % 2 == 0,
    )
    merged(with_late_events(recording, seed)).write(tmp_path / "x.elg")
    recording = read_epilog(tmp_path / "x.elg")
    trace = opened(tmp_path / "x.elg")
    assert sum(trace.store.decreases.values()) > 0
    compare(recording, trace)
    assert differences(severities(recording), trace.analyze("expert")) == {}


@pytest.mark.slow
@pytest.mark.parametrize("conventions", ["scalasca", "expert"])
def test_severities__do_not_depend_on_jobs_and_parts_where_time_decreases(conventions, opened, tmp_path, monkeypatch):
    recording = with_late_events(random_recording(7, n_processes=4, n_threads=1, n_rounds=30, rma=True), 7)
    merged(recording).write(tmp_path / "x.elg")
    one = opened(tmp_path / "x.elg", jobs=1)
    found = [cells(one.analyze(conventions))]
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "plan_parts", lambda n: [range(i, i + 1) for i in range(len(n))])
        divide(patch)
        patch.setattr("tracecols.enhance.definitions.order.BATCH", 5)
        patch.setattr("tracecols.converters.epilog.archive.ROWS", 50)
        two = opened(tmp_path / "x.elg", jobs=2)
        found.append(cells(two.analyze(conventions)))
    assert found[0] == found[1]


# -- salvage -----------------------------------------------------------------------------------------------------------


def test_salvage__of_a_merged_trace_gives_up_only_the_location_with_the_fault(tmp_path):
    w = EpilogWriter()
    (first,), (second,) = w.process(), w.process()
    w.comm([0, 1])
    for t in range(10):
        w.enter(first, t + 0.1, "f").enter(second, t + 0.2, "f")
        # one EXIT of the first location has no time
        w.exit(first, math.nan if t == 3 else t + 0.3).exit(second, t + 0.4)
    w.write(tmp_path / "x.elg")
    store = Store(tracecols.convert(tmp_path / "x.elg", tmp_path / "x.trace", salvage=True))
    # three calls and the ENTER of the fourth
    assert [store.n_rows("events", i) for i in (0, 1)] == [7, 20]
    (lost,) = store.manifest["lost"]
    assert (lost["location"], lost["n_events"]) == (0, 13)
    assert "a time is negative, impossibly large or no number" in lost["reason"]


def test_recorded_flushes__are_converted_without_salvage(tmp_path):
    folder = SHARED / "epilog" / "flush_4_300it"
    if not folder.exists():
        pytest.skip("recorded traces are not here")
    store = Store(tracecols.convert(folder / "epik.elg", tmp_path / "x.trace"))
    assert store.manifest["source"]["records"] == 64256
    # two flushes at every location
    assert store.decreases == {0: 2, 1: 2, 2: 2, 3: 2}
    assert store.manifest["lost"] == []
