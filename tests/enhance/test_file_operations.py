"""MPI file I/O: waits in collective calls, bytes read and written, and notes where handles are not recorded."""

import pytest

from tracecols.schema import EventKind as K
from tracecols.testing import Program, assert_severities

UNKNOWN = "collective calls for files whose handle is not recorded: waiting in them is not known"
NON_BLOCKING, COLLECTIVE = 1, 2
READ, WRITE = 0, 1


class Files:
    """Processes that operate on files, as Score-P records them."""

    def __init__(self, archive, n):
        self.archive, self.mpi = archive, archive.mpi(n)
        self.world, self.ranks = self.mpi.world, self.mpi.ranks
        self.file = archive.define("IoRegularFile", name=archive.string("data"), scope=0)
        self.matching = 0
        for name, role in (
            ("MPI_File_open", "file_io_metadata"),
            ("MPI_File_close", "file_io_metadata"),
            ("MPI_File_write_all", "file_io"),
            ("MPI_File_read_all", "file_io"),
            ("MPI_File_write", "file_io"),
            ("MPI_File_iwrite_all", "file_io"),
        ):
            archive.region(name, role, "mpi")
        for rank in self.ranks:
            rank.enter(0, "main")

    def handle(self, communicator):
        name = self.archive.string("")
        return self.archive.define(
            "IoHandle", name=name, file=self.file, io_paradigm=0, io_handle_flags=0, comm=communicator, parent=None
        )

    def manage(self, rank, begin, end, handle, what):
        fields = {"mode": 0, "creation_flags": 0, "status_flags": 0} if what == "open" else {}
        record = "IoCreateHandle" if what == "open" else "IoDestroyHandle"
        name = f"MPI_File_{what}"
        self.ranks[rank].enter(begin, name).record(end, record, handle=handle, **fields).leave(end, name)

    def operate(self, rank, begin, end, handle, name="write_all", flags=COLLECTIVE, n=64, nested=None):
        mode = READ if "read" in name else WRITE
        self.matching += 1
        given = {"handle": handle, "matching": self.matching}
        location = self.ranks[rank].enter(begin, f"MPI_File_{name}")
        location.record(begin, "IoOperationBegin", **given, mode=mode, operation_flags=flags, requested=n)
        if nested is not None:  # the same bytes again, as POSIX writes them
            location.enter(end - 1, "write").record(
                end - 1, "IoOperationBegin", handle=nested, matching=7, mode=mode, operation_flags=0, requested=n
            )
            location.record(end, "IoOperationComplete", handle=nested, matching=7, result=n).leave(end, "write")
        location.record(end, "IoOperationComplete", **given, result=n).leave(end, f"MPI_File_{name}")


def cells(cube, name):
    """Return ticks or bytes by the last region of the call path and location."""
    found = cube.cells[name]
    return {
        (cube.call_paths.name[c], location): value
        for c, location, value in zip(
            found.call_path.tolist(), found.location.tolist(), found.value.tolist(), strict=True
        )
    }


def test_collective_io__waits_for_the_last_and_counts_bytes(archive, analyze):
    p = Files(archive, 3)
    shared, posix = p.handle(p.world), p.handle(None)
    for rank, begin in enumerate((10, 25, 12)):
        p.manage(rank, begin, 30, shared, "open")
    # the first two wait for the third, which enters at 60
    for rank, begin in enumerate((40, 45, 60)):
        p.operate(rank, begin, 70, shared, n=100 * (rank + 1), nested=posix)
    p.operate(1, 72, 75, shared, "write", 0, 8)
    # nobody has to wait: the first has left before the last enters
    for rank, (begin, end) in enumerate(((80, 85), (90, 95), (82, 99))):
        p.operate(rank, begin, end, shared, "read_all", n=5)
    for rank, begin in enumerate((100, 100, 110)):
        p.manage(rank, begin, 111, shared, "close")
        p.ranks[rank].leave(120, "main")
    cube = analyze(archive)
    assert cells(cube, "mpi_mgmt_file_wait") == {
        ("MPI_File_open", 0): 15,
        ("MPI_File_open", 2): 13,
        ("MPI_File_close", 0): 10,
        ("MPI_File_close", 1): 10,
    }
    assert cells(cube, "mpi_io_collective_wait") == {("MPI_File_write_all", 0): 20, ("MPI_File_write_all", 1): 15}
    assert cells(cube, "mpi_file_bytes_written") == {
        ("MPI_File_write_all", 0): 100,
        ("MPI_File_write_all", 1): 200,
        ("MPI_File_write_all", 2): 300,
        ("MPI_File_write", 1): 8,
    }
    assert int(cube.cells["mpi_file_bytes_read"].value.sum()) == 15
    assert int(cube.cells["mpi_file_bytes"].value.sum()) == 623
    assert UNKNOWN not in cube.facts["counts"]


