"""Region stacks, inherited stacks, call paths and exclusive time (thesis 3.6, 3.10, 3.14, 3.20 to 3.26)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from oracles.events import Event

TASKS = "TASKS"
IMPLICIT = (0, 0)

Path = tuple[str, ...]


def team_instances(events: Sequence[Event]) -> tuple[dict[Event, tuple[int, int]], dict[tuple[int, int], Event]]:
    """Find the instance (team, k) of every team begin, and the FORK of every instance.

    The k-th time that a thread begins in a team is instance k; the master is the thread whose last thread event before
    was a FORK.
    """
    instance: dict[Event, tuple[int, int]] = {}
    fork: dict[tuple[int, int], Event] = {}
    times: dict[tuple[int, int], int] = defaultdict(int)
    before: dict[int, Event] = {}
    for e in events:
        if e.kind not in ("fork", "join", "begin", "end"):
            continue
        if e.kind == "begin":
            k = times[e.location, e.team]
            times[e.location, e.team] += 1
            instance[e] = (e.team, k)
            if e.location in before and before[e.location].kind == "fork":
                fork[e.team, k] = before[e.location]
        before[e.location] = e
    return instance, fork


class Stacks:
    """Pointers, call paths and times that follow from the stacks of a trace; events are given in chronological order.

    A location has one region stack per task (the thesis has no tasks); the implicit task is (0, 0).

    Attributes
    ----------
    enterptr, exitptr : dict of Event to Event
        Null pointers are omitted.
    forkptr : dict of Event to Event
    path : dict of Event to tuple of str
        Call path of every ENTER, and of the region instance that contains every other event.
    first : dict of tuple to Event
        Least recent ENTER of every call path that was entered.
    exclusive, visits : dict of (path, location) to int
    """

    def __init__(self, events: Sequence[Event], program: Path = ()) -> None:
        self.enterptr: dict[Event, Event] = {}
        self.exitptr: dict[Event, Event] = {}
        self.forkptr: dict[Event, Event] = {}
        self.path: dict[Event, Path] = {}
        self.first: dict[Path, Event] = {}
        self.exclusive: dict[tuple[Path, int], int] = defaultdict(int)
        self.visits: dict[tuple[Path, int], int] = defaultdict(int)
        instance, fork = team_instances(events)
        inherited_by_fork: dict[Event, Path] = {}
        forks: dict[int, list[Event]] = defaultdict(list)
        task: dict[int, tuple[int, int]] = defaultdict(lambda: IMPLICIT)
        stack: dict[tuple[int, tuple[int, int]], list[Event]] = defaultdict(list)
        inherited: dict[int, Path] = defaultdict(tuple)
        last: dict[int, int] = {}
        flushed: dict[int, int] = {}
        stub: dict[tuple[int, tuple[int, int]], Path] = {}
        spent: dict[tuple[int, tuple[int, int]], int] = defaultdict(int)
        in_teams: dict[int, int] = defaultdict(int)

        for e in events:
            at = e.location
            now = task[at]
            own = stack[at, now]
            # the time since the last event of this location belongs to the top of its stack
            now_at = max(e.time, flushed.get(at, e.time))
            passed = now_at - last.get(at, now_at)
            last[at] = now_at
            if own:
                self.exclusive[self.path[own[-1]], at] += passed
                self.enterptr[e] = own[-1]
                self.path[e] = self.path[own[-1]]
            if now != IMPLICIT:
                spent[at, now] += passed
            if e.kind == "enter":
                if own:
                    above = self.path[own[-1]]
                elif now != IMPLICIT:
                    above = (*program, TASKS)
                    origin = stack[at, IMPLICIT]
                    stub.setdefault((at, now), (*(self.path[origin[-1]] if origin else inherited[at]), e.region))
                else:
                    above = inherited[at]
                self.path[e] = (*above, e.region)
                self.first.setdefault(self.path[e], e)
                self.visits[self.path[e], at] += 1
                own.append(e)
            elif e.kind == "exit" and own:
                self.exitptr[own.pop()] = e
            elif e.kind == "flush":
                path = (*(self.path[own[-1]] if own else inherited[at]), e.region)
                self.visits[path, at] += 1
                # time in overlapping flushes counts once
                since = last[at]
                last[at] = flushed[at] = max(e.stop, since)
                self.exclusive[path, at] += last[at] - since
                if now != IMPLICIT:
                    spent[at, now] += last[at] - since
            elif e.kind == "fork":
                inherited_by_fork[e] = self.path[own[-1]] if own else inherited[at]
                forks[at].append(e)
            elif e.kind == "join" and forks[at]:
                self.forkptr[e] = forks[at].pop()
            elif e.kind == "begin":
                in_teams[at] += 1
                if not own and now == IMPLICIT:
                    origin = fork.get(instance[e])
                    # the master keeps its own stack (3.20)
                    if origin is None:
                        inherited[at] = ()
                    elif origin.location != at:
                        inherited[at] = inherited_by_fork[origin]
            elif e.kind == "end":
                in_teams[at] = max(in_teams[at] - 1, 0)
                if not own and now == IMPLICIT and not in_teams[at]:
                    inherited[at] = ()
            elif e.kind == "switch":
                task[at] = IMPLICIT if e.task[1] == 0 else e.task
            elif e.kind == "complete":
                done = at, e.task
                if done in stub:
                    self.exclusive[stub[done], at] += spent[done]
                    self.visits[stub.pop(done), at] += 1
                spent[done] = 0
                task[at] = IMPLICIT
        # tasks that were not completed count with the time executed so far
        for (at, unfinished), path in stub.items():
            self.exclusive[path, at] += spent[at, unfinished]

    def cnodeptr(self, e: Event) -> Event:
        """Return the least recent ENTER with the same call path (3.23, 3.26)."""
        return self.first[self.path[e]]

    def cedgeptr(self, e: Event) -> Event | None:
        """Return the representative of the call path that an ENTER left (3.24); of a worker's first, that of the FORK
        (3.20)."""
        return self.first.get(self.path[e][:-1])
