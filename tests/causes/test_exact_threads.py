"""Root causes with threads created by the program, and with tasks in barriers: exactly the code that is executed is
charged."""

from itertools import permutations

import numpy as np
import pytest
from conftest import slow
from support.laws import check_path, divide, lawful, same
from support.otf2_writer import Archive
from support.periods import analyze, assert_same
from support.random_queue import LOCK, PTHREAD, SIGNAL, UNLOCK, WAIT, RandomQueue
from support.random_threads import BARRIER, CREATE, JOIN, PARALLEL, TASK, RandomThreads

import tracecols
from tracecols.kernels import edges
from tracecols.model.model import enhance
from tracecols.search.cube import analyze_model
from tracecols.testing import Program, severities


def ticks(cube, name):
    """Return the cells of a property, in ticks by call path and location."""
    if name not in cube.cells:
        return {}
    of, paths = cube.cells[name], cube.call_paths.path
    rows = zip(of.call_path.tolist(), of.location.tolist(), of.value.tolist(), strict=True)
    return {(paths[path], location): value for path, location, value in rows}


def test_conditions__the_time_before_the_signal_is_waiting_for_work_and_costs_who_signals():
    """The consumer waits from 10 on: until 40 for the signal, and then until 50 for the mutex of the producer."""
    program = Program(processes=1, threads=2)
    for name in (WAIT, SIGNAL, LOCK, UNLOCK):
        program.region(name, "pthread", "wrapper")
    consumer, producer = program.locations
    consumer.enter(0, "main").enter(1, LOCK).acquire(1, 7, 1, PTHREAD).leave(2).enter(10, WAIT)
    consumer.release(10, 7, 1, PTHREAD).acquire(51, 7, 3, PTHREAD).leave(52).enter(60, UNLOCK)
    consumer.release(60, 7, 3, PTHREAD).leave(60).leave(60)
    producer.enter(0, "main").enter(2, "make").leave(32).enter(33, LOCK).acquire(34, 7, 2, PTHREAD).leave(34)
    producer.enter(40, SIGNAL).leave(42).enter(42, "tidy").leave(49).enter(49, UNLOCK).release(50, 7, 2, PTHREAD)
    producer.leave(50).leave(52)
    with program.trace() as trace:
        cube, locks = lawful(trace), trace.model.lock_acquisitions
        check_path(trace.model, cube)
        assert (locks.signal_time - locks.enter_time)[locks.signal >= 0].tolist() == [30]
        assert trace.analyze("scalasca").total("pthread_lock_contention_conditional") == 40
        waits = trace.waits[["property", "begin_time", "end_time", "cause_time"]].to_numpy().tolist()
    wait = f"main/{WAIT}"
    assert ticks(cube, "pthread_condition_wait") == {(wait, 0): 30}
    assert ticks(cube, "pthread_lock_contention_conditional") == {(wait, 0): 10}
    assert ["pthread_condition_wait", 10, 40, 40] in waits
    assert ["pthread_lock_contention_conditional", 40, 50, 50] in waits
    # until 40, the producer spends 30 s in `make`, 9 in main and 1 in the lock call, the consumer 9 in main and 1 in
    # the lock call
    assert ticks(cube, "delay_condition") == {("main/make", 1): 30}
    assert ticks(cube, "delay_lock")[("main/tidy", 1)] > 0
    # the critical path is on the producer until it releases the mutex
    path = ticks(cube, "critical_path")
    assert path[("main/make", 1)] == 30 and path[(wait, 0)] == 2 and ("main", 0) in path
    assert sum(value for (_, location), value in path.items() if location == 1) == 50


