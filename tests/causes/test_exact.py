"""Root causes without the peculiarities of the reference (conventions `exact`): what must hold for every trace, to the
tick."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DATA, SHARED, slow
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command_line import run
from support.epilog_writer import merged
from support.late_senders import FINALIZE, INIT, RECV, SEND, A, B, late_twice
from support.laws import check_laws, check_path, divide, lawful, same, ticks
from support.random_epilog import random_recording
from support.random_programs import RandomProgram
from support.recordings import ALIKE
from support.severities import cube_of

import tracecols
from tracecols.causes.pairs import END, FORK
from tracecols.causes.quirks import NONE, OF_SCALASCA, Quirks
from tracecols.drawings.examples import EXAMPLES
from tracecols.errors import AnalysisError
from tracecols.given.quantities import in_words
from tracecols.kernels import causes, segments
from tracecols.kernels.periods import Labels
from tracecols.kernels.sums import Totals
from tracecols.model.model import enhance
from tracecols.patterns.registry import CONVENTIONS, by_id
from tracecols.schema import EventKind as K
from tracecols.schema.causes import DELAY_IDS, UNKNOWN_DELAYS
from tracecols.schema.enums import PARADIGMS
from tracecols.schema.notes import CONVENTIONS as DIFFERENCES
from tracecols.schema.severity import DEFAULT
from tracecols.search.cube import analyze_model
from tracecols.search.limits import TOO_LONG
from tracecols.store import Store
from tracecols.testing import Program, severities

DELAYS_OF_OPERATIONS = {
    f"delay_{what}_aggregate" for what in ("onesided", "nonblocking", "management", "file", "shmem")
}
"""Delays of the waits that the reference does not know."""

KEPT = sorted(p.parent for p in DATA.glob("*/traces.otf2"))


@pytest.fixture(scope="module")
def stores(store_of):
    """Return the stores of the kept traces by name."""
    return {p.name: Store(store_of(p)) for p in KEPT}


WORKED_OUT = {
    # of the 10 ticks that rank 2 waits, 6 go back to the wait of rank 1
    "delay_latesender": {(A, 0): 6, (A, 1): 1, (RECV, 1): 1, (B, 1): 2},
    "delay_latesender_longterm": {(A, 0): 6},
    # rank 0 waits in MPI_Finalize for rank 1, which has executed B and MPI_Send since they last communicated
    "delay_startup": {(B, 1): 2, (SEND, 1): 1},
    "mpi_wait_indirect_latesender": {(RECV, 2): 6},
    "mpi_wait_propagating_ls": {(RECV, 1): 6},
    # back from the end of rank 0, the first of those that end last; it has waited for rank 1 in MPI_Finalize
    "critical_path": {(FINALIZE, 0): 5, (RECV, 1): 1, (B, 1): 2, (SEND, 1): 1, (A, 0): 10, (INIT, 0): 1},
    # how much less than the path the locations execute, added up: A 6 and 7, B 2 and 2, MPI_Recv 1, MPI_Send 1
    "critical_imbalance_impact": {(A, 0): 13, (RECV, 1): 1, (B, 1): 4, (SEND, 1): 1},
    # rank 0 never visits MPI_Recv and B, rank 2 never visits B and MPI_Send; rank 1 visits all call paths
    "inter_partition_imbalance": {(RECV, 1): 1, (B, 1): 4, (SEND, 1): 1},
    "intra_partition_imbalance": {(A, 0): 13},
}  # fmt: skip


@pytest.mark.parametrize("divided", [False, True])
def test_exact__root_causes_are_those_worked_out_by_hand(divided, monkeypatch):
    if divided:
        monkeypatch.setattr("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1)
    with late_twice().trace() as trace:
        cube = lawful(trace)
    for name, cells in WORKED_OUT.items():
        assert severities(cube, name) == cells, name


@pytest.mark.parametrize("name", ["hybrid_2x3", *slow(p.name for p in KEPT if p.name != "hybrid_2x3")])
def test_exact__laws_hold_on_recorded_traces_however_they_are_divided(name, stores, monkeypatch):
    model = enhance(stores[name], 2)
    whole = analyze_model(model, "exact")
    check_laws(model, whole)
    check_path(model, whole)
    divide(monkeypatch)
    same(whole, analyze_model(enhance(stores[name], 1), "exact"))


def is_long(store):
    """Return whether a run has more ticks than float64 can represent, so that exact laws need integers."""
    return store.manifest["last_time"] - store.manifest["first_time"] > 1 << 53


SHARED_TRACES = sorted(
    p for folder in ("otf2", "otf2_clocks", "epilog") for p in (SHARED / folder).glob("*/") if p.name not in ALIKE
)


@pytest.mark.slow
@pytest.mark.parametrize("folder", SHARED_TRACES, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_exact__laws_hold_on_all_shared_traces(folder, tmp_path):
    """Including traces that the reference refuses: nested teams, teams of several sizes, MPI on any thread, threads
    created by the program."""
    source = next((f for f in (folder / "traces.otf2", *folder.glob("*.elg")) if f.exists()), folder)
    model = enhance(Store(tracecols.convert(source, tmp_path / "x.trace")), 1)
    cube = analyze_model(model)
    check_laws(model, cube)
    check_path(model, cube)
    assert is_long(model.store) == (folder.parent.name == "epilog" and "bgq" not in folder.name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_exact__laws_hold_on_random_epilog_programs_however_they_are_divided(seed, tmp_path, monkeypatch):
    """The runs have more ticks than float64 can represent."""
    recording = random_recording(
        seed, n_processes=2 + seed % 3, n_threads=1 + seed % 2 * 2, n_rounds=12, rma=seed % 3 == 0
    )
    merged(recording).write(tmp_path / "epik.elg")
    store = Store(tracecols.convert(tmp_path / "epik.elg", tmp_path / "x.trace", jobs=1))
    assert is_long(store)
    model = enhance(store, 1)
    cube = analyze_model(model)
    check_laws(model, cube)
    assert ticks(cube, "critical_path") > 1 << 53
    divide(monkeypatch)
    same(cube, analyze_model(enhance(store, 1)))


@pytest.mark.slow
@settings(max_examples=6)
@given(seed=st.integers(0, 1 << 32), size=st.integers(0, 40))
def test_exact__laws_hold_on_random_programs_however_they_are_divided(tmp_path_factory, seed, size):
    """Some programs end in the middle, communicate across communicators, execute tasks, fork outside of all regions."""
    folder = tmp_path_factory.mktemp("p")
    store = RandomProgram(seed, folder / "traces.otf2", size).store(folder)
    model = enhance(store, 1)
    cube = analyze_model(model, "exact")
    check_laws(model, cube)
    check_path(model, cube)
    with pytest.MonkeyPatch.context() as patch:
        divide(patch)
        same(cube, analyze_model(enhance(store, 1), "exact"))


def chain(roles=(0, 1, 2), at=0):
    """Return a program of three processes, the first of which makes the second wait, and both the third. `roles` are
    their ranks, `at` is the time at which they start."""
    program = Program(processes=3)
    first, second, third = (program.masters[rank] for rank in roles)
    for of, name in ((first, "MPI_Init"), (second, "MPI_Init"), (third, "MPI_Init")):
        of.enter(at, "main").enter(at, name).leave(at + 1)
    first.enter(at + 1, "f").leave(at + 11).enter(at + 11, "MPI_Send").send(at + 11, to=roles[1]).leave(at + 12)
    first.enter(at + 12, "MPI_Finalize").leave(at + 21).leave(at + 21)
    second.enter(at + 1, "f").leave(at + 5).enter(at + 5, "MPI_Recv").receive(at + 12, source=roles[0]).leave(at + 13)
    second.enter(at + 13, "g").leave(at + 15).enter(at + 15, "MPI_Send").send(at + 15, to=roles[2]).leave(at + 16)
    second.enter(at + 16, "MPI_Finalize").leave(at + 22).leave(at + 22)
    # the third is on the path for longer than the second: ties between equal remainders of charges are broken by
    # location number
    third.enter(at + 1, "f").leave(at + 4).enter(at + 4, "MPI_Recv").receive(at + 16, source=roles[1]).leave(at + 18)
    third.enter(at + 18, "MPI_Finalize").leave(at + 23).leave(at + 23)
    return program


def cells_by_role(cube, roles):
    """Return the cells of all root causes, by the roles of processes instead of their ranks."""
    role = {rank: i for i, rank in enumerate(roles)}
    return {
        name: {(path, role[location]): value for (path, location), value in severities(cube, name).items()}
        for name in cube.properties.id
        if cube.properties.root_of(name) in ("delay", "critical_path", "performance_impact")
    }


@pytest.mark.slow
@pytest.mark.parametrize(("roles", "at"), [((0, 1, 2), 1000), ((2, 0, 1), 0), ((1, 2, 0), -7), ((2, 1, 0), 5)])
def test_exact__does_not_depend_on_when_a_run_starts_and_how_its_locations_are_numbered(roles, at):
    expected = cells_by_role(cube_of(chain(), "exact"), (0, 1, 2))
    with chain(roles, at).trace() as trace:
        assert cells_by_role(trace.analyze("exact"), roles) == expected


# -- what single peculiarities lose ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("quirk", Quirks._fields)
def test_quirks__can_be_switched_on_one_by_one(quirk, stores, monkeypatch):
    only = NONE._replace(**{quirk: True})
    monkeypatch.setitem(CONVENTIONS, "exact", CONVENTIONS["exact"]._replace(quirks=only))
    cube = analyze_model(enhance(stores["hybrid_2x3"], 1), "exact")
    assert cube.cells["critical_path"].value.sum() > 0


def test_quirks__are_all_on_for_the_reference_and_all_off_for_exact():
    assert CONVENTIONS["scalasca"].quirks == CONVENTIONS["expert"].quirks == OF_SCALASCA
    assert CONVENTIONS["exact"].quirks == NONE
    assert set(OF_SCALASCA) == {True} and set(NONE) == {False}


def test_exact__shares_what_does_not_depend_on_the_peculiarities():
    with late_twice().trace() as trace:
        trace.analyze("scalasca")
        messages, points = trace.model.messages, trace.model.sync_points
        of = trace.model.with_quirks(OF_SCALASCA)
        assert of.messages is messages
        assert of.sync_points is not points
        # seconds here, ticks there
        assert of.sync_points.wait.sum() == points.wait.sum()
        assert trace.model.with_quirks(OF_SCALASCA) is of
        assert trace.model.with_quirks(NONE) is trace.model


def many_call_paths(n):
    """Return a program of two ranks: one calls n functions and makes the other wait."""
    program = Program(processes=2)
    first, second = program.masters
    for rank in program.masters:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(1)
    for i in range(n):
        first.enter(1 + 2 * i, f"f{i}").leave(3 + 2 * i)
    end = 1 + 2 * n
    first.enter(end, "MPI_Send").send(end, to=1).leave(end + 1).enter(end + 1, "MPI_Finalize").leave(end + 3).leave(
        end + 3
    )
    second.enter(1, "MPI_Recv").receive(end + 1, source=0).leave(end + 1).enter(end + 1, "MPI_Finalize").leave(end + 3)
    second.leave(end + 3)
    return program


@pytest.mark.slow
def test_exact__charges_any_number_of_call_paths():
    """The reference distinguishes 128 call paths."""
    with many_call_paths(200).trace() as trace:
        exact, scalasca = lawful(trace), trace.analyze("scalasca")
    assert severities(exact, "delay_latesender") == {(f"main/f{i}", 0): 2 for i in range(200)}
    assert len(severities(scalasca, "delay_latesender")) == 128
    assert any("call paths beyond 128 of a location" in what for what in exact.facts["counts"])


def test_exact__charges_waits_for_locks_to_those_who_hold_them():
    program = Program(processes=1, threads=2)
    master, worker = program.locations
    master.enter(0, "main").fork(0)
    for thread in program.locations:
        thread.begin_team(0).enter(0, "!$omp parallel @a.c:1")
    worker.enter(1, "!$omp critical @a.c:2").acquire(1, 5, 1).enter(1, "!$omp critical sblock @a.c:2").enter(
        1, "work"
    ).leave(9)
    worker.release(9, 5, 1).leave(9).leave(9)
    master.enter(4, "!$omp critical @a.c:2").acquire(10, 5, 2).enter(10, "!$omp critical sblock @a.c:2")
    master.release(11, 5, 2).leave(11).leave(11)
    for thread in program.locations:
        thread.enter(12, "!$omp implicit barrier @a.c:3").leave(12).leave(12).end_team(12)
    master.join(12).leave(13)
    with program.trace() as trace:
        cube = lawful(trace)
    parallel = "main/!$omp parallel @a.c:1"
    work = f"{parallel}/!$omp critical @a.c:2/!$omp critical sblock @a.c:2/work"
    assert severities(cube, "omp_lock_contention_critical") == {(f"{parallel}/!$omp critical @a.c:2", 0): 5}
    assert severities(cube, "delay_lock") == {(work, 0, 1): 5}
    # while the master waited, the critical path was on the owner of the lock
    assert severities(cube, "critical_path")[work, 0, 1] == 8


def test_exact__waits_for_what_is_no_cpu_thread_have_no_costs():
    """A stream of a device that records operations of a host, here a lock, has no time that could be a cause."""
    program = Program(processes=1)
    for name in ("pthread_mutex_lock", "pthread_mutex_unlock"):
        program.region(name, "pthread", "function")
    host, stream, pthread = program.locations[0], program.stream(0), PARADIGMS.index("pthread")
    for of, enter, order, acquire, release in ((stream, 1, 1, 2, 10), (host, 5, 2, 10, 14)):
        of.enter(0, "main").enter(enter, "pthread_mutex_lock").acquire(acquire, 1, order, pthread).leave(acquire)
        of.enter(release, "pthread_mutex_unlock").release(release, 1, order, pthread).leave(release).leave(release + 1)
    with program.trace() as trace:
        cube = trace.analyze("exact")
    assert severities(cube, "pthread_lock_contention_mutex_lock") == {("main/pthread_mutex_lock", 0): 5}
    assert severities(cube, "delay_lock") == {}
    assert sum(severities(cube, "critical_path").values()) == 15


def poll(rank, times, name="MPI_Test"):
    """Make a polling call at each of some times, for 4 s each."""
    for time in times:
        rank.enter(time, name).leave(time + 4)
    return rank


@pytest.mark.slow
def test_exact__series_of_tests_wait_for_who_sends():
    """Both ranks compute for 10 s, and the sender for another 40 s."""
    program = Program(processes=2)
    sender, receiver = program.masters
    for rank in program.masters:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(2).call(2, 12, "both")
    sender.call(12, 52, "more").enter(52, "MPI_Send").send(53, to=1).leave(54).leave(58)
    receiver.enter(12, "MPI_Irecv").post_receive(13).leave(14)
    # the call at 54 completes the receive; later calls wait for nothing
    poll(receiver, range(14, 54, 5)).enter(54, "MPI_Test").complete_receive(55, source=0).leave(56)
    poll(receiver, (56,)).leave(60)
    with program.trace() as trace:
        cube, path = lawful(trace), trace.critical_path(raw=True)
        check_path(trace.model, cube)
        assert trace.polls.is_last.tolist() == [False] * 8
        assert "mpi_polling_wait" not in trace.analyze("scalasca").cells
    # eight calls of 4 s, the last one from 49 and counted until 52
    assert severities(cube, "mpi_polling_wait") == {("main/MPI_Test", 1): 7 * 4 + 3}
    assert severities(cube, "delay_polling") == {("main/more", 0): 31}
    # while the receiver waits, the critical path is on the sender
    assert path[["location", "begin_time", "end_time"]].to_numpy().tolist() == [[0, 0, 52], [1, 52, 60]]


def test_exact__path_over_a_thread_whose_forks_are_not_recorded_charges_its_time_between_teams():
    program = Program(processes=1, threads=2)
    master, worker = program.locations
    # the recording of the master ends while the thread is in its first team
    master.enter(0, "main").fork(10).begin_team(10).enter(10, "!$omp parallel @a.c:1")
    for begin, end in (10, 20), (50, 60):
        worker.begin_team(begin).call(begin, end, "!$omp parallel @a.c:1").end_team(end)
    with program.trace() as trace:
        cube, path = lawful(trace), trace.critical_path(raw=True)
        check_path(trace.model, cube)
    assert path[["location", "begin_time", "end_time"]].to_numpy().tolist() == [[0, 0, 10], [1, 10, 60]]
    parallel = "main/!$omp parallel @a.c:1"
    assert severities(cube, "critical_path") == {("main", 0): 10, (parallel, 0, 1): 40, (parallel[5:], 0, 1): 10}


def test_exact__series_of_probes_wait_for_who_sends_what_is_received_next():
    program = Program(processes=2)
    sender, receiver = program.masters
    for rank in program.masters:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(2)
    sender.call(2, 30, "work").enter(30, "MPI_Send").send(31, to=1).leave(32).leave(60)
    poll(receiver, (4, 10, 16, 22, 28), "MPI_Iprobe").enter(34, "MPI_Recv").receive(35, source=0).leave(36)
    # no receive follows these calls
    poll(receiver, (40, 45), "MPI_Iprobe").leave(60)
    with program.trace() as trace:
        cube = lawful(trace)
        check_path(trace.model, cube)
    assert severities(cube, "mpi_polling_wait") == {("main/MPI_Iprobe", 1): 4 * 4 + 2}
    assert severities(cube, "delay_polling") == {("main/work", 0): 18}


@pytest.mark.parametrize("name", ["MPI_Probe", "MPI_Mprobe"])
@pytest.mark.parametrize("posts", [False, True])
def test_exact__probes_that_block_wait_for_who_sends_what_is_received_next(name, posts):
    program = Program(processes=2)
    sender, receiver = program.masters
    sender.enter(0, "main").call(2, 30, "work").enter(30, "MPI_Send").send(31, to=1).leave(32).leave(60)
    receiver.enter(0, "main").call(4, 33, name).call(33, 34, "MPI_Get_count")
    if posts:
        receiver.enter(34, "MPI_Irecv").post_receive(34).leave(34)
        receiver.enter(35, "MPI_Wait").complete_receive(35, source=0).leave(36)
    else:
        receiver.enter(34, "MPI_Recv").receive(35, source=0).leave(36)
    # nothing is received
    receiver.call(40, 50, name).leave(60)
    with program.trace() as trace:
        cube = lawful(trace)
        check_path(trace.model, cube)
    assert severities(cube, "mpi_polling_wait") == {(f"main/{name}", 1): 26}
    assert severities(cube, "delay_polling") == {("main/work", 0): 26}


def test_exact__probes_do_not_wait_for_what_was_asked_for_before():
    program = Program(processes=2)
    for i, rank in enumerate(program.masters):
        rank.enter(0, "main").enter(2 + 20 * i, "MPI_Ibarrier").start_collective(3 + 20 * i, 7).leave(4 + 20 * i)
        if i == 0:
            rank.enter(6, "MPI_Irecv").post_receive(7, request=8).leave(8)
            poll(rank, (10,), "MPI_Iprobe")
        rank.enter(26, "MPI_Wait").complete_collective(27, "barrier", 7).leave(28)
    receiver, sender = program.masters
    poll(receiver, (30,), "MPI_Iprobe").enter(36, "MPI_Wait").complete_receive(44, source=1, request=8).leave(45)
    sender.enter(40, "MPI_Send").send(41, to=0).leave(42)
    with program.trace() as trace:
        assert severities(lawful(trace), "mpi_polling_wait") == {}


def test_exact__probes_before_a_location_sends_to_itself_do_not_wait_for_it():
    program = Program()
    one = poll(program.masters[0].enter(0, "main"), (10, 20), "MPI_Iprobe")
    one.enter(30, "MPI_Sendrecv").send(31, to=0).receive(32, source=0).leave(33).leave(40)
    with program.trace() as trace:
        assert severities(lawful(trace), "mpi_polling_wait") == {}


@pytest.mark.parametrize("at", [0, -1000])
def test_exact__series_of_tests_wait_for_the_last_to_start_an_operation(at):
    """Clock offsets may make times negative."""
    program = Program(processes=3)
    for i, rank in enumerate(program.masters):
        begin = 40 if i == 2 else 10
        rank.enter(0, "main").enter(0, "MPI_Init").leave(2).call(2, begin, "work")
        rank.enter(begin, "MPI_Ibarrier").start_collective(begin + 1, 7).leave(begin + 2)
        poll(rank, range(begin + 2, 42, 6)).enter(42 + i, "MPI_Test").complete_collective(47, "barrier", 7).leave(48)
        rank.leave(60)
        rank.events[:] = [(time + at, *event) for time, *event in rank.events]
    with program.trace() as trace:
        cube = lawful(trace)
        check_path(trace.model, cube)
    # calls at 12, 18, ..., 36
    assert severities(cube, "mpi_polling_wait") == {("main/MPI_Test", 0): 20, ("main/MPI_Test", 1): 20}
    assert severities(cube, "delay_polling") == {("main/work", 2): 40}


UNKNOWN_TO_REFERENCE = [
    id
    for id, shown in EXAMPLES.items()
    if shown.conventions == "scalasca" and by_id()[id].delay in DELAYS_OF_OPERATIONS and by_id()[id].says_cause
]


def test_exact__who_waits_for_a_lock_of_a_window_passes_its_wait_on():
    """Ranks 1 and 2 get the lock in the call that unlocks: from rank 0 at 40, and from rank 1 at 45."""
    program = Program(3)
    window = program.define("windows", name="w", communicator=0, flags=0)
    given = {"window": window, "remote": 0, "lock": 0}
    for rank, lock, unlock, release in zip(program.masters, (10, 12, 14), (38, 20, 30), (40, 45, 50), strict=True):
        rank.enter(0, "main").enter(lock, "MPI_Win_lock")
        rank.record(lock, K.RMA_REQUEST_LOCK, rma={**given, "lock_type": 0}).leave(lock + 1)
        rank.enter(unlock, "MPI_Win_unlock").record(release, K.RMA_RELEASE_LOCK, rma=given).leave(release).leave(
            release + 5
        )
    with program.trace() as trace:
        cube = trace.analyze("exact")
        check_laws(trace.model, cube)
        path = trace.critical_path(raw=True)
    assert severities(cube, "mpi_rma_sync_lock_competition") == {
        ("main/MPI_Win_unlock", 1): 20,
        ("main/MPI_Win_unlock", 2): 15,
    }
    assert path[["location", "begin_time", "end_time"]].to_numpy().tolist() == [[0, 0, 40], [1, 40, 45], [2, 45, 55]]
    # rank 2 waits because rank 1 has waited for rank 0
    assert {rank for _, rank in severities(cube, "delay_onesided_longterm")} == {0}


def test_exact__who_lets_several_go_on_has_synchronised_with_each_of_them():
    """Ranks 0 and 1 wait for rank 2 to start a barrier at 10, and rank 1 for its message at 30."""
    program = Program(3)
    for rank, start in zip(program.masters, (0, 0, 10), strict=True):
        rank.enter(0, "main").enter(start, "MPI_Ibarrier").start_collective(start).leave(start + 1)
        rank.enter(start + 1, "MPI_Wait").complete_collective(12, "barrier").leave(12)
    _, receiver, sender = program.masters
    sender.enter(12, "B").leave(30).enter(30, "MPI_Send").send(30, 1).leave(31)
    receiver.enter(20, "MPI_Recv").receive(31, 2).leave(31)
    for rank in program.masters:
        rank.leave(40)
    with program.trace() as trace:
        cube = trace.analyze("exact")
        check_laws(trace.model, cube)
    # nothing that rank 2 did before 10 is a cause: it has synchronised with rank 1 since
    assert severities(cube, "delay_latesender") == {("main/MPI_Ibarrier", 2): 1, ("main/B", 2): 9}


@pytest.mark.parametrize("name", [*list(UNKNOWN_TO_REFERENCE)[:3], *slow(list(UNKNOWN_TO_REFERENCE)[3:])])
def test_exact__charges_operations_to_the_one_that_the_picture_names(name):
    """Waits on windows, for non-blocking collective operations, in the management of communicators."""
    example = EXAMPLES[name].make()
    with example.program.trace() as trace:
        cube = lawful(trace)
        points, pairs = trace.sync_points, trace.delay_pairs
        delay = by_id()[name].delay.removesuffix("_aggregate")
        mine = pairs[pairs.kind.map({kind: id == delay for kind, id in DELAY_IDS.items()}).astype(bool)]
        waits = trace.waits
        waits = waits[waits.property == name]
    number = {id(one): i for i, one in enumerate(example.program.locations)}
    assert set(points.location[mine.cause]) == {number[id(example.cause.location)]}
    assert cube.cells[f"{delay}_aggregate"].value.sum() == sum(i.end - i.start for i in example.intervals)
    assert waits.cause_time.tolist() == [example.cause.time] * len(waits) and len(waits) == len(mine)
    assert not any(cube.cells[f"{delay}_aggregate"].location != number[id(example.cause.location)])


def test_exact__charges_who_comes_last_where_nobody_spent_more_time_on_anything():
    """Rank 1 has no events before 4: until then it counts as started late."""
    program = Program(processes=2)
    early, late = program.masters
    early.enter(0, "main").enter(0, "MPI_Init").leave(5).enter(5, "MPI_Finalize").leave(6).leave(6)
    late.enter(4, "main").enter(4, "MPI_Init").leave(5).enter(5, "MPI_Finalize").leave(6).leave(6)
    with program.trace() as trace:
        cube = lawful(trace)
    assert severities(cube, "mpi_init_wait") == {(INIT, 0): 4}
    assert severities(cube, "delay_startup") == {("main", 1): 4}


def test_exact__truncated_traces_have_a_path_to_their_last_event():
    """No MPI_Finalize, and regions that never end."""
    program = Program(processes=2)
    first, second = program.masters
    for rank in program.masters:
        rank.enter(0, "main").enter(0, "MPI_Init").leave(1)
    first.enter(1, "f").leave(6).enter(6, "MPI_Send").send(6, to=1).leave(7).enter(8, "g")
    second.enter(2, "MPI_Recv").receive(7, source=0).leave(7).enter(9, "h").enter(12, "MPI_Recv")
    with program.trace() as trace:
        cube, path = lawful(trace), trace.critical_path("exact", raw=True)
    assert "region instances that never end" in cube.facts["counts"]
    assert (path.end_time - path.begin_time).sum() == 12
    assert (path.begin_time.to_numpy()[1:] == path.end_time.to_numpy()[:-1]).all()


def test_exact__programs_without_mpi_and_openmp_have_a_critical_path():
    program = Program(processes=1)
    program.masters[0].enter(3, "main").enter(4, "f").leave(9).leave(10)
    with program.trace() as trace:
        cube = lawful(trace)
        assert "critical_path" not in trace.analyze("scalasca").cells
    assert severities(cube, "critical_path") == {("main", 0): 2, ("main/f", 0): 5}


def test_exact__says_what_differs_from_scalasca(stores):
    """One note lists the differences with their sizes."""
    model = enhance(stores["hybrid_2x3"], 1)
    exact, scalasca = analyze_model(model), analyze_model(model, "scalasca")
    (note,) = [what for what in exact.facts["counts"] if what.startswith(DIFFERENCES)]
    assert not any(what.startswith(DIFFERENCES) for what in scalasca.facts["counts"])
    for words in (
        "waits whose causes it does not know",
        "worker threads count (4 threads)",
        "inter-partition imbalance though",
    ):
        assert words in note
    # the sizes are those of both analyses
    unknown = [
        f"{DELAY_IDS[kind]}_aggregate" for kind in UNKNOWN_DELAYS if f"{DELAY_IDS[kind]}_aggregate" in exact.cells
    ]
    assert f"(14 waits, {in_words(sum(exact.total(name) for name in unknown), 'seconds')})" in note
    assert len(unknown) > 1 and not set(unknown) & set(scalasca.cells)
    assert f"({in_words(exact.total('inter_partition_imbalance'), 'seconds')})" in note
    assert "inter_partition_imbalance" not in scalasca.cells or scalasca.total("inter_partition_imbalance") == 0


def test_exact__says_how_much_of_waits_for_messages_the_reference_loses(stores):
    model = enhance(stores["late_sender"], 1)
    exact, scalasca = (analyze_model(model, c) for c in ("exact", "scalasca"))
    lost = exact.total("delay_latesender_aggregate") - scalasca.total("delay_latesender_aggregate")
    (note,) = [what for what in exact.facts["counts"] if what.startswith(DIFFERENCES)]
    assert f"beyond what the other side lost are charged (1 wait, {in_words(lost, 'seconds')})" in note


def test_exact__is_the_default(stores, tmp_path):
    trace = tracecols.open(stores["late_sender"].path)
    assert trace.analyze().facts["conventions"] == DEFAULT == "exact"
    assert trace.critical_path(raw=True).equals(trace.critical_path("exact", raw=True))
    assert "exact conventions" in run("analyze", trace.path, "-o", tmp_path / "x.severity").output


@pytest.mark.slow
def test_exact__runs_that_are_too_long_for_64_bits_have_no_root_causes_and_say_so(monkeypatch):
    with late_twice().trace() as trace:
        monkeypatch.setattr("tracecols.search.limits.MOST_TICKS", 3 * 20)
        cube = trace.analyze()
        assert TOO_LONG in cube.facts["counts"]
        assert not {"delay", "critical_path"} & set(cube.cells) and "imbalance" in cube.cells
        with pytest.raises(AnalysisError, match="delay: all locations together take 60 ticks"):
            trace.analyze(properties=["delay_latesender"])
        assert "delay" in trace.analyze("scalasca").cells
        monkeypatch.setattr("tracecols.search.limits.MOST_TICKS", 3 * 20 + 1)
        assert "delay" in trace.analyze().cells


def test_exact__workers_are_reserved_as_long_as_their_master(stores):
    """Limited parallelism follows the call tree; in the reference's list of call paths, those that only workers visit
    count for other regions."""
    model = enhance(stores["omp_basic"], 1)
    by_list, by_tree = (analyze_model(model, c).cells["time"] for c in ("scalasca", "exact"))
    run = model.scans[0].last_time - model.scans[0].first_time
    assert (np.bincount(by_tree.location, by_tree.value) == run).all()
    assert (np.bincount(by_list.location, by_list.value) > run).any()


# -- kernels -----------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.integers(0, (1 << 62) - 1),
            st.one_of(
                st.lists(st.integers(0, 1 << 58), min_size=1, max_size=9),
                st.lists(st.integers(0, 7), min_size=10, max_size=40),
                st.lists(st.integers(0, 1 << 56), min_size=13, max_size=40),
            ),
        ),
        max_size=6,
    )
)
@settings(max_examples=60)
def test_divide_amounts__gives_whole_shares_by_the_largest_remainder(amounts):
    """The products of amounts and weights have up to 120 bits."""
    weights = np.array([w for _, of in amounts for w in of], np.int64)
    size = np.array([len(of) for _, of in amounts], np.int64)
    begin = np.cumsum(size) - size
    expected: list[int] = []
    for amount, of in amounts:
        if not sum(of):
            expected += [amount, *[0] * (len(of) - 1)]
            continue
        parts = [divmod(amount * w, sum(of)) for w in of]
        first = sorted(range(len(of)), key=lambda i: (-parts[i][1], i))[: amount - sum(q for q, _ in parts)]
        expected += [q + (i in first) for i, (q, _) in enumerate(parts)]
    for kernel in (causes.divide_amounts, causes.divide_amounts.py_func):
        share = np.zeros(weights.size, np.int64)
        with np.errstate(over="ignore"):
            kernel(
                np.array([a for a, _ in amounts], np.int64), begin, size, weights, share, *np.zeros((3, 40), np.int64)
            )
        assert share.tolist() == expected


def lost_by_three() -> causes.Lost:
    """Return the lost time of three pairs of locations 0, 0 and 2; the first pair has no entries of its own."""
    location, first, stop = np.array([0, 0, 2], np.int32), np.array([3, 0, 1]), np.array([3, 2, 3])
    call_path = np.array([1, -1, 1], np.int32)
    return causes.Lost(location, first, stop, np.array([1, 0, 0], np.int32), call_path, np.array([2, 3, 1]))


def room_for_sums(n: int, dtype: type = np.int64) -> tuple[causes.Sums, causes.Charged]:
    sums = Totals(np.zeros(n + 1, dtype), np.zeros(n + 1, bool), np.zeros(n + 1, np.int32))
    return sums, causes.Charged(np.zeros(8, np.int32), np.zeros(8, np.int32), np.zeros(8, dtype))


def test_charge_call_paths__keeps_null_apart_from_the_last_call_path():
    pair = np.array([1, 0, 2], np.int32)
    shares = causes.Shares(*np.zeros((4, 3), np.int64))
    for kernel in (causes.charge_call_paths, causes.charge_call_paths.py_func):
        (here, _), (sums, charged), (labels, labelled) = room_for_sums(2), room_for_sums(2), room_for_sums(0)
        # 25 is divided into 10 and 15, 3 is not divided, 8 is divided into 6 and 2
        n, n_labelled = kernel(
            pair, np.array([25, 3, 8]), lost_by_three(), None, shares, here, sums, labels, charged, labelled
        )
        assert [column[:n].tolist() for column in charged] == [[1, -1, -1, 1], [0, 0, 2, 2], [13, 15, 6, 2]]
        assert not n_labelled and not sums.time.any() and not sums.is_met.any()


@pytest.mark.parametrize("is_whole", [True, False])
def test_charge_call_paths__divides_by_period_in_proportion_to_the_time_in_each(is_whole):
    """The interval of pairs 0 and 1 lies in periods 0 and 1, that of pairs 2 and 4 in period 1, that of pair 3 in
    period 0; pair 4 belongs to another location."""
    dtype = np.int64 if is_whole else np.float64
    interval, comes = np.array([0, 0, 1, 2, 1]), np.full(5, 1, np.int32)
    key, of_period, ticks = np.array([1, 1]), np.array([0, 1], np.int32), np.array([1, 2])
    period, is_single = np.array([0, 1, 0], np.int32), np.array([False, True, True])
    labels = Labels(2, np.zeros(0, np.int64), np.zeros(0, np.int64))
    spread = causes.Spread(interval, comes, period, is_single, key, of_period, ticks, np.arange(2), labels)
    lost = causes.Lost(
        np.array([3, 3, 3, 3, 4], np.int32),
        np.arange(5),
        np.arange(5) + 1,
        *(np.array(a, np.int32) for a in ([0, 0, 0, 0, 0], [1, 0, 1, -1, 1])),
        np.ones(5, dtype),
    )
    shares = causes.Shares(*np.zeros((4, 3), np.int64)) if is_whole else None
    for kernel in (causes.charge_call_paths, causes.charge_call_paths.py_func):
        here, found, labelled = (room_for_sums(n, dtype) for n in (2, 2, 6))
        sums = [of for of, _ in (here, found, labelled)]
        amount = np.array([9, 4, 5, 8, 2], dtype)
        n, n_labelled = kernel(np.arange(5, dtype=np.int32), amount, lost, spread, shares, *sums, found[1], labelled[1])
        by_path, by_label = (
            {(c, i): x for c, i, x in zip(*(a[:k].tolist() for a in of), strict=True)}
            for of, k in ((found[1], n), (labelled[1], n_labelled))
        )
        # labels: 2 * (period + 1) + call path; call path 0 has no time in the interval: period 1, that of the cause
        assert by_label == {(3, 3): 3, (5, 3): 11, (4, 3): 4, (-1, 3): 8, (5, 4): 2}
        assert by_path == {(1, 3): 14, (0, 3): 4, (-1, 3): 8, (1, 4): 2}
        assert not any(of.time.any() or of.is_met.any() for of in sums)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), max_size=30))
def test_choose_causes__takes_the_longest_wait_then_the_lowest_cause_then_the_first(pairs):
    waiting, wait, cause = (
        (np.array(column, np.int64) for column in zip(*pairs, strict=True)) if pairs else (np.zeros(0, np.int64),) * 3
    )
    chosen = np.full(5, -1, np.int64)
    causes.choose_causes(waiting, wait, cause, chosen)
    expected = [
        min((p for p in range(len(pairs)) if waiting[p] == k), key=lambda p: (-wait[p], cause[p], p), default=-1)
        for k in range(5)
    ]
    assert chosen.tolist() == expected


def test_list_waits__has_the_points_that_wait_with_their_call_paths():
    """The kernels process the first three of five points, then the other two."""
    wait, call_path = np.array([0, 5, 0, 7, 1]), np.array([0, 1, 1, -1, 0], np.int32)
    before, listed = np.zeros(6, np.int32), []
    for here in (slice(0, 3), slice(3, 5)):
        causes.count_waits(wait[here], int(before[here.start]), before[here.start : here.stop + 1])
        n = int(before[here.stop] - before[here.start])
        waits, path, time = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int64)
        causes.list_waits(here.start, wait[here], call_path[here], np.array([8, 9], np.int32), waits, path, time)
        listed += zip(waits.tolist(), path.tolist(), time.tolist(), strict=True)
    assert before.tolist() == [0, 0, 1, 1, 2, 3]
    assert listed == [(1, 9, 5), (3, -1, 7), (4, 8, 1)]


def test_list_last_pairs__has_the_last_of_several():
    pair_of = np.full(3, -1, np.int32)
    causes.list_last_pairs(np.array([2, -1, 0, 2], np.int32), pair_of)
    assert pair_of.tolist() == [2, -1, 3]


ROWS = st.lists(st.integers(0, 20), unique=True, max_size=12).map(sorted)
"""Rows of events, ascending."""


@settings(max_examples=60)
@given(ROWS, ROWS, st.sets(st.integers(0, 20)))
def test_list_marks__are_those_of_points_and_others_in_order_of_rows(rows, others, forked):
    """Two locations have rows 0 to 9 and rows from 10 on; each ends at a point without a mark."""
    plain, fork, end = 3, FORK, END
    last = np.iinfo(np.int64).max
    bounds = [[row for row in rows if (row >= 10) == here] for here in (False, True)]
    event = np.array([row for own in bounds for row in [*own, last]], np.int64)
    kind = np.array([end if row == last else fork if row in forked else plain for row in event.tolist()], np.int8)
    end_of_first = len(bounds[0]) + 1
    n, dtype = event.size + len(others), np.int64
    marks = segments.Marks(*(np.empty(n, of) for of in (np.int64, np.int8, dtype, np.int64, dtype)))
    enter = np.array(sorted(forked), np.int64)
    given_others = segments.Others(
        np.array(others, np.int64),
        np.full(len(others), segments.LEAVE_TEAM, np.int8),
        np.arange(len(others)),
        enter,
        np.full(enter.size, segments.JOIN_TEAM, np.int8),
        100 * enter,
    )
    of_point = np.empty(event.size, np.int64)
    own = segments.OwnPoints(np.array([end_of_first, event.size]), event, kind)
    n = segments.list_marks(own, fork, end, given_others, marks, of_point)
    expected = [(row, 0, *((segments.JOIN_TEAM, 100 * row) if row in forked else (segments.CUT, 0))) for row in rows]
    expected += [(row, 1, segments.LEAVE_TEAM, k) for k, row in enumerate(others)]
    found = [of[:n].tolist() for of in marks]
    assert list(zip(*found[:3], strict=True)) == [(row, what, value) for row, _, what, value in sorted(expected)]
    assert set(found[3]) <= {-1} and set(found[4]) <= {0}
    assert [found[0][mark] if mark >= 0 else last for mark in of_point.tolist()] == event.tolist()
    stop, last_time = np.array([70, 80]), np.array([700, 800])
    marks.cut[:n], marks.time[:n] = np.arange(n), 10 * np.arange(n)
    cut, left, time = (np.empty(event.size, np.int64) for _ in range(3))
    segments.put_cuts(own.end, of_point, marks, stop, last_time, cut, left, time)
    is_end = of_point < 0
    assert cut[is_end].tolist() == [70, 80] and time[is_end].tolist() == [700, 800]
    assert cut[~is_end].tolist() == of_point[~is_end].tolist() == left[~is_end].tolist()
    assert time[~is_end].tolist() == (10 * of_point[~is_end]).tolist()


def test_divide_amounts__equal_remainders_go_to_the_first():
    share = np.zeros(3, np.int64)
    causes.divide_amounts(
        np.array([5]), np.array([0]), np.array([3]), np.ones(3, np.int64), share, *np.zeros((3, 3), np.int64)
    )
    assert share.tolist() == [2, 2, 1]
