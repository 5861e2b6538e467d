"""Memory of an analysis: given limits, free memory, and the behaviour beyond the limit."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import LONG
from support.command_line import executed, python, run

from tracecols.enhance.dataflow import spill
from tracecols.enhance.dataflow.columns import Columns
from tracecols.enhance.dataflow.partitions import divide
from tracecols.enhance.scan.gaps import LEAST_EVENTS, MOST_EVENTS, WINDOW_EVENTS, window_events
from tracecols.errors import AnalysisError
from tracecols.given.memory import LEAST, as_memory
from tracecols.schema import EventKind
from tracecols.work import heap, memory
from tracecols.work.executors import Threads
from tracecols.work.jobs import n_jobs
from tracecols.work.memory import Budget

ROOT = Path(__file__).parents[2]
GIB = 1 << 30


# -- given limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "n"),
    [("4GB", 4 * 10**9), ("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("1TB", 10**12), (10**9, 10**9), (None, None)],
)
def test_sizes__in_bytes(given, n):
    assert as_memory(given) == n


@pytest.mark.parametrize("given", ["4Gb", "4", "-1GB", "lots", "nanGB", 3.5, True, 0, "399MB", b"4GB"])
def test_sizes__that_are_none_or_too_small(given, trace):
    with pytest.raises(ValueError, match=r"not an amount of memory|too little memory"):
        as_memory(given)
    with pytest.raises(AnalysisError, match=r"not an amount of memory|too little memory"):
        trace.analyze(memory=given)
    if isinstance(given, str):
        output = executed("analyze", trace.path, "--memory", given, code=2)
        assert "amount of memory" in output or "too little memory" in output


def test_memory__is_not_for_clusters(trace):
    with pytest.raises(AnalysisError, match="a cluster is given"):
        trace.analyze(memory="1GB", cluster=object())


# -- free memory -------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Write files of a system, by path; 8 GiB are free on the machine."""
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "cgroup")

    def write(files):
        for name, text in ({"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {8 << 20} kB\n"} | files).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return write


def test_available__without_groups(machine):
    machine({})
    assert memory.available() == 8 * GIB
    assert Budget.default().memory == 4 * GIB


def test_available__in_a_group_of_version_2(machine):
    machine(
        {
            "proc/self/cgroup": "0::/batch/job\n",
            "cgroup/batch/memory.max": f"{3 * GIB}\n",
            "cgroup/batch/memory.current": f"{2 * GIB}\n",
            "cgroup/batch/memory.stat": f"anon 1\ninactive_file {GIB}\n",
            "cgroup/batch/job/memory.max": "max\n",
            "cgroup/batch/job/memory.current": "1\n",
        }
    )
    # the system reclaims the pages of files: 3 - 2 + 1
    assert memory.available() == 2 * GIB


def test_available__in_a_group_of_version_1(machine):
    machine(
        {
            "proc/self/cgroup": "5:cpuset:/\n4:cpu,memory:/docker/0a\n0::/\n",
            # in a container, its group is the root
            "cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
            "cgroup/memory/memory.usage_in_bytes": f"{GIB // 4}\n",
        }
    )
    assert memory.available() == GIB * 3 // 4


def test_available__of_a_group_without_limit_is_that_of_the_machine(machine):
    machine(
        {
            "proc/self/cgroup": "4:memory:/\n",
            "cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "cgroup/memory/memory.usage_in_bytes": "1\n",
        }
    )
    assert memory.available() == 8 * GIB


def test_available__in_a_group_that_lets_processes_wait(machine):
    machine(
        {
            "proc/self/cgroup": "0::/job\n",
            "cgroup/job/memory.max": "max\n",
            "cgroup/job/memory.high": f"{3 * GIB}\n",
            "cgroup/job/memory.current": f"{GIB}\n",
        }
    )
    assert memory.available() == 2 * GIB


