"""Files kept with a store for its timeline: made by the first view, reused by later ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracecols.analysis.opened import OpenedTrace
from tracecols.analysis.request import Request, names_in
from tracecols.analysis.run import run, unwatched
from tracecols.enhance.dataflow.spill import save_array
from tracecols.enhance.scan.call_paths import CallPaths
from tracecols.enhance.scan.paths import with_descendants
from tracecols.errors import AnalysisError, StoreError
from tracecols.given.quantities import counted
from tracecols.model.model import Progress
from tracecols.model.table_files import FOLDER
from tracecols.patterns.base import Property
from tracecols.report.viewer.overview import diagnosis_of, overview
from tracecols.schema.properties import CRITICAL_PATH
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import declared_for
from tracecols.severity.axes import PropertyAxis
from tracecols.severity.cube import SeverityCube
from tracecols.severity.diagnosis import Diagnosis
from tracecols.store import Store
from tracecols.store.layout import read_manifest, write_manifest
from tracecols.store.outputs import folder_output
from tracecols.timeline.collected import COLUMNS, KINDS, WAITS, Collector, overview_properties
from tracecols.timeline.counters import COUNTERS, write_counters
from tracecols.timeline.instances import of_finding, worst_instances
from tracecols.timeline.intervals import Intervals, IntervalsWriter
from tracecols.timeline.marks import write_marks
from tracecols.timeline.overview import Overview, write_times
from tracecols.timeline.regions import Groups, plan, region_times
from tracecols.version import __version__
from tracecols.work.executors import Threads
from tracecols.work.heap import give_back
from tracecols.work.memory import Budget
from tracecols.work.scratch import ScratchFolder, temporary_folder

VERSION = 4
"""Version of the files; grows when their content changes."""

LARGE = 1 << 22
"""Number of events from which a first picture is shown before the analysis ends. For fewer, it takes a few seconds."""

MOST_TICKS = (1 << 63) // 100 * 99
"""Maximum length of a trace in ticks, times its locations: sums are 64-bit integers here, and from about this size
Python integers in cubes."""

NAME = "timeline"
"""Name of the folder among the enhanced tables of a store."""

Watch = Callable[[str], AbstractContextManager[Progress | None]]


@dataclass(frozen=True)
class Prepared:
    """The files of a timeline."""

    folder: Path
    content: dict[str, Any]
    """Content of their manifest."""
    kept: object = None
    """Object with the same lifetime: a temporary folder."""

    @property
    def is_first(self) -> bool:
        """Whether these are only the files for the first picture."""
        return "is_first" in self.content


def _origin(store: Store) -> dict[str, Any]:
    return {"of": store.digest, "made_by": f"tracecols {__version__}, {VERSION}"}


def find_prepared(store: Store) -> Prepared | None:
    """Find the files kept with a store; None if there are none, or they were made from another store or by another
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


def place_of(store: Store) -> tuple[Path, ScratchFolder | None]:
    """Return the parent of the folder `NAME` that holds the files of a timeline: the folder of the store's enhanced
    tables or, if the store is read-only, a temporary one."""
    parent = store.path / FOLDER
    if os.access(parent if parent.exists() else store.path, os.W_OK):
        return parent, None
    kept = temporary_folder()
    return kept.path, kept


def prepare(trace: OpenedTrace, watch: Watch = unwatched) -> Prepared:
    """Return the files of a trace's timeline; make them if they do not exist.

    If the store is read-only, they are kept in a temporary folder for the lifetime of the result. Raises StoreError if
    they cannot be written. Raises AnalysisError if the trace has no events, or more ticks than 64 bits hold.
    """
    found = find_prepared(trace.store)
    if found is not None:
        return found
    parent, kept = place_of(trace.store)
    return Prepared(parent / NAME, make(trace, parent, watch), kept)


def make(
    trace: OpenedTrace, parent: Path, watch: Watch = unwatched, show: Callable[[Prepared], None] | None = None
) -> dict[str, Any]:
    """Make the files of a trace's timeline below `parent`, see `place_of`, and return the content of their manifest.

    For large traces, `show` is called with the files of the first picture as soon as they exist. These are removed
    later, so the callee must open those that it needs. Raises StoreError, AnalysisError: as `prepare`.
    """
    store = trace.store
    _check(store)
    output = folder_output(parent / NAME, "a timeline", is_part=True)
    with output.new() as folder:
        first = folder / "first"
        first.mkdir()
        shown = Prepared(first, _first(trace, first, watch))
        give_back()
        if show is not None and int(store.manifest["n_events"]) >= LARGE:
            show(shown)
        content = _rest(trace, shown, folder, watch)
        files = sorted(path.name for path in folder.iterdir())
        write_manifest(folder, "a timeline", VERSION, {**content, **_origin(store), "files": files})
    written, _ = read_manifest(parent / NAME)
    if any(written.get(k) != v for k, v in _origin(store).items()):
        raise StoreError(f"{parent / NAME} was replaced while it was made\n  try again")
    give_back()
    return written


