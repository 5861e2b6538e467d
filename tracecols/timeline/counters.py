"""Counters of locations over time, brought down to the columns of the screen.

What a location with few values records is read at once and kept in memory. Of one with many, groups of samples that
follow each other are added up when the timeline is prepared. Single samples are read where they can be distinguished,
and at the ends of the range of time, so that what is drawn is of no other samples.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.export.drawing import counter_label
from tracecols.given.printable import printable
from tracecols.store import Store
from tracecols.store.arrow import open_file
from tracecols.work.executors import Executor

LONG = 1 << 16
"""Values of a location from which on its samples are grouped."""

EVERY = 512
"""Samples of a group, at most."""

MOST_READ = 1 << 21
"""Rows of metric tables, and events, that are read for one question besides those of locations with few values."""

MOST_POINTS = 100_000
"""Points of an answer, at most: columns become wider where there are many counters."""

KEPT = 1 << 23
"""Values that are kept in memory for the next questions."""

BLOCK = 1 << 18
"""Rows of metric tables, or events, that are read at a time."""

COUNTERS = "counters.arrow"
"""The file that holds the groups."""

TABLE = "metrics_"
"""What the names of metric tables begin with; the number of the metric class follows."""


@dataclass(frozen=True)
class Samples:
    """Samples of a counter, or several together."""

    begin: NDArray[np.int64]
    time: NDArray[np.int64]
    """`begin` and `time`: (n,), ticks of the first and of the last sample."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    last: NDArray[np.float64]
    total: NDArray[np.float64]
    """`low`, `high`, `last` and `total`: (n,), the least and the largest value, the last one, which holds until the
    next sample, and the sum."""
    count: NDArray[np.int64]
    """(n,): how many samples these are; their values are numbers."""

    def at(self, chosen: Any) -> Samples:
        """Return some of them."""
        return Samples(*(getattr(self, name)[chosen] for name in COLUMNS))

    def together(self, begin: NDArray[np.int64]) -> Samples:
        """Put those together that follow each other; `begin` says where each group begins."""
        if not begin.size:
            return self.at(begin)
        end = np.append(begin[1:], self.time.size) - 1
        return Samples(
            np.minimum.reduceat(self.begin, begin),
            self.time[end],
            np.minimum.reduceat(self.low, begin),
            np.maximum.reduceat(self.high, begin),
            self.last[end],
            np.add.reduceat(self.total, begin),
            np.add.reduceat(self.count, begin),
        )


COLUMNS = tuple(f.name for f in fields(Samples))


def single(time: NDArray[np.int64], value: NDArray[np.float64]) -> Samples:
    """Return single samples whose values are numbers, in the order of time."""
    return Samples(time, time, value, value, value, value, np.ones(time.size, np.int64))


def joined(parts: Sequence[Samples]) -> Samples:
    """Return the samples of several parts in the order of time."""
    nothing = single(np.zeros(0, np.int64), np.zeros(0))
    together = Samples(*(np.concatenate([getattr(p, name) for p in (nothing, *parts)]) for name in COLUMNS))
    return together.at(np.argsort(together.time, kind="stable"))


@dataclass(frozen=True)
class Series:
    """A counter of a location."""

    name: str
    unit: str
    samples: Samples
    """In the order of time."""
    n_left_out: int
    """Values that are no numbers."""


def reduced(samples: Samples, start: int, stop: int, columns: int) -> Samples:
    """Return what is drawn of a counter between two times, start <= time < stop.

    The first point is the last sample before the range, if there is one: its value holds at the begin.

    If there are more samples than `columns`, those of a column of pixels become one point.
    """
    low, high = np.searchsorted(samples.time, [start, stop]).tolist()
    points = samples.at(slice(low, high))
    if high - low > columns:
        # rounded up, so that there are no more columns than that
        column = (points.time - start) // -(-(stop - start) // columns)
        points = points.together(np.flatnonzero(np.diff(column, prepend=-1)))
    return points if low == 0 else joined([samples.at(slice(low - 1, low)), points])


GROUPS = pa.schema(
    [
        *((name, pa.int32()) for name in ("location", "table", "source", "member")),
        *((name, pa.int64()) for name in ("row", "stop", "event", "n_left_out", "begin", "time", "count")),
        *((name, pa.float64()) for name in ("low", "high", "last", "total")),
    ]
)
"""Of a group `row` and `stop` are where the rows of the metric table begin and end that hold its samples, and `event`
is the event of the first."""


def _tables(store: Store) -> list[str]:
    return sorted(t for t in store.tables if t.startswith(TABLE) and store.n_rows(t))


def n_values(store: Store, location: int) -> int:
    """Count the values that a location records."""
    return sum(store.n_rows(t, location) * (len(store.tables[t].columns) - 2) for t in _tables(store))


