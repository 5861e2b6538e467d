"""OpenMP: management, barriers, locks, idle threads: times in ticks, worked out by hand."""

import pytest
from support.severities import cells

from tracecols.schema import EventKind, enums
from tracecols.search.cube import analyze_model
from tracecols.search.matches import find_waits
from tracecols.testing import Program, severities

PTHREAD = enums.PARADIGMS.index("pthread")
PARALLEL, IMPLICIT, EXPLICIT = "!$omp parallel @a.c:1", "!$omp implicit barrier @a.c:9", "!$omp barrier @a.c:5"
TASK, CRITICAL = "!$omp task @a.c:7", "!$omp critical @a.c:3"


class Region:
    """A program of one process: main from 0 to 100, a parallel region of a team, and the actions of its threads."""

    def __init__(self, archive, n_threads, team=None):
        self.threads, every = archive.openmp(n_threads)
        self.team = every if team is None else archive.comm("", range(team), paradigm="openmp")
        self.n = n_threads if team is None else team
        master = self.threads[0]
        master.enter(0, "main").fork(10, self.n)

    def begin(self, i, t):
        self.threads[i].begin_team(t, self.team).enter(t, PARALLEL)
        return self.threads[i]

    def end(self, *leave, join=90):
        for i, t in enumerate(leave):
            self.threads[i].leave(t, PARALLEL).end_team(t, self.team)
        self.threads[0].join(join).leave(100, "main")


# -- management --------------------------------------------------------------------------------------------------------


def test_management__from_fork_to_enter_and_from_exit_to_join(archive, analyze):
    region = Region(archive, 2)
    region.begin(0, 15)
    region.begin(1, 20)
    region.end(80, 70, join=85)
    cube = analyze(archive)
    # fork at 10, join at 85; charged to the parallel region of every thread
    assert cells(cube, "omp_fork") == {(PARALLEL, 0): 5, (PARALLEL, 0, 1): 10}
    assert cells(cube, "omp_management") == {(PARALLEL, 0): 5 + 5, (PARALLEL, 0, 1): 10 + 15}
    # the master's share was spent in main, from which it is subtracted: 100 - 65 inside - 10
    assert cells(cube, "execution") == {("main", 0): 25, (PARALLEL, 0): 65 + 10, (PARALLEL, 0, 1): 50 + 25}


def test_management__is_nothing_where_clocks_disagree(archive, analyze):
    region = Region(archive, 2)
    region.begin(0, 12)
    region.begin(1, 8)  # before the fork at 10
    region.end(80, 95, join=85)  # after the join
    cube = analyze(archive)
    assert cells(cube, "omp_management") == {(PARALLEL, 0): 2 + 5}
    assert cells(cube, "omp_fork") == {(PARALLEL, 0): 2}


def test_management__of_a_team_nobody_forked_is_none(archive, analyze):
    threads, team = archive.openmp(2)
    threads[0].enter(0, "main").leave(100, "main")
    threads[1].begin_team(20, team).call(20, 30, PARALLEL).end_team(30, team)
    cube = analyze(archive, "scalasca")
    assert cells(cube, "omp_management") == {}
    # the thread runs for 10 ticks, and also idles while the master runs serially, as in the reference
    besides = "threads that run while their process runs serially: their idle time counts in addition"
    assert cube.facts["counts"] == {"teams without a recorded FORK": 1, besides: 1}
    assert analyze(archive, "exact").facts["counts"][besides] == 1
    assert cells(cube, "omp_idle_threads") == {("main", 0, 1): 100}


# -- barriers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("barrier", "name", "other"), [
    (EXPLICIT, "omp_ebarrier_wait", "omp_ibarrier_wait"), (IMPLICIT, "omp_ibarrier_wait", "omp_ebarrier_wait"),
])  # fmt: skip
def test_barrier__wait_until_the_last_thread_enters(archive, analyze, barrier, name, other):
    region = Region(archive, 3)
    for i, t in enumerate((20, 50, 35)):
        region.begin(i, 15).call(t, 60, barrier)
    region.end(80, 80, 80)
    cube = analyze(archive)
    assert cells(cube, name) == {(barrier, 0): 30, (barrier, 0, 2): 15}
    assert cells(cube, other) == {}


