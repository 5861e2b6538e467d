"""Tests of patterns: describe a tiny program with its times, and state the severities expected in it.

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
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from unittest import mock

import numpy as np

from tracecols.converters.base import Batch, Clock, Report
from tracecols.converters.definition_tables import DefinitionTables
from tracecols.enhance.definitions.locations import CALLSITE
from tracecols.errors import TracecolsError
from tracecols.patterns.base import Family
from tracecols.schema import KINDS, SIDE_TABLES
from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS, NCCL, PARADIGMS, VALUE_TYPES
from tracecols.schema.severity import DEFAULT
from tracecols.severity import SeverityCube
from tracecols.work.scratch import temporary_folder

if TYPE_CHECKING:
    from tracecols.trace import Trace

WORLD = 0
"""The communicator of all processes."""

OPENMP = PARADIGMS.index("openmp")

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


_NCCL_ROLES = {
    "AllReduce": "coll_all2all", "AllGather": "coll_all2all", "ReduceScatter": "coll_all2all",
    "AlltoAll": "coll_all2all", "Broadcast": "coll_one2all", "Scatter": "coll_one2all", "Reduce": "coll_all2one",
    "Gather": "coll_all2one", "Barrier": "barrier", "Send": "point2point", "Recv": "point2point",
    "Group": "point2point",
}  # fmt: skip


def guess_region(name: str) -> tuple[str, str]:
    """Return role and paradigm of a region as Score-P would record them.

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
    if name.startswith("nccl"):
        return _NCCL_ROLES.get(name.removeprefix("nccl"), "kernel"), NCCL
    return "function", "user"


_FAMILIES = {kind: kind.family for kind in KINDS}

Events = list[tuple[int, K, int, dict[str, Mapping[str, int]]]]


def _operation(
    op: int | str, root: int | None = None, sent: int = 0, received: int = 0, communicator: int = WORLD
) -> dict[str, int]:
    """Return the recorded attributes of a collective operation."""
    number = COLLECTIVE_OPS.index(op) if isinstance(op, str) else op
    rank = -1 if root is None else root
    return {"op": number, "communicator": communicator, "root": rank, "sent": sent, "received": received}


