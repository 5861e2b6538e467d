"""Random valid programs, recorded both as an OTF2 archive and as events for the oracles.

A program is a set of generators, one per thread, that continue whenever the scheduler selects them. So every trace is
valid: messages are received after they were sent, acquisitions and releases of locks alternate, teams and communicators
execute their operations in order. A program only depends on a seed; hypothesis draws the seed and the size, since a
trace as a strategy of its own would also shrink to a different program.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from oracles.events import Event, chronological

import tracecols
from support.otf2_writer import Archive, Location
from tracecols.model.model import Model, enhance
from tracecols.store import Store

CONSTRUCTS = {"!$omp for @a.c:2": "loop", "!$omp barrier @a.c:4": "barrier", "!$omp single @a.c:6": "single"}
CONSTRUCT_NAMES = {*CONSTRUCTS, "!$omp implicit barrier @a.c:9", "!$omp parallel @a.c:1", "!$omp parallel @b.c:1"}
TASK = "!$omp task @a.c:7"
FLUSH, OFF = "TRACE BUFFER FLUSH", "MEASUREMENT OFF"


@dataclass(eq=False)
class Pending:
    """A posted receive or a pending send of a process: its channel, and the request and message that identify it."""

    key: tuple[int, int, int, int]
    request: int = -1
    message: int = -1
    is_send: bool = False


@dataclass
class Process:
    """The state of a process."""

    rank: int
    threads: list[Location]
    pending: list[Pending] = field(default_factory=list)
    probed: list[Pending] = field(default_factory=list)
    obligations: list[tuple[int, str]] = field(default_factory=list)
    owner: dict[int, bool] = field(default_factory=dict)
    acquisitions: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    n_messages: int = 0
    main: Iterator[None] | None = None


class RandomProgram:
    """Run a random program and write its archive."""

    def __init__(self, seed: int, path: Path, size: int = 20, ranks: int = 3, threads: int = 3, **archive: int) -> None:
        self.rng = rng = random.Random(seed)
        self.archive = Archive(path, **archive)
        self.n_ranks, self.n_threads = rng.randint(1, ranks), rng.randint(1, threads)
        # some masters have higher identifiers than their workers; some programs never fork
        mpi = self.archive.mpi(self.n_ranks, self.n_threads, masters_last=rng.random() < 0.3)
        self.forks = rng.random() < 0.85
        everyone = list(range(self.n_ranks))
        self.group: dict[int, list[int]] = {mpi.world: everyone}
        self.group[self.archive.comm("reversed", everyone[::-1], mpi.world)] = everyone[::-1]
        some = rng.sample(everyone, rng.randint(1, self.n_ranks))
        self.group[self.archive.comm("some", some, mpi.world)] = some
        self.self_comm = self.archive.comm_self()
        self.group[self.self_comm] = []
        self.processes = [Process(r, mpi.threads[r]) for r in everyone]
        # location of every thread in the order of the table: by process, then identifier
        self.number = {
            x.id: i for i, x in enumerate(x for p in self.processes for x in sorted(p.threads, key=lambda x: x.id))
        }
        self.teams: dict[tuple[int, tuple[int, ...]], int] = {}
        self.program = ("random",) if rng.random() < 0.7 else ()
        self.archive.region("random", "artificial", "measurement_system")
        self.now, self.last, self.size = 1000, None, size
        self.rows: dict[int, int] = defaultdict(int)
        self.recorded: list[Event] = []
        self.construct_team: dict[Event, tuple[int, int]] = {}
        self.members: dict[tuple[int, int], list[int]] = {}
        self.times: dict[int, int] = defaultdict(int)
        self.sent: dict[tuple[int, int, int, int], list[int]] = defaultdict(list)
        self.posted: dict[tuple[int, int, int, int], list[Pending]] = defaultdict(list)
        self._run()
        self.path = self.archive.write()
        first: dict[int, int] = {}
        start = 0
        for i in range(len(self.number)):
            first[i] = start
            start += self.rows[i]
        for e in self.recorded:
            e.row += first[e.location]
        self.events = chronological(self.recorded)

    # -- recording -------------------------------------------------------------------------------------------------

    def record(
        self, at: Location, process: Process, kind: str, record: str, fields: dict[str, object], **known: object
    ) -> Event:
        """Record one event in the archive and for the oracles."""
        # events of different locations never have the same time: any order of such a tie could violate causality
        self.now += self.rng.choice((0, 0, 1, 2, 7)) if at is self.last else self.rng.randint(1, 5)
        self.last = at
        at.record(self.now, record, **fields)
        location = self.number[at.id]
        e = Event(self.now, location, process.rank, kind, self.rows[location], **known)  # type: ignore[arg-type]
        self.rows[location] += 1
        self.recorded.append(e)
        return e

    def enter(self, at: Location, p: Process, region: str) -> None:
        self.record(at, p, "enter", "Enter", {"region": region}, region=region)

    def leave(self, at: Location, p: Process, region: str) -> Event:
        return self.record(at, p, "exit", "Leave", {"region": region}, region=region)

    # -- messages --------------------------------------------------------------------------------------------------

    def channel(self, p: Process, sending: bool) -> tuple[int, int, int, int]:
        c = self.rng.choice([c for c, g in self.group.items() if not g or p.rank in g])
        peer = self.rng.choice(self.group[c] or [p.rank])
        tag = self.rng.randint(0, 1)
        return (p.rank, peer, c, tag) if sending else (peer, p.rank, c, tag)

    def rank(self, communicator: int, process: int) -> int:
        group = self.group[communicator]
        return group.index(process) if group else 0

    def free_request(self, p: Process) -> int:
        return self.rng.choice([r for r in range(12) if r not in {x.request for x in p.pending}])

    def send(self, at: Location, p: Process, key: tuple[int, int, int, int], request: int = -1) -> None:
        _src, dst, c, tag = key
        self.sent[key].append(request)
        envelope = {"peer": self.rank(c, dst), "communicator": c, "tag": tag, "length": 8}
        known = {"peer": dst, "communicator": c, "tag": tag}
        if request < 0:
            self.record(at, p, "send", "MpiSend", envelope, **known)
        else:
            self.record(at, p, "send", "MpiIsend", {**envelope, "request": request}, request=request, **known)

    def receivable(self, p: Process) -> list[tuple[int, int, int, int]]:
        """Return the channels with a message underway that no posted receive will take."""
        return [k for k, sent in sorted(self.sent.items()) if k[1] == p.rank and len(sent) > len(self.posted[k])]

    def completable(self, x: Pending) -> bool:
        return x.is_send or self.posted[x.key].index(x) < len(self.sent[x.key])

    def complete(self, at: Location, p: Process, x: Pending) -> None:
        src, _dst, c, tag = x.key
        known = {"peer": src, "communicator": c, "tag": tag, "request": x.request}
        p.pending.remove(x)
        if x.is_send:
            self.forget(x)
            self.record(at, p, "done", "MpiIsendComplete", {"request": x.request}, request=x.request)
        elif x.message >= 0:
            self.record(at, p, "recv", "MpiImrecv", {"request": x.request, "length": 8}, **known)
        else:
            self.record(at, p, "recv", "MpiIrecv", {**known, "peer": self.rank(c, src), "length": 8}, **known)

    def message(self, at: Location, p: Process) -> None:
        """Make an MPI call that sends, receives, posts, waits, tests, probes or cancels."""
        rng = self.rng
        what = rng.choice(
            (
                "send", "isend", "irecv", "recv", "recv", "sendrecv", "wait", "waitall", "cancel", "probe", "mrecv",
                "forget",
            )
        )  # fmt: skip
        ready = self.receivable(p)
        if what in ("isend", "irecv", "probe", "mrecv") and len(p.pending) > 9:
            what = "waitall"
        if what == "send":
            self.enter(at, p, "MPI_Send")
            self.send(at, p, self.channel(p, True))
            self.leave(at, p, "MPI_Send")
        elif what == "isend":
            self.enter(at, p, "MPI_Isend")
            key, request = self.channel(p, True), self.free_request(p)
            self.send(at, p, key, request)
            p.pending.append(Pending(key, request, is_send=True))
            self.leave(at, p, "MPI_Isend")
        elif what == "irecv":
            self.enter(at, p, "MPI_Irecv")
            x = Pending(self.channel(p, False), self.free_request(p))
            self.record(at, p, "post", "MpiIrecvRequest", {"request": x.request}, request=x.request)
            p.pending.append(x)
            self.posted[x.key].append(x)
            self.leave(at, p, "MPI_Irecv")
        elif what in ("recv", "sendrecv"):
            call = "MPI_Recv" if what == "recv" else "MPI_Sendrecv"
            if what == "recv" and not ready:
                return
            self.enter(at, p, call)
            if what == "sendrecv":
                self.send(at, p, self.channel(p, True))
            if ready:
                src, _, c, tag = key = rng.choice(ready)
                self.posted[key].append(Pending(key))
                known = {"peer": src, "communicator": c, "tag": tag}
                self.record(at, p, "recv", "MpiRecv", {**known, "peer": self.rank(c, src), "length": 8}, **known)
            self.leave(at, p, call)
        elif what == "probe" and ready:
            src, _dst, c, tag = key = rng.choice(ready)
            x = Pending(key, message=p.n_messages)
            p.n_messages += 1
            self.posted[key].append(x)
            p.probed.append(x)
            self.enter(at, p, "MPI_Mprobe")
            known = {"peer": src, "communicator": c, "tag": tag, "message": x.message}
            self.record(at, p, "probe", "MpiProbe", {**known, "peer": self.rank(c, src)}, **known)
            self.leave(at, p, "MPI_Mprobe")
        elif what == "mrecv" and p.probed:
            x = p.probed.pop(rng.randrange(len(p.probed)))
            if rng.random() < 0.5:
                self.mrecv(at, p, x)
            else:
                x.request = self.free_request(p)
                self.enter(at, p, "MPI_Imrecv")
                known = {"message": x.message, "request": x.request}
                self.record(at, p, "post", "MpiImrecvRequest", known, **known)
                self.leave(at, p, "MPI_Imrecv")
                p.pending.append(x)
        elif what in ("wait", "waitall"):
            done = [x for x in p.pending if self.completable(x)]
            rng.shuffle(done)
            several = ("MPI_Waitall", "MPI_Waitsome", "MPI_Testsome")
            call = rng.choice(("MPI_Wait", "MPI_Test") if what == "wait" else several)
            self.enter(at, p, call)
            for x in done[: 1 if what == "wait" else rng.randint(0, len(done))]:
                self.complete(at, p, x)
            if rng.random() < 0.3 and p.pending:
                self.record(at, p, "other", "MpiRequestTest", {"request": p.pending[0].request})
            self.leave(at, p, call)
        elif what == "cancel" and p.pending:
            x = rng.choice(p.pending)
            if x.is_send:
                at_send = self.sent[x.key].index(x.request)
                # a send that is matched by a posted receive cannot be cancelled
                if at_send < len(self.posted[x.key]):
                    return
                self.sent[x.key].pop(at_send)
            else:
                index = self.posted[x.key].index(x)
                if x.message >= 0 or index < len(self.sent[x.key]):
                    return
                self.posted[x.key].pop(index)
            p.pending.remove(x)
            self.enter(at, p, "MPI_Wait")
            self.record(at, p, "cancel", "MpiRequestCancelled", {"request": x.request}, request=x.request)
            self.leave(at, p, "MPI_Wait")
        elif what == "forget":
            # MPI_Request_free: the request is reused without a recorded completion
            sends = [x for x in p.pending if x.is_send]
            if sends:
                x = rng.choice(sends)
                p.pending.remove(x)
                self.forget(x)

    def mrecv(self, at: Location, p: Process, x: Pending) -> None:
        """Receive a message that a probe found."""
        self.enter(at, p, "MPI_Mrecv")
        known = {"peer": x.key[0], "communicator": x.key[2], "tag": x.key[3]}
        self.record(at, p, "recv", "MpiMrecv", {"message": x.message, "length": 8}, message=x.message, **known)
        self.leave(at, p, "MPI_Mrecv")

    def forget(self, x: Pending) -> None:
        """Make the request of a send available again."""
        self.sent[x.key][self.sent[x.key].index(x.request)] = -1

    # -- threads ---------------------------------------------------------------------------------------------------

    def team(self, p: Process, threads: tuple[int, ...]) -> int:
        if (p.rank, threads) not in self.teams:
            ranks = [p.rank * self.n_threads + t for t in threads]
            self.teams[p.rank, threads] = self.archive.comm("", ranks, paradigm="openmp")
        return self.teams[p.rank, threads]

    def parallel(self, p: Process, threads: tuple[int, ...], nested: bool) -> Iterator[None]:
        rng = self.rng
        master = p.threads[threads[0]]
        team = self.team(p, threads)
        key = team, self.times[team]
        self.times[team] += 1
        self.members[key] = [self.number[p.threads[t].id] for t in threads]
        self.record(master, p, "fork", "ThreadFork", {"model": 3, "requested": len(threads)})
        plan = [rng.choice((*CONSTRUCTS, "critical", "lock", "nested", "message")) for _ in range(rng.randint(0, 4))]
        region = "!$omp parallel @b.c:1" if nested else "!$omp parallel @a.c:1"
        entered: dict[int, int] = defaultdict(int)
        running = [self.thread(p, t, team, key, plan, region, entered, threads, nested) for t in threads]
        while running:
            script = rng.choice(running)
            try:
                next(script)
            except StopIteration:
                running.remove(script)
            yield
        self.record(master, p, "join", "ThreadJoin", {"model": 3})

    def thread(
        self,
        p: Process,
        t: int,
        team: int,
        key: tuple[int, int],
        plan: list[str],
        region: str,
        entered: dict[int, int],
        threads: tuple[int, ...],
        nested: bool,
    ) -> Iterator[None]:
        at, rng = p.threads[t], self.rng
        self.record(at, p, "begin", "ThreadTeamBegin", {"team": team}, team=team)
        self.enter(at, p, region)
        for i, item in enumerate([*plan, "!$omp implicit barrier @a.c:9"]):
            yield
            if rng.random() < 0.5:
                self.user(at, p, 1)
            if item == "message":
                self.message(at, p)
            elif item in ("critical", "lock"):
                yield from self.locked(at, p, item, rng.randint(1, 2))
            elif item == "nested":
                # the last thread of an outer team forks a team with a thread that is not in the outer one
                if not nested and t == threads[-1] and t + 1 < self.n_threads:
                    yield from self.parallel(p, (t, t + 1), True)
            else:
                self.enter(at, p, item)
                entered[i] += 1
                if "barrier" in item:
                    while entered[i] < len(threads):
                        if rng.random() < 0.2:
                            self.task(at, p, t, 2)
                        yield
                self.construct_team[self.leave(at, p, item)] = key
        self.construct_team[self.leave(at, p, region)] = key
        self.record(at, p, "end", "ThreadTeamEnd", {"team": team}, team=team)

    def locked(self, at: Location, p: Process, item: str, lock: int) -> Iterator[None]:
        region = "!$omp critical @a.c:3" if item == "critical" else "omp_set_lock"
        self.enter(at, p, region)
        while p.owner.get(lock):
            yield
        p.owner[lock] = True
        p.acquisitions[lock] += 1
        order = p.acquisitions[lock]
        fields = {"model": 3, "lock": lock, "acquisition": order}
        self.record(at, p, "acquire", "ThreadAcquireLock", fields, lock=lock)
        if item == "lock":
            self.leave(at, p, "omp_set_lock")
        yield
        self.user(at, p, 0)
        if item == "lock":
            self.enter(at, p, "omp_unset_lock")
        self.record(at, p, "release", "ThreadReleaseLock", fields, lock=lock)
        p.owner[lock] = False
        self.leave(at, p, region if item == "critical" else "omp_unset_lock")

    def task(self, at: Location, p: Process, t: int, depth: int) -> tuple[int, int]:
        """Execute a task to its end; at the outermost level, return to the implicit task."""
        self.n_tasks = getattr(self, "n_tasks", 0) + 1
        task = t, self.n_tasks

        def switch(to: tuple[int, int]) -> None:
            fields = {"team": self.archive_team, "creator": to[0], "generation": to[1]}
            self.record(at, p, "switch", "ThreadTaskSwitch", fields, task=to)

        switch(task)
        self.enter(at, p, TASK)
        if self.rng.random() < 0.5:
            self.user(at, p, 1)
        if depth and self.rng.random() < 0.4:
            self.enter(at, p, "!$omp taskwait @a.c:8")
            self.task(at, p, t, depth - 1)
            switch(task)
            self.leave(at, p, "!$omp taskwait @a.c:8")
        self.leave(at, p, TASK)
        fields = {"team": self.archive_team, "creator": task[0], "generation": task[1]}
        self.record(at, p, "complete", "ThreadTaskComplete", fields, task=task)
        if depth == 2:
            switch((t, 0))
        return task

    @property
    def archive_team(self) -> int:
        return next(iter(self.teams.values()))

    # -- the serial part -------------------------------------------------------------------------------------------

    def user(self, at: Location, p: Process, depth: int) -> None:
        """Call a user function, with calls and measurement events inside."""
        rng = self.rng
        name = rng.choice("fgh")
        self.enter(at, p, name)
        if depth and rng.random() < 0.6:
            self.user(at, p, depth - 1)
        if rng.random() < 0.1:
            stop = self.now + 20
            e = self.record(at, p, "flush", "BufferFlush", {"stop_time": stop}, region=FLUSH, stop=stop)
            self.now = max(stop, e.time)
        if rng.random() < 0.1:
            self.record(at, p, "enter", "MeasurementOnOff", {"mode": 2}, region=OFF)
            self.record(at, p, "exit", "MeasurementOnOff", {"mode": 1}, region=OFF)
        self.leave(at, p, name)

    def collective(self, at: Location, p: Process) -> None:
        c, name = p.obligations.pop(0)
        self.enter(at, p, name)
        self.record(at, p, "other", "MpiCollectiveBegin", {})
        fields = {"op": 0, "communicator": c, "root": None, "sent": 0, "received": 0}
        self.record(at, p, "collective", "MpiCollectiveEnd", fields, communicator=c)
        self.leave(at, p, name)

    def main(self, p: Process) -> Iterator[None]:
        rng, at = self.rng, p.threads[0]
        if self.program:
            self.record(at, p, "enter", "ProgramBegin", {"program": "random"}, region="random")
        open_calls: list[str] = []
        for _ in range(self.size):
            yield
            what = rng.random()
            if what < 0.15:
                open_calls.append(rng.choice(("main", "solve")))
                self.enter(at, p, open_calls[-1])
            elif what < 0.25 and open_calls:
                self.leave(at, p, open_calls.pop())
            elif what < 0.35:
                self.user(at, p, 2)
            elif what < 0.65:
                self.message(at, p)
            elif what < 0.72:
                c = rng.choice([c for c, g in self.group.items() if not g or p.rank in g])
                for member in self.group[c] or [p.rank]:
                    self.processes[member].obligations.append((c, "MPI_Barrier"))
            elif what < 0.85 and p.obligations:
                self.collective(at, p)
            elif self.n_threads > 1 and self.forks:
                yield from self.parallel(p, tuple(range(rng.randint(1, self.n_threads))), False)
        while p.obligations and rng.random() < 0.95:
            self.collective(at, p)
            yield
        # some regions are never left: the recording ends inside them
        while open_calls and rng.random() < 0.9:
            self.leave(at, p, open_calls.pop())
        if self.program and not open_calls and rng.random() < 0.9:
            self.record(at, p, "exit", "ProgramEnd", {"exit_status": 0}, region="random")

    def _run(self) -> None:
        running = []
        for p in self.processes:
            p.main = self.main(p)
            running.append(p.main)
        while running:
            script = self.rng.choice(running)
            try:
                next(script)
            except StopIteration:
                running.remove(script)
        # a receive posted before a completed one takes its own message, so all receives that can complete do
        for p in self.processes:
            at = p.threads[0]
            for x in p.probed:
                self.mrecv(at, p, x)
            self.enter(at, p, "MPI_Waitall")
            for x in [x for x in p.pending if not x.is_send and self.completable(x)]:
                self.complete(at, p, x)
            self.leave(at, p, "MPI_Waitall")

    # -- the program as tracecols sees it --------------------------------------------------------------------------

    def store(self, folder: Path, jobs: int = 1) -> Store:
        """Convert the archive."""
        return Store(tracecols.convert(self.path, folder / "random.trace", jobs=jobs))

    def model(self, folder: Path, jobs: int = 1) -> Model:
        """Convert the archive and enhance it."""
        return enhance(self.store(folder), jobs)
