"""What divides the time of a trace into periods: phases of the program, such as its iterations, or bins of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.paths import named
from tracecols.errors import AnalysisError
from tracecols.given.arguments import did_you_mean, is_whole_number, show
from tracecols.kernels import stacks

PHASE, BIN = KINDS = ("phase", "bin")
"""What periods can be."""

FROM = "from:"
"""What is before a call from which to the next one a phase lasts."""

MOST_BINS = 1 << 20
"""Bins of time, at most."""


def _nothing() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Divider:
    """What divides the time of all locations.

    Attributes
    ----------
    kind : str
        `phase`, `bin`, or empty where nothing does.
    mode : int or None
        `stacks.BY_INSTANCE`, `BY_CALL` or `BY_TIME`; None where nothing divides.
    fits : (n_levels, n_regions) bool
        Which regions phases begin with, what they have to be called from, and so on upwards.
    edges : (n_bins - 1,) int64
        Ticks at which all bins but the first begin.
    bounds : (n_bins + 1,) int64
        Ticks between which the bins lie.
    words : str
        How users say it.
    """

    kind: str = ""
    mode: int | None = None
    fits: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), bool))
    edges: NDArray[np.int64] = field(default_factory=_nothing)
    bounds: NDArray[np.int64] = field(default_factory=_nothing)
    words: str = ""

    @property
    def by_time(self) -> bool:
        """Whether it divides into bins."""
        return self.mode == stacks.BY_TIME


WHOLE = Divider()
"""Divides nothing."""


@dataclass(frozen=True)
class Periods:
    """What a user asks for: phases, a number of bins, or their width; nothing by default.

    Attributes
    ----------
    phases : str, optional
        A region, a shell pattern, or the end of a call path: the instances are phases. With `from:` in front: from one
        call to the next.
    bins : int, optional
        Number of bins of the same width.
    bin_width : float, optional
        Seconds.
    """

    phases: str | None = None
    bins: int | None = None
    bin_width: float | None = None

    def facts(self) -> dict[str, Any]:
        """Say what is asked for, for the cube."""
        given = {"phases": self.phases, "bins": self.bins, "bin_width": self.bin_width}
        return {name: value for name, value in given.items() if value is not None}

    def divider(self, regions: Regions, manifest: Mapping[str, Any]) -> Divider:
        """Return what divides the time of a trace.

        Raises
        ------
        AnalysisError
            If no region is called so, or bins would have no width.
        """
        if self.phases is not None:
            return phases_of(self.phases, regions.name)
        if self.bins is not None or self.bin_width is not None:
            return _bins(self, manifest)
        return WHOLE


NO_PERIODS = Periods()
"""The time as a whole."""


def ask(phases: object = None, bins: object = None, bin_width: object = None) -> Periods:
    """Check what a user asks for.

    Parameters
    ----------
    phases, bins, bin_width : object, optional
        See `Periods`.

    Raises
    ------
    AnalysisError
        If it is of another kind than it should be, or several things are asked for.
    """
    given = [
        name for name, value in (("phases", phases), ("bins", bins), ("bin width", bin_width)) if value is not None
    ]
    if len(given) > 1:
        raise AnalysisError(
            f"a cube is divided either by phases or by bins of time, not by {' and '.join(given)}\n"
            "  analyze the trace once for each"
        )
    if phases is not None and (not isinstance(phases, str) or not phases.removeprefix(FROM).strip("/ ")):
        raise AnalysisError(
            f"phases are given by a region or a call, not as {show(phases)}\n  give its name; tracecols phases proposes some"
        )
    if bins is not None and (not is_whole_number(bins) or not 1 <= bins <= MOST_BINS):
        raise AnalysisError(f"{show(bins)} is no number of bins\n  give a whole number from 1 to {MOST_BINS:,}")
    width = None
    if bin_width is not None:
        width = 0.0
        if isinstance(bin_width, int | float | np.number) and not isinstance(bin_width, bool):
            width = float(bin_width)
        if not 0 < width < np.inf:
            raise AnalysisError(f"bins of time cannot be {show(bin_width)} s wide\n  give seconds as a positive number")
    return Periods(phases if isinstance(phases, str) else None, int(bins) if is_whole_number(bins) else None, width)


def phases_of(words: str, names: NDArray[np.object_]) -> Divider:
    """Find the regions that phases begin with, and what they have to be called from.

    Parameters
    ----------
    names : (n_regions,) object
        Names of the regions of the trace.

    Raises
    ------
    AnalysisError
        If no region has the name.
    """
    path = words.removeprefix(FROM).strip()
    levels = [path]
    if not named(names, path).any():
        levels = [part for part in path.split("/") if part][::-1]
    fits = np.array([named(names, level) for level in levels], bool)
    for level, found in zip(levels, fits, strict=True):
        if not found.any():
            hint = did_you_mean(level, names.tolist(), "tracecols phases TRACE proposes some")
            raise AnalysisError(f"no region of this trace is called {show(level)}\n  {hint}")
    mode = stacks.BY_CALL if words.startswith(FROM) else stacks.BY_INSTANCE
    return Divider(PHASE, mode, fits, words=words)


def _bins(asked: Periods, manifest: Mapping[str, Any]) -> Divider:
    """Divide the time between the first and the last event."""
    first, last = int(manifest["first_time"] or 0), int(manifest["last_time"] or 0)
    resolution = int(manifest["clock"]["resolution"])
    length = max(last - first, 1)
    if asked.bins is not None:
        n = asked.bins
        if n > length:
            raise AnalysisError(
                f"{n:,} bins of a trace that lasts {length:,} ticks ({length / resolution:g} s) would have no width\n"
                f"  give {length:,} at most"
            )
        # whole numbers: products exceed 64 bits
        bounds = np.array([first + length * i // n for i in range(n + 1)], np.int64)
        words = f"{n} bins"
    else:
        assert asked.bin_width is not None  # one of them is given
        width = round(asked.bin_width * resolution)
        if width < 1:
            raise AnalysisError(
                f"bins of {asked.bin_width:g} s are narrower than a tick of the clock of this trace, {1 / resolution:g} s\n"
                "  give a larger width"
            )
        n = -(-length // width)
        if n > MOST_BINS:
            raise AnalysisError(
                f"bins of {asked.bin_width:g} s are {n:,} in a trace that lasts {length / resolution:g} s, more than {MOST_BINS:,}\n"
                "  give a larger width, or analyze a piece of the trace (--from, --to)"
            )
        bounds = first + width * np.arange(n + 1, dtype=np.int64)
        words = f"bins of {asked.bin_width:g} s"
    return Divider(BIN, stacks.BY_TIME, edges=bounds[1:-1].copy(), bounds=bounds, words=words)


def divide_intervals(
    bounds: Sequence[int] | NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Divide intervals at the edges of bins; O(n + number of parts).

    What lies before the first bin, or after the last one, counts for that.

    Parameters
    ----------
    bounds : (n_bins + 1,) int64
        Ticks.
    begin, end : (n,) int64
        Ticks; what ends before it begins has no parts.

    Returns
    -------
    row, bin, ticks : (n_parts,) int64
        Interval and bin of every part, and how long it is.
    """
    edges = np.asarray(bounds)[1:-1]
    first = np.searchsorted(edges, begin, "right")
    last = np.maximum(np.searchsorted(edges, end, "left"), first)
    n = np.where(end > begin, last - first + 1, 0)
    row = np.repeat(np.arange(begin.size), n)
    bins = first[row] + np.arange(row.size) - np.repeat(np.cumsum(n) - n, n)
    padded = np.concatenate([[np.iinfo(np.int64).min], edges, [np.iinfo(np.int64).max]])
    low, high = np.maximum(begin[row], padded[bins]), np.minimum(end[row], padded[bins + 1])
    return row, bins, high - low
