"""Conversion needs the same memory for a short trace and a long one."""

from __future__ import annotations

from benchmarks.steps import peak_memory
from benchmarks.synthetic import make_archive


def test_memory__does_not_depend_on_length(benchmark):
    short, long = peak_memory(make_archive(5_000_000)), 0

    def convert_long():
        nonlocal long
        long = peak_memory(make_archive(20_000_000))

    make_archive(20_000_000)
    benchmark.pedantic(convert_long, rounds=1)
    benchmark.extra_info["MiB, 5 M and 20 M events"] = short >> 20, long >> 20
    # 15 M more events are 195 MB of columns; batches of 2**20 are full in both, the allocator's moods are below 15 %
    assert long < 1.15 * short
