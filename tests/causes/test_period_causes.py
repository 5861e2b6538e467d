"""Root causes by phase and by time bin: values worked out by hand, and laws."""

from unittest import mock

import numpy as np
import pytest
from conftest import slow
from support.command_line import executed
from support.device_program import random_ranks
from support.late_senders import INIT, RECV, SEND, A, B, late_twice
from support.laws import divide
from support.periods import analyze, assert_same, by_period, loop
from support.severities import cube_of

import tracecols
from tracecols.causes import periods
from tracecols.causes.delays import Intervals
from tracecols.causes.periods import divide_cells, period_times
from tracecols.causes.quirks import NONE
from tracecols.enhance.dataflow.columns import Columns, pieced
from tracecols.enhance.scan.call_paths import PeriodCallPaths
from tracecols.enhance.scan.periods import ask
from tracecols.kernels import edges as kernels
from tracecols.kernels import period_times as summing
from tracecols.model.explain import explain
from tracecols.model.model import enhance
from tracecols.model.tables import STEP_OF, STEPS
from tracecols.patterns.periods import LEFT_OUT
from tracecols.search.cube import analyze_model
from tracecols.testing import Program
from tracecols.work.large import LargeArrays


def ticks(cube, name):
    return {key: round(value * cube.resolution) for key, value in by_period(cube, name).items()}


# -- by hand -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bins__have_the_costs_of_delays_where_the_time_that_is_charged_lies():
    with late_twice().trace() as trace:
        cube = analyze(trace.store, "scalasca", bins=4)  # of 5 ticks each
        assert_same(analyze_model(enhance(trace.store, 1), "scalasca"), cube)
    # A of rank 0 from 1 to 11: 6 ticks divided 4 : 5 : 1
    assert ticks(cube, "delay_latesender_longterm") == {(A, 0, 0): 2, (A, 0, 1): 3, (A, 0, 2): 1}
    # rank 1: the tick 11..12 of MPI_Recv is not a wait
    assert ticks(cube, "delay_latesender") == {
        (A, 0, 0): 2,
        (A, 0, 1): 3,
        (A, 0, 2): 1,
        (A, 1, 0): 1,
        (RECV, 1, 2): 1,
        (B, 1, 2): 2,
    }
    # rank 2 waits from 4 to 14, 6 of these 10 indirectly; rank 1 from 5 to 11
    assert ticks(cube, "mpi_wait_indirect_latesender") == {(RECV, 2, 0): 1, (RECV, 2, 1): 3, (RECV, 2, 2): 2}
    assert ticks(cube, "mpi_wait_propagating_ls") == {(RECV, 1, 1): 5, (RECV, 1, 2): 1}
    assert ticks(cube, "mpi_wait_terminal_ls") == {(RECV, 2, 0): 1, (RECV, 2, 1): 5, (RECV, 2, 2): 4}
    assert ticks(cube, "critical_path") == {
        (INIT, 0, 0): 1,
        (A, 0, 0): 4,
        (A, 0, 1): 5,
        (A, 0, 2): 1,
        (RECV, 1, 2): 1,
        (B, 1, 2): 2,
        (SEND, 1, 2): 1,
    }
    activities = ticks(cube, "critical_path_activities")
    assert [activities[A, 0, k] for k in range(3)] == [4, 5, 1]
    assert activities[RECV, 2, 2] == 1


def test_charges__are_the_same_however_many_are_divided_together():
    def found(trace):
        cube = analyze(trace.store, "exact", bins=4)
        return {name: by_period(cube, name) for name in cube.properties.id}

    with late_twice().trace() as trace:
        whole = found(trace)
        with mock.patch.object(periods, "CELLS", 1):
            parts = found(trace)
    assert len({path for path, _, _ in whole["critical_path"]}) > 1
    assert parts == whole


