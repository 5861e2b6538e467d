"""Speed of reading other formats than OTF2, in processor time of one core: `pytest benchmarks/test_readers.py -s`.

* Kineto, MB of text per second: `scan` finds all slices and their names; `read` also sorts the slices of each thread
  and stream and repairs them; `json` and `orjson` (if it is installed) make objects from the text.
* Paraver, MB of text per second: `scan` finds all records and their values; `open` also groups them by location in a
  temporary file, decodes them once, and joins teams and collective operations; `pandas` is its CSV reader.
* Nsight Systems, million rows per second: `open` gathers and sorts all rows and counts their events; `convert` also
  writes a store; `sqlite3` only fetches the same columns as tuples.
"""

from __future__ import annotations

import io
import json
import sqlite3
import time

import numpy as np
import pytest
from support import kineto_writer, nsight_writer, paraver_writer

import tracecols
from tracecols.converters.kineto.recording import Recording
from tracecols.converters.nsight.content import DEVICE_COLUMNS
from tracecols.converters.paraver import files, index, scan
from tracecols.converters.registry import open_source

TEXT = 1 << 25
"""Bytes of text that are read."""
STEPS = 50_000
"""Number of steps of an export, each with two ranges, two calls and a kernel in each of two processes."""
ROUNDS = 3


def _kineto(path):
    """Write a trace of about `TEXT` bytes."""
    (one,) = kineto_writer.random_run(1, 1, 100)
    (many,) = kineto_writer.random_run(1, 1, 100 * TEXT // len(one.text()))
    return many.write(path.with_suffix(".json"))


def _paraver(path):
    """Write a trace of about `TEXT` bytes, its events repeated at later times."""
    lines = paraver_writer.random_program(1, 8, 2, 1)
    per_step = len(paraver_writer.random_program(1, 8, 2, 401)) - len(lines)
    return paraver_writer.write(
        path.with_suffix(".prv"), paraver_writer.random_program(1, 8, 2, TEXT * 400 // per_step)
    )


def _nsight(path):
    """Write an export."""
    made = nsight_writer.Export()
    for k in range(STEPS):
        at = 100 * k
        for pid in (1, 2):
            where = {"pid": pid, "device": pid - 1, "context": pid}
            made.range(at, at + 90, f"aten::linear, op_id = {2 * k}", pid)
            made.range(at + 5, at + 40, f"aten::mm, seq = {k}", pid)
            made.call(at + 10, at + 15, "cudaStreamIsCapturing_v10000", 2 * k, pid)
            made.call(at + 20, at + 30, correlation=2 * k + 1, pid=pid)
            made.kernel(at + 35, at + 120, f"kernel_{k % 40}", 2 * k + 1, **where)
    return made.write(path.with_suffix(".sqlite"))


def _scan_kineto(path):
    class Scan(Recording):
        def _put_in_order(self, rows):
            self.places = []

    return lambda: Scan(path)


def _orjson(path):
    orjson = pytest.importorskip("orjson")
    return lambda: orjson.loads(path.read_bytes())


def _scan_paraver(path):
    header, names = files.read_header(path), files.read_names(path)
    table = index.type_table(names.labels)
    threads = scan.Threads(np.cumsum([0, *(n for n, _ in header.threads)]))
    whole = index.Index.__new__(index.Index)
    whole.n_locations = int(threads.first[-1])
    whole._local = type("Local", (), {})()

    def run():
        for block in files.Lines(path).blocks():
            space = whole._workspace(block.data.size)
            state = np.zeros(scan.SCAN_STATE, np.int64)
            state[scan.AT] = header.size if not block.at else 0
            assert scan.scan_lines(block.data, threads, table, space.cache, state, space.found) == scan.END

    return run


def _pandas(path):
    import pandas as pd

    text = path.read_bytes()
    text = text[files.read_header(path).size :]
    widest = max(line.count(b":") for line in text[: 1 << 20].splitlines()) + 20
    return lambda: pd.read_csv(io.BytesIO(text), sep=":", header=None, names=range(widest), low_memory=False)


TABLES = {
    "NVTX_EVENTS": ("start", "end", "eventType", "textId", "domainId", "globalTid", "text", "binaryData"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "eventClass", "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_KERNEL": (*DEVICE_COLUMNS, "shortName"),
}


def _fetch(path):
    def run():
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
            for table, columns in TABLES.items():
                wanted = ", ".join(f'"{c}"' for c in columns)
                cursor = file.execute(f"SELECT {wanted} FROM {table}")
                while cursor.fetchmany(1 << 16):
                    pass
        file.close()

    return run


def _convert(path):
    return lambda: tracecols.convert(path, path.with_suffix(".trace"), jobs=1, force=True)


def _open(path):
    return lambda: open_source(path)


MADE = {"kineto": _kineto, "paraver": _paraver, "nsight": _nsight}
WAYS = {
    ("kineto", "scan"): _scan_kineto,
    ("kineto", "read"): lambda path: lambda: Recording(path),
    ("kineto", "json"): lambda path: lambda: json.loads(path.read_bytes()),
    ("kineto", "orjson"): _orjson,
    ("paraver", "scan"): _scan_paraver,
    ("paraver", "open"): _open,
    ("paraver", "pandas"): _pandas,
    ("nsight", "sqlite3"): _fetch,
    ("nsight", "open"): _open,
    ("nsight", "convert"): _convert,
}
"""What reads a trace, by format and name: functions of its path that return what is measured."""


@pytest.fixture(scope="module")
def trace(request, tmp_path_factory):
    """The format and the path of a generated trace."""
    return request.param, MADE[request.param](tmp_path_factory.mktemp(request.param) / "generated")


@pytest.mark.parametrize(("trace", "way"), WAYS, indirect=["trace"])
def test_reader(benchmark, trace, way, monkeypatch):
    monkeypatch.setattr(index, "n_jobs", lambda _: 1)
    name, path = trace
    amount, unit = (STEPS / 1e5, "million rows") if name == "nsight" else (path.stat().st_size / 1e6, "MB")
    run, seconds = WAYS[trace[0], way](path), []
    run()

    def timed():
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)

    benchmark.pedantic(timed, rounds=ROUNDS)
    speed = benchmark.extra_info[f"{unit}/s"] = round(amount / min(seconds), 2)
    print(f"\n{name}, {way}: {speed:,.4g} {unit}/s of {amount:,.4g} {unit}")
