"""All records of a Paraver trace, found in one pass over its text and grouped by location in a temporary file."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.paraver import scan
from tracecols.converters.paraver.files import BLOCK, DAMAGED, Block, Header, Lines
from tracecols.converters.paraver.types import SKIPPED, TYPES, types_of
from tracecols.converters.temporary import scratch, temporary_file, write
from tracecols.distinct import distinct
from tracecols.vectors import offsets_of
from tracecols.work.executors import side_by_side
from tracecols.work.jobs import n_jobs

WORDS_AT_ONCE = 1 << 18
"""Words of a location that are yielded at once, if it has that many."""


def type_table(labels: Mapping[int, str]) -> scan.TypeTable:
    """Make the table of the given types, by their labels."""
    known = sorted(labels)
    action = [SKIPPED if (t := types_of(n, labels[n])) is None else t.action for n in known]
    first, last, of_range = zip(*((t.first, t.last, t.action) for t in TYPES), strict=True)
    return scan.TypeTable(
        slots_of(known),
        np.array(known, np.int64),
        np.array(action, np.uint8),
        np.array(first, np.int64),
        np.array(last, np.int64),
        np.array(of_range, np.uint8),
    )


def slots_of(numbers: Sequence[int]) -> NDArray[np.int64]:
    """Make a hash table of the indices of numbers, -1 in free slots, which `scan.hashed` searches."""
    size = 1 << (4 * len(numbers) + 16).bit_length()
    slots = np.full(size, -1, np.int64)
    for k, number in enumerate(numbers):
        at = ((number * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 32) & (size - 1)
        while slots[at] >= 0:
            at = (at + 1) % size
        slots[at] = k
    return slots


@dataclass
class Scanned:
    """The results of scanning one block."""

    start: NDArray[np.int64]
    """(n_locations + 1,): first word of each location in the file, and their end."""
    messages: NDArray[np.int64]
    named: NDArray[np.int64]
    strange: dict[int, int]
    earliest: NDArray[np.int64]
    latest: NDArray[np.int64]
    disordered: NDArray[np.uint8]
    n_records: int
    n_lines: int
    n_global: int
    last: int
    fault: str = ""


def empty_results(size: int, n_locations: int) -> scan.Found:
    """Make arrays for the results of scanning any text of a size."""
    return scan.Found(
        np.empty(size // 2 + 16, np.int64),
        np.empty(size // 14 + 2, np.int64),
        np.empty(size // 14 + 2, np.int32),
        np.empty((size // 28 + 2, scan.MESSAGE_FIELDS), np.int64),
        np.empty((size // 4 + 2, 2), np.int64),
        np.empty(size // 4 + 2, np.int64),
        np.full(n_locations, -1, np.int64),
        np.zeros(n_locations, np.uint8),
        np.full(n_locations, -1, np.int64),
        np.zeros(n_locations, np.int64),
        np.full((scan.CACHE, 2), -1, np.int64),
    )


@dataclass
class Messages:
    """The messages of a trace, in the order of the text; rows of `columns` are `scan.SENDER`, ..."""

    columns: NDArray[np.int64]
    """(MESSAGE_FIELDS, n)"""
    _orders: dict[tuple[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)

    def ordered(self, of: int, by: int, location: int, n_locations: int) -> NDArray[np.int64]:
        """Return the messages that a location sends or receives, in order of a time; of those that are posted at one
        time, the one that is received last is the first, since a blocking call may post the others, and of those that
        are received at one time, the one that is posted first."""
        if (of, by) not in self._orders:
            posted, received = self.columns[[scan.POSTED_AT, scan.RECEIVED_AT]]
            then = {scan.POSTED_AT: -received, scan.RECEIVED_AT: posted}.get(by, self.columns[by])
            order = np.lexsort((then, self.columns[by], self.columns[of]))
            start = np.searchsorted(self.columns[of], np.arange(n_locations + 1), sorter=order)
            self._orders[of, by] = order, start
        order, start = self._orders[of, by]
        return order[start[location] : start[location + 1]]


class Index:
    """The records of a trace.

    Attributes
    ----------
    fault : str
        Why scanning ended before the end of the text; empty if it did not.
    messages : Messages
        Messages between tasks, and those that a thread sends to itself in calls of MPI.
    launches : (n, MESSAGE_FIELDS) int64
        Messages without a size from threads to streams of their task: from calls to the kernels that they launch.
    n_within : int
        Number of other messages within a task, which are not MPI messages.
    named : list of (int, int)
        Types and values that name regions or locks; types that are not in the table, with value 0.
    strange : dict of int to int
        Number of events of unknown or skipped types, by type.
    last : int
        Latest time.
    n_records : int
    n_global : int
        Number of records of global operations (type 4), which early tracers wrote in addition to the events of the
        calls; they are skipped.
    n_disordered : int
        Number of locations whose records are not in order of time.
    """

    def __init__(self, path: Path, header: Header, types: scan.TypeTable, is_stream: NDArray[np.bool_]) -> None:
        self.path = path
        self._is_stream = is_stream
        self._types = types
        counts = [n for n, _ in header.threads]
        self._first = offsets_of(counts)
        self._task = np.repeat(np.arange(len(counts)), counts)
        self.n_locations = int(self._first[-1])
        self._local = threading.local()
        self._lock = threading.Lock()
        self._size = 0
        with temporary_file() as self._file:
            messages = self._gather(header)
            words = np.memmap(self._file, np.int64, "r").view(np.ndarray) if self._size else np.zeros(0, np.int64)
        self._words = words
        self._keep_messages(messages)

    def _gather(self, header: Header) -> list[NDArray[np.int64]]:
        """Scan all blocks, a few at a time, and combine the results; return the messages of each block."""
        self.fault, self.strange = "", Counter[int]()
        self._starts: list[NDArray[np.int64]] = []
        self.last = self.n_records = self.n_global = 0
        line, named, messages = 0, set[tuple[int, int]](), list[NDArray[np.int64]]()
        latest = np.full(self.n_locations, -1, np.int64)
        disordered = np.zeros(self.n_locations, bool)
        lines = Lines(self.path)
        jobs = n_jobs(None)
        # the next blocks are read meanwhile
        for found in side_by_side(jobs, partial(self._scan, header.size), lines.blocks(BLOCK), ahead=jobs + 1):
            self._starts.append(found.start)
            disordered |= (found.disordered > 0) | ((found.earliest >= 0) & (found.earliest < latest))
            latest = np.maximum(latest, found.latest)
            named.update(map(tuple, found.named.tolist()))
            self.strange.update(found.strange)
            messages.append(found.messages)
            self.last = max(self.last, found.last)
            self.n_records += found.n_records
            self.n_global += found.n_global
            line += found.n_lines
            if found.fault:
                self.fault = f"{self.path}: line {line + header.n_lines}: {found.fault}\n  {DAMAGED}"
                break
        if lines.cut and not self.fault:
            self.fault = f"{self.path}: line {line + header.n_lines + 1}: {lines.cut}\n  {DAMAGED}"
        self.named = sorted(named)
        self.disordered = disordered
        self.n_disordered = int(disordered.sum())
        return messages

    def _sent_in_calls(self, blocks: list[NDArray[np.int64]]) -> list[NDArray[np.bool_]]:
        """Return, for each block, which messages a thread sends to itself in calls of MPI."""
        found = [m[:, scan.SENDER] == m[:, scan.RECEIVER] for m in blocks]
        senders = [np.zeros(0, np.int64), *(m[own, scan.SENDER] for m, own in zip(blocks, found, strict=True))]
        for location in distinct(np.concatenate(senders)).tolist():
            calls = [np.zeros(0, np.int64)]
            for words in self.words(location):
                time = np.empty(words.size // 2, np.int64)
                calls.append(time[: scan.find_calls(words, time)])
            times = np.concatenate(calls)
            for m, own in zip(blocks, found, strict=True):
                mine = np.flatnonzero(own & (m[:, scan.SENDER] == location))
                own[mine] = np.isin(m[mine, scan.SENT_AT], times)
        return found

    def _keep_messages(self, blocks: list[NDArray[np.int64]]) -> None:
        """Keep the messages of MPI, column by column, and launches."""
        crosses = [
            own | (self._task[m[:, scan.SENDER]] != self._task[m[:, scan.RECEIVER]])
            for m, own in zip(blocks, self._sent_in_calls(blocks), strict=True)
        ]
        kept = [m[mask] for m, mask in zip(blocks, crosses, strict=True)]
        n = sum(m.shape[0] for m in kept)
        to_stream = (
            ~mask & (m[:, scan.SIZE] == 0) & ~self._is_stream[m[:, scan.SENDER]] & self._is_stream[m[:, scan.RECEIVER]]
            for m, mask in zip(blocks, crosses, strict=True)
        )
        launches = [m[mask] for m, mask in zip(blocks, to_stream, strict=True)]
        self.launches = np.concatenate([np.zeros((0, scan.MESSAGE_FIELDS), np.int64), *launches])
        self.n_within = sum(m.shape[0] for m in blocks) - n - self.launches.shape[0]
        columns = scratch(scan.MESSAGE_FIELDS * n, np.int64).reshape(scan.MESSAGE_FIELDS, n)
        at = 0
        for m in kept:
            columns[:, at : at + m.shape[0]] = m.T
            at += m.shape[0]
        self.messages = Messages(columns)

    def _results(self, size: int) -> scan.Found:
        """Return the arrays of this thread, large enough for any text of a size."""
        found: scan.Found | None = getattr(self._local, "found", None)
        if found is None or found.words.size < size // 2 + 16:
            found = self._local.found = empty_results(size, self.n_locations)
        found.cache[:] = found.latest[:] = found.earliest[:] = -1
        found.disordered[:] = found.n_words[:] = 0
        return found

    def _scan(self, header_size: int, block: Block) -> Scanned:
        """Scan one block and append its words to the file, location by location; the header is skipped."""
        found = self._results(block.data.size)
        state = np.zeros(scan.SCAN_STATE, np.int64)
        state[scan.AT] = min(max(header_size - block.at, 0), block.data.size)
        why = scan.scan_lines(block.data, self._first, self._types, state, found)
        n_words, n_records = int(state[scan.N_WORDS]), int(state[scan.N_RECORDS])
        start = offsets_of(found.n_words)
        grouped = np.empty(n_words, np.int64)
        scan.group_by_location(found.record, found.location[:n_records], found.words, start[:-1].copy(), grouped)
        with self._lock:
            base = self._size
            write(self._file, grouped.view(np.uint8).data)
            self._size += n_words
        strange = found.strange[: state[scan.N_STRANGE]]
        result = Scanned(
            start + base,
            found.messages[: state[scan.N_MESSAGES]].copy(),
            np.unique(found.named[: state[scan.N_NAMED]], axis=0),
            dict(zip(*(v.tolist() for v in np.unique(strange, return_counts=True)), strict=True)),
            found.earliest.copy(),
            found.latest.copy(),
            found.disordered.copy(),
            n_records,
            int(state[scan.N_LINES]),
            int(state[scan.N_GLOBAL]),
            int(state[scan.LAST]),
        )
        if why != scan.END:
            at = int(state[scan.AT])
            line = block.data[at : at + 60].tobytes().split(b"\n")[0]
            result.fault = f"byte {block.at + at}: {explain(why)}: {line.decode('ascii', 'replace')!r}"
        return result

    def words(self, location: int) -> Iterator[NDArray[np.int64]]:
        """Yield the words of a location in order of time; records are never split.

        If the records of the location are not in this order, all are sorted first and yielded at once.
        """
        runs = [slice(s[location], s[location + 1]) for s in self._starts if s[location + 1] > s[location]]
        if self.disordered[location]:
            yield self._sorted(runs)
            return
        gathered: list[NDArray[np.int64]] = []
        n = 0
        for run in runs:
            gathered.append(self._words[run])
            n += gathered[-1].size
            if n >= WORDS_AT_ONCE:
                yield np.concatenate(gathered)
                gathered, n = [], 0
        if gathered:
            yield np.concatenate(gathered)

    def _sorted(self, runs: list[slice]) -> NDArray[np.int64]:
        """Sort the records of a location by time; those of one time stay in the order of the text."""
        n = sum(run.stop - run.start for run in runs)
        words, ordered = scratch(n, np.int64), scratch(n, np.int64)
        np.concatenate([self._words[run] for run in runs], out=words)
        start, time = scratch(n // 4 + 2, np.int64), scratch(n // 4 + 2, np.int64)
        n_records = scan.find_records(words, start, time)
        start[n_records] = n
        scan.put_in_order(words, start, np.argsort(time[:n_records], kind="stable"), ordered)
        return ordered


def explain(why: int) -> str:
    """Return the message for the status with which a scan stopped."""
    return {
        scan.BAD_RECORD: "a line that is no state (1), event (2), communication (3) or comment (#)",
        scan.BAD_FIELD: "a line whose fields are not those of its record",
        scan.TOO_LARGE: "a time, size or type that is impossibly large",
        scan.NO_APPLICATION: "a record of another application than 1, the only one that the header defines",
        scan.NO_THREAD: "a record of a task or thread that the header does not define",
        scan.ANOTHER_HEADER: "the header of another trace, which has been added to this one",
        scan.BAD_TIMES: "a state that ends before it begins",
    }.get(why, f"scanning stopped ({why})")
