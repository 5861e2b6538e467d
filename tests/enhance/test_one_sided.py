"""One-sided communication in OTF2 under the default conventions, compared with a plain twin, and with EXPERT's results
for EPILOG."""

from collections import defaultdict

import pytest
from support.laws import check_laws
from support.offload_program import small
from support.severities import cube_of

from tracecols.drawings.programs import WindowProgram
from tracecols.schema import NAMES
from tracecols.schema import EventKind as K
from tracecols.schema.notes import CONVENTIONS as DIFFERENCES
from tracecols.testing import Program, assert_severities, severities


def seconds(cube, name):
    """Return the total of a property, 0 if it does not exist."""
    return cube.total(name) if name in cube.cells else 0.0


def ticks(cube, name):
    return int(cube.cells[name].value.sum())


class Twin:
    """Window operations of single-threaded processes, read event by event."""

    def __init__(self, store):
        regions = store.definitions["regions"].column("name").to_pylist()
        self.windows = store.definitions["windows"].column("communicator").to_pylist()
        self.members = store.definitions["communicators"].column("members").to_pylist()
        self.put = self.get = 0
        # by window and its k-th collective operation: name, and enter and exit of every process
        self.operations = defaultdict(list)
        # by window and target: release, request, exclusive, exit of the locking call, enter and exit of the unlocking
        # call
        self.locks = defaultdict(list)
        first = store.definitions["locations"].column("first_row").to_pylist()
        for location in range(len(first)):
            events, side = store.read("events", location), store.read("rma", location)
            fields = {int(row): {c: int(side[c][i]) for c in side} for i, row in enumerate(side["row"])}
            stack, held, done = [], [], []
            k = defaultdict(int)
            for i, (time, kind, region) in enumerate(
                zip(*(events[c].tolist() for c in ("time", "kind", "region")), strict=True)
            ):
                what, e = NAMES[kind], fields.get(first[location] + i)
                if what in ("ENTER", "PROGRAM_BEGIN"):
                    stack.append((regions[region], time))
                elif what in ("EXIT", "PROGRAM_END"):
                    name, enter = stack.pop()
                    for finish in done:
                        finish(enter, time)
                    done = []
                elif what == "RMA_COLLECTIVE_END":
                    name, key = stack[-1][0], (e["window"], k[e["window"]])
                    k[e["window"]] += 1
                    done.append(
                        lambda enter, leave, key=key, name=name: self.operations[key].append((name, enter, leave))
                    )
                elif what in ("RMA_PUT", "RMA_GET", "RMA_ATOMIC"):
                    self.put += max(e["sent"], 0)
                    self.get += max(e["received"], 0)
                elif what == "RMA_REQUEST_LOCK" and e["remote"] >= 0:
                    lock = {
                        "request": stack[-1][1],
                        "exclusive": e["lock_type"] == 0,
                        "key": (e["window"], e["remote"]),
                    }
                    held.append(lock)
                    done.append(lambda enter, leave, lock=lock: lock.update(lock_exit=leave))
                elif what == "RMA_RELEASE_LOCK" and e["remote"] >= 0:
                    lock = next(x for x in held if x["key"] == (e["window"], e["remote"]))
                    held.remove(lock)
                    lock.update(release=time)
                    self.locks[lock["key"]].append(lock)
                    done.append(lambda enter, leave, lock=lock: lock.update(unlock=enter, unlock_exit=leave))

    def wait(self, name):
        """Return the time until the last process has come, within each call."""
        total = 0
        for calls in self.operations.values():
            if calls[0][0].lower().startswith(name):
                last = max(enter for _, enter, _ in calls)
                total += sum(max(min(last, leave) - enter, 0) for _, enter, leave in calls)
        return total

    def competition(self):
        """Return the time in lock and unlock calls until the release of an earlier conflicting lock."""
        total = 0
        for locks in self.locks.values():
            for own in locks:
                before = [
                    x["release"]
                    for x in locks
                    if x["release"] < own["release"] and (x["exclusive"] or own["exclusive"])
                ]
                if before:
                    released = max(before)
                    unlock = min(released, own["unlock_exit"]) - own["unlock"]
                    lock = min(released, own["lock_exit"]) - own["request"]
                    total += max(unlock if unlock > 0 else lock, 0)
        return total


