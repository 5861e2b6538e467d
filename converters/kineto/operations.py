"""Operations of NCCL and RCCL in Kineto traces, joined over the ranks whose files are given.

Operations of several ranks are joined by the first of these keys that all of their members have: the identifier of the
operation (`Comms Id`); process group and sequence number (`Seq`); process group and order; stream and order. Order is
trusted only within training steps in which all ranks have the same operations, counting only those launched within the
recording, and only if no operation that waits for all members ends before its last member begins. Operations that a
rank executes on several devices are not joined. Messages are joined by process group, sender, receiver and order.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tracecols.converters.kineto import scan
from tracecols.converters.kineto.recording import MOST_RANKS, Detail, Recording, whole
from tracecols.converters.nccl import (
    PARTNERS,
    RECEIVE,
    SEND,
    Operation,
    bytes_of_type,
    find_operation,
    fits_kernel,
    operation_of_kernel,
)

OF_OPERATION, OF_SEQUENCE, OF_GROUP, OF_STREAM = range(1, 5)
"""Keys, the most trusted first."""

MAX_OFFSET, TIMES_DEVIATION, LEAST_INSTANCES = 20_000, 3, 3
"""Offsets between clocks of hosts are corrected if they exceed MAX_OFFSET ns and TIMES_DEVIATION times the median
deviation from them, in at least LEAST_INSTANCES operations."""

_SAME_SIZE = ("ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclReduce", "ncclBarrier")
"""Operations in which all members have the same number of elements."""

GLOO = -1
"""Replaces the stream number for threads of gloo, which all execute operations of the same order."""

Key = tuple[Any, ...]


@dataclass
class Member:
    """An operation on a stream of one rank."""

    recording: int
    location: int
    row: int
    """`recording`, `location` and `row`: number of the recording; location in it; slice of the location."""
    begin: int
    end: int
    """`begin` and `end`: in ns."""
    launch: int
    """Time of its launch, in ns; -1 unknown."""
    operation: Operation | None
    """The kind of operation; None if unknown."""
    given: dict[str, Any]
    """Its parameters."""
    stream: int
    device: int
    """`stream` and `device`: numbers; of gloo GLOO, and its process."""
    sent: int = 1
    received: int = 1
    """`sent` and `received`: bytes; 1 if unknown."""
    is_assumed: bool = True
    """Whether `sent` and `received` are unknown."""
    root: int = -1
    """Rank in the group; -1 none."""
    named: tuple[int, int] = (-1, -1)
    """Of a message, the ranks in the group of both sides that the range around its launch names; -1 unknown."""


@dataclass
class Instance:
    """An operation of several ranks, or a message."""

    group: int
    """Number among the groups."""
    members: list[Member]
    """In the order of the group's ranks; of a message sender and receiver."""


@dataclass
class Group:
    """Ranks that communicate."""

    name: str
    description: str
    recordings: list[int]
    """Recordings of the given ranks, in rank order; of messages, of sender and receiver."""
    ranks: tuple[int, ...]
    """All its ranks in order; empty if unknown."""
    size: int
    """Number of ranks."""
    key: int
    """Key by which its operations are joined."""


@dataclass
class Operations:
    """All operations."""

    groups: list[Group] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    others: list[Member] = field(default_factory=list)
    """Operations that are not joined."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of operations by outcome, for people."""
    offsets: dict[str, int] = field(default_factory=dict)
    """By host: offset added to its times, in ns."""
    distrusted: list[str] = field(default_factory=list)
    """Why operations of groups could not be joined."""


# -- the operations of a rank ------------------------------------------------------------------------------------------


class _Around:
    """Slices with arguments, searched by a time that they enclose."""

    def __init__(self, recording: Recording, kind: int) -> None:
        self._found: dict[int, list[tuple[int, int, Detail]]] = defaultdict(list)
        for d in recording.details:
            if d.kind == kind and d.location >= 0:
                s = recording.places[d.location].slices
                self._found[d.location].append((int(s.begin[d.row]), int(s.end[d.row]), d))
        for found in self._found.values():
            found.sort(key=lambda one: one[:2])
        self._begins = {of: np.array([one[0] for one in found]) for of, found in self._found.items()}

    def find(self, location: int, time: int) -> Detail | None:
        """Return the slice of a location that began last among those that enclose a time."""
        if location not in self._begins:
            return None
        at = int(np.searchsorted(self._begins[location], time, "right")) - 1
        for begin, end, detail in reversed(self._found[location][max(at - 3, 0) : at + 1]):
            if begin <= time <= end:
                return detail
        return None


