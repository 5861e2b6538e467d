"""Waits at windows, in non-blocking collective operations and for files: the rules that wait-state patterns and root
causes share.

The reference analyser has none of these waits. Each function returns the ticks that every row of a table waits, and
whether they count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, lookup
from tracecols.enhance.mpi.waits import (
    BARRIER,
    HANDLES,
    N_TO_N,
    N_TO_ONE,
    ONE_TO_N,
    SCAN,
    groups_that_wait,
    largest_per_call,
)
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.region_rules import called, either, is_in, named
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.vectors import Ints, Mask

WINDOW_CREATION = called("(?i:mpi_win_(create|create_dynamic|allocate|allocate_shared))")
WINDOW_FREEING = called("(?i:mpi_win_free)")
FENCE = called("(?i:mpi_win_fence)")
ON_WINDOWS = either(WINDOW_CREATION, WINDOW_FREEING, FENCE)
WINDOW_LOCK = named("mpi_win_(un)?lock(_all)?", "mpi")
SHMEM = named(".*", "shmem")

Waits = tuple[Ints, Mask]
"""Ticks, and whether they count."""

MEETINGS = (*BARRIER, *HANDLES)
"""Non-blocking operations in which all participants wait for all."""

NOTHING, BY_START, BY_ACCESS, BY_COMPLETE = range(4)
"""Call in which an origin was when its target posted (`epochs.held_by`)."""


def are_of(m: CompoundTable, ops: tuple[str, ...]) -> Mask:
    """Return a mask of the rows of a table that belong to some collective operations; (n,) bool."""
    return np.isin(m.op, [COLLECTIVE_OPS.index(op) for op in ops])


def wait_at_windows(facts: Facts, m: CompoundTable) -> Waits:
    """Find the waits for the last participant to create, free or fence a window (`window_members`), within the call."""
    wait = np.minimum(m.latest_enter_time, m.exit_time) - m.enter_time
    return wait, (wait > 0) & (m.latest_enter_time != -1) & is_in(facts, m.first_call_path, ON_WINDOWS)


def wait_in_shmem(facts: Facts, m: CompoundTable) -> Waits:
    """Find the waits in collective operations of SHMEM (`window_members`) for the last participant, or for the root."""
    is_one_to_n = are_of(m, ONE_TO_N)
    until = np.where(is_one_to_n, m.root_enter_time, m.latest_enter_time)
    known = (until != -1) & np.where(is_one_to_n, ~m.is_root, are_of(m, (*BARRIER, *N_TO_N)))
    wait = np.where(known, np.minimum(until, m.exit_time) - m.enter_time, 0)
    return wait, (wait > 0) & is_in(facts, m.call_path, SHMEM)


def wait_for_completion(m: CompoundTable) -> Waits:
    """Find the waits in MPI_Win_wait for the last origin to enter MPI_Win_complete (`epochs`), within the call."""
    wait = np.minimum(m.complete_enter_time, m.wait_exit_time) - m.wait_enter_time
    return wait, largest_of_each(wait, m.is_complete, m.exposure)


def wait_for_posts(m: CompoundTable) -> Waits:
    """Find the waits of origins in a call for the latest MPI_Win_post of their targets (`epochs`)."""
    waits = m.is_complete & (m.held_by > 0)
    return m.held_time, largest_of_each(m.held_time, waits, m.held_location, m.posted_in)


def wait_for_window_locks(m: CompoundTable) -> tuple[Ints, Mask, Mask]:
    """Find the waits for locks of windows (`lock_epochs`) in the call that locks, or in the call that unlocks.

    Returns ticks, whether they count, and whether the wait is in the call that unlocks.
    """
    in_unlock = m.wait_enter_time == m.unlock_enter_time
    exit = np.where(in_unlock, m.unlock_exit_time, m.lock_exit_time)
    wait = np.minimum(m.previous_release_time, exit) - m.wait_enter_time
    return wait, (m.previous_release_time != -1) & (m.target >= 0) & (wait > 0), in_unlock


def wait_for_shmem_locks(facts: Facts, m: CompoundTable) -> Waits:
    """Find the waits for locks of SHMEM (`lock_epochs`) in the call that takes the lock."""
    wait = np.minimum(m.previous_release_time, m.lock_exit_time) - m.lock_enter_time
    return wait, (m.previous_release_time != -1) & (wait > 0) & is_in(facts, m.lock_call_path, SHMEM)


def wait_for_starts(m: CompoundTable) -> Waits:
    """Find the waits of calls that complete non-blocking collective operations (`nonblocking_members`) for a
    participant to start the operation; only the longest wait of a call counts.

    Those that receive wait for the root in one-to-all operations, and for those that send in others; in prefix
    operations for the senders of lower ranks, and in barriers and the creation of communicators for all participants.
    """
    until = awaited_start(m)
    wait = np.where(depends_on_others(m) & (until != -1), np.minimum(until, m.done_exit_time) - m.done_enter_time, 0)
    return wait, largest_of_each(wait, np.ones(len(m), bool), m.done_enter)


def depends_on_others(m: CompoundTable) -> Mask:
    """Return a mask of the rows of `nonblocking_members` whose participants wait for others; (n,) bool."""
    receives = m.receives & np.where(are_of(m, ONE_TO_N), ~m.is_root, ~are_of(m, N_TO_ONE) | m.is_root)
    return receives | are_of(m, (*MEETINGS, *SCAN))


def wait_in_series(m: CompoundTable) -> Waits:
    """Find the waits of polling calls (`polls`) until the awaited call begins."""
    wait = np.minimum(m.cause_enter_time, m.exit_time) - m.enter_time
    return wait, wait > 0


def awaited_start(m: CompoundTable) -> Ints:
    """Return the latest start of the participants that each row of `nonblocking_members` depends on; (n,) int64,
    -1 for none."""
    all_or_senders = np.where(are_of(m, MEETINGS), m.latest_begin_time, m.latest_sender_begin_time)
    return np.where(are_of(m, ONE_TO_N), m.root_begin_time, all_or_senders)


def wait_for_files(m: CompoundTable) -> Waits:
    """Find the waits for the last participant in collective calls for files (`file_members`), if none left before."""
    wait = m.latest_enter_time - m.enter_time
    return wait, (wait > 0) & (m.earliest_exit_time >= m.latest_enter_time)


def _first_of_each(operation: Ints, chosen: Mask) -> Ints:
    """Return for every row the first chosen row of its operation; (n,) int64, -1 for none."""
    n = operation.size
    if not n:
        return operation
    found = Segments(operation, int(operation.max()) + 1).min(np.where(chosen, np.arange(n), n))[operation]
    return np.where(found < n, found, -1)


def awaited_at_windows(m: CompoundTable) -> Ints:
    """Return the awaited rows in collective operations on windows (`window_members`): the root, or the first of those
    that enter last; (n,) int64, -1 for none."""
    return _first_of_each(m.operation, np.where(are_of(m, ONE_TO_N), m.is_root, m.enter_time == m.latest_enter_time))


def awaited_starters(m: CompoundTable) -> Ints:
    """Return the awaited rows in non-blocking collective operations (`nonblocking_members`); (n,) int64, -1 for
    none."""
    sends = m.sends & (m.is_root == are_of(m, ONE_TO_N))
    rows = np.flatnonzero(sends | are_of(m, MEETINGS))
    own, awaited = groups_that_wait(m.operation, m.group)
    key = combine(np.append(own[rows], awaited), np.append(m.begin_time[rows], awaited_start(m)))
    return pick(rows, lookup(key[: rows.size], key[rows.size :]))


def awaited_at_files(m: CompoundTable) -> Ints:
    """Return the rows of the last participants in collective calls for files (`file_members`); (n,) int64, -1 none."""
    return _first_of_each(m.operation, m.enter_time == m.latest_enter_time)


def awaited_releases(m: CompoundTable) -> Ints:
    """Return the rows of `lock_epochs` with the awaited release; (n,) int64, -1 for none."""
    return lookup(m.release, m.previous_release)


def largest_of_each(wait: Ints, chosen: Mask, *call: NDArray[np.integer]) -> Mask:
    """Return a mask of the chosen row with the longest wait of each call, of equal ones the first."""
    rows = np.flatnonzero(chosen & (wait > 0))
    result = np.zeros(wait.size, bool)
    result[rows[largest_per_call(combine(*(c[rows] for c in call)), wait[rows])]] = True
    return result
