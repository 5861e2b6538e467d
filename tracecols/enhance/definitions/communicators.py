"""Conversion between ranks in communicators and processes.

A communicator that is recorded but not defined is -1. Its members are unknown, so no events are joined on it: ranks in
it have no process, and it counts as a separate communicator for each process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import lookup, ranges
from tracecols.store import Store
from tracecols.vectors import Ints, Mask, offsets_of

SELF = -2
"""The root of an operation, as the root itself may record it; on an inter-communicator it does."""


class Communicators:
    """The communicators of a trace.

    Parameters
    ----------
    process : (n_locations,) int32
        Process of every location.

    Attributes
    ----------
    size : (n,) int64
        Number of members; 1 for self, the sum of both groups for an inter-communicator (see `size_of`).
    is_self : (n,) bool
        Whether each process has a separate one (MPI_COMM_SELF).
    is_inter : (n,) bool
        Whether it is an inter-communicator, which connects two groups.
    world : (n_processes,) int64
        MPI_COMM_WORLD of each process, -1 if all have the same: processes that are spawned, or that connect to others,
        have separate worlds.
    """

    def __init__(self, store: Store, process: NDArray[np.int32]) -> None:
        table = store.definitions["communicators"]
        kind = np.array(table.column("kind").to_pylist(), object)
        self.is_self = kind == "self"
        self.is_inter = kind == "inter"
        members, remote = table.column("members").to_pylist(), table.column("remote_members").to_pylist()
        of = np.append(process, np.int32(-1))
        self._start, self._members = self._flat(members, of)
        self._remote_start, self._remote = self._flat(remote, of)
        both = np.diff(self._start) + np.diff(self._remote_start)
        self.size = np.where(self.is_self, 1, both).astype(np.int64)
        self._n = len(members)
        self._n_processes = int(process.max(initial=0)) + 1
        owner = np.repeat(np.arange(self._n), np.diff(self._start))
        self._keys = owner * self._n_processes + self._members
        self._ranks = ranges(0, np.diff(self._start))
        self.world = self._worlds(np.array(table.column("name").to_pylist(), object) == "MPI_COMM_WORLD")

    def _worlds(self, is_world: Mask) -> Ints:
        """Return the world of each process, the first of several; -1 if there is only one world."""
        world = np.full(self._n_processes, -1, np.int64)
        if is_world.sum() > 1:
            owner = np.repeat(np.arange(self._n), np.diff(self._start))
            mine = np.flatnonzero(is_world[owner] & (self._members >= 0))[::-1]
            world[self._members[mine]] = owner[mine]
        return world if (world != world[:1]).any() else np.full(self._n_processes, -1, np.int64)

    @staticmethod
    def _flat(lists: list[list[int]], of: NDArray[np.int32]) -> tuple[Ints, Ints]:
        start = offsets_of([len(v) for v in lists])
        return start, of[np.array([m for v in lists for m in v], np.int64)].astype(np.int64)

    def size_of(self, communicator: NDArray[np.int32]) -> Ints:
        """Return the number of members of communicators; 0 for undefined ones. (n,) int64."""
        return pick(self.size, communicator, 0)

    def are_inter(self, communicator: NDArray[np.int32]) -> Mask:
        """Return a mask of the inter-communicators among communicators; false for undefined ones."""
        return pick(self.is_inter, communicator, 0).astype(bool)

    def members_of(self, communicator: int) -> Ints:
        """Return the processes of a communicator, of both groups of an inter-communicator, in ascending order."""
        return distinct(
            np.concatenate(
                [
                    self._members[self._start[communicator] : self._start[communicator + 1]],
                    self._remote[self._remote_start[communicator] : self._remote_start[communicator + 1]],
                ]
            )
        )

    def channel(self, communicator: NDArray[np.int32], process: NDArray[np.int32]) -> Ints:
        """Number communicators; those that are separate for each process get a number per process; (n,) int64.

        These are MPI_COMM_SELF and the like, and undefined ones.
        """
        is_own = (communicator < 0) | pick(self.is_self, communicator, 0)
        if not is_own.any():
            return communicator.astype(np.int64)
        # among the separate communicators of a process, number 0 is the undefined one
        own = pick(np.cumsum(self.is_self), communicator, 0) * self._n_processes + process
        return np.where(is_own, self._n + own, communicator)

    def rank_of(self, communicator: NDArray[np.int32], process: NDArray[np.int32]) -> Ints:
        """Return the rank of a process in a communicator; -1 if it is not a member."""
        at = lookup(self._keys, communicator.astype(np.int64) * self._n_processes + process)
        rank = np.where(communicator >= 0, pick(self._ranks, at), -1)
        return np.where(pick(self.is_self, communicator, 0), 0, rank)

    def group_of(self, communicator: NDArray[np.int32], process: NDArray[np.int32]) -> NDArray[np.int8]:
        """Return the group of a process in an inter-communicator, 0 or 1; -1 in other communicators; (n,) int8."""
        is_inter = self.are_inter(communicator)
        result = np.full(communicator.size, -1, np.int8)
        if is_inter.any():
            result[is_inter] = self.rank_of(communicator[is_inter], process[is_inter]) < 0
        return result

    def are_roots(
        self, communicator: NDArray[np.int32], rank: NDArray[np.signedinteger[Any]], root: NDArray[np.integer[Any]]
    ) -> Mask:
        """Return which participants of collective operations are the roots; (n,).

        On an inter-communicator the root names `SELF`, and the other group names its rank there, which is no rank of
        their own group.
        """
        return (root == SELF) | (~self.are_inter(communicator) & (root >= 0) & (rank == root))

    def process_of(self, communicator: NDArray[np.int32], rank: Ints, own: NDArray[np.int32]) -> Ints:
        """Return the process at a rank, as seen from process `own` of the communicator; -1 if there is none.

        In an inter-communicator, the rank refers to the other group.
        """
        if not self._n:
            return np.full(rank.size, -1, np.int64)
        valid = (communicator >= 0) & (rank >= 0)
        c = np.where(valid, communicator, 0)
        start, n = self._start[c], np.diff(self._start)[c]
        result = self._take(self._members, start, n, rank)
        if self.is_inter.any():
            across = self.is_inter[c] & (self.rank_of(c.astype(np.int32), own) >= 0)
            there = self._take(self._remote, self._remote_start[c], np.diff(self._remote_start)[c], rank)
            result = np.where(across, there, result)
        result = np.where(self.is_self[c], np.where(rank == 0, own, -1), result)
        return np.where(valid, result, -1)

    @staticmethod
    def _take(members: Ints, start: Ints, n: Ints, rank: Ints) -> Ints:
        if not members.size:
            return np.full(rank.size, -1, np.int64)
        inside = (rank >= 0) & (rank < n)
        return np.where(inside, members[np.where(inside, start + rank, 0)], -1)
