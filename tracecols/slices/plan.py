"""Plan which events a trace slice holds, so that it is a trace by itself.

A trace slice holds what a recording of the time range would have held, had it known the state at its start:

* Whatever is open at the start is entered again at the start time, with its attributes: region instances (also those
  that a PROGRAM_BEGIN, a calling context or MEASUREMENT_ON_OFF enters), FORKs and team begins, begins of created
  threads, suspended tasks, a flush of the trace buffer. Whatever is open at the end is closed at the end time, unless
  the location's events end before.
* Partners are found by counting: the k-th send and receive of a channel, the k-th collective operation on a
  communicator, a window or a file, the k-th access and exposure epoch, the k-th begin in a team. To join the same
  operations as in the whole trace, the slice records which numbers its operations have there (`slices.numbering`);
  operations whose partners it lacks are counted but not matched. For tools that do not know these numbers, archives
  omit messages and blocking collective operations whose partners lie before the start. Operations open at the start are
  completed by the partner they have in the whole trace: the requests of receives and of non-blocking collective
  operations, matching probes, and the calls that began an epoch or took a lock of a window are repeated at the start.
* A thread that left a team or an OpenMP construct before the start, while others had not, enters and leaves it once
  more at the start.
* Locations that are not chosen stay defined without events, so that ranks and communicators keep their meaning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import (
    Segments,
    combine,
    number_ascending,
    occurrence,
    pair_with_previous,
    ranges,
)
from tracecols.enhance.definitions.locations import CALLSITE, Locations
from tracecols.enhance.definitions.numbering import Numbering
from tracecols.enhance.definitions.regions import CONSTRUCTS, COPY, WAIT, Regions
from tracecols.enhance.scan.tasks import SWITCHES, TaskEvents
from tracecols.enhance.scan.teams import MEANING
from tracecols.kernels import cuts, pools, teams
from tracecols.kernels.actions import TEAM_BEGIN, TEAM_END
from tracecols.schema import EventKind
from tracecols.slices.numbering import OperationCounter, Repeated, SliceBounds
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask
from tracecols.work.executors import side_by_side

BATCH = 1 << 20
"""Number of events that are read at once."""

MOST_AHEAD = 64
"""Largest lead, in constructs of one role, of a thread over another one of its team that is taken to encounter them,
too. Leads are at most one if all wait for each other at the end of the construct, and arbitrary if they do not."""

ENTER_AND_EXIT = EventKind.ENTER, EventKind.EXIT

TEAM_CHANGE = np.where(cuts.ACTION == TEAM_BEGIN, 1, np.where(cuts.ACTION == TEAM_END, -1, 0))
"""Change of the number of teams a location is in, by event kind."""

COPY_BEGINS = (EventKind.RMA_PUT, EventKind.RMA_GET)
COPY_ENDS = (
    EventKind.RMA_OP_COMPLETE_BLOCKING, EventKind.RMA_OP_COMPLETE_NON_BLOCKING, EventKind.RMA_OP_COMPLETE_REMOTE,
)  # fmt: skip
"""Kinds that begin and end copies on streams; slices end copies with K_DONE."""

K_DONE = EventKind.RMA_OP_COMPLETE_BLOCKING

PARALLEL = CONSTRUCTS.index("parallel")
WAITING = (
    "barrier", "implicit_barrier", "critical", "atomic", "ordered", "task_wait", "function", "wrapper",
)  # fmt: skip
"""Roles of OpenMP regions in which a thread may wait for others."""

CLOSERS = {
    EventKind.ENTER: EventKind.EXIT,
    EventKind.PROGRAM_BEGIN: EventKind.PROGRAM_END,
    EventKind.CALLING_CONTEXT_ENTER: EventKind.CALLING_CONTEXT_EXIT,
    EventKind.MEASUREMENT_ON_OFF: EventKind.MEASUREMENT_ON_OFF,
    EventKind.THREAD_FORK: EventKind.THREAD_JOIN,
    EventKind.OMP_FORK: EventKind.OMP_JOIN,
    EventKind.THREAD_TEAM_BEGIN: EventKind.THREAD_TEAM_END,
    EventKind.THREAD_BEGIN: EventKind.THREAD_END,
}
"""The kind that closes what each kind opens."""

TO_IMPLICIT = {"generation": 0, "task": 0}
"""Changes that turn a switch to any task into a switch to the implicit task."""

_CLOSED = {
    EventKind.MEASUREMENT_ON_OFF: {"mode": 1},
    EventKind.PROGRAM_BEGIN: {"program": -1, "n_arguments": -1},
    EventKind.CALLING_CONTEXT_ENTER: {"unwind": -1},
    EventKind.THREAD_FORK: {"requested": -1},
    EventKind.OMP_FORK: {"requested": -1},
}


@dataclass
class AddedEvent:
    """An event that a trace slice adds to those of the trace, copied from one of them."""

    row: int
    """The event it is copied from, counting from the location's first."""
    kind: int
    region: int
    """`kind` and `region`: its kind and region."""
    changes: dict[str, int] | None = None
    """Values of its side table that differ; None for one that repeats everything, with attributes."""
    location: int = -1
    """Location of the event it is copied from; -1 for the same location."""


