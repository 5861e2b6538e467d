"""Dynamic processes: spawned processes, and processes that connect to each other, with times worked out by hand, and a
recorded program."""

import pytest
from support import mpi_recordings
from support.command_line import run
from support.laws import check_laws, check_path, divide, same
from support.severities import cube_of

import tracecols
from tracecols.replay.replay import Changes
from tracecols.schema import EventKind as K
from tracecols.testing import Program, severities

SPAWN, INIT, FINALIZE = "main/MPI_Comm_spawn", "child/MPI_Init", "child/MPI_Finalize"


def two_worlds(n_first, n_second):
    """Return a program with two worlds, and an inter-communicator between them."""
    program = Program(processes=n_first + n_second)
    first, second = list(range(n_first)), list(range(n_first, n_first + n_second))
    program.definitions["communicators"]["members"][0] = first
    program.communicator("MPI_COMM_WORLD", second)
    both = {"members": first, "remote_members": second}
    inter = program.define("communicators", name="inter", kind="inter", paradigm="mpi", flags=1, parent=0, **both)
    return program, inter


def create(location, time, communicator):
    """Record that an inter-communicator has been created."""
    return location.add(time, K.COMM_CREATE, collectives={"communicator": communicator})


def spawned(enclosed=False):
    """Return a program in which two ranks spawn two others, which begin at 20 and 21; the last calls MPI_Init at 36."""
    program, inter = two_worlds(2, 2)
    a, b, c, d = program.masters
    for location, work in ((a, 10), (b, 15)):
        location.enter(0, "main").call(1, 3, "MPI_Init").call(3, work, "work").enter(work, "MPI_Comm_spawn")
        if enclosed:
            location.begin_collective(work)
        create(location, 39, inter)
        if enclosed:
            location.end_collective(39, "create_handle", communicator=0)
        location.leave(40).call(40, 60, "work").call(60, 80, "MPI_Finalize").leave(80)
    for location, begin, init, end in ((c, 20, 25, 70), (d, 21, 36, 71)):
        location.enter(begin, "child").call(begin, init, "start").enter(init, "MPI_Init")
        create(location, 37, inter).leave(38).call(38, end, "compute").call(end, 80, "MPI_Finalize").leave(80)
    return program


def connected():
    """Return a server that accepts a client, which connects 4 ticks later, and accepts again, for which the client
    waits; each world ends separately."""
    program, inter = two_worlds(1, 1)
    again = program.define(
        "communicators", name="again", kind="inter", paradigm="mpi", flags=1, members=[0], remote_members=[1]
    )
    server, client = program.masters
    server.enter(0, "main").call(1, 2, "MPI_Init").enter(6, "MPI_Comm_accept")
    create(server, 11, inter).leave(12).enter(30, "MPI_Comm_accept")
    create(server, 31, again).leave(32).call(40, 41, "MPI_Finalize").leave(42)
    client.enter(5, "client").call(6, 7, "MPI_Init").enter(10, "MPI_Comm_connect")
    create(client, 11, inter).leave(12).enter(20, "MPI_Comm_connect")
    create(client, 31, again).leave(32).call(50, 51, "MPI_Finalize").leave(52)
    return program


@pytest.mark.parametrize("enclosed", [False, True])
def test_spawn__waits_for_the_last_process_that_starts(enclosed):
    with spawned(enclosed).trace() as trace:
        cube = trace.analyze()
        made = trace.frame("created_processes", raw=True)
    assert made[["location", "begin_time", "create_location", "create_enter_time"]].to_numpy().tolist() == [
        [2, 20, 1, 15],
        [3, 21, 1, 15],
    ]
    # until rank 3 calls MPI_Init
    assert severities(cube, "mpi_mgmt_comm_wait") == {(SPAWN, 0): 26, (SPAWN, 1): 21}
    # each world starts separately, and all end together
    assert severities(cube, "mpi_init_wait") == {(INIT, 2): 11}
    assert severities(cube, "mpi_finalize_wait") == {
        ("main/MPI_Finalize", 0): 11,
        ("main/MPI_Finalize", 1): 11,
        (FINALIZE, 2): 1,
    }
    # both wait until rank 3 has done its work before MPI_Init
    assert severities(cube, "delay_management_aggregate") == {("child/start", 3): 47}
    # created processes do not exist before: the path goes back to their creator
    assert severities(cube, "critical_path") == {
        ("main", 1): 1, ("main/MPI_Init", 1): 2, ("main/work", 1): 12, (SPAWN, 1): 6, ("child/start", 3): 15, (INIT, 3): 2,
        ("child/compute", 3): 33, ("main/MPI_Finalize", 0): 9,
    }  # fmt: skip


