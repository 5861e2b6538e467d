"""From intervals in order to the events of a location: ENTER and EXIT of regions that enclose or follow each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.buffers import N_VALUES
from tracecols.kernels.kernel import kernel, part
from tracecols.schema import EventKind as K

(AT, N_EVENTS, N_SIDES, N_ATTRIBUTES, DEPTH, BASE, LAST, N_CUT, LONGEST_CUT, CUT, STATE) = range(11)
"""State of writing: the interval that is next; events, events with attributes and attributes in the buffers; regions
that are open; the number of the first event in the buffers; the time of the last event; how many intervals overlapped
others without being inside of them, and the longest time and the sum of all times that was cut off or moved because of
that."""


class Extra(NamedTuple):
    """Events of the operations that intervals stand for, besides ENTER and EXIT.

    Attributes
    ----------
    start : (n_operations + 1,) int64
        Where those of each operation begin.
    at_end : (n,) uint8
        Whether an event comes before the EXIT; else after the ENTER.
    kind : (n,) uint8
        `EventKind`.
    values : (n, N_VALUES) int64
        In the order that the converter declares for the kind.
    region : (n_operations,) int32
        Region of the operation where that is not known from the interval alone; -1 that of the interval.
    """

    start: NDArray[np.int64]
    at_end: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    values: NDArray[np.int64]
    region: NDArray[np.int32]

    @classmethod
    def none(cls, n: int) -> Extra:
        """Return that of operations without events."""
        nothing = np.zeros(0, np.uint8)
        return cls(
            np.zeros(n + 1, np.int64), nothing, nothing, np.zeros((0, N_VALUES), np.int64), np.full(n, -1, np.int32)
        )


class Stack(NamedTuple):
    """Regions that are open.

    Attributes
    ----------
    end : (capacity,) int64
        When each ends.
    region : (capacity,) int32
    operation : (capacity,) int64
    """

    end: NDArray[np.int64]
    region: NDArray[np.int32]
    operation: NDArray[np.int64]


class Attributes(NamedTuple):
    """Attributes of ENTERs.

    Attributes
    ----------
    event : (capacity,) int64
        Number of the event in its location.
    which : (capacity,) int32
        Place in `ATTRIBUTES`.
    value : (capacity,) int64
    """

    event: NDArray[np.int64]
    which: NDArray[np.int32]
    value: NDArray[np.int64]


@part
def _write_extra(operation, at_end, time, extra, events, sides, state):
    """Write the events of an operation after its ENTER, or before its EXIT."""
    if operation < 0:
        return
    for k in range(extra.start[operation], extra.start[operation + 1]):
        if extra.at_end[k] == at_end:
            n, m = state[N_EVENTS], state[N_SIDES]
            events.time[n] = time
            events.kind[n] = extra.kind[k]
            events.region[n] = -1
            sides.event[m] = state[BASE] + n
            sides.kind[m] = extra.kind[k]
            for c in range(sides.values.shape[1]):
                sides.values[m, c] = extra.values[k, c]
            state[N_EVENTS] += 1
            state[N_SIDES] += 1


@part
def _leave(stack, extra, events, sides, state):
    """Leave the innermost region."""
    d = state[DEPTH] - 1
    time = stack.end[d]
    _write_extra(stack.operation[d], 1, time, extra, events, sides, state)
    n = state[N_EVENTS]
    events.time[n] = time
    events.kind[n] = K.EXIT
    events.region[n] = stack.region[d]
    state[N_EVENTS] += 1
    state[DEPTH] = d
    state[LAST] = time


@part
def _cut(stack, begin, end, is_stream, keeps, state):
    """Make an interval fit to the innermost open one, which ends after it begins.

    Calls of a thread end with the one around them. A stream executes one kernel after the other: the earlier one ends
    where the next begins; if it is one that is kept (of a collective operation), the later one begins where it ends.
    """
    d = state[DEPTH] - 1
    top = stack.end[d]
    moved = 0
    if not is_stream:
        if end > top:
            moved = end - top
            end = top
    elif keeps[stack.region[d]]:
        moved = top - begin
        begin = top
        end = max(end, begin)
    else:
        moved = top - begin
        stack.end[d] = begin
    if moved:
        state[N_CUT] += 1
        state[CUT] += moved
        state[LONGEST_CUT] = max(state[LONGEST_CUT], moved)
    return begin, end


@kernel
def write_events(
    begins, ends, regions, operations, attributes, last, is_stream, keeps, extra, stack, events, sides, found, state
):
    """Write ENTERs and EXITs of intervals in order, from `state[AT]`; returns whether all are written, else the buffers
    or the stack are full.

    Parameters
    ----------
    begins, ends : (n,) int64
    regions : (n,) int32
    operations : (n,) int64
    attributes : (4, n) int64
        -1 none.
    last : int
        End of intervals that have none.
    is_stream : bool
    keeps : (n_regions,) uint8
        Regions of kernels that are not shortened.
    """
    capacity = events.time.size
    while state[AT] < begins.size:
        i = state[AT]
        operation = operations[i]
        needed = 2
        for d in range(state[DEPTH]):
            of = stack.operation[d]
            needed += 1 + (extra.start[of + 1] - extra.start[of] if of >= 0 else 0)
        needed += extra.start[operation + 1] - extra.start[operation] if operation >= 0 else 0
        if state[N_EVENTS] + needed > capacity or state[N_ATTRIBUTES] + 4 > found.event.size:
            return False
        if state[DEPTH] == stack.end.size:
            return False
        begin, end = max(begins[i], state[LAST]), min(ends[i], last)
        end = max(end, begin)
        # on a thread what lasts no time is inside of what ends then
        until = begin if is_stream or end > begin else begin - 1
        while state[DEPTH] and stack.end[state[DEPTH] - 1] <= until:
            _leave(stack, extra, events, sides, state)
        if state[DEPTH]:
            begin, end = _cut(stack, begin, end, is_stream, keeps, state)
            until = begin if is_stream else until
            while state[DEPTH] and stack.end[state[DEPTH] - 1] <= until:
                _leave(stack, extra, events, sides, state)
        region = regions[i]
        if operation >= 0 and extra.region[operation] >= 0:
            region = extra.region[operation]
        n, d = state[N_EVENTS], state[DEPTH]
        events.time[n] = begin
        events.kind[n] = K.ENTER
        events.region[n] = region
        state[N_EVENTS] += 1
        state[LAST] = begin
        stack.end[d], stack.region[d], stack.operation[d] = end, region, operation
        state[DEPTH] += 1
        for a in range(attributes.shape[0]):
            if attributes[a, i] >= 0:
                m = state[N_ATTRIBUTES]
                found.event[m] = state[BASE] + n
                found.which[m] = a
                found.value[m] = attributes[a, i]
                state[N_ATTRIBUTES] += 1
        _write_extra(operation, 0, begin, extra, events, sides, state)
        state[AT] += 1
    return True


@kernel
def leave_all(extra, stack, events, sides, state):
    """Leave all regions that are open; returns whether there was room for that."""
    while state[DEPTH]:
        operation = stack.operation[state[DEPTH] - 1]
        needed = 1 + (extra.start[operation + 1] - extra.start[operation] if operation >= 0 else 0)
        if state[N_EVENTS] + needed > events.time.size:
            return False
        _leave(stack, extra, events, sides, state)
    return True
