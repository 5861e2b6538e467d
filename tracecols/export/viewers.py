"""A store, or a time range of it, as a timeline for viewers: in Perfetto's own format or as Chrome's JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracecols.enhance.definitions.locations import find_locations
from tracecols.errors import ExportError
from tracecols.export.chrome import ChromeWriter
from tracecols.export.perfetto import PerfettoWriter
from tracecols.export.timeline import Samples, Timeline, TrackEvents
from tracecols.given.quantities import counted, in_words
from tracecols.model.model import Model, enhance
from tracecols.schema.severity import DEFAULT
from tracecols.slices.source import open_store, time_range_ticks
from tracecols.store.outputs import text_output
from tracecols.work.jobs import n_jobs

WRITERS: dict[str, type[PerfettoWriter] | type[ChromeWriter]] = {
    ".pftrace": PerfettoWriter,
    ".perfetto-trace": PerfettoWriter,
    ".trace.json": ChromeWriter,
}
"""Writer of each file name ending."""


@dataclass
class Shown:
    """Summary of a written timeline."""

    n_waits: dict[str, int]
    """Number of wait states by property."""
    left_out: dict[str, int]
    """Number of things that cannot be shown, by description."""
    where: str = ""
    """Description of the instances that `around` selected; empty without `around`."""


def export_timeline(
    source: Path,
    output: Path,
    *,
    locations: Iterable[int] | None = None,
    start: float | None = None,
    stop: float | None = None,
    waits: str | Iterable[str] | None = None,
    critical_path: bool = True,
    around: str | None = None,
    conventions: str = DEFAULT,
    force: bool = False,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Shown:
    """Write a store, or a time range of it, as a timeline (`tracecols.export.timeline`).

    Memory use does not grow with the number of events, but with those of messages, collective operations and wait
    states. The output ends in .pftrace, .perfetto-trace (Perfetto's own format) or .trace.json (Chrome's JSON); unless
    `force` is given, it replaces only timelines.

    Events of `locations`, all by default, with start <= time < stop, in seconds since the start of the recording, are
    shown; or only the time `around` the worst instance of a property that patterns find, and the instances that overlap
    it. `waits` are ids or titles of properties (`mpi_latesender`, ...) whose wait states to show; `all`, or `none`; by
    default, those that report causes. `jobs` threads look for messages and wait states; `progress` is called with the
    number of events done and of all.

    Raises ExportError if both a time range and `around` are given, or there is no such property or no instance of it;
    if the source is a severity cube, no format has this ending, the file cannot be written, or something else exists in
    its place.
    """
    ending = next((e for e in WRITERS if output.name.endswith(e)), None)
    if ending is None:
        raise ExportError(f"no timeline ends like {output.name}\n  there are {', '.join(WRITERS)}")
    target = text_output(output, "a timeline", *WRITERS[ending].SIGNATURES, force=force)
    target.check()
    store = open_store(source)
    first, last = time_range_ticks(store, start, stop)
    chosen = find_locations(store, locations)
    model, where = None, ""
    if around is not None:
        if first is not None or last is not None:
            raise ExportError("a time range and a property to look around are given\n  give one of them")
        model = enhance(store, n_jobs(jobs))
        first, last, where = find_around(model, around, conventions)
    timeline = Timeline(
        store,
        locations=chosen,
        start=first,
        stop=last,
        waits=waits,
        critical_path=critical_path,
        conventions=conventions,
        model=model,
        jobs=jobs,
        progress=progress,
    )
    with target.new() as path, path.open("wb") as file:
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
    return Shown(timeline.n_waits, timeline.left_out, where)


MOST = 10_000
"""Number of instances of a property, worst first, that are searched for overlaps with the worst one."""

MARGIN = 2
"""Time shown before and after the instances, as a multiple of their length."""


def find_around(model: Model, name: str, conventions: str = DEFAULT) -> tuple[int, int, str]:
    """Find the time range, in ticks, around the worst instance of a property and those that overlap it. Return start,
    stop and a description. Raises ExportError if there is no instance, or instances of the property have no times."""
    # these import pandas
    from tracecols.model.readable import Readable
    from tracecols.verbs.waiting import worst_instances

    p, found = worst_instances(model, name, MOST, conventions)
    begin, end = found["begin"], found["end"]
    if not begin.size or begin[0] < 0:
        what = "has no instance in this trace" if not begin.size else "does not say when its instances are"
        raise ExportError(f"property {p.id!r} {what}\n  tracecols show CUBE lists those that have values")
    together = (begin <= end[0]) & (end >= begin[0])
    first, last = int(begin[together].min()), int(end[together].max())
    resolution, readable = model.resolution, Readable(model.store, lambda: model.facts)
    # an instant has no length
    margin = max(MARGIN * (last - first), resolution // 100_000)
    at, cause = int(found["location"][0]), int(found["cause_location"][0])
    worst = (
        in_words((end[0] - begin[0]) / resolution, "seconds")
        if p.unit == "sec"
        else f"{found['severity'][0]:,} {p.unit}"
    )
    waits = f"rank {readable.rank[at]} thread {readable.thread[at]}"
    by = f", caused by rank {readable.rank[cause]} thread {readable.thread[cause]}" if cause >= 0 else ""
    start, stop = readable.seconds(np.array([first - margin, last + margin + 1]))
    path = readable.paths(found["call_path"][:1], or_numbers=True)[0]
    where = (
        f"around {counted(int(together.sum()), 'instance')} of {p.title}, the worst {worst} on {waits}{by}, in {path}\n"
        f"from {start:.9f} s to {stop:.9f} s"
    )
    return first - margin, last + margin + 1, where
