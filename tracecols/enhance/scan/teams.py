"""Team instances: which threads run together, between which FORK and JOIN (EARL 2; thesis 3.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import mask_of, number, occurrence
from tracecols.enhance.definitions.locations import Locations
from tracecols.kernels.actions import FORK, JOIN, TEAM_BEGIN, TEAM_END, kinds_that
from tracecols.once import once
from tracecols.schema import EventKind
from tracecols.store import Store

FORKS, JOINS = kinds_that(FORK), kinds_that(JOIN)
IS_FORK, IS_JOIN = mask_of(FORKS), mask_of(JOINS)
KEPT = mask_of(kinds_that(FORK, JOIN, TEAM_BEGIN, TEAM_END))

LATE = np.iinfo(np.int64).max
"""Time of a JOIN that never was."""

_PROCESSES, _LOCATIONS = 1 << 40, 1 << 41
"""What teams are counted from that are not defined: one of each process, one of each location."""


@dataclass
class ThreadEvents:
    """The thread events of one location, in order."""

    row: NDArray[np.int64]
    kind: NDArray[np.uint8]
    team: NDArray[np.int32]

    @property
    def is_begin(self) -> NDArray[np.bool_]:
        """Which begin a team."""
        return self.kind == EventKind.THREAD_TEAM_BEGIN


class Teams:
    """The team instances of a trace, or of some of its locations; instance k of a team is the k-th time each of its
    threads begins in it.

    A team that a recording names but does not define is -1: nothing says who else is in it, so each thread has one of
    its own.

    Recordings without events of their own for that (EPILOG, older OTF2) have one team per process: all its threads
    belong to it between each FORK and JOIN of the process's master.

    Attributes
    ----------
    events : list of ThreadEvents
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
    """

    def __init__(
        self,
        store: Store,
        locations: Locations,
        members: NDArray[np.int64] | None = None,
        forker: NDArray[np.int64] | None = None,
    ) -> None:
        process, n_locations = locations.process, len(locations)
        chosen = np.arange(n_locations) if members is None else np.sort(members)
        columns, counts = store.read_together("threads", chosen, ["row", "kind", "team"])
        kept = KEPT[columns["kind"]]
        of = np.repeat(chosen, counts)[kept]
        row, kind, team = (columns[c][kept] for c in ("row", "kind", "team"))
        nothing = ThreadEvents(row[:0], kind[:0], team[:0])
        self.events = [nothing] * n_locations
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), of.size], strict=False):
            self.events[of[start]] = ThreadEvents(row[start:stop], kind[start:stop], team[start:stop])
        is_fork, is_begin = IS_FORK[kind], kind == EventKind.THREAD_TEAM_BEGIN
        self.forker = self._forkers(locations, of[is_fork], of[is_begin]) if forker is None else forker
        self._n_defined = int(team.max(initial=-1)) + 1
        # defined teams, one of each process, and an unknown one of each location
        first_unknown = self._n_defined + int(process.max(initial=-1)) + 1
        # the thread that forked begins in the team with its FORK, or right after it
        n_forks = np.bincount(of[is_fork], minlength=n_locations)
        self._fork_rows, self._fork_start = row[is_fork], np.append(0, np.cumsum(n_forks))
        behind = np.cumsum(n_forks)
        own = np.flatnonzero(is_begin & (self.forker[of] < 0))
        own_team, own_location = team[own].astype(np.int64), of[own]
        self.n_undefined = int((own_team < 0).sum())
        after_fork = np.append(False, is_fork[:-1] & (of[1:] == of[:-1]))[own] if of.size else is_fork
        last_fork = np.cumsum(is_fork)[own] - 1 - (behind - n_forks)[own_location]
        # where no event says so, every thread of the process begins with each FORK
        forked = chosen[self.forker[chosen] >= 0]
        n_begins = n_forks[self.forker[forked]]
        location = np.repeat(forked, n_begins)
        turn = np.arange(location.size) - np.repeat(np.cumsum(n_begins) - n_begins, n_begins)
        location = np.concatenate([own_location, location])
        order = np.argsort(location, kind="stable")
        self.location = location[order].astype(np.int32)
        self.begin_start = np.searchsorted(self.location, np.arange(n_locations + 1))
        of_forked = location[own.size :]
        is_master = np.append(after_fork, self.forker[of_forked] == of_forked)[order]
        fork = np.append(last_fork, turn)[order]
        self.team = np.append(
            np.where(own_team >= 0, own_team, first_unknown + own_location), self._n_defined + process[of_forked]
        )[order]
        n_teams = int(self.team.max(initial=-1)) + 2
        k = occurrence(self.location.astype(np.int64) * n_teams + self.team)
        keys = k * n_teams + self.team
        group, first = number(keys)
        self.n_instances = first.size
        position = np.empty(first.size, np.int64)
        position[np.argsort(keys[first])] = np.arange(first.size)
        self.instance = position[group]
        by_position = first[np.argsort(position)]
        self.turn, team = k[by_position], self.team[by_position]
        # the same whichever locations there are: defined teams, those of processes, those of locations
        of_process, of_location = team - self._n_defined, team - first_unknown
        self.team_of_instance = np.where(
            team < self._n_defined, team, np.where(of_location < 0, _PROCESSES + of_process, _LOCATIONS + of_location)
        )
        self.master = np.full(self.n_instances, -1, np.int64)
        masters = np.flatnonzero(is_master)
        self.master[self.instance[masters]] = masters
        self.fork = np.where(self.master >= 0, fork[self.master] if fork.size else 0, -1)
        self.is_master = is_master
        forked_by = np.where(is_master, -1, pick(self.location, self.master[self.instance]))
        self._forked_by, self._fork_of_begin = forked_by.astype(np.int64), self.fork[self.instance]

    def _forkers(self, locations: Locations, forks: NDArray[np.int64], begins: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the processes whose threads do not say when they begin in a team, and which thread forks."""
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

    def masters_of(self, location: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each team begin of a location the location that forked and the number of its FORK; -1 for none or
        itself."""
        mine = self.begins_of(location)
        return self._forked_by[mine], self._fork_of_begin[mine]

    def marks_of(self, location: int) -> NDArray[np.int64]:
        """Return a number for each begin of a location; those of an instance add up to 0, and those of some of its
        threads do not."""
        return self._marks[self.begins_of(location)]

    @once
    def _marks(self) -> NDArray[np.int64]:
        mark = (self.instance + 1) * np.int64(-7046029254386353131)
        last = np.empty(self.n_instances, np.int64)
        last[self.instance] = np.arange(self.instance.size)
        mark[last] *= 1 - np.bincount(self.instance, minlength=self.n_instances)
        return mark

    def fork_rows_of(self, location: int) -> NDArray[np.int64]:
        """Return the rows of the FORKs of a location, in order."""
        return self._fork_rows[self._fork_start[location] : self._fork_start[location + 1]]


def events_in_teams(
    fork_time: NDArray[np.int64], join_time: NDArray[np.int64], time: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the first and the last event of a thread in every team that its process forks, where no events of their own
    say when it begins.

    Parameters
    ----------
    fork_time, join_time : (n_forks,) int64
        When the thread that forks does so, and when it joins; LATE if it never does.
    time : (n_events,) int64
        Events of the thread, never decreasing.

    Returns
    -------
    first, last : (n_forks,) int64
        Numbers of events; -1 where the thread has none between FORK and JOIN.
    """
    first = np.searchsorted(time, fork_time)
    last = np.searchsorted(time, join_time, "right") - 1
    # an event at the time of a JOIN and of the next FORK belongs to the next team
    last[:-1] = np.where(fork_time[1:] == join_time[:-1], np.minimum(last[:-1], first[1:] - 1), last[:-1])
    none = first > last
    return np.where(none, -1, first), np.where(none, -1, last)
