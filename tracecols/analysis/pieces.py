"""Causes of lost time of traces that are too large to try them on: those of pieces, put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.analysis.opened import OpenedTrace
from tracecols.enhance.dataflow.grouping import Segments, combine, number
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.errors import AnalysisError
from tracecols.findings.search import MOST_CALLS, N_CAUSES, facts_of_causes, has_causes, least_share
from tracecols.severity.causes import BY_CHANCE
from tracecols.slices.opened import open_slice
from tracecols.work.memory import Budget
from tracecols.work.progress import Progress

N_PIECES = 3
"""How many pieces are looked at, in the middle of as many equal parts of the run."""

CALLS, CALLS_EACH = 1 << 16, 1 << 9
"""Call instances that a piece has, about: so many, and so many for each location."""

ALIKE = 0.5
"""Part of the locations of two causes that both name, from which on they are the same in two pieces."""

EVENT_BYTES, PART = 8, 0.75
"""Bytes that it takes to cut a piece for each event of the trace (multizone, 8 x 4, 10^8 events: 0.75 GB), and the part
of what an analysis may take that this may be."""

NO_MEMORY = (
    "call instances: causes of lost time are found in pieces, and to cut them takes more memory than the analysis may "
    "take; give it more with --memory, or analyze a piece with --from and --to"
)
"""Note of traces too large for that."""

Facts = dict[str, Any]


def can_be_cut(trace: OpenedTrace) -> bool:
    """Say whether the memory suffices to cut pieces of a trace."""
    memory = (trace.budget or Budget.default()).memory
    return memory is None or EVENT_BYTES * int(trace.store.manifest["n_events"]) <= PART * memory


def causes_in_pieces(
    trace: OpenedTrace, part: OpenedTrace, call_paths: CallPaths, n_calls: int, progress: Progress | None = None
) -> Facts | None:
    """Return the causes of lost time as a cube keeps them, found in pieces of a trace; None where none can be replayed.

    What causes gain in a piece, and what they explain, is scaled to the part of the run in whose middle the piece is.
    What proves a cause is of the piece in which it gains most.

    Parameters
    ----------
    trace : OpenedTrace
        What is cut.
    part : OpenedTrace
        What is looked at: the trace itself, or a piece of it.
    call_paths : CallPaths
        Those of the part; causes refer to them.
    n_calls : int
        Its call instances.
    progress : callable, optional
        Called with the number of pieces that are done and of all.
    """
    manifest, clock, focus = part.store.manifest, part.store.manifest["clock"], part.focus
    n_locations = len(part.store.definitions["locations"])
    begin, end = int(manifest["first_time"]), int(manifest["last_time"])
    if focus is not None:
        begin, end = int(focus[:, 0].min()), int(focus[:, 1].max())
    of_part = (end - begin) / N_PIECES
    wanted = min(max(CALLS, CALLS_EACH * n_locations), MOST_CALLS // 2)
    length = min(of_part, (end - begin) * wanted / n_calls)
    pieces, found = [], []
    for k in range(N_PIECES):
        start = (begin + (k + 0.5) * of_part - length / 2 - clock["origin"]) / clock["resolution"]
        stop = start + length / clock["resolution"]
        facts = _causes_between(trace, start, stop, call_paths)
        if facts is not None and facts["runtime"] > 0:
            pieces.append([start, stop])
            found.append((of_part / facts["runtime"], facts["found"]))
        if progress is not None:
            progress(k + 1, N_PIECES)
    if not found:
        return None
    return {
        "runtime": end - begin,
        "n_call_paths": len(call_paths),
        "n_locations": n_locations,
        "found": _together(found, end - begin),
        "pieces": pieces,
    }


def _causes_between(trace: OpenedTrace, start: float, stop: float, call_paths: CallPaths) -> Facts | None:
    """Return the causes between two times, in seconds since the start of the recording, with their own scale but on
    other call paths; None where there is nothing to replay."""
    try:
        with open_slice(trace.store, start, stop, trace.jobs) as store:
            piece = OpenedTrace(store, trace.jobs, trace.budget, ask=trace.ask)
            if not has_causes(piece.model):
                return None
            facts = facts_of_causes(piece.replay)
            place = _places_in(call_paths, piece.model.call_paths.whole)
    except AnalysisError:
        # nothing happens there, or what happens cannot be replayed
        return None
    if facts is not None:
        facts["found"] = [_placed(cause, place) for cause in facts["found"]]
    return facts


def _placed(cause: Facts, place: NDArray[np.int64]) -> Facts:
    """Return a cause on the call paths of the whole trace."""
    columns = [np.asarray(c, np.int64) for c in (*cause["explains"], cause["in_calls"])]
    return {**cause, "call_path": int(place[cause["call_path"]]), "explains": [place[columns[0]], *columns[1:]]}


def _places_in(whole: CallPaths, of_piece: CallPaths) -> NDArray[np.int64]:
    """Return where call paths of a piece, each of which the trace has, are in those of the whole trace; (n + 1,) int64,
    the last one, of none, is -1."""
    known = {key: i for i, key in enumerate(_steps(whole))}
    place = np.full(len(of_piece) + 1, -1, np.int64)
    # parents come first
    for i, (parent, region, call_site) in enumerate(_steps(of_piece)):
        place[i] = known[int(place[parent]), region, call_site]
    return place


def _steps(call_paths: CallPaths) -> Iterator[tuple[int, int, int]]:
    """Yield the parent of each call path, its region and where that is called."""
    return zip(call_paths.parent.tolist(), call_paths.region.tolist(), call_paths.call_site.tolist(), strict=True)


def _together(found: Sequence[tuple[float, list[Facts]]], runtime: int) -> list[Facts]:
    """Put the causes of all pieces together, each with its scale, the one that gains most first."""
    result: list[Facts] = []
    # the best evidence comes first
    every = [(scale, cause) for scale, causes in found for cause in causes]
    for scale, cause in sorted(every, key=lambda of: -of[0] * of[1]["gain"]):
        call_path, location, *ticks = cause["explains"]
        cells = [call_path, location, *(np.rint(scale * t).astype(np.int64) for t in ticks)]
        gain = round(scale * cause["gain"])
        same = next((c for c in result if _is_same(c, cause)), None)
        if same is None:
            result.append({**cause, "gain": gain, "explains": cells})
        else:
            same["gain"] += gain
            same["explains"] = [np.concatenate(both) for both in zip(same["explains"], cells, strict=True)]
    result = [c for c in result if c["gain"] >= least_share(c["kind"]) * runtime]
    result.sort(key=lambda c: (-c["gain"] * BY_CHANCE.get(c["kind"], 1.0), c["kind"], c["call_path"]))
    return [_with_summed_cells(c) for c in result[:N_CAUSES]]


def _is_same(a: Facts, b: Facts) -> bool:
    """Say whether the causes of two pieces are the same."""
    if any(a[name] != b[name] for name in ("kind", "call_path", "is_process")):
        return False
    mine, other = set(a["locations"]), set(b["locations"])
    return len(mine & other) >= ALIKE * len(mine | other)


def _with_summed_cells(cause: Facts) -> Facts:
    """Return a cause that explains each call path and location once."""
    call_path, location, ticks, in_calls = cause["explains"]
    group, first = number(combine(call_path + 1, location)) if location.size else (location, location)
    cells = Segments(group, first.size)
    columns = [call_path[first], location[first], cells.sum(ticks)]
    return {**cause, "explains": [c.tolist() for c in columns], "in_calls": cells.sum(in_calls).tolist()}
