"""Plan which events a trace slice holds, so that it is a trace by itself.

A trace slice is what a recording of the time range would have held, had it known what was going on when it began:

* What is open at the start is entered again at the time of the start, with its attributes: region instances (also those
  that a PROGRAM_BEGIN, a calling context or MEASUREMENT_ON_OFF enters), FORKs and team begins, begins of created
  threads, suspended tasks, a flush of the trace buffer. What is open at the end is closed at the time of the end,
  unless the location's events end before.
* Partners are found by counting: the k-th send and receive of a channel, the k-th collective operation on a
  communicator, a window or a file, the k-th access and exposure epoch, the k-th begin in a team. So that the same
  belong together as in the whole trace, the slice says which numbers its operations have there (`slices.numbering`);
  operations whose partners it lacks count and match nothing. For tools that know nothing of that, archives hold no
  messages and blocking collective operations whose partners lie before the start. What is open at the start is
  completed by the partner it has in the whole trace: the requests of receives and of non-blocking collective
  operations, matching probes, and the calls that began an epoch or took a lock of a window are repeated at the start.
* A thread that had left a team or an OpenMP construct when others had not enters and leaves it once more, at the start.
* Locations that are not chosen stay defined and have no events: ranks and communicators mean what they meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.grouping import combine, pair_nested, pair_with_previous
from tracecols.enhance.definitions.locations import CALLSITE, Locations
from tracecols.enhance.definitions.regions import CONSTRUCTS, COPY, WAIT, Regions
from tracecols.enhance.scan.numbering import Numbering
from tracecols.enhance.scan.tasks import SWITCHES, TaskEvents
from tracecols.enhance.scan.teams import FORKS, JOINS, Teams
from tracecols.kernels import arrays, cuts
from tracecols.schema import EventKind
from tracecols.slices.numbering import OperationCounter, Repeated, SliceBounds
from tracecols.store import Store
from tracecols.store.arrow import to_numpy

BATCH = 1 << 20
"""Number of events that are read at once."""

COPY_BEGINS = (EventKind.RMA_PUT, EventKind.RMA_GET)
COPY_ENDS = (
    EventKind.RMA_OP_COMPLETE_BLOCKING, EventKind.RMA_OP_COMPLETE_NON_BLOCKING, EventKind.RMA_OP_COMPLETE_REMOTE,
)  # fmt: skip
"""Kinds that begin and end copies on streams; K_DONE is the one that slices end them with."""

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
"""What closes what each kind opens."""

TO_IMPLICIT = {"generation": 0, "task": 0}
"""What a switch to any task is changed to in order to become one to the implicit task."""

_CLOSED = {
    EventKind.MEASUREMENT_ON_OFF: {"mode": 1},
    EventKind.PROGRAM_BEGIN: {"program": -1, "n_arguments": -1},
    EventKind.CALLING_CONTEXT_ENTER: {"unwind": -1},
    EventKind.THREAD_FORK: {"requested": -1},
    EventKind.OMP_FORK: {"requested": -1},
}


@dataclass
class AddedEvent:
    """An event that a trace slice has besides those of the trace, copied from one of them."""

    row: int
    """The event it is copied from, counting from the location's first."""
    kind: int
    region: int
    """`kind` and `region`: its kind and region."""
    changes: dict[str, int] | None = None
    """Values of its side table that differ; None for an event that repeats everything, additional attributes
    included."""
    location: int = -1
    """Where the event it is copied from was recorded; -1 at the same location."""


