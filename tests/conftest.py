"""Fixtures and settings of all tests."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[2] / "shared" / "traces"
LONG = 300
"""Timeout of waits, in seconds, sufficient on a machine under load."""

# pytest-xdist sets it for its workers: output must be the same with and without it
os.environ.pop("COLUMNS", None)
# containers set it: then each worker rewrites all test modules, which is two thirds of the time of collecting tests,
# and each command that a test starts compiles the whole package
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Each run uses the same examples, without deadline, so that a test does not fail because of an unrelated new example.
# `pytest --hypothesis-profile search` searches for new ones.
settings.register_profile(
    "search", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.load_profile("same")


def make_files_in_memory():
    """Make the tests write their files, more than 77,000, to memory if there is room: on a disk, files take a third of
    the processor time of the quick tests, and time of waiting besides."""
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        return
    if shutil.disk_usage(memory).free > 4 << 30:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


def pytest_configure(config):
    """Before several workers begin, compile the kernels that all of them need, in one process for each part: otherwise
    each worker would compile all of them."""
    from tracecols.kernels import cache

    make_files_in_memory()
    # disabled until all tests are collected, which makes a million permanent objects
    gc.disable()
    is_first = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    folder = Path(cache.__file__).parent
    # a mark file: the cache may hold only some of them, from a command, or those of another version of Python
    done = folder / "__pycache__" / f"{sys.implementation.cache_tag}-{cache.stamp_of(folder)}.compiled"
    if not is_first or done.exists():
        return
    script = Path(__file__).with_name("compile_kernels.py")
    parts = [subprocess.Popen([sys.executable, str(script), part]) for part in ("convert", "analyze")]
    # errors are ignored: they also occur in a test, which reports them better
    codes = [part.wait() for part in parts]
    if not any(codes):
        with suppress(OSError):
            done.touch()


def pytest_collection_finish():
    """Exclude modules and collected tests from further garbage collections."""
    gc.freeze()
    gc.enable()


def slow(values):
    """Return parameters of a test, marked as slow; its quick parameters cover the same kinds."""
    several = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*value, marks=pytest.mark.slow) for value in several]


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of the small traces in the repository."""
    return DATA


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """Return the folder of reference traces next to the repository; skip the test if there is none."""
    if not SHARED.is_dir():
        pytest.skip("no reference traces beside the repository")
    return SHARED


@pytest.fixture(scope="module")
def store(data, tmp_path_factory) -> Path:
    """Return the store of a small hybrid program: 2 processes of 3 threads."""
    import tracecols

    return tracecols.convert(data / "hybrid_2x3", tmp_path_factory.mktemp("hybrid") / "h.trace")


@pytest.fixture(scope="module")
def trace(store):
    """Return the opened trace of the hybrid program."""
    import tracecols

    return tracecols.open(store)


@pytest.fixture(scope="module")
def cube(trace):
    """Return the cube of the hybrid program."""
    return trace.analyze()


@pytest.fixture(scope="session")
def store_of(tmp_path_factory):
    """Return a function that returns the store of a recorded trace by its path; each is converted once."""
    from support.recordings import convert

    return functools.cache(lambda source: convert(source, tmp_path_factory.mktemp("stores")))


@pytest.fixture(scope="session")
def converted(shared_traces, store_of):
    """Return a function that returns the store of a reference trace by name."""
    return lambda name: store_of(shared_traces / "otf2" / name)


@pytest.fixture
def opened(tmp_path):
    """Return a function that converts an archive, of `otf2_writer` or by its path, and opens it."""
    import tracecols

    def run(archive, **options):
        number = len(list(tmp_path.glob("*.trace")))
        path = archive.write() if hasattr(archive, "write") else archive
        return tracecols.open(tracecols.convert(path, tmp_path / f"{number}.trace", **options))

    return run


@pytest.fixture
def enhance(opened):
    """Return a function that converts an archive of `otf2_writer` and returns its enhanced model."""
    from tracecols.model.model import enhance

    return lambda archive, jobs=1: enhance(opened(archive, jobs=1).store, jobs)


@pytest.fixture
def analyze(enhance):
    """Return a function that converts an archive of `otf2_writer`, and returns its cube without violations."""
    from tracecols.schema.severity import DEFAULT
    from tracecols.search.cube import analyze_model

    def run(archive, conventions=DEFAULT):
        cube = analyze_model(enhance(archive), conventions)
        assert cube.violations() == []
        return cube

    return run


@pytest.fixture
def archive(tmp_path):
    """Return an empty archive to be written."""
    from support.otf2_writer import Archive

    return Archive(tmp_path / "traces.otf2")


@pytest.fixture
def unprivileged(tmp_path):
    """Return a function that runs a command to which file permissions apply, even if the tests run as root."""
    if not hasattr(os, "geteuid"):
        pytest.skip("no such permissions there")
    drop = []
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("root may do anything, and there is no setpriv to take that away")
        drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    code = "import sys; from tracecols.cli import main; sys.argv[0] = 'tracecols'; main()"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}

    def run(*arguments, **more):
        command = [*drop, sys.executable, "-c", code, *map(str, arguments)]
        more = {"cwd": tmp_path, "capture_output": True, "text": True, **more}
        return subprocess.run(command, env=environment, check=False, **more)

    return run


@pytest.fixture
def forbid():
    """Return a function that changes permissions of files, which are restored at the end."""
    changed = []

    def change(path, mode):
        changed.append((path, path.stat().st_mode))
        path.chmod(mode)

    yield change
    for path, mode in reversed(changed):
        path.chmod(mode)
