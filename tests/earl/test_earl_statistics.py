"""Statistic objects: exact ones, and the P2 estimator against a plain transcription of its publication."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.quantiles import P2

from tracecols.earl import P2Statistics, Statistics
from tracecols.kernels.cuts import count_depths
from tracecols.kernels.quantiles import add_to_quantiles

quick = settings(max_examples=60)
NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@quick
@given(NUMBERS)
def test_exact__is_what_the_standard_library_computes(values):
    s = Statistics(values)
    assert (s.count, s.min, s.max) == (len(values), min(values), max(values))
    assert s.sum == pytest.approx(math.fsum(values), abs=1e-6)
    assert s.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert s.med == pytest.approx(statistics.median(values), abs=1e-6)
    if len(values) > 1:
        assert s.var == pytest.approx(statistics.variance(values), rel=1e-6, abs=1e-6)
        quartiles = statistics.quantiles(values, n=4, method="inclusive")
        assert [s.q25, s.med, s.q75] == pytest.approx(quartiles, abs=1e-6)


@pytest.mark.parametrize("of", [Statistics, P2Statistics])
def test_none_and_few(of):
    s = of()
    assert s.count == 0 and s.sum == 0
    assert all(math.isnan(x) for x in (s.min, s.max, s.mean, s.var, s.q25, s.med, s.q75))
    s.add(4)
    assert (s.count, s.min, s.max, s.mean, s.med, s.q25, s.q75) == (1, 4, 4, 4, 4, 4, 4) and math.isnan(s.var)
    s.add([1, 3])
    s.add(2)
    s.add(10)
    assert (s.count, s.sum, s.mean, s.q25, s.med, s.q75, s.var) == (5, 20, 4, 2, 3, 4, 12.5)
    assert repr(s).startswith(f"<{of.__name__} of 5: min 1, q25 2, med 3, q75 4, max 10")
    s.reset()
    assert s.count == 0 and math.isnan(s.max)


def test_exact__does_not_keep_what_it_is_given():
    values = np.array([1.0, 2.0])
    s = Statistics(values)
    values[:] = 9
    assert s.max == 2


def test_p2__the_published_example():
    # Jain and Chlamtac 1985, table I: after 20 observations the estimate of the median is 4.44
    values = [
        0.02, 0.15, 0.74, 3.39, 0.83, 22.37, 10.15, 15.43, 38.62, 15.92, 34.60, 10.28, 1.47, 0.40, 0.05, 11.39, 0.27, 0.42,
        0.09, 11.37,
    ]  # fmt: skip
    assert P2Statistics(values).med == pytest.approx(4.44, abs=0.005)


@quick
@given(NUMBERS)
def test_p2__is_the_algorithm(values):
    s = P2Statistics(values)
    for q, got in zip((0.25, 0.5, 0.75), (s.q25, s.med, s.q75), strict=True):
        assert got == pytest.approx(P2(q, values).estimate, abs=1e-9)
    exact = Statistics(values)
    assert (s.count, s.min, s.max) == (exact.count, exact.min, exact.max)
    assert s.sum == pytest.approx(exact.sum, abs=1e-6) and s.mean == pytest.approx(exact.mean, abs=1e-6)
    if len(values) > 1:
        assert s.var == pytest.approx(exact.var, rel=1e-6, abs=1e-6)


@quick
@given(NUMBERS, st.data())
def test_p2__does_not_depend_on_how_values_are_divided(values, draw):
    one, other = P2Statistics(values), P2Statistics()
    while values:
        n = draw.draw(st.integers(1, len(values)))
        other.add(values[0] if n == 1 else values[:n])
        values = values[n:]
    assert (one.q25, one.med, one.q75, one.count, one.min) == (other.q25, other.med, other.q75, other.count, other.min)
    assert one.var == pytest.approx(other.var, rel=1e-6, abs=1e-6, nan_ok=True)


def test_p2__comes_near():
    values = np.random.default_rng(1).exponential(size=100_000)
    s, exact = P2Statistics(values), Statistics(values)
    assert [s.q25, s.med, s.q75] == pytest.approx([exact.q25, exact.med, exact.q75], rel=0.02)


@pytest.mark.slow
@quick
@given(st.lists(st.floats(-10, 10), min_size=5, max_size=30))
def test_kernel__quantiles_compiled_and_plain(values):
    def run(kernel):
        heights, places = np.tile(np.sort(values[:5]), (3, 1)), np.tile(np.arange(5), (3, 1))
        rest = np.array(values[5:])
        rest.flags.writeable = False
        kernel(rest, np.array([0.25, 0.5, 0.75]), heights, places)
        return heights.tolist(), places.tolist()

    assert run(add_to_quantiles) == run(add_to_quantiles.py_func)


@pytest.mark.parametrize("enterptr", [[], [-1], [-1, 100, 101, 101, 100, -1]])
def test_kernel__depths_compiled_and_plain(enterptr):
    # main { f { x } } x at rows 100 .. 105
    pointers = np.array(enterptr, np.int64)
    top = np.append(pointers[1:], -1) if pointers.size else pointers
    found = []
    for kernel in (count_depths, count_depths.py_func):
        # the plain kernel gets read-only input, for which the other one would be compiled again
        pointers.flags.writeable = top.flags.writeable = kernel is count_depths
        depth = np.zeros(pointers.size, np.int64)
        kernel(pointers, 100, top, np.empty(pointers.size, np.int64), depth)
        found.append(depth.tolist())
    assert found[0] == found[1] == ([1, 2, 2, 1, 0, 0] if len(enterptr) > 1 else [0] * len(enterptr))
