"""Constraints of a valid trace (thesis 3.6.4): each violated by a few events, reported with count, time and names."""

import json

import pytest
from conftest import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command_line import executed, run
from support.random_programs import RandomProgram

import tracecols
from tracecols.enhance.dataflow import partitions as model_module
from tracecols.model.model import enhance
from tracecols.patterns.constraints import CONSTRAINTS, find_violations
from tracecols.report.check import check_trace, lines
from tracecols.search.notes import counts
from tracecols.store import Store

PARALLEL, LOOP, BARRIER = "!$omp parallel @a.c:1", "!$omp for @a.c:2", "!$omp barrier @a.c:4"


@pytest.fixture
def violated(enhance):
    """Return a function that checks an archive: count and first instances (ticks, location, words) by constraint."""

    def run(archive, first=3):
        found = find_violations(enhance(archive), first)
        return {v.constraint.name: (v.count, v.first) for v in found}

    return run


def test_sound__has_no_violation(archive, violated):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "main").enter(1, "MPI_Send").send(2, 1, mpi.world, 7, 64).leave(3, "MPI_Send")
    a.collective(10, 20, mpi.world, "barrier").leave(30, "main")
    b.enter(0, "main").enter(1, "MPI_Recv").receive(4, 0, mpi.world, 7, 64).leave(5, "MPI_Recv")
    b.collective(15, 16, mpi.world, "barrier").leave(30, "main")
    assert violated(archive) == {}


def test_nesting__exits_of_another_region_and_open_ones(archive, violated):
    (a,) = archive.mpi(1).ranks
    a.enter(0, "main").enter(1, "f").leave(2, "g").leave(3, "main").leave(4, "h").enter(5, "late")
    assert violated(archive) == {
        "exits that do not match their enter": (
            2,
            [(2, 0, "leaves 'g' inside 'f'"), (4, 0, "leaves 'h' outside of all regions")],
        ),
        "region instances that never end": (1, [(5, 0, "enters 'late' and never leaves it")]),
    }


def test_messages__without_partner(archive, violated):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "MPI_Send").send(2, 1, mpi.world, 7, 64).send(3, 1, mpi.world, 7, 1000).leave(4, "MPI_Send")
    b.enter(0, "MPI_Recv").receive(5, 0, mpi.world, 7, 64).receive(6, 0, mpi.world, 8, 64).leave(7, "MPI_Recv")
    assert violated(archive) == {
        "sends without receive": (
            1,
            [(3, 0, "sends 1,000 bytes to rank 1 of communicator 0 'MPI_COMM_WORLD', tag 7, in 'MPI_Send'")],
        ),
        "receives without send": (1, [(6, 1, "receives from rank 0 of communicator 0 'MPI_COMM_WORLD', tag 8")]),
    }


def test_messages__cancelled_ones_violate_nothing(archive, violated):
    mpi = archive.mpi(2)
    a, _ = mpi.ranks
    a.enter(0, "MPI_Isend").start_send(1, 1, mpi.world, 5).leave(2, "MPI_Isend").record(
        3, "MpiRequestCancelled", request=5
    )
    assert violated(archive) == {}