def after_a_barrier(lead, completes, done, tail):
    """Return two ranks: the first leaves a barrier late and computes until 126, the second waits in MPI_Allreduce.

    The first rank's barrier call begins `lead` ticks before the operation, which lasts from 46 to `done`, and ends
    `tail` ticks after it. The operation of the second rank lasts for one tick, until `completes`.
    """
    program = Program(processes=2)
    first, second = program.masters
    for rank in program.masters:
        rank.enter(0, "main")
    first.enter(46 - lead, "MPI_Barrier").begin_collective(46).end_collective(done, "barrier").leave(done + tail)
    second.enter(completes - 1, "MPI_Barrier").begin_collective(completes - 1).end_collective(completes, "barrier")
    second.leave(completes)
    for rank, begin in ((first, 126), (second, completes)):
        rank.enter(begin, "MPI_Allreduce").begin_collective(begin)
        rank.end_collective(127, "allreduce", sent=8, received=8).leave(127).leave(200)
    return program


@pytest.mark.parametrize("conventions", ["exact", *slow(["scalasca"])])
@pytest.mark.parametrize(("lead", "completes", "done", "tail", "expected"), [
    # completion of the barrier from 116 to 119, whenever its call begins
    (0, 116, 119, 0, {("main/MPI_Barrier", 0, 1): 3, ("main", 0, 1): 7}),
    (4, 116, 119, 0, {("main/MPI_Barrier", 0, 1): 3, ("main", 0, 1): 7}),
    # from 96 to 99, though the call ends in the next bin; then main from 104 to 126; the wait is 30 ticks
    (4, 96, 99, 5, {("main/MPI_Barrier", 0, 0): 30 * 3 / 25, ("main", 0, 1): 30 * 22 / 25}),
])  # fmt: skip
def test_bins__have_the_completion_of_the_operation_that_begins_an_interval(
    lead, completes, done, tail, expected, conventions
):
    with after_a_barrier(lead, completes, done, tail).trace() as trace:
        cube = analyze(trace.store, conventions, bins=2)  # of 100 ticks each
        assert_same(analyze_model(enhance(trace.store, 1), conventions), cube)
    assert ticks(cube, "delay_n2n") == {key: round(value) for key, value in expected.items()}


@pytest.mark.slow
def test_phases__have_the_critical_path_and_delays_of_each_iteration():
    with loop().trace() as trace:
        for of in ("scalasca", "exact"):
            cube = analyze(trace.store, of, phases="step")
            assert_same(analyze_model(enhance(trace.store, 1), of), cube)
    # the receiver waits 1, 2, 3 ticks; since the previous message, the sender spent 0 + 2, 6 + 3, 5 + 4 ticks in the
    # previous and in this step
    found = ticks(cube, "delay_latesender_aggregate")
    exact = [1 + 2 * 6 / 9, 2 * 3 / 9 + 3 * 5 / 9, 3 * 4 / 9]
    assert sum(found.values()) == 6
    assert [sum(v for (_, _, phase), v in found.items() if phase == k) for k in range(3)] == pytest.approx(exact, abs=1)
    assert all(path.startswith("main/step") for path, _, _ in found)
    # 10 ticks in each step; the rest of the path is outside of the steps
    path = ticks(cube, "critical_path")
    assert {k: sum(v for (_, _, phase), v in path.items() if phase == k) for k in (0, 1, 2)} == {0: 10, 1: 10, 2: 10}


def test_note__says_what_is_left_out_and_why():
    cube = cube_of(loop(), phases="step")
    assert cube.facts["counts"][LEFT_OUT] == 1 and "computational imbalance" in LEFT_OUT and "do not add up" in LEFT_OUT
    assert "delay" in cube.properties.id and "imbalance" not in cube.properties.id