def test_conditions__without_a_signal_the_mutex_is_waited_for():
    """The wait may have timed out, or the call that signals the condition is not recorded."""
    program = Program(processes=1, threads=2)
    for name in (WAIT, LOCK):
        program.region(name, "pthread", "wrapper")
    waiting, owner = program.locations
    waiting.enter(0, "main").acquire(1, 7, 1, PTHREAD).enter(10, WAIT).release(10, 7, 1, PTHREAD)
    waiting.acquire(31, 7, 3, PTHREAD).leave(32).release(40, 7, 3, PTHREAD).leave(40)
    owner.enter(0, "main").enter(5, LOCK).acquire(11, 7, 2, PTHREAD).leave(11).release(30, 7, 2, PTHREAD).leave(40)
    with program.trace() as trace:
        cube = lawful(trace)
    assert ticks(cube, "pthread_condition_wait") == {}
    assert ticks(cube, "pthread_lock_contention_conditional") == {(f"main/{WAIT}", 0): 20}


def check_divided(store, cube, monkeypatch):
    """Check that an analysis does not depend on how events are read and divided."""
    with monkeypatch.context() as patch:
        divide(patch)
        patch.setattr("tracecols.enhance.scan.batches.BATCH", 7)
        same(cube, analyze_model(enhance(store, 1)))


def check_queue(seed, monkeypatch):
    """Compare the waits of a random program with those it simulated; its causes must not depend on the division."""
    queue = RandomQueue(seed)
    expected = {}
    for thread, since, until in queue.waits:
        ended = [time for time, other in queue.signals if other != thread and since < time < until]
        expected[thread] = expected.get(thread, 0) + (max(ended) - since if ended else 0)
    with queue.program.trace() as trace:
        cube = lawful(trace)
        check_path(trace.model, cube)
        check_divided(trace.store, cube, monkeypatch)
        assert_same(cube, analyze(trace.store, "exact", bins=5))
    found = cube.cells.get("pthread_condition_wait")
    by_thread = {} if found is None else dict(zip(found.location.tolist(), found.value.tolist(), strict=True))
    assert by_thread == {thread: ticks for thread, ticks in expected.items() if ticks}


@pytest.mark.parametrize("seed", [*range(2), *slow(range(2, 5))])
def test_conditions__of_random_queues_cost_what_they_wait(seed, monkeypatch):
    check_queue(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5, 25, 10))
def test_conditions__of_many_random_queues_cost_what_they_wait(first, monkeypatch):
    for seed in range(first, first + 10):
        check_queue(seed, monkeypatch)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_conditions__pass_costs_on_to_who_gave_up_the_mutex_before(order):
    """The signal comes late since its thread waits for another one, which waited for the mutex that the thread that
    waits for the condition had until then: the wait for the condition does not come before the release of the mutex."""
    program = Program(processes=1, threads=3)
    for name in (WAIT, SIGNAL, LOCK, UNLOCK):
        program.region(name, "pthread", "wrapper")
    waiting, between, signalling = (program.locations[i] for i in order)
    waiting.enter(0, "main").acquire(1, 7, 1, PTHREAD).enter(2, "f").leave(20).enter(20, WAIT)
    waiting.release(20, 7, 1, PTHREAD).acquire(91, 7, 3, PTHREAD).leave(92).leave(100)
    between.enter(0, "main").acquire(1, 8, 1, PTHREAD).enter(5, LOCK).acquire(21, 7, 2, PTHREAD).leave(22)
    between.enter(22, "k").leave(50).release(51, 7, 2, PTHREAD).release(52, 8, 1, PTHREAD).leave(100)
    signalling.enter(0, "main").enter(10, LOCK).acquire(53, 8, 2, PTHREAD).leave(54)
    signalling.enter(54, "g").leave(80).enter(80, SIGNAL).leave(81).leave(100)
    with program.trace() as trace:
        cube = lawful(trace)
    costs = {path: value for (path, _), value in ticks(cube, "delay_condition_longterm").items()}
    assert costs == {"main/f": 11, "main/k": 20, f"main/{LOCK}": 1}


