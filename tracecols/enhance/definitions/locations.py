"""Classification of the locations of a trace: threads of processes, masters and workers, streams of devices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.definitions.order import BATCH
from tracecols.enhance.definitions.regions import device_calls
from tracecols.errors import StoreError, TracecolsError
from tracecols.given.arguments import as_locations, check_locations, is_whole_number, selected_numbers, show
from tracecols.schema.enums import GROUPS_OF_LOCATIONS, TEAM_CONSTRUCTS, device_label
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask

OF_CPUS = ("mpi", "openmp")
"""Paradigms of CPUs: a location of type gpu that is in a group of these, or that executes an MPI call or an OpenMP
construct of a team, is a thread (old recordings of many-core cards)."""

CREATING = ("pthread", "winthread", "qtthread", "acethread", "tbbthread")
"""Paradigms in which a program creates its threads itself, one by one."""

CALLSITE = "callsite id"
"""Parameter with the same value in a launch and its kernel."""

PIECE, PIECE_CPUS = "TRACECOLS::PIECE", "TRACECOLS::PIECE_CPUS"
"""Facts in the manifest of a trace slice: that it is a slice; the locations of type gpu that are threads in the whole
trace."""

PIECE_CALLS, PIECE_LEFT_OUT = "TRACECOLS::PIECE_CALLS", "TRACECOLS::PIECE_LEFT_OUT"
"""Facts in the manifest of a trace slice: calls in which threads may wait that are cut by its ends; events of messages
and collective operations that an archive lacks because it would hold only one side of them."""

PIECE_PENDING, PIECE_NUMBERS = "TRACECOLS::PIECE_PENDING", "TRACECOLS::PIECE_NUMBERS"
"""Facts in the manifest of a trace slice: operations of devices launched before its start, and those of them already
done (`slices.devices`); numbers of its operations in the whole trace (`enhance.definitions.numbering`)."""


@dataclass(frozen=True, eq=False)
class Locations:
    """The locations of a trace; the same for all of its slices."""

    process: NDArray[np.int32]
    thread: NDArray[np.int32]
    """`process` and `thread`: (n,), process of every location, and its number in the process; the master of a process
    is its thread 0. A stream in a location group of an accelerator belongs to the process that created the group."""
    is_cpu: Mask
    """(n,): whether it is a CPU thread."""
    is_device: Mask
    """(n,): whether it is a stream of a device: neither a CPU thread nor a location for metrics only."""
    are_created: bool
    """Whether the program creates its threads itself, so that no CPU is reserved for them for the lifetime of the
    process. This holds if the definitions mention POSIX threads or the like but not OpenMP."""
    device: NDArray[np.int32]
    """(n,): number of the device that every stream belongs to, -1 for other locations."""
    device_names: tuple[str, ...]
    """Names of the devices, by number."""

    @classmethod
    def of(cls, store: Store) -> Locations:
        """Read the locations of a store; of those of type gpu, the regions of all events may be read, 4 B per event."""
        table = store.definitions["locations"]
        kind = np.array(table.column("type").to_pylist(), object)
        is_gpu = kind == "gpu"
        is_device = is_gpu.copy()
        is_device[list(_gpus_that_are_cpus(store, np.flatnonzero(is_gpu).tolist()))] = False
        known = _paradigms_of_hosts(store, is_device)
        device, names = _devices(store, is_device)
        return cls(
            owners(store)[to_numpy(table.column("process"))],
            to_numpy(table.column("thread")),
            (kind != "metric") & ~is_device,
            is_device,
            "openmp" not in known and not known.isdisjoint(CREATING),
            device,
            names,
        )

    def __len__(self) -> int:
        return self.process.size

    @cached_property
    def master(self) -> Ints:
        """The master of the process of every location; -1 if the process has no CPU thread; (n,) int64."""
        cpus = np.flatnonzero(self.is_cpu)
        cpus = cpus[np.lexsort((self.thread[cpus], self.process[cpus]))]
        process, first = np.unique(self.process[cpus], return_index=True)
        master = np.full(int(self.process.max(initial=-1)) + 1, -1, np.int64)
        master[process] = cpus[first]
        return master[self.process]

    @cached_property
    def workers(self) -> Ints:
        """All CPU threads that are not masters, in ascending order."""
        cpus = np.flatnonzero(self.is_cpu)
        return cpus[self.master[cpus] != cpus]

    @cached_property
    def n_threads(self) -> Ints:
        """Number of CPU threads of the process of every location; (n,) int64."""
        counts = np.bincount(self.process[self.is_cpu], minlength=int(self.process.max(initial=-1)) + 1)
        return counts[self.process]

    @cached_property
    def n_processes(self) -> int:
        """Number of processes that have CPU threads."""
        return int(distinct(self.process[self.is_cpu]).size)


def _paradigms_of_hosts(store: Store, is_device: Mask) -> set[str]:
    """Return the paradigms of regions and groups, except those of calls for devices and of groups with streams."""
    regions, groups = store.definitions["regions"].to_pydict(), store.definitions["groups"].to_pydict()
    name, role, paradigm = (np.array([*regions[c], ""], object)[:-1] for c in ("name", "role", "paradigm"))
    known = set(paradigm[device_calls(name, role, paradigm) < 0].tolist())
    streams = set(np.flatnonzero(is_device).tolist())
    for kind, of, members in zip(groups["type"], groups["paradigm"], groups["members"], strict=True):
        if kind not in GROUPS_OF_LOCATIONS or streams.isdisjoint(members):
            known.add(of)
    return known


def find_locations(
    store: Store,
    given: int | str | Iterable[int | str] | None,
    rank: int | None = None,
    thread: int | None = None,
    error: type[TracecolsError] = StoreError,
) -> list[int] | None:
    """Return the rows of the requested locations; None, which means all, if no argument is given.

    `given` are rows of locations, and strings that select some: `rank 0`, `rank 0-3 thread 1`; `rank` and `thread`
    restrict these to a process, and to a thread number.
    """
    if given is None and rank is None and thread is None:
        return None
    n_locations = int(store.manifest["n_locations"])
    found = np.arange(n_locations).tolist()
    if given is not None:
        chosen = as_locations(given, error)
        check_locations((i for i in chosen if not isinstance(i, str)), n_locations, error)
        parts = [_selected(store, selected_numbers(i), i, error) if isinstance(i, str) else [i] for i in chosen]
        found = list(dict.fromkeys(location for part in parts for location in part))
    words = {what: number for what, number in (("rank", rank), ("thread", thread)) if number is not None}
    for what, number in words.items():
        if not is_whole_number(number) or number < 0:
            raise error(f"{show(number)} is not a {what}\n  give a whole number from 0")
    if words:
        text = " ".join(f"{what} {number}" for what, number in words.items())
        mine = set(_selected(store, {what: [(n, n)] for what, n in words.items()}, text, error))
        found = [location for location in found if location in mine]
    return found


def _selected(
    store: Store, ranges: Mapping[str, list[tuple[int, int]]], text: str, error: type[TracecolsError]
) -> list[int]:
    """Return the locations of some ranks and threads."""
    table = store.definitions["locations"]
    rank = to_numpy(store.definitions["processes"].column("rank"))[to_numpy(table.column("process"))]
    of = {"rank": rank, "thread": to_numpy(table.column("thread"))}
    mask = np.ones(rank.size, bool)
    for what, wanted in ranges.items():
        mask &= np.logical_or.reduce([(of[what] >= first) & (of[what] <= last) for first, last in wanted])
    if not mask.any():
        there_are = ", ".join(
            f"{what}s {int(values[values >= 0].min())} to {int(values.max())}"
            for what, values in of.items()
            if (values >= 0).any()
        )
        raise error(
            f"no location has {text}\n  there are {there_are or 'none'} (see trace.locations)",
            in_shell=f"there are {there_are or 'none'} (see tracecols info)",
        )
    return np.flatnonzero(mask).tolist()


def _devices(store: Store, is_device: Mask) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Number the devices: location groups of type accelerator, and otherwise the devices in the names of the streams of
    a process."""
    table, groups = store.definitions["locations"].to_pydict(), store.definitions["processes"].to_pydict()
    # queues of OpenCL have the names of their devices
    teams = store.definitions["groups"].to_pydict()
    queues = {
        m
        for kind, paradigm, members in zip(teams["type"], teams["paradigm"], teams["members"], strict=True)
        if kind == "comm_locations" and paradigm == "opencl"
        for m in members
    }
    numbers: dict[tuple[int, str], int] = {}
    device = np.full(is_device.size, -1, np.int32)
    for i in np.flatnonzero(is_device).tolist():
        group = table["process"][i]
        own = groups["type"][group] == "accelerator"
        label = device_label(table["name"][i]) or (table["name"][i] if i in queues else "") or "device"
        name = groups["name"][group] if own else label
        device[i] = numbers.setdefault((group, name), len(numbers))
    return device, tuple(name for _, name in numbers)


