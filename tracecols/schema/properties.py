"""Ids of the properties that code calculates with; everything else about properties is declared with them
(`tracecols.patterns`).
"""

from __future__ import annotations

TIME = "time"
"""The root of all times."""

EXECUTION = "execution"
"""Time in which programs run; idle threads and the measurement are not part of it."""

COMPUTATION = "comp"
"""The part of `execution` spent outside of run-time systems; conventions without it use the part of `execution` that no
child property accounts for."""

MPI = "mpi"
IDLE = "omp_idle_threads"
VISITS = "visits"
COLLECTIVE = "mpi_collective"
POINT_TO_POINT = "mpi_point2point"
LATE_SENDER = "mpi_latesender"
CRITICAL_PATH = "critical_path"
MESSAGES, SYNCHRONISATIONS, MESSAGE_BYTES = "comms_p2p", "syncs_p2p", "bytes_p2p"
"""Number of point-to-point messages with and without content that are sent or received, and their bytes."""

DEVICE_TIME = "device_time"
DEVICE_IDLE = "device_idle"
DEVICE_KERNELS = "device_kernels"
DEVICE_COPIES = "device_copies"

PARTS = {
    "computation": "computation of the program",
    "mpi": "calls of MPI: an ideal network takes no time for what of it is neither waiting nor I/O",
    "io": "calls of MPI that work on files: an ideal network shortens none of it",
    "device": "calls that manage and use devices",
    "management": "start and end of teams of threads: no work",
    "idle": "reserved for threads that have nothing to do: no work",
    "root causes": "charged to those who cause waiting, or to the critical path: not spent",
    "imbalance": "difference from the mean of all locations: not spent",
}
"""What the values of a property, and of those below it, count as (`patterns.base.Property.part`)."""

ROOT_CAUSES, IMBALANCE = NOT_SPENT = ("root causes", "imbalance")
"""Parts whose values are not spent by the call paths that have them."""
