"""The traces to measure, as a parameter: `--events 1e6` is the size of the irregular ones."""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.steps import Subject
from benchmarks.workloads import workloads


def pytest_addoption(parser):
    parser.addoption("--events", type=float, default=1e6, help="events of the irregular workloads")
    parser.addoption(
        "--workloads", nargs="+", default=["hybrid_2x3", "bt-mz", "irregular*"], metavar="NAME",
        help="which (python -m benchmarks list); shell patterns",
    )  # fmt: skip


def pytest_generate_tests(metafunc):
    if "subject" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("workloads")
        names = [n for n in workloads() if any(fnmatch(n, pattern) for pattern in chosen)]
        metafunc.parametrize("subject", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def subject(request, tmp_path_factory):
    """A trace and its store, as the steps want it; with its name and what it holds."""
    from tracecols import convert
    from tracecols.jobs import n_jobs
    from tracecols.store import Store

    folder = tmp_path_factory.mktemp("subject")
    workload = workloads(int(request.config.getoption("events")))[request.param]
    archive = workload.make(folder)
    store = convert(archive, folder / "kept.trace")
    result = Subject(archive, store, folder, n_jobs(None))
    result.name = request.param
    result.n_events = Store(store).manifest["n_events"]
    result.n_rows = Store(store).n_rows
    return result
