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
from typing import TYPE_CHECKING, Any, BinaryIO

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
    from tracecols.trace import Trace

VERSION = 1

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
        Builder(trace, building).build()
        (building / MANIFEST).write_text(json.dumps(of) + "\n", encoding="utf-8")
    return Index(wanted, kept)


def row_dtype(n: int) -> np.dtype[Any]:
    """Return the smallest signed integer type for rows of a table with `n` rows, for null, and for `n` itself."""
    return np.min_scalar_type(-n - 1)


class Builder:
    """Makes an index in an empty folder.

    Memory: the scan of one location's events, about 60 B for each, one window of events in chronological order, and the
    compound tables of the trace. Disk: 25 B per event for up to 2^31 events, and the side tables without compression.
    """

    def __init__(self, trace: Trace, folder: Path) -> None:
        self.trace, self.model, self.store, self.folder = trace, trace.model, trace.store, folder
        self.index = Index(folder)
        self.n = int(trace.manifest["n_events"])
        locations = trace.definition("locations")
        self.first_rows = locations["first_row"].to_numpy()
        self.n_locations = len(locations)

    def put(self, name: str, values: NDArray[Any]) -> None:
        """Write a column."""
        declared = next(c.dtype for c in TABLES if c.name == name)
        save_array(self.folder / f"{name}.npy", np.ascontiguousarray(values, declared))

    def begin(self, name: str, dtype: Any, n: int) -> BinaryIO:
        """Create the file of a column and write its header."""
        file = (self.folder / f"{name}.npy").open("wb")
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (n,)}
        np.lib.format.write_array_header_1_0(file, header)
        return file

    def stream(self, name: str, dtype: Any, n: int, parts: Iterable[NDArray[Any]]) -> None:
        """Write a column from consecutive parts."""
        with self.begin(name, dtype, n) as file:
            for part in parts:
                write_array(file, part.astype(dtype, copy=False))

    def reserve(self, name: str, dtype: Any, n: int) -> NDArray[Any]:
        """Return a new column of zeros, mapped into memory, to be filled in any order."""
        path = self.folder / f"{name}.npy"
        self.stream(name, dtype, n, ())
        with path.open("r+b") as file:
            reserve(file.fileno(), file.seek(0, os.SEEK_END) + np.dtype(dtype).itemsize * n)
        return np.load(path, mmap_mode="r+")

    def build(self) -> None:
        """Write all columns."""
        self.events()
        self.sides()
        self.order()
        self.messages()
        self.instances("mpicoll", *self.collectives())
        self.instances("ompcoll", *self.constructs())
        self.threads()
        self.call_tree()

    # -- events ----------------------------------------------------------------------------------------------------

    def events(self) -> None:
        """Write time, kind, type, region, enterptr and call path, location by location."""
        from tracecols.enhance.scan.instances import scan_stacks

        model = self.model
        n_rows = {"regions": len(model.regions), "events": self.n, "call_paths": len(model.call_paths)}
        dtypes = {
            c.name: row_dtype(n_rows[c.target]) if c.dtype == "row" else np.dtype(c.dtype)
            for c in COLUMNS
            if c.name not in ("pos_of", "row_of")
        }
        ends: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        top = np.full(self.n_locations, -1, np.int64)
        with ExitStack() as stack:
            files = {name: stack.enter_context(self.begin(name, dtype, self.n)) for name, dtype in dtypes.items()}
            for location, first in enumerate(self.first_rows.tolist()):
                columns = scan_stacks(model.facts, model.scans, model.team_instances, location)
                exits = self.find_ends(columns, first)
                ends.append(exits)
                columns["type"] = self.types(columns, location, first, *exits)
                columns["region"] = self.regions(columns, first)
                top[location] = self.final_top(columns, first)
                for name, file in files.items():
                    write_array(file, columns[name].astype(dtypes[name], copy=False))
        self.put("end", np.concatenate([*(e[0] for e in ends), np.zeros(0, np.int64)]))
        self.put("end.event", np.concatenate([*(e[1] for e in ends), np.zeros(0, np.int64)]))
        self.put("top", top)

    @staticmethod
    def find_ends(columns: dict[str, NDArray[Any]], first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the EXITs of region instances that hold the end of a collective operation, and the last such end of
        each."""
        rows = np.flatnonzero(np.isin(columns["kind"], list(OF_END)))
        enter = columns["enterptr"][rows]
        rows, enter = rows[enter >= 0], enter[enter >= 0]
        leave = columns["exitptr"][enter - first]
        rows, leave = rows[leave >= 0][::-1], leave[leave >= 0][::-1]
        leave, last = np.unique(leave, return_index=True)
        return leave, rows[last] + first

    def types(
        self,
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
        if GET_COMPLETION in self.store.capabilities:
            of_kind[EventKind.RMA_OP_COMPLETE_NON_BLOCKING] = NUMBER["MPIGET1TE"]
        result = of_kind[kind]
        switched = kind == EventKind.MEASUREMENT_ON_OFF
        result[switched] = np.where(region[switched] >= 0, NUMBER["ENTER"], NUMBER["EXIT"])
        constructs = np.append(self.model.regions.construct >= 0, False)
        result[(result == NUMBER["EXIT"]) & constructs[region]] = NUMBER["OMPCEXIT"]
        for k, name in OF_END.items():
            mine = kind[ends - first] == k
            result[leave[mine] - first] = NUMBER[name]
        shmem = np.append(self.model.regions.paradigm == "shmem", False)
        result[(result == NUMBER["MPICEXIT"]) & shmem[region]] = NUMBER["COLLEXIT"]
        if self.store.n_rows("rma", location):
            side = self.store.read("rma", location, ["row", "window"])
            rows = side["row"][side["window"] < 0] - first
            other = np.arange(len(TYPES), dtype=np.uint8)
            for name, without in {**WITHOUT_WINDOW, "MPIGET1TE": "GET1TE"}.items():
                other[NUMBER[name]] = NUMBER[without]
            result[rows] = other[result[rows]]
        if self.store.n_rows("locks", location):
            side = self.store.read("locks", location, ["row", "kind", "model"])
            threads = np.isin(side["kind"], (EventKind.THREAD_ACQUIRE_LOCK, EventKind.THREAD_RELEASE_LOCK))
            rows = side["row"][threads & (side["model"] != _OPENMP)] - first
            for name, without in LOCKS.items():
                result[rows[result[rows] == NUMBER[name]]] = NUMBER[without]
        return result

    def regions(self, columns: dict[str, NDArray[Any]], first: int) -> NDArray[np.int32]:
        """Return the region of each event; an EXIT without region gets that of its ENTER."""
        region, enter = columns["region"], columns["enterptr"]
        unnamed = np.flatnonzero((region < 0) & (columns["type"] == NUMBER["EXIT"]) & (enter >= 0))
        if not unnamed.size:
            return region
        region = region.copy()
        region[unnamed] = region[enter[unnamed] - first]
        return region

    @staticmethod
    def final_top(columns: dict[str, NDArray[Any]], first: int) -> int:
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

    def sides(self) -> None:
        """Write the side tables unchanged, location by location; their rows ascend."""
        for name, table in self.store.tables.items():
            n = self.store.n_rows(name)
            if not n or name in ("events", "ties") or "row" not in table.names:
                continue
            with ExitStack() as stack:
                files = {c.name: stack.enter_context(self.begin(f"{name}.{c.name}", c.dtype, n)) for c in table.columns}
                for location in range(self.n_locations):
                    if self.store.n_rows(name, location):
                        columns = self.store.read(name, location)
                        for column, file in files.items():
                            write_array(file, columns[column])

    def order(self) -> None:
        """Write the chronological order, window by window."""
        time, dtype = self.index["time"], row_dtype(self.n)
        pos_of = self.reserve("pos_of", dtype, self.n)
        self.stream("row_of", dtype, self.n, self.model.order.fill_positions(time, pos_of))
        if isinstance(pos_of, np.memmap):
            pos_of.flush()

    # -- links between events --------------------------------------------------------------------------------------

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the chronological places of rows, from 0; null stays -1."""
        if not self.n:
            return np.full(rows.size, -1, np.int64)
        return np.where(rows >= 0, self.index["pos_of"][rows].astype(np.int64), -1)

    def messages(self) -> None:
        """Write sendptr and the messages underway."""
        model, process = self.model, self.model.process
        m, s = model.messages, model.sends
        order = np.argsort(m.recv, kind="stable")
        self.put("recv", m.recv[order])
        self.put("recv.send", m.send[order])
        send, recv = self.places(m.send), self.places(m.recv)
        order = np.argsort(send, kind="stable")
        recv = recv[order]
        self.put("queue.send", send[order])
        self.put("queue.recv", recv)
        self.put("queue.source", process[m.send_location[order]])
        self.put("queue.destination", process[m.recv_location[order]])
        self.put("queue.latest", np.maximum.reduceat(recv, np.arange(0, recv.size, BLOCK)) if recv.size else recv)
        lost = np.flatnonzero(~np.isin(s.send, m.send) & ~s.is_cancelled)
        lost = lost[np.argsort(self.places(s.send[lost]))]
        source = process[s.location[lost]]
        self.put("lost.send", self.places(s.send[lost]))
        self.put("lost.source", source)
        self.put("lost.destination", model.communicators.process_of(s.communicator[lost], s.destination[lost], source))

    def collectives(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return instance and EXIT of the participants of collective operations, and a mask of complete instances."""
        c, m = self.model.collectives, self.model.collective_members
        return m.collective, m.exit, c.n_members >= c.size

    def constructs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return instance and EXIT of the threads in constructs, and a mask of the complete instances."""
        c, m, teams = self.model.constructs, self.model.construct_members, self.model.teams
        return m.construct, m.exit, c.n_members >= (teams.n_threads[c.team] if len(c) else 0)

    def instances(
        self, name: str, instance: NDArray[np.int64], leave: NDArray[np.int64], whole: NDArray[np.bool_]
    ) -> None:
        """Write complete instances, ordered by the EXIT that completes them."""
        whole = whole.copy()
        whole[instance[leave < 0]] = False
        kept = whole[instance]
        places = self.places(leave[kept])
        _, group = np.unique(instance[kept], return_inverse=True)
        n = int(group.max(initial=-1)) + 1
        completed = Segments(group, n).max(places) if n else np.zeros(0, np.int64)
        rank = np.empty(n, np.int64)
        order = np.argsort(completed, kind="stable")
        rank[order] = np.arange(n)
        members = np.lexsort((places, rank[group])) if n else group
        self.put(name, completed[order])
        self.put(f"{name}.start", np.concatenate([[0], np.cumsum(np.bincount(rank[group], minlength=n))]))
        self.put(f"{name}.member", places[members])

    def threads(self) -> None:
        """Write forkptr, lockptr, and the intervals in which threads inherit the stack of a FORK."""
        model, teams, of = self.model, self.model.teams, self.model.team_instances
        order = np.argsort(teams.join, kind="stable")
        order = order[teams.join[order] >= 0]
        # one team instance per FORK, or several if threads begin in teams one by one
        join, first = np.unique(teams.join[order], return_index=True)
        self.put("join", join)
        self.put("join.fork", teams.fork[order[first]])
        rows, previous = model.lockptr
        order = np.argsort(rows, kind="stable")
        self.put("lock", rows[order])
        self.put("lock.previous", previous[order])
        begin, end, fork, counts = [], [], [], []
        for location in range(self.n_locations):
            mine = of.begins_of(location)
            instance = of.instance[mine]
            events = of.events.at(location)
            if of.forker[location] >= 0:
                started, stopped = self.places(teams.fork[instance]), self.places(teams.join[instance])
                empty = np.ones(instance.size, bool)
            else:
                is_end = events.kind == EventKind.THREAD_TEAM_END
                pair = pair_nested(events.is_begin, is_end)[events.is_begin]
                row = events.row[events.is_begin]
                started = self.places(row)
                stopped = self.places(pick(events.row, pair))
                empty = self.index["enterptr"][row] < 0
            stopped = np.where(stopped >= 0, stopped, OPEN)
            kept = ~of.is_master[mine] & (teams.fork[instance] >= 0) & empty
            order = np.argsort(started[kept], kind="stable")
            begin.append(started[kept][order])
            end.append(stopped[kept][order])
            fork.append(teams.fork[instance][kept][order])
            counts.append(order.size)
        nothing = np.zeros(0, np.int64)
        self.put("inherit.start", np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
        self.put("inherit.begin", np.concatenate([*begin, nothing]))
        self.put("inherit.end", np.concatenate([*end, nothing]))
        self.put("inherit.latest", np.concatenate([*(np.maximum.accumulate(e) for e in end), nothing]))
        self.put("inherit.fork", np.concatenate([*fork, nothing]))

    def call_tree(self) -> None:
        """Write the call paths that were entered themselves, which excludes those of flushes and those above tasks."""
        tree, profile, n = self.model.call_paths, self.model.profile, len(self.model.call_paths)
        representative = tree.representative.copy()
        if n:
            own = self.index["call_path"][representative] == np.arange(n)
            own &= self.index["type"][representative] == NUMBER["ENTER"]
            representative[~own] = -1
        parent = tree.parent.astype(np.int64)
        for i in range(n):
            # parents come first
            if parent[i] >= 0 and representative[parent[i]] < 0:
                parent[i] = parent[parent[i]]
        visits = np.zeros(n, np.int64)
        np.add.at(visits, profile.call_path, profile.visits)
        self.put("node.parent", parent)
        self.put("node.representative", representative)
        self.put("node.visits", visits)


_OPENMP = PARADIGMS.index("openmp")
