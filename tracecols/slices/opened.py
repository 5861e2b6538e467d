"""Open a trace slice as a temporary store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracecols.conversion import write_store
from tracecols.slices.source import StoreSource, time_range_ticks
from tracecols.store import Store
from tracecols.work.progress import Progress
from tracecols.work.scratch import naming_full_disks, temporary_folder


@contextmanager
def open_slice(
    store: Store,
    start: float | None,
    stop: float | None,
    jobs: int,
    progress: Progress | None = None,
    scratch: Path | None = None,
) -> Iterator[Store]:
    """Open the events between two times (seconds since the start of the recording) as a store that exists until the
    context ends; the store itself if neither is given.

    Regions open at the start are entered there, those open at the end are closed there (`tracecols.slices.plan`).
    `progress` is called with the number of events done and of all. The store is in a temporary folder in `scratch`, by
    default in that of `tempfile` (`TMPDIR`). Raises AnalysisError if no event lies between them.
    """
    if start is None and stop is None:
        yield store
        return
    time_range = time_range_ticks(store, start, stop)
    with temporary_folder(scratch) as parent:
        folder = parent / "piece.trace"
        folder.mkdir()
        source = StoreSource(store, None, *time_range, jobs=jobs, keeps_unmatched=True)
        # a slice is named after the trace it is cut from
        source.path = Path(store.manifest["source"].get("path", store.path))
        with naming_full_disks(parent):
            write_store(source, folder, jobs=jobs, salvage=False, progress=progress)
        yield Store(folder)
