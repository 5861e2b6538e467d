"""Exclusive time of locations as sequences of segments: sums by call path between the cuts at their synchronisation
points.

Times are float64 seconds or int64 ticks, of the same type throughout a call; results have the same type. So times must
not be combined with literal numbers: an integer combined with 0.0 becomes a float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.actions import FLUSH, JOIN, NOTHING, ON_OFF, POP, PUSH, TASK_COMPLETE, TASK_SWITCH
from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.kernels.ordered import place_of
from tracecols.kernels.sums import EPOCH, N_PATHS, N_SORTED, Sum, add_time, sort_paths

REQUEST = 255
"""Action besides those of `kernels.actions`: a receive is posted, and the reference makes a cut."""

# what happens at a marked row: a cut in front of it, the ENTER or the EXIT of a parallel region; the same on a thread
# that another one has forked, which idles outside; a cut after it if it is an ENTER, otherwise in front of it
CUT, FORK, LEAVE_TEAM, JOIN_TEAM, END_IN_TEAM, CUT_INSIDE = range(6)

INSIDE = -1
"""Used instead of the kind of points that lie inside of the call even if their event is its ENTER."""

# contributions of an event, in this order
CUT_BEFORE, BEFORE_JOIN, OF_JOIN, OWN, OF_FLUSH, BEFORE_FORK, CUT_AFTER, AFTER_FORK = range(8)

OUTERMOST_OF_TASK = -2
"""Used instead of the parent of the outermost call paths of an explicit task."""

# state carried from batch to batch; NESTED_STOP is one past the last nested time of the location, ROOM the number of
# nested cuts that the next event makes, AROUND the call path in which tasks are scheduled, STUB the stub of the running
# task; FIRST_ENTRY and FIRST_SEGMENT are the numbers of the first entry and segment in the arrays
(
    N_LISTED, N_ENTRIES, N_SEGMENTS, N_MARKS, N_FLUSHES, N_JOINS, IN, IDLES, N_NESTED, NESTED_STOP, ROOM, AROUND, STUB,
    FIRST_ENTRY, FIRST_SEGMENT, N_STATE,
) = range(16)  # fmt: skip


class Maps(NamedTuple):
    """Maps from call paths to times, one after the other: those of segments, or of intervals."""

    end: NDArray[np.int64]
    """(n_maps,): one past the last entry of each."""
    path: NDArray[np.int32]
    value: NDArray[Any]
    """`path` and `value`: (n_entries,) int32, float64 or int64, of each map in ascending order of the call paths. Maps
    to be written may have spare room."""


class Marks(NamedTuple):
    """Marked rows of locations, ascending: cuts, and ENTERs and EXITs of parallel regions."""

    row: NDArray[np.int64]
    what: NDArray[np.int8]
    """`row` and `what`: (n_marks,) int64, int8, CUT, FORK, LEAVE_TEAM, JOIN_TEAM, END_IN_TEAM or CUT_INSIDE."""
    value: NDArray[Any]
    """(n_marks,) float64 or int64: FORK and JOIN_TEAM: time since the FORK; LEAVE_TEAM and END_IN_TEAM: time to the
    JOIN."""
    cut: NDArray[np.int64]
    time: NDArray[Any]
    """`cut` and `time`: (n_marks,) int64, as `value`; written, number and time of the cut at every mark; unchanged if
    there is none."""


class OwnPoints(NamedTuple):
    """The points of some locations, one location after the other."""

    end: NDArray[np.int64]
    """(n,): number of points up to the end of each location."""
    event: NDArray[np.int64]
    kind: NDArray[np.int8]
    """`event` and `kind`: (n_points,) int64, int8; INSIDE for some kinds."""


class Others(NamedTuple):
    """Marks of some locations besides their points, and the meaning of points at FORKs."""

    row: NDArray[np.int64]
    what: NDArray[np.int8]
    value: NDArray[Any]
    """`row`, `what` and `value`: (n,), as those of `Marks`, ascending."""
    enter: NDArray[np.int64]
    """(n_regions,): rows at which threads enter parallel regions, ascending."""
    at_enter: NDArray[np.int8]
    fork: NDArray[Any]
    """`at_enter` and `fork`: (n_regions,) int8, as `value`, the kind of mark there, and the time since the FORK."""


@part
def what_happens(mine, what):
    """Return what happens at an event with the action `what` that has the mark `mine`."""
    return np.int64(CUT if mine == CUT_INSIDE and what != PUSH else mine)


@part
def _put_mark(n, row, what, value, marks):
    """Write mark n, at which there is no cut yet; return the number of the next one."""
    marks.row[n], marks.what[n], marks.value[n] = row, what, value
    marks.cut[n], marks.time[n] = -1, marks.time.dtype.type(0)
    return n + 1


@kernel
def list_marks(points, fork, end, others, marks, of_point):
    """Merge the points and other marks of some locations in the order of their rows; at the same row, points come
    first. Return the number of marks.

    Parameters
    ----------
    points : OwnPoints
    fork, end : int
        Kinds of points: those at FORKs, and the ends of locations, which are no marks.
    others : Others
    marks : Marks, written
        With room for all points and others.
    of_point : (n_own_points,) int64, written
        Mark of each point, -1 for the ends of locations.
    """
    n, other, entered, i = 0, 0, 0, 0
    nothing = marks.value.dtype.type(0)
    for here in range(points.end.size):
        while i < points.end[here]:
            row, kind = points.event[i], points.kind[i]
            of_point[i] = -1
            if kind != end:
                while other < others.row.size and others.row[other] < row:
                    n = _put_mark(n, others.row[other], others.what[other], others.value[other], marks)
                    other += 1
                what, value = np.int8(CUT_INSIDE if kind == INSIDE else CUT), nothing
                if kind == fork:
                    while entered < others.enter.size and others.enter[entered] < row:
                        entered += 1
                    if entered < others.enter.size and others.enter[entered] == row:
                        what, value = others.at_enter[entered], others.fork[entered]
                of_point[i] = n
                n = _put_mark(n, row, what, value, marks)
            i += 1
    while other < others.row.size:
        n = _put_mark(n, others.row[other], others.what[other], others.value[other], marks)
        other += 1
    return n


@kernel
def put_cuts(end, of_point, marks, stop, last, cut, left, time):
    """Write the cuts at points, as if nothing were nested in their calls.

    Parameters
    ----------
    end : (n_locations,) int64
        Number of points up to the end of each location.
    of_point : (n_points,) int64
        Mark of each point, -1 for the ends of locations.
    marks : Marks
    stop, last : (n_locations,) int64, as `marks.time`
        One past the last segment of each location; time until which its time is counted.
    cut, left, time : (n_points,) int32 or int64, as `cut`, as `marks.time`; written
        The segments that begin at each point and after the begin of its call; time until which time before it is
        counted.
    """
    i = 0
    for here in range(end.size):
        while i < end[here]:
            mark = of_point[i]
            cut[i] = marks.cut[mark] if mark >= 0 else stop[here]
            left[i] = cut[i]
            time[i] = marks.time[mark] if mark >= 0 else last[here]
            i += 1


class Nested(NamedTuple):
    """Times inside of the calls of points, by location ascending: a cut is made there if other regions or tasks are
    executed in the call.
    """

    row: NDArray[np.int64]
    time: NDArray[Any]
    """`row` and `time`: (n_nested,) int64, float64 or int64, row of the point, and the time."""
    cut: NDArray[np.int64]
    at: NDArray[Any]
    """`cut` and `at`: (n_nested,) int64, as `time`; written, number and time of the cut; unchanged if nothing else is
    executed between the time and the row."""


class Calls(NamedTuple):
    """Points, by location: (n,) each. Whether cuts are made inside the call of each, its number, its row, the times at
    which the call begins and has waited long enough, and whether it waits."""

    is_cut: NDArray[np.bool_]
    number: NDArray[np.int64]
    row: NDArray[np.int64]
    begin: NDArray[Any]
    resumes: NDArray[Any]
    waits: NDArray[np.bool_]


@part
def _comes_after(j, time, resumes, number, nested, point, is_resume):
    """Return whether nested time j comes after another one: at the same time begins of calls come first, of these the
    first point."""
    if nested.time[j] != time:
        return nested.time[j] > time
    if is_resume[j] != resumes:
        return is_resume[j] > resumes
    return point[j] > number


@kernel
def list_nested(bounds, calls, filled, nested, point, is_resume, ends):
    """List the times inside of the calls of points in order.

    They are nearly in order: calls follow each other, except those in which others are executed.

    Parameters
    ----------
    bounds : (n_locations + 1,) int64
        Where the calls of each location begin.
    calls : Calls
    filled : int
        Number of times of the first location that are listed already.
    nested : Nested, written
        `row` and `time`, with room for two times of each call.
    point, is_resume : (any,) int64, bool; written
        Point of each time, and whether it is the one at which the point has waited long enough.
    ends : (n_locations + 1,) int64, written
        Where the times of each location end, after a 0.
    """
    ends[0], n = 0, filled
    for k in range(bounds.size - 1):
        first = ends[k]
        for call in range(bounds[k], bounds[k + 1]):
            if not calls.is_cut[call]:
                continue
            number = calls.number[call]
            for resumes in range(2 if calls.waits[call] else 1):
                t, j = calls.resumes[call] if resumes else calls.begin[call], n
                while j > first and _comes_after(j - 1, t, resumes, number, nested, point, is_resume):
                    nested.row[j], nested.time[j] = nested.row[j - 1], nested.time[j - 1]
                    point[j], is_resume[j] = point[j - 1], is_resume[j - 1]
                    j -= 1
                nested.row[j], nested.time[j] = calls.row[call], t
                point[j], is_resume[j] = number, resumes == 1
                n += 1
        ends[k + 1] = n


class TaskPaths(NamedTuple):
    """Call paths of explicit tasks."""

    is_of_task: NDArray[np.bool_]
    """(n_call_paths,): whether a call path belongs to the call tree of tasks."""
    region: NDArray[np.int64]
    """(n_call_paths,): region of each call path; empty, like all that follow, if tasks have no call paths."""
    n_regions: int
    child_key: NDArray[np.int64]
    child: NDArray[np.int64]
    """`child_key` and `child`: (n_call_paths,), `(parent + 1) * n_regions + region` of each call path, ascending, and
    the call path."""


class Joins(NamedTuple):
    """Rows of JOINs, and the cuts after them: (n_joins,) int64, int64."""

    row: NDArray[np.int64]
    cut: NDArray[np.int64]


@inner_part
def take_out(n, sum_, segments, at, first):
    """Move a sum to the entries of segments from number `at` on, in the order of call paths; the arrays begin with
    number `first`. Return one past the last entry."""
    sum_.state[N_PATHS], sum_.state[N_SORTED] = n, 0
    sort_paths(sum_)
    sum_.state[EPOCH] += 1
    for i in range(n):
        segments.path[at - first + i] = sum_.path[i]
        segments.value[at - first + i] = sum_.time[sum_.path[i]]
    return at + n


@part
def stub_of(around, c, tasks):
    """Return the call path that represents a task where it is scheduled: the region of call path c, entered from
    `around`; -1 none."""
    key = (around + 1) * tasks.n_regions + tasks.region[c]
    at = place_of(key, 0, tasks.child_key.size, tasks.child_key)
    return np.int64(tasks.child[at] if at >= 0 else -1)


@inner_part
def owner_of_time(what, mine, c, above, fills, state, tasks):
    """Return the call path that is charged with the time before an event; -1 none.

    The time of a task before it enters its first region, and after it has left its last one, is charged to its stub.

    Parameters
    ----------
    what, mine : int
        Action of the event, and its mark; -1 none.
    c, above : int
        Call path entered or left, or the one around the event; its parent.
    fills : bool
        Whether time outside of all regions is charged to the one that is entered next.
    state : (N_STATE,) int64
    tasks : TaskPaths
    """
    if what == PUSH:
        if mine == JOIN_TEAM:
            # a thread that another one has forked has idled
            return np.int64(-1)
        if above == OUTERMOST_OF_TASK:
            if state[STUB] < 0:
                state[STUB] = stub_of(state[AROUND], c, tasks)
            return state[STUB]
        return c if above < 0 and fills else max(above, np.int64(-1))
    if (what == TASK_SWITCH or what == TASK_COMPLETE) and c < 0:
        return state[STUB]
    return c


@part
def follow_tasks(what, c, above, state, tasks):
    """Update the call path in which tasks are scheduled, and the stub of the running task, after an event."""
    if what == POP and above == OUTERMOST_OF_TASK and state[STUB] < 0:
        state[STUB] = stub_of(state[AROUND], c, tasks)
    elif what == TASK_SWITCH or what == TASK_COMPLETE:
        state[STUB] = -1
        if c >= 0 and not tasks.is_of_task[c]:
            state[AROUND] = c
        if what == TASK_COMPLETE:
            state[IN] = state[AROUND]


@part
def count_nested(now, until, row, before, k, stop, nested):
    """Count the nested cuts that an event makes up to a time; also return the time of the last of them, or `before`.

    Parameters
    ----------
    now, row : float or int, int
        Time and row of the event.
    until, before : float or int
        Cuts after `until` do not count; time of the last event that counted time.
    k, stop : int
        The first time to look at, and one past the last.
    nested : Nested
    """
    m = 0
    while k < stop and nested.time[k] < now and nested.time[k] <= until:
        if nested.row[k] > row:
            m += 1
            before = max(before, nested.time[k])
        k += 1
    return m, before


class Events(NamedTuple):
    """Consecutive events of one location."""

    time: NDArray[Any]
    kind: NDArray[np.uint8]
    region: NDArray[np.int32]
    node: NDArray[np.int32]
    """`time`, `kind`, `region` and `node`: (n,) float64 or int64, uint8, int32, int32, time since the first event of
    the trace; region entered; call path entered or left, or the one around the event, as the location numbers them; -1
    none."""
    base_row: int
    """Row of event 0."""


class Meaning(NamedTuple):
    """Effects of the events of a location on the time of call paths."""

    action: NDArray[np.uint8]
    """(256,): action of each kind."""
    number: NDArray[np.int64]
    """(n_nodes,): number of each of the location's own call paths among all."""
    parent: NDArray[np.int64]
    """(n_call_paths,): parent of each call path; -1 for roots and below call paths that are never executed;
    OUTERMOST_OF_TASK."""
    tasks: TaskPaths
    forgets: bool
    """Whether the location is a worker thread: its time since the last cut is dropped when it begins in a team."""
    fills: bool
    """Whether time outside of all regions is charged to the one that is entered next."""
    stop_times: NDArray[Any]
    flush_paths: NDArray[np.int64]
    """`stop_times` and `flush_paths`: (n_flushes,) as the times, int64, ends of the location's buffer flushes, and
    their call paths."""