def pthreads(folder, n=2):
    """Return an archive with a process of several threads, its locations and their contingent."""
    archive = Archive(folder / "s" / "traces.otf2", length=2000)
    process = archive.process("p")
    threads = [archive.location(f"t{i}", process, number=i) for i in range(n)]
    archive.group("comm_locations", threads, "pthread")
    for name, role in ((CREATE, "thread_create"), (JOIN, "thread_wait")):
        archive.region(name, role, "pthread")
    return archive, threads, archive.comm("", range(n), paradigm="pthread")


def test_created_threads__their_launch_is_charged_to_the_call_that_creates_them(opened, tmp_path):
    archive, (main, thread), pool = pthreads(tmp_path)
    main.enter(0, "main").enter(10, CREATE).create_thread(11, 1, pool).leave(12, CREATE)
    # the thread begins 13 ticks after the call, and enters its first region 5 ticks later
    thread.begin_thread(25, 1, pool).call(30, 60, "f").call(60, 100, "g").end_thread(100, 1, pool)
    main.enter(12, JOIN).wait_for_thread(101, 1, pool).leave(101, JOIN).leave(110, "main")
    trace = opened(archive)
    cube, path = lawful(trace), trace.critical_path(raw=True)
    assert trace.model.created_threads.enter_time.tolist() == [30]
    create = f"main/{CREATE}"
    assert ticks(cube, "critical_path") == {
        ("main", 0): 10 + 9,
        (create, 0): 20,
        ("f", 1): 30,
        ("g", 1): 40,
        (f"main/{JOIN}", 0): 1,
    }
    assert path[["location", "begin_time", "end_time"]].to_numpy().tolist() == [[0, 0, 30], [1, 30, 100], [0, 100, 110]]
    # of the 88 ticks from 12 to 100, 18 pass before the thread runs: 20 since its creation began, of which the creator
    # spent 2 in the call
    assert ticks(cube, "delay_join") == {(create, 1): 18, ("f", 1): 30, ("g", 1): 40}
    activities = ticks(cube, "critical_path_activities")
    assert activities == {("main", 0): 19, (create, 0): 2, ("f", 1): 30, ("g", 1): 40, (f"main/{JOIN}", 0): 1}
    assert ticks(cube, "non_critical_path_activities") == {}


def joined_thread(folder, opened, creation=True):
    archive, (main, thread), pool = pthreads(folder)
    main.enter(0, "main").call(0, 10, "serial").enter(10, CREATE)
    if creation:
        main.create_thread(11, 1, pool)
    main.leave(12, CREATE).call(12, 40, "rest").enter(40, JOIN)
    main.wait_for_thread(100, 1, pool).leave(101, JOIN).leave(110, "main")
    thread.begin_thread(12, 1, pool).call(12, 62, "f").call(62, 100, "g").end_thread(100, 1, pool)
    return opened(archive)


def test_created_threads__whose_creation_is_not_recorded_cause_waits_of_joins(opened, tmp_path):
    """Without a call path of the creation, the end of the thread used to be no point, so the wait had no cause."""
    cube = lawful(joined_thread(tmp_path, opened, creation=False))
    assert ticks(cube, "pthread_join_wait") == {(f"main/{JOIN}", 0): 60}
    # in proportion to the 50 and 38 ticks in which the thread runs
    assert ticks(cube, "delay_join") == {("f", 1): 34, ("g", 1): 26}


@pytest.mark.parametrize(("start", "f"), [(15, 47), (30, 32), (50, 12)])
def test_created_threads__of_slices_that_begin_after_their_creation_cause_waits_of_joins(start, f, opened, tmp_path):
    with joined_thread(tmp_path, opened).piece(start * 1e-9, None) as piece:
        cube = lawful(piece)
        wait = min(60, 100 - start)
        assert sum(ticks(cube, "pthread_join_wait").values()) == wait == sum(ticks(cube, "delay_join").values())
        assert ticks(cube, "critical_path") == {("main", 0): 9, (f"main/{JOIN}", 0): 1, ("f", 1): f, ("g", 1): 38}


