"""Find what is open at some event of a location: region instances, team instances, suspended tasks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.kernels.actions import (
    FORK,
    JOIN,
    ON_OFF,
    POP,
    PUSH,
    TASK_COMPLETE,
    TASK_SWITCH,
    TEAM_BEGIN,
    TEAM_END,
    THREAD_BEGIN,
    THREAD_END,
    action_table,
)
from tracecols.kernels.kernel import kernel, part
from tracecols.kernels.pools import pop_item, push_item

ACTION = action_table(
    PUSH, POP, ON_OFF, FORK, JOIN, THREAD_BEGIN, THREAD_END, TEAM_BEGIN, TEAM_END, TASK_SWITCH, TASK_COMPLETE
)
"""Actions of the kinds of events that open or close something."""

# stacks besides those of tasks, which follow
FORKS, BEGINS, TASKS = range(3)

# state carried from batch to batch
FREE, TASK, N_SWITCHES, N_STATE = range(4)


class Items(NamedTuple):
    """Pool of events that opened something; `state[FREE]` is the first free item."""

    below: NDArray[np.int64]
    """(capacity,): the item below on the same stack, for free items the next free one; -1 none."""
    row: NDArray[np.int64]
    """(capacity,)"""
    kind: NDArray[np.uint8]
    """(capacity,): `EventKind`."""
    region: NDArray[np.int32]
    """(capacity,): -1 none."""


@part
def stack_of(what, task):
    """Return the stack that an action pushes to or pops from: forks, team begins, or that of the running task."""
    if what == FORK or what == JOIN or what == THREAD_BEGIN or what == THREAD_END:
        return np.int64(FORKS)
    if what == TEAM_BEGIN or what == TEAM_END:
        return np.int64(BEGINS)
    return TASKS + task


@kernel
def walk(kind, region, start, base, state, action, task_slots, top, items):
    """Push what events open and pop what they close.

    Parameters
    ----------
    kind, region : (n,) uint8, int32
        Consecutive events.
    start : int
        Event to begin with; a call that returned before the end is repeated with the event it returned, and more room.
    base : int
        Row of event 0.
    state : (N_STATE,) int64
        Carried along.
    action : (256,) uint8
        Action of each kind, `ACTION`.
    task_slots : (any,) int64
        Task of every event that switches or completes tasks, in order; 0 is the implicit one.
    top : (TASKS + n_tasks,) int64
        Filled: topmost item of every stack, -1 none.
    items : Items

    Returns
    -------
    int
        The event to go on with; -1 - i if event i switches tasks and `task_slots` has no element for it.
    """
    i = start
    while i < kind.size:
        what = action[kind[i]]
        if what == ON_OFF:
            what = np.uint8(PUSH) if region[i] >= 0 else np.uint8(POP)
        if what == PUSH or what == FORK or what == THREAD_BEGIN or what == TEAM_BEGIN:
            if state[FREE] < 0:
                return i
            stack = stack_of(what, state[TASK])
            item = top[stack] = push_item(top[stack], state, FREE, items.below)
            items.row[item] = base + i
            items.kind[item] = kind[i]
            items.region[item] = region[i]
        elif what == POP or what == JOIN or what == THREAD_END or what == TEAM_END:
            stack = stack_of(what, state[TASK])
            if top[stack] >= 0:
                top[stack] = pop_item(top[stack], state, FREE, items.below)
        elif what == TASK_SWITCH or what == TASK_COMPLETE:
            if state[N_SWITCHES] >= task_slots.size:
                return -1 - i
            slot = task_slots[state[N_SWITCHES]]
            state[N_SWITCHES] += 1
            state[TASK] = slot
            if what == TASK_COMPLETE and slot > 0:
                state[TASK] = 0
                while top[TASKS + slot] >= 0:
                    top[TASKS + slot] = pop_item(top[TASKS + slot], state, FREE, items.below)
        i += 1
    return i


@kernel
def count_depths(enterptr, first, top, own, depth):
    """Count the region instances a location is in, after each of its events.

    Parameters
    ----------
    enterptr : (n,) int64
        Row of the enclosing ENTER of each event, -1 at top level.
    first : int
        Row of the first event.
    top : (n,) int64
        Row of the ENTER on top of the stack after each event, -1 if it is empty.
    own, depth : (n,) int64
        Filled: depth of the region instance an event would open, and the depth after it.
    """
    for i in range(enterptr.size):
        above = enterptr[i]
        own[i] = own[above - first] + 1 if above >= 0 else 1
    for i in range(top.size):
        depth[i] = own[top[i] - first] if top[i] >= 0 else 0
