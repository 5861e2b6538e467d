"""Wait states of collective operations, and their numbers and volumes.

Times are those of the begin and end events of the operation. Communicators of size 1 and MPI_Alltoallv and -w are left
out, like operations that move no bytes (barriers excepted).

EXPERT takes the times of the calls instead, goes by the name of the region in which the operation is first completed, looks at
complete operations only, does not limit waiting by the end of the call, and does not know who moves bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.columns import CompoundTable, pick
from tracecols.enhance.grouping import Segments
from tracecols.enhance.model import Model
from tracecols.patterns.base import Family, Matches, RegionRule, called, region_of
from tracecols.patterns.mpi import BARRIERS
from tracecols.schema.enums import COLLECTIVE_OPS

FAMILY = Family("collective")
pattern = FAMILY.pattern

BARRIER = ("barrier",)
ONE_TO_N = ("bcast", "scatter", "scatterv")
N_TO_ONE = ("reduce", "gather", "gatherv")
N_TO_N = ("allgather", "allgatherv", "alltoall", "allreduce", "reduce_scatter", "reduce_scatter_block")
SCAN = ("scan", "exscan")

CALLED_ONE_TO_N = called("(?i:mpi_(bcast|scatterv?))")
CALLED_N_TO_ONE = called("(?i:mpi_(gatherv?|reduce))")
CALLED_N_TO_N = called("(?i:mpi(.*_all.*|_reduce_scatter))")

EARLY, LATE = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Chosen:
    """The members of the operations of some kinds on communicators of two or more.

    Parameters
    ----------
    ops : iterable of str
        The operations.
    regions : callable, optional
        Follow EXPERT: the regions that stand for these operations.

    Attributes
    ----------
    row : (n,) int64
        Rows of `collective_members`.
    begin, end, sent, received : (n,) int64
    segments : Segments
        By instance.
    """

    def __init__(self, model: Model, m: CompoundTable, ops: Iterable[str], regions: RegionRule | None) -> None:
        c = model.collectives
        of = m.collective
        self.by_call = regions is not None
        if regions is None:
            fits = np.isin(c.op, [COLLECTIVE_OPS.index(o) for o in ops])
        else:
            first = np.full(len(c), -1, np.int64)
            order = model.order.argsort(m.end, m.end_time)[::-1]
            first[of[order]] = order
            fits = region_of(model, pick(m.call_path, first), regions) & (c.n_members == c.size)
        self.row = np.flatnonzero((fits & (c.size > 1))[of])
        _, instance = np.unique(of[self.row], return_inverse=True)
        self.segments = Segments(instance, int(instance.max(initial=-1)) + 1)
        begin, end = (m.enter_time, m.exit_time) if self.by_call else (m.begin_time, m.end_time)
        self.begin, self.end = begin[self.row], end[self.row]
        self.sent, self.received = m.sent[self.row], m.received[self.row]
        self.is_root, self.rank = m.is_root[self.row], m.rank[self.row]

    def wait(self, until: NDArray[np.int64]) -> NDArray[np.int64]:
        """Time from begin to some time, but not beyond the end; for EXPERT also beyond."""
        return (until if self.by_call else np.minimum(until, self.end)) - self.begin

    def completion(self, waited: NDArray[np.int64], earliest_end: NDArray[np.int64]) -> NDArray[np.int64]:
        """Time to the end from the earliest end, but not from before waiting has ended; for EXPERT always from there."""
        return self.end - (earliest_end if self.by_call else np.maximum(earliest_end, np.minimum(waited, self.end)))

    def max(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Largest value of each member's instance."""
        return self.segments.max(values)[self.segments.group]

    def min(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Smallest value of each member's instance."""
        return self.segments.min(values)[self.segments.group]

    def any(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether a mask holds for any member of each member's instance."""
        return self.segments.any(mask)[self.segments.group]

    def latest_begin(self, among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Latest begin of some members of each member's instance; where there are none, the member's own begin: no wait."""
        return np.where(self.any(among), self.max(np.where(among, self.begin, EARLY)), self.begin)

    def earliest_begin(self, among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Earliest begin of some members of each member's instance; where there are none, the member's own begin: no wait."""
        return np.where(self.any(among), self.min(np.where(among, self.begin, LATE)), self.begin)

    def matches(self, parent: Matches, severity: NDArray[np.int64]) -> Matches:
        """Narrow the parent's matches to members with a positive severity."""
        all_rows = np.zeros(len(parent), np.int64)
        all_rows[self.row] = severity
        return parent.where(all_rows > 0, severity=all_rows)


@pattern(
    "mpi_barrier_wait", "mpi_sync_collective", "Wait at Barrier", table="collective_members", since="begin_time",
    expert={"since": "enter_time", "operations": BARRIERS},
    summary="Time in a barrier until the last process has reached it.",
    advice="Balance the work in front of the barrier, or remove it.",
)  # fmt: skip
def barrier_wait(model: Model, m: CompoundTable, parent: Matches, *, operations: RegionRule | None = None) -> Matches:
    """From own begin to the latest begin, within the operation."""
    c = Chosen(model, m, BARRIER, operations)
    return c.matches(parent, c.wait(c.max(c.begin)))


@pattern(
    "mpi_barrier_completion", "mpi_sync_collective", "Barrier Completion", table="collective_members", until="end_time",
    expert={"until": "exit_time", "operations": BARRIERS},
    summary="Time in a barrier after the first process has left it.",
    advice="Usually small; large values point to the MPI library or to disturbance by others.",
)  # fmt: skip
def barrier_completion(
    model: Model, m: CompoundTable, parent: Matches, *, operations: RegionRule | None = None
) -> Matches:
    """From the earliest end to own end."""
    c = Chosen(model, m, BARRIER, operations)
    return c.matches(parent, c.completion(c.max(c.begin), c.min(c.end)))


@pattern(
    "mpi_earlyreduce", "mpi_collective", "Early Reduce", table="collective_members", since="begin_time",
    expert={"since": "enter_time", "operations": CALLED_N_TO_ONE},
    summary="Time the root of an n-to-1 operation waits because the others send late.",
    advice="Let the root do other work first, or balance the work of the others.",
)  # fmt: skip
def early_reduce(model: Model, m: CompoundTable, parent: Matches, *, operations: RegionRule | None = None) -> Matches:
    """From the root's begin to the latest begin of those that send; for EXPERT to the earliest of the others."""
    c = Chosen(model, m, N_TO_ONE, operations)
    if c.by_call:
        # at least until the first of the others
        return c.matches(parent, np.where(c.is_root, c.wait(c.earliest_begin(~c.is_root)), 0))
    return c.matches(parent, np.where(c.is_root & (c.received > 0), c.wait(c.latest_begin(c.sent > 0)), 0))


@pattern(
    "mpi_earlyscan", "mpi_collective", "Early Scan", table="collective_members", since="begin_time",
    summary="Time a process waits in a scan because processes of lower rank begin later.",
    advice="Balance the work in front of the scan.",
)  # fmt: skip
def early_scan(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From own begin to the latest begin of ranks up to the own one that send."""
    c = Chosen(model, m, SCAN, None)
    n = c.row.size
    order = np.lexsort((c.rank, c.segments.group))
    # a running maximum over ranks that starts anew with every operation: ranks of begin times keep the numbers small
    times, place = np.unique(np.where(c.sent > 0, c.begin, EARLY), return_inverse=True)
    offset = c.segments.group[order] * (n + 1)
    latest = np.empty(n, np.int64)
    latest[order] = times[np.maximum.accumulate(place[order] + offset) - offset] if n else 0
    waits = ((c.sent > 0) | (c.received > 0)) & (latest != EARLY)
    return c.matches(parent, np.where(waits, c.wait(np.where(waits, latest, c.begin)), 0))


@pattern(
    "mpi_latebroadcast", "mpi_collective", "Late Broadcast", table="collective_members", since="begin_time",
    expert={"since": "enter_time", "operations": CALLED_ONE_TO_N},
    summary="Time receivers of a 1-to-n operation wait because its root begins late.",
    advice="Let the root begin earlier, or choose the process that is ready first.",
)  # fmt: skip
def late_broadcast(model: Model, m: CompoundTable, parent: Matches, *, operations: RegionRule | None = None) -> Matches:
    """From own begin to the root's begin."""
    c = Chosen(model, m, ONE_TO_N, operations)
    root = c.latest_begin(c.is_root & (c.by_call | (c.sent > 0)))
    receives = ~c.is_root & (c.by_call | (c.received > 0))
    return c.matches(parent, np.where(receives, c.wait(root), 0))


def synchronised(c: Chosen) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Find until when members of n-to-n operations wait.

    Returns
    -------
    until : (n,) int64
        The latest begin: of all if all were inside at the same time, else of those that send.
    earliest_end : (n,) int64
        Of those that take part.
    takes_part : (n,) bool
    """
    latest, earliest = c.max(c.begin), c.min(c.end)
    overlap = earliest > latest
    late_sender = c.latest_begin(c.sent > 0)
    until = np.where(overlap, latest, late_sender)
    takes_part = overlap | ((c.received > 0) & (c.begin < late_sender)) | ((c.sent > 0) & (c.begin == late_sender))
    takes_part &= c.any((c.sent > 0) | (c.received > 0))
    return until, c.min(np.where(takes_part, c.end, LATE)), takes_part


@pattern(
    "mpi_wait_nxn", "mpi_collective", "Wait at N x N", table="collective_members", since="begin_time",
    expert={"since": "enter_time", "operations": CALLED_N_TO_N},
    summary="Time in an n-to-n operation until the last process has reached it.",
    advice="Balance the work in front of the operation.",
)  # fmt: skip
def wait_at_n_to_n(model: Model, m: CompoundTable, parent: Matches, *, operations: RegionRule | None = None) -> Matches:
    """From own begin to the latest begin of the senders, within the operation."""
    c = Chosen(model, m, N_TO_N, operations)
    if c.by_call:
        return c.matches(parent, c.wait(c.max(c.begin)))
    until, _, takes_part = synchronised(c)
    return c.matches(parent, np.where(takes_part, c.wait(until), 0))


@pattern(
    "mpi_nxn_completion", "mpi_collective", "N x N Completion", table="collective_members", until="end_time",
    summary="Time in an n-to-n operation after the first process has left it.",
    advice="Usually small; large values point to the MPI library or to disturbance by others.",
)  # fmt: skip
def n_to_n_completion(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From the earliest end to own end."""
    c = Chosen(model, m, N_TO_N, None)
    until, earliest_end, takes_part = synchronised(c)
    return c.matches(parent, np.where(takes_part, c.completion(until, earliest_end), 0))


@pattern(
    "mpi_init_completion", "mpi_init_exit", "Initialization Completion", table="startups", until="exit_time",
    summary="Time in MPI initialisation after the first process has left it.",
)  # fmt: skip
def init_completion(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From the earliest exit to own exit."""
    late = m.exit_time - np.maximum(m.latest_enter_time, m.earliest_exit_time)
    return parent.where(m.is_init & (late > 0), severity=late)


@pattern(
    "mpi_finalize_wait", "mpi_init_exit", "Wait at Finalize", table="startups", since="enter_time",
    summary="Time in MPI finalisation until the last process has reached it.",
    advice="Processes that have nothing left to do: balance the whole program.",
)  # fmt: skip
def finalize_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From own enter to the latest enter."""
    wait = np.minimum(m.latest_enter_time, m.exit_time) - m.enter_time
    return parent.where(~m.is_init & (wait > 0), severity=wait)


@pattern(
    "syncs_coll",
    "syncs",
    "Collective",
    table="collective_members",
    since="begin_time",
    unit="occ",
    summary="Number of collective operations without payload.",
)
def syncs_coll(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Neither sends nor receives."""
    return parent.counted((m.sent == 0) & (m.received == 0))


@pattern(
    "comms_cxch",
    "comms_coll",
    "Exchange",
    table="collective_members",
    since="begin_time",
    unit="occ",
    summary="Number of collective operations as sender and receiver.",
)
def exchanges(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Sends and receives."""
    return parent.counted((m.sent != 0) & (m.received != 0))


@pattern(
    "comms_csrc",
    "comms_coll",
    "As Source",
    table="collective_members",
    since="begin_time",
    unit="occ",
    summary="Number of collective operations as sender only.",
)
def as_source(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Sends only."""
    return parent.counted((m.sent != 0) & (m.received == 0))


@pattern(
    "comms_cdst",
    "comms_coll",
    "As Destination",
    table="collective_members",
    since="begin_time",
    unit="occ",
    summary="Number of collective operations as receiver only.",
)
def as_destination(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Receives only."""
    return parent.counted((m.sent == 0) & (m.received != 0))


@pattern(
    "bytes_cout",
    "bytes_coll",
    "Outgoing",
    table="collective_members",
    since="begin_time",
    unit="bytes",
    summary="Bytes sent in collective operations.",
)
def bytes_out(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Bytes sent."""
    return parent.where(m.sent > 0, severity=m.sent)


@pattern(
    "bytes_cin",
    "bytes_coll",
    "Incoming",
    table="collective_members",
    since="begin_time",
    unit="bytes",
    summary="Bytes received in collective operations.",
)
def bytes_in(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Bytes received."""
    return parent.where(m.received > 0, severity=m.received)


@FAMILY.pattern(
    "mpi_nonblocking_collective_wait", "mpi_point2point", "Wait in Non-blocking Collective", table="nonblocking_members",
    since="done_enter_time", overlaps=True,
    summary="Time a completing call (MPI_Wait and its like) waits for a participant of a non-blocking collective operation to start it.",
    advice="Complete the operation later, or balance the work in front of it.",
)  # fmt: skip
def nonblocking_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the completing call to the start of the participants one depends on; of several of one call the largest.

    Of one-to-all operations that is the root, of all-to-one operations at the root those that send, of barriers and others all.
    """
    one_to_all, all_to_one, prefix = (
        np.isin(m.op, [COLLECTIVE_OPS.index(op) for op in ops]) for ops in (ONE_TO_N, N_TO_ONE, SCAN)
    )
    until = np.where(
        one_to_all, m.root_begin_time, np.where(all_to_one, m.latest_sender_begin_time, m.latest_begin_time)
    )
    depends = np.where(one_to_all, ~m.is_root, np.where(all_to_one, m.is_root, ~prefix))
    wait = np.where(depends & (until >= 0), np.minimum(until, m.done_exit_time) - m.done_enter_time, 0)
    order = np.lexsort((np.arange(len(m)), -wait, m.done_enter))
    first = np.append(True, m.done_enter[order][1:] != m.done_enter[order][:-1])[: len(m)]
    largest = np.zeros(len(m), bool)
    largest[order[first]] = True
    return parent.where(largest & (wait > 0), severity=wait)