@pytest.mark.parametrize("by_creator", [True, False], ids=["creator", "created"])
def test_created_threads__last_synchronise_with_their_creators_at_the_creation(by_creator):
    """One of the two holds a lock from 103 to 154, for which the other waits from 110 on: for 44 ticks.

    The creator has executed the same function for 100 ticks before the creation: these make nobody wait, and are not
    compared with those of the created thread.
    """
    program = Program(processes=1, threads=2)
    for name, role in ((CREATE, "thread_create"), (JOIN, "thread_wait"), (LOCK, "wrapper"), (UNLOCK, "wrapper")):
        program.region(name, "pthread", role)
    pool = program.define("communicators", kind="group", paradigm="pthread", flags=0, members=[0, 1])
    main, thread = program.locations
    main.call(0, 100, "f").enter(100, CREATE).create_thread(101, 1, pool).leave(102)
    thread.begin_thread(102, 1, pool)
    holds, waits = (main, thread) if by_creator else (thread, main)
    holds.enter(102, LOCK).acquire(103, 1, 1, PTHREAD).leave(103).call(103, 153, "f").enter(153, UNLOCK)
    holds.release(154, 1, 1, PTHREAD).leave(154)
    waits.call(102, 110, "g").enter(110, LOCK).acquire(155, 1, 2, PTHREAD).leave(155).enter(155, UNLOCK)
    waits.release(156, 1, 2, PTHREAD).leave(156)
    thread.end_thread(160, 1, pool)
    main.enter(160, JOIN).wait_for_thread(161, 1, pool).leave(162)
    with program.trace() as trace:
        cube = lawful(trace)
    of_holder = 0 if by_creator else 1
    assert ticks(cube, "pthread_lock_contention_mutex_lock") == {(LOCK, 1 - of_holder): 44}
    # in proportion to the 50 ticks of the function and 1 of the lock call
    assert ticks(cube, "delay_lock") == {("f", of_holder): 43, (LOCK, of_holder): 1}


def test_created_threads__begin_with_themselves_on_locations_of_others():
    """The second location executes a thread that creates another one, and later a thread that waits for a lock of that
    one, for 45 ticks. What the first thread has executed there since the creation does not count for the second."""
    program = Program(processes=1, threads=3)
    for name, role in ((CREATE, "thread_create"), (LOCK, "wrapper"), (UNLOCK, "wrapper")):
        program.region(name, "pthread", role)
    pool = program.define("communicators", kind="group", paradigm="pthread", flags=0, members=[0, 1, 2])
    main, reused, holder = program.locations
    main.enter(0, "main").enter(0, CREATE).create_thread(0, 1, pool).leave(1)
    main.enter(50, CREATE).create_thread(50, 3, pool).leave(51).leave(120)
    reused.begin_thread(1, 1, pool).enter(1, CREATE).create_thread(1, 2, pool).leave(2).call(2, 42, "f")
    reused.end_thread(42, 1, pool)
    holder.begin_thread(2, 2, pool).enter(2, LOCK).acquire(2, 1, 1, PTHREAD).leave(2).call(2, 100, "f")
    holder.enter(100, UNLOCK).release(100, 1, 1, PTHREAD).leave(100).end_thread(100, 2, pool)
    reused.begin_thread(51, 3, pool).call(51, 55, "g").enter(55, LOCK).acquire(101, 1, 2, PTHREAD).leave(101)
    reused.enter(101, UNLOCK).release(101, 1, 2, PTHREAD).leave(101).end_thread(101, 3, pool)
    with program.trace() as trace:
        cube, pairs = lawful(trace), trace.model.delay_pairs
        since = pairs.waiting_since[pairs.wait == 45]
        points = trace.model.sync_points
        assert points.begin_time[since].tolist() == [51]
    # of 98 ticks of the function and 1 of the launch, the larger remainder is that of the function
    assert ticks(cube, "delay_lock") == {("f", 2): 45}