@dataclass
class LocationSlice:
    """The events of one location that a trace slice holds."""

    start: int
    stop: int
    """`start` and `stop`: the range of its events, start <= event < stop, counting from its first."""
    before: list[AddedEvent] = field(default_factory=list)
    after: list[AddedEvent] = field(default_factory=list)
    """`before` and `after`: events that are added before and after them."""
    dropped: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n,): events of this range that are left out, ascending, counting from the location's first."""
    n_calls: int = 0
    """Number of calls in which a thread may wait that are open at the start or the end."""

    @property
    def n_events(self) -> int:
        """Number of events of the location in the trace slice."""
        return len(self.before) + self.stop - self.start - self.dropped.size + len(self.after)


class Stacks:
    """Stacks of what is open at some event of one location."""

    def __init__(self, n_tasks: int) -> None:
        self.state = np.zeros(cuts.N_STATE, np.int64)
        self.top = np.full(cuts.TASKS + n_tasks, -1, np.int64)
        self._items = pools.linked(cuts.Items, 64)
        self._base, self._batch = -1, Columns()

    def walk(self, store: Store, location: int, start: int, stop: int, slots: Ints) -> None:
        """Advance from event `start` to just before event `stop`."""
        while start < stop:
            base = start - start % BATCH
            if base != self._base:
                # the next walk continues in the same batch
                self._batch = store.read("events", location, ["kind", "region"], base, base + BATCH)
                self._base = base
            end = min(base + self._batch["kind"].size, stop)
            self._walk(store, location, start, end, slots)
            start = end

    def _walk(self, store: Store, location: int, start: int, stop: int, slots: Ints) -> None:
        """Advance within the batch that was read."""
        kind, region = (self._batch[c][: stop - self._base] for c in ("kind", "region"))
        at = start - self._base
        while True:
            at = int(cuts.walk(kind, region, at, self._base, self.state, cuts.ACTION, slots, self.top, self._items))
            if at == kind.size:
                break
            if at < 0:
                raise store.damaged(
                    f"location {location}, event {self._base - 1 - at}: it switches tasks, but the table tasks has "
                    "no row for it"
                )
            self._items, self.state[cuts.FREE] = pools.more_linked(self._items)

    @property
    def task(self) -> int:
        """The running task; 0 is the implicit one."""
        return int(self.state[cuts.TASK])

    @property
    def tasks(self) -> list[int]:
        """The explicit tasks that have open region instances or are running; the running one is last."""
        found = (np.flatnonzero(self.top[cuts.TASKS + 1 :] >= 0) + 1).tolist()
        return sorted({*found, self.task} - {0}, key=lambda t: (t == self.task, t))

    def open(self, *stacks: int) -> list[AddedEvent]:
        """Return the events that are open on some stacks, in the order in which they opened."""
        below, row, kind, region = self._items
        result = []
        for stack in stacks:
            item = int(self.top[stack])
            while item >= 0:
                result.append(AddedEvent(int(row[item]), int(kind[item]), int(region[item])))
                item = int(below[item])
        return sorted(result, key=lambda e: e.row)

    def open_outside_tasks(self) -> list[AddedEvent]:
        """Return the events that are open outside of explicit tasks."""
        return self.open(cuts.FORKS, cuts.BEGINS, cuts.TASKS)


class TeamVisit(NamedTuple):
    """A visit of a thread in a team instance: rows of begin, end, FORK and JOIN (if it forks); -1 missing."""

    location: int
    begin: int
    end: int
    fork: int
    join: int
    fork_kind: int


