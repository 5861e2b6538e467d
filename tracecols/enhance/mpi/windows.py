"""One-sided communication: collective operations on windows, and the epochs of general active target synchronisation.

Scope: all locations at once. Equality joins on (window, k), and on (window, origin, target, k) for access and exposure
epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.columns import Columns, CompoundTable, pick
from tracecols.enhance.dataflow.grouping import (
    Segments,
    combine,
    join_occurrences,
    latest_before,
    lookup,
    mask_of,
    number,
    occurrence,
    pair_with_previous,
    pairs_of,
    positions,
    ranges,
)
from tracecols.enhance.dataflow.steps import GLOBAL, step
from tracecols.enhance.definitions.numbering import Numbered
from tracecols.enhance.definitions.regions import Regions
from tracecols.enhance.mpi.operation_waits import BY_ACCESS, BY_COMPLETE, BY_START, NOTHING
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.instances import CallInstances, attributed_events
from tracecols.enhance.scan.location_scan import LocationScan
from tracecols.schema import EventKind as K
from tracecols.schema.compound import EPOCHS, LOCK_EPOCHS, RMA_OPERATIONS, WINDOW_MEMBERS
from tracecols.schema.enums import GROUPS_OF_LOCATIONS
from tracecols.store import Store
from tracecols.store.arrow import to_numpy
from tracecols.vectors import Ints, Mask, offsets_of

START, COMPLETE, POST, WAIT, TEST = range(5)
_ROLES = {
    "mpi_win_start": START,
    "mpi_win_complete": COMPLETE,
    "mpi_win_post": POST,
    "mpi_win_wait": WAIT,
    "mpi_win_test": TEST,
}
SYNCHRONIZES = mask_of((K.RMA_COLLECTIVE_END, K.RMA_GROUP_SYNC, K.RMA_REQUEST_LOCK, K.RMA_RELEASE_LOCK))
"""Kinds that begin or end an epoch."""

LOCKS = mask_of((K.RMA_REQUEST_LOCK, K.RMA_ACQUIRE_LOCK, K.RMA_RELEASE_LOCK))
"""Kinds of events about locks."""

ACCESSES = mask_of((K.RMA_PUT, K.RMA_GET, K.RMA_ATOMIC))
"""Kinds of events that access windows."""


@step(GLOBAL, "window_members")
def match_window_collectives(
    facts: Facts,
    scans: Sequence[LocationScan],
    members: Ints,
    call_instances: CallInstances,
    rma_operations: CompoundTable,
) -> CompoundTable:
    """Build the table of the participants of collective operations that create, free or fence windows."""
    e = attributed_events(facts, scans, members, call_instances, "rma", ["window", "op", "root", "sent", "received"])
    # operations on undefined windows are not joined
    undefined = mask_of((K.RMA_COLLECTIVE_END, K.RMA_GROUP_SYNC))[e.kind] & (e.window < 0)
    end = np.flatnonzero((e.kind == K.RMA_COLLECTIVE_END) & (e.window >= 0))
    location, window, call = e.location[end], e.window[end], e.call[end]
    process = facts.process[location]
    by_time = facts.order.argsort(e.row[end], e.time[end], process)
    k = occurrence(combine(process, window), by_time)
    k = facts.numbering.number(Numbered.WINDOW, k, process, window)
    communicator = to_numpy(facts.store.definitions["windows"].column("communicator"))
    # on MPI_COMM_SELF, each process has a separate window
    channel = facts.communicators.channel(pick(communicator, window), process)
    segments, head = Segments.of(combine(window, channel, k))
    instance, n = segments.group, head.size
    enter = pick(call_instances.enter_time, call)
    call_path = pick(call_instances.call_path, call)
    rank = facts.order.rank(e.row[end], e.time[end])
    first = np.empty(n, np.int64)
    order = np.argsort(rank)[::-1]
    first[instance[order]] = order
    size = facts.communicators.size_of(communicator[window[head]])
    complete = segments.count() == size
    rank_of = facts.communicators.rank_of(communicator[window], process)
    root = e.root[end].astype(np.int64)
    is_root = (root >= 0) & (rank_of == root)
    never = np.iinfo(np.int64).min
    root_enter = segments.max(np.where(is_root & complete[instance], enter, never))
    last_access = _last_accesses(facts, rma_operations, e, end, k)
    return CompoundTable(
        WINDOW_MEMBERS,
        end.size,
        {
            "operation": instance,
            "window": window,
            "op": e.op[end].astype(np.int16),
            "is_root": is_root,
            "location": location,
            "end": e.row[end],
            "enter_time": enter,
            "exit_time": pick(call_instances.exit_time, call),
            "latest_enter_time": np.where(complete, segments.max(enter), -1)[instance],
            "root_enter_time": np.where(root_enter > never, root_enter, -1)[instance],
            "last_access_time": last_access,
            "call_path": call_path,
            "first_call_path": call_path[first][instance],
        },
        {
            "operations on windows that lack participants": int((~complete).sum()),
            "operations on undefined windows": int(undefined.sum()),
        },
    )


def _latest_of(group: Ints, time: Ints, n: int) -> Ints:
    """Return the latest time of each of `n` groups, -1 for those without times; times may be negative."""
    segments = Segments(group, n)
    return np.where(segments.count() > 0, segments.max(time), -1)


def _last_accesses(facts: Facts, operations: CompoundTable, e: Columns, end: Ints, k: Ints) -> Ints:
    """Find when others last accessed each participant of a window operation since the previous one; -1 never.

    `end` are the events among `e` that end the operation at the participants, `k` its numbers on the window.
    """
    known = np.flatnonzero(operations.is_fenced & (operations.target >= 0) & (operations.exit_time != -1))
    if not end.size or not known.size:
        return np.full(end.size, -1, np.int64)
    place, process, window = _by_process(facts, e), facts.process[e.location[end]], e.window[end]
    origin = facts.process[operations.location[known]].astype(np.int64)
    of, target = operations.window[known].astype(np.int64), operations.target[known].astype(np.int64)
    n = end.size
    key = combine(np.concatenate([process, origin]), np.concatenate([window, of]))
    accessed = place[np.searchsorted(e.row, operations.event[known])]
    before = latest_before(key[:n], place[end], key[n:], accessed)
    first = facts.numbering.number(Numbered.WINDOW, np.zeros(known.size, np.int64), origin, of)
    number_of = np.where(before >= 0, pick(k, before) + 1, first)
    remote = origin != target
    keys = combine(
        np.concatenate([process, target[remote]]),
        np.concatenate([window, of[remote]]),
        np.concatenate([k, number_of[remote]]),
    )
    at = lookup(keys[:n], keys[n:])
    return _latest_of(at[at >= 0], operations.exit_time[known][remote][at >= 0], n)


def _by_process(facts: Facts, e: Columns) -> Ints:
    """Number events by process in order of time: the threads of a process share its windows."""
    return positions(facts.order.argsort(e.row, e.time, facts.process[e.location]))


@step(GLOBAL, "rma_operations")
def list_rma_operations(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, call_instances: CallInstances
) -> CompoundTable:
    """Build the table of accesses to windows between hosts; copies of devices are in `copies`."""
    e = attributed_events(facts, scans, members, call_instances, "rma", ["window", "remote", "sent", "received"])
    of_hosts = np.append(host_windows(facts), True)
    at = np.flatnonzero(ACCESSES[e.kind] & of_hosts[e.window])
    at = at[~facts.locations.is_device[e.location[at]]]
    location = e.location[at]
    own = facts.process[location]
    communicator = pick(to_numpy(facts.store.definitions["windows"].column("communicator")), e.window[at])
    target = facts.communicators.process_of(communicator, e.remote[at].astype(np.int64), own)
    # accesses after a collective operation on their window belong to fences, not to other epochs
    sync = np.flatnonzero(SYNCHRONIZES[e.kind] & (e.window >= 0))
    both = np.concatenate([sync, at])
    key, place = combine(facts.process[e.location[both]], e.window[both]), _by_process(facts, e)
    last = latest_before(key[: sync.size], place[sync], key[sync.size :], place[at])
    is_fenced = pick(e.kind[sync].astype(np.int64), last) == K.RMA_COLLECTIVE_END
    none = np.zeros(at.size, np.int64)
    is_fenced |= (last < 0) & (facts.numbering.number(Numbered.FENCED, none, own, e.window[at]) > 0)
    return CompoundTable(
        RMA_OPERATIONS,
        at.size,
        {
            "event": e.row[at],
            "window": e.window[at].astype(np.int32),
            "location": location,
            "target": target.astype(np.int32),
            "sent": np.maximum(e.sent[at], 0),
            "received": np.maximum(e.received[at], 0),
            "enter_time": pick(call_instances.enter_time, e.call[at]),
            "exit_time": pick(call_instances.exit_time, e.call[at]),
            "call_path": pick(call_instances.call_path, e.call[at]).astype(np.int32),
            "is_fenced": is_fenced,
        },
    )


def host_windows(facts: Facts) -> Mask:
    """Return a mask of the windows that do not belong to devices; (n_windows,) bool."""
    d = facts.store.definitions
    members = d["communicators"].column("members").to_pylist()
    streams = set(np.flatnonzero(facts.locations.is_device).tolist())
    has_streams = [not streams.isdisjoint(m) for m in members]
    of = d["windows"].column("communicator").to_pylist()
    return np.array([not (0 <= c < len(members) and has_streams[c]) for c in of], bool)


@step(GLOBAL, "lock_epochs")
def match_lock_epochs(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, call_instances: CallInstances
) -> CompoundTable:
    """Build the table of passive access epochs: the k-th request and the k-th release of an origin at a target."""
    e = attributed_events(facts, scans, members, call_instances, "rma", ["window", "remote", "lock", "lock_type"])
    held = np.flatnonzero((e.window >= 0) & (e.call >= 0) & LOCKS[e.kind])
    held = held[np.argsort(_by_process(facts, e)[held])]
    region = facts.call_paths.region[call_instances.call_path[e.call[held]]]
    lock, unlock, is_shared = pair_locks(facts.regions, e.take(held), region, facts.process[e.location[held]])
    remote = np.where(is_shared, -1, e.remote[held].astype(np.int64))
    which = np.where(is_shared, e.lock[held], 0)
    which, remote, unlock, lock = which[lock], remote[lock], held[unlock], held[lock]
    window, location = e.window[lock], e.location[lock]
    own = facts.process[location]
    communicator = pick(to_numpy(facts.store.definitions["windows"].column("communicator")), window)
    target = facts.communicators.process_of(communicator, remote, own)
    is_exclusive = e.lock_type[lock] == 0
    release, place = e.time[unlock], facts.order.rank(e.row[unlock], e.time[unlock])
    # the last conflicting release before the own one: any release, or for a shared lock that of an exclusive lock
    of_lock = combine(window, target, which)
    previous = np.full(lock.size, -1, np.int64)
    for mask, others in ((is_exclusive, np.ones(lock.size, bool)), (~is_exclusive, is_exclusive)):
        to, of = np.flatnonzero(mask), np.flatnonzero(others)
        found = latest_before(of_lock[of], place[of], of_lock[to], place[to] - 1)
        previous[to] = pick(of, found)
    released, (enter, exit) = pick(release, previous), (call_instances.enter_time, call_instances.exit_time)
    # an MPI library may acquire the lock as late as in the call that unlocks
    is_late = (target >= 0) & (np.minimum(released, exit[e.call[unlock]]) > enter[e.call[unlock]])
    return CompoundTable(
        LOCK_EPOCHS,
        lock.size,
        {
            "window": window.astype(np.int32),
            "location": location,
            "unlock_location": e.location[unlock],
            "target": target.astype(np.int32),
            "lock": which,
            "is_exclusive": is_exclusive,
            **call_instances.columns_of("lock", e.call[lock]),
            **call_instances.columns_of("unlock", e.call[unlock]),
            "request": e.row[lock],
            "release": e.row[unlock],
            "release_time": release,
            "previous_release_time": released,
            "previous_release": pick(e.row[unlock], previous),
            "wait_enter_time": enter[e.call[np.where(is_late, unlock, lock)]],
        },
    )


def pair_locks(
    regions: Regions, e: Columns, region: NDArray[np.int32], process: NDArray[np.signedinteger[Any]]
) -> tuple[Ints, Ints, Mask]:
    """Pair the events that take and release locks of windows, among events of `LOCKS` by process in order of time: any
    thread of a process may release what another one has taken. Returns both, and a mask of the events on locks that no
    process owns, those of SHMEM.

    `region` has the region of the call of each event, `process` its process. Locks that are never released are skipped.
    """
    # locks of SHMEM belong to no process: they are distinguished by their numbers, and recorded when they are taken
    is_shared = np.append(regions.paradigm == "shmem", False)[region]
    takes = (e.kind == K.RMA_REQUEST_LOCK) | ((e.kind == K.RMA_ACQUIRE_LOCK) & is_shared)
    gives = e.kind == K.RMA_RELEASE_LOCK
    mine = np.flatnonzero((takes | gives) & ((e.remote >= 0) | is_shared))
    of = is_shared[mine]
    key = combine(
        process[mine], e.window[mine], np.where(of, -1, e.remote[mine].astype(np.int64)), np.where(of, e.lock[mine], 0)
    )
    lock, unlock = pairs_of(pair_with_previous(key, takes[mine], gives[mine]), takes[mine])
    return mine[lock], mine[unlock], is_shared


@step(GLOBAL, "epochs")
def match_epochs(
    facts: Facts, scans: Sequence[LocationScan], members: Ints, call_instances: CallInstances
) -> CompoundTable:
    """Build the table of access epochs, with one row for each exposure epoch that an epoch accesses."""
    e = attributed_events(facts, scans, members, call_instances, "rma", ["window", "group", "level"])
    sync = np.flatnonzero((e.kind == K.RMA_GROUP_SYNC) & (e.call >= 0) & (e.window >= 0))
    place = _by_process(facts, e)
    sync = sync[np.argsort(place[sync])]
    enter, leave, call_path = (
        pick(column, e.call)
        for column in (call_instances.enter_time, call_instances.exit_time, call_instances.call_path)
    )
    region = facts.call_paths.region[call_path[sync]]
    key = combine(facts.process[e.location[sync]], e.window[sync])
    epochs = pair_epochs(facts.regions, region, e.level[sync], key)
    (start, complete), (post, wait) = ((sync[begins], sync[ends]) for begins, ends in epochs)
    position = np.zeros(e.row.size, np.int64)
    position[sync] = facts.order.rank(e.row[sync], e.time[sync])
    access, exposure, is_complete = _meet(facts, e, start, post, position[complete])
    last = position[wait]
    np.maximum.at(last, exposure, position[complete][access])
    epoch, accesses = _accesses(e, place, start, complete)
    posted = enter[post][exposure]
    held_by, held = _held(enter, leave, (start, complete, epoch, accesses), access, posted)
    transfers = e.kind[accesses] != K.RMA_ATOMIC
    last_access = _latest_of(epoch, leave[accesses], start.size)
    last_transfer = _latest_of(epoch[transfers], leave[accesses][transfers], start.size)
    return CompoundTable(
        EPOCHS,
        access.size,
        {
            "window": e.window[start][access],
            "origin": e.location[start][access],
            "target": e.location[post][exposure],
            "exposure": exposure,
            "post_enter_time": posted,
            "wait_enter_time": enter[wait][exposure],
            "wait_exit_time": leave[wait][exposure],
            "wait_call_path": call_path[wait][exposure],
            "start_enter_time": enter[start][access],
            "complete_enter_time": enter[complete][access],
            "complete_call_path": call_path[complete][access],
            "last_access_time": last_access[access],
            "last_transfer_time": last_transfer[access],
            "held_by": held_by,
            "held_time": posted - np.where(held >= 0, enter[held], posted),
            "held_call_path": pick(call_path, held),
            "posted_in": np.where(held >= 0, enter[held], posted),
            "is_complete": is_complete,
            "completed_by": last[exposure],
            "post": e.row[post][exposure],
            "post_call_path": call_path[post][exposure],
            "wait": e.row[wait][exposure],
            "complete": e.row[complete][access],
            "held": pick(e.row, held),
            "held_exit_time": np.where(held >= 0, leave[held], posted),
            "wait_location": e.location[wait][exposure],
            "complete_location": e.location[complete][access],
            "held_location": np.where(held >= 0, e.location[held], e.location[start][access]),
        },
        {"exposure epochs that lack access epochs": int(post.size - number(exposure[is_complete])[1].size)},
    )


Pairs = tuple[Ints, Ints]
"""Events that begin epochs, and events that end them."""


def pair_epochs(regions: Regions, region: NDArray[np.int32], level: Ints, key: Ints) -> tuple[Pairs, Pairs]:
    """Find the group synchronisations that begin and end access epochs and exposure epochs.

    Synchronisations are by process in order of time; `region` is the region of the call of each, `level` its
    synchronisation level, and `key` combines process and window. Epochs that do not end are skipped.
    """
    role_of = np.array([_ROLES.get(n, -1) for n in regions.lower] + [-1], np.int64)
    role = role_of[region]
    # a test that has not completed the epoch does not end it
    role = np.where((role == TEST) & (level <= 0), -1, np.where(role == TEST, WAIT, role))
    begins = ((START, COMPLETE), (POST, WAIT))
    access, exposure = (pairs_of(pair_with_previous(key, role == a, role == b), role == a) for a, b in begins)
    return access, exposure


class GroupMembers:
    """The members of groups of locations; other groups have none. `size` has the number of members; its last element is
    for no group."""

    def __init__(self, store: Store, process: NDArray[np.int32]) -> None:
        groups = store.definitions["groups"]
        kinds, members = groups.column("type").to_pylist(), groups.column("members").to_pylist()
        found = [m if kind in GROUPS_OF_LOCATIONS else [] for kind, m in zip(kinds, members, strict=True)]
        self.size = np.array([len(m) for m in found] + [0], np.int64)
        self._start = offsets_of(self.size[:-1])
        self._process = pick(process, np.array([m for group in found for m in group], np.int64)).astype(np.int64)

    def each(self, group: Ints) -> tuple[Ints, Ints]:
        """Return for every member of some groups the position in `group`, and the process of the member."""
        n = np.where(group >= 0, self.size[group], 0)
        at = ranges(self._start[np.where(group >= 0, group, 0)], n)
        return np.repeat(np.arange(group.size), n), self._process[at]


def _meet(facts: Facts, e: Columns, start: Ints, post: Ints, completed: Ints) -> tuple[Ints, Ints, Mask]:
    """Join the k-th access epoch of an origin at a target with the target's k-th exposure epoch for that origin. Return
    the epochs of each pair, and whether all access epochs of its exposure epoch are found; the access epochs of an
    exposure epoch are in the order in which they were completed."""
    members = GroupMembers(facts.store, facts.process)
    access, target = members.each(e.group[start].astype(np.int64))
    exposure, origin = members.each(e.group[post].astype(np.int64))
    own_access = pick(facts.process[e.location[start]], access).astype(np.int64)
    own_exposure = pick(facts.process[e.location[post]], exposure).astype(np.int64)
    window = np.concatenate([e.window[start][access], e.window[post][exposure]]).astype(np.int64)
    n = access.size
    key = combine(window, np.concatenate([own_access, origin]), np.concatenate([target, own_exposure]))
    if facts.numbering:
        numbers = [
            facts.numbering.number(Numbered.ACCESS, occurrence(key[:n]), own_access, target, window[:n]),
            facts.numbering.number(Numbered.EXPOSURE, occurrence(key[n:]), own_exposure, origin, window[n:]),
        ]
        key = combine(key, np.concatenate(numbers))
    left = join_occurrences(key[:n], key[n:])
    right = np.flatnonzero(left >= 0)
    access, exposure = access[left[right]], exposure[right]
    order = np.lexsort((completed[access], exposure))
    access, exposure = access[order], exposure[order]
    is_complete = np.bincount(exposure, minlength=post.size) == members.size[e.group[post]]
    return access, exposure, is_complete[exposure]


def _accesses(e: Columns, place: Ints, start: Ints, complete: Ints) -> tuple[Ints, Ints]:
    """Find the events that access windows, given the numbers of all events by process in order of time. Return the
    access epoch of each, and the events."""
    is_access = ACCESSES[e.kind] & (e.call >= 0)
    epochs, found = [], []
    for window in distinct(e.window[start]).tolist():
        mine = np.flatnonzero(e.window[start] == window)
        mine = mine[np.argsort(place[start[mine]])]
        # a get without a window belongs to the epoch in which it lies
        at = np.flatnonzero(is_access & ((e.window == window) | (e.window < 0)))
        before = np.searchsorted(place[start[mine]], place[at]) - 1
        inside = (before >= 0) & (place[at] < place[complete[mine]][before])
        epochs.append(mine[before[inside]])
        found.append(at[inside])
    nothing = np.zeros(0, np.int64)
    return np.concatenate([*epochs, nothing]), np.concatenate([*found, nothing])


def _held(
    enter: Ints, leave: Ints, events: tuple[Ints, Ints, Ints, Ints], access: Ints, posted: Ints
) -> tuple[NDArray[np.int8], Ints]:
    """Find the first call of each access epoch that was in progress when the target posted: `BY_START`, `BY_ACCESS`,
    `BY_COMPLETE` or `NOTHING`, and the event in it, -1 none.

    `enter` and `leave` are those of the call of every event; `events` are the events that begin and that end access
    epochs, the epochs of accesses, and the accesses; `access` is the access epoch of each pair of epochs, and `posted`
    when its target posted.
    """
    start, complete, epoch, accesses = events
    by, held = np.full(access.size, NOTHING, np.int8), np.full(access.size, -1, np.int64)
    every = np.arange(access.size)
    order = np.lexsort((enter[accesses], epoch))[::-1]
    first, stop = (np.searchsorted(-epoch[order], -access, side) for side in ("left", "right"))
    of = order[ranges(first, stop - first)]
    # in reverse order: the first call of the epoch is written last
    for what, row, event in (
        (BY_COMPLETE, every, complete[access]),
        (BY_ACCESS, np.repeat(every, stop - first), accesses[of]),
        (BY_START, every, start[access]),
    ):
        going_on = (enter[event] <= posted[row]) & (posted[row] <= leave[event])
        by[row[going_on]], held[row[going_on]] = what, event[going_on]
    return by, held
