"""Where compiled kernels are kept when neither the package nor the home directory can be written."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import namedtuple
from pathlib import Path

import numba
import numpy as np
import pytest
from conftest import DATA
from support.command_line import python

from tracecols.errors import KernelCacheWarning
from tracecols.kernels import cache
from tracecols.kernels.kernel import Kernel, kernel
from tracecols.kernels.kinds import kind_of, kinds_of, numba_type

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


def plus_one(x):
    return x + 1


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return a folder for temporary files, the only writable one."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(cache, "_folders", lambda source: ())
    forget()
    yield tmp_path
    forget()


def forget():
    """Look for folders again, as the next process does."""
    cache._private_folder.cache_clear()
    cache._folder.cache_clear()


def compiled(n=1):
    """Compile a function that is cached on disk if possible; return the warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(n):
            assert kernel(plus_one)(1) == 2
    return [str(w.message) for w in found if issubclass(w.category, KernelCacheWarning)]


@posix
def test_fallback__is_a_private_folder_that_is_told_of_once(temporary, monkeypatch):
    (told,) = compiled(3)
    folder = temporary / f"tracecols-kernels-{os.getuid()}"
    assert str(folder) in told and "NUMBA_CACHE_DIR" in told
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*plus_one*.kernel"))
    # the next process finds the kernel and does not warn
    forget()
    monkeypatch.setattr(Kernel, "compile", None)
    assert compiled() == []


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
    # as under service accounts, and in containers with --user
    if os.getuid() or shutil.which("setpriv") is None:
        pytest.skip("needs an administrator and setpriv")
    prefix = [
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    ]  # fmt: skip
    if subprocess.run([*prefix, sys.executable, "-c", ""], capture_output=True).returncode:
        pytest.skip("the interpreter cannot be run without rights")
    # below folders that everybody may read, unlike those of pytest
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
        for n_notes in (1, 0):
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert done.stderr.count("note: compiled kernels are kept in") == n_notes, done.stderr
            assert done.stdout.endswith("6,708 events, 6 locations\n")


CALLED = """
import sys
import numpy as np
from kernels_of_the_test import inner, outer

value = np.arange(3)
assert inner(value, 4) == int(sys.argv[2])
if sys.argv[1] == "both":
    assert outer(value) == 10
print("numba" in sys.modules)
"""

KERNELS = """
from tracecols.kernels.kernel import kernel

@kernel
def inner(value, more):
    if more < 0:
        raise ValueError("negative")
    return value.sum() + more

@kernel
def outer(value):
    return inner(value, 3) + inner(value, 1)
"""


def call(folder, what="one", result=7):
    """Call kernels in a new process; return whether it has imported numba."""
    done = python(
        "-c", CALLED, what, str(result), env={"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    )
    return done.stdout == "True\n"


@pytest.mark.slow
def test_cache__kernels_from_the_disk_need_no_numba(tmp_path):
    (tmp_path / "kernels_of_the_test.py").write_text(KERNELS)
    # first compiled; then loaded, and its caller compiled; then both loaded
    assert [call(tmp_path, what) for what in ("one", "both", "both")] == [True, True, False]


@pytest.mark.slow
def test_cache__follows_its_sources_and_survives_damage(tmp_path):
    source = tmp_path / "kernels_of_the_test.py"
    source.write_text(KERNELS)
    assert call(tmp_path)
    source.write_text(KERNELS.replace("+ more", "+ more + 1"))
    assert call(tmp_path, result=8)
    # the kernel compiled from the older source is gone
    [file] = tmp_path.rglob("*.kernel")
    whole = file.read_bytes()
    assert cache._read(file) is not None
    for damaged in (b"", b"abc", b"x" + whole, whole[:-1]):
        file.write_bytes(damaged)
        assert cache._read(file) is None
    # compiled again, in place of the last damaged file
    assert call(tmp_path, result=8)
    assert not call(tmp_path, result=8)


def test_cache__of_a_disk_that_is_full_is_told_of(tmp_path, monkeypatch):
    def fail(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_folders", lambda source: (tmp_path,))
    monkeypatch.setattr(Path, "write_bytes", fail)
    forget()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert kernel(plus_one)(1) == 2
    forget()
    assert "No space left" in str(found[0].message) and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_loaded_kernels__raise_what_they_raise(tmp_path):
    (tmp_path / "kernels_of_the_test.py").write_text(KERNELS)
    code = (
        "import numpy as np\nfrom kernels_of_the_test import inner\ntry:\n    inner(np.arange(3), -1)\n"
        "except ValueError as error:\n    print(error)\nprint(inner(np.arange(3), 1))"
    )
    for _ in range(2):
        done = python("-c", code, env={"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")})
        assert done.stdout == "negative\n4\n"


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    "value,kind",
    [
        (3, "int64"),
        (1 << 63, "uint64"),
        (True, "bool"),
        (1.5, "float64"),
        (None, "none"),
        (np.int32(3), "int32"),
        (np.zeros((2, 3), np.int32), ("int32", 2, "C", True)),
        (np.zeros((2, 3), bool).T, ("bool", 2, "F", True)),
        (np.zeros((4, 4))[::2, ::2], ("float64", 2, "A", True)),
        ((1, 2.5), ("", ("int64", "float64"))),
        (Pair(1, np.zeros(1, np.uint8)), (f"{__name__}:Pair", ("int64", ("uint8", 1, "C", True)))),
    ],
)
def test_kinds__are_the_types_of_numba(value, kind):
    assert kind_of(value) == kind
    assert numba_type(kind) == numba.typeof(value)
    assert kinds_of(json.loads(json.dumps([kind]))) == (kind,)


def test_kind__of_what_kernels_do_not_take_is_refused():
    with pytest.raises(TypeError, match="and no dict"):
        kind_of({})
