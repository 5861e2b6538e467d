"""From the model of a trace to its severity cube."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracecols.enhance.definitions.regions import COPY, LAUNCH
from tracecols.errors import AnalysisError
from tracecols.model.model import Model, Progress
from tracecols.patterns.base import Family
from tracecols.patterns.bounds import check_bounds
from tracecols.patterns.device_times import device_efficiencies
from tracecols.patterns.interval import mpi_interval
from tracecols.patterns.periods import UNDIVIDED, period_axis, period_cells, period_notes
from tracecols.patterns.profile import displaced_call_paths, idle_cells, overbooked_threads
from tracecols.patterns.registry import CONVENTIONS, needed
from tracecols.schema import not_analysed
from tracecols.schema.causes import HELD, SPREAD
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import EVERYTHING, Choice, check_conventions, declared_for, with_topologies, without
from tracecols.search.limits import (
    LEFT_OUT,
    MOST_CALLS,
    MOST_SPREAD,
    MOST_TICKS,
    TOO_LONG,
    TOO_MANY_CELLS,
    ticks_of_all,
)
from tracecols.search.notes import (
    NEIGHBOURS,
    NO_STREAMS,
    OF_PIECES,
    calls_of_neighbourhoods,
    counts_by_location,
    visits_of,
)
from tracecols.search.search import Search, has_interval
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells
from tracecols.severity.cube import SeverityCube


def analyze_model(
    model: Model,
    conventions: str = DEFAULT,
    patterns: Iterable[Family] = (),
    choice: Choice = EVERYTHING,
    topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    progress: Progress | None = None,
) -> SeverityCube:
    """Compute the severity cube of an enhanced model.

    Parameters
    ----------
    model : Model
    conventions : str
        Which analyser's rules to follow.
    patterns : iterable of Family, optional
        More patterns.
    choice : Choice, optional
        What to narrow the search to.

    topologies : sequence of mapping, optional
        Topologies given by hand (see `enhance.definitions.topologies.given_topology`), besides those of the trace.
    progress : callable, optional
        Called with what is done and what is to be done of the search; the scan of a trace is in its model.

    Raises
    ------
    AnalysisError
        If something chosen does not exist, or a pattern fails.
    """
    check_conventions(conventions)
    model = with_topologies(model, topologies).with_quirks(CONVENTIONS[conventions].quirks)
    declared = shown = declared_for(model, conventions, patterns)
    choice = choice.resolved(declared)
    if choice.properties is not None:
        computed, asked = needed(declared, choice.properties)
        declared, shown = ([p for p in declared if p.id in ids] for ids in (computed, asked))
    divider, n_left_out = model.call_paths.divider, 0
    if divider is not None:
        kept, shown_ids = {p.id for p in without(declared, UNDIVIDED)}, {p.id for p in shown}
        undivided = [p.id for p in declared if p.id not in kept and p.id in shown_ids]
        if undivided and choice.properties is not None:
            raise AnalysisError(
                f"{', '.join(undivided[:3])}: what computation differs from its mean over all locations, without the sign, cannot be divided into"
                f" {divider.kind}s: those of {divider.kind}s do not add up to those of the whole time\n"
                "  analyze them without"
            )
        n_left_out = len(set(UNDIVIDED) & shown_ids)
        declared, shown = without(declared, UNDIVIDED), without(shown, UNDIVIDED)
    n_calls = sum(scan.n_calls for scan in model.scans)
    asks_for_held = any(p.id in HELD for p in declared)
    is_large = choice.properties is None and n_calls > MOST_CALLS and asks_for_held
    ticks = 0 if CONVENTIONS[conventions].quirks.rounds_seconds or not asks_for_held else ticks_of_all(model)
    is_long = ticks >= MOST_TICKS
    if is_long and choice.properties is not None:
        raise AnalysisError(
            f"{', '.join([p.id for p in declared if p.id in HELD][:3])}: all locations together take {ticks:,} ticks, and root causes in whole "
            f"ticks are for less than {MOST_TICKS:,}\n  conventions scalasca compute them in seconds; or leave them out"
        )
    if is_large or is_long:
        declared = shown = without(declared, HELD)
    n_spread = len(model.call_paths) * int(model.locations.is_cpu.sum())
    is_wide = choice.properties is None and n_spread > MOST_SPREAD and any(p.id == SPREAD for p in declared)
    if is_wide:
        declared, shown = without(declared, [SPREAD]), without(shown, [SPREAD])
    search = Search(model, declared, CONVENTIONS[conventions], choice.parameters)
    by_label, counts = search.run(progress)
    by_period = {} if divider is None else {name: period_cells(model, found) for name, found in by_label.items()}
    cells = by_label | {name: Cells.sum(of.call_path, of.location, of.value) for name, of in by_period.items()}
    clock = model.store.manifest["clock"]
    call_paths, system = CallAxis.of(model.call_paths.whole, model.regions), SystemAxis.of(model.store)
    teams = search.findings.teams
    excused = check_bounds(model, CONVENTIONS[conventions], teams, declared, cells, search.largest, call_paths, system)
    found = {k: int(v) for k, v in (counts_by_location(model) | counts | excused).items() if v}
    divided: dict[str, Any] = {}
    if divider is not None:
        axis, notes = period_axis(model)
        of_periods = {p.id: choice.period_cells(model, by_period[p.id]) for p in shown}
        divided = {"periods": axis, "period_cells": of_periods}
        without_time = [p.id for p in declared if p.match is not None and not has_interval(p, search.by_id)]
        found |= notes | period_notes(divider.kind, of_periods, n_left_out, without_time)
    devices = int(model.locations.is_device.sum())
    if devices:
        found["device streams, which are no CPUs: their times and visits are left out"] = devices
    for fact, what in OF_PIECES.items():
        n = str(model.store.manifest["source"].get(fact, 0))
        if n.isdecimal() and int(n):
            found[what] = int(n)
    neighbourhoods = calls_of_neighbourhoods(model) if model.locations.n_processes > 1 else 0
    if neighbourhoods:
        found[NEIGHBOURS] = neighbourhoods
    unseen = 0 if devices else visits_of(model, np.isin(model.regions.device_call, [LAUNCH, COPY]))
    if unseen:
        found[NO_STREAMS] = unseen
    found |= {f"records of {what}, which are not analysed": n for what, n in not_analysed(model.store.manifest).items()}
    follows_list = CONVENTIONS[conventions].idle is idle_cells
    displaced = displaced_call_paths(model, search.findings) if follows_list else 0
    overbooked = overbooked_threads(model, search.findings) if follows_list else 0
    if is_large:
        found[LEFT_OUT] = n_calls
    if is_long:
        found[TOO_LONG] = ticks
    if is_wide:
        found[TOO_MANY_CELLS] = n_spread
    if overbooked:
        found["threads that run while their process runs serially: their idle time counts besides"] = overbooked
    if displaced:
        found["call paths counted outside their parallel region, as the reference does"] = displaced
    if model.store.note:
        found[model.store.note] = 1
    facts: dict[str, Any] = {
        "conventions": conventions,
        "resolution": clock["resolution"],
        "trace": {
            **{k: model.store.manifest[k] for k in ("source", "n_events", "n_locations", "first_time", "last_time")},
            # what seconds since the start of the recording are counted from
            "origin": int(model.store.manifest["clock"]["origin"]),
        },
        "counts": found,
    }
    if interval := mpi_interval(model):
        facts["mpi_interval"] = interval
    if "device_time" in search.by_id:
        facts["device_efficiencies"] = device_efficiencies(model, search.device_times, search.findings.execution)
    if choice.facts():
        facts["narrowed"] = choice.facts()
    return SeverityCube(
        PropertyAxis.of(shown),
        call_paths,
        system,
        {p.id: choice.cells(model, cells[p.id]) for p in shown},
        facts,
        model.topologies,
        **divided,
    )