@dataclass
class LocationSlice:
    """The events of one location that a trace slice holds."""

    start: int
    stop: int
    """`start` and `stop`: the range of its events, start <= event < stop, counting from its first."""
    before: list[AddedEvent] = field(default_factory=list)
    after: list[AddedEvent] = field(default_factory=list)
    """`before` and `after`: events that are added before and after them."""
    dropped: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n,): which of them are left out, in order."""
    n_calls: int = 0
    """Number of calls in which a thread may wait that are open at the start or the end."""

    @property
    def n_events(self) -> int:
        """Number of events of the location in the trace slice."""
        return len(self.before) + self.stop - self.start - self.dropped.size + len(self.after)


class Stacks:
    """What is open at some event of one location."""

    def __init__(self, n_tasks: int) -> None:
        self.state = np.zeros(cuts.N_STATE, np.int64)
        self.top = np.full(cuts.TASKS + n_tasks, -1, np.int64)
        self._items = arrays.linked(cuts.Items, 64)

    def walk(self, store: Store, location: int, start: int, stop: int, slots: NDArray[np.int64]) -> None:
        """Go on from one event to before another."""
        for base in range(start, stop, BATCH):
            columns = store.read("events", location, ["kind", "region"], base, min(base + BATCH, stop))
            at = 0
            while True:
                at = int(
                    cuts.walk(
                        columns["kind"],
                        columns["region"],
                        at,
                        base,
                        self.state,
                        cuts.ACTION,
                        slots,
                        self.top,
                        self._items,
                    )
                )
                if at == columns["kind"].size:
                    break
                if at < 0:
                    raise store.damaged(
                        f"location {location}, event {base - 1 - at}: it switches tasks, but the table tasks has "
                        "no row for it"
                    )
                self._items, self.state[cuts.FREE] = arrays.more_linked(self._items)

    @property
    def task(self) -> int:
        """The task that runs; 0 is the implicit one."""
        return int(self.state[cuts.TASK])

    @property
    def tasks(self) -> list[int]:
        """The explicit tasks that have open region instances or run, the one that runs as the last."""
        found = (np.flatnonzero(self.top[cuts.TASKS + 1 :] >= 0) + 1).tolist()
        return sorted({*found, self.task} - {0}, key=lambda t: (t == self.task, t))

    def open(self, *stacks: int) -> list[AddedEvent]:
        """Return what is open on some stacks, in the order it was opened."""
        below, row, kind, region = self._items
        result = []
        for stack in stacks:
            item = int(self.top[stack])
            while item >= 0:
                result.append(AddedEvent(int(row[item]), int(kind[item]), int(region[item])))
                item = int(below[item])
        return sorted(result, key=lambda e: e.row)

    def open_outside_tasks(self) -> list[AddedEvent]:
        """Return what is open outside of explicit tasks."""
        return self.open(cuts.FORKS, cuts.BEGINS, cuts.TASKS)


class TeamVisit(NamedTuple):
    """A thread in a team instance: rows of its begin and end there, and of FORK and JOIN if it forks; -1 there is
    none."""

    instance: int
    location: int
    begin: int
    end: int
    fork: int
    join: int
    fork_kind: int


@dataclass
class TeamVisits:
    """All threads in all team instances, as columns (`TeamVisit`); (n,) int64 each."""

    instance: NDArray[np.int64]
    location: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    fork: NDArray[np.int64]
    join: NDArray[np.int64]
    fork_kind: NDArray[np.int64]

    @classmethod
    def none(cls) -> TeamVisits:
        """No visits."""
        return cls(*np.zeros((len(fields(cls)), 0), np.int64))

    @classmethod
    def concatenate(cls, visits: list[TeamVisits]) -> TeamVisits:
        """Join the visits of several locations."""
        return cls(*(np.concatenate([getattr(v, f.name) for v in [cls.none(), *visits]]) for f in fields(cls)))

    def span(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and the last row of every visit; what never ends is beyond all rows."""
        forks = self.fork >= 0
        ends = (self.end >= 0) & (~forks | (self.join >= 0))
        last = np.where(ends, np.maximum(self.end, self.join), np.iinfo(np.int64).max)
        return np.where(forks, self.fork, self.begin), last

    def __getitem__(self, i: int) -> TeamVisit:
        return TeamVisit(*(int(getattr(self, f.name)[i]) for f in fields(self)))


def switch_to(tasks: TaskEvents, slot: int, before: int) -> AddedEvent:
    """Return the last event before some row that switched to a task."""
    at = np.flatnonzero((tasks.slot == slot) & (tasks.row < before) & np.isin(tasks.kind, SWITCHES))[-1]
    return AddedEvent(int(tasks.row[at]), int(tasks.kind[at]), -1)


def switch_to_implicit(tasks: TaskEvents, before: int) -> AddedEvent:
    """Return a switch to the implicit task, made after the last switch before some row."""
    at = np.flatnonzero((tasks.row < before) & np.isin(tasks.kind, SWITCHES))[-1]
    return AddedEvent(int(tasks.row[at]), int(tasks.kind[at]), -1, TO_IMPLICIT)