def test_faces__tell_when_the_critical_path_and_costs_of_delays_are(tmp_path):
    cube = cube_of(loop(), phases="step")
    over_time = (cube.over_time("critical_path", by="total") * cube.resolution).round()
    assert over_time.to_numpy().ravel().tolist() == [10, 10, 10]
    assert (cube.over_time("delay", by="rank") * cube.resolution).round().to_numpy().sum() == 6
    path = tmp_path / "run.severity"
    path = cube.save(path)
    shown = executed("show", path, "-p", "critical_path", "--over-time")
    assert "Bars are 3 phases of step" in shown and "█" in shown
    more = cube.frame("critical_path_imbalance", by_period=True)
    assert set(more.phase) <= {-1, 0, 1, 2} and more.value.sum() == pytest.approx(cube.total("critical_path_imbalance"))


def test_threads__that_another_forks_are_in_the_phase_of_the_fork_and_on_its_critical_path():
    program = Program(processes=1, threads=2)
    master, worker = program.locations
    master.enter(0, "main")
    for k in range(2):
        t = 10 + 40 * k
        master.enter(t, "step").fork(t + 2).begin_team(t + 2).enter(t + 3, "!$omp parallel @a.c:1")
        worker.begin_team(t + 2).enter(t + 4, "!$omp parallel @a.c:1").enter(t + 5, "work").leave(t + 15 + k)
        master.enter(t + 5, "!$omp implicit barrier @a.c:9").leave(t + 18)
        worker.enter(t + 16 + k, "!$omp implicit barrier @a.c:9").leave(t + 18).leave(t + 20).end_team(t + 21)
        master.leave(t + 20).end_team(t + 21).join(t + 22).leave(t + 25)
    master.leave(100)
    with program.trace() as trace:
        cube = analyze(trace.store, "exact", phases="step")
        assert_same(analyze_model(enhance(trace.store, 1), "exact"), cube)
    for name in ("time", "critical_path"):
        found = cube.frame(name, call_path="main/step/!$omp parallel @a.c:1/work", by_period=True)
        assert found.phase.tolist() == [0, 1] and set(found.thread) == {1}
        assert (found.value * cube.resolution).round().tolist() == [10, 11]


def test_explain__has_the_steps_that_divide_root_causes():
    with loop().trace() as trace:
        plan = executed("analyze", trace.path, "--explain", "--bins", "3", env={"COLUMNS": "200"})
        bounds = [
            {step.name: step.n_bytes for step in explain(trace.store, ["run_causes"], of)} for of in (False, True)
        ]
    assert all(step in plan for step in ("divide_own_times", "find_delay_periods", "divide_causes", "divide_run"))
    assert set(bounds[0]) == set(bounds[1]) >= {"divide_own_times", "divide_run"}


def test_explain__knows_a_bound_of_all_that_any_step_keeps():
    with loop().trace() as trace:
        planned = {step.name for step in explain(trace.store, STEP_OF)}
    assert {step.name for step in STEPS} <= planned


# -- laws --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hybrid_2x3", "omp_nested", "sweep3d_4"])
def test_bins__are_each_filled_by_the_critical_path(converted, name):
    cube = analyze(tracecols.open(converted(name)).store, "exact", bins=37)
    on_path = cube.period_cells["critical_path"]
    np.testing.assert_array_equal(
        np.bincount(on_path.period, on_path.value, 37), cube.periods.end_time - cube.periods.begin_time
    )
    for part in ("mpi_wait_terminal_ls", "mpi_wait_direct_latesender", "intra_partition_imbalance", "delay"):
        if part in cube.period_cells:
            assert (cube.period_cells[part].value > 0).all(), part


