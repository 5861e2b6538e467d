"""Encode columns into OTF2 chunks: the inverse of `decode.decode_events`, driven by the same declared records.

One call fills one chunk, which has 64 bytes of padding after it, so that every number is stored as eight bytes of
which the next store overwrites what does not count. All state that outlives a call is in `state`; at the end of a batch
or of a chunk the call returns at a record boundary.
"""

from __future__ import annotations

import numpy as np

from tracecols.converters.otf2.decode import C32, TS, U8
from tracecols.kernels.kernel import kernel

PADDING = 64
HEADER = 18
TAIL = 2
"""Bytes at the end of a chunk: end of file and one more, or end of chunk."""

# state: what a location's encoding carries from call to call
(POSITION, EVENT, BASE, TIME, SHIFT, CHUNK_EVENTS, ATTRIBUTE, METRIC, ARGUMENT, LARGEST_REGION, FIELD, N_STATE) = range(
    12
)

# how a call ends
DONE, CHUNK_FULL, TOO_LONG, BAD_TIME, NO_REGION, NO_VALUES, TOO_LARGE, BAD_TYPE = range(8)

NO_TIME = -1
NO_FAMILY = 255
METRIC_FAMILY = 254


@kernel
def store8(out, at, value):
    """Write eight bytes, the least significant first."""
    # an index is unsigned to spare the question whether it counts from the end; the compiler makes one store of these
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
    """Write a compressed number of four bytes, -1 as UNDEFINED; returns where the next one goes."""
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
    """Write a compressed number of eight bytes, -1 as UNDEFINED; returns where the next one goes."""
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
    """Write the length of a record whose payload is from `at + 1` to `end`; returns where the next record goes."""
    length = end - at - 1
    if length < 255:
        out[np.uint64(at)] = length
        return end
    for p in range(end - 1, at, -1):
        out[p + 8] = out[p]
    out[at] = 255
    store8(out, at + 1, length)
    return end + 8


