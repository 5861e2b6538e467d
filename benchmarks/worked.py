"""The programs of the worked examples in docs/examples.md: each in its original and its mended form. Times are
simulated, so that waits have realistic lengths; a tick is a microsecond.

    python -m benchmarks.worked uneven before.otf2
    python -m benchmarks.worked uneven after.otf2 --mended
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from benchmarks.world import Make, Truth, World, program
from tracecols.converters.otf2.write import write_archive

STEPS = 20
"""Time steps of each program."""

PROGRAMS: dict[str, Make] = {}
"""Makers of programs by name; without their bottleneck they are the mended ones."""


@program(PROGRAMS, 4)
def uneven(w: World, late: float) -> Truth:
    """Three quarters of the refined cells belong to rank 2; mended, they are distributed like the others."""
    for _ in range(STEPS):
        with w.inside("time_step"):
            for r in range(w.ranks):
                w.work(r, "update_cells", 4000 + (6000 * (r == 2) if late else 1500))
            with w.inside("exchange"):
                w.halo()
            with w.inside("reduce"):
                w.allreduce()
    return Truth(("update_cells",), 2)


@program(PROGRAMS, 4)
def chatty(w: World, late: float) -> Truth:
    """Even ranks send a border to the next rank, cell by cell; mended, all of it in one message."""
    n = 250 if late else 1
    for _ in range(STEPS):
        with w.inside("time_step"):
            w.everyone("compute", 4000)
            with w.inside("exchange_border"):
                for r in range(0, w.ranks, 2):
                    for _ in range(n):
                        # a call takes 8 us, and 1 us for each kB
                        w.message(r, r + 1, 2000 // n, cost=8 + 2 // n)
            with w.inside("reduce"):
                w.allreduce()
    return Truth(("exchange_border",))


@program(PROGRAMS, 2, 4)
def serial(w: World, late: float) -> Truth:
    """The master sorts particles while the other threads idle; mended, all threads sort in a parallel region."""
    for _ in range(STEPS):
        with w.inside("time_step"):
            for r in range(w.ranks):
                w.divided(r, 10, "move_particles", 3000)
            if late:
                w.everyone("sort_particles", 4000)
            else:
                for r in range(w.ranks):
                    w.divided(r, 20, "sort_particles", 1000)
            with w.inside("reduce"):
                w.allreduce()
    return Truth(("sort_particles",))


def made(name: str, is_mended: bool) -> World:
    """Execute a program, the same in each run."""
    world, _ = PROGRAMS[name](random.Random(1), not is_mended)
    world.finish()
    return world


def main() -> None:
    """Write a program as an OTF2 archive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("output", type=Path, metavar="NAME.otf2")
    parser.add_argument("--mended", action="store_true")
    given = parser.parse_args()
    print(write_archive(made(given.program, given.mended).program, given.output))


if __name__ == "__main__":
    main()
