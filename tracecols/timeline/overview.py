"""The overview: time by class, location and bin, at levels from fine to coarse.

It is made from the cells of an analysis that is divided into bins, so that its sums equal those of the cube.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.spill import save_array
from tracecols.kernels import timeline as kernels
from tracecols.report.viewer.profile import divided_time, part_of
from tracecols.schema.properties import CRITICAL_PATH, TIME
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.periods import PeriodCells
from tracecols.severity.reduction import reduce_at
from tracecols.work.memory import BASE

MOST_CELLS = 1 << 22
"""Maximum product of locations and bins of the finest level: each takes 28 B in the usual case of seven classes, and
8 B for the dominant call path."""

MOST_BINS, LEAST_BINS = 1 << 12, 1 << 8
"""Bins of the finest level, if the number of locations and the length of the trace permit."""

EVENTS_PER_CELL = 64
"""Average number of events per cell of the finest level, at least: at finer resolution, events themselves are drawn."""

BYTES = 600
"""Maximum memory of the analysis by bins, for each bin of a call path of a location: 1.4 GB for 592 call paths and 4096
bins (`multizone`, 8 x 4), regardless of the number of events."""


def n_bins(manifest: dict[str, Any], n_paths: int, memory: int | None = None) -> int:
    """Return the number of bins of the finest level: a power of two, smaller if `memory` is small. `n_paths` is the
    number of call paths of the process that has most of them."""
    n = max(int(manifest["n_locations"]), 1)
    length = max(int(manifest["last_time"] or 0) - int(manifest["first_time"] or 0), 1)
    by_events = max(int(manifest["n_events"]) // n // EVENTS_PER_CELL, LEAST_BINS)
    # call paths times bins: an analysis accepts 2**25 of them, with the ends of the focus of each location
    most = min(MOST_BINS, MOST_CELLS // n, by_events, length, (1 << 24) // max(n_paths, 1))
    if memory is not None:
        most = min(most, max(paths_within(memory) // max(n_paths, 1), LEAST_BINS))
    return 1 << (max(most, 1).bit_length() - 1)


def paths_within(memory: int) -> int:
    """Return the number of bins of call paths of locations that fit into some bytes of memory."""
    return max((memory - BASE) // BYTES, 1)


def asked_properties(axis: PropertyAxis) -> list[str]:
    """Return the ids of the properties that an analysis by bins computes: all that divide the time, and the critical
    path."""
    return [*(name for name in axis.id if part_of(axis, name)), *([CRITICAL_PATH] if CRITICAL_PATH in axis.id else [])]


def by_cell(cells: PeriodCells, size: tuple[int, int]) -> NDArray[np.int64]:
    """Return the sums over call paths by location and bin; (n_locations * n_bins,) int64."""
    key = cells.location.astype(np.int64) * size[1] + cells.period
    return reduce_at(key, cells.value.astype(np.int64, copy=False), size[0] * size[1])


def coarser(ticks: NDArray[np.int64], n_locations: int) -> NDArray[np.int64]:
    """Return the sums of pairs of bins; (n_classes, n_locations * n_bins) to (n_classes, n_locations * n_bins / 2)."""
    n = ticks.shape[0]
    return ticks.reshape(n, n_locations, -1, 2).sum(axis=3).reshape(n, -1)


def dominant(cells: PeriodCells, size: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the call path with most of the time of each location and bin, and its ticks; (n_locations * n_bins,)."""
    n = size[0] * size[1]
    path, best = np.full(n, -1, np.int32), np.zeros(n, np.int64)
    shares = kernels.Shares(
        cells.call_path,
        cells.location.astype(np.int64),
        cells.period.astype(np.int64),
        cells.value.astype(np.int64, copy=False),
    )
    kernels.find_dominant(shares, size[1], best, path)
    return path, best


def narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    """Return values as int32 if all fit, else unchanged.

    The time of a class may be negative in a bin: a late launch counts while the stream waits for it, which may be in a
    later bin than the launching call.
    """
    ends = np.iinfo(np.int32)
    fits = int(values.max(initial=0)) <= ends.max and int(values.min(initial=0)) >= ends.min
    return values.astype(np.int32) if fits else values


