"""Write a store: definitions, and part files of events and side tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.schema import DEFINITIONS, EVENTS, FORMAT_VERSION, SIDE_TABLES, EventKind, Table, metric_table
from tracecols.store.arrow import arrow_schema, as_table, event_writer, to_arrow, write_table
from tracecols.store.layout import part_name, write_manifest

SIDE_ROWS = 1 << 17
"""Rows of a side table that are collected before they become a row group."""

EVENT_ROWS = 1 << 16
"""Events that are collected before they become a row group: one row group for every small location would cost more than
its events."""

FORKS = [int(EventKind.THREAD_FORK), int(EventKind.OMP_FORK)]
IS_FORK = np.isin(np.arange(256), FORKS)


@dataclass
class Part:
    """Facts about a part of a store, collected while it is written."""

    segments: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    """Rows of `segments`: table, location, part, offset, number of rows."""
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    """(256,): events by kind."""
    forks: dict[int, int] = field(default_factory=dict)
    """Time of the first FORK of every location that forks."""
    n_attributes: int = 0
    """Rows of the side table `attributes`."""
    first_time: int = np.iinfo(np.int64).max
    last_time: int = np.iinfo(np.int64).min
    """`first_time` and `last_time`: ticks of the earliest and the latest event; the first is the larger one if there
    are no events."""
    decreases: dict[int, int] = field(default_factory=dict)
    """By location, the number of events that are earlier than the one before."""


class PartWriter:
    """A writer of one part file per table, for a range of whole locations.

    Parameters
    ----------
    number : int
        Number of the part.

    Attributes
    ----------
    part : Part
        Facts about the events written so far.
    """

    def __init__(self, folder: Path, number: int, tables: dict[str, Table]) -> None:
        self.folder, self.number, self.tables = folder, number, {"events": EVENTS, **tables}
        self._writers: dict[str, Any] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._waiting: dict[str, list[dict[str, NDArray[Any]]]] = {}
        self._written: dict[str, int] = {}
        self._n_waiting: dict[str, int] = {}
        self.part = Part()
        # for the last location: the number of its events written so far, and the time of the last one
        self._location, self._n_events, self._time_before = -1, 0, 0
        self._last: dict[str, int] = {}

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
        """Keep rows until there are enough of them for a row group. They must be copies: the converter reuses its
        buffers."""
        self._waiting.setdefault(table, []).append(columns)
        self._n_waiting[table] = self._n_waiting.get(table, 0) + next(iter(columns.values())).size
        if self._n_waiting[table] >= at_once:
            self._flush(table)

    def _extend(self, table: str, location: int, n: int) -> None:
        """Record that the next `n` rows of a table belong to a location."""
        offset = self._written.get(table, 0)
        self._written[table] = offset + n
        last = self._last.get(table)
        if last is not None and self.part.segments[last][1] == location:
            t, of, part, start, m = self.part.segments[last]
            self.part.segments[last] = (t, of, part, start, m + n)
        else:
            self._last[table] = len(self.part.segments)
            self.part.segments.append((table, location, self.number, offset, n))

    def add(
        self,
        parts: list[tuple[int, int]],
        first_row: int,
        events: dict[str, NDArray[Any]],
        sides: dict[str, dict[str, NDArray[Any]]],
    ) -> None:
        """Write a batch of events of consecutive locations; rows of side tables count from the first event of the first
        location.

        `parts` are the rows of the locations, each with its number of events in the batch; the first location may
        continue that of the batch before. `first_row` is the row of the first event of the first location.
        """
        if parts[0][0] != self._location:
            self._location, self._n_events = parts[0][0], 0
        time, stops = events["time"], np.cumsum([n for _, n in parts])
        if time.size:
            self._note(parts, stops, time, events["kind"])
            if time.size >= EVENT_ROWS:
                self._flush("events")
                self._write("events", events)
            else:
                self._collect("events", {c: v.copy() for c, v in events.items()}, EVENT_ROWS)
            for location, n in parts:
                if n:
                    self._extend("events", location, n)
        ends = self._n_events + stops
        for table, columns in sides.items():
            n_rows = columns["row"].size
            if not n_rows:
                continue
            # all rows after those of other locations belong to the last one
            counts = np.bincount(np.searchsorted(ends[:-1], columns["row"], "right"), minlength=len(parts)).tolist()
            self._collect(table, {c: v + first_row if c == "row" else v.copy() for c, v in columns.items()}, SIDE_ROWS)
            for (location, _), n in zip(parts, counts, strict=True):
                if n:
                    self._extend(table, location, n)
            self.part.n_attributes += n_rows if table == "attributes" else 0
        location, n = parts[-1]
        self._n_events = n if len(parts) > 1 else self._n_events + n
        self._location = location

    def _note(
        self, parts: list[tuple[int, int]], stops: NDArray[np.int64], time: NDArray[np.int64], kind: NDArray[np.uint8]
    ) -> None:
        """Record facts about some events for the manifest: first and last time, decreases of time, kinds, first
        FORKs."""
        part, filled = self.part, [k for k, (_, n) in enumerate(parts) if n]
        starts = stops[filled] - [parts[k][1] for k in filled]
        first, last = int(time[starts].min()), int(time[stops[filled] - 1].max())
        falls = np.flatnonzero(time[1:] < time[:-1]) + 1
        falls = falls[~np.isin(falls, starts)] if falls.size else falls
        if self._n_events and starts[0] == 0 and filled[0] == 0 and time[0] < self._time_before:
            falls = np.append(0, falls)
        if falls.size:
            first, last = int(time.min()), int(time.max())
            of, n_falls = np.unique(np.searchsorted(stops, falls, "right"), return_counts=True)
            for k, n in zip(of.tolist(), n_falls.tolist(), strict=True):
                part.decreases[parts[k][0]] = part.decreases.get(parts[k][0], 0) + n
        self._time_before = int(time[-1])
        part.first_time, part.last_time = min(part.first_time, first), max(part.last_time, last)
        counts = np.bincount(kind, minlength=256)
        part.counts += counts
        if counts[FORKS].any():
            forks = np.flatnonzero(IS_FORK[kind])
            of, first_fork = np.unique(np.searchsorted(stops, forks, "right"), return_index=True)
            for k, at in zip(of.tolist(), forks[first_fork].tolist(), strict=True):
                part.forks.setdefault(parts[k][0], int(time[at]))


class StoreWriter:
    """Write the parts of a store, and complete it with definitions and manifest."""

    def __init__(self, folder: Path, metric_types: list[list[str]]) -> None:
        self.folder = folder
        metrics = [metric_table(i, types) for i, types in enumerate(metric_types)]
        self.tables = {**SIDE_TABLES, **{t.name: t for t in metrics}}

    def part(self, number: int) -> PartWriter:
        """Open a part; parts may be written by different threads."""
        return PartWriter(self.folder, number, self.tables)

    def finish(
        self, definitions: dict[str, dict[str, Any]], parts: list[Part], manifest: dict[str, Any]
    ) -> dict[str, pa.Table]:
        """Write definitions and manifest, which completes the store; return the definitions."""
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
        tables = {name: as_table(table, definitions[name]) for name, table in DEFINITIONS.items()}
        for name, table in DEFINITIONS.items():
            write_table(folder / f"{name}.parquet", table, [tables[name]])
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
        return tables
