"""A store, or a trace slice, as an OTF2 archive for other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tracecols.converters.base import Report
from tracecols.converters.otf2.write import write_archive
from tracecols.slices.source import StoreSource, open_store, time_range_ticks
from tracecols.work.jobs import n_jobs


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
    """Write a store, or a trace slice (`tracecols.slices.plan`), as an OTF2 archive.

    Parameters
    ----------
    output : Path
        The anchor file, `NAME.otf2`; the global definitions `NAME.def` and the folder `NAME` come beside it. None of
        the three may exist.
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
    store = open_store(source)
    time_range = time_range_ticks(store, start, stop)
    report = Report()
    part_of_trace = StoreSource(store, locations, *time_range, jobs=n_jobs(jobs))
    write_archive(part_of_trace, output, jobs=jobs, progress=progress, report=report)
    return report