class TeamVisits:
    """The visits of a location in team instances, in order, from the THREAD_TEAM_BEGIN events of the location itself.

    Attributes
    ----------
    team : (n_teams,) int64
        Teams that it visits, ascending: the defined team * 2**32 + its process, since processes that share a definition
        have separate teams; if the team is not defined, -1 - location.
    of, turn : (n,) int64
        Index of each visit's team in `team`, and number of the visit among the location's visits in that team, from 0.
        Visits of all locations with the same team and turn are in one instance.
    """

    def __init__(
        self, location: int, process: int, row: Ints, kind: NDArray[np.uint8], team: NDArray[np.int32]
    ) -> None:
        self._location, self._row, self._kind = location, row, kind
        n, n_forks = (int(np.count_nonzero(MEANING.take(kind) == what)) for what in (teams.BEGINS, teams.FORKS))
        self._visits, self._forks = (teams.Brackets(*np.empty((3, size), np.int64)) for size in (n, n_forks))
        self._fork = np.empty(n, np.int64)
        teams.list_visits(MEANING, kind, self._forks, self._visits, self._fork)
        own = team[self._visits.begin].astype(np.int64)
        self.team, self.of = number_ascending(np.where(own < 0, -1 - location, (own << 32) + process))
        self.turn = occurrence(self.of)

    def at(self, border: int, n_events: int) -> TeamsAtBorder:
        """Count the visits that begin before an end of the time range, given as a row of the location's events."""
        # visits end with the recording
        has_ended = border >= n_events
        border = int(np.searchsorted(self._row, border))
        begin, end = self._visits.begin, self._visits.end
        fork, join = (pick(events, self._fork) for events in (self._forks.begin, self._forks.end))
        is_before = np.where(fork >= 0, fork, begin) < border
        is_over = (end >= 0) & (end < border) & ((fork < 0) | ((join >= 0) & (join < border)))
        opened = np.flatnonzero(is_before & ~is_over & (not has_ended))
        begun, n = (np.bincount(of, minlength=self.team.size) for of in (self.of[is_before], self.of))
        return TeamsAtBorder(self.team, begun, n, TeamInstances(self.team[self.of[opened]], self.turn[opened]))

    def within(self, instances: TeamInstances) -> dict[tuple[int, int], TeamVisit]:
        """Return the visits of some instances, by team and turn."""
        n = self.turn.size
        key = combine(np.append(self.team[self.of], instances.team), np.append(self.turn, instances.turn))
        at = np.flatnonzero(np.isin(key[:n], key[n:]))
        fork = self._fork[at]
        begin, end = self._visits.begin[at], self._visits.end[at]
        fork, join = (pick(events, fork) for events in (self._forks.begin, self._forks.end))
        rows = (pick(self._row, event) for event in (begin, end, fork, join))
        kind = np.where(fork >= 0, pick(self._kind, fork, 0).astype(np.int64), -1)
        columns = self.team[self.of[at]], self.turn[at], *rows, kind
        return {
            (team, turn): TeamVisit(self._location, *visit)
            for team, turn, *visit in zip(*(c.tolist() for c in columns), strict=True)
        }


class TeamInstances(NamedTuple):
    """Team instances; (n,) int64 each, as the columns of `TeamVisits`."""

    team: Ints
    turn: Ints


class TeamsAtBorder(NamedTuple):
    """The team visits of a location, counted at an end of the time range."""

    team: Ints
    """(n,): teams that it visits."""
    begun: Ints
    n: Ints
    """`begun` and `n`: (n,), number of visits in each team that begin before this end, and of all visits."""
    opened: TeamInstances
    """Instances of the visits that this end of the range cuts through."""


def teams_across(said: Sequence[TeamsAtBorder]) -> TeamInstances:
    """Return the team instances that are open at an end of the time range, given the counts of all locations: some
    visit begins before it, and some visit ends after it."""
    team, begun, n = (np.concatenate([getattr(x, name) for x in said]) for name in ("team", "begun", "n"))
    teams, group = number_ascending(team)
    latest = Segments(group, teams.size).max(begun)
    # instances that have begun at some location and begin later at this one
    size = np.maximum(np.minimum(n, latest[group]) - begun, 0)
    team = np.concatenate([np.repeat(team, size), *(x.opened.team for x in said)])
    turn = np.concatenate([ranges(begun, size), *(x.opened.turn for x in said)])
    first = np.unique(combine(team, turn), return_index=True)[1]
    return TeamInstances(team[first], turn[first])


