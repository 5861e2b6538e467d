"""Wait states of one-sided communication, as EXPERT defines them."""

from __future__ import annotations

import numpy as np

from tracecols.enhance.columns import CompoundTable
from tracecols.enhance.model import Model
from tracecols.patterns.base import Family, Matches, RegionRule, called, region_of
from tracecols.patterns.mpi import FENCE

FAMILY = Family("one-sided communication")


def wait_for_last(model: Model, m: CompoundTable, parent: Matches, *, operations: RegionRule) -> Matches:
    """From own enter to the latest enter."""
    wait = m.latest_enter_time - m.enter_time
    return parent.where((wait > 0) & region_of(model, m.first_call_path, operations), severity=wait)


for id, parent_id, title, what, operations in (
    ("mpi_rma_wait_window_create", "mpi_rma_window_management", "Wait at Window Create", "the creation of a window",
     called("(?i:mpi_win_create)")),
    ("mpi_rma_wait_window_free", "mpi_rma_window_management", "Wait at Window Free", "the freeing of a window",
     called("(?i:mpi_win_free)")),
    ("mpi_rma_fence_wait", "mpi_rma_fence", "Wait at Fence", "a fence", FENCE),
):  # fmt: skip
    FAMILY.pattern(
        id, parent_id, title, table="window_members", since="enter_time", scalasca=None, expert={"operations": operations},
        summary=f"Time in {what} until the last process has reached it.",
        advice="Balance the work in front of it.",
    )(wait_for_last)  # fmt: skip


@FAMILY.pattern(
    "mpi_rma_earlywait", "mpi_rma_gat_synchronization", "Early Wait", table="epochs", since="wait_enter_time", scalasca=None, expert={},
    summary="Time MPI_Win_wait waits for the last origin to complete its accesses.",
    advice="Call MPI_Win_wait later, or balance the work of the origins.",
)  # fmt: skip
def early_wait(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering MPI_Win_wait to the latest enter of MPI_Win_complete.

    Where one event completes several exposure epochs only the first that waited counts, as in EXPERT.
    """
    wait = m.complete_enter_time - m.wait_enter_time
    rows = np.flatnonzero((wait > 0) & m.is_complete)
    # the origin that completes last; of those the first
    rows = rows[np.lexsort((rows, -wait[rows], m.exposure[rows]))]
    rows = rows[np.concatenate([[True], m.exposure[rows][1:] != m.exposure[rows][:-1]])] if rows.size else rows
    rows = rows[np.lexsort((m.target[rows], m.completed_by[rows]))]
    rows = rows[np.concatenate([[True], m.completed_by[rows][1:] != m.completed_by[rows][:-1]])] if rows.size else rows
    chosen = np.zeros(len(m), bool)
    chosen[rows] = True
    return parent.where(chosen, severity=wait)


@FAMILY.pattern(
    "mpi_rma_latecomplete", "mpi_rma_earlywait", "Late Complete", table="epochs", until="complete_enter_time", scalasca=None, expert={},
    summary="Early Wait time after the last access of the origin, which completes late.",
    advice="Call MPI_Win_complete right after the last access.",
)  # fmt: skip
def late_complete(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From the end of the origin's last access to entering MPI_Win_complete, as far as it was waited for."""
    row = parent.row
    late = np.where(m.last_access_time[row] >= 0, m.complete_enter_time[row] - m.last_access_time[row], 0)
    late = np.minimum(late, parent.severity)
    return parent.where(late > 0, severity=late)


@FAMILY.pattern(
    "mpi_rma_latepost", "mpi_rma_gat_synchronization", "Late Post", table="epochs", until="post_enter_time", scalasca=None, expert={},
    summary="Time MPI_Win_start or MPI_Win_complete waits because the target exposes its window late.",
    advice="Call MPI_Win_post earlier, or MPI_Win_start later.",
)  # fmt: skip
def late_post(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the call in which the origin was at that time to entering MPI_Win_post."""
    waits = m.is_complete & ((m.held_by == 1) | (m.held_by == 3)) & (m.held_time > 0)
    return parent.where(waits, severity=m.held_time, call_path=m.held_call_path, location=m.origin)


@FAMILY.pattern(
    "mpi_rma_earlytransfer", "mpi_communication", "Early Transfer", table="epochs", until="post_enter_time", scalasca=None,
    expert={"needs": "windows"},
    summary="Time MPI_Put or MPI_Get waits because the target exposes its window late.",
    advice="Call MPI_Win_post earlier, or begin the access epoch later.",
)  # fmt: skip
def early_transfer(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From entering the access in which the origin was at that time to entering MPI_Win_post."""
    waits = m.is_complete & (m.held_by == 2) & (m.held_time > 0)
    return parent.where(waits, severity=m.held_time, call_path=m.held_call_path, location=m.origin)
