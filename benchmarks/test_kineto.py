"""Speed of reading traces of the PyTorch profiler: `pytest benchmarks/test_kineto.py -s`; MB of text per second of
processor time of one core.

`scan` finds all slices and their names; `read` also sorts the slices of each thread and stream and repairs them; `json`
and `orjson` (if it is installed) make objects from the text without interpreting them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.readers import report_speed

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.kineto_writer import random_run

from tracecols.converters.kineto.recording import Recording

TEXT = 1 << 25
"""Bytes of text that are read."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A generated trace of about `TEXT` bytes."""
    (one,) = random_run(1, 1, 100)
    (many,) = random_run(1, 1, 100 * TEXT // len(one.text()))
    return many.write(tmp_path_factory.mktemp("kineto") / "generated.json")


def _scan(path):
    class Scan(Recording):
        def _put_in_order(self, rows):
            self.places = []

    return lambda: Scan(path)


def _json(path):
    return lambda: json.loads(path.read_bytes())


def _orjson(path):
    orjson = pytest.importorskip("orjson")
    return lambda: orjson.loads(path.read_bytes())


WAYS = {"scan": _scan, "read": lambda path: lambda: Recording(path), "json": _json, "orjson": _orjson}


@pytest.mark.parametrize("way", WAYS)
def test_text(benchmark, trace, way):
    report_speed(benchmark, way, WAYS[way](trace), trace.stat().st_size / 1e6, "MB")
