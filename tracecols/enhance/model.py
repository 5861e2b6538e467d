"""The enhanced model of a trace: the scans of all locations put together, and the compound tables made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.call_paths import CallPaths, merge_call_paths
from tracecols.enhance.communicators import Communicators
from tracecols.enhance.compound import CompoundTable
from tracecols.enhance.grouping import Segments, combine
from tracecols.enhance.order import EventOrder
from tracecols.enhance.regions import Regions
from tracecols.enhance.scan import LocationScan, scan_locations
from tracecols.enhance.teams import Teams
from tracecols.schema import KINDS
from tracecols.schema.compound import PROFILE
from tracecols.store import Store
from tracecols.store.arrow import to_numpy


class AllCalls:
    """The calls of all locations, one after the other.

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

    def __init__(
        self, scans: list[LocationScan], numbers: list[NDArray[np.int64]], begin_start: NDArray[np.int64]
    ) -> None:
        counts = [s.calls.node.size for s in scans]
        self.start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.location = np.repeat(np.arange(len(scans), dtype=np.int32), counts)

        def joined(name: str, dtype: type, of: Callable[[int, NDArray[Any]], NDArray[Any]] | None = None) -> NDArray[Any]:
            """Put a column of all locations together, and let go of its parts one by one."""
            result: NDArray[Any] = np.empty(int(self.start[-1]), dtype)
            for i, scan in enumerate(scans):
                part = scan.calls.take(name)
                result[self.start[i] : self.start[i + 1]] = part if of is None else of(i, part)
            return result

        self.call_path = joined("node", np.int32, lambda i, node: numbers[i][node])
        self.begin = joined("team", np.int64, lambda i, team: np.where(team >= 0, team + begin_start[i], -1))
        self.enter_row, self.exit_row = joined("enter_row", np.int64), joined("exit_row", np.int64)
        self.enter, self.exit = joined("enter", np.int64), joined("exit", np.int64)
        has_tasks = any(scan.calls.tasks.any() for scan in scans)
        tasks = joined("tasks", np.int64) if has_tasks else np.broadcast_to(np.int64(0), self.enter.shape)
        self.tasks: NDArray[np.int64] = tasks


class FamilyNotes:
    """The events of one family on all locations with their attributes, in the order of the event table.

    Attributes
    ----------
    location, row, kind, time, call : (n,)
        Location and row; kind; time in ticks; number of the enclosing call in `AllCalls`, -1 none.
    """

    def __init__(
        self, store: Store, scans: list[LocationScan], calls: AllCalls, family: str, columns: list[str]
    ) -> None:
        member = np.zeros(256, bool)
        member[[k.number for k in KINDS if k.family == family]] = True
        parts: list[dict[str, NDArray[Any]]] = []
        for i, scan in enumerate(scans):
            mine = member[scan.notes.kind]
            side = store.read(family, i, ["row", *columns])
            call = scan.notes.call[mine]
            parts.append(
                {
                    **side,
                    "location": np.full(call.size, i, np.int32),
                    "kind": scan.notes.kind[mine],
                    "time": scan.notes.time[mine],
                    "call": np.where(call >= 0, call + calls.start[i], -1),
                }
            )
        for name in ("location", "row", "kind", "time", "call", *columns):
            setattr(self, name, np.concatenate([p[name] for p in parts]) if parts else np.zeros(0, np.int64))

    location: NDArray[np.int32]
    row: NDArray[np.int64]
    kind: NDArray[np.uint8]
    time: NDArray[np.int64]
    call: NDArray[np.int64]

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
    """

    def __init__(self, store: Store, jobs: int, progress: Callable[[int, int], None] | None = None) -> None:
        self.store = store
        self.regions = Regions(store)
        locations = store.definitions["locations"]
        self.n_locations = locations.num_rows
        self.process = to_numpy(locations.column("process"))
        self.thread = to_numpy(locations.column("thread"))
        self.is_cpu = np.array(locations.column("type").to_pylist(), object) != "metric"
        first_rows = to_numpy(locations.column("first_row"))
        self.communicators = Communicators(store, self.process)
        self.order = EventOrder(store, first_rows)
        self.teams_of = Teams(store, self.process)
        self.scans = scan_locations(store, self.regions, self.teams_of, self.order, first_rows, jobs, progress)
        self.call_paths: CallPaths = merge_call_paths(self.scans, self.regions, self.order)
        self.calls = AllCalls(self.scans, self.call_paths.numbers, self.teams_of.begin_start)

    def notes(self, family: str, columns: list[str]) -> FamilyNotes:
        """Return the events of a family with some of their attributes."""
        return FamilyNotes(self.store, self.scans, self.calls, family, columns)

    @property
    def resolution(self) -> int:
        """Ticks per second."""
        return int(self.store.manifest["clock"]["resolution"])

    @cached_property
    def profile(self) -> CompoundTable:
        """Exclusive time and visits per call path and location."""
        numbers = self.call_paths.numbers
        location = np.repeat(np.arange(self.n_locations), [n.size for n in numbers])
        call_path = np.concatenate([*numbers, np.zeros(0, np.int64)])
        exclusive = np.concatenate([*(s.exclusive for s in self.scans), np.zeros(0, np.int64)])
        visits = np.concatenate([*(s.visits for s in self.scans), np.zeros(0, np.int64)])
        inherited = np.concatenate([*(s.inherited() for s in self.scans), np.zeros(0, bool)])
        # a thread that inherits one call path from several masters has it several times
        _, first, group = np.unique(combine(location, call_path), return_index=True, return_inverse=True)
        segments = Segments(group, first.size)
        order = np.argsort(first)
        return CompoundTable(
            PROFILE,
            first.size,
            {
                "call_path": call_path[first[order]].astype(np.int32),
                "location": location[first[order]].astype(np.int32),
                "exclusive": segments.sum(exclusive)[order],
                "visits": segments.sum(visits)[order],
                "inherited": segments.any(inherited)[order],
            },
        )

    @cached_property
    def _messages(self) -> tuple[CompoundTable, CompoundTable]:
        from tracecols.enhance.messages import match_messages

        return match_messages(self)

    @property
    def messages(self) -> CompoundTable:
        """Point-to-point messages."""
        return self._messages[0]

    @property
    def sends(self) -> CompoundTable:
        """All sends."""
        return self._messages[1]

    @cached_property
    def _collectives(self) -> tuple[CompoundTable, CompoundTable]:
        from tracecols.enhance.collectives import match_collectives

        return match_collectives(self)

    @property
    def collectives(self) -> CompoundTable:
        """MPI collective operations."""
        return self._collectives[0]

    @property
    def collective_members(self) -> CompoundTable:
        """Participants of MPI collective operations."""
        return self._collectives[1]

    @cached_property
    def startups(self) -> CompoundTable:
        """Processes in MPI_Init and MPI_Finalize."""
        from tracecols.enhance.collectives import find_startups

        return find_startups(self)

    @cached_property
    def teams(self) -> CompoundTable:
        """Team instances."""
        from tracecols.enhance.constructs import match_teams

        return match_teams(self)

    @cached_property
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

    @cached_property
    def window_members(self) -> CompoundTable:
        """Processes in collective operations on windows."""
        from tracecols.enhance.windows import match_window_collectives

        return match_window_collectives(self)

    @cached_property
    def epochs(self) -> CompoundTable:
        """Access epochs and the exposure epochs they access."""
        from tracecols.enhance.windows import match_epochs

        return match_epochs(self)

    @cached_property
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
