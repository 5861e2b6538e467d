"""Encode what is drawn on a track as packets of Perfetto's trace format.

The numbers are those of the messages in `protos/perfetto/trace` of the Perfetto sources, which never change their meaning.
"""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel

# how a field is encoded
VARINT, FIXED64, BYTES = 0, 1, 2

# keys of fields: number << 3 | encoding
PACKET = 1 << 3 | BYTES
TIMESTAMP, SEQUENCE, SEQUENCE_FLAGS = 8 << 3 | VARINT, 10 << 3 | VARINT, 13 << 3 | VARINT
TRACK_EVENT = 11 << 3 | BYTES
CATEGORY, ANNOTATION, TYPE, NAME, TRACK = (
    3 << 3 | VARINT,
    4 << 3 | BYTES,
    9 << 3 | VARINT,
    10 << 3 | VARINT,
    11 << 3 | VARINT,
)
COUNTER_VALUE, DOUBLE_COUNTER_VALUE = 30 << 3 | VARINT, 44 << 3 | FIXED64
FLOW, TERMINATING_FLOW = 47 << 3 | FIXED64, 48 << 3 | FIXED64
ANNOTATION_NAME, INT_VALUE, STRING_VALUE = 1 << 3 | VARINT, 4 << 3 | VARINT, 17 << 3 | VARINT

TYPE_COUNTER = 4
SEQUENCE_NUMBER = 1
NEEDS_STATE = 2
"""SEQ_NEEDS_INCREMENTAL_STATE: the packet refers to names that were given before."""

ROOM = 64
"""Bytes that suffice for a packet without annotations."""

ROOM_FOR_VALUE = 24
"""Bytes that suffice for an annotation."""

NULL = -(2**63)
"""Value of an annotation that is not there."""

BEGINS, GOES_ON, ENDS = range(1, 4)
"""What an instant does with its flow."""


@kernel
def put_varint(out, n, value):
    """Write a number, seven bits a byte, the lowest first; a negative one as 64 bits. Returns the place after it."""
    rest = np.uint64(value)
    while rest >= np.uint64(128):
        out[n] = np.uint8(rest & np.uint64(127)) | np.uint8(128)
        rest >>= np.uint64(7)
        n += 1
    out[n] = np.uint8(rest)
    return n + 1


@kernel
def put_fixed64(out, n, value):
    """Write 64 bits, the lowest byte first. Returns the place after them."""
    rest = np.uint64(value)
    for _ in range(8):
        out[n] = np.uint8(rest & np.uint64(255))
        rest >>= np.uint64(8)
        n += 1
    return n


@kernel
def put_field(out, n, key, value):
    """Write a field that is a number."""
    return put_varint(out, put_varint(out, n, key), value)


@kernel
def put_length(out, n, length):
    """Write a length in two bytes, so that the place for it can be left free."""
    out[n] = np.uint8(length & 127) | np.uint8(128)
    out[n + 1] = np.uint8(length >> 7)


@kernel
def encode_events(time, what, name, mark, start, track, category, mark_name, flow, step, values, is_text, out):
    """Encode slices and instants of one track.

    Parameters
    ----------
    time, what, name, mark : (n,) int64, uint8, int32, int64
        What `timeline.draw_events` draws, in nanoseconds.
    start : int
        The first to encode.
    track : int
        Its uuid.
    category : (n_names,) int32
        Interned category of every name. Names count from 0, their interned numbers from 1.
    mark_name, flow, step : (n_marks,) int32, int64, uint8
        Name of every instant; number of its flow and what it does with it, 0 for none.
    values, is_text : (n_marks, n_values), (n_values,) int64, bool
        Annotations, NULL where there is none; value i has the interned name i + 1. Texts are numbers from 0, as names are.
    out : (room,) uint8
        Filled.

    Returns
    -------
    i, n : int
        The next to encode, and the number of bytes written.
    """
    n = 0
    i = start
    while i < time.size:
        m = mark[i]
        if n + ROOM + (ROOM_FOR_VALUE * values.shape[1] if m >= 0 else 0) > out.size:
            break
        # a packet with annotations may need two bytes for its length
        long = 1 if m >= 0 else 0
        out[n] = PACKET
        packet = n + 1
        n = packet + 1 + long
        n = put_field(out, n, TIMESTAMP, time[i])
        n = put_field(out, n, SEQUENCE, SEQUENCE_NUMBER)
        n = put_field(out, n, SEQUENCE_FLAGS, NEEDS_STATE)
        out[n] = TRACK_EVENT
        event = n + 1
        n = event + 1 + long
        n = put_field(out, n, TYPE, what[i])
        n = put_field(out, n, TRACK, track)
        known = mark_name[m] if m >= 0 else name[i]
        if known >= 0:
            n = put_field(out, n, NAME, known + 1)
            n = put_field(out, n, CATEGORY, category[known])
        if m >= 0:
            if step[m] > 0:
                n = put_varint(out, n, TERMINATING_FLOW if step[m] == ENDS else FLOW)
                n = put_fixed64(out, n, flow[m])
            for v in range(values.shape[1]):
                if values[m, v] != NULL:
                    out[n] = ANNOTATION
                    length = n + 1
                    n = put_field(out, length + 1, ANNOTATION_NAME, v + 1)
                    if is_text[v]:
                        n = put_field(out, n, STRING_VALUE, values[m, v] + 1)
                    else:
                        n = put_field(out, n, INT_VALUE, values[m, v])
                    out[length] = n - length - 1
            put_length(out, event, n - event - 2)
            put_length(out, packet, n - packet - 2)
        else:
            out[event] = n - event - 1
            out[packet] = n - packet - 1
        i += 1
    return i, n


@kernel
def encode_samples(time, values, is_double, track, out):
    """Encode the values of a counter track; `out` has ROOM bytes per value. Returns the number of bytes written.

    Parameters
    ----------
    time, values : (n,) int64
        Nanoseconds; the values, or the bits of doubles.
    is_double : bool
        Which of them.
    track : int
        Its uuid.
    out : (room,) uint8
        Filled.
    """
    n = 0
    for i in range(time.size):
        out[n] = PACKET
        packet = n + 1
        n = put_field(out, packet + 1, TIMESTAMP, time[i])
        n = put_field(out, n, SEQUENCE, SEQUENCE_NUMBER)
        n = put_field(out, n, SEQUENCE_FLAGS, NEEDS_STATE)
        out[n] = TRACK_EVENT
        event = n + 1
        n = put_field(out, event + 1, TYPE, TYPE_COUNTER)
        n = put_field(out, n, TRACK, track)
        if is_double:
            n = put_fixed64(out, put_varint(out, n, DOUBLE_COUNTER_VALUE), values[i])
        else:
            n = put_field(out, n, COUNTER_VALUE, values[i])
        out[event] = n - event - 1
        out[packet] = n - packet - 1
    return n
