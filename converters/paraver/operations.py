"""Collective operations, joined over all tasks: the k-th operation of a communicator is the same on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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


class Operations:
    """The collective operations of a trace.

    `roots` is by location the root of each of its operations, a rank in the communicator, -1 none; `fault` describes
    the first disagreement of tasks, empty if there is none. At the end of a trace that is cut, not all tasks may have
    begun an operation.
    """

    def __init__(self, calls: Sequence[Calls], task: NDArray[np.int32], members: list[list[int]], is_cut: bool) -> None:
        self.fault = ""
        self._is_cut = is_cut
        self._members = members
        self._task = task
        found = [c.joined() for c in calls]
        self.roots = [np.full(of[0].size, -1, np.int32) for of in found]
        used = [distinct(of[1]) for of in found]
        for communicator in distinct(np.concatenate([np.zeros(0, np.int32), *used])).tolist():
            self._join(communicator, found)

    def _join(self, communicator: int, found: list[tuple[NDArray[Any], ...]]) -> None:
        """Join the operations of a communicator, which have to be the same in the same order on all its tasks."""
        ranks = {int(self._task[m]): k for k, m in enumerate(self._members[communicator])}
        known: NDArray[np.int16] | None = None
        root = np.zeros(0, np.int32)
        numbers: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        for task, rank in ranks.items():
            mine = [
                (i, np.flatnonzero(found[i][1] == communicator)) for i in np.flatnonzero(self._task == task).tolist()
            ]
            time = np.concatenate([found[i][3][at] for i, at in mine])
            op = np.concatenate([found[i][0][at] for i, at in mine])
            is_root = np.concatenate([found[i][2][at] for i, at in mine])
            order = np.argsort(time, kind="stable")
            op, is_root = op[order], is_root[order]
            if known is None:
                known, root = op, np.full(op.size, -1, np.int32)
                first = task
            n = min(op.size, known.size)
            differ = np.flatnonzero(op[:n] != known[:n])
            if (differ.size or (op.size != known.size and not self._is_cut)) and not self.fault:
                self.fault = self._explain(communicator, first, known, task, op, differ)
            root[:n][is_root[:n]] = rank
            place = np.empty(order.size, np.int64)
            place[order] = np.arange(order.size)
            starts = np.cumsum([0, *(at.size for _, at in mine)])
            numbers += [(i, at, place[starts[k] : starts[k + 1]]) for k, (i, at) in enumerate(mine)]
        for i, at, k in numbers:
            inside = k < root.size
            self.roots[i][at[inside]] = root[k[inside]]

    def _explain(
        self,
        communicator: int,
        first: int,
        known: NDArray[np.int16],
        task: int,
        op: NDArray[np.int16],
        differ: NDArray[np.int64],
    ) -> str:
        """Describe how two tasks disagree."""
        where = f"communicator row {communicator}, tasks {first + 1} and {task + 1}"
        if differ.size:
            k = int(differ[0])
            names = [COLLECTIVE_OPS[int(ops[k])] for ops in (known, op)]
            return f"{where}: collective operation {k + 1} is {names[0]} in one and {names[1]} in the other"
        return f"{where}: {known.size:,} collective operations in one and {op.size:,} in the other"
