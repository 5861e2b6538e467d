"""The pass over each location's events: call paths, profile, and the call instances and attributed events that joins need.

Scope: one location; the only thing it needs of another is the call path a thread inherits from the one that forked it
(thesis 3.20). A location that meets a team whose master has not come that far stops there and is taken up again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.columns import Columns, ColumnSource, pick
from tracecols.enhance.grouping import mask_of, pair_nested, ranges
from tracecols.enhance.locations import Locations
from tracecols.enhance.order import EventOrder
from tracecols.enhance.periods import WHOLE, Divider
from tracecols.enhance.regions import Regions
from tracecols.enhance.spill import ColumnSpill, Spill
from tracecols.enhance.tasks import TaskEvents
from tracecols.enhance.teams import FORKS, IS_FORK, IS_JOIN, JOINS, Teams
from tracecols.errors import StoreError
from tracecols.kernels import actions, arrays, stacks
from tracecols.kernels.actions import action_table
from tracecols.schema import KINDS, NAMES, EventKind
from tracecols.store import Store
from tracecols.store.arrow import to_numpy

BATCH = 1 << 20
"""Events per kernel call."""

WAVE = 1 << 26
"""Events of processes that are scanned together, so that not all need memory at a time; a process stays whole."""

TEAMS = 1 << 20
"""Events of processes whose teams are found by one task: at most 64 tasks for a wave of processes that are smaller."""

GROUP = 1 << 16
"""Events of locations that one thread scans one after the other: small ones share row groups, and cost less than a task each."""

CHAIN = 64
"""Call paths that stand above those of a stack, at most: of the program and of explicit tasks."""

LARGE_TABLE = 1 << 14
"""Entries of a hash table of call paths that is not used again: to clear it costs more than a small location."""

JOINS_ALL = mask_of(k.number for k in KINDS if k.family == "rma" or k.name.startswith("NON_BLOCKING_COLLECTIVE"))
"""Kinds whose call instances are joined with those of all processes at once."""

CLOSE_TO = {"exit": "enter", "exit_time": "enter_time"}
"""Columns of call instances that are close to another one (see `ColumnSpill.keep`)."""

FOREIGN = -2
"""Codes below refer to call paths of other locations: FOREIGN - (location << 32 | call path)."""


ACTION = action_table(
    actions.PUSH, actions.POP, actions.ON_OFF, actions.FLUSH, actions.FORK, actions.JOIN, actions.TEAM_BEGIN, actions.TEAM_END,
    actions.TASK_SWITCH, actions.TASK_COMPLETE, actions.ATTRIBUTE, actions.ATTRIBUTE_CALL,
)  # fmt: skip
"""What kinds of events do to the scan of a location."""

ATTRIBUTED: NDArray[np.bool_] = mask_of(
    actions.kinds_that(
        actions.FORK, actions.JOIN, actions.TEAM_BEGIN, actions.TEAM_END, actions.TASK_SWITCH, actions.TASK_COMPLETE,
        actions.ATTRIBUTE, actions.ATTRIBUTE_CALL,
    )
)  # fmt: skip
"""Kinds of attributed events; (256,) bool."""

FORKER_ACTION = ACTION.copy()
FORKER_ACTION[list(FORKS)], FORKER_ACTION[list(JOINS)] = actions.TEAM_BEGIN, actions.TEAM_END
"""Of a thread whose FORKs begin teams, where no other events do."""


FIRST_STATE = np.zeros(stacks.N_STATE, np.int64)
"""What a scan begins with."""
FIRST_STATE[[stacks.TOP, stacks.BASE, stacks.PROGRAM, stacks.FIRST_BAD_EXIT]] = -1
FIRST_STATE[[stacks.PERIOD, stacks.PERIOD_FRAME, stacks.TEAM_PERIOD]] = -1
FIRST_STATE[stacks.FLUSHED], FIRST_STATE[stacks.HOME] = np.iinfo(np.int64).min, stacks.NO_PARENT


@dataclass
class ForkSpans:
    """The FORKs of a location in order: their rows and times, those of their JOINs (row -1 if there is none), call paths of both (-1)."""

    fork_row: NDArray[np.int64]
    join_row: NDArray[np.int64]
    fork_time: NDArray[np.int64]
    join_time: NDArray[np.int64]
    node: NDArray[np.int32]
    join_node: NDArray[np.int32]


@dataclass
class ScanBuffers:
    """The arrays that the scan of a location works in (`kernels.stacks`)."""

    frames: stacks.Frames
    paths: stacks.CallPaths
    table: NDArray[np.int32]
    calls: stacks.CallInstances
    attributed: stacks.AttributedEvents
    team_stack: NDArray[np.int64]
    chain: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2 * (64 + CHAIN), np.int64))
    begin: NDArray[np.int64] = field(default_factory=lambda: np.zeros(16, np.int64))
    end: NDArray[np.int64] = field(default_factory=lambda: np.zeros(16, np.int64))

    @classmethod
    def make(cls) -> ScanBuffers:
        """Make small ones."""
        return cls(
            arrays.linked(stacks.Frames, 64),
            arrays.zeros(stacks.CallPaths, 256),
            np.zeros(512, np.int32),
            arrays.zeros(stacks.CallInstances, 1 << 12),
            arrays.zeros(stacks.AttributedEvents, 1 << 12),
            np.full(16, -1, np.int64),
        )

    def grow(self, state: NDArray[np.int64]) -> None:
        """Double those that are full."""
        if state[stacks.FREE] < 0:
            self.frames, state[stacks.FREE] = arrays.more_linked(self.frames)
            self.chain = np.zeros(2 * (self.frames.below.size + CHAIN), np.int64)
        if state[stacks.N_PHASES] >= self.begin.size:
            self.begin, self.end = (np.concatenate([a, np.zeros_like(a)]) for a in (self.begin, self.end))
        while 2 * (state[stacks.N_NODES] + state[stacks.ROOM]) > self.table.size:
            self.paths = arrays.doubled(self.paths)
            self.table = np.zeros(2 * self.table.size, np.int32)
            stacks.index_call_paths(self.paths, state[stacks.N_NODES], self.table)
        if state[stacks.N_CALLS] >= self.calls.node.size:
            self.calls = arrays.doubled(self.calls)
        if state[stacks.N_ATTRIBUTED] >= self.attributed.kind.size:
            self.attributed = arrays.doubled(self.attributed)
        if state[stacks.TEAM_DEPTH] + 1 >= self.team_stack.size:
            self.team_stack = np.concatenate([self.team_stack, np.full_like(self.team_stack, -1)])

    def clear(self) -> None:
        """Make them as new for the next location, apart from sizes; those of very many call paths are given up."""
        if self.table.size > LARGE_TABLE:
            fresh = ScanBuffers.make()
            self.frames, self.paths, self.table, self.chain = fresh.frames, fresh.paths, fresh.table, fresh.chain
        else:
            arrays.relink(self.frames)
            self.table[:] = 0
            self.paths.exclusive[:] = self.paths.visits[:] = 0
        self.team_stack[:] = -1


class BufferPool:
    """Buffers that are used by one scan after the other: fresh memory costs as much as writing to it."""

    def __init__(self) -> None:
        self._free: list[ScanBuffers] = []

    def take(self) -> ScanBuffers:
        """Return buffers that no scan uses."""
        try:
            return self._free.pop()
        except IndexError:
            return ScanBuffers.make()

    def give(self, buffers: ScanBuffers) -> None:
        """Take buffers back."""
        buffers.clear()
        self._free.append(buffers)


def flush_stops_of(store: Store, locations: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return when the buffer flushes of some locations end, in their order; a (n_flushes,) int64 array of ticks for each.

    Parameters
    ----------
    store : Store
    locations : (n,) int64
        Rows of locations, ascending.
    """
    if not any(store.n_rows("control", i) for i in locations.tolist()):
        return [np.zeros(0, np.int64)] * locations.size
    control, counts = store.read_together("control", locations, ["kind", "stop_time"])
    is_flush = control["kind"] == EventKind.BUFFER_FLUSH
    before = np.concatenate([[0], np.cumsum(is_flush)])[np.cumsum(counts)[:-1]]
    return np.split(control["stop_time"][is_flush], before)


