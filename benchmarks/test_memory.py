"""Conversion needs the same memory for a short trace and a long one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.process import StepProcess
from benchmarks.steps import Subject
from benchmarks.workloads import workloads


def peak_memory(n_events):
    """Convert an irregular trace in a process of its own; the most memory it held, in bytes."""
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
