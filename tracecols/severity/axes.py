"""The three axes of a cube, which are trees: properties, call paths, and the system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.locations import owners
from tracecols.enhance.scan.paths import path_names
from tracecols.given.printable import one_line
from tracecols.given.providers import provider
from tracecols.given.quantities import counted
from tracecols.schema.enums import device_label
from tracecols.schema.properties import NOT_SPENT

if TYPE_CHECKING:
    from tracecols.enhance.definitions.regions import Regions
    from tracecols.enhance.scan.call_paths import CallPaths
    from tracecols.store import Store

STREAM = "stream"
"""Kind of the nodes of streams of devices in the system tree."""

SHOWN = 20
"""Maximum number of rows of a tree that its repr shows."""


def outline(
    head: str, lines: Sequence[str] | NDArray[np.object_], depth: Sequence[int] | NDArray[np.integer[Any]]
) -> str:
    """Return the first rows of a tree as text, indented by their depth.

    Parameters
    ----------
    head : str
        The line above them.
    lines : sequence of str
        One for every row.
    depth : sequence of int
        Level of every row, 0 for roots.
    """
    shown = [f"  {'  ' * int(level)}{one_line(line)}" for line, level in zip(lines[:SHOWN], depth[:SHOWN], strict=True)]
    more = [f"  and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
    return "\n".join([head, *shown, *more])


def depths(parent: Iterable[int]) -> NDArray[np.int32]:
    """Return the level of every node of a tree, 0 for roots; (n,) int32.

    Parameters
    ----------
    parent : iterable of int
        Position of the parent of every node, which comes before it; -1 for roots.
    """
    depth: list[int] = []
    for above in parent:
        depth.append(depth[above] + 1 if above >= 0 else 0)
    return np.array(depth, np.int32)


@dataclass(repr=False)
class PropertyAxis:
    """Properties in depth-first order.

    Attributes
    ----------
    id, parent, title, unit, summary, advice : list of str
    confidence : list of float
    overlaps : list of bool
        Whether a property may hold for the same time as its siblings: it divides its parent in another way than they
        do.
    aggregation : list of str
        How values are aggregated (`schema.severity.AGGREGATIONS`); by default all add up.
    is_wait : list of int
        1 for a property that is time in which a location waits for another, else 0. If it is not known (-1, the
        default), a property is a wait if it is declared as one under the same id, or is below a wait.
    delay, part : list of str
        The property whose costs identify the cause (empty: that of the wait above), and what its values count as
        (`schema.properties.PARTS`; empty: as those of the property above).
    is_heading, is_estimate : list of int
        1 for a property that titles of findings do without, and for one whose parts may exceed it in a cell, else 0.
        If `is_heading` is -1 (the default), none of these four is known: they are taken from the declared property of
        the same id, and so is the advice if it is empty.
    formula : list of str
        Formula of a computed property (`severity.formulas`), which has no cells; empty for all others.

    Other Parameters
    ----------------
    name, root : str
        Id of a property.
    """

    id: list[str]
    parent: list[str]
    title: list[str]
    unit: list[str]
    summary: list[str]
    advice: list[str]
    confidence: list[float]
    overlaps: list[bool]
    aggregation: list[str] = field(default_factory=list)
    is_wait: list[int] = field(default_factory=list)
    delay: list[str] = field(default_factory=list)
    part: list[str] = field(default_factory=list)
    is_heading: list[int] = field(default_factory=list)
    is_estimate: list[int] = field(default_factory=list)
    formula: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        n = len(self.id)
        self.aggregation = self.aggregation or ["sum"] * n
        # copies: other axes may share these lists
        self.is_wait, self.is_heading = list(self.is_wait or [-1] * n), list(self.is_heading or [-1] * n)
        self.delay = list(self.delay or [""] * n)
        self.part = list(self.part or [""] * n)
        self.advice = list(self.advice)
        self.is_estimate = list(self.is_estimate or [0] * n)
        self.formula = list(self.formula or [""] * n)
        if -1 in self.is_wait or -1 in self.is_heading:
            self._complete(provider("properties by id")())
        self.is_wait, self.is_heading, self.is_estimate = (
            [int(value) for value in column] for column in (self.is_wait, self.is_heading, self.is_estimate)
        )

    def _complete(self, declared: Mapping[str, Any]) -> None:
        """Fill in what is not known from the declared properties of the same ids."""
        waits: dict[str, int] = {}
        for i, name in enumerate(self.id):
            p = declared.get(name)
            if self.is_wait[i] == -1:
                self.is_wait[i] = int(waits.get(self.parent[i]) == 1 or (p is not None and p.is_wait))
            waits[name] = self.is_wait[i]
            if self.is_heading[i] == -1:
                self.is_heading[i] = 0
                if p is not None:
                    self.delay[i], self.part[i], self.advice[i] = p.delay, p.part, self.advice[i] or p.advice
                    self.is_heading[i], self.is_estimate[i] = p.is_heading, p.is_estimate

    def __repr__(self) -> str:
        lines = [f"{title} ({i}, {unit})" for i, title, unit in zip(self.id, self.title, self.unit, strict=True)]
        depth: dict[str, int] = {"": -1}
        for name, parent in zip(self.id, self.parent, strict=True):
            depth[name] = depth.get(parent, -1) + 1
        return outline(f"<PropertyAxis: {len(self.id)} properties>", lines, [depth[i] for i in self.id])

    @classmethod
    def of(cls, properties: Iterable[Any]) -> PropertyAxis:
        """Take the columns from declared properties, which all add up.

        Parameters
        ----------
        properties : iterable of Property
            In depth-first order.
        """
        columns = [c for c in cls.__dataclass_fields__ if c not in ("aggregation", "formula")]
        rows = list(map(attrgetter(*columns), properties))
        return cls(**{c: [row[i] for row in rows] for i, c in enumerate(columns)})

    def take(self, rows: Iterable[int]) -> PropertyAxis:
        """Return an axis of some of the properties.

        Parameters
        ----------
        rows : iterable of int
            Their positions.
        """
        return PropertyAxis(*([getattr(self, column)[i] for i in rows] for column in self.__dataclass_fields__))

    def with_rows(self, rows: Sequence[Mapping[str, Any]]) -> PropertyAxis:
        """Return an axis with more properties after these; they are roots that add up and are no waits.

        Parameters
        ----------
        rows : sequence of mapping
            What is known of each, by column.
        """
        usual = {"confidence": 1.0, "overlaps": False, "aggregation": "sum"} | dict.fromkeys(
            ("is_wait", "is_heading", "is_estimate"), 0
        )
        return PropertyAxis(
            *(
                [*getattr(self, column), *(row.get(column, usual.get(column, "")) for row in rows)]
                for column in self.__dataclass_fields__
            )
        )

    @cached_property
    def number(self) -> dict[str, int]:
        """Position by id."""
        return {name: i for i, name in enumerate(self.id)}

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """Ids below each id; roots below the empty one."""
        result: dict[str, list[str]] = {name: [] for name in ["", *self.id]}
        for name, parent in zip(self.id, self.parent, strict=True):
            result[parent].append(name)
        return result

    @cached_property
    def full_title(self) -> dict[str, str]:
        """Title of each property after the titles above it: MPI, Late Sender. Headings are left out, except for the one
        directly above properties whose full titles would otherwise be the same."""

        def title(name: str, heading: str) -> str:
            above = [of for of in self.above(name) if of == heading or not self.is_heading[self.number[of]]]
            return ", ".join(self.title_of(of) for of in [*reversed(above), name])

        found = {name: title(name, heading="") for name in self.id}
        n_same = Counter(found.values())
        parents = zip(self.id, self.parent, strict=True)
        return {name: found[name] if n_same[found[name]] == 1 else title(name, parent) for name, parent in parents}

    def title_of(self, name: str) -> str:
        """Return the title of a property."""
        return self.title[self.number[name]]

    def unit_of(self, name: str) -> str:
        """Return the unit of the values of a property; `sec` for times, which are stored as ticks."""
        return self.unit[self.number[name]]

    def above(self, name: str) -> list[str]:
        """Return the properties above one, from its parent to its root."""
        found: list[str] = []
        while name := self.parent[self.number[name]]:
            found.append(name)
        return found

    def waits(self, root: str, *besides: str) -> list[str]:
        """Return the waits below a property that lie below no other wait; time in which they overlap counts in each.

        Parameters
        ----------
        *besides : str
            Ids of properties that are treated as waits.
        """
        waits = {name for name, is_wait in zip(self.id, self.is_wait, strict=True) if is_wait}
        return self.outermost(root, waits | set(besides))

    def outermost(self, root: str, chosen: Set[str]) -> list[str]:
        """Return the chosen properties below one that lie below no other chosen one.

        Parameters
        ----------
        chosen : set of str
            Ids of properties.
        """
        return [
            name
            for name in self.id
            if name in chosen and root in (above := self.above(name)) and chosen.isdisjoint(above)
        ]

    def with_part(self, part: str) -> list[str]:
        """Return the properties that are declared to count as a part (`schema.properties.PARTS`).

        Parameters
        ----------
        part : str
            One of the parts.
        """
        return [name for name, of in zip(self.id, self.part, strict=True) if of == part]

    def is_spent(self, name: str) -> bool:
        """Return whether call paths spend the values of a property: these are neither charged nor compared with a
        mean."""
        return self.nearest(name, self.part) not in NOT_SPENT

    def nearest(self, name: str, says: Sequence[str]) -> str:
        """Return the entry of a text column for a property, or for the nearest one above it that has one; else empty.

        Parameters
        ----------
        says : sequence of str
            One of the columns; entries may be empty.
        """
        return next((says[self.number[at]] for at in (name, *self.above(name)) if says[self.number[at]]), "")

    def parts(self, name: str) -> list[str]:
        """Return the children that add up and do not overlap; a property without these is exclusive."""
        if not self.adds_up(name):
            return []
        return [c for c in self.children[name] if self.adds_up(c) and not self.overlaps[self.number[c]]]

    def reduction(self, name: str) -> str:
        """Return how values of a property are reduced: to their `sum`, `min` or `max`; `sum` for a computed property,
        which has no cells.
        """
        return "sum" if self.is_computed(name) else self.aggregation[self.number[name]].partition("_")[0]

    def adds_up(self, name: str) -> bool:
        """Return whether values of a property add up."""
        return self.aggregation[self.number[name]] == "sum"

    def is_computed(self, name: str) -> bool:
        """Return whether a property is computed from the values of others."""
        return bool(self.formula[self.number[name]])

    def includes_calls(self, name: str) -> bool:
        """Return whether the value of a call path covers what it calls, so that nothing is reduced along the call
        tree."""
        return self.aggregation[self.number[name]].endswith("_inclusive")

    @property
    def roots(self) -> list[str]:
        """Ids without parent."""
        return self.children[""]

    def root_of(self, name: str) -> str:
        """Return the root above a property."""
        return [name, *self.above(name)][-1]


@dataclass(repr=False)
class CallAxis:
    """Call paths in depth-first order.

    Attributes
    ----------
    parent, depth : (n,) int32
    end : (n,) int64
        The subtree of i is i .. end[i] - 1.
    name, role, paradigm, file : (n,) object
        Of the region entered.
    line : (n,) int64
        First source line of the region; 0 if unknown.
    call_site : (n,) object
        File and line of the call, which distinguish call paths of one name; empty if unknown.
    end_line : (n,) int64
        Last source line of the region; 0 (the default) if unknown.
    """

    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    end: NDArray[np.int64]
    name: NDArray[np.object_]
    role: NDArray[np.object_]
    paradigm: NDArray[np.object_]
    file: NDArray[np.object_]
    line: NDArray[np.int64]
    call_site: NDArray[np.object_]
    end_line: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if not self.end_line.size:
            self.end_line = np.zeros(self.parent.size, np.int64)

    @classmethod
    def of(cls, tree: CallPaths, regions: Regions) -> CallAxis:
        """Take the columns from the merged call tree of a trace.

        Parameters
        ----------
        tree : CallPaths
            The merged call tree.
        regions : Regions
            Regions of the trace.
        """
        r = tree.region
        return cls(
            tree.parent,
            tree.depth,
            tree.end,
            regions.name[r],
            regions.role[r],
            regions.paradigm[r],
            regions.file[r],
            regions.begin_line[r],
            regions.call_sites[tree.call_site],
            regions.end_line[r],
        )

    def __repr__(self) -> str:
        return outline(f"<CallAxis: {len(self):,} call paths>", self.name, self.depth)

    def __len__(self) -> int:
        return self.parent.size

    @cached_property
    def numbered_names(self) -> tuple[list[str], NDArray[np.int64]]:
        """The distinct names of regions, and the number of each call path's name among them; (n_call_paths,) int64.

        Names are not put into an array of fixed width: 10^6 call paths and one name of 20,000 characters would take
        75 GiB.
        """
        numbers: dict[str, int] = {}
        of = np.fromiter((numbers.setdefault(str(n), len(numbers)) for n in self.name), np.int64, len(self))
        return list(numbers), of

    def named(self, is_wanted: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Select the call paths whose region's name is wanted; (n_call_paths,) bool.

        Parameters
        ----------
        is_wanted : callable
            Called once with each distinct name.
        """
        names, of = self.numbered_names
        return np.fromiter(map(is_wanted, names), bool, len(names))[of]

    @cached_property
    def path(self) -> list[str]:
        """Names of all regions from the root joined by slashes (`path_names`)."""
        return path_names(self.parent, self.name)

    def paths_of(self, call_paths: Iterable[int]) -> list[str]:
        """Return the paths of some call paths, without writing out the others.

        Parameters
        ----------
        call_paths : iterable of int
            Numbers of call paths.
        """
        return path_names(self.parent, self.name, call_paths)


