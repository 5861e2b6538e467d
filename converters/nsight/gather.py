"""The rows of exports of Nsight Systems as intervals of threads and streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.converters.intervals import INTERVAL, NO_STREAM, Gathered, References
from tracecols.converters.nsight import content as c
from tracecols.converters.nsight import mpi
from tracecols.converters.nsight.content import NOTHING, Content, Rows, process_of, thread_of
from tracecols.converters.nsight.regions import Regions
from tracecols.converters.nsight.tables import DAMAGED
from tracecols.errors import SourceError

CORRELATION_BITS = 40
ROOT_LEVEL, RANGE_LEVEL, MPI_LEVEL, CALL_LEVEL = range(4)
"""Nesting of intervals that begin and end together, outermost first: the program, ranges, MPI calls, CUDA calls."""

MAX_LOCATIONS = 1 << 20
"""Maximum number of threads and streams of exports: a damaged column must not exhaust memory."""


@dataclass(frozen=True)
class Stream:
    """A stream in a process. A context belongs to one device, which rows of calls do not name reliably."""

    context: int
    number: int


class Recording:
    """The contents of the reports of a run.

    Attributes
    ----------
    processes : dict of (int, int) to int
        Number of each process, by report and process in it; in the order of these numbers, which count from 0.
    threads, streams : dict
        Number of each location: by process and identifier of the thread, or stream.
    devices : dict of int to int
        Device of every stream, by the number of the location.
    n_unused : int
        Number of references of calls to streams on which nothing ran.
    regions : Regions
    intervals : Gathered
        By the number of the location; times in nanoseconds since the time 0 that the reports have in common.
    kernels : list of (n, 5) int64
        NCCL kernels, in the order of the tables: number of the location of the stream, begin, end, correlation, region.
    launches : list of (n, 3) int64
        Launches of these kernels: number of the kernel, thread, begin.
    hints : list of (n, 4) int64
        Ranges around launches that name NCCL operations: thread, begin, end, region.
    payloads : list of (int, int, bytes)
        Payloads of NCCL ranges: thread, begin, bytes.
    spans : list of (int, int)
        First and last time of each report.
    counted : Counter
        Number of rows that are kept, by table.
    mpi_calls : mpi.Calls
    thread_names : dict of int to str
        Names that programs give to threads, by the number of the location.
    """

    def __init__(self, contents: Sequence[Content], offsets: Sequence[int]) -> None:
        self.contents = contents
        self.processes: dict[tuple[int, int], int] = {}
        self.threads: dict[tuple[int, int], int] = {}
        self.streams: dict[tuple[int, Stream], int] = {}
        self.regions = Regions()
        self.intervals = Gathered()
        self.kernels, self.launches, self.hints = ([np.zeros((0, k), np.int64)] for k in (5, 3, 4))
        self.payloads: list[tuple[int, int, bytes]] = []
        self.devices: dict[int, int] = {}
        self.n_operations = self.n_unused = 0
        self.spans: list[tuple[int, int]] = []
        self.counted: Counter[str] = Counter()
        self.mpi_calls = mpi.Calls()
        self._last_call = np.full(4, NOTHING)
        self._domains: dict[tuple[int, int], str] = {}
        self.thread_names: dict[int, str] = {}
        for report, (content, offset) in enumerate(zip(contents, offsets, strict=True)):
            self._offset, self._report, self.first, self.last = offset, report, c.OPEN, c.NULL
            self._read(content)
            self.spans.append((self.first, self.last))

    @property
    def n_locations(self) -> int:
        """Number of threads and streams."""
        return len(self.threads) + len(self.streams)

    @property
    def process_of_location(self) -> dict[int, int]:
        """Process of every thread and stream, by the number of the location."""
        return {number: process for (process, _), number in (*self.threads.items(), *self.streams.items())}

    def _read(self, content: Content) -> None:
        self._read_devices(content)
        references = self._references(content)
        launched = self._launched()
        columns = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId")
        for rows in content.rows(c.RUNTIME, dict.fromkeys(columns, pa.int64())):
            self._add_calls(content, rows, references, launched)
        for rows, names, payload in content.ranges():
            self._add_ranges(content, rows, names, payload)
        for table, extra in mpi.COLUMNS.items():
            wanted = ["start", "end", "globalTid", "textId", *extra]
            for rows in content.rows(table, dict.fromkeys(wanted, pa.int64())):
                self._add_mpi(content, table, rows)
        content.leave_out()

    # -- locations ---------------------------------------------------------------------------------------------------

    def _processes(self, identifiers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the processes of global identifiers, adding new ones."""
        return _of_distinct(
            process_of(identifiers), lambda p: self.processes.setdefault((self._report, p), len(self.processes))
        )

    def _threads(self, identifiers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the location numbers of the threads of global identifiers, adding new ones."""
        found, of = np.unique(identifiers, return_inverse=True)
        process = self._processes(found)
        numbers = [
            self.threads.setdefault((p, t), self.n_locations)
            for p, t in zip(process.tolist(), thread_of(found).tolist(), strict=True)
        ]
        self._check()
        return np.array(numbers or [0])[of]

    def _streams(self, process: NDArray[np.int64], rows: Rows) -> NDArray[np.int64]:
        """Return the location numbers of the streams of device rows, adding new ones."""

        def number(place: list[int]) -> int:
            p, context, stream, device = place
            found = self.streams.setdefault((p, Stream(context, stream)), self.n_locations)
            self.devices.setdefault(found, device)
            return found

        where = np.stack([process, rows["contextId"], rows["streamId"], rows["deviceId"]])
        numbers = _of_distinct(where, number)
        self._check()
        return numbers

    def _referred(self, process: NDArray[np.int64], rows: Rows) -> NDArray[np.int64]:
        """Return the streams that rows of calls name; NOTHING if a row names none, or nothing ran on it."""
        where = np.stack([process, rows["contextId"], rows["streamId"]])
        return _of_distinct(where, lambda at: self.streams.get((at[0], Stream(*at[1:])), NOTHING))

    def _check(self) -> None:
        if self.n_locations > MAX_LOCATIONS:
            raise SourceError(
                f"{self.contents[self._report].path}: more than {MAX_LOCATIONS:,} threads and streams\n  {DAMAGED}"
            )

    def _key(self, process: NDArray[np.int64], correlation: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return process and correlation ID as one number; NOTHING if the ID is negative or too large."""
        known = (correlation >= 0) & (correlation < 1 << CORRELATION_BITS)
        return np.where(known, process << CORRELATION_BITS | correlation, NOTHING)

    # -- rows --------------------------------------------------------------------------------------------------------

    def _add(self, location: NDArray[np.int64], rows: Rows, **columns: Any) -> None:
        found = np.full(len(rows), NOTHING, INTERVAL)
        found["begin"] = rows["start"] + self._offset
        found["end"] = np.where(rows["end"] == c.OPEN, c.OPEN, rows["end"] + self._offset)
        for name, values in columns.items():
            found[name] = values
        self.intervals.add(location, found)
        if found.size:
            closed = found["end"][found["end"] != c.OPEN]
            self.first = min(self.first, int(found["begin"].min()))
            self.last = max(self.last, int(found["begin"].max()), int(closed.max(initial=c.NULL)))

    def _references(self, content: Content) -> References:
        """Find the streams and events that calls refer to: calls that wait, and calls that record events."""
        keys, streams, events = ([np.zeros(0, np.int64)] for _ in range(3))
        columns = ("contextId", "streamId", "correlationId", "globalPid", "eventId")
        for table in (c.EVENT, c.SYNC):
            for rows in content.rows(table, dict.fromkeys(columns, pa.int64())):
                self.counted[table] += len(rows)
                process = self._processes(rows["globalPid"])
                stream = self._referred(process, rows)
                is_named = (rows["streamId"] >= 0) & (rows["streamId"] != NO_STREAM)
                self.n_unused += int((is_named & (stream == NOTHING)).sum())
                keys.append(self._key(process, rows["correlationId"]))
                streams.append(stream)
                events.append(np.where(rows["eventId"] == NO_STREAM, NOTHING, rows["eventId"]))
        return References.of_calls(*(np.concatenate(parts) for parts in (keys, streams, events)))

    def _launched(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the keys (`_key`) of the NCCL kernels of this report, ascending, and the numbers of the kernels."""
        kernels = np.concatenate(self.kernels)
        of_location, report = self.process_of_location, [report for report, _ in self.processes]
        process = np.array([of_location[i] for i in kernels[:, 0].tolist()], np.int64)
        key = self._key(process, kernels[:, 3])
        mine = np.flatnonzero(np.array([report[p] == self._report for p in process.tolist()], bool) & (key >= 0))
        order = mine[np.argsort(key[mine], kind="stable")]
        return key[order], order

    def _add_calls(
        self,
        content: Content,
        rows: Rows,
        references: References,
        launched: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> None:
        """Add CUDA calls; other rows of the table are parts of calls, or stacks, and only counted."""
        others = ~np.isin(rows["eventClass"], (*c.API_CLASSES, NOTHING))
        if others.any():
            labels = content.enumeration("ENUM_NSYS_EVENT_CLASS")
            for number, n in zip(*np.unique(rows["eventClass"][others], return_counts=True), strict=True):
                content.skipped[f"{c.RUNTIME} of class {labels.get(int(number), number)}"] += int(n)
            rows = rows.at(~others)
        rows = content.valid(rows, c.RUNTIME)
        key = self._key(self._processes(rows["globalTid"]), rows["correlationId"])
        stream, event = references.of(key)
        location = self._threads(rows["globalTid"])
        keys, kernels = launched
        at = np.searchsorted(keys, key)
        found = np.flatnonzero((at < keys.size) & (key >= 0))
        found = found[keys[at[found]] == key[found]]
        self.launches.append(
            np.stack([kernels[at[found]], location[found], rows["start"][found] + self._offset], axis=1)
        )
        region = _of_distinct(rows["nameId"], lambda i: self.regions.call(content.string(i)))
        self.counted[c.RUNTIME] += len(rows)
        self._add(
            location,
            rows,
            correlation=rows["correlationId"],
            region=region,
            stream=stream,
            event=event,
            level=CALL_LEVEL,
        )

    def _add_ranges(self, content: Content, rows: Rows, names: pa.DictionaryArray, payload: pa.Array) -> None:
        """Add NVTX push/pop ranges."""
        self._name(rows, names)
        kinds = content.enumeration("ENUM_NSYS_EVENT_TYPE")
        is_range = np.isin(rows["eventType"], (c.PUSH_POP, c.IMPORTED_PUSH_POP))
        for number, n in zip(*np.unique(rows["eventType"][~is_range], return_counts=True), strict=True):
            if number not in (c.DOMAIN, c.DOMAIN_END, c.THREAD_NAME, c.CATEGORY):
                content.skipped[f"{c.NVTX} of type {kinds.get(int(number), number)}"] += int(n)
        index = names.indices.to_numpy()
        texts = names.dictionary.to_pylist()
        if not is_range.all():
            rows, index, payload = rows.at(is_range), index[is_range], payload.filter(pa.array(is_range))
        has_payload = payload.is_valid().to_numpy(zero_copy_only=False)
        if has_payload.any():
            rows = Rows({**rows.columns, "payload": np.where(has_payload, np.arange(len(rows)), NOTHING)})
        rows = Rows({**rows.columns, "index": index.astype(np.int64)})
        rows = content.valid(rows, c.NVTX, may_be_open=True)
        process, location = self._processes(rows["globalTid"]), self._threads(rows["globalTid"])
        domain = np.where(rows["domainId"] >= 0, rows["domainId"], 0)
        regions = _of_distinct(
            np.stack([process, domain, rows["index"]]),
            lambda key: self.regions.range(texts[key[2]], self._domains.get((key[0], key[1]), "")),
        )
        self.counted[c.NVTX] += len(rows)
        self._add(location, rows, region=regions, level=RANGE_LEVEL)
        hints = np.isin(regions, list(self.regions.hints))
        found = (
            location,
            rows["start"] + self._offset,
            rows["end"] + np.where(rows["end"] == c.OPEN, 0, self._offset),
            regions,
        )
        self.hints.append(np.stack([column[hints] for column in found], axis=1))
        if has_payload.any():
            blobs = payload.to_pylist()
            for i in np.flatnonzero(rows["payload"] >= 0).tolist():
                begin = int(rows["start"][i]) + self._offset
                self.payloads.append((int(location[i]), begin, blobs[int(rows["payload"][i])]))

    def _add_mpi(self, content: Content, table: str, rows: Rows) -> None:
        """Add MPI calls; a call that waits for several requests has a row for each."""
        rows = content.valid(rows, table)
        location = self._threads(rows["globalTid"])
        what = _of_distinct(rows["textId"], lambda i: mpi.what_of(content.string(i)))
        region = _of_distinct(rows["textId"], lambda i: self.regions.mpi(content.string(i)))
        begin, end = rows["start"] + self._offset, rows["end"] + self._offset
        calls, call = np.unique(np.stack([location, begin, end]), axis=1, return_inverse=True)
        call = call.reshape(-1)
        first = np.zeros(calls.shape[1], np.int64)
        first[call[::-1]] = np.arange(len(rows))[::-1]
        # the rows of a call may have been split between two batches
        is_known = (calls == self._last_call[:3, None]).all(axis=0)
        numbers = np.where(is_known, self._last_call[3], self.mpi_calls.n_operations + np.arange(calls.shape[1]))
        operation = numbers[call]
        self.mpi_calls.n_operations += calls.shape[1]
        if len(rows):
            self._last_call = np.append(calls[:, call[-1]], operation[-1])
        given = {
            "operation": operation,
            "process": self._processes(rows["globalTid"]),
            "begin": begin,
            "end": end,
            "what": what,
        }
        nothing = np.full(len(rows), NOTHING)
        self.mpi_calls.parts.append({name: given.get(name, rows.columns.get(name, nothing)) for name in mpi.FIELDS})
        self.counted[table] += len(rows)
        first = first[~is_known]
        # numbered separately from the NCCL kernels, see `Recording.operations`
        self._add(
            location[first], rows.at(first), region=region[first], operation=-2 - operation[first], level=MPI_LEVEL
        )

    def operations(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of operations of intervals: NCCL kernels come first, then MPI calls."""
        return np.where(numbers < NOTHING, self.n_operations - 2 - numbers, numbers)

    def _name(self, rows: Rows, names: pa.DictionaryArray) -> None:
        for i in np.flatnonzero(np.isin(rows["eventType"], (c.DOMAIN, c.THREAD_NAME))).tolist():
            one = rows.at(np.array([i]))
            text = names[i].as_py()
            if one["eventType"][0] == c.DOMAIN:
                self._domains[int(self._processes(one["globalTid"])[0]), int(one["domainId"][0])] = text
            else:
                self.thread_names[int(self._threads(one["globalTid"])[0])] = text

    def _read_devices(self, content: Content) -> None:
        """Add kernels, copies and graphs."""
        labels = c.COPIES | content.enumeration("ENUM_CUDA_MEMCPY_OPER")
        name = "shortName" if content.has(c.KERNEL, "shortName") else "demangledName"
        regions = self.regions
        region_of: tuple[tuple[str, str, Callable[[int], int]], ...] = (
            (c.KERNEL, name, lambda i: regions.kernel(content.string(i))),
            (c.GRAPH, "graphId", lambda i: regions.kernel(f"CUDA graph {i}")),
            (c.MEMCPY, "copyKind", lambda i: regions.copy(f"[CUDA memcpy {labels.get(i, i)}]")),
            (c.MEMSET, "value", lambda i: regions.copy("[CUDA memset]")),
        )
        for table, column, region in region_of:
            for rows in content.rows(table, {**c.DEVICE_COLUMNS, column: pa.int64(), "bytes": pa.int64()}):
                rows = content.valid(rows, table)
                self.counted[table] += len(rows)
                self._add_device_rows(rows, _of_distinct(rows[column], region))

    def _add_device_rows(self, rows: Rows, region: NDArray[np.int64]) -> None:
        location = self._streams(self._processes(rows["globalPid"]), rows)
        is_nccl = np.isin(region, list(self.regions.communicates))
        operation = np.full(len(rows), NOTHING)
        operation[is_nccl] = self.n_operations + np.arange(int(is_nccl.sum()))
        self.n_operations += int(is_nccl.sum())
        mine = rows.at(is_nccl)
        times = (mine[name] + self._offset for name in ("start", "end"))
        self.kernels.append(np.stack([location[is_nccl], *times, mine["correlationId"], region[is_nccl]], axis=1))
        self._add(
            location,
            rows,
            correlation=rows["correlationId"],
            size=rows["bytes"],
            region=region,
            operation=operation,
            level=CALL_LEVEL,
        )


def _of_distinct(values: NDArray[np.int64], number: Callable[[Any], int]) -> NDArray[np.int64]:
    """Number distinct values, (n,), or columns of values, (k, n), each once and in ascending order."""
    found, of = np.unique(values, axis=None if values.ndim == 1 else 1, return_inverse=True)
    return np.array([number(value) for value in found.T.tolist()] or [0])[of.reshape(-1)]
