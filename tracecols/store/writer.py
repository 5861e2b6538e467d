"""Write a store: definitions, and part files of events and side tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.schema import DEFINITIONS, EVENTS, FORMAT_VERSION, SIDE_TABLES, EventKind, Table, metric_table
from tracecols.store.arrow import ParquetWriter, arrow_schema, as_table, event_writer, to_arrow, write_table
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
    """`first_time` and `last_time`: ticks of the earliest and latest event; the first is larger if there are none."""
    decreases: dict[int, int] = field(default_factory=dict)
    """By location, the number of events that are earlier than the one before."""


class _PartFile:
    """The part file of one table, opened with its first row group, and rows that are collected for the next one.

    `n_rows` is the number of rows that have been given to it, `last` the number of its last segment, -1 none.
    """

    def __init__(self, path: Path, table: Table) -> None:
        self._path, self._table = path, table
        self._writer: ParquetWriter | None = None
        self._waiting: list[dict[str, NDArray[Any]]] = []
        self._n_waiting = self.n_rows = 0
        self.last = -1

    def write(self, columns: dict[str, NDArray[Any]]) -> None:
        """Write a row group."""
        if self._writer is None:
            self._path.parent.mkdir(exist_ok=True)
            self._writer = event_writer(self._path, self._table)
            self._schema = arrow_schema(self._table)
        schema = self._schema
        batch = pa.RecordBatch.from_arrays([to_arrow(columns[f.name], f.type) for f in schema], schema=schema)
        self._writer.write_table(pa.Table.from_batches([batch]), row_group_size=batch.num_rows)

    def flush(self) -> None:
        """Write the rows that have been collected."""
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        if waiting:
            self.write({c: np.concatenate([w[c] for w in waiting]) for c in self._table.names})

    def collect(self, columns: dict[str, NDArray[Any]], at_once: int) -> None:
        """Keep rows until they suffice for a row group. They must be copies: converters reuse their buffers."""
        self._waiting.append(columns)
        self._n_waiting += next(iter(columns.values())).size
        if self._n_waiting >= at_once:
            self.flush()

    def close(self, is_complete: bool) -> None:
        """Close the file; if it is complete, with all rows."""
        if is_complete:
            self.flush()
        if self._writer is not None:
            self._writer.close()


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
        self._files: dict[str, _PartFile] = {}
        self.part = Part()
        # for the last location: the number of its events written so far, and the time of the last one
        self._location, self._n_events, self._time_before = -1, 0, 0

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for file in self._files.values():
            file.close(kind is None)

    def _file(self, table: str) -> _PartFile:
        if table not in self._files:
            self._files[table] = _PartFile(self.folder / table / part_name(self.number), self.tables[table])
        return self._files[table]

    def _extend(self, table: str, location: int, n: int) -> None:
        """Record that the next `n` rows of a table belong to a location."""
        file, segments = self._file(table), self.part.segments
        if file.last >= 0 and segments[file.last][1] == location:
            start, m = segments[file.last][3:]
            segments[file.last] = (table, location, self.number, start, m + n)
        else:
            file.last = len(segments)
            segments.append((table, location, self.number, file.n_rows, n))
        file.n_rows += n

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
            file = self._file("events")
            if time.size >= EVENT_ROWS:
                file.flush()
                file.write(events)
            else:
                file.collect({c: v.copy() for c, v in events.items()}, EVENT_ROWS)
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
            rows = {c: v + first_row if c == "row" else v.copy() for c, v in columns.items()}
            self._file(table).collect(rows, SIDE_ROWS)
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
        """Record facts of events for the manifest: first and last time, decreases, kinds, first FORKs."""
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
