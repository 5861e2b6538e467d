"""Charges of call paths: costs of delays, the critical path, and the effect of both on the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.delays import ENTRY_BYTES, PAIR_BYTES, Delays, Intervals, OwnTimes
from tracecols.causes.device_path import PathRows
from tracecols.causes.index import PointIndex
from tracecols.causes.near import KeptTable
from tracecols.causes.pairs import CREATED, has_openmp
from tracecols.causes.periods import DelayPeriods, PathPeriods, Weights, labels_of
from tracecols.causes.points import Times, in_ticks, time_type
from tracecols.causes.quirks import Quirks
from tracecols.causes.segments import LIMIT, Segments
from tracecols.causes.shares import add_up, divide_ticks
from tracecols.causes.sweep import Factors, Path
from tracecols.distinct import distinct, starts_run
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import combine, number, ranges
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import CHARGES, ON_PATH, RUN, step
from tracecols.enhance.scan.facts import Facts
from tracecols.given.quantities import counted, in_words
from tracecols.kernels import causes as kernels
from tracecols.kernels.costs import count_charges, list_charges
from tracecols.kernels.orders import order_by
from tracecols.kernels.sums import Totals
from tracecols.schema import Table
from tracecols.schema.causes import CHARGED, DELAY_IDS, DELAYS, ROOT_CAUSES, RUN_CAUSES, UNKNOWN_DELAYS
from tracecols.schema.notes import CONVENTIONS
from tracecols.vectors import Ints, Mask, offsets_of
from tracecols.work.large import blocks

ROUNDING = 2.0**-44
"""Relative error that rounding may cause in a sum over all locations and call paths."""

DENSE = 1 << 20
"""Number of times of locations by call path compared with the critical path at once, though most may be zero."""

STRETCHES = 1 << 16
"""Number of stretches of the critical path added up together; each has times of some ten call paths."""

Rows = tuple[int, NDArray[np.int32], NDArray[np.int32], Times]
"""Number of a property; call paths, locations and times."""


class Charges(NamedTuple):
    """The charges of some locations: `Rows`, and the weights by which these are divided if periods divide the trace."""

    rows: list[Rows]
    weights: list[Weights]


@step(CHARGES, "charged_causes", "cause_weights")
def charge_causes(
    facts: Facts,
    quirks: Quirks,
    delay_charges: Charges,
    path_charges: Charges,
    device_path_rows: PathRows | None,
    delay_periods: DelayPeriods | None,
) -> tuple[CompoundTable, list[Weights] | None]:
    """Charge some locations with the costs of their delays and with their part of the critical path.

    Returns `root_causes` of the whole time, and the weights by which they are divided among periods.
    """
    rows = delay_charges.rows + path_charges.rows
    weights = None if delay_periods is None else delay_charges.weights + path_charges.weights
    if device_path_rows is not None:
        path, code = device_path_rows, CHARGED.index("critical_path")
        location = path.location.astype(np.int32)
        rows.append((code, path.call_path.astype(np.int32), location, path.ticks))
        if weights is not None and labels_of(facts).by.by_time:
            label = labels_of(facts).label(path.call_path, path.span)
            weights.append(Weights(code, label, location, path.ticks))
    return _table(quirks, ROOT_CAUSES, rows), weights


@step(CHARGES, "delay_charges")
def charge_delays(
    facts: Facts,
    quirks: Quirks,
    sync_points: CompoundTable,
    delay_pairs: CompoundTable,
    delays: Delays,
    factors: Factors,
    delay_periods: DelayPeriods | None,
    spill: Spill,
) -> Charges:
    """Charge the causing sides of pairs by the call paths on which they spent more time.

    Charges are in proportion to that time; whole ticks are divided into whole ticks. If a cause spent no more time on
    any call path than the waiting side, the call of the cause is charged.
    """
    n = len(delays.pairs)
    # sums of floating-point numbers depend on the order of addition
    size = n
    if not quirks.rounds_seconds:
        size = spill.large.block_of(PAIR_BYTES + ENTRY_BYTES * (len(delays.entries) // max(n, 1)))
    spread = None if delay_periods is None else delay_periods.spread(facts)
    names = [DELAY_IDS[d] for d in DELAYS]
    codes = [CHARGED.index(name) for name in (*names, *(f"{name}_longterm" for name in names))]
    rows: list[Rows] = []
    weights: list[Weights] = []
    for here in blocks(n, max(size, 1)):
        pair, first, stop = (delays.pairs.rows(name, here.start, here.stop) for name in ("pair", "first", "stop"))
        low, high = int(first.min()), int(stop.max())
        call_path, time = (delays.entries.rows(name, low, high) for name in ("call_path", "time"))
        cause = delay_pairs.cause.take(pair)
        in_call = pick(facts.call_paths.whole.met, sync_points.call_path.take(cause))
        lost = kernels.Lost(sync_points.location.take(cause), first - low, stop - low, in_call, call_path, time)
        of_some = spread and spread._replace(interval=spread.interval[here], comes=spread.comes[here])
        charging = _Charging(facts, quirks, lost, of_some)
        begin, chosen, cost = _charged_by_kind(pair, delay_pairs.kind, factors, 2 * len(DELAYS))
        for code, mine in zip(codes, (slice(*ends) for ends in pairwise(begin)), strict=True):
            if mine.start == mine.stop:
                continue
            charged, by_period = charging.charge(chosen[mine], cost[mine])
            paths = pick(facts.call_paths.whole.creation, charged.call_path).astype(np.int32)
            rows.append((code, paths, charged.location, charged.time))
            if spread is not None:
                weights.append(Weights(code, *by_period))
    return Charges(rows, weights)


def _charged_by_kind(
    pair: Ints, kind: NDArray[np.int8], factors: Factors, n_kinds: int
) -> tuple[list[int], NDArray[np.int32], Times]:
    """List the charges of pairs by kind, for their own waits, then for later ones: the first charge of each kind, and
    one past the last; the number of the pair, and the amount."""
    given, n_of = (pair, kind, factors.scale, factors.shares), np.zeros(n_kinds, np.int64)
    count_charges(*given, n_of)
    begin = offsets_of(n_of)
    chosen, cost = np.empty(begin[-1], np.int32), np.empty(begin[-1], factors.scale.dtype)
    list_charges(*given, begin[:-1].copy(), chosen, cost)
    return begin.tolist(), chosen, cost


class _Charging:
    """Charges the causing sides of pairs with their costs; `spread` holds the periods in which these spent their
    time."""

    def __init__(self, facts: Facts, quirks: Quirks, lost: kernels.Lost, spread: kernels.Spread | None) -> None:
        dtype, n_labels = lost.time.dtype, 0 if spread is None else len(facts.call_paths)
        self._lost, self._spread = lost, spread
        size = np.maximum(lost.stop - lost.first, 1)
        # for all pairs, any of which may be charged
        self._n_shares, self._n_runs = int(size.sum()), 1 + int(np.count_nonzero(np.diff(lost.location)))
        n_paths = len(facts.call_paths.whole)
        # one for each call path, and one for null
        self._of_period, self._of_paths, self._of_labels = (
            Totals(np.zeros(n, dtype), np.zeros(n, bool), np.empty(n, np.int32))
            for n in (n_paths + 1, n_paths + 1, n_labels + 1)
        )
        self._n_times = 0 if spread is None else spread.key.size
        most = int(size.max(initial=1)) + self._n_times
        self._shares = None if quirks.rounds_seconds else kernels.Shares(*np.empty((4, most), np.int64))

    def charge(self, pair: NDArray[np.int32], amount: Times) -> tuple[kernels.Charged, kernels.Charged]:
        """Charge the locations of some pairs; return the charges by call path and by call path in a period."""
        n, n_runs = self._n_shares, self._n_runs
        room = min(n, n_runs * self._of_paths.met.size)
        charged = kernels.Charged(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, amount.dtype))
        room = min(n + self._n_times, n_runs * self._of_labels.met.size) if self._spread is not None else 0
        labelled = kernels.Charged(np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, amount.dtype))
        sums = self._of_period, self._of_paths, self._of_labels
        given = pair, amount, self._lost, self._spread, self._shares
        n_charged, n_labelled = kernels.charge_call_paths(*given, *sums, charged, labelled)
        found = (charged, n_charged), (labelled, n_labelled)
        by_path, by_label = (kernels.Charged(*(column[:k].copy() for column in of)) for of, k in found)
        return by_path, by_label


def _shares_of_rows(amount: Ints, weights: Ints) -> Ints:
    """Divide an integer amount among each row of weights, which are not all zero unless the amount is; (n, n_weights)
    int64."""
    end = (np.arange(amount.size) + 1) * weights.shape[1]
    return divide_ticks(amount, end, weights.ravel()).reshape(weights.shape)


@step(ON_PATH, "path_charges")
def charge_path(
    facts: Facts,
    quirks: Quirks,
    members: Ints,
    sync_points: KeptTable,
    point_index: PointIndex,
    segments: Segments,
    path: Path,
    device_path: Columns | None,
    path_periods: PathPeriods | None,
    spill: Spill,
) -> Charges:
    """Add up the time of some locations on the critical path; nothing if the path is found over streams."""
    if device_path is not None:
        return Charges([], [])
    large, here = spill.large, path.on(facts, members, sync_points, spill.large)
    intervals = Intervals(facts, quirks, sync_points, point_index, segments, large.briefly())
    created = np.zeros(0, np.int64)
    if not quirks.splits_path:
        created = large.chosen(len(sync_points), lambda rows: sync_points.kind[rows] == CREATED)
    # sums of floating-point numbers depend on the order of addition
    size = max(here.size, 1) if quirks.rounds_seconds else STRETCHES
    rows: list[Rows] = []
    weights: list[Weights] = []
    for start in range(0, here.size, size):
        some = here[start : start + size]
        at, paths, times, is_outside = _on_path(intervals, path, some, created)
        location = sync_points.location[path.until[some]][at]
        if path_periods is not None:
            weights += _weights_on_path(path_periods, path, here, at + start, paths, times, location, is_outside)
        if not quirks.rounds_seconds:
            # fewer rows to keep
            group, first = number(combine(paths.astype(np.int64), location))
            paths, location, times = paths[first], location[first], add_up(group, times, first.size)
        rows.append((CHARGED.index("critical_path"), paths, location, times))
    return Charges(rows, weights)


def _weights_on_path(
    periods: PathPeriods,
    path: Path,
    here: Ints,
    at: Ints,
    paths: NDArray[np.int32],
    times: Times,
    location: NDArray[np.int32],
    is_outside: Mask,
) -> list[Weights]:
    """Return the weights by which the time on some stretches of the critical path is divided.

    `here` are the stretches of the partition; `at` is the number of a stretch among these, and `is_outside` whether it
    lies outside of all regions.
    """
    code = CHARGED.index("critical_path")
    inside, outside = np.flatnonzero(~is_outside), np.flatnonzero(is_outside)
    parts = periods.parts(at[inside], paths[inside])
    weights = [parts.weigh(code, np.arange(inside.size), times[inside], location[inside])]
    if outside.size:
        of = at[outside]
        began, ended = path.begin_time[here[of]], path.end_time[here[of]]
        parts = periods.parts_outside(of, paths[outside], location[outside], began, ended)
        weights.append(parts.weigh(code, np.arange(outside.size), times[outside], location[outside]))
    return weights


def _on_path(
    intervals: Intervals, path: Path, here: Ints, created: Ints
) -> tuple[Ints, NDArray[np.int32], Times, Mask]:
    """Return the time of call paths on some stretches of the critical path: the number of the stretch among these, the
    call path, the time, and whether it lies outside of all regions."""
    since, until, points = path.since[here], path.until[here], intervals.points
    maps = intervals.spent(since, until)
    of = np.repeat(np.arange(here.size), maps.end - maps.start)
    call_path = intervals.facts.call_paths.whole.creation[maps.call_path].astype(np.int32)
    if not intervals.quirks.splits_path:
        return _stretches(intervals, path, here, of, call_path, maps.time, created)
    # without the wait in the call at which the location begins to be on the path
    stop = np.where(since >= 0, since, 0)
    wait = np.where(since >= 0, points.at("wait", stop), 0)
    at_stop = np.flatnonzero((call_path == points.call_path[stop][of]) & (wait[of] > 0))
    less = -np.minimum(wait[of[at_stop]], maps.time[at_stop])
    at, paths = np.concatenate([of, of[at_stop]]), np.concatenate([call_path, call_path[at_stop]])
    return at, paths, np.concatenate([maps.time, less]), np.zeros(at.size, bool)


def _stretches(
    intervals: Intervals, path: Path, here: Ints, of: Ints, call_path: NDArray[np.int32], time: Times, created: Ints
) -> tuple[Ints, NDArray[np.int32], Times, Mask]:
    """Divide the length of each stretch of the critical path among the call paths it lies on; mark the time outside of
    all regions.

    Its ends lie inside of the calls of its points, after the cuts: the wait in the call at its begin is subtracted, and
    the time in the call at its end until its location is waited for is added. The rest of the length lies outside of
    all regions (`_paths_outside`). If clocks disagree the sum may exceed the length.
    """
    facts, quirks, points, _, spent, _ = intervals
    since, until, began, ended = path.since[here], path.until[here], path.begin_time[here], path.end_time[here]
    n = since.size
    # a created thread does not begin inside of the call that creates it
    begins = np.flatnonzero((since >= 0) & (pick(points.call_path, since) >= 0) & (pick(points.kind, since) != CREATED))
    ends = np.flatnonzero(points.call_path[until] >= 0)
    stretch = np.concatenate([ends, of, begins])
    paths = np.concatenate([points.call_path[until[ends]], call_path, points.call_path[since[begins]]])
    location = points.location[until]
    left = spent.left_time(until[ends], location[ends])
    reached = spent.resumed_at(since[begins], location[begins])[1]
    change = np.concatenate([ended[ends] - left, time, reached - began[begins]])
    order = order_by(stretch, paths)
    stretch, paths = stretch[order], paths[order]
    is_first = starts_run(stretch, paths)
    weight = add_up(np.cumsum(is_first) - 1, change[order], int(np.count_nonzero(is_first)))
    weight = in_ticks(facts, quirks, np.maximum(weight, 0))
    stretch, paths = stretch[is_first], paths[is_first].astype(np.int32)
    length = in_ticks(facts, quirks, ended - began)
    outside = length - add_up(stretch, weight, n)
    rest = np.flatnonzero(outside > 0)
    around = _paths_outside(points, created, since[rest], until[rest])
    rest, around = rest[around >= 0], around[around >= 0]
    at = np.searchsorted(stretch, rest, "right")
    is_outside = np.insert(np.zeros(stretch.size, bool), at, True)
    given = (stretch, rest), (paths, around), (weight, outside[rest])
    stretch, paths, weight = (np.insert(of, at, more) for of, more in given)
    end = np.searchsorted(stretch, np.arange(n), "right")
    share = divide_ticks(length, end, weight)
    kept = np.flatnonzero(share)
    spent_here = share[kept] / facts.resolution if quirks.rounds_seconds else share[kept]
    return stretch[kept], paths[kept], spent_here, is_outside[kept]


def _paths_outside(points: CompoundTable, created: Ints, since: Ints, until: Ints) -> NDArray[np.int32]:
    """Return the call paths that time outside of all regions in stretches of the critical path is charged to; (n,)
    int32, -1 none.

    On a thread created by the program this is the call path that created it, elsewhere the one in which the stretch
    ends, or else begins.
    """
    at = pick(created, np.searchsorted(created, until, "right") - 1)
    at[pick(points.location, at) != points.location[until]] = -1
    path = np.full(until.size, -1, np.int32)
    for point in (at, until, since):
        path = np.where(path < 0, pick(points.call_path, point), path)
    return path


def _table(
    quirks: Quirks, table: Table, rows: Sequence[Rows], counts: Mapping[str, int] | None = None
) -> CompoundTable:
    """Add up rows by property, call path and location, in their order."""
    what = np.repeat(np.array([code for code, *_ in rows], np.int16), [path.size for _, path, *_ in rows])
    nothing = np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, time_type(quirks))
    call_path, location, times = map(np.concatenate, zip(nothing, *(of for _, *of in rows), strict=True))
    # rows of the same cell stay in order, on which floating-point sums depend
    order = order_by(what, call_path, location)
    what, call_path, location = what[order], call_path[order], location[order]
    is_first = starts_run(what, call_path, location)
    first = np.flatnonzero(is_first)
    sums = add_up(np.cumsum(is_first) - 1, times[order], first.size)
    columns = {"property": what[first], "call_path": call_path[first], "location": location[first], "charged": sums}
    return CompoundTable(table, first.size, columns, dict(counts or {}))


@step(RUN, "charged_run")
def charge_run(
    facts: Facts,
    quirks: Quirks,
    sync_points: CompoundTable,
    delay_pairs: CompoundTable,
    factors: Factors,
    every_root_causes: Sequence[CompoundTable],
    every_own_times: Sequence[OwnTimes],
) -> CompoundTable:
    """Charge all locations with the waits that they propagate and with the impact of the critical path."""
    rows: list[Rows] = []
    for name, at, amount in factors.charged_waits(sync_points, delay_pairs):
        rows.append((CHARGED.index(name), sync_points.call_path[at], sync_points.location[at], amount))
    impacts, n_everywhere = _impacts(facts, quirks, every_root_causes, every_own_times)
    counts: dict[str, int] = {}
    if not quirks.rounds_seconds:
        counts = _differences(facts, delay_pairs, factors, every_own_times, impacts, n_everywhere)
    return _table(quirks, RUN_CAUSES, rows + impacts, counts)


def _differences(
    facts: Facts,
    pairs: CompoundTable,
    factors: Factors,
    own: Sequence[OwnTimes],
    impacts: Sequence[Rows],
    n_everywhere: int,
) -> dict[str, int]:
    """Return one note of what root causes would lack with the peculiarities of the reference, as far as known without
    them."""

    def seconds(ticks: Any) -> str:
        return in_words(float(ticks) / facts.resolution, "seconds")

    waits = pairs.at("wait", np.flatnonzero(np.isin(DELAYS, UNKNOWN_DELAYS)[pairs.kind]))
    n_lost, lost = factors.lost
    location = np.concatenate([o.location for o in own])
    here = distinct(location)
    many = int((np.bincount(location, minlength=1) > LIMIT).sum())
    workers = int((facts.locations.master[here] != here).sum()) if has_openmp(facts) else 0
    absent = np.concatenate(
        [np.zeros(0), *(v for code, _, _, v in impacts if code == CHARGED.index("inter_partition_imbalance"))]
    )
    found = (
        (
            waits.size,
            f"waits whose causes it does not know are charged ({counted(waits.size, 'wait')}, {seconds(waits.sum())})",
        ),
        (
            n_lost,
            (
                f"waits for messages beyond what the other side lost are charged ({counted(n_lost, 'wait')}, "
                f"{seconds(lost)})"
            ),
        ),
        (many, f"call paths beyond {LIMIT} of a location count ({counted(many, 'location')})"),
        (workers, f"the ends of parallel regions on worker threads count ({counted(workers, 'thread')})"),
        (
            n_everywhere and absent.size,
            f"inter-partition imbalance though a location visits all of the critical path ({seconds(absent.sum())})",
        ),
    )
    texts = [text for n, text in found if n]
    return {f"{CONVENTIONS}: {'; '.join(texts)}": len(texts)} if texts else {}


def _impacts(
    facts: Facts, quirks: Quirks, charged: Sequence[CompoundTable], own: Sequence[OwnTimes]
) -> tuple[list[Rows], int]:
    """Compare the time of every location with that of the critical path; count the locations that visit all of it."""
    code = CHARGED.index("critical_path")
    parts = [np.flatnonzero(c.property == code) for c in charged]
    path, on, value = (
        np.concatenate([c[name][p] for c, p in zip(charged, parts, strict=True)])
        for name in ("call_path", "location", "charged")
    )
    if not path.size:
        return [], 0
    if facts.call_paths.divider is not None:
        # of all periods together
        path = facts.call_paths.path_of(path).astype(np.int32)
        cell, first = number(combine(path, on))
        path, on, value = path[first], on[first], add_up(cell, value, first.size)
    order = order_by(on, path)
    path, on, value = path[order], on[order], value[order]
    n = len(facts.call_paths.whole)
    on_path = add_up(path, value, n)
    location, call_path, time = (
        np.concatenate([getattr(o, c) for o in own]) for c in ("location", "call_path", "time")
    )
    order = order_by(location, call_path)
    location, call_path, time = location[order], call_path[order], time[order]
    bounds = np.searchsorted(location, np.arange(facts.n_locations + 1))
    lacking = _Lacking(quirks, on_path, call_path[time < 0])
    compared = lacking.compared
    column = np.full(n, -1, np.int64)
    column[compared] = np.arange(compared.size)
    column = column[call_path]
    others = np.flatnonzero(column < 0)
    elsewhere = add_up(location[others].astype(np.int64), time[others], facts.n_locations)
    n_everywhere = 0
    cpus = np.flatnonzero(facts.locations.is_cpu)
    for here in np.array_split(cpus, max(-(-cpus.size * compared.size // DENSE), 1)):
        size = bounds[here + 1] - bounds[here]
        row, mine = np.repeat(np.arange(here.size), size), ranges(bounds[here], size)
        is_compared = column[mine] >= 0
        spent = np.zeros((here.size, compared.size), value.dtype)
        spent[row[is_compared], column[mine][is_compared]] = time[mine][is_compared]
        n_everywhere += int((~((spent <= 0) & (on_path[compared] != 0)).any(1)).sum())
        lacking.add(spent, elsewhere[here])
    lost, to_absent = lacking.charged(path, value)
    rows: list[Rows] = []
    for name, charge in (("critical_imbalance_impact", lost), ("inter_partition_imbalance", to_absent)):
        kept = np.flatnonzero((value > 0) & (charge > 0))
        rows.append((CHARGED.index(name), path[kept], on[kept], charge[kept]))
    both = on_path[call_path]
    shared = np.flatnonzero((both > 0) & (time > 0))
    activities = np.minimum(both[shared], time[shared])
    rows.append((CHARGED.index("critical_path_activities"), call_path[shared], location[shared], activities))
    beyond = np.flatnonzero(time > both)
    rows.append(
        (CHARGED.index("non_critical_path_activities"), call_path[beyond], location[beyond], (time - both)[beyond])
    )
    return rows, n_everywhere


class _Lacking:
    """Time by call path that locations lack compared with the critical path, and the part of it that is lost to
    locations that never visit the call path.

    Parameters
    ----------
    on_path : (n_call_paths,) float64 or int64
        Time on the critical path.
    negative : (any,) int32
        Call paths with a negative time on some location, as with clocks that disagree.

    Attributes
    ----------
    compared : (n_compared,) int64
        Call paths on which a location may lack something, ascending; all if sums depend on the number of summands.
    """

    def __init__(self, quirks: Quirks, on_path: Times, negative: NDArray[np.int32]) -> None:
        self._quirks, self._on_path = quirks, on_path
        self._length = on_path.sum()
        # whole ticks are divided, unless the dividend may be negative or not a number
        self._divides = not (quirks.rounds_seconds or quirks.divides_by_zero or quirks.scales_below_zero)
        is_compared = (on_path != 0) | (not self._divides)
        is_compared[negative] = True
        self.compared = np.flatnonzero(is_compared)
        dtype = np.int64 if self._divides else np.float64
        self._all: Times = np.zeros(on_path.size, dtype)
        self._absent: Times = np.zeros(on_path.size, dtype)

    def add(self, spent: Times, elsewhere: Times) -> None:
        """Add the time that some locations lack.

        `spent` is their time on each call path that is compared, (n, n_compared), `elsewhere` that on all others.
        """
        if not self._divides:
            for of_location in spent:
                self._add_scaled(of_location)
            return
        less = np.maximum(self._on_path[self.compared] - spent, 0)
        visited = spent > 0
        remainder = self._length - elsewhere
        lacking = np.maximum(remainder - spent.sum(1), 0)
        absent = np.maximum(remainder - (spent + less).sum(1, where=visited), 0)
        shares = _shares_of_rows(lacking, less)
        self._all[self.compared] += shares.sum(0)
        # on every call path the absent time is a part of the lacking time
        away = np.where(visited, 0, shares)
        self._absent[self.compared] += _shares_of_rows(np.minimum(absent, away.sum(1)), away).sum(0)

    def _add_scaled(self, spent: Times) -> None:
        """Add the time that one location lacks, (n_call_paths,); not in whole ticks."""
        less = np.maximum(self._on_path - spent, 0)
        nowhere = np.where(spent <= 0, self._on_path, 0)
        visited = spent > 0
        self._all += self._scaled(self._length - spent.sum(), less)
        self._absent += self._scaled(self._length - (spent[visited] + less[visited]).sum(), nowhere)

    def _scaled(self, total: float, parts: Times) -> NDArray[np.float64]:
        """Return the lacking time by call path, as parts of the total."""
        whole = parts.sum()
        if not self._quirks.divides_by_zero and whole == 0:
            return np.zeros(parts.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = total / whole
            result: NDArray[np.float64] = (scale if self._quirks.scales_below_zero else np.maximum(scale, 0.0)) * parts
        return result

    def charged(self, path: NDArray[np.int32], value: Times) -> tuple[Times, Times]:
        """Return the lacking and the absent time of cells of the critical path, given by call path and time on one
        location."""
        if self._divides:
            by_path = np.argsort(path, kind="stable")
            here, end = np.unique(path, return_counts=True)
            end = np.cumsum(end)
            lost, to_absent = np.zeros_like(value), np.zeros_like(value)
            lost[by_path] = divide_ticks(self._all[here], end, value[by_path])
            to_absent[by_path] = divide_ticks(self._absent[here], end, lost[by_path])
            return lost, to_absent
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(value > 0, value / self._on_path[path], 0.0)
            # the reference divides by zero here: NaN is not charged
            lost, to_absent = share * self._all[path], share * self._absent[path]
            # a part of the loss, which rounding may make greater than the loss
            return lost, np.where(np.abs(to_absent - lost) <= ROUNDING * lost, lost, to_absent)
