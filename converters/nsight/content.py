"""The contents of an export of Nsight Systems: rows of its tables, as columns of numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tracecols.converters.nsight.tables import DAMAGED, Tables, Types, latest, open_tables
from tracecols.errors import SourceError

NOTHING = -1
"""Value of numbers that are not recorded."""

NULL = np.iinfo(np.int64).min
"""Value of times that are not recorded."""

MOST_RANKS = 1 << 31
"""Exclusive upper bound for ranks."""

LARGEST = 1 << 61
"""Exclusive upper bound for times, so that sums and differences of two do not overflow."""

OPEN = np.iinfo(np.int64).max
"""End of a range that was not closed."""

PROCESS_BITS, THREAD_BITS = 24, 24
"""Bits of process and thread in a global identifier, which holds machine, process and thread."""

RUNTIME, KERNEL, MEMCPY, MEMSET, SYNC, EVENT, GRAPH = (
    f"CUPTI_ACTIVITY_KIND_{name}"
    for name in ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "CUDA_EVENT", "GRAPH_TRACE")
)
NVTX = "NVTX_EVENTS"
MPI = ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS")

READ = (RUNTIME, KERNEL, MEMCPY, MEMSET, SYNC, EVENT, GRAPH, NVTX, *MPI, "MPI_RANKS", "MPI_COMMUNICATORS")
"""Tables with times that are read; the rows of others are only counted."""

PUSH_POP, IMPORTED_PUSH_POP, DOMAIN, DOMAIN_END, THREAD_NAME, CATEGORY = 59, 70, 75, 76, 39, 33
"""Types of rows of `NVTX_EVENTS`, and of names in them; some ranges are imported from files of NVTXT."""

API_CLASSES = (0, 1)
"""Classes of rows of the runtime table that are calls: of the runtime, of the driver."""

COPIES = {
    1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip
"""Kinds of copies, as newer exports name them in `ENUM_CUDA_MEMCPY_OPER`; up to 2021 exports have no such tables."""

_VERSIONED = re.compile(r"_v\d+$")
_INT, _TEXT = pa.int64(), pa.string()

_PYTORCH = r"(?s), (?:op_id|seq|sizes|input_op_ids) = .*"
"""Text that PyTorch appends to the name of each range; with it, every call would be a region of its own."""

DEVICE_COLUMNS: Types = dict.fromkeys(
    ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"), _INT
)


def api_name(name: str) -> str:
    """Return the name of an API function without its version suffix."""
    return _VERSIONED.sub("", name)


@dataclass
class Rows:
    """Rows of a table."""

    columns: dict[str, NDArray[np.int64]]
    """dict of str to (n,) int64: NOTHING for nulls, NULL for times that are null."""

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        return self.columns[name]

    def __len__(self) -> int:
        return next(iter(self.columns.values())).size

    def at(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Rows:
        """Return some of the rows."""
        return Rows({name: values[rows] for name, values in self.columns.items()})


def process_of(identifier: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return machine and process of global identifiers, as one number."""
    return np.where(identifier >= 0, identifier >> THREAD_BITS, NOTHING)


