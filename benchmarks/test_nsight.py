"""Speed of reading exports of Nsight Systems: `pytest benchmarks/test_nsight.py -s`; rows per second of processor time.

`open` gathers and sorts all rows and counts their events; `convert` also writes a store; `sqlite3` only fetches the
same columns of the same tables as tuples.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

from benchmarks.readers import report_speed

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.nsight_writer import Export

import tracecols
from tracecols.converters.nsight.content import DEVICE_COLUMNS
from tracecols.converters.registry import open_source

STEPS = 50_000
"""Number of steps, each with two ranges, two calls and a kernel in each of two processes."""

COLUMNS = {
    "NVTX_EVENTS": ("start", "end", "eventType", "textId", "domainId", "globalTid", "text", "binaryData"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "eventClass", "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_KERNEL": (*DEVICE_COLUMNS, "shortName"),
}


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A generated export."""
    made = Export()
    for k in range(STEPS):
        at = 100 * k
        for pid in (1, 2):
            where = {"pid": pid, "device": pid - 1, "context": pid}
            made.range(at, at + 90, f"aten::linear, op_id = {2 * k}", pid).range(
                at + 5, at + 40, f"aten::mm, seq = {k}", pid
            )
            made.call(at + 10, at + 15, "cudaStreamIsCapturing_v10000", 2 * k, pid)
            made.call(at + 20, at + 30, correlation=2 * k + 1, pid=pid)
            made.kernel(at + 35, at + 120, f"kernel_{k % 40}", 2 * k + 1, **where)
    return made.write(tmp_path_factory.mktemp("nsight") / "generated.sqlite")


def _fetch(path):
    def run():
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
            for table, columns in COLUMNS.items():
                wanted = ", ".join(f'"{c}"' for c in columns)
                cursor = file.execute(f"SELECT {wanted} FROM {table}")
                while cursor.fetchmany(1 << 16):
                    pass
        file.close()

    return run


WAYS = {
    "sqlite3": _fetch,
    "open": lambda path: lambda: open_source(path),
    "convert": lambda path: lambda: tracecols.convert(path, path.with_suffix(".trace"), jobs=1, force=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_rows(benchmark, export, way):
    report_speed(benchmark, way, WAYS[way](export), 10 * STEPS / 1e6, "million rows")
