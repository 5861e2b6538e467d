"""Decode EPILOG records: one walk through a file finds every location's records, then each location is decoded by
itself.

A merged trace holds the events of all locations in one sequence. `walk_records` goes through it twice: it first counts,
then notes where the records of each location are. `decode_records` turns the records of one location into columns.

Both have an inner loop for what almost all records are: `walk_plain` takes records of known types, with a location, in
order of time; `decode_calls` takes ENTER and EXIT. Whatever else there is they leave to parts that take one record at a
time: attributes (`decode_attributes`), counter values (`decode_counters`), declared fields (`decode_fields`,
`rank_partners`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.buffers import N_VALUES, Events, Sides
from tracecols.converters.epilog import records
from tracecols.converters.epilog.records import AHEAD, COMM, FLAG, LOCK_TYPE, PEER, PLAIN, REGION, REQUEST, SITE, WINDOW
from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.kernels.ordered import place_of
from tracecols.kernels.prefetch import prefetch
from tracecols.schema.kinds import EventKind

# state of the walk: where it is, what it found, and what it knows of the records before
(
    AT,
    N_RECORDS,
    N_LOST,
    N_TIED,
    FAULT,
    DETAIL,
    FIRST,
    LAST,
    SCALE,
    COINCIDENT,
    DISORDER,
    HEAD,
    BEFORE,
    OWN_BEFORE,
    LOCATION_BEFORE,
    TICK_BEFORE,
    GROUP,
    GROUP_SIZE,
    IS_DISPUTED,
    WALK_STATE,
) = range(20)

# why a walk or a decoding ended
(END, RUNS_OUT, BAD_LENGTH, NO_LOCATION, BAD_TIME, UNKNOWN_ID, NO_MEMBER, NO_RANK, BUFFERS_FULL) = range(9)

# state of the decoding of a location
(RECORD, EVENTS, SIDES, EXTRAS, SITES, ATTRIBUTES, TIES, BASE, DEPTH, TIE, WHAT, WHICH, DECODE_STATE) = range(13)

# types of records
_codes = {event.name: event.code for event in records.EVENTS}
ENTER, EXIT, OMP_COLLEXIT, ENTER_CS, LOG_OFF, ENTER_TRACING = (
    _codes[name] for name in ("ENTER", "EXIT", "OMP_COLLEXIT", "ENTER_CS", "LOG_OFF", "ENTER_TRACING")
)
ATTRIBUTE_UI1, ATTRIBUTE_UI4 = records.ATTRIBUTE_TYPES
LAST_DEFINITION, FIRST_EVENT = 59, 100

# what they become
(
    METRIC,
    ENTER_KIND,
    EXIT_KIND,
    SEND,
    ISEND,
    RECV,
    IRECV,
    COLLECTIVE_END,
    RMA_COLLECTIVE_END,
    ON_OFF,
) = (
    int(kind)
    for kind in (
        EventKind.METRIC, EventKind.ENTER, EventKind.EXIT, EventKind.MPI_SEND, EventKind.MPI_ISEND, EventKind.MPI_RECV,
        EventKind.MPI_IRECV, EventKind.MPI_COLLECTIVE_END, EventKind.RMA_COLLECTIVE_END, EventKind.MEASUREMENT_ON_OFF,
    )
)  # fmt: skip

# where the values are that no field fills, see `archive.COLUMNS`
LENGTH_OF_MESSAGE, REQUEST_OF_MESSAGE, OP_OF_COLLECTIVE, OP_OF_WINDOW, MODE = 3, 4, 4, 1, 0
MODE_ON, MODE_OFF = 1, 2

UNDEFINED = 0xFFFFFFFF
KNOWN_ATTRIBUTES = len(records.ATTRIBUTES)
IMPOSSIBLE_TIME = 0x4270000000000000
"""The bits of 2**40 s, 35,000 years; those of infinity and of what is not a number are larger."""
MINUS_ZERO = -0x8000000000000000
"""The bits of -0."""
AHEAD_OF_USE = 24
"""Records to fetch ahead: those of one location are spread over a merged file, and waiting for memory dominates."""

MOST_FIELDS = 4
MOST_EVENTS = 3
"""More events than a record becomes: METRIC, its own, EXIT."""


class File(NamedTuple):
    """A file."""

    data: NDArray[np.uint8]
    """(n,): its bytes."""
    big: bool
    """Byte order."""


class RecordTables(NamedTuple):
    """What there is to know about records, by type."""

    length: NDArray[np.int64]
    """(256,): bytes of the body with a location; -1 for types that are not known."""
    n_rows: NDArray[np.int64]
    """(256,): events it becomes."""
    n_fields: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    """`n_fields` and `kinds`: (256,), number of fields; the event that holds them."""
    leaves: NDArray[np.uint8]
    """(256,): 1 where an EXIT follows."""
    counters: NDArray[np.uint8]
    """(256,): where counter values are, 0 where there are none."""
    meanings: NDArray[np.uint8]
    places: NDArray[np.uint8]
    """`meanings` and `places`: (256, MOST_FIELDS), meaning of each field, and which of the event's values it is."""


