"""Wait states of one-sided communication: the rules of EXPERT, and, under the default conventions, the same rules
clipped to the calls that wait.

Scalasca's analyser ignores the records of one-sided communication in OTF2, so there is no reference for the latter;
their ids are those its reports use.
"""

from __future__ import annotations

import numpy as np

from tracecols.distinct import starts_run
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.mpi.operation_waits import (
    BY_ACCESS,
    FENCE,
    WINDOW_CREATION,
    WINDOW_FREEING,
    awaited_at_windows,
    awaited_releases,
    wait_at_windows,
    wait_for_completion,
    wait_for_posts,
    wait_for_window_locks,
)
from tracecols.enhance.scan.region_rules import RegionRule, called
from tracecols.model.model import Model
from tracecols.patterns.base import Family, region_of
from tracecols.patterns.found_by import InRegions, Pattern, SumOf
from tracecols.patterns.matches import Cause, Matches
from tracecols.patterns.mpi import ACTIVE, PASSIVE, mpi

FAMILY = Family("one-sided communication")
declare = FAMILY.declare


def wait_for_last(model: Model, m: CompoundTable, parent: Matches, *, operations: RegionRule) -> Matches:
    """From own enter to the latest enter."""
    wait = m.latest_enter_time - m.enter_time
    return parent.where((wait > 0) & region_of(model, m.first_call_path, operations), severity=wait)


for id, parent_id, title, what, operations in (
    (
        "mpi_rma_wait_window_create",
        "mpi_rma_window_management",
        "Wait at Window Create",
        "the creation of a window",
        called("(?i:mpi_win_create)"),
    ),
    (
        "mpi_rma_wait_window_free",
        "mpi_rma_window_management",
        "Wait at Window Free",
        "the freeing of a window",
        called("(?i:mpi_win_free)"),
    ),
    ("mpi_rma_fence_wait", "mpi_rma_fence", "Wait at Fence", "a fence", FENCE),
):
    declare(
        id,
        parent_id,
        title,
        f"Time in {what} until the last process has reached it.",
        Pattern("window_members", since="enter_time"),
        scalasca=None,
        expert={"operations": operations},
        advice="Balance the work in front of it.",
    )(wait_for_last)


@declare(
    "mpi_rma_earlywait",
    "mpi_rma_gat_synchronization",
    "Early Wait",
    "Time MPI_Win_wait waits for the last origin to complete its accesses.",
    Pattern("epochs", since="wait_enter_time"),
    scalasca=None,
    expert={},
    advice="Call MPI_Win_wait later, or balance the work of the origins.",
)
def early_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering MPI_Win_wait to the latest enter of MPI_Win_complete.

    If one event completes several exposure epochs, only the first that waited counts, as in EXPERT.
    """
    wait = m.complete_enter_time - m.wait_enter_time
    rows = np.flatnonzero((wait > 0) & m.is_complete)
    # the origin that completes last; of those the first
    rows = rows[np.lexsort((rows, -wait[rows], m.exposure[rows]))]
    rows = rows[starts_run(m.exposure[rows])]
    rows = rows[np.lexsort((m.target[rows], m.completed_by[rows]))]
    rows = rows[starts_run(m.completed_by[rows])]
    chosen = np.zeros(len(m), bool)
    chosen[rows] = True
    return parent.where(chosen, severity=wait, location=m.wait_location)


@declare(
    "mpi_rma_latecomplete",
    "mpi_rma_earlywait",
    "Late Complete",
    "Early Wait time after the last access of the origin, which completes late.",
    Pattern("epochs", until="complete_enter_time"),
    scalasca=None,
    expert={"last": "last_transfer_time"},
    advice="Call MPI_Win_complete right after the last access.",
)
def late_complete(model: Model, m: CompoundTable, parent: Matches, *, last: str = "last_access_time") -> Matches:
    """From the end of the origin's last access to the end of the wait; EXPERT knows puts and gets only."""
    row = parent.row
    waited_until = m.wait_enter_time[row] + parent.severity
    late = np.where(m[last][row] != -1, waited_until - m[last][row], 0)
    late = np.minimum(late, parent.severity)
    return parent.where(late > 0, severity=late)


