"""SHMEM in OTF2: records of one-sided communication of paradigm shmem; wait states worked out by hand."""

from collections import Counter

import pytest

BARRIER, BROADCAST, ALLREDUCE = 0, 1, 11
BOTH = 3


class Shmem:
    """Processes that use SHMEM, as Score-P records it."""

    def __init__(self, archive, n):
        self.archive = archive
        self.pes = []
        for i in range(n):
            self.pes.append(archive.location("Master thread", archive.process(f"PE {i}")))
        archive.group("comm_locations", self.pes, "shmem")
        self.world = self.window(range(n))
        for name in (
            "shmem_barrier_all",
            "shmem_broadcast64",
            "shmem_int_sum_to_all",
            "shmem_put",
            "shmem_set_lock",
            "shmem_clear_lock",
            "shmem_my_pe",
            "shmem_get",
        ):
            archive.region(name, "barrier" if "barrier" in name else "function", "shmem")
        for pe in self.pes:
            pe.enter(0, "main")

    def window(self, ranks):
        comm = self.archive.comm("", ranks, paradigm="shmem")
        return self.archive.define("RmaWin", name=self.archive.string("SHMEM"), comm=comm, flags=0)

    def collective(self, pe, begin, end, name, op, window, root=None, sent=0, received=0):
        given = {"op": op, "level": BOTH, "window": window, "root": root, "sent": sent, "received": received}
        self.pes[pe].enter(begin, name).record(begin, "RmaCollectiveBegin").record(end, "RmaCollectiveEnd", **given)
        self.pes[pe].leave(end, name)

    def locked(self, pe, begin, taken, given_back, lock):
        given = {"window": self.world, "remote": None, "lock": lock}
        p = self.pes[pe].enter(begin, "shmem_set_lock").record(taken, "RmaAcquireLock", **given, lock_type=0)
        p.leave(taken, "shmem_set_lock").enter(given_back, "shmem_clear_lock")
        p.record(given_back + 1, "RmaReleaseLock", **given).leave(given_back + 1, "shmem_clear_lock")


def ticks(cube, name):
    """Return the ticks of a property by location."""
    found = cube.cells[name]
    totals = Counter()
    for location, value in zip(found.location.tolist(), found.value.tolist(), strict=True):
        totals[location] += value
    return dict(totals)


def test_collective_operations__wait_for_the_last_or_the_root(archive, analyze):
    p = Shmem(archive, 3)
    pair = p.window([1, 2])
    for pe, begin in enumerate((10, 15, 30)):
        p.collective(pe, begin, 32, "shmem_barrier_all", BARRIER, p.world)
    # an active set of two: process 0 does not take part
    p.collective(1, 40, 51, "shmem_int_sum_to_all", ALLREDUCE, pair)
    p.collective(2, 50, 51, "shmem_int_sum_to_all", ALLREDUCE, pair)
    # the root, process 1, is late; nobody waits for the last process
    for pe, (begin, end) in enumerate(((60, 80), (75, 76), (90, 91))):
        p.collective(pe, begin, end, "shmem_broadcast64", BROADCAST, p.world, root=1, sent=8 * (pe == 1), received=8)
    p.pes[0].call(92, 95, "shmem_my_pe")
    for pe in p.pes:
        pe.leave(100, "main")
    cube = analyze(archive)
    assert ticks(cube, "shmem_barrier_wait") == {0: 20, 1: 15}
    assert ticks(cube, "shmem_wait_nxn") == {1: 10}
    assert ticks(cube, "shmem_latebroadcast") == {0: 15}
    assert ticks(cube, "shmem_barrier") == {0: 22, 1: 17, 2: 2}
    assert ticks(cube, "shmem") == {0: 22 + 20 + 3, 1: 17 + 11 + 1, 2: 2 + 1 + 1}
    # time in SHMEM calls is no computation
    assert ticks(cube, "comp") == {0: 55, 1: 71, 2: 96}
    assert "mpi_rma_wait_at_fence" not in cube.cells or not len(cube.cells["mpi_rma_wait_at_fence"])


def test_locks__wait_for_who_has_the_same_lock(archive, analyze):
    p = Shmem(archive, 3)
    p.locked(0, 10, 11, 39, lock=0x1000)
    p.locked(1, 20, 41, 50, lock=0x1000)
    p.locked(2, 22, 23, 60, lock=0x2000)
    for pe in p.pes:
        pe.leave(100, "main")
    cube = analyze(archive)
    # process 1 waits until process 0 releases the lock at 40; the lock of process 2 is free
    assert ticks(cube, "shmem_lock_competition") == {1: 20}


@pytest.mark.parametrize("n", [1, 2])
def test_puts__count_bytes(archive, analyze, n):
    p = Shmem(archive, n)
    p.pes[0].enter(10, "shmem_put").record(10, "RmaPut", window=p.world, remote=n - 1, sent=64, matching=1)
    p.pes[0].record(12, "RmaOpCompleteBlocking", window=p.world, matching=1).leave(12, "shmem_put").leave(20, "main")
    cube = analyze(archive)
    assert ticks(cube, "bytes_put") == {0: 64}
    assert ticks(cube, "shmem_rma_communication") == {0: 2}
