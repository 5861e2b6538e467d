"""Non-blocking collective operations: their participants, and the calls that start and complete them.

Scope: all locations at once. Equality joins on the request of a process, and on (communicator, k), where k numbers the
non-blocking operations that a process starts on the communicator: MPI does not match them with blocking ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, mask_of, occurrence, pair_within_processes, pairs_of
from tracecols.enhance.dataflow.steps import GLOBAL, step
from tracecols.enhance.definitions.numbering import Numbered
from tracecols.enhance.mpi.waits import PAIRWISE, SCAN, groups_that_wait, latest_of_lower_ranks
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances, attributed_events
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.schema import EventKind as K
from tracecols.schema.compound import NONBLOCKING_MEMBERS
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.vectors import Ints, Mask

KINDS = (K.NON_BLOCKING_COLLECTIVE_REQUEST, K.NON_BLOCKING_COLLECTIVE_COMPLETE)


class _Participants(NamedTuple):
    """Participants of non-blocking collective operations."""

    operation: Ints
    group: NDArray[np.int8]
    op: NDArray[np.integer]
    rank: Ints
    begin: Ints
    end: Ints
    """`begin` and `end`: ticks of the start, and of the end of the call that completes the own part."""
    is_root: Mask
    sends: Mask
    is_complete: Mask
    """Whether all members take part in the operation."""

    def are_of(self, ops: tuple[str, ...]) -> Ints:
        """Return the participants of some complete operations."""
        return np.flatnonzero(np.isin(self.op, [COLLECTIVE_OPS.index(op) for op in ops]) & self.is_complete)


def _awaited_begins(p: _Participants) -> tuple[Ints, Ints, Ints]:
    """Return for each participant the latest begin of all that it may wait for, of the root, and of the senders that
    it depends on; -1 if there are none, or if participants are missing."""
    own, awaited = groups_that_wait(p.operation, p.group)
    of, never = Segments(own, 2 * (int(p.operation.max(initial=-1)) + 1)), np.iinfo(np.int64).min
    masks = np.ones(p.begin.size, bool), p.is_root & p.sends, p.sends & ~p.is_root
    begins = (of.max(np.where(mask, p.begin, never))[awaited] for mask in masks)
    latest, root, senders = (np.where(p.is_complete & (found > never), found, -1) for found in begins)
    # of prefix operations, the last of the lower ranks
    at = p.are_of(SCAN)
    senders[at], _ = latest_of_lower_ranks(p.operation[at], p.rank[at], p.begin[at], p.sends[at])
    # it is not recorded who sends to whom: of the senders, those that start before the own part is completed
    at = p.are_of(PAIRWISE)
    found, _ = latest_of_lower_ranks(
        np.append(own[at], awaited[at]),
        np.append(p.begin[at], p.end[at]),
        np.tile(p.begin[at], 2),
        np.append(p.sends[at], np.zeros(at.size, bool)),
    )
    senders[at] = found[at.size :]
    return latest, root, senders


@step(GLOBAL, "nonblocking_members")
def match_nonblocking(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, call_instances: CallInstances
) -> CompoundTable:
    """Build the table of the participants of non-blocking collective operations."""
    by_kind = facts.store.manifest["events_by_kind"]
    if not any(by_kind.get(str(int(k)), 0) for k in KINDS):
        return CompoundTable.empty(NONBLOCKING_MEMBERS)
    columns = ["op", "communicator", "root", "sent", "received", "request"]
    e = attributed_events(facts, scans, members, call_instances, "collectives", columns)
    e = e.take(np.flatnonzero(mask_of(KINDS)[e.kind]))
    e = e.take(facts.order.argsort(e.row, e.time, facts.process[e.location]))
    starts = e.kind == K.NON_BLOCKING_COLLECTIVE_REQUEST
    process = facts.process[e.location]
    start, done = pairs_of(pair_within_processes(process, e.location, e.request, starts, ~starts), starts)
    communicator, process = e.communicator[done], process[start]
    channel = facts.communicators.channel(communicator, process)
    k = facts.numbering.number(Numbered.NONBLOCKING, occurrence(combine(process, channel)), process, communicator)
    of, head = Segments.of(combine(channel, k))
    operation, complete = of.group, of.count() == facts.communicators.size_of(communicator[head])
    group = facts.communicators.group_of(communicator, process)
    # an operation that is started outside of any call, or before a trace slice, begins at its event
    begin = np.where(e.call[start] >= 0, pick(call_instances.enter_time, e.call[start]), e.time[start])
    end = np.where(e.call[done] >= 0, pick(call_instances.exit_time, e.call[done]), e.time[done])
    rank = facts.communicators.rank_of(communicator, process)
    is_root = facts.communicators.are_roots(communicator, rank, e.root[done])
    # some recorders record no sizes: all participants send and receive then
    no_sizes = of.max(e.sent[done] + e.received[done])[operation] == 0
    sends, receives = (e.sent[done] > 0) | no_sizes, (e.received[done] > 0) | no_sizes
    of_all = _Participants(operation, group, e.op[done], rank, begin, end, is_root, sends, complete[operation])
    latest, root, senders = _awaited_begins(of_all)
    # only the call that completes an operation can wait
    held = np.flatnonzero(e.call[done] >= 0)
    call, done, operation = e.call[done][held], done[held], operation[held]
    return CompoundTable(
        NONBLOCKING_MEMBERS,
        held.size,
        {
            "operation": operation,
            "communicator": e.communicator[done],
            "op": e.op[done],
            "group": group[held],
            "location": e.location[done],
            "is_root": is_root[held],
            "sent": e.sent[done],
            "received": e.received[done],
            "sends": sends[held],
            "receives": receives[held],
            "begin": e.row[start][held],
            "begin_time": begin[held],
            "begin_call_path": pick(call_instances.call_path, e.call[start][held]),
            "done": e.row[done],
            "latest_begin_time": latest[held],
            "root_begin_time": root[held],
            "latest_sender_begin_time": senders[held],
            "done_enter": call_instances.enter[call],
            "done_enter_time": call_instances.enter_time[call],
            "done_exit_time": call_instances.exit_time[call],
            "done_call_path": pick(call_instances.call_path, call),
        },
        {
            "non-blocking collective operations that are never completed": int(starts.sum()) - start.size,
            "non-blocking collective operations that lack participants": int((~complete).sum()),
        },
    )
