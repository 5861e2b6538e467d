"""Simulated programs: processes and threads that compute, communicate and wait for each other; times are in
microseconds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tracecols.converters.base import Clock
from tracecols.testing import Location, Program

ANY = -2
"""A rank or thread for which any answer is right."""

PTHREADS = 7
"""Number of the paradigm of POSIX threads."""


class Timed(Program):
    """A program whose clock has one tick per microsecond, or more.

    Attributes
    ----------
    resolution : int
        Ticks per second.
    """

    resolution = 10**6

    @property
    def clock(self) -> Clock:
        """Return the clock, from 0 to the last event."""
        return Clock(self.resolution, 0, max((one.events[-1][0] for one in self.locations if one.events), default=0))


@dataclass
class Truth:
    """The right content of the first finding.

    Attributes
    ----------
    regions : tuple of str
        The region of the finding has to be one of these.
    rank, thread : int
        Location that causes it; -1 if it is none in particular, `ANY` if any answer is right.
    lost : int
        Approximate ticks by which the run would be shorter without the cause; 0 if that is not known.
    """

    regions: tuple[str, ...]
    rank: int = -1
    thread: int = ANY
    lost: int = 0


class World:
    """Processes between start and end of MPI, with the current time of each of their threads.

    Attributes
    ----------
    now : list of list of int
        Current time in ticks, by rank and thread.
    begin, end : int
        Begin and end of the runtime, in ticks.
    team : int
        The communicator of threads that are created one by one.
    """

    def __init__(self, rng: random.Random, ranks: int, threads: int = 1, noise: float = 0.1) -> None:
        self.rng, self.ranks, self.threads, self.noise = rng, ranks, threads, noise
        self.program: Timed = Timed(ranks, threads)
        self.now = [[0] * threads for _ in range(ranks)]
        self.orders = 0
        for r in range(ranks):
            self.at(r).enter(0, "_start").enter(1 + r, "main")
            self.now[r][0] = 2 + r
            if ranks > 1:
                self.at(r).enter(2 + r, "MPI_Init")
        if ranks > 1:
            self.meet(200, lambda r, t: self.at(r).leave(t))
        self.begin = min(now[0] for now in self.now) if ranks > 1 else 0
        self.end = self.team = 0

    def at(self, rank: int, thread: int = 0) -> Location:
        """Return the location that records a thread."""
        return self.program.locations[rank * self.threads + thread]

    def noisy(self, ticks: float) -> int:
        """Return a time with noise."""
        return max(int(ticks * (1 + self.noise * (self.rng.random() - 0.5))), 1)

    def work(self, rank: int, region: str, ticks: float, thread: int = 0) -> None:
        """Make a thread compute in a region."""
        t = self.now[rank][thread]
        self.now[rank][thread] = t + self.noisy(ticks)
        self.at(rank, thread).enter(t, region).leave(self.now[rank][thread])

    def task(self, thread: int, number: int, region: str, ticks: float, creation: int = 1) -> None:
        """Make a thread of the first process create an explicit task and execute it at once."""
        t, task, one = self.now[0][thread], (thread, number), self.at(0, thread)
        one.enter(t, "!$omp create task @tree.c:20").create_task(t, task).leave(t + creation)
        one.switch_task(t + creation, task)
        self.now[0][thread] = t + creation
        self.work(0, region, ticks, thread)
        one.complete_task(self.now[0][thread], task)

    def everyone(self, region: str, ticks: float, slow: int = -1, more: float = 0) -> None:
        """All masters compute, one of them longer."""
        for r in range(self.ranks):
            self.work(r, region, ticks + more * (r == slow))

    @contextmanager
    def inside(self, region: str, ranks: Iterable[int] | None = None) -> Iterator[None]:
        """Enter a region on masters, and leave it at the end of the context."""
        ranks = range(self.ranks) if ranks is None else ranks
        for r in ranks:
            self.at(r).enter(self.now[r][0], region)
        yield
        for r in ranks:
            self.at(r).leave(self.now[r][0])

    def meet(self, cost: int, then: Callable[[int, int], Any]) -> None:
        """Make all masters wait for each other."""
        last = max(now[0] for now in self.now)
        for r in range(self.ranks):
            self.now[r][0] = last + cost + self.rng.randrange(3)
            then(r, self.now[r][0])

    def collective(self, name: str, op: str, size: int = 8, cost: int = 10) -> None:
        """All processes take part in an operation for which all wait."""
        for r in range(self.ranks):
            self.at(r).enter(self.now[r][0], name).begin_collective(self.now[r][0])
        self.meet(cost, lambda r, t: self.at(r).end_collective(t, op, sent=size, received=size).leave(t))

    def barrier(self) -> None:
        """All processes wait for each other."""
        self.collective("MPI_Barrier", "barrier", 0)

    def allreduce(self) -> None:
        """All processes reduce to all."""
        self.collective("MPI_Allreduce", "allreduce")

    def message(self, source: int, to: int, length: int = 8, tag: int = 0, cost: int = 5, ready: bool = False) -> None:
        """Send a message; with `ready` the sender waits until it is received."""
        t, u = self.now[source][0], self.now[to][0]
        sent = (max(t, u) if ready else t) + cost
        self.at(source).enter(t, "MPI_Ssend" if ready else "MPI_Send").send(t, to, tag=tag, length=length).leave(sent)
        arrives = max(t, u) + cost
        self.at(to).enter(u, "MPI_Recv").receive(arrives, source, tag=tag, length=length).leave(arrives)
        self.now[source][0], self.now[to][0] = sent, arrives

    def parallel(self, rank: int, line: int, body: Callable[[int], None], overhead: int = 3) -> None:
        """Execute a parallel region on the threads of a process."""
        with self.in_team(rank, line, overhead=overhead):
            for i in range(self.threads):
                body(i)

    def divided(self, rank: int, line: int, region: str, ticks: Sequence[float], overhead: int = 3) -> None:
        """Compute in a parallel region on the threads of a process, each for some ticks."""
        self.parallel(rank, line, lambda i: self.work(rank, region, ticks[i], i), overhead)

    def locked(self, rank: int, wanted: dict[int, int], region: str, ticks: float, line: int) -> None:
        """Make threads that request a critical section at the times `wanted` execute it one after the other."""
        free = 0
        for i in sorted(wanted, key=lambda i: wanted[i]):
            one = self.at(rank, i).enter(wanted[i], f"!$omp critical @solver.c:{line}")
            begin = max(free, wanted[i] + 1)
            self.orders += 1
            one.acquire(begin, 1, self.orders).enter(begin, f"!$omp critical sblock @solver.c:{line}")
            self.now[rank][i] = begin
            self.work(rank, region, ticks, i)
            end = self.now[rank][i]
            one.leave(end).release(end + 1, 1, self.orders).leave(end + 1)
            self.now[rank][i], free = end + 1, end + 2

    def finish(self) -> Program:
        """End all processes, and record the end of the runtime."""
        self.end = max(max(now) for now in self.now)
        return self.done()

    @property
    def runtime(self) -> int:
        """Return the ticks between start and end of MPI, or of the whole run."""
        return self.end - self.begin

    def call(self, rank: int, name: str, cost: int) -> None:
        """Make a call that does not wait for others."""
        t = self.now[rank][0]
        self.now[rank][0] = t + cost
        self.at(rank).enter(t, name).leave(t + cost)

    def from_root(self, name: str, op: str) -> None:
        """All processes but the root, rank 0, wait for it."""
        sent = self.now[0][0]
        for r in range(self.ranks):
            self._rooted(r, max(self.now[r][0], sent), name, op, {"sent": 8 * self.ranks * (not r), "received": 8})

    def to_root(self, name: str, op: str) -> None:
        """The root, rank 0, waits for all others."""
        last = max(now[0] for now in self.now)
        for r in range(self.ranks):
            t = self.now[r][0] if r else last
            self._rooted(r, t, name, op, {"sent": 8, "received": 8 * self.ranks * (not r)})

    def _rooted(self, rank: int, ready: int, name: str, op: str, sizes: dict[str, int]) -> None:
        t, end = self.now[rank][0], ready + 10
        self.now[rank][0] = end
        self.at(rank).enter(t, name).begin_collective(t).end_collective(end, op, 0, **sizes).leave(end)

    def among(self, ranks: Sequence[int], communicator: int, name: str, op: str) -> None:
        """Some processes take part in an operation for which all of them wait."""
        end = max(self.now[r][0] for r in ranks) + 10
        for r in ranks:
            t = self.now[r][0]
            one = self.at(r).enter(t, name).begin_collective(t)
            one.end_collective(end, op, sent=8, received=8, communicator=communicator).leave(end)
            self.now[r][0] = end

    def halo(self, length: int = 1024, cost: int = 8) -> None:
        """Neighbours in a line exchange messages without blocking."""
        peers = {r: [p for p in (r - 1, r + 1) if 0 <= p < self.ranks] for r in range(self.ranks)}
        sent = {r: self._post(r, peers[r], length) for r in range(self.ranks)}
        for r in range(self.ranks):
            t = self.now[r][0]
            end = max([t, *(sent[p][r] for p in peers[r])]) + cost
            one = self.at(r).enter(t, "MPI_Waitall")
            for k, p in enumerate(peers[r]):
                one.complete_receive(end, p, request=10 + k, length=length)
            for k in range(len(peers[r])):
                one.complete_send(end, 20 + k)
            one.leave(end)
            self.now[r][0] = end

    def _post(self, rank: int, peers: Sequence[int], length: int) -> dict[int, int]:
        """Post receives from some processes and sends to them; return the time of each send, by process."""
        t, one, sent = self.now[rank][0], self.at(rank), {}
        for k in range(len(peers)):
            one.enter(t, "MPI_Irecv").post_receive(t, 10 + k).leave(t + 1)
            t += 2
        for k, p in enumerate(peers):
            one.enter(t, "MPI_Isend").start_send(t, p, request=20 + k, length=length).leave(t + 1)
            sent[p] = t
            t += 2
        self.now[rank][0] = t
        return sent

    @contextmanager
    def in_team(self, rank: int, line: int, threads: int = 0, overhead: int = 3) -> Iterator[None]:
        """Begin a parallel region on all threads of a process, or on some; end it at the end of the context."""
        t, n = self.now[rank][0], threads or self.threads
        self.at(rank).fork(t)
        for i in range(n):
            self.now[rank][i] = t + overhead + i
            one = self.at(rank, i).begin_team(self.now[rank][i])
            one.enter(self.now[rank][i], f"!$omp parallel @solver.c:{line}")
        yield
        last = max(self.now[rank][:n]) + 1
        for i in range(n):
            one = self.at(rank, i).enter(self.now[rank][i], f"!$omp implicit barrier @solver.c:{line}")
            one.leave(last).leave(last).end_team(last)
            self.now[rank][i] = last
        self.now[rank][0] = last + overhead
        self.at(rank).join(last + overhead)

    def team_barrier(self, rank: int, name: str, cost: int = 2) -> None:
        """All threads of a process wait for each other."""
        last = max(self.now[rank]) + cost
        for i in range(self.threads):
            self.at(rank, i).enter(self.now[rank][i], name).leave(last)
            self.now[rank][i] = last

    def create_threads(self) -> None:
        """The main thread creates all others, which enter `worker`."""
        every = list(range(self.threads))
        self.team = self.program.define("communicators", kind="group", paradigm="pthread", flags=0, members=every)
        self.program.region("pthread_create", "pthread", "thread_create")
        self.program.region("pthread_join", "pthread", "thread_wait")
        for name in ("mutex_lock", "mutex_unlock", "cond_wait", "cond_signal"):
            self.program.region(f"pthread_{name}", "pthread", "wrapper")
        for i in range(1, self.threads):
            self.create(i, i)
            self.at(0, i).enter(self.now[0][i], "worker")

    def create(self, thread: int, sequence: int, cost: int = 5) -> None:
        """The main thread creates a thread."""
        t = self.now[0][0]
        one = self.at(0).enter(t, "pthread_create").create_thread(t + 1, sequence, self.team)
        one.leave(t + cost)
        self.now[0][0] = t + cost + 1
        self.now[0][thread] = t + cost + 5
        self.at(0, thread).begin_thread(t + cost + 3, sequence, self.team)

    def join(self, thread: int, sequence: int) -> None:
        """A thread ends, and the main thread waits for it."""
        self.at(0, thread).end_thread(self.now[0][thread] + 1, sequence, self.team)
        t = self.now[0][0]
        end = max(t, self.now[0][thread] + 2)
        self.at(0).enter(t, "pthread_join").wait_for_thread(end, sequence, self.team).leave(end + 1)
        self.now[0][0] = end + 1

    def join_threads(self) -> None:
        """All created threads end, and the main thread waits for them."""
        for i in range(1, self.threads):
            self.at(0, i).leave(self.now[0][i])
            self.join(i, i)

    def done(self) -> Program:
        """End all processes."""
        if self.ranks > 1:
            with self.inside("MPI_Finalize"):
                self.meet(50, lambda r, t: None)
        for r in range(self.ranks):
            self.at(r).leave(self.now[r][0]).leave(self.now[r][0] + 1)
        return self.program


Built = tuple[Program, Truth]


def processes(rng: random.Random, least: int = 2) -> int:
    """Draw a number of processes."""
    return rng.choice([n for n in (2, 3, 4, 5, 6, 8) if n >= least])
