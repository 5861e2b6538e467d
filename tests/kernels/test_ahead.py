"""Kernels that other processes compile while a command works (`tracecols.kernels.ahead`)."""

import importlib
import json
import time

import numba
import pytest
from conftest import LONG
from support.command_line import python

from tracecols.cli.progress import compiling_ahead
from tracecols.kernels import ahead
from tracecols.kernels.kinds import kinds_of, numba_type

LISTED = json.loads(ahead.LIST.read_text())


def plus_one(x):
    return x + 1


class Process:
    """A replacement for `Popen` objects, as far as `compiling_ahead` uses them."""

    def __init__(self):
        self.asked = []

    def terminate(self):
        self.asked.append("terminate")

    def wait(self):
        self.asked.append("wait")


@pytest.fixture
def started(monkeypatch):
    """Return the replacements of started processes, a list for each call of `start`."""
    calls = []

    def start(n):
        calls.append([Process() for _ in range(n)])
        return calls[-1]

    monkeypatch.setattr(ahead, "start", start)
    return calls


@pytest.mark.parametrize("module,name,kinds", LISTED, ids=[f"{k}-{row[1]}" for k, row in enumerate(LISTED)])
def test_listed_kinds__are_of_kernels_and_types(module, name, kinds):
    kernel = getattr(importlib.import_module(module), name)
    assert len([numba_type(k) for k in kinds_of(kinds)]) == kernel.py_func.__code__.co_argcount


@pytest.mark.slow
def test_listed_kernels__are_those_an_analysis_calls(data):
    """If it fails, `python -m benchmarks.first_run --write` rewrites the list (CONTRIBUTING.md). Concurrent steps call
    their kernels in any order."""
    archives = [data / "hybrid_2x3", data / "kineto_gloo_3"]
    code = "import json, sys\nfrom pathlib import Path\nfrom benchmarks.first_run import called\n"
    code += f"for archive in {[str(a) for a in archives]}:\n    print(json.dumps(called([Path(archive)])))"
    hybrid, training = map(json.loads, python("-c", code).stdout.splitlines()[-2:])
    assert sorted(hybrid, key=str) == sorted(LISTED[-len(hybrid) :], key=str)
    assert all(kernel in LISTED for kernel in training)


@pytest.mark.slow
def test_main__leaves_on_disk_what_a_call_finds(tmp_path):
    n = len(LISTED)
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    # with as many processes as kernels, each share is one kernel, counted from the end of the list
    share = [name for _, name, _ in LISTED[::-1]].index("find_range")
    python("-c", f"from tracecols.kernels import ahead\nahead.main(['{share}', '{n}'])", env=cache)
    call = "import numpy as np\nfrom tracecols.kernels.groups import find_range\nfind_range(np.zeros(3, np.int64))\nimport sys\nprint('numba' in sys.modules)"
    assert python("-c", call, env=cache).stdout == "False\n"


def test_compiling_ahead__starts_processes_with_the_first_kernel_that_is_compiled_and_ends_them(started):
    with compiling_ahead(3):
        assert not started
        numba.njit(plus_one)(1)
        numba.njit(plus_one)(1.5)
        assert [len(processes) for processes in started] == [2]
    assert [process.asked for process in started[0]] == [["terminate", "wait"]] * 2


def test_compiling_ahead__starts_none_where_no_kernel_is_compiled(started):
    with compiling_ahead(3):
        pass
    assert not started


def test_compiling_ahead__ends_processes_when_the_command_fails(started):
    with pytest.raises(ValueError, match="damaged"), compiling_ahead(2):
        numba.njit(plus_one)(True)
        raise ValueError("damaged")
    assert started[0][0].asked == ["terminate", "wait"]


@pytest.mark.slow
def test_start__makes_processes_that_can_be_ended(tmp_path, monkeypatch):
    # modules in the current folder must not be run
    other = tmp_path / "tracecols" / "kernels"
    other.mkdir(parents=True)
    (other / "ahead.py").write_text("import os\nos._exit(7)\n")
    for folder in (other, other.parent):
        (folder / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    # no kernel is cached yet, so compiling takes long
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    [process] = ahead.start(1)
    time.sleep(0.3)
    process.terminate()
    assert process.wait(LONG) not in (0, 7)
    assert not ahead.start(0)
