"""Find what is open at some event of a location: region instances, team instances, suspended tasks."""

from __future__ import annotations

import numpy as np

from tracecols.kernels.kernel import kernel

# what an event kind does
NOTHING, PUSH, POP, ON_OFF, FORK, JOIN, TEAM_BEGIN, TEAM_END, TASK_SWITCH, TASK_COMPLETE = range(10)

# stacks besides those of tasks, which follow
FORKS, BEGINS, TASKS = range(3)

# state carried from batch to batch
FREE, TASK, N_SWITCHES, N_STATE = range(4)


@kernel
def walk(kind, region, start, base, state, action, task_slots, top, item_below, item_row, item_kind, item_region):
    """Push what events open and pop what they close.

    Parameters
    ----------
    kind, region : (n,) uint8, int32
        Consecutive events.
    start : int
        Event to begin with; a call that returned before the end is repeated with what it returned, and more room.
    base : int
        Row of event 0.
    state : (N_STATE,) int64
        Carried along.
    action : (256,) uint8
        What each kind does.
    task_slots : (any,) int64
        Task of every event that switches or completes tasks, in order; 0 is the implicit one.
    top : (TASKS + n_tasks,) int64
        Filled: topmost item of every stack, -1 none.
    item_below, item_row, item_kind, item_region : (capacity,) int64, int64, uint8, int32
        Items, linked by `item_below`; those that are free, too.

    Returns
    -------
    int
        The event to go on with; -1 - i if event i switches tasks and `task_slots` does not hold so many.
    """
    i = start
    while i < kind.size:
        what = action[kind[i]]
        if what == ON_OFF:
            what = np.uint8(PUSH) if region[i] >= 0 else np.uint8(POP)
        if what == PUSH or what == FORK or what == TEAM_BEGIN:
            item = state[FREE]
            if item < 0:
                return i
            state[FREE] = item_below[item]
            stack = FORKS if what == FORK else BEGINS if what == TEAM_BEGIN else TASKS + state[TASK]
            item_below[item] = top[stack]
            item_row[item] = base + i
            item_kind[item] = kind[i]
            item_region[item] = region[i]
            top[stack] = item
        elif what == POP or what == JOIN or what == TEAM_END:
            stack = FORKS if what == JOIN else BEGINS if what == TEAM_END else TASKS + state[TASK]
            item = top[stack]
            if item >= 0:
                top[stack] = item_below[item]
                item_below[item] = state[FREE]
                state[FREE] = item
        elif what == TASK_SWITCH or what == TASK_COMPLETE:
            if state[N_SWITCHES] >= task_slots.size:
                return -1 - i
            slot = task_slots[state[N_SWITCHES]]
            state[N_SWITCHES] += 1
            state[TASK] = slot
            if what == TASK_COMPLETE and slot > 0:
                state[TASK] = 0
                item = top[TASKS + slot]
                while item >= 0:
                    below = item_below[item]
                    item_below[item] = state[FREE]
                    state[FREE] = item
                    item = below
                top[TASKS + slot] = -1
        i += 1
    return i
