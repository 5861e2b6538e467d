"""What several commands look at: a store, or an archive that is converted for the time being."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracecols.store import Store
    from tracecols.work.cluster import Cluster


def is_store(source: Path) -> bool:
    """Say whether a source is a store, or was meant to be one that is not there."""
    from tracecols.store.layout import MANIFEST

    return (source / MANIFEST).is_file() or (not source.exists() and source.suffix == ".trace")


def properties_of(source: Path) -> dict[str, Any]:
    """Return the properties of the source of a store, or of an archive: what a store that is made of it says of its
    source.

    Raises
    ------
    SourceError, StoreError
        If it is neither, or is damaged.
    """
    if is_store(source):
        from tracecols.store import Store

        return dict(Store(source).manifest["source"])
    from tracecols.converters.registry import open_source

    return dict(open_source(source).properties)


def names_of(source: Path) -> dict[str, list[str]]:
    """Return the names of the regions and counters of a store or an archive, as lists by definition table.

    Raises
    ------
    SourceError, StoreError
        If it is neither, or is damaged.
    """
    tables = ("regions", "metric_members")
    if is_store(source):
        from tracecols.store import Store

        store = Store(source)
        return {name: store.definition(name).column("name").to_pylist() for name in tables}
    from tracecols.converters.registry import open_source

    definitions = open_source(source).definitions
    return {name: list(definitions[name]["name"]) for name in tables}


@contextmanager
def opened(
    source: Path, jobs: int | None, cluster: Cluster | None = None, scratch: Path | None = None
) -> Iterator[Store]:
    """Open a store, or an archive as a temporary store that exists until the context ends; workers of a cluster convert
    it.

    Parameters
    ----------
    scratch : Path, optional
        Where the temporary store is made; by default among temporary files.

    Raises
    ------
    SourceError, StoreError
        If it is neither, is damaged, or there is no room for the temporary store.
    """
    from tracecols.cli.progress import progress
    from tracecols.conversion import convert, convert_with
    from tracecols.errors import StoreError
    from tracecols.store import Store
    from tracecols.work.scratch import MAKE_ROOM_IN_SHELL, temporary_folder

    if is_store(source):
        yield Store(source)
        return
    with temporary_folder(scratch) if cluster is None else nullcontext(cluster.folder) as folder:
        store = folder / "converted.trace"
        try:
            with progress("converting") as report:
                if cluster is None:
                    convert(source, store, jobs=jobs, progress=report)
                else:
                    convert_with(cluster, source, store, progress=report)
        except StoreError as error:
            raise StoreError(
                f"{str(error).splitlines()[0]}\n  {MAKE_ROOM_IN_SHELL}, or convert the trace to a store first"
            ) from error
        yield Store(store)
