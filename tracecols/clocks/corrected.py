"""A trace with corrected clocks as a source of events, which can be written as a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Batch, Report
from tracecols.enhance.scan.facts import Facts
from tracecols.kernels import clocks as kernels
from tracecols.slices.source import ROWS, StoreSource
from tracecols.store.outputs import CORRECTED


@dataclass(frozen=True, eq=False)
class Shifts:
    """Shifts of events, known for those that take part in clock conditions."""

    facts: Facts
    row: NDArray[np.int64]
    time: NDArray[np.int64]
    """`row` and `time`: (n_nodes,), such events, ascending, and their recorded ticks; late events have those of the
    latest event before."""
    shift: NDArray[np.int64]
    """(n_nodes,): ticks, never negative."""
    shrink: float
    stretch: float
    """`shrink` and `stretch`: shares of the elapsed time by which a shift decreases after such an event, and grows
    before it."""

    def of_location(self, location: int) -> LocationShifts:
        """Return the shifts of one location."""
        locations = self.facts.locations
        if not locations.is_cpu[location]:
            # locations that are not CPUs have no clock conditions of their own
            threads = np.flatnonzero(locations.is_cpu & (locations.process == locations.process[location]))
            return FollowingShifts(self, location, slice(0), tuple(self._nodes(i) for i in threads.tolist()))
        return LocationShifts(self, location, self._nodes(location))

    def _nodes(self, location: int) -> slice:
        """Return the nodes of a location."""
        first = int(self.facts.first_rows[location])
        n = self.facts.store.n_rows("events", location)
        low, high = np.searchsorted(self.row, [first, first + n])
        return slice(int(low), int(high))


@dataclass(frozen=True, eq=False)
class LocationShifts:
    """The shifts of the events of one location."""

    whole: Shifts
    location: int
    nodes: slice

    def at(self, row: NDArray[np.int64], time: NDArray[np.int64], node: int) -> tuple[NDArray[np.int64], int]:
        """Return the shifts of events, rows ascending, and the number of nodes not after the last of them; `node` is a
        number of nodes that are not after the first.

        `time` are the times of the events (late ones have that of the latest event before), or times soon after them.
        """
        w, mine = self.whole, self.nodes
        shift = np.zeros(row.size, np.int64)
        node = kernels.shift_events(
            row, time, w.row[mine], w.time[mine], w.shift[mine], node, w.shrink, w.stretch, shift
        )
        return shift, int(node)

    def batches(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield times of events (late ones have that of the latest event before) and their shifts, batch by batch."""
        facts, node = self.whole.facts, 0
        first, n = int(facts.first_rows[self.location]), facts.store.n_rows("events", self.location)
        for start in range(0, n, ROWS):
            stop = min(start + ROWS, n)
            row = np.arange(first + start, first + stop)
            time = facts.store.read("events", self.location, ["time"], start, stop)["time"]
            time = facts.order.times_of(first + start, time)
            shift, node = self.at(row, time, node)
            yield time, shift


@dataclass(frozen=True, eq=False)
class FollowingShifts(LocationShifts):
    """The shifts of the events of a device stream: those of the threads of its process at the same recorded time.

    Of several threads the largest shift counts, so that no kernel begins before it is launched unless it was recorded
    so.
    """

    threads: tuple[slice, ...]
    """Nodes of each thread."""

    def at(self, row: NDArray[np.int64], time: NDArray[np.int64], node: int) -> tuple[NDArray[np.int64], int]:
        """Return the shifts of events; see `LocationShifts.at`."""
        w, shift = self.whole, np.zeros(row.size, np.int64)
        for mine in self.threads:
            at, first = w.time[mine], int(np.searchsorted(w.time[mine], time[0], "right")) if time.size else 0
            kernels.shift_events(time, time, at, at, w.shift[mine], first, w.shrink, w.stretch, shift)
        return shift, node


class CorrectedSource(StoreSource):
    """A store with corrected times, from the clock's origin to `length` ticks after it; `path` is that of the
    recording, if the store is only a temporary one."""

    def __init__(self, shifts: Shifts, how: str, length: int, path: Path | None = None) -> None:
        super().__init__(shifts.facts.store)
        self._shifts = shifts
        self.properties |= {CORRECTED: how}
        self.clock.length = max(length, self.clock.length)
        if path is not None:
            self.path = path

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location in order."""
        mine, facts = self._shifts.of_location(location), self._shifts.facts
        first, node = int(facts.first_rows[location]), 0
        done = first
        for batch in super().read(location, report, salvage=salvage):
            time = batch.events["time"]
            ordered = facts.order.times_of(done, time)
            if "control" in batch.sides:
                # the end of a buffer flush lies between two events
                control = batch.sides["control"]
                stop = control["stop_time"]
                row = control["row"] + first
                shift, _ = mine.at(row, np.maximum(stop, ordered[row - done]), node)
                control["stop_time"] = np.where(stop != -1, stop + shift, stop)
            shift, node = mine.at(np.arange(done, done + time.size), ordered, node)
            batch.events["time"] = time + shift
            done += time.size
            yield batch
