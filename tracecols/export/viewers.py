"""A store, or a time range of it, as a timeline for viewers: in Perfetto's own format or as Chrome's JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tracecols.errors import ExportError
from tracecols.export.chrome import ChromeWriter
from tracecols.export.perfetto import PerfettoWriter
from tracecols.export.tables import new_file
from tracecols.export.timeline import Samples, Timeline, TrackEvents
from tracecols.slices.source import chosen_locations, open_store, time_range_ticks

WRITERS: dict[str, type[PerfettoWriter] | type[ChromeWriter]] = {
    ".pftrace": PerfettoWriter,
    ".perfetto-trace": PerfettoWriter,
    ".trace.json": ChromeWriter,
}
"""Who writes files of which ending."""


@dataclass
class Shown:
    """What a timeline shows.

    Attributes
    ----------
    n_waits : dict of str to int
        Wait states by property.
    left_out : dict of str to int
        What cannot be shown, by words.
    """

    n_waits: dict[str, int]
    left_out: dict[str, int]


def export_timeline(
    source: Path,
    output: Path,
    *,
    locations: Iterable[int] | None = None,
    start: float | None = None,
    stop: float | None = None,
    waits: Iterable[str] = (),
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Shown:
    """Write a store, or a time range of it, as a timeline (`tracecols.export.timeline`).

    Memory does not grow with the events, but with the messages, the collective operations and the wait states.

    Parameters
    ----------
    source : Path
        A store.
    output : Path
        Ends in .pftrace, .perfetto-trace (Perfetto's own format) or .trace.json (Chrome's JSON).
    locations : iterable of int, optional
        Rows of the locations to show; all by default.
    start, stop : float, optional
        Seconds since the start of the recording: what happens at start <= time < stop.
    waits : iterable of str
        Ids of properties (`mpi_latesender`, ...) whose wait states to show.
    jobs : int, optional
        Threads to look for messages and wait states; by default one per core.
    progress : callable, optional
        Called with the number of events done and the number of all.

    Returns
    -------
    Shown

    Raises
    ------
    ExportError
        If the source is a severity cube, no format has this ending, or the file cannot be written.
    """
    ending = next((e for e in WRITERS if output.name.endswith(e)), None)
    if ending is None:
        raise ExportError(f"no timeline ends like {output.name}\n  there are {', '.join(WRITERS)}")
    store = open_store(source)
    first, last = time_range_ticks(store, start, stop)
    chosen = chosen_locations(store, locations)
    timeline = Timeline(store, locations=chosen, start=first, stop=last, waits=waits, jobs=jobs, progress=progress)
    with new_file(output) as path, path.open("wb") as file:
        writer = WRITERS[ending](file, timeline)
        writer.begin()
        for item in timeline.items():
            if isinstance(item, TrackEvents):
                writer.events(item)
            elif isinstance(item, Samples):
                writer.samples(item)
            else:
                writer.track(item)
        writer.end()
    return Shown(timeline.n_waits, timeline.left_out)
