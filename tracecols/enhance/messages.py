"""Match sends with receives, and both with the calls that start and complete them (thesis 3.7, 3.11).

Scope: exchange. One equality join on (source, destination, communicator, tag, k), where k numbers sends in order and
receives in the order in which they were posted. Sends go to the part of the trace that receives them, and what became of
them comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.compound import Column, Columns, CompoundTable, pick
from tracecols.enhance.grouping import Segments, combine, join_occurrences, mask_of, number, pair_with_previous
from tracecols.enhance.shipment import Shipment, joined
from tracecols.enhance.spool import Spool, rows
from tracecols.schema import EventKind as K
from tracecols.schema.compound import MESSAGES, SENT_MESSAGES
from tracecols.schema.compound import RECEIVES as RECEIVES_TABLE
from tracecols.schema.compound import SENDS as SENDS_TABLE

if TYPE_CHECKING:
    from tracecols.enhance.exchange import Exchange
    from tracecols.enhance.model import AllCalls, Model


SENDS = mask_of((K.MPI_SEND, K.MPI_ISEND))
RECEIVES = mask_of((K.MPI_RECV, K.MPI_IRECV, K.MPI_MRECV, K.MPI_IMRECV))
STARTS = mask_of((K.MPI_ISEND, K.MPI_IRECV_REQUEST, K.MPI_IMRECV_REQUEST))
ENDS = mask_of((K.MPI_ISEND_COMPLETE, K.MPI_IRECV, K.MPI_IMRECV, K.MPI_REQUEST_CANCELLED))
PROBES = mask_of((K.MPI_PROBE,))
POSTS = mask_of((K.MPI_MRECV, K.MPI_IMRECV_REQUEST))
REQUESTED = mask_of((K.MPI_IRECV, K.MPI_IMRECV))

CALL = ("enter", "exit", "enter_time", "exit_time", "call_path")
SEND_HALF = (
    "send", "send_location", "source_process", "destination_process", "communicator", "destination", "tag", "length",
    "send_time", *(f"{role}_{name}" for role in ("send", "send_done") for name in CALL),
)  # fmt: skip
"""What a receiver is told of a send."""
KEY = ("source_process", "destination_process", "communicator", "tag")
RECV_HALF = (
    "recv", "recv_location", "source", "recv_time",
    *(f"{role}_{name}" for role in ("recv_post", "recv") for name in CALL),
)  # fmt: skip
"""What a sender is told of a receive."""
RELATIVE = {
    f"{role}_{name}": f"{event}_time" if name.endswith("time") else event
    for event, roles in (("send", ("send", "send_done")), ("recv", ("recv_post", "recv")))
    for role in roles
    for name in ("enter", "exit", "enter_time", "exit_time")
}
"""Calls are close to their event."""


def call_columns(calls: AllCalls, role: str, call: NDArray[np.int64]) -> dict[str, Column]:
    """Return the columns of the call an event stands in."""
    values = calls.enter_row, calls.exit_row, calls.enter, calls.exit, calls.call_path
    return {f"{role}_{name}": partial(pick, v, call) for name, v in zip(CALL, values, strict=True)}


def _pairs(key: NDArray[np.int64], first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Pair neighbours of the same key; what is neither costs nothing."""
    result = np.full(key.size, -1, np.int64)
    chosen = np.flatnonzero(first | second)
    if chosen.size:
        partner = pair_with_previous(key[chosen], first[chosen], second[chosen])
        result[chosen] = pick(chosen, partner)
    return result


@dataclass
class MessagePost:
    """The sends and receives of a part: what it sends to others, and what it waits for.

    Attributes
    ----------
    sends : Shipment
        `SEND_HALF` of the sends that were not cancelled, by the part that receives them.
    start : (n_parts + 1,) int64
        Rows that each part gets; nobody gets what stands behind the last.
    receives : Shipment
        `RECV_HALF` and `KEY` of the receives, in the order in which they were posted.
    n_cancelled : int
    """

    sends: Shipment
    start: NDArray[np.int64]
    receives: Shipment
    n_cancelled: int


