"""`EventTrace`: random access to events, and the state of the program after each (thesis, chapter 3; EARL 1998 and
2.0)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tracecols.earl.definitions import Definitions
from tracecols.earl.events import Event
from tracecols.earl.index import BLOCK, open_index
from tracecols.earl.types import NUMBER, PARENTS, TYPES, is_type, leaves
from tracecols.enhance.definitions.communicators import Communicators
from tracecols.errors import StoreError
from tracecols.given.arguments import as_path, is_whole_number, show
from tracecols.given.quantities import counted
from tracecols.schema import EventKind
from tracecols.store.arrow import to_numpy
from tracecols.trace import Trace


class EventTrace(Definitions):
    """A trace as EARL shows it: events by position, and state sequences.

    Positions are the places of events in chronological order over all locations, 1 .. n; position 0 is the initial
    state, in which everything is empty. State queries describe the moment immediately after an event. They are
    look-ups in an index that is made when the trace is first opened (`earl.index`): 0.5 s per million events, 25 to 35
    B per event on disk.

    Lists of events are ordered by position. Locations, regions, ... are given by number, the row of their table.

    Parameters
    ----------
    trace : str, Path or Trace
        The store, or the result of `tracecols.open`.
    index : str or Path, optional
        Folder of the index; by default in the store or, if that cannot be written, a temporary one.

    Attributes
    ----------
    columns : Trace
        The same trace as columns and tables.
    resolution, origin : int
        Ticks per second; clock reading at the start of the recording.

    Examples
    --------
    >>> trace = EventTrace("hybrid.trace")  # doctest: +SKIP
    >>> for recv in trace.events("RECV"):  # doctest: +SKIP
    ...     late = recv.sendptr.enterptr.time - recv.enterptr.time
    >>> [e.reg.name for e in trace.stack(4711, 0)]  # doctest: +SKIP
    """

    def __init__(self, trace: str | Path | Trace, *, index: str | Path | None = None) -> None:
        self.columns = trace if isinstance(trace, Trace) else Trace(trace)
        store = self.columns.store
        super().__init__(store)
        self.index = open_index(self.columns, None if index is None else as_path(index, StoreError))
        locations = store.definitions["locations"]
        self._first_rows: list[int] = store.first_rows.tolist()
        self._n = int(self.columns.manifest["n_events"])
        self._bounds = [*self._first_rows, self._n]
        self._process = to_numpy(locations.column("process"))
        self._first_of_process = np.unique(self._process, return_index=True)[1]
        self._communicators = Communicators(store, self._process)
        self._metric_tables = [t for t in store.tables if t.startswith("metrics_") and f"{t}.row" in self.index]
        clock = self.columns.manifest["clock"]
        self.resolution, self.origin = int(clock["resolution"]), int(clock["origin"])

    def __repr__(self) -> str:
        return f"<EventTrace {self.path.name}: {counted(self._n, 'event')}, {counted(len(self.locs), 'location')}>"

    # -- the trace -------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Path of the store."""
        return self.columns.path

    @property
    def name(self) -> str:
        """Name of the trace: that of the store without its suffix."""
        return self.path.stem

    @property
    def nevents(self) -> int:
        """Number of events."""
        return self._n

    def __len__(self) -> int:
        return self._n

    @property
    def has_omp(self) -> bool:
        """Whether there are OpenMP regions."""
        return self._has_regions("openmp")

    @property
    def has_shmem(self) -> bool:
        """Whether there are SHMEM regions."""
        return self._has_regions("shmem")

    def _has_regions(self, paradigm: str) -> bool:
        return paradigm in self.columns.store.definitions["regions"].column("paradigm").to_pylist()

    @property
    def has_mpi2(self) -> bool:
        """Whether there are windows of one-sided communication."""
        return bool(self.wins)

    # -- events ----------------------------------------------------------------------------------------------------

    def _row(self, pos: int, first: int = 1) -> int:
        if not is_whole_number(pos) or not first <= pos <= self._n:
            raise StoreError(f"no event {show(pos)} in {self.path}\n  there are {self._n:,}, numbered from 1")
        return int(self.index["row_of"].item(pos - 1)) if pos else -1

    def event(self, pos: int) -> Event:
        """Return the event at a position.

        Raises
        ------
        StoreError
            If there is none.
        """
        return Event(self, self._row(pos))

    def event_of_row(self, row: int) -> Event:
        """Return the event of a row of the event table, as the columns of `Trace` have them."""
        if not is_whole_number(row) or not 0 <= row < self._n:
            raise StoreError(f"no row {show(row)} in {self.path}\n  there are {self._n:,} events, rows count from 0")
        return Event(self, row)

    def __iter__(self) -> Iterator[Event]:
        return self.events()

    def __reversed__(self) -> Iterator[Event]:
        return self.events(backward=True)

    def is_type(self, pos: int, name: str) -> bool:
        """Return whether the event at a position is of a type or of one below it."""
        return is_type(self.type_of(self._row(pos)), self.known_type(name))

    def positions(
        self, name: str = "EVENT", loc: int | None = None, start: float | None = None, stop: float | None = None
    ) -> NDArray[np.int64]:
        """Return the positions of events.

        Parameters
        ----------
        name : str
            A type, which includes the types below it.
        loc : int, optional
            Only events of this location.
        start, stop : float, optional
            Seconds since the start of the recording: events with start <= time < stop.

        Returns
        -------
        (n,) int64
            Positions, ascending. 24 B per event found.
        """
        low, high = (0, self._n) if loc is None else self._span(loc)
        wanted = np.zeros(len(TYPES), bool)
        wanted[leaves(self.known_type(name))] = True
        rows = low + np.flatnonzero(wanted[self.index["type"][low:high]])
        if start is not None or stop is not None:
            time = self.index["time"][rows]
            after = True if start is None else time >= self.columns.ticks(start)
            rows = rows[after & (True if stop is None else time < self.columns.ticks(stop))]
        return np.sort(self.index["pos_of"][rows].astype(np.int64)) + 1

    def events(
        self,
        name: str = "EVENT",
        loc: int | None = None,
        start: float | None = None,
        stop: float | None = None,
        *,
        backward: bool = False,
    ) -> Iterator[Event]:
        """Iterate over events in chronological order, or backward; the other arguments are those of `positions`."""
        if name == "EVENT" and loc is None and start is None and stop is None:
            order = range(self._n - 1, -1, -1) if backward else range(self._n)
            row_of = self.index["row_of"]
            return (Event(self, int(row_of.item(i))) for i in order)
        rows = self.index["row_of"][self.positions(name, loc, start, stop) - 1]
        return (Event(self, row) for row in (rows[::-1] if backward else rows).tolist())

    @staticmethod
    def known_type(name: str) -> str:
        """Return the name of a type.

        Raises
        ------
        StoreError
            If there is no such type.
        """
        if not isinstance(name, str) or name not in PARENTS:
            raise StoreError(f"no event type {show(name)}\n  there are {', '.join(TYPES)}")
        return name

    # -- look-ups of events ----------------------------------------------------------------------------------------

    def type_of(self, row: int) -> str:
        """Return the type of a row."""
        return TYPES[self.index["type"].item(row)]

    def location_of(self, row: int) -> int:
        """Return the location of a row."""
        return bisect_right(self._first_rows, row) - 1

    def find(self, keys: str, row: int, values: str) -> int:
        """Look up a row in the ascending column `keys` of the index. Return the value of `values` there, or -1."""
        column = self.index[keys]
        at = int(np.searchsorted(column, row))
        return int(self.index[values].item(at)) if at < column.size and column.item(at) == row else -1

    def side(self, row: int, table: str, column: str) -> int:
        """Return an attribute of a row in a side table, -1 if it has none."""
        return self.find(f"{table}.row", row, f"{table}.{column}") if f"{table}.row" in self.index else -1

    def end_of(self, row: int) -> int:
        """Return the row that ends a collective operation: the row itself or, for an EXIT, the one in its region
        instance; -1 none."""
        if self.index["kind"].item(row) in (EventKind.MPI_COLLECTIVE_END, EventKind.RMA_COLLECTIVE_END):
            return row
        return self.find("end", row, "end.event")

    def _process_of(self, communicator: int, rank: int, row: int) -> int:
        own = self._process[self.location_of(row)]
        process = self._communicators.process_of(
            np.array([communicator], np.int32), np.array([rank], np.int64), np.array([own], np.int32)
        )
        return int(process[0])

    def _first_thread(self, process: int) -> int:
        return int(self._first_of_process[process]) if process >= 0 else -1

    def partner(self, row: int) -> int:
        """Return the first location of the process at the other side of a message; -1 unknown."""
        rank = self.side(row, "p2p", "peer")
        return self._first_thread(self._process_of(self.side(row, "p2p", "communicator"), rank, row))

    def root_of(self, row: int) -> int:
        """Return the first location of the root of a collective operation; -1 if it has none."""
        end = self.end_of(row)
        root = self.side(end, "collectives", "root")
        return self._first_thread(self._process_of(self.side(end, "collectives", "communicator"), root, row))

    def one_sided(self, row: int) -> tuple[int, int]:
        """Return the first locations of origin and target of a transfer or a lock on a window; -1 unknown."""
        remote, window = self.side(row, "rma", "remote"), self.side(row, "rma", "window")
        if remote < 0:
            return -1, -1
        com = self.wins[window].com if window >= 0 else None
        there = self._first_thread(self._process_of(com.id, remote, row)) if com is not None else -1
        here = self._first_thread(int(self._process[self.location_of(row)]))
        at_target = self.type_of(row) in ("MPIPUT1TE", "MPIGET1TS", "PUT1TE", "GET1TS")
        return (there, here) if at_target else (here, there)

    def metrics_of(self, row: int) -> dict[str, Any]:
        """Return counters by name: for a METRIC event, its own; else those of METRIC events just before it, at the same
        time."""
        kind, time = self.index["kind"], self.index["time"]
        if not self._metric_tables:
            return {}
        first = self._first_rows[self.location_of(row)]
        rows = [row]
        if kind.item(row) != EventKind.METRIC:
            begin = row
            while begin > first and kind.item(begin - 1) == EventKind.METRIC and time.item(begin - 1) == time.item(row):
                begin -= 1
            rows = list(range(begin, row))
        result: dict[str, Any] = {}
        classes = self.columns.store.definitions["metric_classes"].column("members").to_pylist()
        for at in rows:
            for table in self._metric_tables:
                found = int(np.searchsorted(self.index[f"{table}.row"], at))
                if found < self.index[f"{table}.row"].size and self.index[f"{table}.row"].item(found) == at:
                    for i, member in enumerate(classes[int(table.removeprefix("metrics_"))]):
                        result[self.mets[member].name] = self.index[f"{table}.value_{i}"].item(found)
        return result

    def _call_path(self, row: int) -> int:
        """Return the call path that an ENTER begins, -1 for other events."""
        return int(self.index["call_path"].item(row)) if self.index["type"].item(row) == NUMBER["ENTER"] else -1

    def cnode_of(self, row: int) -> int:
        """Return the row that cnodeptr of a row points to, -1 null."""
        path = self._call_path(row)
        return int(self._tree["representative"].item(path)) if path >= 0 else -1

    def cedge_of(self, row: int) -> int:
        """Return the row that cedgeptr of a row points to, -1 null."""
        path = self._call_path(row)
        parent = int(self._tree["parent"].item(path)) if path >= 0 else -1
        return int(self._tree["representative"].item(parent)) if parent >= 0 else -1

    # -- state -----------------------------------------------------------------------------------------------------

    def _span(self, loc: int) -> tuple[int, int]:
        if not is_whole_number(loc) or not 0 <= loc < len(self.locs):
            raise StoreError(f"no location {show(loc)}\n  there are {len(self.locs)}, numbered from 0")
        return self._bounds[loc], self._bounds[loc + 1]

    def _top(self, pos: int, loc: int) -> int:
        """Return the top of a location's stack after a position, as the next event on the location finds it; -1 if the
        stack is empty."""
        low, high = self._span(loc)
        if low == high:
            return -1
        pos_of = self.index["pos_of"][low:high]
        # search for a number of the column's type, or the whole column would be converted
        following = low + int(np.searchsorted(pos_of, pos_of.dtype.type(pos)))
        if following == high:
            return int(self.index["top"].item(loc))
        return int(self.index["enterptr"].item(following)) if following > low else -1

    def _location_at(self, pos: int, loc: int | None) -> int:
        """Return a location, by default that of the event at a position."""
        row = self._row(pos, 0)
        return loc if loc is not None else self.location_of(row) if pos else 0

    def _chain(self, row: int) -> list[Event]:
        enterptr, result = self.index["enterptr"], []
        while row >= 0:
            result.append(Event(self, row))
            row = enterptr.item(row)
        return result[::-1]

    def stack(self, pos: int, loc: int | None = None) -> list[Event]:
        """Return the region stack of a location: ENTERs of its open region instances (thesis 3.6).

        Parameters
        ----------
        pos : int
            0 .. n.
        loc : int, optional
            Location, by default that of the event.

        Returns
        -------
        list of Event
            The outermost first. Within an explicit task, the stack of the task.
        """
        return self._chain(self._top(pos, self._location_at(pos, loc)))

    def istack(self, pos: int, loc: int | None = None) -> list[Event]:
        """Return the inherited stack of a location (thesis 3.20): the stack of a worker begins with that of its master
        at the FORK.

        A worker inherits from the event that begins its membership in the team to the one that ends it, or from FORK to
        JOIN if these are not recorded.
        """
        loc = self._location_at(pos, loc)
        own = self._chain(self._top(pos, loc))
        fork = self._inherited(pos, loc)
        if fork < 0:
            return own
        return [*self.istack(self.event_of_row(fork).pos, self.location_of(fork)), *own]

    def _inherited(self, pos: int, loc: int) -> int:
        """Return the FORK whose stack a location inherits at a position, -1 none."""
        low, high = self.index["inherit.start"][loc : loc + 2].tolist()
        at = low + int(np.searchsorted(self.index["inherit.begin"][low:high], pos)) - 1
        end, latest = self.index["inherit.end"], self.index["inherit.latest"]
        while at >= low and latest.item(at) >= pos:
            if end.item(at) >= pos:
                return int(self.index["inherit.fork"].item(at))
            at -= 1
        return -1

    def queue(self, pos: int, src: int = -1, dest: int = -1) -> list[Event]:
        """Return the message queue: SENDs of messages underway (thesis 3.7).

        Parameters
        ----------
        pos : int
            0 .. n.
        src, dest : int, optional
            Locations: only messages from or to their processes; -1 for all.

        Returns
        -------
        list of Event
            A message is underway from its SEND until its RECV, or for ever if it is never received. Cancelled sends are
            never underway, nor are messages whose RECV is before their SEND, which `tracecols check` reports.
        """
        self._row(pos, 0)
        index = self.index
        sent = int(np.searchsorted(index["queue.send"], pos))
        blocks = np.flatnonzero(index["queue.latest"][: -(-sent // BLOCK)] >= pos)
        at = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        at = at[at < sent]
        at = at[index["queue.recv"][at] >= pos]
        lost = np.arange(int(np.searchsorted(index["lost.send"], pos)))
        for side, location in (("source", src), ("destination", dest)):
            if location != -1:
                process = self._process[self._known(location)]
                at = at[index[f"queue.{side}"][at] == process]
                lost = lost[index[f"lost.{side}"][lost] == process]
        return self._events(np.sort(np.concatenate([index["queue.send"][at], index["lost.send"][lost]])))

    def _known(self, loc: int) -> int:
        self._span(loc)
        return loc

    def _events(self, places: NDArray[np.int64]) -> list[Event]:
        return [Event(self, row) for row in self.index["row_of"][places].tolist()]

    def mpicoll(self, pos: int) -> list[Event]:
        """Return the EXITs of the collective operation that an event completes (thesis 3.9); empty if it completes
        none."""
        return self._instance("mpicoll", pos)

    def ompcoll(self, pos: int) -> list[Event]:
        """Return the EXITs of the OpenMP construct that an event completes (thesis 3.13, 3.19); empty if it completes
        none."""
        return self._instance("ompcoll", pos)

    def _instance(self, name: str, pos: int) -> list[Event]:
        self._row(pos, 0)
        completed, start = self.index[name], self.index[f"{name}.start"]
        low, high = np.searchsorted(completed, [pos - 1, pos])
        return self._events(self.index[f"{name}.member"][start.item(low) : start.item(high)])

    # -- call tree -------------------------------------------------------------------------------------------------

    @cached_property
    def _tree(self) -> dict[str, NDArray[np.int64]]:
        """By call path: parent, representative and visits; `path` and `place`: nodes and their places, ascending."""
        tree = {c: self.index[f"node.{c}"] for c in ("parent", "representative", "visits")}
        own = np.flatnonzero(tree["representative"] >= 0)
        place = self.index["pos_of"][tree["representative"][own]].astype(np.int64) if own.size else own
        by_place = np.argsort(place)
        return {**tree, "path": own[by_place], "place": place[by_place]}

    def _node(self, cnode: Event | int) -> int:
        event = cnode if isinstance(cnode, Event) else self.event(cnode)
        path = self._call_path(event.row)
        if path < 0 or self._tree["representative"].item(path) != event.row:
            raise StoreError(
                f"event {event.pos} is not a node of the call tree\n"
                "  nodes are the first ENTERs of call paths, see calltree() and cnodeptr"
            )
        return path

    def ctsize(self, pos: int = -1) -> int:
        """Return the number of call paths visited up to a position; -1 for the whole trace."""
        if pos == -1:
            return int(self._tree["place"].size)
        self._row(pos, 0)
        return int(np.searchsorted(self._tree["place"], pos))

    def calltree(self, pos: int = -1) -> list[Event]:
        """Return the nodes of the dynamic call graph (thesis 3.25): first ENTERs of all call paths visited up to a
        position."""
        return self._events(self._tree["place"][: self.ctsize(pos)])

    def ctroots(self, pos: int = -1) -> list[Event]:
        """Return the nodes of the call tree that have no parent."""
        paths = self._tree["path"][: self.ctsize(pos)]
        return self._nodes(paths[self._tree["parent"][paths] < 0])

    def ctchildren(self, cnode: Event | int) -> list[Event]:
        """Return the children of a node, given as event or position."""
        node, paths = self._node(cnode), self._tree["path"]
        return self._nodes(paths[self._tree["parent"][paths] == node])

    def callpath(self, cnode: Event | int) -> list[Event]:
        """Return the nodes from the root to a node, given as event or position."""
        node, result = self._node(cnode), []
        while node >= 0:
            result.append(Event(self, int(self._tree["representative"].item(node))))
            node = self._tree["parent"].item(node)
        return result[::-1]

    def ctvisits(self, cnode: Event | int) -> int:
        """Return the number of visits, in the whole trace, of a call path given by its node as event or position."""
        return int(self._tree["visits"].item(self._node(cnode)))

    def _nodes(self, paths: NDArray[np.int64]) -> list[Event]:
        return [Event(self, row) for row in self._tree["representative"][paths].tolist()]

    # -- whole columns ---------------------------------------------------------------------------------------------

    def stack_depths(self, loc: int) -> pd.DataFrame:
        """Return the depth of a location's stack after each of its events.

        Returns
        -------
        DataFrame
            `pos`, `time` (seconds), `depth`; the event's row as index. 40 B per event of the location.
        """
        from tracecols.kernels.cuts import count_depths

        low, high = self._span(loc)
        depth = np.zeros(high - low, np.int64)
        if low < high:
            top = np.append(self.index["enterptr"][low + 1 : high].astype(np.int64), self.index["top"][loc])
            count_depths(
                self.index["enterptr"][low:high].astype(np.int64), low, top, np.empty(high - low, np.int64), depth
            )
        return pd.DataFrame(
            {
                "pos": self.index["pos_of"][low:high].astype(np.int64) + 1,
                "time": self.columns.seconds(self.index["time"][low:high]),
                "depth": depth,
            },
            index=pd.RangeIndex(low, high, name="row"),
        )

    def messages_underway(self) -> pd.DataFrame:
        """Return the range of positions for which each message is in the queue: `send <= p < recv`.

        Returns
        -------
        DataFrame
            `send`, ascending, and `recv`: positions, n + 1 if it is never received; `src_id`, `dest_id`: first
            locations of the processes, -1 unknown. Without cancelled sends. 24 B per message.
        """
        index, n = self.index, self.index["lost.send"].size
        first = np.append(self._first_of_process, -1).astype(np.int32)
        columns = {
            "send": np.concatenate([index["queue.send"], index["lost.send"]]) + 1,
            "recv": np.concatenate([index["queue.recv"] + 1, np.full(n, self._n + 1)]),
            "src_id": first[np.concatenate([index["queue.source"], index["lost.source"]])],
            "dest_id": first[np.concatenate([index["queue.destination"], index["lost.destination"]])],
        }
        return pd.DataFrame(columns).sort_values("send", ignore_index=True)

    def queue_lengths(self, src: int = -1, dest: int = -1) -> pd.DataFrame:
        """Return the number of messages underway after every event that changes it; `src` and `dest` as in `queue`.

        Returns
        -------
        DataFrame
            `pos`, ascending, `time` (seconds), `length`. 48 B per message.
        """
        m = self.messages_underway()
        for column, location in (("src_id", src), ("dest_id", dest)):
            if location != -1:
                m = m[m[column] == self._first_thread(int(self._process[self._known(location)]))]
        # messages received before they are sent are never underway
        m = m[m["send"] < m["recv"]]
        begin, end = m["send"].to_numpy(), m["recv"].to_numpy()
        pos = np.concatenate([begin, end[end <= self._n]])
        order = np.argsort(pos, kind="stable")
        change = np.where(order < begin.size, 1, -1)
        rows = self.index["row_of"][pos[order] - 1] if pos.size else pos
        time = self.columns.seconds(self.index["time"][rows])
        return pd.DataFrame({"pos": pos[order], "time": time, "length": np.cumsum(change)})
