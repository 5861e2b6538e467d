"""The comparison of cells with the mean of their call path, and the matrix of all call paths and locations that defines
it."""

import numpy as np
import pytest

from tracecols.kernels import imbalance

READ_ONLY = (
    "call_path", "first", "stop", "locations", "mean", "start", "location", "value",
)  # fmt: skip


def defined(call_path, locations_of, mean, matrix, how):
    """Return keys and values of the results that are not zero, from the whole matrix."""
    found = []
    for p in call_path:
        for i in locations_of[p]:
            own = matrix[p, i]
            more = own - mean[p]
            result = {
                imbalance.SIZE: abs(more),
                imbalance.ABOVE: max(more, 0),
                imbalance.BELOW: max(-more, 0),
                imbalance.ABSENT: mean[p] if own == 0 else 0,
            }[how]
            if result:
                found.append(((p << 32) | i, result))
    return found


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("how", [imbalance.SIZE, imbalance.ABOVE, imbalance.BELOW, imbalance.ABSENT])
def test_imbalance__is_that_of_the_matrix(how, compiled):
    rng = np.random.default_rng(how)
    n, n_locations = 7, 6
    every, masters = np.array([0, 1, 3, 4, 5]), np.array([0, 4])
    matrix = rng.integers(-2, 3, (n, n_locations)).astype(float)
    matrix[6] = matrix[5] = 0
    mean = matrix.sum(axis=1) / 5
    mean[5] = 1.5  # visited nowhere
    cells = np.argwhere(matrix)
    call_path = np.array([0, 1, 3, 5, 6])
    at_all = np.array([True, False, True, True, False])
    given = {
        "call_path": call_path, "first": np.where(at_all, 0, every.size),
        "stop": np.where(at_all, every.size, every.size + masters.size), "locations": np.append(every, masters), "mean": mean,
        "start": np.searchsorted(cells[:, 0], np.arange(n + 1)), "location": cells[:, 1].astype(np.int32), "value": matrix[tuple(cells.T)],
    }  # fmt: skip
    for name in READ_ONLY:
        given[name].flags.writeable = False
    key, result = np.zeros(40, np.int64), np.zeros(40)
    function = imbalance.compare_with_mean if compiled else imbalance.compare_with_mean.py_func
    size = function(*given.values(), how, key, result)
    locations_of = {p: every if all_ else masters for p, all_ in zip(call_path.tolist(), at_all, strict=True)}
    expected = defined(call_path.tolist(), locations_of, mean, matrix, how)
    assert expected
    assert [*zip(key[:size].tolist(), result[:size].tolist(), strict=True)] == expected
    assert not key[size:].any()
