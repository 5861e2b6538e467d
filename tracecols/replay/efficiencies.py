"""Efficiencies with the trace at hand: the window between MPI_Init and MPI_Finalize, and the ideal network by
replay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tracecols.errors import AnalysisError
from tracecols.kernels.replay import IS_CALL
from tracecols.model.model import Model, enhance
from tracecols.replay.events import events_of, new_times
from tracecols.replay.replay import AS_DIMEMAS, Replay
from tracecols.schema.properties import COMPUTATION, EXECUTION, TIME
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import choose, declared_for
from tracecols.search.cube import analyze_model
from tracecols.severity import SeverityCube
from tracecols.severity.efficiencies import CYCLES, DIMEMAS, INSTRUCTIONS, REPLAY, RunTimes, times_of
from tracecols.slices.opened import open_slice

NEEDED = frozenset((TIME, EXECUTION, COMPUTATION, *INSTRUCTIONS, *CYCLES))
"""The properties of which times of a run are made, besides waits and I/O."""


def run_times(replay: Replay, cube: SeverityCube, within: str | None, ideal: str) -> RunTimes:
    """Find the times of a run.

    Parameters
    ----------
    cube : SeverityCube
        Of the window, or with `within` of the whole trace.
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


def times_of_window(replay: Replay, within: str | None, ideal: str, jobs: int, conventions: str = DEFAULT) -> RunTimes:
    """Find the times of a run between the first return of MPI_Init and the last call of MPI_Finalize, or those of a
    region.

    Parameters
    ----------
    ideal : str
        How to find the runtime on an ideal network, one of `severity.efficiencies.IDEALS`.

    Raises
    ------
    AnalysisError
        If nothing is called so, or the trace cannot be replayed.
    """
    model = replay.model

    def cube_of(of: Model, region: str | None) -> SeverityCube:
        # what times are made of: neither root causes nor counts
        names = [p.id for p in declared_for(of, conventions, ()) if p.id in NEEDED or p.is_wait or p.part == "io"]
        return analyze_model(of, conventions, choice=choose(names, None, region, None))

    if ideal == DIMEMAS:
        if within is not None:
            raise AnalysisError(
                "the ideal network as of Dimemas is that of the whole run, not of a region\n  leave out the region, or take the replay"
            )
        return _as_dimemas(replay, cube_of(model, None))

    if within is None and replay.is_between:
        begin, end = replay.window(replay.nodes.time)
        if begin < end:
            clock = model.store.manifest["clock"]
            start, stop = ((t - int(clock["origin"])) / clock["resolution"] for t in (begin, end))
            with open_slice(model.store, start, stop, jobs) as store:
                return run_times(replay, cube_of(enhance(store, jobs), None), None, ideal)
    return run_times(replay, cube_of(model, within), within, ideal)


def _as_dimemas(replay: Replay, cube: SeverityCube) -> RunTimes:
    """Find the times of the whole run as BSC's tools have them, from the start of the recording on.

    They know no computation on the ideal network but the time outside MPI, which includes that before a process was
    created and that in which the recorder wrote its buffer.
    """
    nodes, model = replay.nodes, replay.model
    resolution = model.facts.resolution
    origin = int(model.store.manifest["clock"]["origin"])
    times = replay.times(AS_DIMEMAS)
    calls = nodes.with_role(IS_CALL)
    in_mpi = np.bincount(
        nodes.location[calls], nodes.time[calls] - nodes.time[nodes.enter_of(calls)], model.n_locations
    )
    last = np.full(model.n_locations, origin)
    some = np.flatnonzero(np.diff(nodes.location_start))
    last[some] = nodes.time[nodes.location_start[some + 1] - 1]
    masters = np.unique(model.locations.master[model.locations.is_cpu])
    outside = (last - origin - in_mpi)[masters]
    times_of_run = times_of(
        cube,
        is_window=True,
        runtime=_in_hundredths(int(nodes.time.max(initial=origin)) - origin, resolution),
        ideal=_in_hundredths(int(times.max(initial=origin)) - origin, resolution),
        window="whole run",
    )
    useful = _in_hundredths(int(outside.max(initial=0)), resolution)
    return replace(times_of_run, ideal_by=DIMEMAS, ideal_useful=useful)


def _in_hundredths(ticks: int, resolution: int) -> float:
    """Return seconds, rounded to hundredths of microseconds: BSC's tools have runtimes and simulations in these."""
    return round(ticks / (resolution / 1e6), 2) / 1e6


def _ideal_within(replay: Replay, within: str) -> int:
    """Return the largest time of a process in a region on an ideal network, in ticks; one more pass over the masters'
    events."""
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


def check_replayed(properties: object, locations: Iterable[object]) -> None:
    """Refuse an analysis that cannot keep the efficiencies of a replay.

    Parameters
    ----------
    properties : object
        What it is narrowed to; None is everything.

    Raises
    ------
    AnalysisError
        If it is narrowed.
    """
    if properties is not None or any(of is not None for of in locations):
        raise AnalysisError(
            "the replay on an ideal network is of the whole run, and this analysis is narrowed to some properties or locations\n"
            "  leave out properties and locations, or the replay",
            in_shell="leave out --property and --locations, or --ideal-network",
        )
