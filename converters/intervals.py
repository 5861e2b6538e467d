"""Intervals of many locations, recorded in any order: sorted by begin in bounded memory, and written as events.

Formats that record whole calls and kernels (Kineto, Nsight Systems) contain intervals: each becomes ENTER and EXIT of a
region, with attributes that relate calls to activities of devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tracecols.converters import nesting, sides
from tracecols.converters.base import Batch
from tracecols.converters.buffers import Events, empty_sides
from tracecols.converters.temporary import temporary_file, write
from tracecols.distinct import distinct, starts_run
from tracecols.kernels.arrays import doubled, empty, first
from tracecols.schema.enums import COPIED_BYTES, CORRELATION, VALUE_TYPES
from tracecols.vectors import offsets_of

INTERVAL = np.dtype(
    [
        ("begin", np.int64),
        ("end", np.int64),
        ("correlation", np.int64),
        ("size", np.int64),
        ("event", np.int64),
        ("operation", np.int64),
        ("region", np.int32),
        ("stream", np.int32),
        ("level", np.int32),
    ]
)
"""An interval: its times; attributes (`ATTRIBUTES`), -1 none; the operation whose call or kernel it is, -1 none; and a
level: of intervals that begin and end together, those of lower levels enclose the others."""

ATTRIBUTES = (
    (CORRELATION, "correlation", "uint64"),
    (COPIED_BYTES, "size", "uint64"),
    ("CUDA_STREAM_REF", "stream", "location"),
    ("CUDA_EVENT_REF", "event", "uint64"),
)
"""Attributes of ENTER: name, column of the intervals, type."""

NO_STREAM = (1 << 32) - 1
"""Stream number of calls that do not wait for a single stream."""

SIDE_COLUMNS = sides.side_columns(sides.VALUES)

SORTED_AT_ONCE = 1 << 21
"""Intervals that are sorted in memory at once."""

ROWS = 1 << 18
"""Events per batch."""


@dataclass
class References:
    """Streams and events that calls refer to, by correlation ID, or process and correlation ID."""

    key: NDArray[np.int64]
    """(n,): in ascending order."""
    stream: NDArray[np.int64]
    event: NDArray[np.int64]
    """`stream` and `event`: (n,)"""

    @classmethod
    def of_calls(cls, key: NDArray[np.int64], stream: NDArray[np.int64], event: NDArray[np.int64]) -> References:
        """Collect the references of calls, the first ones of each call; -1 none."""
        key, first_of = np.unique(key, return_index=True)
        return cls(key, stream[first_of], event[first_of])

    def of(self, key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return stream and event of calls, -1 if a call refers to none."""
        if not self.key.size:
            return np.full(key.size, -1), np.full(key.size, -1)
        at = np.minimum(np.searchsorted(self.key, key), self.key.size - 1)
        found = (self.key[at] == key) & (key >= 0)
        return np.where(found, self.stream[at], -1), np.where(found, self.event[at], -1)


@dataclass
class _Piece:
    """Intervals of one location that were added together: range in the file, first and last begin, last end."""

    start: int
    stop: int
    low: int
    high: int
    end: int


class Gathered:
    """Intervals in a temporary file, by location."""

    def __init__(self) -> None:
        self._file: BinaryIO = temporary_file()
        self._pieces: dict[int, list[_Piece]] = {}
        self._n = 0

    def add(self, location: NDArray[np.int64], intervals: NDArray[Any]) -> None:
        """Add intervals with their locations."""
        if not location.size:
            return
        order = np.argsort(location, kind="stable")
        location, intervals = location[order], intervals[order]
        bounds = np.flatnonzero(starts_run(location))
        for start, stop in zip(bounds.tolist(), [*bounds[1:].tolist(), location.size], strict=True):
            begin, end = intervals["begin"][start:stop], intervals["end"][start:stop]
            times = int(begin.min()), int(begin.max()), int(end.max())
            self._pieces.setdefault(int(location[start]), []).append(_Piece(self._n + start, self._n + stop, *times))
        write(self._file, intervals.tobytes())
        self._n += intervals.size

    def span(self, location: int) -> tuple[int, int]:
        """Return the first begin and the last end of a location that has intervals."""
        pieces = self._pieces[location]
        return min(p.low for p in pieces), max(max(p.high, p.end) for p in pieces)

    def count(self, location: int) -> int:
        """Return the number of intervals of a location."""
        return sum(p.stop - p.start for p in self._pieces.get(location, []))

    def sort(self, location: int, file: BinaryIO) -> None:
        """Append the intervals of a location to a file by begin, enclosing ones first, else as they were added."""
        pieces = self._pieces.get(location, [])
        if not pieces:
            return
        stored = np.memmap(self._file, INTERVAL, "r", shape=(self._n,))
        for low, high in _ranges(stored, pieces):
            parts = []
            for p in pieces:
                if p.high >= low and p.low < high:
                    part_of = stored[p.start : p.stop]
                    if p.low < low or p.high >= high:
                        part_of = part_of[(part_of["begin"] >= low) & (part_of["begin"] < high)]
                    parts.append(np.asarray(part_of))
            found = np.concatenate(parts)
            order = np.lexsort((found["level"], -found["end"], found["begin"]))
            write(file, found[order].tobytes())


