"""Where the phases or bins of a divided trace begin between the synchronisation points of each location."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tracecols.causes.points import Times, clock
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import Columns, ColumnSource
from tracecols.enhance.dataflow.spill import Spill, keep
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.scan import LocationScan
from tracecols.kernels import arrays
from tracecols.kernels import edges as kernels
from tracecols.kernels import segments as collecting

ROOM = 1 << 12
"""Entries of the edges of a location, at first."""


@dataclass(frozen=True, eq=False)
class PeriodEdges:
    """Where periods begin on some locations, one location after the other.

    Attributes
    ----------
    time : (n_edges,) float64 or int64
        In the unit of times of root causes.
    period : (n_edges,) int32
        The period that begins; -1 is outside of all phases.
    segment : (n_edges,) int64
        The segment (`causes.segments`) that each lies in, ascending.
    end : (n_edges,) int64
        One past the last entry of each.
    entries : ColumnSource
        `call_path` int32, in the order in which they are met, `time`: what of the time of the segment lies before the
        edge.
    """

    time: Times
    period: NDArray[np.int32]
    segment: NDArray[np.int64]
    end: NDArray[np.int64]
    entries: ColumnSource


class EdgeCollector:
    """What notes where the periods of one location begin while its segments are collected.

    Parameters
    ----------
    bins, begin, end : (any,) float64 or int64
        When bins begin, or the phases of the location begin and end.
    node_period : (n_nodes,) int32
        The phase of each of its call paths; nothing of bins.
    """

    def __init__(self, bins: Times, node_period: NDArray[np.int32], begin: Times, end: Times) -> None:
        self._dividing = kernels.Dividing(bins, node_period, begin, end)
        state = np.full(kernels.N_STATE, -1, np.int64)
        state[[kernels.N_EDGES, kernels.IS_FULL]] = 0
        state[kernels.PERIOD] = -1 if node_period.size else 0
        n = bins.size + 2 * begin.size + 4
        edges = kernels.Edges(
            np.empty(n, bins.dtype),
            np.empty(n, np.int32),
            np.empty(n, np.int64),
            np.empty(n, np.int64),
            np.empty(ROOM, np.int32),
            np.empty(ROOM, bins.dtype),
        )
        self._noted = kernels.Noted(edges, state, np.zeros(1, bins.dtype))

    @classmethod
    def of(cls, facts: Facts, quirks: Quirks, scan: LocationScan) -> EdgeCollector | None:
        """Return what notes the periods of a location; nothing where the trace is not divided."""
        by = facts.call_paths.divider
        if by is None:
            return None
        times, nothing = clock(facts, quirks), np.zeros(0, np.int64)
        if by.by_time:
            return cls(times(by.edges_of(scan.location)), np.zeros(0, np.int32), times(nothing), times(nothing))
        return cls(
            times(nothing),
            np.append(scan.paths.column("period"), np.int32(-1)),
            times(scan.phase_begin),
            times(scan.phase_end),
        )

    def collect(self, start: int, *given: Any) -> int:
        """Collect segments, as `kernels.segments.collect_segments` does."""
        return int(kernels.collect_with_edges(self._dividing, self._noted, start, *given))

    def grow(self) -> None:
        """Make room for more edges where there is none."""
        if self._noted.state[kernels.IS_FULL]:
            n = int(self._noted.state[kernels.N_EDGES])
            *of_edges, path, value = self._noted.edges
            n_entries = int(self._noted.edges.end[n - 1]) if n else 0
            longer = [arrays.with_room(of, n) for of in of_edges]
            entries = [arrays.with_room(of, n_entries) for of in (path, value)]
            self._noted = self._noted._replace(edges=kernels.Edges(*longer, *entries))
            self._noted.state[kernels.IS_FULL] = 0

    def finish(self, until: Any, collected: collecting.Collected) -> None:
        """Note the beginnings of bins after the last event: the time `until` the end, unless that is None, counts as
        for segments."""
        state = collected.state
        own = -1 if until is None or state[collecting.IDLES] else int(state[collecting.IN])
        end = collected.last[0] if until is None else until
        while not kernels.note_last_edges(self._dividing, self._noted, own, end, collected):
            self.grow()

    def found(self) -> PeriodEdges:
        """Return the edges of the location."""
        time, period, segment, end, path, value = self._noted.edges
        n = int(self._noted.state[kernels.N_EDGES])
        n_entries = int(end[n - 1]) if n else 0
        entries = Columns(n_entries, {"call_path": path[:n_entries].copy(), "time": value[:n_entries].copy()})
        return PeriodEdges(time[:n].copy(), period[:n].copy(), segment[:n].copy(), end[:n].copy(), entries)


def join_edges(found: Sequence[PeriodEdges], dtype: DTypeLike, spill: Spill | None) -> PeriodEdges:
    """Put the edges of locations one after the other."""
    sizes = [len(of.entries) for of in found]
    ends = [of.end + before for of, before in zip(found, np.cumsum([0, *sizes])[:-1].tolist(), strict=True)]
    entries = {
        "call_path": np.concatenate([np.zeros(0, np.int32), *(of.entries.column("call_path") for of in found)]),
        "time": np.concatenate([np.zeros(0, dtype), *(of.entries.column("time") for of in found)]),
    }
    return PeriodEdges(
        np.concatenate([np.zeros(0, dtype), *(of.time for of in found)]),
        np.concatenate([np.zeros(0, np.int32), *(of.period for of in found)]),
        np.concatenate([np.zeros(0, np.int64), *(of.segment for of in found)]),
        np.concatenate([np.zeros(0, np.int64), *ends]),
        keep(Columns(sum(sizes), entries), spill),
    )