@pytest.mark.parametrize("seed", [0, *slow(range(1, 6))])
def test_bins__are_each_filled_by_the_critical_path_over_streams(seed, monkeypatch):
    with random_ranks(seed).program.trace() as trace:
        plain, cube = trace.analyze(), trace.analyze(bins=7)
        stretches = trace.critical_path(raw=True)
        assert_same(plain, cube)
        on_path = cube.period_cells["critical_path"]
        length = cube.periods.end_time - cube.periods.begin_time
        np.testing.assert_array_equal(np.bincount(on_path.period, on_path.value, 7), length)
        # a host is listed at the first thread of its process
        for location in np.unique(stretches.location):
            mine = stretches[stretches.location == location]
            edges = cube.periods.begin_time, cube.periods.end_time
            begin, end = (np.clip(mine[c].to_numpy()[:, None], *edges) for c in ("begin_time", "end_time"))
            here = on_path.where(on_path.location == location)
            np.testing.assert_array_equal(np.bincount(here.period, here.value, 7), (end - begin).sum(axis=0))
        divide(monkeypatch)
        parts = tracecols.open(trace.path, jobs=1).analyze(bins=7)
    assert parts.frame(by_period=True).equals(cube.frame(by_period=True))


@pytest.mark.parametrize("conventions", ["exact", "scalasca"])
def test_root_causes__by_period_do_not_depend_on_the_size_of_blocks(converted, conventions, monkeypatch):
    store = tracecols.open(converted("hybrid_2x3")).store
    whole = analyze(store, conventions, bins=5)
    # several blocks of pairs, and of stretches of the critical path
    monkeypatch.setattr("tracecols.work.large.BLOCK", 7)
    divided = analyze(store, conventions, bins=5)
    assert len(whole.period_cells["critical_path"]) > 7
    for name, of in whole.period_cells.items():
        for column in ("call_path", "location", "period", "value"):
            np.testing.assert_array_equal(getattr(divided.period_cells[name], column), getattr(of, column), name)


