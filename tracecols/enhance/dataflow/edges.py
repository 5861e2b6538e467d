"""What waits for what, as edges from event to event, or to a hub where all wait for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import number

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges from node to node or hub.

    Attributes
    ----------
    tail, head : (n,) int64
        Nodes; hubs are n_nodes and more.
    is_inferred : (n,) bool
        Whether it only was concluded that the head waited for the tail.
    length : (n,) int64
        Bytes that are transferred along it.
    steps : (n,) int64
        Latencies on the way, one for a message and ceil(log2 p) for a collective operation of p participants; 0 for
        what is no transfer.
    """

    tail: Rows
    head: Rows
    is_inferred: NDArray[np.bool_]
    length: Rows
    steps: Rows

    def __len__(self) -> int:
        return self.tail.size

    def where(self, some: NDArray[np.bool_] | Rows) -> Edges:
        """Return some of them: those of a mask, or by their numbers."""
        return Edges(*(getattr(self, name)[some] for name in self.__dataclass_fields__))


class EdgeCollector:
    """Edges as they are found, and the hubs between them."""

    def __init__(self, n_nodes: int) -> None:
        self.n = n_nodes
        self._found: dict[str, list[NDArray[np.int64]]] = {
            name: [np.zeros(0, np.int64)] for name in Edges.__dataclass_fields__
        }

    def hubs(self, n: int) -> Rows:
        """Make hubs; return their numbers."""
        self.n += n
        return np.arange(self.n - n, self.n)

    def add(
        self, tail: Rows, head: Rows, *, is_inferred: bool = False, length: Rows | int = 0, steps: Rows | int = 0
    ) -> None:
        """Add edges; those from or to nothing (-1) are left out."""
        kept = (tail >= 0) & (head >= 0)
        columns = {"tail": tail, "head": head, "is_inferred": int(is_inferred), "length": length, "steps": steps}
        for name, values in columns.items():
            self._found[name].append(np.broadcast_to(np.asarray(values, np.int64), tail.shape)[kept])

    def add_in_order(self, tail: Rows, head: Rows, time: Rows) -> None:
        """Add edges within processes. One that the recorded times contradict may close a cycle: it is the one to leave
        out then.

        Parameters
        ----------
        tail, head : (n,) int64
            Nodes; -1 none.
        time : (n_nodes,) int64
            When nodes were recorded.
        """
        known = np.flatnonzero((tail >= 0) & (head >= 0))
        late = time[tail[known]] > time[head[known]]
        for some, is_inferred in ((known[~late], False), (known[late], True)):
            self.add(tail[some], head[some], is_inferred=is_inferred)

    def all_to_all(
        self,
        group: Rows,
        enter: Rows,
        leave: Rows,
        from_some: NDArray[np.bool_],
        to_some: NDArray[np.bool_],
        length: Rows | int = 0,
        steps: Rows | int = 0,
    ) -> None:
        """Let everybody who receives wait for all of the same group who send."""
        kept = (enter >= 0) & (leave >= 0)
        group, enter, leave = group[kept], enter[kept], leave[kept]
        from_some, to_some = from_some[kept], to_some[kept]
        groups, first = number(group)
        hub = self.hubs(first.size)[groups]
        length, steps = (np.broadcast_to(np.asarray(v, np.int64), kept.shape)[kept] for v in (length, steps))
        # a hub without sources would be one without a time
        sends = np.zeros(first.size, bool)
        sends[groups[from_some]] = True
        # where the recording ends with the ENTER that is both
        to_some = to_some & sends[groups] & (leave != enter)
        self.add(enter[from_some], hub[from_some])
        self.add(hub[to_some], leave[to_some], length=length[to_some], steps=steps[to_some])

    def chain(
        self,
        group: Rows,
        order: Rows,
        enter: Rows,
        leave: Rows,
        sees: Rows,
        sends: NDArray[np.bool_],
        receives: NDArray[np.bool_],
        length: Rows | int,
        steps: Rows | int,
    ) -> None:
        """Let everybody wait for those of the same group who come before, through a chain of hubs.

        Parameters
        ----------
        group : (n,) int64
        order : (n,) int64
            The elements, group by group, in the order of the chain.
        enter, leave : (n,) int64
            Nodes.
        sees : (n,) int64
            For each element how many positions of `order` it waits for, up to and without that place.
        sends, receives : (n,) bool
        length, steps : (n,) int64
        """
        n = order.size
        hub = self.hubs(n)
        in_order = group[order]
        is_head = np.append(True, in_order[1:] != in_order[:-1]) if n else np.zeros(0, bool)
        first = np.where(sends[order], enter[order], -1)
        # a hub has a source if it or one before it in the chain has: nothing waits for one without, which has no time
        position = np.arange(n)
        begin = np.maximum.accumulate(np.where(is_head, position, 0)) if n else position
        n_before = np.cumsum(first >= 0)
        n_at_begin = n_before[begin] - (first >= 0)[begin] if n else n_before
        has_time = n_before > n_at_begin
        self.add(np.where(is_head | ~np.roll(has_time, 1), -1, hub - 1), hub)
        self.add(first, hub)
        begin_of = np.empty(n, np.int64)
        begin_of[order] = begin
        last = sees - 1
        has_source = (last >= begin_of) & receives
        has_source[has_source] = has_time[last[has_source]]
        self.add(np.where(has_source, hub[np.maximum(last, 0)] if n else last, -1), leave, length=length, steps=steps)

    def edges(self) -> Edges:
        """Return all edges."""
        c = {name: np.concatenate(parts) for name, parts in self._found.items()}
        return Edges(c["tail"], c["head"], c["is_inferred"] > 0, c["length"], c["steps"])