@kernel
def encode_events(
    out,
    limit,
    state,
    has_length,
    n_fields,
    field_type,
    time,
    kind,
    region,
    values,
    family,
    column,
    row_at,
    row_end,
    attribute_row,
    attribute,
    attribute_type,
    attribute_value,
    metric_row,
    metric_source,
    metric_first,
    metric_stride,
    metric_class,
    type_start,
    type_code,
    argument_row,
    argument,
    left_out,
):
    """Encode consecutive events of one location into one chunk.

    Parameters
    ----------
    out : (>= limit + PADDING,) uint8
        The chunk.
    state : (N_STATE,) int64
        Carried from call to call: `EVENT` of this batch comes next, and goes to `POSITION`; `BASE` is the number of the
        batch's event 0 in the location, `SHIFT` is taken from times.
    has_length, n_fields, field_type
        Record types by kind (`tables.EVENTS`).
    time, kind, region : (n,) int64, uint8, int32
        The batch.
    values : (any,) int64
        Side tables of the batch, one after the other, column by column, the first of which is `row`.
    family : (256,) uint8
        Side table of every kind; NO_FAMILY, METRIC_FAMILY.
    column : (256, 6) int64
        How far after a row's place in `values` a field is.
    row_at, row_end : (n_families,) int64
        Next row of each side table in `values`, and where its rows end. The former are moved on.
    attribute_row, attribute, attribute_type, attribute_value : (any,) int64, int32, uint8, int64
        Attributes of events.
    metric_row, metric_source, metric_first, metric_stride, metric_class : (n_metrics,) int64
        METRIC events: row, source, where the first value is in `values`, distance to the next one, class.
    type_start, type_code : (n_classes + 1,) int64, (any,) uint8
        Types of the values of metric classes.
    argument_row, argument : (any,) int64, int32
        Arguments of programs.
    left_out : (256,) int64
        Counts by kind the events that OTF2 has no record for.

    Returns
    -------
    int
        DONE, CHUNK_FULL, or what is wrong with event `state[EVENT]`.
    """
    n = time.size
    q = state[POSITION]
    i = state[EVENT]
    base = state[BASE]
    now = state[TIME]
    shift = state[SHIFT]
    a = state[ATTRIBUTE]
    m = state[METRIC]
    g = state[ARGUMENT]
    largest = np.int32(state[LARGEST_REGION])
    written = np.int64(0)
    ends = DONE
    one, two = np.uint64(1), np.uint64(2)
    # the fast loop needs a time stamp and an ENTER or EXIT: 15 bytes
    safe = np.uint64(max(limit - 15, 0))
    while i < n:
        while a < attribute_row.size and attribute_row[a] < base + i:
            a += 1
        # almost all events: ENTER and EXIT without attributes
        e = np.uint64(i)
        stop = np.uint64(min(n, attribute_row[a] - base) if a < attribute_row.size else n)
        p = np.uint64(q)
        while e < stop and p <= safe:
            code = kind[e]
            r = region[e]
            if (code != 12 and code != 13) or r < 0:
                break
            t = time[e] - shift
            if t != now:
                if t < 0:
                    break
                out[p] = 5
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
        written += np.int64(e) - i
        q, i = np.int64(p), np.int64(e)
        if i >= n:
            break

        code = kind[i]
        row = base + i
        fields = np.int64(n_fields[code])
        if fields == 255:
            left_out[code] += 1
            i += 1
            continue
        t = time[i] - shift
        if t < 0:
            ends = BAD_TIME
            break
        of = family[code]
        at = np.int64(0)
        n_values = np.int64(0)
        if of == METRIC_FAMILY:
            while m < metric_row.size and metric_row[m] < row:
                m += 1
            if m >= metric_row.size or metric_row[m] != row:
                # of a class that is not defined
                left_out[code] += 1
                i += 1
                continue
            first = type_start[metric_class[m]]
            n_values = type_start[metric_class[m] + 1] - first
        elif of != NO_FAMILY and fields > 0:
            at = row_at[of]
            last = row_end[of]
            while at < last and values[at] < row:
                at += 1
            row_at[of] = at
            if at >= last or values[at] != row:
                ends = NO_VALUES
                break
            if code == 83:
                while g < argument_row.size and argument_row[g] < row:
                    g += 1
                while g + n_values < argument_row.size and argument_row[g + n_values] == row:
                    n_values += 1
        n_attributes = np.int64(0)
        while a + n_attributes < attribute_row.size and attribute_row[a + n_attributes] == row:
            n_attributes += 1
        # time stamp; attribute list with length and count; record with length and fields; values with their types
        if q + 9 + 15 + 15 * n_attributes + 10 + 54 + 10 * n_values > limit:
            ends = CHUNK_FULL if written > 0 or state[CHUNK_EVENTS] > 0 else TOO_LONG
            break

        if t != now:
            out[q] = 5
            store8(out, q + 1, t)
            q += 9
            now = t
        if n_attributes > 0:
            out[q] = 6
            head = q + 1
            q = put32(out, head + 1, n_attributes)
            for j in range(a, a + n_attributes):
                q = put32(out, q, attribute[j])
                type_of = attribute_type[j]
                value = attribute_value[j]
                out[q] = type_of
                q += 1
                if type_of == 1 or type_of == 5:
                    out[q] = value & 255
                    q += 1
                elif type_of == 2 or type_of == 6:
                    store8(out, q, value)
                    q += 2
                elif type_of == 9:
                    store8(out, q, value)
                    q += 4
                elif type_of == 10:
                    store8(out, q, value)
                    q += 8
                elif type_of == 4 or type_of == 8 or type_of == 13:
                    q = put64(out, q, value)
                elif type_of == 0 or type_of > 25:
                    ends = BAD_TYPE
                    break
                else:
                    q = put32(out, q, value)
            if ends != DONE:
                break
            q = put_length(out, head, q)
            a += n_attributes
        out[q] = code
        q += 1
        head = q
        q += np.int64(has_length[code])
        for f in range(fields):
            if of == METRIC_FAMILY:
                value = metric_source[m] if f == 0 else n_values
            elif code == 83 and f == 1:
                value = n_values
            elif of == NO_FAMILY:
                value = np.int64(region[i])
                if value < 0:
                    ends = NO_REGION
                    break
                largest = max(largest, region[i])
            else:
                value = values[at + column[code, f]]
            type_of = field_type[code, f]
            if type_of == U8:
                if value < -1 or value > 255:
                    ends = TOO_LARGE
                    state[FIELD] = f
                    break
                out[q] = value & 255
                q += 1
            elif type_of == C32:
                if value >> 32 != 0 and value >> 31 != -1:
                    ends = TOO_LARGE
                    state[FIELD] = f
                    break
                q = put32(out, q, value)
            elif type_of == TS:
                store8(out, q, value - shift)
                q += 8
            else:
                q = put64(out, q, value)
        if ends != DONE:
            break
        if of == METRIC_FAMILY:
            for j in range(n_values):
                out[q] = type_code[first + j]
                q = put64(out, q + 1, values[metric_first[m] + j * metric_stride[m]])
            m += 1
        elif code == 83:
            for j in range(n_values):
                q = put32(out, q, argument[g + j])
            g += n_values
        if has_length[code]:
            q = put_length(out, head, q)
        written += 1
        i += 1
    state[POSITION] = q
    state[EVENT] = i
    state[TIME] = now
    state[CHUNK_EVENTS] += written
    state[ATTRIBUTE] = a
    state[METRIC] = m
    state[ARGUMENT] = g
    state[LARGEST_REGION] = largest
    return ends
