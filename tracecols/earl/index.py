"""The index of a store: memory-mapped files that turn queries for any event and any state into look-ups.

An index can be deleted at any time, as it is derived from the store. It is in the store's folder,
`NAME.trace/enhanced/earl`; if that cannot be written, it is made for one process in a temporary folder. Pages of it are
read on demand, and the system may drop them again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.earl.types import LOCKS, NUMBER, OF_END, OF_KIND, TYPES, WITHOUT_WINDOW, is_type
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import Segments, pair_nested
from tracecols.enhance.dataflow.spill import save_array, write_array
from tracecols.errors import StoreError
from tracecols.given.files import check_regular, read_json
from tracecols.schema import EventKind
from tracecols.schema.columns import Column
from tracecols.schema.enums import PARADIGMS
from tracecols.schema.kinds import GET_COMPLETION
from tracecols.store.layout import MANIFEST
from tracecols.store.outputs import folder_output
from tracecols.work.scratch import reserve, temporary_folder

if TYPE_CHECKING:
    from tracecols.model.model import Model
    from tracecols.store import Store
    from tracecols.trace import Trace

VERSION = 1

OPENMP = PARADIGMS.index("openmp")

FOLDER = Path("enhanced") / "earl"
"""Folder of the index in a store."""

BLOCK = 256
"""Number of sends for which the latest receive is stored."""

OPEN = np.iinfo(np.int64).max
"""End of a stay in a team that never ends."""

COLUMNS: tuple[Column, ...] = (
    Column("time", "int64", "time", "ticks"),
    Column("kind", "uint8", "event kind, `EventKind`"),
    Column("type", "uint8", "event type, number in `earl.types.TYPES`"),
    Column("region", "row", "region entered or left", "", "regions"),
    Column("enterptr", "row", "enterptr (thesis 3.10)", "", "events"),
    Column("call_path", "row", "call path of the region instance the event lies in", "", "call_paths"),
    Column("pos_of", "row", "place of each row in chronological order, from 0"),
    Column("row_of", "row", "row of each place in chronological order", "", "events"),
)
"""Columns with one value per event; `row` is the smallest signed integer type for all rows of the table."""

TABLES: tuple[Column, ...] = (
    Column("recv", "int64", "RECVs with a SEND, ascending", "", "events"),
    Column("recv.send", "int64", "their SENDs (sendptr, thesis 3.11)", "", "events"),
    Column("queue.send", "int64", "places of SENDs that are received, ascending"),
    Column("queue.recv", "int64", "places of their RECVs"),
    Column("queue.source", "int32", "process that sends", "", "processes"),
    Column("queue.destination", "int32", "process that receives", "", "processes"),
    Column("queue.latest", "int64", "largest place of a RECV in each block of SENDs"),
    Column("lost.send", "int64", "places of SENDs that are never received, ascending"),
    Column("lost.source", "int32", "process that sends", "", "processes"),
    Column("lost.destination", "int32", "process that should receive; null if unknown", "", "processes"),
    Column(
        "end", "int64", "EXITs of region instances that hold the end of a collective operation, ascending", "", "events"
    ),
    Column("end.event", "int64", "the event that ends the operation", "", "events"),
    Column("mpicoll", "int64", "places of the EXITs that complete an instance of a collective operation, ascending"),
    Column("mpicoll.start", "int64", "first of each instance's members; one more at the end"),
    Column("mpicoll.member", "int64", "places of the members' EXITs, ascending in each instance"),
    Column("ompcoll", "int64", "places of the EXITs that complete an instance of a construct, ascending"),
    Column("ompcoll.start", "int64", "first of each instance's members; one more at the end"),
    Column("ompcoll.member", "int64", "places of the members' EXITs, ascending in each instance"),
    Column("join", "int64", "JOINs, ascending", "", "events"),
    Column("join.fork", "int64", "their FORKs", "", "events"),
    Column("lock", "int64", "lock events, ascending", "", "events"),
    Column("lock.previous", "int64", "lockptr (thesis 3.16)", "", "events"),
    Column("inherit.start", "int64", "first stay in a team of each location; one more at the end"),
    Column("inherit.begin", "int64", "place from which a thread is in a team, ascending in each location"),
    Column("inherit.end", "int64", "place from which it is not"),
    Column("inherit.latest", "int64", "largest end so far in the location"),
    Column("inherit.fork", "int64", "the FORK whose stack it inherits (thesis 3.20)", "", "events"),
    Column("node.parent", "int64", "call paths: parent that was entered itself"),
    Column(
        "node.representative", "int64", "least recent ENTER; null if the call path was not entered itself", "", "events"
    ),
    Column("node.visits", "int64", "how often it was entered", "occ"),
    Column("top", "int64", "last ENTER on the stack after the last event of each location", "", "events"),
)
"""Other columns for queries; side tables of the store follow as `TABLE.COLUMN`."""


class Index:
    """An open index; items are the columns, mapped into memory. `kept` is an object with the same lifetime."""

    def __init__(self, folder: Path, kept: object = None) -> None:
        self.folder, self._kept = folder, kept
        self._open: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        found = self._open.get(name)
        if found is None:
            path = self.folder / f"{name}.npy"
            try:
                # a plain array: an element of a memmap takes ten times as long
                check_regular(path)
                found = np.asarray(np.load(path, mmap_mode="r"))
            except (OSError, ValueError, EOFError) as error:
                raise StoreError(f"{path} cannot be read: {error}\n  remove {self.folder}, it is made again") from error
            self._open[name] = found
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._open or (self.folder / f"{name}.npy").exists()


def open_index(trace: Trace, folder: Path | None = None) -> Index:
    """Open the index of a trace; make it if there is none, or if it is that of another trace. It is in `folder`, by
    default in the store, or in a temporary folder if the store cannot be written. Raises StoreError if it cannot be
    written there."""
    of = {"format": "tracecols earl index", "version": VERSION, "of": trace.store.digest}
    wanted = trace.path / FOLDER if folder is None else Path(folder)
    try:
        found = read_json(wanted / MANIFEST)
    except (OSError, ValueError):
        found = None
    if found == of:
        return Index(wanted)
    kept = None
    if folder is None and not os.access(trace.path, os.W_OK):
        kept = temporary_folder()
        wanted = kept.path / "earl"
    with folder_output(wanted, "an index for EARL", is_part=folder is None).new() as building:
        build(Building(trace.model, trace.store, Index(building), int(trace.manifest["n_events"])))
        (building / MANIFEST).write_text(json.dumps(of) + "\n", encoding="utf-8")
    return Index(wanted, kept)


def row_dtype(n: int) -> np.dtype[Any]:
    """Return the smallest signed integer type for rows of a table with `n` rows, for null, and for `n` itself."""
    return np.min_scalar_type(-n - 1)


class Building(NamedTuple):
    """An index while it is made in an empty folder."""

    model: Model
    store: Store
    made: Index
    """The columns that exist already."""
    n_events: int


def _put(b: Building, name: str, values: NDArray[Any]) -> None:
    """Write a column."""
    declared = next(c.dtype for c in TABLES if c.name == name)
    save_array(b.made.folder / f"{name}.npy", np.ascontiguousarray(values, declared))


def _begin(b: Building, name: str, dtype: Any, n: int) -> BinaryIO:
    """Create the file of a column and write its header."""
    file = (b.made.folder / f"{name}.npy").open("wb")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (n,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file


def _stream(b: Building, name: str, dtype: Any, n: int, parts: Iterable[NDArray[Any]]) -> None:
    """Write a column from consecutive parts."""
    with _begin(b, name, dtype, n) as file:
        for part in parts:
            write_array(file, part.astype(dtype, copy=False))


def _reserve(b: Building, name: str, dtype: Any, n: int) -> NDArray[Any]:
    """Return a new column of zeros, mapped into memory, to be filled in any order."""
    path = b.made.folder / f"{name}.npy"
    _stream(b, name, dtype, n, ())
    with path.open("r+b") as file:
        reserve(file.fileno(), file.seek(0, os.SEEK_END) + np.dtype(dtype).itemsize * n)
    return np.load(path, mmap_mode="r+")


def build(b: Building) -> None:
    """Write all columns.

    Memory: the scan of one location's events, about 60 B for each, one window of events in chronological order, and the
    compound tables of the trace. Disk: 25 B per event for up to 2^31 events, and the side tables without compression.
    """
    _write_events(b)
    _write_sides(b)
    write_order(b)
    _write_messages(b)
    _write_instances(b, "mpicoll", *_collectives(b))
    _write_instances(b, "ompcoll", *_constructs(b))
    _write_threads(b)
    _write_call_tree(b)


# -- events ------------------------------------------------------------------------------------------------------------


def _write_events(b: Building) -> None:
    """Write time, kind, type, region, enterptr and call path, location by location."""
    from tracecols.enhance.scan.instances import scan_stacks

    model = b.model
    n_rows = {"regions": len(model.regions), "events": b.n_events, "call_paths": len(model.call_paths)}
    dtypes = {
        c.name: row_dtype(n_rows[c.target]) if c.dtype == "row" else np.dtype(c.dtype)
        for c in COLUMNS
        if c.name not in ("pos_of", "row_of")
    }
    ends: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    top = np.full(b.model.n_locations, -1, np.int64)
    with ExitStack() as stack:
        files = {name: stack.enter_context(_begin(b, name, dtype, b.n_events)) for name, dtype in dtypes.items()}
        for location, first in enumerate(b.store.first_rows.tolist()):
            columns = scan_stacks(model.facts, model.scans, model.team_instances, location)
            exits = _ends_of(columns, first)
            ends.append(exits)
            columns["type"] = _types_of(b, columns, location, first, *exits)
            columns["region"] = _regions_of(b, columns, first)
            top[location] = _final_top(columns, first)
            for name, file in files.items():
                write_array(file, columns[name].astype(dtypes[name], copy=False))
    _put(b, "end", np.concatenate([*(e[0] for e in ends), np.zeros(0, np.int64)]))
    _put(b, "end.event", np.concatenate([*(e[1] for e in ends), np.zeros(0, np.int64)]))
    _put(b, "top", top)


def _ends_of(columns: dict[str, NDArray[Any]], first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the EXITs of region instances that hold the end of a collective operation, and the last such end of
    each."""
    rows = np.flatnonzero(np.isin(columns["kind"], list(OF_END)))
    enter = columns["enterptr"][rows]
    rows, enter = rows[enter >= 0], enter[enter >= 0]
    leave = columns["exitptr"][enter - first]
    rows, leave = rows[leave >= 0][::-1], leave[leave >= 0][::-1]
    leave, last = np.unique(leave, return_index=True)
    return leave, rows[last] + first


