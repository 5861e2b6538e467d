"""How long calls of hosts wait for operations on streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import latest_before
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.region_rules import called, is_in

ASYNCHRONOUS = called("(?i:.*async.*)")
"""Copies that are asked not to wait, whenever they return."""


def waits_of_hosts(
    facts: Facts, syncs: CompoundTable, copies: CompoundTable
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find for what calls wait, and how long: from the ENTER of the call to the end of the last operation that it waits
    for, or of the call. A blocking copy that returns only when it is done waits for itself.

    Parameters
    ----------
    syncs, copies : CompoundTable
        `device_syncs` and `copies`.

    Returns
    -------
    row : (n_syncs,) int64
        The event that begins the operation; -1 none.
    wait : (n_syncs,) int64
        Ticks.
    """
    row, end = syncs.cause.copy(), np.where(syncs.cause >= 0, syncs.cause_end_time, syncs.enter_time)
    is_own = (copies.copy_enter >= 0) & (copies.copy_exit_time >= copies.end_time)
    at = np.flatnonzero(is_own)
    of = pick(at, latest_before(copies.copy_enter[at], copies.end_time[at], syncs.enter, syncs.exit_time))
    later = (of >= 0) & syncs.is_copy & (pick(copies.end_time, of) > end)
    row, end = np.where(later, pick(copies.event, of), row), np.where(later, pick(copies.end_time, of), end)
    wait = np.minimum(np.minimum(syncs.exit_time, end) - syncs.enter_time, syncs.own_time)
    row[syncs.is_copy & is_in(facts, syncs.call_path, ASYNCHRONOUS)] = -1
    return row, np.where(row >= 0, np.maximum(wait, 0), 0)
