"""A program gives the same severities whichever format it is written in."""

import pytest
from conftest import slow
from support.epilog_back_end import CLOCK_RATE, write_epilog
from support.otf2_back_end import write_otf2

import tracecols
from tracecols.converters.base import Report
from tracecols.converters.otf2.write import write_archive
from tracecols.drawings.examples import EXAMPLES
from tracecols.errors import TracecolsError
from tracecols.schema import SIDE_TABLES, EventKind
from tracecols.schema.enums import NCCL
from tracecols.schema.notes import note
from tracecols.testing import Program, severities

EPILOG = (
    "mpi_latesender", "mpi_lswo_same", "mpi_lswo_different", "mpi_latereceiver", "mpi_barrier_wait", "mpi_latebroadcast",
    "mpi_earlyreduce", "mpi_wait_nxn", "omp_ebarrier_wait", "omp_ibarrier_wait",
)  # fmt: skip
"""Properties whose examples consist of events that EPILOG has records for."""

OTF2 = (
    "mpi_latesender", "mpi_polling_wait", "mpi_latereceiver_wo", "mpi_barrier_wait", "mpi_mgmt_comm_wait",
    "mpi_latebroadcast", "mpi_earlyreduce", "mpi_wait_nxn", "mpi_earlyscan", "mpi_nonblocking_collective_wait",
    "omp_ibarrier_wait", "omp_lock_contention_api", "omp_lock_contention_critical", "pthread_join_wait",
    "mpi_rma_wait_at_create", "mpi_rma_early_fence", "mpi_rma_early_wait", "mpi_rma_sync_lock_competition",
    "mpi_mgmt_file_wait", "mpi_io_collective_wait", "shmem_barrier_wait", "shmem_wait_nxn", "shmem_latebroadcast",
    "shmem_lock_competition", "device_late_launch", "device_copies_to_device",
)  # fmt: skip
"""Properties whose examples have a kind of event, record or region that the examples before them lack; OTF2 has no
paradigm for communication among devices."""

PROGRAMS = {EXAMPLES[name].make: [n for n, x in EXAMPLES.items() if x.make == EXAMPLES[name].make] for name in OTF2}
"""Properties by the function that makes the program in which they occur."""

BEYOND_PLAIN = {"mpi_mgmt_file_wait", "mpi_io_collective_wait", "device_copies_hidden"}
"""Properties whose programs have file handles or copies, which `support.otf2_back_end` does not write."""


def found(trace, names, ticks=1):
    """Return the severities of each property in ticks, analysed with the conventions of its example."""
    cubes = {
        of: trace.analyze(of, properties=[n for n in names if EXAMPLES[n].conventions == of])
        for of in {EXAMPLES[n].conventions for n in names}
    }
    return [
        {key: round(value * ticks) for key, value in severities(cubes[EXAMPLES[name].conventions], name).items()}
        for name in names
    ]


def converted(path, folder):
    return tracecols.open(tracecols.convert(path, folder / "x.trace", jobs=1, force=True), jobs=1)


@pytest.mark.parametrize(
    "make", [p if n % 24 == 0 else slow([p])[0] for n, p in enumerate(PROGRAMS)], ids=lambda make: PROGRAMS[make][0]
)
def test_otf2__has_what_the_store_has(make, tmp_path):
    program, names = make().program, PROGRAMS[make]
    with program.trace() as trace:
        expected = found(trace, names)
    assert all(expected)
    if not BEYOND_PLAIN & set(names):
        assert found(converted(write_otf2(program, tmp_path / "a.otf2"), tmp_path), names) == expected
    assert found(converted(write_archive(program, tmp_path / "b.otf2", jobs=1), tmp_path), names) == expected


def test_otf2__says_that_it_does_not_know_communication_among_devices(tmp_path):
    report = Report()
    write_archive(EXAMPLES["nccl_wait_nxn"].make().program, tmp_path / "a.otf2", jobs=1, report=report)
    ((what, n),) = report.unknown.items()
    assert note(1, what).startswith("1 region or communicator of NCCL")
    assert n == 2


