"""Limits of processor time that hold on machines of any speed and load."""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np

USUAL = 0.05
"""Seconds that the yardstick takes on the machine for which limits are given."""


def yardstick() -> float:
    """Return the seconds that this machine currently takes for a fixed piece of work: a loop of Python and a sort."""
    begin, n = time.process_time(), 0
    for i in range(500_000):
        n += i % 7
    np.sort(np.random.default_rng(n).random(330_000))
    return time.process_time() - begin


@contextmanager
def within(seconds: float):
    """Check that a block takes less processor time than `seconds` of the usual machine."""
    before, begin = yardstick(), time.process_time()
    yield
    taken = time.process_time() - begin
    slower = max(before, yardstick(), USUAL) / USUAL
    assert taken < seconds * slower, f"{taken:.1f} s of processor time on a machine {slower:.1f} times as slow as usual"
