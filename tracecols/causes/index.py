"""Index of the synchronisation points and the pairs of each location, built once for all partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.near import KeptTable
from tracecols.causes.pairs import location_starts
from tracecols.causes.points import Times, number_type
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.grouping import ranges
from tracecols.enhance.dataflow.partitions import Division
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import CAUSES, step
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import causes as kernels
from tracecols.vectors import Ints
from tracecols.work.large import blocks


@dataclass(frozen=True, eq=False)
class Ranges:
    """The numbers of some ranges, range by range, of which a part is listed at a time."""

    first: Ints
    """(n,): first number of each range."""
    end: Ints
    """(n,): count of numbers up to the end of each range."""

    @classmethod
    def between(cls, start: Ints, members: Ints) -> Ranges:
        """Return the numbers from the start of each member to that of the next one."""
        first = start[:-1][members]
        return cls(first, np.cumsum(start[1:][members] - first))

    def __len__(self) -> int:
        return int(self.end[-1]) if self.end.size else 0

    def __getitem__(self, here: slice) -> Ints:
        """Return some of the numbers; (n_here,) int64."""
        of = self.of(here)
        bounds = self.bounds(here, of)
        before = np.append(0, self.end)[of]
        return ranges(self.first[of] + here.start - before + bounds[:-1], np.diff(bounds))

    def runs(self) -> Iterator[tuple[slice, slice]]:
        """Yield runs of consecutive numbers, at most `BLOCK` at a time: their positions, and the numbers from first to
        last."""
        size = np.diff(self.end, prepend=0)
        first, before, n = (of[size > 0] for of in (self.first, self.end - size, size))
        head = np.flatnonzero(np.append(True, first[1:] != (first + n)[:-1])[: n.size])
        n_together = np.diff(np.append(before[head], len(self)))
        for begin, at, n_run in zip(*(of.tolist() for of in (first[head], before[head], n_together)), strict=True):
            for here in blocks(n_run):
                yield slice(at + here.start, at + here.stop), slice(begin + here.start, begin + here.stop)

    def of(self, here: slice) -> slice:
        """Return the ranges that some of the numbers belong to."""
        first = int(np.searchsorted(self.end, here.start, "right"))
        return slice(first, max(int(np.searchsorted(self.end, here.stop, "left")) + 1, first))

    def bounds(self, here: slice, of: slice) -> Ints:
        """Return where the numbers of each of the ranges `of` begin among those `here`, and one past the last; (n_of +
        1,) int64."""
        return np.append(0, np.minimum(self.end[of], here.stop) - here.start)


class PointIndex(NamedTuple):
    """The first point and the first pair of each location, and the points that wait."""

    start: Ints
    """(n_locations + 1,): first point of each location."""
    waits_before: NDArray[np.signedinteger[Any]]
    """(n_points + 1,) int32 or int64: number of waiting points before each one; `points.number_type`."""
    waits: NDArray[np.signedinteger[Any]]
    """(n_waits,) as `waits_before`: the points that wait."""
    wait_path: NDArray[np.int32]
    """(n_waits,): their call paths, in the order in which call paths are met."""
    wait: Times
    """(n_waits,) float64 or int64: how long each waits."""
    shift: Ints
    """(n_locations,): number of a point of each location minus its place among the points of its partition, location by
    location."""
    cause_start: Ints
    """(n_locations + 1,): first pair by the location of its cause; pairs are in the order of their causes."""

    def points_of(self, members: Ints) -> Ranges:
        """Return the points of some locations, one location after the other."""
        return Ranges.between(self.start, members)

    def causing(self, members: Ints) -> Ranges:
        """Return the pairs whose causes are on some locations, ascending as these are."""
        return Ranges.between(self.cause_start, members)

    def n_waits_before(self, point: NDArray[np.signedinteger[Any]]) -> Ints:
        """Return the number of waiting points before each of some points; (n,) int64."""
        return self.waits_before[point].astype(np.int64, copy=False)


@step(CAUSES, "point_index")
def index_points(
    facts: Facts, division: Division, sync_points: KeptTable, delay_pairs: CompoundTable, spill: Spill, jobs: int
) -> PointIndex:
    """Build the index of the points and the pairs of each location, and of the points that wait."""
    large, n = spill.large.by_threads(jobs), len(sync_points)
    number, met = number_type(n), facts.call_paths.whole.met
    waits_before = large.zeros(n + 1, number)
    for here in blocks(n):
        wait = sync_points.rows("wait", here.start, here.stop)
        kernels.count_waits(wait, int(waits_before[here.start]), waits_before[here.start : here.stop + 1])
    n_waits, dtype = int(waits_before[n]), sync_points.rows("wait", 0, 0).dtype
    waits, wait_path, waited = (large.empty(n_waits, of) for of in (number, met.dtype, dtype))
    for here in blocks(n):
        wait, listed = sync_points.rows("wait", here.start, here.stop), slice(*waits_before[[here.start, here.stop]])
        written = waits[listed], wait_path[listed], waited[listed]
        kernels.list_waits(here.start, wait, sync_points.call_path[here], met, *written)
    start = location_starts(facts, sync_points.location)
    shift, n_points = np.zeros(facts.n_locations, np.int64), np.diff(start)
    for partition in division.partitions:
        mine = np.sort(partition.members)
        shift[mine] = start[mine] - (np.cumsum(n_points[mine]) - n_points[mine])
    return PointIndex(
        start=start,
        waits_before=waits_before,
        waits=waits,
        wait_path=wait_path,
        wait=waited,
        shift=shift,
        cause_start=np.searchsorted(delay_pairs.cause, start.astype(delay_pairs.cause.dtype)),
    )
