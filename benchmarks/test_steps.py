"""The steps under pytest-benchmark: `pytest benchmarks/test_steps.py -k scan --workloads bt-mz` while changing one of
them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from benchmarks.peers import STEPS
from benchmarks.process import StepProcess
from benchmarks.steps import Subject
from benchmarks.workloads import workloads

LIMIT = 60.0
"""Approximate total time of the rounds of a step, in seconds."""


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
        Clock.seconds += (first if first.seconds > LIMIT else process.run()).seconds

    with StepProcess(name, subject) as process:
        # the first run loads kernels, and brings files into the page cache; that of a long step is the measured one
        first = process.run(is_watched=True)
        rounds = min(max(int(LIMIT / first.seconds), 1), pytestconfig.getoption("rounds"))
        benchmark.pedantic(run, rounds=rounds)
    if step.counts_events:
        assert first.made == subject.facts["n_events"]
    benchmark.group = subject.name
    benchmark.extra_info |= {**subject.facts, **process.figures()}


def peak_memory(n_events):
    """Convert an irregular trace in a separate process; return its peak memory in bytes."""
    with tempfile.TemporaryDirectory(prefix="tracecols-") as name:
        folder = Path(name)
        archive = workloads(n_events)["irregular"].make(folder)
        with StepProcess("convert", Subject("irregular", archive, folder / "kept.trace", folder, 1)) as process:
            return process.run().peak_bytes


def test_memory__does_not_depend_on_length(benchmark):
    short = peak_memory(10_000_000)
    long = benchmark.pedantic(lambda: peak_memory(20_000_000), rounds=1)
    benchmark.extra_info["MiB, 10 M and 20 M events"] = short >> 20, long >> 20
    # 10 M more events are 130 MB of columns; both fill the buffers (2**20 events of a location), the rest varies by 5 %
    assert long < 1.15 * short
