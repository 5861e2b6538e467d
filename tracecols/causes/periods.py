"""Root causes by phase or time bin: the charges of call paths over the whole time, divided by when they arise
(docs/phases.md).

Every charge is divided in proportion among the periods in which its location spent the time in question, by the largest
remainder. The parts add up to the charge of the cell over the whole time: to the tick without rounding, else to the
last bit of float64 (`divide_cells`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.delays import Delays, Intervals, ends_of, numbers_of
from tracecols.causes.index import PointIndex
from tracecols.causes.near import KeptTable, some_rows
from tracecols.causes.pairs import CREATED, IDLE
from tracecols.causes.points import Times, clock, in_ticks, number_type, time_type
from tracecols.causes.quirks import Quirks
from tracecols.causes.segments import Segments
from tracecols.causes.shares import add_up, divide_ticks
from tracecols.causes.sweep import Factors, Path
from tracecols.distinct import distinct, starts_run
from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import combine, lookup, number, ranges
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import CHARGES, ON_PATH, RUN, SPENT, step
from tracecols.enhance.scan.call_paths import PeriodCallPaths
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import arrays
from tracecols.kernels import causes as charging
from tracecols.kernels import edges as of_location
from tracecols.kernels import period_times as kernels
from tracecols.kernels.sums import Totals
from tracecols.schema.causes import CHARGED
from tracecols.vectors import Ints, Mask
from tracecols.work.ahead import expect
from tracecols.work.large import LargeArrays, blocks

BITS = 53
"""Bits of the integers that float64 holds exactly."""

CELLS = 1 << 19
"""Maximum number of charges that are divided together, or those of one call path if they are more."""

NEAR = 1 << 12
"""Maximum number of segments between two intervals that are read together."""


def labels_of(facts: Facts) -> PeriodCallPaths:
    """Return the call paths of a trace that is divided into periods."""
    labels = facts.call_paths
    assert isinstance(labels, PeriodCallPaths)  # asked where periods divide the trace
    return labels


def _divided(amount: Times, end: Ints, weight: Ints) -> Times:
    """Divide amounts in proportion to their weights, which end at `end`; integers by the largest remainder;
    (n_weights,)."""
    if amount.dtype == np.int64:
        return divide_ticks(amount, end, weight)
    size = np.diff(end, prepend=0)
    of = np.repeat(np.arange(amount.size), size)
    total = np.bincount(of, weight, amount.size)
    return amount[of] * weight / np.where(total > 0, total, 1.0)[of]


class Weights(NamedTuple):
    """Weights in proportion to which cells of a property are divided."""

    property: int
    """Number in `schema.causes.CHARGED`; -1 for times that serve several properties."""
    label: Ints
    """(n,): call path in a period."""
    location: NDArray[np.int32]
    """(n,)"""
    weight: Times
    """(n,) int64 or float64"""

    @classmethod
    def joined(cls, code: int, parts: Sequence[Weights], quirks: Quirks) -> Weights:
        """Concatenate the weights of a property."""
        of = [p for p in parts if p.property == code]
        return cls(
            code,
            np.concatenate([np.zeros(0, np.int64), *(p.label for p in of)]),
            np.concatenate([np.zeros(0, np.int32), *(p.location for p in of)]),
            np.concatenate([np.zeros(0, time_type(quirks)), *(p.weight for p in of)]),
        )


class PeriodTimes(NamedTuple):
    """The time of intervals by call path and period."""

    period: NDArray[np.int32]
    """(n,): the period that each interval begins in."""
    is_single: Mask
    """(n,): whether the whole interval lies in this period."""
    key: Ints
    """(n_times,): for the other intervals, ascending: number of the interval * number of call paths + call path."""
    of_period: NDArray[np.int32]
    """(n_times,)"""
    ticks: Ints
    """(n_times,): positive."""

    @classmethod
    def joined(cls, parts: Sequence[PeriodTimes], n_paths: int) -> PeriodTimes:
        """Concatenate the times of intervals of a trace with `n_paths` call paths."""
        before = np.cumsum([0, *(of.period.size for of in parts)]).tolist()
        return cls(
            np.concatenate([np.zeros(0, np.int32), *(of.period for of in parts)]),
            np.concatenate([np.zeros(0, bool), *(of.is_single for of in parts)]),
            np.concatenate(
                [np.zeros(0, np.int64), *(of.key + n * n_paths for of, n in zip(parts, before, strict=False))]
            ),
            np.concatenate([np.zeros(0, np.int32), *(of.of_period for of in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(of.ticks for of in parts)]),
        )

    def parts(self, labels: PeriodCallPaths, interval: Ints, path: Ints, otherwise: Ints) -> Parts:
        """Return the parts of the amounts that intervals are charged with for call paths.

        `otherwise` is the call path in a period that is charged if the interval has no time on the call path.
        """
        n_paths = len(labels.whole)
        many = np.flatnonzero(~self.is_single[interval])
        wanted = interval[many] * n_paths + path[many]
        at = np.searchsorted(self.key, wanted, "left")
        found = np.searchsorted(self.key, wanted, "right") - at
        size = np.ones(interval.size, np.int64)
        size[many] = np.maximum(found, 1)
        end = np.cumsum(size)
        label = np.repeat(labels.label(path, self.period[interval]), size)
        weight = np.ones(label.size, np.int64)
        alone = many[found == 0]
        label[end[alone] - 1] = otherwise[alone]
        several = many[found > 0]
        n = found[found > 0]
        of, into = ranges(at[found > 0], n), ranges(end[several] - n, n)
        label[into] = labels.label(np.repeat(path[several], n), self.of_period[of])
        weight[into] = self.ticks[of]
        return Parts(end, label, weight)


class Parts(NamedTuple):
    """The parts of amounts: the end of the parts of each amount, their call paths in periods, and their weights."""

    end: Ints
    """(n,): each amount has one part at least."""
    label: Ints
    weight: Ints
    """`label` and `weight`: (n_parts,)"""

    def weigh(self, code: int, chosen: Ints, amount: Times, location: NDArray[np.int32]) -> Weights:
        """Divide amounts of a property; `chosen` are the amounts that have a value."""
        n = np.diff(self.end, prepend=0)[chosen]
        end, of = np.cumsum(n), ranges(self.end[chosen] - n, n)
        label, where = self.label.take(of), np.repeat(location, n)
        share = _divided(amount, end, self.weight.take(of))
        group, first = number(combine(label, where))
        sums = add_up(group, share, first.size)
        return Weights(code, label[first], where[first], sums)


ENTRY_BYTES = 20
"""Bytes held per segment and entry, and per wait, while the time of an interval is added up."""


def _nothing_of_calls(n: int, dtype: Any) -> kernels.Part:
    return kernels.Part(np.full(n, -1, np.int32), np.zeros(n, dtype), np.zeros(n, dtype))


def period_times(
    intervals: Intervals,
    location: NDArray[np.int32],
    first: Ints,
    stop: Ints,
    waits: tuple[Ints, Ints] | None = None,
    less: kernels.Part | None = None,
    more: kernels.Part | None = None,
) -> PeriodTimes:
    """Add up the time of intervals by call path and period.

    `first` and `stop` are the first segment of each interval and one past the last, `waits` likewise the waits inside,
    which are subtracted. `less` are parts of calls at the begin, which are subtracted, and `more` those at the end,
    which are added. An interval may span a whole location, so it is read block by block.
    """
    facts, quirks, _, _, spent, _ = intervals
    edges, n_paths, dtype = spent.edges, len(facts.call_paths.whole), time_type(quirks)
    assert edges is not None  # asked where periods divide the trace
    n = first.size
    less, more = less or _nothing_of_calls(n, dtype), more or _nothing_of_calls(n, dtype)
    low = np.searchsorted(edges.segment, first)
    end = np.searchsorted(edges.segment, spent.stop[location])
    is_here = (low > 0) & (pick(edges.segment, low - 1) >= spent.first[location])
    start = labels_of(facts).by.first_period
    period = np.where(is_here, pick(edges.period, np.where(is_here, low - 1, -1)), start).astype(np.int32)
    goes_on = (low < end) & (more.path >= 0) & (pick(edges.time, np.where(low < end, low, -1), 0) < more.end)
    is_single = (low >= np.searchsorted(edges.segment, stop)) & ~goes_on
    nothing = np.zeros(n, np.int64)
    spans = kernels.Spans(first, stop, low, end, period, *(waits or (nothing, nothing)), less, more)
    interval, of_period, path, value = _sum_several(intervals, spans, np.flatnonzero(~is_single))
    ticks = in_ticks(facts, quirks, value)
    key = interval * n_paths + facts.call_paths.whole.creation[path]
    order = np.argsort(key, kind="stable")
    order = order[ticks[order] > 0]
    return PeriodTimes(period, is_single, key[order], of_period[order], ticks[order])


def _sum_several(intervals: Intervals, spans: kernels.Spans, many: Ints) -> kernels.Found:
    """Add up the time of the intervals that lie in several periods, given by their numbers, block by block."""
    facts, quirks, _, _, spent, large = intervals
    edges, n_paths, dtype = spent.edges, len(facts.call_paths.whole), time_type(quirks)
    assert edges is not None  # asked where periods divide the trace
    of_edges = of_location.Edges(
        edges.time, edges.period, edges.segment, edges.end, *map(edges.entries.column, ("call_path", "time"))
    )
    totals = Totals(np.zeros(n_paths, dtype), np.zeros(n_paths, bool), np.empty(n_paths, np.int32))
    room, size = max(1 << 12, 4 * n_paths), large.block_of(ENTRY_BYTES)
    found = kernels.Found(
        np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, dtype)
    )
    state = np.zeros(kernels.N_STATE, np.int64)
    for run in _runs(spans.first[many], spans.stop[many]):
        some = kernels.spans_at(spans, many[run])
        last, last_wait = int(some.stop.max()), int(some.wait_stop.max())
        here = _segments_here(intervals, int(some.first.min()), last, size)
        waiting = _waits_here(intervals, int(some.wait.min()), last_wait, size)
        done, state[: kernels.N_FOUND] = int(state[kernels.N_FOUND]), 0
        while lacks := int(kernels.sum_periods(state, some, waiting, here, of_edges, totals, found)):
            if lacks == kernels.SEGMENTS:
                here = _segments_here(intervals, int(state[kernels.SEGMENT]), last, size)
            elif lacks == kernels.WAITS:
                waiting = _waits_here(intervals, int(state[kernels.WAIT]), last_wait, size)
            else:
                found = arrays.doubled(found)
        mine = found.interval[done : int(state[kernels.N_FOUND])]
        mine[:] = many[run][mine]
    return arrays.first(found, int(state[kernels.N_FOUND]))


def _runs(first: Ints, stop: Ints) -> list[Ints]:
    """Divide intervals into runs of those that are near each other, so that only the segments near them are read.

    Returns the numbers of the intervals in each run.
    """
    if not first.size:
        return []
    order = np.argsort(first, kind="stable")
    reached = np.maximum.accumulate(stop[order])
    return np.split(order, np.flatnonzero(first[order][1:] > reached[:-1] + NEAR) + 1)


def _segments_here(intervals: Intervals, first: int, stop: int, size: int) -> kernels.Segments:
    """Return the segments first <= segment < stop with their entries: at most `size` of either, but at least one
    segment."""
    spent, n = intervals.segments, max(min(stop - first, size), 0)
    end = np.concatenate([np.zeros(max(1 - first, 0), np.int64), spent.ends.rows("end", max(first - 1, 0), first + n)])
    end = end[: max(int(np.searchsorted(end, end[0] + size, "right")), 2)]
    entries = (
        some_rows(spent.entries, name, int(end[0]), int(end[-1]), intervals.large) for name in ("call_path", "time")
    )
    return kernels.Segments(np.int64(first), end - end[0], *entries)


def _waits_here(intervals: Intervals, first: int, stop: int, size: int) -> kernels.Waits:
    """Return the waits first <= wait < stop, at most `size` of them."""
    facts, quirks, points, index, *_ = intervals
    here = slice(first, min(stop, first + size))
    waits, path, wait = index.waits[here], index.wait_path[here], index.wait[here]
    for column in (waits, path, wait):
        expect(column)
    return kernels.Waits(np.int64(first), path, clock(facts, quirks)(points.at("begin_time", waits)), wait)


def _before_interval(intervals: Intervals, since: Ints, known: Mask) -> tuple[kernels.Part, kernels.Part]:
    """Return the calls at the begin of intervals, which are subtracted, and their completions, with which the intervals
    begin.

    `known` marks the intervals that begin with a point.
    """
    facts, quirks, points, *_ = intervals
    call_path, begin_time, lead, total, completion, tail = (
        points.at(c, since) for c in ("call_path", "begin_time", "lead", "total", "completion", "tail")
    )
    path = np.where(known, pick(facts.call_paths.whole.met, call_path), -1).astype(np.int32)
    begin = clock(facts, quirks)(begin_time) - lead
    end = begin + total
    done = end - tail
    # with peculiarities of the reference completions may be negative: then time after the call is subtracted
    less = kernels.Part(path, begin, end - np.minimum(completion, 0))
    return less, kernels.Part(path, done - np.maximum(completion, 0), done)


class DelayPeriods(NamedTuple):
    """The periods in which the causing sides of the pairs of a partition spent the time that they are charged for."""

    comes: NDArray[np.int32]
    """(n_pairs,): the period in which the cause occurs, if its interval lies in several, else -1."""
    interval: NDArray[np.signedinteger[Any]]
    """(n_pairs,) int32 or int64: the interval of each pair of the partition."""
    intervals: PeriodTimes
    """Those in which the causing sides spent more time than the waiting sides."""

    def spread(self, facts: Facts) -> charging.Spread:
        """Return the same in the form that kernels take."""
        labels, of = labels_of(facts), self.intervals
        times = of.period, of.is_single, of.key, of.of_period, of.ticks
        return charging.Spread(self.interval, self.comes, *times, labels.whole.creation, labels.of_kernels)


class PathPeriods(NamedTuple):
    """The periods in which the stretches of the critical path on some locations lie."""

    facts: Facts
    quirks: Quirks
    ends: NDArray[np.int32]
    """(n_stretches,): the period in which each stretch ends."""
    stretches: PeriodTimes

    def parts(self, stretch: Ints, call_path: NDArray[np.int32]) -> Parts:
        """Return the parts of the time that stretches have on some call paths."""
        labels, path = labels_of(self.facts), call_path.astype(np.int64)
        return self.stretches.parts(labels, stretch, path, labels.label(path, self.ends[stretch]))

    def parts_outside(
        self, stretch: Ints, call_path: NDArray[np.int32], location: NDArray[np.int32], began: Times, ended: Times
    ) -> Parts:
        """Return the parts of the time of call paths on stretches outside of regions, in proportion to the rest of each
        bin.

        `began` and `ended` are the times of the stretches. If periods are phases, which regions begin, this time
        belongs to the phase in which the stretch ends.
        """
        labels = labels_of(self.facts)
        if not labels.by.by_time:
            return self.parts(stretch, call_path)
        n_paths, n_bins = len(labels.whole), labels.by.n_spans
        by = labels.by.converted(clock(self.facts, self.quirks))
        first, last = by.piece(began, location), by.piece(ended, location, "left")
        n = np.maximum(last - first + 1, 0)
        of, period = np.repeat(np.arange(stretch.size), n), ranges(first, n)
        begin = np.where(period > first[of], by.edge(period - 1, location[of]), began[of])
        end = np.where(period < last[of], by.edge(period, location[of]), ended[of])
        # the time in regions in each bin
        in_regions = self.stretches.key // n_paths * n_bins + self.stretches.of_period
        bins, head = number(in_regions)
        spent = add_up(bins, self.stretches.ticks, head.size)
        at = lookup(in_regions[head], stretch[of] * n_bins + period)
        ticks = in_ticks(self.facts, self.quirks, end - begin) - np.where(at >= 0, pick(spent, at), 0)
        kept = np.flatnonzero(ticks > 0)
        path = call_path.astype(np.int64)
        times = PeriodTimes(
            self.stretches.period,
            np.zeros_like(self.stretches.is_single),
            (stretch * n_paths + path)[of][kept],
            period[kept].astype(np.int32),
            ticks[kept],
        )
        return times.parts(labels, stretch, path, labels.label(path, self.ends[stretch]))


def _of_delays(intervals: Intervals, pairs: CompoundTable, delays: Delays, large: LargeArrays) -> DelayPeriods:
    """Find the periods in which the causing sides of the pairs of a partition spent their time, `BLOCK` pairs at a
    time."""
    points, index, n = intervals.points, intervals.point_index, len(delays.pairs)
    interval, comes = large.empty(n, number_type(n)), large.full(n, -1, np.int32)
    found: list[PeriodTimes] = []
    n_intervals = 0
    for rows in blocks(n):
        pair = delays.pairs.rows("pair", rows.start, rows.stop)
        # consecutive pairs with the same cause and beginning share an interval
        cause, own, since = numbers_of(pairs, pair, "cause", "own_since", "cause_since")
        begins = np.where(own >= 0, own, since)
        is_first = starts_run(cause, begins)
        of, head = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
        until, since, is_idle = cause[head], begins[head], pairs.kind[pair[head]] == IDLE
        # an interval is idle for all its pairs or for none: pairs of both sorts of a point never have the same
        # beginning
        first = np.where(is_idle, intervals.after_joins(since, until), intervals.first(since, until)).astype(np.int64)
        after = np.where(since >= 0, since + 1, index.start[points.location[until]])
        times = period_times(
            intervals,
            points.location[until],
            first,
            intervals.stop(until),
            (index.n_waits_before(after), index.n_waits_before(until)),
            *_before_interval(intervals, since, (since >= 0) & ~is_idle),
        )
        # not needed for intervals that lie in one period
        divided = np.flatnonzero(~times.is_single[of])
        comes[rows][divided] = _period_of(intervals, cause[divided])
        interval[rows] = of + n_intervals
        found.append(times)
        n_intervals += head.size
    return DelayPeriods(comes, interval, PeriodTimes.joined(found, len(intervals.facts.call_paths.whole)))


def _period_of(intervals: Intervals, at: Ints) -> NDArray[np.int32]:
    """Return the periods in which the calls of points begin; the end of a location is in its last period."""
    labels, points, edges = labels_of(intervals.facts), intervals.points, intervals.segments.edges
    assert edges is not None  # asked where periods divide the trace
    label, location = points.at("label", at), points.location[at]
    period = pick(labels.period, labels.at(label, points.at("begin_time", at), location))
    last = np.searchsorted(edges.segment, intervals.segments.stop[location]) - 1
    is_end = (label < 0) & (last >= 0)
    period[is_end] = pick(edges.period, last)[is_end]
    return period


@step(ON_PATH, "delay_periods")
def find_delay_periods(
    facts: Facts,
    quirks: Quirks,
    sync_points: KeptTable,
    delay_pairs: CompoundTable,
    point_index: PointIndex,
    segments: Segments,
    delays: Delays,
    spill: Spill,
) -> DelayPeriods | None:
    """Find the phases or bins in which the causing sides of pairs spent the time that they are charged for; None
    without periods."""
    if segments.edges is None:
        return None
    intervals = Intervals(facts, quirks, sync_points, point_index, segments, spill.large.briefly())
    return _of_delays(intervals, delay_pairs, delays, spill.large)


@step(ON_PATH, "path_periods")
def find_path_periods(
    facts: Facts,
    quirks: Quirks,
    members: Ints,
    sync_points: KeptTable,
    point_index: PointIndex,
    segments: Segments,
    path: Path,
    spill: Spill,
) -> PathPeriods | None:
    """Find the phases or bins in which some locations spent the time that they have on the critical path; None without
    periods."""
    if segments.edges is None:
        return None
    intervals = Intervals(facts, quirks, sync_points, point_index, segments, spill.large.briefly())
    here = path.on(facts, members, sync_points, spill.large)
    ends, found = [np.zeros(0, np.int32)], []
    for rows in blocks(here.size):
        since, until = path.since[here[rows]], path.until[here[rows]]
        location = sync_points.location[until]
        bounds = intervals.resumed(since, until), intervals.stop(until)
        calls = _calls_of_stretches(intervals, path, here[rows])
        found.append(period_times(intervals, location, *bounds, None, *calls))
        ends.append(_period_of(intervals, until))
    return PathPeriods(facts, quirks, np.concatenate(ends), PeriodTimes.joined(found, len(facts.call_paths.whole)))


def _calls_of_stretches(intervals: Intervals, path: Path, here: Ints) -> tuple[kernels.Part, kernels.Part | None]:
    """Return the parts of the calls at the begin of some stretches of the critical path, which are subtracted, and of
    those at the end, which are added."""
    facts, quirks, points, _, segments, _ = intervals
    since, until, met = path.since[here], path.until[here], facts.call_paths.whole.met
    begin_path, end_path = (
        np.where(at >= 0, pick(met, points.call_path[at]), -1).astype(np.int32) for at in (since, until)
    )
    if quirks.splits_path:
        # without the wait in the call at which the location begins to be on the path
        begin = clock(facts, quirks)(points.at("begin_time", since))
        return kernels.Part(begin_path, begin, begin + points.at("wait", since)), None
    # the ends lie inside of the calls of points, after the cuts
    location = points.location[until]
    reached, left = segments.resumed_at(since, location)[1], segments.left_time(until, location)
    begin_path[pick(points.kind, since) == CREATED] = -1
    return kernels.Part(begin_path, reached, path.begin_time[here]), kernels.Part(end_path, left, path.end_time[here])


@step(SPENT, "period_times")
def divide_own_times(
    facts: Facts,
    quirks: Quirks,
    members: Ints,
    sync_points: KeptTable,
    point_index: PointIndex,
    segments: Segments,
    spill: Spill,
) -> Weights | None:
    """Add up the time of some locations by call path and period without the waits at their synchronisation points; None
    without periods."""
    if segments.edges is None:
        return None
    labels, n_paths = labels_of(facts), len(facts.call_paths.whole)
    end = ends_of(members, sync_points, point_index)
    location = sync_points.location[end]
    found = period_times(
        Intervals(facts, quirks, sync_points, point_index, segments, spill.large.briefly()),
        location,
        segments.first[location],
        segments.stop[location],
        (point_index.n_waits_before(point_index.start[location]), point_index.n_waits_before(end)),
    )
    # a location that is in one period needs no times: all of it counts there
    label = labels.label(found.key % n_paths, found.of_period)
    weight = found.ticks.astype(time_type(quirks))
    return Weights(-1, label, location[found.key // n_paths], weight)


@step(CHARGES, "root_causes")
def divide_causes(
    facts: Facts, quirks: Quirks, charged_causes: CompoundTable, cause_weights: Sequence[Weights] | None
) -> CompoundTable:
    """Divide the charges of some locations among phases or time bins by when they arise; without periods they are
    unchanged."""
    if cause_weights is None:
        return charged_causes
    labels, charged = labels_of(facts), charged_causes
    parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64), charged.charged[:0])]
    for which in distinct(charged.property).tolist():
        # one property after the other, since there are many cells if there are many locations
        mine, of = np.flatnonzero(charged.property == which), Weights.joined(which, cause_weights, quirks)
        every_path, own_path, start = charged.call_path[mine], labels.path_of(of.label).astype(np.int32), 0
        while start < mine.size:
            # some call paths of many locations; charges are ordered by call path
            last = every_path[min(start + CELLS, mine.size) - 1]
            stop = int(np.searchsorted(every_path, last, "right"))
            some, path, start = mine[start:stop], every_path[start:stop], stop
            own = np.flatnonzero((own_path >= path[0]) & (own_path <= path[-1]))
            key = path.astype(np.int64) * facts.n_locations + charged.location[some]
            cell = lookup(key, own_path[own] * np.int64(facts.n_locations) + of.location[own])
            given = charged.charged[some], path, cell, of.label[own], of.weight[own], charged.location[some]
            cell, label, part = divide_cells(labels, *given)
            parts.append((some[cell], label, part))
    cell, label, part = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    columns = {
        "property": charged.property[cell],
        "call_path": label.astype(np.int32),
        "location": charged.location[cell],
        "charged": part,
    }
    return CompoundTable(charged.table, cell.size, columns, dict(charged.counts))


def divide_cells(
    labels: PeriodCallPaths,
    value: Times,
    path: NDArray[np.int32],
    cell: Ints,
    label: Ints,
    weight: Times,
    location: NDArray[np.signedinteger[Any]] | None = None,
) -> tuple[Ints, Ints, Times]:
    """Divide values among periods in proportion to weights, so that the parts add up to the values to the last bit, in
    any order.

    Parts of integers are integers, other parts are multiples of the last bit of the value. A value without any weight
    counts outside of all phases, or in the first bin of the focus.

    Each weight belongs to a cell (-1 none) and a call path in a period. Weights of the same two are added up in their
    order, and negative sums count as zero. `location` is the location of each value; without it a value without any
    weight counts in the first bin. Returns cell, call path in a period and part of all parts that are not zero, ordered
    by the first two.
    """
    key = cell * len(labels) + label
    order = np.argsort(key, kind="stable")
    order = order[int((cell < 0).sum()) :]
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    cell, label = cell[order][first], label[order][first]
    weight = np.maximum(np.add.reduceat(weight[order], first), 0) if first.size else weight[:0]
    kept = np.flatnonzero(weight)
    cell, label, weight = cell[kept], label[kept], weight[kept]
    alone = np.flatnonzero((np.bincount(cell, minlength=value.size) == 0) & (value != 0))
    rest = labels.by.period_of_rest(None if location is None else location[alone], alone.size)
    outside = labels.label(path[alone], rest)
    at = np.searchsorted(cell, alone)
    cell, label, weight = (np.insert(of, at, more) for of, more in ((cell, alone), (label, outside), (weight, 1)))
    if weight.dtype != np.int64:
        weight = np.rint(np.ldexp(weight / np.bincount(cell, weight, value.size)[cell], BITS)).astype(np.int64)
    amount, unit = np.abs(value), np.ones(value.size, value.dtype)
    if value.dtype != np.int64:
        fraction, exponent = np.frexp(amount)
        amount, unit = np.ldexp(fraction, BITS).astype(np.int64), np.ldexp(1.0, exponent - BITS)
    end = np.cumsum(np.bincount(cell, minlength=value.size))
    part = (np.sign(value) * unit)[cell] * _divided(amount, end, weight)
    kept = np.flatnonzero(part)
    return cell[kept], label[kept], part[kept]


@step(RUN, "run_causes")
def divide_run(
    facts: Facts,
    quirks: Quirks,
    sync_points: CompoundTable,
    delay_pairs: CompoundTable,
    factors: Factors,
    every_root_causes: Sequence[CompoundTable],
    every_period_times: Sequence[Weights | None],
    charged_run: CompoundTable,
) -> CompoundTable:
    """Divide the charges of all locations for the whole run among phases or time bins; without periods they are
    unchanged."""
    if facts.call_paths.divider is None:
        return charged_run
    rows: list[Weights] = []
    for name, at, amount in factors.charged_waits(sync_points, delay_pairs):
        rows.append(_in_waits(facts, quirks, sync_points, CHARGED.index(name), at, amount))
    for name in ("critical_path_activities", "non_critical_path_activities"):
        rows += [of._replace(property=CHARGED.index(name)) for of in every_period_times if of is not None]
    impact, absent = (CHARGED.index(name) for name in ("critical_imbalance_impact", "inter_partition_imbalance"))
    rows += [_as(of, CHARGED.index("critical_path"), impact) for of in every_root_causes]
    # the loss to absent locations is a part of the loss, in every period
    is_absent = charged_run.property == absent
    found = divide_causes(facts, quirks, _where(charged_run, ~is_absent), rows)
    part = divide_causes(facts, quirks, _where(charged_run, is_absent), [_as(found, impact, absent)])
    columns = {c: np.concatenate([found[c], part[c]]) for c in found.names}
    return CompoundTable(charged_run.table, len(found) + len(part), columns, dict(charged_run.counts))


def _where(table: CompoundTable, mask: Mask) -> CompoundTable:
    """Return some rows of a table."""
    return CompoundTable(table.table, int(mask.sum()), {c: table[c][mask] for c in table.names}, dict(table.counts))


def _as(table: CompoundTable, code: int, other: int) -> Weights:
    """Return the charges of one property as weights of another one."""
    mine = np.flatnonzero(table.property == code)
    return Weights(other, table.call_path[mine].astype(np.int64), table.location[mine], table.charged[mine])


def _in_waits(facts: Facts, quirks: Quirks, points: CompoundTable, code: int, at: Ints, amount: Times) -> Weights:
    """Divide amounts that are parts of waits among periods like the waits."""
    begin = points.at("begin_time", at)
    row, label, ticks = labels_of(facts).divide(
        points.at("label", at), begin, begin + in_ticks(facts, quirks, points.at("wait", at)), points.location[at]
    )
    end = np.searchsorted(row, np.arange(at.size), "right")
    kept = np.diff(end, prepend=0) > 0
    return Weights(code, label, points.location[at[row]], _divided(amount[kept], end[kept], ticks))
