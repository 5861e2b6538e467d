"""One file of a Kineto trace, recorded by one process: its threads and streams with their slices in order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import text_of
from tracecols.converters.intervals import NO_STREAM, Nested, References
from tracecols.converters.kineto import nest, scan
from tracecols.converters.kineto.files import Text, parsed, read_values
from tracecols.converters.nccl import find_operation
from tracecols.converters.temporary import scratch, temporary_file, write
from tracecols.errors import SourceError
from tracecols.kernels.arrays import doubled, empty
from tracecols.vectors import Ints

ROWS, DETAILS = 1 << 17, 1 << 14
"""Capacity of the buffers of slices, and of events with arguments."""
IN_MEMORY = 1 << 22
"""Arrays of slices up to this many bytes are held in memory."""
MOST_LOCATIONS = 1 << 20
"""Maximum number of threads and streams of a file: a damaged one must not exhaust memory."""
MOST_LEVELS = 64
"""Maximum number of locations that a stream is split into if collective operations overlap."""
MOST_RANKS = 1 << 31
"""Exclusive upper bound for ranks."""
LATEST = 1 << 62
"""Upper bound for times, in ns."""

ROW = np.dtype(
    [("begin", "i8"), ("duration", "i8"), ("name", "i4"), ("slot", "i4"), ("correlation", "i8"), ("size", "i8")]
)


STEP = re.compile(r"ProfilerStep#(\d{1,18})")
ANNOTATIONS = (scan.USER_ANNOTATION, scan.CPU_OP)
"""Categories of training steps; the second one up to 2022."""

PARAMETERS = (
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "Process Group Name",
    "Process Group Description", "Process Group Ranks", "Rank", "Seq", "Comms Id", "Src Rank", "Dst Rank", "Is P2P",
    "Input Dims", "Input type", "Global rank start", "Global rank stride",
)  # fmt: skip
"""Names of the arguments that are kept."""
SYNC = ("correlation", "device", "stream", "wait_on_stream", "wait_on_cuda_event_record_corr_id")
"""Arguments that say what a call waits for, or lets a stream wait for: the correlation ID of the call, device and
stream, and for an event the stream in which it was recorded and the correlation ID of the call that recorded it."""

WHAT_IS_WRONG = {
    scan.BAD_EVENT: "expected an event, a JSON object, found",
    scan.BAD_TIME: "ts or dur is a text, expected a number of microseconds, in the event",
    scan.TOO_LARGE: "ts or dur is too large in the event",
}


class Located(NamedTuple):
    """The slices of a location in order; each lies within an earlier one or after it."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (n,)"""
    name: NDArray[np.int32]
    """(n,): index into the names of the file."""
    correlation: NDArray[np.int64]
    size: NDArray[np.int64]
    """`correlation` and `size`: (n,), -1 none."""


@dataclass
class Detail:
    """The arguments of a slice."""

    kind: int
    """`scan.COLLECTIVE`, `scan.PARAM_COMMS` or `scan.ANNOTATION`."""
    given: dict[str, Any]
    """Those named in `PARAMETERS`."""
    location: int = -1
    row: int = -1
    """`location` and `row`: location in its recording, and slice in the location."""


@dataclass
class Place:
    """A thread or a stream."""

    is_device: bool
    pid: int
    tid: int
    """`pid` and `tid`: process and thread; device and stream."""
    level: int
    """0; for slices of a stream that overlap its collective operations 1, ..."""
    slices: Located
    is_gloo: bool = False
    """Whether it is a thread of gloo, which executes the collective operations of other threads, as streams do."""


def _new_names(n: int, n_bytes: int) -> scan.Names:
    found = empty(scan.Names, n)
    return found._replace(
        slots=np.full(4 * n, -1, np.int64), start=np.zeros(n + 1, np.int64), text=np.zeros(n_bytes, np.uint8)
    )


def _nothing_known() -> scan.Known:
    """Make tables of texts, threads and streams, which grow."""
    slots = empty(scan.Slots, 1 << 8)._replace(slots=np.full(1 << 10, -1, np.int64))
    return scan.Known(_new_names(scan.MOST_CATEGORIES, 1 << 16), _new_names(1 << 12, 1 << 18), slots)