def by_instance(found: Iterable[dict[tuple[int, int], TeamVisit]]) -> dict[tuple[int, int], list[TeamVisit]]:
    """Return visits by team and turn, given those of each location: instances in the order of their first visit."""
    met: dict[tuple[int, int], list[TeamVisit]] = defaultdict(list)
    for visits in found:
        for instance, visit in visits.items():
            met[instance].append(visit)
    return met


def by_location(met: dict[tuple[int, int], list[TeamVisit]]) -> dict[int, list[TeamVisit]]:
    """Return visits by location, given those of each instance: in the order of the instances."""
    result: dict[int, list[TeamVisit]] = defaultdict(list)
    for visit in (visit for visits in met.values() for visit in visits):
        result[visit.location].append(visit)
    return result


class EndedConstructs(NamedTuple):
    """Constructs of one role that a thread has ended in a team."""

    n: int = 0
    """Number of these constructs."""
    enter: Ints = np.zeros(0, np.int64)
    """Rows of the last ENTERs, `MOST_AHEAD` + 1 at most, including that of a construct that has not ended."""
    exit: Ints = np.zeros(0, np.int64)
    region: NDArray[np.int32] = np.zeros(0, np.int32)
    """`exit` and `region`: (n_last,), rows of the last EXITs, `MOST_AHEAD` at most, and their regions."""

    def with_more(self, enter: Ints, exit_: Ints, region: NDArray[np.int32]) -> EndedConstructs:
        """Return these constructs with those of later events appended."""
        return EndedConstructs(
            self.n + exit_.size,
            np.append(self.enter, enter)[-MOST_AHEAD - 1 :],
            np.append(self.exit, exit_)[-MOST_AHEAD:],
            np.append(self.region, region)[-MOST_AHEAD:],
        )

    def last(self, n: int) -> list[AddedEvent]:
        """Return ENTER and EXIT of the last n of them, in order; nothing for an EXIT without ENTER."""
        exits = self.exit[self.exit.size - n :]
        at = np.searchsorted(self.enter, exits) - 1
        enters = pick(self.enter, at)
        rows = zip(enters.tolist(), exits.tolist(), self.region[self.region.size - n :].tolist(), strict=True)
        return [
            AddedEvent(row, kind, region)
            for enter, exit_, region in rows
            if enter >= 0
            for row, kind in ((enter, EventKind.ENTER), (exit_, EventKind.EXIT))
        ]


def switch_to(tasks: TaskEvents, task: int, before: int) -> AddedEvent:
    """Return the last switch to a task before some row; to the implicit task, 0, it is modelled on that to any task."""
    switches = (tasks.row < before) & np.isin(tasks.kind, SWITCHES)
    at = np.flatnonzero(switches & (tasks.slot == task) if task else switches)[-1]
    return AddedEvent(int(tasks.row[at]), int(tasks.kind[at]), -1, None if task else TO_IMPLICIT)


