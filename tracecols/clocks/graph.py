"""The graph of clock conditions: the events that take part in one, and the order in which they must happen.

Where all events of a group depend on all others, hubs are between them; their numbers follow those of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.conditions import ClockConditions
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.threads.created import times_of
from tracecols.errors import AnalysisError
from tracecols.kernels import clocks as kernels
from tracecols.kernels import maxplus as sweeps
from tracecols.kernels.ranks import choose_rows, no_ranks
from tracecols.replay.graph import contradictions
from tracecols.schema.clocks import CONDITIONS, N_MPI
from tracecols.vectors import offsets_of
from tracecols.work.executors import side_by_side
from tracecols.work.large import LargeArrays

Rows = NDArray[np.int64]

LATE = -sweeps.NEVER
"""The latest time of an event for which no process waits."""

LOOKBACK = 1 << 10
"""Nodes before a correction, or before the last limit that counts there, that are searched for limits."""

HELD = 1 << 28
"""Bytes of the arrays of a graph that are held in memory; others are mapped from temporary files."""

CHUNK = 1 << 20
"""Conditions, or groups of 8 events, that are processed at a time."""

DROPPED = "locks whose order contradicts that of other events, left out"


@dataclass(frozen=True, eq=False)
class ClockGraph:
    """Clock conditions of a whole trace; 46 B at the peak per event that takes part in one, `HELD` of it in memory."""

    row: Rows
    """(n_nodes,) int64: the events, ascending."""
    time: Rows
    """(n_nodes,) int64: recorded ticks, which never decrease: late events have those of the latest before."""
    late: Rows
    """(n_nodes,) int64: ticks by which each event is earlier than that; empty if none is."""
    first: Rows
    """(n_locations + 1,) int64: first node of each location."""
    start: NDArray[Any]
    """(n_all + 1,) int32 or int64: first condition of each tail; tails are the nodes and the hubs."""
    head: NDArray[Any]
    """(n_edges,) int32 or int64: nodes, or hubs, that must not happen before their tails."""
    condition: NDArray[np.int8]
    """(n_edges,): kind of the condition."""
    is_inferred: NDArray[np.bool_]
    """(n_edges,)"""
    n_hubs: int
    arrays: LargeArrays
    """Makes the arrays."""
    counts: dict[str, int] = field(default_factory=dict)
    """What had to be left out."""

    @classmethod
    def of(cls, facts: Facts, found: Sequence[ClockConditions], jobs: int) -> ClockGraph:
        """Put the conditions of all slices together."""
        n_events, arrays = int(facts.store.manifest["n_events"]), LargeArrays(HELD)
        row = _rows_of(found, n_events, arrays)
        n_all = row.size + sum(part.n_hubs for part in found)
        n_edges = sum(len(part.edges) for part in found)
        number = np.int32 if max(n_all, n_edges) < 1 << 31 else np.int64
        start = arrays.zeros(n_all + 1, number)
        for (tail,) in _ends(found, row, n_events, ("tail",)):
            np.add.at(start, tail + 1, 1)
        np.cumsum(start, out=start)
        head, condition = arrays.empty(n_edges, number), arrays.empty(n_edges, np.int8)
        is_inferred = arrays.empty(n_edges, bool)
        at, waiting = start[:-1].copy(), np.zeros(n_all, np.int32)
        for tail, to, kind, inferred in _ends(found, row, n_events, ("tail", "head", "condition", "is_inferred")):
            kernels.place_conditions(tail, to, kind, inferred, at, waiting, head, condition, is_inferred)
        del at, waiting
        first = np.append(np.searchsorted(row, facts.first_rows), row.size)
        time, late = arrays.empty(row.size, np.int64), np.zeros(0, np.int64)
        lag: list[tuple[slice, Rows]] = []

        def read(location: int) -> None:
            mine = slice(int(first[location]), int(first[location + 1]))
            if mine.start < mine.stop:
                recorded = times_of(facts.store, location, row[mine] - facts.first_rows[location])
                time[mine] = facts.order.time(row[mine], recorded)
                if (time[mine] != recorded).any():
                    lag.append((mine, time[mine] - recorded))

        for _ in side_by_side(jobs, read, range(facts.n_locations)):
            pass
        if lag:
            late = arrays.zeros(row.size, np.int64)
            for mine, values in lag:
                late[mine] = values
        graph = cls(row, time, late, first, start, head, condition, is_inferred, n_all - row.size, arrays)
        return graph._without_contradictions()

    def __len__(self) -> int:
        return self.row.size

    @property
    def n_edges(self) -> int:
        """Number of edges, each a condition or a part of one."""
        return self.head.size

    @property
    def n_all(self) -> int:
        """Number of nodes and hubs."""
        return self.row.size + self.n_hubs

    def _where(self, kept: NDArray[np.bool_]) -> ClockGraph:
        """Return the graph with some of its edges."""
        before = offsets_of(kept)
        names = ("head", "condition", "is_inferred")
        start = before[self.start].astype(self.start.dtype)
        return replace(self, start=start, **{name: getattr(self, name)[kept] for name in names})

    def _without_contradictions(self) -> ClockGraph:
        graph, n_dropped = self, 0
        while True:
            _, stuck = graph._sweep(0, 0.0)
            if not stuck.any():
                break
            is_first = np.zeros(len(self), bool)
            is_first[self.first[:-1][self.first[:-1] < self.first[1:]]] = True
            drop = contradictions(is_first, graph.head, graph.is_inferred, stuck)
            if not drop.any():
                events = self.row[stuck[: len(self)]]
                raise AnalysisError(
                    f"the clocks of this trace cannot be corrected: {events.size} events would have to happen before "
                    f"themselves, the first is row {events[0]}\n"
                    "  messages, collective operations or barriers contradict each other, as tracecols check reports"
                )
            n_dropped += int(drop.sum())
            graph = graph._where(~drop)
        return replace(graph, counts={DROPPED: n_dropped} if n_dropped else {})

    def _conditions(self, latency: int) -> kernels.Conditions:
        """Return the conditions as kernels take them."""
        return kernels.Conditions(self.start, self.head, self.condition, self.late, latency, N_MPI)

    def _sweep(self, latency: int, shrink: float) -> tuple[Rows, NDArray[np.bool_]]:
        """Sweep all nodes; return their times, and a mask of those that wait for themselves."""
        n, first = len(self), self.first
        time = self.arrays.empty(self.n_all, np.int64)
        time[:n], time[n:] = self.time, sweeps.NEVER
        waiting = np.zeros(self.n_all, np.int32)
        for low in range(0, self.n_edges, CHUNK):
            np.add.at(waiting, self.head[low : low + CHUNK], 1)
        n_locations = first.size - 1
        at = first[:-1].copy()
        locations = kernels.Locations(first, at, np.zeros(n_locations, np.int64), np.zeros(n_locations, bool))
        hubs = np.zeros(self.n_hubs + 1, np.int64)
        kernels.sweep_forward(self.time, self._conditions(latency), shrink, locations, waiting, hubs, time)
        stuck = waiting > 0
        for location in np.flatnonzero(at < first[1:]).tolist():
            stuck[at[location] : first[location + 1]] = True
        return time, stuck

    def forward(self, latency: int, shrink: float) -> Rows:
        """Return the earliest times, in ticks, of nodes and hubs that satisfy all conditions, none earlier than
        recorded.

        At least `latency` ticks pass between processes; after an event that was moved, intervals may become shorter by
        the share `shrink`.
        """
        return self._sweep(latency, shrink)[0]

    def backward(self, forward: Rows, latency: int, stretch: float) -> Rows:
        """Return the shifts of the nodes, in ticks, after those before a correction have moved towards it.

        Each location is treated by itself: no node moves beyond the times that the forward pass found for those that
        depend on it. At least `latency` ticks pass between processes; before a correction intervals become longer by
        the share `stretch` where nothing limits it.
        """
        n = len(self)
        of_hub = np.full(self.n_hubs, LATE)
        kernels.limit_tails(n, self.n_all, self._conditions(latency), forward, of_hub, of_hub)
        shift = self.arrays.zeros(n, np.int64)
        for low, high in zip(self.first[:-1].tolist(), self.first[1:].tolist(), strict=True):
            mine, limit = slice(low, high), np.full(high - low, LATE)
            kernels.limit_tails(low, high, self._conditions(latency), forward, of_hub, limit)
            np.subtract(limit, self.time[mine], out=limit, where=limit < LATE)
            kernels.amortise(self.time[mine], forward[mine] - self.time[mine], limit, stretch, LOOKBACK, shift[mine])
        return shift

    def violations(self, shift: Rows | None, latency: int) -> dict[str, int]:
        """Count, by kind, the conditions that the recorded times violate, with the shifts added if given; at least
        `latency` ticks pass between processes."""
        counts = np.zeros(len(CONDITIONS), np.int64)
        moved = np.zeros(0, np.int64) if shift is None else shift
        kernels.count_violations(
            self.time, moved, self._conditions(latency), np.full(self.n_hubs, sweeps.NEVER), counts
        )
        return {name: int(c) for name, c in zip(CONDITIONS, counts, strict=True)}


def _rows_of(found: Sequence[ClockConditions], n_events: int, arrays: LargeArrays) -> Rows:
    """Find the events that take part in conditions, ascending; an eighth of a byte per event."""
    ranks = no_ranks(n_events)
    for part in found:
        for name in ("tail", "head"):
            for low in range(0, len(part.edges), CHUNK):
                rows = part.edges.rows(name, low, min(low + CHUNK, len(part.edges)))
                choose_rows(rows[rows < n_events], 0, ranks)
    bits = ranks.bits.view(np.uint8)
    parts = range(0, bits.size, CHUNK)
    counts = [int(np.unpackbits(bits[low : low + CHUNK]).sum()) for low in parts]
    row, done = arrays.empty(sum(counts), np.int64), 0
    for low, n in zip(parts, counts, strict=True):
        row[done : done + n] = np.flatnonzero(np.unpackbits(bits[low : low + CHUNK], bitorder="little")) + 8 * low
        done += n
    return row


def _ends(
    found: Sequence[ClockConditions], row: Rows, n_events: int, names: Sequence[str]
) -> Iterator[list[NDArray[Any]]]:
    """Yield columns of all conditions piece by piece, tails and heads as numbers of nodes and hubs."""
    n_all = row.size
    for part in found:
        for low in range(0, len(part.edges), CHUNK):
            columns = [part.edges.rows(name, low, min(low + CHUNK, len(part.edges))) for name in names]
            for i, name in enumerate(names):
                if name in ("tail", "head"):
                    of = columns[i]
                    columns[i] = np.where(of < n_events, np.searchsorted(row, of), of - n_events + n_all)
            yield columns
        n_all += part.n_hubs
