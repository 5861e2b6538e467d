"""Decode OTF2 chunks: event records into columns, definition records into flat values.

One call decodes one chunk in memory, which is followed by 64 bytes of padding, so that every load of a field stays in
bounds with one check per record. All state that outlives a chunk is in `state`. If a column buffer is full, the call
returns at a record boundary; the caller empties the buffers and calls again.

`decode_events` takes one record after the other and has one function for each kind. Almost all are time stamps, ENTER
and LEAVE, which `decode_calls` decodes in its inner loop; then there are attribute lists (`decode_attributes`), and
records with declared fields (`decode_fields`), some followed by values (`decode_metric_values`, `decode_arguments`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.buffers import N_VALUES, Attributes, Events, Sides, put_event
from tracecols.converters.otf2.records import MAPS
from tracecols.kernels.kernel import inner_part, kernel, part
from tracecols.kernels.ordered import place_of
from tracecols.schema.kinds import EventKind

PADDING = 64

# state that the decoding of a location carries from call to call
(
    POSITION, EVENTS, SIDES, EXTRAS, ATTRIBUTES, BASE, CHUNK_EVENTS, RAW_TIME, TIME, INTERVAL, FAULT, FAULT_DETAIL,
    FLUSH, N_STATE,
) = range(14)  # fmt: skip

# status of a call
(
    END_OF_CHUNK, END_OF_FILE, BUFFERS_FULL, RUNS_OUT, BAD_LENGTH, BAD_INTEGER, BAD_TIME, BAD_RECORD, UNKNOWN_ID,
    NO_TIME, NO_EVENT, BAD_METRIC, GOES_ON,
) = range(13)  # fmt: skip

# types of fields
U8, C32, C64, S64, TS, F64, STR, U8S, C32S, C64S, IDMAP, VALUE = range(12)

# types of numeric attribute values; larger types are references, which are compressed numbers
UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT, DOUBLE = range(1, 11)
LOCATION_REFERENCE, LAST_TYPE = 13, 25

# record types other than events; the types of events are their kinds
CHUNK_ENDS, FILE_ENDS, TIME_STAMP, ATTRIBUTE_LIST, FIRST_EVENT = 0, 2, 5, 6, 10
ENTER, LEAVE = int(EventKind.ENTER), int(EventKind.EXIT)
BUFFER_FLUSH, METRIC, PROGRAM_BEGIN = (
    int(k) for k in (EventKind.BUFFER_FLUSH, EventKind.METRIC, EventKind.PROGRAM_BEGIN)
)
UNKNOWN_KIND = int(EventKind.UNKNOWN)
UNKNOWN_RECORD = 255
"""Stored instead of the number of fields for unknown record types."""

NO_MAP = 255
STRINGS, ATTRIBUTE_NAMES, REGIONS = (MAPS.index(m) for m in ("STRING", "ATTRIBUTE", "REGION"))

NULL32 = 0xFFFFFFFF
"""An undefined identifier, which is written as a size of 255."""
UNDEFINED_SIZE = 255

FLUSH_ROOM = 64
"""Events that must fit into the buffers at a BUFFER_FLUSH, which may be moved after the next ENTER or LEAVE."""
MOST_VALUES = 255
"""Maximum number of values of a METRIC."""


class Chunk(NamedTuple):
    """A chunk of a file."""

    buffer: NDArray[np.uint8]
    """(n + PADDING,): the chunk, header included, and padding."""
    n: int
    """Bytes of the chunk."""
    big: bool
    """Byte order."""


class EventTables(NamedTuple):
    """The fields of event records, by record type."""

    has_length: NDArray[np.uint8]
    n_fields: NDArray[np.uint8]
    """`has_length` and `n_fields`: (256,), whether a record states its length; number of fields, UNKNOWN_RECORD for
    unknown types."""
    field_type: NDArray[np.uint8]
    field_map: NDArray[np.uint8]
    """`field_type` and `field_map`: (256, 8), types and identifier maps of the fields; NO_MAP none."""
    value_map: NDArray[np.uint8]
    """(256,): identifier map of an attribute value, by its type."""


class Identifiers(NamedTuple):
    """Maps from local identifier to row, -2 undefined: a table for small identifiers, sorted keys for others."""

    lut: NDArray[np.int64]
    """(any,): the tables, concatenated."""
    lut_start: NDArray[np.int64]
    lut_size: NDArray[np.int64]
    """`lut_start` and `lut_size`: (n_maps,), start and size of each table."""
    keys: NDArray[np.int64]
    targets: NDArray[np.int64]
    """`keys` and `targets`: (any,), identifiers in ascending order for each map, and their rows."""
    key_start: NDArray[np.int64]
    """(n_maps + 1,): start of each map's keys."""