def thread_of(identifier: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the thread in global identifiers."""
    return identifier & ((1 << THREAD_BITS) - 1)


def process_id(process: int) -> int:
    """Return the process identifier of the operating system."""
    return process & ((1 << PROCESS_BITS) - 1)


@dataclass
class Content:
    """An opened export."""

    path: Path
    skipped: Counter[str] = field(default_factory=Counter)
    """Number of rows that are left out, by description."""

    def __post_init__(self) -> None:
        self.tables: Tables = open_tables(self.path)
        self._check()

    @cached_property
    def facts(self) -> dict[str, str]:
        """Metadata of the export, by name."""
        found: dict[str, str] = {}
        for table in ("EXPORT_META_DATA", "META_DATA_EXPORT"):
            rows = self.values(table, {"name": _TEXT, "value": _TEXT})
            found |= {name: value or "" for name, value in rows if name is not None}
        return found

    def _check(self) -> None:
        """Refuse exports whose times are not those of the recording."""
        for name, nothing in (("TIME_NORMALIZE", ("", "false", "0")), ("TIME_SHIFT", ("", "0"))):
            value = self.facts.get(f"EXPORT_PARAM_{name}", "")
            if value.lower() not in nothing:
                option = name.lower().replace("time_", "ts-")
                raise SourceError(
                    f"{self.path}: the export was made with --{option}={value}: its times cannot be related to others\n"
                    f"  export the report again without --{option}"
                )
        if not any(self.tables.columns_of(self.name(table)) for table in READ):
            raise SourceError(
                f"{self.path}: there is no table of events\n  expected one of {RUNTIME}, {KERNEL}, {NVTX}: {DAMAGED}"
            )

    def name(self, table: str) -> str:
        """Return the name of a table in this version of the export."""
        return latest(self.tables, table)

    def has(self, table: str, column: str) -> bool:
        """Return whether a table has a column."""
        return column in self.tables.columns_of(self.name(table))

    def utc(self) -> int | None:
        """Return the nanoseconds since 1970 at time 0; None if not recorded."""
        for rows in self.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": _INT, "systemClockNs": _INT}):
            if len(rows) and 0 < rows["utcEpochNs"][0] < LARGEST:
                return int(rows["utcEpochNs"][0]) - max(int(rows["systemClockNs"][0]), 0)
        return None

    def rows(self, table: str, columns: Types) -> Iterator[Rows]:
        """Yield the rows of a table as numbers."""
        for batch in self.tables.batches(self.name(table), columns):
            yield _rows(batch, columns)

    def values(self, table: str, columns: Types) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a small table as tuples; None for nulls."""
        for batch in self.tables.batches(table, columns):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    @cached_property
    def strings(self) -> dict[int, str]:
        """Texts by their number."""
        rows = self.values("StringIds", {"id": _INT, "value": _TEXT})
        return {i: text or "" for i, text in rows if i is not None}

    def string(self, number: int) -> str:
        """Return a text by its number."""
        return self.strings.get(number, f"unknown {number}" if number >= 0 else "unknown")

    def enumeration(self, table: str) -> dict[int, str]:
        """Return labels by number, as the file defines them."""
        text = "label" if "label" in self.tables.columns_of(table) else "name"
        return {i: label for i, label in self.values(table, {"id": _INT, text: _TEXT}) if i is not None and label}

    def named(self, table: str, key: str, text: str) -> dict[int, str]:
        """Return the texts in a column of a table, or those that its numbers refer to, by the numbers in another."""
        is_number = text.endswith("Id")
        rows = self.values(table, {key: _INT, text: _INT if is_number else _TEXT})
        return {k: self.string(v) if is_number else v for k, v in rows if k is not None and v is not None}

    def ranges(self) -> Iterator[tuple[Rows, pa.DictionaryArray, pa.Array]]:
        """Yield the NVTX rows: numbers, names, payloads.

        Names are literal texts, else registered ones, without the text that PyTorch appends.
        """
        columns = ("start", "end", "eventType", "textId", "domainId", "globalTid")
        for batch in self.tables.batches(
            self.name(NVTX), {**dict.fromkeys(columns, _INT), "text": _TEXT, "binaryData": pa.binary()}
        ):
            rows = _rows(batch, columns)
            text = pc.replace_substring_regex(batch.column("text"), _PYTORCH, "")
            missing = np.flatnonzero(text.is_null().to_numpy(False) & (rows["textId"] >= 0))
            encoded = pc.fill_null(text, "").dictionary_encode()
            if missing.size:
                used, of = np.unique(rows["textId"][missing], return_inverse=True)
                registered = pa.array([self.string(i) for i in used.tolist()], _TEXT)
                names = pa.concat_arrays([encoded.dictionary, pc.replace_substring_regex(registered, _PYTORCH, "")])
                index = encoded.indices.to_numpy().copy()
                index[missing] = len(encoded.dictionary) + of
                encoded = pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), names)
            yield rows, encoded, batch.column("binaryData")

    def leave_out(self) -> None:
        """Count the rows of all tables with times that are not read."""
        known = {self.name(table) for table in READ}
        for table in self.tables.names():
            columns = self.tables.columns_of(table)
            if table not in known and {"start", "timestamp", "rawTimestamp"}.intersection(columns):
                self.skipped[table] += self.tables.count(table)

    def valid(self, rows: Rows, table: str, *, may_be_open: bool = False) -> Rows:
        """Return the rows whose times are valid and in order, and count the others; if `may_be_open`, ranges without an
        end last to the end of the recording."""
        begin, end = rows["start"], rows["end"]
        # the absolute value of NULL overflows
        has_begin = (begin > -LARGEST) & (begin < LARGEST)
        good = has_begin & (end < LARGEST) & (end >= begin)
        if may_be_open:
            good |= has_begin & (end == NULL)
            rows = Rows({**rows.columns, "end": np.where(end == NULL, OPEN, end)})
        if not good.all():
            self.skipped[f"{table} without valid times"] += int((~good).sum())
            rows = rows.at(good)
        return rows


def _rows(batch: pa.RecordBatch, columns: Iterable[str]) -> Rows:
    """Return columns of numbers: NOTHING for nulls, NULL for times that are null."""
    found = {}
    for name in columns:
        nothing = NULL if name in ("start", "end") else NOTHING
        found[name] = pc.fill_null(batch.column(name), nothing).to_numpy(zero_copy_only=False)
    return Rows(found)
