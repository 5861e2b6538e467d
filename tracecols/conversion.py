"""Conversion of an archive to a store: parallel over whole locations, in bounded memory, atomic."""

from __future__ import annotations

import platform
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.converters.base import Report, Source, given_as, read_in_order
from tracecols.converters.registry import Given, find_given, open_source, trace_name
from tracecols.converters.threads import UNKNOWN, number_threads
from tracecols.errors import StoreError
from tracecols.given.arguments import as_path
from tracecols.given.files import advice_for_output
from tracecols.store.outputs import store_output
from tracecols.store.writer import Part, StoreWriter
from tracecols.version import __version__
from tracecols.work.cluster import Cluster, default_scratch, working_on
from tracecols.work.executors import Executor, Threads
from tracecols.work.executors import Report as Done
from tracecols.work.jobs import n_jobs
from tracecols.work.progress import Progress

if TYPE_CHECKING:
    from distributed import Client


def store_name(source: Given) -> Path:
    """Return the default name of a store: that of the trace.

    Parameters
    ----------
    source : str, Path, or sequence of them
        An archive.
    """
    return Path(f"{trace_name(find_given(source))}.trace")


def files_seen(source: Given) -> dict[str, Path]:
    """Return the paths that workers of a cluster need to see, by description.

    Parameters
    ----------
    source : str, Path, or sequence of them
        An archive.
    """
    found = find_given(source)
    if isinstance(found, Path):
        return {"the archive": found}
    return {f"file {k} of the archive": file for k, file in enumerate(found, 1)}


def convert(
    source: Given,
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
    source : str, Path, or sequence of them
        The archive's anchor file, the folder that holds it, or, for formats with one file per rank (Kineto, Nsight
        Systems), all its files.
    output : str or Path, optional
        The store to make; by default the archive's name with the ending `.trace`, in the current folder.
    jobs : int, optional
        Threads; by default one per core.
    salvage : bool, optional
        Keep the events of damaged locations that precede the damage, and list the losses in the manifest.
    force : bool, optional
        Also replace a file, or a store with corrected or predicted times; a store of a recorded trace is always
        replaced.
    progress : callable, optional
        Called with the number of events done and their total number.
    cluster : distributed.Client, optional
        Let the workers of a Dask cluster read and write (extra `dask`, docs/cluster.md). The store is the same.
    scratch : str or Path, optional
        On a cluster, the folder for a scratch folder that client and workers see; by default that of the store.

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
    path = as_path(output, StoreError) if output is not None else store_name(source)
    how: dict[str, Any] = {"jobs": n_jobs(jobs), "salvage": salvage, "force": force, "progress": progress}
    if cluster is None:
        convert_opened(open_source(source), path, **how)
        return path
    with working_on(cluster, default_scratch(scratch, path), files_seen(source), n_jobs(jobs)) as workers:
        convert_opened(open_source(source), path, workers=workers, **how)
    return path


def convert_opened(
    archive: Source,
    path: Path,
    *,
    jobs: int,
    workers: Cluster | None = None,
    salvage: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, pa.Table]:
    """Convert a trace archive that is open.

    Parameters
    ----------
    archive : Source
        The open archive; its tables of definitions are completed.
    path : Path
        The store to make; the workers see its folder.
    jobs : int
        Threads.
    workers : Cluster, optional
        Workers that read and write in place of threads.
    salvage, force, progress
        As for `convert`.

    Returns
    -------
    dict of str to pyarrow.Table
        The tables of definitions.
    """
    if workers is not None:
        path, jobs = path.absolute(), workers.jobs
    with store_output(path, archive.properties, force=force).new() as folder:
        if workers is not None:
            workers.check({**files_seen(given_as(archive)), "the folder of the new store": folder})
        return write_store(archive, folder, jobs=jobs, salvage=salvage, progress=progress, executor=workers)


