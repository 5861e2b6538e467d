"""Causes in computation: locations that compute longer than others that do the same, alone, or at other times.

Each is tried by replay, with the call path as long as the mean of its peers, evenly distributed, or shortened until
something else limits the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import Segments, combine, number, ranges
from tracecols.enhance.scan.paths import count_descendants, is_repeated, outermost_of, with_descendants
from tracecols.findings.cause import CLEARLY, NOBODY, PHASES, STEPS, Cause, Spans, steps_or_families, tried
from tracecols.findings.overheads import CREATION, message_edges
from tracecols.findings.scenarios import Change, Scenarios, together
from tracecols.kernels.computed import collect_rows, compare_pieces
from tracecols.kernels.maxplus import BEGUN
from tracecols.once import once
from tracecols.replay.cell_sums import CellSums, sum_by_cell
from tracecols.severity.causes import ALONE, CHANGING, LONGEST, PREFERRED, rank_factor
from tracecols.vectors import Ints, Mask, offsets_of

N_TRIED = 10
"""Number of call paths tried in each way: those with most to gain."""

DEEPER, ITSELF = 0.75, 0.95
"""Shares of the gain of a call path with all it calls that a single one below it, and the call path without what it
calls, must have to be the cause in its place."""

IN_TURN = 0.8
"""Share of some work that must not be computed at the same time as other pieces of it to be computed in turn."""

LATE = 0.7
"""Share of what the longest pieces exceed the mean by which one location must exceed all others to be late by itself;
two thirds if work grows evenly over four locations."""

LONG, FEW = (2, 3), 0.2
"""Multiples of the median that tasks have to take to be long, of which the first counts that few tasks exceed; and the
largest share of all tasks that are few."""

MOSTLY = 0.7
"""Share of what the longer pieces of a location exceed those of others by that is left with its shorter pieces deducted
from which on it takes longer; noise leaves little of it."""

FEWEST_CALLS = 4
"""Number of calls that each thread must make to be compared with others by the length of its calls."""

HANDED_OUT = 0.9
"""Share of the pieces of some work that must begin with a message of the same location for it to hand them out."""

HALF = (1.4, 4.0)
"""Factors between which one half of the locations must take longer than the other half to count as slow, as the cores
of a node or of a socket may be; otherwise work is distributed unevenly."""

SOME = 0.1
"""Share of the most uneven function's excess from which on a function counts as one of several that are uneven."""

UNEVEN = ("computation", "imbalance")
"""Kinds of causes that several functions may have in common."""

ALIKE = 0.8
"""Correlation of how much longer than the mean locations take in two functions from which on it is the same ones."""

HALVINGS = 8
"""Bisection steps to find how much shorter a call path can become before something else limits the run."""


AT_ENDS = 0.02
"""Share of the pieces of some work that locations may have more than others where these are compared one by one: at the
ends of a trace slice some have begun a piece that others have not."""


@dataclass(frozen=True, eq=False)
class Work:
    """Computation of some call paths: rows of the computation of a replay, and sums by location."""

    spans: Spans
    """The call paths, as spans (begin, end) without the end. The first one is named."""
    node: NDArray[np.int32]
    """(n,): the nodes of the rows, location by location in the order of time."""
    ticks: Ints
    """(n,)"""
    who: Ints
    """(m,): the locations."""
    n_rows: Ints
    """(m,): number of rows of each."""
    total: Ints
    """(m,): ticks of each."""

    def cause(self, kind: str, locations: Ints, change: Change, **more: Any) -> Cause:
        """Return a cause in this computation; further arguments are those of `Cause`."""
        return Cause(kind, self.spans[0][0], locations, change, spans=self.spans, **more)

    def by_row(self, of: NDArray[Any]) -> Any:
        """Repeat values given for each location for each of its rows."""
        return np.repeat(of, self.n_rows)

    @once
    def table(self) -> Ints | None:
        """Ticks of the k-th piece of work of each location, (m, n_pieces); None if they have different numbers of
        pieces."""
        if self.who.size < 2 or self.n_rows.min() < 2 or self.n_rows.min() != self.n_rows.max():
            return None
        return self.ticks.reshape(self.who.size, -1)

    @once
    def level(self) -> NDArray[np.float64]:
        """Mean of the pieces of each location in the table near each of them, at least 1, so that noise is not in it;
        (m, n_pieces)."""
        assert self.table is not None
        n = self.table.shape[1]
        first = np.arange(0, n, math.isqrt(n))
        size = np.diff(first, append=n)
        return np.repeat(np.maximum(np.add.reduceat(self.table, first, 1) / size, 1), size, 1)

    @once
    def in_common(self) -> Work | None:
        """The first pieces, as many as all locations have; None if some have over `AT_ENDS` more."""
        n, most = int(self.n_rows.min()), int(self.n_rows.max())
        if most == n:
            return self
        if most - n > AT_ENDS * n:
            return None
        at = (offsets_of(self.n_rows)[:-1, None] + np.arange(n)).ravel()
        total = self.ticks[at].reshape(-1, n).sum(1)
        return replace(self, node=self.node[at], ticks=self.ticks[at], n_rows=np.full_like(self.n_rows, n), total=total)

    @property
    def changing_excess(self) -> float:
        """Ticks by which the longest piece exceeds the mean, summed over the pieces."""
        return 0.0 if self.table is None else float((self.table.max(0) - self.table.mean(0)).sum())


class Sizes(NamedTuple):
    """The most that can be gained in the computation of some call paths, or of some with all that they call."""

    head: Ints
    """(n,): the call path, or the one above all."""
    n_locations: Ints
    """(n,): locations that compute there."""
    most: Ints
    """(n,): ticks of the location that takes longest."""
    excess: NDArray[np.float64]
    """(n,): ticks by which the longest exceeds the mean of the others; all of its ticks if there are no others."""
    changing: NDArray[np.float64]
    """(n,): ticks by which the longest piece exceeds the mean, summed over the pieces; 0 if the numbers of pieces
    differ."""
    is_serial: Mask
    """(n,): only masters of several threads compute."""
    in_single: Mask
    """(n,): it is in a single construct, which one thread at a time executes."""
    same: Ints
    """(n_call_paths,): the first of the call paths that count as one with each."""

    def first(self, which: Mask, by: NDArray[Any]) -> list[int]:
        """Return the selected entries with the largest values, at most `N_TRIED`, the largest first."""
        at = np.flatnonzero(which)
        return at[np.argsort(-by[at], kind="stable")][:N_TRIED].tolist()


EVERYWHERE = 0.7
"""Share of the computation of a process that has to take longer than for its peers for the process to count as slow in
most of it."""

MAIN = 0.7
"""Share of the excess that one function may have without being the only cause."""


