"""Team instances: which threads run together, between which FORK and JOIN (EARL 2; thesis 3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import bounded, mask_of, ranges
from tracecols.enhance.definitions.locations import Locations
from tracecols.kernels import teams as kernels
from tracecols.kernels.actions import FORK, JOIN, TEAM_BEGIN, TEAM_END, kinds_that
from tracecols.once import once
from tracecols.schema import EventKind
from tracecols.store import Store
from tracecols.work.large import BLOCK, LargeArrays, blocks

FORKS, JOINS = kinds_that(FORK), kinds_that(JOIN)
IS_FORK, IS_JOIN = mask_of(FORKS), mask_of(JOINS)
KEPT = mask_of(kinds_that(FORK, JOIN, TEAM_BEGIN, TEAM_END))

MEANING = np.where(IS_FORK, np.int8(kernels.FORKS), np.int8(kernels.NEITHER))
"""What kinds of events mean to teams that say who begins in them."""
MEANING[IS_JOIN] = kernels.JOINS
MEANING[EventKind.THREAD_TEAM_BEGIN] = kernels.BEGINS
MEANING[EventKind.THREAD_TEAM_END] = kernels.ENDS

COLUMNS = ["row", "kind", "team"]
"""What is read of events of threads."""

LATE = np.iinfo(np.int64).max
"""Time of a JOIN that never was."""

_PROCESSES, _LOCATIONS = 1 << 40, 1 << 41
"""What teams are counted from that are not defined: one of each process, one of each location."""


@dataclass
class ThreadEvents:
    """The thread events of one location, in order, or of several, one location after the other: (n,) arrays."""

    row: NDArray[np.int64]
    kind: NDArray[np.uint8]
    team: NDArray[np.int32]

    @property
    def is_begin(self) -> NDArray[np.bool_]:
        """Which begin a team."""
        return self.kind == EventKind.THREAD_TEAM_BEGIN


@dataclass
class ForkSpans:
    """The FORKs of some locations in order, location by location: their rows and times, those of their JOINs (row -1 if
    there is none), call paths of both (-1); first FORK of each location, and after the last one.
    """

    start: NDArray[np.int64]
    fork_row: NDArray[np.int64]
    join_row: NDArray[np.int64]
    fork_time: NDArray[np.int64]
    join_time: NDArray[np.int64]
    node: NDArray[np.int32]
    join_node: NDArray[np.int32]


class TeamEvents:
    """The thread events of all locations, those of one location after those of another.

    Attributes
    ----------
    all : ThreadEvents
    start : (n_locations + 1,) int64
        Where those of each location begin.
    forks : dict of int to ForkSpans
        By location, as far as they were asked for (`scan.forks_of`).
    """

    def __init__(self, of_all: ThreadEvents, counts: NDArray[np.int64]) -> None:
        self.all, self.start = of_all, np.append(0, np.cumsum(counts))
        self.forks: dict[int, ForkSpans] = {}

    def at(self, location: int) -> ThreadEvents:
        """Return those of a location."""
        here = slice(int(self.start[location]), int(self.start[location + 1]))
        return ThreadEvents(self.all.row[here], self.all.kind[here], self.all.team[here])

    def of(self, locations: NDArray[np.int64]) -> tuple[ThreadEvents, NDArray[np.int64]]:
        """Return those of some locations, and how many each has."""
        counts = np.diff(self.start)[locations]
        at = ranges(self.start[locations], counts)
        return ThreadEvents(self.all.row[at], self.all.kind[at], self.all.team[at]), counts


class TeamBegins(NamedTuple):
    """The begins of a location in teams: a mark of each (`Teams.marks_of`), and the team instance, -1 where it is not
    defined or nobody forked it; (n_begins,) int64 each."""

    marks: NDArray[np.int64]
    instance: NDArray[np.int64]


class Teams:
    """The team instances of a trace, or of some of its locations; instance k of a team is the k-th time each of its
    threads begins in it.

    A team that a recording names but does not define is -1: nothing says who else is in it, so each thread has one of
    its own.

    Recordings without events of their own for that (EPILOG, older OTF2) have one team per process: all its threads
    belong to it between each FORK and JOIN of the process's master.

    Attributes
    ----------
    events : TeamEvents
        By location.
    n_instances : int
    n_undefined : int
        Begins in teams that are not defined.
    begin_start : (n_locations + 1,) int64
        First of each location's team begins among all.
    location, team, instance : (n_begins,)
        Location of each team begin, its team, and the team instance it belongs to.
    turn, team_of_instance : (n_instances,) int64
        Team instances are numbered by these: the how manieth time it is that the team runs, and what tells the team
        from those of all other locations, too.
    is_master : (n_begins,) bool
        Whether the thread of a team begin is the one that forked.
    master : (n_instances,) int64
        Team begin of the thread that forked; -1 if none did.
    fork : (n_instances,) int64
        Number of the FORK among those of the master's location.
    forker : (n_locations,) int64
        Where teams are not begun by events of their own: the location whose FORKs begin them, -1 elsewhere.
    large : LargeArrays
        Makes the arrays that grow with a process.
    """

    def __init__(
        self,
        store: Store,
        locations: Locations,
        members: NDArray[np.int64] | None = None,
        forker: NDArray[np.int64] | None = None,
        large: LargeArrays | None = None,
    ) -> None:
        n_locations, self.large = len(locations), large or LargeArrays()
        chosen = np.arange(n_locations) if members is None else np.sort(members)
        self.events = _read(store, chosen, n_locations, self.large)
        n_forks, n_begins = self._count(kernels.FORKS), self._count(kernels.BEGINS)
        self.forker = (
            self._forkers(locations, np.flatnonzero(n_forks), np.flatnonzero(n_begins)) if forker is None else forker
        )
        self._n_defined = 1 + int(self.events.all.team.max(initial=-1))
        # where no event says so, every thread of the process begins with each FORK
        is_forked = self.forker >= 0
        n_begins[is_forked] = n_forks[self.forker[is_forked]]
        is_chosen = np.zeros(n_locations, bool)
        is_chosen[chosen] = True
        n_begins[~is_chosen] = 0
        self.begin_start = np.append(0, np.cumsum(n_begins))
        begins = self._list(locations, chosen[n_begins[chosen] > 0])
        self.location, self.team, self.instance, _, self.is_master = begins
        most = np.zeros(self._n_defined + self._n_processes + n_locations, np.int64)
        if self.team.size:
            kernels.count_turns(begins, most)
        self.n_instances = n = int(most.sum())
        new, full = partial(self.large.empty, n, np.int64), partial(self.large.full, n, -1, np.int64)
        found = kernels.Instances(new(), new(), full(), full(), new(), self.large.zeros(n, np.int64))
        runs, start = np.flatnonzero(most), np.cumsum(most) - most
        if n:
            kernels.number_instances(runs, most, start, new(), begins, found)
        self.turn, self.master, self.fork = found.turn, found.master, found.fork
        self._last, self._size = found.last, found.size
        self.team_of_instance = self.large.computed(n, np.int64, lambda here: self._team_everywhere(found.team[here]))

    def _count(self, meaning: int) -> NDArray[np.int64]:
        """Count the events of a meaning; (n_locations,) int64."""
        kind, start = self.events.all.kind, self.events.start
        at = self.large.chosen(kind.size, lambda here: MEANING.take(kind[here]) == meaning)
        return np.diff(np.searchsorted(at, start))

    def _list(self, locations: Locations, chosen: NDArray[np.int64]) -> kernels.Begins:
        """List the begins of some locations in teams, of which the k-th in a team is the k-th turn of it."""
        n, large = int(self.begin_start[-1]), self.large
        types = np.int32, np.int64, np.int64, np.int64, np.bool_
        begins = kernels.Begins(*(large.empty(n, of) for of in types))  # type: ignore[arg-type]
        self._n_processes = int(locations.process.max(initial=-1)) + 1
        # defined teams, one of each process, and an unknown one of each location
        first_unknown = self._n_defined + self._n_processes
        turns = np.full((2, first_unknown + len(locations)), -1, np.int64)
        events = self.events.all
        of_locations = kernels.Locations(chosen, self.forker, locations.process, self.events.start, self.begin_start)
        given = of_locations, MEANING, events.kind, events.team, self._n_defined, turns, begins
        self.n_undefined = int(kernels.list_begins(*given)) if n else 0
        return begins

    def _team_everywhere(self, team: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return numbers of teams that are the same whichever locations there are: of defined ones, of those of
        processes, and of those of locations."""
        of_process = team - self._n_defined
        of_location = of_process - self._n_processes
        others = np.where(of_location < 0, _PROCESSES + of_process, _LOCATIONS + of_location)
        return np.where(team < self._n_defined, team, others)

    def _forkers(self, locations: Locations, forks: NDArray[np.int64], begins: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the processes whose threads do not say when they begin in a team, and which thread forks; given the
        locations that fork, and those that begin."""
        of_process = np.full(int(locations.process.max(initial=-1)) + 1, -1, np.int64)
        masters = forks[locations.master[forks] == forks]
        of_process[locations.process[masters]] = masters
        of_process[locations.process[begins]] = -1
        return np.where(locations.is_cpu, of_process[locations.process], -1)

    def communicator_of(self, team: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the definition of teams; -1 for those that have none."""
        return np.where(team < self._n_defined, team, -1).astype(np.int32)

    def begins_of(self, location: int) -> slice:
        """Return which team begins are a location's."""
        return slice(int(self.begin_start[location]), int(self.begin_start[location + 1]))

    @once
    def _masters(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each team begin the location that forked and the number of its FORK; -1 for none or itself."""

        def forked_by(here: slice) -> NDArray[np.int64]:
            by = pick(self.location, self.master[self.instance[here]])
            return np.where(self.is_master[here], -1, by).astype(np.int64)

        n, computed = self.instance.size, self.large.computed
        return computed(n, np.int64, forked_by), computed(n, np.int64, lambda here: self.fork[self.instance[here]])

    def masters_of(self, location: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each team begin of a location the location that forked and the number of its FORK; -1 for none or
        itself."""
        mine, (master, fork) = self.begins_of(location), self._masters
        return master[mine], fork[mine]

    def marks_of(self, location: int) -> NDArray[np.int64]:
        """Return a number for each begin of a location; those of an instance add up to 0, and those of some of its
        threads do not."""
        mine = self.begins_of(location)

        def marks(here: slice) -> NDArray[np.int64]:
            instance = self.instance[mine][here]
            mark = (instance + 1) * np.int64(-7046029254386353131)
            is_last = self._last[instance] == np.arange(here.start, here.stop) + mine.start
            mark[is_last] *= 1 - self._size[instance[is_last]]
            return mark

        return self.large.computed(mine.stop - mine.start, np.int64, marks)

    def marked_begins_of(self, location: int) -> TeamBegins:
        """Return the begins of a location, where moments are looked for at which its process can be divided."""
        mine = self.begins_of(location)

        def known(here: slice) -> NDArray[np.int64]:
            team, instance = self.team[mine][here], self.instance[mine][here]
            return np.where((team < self._n_defined) & (self.master[instance] >= 0), instance, -1)

        return TeamBegins(self.marks_of(location), self.large.computed(mine.stop - mine.start, np.int64, known))

    @once
    def _forks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of all FORKs, one location after the other, and where those of each location begin."""
        kind = self.events.all.kind
        at = self.large.chosen(kind.size, lambda here: IS_FORK[kind[here]])
        return self.events.all.row[at], np.searchsorted(at, self.events.start)

    def fork_rows_of(self, location: int) -> NDArray[np.int64]:
        """Return the rows of the FORKs of a location, in order."""
        rows, start = self._forks
        return rows[start[location] : start[location + 1]]


def _read(store: Store, chosen: NDArray[np.int64], n_locations: int, large: LargeArrays) -> TeamEvents:
    """Read the events of teams of some locations, ascending; by location."""
    counts = store.counts("threads")[chosen]
    row, kind, team = (large.empty(int(counts.sum()), of) for of in (np.int64, np.uint8, np.int32))
    kept_of, n = np.zeros(n_locations, np.int64), 0
    for some in bounded(counts, BLOCK):
        members, sizes = chosen[some], counts[some]
        of = np.repeat(members, sizes)
        # several that have no more than a block together are read at once
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


def _rows_of(store: Store, members: NDArray[np.int64], here: slice) -> dict[str, NDArray[Any]]:
    """Read some rows of a location, or all of several that have no more than a block."""
    if members.size == 1:
        return store.read("threads", int(members[0]), COLUMNS, here.start, here.stop)
    return store.read_together("threads", members, COLUMNS)[0]


def events_in_teams(
    fork_time: NDArray[np.int64], join_time: NDArray[np.int64], time: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the first and the last event of a thread in every team that its process forks, where no events of their own
    say when it begins.

    `join_time` is LATE if the thread that forks never joins; the times of the thread's events never decrease. Returns
    (n_forks,) numbers of events; -1 where the thread has none between FORK and JOIN.
    """
    first = np.searchsorted(time, fork_time)
    last = np.searchsorted(time, join_time, "right") - 1
    # an event at the time of a JOIN and of the next FORK belongs to the next team
    last[:-1] = np.where(fork_time[1:] == join_time[:-1], np.minimum(last[:-1], first[1:] - 1), last[:-1])
    none = first > last
    return np.where(none, -1, first), np.where(none, -1, last)
