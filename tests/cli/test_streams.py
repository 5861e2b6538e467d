"""Standard output and standard error that are full or closed: one clear error, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import slow

import tracecols

MAIN = "import sys; from tracecols.cli import main; sys.argv[0] = 'tracecols'; main()"


@pytest.fixture(scope="module")
def made(tmp_path_factory, data) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    store = tracecols.convert(data / "late_sender", folder / "s.trace")
    tracecols.open(store).analyze().save(folder / "s.severity")
    return folder


def start(words: str, data: Path, made: Path, tmp_path: Path, shell: str = "") -> subprocess.CompletedProcess[str]:
    arguments = words.format(
        trace=data / "late_sender", s=made / "s.trace", c=made / "s.severity", out=tmp_path / "x"
    ).split()
    command = [sys.executable, "-c", MAIN, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    if shell:
        command = ["sh", "-c", f'"$@" {shell}', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
@pytest.mark.parametrize(
    "words",
    [
        "show {c}",
        *slow(
            [
                "--help", "convert {trace} -o {out}.trace", "check {s}", "analyze {s} -o {out}.severity",
                "report {c} -o {out}.html", "diagnose {c} --json",
            ]
        ),
    ],
)  # fmt: skip
def test_standard_output__is_full(words, data, made, tmp_path):
    done = start(words, data, made, tmp_path, "> /dev/full")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "error: standard output: No space left on device")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_standard_error__is_full(data, made, tmp_path):
    done = start("info nothing.trace", data, made, tmp_path, "2> /dev/full")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="no such shell there")
@pytest.mark.parametrize("closed", [">&-", *slow(["2>&-", ">&- 2>&-"])])
def test_standard_streams__are_closed(closed, data, made, tmp_path):
    done = start("analyze {s} -o {out}.severity -p visits", data, made, tmp_path, closed)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert (tmp_path / "x.severity").is_dir()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such shell there")
def test_pipe__that_nobody_reads_is_no_error_message(data, made, tmp_path):
    assert start("show {c}", data, made, tmp_path, "| true").stderr == ""


@pytest.mark.slow
def test_numba__with_no_threads_is_refused(data, made, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "0")
    # numba is imported only to compile, so the cache of kernels must be empty
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    done = start("analyze {s} -o {out}.severity", data, made, tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "error: numba cannot be used: NUMBA_NUM_THREADS is 0, and it needs a number of at least 1\n"
        "  unset this environment variable; tracecols does not use numba's threads\n"
    )
