"""Backward passes over the whole trace: costs of final waits, and the critical path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.causes.delays import Delays
from tracecols.causes.index import PointIndex
from tracecols.causes.near import KeptTable
from tracecols.causes.pairs import (
    CREATED,
    END,
    FORK,
    IDLE,
    THREAD_BARRIER,
    THREADS_MEET,
    has_mpi,
    has_openmp,
    is_by_members,
)
from tracecols.causes.points import Times, clock, number_type, time_type
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import PATH, SWEEP, step
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import causes
from tracecols.kernels import costs as kernels
from tracecols.kernels.groups import SUM, reduce_groups
from tracecols.schema.causes import DELAYS, N_MPI, POINTS
from tracecols.vectors import Ints
from tracecols.work.ahead import expect_near, in_order, some_of, take
from tracecols.work.executors import side_by_side
from tracecols.work.large import LargeArrays, blocks

N_P2P_KINDS = 2
"""Kinds of delays below this are point-to-point."""


ROOM = 1 << 12
"""Initial number of items in lists of amounts, at least."""

Rows = slice | Ints
"""A selection of rows."""


class Amounts(NamedTuple):
    """Amounts of few of many rows; those of all others are zero."""

    row: NDArray[np.signedinteger[Any]]
    """(n,) int32 or int64: ascending."""
    amount: Times
    """(n,) float64 or int64"""

    @classmethod
    def of(cls, amounts: Times) -> Amounts:
        """Keep the nonzero amounts of all rows."""
        row = np.flatnonzero(amounts)
        return cls(row.astype(number_type(int(row[-1]) + 1 if row.size else 0)), amounts[row])

    def positive_of(self, kind: NDArray[np.int8], k: int) -> tuple[Ints, Times]:
        """Return the rows of one kind whose amounts are positive, and these amounts."""
        chosen = (kind[self.row] == k) & (self.amount > 0)
        return self.row[chosen].astype(np.int64), self.amount[chosen]


class Factors(NamedTuple):
    """Costs of the delays of pairs."""

    scale: Times
    """(n_pairs,) float64 or int64: seconds of waiting per second of delay; without rounding (`quirks.rounds_seconds`)
    the ticks of waiting charged to the delay."""
    shares: kernels.OfPairs
    """By pair and kind: seconds of later waits per second of delay; without rounding the ticks charged to the delay."""
    indirect: Amounts
    """By pair: the part of the wait that goes back to waits of the causing side."""
    propagated: Amounts
    """By waiting point: the part of the wait that makes others wait in point-to-point communication."""
    lost: tuple[int, Any]
    """Number of waits for messages that exceed the time that the other side lost, and the sum of the excess."""

    def charged_waits(self, points: CompoundTable, pairs: CompoundTable) -> Iterator[tuple[str, Ints, Times]]:
        """Yield the waits in point-to-point communication that go back to other waits, and those that make others wait:
        the property that is charged, the waiting points, and the parts of their waits."""
        messages = ("latesender", "ls", "late sender"), ("latereceiver", "lr", "late receiver")
        for k, (name, suffix, kind) in enumerate(messages):
            rows, amount = self.indirect.positive_of(pairs.kind, k)
            yield f"mpi_wait_indirect_{name}", pairs.at("waiting", rows).astype(np.int64, copy=False), amount
            yield f"mpi_wait_propagating_{suffix}", *self.propagated.positive_of(points.kind, POINTS.index(kind))


class _Sides(NamedTuple):
    """The time that the causing sides of pairs lost."""

    total: Times
    """(n_pairs,) float64 or int64: the sum of their delays."""
    waited: Callable[[Rows], Times]
    others: Callable[[Rows], NDArray[np.integer[Any]]]
    """`waited` and `others`: functions that return, for some pairs, the time waited in the interval and the number of
    idle threads."""
    lost: tuple[int, Any]
    """As in `Factors`."""


def _sides(
    facts: Facts,
    points: CompoundTable,
    pairs: KeptTable,
    index: PointIndex,
    delays: Sequence[Delays],
    since: NDArray[np.signedinteger[Any]],
    large: LargeArrays,
) -> _Sides:
    """Find the time that the causing sides of pairs lost since the points `since`, after which their intervals
    begin."""
    n, dtype = len(pairs), index.wait.dtype
    total = large.zeros(n, dtype)

    def put_total(d: Delays) -> None:
        for here in blocks(len(d.pairs)):
            pair, lost = (d.pairs.rows(name, here.start, here.stop) for name in ("pair", "total"))
            total[pair] = lost

    for _ in side_by_side(large.jobs, put_total, delays):
        pass
    sums = _Sums(index.wait, large)

    def waited_in(here: Rows) -> Times:
        own = pairs.own_since[here]
        begin = np.where(own >= 0, own, since[here])
        return sums.between(take(index.waits_before, begin + 1), take(index.waits_before, pairs.cause[here]))

    def lost_in(here: slice) -> tuple[int, Any]:
        p2p = np.flatnonzero(pairs.kind[here] < N_P2P_KINDS) + here.start
        lost = pairs.at("wait", p2p) - (total[p2p] + waited_in(p2p))
        lost = lost[lost > 0]
        return lost.size, lost.sum()

    def others_of(here: Rows) -> NDArray[np.integer[Any]]:
        return facts.locations.n_threads.take(take(points.location, pairs.cause[here])) - 1

    n_lost, lost = zip((0, dtype.type(0)), *side_by_side(large.jobs, lost_in, blocks(n)), strict=True)
    return _Sides(total, waited_in, others_of, (sum(n_lost), sum(lost)))


@step(SWEEP, "factors")
def sweep_costs(
    facts: Facts,
    quirks: Quirks,
    sync_points: CompoundTable,
    delay_pairs: KeptTable,
    point_index: PointIndex,
    every_delays: Sequence[Delays],
    spill: Spill,
    jobs: int,
) -> Factors:
    """Carry the costs of waits back through time to the delays that caused them."""
    kind, cause, n, large = delay_pairs.kind, delay_pairs.cause, len(delay_pairs), spill.large.by_threads(jobs)
    beginning = (point_index.start - 1).astype(cause.dtype)

    def since_of(here: slice) -> NDArray[np.signedinteger[Any]]:
        since = delay_pairs.rows("cause_since", here.start, here.stop)
        return np.where(since >= 0, since, beginning.take(take(sync_points.location, cause[here])))

    since = large.computed(n, cause.dtype, since_of)
    is_ordered = has_mpi(facts) or not (quirks.rounds_seconds and quirks.leaves_out_others)
    order_all = partial(_ordered, sync_points, delay_pairs, point_index, large)
    find_sides = partial(_sides, facts, sync_points, delay_pairs, point_index, every_delays, since, large)
    begun: list[Callable[[], Any]] = [order_all if is_ordered else lambda: cause[:0], find_sides]
    order, sides = side_by_side(jobs, lambda begin: begin(), begun)
    counts_from = delay_pairs.counts_from if is_by_members(quirks) else since[:0]
    of_waits = point_index.waits_before, point_index.wait
    caused = kernels.Caused(kind, cause, delay_pairs.waiting, since, counts_from, *of_waits)
    dtype, number = point_index.wait.dtype, number_type(n)
    propagated = large.zeros(point_index.wait.size, dtype)

    def passed_on() -> Amounts:
        kept = large.chosen(propagated.size, lambda here: propagated[here] > 0, point_index.waits.dtype)
        return Amounts(large.taken(point_index.waits, kept), large.taken(propagated, kept))

    def wait_of(here: slice) -> Times:
        return delay_pairs.rows("wait", here.start, here.stop)

    if not quirks.rounds_seconds:

        def charged_to(here: slice) -> Times:
            charged, idle = wait_of(here).copy(), np.flatnonzero(kind[here] == IDLE)
            at = idle + here.start
            charged[idle] = sides.others(at) * (sides.total[at] + sides.waited(at))
            return charged

        charged = large.computed(n, dtype, charged_to)
        total, lost = sides.total, sides.lost
        # free what is no longer needed
        del sides
        shares = _divided(order, caused, total, charged, propagated, point_index, large)
        del order, since, caused, total
        p2p = large.chosen(n, lambda here: (kind[here] < N_P2P_KINDS) & (wait_of(here) != charged[here]), number)
        rest = large.computed(p2p.size, dtype, lambda here: delay_pairs.at("wait", p2p[here]) - charged.take(p2p[here]))
        return Factors(charged, shares, Amounts(p2p, rest), passed_on(), lost)

    costs, passed = _Pool(propagated.size, dtype, large), _Log(order.size, dtype, large)
    is_idle, is_p2p = kind == IDLE, kind < N_P2P_KINDS
    waited, others = large.computed(n, dtype, sides.waited), sides.others(slice(0, n))
    whole = sides.total + waited
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = delay_pairs.wait / whole
    if quirks.limits_scales:
        scale = np.where(is_p2p, np.minimum(scale, 1.0), scale)
    scale = np.where(whole > 0, np.where(is_idle, others, scale), 0.0)
    thread_kind = DELAYS.index("thread_barrier") if quirks.ends_costs_at_barriers else -1
    of_pairs = order, caused, N_P2P_KINDS, thread_kind, scale, whole, waited
    _with_room(slice(0, order.size), kernels.scale_costs, of_pairs, costs, passed, propagated)
    indirect = Amounts.of(np.where(is_p2p, scale * waited, 0.0))
    shares = _of_pairs(n, [(order, passed)], large)
    return Factors(scale, shares, indirect, passed_on(), sides.lost)


def _divided(
    order: NDArray[np.signedinteger[Any]],
    caused: kernels.Caused,
    total: Times,
    charged: Times,
    propagated: Times,
    index: PointIndex,
    large: LargeArrays,
) -> kernels.OfPairs:
    """Divide waits in whole ticks between causing sides, which are charged, and their own waits; return the charges of
    causing sides for later waits.

    Parameters
    ----------
    total, charged : (n_pairs,) int64
        Time that causing sides lost; waits, overwritten by the part of them that is charged.
    propagated : (n_waits,) int64, written
    """
    n, dtype = charged.size, charged.dtype
    costs, passed = _Pool(propagated.size, dtype, large), _Log(order.size, dtype, large)
    # no interval has more waits than its location
    most = int(np.diff(index.waits_before[index.start]).max(initial=0)) + 1
    given, scratch = (caused, N_P2P_KINDS, total, charged), np.empty((4, most), np.int64)
    for here in blocks(order.size):
        _expect_pairs(order[here], caused, total, charged, propagated, costs)
        up_to_here = order[: here.stop], *given
        _with_room(here, kernels.divide_costs, up_to_here, costs, passed, propagated, scratch)
    found = [(order, passed)]
    if costs.n_filled:
        settled = _Log(n, dtype, large)
        _with_room(slice(0, n), kernels.settle_costs, (caused,), costs, settled)
        found.append((large.computed(n, order.dtype, lambda here: np.arange(here.start, here.stop)), settled))
    del costs
    # if nothing carries costs on, the wait is charged to the causing side
    np.maximum(charged, 0, out=charged)
    return _of_pairs(n, found, large)


def _lengthen(of: _Pool | _Log, names: Sequence[str], filled: int, room: int) -> None:
    """Enlarge some arrays to `room` elements, of which the first `filled` are used."""
    # one after the other, so that only one exists twice at a time
    for name in names:
        longer = of.large.with_room(getattr(of.arrays, name), filled, room)
        of.arrays = of.arrays._replace(**{name: longer})


class _Pool:
    """Growable lists of amounts by kind."""

    def __init__(self, n: int, dtype: DTypeLike, large: LargeArrays) -> None:
        # memory that is not written takes no pages
        room, self.large = max(ROOM, n), large
        number = number_type(room)
        below, kind, amount = (large.empty(room, of) for of in (number, np.int8, dtype))
        self.arrays = kernels.Lists(large.full(n, -1, number), below, kind, amount, np.array([-1, room, 0]))

    @property
    def free(self) -> int:
        """Number of free items."""
        return int(self.arrays.state[1])

    @property
    def n_filled(self) -> int:
        """Number of items in lists."""
        return self.arrays.below.size - self.free

    def grow(self) -> None:
        """Make room for a quarter more items."""
        n, n_used = self.arrays.below.size, int(self.arrays.state[2])
        room = n + max(ROOM, n // 4)
        _lengthen(self, ("below", "kind", "amount"), n_used, room)
        self.arrays.state[1] += room - n
        # item numbers take more bytes once there are many items
        for name in ("head", "below"):
            column, number = getattr(self.arrays, name), np.dtype(number_type(room))
            if column.dtype != number:
                wider = self.large.computed(column.size, number, column.__getitem__)
                self.arrays = self.arrays._replace(**{name: wider})


class _Log:
    """Growable list of the charges of pairs, in the order in which costs are carried back."""

    def __init__(self, n: int, dtype: DTypeLike, large: LargeArrays) -> None:
        self.large, room = large, max(ROOM, n)
        kind, amount = large.empty(room, np.int8), large.empty(room, dtype)
        self.arrays = kernels.Passed(large.zeros(n, np.int8), kind, amount, np.zeros(1, np.int64))

    @property
    def n_filled(self) -> int:
        """Number of amounts."""
        return int(self.arrays.state[0])

    @property
    def free(self) -> int:
        """Number of further amounts that there is room for."""
        return self.arrays.kind.size - self.n_filled

    def grow(self) -> None:
        """Make room for a quarter more."""
        n = self.arrays.kind.size
        room = n + max(ROOM, n // 4)
        _lengthen(self, ("kind", "amount"), self.n_filled, room)


def _expect_pairs(
    pair: NDArray[np.signedinteger[Any]],
    caused: kernels.Caused,
    total: Times,
    charged: Times,
    propagated: Times,
    costs: _Pool,
) -> None:
    """Prefetch the file-backed columns needed to carry back the costs of the given pairs."""
    pair = some_of(pair)
    for column in (caused.kind, caused.cause, caused.waiting, caused.since, total, charged):
        expect_near(column, pair)
    for point in (caused.cause.take(pair), caused.waiting.take(pair)):
        expect_near(caused.waits_before, point)
        wait = caused.waits_before.take(np.maximum(point, 0))
        for column in (caused.wait, propagated, costs.arrays.head):
            expect_near(column, wait)


def _with_room(
    here: slice, carry: Callable[..., int], given: tuple[Any, ...], costs: _Pool, passed: _Log, *more: Any
) -> None:
    """Run a kernel that writes amounts over the range `here`; whenever it runs out of room, enlarge a list and resume.
    Its arguments are the position, `given`, both lists, and `more`."""
    at = here.start
    while (at := int(carry(at, *given, costs.arrays, passed.arrays, *more))) < here.stop:
        fuller: _Pool | _Log = costs if costs.free < passed.free else passed
        fuller.grow()


def _of_pairs(n: int, found: list[tuple[NDArray[np.signedinteger[Any]], _Log]], large: LargeArrays) -> kernels.OfPairs:
    """Put the amounts found for pairs, given together with these pairs, in the order of the pairs.

    Costs are carried back on one location for a while, then on another. Without this order, reading those of one
    location would touch nearly all pages.
    """
    left = large.zeros(n, np.int8)
    for pair, passed in found:
        with in_order(pair, passed.arrays.n):
            reduce_groups(pair, passed.arrays.n, left, SUM)
    total = sum(passed.n_filled for _, passed in found)
    begin = large.zeros(n + 1, number_type(total))
    for here in blocks(n):
        before = begin[here.start]
        begin[here.start + 1 : here.stop + 1] = before + np.cumsum(left[here], dtype=begin.dtype)
    kind, amount = large.zeros(total, np.int8), large.zeros(total, found[0][1].arrays.amount.dtype)
    for pair, passed in found:
        with in_order(pair, passed.arrays.n, passed.arrays.kind, passed.arrays.amount):
            kernels.place_amounts(pair, passed.arrays, left, kernels.OfPairs(begin, kind, amount))
    return kernels.OfPairs(begin, kind, amount)


def _ordered(
    points: CompoundTable, pairs: CompoundTable, index: PointIndex, large: LargeArrays
) -> NDArray[np.signedinteger[Any]]:
    """Order pairs from the end to the beginning."""
    n_locations = index.start.size - 1
    n_open = large.zeros(len(points), np.int32)
    with in_order(pairs.cause, pairs.waiting, n_open):
        kernels.count_open(pairs.cause, pairs.waiting, n_open)
    pair_of = _last_pairs(len(points), pairs, large)
    order = large.empty(len(pairs), pair_of.dtype)
    scratch, is_blocked = np.empty((3, n_locations), np.int64), np.zeros(n_locations, bool)
    given = index.cause_start, index.start, points.location, pairs.cause, pair_of, n_open
    kernels.order_pairs(*given, scratch, is_blocked, order)
    return order


def _last_pairs(n_points: int, pairs: CompoundTable, large: LargeArrays) -> NDArray[np.signedinteger[Any]]:
    """Return the pair of each waiting point, the last of several, -1 none; (n_points,) int32 or int64."""
    found = large.full(n_points, -1, number_type(len(pairs)))
    with in_order(pairs.waiting):
        causes.list_last_pairs(pairs.waiting, found)
    return found


class _Sums:
    """Sums of slices of an array."""

    def __init__(self, values: Times, large: LargeArrays) -> None:
        # one more, since slices may end after the last element, and empty ones begin there
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
            return take(self._before, np.maximum(start, stop)) - take(self._before, start)
        # sums of floating-point numbers depend on the order of addition
        bounds = np.stack([start, stop], 1).ravel()
        sums = np.add.reduceat(values, bounds)[::2]
        return np.where(stop > start, sums, 0)


class Path(NamedTuple):
    """The critical path."""

    since: Ints
    """(n,): point from which on a location is on the path; -1 for the beginning of the location."""
    until: Ints
    """(n,): point of the same location until which it is on the path."""
    begin_time: Times
    end_time: Times
    """`begin_time` and `end_time`: (n,) float64 or int64: begin and end of each stretch, in the unit of times; empty if
    the path may split (`quirks.splits_path`)."""

    def on(self, facts: Facts, members: Ints, points: CompoundTable, large: LargeArrays) -> Ints:
        """Return the stretches on some locations; (n_here,) int64."""
        mine = np.zeros(facts.n_locations, bool)
        mine[members] = True
        return large.chosen(self.until.size, lambda rows: mine[points.location[self.until[rows]]])


@step(PATH, "path")
def find_critical_path(
    facts: Facts,
    quirks: Quirks,
    sync_points: KeptTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    spill: Spill,
) -> Path:
    """Walk back from the location that ended last to those waited for, until the start of MPI or the beginning of the
    trace."""
    nothing, no_times = np.zeros(0, np.int64), np.zeros(0, time_type(quirks))
    begin, n, large = _start(facts, quirks, sync_points, point_index), len(sync_points), spill.large
    if begin < 0:
        return Path(nothing, nothing, no_times, no_times)
    number = delay_pairs.cause.dtype
    # a single path goes on at one place at a time
    n_places, n_divided = (n, n) if quirks.splits_path else (1, 0)
    seen, work, until_of = large.zeros(n, bool), large.empty(n_places, np.int64), large.full(n_divided, -1, number)
    path = large.empty(3 * (n + 1), number).reshape(3, n + 1)
    stops = _stops(facts, quirks, sync_points, delay_pairs, point_index, large)
    n_found = causes.walk_critical_path(begin, not quirks.splits_path, stops, seen, work, until_of, path)
    since, until, other = path[:, :n_found]
    if quirks.splits_path:
        # of several paths that reach the beginning, keep the last one
        beginning = until[since < 0][-1:]
        divided = np.flatnonzero(until_of >= 0)
        until = np.append(beginning, until_of[divided]).astype(np.int64)
        return Path(np.append(np.full(beginning.size, -1), divided), until, no_times, no_times)
    left = _times_on_path(facts, quirks, sync_points, begin, since, other, large)
    order = np.argsort(since, kind="stable")

    def ordered(column: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
        return large.computed(n_found, dtype, lambda here: column[order[here]])

    times = (ordered(of, left.dtype) for of in (left[1:], left[:-1]))
    return Path(ordered(since, np.int64), ordered(until, np.int64), *times)


def _stops(
    facts: Facts, quirks: Quirks, points: KeptTable, pairs: CompoundTable, index: PointIndex, large: LargeArrays
) -> causes.Stops:
    """Describe the points at which the critical path may go on elsewhere."""
    kinds = np.arange(len(POINTS))
    is_fork = np.isin(kinds, (FORK, CREATED))
    ends = (kinds == POINTS.index("MPI_Init")) & quirks.leaves_out_startup
    team_set, team_member = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if quirks.splits_path:
        # at thread barriers the path goes on with all threads that did not wait, at forks with the forking thread
        always = ends | (kinds == FORK) | (kinds == THREAD_BARRIER)
        if_waits, if_forked = kinds < N_MPI, np.zeros(kinds.size, bool)
        barriers = np.flatnonzero(points.kind == THREAD_BARRIER)
        team_member = barriers[np.argsort(points.at("set", barriers), kind="stable")]
        team_set = points.at("set", team_member)
    else:
        always, if_waits, if_forked = np.zeros(kinds.size, bool), ~is_fork, is_fork
    of_team = pairs.cause[:0]
    if THREADS_MEET[points.kind].any():

        def team_of(here: slice) -> Ints:
            return np.where(THREADS_MEET[points.kind[here]], points.rows("set", here.start, here.stop), -1)

        of_team = large.computed(len(points), of_team.dtype, team_of)
    return causes.Stops(
        start=index.start,
        location=points.location,
        kind=points.kind,
        waits_before=index.waits_before,
        of_team=of_team,
        pair_of=_last_pairs(len(points), pairs, large),
        cause=pairs.cause,
        ends=ends,
        always=always,
        if_waits=if_waits,
        if_forked=if_forked,
        forks=is_fork,
        team_set=team_set,
        team_member=team_member,
    )


def _times_on_path(
    facts: Facts,
    quirks: Quirks,
    points: CompoundTable,
    begin: int,
    since: NDArray[np.signedinteger[Any]],
    other: NDArray[np.signedinteger[Any]],
    large: LargeArrays,
) -> Times:
    """Return the times at which the critical path starts and reaches each stop, never increasing; (n_stops + 1,).

    A stop has the point `since` (in the order of the walk, -1 for the beginning of a location) and the point `other` at
    which the path goes on.
    """
    found = large.zeros(since.size + 1, time_type(quirks))
    found[0] = _begins(facts, quirks, points, np.array([begin]))[0]
    for here in blocks(since.size):
        stops = np.flatnonzero(since[here] >= 0)
        resumes = _resumes(facts, quirks, points, since[here][stops], other[here][stops])
        found[1:][here][stops] = np.maximum(resumes, 0)
    return np.minimum.accumulate(found, out=found)


def _begins(facts: Facts, quirks: Quirks, points: CompoundTable, at: NDArray[np.signedinteger[Any]]) -> Times:
    """Return the times at which the calls of points begin. A thread is in a parallel region from the FORK on; the
    launch of a created thread belongs to its creator."""
    begins = clock(facts, quirks)(points.at("begin_time", at))
    forks = np.flatnonzero(points.kind[at] == FORK)
    begins[forks] -= points.at("total", at[forks])
    return begins


def _resumes(
    facts: Facts,
    quirks: Quirks,
    points: CompoundTable,
    at: NDArray[np.signedinteger[Any]],
    origin: NDArray[np.signedinteger[Any]],
) -> Times:
    """Return the times at which points have waited long enough, so that the critical path goes on at the points they
    wait for."""
    kind, of_origin = points.kind[at], _begins(facts, quirks, points, origin)
    begins = _begins(facts, quirks, points, at)
    waited = np.minimum(begins + points.at("total", at), of_origin)
    return np.where(kind == CREATED, begins, np.where(kind == FORK, of_origin, waited))


def list_stops(
    facts: Facts, quirks: Quirks, points: KeptTable, pairs: CompoundTable, index: PointIndex
) -> tuple[Ints, Ints, Times]:
    """Return the points at which a single critical path may go on elsewhere, the points at which it then does, and the
    times."""
    found, origin = np.empty((2, len(points)), np.int64)
    n = causes.list_path_stops(_stops(facts, quirks, points, pairs, index, LargeArrays()), found, origin)
    found, origin = found[:n], origin[:n]
    return found, origin, _resumes(facts, quirks, points, found, origin)


def _start(facts: Facts, quirks: Quirks, points: CompoundTable, index: PointIndex) -> int:
    """Return the point from which the critical path is walked back: that of the location that enters MPI_Finalize last,
    else of the one that ends last."""
    if not quirks.leaves_out_startup:
        chosen = index.start[1:][np.diff(index.start) > 0] - 1
        chosen = chosen[points.kind[chosen] == END]
        return int(chosen[np.argmax(points.at("begin_time", chosen))]) if chosen.size else -1
    if not (has_mpi(facts) or has_openmp(facts)):
        return -1
    chosen = np.flatnonzero(points.kind == POINTS.index("MPI_Finalize"))
    if not chosen.size:
        chosen = np.flatnonzero((points.kind == END) & (facts.locations.master[points.location] == points.location))
    return int(chosen[np.argmax(points.at("begin_time", chosen))]) if chosen.size else -1
