"""Arrays of the size of a trace: in memory up to a limit, beyond it in temporary files."""

import errno
import gc
import os
import sys
import time

import numpy as np
import pytest
from conftest import LONG
from support.command_line import python

from tracecols.errors import AnalysisError
from tracecols.work import large, memory
from tracecols.work.large import LargeArrays, ascends, blocks

is_linux = pytest.mark.skipif(sys.platform != "linux", reason="the system says how much of files is in memory")


def is_mapped(array):
    return array.base is not None


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(large, "BLOCK", 7)
    monkeypatch.setattr(large, "SMALL", 0)


def test_arrays__are_in_memory_up_to_a_limit(tmp_path, small_blocks):
    arrays = LargeArrays(1200, tmp_path)
    held, beyond = arrays.full(100, 3, np.int64), arrays.full(100, 5, np.int32)
    assert not is_mapped(held)
    other = arrays.full(1000, 7, np.int16)
    assert not is_mapped(beyond) and is_mapped(other)
    assert (held == 3).all() and (beyond == 5).all() and (other == 7).all()
    # the files have no names
    assert not list(tmp_path.iterdir())
    del held
    gc.collect()
    assert not is_mapped(arrays.empty(100, np.int64))


def test_arrays__without_a_limit_and_small_ones_are_in_memory(tmp_path):
    assert not is_mapped(LargeArrays().empty(1 << 20, np.int8))
    assert not is_mapped(LargeArrays(0, tmp_path).empty(large.SMALL, np.int8))
    assert is_mapped(LargeArrays(0, tmp_path).empty(large.SMALL + 1, np.int8))


def test_trimmed__keeps_the_first_elements(tmp_path, small_blocks):
    """The array may be in a file, or in memory with or without a limit."""
    for arrays in (LargeArrays(), LargeArrays(1000, tmp_path), LargeArrays(0, tmp_path)):
        array = arrays.empty(100, np.int64)
        array[:] = np.arange(100)
        assert LargeArrays.trimmed(array, 3).tolist() == [0, 1, 2]


@pytest.mark.slow
def test_arrays__that_would_need_too_many_files_are_in_memory(tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(large, "MOST_FILES", 3)
    gc.collect()
    arrays = LargeArrays(0, tmp_path)
    found = [arrays.zeros(10, np.int64) for _ in range(5)]
    assert [is_mapped(of) for of in found] == [True] * 3 + [False] * 2
    del found
    gc.collect()
    assert is_mapped(arrays.zeros(10, np.int64))


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("memory", [None, 0])
@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 14, 50])
def test_arrays__block_by_block(n, memory, jobs, tmp_path, small_blocks):
    arrays, values = LargeArrays(memory, tmp_path).by_threads(jobs), np.arange(n) % 5
    assert [i for rows in blocks(n, 3) for i in range(rows.start, rows.stop)] == list(range(n))
    assert [i for rows in blocks(n) for i in range(rows.start, rows.stop)] == list(range(n))
    assert np.array_equal(arrays.zeros(n, np.int8), np.zeros(n, np.int8))
    assert np.array_equal(arrays.computed(n, np.int32, lambda here: 2 * values[here]), 2 * values)
    assert np.array_equal(arrays.chosen(n, lambda here: values[here] > 2), np.flatnonzero(values > 2))
    narrow = arrays.chosen(n, lambda here: values[here] > 2, np.int8)
    assert narrow.dtype == np.int8 and np.array_equal(narrow, np.flatnonzero(values > 2))
    joined = arrays.joined(n, np.int64, (values[here][::2] for here in blocks(n)))
    assert np.array_equal(joined, np.concatenate([values[:0], *(values[here][::2] for here in blocks(n))]))
    grown = arrays.with_room(arrays.full(n, 4, np.int64), n)
    assert grown.size == 2 * n and (grown[:n] == 4).all()
    for k in range(max(n - 1, 0)):
        falls = np.arange(n)
        falls[k + 1] = k - 1
        assert not ascends(falls) and ascends(np.arange(n))


def test_arrays__say_how_many_rows_are_computed_together():
    assert LargeArrays().block_of(10**9) == large.BLOCK == LargeArrays(10**12).block_of(100)
    assert LargeArrays(0).block_of(100) == large.FEWEST
    assert LargeArrays().block_of(10**9, 2 * large.BLOCK) == 2 * large.BLOCK
    assert LargeArrays(4 * 10**8).block_of(100, 2 * large.BLOCK) == 2 * large.BLOCK
    # a quarter of 40 MB
    assert LargeArrays(4 * 10**7).block_of(100) == 10**5


@is_linux
def test_arrays_of_blocks__are_in_memory_unless_they_are_far_larger(tmp_path):
    arrays = LargeArrays(8 << 20, tmp_path)
    held = arrays.zeros(7 << 20, np.int8)
    assert not is_mapped(held) and is_mapped(arrays.zeros(2 << 20, np.int8))
    assert not is_mapped(arrays.briefly().zeros(2 << 20, np.int8))
    assert is_mapped(arrays.briefly().zeros(3 << 20, np.int8))


@is_linux
def test_pages__leave_the_memory_of_the_process_and_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(large, "INTERVAL", 0.001)
    arrays = LargeArrays(1 << 20, tmp_path)
    before = memory.resident(of_files=True)
    values = arrays.empty(1 << 22, np.int64)
    for rows in blocks(values.size):
        values[rows] = np.arange(rows.start, rows.stop)
    until = time.monotonic() + LONG
    while memory.resident(of_files=True) - before > 4 << 20 and time.monotonic() < until:
        time.sleep(0.01)
    assert memory.resident(of_files=True) - before <= 4 << 20
    assert values[::100_000].tolist() == list(range(0, 1 << 22, 100_000))
    large._pages.release()
    assert int(values.sum()) == (1 << 22) * ((1 << 22) - 1) // 2


def test_files__are_made_longer_where_they_are(tmp_path):
    arrays = LargeArrays(0, tmp_path)
    values = arrays.empty(1 << 20, np.int64)
    values[:] = np.arange(1 << 20)
    grown = arrays.with_room(values, 1 << 20, 3 << 20)
    assert large._file_of(grown) is not None and large._file_of(grown[1:]) is None
    # the same pages
    values[5] = -5
    assert grown.size == 3 << 20 and grown[5] == -5 and grown[-1] == 0
    grown[5] = 5
    del values
    assert np.array_equal(grown[: 1 << 20], np.arange(1 << 20))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="disk space cannot be reserved")
def test_files__for_which_there_is_no_disk_space(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        AnalysisError, match=r"cannot make a temporary file of 2,000,000 bytes in .*: No space left"
    ) as e:
        LargeArrays(0, tmp_path).empty(2 * 10**6, np.int8)
    assert "--scratch" in e.value.in_shell
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="disk space cannot be reserved")
def test_files__where_no_disk_space_can_be_reserved_are_made_longer(tmp_path, monkeypatch):
    def unable(*_):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", unable)
    found = LargeArrays(0, tmp_path).empty(2 * 10**6, np.int8)
    assert large._file_of(found) is not None and found.size == 2 * 10**6 and not found.any()


@pytest.mark.slow
@is_linux
def test_files__of_a_killed_process_are_gone(tmp_path):
    program = (
        "import os, pathlib, sys; from tracecols.work.large import LargeArrays; "
        "a = LargeArrays(0, pathlib.Path(sys.argv[1])).full(2 * 10**6, 1, 'int8'); os.kill(os.getpid(), 9)"
    )
    python("-c", program, str(tmp_path), code=-9)
    assert not list(tmp_path.iterdir())