def plan_parts(n_events: list[int]) -> list[range]:
    """Divide locations into parts; the result depends on the trace only, not on the number of threads.

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
    executor: Executor | None = None,
) -> dict[str, pa.Table]:
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
        Whether to keep the readable events of damaged locations.
    progress : callable, optional
        Called with the number of events done and their total number.
    before : mapping, optional
        Manifest of the source if that is a store: its records not understood and its losses are carried over.
    executor : Executor, optional
        Executor that reads and writes; by default `jobs` threads. The workers of a cluster open the source again.

    Returns
    -------
    dict of str to pyarrow.Table
        The tables of definitions.
    """
    executor = Threads(jobs) if executor is None else executor
    locations = source.definitions["locations"]
    n_locations = len(locations["id"])
    report = Report()
    if salvage:
        survey(source, report, executor)
    damaged = frozenset(loss.location for loss in report.lost)
    counts = locations["n_events"]
    first_rows = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))])
    locations["first_row"] = first_rows[:-1].tolist()
    plan = plan_parts(counts)
    parts = _write_parts(source, folder, plan, first_rows, damaged, executor, progress)
    unknown = Counter[str](before["not_understood"] if before is not None else {})
    for written in parts:
        unknown.update(written.unknown)
    if UNKNOWN in locations["thread"]:
        # the definitions do not say which thread is the master of its process: the one that forks
        forks = {location: time for written in parts for location, time in written.part.forks.items()}
        locations["thread"] = number_threads(source.definitions, forks)
    return StoreWriter(folder, source.metric_types).finish(
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
    """A part of a store that has been written.

    Attributes
    ----------
    part : Part
        Metadata of the part.
    unknown : dict of str to int
        Number of records that were not understood, by type.
    """

    part: Part
    unknown: dict[str, int]


@lru_cache(maxsize=2)
def _opened_on_worker(given: Path | tuple[Path, ...], _identity: tuple[tuple[int, int, int], ...]) -> Source:
    """Open an archive once per process, for all its tasks."""
    return open_source(given)


def _opened_again(given: Path | tuple[Path, ...]) -> OpenedSource:
    found = [path.stat() for path in (given if isinstance(given, tuple) else (given,))]
    return OpenedSource(_opened_on_worker(given, tuple((f.st_mtime_ns, f.st_ctime_ns, f.st_size) for f in found)))


class OpenedSource(NamedTuple):
    """An opened archive; a worker of a cluster opens it again.

    Attributes
    ----------
    source : Source
    """

    source: Source

    def __reduce__(self) -> tuple[Callable[..., OpenedSource], tuple[Path | tuple[Path, ...]]]:
        return _opened_again, (given_as(self.source),)


@dataclass(eq=False, repr=False)
class PartTask:
    """The task that writes a part of a store, given its number.

    Attributes
    ----------
    opened : OpenedSource
    folder : Path
        Folder of the store.
    plan : tuple of range
        Locations of every part.
    first_rows : (n_locations + 1,) int64
        Row of the first event of each location.
    damaged : frozenset of int
        Damaged locations, of which only the events before the damage are kept.
    is_apart : bool
        Whether each task writes to a folder of its own in `folder`.
    """

    opened: OpenedSource
    folder: Path
    plan: tuple[range, ...]
    first_rows: NDArray[np.int64]
    damaged: frozenset[int]
    is_apart: bool
    name = "convert"

    def __call__(self, number: int, done: Done) -> tuple[Path, WrittenPart]:
        if not self.is_apart:
            return self.folder, self._write(self.folder, number, done)
        # a task that runs twice, since its worker seemed lost, writes to another folder; the folder in the result
        # counts
        own = self.folder / f"part-{number}-{uuid.uuid4().hex[:8]}"
        try:
            own.mkdir()
            return own, self._write(own, number, done)
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(str(self.folder)):
                raise
            raise StoreError(
                f"cannot write {self.folder.parent} on {platform.node()}: {error.strerror or error}\n"
                f"  nothing was left behind; {advice_for_output(error, 'make room or choose another folder')}"
            ) from error

    def _write(self, folder: Path, number: int, done: Done) -> WrittenPart:
        source, mine = self.opened.source, Report()
        with StoreWriter(folder, source.metric_types).part(number) as part:
            for batch in read_in_order(source, self.plan[number], mine, self.damaged):
                part.add(batch.parts, int(self.first_rows[batch.parts[0][0]]), batch.events, batch.sides)
                done(batch.events["time"].size)
        return WrittenPart(part.part, mine.unknown)


def _write_parts(
    source: Source,
    folder: Path,
    plan: list[range],
    first_rows: NDArray[np.int64],
    damaged: frozenset[int],
    executor: Executor,
    progress: Progress | None,
) -> list[WrittenPart]:
    """Write all parts, the largest first."""
    total, n_done = int(first_rows[-1]), 0

    def done(n: int) -> None:
        nonlocal n_done
        n_done += n
        if progress is not None:
            progress(n_done, total)

    order = sorted(range(len(plan)), key=lambda k: int(first_rows[plan[k].start] - first_rows[plan[k].stop]))
    parts: dict[int, WrittenPart] = {}
    is_apart = executor.folder is not None
    with _apart(folder) if is_apart else nullcontext(folder) as made:
        task = PartTask(OpenedSource(source), made, tuple(plan), first_rows, damaged, is_apart)
        for k, (own, written) in zip(order, executor.map(task, order, done), strict=True):
            for file in own.glob("*/*.parquet") if is_apart else ():
                (folder / file.parent.name).mkdir(exist_ok=True)
                file.rename(folder / file.parent.name / file.name)
            parts[k] = written
    return [parts[k] for k in sorted(parts)]


@contextmanager
def _apart(folder: Path) -> Iterator[Path]:
    """Yield a folder for the output of workers, beside that of the new store."""
    made = folder.parent / "parts"
    made.mkdir()
    try:
        yield made
    finally:
        # renamed first, so that tasks still running cannot add files while the folder is removed
        made.rename(folder.parent / "left")


@dataclass(eq=False, repr=False)
class SurveyTask:
    """The task that finds the readable events of a location, given its row; returns the row, the number of its events,
    and a report of losses.

    Attributes
    ----------
    opened : OpenedSource
    """

    opened: OpenedSource
    name = "survey"

    def __call__(self, location: int, done: Done) -> tuple[int, int, Report]:
        mine = Report()
        n_events = 0
        for batch in self.opened.source.read(location, mine, salvage=True):
            n_events += batch.events["time"].size
            done(batch.events["time"].size)
        return location, n_events, mine


def survey(source: Source, report: Report, executor: Executor) -> None:
    """Find the readable events of every location, and correct the numbers of events accordingly.

    Parameters
    ----------
    source : Source
        Its numbers of events are corrected.
    report : Report
        Receives the losses.
    executor : Executor
        Executor that reads.
    """
    locations = source.definitions["locations"]
    found = [*executor.map(SurveyTask(OpenedSource(source)), range(len(locations["id"])))]
    for location, n, mine in found:
        report.lost += mine.lost
        if mine.lost:
            locations["n_events"][location] = n