def test_barrier__entered_at_the_same_time_is_no_wait(archive, analyze):
    region = Region(archive, 2)
    for i in range(2):
        region.begin(i, 15).call(20, 60, IMPLICIT)
    region.end(80, 80)
    cube = analyze(archive)
    assert cells(cube, "omp_ibarrier_wait") == {}
    assert cells(cube, "omp_ibarrier") == {(IMPLICIT, 0): 40, (IMPLICIT, 0, 1): 40}


def test_barrier__never_left_is_no_wait(archive, analyze):
    """The recording ends in the barrier, so that no time in it is known; others may have left it."""
    region = Region(archive, 3)
    for i in range(3):
        region.begin(i, 12).enter(20 + 5 * i, EXPLICIT)
    region.threads[2].leave(40, EXPLICIT)
    region.threads[1].leave(40, EXPLICIT)
    cube = analyze(archive)
    assert cells(cube, "omp_ebarrier") == {(EXPLICIT, 0, 1): 15, (EXPLICIT, 0, 2): 10}
    assert cells(cube, "omp_ebarrier_wait") == {(EXPLICIT, 0, 1): 5}
    assert cube.violations() == []


def test_barrier__that_the_last_thread_never_leaves_is_its_delay(archive, analyze):
    region = Region(archive, 2)
    for i in range(2):
        region.begin(i, 12).call(12, 20 + 5 * i, "work").enter(20 + 5 * i, EXPLICIT)
    region.threads[0].leave(40, EXPLICIT)
    cube = analyze(archive)
    assert cells(cube, "omp_ebarrier_wait") == {(EXPLICIT, 0): 5}
    assert cells(cube, "delay_ompbarrier") == {("work", 0, 1): 5}


def test_barrier__of_a_team_without_fork_has_its_delay(archive, analyze):
    """The thread that forks is not recorded, or not from the FORK on."""
    threads, team = archive.openmp(2)
    for i, thread in enumerate(threads):
        thread.begin_team(12, team).enter(12, PARALLEL).call(12, 20 + 5 * i, "work").call(20 + 5 * i, 40, EXPLICIT)
    cube = analyze(archive)
    assert cells(cube, "omp_ebarrier_wait") == {(EXPLICIT, 0): 5}
    assert cells(cube, "delay_ompbarrier") == {("work", 0, 1): 5}


def test_barrier__that_is_never_left_has_no_part_of_the_time_before_it(archive, analyze):
    region = Region(archive, 2)
    for i in range(2):
        region.begin(i, 12).enter(20 + 5 * i, EXPLICIT)
    region.threads[0].leave(40, EXPLICIT)
    cube = analyze(archive)
    assert cells(cube, "delay_ompbarrier") == {(PARALLEL, 0, 1): 5}
    assert (EXPLICIT, 0, 1) not in cells(cube, "critical_path")


def test_barrier__outside_a_parallel_region_is_no_wait(archive, analyze):
    threads, _ = archive.openmp(2)
    threads[0].enter(0, "main").call(20, 60, EXPLICIT).leave(100, "main")
    threads[1].call(50, 60, EXPLICIT)
    assert cells(analyze(archive), "omp_ebarrier_wait") == {}


def switch(thread, t, team, task):
    return thread.switch_task(t, task, team)


def execute(thread, t, end, team, task):
    """Run a task to its end, and continue with the implicit task."""
    switch(thread, t, team, task).call(t, end, TASK)
    thread.complete_task(end, task, team)
    switch(thread, end, team, (task[0], 0))


@pytest.fixture
def analyze_tasks(enhance):
    """Return an analysis without checks: tasks make the program's root negative, as in the reference."""

    return lambda archive: analyze_model(enhance(archive))


