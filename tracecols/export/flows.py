"""Instants of communication, and the flows that join them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import ends_run, starts_run
from tracecols.kernels.protobuf import BEGINS, ENDS, GOES_ON, NULL
from tracecols.model.model import Model
from tracecols.schema.enums import COLLECTIVE_OPS

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


class Flows:
    """The flows of a time range, by the rows of the events they join; `n` is an upper bound of their numbers.

    `holds(location, ticks)` is a mask of the events that are shown; `ns` turns ticks into nanoseconds of the timeline.
    """

    def __init__(self, holds: Holds, ns: Nanoseconds, model: Model | None) -> None:
        nothing, no_steps = np.zeros(0, np.int64), np.zeros(0, np.uint8)
        self._p2p = nothing, nothing, no_steps
        self._row, self._op, self._flow, self._step = nothing, nothing, nothing, no_steps
        self._details: dict[str, NDArray[Any]] = {}
        self._device_row, self._device_name, self._device_flow, self._device_step = nothing, nothing, nothing, no_steps
        self.copies = Copies(nothing, nothing, nothing, nothing, nothing, nothing)
        self.n = 0
        if model is None:
            return
        self._messages(holds, ns, model)
        self._collectives(holds, ns, model)
        self._devices(holds, ns, model)

    def _messages(self, holds: Holds, ns: Nanoseconds, model: Model) -> None:
        m = model.messages
        # late events are drawn at the times by which they are ordered
        sent, received = model.order.time(m.send, m.send_time), model.order.time(m.recv, m.recv_time)
        whole = holds(m.send_location, sent) & holds(m.recv_location, received)
        number = np.flatnonzero(whole)
        rows = np.concatenate([m.send[number], m.recv[number]])
        time = ns(np.concatenate([sent[number], received[number]]))
        flow = np.concatenate([number, number]) + 1
        # a flow begins at the earlier event, even if that is the receive because of inaccurate clocks
        n = number.size
        forward = (time[:n] < time[n:]) | ((time[:n] == time[n:]) & (rows[:n] < rows[n:]))
        step = np.where(np.concatenate([forward, ~forward]), BEGINS, ENDS).astype(np.uint8)
        order = np.argsort(rows)
        self._p2p = rows[order], flow[order], step[order]
        self._n_messages = len(m)

    def _collectives(self, holds: Holds, ns: Nanoseconds, model: Model) -> None:
        c = model.collective_members
        has_call = c.enter >= 0
        # a location in no region arrives at the end of the operation
        row = np.where(has_call, c.enter, c.end)
        time = model.order.time(row, np.where(has_call, c.enter_time, c.end_time))
        at = np.flatnonzero(holds(c.location, time))
        order = np.lexsort((row[at], ns(time[at]), c.collective[at]))
        of = c.collective[at][order]
        is_first, is_last = starts_run(of), ends_run(of)
        step = np.where(is_first, BEGINS, np.where(is_last, ENDS, GOES_ON))
        of_member = np.empty(at.size, np.uint8)
        of_member[order] = np.where(is_first & is_last, 0, step)
        by_row = np.argsort(row[at], kind="stable")
        member = at[by_row]
        operation = c.collective[member]
        self._row, self._step = row[member], of_member[by_row]
        self._op = c.op[member]
        self._flow = np.where(self._step > 0, self._n_messages + operation + 1, 0)
        self._details = {
            "communicator": model.collectives.communicator[operation],
            "root": model.collectives.root[operation],
            "sent": c.sent[member],
            "received": c.received[member],
        }

    def _devices(self, holds: Holds, ns: Nanoseconds, model: Model) -> None:
        """Join launches with their kernels, and calls that request copies with the copies."""
        k, c = model.kernels, model.copies
        first = self._n_messages + len(model.collectives) + 1
        begin = [ns(k.enter_time), ns(c.begin_time)]
        asked = [ns(k.launch_enter_time), ns(c.copy_enter_time)]
        whole = [
            (k.launch_enter >= 0) & holds(k.location, k.enter_time) & holds(k.launch_location, k.launch_enter_time),
            (c.copy_enter >= 0) & holds(c.location, c.begin_time) & holds(c.copy_location, c.copy_enter_time),
        ]
        # no flow if, because of inaccurate clocks, the request is later than the begin
        whole = [w & (a <= b) for w, a, b in zip(whole, asked, begin, strict=True)]
        flow = [
            np.where(whole[0], first + np.arange(len(k)), 0),
            np.where(whole[1], first + len(k) + np.arange(len(c)), 0),
        ]
        rows = [k.launch_enter[whole[0]], k.enter[whole[0]], c.copy_enter[whole[1]]]
        self._device_row = np.concatenate(rows)
        order = np.argsort(self._device_row, kind="stable")
        self._device_row = self._device_row[order]
        self._device_name = np.repeat([LAUNCHES, KERNEL_BEGINS, ASKS_FOR_COPY], [r.size for r in rows])[order]
        self._device_flow = np.concatenate([flow[0][whole[0]], flow[0][whole[0]], flow[1][whole[1]]])[order]
        self._device_step = np.where(self._device_name == KERNEL_BEGINS, ENDS, BEGINS).astype(np.uint8)
        self.n = first + len(k) + len(c)
        by_stream = np.lexsort((-c.end_time, c.begin_time, c.location))
        self.copies = Copies(
            *(values[by_stream] for values in (c.location, c.begin_time, c.end_time, c.direction, c.bytes, flow[1]))
        )

    def requests(self, start: int, stop: int, first_name: int) -> tuple[NDArray[np.int64], Instants]:
        """Return the rows of launches, begins of kernels and calls that copy between two rows, and their instants."""
        low, high = np.searchsorted(self._device_row, [start, stop])
        instants = Instants.none(high - low)
        instants.name[:] = first_name + self._device_name[low:high]
        instants.flow[:], instants.step[:] = self._device_flow[low:high], self._device_step[low:high]
        return self._device_row[low:high], instants

    def of_p2p(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the flow and step of sends and receives by row; 0 none."""
        keys, flow, step = self._p2p
        result = np.zeros(rows.size, np.int64), np.zeros(rows.size, np.uint8)
        if keys.size and rows.size:
            at = np.minimum(np.searchsorted(keys, rows), keys.size - 1)
            found = np.flatnonzero(keys[at] == rows)
            result[0][found], result[1][found] = flow[at[found]], step[at[found]]
        return result

    def arrivals(self, start: int, stop: int, first_op: int) -> tuple[NDArray[np.int64], Instants]:
        """Return the rows of arrivals at collective operations between two rows, and their instants."""
        low, high = np.searchsorted(self._row, [start, stop])
        instants = Instants.none(high - low)
        op = self._op[low:high]
        instants.name[:] = first_op + np.where((op >= 0) & (op < len(COLLECTIVE_OPS)), op, -1)
        instants.flow[:], instants.step[:] = self._flow[low:high], self._step[low:high]
        for name, values in self._details.items():
            instants.fill(name, values[low:high])
        return self._row[low:high], instants
