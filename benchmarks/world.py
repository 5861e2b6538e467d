"""Simulated programs: processes and threads that compute, communicate and wait for each other; times are in
microseconds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from tracecols.converters.base import Clock
from tracecols.schema import EventKind as K
from tracecols.testing import OPENMP, Location, Program

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
    """

    regions: tuple[str, ...]
    rank: int = -1
    thread: int = ANY


class World:
    """Processes between start and end of MPI, with the current time of each of their threads.

    Attributes
    ----------
    now : list of list of int
        Current time in ticks, by rank and thread.
    begin : int
        Begin of the runtime, in ticks.
    runtime : int
        Ticks between start and end of MPI, or of the whole run, once it has ended.
    team : int
        The communicator of threads that are created one by one.
    teams : dict
        Communicators of teams of some threads of a process, by their locations.
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
        self.runtime = self.team = 0
        self.teams: dict[tuple[int, ...], int] = {}

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

    def everyone(self, region: str, ticks: float, slow: int = -1, more: float = 0, **then: float) -> None:
        """All masters compute, one of them longer, and then in further regions, whose ticks are given by name."""
        for r in range(self.ranks):
            self.work(r, region, ticks + more * (r == slow))
            for following, usual in then.items():
                self.work(r, following, usual)

    def spread(self, rank: int, region: str, ticks: float | Sequence[float]) -> None:
        """All threads of a process compute, equally long or each for some ticks."""
        for i in range(self.threads):
            self.work(rank, region, ticks[i] if isinstance(ticks, Sequence) else ticks, i)

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
        """All processes take part in an operation for which all wait; a program of one process does not use MPI."""
        if self.ranks == 1:
            return
        for r in range(self.ranks):
            self.at(r).enter(self.now[r][0], name).begin_collective(self.now[r][0])
        self.meet(cost, lambda r, t: self.at(r).end_collective(t, op, sent=size, received=size).leave(t))

    def barrier(self) -> None:
        """All processes wait for each other."""
        self.collective("MPI_Barrier", "barrier", 0)

    def allreduce(self) -> None:
        """All processes reduce to all."""
        self.collective("MPI_Allreduce", "allreduce")

    def send(self, source: int, to: int, cost: int = 5, thread: int = 0, name: str = "MPI_Send", **given: int) -> int:
        """Send a message without waiting for its receiver; return the time of sending."""
        t = self.now[source][thread]
        self.at(source, thread).enter(t, name).send(t, to, **given).leave(t + cost)
        self.now[source][thread] = t + cost
        return t

    def receive(self, to: int, source: int, sent: int, cost: int = 5, thread: int = 0, **given: int) -> None:
        """Receive a message that is sent at some time."""
        t = self.now[to][thread]
        end = self.now[to][thread] = max(t, sent) + cost
        self.at(to, thread).enter(t, "MPI_Recv").receive(end, source, **given).leave(end)

    def message(self, source: int, to: int, length: int = 8, tag: int = 0, cost: int = 5, ready: bool = False) -> None:
        """Send a message; with `ready` the sender waits until it is received."""
        waits, name = (max(self.now[to][0] - self.now[source][0], 0), "MPI_Ssend") if ready else (0, "MPI_Send")
        sent = self.send(source, to, waits + cost, name=name, tag=tag, length=length)
        self.receive(to, source, sent, cost, tag=tag, length=length)

    def divided(self, rank: int, line: int, region: str, ticks: float | Sequence[float], overhead: int = 3) -> None:
        """Compute in a parallel region on the threads of a process, equally long or each for some ticks."""
        with self.in_team(rank, line, overhead=overhead):
            self.spread(rank, region, ticks)

    @contextmanager
    def critical(self, rank: int, thread: int, line: int, free: int = 0) -> Iterator[None]:
        """Enter a critical section, which is free from some time on; leave it at the end of the context."""
        t = self.now[rank][thread]
        begin = self.now[rank][thread] = max(free, t + 1)
        self.orders += 1
        one = self.at(rank, thread).enter(t, f"!$omp critical @solver.c:{line}").acquire(begin, 1, self.orders)
        one.enter(begin, f"!$omp critical sblock @solver.c:{line}")
        yield
        end = self.now[rank][thread]
        one.leave(end).release(end + 1, 1, self.orders).leave(end + 1)
        self.now[rank][thread] = end + 1

    def in_order(self, rank: int, first: int = 0) -> list[int]:
        """Return the threads of a process, from the thread `first` on, in the order of their current times."""
        return sorted(range(first, self.threads), key=lambda i: self.now[rank][i])

    def locked(self, rank: int, region: str, ticks: Sequence[float], line: int) -> None:
        """Make all threads compute in a critical section, each for some ticks, in the order in which they request
        it."""
        free = 0
        for i in self.in_order(rank):
            with self.critical(rank, i, line, free):
                self.work(rank, region, ticks[i], i)
            free = self.now[rank][i] + 1

    def lock(self, thread: int, call: str, free: int = 0, cost: int = 2, lock: int = 1, paradigm: int = OPENMP) -> None:
        """Make a thread of the first process take a lock, which is free from some time on, by a call."""
        t = self.now[0][thread]
        end = self.now[0][thread] = max(free, t) + cost
        self.orders += 1
        self.at(0, thread).enter(t, call).acquire(end, lock, self.orders, paradigm).leave(end)

    def unlock(self, thread: int, call: str, cost: int = 1, lock: int = 1, paradigm: int = OPENMP) -> int:
        """Make a thread release the lock that was taken last; return the time from which on it is free."""
        t = self.now[0][thread]
        end = self.now[0][thread] = t + cost
        self.at(0, thread).enter(t, call).release(end, lock, self.orders, paradigm).leave(end)
        return end

    def begin_wait(self, thread: int) -> None:
        """Make a created thread wait for a condition, with the mutex that belongs to it."""
        self.lock(thread, "pthread_mutex_lock", paradigm=PTHREADS)
        t = self.now[0][thread] = self.now[0][thread] + 1
        self.at(0, thread).enter(t, "pthread_cond_wait").release(t, 1, self.orders, PTHREADS)

    def signal(self, thread: int, call: str) -> int:
        """Make a created thread signal a condition by a call; return the time from which on its mutex is free."""
        self.lock(thread, "pthread_mutex_lock", paradigm=PTHREADS)
        t = self.now[0][thread]
        self.at(0, thread).enter(t + 1, call).leave(t + 2)
        self.now[0][thread] = t + 3
        return self.unlock(thread, "pthread_mutex_unlock", paradigm=PTHREADS)

    def end_wait(self, thread: int, free: int) -> int:
        """End the wait of a thread whose condition was signalled, once the mutex is free; return when it is free
        again."""
        end = max(self.now[0][thread], free) + 2
        self.orders += 1
        self.at(0, thread).acquire(end, 1, self.orders, PTHREADS).leave(end)
        self.now[0][thread] = end + 1
        return self.unlock(thread, "pthread_mutex_unlock", paradigm=PTHREADS)

    def window(self) -> int:
        """Define a window of all processes."""
        return self.program.define("windows", name="table", communicator=0, flags=0)

    def lock_window(self, rank: int, window: int, free: int) -> None:
        """Lock the window at the first process, which is free from some time on."""
        t = self.now[rank][0]
        end = self.now[rank][0] = max(free, t) + 3
        lock = {"window": window, "remote": 0, "lock": 0, "lock_type": 0}
        self.at(rank).enter(t, "MPI_Win_lock").record(t, K.RMA_REQUEST_LOCK, rma=lock).leave(end)

    def unlock_window(self, rank: int, window: int) -> int:
        """Release the window; return the time from which on it is free."""
        t = self.now[rank][0]
        end = self.now[rank][0] = t + 4
        lock = {"window": window, "remote": 0, "lock": 0}
        self.at(rank).enter(t, "MPI_Win_unlock").record(t + 3, K.RMA_RELEASE_LOCK, rma=lock).leave(end)
        return end

    @property
    def elapsed(self) -> int:
        """Return the ticks since the start of MPI, or of the whole run."""
        return max(map(max, self.now)) - self.begin

    def call(self, rank: int, name: str, cost: int) -> None:
        """Make a call that does not wait for others."""
        t = self.now[rank][0]
        self.now[rank][0] = t + cost
        self.at(rank).enter(t, name).leave(t + cost)

    def from_root(self, name: str, op: str, root: int = 0, *, passed_on: bool = False) -> None:
        """All other processes wait for the root; or all for all, as where each passes on what it receives."""
        sent = max(now[0] for now in self.now) if passed_on else self.now[root][0]
        for r in range(self.ranks):
            sizes = {"sent": 8 * self.ranks * (r == root), "received": 8}
            self._rooted(r, max(self.now[r][0], sent), name, op, root, sizes)

    def to_root(self, name: str, op: str, root: int = 0) -> None:
        """The root waits for all others."""
        last = max(now[0] for now in self.now)
        for r in range(self.ranks):
            sizes = {"sent": 8, "received": 8 * self.ranks * (r == root)}
            self._rooted(r, last if r == root else self.now[r][0], name, op, root, sizes)

    def _rooted(self, rank: int, ready: int, name: str, op: str, root: int, sizes: dict[str, int]) -> None:
        t, end = self.now[rank][0], ready + 10
        self.now[rank][0] = end
        self.at(rank).enter(t, name).begin_collective(t).end_collective(end, op, root, **sizes).leave(end)

    def among(self, ranks: Sequence[int], communicator: int, name: str, op: str) -> None:
        """Some processes take part in an operation for which all of them wait."""
        end = max(self.now[r][0] for r in ranks) + 10
        for r in ranks:
            t = self.now[r][0]
            one = self.at(r).enter(t, name).begin_collective(t)
            one.end_collective(end, op, sent=8, received=8, communicator=communicator).leave(end)
            self.now[r][0] = end

    def poll(self, *calls: str, every: int) -> None:
        """All processes start a barrier and make some calls again and again until the last one has started it."""
        last = max(now[0] for now in self.now)
        for r in range(self.ranks):
            t = self.now[r][0]
            one = self.at(r).enter(t, "MPI_Ibarrier").start_collective(t + 1, 1).leave(t + 2)
            t += 4
            while t < last:
                for k, name in enumerate(calls):
                    one.call(t + 4 * k, t + 4 * k + 2, name)
                t += every
            one.enter(t, "MPI_Test").complete_collective(t + 2, "barrier", 1).leave(t + 3)
            self.now[r][0] = t + 5

    def overlapped(
        self, name: str, op: str, region: str, ticks: float, root: int = -1, *, slow: int = -1, more: float = 0
    ) -> None:
        """All processes start an operation, compute, and wait for it: for all others, or for a root. If one of them
        computes longer, others wait until it does, since nothing progresses outside of MPI."""
        last = max(now[0] for now in self.now) if root < 0 else self.now[root][0]
        for r in range(self.ranks):
            t = self.now[r][0]
            self.at(r).enter(t, name).start_collective(t + 1, 1).leave(t + 2)
            self.now[r][0] = t + 2
            self.work(r, region, ticks + more * (r == slow))
        last = last if slow < 0 else max(now[0] for now in self.now)
        for r in range(self.ranks):
            t = self.now[r][0]
            end = self.now[r][0] = max(t, last) + 10
            sizes = {"sent": 64 * (r == root or root < 0), "received": 64 * (r != root)}
            one = self.at(r).enter(t, "MPI_Wait")
            one.complete_collective(end, op, 1, root=None if root < 0 else root, **sizes).leave(end)

    def halo(self, length: int = 1024, cost: int = 8) -> None:
        """Neighbours in a line exchange messages without blocking."""
        self.complete({r: self.post(r, length) for r in range(self.ranks)}, length, cost)

    def post(self, rank: int, length: int) -> dict[int, int]:
        """Post receives from the neighbours and sends to them; return the time of each send, by process."""
        peers = [p for p in (rank - 1, rank + 1) if 0 <= p < self.ranks]
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

    def complete(self, sent: dict[int, dict[int, int]], length: int, cost: int = 8, *, progresses: bool = True) -> None:
        """Complete what all processes have posted, whose sends to each neighbour began at the times `sent`; if nothing
        progresses outside of MPI, only when the neighbours complete theirs, too."""
        begin = [now[0] for now in self.now]
        for r, peers in sent.items():
            t = begin[r]
            ready = [sent[p][r] if progresses else begin[p] for p in peers]
            end = self.now[r][0] = max([t, *ready]) + cost
            one = self.at(r).enter(t, "MPI_Waitall")
            for k, p in enumerate(peers):
                one.complete_receive(end, p, request=10 + k, length=length)
            for k in range(len(peers)):
                one.complete_send(end, 20 + k)
            one.leave(end)

    @contextmanager
    def in_team(
        self, rank: int, line: int, overhead: int = 3, members: Sequence[int] = (), team: int | None = None
    ) -> Iterator[None]:
        """Begin a parallel region on all threads of a process, or on some, the first of which forks their team; end it
        at the end of the context."""
        members = members or range(self.threads)
        if team is None and len(members) < self.threads:
            team = self._team([rank * self.threads + i for i in members])
        master, t = members[0], self.now[rank][members[0]]
        self.at(rank, master).fork(t)
        for k, i in enumerate(members):
            self.now[rank][i] = t + overhead + k
            one = self.at(rank, i).begin_team(self.now[rank][i], team)
            one.enter(self.now[rank][i], f"!$omp parallel @solver.c:{line}")
        yield
        last = max(self.now[rank][i] for i in members) + 1
        for i in members:
            one = self.at(rank, i).enter(self.now[rank][i], f"!$omp implicit barrier @solver.c:{line}")
            one.leave(last).leave(last).end_team(last, team)
            self.now[rank][i] = last
        self.now[rank][master] = last + overhead
        self.at(rank, master).join(last + overhead)

    def _team(self, members: list[int]) -> int:
        """Return the team of some locations, which is defined the first time."""
        about = {"kind": "group", "paradigm": "openmp", "flags": 0}
        key = tuple(members)
        if key not in self.teams:
            self.teams[key] = self.program.define("communicators", **about, members=members)
        return self.teams[key]

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

    def finish(self) -> Program:
        """End all processes."""
        self.runtime = self.elapsed
        if self.ranks > 1:
            with self.inside("MPI_Finalize"):
                self.meet(50, lambda r, t: None)
        for r in range(self.ranks):
            self.at(r).leave(self.now[r][0]).leave(self.now[r][0] + 1)
        return self.program


Made = tuple[World, Truth]

Make = Callable[[random.Random, float], Made]
"""Maker of a program with its bottleneck (1 for all of it), or without it (0)."""


def program(
    kinds: dict[str, Make],
    ranks: int | Sequence[int],
    threads: int | Sequence[int] = 1,
    noise: float | Sequence[float] = 0.1,
) -> Callable[[Callable[[World, float], Truth]], Make]:
    """Declare a kind of program by the function that executes it: its maker is added to `kinds` by the function's name.
    Of several sizes one is drawn."""

    def declare(execute: Callable[[World, float], Truth]) -> Make:
        @wraps(execute)
        def make(rng: random.Random, late: float) -> Made:
            sizes: list[Any] = [rng.choice(of) if isinstance(of, Sequence) else of for of in (ranks, threads, noise)]
            world = World(rng, *sizes)
            return world, execute(world, late)

        kinds[execute.__name__] = make
        return make

    return declare


def at_least(n: int) -> tuple[int, ...]:
    """Return numbers of processes to draw from, the least of which is `n`."""
    return tuple(ranks for ranks in (2, 3, 4, 5, 6, 8) if ranks >= n)