@pytest.mark.parametrize(("task_end", "expected"), [(35, 20), (54, 1), (55, None), (58, None)])
def test_barrier__tasks_executed_inside_are_no_wait(archive, analyze_tasks, task_end, expected):
    # the master waits from 20 to 50, and executes a task from 25 on: the wait is 30 less its length, if positive
    region = Region(archive, 2)
    master = region.begin(0, 15)
    master.enter(20, IMPLICIT)
    execute(master, 25, task_end, region.team, (0, 1))
    master.leave(60, IMPLICIT)
    region.begin(1, 15).call(50, 60, IMPLICIT)
    region.end(80, 80)
    cube = analyze_tasks(archive)
    assert cells(cube, "omp_ibarrier_wait") == ({(IMPLICIT, 0): expected} if expected else {})


def test_barrier__tasks_executed_before_it_do_not_count(archive, analyze_tasks):
    region = Region(archive, 2)
    master = region.begin(0, 12)
    execute(master, 14, 18, region.team, (0, 1))
    master.call(20, 60, IMPLICIT)
    region.begin(1, 15).call(50, 60, IMPLICIT)
    region.end(80, 80)
    assert cells(analyze_tasks(archive), "omp_ibarrier_wait") == {(IMPLICIT, 0): 30}


def test_barrier__a_task_that_was_interrupted_counts_with_what_was_executed(archive, analyze_tasks):
    # task 1 runs from 22 to 24 and from 30 to 32, task 2 from 24 to 30: 10 in all
    region = Region(archive, 2)
    master, team = region.begin(0, 15), region.team
    master.enter(20, IMPLICIT)
    switch(master, 22, team, (0, 1)).enter(22, TASK).enter(23, "!$omp taskwait @a.c:8")
    switch(master, 24, team, (0, 2)).call(24, 30, TASK).complete_task(30, (0, 2), team)
    switch(master, 30, team, (0, 1)).leave(31, "!$omp taskwait @a.c:8").leave(32, TASK)
    master.complete_task(32, (0, 1), team)
    switch(master, 32, team, (0, 0)).leave(60, IMPLICIT)
    region.begin(1, 15).call(50, 60, IMPLICIT)
    region.end(80, 80)
    cube = analyze_tasks(archive)
    assert cells(cube, "omp_ibarrier_wait") == {(IMPLICIT, 0): 30 - 10}
    # tasks appear where they were scheduled and below TASKS, with one visit of TASK per task in each
    paths = {p: v for p, v in zip(cube.call_paths.path, cube.by_call_path("visits").tolist(), strict=True) if TASK in p}
    assert paths == {
        f"main/{PARALLEL}/{IMPLICIT}/{TASK}": 2,
        f"TASKS/{TASK}": 2,
        f"TASKS/{TASK}/!$omp taskwait @a.c:8": 1,
    }
    assert cells(cube, "omp_taskwait") == {("!$omp taskwait @a.c:8", 0): 2}
    # the second appearance is subtracted from the program's root, or from TASKS if there is none
    assert cells(cube, "execution")["TASKS", 0] == -10
    assert cube.by_location("time") == pytest.approx([100e-9, 100e-9])


def test_tasks__are_taken_off_once_where_other_call_paths_follow(archive, analyze_tasks):
    region = Region(archive, 2)
    execute(region.begin(0, 15), 22, 32, region.team, (0, 1))
    region.begin(1, 15)
    region.end(80, 80)
    region.threads[0].call(110, 117, "after")
    cube = analyze_tasks(archive)
    assert cells(cube, "execution")["TASKS", 0] == -10
    assert cells(cube, "execution")["after", 0] == 7


# -- locks -------------------------------------------------------------------------------------------------------------


def contended(region, name, enter, other=CRITICAL):
    """Let thread 0 hold lock 1 until 40; thread 1 requests it at `enter`."""
    a, b = region.begin(0, 15), region.begin(1, 15)
    a.enter(20, other).acquire(21, 1, 1).release(40, 1, 1).leave(41, other)
    b.enter(enter, name).acquire(45, 1, 2).release(46, 1, 2).leave(47, name)
    region.end(80, 80)