@pytest.mark.parametrize("name", ["rma", "rma_real_5"])
def test_recorded_windows__agree_with_a_plain_twin(shared_traces, opened, name):
    trace = opened(shared_traces / "otf2" / name / "traces.otf2")
    cube, twin = trace.analyze(), Twin(trace.store)
    assert ticks(cube, "mpi_rma_wait_at_fence") == twin.wait("mpi_win_fence") > 0
    assert ticks(cube, "mpi_rma_wait_at_free") == twin.wait("mpi_win_free") > 0
    assert ticks(cube, "mpi_rma_wait_at_create") == twin.wait("mpi_win_create") + twin.wait("mpi_win_allocate") > 0
    assert ticks(cube, "mpi_rma_sync_lock_competition") == twin.competition() > 0
    assert (ticks(cube, "bytes_put"), ticks(cube, "bytes_get")) == (twin.put, twin.get)
    assert cube.violations() == []
    # the rules of EXPERT also count time beyond the end of the calls, so they find slightly more
    expert = trace.analyze(conventions="expert")
    for ours, theirs in (
        ("mpi_rma_wait_at_fence", "mpi_rma_fence_wait"),
        ("mpi_rma_early_wait", "mpi_rma_earlywait"),
        ("mpi_rma_sync_late_post", "mpi_rma_latepost"),
    ):
        assert 0.9 * seconds(expert, theirs) <= seconds(cube, ours) <= seconds(expert, theirs), ours


@pytest.mark.parametrize("name", ["rma_fence_4", "rma_gats_4", "rma_locks_4"])
def test_conventions__tell_the_same_story_of_epilog(shared_traces, opened, name):
    source = next((shared_traces / "epilog" / name).glob("*.elg"))
    trace = opened(source)
    ours, expert = trace.analyze(), trace.analyze(conventions="expert")
    for mine, theirs in (
        ("mpi_rma_wait_at_create", "mpi_rma_wait_window_create"),
        ("mpi_rma_wait_at_free", "mpi_rma_wait_window_free"),
        ("mpi_rma_wait_at_fence", "mpi_rma_fence_wait"),
        ("mpi_rma_early_wait", "mpi_rma_earlywait"),
        ("mpi_rma_late_complete", "mpi_rma_latecomplete"),
        ("mpi_rma_sync_late_post", "mpi_rma_latepost"),
    ):
        assert seconds(ours, mine) == pytest.approx(seconds(expert, theirs), rel=0.01), mine
    assert ours.violations() == []


def locked(archive, kinds, returns=45):
    """Let two processes lock a window at process 0: from 10 and 20 on, released at 40 and 60; the second call returns at
    45."""
    mpi = archive.mpi(2)
    window = archive.define("RmaWin", name=archive.string("w"), comm=mpi.world, flags=0)
    given = {"window": window, "remote": 0, "lock": 0}
    for rank, kind, (lock, locks, unlock, release) in zip(
        mpi.ranks, kinds, ((10, 12, 38, 40), (20, returns, 58, 60)), strict=True
    ):
        rank.enter(0, "main").enter(lock, "MPI_Win_lock").record(lock, "RmaRequestLock", **given, lock_type=kind)
        rank.leave(locks, "MPI_Win_lock").enter(unlock, "MPI_Win_unlock").record(release, "RmaReleaseLock", **given)
        rank.leave(release + 1, "MPI_Win_unlock").leave(100, "main")


@pytest.mark.parametrize(("kinds", "wait"), [((0, 0), 20), ((0, 1), 20), ((1, 0), 20), ((1, 1), 0)])
def test_lock_competition__is_with_locks_that_exclude_each_other(archive, analyze, kinds, wait):
    # 0 is exclusive, 1 is shared; the second waits from 20 to 40
    locked(archive, kinds)
    assert ticks(analyze(archive), "mpi_rma_sync_lock_competition") == wait


