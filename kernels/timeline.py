"""Draw the events of a location, and intervals, as slices that nest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.actions import FLUSH, NOTHING, ON_OFF, POP, PUSH, TASK_COMPLETE, TASK_SWITCH, action_table
from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.pools import pop_item, push_item

ACTION = action_table(PUSH, POP, ON_OFF, FLUSH, TASK_SWITCH, TASK_COMPLETE)
"""Actions of the kinds of events that drawing depends on."""

# drawn elements; the numbers are those of Perfetto's TrackEvent.Type
BEGIN, END, INSTANT, COUNTER = range(1, 5)

# state carried from batch to batch
LAST, FREE, N_FRAMES, TASK, N_FLUSHES, N_SWITCHES, N_MARKS, IS_OPEN, IS_OVER, N_OUT, N_STATE = range(11)

# why a call returned
DONE, FULL, GROW, DAMAGED = range(4)


class Events(NamedTuple):
    """Consecutive events of one location."""

    time: NDArray[np.int64]
    """(n,): ticks."""
    kind: NDArray[np.uint8]
    """(n,): `EventKind`."""
    region: NDArray[np.int32]
    """(n,): region entered or left, -1 none."""


class View(NamedTuple):
    """The part of a location that is drawn."""

    first: int
    stop: int
    """`first` and `stop`: ticks: slices open at `first` begin there, slices open at `stop` end there."""
    tasks_name: int
    """Name of the slice of an explicit task."""
    action: NDArray[np.uint8]
    """(256,): action of each kind, `ACTION`."""
    stop_time: NDArray[np.int64]
    """(n_flushes,): end of each buffer flush of the location, in their order, in ticks."""
    task: NDArray[np.int64]
    """(n_switches,): number of the task of each event that switches or completes tasks, in their order; 0 is the
    implicit task."""


class Frames(NamedTuple):
    """Pool of stack frames; `state[FREE]` is the first free one."""

    below: NDArray[np.int64]
    """(capacity,): the frame below, for free frames the next free one; -1 none."""
    name: NDArray[np.int32]
    """(capacity,): region."""


class Drawn(NamedTuple):
    """Drawn begins, ends and instants, `state[N_OUT]` of them."""

    time: NDArray[np.int64]
    """(room,): ticks."""
    what: NDArray[np.uint8]
    """(room,): BEGIN, END or INSTANT."""
    name: NDArray[np.int32]
    """(room,): -1 for ends and instants."""
    mark: NDArray[np.int64]
    """(room,): number of the mark among those of the batch, -1 for others."""


@part
def draw(at, what, name, mark, state, out):
    """Draw one begin, end or instant."""
    n = state[N_OUT]
    state[N_OUT] = n + 1
    out.time[n], out.what[n], out.name[n], out.mark[n] = at, what, name, mark


@part
def begin_frames(top, at, state, frames, out):
    """Draw the begins of the frames from the lowest up to `top`."""
    depth = 0
    frame = top
    while frame >= 0:
        depth += 1
        frame = frames.below[frame]
    n = state[N_OUT]
    state[N_OUT] = n + depth
    frame = top
    while frame >= 0:
        depth -= 1
        out.time[n + depth], out.what[n + depth] = at, BEGIN
        out.name[n + depth], out.mark[n + depth] = frames.name[frame], -1
        frame = frames.below[frame]


@part
def end_frames(top, at, state, frames, out):
    """Draw the ends of the frames from `top` down to the lowest."""
    while top >= 0:
        draw(at, END, -1, -1, state, out)
        top = frames.below[top]


@part
def begin_task(task, at, state, view, task_top, frames, out):
    """Draw the begins of an explicit task and of its open frames."""
    draw(at, BEGIN, view.tasks_name, -1, state, out)
    begin_frames(task_top[task], at, state, frames, out)


@part
def end_task(task, at, state, task_top, frames, out):
    """Draw the ends of the open frames of an explicit task, and of the task."""
    end_frames(task_top[task], at, state, frames, out)
    draw(at, END, -1, -1, state, out)


@part
def begin_all(at, state, view, task_top, frames, out):
    """Draw the begins of all open frames, and of the running task."""
    begin_frames(task_top[0], at, state, frames, out)
    if state[TASK] > 0:
        begin_task(state[TASK], at, state, view, task_top, frames, out)


@part
def end_all(at, state, task_top, frames, out):
    """Draw the ends of all open frames, and of the running task."""
    if state[TASK] > 0:
        end_task(state[TASK], at, state, task_top, frames, out)
    end_frames(task_top[0], at, state, frames, out)


@part
def push_frame(region, state, task_top, frames):
    """Put a frame on top of the stack of the running task."""
    task = state[TASK]
    frame = task_top[task] = push_item(task_top[task], state, FREE, frames.below)
    frames.name[frame] = region
    state[N_FRAMES] += 1


@part
def pop_frame(state, task_top, frames):
    """Free the frame on top of the stack of the running task, and return whether there was one."""
    task = state[TASK]
    if task_top[task] < 0:
        return False
    task_top[task] = pop_item(task_top[task], state, FREE, frames.below)
    state[N_FRAMES] -= 1
    return True


@part
def switch_task(what, at, state, view, task_top, frames, out):
    """Switch to the next task; the open slices of a suspended task end, those of a resumed task begin again."""
    task = state[TASK]
    other = view.task[state[N_SWITCHES]]
    state[N_SWITCHES] += 1
    if what == TASK_COMPLETE:
        other = np.int64(0)
    state[TASK] = other
    if state[IS_OPEN] and other != task:
        if task > 0:
            end_task(task, at, state, task_top, frames, out)
        if other > 0:
            begin_task(other, at, state, view, task_top, frames, out)


@kernel
def draw_events(events, start, state, view, mark_row, task_top, frames, out):
    """Draw consecutive events of one location: region instances as slices, marked events as instants.

    Slices nest: a time that is earlier than one before is raised to that, an EXIT ends the slice on top whatever its
    region, and an EXIT without ENTER is ignored. A buffer flush is a slice. While an explicit task runs, its slices lie
    within one named `tasks_name` on top of those of the implicit task; the slices of a task that is suspended and
    resumed are split. So the time of a slice without its nested slices is its exclusive time as in
    `stacks.scan_events`, unless time decreases.

    Parameters
    ----------
    events : Events
    start : int
        Event to begin with; a call that returned FULL or GROW is repeated with the event it returned.
    state : (N_STATE,) int64
        Carried along; `state[N_OUT]` is the number of drawn elements, `state[N_MARKS]` that of drawn marks of the
        batch.
    view : View
    mark_row : (n_marks,) int64
        Marked events of this batch in order; an event may be marked several times.
    task_top : (n_tasks,) int64
        Topmost frame of every task, -1 none.
    frames : Frames
    out : Drawn

    Returns
    -------
    why, i : int
        DONE, FULL (`out` has to be emptied, or enlarged if nothing is drawn), GROW (no frame is free) or DAMAGED (the
        event enters no region, or there are more such events than `view` has values), and the event to go on with.
    """
    i = start
    n_marks = mark_row.size
    while i < events.time.size:
        what = view.action[events.kind[i]]
        region = events.region[i]
        m = state[N_MARKS]
        is_marked = m < n_marks and mark_row[m] == i
        if (what == NOTHING and not is_marked) or state[IS_OVER]:
            i += 1
            continue
        here = m
        while here < n_marks and mark_row[here] == i:
            here += 1
        if state[N_OUT] + 2 * state[N_FRAMES] + 8 + (here - m) > out.time.size:
            return FULL, i
        if what == ON_OFF:
            what = np.uint8(PUSH) if region >= 0 else np.uint8(POP)
        if what == PUSH and state[FREE] < 0:
            return GROW, i
        if (
            ((what == PUSH or what == FLUSH) and region < 0)
            or (what == FLUSH and state[N_FLUSHES] >= view.stop_time.size)
            or ((what == TASK_SWITCH or what == TASK_COMPLETE) and state[N_SWITCHES] >= view.task.size)
        ):
            return DAMAGED, i
        t = max(events.time[i], state[LAST])
        until = t
        if what == FLUSH:
            until = max(view.stop_time[state[N_FLUSHES]], t)
            state[N_FLUSHES] += 1
        if not state[IS_OPEN] and until >= view.first:
            state[IS_OPEN] = 1
            begin_all(view.first, state, view, task_top, frames, out)
        if t >= view.stop:
            end_all(view.stop, state, task_top, frames, out)
            state[IS_OVER] = 1
            continue
        if what == PUSH:
            push_frame(region, state, task_top, frames)
            if state[IS_OPEN]:
                draw(t, BEGIN, region, -1, state, out)
        elif what == POP:
            if pop_frame(state, task_top, frames) and state[IS_OPEN]:
                draw(t, END, -1, -1, state, out)
        elif what == FLUSH:
            if state[IS_OPEN]:
                draw(max(t, view.first), BEGIN, region, -1, state, out)
                draw(min(until, view.stop), END, -1, -1, state, out)
        elif what == TASK_SWITCH or what == TASK_COMPLETE:
            switch_task(what, t, state, view, task_top, frames, out)
        if what != NOTHING:
            state[LAST] = until
        while m < here:
            if state[IS_OPEN]:
                draw(t, INSTANT, -1, m, state, out)
            m += 1
        state[N_MARKS] = here
        i += 1
    return DONE, i


@kernel
def draw_end(last_time, state, view, task_top, frames, out):
    """Draw the ends of slices left open by the last event of a location, at its time; return FULL if there is no
    room."""
    if state[IS_OVER]:
        return DONE
    if state[N_OUT] + 2 * state[N_FRAMES] + 8 > out.time.size:
        return FULL
    at = min(max(last_time, state[LAST]), view.stop)
    if not state[IS_OPEN] and at > view.first:
        state[IS_OPEN] = 1
        begin_all(view.first, state, view, task_top, frames, out)
    if state[IS_OPEN]:
        end_all(at, state, task_top, frames, out)
    state[IS_OVER] = 1
    return DONE


@kernel
def divide_intervals(begin, end, lane, ends, depth):
    """Divide intervals among lanes so that those of one lane nest; each takes the first lane in which it does. Return
    the number of intervals placed, which is less than n if lanes or room did not suffice.

    Parameters
    ----------
    begin, end : (n,) int64
        Ordered by begin; those that begin together are ordered from the longest to the shortest.
    lane : (n,) int32
        Filled.
    ends, depth : (n_lanes, room), (n_lanes,) int64
        Scratch: the ends of the intervals that are open in every lane, and their number; `depth` is 0 initially.
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
    """Draw intervals that nest, in the order of `divide_intervals`: 2 n begins and ends; `stack` has room for n
    ends."""
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


