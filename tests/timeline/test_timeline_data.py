"""Data of the timeline: sums equal those of analyses, intervals and slices those of the tables."""

import base64
import json
import os
import shutil
import zlib
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from conftest import slow
from hypothesis import given, settings
from hypothesis import strategies as st
from support.otf2_writer import Archive
from support.served import timeline_of

import tracecols
from benchmarks.generate import make
from tracecols.analysis.opened import OpenedTrace
from tracecols.conversion import write_store
from tracecols.errors import AnalysisError
from tracecols.kernels import arrays
from tracecols.kernels import timeline as kernels
from tracecols.report.viewer.profile import part_of, time_profile
from tracecols.search.cube import analyze_model
from tracecols.severity.axes import SystemAxis
from tracecols.severity.periods import PeriodCells
from tracecols.store import Store
from tracecols.testing import Program
from tracecols.timeline import answers, counters, folded, intervals, marks, regions, slices
from tracecols.timeline import overview as overviews
from tracecols.timeline import prepare as preparation
from tracecols.timeline.answers import QuestionError, Timeline
from tracecols.timeline.collected import KINDS, Collector, overview_properties
from tracecols.timeline.folded import Folds
from tracecols.timeline.instances import of_finding, worst_of
from tracecols.timeline.intervals import Intervals, IntervalsWriter
from tracecols.timeline.prepare import Prepared, find_prepared, place_of, prepare
from tracecols.timeline.rows import rows_of
from tracecols.timeline.trees import Selection, Trees, nodes_of, shown_property


@pytest.fixture(scope="module")
def timeline(store):
    opened = Store(store)
    with pytest.MonkeyPatch.context() as patch:
        # so that a small trace has several marks per location and many intervals have several batches
        patch.setattr(marks, "EVERY", 16)
        patch.setattr(intervals, "ROWS", 7)
        return Timeline(opened, prepare(OpenedTrace(opened)))


def every_row(timeline):
    return list(range(len(timeline.rows)))


# -- overview ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_overview__is_what_an_analysis_by_bins_finds(timeline, trace):
    n = timeline.overview.bounds.size - 1
    profile = time_profile(trace.analyze(bins=n))
    ticks = timeline.overview.ticks(0, np.arange(6), 0, n).sum(axis=1)
    assert timeline.overview.classes == [part["id"] for part in profile["parts"]]
    assert ticks.tolist() == [part["values"] for part in profile["parts"]]


def test_overview__coarser_levels_are_sums(timeline):
    o, everything = timeline.overview, np.arange(6)
    n = o.bounds.size - 1
    assert o.n_levels == n.bit_length() > 5
    for level in range(1, o.n_levels):
        finer = o.ticks(level - 1, everything, 0, n >> (level - 1))
        assert (o.ticks(level, everything, 0, n >> level) == finer.reshape(*finer.shape[:2], -1, 2).sum(axis=3)).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_overview__is_what_the_piece_between_two_times_has(timeline, trace, seed):
    """Sums of time are exact; waits may be cut at the ends of a slice, so all classes but computation are summed."""
    rng = np.random.default_rng(seed)
    bounds = timeline.overview.bounds
    low, high = np.sort(rng.choice(bounds.size, 2, replace=False))
    clock = trace.manifest["clock"]
    start, stop = ((int(bounds[i]) - clock["origin"]) / clock["resolution"] for i in (low, high))
    assert [trace.ticks(start), trace.ticks(stop)] == bounds[[low, high]].tolist()
    cube = trace.analyze(start=start, stop=stop)
    location = int(rng.integers(6))
    ticks = timeline.overview.ticks(0, np.array([location]), low, high)[:, 0].sum(axis=1)

    def of(name):
        cells = cube.cells[name]
        return int(cells.value[cells.location == location].sum())

    assert int(ticks.sum()) == of("time")
    assert int(ticks[timeline.overview.classes.index("comp")]) == of("comp")