def dominant_of_levels(
    cells: PeriodCells, size: tuple[int, int]
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
    """Return the dominant call path of each location and bin, and its ticks, from the finest level to the coarsest;
    (n_locations, n_bins) each."""
    n_locations, n = size
    while n:
        path, best = dominant(cells, (n_locations, n))
        yield path.reshape(n_locations, n), best.reshape(n_locations, n)
        # bins that are twice as wide
        cells, n = PeriodCells.ordered(cells.call_path, cells.location, cells.period >> 1, cells.value), n >> 1


def write_times(
    axis: PropertyAxis, severities: Mapping[str, NDArray[np.int64]], bounds: NDArray[np.int64], folder: Path
) -> dict[str, Any]:
    """Write the times by class for all levels, and the severities by location and bin.

    `severities` are ticks, (n_locations * n_bins,), of those properties that have any. Returns the content of the
    manifest: `classes`, `titles`, `bounds` (ticks), `n_levels`, `properties`.
    """
    n = bounds.size - 1
    n_locations = severities[TIME].size // n
    classes = divided_time(axis, severities)
    ticks, level = np.array([of["values"] for of in classes], np.int64), 0
    while True:
        save_array(folder / f"ticks-{level:02d}.npy", narrow(ticks).reshape(len(classes), n_locations, -1))
        if not n >> (level + 1):
            break
        ticks, level = coarser(ticks, n_locations), level + 1
    return {
        "classes": [of["id"] for of in classes],
        "titles": [of["title"] for of in classes],
        "bounds": bounds.tolist(),
        "n_levels": level + 1,
        "properties": dict(_write_severities(axis, severities, folder)),
    }


def _write_severities(
    axis: PropertyAxis, severities: Mapping[str, NDArray[np.int64]], folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write the nonzero severities of each property, ordered by location and bin."""
    keys, values, at = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], 0
    for i, name in enumerate(axis.id):
        filled = np.flatnonzero(severities[name]) if name in severities else np.zeros(0, np.int64)
        if not filled.size and name != TIME:
            continue
        values.append(severities[name][filled])
        keys.append(filled.astype(np.int32))
        yield (
            name,
            {
                "title": axis.title[i],
                "parent": axis.parent[i],
                "is_wait": bool(axis.is_wait[i]),
                "rows": [at, at + int(filled.size)],
                "total": int(values[-1].sum()),
            },
        )
        at += int(filled.size)
    save_array(folder / "severity-cell.npy", np.concatenate(keys))
    save_array(folder / "severity-ticks.npy", np.concatenate(values))


class Overview:
    """The overview of a trace, mapped from the files of `RegionTimes.write_dominant` and `write_times`; the latter
    returned the `content`."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.classes: list[str] = content["classes"]
        self.bounds = np.array(content["bounds"], np.int64)
        self.properties: dict[str, dict[str, Any]] = content["properties"]

        def load(name: str) -> NDArray[Any]:
            return np.load(os.fspath(folder / f"{name}.npy"), mmap_mode="r")

        levels = range(content["n_levels"])
        self._ticks = [load(f"ticks-{level:02d}") for level in levels]
        self._path = [load(f"path-{level:02d}") for level in levels]
        self._best = [load(f"best-{level:02d}") for level in levels]
        self._cell, self._value = load("severity-cell"), load("severity-ticks")

    @property
    def n_levels(self) -> int:
        """Number of levels; 0 is the finest."""
        return len(self._ticks)

    @property
    def n_locations(self) -> int:
        """Number of locations."""
        return int(self._ticks[0].shape[1])

    def level_for(self, start: int, stop: int, columns: int) -> int:
        """Return the coarsest level with at least `columns` bins in a time range; the finest if there is none."""
        for level in range(self.n_levels - 1, -1, -1):
            low, high = self.between(level, start, stop)
            if high - low >= columns:
                return level
        return 0

    def edges(self, level: int) -> NDArray[np.int64]:
        """Return the edges of the bins of a level, in ticks; (n_bins + 1,) int64."""
        return self.bounds[:: 1 << level]

    def between(self, level: int, start: int, stop: int) -> tuple[int, int]:
        """Return the bins of a level that overlap a time range: the first, and one past the last."""
        edges = self.edges(level)
        low = int(np.searchsorted(edges, start, "right")) - 1
        high = int(np.searchsorted(edges, stop))
        n = edges.size - 1
        return min(max(low, 0), n - 1), min(max(high, 1), n)

    def ticks(self, level: int, locations: NDArray[np.int64], low: int, high: int) -> NDArray[np.int64]:
        """Return ticks by class, location and bin; (n_classes, n, high - low) int64."""
        return self._ticks[level][:, locations, low:high].astype(np.int64)

    def dominant(
        self, level: int, locations: NDArray[np.int64], low: int, high: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the dominant call paths, and their ticks; (n, high - low) int32, int64."""
        rows = (slice(None), slice(low, high))
        return self._path[level][locations][rows], self._best[level][locations][rows].astype(np.int64)

    def finest(self, name: str) -> NDArray[np.int64]:
        """Return the ticks of a property by location and bin of the finest level; (n_locations * n_bins,) int64."""
        start, stop = self.properties[name]["rows"]
        found = np.zeros(self.n_locations * (self.bounds.size - 1), np.int64)
        found[self._cell[start:stop]] = self._value[start:stop]
        return found

    def severity(self, name: str, level: int, low: int, high: int) -> NDArray[np.int64]:
        """Return the ticks of a property by location and bin; (n_locations, high - low) int64."""
        start, stop = self.properties[name]["rows"]
        n = self.bounds.size - 1
        location, bin_ = np.divmod(self._cell[start:stop], n)
        bin_ >>= level
        inside = (bin_ >= low) & (bin_ < high)
        key = location[inside].astype(np.int64) * (high - low) + bin_[inside] - low
        found = reduce_at(key, self._value[start:stop][inside], self.n_locations * (high - low))
        return found.reshape(self.n_locations, high - low)
