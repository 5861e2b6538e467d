"""Random call trees, messages of every kind around a ring, parallel regions with locks if there are threads, and an
occasional collective operation."""

from __future__ import annotations

from benchmarks.programs import kernels as k
from benchmarks.programs.script import Script

SIZES = (16, 8, 4, 1)
"""Rounds of a turn."""
LOCKS = (k.NO_LOCK, k.LOCK_API, k.NO_LOCK, k.CRITICAL)
N_BYTES = 8_192


def write(n_processes: int, n_threads: int, size: int, periodic: bool) -> Script:
    """Compute, then send to the right and receive from the left: blocking, without blocking, in reverse order, or
    synchronously."""
    s = Script("irregular", n_processes, n_threads)
    s.begin()
    for p in s.processes:
        left, right = (p.number - 1) % n_processes, (p.number + 1) % n_processes
        for number in range(size):
            how = number % 4
            line, mean = 100 * (how + 1), 30_000 + 7_000 * ((p.number + 3 * number) % 5)
            compute = s.function(f"phase_{how}", line)
            if n_threads > 1:
                p.parallel(s.parallel(line + 10), compute, mean, lock=LOCKS[how])
            else:
                p.compute(compute, mean)
            if left == p.number:
                continue
            if how == 1:
                p.irecv(left, s.world, how, N_BYTES)
                p.isend(right, s.world, how, N_BYTES)
                p.waitall()
            elif how == 2:
                for tag in (how, how + 10):
                    p.send(right, s.world, tag, N_BYTES)
                for tag in (how + 10, how):
                    p.recv(left, s.world, tag, N_BYTES)
            else:
                mode, call = (k.RENDEZVOUS, "MPI_Ssend") if how else (k.EAGER, "MPI_Send")
                if p.number % 2 and how:
                    p.recv(left, s.world, how, N_BYTES)
                p.send(right, s.world, how, N_BYTES, mode, call)
                if not (p.number % 2 and how):
                    p.recv(left, s.world, how, N_BYTES)
            if number == 7:
                p.collective("bcast", s.world, 64, 0)
        p.collective("allreduce", s.world, 8)
    s.end()
    return s