def _ranges(stored: NDArray[Any], pieces: list[_Piece]) -> Iterator[tuple[int, int]]:
    """Split the begins of a location into ranges of about `SORTED_AT_ONCE` intervals."""
    n = sum(p.stop - p.start for p in pieces)
    low, top = min(p.low for p in pieces), max(p.high for p in pieces) + 1
    n_ranges = -(-n // SORTED_AT_ONCE)
    if n_ranges > 1:
        step = max(1, n // (n_ranges * 1024))
        sample = np.sort(np.concatenate([stored["begin"][p.start : p.stop : step] for p in pieces]))
        cuts = distinct(sample[np.arange(1, n_ranges) * sample.size // n_ranges]).tolist()
        for cut in cuts:
            if low < cut < top:
                yield low, cut
                low = cut
    yield low, top


@dataclass
class Nested:
    """Changes made to overlapping intervals, so that they enclose or follow each other."""

    n_cut: int = 0
    """Number of intervals that overlapped another one without being inside it."""
    longest: int = 0
    time: int = 0
    """`longest` and `time`: maximum and sum of the nanoseconds that were cut off, or by which a begin was moved."""

    @classmethod
    def of(cls, change: NDArray[np.int64]) -> Nested:
        """Sum up the changes of intervals, in ns; 0 for unchanged ones."""
        return cls(int(np.count_nonzero(change)), int(change.max(initial=0)), int(change.sum()))

    def __add__(self, other: Nested) -> Nested:
        return Nested(self.n_cut + other.n_cut, max(self.longest, other.longest), self.time + other.time)


@dataclass
class Writer:
    """Writes the events of one location; `nested` are the changes made to its intervals."""

    rules: nesting.Rules
    nested: Nested = field(default_factory=Nested)

    def __post_init__(self) -> None:
        self._state = np.zeros(nesting.STATE, np.int64)
        self._state[nesting.LAST] = np.iinfo(np.int64).min
        self._stack = empty(nesting.Stack, 1 << 6)
        self._resize(ROWS)

    def _resize(self, rows: int) -> None:
        self._out = nesting.Out(empty(Events, rows), empty_sides(rows), empty(nesting.Attributes, 4 + 2 * rows))

    def batches(self, pieces: Iterator[NDArray[Any]]) -> Iterator[Batch]:
        """Yield the events of intervals in order; the arrays are reused by the next batch."""
        state, rules = self._state, self.rules
        for found in pieces:
            begin, end, region, operation = (
                np.ascontiguousarray(found[name]) for name in ("begin", "end", "region", "operation")
            )
            attributes = np.stack([found[column].astype(np.int64) for _, column, _ in ATTRIBUTES])
            intervals = nesting.Intervals(begin, end, region, operation, attributes)
            state[nesting.AT] = 0
            while not nesting.write_events(intervals, rules, self._stack, self._out, state):
                if state[nesting.DEPTH] == self._stack.end.size:
                    self._stack = doubled(self._stack)
                elif state[nesting.N_EVENTS]:
                    yield self._batch()
                else:
                    self._resize(2 * self._out.events.time.size)
        while not nesting.leave_all(rules.extra, self._stack, self._out, state):
            yield self._batch()
        yield self._batch()
        self.nested = Nested(*(int(state[k]) for k in (nesting.N_CUT, nesting.LONGEST_CUT, nesting.CUT)))

    def _batch(self) -> Batch:
        """Turn filled buffers into columns, and empty them."""
        state = self._state
        n, n_sides, n_attributes = (int(state[k]) for k in (nesting.N_EVENTS, nesting.N_SIDES, nesting.N_ATTRIBUTES))
        batch = Batch(
            first(self._out.events, n)._asdict(), sides.side_tables(SIDE_COLUMNS, first(self._out.sides, n_sides))
        )
        if n_attributes:
            row, which, value = first(self._out.attributes, n_attributes)
            types = np.array([VALUE_TYPES.index(t) for *_, t in ATTRIBUTES], np.uint8)
            batch.sides["attributes"] = {"row": row, "attribute": which, "type": types[which], "value": value}
        state[nesting.BASE] += n
        state[[nesting.N_EVENTS, nesting.N_SIDES, nesting.N_ATTRIBUTES]] = 0
        return batch


class Sorted:
    """The intervals of the given locations in order, in a temporary file. Here a location is its index among those
    given; `counts` is the number of intervals of each."""

    def __init__(self, gathered: Gathered, locations: Sequence[int]) -> None:
        self.counts = [gathered.count(i) for i in locations]
        self._start = offsets_of(self.counts)
        with temporary_file() as file:
            for location in locations:
                gathered.sort(location, file)
            n = int(self._start[-1])
            self._all = np.memmap(file, INTERVAL, "r", shape=(n,)) if n else np.zeros(0, INTERVAL)

    def pieces(self, location: int, n: int = ROWS) -> Iterator[NDArray[Any]]:
        """Yield the intervals of a location in order, n at a time."""
        stop = int(self._start[location + 1])
        for start in range(int(self._start[location]), stop, n):
            yield np.asarray(self._all[start : min(start + n, stop)])