class LocationRows(NamedTuple):
    """Rows of locations."""

    row_of: NDArray[np.int32]
    """(any,): by identifier, -1 undefined."""
    default: int
    """Of records without location; -1 none."""


class Counts(NamedTuple):
    """What a walk counts, by location."""

    n_records: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    """`n_records` and `n_rows`: (n_locations,), records and events before the first record with an impossible time."""
    n_lost: NDArray[np.int64]
    """(n_locations,): events from there on."""
    fault_at: NDArray[np.int64]
    """(n_locations,): where that record is; -1 if there is none."""
    latest: NDArray[np.int64]
    """(n_locations,): bits of the latest time. Zeros before."""


class Notes(NamedTuple):
    """What a walk notes."""

    offsets: NDArray[np.int64]
    """(n_records,): by location where each record is, attributes included. A walk only counts if there is no room for
    any."""
    free: NDArray[np.int64]
    """(n_locations,): next free element of each location."""
    tied_at: NDArray[np.int64]
    tied_location: NDArray[np.int64]
    tied_place: NDArray[np.int64]
    """`tied_at`, `tied_location` and `tied_place`: (n_tied,), records whose place among those of the same time is not
    that of their location. A record whose time is earlier than one of its location before counts as one of that time:
    it keeps its place in the file."""
    first_place: int
    """What places begin with."""


class LocationRecords(NamedTuple):
    """The records of one location."""

    offsets: NDArray[np.int64]
    """(n,): where they are, attributes included."""
    tied: NDArray[np.int64]
    place: NDArray[np.int64]
    """`tied` and `place`: (n_tied,), which of them have a place of their own among those of the same time, and what it
    is."""


class Identifiers(NamedTuple):
    """Identifier to row, -1 undefined, for each meaning."""

    lut: NDArray[np.int64]
    """(any,): the tables one after the other."""
    start: NDArray[np.int64]
    """(n_meanings + 1,): where each begins."""


class Communicators(NamedTuple):
    """Communicators and who is in them."""

    peers_are_ranks: bool
    """Whether PEER fields are ranks already."""
    process_of: NDArray[np.int64]
    """(n_locations,)"""
    of_window: NDArray[np.int64]
    """(any,): the communicator of each window; -1 none."""
    member_start: NDArray[np.int64]
    """(n_communicators + 1,): where the members of each begin."""
    members: NDArray[np.int64]
    ranks: NDArray[np.int64]
    """`members` and `ranks`: (any,), processes in ascending order and the rank of each."""


class Regions(NamedTuple):
    """What regions mean."""

    callee: NDArray[np.int32]
    """(n_sites,): region each call site enters."""
    op: NDArray[np.int64]
    window_op: NDArray[np.int64]
    """`op` and `window_op`: (n_regions + 1,), collective operation of each, the last for none."""
    off: int
    tracing: int
    """`off` and `tracing`: what LOG_OFF and ENTER_TRACING enter."""


class Clock(NamedTuple):
    """How the times of a file become ticks of the trace."""

    local: float
    offset: float
    slope: float
    """`local`, `offset` and `slope`: a time gets `offset` and `slope` for each second since `local`."""
    start: float
    """The time that becomes 0."""
    resolution: float
    """Ticks per second."""


class Sites(NamedTuple):
    """Buffers of the call sites of ENTERs, `state[SITES]` of them."""

    event: NDArray[np.int64]
    site: NDArray[np.int64]
    """`event` and `site`: (capacity,), number of the event in its location, and row of the call site."""