class SlicePlanner:
    """Determine which events of chosen locations, with start <= time < stop in ticks, a trace slice holds; for
    `leaves_out` see `OperationCounter`."""

    def __init__(
        self, store: Store, chosen: list[int], start: int | None, stop: int | None, jobs: int, leaves_out: bool
    ) -> None:
        self.store, self._chosen, self._start, self._stop, self._jobs = store, chosen, start, stop, jobs
        locations = store.definitions["locations"]
        self._first_rows = store.first_rows
        self._process = to_numpy(locations.column("process"))
        self._locations = Locations.of(store)
        self._is_device = self._locations.is_device
        names = store.names("parameter_definitions")
        self._is_callsite = np.array([n == CALLSITE for n in [*names, ""]])
        regions = Regions(store)
        self._construct = regions.construct
        self._is_parallel = np.append(regions.construct == PARALLEL, False)
        self._any_region = np.append(np.ones(len(regions), bool), False)
        waits = (regions.paradigm == "openmp") & np.isin(regions.role, WAITING)
        waits |= np.isin(regions.paradigm, ["mpi", "shmem", "pthread"]) | np.isin(regions.device_call, [WAIT, COPY])
        self._waits = np.append(waits, False)
        self._communicates = np.append(np.isin(regions.paradigm, ["mpi", "shmem"]), False)
        self.slices = dict(zip(chosen, side_by_side(jobs, self._plan, chosen), strict=True))
        self._teams()
        self._count(leaves_out)

    def _side(self, table: str, location: int, *columns: str) -> Columns:
        """Read columns of a side table, its rows counting from the location's first."""
        found = self.store.read(table, location, ["row", *columns])
        found["row"] = found["row"] - self._first_rows[location]
        return found

    def _plan(self, location: int) -> LocationSlice:
        """Find the events of one location in the time range, and those that are open where it begins and ends."""
        n = self.store.n_rows("events", location)
        planned = self._events_between(location, n)
        if planned.start == 0 and planned.stop == n:
            return planned
        tasks = TaskEvents.of(self.store, location, int(self._first_rows[location]))
        stacks = Stacks(tasks.n_tasks)
        stacks.walk(self.store, location, 0, planned.start, tasks.slot)
        if 0 < planned.start < n:
            planned.before = stacks.open_outside_tasks()
            for task in stacks.tasks:
                opened = stacks.open(cuts.TASKS + task)
                if not opened:
                    # events until its completion count where the task was scheduled, which follows from its region
                    entered = self._region_of_task(location, tasks, task)
                    opened = entered if entered and entered[0].row < planned.start else []
                planned.before += [switch_to(tasks, task, planned.start), *opened]
            if stacks.tasks and not stacks.task:
                planned.before.append(switch_to(tasks, 0, planned.start))
            planned.before += self._flushes(location, planned.start)
        if planned.stop < n:
            stacks.walk(self.store, location, planned.start, planned.stop, tasks.slot)
            if stacks.task:
                planned.after = self._closers(stacks.open(cuts.TASKS + stacks.task))
                if not planned.after:
                    entered = self._region_of_task(location, tasks, stacks.task)
                    planned.after = entered if entered and entered[0].row >= planned.stop else []
                planned.after.append(switch_to(tasks, 0, planned.stop))
            planned.after += self._closers(stacks.open_outside_tasks())
        self._callsites(location, planned)
        self._copies(location, planned)
        planned.n_calls = int(self._waits[[x.region for x in (*planned.before, *planned.after)]].sum())
        return planned

    def _callsites(self, location: int, planned: LocationSlice) -> None:
        """Repeat the call sites of the launches and kernels that are entered again at the start."""
        if not planned.before or not self._is_callsite.any() or not self.store.n_rows("parameters", location):
            return
        side = self._side("parameters", location, "parameter")
        row = side["row"][self._is_callsite[side["parameter"]] & (side["row"] < planned.start)]
        before: list[AddedEvent] = []
        entered = [e.row for e in planned.before if e.kind == EventKind.ENTER]
        for event in planned.before:
            before.append(event)
            if event.kind == EventKind.ENTER:
                stop = min((r for r in entered if r > event.row), default=planned.start)
                at = row[(row > event.row) & (row < stop)][:1].tolist()
                kinds = [self.store.read("events", location, ["kind"], r, r + 1)["kind"].item() for r in at]
                before += [AddedEvent(r, kind, -1) for r, kind in zip(at, kinds, strict=True)]
        planned.before = before

    def _copies(self, location: int, planned: LocationSlice) -> None:
        """Repeat the begins of a stream's copies underway at the start, and end those underway at the end."""
        if not self._is_device[location] or not self.store.n_rows("rma", location):
            return
        side = self._side("rma", location, "kind", "window", "matching")
        begins, ends = np.isin(side["kind"], COPY_BEGINS), np.isin(side["kind"], COPY_ENDS)
        partner = pair_with_previous(combine(side["window"], side["matching"]), begins, ends)
        at = np.flatnonzero(begins)
        begin, end = side["row"][at], np.where(partner[at] >= 0, side["row"][partner[at]], np.iinfo(np.int64).max)
        kind = side["kind"][at]
        if planned.start < self.store.n_rows("events", location):
            for k in np.flatnonzero((begin < planned.start) & (end >= planned.start)).tolist():
                # its bytes are counted where it begins
                planned.before.append(AddedEvent(int(begin[k]), int(kind[k]), -1, {"sent": 0, "received": 0}))
        for k in np.flatnonzero((begin < planned.stop) & (end >= planned.stop) & (partner[at] >= 0)).tolist():
            if end[k] >= planned.start and planned.stop > planned.start:
                changes = {"remote": -1, "sent": -1, "received": -1}
                planned.after.append(AddedEvent(int(begin[k]), int(K_DONE), -1, changes))

    def _region_of_task(self, location: int, tasks: TaskEvents, task: int) -> list[AddedEvent]:
        """Return ENTER and EXIT of the first region an explicit task enters; nothing if it enters none."""
        ends = np.append(tasks.row[1:], self.store.n_rows("events", location))
        for k in np.flatnonzero((tasks.slot == task) & np.isin(tasks.kind, SWITCHES)).tolist():
            found = self._first_enter(location, int(tasks.row[k]), int(ends[k]), self._any_region)
            if found:
                return found
        return []

    def _first_enter(self, location: int, start: int, stop: int, wanted: Mask) -> list[AddedEvent]:
        """Return the first ENTER of a wanted region, and an EXIT made from it; nothing if there is none."""
        size = 64
        while start < stop:
            events = self.store.read("events", location, ["kind", "region"], start, min(start + size, stop))
            found = np.flatnonzero((events["kind"] == EventKind.ENTER) & wanted[events["region"]])
            if found.size:
                row, region = start + int(found[0]), int(events["region"][found[0]])
                return [AddedEvent(row, EventKind.ENTER, region), AddedEvent(row, EventKind.EXIT, region, {})]
            start, size = start + size, min(16 * size, BATCH)
        return []

    def _flushes(self, location: int, before: int) -> list[AddedEvent]:
        """Return the flush of the trace buffer during which the time range starts."""
        control = self._side("control", location, "kind", "stop_time")
        row = control["row"][(control["kind"] == EventKind.BUFFER_FLUSH) & (control["stop_time"] > (self._start or 0))]
        row = row[row < before][-1:]
        return [
            AddedEvent(
                i, EventKind.BUFFER_FLUSH, int(self.store.read("events", location, ["region"], i, i + 1)["region"][0])
            )
            for i in row.tolist()
        ]

    @staticmethod
    def _closers(opened: list[AddedEvent]) -> list[AddedEvent]:
        """Return the events that close the given ones, in reverse order."""
        return [
            AddedEvent(
                e.row,
                CLOSERS[EventKind(e.kind)],
                e.region if e.kind in _WITH_REGION else -1,
                _CLOSED.get(EventKind(e.kind), {}),
            )
            for e in reversed(opened)
        ]

    def _events_between(self, location: int, n: int) -> LocationSlice:
        """Find the first event that is not earlier than the time range, and the first that is later.

        If time ranges divide a trace, every event thus lies in one of them, even where time decreases.
        """
        first, last = 0 if self._start is None else n, n
        wanted = [at for at in (self._start, self._stop) if at is not None]
        for base in range(0, n, BATCH):
            if not wanted:
                break
            time = self.store.read("events", location, ["time"], base, min(base + BATCH, n))["time"]
            latest = time.max()
            while wanted and latest >= wanted[0]:
                found = base + int(np.argmax(time >= wanted[0]))
                if wanted.pop(0) == self._start:
                    first = found
                else:
                    last = found
        return LocationSlice(first, max(first, last))

    # -- what was counted before the time range ----------------------------------------------------------------------

    def _count(self, leaves_out: bool) -> None:
        """Number operations as in the whole trace, and repeat the begins of those that straddle the start."""
        low = self._first_rows.copy()
        high = low.copy()
        for location, planned in self.slices.items():
            low[location] += planned.start
            high[location] += planned.stop
        bounds = SliceBounds(low, high, 0 if self._start is None else self._start)
        counter = OperationCounter(self.store, self._locations, bounds, self._chosen, leaves_out)
        self.numbering = Numbering(counter.rows)
        for location, repeated in counter.repeated.items():
            before = self.slices[location].before
            # repeated calls go in front of the open call and outside of explicit tasks, whose first region determines
            # where they count; repeated events go into the open call
            ends = (i for i, x in enumerate(before) if x.kind in SWITCHES or self._communicates[x.region])
            at = next(ends, len(before))
            before[at:at] = [event for x in repeated if x.enter >= 0 for event in _repeated(x)]
            before += [event for x in repeated if x.enter < 0 for event in _repeated(x)]
        for location, rows in counter.left_out.items():
            self.slices[location].dropped = rows

    def _teams(self) -> None:
        """Add visits so that every thread is in the team instances that are open at an end of the time range.

        All visits then lie between FORK and JOIN, as in the whole trace: threads that left before the start enter and
        leave once more, and threads that have not begun at the end enter and leave there.
        """
        ends = [which for which, at in (("start", self._start), ("stop", self._stop)) if at is not None]

        def counted_at(location: int) -> list[TeamsAtBorder]:
            visits, n = self._visits_of(location), self.store.n_rows("events", location)
            return [visits.at(getattr(self.slices[location], which), n) for which in ends]

        counts = list(side_by_side(self._jobs, counted_at, self._chosen))
        across = [teams_across(of) for of in zip(*counts, strict=True)]
        # only the counts of locations are held for the whole trace, not their visits: these are found a second time
        mine = [
            location
            for location, of in zip(self._chosen, counts, strict=True)
            if any(np.isin(own.team, instances.team).any() for own, instances in zip(of, across, strict=True))
        ]

        def visits_within(location: int) -> list[dict[tuple[int, int], TeamVisit]]:
            visits = self._visits_of(location)
            return [visits.within(instances) for instances in across]

        found = list(side_by_side(self._jobs, visits_within, mine))
        for which, *visits in zip(ends, *found, strict=True):
            met = by_instance(visits)
            constructs = self._constructs_met_again(met) if which == "start" else {}
            for location, of_location in by_location(met).items():
                if which == "start":
                    self._put_teams_at_start(location, of_location, constructs)
                else:
                    self._put_teams_at_end(location, of_location)

    def _put_teams_at_start(
        self, location: int, visits: list[TeamVisit], constructs: dict[TeamVisit, list[AddedEvent]]
    ) -> None:
        """Put a thread into the team instances open at the start, and through some constructs once more."""
        planned = self.slices[location]
        known = {x.row for x in planned.before}
        for v in visits:
            if v.begin < planned.start:
                self._insert(location, self._events_at_start(v, planned.start, known, constructs[v]))

    def _put_teams_at_end(self, location: int, visits: list[TeamVisit]) -> None:
        """Add events at the end that put a thread into the team instances open there."""
        planned = self.slices[location]
        inside: list[AddedEvent] = []
        for v in sorted(visits, key=lambda v: v.begin):
            events = self._events_at_end(v, planned.stop)
            # a thread that forks does so in its current region; others are in no region when they begin
            if v.fork >= 0 or v.begin < planned.stop:
                inside += events
            else:
                planned.after += events
        planned.after[:0] = inside

    def _visits_of(self, location: int) -> TeamVisits:
        """Find the visits of a thread in team instances."""
        e = self._side("threads", location, "kind", "team")
        return TeamVisits(location, int(self._process[location]), e["row"], e["kind"], e["team"])

    def _parallel_region(self, visit: TeamVisit) -> list[AddedEvent]:
        """Return ENTER and EXIT of the parallel region a thread enters in a team; nothing if it enters none."""
        stop = self.store.n_rows("events", visit.location) if visit.end < 0 else visit.end
        return self._first_enter(visit.location, visit.begin, stop, self._is_parallel)

    def _events_at_start(
        self, visit: TeamVisit, start: int, known: set[int], constructs: list[AddedEvent]
    ) -> list[AddedEvent]:
        """Return the events that put a thread into a team and past its constructs; `known` are rows of open events."""
        region = self._parallel_region(visit)
        if region and (region[0].row >= start or region[0].row in known):
            region = []
        events = [*region[:1], *constructs, *region[1:]]
        if not 0 <= visit.end < start:
            return events
        return self._complete_visit(visit, events, 0 <= visit.join < start)

    def _events_at_end(self, visit: TeamVisit, stop: int) -> list[AddedEvent]:
        """Return the events added at the end to put a thread into a team instance that is open there."""
        region = self._parallel_region(visit)
        if visit.begin >= stop:
            return self._complete_visit(visit, region, visit.fork >= stop)
        return region if region and region[0].row >= stop and not 0 <= visit.end < stop else []

    @staticmethod
    def _complete_visit(visit: TeamVisit, region: list[AddedEvent], forks: bool) -> list[AddedEvent]:
        """Put begin and end of a thread in a team around the events of `region`, and FORK and JOIN if it `forks`."""
        events = [
            AddedEvent(visit.begin, EventKind.THREAD_TEAM_BEGIN, -1),
            *region,
            AddedEvent(visit.begin, EventKind.THREAD_TEAM_END, -1, {}),
        ]
        if forks and visit.fork >= 0:
            kind = EventKind(visit.fork_kind)
            events = [
                AddedEvent(visit.fork, kind, -1),
                *events,
                AddedEvent(visit.fork, CLOSERS[kind], -1, _CLOSED.get(kind, {})),
            ]
        return events

    def _insert(self, location: int, events: list[AddedEvent]) -> None:
        """Insert events among those added at the start, where they were recorded, each after the previous one."""
        before = self.slices[location].before
        n = next((i for i, x in enumerate(before) if x.kind in SWITCHES), len(before))
        at = 0
        for x in events:
            # after what was open when it happened, and after the event before
            at = max(at, next((i for i in range(n) if before[i].row > x.row), n))
            before.insert(at, x)
            at, n = at + 1, n + 1

    def _constructs_met_again(self, met: dict[tuple[int, int], list[TeamVisit]]) -> dict[TeamVisit, list[AddedEvent]]:
        """Return, by visit, ENTER and EXIT of the OpenMP constructs that a thread must pass once more at the start, in
        order, since other threads have not left or not reached them yet. The k-th constructs of all threads then also
        belong together in the time range."""
        again: dict[TeamVisit, list[AddedEvent]] = {visit: [] for visits in met.values() for visit in visits}
        for visits in met.values():
            ended = [*side_by_side(self._jobs, self._ended_in, visits)]
            for role in {role for of in ended for role in of}:
                constructs = [of.get(role, EndedConstructs()) for of in ended]
                most = max(of.n for of in constructs)
                # threads that have ended far fewer do not encounter such constructs
                fewest = min(of.n for of in constructs if of.n >= most - MOST_AHEAD)
                for visit, of in zip(visits, constructs, strict=True):
                    again[visit] += of.last(max(of.n - fewest, 0))
        return {visit: sorted(events, key=lambda x: x.row) for visit, events in again.items()}

    def _ended_in(self, visit: TeamVisit) -> dict[int, EndedConstructs]:
        """Return the constructs that a thread has ended in a team before the start, by role; inner teams left out."""
        found: dict[int, EndedConstructs] = {}
        construct, depth, start = np.append(self._construct, -1), 0, self.slices[visit.location].start
        stop = visit.end if 0 <= visit.end < start else start
        for first in range(visit.begin + 1, stop, BATCH):
            e = self.store.read("events", visit.location, ["kind", "region"], first, min(first + BATCH, stop))
            # number of inner teams that the thread is in after each event
            inner = depth + np.cumsum(TEAM_CHANGE[e["kind"]])
            depth = int(inner[-1])
            role = np.where(inner == 0, construct[e["region"]], -1)
            for number in distinct(role[role > PARALLEL]).tolist():
                enter, exit_ = (np.flatnonzero((role == number) & (e["kind"] == k)) for k in ENTER_AND_EXIT)
                known = found.get(number, EndedConstructs())
                found[number] = known.with_more(first + enter, first + exit_, e["region"][exit_])
        return found


