"""Write small Paraver traces: single records, and random programs as Extrae records them."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

PCF = """DEFAULT_OPTIONS

LEVEL               THREAD

STATES
0    Idle
1    Running

EVENT_TYPE
9   50000001    MPI Point-to-point
VALUES
1   MPI_Send
2   MPI_Recv
3   MPI_Isend
4   MPI_Irecv
5   MPI_Wait
41   MPI_Sendrecv
0   Outside MPI

EVENT_TYPE
9   50000002    MPI Collective Comm
VALUES
7   MPI_Bcast
8   MPI_Barrier
10   MPI_Allreduce
0   Outside MPI

EVENT_TYPE
9   50000003    MPI Other
VALUES
19   MPI_Comm_rank
31   MPI_Init
32   MPI_Finalize
0   Outside MPI

EVENT_TYPE
0    70000001    Caller at level 1
0    70000002    Caller at level 2
VALUES
0   End
1   Unresolved
3   solve [solve_]
4   exchange
5   main

EVENT_TYPE
0    60000018    Executed OpenMP parallel function
VALUES
0   End
3   loop._omp_fn.0

EVENT_TYPE
0    60000118    Executed OpenMP parallel function line and file
VALUES
0   End
3   92 (loop.c, a.out)

EVENT_TYPE
7  42000050 PAPI_TOT_INS [Instr completed]
7  42000059 PAPI_TOT_CYC [Total cycles]

