"""Division of the time of a trace into periods: phases of the program, such as its iterations, or bins of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.scan.paths import named_or_numbered
from tracecols.errors import AnalysisError
from tracecols.given.arguments import did_you_mean, is_whole_number, show
from tracecols.given.quantities import counted
from tracecols.kernels import periods as kernels
from tracecols.kernels import stacks
from tracecols.vectors import Ints, Mask

PHASE, BIN = KINDS = ("phase", "bin")
"""Kinds of periods."""

FOCUS = "focus"
"""Kind of a division that only distinguishes the focus of each process from its start and end."""

FROM = "from:"
"""Prefix of a call if phases last from one call to the next."""

MOST_BINS = 1 << 20
"""Maximum number of bins."""


@dataclass(frozen=True, eq=False)
class Divider:
    """The division of the time of all locations into periods.

    Notes
    -----
    A division by time has spans. At each location, the edges of the bins and both ends of its focus are the edges of
    spans, ordered by time; span `k` ends at edge `k`. Call paths are distinguished by span (`PeriodCallPaths.period`).
    """

    kind: str = ""
    """`phase`, `bin`, `focus`, or empty if time is not divided."""
    mode: int | None = None
    """`stacks.BY_INSTANCE`, `BY_CALL` or `BY_TIME`; None if time is not divided."""
    fits: Mask = field(default_factory=lambda: np.zeros((0, 0), bool))
    """(n_levels, n_regions): regions that begin phases, regions they have to be called from, and so on upwards."""
    edges: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n_bins - 1,): ticks at which all bins but the first begin."""
    bounds: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """(n_bins + 1,): ticks of the boundaries of the bins."""
    words: str = ""
    """Description of the division for users."""
    focus: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    """(n_locations, 2): begin and end of the focus of each location in ticks; the whole trace if there is no focus.
    Only for bins and the focus."""
    has_focus: bool = False
    """Whether a focus is distinguished."""

    @classmethod
    def of_bins(cls, bounds: Ints, n_locations: int) -> Divider:
        """Divide at the edges of bins, without a focus."""
        everything = np.array([[np.iinfo(np.int64).min, np.iinfo(np.int64).max]])
        focus = np.repeat(everything, n_locations, axis=0)
        return cls(BIN, stacks.BY_TIME, edges=bounds[1:-1].copy(), bounds=bounds, focus=focus)

    @property
    def by_time(self) -> bool:
        """Whether it divides by time: into bins, or at the ends of the focus."""
        return self.mode == stacks.BY_TIME

    @property
    def n_spans(self) -> int:
        return self.edges.size + 3

    @property
    def first_period(self) -> int:
        """The period in which a location begins: its first span, or outside of all phases."""
        return 0 if self.by_time else -1

    def period_of_rest(self, location: NDArray[np.signedinteger[Any]] | None, n: int) -> Ints:
        """Return the periods for values whose time is unknown: outside of all phases, or the first span in the focus;
        (n,) int64.

        For bins without given locations: the first span.
        """
        if self.kind == BIN and self.has_focus and location is not None:
            return np.asarray(self._focus_edges(location)[0] + 1, np.int64)
        return np.full(n, {BIN: 0, FOCUS: 1}.get(self.kind, -1))

    def converted(self, times: Callable[[Ints], NDArray[Any]]) -> Divider:
        """Return the same divider with edges in another unit of time."""
        return replace(self, edges=times(self.edges), focus=times(self.focus))

    def edges_of(self, locations: Ints) -> Ints:
        """Return the edges between the spans of some locations, ascending; (n_locations, n_spans - 1) int64."""
        of_bins = np.broadcast_to(self.edges, (locations.size, self.edges.size))
        return np.sort(np.concatenate([of_bins, self.focus[locations]], axis=1), axis=1)

    @property
    def spans(self) -> kernels.Spans:
        """The spans as kernels take them."""
        return kernels.Spans(self.edges, self.focus)

    def piece(
        self, time: NDArray[Any], location: NDArray[np.signedinteger[Any]], side: Literal["left", "right"] = "right"
    ) -> Ints:
        """Return the last spans that begin at or before times; with side `left`, the first that end at or after
        them."""
        found = np.empty(time.size, np.int64)
        (kernels.find_begun if side == "right" else kernels.find_ended)(time, location, self.spans, found)
        return found

    def _focus_edges(self, location: NDArray[np.signedinteger[Any]]) -> tuple[Ints, Ints]:
        """Return the numbers of the edges at the begin and end of the focus of some locations; at equal times they
        precede edges of bins."""
        if location.size < len(self.focus):
            found = np.searchsorted(self.edges, self.focus[location])
        else:
            # once for each location
            found = np.searchsorted(self.edges, self.focus)[location]
        return found[:, 0], found[:, 1] + 1

    def focus_of(self, locations: Sequence[int]) -> Ints:
        """Return the focus of some locations as kernels take it (`stacks.Periods`); (n, 4) int64."""
        if not self.by_time:
            return np.zeros((len(locations), 4), np.int64)
        which = np.array(locations, np.int64)
        return np.column_stack([self.focus[which], *self._focus_edges(which)])

    def edge(self, number: Ints, location: NDArray[np.signedinteger[Any]]) -> NDArray[Any]:
        """Return the times of some edges: the smallest and the largest integer for those before the first and after the
        last.

        Edges are numbered from -1 (before the first) to the number of edges (after the last).
        """
        begin, end = self._focus_edges(location)
        padded = np.concatenate([[np.iinfo(np.int64).min], self.edges, [np.iinfo(np.int64).max]])
        of_bins = padded[np.clip(number + 1 - (number > begin) - (number > end), 0, padded.size - 1)]
        ends = self.focus[location]
        return np.where(number == begin, ends[:, 0], np.where(number == end, ends[:, 1], of_bins))

    def bin_of(self, piece: NDArray[Any], location: NDArray[Any]) -> tuple[NDArray[np.int32], Mask]:
        """Return the bin in which each span lies, and whether it lies in the focus."""
        begin, end = self._focus_edges(location)
        passed = (piece > begin).astype(np.int32) + (piece > end)
        return (piece - passed).astype(np.int32), passed == 1