class MetricValues(NamedTuple):
    """Types of the values of each metric class or instance."""

    start: NDArray[np.int64]
    """(n_sources + 1,): start of each one's values in `is_float`."""
    is_float: NDArray[np.uint8]
    """(n_values,)"""


class Clock(NamedTuple):
    """Clock offset intervals in order of time; empty without correction.

    Attributes
    ----------
    since, until : (n,) int64
        Ticks at which each interval begins and ends.
    offset : (n,) int64
        Ticks to add at the beginning of each.
    slope : (n,) float64
        Increase of the offset per tick.
    """

    since: NDArray[np.int64]
    offset: NDArray[np.int64]
    slope: NDArray[np.float64]
    until: NDArray[np.int64]


class Meanings(NamedTuple):
    """Tables that interpret the records of one location."""

    table: EventTables
    ids: Identifiers
    metrics: MetricValues
    clock: Clock


class Buffers(NamedTuple):
    """Output buffers, reused from location to location."""

    events: Events
    """One entry per event."""
    sides: Sides
    """One entry per event with attributes."""
    extra: NDArray[np.int64]
    """(capacity,): metric values and program arguments."""
    attributes: Attributes
    """One entry per attribute of an attribute list."""


# -- numbers, identifiers, times ---------------------------------------------------------------------------------------

_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(i) for i in range(1, 9))
_16, _24, _32, _40, _48, _56 = (np.uint64(8 * i) for i in range(2, 8))


@part
def load(buffer, at, size, big):
    """Read `size` bytes as an unsigned integer in the file's byte order."""
    # load eight bytes at once, which the padding allows, and shift out the others. Unsigned indices avoid the check for
    # negative ones; each shift is done in halves because 64 is too much for one
    p = np.uint64(at)
    b0, b1 = np.uint64(buffer[p]), np.uint64(buffer[p + _1])
    b2, b3 = np.uint64(buffer[p + _2]), np.uint64(buffer[p + _3])
    b4, b5 = np.uint64(buffer[p + _4]), np.uint64(buffer[p + _5])
    b6, b7 = np.uint64(buffer[p + _6]), np.uint64(buffer[p + _7])
    half = np.uint64(32 - 4 * size)
    if big:
        value = b0 << _56 | b1 << _48 | b2 << _40 | b3 << _32 | b4 << _24 | b5 << _16 | b6 << _8 | b7
    else:
        value = b7 << _56 | b6 << _48 | b5 << _40 | b4 << _32 | b3 << _24 | b2 << _16 | b1 << _8 | b0
        value = value << half << half
    return np.int64(value >> half >> half)


@part
def load8(buffer, at, big):
    """Read eight bytes in the file's byte order."""
    return load(buffer, at, np.int64(8), big)


@part
def load_number(chunk, at, most, undefined):
    """Read a compressed number: its size, at most `most`, then that many bytes; return the position after it, -1 if
    the size is larger, and the number."""
    size = np.int64(chunk.buffer[at])
    if size == UNDEFINED_SIZE:
        return at + 1, np.int64(undefined)
    if size > most:
        return np.int64(-1), np.int64(0)
    return at + 1 + size, load(chunk.buffer, at + 1, size, chunk.big)


@part
def translate(value, which, ids):
    """Turn a local identifier into a row of its table; -2 if it is not defined."""
    if value == NULL32 or value == -1:
        return np.int64(-1)
    if 0 <= value < ids.lut_size[which]:
        return ids.lut[ids.lut_start[which] + value]
    at = place_of(value, ids.key_start[which], ids.key_start[which + 1], ids.keys)
    return np.int64(ids.targets[at] if at >= 0 else -2)


@part
def unknown_id(value, which, state):
    """Record an undefined identifier in the state, and return UNKNOWN_ID."""
    state[FAULT_DETAIL] = (value << 8) | which
    return UNKNOWN_ID