class Recorder:
    """Methods that record the events of a location; each returns the recorder, so that calls can be chained.

    Subclasses implement `add`, which receives every event: a `Location` keeps it.

    Other Parameters
    ----------------
    time, begin, end : int
        Ticks, nondecreasing at a location.
    region : int or str
        Region by number, or by name: paradigm and role of a new one follow from its name (`guess_region`).
    to, source, root : int
        Rank of the receiver, of the sender, of the root of an operation.
    communicator : int, optional
        Number of the communicator (`Program.communicator`); by default all processes.
    tag, request : int, optional
        Number of a message; number of a request, which may be reused after its completion.
    length, sent, received : int, optional
        Bytes of a message; bytes that this process sends and receives in an operation.
    op : str
        Operation: `barrier`, `bcast`, `allreduce`, ... (`tracecols.schema.enums.COLLECTIVE_OPS`), or its number.
    model : int, optional
        Paradigm, as numbered in `tracecols.schema.enums.PARADIGMS`.
    team : int
        Number of the team, a communicator (`Program.team`); by default that of all threads of the process.
    task : tuple of int
        Thread that creates the task, and number of the task among those of the thread; 0 is its implicit task.
    sequence : int
        Number of the created thread among those of the team.
    lock, order : int
        Number of the lock in its process; number of acquisitions of the lock so far, including this one.
    """

    def add(self, time: int, kind: K, region: int | str | None = None, **sides: Mapping[str, int]) -> Self:
        """Record an event.

        Parameters
        ----------
        kind : EventKind
            Kind of the event.
        **sides : dict of str to int
            Values of columns by side table (`p2p`, `rma`, ...); those not given are null.
        """
        raise NotImplementedError

    def _team(self, team: int | None) -> int:
        """Return the number of a team; it must be given unless a subclass has a default."""
        if team is None:
            raise TracecolsError("say which team it is")
        return team

    def enter(self, time: int, region: int | str) -> Self:
        """Enter a region."""
        return self.add(time, K.ENTER, region)

    def leave(self, time: int, region: int | str | None = None) -> Self:
        """Leave the region entered last.

        Raises
        ------
        TracecolsError
            If no region is entered.
        """
        return self.add(time, K.EXIT, region)

    def call(self, begin: int, end: int, region: int | str) -> Self:
        """Enter a region and leave it."""
        return self.enter(begin, region).leave(end, region)

    def _message(self, time: int, kind: K, peer: int, communicator: int, tag: int, length: int, **request: int) -> Self:
        """Record an event of a message."""
        side = {"peer": peer, "communicator": communicator, "tag": tag, "length": length, **request}
        return self.add(time, kind, p2p=side)

    def send(self, time: int, to: int, communicator: int = WORLD, tag: int = 0, length: int = 8) -> Self:
        """Send a message to a rank."""
        return self._message(time, K.MPI_SEND, to, communicator, tag, length)

    def receive(self, time: int, source: int, communicator: int = WORLD, tag: int = 0, length: int = 8) -> Self:
        """Receive a message from a rank."""
        return self._message(time, K.MPI_RECV, source, communicator, tag, length)

    def start_send(
        self, time: int, to: int, communicator: int = WORLD, request: int = 0, tag: int = 0, length: int = 8
    ) -> Self:
        """Start a send that `complete_send` with the same request completes."""
        return self._message(time, K.MPI_ISEND, to, communicator, tag, length, request=request)

    def complete_send(self, time: int, request: int = 0) -> Self:
        """Complete a send."""
        return self.add(time, K.MPI_ISEND_COMPLETE, p2p={"request": request})

    def post_receive(self, time: int, request: int = 0) -> Self:
        """Post a receive that `complete_receive` with the same request completes."""
        return self.add(time, K.MPI_IRECV_REQUEST, p2p={"request": request})

    def complete_receive(
        self, time: int, source: int, communicator: int = WORLD, request: int = 0, tag: int = 0, length: int = 8
    ) -> Self:
        """Complete a receive that was posted."""
        return self._message(time, K.MPI_IRECV, source, communicator, tag, length, request=request)

    def begin_collective(self, time: int) -> Self:
        """Begin a collective operation."""
        return self.add(time, K.MPI_COLLECTIVE_BEGIN, collectives={})

    def end_collective(
        self,
        time: int,
        op: int | str,
        root: int | None = None,
        sent: int = 0,
        received: int = 0,
        communicator: int = WORLD,
    ) -> Self:
        """End a collective operation."""
        side = _operation(op, root, sent, received, communicator)
        return self.add(time, K.MPI_COLLECTIVE_END, collectives=side)

    def start_collective(self, time: int, request: int = 0) -> Self:
        """Start a collective operation that `complete_collective` with the same request completes."""
        return self.add(time, K.NON_BLOCKING_COLLECTIVE_REQUEST, collectives={"request": request})

    def complete_collective(self, time: int, op: int | str, request: int = 0, **given: Any) -> Self:
        """Complete a collective operation that was started.

        Parameters
        ----------
        **given
            Root, bytes sent and received, communicator, as for `end_collective`.
        """
        side = {**_operation(op, **given), "request": request}
        return self.add(time, K.NON_BLOCKING_COLLECTIVE_COMPLETE, collectives=side)

    def collective(
        self,
        begin: int,
        end: int,
        communicator: int,
        op: int | str,
        root: int | None = None,
        sent: int = 0,
        received: int = 0,
        region: int | str | None = None,
    ) -> Self:
        """Record a complete collective operation: enter the call (by default `MPI_` and the name of the operation),
        begin, end, and leave the call."""
        number = COLLECTIVE_OPS.index(op) if isinstance(op, str) else op
        if region is None:
            region = "MPI_" + COLLECTIVE_OPS[number].capitalize()
        self.enter(begin, region).begin_collective(begin)
        return self.end_collective(end, number, root, sent, received, communicator).leave(end, region)

    def fork(self, time: int, threads: int = -1, model: int = OPENMP) -> Self:
        """Fork a team; `begin_team` has to follow on each of its threads, including this one.

        Parameters
        ----------
        threads : int, optional
            Number of threads requested.
        """
        return self.add(time, K.THREAD_FORK, threads={"model": model, "requested": threads})

    def join(self, time: int, model: int = OPENMP) -> Self:
        """Join the team, after `end_team`."""
        return self.add(time, K.THREAD_JOIN, threads={"model": model})

    def begin_team(self, time: int, team: int | None = None) -> Self:
        """Begin in the team that was forked."""
        return self.add(time, K.THREAD_TEAM_BEGIN, threads={"team": self._team(team)})

    def end_team(self, time: int, team: int | None = None) -> Self:
        """End in the team."""
        return self.add(time, K.THREAD_TEAM_END, threads={"team": self._team(team)})

    def create_task(self, time: int, task: tuple[int, int], team: int | None = None) -> Self:
        """Create an explicit task."""
        return self._task(time, K.THREAD_TASK_CREATE, task, team)

    def switch_task(self, time: int, task: tuple[int, int], team: int | None = None) -> Self:
        """Switch to another task."""
        return self._task(time, K.THREAD_TASK_SWITCH, task, team)

    def complete_task(self, time: int, task: tuple[int, int], team: int | None = None) -> Self:
        """Complete a task."""
        return self._task(time, K.THREAD_TASK_COMPLETE, task, team)

    def create_thread(self, time: int, sequence: int, team: int) -> Self:
        """Create a thread of a team whose threads are created by the program."""
        return self.add(time, K.THREAD_CREATE, threads={"team": team, "sequence": sequence})

    def begin_thread(self, time: int, sequence: int, team: int) -> Self:
        """Begin as a thread that was created."""
        return self.add(time, K.THREAD_BEGIN, threads={"team": team, "sequence": sequence})

    def wait_for_thread(self, time: int, sequence: int, team: int) -> Self:
        """Wait for the end of a created thread."""
        return self.add(time, K.THREAD_WAIT, threads={"team": team, "sequence": sequence})

    def end_thread(self, time: int, sequence: int, team: int) -> Self:
        """End as a thread that was created."""
        return self.add(time, K.THREAD_END, threads={"team": team, "sequence": sequence})

    def _task(self, time: int, kind: K, task: tuple[int, int], team: int | None) -> Self:
        """Record an event of a task."""
        return self.add(time, kind, tasks={"team": self._team(team), "creator": task[0], "generation": task[1]})

    def acquire(self, time: int, lock: int, order: int, model: int = OPENMP) -> Self:
        """Acquire a lock of the process."""
        side = {"model": model, "lock": lock, "acquisition": order}
        return self.add(time, K.THREAD_ACQUIRE_LOCK, locks=side)

    def release(self, time: int, lock: int, order: int, model: int = OPENMP) -> Self:
        """Release a lock."""
        side = {"model": model, "lock": lock, "acquisition": order}
        return self.add(time, K.THREAD_RELEASE_LOCK, locks=side)


