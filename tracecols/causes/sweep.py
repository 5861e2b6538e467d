"""What goes through the whole trace from its end to its beginning: costs of final waits, and the critical path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.delays import Delays
from tracecols.causes.index import PointIndex
from tracecols.causes.pairs import (
    CREATED,
    END,
    FORK,
    IDLE,
    THREAD_BARRIER,
    find_points,
    has_mpi,
    has_openmp,
    location_starts,
)
from tracecols.causes.points import Times, clock, number_type, time_type
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import ranges
from tracecols.enhance.dataflow.steps import SWEEP, step
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import causes as kernels
from tracecols.schema.causes import DELAYS, N_MPI, POINTS

N_P2P_KINDS = 2
"""Kinds of delays below this are point-to-point."""

COSTS = 1 << 27
"""Bytes for the costs of waits that are carried back at a time, unless a single kind takes more."""


@dataclass(frozen=True, eq=False)
class Amounts:
    """What few of many rows have; all others have nothing.

    Attributes
    ----------
    row : (n,) int32 or int64
        Ascending.
    amount : (n,) float64 or int64
    """

    row: NDArray[np.signedinteger[Any]]
    amount: Times

    @classmethod
    def of(cls, amounts: Times, rows: NDArray[np.int64] | None = None) -> Amounts:
        """Keep what is not zero.

        Parameters
        ----------
        amounts : (n_rows,) float64 or int64
        rows : (n_rows,) int64, optional
            Ascending; all rows if not given.
        """
        chosen = np.flatnonzero(amounts)
        row = chosen if rows is None else rows[chosen]
        return cls(row.astype(number_type(int(row[-1]) + 1 if row.size else 0)), amounts[chosen])

    def among(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], Times]:
        """Return which of some rows have an amount, and these amounts.

        Parameters
        ----------
        rows : (n_rows,) int64
            Ascending.
        """
        if not rows.size:
            return rows, self.amount[:0]
        first = np.searchsorted(self.row, self.row.dtype.type(rows[0]))
        stop = np.searchsorted(self.row, self.row.dtype.type(rows[-1]), "right")
        row, amount = self.row[first:stop], self.amount[first:stop]
        at = np.searchsorted(rows, row)
        is_here = rows[at] == row
        return at[is_here], amount[is_here]

    def positive_of(self, kind: NDArray[np.int8], k: int) -> tuple[NDArray[np.int64], Times]:
        """Return the rows of one kind whose amounts are positive, and these.

        Parameters
        ----------
        kind : (n_rows,) int8
            Of all rows.
        """
        chosen = (kind[self.row] == k) & (self.amount > 0)
        return self.row[chosen].astype(np.int64), self.amount[chosen]


@dataclass(frozen=True, eq=False)
class Factors:
    """What the delays of pairs cost.

    Attributes
    ----------
    scale : (n_pairs,) float64 or int64
        Seconds of waiting per second of delay; without rounding (`quirks.rounds_seconds`) the ticks of waiting charged
        to the delay.
    kinds : (n_kinds,) int8
        Kinds of delays that there are, ascending.
    shares : sequence of Amounts
        By kind, of pairs: seconds of later waits per second of delay; without rounding the ticks charged to the delay.
    indirect : Amounts
        Of pairs: time of the wait that goes back to waits of the causing side.
    propagated : (n_waits,) float64 or int64
        Of every point that waits how much of that makes others wait in point-to-point communication.
    lost : (n,) float64 or int64
        Of waits for messages that exceed what the other side lost by how much they do.
    n_forced : int
        Points gone through before all they depend on, because they depend on each other.
    """

    scale: Times
    kinds: NDArray[np.int8]
    shares: Sequence[Amounts]
    indirect: Amounts
    propagated: Times
    lost: Times
    n_forced: int


@dataclass(frozen=True, eq=False)
class _Sides:
    """What the causing sides of pairs lost.

    Attributes
    ----------
    total, waited : (n_pairs,) float64 or int64
        The sum of their delays; what they waited in the interval.
    others : (n_pairs,) int32
        Of idle threads how many they are.
    lost : (n,) float64 or int64
        As in `Factors`.
    """

    total: Times
    waited: Times
    others: NDArray[np.int32]
    lost: Times


def _sides(
    facts: Facts,
    points: CompoundTable,
    pairs: CompoundTable,
    index: PointIndex,
    delays: Sequence[Delays],
    since: NDArray[np.signedinteger[Any]],
) -> _Sides:
    """Find what the causing sides of pairs lost since the point before which their intervals begin."""
    total = np.zeros(len(pairs), index.wait.dtype)
    for d in delays:
        total[d.pair] = d.pairs.column("total")
    begin = np.where(pairs.own_since >= 0, pairs.own_since, since)
    waited = _sums(index.wait, index.waits_before[begin + 1], index.waits_before[pairs.cause])
    p2p = np.flatnonzero(pairs.kind < N_P2P_KINDS)
    lost = pairs.wait[p2p] - (total[p2p] + waited[p2p])
    others = facts.locations.n_threads[points.location[pairs.cause]].astype(np.int32) - np.int32(1)
    return _Sides(total, waited, others, lost[lost > 0])


@step(SWEEP, "factors", keeps=("factors",))
def sweep_costs(
    facts: Facts,
    quirks: Quirks,
    sync_points: CompoundTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    every_delays: Sequence[Delays],
) -> Factors:
    """Carry the costs of waits back through time to those that they go back to."""
    dtype = time_type(quirks)
    kind = delay_pairs.kind
    beginning = (point_index.start - 1).astype(delay_pairs.cause.dtype)[sync_points.location[delay_pairs.cause]]
    since = np.where(delay_pairs.cause_since >= 0, delay_pairs.cause_since, beginning)
    del beginning
    sides = _sides(facts, sync_points, delay_pairs, point_index, every_delays, since)
    ordered, n_forced = np.zeros(0, np.int64), 0
    if has_mpi(facts) or not (quirks.rounds_seconds and quirks.leaves_out_others):
        ordered, n_forced = _ordered(facts, sync_points, delay_pairs)
    # of many pairs there are few kinds
    kinds = np.unique(kind)
    n_p2p = int((kinds < N_P2P_KINDS).sum())
    carrying = _carrying(
        sync_points, delay_pairs, point_index, np.searchsorted(kinds, kind).astype(np.int8), since, ordered
    )
    listed, order, wait = carrying.listed, carrying.order, point_index.wait[carrying.is_met]
    del since, ordered
    is_idle, is_p2p = kind == IDLE, kind < N_P2P_KINDS
    # some kinds at a time: all at once take 500 MB of 10^8 events, most of it zeros
    n_kinds = max(1, min(kinds.size, COSTS // (wait.itemsize * (wait.size + order.size + 1))))
    costs = kernels.Costs(
        np.zeros((wait.size, n_kinds), dtype), np.zeros((order.size, n_kinds), dtype), np.zeros(wait.size, dtype)
    )
    shares: list[Amounts] = []
    if not quirks.rounds_seconds:
        amount = np.where(is_idle, sides.others * (sides.total + sides.waited), delay_pairs.wait)
        # as many as wait between the causing point and the beginning of the interval
        most = int((listed.stop - listed.counts_from).max(initial=0)) + 1
        lost, amounts = sides.total[order], amount[order]
        own, scratch = np.zeros(order.size, np.int64), np.zeros((4, most), np.int64)
        for k in range(0, kinds.size, n_kinds):
            kernels.divide_costs(k, listed, lost, amounts, wait, n_p2p, costs, own, *scratch)
            shares += _taken(costs, kinds.size - k, carrying.rows)
        # where nothing carries costs on, the wait is charged to the causing side
        charged = np.maximum(amount, 0)
        charged[carrying.rows] = own
        indirect = Amounts.of(np.where(is_p2p, delay_pairs.wait - charged, 0))
        return Factors(charged, kinds, shares, indirect, carrying.of_all(costs.propagated), sides.lost, n_forced)

    whole = sides.total + sides.waited
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = delay_pairs.wait / whole
    if quirks.limits_scales:
        scale = np.where(is_p2p, np.minimum(scale, 1.0), scale)
    scale = np.where(whole > 0, np.where(is_idle, sides.others, scale), 0.0)
    ends = np.flatnonzero((kinds == DELAYS.index("thread_barrier")) & quirks.ends_costs_at_barriers)
    thread_kind = int(ends[0]) if ends.size else -1
    of_pairs = scale[order], whole[order], sides.waited[order]
    for k in range(0, kinds.size, n_kinds):
        kernels.scale_costs(k, listed, *of_pairs, wait, n_p2p, thread_kind, costs)
        shares += _taken(costs, kinds.size - k, carrying.rows)
    indirect = Amounts.of(np.where(is_p2p, scale * sides.waited, 0.0))
    return Factors(scale, kinds, shares, indirect, carrying.of_all(costs.propagated), sides.lost, n_forced)


@dataclass(frozen=True, eq=False)
class _Carrying:
    """The pairs that carry costs on, and the waits that costs come to.

    Others are charged at once: their causing sides have not waited, and no costs come to their waits.

    Attributes
    ----------
    rows : (n,) int64
        Of `delay_pairs`, ascending.
    order : (n,) int64
        The same in the order in which they carry costs on.
    listed : Carriers
        In this order.
    is_met : (n_waits,) bool
        Whether a wait lies in the interval of a pair; others have no costs and are not numbered.
    """

    rows: NDArray[np.int64]
    order: NDArray[np.int64]
    listed: kernels.Carriers
    is_met: NDArray[np.bool_]

    def of_all(self, values: Times) -> Times:
        """Return values of all waits, zero where no costs come to them; (n_waits,) as `values`."""
        found = np.zeros(self.is_met.size, values.dtype)
        found[self.is_met] = values
        return found


def _carrying(
    points: CompoundTable,
    pairs: CompoundTable,
    index: PointIndex,
    kind: NDArray[np.int8],
    since: NDArray[np.signedinteger[Any]],
    ordered: NDArray[np.int64],
) -> _Carrying:
    """Find the pairs that carry costs on.

    Parameters
    ----------
    kind : (n_pairs,) int8
        Number of the kind of each pair among those that there are.
    since : (n_pairs,) int32 or int64
        The point after which the interval begins.
    ordered : (n_nodes,) int64
        Points, every cause after all that wait for it.
    """
    before, n_waits = index.waits_before, index.wait.size
    stop = before[pairs.cause]
    begin = np.minimum(before[since + 1], stop)
    counts_from = np.minimum(before[np.maximum(since + 1, pairs.counts_from)], stop)
    # more intervals have begun than have ended
    is_met = np.cumsum(np.bincount(begin, minlength=n_waits + 1) - np.bincount(stop, minlength=n_waits + 1))[:-1] > 0
    number: NDArray[np.signedinteger[Any]] = np.zeros(n_waits + 1, before.dtype)
    np.cumsum(is_met, dtype=before.dtype, out=number[1:])
    at = pick(before, pairs.waiting)
    is_costly = (at >= 0) & (pick(before, np.where(pairs.waiting >= 0, pairs.waiting + 1, -1)) > at)
    is_costly[is_costly] = is_met[at[is_costly]]
    carries = is_costly | (stop > begin)
    n_pairs = np.bincount(pairs.cause, minlength=len(points))
    order = ranges((np.cumsum(n_pairs) - n_pairs)[ordered], n_pairs[ordered])
    order = order[carries[order]]
    row = np.cumsum(carries) - 1
    waiting = np.where(is_costly, number[np.maximum(at, 0)], -1).astype(before.dtype, copy=False)
    listed = kernels.Carriers(
        row[order], kind[order], waiting[order], number[begin[order]], number[counts_from[order]], number[stop[order]]
    )
    return _Carrying(np.flatnonzero(carries), order, listed, is_met)


def _taken(costs: kernels.Costs, n_kinds: int, rows: NDArray[np.int64]) -> list[Amounts]:
    """Return the shares of pairs in the costs of the first kinds, most of which are zero; what held them is zero
    again."""
    found = [Amounts.of(column, rows) for column in costs.shares.T[:n_kinds]]
    costs.shares[:] = 0
    costs.cost[:] = 0
    return found


def _ordered(facts: Facts, points: CompoundTable, pairs: CompoundTable) -> tuple[NDArray[np.int64], int]:
    """Order the points of pairs from the end to the beginning; return as well how many come before what they depend
    on."""
    n_points, cause, waiting = len(points), pairs.cause, pairs.waiting
    cause_of = _causes_of(n_points, pairs)
    is_node = cause_of >= 0
    is_node[cause] = True
    nodes = np.flatnonzero(is_node)
    # location by location, each from the last to the first
    at = location_starts(facts, points.location[nodes])
    of = points.location[nodes].astype(np.int64)
    nodes = nodes[at[of] + at[of + 1] - 1 - np.arange(nodes.size)] if nodes.size else nodes
    ordered = np.empty_like(nodes)
    n_forced = kernels.order_nodes(
        nodes,
        at,
        cause_of,
        points.location,
        np.bincount(cause[waiting >= 0], minlength=n_points),
        at[:-1].copy(),
        np.zeros(at.size - 1, np.int64),
        np.zeros(at.size - 1, bool),
        ordered,
    )
    return ordered, int(n_forced)


def _causes_of(n_points: int, pairs: CompoundTable) -> NDArray[np.signedinteger[Any]]:
    """Return of every point the one that lets it wait; -1 none."""
    cause_of = np.full(n_points, -1, pairs.cause.dtype)
    waits = pairs.waiting >= 0
    cause_of[pairs.waiting[waits]] = pairs.cause[waits]
    return cause_of


def _sums(values: Times, start: NDArray[np.int64], stop: NDArray[np.int64]) -> Times:
    """Add up slices of an array; (n,) of its type."""
    if not values.size:
        return np.zeros(start.size, values.dtype)
    bounds = np.stack([start, stop], 1).ravel()
    sums = np.add.reduceat(np.append(values, values.dtype.type(0)), bounds)[::2]
    return np.where(stop > start, sums, 0)


@dataclass(frozen=True, eq=False)
class Path:
    """The critical path.

    Attributes
    ----------
    since : (n,) int64
        Points at which the location on the path begins to be on it; -1 where that is from its beginning.
    until : (n,) int64
        Until which point of the same location it is.
    begin_time, end_time : (n,) float64 or int64
        From when until when, in the unit of times; of one path only (`quirks.splits_path`), else nothing.
    """

    since: NDArray[np.int64]
    until: NDArray[np.int64]
    begin_time: Times
    end_time: Times


@step(SWEEP, "path", keeps=("path",))
def find_critical_path(facts: Facts, quirks: Quirks, sync_points: CompoundTable, delay_pairs: CompoundTable) -> Path:
    """Walk back from what ended last to what it waited for, until the start of MPI or the beginning of the trace."""
    n = len(sync_points)
    kind, location, wait = sync_points.kind, sync_points.location, sync_points.wait
    is_init, is_finalize = kind == POINTS.index("MPI_Init"), kind == POINTS.index("MPI_Finalize")
    cause_of = _causes_of(n, delay_pairs)
    is_team = (kind == FORK) | (kind == THREAD_BARRIER)
    waits_for_others = (wait > 0) & (cause_of >= 0)
    if quirks.splits_path:
        stops = (is_init & quirks.leaves_out_startup) | is_team | ((kind < N_MPI) & waits_for_others)
    else:
        stops = waits_for_others
    # barriers of threads go on with all who did not wait, forks with the thread that forked
    goes_on = cause_of.astype(np.int64)
    barriers = np.flatnonzero((kind == THREAD_BARRIER) & quirks.splits_path)
    # the set of a barrier is numbered by one of its rows
    team = find_points(sync_points, sync_points.set[barriers])
    team = np.where(team >= 0, team, barriers)
    goes_on[barriers] = -2 - team
    by_team = np.argsort(team, kind="stable")
    forks = np.flatnonzero((kind == FORK) | (kind == CREATED))
    goes_on[forks] = find_points(sync_points, sync_points.set[forks])
    if not quirks.splits_path:
        stops[forks] = (goes_on[forks] >= 0) & (goes_on[forks] != forks)
    # a thread is in a parallel region from the FORK on; the launch of one that is created is the matter of who creates
    # it
    time = clock(facts, quirks)(sync_points.begin_time) - np.where(kind == FORK, sync_points.total, 0)
    resumes = time + np.where(waits_for_others, sync_points.total, 0)
    resumes = np.where(goes_on >= 0, np.minimum(resumes, pick(time, np.maximum(goes_on, -1))), resumes)
    resumes[forks] = np.where(kind[forks] == CREATED, time[forks], pick(time, goes_on[forks]))
    team_start = np.concatenate([[0], np.cumsum(np.bincount(team, minlength=n))]).astype(np.int64)
    at = np.maximum.accumulate(np.where(stops, np.arange(n), -1)) if n else np.zeros(0, np.int64)
    before = np.append(-1, at[:-1])
    start_of = location_starts(facts, location)
    before = np.where(before >= start_of[location], before, -1) if n else before[:0]
    begin = _start(facts, quirks, sync_points, is_finalize)
    dtype = time_type(quirks)
    nothing, no_times = np.zeros(0, np.int64), np.zeros(0, dtype)
    if begin < 0:
        return Path(nothing, nothing, no_times, no_times)
    until = np.full(n, -1, np.int64)
    reached, left = np.zeros(n + 1, dtype), np.zeros(n + 1, dtype)
    beginning = int(
        kernels.walk_critical_path(
            begin,
            before,
            goes_on,
            is_init & quirks.leaves_out_startup,
            team_start,
            barriers[by_team],
            wait,
            np.zeros(n, bool),
            np.zeros(n + 1, np.int64),
            until,
            not quirks.splits_path,
            time,
            resumes,
            reached,
            left,
        )
    )
    since = np.flatnonzero(until >= 0)
    until = until[since]
    if beginning >= 0:
        since, until = np.append(-1, since), np.append(beginning, until)
    if quirks.splits_path:
        return Path(since, until, no_times, no_times)
    return Path(since, until, reached[since], left[since])


def _start(facts: Facts, quirks: Quirks, points: CompoundTable, is_finalize: NDArray[np.bool_]) -> int:
    """Return the point from which the critical path is walked back: of who enters MPI_Finalize last, else of who ends
    last."""
    if not quirks.leaves_out_startup:
        chosen = np.flatnonzero(points.kind == END)
        return int(chosen[np.argmax(points.begin_time[chosen])]) if chosen.size else -1
    if not (has_mpi(facts) or has_openmp(facts)):
        return -1
    chosen = np.flatnonzero(is_finalize)
    if not chosen.size:
        chosen = np.flatnonzero((points.kind == END) & (facts.locations.master[points.location] == points.location))
    return int(chosen[np.argmax(points.begin_time[chosen])]) if chosen.size else -1
