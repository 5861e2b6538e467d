"""Random valid programs, recorded as merged EPILOG traces.

A program is a list of rounds that all processes execute. Processes and threads are generators that yield the durations
of their work. A simulation runs them in the order of a virtual clock, so events are in the order of their times and
causes precede effects, even if a coarse clock gives them the same time. No round can deadlock: every wait is for
something that all others do earlier in the round.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from oracles.epilog import (
    CODE,
    ENTER_CODES,
    EXIT_CODES,
    CallSite,
    Event,
    Location,
    Metric,
    Node,
    Recording,
    Region,
    Topology,
)

from support.epilog_writer import region_type

Script = Iterator[float | None]
"""Generator of a process or thread: yields the time until it continues, or None to sleep until it is woken."""

POINT_TO_POINT = "Send Ssend Bsend Isend Recv Irecv Wait Waitall Waitany Waitsome Test Testall Sendrecv Probe Get_count"
COLLECTIVE = {
    "Barrier": "barrier",
    **dict.fromkeys(("Bcast", "Scatter", "Scatterv"), "from root"),
    **dict.fromkeys(("Reduce", "Gather", "Gatherv"), "to root"),
    **dict.fromkeys(("Allreduce", "Alltoall", "Alltoallv", "Allgather", "Reduce_scatter"), "all"),
    **dict.fromkeys(("Scan", "Exscan"), "prefix"),
}
OTHER = (
    "Init Finalize File_open File_write File_read_all File_close Comm_dup Comm_rank Type_commit Alloc_mem Op_create "
    "Buffer_attach Cancel"
)
ONE_SIDED = "Win_create Win_free Win_fence Win_post Win_start Win_complete Win_wait Win_test Win_lock Win_unlock Put Get Accumulate"
CONSTRUCTS = (
    "parallel", "barrier", "ibarrier", "for", "single", "single sblock", "sections", "section", "master", "critical",
    "critical sblock", "flush", "atomic", "ordered", "ordered sblock", "workshare",
)  # fmt: skip
LIBRARY = ("omp_set_lock", "omp_unset_lock", "omp_init_lock", "omp_get_thread_num")
N_FUNCTIONS = 6
CRITICAL_LOCK, API_LOCK = 7, 3


class Simulation:
    """A virtual clock, and the scripts that wait for it or for each other."""

    def __init__(self) -> None:
        self.now = 0.0
        self.heap: list[tuple[float, int, Script]] = []
        self.n = 0
        self.running: Script | None = None
        self.asleep: dict[object, list[Script]] = defaultdict(list)

    def at(self, time: float, script: Script) -> None:
        """Schedule a script to continue at some time; scripts of the same time continue in the order of scheduling."""
        self.n += 1
        heapq.heappush(self.heap, (time, self.n, script))

    def run(self) -> None:
        """Run until no script is scheduled."""
        while self.heap:
            self.now, _, self.running = heapq.heappop(self.heap)
            delay = next(self.running, -1.0)
            if delay is not None and delay >= 0:
                self.at(self.now + delay, self.running)
        if any(self.asleep.values()):
            raise RuntimeError(f"the program locks up: {[k for k, v in self.asleep.items() if v]}")

    def wait(self, key: object, condition: Callable[[], bool]) -> Script:
        """Sleep until something wakes this key and the condition holds."""
        while not condition():
            assert self.running is not None
            self.asleep[key].append(self.running)
            yield None

    def wake(self, key: object) -> None:
        """Make all scripts that sleep on a key check their conditions again, in the order in which they fell asleep."""
        for script in self.asleep.pop(key, ()):
            self.at(self.now, script)


@dataclass
class Message:
    """A message of a round: the calls that send and receive it, and whether it is received late."""

    src: int
    dst: int
    comm: int
    tag: int
    call: str
    how: str
    is_late: bool
    is_posted: bool = False


@dataclass
class Meeting:
    """A collective operation or a construct in progress."""

    entered: set[int] = field(default_factory=set)
    left: int = 0


@dataclass
class Team:
    """A parallel region in execution."""

    process: int
    plan: list[tuple[str, int]]
    ends: str
    meetings: dict[object, Meeting] = field(default_factory=lambda: defaultdict(Meeting))
    done: int = 0


@dataclass(frozen=True)
class Contents:
    """Parameters of a random program and of its recording.

    Attributes
    ----------
    n_processes, n_threads : int
        Number of processes, and of threads of each process.
    n_rounds : int
        Number of rounds; each has about 10 to 20 events per location.
    n_metrics : int
        Number of counters, which never decrease.
    tick : float, optional
        Resolution of the clock in seconds; work takes some milliseconds, calls some microseconds. Ties are in causal
        order, which is seldom that of locations.
    big_endian : bool
        Byte order of the written file.
    rma : bool
        Include one-sided communication: fences, locks, and epochs of groups.
    mergeable : bool
        Order ties between processes by process, by slight changes of times, so that merging the files of the processes
        gives this recording.
    overlapping_locks : bool
        Record some releases late, after the next thread has acquired the lock, as the measurement system does.
    pseudo_regions : bool
        Add LOG_OFF / LOG_ON and ENTER_TRACING / EXIT_TRACING.
    violations : bool
        Make some locations leave collective operations and barriers before all have entered, as with inaccurate clocks,
        and some call a different collective operation than the others.
    spelling : str, optional
        Spelling of MPI names: c, lower or upper; by default it is drawn, and c with one-sided communication.
    topologies : bool
        Add Cartesian topologies, one of them in the old form.
    """

    n_processes: int = 4
    n_threads: int = 1
    n_rounds: int = 30
    n_metrics: int = 0
    tick: float | None = None
    big_endian: bool = False
    rma: bool = False
    mergeable: bool = False
    overlapping_locks: bool = False
    pseudo_regions: bool = False
    violations: bool = False
    spelling: str | None = None
    topologies: bool = True


class RandomEpilog:
    """Run a random program and record it."""

    def __init__(self, seed: int, contents: Contents) -> None:
        self.rng = rng = random.Random(seed)
        self.given = c = contents
        # Fortran compilers spell MPI_Send mpi_send_ or MPI_SEND; EXPERT knows them without the underscore.
        # When files are merged, only calls with the names of C end transfers.
        drawn = "c" if rng.random() < 0.8 or c.rma else rng.choice(("lower", "upper"))
        self.spelling = c.spelling or drawn
        self.sim = Simulation()
        self.recording = r = Recording(c.big_endian)
        self.numbers: dict[str, int] = {}
        self.stack: dict[int, list[Event]] = defaultdict(list)
        self.counters: dict[int, list[int]] = {}
        self.recorded: list[Event] = []
        self.wrote: list[int] = []
        self._define()
        self.has_main = rng.random() < 0.85

        self.pending: dict[tuple[int, int, int, int], int] = defaultdict(int)
        self.meetings: dict[object, Meeting] = defaultdict(Meeting)
        self.held: set[tuple[int, int]] = set()
        self.rounds: list[tuple[str, object]] = []
        self.windows: dict[int, str] = {}
        self.puts: dict[tuple[int, int, int, int], list[tuple[int, int]]] = defaultdict(list)
        self.gets: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self.epochs: dict[tuple[str, int, int, int], int] = defaultdict(int)
        self.rma_ids: dict[int, int] = defaultdict(int)
        self.group_ids: dict[tuple[int, ...], int] = {}
        self.plan()
        self.origin = 0.0
        first = rng.randrange(c.n_processes + 1)
        for p in range(c.n_processes):
            self.sim.at(0.0 if p == first else self.short(), self.main(p))
        self.sim.run()
        self._finish()
        r.n_events = len(r.events)
        r.has_last_def = True

    # -- definitions -----------------------------------------------------------------------------------------------

    def _define(self) -> None:
        r, rng, n_metrics = self.recording, self.rng, self.given.n_metrics
        r.machines[0] = "random machine", self.given.n_processes
        for p in range(self.given.n_processes):
            r.nodes[p] = Node(p, 0, self.given.n_threads, f"node{p}", 1e9)
            r.processes[p] = f"p{p}"
            for t in range(self.given.n_threads):
                r.threads[p, t] = f"t{t}"
                lid = len(r.locations)
                r.locations[lid] = Location(lid, 0, p, p, t)
                self.counters[lid] = [rng.randrange(100) for _ in range(n_metrics)]
        r.files.update({0: "random.c", 1: "MPI", 2: "OMP"})
        self.define("main", type_=1)
        for i in range(N_FUNCTIONS):
            self.define(f"func{i}", begin=10 * i + 1, end=10 * i + 9)
        for name in (
            *POINT_TO_POINT.split(),
            *COLLECTIVE,
            *OTHER.split(),
            *(ONE_SIDED.split() if self.given.rma else ()),
        ):
            self.define(self.spell(f"MPI_{name}"), "MPI")
        if self.given.n_threads > 1:
            for i, name in enumerate(CONSTRUCTS):
                text = f"!$omp {name} @random.c:{100 + i}" if rng.random() < 0.8 else f"!$omp {name}"
                self.define(text, "OMP", 100 + i, 100 + i, region_type(f"!$omp {name}"), f"!$omp {name}")
            # a second parallel region
            self.define("!$omp parallel @random.c:200", "OMP", 200, 220, 11)
            for name in LIBRARY:
                self.define(name, "OMP")
        for i in range(8):
            callee = 1 + rng.randrange(N_FUNCTIONS)
            r.call_sites[i] = CallSite("random.c", 100 + i // 2, callee, rng.randrange(N_FUNCTIONS + 1))
        r.metrics.extend(Metric(f"M{i}", f"metric {i}", 0, 0, 0) for i in range(n_metrics))
        everyone = list(range(self.given.n_processes))
        if self.given.n_processes > 1 or rng.random() < 0.5:
            r.comms[0] = everyone
            # merging marks the communicator of all processes as a group
            r.group_comms.add(0)
            if self.given.n_processes > 1 and rng.random() < 0.6:
                r.comms.update({1 + p: [p] for p in everyone})
            if self.given.n_processes > 1:
                for _ in range(rng.randint(0, 3)):
                    r.comms[len(r.comms)] = sorted(rng.sample(everyone, rng.randint(1, self.given.n_processes)))
        if self.given.topologies:
            n, t = self.given.n_processes, self.given.n_threads
            r.topologies[0] = Topology(
                -1,
                [t, n],
                [True, False],
                "Process/Thread",
                ["Thread", "Process"],
                {x.id: [x.thread, x.process] for x in r.locations.values()},
            )
            if n % 2 == 0 and 0 in r.comms:
                coords = {x.id: [x.process // 2, x.process % 2] for x in r.locations.values() if x.thread == 0}
                r.topologies[1] = Topology(0, [n // 2, 2], [False, True], "", [], coords)
        if rng.random() < 0.5:
            r.call_paths.update({0: (0, -1, 0), 1: (1, 0, rng.getrandbits(63))})

    def spell(self, name: str) -> str:
        """Spell an MPI name in the language of the program."""
        return {"c": name, "lower": name.lower(), "upper": name.upper()}[self.spelling]

    def define(
        self,
        name: str,
        file: str = "random.c",
        begin: int = -1,
        end: int = -1,
        type_: int = 1,
        known: str | None = None,
    ) -> None:
        """Define a region; events refer to it by the name `known`."""
        number = len(self.recording.regions)
        self.numbers[known or name] = number
        self.recording.regions[number] = Region(name, file, begin, end, "random", type_)

    # -- recording -------------------------------------------------------------------------------------------------

    def master(self, p: int) -> int:
        """Return the location of the first thread of a process."""
        return p * self.given.n_threads

    def record(self, at: int, kind: str, wrote: int | None = None, /, **fields: int) -> Event:
        """Record an event now; `wrote` is the location that writes the record, if it is another one."""
        if self.given.mergeable and not self.recorded:
            # merging makes time begin at the first event
            self.origin = self.sim.now
        time = self.sim.now - self.origin
        if self.given.tick is not None:
            time = math.floor(time / self.given.tick + 1e-9) * self.given.tick
        code = CODE[kind]
        metrics: tuple[int, ...] = ()
        if code in ENTER_CODES or code in EXIT_CODES:
            mine = self.counters[at]
            mine[:] = [v + self.rng.choice((0, 1, self.rng.randrange(1000), 1 << 33)) for v in mine]
            metrics = tuple(mine)
        e = Event(0, code, at, time, fields, metrics)
        self.recorded.append(e)
        self.wrote.append((at if wrote is None else wrote) // self.given.n_threads)
        if code in ENTER_CODES:
            self.stack[at].append(e)
        elif code in EXIT_CODES:
            self.stack[at].pop()
        return e

    def enter(self, at: int, name: str) -> Event:
        """Enter a region by name."""
        return self.record(at, "ENTER", region=self.numbers[self.spell(name) if name.startswith("MPI_") else name])

    def exit(self, at: int, kind: str = "EXIT", **fields: int) -> Event:
        """Leave the current region."""
        return self.record(at, kind, **fields)

    def step_in(self, at: int, name: str) -> Script:
        """Enter a region, and pause."""
        self.enter(at, name)
        yield self.pause()

    def step_out(self, at: int, kind: str = "EXIT", **fields: int) -> Script:
        """Pause, and leave the current region."""
        yield self.pause()
        self.exit(at, kind, **fields)

    def pause(self) -> float:
        """Return a short random duration, often 0."""
        return self.rng.choice((0.0, 0.0, self.rng.expovariate(5e5), self.rng.expovariate(1e5)))

    def short(self) -> float:
        """Return a short random duration greater than 0."""
        return self.rng.expovariate(3e4)

    def long(self) -> float:
        """Return a random duration of work."""
        return self.rng.expovariate(500)

    def maybe(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    # -- user functions ----------------------------------------------------------------------------------------------

    def function(self, at: int, depth: int = 0) -> Script:
        """Call a function, sometimes from a call site, sometimes recursively."""
        rng = self.rng
        if self.maybe(0.3):
            self.record(at, "ENTER_CS", call_site=rng.randrange(len(self.recording.call_sites)))
        else:
            # few names, so that recursion occurs
            self.enter(at, f"func{rng.randrange(N_FUNCTIONS)}")
        yield self.long() if self.maybe(0.6) else self.pause()
        if depth < 3 and self.maybe(0.4):
            yield from self.function(at, depth + 1)
            yield self.pause()
        if self.given.pseudo_regions and self.maybe(0.2):
            enter, leave = rng.choice((("LOG_OFF", "LOG_ON"), ("ENTER_TRACING", "EXIT_TRACING")))
            self.record(at, enter)
            yield self.short()
            self.record(at, leave)
        self.exit(at)

    # -- messages ----------------------------------------------------------------------------------------------------

    def send(self, m: Message, at: int, call: str | None = None) -> Script:
        """Send a message; a synchronous send ends after its receive has been posted."""
        if call is None:
            yield from self.step_in(at, f"MPI_{m.call}")
        fields = {"dest": self.master(m.dst), "comm": m.comm, "tag": m.tag, "length": self.rng.randrange(1, 5000)}
        self.record(at, "MPI_SEND", **fields)
        self.pending[m.src, m.dst, m.comm, m.tag] += 1
        self.sim.wake(("message", m.dst))
        if call is None:
            # other sends may also take long, but of these only standard mode counts as waiting for the receiver
            blocks = {"Ssend": 1.0, "Send": 0.5}.get(m.call, 0.2)
            if not m.is_late and self.maybe(blocks):
                yield from self.sim.wait(("posted", m.src), lambda: m.is_posted)
            yield from self.step_out(at)

    def arrive(self, m: Message, at: int) -> Script:
        """Receive the oldest message of the same source, communicator and tag, as soon as there is one."""
        key = m.src, m.dst, m.comm, m.tag
        yield from self.sim.wait(("message", m.dst), lambda: self.pending[key] > 0)
        # taken at once, so that no other receive takes it
        self.pending[key] -= 1
        self.record(at, "MPI_RECV", src=self.master(m.src), comm=m.comm, tag=m.tag)

    def post(self, m: Message) -> None:
        """Notify the sender that the receive is posted."""
        m.is_posted = True
        self.sim.wake(("posted", m.src))

    def receive(self, m: Message, at: int, is_posted: bool) -> Script:
        """Receive a message in one call, or complete its receive."""
        if not is_posted and m.how == "Recv":
            if self.maybe(0.1):
                yield from self.call(at, "MPI_Probe")
            self.enter(at, "MPI_Recv")
            self.post(m)
            yield self.pause()
            yield from self.arrive(m, at)
        elif m.how in ("Test", "Testall") and self.maybe(0.6):
            key = m.src, m.dst, m.comm, m.tag
            while not self.pending[key]:
                yield from self.call(at, f"MPI_{m.how}")
                # wait long between tests: there would be too many otherwise
                yield self.long()
            self.enter(at, f"MPI_{m.how}")
            yield from self.arrive(m, at)
        else:
            yield from self.step_in(at, f"MPI_{m.how}")
            yield from self.arrive(m, at)
        yield from self.step_out(at)
        if self.maybe(0.1):
            yield from self.call(at, "MPI_Get_count")

    def irecv(self, m: Message, at: int) -> Script:
        """Post a receive."""
        yield from self.step_in(at, "MPI_Irecv")
        self.post(m)
        self.exit(at)

    def call(self, at: int, name: str) -> Script:
        """Make a call without further events."""
        self.enter(at, name)
        yield self.short() if self.maybe(0.7) else 0.0
        self.exit(at)

    def messages(self, p: int, messages: list[Message]) -> Script:
        """Send and receive the messages of a round; late ones are received at the end, in any order."""
        at = self.master(p)
        late: list[Message] = []
        for m in messages:
            if p == m.src:
                if self.maybe(0.3):
                    yield from self.function(at)
                yield from self.send(m, at)
            if p == m.dst:
                if m.how != "Recv":
                    yield from self.irecv(m, at)
                    late.append(m) if m.is_late else None
                elif m.is_late:
                    late.append(m)
                if not m.is_late:
                    if self.maybe(0.4):
                        yield from self.function(at)
                    yield from self.receive(m, at, m.how != "Recv")
            yield self.pause()
        self.rng.shuffle(late)
        while late:
            m = late.pop()
            if m.how in ("Waitall", "Waitsome"):
                together = [m, *(x for x in late if x.how == m.how)]
                late = [x for x in late if x not in together]
                yield from self.step_in(at, f"MPI_{m.how}")
                for x in together:
                    yield from self.arrive(x, at)
                    yield self.pause()
                self.exit(at)
            else:
                yield from self.receive(m, at, m.how != "Recv")
            yield self.pause()

    def shift(self, p: int, step: int, comm: int) -> Script:
        """Send to one neighbour while receiving from another."""
        members, at = self.recording.comms[comm], self.master(p)
        if p not in members:
            return
        i = members.index(p)
        out = Message(p, members[(i + step) % len(members)], comm, 5, "Sendrecv", "Sendrecv", True)
        into = Message(members[(i - step) % len(members)], p, comm, 5, "Sendrecv", "Sendrecv", True)
        yield from self.step_in(at, "MPI_Sendrecv")
        yield from self.send(out, at, "Sendrecv")
        yield self.pause()
        yield from self.arrive(into, at)
        yield from self.step_out(at)

    # -- collective operations -----------------------------------------------------------------------------------------

    def meet(
        self, key: object, who: int, members: list[int], needed: Callable[[set[int]], bool] | None = None
    ) -> Script:
        """Wait for all members, or for those that the operation needs."""
        meeting = self.meetings[key]
        meeting.entered.add(who)
        self.sim.wake(key)
        enough = needed or (lambda entered: len(entered) == len(members))
        yield from self.sim.wait(key, lambda: enough(meeting.entered))

    def collective(self, p: int, key: object, name: str, comm: int, root: int) -> Script:
        """Take part in a collective operation."""
        members, at, kind = self.recording.comms[comm], self.master(p), COLLECTIVE[name]
        if p not in members:
            return
        if self.maybe(0.5):
            yield from self.function(at)
        is_rooted = kind in ("from root", "to root")
        others = [n for n, k in COLLECTIVE.items() if (k in ("from root", "to root")) == is_rooted]
        yield from self.step_in(
            at, f"MPI_{self.rng.choice(others) if self.given.violations and self.maybe(0.05) else name}"
        )
        # the members that a process waits for: in rooted and prefix operations some may leave early
        needed: Callable[[set[int]], bool] | None = None
        if kind == "from root" and self.maybe(0.5):
            needed = lambda entered: root in entered  # noqa: E731
        elif kind == "to root" and p != root and self.maybe(0.5):
            needed = lambda entered: True  # noqa: E731
        elif kind == "prefix" and self.maybe(0.5):
            needed = lambda entered: all(m in entered for m in members if m <= p)  # noqa: E731
        if self.given.violations and self.maybe(0.2):
            needed = lambda entered: True  # noqa: E731
        yield from self.meet(key, p, members, needed)
        yield self.pause()
        sent, received = self.rng.randrange(999), self.rng.randrange(999)
        at_root = self.master(root) if is_rooted else -1
        self.exit(at, "MPI_COLLEXIT", root=at_root, comm=comm, sent=sent, received=received)

    # -- OpenMP --------------------------------------------------------------------------------------------------------

    def parallel(self, p: int, team: Team) -> Script:
        """Fork a team, execute the region, and join it."""
        master = self.master(p)
        region = "!$omp parallel" if team.ends.startswith("1") else "!$omp parallel @random.c:200"
        self.record(master, "OMP_FORK")
        for t in range(1, self.given.n_threads):
            self.sim.at(self.sim.now + self.pause(), self.thread(team, t, region))
        yield self.pause()
        yield from self.thread(team, 0, region)
        yield from self.sim.wait(("join", p), lambda: team.done == self.given.n_threads)
        yield self.pause()
        self.record(master, "OMP_JOIN")

    def thread(self, team: Team, t: int, region: str) -> Script:
        """Execute a parallel region as one of its threads."""
        at = self.master(team.process) + t
        yield from self.step_in(at, region)
        for i, (construct, choice) in enumerate(team.plan):
            yield from self.construct(team, at, t, i, construct, choice)
            yield self.pause()
        yield from self.barrier(team, at, t, "end", "!$omp ibarrier")
        yield from self.step_out(at, team.ends[2:])
        team.done += 1
        self.sim.wake(("join", team.process))

    def barrier(self, team: Team, at: int, t: int, key: object, region: str) -> Script:
        """Wait for the team."""
        yield from self.step_in(at, region)
        meeting, name = team.meetings[key], (id(team), key)
        meeting.entered.add(t)
        self.sim.wake(name)
        if not self.given.violations or self.maybe(0.8):
            yield from self.sim.wait(name, lambda: len(meeting.entered) == self.given.n_threads)
        yield from self.step_out(at, "OMP_COLLEXIT")

    def construct(self, team: Team, at: int, t: int, i: int, construct: str, choice: int) -> Script:
        """Execute one construct; decisions by `choice` are the same for all threads."""
        ends = "OMP_COLLEXIT" if choice & 1 else "EXIT"
        waits = choice & 2
        if construct == "barrier":
            yield self.long()
            yield from self.barrier(team, at, t, i, "!$omp barrier")
        elif construct in ("for", "workshare", "sections", "single"):
            yield from self.step_in(at, f"!$omp {construct}")
            if construct == "sections" and self.maybe(0.5):
                self.enter(at, "!$omp section")
                yield self.long()
                self.exit(at)
            elif construct == "single" and t == choice % self.given.n_threads:
                self.enter(at, "!$omp single sblock")
                yield self.long()
                self.exit(at)
            elif construct != "single":
                yield self.long()
                if self.maybe(0.2):
                    yield from self.function(at, 2)
            if waits:
                yield from self.barrier(team, at, t, i, "!$omp ibarrier")
            self.exit(at, ends)
        elif construct == "master" and t == 0:
            self.enter(at, "!$omp master")
            yield self.short()
            if self.maybe(0.5):
                yield from self.function(at, 1)
            if waits and self.given.n_processes > 1:
                # if this is set, all processes have the same plan
                yield from self.collective(team.process, ("master", choice), "Allreduce", 0, 0)
            self.exit(at)
        elif construct == "function" and choice >> t & 1:
            yield from self.function(at, 1)
        elif construct == "critical":
            self.enter(at, "!$omp critical")
            yield from self.lock(at, team.process, CRITICAL_LOCK)
            self.enter(at, "!$omp critical sblock")
            yield self.short()
            self.exit(at)
            yield from self.unlock(at, team.process, CRITICAL_LOCK)
            self.exit(at)
        elif construct == "lock":
            self.enter(at, "omp_set_lock")
            yield from self.lock(at, team.process, API_LOCK)
            self.exit(at)
            yield self.short()
            if self.maybe(0.3):
                yield from self.function(at, 2)
            self.enter(at, "omp_unset_lock")
            yield from self.unlock(at, team.process, API_LOCK)
            self.exit(at)
        elif construct == "ordered":
            self.enter(at, "!$omp ordered")
            yield from self.ordered(team, at, t, i)
            self.exit(at)
        elif construct in ("flush", "atomic"):
            yield from self.step_in(at, f"!$omp {construct}")
            self.exit(at)
        elif construct == "api":
            yield from self.call(at, "omp_get_thread_num")

    def ordered(self, team: Team, at: int, t: int, i: int) -> Script:
        """Execute an ordered block after all threads with lower numbers."""
        meeting, name = team.meetings["ordered", i], (id(team), "ordered", i)
        yield from self.sim.wait(name, lambda: meeting.left == t)
        self.enter(at, "!$omp ordered sblock")
        yield self.short()
        self.exit(at)
        meeting.left += 1
        self.sim.wake(name)

    def lock(self, at: int, p: int, lock: int) -> Script:
        """Acquire a lock."""
        yield self.pause()
        yield from self.sim.wait(("lock", p, lock), lambda: (p, lock) not in self.held)
        self.held.add((p, lock))
        self.record(at, "OMP_ALOCK", lock=lock)
        yield self.pause()

    def unlock(self, at: int, p: int, lock: int) -> Script:
        """Release a lock; with `overlapping_locks`, another thread may acquire it before the record is written."""
        yield self.pause()
        if self.given.overlapping_locks and self.maybe(0.3):
            self.held.remove((p, lock))
            self.sim.wake(("lock", p, lock))
            yield self.short()
            self.record(at, "OMP_RLOCK", lock=lock)
        else:
            self.record(at, "OMP_RLOCK", lock=lock)
            self.held.remove((p, lock))
            self.sim.wake(("lock", p, lock))
        yield self.pause()

    # -- one-sided communication ---------------------------------------------------------------------------------------

    def transfer(self, p: int, window: int, target: int, kind: str) -> Script:
        """Put or get; the end of the transfer is recorded by the synchronisation that completes it."""
        at, to = self.master(p), self.master(target)
        self.rma_ids[p] += 1
        rma, length = self.rma_ids[p], self.rng.randrange(8, 4000)
        yield from self.step_in(at, f"MPI_{kind}")
        if kind != "Get":
            self.record(at, "MPI_PUT_1TS", dest=to, window=window, rma=rma, length=length)
            yield self.pause()
            self.puts[window, to, at, self.epochs["access", window, to, at]].append((rma, at))
        else:
            self.record(at, "MPI_GET_1TO", rma=rma)
            self.record(to, "MPI_GET_1TS", at, dest=at, window=window, rma=rma, length=length)
            yield self.pause()
            self.gets[window, at].append((rma, to))
        self.exit(at)

    def end_gets(self, window: int, at: int) -> None:
        """Record the ends of the gets of a location."""
        for rma, target in self.gets.pop((window, at), []):
            self.record(at, "MPI_GET_1TE", src=target, window=window, rma=rma)

    def end_puts(self, window: int, target: int, origins: list[int], epochs: str, wrote: int) -> None:
        """Record the ends of the puts of other locations."""
        for origin in origins:
            epoch = self.epochs[epochs, window, target, origin]
            for rma, source in self.puts.pop((window, target, origin, epoch), []):
                self.record(target, "MPI_PUT_1TE", wrote, src=source, window=window, rma=rma)

    def window_collective(self, p: int, key: object, window: int, name: str) -> Script:
        """Create, fence or free a window."""
        members, at = self.recording.comms[self.recording.windows[window]], self.master(p)
        self.enter(at, f"MPI_{name}")
        yield from self.meet(key, p, members)
        yield self.pause()
        if name == "Win_fence":
            self.end_gets(window, at)
            self.end_puts(window, at, [self.master(m) for m in members], "access", at)
        self.exit(at, "MPI_WINCOLLEXIT", window=window)

    def one_sided(self, p: int, number: int, window: int, kind: str, epochs: list[dict[int, list[int]]]) -> Script:
        """Create a window, use it, and free it."""
        members, at = self.recording.comms[self.recording.windows[window]], self.master(p)
        if p not in members:
            return
        yield from self.window_collective(p, (number, "create"), window, "Win_create")
        if kind == "fence":
            yield from self.window_collective(p, (number, "fence"), window, "Win_fence")
        for i, targets in enumerate(epochs):
            if self.maybe(0.5):
                yield from self.function(at)
            mine = targets.get(p, [])
            if kind == "fence":
                for target in mine:
                    yield from self.transfer(p, window, target, self.rng.choice(("Put", "Get", "Accumulate")))
                if self.maybe(0.5):
                    yield from self.function(at)
                yield from self.window_collective(p, (number, "fence", i), window, "Win_fence")
            elif kind == "lock":
                for target in mine:
                    yield from self.locked(p, window, target)
            else:
                yield from self.epoch(p, (number, i), window, targets)
        yield from self.window_collective(p, (number, "free"), window, "Win_free")

    def locked(self, p: int, window: int, target: int) -> Script:
        """Access a window under a lock."""
        at, to = self.master(p), self.master(target)
        yield from self.step_in(at, "MPI_Win_lock")
        self.record(at, "MPI_WIN_LOCK", target=to, window=window, exclusive=self.rng.randrange(2))
        yield from self.step_out(at)
        for _ in range(self.rng.randrange(3)):
            yield from self.transfer(p, window, target, self.rng.choice(("Put", "Get", "Accumulate")))
        yield self.pause()
        yield from self.step_in(at, "MPI_Win_unlock")
        self.end_gets(window, at)
        self.end_puts(window, to, [at], "access", at)
        self.record(at, "MPI_WIN_UNLOCK", target=to, window=window)
        yield from self.step_out(at)

    def epoch(self, p: int, key: object, window: int, targets: dict[int, list[int]]) -> Script:
        """Take part in a general active target synchronisation, as origin, target or both."""
        at = self.master(p)
        mine = targets.get(p, [])
        origins = sorted(o for o, group in targets.items() if p in group)
        posted = [(key, "post", t) for t in mine]

        def all_posted() -> bool:
            return all(self.meetings[k].entered for k in posted)

        def wait_for_posts() -> Script:
            yield from self.sim.wait(("posts", window), all_posted)

        if origins:
            if self.maybe(0.6):
                yield from self.function(at)
            group = self.group_of(origins)
            yield from self.step_in(at, "MPI_Win_post")
            for o in origins:
                self.epochs["exposure", window, at, self.master(o)] += 1
            self.meetings[key, "post", p].entered.add(p)
            self.sim.wake(("posts", window))
            self.exit(at, "MPI_WINEXIT", window=window, comm=group, synex=0)
            yield self.pause()
        if mine:
            if self.maybe(0.4):
                yield from self.function(at)
            # a library may wait for the targets in any of these calls
            blocks = self.rng.choice(("start", "transfer", "complete", "never"))
            group = self.group_of(mine)
            yield from self.step_in(at, "MPI_Win_start")
            if blocks == "start":
                yield from wait_for_posts()
            for t in mine:
                self.epochs["access", window, self.master(t), at] += 1
            self.exit(at, "MPI_WINEXIT", window=window, comm=group, synex=0)
            for _ in range(self.rng.randrange(4)):
                if self.maybe(0.3):
                    yield from self.function(at)
                if blocks == "transfer":
                    yield from self.blocked_put(p, window, self.rng.choice(mine), wait_for_posts)
                else:
                    yield from self.transfer(p, window, self.rng.choice(mine), self.rng.choice(("Put", "Put", "Get")))
            if self.maybe(0.4):
                yield from self.function(at)
            yield from self.step_in(at, "MPI_Win_complete")
            if blocks == "complete":
                yield from wait_for_posts()
            self.meetings[key, "complete", p].entered.add(p)
            self.sim.wake(("completes", window))
            # targets may have finished before
            yield self.short() if self.maybe(0.5) else 0.0
            self.end_gets(window, at)
            self.exit(at, "MPI_WINEXIT", window=window, comm=group, synex=1)
            yield self.pause()
        if origins:
            completes = [(key, "complete", o) for o in origins]

            def all_complete() -> bool:
                return all(self.meetings[k].entered for k in completes)

            group = self.group_of(origins)
            call = "MPI_Win_wait"
            if self.maybe(0.3):
                call = "MPI_Win_test"
                while not all_complete():
                    yield from self.step_in(at, call)
                    self.exit(at, "MPI_WINEXIT", window=window, comm=group, synex=0)
                    yield self.long()
            yield from self.step_in(at, call)
            yield from self.sim.wait(("completes", window), all_complete)
            yield self.pause()
            self.end_puts(window, at, [self.master(o) for o in origins], "exposure", at)
            self.exit(at, "MPI_WINEXIT", window=window, comm=group, synex=1)

    def blocked_put(self, p: int, window: int, target: int, wait: Callable[[], Script]) -> Script:
        """Put, and wait for the target inside the call."""
        at, to = self.master(p), self.master(target)
        self.rma_ids[p] += 1
        rma = self.rma_ids[p]
        yield from self.step_in(at, "MPI_Put")
        self.record(at, "MPI_PUT_1TS", dest=to, window=window, rma=rma, length=8)
        yield from wait()
        yield self.pause()
        self.puts[window, to, at, self.epochs["access", window, to, at]].append((rma, at))
        self.exit(at)

    def group_of(self, processes: list[int]) -> int:
        """Return the provisional number of a group, less than those of all communicators."""
        return self.group_ids.setdefault(tuple(processes), -2 - len(self.group_ids))

    # -- the program ---------------------------------------------------------------------------------------------------

    def plan(self) -> None:
        """Draw the rounds."""
        rng, r = self.rng, self.recording
        kinds = ["function", "calls"]
        if self.given.n_processes > 1:
            kinds += ["messages", "messages", "collectives", "collectives", "shift"]
            kinds += ["one-sided"] * 2 * self.given.rma
        elif r.comms:
            kinds += ["collectives"]
        if self.given.n_threads > 1:
            kinds += ["parallel", "parallel", "parallel"]
        for number in range(self.given.n_rounds):
            kind = rng.choice(kinds)
            what: object = None
            if kind == "messages":
                what = self.plan_messages()
            elif kind == "collectives":
                drawn = [rng.choice((0, *r.comms)) for _ in range(rng.randint(1, 4))]
                what = [(rng.choice([*COLLECTIVE]), comm, rng.choice(r.comms[comm])) for comm in drawn]
            elif kind == "shift":
                what = rng.randint(1, self.given.n_processes - 1), rng.choice([*r.comms])
            elif kind == "parallel":
                what = self.plan_parallel(number)
            elif kind == "one-sided":
                what = self.plan_one_sided()
            self.rounds.append((kind, what))

    def plan_messages(self) -> list[Message]:
        """Draw the messages of a round: processes, calls, and which are received late."""
        rng, comms = self.rng, self.recording.comms
        messages = []
        for _ in range(rng.randint(1, 2 * self.given.n_processes)):
            comm = rng.choice([c for c, members in comms.items() if len(members) > 1 or self.maybe(0.3)] or [0])
            src = rng.choice(comms[comm])
            dst = rng.choice([m for m in comms[comm] if m != src] or [src])
            how = rng.choice(("Recv", "Recv", "Recv", "Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall"))
            is_late = src == dst or how == "Waitall" or self.maybe(0.4)
            call = rng.choice(("Send", "Send", "Ssend", "Bsend", "Isend"))
            if is_late and call == "Ssend":
                call = "Isend"
            messages.append(Message(src, dst, comm, rng.randrange(3), call, how, is_late))
        return messages

    def plan_parallel(self, number: int) -> dict[int, Team]:
        """Draw the parallel region of each process: the same for all if the masters communicate inside."""
        rng = self.rng
        constructs = (
            "barrier", "for", "for", "single", "sections", "workshare", "master", "function", "critical", "critical",
            "lock", "flush", "atomic", "ordered", "api",
        )  # fmt: skip

        def draw(communicates: bool) -> tuple[list[tuple[str, int]], str]:
            plan = [
                (rng.choice(constructs), rng.getrandbits(max(4, self.given.n_threads)))
                for _ in range(rng.randint(0, 5))
            ]
            # a unique number for the operation of the masters
            plan = [
                (c, (x & 1) | 2 * communicates | 4 * (100 * number + i) if c == "master" else x)
                for i, (c, x) in enumerate(plan)
            ]
            return plan, rng.choice("12") + ":" + rng.choice(("EXIT", "OMP_COLLEXIT"))

        if self.maybe(0.4):
            plan, ends = draw(True)
            return {p: Team(p, plan, ends) for p in range(self.given.n_processes)}
        return {p: Team(p, *draw(False)) for p in range(self.given.n_processes) if self.maybe(0.8)}

    def plan_one_sided(self) -> tuple[int, str, list[dict[int, list[int]]]]:
        """Draw a window, and the targets of each origin in its epochs."""
        rng, r = self.rng, self.recording
        window = len(r.windows)
        # a communicator of one process could be SELF, whose windows merging would multiply
        r.windows[window] = comm = rng.choice([c for c, m in r.comms.items() if len(m) > 1])
        members = r.comms[comm]
        kind = rng.choice(("fence", "lock", "epochs", "epochs"))
        epochs: list[dict[int, list[int]]] = []
        for _ in range(rng.randint(1, 3)):
            origins = rng.sample(members, rng.randint(1, len(members)))
            targets = rng.sample(members, rng.randint(1, len(members)))
            some = {o: [t for t in sorted(targets) if t != o and self.maybe(0.7)] for o in origins}
            # the same in all epochs: with weak synchronisation, a later origin could be matched to an earlier epoch
            epochs.append(
                epochs[0] if epochs and kind == "epochs" else {o: group for o, group in some.items() if group}
            )
        return window, kind, epochs

    def main(self, p: int) -> Script:
        """Run the program as one process."""
        at = self.master(p)
        everyone = list(range(self.given.n_processes))
        if self.has_main:
            yield from self.step_in(at, "main")
        if self.given.n_processes > 1:
            yield from self.call(at, "MPI_Init")
        if self.given.n_threads > 1 and self.maybe(0.5):
            yield from self.call(at, "omp_init_lock")
        for number, (kind, what) in enumerate(self.rounds):
            if self.maybe(0.4):
                yield from self.function(at)
            yield self.pause()
            if kind == "function":
                yield from self.function(at)
            elif kind == "calls":
                for _ in range(self.rng.randint(1, 3)):
                    yield from self.call(at, "MPI_" + self.rng.choice(OTHER.split()[2:]))
                    yield self.pause()
            elif kind == "messages":
                yield from self.messages(p, what)  # type: ignore[arg-type]
            elif kind == "collectives":
                for i, (name, comm, root) in enumerate(what):  # type: ignore[arg-type, var-annotated]
                    yield from self.collective(p, (number, i), name, comm, root)
            elif kind == "shift":
                yield from self.shift(p, *what)  # type: ignore[misc]
            elif kind == "parallel":
                if p in what:  # type: ignore[operator]
                    yield from self.parallel(p, what[p])  # type: ignore[index]
            elif kind == "one-sided":
                yield from self.one_sided(p, number, *what)  # type: ignore[misc]
        if self.given.n_processes > 1:
            self.enter(at, "MPI_Finalize")
            yield from self.meet("finalize", p, everyone)
            yield from self.step_out(at)
        if self.has_main:
            yield from self.step_out(at)

    # -- the recording -------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Number events and groups; if merging must give the same order, resolve ties between processes."""
        r = self.recording
        for i, e in enumerate(self.recorded):
            e.pos = i + 1
            if self.given.mergeable and i:
                before = self.recorded[i - 1].time
                e.time = max(e.time, before)
                if e.time == before and self.wrote[i] < self.wrote[i - 1]:
                    e.time = math.nextafter(before, math.inf) if self.given.tick is None else before + self.given.tick
        r.events = self.recorded
        groups = {number: members for members, number in self.group_ids.items()}
        final: dict[int, int] = {}
        # in the order in which merging finds them
        for p in range(self.given.n_processes):
            for e in r.events:
                if e.name == "MPI_WINEXIT" and e.location // self.given.n_threads == p:
                    drawn = e.fields["comm"]
                    if drawn not in final:
                        final[drawn] = len(r.comms)
                        r.group_comms.add(len(r.comms))
                        r.comms[len(r.comms)] = list(groups[drawn])
                    e.fields["comm"] = final[drawn]


