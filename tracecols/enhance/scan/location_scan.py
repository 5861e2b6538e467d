"""The pass over each location's events: call paths, profile, and the call instances and attributed events that joins
need.

Scope: one location. All it needs from another location is the call path that a thread inherits from the thread that
forked it (thesis 3.20). If the master of a team is not scanned up to its FORK yet, the scan pauses and is resumed
later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import ColumnSlice, joined_column, merged, pick
from tracecols.enhance.dataflow.grouping import mask_of, pair_nested, ranges
from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.definitions.order import EventOrder
from tracecols.enhance.scan.periods import WHOLE, Divider
from tracecols.enhance.scan.tasks import TaskEvents
from tracecols.enhance.scan.teams import FORKS, IS_FORK, IS_JOIN, JOINS, LATE, ForkSpans, TeamBegins, TeamEvents, Teams
from tracecols.errors import StoreError
from tracecols.kernels import actions, arrays, pools, stacks
from tracecols.kernels.actions import action_table
from tracecols.kernels.gaps import Gaps
from tracecols.schema import EventKind
from tracecols.store import Store
from tracecols.vectors import Ints, Mask, offsets_of
from tracecols.work.large import LargeArrays

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

ATTRIBUTED: Mask = mask_of(
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

IS_TEAM_BEGIN: Mask = mask_of(actions.kinds_that(actions.TEAM_BEGIN))
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


NOTHING = np.zeros(0, np.int64)
NOTHING_PUBLISHED = np.zeros((3, 0), np.int64)
"""Empty arrays of locations that have nothing of a kind; never written to."""


def tasks_of(n: int) -> stacks.Tasks:
    """Return the initial state of `n` tasks, none of which has begun."""
    found = arrays.zeros(stacks.Tasks, n)
    found.top[:] = found.stub[:] = found.gap[:] = -1
    return found


ONE_TASK = tasks_of(1)
"""The implicit task of a location that never switches between tasks; never written to."""

IN_PROGRAMS = tuple(str(int(kind)) for kind in (EventKind.THREAD_BEGIN, EventKind.PROGRAM_BEGIN))
"""Kinds of events in traces that record the program and its threads."""


def flush_stops_of(store: Store, locations: Ints) -> list[Ints]:
    """Return the end times of the buffer flushes of some locations, in order; a (n_flushes,) int64 array of ticks for
    each."""
    control, counts = store.read_together("control", locations, ["kind", "stop_time"])
    is_flush = control["kind"] == EventKind.BUFFER_FLUSH
    before = offsets_of(is_flush)[offsets_of(counts)]
    stop_time = control["stop_time"][is_flush]
    return [stop_time[a:b] if a < b else NOTHING for a, b in pairwise(before.tolist())]


CHAIN = 64
"""Maximum number of call paths above those of a stack: of the program and of explicit tasks."""

LARGE_TABLE = 1 << 14
"""A hash table of call paths with more entries is not reused: otherwise every location would need as much memory as the
one with the most call paths."""

OWN = [stacks.N_NODES, stacks.N_CALLS, stacks.N_ATTRIBUTED, stacks.N_PHASES]
"""Elements of the state that count the rows a location has in the buffers, in the order of `ScanBuffers.filled`."""

NO_POINTERS = arrays.zeros(stacks.Pointers, 0)
"""Used if no pointer columns are requested."""


def charges_of(n: int) -> stacks.Charges:
    """Allocate arrays for `n` charges of exclusive time."""
    begin, end, node = (np.empty(n, np.int64) for _ in range(3))
    return stacks.Charges(begin, end, node, np.zeros(1, np.int64))


NO_CHARGES = charges_of(0)
"""Used if charges of exclusive time are not requested."""


@dataclass
class ScanBuffers:
    """Work arrays that scans of locations use one after the other (`kernels.stacks`).

    Call paths, call instances and attributed events of the locations in `ended` stay at the front until `keep_results`
    stores them. Those of the location being scanned follow, from the positions in `filled` on
    (`stacks.scan_locations`).
    """

    frames: stacks.Frames = field(default_factory=lambda: pools.linked(stacks.Frames, 64))
    paths: stacks.CallPaths = field(default_factory=lambda: arrays.zeros(stacks.CallPaths, 256))
    table: NDArray[np.int32] = field(default_factory=lambda: np.zeros(512, np.int32))
    calls: stacks.CallInstances = field(default_factory=lambda: arrays.zeros(stacks.CallInstances, 1 << 12))
    attributed: stacks.AttributedEvents = field(default_factory=lambda: arrays.zeros(stacks.AttributedEvents, 1 << 12))
    team_stack: Ints = field(default_factory=lambda: np.full(16, -1, np.int64))
    chain: Ints = field(default_factory=lambda: np.zeros(2 * (64 + CHAIN), np.int64))
    begin: Ints = field(default_factory=lambda: np.zeros(16, np.int64))
    end: Ints = field(default_factory=lambda: np.zeros(16, np.int64))
    ended: list[RunningScan] = field(default_factory=list)
    filled: Ints = field(default_factory=lambda: np.zeros(stacks.N_FILLED, np.int64))
    large: LargeArrays = field(default_factory=LargeArrays)
    """Allocates those that grow with a location."""

    def grow(self, state: Ints) -> None:
        """Double the buffers that are full, for the location with this state."""
        n_paths, n_calls, n_attributed, n_phases = self.filled[: stacks.FREE_FRAME].tolist()
        if state[stacks.FREE] == -1:
            self.frames, state[stacks.FREE] = pools.more_linked(self.frames)
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

    def periods(self, divider: Divider, focus: Ints) -> stacks.Periods | None:
        """Return the periods of locations as kernels take them, or None if time is not divided; `focus` is theirs."""
        if divider.mode is None:
            return None
        return stacks.Periods(divider.mode, divider.fits, divider.edges, focus, self.chain, self.begin, self.end)

    def forget_ended(self, state: Ints) -> None:
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
            fresh = ScanBuffers()
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
            return ScanBuffers(large=self._large)

    def give(self, buffers: ScanBuffers) -> None:
        """Take buffers back."""
        buffers.clear()
        self._free.append(buffers)


@dataclass(eq=False, slots=True)
class LocationScan:
    """The results of the pass over a location; complete when it is `done`."""

    store: Store
    location: int
    n: int
    """Number of events."""
    first_row: int
    divider: Divider
    forker: int
    """`Teams.forker`."""
    done: bool = False
    published: Ints = field(default_factory=lambda: NOTHING_PUBLISHED)
    """(3, n_forks): call paths of its FORKs so far, the programs that they belong to, and their periods."""
    paths: ColumnSlice = field(init=False)
    """The location's call paths: `parent` (own number, -1, or a FOREIGN code), `entry` (`Regions.of_entry`), `row` and
    `time` of the first ENTER, `exclusive` ticks, `visits`, and `period`, -1 outside. Call paths with a negative entry,
    `stacks.FIRST_PERIOD` minus the number, represent periods only."""
    calls: ColumnSlice = field(init=False)
    """`CALL_INSTANCES`; without `tasks` if neither it nor the locations scanned with it executed an explicit task."""
    events: ColumnSlice = field(init=False)
    """`ATTRIBUTED_EVENTS`."""
    global_numbers: Ints = field(init=False)
    """(n,): numbers of its call instances that are joined across all processes: one-sided, non-blocking collective,
    files, start and end of MPI."""
    global_calls: ColumnSlice = field(init=False)
    """The call instances with these numbers."""
    first_time: int = 0
    last_time: int = 0
    """`first_time` and `last_time`: ticks of the first and last event."""
    n_calls: int = 0
    n_attributed: int = 0
    """`n_calls` and `n_attributed`: number of call instances and of attributed events."""
    program: int = -1
    """Call path of the program that the location records; negative if it records none."""
    bad_exits: int = 0
    open: int = 0
    """`bad_exits` and `open`: EXITs that do not match their ENTER; region instances that never end."""
    disordered: int = 0
    """ENTERs and EXITs that are earlier than a preceding event or than the end of a preceding buffer flush."""
    nested: int = 0
    """Instances that would begin a phase but lie in another one."""
    phase_begin: Ints = field(default_factory=lambda: NOTHING)
    phase_end: Ints = field(default_factory=lambda: NOTHING)
    """`phase_begin` and `phase_end`: (n_phases,), ticks of the phases of the location."""
    gaps: Gaps | None = None
    """Of long processes: the moments after some times at which the location may be divided."""
    first_call: int = 0
    first_begin: int = 0
    """`first_call` and `first_begin`: numbers of its first call instance in `calls` and first begin in a team; 0 except
    in windows of processes."""
    before: tuple[ColumnSlice, ...] = ()
    after: tuple[ColumnSlice, ...] = ()
    """`before` and `after`: in windows of processes, the attributed events that begin a team that is open before the
    window, and those that end a team that is open after it."""

    def damaged(self, what: str) -> StoreError:
        """Return the error for inconsistent data of the location."""
        return self.store.damaged(f"location {self.location}: {what}")


class ForkedTeams:
    """The teams of a thread whose begins are not recorded: between the FORKs of another location and their JOINs."""

    def __init__(self, spans: ForkSpans, order: EventOrder) -> None:
        self._spans, self._order, self._last_join = spans, order, np.maximum.accumulate(spans.join_time)
        self._start, self._stop = (np.full(spans.fork_row.size, LATE) for _ in range(2))
        self._n_over = 0

    def rows(self, base: int, time: Ints) -> tuple[Ints, Ints]:
        """Return the rows between which the thread belongs to each team, as far as its events until now show; its next
        events begin with row `base`, at the times `time`."""
        spans, start, stop = self._spans, self._start, self._stop
        if not time.size:
            return start, stop
        time = self._order.times_of(base, time)
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
            of = np.flatnonzero((n > 0) & self._order.is_listed(row))
            if of.size:
                n = n[of]
                k = np.repeat(np.arange(of.size), n)
                tied = base + ranges(bound[of], n)
                before = self._order.tie_order(tied) < self._order.tie_order(row[of])[k]
                bound[of] += np.bincount(k[before], minlength=of.size)
            bounds[low:high] = np.where(row >= 0, base + bound, LATE)
        return start, stop


class RunningScan:
    """The pass over one location: `enter_threads`, then `advance_together` until `result` is done.

    Attributes
    ----------
    result : LocationScan
        What it finds.
    at : int
        Number of events that are scanned.
    fork_rows : (n_forks,) int64
        Rows of its FORKs.
    depends : (n,) int64
        Locations that fork teams in which it begins.
    n_known : int
        Number of its begins in teams whose call paths are known (`inherit`).
    samples : (n_samples,) int64
        Times, ascending, after which the location may be divided (`enhance.scan.gaps`).
    begun : TeamBegins
        Its begins in teams if samples are given; empty if FORKs begin teams, then for all threads of the process.
    """

    def __init__(
        self,
        d: Definitions,
        teams: Teams,
        location: int,
        flush_stops: Ints | None = None,
        is_device: bool = False,
        divider: Divider = WHOLE,
        samples: Ints = NOTHING,
    ) -> None:
        store, forker = d.store, int(teams.forker[location])
        self.n, self.first_row = store.n_rows("events", location), int(store.first_rows[location])
        self.result = LocationScan(store, location, self.n, self.first_row, divider, forker)
        self.store, self.regions, self.order, self.location, self.divider = store, d.regions, d.order, location, divider
        self.samples, self.is_device, self.forker = samples, is_device, forker
        is_marked = samples.size and forker < 0
        self.begun = teams.marked_begins_of(location) if is_marked else TeamBegins(NOTHING, NOTHING)
        self._events_of_teams, self.fork_rows = teams.events, teams.fork_rows_of(location)
        self.at = 0
        self._master, self._fork = teams.masters_of(location)
        self._forked: ForkedTeams | None = None
        self.depends = self._parents = self._programs = self._team_periods = NOTHING
        self.n_known = self._master.size
        if self.n_known:
            # none of them is known yet: NO_PARENT, and no period
            unknown = teams.large.full(3 * self.n_known, stacks.NO_PARENT, np.int64)
            self._parents, self._programs, self._team_periods = unknown.reshape(3, -1)
            is_other = self._master >= 0
            if is_other.any():
                self.depends, self.n_known = distinct(self._master[is_other]), int(is_other.argmax())
        self.state = FIRST_STATE.copy()
        self.buffers: ScanBuffers | None = None
        self._stop_times = flush_stops_of(store, np.array([location]))[0] if flush_stops is None else flush_stops
        tasks = TaskEvents.of(store, location)
        self._task_slots = tasks.slot
        sites = store.read("enter_sites", location) if store.n_rows("enter_sites", location) else None
        self._site_rows = sites["row"] - self.first_row if sites else NOTHING
        self._sites = sites["call_site"] if sites else np.zeros(0, np.int32)
        self.tasks = ONE_TASK if not tasks.slot.size else tasks_of(tasks.n_tasks)

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
        return self.at + self.n_known + self.result.done

    @property
    def begins(self) -> Mask:
        """Kinds of events with which this location begins in teams; (256,) bool."""
        return IS_FORK if self.forks_teams else IS_TEAM_BEGIN

    @property
    def n_thread_events(self) -> int:
        """Number of events of teams in its side table."""
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

    def side_values(self, time: Ints) -> tuple[Ints, ...]:
        """Return the values of its side tables, in the order of `stacks.SideValues` without `n_known`; `time` has
        the times of its next events."""
        return (
            self._stop_times,
            self._task_slots,
            self._parents,
            self._programs,
            *((NOTHING, NOTHING) if self._forked is None else self._forked.rows(int(self.state[stacks.ROW]), time)),
            self._team_periods,
        )

    def wait(self, n: int, buffers: ScanBuffers, tasks: stacks.Tasks) -> None:
        """Record that `n` more events are scanned, and the buffers and tasks with which the scan resumes later."""
        self.at += n
        self.buffers, self.tasks = buffers, tasks

    def inherit(self, others: Mapping[int, LocationScan] | Sequence[LocationScan], give_up: bool = False) -> bool:
        """Look up the call paths of teams whose masters have been scanned far enough; return whether the scan of the
        location can continue."""
        if self.forker not in (-1, self.location):
            if self._forked is None and others[self.forker].done:
                spans = forks_of(others[self.forker], self._events_of_teams, self.order)
                self._forked, at = ForkedTeams(spans, self.order), spans.node.astype(np.int64)
                inherited = FOREIGN - (self.forker << 32 | np.maximum(at, 0))
                self._parents = np.where(at >= 0, inherited, stacks.ROOT_IN_TEAM)
                self._programs = np.full(self._parents.size, stacks.NO_PARENT, np.int64)
                self._team_periods = np.full(self._parents.size, -1, np.int64)
                if not self.divider.by_time:
                    self._team_periods = pick(others[self.forker].paths.column("period"), at).astype(np.int64)
                self.n_known = self._parents.size
            return self._forked is not None or give_up
        if self.n_known == self._master.size:
            return True
        unknown = slice(self.n_known, None)
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
        self.n_known += n
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
            raise self.result.damaged("an event enters another region than its call site in the table enter_sites")
        result[at] = entry
        return result

    @property
    def expected(self) -> tuple[int, int, int, int]:
        """Number of buffer flushes, task switches, begins in teams and forks in its side tables; -1 if unknown."""
        n_begins = self._parents.size if self.forker in (-1, self.location) else -1
        return self._stop_times.size, self._task_slots.size, n_begins, self.fork_rows.size


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
    time = order.time(row, joined_column(events, "time", np.int64)[mine])
    node = joined_column(events, "node", np.int32)[mine]
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
