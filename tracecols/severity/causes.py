"""Findings that are causes: causes of lost time found by a replay, with the severities that they explain.

They are kept in the facts of a cube (`CAUSES`): kind, call path, locations, the ticks that mending it would gain,
quantities that prove it, and the ticks that it explains on each call path and location.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.severity.cells import Cells
from tracecols.severity.queries import Severities

CAUSES = "causes"
"""Key of the causes of lost time in the facts of a cube."""

NARROWED = frozenset(("properties", "parameters"))
"""Narrowings of a cube for which no causes are looked for, as it lacks some of the lost time."""

PARTS = frozenset(("within", "locations"))
"""Narrowings of a cube whose causes are those of the whole run, limited to what they explain in the cube."""

CHANGING, STRAGGLER = "changing", "straggler"
"""Kinds of causes: other locations are late each time, and a process begins operations of kernels last."""

UNEVEN = frozenset(("computation", "imbalance", CHANGING, "slow"))
"""Kinds of causes in which locations differ in what they compute."""

ALONE = "shorter"
"""Key in the evidence of computation that no other location does: the part of it that makes others wait."""

PREFERRED = 1.25
"""Factor by which a less specific change must gain more to be preferred."""

BY_KIND = {"order": 2.0}
"""By kind, the factor of `rank_factor`: another order of receives needs no other work than there is."""

OF_NOISE = {CHANGING: 0.6, "barrier": 0.66}
"""The same for causes that noise produces; removing barriers, which distributes no work, comes before distributing it
if it gains about as much."""

LONGEST = "longest"
"""Key in the evidence of causes that noise produces: how long the longest piece of work takes each time, in multiples
of those of the location that computes longest, or of the mean."""

BEYOND_NOISE, LESS_NOISE = 1.5, 4 / 3
"""Value of it from which on noise is not the main reason, and the factor by which such causes count more."""

SEVERAL = 0.8
"""Factor of `rank_factor` for work that only several locations do: if one of them takes longer than the others, making
all of it shorter would help as well."""

MOST = 0.5
"""If a cause explains at least this part of a property on a call path, all of it is attributed to the cause."""


def rank_factor(kind: str, evidence: Mapping[str, Any]) -> float:
    """Return the factor on the gain of a cause when causes are tried and ranked: below 1, others are preferred to it,
    as some waits for another location each time are due to noise, which no distribution of work removes."""
    if ALONE in evidence and evidence.get("n_locations", 1) > 1:
        return SEVERAL
    if kind in OF_NOISE:
        return OF_NOISE[kind] * (LESS_NOISE if evidence.get(LONGEST, 0.0) > BEYOND_NOISE else 1.0)
    return BY_KIND.get(kind, 1.0)


def is_uneven(kind: str, evidence: Mapping[str, Any]) -> bool:
    """Return whether several locations compute the same, and some take longer."""
    return kind in UNEVEN and ALONE not in evidence


def could_gain(gain: float, evidence: Mapping[str, Any], n_others: int) -> float:
    """Return the most that mending a process that is late for operations of kernels could gain, in seconds: what a
    replay predicts, or what each of the others waits for it because of what lies before the recording; all that these
    wait if a replay predicts nothing, as hosts that never wait for kernels."""
    return max(gain, evidence["unrecorded" if gain > 0 else "waits"] / n_others)


class Explained(NamedTuple):
    """A cause, and what it explains of a cube."""

    facts: Mapping[str, Any]
    """The cause as the cube keeps it."""
    cells: dict[str, Cells]
    """The time lost because of it, by property."""
    certain: float
    """Share of this time that a replay with the cause mended removes."""


def _of_cube(cube: Severities) -> Mapping[str, Any]:
    """Return the results of a replay in a cube (`CAUSES`); empty if it has some properties only, is made of several, or
    has other numbers of call paths or locations."""
    found = cube.facts.get(CAUSES)
    narrowed = NARROWED & set(cube.facts.get("narrowed") or {})
    if not isinstance(found, dict) or narrowed or cube.facts.get("operation"):
        return {}
    if found.get("n_call_paths") != len(cube.call_paths) or found.get("n_locations") != cube.system.n_locations:
        return {}
    return found


def is_part(cube: Severities) -> bool:
    """Return whether a cube has only some call paths or locations of a run."""
    return bool(PARTS & set(cube.facts.get("narrowed") or {}))


def runtime_of(cube: Severities) -> int:
    """Return the runtime, in ticks, that gains of causes refer to; 0 if it is not known."""
    return int(_of_cube(cube).get("runtime") or 0)


def causes_of(cube: Severities) -> list[dict[str, Any]]:
    """Return the causes that a cube keeps; none if it has some properties only, or is made of several."""
    return list(_of_cube(cube).get("found") or [])


def pieces_of(cube: Severities) -> list[tuple[float, float]]:
    """Return begin and end, in seconds since the start of the recording, of each piece in which causes were found;
    empty if the whole trace was replayed."""
    bounds = _of_cube(cube).get("piece") or []
    return list(zip(bounds[::2], bounds[1::2], strict=False))


def starts_of(cube: Severities) -> Cells:
    """Return the time of calls in which devices start; empty for a cube that was narrowed or made of several."""
    nothing: tuple[list[int], ...] = ([], [], [])
    found: Sequence[Sequence[int]] = _of_cube(cube).get("starts") or nothing
    call_path, location, ticks = (np.asarray(part, np.int64) for part in found)
    return Cells.sum(call_path, location, ticks)


def explain(
    cube: Severities, parts: Mapping[str, Cells], idle: str, causes: list[dict[str, Any]]
) -> tuple[list[Explained], dict[str, Cells]]:
    """Divide the lost time of each property among causes; return what each explains, and what none explains.

    `idle` is the property of idle threads, which are explained location by location.
    """
    axis = cube.properties
    is_wait = axis.is_wait
    names = sorted((p for p in parts if len(parts[p])), key=lambda p: (-is_wait[axis.number[p]], -len(axis.above(p))))
    # time of calls beyond waiting is taken from properties that are no waits first
    calls_first = sorted(names, key=lambda p: is_wait[axis.number[p]])
    value = {p: not_negative(np.asarray(parts[p].value, np.float64)) for p in names}
    left = {p: v.copy() for p, v in value.items()}
    taken: list[dict[str, NDArray[np.float64]]] = []
    idling: list[NDArray[np.float64]] = []
    for cause in causes:
        call_path, location, ticks, in_calls = _explained_of(cause)
        of_idle = call_path < 0
        key = (call_path[~of_idle] << 32) | location[~of_idle]
        mine = {p: np.zeros(left[p].size) for p in names if p != idle}
        beyond, wanted = in_calls[~of_idle].astype(np.float64), (ticks - in_calls)[~of_idle].astype(np.float64)
        for p in (p for p in calls_first if p in mine):
            mine[p] += _take(parts[p].key, left[p], key, beyond)
        wanted += beyond
        for p in mine:
            mine[p] += _take(parts[p].key, left[p], key, wanted)
        _take_below(cube, parts, left, mine, key, wanted)
        idling.append(ticks[of_idle].astype(np.float64))
        if idle in left:
            first = _idle_because_of(cube, cause, parts[idle])
            mine[idle], idling[-1] = _take_idle(cube, first, parts[idle], left[idle], location[of_idle], idling[-1])
        taken.append(mine)
    # idle time elsewhere is taken only after every cause has taken that on its own call paths
    for cause, mine, rest_of_idle in zip(causes, taken, idling, strict=True):
        call_path, location, _, _ = _explained_of(cause)
        location = location[call_path < 0]
        # for a part of the run it is not known how much of the idle time lies in it
        if idle in left and not is_part(cube):
            anywhere = [np.ones(len(parts[idle]), bool)]
            more, rest_of_idle = _take_idle(cube, anywhere, parts[idle], left[idle], location, rest_of_idle)
            mine[idle] += more
        # what a thread waits for in a fork is no idleness of its own
        where = (np.int64(cause["call_path"]) << 32) | location
        _take_below(cube, parts, left, mine, where, np.maximum(rest_of_idle, 0))
    certain = [sum(float(v.sum()) for v in mine.values()) for mine in taken]
    _complete(parts, value, left, taken)
    result = []
    for cause, mine, sure in zip(causes, taken, certain, strict=True):
        cells = {p: Cells(parts[p].key[v > 0], v[v > 0]) for p, v in mine.items() if (v > 0).any()}
        total = sum(float(c.value.sum()) for c in cells.values())
        result.append(Explained(cause, cells, sure / total if total else 0.0))
    is_taken = {p: p in left and not np.array_equal(left[p], value[p]) for p in parts}
    return result, {p: Cells(c.key, left[p]).where(left[p] > 0) if is_taken[p] else c for p, c in parts.items()}


def _explained_of(cause: Mapping[str, Any]) -> list[NDArray[np.int64]]:
    """Return the call paths (-1 for idle threads), locations and ticks that a cause explains, and how many of the ticks
    are not waiting, 0 in cubes of earlier versions."""
    found = [np.asarray(part, np.int64) for part in cause["explains"]]
    return [*found, np.asarray(cause.get("in_calls", [0] * found[2].size), np.int64)]


def not_negative(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with the same sum and no negative ones, which tasks and clock errors cause: these are deducted from
    the positive ones in proportion."""
    if (value >= 0).all():
        return value
    positive = np.maximum(value, 0)
    whole = float(positive.sum())
    return np.asarray(positive * (max(float(value.sum()), 0.0) / whole if whole else 0.0), np.float64)