@pytest.mark.parametrize(
    ("enter", "expected"), [(25, {(CRITICAL, 0, 1): 15}), (39, {(CRITICAL, 0, 1): 1}), (40, {}), (42, {})]
)
def test_contention__of_a_critical_section_until_its_owner_leaves_it(archive, analyze, enter, expected):
    contended(Region(archive, 2), CRITICAL, enter)
    cube = analyze(archive)
    assert cells(cube, "omp_lock_contention_critical") == expected
    assert cells(cube, "omp_lock_contention_api") == {}


@pytest.mark.parametrize(
    "name", ["omp_set_lock", "omp_test_lock", "omp_set_nest_lock", "OMP_SET_LOCK", "omp_set_lock_"]
)
def test_contention__of_the_lock_api(archive, analyze, name):
    archive.region(name, "wrapper", "openmp")
    contended(Region(archive, 2), name, 25, "omp_set_lock")
    cube = analyze(archive)
    assert cells(cube, "omp_lock_contention_api") == {(name, 0, 1): 15}
    assert cells(cube, "omp_lock_contention_critical") == {}


def test_contention__not_in_other_regions(archive, analyze):
    contended(Region(archive, 2), "my_lock", 25)
    cube = analyze(archive)
    assert cells(cube, "omp_lock_contention_api") == cells(cube, "omp_lock_contention_critical") == {}


def test_contention__is_with_the_acquisition_before_not_with_the_last_event(archive, analyze):
    # acquisition 1 is released at 30, acquisition 2 at 40; the third waits for the second only
    region = Region(archive, 3)
    for i, (enter, acquire, release) in enumerate(((20, 21, 30), (22, 31, 40), (35, 41, 50))):
        region.begin(i, 15).enter(enter, CRITICAL).acquire(acquire, 1, i + 1).release(release, 1, i + 1).leave(
            release + 1, CRITICAL
        )
    region.end(80, 80, 80)
    assert cells(analyze(archive), "omp_lock_contention_critical") == {(CRITICAL, 0, 1): 8, (CRITICAL, 0, 2): 5}


@pytest.mark.parametrize("numbers", ["shared", "counted", "none"])
def test_contention__of_a_nested_lock_until_the_outermost_release(archive, analyze, numbers):
    """The inner release ends no wait, and the owner does not wait for itself."""
    region = Region(archive, 2)
    name = "omp_set_nest_lock"
    archive.region(name, "wrapper", "openmp")
    # Score-P gives one number to all levels; others may count every acquisition, or none
    inner = {"shared": 1, "counted": 2, "none": None}[numbers]
    outer, last = (None, None) if inner is None else (1, inner + 1)
    a, b = region.begin(0, 15), region.begin(1, 15)
    a.enter(20, name).acquire(21, 1, outer).leave(22, name).enter(23, name).acquire(24, 1, inner).leave(25, name)
    b.enter(28, name)
    a.release(30, 1, inner).release(40, 1, outer)
    b.acquire(41, 1, last).leave(42, name).release(46, 1, last)
    region.end(80, 80)
    # thread 1 waits from 28 to 40, not to 30
    assert cells(analyze(archive), "omp_lock_contention_api") == {(name, 0, 1): 12}


def test_contention__of_a_nested_lock_goes_on_with_the_next_owners(archive, analyze):
    # three threads in turn, two levels each
    region = Region(archive, 3)
    name = "omp_set_nest_lock"
    archive.region(name, "wrapper", "openmp")
    for i, acquire in enumerate((21, 41, 61)):
        thread = region.begin(i, 15).enter(20 + i, name).acquire(acquire, 1, i + 1).leave(acquire + 1, name)
        thread.enter(acquire + 2, name).acquire(acquire + 3, 1, i + 1).leave(acquire + 4, name)
        thread.release(acquire + 10, 1, i + 1).release(acquire + 15, 1, i + 1)
    region.end(80, 80, 80)
    # released at 36 and 56
    assert cells(analyze(archive), "omp_lock_contention_api") == {(name, 0, 1): 15, (name, 0, 2): 34}


