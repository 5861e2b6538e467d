"""Waits in MPI, their lengths and ends: the rules of Scalasca that wait-state patterns and root causes share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.dataflow.grouping import Segments
from tracecols.enhance.scan.facts import Facts
from tracecols.enhance.scan.region_rules import CONDITION, RegionRule, either, in_role, is_in, named, nothing
from tracecols.schema import enums
from tracecols.schema.enums import COLLECTIVE_OPS
from tracecols.vectors import Ints, Mask

MPI = named(".*", "mpi")
TEST = named("mpi_test(all|any|some)?", "mpi")
WAIT_FOR_SEVERAL = named("mpi_wait(all|some)", "mpi")
COMMUNICATORS = named(
    (
        "mpi_(cart_(coords|create|get|map|rank|shift|sub)|cartdim_get"
        "|comm_(accept|compare|connect|create(_from_group|_group|_keyval)?|delete_attr|disconnect|dup(_with_info)?|"
        "free(_keyval)?"
        "|get_(attr|info|name|parent)|group|idup|join|rank|remote_(group|size)|set_(attr|info|name)|size|"
        "spawn(_multiple)?"
        "|split(_type)?|test_inter)"
        "|dims_create|dist_graph_(create(_adjacent)?|neighbors(_count)?)|graph_(create|get|map|neighbors(_count)?)|"
        "graphdims_get"
        "|intercomm_(create(_from_groups)?|merge)|group_from_session_pset|session_get_(info|n(um|th)_psets?|"
        "pset_info)|topo_test|(close|open)_port|(lookup|publish|unpublish)_name)"
    ),
    "mpi",
)
WAIT_FOR_ONE = named("mpi_wait(any)?", "mpi")
BLOCKING_SEND = named("mpi_s?send", "mpi")
NCCL = named(".*", enums.NCCL)
"""Communication kernels."""

BARRIER = ("barrier",)
ONE_TO_N = ("bcast", "scatter", "scatterv")
N_TO_ONE = ("reduce", "gather", "gatherv")
N_TO_N = ("allgather", "allgatherv", "alltoall", "allreduce", "reduce_scatter", "reduce_scatter_block")
PAIRWISE = ("alltoallv", "alltoallw")
SCAN = ("scan", "exscan")
HANDLES = COLLECTIVE_OPS[COLLECTIVE_OPS.index("create_handle") :]
"""Operations that create or free communicators and the like, and that start and end MPI. Score-P records them since
version 8."""

CRITICAL = in_role(["critical", "critical_sblock"], "openmp")
OPENMP = named(".*", "openmp")
MUTEX = named("pthread_mutex_(lock|trylock)", "pthread")
LOCKING = either(OPENMP, MUTEX, CONDITION)

EARLY, LATE = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def largest_per_call(call: Ints, severity: Ints, last: bool = False) -> Ints:
    """Choose the element with the largest severity in each call, given by its ENTER row; of equal ones the first, or
    the last."""
    of, heads = Segments.of(call)
    largest = np.flatnonzero(severity == of.max(severity)[of.group])
    if not last:
        largest = largest[::-1]
    # of several values assigned to one element, the last one stays
    heads[of.group[largest]] = largest
    return np.sort(heads)


def wait_for_senders(
    facts: Facts,
    m: CompoundTable,
    calls: RegionRule = MPI,
    never: RegionRule = TEST,
    once: RegionRule | None = WAIT_FOR_SEVERAL,
    clipped: bool = True,
) -> tuple[Ints, Mask]:
    """Find the receives in a table of messages that wait because the messages are sent late.

    Receives may wait in `calls` except in `never`; in calls of `once` only the longest wait counts, of equal ones the
    first. Returns the ticks from the ENTER of the receiving call to that of the sending call, and whether they count.
    """
    late = m.send_enter_time
    if clipped:
        late = np.minimum(late, m.recv_exit_time)
    wait = np.where(m.recv_enter >= 0, late - m.recv_enter_time, 0)
    waits = (wait > 0) & is_in(facts, m.recv_call_path, calls) & ~is_in(facts, m.recv_call_path, never)
    if once is not None:
        rows = np.flatnonzero(waits & is_in(facts, m.recv_call_path, once))
        waits[rows] = False
        waits[rows[largest_per_call(m.recv_enter[rows], wait[rows])]] = True
    return wait, waits


def wait_for_receivers(
    facts: Facts,
    m: CompoundTable,
    single: RegionRule = either(BLOCKING_SEND, WAIT_FOR_ONE),  # noqa: B008
    several: RegionRule = WAIT_FOR_SEVERAL,
) -> tuple[Ints, Mask]:
    """Find the sends in `sent_messages` that wait because their receives are posted late.

    Calls of `single` complete one send, those of `several` may complete several. Returns the ticks from the ENTER of
    the call that completes the send to that of the call that posts the receive, if the former did not end before, and
    whether they count: only the largest of a call of `several`, and none if that call also waits for a late sender.
    """
    call_path = m.send_done_call_path
    wait = np.where(m.send_done_exit_time > m.recv_post_enter_time, m.recv_post_enter_time - m.send_done_enter_time, 0)
    done = (m.send_done_enter >= 0) & (wait > 0)
    waits = done & is_in(facts, call_path, single)
    # a call that waits for several operations waits for a late sender first
    rows = np.flatnonzero(done & is_in(facts, call_path, several))
    rows = rows[m.send_done_late[rows] == 0]
    waits[rows[largest_per_call(m.send_done_enter[rows], wait[rows], last=True)]] = True
    return wait, waits


def wait_for_sending_kernels(facts: Facts, m: CompoundTable) -> tuple[Ints, Mask]:
    """Find the kernels that wait because the kernels that send to them begin late; of several messages of a kernel, the
    longest wait counts. Arguments and results are as for `wait_for_senders`."""
    return wait_for_senders(facts, m, NCCL, nothing, NCCL)


def wait_for_receiving_kernels(facts: Facts, m: CompoundTable) -> tuple[Ints, Mask]:
    """Find the kernels that wait because the kernels that receive from them begin late; the longest wait of a kernel
    counts, and none if it waits for a sender. Arguments and results are as for `wait_for_receivers`."""
    return wait_for_receivers(facts, m, nothing, NCCL)


def wait_for_locks(facts: Facts, m: CompoundTable, since: str = "enter_time") -> tuple[Ints, Mask]:
    """Find the acquisitions in `lock_acquisitions` that wait until the previous owner releases the lock.

    `since` is the column with the begin of waiting: by default the ENTER of the call that acquires, even if the call
    first waits for a condition. Returns the ticks from then to the release (order 0 means no acquisition), and whether
    they count.
    """
    wait = np.where(m.has_previous & (m.acquisition > 1), m.previous_release_time - m[since], 0)
    return wait, (wait > 0) & (m.enter >= 0) & is_in(facts, m.call_path, LOCKING)


def wait_for_signals(m: CompoundTable) -> tuple[Ints, Mask]:
    """Find the acquisitions in `lock_acquisitions` that wait until another thread signals a condition. Returns the
    ticks from the ENTER of the waiting call to the signal, and whether they count."""
    wait = np.where(m.signal >= 0, m.signal_time - m.enter_time, 0)
    return wait, wait > 0


def wait_for_threads(m: CompoundTable) -> tuple[Ints, Mask]:
    """Find the joins in `created_threads` that wait for threads to end. Returns the end of the thread or of the joining
    call, whichever is earlier, and whether it is after the ENTER of the call."""
    until = np.minimum(m.join_exit_time, m.end_time)
    return until, (m.end >= 0) & (m.join_enter >= 0) & (until > m.join_enter_time)


def of_operations(collectives: CompoundTable, m: CompoundTable, ops: Iterable[str], on_device: bool = False) -> Mask:
    """Return a mask of the participants in `collective_members` of some operations on communicators of two or more
    members: kernels on streams (NCCL) if `on_device`, else calls of hosts (MPI)."""
    wanted = np.isin(collectives.op, [COLLECTIVE_OPS.index(o) for o in ops]) & (collectives.size > 1)
    # of the participants, as a damaged trace may have both kinds in one operation
    return wanted[m.collective] & (m.on_device == on_device)


def groups_that_wait(operation: Ints, group: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """Number the groups of participants of operations: `2 * operation`, and 1 more for the second group of an
    inter-communicator; if there are no inter-communicators, by operation. Returns the group of each participant, and
    the group that it waits for: the other one on an inter-communicator, else its own, which has all participants.
    """
    if (group < 0).all():
        return operation, operation
    own = 2 * operation + (group == 1)
    return own, own ^ (group >= 0)


def directions(operation: Ints, group: NDArray[np.int8]) -> tuple[Ints, Ints, Mask, Mask]:
    """List the participants of operations in which all may wait for all; those on inter-communicators twice, as the
    group that is waited for and as the group that waits.

    Returns the participants, the number of what each takes part in, and whether others wait for it there, and whether
    it waits.
    """
    own, awaited = groups_that_wait(operation, group)
    across = np.flatnonzero(group >= 0)
    row = np.concatenate([np.arange(operation.size), across])
    lets_wait = np.arange(row.size) < operation.size
    waits = np.append(group < 0, np.ones(across.size, bool))
    return row, np.concatenate([own, awaited[across]]), lets_wait, waits


class Participants:
    """Some participants of collective operations, and reductions over those of each operation.

    Parameters
    ----------
    m : CompoundTable
        `collective_members`.
    row : (n,) int64
        Rows of the participants.
    by_call : bool
        Whether participants begin and end with their calls, as in EXPERT, or with the operation.

    Attributes
    ----------
    row, begin, end, sent, received : (n,) int64
    is_root : (n,) bool
    rank : (n,) int32
    crosses : (n,) bool
        Whether the members of each group of an inter-communicator wait for those of the other group.
    segments : Segments
        By operation.
    """

    def __init__(self, m: CompoundTable, row: Ints, by_call: bool = False) -> None:
        self.row, self.by_call = row, by_call
        collective = m.collective[row]
        takes_part = np.zeros(int(collective.max(initial=-1)) + 1, bool)
        takes_part[collective] = True
        self.segments = Segments((np.cumsum(takes_part) - 1)[collective], int(takes_part.sum()))
        group = m.group[row]
        self.crosses = group >= 0
        own, self._awaited = groups_that_wait(self.segments.group, group)
        self._groups = Segments(own, 2 * self.segments.n_groups)
        begin, end = (m.enter_time, m.exit_time) if by_call else (m.begin_time, m.end_time)
        self.begin, self.end = begin[row], end[row]
        self.sent, self.received = m.sent[row], m.received[row]
        self.is_root, self.rank = m.is_root[row], m.rank[row]

    def wait(self, until: Ints) -> Ints:
        """Return the time from the begin to `until`, clipped to the end except for EXPERT."""
        return (until if self.by_call else np.minimum(until, self.end)) - self.begin

    def completion(self, waited: Ints, earliest_end: Ints) -> Ints:
        """Return the time to the end from the earliest end, or from the end of waiting if that is later; for EXPERT
        always from the earliest end, or from the begin on inter-communicators, which EXPERT does not know."""
        if self.by_call:
            return self.end - np.where(self.crosses, np.maximum(earliest_end, self.begin), earliest_end)
        return self.end - np.maximum(earliest_end, np.minimum(waited, self.end))

    def max(self, values: Ints) -> Ints:
        """Return the largest value in the operation of each participant."""
        return self.segments.max(values)[self.segments.group]

    def min(self, values: Ints) -> Ints:
        """Return the smallest value in the operation of each participant."""
        return self.segments.min(values)[self.segments.group]

    def any(self, mask: Mask) -> Mask:
        """Return whether a mask is true for any participant of the operation of each participant."""
        return self.segments.any(mask)[self.segments.group]

    def all_meet(self) -> Mask:
        """Return whether all participants of the operation of each participant were inside at the same time."""
        return self.min(self.end) > self.max(self.begin)

    def latest_begin(self, among: Mask) -> Ints:
        """Return the latest begin among some of the participants that each participant may wait for; its own begin,
        hence no wait, if that is later or there are none."""
        return np.maximum(self._groups.max(np.where(among, self.begin, EARLY))[self._awaited], self.begin)

    def earliest_begin(self, among: Mask) -> Ints:
        """Return the earliest begin among some of the participants that each participant may wait for; its own begin,
        hence no wait, if there are none."""
        first = self._groups.min(np.where(among, self.begin, LATE))[self._awaited]
        return np.where(first < LATE, first, self.begin)

    def latest(self, among: Mask) -> Ints:
        """Find the last to begin among some of the participants that each participant may wait for; ties go to the
        lowest rank; if there are none, the participant itself if another group waits for it, else -1."""
        last = self._groups.max(np.where(among, self.begin, EARLY))[self._groups.group]
        return self._lowest(among & (self.begin == last))

    def earliest(self, among: Mask) -> Ints:
        """Find the first to begin among some of the participants that each participant may wait for, as `latest`."""
        first = self._groups.min(np.where(among, self.begin, LATE))[self._groups.group]
        return self._lowest(among & (self.begin == first))

    def latest_of_lower_ranks(self) -> tuple[Ints, Ints]:
        """Find the rank that each participant of a scan waits for, as `waits.latest_of_lower_ranks` does."""
        return latest_of_lower_ranks(self.segments.group, self.rank, self.begin, self.sent > 0)

    def _lowest(self, among: Mask) -> Ints:
        """Find the one with the lowest rank among some of the participants that each participant may wait for; if
        there are none, the participant itself if another group waits for it, else -1."""
        at, of = np.arange(self.begin.size), self._groups
        lowest = of.min(np.where(among, self.rank, np.iinfo(np.int32).max))[of.group]
        found = of.min(np.where(among & (self.rank == lowest), at, at.size))
        result = found[self._awaited]
        return np.where(result < at.size, result, np.where(found[of.group] == at, at, -1))


def are_causes(cause: Ints, n: int | None = None) -> Mask:
    """Return a mask of the participants, by default as many as there are causes, that are the cause of any; -1 is
    none."""
    found = np.zeros(cause.size if n is None else n, bool)
    found[cause[cause >= 0]] = True
    return found


def latest_of_lower_ranks(operation: Ints, rank: NDArray[np.integer], begin: Ints, sends: Mask) -> tuple[Ints, Ints]:
    """Find the rank that each participant of scans (of any operations, numbered from 0) waits for: the last to begin
    among the sending ranks up to its own; ties go to the lowest rank.

    Returns the begin of that rank, and its position among the participants; if there is none, the begin and position of
    the participant itself.
    """
    n = begin.size
    order = np.lexsort((rank, operation))
    # a running maximum over ranks of the indices of begin times, which are small; n + 1 is added with every operation
    times, step = np.unique(np.where(sends, begin, EARLY), return_inverse=True)
    base = operation[order] * (n + 1)
    running = np.maximum.accumulate(step[order] + base)
    latest = np.empty(n, np.int64)
    latest[order] = times[running - base] if n else 0
    # the running maximum never decreases: the first element with its value is the one it comes from
    cause = np.empty(n, np.int64)
    cause[order] = order[np.searchsorted(running, running)]
    is_known = latest != EARLY
    return np.where(is_known, latest, begin), np.where(is_known, cause, np.arange(n))


def synchronised(c: Participants) -> tuple[Ints, Ints, Mask]:
    """Find the times until which participants of n-to-n operations wait: the latest begin of all that they may wait for
    if all were inside at the same time, else of those that send. Also returns the earliest end of those that
    synchronise, and their mask: all, else those that wait and the last that sends (of equal ones the lowest rank)."""
    overlap = c.all_meet()
    sends, receives = c.sent > 0, c.received > 0
    late_sender = np.where(receives, c.latest_begin(sends), c.begin)
    until = np.where(overlap, c.latest_begin(np.ones(sends.size, bool)), late_sender)
    takes_part = overlap | (c.begin < late_sender) | are_causes(c.latest(sends))
    takes_part &= c.any((c.sent > 0) | (c.received > 0))
    return until, c.min(np.where(takes_part, c.end, LATE)), takes_part
