"""From an archive to a store: whole locations in parallel, bounded memory, complete or not at all."""

from __future__ import annotations

import platform
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Report, Source, read_in_order
from tracecols.converters.registry import find_anchor, open_source, trace_name
from tracecols.converters.threads import UNKNOWN, number_threads
from tracecols.errors import StoreError
from tracecols.store.outputs import store_output
from tracecols.store.writer import Part, PartWriter, StoreWriter
from tracecols.version import __version__
from tracecols.work.cluster import Cluster, default_scratch, working_on
from tracecols.work.executors import Threads
from tracecols.work.jobs import n_jobs

if TYPE_CHECKING:
    from distributed import Client

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
    force: bool = False,
    progress: Progress | None = None,
    cluster: Client | None = None,
    scratch: str | Path | None = None,
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
    force : bool, optional
        Replace a file, or a store with corrected or predicted times, as well; a store of a recorded trace is always
        replaced.
    progress : callable, optional
        Called with the number of events done and the number of all.
    cluster : distributed.Client, optional
        Let the workers of a Dask cluster read and write (extra `dask`, docs/cluster.md). The store is the same.
    scratch : str or Path, optional
        On a cluster, the folder in which a scratch folder is made that client and workers see; by default that of the
        store.

    Returns
    -------
    Path
        The store.

    Raises
    ------
    SourceError
        If the archive is damaged or not understood; names file, chunk and byte.
    StoreError
        If the store cannot be written, or something else exists in its place.
    ClusterError
        If the cluster cannot be used: workers lack the archive, the scratch folder or this version of tracecols, or are
        lost.
    MissingExtraError
        If a cluster is given and Dask is not installed.

    Examples
    --------
    >>> import tracecols
    >>> path = tracecols.convert("tests/data/hybrid_2x3", "hybrid.trace")  # doctest: +SKIP
    """
    path = Path(output) if output is not None else store_name(source)
    if cluster is None:
        archive = open_source(source)
        with store_output(path, archive.properties, force=force).new() as folder:
            write_store(archive, folder, jobs=n_jobs(jobs), salvage=salvage, progress=progress)
        return path
    sees = {"the archive": find_anchor(source)}
    with working_on(cluster, default_scratch(scratch, path), sees, n_jobs(jobs)) as workers:
        return convert_with(workers, source, path, salvage=salvage, force=force, progress=progress)


def convert_with(
    workers: Cluster,
    source: str | Path,
    path: Path,
    *,
    salvage: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Convert a trace archive on a cluster that is there already.

    Parameters
    ----------
    workers : Cluster
    source : str or Path
        The archive's anchor file, or the folder that holds it.
    path : Path
        The store to make; the workers see its folder.
    salvage, force, progress
        As for `convert`.
    """
    archive = open_source(source)
    with store_output(path.absolute(), archive.properties, force=force).new() as folder:
        workers.check({"the archive": archive.path, "the folder of the new store": folder})
        write_store(archive, folder, jobs=workers.jobs, salvage=salvage, progress=progress, workers=workers)
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
    workers: Cluster | None = None,
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
    workers : Cluster, optional
        Who reads and writes, instead of threads; they open the source again.
    """
    locations = source.definitions["locations"]
    n_locations = len(locations["id"])
    report = Report()
    if salvage:
        survey(source, report, jobs, workers)
    damaged = frozenset(loss.location for loss in report.lost)
    counts = locations["n_events"]
    first_rows = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))])
    locations["first_row"] = first_rows[:-1].tolist()
    plan = plan_parts(counts)
    if workers is None:
        parts = _write_parts(source, folder, plan, first_rows, damaged, jobs, progress)
    else:
        parts = _parts_of_workers(source, folder, plan, first_rows, damaged, workers, progress)
    unknown = Counter[str](before["not_understood"] if before is not None else {})
    for written in parts:
        unknown.update(written.unknown)
    if UNKNOWN in locations["thread"]:
        # the definitions do not say which thread is the master of its process: the one that forks
        forks = {location: time for written in parts for location, time in written.part.forks.items()}
        locations["thread"] = number_threads(source.definitions, forks)
    StoreWriter(folder, source.metric_types).finish(
        source.definitions,
        [written.part for written in parts],
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


@dataclass
class WrittenPart:
    """A part of a store that is written.

    Attributes
    ----------
    part : Part
        What it says about itself.
    unknown : dict of str to int
        Number of records that were not understood, by type.
    """

    part: Part
    unknown: dict[str, int]


def write_part(
    source: Source,
    writer: PartWriter,
    members: range,
    first_rows: NDArray[np.int64],
    damaged: frozenset[int],
    wrote: Callable[[int], bool],
) -> WrittenPart:
    """Write the part of a store with some locations.

    Parameters
    ----------
    source : Source
    writer : PartWriter
    members : range
        The locations.
    first_rows : (n_locations + 1,) int64
        Row of the first event of each location.
    damaged : frozenset of int
        Locations of which to keep what precedes the damage.
    wrote : callable
        Called with the number of events of every batch; says whether to go on.
    """
    mine = Report()
    with writer as part:
        for batch in read_in_order(source, members, mine, damaged):
            part.add(batch.parts, int(first_rows[batch.parts[0][0]]), batch.events, batch.sides)
            if not wrote(batch.events["time"].size):
                break
    return WrittenPart(part.part, mine.unknown)


def _write_parts(
    source: Source,
    folder: Path,
    plan: list[range],
    first_rows: NDArray[np.int64],
    damaged: frozenset[int],
    jobs: int,
    progress: Progress | None,
) -> list[WrittenPart]:
    """Write all parts with the threads of this process, the largest first."""
    writer = StoreWriter(folder, source.metric_types)
    total, done = int(first_rows[-1]), 0
    stopped = Event()

    def wrote(n: int) -> bool:
        nonlocal done
        if progress is not None:
            done += n
            progress(done, total)
        return not stopped.is_set()

    def write(number: int) -> WrittenPart:
        return write_part(source, writer.part(number), plan[number], first_rows, damaged, wrote)

    size = [int(first_rows[p.stop] - first_rows[p.start]) for p in plan]
    parts: dict[int, WrittenPart] = {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(write, k): k for k in sorted(range(len(plan)), key=lambda k: -size[k])}
        try:
            for future in as_completed(futures):
                parts[futures[future]] = future.result()
        except BaseException:
            stopped.set()
            for future in futures:
                future.cancel()
            # the error holds this frame and so the futures, which hold the error and with it the buffers of its thread
            futures.clear()
            del future
            raise
    return [parts[k] for k in sorted(parts)]


def _parts_of_workers(
    source: Source,
    folder: Path,
    plan: list[range],
    first_rows: NDArray[np.int64],
    damaged: frozenset[int],
    workers: Cluster,
    progress: Progress | None,
) -> list[WrittenPart]:
    """Let workers write all parts, each in a folder of its own, and move their files to the store."""
    total, done = int(first_rows[-1]), 0
    parts: list[WrittenPart] = []
    made = folder.parent / "parts"
    made.mkdir()
    try:
        task = PartTask(source.path, made, tuple(plan), first_rows, damaged)
        with workers.pool() as pool:
            for name, written in pool.map(task, range(len(plan))):
                for file in (made / name).glob("*/*.parquet"):
                    (folder / file.parent.name).mkdir(exist_ok=True)
                    file.rename(folder / file.parent.name / file.name)
                parts.append(written)
                done += int(written.part.counts.sum())
                if progress is not None:
                    progress(done, total)
    finally:
        # tasks that still run find no folder any more to write to, so that nothing comes while it is removed
        made.rename(folder.parent / "left")
    return parts


@lru_cache(maxsize=2)
def _opened_on_worker(path: Path, _identity: tuple[int, int]) -> Source:
    """Open an archive once in a process for all tasks."""
    return open_source(path)


def _open_on_worker(path: Path) -> Source:
    found = path.stat()
    return _opened_on_worker(path, (found.st_mtime_ns, found.st_size))


@dataclass(frozen=True, eq=False)
class PartTask:
    """The task of a cluster that writes a part of a store, given its number.

    Attributes
    ----------
    source : Path
        Anchor file of the archive.
    folder : Path
        Where it gets a folder of its own.
    plan : tuple of range
        Locations of every part.
    first_rows : (n_locations + 1,) int64
        Row of the first event of each location.
    damaged : frozenset of int
        Locations of which to keep what precedes the damage.
    """

    source: Path
    folder: Path
    plan: tuple[range, ...]
    first_rows: NDArray[np.int64]
    damaged: frozenset[int]
    name = "convert"

    def __call__(self, number: int) -> tuple[str, WrittenPart]:
        source = _open_on_worker(self.source)
        # a task that runs twice, since its worker seemed lost, writes another folder; that of the result counts
        own = self.folder / f"part-{number}-{uuid.uuid4().hex[:8]}"
        try:
            own.mkdir()
            writer = StoreWriter(own, source.metric_types).part(number)
            return own.name, write_part(
                source, writer, self.plan[number], self.first_rows, self.damaged, lambda n: True
            )
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(str(self.folder)):
                raise
            raise StoreError(
                f"cannot write {self.folder.parent} on {platform.node()}: {error.strerror or error}\n"
                "  nothing was left behind; make room or choose another folder"
            ) from error


@dataclass(frozen=True)
class SurveyTask:
    """The task of a cluster that finds out what can be read of a location, given its row.

    Attributes
    ----------
    source : Path
        Anchor file of the archive.
    """

    source: Path
    name = "survey"

    def __call__(self, location: int) -> tuple[int, int, Report]:
        return count_events(_open_on_worker(self.source), location)


def count_events(source: Source, location: int) -> tuple[int, int, Report]:
    """Read a location as far as it is sound; returns its row, the number of its events, and what is lost.

    Parameters
    ----------
    source : Source
    location : int
    """
    mine = Report()
    return location, sum(b.events["time"].size for b in source.read(location, mine, salvage=True)), mine


def survey(source: Source, report: Report, jobs: int, workers: Cluster | None = None) -> None:
    """Find out what can be read of every location, and correct the numbers of events accordingly.

    Parameters
    ----------
    source : Source
        Its numbers of events are corrected.
    report : Report
        Gets what is lost.
    jobs : int
        Threads.
    workers : Cluster, optional
        Who reads, instead of threads.
    """
    locations = source.definitions["locations"]
    count = partial(count_events, source) if workers is None else SurveyTask(source.path)
    with (Threads(jobs) if workers is None else workers).pool() as pool:
        results = list(pool.map(count, range(len(locations["id"]))))
    for location, n, mine in results:
        report.lost += mine.lost
        if mine.lost:
            locations["n_events"][location] = n