@part
def interval_of(raw, interval, clock):
    """Find the clock offset interval of a time stamp, starting the search at `interval`; 0 without correction."""
    while interval > 0 and raw <= clock.until[interval - 1]:
        interval -= 1
    while interval < clock.until.size - 1 and raw > clock.until[interval]:
        interval += 1
    return interval


@part
def correct(raw, interval, clock):
    """Apply the clock offset of an interval, or of a later one, to a time stamp (OTF2 ClockOffset)."""
    if clock.since.size == 0:
        return raw
    while interval < clock.until.size - 1 and raw > clock.until[interval]:
        interval += 1
    return raw + clock.offset[interval] + np.int64(np.rint(clock.slope[interval] * (raw - clock.since[interval])))


# -- records -----------------------------------------------------------------------------------------------------------


@inner_part
def decode_calls(chunk, q, e, raw, now, interval, ids, clock, events):
    """Decode ENTER and LEAVE of regions with small identifiers, and time stamps between them: almost all records.

    Stop at any unusual or wrong record, and near the end of chunk or buffers: the caller decodes those one at a time.

    Parameters
    ----------
    q, e : int
        Position in the chunk, and number of events.

    Returns
    -------
    q, e, raw, now : int
        The values after the last decoded record.
    """
    buffer = chunk.buffer
    # unsigned indices avoid the check for negative ones
    safe = np.uint64(0 if chunk.big else max(chunk.n - 15, 0))
    room, known = np.uint64(events.time.size), np.uint64(ids.lut_size[REGIONS])
    regions = ids.lut[ids.lut_start[REGIONS] : ids.lut_start[REGIONS] + ids.lut_size[REGIONS]]
    corrected = clock.since.size > 0
    since, shift, slope, limit = np.int64(0), np.int64(0), 0.0, np.int64(0x7FFFFFFFFFFFFFFF)
    if corrected:
        since, shift, slope = clock.since[interval], clock.offset[interval], clock.slope[interval]
        if interval < clock.since.size - 1:
            limit = clock.until[interval]
    p, n = np.uint64(q), np.uint64(e)
    while p < safe and n < room:
        code = buffer[p]
        if code == TIME_STAMP:
            stamp = np.int64(
                np.uint64(buffer[p + _1])
                | np.uint64(buffer[p + _2]) << _8
                | np.uint64(buffer[p + _3]) << _16
                | np.uint64(buffer[p + _4]) << _24
                | np.uint64(buffer[p + _5]) << _32
                | np.uint64(buffer[p + _6]) << _40
                | np.uint64(buffer[p + _7]) << _48
                | np.uint64(buffer[p + _8]) << _56
            )
            if stamp < raw or stamp > limit:
                break
            shifted = stamp
            if corrected:
                shifted = stamp + shift + np.int64(np.rint(slope * (stamp - since)))
                if shifted < now:
                    break
            raw = stamp
            now = shifted
            p += np.uint64(9)
            code = buffer[p]
        if code != ENTER and code != LEAVE:
            break
        size = buffer[p + _1]
        value = np.uint64(buffer[p + _2])
        if size == 2:
            value |= np.uint64(buffer[p + _3]) << _8
        elif size != 1:
            break
        if value >= known:
            break
        row = regions[value]
        if row < 0:
            break
        events.time[n] = now
        events.kind[n] = code
        events.region[n] = row
        n += _1
        p += _2 + np.uint64(size)
    return np.int64(p), np.int64(n), raw, now


@part
def decode_region(chunk, q, ids, state):
    """Decode the region of one ENTER or LEAVE; return the status, the position after it, and the row."""
    at, value = load_number(chunk, q + 1, np.int64(4), np.int64(NULL32))
    if at < 0:
        return BAD_INTEGER, q, np.int64(-1)
    if at > chunk.n:
        return RUNS_OUT, q, np.int64(-1)
    row = translate(value, np.int64(REGIONS), ids)
    if row < 0:
        return unknown_id(value, np.int64(REGIONS), state), q, row
    return GOES_ON, at, row