def test_lock_competition__is_in_the_call_that_waits_also_if_it_returns_before_the_release(archive, opened):
    # from 20 to 25; the lock is released at 40
    locked(archive, (0, 0), returns=25)
    cube = opened(archive).analyze(bins=10)
    found = cube.period_cells["mpi_rma_sync_lock_competition"]
    assert (found.period.tolist(), found.value.tolist()) == ([2], [5])


def test_lock_competition__of_what_is_never_released_is_none(archive, analyze):
    mpi = archive.mpi(1)
    window = archive.define("RmaWin", name=archive.string("w"), comm=mpi.world, flags=0)
    mpi.ranks[0].enter(0, "MPI_Win_lock").record(1, "RmaRequestLock", window=window, remote=0, lock=0, lock_type=0)
    mpi.ranks[0].leave(2, "MPI_Win_lock").enter(3, "MPI_Win_unlock")
    mpi.ranks[0].record(4, "RmaReleaseLock", window=window, remote=7, lock=0).leave(5, "MPI_Win_unlock")
    assert ticks(analyze(archive), "mpi_rma_sync_lock_competition") == 0


def test_copies_of_devices__are_no_bytes_of_one_sided_communication(archive, analyze):
    small(archive)
    cube = analyze(archive)
    assert "bytes_rma" not in cube.cells
    assert not [p for p in cube.properties.id if p.startswith("mpi_rma_wait")]


def fence(rank, begin, end, window):
    given = {"op": 0, "level": 3, "window": window, "root": None, "sent": 0, "received": 0}
    rank.enter(begin, "MPI_Win_fence").record(end, "RmaCollectiveEnd", **given).leave(end, "MPI_Win_fence")


def test_windows_of_single_processes__are_nobody_elses(archive, analyze):
    mpi = archive.mpi(2)
    window = archive.define("RmaWin", name=archive.string("w"), comm=archive.comm_self(), flags=0)
    for i, rank in enumerate(mpi.ranks):
        rank.enter(0, "main")
        fence(rank, 10 + 20 * i, 12 + 20 * i, window)
        rank.leave(100, "main")
    cube = analyze(archive)
    assert [note for note in cube.facts["counts"] if not note.startswith(DIFFERENCES)] == []
    assert ticks(cube, "mpi_rma_wait_at_fence") == 0


def test_windows_of_some_processes__know_them_by_their_ranks(archive, analyze):
    mpi = archive.mpi(3)
    # rank 0 of the window is process 2
    window = archive.define("RmaWin", name=archive.string("w"), comm=archive.comm("some", [2, 0]), flags=0)
    for rank, enter in zip(mpi.ranks, (10, 0, 30), strict=True):
        rank.enter(0, "main")
        if enter:
            fence(rank, enter, 31, window)
    mpi.ranks[0].enter(40, "MPI_Put").record(40, "RmaPut", window=window, remote=0, sent=8, matching=1)
    mpi.ranks[0].leave(45, "MPI_Put")
    for rank, enter in zip(mpi.ranks, (60, 0, 43), strict=True):
        if enter:
            fence(rank, enter, 61, window)
        rank.leave(100, "main")
    cube = analyze(archive)
    # process 2 waits until the put to it has returned, and then for process 0
    assert (ticks(cube, "mpi_rma_wait_at_fence"), ticks(cube, "mpi_rma_early_fence")) == (20 + 17, 2)
    assert [note for note in cube.facts["counts"] if not note.startswith(DIFFERENCES)] == []


@pytest.mark.parametrize(("access", "late"), [(0, 27), (28, 17), (None, 0)])
def test_late_complete__is_the_wait_after_the_last_access_also_at_time_0(access, late):
    program = WindowProgram(2)
    program.masters[0].enter(0, "main"), program.masters[1].enter(0, "main")
    program.synchronise(1, "MPI_Win_post", 0, 0, other=0)
    program.synchronise(0, "MPI_Win_start", 0, 0, other=1)
    if access is not None:
        program.put(0, access, access, target=1)
    program.synchronise(0, "MPI_Win_complete", 45, 60, other=1).leave(65)
    program.synchronise(1, "MPI_Win_wait", 18, 60, other=0).leave(65)
    expected = {("main/MPI_Win_wait", 1): late} if late else {}
    assert_severities(program, "mpi_rma_latecomplete", expected, conventions="expert")


