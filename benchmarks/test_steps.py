"""The steps under pytest-benchmark: `pytest benchmarks/test_steps.py -k scan --workloads bt-mz` while changing one of them."""

from __future__ import annotations

import pytest

from benchmarks.peers import STEPS
from benchmarks.process import StepProcess

LIMIT = 60.0
"""Seconds that the rounds of a step take together, about."""


class Clock:
    """Seconds that a step took in its own process, all rounds together."""

    seconds = 0.0


@pytest.mark.benchmark(timer=lambda: Clock.seconds)
@pytest.mark.parametrize("name", STEPS)
def test_step(benchmark, subject, name, pytestconfig):
    step = STEPS[name]
    if why := step.why_not(subject):
        pytest.skip(why)

    def run():
        Clock.seconds += process.run().seconds

    with StepProcess(name, subject) as process:
        # kernels are read, and files are where the system keeps what was read last
        first = process.run(is_watched=True)
        rounds = min(max(int(LIMIT / first.seconds), 1), pytestconfig.getoption("rounds"))
        benchmark.pedantic(run, rounds=rounds)
    if step.counts_events:
        assert first.made == subject.facts["n_events"]
    benchmark.group = subject.name
    benchmark.extra_info |= {**subject.facts, **process.figures()}