@part
def decode_length(chunk, q, state):
    """Decode the length of a record; return the status, and the positions where its fields begin and where it ends."""
    length = np.int64(chunk.buffer[q])
    q += 1
    if length == 255:
        length = load8(chunk.buffer, q, chunk.big)
        q += 8
    if length < 0 or q > chunk.n or length > chunk.n - q:
        state[FAULT_DETAIL] = length
        return BAD_LENGTH, q, q
    return GOES_ON, q, q + length


@part
def decode_value(chunk, q, of):
    """Decode the value of an attribute; return the position after it, -1 if it does not fit its type, and the value."""
    buffer, big = chunk.buffer, chunk.big
    if of == UINT8 or of == INT8:
        value = np.int64(buffer[q])
        return q + 1, value - 256 if of == INT8 and value > 127 else value
    if of == UINT16 or of == INT16:
        value = load(buffer, q, np.int64(2), big)
        return q + 2, value - 65536 if of == INT16 and value > 32767 else value
    if of == FLOAT:
        return q + 4, load(buffer, q, np.int64(4), big)
    if of == DOUBLE:
        return q + 8, load8(buffer, q, big)
    if of == 0 or of > LAST_TYPE:
        return np.int64(-1), np.int64(0)
    if of == UINT64 or of == INT64 or of == LOCATION_REFERENCE:
        return load_number(chunk, q, np.int64(8), np.int64(-1))
    q, value = load_number(chunk, q, np.int64(4), np.int64(NULL32))
    return q, value - 0x100000000 if of == INT32 and value > 0x7FFFFFFF else value


@part
def decode_attributes(chunk, q, end, event, table, ids, attributes, state):
    """Decode the attributes of a list, which belong to the event that follows; return the status."""
    size = np.int64(chunk.buffer[q])
    if size > 4:
        return BAD_INTEGER
    count = load(chunk.buffer, q + 1, size, chunk.big)
    q += 1 + size
    if count > end - q:
        state[FAULT_DETAIL] = count
        return BAD_LENGTH
    first = state[ATTRIBUTES]
    if first + count > attributes.event.size:
        state[FAULT_DETAIL] = count
        return BUFFERS_FULL
    for a in range(first, first + count):
        if q >= end:
            return BAD_RECORD
        size = np.int64(chunk.buffer[q])
        if size > 4:
            return BAD_RECORD
        name = load(chunk.buffer, q + 1, size, chunk.big)
        q += 1 + size
        row = translate(name, np.int64(ATTRIBUTE_NAMES), ids)
        if row < 0:
            return unknown_id(name, np.int64(ATTRIBUTE_NAMES), state)
        of = chunk.buffer[q]
        q, value = decode_value(chunk, q + 1, of)
        if q < 0 or q > end:
            return BAD_RECORD
        which = np.int64(table.value_map[of])
        if which != NO_MAP:
            row_of_value = translate(value, which, ids)
            if row_of_value < -1 and of == LOCATION_REFERENCE:
                # refers to an undefined stream of a device: an analysis counts such references
                row_of_value = np.int64(-1)
            if row_of_value < -1:
                return unknown_id(value, which, state)
            value = row_of_value
        attributes.event[a] = event
        attributes.attribute[a] = row
        attributes.type[a] = of
        attributes.value[a] = value
    state[ATTRIBUTES] = first + count
    return GOES_ON


@inner_part
def decode_fields(chunk, q, end, code, table, ids, clock, sides, state):
    """Decode the declared fields of an event into the next row of `sides`; return the status and the position after."""
    s = state[SIDES]
    n_fields = table.n_fields[code]
    for f in range(N_VALUES):
        if f >= n_fields:
            sides.values[s, f] = 0
            continue
        if q >= end:
            return BAD_RECORD, q
        of = table.field_type[code, f]
        if of == U8:
            value = np.int64(chunk.buffer[q])
            q += 1
        elif of == TS:
            value = correct(load8(chunk.buffer, q, chunk.big), state[INTERVAL], clock)
            q += 8
        else:
            narrow = of == C32
            q, value = load_number(
                chunk, q, np.int64(4) if narrow else np.int64(8), np.int64(NULL32) if narrow else np.int64(-1)
            )
            if q < 0:
                return BAD_INTEGER, q
            if q > end:
                return BAD_RECORD, q
            which = np.int64(table.field_map[code, f])
            if which != NO_MAP:
                row = translate(value, which, ids)
                if row < -1:
                    return unknown_id(value, which, state), q
                value = row
            elif narrow and value == NULL32:
                value = np.int64(-1)
        if q > end:
            return BAD_RECORD, q
        sides.values[s, f] = value
    return GOES_ON, q


