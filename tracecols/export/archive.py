"""A store, or a piece of it, as an OTF2 archive for other tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from tracecols.converters.base import Report
from tracecols.converters.otf2.write import write_archive
from tracecols.export.tables import ExportError
from tracecols.jobs import n_jobs
from tracecols.pieces.stored import StoreSource
from tracecols.store import Store
from tracecols.store.layout import MANIFEST


def export_archive(
    source: Path,
    output: Path,
    *,
    locations: Iterable[int] | None = None,
    start: float | None = None,
    stop: float | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Write a store, or a piece of it (`tracecols.pieces.cut`), as an OTF2 archive.

    Parameters
    ----------
    source : Path
        A store.
    output : Path
        The anchor file, `NAME.otf2`; the global definitions `NAME.def` and the folder `NAME` come beside it. None of the
        three may exist.
    locations : iterable of int, optional
        Rows of the locations whose events to keep; all by default. The others stay defined.
    start, stop : float, optional
        Seconds since the start of the recording: events with start <= time < stop.
    jobs : int, optional
        Threads; by default one per core.
    progress : callable, optional
        Called with the number of events done and the number of all.

    Returns
    -------
    Report
        `unknown` says by name what OTF2 cannot express and was left out.

    Raises
    ------
    ExportError
        If the source is a severity cube.
    """
    try:
        kind = json.loads((source / MANIFEST).read_text(encoding="utf-8")).get("format", "")
    except (OSError, ValueError, AttributeError):
        kind = ""
    if kind == "tracecols severity":
        raise ExportError(
            f"{source} is a severity cube, and has no events\n  export the store of the trace it was made of"
        )
    store = Store(source)
    clock = store.manifest["clock"]

    def ticks(seconds: float | None) -> int | None:
        return None if seconds is None else round(seconds * clock["resolution"]) + int(clock["origin"])

    report = Report()
    if start is not None and stop is not None and stop <= start:
        raise ExportError(f"nothing lies between {start:g} s and {stop:g} s\n  the end has to be later than the start")
    piece = StoreSource(store, locations, ticks(start), ticks(stop), jobs=n_jobs(jobs))
    write_archive(piece, output, jobs=jobs, progress=progress, report=report)
    return report