def random_recording(seed: int, *sizes: int, **options: Any) -> Recording:
    """Return the merged recording of a random program, which is determined by seed, sizes and options."""
    return RandomEpilog(seed, Contents(*sizes, **options)).recording


def with_late_events(recording: Recording, seed: int, share: float = 0.1) -> Recording:
    """Flush trace buffers before some ENTERs and EXITs, as EPIK does: ENTER and EXIT of TRACING, then the event with
    its earlier time.

    Later events of a location keep their times. In the file, among the events of other locations, the event is at the
    end of its flush, where a merge puts it; if processes have several threads, no other event lies between.
    """
    draw = random.Random(seed)
    region = max(recording.regions) + 1
    recording.regions[region] = Region("TRACING", "EPIK")
    following: dict[int, Event] = {}
    alone = len(recording.locations) == len({x.process for x in recording.locations.values()})
    placed: list[tuple[float, int, int, Event]] = []
    after = recording.events[1:] + recording.events[-1:]
    for i in range(len(recording.events) - 1, -1, -1):
        e, end = recording.events[i], following.get(recording.events[i].location)
        following[e.location] = e
        room = (end.time if alone and end else after[i].time) - e.time
        if e.name not in ("ENTER", "EXIT") or room <= 0 or draw.random() >= share:
            placed.append((e.time, i, 2, e))
            continue
        begin, stop = e.time + room * draw.uniform(0, 0.4), e.time + room * draw.uniform(0.5, 0.9)
        placed.append((begin, i, 0, Event(0, CODE["ENTER"], e.location, begin, {"region": region}, e.metrics)))
        placed.append((stop, i, 1, Event(0, CODE["EXIT"], e.location, stop, {}, e.metrics)))
        placed.append((stop, i, 2, e))
    recording.events = [replace(e, pos=n) for n, (_, _, _, e) in enumerate(sorted(placed, key=lambda x: x[:3]), 1)]
    recording.n_events = len(recording.events)
    return recording