def test_nested_teams__do_not_end_the_intervals_of_the_teams_around_them():
    """The master of a team forks another one in it, and comes to the barrier of its team at 99, 79 ticks after the
    other thread of the team."""
    program = Program(processes=1, threads=3)
    inside, barrier = "!$omp parallel @a.c:2", "!$omp implicit barrier @a.c:9"
    outer, inner = (
        program.define("communicators", kind="group", paradigm="openmp", flags=0, members=members)
        for members in ([0, 1], [0, 2])
    )
    master, other, guest = program.locations
    master.enter(0, "main").fork(0)
    for thread in (master, other):
        thread.begin_team(0, outer).enter(0, PARALLEL)
    other.call(0, 20, "f").enter(20, barrier).leave(100).leave(100).end_team(100, outer)
    master.fork(0)
    for thread, end in ((master, 50), (guest, 98)):
        thread.begin_team(0, inner).enter(0, inside).call(0, end, "g").enter(end, barrier).leave(98).leave(98)
        thread.end_team(98, inner)
    master.join(98).call(98, 99, "h").enter(99, barrier).leave(100).leave(100).end_team(100, outer)
    master.join(100).leave(101)
    with program.trace() as trace:
        cube = lawful(trace)
    nested = f"main/{PARALLEL}/{inside}"
    assert ticks(cube, "omp_ibarrier_wait") == {(f"main/{PARALLEL}/{barrier}", 1): 79, (f"{nested}/{barrier}", 0): 48}
    # since both forked, the master has executed g for 50 ticks and h for 1, and has waited for 48; the guest has
    # executed g for 48 ticks more than the master
    assert ticks(cube, "delay_ompbarrier") == {
        (f"{nested}/g", 0): 40, (f"main/{PARALLEL}/h", 0): 1, (f"{nested}/g", 2): 48,
    }  # fmt: skip
    assert ticks(cube, "delay_ompbarrier_longterm") == {(f"{nested}/g", 2): 38}


def test_created_threads__do_nothing_before_they_begin(opened, tmp_path):
    """The time since the start of the run used to count for THREADS, where nothing is executed."""
    archive, (main, thread), pool = pthreads(tmp_path)
    main.record(0, "ProgramBegin", program="PROGRAM").enter(0, "main").call(0, 1000, "serial").enter(1000, CREATE)
    main.create_thread(1000, 1, pool).leave(1001, CREATE).enter(1001, JOIN)
    thread.begin_thread(1001, 1, pool).call(1001, 1031, "f").call(1031, 1101, "g")
    thread.end_thread(1101, 1, pool)
    main.wait_for_thread(1101, 1, pool).leave(1101, JOIN).leave(1101, "main")
    main.record(1101, "ProgramEnd", exit_status=0)
    cube = lawful(opened(archive))
    done = {("PROGRAM/main/serial", 0): 1000, (f"PROGRAM/main/{CREATE}", 0): 1}
    threads = {("PROGRAM/THREADS/f", 1): 30, ("PROGRAM/THREADS/g", 1): 70}
    assert ticks(cube, "critical_path") == ticks(cube, "critical_path_activities") == done | threads
    assert ticks(cube, "delay_join") == threads
    assert ticks(cube, "non_critical_path_activities") == {}


