"""Wait states of collective operations, and their numbers and volumes.

Times are those of the begin and end events of the operation. Communicators of size 1 and MPI_Alltoallv and -w are left
out, like operations that move no bytes (barriers excepted).

EXPERT takes the times of the calls instead, selects operations by the name of the region in which they are first
completed, considers complete operations only, does not clip waiting at the end of the call, and does not know which
participants move bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracecols.enhance.dataflow.columns import CompoundTable, pick
from tracecols.enhance.mpi.operation_waits import awaited_starters, wait_for_starts, wait_in_series
from tracecols.enhance.mpi.waits import (
    BARRIER,
    HANDLES,
    N_TO_N,
    N_TO_ONE,
    ONE_TO_N,
    SCAN,
    Participants,
    of_operations,
    synchronised,
)
from tracecols.enhance.scan.region_rules import RegionRule, called
from tracecols.model.model import Model
from tracecols.patterns.base import Family, Variant, region_of
from tracecols.patterns.found_by import Pattern, PatternFunction
from tracecols.patterns.matches import Cause, Causes, Matches
from tracecols.patterns.mpi import BARRIERS
from tracecols.schema.enums import COLLECTIVE_OPS

FAMILY = Family("collective")
declare = FAMILY.declare

CALLED_ONE_TO_N = called("(?i:mpi_(bcast|scatterv?))")
CALLED_N_TO_ONE = called("(?i:mpi_(gatherv?|reduce))")
CALLED_N_TO_N = called("(?i:mpi(.*_all.*|_reduce_scatter))")


class Chosen(Participants):
    """The participants of operations on communicators of two or more: of those of some kinds, on devices or on hosts;
    for EXPERT of those whose call that ends first is of a region that fits a rule, by the times of the calls."""

    def __init__(
        self,
        model: Model,
        m: CompoundTable,
        ops: Iterable[str],
        operations: RegionRule | None = None,
        on_device: bool = False,
    ) -> None:
        c = model.collectives
        if operations is None:
            chosen = of_operations(c, m, ops, on_device)
        else:
            first = np.full(len(c), -1, np.int64)
            order = model.order.argsort(m.end, m.end_time)[::-1]
            first[m.collective[order]] = order
            fits = region_of(model, pick(m.call_path, first), operations) & (c.n_members == c.size) & (c.size > 1)
            chosen = fits[m.collective]
        super().__init__(m, np.flatnonzero(chosen), operations is not None)

    def causes(self, m: CompoundTable, matches: Matches, cause: NDArray[np.int64]) -> Causes:
        """Return the causes of matches, given the participant that each of them waits for."""
        at = np.zeros(len(m), np.int64)
        at[self.row] = self.row[cause]
        row = at[matches.row]
        return Causes(m.location[row], m.call_path[row], (m.enter_time if self.by_call else m.begin_time)[row])

    def matches(self, parent: Matches, severity: NDArray[np.int64]) -> Matches:
        """Narrow the parent's matches to members with a positive severity."""
        all_rows = np.zeros(len(parent), np.int64)
        all_rows[self.row] = severity
        return parent.where(all_rows > 0, severity=all_rows)


def last_of_all(
    model: Model, m: CompoundTable, matches: Matches, *, ops: Iterable[str] = BARRIER, **how: Any
) -> Causes:
    """Find the participants that begin barriers, or other operations, last."""
    c = Chosen(model, m, ops, **how)
    return c.causes(m, matches, c.latest(np.ones(c.row.size, bool)))


def last_to_reduce(model: Model, m: CompoundTable, matches: Matches, **how: Any) -> Causes:
    """Find the last senders of n-to-1 operations; for EXPERT the first participants other than the root."""
    c = Chosen(model, m, N_TO_ONE, **how)
    return c.causes(m, matches, c.earliest(~c.is_root) if c.by_call else c.latest(c.sent > 0))


def root_of(model: Model, m: CompoundTable, matches: Matches, **how: Any) -> Causes:
    """Find the roots of 1-to-n operations."""
    c = Chosen(model, m, ONE_TO_N, **how)
    return c.causes(m, matches, c.latest(c.is_root & (c.by_call | (c.sent > 0))))


def last_to_exchange(model: Model, m: CompoundTable, matches: Matches, **how: Any) -> Causes:
    """Find the participants that begin n-to-n operations last: among all if all were inside at the same time, else
    among the senders; for EXPERT always among all."""
    c = Chosen(model, m, N_TO_N, **how)
    everybody = np.ones(c.row.size, bool)
    if c.by_call:
        return c.causes(m, matches, c.latest(everybody))
    return c.causes(m, matches, np.where(c.all_meet(), c.latest(everybody), c.latest(c.sent > 0)))


