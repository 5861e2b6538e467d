"""Division of a trace: partitions of whole processes, windows of processes, buckets of collective operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import bounded
from tracecols.vectors import Ints

PARTITION_ROWS = 1 << 18
"""Minimum size of a partition in call instances, attributed events and 1 / `EVENTS` of all events: four times as much
once there are 16 partitions, and more if one process is larger or there would be too many partitions. A smaller trace
is one partition."""

EVENTS = 16
"""Events that count as one call instance, so that a long trace with few of these is divided, too: with 10^7 events on
124,000 call paths and 60,000 call instances an analysis takes 1.15 GB in place of 1.76, and all threads have work."""

N_PARTITIONS, MOST_PARTITIONS = 64, 512
"""Maximum number of partitions if processes have the same size, and if there is little memory."""

PER_SLOT = 4
"""Partitions per concurrent task, so that no thread waits long for the last one."""

ROW_BYTES = 150
"""Approximate bytes of memory of a task per unit of size of its partition (`PARTITION_ROWS`), root causes included: 2 x
10^7 events of `halo` with 256 processes take 64 B more per unit with partitions of 3.6 M units than with those of 0.25
M, and 10^7 of `multizone` with 256 processes of 4 threads 41 B more. Memory that grows with messages and windows is
limited separately (`work.memory.Turns`)."""

BUCKET_ROWS, MEMBER_BYTES, LEAST_MEMBERS = 1 << 20, 450, 1 << 14
"""Maximum number of participants of collective operations that are matched together; approximate bytes of memory of a
task per participant (430 with the points of root causes, in `multizone`); minimum number of participants, however
little memory there is."""


class Partition(NamedTuple):
    """Whole processes that a step processes together."""

    number: int
    """From 0."""
    members: Ints
    """(n,): locations of the processes."""


@dataclass(frozen=True, eq=False)
class Window:
    """Unit of work of steps on the events within processes: a partition, or a part of one."""

    number: int
    partition: int
    """`number` and `partition`: number of the window, from 0, and of its partition."""
    members: Ints
    """(n,): locations."""
    first: Ints | None = None
    stop: Ints | None = None
    """`first` and `stop`: (n, n_counted), numbers of rows of each location before the begin and before the end of the
    window (`enhance.scan.gaps`); None for a whole partition."""
    numbers: Ints = field(default_factory=lambda: np.zeros((0, 7), np.int64))
    """(n, 7): the numbers of its operations in the whole process (`enhance.definitions.numbering.Numbering`)."""
    around: Ints = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    """(n, 4): attributed events of each location: FORK and begin of the team that is open at the begin of the window,
    end and JOIN of the team that is open at its end; -1 none."""


class Bucket(NamedTuple):
    """A range of collective operations."""

    number: int
    """From 0."""
    low: int
    high: int
    """`low` and `high`: keys (`enhance.mpi.collectives`) of the operations: low <= key < high."""


EVERYTHING = Bucket(0, 0, int(np.iinfo(np.int64).max))
"""All collective operations."""


@dataclass(frozen=True, eq=False)
class Division:
    """All partitions of a trace."""

    partitions: tuple[Partition, ...]
    process: NDArray[np.int32]
    """(n_locations,): process of every location."""
    windows: tuple[Window, ...] = ()
    """In the order of the partitions, within a partition in order of time; by default one for each partition."""

    def __post_init__(self) -> None:
        if not self.windows:
            windows = tuple(Window(p.number, p.number, p.members) for p in self.partitions)
            object.__setattr__(self, "windows", windows)

    def __len__(self) -> int:
        return len(self.partitions)

    def windows_of(self, partition: int) -> list[int]:
        """Return the numbers of the windows of a partition, in the order of time."""
        return [window.number for window in self.windows if window.partition == partition]

    @cached_property
    def of_process(self) -> Ints:
        """Number of the partition of every process; (n_processes,) int64."""
        result = np.zeros(int(self.process.max(initial=-1)) + 1, np.int64)
        for partition in self.partitions:
            result[self.process[partition.members]] = partition.number
        return result


def undivided(process: NDArray[np.int32]) -> Division:
    return Division((Partition(0, np.arange(process.size)),), process)


def divide(process: NDArray[np.int32], sizes: Ints, slots: int = 1, memory: int | None = None) -> Division:
    """Divide a trace into partitions of about the same size; the locations of one process stay together.

    `sizes` are the call instances, attributed events and 1 / `EVENTS` of the events of every location; `slots` is the
    number of concurrent tasks, `memory` the bytes per task. A process is never divided, whatever it needs.
    """
    total = int(sizes.sum())
    if total <= PARTITION_ROWS:
        return undivided(process)
    # small partitions suit memory and caches, but every partition sends messages to every other one, so many cost more
    capacity = max(
        PARTITION_ROWS,
        min(total // max(16, PER_SLOT * slots), 4 * PARTITION_ROWS),
        total // max(N_PARTITIONS, PER_SLOT * slots),
    )
    if memory is not None:
        capacity = max(min(capacity, memory // ROW_BYTES), total // MOST_PARTITIONS, 1)
    division = whole_processes(sizes, process, capacity)
    return Division(tuple(Partition(i, m) for i, m in enumerate(division)), process)


def whole_processes(sizes: Ints, process: NDArray[np.int32], most: int) -> list[Ints]:
    """Divide locations into groups of whole processes, in the order of processes; the total size of a group is at most
    `most`, unless it is a single process."""
    by_process = np.argsort(process, kind="stable")
    starts = np.flatnonzero(np.diff(process[by_process], prepend=-1))
    of_process = np.add.reduceat(sizes[by_process], starts)
    bounds = np.append(starts, by_process.size)
    return [by_process[bounds[some.start] : bounds[some.stop]] for some in bounded(of_process, most)]
