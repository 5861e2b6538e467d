"""Moments at which a location may be divided: calls that are open end before anything else begins or happens, and no
team is open, except for one that all of its threads are in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part

CALLS, EVENTS, BEGINS, N_COUNTED = range(4)
"""Counts of what precedes a moment: call instances, attributed events, begins in teams; rows of side tables follow."""

FORKED, BEGUN = range(2)
"""Counters of open teams: those that were forked here, and those that the location began in."""

FIRST_ROW, STOP_ROW, FORK, BEGIN, END, JOIN, N_AROUND = range(7)
"""Columns that describe the open team of a location: its first row in the side table of threads and one past the last,
and the numbers of its attributed events; -1 if the location has none."""

THREADS, MESSAGES = range(2)
"""The first of the counted side tables is that of threads; from the second on events are matched within windows."""

PARALLEL = 0
"""Role of parallel regions."""

LAST = np.iinfo(np.int64).max
"""Later than all times."""


class Happening(NamedTuple):
    """Call instances, attributed events, and begins in teams of a location, in order of time."""

    enter_time: NDArray[np.int64]
    exit: NDArray[np.int64]
    exit_time: NDArray[np.int64]
    """`enter_time`, `exit` and `exit_time`: (n_calls,), of call instances; `exit` is negative if one never ends."""
    node: NDArray[np.int32]
    """(n_calls,): call path of each."""
    team: NDArray[np.int32]
    """(n_calls,): number of the begin in a team that each is in; -1 none."""
    time: NDArray[np.int64]
    """(n_events,): of attributed events."""
    kind: NDArray[np.uint8]
    """(n_events,)"""
    call: NDArray[np.int64]
    """(n_events,): the call instance that each is in; -1 none."""
    marks: NDArray[np.int64]
    """(n_begins,): of begins in teams; empty if they are not needed."""
    instance: NDArray[np.int64]
    """(n_begins,): the team instance of each, -1 if it may not be divided; empty if no team is divided."""


class Gaps(NamedTuple):
    """For each of some times, the first moment after it at which a location may be divided."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (n,), ticks between which it lies; the begin is not less than the end if there is none."""
    counted: NDArray[np.int64]
    """(n, 7): counts of what precedes it: `CALLS`, `EVENTS`, `BEGINS`, and rows of tables."""
    teams: NDArray[np.int64]
    """(n,): sum of the marks of the begins before it."""
    instance: NDArray[np.int64]
    mark: NDArray[np.int64]
    """`instance` and `mark`: (n,), the team instance that is open, -1 for none, and the mark of the begin in it."""
    constructs: NDArray[np.int64]
    """(n, n_roles): number of constructs of each role that the location has entered in the open team."""
    around: NDArray[np.int64]
    """(n, 6): description of the open team: `FIRST_ROW`, ..., `JOIN`."""


class Meanings(NamedTuple):
    """Meaning of event kinds."""

    change: NDArray[np.int8]
    """(n_counters, 256): by how much they change each counter of open items."""
    is_begin: NDArray[np.bool_]
    """(256,): whether they begin teams."""
    table: NDArray[np.int8]
    """(256,): the counted side table in which they have a row; -1 none."""
    role: NDArray[np.int8]
    """(n_nodes,): role of the region of each call path, if it is a construct that teams execute; -1 none."""


class Scratch(NamedTuple):
    """Open items and counts of a location at some moment; all 0 at first."""

    open_of: NDArray[np.int64]
    """(n_counters,): number of open items of each sort: teams that were forked, teams that the location is in, ..."""
    rows: NDArray[np.int64]
    """(n_tables,): rows of side tables."""
    constructs: NDArray[np.int64]
    """(n_roles,): constructs entered in the team of `state`."""
    around: NDArray[np.int64]
    """(6,): as in `Gaps`, of the open team."""
    state: NDArray[np.int64]
    """(7,): `CALL`, ..."""


CALL, EVENT, N_BEGINS, COUNTED_IN, DIRECT, MARKS, UNTIL, N_STATE = range(8)
"""The next call instance and event; begins in teams; the begin whose constructs are counted; events directly in
parallel regions with rows in other tables than that of threads; sum of the marks of begins; end of the last parallel
region."""


@kernel
def find_first_gaps(times, here, meanings, scratch, found):
    """Find, for each of some times, the first moment after it at which a location may be divided: no request is open,
    and call instances that are open end before anything else begins or happens.

    A team may be open if its constructs and other events depend on nothing but which threads it has: no other team has
    begun in it, and only begins and ends of teams lie directly in its parallel region.

    Parameters
    ----------
    times : (n,) int64
        Ascending.
    here : Happening
    meanings : Meanings
    scratch : Scratch
    found : Gaps, written
        For n moments; `begin` is not less than `end` if there is none.
    """
    n_calls, n_events, sample, pending = here.enter_time.size, here.time.size, 0, 0
    state, begin = scratch.state, np.int64(np.iinfo(np.int64).min)
    # when the last of the calls that have begun ends
    until = begin
    # to the end, since a team that is open at the last moment ends after it
    while True:
        following = here.enter_time[state[CALL]] if state[CALL] < n_calls else LAST
        if state[EVENT] < n_events:
            following = min(following, here.time[state[EVENT]])
        if begin < following and until < following and may_divide(here, scratch):
            while sample < times.size and times[sample] < following:
                found.begin[sample], found.end[sample] = begin, following
                note_gap(sample, here, scratch, found)
                sample += 1
        if state[CALL] == n_calls and state[EVENT] == n_events:
            break
        # all events of one time are on the same side
        while state[CALL] < n_calls and here.enter_time[state[CALL]] <= following:
            until = max(until, enter_call(here, meanings, scratch))
        while state[EVENT] < n_events and here.time[state[EVENT]] <= following:
            if count_event(here, meanings, scratch):
                close_team(pending, sample, scratch, found)
                until, pending = max(until, state[UNTIL]), sample
        begin = following
    # teams that stay open are not divided
    for k in range(pending, times.size):
        if k >= sample or found.instance[k] >= 0:
            found.begin[k], found.end[k] = LAST, LAST


