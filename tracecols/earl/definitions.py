"""Definitions that events refer to, as small objects with EARL's attribute names, made from the definition tables of a
store.

Each definition is a single object; definitions are compared by identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tracecols.store import Store


@dataclass(frozen=True, eq=False)
class Region:
    """A program region: `file`, first and last line (0 unknown), `rtype` (its role), description."""

    id: int
    name: str
    file: str
    begln: int
    endln: int
    rtype: str
    descr: str


@dataclass(frozen=True, eq=False)
class CallSite:
    """A line of source (0 unknown) from which the region `callee` is entered."""

    id: int
    file: str
    line: int
    callee: Region


@dataclass(frozen=True, eq=False)
class Metric:
    """A counter: `type` of its values, `mode` of their interpretation (`MetricMode`)."""

    id: int
    name: str
    descr: str
    type: str
    mode: str


@dataclass(frozen=True, eq=False)
class Machine:
    """A root of the system tree."""

    id: int
    name: str
    nodes: list[Node] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Node:
    """A shared-memory node: `ncpus` processors (-1 unknown), `clckrt` Hz (0 unknown)."""

    id: int
    name: str
    ncpus: int
    clckrt: float
    mach: Machine = field(repr=False)
    procs: list[Process] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Process:
    """A location group; `node` is None if its node is unknown."""

    id: int
    name: str
    rank: int
    node: Node | None = field(repr=False)
    thrds: list[Thread] = field(repr=False)

    @property
    def loc(self) -> Location:
        """Location of its first thread."""
        return self.thrds[0].loc


@dataclass(frozen=True, eq=False)
class Thread:
    """A thread; `id` is its number in the process."""

    id: int
    name: str
    proc: Process = field(repr=False)
    loc: Location = field(repr=False)


@dataclass(frozen=True, eq=False)
class Location:
    """A stream of events (thesis 3.17): machine, node, process, thread."""

    id: int
    name: str
    thrd_id: int
    proc: Process = field(repr=False)

    @property
    def thrd(self) -> Thread:
        """The thread."""
        return next(t for t in self.proc.thrds if t.loc is self)

    @property
    def node(self) -> Node | None:
        """The node its process runs on."""
        return self.proc.node

    @property
    def mach(self) -> Machine | None:
        """The machine of that node."""
        return self.proc.node.mach if self.proc.node is not None else None


@dataclass(frozen=True, eq=False)
class Communicator:
    """A communicator or team: `locs` in rank order (those of an inter-communicator's other group in `remote_locs`).

    Ranks are those of the program if the trace has them; merged EPILOG traces do not, and ranks follow the processes.
    """

    id: int
    name: str
    kind: str
    locs: list[Location] = field(repr=False)
    remote_locs: list[Location] = field(repr=False)

    @property
    def size(self) -> int:
        """Number of members; 1 for MPI_COMM_SELF."""
        return 1 if self.kind == "self" else len(self.locs)

    @cached_property
    def _ranks(self) -> dict[int, int]:
        return {loc.proc.id: rank for rank, loc in reversed(list(enumerate(self.locs)))}

    def rank(self, loc: Location) -> int:
        """Return the rank of a location's process; -1 if it is not a member."""
        return 0 if self.kind == "self" else self._ranks.get(loc.proc.id, -1)

    def proc(self, rank: int) -> Process:
        """Return the process at a rank.

        Raises
        ------
        IndexError
            If there is no such rank; also of MPI_COMM_SELF, whose rank 0 is the process that uses it.
        """
        if self.kind == "self":
            raise IndexError(f"communicator {self.id} {self.name!r}: rank 0 is the process that uses it")
        if not 0 <= rank < len(self.locs):
            raise IndexError(f"communicator {self.id} {self.name!r} has no rank {rank}, its size is {self.size}")
        return self.locs[rank].proc


@dataclass(frozen=True, eq=False)
class Cartesian:
    """A Cartesian topology: sizes (0 unknown) and periodicity by dimension."""

    id: int
    name: str
    com: Communicator | None
    dimv: tuple[int, ...]
    periodv: tuple[bool, ...]
    _coords: dict[int, tuple[int, ...]] = field(repr=False)
    _locs: dict[tuple[int, ...], Location] = field(repr=False)

    @property
    def ndims(self) -> int:
        """Number of dimensions."""
        return len(self.dimv)

    def coords(self, loc: Location) -> tuple[int, ...]:
        """Return the coordinates of a location; () if it has none."""
        return self._coords.get(loc.id, ())

    def loc(self, coords: tuple[int, ...]) -> Location | None:
        """Return the location at some coordinates, the first if there are several, None if there is none."""
        return self._locs.get(tuple(coords))


@dataclass(frozen=True, eq=False)
class Window:
    """A window of one-sided communication."""

    id: int
    name: str
    com: Communicator | None


class Definitions:
    """All definitions of a trace as lists; an identifier is a position in its list, the row of the definition table."""

    def __init__(self, store: Store) -> None:
        def rows(table: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = store.definitions[table].to_pylist()
            return found

        processes = rows("processes")
        self.regs = [
            Region(i, r["name"], r["file"], r["begin_line"], r["end_line"], r["role"], r["description"])
            for i, r in enumerate(rows("regions"))
        ]
        self.csites = [
            CallSite(i, r["file"], r["line"], self.regs[r["region"]]) for i, r in enumerate(rows("call_sites"))
        ]
        named = [*(r.file for r in self.regs), *(c.file for c in self.csites)]
        self.files = list(dict.fromkeys(filter(None, named)))
        self.mets = [
            Metric(i, r["name"], r["description"], r["value_type"], r["mode"])
            for i, r in enumerate(rows("metric_members"))
        ]
        self.machs: list[Machine] = []
        self.nodes: list[Node] = []
        of_tree = self._system(rows("system_tree_nodes"), rows("properties"), [r["node"] for r in processes])
        self.procs = [Process(i, r["name"], r["rank"], of_tree.get(r["node"]), []) for i, r in enumerate(processes)]
        for proc in self.procs:
            if proc.node is not None:
                proc.node.procs.append(proc)
        self.locs: list[Location] = []
        self.thrds: list[Thread] = []
        for i, r in enumerate(rows("locations")):
            proc = self.procs[r["process"]]
            loc = Location(i, r["name"], r["thread"], proc)
            self.locs.append(loc)
            self.thrds.append(Thread(r["thread"], r["name"], proc, loc))
            proc.thrds.append(self.thrds[-1])
        self.coms = [
            Communicator(
                i,
                r["name"],
                r["kind"],
                [self.locs[m] for m in r["members"]],
                [self.locs[m] for m in r["remote_members"]],
            )
            for i, r in enumerate(rows("communicators"))
        ]
        self.carts = self._cartesians(rows("topologies"), rows("topology_coordinates"))
        self.wins = [Window(i, r["name"], self._com(r["communicator"])) for i, r in enumerate(rows("windows"))]

    def _cartesians(self, topologies: list[dict[str, Any]], coordinates: list[dict[str, Any]]) -> list[Cartesian]:
        carts = []
        for i, r in enumerate(topologies):
            com, sizes, periodic = self._com(r["communicator"]), tuple(r["sizes"]), tuple(map(bool, r["periodic"]))
            carts.append(Cartesian(i, r["name"], com, sizes, periodic, {}, {}))
        for r in coordinates:
            if r["topology"] >= 0 and r["location"] >= 0:
                at, loc = tuple(r["coordinates"]), self.locs[r["location"]]
                carts[r["topology"]]._coords.setdefault(loc.id, at)
                carts[r["topology"]]._locs.setdefault(at, loc)
        return carts

    def _com(self, number: int) -> Communicator | None:
        return self.coms[number] if number >= 0 else None

    def _system(self, tree: list[dict[str, Any]], properties: list[dict[str, Any]], used: list[int]) -> dict[int, Node]:
        """Make machines from the roots of the system tree, and nodes from rows of class `node` or with processes."""
        said = {(r["of"], r["name"]): r["value"] for r in properties if r["table"] == "system_tree_nodes"}
        machines: dict[int, Machine] = {}
        nodes: dict[int, Node] = {}
        for i, r in enumerate(tree):
            root = i
            for _ in tree:
                if tree[root]["parent"] < 0:
                    break
                root = tree[root]["parent"]
            if root not in machines:
                machines[root] = Machine(len(machines), tree[root]["name"], [])
                self.machs.append(machines[root])
            if r["class_name"] == "node" or i in used:
                cpus, rate = said.get((i, "cpus"), "-1"), said.get((i, "clock rate"), "0")
                nodes[i] = Node(len(nodes), r["name"], int(cpus), float(rate), machines[root], [])
                machines[root].nodes.append(nodes[i])
                self.nodes.append(nodes[i])
        return nodes
