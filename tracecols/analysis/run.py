"""From an opened trace and a request to the severity cube."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext

from tracecols.analysis.opened import OpenedTrace
from tracecols.analysis.request import Request
from tracecols.findings.search import facts_of_causes
from tracecols.replay.efficiencies import times_of_window
from tracecols.search.cube import analyze_model
from tracecols.severity.causes import CAUSES, NARROWED
from tracecols.severity.cube import SeverityCube
from tracecols.severity.efficiencies import KEPT, REPLAY, as_facts
from tracecols.slices.opened import open_slice
from tracecols.work.cluster import Cluster
from tracecols.work.progress import SCAN, Progress, shares_of

Watch = Callable[[str], AbstractContextManager[Progress | None]]
"""Given what begins (`cutting`, `analyzing`): a context that yields what is called with what is done and what is to be
done."""


def unwatched(_what: str) -> AbstractContextManager[None]:
    """Watch nothing."""
    return nullcontext()


def run(request: Request, trace: OpenedTrace, workers: Cluster | None = None, watch: Watch = unwatched) -> SeverityCube:
    """Analyse a trace.

    Parameters
    ----------
    workers : Cluster, optional
        Who does the work; by default threads of this process.

    Raises
    ------
    AnalysisError
        If something that is asked for does not exist in this trace, a pattern fails, or the trace cannot be replayed.
    """
    choice = request.choice
    with ExitStack() as stack:
        if choice.start is not None or choice.stop is not None:
            folder = None if workers is None else workers.folder
            with watch("cutting") as report:
                store = stack.enter_context(
                    open_slice(trace.store, choice.start, choice.stop, trace.jobs, report, folder)
                )
            trace = OpenedTrace(store, trace.jobs)
        with watch("analyzing") as report:
            scanning, searching = shares_of(report, trace.store.manifest["n_events"], SCAN, 1 - SCAN)
            model = trace.model_of(choice.periods, workers, scanning)
            cube = analyze_model(model, request.conventions, request.families, choice, request.topologies, searching)
        if request.ideal_network:
            found = times_of_window(trace.replay, choice.within, REPLAY, trace.jobs, request.conventions)
            cube.facts[KEPT] = as_facts(found)
        if _wants_causes(request, cube):
            causes = facts_of_causes(trace.replay)
            if causes is not None:
                cube.facts[CAUSES] = causes
    return cube


def _wants_causes(request: Request, cube: SeverityCube) -> bool:
    """Say whether the causes of lost time are looked for by replay: of whole analyses, not by rules that have no root
    causes."""
    is_whole = not NARROWED & set(cube.facts.get("narrowed") or {}) and "time" in cube.cells
    return is_whole and request.conventions != "expert"
