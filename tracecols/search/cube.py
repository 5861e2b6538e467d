"""From the model of a trace to its severity cube."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracecols.enhance.scan.periods import FOCUS, KINDS
from tracecols.model.model import Model, Progress
from tracecols.patterns.base import Family
from tracecols.patterns.bounds import check_bounds
from tracecols.patterns.device_times import device_efficiencies
from tracecols.patterns.interval import mpi_interval
from tracecols.patterns.periods import BEFORE, by_bin, of_no_period, period_axis, period_cells, period_notes
from tracecols.patterns.registry import CONVENTIONS, needed
from tracecols.schema.properties import DEVICE_TIME, VISITS
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import EVERYTHING, Choice, check_conventions, declared_for, with_topologies
from tracecols.search.limits import within_limits, without_undivided
from tracecols.search.notes import counts_by_location, notes_of_threads, notes_of_trace
from tracecols.search.search import Search, Visitor
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis
from tracecols.severity.cells import Cells
from tracecols.severity.cube import SeverityCube
from tracecols.severity.periods import OUTSIDE as NO_PERIOD
from tracecols.severity.periods import PeriodCells


def analyze_model(
    model: Model,
    conventions: str = DEFAULT,
    patterns: Iterable[Family] = (),
    choice: Choice = EVERYTHING,
    topologies: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    progress: Progress | None = None,
    also: Sequence[Visitor] = (),
    *,
    by_side: bool = False,
) -> SeverityCube:
    """Compute the severity cube of an enhanced model.

    `topologies` are user-defined (`enhance.definitions.topologies.given_topology`), besides those of the trace.
    `progress` is called with the finished and the total work of the search; the scan of a trace belongs to its model.
    `also` are visitors of the slices of the trace in the same pass. If `by_side`, for a model that is divided at the
    ends of the focus only, severities outside of it have their side as period (`patterns.periods.BEFORE`, `AFTER`).
    Raises AnalysisError if something chosen does not exist, or a pattern fails.
    """
    check_conventions(conventions)
    rules = CONVENTIONS[conventions]
    model = with_topologies(model, topologies).with_quirks(rules.quirks)
    declared = shown = declared_for(model, conventions, patterns)
    choice = choice.resolved(declared)
    if choice.properties is not None:
        computed, asked = needed(declared, choice.properties)
        declared, shown = ([p for p in declared if p.id in ids] for ids in (computed, asked))
    declared, shown, n_undivided = without_undivided(model, declared, shown, choice)
    declared, shown, left_out = within_limits(model, declared, shown, choice, rules)
    search = Search(model, declared, rules, choice.parameters)
    by_label, counts = search.run(progress, also)
    cells, by_period, outside = _by_period(model, search, by_label)
    divider = model.call_paths.divider
    call_paths, system = CallAxis.of(model.call_paths.whole, model.regions), SystemAxis.of(model.store)
    findings = search.findings
    excused = check_bounds(model, rules, findings.teams, declared, cells, search.largest, call_paths, system)
    notes = {k: int(v) for k, v in (counts_by_location(model) | counts | excused).items() if v}
    divided: dict[str, Any] = {}
    if outside is not None:
        of_shown = {p.id: choice.cells(model, outside[p.id]) for p in shown}
        is_by_bin = divider is not None and divider.kind in KINDS
        divided["outside"] = of_shown if by_side or is_by_bin else {k: of_no_period(v) for k, v in of_shown.items()}
    if divider is not None and divider.kind in KINDS:
        axis, of_axis = period_axis(model)
        of_periods = {p.id: choice.cells(model, by_period[p.id]) for p in shown}
        divided |= {"periods": axis, "period_cells": of_periods}
        without_time = [p.id for p in declared if p.pattern is not None and p.timed_by is None]
        notes |= of_axis | period_notes(divider.kind, of_periods, n_undivided, without_time)
    notes |= notes_of_trace(model) | left_out | notes_of_threads(model, findings)
    if model.store.note:
        notes[model.store.note] = 1
    return SeverityCube(
        PropertyAxis.of(shown),
        call_paths,
        system,
        {p.id: choice.cells(model, cells[p.id]) for p in shown},
        _facts(model, conventions, search, choice, notes),
        list(model.topologies),
        **divided,
    )


def _by_period(
    model: Model, search: Search, by_label: dict[str, Cells]
) -> tuple[dict[str, Cells], dict[str, PeriodCells], dict[str, PeriodCells] | None]:
    """Return the cells of the whole time, those by phase or bin, and those outside of the focus; None for the last if
    the focus is not distinguished."""
    divider = model.call_paths.divider
    if divider is None:
        return by_label, {}, None
    undivided = search.undivided()
    cells: dict[str, Cells] = {}
    by_period: dict[str, PeriodCells] = {}
    outside: dict[str, PeriodCells] = {}
    for name in list(by_label):
        # cells of many locations take most of the memory: they are converted property by property
        cells[name] = found = by_label.pop(name)
        if name not in undivided:
            of = period_cells(model, found)
            cells[name] = of.summed()
            if divider.by_time:
                of, outside[name] = by_bin(model, of)
            if divider.kind != FOCUS:
                by_period[name] = of
    if not divider.by_time:
        return cells, by_period, None
    in_focus = _InFocus(cells, dict(outside))
    for name, function in undivided.items():
        cells[name] = function(cells)
        left = cells[name] - function(in_focus)
        period = np.full(len(left), BEFORE if divider.kind == FOCUS else NO_PERIOD, np.int32)
        outside[name] = PeriodCells(left.call_path, left.location, period, left.value)
    return cells, by_period, outside if divider.kind == FOCUS or divider.has_focus else None


@dataclass(frozen=True)
class _InFocus(Mapping[str, Cells]):
    """The cells in the focus, made on access. Visits are those of the whole time: a location that enters a call path
    before the focus takes part in it in the focus as well.
    """

    cells: Mapping[str, Cells]
    """Of the whole time."""
    outside: Mapping[str, PeriodCells]

    def __getitem__(self, name: str) -> Cells:
        return self.cells[name] if name == VISITS else self.cells[name] - self.outside[name].summed()

    def __iter__(self) -> Iterator[str]:
        return iter(self.outside)

    def __len__(self) -> int:
        return len(self.outside)


def _facts(model: Model, conventions: str, search: Search, choice: Choice, notes: Mapping[str, int]) -> dict[str, Any]:
    """Return the facts of a cube."""
    manifest = model.store.manifest
    clock = manifest["clock"]
    facts: dict[str, Any] = {
        "conventions": conventions,
        "resolution": clock["resolution"],
        "trace": {
            **{k: manifest[k] for k in ("source", "n_events", "n_locations", "first_time", "last_time")},
            # the origin of seconds since the start of the recording
            "origin": int(clock["origin"]),
        },
        "counts": dict(notes),
    }
    if interval := mpi_interval(model):
        facts["mpi_interval"] = interval
    if (by := model.call_paths.divider) is not None and by.by_time and by.has_focus:
        facts["focus_window"] = {"begin": int(by.focus[:, 0].min()), "end": int(by.focus[:, 1].max())}
    if late := _late_processes(model):
        facts["late_processes"] = late
    if DEVICE_TIME in search.by_id:
        facts["device_efficiencies"] = device_efficiencies(model, search.device_times, search.findings.execution)
    if found := next((t.found._asdict() for t in model.topologies if t.found is not None), None):
        facts["topology_found"] = found
    if choice.facts():
        facts["narrowed"] = choice.facts()
    return facts


def _late_processes(model: Model) -> list[dict[str, int]]:
    """Return rank, begin and start of the focus (ticks) of processes that have another MPI_COMM_WORLD than the one that
    begins first."""
    locations, world = model.locations, model.facts.communicators.world
    masters = np.flatnonzero(locations.master == np.arange(len(locations)))
    masters = masters[np.array([model.scans[i].n > 0 for i in masters.tolist()], bool)]
    begin = np.array([model.scans[i].first_time for i in masters.tolist()], np.int64)
    if (world < 0).all() or not masters.size:
        return []
    by = model.call_paths.divider
    focus = by.focus[masters, 0] if by is not None and by.by_time and by.has_focus else begin
    of = world[locations.process[masters]]
    rank = model.store.definitions["processes"].column("rank").to_numpy()[locations.process[masters]]
    late = np.flatnonzero(of != of[np.argmin(begin)])
    return [
        {"rank": int(r), "begin": int(b), "focus": int(f)}
        for r, b, f in zip(rank[late], begin[late], focus[late], strict=True)
    ]
