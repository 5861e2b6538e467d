"""Match sends with receives, and both with the calls that start and complete them (thesis 3.7, 3.11).

One equality join on (source, destination, communicator, tag, k), where k numbers sends in order and receives in the
order in which they were posted. The rows of sends go to the partition that receives them (`outgoing_messages`), which
matches them (`match_messages`); the matched receives go back to the senders (`gather_sent`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Column, Columns, ColumnSource, CompoundTable, joined, pick, pieced
from tracecols.enhance.dataflow.grouping import (
    Segments,
    combine,
    find_sorted,
    join_occurrences,
    mask_of,
    number,
    occurrence,
    pair_within_processes,
)
from tracecols.enhance.dataflow.partitions import Division
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import RECEIVE, SEND, WITHIN, step
from tracecols.enhance.definitions.numbering import Numbered
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.gaps import OPEN
from tracecols.enhance.scan.instances import CALL, CallInstances, attributed_events
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.schema import EventKind as K
from tracecols.schema.compound import MESSAGES, SENT_MESSAGES
from tracecols.schema.compound import RECEIVES as RECEIVES_TABLE
from tracecols.schema.compound import SENDS as SENDS_TABLE
from tracecols.vectors import Ints, Mask, offsets_of

SENDS = mask_of((K.MPI_SEND, K.MPI_ISEND))
RECEIVES = mask_of((K.MPI_RECV, K.MPI_IRECV, K.MPI_MRECV, K.MPI_IMRECV))
REQUESTED = mask_of((K.MPI_IRECV, K.MPI_IMRECV))

SEND_HALF = (
    "send",
    "send_done",
    "send_location",
    "source_process",
    "destination_process",
    "communicator",
    "destination",
    "tag",
    "length",
    "send_time",
    *(f"{role}_{name}" for role in ("send", "send_done") for name in CALL),
)
"""Columns of a send that the receiver gets."""
KEY = ("source_process", "destination_process", "communicator", "tag")
RECV_HALF = (
    "recv",
    "recv_post",
    "recv_location",
    "source",
    "recv_time",
    *(f"{role}_{name}" for role in ("recv_post", "recv") for name in CALL),
)
"""Columns of a receive that the sender gets."""
RELATIVE = {
    f"{role}_{name}": f"{event}_time" if name.endswith("time") else event
    for event, roles in (("send", ("send", "send_done")), ("recv", ("recv_post", "recv")))
    for role in roles
    for name in ("enter", "exit", "enter_time", "exit_time")
} | {"send_done": "send", "recv_post": "recv"}
"""Columns of calls, and of the events that complete or post a message, have values close to those of its event."""


class PointToPoint(NamedTuple):
    """The point-to-point events of some processes, and their partners."""

    events: Columns
    """`attributed_events` of p2p, by process in order of time."""
    process: NDArray[np.int32]
    """(n,): process of each."""
    partner: Ints
    """(n,): for the start of a request its completion, and vice versa; -1 none."""
    cancelled: Mask
    """(n,): starts of requests that were cancelled."""
    probe: Ints | None
    """(n,): for each event that posts the receive of a message found by a matching probe, that probe; -1 none."""


@step(WITHIN, "point_to_point")
def pair_requests(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, call_instances: CallInstances
) -> PointToPoint:
    """Find the point-to-point events of some processes, and pair those of each request."""
    columns = ["peer", "communicator", "tag", "length", "request", "message"]
    e = attributed_events(facts, scans, members, call_instances, "p2p", columns)
    of_process = facts.process[e.location]
    # sort the events of a process by time: threads of one process may share channels and requests
    changes = np.flatnonzero(e.location[1:] != e.location[:-1])
    if (of_process[changes] == of_process[changes + 1]).any():
        order = facts.order.argsort(e.row, e.time, of_process)
        e = e.take(order)
        of_process = of_process[order]
    return pair_events(e, of_process)


def pair_events(e: Columns, process: NDArray[np.int32]) -> PointToPoint:
    """Pair the point-to-point events of each request by `kind`, `request` and `message`; events are by process in order
    of time."""
    kind = e.kind
    starts, ends = (kinds.take(kind) for kinds in OPEN["request"])
    partner = np.full(kind.size, -1)
    if starts.any() or ends.any():
        partner = pair_within_processes(process, e.location, e.request, starts, ends)
    cancelled = np.zeros(kind.size, bool)
    given_up = np.flatnonzero(kind == K.MPI_REQUEST_CANCELLED)
    cancelled[partner[given_up[partner[given_up] >= 0]]] = True
    # a matched probe has the envelope of the message that a later call receives
    probes, takes = (kinds.take(kind) for kinds in OPEN["message"])
    probe = pair_within_processes(process, e.location, e.message, probes, takes) if takes.any() else None
    return PointToPoint(e, process, partner, cancelled, probe)


class PostedReceives(NamedTuple):
    """The receives of some processes in the order in which they were posted; numbers of events, (n,) int64 each."""

    receive: Ints
    """(n,): the events that receive, or complete a receive."""
    post: Ints
    """(n,): the events that post them: requests, or the receives themselves."""
    envelope: Ints
    """(n,): the events that have source, communicator and tag: the receives, or matching probes."""
    matching: Ints
    """(n,): the events that take the messages, ascending: requests, matching probes, or the receives themselves."""


def posted_receives(p2p: PointToPoint) -> PostedReceives:
    """Sort the receives of some processes in the order in which they were posted."""
    kind = p2p.events.kind
    receives = np.flatnonzero(RECEIVES.take(kind))
    # a receive is posted by its request, by the probe that found the message, or by itself
    post = np.where(REQUESTED[kind[receives]], p2p.partner[receives], receives)
    post = np.where(post >= 0, post, receives)
    envelope, matching = receives, post
    if p2p.probe is not None:
        found_by = p2p.probe[post]
        envelope = np.where(found_by >= 0, found_by, receives)
        matching = np.where(found_by >= 0, found_by, post)
    order = np.argsort(matching, kind="stable")
    return PostedReceives(receives[order], post[order], envelope[order], matching[order])


@step(WITHIN, "sends")
def list_sends(point_to_point: PointToPoint, call_instances: CallInstances) -> CompoundTable:
    """Build the table of all sends, cancelled or not."""
    e = point_to_point.events
    every = np.flatnonzero(SENDS[e.kind])
    every = every[np.argsort(e.row[every], kind="stable")]
    return CompoundTable(
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
            "is_cancelled": partial(np.take, point_to_point.cancelled, every),
            "call_path": partial(pick, call_instances.call_path, e.call[every]),
        },
    )


class OutgoingMessages(NamedTuple):
    """The sends and receives of a partition."""

    sends: ColumnSource
    """`SEND_HALF` of the sends that were not cancelled, by the partition that receives them."""
    start: Ints
    """(n_partitions + 1,): first row for each partition; rows after the last have no receiver."""
    receives: ColumnSource
    """`RECV_HALF` and `KEY` of the receives, in the order in which they were posted."""
    n_cancelled: int

    @property
    def n_nowhere(self) -> int:
        """Number of sends without a receiving process."""
        return len(self.sends) - int(self.start[-1])


@step(WITHIN, "outgoing_messages")
def outgoing_messages(
    facts: Facts, division: Division, spill: Spill, point_to_point: PointToPoint, call_instances: CallInstances
) -> OutgoingMessages:
    """Sort the sends of a partition by the partitions that receive them, and its receives in the order in which they
    were posted."""
    e, of_process, partner, cancelled, _ = point_to_point
    kind = e.kind
    receives, post, envelope, _ = posted_receives(point_to_point)
    c = facts.communicators
    sends = np.flatnonzero(SENDS[kind] & ~cancelled)
    destination = c.process_of(e.communicator[sends], e.peer[sends], of_process[sends])
    n = len(division)
    start = np.array([0, sends.size])
    if n > 1:
        # in the order of the partitions that receive them
        to = np.where(destination >= 0, division.of_process[destination], n).astype(np.min_scalar_type(n))
        start = offsets_of(np.bincount(to, minlength=n)[:n])
        order = np.argsort(to, kind="stable")
        sends, destination = sends[order], destination[order]
    done = np.where(kind[sends] == K.MPI_ISEND, partner[sends], sends)
    columns = Columns(
        sends.size,
        {
            "send": e.row[sends],
            "send_done": pick(e.row, done),
            "send_location": e.location[sends],
            "source_process": of_process[sends],
            "destination_process": destination,
            "communicator": e.communicator[sends],
            "destination": e.peer[sends],
            "tag": e.tag[sends],
            "length": e.length[sends],
            "send_time": e.time[sends],
            **call_instances.columns_of("send", e.call[sends]),
            **call_instances.columns_of("send_done", pick(e.call, done)),
        },
    )
    outgoing = spill.keep(columns, RELATIVE)
    columns = Columns(
        receives.size,
        {
            "recv": e.row[receives],
            "recv_post": e.row[post],
            "recv_location": e.location[receives],
            "source": e.peer[envelope],
            "recv_time": e.time[receives],
            "source_process": c.process_of(e.communicator[envelope], e.peer[envelope], of_process[receives]),
            "destination_process": of_process[receives],
            "communicator": e.communicator[envelope],
            "tag": e.tag[envelope],
            **call_instances.columns_of("recv_post", e.call[post]),
            **call_instances.columns_of("recv", e.call[receives]),
        },
    )
    received = spill.keep(columns, RELATIVE)
    return OutgoingMessages(outgoing, start, received, int(cancelled.sum()))


class MatchResult(NamedTuple):
    """The receives of a partition that match the sends to it."""

    receives: ColumnSource
    """`receive` of each send, as position among all of the partition; -1 if it was never received."""
    start: Ints
    """(n_windows + 1,): first send of each window."""

    def matched(self, sender: int) -> Ints:
        """Return the receives that match the sends of a window."""
        return self.receives.rows("receive", int(self.start[sender]), int(self.start[sender + 1]))


def _filled(sizes: Ints) -> list[int]:
    """Return the parts that have rows; if there are none, the first, for the types of its columns."""
    return np.flatnonzero(sizes).tolist() or [0]


class LateCalls(NamedTuple):
    """The calls of a partition that wait for late senders: their ENTERs, ascending, and the longest wait in each in
    ticks, at most until the end of the call."""

    enter: Ints
    wait: Ints

    def at(self, enter: Ints) -> Ints:
        """Return the waits of the calls with the given ENTERs; 0 for calls that do not wait."""
        return pick(self.wait, find_sorted(self.enter, enter), 0)


@step(RECEIVE, "late_calls")
def find_late_calls(messages: CompoundTable) -> LateCalls:
    """Find the calls of a partition that wait for late senders."""
    m = messages
    wait = np.minimum(m.send_enter_time, m.recv_exit_time) - m.recv_enter_time
    late = np.flatnonzero((wait > 0) & (m.recv_enter >= 0))
    of, first = Segments.of(m.recv_enter[late])
    longest, enter = of.max(wait[late]), m.recv_enter[late][first]
    order = np.argsort(enter)
    return LateCalls(enter[order], longest[order])


def _one_before_is_lacking(facts: Facts, group: NDArray[Any], row: Ints, time: Ints, lacks: Mask) -> Mask:
    """Return for each send whether an earlier send of the same group is never received."""
    numbers, heads = number(group.astype(np.int64))
    lacking = np.flatnonzero(lacks)
    lacking = lacking[facts.order.argsort(row[lacking], time[lacking])][::-1]
    first = np.full(heads.size, -1, np.int64)
    first[numbers[lacking]] = lacking
    at = first[numbers]
    return (at >= 0) & facts.order.precedes(row[at], time[at], row, time)


@step(RECEIVE, "messages", "receives", "match_result")
def match_messages(
    facts: Facts, division: Division, partition: int, every_outgoing_messages: Sequence[OutgoingMessages], spill: Spill
) -> tuple[CompoundTable, CompoundTable, MatchResult]:
    """Build the tables of the messages that a partition receives and of all its receives, and find the receive that
    matches each send."""
    own = [every_outgoing_messages[k] for k in division.windows_of(partition)]
    receives = _receives_of(partition, division, every_outgoing_messages)
    ends = np.stack([o.start[partition : partition + 2] for o in every_outgoing_messages])
    sizes = np.diff(ends, axis=1)[:, 0]
    n = int(sizes.sum())
    # most processes send to few others
    spans = [(every_outgoing_messages[k].sends, *ends[k].tolist()) for k in _filled(sizes)]

    def sent(name: str) -> NDArray[Any]:
        return joined([sends.rows(name, start, stop) for sends, start, stop in spans])

    columns = [np.concatenate([sent(name), receives.column(name)]) for name in KEY]
    key = combine(*columns)
    if facts.numbering:
        key = combine(key, _numbers(facts, key, columns, n))
    match = join_occurrences(key[:n], key[n:])
    recv = receives.column("recv")
    r = np.flatnonzero(match >= 0)
    r = r[np.argsort(recv[r], kind="stable")]
    s = match[r]
    matched = np.full(n, -1, np.int64)
    matched[s] = r

    def sent_in_order(name: str) -> NDArray[Any]:
        return sent(name)[s]

    def received(name: str) -> NDArray[Any]:
        return receives.column(name)[r]

    def unreceived_before() -> Mask:
        return _one_before_is_lacking(facts, sent("destination_process"), sent("send"), sent("send_time"), matched < 0)[
            s
        ]

    made: dict[str, Column] = {
        **{name: partial(sent_in_order, name) for name in SEND_HALF},
        **{name: partial(received, name) for name in RECV_HALF},
        "unreceived_before": unreceived_before,
    }
    table = CompoundTable(MESSAGES, r.size, made)
    table.counts = {
        "sends without receive": n - r.size + sum(o.n_nowhere for o in own),
        "receives without send": len(receives) - r.size,
        "cancelled requests": sum(o.n_cancelled for o in own),
        "messages received before they were sent": int((table.send_time > table.recv_time).sum()),
    }
    every = all_receives(facts, table, receives, np.flatnonzero(match < 0))
    return table, every, MatchResult(spill.keep(Columns(n, {"receive": matched})), offsets_of(sizes))


def _receives_of(
    partition: int, division: Division, every_outgoing_messages: Sequence[OutgoingMessages]
) -> ColumnSource:
    """Return the receives of a partition: `KEY` and `RECV_HALF`."""
    return pieced([every_outgoing_messages[k].receives for k in division.windows_of(partition)])


def _numbers(facts: Facts, key: Ints, columns: Sequence[NDArray[Any]], n_sends: int) -> Ints:
    """Return the numbers of sends, followed by those of receives, within their channels in the whole trace."""
    source, destination, communicator, tag = columns
    k = np.concatenate([occurrence(key[:n_sends]), occurrence(key[n_sends:])])
    sends, receives = slice(n_sends), slice(n_sends, None)
    return np.concatenate(
        [
            facts.numbering.number(what, k[side], *(c[side] for c in (own, other, communicator, tag)))
            for what, side, own, other in (
                (Numbered.SEND, sends, source, destination),
                (Numbered.RECEIVE, receives, destination, source),
            )
        ]
    )


def all_receives(facts: Facts, messages: CompoundTable, receives: ColumnSource, unmatched: Ints) -> CompoundTable:
    """Build the table of the receives of a partition: those of its messages, and those without a send."""
    recv = np.concatenate([messages.recv, receives.column("recv")[unmatched]])
    # if all receives are matched, the columns of the messages are used
    order = np.argsort(recv, kind="stable") if unmatched.size else None

    def both(name: str, of_unmatched: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        own = messages[name]
        return own if order is None else np.concatenate([own, of_unmatched()]).astype(own.dtype, copy=False)[order]

    def column(name: str) -> NDArray[Any]:
        return both(name, lambda: receives.column(name)[unmatched])

    def recorded_length() -> Ints:
        """Read the lengths recorded by the receives; O(n) in the receives of locations where some have no send."""
        rows, location = receives.column("recv")[unmatched], receives.column("recv_location")[unmatched]
        length = np.empty(rows.size, np.int64)
        for of in distinct(location).tolist():
            side, mine = facts.store.read("p2p", of, ["row", "length"]), location == of
            length[mine] = side["length"][np.searchsorted(side["row"], rows[mine])]
        return length

    def is_matched() -> Mask:
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


@step(SEND, "sent_messages")
def gather_sent(
    facts: Facts,
    division: Division,
    partition: int,
    every_outgoing_messages: Sequence[OutgoingMessages],
    every_match_result: Sequence[MatchResult],
    late_calls: LateCalls,
) -> CompoundTable:
    """Build the table of the messages that a partition sends, from its sends and the matching receives elsewhere."""
    windows = division.windows_of(partition)
    own = [every_outgoing_messages[k] for k in windows]
    sizes = np.stack([np.diff(result.start) for result in every_match_result])[:, windows].T.ravel()
    pieces = []
    for i in _filled(sizes):
        k, receiver = divmod(i, len(every_match_result))
        receives = _receives_of(receiver, division, every_outgoing_messages)
        pieces.append((receives, every_match_result[receiver].matched(windows[k])))

    def matched(name: str) -> NDArray[Any]:
        return joined([receives.several_at((name,), matched)[0] for receives, matched in pieces])

    def sends(name: str) -> NDArray[Any]:
        return joined([o.sends.rows(name, 0, int(o.start[-1])) for o in own])

    def every_send(name: str) -> NDArray[Any]:
        nowhere = [o.sends.rows(name, int(o.start[-1]), len(o.sends)) for o in own]
        return joined([sends(name), *nowhere])

    recv = matched("recv")
    send = sends("send")
    s = np.flatnonzero(recv >= 0)
    s = s[np.argsort(send[s], kind="stable")]

    def sent(name: str) -> NDArray[Any]:
        return sends(name)[s]

    def received(name: str) -> NDArray[Any]:
        return matched(name)[s]

    def unreceived_before() -> Mask:
        lacks = np.concatenate([recv < 0, np.ones(sum(o.n_nowhere for o in own), bool)])
        return _one_before_is_lacking(
            facts, every_send("send_location"), every_send("send"), every_send("send_time"), lacks
        )[s]

    done_enter = cache(partial(sent, "send_done_enter"))
    columns: dict[str, Column] = {
        **{name: partial(sent, name) for name in SEND_HALF},
        **{name: partial(received, name) for name in RECV_HALF},
        "send_done_enter": done_enter,
        "send_done_late": lambda: late_calls.at(done_enter()),
        "unreceived_before": unreceived_before,
    }
    return CompoundTable(SENT_MESSAGES, s.size, columns)
