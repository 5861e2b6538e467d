"""Prefetching of memory-mapped files."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

from tracecols.work.ahead import (
    FEW,
    PART,
    expect,
    expect_near,
    expect_ranges,
    in_order,
    parts_between,
    parts_near,
    some_of,
    take,
)
from tracecols.work.large import LargeArrays

pytestmark = pytest.mark.skipif(not hasattr(mmap, "MADV_WILLNEED"), reason="the system takes no such advice")


class Advised(mmap.mmap):
    """A mapped file that records the advice given for it."""

    advice: list[tuple[int, ...]]

    def madvise(self, *given: int) -> None:
        self.advice.append(given)
        super().madvise(*given)


@pytest.fixture
def file(tmp_path):
    """Return a file of ten parts and one page."""
    size = 10 * PART + mmap.PAGESIZE
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (size // 256))
    with path.open("r+b") as opened:
        mapped = Advised(opened.fileno(), size)
    mapped.advice = []
    return mapped


def array_in(file: Advised, dtype: Any = np.int64) -> np.ndarray:
    return np.frombuffer(file, np.uint8).view(dtype)


def test_expect__is_of_the_bytes_that_an_array_has_in_its_file(file):
    array = array_in(file)
    each = PART // 8
    expect(array[each : 3 * each])
    # extended to the beginning of the part in which it begins
    expect(array[5 * each + 3 : 5 * each + 5])
    # up to the end of the file
    expect(array[9 * each :])
    expect(array, [(0, each), (2 * each, 3 * each), (array.size, array.size)])
    expect(array[:0])
    assert file.advice == [
        (mmap.MADV_WILLNEED, PART, 2 * PART),
        (mmap.MADV_WILLNEED, 5 * PART, 40),
        (mmap.MADV_WILLNEED, 9 * PART, PART + mmap.PAGESIZE),
        (mmap.MADV_WILLNEED, 0, PART),
        (mmap.MADV_WILLNEED, 2 * PART, PART),
    ]


def test_expect_near__is_of_parts_with_many_rows(file):
    array, each = array_in(file, np.int32), PART // 4
    rows = np.concatenate([np.arange(2 * each, 3 * each), np.full(FEW, -1), np.arange(6 * each, 8 * each)])
    assert take(array, np.abs(rows)).tolist() == array[np.abs(rows)].tolist()
    file.advice.clear()
    expect_near(array, some_of(rows.astype(np.int32)))
    assert file.advice == [(mmap.MADV_WILLNEED, 2 * PART, PART), (mmap.MADV_WILLNEED, 6 * PART, 2 * PART)]
    file.advice.clear()
    expect_near(array, some_of(rows[: FEW - 1]))
    assert file.advice == []


def test_expect_ranges__is_of_all_of_few_and_of_what_is_near_many(file):
    array, each = array_in(file), PART // 8
    begin = np.array([5 * each, 2 * each + 1, 4, 4])
    expect_ranges(array, begin, begin + np.array([2 * each, 1, 2 * each, 0]))
    assert file.advice == [(mmap.MADV_WILLNEED, 0, 3 * PART), (mmap.MADV_WILLNEED, 5 * PART, 2 * PART)]
    file.advice.clear()
    begin = np.repeat(begin, FEW)
    expect_ranges(array, begin, begin + 2 * each)
    assert [first // PART for _, first, _ in file.advice] == [0, 2, 5]


def test_expect__does_nothing_for_arrays_in_memory():
    for array in (np.arange(2 * FEW), np.arange(4 * FEW)[FEW : 3 * FEW]):
        expect(array)
        expect_near(array, np.arange(2 * FEW))
        expect_ranges(array, np.arange(3), np.arange(3) + 2)
        with in_order(array):
            pass
        assert take(array, np.arange(FEW)).size == FEW


def test_in_order__lets_the_system_read_ahead_until_an_error_too(file):
    with pytest.raises(KeyError), in_order(array_in(file)[3:], np.arange(3)):
        assert file.advice == [(mmap.MADV_NORMAL,)]
        raise KeyError
    assert file.advice == [(mmap.MADV_NORMAL,), (mmap.MADV_RANDOM,)]


def test_expect__does_nothing_where_the_system_takes_no_advice(file, monkeypatch):
    monkeypatch.delattr(mmap, "MADV_WILLNEED")
    expect(array_in(file))
    with in_order(array_in(file)):
        assert take(array_in(file), np.arange(FEW)).size == FEW
    assert file.advice == []


def test_parts__follow_each_other_together():
    rows = np.array([5, 12, 25, 3, -1])
    assert parts_near(rows, 10) == [(0, 30)]
    assert parts_near(rows, 4) == [(0, 8), (12, 16), (24, 28)]
    assert parts_near(rows[-1:], 10) == parts_near(rows[:0], 10) == []
    assert parts_between(np.array([3, 9, 45]), np.array([4, 12, 61]), 10) == [(0, 20), (40, 70)]
    assert parts_between(np.array([3, 9, 35]), np.array([54, 12, 41]), 10) == [(0, 60)]
    nothing = np.zeros(0, np.int64)
    assert parts_between(nothing, nothing, 10) == []


def test_large_arrays__are_found_in_their_files(tmp_path, monkeypatch):
    """Even after an array has been extended."""
    advised = []
    monkeypatch.setattr("tracecols.work.ahead._Place.expect", lambda *given: advised.append(given))
    large = LargeArrays(1, tmp_path)
    array = large.empty(1 << 18, np.int64)
    expect(array[2:5])
    longer = large.with_room(array, 10)
    expect(longer[(1 << 18) + 1 :][:2])
    assert [(place.offset, parts) for place, parts in advised] == [(16, [(0, 3)]), (8 * ((1 << 18) + 1), [(0, 2)])]
