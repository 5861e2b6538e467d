"""Try a pattern: write down a tiny program with its times, and state what is to be found.

Examples
--------
>>> from tracecols.testing import Program, assert_severities
>>> program = Program(processes=2)
>>> sender, receiver = program.masters
>>> _ = sender.enter(0, "main").enter(20, "MPI_Send").send(21, to=1).leave(25).leave(30)
>>> _ = receiver.enter(0, "main").enter(5, "MPI_Recv").receive(24, source=0).leave(26).leave(30)
>>> assert_severities(program, "mpi_latesender", {("main/MPI_Recv", 1): 15})
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tracecols.conversion import write_store
from tracecols.converters.base import Batch, Clock, Report
from tracecols.errors import TracecolsError
from tracecols.patterns.base import Family
from tracecols.schema import DEFINITIONS, KINDS, SIDE_TABLES
from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS, PARADIGMS
from tracecols.schema.severity import DEFAULT
from tracecols.severity import SeverityCube
from tracecols.trace import Trace
from tracecols.work.scratch import temporary_folder

WORLD = 0
"""The communicator of all processes."""

_MPI_ROLES = (
    ("barrier", "MPI_Barrier MPI_Ibarrier"),
    ("coll_one2all", "MPI_Bcast MPI_Scatter MPI_Scatterv MPI_Ibcast MPI_Iscatter"),
    ("coll_all2one", "MPI_Reduce MPI_Gather MPI_Gatherv MPI_Ireduce MPI_Igather"),
    (
        "coll_all2all",
        "MPI_Allreduce MPI_Allgather MPI_Allgatherv MPI_Alltoall MPI_Alltoallv MPI_Alltoallw MPI_Reduce_scatter "
        "MPI_Reduce_scatter_block MPI_Iallreduce MPI_Iallgather MPI_Ialltoall",
    ),
    ("coll_other", "MPI_Scan MPI_Exscan MPI_Iscan MPI_Iexscan"),
    (
        "point2point",
        "MPI_Send MPI_Ssend MPI_Rsend MPI_Bsend MPI_Isend MPI_Issend MPI_Irsend MPI_Ibsend MPI_Recv MPI_Irecv "
        "MPI_Sendrecv MPI_Sendrecv_replace MPI_Probe MPI_Iprobe MPI_Mprobe MPI_Improbe MPI_Mrecv MPI_Imrecv",
    ),
    ("rma", "MPI_Put MPI_Get"),
    ("atomic", "MPI_Accumulate"),
)
_ROLES = {name: role for role, names in _MPI_ROLES for name in names.split()}

_OMP_ROLES = (
    ("parallel", "parallel"), ("implicit barrier", "implicit_barrier"), ("barrier", "barrier"), ("for", "loop"),
    ("do", "loop"), ("critical sblock", "critical_sblock"), ("critical", "critical"), ("master", "master"),
    ("single sblock", "single_sblock"), ("single", "single"), ("sections", "sections"), ("section", "section"),
    ("workshare", "workshare"), ("atomic", "atomic"), ("flush", "flush"), ("ordered sblock", "ordered_sblock"),
    ("ordered", "ordered"), ("create task", "task_create"), ("task", "task"), ("taskwait", "task_wait"),
)  # fmt: skip


def guess_region(name: str) -> tuple[str, str]:
    """Return role and paradigm of a region as a recording by Score-P would state them.

    Parameters
    ----------
    name : str
        Name of a region.
    """
    if name.startswith("MPI_"):
        return _ROLES.get(name, "function"), "mpi"
    if name.startswith("!$omp "):
        words = name.removeprefix("!$omp ").split(" @")[0]
        for begin, role in _OMP_ROLES:
            if words == begin:
                return role, "openmp"
        return "unknown", "openmp"
    if name.startswith("omp_"):
        return "wrapper", "openmp"
    return "function", "user"


_FAMILIES = {kind.number: kind.family for kind in KINDS}

Events = list[tuple[int, K, int, dict[str, dict[str, int]]]]


class Location:
    """The events of one thread, written down in order; every method returns the location, so that calls can be chained.

    Parameters
    ----------
    program : Program
    process, thread : int
    """

    def __init__(self, program: Program, process: int, thread: int) -> None:
        self._program, self.process, self.thread = program, process, thread
        self.events: Events = []
        self._open: list[int] = []

    def _add(self, time: int, kind: K, region: int = -1, **sides: dict[str, int]) -> Location:
        if self.events and time < self.events[-1][0]:
            raise TracecolsError(
                f"process {self.process} thread {self.thread}: {kind.name} at {time} comes after an event at {self.events[-1][0]}\n"
                "  write events down in order of time"
            )
        self.events.append((time, kind, region, sides))
        return self

    def record(self, time: int, kind: K, **sides: dict[str, int]) -> Location:
        """Write down an event of any kind that does not enter or leave a region.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        kind : EventKind
            `tracecols.schema.EventKind`.
        **sides : dict of str to int
            By side table (`p2p`, `rma`, ...) the values of its columns; those that are not given are -1. The side table
            of the kind is written in any case.

        Examples
        --------
        >>> from tracecols.schema import EventKind
        >>> put = {"window": 0, "remote": 1, "sent": 8, "matching": 1}
        >>> program = Program(processes=2)
        >>> _ = program.masters[0].enter(0, "MPI_Put").record(0, EventKind.RMA_PUT, rma=put).leave(1)
        """
        family = _FAMILIES[kind]
        if family:
            sides.setdefault(family, {})
        return self._add(time, kind, -1, **sides)

    def enter(self, time: int, region: str) -> Location:
        """Enter a region; what it is follows from its name (`guess_region`).

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        region : str
            Name of the region.
        """
        self._open.append(self._program.region(region))
        return self._add(time, K.ENTER, self._open[-1])

    def leave(self, time: int) -> Location:
        """Leave the region entered last.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.

        Raises
        ------
        TracecolsError
            If no region is entered.
        """
        if not self._open:
            raise TracecolsError(f"process {self.process} thread {self.thread}: nothing is open at {time}")
        return self._add(time, K.EXIT, self._open.pop())

    def _p2p(self, time: int, kind: K, peer: int, tag: int, length: int, communicator: int, request: int) -> Location:
        side = {"peer": peer, "communicator": communicator, "tag": tag, "length": length, "request": request}
        return self._add(time, kind, p2p=side)

    def send(self, time: int, to: int, tag: int = 0, length: int = 8, communicator: int = WORLD) -> Location:
        """Send a message to a rank.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        to : int
            Rank of the receiver.
        tag : int, optional
            Message tag.
        length : int, optional
            Bytes.
        communicator : int, optional
            Number of the communicator (`Program.communicator`); by default all processes.
        """
        return self._p2p(time, K.MPI_SEND, to, tag, length, communicator, -1)

    def receive(self, time: int, source: int, tag: int = 0, length: int = 8, communicator: int = WORLD) -> Location:
        """Receive a message from a rank.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        source : int
            Rank of the sender.
        tag : int, optional
            Message tag.
        length : int, optional
            Bytes.
        communicator : int, optional
            Number of the communicator (`Program.communicator`); by default all processes.
        """
        return self._p2p(time, K.MPI_RECV, source, tag, length, communicator, -1)

    def start_send(
        self, time: int, to: int, request: int, tag: int = 0, length: int = 8, communicator: int = WORLD
    ) -> Location:
        """Start a send that `complete_send` with the same request completes.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        to : int
            Rank of the receiver.
        request : int
            Request; may be used again when it is complete.
        tag : int, optional
            Message tag.
        length : int, optional
            Bytes.
        communicator : int, optional
            Number of the communicator (`Program.communicator`); by default all processes.
        """
        return self._p2p(time, K.MPI_ISEND, to, tag, length, communicator, request)

    def complete_send(self, time: int, request: int) -> Location:
        """Complete a send.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        request : int
            Request; may be used again when it is complete.
        """
        return self._add(time, K.MPI_ISEND_COMPLETE, p2p={"request": request})

    def post_receive(self, time: int, request: int) -> Location:
        """Post a receive that `complete_receive` with the same request completes.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        request : int
            Request; may be used again when it is complete.
        """
        return self._add(time, K.MPI_IRECV_REQUEST, p2p={"request": request})

    def complete_receive(
        self, time: int, source: int, request: int, tag: int = 0, length: int = 8, communicator: int = WORLD
    ) -> Location:
        """Complete a receive that was posted.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        source : int
            Rank of the sender.
        request : int
            Request; may be used again when it is complete.
        tag : int, optional
            Message tag.
        length : int, optional
            Bytes.
        communicator : int, optional
            Number of the communicator (`Program.communicator`); by default all processes.
        """
        return self._p2p(time, K.MPI_IRECV, source, tag, length, communicator, request)

    def begin_collective(self, time: int) -> Location:
        """Begin a collective operation.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        """
        return self._add(time, K.MPI_COLLECTIVE_BEGIN, collectives={})

    def end_collective(
        self, time: int, op: str, root: int = -1, sent: int = 0, received: int = 0, communicator: int = WORLD
    ) -> Location:
        """End a collective operation: `barrier`, `bcast`, `allreduce`, ...; with the bytes this process sent and
        received.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        op : str
            Operation, `CollectiveOp`.
        root : int, optional
            Rank of the root; -1 none.
        sent, received : int, optional
            Bytes.
        communicator : int, optional
            Number of the communicator (`Program.communicator`); by default all processes.
        """
        side = {
            "op": COLLECTIVE_OPS.index(op),
            "root": root,
            "sent": sent,
            "received": received,
            "communicator": communicator,
        }
        return self._add(time, K.MPI_COLLECTIVE_END, collectives=side)

    def _thread(self, time: int, kind: K) -> Location:
        side = {"team": self._program.team(self.process), "model": PARADIGMS.index("openmp")}
        return self._add(time, kind, threads=side)

    def fork(self, time: int) -> Location:
        """Fork the team of all threads of the process; `begin_team` follows on each of them, here as well.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        """
        return self._thread(time, K.THREAD_FORK)

    def join(self, time: int) -> Location:
        """Join the team, after `end_team`.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        """
        return self._thread(time, K.THREAD_JOIN)

    def begin_team(self, time: int) -> Location:
        """Begin in the team that was forked.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        """
        return self._thread(time, K.THREAD_TEAM_BEGIN)

    def end_team(self, time: int) -> Location:
        """End in the team.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        """
        return self._thread(time, K.THREAD_TEAM_END)

    def acquire(self, time: int, lock: int, order: int) -> Location:
        """Acquire a lock of the process, as the `order`-th to do so, counting from 1.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        lock : int
            Number of the lock in its process.
        order : int
            How many times the lock was acquired, this one included.
        """
        return self._add(time, K.THREAD_ACQUIRE_LOCK, locks={"lock": lock, "acquisition": order, "model": 3})

    def release(self, time: int, lock: int, order: int) -> Location:
        """Release a lock that was acquired as the `order`-th.

        Parameters
        ----------
        time : int
            Ticks, nondecreasing at a location.
        lock : int
            Number of the lock in its process.
        order : int
            The order of the acquisition that ends.
        """
        return self._add(time, K.THREAD_RELEASE_LOCK, locks={"lock": lock, "acquisition": order, "model": 3})


@dataclass
class _Written:
    """A program as it is read (see `tracecols.converters.base.Source`)."""

    clock: Clock
    definitions: dict[str, dict[str, list[Any]]]
    locations: list[Location]
    format: str = "written by hand"
    path: Path = Path("program")
    properties: dict[str, Any] = field(default_factory=lambda: {"creator": "tracecols.testing"})
    capabilities: frozenset[str] = frozenset()
    metric_types: list[list[str]] = field(default_factory=list)

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location."""
        events = self.locations[location].events
        if not events:
            return
        time, kind, region, sides = zip(*events, strict=True)
        batch = Batch(
            {"time": np.array(time, np.int64), "kind": np.array(kind, np.uint8), "region": np.array(region, np.int32)}
        )
        for family in {name for side in sides for name in side}:
            rows = [i for i, side in enumerate(sides) if family in side]
            batch.sides[family] = {
                c.name: np.array(
                    [
                        i if c.name == "row" else kind[i] if c.name == "kind" else sides[i][family].get(c.name, -1)
                        for i in rows
                    ],
                    c.dtype,
                )
                for c in SIDE_TABLES[family].columns
            }
        yield batch


