"""Counters of locations over time, reduced to the resolution of the screen.

The samples of a location with few values are read at once and kept in memory. For a location with many values, groups
of consecutive samples are summarised when the timeline is prepared. Single samples are read if they can be
distinguished, and at both ends of the time range, so that only samples within the range are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.threads.created import times_of
from tracecols.export.drawing import counter_label
from tracecols.given.printable import printable
from tracecols.once import Recent
from tracecols.store import Store
from tracecols.store.arrow import open_file
from tracecols.work.executors import Executor

LONG = 1 << 16
"""Number of values of a location above which its samples are grouped."""

EVERY = 512
"""Maximum number of samples of a group."""

MOST_READ = 1 << 21
"""Maximum number of rows of metric tables, or events, read for one question, without locations with few values."""

MOST_POINTS = 100_000
"""Maximum number of points of an answer: with many counters, columns become wider."""

KEPT = 1 << 23
"""Number of values kept in memory for later questions."""

BLOCK = 1 << 18
"""Rows of metric tables, or events, that are read at a time."""

COUNTERS = "counters.arrow"
"""The file that holds the groups."""

TABLE = "metrics_"
"""Prefix of the names of metric tables; the number of the metric class follows."""


@dataclass(frozen=True)
class Samples:
    """Samples of a counter, or groups of them."""

    begin: NDArray[np.int64]
    time: NDArray[np.int64]
    """`begin` and `time`: (n,), ticks of the first and of the last sample."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    last: NDArray[np.float64]
    total: NDArray[np.float64]
    """`low`, `high`, `last` and `total`: (n,), minimum and maximum, last value, which holds until the next sample, and
    sum."""
    count: NDArray[np.int64]
    """(n,): number of samples; all values are finite."""

    def at(self, chosen: Any) -> Samples:
        """Return some of them."""
        return Samples(*(getattr(self, name)[chosen] for name in COLUMNS))

    def together(self, begin: NDArray[np.int64]) -> Samples:
        """Merge consecutive samples into groups; `begin` is the first row of each group."""
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
    """Make single samples from finite values, which are ordered by time."""
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
    """Number of values that are not finite."""


def reduced(samples: Samples, start: int, stop: int, columns: int) -> Samples:
    """Return the points to draw for a counter between two times, start <= time < stop.

    The first point is the last sample before the range, if there is one: its value holds at the begin.

    If there are more samples than `columns`, the samples in a column of pixels become one point.
    """
    low, high = np.searchsorted(samples.time, [start, stop]).tolist()
    points = samples.at(slice(low, high))
    if high - low > columns:
        # width rounded up, so that there are at most `columns` columns
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
"""For a group, `row` and `stop` are the first row and the end of the rows of the metric table that hold its samples;
`event` is the event of the first of these rows."""


def _tables(store: Store) -> list[str]:
    return sorted(t for t in store.tables if t.startswith(TABLE) and store.n_rows(t))


def n_values(store: Store, location: int) -> int:
    """Return the number of values that a location records."""
    return sum(store.n_rows(t, location) * (len(store.tables[t].columns) - 2) for t in _tables(store))


def write_counters(store: Store, path: Path, executor: Executor) -> None:
    """Write the groups of samples of locations with many values."""
    long = [i for i in range(int(store.manifest["n_locations"])) if n_values(store, i) > LONG]
    with open_file(path, "wb") as file, pa.ipc.new_file(file, GROUPS) as writer:
        for batches in executor.map(lambda location, *_: list(_groups(store, location)), long, ahead=1):
            for batch in batches:
                writer.write_batch(batch)