# -- slices for a screen -----------------------------------------------------------------------------------------------

LAST_TIME, DEPTH, N_SLICES, N_COLLECTED = range(4)
"""State of `collect_slices`: time until which the slice on top of the stack was counted, number of open slices, number
of collected ones."""


class Open(NamedTuple):
    """Open slices, and slices that are being merged, by depth."""

    begin: NDArray[np.int64]
    """(room,): ticks at which the open slice began."""
    name: NDArray[np.int32]
    """(room,)"""
    grey_begin: NDArray[np.int64]
    grey_end: NDArray[np.int64]
    grey_busy: NDArray[np.int64]
    """`grey_begin`, `grey_end` and `grey_busy`: (room,), short slices being merged: begin, end, and total length."""
    grey_count: NDArray[np.int64]
    """(room,): number of short slices; 0 none."""
    grey_name: NDArray[np.int32]
    """(room,): name of the first of them."""


class Collected(NamedTuple):
    """Slices of a location, `state[N_SLICES]` of them."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (room,), ticks."""
    depth: NDArray[np.int32]
    name: NDArray[np.int32]
    """`depth` and `name`: (room,), level, 0 for the outermost; region, for merged slices that of the first."""
    count: NDArray[np.int64]
    busy: NDArray[np.int64]
    """`count` and `busy`: (room,), number of slices merged into it, and their total length."""


