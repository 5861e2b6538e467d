"""Decode OTF2 chunks: event records into columns, definition records into flat values.

One call decodes one chunk that lies in memory with 64 bytes of padding behind it, so that every load of a field stays in
bounds with one check per record. All state that outlives a chunk is in `state`; when a column buffer is full the call
returns at a record boundary, the caller empties the buffers and calls again.
"""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel

PADDING = 64

# state: what a location's decoding carries from call to call
(
    POSITION,
    EVENTS,
    SIDES,
    EXTRAS,
    ATTRIBUTES,
    BASE,
    CHUNK_EVENTS,
    RAW_TIME,
    TIME,
    INTERVAL,
    FAULT,
    FAULT_DETAIL,
    FLUSH,
    N_STATE,
) = range(14)

# how a call ends
(
    END_OF_CHUNK,
    END_OF_FILE,
    BUFFERS_FULL,
    RUNS_OUT,
    BAD_LENGTH,
    BAD_INTEGER,
    BAD_TIME,
    BAD_RECORD,
    UNKNOWN_ID,
    NO_TIME,
    NO_EVENT,
    BAD_METRIC,
) = range(12)

# types of fields
U8, C32, C64, S64, TS, F64, STR, U8S, C32S, C64S, IDMAP, VALUE = range(12)

NO_MAP = 255
UNKNOWN_KIND = 255

BUFFER_FLUSH, METRIC = 10, 31
FLUSH_ROOM = 64
"""Events there has to be room for behind a BUFFER_FLUSH, so that it and the event it goes behind come into the same batch."""


@kernel
def load(buffer, at, size, big):
    """Read `size` bytes as an unsigned integer in the file's byte order."""
    # all eight bytes at once, of which the others are shifted out; the padding allows it. An index is unsigned to spare the
    # question whether it counts from the end, a shift is done in halves because 64 is too much for one
    p = np.uint64(at)
    b0, b1 = np.uint64(buffer[p]), np.uint64(buffer[p + np.uint64(1)])
    b2, b3 = np.uint64(buffer[p + np.uint64(2)]), np.uint64(buffer[p + np.uint64(3)])
    b4, b5 = np.uint64(buffer[p + np.uint64(4)]), np.uint64(buffer[p + np.uint64(5)])
    b6, b7 = np.uint64(buffer[p + np.uint64(6)]), np.uint64(buffer[p + np.uint64(7)])
    u8, u16, u24, u32 = np.uint64(8), np.uint64(16), np.uint64(24), np.uint64(32)
    u40, u48, u56 = np.uint64(40), np.uint64(48), np.uint64(56)
    half = np.uint64(32 - 4 * size)
    if big:
        value = b0 << u56 | b1 << u48 | b2 << u40 | b3 << u32 | b4 << u24 | b5 << u16 | b6 << u8 | b7
    else:
        value = b7 << u56 | b6 << u48 | b5 << u40 | b4 << u32 | b3 << u24 | b2 << u16 | b1 << u8 | b0
        value = value << half << half
    return np.int64(value >> half >> half)


@kernel
def load8(buffer, at, big):
    """Read eight bytes in the file's byte order."""
    return load(buffer, at, np.int64(8), big)


