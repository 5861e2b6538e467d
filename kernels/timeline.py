"""Draw the events of a location, and intervals, as slices that nest."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel

# what an event kind does
NOTHING, PUSH, POP, ON_OFF, FLUSH, TASK_SWITCH, TASK_COMPLETE = range(7)

# what is drawn; the numbers are those of Perfetto's TrackEvent.Type
BEGIN, END, INSTANT, COUNTER = range(1, 5)

# state carried from batch to batch
LAST, FREE, N_FRAMES, TASK, N_FLUSHES, N_SWITCHES, N_MARKS, IS_OPEN, IS_OVER, N_OUT, N_STATE = range(11)

# why a call returned
DONE, FULL, GROW, DAMAGED = range(4)


@kernel
def begin_frames(top, at, state, frame_below, frame_name, out_time, out_what, out_name, out_mark):
    """Draw the begins of the frames from the lowest up to `top`."""
    depth = 0
    frame = top
    while frame >= 0:
        depth += 1
        frame = frame_below[frame]
    n = state[N_OUT]
    state[N_OUT] = n + depth
    frame = top
    while frame >= 0:
        depth -= 1
        out_time[n + depth], out_what[n + depth] = at, BEGIN
        out_name[n + depth], out_mark[n + depth] = frame_name[frame], -1
        frame = frame_below[frame]


@kernel
def end_frames(top, at, state, frame_below, out_time, out_what, out_name, out_mark):
    """Draw the ends of the frames from `top` down to the lowest."""
    while top >= 0:
        draw(at, END, -1, -1, state, out_time, out_what, out_name, out_mark)
        top = frame_below[top]


@kernel
def draw(at, what, name, mark, state, out_time, out_what, out_name, out_mark):
    """Draw one thing."""
    n = state[N_OUT]
    state[N_OUT] = n + 1
    out_time[n], out_what[n], out_name[n], out_mark[n] = at, what, name, mark


@kernel
def begin_all(at, state, tasks_name, task_top, frame_below, frame_name, out_time, out_what, out_name, out_mark):
    """Draw the begins of all that is open."""
    begin_frames(task_top[0], at, state, frame_below, frame_name, out_time, out_what, out_name, out_mark)
    if state[TASK] > 0:
        draw(at, BEGIN, tasks_name, -1, state, out_time, out_what, out_name, out_mark)
        top = task_top[state[TASK]]
        begin_frames(top, at, state, frame_below, frame_name, out_time, out_what, out_name, out_mark)


@kernel
def end_all(at, state, task_top, frame_below, out_time, out_what, out_name, out_mark):
    """Draw the ends of all that is open."""
    if state[TASK] > 0:
        end_frames(task_top[state[TASK]], at, state, frame_below, out_time, out_what, out_name, out_mark)
        draw(at, END, -1, -1, state, out_time, out_what, out_name, out_mark)
    end_frames(task_top[0], at, state, frame_below, out_time, out_what, out_name, out_mark)


@kernel
def draw_events(
    time, kind, region, start, first, stop, state, action, tasks_name, stop_times, task_slots, mark_row,
    task_top, frame_below, frame_name, out_time, out_what, out_name, out_mark,
):  # fmt: skip
    """Draw consecutive events of one location: region instances as slices, marked events as instants.

    Slices nest: a time that is earlier than one before is held at that, an EXIT ends the slice on top whatever its region, one
    without ENTER is left out. A buffer flush is a slice. While an explicit task runs, its slices lie within one named
    `tasks_name` on top of those of the implicit task; a task that is suspended and goes on has its slices in pieces. So the
    time of every slice without those in it is what `stacks.scan_events` calls exclusive, unless time decreases.

    Parameters
    ----------
    time, kind, region : (n,) int64, uint8, int32
        Events in order.
    start : int
        Event to begin with; a call that returned FULL or GROW is repeated with what it returned.
    first, stop : int
        The window: what is open at `first` begins there, what is open at `stop` ends there.
    state : (N_STATE,) int64
        Carried along; `state[N_OUT]` is how much is drawn, `state[N_MARKS]` how many marks of this batch are.
    action : (256,) uint8
        What each kind does.
    tasks_name : int
        Name of the slice of a task.
    stop_times, task_slots : (any,) int64
        Of the location's buffer flushes and task events, in order: end time, number of the task (0 is the implicit task).
    mark_row : (n_marks,) int64
        Marked events of this batch in order; an event may be marked several times.
    task_top : (n_tasks,) int64
        Topmost frame of every task, -1 none.
    frame_below, frame_name : (capacity,) int64, int32
        Frames, linked by `frame_below`; those that are free, too.
    out_time, out_what, out_name, out_mark : (room,) int64, uint8, int32, int64
        Filled: time, BEGIN, END or INSTANT; name, -1 of ends and instants; number of the mark, -1 of others.

    Returns
    -------
    why, i : int
        DONE, FULL (what is drawn has to be taken, or needs more room if it is nothing), GROW (no frame is free) or DAMAGED (the
        event enters no region, or there are more such events than `stop_times` or `task_slots` hold), and the event to go on
        with.
    """
    i = start
    n_marks = mark_row.size
    while i < time.size:
        what = action[kind[i]]
        m = state[N_MARKS]
        is_marked = m < n_marks and mark_row[m] == i
        if (what == NOTHING and not is_marked) or state[IS_OVER]:
            i += 1
            continue
        here = m
        while here < n_marks and mark_row[here] == i:
            here += 1
        if state[N_OUT] + 2 * state[N_FRAMES] + 8 + (here - m) > out_time.size:
            return FULL, i
        if what == ON_OFF:
            what = np.uint8(PUSH) if region[i] >= 0 else np.uint8(POP)
        if what == PUSH and state[FREE] < 0:
            return GROW, i
        if (
            ((what == PUSH or what == FLUSH) and region[i] < 0)
            or (what == FLUSH and state[N_FLUSHES] >= stop_times.size)
            or ((what == TASK_SWITCH or what == TASK_COMPLETE) and state[N_SWITCHES] >= task_slots.size)
        ):
            return DAMAGED, i
        t = max(time[i], state[LAST])
        until = t
        if what == FLUSH:
            until = max(stop_times[state[N_FLUSHES]], t)
            state[N_FLUSHES] += 1
        if not state[IS_OPEN] and until >= first:
            state[IS_OPEN] = 1
            begin_all(
                first, state, tasks_name, task_top, frame_below, frame_name, out_time, out_what, out_name, out_mark
            )
        if t >= stop:
            end_all(stop, state, task_top, frame_below, out_time, out_what, out_name, out_mark)
            state[IS_OVER] = 1
            continue
        task = state[TASK]
        if what == PUSH:
            frame = state[FREE]
            state[FREE] = frame_below[frame]
            state[N_FRAMES] += 1
            frame_below[frame] = task_top[task]
            frame_name[frame] = region[i]
            task_top[task] = frame
            if state[IS_OPEN]:
                draw(t, BEGIN, region[i], -1, state, out_time, out_what, out_name, out_mark)
        elif what == POP:
            frame = task_top[task]
            if frame >= 0:
                task_top[task] = frame_below[frame]
                frame_below[frame] = state[FREE]
                state[FREE] = frame
                state[N_FRAMES] -= 1
                if state[IS_OPEN]:
                    draw(t, END, -1, -1, state, out_time, out_what, out_name, out_mark)
        elif what == FLUSH:
            if state[IS_OPEN]:
                draw(max(t, first), BEGIN, region[i], -1, state, out_time, out_what, out_name, out_mark)
                draw(min(until, stop), END, -1, -1, state, out_time, out_what, out_name, out_mark)
        elif what == TASK_SWITCH or what == TASK_COMPLETE:
            slot = task_slots[state[N_SWITCHES]]
            state[N_SWITCHES] += 1
            goes_on = slot if what == TASK_SWITCH else np.int64(0)
            if state[IS_OPEN] and task > 0 and goes_on != task:
                end_frames(task_top[task], t, state, frame_below, out_time, out_what, out_name, out_mark)
                draw(t, END, -1, -1, state, out_time, out_what, out_name, out_mark)
            state[TASK] = goes_on
            if state[IS_OPEN] and goes_on > 0 and goes_on != task:
                draw(t, BEGIN, tasks_name, -1, state, out_time, out_what, out_name, out_mark)
                top = task_top[goes_on]
                begin_frames(top, t, state, frame_below, frame_name, out_time, out_what, out_name, out_mark)
        if what != NOTHING:
            state[LAST] = until
        while m < here:
            if state[IS_OPEN]:
                draw(t, INSTANT, -1, m, state, out_time, out_what, out_name, out_mark)
            m += 1
        state[N_MARKS] = here
        i += 1
    return DONE, i


@kernel
def draw_end(
    last_time, first, stop, state, tasks_name, task_top, frame_below, frame_name, out_time, out_what, out_name, out_mark
):
    """Draw what is still open when a location's events end, at the time of its last event; FULL if there is no room."""
    if state[IS_OVER]:
        return DONE
    if state[N_OUT] + 2 * state[N_FRAMES] + 8 > out_time.size:
        return FULL
    at = min(max(last_time, state[LAST]), stop)
    if not state[IS_OPEN] and at > first:
        state[IS_OPEN] = 1
        begin_all(first, state, tasks_name, task_top, frame_below, frame_name, out_time, out_what, out_name, out_mark)
    if state[IS_OPEN]:
        end_all(at, state, task_top, frame_below, out_time, out_what, out_name, out_mark)
    state[IS_OVER] = 1
    return DONE


