"""A program in which two ranks are late, each for different operations."""

from __future__ import annotations

import random

from benchmarks.world import World


def late_ranks(n: int) -> World:
    """Simulate 3 ranks: rank 1 is late for each of `n` reductions in `norm`, rank 2 for each barrier in `sync`."""
    w = World(random.Random(1), 3, noise=0.0)
    for _ in range(n):
        for r in range(3):
            w.work(r, "assemble", 3000 if r == 1 else 1000)
        w.open("norm")
        w.allreduce()
        w.close()
        for r in range(3):
            w.work(r, "smooth", 1500 if r == 2 else 1000)
        w.open("sync")
        w.barrier()
        w.close()
    return w
