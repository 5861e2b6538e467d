"""Match sends with receives, and both with the calls that start and complete them (thesis 3.7, 3.11).

Scope: exchange. One equality join on (source, destination, communicator, tag, k), where k numbers sends in order and
receives in the order in which they were posted.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tracecols.enhance.compound import Column, CompoundTable, pick
from tracecols.enhance.grouping import combine, join_occurrences, pair_with_previous
from tracecols.schema import EventKind as K
from tracecols.schema.compound import MESSAGES
from tracecols.schema.compound import SENDS as SENDS_TABLE

if TYPE_CHECKING:
    from tracecols.enhance.model import Model

SENDS = (K.MPI_SEND, K.MPI_ISEND)
RECEIVES = (K.MPI_RECV, K.MPI_IRECV, K.MPI_MRECV, K.MPI_IMRECV)
STARTS = (K.MPI_ISEND, K.MPI_IRECV_REQUEST, K.MPI_IMRECV_REQUEST)
ENDS = (K.MPI_ISEND_COMPLETE, K.MPI_IRECV, K.MPI_IMRECV, K.MPI_REQUEST_CANCELLED)


def match_messages(model: Model) -> tuple[CompoundTable, CompoundTable]:
    """Build the tables of messages and of sends."""
    calls, process = model.calls, model.process
    e = model.notes("p2p", ["peer", "communicator", "tag", "length", "request", "message"])
    of_process = process[e.location] if e.location.size else np.zeros(0, np.int32)

    # events of a process in order of time; threads of one process may share channels and requests
    threads = np.unique(combine(of_process, e.location)).size
    if threads != np.unique(of_process).size:
        order = model.order.argsort(e.row, e.time, of_process)
        for name in (
            "location",
            "row",
            "kind",
            "time",
            "call",
            "peer",
            "communicator",
            "tag",
            "length",
            "request",
            "message",
        ):
            setattr(e, name, getattr(e, name)[order])
        of_process = of_process[order]

    kind = e.kind
    partner = pair_with_previous(combine(of_process, e.request), np.isin(kind, STARTS), np.isin(kind, ENDS))
    end_kind = pick(kind, partner, 0)
    cancelled = np.isin(kind, STARTS) & (partner >= 0) & (end_kind == K.MPI_REQUEST_CANCELLED)

    # a matched probe knows the envelope of the message that a later call receives
    posts = np.isin(kind, (K.MPI_MRECV, K.MPI_IMRECV_REQUEST))
    probe = (
        pair_with_previous(combine(of_process, e.message), kind == K.MPI_PROBE, posts)
        if posts.any()
        else np.full(kind.size, -1, np.int64)
    )

    is_send = np.isin(kind, SENDS) & ~cancelled
    sends = np.flatnonzero(is_send)
    receives = np.flatnonzero(np.isin(kind, RECEIVES))
    # where a receive was posted: by its request, by the probe that found the message, or by itself
    post = np.where(np.isin(kind[receives], (K.MPI_IRECV, K.MPI_IMRECV)), partner[receives], receives)
    post = np.where(post >= 0, post, receives)
    found_by = probe[post]
    envelope = np.where(found_by >= 0, found_by, receives)
    matching = np.where(found_by >= 0, found_by, post)
    by_post = np.argsort(matching, kind="stable")
    receives, post, envelope = receives[by_post], post[by_post], envelope[by_post]

    c = model.communicators
    destination = c.process_of(e.communicator[sends], e.peer[sends], of_process[sends])
    source = c.process_of(e.communicator[envelope], e.peer[envelope], of_process[receives])
    n = sends.size
    key = combine(
        np.concatenate([of_process[sends], source]),
        np.concatenate([destination, of_process[receives]]),
        np.concatenate([e.communicator[sends], e.communicator[envelope]]),
        np.concatenate([e.tag[sends], e.tag[envelope]]),
    )
    s, r = join_occurrences(key[:n], key[n:])
    send, recv, posted, head = sends[s], receives[r], post[r], envelope[r]
    order = np.argsort(e.row[recv], kind="stable")
    send, recv, posted, head = send[order], recv[order], posted[order], head[order]

    done = np.where(kind[send] == K.MPI_ISEND, partner[send], send)
    by_role = {
        "send": e.call[send],
        "send_done": pick(e.call, done),
        "recv_post": e.call[posted],
        "recv": e.call[recv],
    }
    columns: dict[str, Column] = {
        "send": e.row[send],
        "recv": e.row[recv],
        "send_location": e.location[send],
        "recv_location": e.location[recv],
        "communicator": e.communicator[send],
        "source": e.peer[head],
        "destination": e.peer[send],
        "tag": e.tag[send],
        "length": e.length[send],
        "send_time": e.time[send],
        "recv_time": e.time[recv],
    }
    for role, call in by_role.items():
        for name, values in (
            ("enter", calls.enter_row),
            ("exit", calls.exit_row),
            ("enter_time", calls.enter),
            ("exit_time", calls.exit),
            ("call_path", calls.call_path),
        ):
            columns[f"{role}_{name}"] = partial(pick, values, call)
        columns[f"{role}_call"] = call
    counts = {
        "sends without receive": int(n - send.size),
        "receives without send": int(receives.size - send.size),
        "cancelled requests": int(cancelled.sum()),
        "messages received before they were sent": int((e.time[send] > e.time[recv]).sum()),
    }
    every = np.flatnonzero(np.isin(kind, SENDS))
    every = every[np.argsort(e.row[every], kind="stable")]
    all_sends = CompoundTable(
        SENDS_TABLE,
        every.size,
        {
            "send": e.row[every],
            "location": e.location[every],
            "communicator": e.communicator[every],
            "destination": e.peer[every],
            "tag": e.tag[every],
            "length": e.length[every],
            "send_time": e.time[every],
            "is_cancelled": cancelled[every],
            "call_path": lambda: pick(calls.call_path, e.call[every]),
        },
    )
    return CompoundTable(MESSAGES, send.size, columns, counts), all_sends
