"""Causes that lie in computation: who computes longer than others that do the same, alone, or at other times.

Each is tried by replay: the call path as long as the mean of its peers, evenly distributed, or as short as it can
become before something else takes over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import Segments, combine, number
from tracecols.enhance.scan.paths import is_repeated
from tracecols.findings.cause import Cause, tried
from tracecols.findings.scenarios import Change, Scenarios
from tracecols.kernels.groups import count_in_groups
from tracecols.once import once

N_TRIED = 10
"""How many call paths are tried in each way, those with most to gain."""

PREFERRED = 1.25
"""By how much more a less specific change must gain to be preferred."""

DEEPER = 0.75
"""Part of the gain of a call path with all it calls that a single one below it must have to be named in its place."""

CLEARLY = 1.2
"""By how much longer a location takes than others to be named as the one that takes longest."""

HALVINGS = 8
"""Steps by which is found how much shorter a call path can become before something else takes over."""


@dataclass(frozen=True, eq=False)
class Work:
    """Computation of some call paths: rows of the computation of a replay, and sums by location.

    Attributes
    ----------
    call_path : int
        The call path, or the one above all.
    row : (n,) int64
        Rows, location by location in the order of time.
    location : (n,) int64
    ticks : (n,) int64
    who : (m,) int64
        The locations.
    total : (m,) int64
        Ticks of each.
    """

    call_path: int
    row: NDArray[np.int64]
    location: NDArray[np.int64]
    ticks: NDArray[np.int64]
    who: NDArray[np.int64]
    total: NDArray[np.int64]

    @once
    def table(self) -> NDArray[np.int64] | None:
        """Ticks of the k-th piece of work of each location, (m, n_pieces); None if they have different numbers of
        pieces."""
        n = np.bincount(np.searchsorted(self.who, self.location), minlength=self.who.size)
        if self.who.size < 2 or n.min() < 2 or n.min() != n.max():
            return None
        return self.ticks.reshape(self.who.size, -1)

    @property
    def changing_excess(self) -> float:
        """How much longer the longest takes than the mean, piece by piece."""
        return 0.0 if self.table is None else float((self.table.max(0) - self.table.mean(0)).sum())


class Sizes(NamedTuple):
    """What is to be gained at most in the computation of some call paths, or of some with all that they call.

    Attributes
    ----------
    head : (n,) int64
        The call path, or the one above all.
    n_locations : (n,) int64
        Locations that compute there.
    most : (n,) int64
        Ticks of the location that takes longest.
    excess : (n,) float64
        By how much the longest is above the mean of the others; all of it where there are no others.
    changing : (n,) float64
        How much longer the longest takes than the mean, piece by piece; 0 if the numbers of pieces differ.
    is_serial : (n,) bool
        Only masters of several threads compute.
    """

    head: NDArray[np.int64]
    n_locations: NDArray[np.int64]
    most: NDArray[np.int64]
    excess: NDArray[np.float64]
    changing: NDArray[np.float64]
    is_serial: NDArray[np.bool_]

    def first(self, which: NDArray[np.bool_], by: NDArray[Any]) -> list[int]:
        """Return which of some have the largest values, that with the largest first."""
        at = np.flatnonzero(which)
        return at[np.argsort(-by[at], kind="stable")][:N_TRIED].tolist()


class Computing:
    """The computation of a run by call path, and the causes in it."""

    def __init__(self, scenarios: Scenarios) -> None:
        self.scenarios = s = scenarios
        c, model = s.computation, s.model
        kept = np.flatnonzero(s.in_window[c.node] & model.locations.is_cpu[c.location])
        # rows are in the order of nodes: location by location, each in the order of time
        self._row = kept[np.argsort(c.call_path[kept], kind="stable")]
        self._call_path = c.call_path[self._row].astype(np.int64)
        self.process = np.asarray(model.facts.process, np.int64)
        self.n_threads = np.bincount(self.process[s.locations], minlength=int(self.process.max(initial=0)) + 1)
        self.has_teams = bool(model.team_instances.instance.size)
        self.is_master = np.asarray(model.locations.master == np.arange(model.n_locations))

    @once
    def is_nest(self) -> NDArray[np.bool_]:
        """Select the call paths that compute in several call paths of their subtree and communicate in none; of a
        recursion only the first level; (n_call_paths,) bool."""
        model, paths = self.scenarios.model, self.scenarios.call_paths
        below = np.arange(len(paths)), paths.end
        is_mpi = model.regions.paradigm[paths.region] == "mpi"
        computing = np.zeros(len(paths), bool)
        computing[self._call_path] = True
        has_mpi, n_computing = (
            np.subtract(*np.append(0, np.cumsum(mask))[[below[1], below[0]]]) for mask in (is_mpi, computing)
        )
        is_first = ~is_repeated(paths.region, paths.end)
        return np.asarray((n_computing > 1) & (has_mpi == 0) & (paths.parent >= 0) & is_first)

    def work(self, head: int, includes_calls: bool) -> Work:
        """Return the computation of a call path, alone or with all that it calls."""
        c = self.scenarios.computation
        end = int(self.scenarios.call_paths.end[head]) if includes_calls else head + 1
        row = np.sort(self._row[slice(*np.searchsorted(self._call_path, [head, end]))])
        location, ticks = c.location[row].astype(np.int64), c.ticks[row]
        who, group = np.unique(location, return_inverse=True)
        return Work(head, row, location, ticks, who, Segments(group, who.size).sum(ticks))

    def _sizes(self, row: NDArray[np.int64], head: NDArray[np.int64]) -> Sizes:
        """Measure computation by call path.

        Parameters
        ----------
        row : (n,) int64
            Rows of the computation, in their order within each call path.
        head : (n,) int64
            The call path that each counts for.
        """
        c = self.scenarios.computation
        location, ticks = c.location[row], c.ticks[row]
        who, first_of_who = number(combine(head, location))
        of_who, first = number(head[first_of_who])
        found, one = head[first_of_who][first], Segments(of_who, first.size)
        total = Segments(who, first_of_who.size).sum(ticks)
        n_locations, most, whole = one.count(), one.max(total), one.sum(total)
        others = (whole - most) / np.maximum(n_locations - 1, 1)
        # the k-th pieces of all locations are compared, where all have as many
        n_pieces = np.bincount(who, minlength=first_of_who.size)
        least = one.min(n_pieces)
        is_equal = (n_locations > 1) & (least > 1) & (least == one.max(n_pieces))
        at = np.flatnonzero(is_equal[of_who][who])
        changing = np.zeros(first.size)
        if at.size:
            piece, first_of_piece = number(combine(of_who[who[at]], count_in_groups(who[at], first_of_who.size)))
            pieces = Segments(piece, first_of_piece.size)
            of_piece = of_who[who[at[first_of_piece]]]
            above = pieces.max(ticks[at]) - pieces.sum(ticks[at]) / n_locations[of_piece]
            changing += np.bincount(of_piece, above, first.size)
        masters = self.is_master & (self.n_threads[self.process] > 1) & self.has_teams
        is_serial = one.min(masters[location[first_of_who]].astype(np.int64)) > 0
        return Sizes(found, n_locations, most, most - others, changing, is_serial)

    @once
    def single(self) -> Sizes:
        """The computation of single call paths."""
        return self._sizes(self._row, self._call_path)

    @once
    def nests(self) -> Sizes:
        """The computation of call paths with all that they call."""
        paths = self.scenarios.call_paths
        heads = np.flatnonzero(self.is_nest)
        found = [self._sizes(self._row[:0], self._call_path[:0])]
        # those of one depth do not overlap
        for depth in np.unique(paths.depth[heads]).tolist():
            mine = heads[paths.depth[heads] == depth]
            above = np.searchsorted(mine, self._call_path, "right") - 1
            inside = np.flatnonzero((above >= 0) & (self._call_path < paths.end[mine[above]]))
            order = inside[np.lexsort((self._row[inside], above[inside]))]
            found.append(self._sizes(self._row[order], mine[above[order]]))
        return Sizes(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def causes(self) -> list[Cause]:
        """Return what computation lets others wait, with what mending it would gain."""
        if self.scenarios.locations.size < 2:
            # nobody waits
            return []
        alone = self._best(self.single, False)
        found = {c.call_path: c for c in alone}
        for nest in self._best(self.nests, True):
            nest.includes_calls = True
            below = [c for c in alone if self._is_below(c.call_path, nest.call_path)]
            if all(c.gain < DEEPER * nest.gain for c in below):
                for c in below:
                    found.pop(c.call_path, None)
                found[nest.call_path] = nest
        return self._joined(list(found.values()))

    def _joined(self, causes: list[Cause]) -> list[Cause]:
        """Return causes in which a region that is the same cause on several call paths is one."""
        region = self.scenarios.call_paths.region
        alike: dict[tuple[object, ...], list[Cause]] = {}
        for c in sorted(causes, key=lambda c: (-c.gain, c.call_path)):
            alike.setdefault((c.kind, int(region[c.call_path]), *c.locations.tolist()), []).append(c)
        result = []
        for several in alike.values():
            first = several[0]
            if len(several) > 1:
                node = np.concatenate([c.change.node for c in several])
                less = np.bincount(node, np.concatenate([c.change.less for c in several]))
                change = Change(np.unique(node), np.rint(less[np.unique(node)]).astype(np.int64))
                evidence = first.evidence | {"n_call_paths": len(several)}
                first = replace(first, change=change, gain=self.scenarios.gain(change), evidence=evidence)
            result.append(first)
        return result

    def _is_below(self, call_path: int, head: int) -> bool:
        return head <= call_path < int(self.scenarios.call_paths.end[head])

    def _best(self, sizes: Sizes, includes_calls: bool) -> list[Cause]:
        """Return the causes in those of some call paths that have most to gain."""
        # the own time of a program's root is its start and its end
        inside = self.scenarios.call_paths.parent[sizes.head] >= 0
        alone = sizes.n_locations == 1
        uneven = sizes.first(~alone, np.maximum(sizes.excess, sizes.changing))
        single = [i for i in sizes.first(inside & alone, sizes.excess) if not sizes.is_serial[i]]
        serial = sizes.first(inside & sizes.is_serial, sizes.most)
        works = [[self.work(int(sizes.head[i]), includes_calls) for i in of] for of in (uneven, single, serial)]
        found = [
            *tried(self.scenarios, [c for w in works[0] for c in self._uneven(w)]),
            *self._single(works[1]),
            *tried(self.scenarios, [self._serial(w) for w in works[2]]),
        ]
        best: dict[int, Cause] = {}
        for c in found:
            if c.call_path not in best or c.gain > PREFERRED * best[c.call_path].gain:
                best[c.call_path] = c
        return list(best.values())

    def _uneven(self, w: Work) -> Iterator[Cause]:
        """Yield the causes in work that several locations do: some take longer, all are uneven, or each time others
        are."""
        outliers, is_process = self._outliers(w)
        if outliers.size:
            mine = np.isin(w.location, outliers)
            change = self.scenarios.less_computation(w.row[mine], self._excess(w, outliers)[mine])
            yield Cause("computation", w.call_path, outliers, change, is_process=is_process)
        mean = w.total.mean()
        above = w.who[np.argsort(-w.total, kind="stable")][: int((w.total > mean).sum())]
        less = (1 - mean / np.maximum(w.total, 1))[np.searchsorted(w.who, w.location)] * w.ticks
        if above.size and not np.array_equal(above, outliers):
            yield Cause("imbalance", w.call_path, above, self.scenarios.less_computation(w.row, less))
        if w.table is not None and w.changing_excess > PREFERRED * (w.total.max() - mean):
            less = (w.table - w.table.mean(0)).ravel()
            nobody = np.zeros(0, np.int64)
            yield Cause("changing", w.call_path, nobody, self.scenarios.less_computation(w.row, less))

    def _outliers(self, w: Work) -> tuple[NDArray[np.int64], bool]:
        """Return the one location, or the threads of the one process, that take longer than all others, and whether it
        is several threads; no location if there is no such."""
        if w.who.size == 2:
            return w.who[[int(w.total.argmax())]], False
        middle = (int(w.total.max()) + int(w.total.min())) / 2
        high = w.who[w.total > middle]
        if high.size == 1:
            return high, False
        process = self.process[w.who]
        mine = self.process[high]
        if high.size > 1 and (mine == mine[0]).all() and int((process == mine[0]).sum()) == high.size < w.who.size:
            return high, True
        return np.zeros(0, np.int64), False

    def _excess(self, w: Work, outliers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return by how much each piece of work of some locations takes longer than for the others in the mean: piece by
        piece where all have as many, else in proportion; (n,) float64."""
        of = np.searchsorted(w.who, w.location)
        is_other = ~np.isin(w.who, outliers)
        if w.table is not None:
            return np.asarray((w.table - w.table[is_other].mean(0)).ravel(), np.float64)
        factor = np.minimum(w.total[is_other].mean() / np.maximum(w.total, 1), 1.0)
        return np.asarray((1 - factor[of]) * w.ticks, np.float64)

    def _single(self, works: Sequence[Work]) -> list[Cause]:
        """Return the causes that a location does what nobody else does, as much of it as lets others wait."""
        gains = self.scenarios.gains([self._shorter(w, 1.0) for w in works])
        works = [w for w, gain in zip(works, gains, strict=True) if gain > 0]
        gain = np.array([gain for gain in gains if gain > 0], np.int64)
        # the gain is a concave function of the part that is taken away: nearly all of it is had with less
        low, high = np.zeros(gain.size), np.ones(gain.size)
        for _ in range(HALVINGS if works else 0):
            middle = (low + high) / 2
            enough = np.array(self.scenarios.gains(list(map(self._shorter, works, middle)))) >= 0.99 * gain
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        shorter = zip(works, high.tolist(), strict=True)
        causes = [
            Cause("computation", w.call_path, w.who, self._shorter(w, part), evidence={"shorter": part})
            for w, part in shorter
        ]
        return tried(self.scenarios, causes)

    def _shorter(self, w: Work, part: float) -> Change:
        return self.scenarios.less_computation(w.row, part * w.ticks)

    def _serial(self, w: Work) -> Cause:
        """Return the cause that masters compute alone; mended, all of their threads share the work."""
        part = 1 - 1 / self.n_threads[self.process[w.location]]
        change = self.scenarios.less_computation(w.row, part * w.ticks)
        who = w.who
        if who.size > 1:
            who, _ = self._outliers(w)
            others = w.total[~np.isin(w.who, who)].mean()
            who = who if who.size and w.total[np.isin(w.who, who)].mean() > CLEARLY * others else who[:0]
        elif np.unique(self.process[self.scenarios.locations]).size == 1:
            # the only master there is
            who = who[:0]
        return Cause("serial", w.call_path, who, change)
