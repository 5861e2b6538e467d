"""The explicit tasks that threads may take over from each other in a changed run, and the threads that do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.edges import Edges
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.kernels import tasks as kernels
from tracecols.kernels.maxplus import BEGUN, CHAIN, LEAVES

Rows = NDArray[np.int64]


class PlacedTasks(NamedTuple):
    """Tasks, waits of threads in which they are executed, and teams."""

    units: kernels.Units
    slots: kernels.Slots
    teams: kernels.Teams

    def placed(self, edges: Edges, recorded: Rows, given: Rows) -> tuple[Rows, Rows, Rows]:
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


def find_tasks(edges: Edges, location: NDArray[np.int32], mark: NDArray[np.uint8], time: Rows) -> PlacedTasks:
    """Find the tasks that may move, from the edges of a graph, and location, marks and recorded times of its nodes.

    An edge of the kind `CHAIN` leads from what a thread did before to a task, or to what it does after waiting.
    """
    n, tail = location.size, edges.tail.astype(np.int64)
    chain = np.flatnonzero(edges.steps == CHAIN)
    chain = chain[np.argsort(edges.head[chain], kind="stable")]
    head = edges.head[chain].astype(np.int64)
    is_task = mark[head] & BEGUN > 0
    others = np.flatnonzero((edges.steps != CHAIN) & (edges.head < n))
    source, target = tail[others], edges.head[others].astype(np.int64)
    # slots, in the order of their nodes, and what makes them end: a hub of a barrier, or tasks; at the EXIT or at the
    # switch back right before it
    leave = head[~is_task]
    slot = lookup(leave, target)
    after = lookup(leave, target - 1)
    slot = np.where((slot < 0) & (after >= 0) & (mark[leave[after]] & LEAVES == 0), after, slot)
    team = np.full(leave.size, -1, np.int64)
    by_barrier = (slot >= 0) & (source >= n)
    team[slot[by_barrier]] = source[by_barrier]
    # taskwaits precede the barrier of their team
    barriers = np.flatnonzero(team >= 0)
    is_barrier, team = team >= 0, team[barriers[np.searchsorted(barriers, np.arange(leave.size))]]
    order = np.lexsort((leave, team))
    number = np.argsort(order, kind="stable")
    # tasks
    unit = np.flatnonzero(is_task)
    of = number[(np.cumsum(~is_task) - ~is_task)[unit]]
    by_begin = np.lexsort((head[unit], time[head[unit]], team[order][of]))
    unit, of = unit[by_begin], of[by_begin]
    begin, last = head[unit], tail[chain[unit + 1]]
    creates = np.flatnonzero((source < n) & np.isin(target, begin))
    creation = np.full(n, -1, np.int64)
    creation[target[creates]] = source[creates]
    creation = creation[begin]
    waits = np.flatnonzero((slot >= 0) & (source < n))
    waiting = _unit_of(begin, last, source[waits])
    awaited = np.full(begin.size, -1, np.int64)
    awaited[waiting[waiting >= 0]] = number[slot[waits[waiting >= 0]]]
    starts = np.append(0, np.flatnonzero(~is_task)[:-1] + 1)[order]
    place, team, leave, is_barrier = location[leave[order]], team[order], leave[order], is_barrier[order]
    begins = np.append(True, (team[1:] != team[:-1]) | (place[1:] != place[:-1]))
    member = np.cumsum(begins) - 1
    teams = np.unique(team)
    n_left = np.bincount(of, minlength=leave.size)
    awaits = awaited >= 0
    n_left += np.bincount(awaited[awaits & (awaited != of)], minlength=leave.size)
    owner = _unit_of(begin, last, creation)
    owner[team[of[owner]] != team[of]] = -1
    creator = lookup(
        team[begins] * (location.max(initial=0) + 1) + place[begins],
        team[of] * (location.max(initial=0) + 1) + location[creation],
    )
    return PlacedTasks(
        kernels.Units(begin, last, creation, owner, creator, of, awaited, chain[unit + 1]),
        kernels.Slots(tail[chain[starts]], leave, np.where(is_barrier, 0, n_left), chain[starts]),
        kernels.Teams(
            np.append(np.searchsorted(team[of], teams), of.size),
            np.append(np.searchsorted(team[begins], teams), int(begins.sum())),
            np.append(np.flatnonzero(begins), leave.size),
            member[of],
        ),
    )


def _unit_of(begin: Rows, last: Rows, node: Rows) -> Rows:
    """Return the tasks that nodes are in, -1 for none."""
    order = np.argsort(begin)
    at = np.searchsorted(begin[order], node, "right") - 1
    found = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (node <= last[found]), found, -1)
