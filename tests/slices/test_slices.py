"""Analyses of trace slices: the slices of a trace add up to the whole."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from conftest import DATA, SHARED, slow
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_programs import RandomProgram
from support.recordings import ALIKE
from support.severities import cells
from support.slices import CALLS, analyze_piece

import tracecols
from tracecols.errors import AnalysisError
from tracecols.model.model import enhance as enhance_store
from tracecols.schema import EventKind
from tracecols.search.cube import analyze_model
from tracecols.slices import plan
from tracecols.store import Store
from tracecols.testing import Program

PARALLEL, TASK = "!$omp parallel @a.c:1", "!$omp task @a.c:7"
DISPLACED = "call paths counted outside their parallel region, as the reference does"

ADD_UP = (
    "time", "execution", "comp", "mpi", "mpi_point2point", "mpi_collective", "omp_time", "omp_management", "omp_fork", "omp_barrier",
    "overhead", "comms_send", "comms_recv", "syncs_send", "syncs_recv", "bytes_sent", "bytes_rcvd",
    "syncs_coll", "comms_cxch", "comms_csrc", "comms_cdst", "bytes_cout", "bytes_cin",
)  # fmt: skip
OF_IDLE_THREADS = ("omp_idle_threads", "omp_limited_parallelism")


def reserved(model):
    """Return the ticks for which all threads are reserved: as long as their masters are recorded."""
    masters = model.locations.master[model.locations.is_cpu]
    return sum(model.scans[m].last_time - model.scans[m].first_time for m in masters.tolist())


def by_name(cube, names):
    """Return ticks, occurrences and bytes by property, names of the call path, and location."""
    found = Counter()
    for name in set(names) & set(cube.properties.id):
        of = cube.cells[name]
        for call_path, location, value in zip(
            of.call_path.tolist(), of.location.tolist(), of.value.tolist(), strict=True
        ):
            found[name, cube.call_paths.path[call_path], location] += value
    return found


def whole_of(store, names):
    """Return the values of the whole trace, to which those of its pieces must add up."""
    return by_name(analyze_model(enhance_store(store, 1), "scalasca"), names)


def check_sum(store, cuts, names, whole=None):
    """Divide a trace and compare the sum of the pieces with `whole`, by default `whole_of`; return models and cubes of
    the pieces."""
    total, pieces = Counter(), []
    for start, stop in pairwise([None, *sorted(cuts), None]):
        if start == stop:
            continue
        try:
            pieces.append(analyze_piece(store, start, stop))
        except AnalysisError:
            continue  # no event lies there
        total.update(by_name(pieces[-1][1], names))
    whole = whole_of(store, names) if whole is None else whole
    assert {k: (whole[k], v) for k, v in total.items() if v != whole[k]} == {}
    assert {k: v for k, v in whole.items() if v and k not in total} == {}
    return pieces


# -- every trace -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 32), cuts=st.lists(st.floats(0, 1), min_size=1, max_size=3))
def test_pieces__of_random_programs_add_up(tmp_path_factory, seed, cuts):
    # nested teams, explicit tasks, buffer flushes, messages under way, masters with higher identifiers, programs that
    # never fork
    folder = tmp_path_factory.mktemp("p")
    store = RandomProgram(seed, folder / "traces.otf2", 30).store(folder)
    first, last = store.manifest["first_time"], store.manifest["last_time"]
    cube = analyze_model(enhance_store(store, 1), "scalasca")
    # the reference's list of call paths is followed only for whole traces
    names = (*ADD_UP, *OF_IDLE_THREADS) if DISPLACED not in cube.facts["counts"] else ADD_UP[1:]
    check_sum(store, [first + round(cut * (last - first)) for cut in cuts], names, by_name(cube, names))


@pytest.mark.slow
@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 32), bounds=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_pieces__of_random_programs_reserve_the_same_for_every_thread(tmp_path_factory, seed, bounds):
    folder = tmp_path_factory.mktemp("p")
    store = RandomProgram(seed, folder / "traces.otf2", 30).store(folder)
    first, last = store.manifest["first_time"], store.manifest["last_time"]
    start, stop = (first + round(x * (last - first)) for x in sorted(bounds))
    try:
        model, cube = analyze_piece(store, start, stop + 1)
    except AnalysisError:
        return
    time = np.zeros(model.n_locations, np.int64)
    np.add.at(time, cube.cells["time"].location, cube.cells["time"].value)
    assert (time == time[model.locations.master]).all()


RECORDED = [p.parent for p in sorted(SHARED.glob("otf2/*/traces.otf2")) or sorted(DATA.glob("*/traces.otf2"))]
RECORDED = [
    p for p in RECORDED if p.name not in ("bt-mz_S_4x2", "pthreads_mutex", "std_thread", *ALIKE) or p.name == "coll"
]
FOLLOW_THE_LIST = {"omp_basic", "omp_tasks", "omp_mix_8"}
"""Whole traces whose limited parallelism follows the reference's list of call paths
(docs/decisions/limited-parallelism.md)."""


@pytest.mark.slow
@pytest.mark.parametrize("folder", RECORDED, ids=lambda p: p.name)
def test_pieces__of_recordings_add_up(folder, tmp_path):
    store = Store(tracecols.convert(folder, tmp_path / "x.trace"))
    first, last = store.manifest["first_time"], store.manifest["last_time"]
    cuts = [first + round(cut * (last - first)) for cut in (0.31, 0.47, 0.8)]
    names = ADD_UP[1:] if folder.name in FOLLOW_THE_LIST else (*ADD_UP, *OF_IDLE_THREADS)
    pieces = check_sum(store, cuts, names)
    assert len(pieces) == 4
    for model, cube in pieces:
        assert cube.cells["time"].value.sum() == reserved(model)


# -- single ones -------------------------------------------------------------------------------------------------------


def test_piece__without_a_fork_reserves_all_threads(data, tmp_path):
    # 6 threads x 0.198 s; when idle workers were not counted, it was 0.396 s
    store = Store(tracecols.convert(data / "hybrid_2x3", tmp_path / "x.trace"))
    clock, first = store.manifest["clock"], store.manifest["first_time"]
    stop = clock["origin"] + round(0.2 * clock["resolution"])
    model, cube = analyze_piece(store, None, stop)
    # each process begins with its first event
    span = [stop - model.scans[i].first_time for i in (0, 3)]
    assert cube.cells["time"].value.sum() == 3 * sum(span)
    assert cube.total("time") == pytest.approx(6 * 0.198, abs=0.002)
    assert max(span) <= stop - first


def test_piece__that_begins_within_explicit_tasks(shared_traces, tmp_path):
    # 4 busy threads for 3.259 ms; the time of tasks that began before used not to be counted
    store = Store(tracecols.convert(shared_traces / "otf2" / "omp_tasks", tmp_path / "x.trace"))
    clock = store.manifest["clock"]
    start, stop = (clock["origin"] + round(t * clock["resolution"]) for t in (6.517e-3, 9.776e-3))
    _, cube = analyze_piece(store, start, stop)
    assert cube.cells["time"].value.sum() == 4 * (stop - start)
    assert cube.total("time") == pytest.approx(13.0e-3, abs=0.1e-3)


@pytest.mark.parametrize("cut", [35, *slow([25, 45, 55])])
def test_piece__cuts_through_a_task(archive, enhance, cut):
    # switch at 20, the task's region from 30 to 50, complete at 60: 40 ticks where it was scheduled
    (thread,), team = archive.openmp(1)
    barrier = "!$omp implicit barrier @a.c:2"
    thread.enter(0, "main").fork(5, 1).begin_team(6, team).enter(7, PARALLEL).enter(10, barrier)
    thread.switch_task(20, (0, 1), team).enter(30, TASK).leave(50, TASK)
    thread.complete_task(60, (0, 1), team)
    thread.leave(80, barrier).leave(90, PARALLEL).end_team(91, team).join(95).leave(100, "main")
    store = enhance(archive).store
    total = Counter()
    for start, stop in ((None, cut), (cut, None)):
        _, cube = analyze_piece(store, start, stop)
        total.update(by_name(cube, ("time", "execution")))
        # the remainder at the call path at which the task was scheduled
        inside = sum(v for (n, p, _), v in by_name(cube, ["time"]).items() if p.endswith(f"{barrier}/{TASK}"))
        assert inside == (cut - 20 if start is None else 60 - cut)
    whole = by_name(analyze_model(enhance_store(store, 1)), ("time", "execution"))
    assert {k: v for k, v in total.items() if v} == dict(whole)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [15, 25, 35, 75, 85, 95])
def test_piece__cuts_through_a_team_while_it_is_made_or_ended(archive, enhance, cut):
    # fork at 10; the threads enter at 20 and 30, leave at 80 and 70, and end the team at 82 and 72; join at 90
    (master, worker), team = archive.openmp(2)
    master.enter(0, "main").fork(10, 2).begin_team(18, team).call(20, 80, PARALLEL).end_team(82, team).join(90)
    master.leave(100, "main")
    worker.begin_team(28, team).call(30, 70, PARALLEL).end_team(72, team)
    store = enhance(archive).store
    check_sum(store, [cut], (*ADD_UP, *OF_IDLE_THREADS))
    cubes = [analyze_piece(store, *bounds)[1] for bounds in ((None, cut), (cut, None))]
    # management lasts from the fork to 20 and 30, and from 80 and 70 to the join
    management = Counter()
    for cube in cubes:
        management.update(cells(cube, "omp_management"))
    assert management == {(PARALLEL, 0): 20, (PARALLEL, 0, 1): 40}


def test_piece__has_no_teams_of_processes_whose_recording_ended_before():
    program = Program(processes=2, threads=2)
    program.masters[0].enter(0, "main").call(10, 90, "work").leave(100)
    master, worker = program.locations[2:]
    master.enter(0, "main").fork(10)
    for thread in master, worker:
        thread.begin_team(10).enter(10, PARALLEL).enter(20, "!$omp implicit barrier @a.c:9")
    # the recording of the process ends while the worker is in the barrier
    master.leave(30).leave(30).end_team(30)
    with program.trace() as trace, trace.piece(start=60) as piece:
        assert [len(piece.frame("events", locations=i)) for i in range(4)] == [4, 0, 0, 0]
        assert piece.what_if().runtime == 40


def test_teams__of_processes_that_share_a_definition_are_separate():
    def teams(shared):
        """Return the teams, and all times of the trace and of its end, in which only the second process is in a
        team."""
        program = Program(processes=2, threads=2)
        one = program.define("communicators", kind="group", paradigm="openmp", flags=0, members=[0, 1, 2, 3])
        for process, begins in enumerate(((10, 30), (10, 30, 50))):
            team = one if shared else program.team(process)
            master, worker = program.locations[2 * process :][:2]
            master.enter(0, "main")
            for begin in begins:
                master.fork(begin)
                for thread, late in ((master, process), (worker, 1 + 2 * process)):
                    thread.begin_team(begin + late, team).enter(begin + late, PARALLEL)
                    thread.call(begin + 4 + late, begin + 9, "!$omp implicit barrier @a.c:9")
                    thread.leave(begin + 9).end_team(begin + 9, team)
                master.join(begin + 10)
            master.leave(100)
        with program.trace() as trace, trace.piece(start=55) as piece:
            n_threads = trace.model.teams.n_threads.tolist()
            cubes = trace.analyze(), piece.analyze()
            return n_threads, [{name: cells(c, name) for name in c.cells} for c in cubes]

    shared, (whole, end) = teams(shared=True)
    assert whole["omp_ibarrier_wait"] == {
        ("!$omp implicit barrier @a.c:9", 0): 2,
        ("!$omp implicit barrier @a.c:9", 1): 6,
    }
    assert (shared, [whole, end]) == teams(shared=False)


@pytest.mark.slow
def test_piece__of_teams_of_several_sizes(archive, enhance):
    # the second team is created while the third thread is still in the first: no thread is counted twice
    threads, every = archive.openmp(3)
    two = archive.comm("", [0, 1], paradigm="openmp")
    threads[0].enter(0, "main")
    for team, begin in ((every, 10), (two, 30), (every, 50)):
        threads[0].fork(begin, 3).begin_team(begin + 1, team).call(begin + 2, begin + 8, PARALLEL)
        threads[0].end_team(begin + 9, team).join(begin + 10)
        for thread in threads[1 : 3 if team == every else 2]:
            thread.begin_team(begin + 3, team).call(begin + 4, begin + 7, PARALLEL).end_team(begin + 8, team)
    threads[0].leave(100, "main")
    store = enhance(archive).store
    whole = whole_of(store, (*ADD_UP, *OF_IDLE_THREADS))
    # at the events, and just after them
    happens = {begin + t for begin in (10, 30, 50) for t in (0, 1, 2, 3, 4, 7, 8, 9, 10)}
    for cut in sorted(happens | {t + 1 for t in happens} | {1, 99}):
        *_, (_, cube) = check_sum(store, [cut], (*ADD_UP, *OF_IDLE_THREADS), whole)
        assert cube.cells["time"].value.sum() == 3 * (100 - cut)
        assert "teams without a recorded FORK" not in cube.facts["counts"]


@pytest.mark.parametrize("cut", [10, 25, 50, 75, *slow(c for c in range(3, 96) if c not in (10, 25, 50, 75))])
def test_piece__of_threads_that_are_ahead_has_the_same_constructs(archive, enhance, cut):
    """While the first thread is still in its first loops or barrier, the second one ends a loop, two loops in a nested
    team of its own, another loop, and a barrier; while the first is in the last barrier, the second leaves the team and
    creates one of its own again."""
    loop, single, barrier = "!$omp for @a.c:3", "!$omp single @a.c:4", "!$omp barrier @a.c:5"
    (first, second), team = archive.openmp(2)
    own = archive.comm("", [1], paradigm="openmp")
    first.enter(0, "main").fork(1, 2).begin_team(2, team).enter(3, PARALLEL)
    first.call(5, 20, loop).call(30, 40, loop).enter(40, single).call(41, 60, barrier).leave(61, single)
    first.call(62, 80, "!$omp barrier @a.c:9")
    first.leave(95, PARALLEL).end_team(96, team).join(97).leave(100, "main")
    second.begin_team(2, team).enter(3, PARALLEL).call(4, 6, loop)
    second.fork(7, 1).begin_team(8, own).enter(9, PARALLEL).call(10, 12, loop).call(12, 13, loop)
    second.leave(14, PARALLEL).end_team(14, own).join(15)
    second.call(16, 18, loop).enter(18, single).call(19, 45, barrier).leave(45, single)
    second.call(46, 70, "!$omp barrier @a.c:9").leave(71, PARALLEL).end_team(72, team)
    second.fork(73, 1).begin_team(74, own).enter(75, PARALLEL).call(75, 76, loop).leave(77, PARALLEL)
    second.end_team(77, own).join(78)

    def met(model):
        """Return the constructs that begin after the cut: threads that meet them, and the times."""
        m, found = model.construct_members, {}
        rows = zip(*(m[c].tolist() for c in ("construct", "location", "enter_time", "exit_time")), strict=True)
        for construct, *row in rows:
            found.setdefault(construct, []).append(row)
        return [visits for visits in found.values() if all(enter > cut for _, enter, _ in visits)]

    whole = enhance(archive)
    piece, cube = analyze_piece(whole.store, cut, None)
    assert all(s.bad_exits == 0 and s.open == 0 for s in piece.scans)
    assert sorted(met(piece)) == sorted(met(whole))
    assert "constructs that lack threads" not in cube.facts["counts"]
    assert {*cube.call_paths.path} <= {*analyze_model(whole).call_paths.path}


@pytest.mark.parametrize(("n_ended", "n_again"), [(2, 2), (plan.MOST_AHEAD, plan.MOST_AHEAD), (plan.MOST_AHEAD + 1, 0)])
def test_piece__repeats_no_constructs_that_only_one_thread_meets(archive, enhance, n_ended, n_again):
    """A thread that lacks a few constructs will come to them; one that lacks many does not meet such constructs."""
    (first, second), team = archive.openmp(2)
    first.enter(0, "main").fork(1, 2).begin_team(2, team).enter(3, PARALLEL)
    for k in range(n_ended):
        first.call(4 + k, 5 + k, "!$omp for @a.c:3")
    first.call(80, 94, "!$omp for @a.c:3").leave(95, PARALLEL).end_team(96, team).join(97).leave(100, "main")
    second.begin_team(2, team).enter(3, PARALLEL).leave(94, PARALLEL).end_team(95, team)
    planned = plan.plan_slices(enhance(archive).store, None, 90, None, 1).slices
    kinds = [[EventKind(x.kind).name for x in of.before] for of in planned]
    assert kinds[0][:4] == ["ENTER", "THREAD_FORK", "THREAD_TEAM_BEGIN", "ENTER"]
    assert kinds[0][4:] == n_again * ["ENTER", "EXIT"] + ["ENTER"]
    assert kinds[1] == ["THREAD_TEAM_BEGIN", "ENTER"]


def test_piece__repeats_no_exit_that_nobody_entered(archive, enhance):
    (first, second), team = archive.openmp(2)
    first.enter(0, "main").fork(1, 2).begin_team(2, team).leave(4, "!$omp for @a.c:3")
    first.end_team(96, team).join(97).leave(100, "main")
    second.begin_team(2, team).end_team(95, team)
    planned = plan.plan_slices(enhance(archive).store, None, 90, None, 1).slices
    assert EventKind.EXIT not in {x.kind for of in planned for x in of.before}


@pytest.mark.slow
def test_piece__counts_what_was_sent_before(archive, enhance):
    # sent at 15 and 16; received at 40 and, by a request posted before the cut, at 60
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "main").enter(14, "MPI_Send").send(15, 1, mpi.world, 1, 8).leave(16, "MPI_Send")
    a.enter(16, "MPI_Send").send(16, 1, mpi.world, 2, 100).leave(17, "MPI_Send")
    a.enter(50, "MPI_Send").send(51, 1, mpi.world, 1, 4).leave(52, "MPI_Send").leave(90, "main")
    b.enter(0, "main").enter(5, "MPI_Irecv").post_receive(6, 1).leave(7, "MPI_Irecv")
    b.enter(38, "MPI_Recv").receive(40, 0, mpi.world, 1, 8).leave(41, "MPI_Recv")
    b.enter(55, "MPI_Recv").receive(56, 0, mpi.world, 1, 4).leave(57, "MPI_Recv")
    b.enter(59, "MPI_Wait").complete_receive(60, 0, mpi.world, 1, 2, 100).leave(61, "MPI_Wait").leave(90, "main")
    store = enhance(archive).store
    _, before = analyze_piece(store, None, 20)
    model, after = analyze_piece(store, 20, None)
    assert cells(before, "bytes_sent") == {("MPI_Send", 0): 108}
    assert cells(before, "bytes_rcvd") == {}
    assert before.facts["counts"] == {"sends without receive": 2}
    assert cells(after, "bytes_rcvd") == {("MPI_Recv", 1): 12, ("MPI_Wait", 1): 100}
    assert cells(after, "comms_recv") == {("MPI_Recv", 1): 2, ("MPI_Wait", 1): 1}
    assert after.facts["counts"] == {"receives without send": 2}
    # the third message is matched all the same
    assert list(zip(model.messages.send_time, model.messages.recv_time, strict=True)) == [(51, 56)]


@pytest.mark.slow
def test_piece__says_how_many_calls_it_cuts_through(archive, enhance):
    mpi = archive.mpi(2)
    for rank, (begin, end) in zip(mpi.ranks, ((10, 50), (30, 50)), strict=True):
        rank.enter(0, "main").enter(begin, "MPI_Barrier").begin_collective(begin)
        rank.record(end, "MpiCollectiveEnd", op=0, communicator=mpi.world, root=None, sent=0, received=0)
        rank.leave(end, "MPI_Barrier").leave(100, "main")
    store = enhance(archive).store
    assert CALLS not in analyze_model(enhance_store(store, 1)).facts["counts"]
    for bounds, n in (((None, 20), 1), ((20, None), 1), ((40, 45), 4), ((60, 70), 0)):
        assert analyze_piece(store, *bounds)[1].facts["counts"].get(CALLS, 0) == n


@pytest.mark.slow
def test_piece__cuts_through_a_flush(archive, enhance):
    archive.location().enter(0, "main").record(20, "BufferFlush", stop_time=60).leave(100, "main")
    store = enhance(archive).store
    for bounds, n in (((None, 30), 10), ((30, 40), 10), ((40, None), 20), ((60, None), 0)):
        _, cube = analyze_piece(store, *bounds)
        assert cube.cells["overhead"].value.sum() == n
        assert cube.cells["time"].value.sum() == (bounds[1] or 100) - (bounds[0] or 0)


@pytest.mark.slow
def test_teams__that_no_end_cuts_through_are_not_looked_at(data, tmp_path, monkeypatch):
    """At most one parallel region is open at each end of a slice: planning creates objects only for its visits, and
    keeps the others as columns."""
    store = Store(tracecols.convert(data / "hybrid_2x3", tmp_path / "h.trace"))
    first, last = (store.manifest[f"{which}_time"] for which in ("first", "last"))
    n_begins = store.manifest["events_by_kind"][str(int(EventKind.THREAD_TEAM_BEGIN))]
    met = []
    visit = plan.TeamVisit
    monkeypatch.setattr(plan, "TeamVisit", lambda *of: met.append(of) or visit(*of))
    for start in np.linspace(first, last, 20).astype(np.int64).tolist():
        met.clear()
        plan.plan_slices(store, None, start, None, 1)
        assert len(met) <= store.manifest["n_locations"] < n_begins
