"""Causes of lost time in traces that are too large to try them on: those of some pieces, scaled to the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.enhance.dataflow.grouping import Segments, combine
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.errors import AnalysisError
from tracecols.findings.cause import PHASES
from tracecols.findings.search import LEAST, MOST_CALLS, N_CAUSES, VAGUE, facts_of_causes, has_causes
from tracecols.severity.causes import is_uneven, rank_factor
from tracecols.slices.numbering import TABLES
from tracecols.slices.opened import open_slice
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.work.progress import Progress

CALLS, CALLS_EACH = 1 << 17, 1 << 9
"""Approximate number of call instances of all pieces: at least `CALLS`, and at least `CALLS_EACH` for each location in
each piece."""

MOST_PIECES, EVENTS_EACH = 4, 1 << 17
"""Maximum number of pieces, and the mean number of events of a location for each of them: to cut a piece takes 5 to
20 ms of processor time per location (halo, multizone, 2 x 10^7 events), and the analysis of as many events 60 ms."""

OPERATION_BYTES, TEAM_BYTES, PART = 100, 50, 0.75
"""Bytes that it takes to cut a piece: for each row that the process with the most has in a table of messages or of
other operations (halo, 2 x 10^7 events at once: 0.7 GB), and in each thread for each row of the location with the most
events of teams (multizone, 8 x 4, 10^9 events: 0.7 GB). `PART`: the share of an analysis's memory that it may take."""

CALL_BYTES, SPARE = 700, 0.1
"""Bytes of memory for each call instance of a piece (`findings.search.MOST_CALLS`), and the share of an analysis's
memory that a piece and cutting it may take if this is done while the trace is analysed."""

NO_MEMORY = (
    "call instances: causes of lost time are found in pieces of the run, and to cut them takes more memory than the "
    "analysis may take; give it more with --memory, or analyze a piece with --from and --to"
)
"""Note of traces for which memory does not suffice to cut pieces."""

FEWEST_EVENTS = 1 << 9
"""Mean number of events of a location below which no piece is cut. Cutting takes about 1.3 ms of processor time for
each of them: 130 s for 100,000 locations of 124 events, whose analysis without it takes 14 s."""