class Attributes(NamedTuple):
    """Buffers of other attributes, `state[ATTRIBUTES]` of them."""

    event: NDArray[np.int64]
    name: NDArray[np.int64]
    """`event` and `name`: (capacity,), number of the event in its location, and which attribute it is."""
    record: NDArray[np.uint8]
    """(capacity,): type of the record, which tells that of the value."""
    value: NDArray[np.int64]
    """(capacity,)"""


class Ties(NamedTuple):
    """Buffers of events with a place of their own among those of the same time, `state[TIES]` of them."""

    event: NDArray[np.int64]
    place: NDArray[np.int64]
    """`event` and `place`: (capacity,), number of the event in its location, and its place."""


class Meanings(NamedTuple):
    """What the numbers in the records of one location mean."""

    table: RecordTables
    ids: Identifiers
    communicators: Communicators
    regions: Regions
    clock: Clock
    n_counters: int
    """Counter values per record that has them."""


class Buffers(NamedTuple):
    """What decoded records fill: the buffers of one thread, reused from location to location."""

    events: Events
    sides: Sides
    extra: NDArray[np.int64]
    """(capacity,): counter values."""
    sites: Sites
    attributes: Attributes
    ties: Ties
    stack: NDArray[np.int32]
    """(capacity,): regions entered; `state[DEPTH]` of them."""


# -- numbers and times -------------------------------------------------------------------------------------------------

_1, _2, _3, _4, _5, _6, _7, _8, _12, _16 = (np.uint64(i) for i in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16))
_B1, _B2, _B3, _B4, _B5, _B6, _B7 = (np.uint64(8 * i) for i in range(1, 8))
_HALF, _EVEN, _LOW = np.uint64(0xFFFFFFFF), np.uint64(0x00FF00FF), np.uint64(0x0000FFFF)


@part
def swap4(number):
    """Reverse the four bytes of an unsigned number of eight."""
    halves = (number & _EVEN) << _B1 | number >> _B1 & _EVEN
    return (halves & _LOW) << _B2 | halves >> _B2


@part
def load4(data, at, big):
    """Read four bytes as an unsigned integer."""
    # an index is unsigned to spare the question whether it counts from the end. Compiled, the bytes of a little-endian
    # number are one load, unless they serve a second sum
    p = np.uint64(at)
    number = np.uint64(data[p]) | np.uint64(data[p + _1]) << _B1 | np.uint64(data[p + _2]) << _B2
    number |= np.uint64(data[p + _3]) << _B3
    return np.int64(swap4(number) if big else number)


@part
def load8(data, at, big):
    """Read eight bytes."""
    p = np.uint64(at)
    number = np.uint64(data[p]) | np.uint64(data[p + _1]) << _B1 | np.uint64(data[p + _2]) << _B2
    number |= np.uint64(data[p + _3]) << _B3 | np.uint64(data[p + _4]) << _B4 | np.uint64(data[p + _5]) << _B5
    number |= np.uint64(data[p + _6]) << _B6 | np.uint64(data[p + _7]) << _B7
    if big:
        number = swap4(number & _HALF) << _B4 | swap4(number >> _B4)
    return np.int64(number)


@part
def load_time(data, at, big):
    """Read a double as its bits, which order like the numbers as long as those are not negative."""
    bits = load8(data, at, big)
    return np.int64(0) if bits == MINUS_ZERO else bits


@part
def seconds_of(bits):
    """Return the number that has these bits."""
    return np.int64(bits).view(np.float64)


@part
def tick_at(bits, scale):
    """Return the bits of the whole number of ticks in a time, which may be more than an integer holds."""
    return np.float64(np.rint(seconds_of(bits) * scale)).view(np.int64)


@part
def ticks_of(bits, clock):
    """Turn the bits of a time into ticks of the trace."""
    time = seconds_of(bits)
    time = time + clock.slope * (time - clock.local) + clock.offset
    return np.int64(np.rint((time - clock.start) * clock.resolution))


@part
def exact_scale(bits, scale, scales):
    """Return the first of some scales, from `scale` on, that gives a time back exactly; their number if none does."""
    time = seconds_of(bits)
    while scale < scales.size and np.rint(time * scales[scale]) / scales[scale] != time:
        scale += 1
    return scale


# -- the walk ----------------------------------------------------------------------------------------------------------


