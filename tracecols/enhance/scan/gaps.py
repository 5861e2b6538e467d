"""Moments at which nothing is open on a location: no call instance, no team, no request.

Where such moments of all threads of a process meet, its events can be divided into windows that steps look at one after
the other (`enhance.scan.windows`): whatever belongs together is on the same side. One team may be open, such as that of
a parallel region around everything, if all of its threads are in it and have entered as many constructs of each role:
then the team belongs to the windows on both sides, and all else to one of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import mask_of, pair_with_previous
from tracecols.enhance.definitions.regions import CONSTRUCTS
from tracecols.enhance.scan.teams import IS_FORK, IS_JOIN, KEPT, TeamBegins
from tracecols.kernels import gaps as kernels
from tracecols.kernels import stacks
from tracecols.kernels.gaps import CALLS, LAST, N_AROUND, N_COUNTED, Gaps
from tracecols.schema import KINDS
from tracecols.schema import EventKind as K
from tracecols.store import Store

WINDOW_EVENTS, MOST_EVENTS, PER_TASK = 1 << 19, 1 << 21, 4
"""Events of a process that are looked at together, about, in short and in long traces, of which each of the tasks that
run side by side has some windows; a process with fewer than twice as many is one window."""

EVENT_BYTES, LEAST_EVENTS = 400, 1 << 14
"""Bytes of memory that a task takes for each event of its window, about (200 of a generated hybrid program, of which
windows differ in size); events of a window, at least, however little memory there is."""

SAMPLES = 16
"""Moments for each window that are tried as its end."""

STARTS = mask_of((K.MPI_ISEND, K.MPI_IRECV_REQUEST, K.MPI_IMRECV_REQUEST))
ENDS = mask_of((K.MPI_ISEND_COMPLETE, K.MPI_IRECV, K.MPI_IMRECV, K.MPI_REQUEST_CANCELLED))
PROBES, TAKES = mask_of((K.MPI_PROBE,)), mask_of((K.MPI_MRECV, K.MPI_IMRECV_REQUEST))

OPEN = {"request": (STARTS, ENDS), "message": (PROBES, TAKES)}
"""By column of the side table of messages what begins and ends what it identifies."""

TABLES = {name: N_COUNTED + k for k, name in enumerate(("threads", "p2p", "collectives", "locks"))}
"""Side tables of which windows have some rows, and where those are counted. Those of tasks, and of accesses to windows
of MPI, are not read by steps that look at them."""

_OF_TABLE = {name: mask_of(k.number for k in KINDS if k.family == name) for name in TABLES}

IS_LOCK, IS_ACQUIRE = _OF_TABLE["locks"], mask_of((K.THREAD_ACQUIRE_LOCK, K.OMP_ACQUIRE_LOCK))


def _meanings(is_begin: NDArray[np.bool_], role: NDArray[np.int8]) -> kernels.Meanings:
    """Return what kinds of events mean, of which some begin teams, and the constructs of call paths."""
    pairs = [
        (IS_FORK, IS_JOIN),
        (mask_of((K.THREAD_TEAM_BEGIN,)), mask_of((K.THREAD_TEAM_END,))),
        (IS_ACQUIRE, IS_LOCK & ~IS_ACQUIRE),
        *OPEN.values(),
    ]
    change = np.stack([begins.astype(np.int8) - ends for begins, ends in pairs])
    table = np.full(is_begin.size, -1, np.int8)
    for k, mask in enumerate(_OF_TABLE.values()):
        table[mask] = k
    return kernels.Meanings(change, is_begin, table, role)


def window_events(n_events: int, n_tasks: int, memory: int | None) -> int:
    """Return how many events of a process are looked at together, about, by each of the tasks that run side by side
    with so many bytes of memory; `n_events` are those of the trace."""
    most = min(max(n_events // (PER_TASK * n_tasks), WINDOW_EVENTS), MOST_EVENTS)
    return most if memory is None else min(most, max(memory // EVENT_BYTES, LEAST_EVENTS))


def sample_times(store: Store, n_events: int, window: int) -> NDArray[np.int64]:
    """Return the times after which a process may be divided; (n_samples,) int64, none for short processes.

    `n_events` are those of the process; a window has about `window` of them.
    """
    n = n_events // window
    if n < 2:
        return np.zeros(0, np.int64)
    first, last = (int(store.manifest[name]) for name in ("first_time", "last_time"))
    return first + np.arange(1, SAMPLES * n) * (last - first) // (SAMPLES * n)


def find_gaps(
    store: Store,
    location: int,
    times: NDArray[np.int64],
    calls: stacks.CallInstances,
    attributed: stacks.AttributedEvents,
    is_begin: NDArray[np.bool_],
    teams: TeamBegins,
    role: NDArray[np.int8],
) -> Gaps | None:
    """Find moments at which nothing is open on a location, but perhaps one team; None if its events are not in order.

    `times` ascend. `is_begin` has the kinds of events that begin teams, for all threads of its process if they are
    FORKs; `teams` are its begins in teams, nothing where FORKs begin teams; `role` is which construct the region of
    each of its call paths is, -1 for none.
    """
    if location in store.decreases or not (_locks_are_held(store, location, attributed.kind)):
        return None
    if not all(_begin_here(store, location, attributed.kind, column, *of) for column, of in OPEN.items()):
        return None
    is_of_threads = _OF_TABLE["threads"][attributed.kind]
    # rows of created threads are in the windows of their calls
    only_teams = int(is_of_threads.sum()) == store.n_rows("threads", location)
    happening = kernels.Happening(
        calls.enter_time,
        calls.exit,
        calls.exit_time,
        calls.node,
        calls.team,
        attributed.time,
        attributed.kind,
        attributed.call,
        teams.marks,
        teams.instance if only_teams else teams.instance[:0],
    )
    n = times.size
    begin, end, sums, mark = (np.zeros_like(times) for _ in range(4))
    counted, entered = (np.zeros((n, size), np.int64) for size in (N_COUNTED + len(TABLES), len(CONSTRUCTS)))
    found = Gaps(begin, end, counted, sums, np.full(n, -1), mark, entered, np.full((n, N_AROUND), -1))
    meanings = _meanings(is_begin, role)
    sizes = len(meanings.change), len(TABLES), len(CONSTRUCTS), N_AROUND, kernels.N_STATE
    scratch = kernels.Scratch(*(np.zeros(size, np.int64) for size in sizes))
    kernels.find_first_gaps(times, happening, meanings, scratch, found)
    if not only_teams:
        n_calls, of_threads = counted[:, CALLS], counted[:, TABLES["threads"]]
        of_threads[:] = _rows_of_threads(store, location, calls.enter, n_calls, of_threads)
    return found


def _rows_of_threads(
    store: Store, location: int, enter: NDArray[np.int64], n_calls: NDArray[np.int64], n_of_teams: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count the rows of the side table of threads before moments, where it has events that are not attributed: those of
    created threads, each in the window of its call."""
    rows = store.read("threads", location, ["row", "kind"])
    of_teams = np.append(rows["row"][KEPT[rows["kind"]]], LAST)
    next_enter = np.append(np.minimum.accumulate(enter[::-1])[::-1], LAST)
    return np.searchsorted(rows["row"], np.minimum(next_enter[n_calls], of_teams[n_of_teams]))


