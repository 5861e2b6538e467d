"""Region instances within a time range, as slices that are long enough to be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.export.drawing import SideOfSlices, SliceBuilder
from tracecols.kernels import arrays
from tracecols.kernels import timeline as kernels
from tracecols.once import Recent
from tracecols.store import Store
from tracecols.timeline.marks import Marks

BATCH = 1 << 20
"""Events that are read at a time, as many as a store reads at once."""

KEPT = 1 << 21
"""Number of events kept for the next question, 13 B each: those of one question. Many questions are about the same
time, and events are processed again if there are too many slices. Reading them takes most of the time of an answer,
since a store reads 2^20 at once."""

MOST_EVENTS = 1 << 21
"""Maximum number of events between the marks around a range, over all rows shown, for which slices are read."""

MOST_SLICES = 50_000
"""Maximum number of slices of an answer: if there are more, short ones are merged."""


@dataclass(frozen=True)
class Slices:
    """Slices of several locations."""

    location: NDArray[np.int32]
    """(n,)"""
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (n,), ticks; slices open at an end of the range are clipped to it."""
    depth: NDArray[np.int32]
    name: NDArray[np.int32]
    """`depth` and `name`: (n,), level; region, `tasks_name` for an explicit task."""
    count: NDArray[np.int64]
    busy: NDArray[np.int64]
    """`count` and `busy`: (n,), number of slices merged into it, and their total length in ticks."""

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def joined(parts: Sequence[Slices]) -> Slices:
    """Return the slices of several answers as one."""
    parts = [_as_slices(arrays.empty(kernels.Collected, 0), 0), *parts]
    return Slices(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Slices)))


class SliceReader:
    """Reads the slices of time ranges; names are below `n_names`: regions, and `tasks_name` for explicit tasks."""

    def __init__(self, store: Store, marks: Marks, n_names: int, tasks_name: int) -> None:
        self._store, self._marks, self._n_names, self._tasks_name = store, marks, n_names, tasks_name
        self._side = lru_cache(256)(lambda location: SideOfSlices.of(store, location))
        self._recent = Recent[tuple[int, int, int], Columns](KEPT, lambda columns: columns["time"].size)

    @property
    def n_locations(self) -> int:
        """Number of locations of the trace."""
        return int(self._store.manifest["n_locations"])

    def n_events(self, locations: Sequence[int], start: int, stop: int) -> int:
        """Return the number of events of locations between the marks around a time range; nothing is read."""
        return sum(high - low for low, high in (self._between(i, start, stop) for i in locations))

    def _between(self, location: int, start: int, stop: int) -> tuple[int, int]:
        n = self._store.n_rows("events", location)
        return self._marks.before(location, start).event, self._marks.after(location, stop, n)

    def read(
        self,
        locations: Sequence[int],
        start: int,
        stop: int,
        shortest: int = 0,
        go_on: Callable[[], None] = lambda: None,
    ) -> tuple[Slices, int]:
        """Read the slices between two times, start <= time < stop.

        Slices shorter than `shortest` ticks that are close together become one. While there are more than `MOST_SLICES`
        slices, `shortest` is doubled; its last value is returned. `go_on` is called for each location; it may raise an
        error to cancel the read.
        """
        parts, shortest = self.read_each([(location, start, stop) for location in locations], shortest, go_on)
        return joined(parts), shortest

    def read_each(
        self, spans: Sequence[tuple[int, int, int]], shortest: int = 0, go_on: Callable[[], None] = lambda: None
    ) -> tuple[list[Slices], int]:
        """Read the slices of several locations, each in a time range of its own, (location, start, stop); otherwise as
        `read`."""
        longest = max((stop - start for _, start, stop in spans), default=0)
        while True:
            parts, n = list[Slices](), 0
            for span in spans:
                go_on()
                parts.append(self.of(*span, shortest)[0])
                n += parts[-1].begin.size
                if n > MOST_SLICES:
                    break
            if n <= MOST_SLICES:
                return parts, shortest
            shortest = max(2 * shortest, longest >> 14, 1)

    def of(self, location: int, start: int, stop: int, shortest: int = 0) -> tuple[Slices, NDArray[np.int64]]:
        """Read the slices of one location, and the exclusive time of each name, in ticks."""
        collector = _Collector(self._n_names, shortest)
        for drawn in self._drawn(location, start, stop):
            collector.add(drawn)
        return _as_slices(collector.done(), location), collector.own

    def _drawn(self, location: int, start: int, stop: int) -> Iterator[kernels.Drawn]:
        """Draw the slices between two times."""
        mark = self._marks.before(location, start)
        n = self._store.n_rows("events", location)
        top = self._marks.after(location, stop, n)
        builder = SliceBuilder(self._store, location, start, stop, self._tasks_name, self._side(location), mark.opened)
        nothing = np.zeros(0, np.int64)
        for base in range(mark.event, top, BATCH):
            high = min(base + BATCH, top)
            columns = self._events(location, base, high)
            # past `top` nothing begins before `stop`
            yield from builder.draw(columns, nothing, high == top)
            if builder.is_over:
                return

    def _events(self, location: int, start: int, stop: int) -> Columns:
        """Return events of a location, from the recently read ones if possible."""

        def read() -> Columns:
            columns = self._store.read("events", location, None, start, stop)
            # copies: these are parts of larger arrays
            return {name: values.copy() for name, values in columns.items()}

        return self._recent.get((location, start, stop), read)


def _as_slices(found: kernels.Collected, location: int) -> Slices:
    return Slices(np.full(found.begin.size, location, np.int32), *found)


class _Collector:
    """Collects drawn slices, merging short ones."""

    def __init__(self, n_names: int, shortest: int) -> None:
        self._state = np.zeros(kernels.N_COLLECTED, np.int64)
        self._open = arrays.zeros(kernels.Open, 32)
        self._shortest, self._found = shortest, list[kernels.Collected]()
        self.own = np.zeros(n_names, np.int64)

    def add(self, drawn: kernels.Drawn) -> None:
        """Add drawn slices."""
        at, n = 0, drawn.time.size
        while at < n:
            rest = arrays.after(drawn, at)
            out = arrays.empty(kernels.Collected, rest.time.size + 2 * self._open.begin.size)
            full = kernels.collect_slices(rest, rest.time.size, self._shortest, self._state, self._open, self.own, out)
            self._take(out)
            if full < 0:
                return
            at += full
            self._open = arrays.doubled(self._open)

    def done(self) -> kernels.Collected:
        """Return all collected slices."""
        out = arrays.empty(kernels.Collected, self._open.begin.size)
        kernels.collect_rest(self._state, self._open, out)
        self._take(out)
        columns: Any = zip(*self._found, strict=True)
        return kernels.Collected(*map(np.concatenate, columns))

    def _take(self, out: kernels.Collected) -> None:
        n = int(self._state[kernels.N_SLICES])
        self._state[kernels.N_SLICES] = 0
        # copies: only a small part of a large array may be filled
        found: Any = (column[:n].copy() for column in out)
        self._found.append(kernels.Collected(*found))
