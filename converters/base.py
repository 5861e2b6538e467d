"""The interface between trace formats and the rest of tracecols."""

from __future__ import annotations

from collections import Counter
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

    If locations are read together (`SourceOfMany`), a batch may hold the events of several consecutive locations.

    Parameters
    ----------
    events : dict of str to (n,) array
        Columns of `schema.EVENTS`.
    sides : dict of str to dict of str to (m,) array
        Columns of side tables (`schema.SIDE_TABLES`); `row` counts from the first event of the (first) location.
    parts : list of (int, int), optional
        If locations are read together: the locations of the events in order, and the number of events of each.
    """

    events: Columns
    sides: dict[str, Columns] = field(default_factory=dict)
    parts: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Loss:
    """Events of one location that could not be read.

    Parameters
    ----------
    location : int
        Row of the location.
    n_events : int
        Number of events that are lost; -1 unknown.
    reason : str
        Message of the error.
    """

    location: int
    n_events: int
    reason: str


@dataclass
class Report:
    """Unknown records and losses found while reading, for the manifest.

    Parameters
    ----------
    unknown : Counter of str
        Number of records that were not understood, by type.
    lost : list of Loss
        Locations that could not be read completely.
    """

    unknown: Counter[str] = field(default_factory=Counter)
    lost: list[Loss] = field(default_factory=list)


class Source(Protocol):
    """An opened trace archive.

    Attributes
    ----------
    format : str
        Name of the format, with its version.
    path : Path
        Path of the archive.
    clock : Clock
        Its clock.
    properties : dict
        Facts about the archive, for the manifest.
    definitions : dict of str to dict of str to list
        Columns of every definition table (`tracecols.schema.DEFINITIONS`), locations in process order.
    metric_types : list of list of str
        NumPy dtypes of the members of every metric class.
    capabilities : frozenset of str
        Semantics of records in which formats differ (`schema.kinds.GET_COMPLETION`).
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
            Receives unknown records and losses.
        salvage : bool, optional
            If a location is damaged, stop there and report the loss instead of raising an error.

        Raises
        ------
        SourceError
            With file and position, if the file cannot be read further or is inconsistent.
        """


@runtime_checkable
class SourceOfMany(Source, Protocol):
    """A source that reads several locations at a time, which takes a fraction of the time for small locations."""

    def read_together(self, locations: Sequence[int], report: Report, damaged: Collection[int] = ()) -> Iterator[Batch]:
        """Yield the events of consecutive locations in order; the arrays are reused by the next batch.

        Parameters
        ----------
        locations : sequence of int
            Rows of the locations.
        report : Report
            Receives unknown records and losses.
        damaged : collection of int, optional
            Locations to read with `salvage`, see `Source.read`.
        """


@runtime_checkable
class SourceOfFiles(Source, Protocol):
    """A source that was opened with several files, which no single path names.

    Attributes
    ----------
    files : tuple of Path
        The files it was opened with.
    """

    files: tuple[Path, ...]


def given_as(source: Source) -> Path | tuple[Path, ...]:
    """Return the path, or all the files, to open a source again with.

    Parameters
    ----------
    source : Source
    """
    return source.files if isinstance(source, SourceOfFiles) else source.path


def read_in_order(
    source: Source, locations: Sequence[int], report: Report, damaged: Collection[int] = ()
) -> Iterator[Batch]:
    """Yield the events of consecutive locations in order, with `Batch.parts`; see `SourceOfMany.read_together`.

    Parameters
    ----------
    source : Source
    locations : sequence of int
        Rows of the locations.
    report : Report
        Receives unknown records and losses.
    damaged : collection of int, optional
        Locations of which to keep the events before the damage.
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
        Name of the format.
    endings : tuple of str
        File name endings of its anchor files, dots included.
    open : callable
        Opens the archive of an anchor file and returns a `Source`.
    choose : callable, optional
        Selects the anchor files to open as traces among those of this format in one folder; by default all.
    recognises : callable, optional
        Returns whether a file of any name, or a folder as a whole, is an anchor of this format, judged by its content.
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
        """Return the longest of the endings that a file name has; empty if it has none.

        Parameters
        ----------
        path : Path
            A file.
        """
        return max((ending for ending in self.endings if path.name.endswith(ending)), key=len, default="")


def has_file(path: str | Path) -> bool:
    """Return whether an archive has a file.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    SourceError
        If that cannot be determined: a file in a folder without permission does not count as missing.
    """
    try:
        return exists(path)
    except OSError as error:
        raise unreadable(path, error, "copy the archive again") from error


def text_of(data: bytes) -> str:
    """Decode a name: UTF-8, or Latin-1 if it is not UTF-8, in which no two different names become the same.

    Parameters
    ----------
    data : bytes
        The name as stored in the trace, without an end mark.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def unreadable(path: str | Path, error: OSError, todo: str = "copy the trace again") -> SourceError:
    """Return the error for a file that cannot be read.

    Parameters
    ----------
    path : str or Path
    error : OSError
        Why it cannot.
    todo : str, optional
        What to do if it is not a matter of permissions.
    """
    return SourceError(f"cannot read {path}: {error.strerror or error}\n  {advice(error, todo)}")