@inner_part
def walk_plain(file, table, locations, scales, counts, notes, state):
    """Take records of known types, with a location, whose time is not before any other: almost all records.

    Whatever is unusual or wrong, or ends a group of records of one time that are to be noted, is left to those who take
    one record at a time.
    """
    data, big, length, row_of = file.data, file.big, table.length, locations.row_of
    noting = notes.offsets.size > 0
    latest, fault_at = counts.latest, counts.fault_at
    n, known = np.uint64(data.size), np.uint64(row_of.size)
    p = np.uint64(state[AT])
    before, location_before, tick_before = state[BEFORE], state[LOCATION_BEFORE], state[TICK_BEFORE]
    group, disputed = np.uint64(state[GROUP]), state[IS_DISPUTED] != 0
    total, scale, coincident = state[N_RECORDS], state[SCALE], state[COINCIDENT]
    group_first = total - state[GROUP_SIZE]
    while p + _16 <= n:
        size, code = data[p], data[p + _1]
        end = p + _2 + np.uint64(size)
        if size != length[code] or code < FIRST_EVENT or end > n:
            break
        identifier = np.uint64(load4(data, p + _2, big))
        if identifier >= known or row_of[identifier] < 0:
            break
        location = np.uint64(row_of[identifier])
        bits = load8(data, p + _6, big)
        if bits < before or bits >= IMPOSSIBLE_TIME or bits < latest[location] or fault_at[location] >= 0:
            break
        if bits != before:
            if disputed:
                break
            group, group_first = p, total
            before = bits
            if noting:
                tick = tick_at(bits, scales[0])
                coincident += tick == tick_before
                tick_before = tick
            elif scale < scales.size:
                scale = exact_scale(bits, scale, scales)
        elif np.int64(location) < location_before:
            disputed = True
        location_before = np.int64(location)
        latest[location] = bits
        total += 1
        if noting:
            free = notes.free[location]
            notes.offsets[np.uint64(free)] = np.int64(p)
            notes.free[location] = free + 1
        else:
            counts.n_records[location] += 1
            counts.n_rows[location] += table.n_rows[code]
        p = end
    state[AT] = np.int64(p)
    state[BEFORE] = state[OWN_BEFORE] = before
    state[LOCATION_BEFORE], state[TICK_BEFORE] = location_before, tick_before
    state[GROUP], state[GROUP_SIZE], state[IS_DISPUTED] = np.int64(group), total - group_first, disputed
    state[N_RECORDS], state[SCALE], state[COINCIDENT] = total, scale, coincident
    state[LAST] = max(state[LAST], before)


@part
def find_event(file, table, unknown, state):
    """Go on to the next event record, or to the end of the file; `state[HEAD]` is the first attribute before it, -1
    none."""
    data = file.data
    n, p = data.size, state[AT]
    why = END
    while p < n:
        if p + 2 > n or p + 2 + data[p] > n:
            why = RUNS_OUT
            break
        size, code = np.int64(data[p]), data[p + 1]
        known = table.length[code] >= 0
        if known and code > LAST_DEFINITION and code != ATTRIBUTE_UI1 and code != ATTRIBUTE_UI4:
            break
        if known and code > LAST_DEFINITION:
            if size != table.length[code]:
                why = BAD_LENGTH
                state[DETAIL] = size
                break
            if data[p + 2] == 0 or data[p + 2] > KNOWN_ATTRIBUTES:
                unknown[code] += 1
            if state[HEAD] < 0:
                state[HEAD] = p
        else:
            unknown[code] += 1
        p += 2 + size
    state[AT] = p
    return why


@part
def find_location(file, table, locations, state):
    """Return what is wrong with the location of a record, and its row."""
    p = state[AT]
    size, length = np.int64(file.data[p]), table.length[file.data[p + 1]]
    if size != length and size != length - 4:
        state[DETAIL] = size
        return BAD_LENGTH, np.int64(-1)
    location, identifier = np.int64(locations.default), np.int64(UNDEFINED)
    if size == length:
        identifier = load4(file.data, p + 2, file.big)
        location = np.int64(locations.row_of[identifier]) if identifier < locations.row_of.size else np.int64(-1)
    if location < 0:
        state[DETAIL] = identifier
        return NO_LOCATION, np.int64(-1)
    return END, location


