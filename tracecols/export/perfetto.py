"""A timeline in Perfetto's own format: a sequence of packets, written one by one.

Field numbers are those of the messages in `protos/perfetto/trace` of the Perfetto sources. Packets of events are
encoded by `tracecols.kernels.protobuf`, the few others in this module.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tracecols.export.flows import DETAILS, TEXTS
from tracecols.export.timeline import Samples, Timeline, Track, TrackEvents
from tracecols.kernels import protobuf
from tracecols.kernels.timeline import Drawn

NAMES_PER_PACKET = 1000

STATE_CLEARED = 1
"""SEQ_INCREMENTAL_STATE_CLEARED: names are defined anew from here on."""

EXPLICIT = 3
"""TrackDescriptor.ChildTracksOrdering: by sibling_order_rank."""

NOT_MERGED = 2
"""TrackDescriptor.SiblingMergeBehavior: tracks of the same name stay separate."""

BOOTTIME, REALTIME = 6, 1
"""Clocks of a ClockSnapshot; the first is the default clock of times."""

PROCESS_TRACKS = 1 << 40
"""Tracks that only name a process have greater numbers."""

Value = int | bytes | str


def varint(number: int) -> bytes:
    """Encode a number, seven bits a byte, the lowest first; a negative one as 64 bits."""
    rest, result = number & (2**64 - 1), bytearray()
    while rest >= 128:
        result.append(rest & 127 | 128)
        rest >>= 7
    result.append(rest)
    return bytes(result)


def message(*fields: tuple[int, Value]) -> bytes:
    """Encode fields, (number, value): numbers as varints, texts and messages with their lengths."""
    result = b""
    for number, value in fields:
        if isinstance(value, int):
            result += varint(number << 3 | protobuf.VARINT) + varint(value)
        else:
            data = value.encode("utf-8", "replace") if isinstance(value, str) else value
            result += varint(number << 3 | protobuf.BYTES) + varint(len(data)) + data
    return result


def packet(*fields: tuple[int, Value]) -> bytes:
    """Encode a TracePacket of the file's only sequence."""
    return message((1, message(*fields, (10, protobuf.SEQUENCE_NUMBER))))


class PerfettoWriter:
    """Writes the items of a timeline as packets; the head of every file holds `SIGNATURES`: the names of annotations,
    with their numbers."""

    SIGNATURES = tuple(message((3, message((1, i), (2, text)))) for i, text in enumerate(DETAILS, 1))

    def __init__(self, file: BinaryIO, timeline: Timeline) -> None:
        self._file, self._timeline = file, timeline
        self._is_text = np.isin(DETAILS, TEXTS)
        self._category = timeline.category + np.int32(1)
        self._out = np.empty(1 << 22, np.uint8)
        self._processes: set[int] = set()

    def begin(self) -> None:
        """Write names and clocks, which precede all tracks."""
        # fields of InternedData and their entries: names of annotations, categories, names, texts of annotations
        interned = [
            (field, message((1, i), (2, text.encode("utf-8", "replace"))))
            for field, texts in (
                (3, DETAILS),
                (1, self._timeline.categories),
                (2, self._timeline.names),
                (29, self._timeline.texts),
            )
            for i, text in enumerate(texts, 1)
        ]
        # first_packet_on_sequence, previous_packet_dropped
        first: list[tuple[int, Value]] = [(87, 1), (42, 1)]
        flags = STATE_CLEARED | protobuf.NEEDS_STATE
        for i in range(0, len(interned), NAMES_PER_PACKET):
            some = interned[i : i + NAMES_PER_PACKET]
            self._file.write(packet((13, flags), (12, message(*some)), *first))
            first, flags = [], protobuf.NEEDS_STATE
        if self._timeline.realtime >= 0:
            clocks = ((BOOTTIME, self._timeline.origin_ns), (REALTIME, self._timeline.realtime))
            snapshot = message(*((1, message((1, clock), (2, time))) for clock, time in clocks))
            self._file.write(packet((8, self._timeline.origin_ns), (6, snapshot)))

    def track(self, track: Track) -> None:
        """Write a TrackDescriptor; processes and threads are declared as such, so that they can be queried."""
        if track.kind == "process":
            self._processes.add(track.pid)
        elif track.kind == "location" and track.pid not in self._processes:
            # the location shares its line with its process, which is named by a separate track without events
            self._processes.add(track.pid)
            name = track.process_name or track.name
            process = message((1, PROCESS_TRACKS + track.pid), (2, name), (3, message((1, track.pid), (6, name))))
            self._file.write(packet((60, process)))
        fields: list[tuple[int, Value]] = [(1, track.uuid), (2, track.name), (11, EXPLICIT), (12, track.order)]
        if track.parent:
            fields.append((5, track.parent))
        # nodes and threads of the same name stay separate; lanes of the same wait states are shown as one
        if track.kind != "waits":
            fields.append((15, NOT_MERGED))
        if track.kind == "process":
            fields.append((3, message((1, track.pid), (3, track.order), (6, track.process_name))))
        if track.kind == "location":
            fields.append((4, message((1, track.pid), (2, track.tid), (3, track.order), (5, track.thread_name))))
        if track.kind == "counter":
            fields.append((8, message((6, track.unit)) if track.unit else b""))
        self._file.write(packet((60, message(*fields))))

    def events(self, events: TrackEvents) -> None:
        """Write slices and instants."""
        drawn = Drawn(events.time, events.what, events.name, events.instant)
        of = events.instants
        instants = protobuf.Instants(of.name, of.flow, of.step, of.values, self._is_text)
        at = 0
        while at < events.time.size:
            at, n = protobuf.encode_events(drawn, instants, at, events.track.uuid, self._category, self._out)
            self._file.write(self._out[:n].data)

    def samples(self, samples: Samples) -> None:
        """Write the values of a counter."""
        is_double = samples.values.dtype.kind == "f"
        values: NDArray[np.int64] = samples.values.view(np.int64)
        step = self._out.size // protobuf.ROOM
        for i in range(0, values.size, step):
            n = protobuf.encode_samples(
                samples.time[i : i + step], values[i : i + step], is_double, samples.track.uuid, self._out
            )
            self._file.write(self._out[:n].data)

    def end(self) -> None:
        """Nothing follows the last packet."""
