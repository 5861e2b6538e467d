"""The enhanced model of a trace: the scans of all locations put together, and the compound tables made of them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.call_paths import CallPaths, merge_call_paths
from tracecols.enhance.communicators import Communicators
from tracecols.enhance.compound import CompoundTable
from tracecols.enhance.exchange import Exchange
from tracecols.enhance.grouping import Segments, combine, number
from tracecols.enhance.messages import post_messages
from tracecols.enhance.order import EventOrder
from tracecols.enhance.regions import Regions
from tracecols.enhance.scan import scan_locations
from tracecols.enhance.shipment import joined
from tracecols.enhance.spool import Spool
from tracecols.enhance.teams import Teams
from tracecols.enhance.topologies import Topology, read_topologies
from tracecols.once import once
from tracecols.schema import KINDS
from tracecols.schema.compound import PROFILE
from tracecols.store import Store
from tracecols.store.arrow import to_numpy

PART = 1 << 18
"""Calls and notes of a part, at least, four times as many once there are 16 parts, and more if one process has them or there
would be too many parts; a trace that has fewer is one part."""

N_PARTS = 64
"""Parts, at most, of processes of the same size."""

_SHARED = (
    "store", "regions", "n_locations", "process", "thread", "is_cpu", "communicators", "order", "scans", "call_paths", "spool", "jobs", "memo",
    "topologies", "misplaced",
)  # fmt: skip


class AllCalls:
    """The calls of all locations of a model, one after the other.

    Attributes
    ----------
    location : (n,) int32
    call_path : (n,) int32
        In the merged call tree.
    enter_row, exit_row, enter, exit, tasks : (n,) int64
    begin : (n,) int64
        Team begin (`Teams`) the thread was in; -1 none.
    start : (n_locations + 1,) int64
        First call of each location.
    """

    def __init__(self, model: Model) -> None:
        scans, numbers = model.scans, model.call_paths.numbers
        begin_start = model.teams_of.begin_start
        members = model.members.tolist()
        self._chosen = {i: scans[i].exchange_numbers for i in members} if model.is_exchange else {}
        counts = np.zeros(len(scans), np.int64)
        for i in members:
            counts[i] = self._chosen[i].size if model.is_exchange else scans[i].n_calls
        self.start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.location = np.repeat(np.arange(len(scans), dtype=np.int32), counts)

        def column(
            name: str, dtype: type, of: Callable[[int, NDArray[Any]], NDArray[Any]] | None = None
        ) -> NDArray[Any]:
            """Put a column of all locations together."""
            parts = []
            for i in members:
                part = getattr(scans[i].exchange_calls if model.is_exchange else scans[i].calls, name)
                parts.append(part if of is None else of(i, part))
            return joined(parts) if parts else np.zeros(0, dtype)

        self.call_path = column("node", np.int32, lambda i, node: numbers[i][node])
        self.begin = column("team", np.int64, lambda i, team: np.where(team >= 0, team + begin_start[i], -1))
        self.enter_row, self.exit_row = column("enter_row", np.int64), column("exit_row", np.int64)
        self.enter, self.exit = column("enter", np.int64), column("exit", np.int64)
        self.tasks: NDArray[np.int64] = np.broadcast_to(np.int64(0), self.enter.shape)
        if any(scans[i].has_tasks for i in members):
            self.tasks = column(
                "tasks", np.int64, lambda i, tasks: tasks if tasks.size else np.zeros(int(counts[i]), np.int64)
            )

    def number(self, location: int, call: NDArray[np.int64]) -> NDArray[np.int64]:
        """Turn a location's own numbers of calls into numbers here; -1 stays."""
        if self._chosen:
            call = np.where(call >= 0, np.searchsorted(self._chosen[location], call), -1)
        return np.where(call >= 0, call + self.start[location], -1)