EVENT_TYPE
6    77000001    Iteration
"""


def header(duration: int, threads: list[int], communicators: list[list[int]] = (), unit: str = "_ns") -> str:  # type: ignore[assignment]
    """Return the first lines of a trace: numbers of threads by task, and communicators as tasks counted from 0."""
    tasks = ",".join(f"{n}:1" for n in threads)
    text = f"#Paraver (09/10/2019 at 16:08):{duration}{unit}:1({sum(threads)}):1:{len(threads)}({tasks}),{len(communicators)}\n"
    for number, members in enumerate(communicators, 1):
        text += f"c:1:{number}:{len(members)}:" + ":".join(str(m + 1) for m in members) + "\n"
    return text


def write(path: Path, text: str, pcf: str | None = PCF, row: str | None = None) -> Path:
    """Write a trace and the files next to it; compressed if its name ends in .gz."""
    data = text.encode()
    path.write_bytes(gzip.compress(data, 1) if path.name.endswith(".gz") else data)
    stem = path.name.removesuffix(".gz").removesuffix(".prv")
    if pcf is not None:
        path.with_name(stem + ".pcf").write_text(pcf)
    if row is not None:
        path.with_name(stem + ".row").write_text(row)
    return path


class _Thread:
    """One thread of a random program, and its lines with their times."""

    def __init__(self, rng: random.Random, task: int, thread: int, cpu: int) -> None:
        self.rng, self.who, self.time = rng, f"{cpu}:1:{task + 1}:{thread + 1}", 0
        self.lines: list[tuple[int, str]] = []

    def state(self, duration: int, number: int) -> None:
        """Record a state."""
        self.lines.append((self.time, f"1:{self.who}:{self.time}:{self.time + duration}:{number}"))
        self.time += duration

    def events(self, *pairs: tuple[int, int], counters: bool = True) -> None:
        """Record events and counters, sometimes on two lines."""
        read = [(42000050, self.rng.randrange(1000)), (42000059, self.rng.choice([5, 7 * 10**13]))] if counters else []
        both = [*pairs, *read]
        cut = len(pairs) if self.rng.random() < 0.2 and read else len(both)
        for some in (both[:cut], both[cut:]):
            if some:
                self.lines.append((self.time, f"2:{self.who}:{self.time}:" + ":".join(f"{t}:{v}" for t, v in some)))

    def compute(self) -> None:
        """Run for a while."""
        self.state(self.rng.randrange(1, 60), 1)

    def call(self, kind: int, value: int, duration: int, state: int, *more: tuple[int, int]) -> tuple[int, int]:
        """Call MPI; return begin and end."""
        begin = self.time
        callers = [(70000001, self.rng.choice([1, 3, 4])), (70000002, 5)] if self.rng.random() < 0.8 else []
        self.events((kind, value), *more, *callers)
        if duration:
            self.state(duration, state)
        self.events((kind, 0))
        return begin, self.time

    def locked(self) -> None:
        """Execute a critical section."""
        self.events((60000006, 3))
        self.state(self.rng.randrange(1, 9), 5)
        self.events((60000006, 6), (60000032, 2**63 + 5))
        self.compute()
        self.events((60000006, 5))
        self.state(2, 5)
        self.events((60000006, 0), (60000032, 0))


def random_program(seed: int, n_tasks: int, n_threads: int, steps: int = 6) -> str:
    """Return a random program: messages, collective operations, parallel regions, locks, flushes."""
    rng = random.Random(seed)
    tasks = [[_Thread(rng, p, t, p * n_threads + t + 1) for t in range(n_threads)] for p in range(n_tasks)]
    masters, messages = [threads[0] for threads in tasks], []
    for p, one in enumerate(masters):
        one.state(5 * p, 2) if p else None
        one.compute()
        one.events((40000002, 1))
        one.state(3, 15)
        one.events((40000002, 0))
        one.compute()
        one.call(50000003, 31, 10, 15)
    for _ in range(steps):
        what = rng.choice(["ring", "collective", "parallel", "flush", "empty"])
        for one in masters:
            one.compute()
        if what == "ring" and n_tasks > 1:
            ends = {}
            for p, one in enumerate(masters):
                ends[p] = one.call(50000001, 41, rng.randrange(20, 40), 16)
            for p, one in enumerate(masters):
                q = (p + 1) % n_tasks
                (begin, _), (post, end) = ends[p], ends[q]
                size, who = rng.randrange(1, 99999), masters[q].who
                messages.append((begin, f"3:{one.who}:{begin}:{begin}:{who}:{post}:{end}:{size}:{rng.randrange(3)}"))
        elif what == "collective":
            value, root = rng.choice([(7, rng.randrange(n_tasks)), (8, -1), (10, -1)])
            for p, one in enumerate(masters):
                sizes = [(50100001, rng.randrange(9)), (50100002, rng.randrange(9)), (50100004, 1)]
                one.call(50000002, value, rng.randrange(5, 25), 13, *sizes, *([(50100003, 1)] if p == root else []))
        elif what == "parallel":
            for threads in tasks:
                _parallel(rng, threads[: rng.randrange(1, n_threads + 1)])
        elif what == "flush":
            one = rng.choice(masters)
            one.events((40000003, 1))
            one.lines.insert(len(one.lines) - 1, (one.time, f"1:{one.who}:{one.time}:{one.time + 7}:12"))
            one.time += 7
            one.events((40000003, 0))
        else:
            rng.choice(masters).call(50000003, 19, 0, 15)
    for one in masters:
        one.call(50000003, 32, 10, 15)
        one.compute()
    # merged by time; lines of one thread with the same time are in the order of recording
    lines = sorted([*(line for threads in tasks for t in threads for line in t.lines), *messages], key=lambda x: x[0])
    end = max(t.time for threads in tasks for t in threads)
    world = list(range(n_tasks))
    return header(end, [n_threads] * n_tasks, [world]) + "".join(line + "\n" for _, line in lines)


def _parallel(rng: random.Random, threads: list[_Thread]) -> None:
    """Execute a parallel region on some threads; the first one forks them."""
    master = threads[0]
    master.events((60000001, 3))
    master.state(3, 7)
    start = master.time
    for one in threads:
        one.time = max(one.time, start + rng.randrange(3)) if one is not master else start
        one.events((60000018, 3), (60000118, 3))
        one.compute()
        if rng.random() < 0.5:
            one.locked()
        one.events((60000018, 0), (60000118, 0))
    join = max(one.time for one in threads) + 2
    master.state(join - master.time, 7)
    master.events((60000001, 0))