class SlicePlanner:
    """Determine which events of chosen locations, with start <= time < stop in ticks, a trace slice holds; for
    `leaves_out` see `OperationCounter`."""

    def __init__(
        self, store: Store, chosen: list[int], start: int | None, stop: int | None, jobs: int, leaves_out: bool
    ) -> None:
        self.store, self._chosen, self._start, self._stop = store, chosen, start, stop
        locations = store.definitions["locations"]
        self._first_rows = to_numpy(locations.column("first_row"))
        self._process = to_numpy(locations.column("process"))
        self._locations = Locations.of(store)
        self._is_device = self._locations.is_device
        names = store.definitions["parameter_definitions"].column("name").to_pylist()
        self._is_callsite = np.array([n == CALLSITE for n in [*names, ""]])
        regions = Regions(store)
        self._construct = regions.construct
        self._is_parallel = np.append(regions.construct == PARALLEL, False)
        self._any_region = np.append(np.ones(len(regions), bool), False)
        waits = (regions.paradigm == "openmp") & np.isin(regions.role, WAITING)
        waits |= np.isin(regions.paradigm, ["mpi", "shmem", "pthread"]) | np.isin(regions.device_call, [WAIT, COPY])
        self._waits = np.append(waits, False)
        self._communicates = np.append(np.isin(regions.paradigm, ["mpi", "shmem"]), False)
        self._open_begins: dict[int, list[AddedEvent]] = {}
        with ThreadPoolExecutor(jobs) as pool:
            self.slices = dict(zip(chosen, pool.map(self._plan, chosen), strict=True))
        if start is not None:
            self._constructs()
        self._teams(chosen)
        self._count(leaves_out)

    def _side(self, table: str, location: int, *columns: str) -> Columns:
        """Read columns of a side table, its rows counting from the location's first."""
        found = self.store.read(table, location, ["row", *columns])
        found["row"] = found["row"] - self._first_rows[location]
        return found

    def _plan(self, location: int) -> LocationSlice:
        """Find the events of one location in the time range, and what is open where it begins and ends."""
        n = self.store.n_rows("events", location)
        planned = self._events_between(location, n)
        if planned.start == 0 and planned.stop == n:
            return planned
        tasks = TaskEvents.of(self.store, location, int(self._first_rows[location]))
        stacks = Stacks(tasks.n_tasks)
        stacks.walk(self.store, location, 0, planned.start, tasks.slot)
        if 0 < planned.start < n:
            planned.before = stacks.open_outside_tasks()
            begins = stacks.open(cuts.BEGINS)
            if begins:
                self._open_begins[location] = begins
            for task in stacks.tasks:
                opened = stacks.open(cuts.TASKS + task)
                if not opened:
                    # what comes until it is complete counts where the task was scheduled, which its region tells
                    entered = self._region_of_task(location, tasks, task)
                    opened = entered if entered and entered[0].row < planned.start else []
                planned.before += [switch_to(tasks, task, planned.start), *opened]
            if stacks.tasks and not stacks.task:
                planned.before.append(switch_to_implicit(tasks, planned.start))
            planned.before += self._flushes(location, planned.start)
        if planned.stop < n:
            stacks.walk(self.store, location, planned.start, planned.stop, tasks.slot)
            if stacks.task:
                planned.after = self._closers(stacks.open(cuts.TASKS + stacks.task))
                if not planned.after:
                    entered = self._region_of_task(location, tasks, stacks.task)
                    planned.after = entered if entered and entered[0].row >= planned.stop else []
                planned.after.append(switch_to_implicit(tasks, planned.stop))
            planned.after += self._closers(stacks.open_outside_tasks())
        self._callsites(location, planned)
        self._copies(location, planned)
        planned.n_calls = int(self._waits[[x.region for x in (*planned.before, *planned.after)]].sum())
        return planned

    def _callsites(self, location: int, planned: LocationSlice) -> None:
        """Let the launches and kernels that are entered again at the start name their call sites again."""
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
                before += [AddedEvent(r, self._kind_of(location, r), -1) for r in at]
        planned.before = before

    def _kind_of(self, location: int, row: int) -> int:
        return int(self.store.read("events", location, ["kind"], row, row + 1)["kind"][0])

    def _copies(self, location: int, planned: LocationSlice) -> None:
        """Begin the copies of a stream again that are underway at the start, and end those that are at the end."""
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
                # the bytes count where it begins
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

    def _first_enter(self, location: int, start: int, stop: int, wanted: NDArray[np.bool_]) -> list[AddedEvent]:
        """Return the first ENTER of a wanted region among some events, and an EXIT made after it; nothing if there is
        none."""
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
        """Return the flush of the trace buffer that the start lies in."""
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
        """Return what closes events, the last first."""
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

        So every event lies in one of the time ranges that divide a trace, also where time decreases.
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
        """Number the operations as the whole trace does, and repeat what began those that straddle the start."""
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
            # calls are in front of the call that is open and outside of explicit tasks, whose first region says where
            # they count; events are in the call that is open
            ends = (i for i, x in enumerate(before) if x.kind in SWITCHES or self._communicates[x.region])
            at = next(ends, len(before))
            before[at:at] = [event for x in repeated if x.enter >= 0 for event in _repeated(x)]
            before += [event for x in repeated if x.enter < 0 for event in _repeated(x)]
        for location, rows in counter.left_out.items():
            self.slices[location].dropped = rows

    def _teams(self, chosen: list[int]) -> None:
        """Let every thread be in the team instances that are open at an end of the time range.

        So that all of them lie between FORK and JOIN there, as in the whole trace, threads that have left at the start
        enter and leave once more, and threads that have not begun at the end enter and leave there.
        """
        teams = Teams(self.store, self._locations, np.array(chosen, np.int64))
        visits = TeamVisits.concatenate([self._visits_of(teams, location) for location in chosen])
        before = self._visits_across(visits, teams.n_instances, "start") if self._start is not None else {}
        after = self._visits_across(visits, teams.n_instances, "stop") if self._stop is not None else {}
        for location, mine in before.items():
            planned = self.slices[location]
            known = {x.row for x in planned.before}
            found = [x for v in mine if v.begin < planned.start for x in self._entered_again(v, planned.start, known)]
            self._insert(location, found)
        for location, mine in after.items():
            planned = self.slices[location]
            inside: list[AddedEvent] = []
            for v in sorted(mine, key=lambda v: v.begin):
                events = self._entered_at_the_end(v, planned.stop)
                # a thread that forks does so where it is; others are in no region when they begin
                if v.fork >= 0 or v.begin < planned.stop:
                    inside += events
                else:
                    planned.after += events
            planned.after[:0] = inside

    def _visits_of(self, teams: Teams, location: int) -> TeamVisits:
        """Find when a thread is in which team instances, where threads say so themselves."""
        e = teams.events.at(location)
        begins = np.flatnonzero(e.is_begin)
        mine = teams.begins_of(location)
        if begins.size != mine.stop - mine.start or not begins.size:
            return TeamVisits.none()
        # of none: the last element of what is looked up
        row, kind = np.append(e.row - self._first_rows[location], -1), np.append(e.kind.astype(np.int64), -1)
        end = pair_nested(e.is_begin, e.kind == EventKind.THREAD_TEAM_END)
        is_fork = np.isin(e.kind, FORKS)
        join = np.append(pair_nested(is_fork, np.isin(e.kind, JOINS)), -1)
        # the thread that forks begins in the team right after its FORK
        fork = np.where((begins > 0) & is_fork[begins - 1], begins - 1, -1)
        return TeamVisits(
            teams.instance[mine],
            np.full(begins.size, location),
            row[begins],
            row[end[begins]],
            row[fork],
            row[join[fork]],
            kind[fork],
        )

    def _visits_across(self, visits: TeamVisits, n_instances: int, which: str) -> dict[int, list[TeamVisit]]:
        """Return by location the visits of team instances that are open at the start or the end of the time range.

        In the order in which the threads of each instance are met, the instances in the order of their first visit.
        """
        border = np.array(
            [getattr(self.slices[i], which) if i in self.slices else 0 for i in range(self._process.size)]
        )
        first, last = visits.span()
        begins_before, ends_after = np.zeros((2, n_instances), bool)
        begins_before[visits.instance[first < border[visits.location]]] = True
        ends_after[visits.instance[last >= border[visits.location]]] = True
        found = np.flatnonzero((begins_before & ends_after)[visits.instance])
        if not found.size:
            return {}
        first_visit = np.full(n_instances, visits.instance.size)
        first_visit[visits.instance[found][::-1]] = found[::-1]
        result: dict[int, list[TeamVisit]] = defaultdict(list)
        for i in found[np.argsort(first_visit[visits.instance[found]], kind="stable")].tolist():
            visit = visits[i]
            result[visit.location].append(visit)
        return result

    def _parallel_region(self, visit: TeamVisit) -> list[AddedEvent]:
        """Return ENTER and EXIT of the parallel region a thread enters in a team; nothing if it enters none."""
        stop = self.store.n_rows("events", visit.location) if visit.end < 0 else visit.end
        return self._first_enter(visit.location, visit.begin, stop, self._is_parallel)

    def _entered_again(self, visit: TeamVisit, start: int, known: set[int]) -> list[AddedEvent]:
        """Return what a thread does once more at the start to be in a team; `known` are the rows of what is open."""
        region = self._parallel_region(visit)
        if region and (region[0].row >= start or region[0].row in known):
            region = []
        if not 0 <= visit.end < start:
            return region
        return self._complete_visit(visit, region, 0 <= visit.join < start)

    def _entered_at_the_end(self, visit: TeamVisit, stop: int) -> list[AddedEvent]:
        """Return what a thread does at the end to be in a team in which it will be."""
        region = self._parallel_region(visit)
        if visit.begin >= stop:
            return self._complete_visit(visit, region, visit.fork >= stop)
        return region if region and region[0].row >= stop and not 0 <= visit.end < stop else []

    @staticmethod
    def _complete_visit(visit: TeamVisit, region: list[AddedEvent], forks: bool) -> list[AddedEvent]:
        """Return begin and end of a thread in a team with what it does in between, and FORK and JOIN around them if
        they belong to it."""
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
        """Put events, each of which follows from the one before, among those that come before the time range, where
        they stood."""
        before = self.slices[location].before
        n = next((i for i, x in enumerate(before) if x.kind in SWITCHES), len(before))
        at = 0
        for x in events:
            # after what was open when it happened, and after the event before
            at = max(at, next((i for i in range(n) if before[i].row > x.row), n))
            before.insert(at, x)
            at, n = at + 1, n + 1

    def _constructs(self) -> None:
        """The same for the constructs of an OpenMP team within which the time range begins."""
        construct = self._construct
        entered: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        last: dict[tuple[int, int, int], list[AddedEvent]] = {}
        for location in self._chosen:
            planned = self.slices[location]
            begins = self._open_begins.get(location, [])
            if not begins:
                continue
            begin = begins[-1].row
            team = self._team_of(location, begin)
            events = self.store.read("events", location, ["kind", "region"], begin, planned.start)
            role = np.append(construct, -1)[events["region"]]
            is_enter = events["kind"] == EventKind.ENTER
            for number in distinct(role[role > PARALLEL]).tolist():
                enters = np.flatnonzero(is_enter & (role == number))
                exits = np.flatnonzero((events["kind"] == EventKind.EXIT) & (role == number))
                is_open = enters.size > exits.size
                entered[team, number][location] = 2 * enters.size - is_open
                if enters.size and not is_open:
                    pair = zip((enters[-1], exits[-1]), (EventKind.ENTER, EventKind.EXIT), strict=True)
                    last[team, number, location] = [
                        AddedEvent(begin + int(i), kind, int(events["region"][i])) for i, kind in pair
                    ]
        for location, begins in self._open_begins.items():
            # who has met none of a kind of construct is after as well
            team = self._team_of(location, begins[-1].row)
            for (of, _), steps in entered.items():
                if of == team:
                    steps.setdefault(location, 0)
        for key, steps in entered.items():
            for location in _ahead(steps):
                self._insert(location, last[*key, location])

    def _team_of(self, location: int, begin: int) -> int:
        """Return the team of a begin; a number of the location's own if it is not defined."""
        e = self._side("threads", location, "team")
        team = int(e["team"][np.searchsorted(e["row"], begin)])
        return team if team >= 0 else -1 - location


