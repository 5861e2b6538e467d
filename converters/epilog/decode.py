"""Decode EPILOG records: one walk through a file finds every location's records, then each location is decoded by
itself.

A merged trace holds the events of all locations in one sequence. `walk_records` goes through it twice: it first counts,
then notes where the records of each location are. `decode_records` turns the records of one location into columns.

Both have an inner loop for the common case: `walk_plain` handles records of known types that have a location and are in
order of time; `decode_calls` handles ENTER and EXIT. All other records are handled one at a time, with functions for
attributes (`decode_attributes`), counter values (`decode_counters`) and declared fields (`decode_fields`,
`rank_partners`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.buffers import N_VALUES, Attributes, Events, Sides, put_event
from tracecols.converters.epilog import records
from tracecols.converters.epilog.records import AHEAD, COMM, FLAG, LOCK_TYPE, PEER, PLAIN, REGION, REQUEST, SITE, WINDOW
from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.kernels.ordered import place_of
from tracecols.kernels.prefetch import prefetch
from tracecols.schema.kinds import EventKind

# state of the walk: its position, its results, and what it remembers of earlier records
(
    AT, N_RECORDS, N_LOST, N_TIED, FAULT, DETAIL, FIRST, LAST, SCALE, COINCIDENT, DISORDER, HEAD, BEFORE, OWN_BEFORE,
    LOCATION_BEFORE, TICK_BEFORE, GROUP, GROUP_SIZE, IS_DISPUTED, WALK_STATE,
) = range(20)  # fmt: skip

# status of a walk or a decoding
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

# event kinds that records become
(
    METRIC, ENTER_KIND, EXIT_KIND, SEND, ISEND, RECV, IRECV, COLLECTIVE_END, RMA_COLLECTIVE_END, ON_OFF,
) = (
    int(kind)
    for kind in (
        EventKind.METRIC, EventKind.ENTER, EventKind.EXIT, EventKind.MPI_SEND, EventKind.MPI_ISEND, EventKind.MPI_RECV,
        EventKind.MPI_IRECV, EventKind.MPI_COLLECTIVE_END, EventKind.RMA_COLLECTIVE_END, EventKind.MEASUREMENT_ON_OFF,
    )
)  # fmt: skip

# positions of the values that no field fills, see `archive.COLUMNS`
LENGTH_OF_MESSAGE, REQUEST_OF_MESSAGE, OP_OF_COLLECTIVE, OP_OF_WINDOW, MODE = 3, 4, 4, 1, 0
MODE_ON, MODE_OFF = 1, 2

UNDEFINED = 0xFFFFFFFF
KNOWN_ATTRIBUTES = len(records.ATTRIBUTES)
IMPOSSIBLE_TIME = 0x4270000000000000
"""The bits of 2**40 s, 35,000 years; those of infinity and NaN are larger."""
MINUS_ZERO = -0x8000000000000000
"""The bits of -0."""
AHEAD_OF_USE = 24
"""Prefetch distance in records: those of one location are spread over a merged file, and memory latency dominates."""

MOST_FIELDS = 4
MOST_EVENTS = 3
"""Upper bound for the events a record becomes: METRIC, its own event, EXIT."""


class File(NamedTuple):
    """A file."""

    data: NDArray[np.uint8]
    """(n,): bytes of the file."""
    big: bool
    """Byte order."""


class RecordTables(NamedTuple):
    """Layout of records and the events they become, by record type."""

    length: NDArray[np.int64]
    """(256,): bytes of the body with a location; -1 for unknown types."""
    n_rows: NDArray[np.int64]
    """(256,): number of events a record becomes."""
    n_fields: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    """`n_fields` and `kinds`: (256,), number of fields; kind of the event that holds them."""
    leaves: NDArray[np.uint8]
    """(256,): 1 if an EXIT follows."""
    counters: NDArray[np.uint8]
    """(256,): position of the counter values, 0 if there are none."""
    meanings: NDArray[np.uint8]
    places: NDArray[np.uint8]
    """`meanings` and `places`: (256, MOST_FIELDS), meaning of each field, and its index among the event's values."""


class LocationRows(NamedTuple):
    """Rows of locations."""

    row_of: NDArray[np.int32]
    """(any,): by identifier, -1 undefined."""
    default: int
    """Row for records without location; -1 none."""


class Counts(NamedTuple):
    """Counts of a walk, by location."""

    n_records: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    """`n_records` and `n_rows`: (n_locations,), records and events before the first record with an impossible time."""
    n_lost: NDArray[np.int64]
    """(n_locations,): events from that record on."""
    fault_at: NDArray[np.int64]
    """(n_locations,): offset of that record; -1 if there is none."""
    latest: NDArray[np.int64]
    """(n_locations,): bits of the latest time, initially zero."""


