"""A timeline as Chrome's JSON: a list of events, for tools that do not read Perfetto's own format.

Processes have the number of their row and threads that of their track, from 1. Wait states are threads of their own,
counters belong to processes and carry the name of their location. Times are microseconds with three decimals.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tracecols.export.flows import DETAILS, TEXTS
from tracecols.export.timeline import Samples, Timeline, Track, TrackEvents
from tracecols.kernels.protobuf import BEGINS, ENDS, GOES_ON, NULL
from tracecols.kernels.timeline import BEGIN, END, INSTANT
from tracecols.version import __version__

PHASES = {BEGIN: '"ph":"B"', END: '"ph":"E"', INSTANT: '"ph":"i","s":"t"'}
FLOW_PHASES = {BEGINS: "s", GOES_ON: "t", ENDS: "f"}

ROWS = 1 << 17
"""Events that are formatted at once, if names are not very long."""

FRACTIONS = pa.array([f".{i:03d}" for i in range(1000)])


def joined(*texts: Any) -> Any:
    """Join columns of texts and single texts, row by row."""
    return pc.binary_join_element_wise(*texts, "")


def microseconds(time: NDArray[np.int64]) -> Any:
    """Format nanoseconds as microseconds with three decimals."""
    return joined(pc.cast(pa.array(time // 1000), pa.string()), FRACTIONS.take(pa.array(time % 1000)))


class ChromeWriter:
    """Writes the items of a timeline as JSON; the head of every file holds one of `SIGNATURES`."""

    SIGNATURES = (b'{"displayTimeUnit": "ns", "otherData": {"written_by": "tracecols ',)

    def __init__(self, file: BinaryIO, timeline: Timeline) -> None:
        self._file, self._timeline = file, timeline
        self._tracks: dict[int, Track] = {}
        self._processes: set[int] = set()
        self._comma = ""
        self._head = pa.array([f",\n{{{PHASES.get(what, '')}" for what in range(max(PHASES) + 1)])
        categories = timeline.categories
        names = [
            f',"name":{json.dumps(name)},"cat":{json.dumps(categories[c])}'
            for name, c in zip(timeline.names, timeline.category.tolist(), strict=True)
        ]
        # texts of a column have to fit into 2 GiB
        self._rows = max(min(ROWS, (1 << 30) // (max(map(len, names)) + 1024)), 1)
        # the last one is the name of ends: index -1
        self._names = pa.array([*names, ""])
        self._texts = pa.array([json.dumps(t) for t in timeline.texts], pa.string())

    def begin(self) -> None:
        """Write the head of the file, up to the list of events."""
        facts: dict[str, Any] = {"written_by": f"tracecols {__version__}"}
        if self._timeline.realtime >= 0:
            facts["nanoseconds since 1970 at time 0"] = self._timeline.realtime - self._timeline.origin_ns
        head = json.dumps({"displayTimeUnit": "ns", "otherData": facts})
        self._file.write(f'{head[:-1]}, "traceEvents": ['.encode())

    def _write(self, rows: Any) -> None:
        """Write a column of texts, one after the other."""
        _, offsets, text = rows.buffers()
        start, stop = np.frombuffer(offsets, np.int32)[[rows.offset, rows.offset + len(rows)]].tolist()
        self._file.write(memoryview(text)[start:stop])

    def _metadata(self, track: Track, what: str, key: str, value: str | int) -> None:
        event = {"ph": "M", "pid": track.process + 1, "tid": track.uuid, "name": what, "args": {key: value}}
        # the name of a process comes before all events
        self._file.write(f"{self._comma}\n{json.dumps(event)}".encode())
        self._comma = ","

    def track(self, track: Track) -> None:
        """Write the names of a process or thread."""
        self._tracks[track.uuid] = track
        if track.process >= 0 and track.process not in self._processes:
            self._processes.add(track.process)
            self._metadata(track, "process_name", "name", track.process_name)
            self._metadata(track, "process_sort_index", "sort_index", track.order)
            if track.parent:
                self._metadata(track, "process_labels", "labels", self._tracks[track.parent].name)
        if track.kind == "path" and track.process not in self._processes:
            self._processes.add(track.process)
            self._metadata(track, "process_name", "name", track.name)
            self._metadata(track, "process_sort_index", "sort_index", -1)
        if track.kind in ("location", "waits"):
            name = track.name if track.kind == "location" else f"{track.name} ({self._tracks[track.parent].name})"
            # viewers complain about empty names
            if name:
                self._metadata(track, "thread_name", "name", name)
            order = track.parent if track.kind == "waits" else track.uuid
            self._metadata(track, "thread_sort_index", "sort_index", order)

    def _position(self, track: Track) -> str:
        return f',"pid":{track.process + 1},"tid":{track.uuid},"ts":'

    def events(self, events: TrackEvents) -> None:
        """Write slices, instants and flows."""
        for i in range(0, events.time.size, self._rows):
            rows = slice(i, i + self._rows)
            at = microseconds(events.time[rows])
            instant = events.instant[rows]
            tail: Any = pa.repeat("}", instant.size)
            named = events.name[rows]
            if (instant >= 0).any():
                is_instant = pa.array(instant >= 0)
                found = instant[instant >= 0]
                named = named.copy()
                named[instant >= 0] = events.instants.name[found]
                tail = pc.replace_with_mask(tail, is_instant, self._details(events, found, at.filter(is_instant)))
            name = self._names.take(pa.array(named % len(self._names)))
            self._write(
                joined(self._head.take(pa.array(events.what[rows])), self._position(events.track), at, name, tail)
            )

    def _details(self, events: TrackEvents, instant: NDArray[np.int64], at: Any) -> Any:
        """Format the details of instants, and the flow events that belong to them."""
        details = []
        for i, name in enumerate(DETAILS):
            values = events.instants.values[instant, i]
            is_there = pa.array(values != NULL)
            if name in TEXTS:
                known = (values >= 0) & (values < len(self._texts))
                words = self._texts.take(pa.array(np.where(known, values, 0), mask=~known))
            else:
                words = pc.cast(pa.array(values), pa.string())
            details.append(pc.if_else(is_there, joined(f'"{name}":', words), None))
        # rows without details are not joined: pyarrow 26 leaves them out of the result
        some = pa.array((events.instants.values[instant] != NULL).any(axis=1))
        found = pc.binary_join_element_wise(*(texts.filter(some) for texts in details), ",", null_handling="skip")
        arguments = pc.replace_with_mask(pa.repeat("", instant.size), some, found)
        step = events.instants.step[instant]
        phase = pa.array(["", *FLOW_PHASES.values()]).take(pa.array(step))
        number = pc.cast(pa.array(events.instants.flow[instant]), pa.string())
        head = ',"bp":"e","name":"flow","cat":"mpi","id":'
        flow = joined(',\n{"ph":"', phase, '"', head, number, self._position(events.track), at, "}")
        return joined(',"args":{', arguments, "}}", pc.if_else(pa.array(step > 0), flow, ""))

    def samples(self, samples: Samples) -> None:
        """Write the values of a counter."""
        track = samples.track
        line = self._tracks[track.parent]
        unit = f" [{track.unit}]" if track.unit else ""
        name = json.dumps(f"{track.name}{unit} ({line.name})")
        head = f',\n{{"ph":"C","pid":{track.process + 1},"name":{name},"ts":'
        for i in range(0, samples.time.size, ROWS):
            at = microseconds(samples.time[i : i + ROWS])
            values = pc.cast(pa.array(samples.values[i : i + ROWS]), pa.string())
            self._write(joined(head, at, ',"args":{"value":', values, "}}"))

    def end(self) -> None:
        """Close the list."""
        self._file.write(b"\n]}\n")