def post_messages(view: Model, exchange: Exchange) -> tuple[MessagePost, CompoundTable]:
    """Find the sends and receives of a part; and the table of all its sends, cancelled or not."""
    calls, process = view.calls, view.process
    e = view.notes("p2p", ["peer", "communicator", "tag", "length", "request", "message"])
    of_process = process[e.location] if e.location.size else np.zeros(0, np.int32)
    # events of a process in order of time; threads of one process may share channels and requests
    changes = np.flatnonzero(e.location[1:] != e.location[:-1])
    if (of_process[changes] == of_process[changes + 1]).any():
        order = view.order.argsort(e.row, e.time, of_process)
        e.reorder(order)
        of_process = of_process[order]

    kind = e.kind
    starts, ends = STARTS[kind], ENDS[kind]
    partner = _pairs(combine(of_process, e.request), starts, ends)
    cancelled = starts & (partner >= 0) & (pick(kind, partner, 0) == K.MPI_REQUEST_CANCELLED)
    # a matched probe knows the envelope of the message that a later call receives
    posts = POSTS[kind]
    probe = _pairs(combine(of_process, e.message), PROBES[kind], posts) if posts.any() else None

    receives = np.flatnonzero(RECEIVES[kind])
    # where a receive was posted: by its request, by the probe that found the message, or by itself
    post = np.where(REQUESTED[kind[receives]], partner[receives], receives)
    post = np.where(post >= 0, post, receives)
    envelope, matching = receives, post
    if probe is not None:
        found_by = probe[post]
        envelope = np.where(found_by >= 0, found_by, receives)
        matching = np.where(found_by >= 0, found_by, post)
    by_post = np.argsort(matching, kind="stable")
    receives, post, envelope = receives[by_post], post[by_post], envelope[by_post]

    c = view.communicators
    is_send = SENDS[kind]
    sends = np.flatnonzero(is_send & ~cancelled)
    destination = c.process_of(e.communicator[sends], e.peer[sends], of_process[sends])
    n = exchange.n_parts
    start = np.array([0, sends.size])
    if n > 1:
        # in the order of the parts that get them
        to = np.where(destination >= 0, exchange.part_of[destination], n).astype(np.min_scalar_type(n))
        start = np.concatenate([[0], np.cumsum(np.bincount(to, minlength=n)[:n])])
        order = np.argsort(to, kind="stable")
        sends, destination = sends[order], destination[order]
    done = np.where(kind[sends] == K.MPI_ISEND, partner[sends], sends)
    columns = Columns(
        sends.size,
        {
            "send": partial(np.take, e.row, sends),
            "send_location": partial(np.take, e.location, sends),
            "source_process": partial(np.take, of_process, sends),
            "destination_process": destination,
            "communicator": partial(np.take, e.communicator, sends),
            "destination": partial(np.take, e.peer, sends),
            "tag": partial(np.take, e.tag, sends),
            "length": partial(np.take, e.length, sends),
            "send_time": partial(np.take, e.time, sends),
            **call_columns(calls, "send", e.call[sends]),
            **call_columns(calls, "send_done", pick(e.call, done)),
        },
    )
    shipped = Shipment(columns, SEND_HALF, exchange.spool, RELATIVE)
    columns = Columns(
        receives.size,
        {
            "recv": partial(np.take, e.row, receives),
            "recv_location": partial(np.take, e.location, receives),
            "source": partial(np.take, e.peer, envelope),
            "recv_time": partial(np.take, e.time, receives),
            "source_process": c.process_of(e.communicator[envelope], e.peer[envelope], of_process[receives]),
            "destination_process": partial(np.take, of_process, receives),
            "communicator": partial(np.take, e.communicator, envelope),
            "tag": partial(np.take, e.tag, envelope),
            **call_columns(calls, "recv_post", e.call[post]),
            **call_columns(calls, "recv", e.call[receives]),
        },
    )
    received = Shipment(columns, [*KEY, *RECV_HALF], exchange.spool, RELATIVE)
    every = np.flatnonzero(is_send)
    every = every[np.argsort(e.row[every], kind="stable")]

    all_sends = CompoundTable(
        SENDS_TABLE,
        every.size,
        {
            "send": partial(np.take, e.row, every),
            "location": partial(np.take, e.location, every),
            "communicator": partial(np.take, e.communicator, every),
            "destination": partial(np.take, e.peer, every),
            "tag": partial(np.take, e.tag, every),
            "length": partial(np.take, e.length, every),
            "send_time": partial(np.take, e.time, every),
            "is_cancelled": partial(np.take, cancelled, every),
            "call_path": partial(pick, calls.call_path, e.call[every]),
        },
    )
    return MessagePost(shipped, start, received, int(cancelled.sum())), all_sends


