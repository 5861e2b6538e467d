"""Causes through accelerators: who lets kernels of other ranks, and hosts, wait."""

from __future__ import annotations

from unittest import mock

import pytest
from support.device_program import Rank, Simulation, random_ranks

from tracecols.testing import severities

NXN, SYNC = "delay_device_nxn_aggregate", "delay_device_sync_aggregate"


def two(first: Rank, second: Rank, **more) -> Simulation:
    return Simulation([first, second], **more)


def costs(simulation, name=NXN):
    with simulation.program.trace() as trace:
        cube = trace.analyze()
        check(cube, trace)
        return severities(cube, name)


def check(cube, trace):
    """The laws: costs are waits, and nothing contradicts itself."""
    waits = ("nccl_wait_nxn", "nccl_barrier_wait"), ("device_sync_wait", "device_copy_sync_wait")
    for delay, of in zip((NXN, SYNC), waits, strict=True):
        assert cube.total(delay) == sum(cube.total(name) for name in of if name in cube.cells)
    assert cube.violations() == []
    path = trace.critical_path()
    run = (trace.manifest["last_time"] - trace.manifest["first_time"]) / trace.manifest["clock"]["resolution"]
    assert cube.total("critical_path") == run
    assert (path.end_time - path.begin_time).sum() / trace.manifest["clock"]["resolution"] == run


def test_long_kernel__before_which_the_host_synchronises():
    def rank(ticks):
        return Rank().work("setup", 5).kernel("k", ticks).sync().collective().sync()

    found = costs(two(rank(10), rank(90)))
    assert found == {("k", 1, 1): 80}


def test_long_host():
    def rank(ticks):
        return Rank().work("work", ticks).collective().sync()

    assert costs(two(rank(10), rank(90))) == {("main/work", 1): 80}


def test_long_kernel__on_which_a_stream_depends():
    def rank(ticks):
        return Rank().work("setup", 5).kernel("k", ticks, 1).wait_event(0).collective().sync()

    assert costs(two(rank(10), rank(90), n_streams=2)) == {("k", 1, 2): 80}


def test_host_that_is_late_after_synchronising():
    def rank(ticks):
        return Rank().kernel("k", 30).sync().work("work", ticks).collective().sync()

    assert costs(two(rank(10), rank(90))) == {("main/work", 1): 80}


def test_one_delay__is_charged_with_what_later_operations_wait():
    def rank(ticks):
        found = Rank().work("delay", ticks)
        for _ in range(3):
            found.work("equal", 20).collective()
        return found.sync()

    simulation = two(rank(1), rank(81))
    assert [simulation.waits[k, 0] for k in range(3)] == [80, 19, 19]
    found = costs(simulation)
    assert sum(found.values()) == 118
    assert found["main/delay", 1] >= 117


def test_delay__goes_on_over_ranks():
    # rank 2 lets rank 1 wait in the first operation; rank 1 is late in the second one, for which rank 0 waits
    def rank(first, second):
        return Rank().work("first", first).collective().sync().work("second", second).collective().sync()

    simulation = Simulation([rank(10, 10), rank(10, 30), rank(50, 10)])
    found = costs(simulation)
    # first: 40 each of 0 and 1. Second: 20 each of 0 and 2, while rank 1, since it launched the first one, took 20 more
    # for `second`, 2 for the transfer, and waited for 40: 40 * 40 / 62 go back to rank 2
    assert found == {("main/first", 2): 80 + 26, ("main/second", 1): 13, ("ncclAllReduce", 1, 1): 1}


def test_hosts__wait_for_kernels_and_for_other_ranks():
    def rank(ticks):
        return Rank().work("work", ticks).kernel("k", 20).collective().sync()

    simulation = two(rank(10), rank(50))
    found = costs(simulation, SYNC)
    with simulation.program.trace() as trace:
        total = trace.analyze().total("device_sync_wait")
    assert sum(found.values()) == total
    # rank 0 waits for its kernel, and for rank 1 that computes for 40 ticks more
    assert found["main/work", 1] > found["k", 0, 1] > 0


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 120))])
def test_random_programs__to_the_tick(seed):
    simulation = random_ranks(seed)
    with simulation.program.trace() as trace:
        cube = trace.analyze()
        waits = (
            severities(cube, "nccl_wait_nxn") | severities(cube, "nccl_barrier_wait") if "nccl" in cube.cells else {}
        )
        assert sum(waits.values()) == sum(simulation.waits.values())
        for rank in range(3):
            mine = sum(value for key, value in waits.items() if key[1] == rank)
            assert mine == sum(value for (_, r), value in simulation.waits.items() if r == rank)
        check(cube, trace)
        with (
            mock.patch("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1),
            mock.patch("tracecols.enhance.mpi.collectives.BUCKET_ROWS", 1),
        ):
            divided = trace.analyze()
        for name in cube.cells:
            assert severities(divided, name) == severities(cube, name), name
