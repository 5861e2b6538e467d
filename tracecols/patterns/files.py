"""File I/O of MPI: waiting in collective calls, and bytes read and written.

Scalasca's analyser knows the time of these calls only. A collective call need not synchronise the processes, so waiting
counts if all of them were inside at the same time: a process that left before the last one entered did not wait for it.
"""

from __future__ import annotations

import numpy as np

from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.mpi.operation_waits import awaited_at_files, wait_for_files
from tracecols.model.model import Model
from tracecols.patterns.base import Family
from tracecols.patterns.found_by import Pattern, SumOf
from tracecols.patterns.matches import Cause, Matches

FAMILY = Family("file I/O")
declare = FAMILY.declare

READ, WRITE = 0, 1
"""Modes of operations on files."""

SYNCHRONISE = (
    "Processes that arrive before the last one wait where the library synchronises, as in two-phase I/O: balance "
    "the work in front of the call."
)


LAST_AT_FILES = Cause("location", "call_path", "enter_time", awaited_at_files)
"""The processes that enter collective calls for files last."""


def wait_for_last(model: Model, m: CompoundTable, parent: Matches) -> Matches:
    """From own enter to the latest enter, if no process had left before."""
    wait, waits = wait_for_files(m)
    return parent.where(waits, severity=wait)


for id, parent_id, title, what in (
    ("mpi_io_collective_wait", "mpi_io_collective", "Wait at Collective I/O", "a blocking collective read or write"),
    ("mpi_mgmt_file_wait", "mpi_mgmt_file", "Wait at File Management", "the opening or closing of a file"),
):
    declare(
        id,
        parent_id,
        title,
        f"Time in {what} until the last process has reached it.",
        Pattern("file_members", since="enter_time", cause=LAST_AT_FILES),
        confidence=0.8,
        advice=SYNCHRONISE,
        needs="file_handles",
        delay="delay_file_aggregate",
    )(wait_for_last)

declare(
    "mpi_file_bytes",
    "",
    "MPI File Bytes",
    "Number of bytes that MPI reads from files and writes to them.",
    SumOf(),
    unit="bytes",
    needs="file_handles",
    advice="Compare with the size of the data: write less often, or only what is needed later.",
)


def transferred(model: Model, m: CompoundTable, parent: Matches, *, mode: int) -> Matches:
    """Bytes of the operations of one mode that are completed."""
    return parent.where((m.mode == mode) & (m.bytes > 0), severity=np.maximum(m.bytes, 0))


for id, title, what, mode in (
    ("mpi_file_bytes_read", "Read", "read", READ),
    ("mpi_file_bytes_written", "Written", "written", WRITE),
):
    declare(
        id,
        "mpi_file_bytes",
        title,
        f"Bytes {what} by MPI, on the call paths of the calls that ask for it.",
        Pattern("file_operations", since="enter_time"),
        unit="bytes",
        scalasca={"mode": mode},
    )(transferred)
