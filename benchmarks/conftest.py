"""Options of the benchmarks, the trace that each of them is measured on, and machine information in the results."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from benchmarks.steps import Subject
from benchmarks.workloads import BYTES_PER_EVENT, bytes_of, choose
from tracecols import convert
from tracecols.model.model import enhance
from tracecols.schema import SIDE_TABLES
from tracecols.schema.severity import DEFAULT
from tracecols.store import Store
from tracecols.work.jobs import n_jobs

PACKAGES = ("tracecols", "numpy", "pandas", "pyarrow", "numba", "llvmlite", "duckdb", "otf2")


OPTIONS = {
    "--workloads": {"nargs": "+", "default": [], "metavar": "NAME", "help": "traces: shell patterns, or paths of archives or stores"},
    "--large": {"action": "store_true", "help": "10^8 and 10^9 events, too: two hours more, and 45 GB of room"},
    "--events": {"type": float, "default": 1e7, "help": "events of the irregular workloads (default 1e7)"},
    "--rounds": {"type": int, "default": 5, "help": "how often, besides once before (default 5)"},
    "--jobs": {"type": int, "help": "threads where there are several (default: one per core)"},
    "--conventions": {"default": DEFAULT, "help": f"of analyses (default: {DEFAULT}, as of the commands)"},
    "--scratch": {"type": Path, "default": Path(tempfile.gettempdir()), "help": "folder of generated traces and stores"},
}  # fmt: skip


def pytest_addoption(parser):
    for name, about in OPTIONS.items():
        parser.getgroup("tracecols").addoption(name, **about)


def pytest_generate_tests(metafunc):
    if "subject" in metafunc.fixturenames:
        option = metafunc.config.getoption
        try:
            chosen = choose(option("workloads"), option("large"), int(option("events")))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        metafunc.parametrize("subject", chosen, indirect=True, scope="module", ids=lambda workload: workload.name)


@pytest.fixture(scope="module")
def subject(request):
    """The trace of a workload and its store, which are removed afterwards."""
    workload, option = request.param, request.config.getoption
    needed, free = workload.n_events * BYTES_PER_EVENT, shutil.disk_usage(option("scratch")).free
    if needed > free:
        pytest.fail(f"no room: needs {needed / 2**30:.0f} GiB, {free / 2**30:.0f} GiB are free (--scratch)")
    with tempfile.TemporaryDirectory(prefix="tracecols-", dir=option("scratch")) as name:
        folder, jobs = Path(name), n_jobs(option("jobs"))
        archive = workload.make(folder)
        is_store = archive.is_dir() and (archive / "manifest.json").exists()
        store = Store(archive if is_store else convert(archive, folder / "kept.trace", jobs=jobs))
        facts = {
            "workload": workload.name,
            "about": workload.about,
            "series": workload.series,
            "jobs": jobs,
            **{name: store.manifest[name] for name in ("n_events", "n_locations")},
            "n_rows": {name: store.n_rows(name) for name in SIDE_TABLES if store.n_rows(name)},
            "archive_bytes": 0 if is_store else bytes_of(archive),
            "store_bytes": sum(f.stat().st_size for f in store.path.rglob("*") if f.is_file()),
        }
        if workload.series == "call_paths":
            facts["n_call_paths"] = len(enhance(store, jobs).call_paths.whole)
        (folder / "scratch").mkdir()
        rules = option("conventions")
        yield Subject(workload.name, None if is_store else archive, store.path, folder / "scratch", jobs, rules, facts)


def pytest_benchmark_update_machine_info(config, machine_info):
    """Add facts that figures depend on, and remove the name of the machine."""
    machine_info.pop("node", None)
    machine_info["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    machine_info["load"] = os.getloadavg()[0]
    installed = {d.metadata["Name"]: d.version for d in distributions()}
    machine_info["packages"] = {name: installed[name] for name in PACKAGES if name in installed}