def _columns(nodes: list[tuple[str, str, int, int]]) -> tuple[list[str], list[str], list[int], list[int]]:
    """Return kind, name, parent and location of nodes of the system tree as columns."""
    kind, name = [kind for kind, *_ in nodes], [name for _, name, *_ in nodes]
    return kind, name, [parent for *_, parent, _ in nodes], [location for *_, location in nodes]


@dataclass(repr=False)
class SystemAxis:
    """The system tree in depth-first order: machine, node, process, its threads; below a process its devices
    (accelerators) and their streams.

    Attributes
    ----------
    kind, name : list of str
    parent : list of int
        -1 for roots.
    location : list of int
        Row of the location for threads and streams, -1 for others.
    rank, thread : (n_locations,) int32
        Of every location; the rank of locations of accelerators is -1.
    location_name, location_type : list of str
    """

    kind: list[str]
    name: list[str]
    parent: list[int]
    location: list[int]
    rank: NDArray[np.int32]
    thread: NDArray[np.int32]
    location_name: list[str]
    location_type: list[str]

    @classmethod
    def of(cls, store: Store) -> SystemAxis:
        """Take the tree from the definitions of a store.

        Parameters
        ----------
        store : Store
            The store of a trace.
        """
        nodes = store.definitions["system_tree_nodes"].to_pydict()
        processes = store.definitions["processes"].to_pydict()
        locations = store.definitions["locations"].to_pydict()
        below: dict[int, list[int]] = {}
        for i, parent in enumerate(nodes["parent"]):
            below.setdefault(parent, []).append(i)
        of_node: dict[int, list[int]] = {}
        devices: dict[int, list[int]] = {}
        visited: set[int] = set()
        for i, (node, owner) in enumerate(zip(processes["node"], owners(store).tolist(), strict=True)):
            if owner != i:
                devices.setdefault(owner, []).append(i)
            else:
                of_node.setdefault(node, []).append(i)
        of_process: dict[int, list[int]] = {}
        for i, process in enumerate(locations["process"]):
            of_process.setdefault(process, []).append(i)
        rows: list[tuple[str, str, int, int]] = []

        def add(kind: str, name: str, parent: int, row: int = -1) -> int:
            rows.append((kind, name, parent, row))
            return len(rows) - 1

        def visit_process(process: int, parent: int) -> None:
            visited.add(process)
            kind = "accelerator" if processes["type"][process] == "accelerator" else "process"
            own = add(kind, f"{processes['name'][process]}", parent)
            for row in of_process.get(process, []):
                add(STREAM if locations["type"][row] == "gpu" else "thread", locations["name"][row], own, row)
            for device in devices.get(process, []):
                visit_process(device, own)

        # an explicit stack: a damaged archive may hold a node that is its own ancestor, which is not reached then
        stack = [(node, -1) for node in reversed(below.get(-1, []))]
        while stack:
            node, parent = stack.pop()
            own = add(nodes["class_name"][node] or "node", nodes["name"][node], parent)
            for process in of_node.get(node, []):
                visit_process(process, own)
            stack += [(child, own) for child in reversed(below.get(node, []))]
        placed = {row for *_, row in rows}
        for process in range(len(processes["id"])):
            if process not in visited and any(row not in placed for row in of_process.get(process, [])):
                visit_process(process, -1)
        rank = np.array(processes["rank"], np.int32)[np.array(locations["process"], np.int64)]
        thread = np.array(locations["thread"], np.int32)
        return cls(*_columns(rows), rank, thread, locations["name"], locations["type"]).with_devices()

    def with_devices(self) -> SystemAxis:
        """Move streams that are next to the threads of a process below the devices that their names contain."""

        def label(row: int) -> str:
            at = self.location[row]
            in_process = self.kind[self.parent[row]] == "process" if self.parent[row] >= 0 else False
            return device_label(self.location_name[at]) if in_process and at >= 0 and self.kind[row] == STREAM else ""

        children: dict[int, list[int]] = {}
        nested: dict[int, dict[str, list[int]]] = {}
        for row, parent in enumerate(self.parent):
            if device := label(row):
                nested.setdefault(parent, {}).setdefault(device, []).append(row)
            else:
                children.setdefault(parent, []).append(row)
        if not nested:
            return self
        nodes: list[tuple[str, str, int, int]] = []

        def add(row: int, parent: int) -> int:
            nodes.append((self.kind[row], self.name[row], parent, self.location[row]))
            return len(nodes) - 1

        stack = [(row, -1) for row in reversed(children.get(-1, []))]
        while stack:
            row, parent = stack.pop()
            own = add(row, parent)
            below = children.get(row, [])
            for leaf in (i for i in below if self.location[i] >= 0):
                add(leaf, own)
            for device, rows in nested.get(row, {}).items():
                nodes.append(("accelerator", device, own, -1))
                at = len(nodes) - 1
                for stream in rows:
                    add(stream, at)
            stack += [(i, own) for i in reversed(below) if self.location[i] < 0]
        kind, name, parent_of, location = _columns(nodes)
        return replace(self, kind=kind, name=name, parent=parent_of, location=location)

    def __repr__(self) -> str:
        lines = [
            f"{kind} {name}" if at < 0 else f"rank {self.rank[at]} thread {self.thread[at]}: {name}"
            for kind, name, at in zip(self.kind, self.name, self.location, strict=True)
        ]
        return outline(f"<SystemAxis: {counted(self.n_locations, 'location')}>", lines, self.depth)

    @property
    def n_locations(self) -> int:
        """Number of locations."""
        return self.rank.size

    @property
    def is_thread(self) -> NDArray[np.bool_]:
        """Whether each location is a CPU thread, rather than a stream of a device or a location of metrics;
        (n_locations,) bool."""
        return np.array([t not in ("metric", "gpu") for t in self.location_type], bool)

    @property
    def master(self) -> NDArray[np.int64]:
        """The lowest-numbered CPU thread of the process of each location, as a location; (n_locations,) int64."""
        order = np.lexsort((self.thread, ~self.is_thread, self.rank))
        return np.asarray(order[np.searchsorted(self.rank[order], self.rank)], np.int64)

    @property
    def has_threads(self) -> bool:
        """Whether any process has several CPU threads."""
        return any(self.location_type[i] not in ("metric", "gpu") for i in np.flatnonzero(self.thread > 0).tolist())

    @property
    def depth(self) -> NDArray[np.int32]:
        """Level of every node, 0 for roots; (n,) int32."""
        return depths(self.parent)

    @property
    def held(self) -> list[list[int]]:
        """Locations at and below every node, in order."""
        found: list[list[int]] = [[] for _ in self.parent]
        # from the last node to the first: those of a node are known before its parent is visited
        for i in range(len(found) - 1, -1, -1):
            if self.location[i] >= 0:
                found[i].append(int(self.location[i]))
            if self.parent[i] >= 0:
                found[self.parent[i]] += found[i]
            found[i].reverse()
        return found
