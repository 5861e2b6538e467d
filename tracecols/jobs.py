"""How many threads."""

from __future__ import annotations

import os


def n_jobs(jobs: int | None) -> int:
    """Return the number of threads to use: as asked for, or the cores this process may use."""
    if jobs is not None:
        return max(1, jobs)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)
