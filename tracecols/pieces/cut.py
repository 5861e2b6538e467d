"""Plan what a piece of a trace holds, so that it is a trace by itself.

A piece is what a recording of the window would have held, had it known what was going on when it began:

* What is open at the start is entered again at the time of the start, with its attributes: region instances (also those
  that a PROGRAM_BEGIN, a calling context or MEASUREMENT_ON_OFF enters), FORKs and team begins, suspended tasks, requests
  of receives. What is open at the end is closed at the time of the end, unless the location's events end before.
* Partners are found by counting: the k-th send and receive of a channel, the k-th collective operation of a communicator,
  the k-th begin in a team. So that the same belong together as in the whole trace, receives of messages that were sent
  before the start are left out, and so are ends of collective operations that others had completed before; a thread
  that had left a team or an OpenMP construct when others had not enters and leaves it once more, at the start.
* Locations that are not chosen stay defined and have no events: ranks and communicators mean what they meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.enhance.communicators import Communicators
from tracecols.enhance.grouping import combine, occurrence
from tracecols.enhance.regions import Regions
from tracecols.kernels import cuts
from tracecols.schema import EventKind
from tracecols.store import Store
from tracecols.store.arrow import to_numpy

BATCH = 1 << 20
"""Events that are looked at at once."""

SENDS = (EventKind.MPI_SEND, EventKind.MPI_ISEND)
RECEIVES = (EventKind.MPI_RECV, EventKind.MPI_IRECV, EventKind.MPI_PROBE)
"""What takes a message: a matching probe does, for the receive that follows."""
REQUESTS = (EventKind.MPI_IRECV_REQUEST, EventKind.MPI_IMRECV_REQUEST)
COMPLETIONS = (EventKind.MPI_IRECV, EventKind.MPI_IMRECV, EventKind.MPI_REQUEST_CANCELLED)
FORKS = (EventKind.THREAD_FORK, EventKind.OMP_FORK)
JOINS = (EventKind.THREAD_JOIN, EventKind.OMP_JOIN)
SWITCHES = (EventKind.THREAD_TASK_SWITCH, EventKind.OMP_TASK_SWITCH)
COMPLETES = (EventKind.THREAD_TASK_COMPLETE, EventKind.OMP_TASK_COMPLETE)

CLOSERS = {
    EventKind.ENTER: EventKind.EXIT,
    EventKind.PROGRAM_BEGIN: EventKind.PROGRAM_END,
    EventKind.CALLING_CONTEXT_ENTER: EventKind.CALLING_CONTEXT_EXIT,
    EventKind.MEASUREMENT_ON_OFF: EventKind.MEASUREMENT_ON_OFF,
    EventKind.THREAD_FORK: EventKind.THREAD_JOIN,
    EventKind.OMP_FORK: EventKind.OMP_JOIN,
    EventKind.THREAD_TEAM_BEGIN: EventKind.THREAD_TEAM_END,
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


def _actions() -> NDArray[np.uint8]:
    action = np.zeros(256, np.uint8)
    for what, kinds in (
        (cuts.PUSH, (EventKind.ENTER, EventKind.PROGRAM_BEGIN, EventKind.CALLING_CONTEXT_ENTER)),
        (cuts.POP, (EventKind.EXIT, EventKind.PROGRAM_END, EventKind.CALLING_CONTEXT_EXIT)),
        (cuts.ON_OFF, (EventKind.MEASUREMENT_ON_OFF,)),
        (cuts.FORK, FORKS),
        (cuts.JOIN, JOINS),
        (cuts.TEAM_BEGIN, (EventKind.THREAD_TEAM_BEGIN,)),
        (cuts.TEAM_END, (EventKind.THREAD_TEAM_END,)),
        (cuts.TASK_SWITCH, SWITCHES),
        (cuts.TASK_COMPLETE, COMPLETES),
    ):
        action[list(kinds)] = what
    return action


ACTION = _actions()


@dataclass
class Extra:
    """An event that is put in, made after one of the trace.

    Attributes
    ----------
    row : int
        The event it is made after, counting from the location's first.
    kind, region : int
        Its kind and region.
    changes : dict, optional
        Values of its side table that differ; None for an event that repeats everything, additional attributes included.
    """

    row: int
    kind: int
    region: int
    changes: dict[str, int] | None = None


@dataclass
class LocationCut:
    """What a piece holds of one location.

    Attributes
    ----------
    start, stop : int
        Its events from the one to before the other, counting from its first.
    before, after : list of Extra
        What comes before and after them.
    dropped : (n,) int64
        Which of them are left out, in order.
    """

    start: int
    stop: int
    before: list[Extra] = field(default_factory=list)
    after: list[Extra] = field(default_factory=list)
    dropped: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def n_events(self) -> int:
        """Number of events of the piece."""
        return len(self.before) + self.stop - self.start - self.dropped.size + len(self.after)


class Stacks:
    """What is open at some event of one location."""

    def __init__(self, n_tasks: int) -> None:
        self.state = np.zeros(cuts.N_STATE, np.int64)
        self.top = np.full(cuts.TASKS + n_tasks, -1, np.int64)
        self._items: list[NDArray[Any]] = [
            np.arange(1, 65),
            np.zeros(64, np.int64),
            np.zeros(64, np.uint8),
            np.zeros(64, np.int32),
        ]
        self._items[0][-1] = -1

    def walk(self, store: Store, location: int, start: int, stop: int, slots: NDArray[np.int64]) -> None:
        """Go on from one event to before another."""
        for base in range(start, stop, BATCH):
            columns = store.read("events", location, ["kind", "region"], base, min(base + BATCH, stop))
            at = 0
            while True:
                at = int(
                    cuts.walk(
                        columns["kind"], columns["region"], at, base, self.state, ACTION, slots, self.top, *self._items
                    )
                )
                if at == columns["kind"].size:
                    break
                if at < 0:
                    raise store.damaged(
                        f"location {location}, event {base - 1 - at}: it switches tasks, but the table tasks has no row for it"
                    )
                n = self._items[0].size
                self._items = [np.concatenate([a, np.zeros_like(a)]) for a in self._items]
                self._items[0][n:] = np.arange(n + 1, 2 * n + 1)
                self._items[0][-1] = -1
                self.state[cuts.FREE] = n

    @property
    def task(self) -> int:
        """The task that runs; 0 is the implicit one."""
        return int(self.state[cuts.TASK])

    @property
    def tasks(self) -> list[int]:
        """The explicit tasks that have open region instances or run, the one that runs as the last."""
        found = (np.flatnonzero(self.top[cuts.TASKS + 1 :] >= 0) + 1).tolist()
        return sorted({*found, self.task} - {0}, key=lambda t: (t == self.task, t))

    def open(self, *stacks: int) -> list[Extra]:
        """Return what is open on some stacks, in the order it was opened."""
        below, row, kind, region = self._items
        result = []
        for stack in stacks:
            item = int(self.top[stack])
            while item >= 0:
                result.append(Extra(int(row[item]), int(kind[item]), int(region[item])))
                item = int(below[item])
        return sorted(result, key=lambda e: e.row)

    def open_outside_tasks(self) -> list[Extra]:
        """Return what is open outside of explicit tasks."""
        return self.open(cuts.FORKS, cuts.BEGINS, cuts.TASKS)


@dataclass
class TaskEvents:
    """The events of one location that switch or complete tasks: rows, kinds, numbers of their tasks (0 is the implicit one)."""

    row: NDArray[np.int64]
    kind: NDArray[np.uint8]
    slot: NDArray[np.int64]

    @classmethod
    def of(cls, store: Store, location: int, first_row: int) -> TaskEvents:
        t = store.read("tasks", location, ["row", "kind", "creator", "generation", "task"])
        mine = np.isin(t["kind"], (*SWITCHES, *COMPLETES))
        row, kind, creator, generation, task = (t[c][mine] for c in ("row", "kind", "creator", "generation", "task"))
        old = np.isin(kind, (EventKind.OMP_TASK_SWITCH, EventKind.OMP_TASK_COMPLETE))
        implicit = np.where(old, task == 0, generation == 0)
        slot = np.zeros(row.size, np.int64)
        if not implicit.all():
            key = np.where(old, task, (creator.astype(np.int64) << 32) + generation)
            slot[~implicit] = np.unique(key[~implicit], return_inverse=True)[1] + 1
        return cls(row - first_row, kind, slot)

    def switch_to(self, slot: int, before: int) -> Extra:
        """Return the last event before some row that switched to a task."""
        at = np.flatnonzero((self.slot == slot) & (self.row < before) & np.isin(self.kind, SWITCHES))[-1]
        return Extra(int(self.row[at]), int(self.kind[at]), -1)

    def switch_to_implicit(self, before: int) -> Extra:
        """Return a switch to the implicit task, made after the last switch before some row."""
        at = np.flatnonzero((self.row < before) & np.isin(self.kind, SWITCHES))[-1]
        return Extra(int(self.row[at]), int(self.kind[at]), -1, TO_IMPLICIT)


class CutPlanner:
    """Find out what a piece of a trace holds.

    Parameters
    ----------
    store : Store
    chosen : list of int
        Rows of locations.
    start, stop : int, optional
        Ticks: events with start <= time < stop.
    jobs : int
        Threads.
    """

    def __init__(self, store: Store, chosen: list[int], start: int | None, stop: int | None, jobs: int) -> None:
        self.store, self._chosen, self._start, self._stop = store, chosen, start, stop
        locations = store.definitions["locations"]
        self._first_rows = to_numpy(locations.column("first_row"))
        self._process = to_numpy(locations.column("process"))
        self._open_begins: dict[int, list[Extra]] = {}
        with ThreadPoolExecutor(jobs) as pool:
            self.cuts = dict(zip(chosen, pool.map(self._cut, chosen), strict=True))
        if start is not None:
            communicators = Communicators(store, self._process)
            dropped: dict[int, list[NDArray[np.int64]]] = defaultdict(list)
            self._messages(communicators, dropped)
            self._collectives(communicators, dropped)
            for location, parts in dropped.items():
                self.cuts[location].dropped = np.unique(np.concatenate(parts))
            self._teams()
            self._constructs()

    def _side(self, table: str, location: int, *columns: str) -> Columns:
        """Read columns of a side table, its rows counting from the location's first."""
        found = self.store.read(table, location, ["row", *columns])
        found["row"] = found["row"] - self._first_rows[location]
        return found

    def _cut(self, location: int) -> LocationCut:
        """Find the window in one location and what is open where it begins and ends."""
        n = self.store.n_rows("events", location)
        cut = self._window(location, n)
        if cut.start == 0 and cut.stop == n:
            return cut
        tasks = TaskEvents.of(self.store, location, int(self._first_rows[location]))
        stacks = Stacks(int(tasks.slot.max(initial=0)) + 1)
        stacks.walk(self.store, location, 0, cut.start, tasks.slot)
        if 0 < cut.start < n:
            cut.before = stacks.open_outside_tasks()
            begins = stacks.open(cuts.BEGINS)
            if begins:
                self._open_begins[location] = begins
            for task in stacks.tasks:
                cut.before += [tasks.switch_to(task, cut.start), *stacks.open(cuts.TASKS + task)]
            if stacks.tasks and not stacks.task:
                cut.before.append(tasks.switch_to_implicit(cut.start))
        if cut.stop < n:
            stacks.walk(self.store, location, cut.start, cut.stop, tasks.slot)
            if stacks.task:
                cut.after = self._closers(stacks.open(cuts.TASKS + stacks.task))
                cut.after.append(tasks.switch_to_implicit(cut.stop))
            cut.after += self._closers(stacks.open_outside_tasks())
        return cut

    @staticmethod
    def _closers(opened: list[Extra]) -> list[Extra]:
        """Return what closes events, the last first."""
        return [
            Extra(
                e.row,
                CLOSERS[EventKind(e.kind)],
                e.region if e.kind in _WITH_REGION else -1,
                _CLOSED.get(EventKind(e.kind), {}),
            )
            for e in reversed(opened)
        ]

    def _window(self, location: int, n: int) -> LocationCut:
        """Find the first event from which on none is earlier than the window, and the first that is later."""
        first, last = 0, n
        if self._start is None and self._stop is None:
            return LocationCut(first, last)
        for base in range(0, n, BATCH):
            time = self.store.read("events", location, ["time"], base, min(base + BATCH, n))["time"]
            if self._start is not None:
                early = np.flatnonzero(time < self._start)
                if early.size:
                    first = base + int(early[-1]) + 1
            if self._stop is not None:
                late = np.flatnonzero(time >= self._stop)
                if late.size:
                    last = base + int(late[0])
                    break
        return LocationCut(first, max(first, last))

    # -- what was counted before the window --------------------------------------------------------------------------

    def _messages(self, communicators: Communicators, dropped: dict[int, list[NDArray[np.int64]]]) -> None:
        """Leave out receives whose sends come before the window, and repeat the requests of receives."""
        balance: dict[tuple[int, ...], int] = defaultdict(int)
        for location in self._chosen:
            e = self._side("p2p", location, "kind", "peer", "communicator", "tag", "request")
            self._requests(location, e)
            is_early = e["row"] < self.cuts[location].start
            keys, group, sign, _ = self._channels(communicators, location, {c: v[is_early] for c, v in e.items()})
            for key, n in zip(keys, np.bincount(group, sign, len(keys)).tolist(), strict=True):
                balance[key] += int(n)
        # positive: messages under way; negative: received before they were sent, by wrong clocks
        under_way = {key: n for key, n in balance.items() if n}
        waiting = {int(key[1 if n > 0 else 0]) for key, n in under_way.items()}
        for location in self._chosen:
            if self._process[location] not in waiting:
                continue
            e = self._side("p2p", location, "kind", "peer", "communicator", "tag")
            inside = (e["row"] >= self.cuts[location].start) & (e["row"] < self.cuts[location].stop)
            keys, group, sign, row = self._channels(communicators, location, {c: v[inside] for c, v in e.items()})
            for wanted in (-1, 1):
                mine = np.flatnonzero(sign == wanted)
                left = np.array([max(-wanted * under_way.get(k, 0), 0) for k in keys], np.int64)
                chosen = mine[occurrence(group[mine]) < left[group[mine]]]
                if chosen.size:
                    dropped[location].append(row[chosen])
                for k, n in zip(keys, np.bincount(group[chosen], minlength=len(keys)).tolist(), strict=True):
                    if n:
                        under_way[k] += wanted * n

    def _channels(
        self, communicators: Communicators, location: int, e: Columns
    ) -> tuple[list[tuple[int, ...]], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Find the channels of sends and receives.

        Returns
        -------
        keys : list of (source, destination, communicator, tag)
            The channels; source and destination are processes.
        group, sign, row : (n,) int64
            Of every send and receive its channel, 1 or -1, its row.
        """
        is_send = np.isin(e["kind"], SENDS)
        mine = np.flatnonzero(is_send | np.isin(e["kind"], RECEIVES))
        is_send = is_send[mine]
        own = np.full(mine.size, self._process[location], np.int32)
        communicator, tag = e["communicator"][mine].astype(np.int64), e["tag"][mine]
        other = communicators.process_of(e["communicator"][mine], e["peer"][mine], own)
        columns = np.where(is_send, own, other), np.where(is_send, other, own), communicator, tag
        _, first, group = np.unique(combine(*columns), return_index=True, return_inverse=True)
        keys = list(zip(*(c[first].tolist() for c in columns), strict=True))
        return keys, group, np.where(is_send, 1, -1), e["row"][mine]

    def _requests(self, location: int, e: Columns) -> None:
        """Repeat requests of receives that were not complete."""
        cut = self.cuts[location]
        mine = np.flatnonzero(np.isin(e["kind"], (*REQUESTS, *COMPLETIONS)) & (e["row"] < cut.start))
        # the last event of every request
        _, at = np.unique(e["request"][mine][::-1], return_index=True)
        last = np.sort(mine[mine.size - 1 - at])
        for i in last[np.isin(e["kind"][last], REQUESTS)].tolist():
            cut.before.append(Extra(int(e["row"][i]), int(e["kind"][i]), -1))

    def _collectives(self, communicators: Communicators, dropped: dict[int, list[NDArray[np.int64]]]) -> None:
        """Leave out the ends of collective operations that others have completed before the window."""
        ends: dict[tuple[int, int], int] = defaultdict(int)
        for location in self._chosen:
            e = self._side("collectives", location, "kind", "communicator")
            early = (e["kind"] == EventKind.MPI_COLLECTIVE_END) & (e["row"] < self.cuts[location].start)
            for c, n in zip(*np.unique(e["communicator"][early], return_counts=True), strict=True):
                ends[int(c), int(self._process[location])] += int(n)
        most: dict[int, int] = defaultdict(int)
        for (c, _), n in ends.items():
            most[c] = 0 if c < 0 or communicators.is_self[c] else max(most[c], n)
        for location in self._chosen:
            cut, process = self.cuts[location], int(self._process[location])
            e = self._side("collectives", location, "kind", "communicator")
            inside = (e["row"] >= cut.start) & (e["row"] < cut.stop)
            at = np.flatnonzero(inside & (e["kind"] == EventKind.MPI_COLLECTIVE_END))
            found, of = np.unique(e["communicator"][at], return_inverse=True)
            lacking = [max(most[c] - ends[c, process], 0) for c in found.tolist()]
            chosen = at[occurrence(of) < np.array(lacking, np.int64)[of]]
            if not chosen.size:
                continue
            # with its begin, which is the event before
            begins = chosen[chosen > 0] - 1
            begins = begins[inside[begins] & (e["kind"][begins] == EventKind.MPI_COLLECTIVE_BEGIN)]
            dropped[location].append(e["row"][np.concatenate([chosen, begins])])
            for c in e["communicator"][chosen].tolist():
                ends[c, process] += 1

    def _teams(self) -> None:
        """Let threads that have left a team before the window begin and end in it once more if others have not."""
        begun: dict[int, dict[int, int]] = defaultdict(dict)
        last: dict[tuple[int, int], list[Extra]] = {}
        for location in self._chosen:
            e = self._side("threads", location, "kind", "team")
            early = e["row"] < self.cuts[location].start
            kind, team, row = (e[c] for c in ("kind", "team", "row"))
            # of a team that is not defined nobody knows who else is in it
            for number in np.unique(team[(kind == EventKind.THREAD_TEAM_BEGIN) & (team >= 0)]).tolist():
                mine = np.flatnonzero(early & (team == number))
                begins = mine[kind[mine] == EventKind.THREAD_TEAM_BEGIN]
                ended = mine.size > 0 and kind[mine[-1]] == EventKind.THREAD_TEAM_END
                begun[number][location] = 2 * begins.size - (not ended and begins.size > 0)
                if ended and begins.size:
                    last[number, location] = self._instance(kind, row, int(begins[-1]), int(mine[-1]), early)
        for number, steps in begun.items():
            for location in _ahead(steps):
                self._insert(location, last[number, location])

    @staticmethod
    def _instance(
        kind: NDArray[np.int64], row: NDArray[np.int64], begin: int, end: int, early: NDArray[np.bool_]
    ) -> list[Extra]:
        """Return begin and end of a thread in a team instance, with the FORK right before and its JOIN."""
        found = [begin, end]
        if begin > 0 and kind[begin - 1] in FORKS:
            found.append(begin - 1)
            joins = np.flatnonzero(np.isin(kind, JOINS) & early)
            found += joins[joins > end][:1].tolist()
        return [Extra(int(row[i]), int(kind[i]), -1) for i in found]

    def _insert(self, location: int, events: list[Extra]) -> None:
        """Put events among those that come before the window, where they stood."""
        before = self.cuts[location].before
        n = next((i for i, x in enumerate(before) if x.kind in _AFTER_OPEN), len(before))
        known = {x.row for x in before}
        before[:n] = sorted([*before[:n], *(x for x in events if x.row not in known)], key=lambda x: x.row)

    def _constructs(self) -> None:
        """The same for the constructs of an OpenMP team within which the window begins."""
        construct = Regions(self.store).construct
        entered: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        last: dict[tuple[int, int, int], list[Extra]] = {}
        for location in self._chosen:
            cut = self.cuts[location]
            begins = self._open_begins.get(location, [])
            if not begins:
                continue
            begin = begins[-1].row
            team = self._team_of(location, begin)
            events = self.store.read("events", location, ["kind", "region"], begin, cut.start)
            role = np.append(construct, -1)[events["region"]]
            is_enter = events["kind"] == EventKind.ENTER
            for number in np.unique(role[role >= 0]).tolist():
                enters = np.flatnonzero(is_enter & (role == number))
                exits = np.flatnonzero((events["kind"] == EventKind.EXIT) & (role == number))
                is_open = enters.size > exits.size
                entered[team, number][location] = 2 * enters.size - is_open
                if enters.size and not is_open:
                    pair = zip((enters[-1], exits[-1]), (EventKind.ENTER, EventKind.EXIT), strict=True)
                    last[team, number, location] = [
                        Extra(begin + int(i), kind, int(events["region"][i])) for i, kind in pair
                    ]
        for location, begins in self._open_begins.items():
            # who has met none of a kind of construct is behind as well
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
    """Return the locations that have left what others are in or will come to.

    Parameters
    ----------
    steps : dict of int to int
        By location how often it has begun something or ended it; odd while it is inside.
    """
    latest = (max(steps.values()) + 1) // 2
    if latest == 0 or not any(s in (2 * latest - 1, 2 * latest - 2) for s in steps.values()):
        return []
    return [location for location, s in steps.items() if s == 2 * latest]


_WITH_REGION = (EventKind.ENTER, EventKind.CALLING_CONTEXT_ENTER)
_AFTER_OPEN = (*SWITCHES, *REQUESTS)


def plan_cut(
    store: Store, locations: Iterable[int] | None, start: int | None, stop: int | None, jobs: int
) -> list[LocationCut]:
    """Plan a piece of a trace; locations that are not chosen hold nothing."""
    n = int(store.manifest["n_locations"])
    chosen = sorted(set(range(n) if locations is None else locations))
    planned = CutPlanner(store, chosen, start, stop, jobs).cuts
    return [planned.get(i, LocationCut(0, 0)) for i in range(n)]
