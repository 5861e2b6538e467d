"""Answers to the questions of the page: the content of a time range, the causes of waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.definitions.regions import Regions
from tracecols.errors import AnalysisError, TracecolsError
from tracecols.given.printable import printable
from tracecols.given.subdomains import Given, find_subdomains
from tracecols.patterns.registry import properties
from tracecols.schema.causes import POINTS
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.schema.severity import DEFAULT
from tracecols.severity.axes import PropertyAxis, SystemAxis
from tracecols.severity.resolve import find_property
from tracecols.severity.subdomains import grouped
from tracecols.slices.source import time_range_ticks
from tracecols.store import Store
from tracecols.timeline.causes import Causes
from tracecols.timeline.collected import COLLECTIVES, COPIES, KINDS, LAUNCHES, LOCATIONS, MESSAGES, PAIRS, PATH, WAITS
from tracecols.timeline.counters import COUNTERS, Counters
from tracecols.timeline.intervals import Intervals
from tracecols.timeline.marks import Marks
from tracecols.timeline.overview import Overview, narrow
from tracecols.timeline.prepare import Prepared
from tracecols.timeline.rows import as_json, rows_of
from tracecols.timeline.slices import MOST_EVENTS, MOST_SLICES, SliceReader

DENSE = 8
"""Events per column of a row above which the overview is drawn instead of slices, if its bins are fine enough."""

MOST_COLUMNS, MOST_ROWS = 8192, 512
"""Maximum numbers of columns and rows of a question."""

MOST_INTERVALS = {WAITS: 20_000, MESSAGES: 10_000, COLLECTIVES: 10_000, LAUNCHES: 5_000, COPIES: 5_000, PATH: 10_000}
"""Maximum number of rows of an answer; if there are more, the answer has only their number."""


class QuestionError(TracecolsError):
    """A question with invalid arguments."""


@dataclass
class Answer:
    """An answer: plain values and arrays."""

    says: dict[str, Any]
    """Values that JSON can hold."""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the answer as bytes: the length of a head (4 bytes, little-endian), the head as JSON, then the arrays,
        each at a multiple of 8 bytes from the end of the head; `arrays` of the head has name, type, shape, offset."""
        at, listed, parts = 0, [], []
        for name, values in self.arrays.items():
            # browsers have no 64-bit integers; float64 is exact up to 2**53 ticks
            compact = np.ascontiguousarray(values if values.dtype.itemsize < 8 else values.astype("<f8"))
            listed.append({"name": name, "type": compact.dtype.str[1:], "shape": compact.shape, "at": at})
            octets = compact.tobytes()
            parts.append(octets + bytes(-len(octets) % 8))
            at += len(parts[-1])
        head = json.dumps({**self.says, "arrays": listed}, separators=(",", ":")).encode()
        head += b" " * (-(len(head) + 4) % 8)
        return b"".join([len(head).to_bytes(4, "little"), head, *parts])


def rounding(ticks: int) -> int:
    """Return by how many ticks at most a time that the page sends back may differ from the exact one; 0 below 2**51.

    The page has times as 64-bit floats, and writes no more digits than tell these apart.
    """
    return abs(ticks) >> 51


def until(stop: int, end: int) -> int:
    """Return the end of a time range that the page asks for: `end`, the last possible one, if it is later by rounding
    only."""
    return end if end < stop <= end + rounding(end) else stop


