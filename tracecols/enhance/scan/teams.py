"""Team instances: the threads that run together between a FORK and its JOIN (EARL 2; thesis 3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import bounded, mask_of, ranges
from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.definitions.locations import Locations
from tracecols.kernels import teams as kernels
from tracecols.kernels.actions import FORK, JOIN, TEAM_BEGIN, TEAM_END, kinds_that
from tracecols.kernels.groups import MAX, reduce_groups
from tracecols.once import once
from tracecols.schema import EventKind
from tracecols.store import Store
from tracecols.vectors import Ints, Mask, offsets_of
from tracecols.work.large import BLOCK, LargeArrays, blocks

FORKS, JOINS = kinds_that(FORK), kinds_that(JOIN)
IS_FORK, IS_JOIN = mask_of(FORKS), mask_of(JOINS)
KEPT = mask_of(kinds_that(FORK, JOIN, TEAM_BEGIN, TEAM_END))

MEANING = np.where(IS_FORK, np.int8(kernels.FORKS), np.int8(kernels.NEITHER))
"""Meaning of each kind of event if threads record their begins in teams."""
MEANING[IS_JOIN] = kernels.JOINS
MEANING[EventKind.THREAD_TEAM_BEGIN] = kernels.BEGINS
MEANING[EventKind.THREAD_TEAM_END] = kernels.ENDS

COLUMNS = ["row", "kind", "team"]
"""Columns read of the events of threads."""

LATE = np.iinfo(np.int64).max
"""Time of a missing JOIN."""

_PROCESSES, _LOCATIONS = 1 << 40, 1 << 41
"""First numbers of undefined teams: one per process, one per location."""


@dataclass
class ThreadEvents:
    """The thread events of one location, in order, or of several, one location after the other: (n,) arrays."""

    row: Ints
    kind: NDArray[np.uint8]
    team: NDArray[np.int32]

    @property
    def is_begin(self) -> Mask:
        return self.kind == EventKind.THREAD_TEAM_BEGIN


@dataclass
class ForkSpans:
    """The FORKs of some locations in order, location by location: rows and times of the FORKs and their JOINs (row -1
    if there is none), and call paths of both (-1 if none). `start`: first FORK of each location, and their number.
    """

    start: Ints
    fork_row: Ints
    join_row: Ints
    fork_time: Ints
    join_time: Ints
    node: NDArray[np.int32]
    join_node: NDArray[np.int32]


class TeamEvents:
    """The thread events of all locations, one location after the other.

    Attributes
    ----------
    all : ThreadEvents
    start : (n_locations + 1,) int64
        First event of each location.
    forks : dict of int to ForkSpans
        By location, as far as they were requested (`location_scan.forks_of`).
    """

    def __init__(self, of_all: ThreadEvents, counts: Ints) -> None:
        self.all, self.start = of_all, offsets_of(counts)
        self.forks: dict[int, ForkSpans] = {}

    def at(self, location: int) -> ThreadEvents:
        here = slice(int(self.start[location]), int(self.start[location + 1]))
        return ThreadEvents(self.all.row[here], self.all.kind[here], self.all.team[here])

    def of(self, locations: Ints) -> tuple[ThreadEvents, Ints]:
        """Return the events of some locations, and the number of events of each."""
        counts = np.diff(self.start)[locations]
        at = ranges(self.start[locations], counts)
        return ThreadEvents(self.all.row[at], self.all.kind[at], self.all.team[at]), counts


class TeamBegins(NamedTuple):
    """The begins of a location in teams: the mark of each (`Teams.marks_of`), and the team instance, or -1 if the team
    is not defined or no thread forked it; (n_begins,) int64 each."""

    marks: Ints
    instance: Ints


class Teams:
    """The team instances of a trace, or of some of its locations. Instance k of a team consists of the k-th begin of
    each of its threads in the team. Processes whose threads use the same definition have separate teams.

    A team that is recorded but not defined is -1: its other members are unknown, so each thread has a separate one.

    In recordings without events for begins in teams (EPILOG, older OTF2) there is one team per process: all its threads
    belong to it between each FORK and JOIN of the master of the process.

    Attributes
    ----------
    events : TeamEvents
        By location.
    n_instances : int
    n_undefined : int
        Number of begins in teams that are not defined.
    begin_start : (n_locations + 1,) int64
        First team begin of each location.
    location, instance : (n_begins,)
        Location of each team begin, and the team instance it belongs to.
    turn, team_of_instance : (n_instances,) int64
        The order of the team instances: the number of earlier instances of the team, and the number of the team, which
        is unique in the whole trace.
    communicator : (n_instances,) int32
        The communicator that defines the team; -1 none.
    is_master : (n_begins,) bool
        Whether the thread of a team begin is the one that forked the team.
    master : (n_instances,) int64
        Team begin of the thread that forked the team; -1 if none did.
    fork : (n_instances,) int64
        Number of the FORK among the FORKs of the master's location.
    forker : (n_locations,) int64
        If begins in teams are not recorded: the location whose FORKs begin them; otherwise -1.
    large : LargeArrays
        Allocates the arrays that grow with a process.
    """

    def __init__(
        self, d: Definitions, members: Ints, forker: Ints | None = None, large: LargeArrays | None = None
    ) -> None:
        locations = d.locations
        n_locations, self.large = len(locations), large or LargeArrays()
        chosen = np.sort(members)
        self.events = _read(d.store, chosen, n_locations, self.large)
        n_forks, n_begins = self._count(kernels.FORKS), self._count(kernels.BEGINS)
        self.forker = _forkers(locations, n_forks > 0, n_begins > 0) if forker is None else forker
        self._n_defined = 1 + int(self.events.all.team.max(initial=-1))
        # if begins are not recorded, every thread of the process begins with each FORK
        is_forked = self.forker >= 0
        n_begins[is_forked] = n_forks[self.forker[is_forked]]
        is_chosen = np.zeros(n_locations, bool)
        is_chosen[chosen] = True
        n_begins[~is_chosen] = 0
        self.begin_start = offsets_of(n_begins)
        begins, of_process = self._list(locations, chosen[n_begins[chosen] > 0])
        self.location, team, self.instance, _, self.is_master = begins
        # how often each team runs: one more than the most begins of one of its threads before its last
        most = np.full(of_process.team.size, -1)
        reduce_groups(team, self.instance, most, MAX)
        most += 1
        self.n_instances = n = int(most.sum())
        new, full = partial(self.large.empty, n, np.int64), partial(self.large.full, n, -1, np.int64)
        found = kernels.Instances(new(), new(), full(), full(), new(), self.large.zeros(n, np.int64))
        if n:
            order = np.lexsort((of_process.process, of_process.team))
            kernels.number_instances(order, most, np.cumsum(most) - most, new(), begins, found)
        self.turn, self.master, self.fork = found.turn, found.master, found.fork
        self._last, self._size = found.last, found.size
        everywhere = self._everywhere(of_process)
        self.team_of_instance = self.large.computed(n, np.int64, lambda here: everywhere[found.team[here]])
        communicator = np.where(of_process.team < self._n_defined, of_process.team, -1).astype(np.int32)
        self.communicator = self.large.computed(n, np.int32, lambda here: communicator[found.team[here]])

    def _count(self, meaning: int) -> Ints:
        """Count the events with a meaning by location; (n_locations,) int64."""
        kind, start = self.events.all.kind, self.events.start
        at = self.large.chosen(kind.size, lambda here: MEANING.take(kind[here]) == meaning)
        return np.diff(np.searchsorted(at, start))

    def n_joins(self) -> Ints:
        """Return the number of JOINs of each location; (n_locations,) int64."""
        return self._count(kernels.JOINS)

    def _list(self, locations: Locations, chosen: Ints) -> tuple[kernels.Begins, kernels.ProcessTeams]:
        """List the begins of some locations in teams, and the teams; the k-th begin in a team belongs to the k-th
        instance of it."""
        n, large = int(self.begin_start[-1]), self.large
        types = np.int32, np.int64, np.int64, np.int64, np.bool_
        begins = kernels.Begins(*(large.empty(n, of) for of in types))  # type: ignore[arg-type]
        of_process = kernels.ProcessTeams(large.empty(n, np.int64), large.empty(n, np.int64))
        self._n_processes = int(locations.process.max(initial=-1)) + 1
        # defined teams, then one per process, then an undefined one per location
        first_unknown = self._n_defined + self._n_processes
        last = np.full((4, first_unknown + len(locations)), -1, np.int64)
        events, chosen = self.events.all, chosen[np.argsort(locations.process[chosen], kind="stable")]
        of_locations = kernels.Locations(chosen, self.forker, locations.process, self.events.start, self.begin_start)
        given = of_locations, MEANING, events.kind, events.team, self._n_defined, last, of_process, begins
        n_undefined, n_teams = kernels.list_begins(*given) if n else (0, 0)
        self.n_undefined = int(n_undefined)
        return begins, kernels.ProcessTeams(of_process.team[:n_teams], of_process.process[:n_teams])

    def _everywhere(self, teams: kernels.ProcessTeams) -> Ints:
        """Return numbers of teams (of defined ones, one per process, one per location) that do not depend on which
        locations are analysed."""
        of_process = teams.team - self._n_defined
        of_location = of_process - self._n_processes
        others = np.where(of_location < 0, _PROCESSES + of_process, _LOCATIONS + of_location)
        return np.where(teams.team < self._n_defined, teams.team, others) * self._n_processes + teams.process

    def begins_of(self, location: int) -> slice:
        """Return the range of team begins of a location."""
        return slice(int(self.begin_start[location]), int(self.begin_start[location + 1]))

    @once
    def _masters(self) -> tuple[Ints, Ints]:
        """For each team begin, the location that forked the team (-1 if there is none or it is the location itself) and
        the number of the FORK (-1 if there is none)."""

        def forked_by(here: slice) -> Ints:
            by = pick(self.location, self.master[self.instance[here]])
            return np.where(self.is_master[here], -1, by).astype(np.int64)

        n, computed = self.instance.size, self.large.computed
        return computed(n, np.int64, forked_by), computed(n, np.int64, lambda here: self.fork[self.instance[here]])

    def masters_of(self, location: int) -> tuple[Ints, Ints]:
        """Return for each team begin of a location the location that forked the team (-1 if there is none or it is the
        location itself) and the number of the FORK (-1 if there is none)."""
        mine, (master, fork) = self.begins_of(location), self._masters
        return master[mine], fork[mine]

    def marks_of(self, location: int) -> Ints:
        """Return a mark for each begin of a location: the marks of all threads of a team instance add up to 0, those of
        some of its threads do not."""
        mine = self.begins_of(location)

        def marks(here: slice) -> Ints:
            instance = self.instance[mine][here]
            mark = (instance + 1) * np.int64(-7046029254386353131)
            is_last = self._last[instance] == np.arange(here.start, here.stop) + mine.start
            mark[is_last] *= 1 - self._size[instance[is_last]]
            return mark

        return self.large.computed(mine.stop - mine.start, np.int64, marks)

    def marked_begins_of(self, location: int) -> TeamBegins:
        """Return the begins of a location for the search of moments at which its process can be divided."""
        mine = self.begins_of(location)

        def known(here: slice) -> Ints:
            instance = self.instance[mine][here]
            return np.where((self.communicator[instance] >= 0) & (self.master[instance] >= 0), instance, -1)

        return TeamBegins(self.marks_of(location), self.large.computed(mine.stop - mine.start, np.int64, known))

    @once
    def _forks(self) -> tuple[Ints, Ints]:
        """The rows of all FORKs, one location after the other, and the first FORK of each location."""
        kind = self.events.all.kind
        at = self.large.chosen(kind.size, lambda here: IS_FORK[kind[here]])
        return self.events.all.row[at], np.searchsorted(at, self.events.start)

    def fork_rows_of(self, location: int) -> Ints:
        """Return the rows of the FORKs of a location, in order."""
        rows, start = self._forks
        return rows[start[location] : start[location + 1]]


def _read(store: Store, chosen: Ints, n_locations: int, large: LargeArrays) -> TeamEvents:
    """Read the team events of some locations, which ascend, location by location."""
    counts = store.counts("threads")[chosen]
    row, kind, team = (large.empty(int(counts.sum()), of) for of in (np.int64, np.uint8, np.int32))
    kept_of, n = np.zeros(n_locations, np.int64), 0
    for some in bounded(counts, BLOCK):
        members, sizes = chosen[some], counts[some]
        of = np.repeat(members, sizes)
        # several locations with at most a block of events in total are read at once
        for here in blocks(of.size) if members.size == 1 else [slice(0, of.size)]:
            rows = _rows_of(store, members, here)
            kept = np.flatnonzero(KEPT[rows["kind"]])
            into = slice(n, n + kept.size)
            row[into], kind[into], team[into] = (rows[c].take(kept) for c in COLUMNS)
            if kept.size:
                kept_of[members[0] : members[-1] + 1] += np.bincount(
                    of[here][kept] - members[0], minlength=members[-1] - members[0] + 1
                )
            n += kept.size
    return TeamEvents(ThreadEvents(row[:n], kind[:n], team[:n]), kept_of)


def _forkers(locations: Locations, forks: Mask, begins: Mask) -> Ints:
    """Find, for processes whose threads do not record begins in teams, the location that forks, from the locations that
    fork and those that begin; -1 for other locations, (n_locations,)."""
    of_process = np.full(int(locations.process.max(initial=-1)) + 1, -1, np.int64)
    masters = np.flatnonzero(forks & (locations.master == np.arange(len(locations))))
    of_process[locations.process[masters]] = masters
    of_process[locations.process[begins]] = -1
    return np.where(locations.is_cpu, of_process[locations.process], -1)


def _rows_of(store: Store, members: Ints, here: slice) -> dict[str, NDArray[Any]]:
    """Read some rows of a location, or all rows of several that have at most a block in total."""
    if members.size == 1:
        return store.read("threads", int(members[0]), COLUMNS, here.start, here.stop)
    return store.read_together("threads", members, COLUMNS)[0]


def events_in_teams(fork_time: Ints, join_time: Ints, time: Ints) -> tuple[Ints, Ints]:
    """For traces without events for begins in teams: find the first and the last event of a thread in every team that
    its process forks.

    `join_time` is LATE if the JOIN is missing; `time` has the times of the thread's events, which never decrease.
    Returns (n_forks,) numbers of events; -1 if the thread has none between FORK and JOIN.
    """
    first = np.searchsorted(time, fork_time)
    last = np.searchsorted(time, join_time, "right") - 1
    # an event at the time of a JOIN and of the next FORK belongs to the next team
    last[:-1] = np.where(fork_time[1:] == join_time[:-1], np.minimum(last[:-1], first[1:] - 1), last[:-1])
    none = first > last
    return np.where(none, -1, first), np.where(none, -1, last)