def members_of(number: int, recording: Recording) -> list[Member]:
    """Return the operations on the streams of a rank, in order of their begins."""
    kernels = [d for d in recording.details if d.kind == scan.COLLECTIVE and d.location >= 0]
    correlations = [int(recording.places[d.location].slices.correlation[d.row]) for d in kernels]
    launches = recording.launches(np.array(sorted({c for c in correlations if c >= 0}), np.int64))
    operators, ranges = _Around(recording, scan.PARAM_COMMS), _Around(recording, scan.ANNOTATION)
    result = []
    for d, correlation in zip(kernels, correlations, strict=True):
        place = recording.places[d.location]
        s = place.slices
        location, launch = launches.get(correlation, (-1, -1))
        operator = operators.find(location, launch) if location >= 0 else None
        around = ranges.find(location, launch) if location >= 0 else None
        given = {**(operator.given if operator is not None else {}), **d.given}
        m = Member(
            number,
            d.location,
            d.row,
            int(s.begin[d.row]),
            int(s.end[d.row]),
            launch,
            None,
            given,
            GLOO if place.is_gloo else place.tid,
            place.pid,
        )
        title = _name_of(recording, around) if around is not None else ""
        _understand(m, recording.names[int(s.name[d.row])][1], title, around.given if around is not None else {})
        result.append(m)
    return sorted(result, key=lambda m: (m.begin, m.location, m.row))


def _name_of(recording: Recording, detail: Detail) -> str:
    return recording.names[int(recording.places[detail.location].slices.name[detail.row])][1]


def _understand(m: Member, kernel: str, title: str, around: dict[str, Any]) -> None:
    """Determine the kind of an operation, its root, and the bytes that it sends and receives."""
    by_name = operation_of_kernel(kernel)
    named = m.given.get("Collective name")
    if m.stream == GLOO:
        by_name, title = None, kernel
    declared = find_operation(named) if isinstance(named, str) else find_operation(title) if title else None
    is_named = isinstance(named, str) or bool(title)
    if declared is not None and fits_kernel(declared, by_name):
        m.operation = declared
    elif not is_named:
        m.operation = by_name
    if m.operation is None:
        return
    if partners := PARTNERS.search(title):
        m.named = int(partners[1]), int(partners[2])
    if m.operation.role in ("coll_one2all", "coll_all2one"):
        m.root = whole(m.given.get("Rank"), MOST_RANKS)
    size = whole(m.given.get("Group size"))
    sent, received = _bytes(m.given, around, m.operation, size)
    if sent >= 0 and received >= 0:
        m.sent, m.received, m.is_assumed = sent, received, False


def _bytes(given: dict[str, Any], around: dict[str, Any], operation: Operation, size: int) -> tuple[int, int]:
    """Return the bytes that an operation sends and receives; -1 unknown."""
    n_in, n_out = whole(given.get("In msg nelems")), whole(given.get("Out msg nelems"))
    each = bytes_of_type(str(given.get("dtype", "")))
    if n_in >= 0 and n_out >= 0 and each:
        return n_in * each, n_out * each
    sent = _bytes_of_inputs(around.get("Input Dims"), around.get("Input type"))
    if sent < 0:
        return -1, -1
    if operation.function == "ncclAllGather" and size > 0:
        return sent, sent * size
    if operation.function == "ncclReduceScatter" and size > 0:
        return sent, sent // size
    return sent, sent


def _bytes_of_inputs(dims: Any, types: Any) -> int:
    """Return the bytes of the input tensors of an operator; -1 unknown."""
    if not isinstance(dims, list) or not isinstance(types, list) or not dims or len(types) < 1:
        return -1
    each = bytes_of_type(str(types[0]))
    shapes = dims[0] if dims[0] and isinstance(dims[0], list) and isinstance(dims[0][0], list) else dims[:1]
    if not each or not all(isinstance(s, list) and all(whole(d) >= 0 for d in s) for s in shapes):
        return -1
    return min(sum(prod(s) for s in shapes) * each, 1 << 62)


# -- groups ------------------------------------------------------------------------------------------------------------


Configured = dict[tuple[int, str], tuple[int, ...]]
"""The ranks of process groups, by recording and name of the group."""


def _configured(recordings: Sequence[Recording]) -> Configured:
    """Return the ranks of the process groups that the files list, by recording and name."""
    result = {}
    for number, recording in enumerate(recordings):
        listed = recording.distributed.get("pg_config")
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and (ranks := _ranks(one.get("ranks"))):
                result[number, str(one.get("pg_name"))] = ranks
    return result


