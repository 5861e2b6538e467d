"""Dependences as edges between events, or between events and a hub if all wait for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.grouping import number
from tracecols.kernels import arrays, maxplus
from tracecols.vectors import Ints, Mask, offsets_of

Rows = Ints


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges between nodes and hubs, in the order of their tails."""

    start: NDArray[np.int32]
    """(n_all + 1,): first edge out of every node or hub; hubs are numbered from n_nodes on."""
    head: NDArray[np.int32]
    """(n,)"""
    is_inferred: Mask
    """(n,): whether the dependence of the head on the tail was inferred, not recorded."""
    length: Rows
    """(n,) int64: bytes that are transferred along the edge."""
    steps: NDArray[np.int8]
    """(n,): number of latencies along the edge (`replay.costs`); 0 if nothing is transferred."""

    def __len__(self) -> int:
        return self.head.size

    @property
    def tail(self) -> NDArray[np.int32]:
        """Tails of the edges; (n,) int32."""
        return np.repeat(np.arange(self.start.size - 1, dtype=np.int32), np.diff(self.start))

    def where(self, mask: Mask) -> Edges:
        start = offsets_of(mask)[self.start].astype(np.int32)
        return replace(
            self,
            start=start,
            **{name: getattr(self, name)[mask] for name in ("head", "is_inferred", "length", "steps")},
        )


class EdgeCollector:
    """Collector of edges and of hubs, which are numbered from `n_nodes` on; nodes that are rows of events need
    int64."""

    def __init__(self, n_nodes: int, node_type: type[np.signedinteger[Any]] = np.int32) -> None:
        self.n_nodes = self.n = n_nodes
        self._node_type = node_type
        self._found: list[maxplus.FoundEdges] = []

    def hubs(self, n: int) -> Rows:
        """Create `n` hubs, and return their numbers."""
        self.n += n
        return np.arange(self.n - n, self.n)

    def add(
        self, tail: Rows, head: Rows, *, is_inferred: bool = False, length: Rows | int = 0, steps: Rows | int = 0
    ) -> None:
        """Add edges; edges from or to null (-1) are skipped. `length` and `steps` have one value, or one per edge."""
        kept = np.flatnonzero((tail >= 0) & (head >= 0))
        if not kept.size:
            return
        of_all = (np.asarray(values) for values in (length, steps))
        bytes_, latencies = (values[kept] if values.ndim else values.reshape(1) for values in of_all)
        self._found.append(
            maxplus.FoundEdges(
                tail[kept].astype(self._node_type),
                head[kept].astype(self._node_type),
                np.array([is_inferred]),
                bytes_.astype(np.int64),
                latencies.astype(np.int8),
            )
        )

    def is_head(self) -> Mask:
        """Return a mask of the nodes and hubs that are heads of edges; (n_all,) bool."""
        result = np.zeros(self.n, bool)
        for e in self._found:
            result[e.head] = True
        return result

    def add_edges(self, edges: Edges) -> None:
        """Add edges between the same nodes."""
        self._found.append(maxplus.FoundEdges(edges.tail, edges.head, edges.is_inferred, edges.length, edges.steps))

    def take(self, other: EdgeCollector, node: Callable[[NDArray[np.int32]], Ints] | None = None) -> None:
        """Add the edges and hubs of another collector, which is emptied; `node` converts numbers of its nodes to
        numbers in this one, by default unchanged."""
        shift, n_nodes = self.n - other.n_nodes, other.n_nodes
        self.n += other.n - n_nodes
        while other._found:
            e = other._found.pop(0)
            for end in (e.tail, e.head):
                is_hub = end >= n_nodes
                if node is not None:
                    end[~is_hub] = node(end[~is_hub])
                end[is_hub] += shift
            self._found.append(e)

    def listed(self) -> maxplus.FoundEdges:
        """Return all edges in the order in which they were added, and empty the collector."""
        found, self._found = self._found, []
        no_node, nothing = np.zeros(0, self._node_type), arrays.empty(maxplus.FoundEdges, 0)
        whole: list[tuple[NDArray[Any], ...]] = [(no_node, no_node, *nothing[2:])]
        whole += [tuple(np.broadcast_to(v, e.tail.shape) for v in e) for e in found]
        return maxplus.FoundEdges(*map(np.concatenate, zip(*whole, strict=True)))  # type: ignore[arg-type]

    def edges(self) -> Edges:
        """Return all edges by their tails, and empty the collector."""
        found, self._found = self._found, []
        start = np.zeros(self.n + 1, np.int32)
        for e in found:
            maxplus.count_tails(e.tail, start[1:])
        np.cumsum(start, out=start)
        n = int(start[-1])
        result = Edges(start, np.empty(n, np.int32), np.empty(n, bool), np.empty(n, np.int64), np.empty(n, np.int8))
        at = start[:-1].copy()
        while found:
            maxplus.place_edges(found.pop(0), at, result.head, result.is_inferred, result.length, result.steps)
        return result

    def add_in_order(self, tail: Rows, head: Rows, time: Rows) -> None:
        """Add edges within processes. Edges that contradict the recorded times may close cycles; they are marked as
        inferred, so that they can be dropped.

        `tail` and `head` are nodes, -1 none; `time` is the recorded time of every node, (n_nodes,).
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
        from_some: Mask | None = None,
        to_some: Mask | None = None,
        length: Rows | int = 0,
        steps: Rows | int = 0,
    ) -> None:
        """Make every receiver (`to_some`, by default all) wait for all senders (`from_some`) of its group, through a
        hub."""
        kept = (enter >= 0) & (leave >= 0)
        group, enter, leave = group[kept], enter[kept], leave[kept]
        from_some, to_some = (np.ones(enter.size, bool) if of is None else of[kept] for of in (from_some, to_some))
        groups, first = number(group)
        hub = self.hubs(first.size)[groups]
        length, steps = (np.broadcast_to(np.asarray(v, np.int64), kept.shape)[kept] for v in (length, steps))
        # a hub without sources would have no time
        sends = np.zeros(first.size, bool)
        sends[groups[from_some]] = True
        # at the end of a recording, the same ENTER may be both enter and leave
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
        sends: Mask,
        receives: Mask,
        length: Rows | int,
        steps: Rows | int,
    ) -> None:
        """Make every receiver wait for the preceding senders of its group, through a chain of hubs.

        `order` has the elements, group by group, in the order of the chain; `enter` and `leave` are nodes; `sees` is
        the position in `order` before which each element waits for all elements of its group.
        """
        n = order.size
        hub = self.hubs(n)
        is_head = starts_run(group[order])
        first = np.where(sends[order], enter[order], -1)
        # a hub has a time if it or a preceding hub of the chain has a source: nothing waits for hubs without
        position = np.arange(n)
        begin = np.maximum.accumulate(np.where(is_head, position, 0))
        n_before = np.cumsum(first >= 0)
        n_at_begin: Rows = n_before[begin] - (first >= 0)[begin]
        has_time = n_before > n_at_begin
        self.add(np.where(is_head | ~np.roll(has_time, 1), -1, hub - 1), hub)
        self.add(first, hub)
        begin_of = np.empty(n, np.int64)
        begin_of[order] = begin
        last = sees - 1
        has_source = (last >= begin_of) & receives
        has_source[has_source] = has_time[last[has_source]]
        self.add(np.where(has_source, hub[np.maximum(last, 0)] if n else last, -1), leave, length=length, steps=steps)