@pytest.mark.parametrize("paradigm", ["cuda", "hip", "unknown"])
def test_otf2__knows_kernels_that_communicate_by_their_names(paradigm, tmp_path):
    program = Program(processes=1)
    program.masters[0].enter(0, "main").leave(100)
    stream, other = program.stream(0), program.stream(0, "CUDA[0:13]")
    stream.kernel(10, 20, "axpy").kernel(20, 50, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)")
    other.kernel(30, 35, "axpy")
    given = program.definitions["regions"]["paradigm"]
    given[:] = [paradigm if of == NCCL else of for of in given]
    cube = converted(write_archive(program, tmp_path / "a.otf2", jobs=1), tmp_path).analyze()
    of = {name: sum(severities(cube, name).values()) for name in ("nccl_communication", "nccl_overlapped")}
    assert of == {"nccl_communication": 30, "nccl_overlapped": 5}


@pytest.mark.parametrize("name", [*EPILOG[::5], *slow(name for name in EPILOG if name not in EPILOG[::5])])
def test_epilog__has_what_the_store_has(name, tmp_path):
    program = EXAMPLES[name].make().program
    with program.trace() as trace:
        expected = found(trace, [name])
    assert all(expected)
    trace = converted(write_epilog(program, tmp_path / "epik.elg"), tmp_path)
    assert found(trace, [name], CLOCK_RATE) == expected


def every_verb():
    """Return a program of two processes with two threads each that uses every verb."""
    program = Program(processes=2, threads=2)
    pair = program.communicator("pair", [1, 0])
    pool = program.define("communicators", kind="group", paradigm="pthread", flags=0, members=[0, 1, 2, 3])
    for rank, one in enumerate(program.masters):
        one.enter(0, "main").call(1, 2, "f").collective(3, 9, pair, "bcast", 1, 8, 8)
        if rank == 0:
            one.enter(10, "MPI_Isend").send(11, 1, tag=3).start_send(12, 0, pair, 5, 2, 64).leave(13)
            one.enter(14, "MPI_Wait").complete_send(15, 5).leave(16)
        else:
            one.enter(10, "MPI_Irecv").post_receive(10, 6).receive(12, 0, tag=3).leave(13)
            one.enter(14, "MPI_Wait").complete_receive(15, 1, pair, 6, 2, 64).leave(16, "MPI_Wait")
        one.enter(17, "MPI_Iscan").start_collective(18, 7).complete_collective(19, "scan", 7, sent=4).leave(19)
        one.fork(20, 2).begin_team(21).create_task(22, (0, 1)).switch_task(23, (0, 1)).complete_task(24, (0, 1))
        one.acquire(25, 4, 1).release(26, 4, 1).end_team(27).join(28)
        one.create_thread(30, 9, pool).wait_for_thread(40, 9, pool).leave(50)
        program.locations[2 * rank + 1].begin_team(21).end_team(26).begin_thread(31, 9, pool).end_thread(39, 9, pool)
    return program


def content(store):
    """Return events with the names of their regions, and the values of all side tables."""
    names = [*store.definitions["regions"].column("name").to_pylist(), ""]
    tables = {}
    for location in range(store.manifest["n_locations"]):
        events = store.read("events", location)
        rows = zip(events["time"].tolist(), events["kind"].tolist(), events["region"].tolist(), strict=True)
        tables["events", location] = [(time, kind, names[region]) for time, kind, region in rows]
        for name in SIDE_TABLES:
            tables[name, location] = {c: v.tolist() for c, v in store.read(name, location).items()}
    return tables


def test_verbs__mean_the_same_in_every_back_end(tmp_path):
    program = every_verb()
    with program.trace() as trace:
        expected = content(trace.store)
    assert {kind for (name, _), rows in expected.items() if name == "events" for _, kind, _ in rows} >= {
        *range(EventKind.MPI_SEND, EventKind.MPI_IRECV + 1), *range(EventKind.THREAD_FORK, EventKind.THREAD_END + 1)
    }  # fmt: skip
    assert content(converted(write_otf2(program, tmp_path / "a.otf2"), tmp_path).store) == expected
    assert content(converted(write_archive(program, tmp_path / "b.otf2", jobs=1), tmp_path).store) == expected


def test_program__refuses_what_no_thread_does():
    one = Program().masters[0].enter(5, "main")
    with pytest.raises(TracecolsError, match="EXIT at 4 comes after an event at 5"):
        one.leave(4)
    with pytest.raises(TracecolsError, match="'f' is left at 6, but 'main' was entered last"):
        one.leave(6, "f")
    with pytest.raises(TracecolsError, match="nothing is open at 8"):
        Program().masters[0].enter(7, "main").leave(8).leave(8)
