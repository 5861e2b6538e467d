"""The cost of recording: functions of the program that are entered so often, for so short a time, that writing their
events takes a part of the measured time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.findings.cause import NOBODY, Cause, tried
from tracecols.findings.scenarios import RUN_TIME, Change, Scenarios
from tracecols.replay.cell_sums import CellSums
from tracecols.vectors import Ints, Mask

EVENT = 1e-7
"""Approximate seconds that a recorder takes for an event: the time between the ENTER and the EXIT of an empty
function."""

TINY = 1e-6
"""Seconds of a call up to which its two events matter."""

MANY = 1000
"""Calls of a function from which on they matter."""


def of_measurement(s: Scenarios) -> list[Cause]:
    """Return the cause that functions of the program are recorded that take about as long as their events, with the
    gain of not recording them: all together, named after the one that is entered most often."""
    model, profile, resolution = s.model, s.model.profile, s.resolution
    region = s.call_paths.region.astype(np.int64)
    cells = s.replay.cell_sums
    path = np.asarray(model.call_paths.path_of(profile.call_path), np.int64)
    visits = np.bincount(region[path], profile.visits, len(model.regions))
    ticks = np.bincount(region[cells.call_path], cells.ticks, len(model.regions))
    is_tiny = are_tiny(visits, ticks, resolution)
    is_tiny &= ~np.isin(model.regions.paradigm, RUN_TIME)
    of = np.flatnonzero(is_tiny[region[path]])
    if not of.size:
        return []
    change = _recording(s, cells, path[of], profile.location[of], profile.visits[of])
    worst = np.flatnonzero(is_tiny)[np.argsort(-visits[is_tiny], kind="stable")]
    first = int(worst[0])
    by_path = np.bincount(path[of], profile.visits[of] * (region[path[of]] == first))
    evidence = {
        "n_visits": int(visits[first]),
        "visit": float(ticks[first] / visits[first] / resolution),
        "events_per_second": float(2 * visits[worst].sum() / max(cells.ticks.sum() / resolution, 1 / resolution)),
        "more": [str(name) for name in model.regions.name[worst[1:4]]],
    }
    return tried(s, [Cause("measurement", int(by_path.argmax()), NOBODY, change, evidence=evidence)])


def are_tiny(visits: NDArray[Any], ticks: NDArray[Any], resolution: int) -> Mask:
    """Return a mask of the regions that are called so often, for so short an exclusive time, that recording them
    matters."""
    return np.asarray((visits >= MANY) & (ticks < visits * TINY * resolution), np.bool_)


def _recording(s: Scenarios, cells: CellSums, call_path: Ints, location: NDArray[np.int32], visits: Ints) -> Change:
    """Return the change that removes the time of recording: for each call, an event inside of it, and one in the
    caller."""
    parent = s.call_paths.parent
    caller = pick(parent, call_path)
    where = np.concatenate([call_path, caller[caller >= 0]]).astype(np.int64)
    n_events = np.concatenate([visits, visits[caller >= 0]])
    at = np.concatenate([location, location[caller >= 0]]).astype(np.int64)
    n = s.model.n_locations
    of = lookup(cells.call_path * n + cells.location, where * n + at)
    recorded = np.bincount(of[of >= 0], n_events[of >= 0], cells.ticks.size) * EVENT * s.resolution
    node, less = cells.parts(np.minimum(recorded / np.maximum(cells.ticks, 1), 1.0))
    kept = s.in_window[node]
    return Change(node[kept], less[kept])
