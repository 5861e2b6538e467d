"""A program in which one process does almost everything, and most events are on its first thread."""

from __future__ import annotations

from benchmarks.programs.script import Script

SIZES = (100, 10, 1)
"""Computations of the first process in a turn, for each of the others."""


def write(n_processes: int, n_threads: int, size: int, periodic: bool) -> Script:
    """Broadcast, compute many small things on the first process and one on each of the others, reduce."""
    s = Script("lopsided", n_processes, n_threads)
    s.begin()
    small = s.function("small", 30)
    for p in s.processes:
        p.collective("bcast", s.world, 1_024, 0)
        if not p.number:
            for _ in range(size * n_processes):
                p.compute(small, 400)
        else:
            p.work("large", 60, 40_000 * size)
        p.collective("allreduce", s.world, 8)
    s.end()
    return s
