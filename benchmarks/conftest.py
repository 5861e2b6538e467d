"""The archives to measure, as a parameter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.steps import Steps
from benchmarks.workloads import archives


def pytest_addoption(parser):
    parser.addoption("--events", type=float, default=1e6, help="events of the synthetic archive")


def pytest_generate_tests(metafunc):
    if "steps" in metafunc.fixturenames:
        found = archives(int(metafunc.config.getoption("events")))
        metafunc.parametrize(
            "steps", [(n, p) for n, p in found.items()], ids=list(found), indirect=True, scope="module"
        )


@pytest.fixture(scope="module")
def steps(request):
    name, path = request.param
    result = Steps(path)
    result.name = name
    yield result
    result.close()