def last_to_scan(model: Model, m: CompoundTable, matches: Matches) -> Causes:
    """Find the last senders of scans among the ranks up to the own one; of equals the one with the lowest rank."""
    c = Chosen(model, m, SCAN)
    return c.causes(m, matches, c.latest_of_lower_ranks()[1])


def last_to_enter(model: Model, m: CompoundTable, matches: Matches, *, is_init: bool) -> Causes:
    """Find the processes that enter MPI_Init, or MPI_Finalize, last among those with the same world, of equals the
    first location."""
    last = np.flatnonzero((m.is_init == is_init) & (m.enter_time == m.latest_enter_time))
    worlds, first = np.unique(m.communicator[last], return_index=True)
    last = last[first][np.searchsorted(worlds, m.communicator[matches.row])] if last.size else last
    return Causes(m.location[last], m.call_path[last], m.enter_time[last])


def of_calls(operations: RegionRule, cause: Callable[..., Causes]) -> Variant:
    """Return the differences under the conventions of EXPERT: times of calls whose regions fit a rule."""
    return {"since": "enter_time", "operations": operations, "cause": partial(cause, operations=operations)}


@declare(
    "mpi_barrier_wait",
    "mpi_sync_collective",
    "Wait at Barrier",
    "Time in a barrier until the last process has reached it.",
    Pattern("collective_members", since="begin_time", cause=last_of_all),
    expert=of_calls(BARRIERS, last_of_all),
    advice="Balance the work in front of the barrier, or remove it.",
    delay="delay_barrier_aggregate",
    is_lost_in_reference=True,
)
def barrier_wait(model: Model, m: CompoundTable, parent: Matches, **how: Any) -> Matches:
    """From own begin to the latest begin, within the operation."""
    c = Chosen(model, m, BARRIER, **how)
    return c.matches(parent, c.wait(c.latest_begin(np.ones(c.row.size, bool))))


@declare(
    "mpi_barrier_completion",
    "mpi_sync_collective",
    "Barrier Completion",
    "Time in a barrier after the first process has left it.",
    Pattern("collective_members", until="end_time"),
    is_wait=False,
    expert={"until": "exit_time", "operations": BARRIERS},
    advice="Usually small; large values point to the MPI library or to disturbance by others.",
)
def barrier_completion(model: Model, m: CompoundTable, parent: Matches, **how: Any) -> Matches:
    """From the earliest end to own end."""
    c = Chosen(model, m, BARRIER, **how)
    return c.matches(parent, c.completion(c.latest_begin(np.ones(c.row.size, bool)), c.min(c.end)))


@declare(
    "mpi_earlyreduce",
    "mpi_collective",
    "Early Reduce",
    "Time the root of an n-to-1 operation waits because the others send late.",
    Pattern("collective_members", since="begin_time", cause=last_to_reduce),
    expert=of_calls(CALLED_N_TO_ONE, last_to_reduce),
    advice="Let the root do other work first, or balance the work of the others.",
    delay="delay_n21_aggregate",
    is_lost_in_reference=True,
)
def early_reduce(model: Model, m: CompoundTable, parent: Matches, **how: Any) -> Matches:
    """From the root's begin to the latest begin of those that send; for EXPERT to the earliest of the others."""
    c = Chosen(model, m, N_TO_ONE, **how)
    if c.by_call:
        # at least until the first of the others
        return c.matches(parent, np.where(c.is_root, c.wait(c.earliest_begin(~c.is_root)), 0))
    return c.matches(parent, np.where(c.is_root & (c.received > 0), c.wait(c.latest_begin(c.sent > 0)), 0))