def test_contention__of_another_lock_is_none(archive, analyze):
    region = Region(archive, 2)
    for i, lock in enumerate((1, 2)):
        region.begin(i, 15).enter(20 + i, CRITICAL).acquire(22, lock, 1).release(40 + i, lock, 1).leave(42, CRITICAL)
    region.end(80, 80)
    assert cells(analyze(archive), "omp_lock_contention_critical") == {}


def test_contention__without_the_release_before_is_none(archive, analyze):
    # the recording lost acquisition 1
    region = Region(archive, 1)
    region.begin(0, 15).enter(20, CRITICAL).acquire(22, 1, 2).release(40, 1, 2).leave(42, CRITICAL)
    region.end(80)
    assert cells(analyze(archive), "omp_lock_contention_critical") == {}


# -- POSIX threads, older recordings -----------------------------------------------------------------------------------


def test_contention__of_mutexes(archive, analyze):
    # thread 0 holds the mutex from 21 to 40, thread 1 wants it at 25
    locking, waiting = ("pthread_mutex_lock", "pthread_mutex_trylock"), ("pthread_cond_wait", "pthread_cond_timedwait")
    threads, _ = archive.openmp(2)
    for k, name in enumerate((*locking, *waiting, "pthread_join")):
        archive.region(name, "function", "pthread")
        for i, (enter, acquire, release) in enumerate(((20, 21, 40), (25, 41, 46))):
            thread = threads[i].enter(100 * k + enter, name)
            thread.acquire(100 * k + acquire, k, i + 1, model=PTHREAD).leave(100 * k + acquire + 1, name)
            thread.release(100 * k + release, k, i + 1, model=PTHREAD)
    cube = analyze(archive)
    assert cells(cube, "pthread_lock_contention_mutex_lock") == {(name, 0, 1): 15 for name in locking}
    assert cells(cube, "pthread_lock_contention_conditional") == {(name, 0, 1): 15 for name in waiting}


def pool(archive, n, roles=("thread_create", "thread_wait")):
    """Return a main thread with the threads that it creates, and their contingent."""
    process = archive.process()
    threads = [archive.location(f"thread {i}", process) for i in range(n)]
    archive.group("comm_locations", threads, "pthread")
    for name, role in zip(("pthread_create", "pthread_join"), roles, strict=True):
        archive.region(name, role, "pthread")
    return threads, archive.comm("", range(n), paradigm="pthread")


def test_join_wait__lasts_until_the_thread_ends_or_the_call_does(archive, enhance):
    (main, a, b, c), team = pool(archive, 4)
    main.enter(0, "main")
    for i, at in enumerate((1, 3, 5), 1):
        main.enter(at, "pthread_create").create_thread(at, i, team).leave(at + 1)
    a.begin_thread(4, 1, team).call(5, 29, "work").end_thread(30, 1, team)
    b.begin_thread(4, 2, team).call(5, 15, "work").end_thread(16, 2, team)
    # the third thread ends after the join by its clock
    c.begin_thread(6, 3, team).call(7, 70, "work").end_thread(71, 3, team)
    # waits: for the first from 20 to 30, for the second none, for the third during the whole call
    for i, (enter, leave) in enumerate(((20, 33), (40, 42), (50, 60)), 1):
        main.enter(enter, "pthread_join").wait_for_thread(leave - 1, i, team).leave(leave)
    main.leave(100, "main")
    model = enhance(archive)
    table = model.created_threads
    assert table.location.tolist() == [1, 2, 3]
    assert table.create_enter_time.tolist() == [1, 3, 5]
    # the rows are those of the events inside of the calls
    assert (table.create - table.create_enter).tolist() == [1, 1, 1]
    assert (table.join - table.join_enter).tolist() == [1, 1, 1]
    assert table.join_enter_time.tolist() == [20, 40, 50]
    assert table.end_time.tolist() == [30, 16, 71]
    assert not any(table.counts.values())
    cube = analyze_model(model)
    assert cells(cube, "pthread_join_wait") == {("pthread_join", 0): 10 + 10}
    # the causes are the joined threads, at the time of their ends
    waits = find_waits(model)
    names = ("property", "begin_time", "end_time", "cause_location", "cause_call_path", "cause_time")
    assert [tuple(waits[name][i] for name in names) for i in range(2)] == [
        ("pthread_join_wait", 20, 30, 1, -1, 30),
        ("pthread_join_wait", 50, 60, 3, -1, 71),
    ]
    assert cells(cube, "pthread_management") == {("pthread_create", 0): 3, ("pthread_join", 0): 25}
    assert cube.violations() == []


