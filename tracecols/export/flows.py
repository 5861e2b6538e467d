"""Instants of communication, and the flows that join them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import ends_run, starts_run
from tracecols.kernels.protobuf import BEGINS, ENDS, GOES_ON, NULL
from tracecols.model.model import Model
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.vectors import Ints

LAUNCHES, KERNEL_BEGINS, ASKS_FOR_COPY, COPY = range(4)
DEVICE_NAMES = (
    "launch", "kernel begins", "copy asked for", "copy", "copy to device", "copy to host", "copy within devices",
)  # fmt: skip
"""Names of instants and slices of devices; copies by direction (`schema.compound.COPIES`) after COPY."""

Holds = Callable[[NDArray[np.int32], NDArray[np.int64]], NDArray[np.bool_]]
Nanoseconds = Callable[[NDArray[np.int64]], NDArray[np.int64]]

DETAILS = (
    "to", "from", "tag", "bytes", "communicator", "root", "sent", "received", "cause", "call path", "reason",
)  # fmt: skip
"""Details of instants: peer rank, tag and length of a message; root and bytes of a collective operation; location and
call path that cause a wait state; the reason why the critical path moves to a location."""

TEXTS = ("communicator", "cause", "call path", "reason")
"""Details that are texts (`tracecols.export.timeline.Timeline.texts`)."""


@dataclass
class Instants:
    """Instants of a track: moments with details, some of them joined by flows."""

    name: NDArray[np.int32]
    """(n,): position in `Timeline.names`."""
    flow: NDArray[np.int64]
    step: NDArray[np.uint8]
    """`flow` and `step`: (n,) int64, uint8, number of the flow, and whether it begins, continues or ends here
    (`tracecols.kernels.protobuf`); 0 none."""
    values: NDArray[np.int64]
    """(n, n_details): `DETAILS`; NULL where there is none."""

    @classmethod
    def none(cls, n: int = 0) -> Instants:
        """Return `n` instants without details, to be filled."""
        values = np.full((n, len(DETAILS)), NULL, np.int64)
        return cls(np.zeros(n, np.int32), np.zeros(n, np.int64), np.zeros(n, np.uint8), values)

    def take(self, rows: NDArray[np.int64]) -> Instants:
        """Return some instants in another order."""
        return Instants(self.name[rows], self.flow[rows], self.step[rows], self.values[rows])

    def fill(self, detail: str, values: NDArray[Any]) -> None:
        """Set a detail of all instants; -1 is null."""
        known = values.astype(np.int64)
        self.values[:, DETAILS.index(detail)] = np.where(known == -1, NULL, known)


@dataclass
class Copies:
    """Copies by stream, in order of their begins: ticks, direction, bytes, and the number of the flow, 0 for none."""

    location: NDArray[Any]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    direction: NDArray[Any]
    bytes: NDArray[np.int64]
    flow: NDArray[np.int64]


class EventInstants(NamedTuple):
    """Instants of some kind, by the rows of their events, ascending."""

    row: Ints
    name: NDArray[Any]
    """(n,): number among the names of the kind."""
    flow: Ints
    step: NDArray[np.uint8]
    """`flow` and `step`: as of `Instants`."""
    details: dict[str, NDArray[Any]]
    """By name in `DETAILS`, (n,) each."""

    def between(self, start: int, stop: int, first_name: int) -> tuple[Ints, Instants]:
        """Return the rows from `start` to before `stop`, and their instants; `first_name` is the position of the first
        name of the kind in `Timeline.names`."""
        here = slice(*np.searchsorted(self.row, [start, stop]).tolist())
        instants = Instants.none(here.stop - here.start)
        instants.name[:] = first_name + self.name[here]
        instants.flow[:], instants.step[:] = self.flow[here], self.step[here]
        for name, values in self.details.items():
            instants.fill(name, values[here])
        return self.row[here], instants


NOTHING = np.zeros(0, np.int64)
NO_INSTANTS = EventInstants(NOTHING, NOTHING, NOTHING, NOTHING.astype(np.uint8), {})


class Flows:
    """The flows of a time range, by the rows of the events they join; `n` is an upper bound of their numbers.

    `arrivals` are instants of collective operations, `requests` of launches, begins of kernels and calls that copy.
    `holds(location, ticks)` is a mask of the events that are shown; `ns` turns ticks into nanoseconds of the timeline.
    """

    def __init__(self, holds: Holds, ns: Nanoseconds, model: Model | None) -> None:
        self._p2p = NOTHING, NOTHING, NO_INSTANTS.step
        self.arrivals = self.requests = NO_INSTANTS
        self.copies = Copies(*(NOTHING,) * 6)
        self.n = 0
        if model is not None:
            self._p2p = _messages(holds, ns, model)
            n_messages = len(model.messages)
            self.arrivals = _arrivals(holds, ns, model, n_messages + 1)
            first = n_messages + len(model.collectives) + 1
            self.requests, self.copies = _requests(holds, ns, model, first)
            self.n = first + len(model.kernels) + len(model.copies)

    def of_p2p(self, rows: Ints) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the flow and step of sends and receives by row; 0 none."""
        keys, flow, step = self._p2p
        result = np.zeros(rows.size, np.int64), np.zeros(rows.size, np.uint8)
        if keys.size and rows.size:
            at = np.minimum(np.searchsorted(keys, rows), keys.size - 1)
            found = np.flatnonzero(keys[at] == rows)
            result[0][found], result[1][found] = flow[at[found]], step[at[found]]
        return result