def _types_of(
    b: Building,
    columns: dict[str, NDArray[Any]],
    location: int,
    first: int,
    leave: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """Find the type of every event of a location."""
    kind, region = columns["kind"], columns["region"]
    of_kind = np.zeros(256, np.uint8)
    for k, name in OF_KIND.items():
        of_kind[k] = NUMBER[name]
    if GET_COMPLETION in b.store.capabilities:
        of_kind[EventKind.RMA_OP_COMPLETE_NON_BLOCKING] = NUMBER["MPIGET1TE"]
    result = of_kind[kind]
    switched = kind == EventKind.MEASUREMENT_ON_OFF
    result[switched] = np.where(region[switched] >= 0, NUMBER["ENTER"], NUMBER["EXIT"])
    constructs = np.append(b.model.regions.construct >= 0, False)
    result[(result == NUMBER["EXIT"]) & constructs[region]] = NUMBER["OMPCEXIT"]
    for k, name in OF_END.items():
        mine = kind[ends - first] == k
        result[leave[mine] - first] = NUMBER[name]
    shmem = np.append(b.model.regions.paradigm == "shmem", False)
    result[(result == NUMBER["MPICEXIT"]) & shmem[region]] = NUMBER["COLLEXIT"]
    if b.store.n_rows("rma", location):
        side = b.store.read("rma", location, ["row", "window"])
        rows = side["row"][side["window"] < 0] - first
        other = np.arange(len(TYPES), dtype=np.uint8)
        for name, without in {**WITHOUT_WINDOW, "MPIGET1TE": "GET1TE"}.items():
            other[NUMBER[name]] = NUMBER[without]
        result[rows] = other[result[rows]]
    if b.store.n_rows("locks", location):
        side = b.store.read("locks", location, ["row", "kind", "model"])
        threads = np.isin(side["kind"], (EventKind.THREAD_ACQUIRE_LOCK, EventKind.THREAD_RELEASE_LOCK))
        rows = side["row"][threads & (side["model"] != OPENMP)] - first
        for name, without in LOCKS.items():
            result[rows[result[rows] == NUMBER[name]]] = NUMBER[without]
    return result


def _regions_of(b: Building, columns: dict[str, NDArray[Any]], first: int) -> NDArray[np.int32]:
    """Return the region of each event; an EXIT without region gets that of its ENTER."""
    region, enter = columns["region"], columns["enterptr"]
    unnamed = np.flatnonzero((region < 0) & (columns["type"] == NUMBER["EXIT"]) & (enter >= 0))
    if not unnamed.size:
        return region
    region = region.copy()
    region[unnamed] = region[enter[unnamed] - first]
    return region


def _final_top(columns: dict[str, NDArray[Any]], first: int) -> int:
    """Return the top of the stack after the last event; -1 if the stack is empty."""
    n = columns["kind"].size
    if not n:
        return -1
    last = int(columns["type"][-1])
    enter = int(columns["enterptr"][-1])
    if last == NUMBER["ENTER"]:
        return first + n - 1
    if is_type(TYPES[last], "EXIT"):
        return int(columns["enterptr"][enter - first]) if enter >= 0 else -1
    return enter


def _write_sides(b: Building) -> None:
    """Write the side tables unchanged, location by location; their rows ascend."""
    for name, table in b.store.tables.items():
        n = b.store.n_rows(name)
        if not n or name in ("events", "ties") or "row" not in table.names:
            continue
        with ExitStack() as stack:
            files = {c.name: stack.enter_context(_begin(b, f"{name}.{c.name}", c.dtype, n)) for c in table.columns}
            for location in range(b.model.n_locations):
                if b.store.n_rows(name, location):
                    columns = b.store.read(name, location)
                    for column, file in files.items():
                        write_array(file, columns[column])


def write_order(b: Building) -> None:
    """Write the chronological order, window by window."""
    time, dtype = b.made["time"], row_dtype(b.n_events)
    pos_of = _reserve(b, "pos_of", dtype, b.n_events)
    _stream(b, "row_of", dtype, b.n_events, b.model.order.fill_positions(time, pos_of))
    if isinstance(pos_of, np.memmap):
        pos_of.flush()


# -- links between events ----------------------------------------------------------------------------------------------


def _places(b: Building, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the chronological places of rows, from 0; null stays -1."""
    if not b.n_events:
        return np.full(rows.size, -1, np.int64)
    return np.where(rows >= 0, b.made["pos_of"][rows].astype(np.int64), -1)


def _write_messages(b: Building) -> None:
    """Write sendptr and the messages underway."""
    model, process = b.model, b.model.process
    m, s = model.messages, model.sends
    order = np.argsort(m.recv, kind="stable")
    _put(b, "recv", m.recv[order])
    _put(b, "recv.send", m.send[order])
    send, recv = _places(b, m.send), _places(b, m.recv)
    order = np.argsort(send, kind="stable")
    recv = recv[order]
    _put(b, "queue.send", send[order])
    _put(b, "queue.recv", recv)
    _put(b, "queue.source", process[m.send_location[order]])
    _put(b, "queue.destination", process[m.recv_location[order]])
    _put(b, "queue.latest", np.maximum.reduceat(recv, np.arange(0, recv.size, BLOCK)) if recv.size else recv)
    lost = np.flatnonzero(~np.isin(s.send, m.send) & ~s.is_cancelled)
    lost = lost[np.argsort(_places(b, s.send[lost]))]
    source = process[s.location[lost]]
    _put(b, "lost.send", _places(b, s.send[lost]))
    _put(b, "lost.source", source)
    _put(b, "lost.destination", model.communicators.process_of(s.communicator[lost], s.destination[lost], source))


def _collectives(b: Building) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return instance and EXIT of the participants of collective operations, and a mask of complete instances."""
    c, m = b.model.collectives, b.model.collective_members
    return m.collective, m.exit, c.n_members >= c.size


def _constructs(b: Building) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return instance and EXIT of the threads in constructs, and a mask of the complete instances."""
    c, m, teams = b.model.constructs, b.model.construct_members, b.model.teams
    return m.construct, m.exit, c.n_members >= (teams.n_threads[c.team] if len(c) else 0)


def _write_instances(
    b: Building, name: str, instance: NDArray[np.int64], leave: NDArray[np.int64], whole: NDArray[np.bool_]
) -> None:
    """Write complete instances, ordered by the EXIT that completes them."""
    whole = whole.copy()
    whole[instance[leave < 0]] = False
    kept = whole[instance]
    places = _places(b, leave[kept])
    _, group = np.unique(instance[kept], return_inverse=True)
    n = int(group.max(initial=-1)) + 1
    completed = Segments(group, n).max(places) if n else np.zeros(0, np.int64)
    rank = np.empty(n, np.int64)
    order = np.argsort(completed, kind="stable")
    rank[order] = np.arange(n)
    members = np.lexsort((places, rank[group])) if n else group
    _put(b, name, completed[order])
    _put(b, f"{name}.start", np.concatenate([[0], np.cumsum(np.bincount(rank[group], minlength=n))]))
    _put(b, f"{name}.member", places[members])


def _write_threads(b: Building) -> None:
    """Write forkptr, lockptr, and the intervals in which threads inherit the stack of a FORK."""
    model, teams, of = b.model, b.model.teams, b.model.team_instances
    order = np.argsort(teams.join, kind="stable")
    order = order[teams.join[order] >= 0]
    # one team instance per FORK, or several if threads begin in teams one by one
    join, first = np.unique(teams.join[order], return_index=True)
    _put(b, "join", join)
    _put(b, "join.fork", teams.fork[order[first]])
    rows, previous = model.lockptr
    order = np.argsort(rows, kind="stable")
    _put(b, "lock", rows[order])
    _put(b, "lock.previous", previous[order])
    begin, end, fork, counts = [], [], [], []
    for location in range(b.model.n_locations):
        mine = of.begins_of(location)
        instance = of.instance[mine]
        events = of.events.at(location)
        if of.forker[location] >= 0:
            started, stopped = _places(b, teams.fork[instance]), _places(b, teams.join[instance])
            empty = np.ones(instance.size, bool)
        else:
            is_end = events.kind == EventKind.THREAD_TEAM_END
            pair = pair_nested(events.is_begin, is_end)[events.is_begin]
            row = events.row[events.is_begin]
            started = _places(b, row)
            stopped = _places(b, pick(events.row, pair))
            empty = b.made["enterptr"][row] < 0
        stopped = np.where(stopped >= 0, stopped, OPEN)
        kept = ~of.is_master[mine] & (teams.fork[instance] >= 0) & empty
        order = np.argsort(started[kept], kind="stable")
        begin.append(started[kept][order])
        end.append(stopped[kept][order])
        fork.append(teams.fork[instance][kept][order])
        counts.append(order.size)
    nothing = np.zeros(0, np.int64)
    _put(b, "inherit.start", np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
    _put(b, "inherit.begin", np.concatenate([*begin, nothing]))
    _put(b, "inherit.end", np.concatenate([*end, nothing]))
    _put(b, "inherit.latest", np.concatenate([*(np.maximum.accumulate(e) for e in end), nothing]))
    _put(b, "inherit.fork", np.concatenate([*fork, nothing]))


def _write_call_tree(b: Building) -> None:
    """Write the call paths that were entered themselves, which excludes those of flushes and those above tasks."""
    tree, profile, n = b.model.call_paths, b.model.profile, len(b.model.call_paths)
    representative = tree.representative.copy()
    if n:
        own = b.made["call_path"][representative] == np.arange(n)
        own &= b.made["type"][representative] == NUMBER["ENTER"]
        representative[~own] = -1
    parent = tree.parent.astype(np.int64)
    for i in range(n):
        # parents come first
        if parent[i] >= 0 and representative[parent[i]] < 0:
            parent[i] = parent[parent[i]]
    visits = np.zeros(n, np.int64)
    np.add.at(visits, profile.call_path, profile.visits)
    _put(b, "node.parent", parent)
    _put(b, "node.representative", representative)
    _put(b, "node.visits", visits)