class Notes(NamedTuple):
    """Offsets and tie orders noted by a walk."""

    offsets: NDArray[np.int64]
    """(n_records,): offset of each record and its attributes, by location. If it is empty, the walk only counts."""
    free: NDArray[np.int64]
    """(n_locations,): next free element of each location."""
    tied_at: NDArray[np.int64]
    tied_location: NDArray[np.int64]
    tied_place: NDArray[np.int64]
    """`tied_at`, `tied_location` and `tied_place`: (n_tied,), offset, location and place of all records of a time at
    which the order in the file is not that of the locations. If a record is earlier than a previous one of its
    location, it counts as one of that previous time: it keeps its place in the file."""
    first_place: int
    """Place of the first record of a time."""


class LocationRecords(NamedTuple):
    """The records of one location."""

    offsets: NDArray[np.int64]
    """(n,): offset of each record, attributes included."""
    tied: NDArray[np.int64]
    place: NDArray[np.int64]
    """`tied` and `place`: (n_tied,), indices of the records with an explicit tie order, and their places."""


class Identifiers(NamedTuple):
    """Lookup tables from identifier to row, -1 undefined, for each meaning."""

    lut: NDArray[np.int64]
    """(any,): the tables, concatenated."""
    start: NDArray[np.int64]
    """(n_meanings + 1,): start of each table."""


class Communicators(NamedTuple):
    """Communicators and their members."""

    peers_are_ranks: bool
    """Whether PEER fields are ranks already."""
    process_of: NDArray[np.int64]
    """(n_locations,): process of each location."""
    of_window: NDArray[np.int64]
    """(any,): the communicator of each window; -1 none."""
    member_start: NDArray[np.int64]
    """(n_communicators + 1,): start of each communicator's members."""
    members: NDArray[np.int64]
    ranks: NDArray[np.int64]
    """`members` and `ranks`: (any,), processes in ascending order and the rank of each."""


class Regions(NamedTuple):
    """Regions that records enter, and the operations of regions."""

    callee: NDArray[np.int32]
    """(n_sites,): region each call site enters."""
    op: NDArray[np.int64]
    window_op: NDArray[np.int64]
    """`op` and `window_op`: (n_regions + 1,), collective operation of each region; the last is for no region."""
    off: int
    tracing: int
    """`off` and `tracing`: regions that LOG_OFF and ENTER_TRACING enter."""


class Clock(NamedTuple):
    """Conversion of the times of a file to ticks of the trace."""

    local: float
    offset: float
    slope: float
    """`local`, `offset` and `slope`: added to a time are `offset`, and `slope` for each second since `local`."""
    start: float
    """The time that becomes 0."""
    resolution: float
    """Ticks per second."""


class Numbers(NamedTuple):
    """Buffers of numbers that some events have; how many are filled is in the state."""

    event: NDArray[np.int64]
    number: NDArray[np.int64]
    """`event` and `number`: (capacity,), number of the event in its location, and its number."""


class Meanings(NamedTuple):
    """Tables that interpret the records of one location."""

    table: RecordTables
    ids: Identifiers
    communicators: Communicators
    regions: Regions
    clock: Clock
    n_counters: int
    """Number of counter values per record that has any."""


class Buffers(NamedTuple):
    """Output buffers of one thread, reused from location to location."""

    events: Events
    sides: Sides
    extra: NDArray[np.int64]
    """(capacity,): counter values."""
    sites: Numbers
    """Rows of the call sites of ENTER events."""
    attributes: Attributes
    ties: Numbers
    """Places of events with an explicit tie order."""
    stack: NDArray[np.int32]
    """(capacity,): regions entered; `state[DEPTH]` of them."""


# -- numbers and times -------------------------------------------------------------------------------------------------

_1, _2, _3, _4, _5, _6, _7, _8, _12, _16 = (np.uint64(i) for i in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16))
_B1, _B2, _B3, _B4, _B5, _B6, _B7 = (np.uint64(8 * i) for i in range(1, 8))
_HALF, _EVEN, _LOW = np.uint64(0xFFFFFFFF), np.uint64(0x00FF00FF), np.uint64(0x0000FFFF)


@part
def swap4(number):
    """Reverse the lower four bytes of an unsigned number of eight bytes."""
    halves = (number & _EVEN) << _B1 | number >> _B1 & _EVEN
    return (halves & _LOW) << _B2 | halves >> _B2


@part
def load4(data, at, big):
    """Read four bytes as an unsigned integer."""
    # unsigned indices avoid the check for negative ones. Compiled, the bytes of a little-endian number become one load,
    # unless they are also used in a second sum
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
    """Read the bits of a double; bits of non-negative numbers are ordered like the numbers."""
    bits = load8(data, at, big)
    return np.int64(0) if bits == MINUS_ZERO else bits