def _groups(store: Store, location: int) -> Iterator[pa.RecordBatch]:
    for table in _tables(store):
        n = store.n_rows(table, location)
        for start in range(0, n, BLOCK):
            block = Block.read(store, table, location, start, min(start + BLOCK, n))
            for source, member in block.counters:
                yield pa.RecordBatch.from_pydict(block.groups(source, member), GROUPS)


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a metric table of a location."""

    table: str
    location: int
    start: int
    """`location` and `start`: the location, and the number of the first row."""
    event: NDArray[np.int64]
    time: NDArray[np.int64]
    """`event` and `time`: (n,), number of the event in its location, and its time in ticks."""
    source: NDArray[Any]
    """(n,) int: row of `metric_sources`."""
    values: list[NDArray[Any]]
    """list of (n,) arrays: values of each member."""

    @property
    def counters(self) -> list[tuple[int, int]]:
        """All pairs of a source and a member."""
        return [(source, i) for source in distinct(self.source).tolist() for i in range(len(self.values))]

    @classmethod
    def read(cls, store: Store, table: str, location: int, start: int, stop: int) -> Block:
        """Read some rows and the times of their events."""
        rows = store.read(table, location, None, start, stop)
        event = rows["row"] - store.first_rows[location]
        values = [rows[f"value_{i}"] for i in range(len(store.tables[table].columns) - 2)]
        return cls(table, location, start, event, times_of(store, location, event), rows["source"], values)

    def of(self, source: int, member: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Return the rows of a source in the block, the values of a member there, and a mask of the finite ones."""
        rows = np.flatnonzero(self.source == source)
        value = self.values[member][rows].astype(np.float64)
        return rows, value, np.isfinite(value)

    def samples(self, source: int, member: int) -> tuple[Samples, int]:
        """Return the samples of a counter, ordered by time, and the number of values that are not finite."""
        rows, value, is_number = self.of(source, member)
        found = joined([single(self.time[rows[is_number]], value[is_number])])
        return found, int(value.size - is_number.sum())

    def groups(self, source: int, member: int) -> dict[str, Any]:
        """Return the groups of samples of a counter as columns of `GROUPS`, except groups without finite values."""
        rows, value, is_number = self.of(source, member)
        group = np.arange(rows.size) // EVERY
        begin = np.flatnonzero(np.diff(group[is_number], prepend=-1))
        mine = group[is_number][begin]
        # ordered by time within each group, since events may be late
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


class Counters:
    """The counters of a trace, from the tables of its metric classes and the file of `write_counters`; thread-safe."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._tables = _tables(store)
        self._kept = Recent[int, list[Series]](KEPT, lambda series: sum(one.samples.time.size for one in series))
        with pa.memory_map(str(path)) as source:
            self._groups = pa.ipc.open_file(source).read_all()
        self._location = self._groups.column("location").to_numpy()

    def __bool__(self) -> bool:
        return bool(self._tables)

    def view(
        self, locations: Sequence[int], start: int, stop: int, columns: int
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the points to draw for the counters of some locations between two times in ticks.

        `counters` holds, for each counter, location, name, unit, and minimum and maximum of the points, None if there
        are none; `n_left_out` is the number of values that are not finite. The arrays are `counter.start`
        (n_counters + 1), the first point of each counter, and the columns of all `Samples`.
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
        """Return the counters of a location with few values: all members of each metric class, for each source."""
        return self._kept.get(location, lambda: self._read(location))

    def _read(self, location: int) -> list[Series]:
        found = []
        for table in self._tables:
            if n := self._store.n_rows(table, location):
                block = Block.read(self._store, table, location, 0, n)
                found += [self._series(table, *counter, *block.samples(*counter)) for counter in block.counters]
        return found

    def _series(self, table: str, source: int, member: int, samples: Samples, n_left_out: int) -> Series:
        definitions = self._store.definitions
        members = definitions["metric_classes"].column("members")[int(table.removeprefix(TABLE))].as_py()
        name, unit = counter_label(definitions, members[member], source)
        return Series(printable(name), printable(unit), samples, n_left_out)

    def _between(self, location: int, start: int, stop: int, most: int) -> list[Series]:
        """Return the counters of a location with many values in a time range, and just before it: single samples if at
        most `most` rows of tables, or events, have to be read for a counter, else groups."""
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
        """Return a counter in a time range, given its groups and a function that reads rows of a table."""
        number, source, member = (int(groups[name][0]) for name in ("table", "source", "member"))
        table, first, last = f"{TABLE}{number}", groups["begin"], groups["time"]
        touched = np.flatnonzero((first < stop) & (last >= start))
        whole, divided = touched[:0], touched
        if touched.size and _n_rows(groups, touched) > most:
            is_inside = (first[touched] >= start) & (last[touched] < stop)
            whole, divided = touched[is_inside], touched[~is_inside]
        before = np.flatnonzero(last < start)
        # the last value of the group before the range holds at its begin
        held = before[np.argsort(last[before], kind="stable")[-1:]]
        runs = (run for run in np.split(divided, np.flatnonzero(np.diff(divided) > 1) + 1) if run.size)
        blocks = [read(table, int(groups["row"][run[0]]), int(groups["stop"][run[-1]])) for run in runs]
        parts = [single(last[held], groups["last"][held]), Samples(*(groups[name][whole] for name in COLUMNS))]
        found = joined([*parts, *(block.samples(source, member)[0] for block in blocks)])
        return self._series(table, source, member, found, int(groups["n_left_out"].sum()))


def _n_rows(groups: dict[str, NDArray[Any]], chosen: NDArray[np.int64]) -> int:
    """Return the number of rows of a table, or of events, that are read for consecutive groups."""
    first, last = chosen[0], min(int(chosen[-1]) + 1, groups["event"].size - 1)
    n_events = int(groups["event"][last] - groups["event"][first])
    return max(n_events, int(groups["stop"][chosen[-1]] - groups["row"][first]))
