"""Where the synchronisation points and the pairs of each location are, found once for all partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.pairs import location_starts
from tracecols.causes.points import Times, number_type
from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import ranges
from tracecols.enhance.dataflow.steps import CAUSES, step
from tracecols.enhance.scan.facts import Facts


@dataclass(frozen=True, eq=False)
class PointIndex:
    """Where the points and the pairs of each location are, and which points wait.

    Attributes
    ----------
    start : (n_locations + 1,) int64
        First point of each location.
    waits_before : (n_points + 1,) int32 or int64
        How many points before each one wait; `points.number_type`.
    waits : (n_waits,) as `waits_before`
        The points that wait.
    wait_path : (n_waits,) int32
        Their call paths, in the order in which call paths are met.
    wait : (n_waits,) float64 or int64
        How long each waits.
    cause_start : (n_locations + 1,) int64
        First pair by the location of its cause; pairs are in the order of their causes.
    pair_of : (n_points,) int32 or int64
        Pair of each waiting point, the last of several; -1 none.
    """

    start: NDArray[np.int64]
    waits_before: NDArray[np.signedinteger[Any]]
    waits: NDArray[np.signedinteger[Any]]
    wait_path: NDArray[np.int32]
    wait: Times
    cause_start: NDArray[np.int64]
    pair_of: NDArray[np.signedinteger[Any]]

    def points_of(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the points of some locations, one location after the other; (n,) int64."""
        return _slices(self.start, members)

    def causing(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pairs whose causes are on some locations, ascending as these are; (n,) int64."""
        return _slices(self.cause_start, members)

    def n_waits_before(self, point: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
        """Return how many points before some wait; (n,) int64."""
        return self.waits_before[point].astype(np.int64, copy=False)


def _slices(start: NDArray[np.int64], members: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from the start of each member to that of the next one."""
    first = start[:-1][members]
    return ranges(first, start[1:][members] - first)


@step(CAUSES, "point_index", keeps=("point_index",))
def index_points(facts: Facts, sync_points: CompoundTable, delay_pairs: CompoundTable) -> PointIndex:
    """Find where the points and the pairs of each location are, and which points wait."""
    is_wait = sync_points.wait > 0
    number = number_type(len(sync_points))
    waits = np.flatnonzero(is_wait).astype(number)
    waits_before: NDArray[np.signedinteger[Any]] = np.zeros(len(sync_points) + 1, number)
    np.cumsum(is_wait, dtype=number, out=waits_before[1:])
    start = location_starts(facts, sync_points.location)
    pair_of = np.full(len(sync_points), -1, number_type(len(delay_pairs)))
    pairs = np.flatnonzero(delay_pairs.waiting >= 0)
    pair_of[delay_pairs.waiting[pairs]] = pairs
    return PointIndex(
        start=start,
        waits_before=waits_before,
        waits=waits,
        wait_path=pick(facts.call_paths.whole.met, sync_points.call_path[waits]),
        wait=sync_points.wait[waits],
        cause_start=np.searchsorted(delay_pairs.cause, start.astype(delay_pairs.cause.dtype)),
        pair_of=pair_of,
    )