def test_join_wait__of_what_is_not_recorded_is_none(archive, enhance):
    # a thread that is not created or joined by any other, one that never ends, one of an undefined contingent
    (main, a, b, c), team = pool(archive, 4)
    main.enter(0, "main").enter(1, "pthread_create").create_thread(1, 9, team).leave(2)
    a.begin_thread(4, 1, team).end_thread(30, 1, team)
    b.begin_thread(4, 2, team)
    c.begin_thread(4, 1, None).end_thread(90, 1, None)
    main.enter(10, "pthread_join").wait_for_thread(20, 2, team).leave(20, "pthread_join").leave(100)
    model = enhance(archive)
    assert model.created_threads.end.tolist()[1] == -1
    assert model.created_threads.counts == {
        "created threads that never begin": 1,
        "threads whose creation is not recorded": 2,
    }
    assert cells(analyze_model(model), "pthread_join_wait") == {}


@pytest.mark.parametrize("name", ["pthreads_mutex", "std_thread"])
def test_join_wait__in_recorded_programs(shared_traces, opened, name):
    # plain twin: the end of each thread by its number, and when the joining thread entered and left the call
    trace = opened(shared_traces / "otf2" / name / "traces.otf2")
    store, ends, joins = trace.store, {}, {}
    regions = store.definitions["regions"].column("name").to_pylist()
    for i, first in enumerate(store.definitions["locations"].column("first_row").to_pylist()):
        events = store.read("events", i)
        side = store.read("threads", i) if store.n_rows("threads", i) else {"row": []}
        numbers = {int(row): (int(side["kind"][k]), int(side["sequence"][k])) for k, row in enumerate(side["row"])}
        entered = done = None
        for k, (time, kind, region) in enumerate(
            zip(*(events[c].tolist() for c in ("time", "kind", "region")), strict=True)
        ):
            what, number = numbers.get(first + k, (0, 0))
            if kind == EventKind.ENTER and regions[region] == "pthread_join":
                entered, done = time, None
            elif what == EventKind.THREAD_WAIT:
                done = number
            elif kind == EventKind.EXIT and regions[region] == "pthread_join":
                joins[done] = (entered, time)
            elif what == EventKind.THREAD_END:
                ends[number] = time
    assert joins.keys() == ends.keys()
    waits = [min(leave, ends[number]) - enter for number, (enter, leave) in joins.items()]
    cube = trace.analyze()
    assert cube.cells["pthread_join_wait"].value.sum() == sum(w for w in waits if w > 0) > 0
    assert cube.violations() == []


def test_contention__in_older_recordings(archive, analyze):
    region = Region(archive, 2)
    for i, (enter, acquire, release) in enumerate(((20, 21, 40), (25, 41, 46))):
        thread = region.begin(i, 15).enter(enter, CRITICAL)
        thread.record(acquire, "OmpAcquireLock", lock=1, acquisition=i + 1).record(
            release, "OmpReleaseLock", lock=1, acquisition=i + 1
        )
        thread.leave(release + 1, CRITICAL)
    region.end(80, 80)
    assert cells(analyze(archive), "omp_lock_contention_critical") == {(CRITICAL, 0, 1): 15}


# -- idle threads ------------------------------------------------------------------------------------------------------


def test_idle__workers_while_the_master_runs_serially(archive, analyze):
    region = Region(archive, 3)
    for i in range(3):
        region.begin(i, 12)
    region.end(88, 88, 88)
    cube = analyze(archive)
    # main has 0 to 10 and 90 to 100; the time between counts for the parallel region
    assert cells(cube, "omp_idle_threads") == {("main", 0, 1): 20, ("main", 0, 2): 20}
    assert cells(cube, "omp_limited_parallelism") == {}
    assert cells(cube, "time") == {
        (name, 0, *thread): v for name, v in (("main", 20), (PARALLEL, 80)) for thread in ((), (1,), (2,))
    }