RESULTS = (
    "store", "location", "n", "done", "first_row", "published", "first_time", "last_time", "program", "node_parent", "node_entry",
    "node_row", "node_time", "exclusive", "visits", "n_calls", "n_attributed", "has_tasks", "calls", "events", "global_numbers",
    "global_calls", "bad_exits", "open", "disordered", "_thread_events", "divider", "node_period", "phase_begin", "phase_end", "nested",
)  # fmt: skip
"""Attributes of a `LocationScan` that later steps read."""


class LocationScan:
    """The pass over one location: `enter_threads`, then `advance` until `done`.

    Attributes
    ----------
    node_parent, node_entry, node_row, node_time, exclusive, visits
        The location's call paths after the pass: parent (own number, -1, or a FOREIGN code), entry (`Regions.of_entry`), row
        and time of the first ENTER, exclusive ticks, visits.
    calls : Columns
        `CALL_INSTANCES`; without `tasks` where no explicit task was executed.
    events : Columns
        `ATTRIBUTED_EVENTS`.
    global_numbers : (n,) int64
        The call instances that join all processes at once: one-sided communication, files, start and end of MPI.
    global_calls : Columns
        These.
    n_calls, n_attributed : int
        How many call instances and attributed events there are.
    first_time, last_time : int
        Ticks of the first and last event.
    program : int
        The call path of the program the location records; negative if it records none.
    bad_exits, open : int
        EXITs that do not match their ENTER; region instances that never end.
    disordered : int
        ENTERs and EXITs whose time lies before that of an event before them, or before the end of a buffer flush.
    node_period : (n,) int32
        Period of each call path, -1 outside. Call paths with a negative entry stand for periods only: `stacks.FIRST_PERIOD` less
        the number.
    phase_begin, phase_end : (n_phases,) int64
        Ticks of the phases of the location.
    nested : int
        Instances that would begin a phase, but stand in one.
    """

    def __init__(
        self, store: Store, regions: Regions, teams: Teams, order: EventOrder, location: int, first_row: int,
        spill: Spill | None = None, pool: BufferPool | None = None, flush_stops: NDArray[np.int64] | None = None,
        is_device: bool = False, divider: Divider = WHOLE,
    ) -> None:  # fmt: skip
        self.divider = divider
        self.store, self.regions, self.order, self.location = store, regions, order, location
        self._spill, self._pool = spill or ColumnSpill(), pool or BufferPool()
        self._thread_events = teams.events[location]
        self.n = store.n_rows("events", location)
        self.done = False
        self.at = 0
        self._master, self._fork = teams.masters_of(location)
        self._forker = int(teams.forker[location])
        self._spans: ForkSpans | None = None
        self._interval_start = self._interval_stop = self._last_join = np.zeros(0, np.int64)
        self._n_over = 0
        self._action = FORKER_ACTION if self._forker == location else ACTION
        others = self._master[self._master >= 0]
        self.depends = np.unique(others) if others.size else others
        self._parents = np.full(self._master.size, stacks.NO_PARENT, np.int64)
        self._programs = self._parents.copy()
        self._team_periods = np.full(self._master.size, -1, np.int64)
        self._known = int((np.cumsum(self._master >= 0) == 0).sum())
        self.state = FIRST_STATE.copy()
        self.first_row = first_row
        self.published = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.first_time = self.last_time = 0
        self.program = -1
        self._buffers: ScanBuffers | None = None
        self._thread_begin: tuple[int, int] | None = None
        self._stop_times = flush_stops_of(store, np.array([location]))[0] if flush_stops is None else flush_stops
        tasks = TaskEvents.of(store, location)
        self._task_slots = tasks.slot
        sites = store.read("enter_sites", location) if store.n_rows("enter_sites", location) else None
        self._site_rows = sites["row"] - first_row if sites else np.zeros(0, np.int64)
        self._sites = sites["call_site"] if sites else np.zeros(0, np.int32)
        self._tasks = arrays.zeros(stacks.Tasks, tasks.n_tasks)
        self._tasks.top[:] = self._tasks.stub[:] = -1
        # whatever runs on a stream of a device is joined with the host
        flags = regions.flags | np.uint8(stacks.IS_CALL) if is_device else regions.flags
        flags = flags | divider.fits[0].astype(np.uint8) * np.uint8(stacks.IS_PHASE) if divider.fits.size else flags
        self._meanings = stacks.Meanings(self._action, regions.of_entry, flags, np.int32(regions.tasks))

    def __getstate__(self) -> dict[str, Any]:
        """Keep what the pass found; what it worked with stays where it was."""
        if not self.done:
            raise TypeError("a scan that is not done cannot be pickled")
        return {name: getattr(self, name) for name in RESULTS}

    def enter_threads(self) -> None:
        """Let a thread that the program creates begin below THREADS, which stands below the program, as the reference has it.

        Programs that are not recorded have none; a location that records the program is its main thread.
        """
        recorded = self.store.manifest["events_by_kind"]
        if not all(str(int(kind)) in recorded for kind in (EventKind.THREAD_BEGIN, EventKind.PROGRAM_BEGIN)):
            return
        if not self.store.n_rows("threads", self.location):
            return
        threads = self.store.read("threads", self.location, ["row", "kind"])
        rows = threads["row"][threads["kind"] == EventKind.THREAD_BEGIN]
        if not rows.size:
            return
        if (self.store.read("control", self.location, ["kind"])["kind"] == EventKind.PROGRAM_BEGIN).any():
            return
        at = int(rows[0]) - self.first_row
        time = self.store.read("events", self.location, ["time"], at, at + 1)["time"]
        self._thread_begin = int(rows[0]), int(time[0])
        self.state[stacks.N_NODES] = 1
        self.state[[stacks.BASE, stacks.HOME]] = 0

    def inherited(self) -> NDArray[np.bool_]:
        """Whether each call path begins with the one of a FORK elsewhere: what a worker does within a team; (n,) bool."""
        # up to the root in steps that double: O(n log depth)
        top = np.where(self.node_parent >= 0, self.node_parent, np.arange(self.node_parent.size))
        while (top != top[top]).any():
            top = top[top]
        above = self.node_parent[top]
        is_inherited: NDArray[np.bool_] = (above < -1) & (above != stacks.IN_PROGRAM)
        return is_inherited

    @property
    def progress(self) -> int:
        """A number that grows with every step."""
        return self.at + self._known + self.done

    def fork_spans(self, order: EventOrder) -> ForkSpans:
        """Return the FORKs of this location and their JOINs, after the pass; `order` is that of the trace."""
        kind = self.events.column("kind")
        mine = np.flatnonzero((IS_FORK | IS_JOIN)[kind])
        is_fork = IS_FORK[kind[mine]]
        join = pair_nested(is_fork, ~is_fork)[is_fork]
        events = self._thread_events
        of_team = (IS_FORK | IS_JOIN)[events.kind]
        row = events.row[of_team]
        if not np.array_equal(IS_FORK[events.kind[of_team]], is_fork):
            raise self._damaged("its forks and joins do not follow each other as in the table threads")
        time, node = order.time(row, self.events.column("time")[mine]), self.events.column("node")[mine]
        return ForkSpans(
            row[is_fork],
            pick(row, join),
            time[is_fork],
            pick(time, join, self.last_time),
            node[is_fork],
            pick(node, join),
        )

    def _team_intervals(self, time: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the rows between which this thread belongs to the teams another one forks, as far as a batch tells."""
        nothing = np.zeros(0, np.int64)
        if self._spans is None or not time.size:
            return nothing, nothing
        spans = self._spans
        base = int(self.state[stacks.ROW])
        time = self.order.times_of(base, time)
        start, stop = self._interval_start, self._interval_stop
        # teams that were joined before this batch are over; nested ones are joined before those around them
        low = int(np.searchsorted(self._last_join, time[0]))
        high = int(np.searchsorted(spans.fork_time, time[-1], "right"))
        stop[self._n_over : low] = 0
        self._n_over = max(low, self._n_over)
        for bounds, row, at in (
            (start, spans.fork_row[low:high], spans.fork_time[low:high]),
            (stop, spans.join_row[low:high], spans.join_time[low:high]),
        ):
            # at the same time as a FORK or JOIN the forking thread, which is the master, goes first
            bound = np.searchsorted(time, at)
            n = np.searchsorted(time, at, "right") - bound
            of = np.flatnonzero((n > 0) & self.order.is_listed(row))
            if of.size:
                n = n[of]
                k = np.repeat(np.arange(of.size), n)
                tied = base + ranges(bound[of], n)
                before = self.order.tie_order(tied) < self.order.tie_order(row[of])[k]
                bound[of] += np.bincount(k[before], minlength=of.size)
            bounds[low:high] = np.where(row >= 0, base + bound, np.iinfo(np.int64).max)
        return start, stop

    def _inherit(self, others: Mapping[int, LocationScan] | Sequence[LocationScan], give_up: bool) -> None:
        """Look up the call paths of teams whose masters have come far enough by now."""
        if self._forker not in (-1, self.location):
            if self._spans is None and others[self._forker].done:
                self._spans = others[self._forker].fork_spans(self.order)
                self._last_join = np.maximum.accumulate(self._spans.join_time)
                n = self._spans.fork_row.size
                self._interval_start, self._interval_stop = (np.full(n, np.iinfo(np.int64).max) for _ in range(2))
                self._n_over = 0
                at = self._spans.node.astype(np.int64)
                inherited = FOREIGN - (self._forker << 32 | np.maximum(at, 0))
                self._parents = np.where(at >= 0, inherited, stacks.ROOT_IN_TEAM)
                self._programs = np.full(self._parents.size, stacks.NO_PARENT, np.int64)
                self._team_periods = np.full(self._parents.size, -1, np.int64)
                if not self.divider.by_time:
                    self._team_periods = pick(others[self._forker].node_period, at).astype(np.int64)
                self._known = self._parents.size
            return
        if not self._master.size:
            return
        unknown = slice(self._known, None)
        master, fork = self._master[unknown], self._fork[unknown]
        parents, programs, periods = self._parents[unknown], self._programs[unknown], self._team_periods[unknown]
        forked = np.zeros(master.size, bool)
        for m in self.depends.tolist():
            nodes, its_programs, its_periods = others[m].published
            mine = np.flatnonzero((master == m) & (fork < nodes.size))
            forked[mine] = True
            node, program = nodes[fork[mine]], its_programs[fork[mine]]
            program[node < 0] = stacks.NO_PARENT
            programs[mine] = np.where(program >= 0, FOREIGN - (m << 32 | np.maximum(program, 0)), program)
            parents[mine] = np.where(node >= 0, FOREIGN - (m << 32 | np.maximum(node, 0)), stacks.ROOT_IN_TEAM)
            periods[mine] = its_periods[fork[mine]]
        lacking = np.flatnonzero((master >= 0) & ~forked)
        n = int(lacking[0]) if lacking.size and not give_up else master.size
        self._known += n

    def prepare(self, others: Mapping[int, LocationScan] | Sequence[LocationScan], first_time: int) -> None:
        """Get ready for the first event; `others` say what can be inherited by now."""
        self._inherit(others, False)
        self._buffers = self._pool.take()
        if self._thread_begin is not None:
            paths = self._buffers.paths
            paths.parent[0], paths.entry[0], paths.recent[0] = stacks.IN_PROGRAM, self.regions.threads, -1
            paths.row[0], paths.time[0], paths.period[0] = *self._thread_begin, -1
            stacks.index_call_paths(paths, 1, self._buffers.table)
        self.first_time = first_time
        self.state[stacks.LAST] = first_time
        self.state[stacks.ROW] = self.first_row
        if self.divider.by_time:
            self.state[stacks.PERIOD] = np.searchsorted(self.divider.edges, first_time, "right")

    def advance(self, others: Mapping[int, LocationScan] | Sequence[LocationScan], give_up: bool = False) -> None:
        """Go on until the end or until a team's master has to come first."""
        self._inherit(others, give_up)
        if self._forker not in (-1, self.location) and self._spans is None and not give_up:
            return
        if not self.n:
            self.prepare(others, 0)
        while self.at < self.n:
            columns = self.store.read("events", self.location, None, self.at, self.at + BATCH, checked=False)
            entry = self.entries(columns["region"])
            if self._buffers is None:
                self.prepare(others, int(columns["time"][0]))
            self.state[stacks.ROW] = self.first_row + self.at
            events = stacks.Events(columns["time"], columns["kind"], entry)
            blocked = self.run(events, arrays.zeros(stacks.Pointers, 0))
            if blocked >= 0:
                self.at += blocked
                self._publish()
                return
            self.at += columns["time"].size
            self.last_time = int(columns["time"][-1])
        self._finish()

    def entries(self, region: NDArray[np.int32]) -> NDArray[np.int32]:
        """Put the call sites of the batch that begins at event `at` in place of the regions they enter."""
        if not self._site_rows.size:
            return region
        low, high = np.searchsorted(self._site_rows, [self.at, self.at + region.size])
        result = region.copy()
        at, entry = self._site_rows[low:high] - self.at, len(self.regions) + self._sites[low:high]
        entered = self.regions.of_entry[entry]
        if (entered != region[at]).any() or (entered < 0).any():
            raise self._damaged("an event enters another region than its call site in the table enter_sites")
        result[at] = entry
        return result

    def run(self, events: stacks.Events, pointers: stacks.Pointers) -> int:
        """Scan a batch; -1, or the event at which the pass has to wait."""
        at, b = 0, self._used()
        intervals = self._team_intervals(events.time)
        sides = stacks.SideValues(
            self._stop_times,
            self._task_slots,
            self._parents,
            self._programs,
            *intervals,
            self._team_periods,
            self._known,
        )
        while True:
            why, at = stacks.scan_events(
                events, at, self.state, self._meanings, sides, self._periods(), b.frames, b.paths, b.table, b.calls,
                b.attributed, b.team_stack, self._tasks, pointers,
            )  # fmt: skip
            if why == stacks.DONE:
                return -1
            if why == stacks.BLOCKED:
                return int(at)
            if why == stacks.DAMAGED:
                kind = int(events.kind[at])
                row = int(self.state[stacks.ROW]) + int(at)
                raise self._damaged(
                    f"event {row} is a {NAMES.get(kind, kind)} that enters region {events.entry[at]}, or has no row in its side table"
                )
            b.grow(self.state)

    def _periods(self) -> stacks.Periods | None:
        """Return what divides the time, with the buffers in use."""
        b, d = self._used(), self.divider
        if d.mode is None:
            return None
        return stacks.Periods(d.mode, d.fits, d.edges, b.chain, b.begin, b.end)

    def _pass_edges(self) -> None:
        """Divide the time until the end of the location at the edges of bins."""
        state, b, edges = self.state, self._used(), self.divider.edges
        end = max(self.last_time, int(state[stacks.FLUSHED]))
        while state[stacks.PERIOD] < edges.size and edges[state[stacks.PERIOD]] <= end:
            state[stacks.LAST] = stacks.pass_edges(
                end, state[stacks.LAST], state[stacks.ROW], state[stacks.TOP], state[stacks.TASK], state, self._periods(),
                b.frames, b.paths, b.table, self._tasks,
            )  # fmt: skip
            b.grow(state)

    def give_back(self) -> None:
        """Give the buffers back to the pool, when the scan needs them no more."""
        if self._buffers is not None:
            self._pool.give(self._buffers)
            self._buffers = None

    def _used(self) -> ScanBuffers:
        """Return the buffers of a scan that has begun."""
        assert self._buffers is not None
        return self._buffers

    def _damaged(self, what: str) -> StoreError:
        return self.store.damaged(f"location {self.location}: {what}")

    def _compare(self) -> None:
        """Compare the events of the location, after the pass, with the rows of its side tables."""
        state, n_rows = self.state, self.store.n_rows
        begins = self._parents.size if self._forker in (-1, self.location) else int(state[stacks.N_TEAMS])
        for what, found, expected in (
            ("buffer flushes", int(state[stacks.N_FLUSHES]), self._stop_times.size),
            ("switches of tasks", int(state[stacks.N_SWITCHES]), self._task_slots.size),
            ("begins in teams", int(state[stacks.N_TEAMS]), begins),
            ("forks", self.published[0].size, self._n_forks),
        ):
            if found != expected:
                raise self._damaged(f"{found} {what} among its events, {expected} in their side table")
        sides = sum(n_rows(family, self.location) for family in ("p2p", "collectives", "locks", "rma"))
        values = sum(n_rows(table, self.location) for table in self.store.tables if table.startswith("metrics_"))
        noted = int(state[stacks.N_ATTRIBUTED]) - sides - self._thread_events.row.size - self._task_slots.size
        if noted != values:
            # a METRIC may have a source without a class, and then has no values
            kind = self._used().attributed.kind[: state[stacks.N_ATTRIBUTED]]
            metrics = int((kind == EventKind.METRIC).sum())
            classes = to_numpy(self.store.definition("metric_sources").column("metric_class"))
            if noted != metrics or metrics < values or not (classes < 0).any():
                n = kind.size
                raise self._damaged(f"{n} events with attributes, {n - noted + values} rows in their side tables")

    def _publish(self) -> None:
        """Let threads that were forked here know where: the call path of every FORK so far, and the program it belongs to."""
        events = self._thread_events
        row = events.row[IS_FORK[events.kind]]
        self._n_forks = row.size
        attributed = arrays.first(self._used().attributed, int(self.state[stacks.N_ATTRIBUTED]))
        nodes = attributed.node[IS_FORK[attributed.kind]].astype(np.int64)
        if row.size < nodes.size:
            raise self._damaged(f"{nodes.size} forks among its events, {row.size} in the table threads")
        program = int(self.state[stacks.PROGRAM])
        programs = np.where(row[: nodes.size] > self.state[stacks.PROGRAM_ROW], program, stacks.NO_PARENT)
        periods = self._used().paths.period if not self.divider.by_time else np.zeros(0, np.int32)
        # at once: threads look at it while this one goes on
        self.published = nodes, programs, pick(periods, nodes).astype(np.int64)

    def _finish(self) -> None:
        state, b = self.state, self._used()
        if self.divider.by_time:
            self._pass_edges()
        stacks.close_frames(self.last_time, state, self._periods(), b.frames, b.paths, b.calls, self._tasks)
        self._publish()
        self._compare()
        paths = arrays.first(b.paths, int(state[stacks.N_NODES]))
        self.node_parent, self.node_entry = paths.parent.copy(), paths.entry.copy()
        self.node_row, self.node_time = paths.row.copy(), paths.time.copy()
        self.exclusive, self.visits = paths.exclusive.copy(), paths.visits.copy()
        self.node_period = paths.period.copy()
        n_phases = int(state[stacks.N_PHASES])
        self.phase_begin, self.phase_end = b.begin[:n_phases].copy(), b.end[:n_phases].copy()
        self.nested = int(state[stacks.N_NESTED])
        self.n_calls, self.n_attributed = int(state[stacks.N_CALLS]), int(state[stacks.N_ATTRIBUTED])
        columns = arrays.first(b.calls, self.n_calls)._asdict()
        self.has_tasks = bool(columns["tasks"].any())
        if not self.has_tasks:
            del columns["tasks"]
        calls = Columns(self.n_calls, columns)
        events = Columns(self.n_attributed, arrays.first(b.attributed, self.n_attributed)._asdict())
        self.calls: ColumnSource = self._spill.keep(calls, CLOSE_TO, borrowed=True)
        self.events: ColumnSource = self._spill.keep(events, borrowed=True)
        self._choose(calls, events)
        self.give_back()
        self.program = int(state[stacks.PROGRAM])
        self.bad_exits, self.open = int(state[stacks.BAD_EXITS]), int(state[stacks.OPEN])
        self.disordered = int(state[stacks.DISORDERED])
        self.done = True
        del self._tasks, self._master, self._fork, self._parents, self._programs, self._team_periods
        del self._stop_times, self._task_slots
        self._spans = None
        self._interval_start = self._interval_stop = self._last_join = np.zeros(0, np.int64)

    def _choose(self, calls: Columns, events: Columns) -> None:
        """Put aside the call instances that join all processes at once: one-sided communication, files, start and end of MPI."""
        kept = np.zeros(self.n_calls, bool)
        regions = self.regions
        startup = (regions.is_init | regions.is_finalize | regions.is_file)[
            regions.of_entry[np.maximum(self.node_entry, 0)]
        ]
        if startup.any():
            kept = startup[calls.node]
        call = events.call[JOINS_ALL[events.kind]]
        kept[call[call >= 0]] = True
        self.global_numbers = np.flatnonzero(kept)
        chosen = calls.take(self.global_numbers)
        self.global_calls: ColumnSource = self._spill.keep(chosen) if call.size else chosen


def plan_waves(n_events: list[int], process: NDArray[np.int32], size: int) -> list[NDArray[np.int64]]:
    """Divide locations into waves of whole processes with about `size` events, at least one process in each.

    Parameters
    ----------
    n_events : list of int
        Number of events of every location.
    process : (n_locations,) int32
        Process of each location.
    size : int
        Events.
    """
    waves: list[NDArray[np.int64]] = []
    members: list[NDArray[np.int64]] = []
    filled = 0
    by_process = np.argsort(process, kind="stable")
    starts = np.flatnonzero(np.diff(process[by_process], prepend=-1))
    for locations in np.split(by_process, starts[1:]) if by_process.size else []:
        n = sum(n_events[i] for i in locations.tolist())
        if members and filled + n > size:
            waves.append(np.concatenate(members))
            members, filled = [], 0
        members.append(locations)
        filled += n
    return [*waves, np.concatenate(members)] if members else waves


def plan_processes(
    members: NDArray[np.int64], n_events: list[int], process: NDArray[np.int32], size: int
) -> list[NDArray[np.int64]]:
    """Divide some locations as `plan_waves` does all of them.

    Parameters
    ----------
    members : (n,) int64
        Rows of locations.
    n_events : list of int
        Number of events of every location of the trace.
    process : (n_locations,) int32
        Process of each.
    size : int
        Events.
    """
    return [members[group] for group in plan_waves([n_events[i] for i in members.tolist()], process[members], size)]


def group_scans(scans: list[LocationScan]) -> list[list[LocationScan]]:
    """Put neighbours with few events together for one thread, and those with most events first.

    Parameters
    ----------
    scans : list of LocationScan
        In the order of their locations.
    """
    groups: list[list[LocationScan]] = []
    sizes: list[int] = []
    for scan in scans:
        if sizes and sizes[-1] + scan.n <= GROUP:
            groups[-1].append(scan)
            sizes[-1] += scan.n
        else:
            groups.append([scan])
            sizes.append(scan.n)
    return [groups[k] for k in sorted(range(len(groups)), key=lambda k: -sizes[k])]


def scan_locations(
    store: Store,
    regions: Regions,
    locations: Locations,
    order: EventOrder,
    first_rows: NDArray[np.int64],
    jobs: int,
    spill: Spill,
    progress: Callable[[int, int], None] | None = None,
    divider: Divider = WHOLE,
    members: NDArray[np.int64] | None = None,
) -> list[LocationScan]:
    """Scan locations, wave by wave; those that inherit from others after them.

    Parameters
    ----------
    store : Store
    regions : Regions
        Regions of the trace.
    locations : Locations
        Locations of the trace.
    order : EventOrder
        Order of events across locations.
    first_rows : (n_locations,) int64
        Row of the first event of each location.
    jobs : int
        Threads.
    spill : Spill
        Where call instances and attributed events go that exceed the buffer pool.
    progress : callable, optional
        Called with the number of events done and the number of all.
    divider : Divider, optional
        What divides the time of the locations into periods.
    members : (n,) int64, optional
        Rows of the locations of whole processes, ascending; all by default.

    Returns
    -------
    list of LocationScan
        In the order of the locations; the same for every number of jobs and division into waves.
    """
    n_events = store.n_events.tolist()
    chosen = np.arange(first_rows.size) if members is None else members
    total, done = sum(n_events[i] for i in chosen.tolist()), 0
    found: dict[int, LocationScan] = {}
    buffers = BufferPool()

    def prepare(members: NDArray[np.int64]) -> dict[int, LocationScan]:
        teams = Teams(store, locations, members)
        scans = {
            i: LocationScan(
                store,
                regions,
                teams,
                order,
                i,
                int(first_rows[i]),
                spill,
                buffers,
                stops,
                bool(locations.is_device[i]),
                divider,
            )
            for i, stops in zip(members.tolist(), flush_stops_of(store, members), strict=True)
        }
        for scan in scans.values():
            scan.enter_threads()
        return scans

    with ThreadPoolExecutor(jobs) as pool:
        # a wave is prepared while the one before it is scanned
        waves = iter(plan_processes(chosen, n_events, locations.process, WAVE))

        def prepare_next() -> list[Future[dict[int, LocationScan]]]:
            return [
                pool.submit(prepare, group)
                for wave in islice(waves, 1)
                for group in plan_processes(wave, n_events, locations.process, TEAMS)
            ]

        following = prepare_next()
        while following:
            wave = {i: scan for future in following for i, scan in future.result().items()}
            following = prepare_next()
            found.update(wave)

            def report(n: int, before: int = done) -> None:
                if progress is not None:
                    progress(before + n, total)

            _scan_wave(list(wave.values()), found, pool, report)
            done += sum(n_events[i] for i in wave)
    return [found[i] for i in chosen.tolist()]


def _scan_wave(
    scans: list[LocationScan], found: dict[int, LocationScan], pool: ThreadPoolExecutor, report: Callable[[int], None]
) -> None:
    """Scan some locations, and all that those need; `report` is told how many events are scanned."""
    waiting = scans
    ready = [s for s in scans if not s.depends.size]
    while waiting:
        before = sum(s.progress for s in scans)
        list(pool.map(lambda group: [s.advance(found) for s in group], group_scans(ready)))
        waiting = [s for s in waiting if not s.done]
        if ready and sum(s.progress for s in scans) == before:
            # the masters of these teams never fork: their threads have no call path above
            for s in waiting:
                s.advance(found, give_up=True)
            waiting = [s for s in waiting if not s.done]
        ready = waiting
        report(sum(s.at for s in scans))
