"""Random programs with one fault each: does the first finding name it?

A program is a list of steps that all processes execute in every iteration: computation, parallel regions, critical
sections, messages, collective operations. Times are simulated, so that waits have realistic lengths. One piece of work
takes longer at one location: each time, once, or every n-th time. Only programs whose run time depends on the delay are
kept.

    python -m benchmarks.faults                        1,000 programs, a table of what was found
    python -m benchmarks.faults --programs 50 --first 7
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.testing import Program

CALL = 8
"""Ticks of a call, without its waits."""

MATTERS = 0.08
"""Minimum share of a delay in the run time."""

NOISE = 0.1
"""Relative variation of work from time to time."""

MODES = ("always", "once", "sometimes")


@dataclass
class Fault:
    """A delay.

    Attributes
    ----------
    step : int
        The step that takes longer.
    rank, thread : int
        Location of the delay.
    ticks : int
        Length of the delay, each time.
    mode : str
        One of `MODES`.
    every : int
        For `sometimes`, the interval in iterations; for `once`, the iteration.
    """

    step: int
    rank: int
    thread: int
    ticks: int
    mode: str
    every: int

    def delay(self, step: int, rank: int, thread: int, iteration: int) -> int:
        """Return the delay of a piece of work, in ticks."""
        if (step, rank, thread) != (self.step, self.rank, self.thread):
            return 0
        if self.mode == "sometimes":
            return self.ticks * (iteration % self.every == self.every - 1)
        return self.ticks * (self.mode == "always" or iteration == self.every)


@dataclass
class Simulation:
    """One run of a program: the timed events of each location.

    Attributes
    ----------
    seed : int
        Seed of the variation of work.
    ranks, threads : int
    fault : Fault, optional
    """

    seed: int
    ranks: int
    threads: int
    iterations: int
    steps: list[tuple[str, int]]
    fault: Fault | None = None
    program: Program = field(init=False)
    now: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.program = Program(self.ranks, self.threads)
        self.now = [[0] * self.threads for _ in range(self.ranks)]
        self.acquisitions: Counter[int] = Counter()
        self.n_requests = 0

    def at(self, rank: int, thread: int = 0) -> Any:
        """Return the location that records a thread."""
        return self.program.locations[rank * self.threads + thread]

    def run(self) -> Simulation:
        """Execute the program; return `self`."""
        for r in range(self.ranks):
            self.at(r).enter(0, "program").enter(1 + r, "main").enter(2 + r, "MPI_Init")
            self.now[r][0] = 2 + r
        self._meet(lambda r: self.at(r).leave(self.now[r][0]))
        self.begin = min(self.now[r][0] for r in range(self.ranks))
        for iteration in range(self.iterations):
            for r in range(self.ranks):
                self.at(r).enter(self.now[r][0], "time_step")
            for number, (kind, size) in enumerate(self.steps):
                getattr(self, f"step_{kind}")(number, size, iteration)
            for r in range(self.ranks):
                self.at(r).leave(self.now[r][0])
        self.end = max(self.now[r][0] for r in range(self.ranks))
        for r in range(self.ranks):
            self.at(r).enter(self.now[r][0], "MPI_Finalize")
        self._meet(lambda r: self.at(r).leave(self.now[r][0]).leave(self.now[r][0] + 1).leave(self.now[r][0] + 2))
        return self

    @property
    def runtime(self) -> int:
        """Return the ticks from the first return of MPI_Init to the last call of MPI_Finalize."""
        return self.end - self.begin

    def work(self, step: int, size: int, rank: int, thread: int, iteration: int) -> int:
        """Return the ticks that a piece of work takes."""
        usual = int(size * (1 + NOISE * (self.rng.random() - 0.5)))
        return usual + (self.fault.delay(step, rank, thread, iteration) if self.fault else 0)

    def _meet(self, then: Callable[[int], Any], ranks: list[int] | None = None) -> None:
        """Make processes wait for each other."""
        ranks = list(range(self.ranks)) if ranks is None else ranks
        last = max(self.now[r][0] for r in ranks)
        for r in ranks:
            self.now[r][0] = last + CALL + self.rng.randrange(CALL)
            then(r)

    # -- steps

    def step_compute(self, step: int, size: int, iteration: int) -> None:
        """Masters compute."""
        for r in range(self.ranks):
            t = self.now[r][0]
            self.at(r).enter(t, f"compute_{step}")
            self.now[r][0] = t + self.work(step, size, r, 0, iteration)
            self.at(r).leave(self.now[r][0])

    def step_parallel(self, step: int, size: int, iteration: int) -> None:
        """All threads compute in a parallel region."""
        for r in range(self.ranks):
            self._parallel(step, r, lambda r, i, t: self._loop(step, size, r, i, t, iteration))

    def _loop(self, step: int, size: int, rank: int, thread: int, t: int, iteration: int) -> int:
        one = self.at(rank, thread)
        one.enter(t, f"!$omp for @{step}.c:2").enter(t + 1, f"loop_{step}")
        t += 1 + self.work(step, size, rank, thread, iteration)
        one.leave(t)
        return t + 1

    def _parallel(self, step: int, rank: int, body: Callable[[int, int, int], int]) -> None:
        master = self.at(rank)
        t = self.now[rank][0]
        master.enter(t, f"solve_{step}").fork(t + 1)
        come = []
        for i in range(self.threads):
            begin = max(t + 2 + i, self.now[rank][i])
            self.at(rank, i).begin_team(begin).enter(begin, f"!$omp parallel @{step}.c:1")
            come.append(body(rank, i, begin + 1))
            self.at(rank, i).enter(come[-1], f"!$omp implicit barrier @{step}.c:3")
        last = max(come)
        for i in range(self.threads):
            # leave barrier, loop and region
            self.at(rank, i).leave(last + 2).leave(last + 2).leave(last + 3).end_team(last + 3)
            self.now[rank][i] = last + 3
        master.join(last + 4).leave(last + 5)
        self.now[rank][0] = last + 5

    def step_critical(self, step: int, size: int, iteration: int) -> None:
        """All threads compute, a small part of it in a critical section."""
        for r in range(self.ranks):
            self._critical(step, size, r, iteration)

    def _critical(self, step: int, size: int, rank: int, iteration: int) -> None:
        free = 0
        order = list(range(self.threads))
        master = self.at(rank)
        t = self.now[rank][0]
        master.enter(t, f"solve_{step}").fork(t + 1)
        wants = {}
        for i in order:
            begin = max(t + 2 + i, self.now[rank][i])
            one = self.at(rank, i).begin_team(begin).enter(begin, f"!$omp parallel @{step}.c:1")
            one.enter(begin + 1, f"loop_{step}")
            wants[i] = begin + 1 + self.work(step, size, rank, i, iteration)
            one.leave(wants[i])
        done = {}
        for i in sorted(order, key=lambda i: wants[i]):
            one = self.at(rank, i)
            one.enter(wants[i], f"!$omp critical @{step}.c:4")
            free = max(free, wants[i] + 1)
            self.acquisitions[rank] += 1
            one.acquire(free, 1, self.acquisitions[rank]).enter(free, f"!$omp critical sblock @{step}.c:5")
            free += max(size // 20, 2)
            one.leave(free).release(free + 1, 1, self.acquisitions[rank]).leave(free + 1)
            done[i] = free + 2
            free += 1
        last = max(done.values())
        for i in order:
            one = self.at(rank, i)
            one.enter(done[i], f"!$omp implicit barrier @{step}.c:6").leave(last + 2).leave(last + 3).end_team(last + 3)
            self.now[rank][i] = last + 3
        master.join(last + 4).leave(last + 5)
        self.now[rank][0] = last + 5

    def step_allreduce(self, step: int, size: int, iteration: int) -> None:
        """All processes reduce to all."""
        self._collective("MPI_Allreduce", "allreduce", step)

    def step_barrier(self, step: int, size: int, iteration: int) -> None:
        """All processes wait for each other."""
        self._collective("MPI_Barrier", "barrier", step)

    def _collective(self, name: str, op: str, step: int) -> None:
        n = 0 if op == "barrier" else 8
        for r in range(self.ranks):
            t = self.now[r][0]
            self.at(r).enter(t, f"reduce_{step}").enter(t, name).begin_collective(t)
        self._meet(
            lambda r: (
                self.at(r)
                .end_collective(self.now[r][0], op, sent=n, received=n * self.ranks if n else 0)
                .leave(self.now[r][0])
                .leave(self.now[r][0])
            )
        )

    def step_bcast(self, step: int, size: int, iteration: int) -> None:
        """A root sends to all."""
        root = step % self.ranks
        sent = self.now[root][0]
        for r in range(self.ranks):
            t = self.now[r][0]
            leaves = (t if r == root else max(t, sent)) + CALL + self.rng.randrange(CALL)
            one = self.at(r).enter(t, f"spread_{step}").enter(t, "MPI_Bcast").begin_collective(t)
            n = {"sent": 8 * self.ranks, "received": 8} if r == root else {"sent": 0, "received": 8}
            one.end_collective(leaves, "bcast", root, **n).leave(leaves).leave(leaves)
            self.now[r][0] = leaves

    def step_reduce(self, step: int, size: int, iteration: int) -> None:
        """A root receives from all."""
        root = step % self.ranks
        last = max(self.now[r][0] for r in range(self.ranks))
        for r in range(self.ranks):
            t = self.now[r][0]
            leaves = (last if r == root else t) + CALL + self.rng.randrange(CALL)
            one = self.at(r).enter(t, f"collect_{step}").enter(t, "MPI_Reduce").begin_collective(t)
            n = {"sent": 8, "received": 8 * self.ranks} if r == root else {"sent": 8, "received": 0}
            one.end_collective(leaves, "reduce", root, **n).leave(leaves).leave(leaves)
            self.now[r][0] = leaves

    def step_iallreduce(self, step: int, size: int, iteration: int) -> None:
        """All processes start a reduction, compute, and complete it."""
        op = COLLECTIVE_OPS.index("allreduce")
        started = []
        for r in range(self.ranks):
            t = self.now[r][0]
            self.at(r).enter(t, f"dot_{step}").enter(t, "MPI_Iallreduce")
            self.at(r).record(t + 1, K.NON_BLOCKING_COLLECTIVE_REQUEST, collectives={"request": 1}).leave(t + 2)
            started.append(t)
            self.at(r).enter(t + 2, f"hidden_{step}")
            self.now[r][0] = t + 2 + self.work(-1, size // 4, r, 0, iteration)
            self.at(r).leave(self.now[r][0])
        last = max(started)
        for r in range(self.ranks):
            t = self.now[r][0]
            leaves = max(t, last) + CALL
            side = {"op": op, "communicator": 0, "root": -1, "sent": 8, "received": 8, "request": 1}
            self.at(r).enter(t, "MPI_Wait").record(leaves, K.NON_BLOCKING_COLLECTIVE_COMPLETE, collectives=side)
            self.at(r).leave(leaves).leave(leaves)
            self.now[r][0] = leaves

    def step_halo(self, step: int, size: int, iteration: int) -> None:
        """Neighbours in a ring exchange messages without blocking."""
        sent, posted = {}, {}
        for r in range(self.ranks):
            t = self.now[r][0]
            one = self.at(r).enter(t, f"exchange_{step}")
            for k in range(2):
                one.enter(t, "MPI_Irecv").post_receive(t, 10 + k).leave(t + 1)
                t += 2
            for k, peer in enumerate(((r + 1) % self.ranks, (r - 1) % self.ranks)):
                one.enter(t, "MPI_Isend").start_send(t, peer, request=20 + k, tag=k).leave(t + 1)
                sent[r, k] = t
                t += 2
            posted[r] = t
        for r in range(self.ranks):
            sources = ((r - 1) % self.ranks, (r + 1) % self.ranks)
            t = posted[r]
            leaves = max(t, *(sent[source, k] for k, source in enumerate(sources))) + CALL
            one = self.at(r).enter(t, "MPI_Waitall")
            for k, source in enumerate(sources):
                one.complete_receive(leaves, source, request=10 + k, tag=k)
            for k in range(2):
                one.complete_send(leaves, 20 + k)
            one.leave(leaves).leave(leaves)
            self.now[r][0] = leaves

    def step_shift(self, step: int, size: int, iteration: int) -> None:
        """Even ranks send to the next one, odd ones receive."""
        for r in range(0, self.ranks - 1, 2):
            t, u = self.now[r][0], self.now[r + 1][0]
            self.at(r).enter(t, f"send_{step}").enter(t, "MPI_Send").send(t, to=r + 1).leave(t + CALL).leave(t + CALL)
            leaves = max(u, t) + CALL
            one = self.at(r + 1).enter(u, f"receive_{step}").enter(u, "MPI_Recv")
            one.receive(leaves, source=r).leave(leaves).leave(leaves)
            self.now[r][0], self.now[r + 1][0] = t + CALL, leaves

    def step_handshake(self, step: int, size: int, iteration: int) -> None:
        """Even ranks send synchronously to the next one, which may be the late one."""
        for r in range(0, self.ranks - 1, 2):
            t, u = self.now[r][0], self.now[r + 1][0]
            leaves = max(u, t) + CALL
            self.at(r).enter(t, f"send_{step}").enter(t, "MPI_Ssend").send(t, to=r + 1).leave(leaves).leave(leaves)
            one = self.at(r + 1).enter(u, f"receive_{step}").enter(u, "MPI_Recv")
            one.receive(leaves, source=r).leave(leaves).leave(leaves)
            self.now[r][0] = self.now[r + 1][0] = leaves


WORK = ("compute", "parallel", "critical")
"""Steps that may be delayed."""

COMMUNICATION = ("allreduce", "barrier", "bcast", "reduce", "iallreduce", "halo", "shift", "handshake")


def draw(seed: int) -> tuple[Simulation, int]:
    """Draw a program whose delay matters: the run, and its run time without the fault."""
    rng = random.Random(seed)
    while True:
        ranks, threads = rng.choice([(2, 1), (3, 1), (4, 1), (6, 1), (2, 2), (2, 3), (3, 2), (4, 2), (1, 3), (1, 4)])
        steps = []
        for _ in range(rng.randint(1, 3)):
            # computation by masters alone would be another fault
            kind = rng.choice(WORK[1:] if threads > 1 and not steps else WORK if threads > 1 else WORK[:1])
            less = 16 if kind == "compute" and threads > 1 else 1
            steps.append((kind, rng.choice([1000, 2000, 4000]) // less))
            if ranks > 1:
                steps.append((rng.choice(COMMUNICATION), 1000))
        iterations = rng.choice([6, 10, 20, 40])
        step = rng.choice([i for i, (kind, _) in enumerate(steps) if kind in WORK])
        thread = 0 if steps[step][0] == "compute" else rng.randrange(threads)
        mode = rng.choice(MODES)
        ticks = int(steps[step][1] * rng.choice([1, 2, 3]) * (iterations if mode == "once" else 1))
        every = rng.randrange(iterations) if mode == "once" else rng.randint(2, 3)
        fault = Fault(step, rng.randrange(ranks), thread, ticks, mode, every)
        usual = Simulation(seed, ranks, threads, iterations, steps).run().runtime
        late = Simulation(seed, ranks, threads, iterations, steps, fault).run()
        if late.runtime - usual > MATTERS * late.runtime and ranks * threads > 1:
            return late, usual


@dataclass
class Outcome:
    """The first finding of a program, compared with its fault.

    Attributes
    ----------
    seed : int
    mode : str
    is_place, is_right : bool
        Whether it names the region; whether it also names rank and thread.
    gain, truth : float
        The predicted gain, and the gain without the fault, as shares of the run time.
    said : str
        Text of the finding.
    """

    seed: int
    mode: str
    is_place: bool
    is_right: bool
    gain: float
    truth: float
    said: str
    program: str


def region_of(run: Simulation) -> str:
    """Return the delayed region."""
    assert run.fault is not None
    kind = run.steps[run.fault.step][0]
    return f"compute_{run.fault.step}" if kind == "compute" else f"loop_{run.fault.step}"


def try_program(seed: int) -> Outcome:
    """Draw a program, analyse it, and compare its first finding with its fault."""
    run, usual = draw(seed)
    fault = run.fault
    assert fault is not None
    with run.program.trace() as trace:
        findings = trace.analyze().diagnosis().findings
    truth = (run.runtime - usual) / run.runtime
    steps = f"{run.ranks}x{run.threads} {run.iterations} {run.steps} {fault}"
    if not findings:
        return Outcome(seed, fault.mode, False, False, 0.0, truth, "nothing", steps)
    first = findings[0]
    is_place = first.cause_region == region_of(run)
    is_who = first.rank == fault.rank and first.thread in (fault.thread, None if run.threads == 1 else -1)
    said = f"{first.what or first.title}"
    return Outcome(seed, fault.mode, is_place, is_place and is_who, first.gain_share or 0.0, truth, said, steps)


def outcomes(first: int, n: int) -> Iterator[Outcome]:
    """Try some programs one after the other."""
    for seed in range(first, first + n):
        yield try_program(seed)


def main() -> None:
    """Try programs, print those whose fault is not named, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    found: list[Outcome] = []
    for one in outcomes(given.first, given.programs):
        found.append(one)
        if not one.is_right:
            print(f"{one.seed}: {one.said}\n    {one.program}", file=sys.stderr)
    print("| delay | programs | region | region, rank and thread | gain within a third |")
    print("|---|---:|---:|---:|---:|")
    for mode in (*MODES, "all"):
        mine = [one for one in found if mode in (one.mode, "all")]
        if mine:
            near = sum(abs(one.gain - one.truth) <= one.truth / 3 for one in mine)
            counts = (sum(one.is_place for one in mine), sum(one.is_right for one in mine), near)
            print(f"| {mode} | {len(mine)} | " + " | ".join(f"{n / len(mine):.1%}" for n in counts) + " |")


if __name__ == "__main__":
    main()
