"""Kernels that a wheel contains as LLVM bitcode (`tracecols.kernels.bitcode`)."""

import json
import zipfile

import pytest
from support.command_line import python

from tracecols.kernels import bitcode

KERNELS = """
from tracecols.kernels.kernel import kernel, part

@part
def halved(value):
    return value / 2

@kernel
def inner(value, more):
    if more < 0:
        raise ValueError("negative")
    return value.sum() + halved(more)

@kernel
def outer(value):
    return inner(value, 3) + inner(value, 1)
"""

ARRAY = ["int64", 1, "C", True]
LISTED = [["kernels_of_the_test", "inner", [ARRAY, "int64"]], ["kernels_of_the_test", "outer", [ARRAY]]]

WRITE = """
from pathlib import Path
from tracecols.kernels import ahead, write_bitcode
ahead.LIST = Path("list.json")
write_bitcode.write(Path("bitcode.zip"))
"""

CALL = """
import sys
from pathlib import Path
import numpy as np
from tracecols.kernels import bitcode
bitcode.FILE = Path("bitcode.zip")
from kernels_of_the_test import inner, outer
print(outer(np.arange(3)), inner(np.arange(4), 4), inner(np.arange(3), 1))
print("numba" in sys.modules)
try:
    inner(np.arange(3), -1)
except ValueError as error:
    print(error)
"""


def run(folder, code, **environment):
    """Run code in a folder with kernels; return what it prints."""
    done = python("-c", code, env={"PYTHONPATH": str(folder), **environment}, cwd=folder)
    return done.stdout


def call(folder, cache, **environment):
    """Call the kernels with machine code kept in a folder; return whether numba was imported."""
    results = run(folder, CALL, NUMBA_CACHE_DIR=str(folder / cache), **environment).splitlines()
    assert results[0] == "8.0 8.0 3.5" and results[2] == "negative"
    return results[1] == "True"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a folder with kernels and their bitcode."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels_of_the_test.py").write_text(KERNELS)
    (folder / "list.json").write_text(json.dumps(LISTED))
    run(folder, WRITE)
    return folder


@pytest.mark.slow
def test_bitcode__takes_no_numba_and_is_kept_as_machine_code(written):
    assert not call(written, "first")
    assert len(list((written / "first").rglob("*.kernel"))) == 2
    (written / "bitcode.zip").rename(written / "aside.zip")
    assert not call(written, "first")
    assert call(written, "second")
    (written / "aside.zip").rename(written / "bitcode.zip")


@pytest.mark.slow
def test_bitcode__that_is_complete_is_not_written_again(written):
    before = (written / "bitcode.zip").stat().st_mtime_ns
    run(written, WRITE)
    assert (written / "bitcode.zip").stat().st_mtime_ns == before


def write_archive(path, made_for):
    """Write an archive with the given facts on what it was made for."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(bitcode.MADE_FOR, json.dumps(made_for))
        archive.writestr("a kernel", bytes(1000))
    return path


@pytest.mark.parametrize("key", ["python", "numba", "platform"])
def test_bitcode__for_another_version_is_not_used(tmp_path, key):
    of_this = bitcode.this_process()
    assert "a kernel" in bitcode.opened(write_archive(tmp_path / "a.zip", of_this)).namelist()
    assert bitcode.opened(write_archive(tmp_path / "b.zip", {**of_this, key: "another"})) is None


@pytest.mark.slow
def test_bitcode__of_other_sources_or_settings_is_not_used(written, tmp_path):
    content = (written / "bitcode.zip").read_bytes()
    (tmp_path / "bitcode.zip").write_bytes(content)
    (tmp_path / "kernels_of_the_test.py").write_text(KERNELS)
    assert not call(tmp_path, "first")
    assert call(tmp_path, "second", NUMBA_BOUNDSCHECK="1")
    (tmp_path / "kernels_of_the_test.py").write_text(KERNELS + "# edited\n")
    assert call(tmp_path, "third")


@pytest.mark.parametrize("damage", [b"", b"abc", slice(0, -1), slice(0, 500)], ids=["empty", "text", "cut", "short"])
def test_bitcode__that_is_damaged_is_not_used(tmp_path, damage):
    path = write_archive(tmp_path / "bitcode.zip", bitcode.this_process())
    content = path.read_bytes()
    path.write_bytes(content[damage] if isinstance(damage, slice) else damage)
    assert bitcode.opened(path) is None


@pytest.mark.slow
def test_bitcode__that_is_not_used_leaves_kernels_to_numba(written, tmp_path):
    (tmp_path / "kernels_of_the_test.py").write_text(KERNELS)
    (tmp_path / "bitcode.zip").write_bytes((written / "bitcode.zip").read_bytes()[:-1])
    assert call(tmp_path, "cache")
