"""Times of regions by location and bin, as found by a scan, without waits.

The results of a scan of one process do not depend on other processes. So processes are analysed in groups, each as
large as the memory permits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.partitions import whole_processes
from tracecols.enhance.dataflow.spill import save_array
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.enhance.scan.periods import Periods
from tracecols.model.model import Model, Progress
from tracecols.schema.properties import TIME
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import choose, declared_for
from tracecols.search.cube import analyze_model
from tracecols.severity.periods import PeriodCells
from tracecols.timeline.overview import by_cell, dominant_of_levels, n_bins, narrow, paths_within
from tracecols.work.heap import give_back
from tracecols.work.memory import within

Groups = list[NDArray[np.int64]]
Key = tuple[int, int, int]


def plan(model: Model) -> tuple[int, Groups]:
    """Return the number of bins, and the groups of locations that are analysed one after the other; the model is of the
    whole trace, undivided."""
    n_paths, memory = np.array([len(scan.paths) for scan in model.scans], np.int64), model.executor.budget.memory
    of_process = [int(n_paths[members].sum()) for members in whole_processes(n_paths, model.process, 1)]
    bins = n_bins(model.store.manifest, max(of_process), memory)
    most = int(n_paths.sum()) if memory is None else paths_within(memory) // bins
    return bins, whole_processes(n_paths, model.process, max(most, 1))


def _keys(paths: CallPaths) -> Iterator[Key]:
    """Return the keys that identify call paths: parent, region, and call site."""
    return zip(paths.parent.tolist(), paths.region.tolist(), paths.call_site.tolist(), strict=True)


def numbers_in(whole: Mapping[Key, int], of: CallPaths) -> NDArray[np.int64]:
    """Return the numbers, in the whole trace, of call paths of a part of it; `whole` has them by key."""
    found: list[int] = []
    for above, region, call_site in _keys(of):
        found.append(whole[found[above] if above >= 0 else -1, region, call_site])
    return np.array(found, np.int64)


class RegionTimes:
    """Sums of the times of regions by location and bin, over parts of a trace; `severities` are ticks by id of the
    properties that have any."""

    def __init__(self, n_locations: int, n_bins: int) -> None:
        self.n_bins, self._size = n_bins, (n_locations, n_bins)
        # there may be no time at all, as if threads record one event each
        self.severities = {TIME: np.zeros(n_locations * n_bins, np.int64)}
        levels = [(n_locations, n_bins >> level) for level in range(n_bins.bit_length())]
        self._dominant = [(np.full(size, -1, np.int32), np.zeros(size, np.int64)) for size in levels]

    def add(self, cells: Mapping[str, PeriodCells], locations: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Add the cells of some locations; `numbers` are those of their call paths in the whole trace."""
        for name, of in cells.items():
            if len(of):
                known = self.severities.setdefault(name, np.zeros(self._size[0] * self._size[1], np.int64))
                known += by_cell(of, self._size)
        found = dominant_of_levels(cells[TIME], self._size)
        for (path, best), (own_path, own_best) in zip(self._dominant, found, strict=True):
            path[locations], best[locations] = pick(numbers, own_path[locations]), own_best[locations]

    def write_dominant(self, folder: Path) -> None:
        """Write the dominant call path of each location and bin, and its ticks, for all levels."""
        for level, (path, best) in enumerate(self._dominant):
            save_array(folder / f"path-{level:02d}.npy", path)
            save_array(folder / f"best-{level:02d}.npy", narrow(best))


def region_times(
    trace: OpenedTrace, paths: CallPaths, names: list[str], planned: tuple[int, Groups], report: Progress | None = None
) -> tuple[RegionTimes, NDArray[np.int64]]:
    """Find the times of regions by location and bin, and the edges of the bins in ticks.

    `paths` are those of the whole trace, `names` ids of properties that a scan finds; `planned` is the result of
    `plan`.
    """
    n_bins, groups = planned
    n_locations, n_done = int(trace.store.manifest["n_locations"]), 0
    whole = {key: i for i, key in enumerate(_keys(paths))}
    found, bounds = RegionTimes(n_locations, n_bins), np.zeros(0, np.int64)
    for locations in groups:
        store = trace.store if len(groups) == 1 else trace.store.only(locations)
        bounds = _add(found, OpenedTrace(store, trace.jobs, trace.budget, ask=trace.ask), locations, whole, names)
        give_back()
        n_done += locations.size
        if report is not None:
            report(n_done, n_locations)
    return found, bounds


def _add(
    found: RegionTimes, trace: OpenedTrace, locations: NDArray[np.int64], whole: Mapping[Key, int], names: list[str]
) -> NDArray[np.int64]:
    """Analyse some locations by bins, and add the result to `found`; return the bounds of the bins."""
    periods = Periods(bins=found.n_bins)
    model = trace.model_of(periods)
    declared = {p.id for p in declared_for(model, DEFAULT, ())}
    asked = choose([name for name in names if name in declared], None, periods=periods)
    with within(model.executor.budget.memory):
        cube = analyze_model(model, choice=asked)
    assert cube.periods is not None  # divided into bins
    found.add(cube.period_cells, locations, numbers_in(whole, model.call_paths.whole))
    return np.append(cube.periods.begin_time[:1], cube.periods.end_time)