WHOLE = Divider()
"""No division."""


class Periods(NamedTuple):
    """The periods that a user requests: phases, a number of bins, or their width; none by default."""

    phases: str | None = None
    """A region, a shell pattern, or the end of a call path, whose instances are phases. With the prefix `from:`, phases
    last from one call to the next."""
    bins: int | None = None
    """Number of bins of the same width."""
    bin_width: float | None = None
    """Seconds."""

    def facts(self) -> dict[str, Any]:
        """Return the request as facts of the cube."""
        given = {"phases": self.phases, "bins": self.bins, "bin_width": self.bin_width}
        return {name: value for name, value in given.items() if value is not None}

    def divider(self, d: Definitions, focus: Ints | None = None) -> Divider:
        """Return the divider of the time of a trace. `focus`: ticks of begin and end of the focus of each location, if
        it is to be distinguished; ignored for phases. Raises AnalysisError if no region has the name, or for bins
        without width."""
        if self.phases is not None:
            return phases_of(self.phases, d.regions.name)
        if self.bins is not None or self.bin_width is not None:
            manifest = d.store.manifest
            everything = [[int(manifest["first_time"] or 0), after_last(manifest)]]
            ends = np.repeat(np.array(everything, np.int64), d.n_locations, axis=0) if focus is None else focus
            return replace(_bins(self, manifest), focus=ends, has_focus=focus is not None)
        return WHOLE if focus is None else Divider(FOCUS, stacks.BY_TIME, focus=focus, has_focus=True)


NO_PERIODS = Periods()
"""The time as a whole."""

LATEST = int(np.iinfo(np.int64).max)
"""The largest time, in ticks."""


