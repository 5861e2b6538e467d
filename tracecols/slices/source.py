"""A store, or a slice of it, as a source of definitions and batches, so that readers of archives can read stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tracecols.converters.base import Batch, Clock, Columns, Report
from tracecols.converters.sides import ranges
from tracecols.distinct import distinct
from tracecols.enhance.definitions.locations import (
    PIECE,
    PIECE_CALLS,
    PIECE_CPUS,
    PIECE_LEFT_OUT,
    PIECE_NUMBERS,
    PIECE_PENDING,
    Locations,
    find_locations,
)
from tracecols.errors import AnalysisError, ExportError, StoreError
from tracecols.given.arguments import as_seconds, clock_reading
from tracecols.schema import KINDS
from tracecols.slices.devices import pending_work
from tracecols.slices.plan import AddedEvent, LocationSlice, plan_slices
from tracecols.store import Store
from tracecols.store.checks import wrong_sides
from tracecols.store.layout import is_made_here
from tracecols.vectors import Ints
from tracecols.work.jobs import n_jobs

ROWS = 1 << 20
"""Events per batch."""

SIDE_ROWS = 1 << 19
"""Rows of a side table that are read at once."""

_FAMILY = np.full(256, "", object)
_FAMILY[[int(k) for k in KINDS]] = [k.family for k in KINDS]


def open_store(source: Path) -> Store:
    """Open a store to write its events for other tools. Raises ExportError if it is a severity cube."""
    if is_made_here(source, "a severity cube"):
        raise ExportError(
            f"{source} is a severity cube, and has no events\n  export the store of the trace it was made of"
        )
    return Store(source)


def time_range_ticks(store: Store, start: float | None, stop: float | None) -> tuple[int | None, int | None]:
    """Convert the ends of a time range from seconds since the start of the recording to ticks; None stays. Raises
    AnalysisError if they are not within the recording, or not in order, or one is not a finite number."""
    start, stop = as_seconds(start, "start", AnalysisError), as_seconds(stop, "end", AnalysisError)
    if start is not None and stop is not None and stop <= start:
        raise AnalysisError(
            f"nothing lies between {start:g} s and {stop:g} s\n  the end has to be later than the start"
        )
    manifest = store.manifest
    first, last = (None if s is None else clock_reading(s, manifest["clock"]) for s in (start, stop))
    if (first is not None and first > manifest["last_time"]) or (last is not None and last <= manifest["first_time"]):
        raise nothing_between(store, first, last)
    return first, last


def nothing_between(store: Store, start: int | None, stop: int | None) -> AnalysisError:
    """Return the error for a time range, in ticks, without events."""
    clock = store.manifest["clock"]

    def seconds(ticks: int) -> str:
        return f"{(ticks - clock['origin']) / clock['resolution']:g} s"

    if start is None or stop is None:
        lies = f"before {seconds(stop)}" if stop is not None else f"at {seconds(start or 0)} or later"
    else:
        lies = f"between {seconds(start)} and {seconds(stop)}"
    return AnalysisError(f"no event lies {lies}\n  the recording lasts {seconds(store.manifest['last_time'])}")


class SideReader:
    """The rows of one side table at one location, read incrementally."""

    def __init__(self, store: Store, table: str, location: int) -> None:
        self._store, self._table, self._location = store, table, location
        self._first_row = store.first_rows[location]
        self._n = store.n_rows(table, location)
        self._at = 0
        self._waiting: Columns = {}

    def skip(self, row: int) -> None:
        """Skip the rows of events before `row`, which counts from the location's first."""
        while self._at < self._n:
            stop = min(self._at + SIDE_ROWS, self._n)
            rows = self._store.read(self._table, self._location, ["row"], self._at, stop)["row"]
            n = int(np.searchsorted(rows, row + self._first_row))
            self._at += n
            if n < rows.size:
                break

    def until(self, row: int) -> Columns | None:
        """Return the rows, not returned yet, of events before `row`, which counts from the location's first."""
        found_rows = []
        while True:
            if not self._waiting:
                if self._at >= self._n:
                    break
                stop = min(self._at + SIDE_ROWS, self._n)
                self._waiting = self._store.read(self._table, self._location, None, self._at, stop)
                self._at = stop
                self._waiting["row"] = self._waiting["row"] - self._first_row
            n = int(np.searchsorted(self._waiting["row"], row))
            size = self._waiting["row"].size
            if n:
                found_rows.append({c: v[:n] for c, v in self._waiting.items()})
            self._waiting = {c: v[n:] for c, v in self._waiting.items()} if n < size else {}
            if self._waiting:
                break
        if len(found_rows) < 2:
            return found_rows[0] if found_rows else None
        return {c: np.concatenate([p[c] for p in found_rows]) for c in found_rows[0]}