@declare(
    "mpi_earlyscan",
    "mpi_collective",
    "Early Scan",
    "Time a process waits in a scan because processes of lower rank begin later.",
    Pattern("collective_members", since="begin_time", cause=last_to_scan),
    advice="Balance the work in front of the scan.",
    delay="delay_scan_aggregate",
    is_lost_in_reference=True,
)
def early_scan(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From own begin to the latest begin of the senders among the ranks up to the own one."""
    c = Chosen(model, m, SCAN)
    until, _ = c.latest_of_lower_ranks()
    return c.matches(parent, np.where((c.sent > 0) | (c.received > 0), c.wait(until), 0))


@declare(
    "mpi_latebroadcast",
    "mpi_collective",
    "Late Broadcast",
    "Time receivers of a 1-to-n operation wait because its root begins late.",
    Pattern("collective_members", since="begin_time", cause=root_of),
    expert=of_calls(CALLED_ONE_TO_N, root_of),
    advice="Let the root begin earlier, or choose the process that is ready first.",
    delay="delay_12n_aggregate",
    is_lost_in_reference=True,
)
def late_broadcast(model: Model, m: CompoundTable, parent: Matches, **how: Any) -> Matches:
    """From own begin to the root's begin."""
    c = Chosen(model, m, ONE_TO_N, **how)
    root = c.latest_begin(c.is_root & (c.by_call | (c.sent > 0)))
    receives = ~c.is_root & (c.by_call | (c.received > 0))
    return c.matches(parent, np.where(receives, c.wait(root), 0))


@declare(
    "mpi_wait_nxn",
    "mpi_collective",
    "Wait at N x N",
    "Time in an n-to-n operation until the last process has reached it.",
    Pattern("collective_members", since="begin_time", cause=last_to_exchange),
    expert=of_calls(CALLED_N_TO_N, last_to_exchange),
    advice="Balance the work in front of the operation.",
    delay="delay_n2n_aggregate",
    is_lost_in_reference=True,
)
def wait_at_n_to_n(model: Model, m: CompoundTable, parent: Matches, **how: Any) -> Matches:
    """From own begin to the latest begin, within the operation; of the senders only, if not all were inside at the same
    time."""
    c = Chosen(model, m, N_TO_N, **how)
    if c.by_call:
        return c.matches(parent, c.wait(c.latest_begin(np.ones(c.row.size, bool))))
    until, _, takes_part = synchronised(c)
    return c.matches(parent, np.where(takes_part, c.wait(until), 0))


@declare(
    "mpi_nxn_completion",
    "mpi_collective",
    "N x N Completion",
    "Time in an n-to-n operation after the first process has left it.",
    Pattern("collective_members", until="end_time"),
    is_wait=False,
    advice="Usually small; large values point to the MPI library or to disturbance by others.",
)
def n_to_n_completion(model: Model, m: CompoundTable, parent: Matches, **how: Any) -> Matches:
    """From the earliest end to own end."""
    c = Chosen(model, m, N_TO_N, **how)
    until, earliest_end, takes_part = synchronised(c)
    return c.matches(parent, np.where(takes_part, c.completion(until, earliest_end), 0))


@declare(
    "mpi_mgmt_comm_wait",
    "mpi_mgmt_comm",
    "Wait at Communicator Management",
    "Time in the creation or freeing of a communicator until the last process has reached it, where its operations "
    "are recorded.",
    Pattern("collective_members", since="begin_time", cause=partial(last_of_all, ops=HANDLES)),
    confidence=0.8,
    advice="Create communicators once and reuse them; balance the work in front of that.",
    delay="delay_management_aggregate",
)
def communicator_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From own begin to the latest begin, if no process had left before: an MPI library need not synchronise here.

    MPI_Init and MPI_Finalize have wait states of their own.
    """
    c = Chosen(model, m, HANDLES)
    latest = c.max(c.begin)
    return c.matches(parent, np.where(c.min(c.end) >= latest, c.wait(latest), 0))


@declare(
    "mpi_init_completion",
    "mpi_init_exit",
    "Initialization Completion",
    "Time in MPI initialisation after the first process has left it.",
    Pattern("startups", until="exit_time"),
    is_wait=False,
)
def init_completion(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From the earliest exit to own exit."""
    late = m.exit_time - np.maximum(m.latest_enter_time, m.earliest_exit_time)
    return parent.where(m.is_init & (late > 0), severity=late)


def startup_wait(model: Model, m: CompoundTable, parent: Matches, *, is_init: bool) -> Matches:
    """From own enter to the latest enter, if the call is left."""
    wait = np.minimum(m.latest_enter_time, m.exit_time) - m.enter_time
    return parent.where((m.is_init == is_init) & (wait > 0) & (m.exit >= 0), severity=wait)


declare(
    "mpi_init_wait",
    "mpi_init_exit",
    "Wait at Init",
    "Time in MPI initialisation until the last process has reached it.",
    Pattern("startups", since="enter_time", cause=partial(last_to_enter, is_init=True)),
    scalasca=None,
    exact={"is_init": True},
    advice="Start all processes together, and let them do less before they initialise MPI.",
    delay="delay_startup_aggregate",
)(startup_wait)
declare(
    "mpi_finalize_wait",
    "mpi_init_exit",
    "Wait at Finalize",
    "Time in MPI finalisation until the last process has reached it.",
    Pattern("startups", since="enter_time", cause=partial(last_to_enter, is_init=False)),
    advice="Balance the work before the end of the program: processes that wait here have none left.",
    delay="delay_startup_aggregate",
    is_lost_in_reference=True,
    scalasca={"is_init": False},
)(startup_wait)


@declare(
    "syncs_coll",
    "syncs",
    "Collective",
    "Number of collective operations without payload. Start and end of MPI and operations on communicators do not "
    "count.",
    Pattern("collective_members", since="begin_time"),
    unit="occ",
)
def syncs_coll(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Operations without payload, except those on handles, which recorders before Score-P 8 do not record."""
    is_of_handles = np.isin(m.op, [COLLECTIVE_OPS.index(op) for op in HANDLES])
    return parent.counted((m.sent == 0) & (m.received == 0) & ~is_of_handles & ~m.on_device)


def transfers(doc: str, sends: bool, receives: bool) -> PatternFunction:
    """Return the pattern of operations with payload by whether the participant sends, and whether it receives."""

    def count(model: Model, m: CompoundTable, parent: Matches) -> Matches:
        return parent.counted(((m.sent != 0) == sends) & ((m.received != 0) == receives) & ~m.on_device)

    count.__doc__ = doc
    return count


for id, title, what, transfer in (
    ("comms_cxch", "Exchange", "sender and receiver", transfers("Sends and receives.", True, True)),
    ("comms_csrc", "As Source", "sender only", transfers("Sends only.", True, False)),
    ("comms_cdst", "As Destination", "receiver only", transfers("Receives only.", False, True)),
):
    declare(
        id,
        "comms_coll",
        title,
        f"Number of collective operations as {what}.",
        Pattern("collective_members", transfer, since="begin_time"),
        unit="occ",
    )


def moved(column: str) -> PatternFunction:
    """Return the pattern of the bytes that participants send or receive."""

    def add(model: Model, m: CompoundTable, parent: Matches) -> Matches:
        return parent.where((m[column] > 0) & ~m.on_device, severity=m[column])

    add.__doc__ = f"Bytes {column}."
    return add


for id, title, column in (("bytes_cout", "Outgoing", "sent"), ("bytes_cin", "Incoming", "received")):
    summary = f"Bytes {column} in collective operations."
    found = Pattern("collective_members", moved(column), since="begin_time")
    declare(id, "bytes_coll", title, summary, found, unit="bytes")


@declare(
    "mpi_polling_wait",
    "mpi_point2point",
    "Wait by Polling",
    "Time in calls of MPI_Test and its like, and of MPI_Iprobe, that ask again and again whether something has "
    "come, and in MPI_Probe before the message is received, until it is sent.",
    Pattern("polls", since="enter_time", cause=Cause("cause_location", "cause_call_path", "cause_enter_time")),
    advice="Ask when there is nothing else to do: compute meanwhile, or balance the work of those who are waited for.",
    delay="delay_polling_aggregate",
    scalasca=None,
    exact={},
)
def polling_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering each call of the series to the call that sends the message, or starts the operation last."""
    wait, waits = wait_in_series(m)
    return parent.where(waits, severity=wait)


@declare(
    "mpi_nonblocking_collective_wait",
    "mpi_point2point",
    "Wait in Non-blocking Collective",
    "Time a completing call (MPI_Wait and its like) waits for a participant of a non-blocking collective operation "
    "to start it.",
    Pattern(
        "nonblocking_members",
        since="done_enter_time",
        cause=Cause("location", "begin_call_path", "begin_time", awaited_starters),
    ),
    overlaps=True,
    advice="Complete the operation later, or balance the work in front of it.",
    delay="delay_nonblocking_aggregate",
)
def nonblocking_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the completing call to the last start among the participants that the own one depends on; of
    several waits in one call the largest.

    These are the root in one-to-all operations, the senders at the root of all-to-one operations, the senders of lower
    ranks in prefix operations, all in barriers and the creation of communicators, and in others those that send, for
    those that receive; in MPI_Ialltoallv and -w only if they start before the own part is completed.
    """
    wait, waits = wait_for_starts(m)
    return parent.where(waits, severity=wait)
