"""Causes through accelerators: who lets kernels of other ranks, and hosts, wait."""

from __future__ import annotations

import tarfile
from unittest import mock

import pytest
from conftest import SHARED
from support.device_program import Rank, Simulation, random_ranks

import tracecols
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
        found = sum(int(cube.cells[name].value.sum()) for name in of if name in cube.cells)
        assert int(cube.cells[delay].value.sum()) == found
    assert cube.violations() == []
    path = trace.critical_path(raw=True)
    run = trace.manifest["last_time"] - trace.manifest["first_time"]
    assert int(cube.cells["critical_path"].value.sum()) == run
    assert int((path.end_time - path.begin_time).sum()) == run


def test_long_kernel__before_which_the_host_synchronises():
    def rank(ticks):
        return Rank().work("setup", 5).kernel("k", ticks).sync().collective().sync()

    found = costs(two(rank(10), rank(90)))
    # who waits is followed back from the launch of its part, who begins last from its begin: 1 is its latency
    assert found == {("k", 1, 1): 79, ("ncclAllReduce", 1, 1): 1}


def test_long_host():
    def rank(ticks):
        return Rank().work("work", ticks).collective().sync()

    assert costs(two(rank(10), rank(90))) == {("main/work", 1): 79, ("ncclAllReduce", 1, 1): 1}


def test_long_kernel__on_which_a_stream_depends():
    def rank(ticks):
        return Rank().work("setup", 5).kernel("k", ticks, 1).wait_event(0).collective().sync()

    assert costs(two(rank(10), rank(90), n_streams=2)) == {("k", 1, 2): 80}


def test_host_that_is_late_after_synchronising():
    def rank(ticks):
        return Rank().kernel("k", 30).sync().work("work", ticks).collective().sync()

    assert costs(two(rank(10), rank(90))) == {("main/work", 1): 79, ("ncclAllReduce", 1, 1): 1}


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
    assert found["main/delay", 1] == 117


def test_delay__goes_on_over_ranks():
    # rank 2 lets rank 1 wait in the first operation; rank 1 is late in the second one, for which rank 0 waits
    def rank(first, second):
        return Rank().work("first", first).collective().sync().work("second", second).collective().sync()

    simulation = Simulation([rank(10, 10), rank(10, 30), rank(50, 10)])
    found = costs(simulation)
    # first: 40 each of 0 and 1. Second: 20 each of 0 and 2, while rank 1, since it launched the first one, took 20 more
    # for `second`, 3 for latency and transfer, and waited for 40: 40 * 40 / 63 go back to rank 2, whose latency is 1 of 41
    expected = {
        ("main/first", 2): 78 + 24,
        ("main/second", 1): 13,
        ("ncclAllReduce", 1, 1): 2,
        ("ncclAllReduce", 2, 1): 3,
    }
    assert found == expected


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
            severities(cube, "nccl_wait_nxn") | severities(cube, "nccl_barrier_wait")
            if "nccl_communication" in cube.cells
            else {}
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


# -- recorded programs -------------------------------------------------------------------------------------------------


def converted(archive, tmp_path):
    if not archive.exists():
        pytest.skip("no reference traces beside the repository")
    return tracecols.open(tracecols.convert(archive, tmp_path / "x.trace"))


@pytest.mark.slow
def test_dlrm__hosts_of_one_rank_let_all_others_wait(tmp_path):
    archive = SHARED / "kineto" / "dlrm_8rank_v100" / "dlrm_kineto.tar.gz"
    if archive.exists():
        with tarfile.open(archive) as packed:
            packed.extractall(tmp_path / "unpacked", filter="data")
        archive = tmp_path / "unpacked" / "dlrm_kineto"
    trace = converted(archive, tmp_path)
    cube = trace.analyze()
    check(cube, trace)
    # us, by rank
    waits = cube.frame("nccl_wait_nxn").groupby("rank").value.sum() * 1e6
    assert waits.round().astype(int).tolist() == [5580, 11125, 3280, 9571, 6370, 6041, 3342, 1534]
    caused = cube.frame(NXN).groupby("rank").value.sum() * 1e6
    assert caused.sum() == pytest.approx(46843)
    assert caused[7] > 44_400
    on_path = cube.cells["critical_path"]
    on_host = ~trace.model.locations.is_device[on_path.location]
    assert on_path.value[on_host].sum() == 20_724_000


@pytest.mark.slow
def test_mfu__a_kernel_lets_the_other_rank_wait(tmp_path):
    trace = converted(SHARED / "nsight" / "mfu_2gpu_before.sqlite", tmp_path)
    cube = trace.analyze()
    check(cube, trace)
    waits = cube.frame("nccl_wait_nxn").groupby("rank").value.sum() * 1e3
    assert waits.round(3).tolist() == [10.898, 2.477]
    caused = cube.frame(NXN).sort_values("value", ascending=False).iloc[0]
    assert (caused.call_path, caused["rank"]) == ("flash_fwd_kernel", 1)
    assert trace.model.locations.is_device[cube.cells[NXN].location].any()