@kernel
def divide_intervals(begin, end, lane, ends, depth):
    """Divide intervals among lanes so that those of one nest; each takes the first lane in which it does.

    Parameters
    ----------
    begin, end : (n,) int64
        Ordered by begin; of those that begin together the longest comes first.
    lane : (n,) int32
        Filled.
    ends, depth : (n_lanes, room), (n_lanes,) int64
        Room for the ends of the intervals that are open in every lane, and how many there are; `depth` is 0 in the beginning.

    Returns
    -------
    int
        How many intervals were placed; less than n if lanes or room did not suffice.
    """
    for i in range(begin.size):
        found = -1
        for k in range(depth.size):
            while depth[k] > 0 and ends[k, depth[k] - 1] <= begin[i]:
                depth[k] -= 1
            if depth[k] == 0 or ends[k, depth[k] - 1] >= end[i]:
                found = k
                break
        if found < 0 or depth[found] == ends.shape[1]:
            return i
        ends[found, depth[found]] = end[i]
        depth[found] += 1
        lane[i] = found
    return begin.size


@kernel
def draw_intervals(begin, end, stack, out_time, out_what):
    """Draw intervals that nest, in the order of `divide_intervals`: 2 n begins and ends; `stack` has room for n ends."""
    n, depth = 0, 0
    for i in range(begin.size):
        while depth > 0 and stack[depth - 1] <= begin[i]:
            depth -= 1
            out_time[n], out_what[n] = stack[depth], END
            n += 1
        out_time[n], out_what[n] = begin[i], BEGIN
        n += 1
        stack[depth] = end[i]
        depth += 1
    while depth > 0:
        depth -= 1
        out_time[n], out_what[n] = stack[depth], END
        n += 1