def _is_everywhere(mine: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Return whether a unit that computes longer than its peers on average does so in most of its functions."""
    excess = np.maximum(mine - others, 0)
    longer = mine > CLEARLY**0.5 * others
    net = mine.sum() - others.sum()
    return bool(
        net > 0.7 * excess.sum()
        and mine[longer].sum() > EVERYWHERE * mine.sum()
        and excess.max(initial=0.0) < MAIN * excess.sum()
    )


class Peers(NamedTuple):
    """Computation of units (processes or threads) on call paths, and of the other units there."""

    call_path: Ints
    unit: Ints
    """`call_path` and `unit`: (n,)"""
    mean: NDArray[np.float64]
    others: NDArray[np.float64]
    """`mean` and `others`: (n,), mean ticks of the locations of a unit, and of the other units; equal where less than
    half of all units are there."""


def _peers(call_path: Ints, unit: Ints, ticks: Ints) -> Peers:
    """Compare units on call paths, given the ticks of cells."""
    of, head = number(combine(call_path, unit))
    cells = Segments(of, head.size)
    mean, call_path, unit = cells.sum(ticks) / cells.count(), call_path[head], unit[head]
    path, _ = number(call_path)
    n_units, whole = np.bincount(path), np.bincount(path, mean)
    has_peers = (n_units > 1) & (2 * n_units >= distinct(unit).size)
    others = np.where(has_peers[path], (whole[path] - mean) / np.maximum(n_units[path] - 1, 1), mean)
    return Peers(call_path, unit, mean, others)


def _slowest_units(peers: Peers) -> Ints:
    """Return the unit that exceeds its peers most, or several that are clearly apart from a larger number of others."""
    excess, total = (np.bincount(peers.unit, of) for of in (peers.mean - peers.others, peers.mean))
    worst = np.array([int(excess.argmax())])
    units = distinct(peers.unit)
    is_high = total[units] > (total[units].max() + total[units].min()) / 2
    several = units[is_high]
    if several.size > 1 and worst[0] in several and _are_apart(total[units], is_high):
        return several
    return worst


def _are_apart(total: NDArray[Any], is_high: Mask) -> bool:
    """Return whether the high ones are few, and both groups differ by more than twice the range within each. Half of
    all are few if they take as much longer as a slow socket or node does (`HALF`)."""
    high, low = total[is_high], total[~is_high]
    is_slower = HALF[0] * low.max() < high.min() < HALF[1] * low.max()
    are_few = high.size < low.size or (high.size == low.size and is_slower)
    return bool(are_few and high.min() - low.max() > 2 * max(np.ptp(high), np.ptp(low)))


def _are_alike(ticks: NDArray[Any]) -> bool:
    """Return whether no location takes clearly longer than the mean."""
    return bool(ticks.max() < CLEARLY * ticks.mean())


def _longest(table: Ints) -> dict[str, Any]:
    """Return the evidence of how much longer the longest of pieces (location, time) take than those of the location
    that takes longest."""
    return {LONGEST: float(table.max(0).sum() / table.sum(1).max())}


def _worth(cause: Cause) -> float:
    """Return the gain of a cause, as causes are ranked by it."""
    return cause.gain * rank_factor(cause.kind, cause.evidence)


def _changes(cause: Cause) -> bool:
    """Return whether other locations are late each time."""
    return cause.kind == CHANGING


class Computing:
    """The computation of a run by call path, and the causes in it, `at` some locations, (n_locations,): threads, or
    streams of devices."""

    def __init__(self, scenarios: Scenarios, at: Mask) -> None:
        self.scenarios = s = scenarios
        model, nodes = s.model, s.graph.nodes
        counts = s.in_window & at[nodes.location]
        self.locations = s.locations[at[s.locations]]
        cells = sum_by_cell(s.computation, nodes, counts, len(s.call_paths))
        kept = ~self.creates[cells.call_path]
        self.cells = CellSums(cells.rows, cells.n_call_paths, *(column[kept] for column in cells[2:]))
        self.process = s.process
        self.n_threads = np.bincount(self.process[self.locations], minlength=int(self.process.max(initial=0)) + 1)
        self.has_teams = bool(model.team_instances.instance.size)
        self.is_master = np.asarray(model.locations.master == np.arange(model.n_locations))
        self.same = s.merged.below_steps

    @once
    def _n_computing(self) -> int:
        return distinct(self.cells.location).size

    @once
    def n_processes(self) -> int:
        """Number of processes that compute."""
        return distinct(self.process[self.cells.location]).size

    @once
    def is_of_device(self) -> Mask:
        """Select the call paths of calls of hosts for devices, and those that create contexts with all that they call;
        (n_call_paths,) bool."""
        model, paths = self.scenarios.model, self.scenarios.call_paths
        if not model.locations.is_cpu[self.locations].any():
            # kernels and copies may be regions of the same paradigms
            return np.zeros(len(paths), bool)
        return (model.regions.device_call >= 0)[paths.region] | self.scenarios.replay.contexts

    @once
    def creates(self) -> Mask:
        """Select the call paths that create tasks, which have a cause of their own; (n_call_paths,) bool."""
        return CREATION(self.scenarios.model.regions)[self.scenarios.call_paths.region]

    @once
    def is_nest(self) -> Mask:
        """Select the call paths with computation in several call paths of their subtree and communication in none, and
        those that count as one with them; of a recursion only the first level; (n_call_paths,) bool."""
        model, paths = self.scenarios.model, self.scenarios.call_paths
        is_mpi = model.regions.paradigm[paths.region] == "mpi"
        computing = np.zeros(len(paths), bool)
        computing[self.cells.call_path] = True
        is_several = (count_descendants(computing, paths.end) > 1) & (count_descendants(is_mpi, paths.end) == 0)
        result = is_several & (paths.parent >= 0) & ~is_repeated(paths.region, paths.end)
        return np.isin(self.same, self.same[result])

    @once
    def in_single(self) -> Mask:
        """Select the call paths in single constructs; (n_call_paths,) bool."""
        regions, paths = self.scenarios.model.regions, self.scenarios.call_paths
        head = (regions.role == "single_sblock") & (regions.paradigm == "openmp")
        return with_descendants(head[paths.region], paths.end)

    @once
    def in_task(self) -> Mask:
        """Select the call paths in explicit tasks; (n_call_paths,) bool."""
        paths = self.scenarios.call_paths
        return with_descendants(paths.region == self.scenarios.model.regions.tasks, paths.end)

    @once
    def in_team(self) -> Mask:
        """Select the call paths in parallel regions and explicit tasks; (n_call_paths,) bool."""
        regions, paths = self.scenarios.model.regions, self.scenarios.call_paths
        head = (regions.role == "parallel") & (regions.paradigm == "openmp")
        return with_descendants(head[paths.region], paths.end) | self.in_task

    def _spans(self, head: int, includes_calls: bool, same: Ints) -> Spans:
        """Return a call path and those that count as the same, alone or with all that they call."""
        heads = np.flatnonzero(same == head)
        end = self.scenarios.call_paths.end[heads] if includes_calls else heads + 1
        return tuple(zip(heads.tolist(), end.tolist(), strict=True))

    def work(self, sets: Sequence[Spans]) -> list[Work]:
        """Return the computation of some sets of call paths, without creating tasks, collected in one pass
        over the rows."""
        cells, of_locations, paths = self.cells, [], [np.zeros(0, np.int64)]
        for spans in sets:
            low, high = np.array(spans, np.int64).reshape(-1, 2).T
            path = ranges(low, high - low)
            paths.append(path[~self.creates[path]])
            begin, end = np.searchsorted(cells.call_path, [low, high])
            at = ranges(begin, end - begin)
            who, group = np.unique(cells.location[at], return_inverse=True)
            by_location = Segments(group, who.size)
            of_locations.append((who, by_location.sum(cells.n_rows[at]), by_location.sum(cells.ticks[at])))
        path = np.concatenate(paths)
        of_path = np.repeat(np.arange(-1, len(sets)), [p.size for p in paths])[np.argsort(path, kind="stable")]
        first = offsets_of(np.bincount(path, minlength=len(self.scenarios.call_paths)))
        start = offsets_of([int(n_rows.sum()) for _, n_rows, _ in of_locations])
        node, ticks = np.empty(start[-1], np.int32), np.empty(start[-1], np.int64)
        collect_rows(cells.rows, first, of_path, start[:-1].copy(), node, ticks)
        mine = (slice(*ends) for ends in pairwise(start.tolist()))
        return [Work(spans, node[at], ticks[at], *of) for spans, at, of in zip(sets, mine, of_locations, strict=True)]

    def _sizes(self, head: Ints, same: Ints) -> Sizes:
        """Measure computation by the call path `head` that each call path counts for, -1 for none; `same` is as in
        `Sizes`. What hosts do for devices, and creating tasks, is left out."""
        head = np.where(self.is_of_device | self.creates, -1, head)
        cells, of_cell = self.cells, head[self.cells.call_path]
        mine = np.flatnonzero(of_cell >= 0)
        mine = mine[np.lexsort((cells.location[mine], of_cell[mine]))]
        of_cell, location = of_cell[mine], cells.location[mine]
        who, first_of_who = number(combine(of_cell, location))
        by_location = Segments(who, first_of_who.size)
        of_who, first = number(of_cell[first_of_who])
        found, one = of_cell[first_of_who][first], Segments(of_who, first.size)
        total, n_pieces = by_location.sum(cells.ticks[mine]), by_location.sum(cells.n_rows[mine])
        n_locations, most, whole = one.count(), one.max(total), one.sum(total)
        others = (whole - most) / np.maximum(n_locations - 1, 1)
        # the k-th pieces of all locations are compared if all have the same number of pieces
        least = one.min(n_pieces)
        is_equal = (n_locations > 1) & (least > 1) & (least == one.max(n_pieces))
        changing = np.zeros(first.size)
        changing[is_equal] = self._changing(head, found[is_equal], n_locations[is_equal], least[is_equal])
        masters = self.is_master & (self.n_threads[self.process] > 1) & self.has_teams
        is_serial = one.min(masters[location[first_of_who]].astype(np.int64)) > 0
        return Sizes(found, n_locations, most, most - others, changing, is_serial, self.in_single[found], same)

    def _changing(self, head: Ints, chosen: Ints, n_locations: Ints, n_pieces: Ints) -> NDArray[np.float64]:
        """Return the ticks by which the longest k-th pieces exceed the mean of all locations, summed over k, for chosen
        values of `head`."""
        if not chosen.size:
            return np.zeros(0)
        number_of = np.full(head.size + 1, -1, np.int32)
        number_of[chosen] = np.arange(chosen.size)
        first, n = np.cumsum(n_pieces) - n_pieces, int(n_pieces.sum())
        most, total = np.zeros(n, np.int64), np.zeros(n, np.int64)
        where, seen = np.full(chosen.size, -1, np.int32), np.zeros(chosen.size, np.int64)
        compare_pieces(self.cells.rows, number_of[head], first, where, seen, most, total)
        above = most - total / np.repeat(n_locations, n_pieces)
        of = np.repeat(np.arange(chosen.size), n_pieces)
        return np.asarray(np.bincount(of, above, chosen.size), np.float64)

    @once
    def single(self) -> Sizes:
        """The computation of single call paths."""
        return self._sizes(self.same, self.same)

    @once
    def steps(self) -> Sizes:
        """The computation of steps with running numbers, each family as one."""
        same, paths = self.scenarios.merged.of, distinct(self.cells.call_path)
        several = np.bincount(same[paths], minlength=same.size) >= STEPS
        mine = paths[several[same[paths]] & (self.same[paths] != same[paths])]
        return self._sizes(np.where(np.isin(same, same[mine]), same, -1), same)

    @once
    def regions(self) -> Sizes:
        """The computation of regions on several call paths, each as one, unless nearly all is on one of these."""
        region, n = self.scenarios.call_paths.region.astype(np.int64), len(self.scenarios.model.regions)
        ticks = np.bincount(self.same[self.cells.call_path], self.cells.ticks, region.size)
        total, most, first = np.bincount(region, ticks, n), np.zeros(n), np.full(n, -1)
        np.maximum.at(most, region, ticks)
        mine = np.flatnonzero((ticks > 0) & (total > PREFERRED * most)[region])
        first[region[mine][::-1]] = mine[::-1]
        head = np.where(np.isin(self.same, mine), first[region], -1)
        return self._sizes(head, head)

    @once
    def nests(self) -> Sizes:
        """The computation of call paths with all that they call."""
        paths, nobody = self.scenarios.call_paths, np.full(len(self.scenarios.call_paths), -1)
        found = [self._sizes(nobody, self.same)]
        # those of one depth do not overlap
        for depth in distinct(paths.depth[self.is_nest]).tolist():
            above = outermost_of(self.is_nest & (paths.depth == depth), paths.end)
            found.append(self._sizes(pick(self.same, above), self.same))
        *columns, _ = zip(*found, strict=True)
        return Sizes._make([*map(np.concatenate, columns), self.same])

    def causes(self) -> list[Cause]:
        """Return the causes in computation that makes others wait, with the gain of mending each."""
        if self.locations.size < 2:
            # nobody waits
            return []
        alone = self._best(self.single, False)
        families = self._best(self.steps, False)
        for c in families:
            c.evidence[PHASES] = str(self.scenarios.merged.names[self.scenarios.call_paths.region[c.call_path]])
        alone = steps_or_families(self.scenarios, [*alone, *families])
        alone = self._in_regions(alone)
        nests = self._best(self.nests, True)
        # a region may be called from several places, all of which a function around them has to be compared with
        nests += self._merged(self._alike(nests))
        return self._in_several(self._with_slowest(self._joined(self._deepest(alone, nests))))

    def _in_regions(self, causes: list[Cause]) -> list[Cause]:
        """Replace the causes on single call paths by those of the same kind on all call paths of their regions that
        gain clearly more: locations may share work over several of them."""
        region = self.scenarios.call_paths.region
        for whole in self._best(self.regions, False):
            mine = [c for c in causes if c.kind == whole.kind and region[c.call_path] == region[whole.call_path]]
            if whole.gain > PREFERRED * max((c.gain for c in self._joined(mine)), default=0):
                whole.evidence["n_call_paths"] = len(whole.spans)
                causes = [c for c in causes if c not in mine] + [whole]
        return causes

    def _deepest(self, alone: list[Cause], nests: Sequence[Cause]) -> list[Cause]:
        """Return the causes in single call paths, and those in call paths with all that they call which gain clearly
        more than any below them; these are then left out."""
        depth = self.scenarios.call_paths.depth
        found, deeper = list(alone), [*alone, *self._merged(self._alike(alone))]
        for nest in sorted(nests, key=lambda c: -depth[c.call_path]):
            # different locations may be late each time in addition to those that always are
            below = [c for c in deeper if self._is_below(c, nest) and _changes(c) == _changes(nest)]
            least = [(ITSELF if c.call_path == nest.call_path else DEEPER) * nest.gain for c in below]
            if all(c.gain < enough for c, enough in zip(below, least, strict=True)):
                found = [c for c in found if c not in below] + [nest]
                deeper.append(nest)
        return found

    def causes_between_devices(self) -> list[Cause]:
        """Return the causes that some devices compute longer than others, or what no other does, with the gain of
        mending each; what several streams of a device do is not compared."""
        device = combine(self.process, self.scenarios.model.locations.device.astype(np.int64))
        if distinct(device[self.cells.location]).size < 2:
            return []
        sizes = self.single
        single = sizes.first(sizes.n_locations == 1, sizes.most)
        uneven = sizes.first(sizes.n_locations > 1, np.maximum(sizes.excess, sizes.changing))
        works, alone = self._works(sizes, False, uneven, single)
        apart = [w for w in works if distinct(device[w.who]).size == w.who.size]
        found = tried(self.scenarios, [c for w in apart for c in self._uneven(w)]) + self._alone(alone)
        return self._in_several(self._with_slowest(self._changing_together(self._joined(self._best_of(found)), apart)))

    def _changing_together(self, causes: list[Cause], works: Sequence[Work]) -> list[Cause]:
        """Replace the causes that others take longer in single functions each time by that in all of these functions,
        as for batches of different sizes, if that gains clearly more."""
        changing = sorted((w for w in works if w.changing_excess), key=lambda w: -w.changing_excess)
        several = [
            w
            for w in changing
            if w.changing_excess >= SOME * changing[0].changing_excess and np.array_equal(w.who, changing[0].who)
        ]
        if len(several) < 2:
            return causes
        tables = [w.table for w in several if w.table is not None]
        regions = self.scenarios.call_paths.region[[w.spans[0][0] for w in several]]
        names = self.scenarios.model.regions.name[regions[:4]]
        cause = several[0].cause(
            CHANGING,
            NOBODY,
            together([self._evened_by_piece(w.node, table) for w, table in zip(several, tables, strict=True)]),
            evidence=_longest(np.concatenate(tables, 1)) | {"functions": list(map(str, names))},
        )
        mine = [c for c in causes if _changes(c)]
        found = tried(self.scenarios, [cause])
        if not found or cause.gain <= PREFERRED * max((c.gain for c in mine), default=0):
            return causes
        return [c for c in causes if c not in mine] + found

    def _evened_by_piece(self, node: NDArray[np.int32], table: Ints) -> Change:
        """Return the change in which the k-th pieces (location, piece) of all locations take equally long."""
        return self.scenarios.less_computation(node, (table - table.mean(0)).ravel())

    def in_turns(self, mended: Change) -> list[Cause]:
        """Return the causes that processes compute one after the other while the others wait, with the gain of sharing
        this work; waits that `mended` ends are not due to them."""
        found = (self._in_turns(of, of is self.nests, mended) for of in (self.single, self.nests))
        return self._joined(self._deepest(*found))

    def _in_turns(self, sizes: Sizes, includes_calls: bool, mended: Change) -> list[Cause]:
        """Return the causes of `in_turns` in single call paths, or in those with all that they call."""
        s = self.scenarios
        inside = s.call_paths.parent[sizes.head] >= 0
        chosen = sizes.first(inside & (sizes.n_locations > 1), sizes.most)
        (works,) = self._works(sizes, includes_calls, chosen)
        works = [w for w in works if distinct(self.process[w.who]).size == w.who.size and self._is_in_turn(w)]
        gains = s.gains([self._shorter(w, 1.0) for w in works], [mended])
        return tried(
            s,
            [
                w.cause("turns", NOBODY, self._shorter(w, 1 - 1 / w.who.size), frees=self._shorter(w, 1.0))
                for w, gain in zip(works, gains, strict=True)
                if gain > PREFERRED * w.total.max()
            ],
        )

    def _is_in_turn(self, w: Work) -> bool:
        """Return whether hardly any pieces of some work are computed at the same time."""
        # functions that follow each other without waiting in between are one piece
        piece, first = number(w.node.astype(np.int64))
        end, ticks = self.scenarios.graph.nodes.time[w.node[first]], Segments(piece, first.size).sum(w.ticks)
        order = np.argsort(end, kind="stable")
        end, ticks = end[order], ticks[order]
        before = np.append(end[0], end[:-1])
        before[0] -= ticks[0]
        return bool(np.minimum(ticks, end - before).sum() > IN_TURN * ticks.sum())

    def _with_slowest(self, causes: list[Cause]) -> list[Cause]:
        """Replace the causes in processes or threads that are slow in most of what they do by a single one, if that
        gains clearly more than any of their functions."""
        found = tried(self.scenarios, self._slowest())
        if not found:
            return causes
        most = max(c.gain for c in found)
        # one of the threads of a process, if the others hardly matter
        slow = min((c for c in found if PREFERRED * c.gain >= most), key=lambda c: c.locations.size)
        kinds = ("computation", "grain")
        mine = [c for c in causes if c.kind in kinds and np.isin(c.locations, slow.locations).all()]
        if slow.gain <= PREFERRED * max((c.gain for c in mine), default=0):
            return causes
        return [c for c in causes if c not in mine] + [slow]

    def _in_several(self, causes: list[Cause]) -> list[Cause]:
        """Replace causes that the same locations take longer in several functions, as their parts of the data are
        larger, by a single one, if that gains clearly more than the largest of them."""
        uneven = sorted((c for c in causes if c.kind in UNEVEN and ALONE not in c.evidence), key=lambda c: -c.gain)
        if len(uneven) < 2:
            return causes
        excess = np.zeros((len(uneven), self.process.size))
        for row, w in zip(excess, self.work([c.spans for c in uneven]), strict=True):
            row[w.who] = w.total - w.total.mean()
        first = uneven[0]
        alike = excess @ excess[0] > ALIKE * np.linalg.norm(excess, axis=1) * np.linalg.norm(excess[0])
        mine = [c for c, same in zip(uneven, alike.tolist(), strict=True) if same and c.gain >= SOME * first.gain]
        mine = [c for c in mine if c is first or not (self._is_below(c, first) or self._is_below(first, c))]
        whole = self._merged([mine])
        if not whole or whole[0].gain <= PREFERRED * first.gain:
            return causes
        names = self.scenarios.model.regions.name[self.scenarios.call_paths.region[[c.call_path for c in mine]]]
        whole[0].evidence["functions"] = list(dict.fromkeys(map(str, names)))[:4]
        return [c for c in causes if c not in mine] + whole

    def _slowest(self) -> list[Cause]:
        """Return the causes that a process or a thread, or several that are clearly apart from more others, take longer
        than their peers in most of their computation; empty if there are none."""
        if not self.cells.location.size:
            return []
        threads, n = np.arange(self.process.size), self.n_processes
        units = [self.process] * (n > 1) + [threads] * (self._n_computing > n)
        return [c for unit_of in units for c in self._slow(unit_of)]

    def _slow(self, unit_of: Ints) -> Iterator[Cause]:
        """Yield the cause that the slowest of some units takes longer than the others in most of its computation, if it
        does."""
        cells, model, paths = self.cells, self.scenarios.model, self.scenarios.call_paths
        worst = _slowest_units(_peers(cells.call_path, unit_of[cells.location], cells.ticks))
        if not all(self._is_slow(unit_of[cells.location], one, worst) for one in worst.tolist()):
            return
        # those that are slow together are one unit
        unit_of = np.where(np.isin(unit_of, worst), worst[0], unit_of)
        at, unit, mean, others = _peers(cells.call_path, unit_of[cells.location], cells.ticks)
        mine = np.flatnonzero(unit == worst[0])
        who = distinct(cells.location[unit_of[cells.location] == worst[0]])
        longer = at[mine[mean[mine] > others[mine]]].tolist()
        change = together([self._without_excess(w, who) for w in self.work([((p, p + 1),) for p in longer])])
        longest = mine[np.argsort(others[mine] - mean[mine], kind="stable")]
        resolution = self.scenarios.resolution
        evidence: dict[str, Any] = {
            "mine": float(mean[mine].sum() / resolution),
            "others": float(others[mine].sum() / resolution),
            "functions": list(dict.fromkeys(map(str, model.regions.name[paths.region[at[longest]]])))[:4],
        }
        is_process = worst.size == 1 < who.size
        if not model.locations.is_cpu[who].any():
            evidence["on_streams"] = True
        yield Cause("slow", int(at[longest[0]]), who, change, is_process=is_process, evidence=evidence)

    def _is_slow(self, unit: Ints, one: int, worst: Ints) -> bool:
        """Return whether one of the slowest units, without the others of them, takes longer than its peers in most of
        its computation; `unit` is that of each cell."""
        cells = self.cells
        kept = np.flatnonzero((unit == one) | ~np.isin(unit, worst))
        peers = _peers(cells.call_path[kept], unit[kept], cells.ticks[kept])
        mine = np.flatnonzero(peers.unit == one)
        function, _ = number(self.scenarios.call_paths.region[peers.call_path[mine]].astype(np.int64))
        own, others = (np.bincount(function, of[mine]).astype(np.float64) for of in (peers.mean, peers.others))
        return _is_everywhere(own, others)

    def _joined(self, causes: list[Cause]) -> list[Cause]:
        """Merge causes of the same kind and locations that are in the same region on several call paths."""
        groups = self._alike(causes)
        merged = iter(self._merged(groups))
        return [next(merged) if len(of) > 1 else of[0] for of in groups]

    def _merged(self, groups: list[list[Cause]]) -> list[Cause]:
        """Return a cause for each group of several causes."""
        several = [of for of in groups if len(of) > 1]
        changes = [together([c.change for c in of]) for of in several]
        return list(map(self._as_one, several, changes, self.scenarios.gains(changes)))

    def _alike(self, causes: list[Cause]) -> list[list[Cause]]:
        """Group causes of the same kind and locations in the same region, those with most gain first."""
        region = self.scenarios.call_paths.region
        alike: dict[tuple[object, ...], list[Cause]] = {}
        for c in sorted(causes, key=lambda c: (-c.gain, c.call_path)):
            alike.setdefault((c.kind, int(region[c.call_path]), *sorted(c.locations.tolist())), []).append(c)
        return [*alike.values()]

    @staticmethod
    def _as_one(several: list[Cause], change: Change, gain: int) -> Cause:
        """Merge causes into the first of them, given the change that mends all, and its gain."""
        first, n = several[0], sum(c.evidence.get("n_call_paths", 1) for c in several)
        frees = None if first.frees is None else together([c.frees or c.change for c in several])
        spans = tuple(sorted(span for c in several for span in c.spans))
        evidence = first.evidence | {"n_call_paths": n}
        return replace(first, change=change, gain=gain, evidence=evidence, spans=spans, frees=frees)

    @staticmethod
    def _is_below(cause: Cause, nest: Cause) -> bool:
        """Return whether all call paths of a cause are those of a nest."""
        return all(any(low <= begin < high for low, high in nest.spans) for begin, _ in cause.spans)

    def _works(self, sizes: Sizes, includes_calls: bool, *chosen: Sequence[int]) -> list[list[Work]]:
        """Return the computation of some selections of `sizes`, alone or with all that is called, collected together
        for all of them."""
        sets = [self._spans(int(sizes.head[i]), includes_calls, sizes.same) for of in chosen for i in of]
        found = iter(self.work(sets))
        return [list(islice(found, len(of))) for of in chosen]

    def _best(self, sizes: Sizes, includes_calls: bool) -> list[Cause]:
        """Return the causes in the call paths that have most to gain."""
        # in a single process, computation of the program's root alone is its start and end, unless threads idle
        # meanwhile
        inside = self.scenarios.call_paths.parent[sizes.head] >= 0
        alone = sizes.n_locations == 1
        # what else a single process does while its devices have nothing to do is found by `findings.idle`
        inside &= self.n_processes > 1 or not self.scenarios.model.has_device_work
        several = ~alone & ~sizes.in_single
        uneven = sizes.first(several, np.maximum(sizes.excess, sizes.changing))
        # other locations may do more of it each time, too, if they have different numbers of pieces
        uneven += [i for i in sizes.first(several & (sizes.changing == 0), sizes.most) if i not in uneven]
        # what few of several processes do keeps the others waiting, not only their own threads
        keeps = ~sizes.is_serial | (~sizes.in_single & (2 * sizes.n_locations <= self.n_processes))
        single = [i for i in sizes.first(inside & alone, sizes.excess) if keeps[i]]
        serial = sizes.first(sizes.is_serial & ~sizes.in_single, sizes.most)
        few = 2 * sizes.n_locations <= self.locations.size
        some = [i for i in sizes.first(inside & several & few, sizes.most) if keeps[i]]
        in_turn = sizes.first(inside & sizes.in_single & (~alone | sizes.is_serial), sizes.most)
        chosen = uneven, single, serial, in_turn, some
        of_several, of_one, of_masters, in_single, of_few = self._works(sizes, includes_calls, *chosen)
        alike = [w for w in of_few if _are_alike(w.total) or _are_alike(w.total / w.n_rows)]
        in_team = [w for w in alike if self.in_team[w.spans[0][0]]]
        found = [
            *tried(self.scenarios, [c for w in of_several for c in self._uneven(w)]),
            *self._alone(of_one + [w for w in alike if not self.in_team[w.spans[0][0]]]),
            *tried(self.scenarios, [w.cause("computation", w.who, self._shared_in_team(w)) for w in in_team]),
            *tried(self.scenarios, [self._serial(w) for w in of_masters]),
            *tried(self.scenarios, [self._in_single(w) for w in in_single]),
        ]
        return self._best_of(found)

    @staticmethod
    def _best_of(causes: Sequence[Cause]) -> list[Cause]:
        """Return the best of the causes on each call path, the first unless another one gains clearly more."""
        best: dict[tuple[int, bool], Cause] = {}
        for c in causes:
            # different locations may be late each time in addition to those that always are
            key = c.call_path, _changes(c)
            if key not in best or _worth(c) > PREFERRED * _worth(best[key]):
                best[key] = c
        return list(best.values())

    def _uneven(self, w: Work) -> Iterator[Cause]:
        """Yield the causes in work that several locations do: some take longer, it is uneven among all, or others take
        longer each time."""
        if self.in_task[w.spans[0][0]]:
            yield from self._long_tasks(w)
            if self.scenarios.movable is not None:
                yield from self._longer_pieces(w)
        elif self._is_handed_out(w):
            yield from self._longer_pieces(w)
        else:
            yield from self._longer_calls(w)
        outliers, is_process = self._outliers(w)
        if outliers.size and not self._is_unshared(w, outliers):
            yield w.cause("computation", outliers, self._without_excess(w, outliers), is_process=is_process)
        late = self._late_in_pieces(w, self.process[w.who])
        if late.size > 1 and not np.array_equal(late, np.sort(outliers)):
            yield w.cause("computation", late, self._without_excess(w, late), is_process=True)
        n_idle, everybody = self._n_idle(w), np.ones(w.who.size, bool)
        mean = w.total.sum(dtype=float) / (w.who.size + n_idle)
        above = self._above(w, mean)
        if above.size and not np.array_equal(above, outliers):
            yield self._imbalance(w, n_idle, self._evened(w, everybody, everybody, n_idle))
        # functions with what they call do many things from one meeting to the next
        if w.table is None and all(end - begin == 1 for begin, end in w.spans):
            yield from self._changing_by_round(w)
        one = w.in_common
        if one is not None and one.table is not None and one.changing_excess > PREFERRED * (w.total.max() - mean):
            yield w.cause(CHANGING, NOBODY, self._evened_by_piece(one.node, one.table), evidence=_longest(one.table))

    def _longer_pieces(self, w: Work) -> Iterator[Cause]:
        """Yield the cause that the pieces of one location are clearly longer than those of the others, in all of the
        run or a part of it, of work that locations take as they become free: then it executes fewer."""
        for n_parts in distinct(np.array([1, math.isqrt(int(w.n_rows.min()))])).tolist():
            excess, whole = self._excess_in_parts(w, n_parts)
            worst = int(excess.argmax())
            if excess[worst] > LATE * whole:
                mine = np.array([w.total[worst], w.total[worst] - excess[worst]]) / self.scenarios.resolution
                # the others execute more of them
                evidence = dict(zip(("mine", "others"), mine.tolist(), strict=True))
                if self.in_task[w.spans[0][0]]:
                    part = excess[worst] / w.total[worst]
                    change = self._without(w, part * (np.arange(w.who.size) == worst))
                else:
                    change = self._spread(w, float((w.total.sum() - excess[worst]) / w.n_rows.sum()))
                yield w.cause("computation", w.who[[worst]], change, evidence=evidence)
                return

    def _excess_in_parts(self, w: Work, n_parts: int) -> tuple[NDArray[np.float64], float]:
        """Return for each location by how many ticks its pieces exceed as many of the others in those parts of the run
        in which they are clearly longer than those of any other one; and by how many those of all locations do in all
        parts. Parts have equally many pieces."""
        order = np.argsort(self.scenarios.graph.nodes.time[w.node], kind="stable")
        part = np.empty(w.node.size, np.int64)
        part[order] = np.arange(w.node.size) * n_parts // w.node.size
        cell = w.by_row(np.arange(w.who.size)) * n_parts + part
        shape = (w.who.size, n_parts)
        n = np.bincount(cell, minlength=w.who.size * n_parts).reshape(shape)
        total = np.bincount(cell, w.ticks, w.who.size * n_parts).reshape(shape)
        piece = total / np.maximum(n, 1)
        longest = np.sort(piece, 0)
        is_longer = (piece == longest[-1]) & (longest[-2] > 0) & (piece > CLEARLY**2 * longest[-2])
        usual = (total.sum(0) - total) / np.maximum(n.sum(0) - n, 1)
        excess = np.maximum(n * (piece - usual), 0)
        return (is_longer * excess).sum(1), float(excess.sum())

    def _longer_calls(self, w: Work) -> Iterator[Cause]:
        """Yield the causes that the calls of one thread of a process are clearly longer than those of the others, of
        work that threads take as they become free, such as the chunks of a loop or the jobs in a queue: then it makes
        fewer of them, and all threads compute about equally long."""
        calls = self.n_calls(w)
        for process in distinct(self.process[w.who]).tolist():
            is_mine = self.process[w.who] == process
            n, total, who = calls[is_mine], w.total[is_mine], w.who[is_mine]
            if n.size < 2 or n.min() < FEWEST_CALLS or not _are_alike(total):
                continue
            call = total / n
            worst = int(call.argmax())
            is_fewer = CLEARLY * n[worst] < np.delete(n, worst).min()
            if is_fewer and call[worst] > CLEARLY**2 * np.delete(call, worst).max():
                usual = np.delete(total, worst).sum() / np.delete(n, worst).sum()
                mine = np.array([total[worst], usual * n[worst]]) / self.scenarios.resolution
                evidence = dict(zip(("mine", "others"), mine.tolist(), strict=True))
                change = self._without(w, is_mine * (1 - usual * n.sum() / total.sum()))
                yield w.cause("computation", who[[worst]], change, evidence=evidence)

    def n_calls(self, w: Work) -> Ints:
        """Return how often each location calls the functions of some work; (n_locations of the work,) int64."""
        profile = self.scenarios.model.profile
        mine = np.isin(self.profiled, [head for head, _ in w.spans])
        n = np.bincount(profile.location[mine], profile.visits[mine], self.process.size)
        return n[w.who].astype(np.int64)

    @once
    def profiled(self) -> Ints:
        """The call paths of the rows of the profile; (n,) int64."""
        return self.scenarios.model.call_paths.path_of(self.scenarios.model.profile.call_path)

    def _spread(self, w: Work, piece: float) -> Change:
        """Return the change in which all pieces of some work that a location hands out take `piece` ticks: others ask
        for the next one when they are free, so that all do about equally many, in an order that is not recorded. (The
        replay moves tasks to other threads, but not messages to other processes.)"""
        s, edge = self.scenarios, message_edges(self.scenarios)
        at = s.graph.nodes.location
        asks = np.isin(at[s.tail[edge]], w.who) & (at[s.graph.edges.head[edge]] == self._sender_before[w.node[0]])
        # locations end within a piece of each other, the last one half a piece after the mean
        n_pieces = distinct(w.node).size / w.who.size
        spread = piece * w.n_rows.mean() * (n_pieces + 0.5) / n_pieces
        return replace(self._without(w, 1 - spread / np.maximum(w.total, 1)), cut=edge[asks])

    def _is_handed_out(self, w: Work) -> bool:
        """Return whether nearly each piece of some work begins with a message of one location, which does nothing of
        it: locations then get pieces as they become free."""
        giver = self._sender_before[w.node]
        first = int(giver[0])
        return first >= 0 and first not in w.who and bool((giver == first).mean() > HANDED_OUT)

    @once
    def _sender_before(self) -> NDArray[np.int32]:
        """The location whose message is received at the end of the call before each node; (n_nodes,) int32, -1 for
        none."""
        s, edge, nodes = self.scenarios, message_edges(self.scenarios), self.scenarios.graph.nodes
        before = np.full(len(nodes), -1, np.int32)
        before[s.graph.edges.head[edge]] = nodes.location[s.tail[edge]]
        return np.where(nodes.is_first, -1, np.append(-1, before[:-1])).astype(np.int32)

    @once
    def _task(self) -> Ints:
        """The task in which a location is before each node, for nodes in explicit tasks; (n_nodes,) int64."""
        begun = np.cumsum(self.scenarios.graph.nodes.mark & BEGUN > 0)
        return np.append(0, begun[:-1])[: begun.size]

    def _long_tasks(self, w: Work) -> Iterator[Cause]:
        """Yield the cause that few tasks are far longer than the others in some work."""
        _, of = np.unique(self._task[w.node], return_inverse=True)
        ticks = np.bincount(of, w.ticks)
        longer = (ticks > least * np.median(ticks) for least in LONG)
        is_long = next((some for some in longer if 0 < some.sum() <= FEW * ticks.size), None)
        if is_long is None:
            return
        usual, resolution = ticks[~is_long].mean(), self.scenarios.resolution
        rows = np.flatnonzero(is_long[of])
        by_location = np.bincount(w.by_row(w.who)[rows], w.ticks[rows])
        who = np.argsort(-by_location, kind="stable")[: int((by_location > 0).sum())]
        evidence = {
            "n_long": int(is_long.sum()),
            "n_pieces": int(ticks.size),
            "long_each": float(ticks[is_long].mean() / resolution),
            "others_each": float(usual / resolution),
        }
        change = self.scenarios.less_computation(w.node[rows], w.ticks[rows] * (1 - usual / ticks[of[rows]]))
        yield w.cause("grain", who, change, evidence=evidence)

    def _changing_by_round(self, w: Work) -> Iterator[Cause]:
        """Yield the cause that others do more of some work each time until all locations that do it meet, in a barrier
        or another operation for which all wait; or that the same ones do, if others sometimes do nothing of it. Of a
        team those that do nothing of it count, too; the teams of several processes meet each for itself."""
        hub, meeting, location = self._meetings
        who = self._members(w)
        if not who.size:
            return
        mine = np.flatnonzero(np.isin(location, who))
        team, n_members = self._meets_with(w, who)
        mine = mine[np.bincount(hub[mine])[hub[mine]] == n_members[team[np.searchsorted(who, location[mine])]]]
        n_rounds = np.bincount(location[mine], minlength=self.process.size)[who]
        if n_rounds.min() < 2 or n_rounds.min() < n_rounds.max():
            return
        meeting = np.sort(meeting[mine])
        of = np.searchsorted(meeting, w.node)
        # what comes after the last meeting belongs to no round
        at = self.scenarios.graph.nodes.location
        is_inside = at[meeting[np.minimum(of, meeting.size - 1)]] == at[w.node]
        is_inside &= of < meeting.size
        node, ticks, of = w.node[is_inside], w.ticks[is_inside], of[is_inside]
        table = np.bincount(of, ticks, meeting.size).reshape(who.size, -1)
        # threads of the team that never meet do some of the work, too
        steady = max(w.total.max() - w.total.sum() / who.size, 0)
        is_changing = (table.max(0) - table.mean(0)).sum() > PREFERRED * steady
        if not is_changing and table.all():
            return
        mean = np.zeros((n_members.size, table.shape[1]))
        np.add.at(mean, team, table)
        less = (table - (mean / n_members[:, None])[team]).ravel()
        part = np.divide(np.maximum(less, 0), table.ravel(), out=np.zeros(less.size), where=less > 0)
        # others do more right before they meet
        node = np.append(node, meeting - 1)
        less = np.append(part[of] * ticks, np.minimum(less, 0))
        order = np.argsort(node, kind="stable")
        change = self.scenarios.less_computation(node[order], less[order])
        if is_changing:
            yield w.cause(CHANGING, NOBODY, change, evidence=_longest(table))
        else:
            yield self._imbalance(w, who.size - w.who.size, change)

    def _imbalance(self, w: Work, n_idle: int, change: Change) -> Cause:
        """Return the cause that some work is distributed unevenly over the locations that do it, and `n_idle` more of
        their teams."""
        mean = w.total.sum(dtype=float) / (w.who.size + n_idle)
        over = {"n_locations": w.who.size + n_idle, "mean": float(mean / self.scenarios.resolution)}
        return w.cause("imbalance", self._above(w, mean), change, evidence=over if n_idle else {})

    @staticmethod
    def _above(w: Work, mean: float) -> Ints:
        """Return the locations that take longer than a mean, the longest first."""
        return w.who[np.argsort(-w.total, kind="stable")][: int((w.total > mean).sum())]

    def _n_idle(self, w: Work) -> int:
        """Return how many threads of the teams that do some work do nothing of it, besides what tasks and masters do,
        which have causes of their own."""
        head = w.spans[0][0]
        has_others = self.in_team[head] and not self.in_task[head] and not self.serial_paths[head]
        return int(np.setdiff1d(self._members(w), w.who).size) if has_others else 0

    def _members(self, w: Work) -> Ints:
        """Return the locations that do some work; if teams do it, all threads that meet in these processes; (n,)
        int64."""
        if not self.in_team[w.spans[0][0]]:
            return w.who
        meets = np.isin(self.locations, self._meetings[2])
        return self.locations[meets & np.isin(self.process[self.locations], self.process[w.who])]

    def _meets_with(self, w: Work, who: Ints) -> tuple[Ints, Ints]:
        """Number the groups of locations that meet in some work, the threads of a process or all: the group of each
        location, and the number of locations in each group."""
        group, _ = number(self.process[who] * self.in_team[w.spans[0][0]])
        return group, np.bincount(group)

    @once
    def _meetings(self) -> tuple[Ints, Ints, Ints]:
        """The nodes at which locations wait for all members of an operation: operation, node, location; (n,) each."""
        g, n = self.scenarios.graph, len(self.scenarios.graph.nodes)
        tail, head = self.scenarios.tail.astype(np.int64), g.edges.head.astype(np.int64)
        at = np.flatnonzero((tail >= n) & (head < n))
        return tail[at] - n, head[at], g.nodes.location[head[at]].astype(np.int64)

    def _outliers(self, w: Work) -> tuple[Ints, bool]:
        """Return the outliers, and whether they are several threads of one process: the one location, or the threads of
        the one process, that take longer than all others, or several locations that are clearly apart from a larger
        number of others, the worst first, or the one that takes longest in single pieces; empty if there are none."""
        high = self._high(w)
        process = self.process[w.who]
        mine = process[np.isin(w.who, high)]
        if high.size and self._is_longer(w, high):
            if high.size == 1:
                return high, False
            if (mine == mine[0]).all() and int((process == mine[0]).sum()) == high.size < w.who.size:
                return high, True
            if _are_apart(w.total, np.isin(w.who, high)):
                return high, False
        # perhaps one is late in single pieces, though others take as long over the run
        return self._late_in_pieces(w, w.who), False

    @staticmethod
    def _high(w: Work) -> Ints:
        """Return the locations that take longer than the middle between the longest and the shortest, the longest
        first; of two that take equally long the first one."""
        middle = (int(w.total.max()) + int(w.total.min())) / 2
        order = np.argsort(-w.total, kind="stable")
        return w.who[order[: max(int((w.total > middle).sum()), int(w.who.size == 2))]]

    @staticmethod
    def _is_longer(w: Work, high: Ints) -> bool:
        """Return whether some locations take longer than the others mostly because of pieces that do, rather than of
        pieces that are longer here and shorter there by chance."""
        if w.table is None:
            return True
        excess = Computing._excess(w, high)
        return bool(excess.sum() > MOSTLY * np.maximum(excess, 0).sum())

    @staticmethod
    def _excess(w: Work, outliers: Ints) -> NDArray[np.float64]:
        """Return the ticks by which the pieces of some locations exceed the mean of those of the others; (n_outliers,
        n_pieces)."""
        assert w.table is not None
        is_outlier = np.isin(w.who, outliers)
        return np.asarray(w.table[is_outlier] - w.table[~is_outlier].mean(0), np.float64)

    @staticmethod
    def _late_in_pieces(w: Work, unit: Ints) -> Ints:
        """Return the locations of the unit, given for each location, whose pieces exceed those of all others in most of
        what the longest pieces exceed the mean, or exceed the others; empty if there is none."""
        units = distinct(unit)
        if w.table is None or units.size < 2:
            return NOBODY
        longest = np.stack([w.table[unit == one].max(0) for one in units])
        first, second = np.sort(longest, 0)[:-3:-1]
        alone = np.bincount(longest.argmax(0), first - second, units.size)
        # of two units, one exceeds the other by twice what it exceeds the mean
        return w.who[np.isin(unit, units[alone > LATE * max(w.changing_excess, alone.sum())])]

    @once
    def serial_paths(self) -> Mask:
        """Select the call paths on which only masters of several threads compute; (n_call_paths,) bool."""
        return np.isin(self.same, self.single.head[self.single.is_serial])

    def _is_unshared(self, w: Work, outliers: Ints) -> bool:
        """Return whether outliers compute longer than other threads mostly since they compute where only masters do, or
        in teams where no others do: this work has to be shared, and would not end if they were as fast as the
        others."""
        if self.is_master[w.who].all():
            return False
        low, high = np.searchsorted(self.cells.call_path, np.array(w.spans, np.int64)).T
        at = ranges(low, high - low)
        path, is_theirs = self.cells.call_path[at], np.isin(self.cells.location[at], outliers)
        is_shared = np.isin(self.same[path], self.same[path[~is_theirs]])
        at = at[is_theirs & (self.serial_paths[path] | (self.in_team[path] & ~is_shared))]
        is_outlier = np.isin(w.who, outliers)
        excess = w.total[is_outlier].sum() - outliers.size * w.total[~is_outlier].mean()
        return bool(self.cells.ticks[at].sum() > excess / 2)

    def _without(self, w: Work, share: NDArray[np.float64]) -> Change:
        """Return the change in which locations do not do a share of some work; (n_locations of the work,)."""
        return self.scenarios.less_shares(w.node, w.n_rows, share, w.ticks)

    def _without_excess(self, w: Work, outliers: Ints) -> Change:
        """Return the change in which no piece of work of the outliers exceeds the mean of the other locations: piece by
        piece if all have the same number of pieces, else as `_evened` has it."""
        is_outlier = np.isin(w.who, outliers)
        if w.table is None:
            return self._evened(w, is_outlier, ~is_outlier)
        return self.scenarios.less_computation(w.node[w.by_row(is_outlier)], self._excess(w, outliers).ravel())

    def as_others(self, call_paths: Ints, process: int) -> Change:
        """Return the change in which a process computes no longer on some call paths than the mean of the others that
        compute there: only its pieces that are longer get shorter."""
        heads = distinct(self.same[call_paths]).tolist()
        changes = [Change()]
        for w in self.work([self._spans(head, False, self.same) for head in heads]):
            is_mine = self.process[w.who] == process
            if 0 < is_mine.sum() < w.who.size and w.total[is_mine].mean() > w.total[~is_mine].mean():
                c = self._without_excess(w, w.who[is_mine])
                longer = np.maximum(c.less, 0)
                less = np.rint(longer * (max(int(c.less.sum()), 0) / max(int(longer.sum()), 1))).astype(np.int64)
                changes.append(Change(c.node, less))
        return together(changes)

    def _evened(self, w: Work, changed: Mask, usual: Mask, n_idle: int = 0) -> Change:
        """Return the change in which some locations do as much of some work as the mean of the `usual` ones, and of
        `n_idle` more that do nothing of it; (n_locations of the work,) each.

        Pieces before calls before which a location does more than the mean get shorter, or longer if it does less; of
        these, first those that are longer than the usual piece; or, if the k-th pieces of all can be compared, those
        that are longer or shorter than the usual ones near them.
        """
        who = w.by_row(np.arange(w.who.size))
        cell, first = number(combine(who, self._next_call[w.node]))
        cells = Segments(cell, first.size)
        ticks, who = cells.sum(w.ticks), who[first]
        call, _ = number(self._next_call[w.node[first]])
        n_usual, of_usual = usual.sum() + n_idle, w.total[usual].sum(dtype=float)
        above = np.where(changed, w.total - of_usual / n_usual, 0.0)
        mean = np.bincount(call, ticks * usual[who]) / n_usual
        apart = np.maximum((ticks - mean[call]) * np.sign(above)[who], 0)
        # who does less than the mean may do more of it before all calls that it has
        apart = np.where((np.bincount(who, apart) > 0)[who], apart, ticks)
        less = apart * (above / np.maximum(np.bincount(who, apart), 1))[who]
        direction = w.by_row(np.sign(above))
        unusual = self._unusual(w, direction, usual, n_usual)
        total = np.bincount(cell, unusual, first.size)
        of_unusual = np.minimum(np.abs(less), total) * np.sign(less)
        part = np.divide(of_unusual, total, out=np.zeros(first.size), where=total > 0)[cell] * unusual
        left = w.ticks - np.where(direction > 0, unusual, 0)
        rest = (less - of_unusual) / np.maximum(np.bincount(cell, left, first.size), 1)
        return self.scenarios.less_computation(w.node, part + rest[cell] * left)

    @staticmethod
    def _unusual(w: Work, direction: NDArray[np.float64], usual: Mask, n_usual: int) -> NDArray[np.float64]:
        """Return the ticks by which each row is longer than usual where `direction` is 1, and shorter where it is -1;
        without a table 0 for the latter."""
        if w.table is None:
            return np.maximum(w.ticks - w.total[usual].sum() / w.n_rows[usual].sum(), 0) * (direction > 0)
        return np.maximum(w.ticks * (1 - w.level[usual].sum(0) / n_usual / w.level).ravel() * direction, 0)

    @once
    def _next_call(self) -> Ints:
        """The call path that a location is on after each node, without running numbers of steps; (n_nodes,) int64, -1
        after the last one."""
        following = pick(self.same, self.scenarios.call_path)
        following[self.scenarios.graph.nodes.is_first] = -1
        return np.append(following[1:], -1)

    def _alone(self, works: Sequence[Work]) -> list[Cause]:
        """Return the causes that one or few locations do work that no other does, limited to the part of it that makes
        others wait."""
        gains = self.scenarios.gains([self._shorter(w, 1.0) for w in works])
        works = [w for w, gain in zip(works, gains, strict=True) if gain > 0]
        gain = np.array([gain for gain in gains if gain > 0], np.int64)
        # the gain is a concave function of the part that is taken away: nearly all of it is reached with less
        low, high = np.zeros(gain.size), np.ones(gain.size)
        for _ in range(HALVINGS if works else 0):
            middle = (low + high) / 2
            enough = np.array(self.scenarios.gains(list(map(self._shorter, works, middle)))) >= 0.99 * gain
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        shorter = zip(works, high.tolist(), strict=True)
        causes = [
            w.cause(
                "computation", w.who, self._shorter(w, part), evidence={ALONE: part, "n_locations": int(w.who.size)}
            )
            for w, part in shorter
        ]
        return tried(self.scenarios, causes)

    def _shorter(self, w: Work, part: float) -> Change:
        return self._without(w, np.full(w.who.size, part))

    def _serial(self, w: Work) -> Cause:
        """Return the cause that masters compute alone."""
        who = w.who
        if who.size > 1:
            who, _ = self._outliers(w)
            others = w.total[~np.isin(w.who, who)].mean()
            who = who if who.size and w.total[np.isin(w.who, who)].mean() > CLEARLY * others else who[:0]
        return w.cause("serial", who, self._shared(w), frees=self._shorter(w, 1.0))

    def _in_single(self, w: Work) -> Cause:
        """Return the cause that one thread at a time computes, perhaps always the same."""
        who = w.who if w.who.size == 1 else NOBODY
        return w.cause("single", who, self._shared(w), frees=self._shorter(w, 1.0))

    def _shared_in_team(self, w: Work) -> Change:
        """Return the change in which all threads of each process that takes part share its work equally."""
        process, of = np.unique(self.process[w.who], return_inverse=True)
        mean = np.bincount(of, w.total) / self.n_threads[process]
        return self._without(w, np.maximum(1 - mean[of] / np.maximum(w.total, 1), 0.0))

    def _shared(self, w: Work) -> Change:
        """Return the change in which all threads of each process share its work."""
        return self._without(w, 1 - 1 / self.n_threads[self.process[w.who]])