class _Reader:
    """Reads the events of a file; slices go to a temporary file as rows, see `ROW`.

    `head`, `fault`, `details`, `syncs` and `thread_names` are those of `Recording`; `rows` are the rows of the slices
    that have details, and `n_rows` is the number of all.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.head: dict[str, Any] = {}
        self.fault = ""
        self.details: list[Detail] = []
        self.rows: list[int] = []
        self.syncs: list[tuple[int, ...]] = []
        self.thread_names: dict[tuple[int, int], str] = {}
        self.n_rows = 0
        self.known = _nothing_known()
        self.state, fields = np.zeros(scan.SCAN_STATE, np.int64), np.zeros(scan.FIELDS, np.int64)
        self._counts = np.zeros((scan.MOST_CATEGORIES, len(scan.PHASES)), np.int64)
        # the known categories have the first numbers
        for category in scan.CATEGORIES:
            fields[1:3] = 0, len(category)
            data = np.frombuffer(category.encode() + b'"', np.uint8)
            scan.number_category(data, fields, self.known.categories, self.state)
        has_events = False
        try:
            for key, value, text in read_values(path):
                if key == "traceEvents":
                    has_events = True
                    self._read_events(text, fields, file)
                else:
                    self.head[key] = value
        except SourceError as error:
            if not has_events:
                raise
            self.fault = str(error)
        if not has_events:
            raise SourceError(
                f"{path} has no traceEvents\n"
                "  expected a trace of the PyTorch profiler, as its export_chrome_trace writes it"
            )

    def _read_events(self, text: Text, fields: Ints, file: BinaryIO) -> None:
        """Read all events, and write the slices to a file."""
        state, slices, details = self.state, empty(scan.Slices, ROWS), empty(scan.Details, DETAILS)
        while True:
            state[scan.AT] = text.at
            why = scan.scan_events(text.data, text.size, fields, self.known, slices, details, self._counts, state)
            self._keep(text, slices, details, file)
            text.at = int(state[scan.AT])
            if why == scan.END:
                return
            if why in WHAT_IS_WRONG:
                raise text.wrong(WHAT_IS_WRONG[why])
            if why == scan.NAMES_FULL:
                self.known = self.known._replace(names=doubled(self.known.names))
                scan.rehash(self.known.names, int(state[scan.N_NAMES]))
            elif why == scan.SLOTS_FULL:
                if self.known.slots.pid.size >= MOST_LOCATIONS:
                    raise text.wrong(
                        f"there are more than {MOST_LOCATIONS:,} threads and streams, with that of the event"
                    )
                self.known = self.known._replace(slots=doubled(self.known.slots))
                scan.rehash_slots(self.known.slots, int(state[scan.N_SLOTS]))
            elif why == scan.INCOMPLETE and not text.more():
                raise text.cut()

    def _keep(self, text: Text, slices: scan.Slices, details: scan.Details, file: BinaryIO) -> None:
        """Store the contents of the buffers, and empty them."""
        n, n_details = int(self.state[scan.N_SLICES]), int(self.state[scan.N_DETAILS])
        for d in range(n_details):
            words = text.data[int(details.start[d]) : int(details.end[d])].tobytes()
            if details.kind[d] == scan.METADATA:
                self._name(words)
                continue
            given = parsed(words) if words else {}
            given = given if isinstance(given, dict) else {}
            if details.kind[d] == scan.SYNC:
                self.syncs.append(tuple(whole(given.get(name), NO_STREAM) for name in SYNC))
                continue
            self.details.append(Detail(int(details.kind[d]), {k: given[k] for k in PARAMETERS if k in given}))
            self.rows.append(self.n_rows + int(details.slice[d]))
        if n:
            rows = np.empty(n, ROW)
            for column in slices._fields:
                rows[column] = getattr(slices, column)[:n]
            write(file, rows.view(np.uint8).data)
        self.n_rows += n
        self.state[[scan.N_SLICES, scan.N_DETAILS]] = 0

    def _name(self, words: bytes) -> None:
        """Keep the name of a thread."""
        event = parsed(words) if b'"thread_name"' in words else {}
        given = event.get("args") if isinstance(event, dict) and event.get("name") == "thread_name" else None
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            return
        # up to 2022, threads are texts
        pid, tid = (
            int(n) if isinstance(n, str) and re.fullmatch(r"[0-9]{1,18}", n) else n
            for n in (event.get("pid"), event.get("tid"))
        )
        if isinstance(pid, int) and isinstance(tid, int):
            self.thread_names[pid, tid] = given["name"]

    def names(self) -> list[tuple[int, str]]:
        """Return category and text of the names of slices."""
        names, n = self.known.names, int(self.state[scan.N_NAMES])
        texts = (_text(names.text[start:stop].tobytes()) for start, stop in pairwise(names.start[: n + 1].tolist()))
        return list(zip(names.what[:n].tolist(), texts, strict=True))

    def left_out(self) -> Counter[tuple[str, str]]:
        """Return the number of events that are not slices of threads and streams, by category and phase."""
        categories, n = self.known.categories, int(self.state[scan.N_CATEGORIES])
        found = Counter[tuple[str, str]]()
        for k, phase in np.argwhere(self._counts).tolist():
            if scan.PHASES[phase] != "X" or not 0 < k <= scan.LAST_KEPT:
                name = categories.text[slice(*categories.start[k : k + 2])].tobytes() if k < n else b"..."
                found[_text(name), scan.PHASES[phase]] += int(self._counts[k, phase])
        return found


class Recording:
    """The recording of one process.

    Parameters
    ----------
    path : Path
        `*.json`, plain or gzip.

    Attributes
    ----------
    path : Path
    head : dict
        Values in the file other than events, by key.
    fault : str
        Why the file could not be read to its end; empty if it could.
    names : list of (int, str)
        Category and text of the names of slices.
    places : list of Place
        Threads, and then streams.
    thread_names : dict of (int, int) to str
        Names by process and thread.
    details : list of Detail
        Arguments of kernels of collective operations, and of the operators and annotations that describe them.
    syncs : list of tuple of int
        What calls wait for (`SYNC`), -1 none.
    left_out : Counter of (str, str)
        Number of events that are not slices of threads and streams, by category and phase.
    n_strange, n_negative, n_untimed : int
        Number of slices without process, thread or time; with a negative duration; without a duration.
    threads, streams : Nested
        Changes of slices so that they enclose or follow each other.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with temporary_file() as file:
            found = _Reader(path, file)
            rows = np.memmap(file, ROW, "r").view(np.ndarray) if found.n_rows else np.zeros(0, ROW)
        self.head, self.fault, self.thread_names = found.head, found.fault, found.thread_names
        self.details, self.syncs = found.details, found.syncs
        self.names, self.left_out = found.names(), found.left_out()
        counts = (scan.N_STRANGE, scan.N_NEGATIVE, scan.N_UNTIMED)
        self.n_strange, self.n_negative, self.n_untimed = (int(found.state[count]) for count in counts)
        self.threads, self.streams = Nested(), Nested()
        self.places: list[Place] = []
        base, detail_of = self.base, dict(zip(found.rows, found.details, strict=True))
        slots, n = found.known.slots, int(found.state[scan.N_SLOTS])
        slot = rows["slot"].astype(np.int32)
        by_slot = np.argsort(slot, kind="stable")
        start = np.searchsorted(slot[by_slot], np.arange(n + 1))
        for k in np.lexsort((slots.tid[:n], slots.pid[:n], slots.is_device[:n])).tolist():
            mine = by_slot[start[k] : start[k + 1]]
            if mine.size:
                place = bool(slots.is_device[k]), int(slots.pid[k]), int(slots.tid[k])
                self._put_in_order(place, rows[mine], mine, base, detail_of)
        find_gloo(self)

    def _put_in_order(
        self, place: tuple[bool, int, int], rows: NDArray[Any], numbers: Ints, base: int, detail_of: dict[int, Detail]
    ) -> None:
        """Sort and mend the slices of a thread or stream; `detail_of` has details by the numbers of rows."""
        begin, duration = rows["begin"].astype(np.int64), rows["duration"].astype(np.int64)
        if int(begin.max()) + base > LATEST or int(begin.min()) + base < -LATEST:
            raise SourceError(f"{self.path}: times with baseTimeNanoseconds {base:,} are too large\n  {DAMAGED_BASE}")
        begin += base
        end = np.minimum(begin + np.minimum(duration, LATEST), LATEST)
        order = np.lexsort((numbers, -end, begin))
        begin, end, rows, numbers = begin[order], end[order], rows[order], numbers[order]
        at = np.flatnonzero(np.isin(numbers, list(detail_of)))
        if not place[0]:
            was_begin, was_end = begin.copy(), end.copy()
            order, heap, stack = (np.empty(begin.size, np.int64) for _ in range(3))
            nest.mend_thread(begin, end, heap, np.zeros(begin.size, np.uint8), stack, order)
            self.threads += Nested.of(np.maximum(begin - was_begin, was_end - end))
            self._add(Place(*place, 0, _located(begin, end, rows, order)), numbers[order], detail_of)
            return
        is_collective = np.zeros(begin.size, np.uint8)
        is_collective[at] = [detail_of[r].kind == scan.COLLECTIVE for r in numbers[at].tolist()]
        level, was_end = np.zeros(begin.size, np.int64), end.copy()
        this = 0
        while nest.mend_stream(begin, end, is_collective, level, this, MOST_LEVELS - 1):
            this += 1
        self.streams += Nested.of(was_end - end)
        for this in range(int(level.max()) + 1):
            order = np.flatnonzero(level == this)
            self._add(Place(*place, this, _located(begin, end, rows, order)), numbers[order], detail_of)

    def _add(self, place: Place, numbers: Ints, detail_of: dict[int, Detail]) -> None:
        """Add a thread or stream, and set location and row of the arguments of its slices."""
        for row in np.flatnonzero(np.isin(numbers, list(detail_of))).tolist():
            detail = detail_of[int(numbers[row])]
            detail.location, detail.row = len(self.places), row
        self.places.append(place)

    @property
    def distributed(self) -> dict[str, Any]:
        """What the file says of the ranks of the run."""
        found = self.head.get("distributedInfo")
        return found if isinstance(found, dict) else {}

    @property
    def base(self) -> int:
        """Offset to add to all times, in ns. Raises SourceError if it is not a number."""
        given = self.head.get("baseTimeNanoseconds", 0)
        if isinstance(given, bool) or not isinstance(given, int) or abs(given) > LATEST:
            raise SourceError(
                f"{self.path}: baseTimeNanoseconds is {str(given)[:40]!r}, expected a whole number\n  {DAMAGED_BASE}"
            )
        return given

    # -- contents ------------------------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> list[tuple[int, int, int]]:
        """Number, begin and end of every `ProfilerStep`, in order of their begins."""
        numbers = {
            k: int(found[1])
            for k, (of, text) in enumerate(self.names)
            if of in ANNOTATIONS and (found := STEP.fullmatch(text))
        }
        result: list[tuple[int, int, int]] = []
        for place in self.places if numbers else ():
            if not place.is_device:
                s = place.slices
                rows = np.flatnonzero(np.isin(s.name, list(numbers))).tolist()
                result += ((numbers[int(s.name[row])], int(s.begin[row]), int(s.end[row])) for row in rows)
        return sorted(result, key=lambda step: step[1:])

    def launches(self, wanted: Ints) -> dict[int, tuple[int, int]]:
        """Find runtime calls by correlation: the location and the begin of each."""
        result: dict[int, tuple[int, int]] = {}
        for location, place in enumerate(self.places):
            if place.is_device or not wanted.size:
                continue
            s = place.slices
            for row in np.flatnonzero(np.isin(s.correlation, wanted)).tolist():
                result.setdefault(int(s.correlation[row]), (location, int(s.begin[row])))
        return result

    def references(self, number: Sequence[int]) -> References:
        """Return the streams, numbered as given for each place, and events that calls refer to, by correlation ID. An
        event has the correlation ID of the call that recorded it."""
        streams = {
            (place.pid, place.tid): number[i]
            for i, place in enumerate(self.places)
            if place.is_device and not place.is_gloo and place.level == 0
        }
        found = [(-1, -1, -1)]
        for call, device, stream, recorded_in, recorder in self.syncs:
            found.append((call, streams.get((device, stream), -1), recorder))
            found.append((recorder, streams.get((device, recorded_in), -1), recorder))
        return References.of_calls(*np.array(found, np.int64).T)