def test_idle__threads_that_a_parallel_region_leaves_out(archive, analyze):
    # three threads, a team of two: the third idles for all 80 ticks of the region
    region = Region(archive, 3, team=2)
    for i in range(2):
        region.begin(i, 12)
    region.threads[2].call(0, 1, "f")  # the thread needs some events elsewhere
    region.end(88, 88)
    cube = analyze(archive)
    assert cells(cube, "omp_limited_parallelism") == {(PARALLEL, 0, 2): 80}
    assert cells(cube, "omp_idle_threads") == {("main", 0, 1): 20, ("main", 0, 2): 20, (PARALLEL, 0, 2): 80}


def test_idle__is_measured_against_the_whole_subtree(archive, analyze):
    # the master spends its time in f, the worker in g, both inside the region: nobody is idle
    region = Region(archive, 2)
    region.begin(0, 12).call(20, 60, "f")
    region.begin(1, 12).call(20, 50, "g")
    region.end(88, 88)
    cube = analyze(archive)
    assert cells(cube, "omp_limited_parallelism") == {}
    assert cells(cube, "execution")["g", 0, 1] == 30


@pytest.mark.parametrize("openmp", [True, False])
def test_idle__workers_that_are_never_forked(archive, analyze, openmp):
    # time is the reservation, 3 threads x 100, whether or not there is a FORK or a region of OpenMP
    process = archive.process()
    threads = [archive.location(f"thread {i}", process) for i in range(3)]
    if openmp:
        archive.group("comm_locations", threads, "openmp")
    threads[0].enter(0, "main").call(30, 40, "f").leave(100, "main")
    cube = analyze(archive)
    assert cells(cube, "omp_idle_threads") == {
        (name, 0, thread): v for name, v in (("main", 90), ("f", 10)) for thread in (1, 2)
    }
    assert cube.cells["time"].value.sum() == 3 * 100
    assert cells(cube, "omp_limited_parallelism") == {}


def test_idle__not_of_threads_that_the_program_creates(archive, analyze):
    # no time is reserved for them before they exist; the reference has no idle threads there (otf2/pthreads_mutex)
    process = archive.process()
    threads = [archive.location(f"thread {i}", process) for i in range(2)]
    archive.group("comm_locations", threads, "pthread")
    threads[0].call(0, 100, "main")
    threads[1].call(10, 20, "f")
    cube = analyze(archive)
    assert cells(cube, "omp_idle_threads") == {}
    assert cells(cube, "time") == {("main", 0): 100, ("f", 0, 1): 10}


def test_idle__is_by_process(archive, analyze):
    mpi = archive.mpi(2, 2)
    for i, (master, worker) in enumerate(mpi.threads):
        team = mpi.teams[i]
        master.enter(0, "main").fork(10 + i, 2).begin_team(11, team).call(12, 20, PARALLEL).end_team(20, team).join(
            21
        ).leave(30, "main")
        worker.begin_team(12, team).call(12, 20, PARALLEL).end_team(20, team)
    cube = analyze(archive)
    # fork to join takes 11 ticks in process 0, 10 in process 1
    assert cells(cube, "omp_idle_threads") == {("main", 0, 1): 30 - 11, ("main", 1, 1): 30 - 10}


def test_contention__order_zero_is_no_acquisition(archive, analyze):
    # the reference drops records of order 0, so acquisition 1 has no predecessor
    region = Region(archive, 2)
    for i, (enter, acquire, release) in enumerate(((20, 21, 30), (22, 31, 40))):
        region.begin(i, 15).enter(enter, CRITICAL).acquire(acquire, 1, i).release(release, 1, i).leave(release + 1)
    region.end(80, 80)
    assert cells(analyze(archive), "omp_lock_contention_critical") == {}


# -- not known to EXPERT -----------------------------------------------------------------------------------------------