@part
def collect(begin, end, depth, name, count, busy, state, out):
    """Collect one slice."""
    n = state[N_SLICES]
    state[N_SLICES] = n + 1
    out.begin[n], out.end[n], out.depth[n], out.name[n] = begin, end, depth, name
    out.count[n], out.busy[n] = count, busy


@part
def collect_grey(depth, state, open_, out):
    """Collect the slice that is being merged at a depth, if there is one."""
    if open_.grey_count[depth] > 0:
        collect(
            open_.grey_begin[depth],
            open_.grey_end[depth],
            depth,
            open_.grey_name[depth],
            open_.grey_count[depth],
            open_.grey_busy[depth],
            state,
            out,
        )
        open_.grey_count[depth] = 0


@kernel
def collect_slices(drawn, n, shortest, state, open_, own, out):
    """Collect the slices that `draw_events` has drawn; those that are short and close together become one.

    Slices shorter than `shortest` at one depth are merged as long as the gaps between them are shorter than that. So a
    slice collected at a depth is at least that long, or that far from the next one, or lies between longer slices.

    Parameters
    ----------
    drawn : Drawn
        Begins and ends, in order.
    n : int
        Number of these; `out` has room for n + 2 times the depth of the stack.
    shortest : int
        Ticks; 0 merges nothing.
    state : (N_COLLECTED,) int64
        Carried along; `state[N_SLICES]` is the number of collected slices.
    open_ : Open
        Carried along; has room for every depth there is.
    own : (n_names,) int64
        Exclusive time of slices by name, added to.
    out : Collected

    Returns
    -------
    int
        -1, or the begin for which `open_` has no room; all elements before it are done.
    """
    for i in range(n):
        at, depth = drawn.time[i], state[DEPTH]
        if drawn.what[i] == BEGIN:
            if depth == open_.begin.size:
                return i
            if depth > 0:
                own[open_.name[depth - 1]] += at - state[LAST_TIME]
            open_.begin[depth], open_.name[depth] = at, drawn.name[i]
            state[DEPTH] = depth + 1
        elif drawn.what[i] == END:
            depth -= 1
            state[DEPTH] = depth
            name, begin = open_.name[depth], open_.begin[depth]
            own[name] += at - state[LAST_TIME]
            if at - begin >= shortest:
                collect(begin, at, depth, name, 1, at - begin, state, out)
            else:
                if begin - open_.grey_end[depth] >= shortest:
                    collect_grey(depth, state, open_, out)
                if open_.grey_count[depth] == 0:
                    open_.grey_begin[depth], open_.grey_busy[depth] = begin, 0
                    open_.grey_name[depth] = name
                open_.grey_end[depth] = at
                open_.grey_busy[depth] += at - begin
                open_.grey_count[depth] += 1
        state[LAST_TIME] = at
    return -1


@kernel
def collect_rest(state, open_, out):
    """Collect the slices still being merged; `out` has room for every depth there is."""
    for depth in range(open_.begin.size):
        collect_grey(depth, state, open_, out)


@kernel
def find_dominant(cells, n_bins, best, path):
    """Find the call path with the most ticks in each location and bin; on ties the one with the lowest number.

    Parameters
    ----------
    cells : Shares
        Ordered by call path.
    n_bins : int
        Number of bins per location.
    best : (n_locations * n_bins,) int64
        Zeros; filled with the ticks of that call path.
    path : (n_locations * n_bins,) int32
        Filled where there is one.
    """
    for i in range(cells.value.size):
        at = cells.location[i] * n_bins + cells.bin[i]
        if cells.value[i] > best[at]:
            best[at], path[at] = cells.value[i], cells.call_path[i]


class Shares(NamedTuple):
    """Ticks by call path, location and bin."""

    call_path: NDArray[np.int32]
    """(n,)"""
    location: NDArray[np.int64]
    bin: NDArray[np.int64]
    """`location` and `bin`: (n,)"""
    value: NDArray[np.int64]
    """(n,)"""