@pytest.mark.parametrize("program", [False, True])
def test_created_threads__time_between_threads_of_a_location_and_between_regions_is_not_executed(
    opened, tmp_path, program
):
    archive, (main, thread), pool = pthreads(tmp_path)
    if program:
        main.record(0, "ProgramBegin", program="PROGRAM")
    main.enter(0, "main")
    for k in (0, 1):
        t = 100 * k
        main.enter(t, CREATE).create_thread(t + 1, k + 1, pool).leave(t + 2, CREATE)
        thread.begin_thread(t + 2, k + 1, pool)
        # 6 ticks between the regions and 3 before the end are in no region
        thread.call(t + 2, t + 20, "f").call(t + 26, t + 47, "g").end_thread(t + 50, k + 1, pool)
        main.enter(t + 2, JOIN).wait_for_thread(t + 50, k + 1, pool).leave(t + 50, JOIN)
    main.leave(160, "main")
    if program:
        main.record(160, "ProgramEnd", exit_status=0)
    cube = lawful(opened(archive))
    top, above = ("PROGRAM/main", "PROGRAM/THREADS/") if program else ("main", "")
    create = f"{top}/{CREATE}"
    f, g = (f"{above}f", 1), (f"{above}g", 1)
    # the critical path charges that time to the call that created the thread
    assert ticks(cube, "critical_path") == {(top, 0): 60, (create, 0): 4, (create, 1): 18, f: 36, g: 42}
    assert ticks(cube, "critical_path_activities") == {(top, 0): 60, (create, 0): 4, f: 36, g: 42}
    assert ticks(cube, "non_critical_path_activities") == {}


def test_created_threads__that_nobody_is_known_to_have_created_begin_with_their_first_event(opened, tmp_path):
    archive, (main, thread), _ = pthreads(tmp_path)
    main.call(0, 50, "main")
    thread.call(40, 60, "f").call(70, 100, "g")
    cube = lawful(opened(archive))
    activities = ticks(cube, "critical_path_activities"), ticks(cube, "non_critical_path_activities")
    assert {k for of in activities for k in of} <= {("main", 0), ("f", 1), ("g", 1)}
    assert sum(of.get(("f", 1), 0) for of in activities) == 20 and sum(of.get(("g", 1), 0) for of in activities) == 30


def team_of_two(folder, last):
    """Return two threads in a parallel region, a function that executes a task, and one that ends the region at `last`
    and returns the archive."""
    archive = Archive(folder / "s" / "traces.otf2", length=2000)
    threads, team = archive.openmp(2)
    threads[0].enter(0, "main").fork(0, 2)
    for thread in threads:
        thread.begin_team(0, team).enter(0, PARALLEL)

    def execute(i, begin, end, enters=None):
        of, task = threads[i], {"team": team, "creator": i, "generation": 1}
        of.record(begin, "ThreadTaskSwitch", **task).call(begin if enters is None else enters, end, TASK)
        of.record(end, "ThreadTaskComplete", **task).record(end, "ThreadTaskSwitch", **{**task, "generation": 0})

    def finish():
        for thread in threads:
            thread.leave(last, PARALLEL).end_team(last, team)
        threads[0].join(last).leave(last + 9, "main")
        return archive

    return threads, execute, finish


IMPLICIT = "!$omp implicit barrier @a.c:9"
REGION = f"main/{PARALLEL}"


def cube_with_tasks(folder, opened, leave, worker_enters, *task_of_worker):
    """Return the cube of a master that waits at a barrier from 10 on, with a task from 40 to 60, for a worker that
    comes at 100 and may execute a task, too; later the worker waits for the master at the implicit barrier."""
    (master, worker), execute, finish = team_of_two(folder, 151)
    master.enter(10, BARRIER)
    execute(0, 40, 60)
    worker.call(5, 100, "work").enter(100, BARRIER)
    if task_of_worker:
        execute(1, *task_of_worker)
    for thread in (master, worker):
        thread.leave(leave, BARRIER)
    master.call(leave, 150, "rest").enter(150, IMPLICIT).leave(151, IMPLICIT)
    worker.enter(worker_enters, IMPLICIT).leave(151, IMPLICIT)
    cube = lawful(opened(finish()))
    assert ticks(cube, "critical_path") == {
        (REGION, 1): 5,
        (f"{REGION}/work", 1): 95,
        (f"{REGION}/{BARRIER}", 0): leave - 100,
        (f"{REGION}/rest", 0): 150 - leave,
        (f"{REGION}/{IMPLICIT}", 0): 1,
        ("main", 0): 9,
    }
    return cube


def test_tasks__of_the_thread_that_waited_for_others_are_not_on_the_path_before_it(opened, tmp_path):
    cube_with_tasks(tmp_path, opened, 102, 110)


