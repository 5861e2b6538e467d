"""An EPILOG trace, a merged file or the archive of its processes, as a source of definitions and event columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters import sides
from tracecols.converters.base import Batch, Clock, Loss, Report, has_file
from tracecols.converters.buffers import Attributes, Events, PerThread, empty_sides
from tracecols.converters.definition_tables import rows_by_number
from tracecols.converters.epilog import decode, records
from tracecols.converters.epilog.container import DAMAGED, HEADER, Container
from tracecols.converters.epilog.definitions import Definitions, Section, largest, read_map
from tracecols.converters.temporary import scratch
from tracecols.errors import SourceError
from tracecols.given.files import is_denied
from tracecols.kernels.arrays import doubled, empty, first
from tracecols.schema import EventKind
from tracecols.schema.kinds import GET_COMPLETION
from tracecols.vectors import offsets_of

ROWS = 1 << 20
"""Events per batch, and so per row group of the store."""

FINEST = 18
"""Largest clock resolution: 10**18 ticks per second."""

LONGEST = float(1 << 40)
"""Upper bound for a time, in seconds."""

NO_OFFSET = decode.Clock(local=0.0, offset=0.0, slope=0.0, start=0.0, resolution=1.0)
"""Clock of a file whose times are those of the trace; start and resolution are set when all files are known."""

_KINDS = ("REGION", "CALL_SITE", "MPI_COMM", "MPI_WIN", "LOCATION", "MPI_GROUP")
_MEANINGS = (records.REGION, records.SITE, records.COMM, records.WINDOW, records.PEER, records.GROUP)


def _columns() -> dict[EventKind, list[str]]:
    """Return the columns that the values of each kind fill: the fields of all its records, then computed ones."""
    result: dict[EventKind, list[str]] = {}
    for event in records.EVENTS:
        if event.kind not in (EventKind.ENTER, EventKind.EXIT):
            known = result.setdefault(event.kind, [])
            known += [name for name, _ in event.fields if name not in known]
    for kind in (EventKind.MPI_SEND, EventKind.MPI_ISEND, EventKind.MPI_RECV, EventKind.MPI_IRECV):
        result[kind] = [*sides.VALUES[kind]]
    result[EventKind.MPI_COLLECTIVE_END].append("op")
    result[EventKind.RMA_COLLECTIVE_END].append("op")
    result[EventKind.MEASUREMENT_ON_OFF].append("mode")
    return result


COLUMNS = _columns()
SIDE_COLUMNS = sides.side_columns(COLUMNS)


@cache
def record_tables(n_counters: int) -> decode.RecordTables:
    """Return the layout of event records of a trace with some counters, which make records longer and add events."""
    length, n_rows = np.full(256, -1, np.int64), np.zeros(256, np.int64)
    n_fields, kinds, leaves, counters = (np.zeros(256, np.uint8) for _ in range(4))
    meanings, places = (np.zeros((256, decode.MOST_FIELDS), np.uint8) for _ in range(2))
    for event in records.EVENTS:
        columns, n, code = COLUMNS.get(event.kind, []), len(event.fields), event.code
        counted = n_counters if event.counters else 0
        sizes = [1 if m in (records.FLAG, records.LOCK_TYPE) else 4 for _, m in event.fields]
        length[code] = 12 + sum(sizes) + 8 * counted
        n_rows[code] = 1 + event.leaves + (counted > 0)
        n_fields[code], kinds[code], leaves[code], counters[code] = n, event.kind, event.leaves, event.counters
        meanings[code, :n] = [m for _, m in event.fields]
        places[code, :n] = [columns.index(c) if columns else 0 for c, _ in event.fields]
    length[list(records.DEFINITIONS)] = 0
    for code, (_, size) in records.ATTRIBUTE_TYPES.items():
        length[code] = 1 + size
    return decode.RecordTables(length, n_rows, n_fields, kinds, leaves, counters, meanings, places)


def explain(why: int, what: int, which: int) -> str:
    """Return the message for the status with which a kernel stopped."""
    names = dict(zip(_MEANINGS, _KINDS, strict=True))
    return {
        decode.RUNS_OUT: "the file ends within a record",
        decode.BAD_LENGTH: f"a record has {which} bytes, which does not fit its type",
        decode.NO_LOCATION: f"an event names location {which}, which is not defined"
        if which != decode.UNDEFINED
        else "an event names no location",
        decode.BAD_TIME: "a time is negative, impossibly large or no number",
        decode.UNKNOWN_ID: f"an event names {names.get(what, '')} {which}, which is not defined",
        decode.NO_MEMBER: f"an event names location {which}, which is not a member of its communicator",
        decode.NO_RANK: f"an event names rank {which}, which its communicator does not have",
    }.get(why, f"decoding stopped ({why})")


def _clock_of(path: Path, offsets: list[tuple[float, float]]) -> decode.Clock:
    """Return the conversion of the times of one file to those of the trace: interpolate between the first and the last
    measurement of the offset to the master's clock (thesis 4.3.3)."""
    if not offsets:
        return NO_OFFSET
    if any(not abs(x) < LONGEST for pair in offsets for x in pair):
        raise SourceError(f"{path}: a clock offset is not a number, or impossible\n  {DAMAGED}")
    (l0, o0), (l1, o1) = offsets[0], offsets[-1]
    if len(offsets) == 1:
        return NO_OFFSET._replace(local=l0, offset=o0)
    if not l1 > l0:
        raise SourceError(f"{path}: clock offsets are not in increasing order of time\n  {DAMAGED}")
    slope = (o1 - o0) / (l1 - l0)
    if not -1 < slope < math.inf:
        raise SourceError(f"{path}: clock offsets let time go backwards\n  {DAMAGED}")
    return NO_OFFSET._replace(local=l0, offset=o0, slope=slope)