@pytest.mark.parametrize(
    ("files", "jobs"),
    [
        ({}, 64),
        ({"proc/self/cgroup": "0::/a/b\n", "cgroup/a/b/cpu.max": "max 100000\n"}, 64),
        ({"proc/self/cgroup": "0::/a/b\n", "cgroup/a/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/a\n", "cgroup/cpu.max": "1000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/a\n", "cgroup/a/cpu.max": "9999999 100000\n"}, 64),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/0a\n0::/\n",
                "cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
                "cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n",
                "cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            64,
        ),
    ],
)
def test_jobs__are_no_more_than_the_cores_of_the_group(files, jobs, machine, monkeypatch):
    machine(files)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert n_jobs(None) == jobs
    assert n_jobs(7) == 7
    assert n_jobs(10**24) < 10**6


def test_budget__is_never_too_small_by_default(machine):
    machine({"proc/meminfo": "MemAvailable: 100000 kB\n"})
    assert Budget.default().memory == LEAST


def test_available__of_this_machine():
    assert (memory.available() or 1) > 0


# -- consequences of the limit -----------------------------------------------------------------------------------------


def test_budget__decides_windows_partitions_and_what_is_held():
    little, much = Threads(2, Budget(LEAST)), Threads(2, Budget(64 * GIB))
    assert little.budget.held < spill.BUDGET < much.budget.held
    sizes = [window_events(n, 2, of.memory) for n in (10**6, 10**9) for of in (little, much)]
    assert LEAST_EVENTS <= sizes[0] == sizes[2] < sizes[1] == WINDOW_EVENTS < sizes[3] == MOST_EVENTS
    # 64 processes with 2^17 rows each
    process, sizes = np.arange(64, dtype=np.int32), np.full(64, 1 << 17)
    assert len(divide(process, sizes, memory=little.memory)) == 64
    assert len(divide(process, sizes, memory=much.memory)) == len(divide(process, sizes)) < 64


def test_spill__writes_what_exceeds_the_budget_where_it_is_told(tmp_path):
    columns = Columns(1 << 20, {"a": np.arange(1 << 20) << 33})
    for budget, n_files in ((Budget(LEAST, tmp_path), 3), (Budget(LEAST + 8 * (24 << 20), tmp_path), 0)):
        with spill.Spill(budget=budget) as kept:
            held = [kept.keep(columns) for _ in range(5)]
            assert all(np.array_equal(of.column("a"), columns.a) for of in held)
            folders = list(tmp_path.iterdir())
            assert sum(len(list(f.iterdir())) for f in folders) == n_files
            assert kept.n_written == sum(path.stat().st_size for f in folders for path in f.iterdir())
            assert (kept.n_written > 0) == (n_files > 0)
    assert not list(tmp_path.iterdir())


def test_turns__are_taken_as_far_as_the_memory_suffices():
    turns, running, most = memory.Turns(10), [], []

    def run(size):
        with turns.take(size):
            running.append(size)
            most.append(sum(running))
            time.sleep(0.002)
            running.remove(size)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, [4, 5, 3, 30, 2, 7, 11, 1, 9, 10, 5, 5]))
    # a task that needs more than the limit runs alone
    assert max(n for n in most if n not in (30, 11)) <= 10 and {30, 11} <= set(most)
    with memory.Turns().take(1 << 60), pytest.raises(KeyError), turns.take(30):
        raise KeyError
    with turns.take(30):
        pass