@part
def note_ties(file, table, locations, counts, notes, state):
    """Note all records of one time, because their locations are not in order."""
    data = file.data
    at, k, start = state[GROUP], np.int64(0), np.int64(-1)
    while k < state[GROUP_SIZE]:
        code = data[at + 1]
        if code == ATTRIBUTE_UI1 or code == ATTRIBUTE_UI4:
            if start < 0:
                start = at
        elif code >= FIRST_EVENT and table.length[code] >= 0:
            location = np.int64(locations.default)
            if data[at] == table.length[code]:
                location = np.int64(locations.row_of[load4(data, at + 2, file.big)])
            if counts.fault_at[location] < 0 or at < counts.fault_at[location]:
                i = state[N_TIED] + k
                notes.tied_at[i] = start if start >= 0 else at
                notes.tied_place[i] = notes.first_place + k
                notes.tied_location[i] = location
                k += 1
            start = np.int64(-1)
        at += 2 + np.int64(data[at])


@kernel
def walk_records(file, table, locations, scales, state, counts, notes, unknown):
    """Go through the records of a file, to count or to note where they are.

    Parameters
    ----------
    scales : (n_scales,) float64
        When counting: ticks per second to try; `state[SCALE]` becomes the first that gives every time back exactly, or
        n_scales. When noting: the one to use.
    state : (WALK_STATE,) int64
        `state[AT]` is where to begin; zeros otherwise. Afterwards: where the walk ended and why, number of records and
        of tied ones, bits of the earliest and latest time, records whose time differs from the one before by less than
        a tick, and records earlier than the one before.
    counts : Counts
        Filled when counting; when noting, `fault_at` says where each location ends, and `latest` is used.
    unknown : (256,) int64
        Counts of record types that are not known.

    Returns
    -------
    int
        END or what is wrong.
    """
    data = file.data
    n = data.size
    noting = notes.offsets.size > 0
    state[HEAD] = state[BEFORE] = state[OWN_BEFORE] = state[LOCATION_BEFORE] = state[TICK_BEFORE] = -1
    state[GROUP] = state[AT]
    while True:
        if state[BEFORE] >= 0 and state[HEAD] < 0:
            walk_plain(file, table, locations, scales, counts, notes, state)
        why = find_event(file, table, unknown, state)
        if why != END:
            break
        p = state[AT]
        bits, own, location = np.int64(-1), np.int64(-1), np.int64(-1)
        size, code = np.int64(0), np.uint8(0)
        if p < n:
            size, code = np.int64(data[p]), data[p + 1]
            why, location = find_location(file, table, locations, state)
            if why != END:
                break
            own = load_time(data, p + 6 if size == table.length[code] else p + 2, file.big)
            if counts.fault_at[location] < 0 and (own < 0 or own >= IMPOSSIBLE_TIME):
                # the other locations go on
                counts.fault_at[location] = p
            if counts.fault_at[location] >= 0 and p >= counts.fault_at[location]:
                if not noting:
                    counts.n_lost[location] += table.n_rows[code]
                    state[N_LOST] += 1
                state[HEAD] = -1
                state[AT] = p + 2 + size
                continue
            bits = max(own, counts.latest[location])
        if own != state[OWN_BEFORE] and own >= 0 and not noting:
            state[SCALE] = exact_scale(own, state[SCALE], scales)
            if own < state[OWN_BEFORE]:
                state[DISORDER] += 1
            if state[N_RECORDS] == 0 or own < state[FIRST]:
                state[FIRST] = own
            state[LAST] = max(state[LAST], own)
        start = state[HEAD] if state[HEAD] >= 0 else p
        if bits != state[BEFORE]:
            # the records of one time are complete
            if state[IS_DISPUTED]:
                if noting:
                    note_ties(file, table, locations, counts, notes, state)
                state[N_TIED] += state[GROUP_SIZE]
            state[GROUP], state[GROUP_SIZE], state[IS_DISPUTED] = start, 0, 0
            if bits >= 0 and noting:
                tick = tick_at(bits, scales[0])
                if tick == state[TICK_BEFORE]:
                    state[COINCIDENT] += 1
                state[TICK_BEFORE] = tick
        elif location < state[LOCATION_BEFORE]:
            state[IS_DISPUTED] = 1
        if p >= n:
            break
        state[BEFORE], state[OWN_BEFORE], state[LOCATION_BEFORE] = bits, own, location
        state[GROUP_SIZE] += 1
        state[N_RECORDS] += 1
        counts.latest[location] = bits
        if noting:
            notes.offsets[notes.free[location]] = start
            notes.free[location] += 1
        else:
            counts.n_records[location] += 1
            counts.n_rows[location] += table.n_rows[code]
        state[HEAD] = -1
        state[AT] = p + 2 + size
    state[FAULT] = why
    return why


