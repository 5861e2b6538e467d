"""A hybrid solver of several zones per process, of different sizes."""

from __future__ import annotations

from benchmarks.programs import kernels as k
from benchmarks.programs.script import Script

SIZES = (2, 1)
"""Numbers of steps of a turn; every second step exchanges boundaries by blocking messages."""
BOUNDARY = 40_960
LOCKS = (k.CRITICAL, k.NO_LOCK, k.LOCK_API)


def write(n_processes: int, n_threads: int, size: int, periodic: bool) -> Script:
    """Solve each zone in a parallel region, exchange boundaries within one half of the processes, reduce and
    broadcast."""
    s = Script("multizone", n_processes, n_threads)
    half = max(n_processes // 2, 1)
    ranges = [range(half), range(half, n_processes)]
    halves = [s.comm(f"zones {i}", list(reversed(r))) for i, r in enumerate(ranges) if len(r)]
    s.begin("MPI_Comm_split")
    solve, exchange = s.function("solve", 10), s.function("exchange_boundaries", 200)
    for p in s.processes:
        comm = next(c for c in halves if p.number in c.rank)
        ring, at = comm.members, comm.rank[p.number]
        left, right = ring[at - 1], ring[(at + 1) % len(ring)]
        for number in range(size):
            p.step(k.ENTER, solve)
            for zone in range(1 + p.number * 5 % 3):
                mean = 12_000 + 5_000 * ((p.number + 2 * zone) % 4)
                region = s.parallel(30 + 20 * zone)
                lock = LOCKS[(zone + number) % 3]
                p.parallel(
                    region, s.function("zone", 100 + zone), mean, loops=2, lock=lock, number=int(lock == k.LOCK_API)
                )
            p.step(k.EXIT, solve)
            p.step(k.ENTER, exchange)
            if len(ring) > 1:
                if number % 2 == 0:
                    for source, tag in ((left, 1), (right, 2)):
                        p.irecv(source, comm, tag, BOUNDARY)
                    for to, tag, mode in ((right, 1, k.EAGER), (left, 2, k.RENDEZVOUS)):
                        p.isend(to, comm, tag, BOUNDARY, mode)
                    p.waitall()
                elif at % 2:
                    p.recv(left, comm, 3, BOUNDARY)
                    p.send(right, comm, 3, BOUNDARY, k.RENDEZVOUS)
                else:
                    p.send(right, comm, 3, BOUNDARY, k.RENDEZVOUS)
                    p.recv(left, comm, 3, BOUNDARY)
            p.step(k.EXIT, exchange)
            p.collective("reduce", s.world, 40, 0)
            p.collective("bcast", s.world, 8, 0, separates=True)
        p.collective("barrier", comm)
    s.end()
    return s
