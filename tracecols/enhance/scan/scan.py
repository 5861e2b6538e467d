"""The pass over each location's events: call paths, profile, and the call instances and attributed events that joins
need.

Scope: one location. All it needs from another location is the call path that a thread inherits from the thread that
forked it (thesis 3.20). If the master of a team is not scanned up to its FORK yet, the scan pauses and is resumed
later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, ColumnSlice, ColumnSource, joined, joined_column, merged, pick
from tracecols.enhance.dataflow.grouping import mask_of, pair_nested, ranges
from tracecols.enhance.dataflow.partitions import whole_processes
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.definitions.locations import Locations
from tracecols.enhance.definitions.order import EventOrder
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.scan.gaps import WINDOW_EVENTS, find_gaps, sample_times
from tracecols.enhance.scan.periods import WHOLE, Divider
from tracecols.enhance.scan.tasks import TaskEvents
from tracecols.enhance.scan.teams import FORKS, IS_FORK, IS_JOIN, JOINS, ForkSpans, TeamBegins, TeamEvents, Teams
from tracecols.errors import StoreError
from tracecols.kernels import actions, arrays, stacks
from tracecols.kernels.actions import action_table
from tracecols.kernels.gaps import Gaps
from tracecols.schema import KINDS, NAMES, EventKind
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.work.executors import Report, not_reported
from tracecols.work.large import LargeArrays, blocks

BATCH = 1 << 20
"""Events per kernel call."""

WAVE = 1 << 24
"""Events per thread of the processes that are scanned together, which limits memory; a process is never split."""

WAVE_BYTES = 40
"""Approximate bytes of memory per event of a wave: events of teams, and call instances and attributed events of
locations that are being scanned or wait for the location that forked them."""

TEAMS = 1 << 20
"""Events of the processes whose teams one task finds: at most 16 tasks per thread."""

GROUP = 1 << 18
"""Events of the locations that one thread scans one after the other. Small locations share row groups and buffers,
their results share files, and there are fewer tasks. With a quarter of this, the system took 0.4 s more to create files
for `halo` with 256 processes and 2 x 10^7 events."""

SMALL = 1 << 11
"""If a location has fewer events, its scan takes longer in Python than in kernels (160 us, and 85 ns per event), and
threads would wait for the interpreter lock: for 10,000 locations of 200 events two threads took 2.1 s, one takes
1.7."""

CHAIN = 64
"""Maximum number of call paths above those of a stack: of the program and of explicit tasks."""

LARGE_TABLE = 1 << 14
"""A hash table of call paths with more entries is not reused: otherwise every location would need as much memory as the
one with the most call paths."""

JOINS_ALL = mask_of(k.number for k in KINDS if k.family == "rma" or k.name.startswith("NON_BLOCKING_COLLECTIVE"))
"""Kinds of events whose call instances are joined across all processes at once."""

SIDE_FAMILIES = ("p2p", "collectives", "locks", "rma")
"""Side tables of attributed events other than those of threads, tasks and metrics."""

CLOSE_TO = {"exit": "enter", "exit_time": "enter_time"}
"""Columns of call instances whose values are close to those of another column (see `Spill.keep`)."""

FOREIGN = -2
"""Codes less than or equal to this refer to call paths of other locations: FOREIGN - (location << 32 | call path)."""


ACTION = action_table(
    actions.PUSH,
    actions.POP,
    actions.ON_OFF,
    actions.FLUSH,
    actions.FORK,
    actions.JOIN,
    actions.TEAM_BEGIN,
    actions.TEAM_END,
    actions.TASK_SWITCH,
    actions.TASK_COMPLETE,
    actions.ATTRIBUTE,
    actions.ATTRIBUTE_CALL,
)
"""Action of each kind of event in the scan of a location."""

ATTRIBUTED: NDArray[np.bool_] = mask_of(
    actions.kinds_that(
        actions.FORK,
        actions.JOIN,
        actions.TEAM_BEGIN,
        actions.TEAM_END,
        actions.TASK_SWITCH,
        actions.TASK_COMPLETE,
        actions.ATTRIBUTE,
        actions.ATTRIBUTE_CALL,
    )
)
"""Kinds of attributed events; (256,) bool."""

IS_TEAM_BEGIN: NDArray[np.bool_] = mask_of(actions.kinds_that(actions.TEAM_BEGIN))
"""Kinds of events with which a thread begins in a team; (256,) bool."""

IS_OF_TEAM = IS_FORK | IS_JOIN
"""Kinds of events that fork and join teams; (256,) bool."""

FORKER_ACTION = ACTION.copy()
FORKER_ACTION[list(FORKS)], FORKER_ACTION[list(JOINS)] = actions.TEAM_BEGIN, actions.TEAM_END
"""Actions for a thread whose FORKs begin its teams, because no other events do."""


FIRST_STATE = np.zeros(stacks.N_STATE, np.int64)
"""Initial state of a scan."""
FIRST_STATE[[stacks.TOP, stacks.BASE, stacks.PROGRAM, stacks.FIRST_BAD_EXIT]] = -1
FIRST_STATE[[stacks.PERIOD, stacks.PERIOD_FRAME, stacks.TEAM_PERIOD]] = -1
FIRST_STATE[stacks.FLUSHED], FIRST_STATE[stacks.HOME] = np.iinfo(np.int64).min, stacks.NO_PARENT
FIRST_STATE[stacks.FREE] = stacks.NOT_BEGUN


OWN = [stacks.N_NODES, stacks.N_CALLS, stacks.N_ATTRIBUTED, stacks.N_PHASES]
"""Elements of the state that count the rows a location has in the buffers, in the order of `ScanBuffers.filled`."""

NOTED = [
    stacks.N_CALLS, stacks.N_ATTRIBUTED, stacks.PROGRAM, stacks.BAD_EXITS, stacks.OPEN, stacks.DISORDERED,
    stacks.N_NESTED,
]  # fmt: skip
"""Elements of the state that are noted when the scan of a location ends (`LocationScan.note`)."""

NOTHING = np.zeros(0, np.int64)
"""Empty array of locations that have nothing of a kind; never written to."""

NO_POINTERS = arrays.zeros(stacks.Pointers, 0)
"""Used if no pointer columns are requested."""


def charges_of(n: int) -> stacks.Charges:
    """Allocate arrays for `n` charges of exclusive time."""
    begin, end, node = (np.empty(n, np.int64) for _ in range(3))
    return stacks.Charges(begin, end, node, np.zeros(1, np.int64))


NO_CHARGES = charges_of(0)
"""Used if charges of exclusive time are not requested."""


def tasks_of(n: int) -> stacks.Tasks:
    """Return the initial state of `n` tasks, none of which has begun."""
    found = arrays.zeros(stacks.Tasks, n)
    found.top[:] = found.stub[:] = found.gap[:] = -1
    return found


ONE_TASK = tasks_of(1)
"""The implicit task of a location that never switches between tasks; never written to."""

IN_PROGRAMS = tuple(str(int(kind)) for kind in (EventKind.THREAD_BEGIN, EventKind.PROGRAM_BEGIN))
"""Kinds of events in traces that record the program and its threads."""


@dataclass
class ScanBuffers:
    """Work arrays that scans of locations use one after the other (`kernels.stacks`).

    Call paths, call instances and attributed events of the locations in `ended` stay at the front until `keep_results`
    stores them. Those of the location being scanned follow, from the positions in `filled` on
    (`stacks.scan_locations`).
    """

    frames: stacks.Frames
    paths: stacks.CallPaths
    table: NDArray[np.int32]
    calls: stacks.CallInstances
    attributed: stacks.AttributedEvents
    team_stack: NDArray[np.int64]
    chain: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2 * (64 + CHAIN), np.int64))
    begin: NDArray[np.int64] = field(default_factory=lambda: np.zeros(16, np.int64))
    end: NDArray[np.int64] = field(default_factory=lambda: np.zeros(16, np.int64))
    ended: list[LocationScan] = field(default_factory=list)
    filled: NDArray[np.int64] = field(default_factory=lambda: np.zeros(stacks.N_FILLED, np.int64))
    large: LargeArrays = field(default_factory=LargeArrays)

    @classmethod
    def make(cls, large: LargeArrays | None = None) -> ScanBuffers:
        """Create small buffers; those that grow with a location are allocated by `large`, by default in memory."""
        found = cls(
            arrays.linked(stacks.Frames, 64),
            arrays.zeros(stacks.CallPaths, 256),
            np.zeros(512, np.int32),
            arrays.zeros(stacks.CallInstances, 1 << 12),
            arrays.zeros(stacks.AttributedEvents, 1 << 12),
            np.full(16, -1, np.int64),
        )
        found.large = LargeArrays() if large is None else large
        return found

    def grow(self, state: NDArray[np.int64]) -> None:
        """Double the buffers that are full, for the location with this state."""
        n_paths, n_calls, n_attributed, n_phases = self.filled[: stacks.FREE_FRAME].tolist()
        if state[stacks.FREE] == -1:
            self.frames, state[stacks.FREE] = arrays.more_linked(self.frames)
            self.chain = np.zeros(2 * (self.frames.below.size + CHAIN), np.int64)
        if n_phases + state[stacks.N_PHASES] >= self.begin.size:
            self.begin, self.end = (np.concatenate([a, np.zeros_like(a)]) for a in (self.begin, self.end))
        is_full = 2 * (state[stacks.N_NODES] + state[stacks.ROOM]) > self.table.size
        while 2 * (state[stacks.N_NODES] + state[stacks.ROOM]) > self.table.size:
            self.table = np.zeros(2 * self.table.size, np.int32)
        while n_paths + self.table.size // 2 > self.paths.parent.size:
            self.paths = arrays.doubled(self.paths)
        if is_full:
            stacks.index_call_paths(arrays.after(self.paths, n_paths), state[stacks.N_NODES], self.table)
        if n_calls + state[stacks.N_CALLS] >= self.calls.node.size:
            self.calls = arrays.doubled(self.calls, self.large.zeros)
        if n_attributed + state[stacks.N_ATTRIBUTED] >= self.attributed.kind.size:
            self.attributed = arrays.doubled(self.attributed, self.large.zeros)
        if state[stacks.TEAM_DEPTH] + 1 >= self.team_stack.size:
            self.team_stack = np.concatenate([self.team_stack, np.full_like(self.team_stack, -1)])

    def periods(self, divider: Divider, focus: NDArray[np.int64]) -> stacks.Periods | None:
        """Return the periods of locations as kernels take them, or None if time is not divided; `focus` is theirs."""
        if divider.mode is None:
            return None
        return stacks.Periods(divider.mode, divider.fits, divider.edges, focus, self.chain, self.begin, self.end)

    def forget_ended(self, state: NDArray[np.int64]) -> None:
        """Discard the results of the locations that ended; those of the location being scanned, which has this state,
        move to the front."""
        columns = (self.paths, self.calls, self.attributed, (self.begin, self.end))
        filled = self.filled[: stacks.FREE_FRAME].tolist()
        for rows, n, n_own in zip(columns, filled, state[OWN].tolist(), strict=True):
            for column in rows if n and n_own else ():
                column[:n_own] = column[n : n + n_own]
        self.ended = []
        self.filled[: stacks.FREE_FRAME] = 0

    def clear(self) -> None:
        """Replace the buffers of call paths by small ones if they grew beyond `LARGE_TABLE`."""
        if self.table.size > LARGE_TABLE:
            fresh = ScanBuffers.make()
            self.frames, self.paths, self.table, self.chain = fresh.frames, fresh.paths, fresh.table, fresh.chain
            self.filled[stacks.FREE_FRAME] = 0


class BufferPool:
    """Buffers that are reused by later scans: fresh memory costs as much as writing to it."""

    def __init__(self, large: LargeArrays) -> None:
        self._large = large
        self._free: list[ScanBuffers] = []

    def take(self) -> ScanBuffers:
        """Return buffers that are not in use."""
        try:
            return self._free.pop()
        except IndexError:
            return ScanBuffers.make(self._large)

    def give(self, buffers: ScanBuffers) -> None:
        """Take buffers back."""
        buffers.clear()
        self._free.append(buffers)


def flush_stops_of(store: Store, locations: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the end times of the buffer flushes of some locations, in order; a (n_flushes,) int64 array of ticks for
    each."""
    control, counts = store.read_together("control", locations, ["kind", "stop_time"])
    is_flush = control["kind"] == EventKind.BUFFER_FLUSH
    before = np.append(0, np.cumsum(is_flush))[np.append(0, np.cumsum(counts))]
    stop_time = control["stop_time"][is_flush]
    return [stop_time[a:b] if a < b else NOTHING for a, b in pairwise(before.tolist())]


