"""An OTF2 archive as a source of definition tables and event columns."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.converters import sides
from tracecols.converters.base import Batch, Loss, Report, has_file
from tracecols.converters.buffers import Attributes, Events, PerThread, Sides, empty_sides
from tracecols.converters.otf2 import decode, tables
from tracecols.converters.otf2.definitions import Definitions, read_markers, split_records
from tracecols.converters.otf2.files import HEADER, Chunks, explain, read_anchor
from tracecols.converters.otf2.records import MAPS
from tracecols.distinct import distinct
from tracecols.errors import SourceError
from tracecols.given.files import is_denied
from tracecols.kernels.arrays import empty, first
from tracecols.schema import EventKind
from tracecols.vectors import offsets_of

ROWS = 1 << 20
"""Events per batch, and so per row group of the store."""

TOGETHER = 1 << 16
"""Events of small locations in a batch: making its columns takes longer than decoding 1,000 events."""

SALVAGE = "the archive is damaged; copy it again, or use --salvage to keep what precedes"

NO_CLOCK = empty(decode.Clock, 0)
"""Clock of locations without clock offsets."""

_DIRECT = 1 << 16
"""Identifiers below this are looked up in a table, larger ones by bisection."""


class Translation:
    """Maps from local identifier to row, for every kind of identifier, as arrays for the kernels."""

    def __init__(self, keys: list[NDArray[np.int64]], rows: list[NDArray[np.int64]]) -> None:
        self.keys, self.rows = keys, rows
        luts, lut_start, lut_size = [], np.zeros(len(MAPS), np.int64), np.zeros(len(MAPS), np.int64)
        far_keys, far_rows, start = [], [], np.zeros(len(MAPS) + 1, np.int64)
        at = 0
        for m, (k, r) in enumerate(zip(keys, rows, strict=True)):
            # identifiers of 2**63 and more are negative here
            near = slice(*np.searchsorted(k, [0, _DIRECT]).tolist())
            lut = np.full(int(k[near][-1]) + 1 if k[near].size else 0, -2, np.int64)
            lut[k[near]] = r[near]
            luts.append(lut)
            lut_start[m], lut_size[m] = at, lut.size
            at += lut.size
            far_keys.append(np.delete(k, near))
            far_rows.append(np.delete(r, near))
            start[m + 1] = start[m] + far_keys[-1].size
        none = np.zeros(1, np.int64)
        self.arrays = decode.Identifiers(
            np.concatenate([*luts, none]),
            lut_start,
            lut_size,
            np.concatenate([*far_keys, none]),
            np.concatenate([*far_rows, none]),
            start,
        )

    def with_mappings(self, mappings: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]) -> Translation:
        """Return the maps of a location: its mapping tables, from local to global identifiers, come before these."""
        keys, rows = list(self.keys), list(self.rows)
        for m, (local, target) in mappings.items():
            at = np.searchsorted(self.keys[m], target)
            at[at == self.keys[m].size] = 0
            found = self.keys[m][at] == target if self.keys[m].size else np.zeros(target.size, bool)
            mapped = np.where(found, self.rows[m][at] if self.keys[m].size else -2, -2)
            mapped[(target == 0xFFFFFFFF) | (target == -1)] = -1
            others = ~np.isin(self.keys[m], local)
            k = np.concatenate([self.keys[m][others], local])
            r = np.concatenate([self.rows[m][others], mapped])
            order = np.argsort(k, kind="stable")
            keys[m], rows[m] = k[order], r[order]
        return Translation(keys, rows)


class GlobalRanks:
    """Conversion of ranks that are positions in a paradigm's list of locations (GLOBAL_MEMBERS) to ranks in the
    communicator (`Definitions.global_ranks`)."""

    def __init__(self, ranks: dict[int, NDArray[np.int64]], definitions: dict[str, dict[str, list[Any]]]) -> None:
        # the last element is for no communicator, -1
        size = np.zeros(len(definitions["communicators"]["id"]) + 1, np.int64)
        for row, known in ranks.items():
            size[row] = known.size
        self._size, self._start = size, np.cumsum(size) - size
        self._ranks = np.concatenate([*(ranks[row] for row in sorted(ranks)), np.full(1, -1, np.int64)])
        self._is_global = np.isin(np.arange(size.size), list(ranks))
        windows = np.array([*definitions["windows"]["communicator"], -1], np.int64)
        self._communicator = {
            "p2p": ("communicator", None, ("peer",)),
            "collectives": ("communicator", None, ("root",)),
            "tasks": ("team", None, ("creator",)),
            "rma": ("window", windows, ("remote", "root")),
        }

    def resolve(self, batch: Batch) -> None:
        """Replace global ranks by ranks in communicators, -1 if they are not members."""
        if not self._is_global.any():
            return
        for family, (by, of, columns) in self._communicator.items():
            table = batch.sides.get(family)
            if table is None:
                continue
            communicator = table[by] if of is None else of[table[by]]
            for name in columns:
                rank = table[name].astype(np.int64)
                listed = (rank >= 0) & (rank < self._size[communicator])
                at = np.where(listed, self._start[communicator] + rank, -1)
                rank = np.where(self._is_global[communicator] & (rank >= 0), self._ranks[at], rank)
                table[name] = rank.astype(table[name].dtype)


class Buffers:
    """The buffers of one thread; pages that are never touched cost nothing."""

    def __init__(self) -> None:
        extra, attributes = np.empty(4 * ROWS, np.int64), empty(Attributes, ROWS)
        self.filled = decode.Buffers(empty(Events, ROWS), empty_sides(ROWS), extra, attributes)
        self.chunk: NDArray[np.uint8] | None = None

    def make_room(self, wanted: int) -> None:
        """Enlarge the empty buffers so that one record with `wanted` values fits."""
        if wanted > self.filled.attributes.event.size:
            self.filled = self.filled._replace(attributes=empty(Attributes, 2 * wanted))
        if wanted + 255 > self.filled.extra.size:
            self.filled = self.filled._replace(extra=np.empty(2 * wanted + 255, np.int64))


class Archive:
    """An OTF2 archive (see `tracecols.converters.base.Source`)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.anchor = read_anchor(path)
        self.format = f"OTF2 {self.anchor.library} (trace format {self.anchor.trace_format})"
        global_file = path.with_suffix(".def")
        self._definitions = Definitions(global_file, self.anchor.definition_chunk, self.anchor.n_definitions)
        self.clock = self._definitions.clock
        self.definitions = self._definitions.tables
        self.metric_types = self._definitions.metric_types
        n = len(self.definitions["locations"]["id"])
        if n != self.anchor.n_locations:
            raise SourceError(
                f"{global_file} defines {n} locations, the anchor file says {self.anchor.n_locations}\n"
                "  the archive is damaged or was changed; copy it again"
            )
        self.capabilities: frozenset[str] = frozenset()
        self.properties: dict[str, Any] = {
            "creator": self.anchor.creator,
            "machine": self.anchor.machine,
            "description": self.anchor.description,
            **self.anchor.properties,
        }
        ids = [self._definitions.ids[m] for m in MAPS]
        self._translation = Translation([i.keys for i in ids], [i.rows for i in ids])
        unknown = self._definitions.unknown_region
        regions = [unknown if r < 0 else r for r in self.definitions["calling_contexts"]["region"]]
        self._context_region = np.array([*regions, unknown], np.int32)
        programs = np.full(len(self.definitions["strings"]["id"]) + 1, self._definitions.any_program, np.int32)
        for string, region in self._definitions.program_region.items():
            programs[string] = region
        self._program_region = programs
        self._metric_class = np.array([*self.definitions["metric_sources"]["metric_class"], -1], np.int64)
        values = [self.metric_types[c] if c >= 0 else [] for c in self._metric_class]
        is_float = np.array([t == "float64" for types in values for t in types], np.uint8)
        self._metric_values = decode.MetricValues(offsets_of([len(types) for types in values]), is_float)
        self._global_ranks = GlobalRanks(self._definitions.global_ranks, self.definitions)
        self._buffers = PerThread(Buffers)
        self._folder = str(path.with_suffix(""))
        if has_file(notes := path.with_suffix(".marker")):
            of = self.anchor.definition_chunk, self._definitions.ids["LOCATION"]
            self.definitions["markers"] = read_markers(notes, *of)

    def _file(self, location: int, suffix: str) -> str:
        """Return the path of a location's file; as text, since making a `Path` takes longer than opening the file."""
        number = self.definitions["locations"]["id"][location] % (1 << 64)
        return f"{self._folder}{os.sep}{number}{suffix}"

    def _read_local(self, location: int) -> tuple[Translation, decode.Clock]:
        """Read the mapping tables and clock offsets of a location."""
        path = self._file(location, ".def")
        if not has_file(path):
            return self._translation, NO_CLOCK
        mappings: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        offsets = []
        buffers = self._buffers.value
        with Chunks(path, self.anchor.definition_chunk, buffers.chunk) as file:
            chunks = split_records(file, tables.LOCAL)
            if buffers.chunk is None or file.buffer.size > buffers.chunk.size:
                buffers.chunk = file.buffer
        for records, values, _ in chunks:
            for code, start, _at in records.tolist():
                if code == 5:
                    which, mode, n = values[start : start + 3].tolist()
                    numbers = values[start + 3 : start + 3 + n]
                    if which >= len(MAPS):
                        continue
                    if mode == 1:
                        mappings[which] = (numbers[0::2].copy(), numbers[1::2].copy())
                    elif mode == 0:
                        mappings[which] = (np.arange(n), numbers.copy())
                    else:
                        raise SourceError(f"{path}: mapping table of unknown mode {mode}\n  the archive is damaged")
                elif code == 6:
                    offsets.append(values[start : start + 2].tolist())
        translation = self._translation.with_mappings(mappings) if mappings else self._translation
        if len(offsets) < 2:
            return translation, NO_CLOCK
        at, by = (np.array(v, np.int64) for v in zip(*offsets, strict=True))
        if at[0] < 0 or (at[1:] <= at[:-1]).any():
            raise SourceError(f"{path}: clock offsets are not in increasing order of time\n  the archive is damaged")
        slope = np.diff(by).astype(np.float64) / np.diff(at).astype(np.float64)
        return translation, decode.Clock(at[:-1].copy(), by[:-1].copy(), slope, at[1:].copy())

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location as batches of columns (`converters.base.Source`)."""
        return self.read_together([location], report, [location] if salvage else [])

    def read_together(self, locations: Sequence[int], report: Report, damaged: Collection[int] = ()) -> Iterator[Batch]:
        """Yield the events of consecutive locations as batches of columns, those of small ones together.

        The events of `damaged` locations end at the first fault. Raises SourceError as `read` does.
        """
        n_events = self.definitions["locations"]["n_events"]
        state = np.zeros(decode.N_STATE, np.int64)
        unknown = np.zeros(256, np.int64)
        buffers = self._buffers.value
        parts: list[tuple[int, int]] = []
        for location in locations:
            if state[decode.EVENTS] and n_events[location] >= TOGETHER:
                yield self._batch(buffers, state, parts)
                parts = []
            # start of its events in the buffers, and number of its events in earlier batches
            start, done = int(state[decode.EVENTS]), 0
            try:
                for _ in self._fill(location, buffers, state, unknown):
                    n = int(state[decode.EVENTS]) - start
                    yield self._batch(buffers, state, [*parts, (location, n)])
                    parts, start, done = [], 0, done + n
                    state[decode.BASE] = done
            except SourceError as error:
                if location not in damaged or is_denied(error.__cause__):
                    raise
                lost = n_events[location] - (done + int(state[decode.EVENTS]) - start)
                report.lost.append(Loss(location, max(lost, 0), str(error).splitlines()[0]))
            parts.append((location, int(state[decode.EVENTS]) - start))
            if state[decode.EVENTS] >= TOGETHER:
                yield self._batch(buffers, state, parts)
                parts = []
        if state[decode.EVENTS]:
            yield self._batch(buffers, state, parts)
        for code in np.flatnonzero(unknown).tolist():
            report.unknown[f"event type {code}"] += int(unknown[code])

    def _fill(
        self, location: int, buffers: Buffers, state: NDArray[np.int64], unknown: NDArray[np.int64]
    ) -> Iterator[None]:
        """Decode a location chunk by chunk; yield when buffers are full, and continue once they have been emptied."""
        path = self._file(location, ".evt")
        expected = self.definitions["locations"]["n_events"][location]
        state[[decode.RAW_TIME, decode.FLUSH]] = -1
        state[[decode.TIME, decode.INTERVAL]] = 0
        if not has_file(path):
            if expected:
                raise SourceError(
                    f"{path} is missing, and should hold {expected} events\n"
                    "  the archive is incomplete; copy it again, or use --salvage"
                )
            return
        translation, clock = self._read_local(location)
        meanings = decode.Meanings(tables.EVENTS, translation.arrays, self._metric_values, clock)
        ends = decode.END_OF_CHUNK
        total = 0
        with Chunks(path, self.anchor.event_chunk, buffers.chunk, SALVAGE) as file:
            while ends != decode.END_OF_FILE and file.next():
                buffers.chunk = file.buffer
                if file.first != total + 1 or file.last < total:
                    raise file.error(
                        2, f"its header says events {file.first} to {file.last}, but number {total + 1} is due"
                    )
                state[decode.POSITION] = HEADER
                state[decode.CHUNK_EVENTS] = 0
                while True:
                    chunk = decode.Chunk(file.buffer, file.n, file.big)
                    ends = decode.decode_events(chunk, state, meanings, buffers.filled, unknown)
                    if ends != decode.BUFFERS_FULL:
                        break
                    yield
                    buffers.make_room(int(state[decode.FAULT_DETAIL]))
                total += int(state[decode.CHUNK_EVENTS])
                if ends not in (decode.END_OF_CHUNK, decode.END_OF_FILE):
                    fault, detail = int(state[decode.FAULT]), int(state[decode.FAULT_DETAIL])
                    raise file.error(fault, explain(ends, detail, MAPS))
                if total != file.last:
                    raise file.error(
                        int(state[decode.POSITION]), f"the chunk ends with event {total}, its header says {file.last}"
                    )
            if ends == decode.END_OF_FILE:
                file.check_end(int(state[decode.POSITION]))
            else:
                raise file.error(file.n, f"the file ends after {total} of {expected} events")
        if total != expected:
            raise SourceError(f"{path} holds {total} events, the definitions say {expected}\n  {SALVAGE}")

    def _batch(self, buffers: Buffers, state: NDArray[np.int64], parts: list[tuple[int, int]]) -> Batch:
        """Turn filled buffers with the events of some locations into columns, and empty them."""
        n, n_sides, n_attributes = (int(state[i]) for i in (decode.EVENTS, decode.SIDES, decode.ATTRIBUTES))
        base, filled = int(state[decode.BASE]), buffers.filled
        events, decoded = first(filled.events, n), first(filled.sides, n_sides)
        batch = Batch(events._asdict(), sides.side_tables(tables.SIDE_COLUMNS, decoded), parts)
        counts = np.bincount(decoded.kind, minlength=256)
        self._enter_artificial_regions(events.region, decoded, base, counts)
        self._global_ranks.resolve(batch)
        if counts[EventKind.METRIC]:
            self._metric_columns(batch, decoded, filled.extra)
        if counts[EventKind.PROGRAM_BEGIN]:
            rows = np.flatnonzero(decoded.kind == EventKind.PROGRAM_BEGIN)
            values, n_arguments = decoded.values, decoded.values[rows, 1]
            if n_arguments.any():
                number = sides.ranges(n_arguments)
                batch.sides["program_arguments"] = {
                    "row": np.repeat(decoded.event[rows], n_arguments),
                    "position": number.astype(np.int32),
                    "argument": filled.extra[np.repeat(values[rows, 2], n_arguments) + number].astype(np.int32),
                }
        if n_attributes:
            of, name, kind_of, value = (a[:n_attributes] for a in filled.attributes)
            if counts[EventKind.BUFFER_FLUSH]:
                # attributes of a flush that was moved after another event have to follow that event's
                order = np.argsort(of, kind="stable")
                of, name, kind_of, value = of[order], name[order], kind_of[order], value[order]
            batch.sides["attributes"] = {"row": of, "attribute": name.astype(np.int32), "type": kind_of, "value": value}
        state[[decode.BASE, decode.EVENTS, decode.SIDES, decode.EXTRAS, decode.ATTRIBUTES]] = 0
        state[decode.FLUSH] = -1
        return batch

    def _enter_artificial_regions(
        self, region: NDArray[np.int32], decoded: Sides, base: int, counts: NDArray[np.int64]
    ) -> None:
        """Fill in the regions of events that enter one without naming it; the first event has the number `base`, and
        `counts` are those of kinds."""
        event, kind, values = decoded.event - base, decoded.kind, decoded.values
        for k in (EventKind.CALLING_CONTEXT_ENTER, EventKind.CALLING_CONTEXT_EXIT):
            if counts[k]:
                rows = kind == k
                region[event[rows]] = self._context_region[values[rows, 0]]
        if counts[EventKind.MEASUREMENT_ON_OFF]:
            rows = (kind == EventKind.MEASUREMENT_ON_OFF) & (values[:, 0] == 2)
            region[event[rows]] = self._definitions.off_region
        if counts[EventKind.BUFFER_FLUSH]:
            region[event[kind == EventKind.BUFFER_FLUSH]] = self._definitions.flush_region
        if counts[EventKind.PROGRAM_BEGIN]:
            rows = kind == EventKind.PROGRAM_BEGIN
            region[event[rows]] = self._program_region[values[rows, 0]]

    def _metric_columns(self, batch: Batch, decoded: Sides, extra: NDArray[np.int64]) -> None:
        """Put the values of METRIC events into a table per metric class."""
        rows = np.flatnonzero(decoded.kind == EventKind.METRIC)
        source, start = decoded.values[rows, 0], decoded.values[rows, 2]
        of = self._metric_class[source]
        for number in distinct(of[of >= 0]).tolist():
            mine = of == number
            batch.sides[f"metrics_{number}"] = sides.metric_table(
                decoded.event[rows[mine]], source[mine].astype(np.int32), start[mine], extra, self.metric_types[number]
            )