def owners(store: Store) -> NDArray[np.int32]:
    """Return the process that each location group belongs to: an accelerator to the process that created it; without a
    creator, to the only process on the closest node above it that has processes, else to none but itself; (n_groups,)
    int32."""
    table = store.definitions["processes"].to_pydict()
    parent = store.definitions["system_tree_nodes"].column("parent").to_pylist()
    is_process = [kind != "accelerator" for kind in table["type"]]
    of = np.arange(len(is_process), dtype=np.int32)
    on_node: dict[int, set[int]] = {}
    for i in np.flatnonzero(~np.array(is_process, bool)).tolist():
        creator = table["creator"][i]
        if 0 <= creator < len(is_process) and is_process[creator]:
            of[i] = creator
            continue
        if not on_node:
            for process in np.flatnonzero(is_process).tolist():
                for node in _nodes_above(table["node"][process], parent):
                    on_node.setdefault(node, set()).add(process)
        nearest = next((on_node[n] for n in _nodes_above(table["node"][i], parent) if n in on_node), set())
        if len(nearest) == 1:
            (of[i],) = nearest
    return of


def _nodes_above(node: int, parent: list[int]) -> Iterator[int]:
    """Yield a node and those above it; at last -1, which is above all."""
    # a damaged archive may hold a node that is its own ancestor
    for _ in parent:
        if not 0 <= node < len(parent):
            break
        yield node
        node = parent[node]
    yield -1


