"""What is kept of a store for its timeline: made by the first view, found again by later ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracecols.analysis.opened import OpenedTrace
from tracecols.analysis.request import Request
from tracecols.analysis.run import run, unwatched
from tracecols.enhance.scan.paths import with_descendants
from tracecols.errors import AnalysisError, StoreError
from tracecols.model.model import Progress
from tracecols.model.table_files import FOLDER
from tracecols.report.viewer.overview import diagnosis_of, overview
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import declared_for
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.cube import SeverityCube
from tracecols.severity.diagnosis import Diagnosis
from tracecols.store import Store
from tracecols.store.layout import read_manifest, write_manifest
from tracecols.store.outputs import folder_output
from tracecols.timeline.collected import WAITS, collect
from tracecols.timeline.counters import COUNTERS, write_counters
from tracecols.timeline.instances import of_finding, worst_instances
from tracecols.timeline.intervals import Intervals
from tracecols.timeline.marks import write_marks
from tracecols.timeline.overview import asked_properties, n_bins, write_overview
from tracecols.version import __version__
from tracecols.work.memory import give_back
from tracecols.work.scratch import temporary_folder

VERSION = 2
"""Grows when the same files hold something else."""

NAME = "timeline"
"""The folder among the enhanced tables of a store."""

Watch = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True)
class Prepared:
    """What is kept of a store for its timeline.

    Attributes
    ----------
    folder : Path
    content : dict
        Of its manifest.
    kept : object
        What lives as long as this: a temporary folder.
    """

    folder: Path
    content: dict[str, Any]
    kept: object = None


def _origin(store: Store) -> dict[str, Any]:
    return {"of": store.digest, "made_by": f"tracecols {__version__}, {VERSION}"}


def find_prepared(store: Store) -> Prepared | None:
    """Find what was kept of a store; None if there is nothing, or it was made of another store or by another
    version."""
    folder = store.path / FOLDER / NAME
    try:
        content, _ = read_manifest(folder)
        if any(content.get(k) != v for k, v in _origin(store).items()):
            return None
        if not all((folder / name).is_file() for name in content["files"]):
            return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return Prepared(folder, content)


def prepare(trace: OpenedTrace, cube: SeverityCube | None = None, watch: Watch = unwatched) -> Prepared:
    """Return what a timeline needs of a trace; it is made if it is not there.

    If the store is read-only it is kept in a temporary folder as long as what is returned exists.

    Parameters
    ----------
    trace : OpenedTrace
        With the threads and the memory that are used.
    cube : SeverityCube, optional
        Of the whole trace, whose diagnosis is shown; by default the trace is analysed for it.
    watch : callable
        As for `analysis.run.run`.

    Raises
    ------
    StoreError
        If it cannot be written.
    AnalysisError
        If the trace has no events.
    """
    store = trace.store
    found = find_prepared(store)
    if found is not None:
        return found
    if not int(store.manifest["n_events"]):
        raise AnalysisError(f"{store.path} has no events\n  there is nothing to draw")
    parent, kept = store.path / FOLDER, None
    if not os.access(parent if parent.exists() else store.path, os.W_OK):
        kept = temporary_folder()
        parent = kept.path
    output = folder_output(parent / NAME, "a timeline", is_part=True)
    with output.new() as folder:
        content, request = _of_whole(trace, cube, folder, watch)
        # the trace is opened anew: the models of the whole time and of the bins are never in memory together
        content["overview"] = write_overview(
            run(request, OpenedTrace(store, trace.jobs, trace.budget), watch=watch), folder
        )
        files = sorted(path.name for path in folder.iterdir())
        write_manifest(folder, "a timeline", VERSION, {**content, **_origin(store), "files": files})
    written, _ = read_manifest(parent / NAME)
    if any(written.get(k) != v for k, v in _origin(store).items()):
        raise StoreError(f"{parent / NAME} was replaced while it was made\n  try again")
    give_back()
    return Prepared(parent / NAME, written, kept)


def defined(store: Store) -> dict[str, list[str]]:
    """Return the names that a request may name."""
    return {name: store.definition(name).column("name").to_pylist() for name in ("regions", "metric_members")}


def _of_whole(
    given: OpenedTrace, cube: SeverityCube | None, folder: Path, watch: Watch
) -> tuple[dict[str, Any], Request]:
    """Write what follows from the whole time; returns what the manifest says of it, and the analysis by bins of which
    the overview is made."""
    store, trace = given.store, OpenedTrace(given.store, given.jobs, given.budget)
    whole = run(Request.of(defined(store)), trace, watch=watch) if cube is None else cube
    model = trace.model
    with watch("collecting") as report:
        collection = collect(model, folder, report)
    np.save(folder / "call-paths.npy", np.array([model.call_paths.parent, model.call_paths.region]))
    write_marks(store, folder / "marks.arrow", model.executor)
    write_counters(store, folder / COUNTERS, model.executor)
    waits = Intervals(folder / f"{WAITS}.arrow")
    properties = [p.id for p in collection.properties]
    axis = PropertyAxis.of(declared_for(model, DEFAULT, ()))
    content = {
        "rows": collection.n,
        "properties": [{"id": p.id, "title": p.title, "advice": p.advice} for p in collection.properties],
        "worst": worst_instances(waits, len(properties)),
        "findings": _findings(whole, diagnosis_of(whole), axis, properties, waits),
        "notes": collection.notes,
    }
    bins = n_bins(store.manifest, len(model.call_paths), model.executor.budget.memory)
    return content, Request.of(defined(store), properties=asked_properties(axis), bins=bins)


def _findings(
    cube: SeverityCube, found: Diagnosis | None, axis: PropertyAxis, properties: list[str], waits: Intervals
) -> list[dict[str, Any]]:
    """Return the findings of the diagnosis in words, each with the instance it leads to."""
    shown = overview(cube, found)
    if shown is None or found is None:
        return []
    numbers = {
        name: [i for i, p in enumerate(properties) if p in axis.number and name in (p, *axis.above(p))]
        for name in axis.id
    }

    def below(region: str) -> list[int]:
        """Return the call paths that enter a region, and those below them."""
        heads = cube.call_paths.name == region
        return np.flatnonzero(with_descendants(heads, cube.call_paths.end)).tolist() if heads.any() else []

    result = []
    for f, words in zip(found.findings, shown["findings"], strict=True):
        parts = [name for name, _ in f.parts] or [f.property]
        cause = _locations(cube, f.rank, f.thread)
        result.append(
            {
                "title": words["title"],
                "percent": words["percent"],
                "seconds": words["seconds"],
                "details": words["details"],
                "property": f.property,
                "region": f.cause_region,
                "cause": cause,
                "instance": of_finding(waits, parts, numbers, cause, below(f.cause_region)),
            }
        )
    return result


def _locations(cube: SeverityCube, rank: int | None, thread: int | None) -> list[int]:
    """Return the locations of a rank, or of one of its threads."""
    if rank is None:
        return []
    mine = cube.system.rank == rank
    if thread is not None:
        mine &= cube.system.thread == thread
    return [int(i) for i in mine.nonzero()[0]]