def _messages(holds: Holds, ns: Nanoseconds, model: Model) -> tuple[Ints, Ints, NDArray[np.uint8]]:
    """Return the rows of sends and receives, ascending, their flows, numbered from 1, and their steps."""
    m = model.messages
    # late events are drawn at the times by which they are ordered
    sent, received = model.order.time(m.send, m.send_time), model.order.time(m.recv, m.recv_time)
    number = np.flatnonzero(holds(m.send_location, sent) & holds(m.recv_location, received))
    rows = np.concatenate([m.send[number], m.recv[number]])
    time = ns(np.concatenate([sent[number], received[number]]))
    # a flow begins at the earlier event, even if that is the receive because of inaccurate clocks
    n = number.size
    forward = (time[:n] < time[n:]) | ((time[:n] == time[n:]) & (rows[:n] < rows[n:]))
    step = np.where(np.concatenate([forward, ~forward]), BEGINS, ENDS).astype(np.uint8)
    order = np.argsort(rows)
    return rows[order], np.tile(number + 1, 2)[order], step[order]


def _arrivals(holds: Holds, ns: Nanoseconds, model: Model, first: int) -> EventInstants:
    """Return the arrivals at collective operations, whose flows are numbered from `first`."""
    c = model.collective_members
    has_call = c.enter >= 0
    # a location in no region arrives at the end of the operation
    row = np.where(has_call, c.enter, c.end)
    time = model.order.time(row, np.where(has_call, c.enter_time, c.end_time))
    at = np.flatnonzero(holds(c.location, time))
    order = np.lexsort((row[at], ns(time[at]), c.collective[at]))
    of = c.collective[at][order]
    is_first, is_last = starts_run(of), ends_run(of)
    step = np.empty(at.size, np.uint8)
    step[order] = np.where(is_first & is_last, 0, np.where(is_first, BEGINS, np.where(is_last, ENDS, GOES_ON)))
    by_row = np.argsort(row[at], kind="stable")
    member, step = at[by_row], step[by_row]
    operation, op = c.collective[member], c.op[member]
    details = {
        "communicator": model.collectives.communicator[operation],
        "root": model.collectives.root[operation],
        "sent": c.sent[member],
        "received": c.received[member],
    }
    name = np.where((op >= 0) & (op < len(COLLECTIVE_OPS)), op, -1)
    return EventInstants(row[member], name, np.where(step > 0, first + operation, 0), step, details)


def _requests(holds: Holds, ns: Nanoseconds, model: Model, first: int) -> tuple[EventInstants, Copies]:
    """Join launches with their kernels, and calls that request copies with the copies, by flows numbered from
    `first`."""
    k, c = model.kernels, model.copies
    begin = [ns(k.enter_time), ns(c.begin_time)]
    asked = [ns(k.launch_enter_time), ns(c.copy_enter_time)]
    whole = [
        (k.launch_enter >= 0) & holds(k.location, k.enter_time) & holds(k.launch_location, k.launch_enter_time),
        (c.copy_enter >= 0) & holds(c.location, c.begin_time) & holds(c.copy_location, c.copy_enter_time),
    ]
    # no flow if, because of inaccurate clocks, the request is later than the begin
    kernels, copies = (w & (a <= b) for w, a, b in zip(whole, asked, begin, strict=True))
    flow_of_kernel = first + np.flatnonzero(kernels)
    flow_of_copy = np.where(copies, first + len(k) + np.arange(len(c)), 0)
    rows = [k.launch_enter[kernels], k.enter[kernels], c.copy_enter[copies]]
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    name = np.repeat([LAUNCHES, KERNEL_BEGINS, ASKS_FOR_COPY], [r.size for r in rows])[order]
    flow = np.concatenate([flow_of_kernel, flow_of_kernel, flow_of_copy[copies]])[order]
    step = np.where(name == KERNEL_BEGINS, ENDS, BEGINS).astype(np.uint8)
    by_stream = np.lexsort((-c.end_time, c.begin_time, c.location))
    columns = (c.location, c.begin_time, c.end_time, c.direction, c.bytes, flow_of_copy)
    return EventInstants(row[order], name, flow, step, {}), Copies(*(values[by_stream] for values in columns))
