"""The runtime on an ideal network, by replay of the trace, and which traces are replayed for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tracecols.distinct import distinct
from tracecols.errors import AnalysisError
from tracecols.kernels.replay import IS_CALL
from tracecols.model.model import Model
from tracecols.replay.events import new_times
from tracecols.replay.graph import UNKNOWN_PARTNERS
from tracecols.replay.nodes import MAY_WAIT
from tracecols.replay.replay import AS_DIMEMAS, Replay
from tracecols.schema.properties import TIME
from tracecols.severity import SeverityCube
from tracecols.severity.efficiencies import DIMEMAS, RunTimes, times_of

MOST_CALLS = 1 << 22
"""Maximum number of call instances of a trace that is replayed without a request: up to there the replay takes less
time than the analysis (2 us for each, of which root causes alone need more) and half a gigabyte."""

MOST_UNKNOWN = 0.01
"""Share of the runtime that a process spends in calls whose communication partners are not recorded, above which the
trace is not replayed without a request."""


def is_replayed(model: Model) -> bool:
    """Return whether the runtime on an ideal network is found by replay without a request: several processes
    communicate by MPI, devices execute nothing, and the replay costs no more than the analysis (`MOST_CALLS`)."""
    return (
        bool((model.regions.paradigm == "mpi").any())
        and distinct(model.process[model.locations.is_cpu]).size > 1
        and not model.has_device_work
        and model.n_calls <= MOST_CALLS
    )


def ideal_runtime(replay: Replay, is_piece: bool = False) -> int:
    """Return the runtime on an ideal network, in ticks: from the first process that leaves MPI_Init to the last that
    enters MPI_Finalize, less the time that every process takes to create contexts of devices; for a trace slice, over
    all of it. Raises AnalysisError if the trace cannot be replayed."""
    time = replay.ideal
    return int(time.max() - time.min()) if is_piece and time.size else int(replay.without_start(replay.runtime(time)))


def knows_enough(replay: Replay, cube: SeverityCube) -> bool:
    """Return whether communication partners are known to the replay, except in calls that take a hundredth of the
    runtime."""
    if UNKNOWN_PARTNERS not in replay.counts or TIME not in cube.cells:
        return True
    # other properties would be copied
    outside = None if cube.outside is None else {TIME: cube.outside[TIME]}
    focused = cube.replaced(cells={TIME: cube.cells[TIME]}, outside=outside, period_cells={}).focused()
    unknown = focused.call_paths.named(lambda name: name.lower().startswith(MAY_WAIT))
    longest = float(focused.by_location(TIME, unknown).max(initial=0.0)) * cube.resolution
    return longest <= MOST_UNKNOWN * replay.runtime(replay.nodes.time)


def as_dimemas(replay: Replay, cube: SeverityCube) -> RunTimes:
    """Find the times of the whole run as BSC's tools have them, from the start of the recording on.

    For them, computation on the ideal network is all time outside MPI, including the time before a process was created
    and that in which the recorder wrote its buffer.
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
    masters = distinct(model.locations.master[model.locations.is_cpu])
    outside = (last - origin - in_mpi)[masters]
    useful = _in_hundredths(int(outside.max(initial=0)), resolution)
    return replace(
        times_of(cube, with_startup=True),
        runtime=_in_hundredths(int(nodes.time.max(initial=origin)) - origin, resolution),
        ideal=_in_hundredths(int(times.max(initial=origin)) - origin, resolution),
        window="whole run",
        ideal_by=DIMEMAS,
        ideal_useful=useful,
        present=np.ones(1),
        unknown={what: n for what, n in replay.counts.items() if n},
    )


def _in_hundredths(ticks: int, resolution: int) -> float:
    """Return seconds, rounded to hundredths of microseconds: BSC's tools give runtimes and simulations in these."""
    return round(ticks / (resolution / 1e6), 2) / 1e6


def ideal_within(replay: Replay, within: str) -> int:
    """Return the largest time of a process in a region on an ideal network, in ticks; one more pass over the masters'
    events."""
    inside = np.append(replay.call_paths_of(within), False)
    longest = 0
    for _, events in replay.events_of_masters():
        duration = np.diff(new_times(events, replay.ideal))
        longest = max(longest, int(duration[inside[events.call_path[:-1]]].sum()))
    return longest


def check_ideal(ideal: object, known: tuple[str, ...]) -> None:
    """Check the way to find the ideal runtime. Raises AnalysisError if it is not known."""
    if ideal not in known:
        raise AnalysisError(f"the ideal network cannot be found by {ideal!r}\n  there are {', '.join(known)}")


def check_replayed(properties: object, locations: Iterable[object]) -> None:
    """Refuse an analysis, narrowed to some properties (None is everything) and locations, that cannot keep the
    efficiencies of a replay. Raises AnalysisError if it is narrowed."""
    if properties is not None or any(of is not None for of in locations):
        raise AnalysisError(
            "the replay on an ideal network is of the whole run, and this analysis is narrowed to some properties "
            "or locations\n"
            "  leave out properties and locations, or the replay",
            in_shell="leave out --property and --locations, or --ideal-network",
        )