class Location(Recorder):
    """The events of one thread of a program, recorded in order.

    Parameters
    ----------
    program : Program
    process, thread : int

    Other Parameters
    ----------------
    time, begin, end, region
        As for `Recorder`.
    stream : Location
        Location returned by `Program.stream`.
    site : int, optional
        Call site number shared by launch and kernel.

    Attributes
    ----------
    events : list of tuple
        Time, kind, region (-1 none) and the values by side table.
    """

    def __init__(self, program: Program, process: int, thread: int) -> None:
        self._program, self.process, self.thread = program, process, thread
        self.events: Events = []
        self._open: list[int] = []

    def _team(self, team: int | None) -> int:
        return self._program.team(self.process) if team is None else team

    def add(self, time: int, kind: K, region: int | str | None = None, **sides: Mapping[str, int]) -> Self:
        """Record an event.

        Parameters
        ----------
        time, kind, region, **sides
            As for `Recorder.add`.

        Raises
        ------
        TracecolsError
            If the event is earlier than the one before, or leaves a region that is not the one entered last.
        """
        where = f"process {self.process} thread {self.thread}"
        if self.events and time < self.events[-1][0]:
            raise TracecolsError(
                f"{where}: {kind.name} at {time} comes after an event at {self.events[-1][0]}\n"
                "  write events down in order of time"
            )
        number = self._program.region(region) if isinstance(region, str) else -1 if region is None else region
        if kind == K.ENTER:
            self._open.append(number)
        elif kind == K.EXIT:
            if not self._open:
                raise TracecolsError(f"{where}: nothing is open at {time}")
            innermost = self._open[-1]
            if region is not None and number != innermost:
                name = self._program.definitions["regions"]["name"]
                raise TracecolsError(
                    f"{where}: {name[number]!r} is left at {time}, but {name[innermost]!r} was entered last"
                )
            number = self._open.pop()
        self.events.append((time, kind, number, sides))
        return self

    def record(self, time: int, kind: K, **sides: Mapping[str, int]) -> Self:
        """Record an event of any kind that does not enter or leave a region.

        Parameters
        ----------
        kind : EventKind
            `tracecols.schema.EventKind`.
        **sides : dict of str to int
            Values of columns by side table (`p2p`, `rma`, ...); those not given are -1. The side table of the kind
            always gets a row.

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
        return self.add(time, kind, None, **sides)

    def launch(
        self, begin: int, end: int, stream: Location, site: int | None = None, region: str = "cuLaunchKernel"
    ) -> Self:
        """Launch a kernel on a stream; the stream records it with `kernel` or `collective`."""
        return self._for_device(begin, end, region, stream, site)

    def synchronize(
        self, begin: int, end: int, stream: Location | None = None, region: str = "cuStreamSynchronize"
    ) -> Self:
        """Wait for a stream, by default for all streams of the process."""
        return self._for_device(begin, end, region if stream is not None else "cuCtxSynchronize", stream)

    def _for_device(self, begin: int, end: int, region: str, stream: Location | None, site: int | None = None) -> Self:
        """Record a call for a device; its ENTER refers to the stream."""
        sides: dict[str, Mapping[str, int]] = {}
        if stream is not None:
            row = self._program.locations.index(stream)
            given = {"attribute": self._program.stream_reference, "type": VALUE_TYPES.index("location"), "value": row}
            sides["attributes"] = given
        self.add(begin, K.ENTER, region, **sides)
        if site is not None:
            self._name_site(begin, site)
        return self.leave(end, region)

    def parameter(self, time: int, name: str, value: int | str) -> Self:
        """Set a parameter of the region entered last.

        Parameters
        ----------
        name : str
            Name of the parameter.
        value : int or str
            A whole number or a text; all values of a parameter must be of one kind.
        """
        if isinstance(value, str):
            side = {"parameter": self._program.named_parameter(name, "string"), "string": self._program.text(value)}
            return self.record(time, K.PARAMETER_STRING, parameters=side)
        side = {"parameter": self._program.named_parameter(name, "int64"), "value": value}
        return self.record(time, K.PARAMETER_INT, parameters=side)

    def _name_site(self, time: int, site: int) -> Self:
        """Record the call site of a launch or a kernel."""
        return self.record(
            time, K.PARAMETER_UNSIGNED_INT, parameters={"parameter": self._program.callsite, "value": site}
        )

    def kernel(self, begin: int, end: int, name: str = "kernel", site: int | None = None) -> Self:
        """Execute a kernel, on a stream.

        Parameters
        ----------
        name : str, optional
            Region of the kernel.
        """
        self.enter(begin, name)
        if site is not None:
            self._name_site(begin, site)
        return self.leave(end, name)


class Program:
    """A tiny program whose clock ticks once a second.

    It can be read like a trace archive (`tracecols.converters.base.Source`), and so be written as a store, which
    `trace` opens, or as an OTF2 archive by `tracecols.converters.otf2.write.write_archive`.

    Parameters
    ----------
    processes : int, optional
        Number of processes, ranks 0 to n - 1 of MPI_COMM_WORLD.
    threads : int, optional
        Number of threads of each process.

    Attributes
    ----------
    locations : list of Location
        All threads, grouped by process, followed by the streams of devices.
    masters : list of Location
        The first thread of every process.
    """

    format, path = "written by hand", Path("program")
    capabilities: frozenset[str] = frozenset()

    def __init__(self, processes: int = 1, threads: int = 1) -> None:
        self.n_threads = threads
        self.locations = [Location(self, p, t) for p in range(processes) for t in range(threads)]
        self.masters = self.locations[::threads]
        self.properties: dict[str, Any] = {"creator": "tracecols.testing"}
        self.metric_types: list[list[str]] = []
        self._definitions = DefinitionTables()
        self._tables = self._definitions.tables
        self._regions: dict[str, int] = {}
        self._teams: dict[int, int] = {}
        self.define("system_tree_nodes", name="machine", class_name="machine")
        self.define("system_tree_nodes", name="node", class_name="node", parent=0)
        for p in range(processes):
            self.define("processes", name=f"MPI Rank {p}", type="process", node=1, rank=p)
        for one in self.locations:
            place = {"process": one.process, "thread": one.thread, "first_row": 0}
            self.define("locations", name=f"thread {one.thread}", type="cpu_thread", **place)
        self.communicator("MPI_COMM_WORLD", range(processes))

    def define(self, table: str, **values: Any) -> int:
        """Add a row to a definition table; return its number.

        Parameters
        ----------
        table : str
            A table of `tracecols.schema.DEFINITIONS`.
        **values
            Values by column; numbers not given are -1, texts and lists are empty.
        """
        return self._definitions.add(table, **values)

    def region(self, name: str, paradigm: str | None = None, role: str | None = None) -> int:
        """Define a region, or find one by its name; return its number.

        Parameters
        ----------
        name : str
        paradigm, role : str, optional
            As in the table `regions`; by default derived from the name (`guess_region`).
        """
        if name not in self._regions:
            guessed = guess_region(name)
            kind = {"paradigm": paradigm or guessed[1], "role": role or guessed[0]}
            where = {"flags": 0, "begin_line": 0, "end_line": 0}
            self._regions[name] = self.define("regions", name=name, canonical_name=name, **kind, **where)
        return self._regions[name]

    def communicator(self, name: str, ranks: Sequence[int]) -> int:
        """Define a communicator of some ranks of the world; return its number.

        Parameters
        ----------
        name : str
            Name of the communicator.
        ranks : sequence of int
            Processes, in rank order.
        """
        members = [r * self.n_threads for r in ranks]
        return self.define("communicators", name=name, kind="group", paradigm="mpi", flags=0, members=members)

    def stream(self, process: int, name: str = "CUDA[0:7]") -> Location:
        """Define a stream of a device; return its location, which records the operations executed on it.

        Parameters
        ----------
        process : int
            Process that uses the device.
        name : str, optional
            Name of the stream; the part before the colon is the name of its device.
        """
        number = sum(one.process == process for one in self.locations)
        stream = Location(self, process, number)
        self.locations.append(stream)
        self.define("locations", name=name, type="gpu", process=process, thread=number, first_row=0)
        return stream

    def nccl_communicator(self, name: str, streams: Sequence[Location]) -> int:
        """Define a communicator of NCCL; return its number.

        Parameters
        ----------
        name : str
            Name of the communicator.
        streams : sequence of Location
            One stream of each rank, in rank order.
        """
        members = [self.locations.index(stream) for stream in streams]
        return self.define("communicators", name=name, kind="group", paradigm=NCCL, flags=0, members=members)

    def named_parameter(self, name: str, type: str) -> int:
        """Define a parameter of regions, or find one by its name; return its number.

        Parameters
        ----------
        name : str
        type : str
            `int64`, `uint64` or `string`.
        """
        names = self._tables["parameter_definitions"]["name"]
        return names.index(name) if name in names else self.define("parameter_definitions", name=name, type=type)

    def text(self, text: str) -> int:
        """Define a text, or find an equal one; return its number.

        Parameters
        ----------
        text : str
        """
        texts = self._tables["strings"]["string"]
        return texts.index(text) if text in texts else self.define("strings", string=text)

    def marker(self, time: int, text: str, duration: int = 0, location: Location | None = None, **more: str) -> int:
        """Mark a time interval of the recording; return the number of the marker.

        Parameters
        ----------
        time : int
            Ticks.
        text : str
            The note.
        duration : int, optional
            Ticks.
        location : Location, optional
            Location of the marker; by default the whole trace.
        **more : str
            Further columns of the table `markers`: `group`, `category`, `severity`.
        """
        number = -1 if location is None else self.locations.index(location)
        about = {"scope": "global" if location is None else "location", "scope_id": number, "location": number}
        columns = {"severity": "none", **more, "time": time, "duration": duration, "text": text}
        return self.define("markers", **about, **columns)

    @cached_property
    def stream_reference(self) -> int:
        """The attribute by which calls refer to streams."""
        return self.define("attribute_definitions", name="CUDA_STREAM_REF", type="location")

    @cached_property
    def callsite(self) -> int:
        """The parameter that a launch and its kernel have in common."""
        return self.define("parameter_definitions", name=CALLSITE, type="uint64")

    def team(self, process: int) -> int:
        """Return the number of the team of all threads of a process.

        Parameters
        ----------
        process : int
            Row of the process.
        """
        if process not in self._teams:
            first = process * self.n_threads
            members = list(range(first, first + self.n_threads))
            team = self.define("communicators", kind="group", paradigm="openmp", flags=0, members=members)
            self._teams[process] = team
        return self._teams[process]

    @property
    def clock(self) -> Clock:
        """One tick a second, from 0 to the last event."""
        return Clock(1, 0, max((one.events[-1][0] for one in self.locations if one.events), default=0))

    @property
    def definitions(self) -> dict[str, dict[str, list[Any]]]:
        """Columns of every definition table."""
        self._tables["locations"]["n_events"] = [len(one.events) for one in self.locations]
        return self._tables

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location.

        Parameters
        ----------
        location : int
            Row of the location.
        report, salvage
            As for `tracecols.converters.base.Source.read`; nothing is damaged here.
        """
        events = self.locations[location].events
        if not events:
            return
        time, kind, region, sides = zip(*events, strict=True)
        batch = Batch(
            {"time": np.array(time, np.int64), "kind": np.array(kind, np.uint8), "region": np.array(region, np.int32)}
        )
        for family in {name for side in sides for name in side}:
            rows = [i for i, side in enumerate(sides) if family in side]
            values = [{"row": i, "kind": kind[i], **sides[i][family]} for i in rows]
            batch.sides[family] = {
                c.name: np.array([v.get(c.name, -1) for v in values], c.dtype) for c in SIDE_TABLES[family].columns
            }
        yield batch

    @contextmanager
    def trace(self) -> Iterator[Trace]:
        """Open the program as a trace that exists until the context ends."""
        # imported here: programs that are only drawn do not need the modules that read and analyse traces
        from tracecols.conversion import write_store
        from tracecols.trace import Trace

        with temporary_folder() as folder:
            write_store(self, folder, jobs=1, salvage=False, progress=None)
            yield Trace(folder, jobs=1)


def severities(cube: SeverityCube, name: str) -> dict[tuple[str, int] | tuple[str, int, int], float]:
    """Return the severities of a property by call path and rank, and thread if it is not the first: seconds,
    occurrences or bytes.

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
    """Check the severities that a pattern finds in a program, and the invariants of every pattern.

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
        If the severities differ from those expected; if a child, or the sum of siblings, exceeds the parent, or a
        severity is negative; or if the result changes when the trace is divided into partitions.
    """
    families = list(patterns)

    with program.trace() as trace:
        cube = trace.analyze(conventions, patterns=families, parameters=parameters)
        with (
            mock.patch("tracecols.enhance.dataflow.partitions.PARTITION_ROWS", 1),
            mock.patch("tracecols.enhance.mpi.collectives.BUCKET_ROWS", 1),
        ):
            # an opened trace caches its model: it has to be opened again to be divided
            again = type(trace)(trace.path, jobs=1)
            parts = again.analyze(conventions, patterns=families, parameters=parameters)
    found, divided = severities(cube, name), severities(parts, name)
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
    if divided != found:
        raise AssertionError(
            f"{name} is another when processes are looked at one by one: {divided} instead of {found}\n"
            "  a pattern may use only the rows of the table it is given"
        )
