"""Who does the work: the threads of this process, or the workers of a cluster (`tracecols.work.cluster`). Both run the
same functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Pool(Protocol):
    """What applies a function to many items at a time; `ThreadPoolExecutor` is one."""

    def __enter__(self) -> Pool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...

    def map(self, function: Callable[[Item], Result], items: Iterable[Item], /) -> Iterator[Result]:
        """Yield the results in the order of the items."""


class Executor(Protocol):
    """Who does the work.

    Attributes
    ----------
    jobs : int
        Threads of this process.
    folder : Path or None
        Through which those who work tell each other what they found; None where they share the memory of this process.
    slots : int
        How many tasks run at the same time.
    memory : int or None
        Bytes for each of them; None if nobody limits them.
    """

    @property
    def jobs(self) -> int: ...

    @property
    def folder(self) -> Path | None: ...

    @property
    def slots(self) -> int: ...

    @property
    def memory(self) -> int | None: ...

    def pool(self) -> Pool:
        """Return a pool, to be used in a `with` statement."""


@dataclass(frozen=True)
class Threads:
    """The threads of this process."""

    jobs: int
    folder: Path | None = None
    memory: int | None = None

    @property
    def slots(self) -> int:
        """As many tasks as threads."""
        return self.jobs

    def pool(self) -> Pool:
        """Return a pool of so many threads."""
        return ThreadPoolExecutor(self.jobs)
