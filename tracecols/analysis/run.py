"""From an opened trace and a request to the severity cube."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from tracecols.analysis.opened import OpenedTrace, is_scanned
from tracecols.analysis.request import Request
from tracecols.enhance.scan.periods import NO_PERIODS
from tracecols.errors import AnalysisError
from tracecols.findings.search import facts_of_causes, has_causes
from tracecols.model.model import Model
from tracecols.patterns.periods import within_phases
from tracecols.patterns.registry import CONVENTIONS
from tracecols.replay.efficiencies import ideal_runtime, ideal_within, is_replayed, knows_enough
from tracecols.replay.graph import GraphBuilder
from tracecols.replay.replay import Replay
from tracecols.schema.properties import TIME
from tracecols.search.choice import with_topologies
from tracecols.search.cube import analyze_model
from tracecols.search.search import Visitor
from tracecols.severity.causes import CAUSES, NARROWED
from tracecols.severity.cube import SeverityCube
from tracecols.severity.efficiencies import IDEAL_RUNTIME, REPLAY_NOTES
from tracecols.work.cluster import Cluster
from tracecols.work.executors import beside
from tracecols.work.memory import release
from tracecols.work.progress import SCAN, Progress, shares_of

Watch = Callable[[str], AbstractContextManager[Progress | None]]
"""A function that, given the step that begins (`cutting`, `analyzing`, `finding causes`), returns a context that yields
a progress callback, called with the finished and the total work."""


def unwatched(_what: str) -> AbstractContextManager[None]:
    return nullcontext()


def run(
    request: Request,
    trace: OpenedTrace,
    workers: Cluster | None = None,
    watch: Watch = unwatched,
    also: Sequence[Visitor] = (),
) -> SeverityCube:
    """Analyse a trace, by `workers` or threads of this process; `also` are visitors of the slices of the search. Raises
    AnalysisError if something that is asked for does not exist in this trace, a pattern fails, or the trace cannot be
    replayed."""
    choice, whole = request.choice, trace
    with ExitStack() as stack:
        if workers is None:
            stack.enter_context(trace.at_work())
        if choice.start is not None or choice.stop is not None:
            # imported only if a trace is cut
            from tracecols.slices.opened import open_slice

            scratch = trace.scratch if workers is None else workers.folder
            with watch("cutting") as report:
                store = stack.enter_context(
                    open_slice(trace.store, choice.start, choice.stop, trace.jobs, report, scratch)
                )
            trace = OpenedTrace(store, trace.jobs, trace.budget, ask=trace.ask)
        with watch("analyzing") as report:
            is_divided = divides_with_focus(request)
            scan = 0 if workers is None and is_scanned(trace, choice.periods, is_divided) else SCAN
            scanning, searching = shares_of(report, trace.store.manifest["n_events"], scan, 1 - scan)
            model = trace.model_of(choice.periods, workers, scanning, with_focus=is_divided)
            # nodes and edges of a replay are found in the slices that the search visits, in the same pass
            found = _graph_builder(request, model)
            visitors = (*also, *([found] if found is not None else []))
            of_pieces = stack.enter_context(_causes_of_pieces(request, whole, trace, model, watch))
            cube = analyze_model(
                model, request.conventions, request.families, choice, request.topologies, searching, visitors
            )
            if not is_divided and trace.focus is not None:
                cube = _with_focus(cube, request, trace, workers)
        if found is not None:
            # the search has left much free memory in small pieces, and a replay takes few large arrays
            release()
            placed = with_topologies(model, request.topologies)
            cube.facts |= _facts_of_replay(cube, request, Replay(placed, found))
        if TIME in cube.cells:
            cube.facts |= of_pieces(cube)
    return cube.with_metrics(*request.metrics)


def divides_with_focus(request: Request) -> bool:
    """Return whether one analysis finds the severities of the whole time and those outside of the focus. Otherwise it
    takes two: phases are not time ranges, and sums of parts of seconds are rounded differently from the whole."""
    return request.choice.periods.phases is None and not CONVENTIONS[request.conventions].quirks.rounds_seconds


def _graph_builder(request: Request, model: Model) -> GraphBuilder | None:
    """Return the builder of the replay graph, or None if the trace is not replayed."""
    with_causes = _wants_causes(request) and has_causes(model)
    wants_ideal = request.ideal_network or (_is_everything(request) and is_replayed(model))
    return GraphBuilder(model, with_causes) if with_causes or wants_ideal else None


def _is_everything(request: Request) -> bool:
    """Return whether an analysis covers all properties and locations."""
    return request.choice.properties is None and request.choice.locations is None


def _facts_of_replay(cube: SeverityCube, request: Request, replay: Replay) -> dict[str, Any]:
    """Return the facts of a cube that follow from a replay: the runtime on an ideal network, and the causes of lost
    time."""
    facts: dict[str, Any] = {}
    if (ideal := _ideal_runtime(cube, request, replay)) is not None:
        facts |= {IDEAL_RUNTIME: ideal, REPLAY_NOTES: {what: int(n) for what, n in replay.counts.items() if n}}
    if _wants_causes(request) and TIME in cube.cells and has_causes(replay.model):
        facts |= _facts_of_causes(facts_of_causes(replay))
    return facts


@contextmanager
def _causes_of_pieces(
    request: Request, whole: OpenedTrace, trace: OpenedTrace, model: Model, watch: Watch
) -> Iterator[Callable[[SeverityCube], dict[str, Any]]]:
    """Yield a function that returns the facts about causes of lost time for the cube of a trace that is too large to
    try them on all of it; `whole` is the trace that `trace` is a part of, or itself. Pieces are searched while the
    trace is analysed, or after it if memory does not suffice for both."""
    if not _wants_causes(request) or has_causes(model):
        yield lambda _cube: {}
        return
    # imported only if a trace is that large
    from tracecols.analysis.pieces import causes_in_pieces, fits_beside, why_not_cut

    # memory that was free when the analysis began, which has taken some of it
    given = whole.store, model.executor.budget.memory, whole.jobs
    find = partial(causes_in_pieces, whole, trace, model.call_paths.whole, model.n_calls)
    if (note := why_not_cut(*given)) is not None:
        yield lambda cube: {"counts": {**cube.facts["counts"], note: model.n_calls}}
    elif fits_beside(*given):
        with beside(lambda go_on: find(go_on, lambda _done, _all: go_on()), whole.ask) as causes:
            yield lambda _cube: _facts_of_causes(causes())
    else:

        def after(_cube: SeverityCube) -> dict[str, Any]:
            with watch("finding causes") as report:
                return _facts_of_causes(find(whole.ask, report))

        yield after


def _facts_of_causes(causes: dict[str, Any] | None) -> dict[str, Any]:
    """Return the facts of a cube about causes; empty if there are none."""
    return {} if causes is None else {CAUSES: causes}


def _ideal_runtime(cube: SeverityCube, request: Request, replay: Replay) -> int | None:
    """Return the runtime on an ideal network in ticks if it is asked for, or costs no more than the analysis; else
    None."""
    choice = request.choice
    is_wanted = _is_everything(request) and TIME in cube.cells and is_replayed(replay.model)
    if not request.ideal_network and not is_wanted:
        return None
    try:
        if choice.within is not None:
            ideal = ideal_within(replay, choice.within)
        else:
            ideal = ideal_runtime(replay, is_piece=choice.start is not None or choice.stop is not None)
    except AnalysisError:
        if request.ideal_network:
            raise
        # messages or locks contradict each other
        return None
    return ideal if request.ideal_network or knows_enough(replay, cube) else None


def _with_focus(cube: SeverityCube, request: Request, trace: OpenedTrace, workers: Cluster | None) -> SeverityCube:
    """Add the severities outside of the focus, found by a second analysis that is divided at its ends."""
    choice = request.choice
    has_phases = choice.periods.phases is not None
    periods = NO_PERIODS if has_phases else choice.periods
    model = trace.model_of(periods, workers, with_focus=True)
    found = analyze_model(
        model,
        request.conventions,
        request.families,
        replace(choice, periods=periods),
        request.topologies,
        by_side=has_phases,
    )
    outside = found.outside or {}
    if has_phases:
        outside = {
            name: within_phases(of, cube.period_cells[name]) for name, of in outside.items() if name in cube.cells
        }
    return cube.replaced(outside=outside, facts=cube.facts | {"focus_window": found.facts["focus_window"]})


def _wants_causes(request: Request) -> bool:
    """Return whether the causes of lost time are looked for by replay: only in analyses of all properties with default
    parameters, and not by conventions without root causes."""
    return not NARROWED & set(request.choice.facts()) and request.conventions != "expert"
