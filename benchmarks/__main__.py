"""Print one table: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.steps import Steps, peak_memory
from benchmarks.synthetic import make_archive
from benchmarks.workloads import archives

COPY, PARQUET = "copy of the columns", "pyarrow writes the columns"


def seconds_of(function: Callable[[], Any]) -> float:
    """Time one call."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def measure(archive: Path, jobs: int, rounds: int) -> tuple[Steps, dict[str, float]]:
    """Time all steps in turn, some rounds after one that does not count; median seconds of each."""
    steps = Steps(archive)
    timed = steps.timed(jobs)
    taken: dict[str, list[float]] = {name: [] for name in timed}
    taken["patterns, 1 job"] = []
    for i in range(rounds + 1):
        for name, function in timed.items():
            taken[name].append(seconds_of(function))
        model = steps.scan()
        taken["patterns, 1 job"].append(seconds_of(lambda model=model: steps.patterns(model)))
        if i == 0:
            taken = {name: [] for name in taken}
    return steps, {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure every step on every archive.")
    parser.add_argument("--events", type=float, default=10e6, help="size of the synthetic archive (default 10e6)")
    parser.add_argument("--rounds", type=int, default=5, help="how often, besides once to warm up (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="threads where there are several (default 2)")
    parser.add_argument("--no-memory", action="store_true", help="leave out the peak memory on two lengths of trace")
    arguments = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=120)
    for name, archive in archives(int(arguments.events)).items():
        steps, seconds = measure(archive, arguments.jobs, arguments.rounds)
        n = steps.n_events
        # an event record with counters, or of a collective operation, becomes several events
        per_record = steps.n_records != n
        of = f" of {steps.n_records:,} records" if per_record else ""
        table = Table(title=f"{name}: {n:,} events{of}, medians of {arguments.rounds}", title_justify="left")
        headings = ["step", "seconds", "ns/event", "M events/s", "bytes/event", "x copy", "x pyarrow"]
        for heading in headings + per_record * ["M records/s"]:
            table.add_column(heading, justify="left" if heading == "step" else "right")
        sizes = {"decode": steps.archive_bytes, "convert, 1 job": steps.store_bytes}
        for step, taken in seconds.items():
            table.add_row(
                step, f"{taken:.4f}", f"{taken / n * 1e9:.2f}", f"{n / taken / 1e6:.1f}",
                f"{sizes[step] / n:.2f}" if step in sizes else "",
                f"{taken / seconds[COPY]:.2f}", f"{taken / seconds[PARQUET]:.2f}",
                *(per_record * [f"{steps.n_records / taken / 1e6:.1f}"]),
            )  # fmt: skip
        console.print(table)
        steps.close()
    if not arguments.no_memory:
        table = Table(title="peak memory of conversion, 1 job", title_justify="left")
        for heading in ("events", "MiB", "bytes/event"):
            table.add_column(heading, justify="right")
        for n in (int(arguments.events), int(arguments.events * 2)):
            most = peak_memory(make_archive(n))
            table.add_row(f"{n:,}", f"{most / 2**20:.0f}", f"{most / n:.1f}")
        console.print(table)


if __name__ == "__main__":
    main()