@part
def make_extras(q, end, sides, extra, state):
    """Reserve `extra` entries for the values after an event's fields (their number is field 1); return the status."""
    s = state[SIDES]
    count = sides.values[s, 1]
    if count < 0 or count > end - q:
        return BAD_RECORD
    if state[EXTRAS] + count > extra.size:
        state[FAULT_DETAIL] = count
        return BUFFERS_FULL
    sides.values[s, 2] = state[EXTRAS]
    return GOES_ON


@part
def decode_metric_values(chunk, q, end, metrics, sides, extra, state):
    """Decode the values of a METRIC, each with its type; return the status and the position after."""
    ends = make_extras(q, end, sides, extra, state)
    if ends != GOES_ON:
        return ends, q
    source, count, first = sides.values[state[SIDES], 0], sides.values[state[SIDES], 1], state[EXTRAS]
    if source < 0 or metrics.start[source + 1] - metrics.start[source] != count:
        return BAD_METRIC, q
    for i in range(count):
        if (chunk.buffer[q] == DOUBLE) != metrics.is_float[metrics.start[source] + i]:
            return BAD_METRIC, q
        q, extra[first + i] = load_number(chunk, q + 1, np.int64(8), np.int64(-1))
        if q < 0:
            return BAD_INTEGER, q
        if q > end:
            return BAD_RECORD, q
    state[EXTRAS] = first + count
    return GOES_ON, q


@part
def decode_arguments(chunk, q, end, ids, sides, extra, state):
    """Decode the arguments of a program; return the status and the position after."""
    ends = make_extras(q, end, sides, extra, state)
    if ends != GOES_ON:
        return ends, q
    count, first = sides.values[state[SIDES], 1], state[EXTRAS]
    for i in range(count):
        q, value = load_number(chunk, q, np.int64(4), np.int64(-1))
        if q < 0:
            return BAD_INTEGER, q
        if q > end:
            return BAD_RECORD, q
        row = translate(value, np.int64(STRINGS), ids)
        if row < -1:
            return unknown_id(value, np.int64(STRINGS), state), q
        extra[first + i] = row
    state[EXTRAS] = first + count
    return GOES_ON, q


@part
def has_room(n, n_events, events, sides, extra, attributes, state):
    """Return whether n more events fit into the buffers, with attribute lists if n > 1."""
    return (
        n_events + n <= events.time.size
        and state[SIDES] + n <= sides.event.size
        and state[EXTRAS] + n * MOST_VALUES <= extra.size
        and (n == 1 or state[ATTRIBUTES] + n * MOST_VALUES <= attributes.event.size)
    )


@part
def put_flush_after(flush, last, events, sides, attributes, state):
    """Move a BUFFER_FLUSH after the events of the same time that follow it: METRICs and the ENTER or LEAVE they belong
    to.

    Parameters
    ----------
    flush, last : int
        Indices of the BUFFER_FLUSH and of the ENTER or LEAVE in the buffers.
    events, sides, attributes
        Changed in place. Attributes keep their order, their event numbers change.
    """
    base, n_sides = state[BASE], state[SIDES]
    for i in range(flush, last):
        events.kind[i], events.region[i] = events.kind[i + 1], events.region[i + 1]
    events.kind[last], events.region[last] = BUFFER_FLUSH, -1
    s = n_sides - 1
    while sides.event[s] != base + flush:
        s -= 1
    stop_time = sides.values[s, 0]
    for i in range(s, n_sides - 1):
        sides.event[i], sides.kind[i] = sides.event[i + 1] - 1, sides.kind[i + 1]
        for k in range(N_VALUES):
            sides.values[i, k] = sides.values[i + 1, k]
    sides.event[n_sides - 1], sides.kind[n_sides - 1] = base + last, BUFFER_FLUSH
    for k in range(N_VALUES):
        sides.values[n_sides - 1, k] = 0
    sides.values[n_sides - 1, 0] = stop_time
    a = state[ATTRIBUTES]
    while a > 0 and attributes.event[a - 1] >= base + flush:
        a -= 1
        is_of_flush = attributes.event[a] == base + flush
        attributes.event[a] = base + last if is_of_flush else attributes.event[a] - 1


