"""Conversion needs the same memory for a short trace and a long one."""

from __future__ import annotations

from benchmarks.steps import peak_memory
from benchmarks.synthetic import make_archive


def test_memory__does_not_depend_on_length(benchmark):
    short, long = peak_memory(make_archive(10_000_000)), 0

    def convert_long():
        nonlocal long
        long = peak_memory(make_archive(20_000_000))

    make_archive(20_000_000)
    benchmark.pedantic(convert_long, rounds=1)
    benchmark.extra_info["MiB, 10 M and 20 M events"] = short >> 20, long >> 20
    # 10 M more events are 130 MB of columns; both fill the buffers (2**20 events of a location), the rest varies by 5 %
    assert long < 1.15 * short
