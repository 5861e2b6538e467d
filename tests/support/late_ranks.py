"""A program in which two ranks are late, each for different operations."""

from __future__ import annotations

import random

from benchmarks.world import World


def late_ranks(n: int) -> World:
    """Simulate 3 ranks: rank 1 is late for each of `n` reductions in `norm`, rank 2 for each barrier in `sync`."""
    w = World(random.Random(1), 3, noise=0.0)
    for _ in range(n):
        w.everyone("assemble", 1000, 1, 2000)
        with w.inside("norm"):
            w.allreduce()
        w.everyone("smooth", 1000, 2, 500)
        with w.inside("sync"):
            w.barrier()
    return w
