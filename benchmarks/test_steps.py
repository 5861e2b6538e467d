"""The steps under pytest-benchmark; `--events 10e6` on a synthetic archive of that size, 1e6 by default."""

from __future__ import annotations

import pytest

STEPS = (
    "copy of the columns",
    "pyarrow writes the columns",
    "decode",
    "convert, 1 job",
    "convert, 2 jobs",
    "scan, 1 job",
    "archive to severities, 2 jobs",
    "tracecols analyze ARCHIVE",
)


@pytest.mark.parametrize("step", STEPS)
def test_step(benchmark, steps, step):
    benchmark.group = steps.name
    benchmark.extra_info["events"] = steps.n_events
    benchmark.pedantic(steps.timed(2)[step], rounds=3, warmup_rounds=1)


def test_patterns(benchmark, steps):
    benchmark.group = steps.name
    benchmark.extra_info["events"] = steps.n_events
    benchmark.pedantic(steps.patterns, setup=lambda: ((steps.scan(),), {}), rounds=3, warmup_rounds=1)