def _check(store: Store) -> None:
    """Check that a trace can be drawn. Raises AnalysisError if it has no events, or too many ticks."""
    if not int(store.manifest["n_events"]):
        raise AnalysisError(f"{store.path} has no events\n  there is nothing to draw")
    n_locations, length = int(store.manifest["n_locations"]), int(store.manifest["last_time"])
    length -= int(store.manifest["first_time"])
    if length * n_locations > MOST_TICKS:
        raise AnalysisError(
            f"{store.path} has {counted(n_locations, 'location')} and lasts {length:,} ticks: times of all locations "
            "exceed 64 bits\n"
            "  cut a piece to view: tracecols export STORE part.otf2 --from SECONDS --to SECONDS"
        )


def _anew(trace: OpenedTrace) -> OpenedTrace:
    """Open a trace anew, so that the model of the bins and another one, which take much memory, never exist at the same
    time."""
    return OpenedTrace(trace.store, trace.jobs, trace.budget, ask=trace.ask)


def _first(trace: OpenedTrace, folder: Path, watch: Watch) -> dict[str, Any]:
    """Write the files of the first picture: times of regions, marks and counters, which a scan finds without matching
    events of different processes. Return the content of the manifest."""
    paths, shown, planned = _scanned(trace, watch)
    save_array(folder / "call-paths.npy", np.array([paths.parent, paths.region]))
    with watch("analyzing regions") as report:
        times, bounds = region_times(trace, paths, [p.id for p in shown], planned, report)
    times.write_dominant(folder)
    overview = write_times(PropertyAxis.of(shown), times.severities, bounds, folder)
    executor = Threads(trace.jobs, trace.budget or Budget.default(), ask=trace.ask)
    with watch("marking"):
        write_marks(trace.store, folder / "marks.arrow", executor)
        write_counters(trace.store, folder / COUNTERS, executor)
    for kind in KINDS:
        with IntervalsWriter(folder / f"{kind}.arrow", COLUMNS[kind]):
            pass
    nothing: dict[str, Any] = {name: [] for name in ("properties", "worst", "findings", "notes")}
    return {"rows": dict.fromkeys(KINDS, 0), **nothing, "overview": overview, "is_first": True}


def _scanned(trace: OpenedTrace, watch: Watch) -> tuple[CallPaths, list[Property], tuple[int, Groups]]:
    """Return the call paths, the properties whose times a scan finds, and the plan for `region_times`. The model is not
    kept, since it takes much memory."""
    with watch("scanning") as report:
        model = _anew(trace).model_of(progress=report)
    shown, spread = overview_properties(model)
    return model.call_paths, [p for p in shown if p.id not in spread and p.id != CRITICAL_PATH], plan(model)


def _rest(trace: OpenedTrace, first: Prepared, folder: Path, watch: Watch) -> dict[str, Any]:
    """Write the results of an analysis, and move the remaining files of the first picture; return the content of the
    manifest."""
    trace = _anew(trace)
    with watch("scanning") as report:
        model = trace.model_of(progress=report, with_focus=True)
    shown, spread = overview_properties(model)
    of_regions = Overview(first.folder, first.content["overview"])
    with Collector(model, folder, spread, of_regions.bounds.size - 1) as collector:
        whole = run(Request.of(names_in(trace.store)), trace, watch=watch, also=(collector,))
    severities = {name: of_regions.finest(name) for name in of_regions.properties} | collector.severities
    content = {
        "rows": collector.n,
        "properties": [{"id": p.id, "title": p.title, "advice": p.advice} for p in collector.waits],
        "notes": collector.notes,
        "overview": write_times(PropertyAxis.of(shown), severities, of_regions.bounds, folder),
    }
    for path in sorted(first.folder.iterdir()):
        if not (folder / path.name).exists():
            path.rename(folder / path.name)
    shutil.rmtree(first.folder)
    waits, properties = Intervals(folder / f"{WAITS}.arrow"), [p.id for p in collector.waits]
    axis = PropertyAxis.of(declared_for(model, DEFAULT, ()))
    worst = worst_instances(waits, len(properties))
    return {**content, "worst": worst, "findings": _findings(whole, diagnosis_of(whole), axis, properties, waits)}


def _findings(
    cube: SeverityCube, found: Diagnosis | None, axis: PropertyAxis, properties: list[str], waits: Intervals
) -> list[dict[str, Any]]:
    """Return the findings of the diagnosis in words, each with the instance that it links to."""
    if found is None:
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
    for f, words in zip(found.findings, overview(cube, found)["findings"], strict=True):
        parts = [name for name, _ in f.parts] or [f.property]
        cause = _locations(cube, f.rank, f.thread)
        result.append(
            {
                **{name: words[name] for name in ("title", "percent", "seconds", "details")},
                "property": f.property,
                "region": f.cause_region,
                "cause": cause,
                "instance": of_finding(waits, parts, numbers, cause, below(f.cause_region)),
            }
        )
    return result


def _locations(cube: SeverityCube, rank: int | None, thread: int | None) -> list[int]:
    """Return the locations of a rank, or of one of its threads; none without a rank."""
    if rank is None:
        return []
    mine = cube.system.rank == rank
    if thread is not None:
        mine &= cube.system.thread == thread
    return [int(i) for i in mine.nonzero()[0]]