class Receipt:
    """What became of the sends a part received from all others.

    Parameters
    ----------
    receives : Shipment
        Receives of the part.
    matched : (n,) int64
        For each send its receive, -1 if it was never received.
    start : (n_parts + 1,) int64
        First of the sends of each part.
    spool : Spool, optional
        Keeps the columns, for senders that ask when the receives are no longer there.
    """

    def __init__(
        self, receives: Shipment, matched: NDArray[np.int64], start: NDArray[np.int64], spool: Spool | None
    ) -> None:
        def column(name: str) -> NDArray[Any]:
            return pick(receives.rows(name), matched)

        self._start = start
        self._kept: Any = Columns(matched.size, {name: partial(column, name) for name in RECV_HALF})
        if spool is not None:
            self._kept = spool.keep(SimpleNamespace(**{name: column(name) for name in RECV_HALF}), RELATIVE)

    def column(self, name: str, sender: int) -> NDArray[Any]:
        """Return a column of the receives of what a part sent; null where there is none."""
        return rows(self._kept, name, int(self._start[sender]), int(self._start[sender + 1]))


class LateCalls:
    """The calls of a part that wait for late senders.

    Attributes
    ----------
    enter : (n,) int64
        Their ENTERs, ascending.
    wait : (n,) int64
        The longest wait in each, in ticks, but not beyond the end of the call.
    """

    def __init__(self, messages: CompoundTable) -> None:
        m = messages
        wait = np.minimum(m.send_enter_time, m.recv_exit_time) - m.recv_enter_time
        late = np.flatnonzero((wait > 0) & (m.recv_enter >= 0))
        group, first = number(m.recv_enter[late])
        longest = Segments(group, first.size).max(wait[late])
        enter = m.recv_enter[late][first]
        order = np.argsort(enter)
        self.enter, self.wait = enter[order], longest[order]

    def at(self, enter: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how long the calls with given ENTERs wait; 0 for all others."""
        if not self.enter.size:
            return np.zeros(enter.size, np.int64)
        at = np.minimum(np.searchsorted(self.enter, enter), self.enter.size - 1)
        return np.where(self.enter[at] == enter, self.wait[at], 0)


def _one_before_is_lacking(
    model: Model, group: NDArray[Any], row: NDArray[np.int64], time: NDArray[np.int64], lacks: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Say for each send whether one of the same group that was sent before it is never received."""
    numbers, heads = number(group.astype(np.int64))
    lacking = np.flatnonzero(lacks)
    lacking = lacking[model.order.argsort(row[lacking], time[lacking])][::-1]
    first = np.full(heads.size, -1, np.int64)
    first[numbers[lacking]] = lacking
    at = first[numbers]
    return (at >= 0) & model.order.precedes(row[at], time[at], row, time)


def match_messages(
    exchange: Exchange, part: int, posts: Sequence[MessagePost]
) -> tuple[CompoundTable, CompoundTable, Receipt]:
    """Build the tables of the messages a part receives, of all its receives, and what senders are told."""
    model, receives = exchange.model, posts[part].receives
    spans = [(int(p.start[part]), int(p.start[part + 1])) for p in posts]

    def sent(name: str) -> NDArray[Any]:
        return joined([p.sends.rows(name, *span) for p, span in zip(posts, spans, strict=True)])

    n = sum(stop - start for start, stop in spans)
    key = combine(*(np.concatenate([sent(name), receives.rows(name)]) for name in KEY))
    match = join_occurrences(key[:n], key[n:])
    recv = receives.rows("recv")
    r = np.flatnonzero(match >= 0)
    r = r[np.argsort(recv[r], kind="stable")]
    s = match[r]
    matched = np.full(n, -1, np.int64)
    matched[s] = r

    def sent_in_order(name: str) -> NDArray[Any]:
        return sent(name)[s]

    def received(name: str) -> NDArray[Any]:
        return receives.rows(name)[r]

    def unreceived_before() -> NDArray[np.bool_]:
        return _one_before_is_lacking(model, sent("destination_process"), sent("send"), sent("send_time"), matched < 0)[
            s
        ]

    columns: dict[str, Column] = {
        **{name: partial(sent_in_order, name) for name in SEND_HALF},
        **{name: partial(received, name) for name in RECV_HALF},
        "unreceived_before": unreceived_before,
    }
    own = posts[part]
    table = CompoundTable(MESSAGES, r.size, columns)
    table.counts = {
        "sends without receive": n - r.size + own.sends.n - int(own.start[-1]),
        "receives without send": int(receives.n - r.size),
        "cancelled requests": own.n_cancelled,
        "messages received before they were sent": int((table.send_time > table.recv_time).sum()),
    }
    bounds = np.concatenate([[0], np.cumsum([stop - start for start, stop in spans])])
    every = all_receives(model, table, receives, np.flatnonzero(match < 0))
    return table, every, Receipt(receives, matched, bounds, exchange.spool)


def all_receives(
    model: Model, messages: CompoundTable, receives: Shipment, unmatched: NDArray[np.int64]
) -> CompoundTable:
    """Build the table of the receives of a part: those of its messages, and those that found no send."""
    recv = np.concatenate([messages.recv, receives.rows("recv")[unmatched]])
    # where all found their sends the columns of the messages serve
    order = np.argsort(recv, kind="stable") if unmatched.size else None

    def both(name: str, of_unmatched: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        own = messages[name]
        return own if order is None else np.concatenate([own, of_unmatched()]).astype(own.dtype, copy=False)[order]

    def column(name: str) -> NDArray[Any]:
        return both(name, lambda: receives.rows(name)[unmatched])

    def recorded_length() -> NDArray[np.int64]:
        """Look up what the receives themselves say; O(n) in the location's receives, but only where some found no send."""
        rows, location = receives.rows("recv")[unmatched], receives.rows("recv_location")[unmatched]
        length = np.empty(rows.size, np.int64)
        for of in np.unique(location).tolist():
            side, mine = model.store.read("p2p", of, ["row", "length"]), location == of
            length[mine] = side["length"][np.searchsorted(side["row"], rows[mine])]
        return length

    def is_matched() -> NDArray[np.bool_]:
        found = np.arange(recv.size) < len(messages)
        return found if order is None else found[order]

    return CompoundTable(
        RECEIVES_TABLE,
        recv.size,
        {
            "recv": recv if order is None else recv[order],
            "location": partial(column, "recv_location"),
            **{name: partial(column, name) for name in ("communicator", "source", "tag", "recv_time")},
            "length": partial(both, "length", recorded_length),
            "is_matched": is_matched,
            "call_path": partial(column, "recv_call_path"),
        },
    )


def gather_sent(
    model: Model, post: MessagePost, receipts: Sequence[Receipt], part: int, late: Callable[[], LateCalls]
) -> CompoundTable:
    """Build the table of the messages a part sends, from what it posted and what the others tell it."""
    sends = post.sends
    n_nowhere = sends.n - int(post.start[-1])

    def told(name: str) -> NDArray[Any]:
        return joined([r.column(name, part) for r in receipts])

    recv = told("recv")
    send = sends.rows("send", 0, recv.size)
    s = np.flatnonzero(recv >= 0)
    s = s[np.argsort(send[s], kind="stable")]

    def sent(name: str) -> NDArray[Any]:
        return sends.rows(name, 0, recv.size)[s]

    def received(name: str) -> NDArray[Any]:
        return told(name)[s]

    def unreceived_before() -> NDArray[np.bool_]:
        lacks = np.concatenate([recv < 0, np.ones(n_nowhere, bool)])
        return _one_before_is_lacking(
            model, sends.rows("send_location"), sends.rows("send"), sends.rows("send_time"), lacks
        )[s]

    columns: dict[str, Column] = {
        **{name: partial(sent, name) for name in SEND_HALF},
        **{name: partial(received, name) for name in RECV_HALF},
        "unreceived_before": unreceived_before,
    }
    table = CompoundTable(
        SENT_MESSAGES, s.size, {**columns, "send_done_late": lambda: late().at(table.send_done_enter)}
    )
    return table