def _take(
    key: NDArray[np.int64], left: NDArray[np.float64], wanted_key: NDArray[np.int64], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Take from cells as much as is wanted and available, changing `left` and `wanted` in place; return what was taken
    of each."""
    taken = np.zeros(left.size)
    at = np.minimum(np.searchsorted(key, wanted_key), max(key.size - 1, 0))
    hit = np.flatnonzero(key[at] == wanted_key) if key.size else np.zeros(0, np.int64)
    amount = np.minimum(left[at[hit]], wanted[hit])
    taken[at[hit]] = amount
    left[at[hit]] -= amount
    wanted[hit] -= amount
    return taken


def _take_below(
    cube: Severities,
    parts: Mapping[str, Cells],
    left: Mapping[str, NDArray[np.float64]],
    taken: dict[str, NDArray[np.float64]],
    key: NDArray[np.int64],
    wanted: NDArray[np.float64],
) -> None:
    """Take what is still wanted from OpenMP call paths below, in proportion: forks and joins belong to the region that
    they begin and end."""
    end = cube.call_paths.end
    of_openmp = np.asarray(cube.call_paths.paradigm == "openmp", np.bool_)
    # -1, no call path, is above all of them
    n_before, paths = np.append(0, np.cumsum(of_openmp)), key >> 32
    is_above = n_before[end[paths]] > n_before[np.maximum(paths, 0)]
    for at in np.flatnonzero((wanted > 0) & is_above).tolist():
        path, location = int(paths[at]), int(key[at] & 0xFFFFFFFF)
        mine = {}
        for p in taken:
            low, high = parts[p].key.searchsorted((path << 32, int(end[path]) << 32)).tolist()
            if low < high:
                below = parts[p].key[low:high]
                mine[p] = low + np.flatnonzero((below & 0xFFFFFFFF == location) & of_openmp[below >> 32])
        whole = sum(float(left[p][there].sum()) for p, there in mine.items())
        part = min(1.0, float(wanted[at]) / whole) if whole > 0 else 0.0
        for p, there in mine.items():
            taken[p][there] += left[p][there] * part
            left[p][there] -= left[p][there] * part


def _idle_because_of(cube: Severities, cause: Mapping[str, Any], cells: Cells) -> list[NDArray[np.bool_]]:
    """Select the cells of idle threads that a cause explains, in order of preference: on its own call path, where the
    process that forks them waits for the cause meanwhile, and on other call paths of its region."""
    own, name, rank = int(cause["call_path"]), cube.call_paths.name, cube.system.rank
    call_path, location, _, _ = _explained_of(cause)
    waits = call_path >= 0
    meanwhile = (call_path[waits] << 32) | rank[location[waits]]
    return [
        cells.call_path == own,
        np.isin((cells.call_path.astype(np.int64) << 32) | rank[cells.location], meanwhile),
        (name[cells.call_path] == name[own]) & (own >= 0),
    ]


def _take_idle(
    cube: Severities,
    where: Sequence[NDArray[np.bool_]],
    cells: Cells,
    left: NDArray[np.float64],
    location: NDArray[np.int64],
    ticks: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Take from the idle time of locations, in place, from one selection of cells (`where`) after the other. Return
    what is taken from each cell, and what is still wanted from each location."""
    taken = np.zeros(left.size)
    for chosen in where:
        rows = np.flatnonzero(chosen)
        there = left[rows]
        mine = _take_by_location(cells.location[rows], there, location, ticks)
        left[rows] = there
        taken[rows] += mine
        ticks = ticks - np.bincount(cells.location[rows], mine, cube.system.n_locations)[location]
    return taken, np.maximum(ticks, 0)


def _take_by_location(
    location: NDArray[np.int32], left: NDArray[np.float64], where: NDArray[np.int64], ticks: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Take from the cells of each location as much as is wanted and available, in proportion; in place."""
    n = int(max(location.max(initial=0), where.max(initial=0))) + 1
    there = np.bincount(location, left, n)
    wanted = np.minimum(np.bincount(where, ticks, n), there)
    part = np.divide(wanted, there, out=np.zeros(n), where=there > 0)
    taken = left * part[location]
    left -= taken
    return np.asarray(taken, np.float64)


def _complete(
    parts: Mapping[str, Cells],
    value: Mapping[str, NDArray[np.float64]],
    left: dict[str, NDArray[np.float64]],
    taken: list[dict[str, NDArray[np.float64]]],
) -> None:
    """Give what is left of a property on a call path to the cause that explains most of it, at least `MOST`."""
    for p, remaining in left.items():
        path = parts[p].call_path
        whole = np.bincount(path, value[p])
        by_cause = [np.bincount(path, mine[p], whole.size) if p in mine else np.zeros(whole.size) for mine in taken]
        if not by_cause:
            continue
        table = np.stack(by_cause)
        best = table.argmax(0)
        enough = (table.max(0) >= MOST * whole) & (whole > 0)
        for cause in distinct(best[enough]).tolist():
            mine = (enough & (best == cause))[path]
            if p in taken[cause]:
                taken[cause][p][mine] += remaining[mine]
                remaining[mine] = 0
