"""State sequences and the pointers that follow from them (thesis 3.6 to 3.10, 3.13, 3.19 to 3.26), kept in one pass
over all events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from oracles import queues, stacks
from oracles.events import Event
from oracles.recorded import Recorded

IMPLICIT = stacks.IMPLICIT


class States:
    """The state after the last event passed to `step`.

    Attributes
    ----------
    sendptr : dict of Event to Event
    underway : list of Event
        All messages sent and not received, in order (3.7).
    mpicoll, ompcoll : list of Event
        The EXITs of the instance that the last event completes; empty if it completes none (3.9).
    enterptr, forkptr, cnodeptr, cedgeptr : Event or None
        Pointers of the last event.
    visits : dict of Event to int
        Number of visits of call paths, by their representatives.
    """

    def __init__(self, recorded: Recorded) -> None:
        self.events, self.group, self.process = recorded.events, recorded.group, recorded.process
        self._constructs = recorded.constructs
        self.sendptr = queues.sendptr(self.events)
        self._never = queues.cancelled(self.events)
        instance, self._fork = stacks.team_instances(self.events)
        self._instance = instance
        self._members: dict[tuple[int, int], list[int]] = defaultdict(list)
        for e, of in instance.items():
            self._members[of].append(e.location)
        # recordings without team begins: all threads of a process are its team (3.18)
        self._by_process = {e.process for e in self.events if e.kind == "fork"} - {e.process for e in instance}
        self._first = {p: self.process.index(p) for p in set(self.process)}
        self.underway: list[Event] = []
        self._received_early: set[Event] = set()
        self._stack: dict[tuple[int, tuple[int, int]], list[Event]] = defaultdict(list)
        self._task: dict[int, tuple[int, int]] = defaultdict(lambda: IMPLICIT)
        self._handed: dict[int, list[Event]] = defaultdict(list)
        self._at_fork: dict[Event, list[Event]] = {}
        self._teams: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._held: dict[Event, int] = {}
        self._collective: dict[object, list[Event]] = defaultdict(list)
        self._construct: dict[object, list[Event]] = defaultdict(list)
        self.mpicoll: list[Event] = []
        self.ompcoll: list[Event] = []
        self._site = recorded.site
        self._forks: dict[int, list[Event]] = defaultdict(list)
        self._representative: dict[object, Event] = {}
        self._of: dict[Event, Event] = {}
        self.visits: dict[Event, int] = defaultdict(int)
        self.enterptr: Event | None = None
        self.forkptr: Event | None = None
        self.cnodeptr: Event | None = None
        self.cedgeptr: Event | None = None

    def stack(self, location: int) -> list[Event]:
        """Return R(l), of the running task."""
        return self._stack[location, self._task[location]]

    def istack(self, location: int) -> list[Event]:
        """Return I(l)."""
        return [*self._handed[location], *self.stack(location)]

    def in_task(self, location: int) -> bool:
        """Return whether an explicit task is running."""
        return self._task[location] != IMPLICIT

    def representatives(self) -> list[Event]:
        """Return the nodes of the dynamic call graph, in order (3.25)."""
        return list(self._representative.values())

    def queue(self, source: int | None = None, destination: int | None = None) -> list[Event]:
        """Return M(s, d) of two processes; None means all."""
        return [e for e in self.underway if source in (None, e.process) and destination in (None, e.peer)]

    def step(self, e: Event) -> None:
        """Apply the transition functions of an event."""
        at = e.location
        own = self.stack(at)
        self.mpicoll, self.ompcoll = [], []
        self.enterptr = own[-1] if own else None
        self.forkptr = self.cnodeptr = self.cedgeptr = None
        if e.kind == "enter":
            own.append(e)
            self._enter(e)
        elif e.kind == "exit" and own:
            enter = own.pop()
            if enter in self._held:
                self.mpicoll = self._collect(e, self._held[enter])
            if enter.region in self._constructs:
                self.ompcoll = self._construct_exit(e)
        elif e.kind == "collective" and own:
            self._held[own[-1]] = e.communicator
        elif e.kind == "send" and e not in self._never and e not in self._received_early:
            self.underway.append(e)
        elif e.kind == "recv" and e in self.sendptr:
            if self.sendptr[e] in self.underway:
                self.underway.remove(self.sendptr[e])
            else:
                self._received_early.add(self.sendptr[e])
        elif e.kind == "fork":
            self._forks[at].append(e)
            self._at_fork[e] = self.istack(at)
            if e.process in self._by_process and at == self._first[e.process]:
                self._hand_over(e, self._at_fork[e])
        elif e.kind == "join":
            self.forkptr = self._forks[at].pop() if self._forks[at] else None
            if e.process in self._by_process and at == self._first[e.process]:
                self._hand_over(e, [])
        elif e.kind == "begin":
            self._teams[at].append(self._instance[e])
            fork = self._fork.get(self._instance[e])
            if fork is not None and fork.location != at and not own:
                self._handed[at] = self._at_fork[fork]
        elif e.kind == "end" and self._teams[at]:
            self._teams[at].pop()
            if not self._teams[at]:
                self._handed[at] = []
        elif e.kind == "switch":
            self._task[at] = IMPLICIT if e.task[1] == 0 else e.task
        elif e.kind == "complete":
            self._task[at] = IMPLICIT

    def _enter(self, e: Event) -> None:
        """Find the representatives of the call paths that an ENTER visits and leaves."""
        in_task = self.in_task(e.location)
        # explicit tasks have their own tree; call sites of roots are ignored
        above = self.stack(e.location) if in_task else self.istack(e.location)
        path = (in_task, *((x.region, self._site.get(x.row, -1) if i or in_task else -1) for i, x in enumerate(above)))
        self.cnodeptr = self._of[e] = self._representative.setdefault(path, e)
        self.visits[self.cnodeptr] += 1
        self.cedgeptr = self._of[above[-2]] if len(above) > 1 else None

    def _hand_over(self, e: Event, stack: list[Event]) -> None:
        for location, process in enumerate(self.process):
            if process == e.process and location != e.location:
                self._handed[location] = stack

    def _collect(self, e: Event, communicator: int) -> list[Event]:
        members = self.group[communicator] or [e.process]
        mine = self._collective[communicator, -1 if self.group[communicator] else e.process]
        return self._complete(mine, e, {p: [x for x in mine if x.process == p] for p in members}, e.process)

    def _construct_exit(self, e: Event) -> list[Event]:
        if e.process in self._by_process:
            key: object = e.process
            threads: Sequence[int] = [i for i, p in enumerate(self.process) if p == e.process]
        elif self._teams[e.location]:
            key = self._teams[e.location][-1]
            threads = self._members[self._teams[e.location][-1]]
        else:
            return []
        mine = self._construct[key]
        return self._complete(mine, e, {t: [x for x in mine if x.location == t] for t in threads}, e.location)

    @staticmethod
    def _complete(mine: list[Event], e: Event, by_member: Mapping[int, list[Event]], own: int) -> list[Event]:
        mine.append(e)
        by_member[own].append(e)
        if not all(by_member.values()):
            return []
        instance = [found[0] for found in by_member.values()]
        for x in instance:
            mine.remove(x)
        return sorted(instance, key=lambda x: (x.time, x.location, x.row))