def test_clocks__messages_and_operations(archive, violated):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "MPI_Send").send(20, 1, mpi.world).leave(21, "MPI_Send")
    b.enter(0, "MPI_Recv").receive(15, 0, mpi.world).leave(21, "MPI_Recv")
    # rank 1 leaves a barrier before rank 0 enters it; an allreduce without bytes does not synchronise
    a.collective(50, 60, mpi.world, "barrier").collective(75, 80, mpi.world, "allreduce")
    b.collective(40, 45, mpi.world, "barrier").collective(70, 71, mpi.world, "allreduce")
    # the root of a broadcast may leave first, the others must not; for a reduction it is the reverse
    a.collective(90, 91, mpi.world, "bcast", 0, 8, 8).collective(100, 101, mpi.world, "bcast", 1, 0, 8)
    b.collective(92, 93, mpi.world, "bcast", 0, 0, 8).collective(102, 103, mpi.world, "bcast", 1, 8, 8)
    a.collective(110, 111, mpi.world, "reduce", 0, 8, 8).collective(120, 121, mpi.world, "reduce", 1, 8, 0)
    b.collective(112, 113, mpi.world, "reduce", 0, 8, 0).collective(122, 123, mpi.world, "reduce", 1, 8, 8)
    on = "communicator 0 'MPI_COMM_WORLD'"
    ends = "before another participant begins it"
    assert violated(archive, 9) == {
        "messages received before they were sent": (
            1,
            [(15, 1, "receives from location 0 'Master thread' of rank 0, tag 0, 0.000000005 s before it was sent")],
        ),
        "collective operations left before others entered them": (
            3,
            [
                (45, 1, f"ends barrier on {on} 0.000000005 s {ends}"),
                (101, 0, f"ends bcast on {on} 0.000000001 s {ends}"),
                (111, 0, f"ends reduce on {on} 0.000000001 s {ends}"),
            ],
        ),
    }


def test_collectives__order_and_participants(archive, violated):
    mpi = archive.mpi(3)
    a, b, c = mpi.ranks
    a.collective(0, 9, mpi.world, "barrier").collective(10, 19, mpi.world, "bcast", 0)
    b.collective(0, 9, mpi.world, "barrier").collective(10, 19, mpi.world, "bcast", 0)
    c.collective(1, 9, mpi.world, "scan")
    on = "communicator 0 'MPI_COMM_WORLD'"
    assert violated(archive) == {
        "collective operations that lack participants": (
            1,
            [(10, 0, f"bcast on {on}: 2 of 3 participants, first missing rank 2")],
        ),
        "collective operations whose participants disagree": (
            1,
            [(0, 0, f"barrier of rank 0 on {on} is scan of rank 2")],
        ),
    }