RESULTS = (
    "store", "location", "n", "done", "first_row", "published", "first_time", "last_time", "program", "paths",
    "n_calls", "n_attributed", "calls", "events", "global_numbers", "global_calls", "bad_exits", "open", "disordered",
    "divider", "phase_begin", "phase_end", "nested", "forker", "gaps", "first_call", "first_begin", "before", "after",
)  # fmt: skip
"""Attributes of a `LocationScan` that later steps read."""


class LocationScan:
    """The pass over one location: `enter_threads`, then `advance_together` until `done`.

    Attributes
    ----------
    paths : ColumnSlice
        The location's call paths after the pass: `parent` (own number, -1, or a FOREIGN code), `entry`
        (`Regions.of_entry`), `row` and `time` of the first ENTER, `exclusive` ticks, `visits`, and `period`, -1
        outside. Call paths with a negative entry, `stacks.FIRST_PERIOD` minus the number, represent periods only.
    calls : ColumnSlice
        `CALL_INSTANCES`; without `tasks` if neither it nor the locations scanned with it executed an explicit task.
    events : ColumnSlice
        `ATTRIBUTED_EVENTS`.
    global_numbers : (n,) int64
        Numbers of its call instances that are joined across all processes: one-sided, non-blocking collective, files,
        start and end of MPI.
    global_calls : ColumnSlice
        The call instances with these numbers.
    fork_rows : (n_forks,) int64
        Rows of its FORKs, until it is `done`.
    n_calls, n_attributed : int
        Number of call instances and of attributed events.
    first_time, last_time : int
        Ticks of the first and last event.
    program : int
        Call path of the program that the location records; negative if it records none.
    bad_exits, open : int
        EXITs that do not match their ENTER; region instances that never end.
    disordered : int
        ENTERs and EXITs that are earlier than a preceding event or than the end of a preceding buffer flush.
    phase_begin, phase_end : (n_phases,) int64
        Ticks of the phases of the location.
    nested : int
        Instances that would begin a phase but lie in another one.
    gaps : Gaps or None
        Of long processes: the moments after some times at which the location may be divided.
    first_call, first_begin : int
        Numbers of its first call instance in `calls` and first begin in a team; 0 except in windows of processes.
    before, after : tuple of ColumnSlice
        In windows of processes: the attributed events that begin a team that is open before the window, and those that
        end a team that is open after it.
    """

    def __init__(
        self,
        store: Store,
        regions: Regions,
        teams: Teams,
        order: EventOrder,
        location: int,
        first_row: int,
        flush_stops: NDArray[np.int64] | None = None,
        is_device: bool = False,
        divider: Divider = WHOLE,
        samples: NDArray[np.int64] = NOTHING,
    ) -> None:
        self.divider, self.samples = divider, samples
        is_marked = samples.size and teams.forker[location] < 0
        self.begun = teams.marked_begins_of(location) if is_marked else TeamBegins(NOTHING, NOTHING)
        self.gaps: Gaps | None = None
        self.first_call = self.first_begin = 0
        self.before: tuple[ColumnSlice, ...] = ()
        self.after: tuple[ColumnSlice, ...] = ()
        self.store, self.regions, self.order, self.location = store, regions, order, location
        self._events_of_teams, self.fork_rows = teams.events, teams.fork_rows_of(location)
        self.n = store.n_rows("events", location)
        self.done = False
        self.at = 0
        self._master, self._fork = teams.masters_of(location)
        self.forker = int(teams.forker[location])
        self._spans: ForkSpans | None = None
        self._interval_start = self._interval_stop = self._last_join = NOTHING
        self._n_over = 0
        self.depends = self._parents = self._programs = self._team_periods = NOTHING
        self._known = self._master.size
        if self._known:
            # none of them is known yet: NO_PARENT, and no period
            unknown = teams.large.full(3 * self._known, stacks.NO_PARENT, np.int64)
            self._parents, self._programs, self._team_periods = unknown.reshape(3, -1)
            is_other = self._master >= 0
            if is_other.any():
                self.depends, self._known = distinct(self._master[is_other]), int(is_other.argmax())
        self.state = FIRST_STATE.copy()
        self.first_row = first_row
        self.published = NOTHING, NOTHING, NOTHING
        self.phase_begin = self.phase_end = NOTHING
        self.first_time = self.last_time = 0
        self.program = -1
        self.buffers: ScanBuffers | None = None
        self.is_device = is_device
        self._stop_times = flush_stops_of(store, np.array([location]))[0] if flush_stops is None else flush_stops
        tasks = TaskEvents.of(store, location)
        self._task_slots = tasks.slot
        sites = store.read("enter_sites", location) if store.n_rows("enter_sites", location) else None
        self._site_rows = sites["row"] - first_row if sites else NOTHING
        self._sites = sites["call_site"] if sites else np.zeros(0, np.int32)
        self.tasks = ONE_TASK if not tasks.slot.size else tasks_of(tasks.n_tasks)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the results of the pass only, not its working state."""
        if not self.done:
            raise TypeError("a scan that is not done cannot be pickled")
        return {name: getattr(self, name) for name in RESULTS}

    def enter_threads(self) -> None:
        """Start a thread that the program creates below THREADS, which is below the program, as in the reference.

        This applies only if the trace records the program. A location that records the program is its main thread.
        """
        if not self.store.n_rows("threads", self.location):
            return
        recorded = self.store.manifest["events_by_kind"]
        if not all(kind in recorded for kind in IN_PROGRAMS):
            return
        threads = self.store.read("threads", self.location, ["row", "kind"])
        rows = threads["row"][threads["kind"] == EventKind.THREAD_BEGIN]
        if not rows.size:
            return
        if (self.store.read("control", self.location, ["kind"])["kind"] == EventKind.PROGRAM_BEGIN).any():
            return
        at = int(rows[0]) - self.first_row
        time = self.store.read("events", self.location, ["time"], at, at + 1)["time"]
        self.state[[stacks.THREAD_ROW, stacks.THREAD_TIME]] = int(rows[0]), int(time[0])
        self.state[[stacks.BASE, stacks.HOME]] = 0

    @property
    def progress(self) -> int:
        """A number that increases with every step of the scan."""
        return self.at + self._known + self.done

    @property
    def begins(self) -> NDArray[np.bool_]:
        """Kinds of events with which this location begins in teams; (256,) bool."""
        return IS_FORK if self.forks_teams else IS_TEAM_BEGIN

    @property
    def n_thread_events(self) -> int:
        """Number of events of teams in its side table; only until it is `done`."""
        return self._events_of_teams.at(self.location).row.size

    @property
    def forks_teams(self) -> bool:
        """Whether its FORKs begin its teams, because no other events do."""
        return self.forker == self.location

    def meanings(self) -> stacks.Meanings:
        """Return the meanings of its events, which depend only on whether it `forks_teams` and is a stream of a
        device."""
        regions, fits = self.regions, self.divider.fits
        # every region instance on a stream of a device is joined with the host
        flags = regions.flags | np.uint8(stacks.IS_CALL) if self.is_device else regions.flags
        flags = flags | fits[0].astype(np.uint8) * np.uint8(stacks.IS_PHASE) if fits.size else flags
        action = FORKER_ACTION if self.forks_teams else ACTION
        return stacks.Meanings(action, regions.of_entry, flags, np.int32(regions.tasks), np.int32(regions.threads))

    def forget_found(self) -> None:
        """Discard the call instances and attributed events found so far, so that the next ones overwrite them: a mere
        walk through the events does not need them.

        The ends of those still open are written over others.
        """
        self.state[[stacks.N_CALLS, stacks.N_ATTRIBUTED]] = 0

    def side_values(self, time: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return the values of its side tables, in the order of `stacks.LocationSides` without `n_known`; `time` has
        the times of its next events."""
        return (
            self._stop_times,
            self._task_slots,
            self._parents,
            self._programs,
            *self._team_intervals(time),
            self._team_periods,
        )

    @property
    def n_known(self) -> int:
        """Number of its begins in teams whose call paths are known (`inherit`)."""
        return self._known

    def wait(self, n: int, buffers: ScanBuffers, tasks: stacks.Tasks) -> None:
        """Record that `n` more events are scanned, and the buffers and tasks with which the scan resumes later."""
        self.at += n
        self.buffers, self.tasks = buffers, tasks

    def note(
        self, n_calls: int, n_attributed: int, program: int, bad_exits: int, n_open: int, disordered: int, nested: int
    ) -> None:
        """Store results of the state once all events are scanned (`NOTED`); others stay in buffers until
        `keep_results`."""
        self.n_calls, self.n_attributed, self.program = n_calls, n_attributed, program
        self.bad_exits, self.open, self.disordered, self.nested = bad_exits, n_open, disordered, nested

    def _team_intervals(self, time: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the rows between which this thread belongs to teams of another thread, as far as the batch shows."""
        spans = self._spans
        if spans is None or not time.size:
            return self._interval_start, self._interval_stop
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
            # among events at the time of a FORK or JOIN, those of the forking thread, the master, come first
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

    def inherit(self, others: Mapping[int, LocationScan] | Sequence[LocationScan], give_up: bool = False) -> bool:
        """Look up the call paths of teams whose masters have been scanned far enough; return whether the scan of the
        location can continue."""
        if self.forker not in (-1, self.location):
            if self._spans is None and others[self.forker].done:
                self._spans = forks_of(others[self.forker], self._events_of_teams, self.order)
                self._last_join = np.maximum.accumulate(self._spans.join_time)
                n = self._spans.fork_row.size
                self._interval_start, self._interval_stop = (np.full(n, np.iinfo(np.int64).max) for _ in range(2))
                self._n_over = 0
                at = self._spans.node.astype(np.int64)
                inherited = FOREIGN - (self.forker << 32 | np.maximum(at, 0))
                self._parents = np.where(at >= 0, inherited, stacks.ROOT_IN_TEAM)
                self._programs = np.full(self._parents.size, stacks.NO_PARENT, np.int64)
                self._team_periods = np.full(self._parents.size, -1, np.int64)
                if not self.divider.by_time:
                    self._team_periods = pick(others[self.forker].paths.column("period"), at).astype(np.int64)
                self._known = self._parents.size
            return self._spans is not None or give_up
        if self._known == self._master.size:
            return True
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
        return True

    def entries(self, region: NDArray[np.int32]) -> NDArray[np.int32]:
        """Replace regions entered in the batch that begins at event `at` by entries of call sites, where recorded."""
        if not self._site_rows.size:
            return region
        low, high = np.searchsorted(self._site_rows, [self.at, self.at + region.size])
        result = region.copy()
        at, entry = self._site_rows[low:high] - self.at, len(self.regions) + self._sites[low:high]
        entered = self.regions.of_entry[entry]
        if (entered != region[at]).any() or (entered < 0).any():
            raise self.damaged("an event enters another region than its call site in the table enter_sites")
        result[at] = entry
        return result

    def damaged(self, what: str) -> StoreError:
        """Return the error for inconsistent data of the location."""
        return self.store.damaged(f"location {self.location}: {what}")

    @property
    def expected(self) -> tuple[int, int, int, int]:
        """Number of buffer flushes, task switches, begins in teams and forks in its side tables; -1 if unknown."""
        n_begins = self._parents.size if self.forker in (-1, self.location) else -1
        return self._stop_times.size, self._task_slots.size, n_begins, self.fork_rows.size

    def finish(
        self,
        global_numbers: NDArray[np.int64],
        paths: ColumnSlice,
        calls: ColumnSlice,
        events: ColumnSlice,
        global_calls: ColumnSlice,
    ) -> None:
        """Store its results, and free the working state of the pass."""
        self.paths, self.calls, self.events = paths, calls, events
        self.global_calls, self.global_numbers = global_calls, global_numbers
        self.done = True
        # of a small location, the working state takes more memory than the results
        self.__dict__ = {name: self.__dict__[name] for name in (*RESULTS, "at", "_known")}


class Scans(Sequence[LocationScan], ABC):
    """The scans of all locations, each looked up on access."""

    @abstractmethod
    def of(self, location: int) -> LocationScan:
        """Return the scan of a location."""

    @overload
    def __getitem__(self, location: int) -> LocationScan: ...

    @overload
    def __getitem__(self, location: slice) -> Sequence[LocationScan]: ...

    def __getitem__(self, location: int | slice) -> LocationScan | Sequence[LocationScan]:
        if isinstance(location, slice):
            return [self[i] for i in range(*location.indices(len(self)))]
        return self.of(int(location))

    def __iter__(self) -> Iterator[LocationScan]:
        for location in range(len(self)):
            yield self[location]


def publish(
    scans: Sequence[LocationScan],
    attributed: stacks.AttributedEvents,
    n_attributed: NDArray[np.int64],
    period: NDArray[np.int32],
    n_paths: NDArray[np.int64],
    large: LargeArrays,
) -> NDArray[np.int64]:
    """Publish the call path of every FORK so far on some locations, and the program it belongs to, for the threads
    forked there.

    `period` has the periods of call paths, one location after the other, `n_paths` of each. Returns the number of FORKs
    of each.
    """
    forks = np.flatnonzero(IS_FORK[attributed.kind])
    of = np.searchsorted(np.cumsum(n_attributed), forks, "right")
    n_forks = np.bincount(of, minlength=len(scans))
    if not forks.size:
        return n_forks
    counts = n_forks.tolist()
    for scan, n in zip(scans, counts, strict=True):
        if n > scan.fork_rows.size:
            raise scan.damaged(f"{n} forks among its events, {scan.fork_rows.size} in the table threads")
    node = attributed.node[forks].astype(np.int64)
    row = np.concatenate([scan.fork_rows[:n] for scan, n in zip(scans, counts, strict=True)])
    program, since = np.array([scan.state[[stacks.PROGRAM, stacks.PROGRAM_ROW]] for scan in scans])[of].T
    programs = np.where(row > since, program, stacks.NO_PARENT)
    if scans[0].divider.by_time:
        in_period = np.full(node.size, -1, np.int64)
    else:
        first = (np.cumsum(n_paths) - n_paths)[of]
        in_period = pick(period, np.where(node >= 0, first + node, -1)).astype(np.int64)
    start = 0
    node, programs, in_period = (
        large.computed(of.size, np.int64, of.__getitem__) for of in (node, programs, in_period)
    )
    for scan, n in zip(scans, counts, strict=True):
        here = slice(start, start + n)
        # one assignment: other threads read it meanwhile
        scan.published = node[here], programs[here], in_period[here]
        start += n
    return n_forks


def compare_with_sides(
    scans: Sequence[LocationScan], kind: NDArray[np.uint8], n_attributed: NDArray[np.int64], n_forks: NDArray[np.int64]
) -> None:
    """Compare the events of some locations, after the pass, with the rows of their side tables.

    `kind` has the kinds of attributed events, one location after the other; `n_attributed` and `n_forks` count the
    attributed events and FORKs of each. Raises StoreError if the numbers differ.
    """
    store, location = scans[0].store, np.array([scan.location for scan in scans])
    expected = np.array([scan.expected for scan in scans])
    states = np.array([scan.state for scan in scans])[:, [stacks.N_FLUSHES, stacks.N_SWITCHES, stacks.N_TEAMS]]
    found = np.column_stack((states, n_forks))
    for k, what in np.argwhere((found != expected) & (expected >= 0)).tolist():
        name = ("buffer flushes", "switches of tasks", "begins in teams", "forks")[what]
        raise scans[k].damaged(f"{found[k, what]} {name} among its events, {expected[k, what]} in their side table")
    of_threads = np.array([scan.n_thread_events for scan in scans]) + expected[:, 1]
    noted = n_attributed - of_threads - sum(store.counts(family)[location] for family in SIDE_FAMILIES)
    metrics = [store.counts(table)[location] for table in store.tables if table.startswith("metrics_")]
    values = sum(metrics, np.zeros(len(scans), np.int64))
    stops = np.cumsum(n_attributed)
    for k in np.flatnonzero(noted != values).tolist():
        # a METRIC whose source has no class has no values
        n = int(n_attributed[k])
        n_metrics = int((kind[stops[k] - n : stops[k]] == EventKind.METRIC).sum())
        classes = to_numpy(store.definition("metric_sources").column("metric_class"))
        if noted[k] != n_metrics or n_metrics < values[k] or not (classes < 0).any():
            raise scans[k].damaged(f"{n} events with attributes, {n - noted[k] + values[k]} rows in their side tables")


def keep_results(buffers: ScanBuffers, spill: Spill, waiting: LocationScan | None = None) -> None:
    """Check the results of the locations that ended in the same buffers, and store them together.

    `spill` takes call instances and attributed events that exceed the buffer pool; `waiting` is the location whose scan
    in these buffers is paused.
    """
    scans = buffers.ended
    if not scans:
        return
    states = np.array([scan.state for scan in scans])
    n_paths, n_calls, n_attributed, n_phases = states[:, OWN].T
    of_all = buffers.filled.tolist()
    attributed = arrays.first(buffers.attributed, of_all[stacks.FILLED_ATTRIBUTED])
    n_forks = publish(scans, attributed, n_attributed, buffers.paths.period, n_paths, buffers.large)
    compare_with_sides(scans, attributed.kind, n_attributed, n_forks)
    columns = arrays.first(buffers.calls, of_all[stacks.FILLED_CALLS])._asdict()
    if not columns["tasks"].any():
        del columns["tasks"]
    calls = Columns(of_all[stacks.FILLED_CALLS], columns)
    events = Columns(of_all[stacks.FILLED_ATTRIBUTED], attributed._asdict())
    columns = arrays.first(buffers.paths, of_all[stacks.FILLED_PATHS])._asdict()
    del columns["recent"]
    paths = Columns(of_all[stacks.FILLED_PATHS], columns).copy()
    phases = [edges[: of_all[stacks.FILLED_PHASES]].copy() for edges in (buffers.begin, buffers.end)]
    first_path, first_call, first_event, first_phase = (
        np.append(0, np.cumsum(n)) for n in (n_paths, n_calls, n_attributed, n_phases)
    )
    is_global, is_many = _global_calls(scans[0].regions, paths, calls, events, n_paths, n_calls, n_attributed)
    numbers = np.flatnonzero(is_global)
    chosen = calls.take(numbers)
    kept: tuple[ColumnSource, ...] = (
        paths,
        spill.keep(calls, CLOSE_TO, borrowed=True),
        spill.keep(events, borrowed=True),
        spill.keep(chosen) if is_many else chosen,
    )
    first_global = np.searchsorted(numbers, first_call)
    firsts = first_path, first_call, first_event, first_global
    bounds = zip(*(pairwise(first.tolist()) for first in firsts), strict=True)
    numbers -= np.repeat(first_call[:-1], np.diff(first_global))
    has_phases = bool(n_phases.any())
    for scan, rows, of_phases in zip(scans, bounds, pairwise(first_phase.tolist()), strict=True):
        if scan.samples.size:
            own_calls = arrays.first(arrays.after(buffers.calls, rows[1][0]), rows[1][1] - rows[1][0])
            own_events = arrays.first(arrays.after(attributed, rows[2][0]), rows[2][1] - rows[2][0])
            own_entries = paths.entry[rows[0][0] : rows[0][1]]
            role = scan.regions.construct[scan.regions.of_entry[np.maximum(own_entries, 0)]].astype(np.int8)
            own = scan.samples, own_calls, own_events, scan.begins, scan.begun, role
            scan.gaps = find_gaps(scan.store, scan.location, *own)
        if has_phases:
            scan.phase_begin, scan.phase_end = (edges[slice(*of_phases)] for edges in phases)
        slices = (ColumnSlice(source, *of_location) for source, of_location in zip(kept, rows, strict=True))
        scan.finish(numbers[slice(*rows[-1])], *slices)
    buffers.forget_ended(FIRST_STATE if waiting is None else waiting.state)


def _global_calls(
    regions: Regions,
    paths: Columns,
    calls: Columns,
    events: Columns,
    n_paths: NDArray[np.int64],
    n_calls: NDArray[np.int64],
    n_attributed: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], bool]:
    """Find call instances that are joined across all processes: one-sided communication, files, start and end of MPI.

    Returns a mask, and whether they may include one-sided communication or non-blocking collective operations.
    """
    kept, node = np.zeros(len(calls), bool), calls.node
    startup = (regions.is_init | regions.is_finalize | regions.is_file)[regions.of_entry[np.maximum(paths.entry, 0)]]
    if startup.any():
        first_path, start = np.cumsum(n_paths) - n_paths, np.append(0, np.cumsum(n_calls))
        for here in blocks(len(calls)):
            own = np.diff(np.clip(start, here.start, here.stop))
            kept[here] = startup[np.repeat(first_path, own) + node[here]]
    joins = np.flatnonzero(JOINS_ALL[events.kind])
    if joins.size:
        of = np.searchsorted(np.cumsum(n_attributed), joins, "right")
        call, first_call = events.call[joins], (np.cumsum(n_calls) - n_calls)[of]
        kept[(call + first_call)[call >= 0]] = True
    return kept, bool(joins.size)


def advance_together(
    scans: Sequence[LocationScan],
    others: Mapping[int, LocationScan] | Sequence[LocationScan],
    pool: BufferPool,
    spill: Spill,
    give_up: bool = False,
) -> None:
    """Advance the scans of locations one after the other. Those that end share buffers; `spill` takes results that
    exceed the buffer pool."""
    fresh = pool.take()
    for run in runs_of(scans):
        ready = [scan for scan in run if scan.inherit(others, give_up)]
        while ready:
            used = ready[0].buffers or fresh
            n_ended = scan_rest(ready, used)
            if n_ended < len(ready):
                # the location waits, and needs the buffers until it resumes
                keep_results(used, spill, ready[n_ended])
                fresh = pool.take() if used is fresh else fresh
            elif used is not fresh:
                keep_results(used, spill)
                pool.give(used)
            ready = ready[n_ended + 1 :]
    keep_results(fresh, spill)
    pool.give(fresh)


def runs_of(scans: Sequence[LocationScan]) -> list[list[LocationScan]]:
    """Divide locations into runs that kernels scan in one call: their events have the same meanings, and all events are
    in the call."""
    runs: list[list[LocationScan]] = []
    kind = None
    for scan in scans:
        # a location that is resumed, or does not fit into a batch, is a run of its own
        before, kind = kind, (scan.is_device, scan.forks_teams, scan.location if scan.at or scan.n > BATCH else -1)
        if kind == before:
            runs[-1].append(scan)
        else:
            runs.append([scan])
    return runs


def scan_rest(scans: Sequence[LocationScan], buffers: ScanBuffers) -> int:
    """Scan the events of some locations to their ends, or until one has to wait for the master of a team.

    The locations are a run: one, or several whose scans have not begun. Returns how many of them ended: all, or those
    before the first that has to wait.
    """
    while True:
        columns, sizes = next_events(scans)
        is_end = scans[0].at + sizes[0] == scans[0].n
        k = scan_batch(scans, columns, sizes, buffers, is_end)
        if k < len(scans):
            n = int(scans[k].state[stacks.N_ATTRIBUTED])
            first_path, _, first = buffers.filled[: stacks.FILLED_PHASES].tolist()
            attributed = arrays.first(arrays.after(buffers.attributed, first), n)
            n_paths = scans[k].state[stacks.N_NODES]
            of_paths = buffers.paths.period[first_path:], np.array([n_paths])
            publish([scans[k]], attributed, np.array([n]), *of_paths, buffers.large)
        if is_end or k < len(scans):
            return k


def next_events(scans: Sequence[LocationScan]) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Read the next events of some locations.

    Of several locations, all events are read; of a single one, the next batch. Returns `time`, `kind` and `region`, not
    checked, one location after the other, and the number of events of each.
    """
    store, one = scans[0].store, scans[0]
    if len(scans) > 1:
        return store.read_together("events", np.array([scan.location for scan in scans]), checked=False)
    columns = store.read("events", one.location, None, one.at, one.at + BATCH, checked=False)
    return columns, np.array([columns["time"].size])


def scan_batch(
    scans: Sequence[LocationScan],
    columns: Mapping[str, NDArray[Any]],
    sizes: NDArray[np.int64],
    buffers: ScanBuffers,
    ends: bool,
    pointers: stacks.Pointers = NO_POINTERS,
    charges: stacks.Charges = NO_CHARGES,
) -> int:
    """Scan consecutive events of some locations.

    The locations are a run: one, or several with all of their events. `columns` has `time`, `kind` and `region`, one
    location after the other, `sizes` events of each. Returns how many locations reached their last event here: all, or
    those before one that has to wait.
    """
    time, kind, region = columns["time"], columns["kind"], columns["region"]
    bounds = np.append(0, np.cumsum(sizes))
    rows = [slice(*of_location) for of_location in pairwise(bounds.tolist())]
    states = _begin(scans, time, bounds)
    sides, side_bounds, tasks = _sides(scans, [time[here] for here in rows])
    entry = joined([scan.entries(region[here]) for scan, here in zip(scans, rows, strict=True)])
    events, meanings, divider, b = stacks.Events(time, kind, entry), scans[0].meanings(), scans[0].divider, buffers
    focus = divider.focus_of([scan.location for scan in scans])
    why, k, at = stacks.GROW, 0, 0
    while True:
        why, k, at = stacks.scan_locations(
            k,
            at,
            events,
            bounds,
            states,
            meanings,
            sides,
            side_bounds,
            b.periods(divider, focus),
            stacks.ScanArrays(
                b.frames, b.paths, b.table, b.calls, b.attributed, b.team_stack, tasks, pointers, charges
            ),
            b.filled,
            ends,
        )
        if why != stacks.GROW:
            break
        b.grow(states[k])
    if why == stacks.DAMAGED:
        row, number = int(states[k, stacks.ROW]) + at, int(kind[bounds[k] + at])
        raise scans[k].damaged(
            f"event {row} is a {NAMES.get(number, number)} that enters region {entry[bounds[k] + at]}, or has no "
            "row in its side table"
        )
    for scan, here in zip(scans[:k], rows, strict=False):
        scan.at += here.stop - here.start
        scan.last_time = int(time[here.stop - 1]) if here.stop > here.start else 0
    if why == stacks.BLOCKED:
        first, stop = side_bounds[stacks.TASKS, k : k + 2].tolist()
        scans[k].wait(at, buffers, arrays.first(arrays.after(tasks, first), stop - first))
    if ends:
        for scan, state in zip(scans[:k], states[:k, NOTED].tolist(), strict=True):
            scan.note(*state)
        buffers.ended += scans[:k]
    return k


def _begin(scans: Sequence[LocationScan], time: NDArray[np.int64], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the states of some scans, prepared for their next events; (n_scans, N_STATE) int64. The rows become the
    states of the scans."""
    states = np.array([scan.state for scan in scans])
    states[:, stacks.ROW] = [scan.first_row + scan.at for scan in scans]
    is_new = np.flatnonzero(states[:, stacks.FREE] == stacks.NOT_BEGUN)
    first_time = np.zeros(is_new.size, np.int64)
    has_events = np.diff(bounds)[is_new] > 0
    first_time[has_events] = time[bounds[:-1][is_new[has_events]]]
    states[is_new, stacks.LAST] = first_time
    divider = scans[0].divider
    if divider.by_time:
        location = np.array([scans[k].location for k in is_new.tolist()], np.int64)
        states[is_new, stacks.PERIOD] = divider.piece(first_time, location)
    for k, t in zip(is_new.tolist(), first_time.tolist(), strict=True):
        scans[k].first_time = t
    for scan, state in zip(scans, states, strict=True):
        scan.state = state
    return states


def _sides(
    scans: Sequence[LocationScan], times: Sequence[NDArray[np.int64]]
) -> tuple[stacks.LocationSides, NDArray[np.int64], stacks.Tasks]:
    """Return the values of side tables for the next events of some locations, where those of each begin
    (`stacks.scan_locations`), and their tasks."""
    values = [*zip(*(scan.side_values(time) for scan, time in zip(scans, times, strict=True)), strict=True)]
    tasks = [*zip(*(scan.tasks for scan in scans), strict=True)]
    by_side = (values[0], values[1], values[2], values[4], tasks[0])
    bounds = np.zeros((stacks.N_SIDES, len(scans) + 1), np.int64)
    for stops, of_locations in zip(bounds[:, 1:], by_side, strict=True):
        np.cumsum([of_location.size for of_location in of_locations], out=stops)
    n_known = np.array([scan.n_known for scan in scans])
    return stacks.LocationSides(n_known, *map(joined, values)), bounds, stacks.Tasks(*map(joined, tasks))


def forks_of(scan: LocationScan, events_of_teams: TeamEvents, order: EventOrder) -> ForkSpans:
    """Return the `fork_spans` of a location; they are computed once for all threads that it forks."""
    found = events_of_teams.forks.get(scan.location)
    if found is None:
        found = events_of_teams.forks[scan.location] = fork_spans([scan], events_of_teams, order)
    return found


def fork_spans(scans: Sequence[LocationScan], events_of_teams: TeamEvents, order: EventOrder) -> ForkSpans:
    """Return the FORKs of some locations and their JOINs, after the pass. Raises StoreError if their order differs from
    that in the side table of threads."""
    parts = [(*scan.before, scan.events, *scan.after) for scan in scans]
    events = merged(part for of_scan in parts for part in of_scan)
    kind = joined_column(events, "kind", np.uint8)
    mine = np.flatnonzero(IS_OF_TEAM[kind])
    of = np.searchsorted(np.cumsum([sum(map(len, of_scan)) for of_scan in parts]), mine, "right")
    is_fork = IS_FORK[kind[mine]]
    side, counts = events_of_teams.of(np.array([scan.location for scan in scans], np.int64))
    of_team = np.flatnonzero(IS_OF_TEAM[side.kind])
    side_of = np.repeat(np.arange(len(scans)), counts)[of_team]
    row, is_side_fork = side.row[of_team], IS_FORK[side.kind[of_team]]
    if not (np.array_equal(is_side_fork, is_fork) and np.array_equal(side_of, of)):
        for k, scan in enumerate(scans):
            if not np.array_equal(is_side_fork[side_of == k], is_fork[of == k]):
                raise scan.damaged("its forks and joins do not follow each other as in the table threads")
    join = pair_nested(is_fork, ~is_fork, of)[is_fork]
    time, node = (
        order.time(row, joined_column(events, "time", np.int64)[mine]),
        joined_column(events, "node", np.int32)[mine],
    )
    of = of[is_fork]
    last_time = np.array([scan.last_time for scan in scans], np.int64)
    return ForkSpans(
        np.searchsorted(of, np.arange(len(scans) + 1)),
        row[is_fork],
        pick(row, join),
        time[is_fork],
        np.where(join >= 0, pick(time, join), last_time[of]),
        node[is_fork],
        pick(node, join),
    )


def inherited(scans: Sequence[LocationScan]) -> NDArray[np.bool_]:
    """Return a mask of the call paths of some locations, one location after the other, that continue the call path of a
    FORK on another location: those of a worker within a team; O(n log depth)."""
    size = np.array([len(scan.paths) for scan in scans], np.int64)
    parent = joined_column(merged(scan.paths for scan in scans), "parent", np.int64)
    # pointer jumping: the distance to the root is covered in doubling steps
    top = np.where(parent >= 0, parent + np.repeat(np.cumsum(size) - size, size), np.arange(parent.size))
    while (top != top[top]).any():
        top = top[top]
    above = parent[top]
    is_inherited: NDArray[np.bool_] = (above < -1) & (above != stacks.IN_PROGRAM)
    return is_inherited


def plan_processes(
    members: NDArray[np.int64], n_events: NDArray[np.int64], process: NDArray[np.int32], size: int
) -> list[NDArray[np.int64]]:
    """Divide some locations into groups of whole processes (`partitions.whole_processes`); `n_events` and `process`
    cover all locations."""
    return [members[group] for group in whole_processes(n_events[members], process[members], size)]


def group_scans(scans: list[LocationScan]) -> list[list[LocationScan]]:
    """Group neighbours with few events for one thread, and sort the groups by descending number of events; `scans` are
    in the order of locations."""
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


def share_out(groups: list[list[LocationScan]]) -> list[list[list[LocationScan]]]:
    """Assign each group to a separate thread, except groups of locations with few events, which all go to one
    thread."""
    is_small = [sum(scan.n for scan in group) < SMALL * len(group) for group in groups]
    shared = [group for group, small in zip(groups, is_small, strict=True) if small]
    alone = [[group] for group, small in zip(groups, is_small, strict=True) if not small]
    return [shared, *alone] if shared else alone


def scan_locations(
    store: Store,
    regions: Regions,
    locations: Locations,
    order: EventOrder,
    first_rows: NDArray[np.int64],
    jobs: int,
    spill: Spill,
    report: Report = not_reported,
    divider: Divider = WHOLE,
    members: NDArray[np.int64] | None = None,
    memory: int | None = None,
    window: int = WINDOW_EVENTS,
) -> list[LocationScan]:
    """Scan locations wave by wave; a location that inherits call paths is scanned after the ones it inherits from.

    `first_rows` are the rows of their first events; `spill` takes results that exceed the buffer pool; `members` are
    the locations of whole processes, ascending, by default all; `memory` is in bytes per thread; later steps work on
    about `window` events of a process at once. The result, in the order of the locations, does not depend on the number
    of jobs and the division into waves.
    """
    n_events, wave_events = store.n_events, jobs * (WAVE if memory is None else min(WAVE, memory // WAVE_BYTES))
    chosen = np.arange(first_rows.size) if members is None else members
    found: dict[int, LocationScan] = {}
    buffers = BufferPool(spill.large)

    def prepare(members: NDArray[np.int64]) -> dict[int, LocationScan]:
        teams = Teams(store, locations, members, large=spill.large)
        of_process = np.bincount(locations.process[members], n_events[members])
        samples = {p: sample_times(store, int(of_process[p]), window) for p in set(locations.process[members].tolist())}
        scans = {
            i: LocationScan(
                store,
                regions,
                teams,
                order,
                i,
                int(first_rows[i]),
                stops,
                bool(locations.is_device[i]),
                divider,
                samples[int(locations.process[i])],
            )
            for i, stops in zip(members.tolist(), flush_stops_of(store, members), strict=True)
        }
        for scan in scans.values():
            scan.enter_threads()
        return scans

    with ThreadPoolExecutor(jobs) as pool:
        # a wave is prepared while the previous one is scanned, unless that is a long process, which needs the memory
        waves = iter(plan_processes(chosen, n_events, locations.process, wave_events))

        def prepare_next() -> list[Future[dict[int, LocationScan]]]:
            return [
                pool.submit(prepare, group)
                for wave in islice(waves, 1)
                for group in plan_processes(wave, n_events, locations.process, TEAMS)
            ]

        following = prepare_next()
        while following:
            wave = {i: scan for future in following for i, scan in future.result().items()}
            is_large = int(n_events[list(wave)].sum()) > wave_events
            following = [] if is_large else prepare_next()
            found.update(wave)

            def advance(scans: list[LocationScan], give_up: bool = False) -> None:
                advance_together(scans, found, buffers, spill, give_up)

            _scan_wave(list(wave.values()), advance, pool, report)
            following = following or prepare_next()
    return [found[i] for i in chosen.tolist()]


def _scan_wave(
    scans: list[LocationScan], advance: Callable[..., None], pool: ThreadPoolExecutor, report: Report
) -> None:
    """Scan some locations and those they depend on; `report` is called with the number of further events scanned."""

    def advance_all(groups: list[list[LocationScan]]) -> None:
        for group in groups:
            advance(group)

    waiting, n_scanned = scans, 0
    ready = [s for s in scans if not s.depends.size]
    while waiting:
        before = sum(s.progress for s in scans)
        list(pool.map(advance_all, share_out(group_scans(ready))))
        waiting = [s for s in waiting if not s.done]
        if ready and sum(s.progress for s in scans) == before:
            # the masters of these teams never fork: the threads have no call path above
            for s in waiting:
                advance([s], give_up=True)
            waiting = [s for s in waiting if not s.done]
        ready = waiting
        n_before, n_scanned = n_scanned, sum(s.at for s in scans)
        report(n_scanned - n_before)
