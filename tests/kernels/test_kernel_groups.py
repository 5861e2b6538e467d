"""Kernels that number, count, pair, join and reduce within groups, against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import groups as oracle

from tracecols.distinct import distinct
from tracecols.enhance.dataflow.grouping import (
    Segments,
    combine,
    join_occurrences,
    latest_before,
    lookup,
    number_ascending,
    occurrence,
    pair_nested,
    pair_with_previous,
    ranges,
)
from tracecols.kernels import groups

FEW = st.integers(-3, 3)
FAR = st.sampled_from([-(2**63), -(2**40), -1, 0, 7, 2**40, 2**62, 2**63 - 1])
KEYS = st.lists(st.one_of(FEW, FAR), max_size=40) | st.lists(FEW, max_size=40)


def array(values, dtype=np.int64):
    return np.array(values, dtype)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@settings(max_examples=150)
@given(keys=KEYS)
def test_number_groups__is_by_first_appearance(compiled, keys):
    with np.errstate(over="ignore"), pytest.MonkeyPatch.context() as patch:
        for name in () if compiled else ("find_range", "number_in_range", "number_by_hash"):
            patch.setattr(groups, name, getattr(groups, name).py_func)
        group, first = groups.number_groups(array(keys))
    assert (group.tolist(), first.tolist()) == oracle.number(keys)


@given(KEYS)
def test_number_ascending__is_what_numpy_finds_by_sorting(keys):
    found, number = number_ascending(array(keys))
    expected, inverse = np.unique(array(keys), return_inverse=True)
    assert (found.tolist(), number.tolist()) == (expected.tolist(), inverse.tolist())


@pytest.mark.parametrize("in_order", [False, True])
@given(st.lists(st.tuples(FEW, FEW), max_size=12), st.lists(st.tuples(FEW, FEW), max_size=12))
def test_latest_before__is_the_last_of_a_key_that_is_not_later(in_order, elements, wanted):
    elements = sorted(elements) if in_order else elements
    columns = ([pair[i] for pair in some] for some in (elements, wanted) for i in (0, 1))
    found = latest_before(*map(array, columns))
    for (key, time), at in zip(wanted, found.tolist(), strict=True):
        before = [(t, i) for i, (k, t) in enumerate(elements) if k == key and t <= time]
        assert at == max(before, default=(0, -1))[1]


@given(st.lists(st.tuples(FEW, FEW), max_size=20))
def test_largest_so_far__is_of_its_group(pairs):
    pairs = sorted(pairs, key=lambda pair: pair[0])
    keys, values = (array([pair[i] for pair in pairs]) for i in (0, 1))
    found = np.empty(keys.size, np.int64)
    groups.find_largest_so_far(keys, values, found)
    assert found.tolist() == [max(v for k, v in pairs[: i + 1] if k == pairs[i][0]) for i in range(len(pairs))]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@settings(max_examples=100)
@given(pairs=st.lists(st.tuples(FEW, st.integers(-2, 2)), max_size=30))
def test_sum_ascending__has_the_sums_that_are_not_zero(compiled, pairs):
    pairs = sorted(pairs, key=lambda pair: pair[0])
    expected = {}
    for key, value in pairs:
        expected[key] = expected.get(key, 0) + value
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(groups, "add_neighbours", groups.add_neighbours.py_func)
        keys, sums = groups.sum_ascending(array([k for k, _ in pairs]), array([v for _, v in pairs]))
    assert dict(zip(keys.tolist(), sums.tolist(), strict=True)) == {k: v for k, v in expected.items() if v}
    assert keys.tolist() == sorted(keys.tolist())


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=10))
def test_ranges__stand_one_after_the_other(pairs):
    first, size = (array([pair[i] for pair in pairs]) for i in (0, 1))
    assert ranges(first, size).tolist() == [k for a, n in pairs for k in range(a, a + n)]


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1, 1 << 40])
def test_number_groups__tells_many_keys_apart(spread):
    # so many groups that the tables have to grow several times
    keys = np.random.default_rng(1).integers(0, 30_000, 100_000) * spread
    group, first = groups.number_groups(keys)
    _, index, inverse = np.unique(keys, return_index=True, return_inverse=True)
    assert sorted(first.tolist()) == sorted(index.tolist())
    assert (first[group] == index[inverse]).all()
    assert (np.diff(first) > 0).all()


@settings(max_examples=100)
@given(keys=KEYS)
def test_occurrence__counts_from_zero(keys):
    assert occurrence(array(keys)).tolist() == [keys[:i].count(k) for i, k in enumerate(keys)]


@settings(max_examples=150)
@given(elements=st.lists(st.tuples(FEW, st.integers(0, 2)), max_size=40))
def test_pairs__are_neighbours_of_the_same_key(elements):
    keys, roles = [k for k, _ in elements], [r for _, r in elements]
    role = array(roles, np.int8)
    assert pair_with_previous(array(keys), role == 1, role == 2).tolist() == oracle.pairs(keys, roles)


@settings(max_examples=150)
@given(elements=st.lists(st.tuples(FEW, st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_pairs__of_the_same_part_come_before_others(elements):
    keys, roles, parts = ([e[i] for e in elements] for i in range(3))
    role = array(roles, np.int8)
    key, part = array(keys), combine(array(keys), array(parts))
    found = pair_with_previous(key, role == 1, role == 2, part).tolist()
    assert found == oracle.pairs_by_part(keys, parts, roles)


@settings(max_examples=100)
@given(what=st.lists(st.sampled_from("()-"), max_size=40))
def test_pair_nested__is_what_brackets_mean(what):
    expected, stack = [-1] * len(what), []
    for i, c in enumerate(what):
        if c == "(":
            stack.append(i)
        elif c == ")" and stack:
            expected[stack.pop()] = i
    depth = np.cumsum([{"(": 1, ")": -1, "-": 0}[c] for c in what])
    if len(what) == 0 or depth.min() >= 0:  # closings without an opening shift the levels
        text = np.array(what, object)
        assert pair_nested(text == "(", text == ")").tolist() == expected


@settings(max_examples=100)
@given(left=KEYS, right=KEYS)
def test_joins__are_by_key_and_number(left, right):
    assert join_occurrences(array(left), array(right)).tolist() == oracle.in_order(left, right)
    for keys in (left, sorted(left)):
        assert lookup(array(keys), array(right)).tolist() == [keys.index(k) if k in keys else -1 for k in right]


@settings(max_examples=100)
@given(rows=st.lists(st.tuples(FEW, st.one_of(FEW, FAR), FAR), max_size=30))
def test_combine__keeps_different_rows_different(rows):
    columns = [array([r[i] for r in rows]) for i in range(3)]
    key = combine(*columns).tolist()
    for i, row in enumerate(rows):
        assert [k == key[i] for k in key] == [other == row for other in rows]


@given(values=KEYS)
def test_distinct__is_what_numpy_finds(values):
    assert distinct(array(values)).tolist() == np.unique(array(values)).tolist()
    assert distinct(array([values, values], np.int64)).tolist() == sorted(set(values))


@pytest.mark.parametrize(("how", "reduce", "start"), [
    (groups.MAX, max, np.iinfo(np.int64).min), (groups.MIN, min, np.iinfo(np.int64).max), (groups.SUM, sum, 0),
])  # fmt: skip
@pytest.mark.parametrize("run", [groups.reduce_groups, groups.reduce_groups.py_func], ids=["compiled", "plain"])
def test_reduce__is_per_group(run, how, reduce, start):
    group, values = array([0, 1, 0, 2, 1]), array([5, -3, 7, 0, 2])
    result = np.full(3, start, np.int64)
    run(group, values, result, how)
    assert result.tolist() == [reduce([5, 7]), reduce([-3, 2]), reduce([0])]


def test_median__of_two_middle_values_is_the_smaller_one():
    """Group 1 has no elements."""
    assert Segments(array([2, 0, 2, 0, 0, 2, 2]), 3).median(array([9, 4, -5, 1, 8, 7, 3])).tolist() == [4, 0, 3]
