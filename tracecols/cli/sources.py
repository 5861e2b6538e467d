"""What several commands look at: a store, or an archive that is converted for the time being."""

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
    """Say whether a source is a store, or was meant to be one that is not there."""
    from tracecols.store.layout import MANIFEST

    return (source / MANIFEST).is_file() or (not source.exists() and source.suffix == ".trace")


def properties_of(source: Path) -> dict[str, Any]:
    """Return the properties of the source of a store, or of an archive: what a store that is made of it says of its
    source. Raises SourceError, StoreError if it is neither, or is damaged."""
    if is_store(source):
        from tracecols.store import Store

        return dict(Store(source).manifest["source"])
    from tracecols.converters.registry import open_source

    return dict(open_source(source).properties)


def names_of(found: Store | Source) -> dict[str, list[str]]:
    """Return the names of the regions and counters of a store or an archive, as lists by definition table. Raises
    StoreError if it is damaged."""
    from tracecols.store import Store

    tables = ("regions", "metric_members")
    if isinstance(found, Store):
        return {table: found.names(table) for table in tables}
    return {name: list(found.definitions[name]["name"]) for name in tables}


def found_in(source: Path) -> Store | Source:
    """Open a store or an archive. Raises SourceError, StoreError if it is neither, or is damaged."""
    if is_store(source):
        from tracecols.store import Store

        return Store(source)
    from tracecols.converters.registry import open_source

    return open_source(source)


@contextmanager
def opened(
    source: Path | Store | Source, jobs: int | None, cluster: Cluster | None = None, scratch: Path | None = None
) -> Iterator[Store]:
    """Open a store, or an archive as a temporary store, in `scratch` or among temporary files, that exists until the
    context ends; workers of a cluster convert it. Raises SourceError, StoreError if it is neither, is damaged, or there
    is no room for the temporary store."""
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
                definitions = convert_opened(found, store, jobs=n_jobs(jobs), workers=cluster, progress=report)
        except StoreError as error:
            raise StoreError(
                f"{str(error).splitlines()[0]}\n  {MAKE_ROOM_IN_SHELL}, or convert the trace to a store first"
            ) from error
        # what an archive has in memory is not kept during an analysis
        del source, found
        yield Store(store, definitions)


@contextmanager
def piece(source: Path, part: Part, jobs: int | None) -> Iterator[Trace]:
    """Open a store or an archive, or the piece of it that was asked for, as a trace until the context ends. Raises
    SourceError, StoreError, AnalysisError if it is neither, is damaged, or nothing can lie in the piece."""
    from tracecols.trace import Trace

    with opened(source, jobs) as store:
        trace = Trace(store.path, jobs=jobs)
        with trace.piece(part.start, part.stop) if part.is_piece else nullcontext(trace) as found:
            yield found


def holds_cube(source: Path) -> bool:
    """Say whether a source is to be read as a severity cube, of this or another tool: it is neither a store nor an
    archive."""
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
    """Read a severity cube; a store or an archive is analysed, and nothing of that is kept. Raises TracecolsError if it
    is none of these, or is damaged."""
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
