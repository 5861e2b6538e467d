"""Follow the ownership of locks (thesis 3.15, 3.16).

A nested lock is acquired and released several times by its owner, and is free only after the outermost release. Score-P
gives all of these events one acquisition number. If a recorder counts each acquisition, those that an owner makes
before it has released the previous one belong together.

A wait for a condition releases the lock and acquires it again. The signal that ends the wait is not recorded; the last
signal of the process during the wait is assumed.

Scope: within a process. Joins on (process, lock) in order of time and on (process, lock, acquisition).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import Segments, combine, positions, preceding
from tracecols.enhance.dataflow.steps import WITHIN, step
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.gaps import IS_ACQUIRE
from tracecols.enhance.scan.instances import CallInstances, attributed_events
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.enhance.scan.region_rules import CONDITION, SIGNAL, is_in
from tracecols.schema.compound import LOCK_ACQUISITIONS
from tracecols.vectors import Ints, Mask


@step(WITHIN, "lock_acquisitions", "lockptr")
def match_locks(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, call_instances: CallInstances
) -> tuple[CompoundTable, tuple[Ints, Ints]]:
    """Build the table of lock acquisitions, and lockptr of all lock events as their rows and the rows they point to."""
    e = attributed_events(facts, scans, members, call_instances, "locks", ["lock", "acquisition"])
    process = facts.process[e.location]
    key = combine(process, e.lock)
    order = facts.order.argsort(e.row, e.time, key)
    before = preceding(key, order)
    lockptr, lockptr_time = pick(e.row, before), pick(e.time, before)
    is_acquire = IS_ACQUIRE[e.kind]
    # acquisitions that the source does not number are numbered here, from 1
    counted = np.cumsum(is_acquire[order])
    first = np.searchsorted(key[order], key[order])
    acquisition = np.empty(key.size, np.int64)
    acquisition[order] = counted - counted[first] + is_acquire[order[first]] if key.size else counted
    acquisition = np.where(e.acquisition >= 0, e.acquisition, acquisition)
    acquire = np.flatnonzero(is_acquire)
    own_release, previous_release = _find_releases(process, e.lock, acquisition, e.location, is_acquire, order)
    calls, call = call_instances, e.call[acquire]
    given_up = _given_up(facts, calls, e, acquire)
    signal = _find_signals(facts, calls, given_up, pick(calls.enter_time, call), e.time[acquire], e.location[acquire])
    table = CompoundTable(
        LOCK_ACQUISITIONS,
        acquire.size,
        {
            "process": process[acquire],
            "lock": e.lock[acquire],
            "acquisition": acquisition[acquire],
            "location": e.location[acquire],
            "acquire": e.row[acquire],
            "acquire_time": e.time[acquire],
            "release": pick(e.row, own_release),
            "release_time": pick(e.time, own_release),
            "previous_release_time": pick(e.time, previous_release),
            "previous_release": pick(e.row, previous_release),
            "previous_owner": pick(e.location, previous_release),
            "previous_call_path": lambda: pick(calls.call_path, pick(e.call, previous_release)),
            "released": _released(facts, calls, e, previous_release),
            "lockptr": lockptr[acquire],
            "lockptr_time": lockptr_time[acquire],
            "enter": lambda: pick(calls.enter, call),
            "enter_time": lambda: pick(calls.enter_time, call),
            "call_path": lambda: pick(calls.call_path, call),
            "signal": pick(calls.enter, signal),
            "signal_time": pick(calls.enter_time, signal),
            "signal_location": pick(calls.location, signal),
            "signal_call_path": pick(calls.call_path, signal),
            "lock_wait_time": np.where(signal >= 0, pick(calls.enter_time, signal), pick(calls.enter_time, call)),
            "has_previous": previous_release >= 0,
            "given_up": given_up,
            "signal_exit": pick(calls.exit, signal),
        },
        {"locks that were never released": _held_at_the_end(key[order], e.location[order], is_acquire[order])},
    )
    return table, (e.row, lockptr)


def lock_order(locks: CompoundTable) -> tuple[Ints, Ints]:
    """Find the release that each acquisition in `lock_acquisitions` had to wait for: row, -1 for none, and time.

    The release may be recorded later than the acquisition, by recorders that record it after the call or because clocks
    disagree.
    """
    order = np.lexsort((locks.acquire_time, locks.acquisition, locks.lock, locks.process))
    before = np.full(order.size, -1, np.int64)
    before[order[1:]] = order[:-1]
    released, time = np.append(locks.release, -1)[before], np.append(locks.release_time, -1)[before]
    has_previous = np.asarray(locks.has_previous, bool) & (released >= 0)
    # a release may be recorded after the next acquisition, but not after that acquisition has ended: in this case the
    # acquisition numbers are not those of one lock (std::thread), and the order in time is used
    until = np.where(locks.release >= 0, locks.release_time, np.iinfo(np.int64).max)
    numbered = has_previous & ((time <= locks.acquire_time) | (time < until))
    release = np.where(numbered, released, locks.lockptr)
    is_release = np.isin(release, locks.release) & (release >= 0)
    return np.where(is_release & has_previous, release, -1), np.where(numbered, time, locks.lockptr_time)


def _given_up(facts: Facts, calls: CallInstances, e: Columns, acquire: Ints) -> Ints:
    """Find the releases with which waits for conditions give up the locks that they then acquire again: the preceding
    event, if it is in the same call; (n_acquires,) int64 rows, -1 for none."""
    result = np.full(acquire.size, -1, np.int64)
    call = e.call[acquire]
    at = np.flatnonzero((acquire > 0) & (call >= 0) & is_in(facts, pick(calls.call_path, call), CONDITION))
    before = acquire[at] - 1
    kept = (e.call[before] == call[at]) & (e.lock[before] == e.lock[acquire[at]]) & ~IS_ACQUIRE[e.kind[before]]
    result[at[kept]] = e.row[before[kept]]
    return result


def _released(facts: Facts, calls: CallInstances, e: Columns, release: Ints) -> Ints:
    """Return the events at which locks are released: of waits for conditions the ENTER, since the wait begins with the
    release; (n,) int64 rows, -1 for none."""
    call = pick(e.call, release)
    waits = is_in(facts, pick(calls.call_path, call), CONDITION)
    return np.where(waits, pick(calls.enter, call), pick(e.row, release))


def _find_signals(
    facts: Facts, calls: CallInstances, given_up: Ints, since: Ints, until: Ints, location: NDArray[np.int32]
) -> Ints:
    """Find the last call that signals a condition during each wait, in the same process; call instances, -1 for none.

    `given_up` is -1 for acquisitions that are not waits for a condition; each wait lasts from `since` to `until`.
    """
    result = np.full(given_up.size, -1, np.int64)
    waits = np.flatnonzero(given_up >= 0)
    if not waits.size:
        return result
    signals = np.flatnonzero(is_in(facts, calls.call_path, SIGNAL) & (calls.exit >= 0))
    process = facts.process[np.concatenate([calls.location[signals], location[waits]])]
    time = np.concatenate([calls.enter_time[signals], until[waits]])
    is_wait = np.repeat([False, True], [signals.size, waits.size])
    # the thread that has reacquired the lock may signal in the same tick
    order = np.lexsort((~is_wait, time, process))
    last = np.maximum.accumulate(np.where(is_wait[order], -1, np.arange(order.size)))
    before = pick(order, last)[is_wait[order]]
    of = order[is_wait[order]]
    found = (before >= 0) & (process[before] == process[of])
    found &= time[before] > since[waits][of - signals.size]
    result[waits[of[found] - signals.size]] = signals[before[found]]
    return result


def _find_releases(
    process: NDArray[np.int32],
    lock: Ints,
    acquisition: Ints,
    location: NDArray[np.int32],
    is_acquire: Mask,
    order: Ints,
) -> tuple[Ints, Ints]:
    """Find the outermost release by the owner itself and by the previous owner; numbers of events, -1 for none. An
    owner that acquires its lock again has no previous owner.

    `order` sorts the events by lock and time.
    """
    n, acquire = acquisition.size, np.flatnonzero(is_acquire)
    if not acquire.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # `turn` numbers the pairs of lock and acquisition number in order
    _, number = np.unique(combine(process, lock), return_inverse=True)
    by_number = np.lexsort((acquisition, number))
    new_lock = starts_run(number[by_number])
    new = new_lock | starts_run(acquisition[by_number])
    turn = np.empty(n, np.int64)
    turn[by_number] = np.cumsum(new) - 1
    first = by_number[new]
    rank = positions(order)
    turns = Segments(turn, first.size)
    acquired = turns.min(np.where(is_acquire, rank, n))
    released = turns.max(np.where(is_acquire, -1, rank))
    owner = np.where(acquired < n, location[order[np.minimum(acquired, n - 1)]], -1)

    # turns with consecutive numbers; an owner that acquires a lock it has not released yet continues its own turn
    follows = ~new_lock[new] & np.append(False, np.diff(acquisition[first]) == 1)
    nests = follows & np.append(False, (owner[1:] == owner[:-1]) & (owner[1:] >= 0) & (released[:-1] > acquired[1:]))
    ownership = np.cumsum(~nests) - 1
    outermost = Segments(ownership, int(ownership[-1]) + 1).max(released)[ownership]
    outermost = np.where(outermost >= 0, order[outermost], -1)
    before = np.where(follows & ~nests, np.append(-1, outermost[:-1]), -1)
    of = turn[acquire]
    is_again = (location[acquire] == owner[of]) & (rank[acquire] > acquired[of])
    return outermost[of], np.where(is_again, -1, before[of])


def _held_at_the_end(key: Ints, location: NDArray[np.int32], is_acquire: Mask) -> int:
    """Count the locks held by threads at the end of the recording; the events are in order, lock by lock.

    A nested lock counts once however often it was acquired; the number of holds is never negative.
    """
    if not key.size:
        return 0

    def held(group: Ints, change: Ints) -> Ints:
        total = np.cumsum(change)
        begin = np.flatnonzero(starts_run(group))
        end = np.append(begin[1:], group.size) - 1
        lowest = np.minimum(total[begin] - change[begin], np.minimum.reduceat(total, begin))
        return total[end] - lowest

    change = np.where(is_acquire, 1, -1)
    lock = np.cumsum(starts_run(key)) - 1
    by_thread = np.lexsort((location, lock))
    thread = combine(lock, location)[by_thread]
    of_lock = lock[by_thread][starts_run(thread)]
    n_threads = np.bincount(of_lock, held(thread, change[by_thread]) > 0, minlength=int(lock[-1]) + 1)
    return int(np.minimum(held(lock, change), n_threads).sum())
