"""The threads that execute explicit tasks in a changed run: list scheduling in the recorded order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.kernel import kernel, part


class Units(NamedTuple):
    """Tasks that any thread of a team may execute while it waits, with all that happens at the thread meanwhile; team
    by team, in the order of their recorded begin."""

    begin: NDArray[np.int64]
    last: NDArray[np.int64]
    """`begin` and `last`: (n_units,): the first node, and the last one before the thread does something else."""
    creation: NDArray[np.int64]
    """(n_units,): node of the creation."""
    owner: NDArray[np.int64]
    """(n_units,): unit in which the task is created, -1 if none."""
    creator: NDArray[np.int64]
    """(n_units,): member at which it is created, -1 if that is another thread."""
    slot: NDArray[np.int64]
    """(n_units,): the recorded one."""
    awaited: NDArray[np.int64]
    """(n_units,): slot of the taskwait that waits for the task, -1 for none."""
    edge: NDArray[np.int64]
    """(n_units,): the edge from the last node to what follows at its thread."""


class Slots(NamedTuple):
    """Times in which a thread waits in a taskwait or, last, in the barrier of a team, and executes tasks meanwhile."""

    arrive: NDArray[np.int64]
    """(n_slots,): node at which the thread begins to wait."""
    leave: NDArray[np.int64]
    """(n_slots,): node at which it goes on."""
    n_left: NDArray[np.int64]
    """(n_slots,): number of units that a taskwait waits for or that are executed in it; 0 for barriers."""
    edge: NDArray[np.int64]
    """(n_slots,): the edge from `arrive` to what follows at the thread."""


class Teams(NamedTuple):
    """Teams at barriers, and their members."""

    unit_start: NDArray[np.int64]
    member_start: NDArray[np.int64]
    """`unit_start` and `member_start`: (n_teams + 1,): first unit and first member of each."""
    slot_start: NDArray[np.int64]
    """(n_members + 1,): first slot of each member."""
    member: NDArray[np.int64]
    """(n_units,): the member that executes each unit."""


class State(NamedTuple):
    """The state of members, slots and units while tasks are placed: scratch."""

    slot: NDArray[np.int64]
    edge: NDArray[np.int64]
    """`slot` and `edge`: (n_members,): current slot of each member; the edge from its last node so far."""
    recorded: NDArray[np.int64]
    free: NDArray[np.int64]
    shift: NDArray[np.int64]
    """`recorded`, `free` and `shift`: (n_members,): when the member is free again in the recorded run and in the
    changed one; by how much the changed run is shifted against the given times."""
    n_left: NDArray[np.int64]
    """(n_slots,): as `Slots.n_left`, of units that are not placed yet."""
    until: NDArray[np.int64]
    given_until: NDArray[np.int64]
    """`until` and `given_until`: (n_slots,): when the units that a taskwait waits for end, in the changed run and by
    the given times."""
    begin: NDArray[np.int64]
    """(n_units,): when each begins in the changed run."""


@part
def _arrive(m, s, slots, recorded, given, state):
    """Let a member begin to wait in a slot."""
    state.slot[m], state.edge[m] = s, slots.edge[s]
    state.recorded[m] = recorded[slots.arrive[s]]
    state.free[m] = given[slots.arrive[s]] + state.shift[m]


@part
def _leave(m, slots, teams, recorded, given, state, head, later):
    """Let a member go on after a slot."""
    s = state.slot[m]
    head[state.edge[m]], later[state.edge[m]] = slots.leave[s], 0
    state.shift[m] = max(state.free[m], state.until[s]) - max(given[slots.leave[s] - 1], state.given_until[s])
    state.slot[m] = s + 1
    if s + 1 < teams.slot_start[m + 1]:
        _arrive(m, s + 1, slots, recorded, given, state)


@part
def _count_placed(s, slots, teams, first, stop, recorded, given, state, head, later):
    """Count a unit of a taskwait as placed; the member that waits there goes on after the last one."""
    if s < 0 or slots.n_left[s] == 0:
        return
    state.n_left[s] -= 1
    if state.n_left[s] > 0:
        return
    for m in range(first, stop):
        if state.slot[m] == s:
            _leave(m, slots, teams, recorded, given, state, head, later)


@part
def _choose(u, created, recorded_created, r, first, stop, units, slots, state):
    """Return the member that takes a unit, when it does, and how much later than possible: the first that is free. One
    that did not take it in the recorded run though it was free takes as long to do so."""
    best, time, reluctant = r, max(state.free[r], created), np.int64(0)
    taken = max(state.recorded[r], recorded_created)
    for m in range(first, stop):
        s = state.slot[m]
        if m != r and (slots.n_left[s] == 0 or s == units.awaited[u]):
            longer = max(0, taken - max(state.recorded[m], recorded_created))
            at = max(state.free[m], created) + longer
            if at < time:
                best, time, reluctant = m, at, at - state.free[m] if longer > 0 else np.int64(0)
    return best, time, reluctant


@kernel
def place_tasks(units, slots, teams, recorded, given, state, head, later):
    """Find the threads that execute tasks in a changed run: in the recorded order of their begins, the thread that is
    free first takes the next one; O(n_units * members of a team).

    If the given times are the recorded ones, all tasks stay at their threads.

    Parameters
    ----------
    units : Units
    slots : Slots
    teams : Teams
    recorded, given : (n_nodes,) int64
        Times of the recorded run, and of the changed run with all tasks at the recorded threads; ticks.
    state : State
        Scratch: `n_left` as in `slots`, `shift` and `until` zero.
    head : (n_edges,) int64
        Result: where the edges of units and slots lead to.
    later : (n_edges,) int64
        Result: ticks by which their lags grow.
    """
    for g in range(teams.unit_start.size - 1):
        first, stop = teams.member_start[g], teams.member_start[g + 1]
        for m in range(first, stop):
            _arrive(m, teams.slot_start[m], slots, recorded, given, state)
        for u in range(teams.unit_start[g], teams.unit_start[g + 1]):
            r, b, c, o = teams.member[u], units.begin[u], units.creation[u], units.owner[u]
            while state.slot[r] < units.slot[u]:
                _leave(r, slots, teams, recorded, given, state, head, later)
            created = given[c]
            if o >= 0:
                created += state.begin[o] - given[units.begin[o]]
            elif units.creator[u] >= 0:
                created += state.shift[units.creator[u]]
            m, time, reluctant = _choose(u, created, recorded[c], r, first, stop, units, slots, state)
            head[state.edge[m]], later[state.edge[m]] = b, reluctant
            state.begin[u] = time + max(0, given[b] - max(given[b - 1], given[c]))
            state.free[m] = state.begin[u] + given[units.last[u]] - given[b]
            state.edge[m], state.recorded[r] = units.edge[u], recorded[units.last[u]]
            s = units.awaited[u]
            if s >= 0:
                state.until[s] = max(state.until[s], state.free[m])
                state.given_until[s] = max(state.given_until[s], given[units.last[u]])
            _count_placed(s, slots, teams, first, stop, recorded, given, state, head, later)
            if units.slot[u] != s:
                _count_placed(units.slot[u], slots, teams, first, stop, recorded, given, state, head, later)
        for m in range(first, stop):
            while state.slot[m] < teams.slot_start[m + 1]:
                _leave(m, slots, teams, recorded, given, state, head, later)