@declare(
    "mpi_rma_latepost",
    "mpi_rma_gat_synchronization",
    "Late Post",
    "Time MPI_Win_start or MPI_Win_complete waits because the target exposes its window late.",
    Pattern("epochs", until="post_enter_time"),
    scalasca=None,
    expert={},
    advice="Call MPI_Win_post earlier, or MPI_Win_start later.",
)
def late_post(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that the origin was in when the target posted to entering MPI_Win_post."""
    waits = m.is_complete & ((m.held_by == 1) | (m.held_by == 3)) & (m.held_time > 0)
    return parent.where(waits, severity=m.held_time, call_path=m.held_call_path, location=m.held_location)


@declare(
    "mpi_rma_earlytransfer",
    "mpi_communication",
    "Early Transfer",
    "Time MPI_Put or MPI_Get waits because the target exposes its window late.",
    Pattern("epochs", until="post_enter_time"),
    scalasca=None,
    expert={"needs": "windows"},
    advice="Call MPI_Win_post earlier, or begin the access epoch later.",
)
def early_transfer(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering MPI_Put or MPI_Get that the origin was in when the target posted to entering MPI_Win_post."""
    waits = m.is_complete & (m.held_by == BY_ACCESS) & (m.held_time > 0)
    waits &= region_of(model, m.held_call_path, called("(?i:mpi_(get|put))"))
    return parent.where(waits, severity=m.held_time, call_path=m.held_call_path, location=m.held_location)


# -- the default conventions -------------------------------------------------------------------------------------------


LAST_AT_WINDOWS = Cause("location", "call_path", "enter_time", awaited_at_windows)
"""The processes that enter collective operations on windows last, or their roots."""

OWNER_BEFORE = Cause("unlock_location", "unlock_call_path", "release_time", awaited_releases)
"""The previous owners that release the locks that are waited for."""

LATE_POST = Cause("target", "post_call_path", "post_enter_time")


def wait_within_call(model: Model, m: CompoundTable, parent: Matches, *, operations: RegionRule) -> Matches:
    """From own enter to the latest enter, or to the end of the call."""
    wait, waits = wait_at_windows(model.facts, m)
    return parent.where(waits & region_of(model, m.first_call_path, operations), severity=wait)


for id, parent_id, title, what, operations in (
    ("mpi_rma_wait_at_create", "mpi_mgmt_win", "Wait at Create", "the creation of a window", WINDOW_CREATION),
    ("mpi_rma_wait_at_free", "mpi_mgmt_win", "Wait at Free", "the freeing of a window", WINDOW_FREEING),
    ("mpi_rma_wait_at_fence", "mpi_rma_sync_active", "Wait at Fence", "a fence", FENCE),
):
    declare(
        id,
        parent_id,
        title,
        f"Time in {what} until the last process has reached it.",
        Pattern("window_members", since="enter_time", cause=LAST_AT_WINDOWS),
        scalasca={"operations": operations},
        needs="windows",
        advice="Balance the work in front of it.",
        delay="delay_onesided_aggregate",
    )(wait_within_call)


@declare(
    "mpi_rma_early_fence",
    "mpi_rma_wait_at_fence",
    "Early Fence",
    "Wait at Fence time until the last access of another process to this one has returned.",
    Pattern("window_members", since="enter_time"),
    advice="Fence later, or access earlier.",
)
def early_fence(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """The part of the wait before the last access has returned."""
    row = parent.row
    wait = np.minimum(m.last_access_time[row] - m.enter_time[row], parent.severity)
    return parent.where((m.last_access_time[row] != -1) & (wait > 0), severity=wait)


@declare(
    "mpi_rma_early_wait",
    "mpi_rma_sync_active",
    "Early Wait",
    "Time MPI_Win_wait waits for the last origin to complete its accesses.",
    Pattern(
        "epochs", since="wait_enter_time", cause=Cause("complete_location", "complete_call_path", "complete_enter_time")
    ),
    needs="windows",
    advice="Call MPI_Win_wait later, or balance the work of the origins.",
    delay="delay_onesided_aggregate",
)
def early_wait_in_call(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering MPI_Win_wait to the latest enter of MPI_Win_complete, or to the end of the call."""
    wait, waits = wait_for_completion(m)
    return parent.where(waits, severity=wait, location=m.wait_location)


declare(
    "mpi_rma_late_complete",
    "mpi_rma_early_wait",
    "Late Complete",
    "Early Wait time after the last access of the origin, which completes late.",
    Pattern("epochs", until="complete_enter_time"),
    advice="Call MPI_Win_complete right after the last access.",
)(late_complete)


@declare(
    "mpi_rma_sync_late_post",
    "mpi_rma_sync_active",
    "Late Post",
    "Time MPI_Win_start or MPI_Win_complete waits because the target exposes its window late.",
    Pattern("epochs", until="post_enter_time", cause=LATE_POST),
    needs="windows",
    advice="Call MPI_Win_post earlier, or MPI_Win_start later.",
    delay="delay_onesided_aggregate",
)
def late_post_in_sync(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call that the origin was in to the latest MPI_Win_post of its targets."""
    wait, waits = wait_for_posts(m)
    return parent.where(
        waits & (m.held_by != BY_ACCESS), severity=wait, call_path=m.held_call_path, location=m.held_location
    )


@declare(
    "mpi_rma_comm_late_post",
    "mpi_rma_communication",
    "Late Post",
    "Time an access to a window waits because the target exposes it late.",
    Pattern("epochs", until="post_enter_time", cause=LATE_POST),
    needs="windows",
    advice="Call MPI_Win_post earlier, or begin the access epoch later.",
    delay="delay_onesided_aggregate",
)
def late_post_in_access(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the access that the origin was in to MPI_Win_post of the target."""
    wait, waits = wait_for_posts(m)
    return parent.where(
        waits & (m.held_by == BY_ACCESS), severity=wait, call_path=m.held_call_path, location=m.held_location
    )


@declare(
    "mpi_rma_sync_lock_competition",
    "mpi_rma_sync_passive",
    "Lock Competition",
    "Time MPI_Win_lock or MPI_Win_unlock waits for a lock that another process holds.",
    Pattern("lock_epochs", since="wait_enter_time", cause=OWNER_BEFORE),
    needs="windows",
    advice="Hold locks shorter, use shared locks, or several windows.",
    delay="delay_onesided_aggregate",
)
def lock_competition(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From the ENTER of the locking call to the release by the previous owner, clipped to the locking or the unlocking
    call."""
    wait, waits, in_unlock = wait_for_window_locks(m)
    return parent.where(
        waits,
        severity=wait,
        call_path=np.where(in_unlock, m.unlock_call_path, m.lock_call_path),
        location=np.where(in_unlock, m.unlock_location, m.location),
    )


declare("syncs_rma", "syncs", "One-sided", "Number of one-sided synchronisation operations.", SumOf(), unit="occ")
declare(
    "syncs_rma_active",
    "syncs_rma",
    "Active Target",
    "Number of active target synchronisation operations.",
    InRegions(mpi(ACTIVE), "visits"),
    unit="occ",
)
declare(
    "syncs_rma_passive",
    "syncs_rma",
    "Passive Target",
    "Number of passive target synchronisation operations.",
    InRegions(mpi(PASSIVE), "visits"),
    unit="occ",
)
declare(
    "bytes_rma",
    "",
    "Bytes Transferred One-sided",
    "Number of bytes transferred in one-sided operations of hosts.",
    SumOf(),
    unit="bytes",
    needs="windows",
    advice="Compare with what the algorithm has to exchange: do not transfer data twice, or data that is not used.",
)


@declare(
    "bytes_put",
    "bytes_rma",
    "Put",
    "Bytes sent by puts and atomic operations.",
    Pattern("rma_operations", since="enter_time"),
    unit="bytes",
)
def bytes_put(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Bytes to the target."""
    return parent.where(m.sent > 0, severity=m.sent)


@declare(
    "bytes_get",
    "bytes_rma",
    "Get",
    "Bytes received by gets and atomic operations.",
    Pattern("rma_operations", since="enter_time"),
    unit="bytes",
)
def bytes_get(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """Bytes from the target."""
    return parent.where(m.received > 0, severity=m.received)
