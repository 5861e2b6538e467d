"""Costs of communication in a replay, declared in one place: the number of latencies on the way of a message or of a
collective operation, and the time of a latency and of a byte in a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from tracecols.vectors import Ints

MESSAGE_STEPS = 1
"""Number of latencies of a message."""


def collective_steps(n_members: Ints) -> Ints:
    """Return the latencies of collective operations among n processes each: ceil(log2 n)."""
    size = int(n_members.max(initial=1)) + 1
    table = np.array([0, *(ceil(log2(n)) for n in range(1, size))], np.int64)
    return table[n_members]


def delays(latency: Sequence[float], bandwidth: Sequence[float], resolution: int) -> NDArray[np.float64]:
    """Return the additional costs of communication in n scenarios: latency (s), bandwidth (bytes/s) and resolution
    (ticks/s); (n, 3), empty if nothing takes additional time."""
    if not any(latency) and all(of == np.inf for of in bandwidth):
        return np.zeros((0, 3))
    return np.array([(*of, resolution) for of in zip(latency, bandwidth, strict=True)], np.float64)