def test_overview__severities_are_those_of_the_cube(timeline, trace):
    n = timeline.overview.bounds.size - 1
    cube = trace.analyze(bins=n)
    for name in timeline.overview.properties:
        expected = np.zeros((6, n), np.int64)
        cells = cube.period_cells[name]
        np.add.at(expected, (cells.location, cells.period), cells.value.astype(np.int64))
        assert (timeline.overview.severity(name, 0, 0, n) == expected).all()
        halves = timeline.overview.severity(name, 1, 0, n // 2)
        assert (halves == expected.reshape(6, -1, 2).sum(axis=2)).all()
    waits = [name for name, p in timeline.overview.properties.items() if p["is_wait"]]
    assert waits and all(part_of(cube.properties, name) for name in waits)


@pytest.mark.slow
def test_overview__is_the_same_of_one_process_at_a_time(timeline, store, tmp_path, monkeypatch):
    copy = tmp_path / "h.trace"
    shutil.copytree(store, copy, ignore=shutil.ignore_patterns("enhanced"))
    monkeypatch.setattr(regions, "paths_within", lambda _: 1)
    store = Store(copy)
    _, groups = regions.plan(OpenedTrace(store).model)
    assert [members.tolist() for members in groups] == [[0, 1, 2], [3, 4, 5]]
    found, expected = Timeline(store, prepare(OpenedTrace(store))).overview, timeline.overview
    for level in range(expected.n_levels):
        every = level, np.arange(6), 0, (expected.bounds.size - 1) >> level
        assert (found.ticks(*every) == expected.ticks(*every)).all()
        for of_found, of_expected in zip(found.dominant(*every), expected.dominant(*every), strict=True):
            assert (of_found == of_expected).all()
    assert found.properties == expected.properties
    assert all((found.finest(name) == expected.finest(name)).all() for name in found.properties)


def test_overview__names_the_call_path_with_most_time(timeline, trace):
    n = timeline.overview.bounds.size - 1
    cells = trace.analyze(bins=n).period_cells["time"]
    by = {}
    for call_path, location, period, value in zip(
        *(getattr(cells, c).tolist() for c in ("call_path", "location", "period", "value")), strict=True
    ):
        by.setdefault((location, period), []).append((-value, call_path))
    path, best = timeline.overview.dominant(0, np.arange(6), 0, n)
    found = {(i, k): (-int(best[i, k]), int(path[i, k])) for i in range(6) for k in range(n) if path[i, k] >= 0}
    assert found == {key: min(values) for key, values in by.items()}


@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
def test_find_dominant__of_equal_call_paths_is_the_first(plain):
    cells = PeriodCells.ordered(*np.array([[2, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [5, 5, 3, 1]]))
    with pytest.MonkeyPatch.context() as patch:
        if plain:
            patch.setattr(kernels, "find_dominant", kernels.find_dominant.py_func)
        path, best = overviews.dominant(cells, (2, 2))
    assert path.tolist() == [1, 0, 0, -1]
    assert best.tolist() == [5, 3, 1, 0]


@pytest.mark.parametrize(
    ("n_locations", "n_events", "length", "n_call_paths", "expected"),
    [
        (8, 2_400_000, 10**9, 100, 4096),
        (1, 10, 10**9, 1, overviews.LEAST_BINS),
        (1, 10, 100, 1, 64),
        (100_000, 10**9, 10**12, 1000, 32),
        (256, 10**9, 10**12, 10**6, 16),
        (10**7, 10**9, 10**12, 10, 1),
    ],
)
def test_n_bins__keeps_the_overview_small(n_locations, n_events, length, n_call_paths, expected):
    manifest = {"n_locations": n_locations, "n_events": n_events, "first_time": 5, "last_time": 5 + length}
    n = overviews.n_bins(manifest, n_call_paths)
    assert n == expected
    assert n * n_locations <= max(overviews.MOST_CELLS, n_locations)


def test_n_bins__are_fewer_with_less_memory():
    manifest = {"n_locations": 32, "n_events": 10**8, "first_time": 0, "last_time": 10**12}
    found = [overviews.n_bins(manifest, 500, memory) for memory in (None, 64 * 10**9, 15 * 10**8, 10**9, 10**8)]
    assert found == [4096, 4096, 4096, 2048, 256]


# -- intervals ---------------------------------------------------------------------------------------------------------

some_intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 3)), max_size=40)