_WITH_REGION = (EventKind.ENTER, EventKind.CALLING_CONTEXT_ENTER)


def _repeated(x: Repeated) -> list[AddedEvent]:
    """Return an event that is repeated at the start, in its call if that is repeated, too."""
    event = AddedEvent(x.row, x.kind, -1, location=x.location)
    if x.enter < 0:
        return [event]
    return [AddedEvent(x.enter, EventKind.ENTER, x.region), event, AddedEvent(x.enter, EventKind.EXIT, x.region, {})]


class SlicePlan(NamedTuple):
    """The contents of a trace slice."""

    slices: list[LocationSlice]
    """By location."""
    numbering: Numbering
    """The numbers that its operations have in the whole trace."""


def plan_slices(
    store: Store,
    locations: Iterable[int] | None,
    start: int | None,
    stop: int | None,
    jobs: int,
    leaves_out: bool = False,
) -> SlicePlan:
    """Plan a trace slice of some locations, by default all (others hold nothing), and of events with start <= time <
    stop, in ticks; `leaves_out` omits messages and collective operations whose partners lie outside."""
    n = int(store.manifest["n_locations"])
    chosen = sorted(set(range(n) if locations is None else locations))
    planner = SlicePlanner(store, chosen, start, stop, jobs, leaves_out)
    return SlicePlan([planner.slices.get(i, LocationSlice(0, 0)) for i in range(n)], planner.numbering)
