"""Match the participants of MPI collective operations (thesis 3.8, 3.9).

Scope: exchange. One equality join on (communicator, k), where k numbers the collective operations of a process on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tracecols.enhance.compound import CompoundTable, pick
from tracecols.enhance.grouping import Segments, combine, occurrence
from tracecols.schema import EventKind as K
from tracecols.schema.compound import COLLECTIVE_MEMBERS, COLLECTIVES, STARTUPS

if TYPE_CHECKING:
    from tracecols.enhance.model import Model


def match_collectives(model: Model) -> tuple[CompoundTable, CompoundTable]:
    """Build the tables of collective operations and of their participants."""
    calls, comm = model.calls, model.communicators
    e = model.notes("collectives", ["op", "communicator", "root", "sent", "received"])
    # the begin of an operation is the event before its end in the same call
    blocking = np.flatnonzero((e.kind == K.MPI_COLLECTIVE_BEGIN) | (e.kind == K.MPI_COLLECTIVE_END))
    is_end = e.kind[blocking] == K.MPI_COLLECTIVE_END
    end = blocking[is_end]
    before = np.concatenate([[-1], blocking[:-1]])[is_end]
    begun = (
        (before >= 0)
        & (e.kind[before] == K.MPI_COLLECTIVE_BEGIN)
        & (e.call[before] == e.call[end])
        & (e.location[before] == e.location[end])
    )
    call = e.call[end]
    begin_time = np.where(begun, e.time[before], pick(calls.enter, call))
    location = e.location[end]
    process = model.process[location]
    communicator = e.communicator[end]
    is_self = comm.is_self[communicator] if communicator.size else np.zeros(0, bool)

    by_time = model.order.argsort(e.row[end], e.time[end], process)
    k = np.empty(end.size, np.int64)
    k[by_time] = occurrence(combine(process, communicator)[by_time])
    key = combine(communicator, k, np.where(is_self, process, -1))
    _, index, instance = np.unique(key, return_index=True, return_inverse=True)
    # number instances by the time of their first end
    segments = Segments(instance, index.size)
    order = np.lexsort((index, segments.min(e.time[end]))) if index.size else index
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)
    instance = number[instance]
    segments = Segments(instance, index.size)

    rank = comm.rank_of(communicator, process)
    size = comm.size[communicator] if communicator.size else np.zeros(0, np.int64)
    head = segments.order[segments.starts] if index.size else index
    n_members = np.bincount(instance, minlength=index.size)
    op, root = e.op[end], e.root[end]
    counts = {
        "collective operations that lack participants": int((n_members < size[head]).sum()),
        "collective operations whose participants disagree": int((segments.max(op) != segments.min(op)).sum()),
    }
    table = CompoundTable(
        COLLECTIVES,
        index.size,
        {
            "communicator": communicator[head],
            "op": op[head],
            "n_members": n_members.astype(np.int32),
            "size": size[head].astype(np.int32),
            "root": root[head],
            "latest_begin_time": segments.max(begin_time),
            "earliest_end_time": segments.min(e.time[end]),
            "sent": segments.sum(e.sent[end]),
            "received": segments.sum(e.received[end]),
        },
        counts,
    )
    members = CompoundTable(
        COLLECTIVE_MEMBERS,
        end.size,
        {
            "collective": instance,
            "rank": rank.astype(np.int32),
            "location": location,
            "end": e.row[end],
            "begin_time": begin_time,
            "end_time": e.time[end],
            "sent": e.sent[end],
            "received": e.received[end],
            "is_root": (root >= 0) & (rank == root),
            "enter": lambda: pick(calls.enter_row, call),
            "exit": lambda: pick(calls.exit_row, call),
            "enter_time": lambda: pick(calls.enter, call),
            "exit_time": lambda: pick(calls.exit, call),
            "call_path": lambda: pick(calls.call_path, call),
            "op": op,
        },
    )
    return table, members


def find_startups(model: Model) -> CompoundTable:
    """Build the table of processes in MPI_Init and MPI_Finalize."""
    calls = model.calls
    region = model.call_paths.region[calls.call_path] if calls.call_path.size else np.zeros(0, np.int32)
    is_init, is_finalize = model.regions.is_init[region], model.regions.is_finalize[region]
    rows = np.flatnonzero(is_init | is_finalize)
    enter, leave, init = calls.enter[rows], calls.exit[rows], is_init[rows]
    latest, earliest = np.zeros(rows.size, np.int64), np.zeros(rows.size, np.int64)
    for which in (init, ~init):
        if which.any():
            latest[which], earliest[which] = enter[which].max(), leave[which].min()
    return CompoundTable(
        STARTUPS,
        rows.size,
        {
            "is_init": init,
            "location": calls.location[rows],
            "enter_time": enter,
            "exit_time": leave,
            "latest_enter_time": latest,
            "earliest_exit_time": earliest,
            "call_path": calls.call_path[rows],
        },
    )