class Tree(NamedTuple):
    """The part of `Meaning` that is the same for all locations: actions, parents of call paths, and tasks."""

    action: NDArray[np.uint8]
    parent: NDArray[np.int64]
    tasks: TaskPaths


class Locations(NamedTuple):
    """The part of `Meaning` that differs among locations, and the results for each."""

    number_start: NDArray[np.int64]
    """(n + 1,): where the call paths of each begin in `number`."""
    number: NDArray[np.int64]
    """(n_nodes,): as in `Meaning`, one location after the other."""
    flush_start: NDArray[np.int64]
    """(n + 1,): where the buffer flushes of each begin."""
    stop_times: NDArray[Any]
    flush_paths: NDArray[np.int64]
    """`stop_times` and `flush_paths`: (n_flushes,), as in `Meaning`, one location after the other."""
    forgets: NDArray[np.bool_]
    fills: NDArray[np.bool_]
    """`forgets` and `fills`: (n,), as in `Meaning`."""
    since: NDArray[Any]
    until: NDArray[Any]
    """`since` and `until`: (n,) as the times, begin and end of the time that counts."""
    is_filled: NDArray[np.bool_]
    """(n,): whether the remaining time up to `until` is charged to the call path that is open there, or was left
    last."""
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    """`first` and `stop`: (n,) int64, written, first segment, and one past the last; `first` is -1 of locations that
    have not begun."""
    last: NDArray[Any]
    """(n,) as the times, written: time until which time was counted."""


