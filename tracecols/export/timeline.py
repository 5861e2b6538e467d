"""What a timeline shows of a trace: tracks, and what is drawn on them, in nanoseconds.

One iterator, `Timeline.items`, makes the content; `tracecols.export.perfetto` and `tracecols.export.chrome` write it.

* Tracks form the system tree: machine, node, process, location. Below a location stand its wait states and its counters.
* Region instances are slices (`tracecols.kernels.timeline.draw_events`). Times are rounded down to nanoseconds, which keeps
  their order, so that slices nest; an end and the begin that follows it stay together.
* A send, a receive and the arrival at a collective operation are instants. A flow joins a send with its receive, or those who
  come to an operation in the order in which they come; what lies outside of the time range is in no flow.
* Wait states are slices on tracks of their own, one per property and location, more where they overlap without nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tracecols.arguments import as_texts
from tracecols.converters.base import Columns
from tracecols.enhance.model import enhance
from tracecols.enhance.regions import Regions
from tracecols.errors import ExportError
from tracecols.export.drawing import EVER, Nanoseconds, SliceBuilder, divide_intervals
from tracecols.export.flows import COPY, DEVICE_NAMES, Flows, Instants
from tracecols.export.waits import Waits, find_waits, properties_of_waits
from tracecols.jobs import n_jobs
from tracecols.kernels import timeline as kernels
from tracecols.kernels.protobuf import ENDS
from tracecols.schema import EventKind
from tracecols.schema.enums import COLLECTIVE_OPS, name_of
from tracecols.severity.axes import SystemAxis
from tracecols.slices.source import ROWS, SideReader
from tracecols.store import Store
from tracecols.store.arrow import to_numpy

SENDS = (EventKind.MPI_SEND, EventKind.MPI_ISEND)
RECEIVES = (EventKind.MPI_RECV, EventKind.MPI_IRECV, EventKind.MPI_MRECV, EventKind.MPI_IMRECV)

Kind = Literal["group", "process", "location", "waits", "counter"]


@dataclass(frozen=True)
class Track:
    """A line of the timeline, or a group of lines.

    Attributes
    ----------
    uuid : int
        Its number; 1 is the first.
    parent : int
        The track above; 0 none.
    name : str
    kind : str
        `group`, `process`, `location`, `waits` or `counter`.
    order : int
        Position among those of the same parent.
    process, process_name : int, str
        Row and name of the process it belongs to; -1 and empty for none.
    unit : str
        Of a counter.
    """

    uuid: int
    parent: int
    name: str
    kind: Kind
    order: int
    process: int = -1
    process_name: str = ""
    unit: str = ""


@dataclass
class TrackEvents:
    """Begins and ends of slices, and instants, on one track in order.

    Attributes
    ----------
    track : Track
    time, what, name, instant : (n,) int64, uint8, int32, int64
        Nanoseconds; BEGIN, END or INSTANT (`tracecols.kernels.timeline`); name in `Timeline.names`; row of `instants`. -1 none.
    instants : Instants
    """

    track: Track
    time: NDArray[np.int64]
    what: NDArray[np.uint8]
    name: NDArray[np.int32]
    instant: NDArray[np.int64]
    instants: Instants


@dataclass
class Samples:
    """Values of a counter: times in nanoseconds, values as int64 or float64."""

    track: Track
    time: NDArray[np.int64]
    values: NDArray[Any]


TimelineItem = Track | TrackEvents | Samples


class Timeline:
    """The content of a timeline.

    Parameters
    ----------
    store : Store
    locations : iterable of int, optional
        Rows of the locations to show; all by default.
    start, stop : int, optional
        Ticks: what happens at start <= time < stop; what is open at the ends begins and ends there.
    waits : iterable of str
        Ids of properties whose wait states to show.
    jobs : int, optional
        Threads to look for messages and wait states; by default one per core.
    progress : callable, optional
        Called with the number of events done and the number of all.

    Attributes
    ----------
    names, categories : list of str
        Of slices and instants: names, and the categories that `category` (n_names,) int32 refers to.
    texts : list of str
        What details that are texts refer to: names of communicators.
    n_waits, left_out : dict of str to int
        Wait states by property, and what cannot be shown; counted while the items are made.
    """

    def __init__(
        self,
        store: Store,
        *,
        locations: Iterable[int] | None = None,
        start: int | None = None,
        stop: int | None = None,
        waits: Iterable[str] = (),
        jobs: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.store = store
        manifest = store.manifest
        self.ns = Nanoseconds(manifest["clock"], int(manifest["first_time"]), int(manifest["last_time"]))
        self.realtime = int(manifest["clock"]["realtime"])
        self.origin_ns = int(self.ns(np.array([min(int(manifest["clock"]["origin"]), EVER.max)]))[0])
        self._first = EVER.min if start is None else start
        self._stop = EVER.max if stop is None else stop
        n = int(manifest["n_locations"])
        self._chosen = np.zeros(n, bool)
        self._chosen[list(range(n) if locations is None else locations)] = True
        self._first_rows = to_numpy(store.definitions["locations"].column("first_row"))
        self.left_out: dict[str, int] = {}

        self._total = store.n_rows("events")
        self._progress = progress
        waits = as_texts(waits, "properties", ExportError)
        has_streams = "gpu" in store.definitions["locations"].column("type").to_pylist()
        needs_model = bool(waits) or has_streams or store.n_rows("p2p") + store.n_rows("collectives") > 0
        self._before = self._total if needs_model else 0
        model = enhance(store, n_jobs(jobs), self._report_scan) if needs_model else None
        ids = properties_of_waits(model, waits) if model is not None and waits else []
        self.n_waits = dict.fromkeys(ids, 0)
        self._waits: list[Waits] = find_waits(model, ids) if model is not None and ids else []
        self._flows = Flows(self.holds, self.ns, model)

        regions = model.regions if model is not None else Regions(store)
        self._tasks_name = regions.tasks
        self.names: list[str] = list(regions.name)
        category = list(regions.paradigm)
        self._send, self._receive = len(self.names), len(self.names) + 1
        self._unknown_op = len(self.names) + 2
        self._first_device = self._unknown_op + 1 + len(COLLECTIVE_OPS)
        self._first_wait = self._first_device + len(DEVICE_NAMES)
        self.names += ["send", "receive", "collective operation"]
        self.names += [name_of(COLLECTIVE_OPS, i) for i in range(len(COLLECTIVE_OPS))]
        self.names += [*DEVICE_NAMES, *(w.title for w in self._waits)]
        category += ["mpi"] * (self._first_device - self._send) + ["device"] * len(DEVICE_NAMES)
        category += ["wait state"] * len(self._waits)
        self.categories = list(dict.fromkeys(category))
        self.category = np.array([self.categories.index(c) for c in category], np.int32)
        self.texts: list[str] = [
            name or f"communicator {i}"
            for i, name in enumerate(store.definitions["communicators"].column("name").to_pylist())
        ]

    def _report_scan(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total + self._total)

    def holds(self, location: NDArray[np.int32], time: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the time range holds what happens at locations and times; (n,) bool."""
        if not location.size:
            return np.zeros(0, bool)
        result: NDArray[np.bool_] = self._chosen[location] & (time >= self._first) & (time < self._stop)
        return result

    # -- tracks ------------------------------------------------------------------------------------------------------

    def _system(self) -> tuple[list[Track], dict[int, Track]]:
        """Return the tracks of the system tree above the chosen locations, and those of the locations.

        What holds one thing only shares a track with it, as a machine of one node or a process of one thread does.
        """
        axis = SystemAxis.of(self.store)
        process_of = to_numpy(self.store.definitions["locations"].column("process"))
        children: dict[int, list[int]] = {}
        processes: set[int] = set()
        for i in range(len(axis.kind) - 1, -1, -1):
            location, parent = axis.location[i], axis.parent[i]
            if i in children or (location >= 0 and self._chosen[location]):
                # the last first, as a stack takes them
                children.setdefault(parent, []).append(i)
                if location >= 0:
                    processes.add(parent)
        tracks: list[Track] = []
        lines: dict[int, Track] = {}
        waiting = [(i, 0) for i in children.get(-1, [])]
        while waiting:
            i, parent = waiting.pop()
            names, process_name = [], ""
            while True:
                if i in processes:
                    process_name = axis.name[i]
                names.append(
                    axis.name[i] if i in processes or axis.location[i] >= 0 else f"{axis.kind[i]} {axis.name[i]}"
                )
                if len(children.get(i, [])) != 1:
                    break
                i = children[i][0]
            uuid, location = len(tracks) + 1, axis.location[i]
            kind: Kind = "location" if location >= 0 else "process" if i in processes else "group"
            above = tracks[parent - 1] if parent else None
            process = -1
            if kind != "group":
                process = int(process_of[location if location >= 0 else axis.location[children[i][0]]])
                process_name = process_name or (above.process_name if above else "")
            track = Track(uuid, parent, ", ".join(names), kind, uuid, process, process_name)
            tracks.append(track)
            if location >= 0:
                lines[location] = track
            waiting += [(child, uuid) for child in children.get(i, [])]
        return tracks, lines

    # -- content -----------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[TimelineItem]:
        """Yield tracks, each before what is drawn on it, location by location."""
        tracks, lines = self._system()
        yield from tracks
        self._n_tracks = len(tracks)
        done = self._before
        for location in range(self._chosen.size):
            if self._chosen[location]:
                yield from self._draw_waits(location, lines[location])
                yield from self._draw_copies(location, lines[location])
                for item, n in self._draw_location(location, lines[location]):
                    if item is not None:
                        yield item
                    done += n
                    if n and self._progress is not None:
                        self._progress(done, self._before + self._total)
            else:
                done += self.store.n_rows("events", location)

    def _track(self, parent: Track, name: str, kind: Kind, unit: str = "") -> Track:
        self._n_tracks += 1
        n = self._n_tracks
        return Track(n, parent.uuid, name, kind, n, parent.process, parent.process_name, unit)

    def _draw_waits(self, location: int, line: Track) -> Iterator[TimelineItem]:
        """Draw the wait states of a location, every property on tracks of its own."""
        for k, waits in enumerate(self._waits):
            low, high = np.searchsorted(waits.location, [location, location + 1])
            begin, end = waits.begin[low:high], waits.end[low:high]
            inside = (end > self._first) & (begin < self._stop)
            begin = self.ns(np.maximum(begin[inside], self._first))
            end = self.ns(np.minimum(end[inside], self._stop))
            order = np.lexsort((-end, begin))
            begin, end = begin[order], end[order]
            self.n_waits[waits.id] += begin.size
            lane = divide_intervals(begin, end)
            for i in range(int(lane.max(initial=-1)) + 1):
                mine = lane == i
                n = int(mine.sum())
                time, what = np.empty(2 * n, np.int64), np.empty(2 * n, np.uint8)
                kernels.draw_intervals(begin[mine], end[mine], np.empty(n, np.int64), time, what)
                track = self._track(line, waits.title, "waits")
                yield track
                name = np.where(what == kernels.BEGIN, self._first_wait + k, -1).astype(np.int32)
                yield TrackEvents(track, time, what, name, np.full(2 * n, -1, np.int64), Instants.none())

    def _draw_copies(self, location: int, line: Track) -> Iterator[TimelineItem]:
        """Draw the copies of a stream on a track of their own, more where they overlap without nesting."""
        copies = self._flows.copies
        low, high = np.searchsorted(copies.location, [location, location + 1])
        at = low + np.flatnonzero((copies.end[low:high] > self._first) & (copies.begin[low:high] < self._stop))
        begin = self.ns(np.maximum(copies.begin[at], self._first))
        end = self.ns(np.minimum(copies.end[at], self._stop))
        order = np.lexsort((-end, begin))
        at, begin, end = at[order], begin[order], end[order]
        lane = divide_intervals(begin, end)
        for i in range(int(lane.max(initial=-1)) + 1):
            of = np.flatnonzero(lane == i)
            n = of.size
            time, what = np.empty(2 * n, np.int64), np.empty(2 * n, np.uint8)
            kernels.draw_intervals(begin[of], end[of], np.empty(n, np.int64), time, what)
            instants = Instants.none(n)
            instants.name[:] = self._first_device + COPY + copies.direction[at[of]].astype(np.int32)
            instants.flow[:] = copies.flow[at[of]]
            instants.step[:] = np.where(instants.flow > 0, ENDS, 0)
            instants.fill("bytes", copies.bytes[at[of]])
            track = self._track(line, "Copies", "waits")
            yield track
            is_begin = what == kernels.BEGIN
            instant = np.where(is_begin, np.cumsum(is_begin) - 1, -1)
            yield TrackEvents(track, time, what, np.full(2 * n, -1, np.int32), instant, instants)

    def _draw_location(self, location: int, line: Track) -> Iterator[tuple[TimelineItem | None, int]]:
        """Draw the events of a location; with every item comes how many events are done since the one before."""
        store, n_events = self.store, self.store.n_rows("events", location)
        first_row = int(self._first_rows[location])
        p2p = SideReader(store, "p2p", location, first_row)
        metrics = {t: SideReader(store, t, location, first_row) for t in store.tables if t.startswith("metrics_")}
        counters: dict[tuple[str, int, int], Track] = {}
        builder = SliceBuilder(store, location, self._first, self._stop, self._tasks_name)
        for base in range(0, n_events, ROWS):
            top = min(base + ROWS, n_events)
            columns = store.read("events", location, None, base, top)
            rows, instants = self._instants(first_row, base, top, p2p.until(top))
            for time, what, name, instant in builder.draw(columns, rows, top == n_events):
                yield TrackEvents(line, self.ns(time), what, name, instant, instants), 0
            for table, reader in metrics.items():
                found = reader.until(top)
                if found is not None:
                    for item in self._sample(table, found, columns["time"], base, line, counters):
                        yield item, 0
            if builder.is_over:
                top = n_events
            yield None, top - base
            if top == n_events:
                return

    def _instants(self, first_row: int, base: int, top: int, p2p: Columns | None) -> tuple[NDArray[np.int64], Instants]:
        """Return the instants of a batch and their rows, counting from its first."""
        rows, instants = self._flows.arrivals(first_row + base, first_row + top, self._unknown_op + 1)
        requests = self._flows.requests(first_row + base, first_row + top, self._first_device)
        rows, instants = _merged(rows - first_row - base, instants, requests[0] - first_row - base, requests[1])
        if p2p is None:
            return rows, instants
        is_send, is_receive = np.isin(p2p["kind"], SENDS), np.isin(p2p["kind"], RECEIVES)
        at = np.flatnonzero(is_send | is_receive)
        own = Instants.none(at.size)
        is_send = is_send[at]
        own.name[:] = np.where(is_send, self._send, self._receive)
        own.flow, own.step = self._flows.of_p2p(p2p["row"][at] + first_row)
        peer = p2p["peer"][at]
        own.fill("to", np.where(is_send, peer, -1))
        own.fill("from", np.where(is_send, -1, peer))
        own.fill("tag", p2p["tag"][at])
        own.fill("bytes", p2p["length"][at])
        own.fill("communicator", p2p["communicator"][at])
        return _merged(rows, instants, p2p["row"][at] - base, own)

    def _sample(
        self, table: str, found: Columns, time: NDArray[np.int64], base: int, line: Track,
        counters: dict[tuple[str, int, int], Track],
    ) -> Iterator[TimelineItem]:  # fmt: skip
        """Draw the values of the counters of a metric class."""
        d = self.store.definitions
        at = time[found["row"] - base]
        inside = (at >= self._first) & (at < self._stop)
        at, source = self.ns(at[inside]), found["source"][inside]
        members = d["metric_classes"].column("members")[int(table.removeprefix("metrics_"))].as_py()
        for number in np.unique(source).tolist():
            of = source == number
            for i, member in enumerate(members):
                values = found[f"value_{i}"][inside][of]
                key = (table, number, i)
                if key not in counters:
                    counters[key] = self._counter(line, member, number)
                    yield counters[key]
                if values.dtype.kind == "f":
                    finite = np.isfinite(values)
                    lost = int(finite.size - finite.sum())
                    if lost:
                        self.left_out["values of counters that are no numbers"] = (
                            self.left_out.get("values of counters that are no numbers", 0) + lost
                        )
                    yield Samples(counters[key], at[of][finite], values[finite].astype(np.float64))
                elif values.dtype == np.uint64 and (values >> np.uint64(63)).any():
                    yield Samples(counters[key], at[of], values.astype(np.float64))
                else:
                    yield Samples(counters[key], at[of], values.astype(np.int64))

    def _counter(self, line: Track, member: int, source: int) -> Track:
        """Return the track of a counter."""
        d = self.store.definitions
        m = d["metric_members"].slice(member, 1).to_pylist()[0]
        s = d["metric_sources"].slice(source, 1).to_pylist()[0]
        unit = f"{(2, 10)[bool(m['base'])]}^{m['exponent']} {m['unit']}" if m["exponent"] else m["unit"]
        name = (
            m["name"]
            if s["recorder"] < 0 or s["scope"] == "location"
            else f"{m['name']} ({s['scope']} {s['scope_id']})"
        )
        return self._track(line, name, "counter", unit)


def _merged(
    rows: NDArray[np.int64], instants: Instants, more_rows: NDArray[np.int64], more: Instants
) -> tuple[NDArray[np.int64], Instants]:
    """Put instants in the order of their rows."""
    if not more_rows.size:
        return rows, instants
    rows = np.concatenate([rows, more_rows])
    order = np.argsort(rows, kind="stable")
    columns = ("name", "flow", "step", "values")
    return rows[order], Instants(*(np.concatenate([getattr(instants, c), getattr(more, c)])[order] for c in columns))