def test_spawn__time_before_the_call_that_creates_is_not_that_of_the_call():
    program, inter = two_worlds(1, 1)
    creator, child = program.masters
    creator.enter(0, "main").call(1, 3, "MPI_Init").enter(15, "MPI_Comm_spawn")
    create(creator, 30, inter).leave(30).leave(40)
    child.enter(20, "child").enter(22, "MPI_Init")
    create(child, 30, inter).leave(30).leave(80)
    with program.trace() as trace:
        cube = trace.analyze()
        check_path(trace.model, cube)
    path = {("main", 0): 13, ("main/MPI_Init", 0): 2, (SPAWN, 0): 5, ("child", 1): 52, (INIT, 1): 8}
    assert severities(cube, "critical_path") == path


def test_spawn__laws_hold_however_it_is_divided(monkeypatch):
    with spawned().trace() as trace:
        whole = trace.analyze()
        check_laws(trace.model, whole)
        check_path(trace.model, whole)
    divide(monkeypatch)
    with spawned().trace() as trace:
        same(trace.analyze(), whole)


def test_efficiencies__of_processes_count_from_when_they_are_there():
    cube = cube_of(spawned(), ideal_network=True)
    value = cube.efficiencies().set_index("metric").value
    # between 3 and 71; ranks 2 and 3 leave MPI_Init at 38
    computes, there = 27 + 32 + 32 + 33, 2 * (71 - 3) + 2 * (71 - 38)
    assert value["parallel_efficiency"] == pytest.approx(computes / there)
    # rank 3 computes for the whole time
    assert value["load_balance"] == pytest.approx(computes / there)
    assert value["communication_efficiency"] == pytest.approx(1)
    product = value["serialisation_efficiency"] * value["transfer_efficiency"]
    assert product == pytest.approx(value["communication_efficiency"])
    whole = cube.efficiencies(with_startup=True).set_index("metric").value
    assert whole["parallel_efficiency"] == pytest.approx((124 + 2 + 20) / (2 * 80 + 60 + 59))


def test_replay__processes_begin_with_the_call_that_creates_them():
    with spawned().trace() as trace:
        replay = trace.replay
        assert (replay.times(Changes()) == replay.nodes.time).all()
        # rank 1 comes to MPI_Comm_spawn 6 ticks earlier, and the time until the others begin stays the same
        assert replay.nodes.time.max() - replay.times(Changes({"work": 0.5})).max() == 6
        # rank 3 calls MPI_Init 5 ticks after it began, and rank 2 is as late
        assert replay.nodes.time.max() - replay.times(Changes({"start": 1 / 3})).max() == 10


def test_connect__waits_for_accept_and_accept_for_connect():
    with connected().trace() as trace:
        cube = trace.analyze()
        check_laws(trace.model, cube)
    accept, connect = "main/MPI_Comm_accept", "client/MPI_Comm_connect"
    assert severities(cube, "mpi_mgmt_comm_wait") == {(accept, 0): 4, (connect, 1): 10}
    assert severities(cube, "mpi_init_wait") == severities(cube, "mpi_finalize_wait") == {}
    assert trace.manifest["n_events"] == sum(len(of.events) for of in connected().locations)


def test_worlds__of_the_same_processes_are_one():
    program = Program(processes=2)
    program.communicator("MPI_COMM_WORLD", [0, 1])
    for rank, of in enumerate(program.masters):
        of.enter(0, "main").call(1 + rank, 5, "MPI_Init").call(6 + rank, 9, "MPI_Finalize").leave(9)
    with program.trace() as trace:
        assert trace.model.facts.communicators.world.tolist() == [-1, -1]
        assert trace.model.startups.communicator.tolist() == [-1] * 4


