"""Read timelines as their viewers do: Perfetto's format with Perfetto's message classes, Chrome's JSON with a JSON
parser."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Slice:
    """A slice or, if `end` is None, an instant; `below` is the time covered by the slices directly inside it."""

    track: Any
    name: str
    category: str
    begin: int
    end: int | None = None
    depth: int = 0
    below: int = 0
    flows: list[int] = field(default_factory=list)
    ends_flow: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def exclusive(self) -> int:
        """Return the time of the slice without that of the slices in it."""
        return self.end - self.begin - self.below


class Read:
    """The content of a timeline.

    Attributes
    ----------
    slices, instants : dict of track to list of Slice
        Slices in the order in which they end.
    samples : dict of track to list of (time, value)
    """

    def __init__(self) -> None:
        self.slices: dict[Any, list[Slice]] = defaultdict(list)
        self.instants: dict[Any, list[Slice]] = defaultdict(list)
        self.samples: dict[Any, list[tuple[int, float]]] = defaultdict(list)
        self._open: dict[Any, list[Slice]] = defaultdict(list)
        self._last: dict[Any, int] = defaultdict(int)

    def _at(self, track: Any, time: int) -> list[Slice]:
        assert time >= self._last[track], "times of a track run backwards"
        self._last[track] = time
        return self._open[track]

    def begin(self, s: Slice) -> None:
        """Begin a slice."""
        stack = self._at(s.track, s.begin)
        s.depth = len(stack)
        stack.append(s)

    def end(self, track: Any, time: int) -> None:
        """End the innermost open slice."""
        stack = self._at(track, time)
        assert stack, "an end without begin"
        s = stack.pop()
        s.end = time
        if stack:
            stack[-1].below += time - s.begin
        self.slices[track].append(s)

    def instant(self, s: Slice) -> None:
        """Add an instant inside the open slices."""
        s.depth = len(self._at(s.track, s.begin))
        self.instants[s.track].append(s)

    def close(self) -> Any:
        """Check that no slice is open."""
        assert not any(self._open.values()), "a begin without end"
        return self


class Perfetto(Read):
    """A file in Perfetto's format; tracks are uuids, `tracks` holds their descriptors."""

    def __init__(self, data: bytes) -> None:
        from google.protobuf.unknown_fields import UnknownFieldSet
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

        super().__init__()
        trace = Trace()
        assert trace.ParseFromString(data) == len(data)
        self.tracks: dict[int, Any] = {}
        self.clocks: list[Any] = []
        names: dict[str, dict[int, str]] = defaultdict(dict)
        cleared = False
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            assert not len(UnknownFieldSet(packet))
            cleared |= bool(packet.sequence_flags & 1)
            for what, listed in packet.interned_data.ListFields():
                for entry in listed:
                    text = entry.str.decode() if hasattr(entry, "str") else entry.name
                    assert entry.iid > 0
                    assert names[what.name].setdefault(entry.iid, text) == text
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in self.tracks
                assert track.parent_uuid == 0 or track.parent_uuid in self.tracks
                self.tracks[track.uuid] = track
            if packet.HasField("clock_snapshot"):
                self.clocks.append(packet.clock_snapshot)
            if not packet.HasField("track_event"):
                continue
            assert cleared and packet.sequence_flags & 2
            e, time = packet.track_event, packet.timestamp
            assert not len(UnknownFieldSet(e))
            assert e.track_uuid in self.tracks
            if e.type == TrackEvent.TYPE_SLICE_END:
                self.end(e.track_uuid, time)
            elif e.type == TrackEvent.TYPE_COUNTER:
                assert self.tracks[e.track_uuid].HasField("counter")
                value = getattr(e, e.WhichOneof("counter_value_field"))
                self.samples[e.track_uuid].append((time, value))
            else:
                (category,) = e.category_iids
                s = Slice(e.track_uuid, names["event_names"][e.name_iid], names["event_categories"][category], time)
                s.flows = [*e.flow_ids, *e.terminating_flow_ids]
                s.ends_flow = bool(e.terminating_flow_ids)
                for a in e.debug_annotations:
                    value = getattr(a, a.WhichOneof("value"))
                    if a.WhichOneof("value") == "string_value_iid":
                        value = names["debug_annotation_string_values"][value]
                    s.details[names["debug_annotation_names"][a.name_iid]] = value
                self.begin(s) if e.type == TrackEvent.TYPE_SLICE_BEGIN else self.instant(s)
        self.close()

    def path(self, track: int) -> tuple[str, ...]:
        """Return the names of a track and of its ancestors."""
        d = self.tracks[track]
        return (*(self.path(d.parent_uuid) if d.parent_uuid else ()), d.name)


class Chrome(Read):
    """A file of Chrome's JSON; tracks are numbers of threads, or names of counters."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.names: dict[str, dict[int, Any]] = defaultdict(dict)
        for e in json.loads(data)["traceEvents"]:
            if e["ph"] == "M":
                key = e["pid"] if e["name"].startswith("process") else e.get("tid")
                (self.names[e["name"]][key],) = e["args"].values()
                continue
            time = round(e["ts"] * 1000)
            if e["ph"] == "B":
                last = Slice(e["tid"], e["name"], e["cat"], time, details=e.get("args", {}))
                self.begin(last)
            elif e["ph"] == "E":
                self.end(e["tid"], time)
            elif e["ph"] == "i":
                last = Slice(e["tid"], e["name"], e["cat"], time, details=e["args"])
                self.instant(last)
            elif e["ph"] == "C":
                self.samples[e["name"]].append((time, e["args"]["value"]))
            else:
                assert (last.track, last.begin) == (e["tid"], time)
                last.flows, last.ends_flow = [e["id"]], e["ph"] == "f"
                assert e["ph"] in "stf"
        self.close()


def read(path: Any) -> Any:
    """Read a timeline."""
    return (Chrome if path.name.endswith(".json") else Perfetto)(path.read_bytes())