def test_collective_io__of_files_of_one_process_and_of_non_blocking_operations_is_no_wait(archive, analyze):
    p = Files(archive, 2)
    own, shared = p.handle(archive.comm_self()), p.handle(p.world)
    for rank, begin in enumerate((10, 20)):
        p.operate(rank, begin, 30, own)
        p.operate(rank, 30 + begin, 60, shared, "iwrite_all", COLLECTIVE | NON_BLOCKING)
        p.operate(rank, 60 + begin, 90, shared)
        p.ranks[rank].leave(99, "main")
    assert cells(analyze(archive), "mpi_io_collective_wait") == {("MPI_File_write_all", 0): 10}


def test_bytes__of_operations_that_another_thread_completes():
    program = Program(threads=3)
    handle = program.define("io_handles", name="", file=-1, paradigm=-1, communicator=0, parent=-1)
    program.region("MPI_File_iwrite", "mpi", "file_io")
    starts, reuses, waits = program.locations
    side = {"handle": handle, "matching": 1}
    begins = side | {"mode": WRITE, "operation_flags": NON_BLOCKING}
    for thread in program.locations:
        thread.enter(0, "main")
    # the identifier is free again at 25
    for thread, begin, end, n in ((starts, 10, 22, 64), (reuses, 30, 42, 8)):
        thread.enter(begin, "MPI_File_iwrite").record(begin, K.IO_OPERATION_BEGIN, io=begins).leave(begin + 2)
        waits.enter(end - 2, "MPI_Wait").record(end, K.IO_OPERATION_COMPLETE, io=side | {"result": n}).leave(end + 3)
    for thread in program.locations:
        thread.leave(100)
    found = {("main/MPI_File_iwrite", 0): 64, ("main/MPI_File_iwrite", 0, 1): 8}
    assert_severities(program, "mpi_file_bytes_written", found)
    # one operation is underway at the begin of the piece, the other at its end
    with program.trace() as trace, trace.piece(15, 35) as piece:
        assert piece.analyze().cells["mpi_file_bytes_written"].value.sum() == 64


def test_bytes__of_operations_of_several_threads_at_the_same_time():
    program = Program(threads=2)
    handle = program.define("io_handles", name="", file=-1, paradigm=-1, communicator=0, parent=-1)
    program.region("MPI_File_write_at", "mpi", "file_io")
    # Score-P records the same identifier for all blocking calls of a function
    side = {"handle": handle, "matching": 1}
    begins = side | {"mode": WRITE, "operation_flags": 0}
    for thread, begin, end, n in zip(program.locations, (10, 12), (20, 22), (64, 8), strict=True):
        thread.enter(0, "main").enter(begin, "MPI_File_write_at").record(begin, K.IO_OPERATION_BEGIN, io=begins)
        thread.record(end, K.IO_OPERATION_COMPLETE, io=side | {"result": n}).leave(end).leave(30)
    found = {("main/MPI_File_write_at", 0): 64, ("main/MPI_File_write_at", 0, 1): 8}
    assert_severities(program, "mpi_file_bytes_written", found)


def test_collective_io__that_lacks_participants_or_handles_is_reported(archive, enhance, analyze):
    p = Files(archive, 2)
    p.operate(0, 10, 20, p.handle(p.world))
    for rank in p.ranks:
        rank.call(30, 40, "MPI_File_write_all").leave(99, "main")
    cube = analyze(archive)
    assert cells(cube, "mpi_io_collective_wait") == {}
    told = cube.facts["counts"]
    assert (told[UNKNOWN], told["collective operations on files that lack participants"]) == (2, 1)


def test_collective_io__of_a_single_process_is_not_reported(archive, analyze):
    p = Files(archive, 1)
    p.ranks[0].call(30, 40, "MPI_File_write_all").leave(99, "main")
    assert UNKNOWN not in analyze(archive).facts["counts"]


@pytest.mark.parametrize("n", [1, 2])
def test_neighbourhood_collectives__are_reported(archive, analyze, n):
    archive.region("MPI_Neighbor_alltoall", "coll_all2all", "mpi")
    for rank in archive.mpi(n).ranks:
        rank.call(1, 5, "MPI_Neighbor_alltoall").call(6, 9, "MPI_Neighbor_alltoall")
    cube = analyze(archive)
    told = [v for what, v in cube.facts["counts"].items() if "neighbourhood" in what]
    assert told == ([4] if n == 2 else [])
    assert int(cube.cells["mpi_collective"].value.sum()) == 7 * n