def whole(value: Any, bound: int = 1 << 48) -> int:
    """Return a value of a file if it is a whole number from 0 to below the bound, else -1."""
    return value if type(value) is int and 0 <= value < bound else -1


C10D = "c10d::"
"""Prefix of the names of torch.distributed operators."""

DAMAGED_BASE = "the trace is damaged; copy it again"


def find_gloo(recording: Recording) -> None:
    """Find the threads of gloo, and correlate their operations with the calls that request them.

    An operation belongs to the earliest unmatched call of its kind (`c10d::allreduce_`), if that begins before it.
    """
    performed: dict[str, list[tuple[int, int, int]]] = {}
    for location, place in enumerate(recording.places):
        details = [d for d in recording.details if d.location == location and d.kind == scan.COLLECTIVE]
        if place.is_device or not details:
            continue
        s = place.slices
        inside = np.append(False, np.maximum.accumulate(s.end)[:-1] > s.begin[1:])
        place.is_gloo = place.is_device = int((~inside).sum()) == len(details)
        for d in details:
            operation = find_operation(recording.names[int(s.name[d.row])][1])
            if not place.is_gloo:
                d.kind = scan.ANNOTATION
            elif operation is not None:
                performed.setdefault(operation.function, []).append((int(s.begin[d.row]), location, d.row))
    if performed:
        _correlate(recording, performed)