@pytest.mark.parametrize(
    ("op", "call", "wait"),
    [
        ("barrier", "MPI_Barrier", "mpi_barrier_wait"),
        ("allgather", "MPI_Allgather", "mpi_wait_nxn"),
        ("barrier", "MPI_Ibarrier", "mpi_nonblocking_collective_wait"),
    ],
)
def test_operations_between_groups__wait_for_the_other_group(op, call, wait):
    program, inter = two_worlds(2, 1)
    for rank, (begin, end) in zip(program.masters, ((10, 21), (30, 31), (20, 31)), strict=True):
        moved = {} if op == "barrier" else {"sent": 8, "received": 8}
        rank.enter(0, "main").enter(1, "MPI_Init").leave(2).call(3, begin, "work").enter(begin, call)
        if call == "MPI_Ibarrier":
            rank.start_collective(begin).leave(begin).enter(begin, "MPI_Wait")
            rank.complete_collective(end, op, communicator=inter)
        else:
            rank.begin_collective(begin).end_collective(end, op, communicator=inter, **moved)
        rank.leave(end).call(40, 41, "MPI_Finalize").leave(41)
    with program.trace() as trace:
        cubes = {conventions: trace.analyze(conventions=conventions) for conventions in ("exact", "scalasca", "expert")}
        check_laws(trace.model, cubes["exact"])
        assert not len(trace.frame("clock_violations"))
        assert not trace.replay.graph.lags.any()
    where = "main/MPI_Wait" if call == "MPI_Ibarrier" else f"main/{call}"
    for conventions, cube in cubes.items():
        if wait in cube.cells:
            assert severities(cube, wait) == {(where, 0): 10, (where, 2): 10}, conventions
    assert severities(cubes["exact"], "delay") == {("main/work", 1): 10, ("main/work", 2): 10}


def calls_of(name):
    """Return the calls of a recording as (region, begin, end) by process, inner calls first."""
    calls, entered = [], []
    for kind, *words in mpi_recordings.read(name):
        if kind == "#":
            calls.append([])
        elif kind == "E":
            entered.append((words[1], int(words[0])))
        elif kind == "L":
            calls[-1].append((*entered.pop(), int(words[0])))
    return calls


@pytest.mark.slow
def test_recorded_spawn__is_what_the_recording_says(opened, tmp_path):
    calls = calls_of("spawn")
    once = [{region: (begin, end) for region, begin, end in of} for of in calls]
    begins, inits, ends = ([of[region] for of in once] for region in ("main", "MPI_Init", "MPI_Finalize"))
    spawns = [of["MPI_Comm_spawn"][0] for of in once[:2]]
    trace = opened(mpi_recordings.write("spawn", tmp_path))
    made = trace.frame("created_processes", raw=True)
    assert made[["location", "begin_time", "create_location", "create_enter_time"]].to_numpy().tolist() == [
        [2, begins[2][0], 1, spawns[1]],
        [3, begins[3][0], 1, spawns[1]],
    ]
    cube = trace.analyze()
    check_laws(trace.model, cube)
    # both children compute before they call MPI_Init, and both parents wait for the last one
    last = max(begin for begin, _ in inits[2:])
    waits = cube.by_location("mpi_mgmt_comm_wait")
    assert [round(1e9 * wait) for wait in waits] == [last - spawns[0], last - spawns[1], 0, 0]
    assert min(last - begin for begin in spawns) > 20_000_000
    # children count from their return from MPI_Init on
    start, end = min(end for _, end in inits[:2]), max(begin for begin, _ in ends)
    computes = [
        ends[i][0] - inits[i][1]
        - sum(to - begin for region, begin, to in of if inits[i][1] <= begin < ends[i][0] and region.startswith("MPI_"))
        for i, of in enumerate(calls)
    ]  # fmt: skip
    there = 2 * (end - start) + sum(end - inits[i][1] for i in (2, 3))
    value = cube.efficiencies().set_index("metric").value
    assert value["parallel_efficiency"] == pytest.approx(sum(computes) / there)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name.partition(".")[0] for path in mpi_recordings.DATA.iterdir()))
def test_recorded__nothing_contradicts_itself(tmp_path, name):
    store = tracecols.convert(mpi_recordings.write(name, tmp_path), tmp_path / "x.trace")
    said = run("check", store)
    assert (said.exit_code, said.output) == (0, "nothing contradicts itself\n")
