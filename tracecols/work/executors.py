"""Executors of work: the threads of this process, or the workers of a cluster (`tracecols.work.cluster`). Both run the
same functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from threading import Event, Lock
from typing import Protocol, TypeVar

from tracecols.work.memory import Budget
from tracecols.work.scratch import free_for_files

Item = TypeVar("Item")
Result = TypeVar("Result")

Report = Callable[[int], None]
"""Called with the additional amount done."""

Task = Callable[[Item, Report], Result]
"""A function that processes an item. It may report the amount done; on a cluster it is pickled."""


def not_reported(_n: int) -> None:
    """Ignore a report."""


def not_asked() -> None:
    """Let all work continue."""


class Executor(Protocol):
    """The interface of executors.

    Attributes
    ----------
    jobs : int
        Threads of this process.
    folder : Path or None
        Folder through which workers exchange results; None if they share the memory of this process.
    slots : int
        Number of tasks that run at the same time.
    memory : int or None
        Bytes for each of them; None if there is no limit.
    budget : Budget
        Memory and scratch folder of this process.
    capacity : int or None
        Bytes for the data of the whole trace that a task holds; None if there is no limit.
    """

    @property
    def jobs(self) -> int: ...

    @property
    def folder(self) -> Path | None: ...

    @property
    def slots(self) -> int: ...

    @property
    def memory(self) -> int | None: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def capacity(self) -> int | None: ...

    def go_on(self) -> None:
        """Raise an error if the work is to end; workers call this from time to time."""

    def map(
        self,
        function: Task[Item, Result],
        items: Iterable[Item],
        report: Report = not_reported,
        ahead: int | None = None,
    ) -> Iterator[Result]:
        """Yield the results of a task in the order of the items; at most `ahead` of them wait in memory."""


class Stopped(Exception):
    """Ends a task whose result is not needed, since another one failed or the program is interrupted."""


@dataclass(frozen=True)
class Threads:
    """The threads of this process."""

    jobs: int
    budget: Budget = field(default_factory=Budget)
    folder: Path | None = None
    ask: Callable[[], None] = not_asked

    def go_on(self) -> None:
        """Raise the error that `ask` raises if the work is to end."""
        self.ask()

    @property
    def slots(self) -> int:
        """As many tasks as threads."""
        return self.jobs

    @property
    def memory(self) -> int | None:
        """Bytes for each task; None if there is no limit."""
        return self.budget.of_task(self.jobs)

    @property
    def capacity(self) -> int | None:
        """Bytes, in memory and files, for all tasks together, since they share the data of the trace."""
        in_memory = self.budget.of_task(1)
        return None if in_memory is None else in_memory + free_for_files(self.budget.scratch)

    def map(
        self,
        function: Task[Item, Result],
        items: Iterable[Item],
        report: Report = not_reported,
        ahead: int | None = None,
    ) -> Iterator[Result]:
        """Yield the results of a task for each item, in the order of the items.

        If one fails, the others end when they next report. A single task is executed by the calling thread.

        `ahead` limits the number of results that wait to be consumed, and of items that are taken before, for large
        ones; by default there is no limit.
        """
        left = iter(items)
        first = list(islice(left, 2))
        if len(first) < 2:
            for item in first:
                yield function(item, report)
            return
        left = chain(first, left)
        stop, lock = Event(), Lock()
        failed: list[BaseException] = []

        def report_one(n: int) -> None:
            if stop.is_set():
                raise Stopped
            with lock:
                report(n)

        def run(item: Item) -> Result:
            try:
                return function(item, report_one)
            except Stopped:
                raise
            except BaseException as error:
                failed.append(error)
                stop.set()
                raise

        begun = deque[Future[Result]]()
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                most = None if ahead is None else self.jobs + ahead
                begun.extend(pool.submit(run, item) for item in islice(left, most))
                while begun:
                    yield begun.popleft().result()
                    begun.extend(pool.submit(run, item) for item in islice(left, 1))
            except Stopped:
                # if no task has failed, all of this work is to end (`beside`)
                if not failed:
                    raise
                raise failed[0] from None
            finally:
                stop.set()
                for future in begun:
                    future.cancel()
                failed.clear()


@contextmanager
def beside(function: Callable[[Callable[[], None]], Result], ask: Callable[[], None]) -> Iterator[Callable[[], Result]]:
    """Start work in a separate thread, and yield a function that waits for its result; the context ends after the work.

    `function` gets a callable to call from time to time: it calls `ask`, and raises an error if the context is ending.
    """
    is_over = Event()

    def go_on() -> None:
        if is_over.is_set():
            raise Stopped
        ask()

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(function, go_on).result
        try:
            yield result
        finally:
            is_over.set()


def side_by_side(
    jobs: int, function: Callable[[Item], Result], items: Iterable[Item], ahead: int | None = None
) -> Iterator[Result]:
    """Yield the results of a function for each item, in the order of the items, computed by `jobs` threads; `ahead` as
    for `Threads.map`. With one job, the calling thread computes them."""
    if jobs < 2:
        return map(function, items)
    return Threads(jobs).map(lambda item, _report: function(item), items, ahead=ahead)
