"""Where compiled kernels are kept when neither the package nor the home directory can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numba
import pytest
from conftest import DATA
from numba.core import config
from numba.core.caching import FunctionCache

from tracecols.errors import KernelCacheWarning
from tracecols.kernels import cache

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


def plus_one(x):
    return x + 1


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files, the only one that can be written."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cache, "_found", [])
    monkeypatch.setattr(config, "CACHE_DIR", "")
    classes = [c for c in FunctionCache._impl_class._locator_classes if "UserProvided" in c.__name__]
    assert len(classes) == 1
    monkeypatch.setattr(FunctionCache._impl_class, "_locator_classes", classes)
    return tmp_path


def compiled(n=1):
    """Compile a function that is kept on disk, if it can be; return the warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(n):
            dispatcher = numba.njit(plus_one)
            cache.enable_caching(dispatcher, plus_one)
            assert dispatcher(1) == 2
    return [str(w.message) for w in found if issubclass(w.category, KernelCacheWarning)]


@posix
def test_fallback__is_a_private_folder_that_is_told_of_once(temporary, monkeypatch):
    (told,) = compiled(3)
    folder = temporary / f"tracecols-kernels-{os.getuid()}"
    assert str(folder) in told and "NUMBA_CACHE_DIR" in told
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*plus_one*.nbc"))
    # the next process finds it, and has nothing to say
    monkeypatch.setattr(cache, "_found", [])
    assert compiled() == []
    # other packages keep theirs where they do
    assert config.CACHE_DIR == ""


@posix
@pytest.mark.parametrize(
    "what", ["link", "file", "writable by others", "parent writable by others", "of somebody else", "no parent"]
)
def test_fallback__executes_nothing_that_others_could_have_written(what, temporary, monkeypatch):
    folder = temporary / f"tracecols-kernels-{os.getuid()}"
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if what == "link":
        folder.symlink_to(elsewhere)
    elif what == "file":
        folder.write_text("")
    elif what == "writable by others":
        folder.mkdir()
        folder.chmod(0o770)
    elif what == "parent writable by others":
        folder.mkdir(mode=0o700)
        temporary.chmod(0o777)
    elif what == "no parent":
        monkeypatch.setattr(tempfile, "tempdir", str(temporary / "none"))
    elif os.getuid() == 0:
        folder.mkdir(mode=0o700)
        os.chown(folder, 65534, 65534)
    else:
        pytest.skip("needs an administrator")
    (told,) = compiled(2)
    assert "compiled at every start" in told
    assert not list(temporary.rglob("*plus_one*"))


@pytest.mark.slow
@posix
def test_fallback__of_a_command_without_rights():
    # as service accounts, and containers with --user, run it
    if os.getuid() or shutil.which("setpriv") is None:
        pytest.skip("needs an administrator and setpriv")
    prefix = [
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    ]  # fmt: skip
    if subprocess.run([*prefix, sys.executable, "-c", ""], capture_output=True).returncode:
        pytest.skip("the interpreter cannot be run without rights")
    # below folders that everybody may look into, which those of pytest are not
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
        environment |= {"HOME": "/proc/none", "TMPDIR": folder, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [
            *prefix,
            sys.executable,
            "-m",
            "tracecols",
            "convert",
            shutil.copytree(DATA / "hybrid_2x3", f"{folder}/archive"),
            "-o",
            f"{folder}/x.trace",
        ]
        for n_told in (1, 0):
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert done.stderr.count("note: compiled kernels are kept in") == n_told, done.stderr
            assert done.stdout.endswith("6,708 events, 6 locations\n")


CALLED_FROM_THE_DISK = """
import sys
import numpy as np
from kernels_of_the_test import inner, outer

value = np.arange(3)
assert inner(value, 4) == 7
if sys.argv[1] == "both":
    assert outer(value) == 10
print(sum(inner.dispatcher.stats.cache_hits.values()), sum(outer.dispatcher.stats.cache_hits.values()))
"""

KERNELS = """
from tracecols.kernels.kernel import kernel

@kernel
def inner(value, more):
    return value.sum() + more

@kernel
def outer(value):
    return inner(value, 3) + inner(value, 1)
"""


def test_cache__a_kernel_from_the_disk_is_linked_by_one_that_is_compiled(tmp_path):
    (tmp_path / "kernels_of_the_test.py").write_text(KERNELS)
    found = [
        subprocess.run(
            [sys.executable, "-c", CALLED_FROM_THE_DISK, what],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for what in ("one", "both", "both")
    ]
    # compiled; loaded, and linked by what is compiled; both loaded
    assert found == ["0 0\n", "1 0\n", "1 1\n"]
