"""The definition tables of a Paraver trace, made from its header, `.pcf` and `.row`, and regions that events name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.definition_tables import DefinitionTables, rows_by_number
from tracecols.converters.paraver import decode, types
from tracecols.converters.paraver.files import Header, Names
from tracecols.converters.paraver.index import slots_of
from tracecols.converters.region_names import collective_of, find_role
from tracecols.schema.enums import plain_name

_STARTS = re.compile(r"mpi_(i[bsr]?send|isendrecv(_replace)?|start(all)?)")
_COMPLETES = re.compile(r"mpi_(wait|test)(all|any|some)?")
"""MPI calls that start sends which other calls complete, and those that complete what other calls have started."""

_SENDS = re.compile(r"mpi_(i?[bsr]?send|i?sendrecv(_replace)?|start(?P<many>all)?)")
_POSTS = re.compile(r"mpi_(im?recv|isendrecv(_replace)?|start(?P<many>all)?)")
_RECEIVES = re.compile(r"mpi_(m?recv|sendrecv(_replace)?|(wait|test)(any|(?P<many>all|some))?)")
"""MPI calls that send a message, post a receive, and receive a message, or many if `many` is found."""

_COPY = re.compile(r"[Mm]emcpy|(Read|Write|Copy)Buffer")
"""Calls that copy, and what they cause on streams."""

_MESSAGE = re.compile("send|recv", re.IGNORECASE)
_LINE = re.compile(r"(\d+) \(([^,)]*)[,)].*")
_MANGLED = re.compile(r"(.*\S)\s*\[(\S+)\]")
_COUNTER = re.compile(r"(\S+)\s*(?:\[(.*)\])?.*")

MASK = (1 << 64) - 1

MOST_COMMUNICATORS = 1 << 20
"""Exclusive upper bound for identifiers of communicators; operations on others are counted."""

FLUSH, PROGRAM = "TRACE BUFFER FLUSH", "program"


class Regions:
    """The regions of a trace and what names them; `rows` are name, role, paradigm, file and line of each."""

    def __init__(self, names: Names, named: Iterable[tuple[int, int]], numbers: Iterable[int]) -> None:
        self._names = names
        self.rows: dict[tuple[str, str, str, str, int], int] = {}
        self._pairs: list[tuple[int, int, int]] = []
        self.n_unnamed = 0
        """Number of MPI calls that `.pcf` does not name."""
        self.program = self._row(PROGRAM, "function", "user")
        known = {found.action for n in numbers if (found := self._types_of(n)) is not None}
        self.flush = self._row(FLUSH, "artificial", "measurement_system") if types.FLUSH in known else -1
        in_openmp = types.FUNCTION in known, types.CRITICAL in known
        self.barrier = self._row("!$omp implicit barrier", "implicit_barrier", "openmp") if in_openmp[0] else -1
        self.critical = self._row("!$omp critical", "critical", "openmp") if in_openmp[1] else -1
        self.critical_end = self._row("!$omp end critical", "critical", "openmp") if in_openmp[1] else -1
        self.outside = -1
        for number, value in named:
            self._add(number, value)

    def _types_of(self, number: int) -> types.Types | None:
        return types.types_of(number, self._names.labels.get(number, ""))

    def _row(self, name: str, role: str, paradigm: str, file: str = "", line: int = 0) -> int:
        return self.rows.setdefault((name, role, paradigm, file, line), len(self.rows))

    @property
    def has_messages(self) -> bool:
        """Whether there are calls of MPI that send or receive messages."""
        return any(role == "point2point" and _MESSAGE.search(name) for name, role, *_ in self.rows)

    def fixed(self, number: int) -> int:
        """Return the region that a type enters whatever its value; -1 if it depends on the value."""
        found = self._types_of(number)
        if found is None or not found.name or found.action not in (types.REGION, types.SWITCH):
            return -1
        return self._row(found.name, found.role, found.paradigm)

    def _add(self, number: int, value: int) -> None:
        """Add the region that a value of a type names."""
        found = self._types_of(number)
        if not value or found is None or found.action not in types.WITH_REGIONS or found.name:
            return
        label = self._names.values.get(number, {}).get(value & MASK, "")
        label = types.MISLABELLED.get((number, value, label), label)
        if found.action == types.CALLER and label in types.NO_FUNCTION:
            self._pairs.append((number, value, -1))
            return
        if found.action == types.MODE:
            if value == types.BURSTS:
                self.outside = self._row(types.OUTSIDE, found.role, found.paradigm)
            return
        role, paradigm = found.role, found.paradigm
        if found.action == types.CALL:
            by_name, _ = find_role(label) or (role, "")
            role = role if by_name == "function" else by_name
            self.n_unnamed += not label
        line = _LINE.fullmatch(self._names.values.get(types.LINES.get(number, -1), {}).get(value & MASK, ""))
        where = (line[2], int(line[1])) if line else ("", 0)
        name = label or f"{number}:{value & MASK}"
        if paradigm in ("cuda", "hip", "opencl") and _COPY.search(label):
            role = "data_transfer"
        elif number == types.TASKGROUP:
            name, role = types.TASKGROUP_CALLS.get(value, (name, role))
        elif paradigm == "openmp":
            name, role = types.SYNCHRONISATION.get(label, (name, role))
        self._pairs.append((number, value, self._row(name, role, paradigm, *where)))

    def for_kernels(self) -> decode.Regions:
        """Return the regions in the form that the decoder uses."""
        numbers, values, regions = (
            np.array(v, np.int64) for v in (zip(*self._pairs, strict=True) if self._pairs else [[]] * 3)
        )
        lower = [plain_name(name) if of == "mpi" else "" for name, _, of, *_ in self.rows]
        ops = [-1 if name.startswith("mpi_i") else collective_of(name) for name in lower]
        return decode.Regions(
            slots_of([value * 64 + number & MASK for number, value, _ in self._pairs]),
            numbers,
            values,
            regions.astype(np.int32),
            np.array([*ops, -1], np.int64),
            np.array([*(_STARTS.fullmatch(name) is not None for name in lower), False], np.uint8),
            np.array([*(_COMPLETES.fullmatch(name) is not None for name in lower), False], np.uint8),
            _numbers_of(_SENDS, lower, decode.NOTHING),
            _numbers_of(_POSTS, lower, 0),
            _numbers_of(_RECEIVES, lower, decode.NOTHING),
            self.program,
            self.barrier,
            self.critical,
            self.critical_end,
            self.flush,
            self.outside,
        )


def _numbers_of(calls: re.Pattern[str], lower: list[str], of_unknown: int) -> NDArray[np.int64]:
    """Return the maximum number of messages that each region sends, posts or receives, by its name in lower case; that
    of calls without a name is `of_unknown`."""
    found = [calls.fullmatch(name) for name in lower]
    known = [0 if f is None else decode.NOTHING if f["many"] else 1 for f in found]
    return np.array([*(of_unknown if not n.startswith("mpi_") else k for n, k in zip(lower, known, strict=True)), 0])


def is_stream(name: str) -> bool:
    """Return whether a thread is a stream of a device, by its name."""
    return name.startswith(types.DEVICE_STREAMS)


def names_of_threads(header: Header, names: Names) -> list[str]:
    """Return the names of all threads: those of `.row` if it names all of them."""
    given = names.rows.get("THREAD", [])
    if len(given) == sum(n for n, _ in header.threads):
        return given
    return [f"THREAD 1.{task + 1}.{k + 1}" for task, (n, _) in enumerate(header.threads) for k in range(n)]


class Definitions(DefinitionTables):
    """The definition tables.

    Attributes
    ----------
    tables : dict of str to dict of str to list
    metric_types : list of list of str
    regions : Regions
    communicator_rows : dict of int to int
        Row of each communicator by its identifier.
    first : list of int
        Location of the first thread of every task.
    is_device : list of bool
        By location, whether it is a stream of a device.
    n_names : int
        Number of threads that `.row` names.
    """

    def __init__(
        self,
        header: Header,
        names: Names,
        named: Iterable[tuple[int, int]],
        counters: list[int],
        numbers: list[int],
        with_mpi: bool,
    ) -> None:
        super().__init__()
        self.regions = Regions(names, named, numbers)
        for number in numbers:
            self.regions.fixed(number)
        self._machine(header, names)
        self._locations(header, names)
        self._communicators(header, with_mpi)
        self._metrics(names, counters)

    def _machine(self, header: Header, names: Names) -> None:
        self.add("system_tree_nodes", name="machine", class_name="machine")
        nodes = names.rows.get("NODE", [])
        for k, n in enumerate(header.cpus):
            row = self.add(
                "system_tree_nodes", name=nodes[k] if k < len(nodes) else f"node {k + 1}", class_name="node", parent=0
            )
            self.add("properties", table="system_tree_nodes", of=row, name="cpus", value=str(n))

    def _locations(self, header: Header, names: Names) -> None:
        given = names_of_threads(header, names)
        self.n_names = len(names.rows.get("THREAD", []))
        self.first: list[int] = []
        self.is_device: list[bool] = []
        for task, (n, node) in enumerate(header.threads):
            self.add_process(f"MPI Rank {task}", node + 1 if header.cpus else 0, task)
            self.first.append(len(self.is_device))
            for thread in range(n):
                name = given[len(self.is_device)]
                self.is_device.append(is_stream(name))
                self.add_location(name, task, thread, is_device=self.is_device[-1])

    def _communicators(self, header: Header, with_mpi: bool) -> None:
        """Define the world first, then the other communicators."""
        world = list(range(len(header.threads)))
        found = next((k for k, members in header.communicators.items() if members == world), None)
        self.communicator_rows: dict[int, int] = {}
        if found is None and not with_mpi:
            return
        self.add("groups", type="comm_locations", paradigm="mpi", flags=0, members=list(self.first))
        if found is None:
            self.add_communicator("MPI_COMM_WORLD", "mpi", self.first)
        order = sorted(header.communicators, key=lambda k: k != found)
        for identifier in order:
            members = header.communicators[identifier]
            name = "MPI_COMM_WORLD" if identifier == found else ""
            self.communicator_rows[identifier] = self.add_communicator(name, "mpi", [self.first[m] for m in members])

    def _metrics(self, names: Names, counters: list[int]) -> None:
        self.metric_types = [["uint64"] * len(counters)] if counters else []
        if not counters:
            return
        for number in counters:
            found = _COUNTER.fullmatch(names.labels.get(number, str(number)))
            name, about = (found[1], found[2] or "") if found else (str(number), "")
            self.add_counter(name, about, "relative_last", "uint64", number)
        self.add_class_of_counters()

    def finish(self) -> None:
        """Fill the table of regions, which grow while the trace is read."""
        for label, role, paradigm, file, line in self.regions.rows:
            # name [mangled name]
            found = _MANGLED.fullmatch(label)
            name, canonical = (found[1], found[2]) if found else (label, label)
            self.add_region(name, role, paradigm, canonical, line, file=file)


def tables_for_kernels(
    numbers: list[int],
    counters: list[int],
    regions: Regions,
    communicators: Mapping[int, int],
    header: Header,
    names: Names,
) -> decode.Tables:
    """Return the decoder's tables of types, by index in `numbers`."""
    place = {number: k for k, number in enumerate(counters)}
    found = [types.types_of(n, names.labels.get(n, "")) for n in numbers]
    small = {identifier: row for identifier, row in communicators.items() if 0 <= identifier < MOST_COMMUNICATORS}
    status = names.values.get(types.LOCK_STATUS, {})
    obtaining = next((v for v, label in status.items() if label == types.OBTAINING), types.OBTAINING_VALUE)
    is_user = [t is not None and t.action == types.REGION and t.paradigm == "user" for t in found]
    return decode.Tables(
        np.array([place.get(n, -1) for n in numbers], np.int64),
        np.array([regions.fixed(n) for n in numbers], np.int32),
        np.array(is_user, np.uint8),
        rows_by_number(small),
        np.zeros(max(communicators.values(), default=-1) + 1, np.int64),
        len(counters),
        1e9 / header.resolution,
        header.is_cut,
        obtaining,
    )