class Program:
    """A tiny program whose clock ticks once a second.

    Parameters
    ----------
    processes : int, optional
        Processes, ranks 0 to n - 1 of MPI_COMM_WORLD.
    threads : int, optional
        Threads of each process.

    Attributes
    ----------
    locations : list of Location
        All threads, those of a process one after the other.
    masters : list of Location
        The first thread of every process.
    """

    def __init__(self, processes: int = 1, threads: int = 1) -> None:
        self.n_threads = threads
        self.locations = [Location(self, p, t) for p in range(processes) for t in range(threads)]
        self.masters = self.locations[::threads]
        self._regions: dict[str, tuple[str, str]] = {}
        self._communicators: list[tuple[str, str, list[int]]] = [
            ("MPI_COMM_WORLD", "mpi", [p * threads for p in range(processes)])
        ]
        self._teams: dict[int, int] = {}

    def region(self, name: str, paradigm: str | None = None, role: str | None = None) -> int:
        """Define a region, or find one by its name; return its number.

        Parameters
        ----------
        name : str
        paradigm, role : str, optional
            As in the table `regions`; by default what the name says (`guess_region`).
        """
        if name not in self._regions:
            guessed = guess_region(name)
            self._regions[name] = paradigm or guessed[1], role or guessed[0]
        return list(self._regions).index(name)

    def communicator(self, name: str, ranks: Sequence[int]) -> int:
        """Define a communicator of some ranks of the world; return its number.

        Parameters
        ----------
        name : str
            Name of the communicator.
        ranks : sequence of int
            Processes, in rank order.
        """
        self._communicators.append((name, "mpi", [r * self.n_threads for r in ranks]))
        return len(self._communicators) - 1

    def team(self, process: int) -> int:
        """Return the number of a process's team of all its threads.

        Parameters
        ----------
        process : int
            Row of the process.
        """
        if process not in self._teams:
            first = process * self.n_threads
            self._communicators.append(("", "openmp", list(range(first, first + self.n_threads))))
            self._teams[process] = len(self._communicators) - 1
        return self._teams[process]

    @property
    def clock(self) -> Clock:
        """One tick a second, from 0 to the last event."""
        return Clock(1, 0, max((one.events[-1][0] for one in self.locations if one.events), default=0))

    @property
    def definitions(self) -> dict[str, dict[str, list[Any]]]:
        """Columns of every definition table."""
        tables: dict[str, dict[str, list[Any]]] = {name: {c: [] for c in t.names} for name, t in DEFINITIONS.items()}

        def add(table: str, **values: Any) -> None:
            rows = tables[table]
            for column in DEFINITIONS[table].columns:
                nothing: Any = "" if column.dtype == "string" else [] if column.dtype.startswith("list") else -1
                rows[column.name].append(values.get(column.name, len(rows["id"]) if column.name == "id" else nothing))

        for name, (paradigm, role) in self._regions.items():
            add(
                "regions",
                name=name,
                canonical_name=name,
                paradigm=paradigm,
                role=role,
                flags=0,
                begin_line=0,
                end_line=0,
            )
        add("system_tree_nodes", name="machine", class_name="machine")
        add("system_tree_nodes", name="node", class_name="node", parent=0)
        for p in range(len(self.masters)):
            add("processes", name=f"MPI Rank {p}", type="process", node=1, rank=p)
        for one in self.locations:
            add(
                "locations",
                name=f"thread {one.thread}",
                type="cpu_thread",
                process=one.process,
                thread=one.thread,
                first_row=0,
                n_events=len(one.events),
            )
        for name, paradigm, members in self._communicators:
            add("communicators", name=name, kind="group", paradigm=paradigm, flags=0, members=members)
        return tables

    @contextmanager
    def trace(self) -> Iterator[Trace]:
        """Open the program as a trace that exists until the context ends."""
        with temporary_folder() as folder:
            source = _Written(self.clock, self.definitions, self.locations)
            write_store(source, folder, jobs=1, salvage=False, progress=None)
            yield Trace(folder, jobs=1)


