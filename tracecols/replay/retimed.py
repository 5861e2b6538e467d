"""A re-timed trace as a source of events, so that it can be written as a store and analysed like any other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracecols.converters.base import Batch, Report
from tracecols.replay.events import LocationEvents, events_of, new_times
from tracecols.replay.replay import Changes, Replay
from tracecols.slices.source import StoreSource
from tracecols.store.outputs import REPLAYED
from tracecols.vectors import Ints


class RetimedSource(StoreSource):
    """A store with other times: those of the nodes of a replay, and between them in proportion."""

    def __init__(self, replay: Replay, changes: Changes, time: Ints) -> None:
        super().__init__(replay.model.store)
        self._replay, self._time = replay, time
        self._factor = replay.scales_of(changes) if changes.scale else None
        self.properties |= {REPLAYED: str(changes)}
        self.clock.length = max(int(time.max(initial=self.clock.origin)) - self.clock.origin, 0)

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location in order."""
        if not self.store.n_rows("events", location):
            yield from super().read(location, report, salvage=salvage)
            return
        events = events_of(self._replay.model, self._replay.graph.nodes, location)
        time = new_times(events, self._time, self._factor)
        done = 0
        for batch in super().read(location, report, salvage=salvage):
            n = batch.events["time"].size
            batch.events["time"] = time[done : done + n]
            if "control" in batch.sides:
                stop = batch.sides["control"]["stop_time"]
                batch.sides["control"]["stop_time"] = np.where(stop != -1, _moved(events, time, stop), stop)
            done += n
            yield batch


def _moved(events: LocationEvents, time: Ints, stop: Ints) -> Ints:
    """Move times that are not those of events: ends of buffer flushes, which stay between two events, and as far from
    the one before."""
    at = np.maximum(np.searchsorted(events.time, stop, "right") - 1, 0)
    after = np.append(time[1:], np.iinfo(np.int64).max)[at]
    return np.minimum(time[at] + (stop - events.time[at]), after)