def test_late_complete__ends_with_the_wait_if_clocks_disagree():
    program = WindowProgram(2)
    program.masters[0].enter(0, "main"), program.masters[1].enter(0, "main")
    program.synchronise(1, "MPI_Win_post", 0, 0, other=0)
    program.synchronise(0, "MPI_Win_start", 0, 0, other=1)
    program.put(0, 20, 30, target=1)
    program.synchronise(0, "MPI_Win_complete", 45, 60, other=1).leave(65)
    # the target leaves before the origin enters MPI_Win_complete
    program.synchronise(1, "MPI_Win_wait", 10, 40, other=0).leave(65)
    assert_severities(program, "mpi_rma_early_wait", {("main/MPI_Win_wait", 1): 30})
    assert_severities(program, "mpi_rma_late_complete", {("main/MPI_Win_wait", 1): 10})


def threaded():
    """Two processes with two threads each, which call MPI outside of parallel regions, and a window."""
    program = Program(processes=2, threads=2)
    program.define("windows", name="window", communicator=0, flags=0)
    for p in range(2):
        program.define("groups", type="comm_group", paradigm="mpi", flags=0, members=[2 * p])
    return program


def synchronise(thread, name, enter, leave):
    """Call MPI_Win_post, -start, -complete or -wait with the other process."""
    side = {"window": 0, "group": 1 - thread.process, "level": 1}
    thread.enter(enter, name).record(leave if name[8:] in ("complete", "wait") else enter, K.RMA_GROUP_SYNC, rma=side)
    thread.leave(leave)


def test_epochs__of_several_threads_follow_each_other_in_time():
    program = threaded()
    target, other_target, other_origin, origin = program.locations
    synchronise(target, "MPI_Win_post", 0, 1)
    synchronise(origin, "MPI_Win_start", 2, 3)
    synchronise(origin, "MPI_Win_complete", 20, 30)
    synchronise(target, "MPI_Win_wait", 10, 30)
    synchronise(other_target, "MPI_Win_post", 40, 41)
    synchronise(other_origin, "MPI_Win_start", 42, 43)
    synchronise(other_origin, "MPI_Win_complete", 65, 70)
    synchronise(other_target, "MPI_Win_wait", 50, 70)
    # thread 0 waits from 10 to 20, thread 1 from 50 to 65; a piece that begins at 35 has the second wait
    for start, expected in ((None, [10, 15]), (35, [15])):
        with program.trace() as trace, trace.piece(start) as piece:
            assert piece.analyze().cells["mpi_rma_early_wait"].value.tolist() == expected


def test_epochs__may_be_shared_by_threads():
    program = threaded()
    posts, waits, starts, accesses = program.locations
    synchronise(starts, "MPI_Win_start", 0, 1)
    put = {"window": 0, "remote": 0, "sent": 8, "received": 0, "matching": 1}
    accesses.enter(10, "MPI_Put").record(10, K.RMA_PUT, rma=put).leave(25)
    synchronise(posts, "MPI_Win_post", 20, 21)
    synchronise(accesses, "MPI_Win_complete", 60, 65)
    synchronise(waits, "MPI_Win_wait", 30, 65)
    # the put waits from 10 to 20; MPI_Win_wait from 30 to 60, all of it after the put
    with program.trace() as trace:
        cube = trace.analyze()
        found = trace.frame("waits", raw=True)
    for name, thread, wait in (("comm_late_post", 3, 10), ("early_wait", 1, 30), ("late_complete", 1, 30)):
        cells = cube.cells[f"mpi_rma_{name}"]
        assert (cells.location.tolist(), cells.value.tolist()) == ([thread], [wait]), name
    assert sorted(zip(found.location, found.cause_location, strict=True)) == [(1, 3), (3, 0)]
    assert ticks(cube, "delay_onesided_aggregate") == 40


