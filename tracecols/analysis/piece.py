"""Causes of lost time in traces that are too large to try them on: those of a piece, scaled to the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.errors import AnalysisError
from tracecols.findings.search import MOST_CALLS, facts_of_causes, has_causes
from tracecols.slices.numbering import TABLES
from tracecols.slices.opened import open_slice
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.work.progress import Progress

CALLS, CALLS_EACH = 1 << 17, 1 << 9
"""Approximate number of call instances of the piece: at least `CALLS`, and at least `CALLS_EACH` for each location."""

OPERATION_BYTES, TEAM_BYTES, PART = 100, 50, 0.75
"""Bytes that it takes to cut the piece: for each row that the process with the most has in a table of messages or of
other operations (halo, 2 x 10^7 events at once: 0.7 GB), and in each thread for each row of the location with the most
events of teams (multizone, 8 x 4, 10^9 events: 0.7 GB). `PART`: the share of an analysis's memory that it may take."""

CALL_BYTES, SPARE = 700, 0.1
"""Bytes of memory for each call instance of the piece (`findings.search.MOST_CALLS`), and the share of an analysis's
memory that the piece and cutting it may take if this is done while the trace is analysed."""

NO_MEMORY = (
    "call instances: causes of lost time are found in a piece of the run, and to cut it takes more memory than the "
    "analysis may take; give it more with --memory, or analyze a piece with --from and --to"
)
"""Note of traces for which memory does not suffice to cut a piece."""

FEWEST_EVENTS = 1 << 9
"""Mean number of events of a location below which no piece is cut. Cutting takes about 1.3 ms of processor time per
location: 130 s for 100,000 locations of 124 events, whose analysis without it takes 14 s."""

SHORT_LOCATIONS = (
    "call instances: causes of lost time are found in a piece of the run, and to cut it from many locations with few "
    "events takes longer than the analysis; analyze a piece with --from and --to"
)
"""Note for traces of such locations."""

LACKING = -2
"""Marks call paths of a piece that the whole trace lacks."""

Facts = dict[str, Any]


def bytes_to_cut(store: Store, jobs: int) -> float:
    """Return about how many bytes of memory it takes to cut a piece of a trace."""
    process = to_numpy(store.definitions["locations"].column("process"))
    operations = max(float(np.bincount(process, store.counts(table)).max(initial=0)) for table in TABLES)
    teams = jobs * int(store.counts("threads").max(initial=0))
    return max(OPERATION_BYTES * operations, TEAM_BYTES * teams)


def can_be_cut(store: Store, memory: int | None, jobs: int) -> bool:
    """Return whether the bytes of memory that an analysis may take, None if there is no limit, suffice to cut a piece
    of a trace."""
    return memory is None or bytes_to_cut(store, jobs) <= PART * memory


def why_not_cut(store: Store, memory: int | None, jobs: int) -> str | None:
    """Return the note for a trace of which no piece is cut, None for others; parameters as for `can_be_cut`."""
    if int(store.manifest["n_events"]) < FEWEST_EVENTS * len(store.definitions["locations"]):
        return SHORT_LOCATIONS
    return None if can_be_cut(store, memory, jobs) else NO_MEMORY


def fits_beside(store: Store, memory: int | None, jobs: int) -> bool:
    """Return whether a piece can be cut and searched while the trace is analysed; parameters as for `can_be_cut`."""
    if memory is None:
        return True
    of_calls = CALL_BYTES * _calls_wanted(len(store.definitions["locations"]))
    return bytes_to_cut(store, jobs) + of_calls <= SPARE * memory


def _calls_wanted(n_locations: int) -> int:
    """Return the number of call instances that the piece should have."""
    return min(max(CALLS, CALLS_EACH * n_locations), MOST_CALLS // 2)


def causes_in_piece(
    trace: OpenedTrace,
    part: OpenedTrace,
    call_paths: CallPaths,
    n_calls: int,
    ask: Callable[[], None],
    progress: Progress | None = None,
) -> Facts | None:
    """Return the causes of lost time as a cube keeps them, found in a piece from the middle of a trace; None if it is
    empty or cannot be replayed.

    Gains of causes, and the time that they explain, are scaled to the run; their evidence is that of the piece. The
    piece is cut from `trace`; `part` is what is analysed: the trace itself, or a part of its time, with `n_calls` call
    instances on `call_paths`, which causes refer to. `ask` is called before each step, and may raise an error to end
    it; `progress` is called with the numbers of events cut and in total.
    """
    manifest, clock, focus = part.store.manifest, part.store.manifest["clock"], part.focus
    n_locations = len(part.store.definitions["locations"])
    begin, end = int(manifest["first_time"]), int(manifest["last_time"])
    if focus is not None:
        begin, end = int(focus[:, 0].min()), int(focus[:, 1].max())
    length = (end - begin) * min(_calls_wanted(n_locations) / n_calls, 1.0)
    start, stop = ((begin + end + of * length) / 2 - clock["origin"] for of in (-1, 1))
    start, stop = start / clock["resolution"], stop / clock["resolution"]
    try:
        with open_slice(trace.store, start, stop, trace.jobs, progress, trace.scratch) as store:
            piece = OpenedTrace(store, trace.jobs, trace.budget, ask=ask)
            facts = facts_of_causes(piece.replay) if has_causes(piece.model) else None
            place = _places_in(call_paths, piece.model.call_paths.whole)
    except AnalysisError:
        # nothing happens in the piece
        return None
    if facts is None or facts["runtime"] <= 0:
        return None
    scale = (end - begin) / facts["runtime"]
    return {
        "runtime": end - begin,
        "n_call_paths": len(call_paths),
        "n_locations": n_locations,
        "found": [_scaled(cause, scale, place) for cause in facts["found"] if place[cause["call_path"]] != LACKING],
        "piece": [start, stop],
    }


def _scaled(cause: Facts, scale: float, place: NDArray[np.int64]) -> Facts:
    """Return a cause of a piece as one of the run, on the call paths of the run."""
    call_path, location, *ticks = (np.asarray(c, np.int64) for c in (*cause["explains"], cause["in_calls"]))
    known = place[call_path] != LACKING
    time, in_calls = (np.rint(scale * t).astype(np.int64) for t in ticks)
    return {
        **cause,
        "call_path": int(place[cause["call_path"]]),
        "gain": round(scale * cause["gain"]),
        "explains": [c[known].tolist() for c in (place[call_path], location, time)],
        "in_calls": in_calls[known].tolist(),
    }


def _places_in(whole: CallPaths, of_piece: CallPaths) -> NDArray[np.int64]:
    """Return the number in the whole trace of every call path of a piece, `LACKING` for those of events repeated at the
    start of the piece only; (n + 1,) int64, the last one, for no call path, is -1."""
    known = {key: i for i, key in enumerate(_steps(whole))}
    place = np.full(of_piece.parent.size + 1, -1, np.int64)
    # parents come first
    for i, (parent, region, call_site) in enumerate(_steps(of_piece)):
        place[i] = known.get((int(place[parent]), region, call_site), LACKING)
    return place


def _steps(call_paths: CallPaths) -> Iterator[tuple[int, int, int]]:
    """Yield the parent, the region and the call site of each call path."""
    return zip(call_paths.parent.tolist(), call_paths.region.tolist(), call_paths.call_site.tolist(), strict=True)