def write_counters(store: Store, path: Path, executor: Executor) -> None:
    """Write the groups of samples of locations with many values."""
    long = [i for i in range(int(store.manifest["n_locations"])) if n_values(store, i) > LONG]
    with open_file(path, "wb") as file, pa.ipc.new_file(file, GROUPS) as writer:
        for batches in executor.map(lambda location, *_: list(_groups(store, location)), long, ahead=1):
            for batch in batches:
                writer.write_batch(batch)


def _groups(store: Store, location: int) -> Iterator[pa.RecordBatch]:
    """Go through the values of a location, block by block, and yield their groups."""
    for table in _tables(store):
        n = store.n_rows(table, location)
        for start in range(0, n, BLOCK):
            block = Block.read(store, table, location, start, min(start + BLOCK, n))
            for source, member in block.counters:
                yield pa.RecordBatch.from_pydict(block.groups(source, member), GROUPS)


@dataclass(frozen=True)
class Block:
    """Rows of a metric table of a location that follow each other."""

    table: str
    location: int
    start: int
    """`location` and `start`: the number of the first row."""
    event: NDArray[np.int64]
    time: NDArray[np.int64]
    """`event` and `time`: (n,), number of the event in its location, and its ticks."""
    source: NDArray[Any]
    """(n,) int: row of `metric_sources`."""
    values: list[NDArray[Any]]
    """list of (n,) arrays: of each member."""

    @property
    def counters(self) -> list[tuple[int, int]]:
        """Every source with each of the members."""
        return [(source, i) for source in distinct(self.source).tolist() for i in range(len(self.values))]

    @classmethod
    def read(cls, store: Store, table: str, location: int, start: int, stop: int) -> Block:
        """Read some rows and the times of their events."""
        rows = store.read(table, location, None, start, stop)
        event = rows["row"] - store.definitions["locations"].column("first_row")[location].as_py()
        values = [rows[f"value_{i}"] for i in range(len(store.tables[table].columns) - 2)]
        return cls(table, location, start, event, _times(store, location, event), rows["source"], values)

    def of(self, source: int, member: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Return the rows of a source in the block, the values of a member there, and which of them are numbers."""
        rows = np.flatnonzero(self.source == source)
        value = self.values[member][rows].astype(np.float64)
        return rows, value, np.isfinite(value)

    def samples(self, source: int, member: int) -> tuple[Samples, int]:
        """Return the samples of a counter, in the order of time, and how many of its values are no numbers."""
        rows, value, is_number = self.of(source, member)
        found = joined([single(self.time[rows[is_number]], value[is_number])])
        return found, int(value.size - is_number.sum())

    def groups(self, source: int, member: int) -> dict[str, Any]:
        """Return the samples of a counter in groups, as columns of `GROUPS`; groups without a number are left out."""
        rows, value, is_number = self.of(source, member)
        group = np.arange(rows.size) // EVERY
        begin = np.flatnonzero(np.diff(group[is_number], prepend=-1))
        mine = group[is_number][begin]
        # late events are in order within a group, too
        order = np.lexsort((self.time[rows[is_number]], group[is_number]))
        found = single(self.time[rows[is_number]][order], value[is_number][order]).together(begin)
        first, last = mine * EVERY, np.minimum((mine + 1) * EVERY, rows.size) - 1
        n_left_out = np.bincount(group, ~is_number)[mine] if rows.size else np.zeros(0)
        n = len(mine)
        where = {"location": self.location, "table": int(self.table.removeprefix(TABLE))}
        return {
            **{name: np.full(n, v, np.int32) for name, v in {**where, "source": source, "member": member}.items()},
            "row": rows[first] + self.start,
            "stop": rows[last] + self.start + 1,
            "event": self.event[rows[first]],
            "n_left_out": n_left_out.astype(np.int64),
            **{name: getattr(found, name) for name in COLUMNS},
        }


def _times(store: Store, location: int, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the times of some events of a location, by their numbers there, which ascend."""
    found = np.empty(events.size, np.int64)
    for base in distinct(events // BLOCK).tolist():
        low, high = np.searchsorted(events, [base * BLOCK, (base + 1) * BLOCK])
        first, last = int(events[low]), int(events[high - 1])
        time = store.read("events", location, ["time"], first, last + 1)["time"]
        found[low:high] = time[events[low:high] - first]
    return found


class Counters:
    """The counters of a trace, from the tables of its metric classes, as `write_counters` wrote them; may be asked by
    several threads at a time."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._tables = _tables(store)
        self._kept: OrderedDict[int, list[Series]] = OrderedDict()
        self._n_kept, self._lock = 0, Lock()
        with pa.memory_map(str(path)) as source:
            self._groups = pa.ipc.open_file(source).read_all()
        self._location = self._groups.column("location").to_numpy()

    def __bool__(self) -> bool:
        return bool(self._tables)

    def view(
        self, locations: Sequence[int], start: int, stop: int, columns: int
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return what is drawn of the counters of some locations between two times in ticks.

        `counters` are for each its location, name, unit, and least and largest value that is drawn, None if there is
        none; `n_left_out` values are no numbers. The arrays are `counter.start` (n_counters + 1), where the points of
        each begin, and the columns of all `Samples`.
        """
        numbers = {i: n_values(self._store, i) for i in locations}
        n_long = sum(n > LONG for n in numbers.values())
        series = [
            (i, one)
            for i, n in numbers.items()
            if n
            for one in (self._between(i, start, stop, MOST_READ // n_long) if n > LONG else self.of(i))
        ]
        columns = max(min(columns, MOST_POINTS // max(len(series), 1)), 1)
        drawn = [reduced(one.samples, start, stop, columns) for _, one in series]
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
            "n_left_out": sum(one.n_left_out for _, one in series),
        }
        nothing = single(np.zeros(0, np.int64), np.zeros(0))
        arrays: dict[str, NDArray[Any]] = {
            f"counter.{name}": np.concatenate([getattr(p, name) for p in (nothing, *drawn)]) for name in COLUMNS
        }
        arrays["counter.start"] = np.cumsum([0, *(p.time.size for p in drawn)], dtype=np.int32)
        return says, arrays

    def of(self, location: int) -> list[Series]:
        """Return the counters of a location with few values: of each metric class, and of each of its instances, all
        members."""
        with self._lock:
            if location in self._kept:
                self._kept.move_to_end(location)
                return self._kept[location]
        found = []
        for table in self._tables:
            if n := self._store.n_rows(table, location):
                block = Block.read(self._store, table, location, 0, n)
                found += [self._series(table, *counter, *block.samples(*counter)) for counter in block.counters]
        with self._lock:
            if location not in self._kept:
                self._kept[location] = found
                self._n_kept += sum(one.samples.time.size for one in found)
            while self._n_kept > KEPT and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._n_kept -= sum(one.samples.time.size for one in oldest)
        return found

    def _series(self, table: str, source: int, member: int, samples: Samples, n_left_out: int) -> Series:
        definitions = self._store.definitions
        members = definitions["metric_classes"].column("members")[int(table.removeprefix(TABLE))].as_py()
        name, unit = counter_label(definitions, members[member], source)
        return Series(printable(name), printable(unit), samples, n_left_out)

    def _between(self, location: int, start: int, stop: int, most: int) -> list[Series]:
        """Return what a location with many values records in a range of time, and just before it: single samples if the
        tables and events that hold them have at most `most` rows, groups of them otherwise."""
        low, high = np.searchsorted(self._location, [location, location + 1]).tolist()
        chosen = self._groups.slice(low, high - low)
        groups = {name: chosen.column(name).to_numpy() for name in GROUPS.names}
        key = np.stack([groups[name] for name in ("table", "source", "member")])
        of = np.unique(key, axis=1, return_inverse=True)[1].reshape(-1)
        # the counters of a table are in the same rows
        read = cache(lambda table, first, last: Block.read(self._store, table, location, first, last))
        return [
            self._of_groups({name: values[of == i] for name, values in groups.items()}, start, stop, most, read)
            for i in range(int(of.max(initial=-1)) + 1)
        ]

    def _of_groups(
        self, groups: dict[str, NDArray[Any]], start: int, stop: int, most: int, read: Callable[[str, int, int], Block]
    ) -> Series:
        """Return a counter in a range of time; its groups are given, and what reads rows of a table."""
        number, source, member = (int(groups[name][0]) for name in ("table", "source", "member"))
        table, first, last = f"{TABLE}{number}", groups["begin"], groups["time"]
        touched = np.flatnonzero((first < stop) & (last >= start))
        whole, divided = touched[:0], touched
        if touched.size and _n_rows(groups, touched) > most:
            is_inside = (first[touched] >= start) & (last[touched] < stop)
            whole, divided = touched[is_inside], touched[~is_inside]
        before = np.flatnonzero(last < start)
        # of the group before the range its last value holds
        held = before[np.argsort(last[before], kind="stable")[-1:]]
        runs = (run for run in np.split(divided, np.flatnonzero(np.diff(divided) > 1) + 1) if run.size)
        blocks = [read(table, int(groups["row"][run[0]]), int(groups["stop"][run[-1]])) for run in runs]
        parts = [single(last[held], groups["last"][held]), Samples(*(groups[name][whole] for name in COLUMNS))]
        found = joined([*parts, *(block.samples(source, member)[0] for block in blocks)])
        return self._series(table, source, member, found, int(groups["n_left_out"].sum()))


def _n_rows(groups: dict[str, NDArray[Any]], chosen: NDArray[np.int64]) -> int:
    """Return how many rows of a table, or events, are read for groups that follow each other."""
    first, last = chosen[0], min(int(chosen[-1]) + 1, groups["event"].size - 1)
    n_events = int(groups["event"][last] - groups["event"][first])
    return max(n_events, int(groups["stop"][chosen[-1]] - groups["row"][first]))