def _gpus_that_are_cpus(store: Store, candidates: Collection[int]) -> set[int]:
    """Find the CPU threads of type gpu: locations in groups of MPI or OpenMP, or that execute their regions."""
    named = store.manifest["source"].get(PIECE_CPUS)
    if named is not None:
        return {int(i) for i in str(named).split() if i.isdecimal()} & set(candidates)
    groups = store.definitions["groups"].to_pydict()
    found: set[int] = set()
    for kind, paradigm, members in zip(groups["type"], groups["paradigm"], groups["members"], strict=True):
        if kind == "comm_locations" and paradigm in OF_CPUS:
            found |= set(candidates) & set(members)
    # regions that only CPUs execute: not those of OpenMP that represent transfers; the last for events without a region
    regions = store.definitions["regions"]
    paradigm = np.array([*regions.column("paradigm").to_pylist(), ""], object)
    of_team = np.isin([*regions.column("role").to_pylist(), ""], TEAM_CONSTRUCTS)
    runs_on_cpus = (paradigm == "mpi") | ((paradigm == "openmp") & of_team)
    for location in set(candidates) - found:
        for start in range(0, store.n_rows("events", location), BATCH):
            if runs_on_cpus[store.read("events", location, ["region"], start, start + BATCH)["region"]].any():
                found.add(location)
                break
    return found