def severities(cube: SeverityCube, name: str) -> dict[tuple[str, int] | tuple[str, int, int], float]:
    """Return what a property holds by call path and rank, and thread if it is not the first: seconds, occurrences or
    bytes.

    Parameters
    ----------
    cube : SeverityCube
        A cube.
    name : str
        Id or title of a property.
    """
    found: dict[tuple[str, int] | tuple[str, int, int], float] = {}
    frame = cube.frame(name)
    for path, rank, thread, value in zip(*(frame[c] for c in ("call_path", "rank", "thread", "value")), strict=True):
        key = (str(path), int(rank), int(thread)) if thread else (str(path), int(rank))
        found[key] = found.get(key, 0.0) + float(value)
    return found


def assert_severities(
    program: Program,
    name: str,
    expected: Mapping[tuple[str, int] | tuple[str, int, int], float],
    *,
    patterns: Iterable[Family | str | Path] = (),
    conventions: str = DEFAULT,
    parameters: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Check what a pattern finds in a program, and what must hold of every pattern.

    Parameters
    ----------
    program : Program
    name : str
        A property.
    expected : mapping
        Severities by call path ("main/MPI_Recv") and rank, and thread if it is not the first.
    patterns, conventions, parameters
        As for `Trace.analyze`.

    Raises
    ------
    AssertionError
        If the severities are others; if a child exceeds its parent, siblings together do, or a severity is negative; or
        if the result is another when the trace is divided into parts.
    """
    families = list(patterns)

    def analyze() -> SeverityCube:
        with program.trace() as trace:
            return trace.analyze(conventions, patterns=families, parameters=parameters)

    cube = analyze()
    found = severities(cube, name)
    lines = [
        f"{' '.join(map(str, key))}: {found.get(key, 0):g}, expected {expected.get(key, 0):g}"
        for key in sorted({*found, *expected})
        if found.get(key, 0) != expected.get(key, 0)
    ]
    if lines:
        raise AssertionError(f"{name} differs\n  " + "\n  ".join(lines))
    violations = cube.violations()
    if violations:
        raise AssertionError("properties contradict each other\n  " + "\n  ".join(violations))
    with (
        mock.patch("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1),
        mock.patch("tracecols.enhance.mpi.collectives.BUCKET_ROWS", 1),
    ):
        divided = severities(analyze(), name)
    if divided != found:
        raise AssertionError(
            f"{name} is another when processes are looked at one by one: {divided} instead of {found}\n"
            "  a pattern may use only the rows of the table it is given"
        )