@pytest.mark.skipif(not heap.has_trim(), reason="the C library gives back what is free by itself")
def test_within__gives_back_what_is_free():
    """Freed heap blocks between others remain in the memory of the process."""
    blocks = [np.ones(4 << 10) for _ in range(8_000)]
    held = memory.resident()
    del blocks[::2]
    assert memory.resident() > held - (64 << 20)
    with memory.within(held // 2):
        until = time.monotonic() + LONG
        while memory.resident() > held - (64 << 20):
            assert time.monotonic() < until
            time.sleep(0.01)
    assert len(blocks) == 4_000
    # without a limit
    with memory.within(None):
        pass


def test_working__lets_arrow_use_the_heap_until_the_last_thread_has_ended():
    before = pa.default_memory_pool().backend_name
    first, second = heap.working(), heap.working()
    with second:
        with first:
            assert pa.default_memory_pool().backend_name == "system"
        assert pa.default_memory_pool().backend_name == "system"
    assert pa.default_memory_pool().backend_name == before


@pytest.mark.slow
def test_memory__changes_nothing(trace):
    wanted, found = trace.analyze(), trace.analyze(memory="400MB")
    assert found.facts == wanted.facts
    for p, cells in wanted.cells.items():
        assert np.array_equal(found.cells[p].value, cells.value), p


@pytest.mark.slow
def test_root_causes__for_which_there_may_be_no_room_are_named_before_the_work_begins(trace, tmp_path, monkeypatch):
    def analyze(*more):
        found = run("analyze", trace.path, "-o", tmp_path / "x.severity", *more)
        assert found.exit_code == 0
        return found.stderr

    monkeypatch.setattr("tracecols.work.executors.free_for_files", lambda folder: 0)
    assert "root causes" not in analyze("--memory", "400MB", "-q")
    # 70 MB for all tasks
    n = trace.store.manifest["events_by_kind"][str(int(EventKind.ENTER))]
    monkeypatch.setattr("tracecols.search.limits.CALL_BYTES", 71_000_000 // n + 1)
    said = analyze("--memory", "400MB", "-q", "--force")
    assert said.startswith("note: root causes may take 71 MB") and "--scratch FOLDER" in said
    assert "root causes" not in analyze("--memory", "400MB", "-q", "-p", "mpi_latesender", "--force")
    monkeypatch.setattr("tracecols.work.executors.free_for_files", lambda folder: 10_000_000)
    assert "may take" not in analyze("--memory", "400MB", "-q", "--force")


def test_memory_errors__name_the_option(trace, monkeypatch):
    def fail(*_: object) -> None:
        raise MemoryError("Unable to allocate 7.45 GiB")

    monkeypatch.setattr("tracecols.analysis.run.run", fail)
    output = executed("analyze", trace.path, code=1)
    assert "not enough memory: Unable to allocate 7.45 GiB\n" in output
    assert "--memory 2GB" in output


# -- files -------------------------------------------------------------------------------------------------------------

ANALYZE = """
import os, signal, sys
from pathlib import Path
from tracecols.enhance.dataflow import spill
spill.BUDGET = 0
at, what = int(sys.argv[1]), sys.argv[2]
new, made = spill.Spill._new_file, []
def new_file(self):
    made.append(1)
    if len(made) == at:
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
    return new(self)
spill.Spill._new_file = new_file
from tracecols.cli import group
group(sys.argv[3:])
"""


def analyze(at, what, trace, folder, scratch, code=0):
    words = [at, what, "analyze", trace.path, "-o", "x.severity", "--scratch", scratch, "--jobs", "1"]
    return python("-c", ANALYZE, *words, cwd=folder, code=code)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals and locks on folders")
def test_scratch__of_a_killed_analysis_goes_with_the_next(trace, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # killed at the beginning, and after some steps have left files
    for at in (2, 9):
        analyze(at, "kill", trace, tmp_path, scratch, -signal.SIGKILL)
        assert len(list(scratch.iterdir())) == 1
        assert not (tmp_path / "x.severity").exists()
    analyze(-1, "", trace, tmp_path, scratch)
    assert not list(scratch.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
def test_scratch__that_is_full(trace, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = analyze(5, "full", trace, tmp_path, scratch, 1)
    assert done.stderr.startswith(f"error: cannot write the temporary file {scratch}")
    assert "--scratch FOLDER of tracecols analyze" in done.stderr
    assert not list(scratch.iterdir()) and not (tmp_path / "x.severity").exists()
