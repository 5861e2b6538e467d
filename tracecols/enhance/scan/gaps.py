"""Moments at which nothing is open on a location: no call instance, no team, no request.

Where such moments of all threads of a process meet, its events can be divided into windows that steps look at one after
the other (`enhance.scan.windows`): whatever belongs together is on the same side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.grouping import mask_of, pair_with_previous
from tracecols.enhance.scan.teams import IS_FORK, IS_JOIN
from tracecols.kernels import stacks
from tracecols.schema import KINDS
from tracecols.schema import EventKind as K
from tracecols.store import Store

WINDOW_EVENTS = 1 << 19
"""Events of a process that are looked at together, about; a process with fewer than twice as many is one window."""

EVENT_BYTES, LEAST_EVENTS = 400, 1 << 14
"""Bytes of memory that a task takes for each event of its window, about (200 of a generated hybrid program, of which
windows differ in size); events of a window, at least, however little memory there is."""

SAMPLES = 16
"""Moments for each window that are tried as its end."""

LOOKED_AT = 512, 64
"""Ends of call instances, and of teams, after a sample that are tried."""

TOGETHER = 1 << 10
"""Samples that are looked at together."""

STARTS = mask_of((K.MPI_ISEND, K.MPI_IRECV_REQUEST, K.MPI_IMRECV_REQUEST))
ENDS = mask_of((K.MPI_ISEND_COMPLETE, K.MPI_IRECV, K.MPI_IMRECV, K.MPI_REQUEST_CANCELLED))

CALLS, EVENTS, BEGINS, *_OF_TABLES = range(7)
"""What is counted before a moment: call instances, attributed events, begins in teams, rows of side tables."""

TABLES = dict(zip(("threads", "p2p", "collectives", "locks"), _OF_TABLES, strict=True))
"""Side tables of which windows have some rows."""

_UNDIVIDED = {k.number for k in KINDS if k.family in ("rma", "tasks") or k.name.startswith("NON_BLOCKING")}
_TEAMS = {
    int(k) for k in (K.THREAD_FORK, K.THREAD_JOIN, K.OMP_FORK, K.OMP_JOIN, K.THREAD_TEAM_BEGIN, K.THREAD_TEAM_END)
}
UNDIVIDED = _UNDIVIDED | {k.number for k in KINDS if k.family == "threads"} - _TEAMS | {int(K.MPI_PROBE)}
"""Kinds of events that may concern others long before or after: where there are any, processes are not divided."""

_OF_TABLE = {name: mask_of(k.number for k in KINDS if k.family == name) for name in TABLES}

FIRST, LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


IS_LOCK, IS_ACQUIRE = _OF_TABLE["locks"], mask_of((K.THREAD_ACQUIRE_LOCK, K.OMP_ACQUIRE_LOCK))


class Gaps(NamedTuple):
    """For each of some times the first moment after it at which nothing is open on a location.

    Attributes
    ----------
    begin, end : (n,) int64
        Ticks between which it lies; the begin is not the smaller one where there is none.
    counted : (n, 7) int64
        What the location has before it: `CALLS`, `EVENTS`, `BEGINS`, and rows of `TABLES`.
    teams : (n,) int64
        Sum of the marks (`Teams.marks_of`) of the begins before it.
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    counted: NDArray[np.int64]
    teams: NDArray[np.int64]


def can_be_divided(store: Store) -> bool:
    """Return whether processes of a trace can be divided into windows."""
    return not UNDIVIDED & {int(kind) for kind in store.manifest["events_by_kind"]}


