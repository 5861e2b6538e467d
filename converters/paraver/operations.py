"""Collective operations, joined over all tasks: the k-th operation of a communicator is the same on all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS


@dataclass
class Calls:
    """The collective operations of a location, in order."""

    op: list[NDArray[np.int16]] = field(default_factory=list)
    communicator: list[NDArray[np.int32]] = field(default_factory=list)
    is_root: list[NDArray[np.bool_]] = field(default_factory=list)
    time: list[NDArray[np.int64]] = field(default_factory=list)
    """`op`, `communicator`, `is_root` and `time`: list of (n,) array"""

    def add(self, table: dict[str, NDArray[Any]], time: NDArray[np.int64], n_events: int) -> None:
        """Add the operations of a batch whose last event is the `n_events`-th of its location."""
        ends = table["kind"] == K.MPI_COLLECTIVE_END
        self.op.append(table["op"][ends])
        self.communicator.append(table["communicator"][ends])
        self.is_root.append(table["root"][ends] > 0)
        self.time.append(time[table["row"][ends] - (n_events - time.size)])

    def joined(self) -> tuple[NDArray[Any], ...]:
        """Return the columns as one array each."""
        kinds = (np.int16, np.int32, bool, np.int64)
        columns: tuple[list[Any], ...] = (self.op, self.communicator, self.is_root, self.time)
        return tuple(np.concatenate([np.zeros(0, t), *c]) for t, c in zip(kinds, columns, strict=True))


ROOTED = np.isin(COLLECTIVE_OPS, ("bcast", "gather", "gatherv", "scatter", "scatterv", "reduce"))
"""(n_ops,) bool: operations that have a root. Extrae marks tasks as roots in others, too."""

MOST_AHEAD = 64
"""Operations that a task may be ahead of another at the begin of a trace that is cut, at most."""


class _OfTask(NamedTuple):
    """The operations of a communicator that a task executes, in order of time."""

    task: int
    location: NDArray[np.int64]
    number: NDArray[np.int64]
    """`location` and `number`: (n,), the location, and the number among all operations there."""
    op: NDArray[np.int16]
    is_root: NDArray[np.bool_]
    time: NDArray[np.int64]
    """`op`, `is_root` and `time`: (n,), see `Calls`."""


def _more(one: _OfTask, other: _OfTask) -> int:
    """Return how many operations a task has at the begin that another has begun before; negative if the other has more.

    From there on both execute the same operations, which end at nearly the same times.
    """
    found = [(np.inf, 0, 0)]
    for more in range(-min(MOST_AHEAD, other.op.size), min(MOST_AHEAD, one.op.size) + 1):
        start, of_other = max(more, 0), max(-more, 0)
        n = min(one.op.size - start, other.op.size - of_other)
        mine, others = slice(start, start + n), slice(of_other, of_other + n)
        if n > 0 and (one.op[mine] == other.op[others]).all():
            apart = float(np.median(np.abs(one.time[mine] - other.time[others])))
            found.append((apart, abs(more), more))
    return min(found)[2]


def _without(of: tuple[NDArray[Any], ...], skipped: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    """Leave out the first operations of each communicator; `skipped` are their numbers."""
    kept = np.ones(of[1].size, bool)
    for communicator in np.flatnonzero(skipped).tolist():
        kept[np.flatnonzero(of[1] == communicator)[: skipped[communicator]]] = False
    return tuple(column[kept] for column in of)


class Operations:
    """The collective operations of a trace.

    `roots` is by location the root of each of its operations, a rank in the communicator, -1 none; `fault` describes
    the first disagreement of tasks, empty if there is none. `skipped` is by location the number of its first operations
    of each communicator that others have begun before the begin of a trace that is cut: these are not among the
    operations. At its end, not all tasks may have begun an operation.
    """

    def __init__(self, calls: Sequence[Calls], task: NDArray[np.int32], members: list[list[int]], is_cut: bool) -> None:
        self.fault = ""
        self._is_cut = is_cut
        self._members = members
        self._task = task
        found = [c.joined() for c in calls]
        none = np.zeros(len(members), np.int64)
        self.skipped = [none.copy() if is_cut else none for _ in found]
        used = [distinct(of[1]) for of in found]
        communicators = distinct(np.concatenate([np.zeros(0, np.int32), *used])).tolist()
        for communicator in communicators if is_cut else ():
            self._skip(list(self._by_task(communicator, found)), communicator)
        if is_cut:
            found = [_without(of, skipped) for of, skipped in zip(found, self.skipped, strict=True)]
        self.roots = [np.full(of[0].size, -1, np.int32) for of in found]
        for communicator in communicators:
            self._join(list(self._by_task(communicator, found)), communicator)

    def _by_task(self, communicator: int, found: list[tuple[NDArray[Any], ...]]) -> Iterator[_OfTask]:
        for member in self._members[communicator]:
            task = int(self._task[member])
            locations = range(*np.searchsorted(self._task, (task, task + 1)).tolist())
            mine = [(i, np.flatnonzero(found[i][1] == communicator)) for i in locations]
            location = np.repeat([i for i, _ in mine], [at.size for _, at in mine])
            number = np.concatenate([at for _, at in mine])
            op, _, is_root, time = (np.concatenate([found[i][c][at] for i, at in mine]) for c in range(4))
            order = np.argsort(time, kind="stable")
            yield _OfTask(task, location[order], number[order], op[order], is_root[order], time[order])

    def _skip(self, of_tasks: list[_OfTask], communicator: int) -> None:
        """Skip the first operations of tasks in a trace that is cut, if others have begun them before the cut."""
        longest = max(of_tasks, key=lambda of: of.op.size)
        more = [_more(longest, of) for of in of_tasks]
        for of, n in zip(of_tasks, more, strict=True):
            for location in of.location[: max(more) - n].tolist():
                self.skipped[location][communicator] += 1

    def _join(self, of_tasks: list[_OfTask], communicator: int) -> None:
        """Join the operations of a communicator, which have to be the same in the same order on all its tasks."""
        # a trace that is cut may lack tasks
        first = max(of_tasks, key=lambda of: of.op.size) if self._is_cut else of_tasks[0]
        root = np.full(first.op.size, -1, np.int32)
        for rank, of in enumerate(of_tasks):
            n = min(of.op.size, first.op.size)
            differ = np.flatnonzero(of.op[:n] != first.op[:n])
            if (differ.size or (of.op.size != first.op.size and not self._is_cut)) and not self.fault:
                self.fault = _explain(communicator, first, of, differ)
            root[:n][of.is_root[:n] & ROOTED[of.op[:n]]] = rank
        for of in of_tasks:
            for location in distinct(of.location).tolist():
                k = np.flatnonzero(of.location[: root.size] == location)
                self.roots[location][of.number[k]] = root[k]


def _explain(communicator: int, one: _OfTask, other: _OfTask, differ: NDArray[np.int64]) -> str:
    """Describe how two tasks disagree; `differ` are the numbers of operations that do."""
    where = f"communicator row {communicator}, tasks {one.task + 1} and {other.task + 1}"
    if differ.size:
        k = int(differ[0])
        names = [COLLECTIVE_OPS[int(of.op[k])] for of in (one, other)]
        return f"{where}: collective operation {k + 1} is {names[0]} in one and {names[1]} in the other"
    return f"{where}: {one.op.size:,} collective operations in one and {other.op.size:,} in the other"
