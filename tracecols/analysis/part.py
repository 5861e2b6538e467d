"""The part of a run that an analysis is narrowed to, and how it is divided: keywords of several methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

Selection = int | str | Iterable[int | str] | None
"""Locations: rows, texts such as `rank 0-3 thread 1`, or several of them; None, all."""


class Part(TypedDict, total=False):
    """The part of a run that is analysed, and how it is divided; all of it, undivided, by default."""

    within: str | None
    """A region, or a shell pattern: only its instances and what they call."""
    locations: Selection
    """Rows of the locations whose cells to keep, or texts such as `rank 0`; joins still see all."""
    rank: int | None
    thread: int | None
    """`rank` and `thread`: only locations of this process, and with this number in their process."""
    start: float | None
    stop: float | None
    """`start` and `stop`: seconds since the start of the recording. The piece between is analysed as a trace by itself
    (docs/store.md)."""
    phases: str | None
    """Divide all severities by phases (docs/phases.md): instances of a region, given by its name, a shell pattern, or
    the end of a call path, `solve/step`; or from one call to the next, `from:solve/MPI_Allreduce`. The k-th on a
    location is phase k."""
    bins: int | None
    """Number of time bins of the same width by which all severities are divided; not together with phases."""
    bin_width: float | None
    """Width of the bins in seconds, instead of their number."""