# -- the records of a location -----------------------------------------------------------------------------------------


@part
def rank_in(communicator, process, communicators):
    """Find the rank of a process in a communicator; -1 if it is not a member."""
    start = communicators.member_start
    at = place_of(process, start[communicator], start[communicator + 1], communicators.members)
    return np.int64(communicators.ranks[at] if at >= 0 else -1)


@part
def translate(value, meaning, ids):
    """Turn an identifier into a row of its table; -1 if it is not defined."""
    if value < ids.start[meaning + 1] - ids.start[meaning]:
        return ids.lut[ids.start[meaning] + value]
    return np.int64(-1)


@part
def wrong_id(meaning, value, state):
    """Keep which identifier is not defined."""
    state[WHAT] = meaning
    state[WHICH] = value
    return UNKNOWN_ID


@inner_part
def decode_calls(file, offsets, i, stop, e, depth, ids, clock, events, stack):
    """Decode ENTER and EXIT without counter values: almost all records.

    Whatever is unusual, wrong or near the end of the buffers is left to those who take one record at a time.

    Parameters
    ----------
    i, stop : int
        The record to begin with, and the first one to leave alone.
    e, depth : int
        Number of events, and of regions on the stack.

    Returns
    -------
    i, e, depth : int
        The same, after the last of them.
    """
    data, big = file.data, file.big
    regions = ids.lut[ids.start[REGION] : ids.start[REGION + 1]]
    known, deepest = np.uint64(regions.size), np.uint64(stack.size)
    room = np.uint64(max(events.time.size - MOST_EVENTS, 0))
    ahead, n_records, last = np.uint64(AHEAD_OF_USE), np.uint64(offsets.size), np.uint64(stop)
    k, n, top = np.uint64(i), np.uint64(e), np.uint64(depth)
    while k < last and n < room and top < deepest:
        if k + ahead < n_records:
            prefetch(data, offsets[k + ahead])
        p = np.uint64(offsets[k])
        # from the end of the record, which may or may not have a location
        end = p + _2 + np.uint64(data[p])
        code = data[p + _1]
        if code == ENTER:
            value = np.uint64(load4(data, end - _4, big))
            if value >= known or regions[value] < 0:
                break
            bits = load_time(data, end - _12, big)
            region = np.int32(regions[value])
            events.kind[n] = ENTER_KIND
            events.region[n] = region
            stack[top] = region
            top += _1
        elif (code == EXIT or code == OMP_COLLEXIT) and top > np.uint64(0):
            bits = load_time(data, end - _8, big)
            top -= _1
            events.kind[n] = EXIT_KIND
            events.region[n] = stack[top]
        else:
            break
        events.time[n] = ticks_of(bits, clock)
        n += _1
        k += _1
    return np.int64(k), np.int64(n), np.int64(top)


@inner_part
def decode_attributes(file, p, table, attributes, state):
    """Decode the attributes before an event.

    Returns
    -------
    why : int
        END or BUFFERS_FULL.
    p : int
        Where the event is.
    n : int
        Attributes that are kept; the event they belong to is not known yet.
    request : int
        The one that is not kept; -1 none.
    """
    data = file.data
    n, request = np.int64(0), np.int64(-1)
    # what is not understood may be between an attribute and its event
    while data[p + 1] < FIRST_EVENT or table.length[data[p + 1]] < 0:
        code = data[p + 1]
        if code == ATTRIBUTE_UI1 or code == ATTRIBUTE_UI4:
            name = data[p + 2]
            value = np.int64(data[p + 3]) if code == ATTRIBUTE_UI1 else load4(data, p + 3, file.big)
            if name == REQUEST:
                request = value
            elif 0 < name <= KNOWN_ATTRIBUTES:
                a = state[ATTRIBUTES] + n
                if a >= attributes.event.size:
                    return BUFFERS_FULL, p, n, request
                attributes.name[a] = name
                attributes.record[a] = code
                attributes.value[a] = value
                n += 1
        p += 2 + np.int64(data[p])
    return END, p, n, request


