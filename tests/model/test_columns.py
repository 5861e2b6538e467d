"""Columns of tables, and rows taken from them."""

import tracemalloc

import numpy as np
import pytest

from tracecols.enhance.dataflow.columns import pick


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_pick__takes_null_for_negative_rows(dtype):
    values = np.arange(10, 14).astype(dtype)
    for of in (values, np.repeat(values, 2)[::2]):
        found = pick(of, np.array([3, -1, 0, 3], np.int32), null=-5)
        assert found.dtype == dtype and found.tolist() == [13, -5, 10, 13]
    assert pick(values[:0], np.array([-1, -1]), null=7).tolist() == [7, 7]


def test_pick__does_not_copy_a_value_that_is_that_of_all_rows():
    values, rows = np.broadcast_to(np.int64(3), 1 << 24), np.array([5, -1, 1 << 23])
    tracemalloc.start()
    try:
        found = pick(values, rows)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.tolist() == [3, -1, 3] and most < 1 << 20
