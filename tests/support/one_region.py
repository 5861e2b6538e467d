"""Random programs whose processes execute everything in few parallel regions: teams are open nearly all the time."""

from __future__ import annotations

import random
from pathlib import Path

from support.otf2_writer import Archive, Location

PARALLEL, INNER = "!$omp parallel @a.c:1", "!$omp parallel @a.c:30"


class OneRegion:
    """Run a random program and write its archive.

    Parameters
    ----------
    seed : int
    path : Path
    rounds : int
        Number of steps of each process: work, barriers, loops, critical sections, messages.
    odd : bool
        Whether steps also include some that prevent the division of a parallel region: locks outside a critical
        region, and nested parallel regions.
    """

    def __init__(self, seed: int, path: Path, rounds: int, odd: bool = False) -> None:
        self.rng, self.odd = random.Random(seed), odd
        archive = Archive(path, length=10_000_000)
        mpi = archive.mpi(2, self.rng.randint(2, 4))
        self.world, self.teams, self.threads = mpi.world, mpi.teams, mpi.threads
        self.turn = [0, 0]
        now = [0, 0]
        for rank, threads in enumerate(self.threads):
            threads[0].enter(0, "main")
            now[rank] = self._begin(rank, self.rng.randint(0, 9))
        for _ in range(rounds):
            if self.rng.random() < 0.2:
                now = self._exchange(now)
            for rank in range(2):
                now[rank] = self._round(rank, now[rank])
        for rank, threads in enumerate(self.threads):
            threads[0].leave(self._end(rank, now[rank]) + 3, "main")
        self.path = archive.write()

    def _begin(self, rank: int, time: int, region: str = PARALLEL) -> int:
        """Begin a parallel region; return a time at which all threads are in it."""
        threads = self.threads[rank]
        threads[0].fork(time, len(threads))
        for thread in threads:
            begin = time + self.rng.randint(1, 4)
            thread.begin_team(begin, self.teams[rank])
            thread.enter(begin + self.rng.randint(0, 3), region)
        return time + 8

    def _end(self, rank: int, time: int, region: str = PARALLEL) -> int:
        """End a parallel region; return the time after its join."""
        for thread in self.threads[rank]:
            end = time + self.rng.randint(0, 4)
            thread.leave(end, region)
            thread.end_team(end + self.rng.randint(0, 2), self.teams[rank])
        self.threads[rank][0].join(time + 8)
        return time + 9

    def _round(self, rank: int, time: int) -> int:
        """Make all threads of a process execute a step; return the time of its end."""
        kinds = ["work", "barrier", "loop", "single", "critical", "critical", "between"]
        what = self.rng.choice([*kinds, "bare", "nested"] if self.odd else kinds)
        if what == "between" and self.rng.random() < 0.3:
            return self._begin(rank, self._end(rank, time) + self.rng.randint(0, 20))
        if what == "nested":
            return self._end(rank, self._begin(rank, time, INNER), INNER)
        threads = self.threads[rank]
        arrive = [self._work(thread, time) for thread in threads]
        together = max(arrive)
        if what == "barrier":
            self._together(threads, arrive, together, "!$omp barrier @a.c:3")
        elif what == "loop":
            for k, thread in enumerate(threads):
                thread.enter(arrive[k], "!$omp for @a.c:5")
                arrive[k] = self._work(thread, arrive[k])
            together = max(arrive)
            self._together(threads, arrive, together, "!$omp implicit barrier @a.c:6")
            for thread in threads:
                thread.leave(together + 1, "!$omp for @a.c:5")
        elif what == "single":
            for k, thread in enumerate(threads):
                thread.call(arrive[k], arrive[k] + self.rng.randint(0, 9), "!$omp single @a.c:9")
        elif what in ("critical", "bare"):
            for k in self.rng.sample(range(len(threads)), len(threads)):
                together = self._critical(rank, threads[k], arrive[k], max(together, arrive[k]), what == "bare")
        return max(together, *arrive) + self.rng.randint(10, 20)

    def _work(self, thread: Location, time: int) -> int:
        """Make a thread perhaps call a function; return the time after it."""
        if self.rng.random() < 0.5:
            thread.call(time, time + self.rng.randint(0, 30), self.rng.choice("fgh"))
        return time + 30 + self.rng.randint(0, 9)

    def _together(self, threads: list[Location], arrive: list[int], until: int, region: str) -> None:
        """Make threads wait for each other in a region."""
        for k, thread in enumerate(threads):
            thread.call(arrive[k], until, region)

    def _critical(self, rank: int, thread: Location, enter: int, free: int, bare: bool) -> int:
        """Make a thread acquire the lock of a process at the time `free`; return the time of the release."""
        self.turn[rank] += 1
        lock, until = rank + 1, free + self.rng.randint(1, 9)
        if not bare:
            thread.enter(enter, "!$omp critical @a.c:12")
        thread.acquire(free, lock, self.turn[rank]).release(until, lock, self.turn[rank])
        if not bare:
            thread.leave(until, "!$omp critical @a.c:12")
        return until

    def _exchange(self, now: list[int]) -> list[int]:
        """Make the masters exchange a message and meet in a barrier."""
        a, b = self.threads[0][0], self.threads[1][0]
        time, until = now[0], max(now) + 9
        a.enter(time, "MPI_Send").send(time + 1, 1, self.world).leave(time + 2, "MPI_Send")
        b.enter(now[1], "MPI_Recv").receive(max(time + 2, now[1]) + 1, 0, self.world)
        b.leave(max(time + 2, now[1]) + 2, "MPI_Recv")
        for rank in (a, b):
            rank.collective(until, until + 9, self.world, "barrier")
        return [until + 10, until + 10]