def test_tasks__of_the_last_thread_follow_its_enter(opened, tmp_path):
    """The stretch that ends with the ENTER used to be divided among what the thread does later: 95 became 72."""
    cube = cube_with_tasks(tmp_path, opened, 132, 140, 101, 131)
    # the master waits from 10 to 100, except for its task; tasks the worker executes later delay nobody here
    delays = ticks(cube, "delay_ompbarrier")
    assert {path for path, location in delays if location == 1} == {f"{REGION}/work"}
    assert delays[f"{REGION}/work", 1] == 70


def test_tasks__that_begin_before_and_end_after_the_last_thread_comes_are_on_the_path_from_then_on(opened, tmp_path):
    (master, worker), execute, finish = team_of_two(tmp_path, 140)
    master.enter(10, BARRIER)
    execute(0, 90, 130)
    worker.call(0, 100, "work").enter(100, BARRIER)
    for thread in (master, worker):
        thread.leave(131, BARRIER)
    master.enter(139, IMPLICIT).leave(140, IMPLICIT)
    worker.enter(135, IMPLICIT).leave(140, IMPLICIT)
    cube = lawful(opened(finish()))
    assert ticks(cube, "critical_path") == {
        (f"{REGION}/work", 1): 100,
        (f"TASKS/{TASK}", 0): 30,
        (f"{REGION}/{BARRIER}", 0): 1,
        (REGION, 0): 8,
        (f"{REGION}/{IMPLICIT}", 0): 1,
        ("main", 0): 9,
    }


def test_tasks__time_in_a_barrier_before_and_between_them_counts_for_the_barrier(opened, tmp_path):
    (master, worker), execute, finish = team_of_two(tmp_path, 160)
    worker.enter(10, IMPLICIT).leave(160, IMPLICIT)
    master.enter(100, IMPLICIT)
    # 5 ticks from the switch to the first region count where the task is scheduled
    execute(0, 130, 150, enters=135)
    master.leave(160, IMPLICIT)
    cube = lawful(opened(finish()))
    path = {
        (REGION, 0): 100,
        (f"{REGION}/{IMPLICIT}", 0): 40,
        (f"{REGION}/{IMPLICIT}/{TASK}", 0): 5,
        (f"TASKS/{TASK}", 0): 15,
        ("main", 0): 9,
    }
    assert ticks(cube, "critical_path") == path
    activities = ticks(cube, "critical_path_activities")
    assert {key: value for key, value in activities.items() if key[1] == 0} == path


def test_tasks__that_enter_no_region_are_no_activities(opened, tmp_path):
    """The profile does not have their time either."""
    (master, worker), _, finish = team_of_two(tmp_path, 160)
    worker.enter(10, IMPLICIT).leave(160, IMPLICIT)
    master.enter(100, IMPLICIT)
    task = {"team": 0, "creator": 0, "generation": 1}
    master.record(130, "ThreadTaskSwitch", **task).record(150, "ThreadTaskComplete", **task)
    master.record(150, "ThreadTaskSwitch", **{**task, "generation": 0}).leave(160, IMPLICIT)
    cube = lawful(opened(finish()))
    activities = {key: value for key, value in ticks(cube, "critical_path_activities").items() if key[1] == 0}
    assert activities == {(REGION, 0): 100, (f"{REGION}/{IMPLICIT}", 0): 40, ("main", 0): 9}
    # the critical path charges the 20 ticks to the call in which the task begins or ends
    assert sum(ticks(cube, "critical_path").values()) == 169


