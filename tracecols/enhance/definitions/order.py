"""The chronological order of events across locations (thesis 3.1): by time, and among events of the same time by tie
order.

The events of a location are in the order in which they were recorded. If times decrease (`Store.decreases`), an event
that is earlier than a preceding one is a late event: it is ordered as if it had the time of the latest preceding event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.grouping import find_sorted, positions
from tracecols.store import Store
from tracecols.vectors import Ints, Mask

BATCH = 1 << 20
"""Events that are read at once."""

SAMPLE, WINDOW = 1 << 10, 1 << 21
"""All events are sorted in chunks of about WINDOW events, whose bounds are among every SAMPLE-th time of locations."""


def late_events(store: Store, location: int) -> tuple[Ints, Ints]:
    """Find the events of a location that are earlier than a preceding one: their numbers in the location, ascending,
    and ticks of the latest preceding event of each.

    O(n) in the events of the location if its times decrease, otherwise O(1).
    """
    numbers, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    latest = np.iinfo(np.int64).min
    n = store.n_rows("events", location) if store.decreases.get(location) else 0
    for base in range(0, n, BATCH):
        time = store.read("events", location, ["time"], base, base + BATCH)["time"]
        running = np.maximum(np.maximum.accumulate(time), latest)
        late = np.flatnonzero(time < running)
        numbers.append(base + late)
        times.append(running[late])
        latest = running[-1]
    return np.concatenate(numbers), np.concatenate(times)


class EventOrder:
    """Order of events by time, of late events by the time of the latest preceding event; ties go to the lower location
    unless the source defines another order (side table `ties`), and within a location to the event recorded first."""

    def __init__(self, store: Store) -> None:
        self._first_rows = store.first_rows
        with_ties = [i for i in range(self._first_rows.size) if store.n_rows("ties", i)]
        parts = [store.read("ties", i) for i in with_ties]
        self._rows = np.concatenate([*(p["row"] for p in parts), np.zeros(0, np.int64)])
        self._tie_orders = np.concatenate([*(p["place"] for p in parts), np.zeros(0, np.int64)])
        late = [(self._first_rows[i], *late_events(store, i)) for i in sorted(store.decreases)]
        nothing = np.zeros(0, np.int64)
        self._late = np.concatenate([nothing, *(first + number for first, number, _ in late)])
        self._late_times = np.concatenate([nothing, *(time for _, _, time in late)])

    def time(self, rows: Ints, time: Ints) -> Ints:
        """Return the times by which events are ordered: for late events that of the latest preceding event; (n,)
        int64."""
        if not self._late.size or not rows.size:
            return time
        at = find_sorted(self._late, rows)
        return np.where(at >= 0, self._late_times[at], time)

    def times_of(self, first: int, time: Ints) -> Ints:
        """Return the same for consecutive events of one location, beginning with row `first`: the result never
        decreases."""
        low, high = np.searchsorted(self._late, [first, first + time.size])
        if low == high:
            return time
        result = time.copy()
        result[self._late[low:high] - first] = self._late_times[low:high]
        return result

    def times_along(self, first: Ints, bounds: Ints, time: Ints) -> Ints:
        """Return the same for consecutive events of some locations, which begin with rows `first`, at positions
        `bounds` of `time`."""
        if not self._late.size:
            return time
        return self.time(np.repeat(first - bounds[:-1], np.diff(bounds)) + np.arange(time.size), time)

    def locations_of(self, rows: Ints) -> NDArray[np.int32]:
        """Return the locations of some events; (n,) int32, -1 for row -1."""
        return (np.searchsorted(self._first_rows, rows, "right") - 1).astype(np.int32)

    def tie_order(self, rows: Ints) -> Ints:
        """Return the number by which events of the same time are ordered, before their rows; (n,) int64."""
        if not self._rows.size:
            return rows
        at = find_sorted(self._rows, rows)
        return np.where(at >= 0, self._tie_orders[at], self.locations_of(rows).astype(np.int64) << 32)

    def is_listed(self, rows: Ints) -> Mask:
        """Return a mask of the events whose tie order the source defines; (n,) bool."""
        return find_sorted(self._rows, rows) >= 0

    def argsort(self, rows: Ints, time: Ints, *groups: NDArray[Any]) -> Ints:
        """Sort events by groups, the first key being most significant, then chronologically; O(n log n)."""
        time = self.time(rows, time)
        if not self._rows.size:
            return np.lexsort((rows, time, *groups[::-1]))
        return np.lexsort((rows, self.tie_order(rows), time, *groups[::-1]))

    def rank(self, rows: Ints, time: Ints) -> Ints:
        """Number events chronologically; equal events get different numbers. (n,) int64."""
        return positions(self.argsort(rows, time))

    def precedes(self, rows: Ints, time: Ints, other: Ints, other_time: Ints) -> Mask:
        """Return whether each event precedes the other one; (n,) bool."""
        time, other_time = self.time(rows, time), self.time(other, other_time)
        tie, other_tie = self.tie_order(rows), self.tie_order(other)
        tied = (tie < other_tie) | ((tie == other_tie) & (rows < other))
        return (time < other_time) | ((time == other_time) & tied)

    def windows(self, time: Ints, forget: Callable[[], None] = lambda: None) -> Iterator[Ints]:
        """Yield the rows of all events in chronological order, about `WINDOW` at a time, which bounds the memory
        besides `time`; O(n log n) in total.

        `time` has the times of all events in the order of their rows, and may be mapped from a file; `forget` is called
        repeatedly to release the pages that were read.
        """
        bounds = [*self._first_rows.tolist(), time.size]
        spans = [(a, b) for a, b in pairwise(bounds) if a < b]
        sampled = [np.zeros(0, np.int64)]
        for a, b in spans:
            sampled.append(time[a:b:SAMPLE].copy())
            forget()
        samples = np.sort(np.concatenate(sampled))
        # events of the same time stay together
        cuts = distinct(samples[WINDOW // SAMPLE :: WINDOW // SAMPLE])
        at = [a for a, _ in spans]
        for cut in [*cuts.tolist(), None]:
            stop = [
                b if cut is None else a + int(np.searchsorted(self.times_of(a, time[a:b]), np.int64(cut)))
                for a, (_, b) in zip(at, spans, strict=True)
            ]
            rows = np.concatenate([*(np.arange(a, b) for a, b in zip(at, stop, strict=True)), np.zeros(0, np.int64)])
            yield rows[self.argsort(rows, time[rows])]
            forget()
            at = stop

    def fill_positions(
        self, time: Ints, positions: NDArray[Any], forget: Callable[[], None] = lambda: None
    ) -> Iterator[Ints]:
        """Number all events chronologically (`pos`, thesis 3.1), writing to `positions`; yields the rows of each window
        in order."""
        done = 0
        for rows in self.windows(time, forget):
            positions[rows] = np.arange(done, done + rows.size)
            done += rows.size
            yield rows
