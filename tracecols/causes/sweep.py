"""What goes through the whole trace from its end to its beginning: costs of final waits, and the critical path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.causes.delays import Delays
from tracecols.causes.index import PointIndex
from tracecols.causes.pairs import CREATED, END, FORK, IDLE, THREAD_BARRIER, has_mpi, has_openmp
from tracecols.causes.points import Times, clock, number_type, time_type
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.spill import Spill, large_arrays
from tracecols.enhance.dataflow.steps import PATH, SWEEP, step
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import causes
from tracecols.kernels import costs as kernels
from tracecols.schema.causes import DELAYS, N_MPI, POINTS
from tracecols.work.executors import side_by_side
from tracecols.work.large import LargeArrays, blocks

N_P2P_KINDS = 2
"""Kinds of delays below this are point-to-point."""


ROOM = 1 << 12
"""Items of lists of amounts, at first."""


@dataclass(frozen=True, eq=False)
class Amounts:
    """What few of many rows have; all others have nothing."""

    row: NDArray[np.signedinteger[Any]]
    """(n,) int32 or int64: ascending."""
    amount: Times
    """(n,) float64 or int64"""

    @classmethod
    def of(cls, amounts: Times) -> Amounts:
        """Keep what is not zero of the amounts of all rows."""
        row = np.flatnonzero(amounts)
        return cls.among_all(row, amounts[row])

    @classmethod
    def among_all(cls, row: NDArray[np.signedinteger[Any]], amount: Times) -> Amounts:
        """Keep the amounts of some rows, ascending."""
        return cls(row.astype(number_type(int(row[-1]) + 1 if row.size else 0)), amount)

    def among(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], Times]:
        """Return which of some rows, ascending, have an amount, and these amounts."""
        if not rows.size:
            return rows, self.amount[:0]
        first = np.searchsorted(self.row, self.row.dtype.type(rows[0]))
        stop = np.searchsorted(self.row, self.row.dtype.type(rows[-1]), "right")
        row, amount = self.row[first:stop], self.amount[first:stop]
        if rows[-1] - rows[0] + 1 == rows.size:
            return (row - rows[0]).astype(np.int64), amount
        at = np.searchsorted(rows, row)
        is_here = rows[at] == row
        return at[is_here], amount[is_here]

    def positive_of(self, kind: NDArray[np.int8], k: int) -> tuple[NDArray[np.int64], Times]:
        """Return the rows of one kind whose amounts are positive, and these."""
        chosen = (kind[self.row] == k) & (self.amount > 0)
        return self.row[chosen].astype(np.int64), self.amount[chosen]


@dataclass(frozen=True, eq=False)
class Factors:
    """What the delays of pairs cost."""

    scale: Times
    """(n_pairs,) float64 or int64: seconds of waiting per second of delay; without rounding (`quirks.rounds_seconds`)
    the ticks of waiting charged to the delay."""
    kinds: NDArray[np.int8]
    """(n_kinds,): kinds of delays that there are, ascending."""
    shares: Sequence[Amounts]
    """By kind, of pairs: seconds of later waits per second of delay; without rounding the ticks charged to the
    delay."""
    indirect: Amounts
    """Of pairs: time of the wait that goes back to waits of the causing side."""
    propagated: Amounts
    """Of points that wait how much of that makes others wait in point-to-point communication."""
    lost: Times
    """(n,) float64 or int64: of waits for messages that exceed what the other side lost by how much they do."""
    n_forced: int
    """Points gone through before all they depend on, because they depend on each other."""


@dataclass(frozen=True, eq=False)
class _Sides:
    """What the causing sides of pairs lost."""

    total: Times
    waited: Times
    """`total` and `waited`: (n_pairs,) float64 or int64, the sum of their delays; what they waited in the interval."""
    others: NDArray[np.int32]
    """(n_pairs,): of idle threads how many they are."""
    lost: Times
    """(n,) float64 or int64: as in `Factors`."""


def _sides(
    facts: Facts,
    points: CompoundTable,
    pairs: CompoundTable,
    index: PointIndex,
    delays: Sequence[Delays],
    since: NDArray[np.signedinteger[Any]],
    large: LargeArrays,
) -> _Sides:
    """Find what the causing sides of pairs lost since the point before which their intervals begin."""
    n, dtype = len(pairs), index.wait.dtype
    total = large.zeros(n, dtype)

    def put_total(d: Delays) -> None:
        for here in blocks(len(d.pairs)):
            pair, lost = (d.pairs.rows(name, here.start, here.stop) for name in ("pair", "total"))
            total[pair] = lost

    for _ in side_by_side(large.jobs, put_total, delays):
        pass
    sums = _Sums(index.wait, large)

    def waited_in(here: slice) -> Times:
        own = pairs.own_since[here]
        begin = np.where(own >= 0, own, since[here])
        return sums.between(index.waits_before.take(begin + 1), index.waits_before.take(pairs.cause[here]))

    waited = large.computed(n, dtype, waited_in)

    def lost_in(here: slice) -> Times:
        p2p = np.flatnonzero(pairs.kind[here] < N_P2P_KINDS)
        lost = pairs.wait[here][p2p] - (total[here][p2p] + waited[here][p2p])
        return lost[lost > 0]

    n_threads = facts.locations.n_threads
    others = large.computed(n, np.int32, lambda here: n_threads.take(points.location.take(pairs.cause[here])) - 1)
    return _Sides(total, waited, others, large.joined(n, dtype, side_by_side(large.jobs, lost_in, blocks(n), 1)))


@step(SWEEP, "factors", keeps=("factors",))
def sweep_costs(
    facts: Facts,
    quirks: Quirks,
    sync_points: CompoundTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    every_delays: Sequence[Delays],
    spill: Spill | None,
    jobs: int,
) -> Factors:
    """Carry the costs of waits back through time to those that they go back to."""
    kind, cause, n, large = delay_pairs.kind, delay_pairs.cause, len(delay_pairs), large_arrays(spill, jobs)
    beginning = (point_index.start - 1).astype(cause.dtype)

    def since_of(here: slice) -> NDArray[np.signedinteger[Any]]:
        since = delay_pairs.cause_since[here]
        return np.where(since >= 0, since, beginning.take(sync_points.location.take(cause[here])))

    since = large.computed(n, cause.dtype, since_of)
    is_ordered = has_mpi(facts) or not (quirks.rounds_seconds and quirks.leaves_out_others)
    order_all = partial(_ordered, sync_points, delay_pairs, point_index, large)
    find_sides = partial(_sides, facts, sync_points, delay_pairs, point_index, every_delays, since, large)
    begun: list[Callable[[], Any]] = [order_all if is_ordered else lambda: (cause[:0], 0), find_sides]
    (order, n_forced), sides = side_by_side(jobs, lambda begin: begin(), begun)
    of_blocks = side_by_side(jobs, lambda here: np.bincount(kind[here], minlength=len(DELAYS)), blocks(n))
    kinds = np.flatnonzero(sum(of_blocks, np.zeros(len(DELAYS), int))).astype(np.int8)
    caused = kernels.Caused(
        kind, cause, delay_pairs.waiting, since, delay_pairs.counts_from, point_index.waits_before, point_index.wait
    )
    dtype, wait = point_index.wait.dtype, delay_pairs.wait
    propagated = large.zeros(point_index.wait.size, dtype)
    costs, shares = (_Pool(n_lists, dtype, large) for n_lists in (propagated.size, n))

    def passed_on() -> Amounts:
        kept = large.chosen(propagated.size, lambda here: propagated[here] > 0)
        return Amounts.among_all(point_index.waits[kept], propagated[kept])

    if not quirks.rounds_seconds:

        def charged_to(here: slice) -> Times:
            idle = sides.others[here] * (sides.total[here] + sides.waited[here])
            return np.where(kind[here] == IDLE, idle, wait[here])

        charged = large.computed(n, dtype, charged_to)
        # no interval has more waits than its location
        most = int(np.diff(point_index.waits_before[point_index.start]).max(initial=0)) + 1
        scratch = np.empty((4, most), np.int64)
        given = order, caused, N_P2P_KINDS, sides.total, charged
        _in_pools(order.size, costs, shares, lambda at, *of: kernels.divide_costs(at, *given, *of, propagated, scratch))
        _in_pools(n, costs, shares, lambda at, *of: kernels.settle_costs(at, caused, *of))
        # where nothing carries costs on, the wait is charged to the causing side
        np.maximum(charged, 0, out=charged)
        p2p = large.chosen(n, lambda here: (kind[here] < N_P2P_KINDS) & (wait[here] != charged[here]))
        indirect = Amounts.among_all(p2p, wait[p2p] - charged[p2p])
        return Factors(charged, kinds, shares.by_kind(kinds), indirect, passed_on(), sides.lost, n_forced)

    is_idle, is_p2p = kind == IDLE, kind < N_P2P_KINDS
    whole = sides.total + sides.waited
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = delay_pairs.wait / whole
    if quirks.limits_scales:
        scale = np.where(is_p2p, np.minimum(scale, 1.0), scale)
    scale = np.where(whole > 0, np.where(is_idle, sides.others, scale), 0.0)
    thread_kind = DELAYS.index("thread_barrier") if quirks.ends_costs_at_barriers else -1
    of_pairs = order, caused, N_P2P_KINDS, thread_kind, scale, whole, sides.waited
    _in_pools(order.size, costs, shares, lambda at, *of: kernels.scale_costs(at, *of_pairs, *of, propagated))
    indirect = Amounts.of(np.where(is_p2p, scale * sides.waited, 0.0))
    return Factors(scale, kinds, shares.by_kind(kinds), indirect, passed_on(), sides.lost, n_forced)


class _Pool:
    """Lists of amounts by kind, with room for more."""

    def __init__(self, n: int, dtype: DTypeLike, large: LargeArrays) -> None:
        # of memory that is not written there are no pages
        room, self._large = max(ROOM, n), large
        number = number_type(max(n, room) * len(DELAYS))
        below, kind, amount = (large.empty(room, of) for of in (number, np.int8, dtype))
        self.lists = kernels.Lists(large.full(n, -1, number), below, kind, amount, np.array([-1, room, 0]))

    def grow(self) -> None:
        """Make room for more items."""
        head, below, kind, amount, state = self.lists
        n, n_used = below.size, int(state[2])
        below, kind, amount = (self._large.with_room(of, n_used) for of in (below, kind, amount))
        state[1] += below.size - n
        self.lists = kernels.Lists(head, below, kind, amount, state)

    def by_kind(self, kinds: NDArray[np.int8]) -> list[Amounts]:
        """Return the items of each kind."""
        jobs, n_lists, dtype = self._large.jobs, self.lists.head.size, self.lists.amount.dtype
        ranges = [*pairwise(np.linspace(0, n_lists, jobs + 1, dtype=np.int64).tolist())]

        def count(k: int) -> NDArray[np.int64]:
            found = np.zeros(len(DELAYS), np.int64)
            kernels.count_kinds(self.lists, *ranges[k], found)
            return found

        n_in = np.stack([*side_by_side(jobs, count, range(jobs))])
        n_of_kind = n_in.sum(axis=0)
        end = np.cumsum(n_of_kind)
        begin = end - n_of_kind + np.cumsum(n_in, axis=0) - n_in
        n = int(end[-1])
        row, amount = self._large.empty(n, number_type(n_lists)), self._large.empty(n, dtype)
        listed = partial(kernels.list_by_kind, self.lists)
        for _ in side_by_side(jobs, lambda k: listed(*ranges[k], begin[k], row, amount), range(jobs)):
            pass
        return [
            Amounts(row[stop - size : stop], amount[stop - size : stop])
            for size, stop in zip(n_of_kind[kinds].tolist(), end[kinds].tolist(), strict=True)
        ]


def _in_pools(n: int, costs: _Pool, shares: _Pool, carry: Callable[..., int]) -> None:
    """Run a kernel that goes on from a place among n ones, and writes to lists, until it is done."""
    at = 0
    while (at := int(carry(at, costs.lists, shares.lists))) < n:
        for pool in (costs, shares):
            pool.grow()


def _ordered(
    points: CompoundTable, pairs: CompoundTable, index: PointIndex, large: LargeArrays
) -> tuple[NDArray[np.signedinteger[Any]], int]:
    """Order pairs from the end to the beginning; return as well how many points come before what they depend on."""
    n_locations = index.start.size - 1
    n_open = large.zeros(len(points), np.int32)
    kernels.count_open(pairs.cause, pairs.waiting, n_open)
    order = large.empty(len(pairs), index.pair_of.dtype)
    scratch, is_blocked = np.empty((3, n_locations), np.int64), np.zeros(n_locations, bool)
    given = index.cause_start, index.start, points.location, pairs.cause, index.pair_of, n_open
    n_forced = kernels.order_pairs(*given, scratch, is_blocked, order)
    return order, int(n_forced)


class _Sums:
    """Sums of slices of an array."""

    def __init__(self, values: Times, large: LargeArrays) -> None:
        # one more, since slices may end, and empty ones begin, after the last
        self._values, n = values if values.dtype == np.int64 else np.append(values, 0.0), values.size
        if values.dtype == np.int64:
            self._before, total = large.zeros(n + 1, np.int64), np.int64(0)
            for here in blocks(n):
                self._before[here.start + 1 : here.stop + 1] = np.cumsum(values[here]) + total
                total = self._before[here.stop]

    def between(self, start: NDArray[np.signedinteger[Any]], stop: NDArray[np.signedinteger[Any]]) -> Times:
        """Add up the elements from `start` to `stop` - 1; (n_slices,) of the type of the array."""
        values = self._values
        if values.dtype == np.int64:
            return self._before.take(np.maximum(start, stop)) - self._before.take(start)
        # sums of floating-point numbers depend on what is added first
        bounds = np.stack([start, stop], 1).ravel()
        sums = np.add.reduceat(values, bounds)[::2]
        return np.where(stop > start, sums, 0)


@dataclass(frozen=True, eq=False)
class Path:
    """The critical path."""

    since: NDArray[np.int64]
    """(n,): points at which the location on the path begins to be on it; -1 where that is from its beginning."""
    until: NDArray[np.int64]
    """(n,): until which point of the same location it is."""
    begin_time: Times
    end_time: Times
    """`begin_time` and `end_time`: (n,) float64 or int64, from when until when, in the unit of times; of one path only
    (`quirks.splits_path`), else nothing."""


@step(PATH, "path", keeps=("path",))
def find_critical_path(
    facts: Facts,
    quirks: Quirks,
    sync_points: CompoundTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    spill: Spill | None,
) -> Path:
    """Walk back from what ended last to what it waited for, until the start of MPI or the beginning of the trace."""
    nothing, no_times = np.zeros(0, np.int64), np.zeros(0, time_type(quirks))
    begin, n, large = _start(facts, quirks, sync_points, point_index), len(sync_points), large_arrays(spill)
    if begin < 0:
        return Path(nothing, nothing, no_times, no_times)
    until_of = large.full(n, -1, delay_pairs.cause.dtype)
    seen, work = large.zeros(n, bool), large.empty(n, np.int64)
    path = large.empty(3 * (n + 1), np.int64).reshape(3, n + 1)
    stops = _stops(facts, quirks, sync_points, delay_pairs, point_index)
    n_found = causes.walk_critical_path(begin, not quirks.splits_path, stops, seen, work, until_of, path)
    since, until, other = path[:, :n_found]
    if quirks.splits_path:
        # of several paths that reach the beginning the last one
        beginning = until[since < 0][-1:]
        since = np.flatnonzero(until_of >= 0)
        until = np.append(beginning, until_of[since]).astype(np.int64)
        return Path(np.append(np.full(beginning.size, -1), since), until, no_times, no_times)
    left = _times_on_path(facts, quirks, sync_points, begin, since, other)
    order = np.argsort(since)
    return Path(since[order], until[order], left[1:][order], left[:-1][order])


def _stops(
    facts: Facts, quirks: Quirks, points: CompoundTable, pairs: CompoundTable, index: PointIndex
) -> causes.Stops:
    """Say at which points the critical path may go on elsewhere."""
    kinds = np.arange(len(POINTS))
    is_fork = np.isin(kinds, (FORK, CREATED))
    ends = (kinds == POINTS.index("MPI_Init")) & quirks.leaves_out_startup
    team_set, team_member = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if quirks.splits_path:
        # barriers of threads go on with all who did not wait, forks with the thread that forked
        always = ends | (kinds == FORK) | (kinds == THREAD_BARRIER)
        if_waits, if_forked = kinds < N_MPI, np.zeros(kinds.size, bool)
        barriers = np.flatnonzero(points.kind == THREAD_BARRIER)
        team_member = barriers[np.argsort(points.set[barriers], kind="stable")]
        team_set = points.set[team_member]
    else:
        always, if_waits, if_forked = np.zeros(kinds.size, bool), ~is_fork, is_fork
    of_points = points.location, points.kind, points.event, points.wait, points.set
    of_kinds = ends, always, if_waits, if_forked, is_fork
    of_pairs = index.pair_of, pairs.cause
    return causes.Stops(index.start, facts.first_rows, *of_points, *of_pairs, *of_kinds, team_set, team_member)


def _times_on_path(
    facts: Facts, quirks: Quirks, points: CompoundTable, begin: int, since: NDArray[np.int64], other: NDArray[np.int64]
) -> Times:
    """Return when the critical path starts, and when it reaches each stop, never forward in time; (n_stops + 1,).

    Stops have the point `since`, in the order of the walk, -1 for the beginning of a location, and the one where the
    path goes on.
    """
    stops = np.flatnonzero(since >= 0)
    resumes = _resumes(facts, quirks, points, since[stops], other[stops])
    reached = np.zeros(since.size, resumes.dtype)
    reached[stops] = np.maximum(resumes, 0)
    return np.minimum.accumulate(np.append(_begins(facts, quirks, points, np.array([begin])), reached))


def _begins(facts: Facts, quirks: Quirks, points: CompoundTable, at: NDArray[np.int64]) -> Times:
    """Return when the calls of points begin: a thread is in a parallel region from the FORK on; the launch of one that
    is created is the matter of who creates it."""
    begins = clock(facts, quirks)(points.begin_time[at])
    return begins - np.where(points.kind[at] == FORK, points.total[at], 0)


def _resumes(
    facts: Facts, quirks: Quirks, points: CompoundTable, at: NDArray[np.int64], origin: NDArray[np.int64]
) -> Times:
    """Return when points have waited long enough, so that the critical path goes on at the points they wait for."""
    kind, of_origin = points.kind[at], _begins(facts, quirks, points, origin)
    begins = _begins(facts, quirks, points, at)
    waited = np.minimum(begins + points.total[at], of_origin)
    resumes: Times = np.where(kind == CREATED, begins, np.where(kind == FORK, of_origin, waited))
    return resumes


def list_stops(
    facts: Facts, quirks: Quirks, points: CompoundTable, pairs: CompoundTable, index: PointIndex
) -> tuple[NDArray[np.int64], NDArray[np.int64], Times]:
    """Return the points at which a single critical path may go on elsewhere, those at which it does, and when."""
    found, origin = np.empty((2, len(points)), np.int64)
    n = causes.list_path_stops(_stops(facts, quirks, points, pairs, index), found, origin)
    found, origin = found[:n], origin[:n]
    return found, origin, _resumes(facts, quirks, points, found, origin)


def _start(facts: Facts, quirks: Quirks, points: CompoundTable, index: PointIndex) -> int:
    """Return the point from which the critical path is walked back: of who enters MPI_Finalize last, else of who ends
    last."""
    if not quirks.leaves_out_startup:
        chosen = index.start[1:][np.diff(index.start) > 0] - 1
        chosen = chosen[points.kind[chosen] == END]
        return int(chosen[np.argmax(points.begin_time[chosen])]) if chosen.size else -1
    if not (has_mpi(facts) or has_openmp(facts)):
        return -1
    chosen = np.flatnonzero(points.kind == POINTS.index("MPI_Finalize"))
    if not chosen.size:
        chosen = np.flatnonzero((points.kind == END) & (facts.locations.master[points.location] == points.location))
    return int(chosen[np.argmax(points.begin_time[chosen])]) if chosen.size else -1
