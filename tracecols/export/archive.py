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
    """Write a store, or a trace slice (`tracecols.slices.plan`), as an OTF2 archive; the report's `unknown` lists by
    name the contents left out because OTF2 cannot express them.

    `output` is the anchor file, `NAME.otf2`; the global definitions `NAME.def` and the folder `NAME` are written next
    to it. None of the three may exist. Only events of `locations` (the others stay defined) with start <= time < stop,
    in seconds since the start of the recording, are kept. `progress` is called with the number of events done and of
    all. Raises ExportError if the source is a severity cube.
    """
    store = open_store(source)
    time_range = time_range_ticks(store, start, stop)
    report = Report()
    part_of_trace = StoreSource(store, locations, *time_range, jobs=n_jobs(jobs))
    write_archive(part_of_trace, output, jobs=jobs, progress=progress, report=report)
    return report