@part
def decode_counters(file, at, n_counters, event, sides, extra, state):
    """Decode counter values into a METRIC, the next row of `sides`."""
    s, x = state[SIDES], state[EXTRAS]
    sides.event[s] = event
    sides.kind[s] = METRIC
    sides.values[s, 0] = 0
    sides.values[s, 1] = n_counters
    sides.values[s, 2] = x
    for k in range(n_counters):
        extra[x + k] = load8(file.data, at + 8 * k, file.big)


@inner_part
def decode_fields(file, q, code, s, table, ids, communicators, sides, state):
    """Decode the declared fields of an event into a row of `sides`.

    Returns
    -------
    why : int
        END or UNKNOWN_ID.
    communicator : int
        The one that partners are members of; -1 none.
    absent : int
        Meaning of the field that should have named it and does not; -1 if there is none.
    """
    data, values = file.data, sides.values
    communicator, absent = np.int64(-1), np.int64(-1)
    for k in range(N_VALUES):
        values[s, k] = -1
    for k in range(table.n_fields[code]):
        meaning, place = np.int64(table.meanings[code, k]), table.places[code, k]
        if meaning == FLAG:
            values[s, place] = data[q]
            q += 1
            continue
        if meaning == LOCK_TYPE:
            # here 0 is shared, in the store 0 is exclusive
            values[s, place] = 1 - min(np.int64(data[q]), 1)
            q += 1
            continue
        raw = load4(data, q, file.big)
        q += 4
        if raw == UNDEFINED and meaning != PLAIN:
            if meaning == REGION or meaning == SITE:
                return wrong_id(meaning, raw, state), communicator, absent
            if meaning == COMM or meaning == WINDOW:
                absent = meaning
            continue
        if meaning == PLAIN or (meaning == PEER and communicators.peers_are_ranks):
            values[s, place] = raw
            continue
        row = translate(raw, meaning, ids)
        if row < 0:
            return wrong_id(meaning, raw, state), communicator, absent
        values[s, place] = row
        if meaning == COMM:
            communicator = row
        elif meaning == WINDOW:
            communicator = communicators.of_window[row]
            if communicator < 0:
                absent = np.int64(COMM)
    return END, communicator, absent


@inner_part
def rank_partners(code, s, communicator, absent, table, communicators, sides, state):
    """Turn the partners in a row of `sides` into ranks of the communicator, or into processes where there is none."""
    values = sides.values
    for k in range(table.n_fields[code]):
        place = table.places[code, k]
        if table.meanings[code, k] != PEER or values[s, place] < 0:
            continue
        partner = values[s, place]
        if communicator < 0:
            if absent >= 0:
                # a partner in no communicator
                return wrong_id(absent, UNDEFINED, state)
            # SHMEM knows processes only
            if not communicators.peers_are_ranks:
                values[s, place] = communicators.process_of[partner]
        elif communicators.peers_are_ranks:
            # SELF lists no members and has one
            start, stop = communicators.member_start[communicator], communicators.member_start[communicator + 1]
            if partner >= max(stop - start, 1):
                state[WHICH] = partner
                return NO_RANK
        else:
            rank = rank_in(communicator, communicators.process_of[partner], communicators)
            if rank < 0:
                state[WHICH] = partner
                return NO_MEMBER
            values[s, place] = rank
    return END


@inner_part
def complete_values(kind, code, s, top, request, regions, sides):
    """Fill the values of an event that no field holds; return its kind, which may depend on them."""
    values = sides.values
    if kind == SEND or kind == RECV:
        values[s, REQUEST_OF_MESSAGE] = request
        if kind == RECV:
            values[s, LENGTH_OF_MESSAGE] = -1
        if request >= 0:
            return ISEND if kind == SEND else IRECV
    elif kind == COLLECTIVE_END:
        values[s, OP_OF_COLLECTIVE] = regions.op[top]
    elif kind == RMA_COLLECTIVE_END:
        values[s, OP_OF_WINDOW] = regions.window_op[top]
    elif kind == ON_OFF:
        values[s, MODE] = MODE_OFF if code == LOG_OFF else MODE_ON
    return kind


@inner_part
def has_room(e, depth, n_counters, filled, state):
    """Return whether whatever one record becomes fits into the buffers, but for its attributes."""
    return (
        e + MOST_EVENTS < filled.events.time.size
        and state[SIDES] + MOST_EVENTS <= filled.sides.event.size
        and state[EXTRAS] + n_counters <= filled.extra.size
        and state[SITES] < filled.sites.site.size
        and state[TIES] + MOST_EVENTS <= filled.ties.event.size
        and depth < filled.stack.size
    )


