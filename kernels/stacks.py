"""Walk through the events of one location: region stack, call paths, exclusive time, enclosing calls.

`scan_events` processes the events one by one and leaves each concern to a part: time (`charge`), call paths (`enter_*`,
`find_call_path`), stack frames (`push_frame`, `pop_item`), call instances (`open_call`, `close_call`), buffer flushes,
teams, tasks, attributed events, and phases or time bins (`begin_phase`, `pass_edges`). The compiler inlines the parts.
They work on groups of arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.actions import (
    ATTRIBUTE_CALL,
    FLUSH,
    NOTHING,
    ON_OFF,
    POP,
    PUSH,
    TASK_COMPLETE,
    TASK_SWITCH,
    TEAM_BEGIN,
    TEAM_END,
)
from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.pools import pop_item, push_item
from tracecols.schema.kinds import EventKind

# state carried from batch to batch
(
    LAST, TOP, FREE, N_NODES, N_CALLS, N_ATTRIBUTED, N_TEAMS, TEAM_DEPTH, BASE, PROGRAM, TASK, TASKS_DONE, N_FLUSHES,
    N_SWITCHES,
    BAD_EXITS, FIRST_BAD_EXIT, OPEN, ROW, PROGRAM_ROW, FLUSHED, HOME, DISORDERED, PERIOD, PERIOD_FRAME, TEAM_PERIOD,
    N_PHASES,
    N_NESTED, ROOM, THREAD_ROW, THREAD_TIME, N_STATE,
) = range(31)  # fmt: skip

# fill levels of the buffers after the locations that have ended, and their first free frame
(FILLED_PATHS, FILLED_CALLS, FILLED_ATTRIBUTED, FILLED_PHASES, FREE_FRAME, N_FILLED) = range(6)

NOT_BEGUN = -2
"""Value of `state[FREE]` for a location whose scan has not begun."""

# rows of the bounds of side values
(FLUSHES, SWITCHES, TEAMS, INTERVALS, TASKS, N_SIDES) = range(6)

# why a call returned
DONE, GROW, BLOCKED, DAMAGED = range(4)

# region flags
IS_CALL, IS_ARTIFICIAL, IS_PHASE = 1, 2, 4

# how a scan is divided into periods: by instances of regions, by calls of regions, by time
BY_INSTANCE, BY_CALL, BY_TIME = range(3)

FIRST_PERIOD = -2
"""Entry of the call paths that represent periods: FIRST_PERIOD - number. The call paths of the period are below it."""

NO_PARENT = -1
ROOT_IN_TEAM = -(2**63)
"""Used instead of NO_PARENT if a thread belongs to a team that was forked outside of all regions."""
IN_PROGRAM = ROOT_IN_TEAM + 1
"""Parent of call paths below the program of the process, whichever of its locations records the program."""

PROGRAM_BEGIN, PROGRAM_END = int(EventKind.PROGRAM_BEGIN), int(EventKind.PROGRAM_END)


class Events(NamedTuple):
    """Consecutive events of one location."""

    time: NDArray[np.int64]
    """(n,): ticks."""
    kind: NDArray[np.uint8]
    """(n,): `EventKind`."""
    entry: NDArray[np.int32]
    """(n,): the region entered or left, or a number for a call site and the region it enters; -1 none."""


class Meanings(NamedTuple):
    """Meaning of event kinds, entries and regions."""

    action: NDArray[np.uint8]
    """(256,): action of each kind (`kernels.actions`)."""
    region_of: NDArray[np.int32]
    """(n_entries,): region of every entry. The first entries are the regions themselves; the others are call sites,
    which distinguish call paths except at the root."""
    flags: NDArray[np.uint8]
    """(n_regions,): IS_CALL: every instance becomes a call instance; IS_ARTIFICIAL: not a region of the program;
    IS_PHASE: instances may begin phases."""
    tasks: np.int32
    threads: np.int32
    """`tasks` and `threads`: regions that are above the call paths of explicit tasks, and of threads that the program
    creates."""


class SideValues(NamedTuple):
    """Values from side tables for the events of a location, or of some locations one after the other, in the order of
    the events."""

    stop_time: NDArray[np.int64]
    """(n_flushes,): end of each buffer flush in ticks."""
    task: NDArray[np.int64]
    """(n_switches,): number of the task of each event that switches or completes tasks; 0 is the implicit task."""
    team_parent: NDArray[np.int64]
    team_program: NDArray[np.int64]
    """`team_parent` and `team_program`: (n_teams,), for each team begin: call path that the thread inherits, and that
    of the program it belongs to; negative codes point into the master's call paths."""
    interval_start: NDArray[np.int64]
    interval_stop: NDArray[np.int64]
    """`interval_start` and `interval_stop`: (n_teams,), for traces without TEAM_BEGIN events: rows between which the
    thread belongs to each team. Empty otherwise."""
    team_period: NDArray[np.int64]
    """(n_teams,): period of the fork of each team begin, -1 none."""
    n_known: Any
    """How many of the first elements of `team_parent` are known; a thread with an empty stack cannot begin in later
    ones. An int, (n_locations,) int64 of some locations."""


