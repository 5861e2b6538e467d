"""Moments at which a location may be divided: no team and no request is open, and call instances that are open end
before anything else begins or happens.

If such moments of all threads of a process overlap, its events can be divided there into windows that steps process one
after the other (`enhance.scan.windows`): events that belong together are on the same side. One team may be open, such
as that of a parallel region around everything, if all of its threads are in it and have entered the same number of
constructs of each role. Then the team belongs to the windows on both sides, and everything else to one of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import mask_of, pair_with_previous
from tracecols.enhance.definitions.regions import CONSTRUCTS
from tracecols.enhance.scan.location_scan import RunningScan
from tracecols.enhance.scan.teams import IS_FORK, IS_JOIN, KEPT
from tracecols.kernels import gaps as kernels
from tracecols.kernels import stacks
from tracecols.kernels.gaps import CALLS, LAST, N_AROUND, N_COUNTED, Gaps
from tracecols.schema import KINDS
from tracecols.schema import EventKind as K
from tracecols.store import Store
from tracecols.vectors import Ints, Mask

WINDOW_EVENTS, MOST_EVENTS, PER_TASK = 1 << 19, 1 << 21, 4
"""Approximate events per window in short and in long traces, and windows per concurrent task; a process with fewer than
twice as many events is one window."""

EVENT_BYTES, LEAST_EVENTS = 400, 1 << 14
"""Approximate bytes of memory per event of the window of a task (200 for a generated hybrid program, whose windows
differ in size), and minimum number of events of a window, however little memory there is."""

SAMPLES = 16
"""Moments per window that are tried as its end."""

STARTS = mask_of((K.MPI_ISEND, K.MPI_IRECV_REQUEST, K.MPI_IMRECV_REQUEST))
ENDS = mask_of((K.MPI_ISEND_COMPLETE, K.MPI_IRECV, K.MPI_IMRECV, K.MPI_REQUEST_CANCELLED))
PROBES, TAKES = mask_of((K.MPI_PROBE,)), mask_of((K.MPI_MRECV, K.MPI_IMRECV_REQUEST))

OPEN = {"request": (STARTS, ENDS), "message": (PROBES, TAKES)}
"""By column of the side table of messages: kinds of events that begin and end the object that the column identifies."""

TABLES = {name: N_COUNTED + k for k, name in enumerate(("threads", "p2p", "collectives", "locks"))}
"""Side tables that are divided into windows, and the index of their count of rows. Steps that work on windows do not
read the tables of tasks and of accesses to MPI windows."""

_OF_TABLE = {name: mask_of(k for k in KINDS if k.family == name) for name in TABLES}

IS_LOCK, IS_ACQUIRE = _OF_TABLE["locks"], mask_of((K.THREAD_ACQUIRE_LOCK, K.OMP_ACQUIRE_LOCK))


def _meanings(is_begin: Mask, role: NDArray[np.int8]) -> kernels.Meanings:
    """Return the meanings of kinds of events, given those that begin teams and the constructs of call paths."""
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
    """Return the approximate number of events per window for `n_tasks` concurrent tasks with `memory` bytes each;
    `n_events` is that of the trace."""
    most = min(max(n_events // (PER_TASK * n_tasks), WINDOW_EVENTS), MOST_EVENTS)
    return most if memory is None else min(most, max(memory // EVENT_BYTES, LEAST_EVENTS))


def sample_times(store: Store, n_events: int, window: int) -> Ints:
    """Return the times after which a process may be divided; (n_samples,) int64, empty for short processes.

    `n_events` is that of the process; a window has about `window` events.
    """
    n = n_events // window
    if n < 2:
        return np.zeros(0, np.int64)
    first, last = (int(store.manifest[name]) for name in ("first_time", "last_time"))
    at, total = np.arange(1, SAMPLES * n), SAMPLES * n
    whole, rest = divmod(last - first, total)
    # at * (last - first) exceeds 64 bits for clocks of 10**17 ticks per second, as in EPILOG traces
    return first + at * whole + at * rest // total


def find_gaps(
    scan: RunningScan, entry: NDArray[np.int32], calls: stacks.CallInstances, attributed: stacks.AttributedEvents
) -> Gaps | None:
    """Find moments after `RunningScan.samples` at which a location may be divided, with possibly one open team; None if
    its times decrease or its locks, requests or messages are inconsistent. `entry` is that of each of its call
    paths."""
    store, location, times, teams = scan.store, scan.location, scan.samples, scan.begun
    if location in store.decreases or not (_locks_are_held(store, location, attributed.kind)):
        return None
    if not all(_begin_here(store, location, attributed.kind, column, *of) for column, of in OPEN.items()):
        return None
    is_of_threads = _OF_TABLE["threads"][attributed.kind]
    # rows of created threads belong to the windows of their calls
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
    role = scan.regions.construct[scan.regions.of_entry[np.maximum(entry, 0)]].astype(np.int8)
    meanings = _meanings(scan.begins, role)
    sizes = len(meanings.change), len(TABLES), len(CONSTRUCTS), N_AROUND, kernels.N_STATE
    scratch = kernels.Scratch(*(np.zeros(size, np.int64) for size in sizes))
    kernels.find_first_gaps(times, happening, meanings, scratch, found)
    if not only_teams:
        n_calls, of_threads = counted[:, CALLS], counted[:, TABLES["threads"]]
        of_threads[:] = _rows_of_threads(store, location, calls.enter, n_calls, of_threads)
    return found


def _rows_of_threads(store: Store, location: int, enter: Ints, n_calls: Ints, n_of_teams: Ints) -> Ints:
    """Count the rows of the side table of threads before moments, if it has events that are not attributed: those of
    created threads, each of which belongs to the window of its call."""
    rows = store.read("threads", location, ["row", "kind"])
    of_teams = np.append(rows["row"][KEPT[rows["kind"]]], LAST)
    next_enter = np.append(np.minimum.accumulate(enter[::-1])[::-1], LAST)
    return np.searchsorted(rows["row"], np.minimum(next_enter[n_calls], of_teams[n_of_teams]))


def _locks_are_held(store: Store, location: int, kind: NDArray[np.uint8]) -> bool:
    """Return whether a location releases only locks that it holds."""
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
    # number of holds of the preceding locks, which is not negative either if all releases are valid
    return bool((held >= np.maximum.accumulate(np.where(is_first, before, 0))).all()) and int(held.min()) >= 0


def _begin_here(store: Store, location: int, kind: NDArray[np.uint8], column: str, start: Mask, end: Mask) -> bool:
    """Return whether all requests, or messages found by probes, that end on a location also begin there."""
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