@part
def seconds_of(bits):
    """Return the double with the given bits."""
    return np.int64(bits).view(np.float64)


@part
def tick_at(bits, scale):
    """Round a time to ticks; return the bits of the result as a double, since it may exceed the range of int64."""
    return np.float64(np.rint(seconds_of(bits) * scale)).view(np.int64)


@part
def ticks_of(bits, clock):
    """Turn the bits of a time into ticks of the trace."""
    time = seconds_of(bits)
    time = time + clock.slope * (time - clock.local) + clock.offset
    return np.int64(np.rint((time - clock.start) * clock.resolution))


@part
def exact_scale(bits, scale, scales):
    """Return the index of the first scale, from `scale` on, that reproduces a time exactly; `scales.size` if none."""
    time = seconds_of(bits)
    while scale < scales.size and np.rint(time * scales[scale]) / scales[scale] != time:
        scale += 1
    return scale


# -- the walk ----------------------------------------------------------------------------------------------------------


@inner_part
def walk_plain(file, table, locations, scales, counts, notes, state):
    """Process records of known types that have a location and are in order of time: almost all records.

    Stop at any unusual or wrong record, and at the end of a group of records of one time that are to be noted: the
    caller processes those one at a time.
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
    """Advance to the next event record or the end; `state[HEAD]` is the first attribute before it, -1 none."""
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
    """Find the location of a record; return END or the error, and the row of the location."""
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
    """Note all records of one time whose locations are not in order."""
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
    """Walk through the records of a file, and count them or note their offsets.

    Parameters
    ----------
    scales : (n_scales,) float64
        When counting: ticks per second to try; `state[SCALE]` becomes the index of the first that reproduces every time
        exactly, or n_scales. When noting: the one to use.
    state : (WALK_STATE,) int64
        `state[AT]` is the offset to begin at; zeros otherwise. Afterwards: where the walk ended and why, number of
        records and of tied records, bits of the earliest and latest time, records whose time differs from that of the
        previous record by less than a tick, and records earlier than the previous one.
    counts : Counts
        Filled when counting; when noting, `fault_at` is the end of each location, and `latest` is updated.
    unknown : (256,) int64
        Number of records of unknown types, by type.

    Returns
    -------
    int
        END or the error.
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
                # the other locations continue
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
    """Record an undefined identifier in the state, and return UNKNOWN_ID."""
    state[WHAT] = meaning
    state[WHICH] = value
    return UNKNOWN_ID


@inner_part
def decode_calls(file, offsets, i, stop, e, depth, ids, clock, events, stack):
    """Decode ENTER and EXIT without counter values: almost all records.

    Stop at any unusual or wrong record, and near the end of the buffers: the caller decodes those one at a time.

    Parameters
    ----------
    i, stop : int
        First record to decode, and the first one not to decode.
    e, depth : int
        Number of events, and of regions on the stack.

    Returns
    -------
    i, e, depth : int
        The values after the last decoded record.
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
        # fields are addressed from the end of the record, which may or may not have a location
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
        Offset of the event.
    n : int
        Number of attributes kept; their events are not filled in yet.
    request : int
        Value of the request attribute, which is not kept; -1 none.
    """
    data = file.data
    n, request = np.int64(0), np.int64(-1)
    # unknown records may lie between an attribute and its event
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
                attributes.attribute[a] = name
                attributes.type[a] = code
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
        The communicator of the partners; -1 none.
    absent : int
        Meaning of the field that should name the communicator but is undefined; -1 if there is none.
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
    """Turn the partners in a row of `sides` into ranks of the communicator, or into processes if there is none."""
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
    """Return whether everything one record becomes, except its attributes, fits into the buffers."""
    return (
        e + MOST_EVENTS < filled.events.time.size
        and state[SIDES] + MOST_EVENTS <= filled.sides.event.size
        and state[EXTRAS] + n_counters <= filled.extra.size
        and state[SITES] < filled.sites.event.size
        and state[TIES] + MOST_EVENTS <= filled.ties.event.size
        and depth < filled.stack.size
    )


@kernel
def decode_records(file, here, state, meanings, filled):
    """Decode records of one location into columns.

    Parameters
    ----------
    file : File
    here : LocationRecords
    state : (DECODE_STATE,) int64
        Carried from call to call; `state[RECORD]` is the next record to decode.
    meanings : Meanings
    filled : Buffers

    Returns
    -------
    int
        END, BUFFERS_FULL, or the error in record `state[RECORD]`, of which nothing is kept then.
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
            # counter values precede the fields, or follow the only field
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

        # the record is valid
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
                sites.number[state[SITES]] = entered
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
                ties.number[state[TIES]] = here.place[state[TIE]]
                state[TIES] += 1
            state[TIE] += 1
        i += 1
    state[RECORD], state[EVENTS], state[DEPTH] = i, e, depth
    return why
