"""NCCL operations: the operation that each kernel executes, and the kernels of all ranks that belong together.

The operation is found from the name of the kernel, the payloads of the library (`nsys export --include-blobs=true`) and
the ranges around the launch. Without payloads, no communicator is recorded: then the k-th NCCL streams of all
processes, in the order of their use, belong together, if the same operations are on them.

A participant is a process. Kernels that a process executes for one communicator on several devices are not joined: each
of its devices is a rank of its own.

Messages are known from payloads, or ranges that name both ranks: the k-th from a rank to another in a communicator is
the same on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tracecols.converters.nccl import GROUP, RECEIVE, SEND, Operation, find_operation, fits_kernel
from tracecols.converters.nesting import OperationEvents
from tracecols.converters.nsight.payloads import Payload
from tracecols.distinct import distinct
from tracecols.schema import EventKind as K
from tracecols.vectors import Ints, Mask

ENOUGH = 0.9
"""Kernels are joined only if at least this share of their operations that wait for all members overlap in time."""


NO_COMMUNICATOR = -1
"""In place of the number of a communicator: it is not recorded."""


@dataclass
class Communicator:
    """An NCCL communicator."""

    name: str
    """Its number in the library; empty if not recorded."""
    members: list[int]
    """One stream of each rank, in rank order."""


@dataclass
class Member:
    """The participation of an NCCL kernel in an operation."""

    operation: Operation | None
    """None if unknown."""
    payloads: list[Payload] = field(default_factory=list)


class Kernels(NamedTuple):
    """The NCCL kernels of all ranks, in the order of the tables."""

    members: Sequence[Member]
    """(n,): what each executes (`find_members`)."""
    rows: Ints
    """(n, 5): stream, begin, end, correlation ID, region."""
    process: Ints
    device: Ints
    is_launched: Mask
    """`process`, `device` and `is_launched`: (n,), the last is whether the launch is recorded."""


def find_members(
    kernels: Ints,
    of_kernel: Mapping[int, Operation | None],
    launches: Ints,
    hints: Ints,
    of_hint: Mapping[int, tuple[int, Operation]],
    payloads: Iterable[tuple[int, int, Payload]],
) -> list[Member]:
    """Find the operation that each kernel executes.

    `kernels` are rows of stream, begin, end, correlation ID and region; `launches` of the number of the kernel, thread
    and begin; `hints`, ranges that name operations, of thread, begin, end and region; `payloads` of thread, begin and
    payload. `of_kernel` and `of_hint` are the operations that the names of regions indicate, by region.
    """
    result = [Member(None) for _ in range(kernels.shape[0])]
    inside = _innermost(launches, hints, of_hint)
    for i, region in enumerate(kernels[:, 4].tolist()):
        of_name = of_kernel[region]
        found = [o for o in inside.get(i, []) if fits_kernel(o, of_name)]
        collective = next((o for o in found if o.op >= 0), None)
        if of_name is None or of_name == GROUP:
            result[i].operation = collective or of_name or next(iter(found), None)
        else:
            result[i].operation = collective or of_name
    _give_payloads(result, launches, list(payloads))
    _conclude(result, kernels, launches)
    return result


def _conclude(members: list[Member], kernels: Ints, launches: Ints) -> None:
    """Assign to kernels without recorded launch the operation that all others of their name on their stream have."""
    is_launched = np.zeros(len(members), bool)
    is_launched[launches[:, 0]] = True
    known: dict[tuple[int, int], set[Operation | None]] = {}
    where = [(stream, region) for stream, region in kernels[:, [0, 4]].tolist()]
    for i in np.flatnonzero(is_launched).tolist():
        known.setdefault(where[i], set()).add(members[i].operation)
    for i in np.flatnonzero(~is_launched).tolist():
        others = known.get(where[i], set())
        if len(others) == 1 and members[i].operation in (None, GROUP):
            (members[i].operation,) = others


def _innermost(launches: Ints, hints: Ints, of_hint: Mapping[int, tuple[int, Operation]]) -> dict[int, list[Operation]]:
    """Find the innermost range of each sort around launches; by number of the kernel."""
    result: dict[int, list[Operation]] = {}
    if not launches.size or not hints.size:
        return result
    sort = np.array([of_hint[r][0] for r in hints[:, 3].tolist()])
    for wanted in distinct(sort).tolist():
        some = hints[sort == wanted]
        some = some[np.lexsort((some[:, 1], some[:, 0]))]
        for thread in distinct(some[:, 0]).tolist():
            mine, calls = some[some[:, 0] == thread], launches[launches[:, 1] == thread]
            at = np.searchsorted(mine[:, 1], calls[:, 2], "right") - 1
            holds = (at >= 0) & (mine[at, 2] >= calls[:, 2])
            for kernel, region in zip(calls[holds, 0].tolist(), mine[at[holds], 3].tolist(), strict=True):
                result.setdefault(kernel, []).append(of_hint[region][1])
    return result


def _give_payloads(members: list[Member], launches: Ints, payloads: list[tuple[int, int, Payload]]) -> None:
    """Assign to each kernel the payloads since the previous launch on its thread."""
    by_thread: dict[int, list[tuple[int, Payload]]] = {}
    for thread, begin, payload in payloads:
        if payload.function:
            by_thread.setdefault(thread, []).append((begin, payload))
    for thread, found in by_thread.items():
        found.sort(key=lambda pair: pair[0])
        calls = launches[launches[:, 1] == thread]
        calls = calls[np.argsort(calls[:, 2], kind="stable")]
        stops = np.searchsorted([begin for begin, _ in found], calls[:, 2], "right").tolist()
        for kernel, start, stop in zip(calls[:, 0].tolist(), [0, *stops], stops, strict=False):
            mine = [payload for _, payload in found[start:stop]]
            members[kernel].payloads = mine
            members[kernel].operation = _of_payloads(mine) or members[kernel].operation


def _of_payloads(payloads: Sequence[Payload]) -> Operation | None:
    """Return the operation that payloads describe: sends to all and receives from all are an all-to-all."""
    if len(payloads) == 1:
        return find_operation(payloads[0].function)
    sends, receives = ({p.peer for p in payloads if p.function == name} for name in (SEND, RECEIVE))
    if len(sends) > 1 and sends == receives == set(range(len(sends))) and len(payloads) == 2 * len(sends):
        return find_operation("ncclAlltoAll")
    return GROUP if sends or receives else None


@dataclass(frozen=True)
class Ranks:
    """Ranks of processes."""

    recorded: Mapping[tuple[int, int], int]
    """Recorded ranks, by communicator of the library and process."""
    of_run: Mapping[int, int]
    """Ranks in the run, by process."""

    def of(self, communicator: int, process: int) -> tuple[int, int]:
        """Return the sort key of a process in a communicator: its rank there, else in the run; then in the run."""
        rank = self.of_run[process]
        return self.recorded.get((communicator, process), rank), rank


@dataclass
class Joined:
    """The operations of all ranks."""

    communicators: list[Communicator] = field(default_factory=list)
    n_operations: int = 0
    """Number of collective operations."""
    n_alone: int = 0
    """Number of kernels whose partners are unknown, or which are no collective operation."""
    n_within: int = 0
    """Number of those kernels that a process executes for one communicator on several devices."""
    n_single: int = 0
    """Number of kernels in operations with a single participant, since reports of the others are not given."""
    n_without_bytes: int = 0
    """Number of kernels for which the bytes sent and received are unknown."""
    n_before: int = 0
    """Number of kernels launched before the recording, in operations whose kernels on other ranks are missing."""


def join_members(kernels: Kernels, ranks: Ranks, events: OperationEvents) -> tuple[Joined, dict[int, Operation]]:
    """Join the kernels of each communicator, the k-th of every rank; also return the operations of the joined ones."""
    joined, operations, members, device = Joined(), dict[int, Operation](), kernels.members, kernels.device
    groups = _communicators(kernels)
    devices: dict[tuple[int, int], set[int]] = {}
    for name, of_process in groups:
        for p, row in of_process.items():
            devices.setdefault((name, p), set()).update(device[row].tolist())
    for name, of_process in groups:
        if any(len(devices[name, p]) > 1 for p in of_process):
            joined.n_within += sum(len(row) for row in of_process.values())
            continue
        order = sorted(of_process, key=lambda p: ranks.of(name, p))
        rows = [of_process[p] for p in order]
        aligned, n_before = _align(rows, kernels)
        joined.n_before += n_before
        number = len(joined.communicators)
        if aligned:
            joined.communicators.append(Communicator(_text(name), [int(kernels.rows[r[0], 0]) for r in rows if r]))
            mine = [i for row in aligned for i in row]
            operations |= {i: members[i].operation or GROUP for i in mine}
            joined.n_single += len(mine) if len(rows) == 1 else 0
            joined.n_without_bytes += sum(not members[i].payloads for i in mine)
            place = {ranks.of(name, p)[0]: k for k, p in enumerate(order)}
            _write(mine, members, place, number, events)
            joined.n_operations += len(aligned[0])
    for name, messages in _messages(kernels).items():
        if all(len(set(device[list(mine)].tolist())) == 1 for mine in messages.values()):
            _join_messages(name, messages, kernels, ranks, joined, operations, events)
    joined.n_alone = len(members) - len(operations)
    return joined, operations


def _messages(kernels: Kernels) -> dict[int, dict[int, dict[int, list[Payload]]]]:
    """Return the messages, by communicator, process and kernel in order of the begins of kernels."""
    found: dict[int, dict[int, dict[int, list[Payload]]]] = {}
    for i in np.argsort(kernels.rows[:, 1], kind="stable").tolist():
        operation = kernels.members[i].operation
        for payload in kernels.members[i].payloads if operation is not None and operation.op < 0 else ():
            if payload.function in (SEND, RECEIVE):
                mine = found.setdefault(payload.communicator, {}).setdefault(int(kernels.process[i]), {})
                mine.setdefault(i, []).append(payload)
    return found


def _join_messages(
    name: int,
    of_process: dict[int, dict[int, list[Payload]]],
    kernels: Kernels,
    ranks: Ranks,
    joined: Joined,
    operations: dict[int, Operation],
    events: OperationEvents,
) -> None:
    """Join the messages of a communicator: the k-th from a rank to another on both sides, if both have the same number
    and none is received before it is sent."""
    order = sorted(of_process, key=lambda p: ranks.of(name, p))
    place = {ranks.of(name, p)[0]: k for k, p in enumerate(order)}
    if not all((name, p) in ranks.recorded for p in order):
        # those of all members are consecutive
        n = 1 + max(payload.peer for mine in of_process.values() for found in mine.values() for payload in found)
        place = {k: k for k in range(len(order))} if n <= len(order) else {}
    sides: dict[tuple[int, int, bool], list[tuple[int, int]]] = {}
    for rank, k in place.items():
        for i, payloads in of_process[order[k]].items():
            for payload in payloads:
                if payload.peer in place and payload.peer != rank:
                    is_send = payload.function == SEND
                    pair = (k, place[payload.peer]) if is_send else (place[payload.peer], k)
                    sides.setdefault((*pair, is_send), []).append((i, payload.size))
    sent: list[tuple[int, int, int]] = []
    received: list[tuple[int, int, int]] = []
    for (source, target, is_send), sends in sides.items():
        receives = sides.get((source, target, False), [])
        if not is_send or len(sends) != len(receives):
            continue
        if all(kernels.rows[i, 2] > kernels.rows[k, 1] for (k, _), (i, _) in zip(sends, receives, strict=True)):
            sent += [(k, target, size) for k, size in sends]
            received += [(i, source, size) for i, size in receives]
    if not sent:
        return
    number = len(joined.communicators)
    for kind, rows in ((K.MPI_SEND, sent), (K.MPI_RECV, received)):
        kernel, peer, size = np.array(rows, np.int64).T
        events.add_many(kernel, kind == K.MPI_RECV, kind, peer, np.full_like(peer, number), np.zeros_like(peer), size)
        operations |= {i: kernels.members[i].operation or GROUP for i in kernel.tolist()}
        joined.n_without_bytes += kernel.size if name == NO_COMMUNICATOR else 0
    streams = [int(kernels.rows[next(iter(of_process[p])), 0]) for p in order]
    joined.communicators.append(Communicator(_text(name), streams))


def _text(communicator: int) -> str:
    """Return the name of a communicator, as the library prints it; empty if it is not recorded."""
    return f"{communicator & (1 << 64) - 1:#x}" if communicator != NO_COMMUNICATOR else ""


def _communicators(kernels: Kernels) -> list[tuple[int, dict[int, list[int]]]]:
    """Group the kernels of collective operations by communicator and process, in order of their begins."""
    found: dict[int, dict[int, list[int]]] = {}
    by_stream: dict[tuple[int, int], list[int]] = {}
    for i in np.argsort(kernels.rows[:, 1], kind="stable").tolist():
        member, p = kernels.members[i], int(kernels.process[i])
        if member.operation is None or member.operation.op < 0:
            continue
        if member.payloads:
            found.setdefault(member.payloads[0].communicator, {}).setdefault(p, []).append(i)
        else:
            by_stream.setdefault((p, int(kernels.rows[i, 0])), []).append(i)
    result = list(found.items())
    # the k-th stream of each process
    place: dict[int, int] = {}
    unnamed: dict[int, dict[int, list[int]]] = {}
    for (p, _), rows in by_stream.items():
        k = place[p] = place.get(p, -1) + 1
        unnamed.setdefault(k, {})[p] = rows
    return result + [(NO_COMMUNICATOR, of) for of in unnamed.values()]


def _align(rows: list[list[int]], kernels: Kernels) -> tuple[list[list[int]], int]:
    """Return the kernels of the same operations by rank, and how many were left out because they were launched before
    the recording; nothing if they do not fit."""
    for dropped in (False, True):
        some = rows
        if dropped:
            some = [row[next((k for k, i in enumerate(row) if kernels.is_launched[i]), len(row)) :] for row in rows]
        kinds = [[kernels.members[i].operation for i in row] for row in some]
        if some and some[0] and all(k == kinds[0] for k in kinds) and _overlap(some, kinds[0], kernels.rows):
            return some, sum(len(row) for row in rows) - sum(len(row) for row in some)
    return [], 0


def _overlap(rows: list[list[int]], kinds: list[Operation | None], kernels: Ints) -> bool:
    """Return whether the kernels of operations that wait for all members overlap in time, at least `ENOUGH` of them."""
    some = np.array([k is not None and k.waits_for_all for k in kinds], bool)
    begin = np.stack([kernels[row, 1] for row in rows])[:, some]
    end = np.stack([kernels[row, 2] for row in rows])[:, some]
    return not some.any() or bool((end.min(axis=0) > begin.max(axis=0)).mean() >= ENOUGH)


def _write(
    kernels: list[int], members: Sequence[Member], place: Mapping[int, int], communicator: int, events: OperationEvents
) -> None:
    """Add the events of the kernels of a communicator; its recorded ranks are renumbered."""
    operation = np.array(kernels, np.int64)
    given = [_bytes(members[i], members[i].operation or GROUP, place) for i in kernels]
    root, sent, received = np.array(given, np.int64).reshape(-1, 3).T
    op = np.array([(members[i].operation or GROUP).op for i in kernels], np.int64)
    events.add_collectives(operation, op, np.full(op.size, communicator), root, sent, received)


def _bytes(member: Member, operation: Operation, place: Mapping[int, int]) -> tuple[int, int, int]:
    """Return the root, and the bytes that a rank sends and receives: 1 if not recorded."""
    if not member.payloads:
        return -1, 1, 1
    p = member.payloads[0]
    sent, received = (sum(p.size for p in member.payloads if p.function == name) for name in (SEND, RECEIVE))
    if operation.function == "ncclAlltoAll" and sent + received:
        return -1, sent, received
    # a group of operations of one kind may be one kernel; sizes are those of a message between two ranks
    sent = received = sum(p.size for p in member.payloads if find_operation(p.function) == operation) or p.size
    if operation.function in ("ncclAllGather", "ncclGather", "ncclAlltoAll"):
        received *= len(place)
    if operation.function in ("ncclReduceScatter", "ncclScatter", "ncclAlltoAll"):
        sent *= len(place)
    is_rooted = operation.role in ("coll_one2all", "coll_all2one")
    return place.get(p.peer, -1) if is_rooted else -1, sent, received