def test_collectives__roots_differ(archive, violated):
    mpi = archive.mpi(3)
    for rank, one in enumerate(mpi.ranks):
        one.collective(0, 9, mpi.world, "bcast", 1, 8, 8).collective(10, 19, mpi.world, "reduce", rank // 2, 8, 8)
    assert violated(archive) == {
        "collective operations whose participants disagree": (
            1,
            [(10, 0, "participants of reduce on communicator 0 'MPI_COMM_WORLD' have different roots: ranks 0, 1")],
        )
    }


def test_collectives__of_processes_that_are_not_members(archive, violated):
    mpi = archive.mpi(3)
    two = archive.comm("two", [0, 1], mpi.world)
    for rank, one in enumerate(mpi.ranks):
        one.collective(rank, 9, two, "barrier")
    assert violated(archive) == {
        "participants of collective operations that are not members of the communicator": (
            1,
            [(2, 2, f"barrier on communicator {two} 'two'")],
        )
    }


def test_collectives__roots_that_are_not_members(archive, violated):
    mpi = archive.mpi(2)
    for rank, one in enumerate(mpi.ranks):
        one.collective(rank, 9, mpi.world, "bcast", 2, 8, 8)
    assert violated(archive) == {
        "collective operations whose root is not a member of the communicator": (
            1,
            [(0, 0, "bcast on communicator 0 'MPI_COMM_WORLD' has rank 2 as its root: there are 2 ranks")],
        )
    }


def test_collectives__groups_of_inter_communicators_name_the_root_differently(archive, violated):
    """In the group of the root it is recorded as the root, or not at all."""
    mpi = archive.mpi(4)
    inter = archive.inter_comm([0, 1], [2, 3], mpi.world)
    for one, root in zip(mpi.ranks, (None, 0xFFFFFFFE, 1, 1), strict=True):
        one.collective(0, 9, inter, "bcast", root, 8, 8)
    assert violated(archive) == {}


def test_collectives__missing_members_of_inter_communicators_are_ranks_of_the_trace(archive, violated):
    mpi = archive.mpi(4)
    inter = archive.inter_comm([3, 0], [1, 2], mpi.world)
    for rank in (1, 3):
        mpi.ranks[rank].collective(0, 9, inter, "barrier")
    (_, [(_, _, words)]) = violated(archive)["collective operations that lack participants"]
    assert words.endswith("2 of 4 participants, first missing ranks 0, 2 of the trace")


def test_collectives__members_of_inter_communicators_are_ranks_of_the_trace(archive, violated):
    mpi = archive.mpi(2)
    inter = archive.inter_comm([1], [0], mpi.world)
    for rank, op in zip(mpi.ranks, ("barrier", "allreduce"), strict=True):
        rank.collective(0, 9, inter, op)
    (_, [(_, _, words)]) = violated(archive)["collective operations whose participants disagree"]
    assert words.startswith("barrier of rank 0 of the trace on ") and words.endswith(
        " is allreduce of rank 1 of the trace"
    )


def test_collectives__at_most_four_missing_ranks_are_named(archive, violated):
    mpi = archive.mpi(6)
    mpi.ranks[1].collective(0, 9, mpi.world, "barrier")
    (_, [(_, _, words)]) = violated(archive)["collective operations that lack participants"]
    assert words.endswith("1 of 6 participants, first missing ranks 0, 2, 3, 4")


def test_collectives__non_blocking_ones_and_those_on_files(archive, violated):
    mpi = archive.mpi(2)
    archive.region("MPI_File_open", "file_io_metadata", "mpi")
    file, name = archive.define("IoRegularFile", name=archive.string("data"), scope=0), archive.string("")
    handle = archive.define(
        "IoHandle", name=name, file=file, io_paradigm=0, io_handle_flags=0, comm=mpi.world, parent=None
    )
    for one in mpi.ranks:
        one.enter(1, "MPI_Ibarrier").start_collective(1, 0).leave(2, "MPI_Ibarrier")
    a = mpi.ranks[0].enter(3, "MPI_Wait").complete_collective(4, "barrier", 0, communicator=mpi.world)
    a.leave(5, "MPI_Wait").enter(10, "MPI_File_open")
    a.record(11, "IoCreateHandle", handle=handle, mode=0, creation_flags=0, status_flags=0).leave(12, "MPI_File_open")
    assert violated(archive) == {
        "non-blocking collective operations that are never completed": (1, []),
        "non-blocking collective operations that lack participants": (1, []),
        "collective operations on files that lack participants": (1, []),
    }


def test_constructs__order_and_threads(archive, violated):
    (a, b), team = archive.openmp(2)
    a.fork(0, 2).begin_team(1, team).enter(2, PARALLEL).call(3, 4, LOOP).call(5, 6, BARRIER).leave(9, PARALLEL)
    a.end_team(9, team).join(10)
    b.begin_team(1, team).enter(2, PARALLEL).call(3, 4, "!$omp for @a.c:9").leave(9, PARALLEL).end_team(9, team)
    assert violated(archive) == {
        "constructs that lack threads": (1, [(5, 0, f"'{BARRIER}': 1 of 2 threads")]),
        "constructs in different order": (1, [(3, 0, f"'{LOOP}' at location 0 is '!$omp for @a.c:9' at location 1")]),
    }


def test_teams__without_fork(archive, violated):
    (a, b), team = archive.openmp(2)
    a.enter(0, "main").leave(9, "main")
    b.call(1, 2, "warm up").begin_team(3, team).call(4, 5, PARALLEL).end_team(6, team)
    found = violated(archive)
    assert found["teams without a recorded FORK"] == (1, [(3, 1, "begins in communicator 0, which has no FORK")])


def test_teams__ends_without_a_begin_in_the_team(archive, violated):
    (a, b), team = archive.openmp(2)
    other = archive.comm("", range(2), paradigm="openmp")
    a.end_team(0, team).fork(0, 2).begin_team(1, team).end_team(9, team).join(10)
    b.begin_team(1, team).end_team(8, other).end_team(9, team)
    assert violated(archive) == {
        "ends of teams that do not match their begin": (
            3,
            [
                (0, 0, "ends in communicator 0 outside of all teams"),
                (8, 1, f"ends in communicator {other} inside communicator 0"),
                (9, 1, "ends in communicator 0 outside of all teams"),
            ],
        )
    }


def test_tasks__completed_again(archive, violated):
    """A number may be used again for a task that is created later."""
    (a, b), team = archive.openmp(2)
    a.fork(0, 2).begin_team(1, team)
    for at in (2, 5):
        a.create_task(at, (0, 1), team).switch_task(at + 1, (0, 1), team).complete_task(at + 2, (0, 1), team)
    b.begin_team(1, team).complete_task(8, (0, 1), team).end_team(9, team)
    a.end_team(9, team).join(10)
    assert violated(archive) == {
        "tasks that are completed again": (1, [(8, 1, "completes task 1 of thread 0, which location 0 has completed")])
    }


def test_locks__alternate(archive, violated):
    (a, b), _team = archive.openmp(2)
    # lock 1 is acquired twice (nested); lock 2 is acquired and released while another thread holds it; lock 3 is kept
    a.acquire(1, 1, 1).acquire(2, 1, 2).release(3, 1, 2).release(4, 1, 1).acquire(10, 2, 1)
    b.acquire(12, 2, 2)
    a.release(14, 2, 1)
    b.release(16, 2, 2).release(20, 3, 0).acquire(21, 3, 1)
    assert violated(archive, 9) == {
        "lock events that do not alternate": (
            4,
            [
                (12, 1, "acquires lock 2, which location 0 has not released"),
                (14, 0, "releases lock 2, which location 1 holds"),
                (16, 1, "releases lock 2, which location 0 holds"),
                (20, 1, "releases lock 3, which nobody holds"),
            ],
        ),
        "locks that were never released": (1, [(21, 1, "holds lock 3 at the end")]),
    }


def test_locks__nested_ones_alternate_and_are_reported_once(archive, violated):
    """Levels share one acquisition number."""
    (a, b), _team = archive.openmp(2)
    a.acquire(1, 1, 1).acquire(2, 1, 1).acquire(3, 1, 1).release(4, 1, 1).release(5, 1, 1).release(6, 1, 1)
    b.acquire(7, 1, 2).acquire(8, 1, 2).release(9, 1, 2)
    assert violated(archive, 9) == {"locks that were never released": (1, [(9, 1, "holds lock 1 at the end")])}


def test_first__the_earliest_of_all_locations(archive, violated):
    mpi = archive.mpi(3)
    for rank, start in zip(mpi.ranks, (50, 10, 30), strict=True):
        rank.enter(0, "MPI_Send")
        for k in range(5):
            rank.send(start + k, 0, mpi.world, 1)
        rank.leave(90, "MPI_Send")
    ((count, first),) = violated(archive, 7).values()
    assert count == 15
    assert [(t, x) for t, x, _ in first] == [(10, 1), (11, 1), (12, 1), (13, 1), (14, 1), (30, 2), (31, 2)]


quick = settings(max_examples=15)


@pytest.mark.slow
@quick
@given(seed=st.integers(0, 1 << 32))
def test_random_programs__violate_nothing_but_what_was_cut(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("random")
    model = RandomProgram(seed, folder / "traces.otf2", 40).model(folder)
    # the recording ends prematurely: no other constraint may be violated
    allowed = {
        "region instances that never end",
        "sends without receive",
        "collective operations that lack participants",
    }
    found = {v.constraint.name: v.count for v in find_violations(model)}
    # processes of these programs do not wait for each other in barriers
    found.pop("collective operations left before others entered them", 0)
    assert found.keys() <= allowed
    known = counts(model)
    assert {k: known.get(k, 0) for k in allowed} == {k: found.get(k, 0) for k in allowed}


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="no reference traces beside the repository")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # message clocks: compared with the counts in the notes of the analysis
        ("otf2/sweep3d_4/traces.otf2", {"messages received before they were sent": 18}),
        ("otf2/hybrid_multi/traces.otf2", {"sends without receive": 16}),
        ("otf2/late_sender/traces.otf2", {}),
        # EPILOG records the release of a lock when the call returns: another thread may hold it by then
        ("epilog/omp_1x3/epik.elg", {"lock events that do not alternate": 10}),
        ("epilog/p2p_4/epik.elg", {}),
    ],
)
def test_recorded__violations_are_counted(name, expected, tmp_path):
    model = enhance(Store(tracecols.convert(SHARED / name, tmp_path / "x.trace")), 1)
    assert {v.constraint.name: v.count for v in find_violations(model)} == expected