@part
def leave_attributes(ends, event, code, attributes, state):
    """Drop attributes whose event was not reached; return the status, and whether it concerns the attribute list.

    If the buffers are full, the list is read again by the next call; at the end of a chunk it belongs to no event.
    """
    n = state[ATTRIBUTES]
    reached = n
    while reached > 0 and attributes.event[reached - 1] == event:
        reached -= 1
    if reached == n:
        return ends, False
    state[ATTRIBUTES] = reached
    if ends == BUFFERS_FULL:
        if code == ATTRIBUTE_LIST:
            state[FAULT_DETAIL] += n - reached
        return ends, True
    if ends == END_OF_CHUNK or ends == END_OF_FILE:
        return NO_EVENT, True
    return ends, False


@kernel
def decode_events(chunk, state, meanings, filled, unknown):
    """Decode the records of one chunk of an event file.

    Parameters
    ----------
    state : (N_STATE,) int64
        Carried from call to call; `state[POSITION]` is where to continue.
    meanings : Meanings
    filled : Buffers
    unknown : (256,) int64
        Number of records of unknown types, by type.

    Returns
    -------
    int
        END_OF_CHUNK, END_OF_FILE, BUFFERS_FULL, or the error in the record at `state[FAULT]`.

    Notes
    -----
    Events are in the order of the records, which is program order, even where time decreases. The exception is a
    BUFFER_FLUSH: the recorder took the time of an event, found the buffer full, wrote it out, recorded the flush with
    the time of the event, and then the event. So a following ENTER or LEAVE of the same time, with its METRICs, is put
    before the flush.
    """
    table, ids, metrics, clock = meanings
    events, sides, extra, attributes = filled
    q = state[POSITION]
    n_events = state[EVENTS]
    base = state[BASE]
    raw = state[RAW_TIME]
    now = state[TIME]
    # the last BUFFER_FLUSH, as long as the event it was recorded in front of may still follow; -1 none
    flush = state[FLUSH]
    first = n_events - state[CHUNK_EVENTS]
    state[FAULT_DETAIL] = 0
    start = list_start = q
    code = np.uint8(0)
    ends = GOES_ON
    while True:
        if raw >= 0 and flush < 0:
            q, n_events, raw, now = decode_calls(chunk, q, n_events, raw, now, state[INTERVAL], ids, clock, events)
        if q >= chunk.n:
            ends = RUNS_OUT
            break
        start = q
        code = chunk.buffer[q]
        if code == TIME_STAMP:
            if q + 9 > chunk.n:
                ends = RUNS_OUT
                break
            stamp = load8(chunk.buffer, q + 1, chunk.big)
            if stamp < 0:
                ends = BAD_TIME
                state[FAULT_DETAIL] = stamp
                break
            raw = stamp
            state[INTERVAL] = interval_of(raw, state[INTERVAL], clock)
            now = correct(raw, state[INTERVAL], clock)
            q += 9
            continue
        if code == CHUNK_ENDS or code == FILE_ENDS:
            ends = END_OF_CHUNK if code == CHUNK_ENDS else END_OF_FILE
            q += 1
            break
        if code == ENTER or code == LEAVE:
            if n_events >= events.time.size:
                ends = BUFFERS_FULL
                break
            ends, q, row = decode_region(chunk, q, ids, state)
            if ends != GOES_ON:
                break
            if raw < 0:
                ends = NO_TIME
                break
            put_event(n_events, now, code, np.int64(row), events)
            if flush >= 0:
                if events.time[flush] == now:
                    put_flush_after(flush, n_events, events, sides, attributes, state)
                flush = np.int64(-1)
            n_events += 1
            continue
        if code < FIRST_EVENT and code != ATTRIBUTE_LIST:
            ends = BAD_RECORD
            state[FAULT_DETAIL] = np.int64(code)
            break

        # all other records; if they have a length, it comes first
        end = np.int64(chunk.n)
        q += 1
        has_length = table.has_length[code] != 0
        if has_length:
            ends, q, end = decode_length(chunk, q, state)
            if ends != GOES_ON:
                break
        if code == ATTRIBUTE_LIST:
            n = state[ATTRIBUTES]
            if n == 0 or attributes.event[n - 1] != base + n_events:
                list_start = start
            ends = decode_attributes(chunk, q, end, base + n_events, table, ids, attributes, state)
            if ends != GOES_ON:
                break
            q = end
            continue
        if not has_room(np.int64(1), n_events, events, sides, extra, attributes, state):
            ends = BUFFERS_FULL
            break
        if raw < 0:
            ends = NO_TIME
            break
        is_flush = code == BUFFER_FLUSH
        if (
            is_flush
            and n_events > 0
            and not has_room(np.int64(FLUSH_ROOM), n_events, events, sides, extra, attributes, state)
        ):
            ends = BUFFERS_FULL
            break
        if table.n_fields[code] == UNKNOWN_RECORD:
            unknown[code] += 1
            flush = np.int64(-1)
            put_event(n_events, now, np.uint8(UNKNOWN_KIND), np.int64(-1), events)
            n_events += 1
            q = end
            continue
        ends, q = decode_fields(chunk, q, end, code, table, ids, clock, sides, state)
        if ends == GOES_ON and code == METRIC:
            ends, q = decode_metric_values(chunk, q, end, metrics, sides, extra, state)
        elif ends == GOES_ON and code == PROGRAM_BEGIN:
            ends, q = decode_arguments(chunk, q, end, ids, sides, extra, state)
        if ends != GOES_ON:
            if ends == BAD_RECORD and not has_length:
                ends = RUNS_OUT
            break
        if is_flush:
            flush = n_events
        elif flush >= 0 and (code != METRIC or events.time[flush] != now or n_events - flush > FLUSH_ROOM // 2):
            flush = np.int64(-1)
        s = state[SIDES]
        sides.event[s] = base + n_events
        sides.kind[s] = code
        state[SIDES] = s + 1
        put_event(n_events, now, code, np.int64(-1), events)
        n_events += 1
        if has_length:
            q = end
    ends, again = leave_attributes(ends, base + n_events, code, attributes, state)
    if again:
        start = list_start
    state[FAULT] = start
    state[POSITION] = start if ends == BUFFERS_FULL else q
    state[EVENTS] = n_events
    state[RAW_TIME] = raw
    state[FLUSH] = flush
    state[TIME] = now
    state[CHUNK_EVENTS] = n_events - first
    return ends


# -- definitions -------------------------------------------------------------------------------------------------------


class DefinitionFields(NamedTuple):
    """The fields of definition records, by record type."""

    n_fields: NDArray[np.uint8]
    """(256,): UNKNOWN_RECORD for unknown types."""
    field_type: NDArray[np.uint8]
    """(256, 12)"""
    optional_from: NDArray[np.uint8]
    """(256,): first field that older writers leave out; 255 if there is none."""


@part
def decode_text(chunk, q, end, values, v):
    """Store position and length of a text; return the position after it, -1 if it does not end within its record."""
    stop = q
    while stop < end and chunk.buffer[stop] != 0:
        stop += 1
    if stop >= end:
        return np.int64(-1)
    values[v], values[v + 1] = q, stop - q
    return stop + 1


@part
def decode_list(chunk, q, end, of, count, values, v):
    """Store the elements of a list, or an id map, after their count; return status, position, number of values."""
    if of == IDMAP:
        # the count as a compressed number, then the mode: 0 dense, 1 sparse (pairs)
        size = np.int64(chunk.buffer[q])
        if size > 8:
            return BAD_INTEGER, q, v
        count = load(chunk.buffer, q + 1, size, chunk.big)
        q += 1 + size
        if count < 0 or count > end - q:
            return BAD_LENGTH, q, v
        values[v] = chunk.buffer[q]
        if values[v] == 1:
            count *= 2
        q += 1
        v += 1
    if count < 0 or count > end - q:
        return BAD_LENGTH, q, v
    values[v] = count
    v += 1
    for _ in range(count):
        if of == U8S:
            values[v] = chunk.buffer[q]
            q += 1
        else:
            q, values[v] = load_number(chunk, q, np.int64(8), np.int64(NULL32) if of == C32S else np.int64(-1))
            if q < 0:
                return BAD_INTEGER, q, v
        v += 1
        if q > end:
            return BAD_RECORD, q, v
    return GOES_ON, q, v


@part
def decode_bits(chunk, q, of):
    """Decode the bits of an attribute value; return the position after it, -1 if it has no size, and the bits."""
    size = np.int64(0)
    if of == UINT8 or of == INT8:
        size = np.int64(1)
    elif of == UINT16 or of == INT16:
        size = np.int64(2)
    elif of == FLOAT:
        size = np.int64(4)
    elif of == DOUBLE:
        size = np.int64(8)
    if size > 0:
        return q + size, load(chunk.buffer, q, size, chunk.big)
    return load_number(chunk, q, np.int64(8), np.int64(-1))


@part
def decode_definition(chunk, q, end, code, table, values, v):
    """Decode the fields of a definition between two positions; return the status, and the number of values."""
    count = np.int64(0)
    for f in range(table.n_fields[code]):
        of = table.field_type[code, f]
        if q >= end and f >= table.optional_from[code]:
            values[v] = values[v + 1] = -1
            v += 2 if of == VALUE else 1
            continue
        is_list = U8S <= of <= IDMAP
        if q >= end and (not is_list or of == IDMAP):
            return BAD_RECORD, v
        if is_list:
            ends, q, v = decode_list(chunk, q, end, of, count, values, v)
            if ends != GOES_ON:
                return ends, v
        elif of == STR:
            q = decode_text(chunk, q, end, values, v)
            if q < 0:
                return BAD_RECORD, v
            v += 2
        else:
            if of == U8:
                q, count = q + 1, np.int64(chunk.buffer[q])
            elif of == TS or of == F64:
                q, count = q + 8, load8(chunk.buffer, q, chunk.big)
            elif of == VALUE:
                values[v] = chunk.buffer[q]
                q, count = decode_bits(chunk, q + 1, values[v])
                v += 1
            elif of == C32:
                q, count = load_number(chunk, q, np.int64(4), np.int64(NULL32))
            else:
                q, count = load_number(chunk, q, np.int64(8), np.int64(-1))
            if q < 0:
                return BAD_INTEGER, v
            values[v] = count
            v += 1
        if q > end:
            return BAD_RECORD, v
    return GOES_ON, v


@kernel
def decode_definitions(chunk, at, table, values, records):
    """Decode the records of one chunk of a definition file into flat values.

    Parameters
    ----------
    chunk : Chunk
    at : int
        Where the records begin.
    table : DefinitionFields
    values : (capacity,) int64
        Filled. A field is one value; text is its position and length; a list is its count and its elements;
        an id map is its mode, the count of its numbers and the numbers; an attribute value is its type and its bits.
    records : (capacity, 3) int64
        Filled: type, first value, and position of every record.

    Returns
    -------
    ends : int
        END_OF_CHUNK, END_OF_FILE, BUFFERS_FULL, or the error in the last record.
    n_records, n_values, q : int
        Records and values filled; where decoding stopped.
    """
    q, nr, nv = at, np.int64(0), np.int64(0)
    while True:
        if q >= chunk.n:
            return RUNS_OUT, nr, nv, q
        code = chunk.buffer[q]
        if code == CHUNK_ENDS or code == FILE_ENDS:
            return END_OF_CHUNK if code == CHUNK_ENDS else END_OF_FILE, nr, nv, q + 1
        if code < 5:
            return BAD_RECORD, nr, nv, q
        start = q
        q += 1
        length = np.int64(chunk.buffer[q])
        q += 1
        if length == 255:
            length = load8(chunk.buffer, q, chunk.big)
            q += 8
        if length < 0 or q > chunk.n or length > chunk.n - q:
            return BAD_LENGTH, nr, nv, start
        # a byte gives at most two values (a text's position and length), besides the counts
        if nr >= records.shape[0] or nv + 2 * length + 64 > values.size:
            return BUFFERS_FULL, nr, nv, start
        records[nr, 0], records[nr, 1], records[nr, 2] = code, nv, start
        nr += 1
        if table.n_fields[code] == UNKNOWN_RECORD:
            values[nv], values[nv + 1] = q, length
            nv += 2
        else:
            ends, nv = decode_definition(chunk, q, q + length, code, table, values, nv)
            if ends != GOES_ON:
                return ends, nr, nv, start
        q += length