def _locks_are_held(store: Store, location: int, kind: NDArray[np.uint8]) -> bool:
    """Say whether a location releases only locks that it holds."""
    is_acquire = IS_ACQUIRE[kind[np.flatnonzero(IS_LOCK[kind])]]
    if not is_acquire.size:
        return True
    lock = store.read("locks", location, ["lock"])["lock"].astype(np.int64)
    if lock.size != is_acquire.size:
        return False
    change = np.where(is_acquire, 1, -1)
    by_lock = np.argsort(lock, kind="stable")
    held = np.cumsum(change[by_lock])
    is_first = np.diff(lock[by_lock], prepend=~lock[by_lock[:1]]) != 0
    before = np.where(is_first, held - change[by_lock], 0)
    # what is held of the locks in front, which is never negative either if all goes well
    return bool((held >= np.maximum.accumulate(np.where(is_first, before, 0))).all()) and int(held.min()) >= 0


def _begin_here(
    store: Store, location: int, kind: NDArray[np.uint8], column: str, start: NDArray[np.bool_], end: NDArray[np.bool_]
) -> bool:
    """Say whether all requests, or messages that a probe finds, that end on a location begin there."""
    if not (start[kind].any() or end[kind].any()):
        return True
    of_table = kind[np.flatnonzero(_OF_TABLE["p2p"][kind])]
    key = store.read("p2p", location, [column])[column]
    if key.size != of_table.size:
        return False
    starts, ends = start[of_table], end[of_table]
    either = np.flatnonzero(starts | ends)
    partner = pair_with_previous(key[either].astype(np.int64), starts[either], ends[either])
    return bool((partner[ends[either]] >= 0).all())