def side_rows(store: Store, table: str, location: int, rows: Ints) -> Columns | None:
    """Return the rows of a side table of some events, ascending from a location's first; None if there are none."""
    found_rows = []
    n = store.n_rows(table, location)
    for start in range(0, n, SIDE_ROWS):
        stop = min(start + SIDE_ROWS, n)
        row = store.read(table, location, ["row"], start, stop)["row"] - store.first_rows[location]
        low, high = np.searchsorted(rows, [row[0], row[-1] + 1])
        if low == high:
            continue
        at = np.flatnonzero(np.isin(row, rows[low:high]))
        if at.size:
            found = store.read(table, location, None, start, stop)
            found_rows.append({c: (row if c == "row" else v)[at] for c, v in found.items()})
    return {c: np.concatenate([p[c] for p in found_rows]) for c in found_rows[0]} if found_rows else None


def facts_of_slice(store: Store) -> dict[str, str]:
    """Return the manifest entries of a slice: that it is one, and what follows from events it may lack."""
    facts = {PIECE: "1"}
    kinds = store.definitions["locations"].column("type").to_pylist()
    if "gpu" in kinds:
        is_cpu = Locations.of(store).is_cpu
        facts[PIECE_CPUS] = " ".join(str(i) for i, kind in enumerate(kinds) if kind == "gpu" and is_cpu[i])
    return facts