def test_collectives__what_is_executed_inside_of_them_belongs_after_their_begin():
    """The last rank executes a reduction operation of the program; its time used to be divided into the stretch
    before."""
    program = Program(processes=2)
    first, last = program.masters
    for rank in program.masters:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(1)
    first.enter(2, "MPI_Allreduce").begin_collective(2)
    last.enter(1, "work").leave(10).enter(10, "MPI_Allreduce").begin_collective(10).enter(12, "op").leave(20)
    for rank in program.masters:
        rank.end_collective(22, "allreduce", sent=8, received=8).leave(22)
    first.enter(22, "rest").leave(30).enter(30, "MPI_Finalize").leave(31).leave(31)
    last.enter(23, "MPI_Finalize").leave(31).leave(31)
    with program.trace() as trace:
        cube = lawful(trace)
    assert severities(cube, "critical_path") == {
        ("main/MPI_Init", 1): 1,
        ("main/work", 1): 9,
        ("main/MPI_Allreduce", 0): 12,
        ("main/rest", 0): 8,
        ("main/MPI_Finalize", 0): 1,
    }


def check_random(program, folder, monkeypatch):
    """Check the critical path of a random program and the laws; neither may depend on how events are read."""
    trace = tracecols.open(tracecols.convert(program.path, folder / "x.trace", jobs=1), jobs=1)
    cube, path = lawful(trace), trace.critical_path(raw=True)
    check_path(trace.model, cube)
    stretches = path[["location", "begin_time", "end_time"]].to_numpy().tolist()
    assert ticks(cube, "critical_path") == program.expected_path(stretches)
    check_divided(trace.store, cube, monkeypatch)


@pytest.mark.parametrize("creates", [True, False], ids=["created", "tasks"])
@pytest.mark.parametrize("seed", [0, *slow(range(1, 3))])
def test_random__the_critical_path_is_what_is_executed_on_it(seed, creates, tmp_path, monkeypatch):
    check_random(RandomThreads(seed, tmp_path / "traces.otf2", creates), tmp_path, monkeypatch)


@pytest.mark.parametrize("creates", [True, False], ids=["created", "tasks"])
def test_random__bins_have_what_is_executed_in_them_on_the_critical_path(creates, tmp_path):
    for seed in (10,):
        program = RandomThreads(seed, tmp_path / f"{seed}" / "traces.otf2", creates)
        trace = tracecols.open(tracecols.convert(program.path, tmp_path / f"{seed}.trace", jobs=1), jobs=1)
        stretches = trace.critical_path(raw=True)[["location", "begin_time", "end_time"]].to_numpy().tolist()
        plain = trace.analyze()
        assert_same(plain, analyze(trace.store, "exact", phases="f"))
        cube = analyze(trace.store, "exact", bins=9)
        assert_same(plain, cube)
        of, paths = cube.period_cells["critical_path"], cube.call_paths.path
        for k, (begin, end) in enumerate(zip(cube.periods.begin_time, cube.periods.end_time, strict=True)):
            rows = zip(of.call_path.tolist(), of.location.tolist(), of.value.tolist(), of.period.tolist(), strict=True)
            found = {(paths[path], location): value for path, location, value, period in rows if period == k}
            assert found == program.expected_path(stretches, int(begin), int(end))


@pytest.mark.slow
@pytest.mark.parametrize("creates", [True, False], ids=["created", "tasks"])
@pytest.mark.parametrize("first", [100])
def test_random__campaign(first, creates, tmp_path, monkeypatch):
    for seed in range(first, first + 8):
        check_random(
            RandomThreads(seed, tmp_path / f"{seed}" / "traces.otf2", creates), tmp_path / f"{seed}", monkeypatch
        )


@pytest.mark.slow
def test_collect_segments__makes_nested_cuts_the_same_as_plain_python(tmp_path, monkeypatch):
    program = RandomThreads(7, tmp_path / "traces.otf2", creates=False)
    store = tracecols.convert(program.path, tmp_path / "x.trace", jobs=1)
    compiled = tracecols.open(store, jobs=1).analyze()
    for name in ("collect_locations", "collect_with_edges", "collect_segments"):
        monkeypatch.setattr(edges, name, getattr(edges, name).py_func)
    with np.errstate(over="ignore"):
        same(compiled, tracecols.open(store, jobs=1).analyze())
