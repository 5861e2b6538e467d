"""Who lets whom wait in one-sided communication without fences: epochs of general active targets, and locks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.replay.nodes import Nodes
from tracecols.replay.replay import Replay

Rows = NDArray[np.int64]


def window_edges(replay: Replay) -> tuple[Rows, Rows, Rows]:
    """Return the edges of access and exposure epochs and of locks of windows.

    An origin waits for MPI_Win_post of its target, a target for MPI_Win_complete of its origins, and who locks a window
    for the one that unlocks it before.

    Returns
    -------
    tail, head, lag : (n,) int64
    """
    model, nodes = replay.model, replay.graph.nodes
    e, locks = model.epochs, model.lock_epochs
    found: list[tuple[Rows, Rows]] = []
    if len(e):
        origin, target = e.origin.astype(np.int64), e.target.astype(np.int64)
        post = calls_at(nodes, target, e.post_enter_time)
        # the call that was open when the target posted
        held = np.where(e.held_time > 0, calls_at(nodes, origin, e.post_enter_time), -1)
        found.append((_enter(nodes, post), _leave(nodes, held)))
        complete = calls_at(nodes, origin, e.complete_enter_time)
        wait = calls_at(nodes, target, e.wait_enter_time)
        found.append((_enter(nodes, complete), _leave(nodes, wait)))
    if len(locks):
        before = _previous(locks.window, locks.target, locks.release_time, locks.previous_release_time)
        mine = np.where(locks.lock_exit_time > locks.previous_release_time, locks.lock_enter, locks.unlock_enter)
        unlock = nodes.calls_around(locks.unlock_enter)
        previous = np.where(before >= 0, unlock[np.maximum(before, 0)], -1)
        found.append((_enter(nodes, previous), _leave(nodes, nodes.calls_around(mine))))
    nothing = np.zeros(0, np.int64)
    tail = np.concatenate([nothing, *(pair[0] for pair in found)])
    head = np.concatenate([nothing, *(pair[1] for pair in found)])
    known = (tail >= 0) & (head >= 0)
    known[known] &= nodes.location[tail[known]] != nodes.location[head[known]]
    tail, head = tail[known], head[known]
    return tail, head, np.minimum(nodes.time[head] - nodes.time[tail], 0)


def calls_at(nodes: Nodes, location: Rows, time: Rows) -> Rows:
    """Return the outermost MPI calls that locations are in at some times, that begin then at the latest; -1 for none."""
    result = np.full(location.size, -1, np.int64)
    if not nodes.call_enter.size:
        return result
    of_call = nodes.location[nodes.call_enter]
    begin, end = nodes.time[nodes.call_enter], nodes.time[nodes.call_exit]
    for who in np.unique(location).tolist():
        low, high = np.searchsorted(of_call, [who, who + 1])
        at = np.flatnonzero(location == who)
        call = low + np.searchsorted(begin[low:high], time[at], "right") - 1
        inside = (call >= low) & (time[at] >= 0)
        inside[inside] &= time[at][inside] <= end[call[inside]]
        result[at[inside]] = call[inside]
    return result


def _enter(nodes: Nodes, call: Rows) -> Rows:
    return np.where(call >= 0, np.append(nodes.call_enter, -1)[call], -1)


def _leave(nodes: Nodes, call: Rows) -> Rows:
    return np.where(call >= 0, np.append(nodes.call_exit, -1)[call], -1)


def _previous(window: NDArray[np.int32], target: NDArray[np.int32], release: Rows, before: Rows) -> Rows:
    """Return the row whose lock was released when `before` says, of the same window and target; -1 for none."""
    keys = {key: i for i, key in enumerate(zip(window.tolist(), target.tolist(), release.tolist(), strict=True))}
    wanted = zip(window.tolist(), target.tolist(), before.tolist(), strict=True)
    return np.array([keys.get(key, -1) if key[2] >= 0 else -1 for key in wanted], np.int64)
