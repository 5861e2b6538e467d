"""Efficiencies with the trace at hand: the window between MPI_Init and MPI_Finalize, and the ideal network by replay."""

from __future__ import annotations

import numpy as np

from tracecols.errors import AnalysisError
from tracecols.replay.events import events_of, new_times
from tracecols.replay.replay import Replay
from tracecols.severity import SeverityCube
from tracecols.severity.efficiencies import REPLAY, RunTimes, times_of


def run_times(replay: Replay, cube: SeverityCube, within: str | None, ideal: str) -> RunTimes:
    """Find the times of a run.

    Parameters
    ----------
    replay : Replay
    cube : SeverityCube
        Of the window, or with `within` of the whole trace.
    within : str, optional
        A region, or a pattern.
    ideal : str
        How to find the runtime on an ideal network, one of `severity.efficiencies.IDEALS`.

    Raises
    ------
    AnalysisError
        If nothing is called so.
    """
    resolution = replay.model.facts.resolution
    by_replay = ideal == REPLAY
    if within is None:
        runtime = replay.runtime(replay.nodes.time) / resolution
        window = "MPI_Init to MPI_Finalize" if replay.is_between else "whole run"
        found = replay.runtime(replay.ideal) / resolution if by_replay else None
        return times_of(cube, is_window=True, runtime=runtime, ideal=found, window=window)
    return times_of(cube, within, ideal=_ideal_within(replay, within) / resolution if by_replay else None)


def _ideal_within(replay: Replay, within: str) -> int:
    """Return the largest time of a process in a region on an ideal network, in ticks; one more pass over the masters' events."""
    model = replay.model
    inside = np.append(replay.call_paths_of(within), False)
    longest = 0
    for location in np.unique(model.locations.master[model.locations.is_cpu]).tolist():
        if not model.store.n_rows("events", location):
            continue
        events = events_of(model, replay.nodes, location)
        duration = np.diff(new_times(events, replay.ideal))
        longest = max(longest, int(duration[inside[events.call_path[:-1]]].sum()))
    return longest


def check_ideal(ideal: object, known: tuple[str, ...]) -> None:
    """Refuse what is no way to find the ideal runtime.

    Raises
    ------
    AnalysisError
        If it is none.
    """
    if ideal not in known:
        raise AnalysisError(f"the ideal network cannot be found by {ideal!r}\n  there are {', '.join(known)}")