SHORT_LOCATIONS = (
    "call instances: causes of lost time are found in pieces of the run, and to cut them from many locations with few "
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
    """Return the note for a trace of which no pieces are cut, None for others; parameters as for `can_be_cut`."""
    if _events_each(store) < FEWEST_EVENTS:
        return SHORT_LOCATIONS
    return None if can_be_cut(store, memory, jobs) else NO_MEMORY


def fits_beside(store: Store, memory: int | None, jobs: int) -> bool:
    """Return whether a piece can be cut and searched while the trace is analysed; parameters as for `can_be_cut`."""
    if memory is None:
        return True
    return bytes_to_cut(store, jobs) + CALL_BYTES * _calls_wanted(store) / _n_pieces(store) <= SPARE * memory


def _events_each(store: Store) -> float:
    """Return the mean number of events of a location."""
    return int(store.manifest["n_events"]) / max(len(store.definitions["locations"]), 1)


def _n_pieces(store: Store) -> int:
    """Return the number of pieces that causes are found in."""
    return min(max(int(_events_each(store) / EVENTS_EACH), 1), MOST_PIECES)


def _calls_wanted(store: Store) -> int:
    """Return the number of call instances that all pieces should have together."""
    of_locations = CALLS_EACH * len(store.definitions["locations"]) * _n_pieces(store)
    return min(max(CALLS, of_locations), MOST_CALLS // 2)


def causes_in_pieces(
    trace: OpenedTrace,
    part: OpenedTrace,
    call_paths: CallPaths,
    n_calls: int,
    ask: Callable[[], None],
    progress: Progress | None = None,
) -> Facts | None:
    """Return the causes of lost time as a cube keeps them, found in pieces of a trace; None if all are empty or cannot
    be replayed.

    The pieces are equally long, each in the middle of an equal part of the run. Gains of causes, and the time that they
    explain, are scaled to the run; their evidence is that of the piece where they gain most. The pieces are cut from
    `trace`; `part` is what is analysed: the trace itself, or a part of its time, with `n_calls` call instances on
    `call_paths`, which causes refer to. `ask` is called before each step, and may raise an error to end it; `progress`
    is called with the numbers of events cut and in total.
    """
    manifest, clock, focus = part.store.manifest, part.store.manifest["clock"], part.focus
    begin, end = int(manifest["first_time"]), int(manifest["last_time"])
    if focus is not None:
        begin, end = int(focus[:, 0].min()), int(focus[:, 1].max())
    n = _n_pieces(part.store)
    length = (end - begin) * min(_calls_wanted(part.store) / n_calls, 1.0) / n
    found, runtime, bounds = [], 0, []
    for i in range(n):
        middle = begin + (end - begin) * (2 * i + 1) / (2 * n) - clock["origin"]
        start, stop = ((middle + of * length / 2) / clock["resolution"] for of in (-1, 1))
        report = None if progress is None else _part_of(progress, i, n)
        of_piece = _causes_between(trace, start, stop, call_paths, ask, report)
        if of_piece is not None:
            found.append(of_piece["found"])
            runtime += of_piece["runtime"]
            bounds += [start, stop]
    if not runtime:
        return None
    scale = (end - begin) / runtime
    causes = [_scaled(cause, scale) for cause in _together(found, call_paths)]
    causes = [c for c in causes if c["gain"] >= VAGUE.get(c["kind"], LEAST) * (end - begin)]
    causes.sort(key=_weight, reverse=True)
    return {
        "runtime": end - begin,
        "n_call_paths": len(call_paths),
        "n_locations": len(part.store.definitions["locations"]),
        "found": causes[:N_CAUSES],
        "piece": bounds,
    }


def _weight(cause: Facts) -> float:
    """Return the gain of a cause as causes are ranked by it."""
    return float(cause["gain"] * rank_factor(cause["kind"], cause["evidence"]))


def _part_of(progress: Progress, i: int, n: int) -> Progress:
    """Return the callback of the i-th of n steps of equal sizes."""
    return lambda done, total: progress(i * total + done, n * total)


def _causes_between(
    trace: OpenedTrace,
    start: float,
    stop: float,
    call_paths: CallPaths,
    ask: Callable[[], None],
    progress: Progress | None,
) -> Facts | None:
    """Return the causes in a piece of a trace, given its begin and end in seconds since the start of the recording, on
    the call paths of the run; None if the piece is empty or cannot be replayed."""
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
    placed = (_placed(cause, place) for cause in facts["found"])
    return {"runtime": facts["runtime"], "found": [cause for cause in placed if cause["call_path"] != LACKING]}


def _placed(cause: Facts, place: NDArray[np.int64]) -> Facts:
    """Return a cause of a piece on the call paths of the run."""
    call_path, location, ticks, in_calls = _explained(cause)
    known = (of := place[call_path]) != LACKING
    explains = [c[known].tolist() for c in (of, location, ticks)]
    at = int(place[cause["call_path"]])
    return {**cause, "call_path": at, "explains": explains, "in_calls": in_calls[known].tolist()}


def _explained(cause: Facts) -> list[NDArray[np.int64]]:
    """Return the call paths, locations and ticks that a cause explains, and the ticks of calls beyond waiting."""
    return [np.asarray(c, np.int64) for c in (*cause["explains"], cause["in_calls"])]


def _together(pieces: Sequence[Sequence[Facts]], call_paths: CallPaths) -> list[Facts]:
    """Join the causes of pieces that are the same cause; no two of one piece are."""
    joined: list[dict[int, Facts]] = []
    for i, causes in enumerate(pieces):
        for cause in causes:
            same = (of for of in joined if i not in of and any(_is_same(c, cause, call_paths) for c in of.values()))
            if (of := next(same, None)) is None:
                of = {}
                joined.append(of)
            of[i] = cause
    return [_sum(list(of.values())) for of in joined]


def _is_same(one: Facts, other: Facts, call_paths: CallPaths) -> bool:
    """Return whether causes in two pieces are one cause: of the same kind on the same call path, or in the same family
    of steps; or both uneven computation on call paths of which one is within the other. Causes of different locations
    are not."""
    mine, theirs = set(one["locations"]), set(other["locations"])
    if mine and theirs and mine.isdisjoint(theirs):
        return False
    a, b = one["call_path"], other["call_path"]
    if all(is_uneven(c["kind"], c["evidence"]) for c in (one, other)) and (
        a <= b < call_paths.end[a] or b <= a < call_paths.end[b]
    ):
        return True
    family = one["evidence"].get(PHASES)
    is_there = a == b or (family is not None and family == other["evidence"].get(PHASES))
    return bool(is_there and one["kind"] == other["kind"])


def _sum(causes: Sequence[Facts]) -> Facts:
    """Add up what a cause gains and explains in some pieces; the rest is that of the piece where it gains most."""
    call_path, location, ticks, in_calls = (np.concatenate(c) for c in zip(*map(_explained, causes), strict=True))
    cells, first = Segments.of(combine(call_path + 1, location))
    best: Facts = max(causes, key=_weight)
    return {
        **best,
        "gain": sum(c["gain"] for c in causes),
        "explains": [call_path[first].tolist(), location[first].tolist(), cells.sum(ticks).tolist()],
        "in_calls": cells.sum(in_calls).tolist(),
    }


def _scaled(cause: Facts, scale: float) -> Facts:
    """Return a cause of pieces as one of the run."""
    call_path, location, *ticks = _explained(cause)
    time, in_calls = (np.rint(scale * t).astype(np.int64).tolist() for t in ticks)
    explains = [call_path.tolist(), location.tolist(), time]
    return {**cause, "gain": round(scale * cause["gain"]), "explains": explains, "in_calls": in_calls}


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
