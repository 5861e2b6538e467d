"""MPI file I/O: bytes read and written, and participants of collective operations on files.

The communicator of a file is recorded with its handle. A call without a recorded handle has no communicator; it is only
counted.

Scope: all locations at once. Equality joins on (handle, k), where k numbers the collective operations of a process on
the handle, and on (process, handle, matching) for an operation and its completion.
"""

from __future__ import annotations

import numpy as np

from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, mask_of, occurrence, pair_within_processes
from tracecols.enhance.dataflow.steps import GLOBAL, step
from tracecols.enhance.definitions.numbering import Numbered
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances
from tracecols.enhance.threads.created import enclosing_calls, times_of
from tracecols.schema import EventKind as K
from tracecols.schema.compound import FILE_MEMBERS, FILE_OPERATIONS
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask

NON_BLOCKING, COLLECTIVE = 1, 2
"""Bits of the flags of an operation."""

MANAGES = mask_of((K.IO_CREATE_HANDLE, K.IO_DESTROY_HANDLE))
"""Kinds of events whose calls are collective for the communicator of the handle."""

ENDS = mask_of((K.IO_OPERATION_COMPLETE, K.IO_OPERATION_CANCELLED))

READ = ("row", "kind", "handle", "mode", "operation_flags", "result", "matching")

UNKNOWN = "collective calls for files whose handle is not recorded: waiting in them is not known"
"""Description of the count of calls that cannot be joined."""


@step(GLOBAL, "file_operations", "file_members")
def match_file_operations(
    facts: Facts, members: Ints, call_instances: CallInstances
) -> tuple[CompoundTable, CompoundTable]:
    """Build the tables of operations on MPI files, and of the participants of collective calls for files."""
    found = _events(facts, members, call_instances)
    row, kind, handle, flags, location, call = (
        found[n] for n in ("row", "kind", "handle", "operation_flags", "location", "call")
    )
    first = np.flatnonzero(are_collective(kind, flags) & (call >= 0))
    first = first[np.unique(call[first], return_index=True)[1]]
    return _operations(call_instances, found), _members(
        facts, call_instances, *(x[first] for x in (row, handle, location, call))
    )


def are_collective(kind: Ints, flags: Ints) -> Mask:
    """Return a mask of the events of collective calls for a file, by kind and `operation_flags`."""
    is_begin = kind == K.IO_OPERATION_BEGIN
    return MANAGES[kind] | (is_begin & (flags & COLLECTIVE > 0) & (flags & NON_BLOCKING == 0))


def _events(facts: Facts, members: Ints, calls: CallInstances) -> dict[str, Ints]:
    """Read the events on handles that have a communicator, by process in order of time, with the calls for files that
    enclose them; -1 none."""
    store = facts.store
    communicator = np.append(to_numpy(store.definitions["io_handles"].column("communicator")), -1)
    of_files = facts.regions.is_file[facts.call_paths.region[calls.call_path]]
    parts: dict[str, list[Ints]] = {n: [np.zeros(0, np.int64)] for n in (*READ, "location", "time", "call")}
    # an operation may be completed by a thread that calls nothing for files
    uses_files = np.isin(facts.process[members], facts.process[calls.location[of_files]])
    for i in members[uses_files].tolist():
        if not store.n_rows("io", i):
            continue
        side = store.read("io", i, list(READ))
        mine = communicator[side["handle"]] >= 0
        row = side["row"][mine].astype(np.int64)
        for name in READ:
            parts[name].append(side[name][mine].astype(np.int64))
        parts["location"].append(np.full(row.size, i, np.int64))
        parts["time"].append(times_of(store, i, row - facts.first_rows[i]))
        parts["call"].append(enclosing_calls(calls, i, row, of_files))
    found = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    process = facts.process[found["location"]].astype(np.int64)
    order = facts.order.argsort(found["row"], found.pop("time"), process)
    return {name: column[order] for name, column in {**found, "process": process}.items()}


def _operations(calls: CallInstances, e: dict[str, Ints]) -> CompoundTable:
    """Join operations with their completions, which may be on other threads; events are by process in order of time."""
    is_begin = e["kind"] == K.IO_OPERATION_BEGIN
    of = combine(e["handle"], e["matching"])
    partner = pair_within_processes(e["process"], e["location"], of, is_begin, ENDS[e["kind"]])
    at = np.flatnonzero(is_begin & (e["call"] >= 0))
    at = at[np.argsort(e["row"][at])]
    call, end = e["call"][at], partner[at]
    return CompoundTable(
        FILE_OPERATIONS,
        at.size,
        {
            "event": e["row"][at],
            "handle": e["handle"][at].astype(np.int32),
            "location": e["location"][at].astype(np.int32),
            "mode": e["mode"][at].astype(np.int16),
            "is_collective": e["operation_flags"][at] & COLLECTIVE > 0,
            "end": pick(e["row"], end),
            "bytes": pick(e["result"], end),
            "enter_time": calls.enter_time[call],
            "exit_time": calls.exit_time[call],
            "call_path": calls.call_path[call],
        },
    )


def _members(facts: Facts, calls: CallInstances, row: Ints, handle: Ints, location: Ints, call: Ints) -> CompoundTable:
    """Join the k-th collective calls of all processes on a handle."""
    communicator = pick(to_numpy(facts.store.definitions["io_handles"].column("communicator")), handle)
    enter, leave = calls.enter_time[call], calls.exit_time[call]
    process = facts.process[location].astype(np.int64)
    channel = facts.communicators.channel(communicator, process.astype(np.int32))
    by_time = facts.order.argsort(calls.enter[call], enter, process)
    k = occurrence(combine(process, channel, handle), by_time)
    k = facts.numbering.number(Numbered.FILE, k, process, handle)
    of, head = Segments.of(combine(channel, handle, k))
    size, operation = facts.communicators.size_of(communicator[head]), of.group
    complete = of.count() == size
    collective = np.append(facts.regions.is_collective_file, False)
    regions = facts.call_paths.region[calls.call_path]
    n_calls = int(collective[regions].sum()) if facts.locations.n_processes > 1 else 0
    n_known = int(collective[regions[call]].sum())
    return CompoundTable(
        FILE_MEMBERS,
        row.size,
        {
            "operation": operation,
            "handle": handle.astype(np.int32),
            "communicator": communicator.astype(np.int32),
            "location": location.astype(np.int32),
            "event": row,
            "enter_time": enter,
            "exit_time": leave,
            "latest_enter_time": np.where(complete, of.max(enter), -1)[operation],
            "earliest_exit_time": np.where(complete, of.min(leave), -1)[operation],
            "call_path": calls.call_path[call],
        },
        {
            "collective operations on files that lack participants": int((of.count() < size).sum()),
            UNKNOWN: max(n_calls - n_known, 0),
        },
    )
