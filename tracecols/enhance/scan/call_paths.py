"""One call tree for all locations (thesis 3.21 to 3.26): identical paths on different locations are one call path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import joined_column, merged, pick
from tracecols.enhance.dataflow.grouping import positions
from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.location_scan import FOREIGN, LocationScan
from tracecols.enhance.scan.paths import path_names
from tracecols.enhance.scan.periods import Divider, divide_intervals
from tracecols.errors import AnalysisError
from tracecols.kernels import stacks, trees
from tracecols.kernels.periods import Labels, number_labels
from tracecols.vectors import Ints, offsets_of

TABLE_SIZE = 16
"""Call paths in phases are looked up in a table if it has at most this many entries per call path; 8 B each."""

MOST_LABELS = 1 << 25
"""Maximum number of call paths times bins of time: 50 B each."""


@dataclass
class CallPaths:
    """The merged call tree, in depth-first order; siblings in the order they were first visited."""

    parent: NDArray[np.int32]
    """(n,): -1 for roots."""
    region: NDArray[np.int32]
    """(n,)"""
    call_site: NDArray[np.int32]
    """(n,): where the region is called; -1 not known."""
    depth: NDArray[np.int32]
    """(n,): 0 for roots."""
    representative: Ints
    """(n,): row of the earliest ENTER with this call path (cnodeptr, thesis 3.26); ties go to the lower location."""
    end: Ints
    """(n,): one past the last call path of the subtree; the subtree of i is i .. end[i] - 1."""
    creation: Ints
    """(n,): all call paths in the order of their first occurrence in the locations, one location after the other."""
    numbers: list[Ints]
    """list of (n_location,) int64: for each location, the numbers of its call paths in the merged tree."""

    @cached_property
    def met(self) -> NDArray[np.int32]:
        """Position of each call path in `creation`; (n,) int32."""
        return positions(self.creation).astype(np.int32)

    def __len__(self) -> int:
        return self.parent.size

    def numbers_of(self, locations: Ints) -> tuple[Ints, Ints]:
        """Return the begin of each location in the result, and the `numbers` of some locations, one location after the
        other; (n_locations + 1,), (n,) int64."""
        numbers = [self.numbers[i] for i in locations.tolist()]
        start = offsets_of([of.size for of in numbers])
        return start, np.concatenate([*numbers, np.zeros(0, np.int64)])

    @property
    def whole(self) -> CallPaths:
        """The call paths of the whole time: these, unless they are divided into periods."""
        return self

    @property
    def divider(self) -> Divider | None:
        """The divider of the time into periods, or None."""
        return None

    def path_of(self, labels: NDArray[np.signedinteger[Any]]) -> Ints:
        """Return the call paths of the whole time that correspond to the given ones."""
        return labels.astype(np.int64)

    def find(self, path: NDArray[np.signedinteger[Any]], like: NDArray[np.signedinteger[Any]]) -> Ints:
        """Return the given call paths of the whole time in the periods of `like`."""
        return path.astype(np.int64)

    def outside(self, path: NDArray[np.signedinteger[Any]]) -> Ints:
        """Return the given call paths of the whole time outside of all periods."""
        return np.asarray(path, np.int64)

    def at(self, labels: NDArray[np.signedinteger[Any]], time: Ints, location: NDArray[np.signedinteger[Any]]) -> Ints:
        """Return call paths in the span that contains a time at a location; unchanged if the divider is not by time."""
        return labels.astype(np.int64)

    def divide(
        self, labels: NDArray[np.signedinteger[Any]], begin: Ints, end: Ints, location: NDArray[np.signedinteger[Any]]
    ) -> tuple[Ints, Ints, Ints]:
        """Divide intervals at the edges of spans. Return for every part its interval, its call path in the span, and
        its ticks, which are not negative.

        If the divider is not by time, each interval is one part.
        """
        return np.arange(labels.size), labels.astype(np.int64), np.maximum(end - begin, 0)

    def paths_of(
        self, region_names: Sequence[str] | NDArray[np.object_], call_paths: Iterable[int] | None = None
    ) -> list[str]:
        """Return call paths as text (`path_names`), by default all."""
        return path_names(self.parent, [region_names[r] for r in self.region.tolist()], call_paths)


@dataclass
class PeriodCallPaths(CallPaths):
    """The call paths of a trace by period: one for each period in which a call path occurs, and one outside of all.

    The attributes of single call paths are defined; for relations in the tree use `whole`. `numbers` refer to these
    call paths.
    """

    all_periods: CallPaths
    """The call paths of the whole time."""
    label_path: NDArray[np.int32]
    """(n,): the call path of the whole time that each represents."""
    period: NDArray[np.int32]
    """(n,): its period, -1 outside: a phase, or a span of time (`Divider`)."""
    key: Ints
    """(n,): ascending: (period + 1) * n_paths + path. Empty if all combinations exist."""
    by: Divider

    @classmethod
    def of(cls, whole: CallPaths, scans: Sequence[LocationScan], regions: Regions, by: Divider) -> PeriodCallPaths:
        """Create them from the call paths of the whole time and the periods in which they occur on locations."""
        n = len(whole)
        keys = [
            np.where(path >= 0, (scan.paths.column("period").astype(np.int64) + 1) * n + path, -1)
            for path, scan in zip(whole.numbers, scans, strict=True)
        ]
        if by.by_time:
            n_labels = (by.n_spans + 1) * n
            if n_labels > MOST_LABELS:
                raise AnalysisError(
                    f"{by.edges.size + 1:,} bins of {n:,} call paths are too many\n"
                    "  give fewer bins, or a piece of the trace"
                )
            key = np.arange(n_labels)
            numbers, kept = keys, np.zeros(0, np.int64)
        else:
            found = distinct(np.concatenate([*keys, np.zeros(0, np.int64)]))
            found = found[found >= 0]
            # other call paths that times of a period are charged to: OpenMP regions for idle time, the parents of tasks
            tasks = np.flatnonzero(whole.region == regions.tasks)
            above = np.full(n, -1, np.int64)
            above[tasks] = np.where(whole.parent[tasks] >= 0, whole.parent[tasks], tasks)
            key = kept = np.arange(n)
            if found.size:
                targets = above, outermost_openmp(whole, regions, whole.creation), outermost_openmp(whole, regions)
                charged = [(target[found % n], found - found % n) for target in targets]
                more = [period[path >= 0] + path[path >= 0] for path, period in charged]
                key = kept = distinct(np.concatenate([key, found, *(distinct(k) for k in more)]))
            numbers = [np.where(k >= 0, np.searchsorted(key, k), -1) for k in keys]
        path = (key % n if n else key).astype(np.int32)
        period = ((key // n if n else key) - 1).astype(np.int32)
        size = np.arange(key.size)
        return cls(
            np.full(key.size, -1, np.int32),
            whole.region[path],
            whole.call_site[path],
            whole.depth[path],
            whole.representative[path],
            size + 1,
            size,
            numbers,
            whole,
            path,
            period,
            kept,
            by,
        )

    @property
    def whole(self) -> CallPaths:
        return self.all_periods

    @property
    def divider(self) -> Divider:
        return self.by

    def path_of(self, labels: NDArray[np.signedinteger[Any]]) -> Ints:
        return pick(self.label_path, labels).astype(np.int64)

    def label(self, path: NDArray[np.signedinteger[Any]], period: NDArray[np.signedinteger[Any]]) -> Ints:
        """Return call paths of the whole time in some periods, or outside of all periods if they do not occur there;
        null stays."""
        found = np.empty(path.size, np.int64)
        number_labels(path, period, self.of_kernels, found)
        return found

    @cached_property
    def of_kernels(self) -> Labels:
        """The lookup tables of `label` as kernels take them: the result for every key up to the last one, unless that
        takes much memory; a lookup takes a tenth of the time of a search.

        No requested key exceeds the last period, which has a call path.
        """
        n = len(self.all_periods)
        n_keys = (int(self.period.max(initial=-1)) + 2) * n
        table = np.zeros(0, np.int64)
        if n and n_keys <= TABLE_SIZE * self.key.size:
            table = np.tile(np.arange(n), n_keys // n)
            table[self.key] = np.arange(self.key.size)
        return Labels(n, self.key, table)

    def find(self, path: NDArray[np.signedinteger[Any]], like: NDArray[np.signedinteger[Any]]) -> Ints:
        return self.label(path.astype(np.int64), pick(self.period, like))

    def at(self, labels: NDArray[np.signedinteger[Any]], time: Ints, location: NDArray[np.signedinteger[Any]]) -> Ints:
        if not self.by.by_time:
            return labels.astype(np.int64)
        return self.label(self.path_of(labels), self.by.piece(time, location))

    def divide(
        self, labels: NDArray[np.signedinteger[Any]], begin: Ints, end: Ints, location: NDArray[np.signedinteger[Any]]
    ) -> tuple[Ints, Ints, Ints]:
        if not self.by.by_time:
            return super().divide(labels, begin, end, location)
        row, piece, ticks = divide_intervals(self.by, begin, end, location)
        return row, self.label(self.path_of(labels)[row], piece), ticks


def outermost_openmp(tree: CallPaths, regions: Regions, order: Ints | None = None) -> Ints:
    """Find the outermost OpenMP call path that each call path belongs to: the one before it in `order`, as long as all
    call paths since then are deeper.

    Returns -1 for call paths that belong to none. The order is depth first by default.
    """
    order = np.arange(len(tree)) if order is None else order
    outermost = (regions.paradigm == "openmp") & np.isin(regions.role, ["parallel", "wrapper", "function"])
    root = np.full(len(tree), -1, np.int64)
    nowhere = int(np.iinfo(np.int32).max)
    level, current = nowhere, -1
    for i, depth, opens in zip(
        order.tolist(), tree.depth[order].tolist(), outermost[tree.region[order]].tolist(), strict=True
    ):
        if depth <= level:
            level, current = (depth, i) if opens else (nowhere, -1)
        root[i] = current
    return root


def merge_call_paths(scans: Sequence[LocationScan], d: Definitions) -> CallPaths:
    """Merge the call paths of all locations: call paths with the same region and call site below the same merged parent
    become one.

    Call paths that only represent a period are skipped, so that those of all periods are merged. Call paths below the
    program of their process are put below the program of the first location of the process that records one. O(n) in
    the number of call paths of all locations, not of events, and O(m log m) in the number of merged ones.
    """
    counts = np.array([len(s.paths) for s in scans], np.int64)
    paths = merged(s.paths for s in scans)
    start = offsets_of(counts)
    n = int(start[-1])
    local, row, time = (joined_column(paths, name, np.int64) for name in ("parent", "row", "time"))
    entry, time = joined_column(paths, "entry", np.int32), d.order.time(row, time)
    above = _parents_of_all(local, start, scans, d.process)
    tie = d.order.tie_order(row)
    del local

    number = np.full(n, -1, np.int64)
    # memory that is never written takes no pages: there are few merged call paths
    parent, merged_entry, chosen = (np.empty(n, np.int64) for _ in range(3))
    table = np.zeros(1 << (2 * n).bit_length(), np.int64)
    n_merged = trees.merge_call_paths(
        start, start[:-1].copy(), above, entry, time, tie, row, number, parent, merged_entry, chosen, table
    )
    parent, merged_entry, chosen = parent[:n_merged], merged_entry[:n_merged], chosen[:n_merged]
    siblings = np.lexsort((row[chosen], tie[chosen], time[chosen], parent))
    size, position, following = np.ones(n_merged, np.int64), np.empty(n_merged, np.int64), np.empty(n_merged, np.int64)
    depth = np.empty(n_merged, np.int32)
    trees.number_depth_first(parent, siblings, size, position, following, depth)

    order = positions(position)
    # first occurrence of each call path
    met = np.full(n_merged, n, np.int64)
    real = np.flatnonzero(entry >= 0)[::-1]
    met[position[number[real]]] = real
    entered = merged_entry[order]
    numbers = pick(position, np.where(entry >= 0, number, -1))
    return CallPaths(
        pick(position, parent[order]).astype(np.int32),
        d.regions.of_entry[entered],
        np.where(entered >= len(d.regions), entered - len(d.regions), -1).astype(np.int32),
        depth[order],
        row[chosen[order]],
        np.arange(n_merged) + size[order],
        np.argsort(met),
        [numbers[a:b] for a, b in pairwise(start.tolist())],
    )


def _parents_of_all(local: Ints, start: Ints, scans: Sequence[LocationScan], process: NDArray[np.int32]) -> Ints:
    """Return the parent of each call path among the call paths of all locations, of which those of each begin at
    `start`; -1 for roots. `local` are the parents as the scans name them, which may be on other locations."""
    above = np.repeat(start[:-1], np.diff(start))
    above += local
    above[(local == -1) | (local == stacks.ROOT_IN_TEAM)] = -1
    # few call paths are below those of other locations
    elsewhere = np.flatnonzero((local < -1) & (local != stacks.ROOT_IN_TEAM))
    inherited = local[elsewhere]
    in_program = np.flatnonzero(inherited == stacks.IN_PROGRAM)
    if in_program.size:
        programs = {
            p: FOREIGN - (i << 32 | scans[i].program)
            for i, p in reversed([*enumerate(process.tolist())])
            if scans[i].program >= 0
        }
        location = np.searchsorted(start, elsewhere[in_program], "right") - 1
        inherited[in_program] = [programs.get(p, -1) for p in process[location].tolist()]
    code = np.where(inherited < -1, FOREIGN - inherited, -1)
    above[elsewhere] = np.where(code >= 0, start[code >> 32] + (code & 0xFFFFFFFF), -1)
    return above
