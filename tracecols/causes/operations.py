"""Synchronisation points of operations that the reference does not know: on windows, non-blocking collective
operations, and collective calls for files.

The rules of the wait states (`enhance.mpi.operation_waits`) find the waits; this module adds their causes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.causes.points import NOBODY, Synchronisation, durations, pairs_of, points_of
from tracecols.causes.quirks import Quirks
from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments
from tracecols.enhance.dataflow.spill import Spill
from tracecols.enhance.dataflow.steps import GLOBAL, step
from tracecols.enhance.mpi.operation_waits import (
    are_of,
    awaited_at_files,
    awaited_at_windows,
    awaited_releases,
    awaited_starters,
    wait_at_windows,
    wait_for_completion,
    wait_for_files,
    wait_for_posts,
    wait_for_shmem_locks,
    wait_for_starts,
    wait_for_window_locks,
    wait_in_series,
    wait_in_shmem,
)
from tracecols.enhance.mpi.waits import ONE_TO_N
from tracecols.enhance.scan.facts import Facts
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask


class Events(NamedTuple):
    """Events at which locations wait, or make others wait.

    Attributes
    ----------
    location, call_path : (n,) int32
    event : (n,) int64
    enter_time, exit_time : (n,) int64
        Ticks, of the call; both are the time at which others go on if only that matters.
    """

    location: NDArray[np.int32]
    event: Ints
    call_path: NDArray[np.int32]
    enter_time: Ints
    exit_time: Ints

    def at(self, rows: Ints) -> Events:
        """Return the events of some rows; -1 for row -1."""
        return Events(*(pick(column, rows) for column in self))


class Waiting(NamedTuple):
    """Waits in operations of one kind, and their causes."""

    delay: str
    """Kind of the delay, one of `schema.causes.DELAYS`."""
    waiting: Events
    causing: Events
    ticks: Ints
    """(n,) int64"""
    communicator: Ints | None = None
    """(n,) int64, optional: channel of the communicator all of whose processes the waiting one synchronises with."""
    goes_on: Mask | None = None
    """(n,): whether a wait is no synchronisation, because it ends before what is waited for has come."""


def _waiting(
    delay: str,
    found: tuple[Ints, Mask],
    waiting: Events,
    causing: Events,
    cause: Ints | None = None,
    communicator: Ints | None = None,
    goes_on: Mask | None = None,
) -> Waiting:
    """Return the waits in the rows of a table whose events are both known and on different locations, given the ticks
    and a mask of the rows that wait; `cause` is the row of the causing event, by default the same."""
    ticks, waits = found
    rows = np.flatnonzero(waits)
    ours, theirs = waiting.at(rows), causing.at(rows if cause is None else cause[rows])
    known = (ours.event >= 0) & (theirs.event >= 0) & (ours.call_path >= 0) & (theirs.call_path >= 0)
    kept = np.flatnonzero(known & (ours.location != theirs.location))
    rows = rows[kept]
    channel = None if communicator is None else communicator[rows]
    return Waiting(
        delay, ours.at(kept), theirs.at(kept), ticks[rows], channel, None if goes_on is None else goes_on[rows]
    )


@step(GLOBAL, "operation_points")
def operation_points(
    facts: Facts,
    quirks: Quirks,
    window_members: CompoundTable,
    epochs: CompoundTable,
    lock_epochs: CompoundTable,
    nonblocking_members: CompoundTable,
    file_members: CompoundTable,
    polls: CompoundTable,
    spill: Spill,
) -> Synchronisation:
    """Find the points of operations on windows and files, of non-blocking collective operations and of polling calls,
    and their pairs.

    The reference knows of none.
    """
    if quirks.leaves_out_others:
        return Synchronisation(quirks, [], [], spill)
    found = [
        *_of_windows(facts, window_members),
        *_of_epochs(epochs),
        *_of_window_locks(facts, lock_epochs),
        _of_nonblocking(nonblocking_members),
        _of_files(facts, file_members),
        _of_polls(polls),
    ]
    # an event that waits and makes others wait is a point that waits
    points = [_points(facts, quirks, w, waits=waits) for waits in (True, False) for w in found]
    pairs = [pairs_of(w.delay, w.causing.event, w.waiting.event, durations(facts, quirks, w.ticks)) for w in found]
    return Synchronisation(quirks, points, pairs, spill)


def _points(facts: Facts, quirks: Quirks, w: Waiting, *, waits: bool) -> dict[str, Any]:
    """Return the points of the waiting events, or of the events that let them go on."""
    e, other = (w.waiting, w.causing) if waits else (w.causing, w.waiting)
    total = e.exit_time - e.enter_time
    partner = facts.process[other.location] if len(w.ticks) else np.zeros(0, np.int32)
    if waits and w.goes_on is not None:
        partner = np.where(w.goes_on, np.int32(-1), partner)
    return points_of(
        "operation" if waits else "lets go on",
        e.location,
        e.event,
        e.enter_time,
        e.call_path,
        durations(facts, quirks, w.ticks) if waits else 0,
        durations(facts, quirks, total),
        completion=durations(facts, quirks, np.maximum(total - w.ticks, 0) if waits else total),
        partner=partner if w.communicator is None else np.where(w.communicator >= 0, -1, partner),
        communicator=NOBODY if w.communicator is None else w.communicator,
    )


def _of_windows(facts: Facts, m: CompoundTable) -> Iterator[Waiting]:
    """Yield the waits of collective operations on windows, and of SHMEM: for the last one to enter, or for the root."""
    cause = awaited_at_windows(m)
    events = Events(m.location, m.end, m.call_path, m.enter_time, m.exit_time)
    windows = to_numpy(facts.store.definitions["windows"].column("communicator"))
    process = facts.process[m.location] if len(m) else np.zeros(0, np.int32)
    channel = facts.communicators.channel(pick(windows, m.window), process)
    meet = np.zeros(0, bool)
    if len(m):
        earliest_exit = Segments(m.operation, int(m.operation.max()) + 1).min(m.exit_time)[m.operation]
        meet = (earliest_exit >= m.latest_enter_time) & ~are_of(m, ONE_TO_N)
    whole = np.where(meet, channel, NOBODY)
    for delay, found in (("one_sided", wait_at_windows(facts, m)), ("shmem", wait_in_shmem(facts, m))):
        yield _waiting(delay, found, events, events, cause, whole)


def _of_epochs(m: CompoundTable) -> Iterator[Waiting]:
    """Yield the waits of general active target synchronisation: of targets for the last MPI_Win_complete, of origins
    for MPI_Win_post."""
    complete = Events(
        m.complete_location, m.complete, m.complete_call_path, m.complete_enter_time, m.complete_enter_time
    )
    wait = Events(m.wait_location, m.wait, m.wait_call_path, m.wait_enter_time, m.wait_exit_time)
    yield _waiting("one_sided", wait_for_completion(m), wait, complete)
    post = Events(m.target, m.post, m.post_call_path, m.post_enter_time, m.post_enter_time)
    held = Events(m.held_location, m.held, m.held_call_path, m.posted_in, m.held_exit_time)
    yield _waiting("one_sided", wait_for_posts(m), held, post)


def _of_window_locks(facts: Facts, m: CompoundTable) -> Iterator[Waiting]:
    """Yield the waits for locks of windows, and of SHMEM: for the location that released the lock before."""
    lock = Events(m.location, m.request, m.lock_call_path, m.lock_enter_time, m.lock_exit_time)
    unlock = Events(m.unlock_location, m.release, m.unlock_call_path, m.unlock_enter_time, m.unlock_exit_time)
    # the event of the release is the point at which the call itself waits for the lock, before it lets others go on
    ends = np.where(m.unlock_exit >= 0, m.unlock_exit, m.release)
    releases = Events(m.unlock_location, ends, m.unlock_call_path, m.release_time, m.release_time)
    previous = awaited_releases(m)
    ticks, waits, in_unlock = wait_for_window_locks(m)
    yield _waiting("one_sided", (ticks, waits & ~in_unlock), lock, releases, previous)
    yield _waiting("one_sided", (ticks, waits & in_unlock), unlock, releases, previous)
    yield _waiting("shmem", wait_for_shmem_locks(facts, m), lock, releases, previous)


def _of_nonblocking(m: CompoundTable) -> Waiting:
    """Return the waits in calls that complete non-blocking collective operations: for the last one to start them."""
    done = Events(m.location, m.done, m.done_call_path, m.done_enter_time, m.done_exit_time)
    begin = Events(m.location, m.begin, m.begin_call_path, m.begin_time, m.begin_time)
    return _waiting("nonblocking", wait_for_starts(m), done, begin, awaited_starters(m))


def _of_polls(m: CompoundTable) -> Waiting:
    """Return the waits in polling calls: for the location that sends or starts what is polled for."""
    call = Events(m.location, m.exit, m.call_path, m.enter_time, m.exit_time)
    cause = Events(m.cause_location, m.cause_event, m.cause_call_path, m.cause_enter_time, m.cause_exit_time)
    return _waiting("polling", wait_in_series(m), call, cause, goes_on=~m.is_last)


def _of_files(facts: Facts, m: CompoundTable) -> Waiting:
    """Return the waits in collective calls for files: for the last one to enter."""
    events = Events(m.location, m.event, m.call_path, m.enter_time, m.exit_time)
    process = facts.process[m.location] if len(m) else np.zeros(0, np.int32)
    channel = facts.communicators.channel(m.communicator, process)
    return _waiting("file", wait_for_files(m), events, events, awaited_at_files(m), channel)