def after_last(manifest: Mapping[str, Any]) -> int:
    """Return the tick after the last event, before which all time of a trace lies. Raises AnalysisError if there is
    none."""
    last = int(manifest["last_time"] or 0)
    if last >= LATEST:
        raise AnalysisError(
            f"the last event is at {last} ticks, the largest time there is: the time of this trace cannot be divided\n"
            "  analyze a piece of it that ends earlier (--to)"
        )
    return last + 1


def ask(phases: object = None, bins: object = None, bin_width: object = None) -> Periods:
    """Check the periods that a user requests (see `Periods`). Raises AnalysisError if an argument has a wrong type or
    value, or several are given."""
    given = [
        name for name, value in (("phases", phases), ("bins", bins), ("bin width", bin_width)) if value is not None
    ]
    if len(given) > 1:
        raise AnalysisError(
            f"a cube is divided by one of phases, bins and a bin width, not by {' and '.join(given)}\n"
            "  give one of them; analyze the trace once for each"
        )
    if phases is not None and (not isinstance(phases, str) or not phases.removeprefix(FROM).strip("/ ")):
        raise AnalysisError(
            f"phases are given by a region or a call, not as {show(phases)}\n"
            "  give its name; tracecols phases proposes some"
        )
    if bins is not None and (not is_whole_number(bins) or not 1 <= bins <= MOST_BINS):
        raise AnalysisError(f"{show(bins)} is not a number of bins\n  give a whole number from 1 to {MOST_BINS:,}")
    width = None
    if bin_width is not None:
        width = 0.0
        if isinstance(bin_width, int | float | np.number) and not isinstance(bin_width, bool):
            width = float(bin_width)
        if not 0 < width < np.inf:
            raise AnalysisError(f"bins of time cannot be {show(bin_width)} s wide\n  give seconds as a positive number")
    return Periods(phases if isinstance(phases, str) else None, int(bins) if is_whole_number(bins) else None, width)


def phases_of(words: str, names: NDArray[np.object_]) -> Divider:
    """Find the regions of the trace that begin phases, and those they have to be called from. Raises AnalysisError if
    no region has the name."""
    path = words.removeprefix(FROM).strip()
    levels = [path]
    if not named_or_numbered(names, path).any():
        levels = [part for part in path.split("/") if part][::-1]
    fits = np.array([named_or_numbered(names, level) for level in levels], bool)
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
                f"{n:,} bins of a trace that lasts {counted(length, 'tick')} ({length / resolution:g} s) would have no "
                "width\n"
                f"  give {length:,} at most"
            )
        # Python integers: products exceed 64 bits
        bounds = np.array([first + length * i // n for i in range(n + 1)], np.int64)
        words = f"{n} bins"
    else:
        assert asked.bin_width is not None  # one of them is given
        width = round(asked.bin_width * resolution)
        if width < 1:
            raise AnalysisError(
                f"bins of {asked.bin_width:g} s are narrower than a tick of the clock of this trace, "
                f"{1 / resolution:g} s\n"
                "  give a larger width"
            )
        n = -(-length // width)
        if n > MOST_BINS:
            raise AnalysisError(
                f"bins of {asked.bin_width:g} s are {n:,} in a trace that lasts {length / resolution:g} s, more "
                f"than {MOST_BINS:,}\n"
                "  give a larger width, or analyze a piece of the trace (--from, --to)"
            )
        bounds = np.append(first + width * np.arange(n, dtype=np.int64), min(first + width * n, LATEST))
        words = f"bins of {asked.bin_width:g} s"
    return Divider(BIN, stacks.BY_TIME, edges=bounds[1:-1].copy(), bounds=bounds, words=words)


def divide_intervals(
    by: Divider, begin: Ints, end: Ints, location: NDArray[np.signedinteger[Any]]
) -> tuple[Ints, Ints, Ints]:
    """Divide intervals at the edges between spans; O(n + number of parts).

    An interval that ends before it begins has no parts. Returns interval, span and ticks of every part.
    """
    spans = by.spans
    n = int(kernels.count_parts(begin, end, location, spans))
    parts = kernels.Parts(*np.empty((3, n), np.int64))
    kernels.divide_intervals(begin, end, location, spans, parts)
    return parts
