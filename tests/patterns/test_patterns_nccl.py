"""Communicating kernels: waits of NCCL's operations and messages, transfer, and overlap with computation."""

from __future__ import annotations

import pytest
from conftest import slow

from tracecols.testing import Program, assert_severities, severities


def group(n: int) -> tuple[Program, list, int]:
    """Return processes that run from 0 to 100, a stream of each, and a communicator of the streams."""
    program = Program(processes=n)
    for master in program.masters:
        master.enter(0, "main").leave(100)
    streams = [program.stream(rank) for rank in range(n)]
    return program, streams, program.nccl_communicator("dp", streams)


def operation(streams, world, region, op, begins, end, root=None, sent=(), received=()):
    """Let all streams take part in an operation."""
    for rank, (stream, begin) in enumerate(zip(streams, begins, strict=True)):
        given = {"sent": sent[rank] if sent else 8, "received": received[rank] if received else 8}
        stream.collective(begin, end, world, op, root=root, region=region, **given)


def test_wait_at_n_x_n__until_the_last_rank_begins():
    program, streams, world = group(3)
    operation(streams, world, "ncclAllReduce", "allreduce", (10, 25, 17), 40)
    path = "ncclAllReduce"
    assert_severities(program, "nccl_wait_nxn", {(path, 0, 1): 15, (path, 2, 1): 8})
    # the last rank transfers for all of its time
    assert_severities(program, "nccl_transfer", {(path, rank, 1): 15 for rank in range(3)})


def test_wait_at_n_x_n__is_none_of_mpi():
    program, streams, world = group(2)
    operation(streams, world, "ncclAllReduce", "allreduce", (10, 25), 40)
    with program.trace() as trace:
        cube = trace.analyze()
        for name in ("mpi_wait_nxn", "comms_cxch", "bytes_cout"):
            assert severities(cube, name) == {} if name in cube.cells else True
        assert severities(cube, "nccl_operations") == {("ncclAllReduce", 0, 1): 1, ("ncclAllReduce", 1, 1): 1}
        (wait,) = trace.waits.to_dict("records")
        assert (wait["property"], wait["cause_location"], wait["cause_time"]) == ("nccl_wait_nxn", 3, 25)


@pytest.mark.parametrize(
    ("name", "region", "op", "root", "sent", "received", "expected"),
    [
        # root 1 begins at 25: 0 waits from 10, 2 from 17
        ("nccl_latebroadcast", "ncclBroadcast", "bcast", 1, (0, 8, 0), (8, 0, 8), {0: 15, 2: 8}),
        # root 0 waits for the last sender
        ("nccl_earlyreduce", "ncclReduce", "reduce", 0, (8, 8, 8), (8, 0, 0), {0: 15}),
        *slow(
            [
                ("nccl_barrier_wait", "ncclBarrier", "barrier", None, (0, 0, 0), (0, 0, 0), {0: 15, 2: 8}),
                # without bytes nobody waits
                ("nccl_wait_nxn", "ncclAllReduce", "allreduce", None, (0, 0, 0), (0, 0, 0), {}),
            ]
        ),
    ],
)
def test_operations__with_a_root_and_barriers(name, region, op, root, sent, received, expected):
    program, streams, world = group(3)
    operation(streams, world, region, op, (10, 25, 17), 40, root, sent, received)
    assert_severities(program, name, {(region, rank, 1): value for rank, value in expected.items()})


@pytest.mark.slow
def test_messages__the_longest_wait_of_a_kernel():
    program, streams, world = group(2)
    for rank, (stream, begin) in enumerate(zip(streams, (10, 30), strict=True)):
        stream.enter(begin, "ncclGroup").send(begin, to=1 - rank, communicator=world)
        stream.receive(40, source=1 - rank, communicator=world).leave(40)
    # rank 0 waits to receive, so it does not count as waiting to send
    assert_severities(program, "nccl_latesender", {("ncclGroup", 0, 1): 20})
    assert_severities(program, "nccl_latereceiver", {})
    assert_severities(program, "nccl_transfer", {("ncclGroup", rank, 1): 10 for rank in range(2)})


@pytest.mark.slow
def test_late_receiver__of_a_kernel_that_only_sends():
    program, streams, world = group(2)
    streams[0].enter(10, "ncclSend").send(10, to=1, communicator=world).leave(40)
    streams[1].enter(30, "ncclRecv").receive(40, source=0, communicator=world).leave(40)
    assert_severities(program, "nccl_latereceiver", {("ncclSend", 0, 1): 20})


@pytest.mark.slow
def test_overlap__with_kernels_of_computation_only():
    program, streams, world = group(2)
    compute = [program.stream(rank, "CUDA[0:8]") for rank in range(2)]
    operation(streams, world, "ncclAllReduce", "allreduce", (10, 10), 40)
    other = program.nccl_communicator("tp", compute)
    # 15 of 30 overlap with a kernel, and 5 with another operation
    compute[0].kernel(5, 25)
    operation(compute, other, "ncclAllGather", "allgather", (30, 30), 35)
    assert_severities(program, "nccl_overlapped", {("ncclAllReduce", 0, 1): 15})
    exposed = {("ncclAllReduce", 0, 1): 15, ("ncclAllReduce", 1, 1): 30}
    exposed |= {("ncclAllGather", rank, 2): 5 for rank in range(2)}
    assert_severities(program, "nccl_exposed", exposed)