def _ahead(steps: dict[int, int]) -> list[int]:
    """Return the locations that have left what others are in or will come to; `steps` is how often each has begun
    something or ended it, odd while it is inside."""
    latest = (max(steps.values()) + 1) // 2
    if latest == 0 or not any(s in (2 * latest - 1, 2 * latest - 2) for s in steps.values()):
        return []
    return [location for location, s in steps.items() if s == 2 * latest]


_WITH_REGION = (EventKind.ENTER, EventKind.CALLING_CONTEXT_ENTER)


def _repeated(x: Repeated) -> list[AddedEvent]:
    """Return an event that is repeated at the start, in its call if that is repeated, too."""
    event = AddedEvent(x.row, x.kind, -1, location=x.location)
    if x.enter < 0:
        return [event]
    return [AddedEvent(x.enter, EventKind.ENTER, x.region), event, AddedEvent(x.enter, EventKind.EXIT, x.region, {})]


class SlicePlan(NamedTuple):
    """What a trace slice holds."""

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
    stop, in ticks; `leaves_out` messages and collective operations whose partners lie outside."""
    n = int(store.manifest["n_locations"])
    chosen = sorted(set(range(n) if locations is None else locations))
    planner = SlicePlanner(store, chosen, start, stop, jobs, leaves_out)
    return SlicePlan([planner.slices.get(i, LocationSlice(0, 0)) for i in range(n)], planner.numbering)
