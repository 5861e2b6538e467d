"""Convert ordered intervals to the events of a location: ENTER and EXIT of properly nested regions, and the events of
the operations that some intervals represent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.converters.buffers import N_VALUES, Events, Sides
from tracecols.kernels.kernel import kernel, part
from tracecols.schema import EventKind as K

(AT, N_EVENTS, N_SIDES, N_ATTRIBUTES, DEPTH, BASE, LAST, N_CUT, LONGEST_CUT, CUT, STATE) = range(11)
"""State of writing: the next interval; numbers of events, events with values and attributes in the buffers; number of
open regions; number of the first event in the buffers; time of the last event; number of intervals that partly
overlapped others, and the maximum and the sum of the times by which they were cut or moved because of that."""


CALLS, KERNELS, NESTED = range(3)
"""Types of intervals: calls of a thread and kernels of a stream, which may overlap in inexact recordings; or intervals
that enclose or follow each other already."""


class Extra(NamedTuple):
    """Events of the operations that intervals represent, besides ENTER and EXIT."""

    start: NDArray[np.int64]
    """(n_operations + 1,): start of the events of each operation."""
    at_end: NDArray[np.uint8]
    """(n,): whether an event comes before the EXIT; else after the ENTER."""
    kind: NDArray[np.uint8]
    """(n,): `EventKind`."""
    values: NDArray[np.int64]
    """(n, N_VALUES): in the order of `sides.VALUES`."""
    region: NDArray[np.int32]
    """(n_operations,): region of the operation; -1: that of the interval."""

    @classmethod
    def none(cls, n: int) -> Extra:
        """Return an `Extra` for n operations without events."""
        nothing = np.zeros(0, np.uint8)
        return cls(
            np.zeros(n + 1, np.int64), nothing, nothing, np.zeros((0, N_VALUES), np.int64), np.full(n, -1, np.int32)
        )


@dataclass
class OperationEvents:
    """Events of operations, to be collected into `Extra`."""

    parts: list[tuple[NDArray[np.int64], ...]] = field(default_factory=list)
    """Arrays: number of the operation, whether before the EXIT, kind, values."""

    def add_many(self, operations: NDArray[np.int64], at_end: bool, kind: K, *columns: NDArray[np.int64]) -> None:
        """Add one event to each of the given operations."""
        n = operations.size
        values = np.full((n, N_VALUES), -1, np.int64)
        for k, column in enumerate(columns):
            values[:, k] = column
        self.parts.append((operations, np.full(n, int(at_end)), np.full(n, int(kind)), values))

    def add_collectives(self, operations: NDArray[np.int64], *columns: NDArray[np.int64]) -> None:
        """Add the events of collective operations; columns are those of `sides.VALUES`."""
        self.add_many(operations, False, K.MPI_COLLECTIVE_BEGIN)
        self.add_many(operations, True, K.MPI_COLLECTIVE_END, *columns)

    def extra(self, region: NDArray[np.int32]) -> Extra:
        """Return the events by operation; those of one operation are in the order in which they were added.

        Parameters
        ----------
        region : (n_operations,) int32
            See `Extra`.
        """
        none = Extra.none(0)
        operation, at_end, kind, values = (
            np.concatenate([nothing, *columns])
            for nothing, columns in zip(
                (none.start[:0], none.at_end, none.kind, none.values),
                zip(*self.parts, strict=True) if self.parts else [()] * 4,
                strict=True,
            )
        )
        order = np.argsort(operation, kind="stable")
        start = np.searchsorted(operation[order], np.arange(region.size + 1)).astype(np.int64)
        return Extra(start, at_end[order].astype(np.uint8), kind[order].astype(np.uint8), values[order], region)


class Intervals(NamedTuple):
    """Intervals of a location, in order."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    """`begin` and `end`: (n,)"""
    region: NDArray[np.int32]
    """(n,)"""
    operation: NDArray[np.int64]
    """(n,): -1 none."""
    attributes: NDArray[np.int64]
    """(n_attributes, n): -1 none."""


class Rules(NamedTuple):
    """Rules for converting the intervals of a location to events."""

    are: int
    """Type of the intervals: `CALLS`, `KERNELS` or `NESTED`."""
    last: int
    """Latest end of intervals, and the end of open ones."""
    keeps: NDArray[np.uint8]
    """(n_regions,): 1 for regions of kernels that are not shortened; of `KERNELS` only."""
    extra: Extra


class Stack(NamedTuple):
    """Stack of open regions."""

    end: NDArray[np.int64]
    """(capacity,): time at which each ends."""
    region: NDArray[np.int32]
    """(capacity,)"""
    operation: NDArray[np.int64]
    """(capacity,)"""


class Attributes(NamedTuple):
    """Attributes of ENTER events."""

    event: NDArray[np.int64]
    """(capacity,): number of the event in its location."""
    which: NDArray[np.int32]
    """(capacity,): index in `ATTRIBUTES`."""
    value: NDArray[np.int64]
    """(capacity,)"""


class Out(NamedTuple):
    """Output buffers."""

    events: Events
    sides: Sides
    attributes: Attributes
    """Attributes of ENTER events."""


@part
def _write_extra(operation, at_end, time, extra, out, state):
    """Write the events of an operation after its ENTER, or before its EXIT."""
    if operation < 0:
        return
    events, sides = out.events, out.sides
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
def _leave(stack, extra, out, state):
    """Leave the innermost region."""
    d = state[DEPTH] - 1
    time = stack.end[d]
    _write_extra(stack.operation[d], 1, time, extra, out, state)
    n = state[N_EVENTS]
    out.events.time[n] = time
    out.events.kind[n] = K.EXIT
    out.events.region[n] = stack.region[d]
    state[N_EVENTS] += 1
    state[DEPTH] = d
    state[LAST] = time


@part
def _cut(stack, begin, end, rules, state):
    """Fit an interval to the innermost open one, which ends after the interval begins.

    Calls of a thread end with the enclosing one. A stream executes one kernel after the other: the earlier one ends
    when the next begins; but if the earlier one is kept (of a collective operation), the later one begins when it ends.
    """
    d = state[DEPTH] - 1
    top = stack.end[d]
    moved = 0
    if rules.are == CALLS:
        if end > top:
            moved = end - top
            end = top
    elif rules.keeps[stack.region[d]]:
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


@part
def _needed(operation, stack, extra, state):
    """Return an upper bound for the events of an interval, including those of the intervals that it ends."""
    needed = 2
    for d in range(state[DEPTH]):
        of = stack.operation[d]
        needed += 1 + (extra.start[of + 1] - extra.start[of] if of >= 0 else 0)
    return needed + (extra.start[operation + 1] - extra.start[operation] if operation >= 0 else 0)


@part
def _enter(i, begin, end, intervals, extra, stack, out, state):
    """Enter the region of an interval."""
    operation, region = intervals.operation[i], intervals.region[i]
    if operation >= 0 and extra.region[operation] >= 0:
        region = extra.region[operation]
    n, d = state[N_EVENTS], state[DEPTH]
    out.events.time[n] = begin
    out.events.kind[n] = K.ENTER
    out.events.region[n] = region
    state[N_EVENTS] += 1
    state[LAST] = begin
    stack.end[d], stack.region[d], stack.operation[d] = end, region, operation
    state[DEPTH] += 1
    for a in range(intervals.attributes.shape[0]):
        if intervals.attributes[a, i] >= 0:
            m = state[N_ATTRIBUTES]
            out.attributes.event[m] = state[BASE] + n
            out.attributes.which[m] = a
            out.attributes.value[m] = intervals.attributes[a, i]
            state[N_ATTRIBUTES] += 1
    _write_extra(operation, 0, begin, extra, out, state)


@kernel
def write_events(intervals, rules, stack, out, state):
    """Write the ENTER and EXIT events of intervals, from `state[AT]` on; return whether all are written, else the
    buffers or the stack are full.

    Parameters
    ----------
    intervals : Intervals
    rules : Rules
    stack : Stack
    out : Out
    state : (STATE,) int64
    """
    extra = rules.extra
    while state[AT] < intervals.begin.size:
        i = state[AT]
        if state[N_EVENTS] + _needed(intervals.operation[i], stack, extra, state) > out.events.time.size:
            return False
        if state[N_ATTRIBUTES] + 4 > out.attributes.event.size or state[DEPTH] == stack.end.size:
            return False
        begin, end = max(intervals.begin[i], state[LAST]), min(intervals.end[i], rules.last)
        end = max(end, begin)
        # a call of zero duration is inside the calls that end at its time
        until = begin if rules.are != CALLS or end > begin else begin - 1
        while state[DEPTH] and stack.end[state[DEPTH] - 1] <= until:
            _leave(stack, extra, out, state)
        if state[DEPTH] and rules.are != NESTED:
            begin, end = _cut(stack, begin, end, rules, state)
            until = begin if rules.are == KERNELS else until
            while state[DEPTH] and stack.end[state[DEPTH] - 1] <= until:
                _leave(stack, extra, out, state)
        _enter(i, begin, end, intervals, extra, stack, out, state)
        state[AT] += 1
    return True


@kernel
def leave_all(extra, stack, out, state):
    """Leave all open regions; return whether there was room for all events."""
    while state[DEPTH]:
        operation = stack.operation[state[DEPTH] - 1]
        needed = 1 + (extra.start[operation + 1] - extra.start[operation] if operation >= 0 else 0)
        if state[N_EVENTS] + needed > out.events.time.size:
            return False
        _leave(stack, extra, out, state)
    return True
