"""Pairs of processes that exchange messages of several tags: as many channels and communicators as wanted."""

from __future__ import annotations

from benchmarks.programs.script import Script

SIZES = (10_000, 1_000, 100, 10, 1)
"""Numbers of communicators, each of two processes; a turn uses all of them."""
TAGS = 5
"""Channels of a communicator in one direction."""


def write(n_processes: int, n_threads: int, size: int, periodic: bool) -> Script:
    """In each communicator send messages there and back, tag by tag, and meet at a barrier; a reduction after them
    all."""
    if n_processes < 2:
        raise ValueError("channels needs at least 2 processes: those of a pair")
    s = Script("channels", n_processes, n_threads)
    n = n_processes
    pairs = [(i % n, (i + 1 + i // n % (n - 1)) % n) for i in range(size)]
    comms = [s.comm(f"pair {i}", list(pair)) for i, pair in enumerate(pairs)]
    s.begin("MPI_Comm_create")
    # all processes use the communicators in the same order, which avoids deadlocks
    for comm, pair in zip(comms, pairs, strict=True):
        for me, other in (pair, pair[::-1]):
            p = s.processes[me]
            p.work("prepare", 20, 2_000 + 500 * (me % 3))
            if me == pair[0]:
                for tag in range(TAGS):
                    p.send(other, comm, tag, 256 * (tag + 1))
            for tag in range(TAGS):
                p.recv(other, comm, tag, 256 * (tag + 1))
            if me == pair[1]:
                for tag in range(TAGS):
                    p.send(other, comm, tag, 256 * (tag + 1))
            p.collective("barrier", comm)
    for p in s.processes:
        p.collective("allreduce", s.world, 8)
    s.end()
    return s