@settings(max_examples=60)
@given(found=some_intervals, window=st.tuples(st.integers(-2, 32), st.integers(1, 10)), rows=st.integers(1, 9))
def test_overlapping__finds_what_overlaps(found, window, rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("i") / "x.arrow"
    begin, length, where = np.array(found, np.int64).reshape(-1, 3).T
    start, stop = window[0], sum(window)
    with pytest.MonkeyPatch.context() as patch, IntervalsWriter(path, {"location": "int32"}) as writer:
        patch.setattr(intervals, "ROWS", rows)
        for at in range(0, begin.size, 5):
            part = slice(at, at + 5)
            writer.add({"begin": begin[part], "end": (begin + length)[part], "location": where[part]})
    assert writer.n == len(found)
    read = Intervals(path)
    expected = sorted(
        (b, b + n, w) for b, n, w in found if w != 1 and b < stop and (b + n > start or (n == 0 and b == start))
    )
    n, columns = read.overlapping(start, stop, {"location": np.array([True, False, True, True])})
    assert n == len(expected)
    assert sorted(zip(*(columns[c].tolist() for c in ("begin", "end", "location")), strict=True)) == expected
    assert (np.diff(columns["begin"]) >= 0).all()
    n, columns = read.overlapping(start, stop, {"location": np.array([True, False, True, True])}, most=2)
    assert n == len(expected) and columns["begin"].size == (n if n <= 2 else 0)


def test_waits__are_those_of_the_table(timeline, trace):
    waits = trace.frame("waits", raw=True)
    table = timeline.tables["waits"]
    _, rows = table.overlapping(timeline.first, timeline.last + 1)
    of_table = {
        (int(a), int(b), int(c)) for a, b, c in zip(waits.location, waits.begin_time, waits.end_time, strict=True)
    }
    drawn = list(zip(*(rows[c].tolist() for c in ("location", "begin", "end")), strict=True))
    assert set(drawn) == of_table
    assert len(drawn) == len(table)


def test_waits__sums_are_the_cells(timeline, trace):
    """Sums include the wait states below a property, since an instance belongs to the innermost one."""
    cube = trace.analyze()
    _, rows = timeline.tables["waits"].overlapping(timeline.first, timeline.last + 1)
    names = [p["id"] for p in timeline.prepared.content["properties"]]
    length = rows["end"] - rows["begin"]
    for name in ("mpi_latesender", "mpi_wait_nxn", "omp_ibarrier_wait"):
        below = [i for i, other in enumerate(names) if name in (other, *cube.properties.above(other))]
        assert int(length[np.isin(rows["property"], below)].sum()) == int(cube.cells[name].value.sum()) > 0


def collected(store, folder):
    """Collect a trace with two threads, without a replay, as if it were large; return the intervals by kind, ordered by
    all columns, the severities by property in bins, and the number of windows beyond one per process."""
    folder.mkdir()
    model = OpenedTrace(store, 2).model_of(with_focus=True)
    with model.divided(in_windows=True) as divided:
        n = len(divided.division.windows) - len(divided.division)
    _, spread = overview_properties(model)
    with Collector(model, folder, spread, 8) as collector:
        analyze_model(model, also=(collector,))
    found = {}
    for kind in KINDS:
        _, columns = Intervals(folder / f"{kind}.arrow").overlapping(0, 1 << 62)
        # collective operations of different slices have numbers of their own
        found[kind] = sorted(zip(*(v.tolist() for c, v in columns.items() if c != "collective"), strict=True))
    return found, {name: ticks.tolist() for name, ticks in collector.severities.items()}, n


@pytest.mark.parametrize("kind", ["multizone", *slow(["sweep", "irregular", "fft"])])
def test_collected__is_the_same_of_windows_of_long_processes(kind, tmp_path, monkeypatch):
    path = tmp_path / "t.trace"
    path.mkdir()
    write_store(make(kind, 2, 2 if kind == "multizone" else 1, 4_000), path, jobs=1, salvage=False, progress=None)
    store = Store(path)
    *whole, n_windows = collected(store, tmp_path / "whole")
    assert n_windows == 0
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    monkeypatch.setattr("tracecols.enhance.scan.gaps.MOST_EVENTS", 300)
    *divided, n_windows = collected(store, tmp_path / "windows")
    assert n_windows > 3 and len(whole[0]["waits"]) > 50 and len(whole[1]) > 2
    assert divided == whole


def test_messages__are_those_of_the_table(timeline, trace):
    m = trace.frame("messages", raw=True)
    _, rows = timeline.tables["messages"].overlapping(timeline.first, timeline.last + 1)
    names = ("send_location", "recv_location", "send_time", "recv_time", "length")
    assert sorted(zip(*(rows[c].tolist() for c in names), strict=True)) == sorted(
        zip(*(m[c].tolist() for c in names), strict=True)
    )


def test_path__is_the_critical_path(timeline, trace):
    path = trace.critical_path(raw=True)
    _, rows = timeline.tables["path"].overlapping(timeline.first, timeline.last + 1)
    expected = path[path.end_time > path.begin_time]
    found = sorted(zip(*(rows[c].tolist() for c in ("begin", "end", "location")), strict=True))
    assert [f for f in found if f[1] > f[0]] == sorted(
        zip(expected.begin_time.tolist(), expected.end_time.tolist(), expected.location.tolist(), strict=True)
    )


# -- slices ------------------------------------------------------------------------------------------------------------


def clipped(instances, start, stop):
    """The slow twin: region instances within a time range, as (location, begin, end, region)."""
    found = []
    for location, begin, end, region in instances:
        if begin < stop and (end > start or begin == end == start):
            found.append((location, max(begin, start), min(end, stop), region))
    return sorted(f for f in found if f[1] < f[2])


@pytest.fixture(scope="module")
def instances(trace):
    table = trace.frame("region_instances", raw=True)
    columns = ("location", "enter_time", "exit_time", "region")
    return list(zip(*(table[c].tolist() for c in columns), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_slices__are_the_region_instances_of_the_window(timeline, instances, seed):
    rng = np.random.default_rng(seed)
    start, stop = np.sort(rng.integers(timeline.first, timeline.last + 1, 2)).tolist()
    found, shortest = timeline.slices.read(range(6), start, stop + 1)
    assert shortest == 0
    columns = (found.location, found.begin, found.end, found.name)
    drawn = sorted(zip(*(c.tolist() for c in columns), strict=True))
    assert [d for d in drawn if d[1] < d[2]] == clipped(instances, start, stop + 1)


def test_slices__begin_at_marks(timeline, monkeypatch):
    """Events before the last mark are not read."""
    reads = []
    read = timeline.store.read
    monkeypatch.setattr(timeline.store, "read", lambda *a, **k: reads.append(a) or read(*a, **k))
    n = timeline.store.n_rows("events", 0)
    middle = int(read("events", 0, ["time"])["time"][n // 2])
    reads.clear()
    low, high = timeline.slices._between(0, middle, middle + 1)
    assert n > 100 and 0 < low < high < n and high - low <= 2 * 16
    timeline.slices.of(0, middle, middle + 1)
    assert [(a[3], a[4]) for a in reads if a[0] == "events"] == [(low, high)]


def test_slices__that_are_too_many_are_merged(timeline, monkeypatch):
    everything, _ = timeline.slices.read(range(6), timeline.first, timeline.last + 1)
    monkeypatch.setattr(slices, "MOST_SLICES", 50)
    found, shortest = timeline.slices.read(range(6), timeline.first, timeline.last + 1)
    assert found.begin.size <= 50 < everything.begin.size
    assert shortest > 0
    assert int(found.count.sum()) == int(everything.count.sum())
    assert int(found.busy.sum()) == int(everything.busy.sum())


def merged(drawn, shortest):
    """The slow twin of `collect_slices`."""
    found, grey = [], {}
    stack = []
    for time, name in drawn:
        if name >= 0:
            stack.append((time, name))
            continue
        begin, name = stack.pop()
        depth = len(stack)
        if time - begin >= shortest:
            found.append((begin, time, depth, name, 1, time - begin))
            continue
        old = grey.get(depth)
        if old and begin - old[1] >= shortest:
            found.append((old[0], old[1], depth, *old[2:]))
            old = None
        first, _, of, count, busy = old or (begin, time, name, 0, 0)
        grey[depth] = (first, time, of, count + 1, busy + time - begin)
    found += [(g[0], g[1], depth, *g[2:]) for depth, g in grey.items()]
    return sorted(found)


@st.composite
def drawings(draw):
    """Begins (time, name) and ends (time, -1) that nest."""
    time, depth, found = 0, 0, []
    for _ in range(draw(st.integers(0, 40))):
        time += draw(st.integers(0, 5))
        if depth and draw(st.booleans()):
            found.append((time, -1))
            depth -= 1
        else:
            found.append((time, draw(st.integers(0, 3))))
            depth += 1
    return found + [(time + 1, -1)] * depth


@settings(max_examples=80)
@given(drawn=drawings(), shortest=st.integers(0, 12), sizes=st.lists(st.integers(0, 40), max_size=3))
@pytest.mark.parametrize("plain", [pytest.param(False, id="compiled"), pytest.param(True, id="plain")])
def test_collect_slices__merges_short_neighbours(plain, drawn, shortest, sizes):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("collect_slices", "collect_rest") if plain else ():
            patch.setattr(kernels, name, getattr(kernels, name).py_func)
        collector = slices._Collector(4, shortest)
        collector._open = arrays.zeros(kernels.Open, 1)
        time, name = np.array(drawn, np.int64).reshape(-1, 2).T
        bounds = sorted({0, time.size, *(s % (time.size + 1) for s in sizes)})
        for low, high in pairwise(bounds):
            what = np.where(name[low:high] >= 0, kernels.BEGIN, kernels.END).astype(np.uint8)
            mark = np.full(high - low, -1, np.int64)
            collector.add(kernels.Drawn(time[low:high].copy(), what, name[low:high].astype(np.int32), mark))
        found = collector.done()
    assert sorted(zip(*(c.tolist() for c in found), strict=True)) == merged(drawn, shortest)
    exact = merged(drawn, 0)
    own = [0] * 4
    for begin, end, depth, number, _, busy in exact:
        inside = sum(b[5] for b in exact if b[2] == depth + 1 and begin <= b[0] and b[1] <= end) if busy else 0
        own[number] += busy - inside
    if len({e[:3] for e in exact}) == len(exact) and all(e[5] for e in exact):
        assert collector.own.tolist() == own
    assert int(collector.own.sum()) == sum(e[5] for e in exact if e[2] == 0)


# -- rows --------------------------------------------------------------------------------------------------------------


def test_rows__are_the_system_tree(timeline):
    shown = [(r.parent, r.label, r.location, r.locations.tolist()) for r in timeline.rows]
    assert shown[0] == (-1, "all locations", -1, [0, 1, 2, 3, 4, 5])
    assert shown[2:] == [
        (1, "MPI Rank 0", -1, [0, 1, 2]),
        (2, "Master thread", 0, [0]),
        (2, "OMP thread 1", 1, [1]),
        (2, "OMP thread 2", 2, [2]),
        (1, "MPI Rank 1", -1, [3, 4, 5]),
        (6, "Master thread", 3, [3]),
        (6, "OMP thread 1", 4, [4]),
        (6, "OMP thread 2", 5, [5]),
    ]


@pytest.mark.slow
def test_rows__of_many_locations():
    n = 100_000
    axis = SystemAxis(
        ["machine", *["process", "thread"] * n], ["m", *["p", "t"] * n], [-1, *(v for i in range(n) for v in (0, 2 * i + 1))],
        [-1, *(v for i in range(n) for v in (-1, i))], np.arange(n, dtype=np.int32), np.zeros(n, np.int32), ["t"] * n, ["CPU_THREAD"] * n,
    )  # fmt: skip
    rows = rows_of(axis)
    assert len(rows) == n + 2
    assert rows[1].locations.tolist() == list(range(n))
    assert [r.location for r in rows[2:]] == list(range(n))


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_prepare__keeps_what_it_made_and_finds_it_again(store, timeline):
    opened = Store(store)
    assert find_prepared(opened).folder == store / "enhanced" / "timeline"
    assert prepare(OpenedTrace(opened)).content == timeline.prepared.content


@pytest.mark.usefixtures("timeline")
def test_prepare__of_another_store_or_an_incomplete_one_is_not_found(tmp_path, store):
    copy = tmp_path / "copy.trace"
    shutil.copytree(store, copy)
    (copy / "enhanced" / "timeline" / "marks.arrow").unlink()
    assert find_prepared(Store(copy)) is None
    other = tmp_path / "other.trace"
    shutil.copytree(store, other)
    assert find_prepared(Store(other)) is not None
    manifest = other / "enhanced" / "timeline" / "manifest.json"
    manifest.write_text(manifest.read_text().replace(Store(store).digest, "0" * 16))
    assert find_prepared(Store(other)) is None


@pytest.mark.slow
def test_prepare__of_a_read_only_store_is_temporary(tmp_path, store, monkeypatch):
    copy = tmp_path / "copy.trace"
    shutil.copytree(store, copy, ignore=shutil.ignore_patterns("enhanced"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    store = Store(copy)
    prepared = prepare(OpenedTrace(store))
    assert not (copy / "enhanced").exists()
    folder = prepared.folder
    assert Timeline(store, prepared).about().says["rows"]
    del prepared
    assert not folder.exists()


def test_timeline__of_a_trace_without_time_on_its_threads():
    program = Program()
    program.masters[0].enter(5, "main")
    program.stream(0).enter(0, "kernel").leave(50)
    with program.trace() as trace:
        timeline = timeline_of(trace.path)
        overview = timeline.prepared.content["overview"]
        assert overview["properties"]["time"]["total"] == 0
        timeline.view(0, timeline.last - timeline.first + 1, [0], 50, "time", lambda: None)


def test_prepare__of_a_trace_without_events_is_refused(archive, tmp_path):
    archive.location(0)
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    with pytest.raises(AnalysisError, match="has no events\n  there is nothing to draw"):
        prepare(OpenedTrace(store))


def test_prepare__of_more_ticks_than_64_bits_hold_is_refused(archive, tmp_path):
    for _ in range(2):
        archive.location(0).enter(0, "main").leave((1 << 62) + 5, "main")
    store = Store(tracecols.convert(archive.write(), tmp_path / "x.trace"))
    with pytest.raises(AnalysisError, match=r"has 2 locations and lasts 4,611,686,018,427,387,909 ticks: .* 64 bits"):
        prepare(OpenedTrace(store))
    assert find_prepared(store) is None


# -- answers -----------------------------------------------------------------------------------------------------------


def test_view__of_the_whole_run_has_every_tick(timeline, trace):
    answer = timeline.view(0, timeline.last - timeline.first + 1, every_row(timeline), 200)
    cells = trace.analyze().cells["time"]
    by_location = np.bincount(cells.location, cells.value, 6).astype(np.int64)
    sums = answer.arrays["ticks"].sum(axis=(0, 2))
    assert sums.tolist() == [int(by_location[r.locations].sum()) for r in timeline.rows]
    assert [r.label for r in timeline.rows][:1] == ["all locations"]


def test_view__of_a_moment_has_events(timeline):
    length = timeline.last - timeline.first
    answer = timeline.view(length // 2, length // 2 + length // 50, every_row(timeline), 200)
    assert answer.says["detail"]
    assert answer.says["n"]["slice"] == answer.arrays["slice.begin"].size > 0
    assert answer.arrays["slice.begin"].min() >= length // 2


def test_view__says_what_is_left_out(timeline, monkeypatch):
    monkeypatch.setitem(answers.MOST_INTERVALS, "waits", 3)
    answer = timeline.view(0, timeline.last - timeline.first + 1, every_row(timeline), 8000)
    if not answer.says["detail"]:
        pytest.fail("a small trace is shown event by event")
    assert answer.says["n"]["waits"] > 3
    assert answer.says["left_out"] == ["waits"]
    assert answer.arrays["waits.begin"].size == 0


@pytest.mark.parametrize(
    "question",
    [(5, 5, [0], 10), (-1, 5, [0], 10), (0, 1 << 60, [0], 10), (0, 5, [99], 10), (0, 5, [0], 0), (0, 5, [-1], 10)],
)
def test_view__refuses_nonsense(timeline, question):
    with pytest.raises(QuestionError):
        timeline.view(*question)


def test_view__refuses_an_unknown_property(timeline):
    with pytest.raises(QuestionError, match="no property of that id"):
        timeline.view(0, 5, [0], 10, "nonsense")


def test_encoded__is_read_as_it_was_written(timeline):
    answer = timeline.view(0, timeline.last - timeline.first + 1, [0, 1], 100)
    encoded = answer.encoded()
    n = int.from_bytes(encoded[:4], "little")
    head = json.loads(encoded[4 : 4 + n])
    assert (4 + n) % 8 == 0
    for a in head["arrays"]:
        values = np.frombuffer(encoded, "<" + a["type"], int(np.prod(a["shape"])), 4 + n + a["at"])
        assert (values.reshape(a["shape"]) == answer.arrays[a["name"]]).all()


def test_cause__of_every_wait_lies_before_it(timeline):
    _, rows = timeline.tables["waits"].overlapping(timeline.first, timeline.last + 1)
    known = 0
    for location, begin, end in list(
        zip(rows["location"].tolist(), rows["begin"].tolist(), rows["end"].tolist(), strict=True)
    )[:60]:
        found = timeline.cause(location, begin - timeline.first, end - timeline.first).says
        cause = found["cause"]
        if found["wait"]["cause_location"] < 0:
            assert cause == {}
            continue
        known += 1
        assert cause["location"] == found["wait"]["cause_location"]
        assert cause["since"] <= cause["until"] <= end - timeline.first
        assert sum(ticks for _, ticks in cause["spent"]) + cause["waited"] <= 2 * (cause["until"] - cause["since"])
    assert known > 20


def test_cause__of_no_wait_is_refused(timeline):
    for begin, end in ((0, 1), (0, 10**30), (10**19, 10**19 + 1), (-(10**400), 5), (5, 4)):
        with pytest.raises(QuestionError, match="no wait of this location"):
            timeline.cause(0, begin, end)
    with pytest.raises(QuestionError, match="no such location"):
        timeline.cause(77, 0, 1)


def test_instances__are_the_longest(timeline):
    names = [p["id"] for p in timeline.prepared.content["properties"]]
    number = names.index("omp_ibarrier_wait")
    found = timeline.instances(number).says["instances"]
    _, rows = timeline.tables["waits"].overlapping(timeline.first, timeline.last + 1)
    length = (rows["end"] - rows["begin"])[rows["property"] == number]
    assert [i["end"] - i["begin"] for i in found] == np.sort(length)[::-1][: len(found)].tolist()
    with pytest.raises(QuestionError):
        timeline.instances(len(names))


def test_of_finding__prefers_who_is_named(timeline):
    waits = timeline.tables["waits"]
    names = [p["id"] for p in timeline.prepared.content["properties"]]
    numbers = {name: [i] for i, name in enumerate(names)}
    causes = {w["cause_location"] for w in worst_of(waits, [names.index("mpi_latesender")])} - {-1}
    who = min(causes)
    assert of_finding(waits, ["mpi_latesender"], numbers, [who], [])["cause_location"] == who
    assert of_finding(waits, ["mpi_latesender"], numbers, [], [])["property"] == names.index("mpi_latesender")
    assert of_finding(waits, ["nonsense"], numbers, [], []) is None


# -- to the trees, and phases folded -----------------------------------------------------------------------------------


def header_of(page):
    """Return the header of a report."""
    packed = page.partition(b'id="tracecols-header">')[2].partition(b"<")[0]
    return json.loads(zlib.decompress(base64.b64decode(packed), -15))


@pytest.mark.slow
def test_trees__select_what_is_selected(timeline, trace):
    row = next(i for i, r in enumerate(timeline.rows) if r.location < 0 and 0 < r.locations.size < 6)
    selection = Selection(0, timeline.last - timeline.first + 1, row, "mpi_latesender", address="from=0&to=9")
    opened = header_of(Trees(timeline).page(selection))["opened"]
    cube = trace.analyze()
    assert opened["property"] == cube.properties.number["mpi_latesender"]
    (node,) = opened["system"]
    assert (opened["call"], opened["timeline"]) == (-1, "from=0&to=9")
    leaves = [i for i, at in enumerate(cube.system.location) if at in timeline.rows[row].locations]
    assert all(cube.system.parent[leaf] == node for leaf in leaves)


def test_trees__of_a_range_without_the_property_select_what_is_above_it(trace):
    cube = trace.analyze(start=0.0, stop=0.1)
    assert not len(cube.cells["mpi_latesender"])
    above = ("", "mpi_point2point", "mpi_communication", "mpi", "execution", "time")
    assert shown_property(cube, "mpi_latesender") in above
    assert shown_property(cube, "<b>") == ""


def test_nodes_of__locations_of_several_nodes_are_leaves(trace):
    system = trace.analyze(properties="time").system
    at = [system.location.index(i) for i in range(6)]
    assert nodes_of(system, [0]) == (at[0],)
    assert nodes_of(system, [0, 1, 3]) == (at[0], at[1], at[3])
    (node,) = nodes_of(system, [0, 1, 2])
    assert {system.parent[i] for i in at[:3]} == {node}


@pytest.mark.parametrize(
    "selection",
    [Selection(5, 5), Selection(-1, 9), Selection(0, 1 << 60), Selection(0, 9, row=99), Selection(0, 9, call_path=1 << 20), Selection(0, 9, slice=(77, 0, 0))],
)  # fmt: skip
def test_trees__of_nothing_are_refused(timeline, selection):
    with pytest.raises(QuestionError, match="there is no"):
        Trees(timeline).page(selection)


@pytest.fixture(scope="module")
def folds(timeline):
    return Folds(timeline)


def test_folded__instances_are_those_of_a_phase(folds, trace):
    about = folds.of("h_region").about()
    table = trace.iterations("h_region")
    begin = sorted(trace.ticks(t) - int(trace.manifest["first_time"]) for t in table.begin_seconds)
    assert sorted(about.arrays["fold.begin"].tolist()) == begin
    assert about.says["folded"]["n"] == len(table)


def test_folded__from_a_call_to_the_next(folds, trace):
    """The k-th phase ends where the next begins; the last one with the instance that contains the first call."""
    about = folds.of("from:h_region", "time").about()
    table = trace.iterations("h_region")
    begin, end, location = (about.arrays[f"fold.{name}"] for name in ("begin", "end", "location"))
    assert len(table) == begin.size
    for i in np.unique(location):
        mine = location == i
        assert (end[mine][:-1] == begin[mine][1:]).all() and end[mine][-1] > begin[mine][-1]


def test_folded__shares_are_the_time_of_all_instances(folds):
    shown = folds.of("h_region")
    about = shown.about()
    found = shown.view(0, about.says["length"] + 1, list(range(len(about.says["rows"]))), 300)
    lengths = about.arrays["fold.end"] - about.arrays["fold.begin"]
    assert found.arrays["ticks"].sum(axis=(0, 2)).tolist() == [lengths.sum(), *lengths]
    waits = found.arrays["ticks"][1]
    assert (waits[0] == waits[1:].sum(axis=0)).all() and waits.sum() > 0


def test_folded__phases_are_proposed(folds, trace):
    assert folds.of().about().says["folded"]["phase"] == trace.phases().phases[0]


def test_folded__only_the_longest_are_rows(timeline, monkeypatch):
    monkeypatch.setattr(folded, "MOST_INSTANCES", 3)
    about = Folds(timeline).of("h_region", "time").about()
    everything = Folds(timeline)
    monkeypatch.setattr(folded, "MOST_INSTANCES", 99)
    lengths = everything.of("h_region").about().arrays
    longest = (lengths["fold.end"] - lengths["fold.begin"])[:3]
    assert sorted(about.arrays["fold.end"] - about.arrays["fold.begin"], reverse=True) == longest.tolist()
    assert about.says["notes"] == ["9 shorter instances are left out"]


def test_folded__waits_that_are_too_many_are_counted(timeline, monkeypatch):
    monkeypatch.setattr(folded, "MOST_WAITS", 5)
    shown = Folds(timeline).of("h_region")
    (note,) = shown.about().says["notes"]
    assert note.endswith(" waits are too many to be drawn") and int(note.split()[0]) > 5
    found = shown.view(0, 1000, [0, 1], 100)
    assert found.says["n"]["waits"] == 0 and not found.arrays["ticks"][1].any()


def test_folded__what_is_not_there_is_refused(folds, timeline):
    with pytest.raises(AnalysisError, match="no region of this trace is called 'h_regio'"):
        folds.of("h_regio")
    with pytest.raises(QuestionError, match="ordered by longest or time"):
        folds.of("h_region", "size")
    with pytest.raises(QuestionError, match="there is no such row"):
        folds.of("h_region", row=99)
    worker = next(i for i, r in enumerate(timeline.rows) if r.location == 1)
    with pytest.raises(AnalysisError, match="OMP thread 1 has no instance of h_region"):
        folds.of("h_region", row=worker)
    view = folds.of("h_region").view
    for question in ((5, 5, [0], 100), (0, 1 << 60, [0], 100), (0, 9, [99], 100), (0, 9, [0], 0)):
        with pytest.raises(QuestionError):
            view(*question)


# -- clocks of many ticks ----------------------------------------------------------------------------------------------


def sent_by_page(ticks):
    """Return the integer that the page writes for a time: the shortest digits of a 64-bit float, then zeros."""
    return int(Decimal(repr(float(ticks))))


@pytest.fixture(scope="module")
def fine(tmp_path_factory):
    """Late senders of a clock of 10**17 ticks per second, as in EPILOG traces."""

    archive = Archive(tmp_path_factory.mktemp("f") / "traces.otf2", resolution=10**17)
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    second = 10**17 + 13
    for rank in (a, b):
        rank.enter(0, "main")
    for k in range(9):
        at = 2 * k * second
        b.enter(at + 1, "step").enter(at + 11, "MPI_Recv").receive(at + second + 15, 0, mpi.world, 7)
        a.enter(at + 1, "step").enter(at + second + 7, "MPI_Send").send(at + second + 9, 1, mpi.world, 7)
        a.leave(at + second + 21, "MPI_Send").leave(at + second + 25, "step")
        b.leave(at + second + 23, "MPI_Recv").leave(at + second + 27, "step")
    for rank in (a, b):
        rank.leave(18 * second + 3, "main")
    return timeline_of(tracecols.convert(archive.write(), tmp_path_factory.mktemp("f") / "f.trace"))


def test_fine_clock__the_whole_run_and_its_waits_are_found_by_rounded_times(fine):
    length = fine.last - fine.first
    to = sent_by_page(float(length) + 1)
    assert to > length + 1, "rounding has an effect"
    whole = fine.view(0, length + 1, [0], 100)
    assert (fine.view(0, to, [0], 100).arrays["ticks"] == whole.arrays["ticks"]).all()
    assert fine.counters_of(0, to, [0], 100).says["counters"] == []
    waits = [
        wait
        for number in range(len(fine.prepared.content["worst"]))
        for wait in fine.instances(number).says["instances"]
    ]
    assert len(waits) >= 9 and any(sent_by_page(wait["begin"]) != wait["begin"] for wait in waits)
    for wait in waits:
        found = fine.cause(wait["location"], sent_by_page(wait["begin"]), sent_by_page(wait["end"])).says["wait"]
        assert (found["begin"], found["end"]) == (wait["begin"], wait["end"])
    with pytest.raises(QuestionError, match="there is no time"):
        fine.view(0, length + length // 1000, [0], 100)
    with pytest.raises(QuestionError, match="no wait"):
        fine.cause(waits[0]["location"], waits[0]["begin"] + 10**10, waits[0]["end"])


def test_fine_clock__folded_instances_have_all_of_their_time(fine):
    shown = Folds(fine).of("main")
    length = shown.about().says["length"]
    found = shown.view(0, sent_by_page(float(length) + 1), [0, 1, 2], 400)
    assert (np.diff(found.arrays["edges"]) > 0).all()
    assert found.arrays["ticks"].sum(axis=(0, 2)).tolist() == [2 * length, length, length]


# -- counters ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A trace of two processes that record two counters in one class, and a third one in another."""

    archive = Archive(tmp_path_factory.mktemp("c") / "traces.otf2")
    mpi = archive.mpi(2)
    pair = archive.metric_class(("power", "double"), ("cycles", "uint64"))
    single = archive.metric_class(("depth", "int64"))
    rng = np.random.default_rng(5)
    for here in mpi.ranks:
        here.enter(0, "main")
        for t in np.sort(rng.integers(1, 9_000, 400)).tolist():
            power = float("nan") if t % 50 == 0 else float(rng.normal())
            here.record(t, "Metric", source=pair, values=[(10, power), (4, int(rng.integers(1 << 40)))])
            if t % 3 == 0 and here is mpi.ranks[0]:
                here.record(t, "Metric", source=single, values=[(8, -t)])
        here.leave(9_999, "main")
    return timeline_of(tracecols.convert(archive.write(), tmp_path_factory.mktemp("c") / "c.trace"))


def samples_of(store):
    """The slow twin: all finite samples by location and name, from the tables of the Python interface."""
    trace = tracecols.open(store.path)
    times = trace.table("events").time.to_numpy()
    members = store.definitions["metric_members"].column("name").to_pylist()
    classes = store.definitions["metric_classes"].column("members").to_pylist()
    first_rows = np.append(store.definitions["locations"].column("first_row").to_numpy(), times.size)
    found = {}
    for table in (name for name in store.tables if name.startswith("metrics_")):
        frame = trace.table(table)
        for i, member in enumerate(classes[int(table.split("_")[1])]):
            for row, sample in zip(frame.row, frame[f"value_{i}"], strict=True):
                location = int(np.searchsorted(first_rows, row, "right")) - 1
                if np.isfinite(float(sample)):
                    found.setdefault((location, members[member]), []).append((int(times[row]), float(sample)))
    return {key: sorted(samples, key=lambda sample: sample[0]) for key, samples in found.items()}


def held(samples, start, stop, columns):
    """The slow twin of `reduced`: begin, time, low, high, last, total, count of each point."""
    inside = [sample for sample in samples if start <= sample[0] < stop]
    before = [sample for sample in samples if sample[0] < start][-1:]
    groups = [[sample] for sample in inside]
    if len(inside) > columns:
        width = -(-(stop - start) // columns)
        by = {}
        for t, v in inside:
            by.setdefault((t - start) // width, []).append((t, v))
        groups = [by[k] for k in sorted(by)]
    return [point(group) for group in [[sample] for sample in before] + groups]


def point(group):
    values = [v for _, v in group]
    return (group[0][0], group[-1][0], min(values), max(values), values[-1], pytest.approx(sum(values)), len(values))


def drawn_counters(timeline, start, stop, columns):
    """Return the points drawn, and their least and largest value, by location and name."""
    answer = timeline.counters_of(start - timeline.first, stop - timeline.first, every_row(timeline), columns)
    a = answer.arrays
    names = ("begin", "time", "low", "high", "last", "total", "count")
    points = list(zip(*(a[f"counter.{c}"].tolist() for c in names), strict=True))
    return {
        (c["location"], c["name"]): (
            [(b + timeline.first, t + timeline.first, *rest) for b, t, *rest in points[begin:end]],
            (c["min"], c["max"]),
        )
        for c, (begin, end) in zip(answer.says["counters"], pairwise(a["counter.start"].tolist()), strict=True)
    }


def check_counters(timeline, start, stop, columns):
    every = samples_of(timeline.store)
    found = drawn_counters(timeline, start, stop, columns)
    assert found.keys() == every.keys()
    for key, (points, ends) in found.items():
        expected = held(every[key], start, stop, columns)
        assert points == expected, key
        values = [v for _, _, low, high, *_ in expected for v in (low, high)]
        assert ends == ((min(values), max(values)) if values else (None, None))
        assert len(points) <= columns + 1


def test_counters__that_are_drawn_are_those_of_the_tables(counted):
    rng = np.random.default_rng(1)
    for columns in (1, 7, 150, 4096):
        start, stop = np.sort(rng.integers(counted.first, counted.last + 1, 2)).tolist()
        check_counters(counted, start, stop + 1, columns)
    check_counters(counted, counted.first, counted.last + 1, 50)
    assert {name for _, name in samples_of(counted.store)} == {"power", "cycles", "depth"}
    assert counted.counters_of(0, 9_000, every_row(counted), 50).says["n_left_out"] > 0


def test_counters__have_at_most_so_many_points_and_are_kept_for_a_while(counted, timeline, monkeypatch):
    rows = every_row(counted)
    assert counted.about().says["has_counters"] and not timeline.about().says["has_counters"]
    assert timeline.counters_of(0, 100, every_row(timeline), 50).says["counters"] == []
    monkeypatch.setattr(counters, "MOST_POINTS", 100)
    assert counted.counters_of(0, 9_000, rows, 4096).arrays["counter.time"].size <= 100 + 5
    # the oldest kept values are dropped
    monkeypatch.setattr(counters, "KEPT", 10)
    check_counters(counted, counted.first + 5, counted.last, 20)
    with pytest.raises(QuestionError):
        counted.counters_of(0, 9_000, [99], 50)


@pytest.fixture
def grouped(counted, monkeypatch):
    """The same trace with samples in groups of seven, from blocks of a hundred rows."""

    for name, value in (("LONG", 1), ("EVERY", 7), ("BLOCK", 100), ("MOST_READ", 60)):
        monkeypatch.setattr(counters, name, value)
    store = Store(counted.store.path)
    folder = counted.prepared.folder.parent / "grouped"
    shutil.copytree(counted.prepared.folder, folder, dirs_exist_ok=True)
    counters.write_counters(store, folder / counters.COUNTERS, OpenedTrace(store).model.executor)
    return Timeline(store, Prepared(folder, counted.prepared.content))


def test_counters__of_groups_are_those_of_the_tables_where_they_can_be_told_apart(grouped):
    for start in (3_000, 8_990):
        check_counters(grouped, grouped.first + start, grouped.first + start + 250, 200)


def test_counters__of_groups_have_the_samples_of_the_range_and_no_others(grouped):
    """Points represent groups of consecutive samples: all of the range, and the one before it."""
    rng = np.random.default_rng(2)
    every = samples_of(grouped.store)
    merged = 0
    for columns in (5, 60, 1000) * 4:
        start, stop = (grouped.first + np.sort(rng.integers(0, 9_999, 2))).tolist()
        for key, (points, _) in drawn_counters(grouped, start, stop + 1, columns).items():
            inside = [sample for sample in every[key] if start <= sample[0] <= stop]
            before = [sample for sample in every[key] if sample[0] < start][-1:]
            left = before + inside
            assert sum(p[-1] for p in points if p[1] >= start) == len(inside)
            assert len(points) <= columns + 1
            for begin, time, low, high, last, total, count in points:
                mine, left = left[:count], left[count:]
                assert (begin, time, low, high, last, pytest.approx(total), count) == point(mine)
                merged += count > 1
            assert not left
    assert merged > 100


@pytest.mark.slow
def test_counters__of_a_recording_are_those_of_its_tables(converted):
    timeline = timeline_of(converted("metrics_rusage"))
    for columns in (3, 40):
        check_counters(timeline, timeline.first + 1_000, timeline.last, columns)


# -- the first picture -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def first_and_all(tmp_path_factory, store):
    """The timeline of the first picture, made as for a large trace, and the complete timeline that replaced it."""
    copy = tmp_path_factory.mktemp("first") / "h.trace"
    shutil.copytree(store, copy, ignore=shutil.ignore_patterns("enhanced"))
    store, shown = Store(copy), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparation, "LARGE", 1)
        parent, _ = place_of(store)
        content = preparation.make(OpenedTrace(store), parent, show=lambda first: shown.append(Timeline(store, first)))
    return shown[0], Timeline(store, Prepared(parent / "timeline", content))


def test_first__picture_is_served_when_its_files_are_gone(first_and_all):
    first, _ = first_and_all
    assert not first.prepared.folder.exists()
    assert first.about().says["is_first"] and first.about().says["findings"] == []
    answer = first.view(0, first.last - first.first + 1, every_row(first), 200)
    assert answer.says["detail"] and len(answer.arrays["slice.begin"]) > 500
    assert answer.arrays["waits.begin"].size == answer.arrays["messages.begin"].size == 0


def test_first__picture_has_all_time_but_no_waits(first_and_all):
    first, whole = first_and_all
    n = whole.overview.bounds.size - 1
    assert first.overview.bounds.tolist() == whole.overview.bounds.tolist()
    everything = np.arange(6), 0, n
    assert "waits" in whole.overview.classes and "waits" not in first.overview.classes
    of_first, of_all = (o.ticks(0, *everything) for o in (first.overview, whole.overview))
    assert (of_first.sum(axis=0) == of_all.sum(axis=0)).all()
    # all waits of this trace are within calls of MPI and OpenMP
    comp = [o.classes.index("comp") for o in (first.overview, whole.overview)]
    assert (of_first[comp[0]] == of_all[comp[1]]).all()
    assert (first.overview.dominant(0, *everything)[0] == whole.overview.dominant(0, *everything)[0]).all()


@pytest.mark.slow
def test_first__picture_is_made_of_large_traces_only(first_and_all, timeline, store):
    _, whole = first_and_all
    kept = {name: of for name, of in whole.prepared.content.items() if name != "rows"}
    assert kept == {name: of for name, of in timeline.prepared.content.items() if name != "rows"} | {"of": kept["of"]}
    shown = []
    preparation.make(OpenedTrace(Store(store)), store / "enhanced", show=shown.append)
    assert shown == [] and not (store / "enhanced" / "timeline" / "first").exists()
