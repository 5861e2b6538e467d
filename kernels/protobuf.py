"""Encode the events drawn on a track as packets of Perfetto's trace format.

The numbers are those of the messages in `protos/perfetto/trace` of the Perfetto sources, which never change their
meaning.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
"""Value of an annotation that is absent."""

BEGINS, GOES_ON, ENDS = range(1, 4)
"""Role of an instant in its flow."""


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
def put_two(out, n, value):
    """Write a number below 2**14 in two bytes, even if one would do, so that space for it can be reserved."""
    out[n] = np.uint8(value & 127) | np.uint8(128)
    out[n + 1] = np.uint8(value >> 7)


@kernel
def put_head(out, n, time, what, track, width):
    """Write the begin of all packets of events; space is reserved for their two lengths, of `width` bytes each.

    Keys and values below 128 are bytes. Returns the positions of the lengths, and the one after the last byte written.
    """
    out[n] = PACKET
    packet = n + 1
    n = packet + width
    out[n] = TIMESTAMP
    n = put_varint(out, n + 1, time)
    out[n], out[n + 1] = SEQUENCE, SEQUENCE_NUMBER
    out[n + 2], out[n + 3] = SEQUENCE_FLAGS, NEEDS_STATE
    out[n + 4] = TRACK_EVENT
    event = n + 5
    n = event + width
    out[n], out[n + 1], out[n + 2] = TYPE, what, TRACK
    return packet, event, put_varint(out, n + 3, track)


class Instants(NamedTuple):
    """Instants with annotations, NULL where there is none; value i has the interned name i + 1."""

    name: Any
    """(n_instants,) int32"""
    flow: Any
    """(n_instants,) int64: number of the flow, 0 none."""
    step: Any
    """(n_instants,) uint8: role in its flow, 0 none."""
    values: Any
    """(n_instants, n_values) int64"""
    is_text: Any
    """(n_values,) bool: texts are numbers from 0, as names are."""


@kernel
def encode_events(drawn, instants, start, track, category, out):
    """Encode slices and instants of one track. Return the next one to encode, and the number of bytes written.

    Parameters
    ----------
    drawn : timeline.Drawn
        In nanoseconds.
    instants : Instants
    start : int
        The first to encode.
    track : int
        Its uuid.
    category : (n_names,) int32
        Interned category of every name. Names count from 0, their interned numbers from 1.
    out : (room,) uint8
        Filled.
    """
    time, what, name, mark = drawn
    mark_name, flow, step, values, is_text = instants
    n = 0
    i = start
    while i < time.size:
        m = mark[i]
        if n + ROOM + (ROOM_FOR_VALUE * values.shape[1] if m >= 0 else 0) > out.size:
            break
        # with annotations lengths may need two bytes
        packet, event, n = put_head(out, n, time[i], what[i], track, 2 if m >= 0 else 1)
        known = mark_name[m] if m >= 0 else name[i]
        if known >= 0:
            out[n] = NAME
            n = put_varint(out, n + 1, known + 1)
            out[n] = CATEGORY
            n = put_varint(out, n + 1, category[known])
        if m >= 0:
            if step[m] > 0:
                put_two(out, n, TERMINATING_FLOW if step[m] == ENDS else FLOW)
                n = put_fixed64(out, n + 2, flow[m])
            for v in range(values.shape[1]):
                value = values[m, v]
                if value != NULL:
                    out[n], out[n + 2], out[n + 3] = ANNOTATION, ANNOTATION_NAME, v + 1
                    length = n + 1
                    n += 4
                    if is_text[v]:
                        put_two(out, n, STRING_VALUE)
                        n += 2
                        value += 1
                    else:
                        out[n] = INT_VALUE
                        n += 1
                    n = put_varint(out, n, value)
                    out[length] = n - length - 1
            put_two(out, event, n - event - 2)
            put_two(out, packet, n - packet - 2)
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
        Whether `values` are the bits of doubles.
    track : int
        Its uuid.
    out : (room,) uint8
        Filled.
    """
    n = 0
    for i in range(time.size):
        packet, event, n = put_head(out, n, time[i], TYPE_COUNTER, track, 1)
        put_two(out, n, DOUBLE_COUNTER_VALUE if is_double else COUNTER_VALUE)
        n = put_fixed64(out, n + 2, values[i]) if is_double else put_varint(out, n + 2, values[i])
        out[event] = n - event - 1
        out[packet] = n - packet - 1
    return n
