"""MPI calls: messages and their requests, collective operations, communicators.

Communicator handles belong to a process and are reused: a call refers to the last definition before it, and definitions
with the same root of the group and the same number there are one communicator. Request handles are reused as well: a
request ends with the last call that names its handle before the handle is used for the next request, which may be that
of a collective operation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracecols.converters.nesting import OperationEvents
from tracecols.converters.nsight.content import MOST_RANKS, NOTHING, Content
from tracecols.converters.nsight.operations import Communicator
from tracecols.converters.region_names import collective_of
from tracecols.schema import EventKind as K
from tracecols.schema.enums import COLLECTIVE_OPS, plain_name
from tracecols.vectors import Ints

COLUMNS: dict[str, tuple[str, ...]] = {
    "MPI_P2P_EVENTS": ("commHandle", "tag", "remoteRank", "size", "requestHandle"),
    "MPI_COLLECTIVES_EVENTS": ("commHandle", "rootRank", "size", "recvSize", "requestHandle"),
    "MPI_START_WAIT_EVENTS": ("requestHandle",),
    "MPI_OTHER_EVENTS": (),
}
"""Columns of each table other than times, thread and name."""

SEND, RECEIVE, START_SEND, START_RECEIVE, EXCHANGE, WAIT, START_OTHER, PLAIN, FIRST_COLLECTIVE = range(9)
"""Kinds of calls; EXCHANGE are those whose rows do not say which messages they send and receive. A collective operation
is FIRST_COLLECTIVE plus its index in `COLLECTIVE_OPS`, a non-blocking one FIRST_NONBLOCKING plus the index."""

FIRST_NONBLOCKING = FIRST_COLLECTIVE + len(COLLECTIVE_OPS)

_WHAT = (
    (SEND, "mpi_[bsr]?send"),
    (RECEIVE, "mpi_m?recv"),
    (START_SEND, "mpi_i[bsr]?send"),
    (START_RECEIVE, "mpi_im?recv"),
    (EXCHANGE, "mpi_i?sendrecv(_replace)?|mpi_start(all)?"),
    (WAIT, "mpi_(wait|test)(all|any|some)?"),
    (START_OTHER, "mpi_i(?!nit)[a-z_]+"),
)


def what_of(name: str) -> int:
    """Return the kind of a call, from its name."""
    lower, op = plain_name(name), collective_of(name)
    if op >= 0:
        return op + (FIRST_NONBLOCKING if lower.startswith("mpi_i") else FIRST_COLLECTIVE)
    return next((what for what, pattern in _WHAT if re.fullmatch(pattern, lower)), PLAIN)


FIELDS = (
    "operation", "process", "begin", "end", "what", "commHandle", "tag", "remoteRank", "size", "requestHandle",
    "rootRank", "recvSize",
)  # fmt: skip


@dataclass
class Calls:
    """Calls that take part in messages and operations, as columns."""

    parts: list[dict[str, Ints]] = field(default_factory=list)
    """list of dict of str to (n,) int64: `FIELDS`; `operation` is the number of the interval among those of MPI."""
    n_operations: int = 0
    """Number of intervals."""

    def joined(self) -> dict[str, Ints]:
        """Return all calls."""
        return {name: np.concatenate([np.zeros(0, np.int64), *(part[name] for part in self.parts)]) for name in FIELDS}


@dataclass
class Found:
    """The communicators of MPI calls, and the number of calls left out."""

    communicators: list[Communicator]
    """Members are processes."""
    n_unknown: int = 0
    """Number of messages whose partner or communicator, and operations whose communicator is not recorded."""


class Communicators:
    """The MPI communicators.

    Attributes
    ----------
    all : list of Communicator
        Members are the processes of the given reports, in rank order.
    size : int
        Largest number of ranks of a communicator, given or not; 0 unknown.
    """

    def __init__(self, contents: list[Content], process_of_rank: Mapping[int, int], offsets: list[int]) -> None:
        self.all: list[Communicator] = []
        names = ("rank", "timestamp", "commHandle", "localRank", "size", "groupRoot", "groupRootUid")
        parts = []
        for content, offset in zip(contents, offsets, strict=True):
            # without these columns, communicators of different processes cannot be related
            are_related = all(content.has("MPI_COMMUNICATORS", name) for name in ("groupRoot", "groupRootUid"))
            for found in content.rows("MPI_COMMUNICATORS", dict.fromkeys(names, pa.int64())) if are_related else ():
                part = np.stack([found[name] for name in names], axis=1)
                part[:, 1] += offset
                parts.append(part)
        rows = np.concatenate([np.zeros((0, len(names)), np.int64), *parts])
        process = np.array([process_of_rank.get(rank, -1) for rank in rows[:, 0].tolist()], np.int64)
        identity, number = np.unique(rows[:, 5:], axis=0, return_inverse=True)
        number = number.reshape(-1)
        self.size = int(rows[:, 4].max(initial=0))
        self._ranks: list[Ints] = []
        for k in range(identity.shape[0]):
            mine = (number == k) & (process >= 0)
            self._add("", dict(zip(process[mine].tolist(), rows[mine, 3].tolist(), strict=True)))
        self._are_defined = rows.shape[0] > 0
        if not self._are_defined and process_of_rank:
            self._add("MPI_COMM_WORLD", {p: rank for rank, p in process_of_rank.items()})
        order = np.lexsort((rows[:, 1], rows[:, 2], process))
        self._process, self._handle, self._time = process[order], rows[order, 2], rows[order, 1]
        self._number = number[order]

    def _add(self, name: str, rank: Mapping[int, int]) -> None:
        """Add a communicator, given the rank of each process in it."""
        members = sorted(rank, key=lambda p: rank[p])
        are_known = all(0 <= r < MOST_RANKS for r in rank.values())
        self.all.append(Communicator(name, members))
        self._ranks.append(np.array([rank[p] if are_known else k for k, p in enumerate(members)], np.int64))

    def positions(self, communicator: Ints, rank: Ints) -> Ints:
        """Return the positions of ranks among the members of communicators; positions after the last member for ranks
        whose report is not given, NOTHING for unknown ranks and communicators."""
        size = np.array([ranks.size for ranks in self._ranks], np.int64)
        starts = np.cumsum(size) - size
        keys = np.repeat(np.arange(size.size), size) * MOST_RANKS + np.concatenate(
            [np.zeros(0, np.int64), *self._ranks]
        )
        known = np.flatnonzero((communicator >= 0) & (rank >= 0) & (rank < MOST_RANKS))
        of, wanted = communicator[known], rank[known]
        at = np.searchsorted(keys, of * MOST_RANKS + wanted)
        is_given = np.append(keys, NOTHING)[at] == of * MOST_RANKS + wanted
        result = np.full(rank.size, NOTHING)
        result[known] = np.where(is_given, at - starts[of], np.minimum(size[of] + wanted, MOST_RANKS - 1))
        return result

    def of(self, process: Ints, handle: Ints, time: Ints) -> Ints:
        """Return the communicator of calls; -1 if it is not defined.

        Without definitions, it is the world for calls of processes that use a single handle; others do not say which of
        their communicators is the world.
        """
        if not self._are_defined:
            used = np.unique(np.stack([process, handle], axis=1)[handle != NOTHING], axis=0)
            several = used[1:, 0][used[1:, 0] == used[:-1, 0]]
            return np.where(np.isin(process, several) & (handle != NOTHING), -1, 0)
        n = self._process.size
        # definitions and calls sorted together, each call after the definitions of its time
        order = np.lexsort(
            (
                np.repeat([0, 1], [n, process.size]),
                np.concatenate([self._time, time]),
                np.concatenate([self._handle, handle]),
                np.concatenate([self._process, process]),
            )
        )
        is_call = order >= n
        call, found = order[is_call] - n, _last(order, ~is_call)[is_call]
        result = np.full(process.size, -1, np.int64)
        fits = (found >= 0) & (self._process[found] == process[call]) & (self._handle[found] == handle[call])
        result[call[fits]] = self._number[found[fits]]
        return result


def _last(order: Ints, is_wanted: NDArray[np.bool_]) -> Ints:
    """Return for every element of an order the last wanted one up to it; -1 none."""
    at = np.maximum.accumulate(np.where(is_wanted, np.arange(order.size), -1))
    return np.where(at >= 0, order[at], -1)


def write_calls(
    calls: Calls, first_operation: int, communicators: Communicators, first_row: int, events: OperationEvents
) -> Found:
    """Write the events of calls; `first_operation` is the number of the first MPI operation among all, and `first_row`
    the row of the first MPI communicator."""
    c = calls.joined()
    c["operation"] = c["operation"] + first_operation
    found = Found(communicators.all)
    communicator = communicators.of(c["process"], c["commHandle"], c["begin"])
    row = np.where(communicator >= 0, communicator + first_row, -1)
    request = _requests(c)
    what = c["what"]
    peer = communicators.positions(communicator, c["remoteRank"])
    root = communicators.positions(communicator, c["rootRank"])
    is_message = what <= EXCHANGE
    is_known = (peer >= 0) & (what != EXCHANGE)
    joins = (what >= FIRST_COLLECTIVE) & (row >= 0) & ((what < FIRST_NONBLOCKING) | (request >= 0))
    found.n_unknown = int((is_message & ~is_known).sum() + ((what >= FIRST_COLLECTIVE) & ~joins).sum())
    message = [peer, row, np.where(c["tag"] >= 0, c["tag"], 0), np.maximum(c["size"], 0)]

    def add(mask: NDArray[np.bool_], at_end: bool, kind: K, *columns: Ints) -> None:
        events.add_many(c["operation"][mask], at_end, kind, *(column[mask] for column in columns))

    add((what == SEND) & is_known, False, K.MPI_SEND, *message)
    add((what == RECEIVE) & is_known, True, K.MPI_RECV, *message)
    add((what == START_SEND) & is_known, False, K.MPI_ISEND, *message, request)
    add((what == START_RECEIVE) & is_known, False, K.MPI_IRECV_REQUEST, request)
    start_collective = joins & (what >= FIRST_NONBLOCKING)
    add(start_collective, False, K.NON_BLOCKING_COLLECTIVE_REQUEST, request)
    operation = [
        (what - FIRST_COLLECTIVE) % len(COLLECTIVE_OPS),
        row,
        root,
        np.maximum(c["size"], 0),
        np.maximum(c["recvSize"], 0),
    ]
    ended = np.flatnonzero((what == WAIT) & (request >= 0))
    started = request[ended]
    for kind, mask, columns in (
        (K.MPI_ISEND_COMPLETE, (what == START_SEND) & is_known, []),
        (K.MPI_IRECV, (what == START_RECEIVE) & is_known, message),
        (K.NON_BLOCKING_COLLECTIVE_COMPLETE, start_collective, operation),
    ):
        mine = mask[started]
        values = (column[started[mine]] for column in (*columns, request))
        events.add_many(c["operation"][ended[mine]], True, kind, *values)
    blocks = joins & (what < FIRST_NONBLOCKING)
    add(blocks, False, K.MPI_COLLECTIVE_BEGIN)
    add(blocks, True, K.MPI_COLLECTIVE_END, *operation)
    return found


def _requests(c: dict[str, Ints]) -> Ints:
    """Return the request that each call starts or ends, as the index of the call that starts it; NOTHING if none."""
    result = np.full(c["what"].size, NOTHING)
    starts = np.isin(c["what"], (START_SEND, START_RECEIVE))
    others = np.isin(c["what"], (EXCHANGE, START_OTHER)) | (c["what"] >= FIRST_NONBLOCKING)
    starts |= others & (c["requestHandle"] != NOTHING)
    ends = (c["what"] == WAIT) & (c["requestHandle"] != NOTHING)
    result[starts] = np.flatnonzero(starts)
    some = np.flatnonzero(starts | ends)
    order = some[np.lexsort((c["begin"][some], c["requestHandle"][some], c["process"][some]))]
    if not order.size:
        return result
    start = _last(order, starts[order])
    fits = ~starts[order] & (start >= 0)
    fits &= (c["process"][start] == c["process"][order]) & (c["requestHandle"][start] == c["requestHandle"][order])
    # only the last call that names a request ends it: earlier tests were unsuccessful
    fits &= np.append(~(fits[1:] & (start[1:] == start[:-1])), True)
    result[order[fits]] = start[fits]
    return result
