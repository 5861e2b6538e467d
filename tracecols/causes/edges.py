"""Edges of the phases or bins of a divided trace between the synchronisation points of each location."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.points import Times, clock
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import Columns, ColumnSource
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.kernels import arrays
from tracecols.kernels import edges as kernels
from tracecols.vectors import Ints, offsets_of

ROOM = 1 << 12
"""Initial room for entries of edges."""


class PeriodEdges(NamedTuple):
    """The times at which periods begin on some locations, location by location."""

    time: Times
    """(n_edges,) float64 or int64: in the unit of times of root causes."""
    period: NDArray[np.int32]
    """(n_edges,): the period that begins; -1 is outside of all phases."""
    segment: Ints
    """(n_edges,): the segment (`causes.segments`) that each lies in, ascending."""
    end: Ints
    """(n_edges,): one past the last entry of each."""
    entries: ColumnSource
    """`call_path` int32, in the order in which they are met, `time`: the part of the time of the segment that lies
    before the edge."""


def dividing_of(facts: Facts, quirks: Quirks, scans: Sequence[LocationScan], locations: Ints) -> kernels.DividingAll:
    """Return the edges or phases that divide the time of some locations; empty if there are none."""
    by, times, n = facts.call_paths.divider, clock(facts, quirks), locations.size
    nothing, nowhere = times(np.zeros(0, np.int64)), np.zeros(n + 1, np.int64)
    undivided = kernels.Dividing(nothing, np.zeros(0, np.int32), nothing, nothing)
    if by is None:
        return kernels.DividingAll(nowhere, nowhere, nowhere, undivided)
    if by.by_time:
        bins = undivided._replace(bins=times(by.edges_of(locations).ravel()))
        return kernels.DividingAll(np.arange(n + 1) * (by.n_spans - 1), nowhere, nowhere, bins)
    own = [scans[i] for i in locations.tolist()]
    # one more, so that also a location without call paths has phases
    periods = [np.append(scan.paths.column("period"), np.int32(-1)) for scan in own]
    begin, end = (
        times(np.concatenate([np.zeros(0, np.int64), *(getattr(scan, name) for scan in own)]))
        for name in ("phase_begin", "phase_end")
    )
    node_start, phase_start = (
        offsets_of([of.size for of in parts]) for parts in (periods, [scan.phase_begin for scan in own])
    )
    of_all = kernels.Dividing(nothing, np.concatenate([np.zeros(0, np.int32), *periods]), begin, end)
    return kernels.DividingAll(nowhere, node_start, phase_start, of_all)


class PeriodEdgeCollector:
    """Collects the edges of the periods of locations while their segments are collected, location by location."""

    def __init__(self, dividing: kernels.DividingAll) -> None:
        self.dividing = dividing
        bins, _, begin, _ = dividing.all
        n, of_times = bins.size + 2 * begin.size + 4, bins.dtype
        arrays_of = (n, of_times), (n, np.int32), (n, np.int64), (n, np.int64), (ROOM, np.int32), (ROOM, of_times)
        edges = kernels.Edges(*(np.empty(size, dtype) for size, dtype in arrays_of))
        self.noted = kernels.Noted(edges, np.zeros(kernels.N_STATE, np.int64), np.zeros(1, bins.dtype))

    def _each(self, change: Callable[[NDArray[Any], int], NDArray[Any]]) -> kernels.Edges:
        """Return each array, changed, given the number of its elements that are filled."""
        n = int(self.noted.state[kernels.N_EDGES])
        n_entries = int(self.noted.edges.end[n - 1]) if n else 0
        return kernels.Edges(*map(change, self.noted.edges, (n, n, n, n, n_entries, n_entries)))

    def grow(self) -> None:
        """Make room for more edges if there is none left."""
        if self.noted.state[kernels.IS_FULL]:
            self.noted = self.noted._replace(edges=self._each(arrays.with_room))
            self.noted.state[kernels.IS_FULL] = 0

    def found(self, spill: Spill) -> PeriodEdges:
        """Return the edges of the locations."""
        time, period, segment, end, path, value = self._each(lambda of, n: of[:n].copy())
        entries = spill.keep(Columns(path.size, {"call_path": path, "time": value}))
        return PeriodEdges(time, period, segment, end, entries)
