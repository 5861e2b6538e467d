"""Counters of locations over time, brought down to the columns of the screen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.export.drawing import counter_label
from tracecols.given.printable import printable
from tracecols.store import Store

MOST_VALUES = 1 << 22
"""Values of the rows of one question, at most; if there are more, none is returned."""

MOST_EVENTS_READ = 1 << 24
"""Events of these rows, at most: the times of samples are read from them."""

MOST_POINTS = 100_000
"""Points of an answer, at most: columns become wider where there are many counters."""

KEPT = 1 << 23
"""Values that are kept in memory for the next questions."""

BLOCK = 1 << 20
"""Events whose times are read at a time."""


@dataclass(frozen=True)
class Series:
    """The values of a counter on a location, in the order of time.

    Attributes
    ----------
    name, unit : str
    time : (n,) int64
        Ticks.
    value : (n,) float64
        Numbers only.
    n_left_out : int
        Values that are not finite.
    """

    name: str
    unit: str
    time: NDArray[np.int64]
    value: NDArray[np.float64]
    n_left_out: int


@dataclass(frozen=True)
class Points:
    """What is drawn of a counter: a point for each sample, or for each column that has several.

    Attributes
    ----------
    time : (n,) int64
        Ticks of the sample, or of the last one of the column.
    low, high, last : (n,) float64
        The least and the largest value, and the last one, which holds until the next point.
    """

    time: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    last: NDArray[np.float64]


def reduced(series: Series, start: int, stop: int, columns: int) -> Points:
    """Return what is drawn of a counter between two times, start <= time < stop.

    The first point is the sample before the range, if there is one: its value holds at the begin.

    Parameters
    ----------
    columns : int
        If there are more samples, those of a column of pixels become one point.
    """
    low, high = np.searchsorted(series.time, [start, stop]).tolist()
    time, value = series.time[low:high], series.value[low:high]
    points = Points(time, value, value, value)
    if time.size > columns:
        # rounded up, so that there are no more columns than that
        column = (time - start) // -(-(stop - start) // columns)
        begin = np.flatnonzero(np.diff(column, prepend=-1))
        end = np.append(begin[1:], time.size) - 1
        lowest, highest = np.minimum.reduceat(value, begin), np.maximum.reduceat(value, begin)
        points = Points(time[end], lowest, highest, value[end])
    if low == 0:
        return points
    held = series.value[low - 1 : low]
    return Points(
        np.append(series.time[low - 1], points.time),
        np.append(held, points.low),
        np.append(held, points.high),
        np.append(held, points.last),
    )


class Counters:
    """The counters of a trace, from the tables of its metric classes; may be asked by several threads at a time.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tables = sorted(t for t in store.tables if t.startswith("metrics_") and store.n_rows(t))
        self._kept: OrderedDict[int, list[Series]] = OrderedDict()
        self._n_kept, self._lock = 0, Lock()

    def __bool__(self) -> bool:
        return bool(self._tables)

    def n_values(self, location: int) -> int:
        """Count the values that a location records."""
        tables = self._store.tables
        return sum(self._store.n_rows(t, location) * (len(tables[t].columns) - 2) for t in self._tables)

    def view(
        self, locations: Sequence[int], start: int, stop: int, columns: int
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what is drawn of the counters of some locations between two times in ticks.

        Returns
        -------
        says : dict
            `counters`: for each its location, name, unit, and least and largest value that is drawn, None if there is
            none; `n_values`, and `is_left_out` if there are too many; `n_left_out` values that are no numbers.
        arrays : dict of str to array
            `counter.start` (n_counters + 1): where the points of each begin; the columns of all `Points`.
        """
        found = [i for i in locations if self.n_values(i)]
        n = sum(map(self.n_values, found))
        with self._lock:
            new = [i for i in found if i not in self._kept]
        n_events = sum(self._store.n_rows("events", i) for i in new)
        is_left_out = n > MOST_VALUES or n_events > MOST_EVENTS_READ
        series = [] if is_left_out else [(i, one) for i in found for one in self.of(i)]
        columns = max(min(columns, MOST_POINTS // max(len(series), 1)), 1)
        drawn = [reduced(one, start, stop, columns) for _, one in series]
        says = {
            "counters": [
                {
                    "location": location,
                    "name": one.name,
                    "unit": one.unit,
                    "min": float(points.low.min()) if points.low.size else None,
                    "max": float(points.high.max()) if points.high.size else None,
                }
                for (location, one), points in zip(series, drawn, strict=True)
            ],
            "n_values": n,
            "is_left_out": is_left_out,
            "n_left_out": sum(one.n_left_out for _, one in series),
        }
        nothing = Points(np.zeros(0, np.int64), *(np.zeros(0) for _ in range(3)))
        columns_of = ((name, [getattr(p, name) for p in (nothing, *drawn)]) for name in ("time", "low", "high", "last"))
        arrays: dict[str, NDArray[Any]] = {f"counter.{name}": np.concatenate(parts) for name, parts in columns_of}
        arrays["counter.start"] = np.cumsum([0, *(p.time.size for p in drawn)], dtype=np.int32)
        return says, arrays

    def of(self, location: int) -> list[Series]:
        """Return the counters of a location: of each metric class, and of each of its instances, all members."""
        with self._lock:
            if location in self._kept:
                self._kept.move_to_end(location)
                return self._kept[location]
        found = [one for table in self._tables for one in self._read(table, location)]
        with self._lock:
            if location not in self._kept:
                self._kept[location] = found
                self._n_kept += sum(one.time.size for one in found)
            while self._n_kept > KEPT and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._n_kept -= sum(one.time.size for one in oldest)
        return found

    def _read(self, table: str, location: int) -> list[Series]:
        """Read a metric table of a location."""
        store = self._store
        rows = store.read(table, location)
        if not rows["row"].size:
            return []
        time = self._times(location, rows["row"])
        order = np.argsort(time, kind="stable")
        definitions = store.definitions
        members = definitions["metric_classes"].column("members")[int(table.removeprefix("metrics_"))].as_py()
        result = []
        for source in np.unique(rows["source"]).tolist():
            mine = order[rows["source"][order] == source]
            for i, member in enumerate(members):
                name, unit = counter_label(definitions, member, source)
                value = rows[f"value_{i}"][mine].astype(np.float64)
                is_number = np.isfinite(value)
                result.append(
                    Series(
                        printable(name),
                        printable(unit),
                        time[mine][is_number],
                        value[is_number],
                        int(value.size - is_number.sum()),
                    )
                )
        return result

    def _times(self, location: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the times of some events of a location, whose rows are in order."""
        at = rows - self._store.definitions["locations"].column("first_row")[location].as_py()
        found = np.empty(at.size, np.int64)
        for base in np.unique(at // BLOCK).tolist():
            low, high = np.searchsorted(at, [base * BLOCK, (base + 1) * BLOCK])
            first, last = int(at[low]), int(at[high - 1])
            time = self._store.read("events", location, ["time"], first, last + 1)["time"]
            found[low:high] = time[at[low:high] - first]
        return found
