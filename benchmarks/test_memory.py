"""Conversion needs the same memory for a short trace and a long one."""

from __future__ import annotations

from benchmarks.process import run_task


def peak_memory(n_events, folder):
    """Convert an irregular trace in a process of its own; the most memory it held, in bytes."""
    folder.mkdir()
    common = {"folder": str(folder), "jobs": 1, "rounds": 1}
    made = run_task({**common, "workload": "irregular", "n_events": n_events})
    n = made["facts"]["n_events"]
    task = {**common, "step": "convert", "archive": made["archive"], "store": made["store"], "n_events": n}
    return run_task(task)["peak_bytes"]


def test_memory__does_not_depend_on_length(benchmark, tmp_path):
    short, long = peak_memory(10_000_000, tmp_path / "short"), 0

    def convert_long():
        nonlocal long
        long = peak_memory(20_000_000, tmp_path / "long")

    benchmark.pedantic(convert_long, rounds=1)
    benchmark.extra_info["MiB, 10 M and 20 M events"] = short >> 20, long >> 20
    # 10 M more events are 130 MB of columns; both fill the buffers (2**20 events of a location), the rest varies by 5 %
    assert long < 1.15 * short
