"""Content of a trace's timeline: tracks, and the slices, instants, flows and counters on them, in nanoseconds.

The iterator `Timeline.items` yields the content; `tracecols.export.perfetto` and `tracecols.export.chrome` write it.

* Tracks form the system tree: machine, node, process, location. Below a location are its wait states and its counters.
* Region instances are slices (`tracecols.kernels.timeline.draw_events`). Times are rounded down to nanoseconds, which
  keeps their order, so that slices nest; an end and the begin that follows it stay together.
* A send, a receive and the arrival at a collective operation are instants. A flow joins a send with its receive, or
  the arrivals at an operation in order of time. Events outside the time range are in no flow.
* Wait states are slices on separate tracks, one per property and location, more if they overlap without nesting.
  A flow joins each with its cause, an instant on the track *Causes* of the location that is waited for.
* The critical path has a first track, above all others, that shows its location at each time, and a track below each
  location that it visits; one flow joins all slices of the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.base import Columns
from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.definitions.regions import Regions
from tracecols.errors import AnalysisError, ExportError
from tracecols.export.drawing import EVER, Nanoseconds, SliceBuilder, counter_label, divide_intervals
from tracecols.export.flows import COPY, DEVICE_NAMES, Flows, Instants
from tracecols.export.waits import Waits, find_waits, properties_of_waits
from tracecols.given.arguments import as_texts
from tracecols.kernels import timeline as kernels
from tracecols.kernels.protobuf import BEGINS, ENDS, GOES_ON
from tracecols.model.model import Model, enhance
from tracecols.patterns.registry import CONVENTIONS
from tracecols.schema import EventKind
from tracecols.schema.causes import POINTS
from tracecols.schema.enums import COLLECTIVE_OPS, name_of
from tracecols.schema.severity import DEFAULT
from tracecols.search.choice import check_conventions
from tracecols.search.limits import capacity_suffices_for_causes
from tracecols.severity.axes import SystemAxis
from tracecols.slices.source import ROWS, SideReader
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.work.jobs import n_jobs

SENDS = (EventKind.MPI_SEND, EventKind.MPI_ISEND)
RECEIVES = (EventKind.MPI_RECV, EventKind.MPI_IRECV, EventKind.MPI_MRECV, EventKind.MPI_IMRECV)

Kind = Literal["group", "process", "location", "waits", "counter", "path"]


@dataclass(frozen=True)
class Track:
    """A line of the timeline, or a group of lines."""

    uuid: int
    """Number of the track, from 1."""
    parent: int
    """Number of the parent track; 0 none."""
    name: str
    kind: Kind
    """`group`, `process`, `location`, `waits`, `counter` or `path` (the critical path of all locations)."""
    order: int
    """Position among the tracks of the same parent."""
    process: int = -1
    process_name: str = ""
    """`process` and `process_name`: row and name of the process of the track; -1 and empty for none."""
    thread_name: str = ""
    """Name of the location, whose track may have a longer one."""
    unit: str = ""
    """Unit of a counter."""
    pid: int = 0
    tid: int = 0
    """`pid` and `tid`: numbers of process and thread for viewers, from 1; the main thread has the number of its
    process; 0 none."""


@dataclass
class TrackEvents:
    """Begins and ends of slices, and instants, on one track in order."""

    track: Track
    time: NDArray[np.int64]
    what: NDArray[np.uint8]
    name: NDArray[np.int32]
    instant: NDArray[np.int64]
    """`time`, `what`, `name` and `instant`: (n,) int64, uint8, int32, int64, nanoseconds; BEGIN, END or INSTANT
    (`tracecols.kernels.timeline`); name in `Timeline.names`; row of `instants`. -1 none."""
    instants: Instants


@dataclass
class Samples:
    """Values of a counter: times in nanoseconds, values as int64 or float64."""

    track: Track
    time: NDArray[np.int64]
    values: NDArray[Any]


TimelineItem = Track | TrackEvents | Samples


class Timeline:
    """The content of a timeline: events of `locations`, by default of all, with start <= time < stop (ticks); slices
    that are open at `start` or `stop` are clipped there.

    `waits` are the ids of properties whose wait states are shown, or `all`; None for those that report causes.
    `progress` is called with the numbers of events done and of all.

    `names` are those of slices and instants, and `category`, (n_names,) int32, refers to `categories`. Details refer to
    `texts`: names of communicators and locations, reasons, call paths. `n_waits` by property and `left_out`, numbers of
    what cannot be shown, are counted while the items are yielded.
    """

    def __init__(
        self,
        store: Store,
        *,
        locations: Iterable[int] | None = None,
        start: int | None = None,
        stop: int | None = None,
        waits: str | Iterable[str] | None = (),
        critical_path: bool = False,
        conventions: str = DEFAULT,
        model: Model | None = None,
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
        self.left_out: dict[str, int] = {}

        self._total = store.n_rows("events")
        self._progress = progress
        check_conventions(conventions)
        self.conventions = conventions
        waits = None if waits is None else as_texts(waits, "properties", ExportError)
        has_streams = "gpu" in store.definitions["locations"].column("type").to_pylist()
        needs_model = waits is None or bool(waits) or critical_path or model is not None or has_streams
        needs_model |= store.n_rows("p2p") + store.n_rows("collectives") > 0
        self._before = self._total if needs_model else 0
        if model is None and needs_model:
            model = enhance(store, n_jobs(jobs), self._report_scan)
        ids = properties_of_waits(model, waits, conventions) if model is not None and (waits is None or waits) else []
        self.n_waits = dict.fromkeys(ids, 0)
        self._waits: list[Waits] = find_waits(model, ids, conventions) if model is not None and ids else []
        self._flows = Flows(self.holds, self.ns, model)

        regions = model.regions if model is not None else Regions(store)
        self._tasks_name = regions.tasks
        axis = SystemAxis.of(store)
        labels = [
            f"rank {r} thread {t}" if r >= 0 else name
            for r, t, name in zip(axis.rank.tolist(), axis.thread.tolist(), axis.location_name, strict=True)
        ]
        stretches = self._find_stretches(model) if critical_path and model is not None else None
        titles = [w.title for w in self._waits]
        self.names, self._category_of = list[str](regions.name), list[str](regions.paradigm)
        add_names = self._add_names
        self._send, self._receive = add_names("mpi", "send"), add_names("mpi", "receive")
        self._unknown_op = add_names("mpi", "collective operation")
        add_names("mpi", *(name_of(COLLECTIVE_OPS, i) for i in range(len(COLLECTIVE_OPS))))
        self._first_device = add_names("device", *DEVICE_NAMES)
        self._first_wait = add_names("wait state", *titles)
        self._first_cause = add_names("wait state", *(f"cause of {title}" for title in titles))
        self._on_path = add_names("critical path", "critical path", *(labels if stretches is not None else []))
        self.categories = list(dict.fromkeys(self._category_of))
        self.category = np.array([self.categories.index(c) for c in self._category_of], np.int32)
        self.texts: list[str] = [name or f"communicator {i}" for i, name in enumerate(store.names("communicators"))]
        self._first_label = len(self.texts)
        self.texts += labels
        self._first_reason = len(self.texts)
        self.texts += POINTS
        self._text_of_path = self._write_paths(model, stretches)
        self._flow_of_waits, self._step_of_waits, self._causes = self._join_causes()
        self._path = self._join_stretches(stretches)

    def _add_names(self, category: str, *names: str) -> int:
        """Add names of a category, and return the number of the first."""
        self.names.extend(names)
        self._category_of.extend([category] * len(names))
        return len(self.names) - len(names)

    # -- wait states, causes, critical path --------------------------------------------------------------------------

    def _find_stretches(self, model: Model) -> CompoundTable | None:
        """Return the stretches of the critical path, or None if there is none or the trace is too large."""
        if not capacity_suffices_for_causes(model):
            self.left_out["call instances, too many for the critical path"] = model.n_calls
            return None
        table: CompoundTable = model.with_quirks(CONVENTIONS[self.conventions].quirks).critical_path_stretches
        # a path that stays on one location is not worth showing
        return table if len(table) > 1 else None

    def _write_paths(self, model: Model | None, stretches: CompoundTable | None) -> dict[int, int]:
        """Add the call paths used in details to the texts. Return the number of the text of each."""
        if model is None:
            return {}
        named = [distinct(w.cause_call_path) for w in self._waits]
        named += [] if stretches is None else [distinct(stretches.end_call_path)]
        found = distinct(np.concatenate([np.zeros(0, np.int64), *named]))
        found = found[found >= 0].tolist()
        first = len(self.texts)
        names = model.regions.name
        try:
            self.texts += model.call_paths.paths_of(names, found)
        except AnalysisError:
            # too long to be written in full
            self.texts += [f".../{names[model.call_paths.region[i]]}" for i in found]
        return {call_path: first + i for i, call_path in enumerate(found)}

    def _texts_of(self, call_paths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the texts of call paths; -1 stays."""
        return np.array([self._text_of_path.get(i, -1) for i in call_paths.tolist()], np.int64)

    def _join_causes(self) -> tuple[list[NDArray[np.int64]], list[NDArray[np.uint8]], dict[str, NDArray[np.int64]]]:
        """Number the flows that join wait states with their causes.

        Returns, by property, the flow of every wait state (0 none) and its step, whether the flow begins or ends there;
        and the causes, ordered by location and time: `location`, `time` (nanoseconds), `name`, `flow`, `step`.
        """
        flows, steps, found = [], [], []
        n = self._flows.n
        for k, w in enumerate(self._waits):
            cause = np.maximum(w.cause_location, 0).astype(np.int32)
            is_shown = (w.end > self._first) & (w.begin < self._stop) & self._chosen[w.location] & (w.end > w.begin)
            at = np.flatnonzero(is_shown & (w.cause_location >= 0) & self.holds(cause, w.cause_time))
            flow, step = np.zeros(w.location.size, np.int64), np.zeros(w.location.size, np.uint8)
            flow[at] = n + 1 + np.arange(at.size)
            n += at.size
            begin, time = self.ns(np.maximum(w.begin[at], self._first)), self.ns(w.cause_time[at])
            # an arrow begins at the earlier end
            step[at] = np.where(begin <= time, BEGINS, ENDS)
            flows.append(flow)
            steps.append(step)
            found.append(
                np.array([cause[at], time, np.full(at.size, self._first_cause + k), flow[at], BEGINS + ENDS - step[at]])
            )
        self._n_flows = n
        columns = np.concatenate([np.zeros((5, 0), np.int64), *found], axis=1)
        columns = columns[:, np.lexsort((columns[3], columns[1], columns[0]))]
        return flows, steps, dict(zip(("location", "time", "name", "flow", "step"), columns, strict=True))

    def _join_stretches(self, stretches: CompoundTable | None) -> dict[str, NDArray[np.int64]]:
        """Return the stretches of the critical path that are shown, ordered by time; one flow joins all."""
        names = ("location", "begin", "end", "reason", "call_path", "step")
        if stretches is None:
            return dict.fromkeys(names, np.zeros(0, np.int64))
        location = stretches.location.astype(np.int64)
        begin, end = stretches.begin_time, stretches.end_time
        at = np.flatnonzero((end > self._first) & (begin < self._stop) & (end > begin) & self._chosen[location])
        begin, end = self.ns(np.maximum(begin[at], self._first)), self.ns(np.minimum(end[at], self._stop))
        at, begin, end = (a[np.lexsort((-end, begin))] for a in (at, begin, end))
        step = np.full(at.size, GOES_ON, np.int64)
        if at.size:
            step[-1], step[0] = ENDS, BEGINS if at.size > 1 else 0
        path = self._texts_of(stretches.end_call_path[at].astype(np.int64))
        reason = stretches.reason[at].astype(np.int64)
        return dict(zip(names, (location[at], begin, end, reason, path, step), strict=True))

    def _nested(
        self, parent: Track | None, name: str, begin: NDArray[np.int64], end: NDArray[np.int64], instants: Instants
    ) -> Iterator[TimelineItem]:
        """Draw intervals with details, ordered by begin, as slices on a track, or on several if they overlap without
        nesting."""
        lane = divide_intervals(begin, end)
        for i in range(int(lane.max(initial=-1)) + 1):
            of = np.flatnonzero(lane == i)
            n = of.size
            time, what = np.empty(2 * n, np.int64), np.empty(2 * n, np.uint8)
            kernels.draw_intervals(begin[of], end[of], np.empty(n, np.int64), time, what)
            track = self._track(parent, name, "waits" if parent is not None else "path")
            yield track
            is_begin = what == kernels.BEGIN
            instant = np.where(is_begin, np.cumsum(is_begin) - 1, -1)
            yield TrackEvents(track, time, what, np.full(2 * n, -1, np.int32), instant, instants.take(of))

    def _draw_causes(self, location: int, line: Track) -> Iterator[TimelineItem]:
        """Draw the causes of other locations' wait states as instants that arrows lead to."""
        causes = self._causes
        low, high = np.searchsorted(causes["location"], [location, location + 1])
        n = int(high - low)
        if not n:
            return
        instants = Instants.none(n)
        instants.name[:], instants.flow[:], instants.step[:] = (causes[c][low:high] for c in ("name", "flow", "step"))
        track = self._track(line, "Causes", "waits")
        yield track
        # contiguous, as all times are: kernels are compiled only for contiguous arrays
        time = np.ascontiguousarray(causes["time"][low:high])
        what = np.full(n, kernels.INSTANT, np.uint8)
        yield TrackEvents(track, time, what, np.full(n, -1, np.int32), np.arange(n), instants)

    def _draw_path(self, location: int, line: Track | None) -> Iterator[TimelineItem]:
        """Draw the critical path on a location, or, for -1, the track that names its location at each time."""
        path = self._path
        at = np.flatnonzero(path["location"] == location) if line is not None else np.arange(path["location"].size)
        if not at.size:
            return
        instants = Instants.none(at.size)
        instants.name[:] = self._on_path if line is not None else self._on_path + 1 + path["location"][at]
        if line is not None:
            instants.step[:] = path["step"][at]
            instants.flow[:] = np.where(path["step"][at] > 0, self._n_flows + 1, 0)
        instants.fill("call path", path["call_path"][at])
        reason = path["reason"][at]
        instants.fill("reason", np.where(reason >= 0, self._first_reason + reason, -1))
        yield from self._nested(line, "Critical path", path["begin"][at], path["end"][at], instants)

    def _report_scan(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total + self._total)

    def holds(self, location: NDArray[np.int32], time: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the events, given by location and time, that are shown; (n,) bool."""
        if not location.size:
            return np.zeros(0, bool)
        return np.asarray(self._chosen[location] & (time >= self._first) & (time < self._stop), np.bool_)

    # -- tracks ------------------------------------------------------------------------------------------------------

    def _system(self) -> tuple[list[Track], dict[int, Track]]:
        """Return the tracks of the system tree of the chosen locations, and the track of each location.

        A tree node with a single child shares a track with it, as a machine of one node or a process of one thread.
        """
        axis = SystemAxis.of(self.store)
        process_of = to_numpy(self.store.definitions["locations"].column("process"))
        types = self.store.definitions["processes"].column("type").to_pylist()
        children: dict[int, list[int]] = {}
        processes: dict[int, int] = {}
        for i in range(len(axis.kind) - 1, -1, -1):
            location, parent = axis.location[i], axis.parent[i]
            if i in children or (location >= 0 and self._chosen[location]):
                # in reverse order, to be popped from a stack
                children.setdefault(parent, []).append(i)
                if location >= 0:
                    process = int(process_of[location])
                    # a device that is no process of its own groups streams of the process above it
                    is_group = axis.kind[parent] == "accelerator" and types[process] != "accelerator"
                    processes[axis.parent[parent] if is_group else parent] = process
        thread = to_numpy(self.store.definitions["locations"].column("thread"))
        order = np.lexsort((thread, process_of))
        main = dict(zip(process_of[order][::-1].tolist(), order[::-1].tolist(), strict=True))
        tracks: list[Track] = []
        lines: dict[int, Track] = {}
        waiting = [(i, 0) for i in children.get(-1, [])]
        while waiting:
            i, parent = waiting.pop()
            names, process, process_name = [], -1, ""
            while True:
                if i in processes:
                    process, process_name = processes[i], axis.name[i]
                is_known = i in processes or axis.location[i] >= 0 or axis.kind[i] == "accelerator"
                names.append(axis.name[i] if is_known else f"{axis.kind[i]} {axis.name[i]}")
                if len(children.get(i, [])) != 1:
                    break
                i = children[i][0]
            uuid, location = len(tracks) + 1, axis.location[i]
            kind: Kind = "location" if location >= 0 else "process" if process >= 0 else "group"
            if not process_name and parent:
                process_name = tracks[parent - 1].process_name
            tid, thread_name = 0, ""
            if location >= 0:
                process, thread_name = int(process_of[location]), axis.name[i]
                tid = process + 1 if main.get(process) == location else len(types) + 1 + location
            pid = process + 1
            name = ", ".join(names)
            track = Track(uuid, parent, name, kind, uuid, process, process_name, thread_name, pid=pid, tid=tid)
            tracks.append(track)
            if location >= 0:
                lines[location] = track
            waiting += [(child, uuid) for child in children.get(i, [])]
        return tracks, lines

    # -- content -----------------------------------------------------------------------------------------------------

    def items(self) -> Iterator[TimelineItem]:
        """Yield the items location by location, each track before the items on it."""
        tracks, lines = self._system()
        yield from tracks
        self._n_tracks = len(tracks)
        yield from self._draw_path(-1, None)
        done = self._before
        for location in range(self._chosen.size):
            if self._chosen[location]:
                yield from self._draw_path(location, lines[location])
                yield from self._draw_waits(location, lines[location])
                yield from self._draw_causes(location, lines[location])
                yield from self._draw_copies(location, lines[location])
                yield from self._draw_location(location, lines[location], done)
            done += self.store.n_rows("events", location)

    def _track(self, parent: Track | None, name: str, kind: Kind, unit: str = "") -> Track:
        self._n_tracks += 1
        n = self._n_tracks
        if parent is None:
            # before the system tree
            return Track(n, 0, name, kind, 0)
        return Track(n, parent.uuid, name, kind, n, parent.process, parent.process_name, unit=unit)

    def _shown(self, intervals: Any, location: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of a location's intervals in the time range, enclosing ones first, their begins and ends in
        nanoseconds."""
        low, high = np.searchsorted(intervals.location, [location, location + 1])
        at = low + np.flatnonzero((intervals.end[low:high] > self._first) & (intervals.begin[low:high] < self._stop))
        begin = self.ns(np.maximum(intervals.begin[at], self._first))
        end = self.ns(np.minimum(intervals.end[at], self._stop))
        order = np.lexsort((-end, begin))
        return at[order], begin[order], end[order]

    def _draw_waits(self, location: int, line: Track) -> Iterator[TimelineItem]:
        """Draw the wait states of a location, each property on separate tracks."""
        for k, waits in enumerate(self._waits):
            at, begin, end = self._shown(waits, location)
            self.n_waits[waits.id] += begin.size
            instants = Instants.none(at.size)
            instants.name[:] = self._first_wait + k
            instants.flow[:], instants.step[:] = self._flow_of_waits[k][at], self._step_of_waits[k][at]
            cause = waits.cause_location[at]
            instants.fill("cause", np.where(cause >= 0, self._first_label + cause, -1))
            instants.fill("call path", self._texts_of(waits.cause_call_path[at]))
            yield from self._nested(line, waits.title, begin, end, instants)

    def _draw_copies(self, location: int, line: Track) -> Iterator[TimelineItem]:
        """Draw the copies of a stream on a separate track, or on several if they overlap without nesting."""
        copies = self._flows.copies
        at, begin, end = self._shown(copies, location)
        instants = Instants.none(at.size)
        instants.name[:] = self._first_device + COPY + copies.direction[at].astype(np.int32)
        instants.flow[:] = copies.flow[at]
        instants.step[:] = np.where(instants.flow > 0, ENDS, 0)
        instants.fill("bytes", copies.bytes[at])
        yield from self._nested(line, "Copies", begin, end, instants)

    def _draw_location(self, location: int, line: Track, n_before: int) -> Iterator[TimelineItem]:
        """Draw the events of a location, and report the progress; `n_before` events have been processed before."""
        store, n_events = self.store, self.store.n_rows("events", location)
        first_row = int(self.store.first_rows[location])
        p2p = SideReader(store, "p2p", location)
        metrics = {t: SideReader(store, t, location) for t in store.tables if t.startswith("metrics_")}
        counters: dict[tuple[str, int, int], Track] = {}
        builder = SliceBuilder(store, location, self._first, self._stop, self._tasks_name)
        for base in range(0, n_events, ROWS):
            top = min(base + ROWS, n_events)
            columns = store.read("events", location, None, base, top)
            rows, instants = self._instants(first_row, base, top, p2p.until(top))
            for time, what, name, instant in builder.draw(columns, rows, top == n_events):
                yield TrackEvents(line, self.ns(time), what, name, instant, instants)
            for table, reader in metrics.items():
                found = reader.until(top)
                if found is not None:
                    yield from self._sample(table, found, columns["time"], base, line, counters)
            if self._progress is not None:
                n_done = n_events if builder.is_over else top
                self._progress(n_before + n_done, self._before + self._total)
            if builder.is_over:
                return

    def _instants(self, first_row: int, base: int, top: int, p2p: Columns | None) -> tuple[NDArray[np.int64], Instants]:
        """Return the rows of a batch's instants, relative to its first event, and the instants."""
        rows, instants = self._flows.arrivals.between(first_row + base, first_row + top, self._unknown_op + 1)
        requests = self._flows.requests.between(first_row + base, first_row + top, self._first_device)
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
        self,
        table: str,
        found: Columns,
        time: NDArray[np.int64],
        base: int,
        line: Track,
        counters: dict[tuple[str, int, int], Track],
    ) -> Iterator[TimelineItem]:
        """Draw the values of the counters of a metric class."""
        d = self.store.definitions
        at = time[found["row"] - base]
        inside = (at >= self._first) & (at < self._stop)
        at, source = self.ns(at[inside]), found["source"][inside]
        members = d["metric_classes"].column("members")[int(table.removeprefix("metrics_"))].as_py()
        for number in distinct(source).tolist():
            of = source == number
            for i, member in enumerate(members):
                values = found[f"value_{i}"][inside][of]
                key = (table, number, i)
                if key not in counters:
                    name, unit = counter_label(d, member, number)
                    counters[key] = self._track(line, name, "counter", unit)
                    yield counters[key]
                if values.dtype.kind == "f":
                    finite = np.isfinite(values)
                    if not finite.all():
                        lost, what = int((~finite).sum()), "values of counters that are no numbers"
                        self.left_out[what] = self.left_out.get(what, 0) + lost
                    yield Samples(counters[key], at[of][finite], values[finite].astype(np.float64))
                elif values.dtype == np.uint64 and (values >> np.uint64(63)).any():
                    yield Samples(counters[key], at[of], values.astype(np.float64))
                else:
                    yield Samples(counters[key], at[of], values.astype(np.int64))


def _merged(
    rows: NDArray[np.int64], instants: Instants, more_rows: NDArray[np.int64], more: Instants
) -> tuple[NDArray[np.int64], Instants]:
    """Merge two sets of instants in the order of their rows."""
    if not more_rows.size:
        return rows, instants
    rows = np.concatenate([rows, more_rows])
    order = np.argsort(rows, kind="stable")
    columns = ("name", "flow", "step", "values")
    return rows[order], Instants(*(np.concatenate([getattr(instants, c), getattr(more, c)])[order] for c in columns))
