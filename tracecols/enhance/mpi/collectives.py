"""Match the participants of MPI collective operations (thesis 3.8, 3.9).

One equality join on (communicator, k), where k numbers the collective operations of a process on the communicator. With
several partitions or windows, each sorts its participants by this key (`outgoing_members`), so that a range of
operations is a slice of every partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import Columns, ColumnSource, CompoundTable, joined, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, number_chronologically, occurrence
from tracecols.enhance.dataflow.partitions import BUCKET_ROWS, EVERYTHING, LEAST_MEMBERS, MEMBER_BYTES, Bucket, Division
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import BUCKET, GLOBAL, WITHIN, step
from tracecols.enhance.definitions.communicators import Communicators
from tracecols.enhance.definitions.numbering import Numbered
from tracecols.enhance.mpi.waits import HANDLES
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances, attributed_events
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.schema import EventKind as K
from tracecols.schema.compound import COLLECTIVE_MEMBERS, COLLECTIVES, STARTUPS
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.vectors import Ints, Mask

MEMBER = (
    "key", "communicator", "rank", "location", "begin", "end", "begin_time", "end_time", "sent", "received", "root",
    "op", "enter", "exit", "enter_time", "exit_time", "call_path",
)  # fmt: skip
"""Columns of the participants of a partition."""

_RELATIVE = {
    "begin": "end", "enter": "end", "exit": "end", "begin_time": "end_time", "enter_time": "end_time",
    "exit_time": "end_time",
}  # fmt: skip

_K = 32
"""Bits of a key for the number of an operation within its communicator."""


def blocking_operations(
    communicators: Communicators,
    kind: NDArray[np.uint8],
    communicator: NDArray[np.int32],
    location: NDArray[np.signedinteger[Any]],
) -> tuple[Ints, Ints, NDArray[np.int32]]:
    """Find the blocking collective operations among events of the family `collectives`.

    The creation of an inter-communicator is an operation of both of its groups, also if processes are spawned or
    connect to each other. Within an operation on one group (MPI_Intercomm_create), it replaces that operation.

    The events come location by location. Returns the events that end operations, the preceding events that begin them,
    -1 none, and the communicators of the operations.
    """
    is_creation = (kind == K.COMM_CREATE) & communicators.are_inter(communicator)
    is_begin, is_end = kind == K.MPI_COLLECTIVE_BEGIN, kind == K.MPI_COLLECTIVE_END
    at = np.flatnonzero(is_begin | is_end | is_creation)
    if is_creation.any():
        inner = np.flatnonzero(is_creation[at[1:-1]] & is_begin[at[:-2]] & is_end[at[2:]]) + 1
        inner = inner[location[at[inner - 1]] == location[at[inner + 1]]]
        communicator = communicator.copy()
        communicator[at[inner + 1]] = communicator[at[inner]]
        at = np.delete(at, inner)
    before = np.concatenate([[-1], at])[:-1]
    begun = (before >= 0) & is_begin[before] & (location[before] == location[at])
    ends = ~is_begin[at]
    return at[ends], np.where(begun, before, -1)[ends], communicator[at[ends]]


class OutgoingMembers(NamedTuple):
    """The participants of collective operations in a partition."""

    members: ColumnSource
    """`MEMBER`; with more than one window sorted by key, which numbers communicators, and the operations of each."""
    communicator: Ints
    size: Ints
    first: Ints
    stop: Ints
    """`communicator`, `size`, `first` and `stop`: (n,), numbers of the communicators that are used; number of
    participants of the partition on each; number of its first operation there, and one more than that of the last."""


@step(WITHIN, "outgoing_members")
def outgoing_members(
    facts: Facts,
    scans: Sequence[LocationScan],
    members: Ints,
    call_instances: CallInstances,
    division: Division,
    spill: Spill,
) -> OutgoingMembers:
    """Find the participants of collective operations in a partition, in the order of the operations."""
    comm, calls = facts.communicators, call_instances
    columns = ["op", "communicator", "root", "sent", "received"]
    e = attributed_events(facts, scans, members, calls, "collectives", columns)
    end, before, communicator = blocking_operations(comm, e.kind, e.communicator, e.location)
    call, is_creation = e.call[end], e.kind[end] == K.COMM_CREATE
    # an operation begins in the call in which it ends
    begun = (before >= 0) & (e.call[before] == call)
    begin_time = np.where(begun, e.time[before], pick(calls.enter_time, call))
    begin_row = np.where(begun, e.row[before], pick(calls.enter, call))
    location, end_time = e.location[end], e.time[end]
    process = facts.process[location]
    channel = comm.channel(communicator, process)
    # several threads of one process may take part in operations of a communicator, one after the other
    threads = np.flatnonzero(location[1:] != location[:-1])
    several = (process[threads] == process[threads + 1]).any()
    k = occurrence(combine(process, channel), facts.order.argsort(e.row[end], end_time, process) if several else None)
    k = facts.numbering.number(Numbered.COLLECTIVE, k, process, communicator)
    key = channel << _K | k
    if len(division.windows) > 1:
        order = np.argsort(key, kind="stable")
        key, end, call, begin_row, begin_time, end_time, is_creation = (
            column[order] for column in (key, end, call, begin_row, begin_time, end_time, is_creation)
        )
        communicator, process, location = communicator[order], process[order], location[order]
    rows = Columns(
        end.size,
        {
            "key": key,
            "communicator": communicator,
            "rank": comm.rank_of(communicator, process).astype(np.int32),
            "location": location,
            "begin": begin_row,
            "end": e.row[end],
            "begin_time": begin_time,
            "end_time": end_time,
            "sent": np.where(is_creation, 0, e.sent[end]),
            "received": np.where(is_creation, 0, e.received[end]),
            "root": np.where(is_creation, -1, e.root[end]).astype(e.root.dtype),
            "op": np.where(is_creation, COLLECTIVE_OPS.index("create_handle"), e.op[end]).astype(e.op.dtype),
            "enter": pick(calls.enter, call),
            "exit": pick(calls.exit, call),
            "enter_time": pick(calls.enter_time, call),
            "exit_time": pick(calls.exit_time, call),
            "call_path": pick(calls.call_path, call),
        },
    )
    of, first = Segments.of(channel)
    return OutgoingMembers(spill.keep(rows, _RELATIVE), channel[first], of.count(), of.min(k), of.max(k) + 1)


def plan_buckets(outgoing: Sequence[OutgoingMembers], memory: int | None = None) -> list[Bucket]:
    """Divide collective operations into ranges of keys with about `BUCKET_ROWS` participants each, or fewer if `memory`
    bytes do not suffice."""
    if len(outgoing) == 1:
        return [EVERYTHING]
    most = BUCKET_ROWS if memory is None else min(BUCKET_ROWS, max(memory // MEMBER_BYTES, LEAST_MEMBERS))
    channel = np.concatenate([p.communicator for p in outgoing])
    of, first = Segments.of(channel)
    size = of.sum(np.concatenate([p.size for p in outgoing]))
    # the operations of a trace slice are not numbered from 0
    starts = of.min(np.concatenate([p.first for p in outgoing]))
    stops = of.max(np.concatenate([p.stop for p in outgoing]))
    bounds, filled = [0], 0
    for c in np.argsort(channel[first]).tolist():
        start, stop = int(starts[c]), int(stops[c])
        step = max(1, most * (stop - start) // int(size[c]))
        for k in range(start, stop, step):
            n = int(size[c]) * min(step, stop - k) // (stop - start)
            if filled and filled + n > most:
                bounds.append(int(channel[first[c]]) << _K | k)
                filled = 0
            filled += n
    edges = pairwise([*bounds, EVERYTHING.high])
    return [Bucket(number, low, high) for number, (low, high) in enumerate(edges)]


def _member_columns(bucket: Bucket, every: Sequence[OutgoingMembers]) -> Callable[[str], NDArray[Any]]:
    """Return a function that reads a column of the participants in a range of keys."""
    several = len(every) > 1
    spans = [
        o.members.search("key", [bucket.low, bucket.high]).tolist() if several else (0, len(o.members)) for o in every
    ]
    return lambda name: joined([o.members.rows(name, *span) for o, span in zip(every, spans, strict=True)])


@step(BUCKET, "collectives", "collective_members")
def match_collectives(
    facts: Facts, bucket: Bucket, every_outgoing_members: Sequence[OutgoingMembers]
) -> tuple[CompoundTable, CompoundTable]:
    """Build the tables of the collective operations in a range of keys, and of their participants."""
    member = _member_columns(bucket, every_outgoing_members)
    # read once, and not through the tables: a column that refers to its table would keep the data of the table alive
    # until the next garbage collection
    begin_time, rank, location = (cache(partial(member, name)) for name in ("begin_time", "rank", "location"))
    # operations are numbered by the time of their first end
    end_time, communicator, op, root = member("end_time"), member("communicator"), member("op"), member("root")
    instance, head = number_chronologically(member("key"), end_time)
    segments = Segments(instance, head.size)
    latest = cache(lambda: latest_member(segments, begin_time(), rank()))
    size = facts.communicators.size_of(communicator[head])
    n_members = segments.count()
    disagree = participants_disagree(facts.communicators, segments, communicator[head], op, root)
    table = CompoundTable(
        COLLECTIVES,
        head.size,
        {
            "communicator": communicator[head],
            "op": op[head],
            "n_members": n_members.astype(np.int32),
            "size": size.astype(np.int32),
            "root": root[head],
            "latest_begin_time": lambda: segments.max(begin_time()),
            "latest_location": lambda: pick(location(), latest()),
            "latest_end": lambda: pick(member("end"), latest()),
            "latest_member": latest,
            "earliest_end_time": lambda: segments.min(end_time),
            "sent": lambda: segments.sum(member("sent")),
            "received": lambda: segments.sum(member("received")),
            "first_end": lambda: segments.min(member("end")),
            "on_device": lambda: facts.locations.is_device[location()[head]],
        },
        {
            "collective operations that lack participants": int((n_members < size).sum()),
            "collective operations whose participants disagree": int(disagree.sum()),
            "participants of collective operations on undefined communicators": int((communicator < 0).sum()),
        },
    )
    members = CompoundTable(
        COLLECTIVE_MEMBERS,
        instance.size,
        {
            **{name: partial(member, name) for name in MEMBER},
            "begin_time": begin_time,
            "rank": rank,
            "location": location,
            "collective": instance,
            "end_time": end_time,
            "is_root": lambda: facts.communicators.are_roots(communicator, rank(), root),
            "op": op,
            # -1 if all wait for all
            "group": lambda: np.where(
                op < COLLECTIVE_OPS.index(HANDLES[0]),
                facts.communicators.group_of(communicator, facts.process[location()]),
                np.int8(-1),
            ),
            "on_device": lambda: facts.locations.is_device[location()],
        },
    )
    return table, members


def participants_disagree(
    communicators: Communicators,
    segments: Segments,
    communicator: NDArray[np.int32],
    op: NDArray[np.integer[Any]],
    root: NDArray[np.integer[Any]],
) -> Mask:
    """Find the operations of which some participants execute another operation or have another root.

    `communicator` has an entry for each operation, `op` and `root` for each participant. The root of an operation on an
    inter-communicator is a rank of one of its groups, and is not compared.
    """
    highest = segments.max(root)
    lowest = segments.min(np.where(root >= 0, root, np.iinfo(root.dtype).max))
    has_other_root = (highest > lowest) & ~communicators.are_inter(communicator)
    return (segments.max(op) != segments.min(op)) | has_other_root


def latest_member(segments: Segments, begin_time: Ints, rank: NDArray[np.int32]) -> Ints:
    """Find the participant of each operation that begins last; ties go to the lowest rank in the communicator."""
    of = segments.group
    is_last = begin_time == segments.max(begin_time)[of]
    lowest = segments.min(np.where(is_last, rank, np.iinfo(np.int32).max))[of]
    chosen = np.where(is_last & (rank == lowest), np.arange(of.size), of.size)
    return segments.min(chosen)


@step(GLOBAL, "startups")
def find_startups(facts: Facts, call_instances: CallInstances) -> CompoundTable:
    """Build the table of the calls of MPI_Init and MPI_Finalize."""
    region = facts.call_paths.region[call_instances.call_path]
    is_init, is_finalize = facts.regions.is_init[region], facts.regions.is_finalize[region]
    rows = np.flatnonzero(is_init | is_finalize)
    enter, leave, init = call_instances.enter_time[rows], call_instances.exit_time[rows], is_init[rows]
    location = call_instances.location[rows]
    # connected processes end together, unless some of them leave MPI_Finalize before others enter it
    world = facts.communicators.world[facts.process[location]]
    if (~init).any() and leave[~init].min() >= enter[~init].max():
        world = np.where(init, world, -1)
    together, _ = Segments.of(2 * world + init)
    latest, earliest = together.max(enter)[together.group], together.min(leave)[together.group]
    return CompoundTable(
        STARTUPS,
        rows.size,
        {
            "is_init": init,
            "location": location,
            "communicator": world.astype(np.int32),
            "enter": call_instances.enter[rows],
            "exit": call_instances.exit[rows],
            "enter_time": enter,
            "exit_time": leave,
            "latest_enter_time": latest,
            "earliest_exit_time": earliest,
            "call_path": call_instances.call_path[rows],
        },
    )
