"""From the slices of a location to columns of events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part
from tracecols.schema.kinds import EventKind

(NEXT, DEPTH, N_EVENTS, N_ATTRIBUTES, N_OPERATIONS, BASE, DECODE_STATE) = range(7)
"""State of a decoding."""

ENTER, EXIT, BEGIN, DONE, SEND, RECEIVE = (
    int(k)
    for k in (
        EventKind.ENTER, EventKind.EXIT, EventKind.MPI_COLLECTIVE_BEGIN, EventKind.MPI_COLLECTIVE_END,
        EventKind.MPI_SEND, EventKind.MPI_RECV,
    )
)  # fmt: skip

PER_SLICE = 4
"""Most events of a slice."""


class Located(NamedTuple):
    """The slices of a location, ordered, each within one before it or after it.

    Attributes
    ----------
    begin, end : (n,) int64
    name : (n,) int32
        Number among the names of the file.
    correlation, size : (n,) int64
        -1 none.
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    name: NDArray[np.int32]
    correlation: NDArray[np.int64]
    size: NDArray[np.int64]


class Performed(NamedTuple):
    """The operations between processes of a location.

    Attributes
    ----------
    slice : (n,) int64
        Which slices they are, ascending.
    region : (n,) int32
        Their regions.
    kind : (n,) uint8
        `EventKind` of the event at their end or, of a SEND, at their begin; 0 for those that are not joined.
    """

    slice: NDArray[np.int64]
    region: NDArray[np.int32]
    kind: NDArray[np.uint8]


class Given(NamedTuple):
    """Attributes of events.

    Attributes
    ----------
    event : (capacity,) int64
        Number of the event in its location.
    attribute : (capacity,) int32
    value : (capacity,) int64
    """

    event: NDArray[np.int64]
    attribute: NDArray[np.int32]
    value: NDArray[np.int64]


class Joined(NamedTuple):
    """Events of operations between processes.

    Attributes
    ----------
    event : (capacity,) int64
        Number of the event in its location.
    kind : (capacity,) uint8
    operation : (capacity,) int64
        Number among the operations of the location.
    """

    event: NDArray[np.int64]
    kind: NDArray[np.uint8]
    operation: NDArray[np.int64]


@part
def put(time, kind, region, events, state):
    """Put an event after the others."""
    e = state[N_EVENTS]
    events.time[e], events.kind[e], events.region[e] = time, kind, region
    state[N_EVENTS] = e + 1


@part
def give(attribute, value, given, state):
    """Give an attribute to the event that comes next."""
    a = state[N_ATTRIBUTES]
    given.event[a], given.attribute[a], given.value[a] = state[BASE] + state[N_EVENTS], attribute, value
    state[N_ATTRIBUTES] = a + 1


@part
def put_operation(time, kind, operation, events, joined, state):
    """Put an event of an operation after the others."""
    o = state[N_OPERATIONS]
    joined.event[o], joined.kind[o], joined.operation[o] = state[BASE] + state[N_EVENTS], kind, operation
    state[N_OPERATIONS] = o + 1
    put(time, kind, -1, events, state)


@part
def operation_of(s, performed):
    """Return the number of the operation that a slice is; -1 if it is none."""
    low, high = 0, performed.slice.size
    while low < high:
        middle = (low + high) >> 1
        if performed.slice[middle] < s:
            low = middle + 1
        else:
            high = middle
    return low if low < performed.slice.size and performed.slice[low] == s else -1


@part
def leave(located, performed, regions, stack, events, joined, state):
    """Leave the innermost slice."""
    d = state[DEPTH] - 1
    s = stack[d]
    state[DEPTH] = d
    region, k = regions[located.name[s]], operation_of(s, performed)
    if k >= 0:
        region = performed.region[k]
        if performed.kind[k] == DONE or performed.kind[k] == RECEIVE:
            put_operation(located.end[s], performed.kind[k], k, events, joined, state)
    put(located.end[s], EXIT, region, events, state)


@kernel
def decode_slices(located, performed, regions, correlation, size, stack, events, given, joined, state):
    """Make the events of slices as long as there is room in the buffers.

    Parameters
    ----------
    regions : (n_names,) int32
        Region of each name.
    correlation, size : int
        The attributes of both.
    stack : (depth,) int64
        Slices that are open.
    state : (DECODE_STATE,) int64
        Zeros at first.

    Returns
    -------
    bool
        Whether all slices are done.
    """
    n, room = located.begin.size, events.time.size
    while True:
        i, depth = state[NEXT], state[DEPTH]
        if state[N_EVENTS] + PER_SLICE > room:
            return False
        if depth > 0 and (i >= n or located.end[stack[depth - 1]] <= located.begin[i]):
            leave(located, performed, regions, stack, events, joined, state)
            continue
        if i >= n:
            return True
        region, k = regions[located.name[i]], operation_of(i, performed)
        if k >= 0:
            region = performed.region[k]
        if located.correlation[i] >= 0:
            give(correlation, located.correlation[i], given, state)
        if located.size[i] >= 0:
            give(size, located.size[i], given, state)
        put(located.begin[i], ENTER, region, events, state)
        if k >= 0 and performed.kind[k] == DONE:
            put_operation(located.begin[i], BEGIN, k, events, joined, state)
        elif k >= 0 and performed.kind[k] == SEND:
            put_operation(located.begin[i], SEND, k, events, joined, state)
        stack[depth] = i
        state[DEPTH] = depth + 1
        state[NEXT] = i + 1


@kernel
def depth_of(begin, end, stack):
    """Return how many slices are open at most."""
    depth, most = 0, 0
    for i in range(begin.size):
        while depth > 0 and stack[depth - 1] <= begin[i]:
            depth -= 1
        stack[depth] = end[i]
        depth += 1
        most = max(most, depth)
    return most