class Periods(NamedTuple):
    """Division of the time of the location into periods: phases of the program, or bins of time.

    Kernels take None if there are no periods. For None, they are compiled without the code for periods, in half the
    time.
    """

    mode: int
    """BY_INSTANCE: an instance of a region is a phase; BY_CALL: from one call of a region to the next; BY_TIME:
    bins."""
    fits: NDArray[np.bool_]
    """(n_levels, n_regions): regions that begin phases, regions they have to be called from, and so on upwards."""
    edges: NDArray[np.int64]
    """(n_edges,): ticks at which the next bin begins."""
    focus: NDArray[np.int64]
    """(n_locations, 4), for BY_TIME: ticks at which the focus of each location begins and ends, and the numbers of both
    among its edges; the other edges are those of bins (`edge_at`). A single row for one location (`own_periods`)."""
    chain: NDArray[np.int64]
    """(capacity,): scratch for the call paths of a stack, at least twice as large as the pool of frames."""
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (capacity,), filled: ticks at which the phases of the location begin and end."""


class Frames(NamedTuple):
    """Pool of stack frames; `state[FREE]` is the first free one."""

    below: NDArray[np.int64]
    """(capacity,): the frame below, for free frames the next free one; -1 none."""
    node: NDArray[np.int32]
    """(capacity,): call path."""
    time: NDArray[np.int64]
    row: NDArray[np.int64]
    """`time` and `row`: (capacity,), ticks and row of the ENTER."""
    call: NDArray[np.int64]
    """(capacity,): call instance, -1 none."""


class CallPaths(NamedTuple):
    """Call paths of the location, `state[N_NODES]` of them."""

    parent: NDArray[np.int64]
    """(capacity,): call path above, or a negative code."""
    entry: NDArray[np.int32]
    """(capacity,): the entry that is entered (`Meanings`)."""
    row: NDArray[np.int64]
    time: NDArray[np.int64]
    """`row` and `time`: (capacity,), row and ticks of the first ENTER."""
    recent: NDArray[np.int32]
    """(capacity,): call path last entered from each, -1 none."""
    exclusive: NDArray[np.int64]
    visits: NDArray[np.int64]
    """`exclusive` and `visits`: (capacity,), exclusive ticks; number of visits."""
    period: NDArray[np.int32]
    """(capacity,): period it belongs to, -1 none."""


class CallInstances(NamedTuple):
    """Region instances that joins need, `state[N_CALLS]` of them (`schema.scans.CALL_INSTANCES`)."""

    node: NDArray[np.int32]
    """(capacity,): call path."""
    enter: NDArray[np.int64]
    exit: NDArray[np.int64]
    enter_time: NDArray[np.int64]
    exit_time: NDArray[np.int64]
    """`enter`, `exit`, `enter_time` and `exit_time`: (capacity,), rows and ticks of ENTER and EXIT; -1 as long as there
    is no EXIT."""
    team: NDArray[np.int32]
    """(capacity,): number of the team begin the thread is in, -1 none."""
    tasks: NDArray[np.int64]
    """(capacity,): ticks of explicit tasks completed inside."""


class AttributedEvents(NamedTuple):
    """Events of side tables, `state[N_ATTRIBUTED]` of them (`schema.scans.ATTRIBUTED_EVENTS`)."""

    kind: NDArray[np.uint8]
    """(capacity,): `EventKind`."""
    time: NDArray[np.int64]
    """(capacity,): ticks."""
    call: NDArray[np.int64]
    """(capacity,): enclosing call instance, -1 none."""
    node: NDArray[np.int32]
    """(capacity,): call path, -1 none."""


class Tasks(NamedTuple):
    """The tasks of the location; 0 is the implicit one."""

    top: NDArray[np.int64]
    """(n_tasks,): top frame of each task that is not running, -1 none."""
    time: NDArray[np.int64]
    """(n_tasks,): ticks that each explicit task has taken so far."""
    stub: NDArray[np.int64]
    """(n_tasks,): call path that each is charged to where it was scheduled, -1 as long as it has none."""
    counted: NDArray[np.int64]
    """(n_tasks,): ticks of `time` already charged there: those in bins of time that are over."""
    gap: NDArray[np.int64]
    """(n_tasks,): last entry of `Charges` made for each explicit task while it had no stub, -1 none."""


class Pointers(NamedTuple):
    """Pointer columns (thesis 3.10); all of them, or the first two, may be empty."""

    enterptr: NDArray[np.int64]
    exitptr: NDArray[np.int64]
    """`enterptr` and `exitptr`: (n,) or (0,) int64, row of the enclosing ENTER, and row of the EXIT of an ENTER; -1
    none."""
    call_path: NDArray[np.int32]
    """(n,) or (0,) int32: call path, -1 none."""


class Charges(NamedTuple):
    """Intervals in which the exclusive time of call paths was spent, or empty arrays; for scans without periods."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (capacity,), ticks; if time decreases, the end is the earlier one. The capacity is one per
    event, one more per buffer flush, plus one."""
    node: NDArray[np.int64]
    """(capacity,): the call path that is charged. Time that an explicit task spends outside of its regions is charged
    to its stub; as long as it has none: -2 - the previous such entry of the same task, which is -1 if there is none."""
    n: NDArray[np.int64]
    """(1,): number of entries."""


class ScanArrays(NamedTuple):
    """Arrays that scans use and fill."""

    frames: Frames
    paths: CallPaths
    table: NDArray[np.int32]
    """(2 ** k,): hash table of the call paths, at least twice their number; empty between locations."""
    calls: CallInstances
    attributed: AttributedEvents
    team_stack: NDArray[np.int64]
    """(capacity,): numbers of the team begins the thread is in, `state[TEAM_DEPTH]` of them after element 0, which is
    -1."""
    tasks: Tasks
    pointers: Pointers
    """Filled if not empty."""
    charges: Charges
    """Filled if not empty; only for a single location that begins and ends in one call."""


# -- call paths --------------------------------------------------------------------------------------------------------


@part
def find_slot(parent, entry, node_parent, node_entry, table):
    """Find the slot in a hash table for the call path that enters `entry` from call path `parent`: it holds 0, or the
    number of the call path plus 1."""
    mask = table.size - 1
    h = (parent * np.int64(-7046029254386353131) ^ np.int64(entry) * np.int64(-4417276706812531889)) & np.int64(
        0x7FFFFFFFFFFFFFFF
    )
    slot = (h >> 20) & mask
    while True:
        node = table[slot] - 1
        if node < 0 or (node_parent[node] == parent and node_entry[node] == entry):
            return slot
        slot = (slot + 1) & mask


@part
def find_call_path(parent, entry, row, at, state, paths, table):
    """Find the call path that enters `entry` from call path `parent`, or add it."""
    slot = find_slot(parent, entry, paths.parent, paths.entry, table)
    if table[slot] > 0:
        return np.int64(table[slot] - 1)
    node = state[N_NODES]
    state[N_NODES] = node + 1
    table[slot] = node + 1
    paths.parent[node] = parent
    paths.entry[node] = entry
    paths.row[node] = row
    paths.time[node] = at
    paths.recent[node] = -1
    paths.exclusive[node] = 0
    paths.visits[node] = 0
    if entry <= FIRST_PERIOD:
        paths.period[node] = FIRST_PERIOD - entry
    else:
        paths.period[node] = paths.period[parent] if parent >= 0 else state[TEAM_PERIOD]
    return node


@kernel
def index_call_paths(paths, n, table):
    """Fill an empty hash table with the first `n` call paths."""
    for node in range(n):
        table[find_slot(paths.parent[node], paths.entry[node], paths.parent, paths.entry, table)] = node + 1


@part
def enter_below(parent, entry, row, at, state, paths, table):
    """Return the call path that enters `entry` from that of a stack frame; mostly it is the one entered last."""
    node = np.int64(paths.recent[parent])
    if node < 0 or paths.entry[node] != entry:
        node = find_call_path(parent, entry, row, at, state, paths, table)
        paths.recent[parent] = node
    return node


@part
def in_period(parent, row, at, state, periods, paths, table):
    """Return the call path that represents the current period of the location below `parent`; outside of periods,
    `parent`."""
    if periods is None:
        return parent
    if state[PERIOD] < 0:
        return parent
    return find_call_path(parent, FIRST_PERIOD - state[PERIOD], row, at, state, paths, table)


@part
def moved(node, row, at, state, periods, paths, table):
    """Return the counterpart of a call path in the current period of the location."""
    n = 0
    while node >= 0:
        if paths.entry[node] > FIRST_PERIOD:
            periods.chain[n] = node
            n += 1
        node = paths.parent[node]
    parent = in_period(node, row, at, state, periods, paths, table)
    while n > 0:
        n -= 1
        parent = find_call_path(parent, paths.entry[periods.chain[n]], row, at, state, paths, table)
    return parent


@part
def enter_in_task(entry, row, at, task, state, meanings, periods, frames, paths, table, tasks, charges):
    """Return the call path of the outermost region instance of an explicit task.

    It is below TASKS. The time of the task is also charged where it was scheduled, to the first region of the program
    that it enters: its stub.
    """
    if tasks.stub[task] == -1 and not meanings.flags[meanings.region_of[entry]] & IS_ARTIFICIAL:
        origin = tasks.top[0]
        above = (
            np.int64(frames.node[origin])
            if origin >= 0
            else in_period(state[BASE], row, at, state, periods, paths, table)
        )
        if periods is not None and periods.mode == BY_TIME and origin >= 0:
            above = moved(above, row, at, state, periods, paths, table)
        tasks.stub[task] = find_call_path(above, entry, row, at, state, paths, table)
        charge_gaps(task, tasks, charges)
    parent = state[PROGRAM]
    if periods is not None:
        period = state[PERIOD] if state[PERIOD] >= 0 else state[TEAM_PERIOD]
        if period >= 0:
            parent = find_call_path(parent, FIRST_PERIOD - period, row, at, state, paths, table)
    parent = find_call_path(parent, meanings.tasks, row, at, state, paths, table)
    return find_call_path(parent, entry, row, at, state, paths, table)


@part
def find_interval(row, state, sides, team_stack):
    """Find the team whose fork and join, recorded elsewhere, enclose a row; call paths that begin there are below the
    fork."""
    j = state[N_TEAMS]
    while j < sides.interval_start.size and sides.interval_stop[j] <= row:
        j += 1
    state[N_TEAMS] = j
    inside = j < sides.interval_start.size and sides.interval_start[j] <= row
    state[TEAM_DEPTH] = 1 if inside else 0
    team_stack[1] = j
    state[BASE] = sides.team_parent[j] if inside else state[HOME]
    state[TEAM_PERIOD] = sides.team_period[j] if inside else -1


@part
def enter_outermost(entry, kind, row, at, state, meanings, periods, paths, table):
    """Return the call path of an outermost region instance of the thread: below the call path that the thread
    inherits."""
    base = state[BASE]
    if base == NO_PARENT or base == ROOT_IN_TEAM:
        entry = meanings.region_of[entry]
    parent = in_period(base, row, at, state, periods, paths, table)
    node = find_call_path(parent, entry, row, at, state, paths, table)
    if kind == PROGRAM_BEGIN and state[PROGRAM] == NO_PARENT:
        state[PROGRAM] = node
        state[PROGRAM_ROW] = row
    return node


# -- time --------------------------------------------------------------------------------------------------------------


@part
def charge(since, until, top, task, frames, paths, tasks, charges):
    """Charge an interval to the call path on top, and to the running explicit task."""
    if top >= 0:
        paths.exclusive[frames.node[top]] += until - since
    if task > 0:
        tasks.time[task] += until - since
    if charges.begin.size > 0 and until != since and (top >= 0 or task > 0):
        if top >= 0:
            keep_charge(since, until, np.int64(frames.node[top]), charges)
        elif tasks.stub[task] >= 0:
            keep_charge(since, until, tasks.stub[task], charges)
        else:
            keep_charge(since, until, -2 - tasks.gap[task], charges)
            tasks.gap[task] = charges.n[0] - 1


@part
def keep_charge(since, until, node, charges):
    """Append an interval that is charged to a call path to `charges`."""
    n = charges.n[0]
    charges.n[0] = n + 1
    charges.begin[n] = since
    charges.end[n] = until
    charges.node[n] = node


@part
def charge_gaps(task, tasks, charges):
    """Charge the intervals that an explicit task spent while it had no stub to its stub."""
    k = tasks.gap[task]
    while k >= 0:
        before = -2 - charges.node[k]
        charges.node[k] = tasks.stub[task]
        k = before
    tasks.gap[task] = -1


# -- periods -----------------------------------------------------------------------------------------------------------


@part
def margin_of(periods, frames):
    """Return an upper bound for the call paths that one event adds: with periods, those of whole stacks."""
    if periods is None:
        return 4
    return 3 * frames.below.size + 16


@part
def begins_phase(entry, top, task, meanings, periods, frames, paths):
    """Return whether a region instance begins a phase: its callers have to fit as well."""
    if task > 0 or not periods.fits[0, meanings.region_of[entry]]:
        return False
    node = np.int64(frames.node[top]) if top >= 0 else np.int64(-1)
    for level in range(1, periods.fits.shape[0]):
        while node >= 0 and paths.entry[node] <= FIRST_PERIOD:
            node = paths.parent[node]
        if node < 0 or not periods.fits[level, meanings.region_of[paths.entry[node]]]:
            return False
        node = paths.parent[node]
    return True


@part
def move_frames(top, row, at, state, periods, frames, paths, table):
    """Replace the call paths of all frames of a stack by their counterparts in the current period of the location."""
    n = 0
    frame = top
    half = periods.chain.size // 2
    while frame >= 0:
        periods.chain[half + n] = frame
        n += 1
        frame = frames.below[frame]
    while n > 0:
        n -= 1
        frame = periods.chain[half + n]
        below = frames.below[frame]
        if below < 0:
            frames.node[frame] = moved(np.int64(frames.node[frame]), row, at, state, periods, paths, table)
        else:
            entry = paths.entry[frames.node[frame]]
            frames.node[frame] = find_call_path(np.int64(frames.node[below]), entry, row, at, state, paths, table)


@part
def begin_phase(top, row, at, state, periods, frames, paths, table):
    """Begin the next phase of the location; if phases go from call to call, the frames on the stack belong to it."""
    if state[PERIOD] >= 0:
        periods.end[state[PERIOD]] = at
    elif periods.mode == BY_CALL:
        state[PERIOD_FRAME] = top
    phase = state[N_PHASES]
    state[N_PHASES] = phase + 1
    state[PERIOD] = phase
    periods.begin[phase] = at
    periods.end[phase] = at
    if periods.mode == BY_CALL and top >= 0:
        move_frames(top, row, at, state, periods, frames, paths, table)


@part
def end_phase(top, row, at, state, periods, frames, paths, table):
    """End the phase: the frames that remain on the stack are outside again."""
    periods.end[state[PERIOD]] = at
    state[PERIOD] = -1
    state[PERIOD_FRAME] = -1
    if periods.mode == BY_CALL and top >= 0:
        move_frames(top, row, at, state, periods, frames, paths, table)


@part
def count_in_bin(task, paths, tasks):
    """Charge the time that an explicit task has taken since its last bin to its stub."""
    if tasks.stub[task] >= 0:
        paths.exclusive[tasks.stub[task]] += tasks.time[task] - tasks.counted[task]
        tasks.counted[task] = tasks.time[task]


@part
def continue_in_bin(top, task, row, at, state, periods, frames, paths, table, tasks):
    """Move the running stack, and the stub of the running explicit task, into the current bin of the location."""
    if top >= 0 and paths.period[frames.node[top]] != state[PERIOD]:
        move_frames(top, row, at, state, periods, frames, paths, table)
    if task > 0 and tasks.stub[task] >= 0 and paths.period[tasks.stub[task]] != state[PERIOD]:
        tasks.stub[task] = moved(tasks.stub[task], row, at, state, periods, paths, table)


@part
def edge_at(number, periods):
    """Return the time of an edge of a location: the edge of a bin, or an end of the focus."""
    begin, end = periods.focus[2], periods.focus[3]
    if number == begin:
        return periods.focus[0]
    if number == end:
        return periods.focus[1]
    return periods.edges[number - (number > begin) - (number > end)]


@part
def edge_after(state, periods):
    """Return the time of the next edge; the largest time after the last edge, and without bins."""
    if periods is not None and periods.mode == BY_TIME and state[PERIOD] < periods.edges.size + 2:
        return edge_at(state[PERIOD], periods)
    return np.int64(0x7FFFFFFFFFFFFFFF)


@part
def pass_edges(now, last, row, top, task, state, periods, frames, paths, table, tasks, charges):
    """Divide the time since the last event that counted at the edges that are not later than `now`.

    Returns
    -------
    int
        Begin of the time not charged yet: the last edge that was passed, or `last`. If there is no room for more call
        paths, edges remain.
    """
    while state[PERIOD] < periods.edges.size + 2 and edge_at(state[PERIOD], periods) <= now:
        state[ROOM] = margin_of(periods, frames)
        if 2 * (state[N_NODES] + state[ROOM]) > table.size:
            return last
        edge = edge_at(state[PERIOD], periods)
        if edge > last:
            charge(last, edge, top, task, frames, paths, tasks, charges)
            last = edge
        if task > 0:
            count_in_bin(task, paths, tasks)
        state[PERIOD] += 1
        continue_in_bin(top, task, row, edge, state, periods, frames, paths, table, tasks)
    return last


# -- stack frames and call instances -----------------------------------------------------------------------------------


@part
def has_room(margin, state, table, calls):
    """Return whether one more region instance fits into the buffers."""
    return state[FREE] >= 0 and 2 * (state[N_NODES] + margin) <= table.size and state[N_CALLS] < calls.node.size


@part
def push_frame(node, top, row, at, state, frames):
    """Put a frame on top of another, and return it."""
    frame = push_item(top, state, FREE, frames.below)
    frames.node[frame] = node
    frames.time[frame] = at
    frames.row[frame] = row
    frames.call[frame] = -1
    return frame


@part
def open_call(node, row, at, state, calls, team_stack):
    """Add a call instance, and return its number."""
    call = state[N_CALLS]
    state[N_CALLS] = call + 1
    calls.node[call] = node
    calls.enter[call] = row
    calls.enter_time[call] = at
    calls.exit_time[call] = -1
    calls.exit[call] = -1
    calls.team[call] = team_stack[state[TEAM_DEPTH]]
    calls.tasks[call] = state[TASKS_DONE]
    return call


@part
def close_call(call, row, at, state, calls):
    """End a call instance."""
    calls.exit_time[call] = at
    calls.exit[call] = row
    calls.tasks[call] = state[TASKS_DONE] - calls.tasks[call]


@part
def count_bad_exit(top, entry, kind, row, state, meanings, frames, paths):
    """Count an EXIT that leaves another region than the one on top, or none."""
    if top < 0 or (entry >= 0 and kind != PROGRAM_END and meanings.region_of[paths.entry[frames.node[top]]] != entry):
        state[BAD_EXITS] += 1
        if state[FIRST_BAD_EXIT] < 0:
            state[FIRST_BAD_EXIT] = row


@part
def point_up(i, top, frames, pointers):
    """Set the pointers of event i to the region instance it is in."""
    if pointers.enterptr.size > 0:
        pointers.enterptr[i] = frames.row[top] if top >= 0 else -1
        pointers.exitptr[i] = -1
    pointers.call_path[i] = frames.node[top] if top >= 0 else -1


# -- buffer flushes, teams, tasks --------------------------------------------------------------------------------------


@part
def flush_buffer(node, at, now, task, state, sides, paths, tasks, charges):
    """Count a buffer flush as a visit of its call path, and return when it ends."""
    stop = max(sides.stop_time[state[N_FLUSHES]], at)
    state[N_FLUSHES] += 1
    paths.visits[node] += 1
    # if flushes overlap, the later one is charged with the remainder
    stop = max(stop, now)
    paths.exclusive[node] += stop - now
    if task > 0:
        tasks.time[task] += stop - now
    if charges.begin.size > 0 and stop != now:
        keep_charge(now, stop, node, charges)
    return stop


@part
def flush_path(entry, row, at, top, state, periods, frames, paths, table):
    """Return the call path of a buffer flush."""
    parent = np.int64(frames.node[top]) if top >= 0 else in_period(state[BASE], row, at, state, periods, paths, table)
    return find_call_path(parent, entry, row, at, state, paths, table)


@part
def edges_within_flush(state, sides, periods):
    """Return how many edges of bins lie in the next buffer flush."""
    n = state[PERIOD]
    while n < periods.edges.size + 2 and edge_at(n, periods) < sides.stop_time[state[N_FLUSHES]]:
        n += 1
    return n - state[PERIOD]


@part
def divide_flush(entry, row, start, stop, top, task, state, periods, frames, paths, table, tasks):
    """Divide the time of a buffer flush, so far charged to the bin it begins in, at the edges of bins."""
    node = flush_path(entry, row, start, top, state, periods, frames, paths, table)
    while state[PERIOD] < periods.edges.size + 2 and edge_at(state[PERIOD], periods) < stop:
        edge = max(edge_at(state[PERIOD], periods), start)
        paths.exclusive[node] -= stop - edge
        if task > 0:
            tasks.time[task] -= stop - edge
            count_in_bin(task, paths, tasks)
            tasks.time[task] += stop - edge
        state[PERIOD] += 1
        continue_in_bin(top, task, row, edge, state, periods, frames, paths, table, tasks)
        node = flush_path(entry, row, edge, top, state, periods, frames, paths, table)
        paths.exclusive[node] += stop - edge


@part
def begin_in_team(row, top, task, state, sides, team_stack):
    """Let the thread begin in its next team: its call paths there are below that of the fork, unless it forked itself.

    Returns DONE, or the reason why that is not possible.
    """
    j = state[N_TEAMS]
    if j >= sides.team_parent.size:
        return DAMAGED
    if top < 0 and task == 0:
        if j >= sides.n_known:
            return BLOCKED
        state[BASE] = sides.team_parent[j] if sides.team_parent[j] != NO_PARENT else state[HOME]
        state[TEAM_PERIOD] = sides.team_period[j]
        if state[PROGRAM] == NO_PARENT and sides.team_program[j] != NO_PARENT:
            state[PROGRAM] = sides.team_program[j]
            state[PROGRAM_ROW] = row
    if state[TEAM_DEPTH] + 1 >= team_stack.size:
        return GROW
    state[N_TEAMS] = j + 1
    state[TEAM_DEPTH] += 1
    team_stack[state[TEAM_DEPTH]] = j
    return DONE


@part
def end_in_team(top, task, state):
    """Let the thread leave the team it began in last."""
    if state[TEAM_DEPTH] > 0:
        state[TEAM_DEPTH] -= 1
    if top < 0 and task == 0 and state[TEAM_DEPTH] == 0:
        state[BASE] = state[HOME]
        state[TEAM_PERIOD] = -1


@part
def complete_task(task, state, paths, tasks):
    """End an explicit task: charge its time to its stub."""
    stub = tasks.stub[task]
    if stub >= 0:
        paths.exclusive[stub] += tasks.time[task] - tasks.counted[task]
        paths.visits[stub] += 1
    state[TASKS_DONE] += tasks.time[task]
    tasks.time[task], tasks.stub[task], tasks.counted[task], tasks.gap[task] = 0, -1, 0, -1


# -- attributed events -------------------------------------------------------------------------------------------------


@part
def attribute(kind, at, what, top, state, frames, calls, attributed, team_stack):
    """Record an event that has attributes, with the call path and the call instance it is in.

    A region instance becomes a call instance with the first event that makes it one (ATTRIBUTE_CALL).
    """
    m = state[N_ATTRIBUTED]
    state[N_ATTRIBUTED] = m + 1
    attributed.kind[m] = kind
    attributed.time[m] = at
    call = np.int64(-1)
    node = np.int32(-1)
    if top >= 0:
        node = frames.node[top]
        call = frames.call[top]
        if call < 0 and what == ATTRIBUTE_CALL:
            call = open_call(node, frames.row[top], frames.time[top], state, calls, team_stack)
            frames.call[top] = call
    attributed.node[m] = node
    attributed.call[m] = call


# -- the walk ----------------------------------------------------------------------------------------------------------


@part
def scan_events(events, start, state, meanings, sides, periods, work):
    """Walk through consecutive events of one location.

    Parameters
    ----------
    events : Events
    start : int
        Index of the event to begin with; a call that returned GROW or BLOCKED is repeated with the index it returned.
    state : (N_STATE,) int64
        Carried along; `state[ROW]` is the row of event 0 of this batch, `state[HOME]` the call path above the thread's
        own ones, NO_PARENT if these are roots.
    meanings : Meanings
    sides : SideValues
    periods : Periods or None
        Division of the time of the location, if there is one. Call paths in a period differ from those outside.
    work : ScanArrays
        Of the location.

    Returns
    -------
    why, i : int
        DONE, GROW (a buffer is full), BLOCKED (a team's parent is not known) or DAMAGED (the event enters an undefined
        region, or there are more such events than `sides` has values), and the event to go on with.

    Notes
    -----
    Exclusive times are differences between consecutive events, and so negative where time decreases: the inclusive time
    of a call path is always the sum of EXIT - ENTER of its instances. Events recorded before the end of a BUFFER_FLUSH
    count as if they occurred at its end (`state[FLUSHED]`).
    """
    frames, paths, table, calls, attributed, team_stack, tasks, pointers, charges = work
    first_row = state[ROW]
    last = state[LAST]
    flushed = state[FLUSHED]
    top = state[TOP]
    task = state[TASK]
    pointing = pointers.call_path.size > 0
    n_entries = np.uint32(meanings.region_of.size)
    margin = margin_of(periods, frames)
    next_edge = edge_after(state, periods)
    state[ROOM] = margin
    why = DONE
    i = start
    while i < events.time.size:
        kind = events.kind[i]
        what = meanings.action[kind]
        entry = events.entry[i]
        at = events.time[i]
        now = max(at, flushed)
        row = first_row + i
        if periods is not None and now >= next_edge:
            last = pass_edges(now, last, row, top, task, state, periods, frames, paths, table, tasks, charges)
            next_edge = edge_after(state, periods)
            if now >= next_edge:
                why = GROW
                break
        if what == ON_OFF:
            what = np.uint8(PUSH) if entry >= 0 else np.uint8(POP)
        if what == PUSH:
            if not has_room(margin, state, table, calls):
                why = GROW
                break
            # as an unsigned number null is the largest: one comparison covers both
            if np.uint32(entry) >= n_entries:
                why = DAMAGED
                break
            flags = meanings.flags[meanings.region_of[entry]]
            begins = False
            if periods is not None and flags & IS_PHASE:
                if state[N_PHASES] >= periods.begin.size:
                    why = GROW
                    break
                begins = begins_phase(entry, top, task, meanings, periods, frames, paths)
            charge(last, now, top, task, frames, paths, tasks, charges)
            if top < 0 and task == 0 and sides.interval_start.size:
                find_interval(row, state, sides, team_stack)
            if periods is not None and begins:
                if state[TEAM_PERIOD] >= 0 or (periods.mode == BY_INSTANCE and state[PERIOD] >= 0):
                    state[N_NESTED] += 1
                    begins = False
                else:
                    begin_phase(top, row, at, state, periods, frames, paths, table)
            if top >= 0:
                above = np.int64(frames.node[top])
                if periods is not None and begins and periods.mode == BY_INSTANCE:
                    above = in_period(above, row, at, state, periods, paths, table)
                node = enter_below(above, entry, row, at, state, paths, table)
            elif task > 0:
                node = enter_in_task(
                    entry, row, at, task, state, meanings, periods, frames, paths, table, tasks, charges
                )
            else:
                node = enter_outermost(entry, kind, row, at, state, meanings, periods, paths, table)
            if at < last:
                state[DISORDERED] += 1
            last = now
            paths.visits[node] += 1
            if pointing:
                point_up(i, top, frames, pointers)
                pointers.call_path[i] = node
            top = push_frame(node, top, row, at, state, frames)
            if periods is not None and begins and periods.mode == BY_INSTANCE:
                state[PERIOD_FRAME] = top
            if flags & IS_CALL:
                frames.call[top] = open_call(node, row, at, state, calls, team_stack)
        elif what == POP:
            count_bad_exit(top, entry, kind, row, state, meanings, frames, paths)
            if pointing:
                point_up(i, top, frames, pointers)
                if top >= 0 and frames.row[top] >= first_row and pointers.exitptr.size > 0:
                    pointers.exitptr[frames.row[top] - first_row] = row
            if top >= 0:
                charge(last, now, top, task, frames, paths, tasks, charges)
                if at < last:
                    state[DISORDERED] += 1
                last = now
                if frames.call[top] >= 0:
                    close_call(frames.call[top], row, at, state, calls)
                ends = top == state[PERIOD_FRAME]
                top = pop_item(top, state, FREE, frames.below)
                if periods is not None and ends:
                    end_phase(top, row, at, state, periods, frames, paths, table)
        else:
            if pointing:
                point_up(i, top, frames, pointers)
            if what == FLUSH:
                if not has_room(margin, state, table, calls):
                    why = GROW
                    break
                if state[N_FLUSHES] >= sides.stop_time.size or np.uint32(entry) >= n_entries:
                    why = DAMAGED
                    break
                if periods is not None and periods.mode == BY_TIME:
                    state[ROOM] = margin * (1 + edges_within_flush(state, sides, periods))
                    if not has_room(state[ROOM], state, table, calls):
                        why = GROW
                        break
                    state[ROOM] = margin
                charge(last, now, top, task, frames, paths, tasks, charges)
                flush_node = flush_path(entry, row, at, top, state, periods, frames, paths, table)
                flushed = flush_buffer(flush_node, at, now, task, state, sides, paths, tasks, charges)
                last = flushed
                if periods is not None and flushed > next_edge:
                    divide_flush(entry, row, now, flushed, top, task, state, periods, frames, paths, table, tasks)
                    next_edge = edge_after(state, periods)
            elif what != NOTHING:
                if state[N_ATTRIBUTED] >= attributed.kind.size or state[N_CALLS] >= calls.node.size:
                    why = GROW
                    break
                if periods is not None and periods.mode == BY_TIME and 2 * (state[N_NODES] + margin) > table.size:
                    why = GROW
                    break
                if what == TEAM_BEGIN:
                    why = begin_in_team(row, top, task, state, sides, team_stack)
                    if why != DONE:
                        break
                    if top < 0 and task == 0:
                        last = now
                elif what == TEAM_END:
                    end_in_team(top, task, state)
                elif what == TASK_SWITCH or what == TASK_COMPLETE:
                    if state[N_SWITCHES] >= sides.task.size:
                        why = DAMAGED
                        break
                    other = sides.task[state[N_SWITCHES]]
                    state[N_SWITCHES] += 1
                    charge(last, now, top, task, frames, paths, tasks, charges)
                    last = now
                    tasks.top[task] = top
                    if periods is not None and periods.mode == BY_TIME and task > 0:
                        count_in_bin(task, paths, tasks)
                    if what == TASK_COMPLETE:
                        complete_task(other, state, paths, tasks)
                        other = np.int64(0)
                    task = other
                    top = tasks.top[task]
                    if periods is not None and periods.mode == BY_TIME:
                        continue_in_bin(top, task, row, at, state, periods, frames, paths, table, tasks)
                attribute(kind, at, what, top, state, frames, calls, attributed, team_stack)
        i += 1
    state[LAST] = last
    state[FLUSHED] = flushed
    state[TOP] = top
    state[TASK] = task
    return why, i


@part
def close_frames(end, state, periods, frames, paths, calls, tasks, charges):
    """End the region instances still open after the last event of a location, at its time, and free all frames.

    The time of explicit tasks that were not completed is charged to their stubs.
    """
    end = max(end, state[FLUSHED])
    charge(state[LAST], end, state[TOP], state[TASK], frames, paths, tasks, charges)
    for task in range(1, tasks.stub.size):
        if tasks.stub[task] >= 0:
            paths.exclusive[tasks.stub[task]] += tasks.time[task] - tasks.counted[task]
    if periods is not None and periods.mode != BY_TIME and state[PERIOD] >= 0:
        periods.end[state[PERIOD]] = end
    for task in range(tasks.top.size):
        # the entry of the running task is out of date
        top = state[TOP] if task == state[TASK] else tasks.top[task]
        while top >= 0:
            # pieces of recordings may end while explicit tasks are suspended
            state[OPEN] += task == 0 or task == state[TASK]
            if frames.call[top] >= 0:
                calls.exit_time[frames.call[top]] = end
            top = pop_item(top, state, FREE, frames.below)


@part
def empty_table(n, paths, table):
    """Remove the first `n` call paths from a hash table, the last one first: it has displaced none of those that
    remain."""
    for node in range(n - 1, -1, -1):
        table[find_slot(paths.parent[node], paths.entry[node], paths.parent, paths.entry, table)] = 0


@part
def own_periods(k, periods, n_phases):
    """Return the division of the time of location `k`, whose phases follow the `n_phases` of other locations."""
    if periods is None:
        return None
    return Periods(
        periods.mode,
        periods.fits,
        periods.edges,
        periods.focus[k],
        periods.chain,
        periods.begin[n_phases:],
        periods.end[n_phases:],
    )


@part
def sides_of(k, bounds, sides):
    """Return the side values of location `k`."""
    a, b = bounds[TEAMS, k], bounds[TEAMS, k + 1]
    c, d = bounds[INTERVALS, k], bounds[INTERVALS, k + 1]
    return SideValues(
        sides.stop_time[bounds[FLUSHES, k] : bounds[FLUSHES, k + 1]],
        sides.task[bounds[SWITCHES, k] : bounds[SWITCHES, k + 1]],
        sides.team_parent[a:b],
        sides.team_program[a:b],
        sides.interval_start[c:d],
        sides.interval_stop[c:d],
        sides.team_period[a:b],
        sides.n_known[k],
    )


@part
def own_arrays(first, stop, first_task, stop_task, filled, work):
    """Return the arrays of a location, whose events and tasks are in ranges of all; its results follow those of the
    locations that have ended."""
    frames, paths, table, calls, attributed, team_stack, tasks, pointers, charges = work
    a, b, c = filled[FILLED_PATHS], filled[FILLED_CALLS], filled[FILLED_ATTRIBUTED]
    p, q = first_task, stop_task
    own_paths = CallPaths(
        paths.parent[a:],
        paths.entry[a:],
        paths.row[a:],
        paths.time[a:],
        paths.recent[a:],
        paths.exclusive[a:],
        paths.visits[a:],
        paths.period[a:],
    )
    own_calls = CallInstances(
        calls.node[b:],
        calls.enter[b:],
        calls.exit[b:],
        calls.enter_time[b:],
        calls.exit_time[b:],
        calls.team[b:],
        calls.tasks[b:],
    )
    return ScanArrays(
        frames,
        own_paths,
        table,
        own_calls,
        AttributedEvents(attributed.kind[c:], attributed.time[c:], attributed.call[c:], attributed.node[c:]),
        team_stack,
        Tasks(tasks.top[p:q], tasks.time[p:q], tasks.stub[p:q], tasks.counted[p:q], tasks.gap[p:q]),
        Pointers(pointers.enterptr[first:stop], pointers.exitptr[first:stop], pointers.call_path[first:stop]),
        charges,
    )


@part
def pass_last_edges(end, state, periods, frames, paths, table, tasks, charges):
    """Divide the time until the end of the location at the edges of bins; return whether there was room for that."""
    if periods is None:
        return True
    if periods.mode != BY_TIME:
        return True
    end = max(end, state[FLUSHED])
    state[LAST] = pass_edges(
        end, state[LAST], state[ROW], state[TOP], state[TASK], state, periods, frames, paths, table, tasks, charges
    )
    return state[PERIOD] >= periods.edges.size + 2 or edge_at(state[PERIOD], periods) > end


@kernel
def scan_locations(k, start, events, bounds, states, meanings, sides, side_bounds, periods, work, filled, ends):
    """Walk through consecutive events of some locations, one location after the other; their results follow each other.

    Parameters
    ----------
    k, start : int
        Location and index of its event to begin with; a call that returned GROW is repeated with those it returned.
    events : Events
        Of all these locations.
    bounds : (n_locations + 1,) int64
        Where the events of each location begin.
    states : (n_locations, N_STATE) int64
        See `scan_events`.
    meanings : Meanings
    sides : SideValues
    side_bounds : (N_SIDES, n_locations + 1) int64
        Where the side values of each location begin.
    periods : Periods or None
    work : ScanArrays
        Tasks and pointers are those of all these locations.
    filled : (N_FILLED,) int64
        Fill levels of the buffers after the locations that have ended.
    ends : bool
        Whether these are the last events of each location.

    Returns
    -------
    why, k, i : int
        As for `scan_events`; the location and the event to go on with.
    """
    while k < bounds.size - 1:
        state = states[k]
        if filled[FILLED_PATHS] + work.table.size // 2 > work.paths.parent.size:
            return GROW, k, start
        first, stop = bounds[k], bounds[k + 1]
        own_events = Events(events.time[first:stop], events.kind[first:stop], events.entry[first:stop])
        own = own_arrays(first, stop, side_bounds[TASKS, k], side_bounds[TASKS, k + 1], filled, work)
        of_periods = own_periods(k, periods, filled[FILLED_PHASES])
        if state[FREE] == NOT_BEGUN:
            state[FREE] = filled[FREE_FRAME]
            if state[HOME] >= 0:
                row, at = state[THREAD_ROW], state[THREAD_TIME]
                find_call_path(np.int64(IN_PROGRAM), meanings.threads, row, at, state, own.paths, own.table)
        own_sides = sides_of(k, side_bounds, sides)
        why, start = scan_events(own_events, start, state, meanings, own_sides, of_periods, own)
        if why != DONE:
            return why, k, start
        if ends:
            end = events.time[stop - 1] if stop > first else np.int64(0)
            frames, paths, table, calls, _, _, tasks, _, charges = own
            if not pass_last_edges(end, state, of_periods, frames, paths, table, tasks, charges):
                return GROW, k, start
            close_frames(end, state, of_periods, frames, paths, calls, tasks, charges)
            empty_table(state[N_NODES], paths, table)
            filled[FILLED_PATHS] += state[N_NODES]
            filled[FILLED_CALLS] += state[N_CALLS]
            filled[FILLED_ATTRIBUTED] += state[N_ATTRIBUTED]
            filled[FILLED_PHASES] += state[N_PHASES]
            filled[FREE_FRAME] = state[FREE]
        k, start = k + 1, np.int64(0)
    return DONE, k, start
