"""Locks of queues of work: those that are used together with a condition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.scan.region_rules import CONDITION, is_in
from tracecols.kernels.replay import SIGNALS
from tracecols.replay.replayable import Replayable


def queue_locks(replay: Replayable) -> NDArray[np.bool_]:
    """Select the edges between owners of locks that are used together with conditions: who gets work first is no order
    that a faster run would keep; (n_edges,) bool."""
    model, edges, nodes = replay.model, replay.graph.edges, replay.nodes
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
    tail = edges.tail
    owns = (tail < len(nodes)) & (nodes.role[np.minimum(tail, len(nodes) - 1)] & SIGNALS == 0)
    return np.asarray(mine[edges.head] & owns, np.bool_)