def _ranks(value: Any) -> tuple[int, ...]:
    """Return ranks from a list or its text; empty if it is truncated or not a list."""
    if isinstance(value, str):
        if not re.fullmatch(r"\[\s*\d{1,9}(\s*,\s*\d{1,9})*\s*\]", value):
            return ()
        value = [int(n) for n in re.findall(r"\d+", value)]
    if not isinstance(value, list) or not all(whole(n, MOST_RANKS) >= 0 for n in value) or len(set(value)) < len(value):
        return ()
    return tuple(value)


def recorded_rank(recording: Recording) -> int:
    """Return the rank that a file states; -1 none.

    Files recorded on demand state `Rank` of any operation of all ranks, which may be its root, and others none if
    recording began before the process groups existed. Then it follows from an operation without a root, whose `Rank`
    is that in its group, or it is the only rank in all process groups: a process lists those that it is a member of.
    """
    stated = whole(recording.distributed.get("rank"), MOST_RANKS)
    if stated >= 0 and recording.distributed.get("nccl_version") != "unknown":
        return stated
    configured = _configured([recording])
    for given in (d.given for d in recording.details if d.kind == scan.PARAM_COMMS):
        operation = find_operation(str(given.get("Collective name")))
        own = whole(given.get("Rank"), MOST_RANKS)
        if operation and operation.waits_for_all and own >= 0:
            ranks = _ranks_of(given, 0, configured)
            if own < len(ranks):
                return ranks[own]
            if given.get("Process Group Description") == "default_pg":
                return own
    common = set.intersection(*map(set, configured.values())) if configured else set()
    return common.pop() if len(common) == 1 else -1


def _ranks_of(given: dict[str, Any], recording: int, configured: Configured) -> tuple[int, ...]:
    """Return the ranks of the group of an operation with some arguments; empty if unknown."""
    if ranks := _ranks(given.get("Process Group Ranks")):
        return ranks
    if ranks := configured.get((recording, str(given.get("Process Group Name"))), ()):
        return ranks
    start, stride, size = (whole(given.get(n)) for n in ("Global rank start", "Global rank stride", "Group size"))
    return (
        tuple(range(start, start + stride * size, stride)) if start >= 0 and stride > 0 and 0 < size < 1 << 22 else ()
    )


def _group_key(m: Member, configured: Configured) -> Key:
    name = m.given.get("Process Group Name")
    if isinstance(name, str):
        return "group", name, _ranks_of(m.given, m.recording, configured)
    return "stream", m.stream, ()


def _pair(m: Member, rank: int, configured: Configured) -> tuple[int, ...]:
    """Return the ranks of sender and receiver of a message; empty if it is none, or they are not recorded. `Rank` is
    that of the partner in the group."""
    if m.operation is None or m.operation.function not in (SEND, RECEIVE):
        return ()
    is_send = m.operation.function == SEND
    peer = whole(m.given.get("Dst Rank" if is_send else "Src Rank"))
    if peer == -1:
        ranks, (own, partner) = _ranks_of(m.given, m.recording, configured), m.named
        partner = whole(m.given.get("Rank", partner))
        # groups without ranks are taken for the default one if the rank in it is the same
        peer = ranks[partner] if 0 <= partner < len(ranks) else partner if not ranks and own == rank else -1
    return () if peer in (-1, rank) else (rank, peer) if is_send else (peer, rank)


# -- which belong together ---------------------------------------------------------------------------------------------