def test_parts__do_not_change_what_is_found(archive, enhance, monkeypatch):
    mpi = archive.mpi(2, 2)
    for threads, team in zip(mpi.threads, mpi.teams, strict=True):
        a, b = threads
        a.fork(0, 2).begin_team(1, team).enter(2, PARALLEL).acquire(3, 1, 1).leave(9, PARALLEL).end_team(9, team).join(
            10
        )
        b.begin_team(1, team).enter(2, PARALLEL).acquire(4, 1, 2).call(5, 6, LOOP).leave(9, PARALLEL).end_team(9, team)
        a.enter(20, "MPI_Send").send(21, 0, mpi.world, 3).leave(22, "MPI_Send")
    whole = find_violations(enhance(archive))
    monkeypatch.setattr(model_module, "PARTITION_ROWS", 1)
    assert find_violations(enhance(archive)) == whole
    assert len(whole) == 4


def test_command__tells_count_time_and_names(archive, tmp_path):
    mpi = archive.mpi(2)
    a, _ = mpi.ranks
    a.enter(0, "MPI_Send")
    for k in range(5):
        a.send(1000 + k, 1, mpi.world, 7, 64)
    a.leave(2000, "MPI_Send")
    store = tracecols.convert(archive.write(), tmp_path / "x.trace")
    output = executed("check", store, "--rows", "1", code=1)
    assert output == (
        "           5  sends without receive\n"
        "               0.000001000 s  location 0 'Master thread' of rank 0 sends 64 bytes to rank 1 of communicator 0 "
        "'MPI_COMM_WORLD', tag 7, in 'MPI_Send'\n"
        "                              and 4 more\n"
    )
    assert list(lines(check_trace(enhance(Store(store), 1), 0))) == ["           5  sends without receive"]