def window_events(memory: int | None) -> int:
    """Return how many events of a process are looked at together, about, by a task with so many bytes of memory."""
    if memory is None:
        return WINDOW_EVENTS
    return min(WINDOW_EVENTS, max(memory // EVENT_BYTES, LEAST_EVENTS))


def sample_times(store: Store, n_events: int, memory: int | None = None) -> NDArray[np.int64]:
    """Return the times after which a process may be divided; (n_samples,) int64, none for short processes.

    Parameters
    ----------
    n_events : int
        Events of the process.
    memory : int, optional
        Bytes for a task that looks at a window.
    """
    n = n_events // window_events(memory)
    if n < 2 or not can_be_divided(store):
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
    marks: NDArray[np.int64],
) -> Gaps | None:
    """Find moments at which nothing is open on a location; None if its events are not in order.

    Parameters
    ----------
    times : (n,) int64
        Ascending.
    calls, attributed
        All of the location.
    is_begin : (256,) bool
        Kinds of events that begin teams, for all threads of its process if they are FORKs.
    marks : (n_begins,) int64
        Of its begins in teams (`Teams.marks_of`); nothing where FORKs begin teams.
    """
    is_open = _open_at(store, location, attributed.kind)
    if is_open is None or location in store.decreases:
        return None
    # the earliest that begins from a call instance on, and the latest that ends before it
    enter = np.append(np.minimum.accumulate(calls.enter_time[::-1])[::-1], LAST)
    leave = np.append(FIRST, np.maximum.accumulate(np.where(calls.exit >= 0, calls.exit_time, LAST)))
    events = np.concatenate([[FIRST], attributed.time, [LAST]])
    team_end = attributed.time[IS_JOIN[attributed.kind] | (attributed.kind == K.THREAD_TEAM_END)]
    begin, end, n_calls, n_events = np.empty((4, times.size), np.int64)
    for at in range(0, times.size, TOGETHER):
        some = slice(at, at + TOGETHER)
        own = times[some]
        tried = np.concatenate([own[:, None], _after(leave, own, LOOKED_AT[0]), _after(team_end, own, LOOKED_AT[1])], 1)
        before, events_before = (
            np.searchsorted(enter[:-1], tried, "right"),
            np.searchsorted(events[1:-1], tried, "right"),
        )
        begins, ends = (
            np.maximum(leave[before], events[events_before]),
            np.minimum(enter[before], events[events_before + 1]),
        )
        is_gap = (begins <= tried) & (tried < ends) & (ends > own[:, None]) & ~is_open[events_before]
        begins[~is_gap] = LAST
        chosen = np.arange(own.size), begins.argmin(axis=1)
        begin[some], end[some], n_calls[some], n_events[some] = (
            a[chosen] for a in (begins, ends, before, events_before)
        )
    n_begins = _before(is_begin[attributed.kind], n_events)
    counted = [n_calls, n_events, n_begins, *(_before(mask[attributed.kind], n_events) for mask in _OF_TABLE.values())]
    teams = np.append(0, np.cumsum(marks))[n_begins] if marks.size else np.zeros(times.size, np.int64)
    return Gaps(begin, end, np.stack(counted, axis=1), teams)


def _after(values: NDArray[np.int64], times: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return for each time some of the ascending values after it; (n_times, n) int64."""
    if not values.size:
        return np.full((times.size, 1), LAST)
    at = np.searchsorted(values, times)[:, None] + np.arange(min(n, values.size))
    return values[np.minimum(at, values.size - 1)]


def _before(mask: NDArray[np.bool_], n: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count how many of the first n are marked; of the same shape as n."""
    return np.searchsorted(np.flatnonzero(mask), n)


def _held_before(lock: NDArray[np.int64], is_acquire: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """Return how many locks a location holds after each of its events of locks; None if it releases what it does not
    hold."""
    change = np.where(is_acquire, 1, -1)
    by_lock = np.argsort(lock, kind="stable")
    held = np.cumsum(change[by_lock])
    is_first = np.diff(lock[by_lock], prepend=~lock[by_lock[:1]]) != 0
    before = np.where(is_first, held - change[by_lock], 0)
    # what is held of the locks in front, which is never negative either if all goes well
    if (held < np.maximum.accumulate(np.where(is_first, before, 0))).any() or held.min(initial=0) < 0:
        return None
    return np.cumsum(change)


def _open_at(store: Store, location: int, kind: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """Say before which attributed events, and at the end, teams or requests are open; (n + 1,) bool, None if that is
    not known."""
    is_open = np.zeros(kind.size + 1, bool)
    begins = (IS_FORK[kind], IS_JOIN[kind]), (kind == K.THREAD_TEAM_BEGIN, kind == K.THREAD_TEAM_END)
    for begin, end in begins:
        if begin.any() or end.any():
            is_open[1:] |= np.cumsum(begin.astype(np.int8) - end.astype(np.int8), dtype=np.int64) != 0
    of_locks = np.flatnonzero(IS_LOCK[kind])
    if of_locks.size:
        lock = store.read("locks", location, ["lock"])["lock"].astype(np.int64)
        held = _held_before(lock, IS_ACQUIRE[kind[of_locks]]) if lock.size == of_locks.size else None
        if held is None:
            return None
        is_open[1:] |= np.append(0, held)[np.cumsum(IS_LOCK[kind])] != 0
    starts, ends = STARTS[kind], ENDS[kind]
    if not (starts.any() or ends.any()):
        return is_open
    of_table = np.flatnonzero(_OF_TABLE["p2p"][kind])
    request = store.read("p2p", location, ["request"])["request"]
    starts, ends = starts[of_table], ends[of_table]
    if request.size != of_table.size:
        return None
    of_request = np.flatnonzero(starts | ends)
    partner = pair_with_previous(request[of_request].astype(np.int64), starts[of_request], ends[of_request])
    if (partner[ends[of_request]] < 0).any():
        return None
    change = np.zeros(kind.size, np.int64)
    change[of_table] = starts.astype(np.int64) - ends
    is_open[1:] |= np.cumsum(change) != 0
    return is_open