def hold(takes, gives, lock, unlock):
    """Lock the window of process 0 from the first time of `lock` to the last one of `unlock`."""
    side = {"window": 0, "remote": 0, "lock": 0}
    takes.enter(lock[0], "MPI_Win_lock").record(lock[0], K.RMA_REQUEST_LOCK, rma={**side, "lock_type": 0})
    takes.leave(lock[1])
    gives.enter(unlock[0], "MPI_Win_unlock").record(unlock[1], K.RMA_RELEASE_LOCK, rma=side).leave(unlock[1])


def test_locks__may_be_released_by_another_thread():
    program = threaded()
    first, other_first, second, other_second = program.locations
    hold(first, other_first, (10, 12), (38, 40))
    hold(second, other_second, (15, 16), (30, 50))
    hold(other_first, first, (45, 60), (70, 80))
    # process 1 waits in MPI_Win_unlock from 30 to 40, process 0 in MPI_Win_lock from 45 to 50
    expected = {("MPI_Win_unlock", 1, 1): 10, ("MPI_Win_lock", 0, 1): 5}
    assert_severities(program, "mpi_rma_sync_lock_competition", expected)
    with program.trace() as trace:
        cube, found = trace.analyze("exact"), trace.frame("waits", raw=True)
        with trace.piece(39) as piece:
            assert severities(piece.analyze(), "mpi_rma_sync_lock_competition") == {
                ("MPI_Win_unlock", 1, 1): 1,
                ("MPI_Win_lock", 0, 1): 5,
            }
    assert sorted(zip(found.location, found.cause_location, strict=True)) == [(1, 3), (3, 1)]
    check_laws(trace.model, cube)
    assert ticks(cube, "delay_onesided_aggregate") == 15


def test_locks__released_at_the_same_tick_follow_each_other_in_the_order_of_events():
    program = Program(processes=3)
    program.define("windows", name="window", communicator=0, flags=0)
    for process, begin in zip(program.masters, (1, 3, 4), strict=True):
        hold(process, process, (begin, 10), (10, 10))
    # the second and the third get the lock at the tick at which the one before releases it
    expected = {("MPI_Win_lock", 1): 7, ("MPI_Win_lock", 2): 6}
    assert_severities(program, "mpi_rma_sync_lock_competition", expected)


def test_fences__cover_accesses_of_all_threads():
    program = threaded()
    masters, other = program.masters, program.locations[3]

    def fence(enter, leave):
        for one, begin in zip(masters, enter, strict=True):
            side = {"window": 0, "op": 0, "level": 3, "sent": 0, "received": 0}
            one.enter(begin, "MPI_Win_fence").record(leave, K.RMA_COLLECTIVE_END, rma=side).leave(leave)

    fence((0, 0), 5)
    put = {"window": 0, "remote": 0, "sent": 8, "received": 0, "matching": 1}
    other.enter(6, "MPI_Put").record(6, K.RMA_PUT, rma=put).leave(25)
    fence((10, 30), 35)
    # process 0 waits from 10 to 30, until 25 for the put
    cube = cube_of(program)
    assert [ticks(cube, f"mpi_rma_{name}") for name in ("wait_at_fence", "early_fence")] == [20, 15]


@pytest.mark.parametrize(
    ("conventions", "waits"),
    [("exact", {"comm_late_post": 10, "late_complete": 30}), ("expert", {"earlytransfer": 0, "latecomplete": 0})],
)
def test_atomic_operations__access_windows_except_for_expert(conventions, waits):
    program = WindowProgram(2)
    side = {"window": 0, "remote": 0, "sent": 8, "received": 0, "matching": 1}
    program.synchronise(1, "MPI_Win_start", 0, 0, other=0)
    program.masters[1].enter(10, "MPI_Accumulate").record(10, K.RMA_ATOMIC, rma=side).leave(25)
    program.synchronise(0, "MPI_Win_post", 20, 20, other=1)
    program.synchronise(1, "MPI_Win_complete", 60, 60, other=0)
    program.synchronise(0, "MPI_Win_wait", 30, 60, other=1)
    cube = cube_of(program, conventions)
    assert {name: ticks(cube, f"mpi_rma_{name}") for name in waits} == waits
    assert cube.violations() == []