class Walked(NamedTuple):
    """Locations of consecutive events: the number of the first one, where the events of each begin, the row of its
    first event, and whether these are its last events; the first mark of each, and where its nested times begin."""

    first: int
    bounds: NDArray[np.int64]
    row: NDArray[np.int64]
    is_end: bool
    mark_start: NDArray[np.int64]
    nested_start: NDArray[np.int64]


@part
def meaning_at(j, tree, locations):
    """Return the effects of the events of location j."""
    a, b = locations.number_start[j], locations.number_start[j + 1]
    c, d = locations.flush_start[j], locations.flush_start[j + 1]
    return Meaning(
        tree.action,
        locations.number[a:b],
        tree.parent,
        tree.tasks,
        locations.forgets[j],
        locations.fills[j],
        locations.stop_times[c:d],
        locations.flush_paths[c:d],
    )


@part
def events_at(k, walked, events):
    """Return the events of the k-th location that was walked through."""
    a, b = walked.bounds[k], walked.bounds[k + 1]
    return Events(events.time[a:b], events.kind[a:b], events.region[a:b], events.node[a:b], walked.row[k])


class Collected(NamedTuple):
    """Results and state of `collect_segments`."""

    joins: Joins
    state: NDArray[np.int64]
    """(N_STATE,): carried from batch to batch."""
    last: NDArray[Any]
    """(1,) as the times: time of the last contribution."""
    open_sum: Sum
    """Sum of the segment that is not complete."""
    segments: Maps
    """Cut k lies between segments k - 1 and k."""


