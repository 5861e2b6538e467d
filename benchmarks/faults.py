"""Random programs with one delay each (`benchmarks.kinds`): a program is a list of steps that all processes execute in
every iteration: computation, parallel regions, critical sections, messages, collective operations. One piece of work
takes longer at one location: each time, once, or every n-th time. Only programs whose run time depends on the delay are
kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.world import ANY, Made, Make, Truth, World

MATTERS = 0.08
"""Minimum share of a delay in the run time."""

SIZES = ((2, 1), (3, 1), (4, 1), (6, 1), (2, 2), (2, 3), (3, 2), (4, 2), (1, 3), (1, 4))
"""Numbers of processes and threads."""

Piece = Callable[[int, int], float]
"""Ticks of a piece of work, of a rank and a thread."""


def compute(w: World, step: int, piece: Piece) -> None:
    """Masters compute."""
    for r in range(w.ranks):
        w.work(r, f"compute_{step}", piece(r, 0))


def parallel(w: World, step: int, piece: Piece) -> None:
    """All threads compute in a parallel region."""
    with w.inside(f"solve_{step}"):
        for r in range(w.ranks):
            w.divided(r, step, f"loop_{step}", [piece(r, i) for i in range(w.threads)])


def critical(w: World, step: int, piece: Piece) -> None:
    """All threads compute, a small part of it in a critical section."""
    with w.inside(f"solve_{step}"):
        for r in range(w.ranks):
            with w.in_team(r, step):
                w.spread(r, f"loop_{step}", [piece(r, i) for i in range(w.threads)])
                w.locked(r, f"update_{step}", [50] * w.threads, step + 100)


WORK = {"compute": compute, "parallel": parallel, "critical": critical}
"""Steps that may be delayed."""


def shift(w: World, step: int, ready: bool = False) -> None:
    """Even ranks send to the next one, synchronously or not."""
    for r in range(0, w.ranks - 1, 2):
        with w.inside(f"send_{step}", [r]), w.inside(f"receive_{step}", [r + 1]):
            w.message(r, r + 1, ready=ready)


COMMUNICATION: tuple[Callable[[World, int], None], ...] = (
    lambda w, step: w.allreduce(),
    lambda w, step: w.barrier(),
    lambda w, step: w.from_root("MPI_Bcast", "bcast", step % w.ranks),
    lambda w, step: w.to_root("MPI_Reduce", "reduce", step % w.ranks),
    lambda w, step: w.overlapped("MPI_Iallreduce", "allreduce", f"hidden_{step}", 250),
    lambda w, step: w.halo(),
    shift,
    lambda w, step: shift(w, step, ready=True),
)


@dataclass
class Random:
    """A random program.

    Attributes
    ----------
    mode : str
        When the piece of work is delayed: `always`, `once` or `sometimes`.
    kinds, sizes : list
        Kind of work of each step, and its ticks; a step of communication follows each.
    step, rank, thread : int
        Piece of work that is delayed.
    every : int
        For `sometimes`, the interval in iterations; for `once`, the iteration.
    """

    rng: random.Random
    mode: str
    kinds: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    communication: list[Callable[[World, int], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        choice = self.rng.choice
        self.seed, (self.ranks, self.threads) = self.rng.random(), choice(SIZES)
        for number in range(self.rng.randint(1, 3)):
            # computation by masters alone would be another fault
            possible = [*WORK][bool(not number) :] if self.threads > 1 else ["compute"]
            self.kinds.append(choice(possible))
            less = 16 if self.kinds[-1] == "compute" and self.threads > 1 else 1
            self.sizes.append(choice([1000, 2000, 4000]) // less)
            self.communication.append(choice(COMMUNICATION))
        self.iterations, self.step = choice([6, 10, 20, 40]), self.rng.randrange(len(self.kinds))
        self.rank = self.rng.randrange(self.ranks)
        self.thread = 0 if self.kinds[self.step] == "compute" else self.rng.randrange(self.threads)
        self.ticks = self.sizes[self.step] * choice([1, 2, 3]) * (self.iterations if self.mode == "once" else 1)
        self.every = self.rng.randrange(self.iterations) if self.mode == "once" else self.rng.randint(2, 3)

    def delay(self, iteration: int) -> int:
        """Return the ticks by which the piece of work takes longer in an iteration."""
        if self.mode == "sometimes":
            return self.ticks * (iteration % self.every == self.every - 1)
        return self.ticks * (self.mode == "always" or iteration == self.every)

    def run(self, late: float) -> World:
        """Execute the program, with its delay or without it."""
        w = World(random.Random(self.seed), self.ranks, self.threads)
        for iteration in range(self.iterations):
            with w.inside("time_step"):
                for step, kind in enumerate(self.kinds):
                    more = late * self.delay(iteration) * (step == self.step)
                    slow = self.rank, self.thread
                    WORK[kind](w, step, lambda *who, n=self.sizes[step], more=more, slow=slow: n + more * (who == slow))
                    if self.ranks > 1:
                        with w.inside(f"communicate_{step}"):
                            self.communication[step](w, step)
        return w


def _delayed(mode: str) -> Make:
    """Return the maker of programs that are delayed always, once or sometimes."""

    def make(rng: random.Random, late: float) -> Made:
        while True:
            drawn = Random(rng, mode)
            delayed, usual = drawn.run(1), drawn.run(0)
            if delayed.elapsed - usual.elapsed > MATTERS * delayed.elapsed:
                region = f"{'compute' if drawn.kinds[drawn.step] == 'compute' else 'loop'}_{drawn.step}"
                truth = Truth((region,), drawn.rank, drawn.thread if drawn.threads > 1 else ANY)
                return (delayed if late else usual), truth

    return make


FAULTS: dict[str, Make] = {mode: _delayed(mode) for mode in ("always", "once", "sometimes")}
"""Makers of programs by when the piece of work is delayed."""