def in_two(source):
    """Return the same columns in two pieces."""
    n, columns = len(source), {name: source.column(name) for name in source.names}
    halves = (slice(0, n // 2), slice(n // 2, n))
    return pieced([Columns(here.stop - here.start, {c: v[here] for c, v in columns.items()}) for here in halves])


@pytest.mark.slow
@pytest.mark.parametrize("divided", [{"bins": 37}, {"phases": "h_*"}, {"phases": "from:h_latesender"}])
def test_intervals__have_the_time_of_all_periods(converted, divided, monkeypatch):
    """Between any two points, the times of the periods add up to the time without periods; edges change no segment."""

    store = tracecols.open(converted("hybrid_2x3")).store
    whole, model = (enhance(store, 1, None, ask(**of)).with_quirks(NONE) for of in ({}, divided))
    spent, points, index = (model.get(name) for name in ("segments", "sync_points", "point_index"))
    plain = whole.get("segments")
    assert plain.edges is None and spent.edges.time.size
    np.testing.assert_array_equal(plain.cuts.column("time"), spent.cuts.column("time"))
    for column in ("call_path", "time"):
        np.testing.assert_array_equal(plain.entries.column(column), spent.entries.column(column))
    since = np.flatnonzero(points.location[1:] == points.location[:-1])
    location = points.location[since]
    # from each point to the end of its location
    until = index.start[1:][location] - 1
    intervals = Intervals(model.facts, NONE, points, index, spent, LargeArrays())
    times = intervals.spent(since, until)
    found = period_times(intervals, location, intervals.first(since, until), intervals.stop(until))
    n, met = len(model.call_paths.whole), model.call_paths.whole.creation
    of = np.repeat(np.arange(since.size), times.end - times.start)
    expected = np.zeros((since.size, n), np.int64)
    np.add.at(expected, (of, met[times.call_path]), times.time)
    sums = np.zeros_like(expected)
    np.add.at(sums, (found.key // n, found.key % n), found.ticks)
    many = ~found.is_single
    assert many.any() and (found.period[~many] >= -1).all()
    np.testing.assert_array_equal(sums[many], expected[many])
    # for a few intervals, only the segments near them are read, each run of neighbours separately
    monkeypatch.setattr(periods, "NEAR", 0)
    some = np.random.default_rng(7).permutation(np.flatnonzero(index.start[1:][location] - since < 12))
    first, stop = intervals.first(since, until)[some], intervals.stop(until)[some]
    waits = index.n_waits_before(since[some] + 1), index.n_waits_before(until[some])
    without = period_times(intervals, location[some], first, stop, waits)
    assert first.min() > 0 and len(periods._runs(first, stop)) > 1
    # the rows that are read are from both of two pieces, are kept in files, and are read block by block
    for name, value in (("BLOCK", 5), ("SMALL", 0)):
        monkeypatch.setattr(f"tracecols.work.large.{name}", value)
    apart = spent._replace(ends=in_two(spent.ends), entries=in_two(spent.entries))
    apart = intervals._replace(segments=apart, large=LargeArrays(0))
    of_some = period_times(apart, location[some], first, stop)
    again = np.zeros((some.size, n), np.int64)
    np.add.at(again, (of_some.key // n, of_some.key % n), of_some.ticks)
    np.testing.assert_array_equal(again, sums[some])
    np.testing.assert_array_equal(of_some.period, found.period[some])
    np.testing.assert_array_equal(of_some.is_single, found.is_single[some])
    assert (waits[1] - waits[0]).max() > 5
    of_some = period_times(apart, location[some], first, stop, waits)
    for column, expected in zip(of_some, without, strict=True):
        np.testing.assert_array_equal(column, expected)


def test_divide_cells__parts_add_up_to_the_last_bit_in_any_order():
    rng = np.random.default_rng(5)
    with loop().trace() as trace:
        labels = enhance(trace.store, 1, None, ask(bins=4)).call_paths
    assert isinstance(labels, PeriodCallPaths)
    value = np.concatenate([rng.random(50) * 10.0 ** rng.integers(-3, 18, 50), [0.0, 7.0, -2.5, 2.0**60 + 2**12, 1.0]])
    cell = rng.integers(0, value.size - 1, 2000)
    weight = rng.random(2000) - 0.1
    for values in (value, np.rint(np.clip(value, -(2.0**62), 2.0**62)).astype(np.int64) + (1 << 61)):
        of, _, part = divide_cells(
            labels, values, np.zeros(value.size, np.int32), cell, rng.integers(0, 16, 2000), weight
        )
        mixed = rng.permutation(of.size)
        sums = np.zeros(value.size, values.dtype)
        np.add.at(sums, of[mixed], part[mixed])
        np.testing.assert_array_equal(sums, values)
        assert np.bincount(of, minlength=value.size)[-1] == 1  # the last value has no weight


@pytest.mark.slow
def test_kernels__compiled_and_plain_agree():
    with loop().trace() as trace:
        found = [analyze(trace.store, "exact", **of).frame(by_period=True) for of in ({"bins": 7}, {"phases": "step"})]
        with (
            mock.patch.object(kernels, "collect_locations", kernels.collect_locations.py_func),
            mock.patch.object(kernels, "collect_with_edges", kernels.collect_with_edges.py_func),
            mock.patch.object(kernels, "note_last_edges", kernels.note_last_edges.py_func),
            mock.patch.object(summing, "sum_periods", summing.sum_periods.py_func),
        ):
            plain = [
                analyze(trace.store, "exact", **of).frame(by_period=True) for of in ({"bins": 7}, {"phases": "step"})
            ]
    assert all(a.equals(b) for a, b in zip(found, plain, strict=True))


@pytest.mark.slow
def test_edges__find_room_however_many_there_are():
    """Arrays begin small and grow; the edges are the same."""
    with loop(20).trace() as trace:
        whole = analyze(trace.store, "exact", bins=100)
        assert_same(analyze_model(enhance(trace.store, 1), "exact"), whole)
        with mock.patch("tracecols.causes.edges.ROOM", 4):
            small = analyze(trace.store, "exact", bins=100)
    assert small.frame(by_period=True).equals(whole.frame(by_period=True))