class StoreSource:
    """A store as a source (see `tracecols.converters.base.Source`), whole or a trace slice (see
    `tracecols.slices.plan`).

    Parameters
    ----------
    locations : iterable of int, optional
        Rows of the locations whose events to keep; all by default.
    start, stop : int, optional
        Keep the events with start <= time < stop, in ticks.
    jobs : int, optional
        Threads that find what is open at the ends of the time range; by default one per core.
    keeps_unmatched : bool, optional
        Keep messages and collective operations whose partners lie before the time range. By default they are omitted,
        since other tools would join them with wrong partners.
    """

    def __init__(
        self,
        store: Store,
        locations: Iterable[int] | None = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        jobs: int | None = None,
        keeps_unmatched: bool = False,
    ) -> None:
        self.store = store
        self.path: Path = store.path
        source = dict(store.manifest["source"])
        source.pop("path", None)
        self.format: str = source.pop("format", "")
        self.capabilities = store.capabilities
        source.pop("capabilities", None)
        self.properties: dict[str, Any] = source
        self.clock = Clock(**store.manifest["clock"])
        self.definitions: dict[str, dict[str, list[Any]]] = {
            name: table.to_pydict() for name, table in store.definitions.items() if name != "segments"
        }
        types = self.definitions["metric_members"]["value_type"]
        self.metric_types = [[types[m] for m in members] for members in self.definitions["metric_classes"]["members"]]
        self._side_tables = [name for name in store.tables if name != "events"]
        self._slices = [LocationSlice(0, n) for n in store.n_events.tolist()]
        self._start, self._stop = start, stop
        if locations is None and start is None and stop is None:
            return
        chosen = find_locations(store, locations)
        if start is not None and stop is not None and stop <= start:
            raise StoreError(
                f"nothing lies between the ticks {start} and {stop}\n  the end has to be later than the start"
            )
        self._slices, numbering = plan_slices(store, chosen, start, stop, n_jobs(jobs), not keeps_unmatched)
        if not (start is None and stop is None) and not any(planned.n_events for planned in self._slices):
            raise nothing_between(store, start, stop)
        n_left_out = sum(planned.dropped.size for planned in self._slices)
        # the format's own library refuses properties without a value
        self.properties.pop(PIECE_NUMBERS, None)
        if numbering:
            self.properties[PIECE_NUMBERS] = str(numbering)
        n_events = self.definitions["locations"]["n_events"]
        kept = range(len(n_events)) if chosen is None else chosen
        if any(self._slices[i].start or self._slices[i].stop < n_events[i] for i in kept):
            self.properties |= facts_of_slice(store) | {
                PIECE_CALLS: str(sum(planned.n_calls for planned in self._slices)),
                PIECE_LEFT_OUT: str(n_left_out),
            }
            if pending := pending_work(store, self._slices):
                self.properties[PIECE_PENDING] = pending
        self.definitions["locations"]["n_events"] = [planned.n_events for planned in self._slices]

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location in order."""
        planned = self._slices[location]
        if planned.before:
            yield self._added(location, planned.before, 0, self._start)
        done = len(planned.before)
        for batch in self._recorded(location, planned):
            for columns in batch.sides.values() if done else ():
                columns["row"] = columns["row"] + done
            yield batch
        if planned.after:
            yield self._added(location, planned.after, planned.n_events - len(planned.after), self._stop)

    def _recorded(self, location: int, planned: LocationSlice) -> Iterator[Batch]:
        """Yield the recorded events of a location that a trace slice holds, numbered from 0."""
        sides = {t: SideReader(self.store, t, location) for t in self._side_tables}
        if planned.start:
            for side in sides.values():
                side.skip(planned.start)
        for start in range(planned.start, planned.stop, ROWS):
            stop = min(start + ROWS, planned.stop)
            events = self.store.read("events", location, None, start, stop)
            found = {name: columns for name, side in sides.items() if (columns := side.until(stop)) is not None}
            what = wrong_sides(events["kind"], {t: {**c, "row": c["row"] - start} for t, c in found.items()})
            if what:
                raise self.store.damaged(f"location {location}: {what}")
            self._end_flushes(found)
            low, high = np.searchsorted(planned.dropped, [start, stop])
            if low < high:
                kept = np.ones(stop - start, bool)
                kept[planned.dropped[low:high] - start] = False
                events = {c: v[kept] for c, v in events.items()}
                for name, columns in found.items():
                    mine = kept[columns["row"] - start]
                    found[name] = {c: v[mine] for c, v in columns.items()}
            if planned.start or planned.dropped.size:
                for columns in found.values():
                    columns["row"] = columns["row"] - planned.start - np.searchsorted(planned.dropped, columns["row"])
            yield Batch(events, found)

    def _end_flushes(self, sides: dict[str, Columns]) -> None:
        """Clip buffer flushes to the end of the time range."""
        if self._stop is not None and "control" in sides:
            sides["control"]["stop_time"] = np.minimum(sides["control"]["stop_time"], self._stop)

    def _added(self, location: int, events: list[AddedEvent], first: int, time: int | None) -> Batch:
        """Make a batch of added events, the first of which has the number `first`."""
        n = len(events)
        kind = np.array([e.kind for e in events], np.uint8)
        source = np.array([e.row for e in events], np.int64)
        source_location = np.array([location if e.location < 0 else e.location for e in events], np.int64)
        batch = Batch(
            {"time": np.full(n, time, np.int64), "kind": kind, "region": np.array([e.region for e in events], np.int32)}
        )
        is_copy = np.array([e.changes is None for e in events])
        for name in self._side_tables:
            # an event modelled on another one has a row in the side table of its own family only
            mine = np.flatnonzero(is_copy | (_FAMILY[kind] == name))
            if not mine.size or name == "ties":
                # events at the ends of a time range have no tie order of their own
                continue
            parts = []
            for i in distinct(source_location[mine]).tolist():
                of = mine[source_location[mine] == i]
                found = side_rows(self.store, name, i, distinct(source[of]))
                if found is None:
                    continue
                low, high = (np.searchsorted(found["row"], source[of], side) for side in ("left", "right"))
                counts = high - low
                at = np.repeat(low, counts) + ranges(counts)
                parts.append({**{c: v[at] for c, v in found.items()}, "row": first + np.repeat(of, counts)})
            if not parts:
                continue
            columns = {c: np.concatenate([p[c] for p in parts]) for c in parts[0]}
            order = np.argsort(columns["row"], kind="stable")
            columns = {c: v[order] for c, v in columns.items()}
            of = columns["row"] - first
            for column in columns:
                for i in np.flatnonzero(~is_copy[of]).tolist():
                    changes = events[of[i]].changes or {}
                    columns[column][i] = kind[of[i]] if column == "kind" else changes.get(column, columns[column][i])
            batch.sides[name] = columns
        self._end_flushes(batch.sides)
        return batch