def test_expert__counts_threads_that_the_program_creates_and_leaves_their_mutexes_to_them(archive, enhance):
    (main, a), team = pool(archive, 2)
    for name in ("pthread_cond_wait", "pthread_mutex_lock"):
        archive.region(name, "function", "pthread")
    main.enter(0, "main").enter(1, "pthread_create").create_thread(1, 1, team)
    main.leave(2, "pthread_create").acquire(3, 7, 1, model=PTHREAD)
    # main releases the mutex while it waits, and holds it again when it is woken
    main.enter(10, "pthread_cond_wait").release(10, 7, 1, model=PTHREAD).acquire(50, 7, 3, model=PTHREAD)
    main.leave(51, "pthread_cond_wait").release(60, 7, 3, model=PTHREAD).leave(100, "main")
    a.begin_thread(3, 1, team).enter(3, "work").enter(4, "pthread_mutex_lock")
    a.acquire(12, 7, 2, model=PTHREAD).leave(13, "pthread_mutex_lock").release(40, 7, 2, model=PTHREAD).leave(
        80, "work"
    ).end_thread(80, 1, team)
    cube = analyze_model(enhance(archive), "expert")
    assert int(cube.cells["time"].value.sum()) == int(cube.cells["execution"].value.sum()) == 100 + 77
    assert "omp_lock_competition" not in cube.cells or not len(cube.cells["omp_lock_competition"])
    assert cube.violations() == []


# -- threads that create threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("roles", [("thread_create", "thread_wait"), ("wrapper", "wrapper")])
def test_join_wait__of_threads_that_create_threads_detach_and_are_joined_twice(archive, enhance, roles):
    (main, a, b, c), team = pool(archive, 4, roles)

    def call(thread, enter, leave, name, record, sequence):
        thread.enter(enter, name).record(leave - 1, record, team=team, sequence=sequence).leave(leave, name)

    main.enter(0, "main")
    call(main, 1, 3, "pthread_create", "ThreadCreate", 1)
    a.begin_thread(3, 1, team).enter(4, "work")
    call(a, 5, 7, "pthread_create", "ThreadCreate", 2)
    call(a, 8, 10, "pthread_create", "ThreadCreate", 3)
    b.begin_thread(7, 2, team).call(8, 60, "deep").end_thread(61, 2, team)
    # the third thread, which runs longer than all others, is not joined
    c.begin_thread(11, 3, team).call(12, 90, "deep").end_thread(91, 3, team)
    call(a, 20, 65, "pthread_join", "ThreadWait", 2)
    a.leave(66, "work").end_thread(67, 1, team)
    call(main, 30, 70, "pthread_join", "ThreadWait", 1)
    call(main, 75, 77, "pthread_join", "ThreadWait", 1)
    main.leave(100, "main")
    model = enhance(archive)
    assert model.created_threads.create_location.tolist() == [0, 1, 1]
    assert model.created_threads.join_location.tolist() == [0, 1, -1]
    cube = analyze_model(model)
    assert cells(cube, "pthread_join_wait") == {("pthread_join", 0): 37, ("pthread_join", 0, 1): 41}
    assert cells(cube, "omp_idle_threads") == {}


def test_tasks__of_a_recording_that_ends_in_one_leave_open_what_is_around_it():
    program = Program(processes=1)
    (thread,) = program.locations
    thread.enter(100, "main").fork(110).begin_team(110).enter(111, PARALLEL).enter(112, IMPLICIT)
    thread.create_task(112, (0, 1)).switch_task(113, (0, 1)).enter(114, "!$omp task @a.c:7").call(116, 120, "work")
    with program.trace() as trace:
        cube = trace.analyze()
        assert trace.frame("construct_members", raw=True).exit_time.tolist() == [120, 120]
        assert trace.model.scans[0].open == 4
    assert severities(cube, "omp_management") == {(f"main/{PARALLEL}", 0): 1}
    assert severities(cube, "time")["main", 0] == 10
    assert severities(cube, "time")[f"main/{PARALLEL}", 0] == 2
