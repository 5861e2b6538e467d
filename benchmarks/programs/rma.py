"""One-sided communication of every kind: fences, general active target synchronisation in a ring, and exclusive locks
at process 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.programs.recorded import Archive, Recording

LATENCY, CALL = 2_000, 1_000
"""Ticks from the awaited event to the end of a call, and of a call that waits for nothing."""
EVENTS_PER_ROUND = 62
"""Approximate number of events of a process."""
BARRIER, CREATE, DESTROY = 0, 17, 18
"""Operations on windows (`schema.enums.COLLECTIVE_OPS`)."""
OPENS, CLOSES = 1, 3
"""Levels of synchronisation."""


class Program:
    """Processes that proceed in lockstep."""

    def __init__(self, out: Recording, n: int, random: np.random.Generator) -> None:
        archive, self.out, self.n, self.random = out.archive, out, n, random
        mpi = archive.mpi(n)
        self.ranks = out.locations = mpi.ranks
        self.groups = [archive.group("comm_group", [p]) for p in range(n)]
        self.window = archive.define("RmaWin", name=archive.string("window"), comm=mpi.world, flags=1)
        for name in ("MPI_Put", "MPI_Get"):
            archive.region(name)
        self.now, self.matching = [0] * n, 0
        for rank in self.ranks:
            rank.enter(0, "main")

    def compute(self) -> None:
        """Make every process compute."""
        for p, rank in enumerate(self.ranks):
            duration = int(self.random.lognormal(9.5, 1))
            rank.call(self.now[p], self.now[p] + duration, "compute")
            self.now[p] += duration

    def collective(self, name: str, op: int, property_id: str) -> None:
        """Make all processes create, free or fence the window."""
        enter = list(self.now)
        last = max(enter)
        for p, rank in enumerate(self.ranks):
            rank.enter(enter[p], name).record(enter[p], "RmaCollectiveBegin")
            end = last + LATENCY
            given = {"op": op, "level": CLOSES, "window": self.window, "root": None, "sent": 0, "received": 0}
            rank.record(end, "RmaCollectiveEnd", **given).leave(end, name)
            self.now[p] = end
            self.out.add(property_id, p, last - enter[p])

    def access(self, p: int, target: int, get: bool) -> int:
        """Put or get; return the time at which the call ends."""
        n, begin = int(self.random.integers(1, 10_000)), self.now[p]
        end = begin + CALL + n // 10
        name = "MPI_Get" if get else "MPI_Put"
        self.matching += 1
        given = {"window": self.window, "remote": target, "matching": self.matching, "received" if get else "sent": n}
        self.ranks[p].enter(begin, name).record(begin, "RmaGet" if get else "RmaPut", **given).leave(end, name)
        self.out.add("bytes_get" if get else "bytes_put", p, n)
        self.out.add("comms_rma_gets" if get else "comms_rma_puts", p, 1)
        self.now[p] = end
        return end

    def fence(self) -> None:
        """Open an epoch with a fence, access both neighbours, close it."""
        self.collective("MPI_Win_fence", BARRIER, "mpi_rma_wait_at_fence")
        self.compute()
        accessed = [-1] * self.n
        for p in range(self.n):
            for target, get in (((p + 1) % self.n, False), ((p - 1) % self.n, True)):
                end = self.access(p, target, get)
                if target != p:
                    accessed[target] = max(accessed[target], end)
        if self.random.integers(2):
            self.compute()
        enter = list(self.now)
        for p in range(self.n):
            self.out.add("mpi_rma_early_fence", p, min(max(enter), accessed[p]) - enter[p])
        self.collective("MPI_Win_fence", BARRIER, "mpi_rma_wait_at_fence")

    def _sync(self, p: int, name: str, until: int, group: int, level: int) -> None:
        rank = self.ranks[p].enter(self.now[p], name)
        at = until if level == CLOSES else self.now[p]
        rank.record(at, "RmaGroupSync", level=level, window=self.window, group=self.groups[group]).leave(until, name)
        self.now[p] = until

    def ring(self) -> None:
        """Expose to the left neighbour and access the right one."""
        posted = []
        for p in range(self.n):
            posted.append(self.now[p])
            self._sync(p, "MPI_Win_post", self.now[p] + CALL, (p - 1) % self.n, OPENS)
        if self.random.integers(2):
            self.compute()
        accessed, completed = [], []
        for p in range(self.n):
            begin, late = self.now[p], posted[(p + 1) % self.n]
            self._sync(p, "MPI_Win_start", max(begin + CALL, late + LATENCY), (p + 1) % self.n, OPENS)
            self.out.add("mpi_rma_sync_late_post", p, late - begin)
            accessed.append(self.access(p, (p + 1) % self.n, bool(self.random.integers(2))))
        self.compute()
        for p in range(self.n):
            completed.append(self.now[p])
            self._sync(p, "MPI_Win_complete", self.now[p] + CALL, (p + 1) % self.n, CLOSES)
        for p in range(self.n):
            origin, begin = (p - 1) % self.n, self.now[p]
            wait = max(completed[origin] - begin, 0)
            self._sync(p, "MPI_Win_wait", max(begin + CALL, completed[origin] + LATENCY), origin, CLOSES)
            self.out.add("mpi_rma_early_wait", p, wait)
            self.out.add("mpi_rma_late_complete", p, min(wait, completed[origin] - accessed[origin]))

    def lock(self) -> None:
        """Make all processes lock the window of process 0, one after the other."""
        given = {"window": self.window, "remote": 0, "lock": 0}
        free = None
        for p in np.argsort(self.now, kind="stable").tolist():
            rank, begin = self.ranks[p], self.now[p]
            until = begin + CALL if free is None else max(begin + CALL, free + LATENCY)
            rank.enter(begin, "MPI_Win_lock").record(begin, "RmaRequestLock", **given, lock_type=0)
            rank.leave(until, "MPI_Win_lock")
            if free is not None:
                self.out.add("mpi_rma_sync_lock_competition", p, free - begin)
            self.now[p] = until
            self.access(p, 0, False)
            begin = self.now[p]
            free = begin + CALL
            rank.enter(begin, "MPI_Win_unlock").record(free, "RmaReleaseLock", **given)
            rank.leave(free + 1, "MPI_Win_unlock")
            self.now[p] = free + 1

    def finish(self) -> None:
        """Leave the program."""
        for p, rank in enumerate(self.ranks):
            rank.leave(self.now[p], "main")


def make_rma(path: Path, n_processes: int, n_threads: int, n_events: int, seed: int) -> Recording:
    """Run the program and write the anchor file, with about `n_events` events; one thread of each process
    communicates."""
    out = Recording(Archive(path))
    program = Program(out, n_processes, np.random.default_rng(seed))
    program.compute()
    program.collective("MPI_Win_create", CREATE, "mpi_rma_wait_at_create")
    for _ in range(max(n_events // (n_processes * EVENTS_PER_ROUND), 1)):
        for part in (program.compute, program.fence, program.compute, program.ring, program.compute, program.lock):
            part()
    program.collective("MPI_Win_free", DESTROY, "mpi_rma_wait_at_free")
    program.finish()
    return out
