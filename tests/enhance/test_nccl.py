"""Collective operations and messages of NCCL on device streams: how they are recorded and joined."""

from __future__ import annotations

import pytest
from support.command_line import run
from support.severities import cube_of

from tracecols.conversion import write_store
from tracecols.testing import Program


def two_ranks() -> Program:
    """Return two processes with a stream each: an operation in which rank 0 waits from 5 to 22, and a message."""
    program = Program(processes=2)
    first, second = program.masters
    streams = [program.stream(0), program.stream(1)]
    world = program.nccl_communicator("dp", streams)
    first.enter(0, "main").launch(1, 2, streams[0]).launch(2, 3, streams[0]).synchronize(4, 41, streams[0]).leave(50)
    second.enter(0, "main").launch(19, 20, streams[1]).launch(20, 21, streams[1]).synchronize(22, 41, streams[1])
    second.leave(50)
    for stream, begin in zip(streams, (5, 22), strict=True):
        stream.collective(begin, 30, world, "allreduce", sent=8, received=8, region="ncclAllReduce")
    streams[0].enter(30, "ncclSend").send(30, to=1, communicator=world, length=64).leave(40, "ncclSend")
    streams[1].enter(31, "ncclRecv").receive(40, source=0, communicator=world, length=64).leave(40, "ncclRecv")
    return program


def test_operations__of_streams_are_joined_like_those_of_mpi():
    with two_ranks().trace() as trace:
        (operation,) = trace.collectives.to_dict("records")
        assert (operation["op_name"], operation["communicator_name"]) == ("allreduce", "dp")
        assert (operation["n_members"], operation["size"], operation["latest_begin_time"]) == (2, 2, 22)
        members = trace.collective_members
        assert members.location.tolist() == [2, 3]
        assert members["rank"].tolist() == [0, 1]
        assert members.begin_time.tolist() == [5, 22]
        (message,) = trace.messages.to_dict("records")
        assert (message["send_location"], message["recv_location"], message["length"]) == (2, 3, 64)


def test_operations__of_one_communicator_on_several_streams_of_a_rank():
    program = Program(processes=2)
    streams = [[program.stream(rank, f"CUDA[0:{i}]") for i in range(2)] for rank in range(2)]
    world = program.nccl_communicator("dp", [of[0] for of in streams])
    other = program.nccl_communicator("tp", [of[1] for of in streams])
    for rank, (master, (a, b)) in enumerate(zip(program.masters, streams, strict=True)):
        master.enter(0, "main").leave(100)
        late = 3 * rank
        a.collective(1 + late, 10, world, "allreduce", sent=1, received=1, region="ncclAllReduce")
        b.collective(2 + late, 12, other, "bcast", root=0, sent=1 - rank, received=rank, region="ncclBroadcast")
        b.collective(20 + late, 30, world, "allgather", sent=1, received=1, region="ncclAllGather")
        a.collective(40 + late, 50, world, "reduce_scatter", sent=1, received=1, region="ncclReduceScatter")
    with program.trace() as trace:
        found = trace.collectives
        assert found.op_name.tolist() == ["allreduce", "bcast", "allgather", "reduce_scatter"]
        assert found.n_members.tolist() == [2] * 4
        assert found.communicator_name.tolist() == ["dp", "tp", "dp", "dp"]


def test_operation__in_which_a_host_takes_part_damaged_is_analysed():
    """Its stream has no points that the wait of the host could be charged to; the analysis failed with IndexError."""
    program = Program(processes=2)
    streams = [program.stream(0), program.stream(1)]
    world = program.nccl_communicator("dp", streams)
    program.masters[0].enter(0, "main").leave(60)
    program.masters[1].enter(0, "main").collective(5, 50, world, "barrier", region="MPI_Barrier").leave(60)
    streams[0].collective(10, 50, world, "barrier", region="ncclBarrier")
    cube = cube_of(program)
    assert cube.total("mpi_barrier_wait") == cube.total("nccl_barrier_wait") == 0


@pytest.mark.parametrize("lacks", ["launch", "kernel"])
def test_launches__with_a_call_site_belong_to_kernels_with_the_same_only(lacks):
    program = Program(processes=1)
    (master,) = program.masters
    stream = program.stream(0)
    master.enter(0, "main")
    for site in range(1 if lacks == "launch" else 0, 4):
        master.launch(10 * site, 10 * site + 1, stream, site=site)
    for site in range(1 if lacks == "kernel" else 0, 4):
        stream.kernel(100 + 10 * site, 105 + 10 * site, site=site)
    master.leave(200)
    with program.trace() as trace:
        kernels = trace.kernels
        launched = kernels.launch_enter_time[kernels.launch_enter >= 0].tolist()
        assert launched == [10, 20, 30]
        assert kernels.callsite[kernels.launch_enter >= 0].tolist() == [1, 2, 3]


def test_check_and_info__of_a_recording_with_nccl(tmp_path):
    path = tmp_path / "x.trace"
    path.mkdir()
    write_store(two_ranks(), path, jobs=1, salvage=False, progress=None)
    checked, described = (run(what, path) for what in ("check", "info"))
    assert checked.exit_code == 0, checked.output
    assert "nccl" in described.output
