"""The findings of a cube: causes of lost time, and what no cause explains, in the order of what mending them gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tracecols.distinct import distinct
from tracecols.schema import properties as ids
from tracecols.severity import wording
from tracecols.severity.causes import (
    PREFERRED,
    STRAGGLER,
    Explained,
    causes_of,
    could_gain,
    explain,
    is_part,
    is_uneven,
    rank_factor,
    runtime_of,
)
from tracecols.severity.cells import Cells
from tracecols.severity.device_findings import (
    DEVICE,
    START_OF_DEVICES,
    StartUp,
    busy_devices,
    idle_devices,
    start_of_devices,
)
from tracecols.severity.finding import (
    LEAST,
    Finding,
    Place,
    advice_of,
    costs_of,
    costs_of_locations,
    finding_of,
    is_below,
    largest_places,
    location_in_words,
    of_computation,
)
from tracecols.severity.idle_threads import idle_findings
from tracecols.severity.lost_time import divided
from tracecols.severity.queries import Severities

IDLE_CAUSE = "idle"
"""Kind of findings: devices have nothing to do because of their hosts (`tracecols.findings.idle`)."""


UNKNOWN, UNEXPLAINED = 1 / 2, 1 / 8
"""`UNKNOWN` and `UNEXPLAINED`: part of its cost per location by which a finding is ranked if no replay predicts its
gain: if not all causes were searched for, and if all were and none explains it."""


def findings_with_cells(cube: Severities, seconds: float, runtime: float) -> list[tuple[Finding, Mapping[str, Cells]]]:
    """Return the findings, each with the time lost because of it, by property; empty for one without a known cause.

    `cube` is evaluated as it is, nothing more is excluded. Shares refer to `seconds`, shares of gains to `runtime`;
    both include start-up and shutdown unless these are excluded.
    """
    parts = divided(cube)
    explained, parts = explain(cube, parts, ids.IDLE, causes_of(cube))
    if is_part(cube):
        # gains of causes are relative to the whole run
        runtime = runtime_of(cube) / cube.resolution
    of_causes = [(_of_cause(cube, cause, seconds, runtime), cause.cells) for cause in explained]
    if is_part(cube):
        of_causes = [(f, cells) for f, cells in of_causes if f.seconds >= LEAST * seconds]
    # if the trace was replayed, its causes tell better what hosts do meanwhile
    found = list(busy_devices(cube))
    found += list(idle_devices(cube)) if all(cause.facts["kind"] == STRAGGLER for cause in explained) else []
    starts = StartUp.of(cube, cube.system.master)
    for name, whole in parts.items():
        at_start, own = starts.divide(whole)
        found += start_of_devices(cube, name, at_start, seconds)
        if name == ids.IDLE:
            found += idle_findings(cube, own, seconds)
        elif len(own):
            rest = remainder_in_words(cube, name, parts)
            n_messages, n_bytes = _messages(cube, own) if is_below(cube, name, ids.POINT_TO_POINT) else (0, 0)
            advice = advice_of(cube, name)
            if rest and name == ids.COLLECTIVE:
                # the property's advice on waiting applies to the properties below it
                advice = wording.FEWER_COLLECTIVES
            elif name == ids.POINT_TO_POINT and not n_messages:
                advice = wording.without_messages(cube.call_paths.name[own.call_path[own.value.argmax()]])
            shows = wording.calls(*_visits(cube, own), n_messages, n_bytes) if is_below(cube, name, ids.MPI) else ""
            title = cube.properties.full_title[name] + rest
            more = {"title": title, "advice": advice, "shows": shows}
            found += finding_of(cube, name, own, seconds, costs_of(cube, name), **more)
    n_locations = max(int((cube.by_location(ids.TIME) > 0).sum()), 1)
    is_searched = runtime_of(cube) > 0
    part = (UNEXPLAINED if is_searched else UNKNOWN) / n_locations
    of_devices = UNEXPLAINED * runtime if is_searched else np.inf
    no_cells: Mapping[str, Cells] = {}
    of_stragglers = _most_of_stragglers(cube, [f for f, _ in of_causes if f.kind == STRAGGLER])

    def order(pair: tuple[Finding, Mapping[str, Cells]]) -> tuple[int | float | str, ...]:
        f, _ = pair
        return *_order(f, part, of_devices, of_stragglers), f.property, f.title, f.what

    return sorted([*of_causes, *((f, no_cells) for f in found)], key=order)


def _most_of_stragglers(cube: Severities, stragglers: Sequence[Finding]) -> float:
    """Return the most that mending one of some ranks that are late could gain; infinite without any."""
    of_gpu = np.array(cube.system.location_type) == "gpu"
    n_others = max(distinct(cube.system.rank[of_gpu]).size - 1, 1)
    return max((could_gain(f.gain or 0.0, f.evidence, n_others) for f in stragglers), default=np.inf)


def _visits(cube: Severities, own: Cells) -> tuple[int, float]:
    """Return the number of calls in which a property has time, and its mean seconds per call."""
    n = int(cube.cells_of(ids.VISITS, "iee").at(own.key).sum()) if ids.VISITS in cube.cells else 0
    return n, float(own.value.sum()) / cube.resolution / n if n else 0.0


def _messages(cube: Severities, own: Cells) -> tuple[int, int]:
    """Return the number of sends and receives where a property has time, and their bytes."""

    def number(*names: str) -> int:
        return sum(int(cube.cells_of(name, "iee").at(own.key).sum()) for name in names if name in cube.cells)

    return number(ids.MESSAGES, ids.SYNCHRONISATIONS), number(ids.MESSAGE_BYTES)


def _order(finding: Finding, part: float, of_devices: float, of_stragglers: float) -> tuple[int, float]:
    """Return the sort key of a finding, the smallest first: ranks that are late, others by what mending them gains, or
    by a part of their cost if no replay predicts it, and last the start of devices. Busy or idle devices count as if
    mending them gained `of_devices`. Causes in a single rank, or in uneven computation, that gain clearly more than
    `of_stragglers` come first."""
    if finding.kind == STRAGGLER:
        return 0, -finding.evidence["waits"]
    differs = finding.rank is not None or is_uneven(finding.kind, finding.evidence)
    if differs and (finding.gain or 0.0) > PREFERRED * of_stragglers:
        return -1, -(finding.gain or 0.0)
    if finding.kind == DEVICE:
        return 1, -of_devices
    if finding.kind == START_OF_DEVICES:
        return 2, -finding.seconds
    if finding.gain is None:
        return 1, -finding.seconds * part
    return 1, -finding.gain * rank_factor(finding.kind, finding.evidence)


def _of_cause(cube: Severities, explained: Explained, seconds: float, runtime: float) -> Finding:
    facts = explained.facts
    of_property = {name: float(cells.value.sum()) * cube.scale(name) for name, cells in explained.cells.items()}
    # a location that computes too long may be waited for in MPI_Finalize only, which is outside the focus
    otherwise = (
        ids.DEVICE_IDLE if facts["kind"] == IDLE_CAUSE and ids.DEVICE_IDLE in cube.cells else of_computation(cube)
    )
    name = max(of_property, key=lambda p: of_property[p], default=otherwise)
    own = Cells.empty()
    for cells in explained.cells.values():
        own = own + cells
    total = sum(of_property.values())
    at = int(facts["call_path"])
    if total > 0:
        # of the named property, so that place and property match
        path, region, best = largest_places(cube, explained.cells[name], cube.scale(name))
        path, region = (replace(place, share=place.seconds / total) for place in (path, region))
    else:
        best, path = at, Place("", cube.call_paths.paths_of([at])[0], 0.0, 0.0)
        region = Place("", str(cube.call_paths.name[at]), 0.0, 0.0)
    who = [int(i) for i in facts["locations"]]
    system = cube.system
    words = wording.culprits(
        who, bool(facts["is_process"]), system.rank, system.thread, partial(location_in_words, system)
    )
    name_of_cause = str(facts["evidence"].get("phases") or cube.call_paths.name[at])
    unit = "thread" if system.has_threads else "rank"
    path_of_cause = cube.call_paths.paths_of([at])[0]
    subject = wording.Subject(wording.short(name_of_cause), words, unit, "!$omp" in path_of_cause)
    # if no waiting is recorded, a replay predicts no gain
    gain = float(facts["gain"]) / cube.resolution or None
    ranks = distinct(system.rank[who])
    return Finding(
        property=name,
        title=cube.properties.full_title[name],
        **costs_of_locations(cube, own, cube.scale(name), total, seconds),
        where=path,
        region=region,
        cause=Place(words, path_of_cause, explained.certain * total, explained.certain),
        meanwhile=(),
        advice=wording.advice(facts, subject),
        call_path=best,
        what=wording.what(facts, subject),
        kind=str(facts["kind"]),
        gain=gain,
        gain_share=None if gain is None else gain / runtime if runtime else 0.0,
        rank=int(ranks[0]) if ranks.size == 1 and ranks[0] >= 0 else None,
        thread=_thread_of(cube, facts, who) if system.has_threads else None,
        cause_region=name_of_cause,
        parts=tuple(sorted(of_property.items(), key=lambda part: -part[1])),
        evidence={key: value for key, value in facts["evidence"].items() if value is not None},
        shows=wording.evidence(facts, subject),
    )


def _thread_of(cube: Severities, facts: Mapping[str, Any], who: list[int]) -> int | None:
    """Return the number of the thread that causes a finding, if it is the same in all processes that do; 0 if all
    masters do; otherwise None."""
    if len(who) == 1:
        return int(cube.system.thread[who[0]])
    threads = distinct(cube.system.thread[who])
    if len(who) > 1 and threads.size == 1:
        return int(threads[0])
    return 0 if facts["kind"] == "serial" and not who else None


def remainder_in_words(cube: Severities, name: str, parts: Mapping[str, Cells]) -> str:
    """Describe what the exclusive severity of a property leaves out; empty if nothing. `parts` are the properties that
    are findings themselves, as `divided` returns them."""
    axis = cube.properties
    beside = axis.parts(name)
    left_out = [c for c in axis.children[name] if (c in beside and len(cube.cells[c])) or len(parts.get(c, ()))]
    titles = [axis.title_of(part) for part in left_out]
    if not titles:
        return ""
    return f" without {' and '.join(titles)}" if len(titles) <= 2 else f" without the {len(titles)} properties below it"