@inner_part
def put_event(e, time, kind, region, events):
    """Put an event after the others."""
    events.time[e] = time
    events.kind[e] = kind
    events.region[e] = region


@kernel
def decode_records(file, here, state, meanings, filled):
    """Decode records of one location into columns.

    Parameters
    ----------
    file : File
    here : LocationRecords
    state : (DECODE_STATE,) int64
        Carried from call to call; `state[RECORD]` is the record to go on with.
    meanings : Meanings
    filled : Buffers

    Returns
    -------
    int
        END, BUFFERS_FULL, or what is wrong with record `state[RECORD]`, of which nothing is kept then.
    """
    table, ids, communicators, regions, clock, n_counters = meanings
    events, sides, extra, sites, attributes, ties, stack = filled
    data, offsets = file.data, here.offsets
    why = END
    i, e, depth, base = state[RECORD], state[EVENTS], state[DEPTH], state[BASE]
    while True:
        tied = here.tied[state[TIE]] if state[TIE] < here.tied.size else np.int64(offsets.size)
        if n_counters == 0:
            i, e, depth = decode_calls(file, offsets, i, tied, e, depth, ids, clock, events, stack)
        if i >= offsets.size:
            break
        if not has_room(e, depth, n_counters, filled, state):
            why = BUFFERS_FULL
            break
        why, p, n_attributes, request = decode_attributes(file, offsets[i], table, attributes, state)
        if why != END:
            break
        code = data[p + 1]
        q = p + 6 if data[p] == table.length[code] else p + 2
        time = ticks_of(load_time(data, q, file.big), clock)
        q += 8
        first, s = e, state[SIDES]
        counted = n_counters > 0 and table.counters[code] != 0
        if counted:
            # values ahead of the fields, or after the one field there is
            is_ahead = table.counters[code] == AHEAD
            decode_counters(file, q if is_ahead else q + 4, n_counters, base + e, sides, extra, state)
            if is_ahead:
                q += 8 * n_counters
            s += 1
        why, communicator, absent = decode_fields(file, q, code, s, table, ids, communicators, sides, state)
        if why == END:
            why = rank_partners(code, s, communicator, absent, table, communicators, sides, state)
        if why != END:
            break

        # nothing is wrong with it
        if counted:
            put_event(e, time, METRIC, -1, events)
            state[EXTRAS] += n_counters
            e += 1
        kind = np.int64(table.kinds[code])
        top = np.int64(stack[depth - 1]) if depth > 0 else np.int64(-1)
        entered, leaves = np.int64(-1), kind == EXIT_KIND or table.leaves[code] != 0
        region = entered
        if kind == ENTER_KIND:
            entered = sides.values[s, 0]
            if code == ENTER_TRACING:
                entered = np.int64(regions.tracing)
            elif code == ENTER_CS:
                sites.event[state[SITES]] = base + e
                sites.site[state[SITES]] = entered
                state[SITES] += 1
                entered = np.int64(regions.callee[entered])
            region = entered
        elif kind == EXIT_KIND:
            region = top
        else:
            kind = complete_values(kind, code, s, top, request, regions, sides)
            if code == LOG_OFF:
                entered = region = np.int64(regions.off)
            elif kind == ON_OFF:
                leaves = True
            sides.event[s] = base + e
            sides.kind[s] = kind
            s += 1
        state[SIDES] = s
        put_event(e, time, kind, region, events)
        for k in range(n_attributes):
            attributes.event[state[ATTRIBUTES] + k] = base + e
        state[ATTRIBUTES] += n_attributes
        e += 1
        if table.leaves[code]:
            put_event(e, time, EXIT_KIND, top, events)
            e += 1
        if entered >= 0:
            stack[depth] = entered
            depth += 1
        elif leaves and depth > 0:
            depth -= 1
        if tied == i:
            for k in range(first, e):
                ties.event[state[TIES]] = base + k
                ties.place[state[TIES]] = here.place[state[TIE]]
                state[TIES] += 1
            state[TIE] += 1
        i += 1
    state[RECORD], state[EVENTS], state[DEPTH] = i, e, depth
    return why