@part
def has_room(n_cuts, collected):
    """Return whether there is room for the segments added by an event that makes `n_cuts` nested cuts, and by the
    end."""
    state, segments, limit = collected.state, collected.segments, collected.open_sum.path.size
    n_entries = state[N_ENTRIES] - state[FIRST_ENTRY] + (2 + n_cuts) * limit
    n_segments = state[N_SEGMENTS] - state[FIRST_SEGMENT] + 4 + n_cuts
    return n_entries <= segments.path.size and n_segments <= segments.end.size


@kernel
def collect_segments(start, stop, events, meaning, marks, nested, collected):
    """Add up the time between the events of one location by call path, from cut to cut.

    Parameters
    ----------
    start, stop : int
        Event to begin with, and one past the last.
    events : Events
    meaning : Meaning
    marks : Marks, written
    nested : Nested, written
    collected : Collected, written

    Returns
    -------
    int
        The event to go on with: `stop`, or less if the arrays of entries are full.
    """
    time, kind, region, node, base_row = events
    action, number, parent, tasks, forgets, fills, stop_times, flush_paths = meaning
    joins, state, last, open_sum, segments = collected
    mark_row, mark_what, mark_value, mark_cut, mark_time = marks
    join_row, join_cut = joins
    segment_end, epoch = segments.end, np.int32(open_sum.state[EPOCH])
    limit, n_room = open_sum.path.size, segments.path.size
    n = state[N_LISTED]
    n_entries, n_segments, mark = state[N_ENTRIES], state[N_SEGMENTS], state[N_MARKS]
    first_entry, first_segment = state[FIRST_ENTRY], state[FIRST_SEGMENT]
    k, nested_stop = state[N_NESTED], state[NESTED_STOP]
    before, nothing = last[0], last.dtype.type(0)
    i = start
    while i < stop:
        if n_entries - first_entry + 2 * limit > n_room or n_segments - first_segment + 4 > segment_end.size:
            break
        what = action[kind[i]]
        here = mark < mark_row.size and mark_row[mark] == base_row + i
        if what == NOTHING and not here:
            i += 1
            continue
        now = time[i]
        c = number[node[i]] if node[i] >= 0 else np.int64(-1)
        above = parent[c] if c >= 0 else np.int64(-1)
        if what == ON_OFF:
            what = np.uint8(PUSH) if region[i] >= 0 else np.uint8(POP)
        # points up to this row make no cut any more
        while k < nested_stop and nested.row[k] <= base_row + i:
            k += 1
        is_nested = k < nested_stop and nested.time[k] < now
        mine = what_happens(mark_what[mark], what) if here else np.int64(-1)
        is_plain = (what == PUSH or what == POP or what == NOTHING) and above != OUTERMOST_OF_TASK
        if is_plain and not is_nested and (not here or mine == CUT):
            # the fast path: nearly all events and points
            if here:
                n_entries = take_out(n, open_sum, segments, n_entries, first_entry)
                n, epoch = np.int64(0), epoch + np.int32(1)
                segment_end[n_segments - first_segment] = n_entries
                n_segments += 1
                mark_cut[mark], mark_time[mark] = n_segments, before
                mark += 1
            if what != NOTHING:
                own = above if what == PUSH else c
                if own < 0 and fills:
                    own = c
                state[IN] = c if what == PUSH or (above < 0 and fills) else above
                if own >= 0:
                    n = add_time(own, now - before, epoch, n, open_sum)
                before = now
            i += 1
            continue
        counts = what == PUSH or what == POP or what == JOIN or what == TASK_SWITCH or what == TASK_COMPLETE
        if is_nested and (counts or what == FLUSH):
            m, _ = count_nested(now, now, base_row + i, before, k, nested_stop, nested)
            if (
                n_entries - first_entry + (2 + m) * limit > n_room
                or n_segments - first_segment + 4 + m > segment_end.size
            ):
                state[ROOM] = m
                break
        # in this order: a cut before; the time to the team's JOIN; cuts inside of calls and the event's own time; that
        # of a flush; the time since the FORK, taken off; a cut after; and that time again
        for step in range(CUT_BEFORE, AFTER_FORK + 1):
            cut = False
            x, y = np.int64(-1), nothing
            if step == CUT_BEFORE:
                cut = what == REQUEST or mine == CUT
            elif step == BEFORE_JOIN and mine == LEAVE_TEAM:
                x, y = above, -mark_value[mark]
            elif step == OF_JOIN and (mine == LEAVE_TEAM or mine == END_IN_TEAM):
                x, y = c, mark_value[mark]
            elif step == OWN and (counts or what == FLUSH):
                x = owner_of_time(what, mine, c, above, fills, state, tasks)
                while k < nested_stop and nested.time[k] < now:
                    if nested.row[k] > base_row + i:
                        since = before
                        before = max(before, nested.time[k])
                        if x >= 0:
                            n = add_time(x, before - since, epoch, n, open_sum)
                        n_entries = take_out(n, open_sum, segments, n_entries, first_entry)
                        n, epoch = np.int64(0), epoch + np.int32(1)
                        segment_end[n_segments - first_segment] = n_entries
                        n_segments += 1
                        nested.cut[k] = n_segments
                        nested.at[k] = before
                    k += 1
                y = now - before
                if counts:
                    before = now
                if what == PUSH or what == POP:
                    state[IN] = c if what == PUSH or (above < 0 and fills) else above
                follow_tasks(what, c, above, state, tasks)
            elif step == OF_FLUSH and what == FLUSH:
                j = state[N_FLUSHES]
                state[N_FLUSHES] = j + 1
                before = stop_times[j]
                x, y = flush_paths[j], before - now
            elif step == BEFORE_FORK and mine == FORK:
                x, y = above, -mark_value[mark]
                if x < 0 and fills:
                    x = c
            elif step == CUT_AFTER:
                cut = mine == FORK or mine == JOIN_TEAM or mine == CUT_INSIDE or what == JOIN
                if mine == FORK and forgets:
                    open_sum.state[EPOCH] += 1
                    n, epoch = np.int64(0), epoch + np.int32(1)
            elif step == AFTER_FORK and (mine == FORK or mine == JOIN_TEAM):
                x, y = c, mark_value[mark]
            if x >= 0:
                n = add_time(x, y, epoch, n, open_sum)
            if cut:
                n_entries = take_out(n, open_sum, segments, n_entries, first_entry)
                n, epoch = np.int64(0), epoch + np.int32(1)
                segment_end[n_segments - first_segment] = n_entries
                n_segments += 1
                if what == JOIN and step == CUT_AFTER and state[N_JOINS] < join_row.size:
                    join_row[state[N_JOINS]] = base_row + i
                    join_cut[state[N_JOINS]] = n_segments
                    state[N_JOINS] += 1
                if here:
                    mark_cut[mark] = n_segments
                    mark_time[mark] = before - mark_value[mark] if mine == FORK or mine == JOIN_TEAM else before
        if here:
            if mine == JOIN_TEAM or mine == END_IN_TEAM:
                state[IDLES] = 1 if mine == END_IN_TEAM else 0
            mark += 1
        i += 1
    state[N_LISTED], state[N_ENTRIES], state[N_SEGMENTS] = n, n_entries, n_segments
    state[N_MARKS], state[N_NESTED] = mark, k
    last[0] = before
    return i


