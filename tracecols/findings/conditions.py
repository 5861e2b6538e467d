"""Who signals the conditions that threads wait for: no recorder writes it, the calls tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.mpi.waits import CONDITION
from tracecols.enhance.scan.region_rules import is_in
from tracecols.replay.replay import Replay

Rows = NDArray[np.int64]


def signal_edges(replay: Replay, signals: list[tuple[int, Rows, Rows]]) -> tuple[Rows, Rows, Rows]:
    """Let a wait for a condition end after the last signal that another thread of the process gave during the wait.

    Parameters
    ----------
    signals : list of (location, rows, times)
        The calls that signal, by location.

    Returns
    -------
    tail, head, lag : (n,) int64
        From the last node of the signalling thread before its call; the lag is the time from there to the call.
    """
    model, nodes = replay.model, replay.graph.nodes
    locks = model.lock_acquisitions
    nothing = np.zeros(0, np.int64)
    at = np.flatnonzero(is_in(model.facts, locks.call_path, CONDITION)) if len(locks) else nothing
    if not at.size or not any(rows.size for _, rows, _ in signals):
        return nothing, nothing, nothing
    location = np.concatenate([np.full(rows.size, who, np.int64) for who, rows, _ in signals])
    time = np.concatenate([times for _, _, times in signals])
    order = np.argsort(time, kind="stable")
    location, time = location[order], time[order]
    process = model.facts.process[location]
    head = nodes.at(locks.acquire[at])
    mine = model.facts.process[locks.location[at]]
    source = np.full(at.size, -1, np.int64)
    for one in np.unique(mine).tolist():
        of = np.flatnonzero(process == one)
        waits = np.flatnonzero(mine == one)
        last = np.searchsorted(time[of], locks.acquire_time[at][waits], "right") - 1
        # a thread does not wake itself
        while ((last >= 0) & (location[of][np.maximum(last, 0)] == locks.location[at][waits])).any():
            own = (last >= 0) & (location[of][np.maximum(last, 0)] == locks.location[at][waits])
            last = np.where(own, last - 1, last)
        source[waits] = np.where(last >= 0, of[np.maximum(last, 0)], -1)
    known = (source >= 0) & (head >= 0) & (time[np.maximum(source, 0)] > locks.enter_time[at])
    source, head = source[known], head[known]
    # nodes are ordered by location, and by time within it
    tail = np.empty(source.size, np.int64)
    for who in np.unique(location[source]).tolist():
        of = np.flatnonzero(location[source] == who)
        low, high = np.searchsorted(nodes.location, [who, who + 1])
        tail[of] = low + np.searchsorted(nodes.time[low:high], time[source][of], "right") - 1
    lag = np.maximum(time[source] - nodes.time[tail], 0)
    return tail, head, lag


def queue_locks(replay: Replay) -> NDArray[np.bool_]:
    """Select the edges between owners of locks that are used together with conditions: who gets work first is no order
    that a faster run would keep; (n_edges,) bool."""
    model, edges, nodes = replay.model, replay.graph.edges, replay.graph.nodes
    locks = model.lock_acquisitions
    waits = is_in(model.facts, locks.call_path, CONDITION) if len(locks) else np.zeros(0, bool)
    if not waits.any():
        return np.zeros(len(edges), bool)
    which = np.stack([locks.process, locks.lock], 1)
    _, group = np.unique(which, axis=0, return_inverse=True)
    of_queue = np.isin(group.ravel(), group.ravel()[waits])
    mine = np.zeros(replay.graph.time.size, bool)
    at = nodes.at(locks.acquire[of_queue])
    mine[at[at >= 0]] = True
    return np.asarray(mine[edges.head] & (edges.tail < len(nodes)), np.bool_)