def _correlate(recording: Recording, performed: dict[str, list[tuple[int, int, int]]]) -> None:
    """Give calls and the operations that they request the same correlation."""
    number = max(int(place.slices.correlation.max(initial=0)) for place in recording.places)
    calls: dict[str, list[tuple[int, int, int]]] = {}
    functions = {
        k: operation.function
        for k, (of, text) in enumerate(recording.names)
        if of == scan.CPU_OP and text.startswith(C10D) and (operation := find_operation(text)) is not None
    }
    for location, place in enumerate(recording.places):
        s = place.slices
        for row in np.flatnonzero(np.isin(s.name, list(functions))).tolist() if not place.is_device else ():
            calls.setdefault(functions[int(s.name[row])], []).append((int(s.begin[row]), location, row))
    for function, operations in performed.items():
        asked = sorted(calls.get(function, ()))
        for begin, location, row in sorted(operations):
            if asked and asked[0][0] <= begin:
                _, caller, call = asked.pop(0)
                number += 1
                recording.places[caller].slices.correlation[call] = number
                recording.places[location].slices.correlation[row] = number


def _located(begin: Ints, end: Ints, rows: NDArray[Any], order: Ints) -> Located:
    """Put the columns of slices in the given order; large ones are kept in files."""
    n = order.size
    columns = {
        "begin": begin,
        "end": end,
        "name": rows["name"],
        "correlation": rows["correlation"],
        "size": rows["size"],
    }
    result = {name: scratch(n, np.int32 if name == "name" else np.int64, IN_MEMORY) for name in columns}
    for name, values in columns.items():
        result[name][:] = values[order]
    return Located(**result)


def _text(words: bytes) -> str:
    """Decode a JSON text, including its escapes."""
    if b"\\" not in words:
        return text_of(words)
    found = parsed(b'"' + words + b'"')
    return found if isinstance(found, str) else text_of(words)
