"""Dependences in one-sided communication without fences: epochs of general active targets, and locks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.grouping import latest_before, lookup
from tracecols.kernels.replay import IS_CALL
from tracecols.replay.nodes import Nodes
from tracecols.replay.replay import Replay

Rows = NDArray[np.int64]


def window_edges(replay: Replay) -> tuple[Rows, Rows]:
    """Return the edges (tail and head) of access and exposure epochs and of locks of windows.

    An origin waits for MPI_Win_post of its target, a target for MPI_Win_complete of its origins, and a process that
    locks a window for the previous owner to unlock it.
    """
    model, nodes = replay.model, replay.graph.nodes
    e, locks = model.epochs, model.lock_epochs
    found: list[tuple[Rows, Rows]] = []
    if len(e):
        origin, target = e.origin.astype(np.int64), e.target.astype(np.int64)
        post = calls_at(nodes, target, e.post_enter_time)
        # the call that was open when the target posted
        held = np.where(e.held_time > 0, calls_at(nodes, origin, e.post_enter_time), -1)
        found.append((nodes.enter_of(post), held))
        complete = calls_at(nodes, origin, e.complete_enter_time)
        wait = calls_at(nodes, target, e.wait_enter_time)
        found.append((nodes.enter_of(complete), wait))
    if len(locks):
        before = lookup(locks.release, locks.previous_release)
        mine = np.where(locks.lock_exit_time > locks.previous_release_time, locks.lock_enter, locks.unlock_enter)
        unlock = nodes.calls_around(locks.unlock_enter)
        previous = np.where(before >= 0, unlock[np.maximum(before, 0)], -1)
        found.append((nodes.enter_of(previous), nodes.calls_around(mine)))
    nothing = np.zeros(0, np.int64)
    tail = np.concatenate([nothing, *(pair[0] for pair in found)])
    head = np.concatenate([nothing, *(pair[1] for pair in found)])
    known = (tail >= 0) & (head >= 0)
    known[known] &= nodes.location[tail[known]] != nodes.location[head[known]]
    return tail[known], head[known]


def calls_at(nodes: Nodes, location: Rows, time: Rows) -> Rows:
    """Return the end nodes of the outermost MPI calls that locations are in at some times, including calls that begin
    then; -1 for none."""
    calls = nodes.with_role(IS_CALL)
    begin = nodes.time[nodes.enter_of(calls)]
    at = latest_before(nodes.location[calls], begin, location, time)
    inside = (at >= 0) & (time >= 0) & (time <= pick(nodes.time[calls], at))
    return pick(calls, np.where(inside, at, -1))