@part
def may_divide(here, scratch):
    """Return whether no request and no team is open, except possibly one team that may be divided."""
    open_of, around = scratch.open_of, scratch.around
    for k in range(BEGUN + 1, open_of.size):
        if open_of[k] != 0:
            return False
    if open_of[FORKED] == 0 and open_of[BEGUN] == 0:
        return True
    last = scratch.state[N_BEGINS] - 1
    is_alone = open_of[BEGUN] == 1 and 0 <= last < here.instance.size and around[FORK] < around[BEGIN]
    n_rows = 1 + (around[FORK] >= 0)
    if not is_alone or open_of[FORKED] != n_rows - 1 or scratch.rows[THREADS] - around[FIRST_ROW] != n_rows:
        return False
    return here.instance[last] >= 0


@part
def note_gap(sample, here, scratch, found):
    """Record the counts of a location at a moment."""
    state, counted = scratch.state, found.counted[sample]
    counted[CALLS], counted[EVENTS], counted[BEGINS] = state[CALL], state[EVENT], state[N_BEGINS]
    for k in range(scratch.rows.size):
        counted[N_COUNTED + k] = scratch.rows[k]
    found.teams[sample], found.instance[sample], found.mark[sample] = state[MARKS], -1, 0
    if scratch.open_of[BEGUN] > 0:
        last = state[N_BEGINS] - 1
        found.instance[sample], found.mark[sample] = here.instance[last], here.marks[last]
        for k in range(N_AROUND):
            found.around[sample, k] = scratch.around[k]
        # holds the number of such events until the team ends
        found.around[sample, END] = state[DIRECT]
        for k in range(scratch.constructs.size):
            found.constructs[sample, k] = scratch.constructs[k] if state[COUNTED_IN] == last else 0


@part
def enter_call(here, meanings, scratch):
    """Process the ENTER of the next call instance; return when it ends. A parallel region is open as long as its team
    is."""
    state = scratch.state
    call = state[CALL]
    state[CALL] += 1
    role, team = meanings.role[here.node[call]], here.team[call]
    if role >= 0 and team >= 0 and team >= state[COUNTED_IN]:
        if team > state[COUNTED_IN]:
            state[COUNTED_IN] = team
            scratch.constructs[:] = 0
        scratch.constructs[role] += 1
    until = here.exit_time[call] if here.exit[call] >= 0 else LAST
    if role == PARALLEL and team >= 0 and here.instance.size > 0:
        state[UNTIL] = max(state[UNTIL], until)
        return here.enter_time[call]
    return until


@part
def count_event(here, meanings, scratch):
    """Process the next event; return whether it ends a team, and no other one is open."""
    state, open_of, around = scratch.state, scratch.open_of, scratch.around
    event = state[EVENT]
    kind = here.kind[event]
    state[EVENT] += 1
    was_open = open_of[FORKED] != 0 or open_of[BEGUN] != 0
    forks, begins = meanings.change[FORKED, kind], meanings.change[BEGUN, kind]
    if not was_open and (forks > 0 or begins > 0):
        around[:] = -1
        around[FIRST_ROW] = scratch.rows[THREADS]
    if forks != 0 and (forks < 0 or around[FORK] < 0):
        around[FORK if forks > 0 else JOIN] = event
    if begins != 0 and (begins < 0 or around[BEGIN] < 0):
        around[BEGIN if begins > 0 else END] = event
    for k in range(open_of.size):
        open_of[k] += meanings.change[k, kind]
    table = meanings.table[kind]
    if table >= 0:
        scratch.rows[table] += 1
    if meanings.is_begin[kind]:
        if here.marks.size > 0:
            state[MARKS] += here.marks[state[N_BEGINS]]
        state[N_BEGINS] += 1
    if table >= MESSAGES and here.call[event] >= 0:
        state[DIRECT] += meanings.role[here.node[here.call[event]]] == PARALLEL
    around[STOP_ROW] = scratch.rows[THREADS]
    return was_open and open_of[FORKED] == 0 and open_of[BEGUN] == 0


@part
def close_team(pending, sample, scratch, found):
    """Record the end of the team that is open at some moments; moments followed by more than its end are discarded."""
    around = scratch.around
    for k in range(pending, sample):
        if found.instance[k] < 0:
            continue
        n_rows = around[STOP_ROW] - found.counted[k, N_COUNTED + THREADS]
        is_simple = n_rows == 1 + (around[FORK] >= 0) and found.around[k, END] == scratch.state[DIRECT]
        for column in (STOP_ROW, END, JOIN):
            found.around[k, column] = around[column]
        if not is_simple:
            found.begin[k], found.end[k] = LAST, LAST
