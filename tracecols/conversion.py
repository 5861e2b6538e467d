"""From an archive to a store: whole locations in parallel, bounded memory, complete or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from tracecols.converters.base import Report, Source
from tracecols.converters.registry import find_anchor, open_source, trace_name
from tracecols.converters.threads import UNKNOWN, number_threads
from tracecols.jobs import n_jobs
from tracecols.store.layout import new_folder
from tracecols.store.writer import PartWriter, StoreWriter
from tracecols.version import __version__

Progress = Callable[[int, int], None]
"""Called with the number of events done and the number of all."""


def store_name(source: str | Path) -> Path:
    """Return the name a store gets if none is given: the trace's.

    Parameters
    ----------
    source : str or Path
        An archive.
    """
    return Path(f"{trace_name(find_anchor(source))}.trace")


def convert(
    source: str | Path,
    output: str | Path | None = None,
    *,
    jobs: int | None = None,
    salvage: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Convert a trace archive to a store.

    Parameters
    ----------
    source : str or Path
        The archive's anchor file, or the folder that holds it.
    output : str or Path, optional
        The store to make; by default the archive's name with the ending `.trace`, here.
    jobs : int, optional
        Threads; by default one per core.
    salvage : bool, optional
        Of damaged locations keep what precedes the damage, and say in the manifest what was lost.
    progress : callable, optional
        Called with the number of events done and the number of all.

    Returns
    -------
    Path
        The store.

    Raises
    ------
    SourceError
        If the archive is damaged or not understood; names file, chunk and byte.
    StoreError
        If the store cannot be written.

    Examples
    --------
    >>> import tracecols
    >>> path = tracecols.convert("tests/data/hybrid_2x3", "hybrid.trace")  # doctest: +SKIP
    """
    archive = open_source(source)
    path = Path(output) if output is not None else store_name(source)
    with new_folder(path, "a store of a trace") as folder:
        write_store(archive, folder, jobs=n_jobs(jobs), salvage=salvage, progress=progress)
    return path


def plan_parts(n_events: list[int]) -> list[range]:
    """Divide locations into parts; depends on the trace only, not on the number of threads.

    A part is a range of whole locations with about 1/64 of all events, at least 2**19 and at most 2**25.

    Parameters
    ----------
    n_events : list of int
        Number of events of every location.
    """
    target = min(max(sum(n_events) // 64, 1 << 19), 1 << 25)
    parts, start, filled = [], 0, 0
    for i, n in enumerate(n_events):
        if filled and filled + n > target:
            parts.append(range(start, i))
            start, filled = i, 0
        filled += n
    parts.append(range(start, len(n_events)))
    return parts


def write_store(
    source: Source,
    folder: Path,
    *,
    jobs: int,
    salvage: bool,
    progress: Progress | None,
    before: Mapping[str, Any] | None = None,
) -> None:
    """Write all of a source into an empty folder.

    Parameters
    ----------
    source : Source
        The opened archive.
    folder : Path
        An empty folder.
    jobs : int
        Threads.
    salvage : bool
        Whether to keep what can be read of damaged locations.
    progress : callable, optional
        Called with the number of events done and the number of all.
    before : mapping, optional
        Manifest of the store that the source is: what had been lost or not understood when it was made still is.
    """
    locations = source.definitions["locations"]
    n_locations = len(locations["id"])
    report = Report()
    if salvage:
        survey(source, report, jobs)
    damaged = {loss.location for loss in report.lost}
    counts = locations["n_events"]
    first_rows = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))])
    locations["first_row"] = first_rows[:-1].tolist()
    total = int(first_rows[-1])
    writer = StoreWriter(folder, source.metric_types)
    done = 0
    stopped = Event()

    def write_part(number: int, members: range) -> tuple[PartWriter, Report]:
        nonlocal done
        mine = Report()
        with writer.part(number) as part:
            for location in members:
                part.begin()
                for batch in source.read(location, mine, salvage=location in damaged):
                    if stopped.is_set():
                        return part, mine
                    part.add(location, int(first_rows[location]), batch.events, batch.sides)
                    if progress is not None:
                        done += batch.events["time"].size
                        progress(done, total)
        return part, mine

    plan = plan_parts(counts)
    size = [sum(counts[i] for i in p) for p in plan]
    parts: dict[int, PartWriter] = {}
    unknown: dict[str, int] = dict(before["not_understood"]) if before is not None else {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(write_part, k, plan[k]): k for k in sorted(range(len(plan)), key=lambda k: -size[k])}
        try:
            for future in as_completed(futures):
                part, mine = future.result()
                parts[futures[future]] = part
                for name, n in mine.unknown.items():
                    unknown[name] = unknown.get(name, 0) + n
        except BaseException:
            stopped.set()
            for future in futures:
                future.cancel()
            # the error holds this frame and so the futures, which hold the error and with it the buffers of its thread
            futures.clear()
            del future
            raise
    if UNKNOWN in locations["thread"]:
        # the definitions do not say which thread is the master of its process: the one that forks
        forks = {location: time for part in parts.values() for location, time in part.forks.items()}
        locations["thread"] = number_threads(source.definitions, forks)
    writer.finish(
        source.definitions,
        [parts[k] for k in sorted(parts)],
        {
            "written_by": f"tracecols {__version__}",
            "source": {
                "path": str(source.path),
                "format": source.format,
                **source.properties,
                "capabilities": sorted(source.capabilities),
            },
            "clock": asdict(source.clock),
            "n_locations": n_locations,
            "not_understood": dict(sorted(unknown.items())),
            "lost": [
                *(before["lost"] if before is not None else []),
                *(
                    {"location": locations["id"][loss.location], "n_events": loss.n_events, "reason": loss.reason}
                    for loss in sorted(report.lost, key=lambda loss: loss.location)
                ),
            ],
        },
    )


def survey(source: Source, report: Report, jobs: int) -> None:
    """Find out what can be read of every location, and correct the numbers of events accordingly.

    Parameters
    ----------
    source : Source
        Its numbers of events are corrected.
    report : Report
        Gets what is lost.
    jobs : int
        Threads.
    """
    locations = source.definitions["locations"]

    def count(location: int) -> tuple[int, int, Report]:
        mine = Report()
        return location, sum(b.events["time"].size for b in source.read(location, mine, salvage=True)), mine

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(count, range(len(locations["id"]))))
    for location, n, mine in results:
        report.lost += mine.lost
        if mine.lost:
            locations["n_events"][location] = n
