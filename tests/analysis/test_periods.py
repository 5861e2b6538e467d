"""Phases and time bins: sums over them equal the analysis without periods; values of each are worked out by hand."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pandas as pd
import pytest
from conftest import slow
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command_line import executed, run
from support.laws import divide
from support.periods import analyze, assert_same, by_period, loop
from support.random_programs import RandomProgram
from support.severities import cube_of

import tracecols
from tracecols.enhance.scan.periods import Divider, ask, divide_intervals
from tracecols.errors import AnalysisError, SeverityError
from tracecols.model.model import enhance
from tracecols.patterns.periods import FEWER, NESTED, NO_PHASES
from tracecols.patterns.registry import properties
from tracecols.search.cube import analyze_model
from tracecols.severity import SeverityCube
from tracecols.testing import Program

SMALL = ("hybrid_2x3", "sweep3d_4", "omp_tasks", "omp_nested", "mpi_mix_5", "late_receiver", "metrics_rusage")
quick = settings(max_examples=8)


# -- sums --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@quick
@given(seed=st.integers(0, 1 << 32), size=st.integers(5, 40))
def test_periods__sums_over_them_are_the_analysis_without(tmp_path_factory, seed, size):
    path = tmp_path_factory.mktemp("random")
    store = RandomProgram(seed, path / "traces.otf2", size).model(path).store
    conventions = ("scalasca", "expert", "exact")[seed % 3]
    plain = analyze_model(enhance(store, 1), conventions)
    regions = enhance(store, 1).regions
    ticks = store.manifest["last_time"] - store.manifest["first_time"]
    for divided in (
        {"bins": min(1 + seed % 11, max(ticks, 1))},
        {"phases": "*"},
        {"phases": "from:f*"},
        {"phases": "*/!$omp*"},
    ):
        try:
            cube = analyze(store, conventions, **divided)
        except AnalysisError as error:
            assert "phase" in str(error) or "no region" in str(error), (error, regions.name)  # no region has that name
            continue
        assert_same(plain, cube)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_periods__sums_over_them_are_the_analysis_without_on_real_traces(shared_traces, opened, name):
    store = opened(shared_traces / "otf2" / name / "traces.otf2").store
    plain = {of: analyze_model(enhance(store, 1), of) for of in ("scalasca", "exact")}
    for of, divided in (
        ("exact", {"bins": 37}),
        ("scalasca", {"phases": "MPI_*"}),
        ("exact", {"phases": "from:compute"}),
        ("scalasca", {"bins": 3}),
        ("exact", {"phases": "*"}),
    ):
        try:
            cube = analyze(store, of, **divided)
        except AnalysisError as error:
            assert "no region" in str(error)
            continue
        assert_same(plain[of], cube)


@pytest.mark.slow
def test_periods__are_the_same_for_any_partitioning_and_number_of_threads(tmp_path):
    path = RandomProgram(7, tmp_path / "traces.otf2", 60).archive.write()
    trace = tracecols.open(tracecols.convert(path, tmp_path / "x.trace"), jobs=3)
    for divided in ({"bins": 13}, {"phases": "*"}, {"bins": 13, "conventions": "exact"}):
        whole = trace.analyze(**divided)
        with pytest.MonkeyPatch.context() as patch:
            divide(patch)
            parts = tracecols.open(trace.path, jobs=1).analyze(**divided)
        assert parts.frame(by_period=True).equals(whole.frame(by_period=True))


# -- phases ------------------------------------------------------------------------------------------------------------


def test_phases__are_the_instances_of_a_region():
    with loop().trace() as trace:
        cube = trace.analyze(phases="step")
        assert_same(trace.analyze(), cube)
    scale = 1 / cube.resolution
    late = by_period(cube, "mpi_latesender")
    assert late == {("main/step/MPI_Recv", 1, k): pytest.approx((1 + k) * scale) for k in range(3)}
    time = by_period(cube, "time")
    assert time["main", 0, -1] == pytest.approx(70 * scale)
    assert time["main/step", 0, 1] == pytest.approx(8 * scale)
    assert not any(path == "main" and k >= 0 for path, _, k in time)
    assert cube.periods_frame().to_dict("list") == {
        "begin": pytest.approx([10 * scale, 30 * scale, 50 * scale]),
        "end": pytest.approx([20 * scale, 40 * scale, 60 * scale]),
        "n_locations": [2, 2, 2],
    }


@pytest.mark.slow
def test_phases__from_one_call_to_the_next_belong_to_what_is_around_as_well():
    with loop().trace() as trace:
        cube = trace.analyze(phases="from:main/step")
        assert_same(trace.analyze(), cube)
    scale = 1 / cube.resolution
    time = by_period(cube, "time")
    # from step to step; the last one lasts until main is left
    own = {k: time["main", 0, k] / scale for k in (-1, 0, 1, 2)}
    assert own == pytest.approx({-1: 10, 0: 10, 1: 10, 2: 40})
    assert {k: time["main/step", 0, k] / scale for k in range(3)} == pytest.approx(dict.fromkeys(range(3), 8))


def test_phases__that_begin_within_a_team_have_the_time_of_its_join_where_the_master_spent_it():
    program = Program(processes=1, threads=2)
    master, worker = program.locations
    master.enter(0, "main").enter(10, "step").leave(12)
    master.fork(20).begin_team(20).enter(22, "!$omp parallel @a.c:1").enter(30, "step").leave(32)
    master.leave(50).end_team(51).join(70).leave(100)
    worker.begin_team(20).enter(24, "!$omp parallel @a.c:1").leave(48).end_team(49)
    with program.trace() as trace:
        cube = trace.analyze(phases="from:step")
        assert_same(trace.analyze(), cube)
    frame = cube.frame("execution", call_path="main", by_period=True)
    frame = frame[frame.thread == 0]
    own = dict(zip(frame.phase, frame.value * cube.resolution, strict=True))
    # 12 to 20 in phase 0; from JOIN to the end in phase 1, in which the team was joined: nothing of it is subtracted
    # from phase 0
    assert own == pytest.approx({-1: 10, 0: 8, 1: 30})


@pytest.mark.parametrize("divided", [{"phases": "from:compute"}, {"phases": "from:!$omp parallel*"}, {"bins": 37}])
def test_periods__of_nested_teams_have_no_time_below_zero(converted, divided):
    """The threads of a team that is forked in a phase may run longer than the phase, and so longer than their master in
    it."""
    cube = analyze(tracecols.open(converted("omp_nested")).store, **divided)
    assert (cube.period_cells["omp_limited_parallelism"].value > 0).all()
    assert {name for name, of in cube.period_cells.items() if (of.value < 0).any()} == set()
    assert cube.facts["counts"].keys() & {NESTED} == ({NESTED} if "phases" in divided else set())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coll", "hybrid_2x3", "mpi_mix_5", "pthreads_mutex", "rma", "sweep3d_4"])
def test_bins__have_no_part_that_exceeds_its_whole_and_no_more_time_than_they_are_wide(converted, name):
    cube = analyze(tracecols.open(converted(name)).store, bins=97)
    assert cube.with_phases_as_call_paths().violations() == []
    time, spent = cube.period_cells["time"], np.zeros((cube.system.n_locations, 97), np.int64)
    np.add.at(spent, (time.location, time.period), time.value)
    width = cube.periods.end_time - cube.periods.begin_time
    assert (spent <= width).all()


def test_phases__that_overlap_or_differ_between_processes_are_told():
    program = loop()
    program.masters[0].enter(101, "step").enter(102, "step").leave(103).leave(104)
    cube = cube_of(program, phases="step")
    assert len(cube.periods) == 4
    assert cube.facts["counts"][NESTED] == 1
    assert cube.facts["counts"][FEWER] == 1
    assert NO_PHASES not in cube.facts["counts"]
    assert cube.periods.n_locations.tolist() == [2, 2, 2, 1]


def test_phases__are_counted_by_process():
    program = Program(processes=3)
    for location, n_phases in zip(program.masters, (3, 1, 0), strict=True):
        location.enter(0, "main")
        for k in range(n_phases):
            location.enter(10 + 20 * k, "step").leave(20 + 20 * k)
        location.leave(100)
    cube = cube_of(program, phases="step")
    assert {note: n for note, n in cube.facts["counts"].items() if note in (FEWER, NO_PHASES)} == {
        FEWER: 1,
        NO_PHASES: 1,
    }
    assert cube.periods.n_locations.tolist() == [2, 1, 1]


def test_phases__may_be_given_by_the_end_of_a_call_path():
    with loop().trace() as trace:
        assert len(trace.analyze(phases="step/MPI_Send").periods) == 3
        with pytest.raises(AnalysisError, match="MPI_Send is never entered like that"):
            trace.analyze(phases="main/MPI_Send")


def test_phases__memory_grows_with_the_cells_that_are_not_zero(tmp_path):
    with loop(2000).trace() as trace:
        model = enhance(trace.store, 1, None, ask(phases="step"))
        # four call paths outside, and two in each phase on each process
        assert len(model.call_paths) == 4 + 3 * 2000
        cube = trace.analyze(phases="step", properties="mpi_latesender")
    assert len(cube.period_cells["time"]) == 2 * (1 + 2 * 2000)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"phases": "stepp"}, "did you mean step"),
        ({"phases": ""}, "given by a region or a call"),
        ({"phases": 3}, "given by a region or a call"),
        ({"phases": "step", "bins": 3}, "not by phases and bins"),
        ({"bins": 0}, "not a number of bins"),
        ({"bins": 101}, "would have no width"),
        ({"bin_width": 0.0}, "cannot be 0.0 s wide"),
        ({"bin_width": float("nan")}, "cannot be nan s wide"),
        ({"bin_width": 1e-30}, "narrower than a tick"),
        ({"bins": 2, "properties": "imbalance"}, "a mean over locations cannot be divided into bins"),
    ],
)
def test_periods__that_make_no_sense_are_refused(given_, message):
    with loop().trace() as trace, pytest.raises(AnalysisError, match=message):
        trace.analyze(**given_)


# -- bins --------------------------------------------------------------------------------------------------------------


def test_bins__cut_times_and_waits_exactly_and_count_events_where_they_are():
    with loop().trace() as trace:
        cube = trace.analyze(bins=4)  # edges at 25, 50, 75
        assert_same(trace.analyze(), cube)
    scale = 1 / cube.resolution
    time = {k: v / scale for k, v in by_period(cube, "time").items()}
    # main: 0-10 and 20-30, 40-50, 60-100, cut at 25, 50 and 75
    assert {k: time["main", 0, k] for k in range(4)} == pytest.approx({0: 15, 1: 15, 2: 15, 3: 25})
    assert time["main/step/MPI_Recv", 1, 0] == pytest.approx(8)
    # late senders wait from 31 and 51 on
    late = {k: v / scale for k, v in by_period(cube, "mpi_latesender").items()}
    assert late == pytest.approx({("main/step/MPI_Recv", 1, k): 1 + k for k in range(3)})
    visits = by_period(cube, "visits")
    assert {k: visits.get(("main/step", 0, k)) for k in range(4)} == {0: 1, 1: 1, 2: 1, 3: None}


def test_bins__cut_a_wait_that_lasts_over_several():
    program = Program(processes=2)
    program.masters[0].enter(0, "main").enter(70, "MPI_Send").send(71, to=1).leave(72).leave(100)
    program.masters[1].enter(0, "main").enter(10, "MPI_Recv").receive(80, source=0).leave(90).leave(100)
    cube = cube_of(program, bins=4)
    late = cube.over_time("mpi_latesender", by="rank")
    assert (late[1] * cube.resolution).round().tolist() == [15, 25, 20, 0]
    assert late[0].tolist() == [0, 0, 0, 0]
    assert late.index.name == "bin"


def test_bins__that_are_too_many_for_the_call_paths_are_refused():
    with (
        loop().trace() as trace,
        mock.patch("tracecols.enhance.scan.call_paths.MOST_LABELS", 10),
        pytest.raises(AnalysisError, match="4 bins of 4 call paths are too many"),
    ):
        trace.analyze(bins=4)


def test_bins__properties_that_take_time_say_when_they_begin():
    for conventions in ("scalasca", "expert"):
        assert [p.id for p in properties(conventions) if p.pattern is not None and p.timed_by is None] == []


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(-5, 40), st.integers(-5, 40)), max_size=6),
)
def test_divide_intervals__is_what_every_tick_says(widths, spans):
    bounds = np.cumsum([0, *widths])
    begin, end = (np.array([s[i] for s in spans], np.int64) for i in (0, 1))
    by = Divider.of_bins(bounds, 1)
    row, part, ticks = divide_intervals(by, begin, end, np.zeros(begin.size, np.int32))
    bins, inside = by.bin_of(part, np.zeros(part.size, np.int32))
    assert inside.all()
    expected = {}
    for i, (a, b) in enumerate(spans):
        for t in range(a, b):
            at = min(max(int(np.searchsorted(bounds, t, "right")) - 1, 0), len(widths) - 1)
            expected[i, at] = expected.get((i, at), 0) + 1
    assert dict(zip(zip(row.tolist(), bins.tolist(), strict=True), ticks.tolist(), strict=True)) == expected


# -- the cube ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_cube__keeps_its_periods_in_files_and_one_without_them_has_no_tables_of_them(tmp_path):
    with loop().trace() as trace:
        cube, plain = trace.analyze(phases="step"), trace.analyze()
    read = SeverityCube.load(cube.save(tmp_path / "a.severity"))
    assert read.frame(by_period=True).equals(cube.frame(by_period=True))
    assert read.periods_frame().equals(cube.periods_frame())
    assert "by phase step" in read.summary()
    plain.save(tmp_path / "b.severity")
    assert not list((tmp_path / "b.severity").glob("period*"))
    assert '"periods"' not in (tmp_path / "b.severity" / "manifest.json").read_text()
    with pytest.raises(SeverityError, match="divided neither by phases"):
        plain.over_time()


def test_over_time__has_a_row_for_each_phase_and_a_column_for_each_location():
    cube = cube_of(loop(), phases="step")
    by_location = cube.over_time("time", call_path="main/step*")
    assert by_location.shape == (3, 2)
    assert (by_location * cube.resolution).round().to_numpy().tolist() == [[10, 10]] * 3
    total = cube.over_time("Late Sender", by="total", outside=True)
    assert total.index.tolist() == [-1, 0, 1, 2]
    assert (total["mpi_latesender"] * cube.resolution).round().tolist() == [0, 1, 2, 3]


# -- output ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected", "n"),
    [
        ("bt-mz_S_4x2", "from:exch_qbc", 61),  # once to warm up, and 60 time steps
        ("sweep3d_4", "from:source", 5),
        ("hybrid_2x3", "from:h_latesender", 3),
        ("hpcg_2x2", "int CG(", 4),
    ],
)
def test_proposals__find_the_main_loop_without_being_told(converted, name, expected, n):
    trace = tracecols.open(converted(name))
    best = trace.phases().iloc[0]
    assert expected in best.phases and best.n_phases == n
    assert len(trace.analyze(phases=best.phases, properties="visits").periods) == n


def test_proposals__of_a_program_without_a_loop_are_none():
    program = Program(processes=2)
    for location in program.masters:
        location.enter(0, "main").enter(1, "step").leave(2).leave(3)
    with program.trace() as trace:
        assert trace.phases().empty


def test_proposals__are_executed_equally_often_by_all_processes():
    program = loop(4)
    program.masters[0].enter(200, "more").leave(201).enter(202, "more").leave(203).enter(204, "more").leave(205)
    with program.trace() as trace:
        found = trace.phases()
    assert found.phases.tolist() == ["from:step", "step"]
    assert found.n_phases.tolist() == [4, 4]
    assert found.regularity.tolist() == [1.0, 1.0]


def test_proposals__are_nothing_in_parallel_regions_that_others_take_no_part_in():
    """The work of the master alongside other threads divides only the time of the master."""
    program = Program(processes=1, threads=2)
    master, worker = program.locations
    master.enter(0, "main")
    for k in range(3):
        t = 10 + 40 * k
        master.enter(t, "step").fork(t + 2).begin_team(t + 2).enter(t + 3, "!$omp parallel @a.c:1")
        worker.begin_team(t + 2).enter(t + 4, "!$omp parallel @a.c:1").enter(t + 5, "work").leave(t + 15)
        master.enter(t + 5, "work").leave(t + 15)
        worker.leave(t + 20).end_team(t + 21)
        master.leave(t + 20).end_team(t + 21).join(t + 22).leave(t + 25)
    master.leave(130)
    with program.trace() as trace:
        found = trace.phases().phases.tolist()
    assert found[0] == "from:step" and not any("work" in name for name in found)


def numbered(name: str, counts=(4, 4)) -> Program:
    """Return processes that enter regions with a running number in their names and the same calls inside."""
    program = Program(processes=len(counts))
    for master, n in zip(program.masters, counts, strict=True):
        master.enter(0, "main")
        for k in range(n):
            master.enter(10 + 20 * k, name.format(k + 7))
            for part in range(2):
                master.call(12 + 20 * k + 5 * part, 14 + 20 * k + 5 * part, "fft1")
            master.leave(28 + 20 * k)
        master.leave(100)
    return program


@pytest.mark.parametrize(
    "name", ["iteration_{}", "x1_step:{}", *slow(["step {}", "epoch [{}]", "train=0{}", "solve#{}"])]
)
def test_phases__of_regions_with_running_numbers_are_one_family(name):
    stem = {"step {}": "step", "epoch [{}]": "epoch", "train=0{}": "train", "x1_step:{}": "x1_step"}.get(
        name, name[:-3]
    )
    with numbered(name).trace() as trace:
        found = trace.phases()
        cube = trace.analyze(phases=stem)
        same = trace.analyze(phases=f"main/{stem}")
        alike = cube.similar_periods()
    assert found.phases.tolist() == [f"from:{stem}", stem, "from:fft1", "fft1"]
    assert found.n_phases.tolist() == [4, 4, 8, 8]
    scale = 1 / cube.resolution
    # 18 ticks in each, 4 of them in callees
    assert [by_period(cube, "time")[f"main/{name.format(k + 7)}", 0, k] / scale for k in range(4)] == [14] * 4
    assert len(same.periods) == len(cube.periods) == 4
    assert alike.group.tolist() == [0] * 4 and not alike.is_outlier.any()


def test_phases__of_a_family_are_named_exactly_if_a_region_is_called_so():
    program = numbered("fft{}")
    for master in program.masters:
        for k in range(3):
            master.call(110 + 10 * k, 115 + 10 * k, "fft")
    with program.trace() as trace:
        assert len(trace.analyze(phases="fft").periods) == 3
        # a family is not proposed under the name of a region
        assert trace.phases().phases.tolist() == ["from:fft", "fft"]


@pytest.mark.slow
def test_proposals__have_what_the_recording_calls_phases_first(opened, tmp_path):
    from tests.support.kineto_writer import two_ranks, write_run

    ranks = two_ranks()
    # one rank has one, the other two
    ranks[1].step(4, 200, 300)
    trace = opened(write_run(tmp_path / "run", ranks))
    found = trace.phases()
    assert found.phases.tolist() == ["ProfilerStep"]
    assert found.n_phases.tolist() == [1] and found.is_declared.tolist() == [True]
    assert len(trace.analyze(phases="ProfilerStep").periods) == 2


@pytest.mark.parametrize("name", ["omp_tasks", "omp_basic"])
def test_proposals__of_tasks_and_of_timers_are_none(converted, name, recwarn):
    """Tasks count as visits where they were scheduled; calls at arbitrary distances are no iterations."""
    assert tracecols.open(converted(name)).phases().empty
    assert not recwarn.list


def test_similar_periods__groups_phases_and_names_outliers():
    program = Program()
    main = program.masters[0].enter(0, "main")
    t = 0
    for k in range(12):
        length = 40 if k == 5 else 10 + k % 2
        main.enter(t, "step")
        if k == 9:
            main.enter(t + 1, "rare").leave(t + 2)
        t += length
        main.leave(t)
    main.leave(t)
    found = cube_of(program, phases="step").similar_periods()
    assert found.index[found.is_outlier].tolist() == [5, 9]
    assert found.group.tolist() == [0] * 5 + [-1] + [0] * 3 + [-1] + [0] * 2
    assert found.representative[0] == 10 and found.total[5] == 40  # in the middle of those of 10 and 11 ticks
    assert found.distance.max() <= 0.25


def test_similar_periods__counts_of_polling_do_not_divide_phases():
    """25 iterations, all but three within 0.4 % of each other, with varying numbers of polls: groups of 22 and 2, and
    one outlier, not one group per number of calls (cloverleaf)."""
    program = Program()
    main = program.masters[0].enter(0, "main")
    t = 0
    for k in range(25):
        length = {0: 3000, 10: 1500, 20: 1500}.get(k, 1000 + k % 5)
        main.enter(t, "step")
        for part in range(20 + k % 4):
            main.enter(t + 2 * part, "small").leave(t + 2 * part)
        t += length
        main.leave(t)
    main.leave(t)
    found = cube_of(program, phases="step").similar_periods()
    assert found.index[found.is_outlier].tolist() == [0]
    assert (found.group == 0).sum() == 22
    assert sorted(set(found.group.tolist())) == [-1, 0, 1]
    assert found.group[10] == found.group[20] == 1


@pytest.mark.slow
def test_show__draws_each_row_over_time(tmp_path):
    with loop(4).trace() as trace:
        cube = trace.analyze(phases="step").save(tmp_path / "a.severity")
        plain = trace.analyze().save(tmp_path / "b.severity")
    shown = executed("show", cube, "--over-time", "-p", "mpi_latesender")
    # 1, 2, 3 and 4 ticks
    assert "▂▄▆█" in shown and "4 phases of step" in shown
    assert "▂▄▆█" in executed("show", cube, "--over-time", "-p", "mpi_latesender", "-c", "*Recv")
    everything = executed("show", cube, "--over-time")
    assert "▂▄▆█  Late Sender" in everything and "group 0: 4 phases" in everything
    assert "--phases, --bins or --bin-width" in executed("show", plain, "--over-time", code=1)


@pytest.mark.slow
def test_compare__tells_the_phase_that_differs(tmp_path):
    slow = loop(4)
    before = cube_of(loop(4), phases="step")
    for location in slow.masters:
        location.enter(150, "step").leave(180)
    after = cube_of(slow, phases="step")
    runs = tracecols.compare([before, after], ["a", "b"])
    table = runs.by_phase("time")
    assert table.index[0] == 4 and np.isnan(table.a[4]) and table.change[4] == 60
    assert table.call_path[4] == "main/step" or table.call_path[4] == "step"
    assert any("different numbers of phases: 4, 5" in note for note in runs.notes)
    paths = [str(c.save(tmp_path / f"{n}.severity")) for c, n in ((before, "a"), (after, "b"))]
    shown = run("compare", *paths)
    assert "Phases that changed most" in shown.output, shown.output
    assert runs.difference().periods is None


@pytest.mark.slow
def test_commands__divide_propose_and_export(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with loop(4).trace() as trace:
        source = str(trace.path)

        def run(*arguments):
            return executed(*arguments)

        assert "--phases from:step" in run("phases", source)
        run("analyze", source, "--phases", "from:step", "-o", "p.severity")
        run("analyze", source, "--bin-width", "25", "-o", "b.severity")
        run("analyze", source, "-o", "plain.severity")
        assert "not in the range" in executed("analyze", source, "--bins", "0", code=2)
        assert "'0ms' is not a width" in executed("analyze", source, "--bin-width", "0ms", code=2)
    for name, column in (("p", "phase"), ("b", "bin"), ("plain", None)):
        run("export", f"{name}.severity", f"{name}.parquet")
        run("export", f"{name}.severity", f"{name}.cubex")
        frame = pd.read_parquet(f"{name}.parquet")
        assert [c for c in frame.columns if c in ("phase", "bin")] == [c for c in (column,) if c]
        assert frame[frame.property == "time"].value.sum() == 240
        assert tracecols.read_cube(f"{name}.cubex").total("time") == 240


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conventions", "given_"), [("exact", {"phases": "from:exch_qbc"}), ("scalasca", {"bins": 50})]
)
def test_periods__of_many_iterations_add_up_with_their_root_causes(converted, conventions, given_):
    store = tracecols.open(converted("bt-mz_S_4x2")).store
    assert_same(analyze_model(enhance(store, 1), conventions), analyze(store, conventions, **given_))


@pytest.mark.parametrize(
    ("conventions", "given_"),
    [
        ("exact", {"bins": 9}),
        ("exact", {"phases": "region"}),
        pytest.param("scalasca", {"bins": 5}, marks=pytest.mark.slow),
    ],
)
def test_periods__of_epilog_add_up_beyond_what_float64_holds(shared_traces, opened, conventions, given_):
    """Ticks of EPILOG are so short that their sums exceed 2^53."""
    store = opened(shared_traces / "epilog" / "hybrid_2x3" / "epik.elg").store
    plain = analyze_model(enhance(store, 1), conventions)
    assert plain.cells["time"].value.sum() > 1 << 53
    assert_same(plain, analyze(store, conventions, **given_))


@pytest.mark.parametrize("name", ["hybrid_2x3", *slow(["omp_tasks"])])
def test_bins__have_the_exclusive_time_of_the_trace_slices_between_their_edges(converted, name):
    trace = tracecols.open(converted(name))
    cube = trace.analyze(bins=4, properties="execution")
    bounds = np.append(cube.periods.begin_time, cube.periods.end_time[-1] + 1)
    clock, compared = trace.manifest["clock"], 0
    for number in range(4):
        start, stop = ((t - clock["origin"]) / clock["resolution"] for t in bounds[number : number + 2])
        between = trace.analyze(start=start, stop=stop, properties="execution")
        expected = between.frame("execution").groupby(["call_path", "rank", "thread"], observed=True).value.sum()
        found = cube.frame("execution", by_period=True)
        found = found[found.bin == number].groupby(["call_path", "rank", "thread"], observed=True).value.sum()
        table = expected.to_frame("expected").join(found.to_frame("found"), how="outer").fillna(0.0)
        np.testing.assert_allclose(table.found, table.expected, atol=0.5 / clock["resolution"])
        compared += len(table)
    assert compared > 100


@pytest.mark.parametrize("asked", [{"bins": 10}, {"bin_width": 300.0}])
def test_bins__end_after_the_last_event(asked):
    """Beyond the largest 64-bit number no bin can end; it failed with OverflowError, or the last end was negative."""
    for last, is_divided in (((1 << 63) - 2, True), ((1 << 63) - 1, False)):
        program = Program(1)
        program.masters[0].enter(last - 1000, "main").leave(last)
        with program.trace() as trace:
            if is_divided:
                frame = trace.analyze(**asked).frame("time", by_period=True)
                assert frame.value.sum() == 1000 and (frame.value > 0).all()
                continue
            with pytest.raises(AnalysisError, match="the largest time there is"):
                trace.analyze(**asked)
