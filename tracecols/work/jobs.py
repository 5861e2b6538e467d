"""The number of threads."""

from __future__ import annotations

import os

from tracecols.errors import TracecolsError
from tracecols.given.arguments import is_whole_number, show
from tracecols.work.memory import cores_of_groups

MOST = 1 << 16
"""Threads that are used at most, however many are given."""


def n_jobs(jobs: int | None) -> int:
    """Return the number of threads to use: the given one, or that of the cores this process may use, by its affinity
    and its control groups (container, batch job). Raises TracecolsError if it is not a number of threads."""
    if jobs is not None:
        if not is_whole_number(jobs) or jobs < 1:
            raise TracecolsError(
                f"{show(jobs)} is not a number of threads (jobs)\n  give 1 or more, or None for one per core"
            )
        return min(int(jobs), MOST)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, cores_of_groups() or cores)
