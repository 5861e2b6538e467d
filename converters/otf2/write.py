"""Write a source as an OTF2 archive: whole locations in parallel, bounded memory, complete or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Batch, Report, Source
from tracecols.converters.buffers import Events, PerThread
from tracecols.converters.otf2 import encode, tables
from tracecols.converters.otf2.files import HEADER, LITTLE, MAX_CHUNK
from tracecols.converters.otf2.records import EVENT_RECORDS
from tracecols.converters.otf2.write_definitions import GlobalDefinitions, framed
from tracecols.errors import TracecolsError
from tracecols.given.files import check_path
from tracecols.kernels.arrays import types_of
from tracecols.schema import KINDS, NAMES, EventKind, enums
from tracecols.store.outputs import check_place
from tracecols.vectors import offsets_of
from tracecols.version import __version__
from tracecols.work.executors import Report as Done
from tracecols.work.executors import Threads
from tracecols.work.jobs import n_jobs
from tracecols.work.progress import Progress
from tracecols.work.scratch import ScratchFolder

DEFINITION_CHUNK = 1 << 22
LIBRARY = (3, 1, 0)
"""The version of the format's library whose records are written."""

_END = b"\x02\x01"
_MADE = "made.json"
_FAMILIES = {name: i for i, name in enumerate(tables.SIDE_COLUMNS)}
_RECORD = {r.code: r for r in EVENT_RECORDS}
_VALUE_TYPES = {"uint64": "uint64", "int64": "int64", "float64": "double"}

WITHOUT_RECORD = {
    "enter_sites": "calls with a call site: those of a region from several places are one call path there",
    "ties": "events whose order among those of the same time at other locations is recorded",
}
"""By side table for which OTF2 has no record: what is lost."""


class WriteError(TracecolsError):
    """An archive cannot be written."""


