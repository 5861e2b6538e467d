"""The steps under pytest-benchmark: `pytest benchmarks -k scan --workloads bt-mz` while changing one of them."""

from __future__ import annotations

import pytest

from benchmarks.steps import STEPS, YARDSTICKS, Watch

WATCH = Watch()


class TestSteps:
    # what a step does beforehand does not count: time passes while its stopwatch runs
    pytestmark = pytest.mark.benchmark(timer=lambda: WATCH.seconds)

    # not the peers: two versions of one C library do not get along in a process
    @pytest.mark.parametrize("step", [name for name, s in STEPS.items() if s.group != "peers"])
    def test_step(self, benchmark, subject, step):
        declared = STEPS[step]
        if declared.family and not subject.n_rows(declared.family):
            pytest.skip("no such events")
        if declared.most_events is not None and subject.n_events > declared.most_events:
            pytest.skip(f"more than {declared.most_events:,} events")
        if declared.missing is not None and (why := declared.missing(subject.archive)):
            pytest.skip(why)
        benchmark.group = subject.name
        benchmark.extra_info["events"] = subject.n_events
        benchmark.pedantic(declared.run, args=(subject, WATCH), rounds=3, warmup_rounds=1)

    @pytest.mark.parametrize("yardstick", YARDSTICKS)
    def test_yardstick(self, benchmark, subject, yardstick):
        benchmark.group = subject.name
        benchmark.extra_info["events"] = subject.n_sampled
        benchmark.pedantic(YARDSTICKS[yardstick], args=(subject, WATCH), rounds=3, warmup_rounds=1)