@pytest.mark.parametrize(("early", "code"), [(390, 0), (1000, 0), (1001, 1)])
def test_command__clocks_that_disagree_by_less_than_they_can_be_read_are_noted(archive, tmp_path, early, code):
    """0.39 us of skew between two processors are no contradiction, however many messages show them; ticks are ns."""
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.enter(0, "MPI_Send").send(5000, 1, mpi.world, 7, 64).leave(6000, "MPI_Send")
    b.enter(0, "MPI_Recv").receive(5000 - early, 0, mpi.world, 7, 64).leave(6000, "MPI_Recv")
    store = tracecols.convert(archive.write(), tmp_path / "x.trace")
    result = run("check", store)
    assert result.exit_code == code
    found = json.loads(run("check", store, "--json").stdout)
    assert found["contradicts"] == bool(code)
    assert found["clock_skew"] == pytest.approx(early * 1e-9)
    assert [v["constraint"] for v in found["violations"]] == ["messages received before they were sent"]
    assert "tracecols convert --correct-clocks" in result.output
    if code:
        assert "1  message received before it was sent\n" in result.stdout
    else:
        assert result.stdout == "nothing contradicts itself\n"
        assert "note: clocks disagree by up to" in result.stderr


def test_command__of_no_store_is_an_error(tmp_path):
    assert "no such store" in executed("check", tmp_path / "no.trace", code=1)
    assert run("check").exit_code == 2


def test_constraints__are_told_apart():
    assert len({c.name for c in CONSTRAINTS}) == len({c.holds for c in CONSTRAINTS}) == len(CONSTRAINTS)
