"""Effects of event kinds on the stacks of their location: declared once, for all kernels that walk through events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.schema.kinds import KINDS, EventKind

(
    NOTHING,
    PUSH,  # a region instance begins
    POP,  # the region instance on top ends
    ON_OFF,  # PUSH where the event has a region, POP where it has none
    FLUSH,  # the buffer is written, which counts like a region instance that ends at once
    FORK,  # the thread forks a team
    JOIN,
    THREAD_BEGIN,  # a thread that was created begins
    THREAD_END,
    TEAM_BEGIN,  # the thread begins in a team
    TEAM_END,
    TASK_SWITCH,  # the region stack of another task takes the place of this one
    TASK_COMPLETE,  # the task ends; the region stack is that of the implicit task again
    ATTRIBUTE,  # has attributes that belong to a call path
    ATTRIBUTE_CALL,  # has attributes that belong to the region instance on top
) = range(15)

_KINDS: dict[int, tuple[EventKind, ...]] = {
    PUSH: (EventKind.ENTER, EventKind.PROGRAM_BEGIN, EventKind.CALLING_CONTEXT_ENTER),
    POP: (EventKind.EXIT, EventKind.PROGRAM_END, EventKind.CALLING_CONTEXT_EXIT),
    ON_OFF: (EventKind.MEASUREMENT_ON_OFF,),
    FLUSH: (EventKind.BUFFER_FLUSH,),
    FORK: (EventKind.THREAD_FORK, EventKind.OMP_FORK),
    JOIN: (EventKind.THREAD_JOIN, EventKind.OMP_JOIN),
    THREAD_BEGIN: (EventKind.THREAD_BEGIN,),
    THREAD_END: (EventKind.THREAD_END,),
    TEAM_BEGIN: (EventKind.THREAD_TEAM_BEGIN,),
    TEAM_END: (EventKind.THREAD_TEAM_END,),
    TASK_SWITCH: (EventKind.THREAD_TASK_SWITCH, EventKind.OMP_TASK_SWITCH),
    TASK_COMPLETE: (EventKind.THREAD_TASK_COMPLETE, EventKind.OMP_TASK_COMPLETE),
    ATTRIBUTE: tuple(k for k in KINDS if k.family == "metrics"),
    ATTRIBUTE_CALL: tuple(k for k in KINDS if k.family in ("p2p", "collectives", "locks", "rma")),
}


def kinds_that(*actions: int) -> tuple[EventKind, ...]:
    """Return the kinds of events that have one of some actions."""
    return tuple(kind for action in actions for kind in _KINDS[action])


def action_table(*actions: int) -> NDArray[np.uint8]:
    """Return the action of each kind, (256,) uint8; NOTHING for kinds with other actions than the given ones."""
    table = np.full(256, NOTHING, np.uint8)
    for action in actions:
        table[list(kinds_that(action))] = action
    return table