class Timeline:
    """Answers questions about a trace; thread-safe. `prepared` is the result of `prepare` for the store.

    Times in questions and answers are ticks since the first event. Subdomains of the application, if given
    (`given.subdomains.find_subdomains`), replace machines and nodes as parents of rows. Raises AnalysisError if they
    are invalid, or do not match the ranks and threads of the trace.
    """

    def __init__(self, store: Store, prepared: Prepared, subdomains: Given | None = None) -> None:
        self.store, self.prepared, content = store, prepared, prepared.content
        self.subdomains = subdomains
        manifest = store.manifest
        self.first, self.last = int(manifest["first_time"]), int(manifest["last_time"])
        self.overview = Overview(prepared.folder, content["overview"])
        self.tables = {kind: Intervals(prepared.folder / f"{kind}.arrow") for kind in KINDS}
        axis = SystemAxis.of(store)
        if subdomains is not None:
            axis = grouped(axis, find_subdomains(axis.rank, axis.thread, subdomains, AnalysisError, "this trace"))
        self.rows = rows_of(axis)
        regions = Regions(store)
        self.region_names = [printable(name) for name in regions.name]
        self._paradigm = list(regions.paradigm)
        self.slices = SliceReader(store, Marks(prepared.folder / "marks.arrow"), len(regions.name) + 1, regions.tasks)
        paths = np.load(prepared.folder / "call-paths.npy")
        self._parent, self._region = paths[0], paths[1]
        self.counters = Counters(store, prepared.folder / COUNTERS)
        self.causes = Causes(self.tables[WAITS], self.tables[PAIRS], self.slices, self._region)

    def seconds(self, ticks: int) -> float | None:
        """Return a time as seconds since the start of the recording; None at or beyond the ends of the run."""
        if ticks <= 0 or ticks > self.last - self.first:
            return None
        clock = self.store.manifest["clock"]
        return float((ticks + self.first - int(clock["origin"])) / int(clock["resolution"]))

    def path_of(self, call_path: int) -> list[int]:
        """Return the regions of a call path, from the outermost to the innermost; empty for -1."""
        found: list[int] = []
        while call_path >= 0:
            found.append(int(self._region[call_path]))
            call_path = int(self._parent[call_path])
        return found[::-1]

    # -- content -----------------------------------------------------------------------------------------------------

    def about(self) -> Answer:
        """Describe the content: rows, classes of time, properties, findings, names."""
        content, manifest = self.prepared.content, self.store.manifest
        clock = manifest["clock"]
        says = {
            "name": printable(self.store.path.stem),
            "path": printable(str(self.store.path)),
            "length": self.last - self.first,
            "resolution": int(clock["resolution"]),
            "zero": (self.first - int(clock["origin"])) / int(clock["resolution"]),
            "n_events": int(manifest["n_events"]),
            "rows": as_json(self.rows),
            "classes": content["overview"]["classes"],
            "titles": content["overview"]["titles"],
            "severities": content["overview"]["properties"],
            "waits": content["properties"],
            "n_worst": [len(found) for found in content["worst"]],
            "findings": [
                {**f, "instance": f["instance"] and self._relative(f["instance"])} for f in content["findings"]
            ],
            "notes": content["notes"],
            "is_first": self.prepared.is_first,
            "regions": self.region_names,
            "paradigms": self._paradigm,
            "points": list(POINTS),
            "operations": list(COLLECTIVE_OPS),
            "has_counters": bool(self.counters),
            "has_path": len(self.tables[PATH]) > 1,
        }
        return Answer(says, {"parent": self._parent, "region": self._region})

    def address(self, start: float | None, stop: float | None, severity: str | None) -> str:
        """Return the fragment, after the `#`, of an address of the page that shows a time range, in seconds since the
        start of the recording, and the severity of a property, given by id or title. Raises AnalysisError if nothing
        lies between the times, if there is no such property, or if it has no time in this trace."""
        said: dict[str, int | str] = {}
        low, high = time_range_ticks(self.store, start, stop)
        if low is not None or high is not None:
            # the page shows no time outside the run
            end = self.last - self.first + 1
            begin = min(max((self.first if low is None else low) - self.first, 0), end - 1)
            said["from"] = begin
            said["to"] = max(min((self.last + 1 if high is None else high) - self.first, end), begin + 1)
        if severity is not None:
            said["severity"] = self._severity(severity)
        return urlencode(said)

    def _severity(self, name: str) -> str:
        """Return the id of a property, given by id or title, that rows can show."""
        axis = PropertyAxis.of(properties(DEFAULT))
        found = find_property(
            axis, name, f"under the {DEFAULT} conventions", AnalysisError, "tracecols patterns lists all"
        )
        if found not in self.overview.properties:
            raise AnalysisError(
                f"property {found} has no time that rows could show in this trace\n"
                "  tracecols show says which properties have"
            )
        return found

    def _relative(self, wait: Mapping[str, int]) -> dict[str, int]:
        """Return a wait with times since the first event."""
        times = {name: wait[name] - self.first for name in ("begin", "end")}
        return {**wait, **times, "cause_time": wait["cause_time"] - self.first if wait["cause_location"] >= 0 else -1}

    # -- time ranges -------------------------------------------------------------------------------------------------

    def view(
        self,
        start: int,
        stop: int,
        rows: Sequence[int],
        columns: int,
        severity: str = "",
        go_on: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Return the content of some rows between two times in ticks since the first event, for a number of columns of
        pixels.

        `severity` is the id of a property whose ticks are returned as well. `go_on` is called now and then; it may
        raise an error to cancel the question. The answer has `level`; arrays `edges` (n_bins + 1), `ticks` (n_classes,
        n_rows, n_bins), `path` and `best` (n_rows, n_bins: dominant call path and its ticks, only for rows that are
        locations), `severity` (n_rows, n_bins). If events can be distinguished, `detail` is true, and there are arrays
        `slice.NAME` (`Slices`) for the rows that are locations, and `KIND.NAME` with the intervals on all locations of
        the rows; `n` holds the number of each kind, `left_out` the kinds with too many. Raises QuestionError if the
        arguments are invalid.
        """
        stop = until(stop, self.last - self.first + 1)
        self.check(start, stop, rows, columns, severity)
        first, last = start + self.first, stop + self.first
        chosen = [self.rows[i] for i in rows]
        level = self.overview.level_for(first, last, columns // 2)
        low, high = self.overview.between(level, first, last)
        says: dict[str, Any] = {"level": level, "n": {}, "left_out": []}
        arrays: dict[str, NDArray[Any]] = {"edges": self.overview.edges(level)[low : high + 1] - self.first}
        arrays["ticks"] = self._ticks(chosen, level, low, high)
        arrays["path"], arrays["best"] = self._dominant(chosen, level, low, high)
        if severity:
            every = self.overview.severity(severity, level, low, high)
            arrays["severity"] = np.array([every[r.locations].sum(axis=0) for r in chosen]).reshape(len(chosen), -1)
        go_on()
        locations = [r.location for r in chosen if r.location >= 0]
        n_events = self.slices.n_events(locations, first, last)
        is_fine = high - low >= columns // 4 and n_events > DENSE * columns * max(len(locations), 1)
        says["detail"] = bool(locations) and n_events <= MOST_EVENTS and not is_fine
        says["n_events"] = n_events
        if says["detail"]:
            shortest = (last - first) // columns if last - first > 4 * columns else 0
            slices, says["shortest"] = self.slices.read(locations, first, last, shortest, go_on)
            says["n"]["slice"] = int(slices.begin.size)
            arrays |= self._since_first("slice", slices.columns())
            self._add_intervals(arrays, says, np.concatenate([r.locations for r in chosen]), first, last)
        return Answer(says, arrays)

    def _since_first(self, kind: str, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return columns under the names `KIND.COLUMN`, times as ticks since the first event."""
        times = {name for name in columns if name in ("begin", "end") or name.endswith("_time")}
        return {f"{kind}.{name}": of - self.first if name in times else of for name, of in columns.items()}

    def check(self, start: int, stop: int, rows: Sequence[int], columns: int = 1, severity: str = "") -> None:
        """Check the arguments of a question. Raises QuestionError if times, rows, columns or property are invalid."""
        if not 0 <= start < stop <= self.last - self.first + 1:
            raise QuestionError(
                f"there is no time from {start} to {stop}: the run lasts {self.last - self.first} ticks"
            )
        if not 1 <= columns <= MOST_COLUMNS or len(rows) > MOST_ROWS:
            raise QuestionError(f"{columns} columns of {len(rows)} rows are none or too many")
        if any(not 0 <= i < len(self.rows) for i in rows):
            raise QuestionError(f"there is no such row: there are {len(self.rows)}")
        if severity and severity not in self.overview.properties:
            raise QuestionError("no property of that id has severities over time")

    def _ticks(self, chosen: Sequence[Any], level: int, low: int, high: int) -> NDArray[Any]:
        """Return ticks by class, row and bin; for rows of several locations, their sums."""
        n = len(self.overview.classes)
        found = np.empty((n, len(chosen), high - low), np.int64)
        for i, row in enumerate(chosen):
            found[:, i] = self.overview.ticks(level, row.locations, low, high).sum(axis=1)
        return narrow(found)

    def _dominant(self, chosen: Sequence[Any], level: int, low: int, high: int) -> tuple[NDArray[Any], NDArray[Any]]:
        path = np.full((len(chosen), high - low), -1, np.int32)
        best = np.zeros((len(chosen), high - low), np.int64)
        at = [i for i, row in enumerate(chosen) if row.location >= 0]
        if at:
            locations = np.array([chosen[i].location for i in at], np.int64)
            path[at], best[at] = self.overview.dominant(level, locations, low, high)
        return path, best

    def _add_intervals(
        self, arrays: dict[str, NDArray[Any]], says: dict[str, Any], locations: NDArray[np.int64], first: int, last: int
    ) -> None:
        mask = np.zeros(self.slices.n_locations, bool)
        mask[locations] = True
        room = MOST_SLICES
        for kind, most in MOST_INTERVALS.items():
            where = dict.fromkeys(LOCATIONS[kind], mask)
            n, found = self.tables[kind].overlapping(first, last, where, min(most, room))
            says["n"][kind] = n
            room -= found["begin"].size
            if found["begin"].size < n:
                says["left_out"].append(kind)
            arrays |= self._since_first(kind, found)

    def counters_of(self, start: int, stop: int, rows: Sequence[int], columns: int) -> Answer:
        """Return the points to draw for the counters of the rows that are locations, between two times: `Counters.view`
        with times since the first event. Raises QuestionError if the arguments are invalid."""
        stop = until(stop, self.last - self.first + 1)
        self.check(start, stop, rows, columns)
        locations = [self.rows[i].location for i in rows if self.rows[i].location >= 0]
        says, arrays = self.counters.view(locations, start + self.first, stop + self.first, columns)
        for name in ("counter.begin", "counter.time"):
            arrays[name] = arrays[name] - self.first
        return Answer(says, arrays)

    # -- instances and causes ----------------------------------------------------------------------------------------

    def instances(self, number: int) -> Answer:
        """Return the longest instances of a wait state, given by its number, the worst first. Raises QuestionError if
        there is no such wait state."""
        worst = self.prepared.content["worst"]
        if not 0 <= number < len(worst):
            raise QuestionError("there is no wait state of that number")
        return Answer({"instances": [self._relative(wait) for wait in worst[number]]})

    def cause(self, location: int, begin: int, end: int) -> Answer:
        """Explain the wait of a location with this begin and end; see `Causes.explain`. Raises QuestionError if there
        is no such wait."""
        if not 0 <= location < self.slices.n_locations:
            raise QuestionError("there is no such location")
        length, wait = self.last - self.first, None
        if 0 <= begin <= end <= length + rounding(length):
            wait = self.causes.find(location, begin + self.first, end + self.first, rounding(end))
        if wait is None:
            raise QuestionError("no wait of this location has these ends")
        found = self.causes.explain(wait)
        for name in ("since", "until", "waiting_since"):
            if name in found:
                found[name] -= self.first
        if "next" in found:
            found["next"] = self._relative(found["next"])
        if "slice" in found:
            found["slice"] = [t - self.first for t in found["slice"][:2]] + found["slice"][2:]
        return Answer({"wait": self._relative(wait), "cause": found})