class FamilyNotes:
    """The events of one family on all locations with their attributes, in the order of the event table.

    Attributes
    ----------
    location, row, kind, time, call : (n,)
        Location and row; kind; time in ticks; number of the enclosing call in `AllCalls`, -1 none.
    """

    def __init__(self, model: Model, family: str, columns: list[str]) -> None:
        member = np.zeros(256, bool)
        member[[k.number for k in KINDS if k.family == family]] = True
        parts: list[dict[str, NDArray[Any]]] = []
        for i in model.members.tolist():
            side = model.store.read(family, i, ["row", "kind", *columns])
            side_kind = side.pop("kind")
            if not side_kind.size:
                continue
            notes = model.scans[i].notes
            kind = notes.kind
            mine = member[kind]
            if not np.array_equal(kind[mine], side_kind):
                raise model.store.damaged(f"location {i}: the kinds of its events are not those in the table {family}")
            call = notes.call[mine]
            parts.append(
                {
                    **side,
                    "location": np.full(call.size, i, np.int32),
                    "kind": side_kind,
                    "time": notes.time[mine],
                    "call": model.calls.number(i, call),
                }
            )
        for name in ("location", "row", "kind", "time", "call", *columns):
            setattr(self, name, joined([p[name] for p in parts]) if parts else np.zeros(0, np.int64))

    location: NDArray[np.int32]
    row: NDArray[np.int64]
    kind: NDArray[np.uint8]
    time: NDArray[np.int64]
    call: NDArray[np.int64]

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Put the events in another order."""
        for name, column in vars(self).items():
            setattr(self, name, column[order])

    def __getattr__(self, name: str) -> NDArray[Any]:
        raise AttributeError(name)


class Model:
    """The enhanced model of a trace.

    Parameters
    ----------
    store : Store
        The trace.
    jobs : int
        Threads.
    progress : callable, optional
        Called with the number of events scanned and of all.

    Attributes
    ----------
    regions, communicators, order, teams, scans, call_paths, calls
        See their classes.
    process, thread : (n_locations,) int32
        Process and number in it of every location.
    is_cpu : (n_locations,) bool
        Whether a location is a CPU thread.
    members : (n_members,) int64
        Locations whose calls and notes it sees; of a part not all.
    part : int
        Number of the part it is; the collective operations it sees are those of the range with that number.
    is_exchange : bool
        Whether it sees only the calls that matter to all processes at once.
    topologies : list of Topology
        Those of the trace, and what is added by hand.
    misplaced : int
        Positions of the trace that do not fit their topology.
    posted_sends : CompoundTable, optional
        All sends of this part, once it has posted them.
    spool : Spool
        Where the columns of its scans stay.
    memo : mapping
        What steps remember of the whole trace, by the function that made it and as long as that exists.
    """

    def __init__(self, store: Store, jobs: int, progress: Callable[[int, int], None] | None = None) -> None:
        self.store, self.jobs = store, jobs
        self.memo: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.regions = Regions(store)
        locations = store.definitions["locations"]
        self.n_locations = locations.num_rows
        self.process = to_numpy(locations.column("process"))
        self.thread = to_numpy(locations.column("thread"))
        self.is_cpu = np.array(locations.column("type").to_pylist(), object) != "metric"
        first_rows = to_numpy(locations.column("first_row"))
        self.communicators = Communicators(store, self.process)
        self.order = EventOrder(store, first_rows)
        self.topologies: list[Topology]
        self.topologies, self.misplaced = read_topologies(store)
        self.members, self.part, self.is_exchange = np.arange(self.n_locations), 0, False
        self.posted_sends: CompoundTable | None = None
        self.spool = Spool()
        self.scans = scan_locations(
            store, self.regions, self.process, self.order, first_rows, jobs, self.spool, progress
        )
        self.call_paths: CallPaths = merge_call_paths(self.scans, self.regions, self.order)

    def _view(self, members: NDArray[np.int64]) -> Model:
        view = object.__new__(Model)
        for name in _SHARED:
            setattr(view, name, getattr(self, name))
        view.members, view.part, view.is_exchange, view.posted_sends = members, 0, False, None
        return view

    def view(self, members: NDArray[np.int64], exchange: Exchange, part: int) -> Model:
        """Return a model of the same trace that sees the processes of one part only."""
        view = self._view(members)
        view.part, view.exchange = part, exchange
        return view

    @once
    def whole(self) -> Model:
        """A model for the tables that join all processes at once: one-sided communication, start and end of MPI; itself if small."""
        if self.fits:
            return self
        view = self._view(self.members)
        view.is_exchange = True
        return view

    def with_topologies(self, more: list[Topology]) -> Model:
        """Return a model of the same trace that knows further topologies, before its own; it shares what has been computed."""
        model = copy(self)
        # it would hand out the model it was made for
        model.__dict__.pop("exchange", None)
        model.topologies = [*more, *self.topologies]
        return model

    @property
    def fits(self) -> bool:
        """Whether the compound tables of all locations may be made at the same time."""
        return sum(scan.n_calls + scan.n_notes for scan in self.scans) <= PART

    @once
    def exchange(self) -> Exchange:
        """What the processes tell each other, all at once."""
        return Exchange(self, [self.members])

    def divided(self) -> Exchange:
        """Divide the model into parts of whole processes, for one analysis in bounded memory; one part if it is small.

        Use it in a `with`, at whose end what the parts have told each other is given back.
        """
        if self.fits:
            return self.exchange
        sizes = np.array([scan.n_calls + scan.n_notes for scan in self.scans])
        # as small as memory and caches like, but with many parts each costs more: they all talk to each other
        total = int(sizes.sum())
        room = max(PART, min(total // 16, 4 * PART), total // N_PARTS)
        division: list[NDArray[np.int64]] = []
        members: list[NDArray[np.int64]] = []
        filled = 0
        by_process = np.argsort(self.process, kind="stable")
        for locations in np.split(by_process, np.flatnonzero(np.diff(self.process[by_process])) + 1):
            n = int(sizes[locations].sum())
            if members and filled + n > room:
                division.append(np.concatenate(members))
                members, filled = [], 0
            members.append(locations)
            filled += n
        return Exchange(self, [*division, np.concatenate(members)])

    @once
    def teams_of(self) -> Teams:
        """Team instances, as recorded."""
        members = np.zeros(0, np.int64) if self.is_exchange else self.members
        return Teams(self.store, self.process, members)

    @once
    def calls(self) -> AllCalls:
        """Region instances that matter to joins."""
        return AllCalls(self)

    def notes(self, family: str, columns: list[str]) -> FamilyNotes:
        """Return the events of a family with some of their attributes."""
        return FamilyNotes(self, family, columns)

    @property
    def resolution(self) -> int:
        """Ticks per second."""
        return int(self.store.manifest["clock"]["resolution"])

    @once
    def profile(self) -> CompoundTable:
        """Exclusive time and visits per call path and location."""
        numbers = self.call_paths.numbers
        location = np.repeat(np.arange(self.n_locations), [n.size for n in numbers])
        call_path = np.concatenate([*numbers, np.zeros(0, np.int64)])
        exclusive = np.concatenate([*(s.exclusive for s in self.scans), np.zeros(0, np.int64)])
        visits = np.concatenate([*(s.visits for s in self.scans), np.zeros(0, np.int64)])
        inherited = np.concatenate([*(s.inherited() for s in self.scans), np.zeros(0, bool)])
        # a thread that inherits one call path from several masters has it several times
        group, first = number(combine(location, call_path))
        segments = Segments(group, first.size)
        return CompoundTable(
            PROFILE,
            first.size,
            {
                "call_path": call_path[first].astype(np.int32),
                "location": location[first].astype(np.int32),
                "exclusive": segments.sum(exclusive),
                "visits": segments.sum(visits),
                "inherited": segments.any(inherited),
            },
        )

    @once
    def _received(self) -> tuple[CompoundTable, CompoundTable]:
        return self.exchange.messages(self.part)

    @property
    def messages(self) -> CompoundTable:
        """Point-to-point messages received here."""
        return self._received[0]

    @property
    def receives(self) -> CompoundTable:
        """All receives."""
        return self._received[1]

    @once
    def sent_messages(self) -> CompoundTable:
        """Point-to-point messages sent from here."""
        return self.exchange.sent_messages(self.part)

    @property
    def sends(self) -> CompoundTable:
        """All sends."""
        self.exchange.post(self)
        if self.posted_sends is None:
            # another view of this part has posted them
            self.posted_sends = post_messages(self, self.exchange)[1]
        return self.posted_sends

    @once
    def _collectives(self) -> tuple[CompoundTable, CompoundTable]:
        return self.exchange.collectives(self.part)

    @property
    def collectives(self) -> CompoundTable:
        """MPI collective operations."""
        return self._collectives[0]

    @property
    def collective_members(self) -> CompoundTable:
        """Participants of MPI collective operations."""
        return self._collectives[1]

    @once
    def region_instances(self) -> CompoundTable:
        """Executions of regions."""
        from tracecols.enhance.pointers import region_instances

        return region_instances(self, self.members.tolist())

    @once
    def startups(self) -> CompoundTable:
        """Processes in MPI_Init and MPI_Finalize."""
        from tracecols.enhance.collectives import find_startups

        return find_startups(self)

    @once
    def teams(self) -> CompoundTable:
        """Team instances."""
        from tracecols.enhance.constructs import match_teams

        return match_teams(self)

    @once
    def _constructs(self) -> tuple[CompoundTable, CompoundTable]:
        from tracecols.enhance.constructs import match_constructs

        return match_constructs(self)

    @property
    def constructs(self) -> CompoundTable:
        """OpenMP constructs."""
        return self._constructs[0]

    @property
    def construct_members(self) -> CompoundTable:
        """Threads in OpenMP constructs."""
        return self._constructs[1]

    @once
    def window_members(self) -> CompoundTable:
        """Processes in collective operations on windows."""
        from tracecols.enhance.windows import match_window_collectives

        return match_window_collectives(self)

    @once
    def epochs(self) -> CompoundTable:
        """Access epochs and the exposure epochs they access."""
        from tracecols.enhance.windows import match_epochs

        return match_epochs(self)

    @once
    def _locks(self) -> tuple[CompoundTable, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        from tracecols.enhance.locks import match_locks

        return match_locks(self)

    @property
    def lock_acquisitions(self) -> CompoundTable:
        """Acquisitions of locks."""
        return self._locks[0]

    @property
    def lockptr(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of all lock events and the lock events before them; -1 null."""
        return self._locks[1]