@part
def begin_location(j, locations, collected):
    """Begin with location j."""
    state = collected.state
    locations.first[j] = state[N_SEGMENTS]
    state[N_LISTED], state[N_FLUSHES], state[IDLES] = 0, 0, 0
    state[IN], state[AROUND], state[STUB] = -1, -1, -1
    collected.last[0] = locations.since[j]


@kernel
def finish_location(j, locations, collected):
    """Close the last segment of location j; for a worker thread, the time since the last cut may be dropped."""
    _, state, last, open_sum, segments = collected
    n, n_entries, first_entry, until = state[N_LISTED], state[N_ENTRIES], state[FIRST_ENTRY], locations.until[j]
    if locations.is_filled[j] and not state[IDLES] and state[IN] >= 0 and until > last[0]:
        n = add_time(state[IN], until - last[0], np.int32(open_sum.state[EPOCH]), n, open_sum)
        last[0] = until
    if locations.forgets[j]:
        open_sum.state[EPOCH] += 1
    else:
        n_entries = take_out(n, open_sum, segments, n_entries, first_entry)
    segments.end[state[N_SEGMENTS] - state[FIRST_SEGMENT]] = n_entries
    state[N_ENTRIES] = n_entries
    state[N_SEGMENTS] += 1
    locations.stop[j], locations.last[j] = state[N_SEGMENTS], last[0]
