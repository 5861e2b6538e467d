"""Teams, inherited call paths, constructs and locks."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import LONG
from support.otf2_workload import everything

import tracecols
from tracecols.enhance.dataflow import spill
from tracecols.enhance.dataflow.columns import Columns
from tracecols.enhance.scan import batches, scan
from tracecols.enhance.scan.periods import ask
from tracecols.errors import AnalysisError
from tracecols.model import model as models
from tracecols.model.model import enhance
from tracecols.schema import EventKind
from tracecols.store import Store
from tracecols.work import heap

PARALLEL, IMPLICIT = "!$omp parallel @a.c:1", "!$omp implicit barrier @a.c:2"


def paths(model):
    return model.call_paths.paths_of(model.regions.name)


def profile(model):
    """Return exclusive ticks and visits by path and location."""
    p, names = model.profile, paths(model)
    return {
        (names[c], x): (e, v)
        for c, x, e, v in zip(
            p.call_path.tolist(), p.location.tolist(), p.exclusive.tolist(), p.visits.tolist(), strict=True
        )
    }


def worker(thread, team, begin, end, region=PARALLEL):
    thread.begin_team(begin, team).call(begin + 1, end - 1, region).end_team(end, team)


def test_inheritance__a_worker_continues_the_stack_its_master_had_at_the_fork(archive, enhance):
    threads, team = archive.openmp(2)
    master, other = threads
    master.enter(0, "main").enter(10, "f").fork(11, 2).begin_team(12, team).enter(13, PARALLEL).leave(20, PARALLEL)
    master.end_team(20, team).join(21).leave(22, "f")
    # the second fork is in another region
    master.enter(30, "g").fork(31, 2)
    master.begin_team(32, team).enter(33, PARALLEL).leave(40, PARALLEL).end_team(40, team).join(41).leave(
        42, "g"
    ).leave(50, "main")
    worker(other, team, 14, 19)
    worker(other, team, 34, 37)
    model = enhance(archive)
    assert profile(model) == {
        ("main", 0): (10 + 8 + 8, 1),
        ("main/f", 0): (3 + 2, 1),
        (f"main/f/{PARALLEL}", 0): (7, 1),
        ("main/g", 0): (3 + 2, 1),
        (f"main/g/{PARALLEL}", 0): (7, 1),
        (f"main/f/{PARALLEL}", 1): (3, 1),
        (f"main/g/{PARALLEL}", 1): (1, 1),
    }
    t = model.teams
    assert (t.fork_time.tolist(), t.join_time.tolist(), t.n_threads.tolist()) == ([11, 31], [21, 41], [2, 2])
    assert [paths(model)[c] for c in t.call_path] == ["main/f", "main/g"]


def test_inheritance__a_nested_team_hangs_below_the_thread_that_forked_it(archive, enhance):
    threads, outer = archive.openmp(3)
    inner = archive.comm("", [1, 2], paradigm="openmp")
    a, b, c = threads
    region = "!$omp parallel @b.c:1"
    a.enter(0, "main").fork(1, 2).begin_team(2, outer).enter(3, PARALLEL).leave(50, PARALLEL).end_team(50, outer).join(
        51
    ).leave(52, "main")
    b.begin_team(2, outer).enter(3, PARALLEL).enter(4, "f").fork(5, 2).begin_team(6, inner).enter(7, region).leave(20)
    b.end_team(20, inner).join(21).leave(22, "f").leave(49, PARALLEL).end_team(50, outer)
    worker(c, inner, 8, 19, region)
    model = enhance(archive)
    below = f"main/{PARALLEL}/f/{region}"
    got = profile(model)
    assert got[below, 1] == (13, 1)
    assert got[below, 2] == (9, 1)
    assert [k for k in got if k[1] == 2] == [(below, 2)]
    assert sorted(zip(model.teams.communicator.tolist(), model.teams.master.tolist(), strict=True)) == sorted(
        zip(np.unique(model.teams.communicator).tolist(), [0, 1], strict=True)
    )


def test_inheritance__a_master_is_not_needed_to_begin_with(archive, enhance):
    # the worker's location precedes its master's
    threads, _ = archive.openmp(3)
    team = archive.comm("", [2, 0], paradigm="openmp")
    threads[2].enter(0, "main").fork(1, 2).begin_team(2, team).call(3, 9, PARALLEL).end_team(9, team).join(10).leave(11)
    worker(threads[0], team, 4, 8)
    assert profile(enhance(archive))[f"main/{PARALLEL}", 0] == (2, 1)


def test_inheritance__a_team_nobody_forked_begins_at_top_level(archive, enhance):
    threads, team = archive.openmp(2)
    threads[0].enter(0, "main").leave(30, "main")
    worker(threads[1], team, 4, 8)
    model = enhance(archive)
    assert profile(model) == {("main", 0): (30, 1), (PARALLEL, 1): (2, 1)}
    assert model.teams.counts["teams without a recorded FORK"] == 1
    assert model.teams.master.tolist() == [-1]
    assert model.teams.fork.tolist() == [-1]


def test_inheritance__ends_with_the_team(archive, enhance):
    # after JOIN a worker's inherited stack is empty (3.20)
    threads, team = archive.openmp(2)
    master, other = threads
    master.enter(0, "main").fork(1, 2).begin_team(2, team).call(3, 9, PARALLEL).end_team(9, team).join(10).leave(30)
    worker(other, team, 4, 8)
    other.call(20, 25, "f")
    assert profile(enhance(archive))["f", 1] == (5, 1)


def test_inheritance__a_fork_outside_any_region_leaves_workers_at_top_level(archive, enhance):
    threads, team = archive.openmp(2)
    threads[0].fork(1, 2).begin_team(2, team).call(3, 9, PARALLEL).end_team(9, team).join(10)
    worker(threads[1], team, 4, 8)
    assert profile(enhance(archive)) == {(PARALLEL, 0): (6, 1), (PARALLEL, 1): (2, 1)}


def test_inheritance__threads_that_wait_for_each_other_end(archive, enhance):
    # each claims to be forked by the other: impossible, but the scan must end
    threads, team = archive.openmp(2)
    second = archive.comm("", [0, 1], paradigm="openmp")
    a, b = threads
    a.begin_team(1, second).call(2, 3, "f").end_team(4, second)
    a.fork(5, 2).begin_team(6, team).call(7, 8, "f").end_team(9, team).join(10)
    b.begin_team(1, team).call(2, 3, "g").end_team(4, team)
    b.fork(5, 2).begin_team(6, second).call(7, 8, "g").end_team(9, second).join(10)
    model = enhance(archive)
    assert sum(s.paths.column("visits").sum() for s in model.scans) == 4


def test_inheritance__in_older_recordings_lies_between_fork_and_join(archive, enhance):
    # OmpFork and OmpJoin of the first thread; no thread says when it begins in the team
    threads, _ = archive.openmp(3)
    master, a, b = threads
    master.enter(0, "main").record(10, "OmpFork", requested=3).enter(11, PARALLEL).leave(20, PARALLEL).record(
        21, "OmpJoin"
    )
    master.enter(30, "g").record(31, "OmpFork", requested=3).enter(33, PARALLEL).enter(34, IMPLICIT).leave(39, IMPLICIT)
    master.leave(40, PARALLEL).record(41, "OmpJoin").leave(50, "g").leave(60, "main")
    a.call(2, 3, "alone").enter(12, PARALLEL).leave(19, PARALLEL).enter(31, PARALLEL)
    a.enter(35, IMPLICIT).leave(39, IMPLICIT).leave(41, PARALLEL).call(41, 45, "alone")
    b.enter(32, PARALLEL).enter(38, IMPLICIT).leave(39, IMPLICIT).leave(40, PARALLEL)
    model = enhance(archive)
    found = {k: v for k, v in profile(model).items() if k[1]}
    assert found == {
        ("alone", 1): (1 + 4, 2),
        (f"main/{PARALLEL}", 1): (7, 1),
        (f"main/g/{PARALLEL}", 1): (6, 1),
        (f"main/g/{PARALLEL}/{IMPLICIT}", 1): (4, 1),
        (f"main/g/{PARALLEL}", 2): (7, 1),
        (f"main/g/{PARALLEL}/{IMPLICIT}", 2): (1, 1),
    }
    t, c = model.teams, model.constructs
    assert (t.fork_time.tolist(), t.join_time.tolist(), t.communicator.tolist()) == ([10, 31], [21, 41], [-1, -1])
    assert [paths(model)[p] for p in t.call_path] == ["main", "main/g"]
    # the third thread does nothing in the first region
    assert sorted(zip(c.role.tolist(), c.team.tolist(), c.n_members.tolist(), strict=True)) == [
        ("implicit_barrier", 1, 3),
        ("parallel", 0, 2),
        ("parallel", 1, 3),
    ]
    p = model.profile
    serial = [n for n, i in zip((paths(model)[c] for c in p.call_path), p.inherited, strict=True) if not i]
    assert sorted({n for n in serial if "main" not in n}) == ["alone"]


def test_join__of_nested_forks_is_paired_like_brackets(archive, enhance):
    threads, team = archive.openmp(1)
    inner = archive.comm("", [0], paradigm="openmp")
    (a,) = threads
    a.enter(0, "main").fork(1, 1).begin_team(2, team).enter(3, PARALLEL)
    a.fork(4, 1).begin_team(5, inner).call(6, 7, PARALLEL).end_team(8, inner).join(9)
    a.leave(10, PARALLEL).end_team(11, team).join(12).leave(13, "main")
    t = enhance(archive).teams
    assert sorted(zip(t.fork_time.tolist(), t.join_time.tolist(), strict=True)) == [(1, 12), (4, 9)]


def test_join__that_is_missing_is_the_end_of_the_trace(archive, enhance):
    threads, team = archive.openmp(1)
    threads[0].enter(0, "main").fork(1, 1).begin_team(2, team).enter(3, PARALLEL).enter(20, "f")
    t = enhance(archive).teams
    assert (t.join.tolist(), t.join_time.tolist()) == ([-1], [20])


def test_constructs__are_counted_by_role_within_a_team_instance(archive, enhance):
    threads, team = archive.openmp(2)
    loop, barrier = "!$omp for @a.c:3", "!$omp barrier @a.c:4"
    master, other = threads
    master.enter(0, "main")
    for t in (10, 50):
        master.fork(t, 2).begin_team(t + 1, team).enter(t + 2, PARALLEL).call(t + 3, t + 5, loop).call(
            t + 6, t + 9, barrier
        )
        master.call(t + 10, t + 12, barrier).leave(t + 13, PARALLEL).end_team(t + 13, team).join(t + 14)
        other.begin_team(t + 2, team).enter(t + 3, PARALLEL).call(t + 4, t + 5, loop).call(t + 8, t + 9, barrier)
        other.call(t + 11, t + 12, barrier).leave(t + 13, PARALLEL).end_team(t + 13, team)
    master.leave(90, "main")
    c = enhance(archive).constructs
    assert c.role.tolist() == 2 * ["parallel", "loop", "barrier", "barrier"]
    assert c.latest_enter_time.tolist() == [13, 14, 18, 21, 53, 54, 58, 61]
    assert c.n_members.tolist() == [2] * 8
    assert c.counts["constructs that lack threads"] == 0


def test_constructs__that_lack_a_thread_are_counted(archive, enhance):
    threads, team = archive.openmp(2)
    master, other = threads
    master.enter(0, "main").fork(1, 2).begin_team(2, team).enter(3, PARALLEL).call(5, 9, IMPLICIT).leave(10, PARALLEL)
    master.end_team(11, team).join(12).leave(13, "main")
    other.begin_team(2, team).enter(4, PARALLEL).leave(9, PARALLEL).end_team(10, team)
    model = enhance(archive)
    assert model.constructs.counts["constructs that lack threads"] == 1
    assert model.constructs.latest_enter_time.tolist() == [4, 5]


def test_constructs__of_one_role_match_whatever_others_lack(archive, enhance):
    # the second thread's loop was not recorded: its barrier is still the first barrier of the team
    threads, team = archive.openmp(2)
    master, other = threads
    barrier = "!$omp barrier @a.c:4"
    master.enter(0, "main").fork(1, 2).begin_team(2, team).enter(3, PARALLEL).call(5, 9, "!$omp for @a.c:3").call(
        10, 20, barrier
    )
    master.leave(22, PARALLEL).end_team(23, team).join(24).leave(25, "main")
    other.begin_team(2, team).enter(4, PARALLEL).call(15, 20, barrier).leave(21, PARALLEL).end_team(22, team)
    c = enhance(archive).constructs
    assert dict(zip(c.role.tolist(), c.n_members.tolist(), strict=True)) == {"parallel": 2, "loop": 1, "barrier": 2}
    assert c.latest_enter_time[c.role == "barrier"].tolist() == [15]


def test_constructs__outside_a_team_are_none(archive, enhance):
    # an orphaned worksharing construct in the serial part: a team of one that nobody recorded
    threads, _ = archive.openmp(2)
    threads[0].enter(0, "main").call(1, 5, "!$omp for @a.c:3").leave(9, "main")
    assert len(enhance(archive).constructs) == 0


def test_spill__says_where_there_is_no_room(monkeypatch):
    monkeypatch.setattr(spill, "BUDGET", 0)
    keeper = spill.Spill()
    kept = keeper.keep(Columns(3, {"a": np.arange(3), "b": np.zeros(0, np.int32)}))
    assert (kept.a.tolist(), kept.b.dtype) == ([0, 1, 2], np.int32)
    assert not hasattr(kept, "c")
    keeper._scratch.remove()
    with pytest.raises(
        AnalysisError, match=r"cannot write the temporary file .*\n  make room there, or name a folder with more"
    ):
        keeper.keep(Columns(3, {"a": np.arange(3)}))


def is_emptied(folder):
    """Return whether all files of a folder are removed in time, by another thread."""
    until = time.monotonic() + LONG
    while list(folder.iterdir()) and time.monotonic() < until:
        time.sleep(0.01)
    return not list(folder.iterdir())


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_spill__columns_in_files_are_the_same(dtype, tmp_path):
    values = {
        "base": np.arange(5, 1005),
        "near": np.arange(1000) % 3 + np.arange(5, 1005),
        "wide": np.arange(1000) << 50,
    }
    columns = Columns(1000, {name: of.astype(dtype) for name, of in values.items()} | {"no": np.zeros(1000, bool)})
    relative = {} if dtype == np.float64 else {"near": "base"}
    written = spill.SpilledColumns(columns, relative, tmp_path / "x")
    for name in columns.names:
        found = written.rows(name, 3, 999)
        assert found.dtype == columns[name].dtype and np.array_equal(found, columns[name][3:999])
    if dtype != np.float64:
        assert written.search("base", [5, 7, 10**9]).tolist() == [0, 2, 1000]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_save_array__reports_a_full_disk_for_few_data(tmp_path):
    """`numpy.save` wrote what fitted, without an error."""
    for values in (np.arange(10), np.zeros((2, 0, 3), np.int8), np.arange(6).reshape(2, 3)):
        spill.save_array(tmp_path / "x.npy", values)
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), values)
        with pytest.raises(OSError, match="No space left on device"):
            spill.save_array(Path("/dev/full"), values)


def test_spill__columns_that_nobody_refers_to_make_room(monkeypatch):
    monkeypatch.setattr(spill, "BUDGET", 100)
    first, second = spill.Spill(), spill.Spill()
    beside = spill.Spill(beside=first)
    rows = Columns(10, {"a": np.arange(10)})
    held, written = first.keep(rows), beside.keep(rows)
    assert not isinstance(held, spill.SpilledColumns) and isinstance(written, spill.SpilledColumns)
    assert not isinstance(second.keep(rows), spill.SpilledColumns)
    folder = beside._scratch.path
    assert len(list(folder.iterdir())) == 1
    del held, written
    assert is_emptied(folder)
    held = beside.keep(rows)
    assert not isinstance(held, spill.SpilledColumns)
    assert not list(folder.iterdir())
    assert isinstance(first.keep(rows), spill.SpilledColumns)
    # columns released by their keeper are not released again when they are deleted
    beside.__exit__()
    again = first.keep(rows)
    del held
    assert isinstance(first.keep(rows), spill.SpilledColumns) and not isinstance(again, spill.SpilledColumns)


@pytest.mark.skipif(not heap.has_trim(), reason="this C library gives memory back by itself, or never")
def test_memory__of_the_heap_goes_back_to_the_system():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    heap.give_back()
    before = resident()
    # smaller than arrays that malloc maps one by one; the last one keeps the heap from shrinking
    arrays = [np.ones(6000) for _ in range(2000)]
    assert resident() > before + (64 << 20)
    last = arrays.pop()
    del arrays
    heap.give_back()
    assert resident() < before + (32 << 20)
    assert last.sum() == 6000


def test_locks__are_those_of_the_process(archive, enhance):
    mpi = archive.mpi(2)
    for i, rank in enumerate(mpi.ranks):
        rank.enter(10 + i, "omp_set_lock").acquire(12 + i, 1, 1).leave(14, "omp_set_lock")
        rank.enter(20, "omp_unset_lock").release(21, 1, 1).leave(22, "omp_unset_lock")
    a = enhance(archive).lock_acquisitions
    assert a.lockptr.tolist() == [-1, -1]
    assert a.release_time.tolist() == [21, 21]
    assert a.previous_release_time.tolist() == [-1, -1]


def test_locks__the_previous_owner_is_found_by_the_order_of_acquisition(archive, enhance):
    threads, _ = archive.openmp(3)
    for i, t in enumerate((10, 20, 30)):
        threads[i].enter(5, "omp_set_lock").acquire(t, 1, i + 1).leave(t + 1, "omp_set_lock")
        threads[i].enter(t + 5, "omp_unset_lock").release(t + 6, 1, i + 1).leave(t + 7, "omp_unset_lock")
    model = enhance(archive)
    assert model.lock_acquisitions.previous_release_time.tolist() == [-1, 16, 26]
    # rows: 6 events per thread; every acquisition points to the release before it, every release to its acquisition
    rows, pointers = model.lockptr
    assert dict(zip(rows.tolist(), pointers.tolist(), strict=True)) == {1: -1, 4: 1, 7: 4, 10: 7, 13: 10, 16: 13}
    assert model.lock_acquisitions.counts["locks that were never released"] == 0


def test_locks__that_are_never_released_are_counted(archive, enhance):
    threads, _ = archive.openmp(2)
    threads[0].enter(5, "omp_set_lock").acquire(6, 1, 1).leave(7, "omp_set_lock")
    threads[1].enter(5, "omp_set_lock").acquire(9, 1, 2).leave(10, "omp_set_lock")
    a = enhance(archive).lock_acquisitions
    assert a.counts["locks that were never released"] == 2
    assert a.release.tolist() == [-1, -1]
    assert a.previous_release_time.tolist() == [-1, -1]
    assert a.lockptr.tolist() == [-1, 1]


def test_locks__whose_release_is_recorded_late_are_released(archive, enhance):
    # as some recordings have it: the release follows the next acquisition
    threads, _ = archive.openmp(2)
    threads[0].enter(5, "omp_set_lock").acquire(6, 1, -1).leave(7, "omp_set_lock")
    threads[1].enter(5, "omp_set_lock").acquire(9, 1, -1).leave(10, "omp_set_lock")
    threads[0].enter(8, "omp_unset_lock").release(12, 1, -1).leave(13, "omp_unset_lock")
    threads[1].enter(14, "omp_unset_lock").release(15, 1, -1).leave(16, "omp_unset_lock")
    # released before it was acquired: recorded from later on
    threads[0].enter(20, "omp_unset_lock").release(21, 2, -1).leave(22, "omp_unset_lock")
    threads[0].enter(25, "omp_set_lock").acquire(26, 2, -1).leave(27, "omp_set_lock")
    assert enhance(archive).lock_acquisitions.counts["locks that were never released"] == 1


def nested(thread, number, times, lock=1, released=2):
    """Acquire a lock twice and release it `released` times, at the given four times."""
    for t in times[:2]:
        thread.acquire(t, lock, number)
    for t in times[2 : 2 + released]:
        thread.release(t, lock, number)


def test_locks__nested_ones_are_released_by_the_outermost_release(archive, enhance):
    threads, _ = archive.openmp(2)
    nested(threads[0], 1, (10, 12, 14, 16))
    nested(threads[1], 2, (20, 22, 24, 26))
    a = enhance(archive).lock_acquisitions
    assert a.release_time.tolist() == [16, 16, 26, 26]
    # an owner that acquires its lock again waits for nobody
    assert a.previous_release_time.tolist() == [-1, -1, 16, -1]
    # lockptr is the previous event of the lock, whatever its kind (thesis 3.16)
    assert a.lockptr_time.tolist() == [-1, 10, 16, 20]
    assert a.counts["locks that were never released"] == 0


@pytest.mark.parametrize(("released", "held"), [(2, 0), (1, 1), (0, 1)])
def test_locks__nested_ones_that_are_never_released_count_once(archive, enhance, released, held):
    """However often its owner has acquired it, it counts as one held lock."""
    threads, _ = archive.openmp(2)
    nested(threads[0], 1, (10, 12, 14, 16), released=released)
    nested(threads[1], 1, (10, 12, 14, 16), lock=2)
    a = enhance(archive).lock_acquisitions
    assert a.counts["locks that were never released"] == held
    assert a.release_time.tolist() == [{2: 16, 1: 14, 0: -1}[released]] * 2 + [16, 16]


def test_locks__of_one_number_at_two_threads_keep_the_owner_before(archive, enhance):
    # a recorder that restarts its numbers: not nested, since no lock is held by two threads
    threads, _ = archive.openmp(3)
    for thread, number, t in zip(threads, (1, 2, 2), (10, 20, 30), strict=True):
        thread.acquire(t, 1, number).release(t + 5, 1, number)
    assert enhance(archive).lock_acquisitions.previous_release_time.tolist() == [-1, 15, 15]


@pytest.mark.slow
def test_programs__are_inherited_as_of_the_fork(tmp_path):
    # the result must not depend on how far the forking thread is scanned when its workers look up their program
    store = Store(
        tracecols.convert(everything(tmp_path / "source" / "traces.otf2", rounds=30).write(), tmp_path / "x.trace")
    )
    found = [enhance(store, jobs) for jobs in (1, 4, 4, 4)]
    paths = [m.call_paths.paths_of(m.regions.name) for m in found]
    assert all(p == paths[0] for p in paths)
    for m in found:
        assert (m.profile.exclusive == found[0].profile.exclusive).all()


def test_scan__finds_the_same_whether_locations_are_scanned_together_or_alone(tmp_path, monkeypatch):
    store = Store(
        tracecols.convert(everything(tmp_path / "source" / "traces.otf2", rounds=3).write(), tmp_path / "x.trace")
    )
    assert len(scan.group_scans(enhance(store, 1).scans)) < len(store.n_events)
    for periods in (None, ask(bins=4)):
        together = enhance(store, 1, periods=periods)
        with monkeypatch.context() as patch:
            patch.setattr(scan, "GROUP", 0)
            # every location is scanned in pieces, in buffers that grow
            patch.setattr(batches, "BATCH", 7)
            alone = enhance(store, 1, periods=periods)
        for one, other in zip(together.scans, alone.scans, strict=True):
            for name in ("first_time", "last_time", "program", "bad_exits", "open", "disordered", "nested", "n_calls"):
                assert getattr(one, name) == getattr(other, name)
            for name in ("phase_begin", "phase_end", "global_numbers"):
                assert (getattr(one, name) == getattr(other, name)).all()
            for kept in ("calls", "events"):
                columns, others = getattr(one, kept), getattr(other, kept)
                for column in set(columns.names) & set(others.names):
                    assert (columns.column(column) == others.column(column)).all()
            for column in ("parent", "entry", "time", "exclusive", "visits", "period"):
                assert (one.paths.column(column) == other.paths.column(column)).all()


def created(archive, program=True):
    """Make a process whose main thread creates two threads from different functions; the second creates a third.
    Return the three."""
    threads, _ = archive.openmp(4)
    archive.group("comm_locations", threads, "pthread")
    pool = archive.comm("", range(4), paradigm="pthread")
    main = threads[0]
    if program:
        main.record(0, "ProgramBegin", program="a.out", arguments=[])
    main.enter(1, "main").enter(2, "f").create_thread(3, 1, pool).leave(4, "f")
    main.create_thread(5, 2, pool)
    for i, thread in enumerate(threads[1:]):
        thread.begin_thread(10 + i, i + 1, pool).enter(20, "work").call(30, 40, "g")
        if i == 1:
            thread.create_thread(45, 3, pool)
        thread.leave(50, "work").end_thread(60, i + 1, pool)
    main.leave(70, "main")
    if program:
        main.record(80, "ProgramEnd", exit_status=0)
    return threads[1:]


def test_created_threads__stand_below_threads_in_the_program(archive, enhance):
    created(archive)
    model = enhance(archive)
    program = paths(model)[0]
    assert paths(model) == [
        program,
        f"{program}/main",
        f"{program}/main/f",
        f"{program}/THREADS",
        f"{program}/THREADS/work",
        f"{program}/THREADS/work/g",
    ]
    profile = model.profile.frame()
    # THREADS is not a region instance: neither visits nor time
    assert profile[profile.call_path == 3].visits.tolist() == [0, 0, 0]
    assert profile[profile.call_path == 3].exclusive.tolist() == [0, 0, 0]
    assert profile[profile.call_path == 4].exclusive.tolist() == [20, 20, 20]
    # they are in no team of their creators
    assert not profile.inherited.any()


def test_created_threads__have_pointers_to_call_paths_below_threads(archive, opened):
    created(archive)
    trace = opened(archive)
    events = trace.read_events([1, 2, 3], columns=["kind", "call_path", "cnodeptr", "cedgeptr"])
    names = trace.call_paths["path"]
    enters = events[events.kind == EventKind.ENTER]
    program = names[0]
    assert names[enters.call_path].tolist() == [f"{program}/THREADS/work", f"{program}/THREADS/work/g"] * 3
    # the least recent ENTERs are on the first of the three
    assert enters.cnodeptr.tolist() == enters.index[:2].tolist() * 3


def test_created_threads__stay_at_the_top_without_a_program(archive, enhance):
    created(archive, program=False)
    assert paths(enhance(archive)) == ["main", "main/f", "work", "work/g"]


def test_created_threads__keep_their_place_after_teams_of_their_own(archive, enhance):
    thread = created(archive)[0]
    team = archive.comm("", [1], paradigm="openmp")
    # outside of all regions; recorded after the end of the thread
    thread.fork(61, 1).begin_team(62, team).call(63, 64, "in the team").end_team(65, team).join(66).call(
        67, 68, "after"
    )
    found = paths(enhance(archive))
    assert f"{found[0]}/THREADS/in the team" in found
    assert f"{found[0]}/THREADS/after" in found
    assert sum("/" not in p for p in found) == 1


def test_created_threads__of_a_piece_stand_where_they_stood(archive, opened):
    created(archive)
    trace = opened(archive)
    whole = paths(trace.model)
    clock = trace.manifest["clock"]
    with trace.piece(
        (25 - clock["origin"]) / clock["resolution"], (35 - clock["origin"]) / clock["resolution"]
    ) as piece:
        assert set(paths(piece.model)) <= set(whole)
        assert f"{whole[0]}/THREADS/work/g" in paths(piece.model)
        assert all(s.bad_exits == 0 and s.open == 0 for s in piece.model.scans)


def test_share_out__leaves_groups_of_small_locations_to_one_thread():
    small, large = SimpleNamespace(n=scan.SMALL - 1), SimpleNamespace(n=scan.SMALL)
    groups = [[large, large], [small, small], [large], [small]]
    assert scan.share_out(groups) == [[[small, small], [small]], [[large, large]], [[large]]]
    assert scan.share_out([[large]]) == [[[large]]]


def found(model):
    """Return the results of the scans and joins of a model, as lists."""
    scans = [
        [s.paths.column("parent").tolist(), s.paths.column("exclusive").tolist(), s.n_calls, s.n_attributed]
        + [
            getattr(s, of).column(name).tolist()
            for of in ("calls", "events")
            for name in ("enter_time", "time")
            if name in getattr(s, of).names
        ]
        for s in model.scans
    ]
    tables = [model.get(name) for name in ("teams", "constructs", "construct_members", "profile")]
    return scans, [[table[c.name].tolist() for c in table.table.columns] for table in tables]


def test_scan__that_waits_in_buffers_of_others_finds_the_same_as_alone(archive, enhance, monkeypatch):
    # thread 2 begins in a team that thread 3 forks, which is scanned later: it waits in buffers in which thread 1 has
    # ended
    threads, outer = archive.openmp(4)
    inner = archive.comm("", [3, 2], paradigm="openmp")
    a, b, c, d = threads
    a.enter(0, "main").fork(1, 4).begin_team(2, outer).call(3, 20, PARALLEL).end_team(20, outer).join(21).leave(90)
    worker(b, outer, 3, 19)
    worker(c, outer, 4, 18)
    worker(c, inner, 33, 44)
    worker(d, outer, 5, 17)
    d.enter(30, "f").fork(31, 2).begin_team(32, inner).call(33, 43, PARALLEL).end_team(44, inner).join(45).leave(46)
    model = enhance(archive)
    together = found(model)
    assert profile(model)[f"f/{PARALLEL}", 2] == (9, 1)
    monkeypatch.setattr(scan, "GROUP", 0)
    for jobs in (1, 2):
        assert found(models.enhance(model.store, jobs)) == together
    monkeypatch.setattr(scan, "SMALL", 0)
    assert found(models.enhance(model.store, 2)) == together
