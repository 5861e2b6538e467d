"""Encode columns into OTF2 chunks: the inverse of `decode.decode_events`, driven by the same declared records.

One call fills one chunk, which is followed by 64 bytes of padding: every number is stored as eight bytes, and the next
store overwrites the excess ones. All state that outlives a call is in `state`; at the end of a batch or of a chunk the
call returns at a record boundary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.buffers import Events
from tracecols.converters.otf2.decode import ATTRIBUTE_LIST, C32, ENTER, LEAVE, PROGRAM_BEGIN, TIME_STAMP, TS, U8
from tracecols.kernels.kernel import kernel, part

PADDING = 64
HEADER = 18
TAIL = 2
"""Bytes at the end of a chunk: end of file and one more, or end of chunk."""

# state that the encoding of a location carries from call to call
(POSITION, EVENT, BASE, TIME, SHIFT, CHUNK_EVENTS, ATTRIBUTE, METRIC, ARGUMENT, LARGEST_REGION, FIELD, N_STATE) = range(
    12
)

# status of a call
DONE, CHUNK_FULL, TOO_LONG, BAD_TIME, NO_REGION, NO_VALUES, TOO_LARGE, BAD_TYPE = range(8)

NO_TIME = -1
NO_RECORD = 255
"""Number of fields of kinds of events that OTF2 has no record for."""
NO_FAMILY = 255
METRIC_FAMILY = 254


@kernel
def store8(out, at, value):
    """Write eight bytes, the least significant first."""
    # unsigned indices avoid the check for negative ones; the compiler combines these into one store
    p, v = np.uint64(at), np.uint64(value)
    out[p] = v & np.uint64(255)
    out[p + np.uint64(1)] = (v >> np.uint64(8)) & np.uint64(255)
    out[p + np.uint64(2)] = (v >> np.uint64(16)) & np.uint64(255)
    out[p + np.uint64(3)] = (v >> np.uint64(24)) & np.uint64(255)
    out[p + np.uint64(4)] = (v >> np.uint64(32)) & np.uint64(255)
    out[p + np.uint64(5)] = (v >> np.uint64(40)) & np.uint64(255)
    out[p + np.uint64(6)] = (v >> np.uint64(48)) & np.uint64(255)
    out[p + np.uint64(7)] = (v >> np.uint64(56)) & np.uint64(255)


@kernel
def put32(out, at, value):
    """Write a compressed number of four bytes, -1 as UNDEFINED; return the position after it."""
    v = np.uint64(value) & np.uint64(0xFFFFFFFF)
    if v == np.uint64(0xFFFFFFFF):
        out[np.uint64(at)] = 255
        return at + 1
    size = (
        np.int64(v > np.uint64(0))
        + np.int64(v > np.uint64(0xFF))
        + np.int64(v > np.uint64(0xFFFF))
        + np.int64(v > np.uint64(0xFFFFFF))
    )
    store8(out, at, np.uint64(size) | v << np.uint64(8))
    return at + 1 + size


@kernel
def put64(out, at, value):
    """Write a compressed number of eight bytes, -1 as UNDEFINED; return the position after it."""
    v = np.uint64(value)
    if v == np.uint64(0xFFFFFFFFFFFFFFFF):
        out[np.uint64(at)] = 255
        return at + 1
    size = np.int64(0)
    rest = v
    while rest != np.uint64(0):
        size += 1
        rest >>= np.uint64(8)
    out[np.uint64(at)] = size
    store8(out, at + 1, v)
    return at + 1 + size


@kernel
def put_length(out, at, end):
    """Write the length of a record whose payload is from `at + 1` to `end`; return the position after the record."""
    length = end - at - 1
    if length < 255:
        out[np.uint64(at)] = length
        return end
    for p in range(end - 1, at, -1):
        out[p + 8] = out[p]
    out[at] = 255
    store8(out, at + 1, length)
    return end + 8


class Layout(NamedTuple):
    """The encoding of events, by number of their kind (`write.LAYOUT`)."""

    has_length: NDArray[np.uint8]
    n_fields: NDArray[np.uint8]
    """`has_length` and `n_fields`: (256,), whether the record has a length; number of fields, 255 if OTF2 has no record
    of the kind."""
    field_type: NDArray[np.uint8]
    """(256, 8): types of the fields."""
    family: NDArray[np.uint8]
    """(256,): side table with the fields; NO_FAMILY, METRIC_FAMILY."""


class SideTables(NamedTuple):
    """The side tables of a batch, concatenated in one array, column by column; the first column of each is `row`."""

    values: NDArray[np.int64]
    """(any,): the columns, and the values of METRIC events."""
    column: NDArray[np.int64]
    """(256, 6): distance in `values` from a row to each of its fields, by kind."""
    next: NDArray[np.int64]
    """(n_families,): position of the next row of each side table in `values`; advanced."""
    end: NDArray[np.int64]
    """(n_families,): end of the rows of each side table in `values`."""


class Attributes(NamedTuple):
    """Attributes of events, in the order of the events."""

    row: NDArray[np.int64]
    attribute: NDArray[np.int32]
    type: NDArray[np.uint8]
    value: NDArray[np.int64]
    """`row`, `attribute`, `type` and `value`: (any,); the last one holds bits."""


class Metrics(NamedTuple):
    """METRIC events, and the metric classes."""

    row: NDArray[np.int64]
    source: NDArray[np.int64]
    """`row` and `source`: (n,), the event, and the sampled class or instance."""
    first: NDArray[np.int64]
    stride: NDArray[np.int64]
    """`first` and `stride`: (n,), position of the first value in `SideTables.values`, and distance to the next."""
    metric_class: NDArray[np.int64]
    """(n,)"""
    type_start: NDArray[np.int64]
    """(n_classes + 1,): start of the value types of each class in `type_code`."""
    type_code: NDArray[np.uint8]
    """(any,)"""


class Arguments(NamedTuple):
    """Arguments of programs, in the order of the PROGRAM_BEGIN events."""

    row: NDArray[np.int64]
    argument: NDArray[np.int32]
    """`row` and `argument`: (any,)"""


class Given(NamedTuple):
    """The events of a batch, and what belongs to them."""

    events: Events
    sides: SideTables
    attributes: Attributes
    metrics: Metrics
    arguments: Arguments


@kernel
def encode_calls(out, limit, state, events, stop):
    """Encode the next ENTER and EXIT events without attributes: nearly all events.

    Ends at event `stop`, at any other event or one whose time cannot be written, or if the chunk has too little room.
    """
    time, kind, region = events
    now = state[TIME]
    shift = state[SHIFT]
    largest = np.int32(state[LARGEST_REGION])
    first = state[EVENT]
    one, two = np.uint64(1), np.uint64(2)
    # a time stamp and an ENTER or EXIT take 15 bytes
    safe = np.uint64(max(limit - 15, 0))
    e, end, p = np.uint64(first), np.uint64(stop), np.uint64(state[POSITION])
    while e < end and p <= safe:
        code = kind[e]
        r = region[e]
        if (code != ENTER and code != LEAVE) or r < 0:
            break
        t = time[e] - shift
        if t != now:
            if t < 0:
                break
            out[p] = TIME_STAMP
            store8(out, p + one, t)
            p += np.uint64(9)
            now = t
        largest = max(largest, r)
        v = np.uint64(r)
        size = np.uint64(v > np.uint64(0)) + np.uint64(v > np.uint64(0xFF))
        if v > np.uint64(0xFFFF):
            size += one + np.uint64(v > np.uint64(0xFFFFFF))
        store8(out, p, np.uint64(code) | size << np.uint64(8) | v << np.uint64(16))
        p += two + size
        e += one
    state[POSITION] = p
    state[EVENT] = e
    state[TIME] = now
    state[LARGEST_REGION] = largest
    state[CHUNK_EVENTS] += np.int64(e) - first


@part
def put_attribute(out, at, type_of, value):
    """Write the value of an attribute; return the position after it, -1 if the type is not known."""
    if type_of == 0 or type_of > 25:
        return np.int64(-1)
    if type_of == 1 or type_of == 5:
        out[at] = value & 255
        return at + 1
    if type_of == 2 or type_of == 6:
        store8(out, at, value)
        return at + 2
    if type_of == 9:
        store8(out, at, value)
        return at + 4
    if type_of == 10:
        store8(out, at, value)
        return at + 8
    if type_of == 4 or type_of == 8 or type_of == 13:
        return put64(out, at, value)
    return put32(out, at, value)


@kernel
def encode_attributes(out, at, attributes, first, n):
    """Write the attribute list of an event; return the position after it, -1 if a type is not known."""
    out[at] = ATTRIBUTE_LIST
    head = at + 1
    at = put32(out, head + 1, n)
    for j in range(first, first + n):
        at = put32(out, at, attributes.attribute[j])
        out[at] = attributes.type[j]
        at = put_attribute(out, at + 1, attributes.type[j], attributes.value[j])
        if at < 0:
            return at
    return put_length(out, head, at)


@part
def put_field(out, at, type_of, value, shift):
    """Write a field of a record; return the position after it, -1 if the value does not fit its type."""
    if type_of == U8:
        if value < -1 or value > 255:
            return np.int64(-1)
        out[at] = value & 255
        return at + 1
    if type_of == C32:
        if value >> 32 != 0 and value >> 31 != -1:
            return np.int64(-1)
        return put32(out, at, value)
    if type_of == TS:
        store8(out, at, value - shift)
        return at + 8
    return put64(out, at, value)


@part
def find_metric(metrics, first, row):
    """Return the index of the METRIC event of a row, -1 if there is none; where to continue; the number of values."""
    m = first
    while m < metrics.row.size and metrics.row[m] < row:
        m += 1
    if m >= metrics.row.size or metrics.row[m] != row:
        return np.int64(-1), m, np.int64(0)
    of = metrics.metric_class[m]
    return m, m, metrics.type_start[of + 1] - metrics.type_start[of]


@part
def find_side_row(sides, of, row):
    """Return the position of a row of a side table, -1 if the table has no such row."""
    at = sides.next[of]
    last = sides.end[of]
    while at < last and sides.values[at] < row:
        at += 1
    sides.next[of] = at
    return at if at < last and sides.values[at] == row else np.int64(-1)


@part
def find_rows(rows, first, row):
    """Return the first index from `first` on whose row is not below `row`, and the number of entries with this row."""
    at = first
    while at < rows.size and rows[at] < row:
        at += 1
    n = np.int64(0)
    while at + n < rows.size and rows[at + n] == row:
        n += 1
    return at, n


@part
def put_values(out, q, metrics, values, m):
    """Write the values of a METRIC event with their types; return the position after them."""
    of = metrics.metric_class[m]
    first = metrics.type_start[of]
    for j in range(metrics.type_start[of + 1] - first):
        out[q] = metrics.type_code[first + j]
        q = put64(out, q + 1, values[metrics.first[m] + j * metrics.stride[m]])
    return q


@kernel
def encode_events(out, limit, state, layout, given, left_out):
    """Encode consecutive events of one location into one chunk.

    Parameters
    ----------
    out : (>= limit + PADDING,) uint8
        The chunk.
    state : (N_STATE,) int64
        Carried from call to call: `EVENT` is the next event of this batch, `POSITION` where it is written, `BASE` the
        number in the location of the batch's event 0; `SHIFT` is subtracted from times.
    layout : Layout
    given : Given
    left_out : (256,) int64
        Number of events that OTF2 has no record for, by kind; incremented.

    Returns
    -------
    int
        DONE, CHUNK_FULL, or the error in event `state[EVENT]`.
    """
    events, sides, attributes, metrics, arguments = given
    n = events.time.size
    base = state[BASE]
    shift = state[SHIFT]
    while True:
        a, n_attributes = find_rows(attributes.row, state[ATTRIBUTE], base + state[EVENT])
        state[ATTRIBUTE] = a
        encode_calls(out, limit, state, events, min(n, attributes.row[a] - base) if a < attributes.row.size else n)
        i = state[EVENT]
        if i >= n:
            return DONE

        code = events.kind[i]
        row = base + i
        t = events.time[i] - shift
        of = layout.family[code]
        is_known = layout.n_fields[code] != NO_RECORD
        at = n_values = np.int64(0)
        m = np.int64(-1)
        if of == METRIC_FAMILY:
            m, state[METRIC], n_values = find_metric(metrics, state[METRIC], row)
            is_known &= m >= 0
        if not is_known:
            left_out[code] += 1
            state[EVENT] = i + 1
            continue
        if t < 0:
            return BAD_TIME
        if of != METRIC_FAMILY and of != NO_FAMILY and layout.n_fields[code] > 0:
            at = find_side_row(sides, of, row)
            if at < 0:
                return NO_VALUES
        if code == PROGRAM_BEGIN:
            state[ARGUMENT], n_values = find_rows(arguments.row, state[ARGUMENT], row)
        a, n_attributes = find_rows(attributes.row, a, row)
        # time stamp; attribute list with length and count; record with length and fields; values with their types
        q = state[POSITION]
        if q + 9 + 15 + 15 * n_attributes + 10 + 54 + 10 * n_values > limit:
            return CHUNK_FULL if state[CHUNK_EVENTS] > 0 else TOO_LONG

        if t != state[TIME]:
            out[q] = TIME_STAMP
            store8(out, q + 1, t)
            q += 9
        if n_attributes > 0:
            q = encode_attributes(out, q, attributes, a, n_attributes)
            if q < 0:
                return BAD_TYPE
        out[q] = code
        head = q + 1
        q = head + np.int64(layout.has_length[code])
        for f in range(layout.n_fields[code]):
            if of == METRIC_FAMILY:
                value = metrics.source[m] if f == 0 else n_values
            elif code == PROGRAM_BEGIN and f == 1:
                value = n_values
            elif of == NO_FAMILY:
                value = np.int64(events.region[i])
                if value < 0:
                    return NO_REGION
                state[LARGEST_REGION] = max(state[LARGEST_REGION], value)
            else:
                value = sides.values[at + sides.column[code, f]]
            q = put_field(out, q, layout.field_type[code, f], value, shift)
            if q < 0:
                state[FIELD] = f
                return TOO_LARGE
        if of == METRIC_FAMILY:
            q = put_values(out, q, metrics, sides.values, m)
            state[METRIC] = m + 1
        elif code == PROGRAM_BEGIN:
            for j in range(n_values):
                q = put32(out, q, arguments.argument[state[ARGUMENT] + j])
            state[ARGUMENT] += n_values
        if layout.has_length[code]:
            q = put_length(out, head, q)
        state[POSITION] = q
        state[TIME] = t
        state[EVENT] = i + 1
        state[ATTRIBUTE] = a + n_attributes
        state[CHUNK_EVENTS] += 1