@kernel
def translate(value, which, lut, lut_start, lut_size, keys, targets, key_start):
    """Turn a local identifier into a row of its table; -2 if it is not defined."""
    if value == 0xFFFFFFFF or value == -1:
        return np.int64(-1)
    if 0 <= value < lut_size[which]:
        return lut[lut_start[which] + value]
    low, high = key_start[which], key_start[which + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < value:
            low = middle + 1
        else:
            high = middle
    if low < end and keys[low] == value:
        return targets[low]
    return np.int64(-2)


@kernel
def correct(raw, interval, clock_from, clock_offset, clock_slope, clock_until):
    """Apply the clock offset of the interval a time stamp lies in (OTF2 ClockOffset)."""
    n = clock_from.size
    if n == 0:
        return raw, interval
    while interval < n - 1 and raw > clock_until[interval]:
        interval += 1
    return raw + clock_offset[interval] + np.int64(
        np.rint(clock_slope[interval] * (raw - clock_from[interval]))
    ), interval


@kernel
def put_flush_behind(
    flush, last, base, n_sides, n_attributes, kind, region, side_event, side_kind, side_values, attribute_event
):
    """Put a BUFFER_FLUSH behind the events of the same time that follow it: METRICs and the ENTER or LEAVE they belong to.

    Parameters
    ----------
    flush, last : int
        The BUFFER_FLUSH and the ENTER or LEAVE, among the events of the buffers.
    base : int
        Number of the buffers' first event in the location.
    n_sides, n_attributes : int
        How much of the buffers is filled.
    kind, region, side_event, side_kind, side_values, attribute_event
        Changed, see `decode_events`. Attributes keep their order, their events change.
    """
    for i in range(flush, last):
        kind[i], region[i] = kind[i + 1], region[i + 1]
    kind[last], region[last] = BUFFER_FLUSH, -1
    s = n_sides - 1
    while side_event[s] != base + flush:
        s -= 1
    stop_time = side_values[s, 0]
    for i in range(s, n_sides - 1):
        side_event[i], side_kind[i] = side_event[i + 1] - 1, side_kind[i + 1]
        for k in range(6):
            side_values[i, k] = side_values[i + 1, k]
    side_event[n_sides - 1], side_kind[n_sides - 1] = base + last, BUFFER_FLUSH
    for k in range(6):
        side_values[n_sides - 1, k] = 0
    side_values[n_sides - 1, 0] = stop_time
    a = n_attributes
    while a > 0 and attribute_event[a - 1] >= base + flush:
        a -= 1
        is_of_flush = attribute_event[a] == base + flush
        attribute_event[a] = base + last if is_of_flush else attribute_event[a] - 1


@kernel
def decode_events(
    buffer, n, big, state,
    has_length, n_fields, field_type, field_map, value_map,
    lut, lut_start, lut_size, keys, targets, key_start,
    metric_start, metric_is_float, clock_from, clock_offset, clock_slope, clock_until,
    time, kind, region, side_event, side_kind, side_values, extra,
    attribute_event, attribute, attribute_type, attribute_value, unknown,
):  # fmt: skip
    """Decode the records of one chunk of an event file.

    Parameters
    ----------
    buffer : (n + PADDING,) uint8
        The chunk, its header included, and padding.
    n : int
        Bytes of the chunk.
    big : bool
        Byte order of the chunk.
    state : (N_STATE,) int64
        Carried from call to call; `state[POSITION]` is where to go on.
    has_length, n_fields : (256,) uint8
        By record type; `n_fields` is 255 for types that are not known.
    field_type, field_map : (256, 8) uint8
        Types and identifier maps of the fields.
    value_map : (256,) uint8
        Identifier map of an attribute value, by its type.
    lut, lut_start, lut_size, keys, targets, key_start
        Local identifier to row, per map: a table for small identifiers, sorted keys for others.
    metric_start, metric_is_float : (n_sources + 1,) int64, (n_values,) uint8
        The values of each metric class or instance: where they begin in the second, and whether they are floats.
    clock_from, clock_offset, clock_slope, clock_until
        Clock offset intervals: int64, int64, float64, int64; empty without correction.
    time, kind, region : (capacity,) int64, uint8, int32
        Filled: one entry per event.
    side_event, side_kind, side_values : (capacity,) int64, uint8; (capacity, 6) int64
        Filled: one entry per event with attributes.
    extra : (capacity,) int64
        Filled: metric values and program arguments.
    attribute_event, attribute, attribute_type, attribute_value : (capacity,)
        Filled: one entry per attribute of an attribute list.
    unknown : (256,) int64
        Counts of record types that are not known, by type.

    Returns
    -------
    int
        END_OF_CHUNK, END_OF_FILE, BUFFERS_FULL, or what is wrong with the record at `state[FAULT]`.

    Notes
    -----
    Events are in the order of the records, which is that of the program, also where time decreases. The exception is a
    BUFFER_FLUSH: the recorder took the time of an event, found the buffer full, wrote it out, recorded that with the time of the
    event, and then the event. So an ENTER or LEAVE of the same time that follows comes first, with its METRICs.
    """
    q = state[POSITION]
    ne = state[EVENTS]
    ns = state[SIDES]
    nx = state[EXTRAS]
    na = state[ATTRIBUTES]
    base = state[BASE]
    raw = state[RAW_TIME]
    # the last BUFFER_FLUSH, as long as the event that it was recorded in front of may follow; -1 none
    flush = state[FLUSH]
    now = state[TIME]
    interval = state[INTERVAL]
    first = ne - state[CHUNK_EVENTS]
    ends = BAD_RECORD
    detail = np.int64(0)
    list_start = q
    n_regions = lut_size[3]
    regions = lut[lut_start[3] : lut_start[3] + n_regions]
    capacity = time.size
    corrected = clock_from.size > 0
    last_interval = clock_from.size - 1
    since, shift, until = np.int64(0), np.int64(0), np.int64(0)
    slope = 0.0
    if corrected:
        since, shift = clock_from[interval], clock_offset[interval]
        slope, until = clock_slope[interval], clock_until[interval]
    # indices of the inner loop are unsigned, which spares the question whether they count from the end
    safe = np.uint64(0 if big else max(n - 15, 0))
    room, known, one = np.uint64(capacity), np.uint64(n_regions), np.uint64(1)
    while True:
        # almost all records: a time stamp or none, then ENTER or LEAVE of a region with a small identifier. Whatever is
        # unusual, wrong or near the end of chunk or buffers is left to the code below, which takes one record at a time
        p, e = np.uint64(q), np.uint64(ne)
        stop = safe if raw >= 0 and flush < 0 else np.uint64(0)
        limit = until if interval < last_interval else np.int64(0x7FFFFFFFFFFFFFFF)
        while p < stop and e < room:
            code = buffer[p]
            if code == 5:
                stamp = np.int64(
                    np.uint64(buffer[p + np.uint64(1)])
                    | np.uint64(buffer[p + np.uint64(2)]) << np.uint64(8)
                    | np.uint64(buffer[p + np.uint64(3)]) << np.uint64(16)
                    | np.uint64(buffer[p + np.uint64(4)]) << np.uint64(24)
                    | np.uint64(buffer[p + np.uint64(5)]) << np.uint64(32)
                    | np.uint64(buffer[p + np.uint64(6)]) << np.uint64(40)
                    | np.uint64(buffer[p + np.uint64(7)]) << np.uint64(48)
                    | np.uint64(buffer[p + np.uint64(8)]) << np.uint64(56)
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
            if code != 12 and code != 13:
                break
            size = buffer[p + one]
            value = np.uint64(buffer[p + np.uint64(2)])
            if size == 2:
                value |= np.uint64(buffer[p + np.uint64(3)]) << np.uint64(8)
            elif size != 1:
                break
            if value >= known:
                break
            row = regions[value]
            if row < 0:
                break
            time[e] = now
            kind[e] = code
            region[e] = row
            e += one
            p += np.uint64(2) + np.uint64(size)
        q, ne = np.int64(p), np.int64(e)

        if q >= n:
            ends = RUNS_OUT
            break
        start = q
        code = buffer[q]
        if code == 5:
            if q + 9 > n:
                ends = RUNS_OUT
                break
            stamp = load8(buffer, q + 1, big)
            if stamp < 0:
                ends = BAD_TIME
                detail = stamp
                break
            raw = stamp
            now = raw
            if corrected:
                while interval > 0 and raw <= clock_until[interval - 1]:
                    interval -= 1
                while interval < last_interval and raw > clock_until[interval]:
                    interval += 1
                since, shift = clock_from[interval], clock_offset[interval]
                slope, until = clock_slope[interval], clock_until[interval]
                now = raw + shift + np.int64(np.rint(slope * (raw - since)))
            q += 9
            continue
        if code == 0:
            ends = END_OF_CHUNK
            q += 1
            break
        if code == 2:
            ends = END_OF_FILE
            q += 1
            break
        if code == 12 or code == 13:
            if ne >= capacity:
                ends = BUFFERS_FULL
                break
            size = np.int64(buffer[q + 1])
            if size == 1:
                value = np.int64(buffer[q + 2])
            elif size == 255:
                value = np.int64(0xFFFFFFFF)
                size = 0
            elif size <= 4:
                value = load(buffer, q + 2, size, big)
            else:
                ends = BAD_INTEGER
                break
            q += 2 + size
            if q > n:
                ends = RUNS_OUT
                break
            if value < n_regions:
                row = regions[value]
            else:
                row = translate(value, np.int64(3), lut, lut_start, lut_size, keys, targets, key_start)
            if row < 0:
                ends = UNKNOWN_ID
                detail = (value << 8) | 3
                break
            if raw < 0:
                ends = NO_TIME
                break
            time[ne] = now
            kind[ne] = code
            region[ne] = row
            if flush >= 0:
                if time[flush] == now:
                    put_flush_behind(
                        flush, ne, base, ns, na, kind, region, side_event, side_kind, side_values, attribute_event
                    )
                flush = np.int64(-1)
            ne += 1
            continue
        if code < 5 or (code > 6 and code < 10):
            ends = BAD_RECORD
            detail = np.int64(code)
            break

        # every other record; those with a length state it first
        end = n
        q += 1
        if has_length[code]:
            length = np.int64(buffer[q])
            q += 1
            if length == 255:
                length = load8(buffer, q, big)
                q += 8
            if length < 0 or q > n or length > n - q:
                ends = BAD_LENGTH
                detail = length
                break
            end = q + length
        if code == 6:
            size = np.int64(buffer[q])
            if size > 4:
                ends = BAD_INTEGER
                break
            count = load(buffer, q + 1, size, big)
            q += 1 + size
            if count > end - q:
                ends = BAD_LENGTH
                detail = count
                break
            if na == 0 or attribute_event[na - 1] != base + ne:
                list_start = start
            if na + count > attribute.size:
                ends = BUFFERS_FULL
                detail = count
                break
            fine = True
            for i in range(count):
                if q >= end:
                    fine = False
                    break
                size = np.int64(buffer[q])
                if size > 4:
                    fine = False
                    break
                value = load(buffer, q + 1, size, big)
                q += 1 + size
                row = translate(value, np.int64(1), lut, lut_start, lut_size, keys, targets, key_start)
                if row < 0:
                    ends = UNKNOWN_ID
                    detail = (value << 8) | 1
                    fine = False
                    break
                of = buffer[q]
                q += 1
                if of == 1 or of == 5:
                    value = np.int64(buffer[q])
                    if of == 5 and value > 127:
                        value -= 256
                    q += 1
                elif of == 2 or of == 6:
                    value = load(buffer, q, np.int64(2), big)
                    if of == 6 and value > 32767:
                        value -= 65536
                    q += 2
                elif of == 9:
                    value = load(buffer, q, np.int64(4), big)
                    q += 4
                elif of == 10:
                    value = load8(buffer, q, big)
                    q += 8
                elif of == 0 or of > 25:
                    fine = False
                    break
                else:
                    size = np.int64(buffer[q])
                    wide = of == 4 or of == 8 or of == 13
                    if size == 255:
                        value = np.int64(-1) if wide else np.int64(0xFFFFFFFF)
                        size = 0
                    elif size > 8 or (size > 4 and not wide):
                        fine = False
                        break
                    else:
                        value = load(buffer, q + 1, size, big)
                    q += 1 + size
                    if q > end:
                        fine = False
                        break
                    if of == 7 and value > 0x7FFFFFFF:
                        value -= 0x100000000
                    which = np.int64(value_map[of])
                    if which != NO_MAP:
                        local = value
                        value = translate(value, which, lut, lut_start, lut_size, keys, targets, key_start)
                        if value < -1 and of == 13:
                            # a stream of a device that is not defined: an analysis counts such references
                            value = np.int64(-1)
                        elif value < -1:
                            ends = UNKNOWN_ID
                            detail = (local << 8) | np.int64(which)
                            fine = False
                            break
                if q > end:
                    fine = False
                    break
                attribute_event[na + i] = base + ne
                attribute[na + i] = row
                attribute_type[na + i] = of
                attribute_value[na + i] = value
            if not fine:
                break
            na += count
            q = end
            continue

        if ne >= time.size or ns >= side_event.size or nx + 255 > extra.size:
            ends = BUFFERS_FULL
            q = start
            break
        if raw < 0:
            ends = NO_TIME
            break
        if (
            code == BUFFER_FLUSH
            and ne > 0
            and (
                ne + FLUSH_ROOM > time.size
                or ns + FLUSH_ROOM > side_event.size
                or nx + FLUSH_ROOM * 255 > extra.size
                or na + FLUSH_ROOM * 255 > attribute.size
            )
        ):
            ends = BUFFERS_FULL
            q = start
            break
        fields = n_fields[code]
        if fields == 255:
            unknown[code] += 1
            flush = np.int64(-1)
            time[ne] = now
            kind[ne] = UNKNOWN_KIND
            region[ne] = -1
            ne += 1
            q = end
            continue
        fine = True
        for f in range(6):
            if f >= fields:
                side_values[ns, f] = 0
                continue
            of = field_type[code, f]
            if q >= end:
                fine = False
                break
            if of == U8:
                value = np.int64(buffer[q])
                q += 1
            elif of == TS:
                value = load8(buffer, q, big)
                value, _ = correct(value, interval, clock_from, clock_offset, clock_slope, clock_until)
                q += 8
            else:
                size = np.int64(buffer[q])
                if size == 255:
                    value = np.int64(0xFFFFFFFF) if of == C32 else np.int64(-1)
                    size = 0
                elif size > 8 or (of == C32 and size > 4):
                    ends = BAD_INTEGER
                    fine = False
                    break
                else:
                    value = load(buffer, q + 1, size, big)
                q += 1 + size
                if q > end:
                    fine = False
                    break
                which = np.int64(field_map[code, f])
                if which != NO_MAP:
                    local = value
                    value = translate(value, which, lut, lut_start, lut_size, keys, targets, key_start)
                    if value < -1:
                        ends = UNKNOWN_ID
                        detail = (local << 8) | np.int64(which)
                        fine = False
                        break
                elif of == C32 and value == 0xFFFFFFFF:
                    value = np.int64(-1)
            if q > end:
                fine = False
                break
            side_values[ns, f] = value
        if fine and (code == 31 or code == 83):
            # values of a metric, arguments of a program
            count = side_values[ns, 1]
            if count < 0 or count > end - q:
                fine = False
            elif nx + count > extra.size:
                ends = BUFFERS_FULL
                q = start
                detail = count
                break
            else:
                side_values[ns, 2] = nx
                source = side_values[ns, 0]
                if code == 31 and (source < 0 or metric_start[source + 1] - metric_start[source] != count):
                    ends = BAD_METRIC
                    fine = False
                    count = 0
                for i in range(count):
                    if code == 31:
                        if (buffer[q] == 10) != metric_is_float[metric_start[source] + i]:
                            ends = BAD_METRIC
                            fine = False
                            break
                        q += 1
                    size = np.int64(buffer[q])
                    if size == 255:
                        value = np.int64(-1)
                        size = 0
                    elif size > 8 or (code == 83 and size > 4):
                        ends = BAD_INTEGER
                        fine = False
                        break
                    else:
                        value = load(buffer, q + 1, size, big)
                    q += 1 + size
                    if q > end:
                        fine = False
                        break
                    if code == 83:
                        local = value
                        value = translate(value, np.int64(0), lut, lut_start, lut_size, keys, targets, key_start)
                        if value < -1:
                            ends = UNKNOWN_ID
                            detail = local << 8
                            fine = False
                            break
                    extra[nx + i] = value
                if fine:
                    nx += count
        if not fine:
            if ends == BAD_RECORD and not has_length[code]:
                ends = RUNS_OUT
            break
        if code == BUFFER_FLUSH:
            flush = ne
        elif flush >= 0 and (code != METRIC or time[flush] != now or ne - flush > FLUSH_ROOM // 2):
            flush = np.int64(-1)
        side_event[ns] = base + ne
        side_kind[ns] = code
        ns += 1
        time[ne] = now
        kind[ne] = code
        region[ne] = -1
        ne += 1
        if has_length[code]:
            q = end
    # attributes whose event was not reached: read again when there is room, else not kept
    reached = na
    while reached > 0 and attribute_event[reached - 1] == base + ne:
        reached -= 1
    if reached < na:
        if ends == BUFFERS_FULL:
            start = list_start
            if code == 6:
                detail += na - reached
        elif ends == END_OF_CHUNK or ends == END_OF_FILE:
            ends = NO_EVENT
            start = list_start
        na = reached
    state[FAULT] = start
    state[FAULT_DETAIL] = detail
    state[POSITION] = start if ends == BUFFERS_FULL else q
    state[EVENTS] = ne
    state[SIDES] = ns
    state[EXTRAS] = nx
    state[ATTRIBUTES] = na
    state[RAW_TIME] = raw
    state[FLUSH] = flush
    state[TIME] = now
    state[INTERVAL] = interval
    state[CHUNK_EVENTS] = ne - first
    return ends


@kernel
def decode_definitions(buffer, at, n, big, n_fields, field_type, optional_from, values, records):
    """Decode the records of one chunk of a definition file into flat values.

    Parameters
    ----------
    buffer : (n + PADDING,) uint8
        The chunk and padding.
    at, n : int
        Where the records begin and how many bytes the chunk has.
    big : bool
        Byte order.
    n_fields, optional_from : (256,) uint8
        By record type; 255 fields for types that are not known.
    field_type : (256, 12) uint8
        Types of the fields.
    values : (capacity,) int64
        Filled. A field is one value; text is its position and length; a list is its count and its elements;
        an id map is its mode, the count of its numbers and the numbers; an attribute value is its type and its bits.
    records : (capacity, 3) int64
        Filled: type, first value, and position of every record.

    Returns
    -------
    ends : int
        END_OF_CHUNK, END_OF_FILE, BUFFERS_FULL, or what is wrong with the last record.
    n_records, n_values, q : int
        Records and values filled; where decoding stopped.
    """
    q = at
    nr = np.int64(0)
    nv = np.int64(0)
    while True:
        if q >= n:
            return RUNS_OUT, nr, nv, q
        code = buffer[q]
        if code == 0:
            return END_OF_CHUNK, nr, nv, q + 1
        if code == 2:
            return END_OF_FILE, nr, nv, q + 1
        if code < 5:
            return BAD_RECORD, nr, nv, q
        start = q
        q += 1
        length = np.int64(buffer[q])
        q += 1
        if length == 255:
            length = load8(buffer, q, big)
            q += 8
        if length < 0 or q > n or length > n - q:
            return BAD_LENGTH, nr, nv, start
        end = q + length
        # a byte gives at most two values (a text's position and length), besides the counts
        if nr >= records.shape[0] or nv + 2 * length + 64 > values.size:
            return BUFFERS_FULL, nr, nv, start
        records[nr, 0] = code
        records[nr, 1] = nv
        records[nr, 2] = start
        nr += 1
        fields = n_fields[code]
        if fields == 255:
            values[nv] = q
            values[nv + 1] = length
            nv += 2
            q = end
            continue
        count = np.int64(0)
        for f in range(fields):
            of = field_type[code, f]
            if q >= end and f < optional_from[code] and (of < U8S or of > C64S):
                return BAD_RECORD, nr, nv, start
            if q >= end and f >= optional_from[code]:
                # an older writer ended here: absent
                values[nv] = -1
                nv += 1
                if of == VALUE:
                    values[nv] = -1
                    nv += 1
                continue
            if of == U8:
                count = np.int64(buffer[q])
                q += 1
                values[nv] = count
                nv += 1
            elif of == TS or of == F64:
                values[nv] = load8(buffer, q, big)
                q += 8
                nv += 1
            elif of == STR:
                stop = q
                while stop < end and buffer[stop] != 0:
                    stop += 1
                if stop >= end:
                    return BAD_RECORD, nr, nv, start
                values[nv] = q
                values[nv + 1] = stop - q
                nv += 2
                q = stop + 1
            elif of == C32S or of == C64S or of == U8S or of == IDMAP:
                if of == IDMAP:
                    # the count as a compressed number, then the mode: 0 dense, 1 sparse (pairs)
                    size = np.int64(buffer[q])
                    if size > 8:
                        return BAD_INTEGER, nr, nv, start
                    count = load(buffer, q + 1, size, big)
                    q += 1 + size
                    if count < 0 or count > end - q:
                        return BAD_LENGTH, nr, nv, start
                    values[nv] = buffer[q]
                    nv += 1
                    q += 1
                    if values[nv - 1] == 1:
                        count *= 2
                values[nv] = count
                nv += 1
                if count < 0 or count > end - q:
                    return BAD_LENGTH, nr, nv, start
                for _ in range(count):
                    if of == U8S:
                        values[nv] = buffer[q]
                        q += 1
                    else:
                        size = np.int64(buffer[q])
                        if size == 255:
                            values[nv] = 0xFFFFFFFF if of == C32S else -1
                            size = 0
                        elif size > 8:
                            return BAD_INTEGER, nr, nv, start
                        else:
                            values[nv] = load(buffer, q + 1, size, big)
                        q += 1 + size
                    nv += 1
                    if q > end:
                        return BAD_RECORD, nr, nv, start
            else:
                if of == VALUE:
                    of = buffer[q]
                    q += 1
                    values[nv] = of
                    nv += 1
                    if of == 1 or of == 5:
                        size = np.int64(1)
                    elif of == 2 or of == 6:
                        size = np.int64(2)
                    elif of == 9:
                        size = np.int64(4)
                    elif of == 10:
                        size = np.int64(8)
                    else:
                        size = np.int64(-1)
                    of = np.uint8(C64)
                else:
                    size = np.int64(-1)
                if size < 0:
                    size = np.int64(buffer[q])
                    q += 1
                if size == 255:
                    count = np.int64(0xFFFFFFFF) if of == C32 else np.int64(-1)
                elif size > 8 or (of == C32 and size > 4):
                    return BAD_INTEGER, nr, nv, start
                else:
                    count = load(buffer, q, size, big)
                    q += size
                values[nv] = count
                nv += 1
            if q > end:
                return BAD_RECORD, nr, nv, start
        q = end
