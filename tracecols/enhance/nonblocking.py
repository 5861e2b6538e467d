"""Non-blocking collective operations: who starts one, and who completes it in which call.

Scope: all locations at once. Equality joins on the request of a process, and on (communicator, k), where k numbers the non-blocking operations
that a process starts on it: MPI does not match them with blocking ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.columns import CompoundTable, pick
from tracecols.enhance.facts import Facts
from tracecols.enhance.grouping import Segments, combine, mask_of, number, occurrence, pair_with_previous
from tracecols.enhance.instances import CallInstances, attributed_events
from tracecols.enhance.scan import LocationScan
from tracecols.schema import EventKind as K
from tracecols.schema.compound import NONBLOCKING_MEMBERS

KINDS = (K.NON_BLOCKING_COLLECTIVE_REQUEST, K.NON_BLOCKING_COLLECTIVE_COMPLETE)


def match_nonblocking(
    facts: Facts, scans: Sequence[LocationScan], members: NDArray[np.int64], calls: CallInstances
) -> CompoundTable:
    """Build the table of participants of non-blocking collective operations.

    Parameters
    ----------
    facts : Facts
        What every step knows of the whole trace.
    scans : sequence of LocationScan
        Results of the scan, by location.
    members : (n_members,) int64
        Rows of the locations of the slice, ascending.
    calls : CallInstances
        Call instances of the slice.
    """
    by_kind = facts.store.manifest["events_by_kind"]
    if not any(by_kind.get(str(int(k)), 0) for k in KINDS):
        return CompoundTable.empty(NONBLOCKING_MEMBERS)
    columns = ["op", "communicator", "root", "sent", "received", "request"]
    e = attributed_events(facts, scans, members, calls, "collectives", columns)
    e = e.take(np.flatnonzero(mask_of(KINDS)[e.kind]))
    process = facts.process[e.location] if e.location.size else np.zeros(0, np.int32)
    order = facts.order.argsort(e.row, e.time, process)
    e, process = e.take(order), process[order]
    is_start = e.kind == K.NON_BLOCKING_COLLECTIVE_REQUEST
    partner = pair_with_previous(combine(process, e.request), is_start, ~is_start)
    # in the order in which they are started
    start = np.flatnonzero(is_start & (partner >= 0) & (e.call >= 0))
    done = partner[start]
    held = e.call[done] >= 0
    start, done = start[held], done[held]
    communicator, process = e.communicator[done], process[start]
    channel = facts.communicators.channel(communicator, process)
    k = occurrence(combine(process, channel)) if start.size else start
    operation, head = number(combine(channel, k)) if start.size else (start, start)
    of = Segments(operation, head.size)
    begin = calls.enter_time[e.call[start]]
    rank = facts.communicators.rank_of(communicator, process)
    is_root = (e.root[done] >= 0) & (rank == e.root[done])
    complete = of.count() == facts.communicators.size_of(communicator[head])
    never = np.iinfo(np.int64).min
    latest, root, senders = (
        np.where(complete, of.max(np.where(mask, begin, never)), never)
        for mask in (np.ones(start.size, bool), is_root, (e.sent[done] > 0) & ~is_root)
    )
    return CompoundTable(
        NONBLOCKING_MEMBERS,
        start.size,
        {
            "operation": operation,
            "communicator": communicator,
            "op": e.op[done],
            "location": e.location[done],
            "is_root": is_root,
            "sent": e.sent[done],
            "received": e.received[done],
            "begin": e.row[start],
            "begin_time": begin,
            "latest_begin_time": np.maximum(latest, -1)[operation],
            "root_begin_time": np.maximum(root, -1)[operation],
            "latest_sender_begin_time": np.maximum(senders, -1)[operation],
            "done_enter": calls.enter[e.call[done]],
            "done_enter_time": calls.enter_time[e.call[done]],
            "done_exit_time": calls.exit_time[e.call[done]],
            "done_call_path": pick(calls.call_path, e.call[done]),
        },
        {
            "non-blocking collective operations that are never completed": int(is_start.sum() - start.size),
            "non-blocking collective operations that lack participants": int((~complete).sum()),
        },
    )