class _Joining:
    """The operations of one group."""

    def __init__(
        self, recordings: Sequence[Recording], of: dict[int, list[Member]], wanted: Iterable[int], key: Key
    ) -> None:
        self.of = {number: of.get(number, []) for number in wanted}
        every = [m for members in self.of.values() for m in members]
        self.left: list[Member] = []
        self.instances: list[list[Member]] = []
        self.why = ""
        # sender and receiver number their messages differently
        is_message = key[0] == "message"
        if not is_message and all(isinstance(m.given.get("Comms Id"), int | str) for m in every):
            self.key = OF_OPERATION
            self._identify(lambda m: (m.given["Comms Id"],))
        elif key[0] == "group" and all(whole(m.given.get("Seq")) >= 0 for m in every):
            self.key = OF_SEQUENCE
            self._identify(lambda m: (m.given["Seq"], bool(m.given.get("Is P2P", False))))
        else:
            self.key = OF_GROUP if is_message or key[0] == "group" else OF_STREAM
            self._count(recordings)
        self._choose()

    def give_up(self, why: str) -> None:
        """Take all operations as ones that are not joined."""
        self.why = why
        self.left += [m for i in self.instances for m in i]
        self.instances = []

    def _identify(self, identity: Any) -> None:
        self.ids: dict[int, dict[Key, Member]] = {}
        for number, members in self.of.items():
            seen: Counter[Key] = Counter()
            mine = self.ids.setdefault(number, {})
            for m in members:
                key = identity(m)
                mine[*key, seen[key]] = m
                seen[key] += 1

    def _count(self, recordings: Sequence[Recording]) -> None:
        """Number operations within the training steps in which they were launched."""
        self.ids = {}
        several = len(self.of) > 1
        stepped = all(recordings[number].steps for number in self.of)
        for number, members in self.of.items():
            known = any(m.launch != -1 for m in members)
            begins = np.array([step[1] for step in recordings[number].steps], np.int64)
            seen: Counter[int] = Counter()
            mine = self.ids.setdefault(number, {})
            for m in members:
                if several and known and m.launch == -1:
                    self.left.append(m)
                    continue
                step = -1
                if stepped:
                    at = int(np.searchsorted(begins, m.launch, "right")) - 1
                    step = recordings[number].steps[at][0] if at >= 0 else -1
                mine[step, seen[step]] = m
                seen[step] += 1
        if several:
            counts = [Counter(step for step, _ in mine) for mine in self.ids.values()]
            agreeing = {step for step in counts[0] if all(c[step] == counts[0][step] for c in counts)}
            if len(agreeing) < len(set().union(*counts)):
                self.why = "ranks have different numbers of operations in a training step"
            for number, mine in self.ids.items():
                self.left += [m for (step, _), m in mine.items() if step not in agreeing]
                self.ids[number] = {key: m for key, m in mine.items() if key[0] in agreeing}

    def _choose(self) -> None:
        """Keep the operations that all ranks have, that are alike on all of them, and begin in the same order."""
        first = next(iter(self.ids.values()))
        common = [key for key in first if all(key in mine for mine in self.ids.values())]
        alike = [key for key in common if self._are_alike([mine[key] for mine in self.ids.values()])]
        if len(alike) < len(common):
            self.why = "ranks execute different operations"
            if self.key >= OF_GROUP:
                alike = []
        chosen = []
        last: dict[int, tuple[int, ...]] = dict.fromkeys(self.ids, ())
        for key in sorted(alike, key=lambda key: _order(first[key])):
            if all(_order(mine[key]) > last[number] for number, mine in self.ids.items()):
                chosen.append(key)
                last = {number: _order(mine[key]) for number, mine in self.ids.items()}
        taken = set(chosen)
        self.instances = [[mine[key] for mine in self.ids.values()] for key in chosen]
        self.left += [m for mine in self.ids.values() for key, m in mine.items() if key not in taken]

    def _are_alike(self, members: list[Member]) -> bool:
        """Return whether the members of an operation do the same."""
        functions = {m.operation.function if m.operation is not None else "" for m in members}
        if len(functions) > 1:
            return functions == {SEND, RECEIVE}
        return self.key < OF_STREAM or functions.isdisjoint(_SAME_SIZE) or len({m.sent for m in members}) == 1


def _order(m: Member) -> tuple[int, int, int]:
    return m.begin, m.location, m.row


def join(recordings: Sequence[Recording], ranks: Sequence[int], hosts: Sequence[str]) -> Operations:
    """Join the operations of all ranks, each with its rank and host."""
    result = Operations()
    configured = _configured(recordings)
    groups, messages = (defaultdict[Key, dict[int, list[Member]]](lambda: defaultdict(list)) for _ in range(2))
    of_rank = {rank: number for number, rank in enumerate(ranks)}
    for number, recording in enumerate(recordings):
        for m in members_of(number, recording):
            if m.operation is not None and m.operation.op >= 0:
                groups[_group_key(m, configured)][number].append(m)
            elif (pair := _pair(m, ranks[number], configured)) and of_rank.keys() >= set(pair):
                messages["message", str(m.given.get("Process Group Name")), pair][number].append(m)
            else:
                result.others.append(m)
                what = (
                    "messages"
                    if m.operation is not None
                    else "kernels that execute several operations, or unknown ones"
                )
                result.counts[what] += 1
    _leave_out_several_devices(groups, result)
    joinings = []
    for key, of in (groups | messages).items():
        in_group = [of_rank[r] for r in key[2] if r in of_rank]
        wanted = in_group if in_group and set(of) <= set(in_group) else sorted(of, key=lambda n: ranks[n])
        joinings.append((key, _Joining(recordings, of, wanted, key)))
    result.offsets = find_offsets([i for _, joining in joinings for i in joining.instances], hosts)
    shift = [result.offsets.get(host, 0) for host in hosts]
    for key, joining in joinings:
        _take(result, key, joining, shift)
    return result


