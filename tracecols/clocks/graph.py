"""The graph of clock conditions: the events that take part in one, and which of them must not happen before which.

Where all depend on all, hubs stand between them; they follow the nodes by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.clocks import ClockConditions
from tracecols.enhance.created import times_of
from tracecols.enhance.facts import Facts
from tracecols.errors import AnalysisError
from tracecols.kernels import clocks as kernels
from tracecols.kernels import replay as sweeps
from tracecols.replay.graph import contradictions
from tracecols.schema.clocks import CONDITIONS, N_MPI

Rows = NDArray[np.int64]

LATE = -sweeps.NEVER
"""When what nobody waits for happens at the latest."""

LOOKBACK = 1 << 10
"""Nodes in front of a correction, or of the last limit that counts there, in which others are looked for."""

DROPPED = "locks whose order contradicts that of other events, left out"


@dataclass(frozen=True, eq=False)
class ClockGraph:
    """Clock conditions of a whole trace; 114 B at the peak per event that takes part in one.

    Attributes
    ----------
    row : (n_nodes,) int64
        The events, ascending.
    time : (n_nodes,) int64
        Recorded, ticks; of late events that of the latest event before them, so that it never decreases at a location.
    late : (n_nodes,) int64
        By how much the event is earlier than that.
    is_first : (n_nodes,) bool
        First of its location.
    tail, head : (n_edges,) int64
        Nodes, or hubs.
    condition : (n_edges,) int8
        Kind of the condition.
    is_inferred : (n_edges,) bool
    n_hubs : int
    counts : dict of str to int
        What had to be left out.
    """

    row: Rows
    time: Rows
    late: Rows
    is_first: NDArray[np.bool_]
    tail: Rows
    head: Rows
    condition: NDArray[np.int8]
    is_inferred: NDArray[np.bool_]
    n_hubs: int
    counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Facts, found: Sequence[ClockConditions], jobs: int) -> ClockGraph:
        """Put the conditions of all slices together.

        Parameters
        ----------
        facts : Facts
        found : sequence of ClockConditions
        jobs : int
            Threads that look up times.
        """
        n_events = int(facts.store.manifest["n_events"])
        takes_part = np.zeros(n_events, bool)
        for part in found:
            for name in ("tail", "head"):
                rows = part.edges.column(name)
                takes_part[rows[rows < n_events]] = True
        row = np.flatnonzero(takes_part)
        del takes_part
        ends: dict[str, list[Rows]] = {"tail": [], "head": []}
        n_all = row.size
        for part in found:
            for name, of in ends.items():
                rows = part.edges.column(name)
                of.append(np.where(rows < n_events, np.searchsorted(row, rows), rows - n_events + n_all))
            n_all += part.n_hubs
        nothing = np.zeros(0, np.int64)
        tail, head = (np.concatenate([nothing, *parts]) for parts in ends.values())
        condition, is_inferred = (
            np.concatenate([np.zeros(0, dtype), *(part.edges.column(name) for part in found)])
            for name, dtype in (("condition", np.int8), ("is_inferred", bool))
        )
        starts = np.searchsorted(row, facts.first_rows)
        is_first = np.zeros(row.size, bool)
        is_first[starts[starts < row.size]] = True
        recorded = np.empty(row.size, np.int64)

        def read(location: int) -> None:
            low, high = int(starts[location]), int(np.append(starts, row.size)[location + 1])
            if low < high:
                numbers = row[low:high] - facts.first_rows[location]
                recorded[low:high] = times_of(facts.store, location, numbers)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(read, range(facts.n_locations)))
        time = facts.order.time(row, recorded)
        graph = cls(row, time, time - recorded, is_first, tail, head, condition, is_inferred, n_all - row.size)
        return graph._in_order()._without_contradictions()

    def __len__(self) -> int:
        return self.row.size

    def _where(self, kept: NDArray[np.bool_] | Rows) -> ClockGraph:
        """Return it with some of its edges."""
        names = ("tail", "head", "condition", "is_inferred")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def _in_order(self) -> ClockGraph:
        """Put the edges in the order of their tails: the order in which they were found depends on the division of the trace."""
        _, order = sweeps.index_edges(self.tail, self.n_all)
        return self._where(order)

    @property
    def n_all(self) -> int:
        """Number of nodes and hubs."""
        return self.row.size + self.n_hubs

    def _without_contradictions(self) -> ClockGraph:
        graph, n_dropped = self, 0
        while True:
            waiting = graph._sweep(np.zeros(graph.n_all, np.int64), np.zeros(graph.tail.size, np.int64))[1]
            stuck = waiting >= 0
            if not stuck.any():
                break
            drop = contradictions(graph.is_first, graph.head, graph.is_inferred, stuck)
            if not drop.any():
                events = self.row[stuck[: len(self)]]
                raise AnalysisError(
                    f"the clocks of this trace cannot be corrected: {events.size} events would have to happen before themselves, "
                    f"the first is row {events[0]}\n"
                    "  messages, collective operations or barriers contradict each other, as tracecols check tells"
                )
            n_dropped += int(drop.sum())
            graph = graph._where(~drop)
        return replace(graph, counts={DROPPED: n_dropped} if n_dropped else {})

    def lags(self, latency: int) -> Rows:
        """Return how much later the head of every edge has to be than its tail, at least; (n_edges,) int64 ticks.

        Parameters
        ----------
        latency : int
            Ticks that pass at least between what belongs together in different processes.
        """
        n = len(self)
        late = np.append(self.late, np.zeros(self.n_hubs, np.int64))
        # a hub takes no time: what passes through it is late behind it
        transfers = (self.condition < N_MPI) & (self.head < n)
        return late[self.head] - late[self.tail] + np.where(transfers, latency, 0)

    def _sweep(self, weight: Rows, lag: Rows, floor: Rows | None = None) -> tuple[Rows, Rows]:
        """Sweep all nodes; return their times, not before those of `floor` for nodes, and what they still wait for."""
        n_all = self.n_all
        edge_start, _ = sweeps.index_edges(self.tail, n_all)
        waiting, time = np.zeros(n_all, np.int64), np.full(n_all, sweeps.NEVER, np.int64)
        if floor is not None:
            time[: len(self)] = floor
        sweeps.count_dependencies(self.is_first, self.head, waiting)
        sweeps.sweep_nodes(
            self.is_first, weight, time.copy(), edge_start, self.head, lag, waiting, time, np.empty(n_all, np.int64)
        )
        return time, waiting

    def forward(self, latency: int, shrink: float) -> Rows:
        """Return the earliest times of nodes and hubs that satisfy all conditions, none earlier than recorded; (n_all,) int64 ticks.

        Parameters
        ----------
        latency : int
            Ticks that pass at least between processes.
        shrink : float
            By which share intervals may become shorter behind an event that was moved.
        """
        weight = np.zeros(self.n_all, np.int64)
        gap = self._gaps()
        weight[: len(self)] = gap - np.floor(shrink * gap.astype(np.float64)).astype(np.int64)
        lag = self.lags(latency)
        # the sweep adds the weight of a node behind everything it depends on; here only the node before has it
        return self._sweep(weight, lag - weight[self.head], self.time - weight[: len(self)])[0]

    def _gaps(self) -> Rows:
        """Return the ticks between every node and the one before it at its location, 0 for the first; (n_nodes,) int64."""
        gap = np.diff(self.time, prepend=self.time[:1])
        gap[self.is_first] = 0
        return gap

    def backward(self, forward: Rows, latency: int, stretch: float) -> Rows:
        """Return times of the nodes in which those before a correction have moved towards it; (n_nodes,) int64 ticks.

        Every location by itself: no node moves beyond what the forward pass found for those that depend on it.

        Parameters
        ----------
        forward : (n_all,) int64
            Times that satisfy all conditions: no node becomes earlier.
        latency : int
            Ticks that pass at least between processes.
        stretch : float
            By which share intervals before a correction become longer where nothing limits it.
        """
        n = len(self)
        lag, chained = self.lags(latency), self._chained()
        into, out = self.head >= n, self.tail >= n
        # what those permit that depend on a hub, the last hub of a chain first
        permitted = np.append(forward[:n], np.full(self.n_hubs, LATE))
        for of in (np.flatnonzero(out & ~into), chained[::-1]):
            kernels.earliest_heads(self.tail[of], self.head[of], lag[of], permitted, permitted)
        of, limit = np.flatnonzero(~out), np.full(n, LATE)
        kernels.earliest_heads(self.tail[of], self.head[of], lag[of], permitted, limit)
        before, shift = forward[:n] - self.time, np.zeros(n, np.int64)
        np.subtract(limit, self.time, out=limit, where=limit < LATE)
        for low, high in pairwise([*np.flatnonzero(self.is_first).tolist(), n]):
            mine = slice(low, high)
            kernels.amortise(self.time[mine], before[mine], limit[mine], stretch, LOOKBACK, shift[mine])
        return self.time + shift

    def violations(self, time: Rows, latency: int) -> dict[str, int]:
        """Count the conditions that some times violate, by kind.

        Parameters
        ----------
        time : (n_nodes,) int64
            Times of the nodes as those of `self.time`: what late events are earlier is known.
        latency : int
            Ticks that pass at least between processes.
        """
        n = len(self)
        whole = np.append(time, np.full(self.n_hubs, sweeps.NEVER, np.int64))
        lag = self.lags(latency)
        into, out = self.head >= n, self.tail >= n
        for of in (np.flatnonzero(into & ~out), self._chained()):
            kernels.latest_tails(self.tail[of], self.head[of], lag[of], whole, whole)
        of = np.flatnonzero(~into)
        violated = of[whole[self.head[of]] < whole[self.tail[of]] + lag[of]]
        counts = np.bincount(self.condition[violated], minlength=len(CONDITIONS))
        return {name: int(c) for name, c in zip(CONDITIONS, counts, strict=True)}

    def _chained(self) -> Rows:
        """Return the edges from hub to hub, in the order of the hubs."""
        n = len(self)
        of = np.flatnonzero((self.head >= n) & (self.tail >= n))
        result: Rows = of[np.argsort(self.head[of], kind="stable")]
        return result
