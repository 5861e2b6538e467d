"""Edges of one-sided communication without fences: epochs of general active targets, and locks of windows."""

from __future__ import annotations

import numpy as np

from tracecols.enhance.dataflow.columns import pick
from tracecols.enhance.dataflow.edges import EdgeCollector
from tracecols.enhance.dataflow.grouping import lookup
from tracecols.model.model import Model
from tracecols.replay.nodes import Nodes
from tracecols.vectors import Ints


def add_window_edges(model: Model, nodes: Nodes, found: EdgeCollector) -> None:
    """Let an origin wait for MPI_Win_post of its target, a target for MPI_Win_complete of its origins, and a process
    that locks a window for the previous owner to unlock it.

    An origin waits in the call that was open when the target posted; if the target had posted before, at the latest in
    MPI_Win_complete. The order of locks is the recorded one.
    """
    e, locks = model.epochs, model.lock_epochs
    if len(e):
        complete = nodes.calls_around(e.complete)
        held = np.where(e.held_time > 0, nodes.calls_around(e.held), complete)
        _add(nodes, nodes.calls_around(e.post), held, found)
        _add(nodes, complete, nodes.calls_around(e.wait), found)
    if len(locks):
        before = lookup(locks.release, locks.previous_release)
        # a lock may be taken with the first operation, or when the window is unlocked
        mine = np.where(locks.lock_exit_time > locks.previous_release_time, locks.lock_enter, locks.unlock_enter)
        unlock = nodes.calls_around(locks.unlock_enter)
        _add(nodes, pick(unlock, before), nodes.calls_around(mine), found)


def _add(nodes: Nodes, awaited: Ints, call: Ints, found: EdgeCollector) -> None:
    """Let calls of some processes wait for the ENTERs of calls of others; -1 for none."""
    tail = nodes.enter_of(awaited)
    known = np.flatnonzero((tail >= 0) & (call >= 0))
    known = known[nodes.location[tail[known]] != nodes.location[call[known]]]
    found.add(tail[known], call[known], is_inferred=True)
