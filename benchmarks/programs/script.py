"""Describe a program: the steps of every process, and the definitions that it needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.programs import kernels as k
from tracecols.schema.enums import COLLECTIVE_OPS

ROLES = {
    **dict.fromkeys(("MPI_Send", "MPI_Ssend", "MPI_Recv", "MPI_Isend", "MPI_Irecv"), "point2point"),
    "MPI_Barrier": "barrier", "MPI_Bcast": "coll_one2all", "MPI_Reduce": "coll_all2one", "MPI_Allreduce": "coll_all2all",
    "MPI_Alltoall": "coll_all2all",
}  # fmt: skip
MODES = {"bcast": k.ONE_TO_N, "reduce": k.N_TO_ONE, "allreduce": k.N_TO_N, "alltoall": k.N_TO_N, "barrier": k.BARRIER}


@dataclass
class Region:
    """A program region."""

    name: str
    role: str
    paradigm: str
    file: str = ""
    line: int = 0


@dataclass
class Communicator:
    """A communicator: its number, name and processes in rank order."""

    number: int
    name: str
    members: list[int]
    parent: int = -1

    def __post_init__(self) -> None:
        self.rank = {p: i for i, p in enumerate(self.members)}


@dataclass
class Topology:
    """A Cartesian topology on a communicator."""

    name: str
    communicator: int
    sizes: list[int]
    periodic: list[int]
    coordinates: list[list[int]]


class Script:
    """A program: the steps of each of its `processes`; `world` is MPI_COMM_WORLD."""

    def __init__(self, name: str, n_processes: int, n_threads: int) -> None:
        self.name, self.n_processes, self.n_threads = name, n_processes, n_threads
        self.file = f"{name}.c"
        self.regions: list[Region] = []
        self._region: dict[str, int] = {}
        self.comms: list[Communicator] = []
        self.topologies: list[Topology] = []
        self.channels: dict[tuple[int, int, int, int], int] = {}
        self.requests: list[list[int]] = []
        self.n_locks = 1
        self.program = self.region(name, "artificial", "measurement_system")
        self.main = self.function("main", 1)
        self.world = self.comm("MPI_COMM_WORLD", list(range(n_processes)), -1)
        self.processes = [Process(self, p) for p in range(n_processes)]

    def region(self, name: str, role: str = "function", paradigm: str = "user", file: str = "", line: int = 0) -> int:
        """Return the number of the region of a name; define it if there is none."""
        if name not in self._region:
            self._region[name] = len(self.regions)
            self.regions.append(Region(name, role, paradigm, file, line))
        return self._region[name]

    def function(self, name: str, line: int) -> int:
        """Define a function of the program."""
        return self.region(name, "function", "compiler", self.file, line)

    def mpi(self, name: str) -> int:
        """Define a call of MPI."""
        return self.region(name, ROLES.get(name, "function"), "mpi", "MPI")

    def parallel(self, line: int) -> int:
        """Define the regions of a parallel region; those within follow the first in a fixed order."""
        names = (("parallel", 0), ("for", 2), ("implicit barrier", 4), ("implicit barrier", 9), ("critical", 6))
        found = []
        for name, below in (*names, ("critical sblock", 6)):
            role = "loop" if name == "for" else name.replace(" ", "_")
            where = self.file, line + below
            found.append(self.region(f"!$omp {name} @{self.file}:{line + below}", role, "openmp", *where))
        if found != list(range(found[0], found[0] + len(found))):
            raise ValueError(f"lines of parallel regions overlap at {line}")
        return found[0]

    def comm(self, name: str, members: list[int], parent: int = 0) -> Communicator:
        """Define a communicator of processes."""
        self.comms.append(Communicator(len(self.comms), name, members, parent))
        return self.comms[-1]

    def channel(self, source: int, destination: int, comm: Communicator, tag: int) -> int:
        """Return the number of the channel of messages from one process to another."""
        return self.channels.setdefault((source, destination, comm.number, tag), len(self.channels))

    def begin(self, *calls: str, comm: Communicator | None = None) -> None:
        """Start all processes; `calls` make communicators."""
        for p in self.processes:
            p.step(k.PROGRAM_BEGIN, self.program)
            p.step(k.ENTER, self.main)
            p.management("MPI_Init", k.INIT)
            for call in calls:
                p.management(call, k.PLAIN, comm)
            p.body = len(p.steps)

    def end(self) -> None:
        """End all processes; the steps since `begin` are repeated."""
        for p in self.processes:
            p.tail = len(p.steps)
            p.management("MPI_Finalize", k.FINALIZE)
            p.step(k.EXIT, self.main)
            p.step(k.PROGRAM_END, -1)
            if p.pending:
                raise ValueError("requests that are never completed")


class Process:
    """The steps of one process; every method appends steps."""

    def __init__(self, script: Script, number: int) -> None:
        self.script, self.number = script, number
        self.steps: list[list[int]] = []
        self.weights: list[float] = []
        self.weight = 1.0
        """Approximate number of runs of a step in a turn; more than one within a loop."""
        self.body = self.tail = self.n_requests = self.n_waits = 0
        self.pending: list[list[int]] = []

    def step(self, code: int, region: int = -1, **columns: int) -> list[int]:
        """Append a step."""
        row = [0] * k.N_COLUMNS
        row[k.CODE], row[k.REGION], row[k.ROOT] = code, region, -1
        row[k.COUNTED] = code not in (k.EXIT, k.PROGRAM_END, k.PARALLEL, k.JUMP)
        for name, value in columns.items():
            row[getattr(k, name.upper())] = value
        self.steps.append(row)
        self.weights.append(self.weight)
        return row

    def management(self, name: str, mode: int = k.PLAIN, comm: Communicator | None = None) -> None:
        """Make a call that all processes make together and that does not communicate."""
        world = self.script.world if comm is None else comm
        who = {"channel": world.number, "peer": world.rank[self.number], "target": 1}
        self.step(k.MANAGEMENT, self.script.mpi(name), mode=mode, **who)

    def compute(self, region: int, mean: int) -> None:
        """Compute for a random time, in a random call tree below a region."""
        self.step(k.COMPUTE, region, scale=mean)

    def parallel(
        self, region: int, compute: int, mean: int, *, loops: int = 1, lock: int = k.NO_LOCK, number: int = 0
    ) -> None:
        """Run a parallel region with some loops, in each a random call tree, and a locked section or none."""
        s = self.script
        set_lock = unset_lock = -1
        if lock == k.LOCK_API:
            set_lock, unset_lock = (s.region(f"omp_{x}_lock", "wrapper", "openmp", "OMP") for x in ("set", "unset"))
        s.n_locks = max(s.n_locks, number + 1)
        calls = {"tag": set_lock, "peer": unset_lock, "comm": self.number}
        self.step(k.PARALLEL, region, op=compute, scale=mean, count=loops, mode=lock, channel=number, **calls)

    def work(self, name: str, line: int, mean: int) -> None:
        """Compute, with all threads if there are several."""
        compute = self.script.function(name, line)
        if self.script.n_threads > 1:
            self.parallel(self.script.parallel(line + 10), compute, mean)
        else:
            self.compute(compute, mean)

    def _message(self, to: int, comm: Communicator, tag: int, length: int, sends: bool) -> dict[str, int]:
        source, destination = (self.number, to) if sends else (to, self.number)
        channel = self.script.channel(source, destination, comm, tag)
        return {"channel": channel, "peer": comm.rank[to], "comm": comm.number, "tag": tag, "length": length}

    def send(
        self, to: int, comm: Communicator, tag: int, length: int, mode: int = k.EAGER, call: str = "MPI_Send"
    ) -> None:
        """Send a message; with RENDEZVOUS wait for its receive."""
        self.step(k.SEND, self.script.mpi(call), mode=mode, **self._message(to, comm, tag, length, True))

    def recv(self, source: int, comm: Communicator, tag: int, length: int) -> None:
        """Receive a message."""
        self.step(k.RECV, self.script.mpi("MPI_Recv"), **self._message(source, comm, tag, length, False))

    def _start(self, code: int, call: str, mode: int, message: dict[str, int]) -> None:
        row = self.step(code, self.script.mpi(call), mode=mode, request=self.n_requests, **message)
        same = sum(r[k.R_CHANNEL] == row[k.CHANNEL] for r in self.pending)
        columns = (k.PEER, k.COMM, k.TAG, k.LENGTH, k.REQUEST)
        self.pending.append([row[k.CHANNEL], int(code == k.ISEND), same, *(row[c] for c in columns)])
        self.n_requests += 1

    def isend(self, to: int, comm: Communicator, tag: int, length: int, mode: int = k.EAGER) -> None:
        """Start sending a message."""
        self._start(k.ISEND, "MPI_Isend", mode, self._message(to, comm, tag, length, True))

    def irecv(self, source: int, comm: Communicator, tag: int, length: int) -> None:
        """Post a receive."""
        self._start(k.IRECV, "MPI_Irecv", 0, self._message(source, comm, tag, length, False))

    def _wait(self, call: str, requests: list[list[int]]) -> None:
        s = self.script
        self.step(k.WAIT, s.mpi(call), first=len(s.requests), count=len(requests))
        s.requests += requests
        self.n_waits += 1
        if self.n_waits > k.N_RECORDS // 2:
            raise ValueError("too many waits in a turn")

    def waitall(self) -> None:
        """Complete all that is pending in one call."""
        if self.pending:
            self._wait("MPI_Waitall", self.pending)
            self.pending = []

    def wait_each(self) -> None:
        """Complete all that is pending one after the other."""
        for request in self.pending:
            request[k.R_ORDINAL] = 0
            self._wait("MPI_Wait", [request])
        self.pending = []

    def collective(
        self, op: str, comm: Communicator, n_bytes: int = 0, root: int = -1, separates: bool = False
    ) -> None:
        """Take part in a collective operation, with `n_bytes` from or to each process.

        It `separates` if all messages received before it were sent before any that is sent later, as operations of all
        processes without a root do.
        """
        rank, mode, of_all = comm.rank[self.number], MODES[op], n_bytes * len(comm.members)
        separates |= root < 0 and len(comm.members) == self.script.n_processes
        sent = of_all * (rank == root) if mode == k.ONE_TO_N else n_bytes if mode == k.N_TO_ONE else of_all
        received = of_all * (rank == root) if mode == k.N_TO_ONE else n_bytes if mode == k.ONE_TO_N else of_all
        who = {"channel": comm.number, "comm": comm.number, "peer": rank, "root": root, "target": int(separates)}
        what = {"mode": mode, "op": COLLECTIVE_OPS.index(op), "length": sent, "received": received}
        self.step(k.COLLECTIVE, self.script.mpi(f"MPI_{op.capitalize()}"), **who, **what)

    def peers(self, members: list[int], comm: Communicator, tag: int, *, are_sources: bool) -> int:
        """List processes whose messages are received in order of arrival, or that are answered; return the position of
        the first in the list of requests."""
        first = len(self.script.requests)
        for other in members:
            channel = self._message(other, comm, tag, 0, not are_sources)["channel"]
            self.script.requests.append([channel, int(not are_sources), 0, comm.rank[other], comm.number, tag, 0, 0])
        return first


def grid(n: int, dimensions: int) -> list[int]:
    """Divide processes into a grid as MPI_Dims_create does: as equal as possible, the largest first."""
    if dimensions == 1:
        return [n]
    # the largest divisor for which the other dimensions are not smaller
    best = next(d for d in range(round(n ** (1 / dimensions)) + 1, 0, -1) if n % d == 0 and d**dimensions <= n)
    return [*grid(n // best, dimensions - 1), best]


def coordinates_of(rank: int, sizes: list[int]) -> list[int]:
    """Return the place of a rank in a grid, the last coordinate running fastest."""
    return [int(x) for x in np.unravel_index(rank, sizes)]


def rank_at(place: list[int], sizes: list[int], periodic: bool) -> int:
    """Return the rank at a place, -1 if there is none."""
    inside = periodic or all(0 <= x < size for x, size in zip(place, sizes, strict=True))
    return int(np.ravel_multi_index(place, sizes, "wrap")) if inside else -1
