"""Marks within long locations: the slices open at some events, so that the slices of a time range are built without
reading all earlier events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tracecols.export.drawing import EVER, NOTHING_OPEN, OpenSlices, SliceBuilder
from tracecols.store import Store
from tracecols.store.arrow import open_file
from tracecols.work.executors import Executor

EVERY = 1 << 13
"""Events between two marks: 80 B for each, 12 MB for 10^9 events. For a short time range, this many events are
processed for each row that is shown."""

BATCH = 1 << 20
"""Events that are read at a time, as many as a store reads at once."""

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("location", "event", "last", "task", "n_flushes", "n_switches")),
        ("stacks", pa.map_(pa.int64(), pa.list_(pa.int64()))),
    ]
)
"""Location, event, and the columns of `OpenSlices`."""


class Mark(NamedTuple):
    """The slices open before an event."""

    event: int
    """Number of the event in its location."""
    opened: OpenSlices


BEGINNING = Mark(0, NOTHING_OPEN)


def marks_of(store: Store, location: int) -> Iterator[Mark]:
    """Yield a mark before every `EVERY`-th event of a location, except the first."""
    n = store.n_rows("events", location)
    if n <= EVERY:
        return
    builder = SliceBuilder(store, location, EVER.max, EVER.max, -1)
    nothing = np.zeros(0, np.int64)
    batch = max(BATCH // EVERY, 1) * EVERY
    for base in range(0, n - EVERY, batch):
        columns = store.read("events", location, None, base, base + batch)
        for at in range(0, min(batch, n - EVERY - base), EVERY):
            for _ in builder.draw({name: of[at : at + EVERY] for name, of in columns.items()}, nothing, False):
                pass
            yield Mark(base + at + EVERY, builder.opened)


def write_marks(store: Store, path: Path, executor: Executor) -> None:
    """Write the marks of all locations."""
    long = [i for i in range(int(store.manifest["n_locations"])) if store.n_rows("events", i) > EVERY]
    with open_file(path, "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        for rows in executor.map(lambda location, *_: _rows(store, location), long):
            writer.write_batch(pa.RecordBatch.from_pylist(rows, SCHEMA))


def _rows(store: Store, location: int) -> list[dict[str, Any]]:
    return [
        {"location": location, "event": m.event, **m.opened._asdict(), "stacks": list(m.opened.stacks.items())}
        for m in marks_of(store, location)
    ]


class Marks:
    """The marks of a trace, as `write_marks` wrote them."""

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        self._table = table
        location = table.column("location").to_numpy()
        self._event, self._last = (table.column(name).to_numpy() for name in ("event", "last"))
        n = int(location.max(initial=-1)) + 1
        self._start = np.searchsorted(location, np.arange(n + 1))

    def before(self, location: int, time: int) -> Mark:
        """Return the last mark of a location before a time in ticks."""
        low, high = self._of(location)
        at = bisect_right(self._last, time, low, high) - 1
        # events of the same time may be on either side
        while at >= low and self._last[at] == time:
            at -= 1
        return self._mark(at) if at >= low else BEGINNING

    def after(self, location: int, time: int, n_events: int) -> int:
        """Return the event of the first mark of a location past a time in ticks; `n_events` if there is none."""
        low, high = self._of(location)
        at = bisect_right(self._last, time, low, high)
        return int(self._event[at]) if at < high else n_events

    def _of(self, location: int) -> tuple[int, int]:
        if location + 1 >= self._start.size:
            return 0, 0
        return int(self._start[location]), int(self._start[location + 1])

    def _mark(self, at: int) -> Mark:
        (row,) = self._table.slice(at, 1).to_pylist()
        opened = {name: row[name] for name in OpenSlices._fields}
        return Mark(row["event"], OpenSlices(**opened | {"stacks": dict(row["stacks"])}))
