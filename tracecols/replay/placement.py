"""The explicit tasks that threads may take over from each other in a changed run, and the threads that do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.edges import Edges
from tracecols.enhance.dataflow.grouping import combine, lookup
from tracecols.kernels import tasks as kernels
from tracecols.kernels.maxplus import BEGUN, CHAIN, LEAVES
from tracecols.vectors import Ints, Mask


class PlacedTasks(NamedTuple):
    """Tasks, waits of threads in which they are executed, and teams."""

    units: kernels.Units
    slots: kernels.Slots
    teams: kernels.Teams

    def placed(self, edges: Edges, recorded: Ints, given: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the edges that lead elsewhere if threads take tasks as they become free, where they lead, and the
        ticks by which their lags grow, from the times of nodes in the recorded run and in the changed run with all
        tasks at their threads."""
        n_members, n_slots = self.teams.slot_start.size - 1, self.slots.arrive.size
        sizes = (*[n_members] * 5, n_slots, n_slots, n_slots, self.units.begin.size)
        state = kernels.State._make(np.zeros(n, np.int64) for n in sizes)
        state.n_left[:] = self.slots.n_left
        head, later = edges.head.astype(np.int64), np.zeros(len(edges), np.int64)
        kernels.place_tasks(self.units, self.slots, self.teams, recorded, given, state, head, later)
        moved = np.flatnonzero(head != edges.head)
        return moved, head[moved], later[moved]


def find_tasks(edges: Edges, location: NDArray[np.int32], mark: NDArray[np.uint8], time: Ints) -> PlacedTasks | None:
    """Find the tasks that may move, from the edges of a graph, and location, marks and recorded times of its nodes;
    None if barriers lack edges, as in a graph without waits of OpenMP.

    An edge of the kind `CHAIN` leads from what a thread did before to a task, or to what it does after waiting.
    """
    n, tail = location.size, edges.tail.astype(np.int64)
    chain = np.flatnonzero(edges.steps == CHAIN)
    chain = chain[np.argsort(edges.head[chain], kind="stable")]
    head = edges.head[chain].astype(np.int64)
    is_task = mark[head] & BEGUN > 0
    others = np.flatnonzero((edges.steps != CHAIN) & (edges.head < n))
    links = _Links(tail[others], edges.head[others].astype(np.int64), n)
    # slots in the order of their nodes: team of each, the numbers that they get, and what ends them
    leave = head[~is_task]
    ended = links.ends(leave, mark)
    team, is_barrier = _teams_of(links, ended, location[leave])
    if not team.size:
        return None
    order = np.lexsort((leave, team))
    number = np.argsort(order, kind="stable")
    unit = np.flatnonzero(is_task)
    slot = number[(np.cumsum(~is_task) - ~is_task)[unit]]
    team, is_barrier = team[order], is_barrier[order]
    by_begin = np.lexsort((head[unit], time[head[unit]], team[slot]))
    unit, slot = unit[by_begin], slot[by_begin]
    begin, last = head[unit], tail[chain[unit + 1]]
    awaited = np.full(begin.size, -1, np.int64)
    waits = np.flatnonzero((ended >= 0) & (links.tail < n))
    child = _unit_of(begin, last, links.tail[waits])
    awaited[child[child >= 0]] = number[ended[waits[child >= 0]]]
    place = location[leave[order]].astype(np.int64)
    begins = starts_run(team, place)
    creation = links.creation(begin)
    owner = _unit_of(begin, last, creation)
    owner[team[slot[owner]] != team[slot]] = -1
    at = combine(np.append(team[begins], team[slot]), np.append(place[begins], location[creation]))
    creator = lookup(at[: -slot.size], at[-slot.size :])
    n_left = np.bincount(np.append(slot, awaited[(awaited >= 0) & (awaited != slot)]), minlength=team.size)
    starts = chain[np.append(0, np.flatnonzero(~is_task)[:-1] + 1)][order]
    first_of_team = np.unique(team, return_index=True)[1]
    member = np.cumsum(begins) - 1
    return PlacedTasks(
        kernels.Units(begin, last, creation, owner, creator, slot, awaited, chain[unit + 1]),
        kernels.Slots(tail[starts], leave[order], np.where(is_barrier, 0, n_left), starts),
        kernels.Teams(
            np.append(np.searchsorted(team[slot], team[first_of_team]), slot.size),
            np.append(member[first_of_team], int(begins.sum())),
            np.append(np.flatnonzero(begins), team.size),
            member[slot],
        ),
    )


class _Links(NamedTuple):
    """The other edges that lead to nodes."""

    tail: Ints
    head: Ints
    """`tail` and `head`: (n,)"""
    n_nodes: int

    def ends(self, leave: Ints, mark: NDArray[np.uint8]) -> Ints:
        """Return the waits that edges delay the end of, -1 for none, given the nodes at which threads go on: at these,
        or at the EXIT right after a switch back."""
        at, before = lookup(leave, self.head), lookup(leave, self.head - 1)
        follows = (at < 0) & (before >= 0) & (mark[leave[before]] & LEAVES == 0)
        return np.where(follows, before, at)

    def creation(self, begin: Ints) -> Ints:
        """Return the nodes at which tasks are created, those right before their begin if that is not known."""
        found = np.full(self.n_nodes, -1, np.int64)
        creates = (self.tail < self.n_nodes) & np.isin(self.head, begin)
        found[self.head[creates]] = self.tail[creates]
        return np.where(found[begin] >= 0, found[begin], begin - 1)


def _teams_of(links: _Links, ended: Ints, location: NDArray[np.int32]) -> tuple[Ints, Mask]:
    """Return the team of each wait, as the hub of its barrier, and which waits are barriers: taskwaits precede the
    barrier at their thread. Nothing if some lack one. `ended` are the waits that links end."""
    team = np.full(location.size, -1, np.int64)
    by_barrier = (ended >= 0) & (links.tail >= links.n_nodes)
    team[ended[by_barrier]] = links.tail[by_barrier]
    is_barrier, barriers = team >= 0, np.flatnonzero(team >= 0)
    following = np.append(barriers, -1)[np.searchsorted(barriers, np.arange(location.size))]
    if (following < 0).any() or (location[following] != location).any():
        return team[:0], is_barrier[:0]
    return team[following], is_barrier


def _unit_of(begin: Ints, last: Ints, node: Ints) -> Ints:
    """Return the tasks that nodes are in, -1 for none."""
    order = np.argsort(begin)
    at = np.searchsorted(begin[order], node, "right") - 1
    found = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (node <= last[found]), found, -1)
