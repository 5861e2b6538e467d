"""Measure the speed of readers of trace formats, in processor time of one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

ROUNDS = 3


def seconds_of(benchmark: Any, run: Callable[[], object]) -> float:
    """Return the minimum processor time of some runs, after a warm-up run.

    Parameters
    ----------
    benchmark : BenchmarkFixture
        Of pytest-benchmark.
    run : callable
    """
    run()
    seconds = []

    def timed() -> None:
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)

    benchmark.pedantic(timed, rounds=ROUNDS)
    return min(seconds)


def report_speed(benchmark: Any, way: str, run: Callable[[], object], amount: float, unit: str) -> None:
    """Run a reader, and report the amount of `unit` that it reads in a second of processor time."""
    speed = amount / seconds_of(benchmark, run)
    benchmark.extra_info[f"{unit}/s"] = round(speed, 2)
    print(f"\n{way}: {speed:,.4g} {unit}/s of {amount:,.4g} {unit}")
