"""Decode the words of one location (see `scan`) into columns of events.

All records of one time form a *group*, whichever lines they are in: events of one time are ordered by meaning, not by
position in the text. First, regions that end are closed, with the messages that the call received and the end of its
collective operation; then, regions that begin are opened, with the messages that they send.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.buffers import Events, Sides
from tracecols.converters.paraver import scan, types
from tracecols.converters.paraver.scan import find_type, hashed
from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.schema.kinds import EventKind

# state of a decoding
(
    AT, EVENTS, SIDES, EXTRAS, BASE, DEPTH, TIME, STATE_END, READ_AT, CALL_DEPTH, OPERATION, COMMUNICATOR,
    SENT, RECEIVED, IS_ROOT, N_USER, SEND, POST, RECEIVE, N_FUNCTIONS, N_FORKS, BARRIER_END, N_HELD, FLUSHING, PROGRAM,
    WAS_CREATED, IMPOSSIBLE, N_FLUSH_READINGS, N_CROSSED, N_UNDEFINED, N_CUT, WHAT, PHASES, IN_BURSTS, IS_OUTSIDE,
    CALLED_AT, DECODE_STATE,
) = range(37)  # fmt: skip

# status of a decoding
(END, MORE, BUFFERS_FULL, NO_BEGIN, OVERLAP) = range(5)

NOTHING = (1 << 62) + 1
"""Later than any time."""

# frames that no event type opens
TAG_PROGRAM, TAG_CALLER, TAG_BARRIER, TAG_OUTSIDE = -1, -2, -3, -4

OF_USER = -2
"""Marks functions of the program, in place of the number of a parallel function."""

(
    ENTER, EXIT, METRIC, MPI_SEND, MPI_ISEND, MPI_RECV, MPI_IRECV, MPI_IRECV_REQUEST, COLLECTIVE_BEGIN, COLLECTIVE_END,
    FORK, JOIN, TEAM_BEGIN, TEAM_END, ACQUIRE, RELEASE, BUFFER_FLUSH,
) = (
    int(kind)
    for kind in (
        EventKind.ENTER, EventKind.EXIT, EventKind.METRIC, EventKind.MPI_SEND, EventKind.MPI_ISEND, EventKind.MPI_RECV,
        EventKind.MPI_IRECV, EventKind.MPI_IRECV_REQUEST, EventKind.MPI_COLLECTIVE_BEGIN, EventKind.MPI_COLLECTIVE_END,
        EventKind.THREAD_FORK, EventKind.THREAD_JOIN, EventKind.THREAD_TEAM_BEGIN, EventKind.THREAD_TEAM_END,
        EventKind.THREAD_ACQUIRE_LOCK, EventKind.THREAD_RELEASE_LOCK, EventKind.BUFFER_FLUSH,
    )
)  # fmt: skip

OPENMP = 3
"""`Paradigm` of teams and locks."""

INSIDE, FORKED = 1, 2
"""Phases of parallel regions (`types.PHASE`): a thread executes one, or its team is forked; values are even and odd."""

PER_PAIR, PER_MESSAGE, PER_GROUP = 8, 4, 32
"""Upper bounds for the events of a pair of type and value, a message, and a group by itself; open frames add more."""

IMPOSSIBLE_COUNT, IMPOSSIBLE_PER_NS = 10**12, 1000
"""A value above both limits, the second one per nanosecond since the last reading, is not a count: some recordings hold
addresses in place of counters."""


class Regions(NamedTuple):
    """Regions by type and value of an event (a hash table), and the roles of regions."""

    slots: NDArray[np.int64]
    """(2**n,): index of a pair, by hash; -1 none."""
    type: NDArray[np.int64]
    value: NDArray[np.int64]
    """`type` and `value`: (n_pairs,)"""
    region: NDArray[np.int32]
    """(n_pairs,): -1 for unknown callers."""
    operation: NDArray[np.int64]
    """(n_regions + 1,): operation of blocking collective calls, -1 for others."""
    starts: NDArray[np.uint8]
    completes: NDArray[np.uint8]
    """`starts` and `completes`: (n_regions + 1,), whether calls start sends that others complete, or complete receives
    that others have posted."""
    sends: NDArray[np.int64]
    posts: NDArray[np.int64]
    receives: NDArray[np.int64]
    """`sends`, `posts` and `receives`: (n_regions + 1,), maximum number of messages that calls send, post receives for,
    and receive, if other calls begin or end at the same time."""
    program: int
    barrier: int
    critical: int
    critical_end: int
    flush: int
    outside: int
    """`program`, `barrier`, `critical`, `critical_end`, `flush` and `outside`: regions that no value names; `program`
    is -1 for locations that do not enter it."""


class Tables(NamedTuple):
    """Attributes of event types, in addition to `scan.TypeTable`."""

    counter: NDArray[np.int64]
    """(n_types,): number of the counter that a type is."""
    fixed: NDArray[np.int32]
    """(n_types,): region of types whose region does not depend on the value; -1 others."""
    is_user: NDArray[np.uint8]
    """(n_types,): whether the regions of a type are functions of the program."""
    communicator: NDArray[np.int64]
    """(any,): row by identifier; -1 none."""
    skipped: NDArray[np.int64]
    """(n_communicators,): how many next operations of a communicator are calls only, by row; decremented."""
    n_counters: int
    nanoseconds: float
    """Nanoseconds per tick."""
    is_cut: bool
    """Whether regions may end that have begun before the trace."""
    obtaining: int
    """First value of `types.LOCK_STATUS`."""


class Mail(NamedTuple):
    """The messages of a location."""

    columns: NDArray[np.int64]
    """(scan.MESSAGE_FIELDS, n_messages): all messages of the trace."""
    sends: NDArray[np.int64]
    posts: NDArray[np.int64]
    receives: NDArray[np.int64]
    """`sends`, `posts` and `receives`: (any,), the messages it sends and receives in order of `SENT_AT`, `POSTED_AT`
    and `RECEIVED_AT`."""
    is_posted: NDArray[np.uint8]
    """(n_messages,): filled; whether the receive was posted by another call than the one that completed it."""
    rank: NDArray[np.int32]
    """(n_locations,): rank of each location in the world."""


class Teams(NamedTuple):
    """The teams of a location, in the order of its events."""

    fork_team: NDArray[np.int64]
    fork_size: NDArray[np.int64]
    """`fork_team` and `fork_size`: (n_forks,), team of each FORK, and its number of threads."""
    team: NDArray[np.int64]
    join: NDArray[np.int64]
    """`team` and `join`: (n_functions,), team of each parallel function, -1 if it has none, and time of the join."""


class Stack(NamedTuple):
    """Stack of entered regions."""

    region: NDArray[np.int32]
    """(capacity,)"""
    tag: NDArray[np.int64]
    """(capacity,): the type of the event that entered it, or `TAG_...`."""
    of: NDArray[np.int64]
    """(capacity,): number of a parallel function; OF_USER for functions of the program."""
    held: NDArray[np.int64]
    """(capacity,): locks held."""


class Group(NamedTuple):
    """Types and values of the events of one time."""

    kind: NDArray[np.int64]
    type: NDArray[np.int64]
    value: NDArray[np.int64]
    """`kind`, `type` and `value`: (capacity,), index of the type in the type table, type, and value."""


@part
def put_event(kind, region, events, state):
    """Append an event at the current time."""
    e = state[EVENTS]
    events.time[e] = state[TIME]
    events.kind[e] = kind
    events.region[e] = region
    state[EVENTS] = e + 1


@part
def put_side(kind, a, b, c, d, e, events, sides, state):
    """Append an event with values at the current time."""
    s = state[SIDES]
    sides.event[s] = state[BASE] + state[EVENTS]
    sides.kind[s] = kind
    values = sides.values
    values[s, 0], values[s, 1], values[s, 2], values[s, 3], values[s, 4] = a, b, c, d, e
    state[SIDES] = s + 1
    put_event(kind, -1, events, state)


@part
def enter(region, tag, of, stack, events, state):
    """Enter a region."""
    put_event(ENTER, region, events, state)
    d = state[DEPTH]
    stack.region[d], stack.tag[d], stack.of[d] = region, tag, of
    state[DEPTH] = d + 1


@part
def leave(stack, events, state):
    """Leave the innermost region."""
    d = state[DEPTH] - 1
    state[DEPTH] = d
    put_event(EXIT, stack.region[d], events, state)
    if stack.of[d] == OF_USER:
        state[N_USER] -= 1
    if d == state[CALL_DEPTH]:
        state[CALL_DEPTH] = -1


@part
def find_frame(tag, stack, state):
    """Find the innermost region that a type has entered; -1 if there is none."""
    d = state[DEPTH] - 1
    while d >= 0 and stack.tag[d] != tag:
        d -= 1
    return d


@part
def leave_above(depth, stack, events, state):
    """Leave the regions above `depth`, which are still open inside a region that ends."""
    while state[DEPTH] > depth:
        state[N_CROSSED] += 1
        leave(stack, events, state)


@part
def find_region(number, value, regions):
    """Find the region of a type and value; -1 if it has none."""
    size = regions.slots.size
    at = hashed(value * 64 + number, size)
    while regions.slots[at] >= 0:
        n = regions.slots[at]
        if regions.type[n] == number and regions.value[n] == value:
            return np.int64(regions.region[n])
        at = (at + 1) & (size - 1)
    return np.int64(-1)


# -- messages ----------------------------------------------------------------------------------------------------------


@part
def time_of_next(order, number, column, mail):
    """Return the time of the next message of an order; NOTHING after the last."""
    return mail.columns[column, order[number]] if number < order.size else np.int64(NOTHING)


@part
def count_at(time, order, number, column, mail):
    """Count the next messages of an order that have the given time."""
    n = number
    while n < order.size and mail.columns[column, order[n]] == time:
        n += 1
    return n - number


@part
def put_sends(most, is_start, mail, events, sides, state):
    """Append the messages sent at the current time, `most` at most."""
    last = state[SEND] + most
    while state[SEND] < last and time_of_next(mail.sends, state[SEND], scan.SENT_AT, mail) == state[TIME]:
        m = mail.sends[state[SEND]]
        columns = mail.columns
        peer = np.int64(mail.rank[columns[scan.RECEIVER, m]])
        kind, request = (MPI_ISEND, m) if is_start else (MPI_SEND, np.int64(-1))
        put_side(kind, peer, 0, columns[scan.TAG, m], columns[scan.SIZE, m], request, events, sides, state)
        state[SEND] += 1


@part
def put_posts(most, mail, events, sides, state):
    """Append the receives posted by the call that ends at the current time, `most` at most."""
    last = state[POST] + most
    while state[POST] < last and time_of_next(mail.posts, state[POST], scan.POSTED_AT, mail) == state[TIME]:
        m = mail.posts[state[POST]]
        mail.is_posted[m] = 1
        put_side(MPI_IRECV_REQUEST, m, 0, 0, 0, 0, events, sides, state)
        state[POST] += 1


@part
def put_receives(most, mail, events, sides, state):
    """Append the messages received at the current time, `most` at most."""
    last = state[RECEIVE] + most
    while state[RECEIVE] < last and time_of_next(mail.receives, state[RECEIVE], scan.RECEIVED_AT, mail) == state[TIME]:
        m = mail.receives[state[RECEIVE]]
        columns = mail.columns
        peer = np.int64(mail.rank[columns[scan.SENDER, m]])
        kind, request = (MPI_IRECV, m) if mail.is_posted[m] else (MPI_RECV, np.int64(-1))
        put_side(kind, peer, 0, columns[scan.TAG, m], columns[scan.SIZE, m], request, events, sides, state)
        state[RECEIVE] += 1


@part
def put_receives_of(region, regions, mail, events, sides, state):
    """Append the messages received at the current time that a call can receive though others end at this time, too: a
    call that completes requests receives messages that were posted before it began, and another call those that were
    not."""
    order, left, at = mail.receives, regions.receives[region], state[RECEIVE]
    while left > 0 and time_of_next(order, at, scan.RECEIVED_AT, mail) == state[TIME]:
        m = order[at]
        was_posted = mail.is_posted[m] != 0 or mail.columns[scan.POSTED_AT, m] < state[CALLED_AT]
        if was_posted == (regions.completes[region] != 0):
            # those before it are received by other calls
            for k in range(at, state[RECEIVE], -1):
                order[k] = order[k - 1]
            order[state[RECEIVE]] = m
            put_receives(1, mail, events, sides, state)
            left -= 1
        at += 1


# -- MPI calls ---------------------------------------------------------------------------------------------------------


@part
def is_last_call(i, n, group, types_table):
    """Return whether no event after event i of a group begins a call, if event i does, or ends one, if event i does."""
    for k in range(i + 1, n):
        if types_table.action[group.kind[k]] == types.CALL and (group.value[k] == 0) == (group.value[i] == 0):
            return False
    return True


@part
def read_call(i, n, group, types_table, tables, state):
    """Read the values that the following events of a group give for the call that event i opens."""
    state[SENT] = state[RECEIVED] = state[COMMUNICATOR] = -1
    state[IS_ROOT] = 0
    for k in range(i + 1, n):
        action = types_table.action[group.kind[k]]
        value = group.value[k]
        if action == types.CALL:
            break
        if action == types.SENT:
            state[SENT] = value
        elif action == types.RECEIVED:
            state[RECEIVED] = value
        elif action == types.ROOT:
            state[IS_ROOT] = value
        elif action == types.COMMUNICATOR and 0 <= value < tables.communicator.size:
            state[COMMUNICATOR] = tables.communicator[value]


@part
def enter_callers(i, n, group, types_table, regions, stack, events, state):
    """Enter the callers of the call that event i of a group opens, outermost first."""
    deepest = np.int64(0)
    last = i + 1
    while last < n and types_table.action[group.kind[last]] != types.CALL:
        if types_table.action[group.kind[last]] == types.CALLER:
            deepest = max(deepest, group.type[last] - types.CALLER_BASE)
        last += 1
    for level in range(deepest, 0, -1):
        for k in range(i + 1, last):
            if group.type[k] == types.CALLER_BASE + level:
                region = find_region(group.type[k], group.value[k], regions)
                if region >= 0:
                    enter(region, TAG_CALLER, -1, stack, events, state)
                break


@part
def open_call(i, n, group, types_table, tables, regions, mail, stack, events, sides, state):
    """Open the MPI call that event i of a group begins."""
    number = group.type[i]
    region = find_region(number, group.value[i], regions)
    if state[CALL_DEPTH] >= 0:
        enter(region, number, -1, stack, events, state)
        return
    if state[N_USER] == 0:
        enter_callers(i, n, group, types_table, regions, stack, events, state)
    state[CALL_DEPTH], state[CALLED_AT] = state[DEPTH], state[TIME]
    enter(region, number, -1, stack, events, state)
    read_call(i, n, group, types_table, tables, state)
    state[OPERATION] = regions.operation[region]
    if state[OPERATION] >= 0 and state[COMMUNICATOR] >= 0 and tables.skipped[state[COMMUNICATOR]] > 0:
        tables.skipped[state[COMMUNICATOR]] -= 1
        state[OPERATION] = -1
    if state[OPERATION] >= 0 and state[COMMUNICATOR] >= 0:
        put_side(COLLECTIVE_BEGIN, 0, 0, 0, 0, 0, events, sides, state)
    elif state[OPERATION] >= 0:
        state[N_UNDEFINED] += 1
    most = NOTHING if is_last_call(i, n, group, types_table) else regions.sends[region]
    put_sends(most, regions.starts[region] != 0, mail, events, sides, state)


@part
def close_call(i, n, group, types_table, regions, mail, stack, events, sides, state):
    """Close the MPI call that event i of a group ends; return END or the error."""
    depth = find_frame(group.type[i], stack, state)
    if depth < 0:
        return NO_BEGIN
    leave_above(depth + 1, stack, events, state)
    if depth != state[CALL_DEPTH]:
        leave(stack, events, state)
        return END
    region = stack.region[depth]
    put_posts(regions.posts[region], mail, events, sides, state)
    if is_last_call(i, n, group, types_table):
        put_receives(NOTHING, mail, events, sides, state)
    else:
        put_receives_of(region, regions, mail, events, sides, state)
    if state[OPERATION] >= 0 and state[COMMUNICATOR] >= 0:
        sent, received = max(state[SENT], 0), max(state[RECEIVED], 0)
        root = state[IS_ROOT]
        put_side(COLLECTIVE_END, state[OPERATION], state[COMMUNICATOR], root, sent, received, events, sides, state)
    leave(stack, events, state)
    while state[DEPTH] > 0 and stack.tag[state[DEPTH] - 1] == TAG_CALLER:
        leave(stack, events, state)
    return END


# -- threads -----------------------------------------------------------------------------------------------------------


@part
def end_function(time, teams, stack, events, sides, state):
    """Leave the barrier at the end of a parallel function, the function and its team."""
    now = state[TIME]
    state[TIME] = time
    state[BARRIER_END] = NOTHING
    depth = find_frame(TAG_BARRIER, stack, state)
    if depth > 0:
        leave_above(depth + 1, stack, events, state)
        leave(stack, events, state)
        team = teams.team[stack.of[depth - 1]]
        leave(stack, events, state)
        put_side(TEAM_END, team, OPENMP, 0, 0, 0, events, sides, state)
    state[TIME] = now


@part
def open_function(region, number, teams, stack, events, sides, state):
    """Begin a parallel function, in its team if it has one."""
    k = state[N_FUNCTIONS]
    state[N_FUNCTIONS] = k + 1
    if teams.team[k] >= 0:
        put_side(TEAM_BEGIN, teams.team[k], OPENMP, 0, 0, 0, events, sides, state)
    enter(region, number, k, stack, events, state)


@part
def close_function(number, teams, regions, stack, events, state):
    """End a parallel function; if it has a team, its threads enter a barrier. Return END or the error."""
    depth = find_frame(number, stack, state)
    if depth < 0:
        return NO_BEGIN
    leave_above(depth + 1, stack, events, state)
    k = stack.of[depth]
    if teams.team[k] < 0:
        leave(stack, events, state)
        return END
    enter(regions.barrier, TAG_BARRIER, -1, stack, events, state)
    state[BARRIER_END] = max(teams.join[k], state[TIME])
    return END


@part
def change_parallel(value, teams, events, sides, state):
    """Fork or join a team."""
    if value != 0:
        k = state[N_FORKS]
        put_side(FORK, teams.fork_team[k], OPENMP, teams.fork_size[k], 0, 0, events, sides, state)
        state[N_FORKS] = k + 1
    elif state[N_FORKS] > 0:
        put_side(JOIN, teams.fork_team[state[N_FORKS] - 1], OPENMP, 0, 0, 0, events, sides, state)


@part
def of_phase(value, phases):
    """Return the value that a type with forks and joins only has, -1 if a phase neither begins nor ends a fork, and the
    open phases: two bits each, the innermost last."""
    if value == 0:
        return np.int64(0) if phases & 3 == FORKED else np.int64(-1), phases >> 2
    is_fork = value & 1 == 1
    return value if is_fork else np.int64(-1), phases << 2 | (FORKED if is_fork else INSIDE)


@part
def lock_of(n, group, types_table):
    """Return the lock that the events of a group name; 0 if they do not."""
    for k in range(n):
        if types_table.action[group.kind[k]] == types.LOCK and group.value[k] != 0:
            return group.value[k]
    return np.int64(0)


@part
def change_critical(value, number, lock, obtaining, regions, stack, events, sides, state):
    """Wait for a critical section or lock, begin it, end it, or leave it; return END or the error.

    Waiting and leaving are regions; the time inside is in neither, so that sections and locks may overlap. A lock is
    released when leaving begins. Which lock is left is not recorded: it is assumed to be the one acquired last.
    """
    if number == types.LOCK_STATUS and value != 0:
        value = (types.CRITICAL_WANTS, types.CRITICAL_HAS, types.CRITICAL_LEAVES)[(value - obtaining) % 3]
    if value == types.CRITICAL_WANTS:
        enter(regions.critical, number, -1, stack, events, state)
        return END
    if value == types.CRITICAL_LEAVES:
        enter(regions.critical_end, number, -1, stack, events, state)
        if state[N_HELD] > 0:
            state[N_HELD] -= 1
            put_side(RELEASE, OPENMP, stack.held[state[N_HELD]], -1, 0, 0, events, sides, state)
        return END
    depth = find_frame(number, stack, state)
    if depth < 0:
        return NO_BEGIN
    leave_above(depth + 1, stack, events, state)
    if value == types.CRITICAL_HAS:
        put_side(ACQUIRE, OPENMP, lock, -1, 0, 0, events, sides, state)
        stack.held[state[N_HELD]] = lock
        state[N_HELD] += 1
    leave(stack, events, state)
    return END


# -- groups ------------------------------------------------------------------------------------------------------------


@inner_part
def take_state(words, w, end_of_trace, state):
    """Process a state of a group; return 1 if the thread runs, 0 if it is not created, -1 if states overlap."""
    begin, number, end = words[w], words[w + 2], words[w + 3]
    if begin < state[STATE_END]:
        return -1
    state[STATE_END] = end_of_trace if end == scan.OPEN else end
    state[FLUSHING] = state[STATE_END]
    return 0 if number == types.NOT_CREATED else 1


@part
def next_reading(i, n, group, types_table):
    """Return the event of a group, from i on, before which counters are read again: the end of a call that begins and
    ends at this time; n if there is none."""
    opened = False
    for k in range(i, n):
        if types_table.action[group.kind[k]] == types.CALL:
            if group.value[k] != 0:
                opened = True
            elif opened:
                return k
    return n


@part
def put_counters(i, n, group, types_table, tables, extra, events, sides, state):
    """Append a METRIC of the counters in events i to n of a group, if there are any: counts since the last reading."""
    x = state[EXTRAS]
    found = False
    limit = IMPOSSIBLE_PER_NS * np.float64(state[TIME] - state[READ_AT]) * tables.nanoseconds
    is_flushed = False
    for k in range(i, n):
        action = types_table.action[group.kind[k]]
        if action == types.FLUSH and group.value[k] == 0:
            is_flushed = True
        if action != types.METRIC:
            continue
        if not found:
            for c in range(tables.n_counters):
                extra[x + c] = 0
            found = True
        value = np.uint64(group.value[k])
        if value > np.uint64(IMPOSSIBLE_COUNT) and np.float64(value) > limit:
            state[IMPOSSIBLE] += 1
        else:
            extra[x + tables.counter[group.kind[k]]] += group.value[k]
    if not found:
        return
    state[READ_AT] = state[TIME]
    if is_flushed:
        # counts from the time when the recorder wrote its buffer do not belong to the program
        state[N_FLUSH_READINGS] += 1
        return
    put_side(METRIC, 0, tables.n_counters, x, 0, 0, events, sides, state)
    state[EXTRAS] = x + tables.n_counters


@part
def open_region(i, n, group, types_table, tables, regions, stack, events, state):
    """Enter the region that event i of a group names, or the name of a kernel there if it begins a kernel."""
    kind = group.kind[i]
    region = np.int64(tables.fixed[kind])
    if region < 0:
        at = i
        for k in range(n if group.type[i] == types.OPENCL_ON_STREAM else 0):
            if types_table.action[group.kind[k]] == types.KERNEL_NAME and group.value[k] != 0:
                at = k
        region = find_region(group.type[at], group.value[at], regions)
    state[N_USER] += tables.is_user[kind]
    enter(region, group.type[i], OF_USER if tables.is_user[kind] else -1, stack, events, state)


@part
def put_innermost_first(i, n, group, types_table, stack, state):
    """Exchange event i of a group, the end of a region, with the end of the innermost region if that follows in the
    group: Extrae ends regions in the order in which it began them."""
    if not state[DEPTH]:
        return
    innermost = stack.tag[state[DEPTH] - 1]
    for k in range(i + 1, n):
        is_region = types_table.action[group.kind[k]] == types.REGION
        if is_region and group.type[i] != innermost and group.type[k] == innermost and group.value[k] == 0:
            for column in (group.kind, group.type, group.value):
                column[i], column[k] = column[k], column[i]


@part
def close_region(i, n, group, types_table, stack, events, state):
    """Leave the innermost region that the type of event i of a group has entered; return END or the error."""
    put_innermost_first(i, n, group, types_table, stack, state)
    depth = find_frame(group.type[i], stack, state)
    if depth < 0:
        return NO_BEGIN
    leave_above(depth + 1, stack, events, state)
    leave(stack, events, state)
    return END


@part
def repeats_kernel(i, n, group, types_table, stack, state):
    """Return whether event i of a group on a stream only repeats that a kernel begins or ends."""
    if group.value[i] == 0:
        return find_frame(group.type[i], stack, state) < 0
    begins = False
    for k in range(n):
        begins |= group.value[k] != 0 and types_table.action[group.kind[k]] == types.REGION
    return begins


@inner_part
def take_event(i, n, group, types_table, tables, regions, mail, teams, stack, events, sides, state):
    """Turn event i of a group into events; return END or the error."""
    number, value = group.type[i], group.value[i]
    action = types_table.action[group.kind[i]]
    why = END
    if action == types.PHASE:
        value, state[PHASES] = of_phase(value, state[PHASES])
        action = types.PARALLEL if value >= 0 else types.IGNORED
    if action == types.CALL:
        if value != 0:
            open_call(i, n, group, types_table, tables, regions, mail, stack, events, sides, state)
        else:
            why = close_call(i, n, group, types_table, regions, mail, stack, events, sides, state)
    elif action == types.PARALLEL or action == types.FUNCTION:
        if state[BARRIER_END] != NOTHING:
            end_function(state[TIME], teams, stack, events, sides, state)
        if action == types.PARALLEL:
            change_parallel(value, teams, events, sides, state)
        elif value != 0:
            open_function(find_region(number, value, regions), number, teams, stack, events, sides, state)
        else:
            why = close_function(number, teams, regions, stack, events, state)
    elif action == types.CRITICAL:
        lock = lock_of(n, group, types_table)
        why = change_critical(value, number, lock, tables.obtaining, regions, stack, events, sides, state)
    elif action == types.FLUSH:
        if value != 0:
            stop = max(state[FLUSHING], state[TIME])
            put_side(BUFFER_FLUSH, stop, 0, 0, 0, 0, events, sides, state)
            events.region[state[EVENTS] - 1] = regions.flush
    elif action == types.MODE:
        state[IN_BURSTS] = value == types.BURSTS
    elif action == types.REGION or (
        action == types.ON_STREAM and not repeats_kernel(i, n, group, types_table, stack, state)
    ):
        if value != 0:
            open_region(i, n, group, types_table, tables, regions, stack, events, state)
        else:
            why = close_region(i, n, group, types_table, stack, events, state)
    elif action == types.SWITCH:
        if value == 0:
            open_region(i, n, group, types_table, tables, regions, stack, events, state)
        elif find_frame(number, stack, state) >= 0:
            why = close_region(i, n, group, types_table, stack, events, state)
    return why


@inner_part
def take_group(words, p, time, is_last, group, types_table):
    """Collect the events of the records of a time from word p on.

    Returns
    -------
    p : int
        The first word after them; -1 if more of them may follow after the last word.
    n : int
        Number of events.
    """
    n = np.int64(0)
    while p < words.size and words[p] == time:
        if words[p + 1] == scan.STATE:
            p += scan.STATE_WORDS
            continue
        for k in range(words[p + 1]):
            number = words[p + 2 + 2 * k]
            group.kind[n] = find_type(number, types_table)
            group.type[n] = number
            group.value[n] = words[p + 3 + 2 * k]
            n += 1
        p += 2 + 2 * words[p + 1]
    return (-1 if p >= words.size and not is_last else p), n


class Given(NamedTuple):
    """Input for decoding the words of a location."""

    types_table: scan.TypeTable
    tables: Tables
    regions: Regions
    mail: Mail
    teams: Teams


class Out(NamedTuple):
    """Buffers of a location; the stack is carried from call to call."""

    stack: Stack
    group: Group
    events: Events
    sides: Sides
    extra: NDArray[np.int64]


@kernel
def decode_words(words, is_last, end_of_trace, given, out, state):
    """Decode words of one location into columns.

    Parameters
    ----------
    words : (n,) int64
        Whole records in order of time.
    is_last : bool
        Whether these are the last words.
    end_of_trace : int
        Time at which open states end.
    given : Given
    out : Out
    state : (DECODE_STATE,) int64
        Carried from call to call; `state[AT]` is the next word to decode.

    Returns
    -------
    int
        END; MORE if more words are needed; BUFFERS_FULL; or the error at time `state[TIME]` in events of type
        `state[WHAT]`.
    """
    types_table, tables, regions, mail, teams = given
    stack, group, events, sides, extra = out
    while True:
        p = state[AT]
        time = words[p] if p < words.size else np.int64(NOTHING)
        if p >= words.size and not is_last:
            return MORE
        time = min(time, time_of_next(mail.sends, state[SEND], scan.SENT_AT, mail))
        time = min(time, time_of_next(mail.receives, state[RECEIVE], scan.RECEIVED_AT, mail))
        if time == NOTHING:
            return END
        while time_of_next(mail.posts, state[POST], scan.POSTED_AT, mail) < time:
            state[POST] += 1
        q, n = take_group(words, p, time, is_last, group, types_table)
        if q < 0:
            return MORE
        n_messages = count_at(time, mail.sends, state[SEND], scan.SENT_AT, mail)
        n_messages += count_at(time, mail.receives, state[RECEIVE], scan.RECEIVED_AT, mail)
        n_messages += count_at(time, mail.posts, state[POST], scan.POSTED_AT, mail)
        room = PER_PAIR * n + PER_MESSAGE * n_messages + PER_GROUP + state[DEPTH]
        if (
            state[EVENTS] + room > events.time.size
            or state[SIDES] + room > sides.event.size
            or state[EXTRAS] + tables.n_counters * (1 + n // 2) > extra.size
            or max(state[DEPTH], state[N_HELD]) + 2 * n + PER_GROUP > stack.tag.size
        ):
            return BUFFERS_FULL
        state[AT] = q
        if state[BARRIER_END] < time:
            end_function(state[BARRIER_END], teams, stack, events, sides, state)
        if state[IN_BURSTS] and state[PROGRAM] and not state[IS_OUTSIDE] and time > state[STATE_END]:
            state[TIME] = max(state[TIME], state[STATE_END])
            enter(regions.outside, TAG_OUTSIDE, -1, stack, events, state)
            state[IS_OUTSIDE] = 1
        state[TIME] = time
        runs, is_created = np.int64(-2), n > 0 or n_messages > 0
        for_states = p
        while for_states < q:
            if words[for_states + 1] != scan.STATE:
                for_states += 2 + 2 * words[for_states + 1]
                continue
            runs = take_state(words, for_states, end_of_trace, state)
            if runs < 0:
                return OVERLAP
            for_states += scan.STATE_WORDS
        if runs >= 0 and state[IS_OUTSIDE]:
            leave_above(find_frame(TAG_OUTSIDE, stack, state), stack, events, state)
            state[IS_OUTSIDE] = 0
        state[WAS_CREATED] = runs if runs >= 0 else state[WAS_CREATED]
        if (runs == 1 or (runs == -2 and is_created)) and regions.program >= 0 and not state[PROGRAM]:
            enter(regions.program, TAG_PROGRAM, -1, stack, events, state)
            state[PROGRAM] = 1
        reading = next_reading(0, n, group, types_table)
        put_counters(0, reading, group, types_table, tables, extra, events, sides, state)
        if state[BARRIER_END] == time:
            end_function(time, teams, stack, events, sides, state)
        for i in range(n):
            if i == reading:
                reading = next_reading(i, n, group, types_table)
                put_counters(i, reading, group, types_table, tables, extra, events, sides, state)
            why = take_event(i, n, group, types_table, tables, regions, mail, teams, stack, events, sides, state)
            if why == NO_BEGIN and tables.is_cut:
                state[N_CUT] += 1
            elif why != END:
                state[WHAT] = group.type[i]
                return why
        is_start = state[CALL_DEPTH] >= 0 and regions.starts[stack.region[state[CALL_DEPTH]]] != 0
        put_sends(NOTHING, is_start, mail, events, sides, state)
        put_receives(NOTHING, mail, events, sides, state)
        if runs == 0 and state[PROGRAM] and stack.tag[state[DEPTH] - 1] == TAG_PROGRAM:
            leave(stack, events, state)
            state[PROGRAM] = 0


@kernel
def close_all(teams, stack, events, sides, state):
    """Leave all regions that are still open, at the end of the last state or at the last event."""
    if state[WAS_CREATED]:
        state[TIME] = max(state[TIME], state[STATE_END])
    if state[BARRIER_END] != NOTHING:
        end = state[BARRIER_END]
        state[TIME] = max(state[TIME], end)
        end_function(end, teams, stack, events, sides, state)
    while state[DEPTH] > 0:
        leave(stack, events, state)


@kernel
def find_thread_events(words, types_table, phases, time, number, value):
    """Find the events of a location that fork teams and begin or end parallel functions.

    Parameters
    ----------
    phases : (1,) int64
        Open phases (`of_phase`); updated.
    time, number, value : (capacity,) int64
        Filled up to their capacity.

    Returns
    -------
    int
        Number of events found.
    """
    n, w = 0, 0
    while w < words.size:
        if words[w + 1] == scan.STATE:
            w += scan.STATE_WORDS
            continue
        for k in range(words[w + 1]):
            action, of = types_table.action[find_type(words[w + 2 + 2 * k], types_table)], words[w + 3 + 2 * k]
            if action == types.PHASE:
                of, phases[0] = of_phase(of, phases[0])
                action = types.PARALLEL if of >= 0 else types.IGNORED
            if action == types.PARALLEL or action == types.FUNCTION:
                if n < time.size:
                    time[n], number[n], value[n] = words[w], action, of
                n += 1
        w += 2 + 2 * words[w + 1]
    return n
