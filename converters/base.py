"""What a trace format offers to the rest of tracecols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from numpy.typing import NDArray

from tracecols.errors import SourceError
from tracecols.given.files import advice, exists

Columns = dict[str, NDArray[Any]]


@dataclass
class Clock:
    """How to read the ticks of a trace.

    Parameters
    ----------
    resolution : int
        Ticks per second.
    origin : int
        Tick that counts as time zero of the recording.
    length : int
        Ticks from the origin to the end, as the source states it.
    realtime : int
        Nanoseconds since 1970 at the origin; -1 unknown.
    """

    resolution: int
    origin: int = 0
    length: int = 0
    realtime: int = -1


@dataclass
class Batch:
    """Consecutive events of one location as columns; side tables refer to events by their number in the location.

    Where locations are read together (`SourceOfMany`) they may be those of several that follow each other.

    Parameters
    ----------
    events : dict of str to (n,) array
        Columns of `schema.EVENTS`.
    sides : dict of str to dict of str to (m,) array
        Columns of side tables (`schema.SIDE_TABLES`); `row` counts from the first event of the (first) location.
    parts : list of (int, int), optional
        Where locations are read together: whose events these are, one location after the other, and how many of each.
    """

    events: Columns
    sides: dict[str, Columns] = field(default_factory=dict)
    parts: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Loss:
    """What could not be read of one location: number of events, -1 if nothing tells it, and the words of the error.

    Parameters
    ----------
    location : int
        Row of the location.
    n_events : int
        Number of events that are lost; -1 unknown.
    reason : str
        Words of the error.
    """

    location: int
    n_events: int
    reason: str


@dataclass
class Report:
    """What was read besides events: for the manifest.

    Parameters
    ----------
    unknown : dict of str to int
        Number of records that were not understood, by type.
    lost : list of Loss
        Locations that could not be read wholly.
    """

    unknown: dict[str, int] = field(default_factory=dict)
    lost: list[Loss] = field(default_factory=list)


class Source(Protocol):
    """An opened trace archive.

    Attributes
    ----------
    format : str
        Name of the format, with its version.
    path : Path
        Where it is.
    clock : Clock
        Its clock.
    properties : dict
        Facts about it that belong into the manifest.
    definitions : dict of str to dict of str to list
        Columns of every definition table (`tracecols.schema.DEFINITIONS`), locations in process order.
    metric_types : list of list of str
        NumPy dtypes of the members of every metric class.
    capabilities : frozenset of str
        What records of this format mean where formats differ (`schema.capabilities`).
    """

    format: str
    path: Path
    properties: dict[str, Any]
    metric_types: list[list[str]]
    capabilities: frozenset[str]

    @property
    def clock(self) -> Clock:
        """Its clock."""

    @property
    def definitions(self) -> dict[str, dict[str, list[Any]]]:
        """Its definition tables."""

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location in order; the arrays are reused by the next batch.

        Parameters
        ----------
        location : int
            Row of the location.
        report : Report
            Gets what is not understood or lost.
        salvage : bool, optional
            Whether to stop where a location is damaged, and report the loss, instead of raising an error.

        Raises
        ------
        SourceError
            Naming file and position, where the file cannot be read on or contradicts itself.
        """


@runtime_checkable
class SourceOfMany(Source, Protocol):
    """A source that reads several locations at a time: for small ones that takes a fraction of the time."""

    def read_together(self, locations: Sequence[int], report: Report, damaged: Collection[int] = ()) -> Iterator[Batch]:
        """Yield the events of locations that follow each other, in order; the arrays are reused by the next batch.

        Parameters
        ----------
        locations : sequence of int
            Rows of the locations.
        report : Report
            Gets what is not understood or lost.
        damaged : collection of int, optional
            Those to read as `Source.read` does with `salvage`.
        """


@runtime_checkable
class SourceOfFiles(Source, Protocol):
    """A source that was opened with several files, of which no other path is the name.

    Attributes
    ----------
    files : tuple of Path
        What it was opened with.
    """

    files: tuple[Path, ...]


def given_as(source: Source) -> Path | tuple[Path, ...]:
    """Return what opens a source once more: its path, or all its files.

    Parameters
    ----------
    source : Source
    """
    return source.files if isinstance(source, SourceOfFiles) else source.path


def read_in_order(
    source: Source, locations: Sequence[int], report: Report, damaged: Collection[int] = ()
) -> Iterator[Batch]:
    """Yield the events of locations that follow each other, in order, with `Batch.parts`; see
    `SourceOfMany.read_together`.

    Parameters
    ----------
    source : Source
    locations : sequence of int
        Rows of the locations.
    report : Report
        Gets what is not understood or lost.
    damaged : collection of int, optional
        Those of which to keep what precedes the damage.
    """
    if isinstance(source, SourceOfMany):
        yield from source.read_together(locations, report, damaged)
        return
    for location in locations:
        for batch in source.read(location, report, salvage=location in damaged):
            batch.parts = [(location, batch.events["time"].size)]
            yield batch


def _all(anchors: list[Path]) -> list[Path]:
    return anchors


class Format(NamedTuple):
    """A trace format.

    Parameters
    ----------
    name : str
        What it is called.
    endings : tuple of str
        How the names of its anchor files end, dots included.
    open : callable
        Opens the archive of an anchor file and returns a `Source`.
    choose : callable, optional
        Of the anchor files of this format in one folder, those that are opened as traces; by default all.
    recognises : callable, optional
        Whether a file of any name is an anchor of this format, or a folder with all in it is, by what it holds.
    open_files : callable, optional
        Opens several files that are one trace.
    """

    name: str
    endings: tuple[str, ...]
    open: Callable[[Path], Source]
    choose: Callable[[list[Path]], list[Path]] = _all
    recognises: Callable[[Path], bool] | None = None
    open_files: Callable[[tuple[Path, ...]], Source] | None = None

    def ending_of(self, path: Path) -> str:
        """Return which of the endings a file has; empty if none.

        Parameters
        ----------
        path : Path
            A file.
        """
        return max((ending for ending in self.endings if path.name.endswith(ending)), key=len, default="")


def has_file(path: str | Path) -> bool:
    """Say whether an archive has a file.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    SourceError
        If that cannot be found out: in a folder without permission nothing is missing.
    """
    try:
        return exists(path)
    except OSError as error:
        raise SourceError(
            f"cannot read {path}: {error.strerror}\n  {advice(error, 'copy the archive again')}"
        ) from error
