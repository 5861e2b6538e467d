"""Write a store: definitions, and part files of events and side tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.schema import DEFINITIONS, EVENTS, FORMAT_VERSION, SIDE_TABLES, EventKind, Table, metric_table
from tracecols.store.arrow import arrow_schema, event_writer, to_arrow, write_table
from tracecols.store.layout import part_name, write_manifest

SIDE_ROWS = 1 << 17
"""Rows of a side table that are collected before they become a row group."""

EVENT_ROWS = 1 << 16
"""Events that are collected before they become a row group: one for every small location costs more than its events."""

FORKS = [int(EventKind.THREAD_FORK), int(EventKind.OMP_FORK)]


@dataclass
class Part:
    """What a part of a store says about itself.

    Attributes
    ----------
    segments : list of tuple
        Rows of `segments`: table, location, part, offset, number of rows.
    counts : (256,) int64
        Events by kind.
    forks : dict of int to int
        Time of the first FORK of every location that forks.
    n_attributes : int
        Rows of the side table `attributes`.
    first_time, last_time : int
        Ticks of the earliest and the latest event; the first is the larger one where there is none.
    decreases : dict of int to int
        By location how many events are earlier than the one before.
    """

    segments: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    forks: dict[int, int] = field(default_factory=dict)
    n_attributes: int = 0
    first_time: int = np.iinfo(np.int64).max
    last_time: int = np.iinfo(np.int64).min
    decreases: dict[int, int] = field(default_factory=dict)


class PartWriter:
    """One part file per table, for a range of whole locations.

    Parameters
    ----------
    folder : Path
        The store.
    number : int
        Number of the part.
    tables : dict of str to Table
        The side tables there may be.

    Attributes
    ----------
    part : Part
        What has been written so far.
    """

    def __init__(self, folder: Path, number: int, tables: dict[str, Table]) -> None:
        self.folder, self.number, self.tables = folder, number, {"events": EVENTS, **tables}
        self._writers: dict[str, Any] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._waiting: dict[str, list[dict[str, NDArray[Any]]]] = {}
        self._written: dict[str, int] = {}
        self._n_waiting: dict[str, int] = {}
        self.part = Part()
        self._time_before = np.iinfo(np.int64).min

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for table in list(self._waiting):
            if kind is None:
                self._flush(table)
        for writer in self._writers.values():
            writer.close()

    def _write(self, table: str, columns: dict[str, NDArray[Any]]) -> None:
        if table not in self._writers:
            folder = self.folder / table
            folder.mkdir(exist_ok=True)
            self._writers[table] = event_writer(folder / part_name(self.number), self.tables[table])
            self._schemas[table] = arrow_schema(self.tables[table])
        schema = self._schemas[table]
        batch = pa.RecordBatch.from_arrays([to_arrow(columns[f.name], f.type) for f in schema], schema=schema)
        self._writers[table].write_table(pa.Table.from_batches([batch]), row_group_size=batch.num_rows)

    def _flush(self, table: str) -> None:
        waiting = self._waiting.pop(table, [])
        self._n_waiting[table] = 0
        if waiting:
            self._write(table, {c: np.concatenate([w[c] for w in waiting]) for c in self.tables[table].names})

    def _collect(self, table: str, columns: dict[str, NDArray[Any]], at_once: int) -> None:
        """Keep rows until there are enough of them for a row group. They must be copies: the converter reuses its buffers."""
        self._waiting.setdefault(table, []).append(columns)
        self._n_waiting[table] = self._n_waiting.get(table, 0) + next(iter(columns.values())).size
        if self._n_waiting[table] >= at_once:
            self._flush(table)

    def _extend(self, table: str, location: int, n: int) -> None:
        """Note that the next `n` rows of a table belong to a location."""
        offset = self._written.get(table, 0)
        self._written[table] = offset + n
        last = self._last.get(table)
        if last is not None and self.part.segments[last][1] == location:
            t, of, part, start, m = self.part.segments[last]
            self.part.segments[last] = (t, of, part, start, m + n)
        else:
            self._last[table] = len(self.part.segments)
            self.part.segments.append((table, location, self.number, offset, n))

    _last: dict[str, int]

    def begin(self) -> None:
        """Start a location."""
        self._last = {}
        self._time_before = np.iinfo(np.int64).min

    def add(
        self, location: int, first_row: int, events: dict[str, NDArray[Any]], sides: dict[str, dict[str, NDArray[Any]]]
    ) -> None:
        """Write a batch of one location's events; side tables count events from the location's first.

        Parameters
        ----------
        location : int
            Row of the location.
        first_row : int
            Row of its first event.
        events : dict of str to array
            Columns of `tracecols.schema.EVENTS`.
        sides : dict of str to dict of str to array
            Columns of side tables, `row` counting from 0 at the location's first event.
        """
        time = events["time"]
        if time.size:
            first, last = int(time[0]), int(time[-1])
            decreases = int(first < self._time_before) + int(np.count_nonzero(time[1:] < time[:-1]))
            self._time_before = last
            if decreases:
                self.part.decreases[location] = self.part.decreases.get(location, 0) + decreases
                first, last = int(time.min()), int(time.max())
            self.part.first_time = min(self.part.first_time, first)
            self.part.last_time = max(self.part.last_time, last)
            counts = np.bincount(events["kind"], minlength=256)
            self.part.counts += counts
            if counts[FORKS].any() and location not in self.part.forks:
                self.part.forks[location] = int(time[np.isin(events["kind"], FORKS)][0])
            if time.size >= EVENT_ROWS:
                self._flush("events")
                self._write("events", events)
            else:
                self._collect("events", {c: v.copy() for c, v in events.items()}, EVENT_ROWS)
            self._extend("events", location, time.size)
        for table, columns in sides.items():
            n = columns["row"].size
            if not n:
                continue
            self._collect(table, {c: v + first_row if c == "row" else v.copy() for c, v in columns.items()}, SIDE_ROWS)
            self._extend(table, location, n)
            self.part.n_attributes += n if table == "attributes" else 0


class StoreWriter:
    """Collect what the parts of a store say about themselves and complete it.

    Parameters
    ----------
    folder : Path
        An empty folder.
    metric_types : list of list of str
        Dtypes of the members of every metric class.
    """

    def __init__(self, folder: Path, metric_types: list[list[str]]) -> None:
        self.folder = folder
        metrics = [metric_table(i, types) for i, types in enumerate(metric_types)]
        self.tables = {**SIDE_TABLES, **{t.name: t for t in metrics}}

    def part(self, number: int) -> PartWriter:
        """Open a part; parts may be written by different threads."""
        return PartWriter(self.folder, number, self.tables)

    def finish(self, definitions: dict[str, dict[str, Any]], parts: list[Part], manifest: dict[str, Any]) -> None:
        """Write definitions and manifest; the store is complete then."""
        segments = sorted((s for p in parts for s in p.segments), key=lambda s: (s[0], s[1]))
        names = DEFINITIONS["segments"].names
        definitions = {
            **definitions,
            "segments": dict(zip(names, zip(*segments, strict=True), strict=True))
            if segments
            else {n: [] for n in names},
        }
        folder = self.folder / "definitions"
        folder.mkdir()
        for name, table in DEFINITIONS.items():
            write_table(folder / f"{name}.parquet", table, definitions[name])
        counts = sum((p.counts for p in parts), np.zeros(256, np.int64))
        used = [p for p in parts if p.first_time <= p.last_time]
        manifest = {
            **manifest,
            "n_events": int(counts.sum()),
            "first_time": min((p.first_time for p in used), default=0),
            "last_time": max((p.last_time for p in used), default=0),
            "events_by_kind": {int(k): int(counts[k]) for k in np.flatnonzero(counts)},
            "n_attributes": sum(p.n_attributes for p in parts),
            "decreases": {location: n for p in parts for location, n in sorted(p.decreases.items())},
            "tables": {
                name: [{"name": c.name, "dtype": c.dtype} for c in self.tables[name].columns]
                for name in sorted({s[0] for s in segments} - {"events"})
            },
        }
        write_manifest(self.folder, "a store of a trace", FORMAT_VERSION, manifest)
