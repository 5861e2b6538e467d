"""Wait states of collective operations, their counts and volumes: times in ticks, worked out by hand."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from support.laws import same
from support.severities import cells, cube_of

from tracecols.schema.notes import CONVENTIONS as DIFFERENCES
from tracecols.search.cube import analyze_model
from tracecols.testing import Program, severities

WAITS = (
    "mpi_barrier_wait", "mpi_barrier_completion", "mpi_earlyreduce", "mpi_earlyscan", "mpi_latebroadcast", "mpi_wait_nxn",
    "mpi_nxn_completion",
)  # fmt: skip


THREE = [(10, 45), (25, 46), (40, 50)]
"""Begin and end of three ranks: the last begins at 40, the first ends at 45."""
APART = [(10, 30), (25, 46), (40, 50)]
"""The same with inconsistent clocks: rank 0 ends before rank 2 begins."""


class Case(NamedTuple):
    """One operation: begin and end of each rank, and the expected non-empty `WAITS`, named without `mpi_`."""

    op: str
    times: list[tuple[int, int]]
    expected: dict[str, dict[int, int]]
    sent: int | list[int] = 8
    received: int | list[int] = 8
    root: int | None = None
    ranks: tuple[int, ...] = ()
    """The members of its communicator; by default, the first ranks."""


CASES = {
    "barrier: until the last begins, after the first ends": Case(
        "barrier", THREE, {"barrier_wait": {0: 30, 1: 15}, "barrier_completion": {1: 1, 2: 5}}, 0, 0
    ),
    "barrier: all at once": Case("barrier", [(10, 20), (10, 20), (10, 20)], {}, 0, 0),
    # 0 waits to its end (30 - 10), and nothing completes before 40
    "barrier: clocks are off": Case(
        "barrier", APART, {"barrier_wait": {0: 20, 1: 15}, "barrier_completion": {1: 6, 2: 10}}, 0, 0
    ),
    "barrier: ends as the last begins": Case(
        "barrier", [(10, 40), (25, 40), (40, 50)], {"barrier_wait": {0: 30, 1: 15}, "barrier_completion": {2: 10}}, 0, 0
    ),
    "barrier: of a part concerns the part": Case(
        "barrier", [(10, 50), (20, 50)], {"barrier_wait": {2: 10}}, 0, 0, ranks=(2, 0)
    ),
    **{
        f"n to n: {op}, everyone takes part": Case(
            op, THREE, {"wait_nxn": {0: 30, 1: 15}, "nxn_completion": {1: 1, 2: 5}}
        )
        for op in ("allgather", "allgatherv", "alltoall", "allreduce", "reduce_scatter", "reduce_scatter_block")
    },
    # 0 ends at 30, before 2 begins at 40: only senders can be waited for; the latest is 1 at 25.
    # 0 receives and began before: it waits 25 - 10. 1 is that sender. 2 began later: it is not counted.
    # the earliest end of 0 and 1 is 30: 1 completes 46 - 30.
    "n to n: wait for the latest sender": Case(
        "allgatherv", APART, {"wait_nxn": {0: 15}, "nxn_completion": {1: 16}}, [8, 8, 0]
    ),
    # 2 sends and begins at 40, after 0 has ended: 0 waits until its end, 20; 1 receives: 15; completion from 40 on
    "n to n: the latest sends": Case("allreduce", APART, {"wait_nxn": {0: 20, 1: 15}, "nxn_completion": {1: 6, 2: 10}}),
    # as before, but 1 receives nothing: it neither waits nor completes
    "n to n: only receivers wait": Case(
        "alltoall", APART, {"wait_nxn": {0: 20}, "nxn_completion": {2: 10}}, 8, [8, 0, 8]
    ),
    # 0 ends at 40, when 2 begins, which sends nothing: the latest sender is 1 at 25
    "n to n: an end as the latest begins is no overlap": Case(
        "allgatherv", [(10, 40), (25, 46), (40, 50)], {"wait_nxn": {0: 15}, "nxn_completion": {1: 6}}, [8, 8, 0]
    ),
    # 1 and 2 send, and begin last at 25: only the first of them takes part; 0 and 1 end from 30 on
    "n to n: of equal senders one takes part": Case(
        "allgatherv",
        [(10, 30), (25, 46), (25, 50), (40, 60)],
        {"wait_nxn": {0: 15}, "nxn_completion": {1: 16}},
        [8, 8, 8, 0],
    ),
    "n to n: without bytes": Case("allreduce", THREE, {}, 0, 0),
    "n to n: of one process": Case("allreduce", [(10, 45)], {}),
    "n to n: counts per pair, v": Case("alltoallv", THREE, {}),
    "n to n: counts per pair, w": Case("alltoallw", THREE, {}),
    # root 1 begins at 30: 0 waits 20; 2 began later; 3 at the same time
    **{
        f"1 to n: receivers of {op} wait for the root": Case(
            op,
            [(10, 45), (30, 46), (40, 50), (30, 50)],
            {"latebroadcast": {0: 20}},
            [0, 24, 0, 0],
            [8, 0, 8, 8],
            root=1,
        )
        for op in ("bcast", "scatter", "scatterv")
    },
    "1 to n: clipped at the own end": Case(
        "bcast", [(10, 25), (30, 46)], {"latebroadcast": {0: 15}}, [0, 8], [8, 0], root=1
    ),
    "1 to n: who receives nothing": Case(
        "scatterv", [(10, 45), (30, 46), (10, 50)], {"latebroadcast": {0: 20}}, [0, 8, 0], [8, 0, 0], root=1
    ),
    "1 to n: a root that sends nothing": Case("bcast", [(10, 45), (30, 46)], {}, 0, [8, 0], root=1),
    # rank 0 of (2, 0) is process 2
    "1 to n: a rank of the communicator": Case(
        "bcast", [(30, 45), (10, 46)], {"latebroadcast": {0: 20}}, [8, 0], [0, 8], 0, (2, 0)
    ),
    # root 1 begins at 10, the last sender at 40
    **{
        f"n to 1: the root of {op} waits for the last": Case(
            op, [(20, 45), (10, 46), (40, 50)], {"earlyreduce": {1: 30}}, 8, [0, 24, 0], root=1
        )
        for op in ("reduce", "gather", "gatherv")
    },
    "n to 1: who sends nothing": Case(
        "gatherv", [(20, 45), (10, 46), (40, 50)], {"earlyreduce": {1: 10}}, [8, 0, 0], [0, 8, 0], root=1
    ),
    "n to 1: clipped at the own end": Case(
        "reduce", [(10, 25), (30, 46)], {"earlyreduce": {0: 15}}, 8, [16, 0], root=0
    ),
    "n to 1: a root that comes last": Case("reduce", [(40, 50), (20, 45)], {}, 8, [16, 0], root=0),
    "n to 1: a root that comes with the last": Case("reduce", [(20, 50), (20, 45)], {}, 8, [16, 0], root=0),
    "n to 1: a root that receives nothing": Case("reduce", [(10, 50), (40, 50)], {}, 0, 0, root=0),
    # 1 waits for 0 (30 - 10), so does 2 (30 - 20); 3 began last, at 40, and does not wait, nor does 0
    **{
        f"{op}: waits for lower ranks": Case(
            op, [(30, 50), (10, 50), (20, 50), (40, 50)], {"earlyscan": {1: 20, 2: 10}}
        )
        for op in ("scan", "exscan")
    },
    "scan: higher ranks are not waited for": Case("scan", [(10, 50), (40, 50)], {}),
    "scan: who sends nothing": Case("scan", [(20, 50), (40, 50), (10, 50)], {"earlyscan": {2: 10}}, [8, 0, 8]),
    "scan: clipped at the own end": Case("scan", [(40, 50), (10, 25)], {"earlyscan": {1: 15}}),
    # process 1 is rank 0
    "scan: ranks of the communicator": Case("scan", [(30, 50), (10, 50)], {"earlyscan": {0: 20}}, ranks=(1, 0)),
}
"""Cases by description."""


def test_operations__wait_as_their_kind_does(archive, analyze):
    """All cases run in one program, each in a separate region."""
    mpi = archive.mpi(4)
    comms = {}
    for k, (name, of) in enumerate(CASES.items()):
        members = of.ranks or tuple(range(len(of.times)))
        if members not in comms:
            comms[members] = archive.comm(str(members), members)
        for i, (member, (begin, end)) in enumerate(zip(members, of.times, strict=True)):
            sent, received = (v[i] if isinstance(v, list) else v for v in (of.sent, of.received))
            rank = mpi.ranks[member].enter(100 * k, name)
            rank.collective(100 * k + begin, 100 * k + end, comms[members], of.op, of.root, sent, received)
            rank.leave(100 * k + 60)
    cube = analyze(archive)
    got = {name: {} for name in CASES}
    for name in WAITS:
        of = cube.cells[name]
        for path, location, value in zip(of.call_path.tolist(), of.location.tolist(), of.value.tolist(), strict=True):
            got[cube.call_paths.path[path].partition("/")[0]].setdefault(name.removeprefix("mpi_"), {})[location] = (
                value
            )
    assert got == {name: of.expected for name, of in CASES.items()}


def test_barrier__of_one_process_is_ignored(archive, analyze):
    mpi = archive.mpi(2)
    own = archive.comm_self()
    alone = archive.comm("alone", [1])
    for i, rank in enumerate(mpi.ranks):
        rank.collective(10 + 10 * i, 40 + i, own, "barrier")
    mpi.ranks[1].collective(50, 60, alone, "barrier")
    cube = analyze(archive)
    assert all(not cells(cube, name) for name in WAITS)
    assert cells(cube, "syncs_coll") == {("MPI_Barrier", 0): 1, ("MPI_Barrier", 1): 2}


def test_barrier__uses_begin_and_end_of_the_operation_not_of_the_call(archive, analyze):
    mpi = archive.mpi(2)
    end = {"op": 0, "communicator": mpi.world, "root": None, "sent": 0, "received": 0}
    for rank, begin in zip(mpi.ranks, (15, 30), strict=True):
        rank.enter(10, "MPI_Barrier").begin_collective(begin).record(40, "MpiCollectiveEnd", **end).leave(
            90, "MPI_Barrier"
        )
    cube = analyze(archive)
    assert cells(cube, "mpi_barrier_wait") == {("MPI_Barrier", 0): 15}
    assert cells(cube, "mpi_barrier_completion") == {}


def test_scan__several_operations_do_not_mix(archive, analyze):
    mpi = archive.mpi(2)
    # in the second scan, rank 0 begins before rank 1; the times of the first scan must not matter
    mpi.ranks[0].collective(30, 50, mpi.world, "scan", None, 8, 8).collective(60, 90, mpi.world, "scan", None, 8, 8)
    mpi.ranks[1].collective(10, 50, mpi.world, "scan", None, 8, 8).collective(70, 90, mpi.world, "scan", None, 8, 8)
    assert cells(analyze(archive), "mpi_earlyscan") == {("MPI_Scan", 1): 20}


# -- missing members ---------------------------------------------------------------------------------------------------


def test_members__that_lack_are_not_waited_for(archive, analyze):
    mpi = archive.mpi(3)
    for rank, begin in zip(mpi.ranks[:2], (10, 25), strict=True):
        rank.collective(begin, 50, mpi.world, "barrier")
    cube = analyze(archive)
    assert cells(cube, "mpi_barrier_wait") == {("MPI_Barrier", 0): 15}
    assert cube.facts["counts"]["collective operations that lack participants"] == 1


# -- MPI_Init and MPI_Finalize -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name", "times", "expected"),
    [
        # completion after the first has left, but not before the last has entered
        ("MPI_Init", "mpi_init_completion", [(0, 20), (5, 26)], {1: 6}),
        ("MPI_Init", "mpi_init_completion", [(0, 20), (5, 20)], {}),
        ("MPI_Init", "mpi_init_completion", [(0, 20), (25, 40)], {1: 15}),
        # wait until the last has entered, but not beyond the own exit
        ("MPI_Finalize", "mpi_finalize_wait", [(10, 50), (40, 51)], {0: 30}),
        ("MPI_Finalize", "mpi_finalize_wait", [(40, 50), (40, 51)], {}),
        ("MPI_Finalize", "mpi_finalize_wait", [(10, 30), (40, 51)], {0: 20}),
    ],
)
def test_init_and_finalize__complete_after_the_first_and_wait_for_the_last(
    archive, analyze, call, name, times, expected
):
    for rank, (t, x) in zip(archive.mpi(2).ranks, times, strict=True):
        rank.call(t, x, call)
    assert cells(analyze(archive), name) == {(call, rank): value for rank, value in expected.items()}


def test_init__waiting_is_no_wait_state(archive, analyze):
    mpi = archive.mpi(2)
    mpi.ranks[0].call(0, 20, "MPI_Init_thread")
    mpi.ranks[1].call(15, 20, "MPI_Init_thread")
    cube = analyze(archive)
    assert cells(cube, "mpi_init_completion") == cells(cube, "mpi_finalize_wait") == {}
    assert cells(cube, "mpi_init_exit") == {("MPI_Init_thread", 0): 20, ("MPI_Init_thread", 1): 5}


def test_finalize__that_the_last_process_never_leaves_is_its_delay(archive, analyze):
    first, last, inside = archive.mpi(3).ranks
    for rank in first, last, inside:
        rank.enter(0, "main").call(1, 2, "MPI_Init")
    first.call(5, 21, "MPI_Finalize").leave(22)
    last.enter(20, "MPI_Finalize")
    inside.enter(10, "MPI_Finalize").call(12, 14, "at exit")
    cube = analyze(archive)
    assert cells(cube, "mpi_finalize_wait") == {("MPI_Finalize", 0): 15}
    assert cells(cube, "delay_startup") == {("main", 1): 15}


# -- counts and volumes ------------------------------------------------------------------------------------------------


def test_counts__by_who_sends_and_who_receives(archive, analyze):
    mpi = archive.mpi(2)
    a, b = mpi.ranks
    a.collective(10, 20, mpi.world, "bcast", 0, 8, 0).collective(30, 40, mpi.world, "allreduce", None, 4, 6)
    b.collective(10, 20, mpi.world, "bcast", 0, 0, 8).collective(30, 40, mpi.world, "allreduce", None, 4, 6)
    for rank in mpi.ranks:
        rank.collective(50, 60, mpi.world, "barrier").collective(70, 80, mpi.world, "alltoallv", None, 0, 0)
    cube = analyze(archive)
    assert cells(cube, "comms_csrc") == {("MPI_Bcast", 0): 1}
    assert cells(cube, "comms_cdst") == {("MPI_Bcast", 1): 1}
    assert cells(cube, "comms_cxch") == {("MPI_Allreduce", 0): 1, ("MPI_Allreduce", 1): 1}
    assert cells(cube, "syncs_coll") == {(f"MPI_{name}", r): 1 for name in ("Barrier", "Alltoallv") for r in (0, 1)}
    assert cells(cube, "bytes_cout") == {("MPI_Bcast", 0): 8, ("MPI_Allreduce", 0): 4, ("MPI_Allreduce", 1): 4}
    assert cells(cube, "bytes_cin") == {("MPI_Bcast", 1): 8, ("MPI_Allreduce", 0): 6, ("MPI_Allreduce", 1): 6}
    assert cube.total("comms_coll") == 4


# -- operations on handles ---------------------------------------------------------------------------------------------


def with_handles(mpi, ends=(60, 60), call="MPI_Comm_split", op="create_handle"):
    """Start MPI, split a communicator and end MPI, as Score-P 8 records it: with collective records for operations on
    handles."""
    for rank, init, begin, end in zip(mpi.ranks, (0, 4), (20, 50), ends, strict=True):
        rank.collective(init, 10, mpi.world, "create_handle", region="MPI_Init")
        rank.collective(begin, end, mpi.world, op, region=call)
        rank.collective(70, 90, mpi.world, "destroy_handle", region="MPI_Finalize")


@pytest.mark.parametrize("conventions", ["exact", "scalasca"])
def test_handles__are_no_synchronisations_whatever_records_them(archive, analyze, conventions):
    mpi = archive.mpi(2)
    with_handles(mpi)
    for rank in mpi.ranks:
        rank.collective(100, 110, mpi.world, "barrier")
    cube = analyze(archive, conventions)
    assert cells(cube, "syncs_coll") == {("MPI_Barrier", 0): 1, ("MPI_Barrier", 1): 1}
    for name in ("comms_coll", "bytes_coll", "mpi_barrier_wait", "mpi_wait_nxn"):
        assert cells(cube, name) == {}


@pytest.mark.parametrize("conventions", ["exact", "scalasca"])
@pytest.mark.parametrize(("call", "op"), [
    ("MPI_Comm_split", "create_handle"), ("MPI_Cart_create", "create_handle"), ("MPI_Comm_free", "destroy_handle"),
])  # fmt: skip
def test_handles__of_communicators_are_waited_for(archive, analyze, conventions, call, op):
    with_handles(archive.mpi(2), call=call, op=op)
    cube = analyze(archive, conventions)
    assert cells(cube, "mpi_mgmt_comm_wait") == {(call, 0): 30}
    # waits at start and end of MPI are the same as without the records
    if conventions == "exact":
        assert cells(cube, "mpi_init_wait") == {("MPI_Init", 0): 4}
    assert cells(cube, "mpi_finalize_wait") == {}


def test_handles__that_are_left_before_the_last_has_come_are_not_waited_for(archive, analyze):
    # MPI_Comm_free of the first ends at 40, before the second enters it
    with_handles(archive.mpi(2), ends=(40, 60), call="MPI_Comm_free", op="destroy_handle")
    assert cells(analyze(archive), "mpi_mgmt_comm_wait") == {}


def test_handles__say_who_lets_others_wait(archive, opened):
    with_handles(archive.mpi(2))
    waits = opened(archive).frame("waits", raw=True)
    (wait,) = (row for row in waits.itertuples() if row.property == "mpi_mgmt_comm_wait")
    assert (wait.begin_time, wait.end_time, wait.cause_location, wait.cause_time) == (20, 50, 1, 50)


# -- non-blocking operations -------------------------------------------------------------------------------------------


def started(archive, op, root=None, starts=(10, 40, 70), last=2):
    """Let three processes start an operation and complete it from 10 after their start to 75, 76, 90; the second
    sends."""
    mpi = archive.mpi(3)
    for p, (rank, start) in enumerate(zip(mpi.ranks, starts, strict=True)):
        rank.enter(0, "main").enter(start, "MPI_Istart").start_collective(start + 1, 3)
        rank.leave(start + 2, "MPI_Istart").enter(start + 10, "MPI_Wait")
        end = (75, 76, 90)[p]
        if p <= last:
            given = {"root": root, "sent": 8 * (p == 1), "received": 8, "communicator": mpi.world}
            rank.complete_collective(end - 1, op, 3, **given)
        rank.leave(end, "MPI_Wait").leave(100, "main")
    return mpi


@pytest.mark.parametrize(("op", "root", "expected"), [
    # the last process starts at 70: waits from 20 and from 50
    ("barrier", None, {0: 50, 1: 20}),
    ("create_handle", None, {0: 50, 1: 20}),
    # only the process that starts at 40 sends
    ("allreduce", None, {0: 20}),
    ("alltoallv", None, {0: 20}),
    # if the root starts last, the others wait for it; if first, nobody does
    ("bcast", 1, {0: 20}),
    # nothing is sent
    ("bcast", 2, {}),
    # the root waits for the sender
    ("gather", 0, {0: 20}),
    ("gather", 2, {}),
    ("scan", None, {}),
])  # fmt: skip
def test_nonblocking__waits_count_in_the_call_that_completes(archive, analyze, op, root, expected):
    started(archive, op, root)
    cube = analyze(archive)
    found = cube.cells["mpi_nonblocking_collective_wait"]
    assert dict(zip(found.location.tolist(), found.value.tolist(), strict=True)) == expected
    assert {cube.call_paths.path[i] for i in found.call_path.tolist()} <= {"main/MPI_Wait"}
    assert [note for note in cube.facts["counts"] if not note.startswith(DIFFERENCES)] == []


def test_nonblocking__prefix_operations_wait_for_lower_ranks_that_send(archive, analyze):
    # rank 1 sends and starts at 40; rank 2 waits from 20 on. Rank 0 starts at 60 and sends nothing
    started(archive, "scan", starts=(60, 40, 10))
    cube = analyze(archive)
    assert cells(cube, "mpi_nonblocking_collective_wait") == {("MPI_Wait", 2): 20}
    assert cells(cube, "delay_nonblocking_aggregate") == {("main", 1): 20}


def test_nonblocking__alltoallv_waits_for_nobody_who_starts_after_its_end():
    program = Program(processes=3)
    for rank, start, end in zip(program.masters, (10, 30, 70), (60, 61, 80), strict=True):
        rank.enter(0, "main").enter(start, "MPI_Ialltoallv").start_collective(start).leave(start)
        rank.enter(start + 5, "MPI_Wait").complete_collective(end, "alltoallv", sent=8, received=8).leave(end)
    cube = cube_of(program)
    assert severities(cube, "mpi_nonblocking_collective_wait") == {("main/MPI_Wait", 0): 15}
    assert severities(cube, "delay_nonblocking_aggregate") == {("main", 1): 15}


def test_nonblocking__without_recorded_sizes_all_send_and_receive():
    program = Program(processes=3)
    for rank, start in zip(program.masters, (10, 30, 70), strict=True):
        rank.enter(0, "main").enter(start, "MPI_Iallreduce").start_collective(start).leave(start)
        rank.enter(start + 5, "MPI_Wait").complete_collective(80, "allreduce").leave(80)
    cube = cube_of(program)
    assert severities(cube, "mpi_nonblocking_collective_wait") == {("main/MPI_Wait", 0): 55, ("main/MPI_Wait", 1): 35}


def test_nonblocking__of_several_in_one_call_the_longest_counts(archive, analyze):
    mpi = archive.mpi(2)
    for rank, starts in zip(mpi.ranks, ((10, 12), (40, 60)), strict=True):
        rank.enter(0, "main")
        for request, start in enumerate(starts):
            rank.enter(start, "MPI_Ibarrier").start_collective(start, request)
            rank.leave(start + 1, "MPI_Ibarrier")
        rank.enter(starts[1] + 5, "MPI_Waitall")
        # completed in a different order than started
        for request in (1, 0):
            rank.complete_collective(80, "barrier", request, communicator=mpi.world)
        rank.leave(81, "MPI_Waitall").leave(100, "main")
    found = analyze(archive).cells["mpi_nonblocking_collective_wait"]
    # process 0 waits for the second operation from 17 to 60
    assert dict(zip(found.location.tolist(), found.value.tolist(), strict=True)) == {0: 43}


def test_nonblocking__that_lack_participants_are_counted(archive, enhance):
    started(archive, "allreduce", last=1)
    cube = analyze_model(enhance(archive))
    assert not len(cube.cells["mpi_nonblocking_collective_wait"])
    assert cube.facts["counts"] == {
        "non-blocking collective operations that are never completed": 1,
        "non-blocking collective operations that lack participants": 1,
    }


def test_nonblocking__partitions_change_nothing(archive, enhance, monkeypatch):
    started(archive, "allreduce")
    one = analyze_model(enhance(archive))
    monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 2)
    model = enhance(archive, 2)
    with model.divided() as run:
        assert len(run.division) > 1
    same(one, analyze_model(model))


@pytest.mark.parametrize("roots", [(-2, -3, 0, 0), (0, 0, -2, -3)])
def test_inter_communicators__the_other_group_waits_for_the_root(roots, archive, analyze):
    """OTF2: the root records SELF (-2), the others of its group THIS_GROUP (-3), and the other group its rank."""
    mpi = archive.mpi(4)
    inter = archive.inter_comm([0, 1], [2, 3], mpi.world)
    for rank, root in zip(mpi.ranks, roots, strict=True):
        rank.enter(0, "main")
        rank.collective(30 if root == -2 else 5, 40, inter, "bcast", root, 8 * (root == -2), 8 * (root == 0))
        rank.leave(50, "main")
    waiting = [rank for rank, root in enumerate(roots) if root == 0]
    assert cells(analyze(archive), "mpi_latebroadcast") == {("MPI_Bcast", rank): 25 for rank in waiting}
