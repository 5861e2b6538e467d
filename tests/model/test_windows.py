"""Windows of long processes: analysing them window by window gives the same results."""

import gc
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from conftest import slow
from support.laws import same
from support.one_region import OneRegion
from support.random_programs import RandomProgram
from support.random_threads import RandomThreads

import tracecols
from benchmarks.generate import RECORDED, make, record
from tracecols.conversion import write_store
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.scan.gaps import SAMPLES, sample_times
from tracecols.enhance.scan.instances import CallInstances
from tracecols.enhance.scan.periods import Periods
from tracecols.model.model import Model, enhance
from tracecols.search.choice import Choice
from tracecols.search.cube import analyze_model
from tracecols.store import Store


def generated(name, tmp_path, *size, **given):
    path = tmp_path / "x.trace"
    if name in RECORDED:
        record(name, tmp_path / "archive", *size, seed=1)
        return tracecols.convert(tmp_path / "archive", path, jobs=1)
    path.mkdir()
    write_store(make(name, *size, **given), path, jobs=1, salvage=False, progress=None)
    return path


def n_windows(model):
    with model.divided(in_windows=True) as run:
        return len(run.division.windows) - len(run.division)


def assert_same(path, monkeypatch, sizes, conventions=("exact",), periods=None):
    """Compare analyses in windows with one of the undivided trace; return the largest number of windows in excess of
    one per process."""
    whole = enhance(Store(path), 1, periods=periods)
    expected = {name: analyze_model(whole, name) for name in conventions}
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    most = 0
    for size in sizes:
        monkeypatch.setattr("tracecols.enhance.scan.gaps.MOST_EVENTS", size)
        model = enhance(Store(path), 2, periods=periods)
        most = max(most, n_windows(model))
        for name, wanted in expected.items():
            found = analyze_model(model, name)
            assert found.facts == wanted.facts
            same(wanted, found)
    return most