def _layout() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return for every kind the side table that holds its fields, and for every field its column (from 1)."""
    family = np.full(256, encode.NO_FAMILY, np.uint8)
    column = np.zeros((256, 6), np.int64)
    for kind in KINDS:
        if kind.family in _FAMILIES and kind in _RECORD:
            family[kind] = _FAMILIES[kind.family]
            names = [name for name, _ in tables.SIDE_COLUMNS[kind.family][2]]
            for f, field in enumerate(_RECORD[kind].fields):
                column[kind, f] = 1 + names.index(field.name)
    family[EventKind.METRIC] = encode.METRIC_FAMILY
    return family, column


_FAMILY, COLUMN = _layout()
LAYOUT = encode.Layout(*tables.EVENTS[:3], _FAMILY)


class Buffers:
    """Buffers that one thread reuses from location to location: a chunk, and the side tables of a batch as integers."""

    def __init__(self, event_chunk: int) -> None:
        self.chunk = np.zeros(event_chunk + encode.PADDING, np.uint8)
        self.values = np.empty(1 << 16, np.int64)
        self.n_values = 0

    def put(self, *columns: NDArray[Any]) -> int:
        """Append columns of equal length; return the start of the first."""
        start, n = self.n_values, columns[0].size
        need = start + len(columns) * n
        if need > self.values.size:
            grown = np.empty(2 * need, np.int64)
            grown[:start] = self.values[:start]
            self.values = grown
        for i, column in enumerate(columns):
            # unsigned and floating-point values are stored as bits
            bits = column.view(np.int64) if column.dtype.kind in "fu" and column.itemsize == 8 else column
            self.values[start + i * n : start + (i + 1) * n] = bits
        self.n_values = need
        return start


T = TypeVar("T", bound=NamedTuple)


def _fixed(group: type[T], table: Mapping[str, NDArray[Any]]) -> T:
    """Return columns of a table, empty ones for those that it lacks, in the form the kernel is compiled for: contiguous
    and read-only."""

    def column(name: str, dtype: np.dtype[Any]) -> Any:
        found = np.ascontiguousarray(table.get(name, np.zeros(0, dtype)), dtype).view()
        found.flags.writeable = False
        return found

    return group(*(column(name, dtype) for name, dtype in zip(group._fields, types_of(group), strict=True)))


class EventFile:
    """Write the event file of one location chunk by chunk.

    Parameters
    ----------
    event_chunk : int
        Bytes per chunk.
    type_start, type_code : (n_classes + 1,) int64, (any,) uint8
        Types of the values of metric classes.

    Attributes
    ----------
    n_events : int
        Events written.
    left_out : (256,) int64
        Number of events that OTF2 has no record for, by kind.
    shift : int
        Ticks to add to the times in the file, since times below zero cannot be written.
    """

    def __init__(
        self,
        file: BinaryIO,
        buffers: Buffers,
        event_chunk: int,
        type_start: NDArray[np.int64],
        type_code: NDArray[np.uint8],
        what: str,
    ) -> None:
        self._file, self._buffers, self._size, self._what = file, buffers, event_chunk, what
        self._type_start, self._type_code = type_start, type_code
        self._state = np.zeros(encode.N_STATE, np.int64)
        self._state[encode.POSITION] = HEADER
        self._state[encode.TIME] = encode.NO_TIME
        self._state[encode.LARGEST_REGION] = -1
        self._is_first = True
        self.n_events = 0
        self.left_out = np.zeros(256, np.int64)

    @property
    def shift(self) -> int:
        """Ticks to add to the times in the file."""
        return int(self._state[encode.SHIFT])

    @property
    def largest_region(self) -> int:
        """Largest row of a region that was entered or left; -1 none."""
        return int(self._state[encode.LARGEST_REGION])

    def add(self, batch: Batch) -> None:
        """Write the events of a batch."""
        state, buffers = self._state, self._buffers
        n = batch.events["time"].size
        if not n:
            return
        events = _fixed(Events, batch.events)
        if self._is_first:
            state[encode.SHIFT] = min(int(events.time.min()), 0)
            self._is_first = False
        # the buffer may grow with each table
        side_tables, metrics = self._side_tables(batch), self._metrics(batch)
        given = encode.Given(
            events,
            side_tables._replace(values=buffers.values),
            _fixed(encode.Attributes, batch.sides.get("attributes", {})),
            metrics,
            _fixed(encode.Arguments, batch.sides.get("program_arguments", {})),
        )
        state[[encode.EVENT, encode.ATTRIBUTE, encode.METRIC, encode.ARGUMENT]] = 0
        limit = self._size - encode.TAIL
        while True:
            ends = encode.encode_events(buffers.chunk, limit, state, LAYOUT, given, self.left_out)
            if ends == encode.DONE:
                break
            if ends != encode.CHUNK_FULL:
                raise self._error(ends, batch)
            self._flush(b"\0")
        state[encode.BASE] += n

    def _side_tables(self, batch: Batch) -> encode.SideTables:
        """Copy the side tables of a batch into the buffer, and return their positions."""
        buffers = self._buffers
        buffers.n_values = 0
        row_at, counts = np.zeros(len(_FAMILIES), np.int64), np.zeros(len(_FAMILIES) + 1, np.int64)
        for name, (_, _, columns) in tables.SIDE_COLUMNS.items():
            table = batch.sides.get(name)
            if table is not None:
                row_at[_FAMILIES[name]] = buffers.put(table["row"], *(table[c] for c, _ in columns))
                counts[_FAMILIES[name]] = table["row"].size
        column = COLUMN * counts[np.minimum(LAYOUT.family, len(_FAMILIES))][:, None]
        return encode.SideTables(buffers.values, column, row_at, row_at + counts[:-1])

    def _metrics(self, batch: Batch) -> encode.Metrics:
        """Copy METRIC values into the buffer, and return where they are."""
        parts = []
        for name, table in batch.sides.items():
            prefix, _, number = name.partition("_")
            if prefix == "metrics" and number:
                row = table["row"]
                first = self._buffers.put(row, *(c for n, c in table.items() if n not in ("row", "source"))) + row.size
                stride, of = (np.full(row.size, n) for n in (row.size, int(number)))
                parts.append(np.stack([row, table["source"], first + np.arange(row.size), stride, of]))
        found = np.concatenate([np.zeros((5, 0), np.int64), *parts], axis=1)
        if len(parts) > 1:
            # indexing yields a column-major array, for which the kernel would be compiled again
            found = np.ascontiguousarray(found[:, np.argsort(found[0], kind="stable")])
        row, source, at, stride, of = found
        return encode.Metrics(row, source, at, stride, of, self._type_start, self._type_code)

    def _error(self, ends: int, batch: Batch) -> WriteError:
        """Make the error for the status with which the kernel stopped."""
        at = int(self._state[encode.EVENT])
        kind = int(batch.events["kind"][at])
        what = {
            encode.TOO_LONG: f"does not fit into a chunk of {self._size} bytes",
            encode.BAD_TIME: f"has the time {int(batch.events['time'][at])}, earlier than OTF2 can tell",
            encode.NO_REGION: "names no region",
            encode.NO_VALUES: "lacks its attributes",
            encode.BAD_TYPE: "has an additional attribute of a type that is not known",
        }.get(ends, "")
        if ends == encode.TOO_LARGE:
            field = _RECORD[kind].fields[int(self._state[encode.FIELD])].name
            what = f"has a value of {field} that does not fit into its record"
        number = int(self._state[encode.BASE]) + at
        return WriteError(
            f"{self._what}: event {number} ({NAMES.get(kind, kind)}) {what}\n  it cannot be written as OTF2"
        )

    def _flush(self, end: bytes) -> None:
        """Write the chunk, padded to its full size unless it is the last."""
        state, chunk = self._state, self._buffers.chunk
        at, n = int(state[encode.POSITION]), int(state[encode.CHUNK_EVENTS])
        is_last = end == _END
        chunk[:HEADER] = np.frombuffer(chunk_header(self.n_events + 1, self.n_events + n), np.uint8)
        chunk[at : at + len(end)] = np.frombuffer(end, np.uint8)
        at += len(end)
        if not is_last:
            chunk[at : self._size] = 0
            at = self._size
        view = chunk.data[:at]
        while view:
            view = view[self._file.write(view) :]
        self.n_events += n
        state[encode.POSITION] = HEADER
        state[encode.TIME] = encode.NO_TIME
        state[encode.CHUNK_EVENTS] = 0

    def finish(self) -> None:
        """Write the last chunk."""
        self._flush(_END)


def chunk_header(first: int, last: int) -> bytes:
    """Return the header of a chunk with the numbers of its first and last event."""
    return struct.pack("<BBQQ", 3, LITTLE, first, last)


def definition_file(records: list[bytes], chunk: int) -> bytes:
    """Return a definition file: chunks of whole records."""
    head = chunk_header(0, 0)
    chunks: list[bytes] = []
    body: list[bytes] = []
    n = len(head)
    for record in records:
        if n + len(record) + len(_END) > chunk:
            chunks.append((head + b"".join(body)).ljust(chunk, b"\0"))
            body, n = [], len(head)
        body.append(record)
        n += len(record)
    return b"".join([*chunks, head, *body, _END])


def _text(value: Any) -> bytes:
    return str(value).encode("utf-8", "surrogateescape").replace(b"\0", b"") + b"\0"


def property_name(name: str) -> str:
    """Return the name of a property of the archive, with the namespace that the format's library requires."""
    if re.fullmatch(r"[A-Za-z0-9_]+(::[A-Za-z0-9_]+)+", name):
        return name
    return "TRACECOLS::" + re.sub(r"[^A-Z0-9_]+", "_", name.upper())


