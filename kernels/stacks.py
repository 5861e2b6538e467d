"""Walk through the events of one location: region stack, call paths, exclusive time, enclosing calls."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel

# what an event kind does to the stack
NOTHING, PUSH, POP, ON_OFF, FLUSH, ATTRIBUTE, ATTRIBUTE_CALL, TEAM_BEGIN, TEAM_END, TASK_SWITCH, TASK_COMPLETE = range(
    11
)

# state carried from batch to batch
(
    LAST, TOP, FREE, N_NODES, N_CALLS, N_ATTRIBUTED, N_TEAMS, TEAM_DEPTH, BASE, PROGRAM, TASK, TASKS_DONE, N_FLUSHES, N_SWITCHES,
    BAD_EXITS, FIRST_BAD_EXIT, OPEN, ROW, PROGRAM_ROW, FLUSHED, HOME, DISORDERED, N_STATE,
) = range(23)  # fmt: skip

# why a call returned
DONE, GROW, BLOCKED, DAMAGED = range(4)

# region flags
IS_CALL, IS_ARTIFICIAL = 1, 2

NO_PARENT = -1
ROOT_IN_TEAM = -(2**63)
"""Instead of NO_PARENT where a thread belongs to a team that was forked outside of all regions."""
IN_PROGRAM = ROOT_IN_TEAM + 1
"""Parent of what stands below the program of the process, whichever of its locations records that."""


@kernel
def find_slot(parent, entry, node_parent, node_entry, table):
    """Find the place in a hash table of the call path that enters `entry` from call path `parent`: it holds 0, or one more than the number."""
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


@kernel
def find_call_path(parent, region, row, at, state, node_parent, node_region, node_row, node_time, node_recent, table):
    """Find the call path that enters `region` from call path `parent`, or add it."""
    slot = find_slot(parent, region, node_parent, node_region, table)
    if table[slot] > 0:
        return np.int64(table[slot] - 1)
    node = state[N_NODES]
    state[N_NODES] = node + 1
    table[slot] = node + 1
    node_parent[node] = parent
    node_region[node] = region
    node_row[node] = row
    node_time[node] = at
    node_recent[node] = -1
    return node


@kernel
def index_call_paths(node_parent, node_region, n, table):
    """Fill an empty hash table with the first `n` call paths."""
    for node in range(n):
        table[find_slot(node_parent[node], node_region[node], node_parent, node_region, table)] = node + 1


@kernel
def scan_events(
    time, kind, entry, start, state, action, entry_region, region_flags, tasks_region,
    stop_times, team_parents, team_programs, n_known_teams, interval_start, interval_stop, task_slots,
    frame_parent, frame_node, frame_time, frame_row, frame_call,
    node_parent, node_region, node_row, node_time, node_recent, exclusive, visits, table,
    call_node, call_enter, call_exit, call_enter_time, call_exit_time, call_team, call_tasks,
    event_kind, event_time, event_call, event_node,
    team_stack, task_top, task_time, task_stub,
    enterptr, exitptr, call_path,
):  # fmt: skip
    """Walk through consecutive events of one location.

    Parameters
    ----------
    time, kind, entry : (n,) int64, uint8, int32
        Events in order; the region entered or left, or a number for a call site and the region it enters.
    start : int
        Index of the event to begin with; a call that returned GROW or BLOCKED is repeated with the index it returned.
    state : (N_STATE,) int64
        Carried along; `state[ROW]` is the row of event 0 of this batch, `state[HOME]` the call path below which the thread's
        own ones stand, NO_PARENT for roots.
    action : (256,) uint8
        What each kind does.
    entry_region : (n_entries,) int32
        Region of every entry. The first entries are the regions themselves; others are call sites, which tell call paths
        apart except at the root.
    region_flags : (n_regions,) uint8
        IS_CALL: every instance becomes a call; IS_ARTIFICIAL: no region of the program.
    tasks_region : int
        Region that stands above the call paths of explicit tasks.
    stop_times, team_parents, team_programs, task_slots : (any,) int64
        Of the location's buffer flushes, team begins and task events, in order: end time, call path the thread inherits
        and that of the program it belongs to (negative codes point into the master's call paths), number of the task (0 is
        the implicit task).
    n_known_teams : int
        How many of `team_parents` are known; a thread without a stack cannot begin in one that is not.
    interval_start, interval_stop : (n_teams,) int64
        Where teams are not begun by events of their own: rows between which the thread belongs to each. Empty otherwise.
    frame_* : (capacity,)
        Pool of stack frames, linked by `frame_parent`.
    node_*, exclusive, visits, table
        Call paths: parent, region, first row and time; exclusive ticks, visits; hash table, twice as large.
    call_* : (capacity,)
        Region instances that matter to joins: call path, rows of ENTER and EXIT, their times, number of the team begin
        the thread is in, ticks of explicit tasks completed inside.
    event_* : (capacity,)
        Events of side tables: kind, time, enclosing call, call path.
    team_stack, task_* : (capacity,)
        Teams the thread is in; per task the top frame, its ticks, its stub call path.
    enterptr, exitptr, call_path : (n,) or (0,) int64, int64, int32
        Filled if not empty (thesis 3.10): row of the enclosing ENTER, row of the EXIT of an ENTER, call path.

    Returns
    -------
    why, i : int
        DONE, GROW (a buffer is full), BLOCKED (a team's parent is not known) or DAMAGED (the event enters no region there is, or
        there are more such events than `stop_times`, `team_parents` or `task_slots` hold), and the event to go on with.

    Notes
    -----
    Exclusive times are differences of the times of events that follow each other, and so negative where time decreases: what
    the region instances of a call path and below it take is always the sum of EXIT - ENTER. What was recorded late by a
    BUFFER_FLUSH counts from its end (`state[FLUSHED]`).
    """
    n = time.size
    base_row = state[ROW]
    last = state[LAST]
    flushed = state[FLUSHED]
    top = state[TOP]
    task = state[TASK]
    pointers = enterptr.size > 0
    n_entries = np.uint32(entry_region.size)
    why = DONE
    i = start
    while i < n:
        k = kind[i]
        what = action[k]
        t = time[i]
        now = max(t, flushed)
        if what == ON_OFF:
            what = np.uint8(PUSH) if entry[i] >= 0 else np.uint8(POP)
        if what == PUSH:
            free = state[FREE]
            if free < 0 or 2 * (state[N_NODES] + 4) > table.size or state[N_CALLS] >= call_node.size:
                why = GROW
                break
            r = entry[i]
            # as an unsigned number null is the largest: one comparison for both
            if np.uint32(r) >= n_entries:
                why = DAMAGED
                break
            if top >= 0:
                parent = np.int64(frame_node[top])
                exclusive[parent] += now - last
                if task > 0:
                    task_time[task] += now - last
                node = node_recent[parent]
                if node < 0 or node_region[node] != r:
                    node = find_call_path(
                        parent,
                        r,
                        base_row + i,
                        t,
                        state,
                        node_parent,
                        node_region,
                        node_row,
                        node_time,
                        node_recent,
                        table,
                    )
                    node_recent[parent] = node
            elif task > 0:
                task_time[task] += now - last
                if task_stub[task] == -1 and not region_flags[entry_region[r]] & IS_ARTIFICIAL:
                    origin = task_top[0]
                    at = np.int64(frame_node[origin]) if origin >= 0 else state[BASE]
                    task_stub[task] = find_call_path(
                        at, r, base_row + i, t, state, node_parent, node_region, node_row, node_time, node_recent, table
                    )
                parent = find_call_path(
                    state[PROGRAM],
                    tasks_region,
                    base_row + i,
                    t,
                    state,
                    node_parent,
                    node_region,
                    node_row,
                    node_time,
                    node_recent,
                    table,
                )
                node = find_call_path(
                    parent, r, base_row + i, t, state, node_parent, node_region, node_row, node_time, node_recent, table
                )
            else:
                if interval_start.size:
                    # the team whose fork and join enclose this event
                    j = state[N_TEAMS]
                    while j < interval_start.size and interval_stop[j] <= base_row + i:
                        j += 1
                    state[N_TEAMS] = j
                    inside = j < interval_start.size and interval_start[j] <= base_row + i
                    state[TEAM_DEPTH] = 1 if inside else 0
                    team_stack[1] = j
                    state[BASE] = team_parents[j] if inside else state[HOME]
                node = find_call_path(
                    state[BASE],
                    entry_region[r] if state[BASE] == NO_PARENT or state[BASE] == ROOT_IN_TEAM else r,
                    base_row + i,
                    t,
                    state,
                    node_parent,
                    node_region,
                    node_row,
                    node_time,
                    node_recent,
                    table,
                )
                if k == 83 and state[PROGRAM] == NO_PARENT:
                    state[PROGRAM] = node
                    state[PROGRAM_ROW] = base_row + i
            if t < last:
                state[DISORDERED] += 1
            last = now
            visits[node] += 1
            if pointers:
                enterptr[i] = frame_row[top] if top >= 0 else -1
                exitptr[i] = -1
                call_path[i] = node
            frame = free
            state[FREE] = frame_parent[frame]
            frame_parent[frame] = top
            frame_node[frame] = node
            frame_time[frame] = t
            frame_row[frame] = base_row + i
            frame_call[frame] = -1
            top = frame
            if region_flags[entry_region[r]] & IS_CALL:
                c = state[N_CALLS]
                state[N_CALLS] = c + 1
                call_node[c] = node
                call_enter[c] = base_row + i
                call_enter_time[c] = t
                call_exit_time[c] = -1
                call_exit[c] = -1
                call_team[c] = team_stack[state[TEAM_DEPTH]]
                call_tasks[c] = state[TASKS_DONE]
                frame_call[frame] = c
        elif what == POP:
            if top < 0 or (entry[i] >= 0 and k != 84 and entry_region[node_region[frame_node[top]]] != entry[i]):
                state[BAD_EXITS] += 1
                if state[FIRST_BAD_EXIT] < 0:
                    state[FIRST_BAD_EXIT] = base_row + i
            if pointers:
                enterptr[i] = -1
                exitptr[i] = -1
                call_path[i] = -1
            if top >= 0:
                exclusive[frame_node[top]] += now - last
                if task > 0:
                    task_time[task] += now - last
                if t < last:
                    state[DISORDERED] += 1
                last = now
                c = frame_call[top]
                if c >= 0:
                    call_exit_time[c] = t
                    call_exit[c] = base_row + i
                    call_tasks[c] = state[TASKS_DONE] - call_tasks[c]
                if pointers:
                    enterptr[i] = frame_row[top]
                    call_path[i] = frame_node[top]
                    if frame_row[top] >= base_row:
                        exitptr[frame_row[top] - base_row] = base_row + i
                above = frame_parent[top]
                frame_parent[top] = state[FREE]
                state[FREE] = top
                top = above
        else:
            if pointers:
                enterptr[i] = frame_row[top] if top >= 0 else -1
                exitptr[i] = -1
                call_path[i] = frame_node[top] if top >= 0 else -1
            if what == NOTHING:
                i += 1
                continue
            if what == FLUSH:
                if 2 * (state[N_NODES] + 4) > table.size:
                    why = GROW
                    break
                if state[N_FLUSHES] >= stop_times.size or np.uint32(entry[i]) >= n_entries:
                    why = DAMAGED
                    break
                stop = max(stop_times[state[N_FLUSHES]], t)
                state[N_FLUSHES] += 1
                parent = np.int64(frame_node[top]) if top >= 0 else state[BASE]
                if top >= 0:
                    exclusive[parent] += now - last
                node = find_call_path(
                    parent,
                    entry[i],
                    base_row + i,
                    t,
                    state,
                    node_parent,
                    node_region,
                    node_row,
                    node_time,
                    node_recent,
                    table,
                )
                visits[node] += 1
                # of flushes that overlap the later one has the remainder
                stop = max(stop, now)
                exclusive[node] += stop - now
                if task > 0:
                    task_time[task] += stop - last
                last = flushed = stop
                i += 1
                continue
            if state[N_ATTRIBUTED] >= event_kind.size or state[N_CALLS] >= call_node.size:
                why = GROW
                break
            if what == TEAM_BEGIN:
                j = state[N_TEAMS]
                if j >= team_parents.size:
                    why = DAMAGED
                    break
                if top < 0 and task == 0:
                    if j >= n_known_teams:
                        why = BLOCKED
                        break
                    state[BASE] = team_parents[j] if team_parents[j] != NO_PARENT else state[HOME]
                    if state[PROGRAM] == NO_PARENT and team_programs[j] != NO_PARENT:
                        state[PROGRAM] = team_programs[j]
                        state[PROGRAM_ROW] = base_row + i
                    last = now
                if state[TEAM_DEPTH] + 1 >= team_stack.size:
                    why = GROW
                    break
                state[N_TEAMS] = j + 1
                state[TEAM_DEPTH] += 1
                team_stack[state[TEAM_DEPTH]] = j
            elif what == TEAM_END:
                if state[TEAM_DEPTH] > 0:
                    state[TEAM_DEPTH] -= 1
                if top < 0 and task == 0 and state[TEAM_DEPTH] == 0:
                    state[BASE] = state[HOME]
            elif what == TASK_SWITCH or what == TASK_COMPLETE:
                if state[N_SWITCHES] >= task_slots.size:
                    why = DAMAGED
                    break
                slot = task_slots[state[N_SWITCHES]]
                state[N_SWITCHES] += 1
                if top >= 0:
                    exclusive[frame_node[top]] += now - last
                if task > 0:
                    task_time[task] += now - last
                last = now
                task_top[task] = top
                if what == TASK_COMPLETE:
                    stub = task_stub[slot]
                    if stub >= 0:
                        exclusive[stub] += task_time[slot]
                        visits[stub] += 1
                    state[TASKS_DONE] += task_time[slot]
                    task_time[slot], task_stub[slot] = 0, -1
                    task = np.int64(0)
                else:
                    task = slot
                top = task_top[task]
            m = state[N_ATTRIBUTED]
            state[N_ATTRIBUTED] = m + 1
            event_kind[m] = k
            event_time[m] = t
            c = np.int64(-1)
            if top >= 0:
                event_node[m] = frame_node[top]
                c = frame_call[top]
                if c < 0 and what == ATTRIBUTE_CALL:
                    c = state[N_CALLS]
                    state[N_CALLS] = c + 1
                    call_node[c] = frame_node[top]
                    call_enter[c] = frame_row[top]
                    call_enter_time[c] = frame_time[top]
                    call_exit_time[c] = -1
                    call_exit[c] = -1
                    call_team[c] = team_stack[state[TEAM_DEPTH]]
                    call_tasks[c] = state[TASKS_DONE]
                    frame_call[top] = c
            else:
                event_node[m] = -1
            event_call[m] = c
        i += 1
    state[LAST] = last
    state[FLUSHED] = flushed
    state[TOP] = top
    state[TASK] = task
    return why, i


@kernel
def close_frames(end, state, frame_parent, frame_node, frame_call, exclusive, call_exit_time, task_time, task_stub):
    """End what is still open when a location's events end, at the time of its last event.

    Explicit tasks that were not completed count where they were scheduled with what was executed of them.
    """
    top = state[TOP]
    end = max(end, state[FLUSHED])
    if top >= 0:
        exclusive[frame_node[top]] += end - state[LAST]
    if state[TASK] > 0:
        task_time[state[TASK]] += end - state[LAST]
    for slot in range(1, task_stub.size):
        if task_stub[slot] >= 0:
            exclusive[task_stub[slot]] += task_time[slot]
    while top >= 0:
        state[OPEN] += 1
        if frame_call[top] >= 0:
            call_exit_time[frame_call[top]] = end
        top = frame_parent[top]
