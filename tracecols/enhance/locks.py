"""Follow the ownership of locks (thesis 3.15, 3.16).

Scope: exchange, within a process. Joins on (process, lock) in order of time and on (process, lock, acquisition).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.compound import CompoundTable, pick
from tracecols.enhance.grouping import combine, lookup, mask_of
from tracecols.schema import EventKind as K
from tracecols.schema.compound import LOCK_ACQUISITIONS

if TYPE_CHECKING:
    from tracecols.enhance.model import Model


ACQUIRE = mask_of((K.THREAD_ACQUIRE_LOCK, K.OMP_ACQUIRE_LOCK))


def match_locks(model: Model) -> tuple[CompoundTable, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Build the table of lock acquisitions, and lockptr of all lock events: their rows and what they point to."""
    calls = model.calls
    e = model.notes("locks", ["lock", "acquisition"])
    process = model.process[e.location] if e.location.size else np.zeros(0, np.int32)
    key = combine(process, e.lock)
    order = model.order.argsort(e.row, e.time, key)
    same = key[order[1:]] == key[order[:-1]]
    lockptr = np.full(key.size, -1, np.int64)
    lockptr[order[1:][same]] = e.row[order[:-1][same]]
    lockptr_time = np.full(key.size, -1, np.int64)
    lockptr_time[order[1:][same]] = e.time[order[:-1][same]]

    is_acquire = ACQUIRE[e.kind]
    # where the source does not count acquisitions they are counted here, from 1
    counted = np.cumsum(is_acquire[order])
    first = np.searchsorted(key[order], key[order])
    acquisition = np.empty(key.size, np.int64)
    acquisition[order] = counted - counted[first] + is_acquire[order[first]] if key.size else counted
    acquisition = np.where(e.acquisition >= 0, e.acquisition, acquisition)
    acquire, release = np.flatnonzero(is_acquire), np.flatnonzero(~is_acquire)
    # acquisitions count from 0 or 1; the order before is this one's less one
    every = combine(process, e.lock, acquisition + 1)
    before = combine(
        *(np.concatenate([a, b]) for a, b in ((process, process), (e.lock, e.lock), (acquisition + 1, acquisition)))
    )
    own = lookup(every[release], every[acquire])
    previous = lookup(before[: key.size][release], before[key.size :][acquire])
    own_release, previous_release = pick(release, own), pick(release, previous)
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
            "lockptr": lockptr[acquire],
            "lockptr_time": lockptr_time[acquire],
            "enter": lambda: pick(calls.enter_row, e.call[acquire]),
            "enter_time": lambda: pick(calls.enter, e.call[acquire]),
            "call_path": lambda: pick(calls.call_path, e.call[acquire]),
            "has_previous": previous >= 0,
        },
        {"locks that were never released": _held_at_the_end(key[order], is_acquire[order])},
    )
    return table, (e.row, lockptr)


def _held_at_the_end(key: NDArray[np.int64], is_acquire: NDArray[np.bool_]) -> int:
    """Count how often locks are held when the recording ends, of their events in order; nothing is held less than not at all."""
    if not key.size:
        return 0
    change = np.where(is_acquire, 1, -1)
    held = np.cumsum(change)
    begin = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    end = np.append(begin[1:], key.size) - 1
    lowest = np.minimum(held[begin] - change[begin], np.minimum.reduceat(held, begin))
    return int((held[end] - lowest).sum())
