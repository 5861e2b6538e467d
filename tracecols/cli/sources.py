"""Inputs of commands: stores, cubes, and archives that are converted to temporary stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracecols.cli.vocabulary import Part
    from tracecols.converters.base import Source
    from tracecols.severity.cube import SeverityCube
    from tracecols.store import Store
    from tracecols.trace import Trace
    from tracecols.work.cluster import Cluster


def is_store(source: Path) -> bool:
    """Return whether a source is a store, or names a store that does not exist."""
    from tracecols.store.layout import MANIFEST

    return (source / MANIFEST).is_file() or (not source.exists() and source.suffix == ".trace")


def properties_of(source: Path) -> dict[str, Any]:
    """Return the properties of an archive, or of the source of a store: the entry `source` of the manifest of a store
    made from it. Raises SourceError or StoreError if it is neither, or is damaged."""
    from tracecols.store import Store

    found = found_in(source)
    return dict(found.manifest["source"] if isinstance(found, Store) else found.properties)


def names_of(found: Store | Source) -> dict[str, list[str]]:
    """Return the names of the regions and counters of a store or an archive, as lists by definition table. Raises
    StoreError if it is damaged."""
    from tracecols.analysis.request import NAMED, names_in
    from tracecols.store import Store

    if isinstance(found, Store):
        return names_in(found)
    return {name: list(found.definitions[name]["name"]) for name in NAMED}


def found_in(source: Path) -> Store | Source:
    """Open a store or an archive. Raises SourceError or StoreError if it is neither, or is damaged."""
    if is_store(source):
        from tracecols.store import Store

        return Store(source)
    from tracecols.converters.registry import open_source

    return open_source(source)


@contextmanager
def opened(
    source: Path | Store | Source,
    jobs: int | None,
    cluster: Cluster | None = None,
    scratch: Path | None = None,
    *,
    salvage: bool = False,
) -> Iterator[Store]:
    """Open a store; convert an archive to a temporary store, in `scratch` or the default temporary folder, which exists
    until the context ends. If a cluster is given, its workers convert, in its own folder. With `salvage`, what can be
    read of a damaged archive is kept. Raises SourceError or StoreError if it is neither, is damaged, or there is no
    room for the temporary store."""
    from tracecols.cli.progress import progress
    from tracecols.conversion import convert_opened
    from tracecols.errors import StoreError
    from tracecols.store import Store
    from tracecols.work.jobs import n_jobs
    from tracecols.work.scratch import MAKE_ROOM_IN_SHELL, temporary_folder

    found = found_in(source) if isinstance(source, Path) else source
    if isinstance(found, Store):
        yield found
        return
    with temporary_folder(scratch) if cluster is None else nullcontext(cluster.folder) as folder:
        store = folder / "converted.trace"
        try:
            with progress("converting") as report:
                how: dict[str, Any] = {"jobs": n_jobs(jobs), "salvage": salvage, "progress": report}
                definitions = convert_opened(found, store, workers=cluster, **how)
        except StoreError as error:
            raise StoreError(
                f"{str(error).splitlines()[0]}\n  {MAKE_ROOM_IN_SHELL}, or convert the trace to a store first"
            ) from error
        # free the memory of an opened archive before the analysis
        del source, found
        yield Store(store, definitions)


@contextmanager
def piece(source: Path, part: Part, jobs: int | None) -> Iterator[Trace]:
    """Open a store or an archive, or the requested time range of it, as a trace until the context ends. Raises
    SourceError, StoreError or AnalysisError if it is neither, is damaged, or the time range is empty."""
    from tracecols.trace import Trace

    with opened(source, jobs) as store:
        trace = Trace(store.path, jobs=jobs)
        with trace.piece(part.start, part.stop) if part.is_piece else nullcontext(trace) as found:
            yield found


def holds_cube(source: Path) -> bool:
    """Return whether a source is to be read as a severity cube (of this or another tool), since it is neither a store
    nor an archive."""
    from tracecols.converters.registry import find_anchor
    from tracecols.errors import SourceError
    from tracecols.store.layout import is_made_here

    if is_made_here(source, "a severity cube"):
        return True
    if is_store(source):
        return False
    try:
        find_anchor(source)
    except SourceError:
        return True
    return False


def cube_of(source: Path, jobs: int | None = None) -> SeverityCube:
    """Read a severity cube, or analyse a store or an archive without keeping the result on disk. Raises TracecolsError
    if it is none of these, or is damaged."""
    from tracecols.export.cube_read import read_cube

    if holds_cube(source):
        return read_cube(source)
    from tracecols.analysis.opened import OpenedTrace
    from tracecols.analysis.request import Request
    from tracecols.analysis.run import run
    from tracecols.cli.progress import compiling_ahead, progress
    from tracecols.work.jobs import n_jobs

    found = found_in(source)
    request = Request.of(names_of(found))
    with compiling_ahead(n_jobs(jobs)), opened(found, jobs) as store:
        del found
        return run(request, OpenedTrace(store, jobs), None, progress)
