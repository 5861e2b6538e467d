"""The programs of the worked examples in docs/examples.md: each in its original and its mended form. Times are
simulated, so that waits have realistic lengths; a tick is a microsecond.

    python -m benchmarks.worked uneven before.otf2
    python -m benchmarks.worked uneven after.otf2 --mended
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from benchmarks.faults import CALL, Simulation
from benchmarks.world import Timed
from tracecols.converters.otf2.write import write_archive

STEPS = 20
"""Time steps of each program."""


class Worked(Simulation):
    """A simulation whose functions have meaningful names.

    Parameters
    ----------
    is_mended : bool
        Whether the program is the mended one.
    """

    def __init__(self, is_mended: bool, ranks: int, threads: int, *steps: tuple[str, int]) -> None:
        self.is_mended = is_mended
        super().__init__(1, ranks, threads, STEPS, list(steps))
        self.program = Timed(ranks, threads)

    def compute(self, region: str, sizes: list[int]) -> None:
        """Make masters compute in a region, each for its number of ticks in `sizes`."""
        for r, size in enumerate(sizes):
            t = self.now[r][0]
            self.at(r).enter(t, region)
            self.now[r][0] = t + self.work(0, size, r, 0, 0)
            self.at(r).leave(self.now[r][0])

    # -- uneven: three quarters of the refined cells belong to rank 2

    def step_refine(self, step: int, size: int, iteration: int) -> None:
        """Compute the cells of each rank; mended, refined cells are distributed like the others."""
        refined = [size // 4] * 4 if self.is_mended else [0, 0, size, 0]
        self.compute("update_cells", [4000 + cells for cells in refined])

    # -- chatty: a message for each cell of a border

    def step_border(self, step: int, size: int, iteration: int) -> None:
        """Send a border to the next rank, cell by cell; mended, all of it in one message."""
        n = 1 if self.is_mended else size
        for r in range(0, self.ranks, 2):
            t = [self.now[r][0], self.now[r + 1][0]]
            self.at(r).enter(t[0], "exchange_border")
            self.at(r + 1).enter(t[1], "exchange_border")
            for _ in range(n):
                # a call takes 8 us, and 1 us for each kB
                sent = t[0]
                t[0] += CALL + 8 * size // n // 1000
                self.at(r).enter(sent, "MPI_Send").send(sent + 1, to=r + 1, length=8 * size // n).leave(t[0])
                come = t[1]
                t[1] = max(come, sent) + CALL + 8 * size // n // 1000
                self.at(r + 1).enter(come, "MPI_Recv").receive(t[1], source=r).leave(t[1])
            for i in range(2):
                self.at(r + i).leave(t[i])
                self.now[r + i][0] = t[i]

    # -- serial: the master sorts while the other threads idle

    def step_sort(self, step: int, size: int, iteration: int) -> None:
        """Sort particles: the master alone; mended, all threads in a parallel region."""
        if self.is_mended:
            for r in range(self.ranks):
                self._parallel(step, r, lambda r, i, t: self._loop(step, size // self.threads, r, i, t, iteration))
        else:
            self.compute("sort_particles", [size] * self.ranks)


PROGRAMS: dict[str, Callable[[bool], Worked]] = {
    "uneven": lambda mended: Worked(mended, 4, 1, ("refine", 6000), ("halo", 0), ("allreduce", 0)),
    "chatty": lambda mended: Worked(mended, 4, 1, ("compute", 4000), ("border", 250), ("allreduce", 0)),
    "serial": lambda mended: Worked(mended, 2, 4, ("parallel", 3000), ("sort", 4000), ("allreduce", 0)),
}
"""Makers of programs by name; the argument is whether the program is mended."""


def main() -> None:
    """Write a program as an OTF2 archive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("output", type=Path, metavar="NAME.otf2")
    parser.add_argument("--mended", action="store_true")
    given = parser.parse_args()
    print(write_archive(PROGRAMS[given.program](given.mended).run().program, given.output))


if __name__ == "__main__":
    main()