def _leave_out_several_devices(groups: dict[Key, dict[int, list[Member]]], result: Operations) -> None:
    """Take the groups whose operations a rank executes on several devices as operations that are not joined: each of
    these devices is a participant of its own."""
    devices: dict[tuple[Key, int], set[int]] = defaultdict(set)
    # without process groups, any two streams may belong to one group
    scope = {key: key if key[0] == "group" or key[1] == GLOO else ("streams",) for key in groups}
    for key, of in groups.items():
        for number, members in of.items():
            devices[scope[key], number].update(m.device for m in members)
    for key in [key for key, of in groups.items() if any(len(devices[scope[key], number]) > 1 for number in of)]:
        left = [m for members in groups.pop(key).values() for m in members]
        result.others += left
        result.counts["operations that are not joined: their rank executes them on several devices"] += len(left)
        result.distrusted.append(f"{_title(key)}: a rank executes them on several devices")


def _title(key: Key) -> str:
    """Return the name of a group for people."""
    if key[0] == "message":
        return f"process group {key[1]}, messages from rank {key[2][0]} to rank {key[2][1]}"
    return f"process group {key[1]}" if key[0] == "group" else "gloo" if key[1] == GLOO else f"stream {key[1]}"


def _take(result: Operations, key: Key, joining: _Joining, shift: Sequence[int]) -> None:
    """Add the operations of a group to the result; if they are not trusted, as ones that are not joined."""
    numbers = list(joining.of)
    n_apart = sum(not _overlap(i, shift) for i in joining.instances)
    if joining.key >= OF_GROUP and n_apart:
        joining.give_up(
            f"{n_apart} of {len(joining.instances)} messages would be received before they are sent"
            if key[0] == "message"
            else f"{n_apart} of {len(joining.instances)} operations of all with all would end before all have begun"
        )
    size = max((whole(m.given.get("Group size")) for i in joining.instances for m in i), default=-1)
    if 0 < size < len(numbers):
        joining.give_up(f"{len(numbers)} ranks execute operations of a group of {size}")
    name = _title(key)
    if joining.left:
        result.others += joining.left
        result.counts["operations that are not joined: not all given ranks hold them"] += len(joining.left)
        if joining.why:
            result.distrusted.append(f"{name}: {joining.why}")
    if not joining.instances:
        return
    description = next(
        (
            str(m.given["Process Group Description"])
            for m in joining.instances[0]
            if "Process Group Description" in m.given
        ),
        "",
    )
    result.groups.append(Group(name, description, numbers, key[2], max(size, len(key[2]), len(numbers)), joining.key))
    result.instances += [Instance(len(result.groups) - 1, members) for members in joining.instances]


def _overlap(members: list[Member], shift: Sequence[int]) -> bool:
    """Return whether an operation is possible: if it waits for all members, none ends before all have begun, and no
    receiver of a message before its sender."""
    operation = members[0].operation
    if operation is not None and operation.op < 0:
        send, receive = members
        return receive.end + shift[receive.recording] > send.begin + shift[send.recording]
    if operation is None or not operation.waits_for_all:
        return True
    return min(m.end + shift[m.recording] for m in members) > max(m.begin + shift[m.recording] for m in members)


def find_offsets(instances: list[list[Member]], hosts: Sequence[str]) -> dict[str, int]:
    """Find the offsets between clocks of hosts: members of an operation that waits for all members end together.

    Returns the ns to add to the times of each host; hosts that need no correction are left out.
    """
    late: dict[str, list[float]] = defaultdict(list)
    for members in instances:
        operation = members[0].operation
        if operation is None or not operation.waits_for_all or len({hosts[m.recording] for m in members}) < 2:
            continue
        # differences, since floating-point numbers cannot represent absolute times in ns
        since = [m.end - members[0].end for m in members]
        median = float(np.median(since))
        for m, end in zip(members, since, strict=True):
            late[hosts[m.recording]].append(end - median)
    result = {}
    for host, found in sorted(late.items()):
        offset = float(np.median(found))
        deviation = float(np.median(np.abs(np.array(found) - offset)))
        if len(found) >= LEAST_INSTANCES and abs(offset) > MAX_OFFSET and abs(offset) > TIMES_DEVIATION * deviation:
            result[host] = -round(offset)
    return result
