"""Speed of reading the text of Paraver traces: `pytest benchmarks/test_paraver.py -s`; MB of text per second of processor
time of one core.

`scan` finds all records and their values; `open` also groups them by location in a temporary file, decodes them once,
and joins teams and collective operations; `pandas` is the CSV reader of pandas, which converts the same lines to
columns without interpreting them.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.readers import report_speed

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.paraver_writer import random_program, write

from tracecols.converters.paraver import files, index, scan
from tracecols.converters.registry import open_source

TEXT = 1 << 25
"""Bytes of text that are read."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A generated trace of about `TEXT` bytes, its events repeated at later times."""
    path = tmp_path_factory.mktemp("paraver") / "generated.prv"
    lines = random_program(1, 8, 2, 1)
    per_step = len(random_program(1, 8, 2, 401)) - len(lines)
    return write(path, random_program(1, 8, 2, TEXT * 400 // per_step))


def _scan(path):
    header, names = files.read_header(path), files.read_names(path)
    table = index.type_table(names.labels)
    first = np.cumsum([0, *(n for n, _ in header.threads)])
    results = index.empty_results(files.BLOCK + files.LONGEST_LINE, int(first[-1]))

    def run():
        for block in files.Lines(path).blocks():
            state = np.zeros(scan.SCAN_STATE, np.int64)
            state[scan.AT] = header.size if not block.at else 0
            assert scan.scan_lines(block.data, first, table, state, results) == scan.END

    return run


def _pandas(path):
    import pandas as pd

    text = path.read_bytes()
    text = text[files.read_header(path).size :]
    widest = max(line.count(b":") for line in text[: 1 << 20].splitlines()) + 20
    return lambda: pd.read_csv(io.BytesIO(text), sep=":", header=None, names=range(widest), low_memory=False)


WAYS = {"scan": _scan, "open": lambda path: lambda: open_source(path), "pandas": _pandas}


@pytest.mark.parametrize("way", WAYS)
def test_text(benchmark, trace, way, monkeypatch):
    monkeypatch.setattr(index, "n_jobs", lambda _: 1)
    report_speed(benchmark, way, WAYS[way](trace), trace.stat().st_size / 1e6, "MB")