@pytest.mark.parametrize(("first", "last"), [(0, 5), (7, 10**9), (3, 192_123_895_223_403_456), (-(2**61), 2**61)])
def test_sample_times__divide_the_run_evenly_whatever_the_clock(first, last):
    store = SimpleNamespace(manifest={"first_time": first, "last_time": last})
    n = SAMPLES * 50
    assert sample_times(store, 5_000, 100).tolist() == [first + k * (last - first) // n for k in range(1, n)]


@pytest.mark.parametrize(
    ("name", "size", "given"),
    [
        ("multizone", (2, 2, 2_000), {"depth": 2}),
        *slow([("multizone", (3, 3, 12_000), {"depth": 2}), ("multizone", (1, 4, 12_000), {})]),
        *slow([("sweep", (6, 1, 8_000), {}), ("fft", (4, 2, 8_000), {})]),
        *slow([("master", (5, 3, 8_000), {}), ("halo", (4, 1, 8_000), {}), ("irregular", (3, 3, 8_000), {})]),
        *slow([("rma", (4, 1, 8_000), {}), ("offload", (2, 2, 8_000), {})]),
    ],
)
def test_windows__change_nothing(name, size, given, tmp_path, monkeypatch):
    path = generated(name, tmp_path, *size, **given)
    # windows larger than the trace divide nothing; several sizes for the program with all kinds of divisions
    sizes = [n for n in (100, 1000) if n < size[2] // 2][: None if name == "multizone" else 1]
    conventions = ("exact", "scalasca", "expert") if size[2] < 8_000 else ("exact",)
    most = assert_same(path, monkeypatch, sizes, conventions)
    assert most > 10 or name not in ("multizone", "rma", "fft", "sweep", "master")
    # not divided: launches on the host precede the operations of streams
    assert not most or name != "offload"


@pytest.mark.slow
def test_windows__of_nested_teams(converted, monkeypatch):
    """All regions of a process are read at once only if some are nested."""
    assert assert_same(converted("tealeaf_3x2"), monkeypatch, [20, 1000]) > 1000


@pytest.mark.parametrize("name", ["halo", *slow(["multizone"])])
def test_tables__of_a_window_are_freed_when_it_is_done(name, tmp_path, monkeypatch):
    """A table with a column that refers to the table would stay in memory until Python collects garbage."""
    path = generated(name, tmp_path, 2, 2, 2_000)
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    monkeypatch.setattr("tracecols.enhance.scan.gaps.MOST_EVENTS", 100)
    gc.collect()
    gc.disable()
    try:
        analyze_model(enhance(Store(path), 2), "exact")
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [type(o).__name__ for o in gc.garbage if issubclass(type(o), (CompoundTable, CallInstances, Model))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left


@pytest.mark.slow
@pytest.mark.parametrize("periods", [Periods(bins=7), Periods(phases="exchange_boundaries")])
def test_windows__with_periods(periods, tmp_path, monkeypatch):
    path = generated("multizone", tmp_path, 3, 3, 12_000)
    assert assert_same(path, monkeypatch, [200], periods=periods) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_windows__of_random_programs(seed, tmp_path, monkeypatch):
    path = RandomProgram(seed, tmp_path / "traces.otf2", 60).model(tmp_path).store.path
    assert_same(path, monkeypatch, [4, 20, 100], ("exact", "scalasca", "expert"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_windows__of_random_threads(seed, tmp_path, monkeypatch):
    program = RandomThreads(seed, tmp_path / "traces.otf2", creates=bool(seed % 2))
    path = tracecols.convert(program.path, tmp_path / "x.trace", jobs=1)
    assert_same(path, monkeypatch, [4, 20, 100], ("exact", "scalasca", "expert"))


@pytest.mark.parametrize("seed", slow(range(3)))
def test_windows__in_one_parallel_region(seed, tmp_path, monkeypatch):
    program = OneRegion(seed, tmp_path / "traces.otf2", 60)
    path = tracecols.convert(program.path, tmp_path / "x.trace", jobs=1)
    most = assert_same(path, monkeypatch, [20, 1000], (("exact", "scalasca", "expert")[seed],))
    assert most > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_windows__in_parallel_regions_that_may_not_be_divided(seed, tmp_path, monkeypatch):
    program = OneRegion(seed, tmp_path / "traces.otf2", 60, odd=True)
    path = tracecols.convert(program.path, tmp_path / "x.trace", jobs=1)
    assert_same(path, monkeypatch, [20, 100, 1000], ("exact", "scalasca", "expert"))


@pytest.mark.slow
@pytest.mark.parametrize("periods", [Periods(bins=7), Periods(phases="f")])
def test_windows__in_one_parallel_region_with_periods(periods, tmp_path, monkeypatch):
    program = OneRegion(3, tmp_path / "traces.otf2", 60)
    path = tracecols.convert(program.path, tmp_path / "x.trace", jobs=1)
    assert assert_same(path, monkeypatch, [100], periods=periods) > 5


# -- moments at which a process may be divided -------------------------------------------------------------------------


def exchange(a, b, world, t):
    """Let one process send to another, with no region open before and after it."""
    a.enter(t, "MPI_Send").send(t + 1, 1, world).leave(t + 2, "MPI_Send")
    b.enter(t, "MPI_Recv").receive(t + 3, 0, world).leave(t + 4, "MPI_Recv")


@pytest.fixture
def divided(enhance, monkeypatch):
    """Return a function that divides an archive into as many windows as possible and counts them by process."""
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    monkeypatch.setattr("tracecols.enhance.scan.gaps.MOST_EVENTS", 6)

    def run(archive):
        with enhance(archive).divided(in_windows=True) as run:
            return [len(run.division.windows_of(p)) for p in range(len(run.division))]

    return run


def test_gaps__are_between_messages(archive, divided):
    mpi = archive.mpi(2)
    for t in range(0, 1000, 10):
        exchange(*mpi.ranks, mpi.world, t)
    n, m = divided(archive)
    assert n > 20 and m > 20


def test_gaps__a_request_is_open_until_it_completes(archive, divided):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for rank, start in ((a, lambda: a.start_send(2, 1, mpi.world, 7)), (b, lambda: b.post_receive(2, 7))):
        rank.enter(1, "MPI_Start")
        start()
        rank.leave(3, "MPI_Start")
    for t in range(10, 1000, 10):
        exchange(a, b, mpi.world, t)
    a.enter(2000, "MPI_Wait").complete_send(2001, 7).leave(2002, "MPI_Wait")
    b.enter(2000, "MPI_Wait").complete_receive(2003, 0, mpi.world, 7).leave(2004, "MPI_Wait")
    assert divided(archive) == [1, 1]


def test_gaps__calls_that_ask_for_the_same_message_belong_together(archive, divided):
    """No region is open between the calls."""
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    for t in range(10, 1000, 10):
        b.enter(t, "MPI_Iprobe").leave(t + 1, "MPI_Iprobe")
    exchange(a, b, mpi.world, 2000)
    assert divided(archive) == [1, 1]


def test_gaps__a_call_is_open_until_it_is_left(archive, divided):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "MPI_Waitall").send(1, 1, mpi.world)
    for t in range(10, 1000, 10):
        exchange(a, b, mpi.world, t)
    a.leave(2000, "MPI_Waitall")
    n, m = divided(archive)
    assert n == 1 < m


def test_gaps__a_lock_is_held_until_it_is_released(archive, divided):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "lock").acquire(1, 5, 1).leave(2, "lock")
    for t in range(10, 1000, 10):
        exchange(a, b, mpi.world, t)
    a.enter(2000, "unlock").release(2001, 5, 1).leave(2002, "unlock")
    n, m = divided(archive)
    assert n == 1 < m


@contextmanager
def one_region(archive, end=2000):
    """Fork one team, which ends at `end`."""
    threads, team = archive.openmp(2)
    a = threads[0]
    a.enter(0, "main").fork(1, 2)
    for thread in threads:
        thread.begin_team(2, team).enter(3, "!$omp parallel @a.c:1")
    yield threads, team
    for thread in threads:
        thread.leave(end - 1, "!$omp parallel @a.c:1").end_team(end, team)
    a.join(end + 1).leave(end + 2, "main")


def meet(threads, times=range(10, 1000, 10)):
    for t in times:
        for thread in threads:
            thread.call(t, t + 4, "!$omp barrier @a.c:3")


def test_gaps__are_between_barriers_of_a_team(archive, divided):
    with one_region(archive) as (threads, _):
        meet(threads)
    (n,) = divided(archive)
    assert n > 20


def test_gaps__of_a_team_that_ends_after_the_last_moment_that_is_tried(archive, divided):
    with one_region(archive, 1_000_000) as (threads, _):
        meet(threads, range(10_000, 1_000_000, 10_000))
    (n,) = divided(archive)
    assert n > 20


def test_gaps__are_in_barriers_that_threads_leave_one_after_the_other(archive, divided):
    with one_region(archive) as (threads, _):
        for t in range(10, 1970, 20):
            # the second thread is in the next loop before the first one has left the barrier
            for thread, enters, leaves in zip(threads, (t - 1, t - 6), (t + 15, t + 12), strict=True):
                thread.enter(enters, "!$omp for @a.c:5")
                thread.call(t + 10, leaves, "!$omp implicit barrier @a.c:6").leave(leaves, "!$omp for @a.c:5")
    (n,) = divided(archive)
    assert n > 20


def test_gaps__a_team_in_a_team_stays_in_one_window(archive, divided):
    with one_region(archive) as (threads, team):
        meet(threads, range(10, 500, 10))
        threads[0].fork(500, 2)
        for thread in threads:
            thread.begin_team(501, team).end_team(505, team)
        threads[0].join(506)
        meet(threads, range(510, 1000, 10))
    assert divided(archive) == [1]


def test_gaps__threads_have_entered_as_many_constructs(archive, divided):
    with one_region(archive) as (threads, _):
        threads[0].call(5, 6, "!$omp barrier @a.c:3")
        meet(threads)
        threads[1].call(1500, 1501, "!$omp barrier @a.c:3")
    (n,) = divided(archive)
    # only before the first common barrier and after the last one
    assert n <= 3


def test_gaps__events_in_a_parallel_region_itself_are_with_it(archive, divided):
    with one_region(archive) as (threads, _):
        meet(threads, range(10, 500, 10))
        threads[0].acquire(500, 5, 1).release(501, 5, 1)
        meet(threads, range(510, 1000, 10))
    (n,) = divided(archive)
    # only the barriers after the last lock event may be divided
    assert 10 < n < 60


def test_gaps__a_team_that_never_ends_stays_in_one_window(archive, divided):
    threads, team = archive.openmp(2)
    threads[0].enter(0, "main").fork(1, 2)
    for thread in threads:
        thread.begin_team(2, team)
    meet(threads)
    assert divided(archive) == [1]


def test_gaps__numbers_of_locks_that_repeat_are_not_separated(archive, divided):
    """A mutex of a new object at the same address has the same number as the old one."""
    (a,) = archive.mpi(1).ranks
    for t in range(0, 1000, 10):
        turn = t // 10 % 50 + 1
        a.enter(t, "lock").acquire(t + 1, 5, turn).release(t + 3, 5, turn).leave(t + 4, "lock")
    assert divided(archive) == [1]


@pytest.mark.slow
def test_windows__on_a_cluster(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    path = generated("multizone", tmp_path, 3, 3, 12_000)
    wanted = tracecols.open(path).analyze()
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    monkeypatch.setattr("tracecols.enhance.scan.gaps.MOST_EVENTS", 200)
    # workers in this process see the patched values
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        found = tracecols.open(path).analyze(cluster=client)
    assert found.facts == wanted.facts
    same(wanted, found)


def test_gaps__a_message_that_a_probe_found_is_open_until_it_is_received(archive, divided):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "MPI_Send").send(1, 1, mpi.world).leave(2, "MPI_Send")
    b.enter(0, "MPI_Mprobe").record(3, "MpiProbe", peer=0, communicator=mpi.world, tag=0, message=5)
    b.leave(4, "MPI_Mprobe")
    for t in range(10, 1000, 10):
        exchange(a, b, mpi.world, t)
    b.enter(2000, "MPI_Mrecv").leave(2002, "MPI_Mrecv")
    n, m = divided(archive)
    assert n > 20 and m == 1


@pytest.mark.slow
def test_windows__of_tables_that_are_made_location_by_location(tmp_path, monkeypatch):
    """A pattern on all region instances used to find those of each window once for every window."""
    path = generated("multizone", tmp_path, 1, 2, 6_000)

    @tracecols.pattern("calls", "", "Calls", table="region_instances", unit="sec", summary="All region instances.")
    def calls(model, m, parent):
        return parent.where((m.exit >= 0)[parent.row], severity=(m.exit_time - m.enter_time)[parent.row])

    wanted = analyze_model(enhance(Store(path), 1), patterns=[calls], choice=Choice(("calls",))).total("calls")
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    monkeypatch.setattr("tracecols.enhance.scan.gaps.MOST_EVENTS", 200)
    model = enhance(Store(path), 1)
    assert n_windows(model) > 5
    assert analyze_model(model, patterns=[calls], choice=Choice(("calls",))).total("calls") == wanted > 0