def anchor_file(
    properties: dict[str, Any],
    event_chunk: int,
    definition_chunk: int,
    n_locations: int,
    n_definitions: int,
    seed: bytes,
) -> bytes:
    """Return the anchor file; the identifier of the trace is a hash of `seed`."""
    given = properties if properties.get("creator") else properties | {"creator": f"tracecols {__version__}"}
    named = {k: v for k, v in properties.items() if k not in ("machine", "creator", "description")}
    return b"".join(
        [
            bytes([3, LITTLE]) + b"OTF2\0" + bytes([3, 2, *LIBRARY]),
            struct.pack("<QQBBQQ", event_chunk, definition_chunk, 1, 1, n_locations, n_definitions),
            *(_text(given.get(k, "")) for k in ("machine", "creator", "description")),
            struct.pack("<I", len(named)),
            *(_text(property_name(k)) + _text(v) for k, v in named.items()),
            hashlib.blake2b(seed, digest_size=8).digest(),
            struct.pack("<II", 0, 0),
            b"\x02",
        ]
    )


def archive_files(path: Path) -> tuple[Path, Path, Path]:
    """Return the three paths of an archive: the folder, the global definitions and the anchor file."""
    return path.with_suffix(""), path.with_suffix(".def"), path


@contextmanager
def new_archive(path: Path) -> Iterator[Path]:
    """Build an archive in a folder beside its destination, and move it there if the block succeeds; else leave nothing.

    `path` is the anchor file; neither it nor the global definitions nor the folder may exist. Yields the anchor file to
    write.
    """
    if path.suffix != ".otf2" or not path.stem:
        raise WriteError(f"{path} is not a name for an archive\n  give one that ends in .otf2")
    targets = archive_files(path)
    check_path(path, WriteError)
    check_place(path, WriteError)

    def rescue(left: Path) -> None:
        """Take back the files of an incomplete archive that a killed process had already moved."""
        try:
            made = json.loads((left / _MADE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        for new, target, which in zip(archive_files(left / path.name), targets, made, strict=True):
            with suppress(OSError):
                if (left / path.name).exists() and target.lstat().st_ino == which:
                    os.rename(target, new)

    moved: list[tuple[Path, Path]] = []
    is_complete = False
    try:
        scratch = ScratchFolder(path.parent, f".{path.name}.", ".partial", rescue)
    except OSError as error:
        raise WriteError(
            f"cannot write {path}: {error.strerror or error}\n  choose a folder you may write to"
        ) from error
    with scratch as building:
        for target in targets:
            if target.exists() or target.is_symlink():
                raise WriteError(
                    f"{target} exists\n  an archive is never written over anything: give another name, or remove it"
                )
        try:
            yield building / path.name
            made = archive_files(building / path.name)
            (building / _MADE).write_text(json.dumps([new.stat().st_ino for new in made]), encoding="utf-8")
            # the anchor comes last: an archive that has one is complete
            for new, target in zip(made, targets, strict=True):
                if target.exists():
                    raise WriteError(f"{target} was made by somebody else meanwhile\n  give another name")
                moved.append((new, target))
                os.rename(new, target)
            is_complete = True
        except OSError as error:
            if error.filename is not None and Path(error.filename).parent not in (
                path.parent,
                building,
                building / path.stem,
            ):
                raise
            raise WriteError(
                f"cannot write {path}: {error.strerror or error}\n"
                "  nothing was left behind; make room or choose another folder"
            ) from error
        finally:
            for new, target in moved:
                if not is_complete and not new.exists():
                    os.rename(target, new)


def local_definitions(readings: Iterable[tuple[int, int]]) -> bytes:
    """Return the definition file of a location: ticks of its clock, and the offset of the clock at each."""
    records = [framed(6, struct.pack("<Q", at) + b"\x08" + struct.pack("<qd", by, 0.0)) for at, by in readings]
    return definition_file(records, DEFINITION_CHUNK)


def write_archive(
    source: Source,
    path: str | Path,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    event_chunk: int = 1 << 20,
    report: Report | None = None,
) -> Path:
    """Write a source as an OTF2 archive.

    Rows of definition tables become identifiers. Everything that OTF2 has no record for is left out: event kinds with
    numbers above 92 and unknown ones, call sites, the order of events of the same time, definitions without a table of
    their own, and the paradigm NCCL of regions and communicators.

    `path` is the anchor file, `NAME.otf2`, which is returned. The global definitions `NAME.def` and the folder `NAME`
    are written beside it; none of the three may exist. `event_chunk` is in bytes; the format's library requires 256 KiB
    to 16 MiB. `report` receives in `unknown` the numbers of items left out, by name, in addition to what the source
    reports. Raises WriteError if the archive exists, cannot be written, or the source holds a value that OTF2 cannot
    express.
    """
    path = Path(path)
    report = Report() if report is None else report
    if not HEADER + encode.TAIL < event_chunk <= MAX_CHUNK:
        raise WriteError(f"chunks of {event_chunk} bytes are impossible\n  choose 1 MiB")
    with new_archive(path) as anchor:
        (folder, definitions, _) = archive_files(anchor)
        folder.mkdir()
        n_events, largest_region = _write_locations(source, folder, n_jobs(jobs), progress, event_chunk, report)
        made = GlobalDefinitions(source.definitions, source.clock, n_events, largest_region)
        chunk = DEFINITION_CHUNK
        while chunk < max(map(len, made.records)) + HEADER + len(_END):
            chunk *= 2
        data = definition_file(made.records, chunk)
        definitions.write_bytes(data)
        anchor.write_bytes(anchor_file(source.properties, event_chunk, chunk, len(n_events), len(made.records), data))
        report.unknown.update(made.left_out)
    return path


def _write_locations(
    source: Source, folder: Path, jobs: int, progress: Progress | None, event_chunk: int, report: Report
) -> tuple[list[int], int]:
    """Write the files of all locations; return their numbers of events and the largest region they enter."""
    locations = source.definitions["locations"]
    expected = locations["n_events"]
    total, n_done = sum(expected), 0
    codes = [[enums.VALUE_TYPES.index(_VALUE_TYPES[t]) for t in types] for types in source.metric_types]
    type_start = offsets_of([len(of) for of in codes])
    type_code = np.array([c for of in codes for c in of], np.uint8)
    buffers = PerThread(lambda: Buffers(event_chunk))

    def done(n: int) -> None:
        nonlocal n_done
        n_done += n
        if progress is not None:
            progress(n_done, total)

    def write(location: int, done: Done) -> tuple[EventFile, Report]:
        found = Report()
        with (folder / f"{location}.evt").open("wb", buffering=0) as file:
            what = f"location {locations['id'][location]} ({locations['name'][location]})"
            writer = EventFile(file, buffers.value, event_chunk, type_start, type_code, what)
            for batch in source.read(location, found):
                writer.add(batch)
                for name, lost in WITHOUT_RECORD.items():
                    if name in batch.sides:
                        found.unknown[lost] += batch.sides[name]["row"].size
                done(batch.events["time"].size)
            writer.finish()
        # an offset that makes times negative
        readings = [(at, writer.shift) for at in (0, 1) if writer.shift]
        (folder / f"{location}.def").write_bytes(local_definitions(readings))
        return writer, found

    # the largest first
    order = sorted(range(len(expected)), key=lambda i: -expected[i])
    n_events, largest_region, left_out = [0] * len(order), -1, np.zeros(256, np.int64)
    for location, (writer, found) in zip(order, Threads(jobs).map(write, order, done), strict=True):
        n_events[location], largest_region = writer.n_events, max(largest_region, writer.largest_region)
        left_out += writer.left_out
        report.lost += found.lost
        report.unknown.update(found.unknown)
    for kind in np.flatnonzero(left_out).tolist():
        report.unknown[f"events of kind {NAMES.get(kind, kind)}"] = int(left_out[kind])
    return n_events, largest_region
