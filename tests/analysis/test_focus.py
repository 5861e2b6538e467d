"""The focus of a run: severities inside and outside of MPI_Init .. MPI_Finalize of each process, against a walk over single
events; inside and outside add up to the whole."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA, slow
from support.laws import WHOLE
from support.recordings import kinds, name_of, recordings

import tracecols
from tracecols.enhance.definitions.locations import Locations
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan import focus
from tracecols.schema.kinds import EventKind
from tracecols.severity import SeverityCube
from tracecols.severity.focus import contexts, without_start_and_end
from tracecols.severity.periods import PeriodCells
from tracecols.testing import Program

QUICK = ("hybrid_2x3", "coll", "sweep3d_4", "omp_tasks", "mpi_tags")


@pytest.fixture(scope="module")
def opened(store_of):
    """Return a function that opens a recorded trace by its folder, converted once."""
    return lambda source: tracecols.open(store_of(source))


def by_name(name: str) -> Path:
    places = [p for p in (DATA / name, *(r.parent for r in recordings())) if p.is_dir() and p.name == name]
    if not places:
        pytest.skip(f"there is no {name} beside the repository")
    return places[0]


def own_times(trace, begin, end):
    """Walk through all events; return exclusive ticks by location inside and outside the focus, and visits inside."""
    store = trace.store
    inside, outside, visits = Counter(), Counter(), Counter()
    for location in range(trace.locations.shape[0]):
        events = store.read("events", location, ["time", "kind", "region"])
        depth, last = 0, None
        for time, kind in zip(events["time"].tolist(), events["kind"].tolist(), strict=True):
            if last is not None and depth:
                mine = max(min(time, end[location]) - max(last, begin[location]), 0)
                inside[location] += mine
                outside[location] += time - last - mine
            last = time
            if kind in (EventKind.ENTER, EventKind.PROGRAM_BEGIN):
                depth += 1
                visits[location] += begin[location] <= time < end[location]
            elif kind in (EventKind.EXIT, EventKind.PROGRAM_END):
                depth -= 1
    return inside, outside, visits


def ends_of_mpi(trace):
    """Find when each process leaves MPI_Init and enters MPI_Finalize, from all events of all of its locations."""
    names = [n.lower().rstrip("_") for n in trace.definition("regions").name.tolist()]
    process = trace.locations.process.tolist()
    begin, end = {}, {}
    for location, p in enumerate(process):
        events = trace.store.read("events", location, ["time", "kind", "region"])
        stack = []
        for time, kind, region in zip(*(events[c].tolist() for c in ("time", "kind", "region")), strict=True):
            if kind in (EventKind.ENTER, EventKind.PROGRAM_BEGIN):
                stack.append(names[region])
                if stack[-1] == "mpi_finalize":
                    end.setdefault(p, time)
            elif (
                kind in (EventKind.EXIT, EventKind.PROGRAM_END)
                and stack
                and stack.pop() in ("mpi_init", "mpi_init_thread")
            ):
                begin.setdefault(p, time)
    if not begin or not end:
        return None
    return [begin.get(p, min(begin.values())) for p in process], [end.get(p, max(end.values())) for p in process]


@pytest.mark.parametrize("name", ["hybrid_2x3", *slow(["coll", "sweep3d_4", "late_sender"])])
def test_focus__is_what_an_event_by_event_walk_finds(name, opened):
    trace = opened(by_name(name))
    begin, end = ends_of_mpi(trace)
    store = trace.store
    found = focus.find_focus(store, Regions(store), Locations.of(store))
    assert found.tolist() == [[b, e] for b, e in zip(begin, end, strict=True)]
    inside, outside, visits = own_times(trace, begin, end)
    cube = trace.analyze()
    masters = trace.locations.thread.to_numpy() == 0
    for amount, walked in (("time", inside), ("visits", visits)):
        focused = cube.focused().cells[amount]
        by_location = np.bincount(focused.location, focused.value, len(masters))
        for i in np.flatnonzero(masters).tolist():
            assert by_location[i] == walked[i]
    of = cube.outside["time"].summed()
    by_location = np.bincount(of.location, of.value, len(masters))
    for i in np.flatnonzero(masters).tolist():
        assert by_location[i] == outside[i]


def test_focus__is_found_wherever_it_is_in_the_events(monkeypatch, opened):
    """Few events are read at first, and more until MPI_Init and MPI_Finalize are among them."""
    store = opened(by_name("coll")).store
    given = Regions(store), Locations.of(store)
    expected = focus.find_focus(store, *given).tolist()
    monkeypatch.setattr(focus, "SMALL", 1)
    monkeypatch.setattr(focus, "FIRST", 1)
    monkeypatch.setattr(focus, "GROWTH", 2)
    assert focus.find_focus(store, *given).tolist() == expected
    monkeypatch.setattr(focus, "SMALL", 1 << 40)
    monkeypatch.setattr(focus, "TOGETHER", 7)
    assert focus.find_focus(store, *given).tolist() == expected


def check_sums(cube) -> None:
    """Check that inside and outside add up to the whole of every property, to the tick; in runs with devices, together
    with the creation of contexts."""
    inside, in_time = cube.focused(), without_start_and_end(cube)
    creates = contexts(cube)
    for name, whole in cube.cells.items():
        together = inside.cells[name] + in_time.cells[name].on(creates) + cube.outside[name].summed()
        together, whole = together.where(together.value != 0), whole.where(whole.value != 0)
        if whole.value.dtype.kind == "i":
            assert np.array_equal(together.key, whole.key), name
            assert np.array_equal(together.value, whole.value), name
        else:
            difference = together - whole
            largest = np.abs(whole.value).max(initial=0)
            assert np.allclose(difference.value, 0, rtol=0, atol=largest * 2.0**-48), name
    # violations are those of the whole: overlapping flushes, and estimates as in the reference
    assert not inside.violations() or cube.violations()


@pytest.mark.parametrize("name", [*QUICK[:2], *slow(QUICK[2:])])
def test_inside_and_outside__are_the_whole(name, opened):
    cube = opened(by_name(name)).analyze()
    if cube.outside is None:
        assert cube.focused() is cube
    elif "focus" in cube.focused().facts:
        check_sums(cube)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "conventions"),
    list(zip(kinds(), cycle(("scalasca", "exact", "expert")), strict=False)),
    ids=lambda x: x if isinstance(x, str) else name_of(x),
)
def test_inside_and_outside__are_the_whole_in_traces_of_all_kinds(source, conventions, opened):
    cube = opened(source).analyze(conventions)
    if cube.outside is not None:
        check_sums(cube)


@pytest.mark.parametrize("source", slow(kinds("injected", "otf2_gpu", "otf2_clocks")), ids=name_of)
def test_inside_and_outside__are_the_whole_by_bin_and_phase(source, opened):
    trace = opened(source)
    whole = trace.analyze().focused()
    proposed = trace.phases().phases.tolist()[:1]
    for divided in ({"bins": 9}, *({"phases": path} for path in proposed if path)):
        cube = trace.analyze(**divided)
        if cube.outside is None:
            continue
        inside = cube.focused()
        for name, cells in inside.cells.items():
            if cells.value.dtype.kind == "i" and name in whole.cells:
                # charges are divided proportionally among periods and rounded, and so are their sums
                rounded = 2 if {name, *whole.properties.children.get(name, ())} & {*WHOLE} else 0
                difference = cells - whole.cells[name]
                assert np.abs(difference.value).max(initial=0) <= rounded * cube.periods.begin_time.size, (
                    name,
                    divided,
                )
                assert (inside.period_cells[name].summed() - cells).value.tolist() == [], (name, divided)
                if name == "visits":
                    assert inside.period_cells[name].value.min(initial=0) >= 0, (name, divided)


def two_ranks() -> Program:
    """Return two ranks in main from 0 to 60 that leave MPI_Init at 10 and 12 and enter MPI_Finalize at 40 and 50."""
    program = Program(processes=2)
    for location, init, final in zip(program.masters, (10, 12), (40, 50), strict=True):
        location.enter(0, "main").enter(5, "MPI_Init").leave(init).enter(20, "work").leave(30)
        location.enter(final, "MPI_Finalize").leave(55).leave(60)
    return program


def test_focus__of_two_ranks_by_hand():
    with two_ranks().trace() as trace:
        cube = trace.analyze()
        inside = cube.focused()
        assert cube.by_location("time").tolist() == [60, 60]
        assert inside.by_location("time").tolist() == [30, 38]
        # main alone: 10 to 20 and 30 to 40; 12 to 20 and 30 to 50
        assert inside.by_location("time", inside.find_call_paths("main/work")).tolist() == [10, 10]
        assert inside.total("mpi") == 0 and cube.total("mpi") == 5 + 7 + 15 + 5
        assert inside.facts["focus"]["share"] == 68 / 120
        assert inside.focused() is inside
        # 10 to 50: from the first that leaves MPI_Init to the last that enters MPI_Finalize
        window = cube.facts["focus_window"]
        assert (window["end"] - window["begin"]) / cube.resolution == 40


def test_focus__of_imbalance_knows_who_takes_part_in_what_is_entered_before():
    with two_ranks().trace() as trace:
        inside = trace.analyze().focused()
        # both take part in main, which they enter before MPI_Init: main has 20 and 28 ticks, work 10 and 10
        assert inside.total("imbalance_below_bypass") == 0
        assert inside.total("imbalance_below") * inside.resolution == 4
        assert inside.total("imbalance_above") * inside.resolution == 4


@pytest.mark.slow
def test_efficiencies__of_a_piece_say_which():
    with two_ranks().trace() as trace:
        cube = trace.analyze(start=15 / trace.store.manifest["clock"]["resolution"])
        said = cube.efficiencies().set_index("metric").by["runtime"]
        assert said.startswith("from ") and "whole run" not in said


def test_focus__of_bins_and_phases_is_that_of_the_whole():
    with two_ranks().trace() as trace:
        whole = trace.analyze().focused()
        for divided in ({"bins": 7}, {"bin_width": 8.0}, {"phases": "work"}, {"phases": "main"}):
            cube = trace.analyze(**divided)
            inside = cube.focused()
            assert len(cube.periods) == {"phases": 1}.get(next(iter(divided)), 8 if "bin_width" in divided else 7)
            for name, cells in inside.cells.items():
                assert cells.key.tolist() == whole.cells[name].key.tolist(), name
                # values based on means are rounded when they are divided
                near = pytest.approx if cells.value.dtype.kind == "f" else list
                assert cells.value.tolist() == near(whole.cells[name].value.tolist()), name
                by_period = inside.period_cells[name].summed()
                assert by_period.key.tolist() == cells.key.tolist(), name
                assert by_period.value.tolist() == near(cells.value.tolist()), name
        # bins of 0-8, 8-16, ..., 56-60: 10 to 16 and 12 to 16, and nothing from 50 on
        bins = trace.analyze(bin_width=8.0).focused().period_cells["time"]
        assert [int(bins.value[bins.period == i].sum()) for i in range(8)] == [0, 10, 16, 16, 16, 8, 2, 0]


@pytest.mark.slow
def test_focus__of_phases_on_both_sides_of_it_is_taken_off_those():
    """Each rank executes three steps up to MPI_Init, which is in the third, then two, and three from MPI_Finalize on,
    which is in the first of these."""
    program = Program(processes=2)
    for location, late in zip(program.masters, (0, 1), strict=True):
        location.enter(0, "main")
        for begin in (0, 10):
            location.enter(begin, "step").enter(begin + 1, "work").leave(begin + 4).leave(begin + 5)
        location.enter(20, "step").enter(21, "MPI_Init").leave(22 + late).enter(24, "work").leave(28).leave(29)
        for begin in (30, 40):
            location.enter(begin, "step").enter(begin + 1, "work").leave(begin + 7).leave(begin + 8)
        location.enter(50, "step").enter(51, "work").leave(56).enter(57, "MPI_Finalize").leave(58)
        location.enter(58, "work").leave(59).leave(59)
        for begin in (60, 70):
            location.enter(begin, "step").enter(begin + 1, "work").leave(begin + 3).leave(begin + 4)
        location.leave(80)
    with program.trace() as trace:
        for phases, of_work in (("step", {2: 4, 3: 6, 4: 6, 5: 5}), ("from:step", {2: 4, 3: 6, 4: 6, 5: 5})):
            inside = trace.analyze(phases=phases).focused()
            works = inside.find_call_paths("work")
            cells = inside.period_cells["time"]
            for rank in (0, 1):
                mine = cells.where(works[cells.call_path] & (cells.location == rank))
                assert dict(zip(mine.period.tolist(), mine.value.tolist(), strict=True)) == of_work, phases
        # exclusive time: 22 to 24 and 28 to 29 in the third step, or from 23 on; 50 to 51 and 56 to 57 in the sixth
        cells = trace.analyze(phases="step").focused().period_cells["time"]
        steps = np.array(inside.call_paths.name) == "step"
        for rank, third in ((0, 3), (1, 2)):
            mine = cells.where(steps[cells.call_path] & (cells.location == rank))
            assert mine.period.tolist() == [2, 3, 4, 5] and mine.value.tolist() == [third, 2, 2, 2]


@pytest.mark.slow
def test_focus__stays_through_files(tmp_path):
    with two_ranks().trace() as trace:
        for divided in ({}, {"bins": 4}):
            cube = trace.analyze(**divided)
            read = SeverityCube.load(cube.save(tmp_path / f"{len(divided)}.severity"))
            assert read.outside is not None and set(read.outside) == set(cube.outside)
            for name, of in cube.outside.items():
                assert all(
                    (getattr(of, c) == getattr(read.outside[name], c)).all() for c in PeriodCells.__annotations__
                )
            assert read.focused().total("time") == cube.focused().total("time")


def test_focus__of_a_run_without_mpi_and_of_an_open_end():
    program = Program()
    program.masters[0].enter(0, "main").leave(10)
    with program.trace() as trace:
        cube = trace.analyze()
        assert cube.outside is None and cube.focused() is cube
    # the program ends before MPI_Finalize
    program = Program(processes=2)
    for location in program.masters:
        location.enter(0, "main").enter(1, "MPI_Init").leave(4).leave(10)
    with program.trace() as trace:
        assert trace.analyze().focused().by_location("time").tolist() == [6, 6]


def test_focus__of_a_process_without_mpi_is_that_of_the_others():
    program = Program(processes=3)
    for location in program.masters[:2]:
        location.enter(0, "main").enter(1, "MPI_Init").leave(4).enter(8, "MPI_Finalize").leave(9).leave(10)
    program.masters[2].enter(0, "helper").leave(10)
    with program.trace() as trace:
        assert trace.analyze().focused().by_location("time").tolist() == [4, 4, 4]
