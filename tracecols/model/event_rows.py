"""Read columns of all or some events: stored ones, pointers, positions in time; in little more memory than the columns
themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.steps import RECEIVE, WITHIN
from tracecols.enhance.definitions.order import BATCH, EventOrder
from tracecols.model.model import Model
from tracecols.model.pointers import POINTERS, SlicePointers
from tracecols.schema import EVENTS, compound
from tracecols.store import Store
from tracecols.vectors import Ints, offsets_of

EVENT_COLUMNS: tuple[str, ...] = compound.EVENTS_WITH_POINTERS.names
"""All columns of events."""

INDEX_BYTES = 8
"""Bytes of the number of a row."""


@dataclass(frozen=True)
class EventSpan:
    """Consecutive events of a location."""

    location: int
    first: int
    """Row of the location's first event."""
    low: int
    high: int
    """`low` and `high`: numbers of events in the location: low <= number < high."""

    def __len__(self) -> int:
        return self.high - self.low


def find_spans(
    store: Store, locations: Sequence[int], start: int | None = None, stop: int | None = None
) -> list[EventSpan]:
    """Find the events of some locations with start <= time < stop, in ticks; late events count at the time that
    `EventOrder` gives them."""
    if start is None and stop is None:
        return [EventSpan(i, int(store.first_rows[i]), 0, store.n_rows("events", i)) for i in locations]
    order = EventOrder(store) if store.decreases else None
    spans = []
    for i in locations:
        first, time = int(store.first_rows[i]), store.read("events", i, ["time"])["time"]
        time = time if order is None else order.times_of(first, time)
        low = 0 if start is None else int(np.searchsorted(time, start))
        spans.append(EventSpan(i, first, low, time.size if stop is None else int(np.searchsorted(time, stop))))
    return spans


def bytes_of(columns: Sequence[str]) -> int:
    """Return the bytes that a row of some columns of `events` takes in a data frame."""
    table = compound.EVENTS_WITH_POINTERS
    return INDEX_BYTES + sum(np.dtype(table[name].dtype).itemsize for name in columns)


def read_event_columns(
    store: Store, spans: Sequence[EventSpan], columns: Sequence[str], model: Callable[[], Model]
) -> dict[str, NDArray[Any]]:
    """Read columns of events, of `EVENT_COLUMNS`.

    Beside the result this needs 33 B for each event of one location per thread, the memory of a partition of the trace
    in an analysis, and, for `pos`, the times of all events unless they are among the columns.
    """
    table = compound.EVENTS_WITH_POINTERS
    starts = offsets_of([*map(len, spans)]).tolist()
    result = {name: np.empty(starts[-1], table[name].dtype) for name in columns}
    stored = [name for name in EVENTS.names if name in columns]
    for span, at in zip(spans, starts, strict=False):
        if "location" in result:
            result["location"][at : at + len(span)] = span.location
        for low in range(span.low, span.high, BATCH) if stored else ():
            found = store.read("events", span.location, stored, low, min(low + BATCH, span.high))
            for name, values in found.items():
                result[name][at + low - span.low : at + low - span.low + values.size] = values
    if "pos" in result:
        _fill_positions(store, spans, starts, result)
    pointers = [name for name in POINTERS if name in result]
    if pointers:
        _fill_pointers(model(), spans, starts, {name: result[name] for name in pointers})
    return result


def _fill_positions(
    store: Store, spans: Sequence[EventSpan], starts: Sequence[int], result: dict[str, NDArray[Any]]
) -> None:
    """Number all events of the trace in their chronological order, and keep the numbers of some."""
    n = store.n_rows("events")
    is_whole = starts[-1] == n and all(span.first == at for span, at in zip(spans, starts, strict=False) if len(span))
    if is_whole and "time" in result:
        time = result["time"]
    else:
        time = np.empty(n, np.int64)
        for i, first in enumerate(store.first_rows.tolist()):
            values = store.read("events", i, ["time"])["time"]
            time[first : first + values.size] = values
    positions = result["pos"] if is_whole else np.empty(n, np.int64)
    for _ in EventOrder(store).fill_positions(time, positions):
        pass
    if not is_whole:
        for span, at in zip(spans, starts, strict=False):
            result["pos"][at : at + len(span)] = positions[span.first + span.low : span.first + span.high]


def _fill_pointers(model: Model, spans: Sequence[EventSpan], starts: Sequence[int], result: dict[str, Ints]) -> None:
    wanted: dict[int, list[tuple[EventSpan, int]]] = {}
    for span, at in zip(spans, starts, strict=False):
        wanted.setdefault(span.location, []).append((span, at))

    def visit(view: Model, _stage: str) -> None:
        mine = [i for i in view.members.tolist() if i in wanted]
        if not mine:
            return
        pointers = SlicePointers(view, result)
        for location in mine:
            stacks = pointers.stacks(location)
            for span, at in wanted[location]:
                for low in range(span.low, span.high, BATCH):
                    high = min(low + BATCH, span.high)
                    for name, values in pointers.columns(stacks, low, high).items():
                        result[name][at + low - span.low : at + high - span.low] = values

    with model.divided() as run:
        for _ in run.stages(visit, [RECEIVE if "sendptr" in result else WITHIN]):
            pass