class SortedRecords(NamedTuple):
    """The records of a file by location, and those whose order among records of the same time is listed (ties)."""

    offsets: NDArray[np.int64]
    start: NDArray[np.int64]
    """`offsets` and `start`: (n_records,) and (n_locations + 1,), start of the offsets of each location."""
    tied_at: NDArray[np.int64]
    tied_place: NDArray[np.int64]
    tie_start: NDArray[np.int64]
    """`tied_at`, `tied_place` and `tie_start`: offset and place of each tie, and start of those of each location."""
    n_coincident: int
    """Number of times within a tick of the previous one."""

    def of(self, location: int) -> decode.LocationRecords:
        """Return the records of a location."""
        offsets = self.offsets[self.start[location] : self.start[location + 1]]
        tied = slice(self.tie_start[location], self.tie_start[location + 1])
        return decode.LocationRecords(offsets, np.searchsorted(offsets, self.tied_at[tied]), self.tied_place[tied])


class EventFile:
    """The events of one file, counted by location.

    Parameters
    ----------
    locations : decode.LocationRows
    scales : sequence of float
        Ticks per second to try; the first that represents all times exactly is chosen.

    Attributes
    ----------
    fault : str
        Error after which the records of the file can no longer be separated; empty if there is none.
    faults : dict of int to str
        By location, the error in the record at which the location ends; the others continue.
    n_lost : (n_locations,) int64
        Events of each location from that record on.
    """

    def __init__(
        self,
        container: Container,
        at: int,
        locations: decode.LocationRows,
        n_locations: int,
        first_place: int,
        n_counters: int,
        scales: list[float],
    ) -> None:
        self.container, self.at = container, at
        self.bytes = decode.File(container.data, container.big)
        self.table = record_tables(n_counters)
        self._locations, self._first_place = locations, first_place
        self.n_records, self.n_rows, self.n_lost, latest = (np.zeros(n_locations, np.int64) for _ in range(4))
        self._fault_at = np.full(n_locations, -1, np.int64)
        self.unknown = np.zeros(256, np.int64)
        counts = decode.Counts(self.n_records, self.n_rows, self.n_lost, self._fault_at, latest)
        none = np.zeros(0, np.int64)
        nowhere = decode.Notes(none, none, none, none, none, first_place)
        state = self._walk(np.array(scales), counts, nowhere, self.unknown)
        self.n_scale, self.disorder = int(state[decode.SCALE]), int(state[decode.DISORDER])
        self.total, self.n_tied = int(state[decode.N_RECORDS]), int(state[decode.N_TIED])
        bits = state[[decode.FIRST, decode.LAST]].view(np.float64)
        self.first, self.last = float(bits[0]), float(bits[1])
        self.n_lost_records = int(state[decode.N_LOST])
        why, which = int(state[decode.FAULT]), int(state[decode.DETAIL])
        # kept as text: a raised exception keeps the arrays of all frames it passes alive, and this would keep it alive
        self.fault = ""
        if why in (decode.END, decode.RUNS_OUT) and container.cut:
            self.fault = str(container.error(int(state[decode.AT]), container.cut))
        elif why != decode.END:
            self.fault = str(container.error(int(state[decode.AT]), explain(why, 0, which)))
        self.faults = {
            i: str(container.error(int(self._fault_at[i]), explain(decode.BAD_TIME, 0, 0)))
            for i in np.flatnonzero(self._fault_at >= 0).tolist()
        }

    def _walk(
        self, scales: NDArray[np.float64], counts: decode.Counts, notes: decode.Notes, unknown: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        state = np.zeros(decode.WALK_STATE, np.int64)
        state[decode.AT] = self.at
        decode.walk_records(self.bytes, self.table, self._locations, scales, state, counts, notes, unknown)
        return state

    def sorted(self, resolution: int) -> SortedRecords:
        """Find the records of each location."""
        n = self.n_records.size
        start, offsets = offsets_of(self.n_records), scratch(self.total, np.int64)
        rest = np.zeros(n, np.int64)
        counts = decode.Counts(rest, rest, rest, self._fault_at, np.zeros(n, np.int64))
        tied_at, tied_location, tied_place = (np.empty(self.n_tied, np.int64) for _ in range(3))
        notes = decode.Notes(offsets, start[:-1].copy(), tied_at, tied_location, tied_place, self._first_place)
        state = self._walk(np.array([float(resolution)]), counts, notes, np.zeros(256, np.int64))
        order = np.argsort(tied_location, kind="stable")
        tie_start = np.searchsorted(tied_location[order], np.arange(n + 1))
        n_coincident = int(state[decode.COINCIDENT])
        return SortedRecords(offsets, start, tied_at[order], tied_place[order], tie_start, n_coincident)


def _empty_buffers() -> decode.Buffers:
    """Make the buffers of one thread; pages that are never touched cost nothing."""
    return decode.Buffers(
        events=empty(Events, ROWS),
        sides=empty_sides(ROWS),
        extra=np.empty(4 * ROWS, np.int64),
        sites=empty(decode.Numbers, ROWS),
        attributes=empty(Attributes, ROWS),
        ties=empty(decode.Numbers, ROWS),
        stack=np.empty(1 << 10, np.int32),
    )


def _identifiers(kinds: list[dict[int, int]]) -> decode.Identifiers:
    """Concatenate lookup tables from identifier to row; meanings are numbered from 1."""
    tables = [rows_by_number(rows) for rows in kinds]
    starts = np.cumsum([0, 0, *(table.size for table in tables)])
    return decode.Identifiers(np.concatenate([*tables, np.zeros(1, np.int64)]), starts)


class Archive:
    """An EPILOG trace (see `tracecols.converters.base.Source`): a merged file (`*.elg`, plain or gzip), or the files of
    an EPIK archive (`epik.esd`, beside `epik.map` and `ELG/`)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        container = Container(path)
        self.is_merged = not path.name.endswith(".esd")
        self._definitions = d = Definitions(container, with_events=self.is_merged)
        self.definitions, self.metric_types = d.tables, d.metric_types
        self._n_counters = len(d.metric_types[0]) if d.metric_types else 0
        major, minor = divmod(container.version, 1000)
        self.format = f"EPILOG {major}.{minor}" + ("" if self.is_merged else ", archive")
        self._rows = [d.rows[k] for k in _KINDS]
        self._unknown = d.unknown
        if self.is_merged:
            self._open_merged(container)
        else:
            self._open_files(path)
        n = len(d.tables["locations"]["id"])
        self._file_of = np.zeros(n, np.int64)
        counts = np.zeros(n, np.int64)
        if not self.is_merged:
            self._file_of = d.process_of
        for file, _, _ in self._files:
            counts += file.n_rows
            for code in np.flatnonzero(file.unknown).tolist():
                self._unknown[code] += int(file.unknown[code])
        d.tables["locations"]["n_events"] = counts.tolist()
        total = sum(f.total for f, _, _ in self._files)
        self._sorted = [f.sorted(self.clock.resolution) for f, _, _ in self._files]
        facts = {
            "byte order": "big" if container.big else "little",
            "records": total,
            "records earlier than the one before": sum(f.disorder for f, _, _ in self._files),
            "times less than a tick apart": sum(s.n_coincident for s in self._sorted),
            "definitions missing among others": d.n_missing,
        }
        self.properties: dict[str, Any] = {k: v for k, v in facts.items() if v}
        self.capabilities = frozenset({GET_COMPLETION})
        # before version 1.8 partners were locations in the files of processes, too
        peers_are_ranks = not self.is_merged and container.version >= 1008
        self._communicators = decode.Communicators(peers_are_ranks, d.process_of, d.comm_of_window, *d.members)
        self._regions = decode.Regions(d.callee, d.op_of_region, d.window_op_of_region, d.off_region, d.tracing_region)
        self._buffers = PerThread(_empty_buffers)

    def _open_merged(self, container: Container) -> None:
        """Index a merged trace and choose its ticks."""
        d = self._definitions
        n = len(d.tables["locations"]["id"])
        location_of = rows_by_number(d.rows["LOCATION"]).astype(np.int32)
        exact = [10.0**k for k in range(6, FINEST + 1, 3)]
        # records of a serial program may lack the location
        only = 0 if n == 1 else -1
        locations = decode.LocationRows(location_of, only)
        file = EventFile(container, d.events_at, locations, n, 0, self._n_counters, exact)
        held = file.total + file.n_lost_records
        if not file.fault and d.n_events and held != d.n_events:
            file.fault = f"{self.path} holds {held} events, its definitions say {d.n_events}\n  {DAMAGED}"
        resolution = self._resolution(
            self.path, file.last, int(exact[file.n_scale]) if file.n_scale < len(exact) else 0, n
        )
        self.clock = Clock(resolution, 0, round(file.last * resolution))
        self._files = [(file, NO_OFFSET, _identifiers(self._rows))]
        self._start = 0.0

    def _open_files(self, path: Path) -> None:
        """Index the files of an archive's processes."""
        d = self._definitions
        n = len(d.tables["locations"]["id"])
        map_path = path.with_suffix(".map")
        sections = read_map(Container(map_path)) if has_file(map_path) else {}
        self._files = []
        for process, rank in enumerate(d.ranks):
            file_path = path.parent / "ELG" / f"{rank:05d}"
            if not has_file(file_path):
                raise SourceError(f"{file_path} is missing\n  the archive is incomplete; copy it again")
            section = sections.get(rank, Section())
            maps = [
                {local: rows[g] for local, g in section.maps[kind].items() if g in rows and local <= largest(len(rows))}
                if kind in section.maps
                else rows
                for kind, rows in zip(_KINDS, self._rows, strict=True)
            ]
            mine = np.flatnonzero(d.process_of == process)
            container, master = Container(file_path), int(mine[0])
            location_of = rows_by_number(maps[_KINDS.index("LOCATION")]).astype(np.int32)
            locations = decode.LocationRows(location_of, master)
            file = EventFile(container, HEADER, locations, n, master << 32, self._n_counters, [])
            others = np.flatnonzero((file.n_records + file.n_lost > 0) & (d.process_of != process))
            if others.size:
                raise SourceError(
                    f"{file_path} holds events of location {d.tables['locations']['id'][others[0]]}, "
                    f"which belongs to another process\n  {DAMAGED}"
                )
            self._files.append((file, _clock_of(map_path, section.offsets), _identifiers(maps)))
        # the earliest event becomes time 0, as the merge does
        limits = [
            [time + c.slope * (time - c.local) + c.offset for time in (f.first, f.last)]
            for f, c, _ in self._files
            if f.total
        ]
        self._start = min((begin for begin, _ in limits), default=0.0)
        last = max((end for _, end in limits), default=0.0) - self._start
        resolution = self._resolution(map_path, last, 0, n)
        self.clock = Clock(resolution, 0, round(last * resolution))

    @staticmethod
    def _resolution(path: Path, last: float, exact: int, n_locations: int) -> int:
        """Choose ticks per second: the coarsest that are exact, else the finest for which sums over locations fit."""
        fits = [10**k for k in range(FINEST + 1) if last * 10**k * n_locations < 1 << 60]
        if not fits:
            raise SourceError(f"{path}: a time of {last:g} s is impossible\n  {DAMAGED}")
        return exact if exact in fits else fits[-1]

    def read(self, location: int, report: Report, *, salvage: bool = False) -> Iterator[Batch]:
        """Yield the events of one location as batches of columns (`converters.base.Source`)."""
        if location == 0:
            for code, n in self._unknown.items():
                report.unknown[f"record type {code}"] = n
        file, clock, ids = self._files[self._file_of[location]]
        fault = file.faults.get(location, file.fault)
        if fault and not salvage:
            raise SourceError(fault)
        state = np.zeros(decode.DECODE_STATE, np.int64)
        try:
            yield from self._batches(location, file, clock, ids, state)
        except SourceError as error:
            if not salvage or is_denied(error.__cause__):
                raise
            fault = str(error)
        if state[decode.EVENTS]:
            yield self._batch(self._buffers.value, state)
        if fault:
            # if the file breaks off, the number of lost events of each location is unknown
            expected = int(file.n_rows[location] + file.n_lost[location])
            lost = -1 if file.fault else expected - int(state[decode.BASE])
            report.lost.append(Loss(location, lost, fault.splitlines()[0]))

    def _batches(
        self, location: int, file: EventFile, clock: decode.Clock, ids: decode.Identifiers, state: NDArray[np.int64]
    ) -> Iterator[Batch]:
        """Decode the records of a location and yield full buffers; the remaining events stay in the buffers."""
        here, buffers = self._sorted[self._file_of[location]].of(location), self._buffers.value
        ticks = clock._replace(start=self._start, resolution=float(self.clock.resolution))
        meanings = decode.Meanings(file.table, ids, self._communicators, self._regions, ticks, self._n_counters)
        while True:
            why = decode.decode_records(file.bytes, here, state, meanings, buffers)
            if why == decode.END:
                return
            if why != decode.BUFFERS_FULL:
                at = int(here.offsets[state[decode.RECORD]])
                raise file.container.error(at, explain(why, int(state[decode.WHAT]), self._number(why, state)))
            if state[decode.DEPTH] >= buffers.stack.size:
                buffers = self._buffers.value = buffers._replace(stack=np.concatenate([buffers.stack, buffers.stack]))
            elif not state[decode.EVENTS]:
                # one record has more attributes than there is room for
                buffers = self._buffers.value = buffers._replace(attributes=doubled(buffers.attributes))
            else:
                yield self._batch(buffers, state)

    def _number(self, why: int, state: NDArray[np.int64]) -> int:
        """Return the identifier that an error refers to."""
        which = int(state[decode.WHICH])
        return int(self.definitions["locations"]["id"][which]) if why == decode.NO_MEMBER else which

    def _batch(self, buffers: decode.Buffers, state: NDArray[np.int64]) -> Batch:
        """Turn filled buffers into columns, and empty them."""
        n, n_sides, n_sites, n_attributes, n_ties = (
            int(state[i]) for i in (decode.EVENTS, decode.SIDES, decode.SITES, decode.ATTRIBUTES, decode.TIES)
        )
        decoded = first(buffers.sides, n_sides)
        batch = Batch(first(buffers.events, n)._asdict(), sides.side_tables(SIDE_COLUMNS, decoded))
        batch.sides |= sides.only_metrics(decoded, buffers.extra, self.metric_types)
        if n_sites:
            of, site = first(buffers.sites, n_sites)
            batch.sides["enter_sites"] = {"row": of, "call_site": site.astype(np.int32)}
        if n_attributes:
            of, name, record, value = first(buffers.attributes, n_attributes)
            types = np.where(record == decode.ATTRIBUTE_UI1, 1, 3).astype(np.uint8)
            rows = name - 1
            batch.sides["attributes"] = {"row": of, "attribute": rows.astype(np.int32), "type": types, "value": value}
        if n_ties:
            of, place = first(buffers.ties, n_ties)
            batch.sides["ties"] = {"row": of, "place": place}
        state[decode.BASE] += n
        state[[decode.EVENTS, decode.SIDES, decode.EXTRAS, decode.SITES, decode.ATTRIBUTES, decode.TIES]] = 0
        return batch
