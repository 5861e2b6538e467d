"""Random programs of one process whose threads are created, or execute tasks in barriers: the archive, and the call
path that each location executes at any time.

`Executed` has its own stack, so that the expected root causes follow from the program and not from tables of the
analysis.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

from support.otf2_writer import Archive, Location

CREATE, JOIN = "pthread_create", "pthread_join"
PARALLEL, BARRIER, TASK = "!$omp parallel @a.c:1", "!$omp barrier @a.c:4", "!$omp task @a.c:8"
OUTSIDE = ""
"""Call path of time outside all regions."""


class Executed:
    """A recorded location, and the call path that it executes between its events.

    Parameters
    ----------
    location : Location
    base : str
        Call path above the outermost regions, with a slash at the end unless it is empty.
    """

    def __init__(self, location: Location, base: str = "") -> None:
        self.location, self.base = location, base
        self.stacks: list[list[str]] = [[base]]
        self.spans: list[tuple[int, int, str]] = []
        self.stub = OUTSIDE
        self.now: int | None = None

    @property
    def path(self) -> str:
        """Return the call path that is executed."""
        stack = self.stacks[-1]
        if len(stack) > 1:
            return stack[0] + "/".join(stack[1:])
        return self.stub if len(self.stacks) > 1 else OUTSIDE

    def pass_to(self, time: int) -> None:
        """Execute the current call path until a time."""
        if self.now is not None and time > self.now:
            self.spans.append((self.now, time, self.path))
        self.now = time

    def enter(self, time: int, region: str) -> None:
        self.pass_to(time)
        self.location.enter(time, region)
        self.stacks[-1].append(region)

    def leave(self, time: int) -> None:
        self.pass_to(time)
        self.location.leave(time, self.stacks[-1].pop())

    def record(self, time: int, record: str, **fields: int) -> None:
        self.pass_to(time)
        self.location.record(time, record, **fields)

    def begin_task(self, time: int, team: int, task: tuple[int, int]) -> None:
        """Switch to a task; its time before its first region belongs to the call path at which it is scheduled."""
        stub = f"{self.path}/{TASK}" if len(self.stacks) == 1 else f"{self.stub}"
        self.record(time, "ThreadTaskSwitch", team=team, creator=task[0], generation=task[1])
        self.stacks.append(["TASKS/"])
        self.stub = stub

    def end_task(self, time: int, team: int, task: tuple[int, int], back: tuple[int, int]) -> None:
        """Complete a task, and switch back to another one."""
        self.record(time, "ThreadTaskComplete", team=team, creator=task[0], generation=task[1])
        self.stacks.pop()
        self.location.record(time, "ThreadTaskSwitch", team=team, creator=back[0], generation=back[1])


class RandomThreads:
    """Run a random program and write its archive.

    Parameters
    ----------
    seed : int
    path : Path
    creates : bool
        Whether the program creates threads; else it executes tasks in barriers.

    Attributes
    ----------
    spans : dict of int to list
        (begin, end, call path) of the executed intervals, by location.
    created : dict of int to tuple
        By location of a created thread: the location that creates it, begin of the creating call, time at which it
        enters its first region, and call path of the creating call.
    """

    def __init__(self, seed: int, path: Path, creates: bool) -> None:
        self.rng = random.Random(seed)
        self.archive = Archive(path, length=100_000)
        self.created: dict[int, tuple[int, int, int, str]] = {}
        self.executed: list[Executed] = []
        if creates:
            self._create_threads()
        else:
            self._execute_tasks()
        self.spans = {i: of.spans for i, of in enumerate(self.executed)}
        self.path = self.archive.write()

    def some(self, most: int) -> int:
        """Return a random time, often 0."""
        return self.rng.choice((0, self.rng.randint(0, most)))

    def work(self, of: Executed, time: int, depth: int = 2) -> int:
        """Call a few functions, and return the time of their end."""
        for _ in range(self.rng.randint(1, 3)):
            of.enter(time, self.rng.choice("fgh"))
            time += self.rng.randint(0, 30)
            if depth and self.rng.random() < 0.5:
                time = self.work(of, time, depth - 1)
            time += self.some(10)
            of.leave(time)
            time += self.some(9) if depth < 2 else 0
        return time

    # -- created threads -----------------------------------------------------------------------------------------------

    def _create_threads(self) -> None:
        a, rng = self.archive, self.rng
        process, n = a.process("p"), rng.randint(2, 5)
        locations = [a.location(f"t{i}", process, number=i) for i in range(n)]
        a.group("comm_locations", locations, "pthread")
        self.pool = a.comm("", range(n), paradigm="pthread")
        a.region(CREATE, "thread_create", "pthread")
        a.region(JOIN, "thread_wait", "pthread")
        has_program = rng.random() < 0.5
        self.executed = [Executed(x, "PROGRAM/THREADS/" if has_program else "") for x in locations]
        main = self.executed[0]
        main.base = main.stacks[0][0] = "PROGRAM/" if has_program else ""
        self.ended: dict[int, int] = {}
        self.waiting = list(range(1, n))
        if has_program:
            main.record(0, "ProgramBegin", program="PROGRAM")
            main.stacks[0] = ["", "PROGRAM"]
        main.enter(0, "main")
        time = self._run(0, 0, 0)
        main.leave(time)
        if has_program:
            main.record(time, "ProgramEnd", exit_status=0)

    def _run(self, i: int, time: int, depth: int) -> int:
        """Make a thread work, create others and wait for them; return the time of the end."""
        of, mine = self.executed[i], []
        for _ in range(self.rng.randint(1, 4)):
            time = self.work(of, time) + self.some(9)
            if self.waiting and depth < 2 and (i == 0 or self.rng.random() < 0.4):
                other = self.waiting.pop(0)
                of.enter(time, CREATE)
                around, begin = of.path, time
                of.record(time + self.some(3), "ThreadCreate", team=self.pool, sequence=other)
                time += 5
                of.leave(time)
                mine.append(other)
                self._begin(other, (i, begin, around), time + self.some(60), depth)
        for other in mine:
            of.enter(time, JOIN)
            time = max(time, self.ended[other]) + self.some(4)
            of.record(time, "ThreadWait", team=self.pool, sequence=other)
            of.leave(time)
        return time

    def _begin(self, i: int, by: tuple[int, int, str], time: int, depth: int) -> None:
        """Run a created thread, which enters its first region some time after its begin."""
        of = self.executed[i]
        of.record(time, "ThreadBegin", team=self.pool, sequence=i)
        time += self.some(20)
        self.created[i] = (*by[:2], time, by[2])
        time = self._run(i, time, depth + 1) + self.some(9)
        of.record(time, "ThreadEnd", team=self.pool, sequence=i)
        self.ended[i] = time

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _execute_tasks(self) -> None:
        rng, n = self.rng, self.rng.randint(2, 4)
        threads, self.team = self.archive.openmp(n)
        self.executed = [Executed(x) for x in threads]
        main = self.executed[0]
        main.enter(0, "main")
        start = self.work(main, 0, 1) + 1
        main.pass_to(start)
        main.location.fork(start, n)
        for of in self.executed:
            of.pass_to(start)
            of.location.begin_team(start, self.team)
            of.stacks[0][0] = "" if of is main else "main/"
            of.enter(start, PARALLEL)
        ends = [start] * n
        self.n_tasks = 0
        for _ in range(rng.randint(1, 5)):
            enters = [self.work(of, end) + self.some(40) for of, end in zip(self.executed, ends, strict=True)]
            until = []
            for i, (of, time) in enumerate(zip(self.executed, enters, strict=True)):
                of.enter(time, BARRIER)
                for _ in range(rng.choice((0, 0, 1, 2, 3))):
                    time = self._task(i, time + self.some(30), 0, (i, 0))
                until.append(time)
            last = max(*until, *enters)
            ends = [last + self.some(5) for _ in range(n)]
            for of, time in zip(self.executed, ends, strict=True):
                of.leave(time)
        join = max(ends)
        for of in self.executed:
            of.leave(join)
            of.location.end_team(join, self.team)
        main.location.join(join)
        main.leave(join + self.some(20))

    def _task(self, i: int, time: int, depth: int, back: tuple[int, int]) -> int:
        """Execute a task, which may wait for another one; return the time of its end."""
        of = self.executed[i]
        self.n_tasks += 1
        task = (i, self.n_tasks)
        of.begin_task(time, self.team, task)
        time += self.some(7)
        of.enter(time, TASK)
        time = self.work(of, time, 1)
        if depth < 1 and self.rng.random() < 0.4:
            of.enter(time, "!$omp taskwait @a.c:9")
            time = self._task(i, time + self.some(5), depth + 1, task) + self.some(5)
            of.leave(time)
        of.leave(time)
        time += self.some(7)
        of.end_task(time, self.team, task, back)
        return time

    def expected_path(
        self, stretches: list[tuple[int, int, int]], since: int = 0, until: int = 1 << 62
    ) -> dict[tuple[str, int], int]:
        """Return the time of a critical path, by call path and location.

        Parameters
        ----------
        stretches : list of tuple
            Location, begin and end of the parts of the critical path, in chronological order.
        since, until : int
            Time range to be counted.
        """
        found: dict[tuple[str, int], int] = defaultdict(int)
        for k, (location, begin, end) in enumerate(stretches):
            spans = self.spans[location]
            following = stretches[k + 1][0] if k + 1 < len(stretches) else -1
            if (
                following in self.created
                and self.created[following][0] == location
                and self.created[following][2] == end
            ):
                # the launch of a thread is charged to the call that creates it
                _, create, enters, path = self.created[following]
                spans = [(a, min(b, create), p) for a, b, p in spans if a < create] + [(create, enters, path)]
            for a, b, path in spans:
                if path == OUTSIDE and location in self.created:
                    path = self.created[location][3]
                time = min(b, end, until) - max(a, begin, since)
                if time > 0:
                    found[path, location] += time
        return dict(found)
