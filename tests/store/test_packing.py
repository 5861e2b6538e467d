"""Columns that are kept in files: as narrow codes, and the same when they are read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecols.enhance.dataflow import spill
from tracecols.enhance.dataflow.columns import Columns
from tracecols.kernels import packing

SMALL = st.integers(-300, 300)
WIDE = st.integers(-(2**63), 2**63 - 1)
COLUMN = st.sampled_from([SMALL, st.integers(0, 2**34), st.integers(10**15, 10**15 + 70_000), WIDE])


def rows_between(begin, end):
    """Return the rows of some ranges, one range after the other."""
    return np.concatenate([np.arange(*of) for of in zip(begin.tolist(), end.tolist(), strict=True)])


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@settings(max_examples=150)
@given(data=st.data())
def test_packing__gives_back_every_value(compiled, data):
    kernels = packing.pack, packing.unpack, packing.unpack_rows
    pack, unpack, unpack_rows = (f if compiled else f.py_func for f in kernels)
    # more than one group, with runs of equal values
    n, n_same = data.draw(st.integers(1, 20)), data.draw(st.sampled_from([1, 1, 300, 5000 if compiled else 300]))
    values = np.repeat(np.array(data.draw(st.lists(data.draw(COLUMN), min_size=n, max_size=n)), np.int64), n_same)
    base = data.draw(st.lists(data.draw(COLUMN), min_size=n, max_size=n) | st.just([]))
    base = np.repeat(np.array(base, np.int64), n_same)
    n_groups = -(-values.size // packing.GROUP)
    widths, lows, starts = np.zeros(n_groups, np.uint8), np.zeros(n_groups, np.int64), np.zeros(n_groups + 1, np.int64)
    words = np.zeros(values.size + n_groups, np.uint64)
    first = data.draw(st.integers(0, values.size - 1))
    stop = data.draw(st.integers(first + 1, values.size))
    some, again = slice(first // packing.GROUP, -(-stop // packing.GROUP)), np.zeros(stop - first, np.int64)
    begin, end = np.array([[first, stop], [values.size // 2, values.size]]).T.copy()
    row = np.append(rows_between(begin, end)[::-1], -1)
    several, picked = np.zeros(row.size - 1, np.int64), np.zeros(row.size, np.int64)
    with np.errstate(over="ignore"):
        pack(values, base, widths, lows, starts, words)
        first_word, codes = int(starts[some.start]), packing.Codes(widths, lows, starts)
        read = words[first_word : starts[some.stop]]
        unpack(read, first_word, codes, begin[:1], end[:1], base[first:stop], again)
        based = base[row[-2::-1]] if base.size else base
        unpack(words, 0, codes, begin, end, based, several)
        unpack_rows(words, 0, codes, row, -5, base[row] if base.size else base, picked)
    assert again.tolist() == values[first:stop].tolist()
    assert several.tolist() == values[row[-2::-1]].tolist()
    assert picked.tolist() == [*values[row[:-1]].tolist(), -5]
    spans = [int(of.max()) - int(of.min()) for of in np.split(values, range(packing.GROUP, values.size, packing.GROUP))]
    if not base.size:
        assert all(w <= min(64, (s + 1).bit_length()) for w, s in zip(widths.tolist(), spans, strict=True))


@pytest.fixture
def spilling(monkeypatch):
    monkeypatch.setattr(spill, "BUDGET", 0)
    return spill.Spill()


def table(**arrays):
    return Columns(max(a.size for a in arrays.values()), arrays)


def columns():
    time = np.cumsum(np.arange(1000)) + 10**15
    return table(
        row=np.arange(1000) + 2**40,
        time=time,
        enter=np.arange(1000) + 2**40 - 3,
        enter_time=np.where(np.arange(1000) % 7 == 0, -1, time - 70_000),
        wide=np.arange(1000) << 40,
        nothing=np.full(1000, -1, np.int32),
        kind=np.arange(1000).astype(np.uint8),
        flag=np.arange(1000) % 2 == 0,
    )


RELATIVE = {"enter": "row", "enter_time": "time"}


def test_spill__reads_what_it_wrote(spilling):
    given, kept = columns(), spilling.keep(columns(), RELATIVE)
    for name in given.names:
        array = given[name]
        assert getattr(kept, name).dtype == array.dtype
        assert getattr(kept, name).tolist() == array.tolist()
        for start, stop in ((0, 0), (3, 4), (990, 1000), (7, 700)):
            assert kept.rows(name, start, stop).tolist() == array[start:stop].tolist()


def test_spill__keeps_tables_without_rows(spilling):
    kept = spilling.keep(Columns(0, {"row": np.zeros(0, np.int64), "flag": np.zeros(0, bool)}), {})
    assert (len(kept), kept.names) == (0, ("row", "flag"))
    assert kept.row.dtype == np.int64
    assert kept.row.size == kept.flag.size == kept.search("row", [3])[0] == 0
    assert kept.several_at(("row",), np.array([-1]))[0].tolist() == [-1]


def test_spill__reads_rows_anywhere(spilling):
    given, kept = columns(), spilling.keep(columns(), RELATIVE)
    names = [name for name in given.names if name not in ("kind", "flag")]
    index, begin, end = np.array([999, 0, -1, 7, 7]), np.array([3, 990]), np.array([5, 1000])
    for name, found in zip(names, kept.several_at(names, index), strict=True):
        assert found.tolist() == [given[name][i] if i >= 0 else -1 for i in index.tolist()]
        assert found.dtype == given[name].dtype
    filled = {name: np.empty(12, given[name].dtype) for name in names}
    kept.fill(filled, begin, end)
    for name, found in filled.items():
        assert found.tolist() == [*given[name][3:5].tolist(), *given[name][990:].tolist()]


def test_spill__writes_few_bits(spilling):
    kept = spilling.keep(columns(), RELATIVE)
    written = {name: kept.stored(name).nbytes for name in kept.names}
    assert kept._path.stat().st_size == sum(written.values())
    # the codes are 1 .. n, or 0 for null; 1000 of them are in words of 64 bits
    bits = {"row": 10, "time": 19, "enter": 1, "enter_time": 1, "wide": 50, "nothing": 0}
    assert {name: written.pop(name) for name in bits} == {name: 8 * -(-1000 * n // 64) for name, n in bits.items()}
    assert written == {"kind": 1000, "flag": 1000}


def test_spill__finds_values_in_any_group(spilling):
    given = np.repeat(np.arange(3 * packing.GROUP) * 5, 2)
    kept = spilling.keep(table(row=given))
    for wanted in (-3, 0, 5 * packing.GROUP // 2, 5 * packing.GROUP // 2 + 1, 10 * packing.GROUP, given[-1], 2**62):
        assert kept.search("row", [wanted]).tolist() == [np.searchsorted(given, wanted)]


@pytest.mark.parametrize("name", ["row", "wide"])
def test_search__finds_rows_wherever_they_are(spilling, name):
    given = columns()
    values = getattr(given, name)
    kept = spilling.keep(_table(given, ["row", "wide"]))
    assert isinstance(kept, spill.SpilledColumns)
    low, high = int(values[100]), int(values[900])
    end = np.iinfo(np.int64).max
    assert kept.search(name, [low, high]).tolist() == [100, 900]
    assert kept.search(name, [low + 1, end]).tolist() == [101, 1000]
    assert kept.search(name, [0, low]).tolist() == [0, 100]
    assert kept.search(name, [-(2**62), 0]).tolist() == [0, 0]


def _table(given, names):
    return Columns(len(given.row), {name: getattr(given, name) for name in names})


def test_read_into__says_where_a_file_ends_before_a_column_does(tmp_path):
    path, found = tmp_path / "x.columns", np.zeros(3, np.int32)
    np.arange(4, dtype=np.int32).tofile(path)
    spill.read_into(found, path, 4)
    assert found.tolist() == [1, 2, 3]
    with pytest.raises(EOFError, match=r"x.columns ends before byte 20"):
        spill.read_into(found, path, 8)


def test_spilled_columns__ask_for_the_groups_of_rows_that_are_read(tmp_path, monkeypatch):
    """Of ten groups, the fourth to the sixth and the eighth are prefetched: for row numbers, and for ranges of rows."""
    asked = []
    monkeypatch.setattr(spill, "expect", lambda array, parts=None: asked.append((array, parts)))
    n, group = 10 * packing.GROUP, packing.GROUP
    values = np.arange(n) ** 2 % 100_003
    columns = spill.SpilledColumns(Columns(n, {"a": values, "b": values + 7}), {"b": "a"}, tmp_path / "x")
    starts = {name: columns.stored(name).codes.starts for name in columns.names}
    rows = np.concatenate([np.arange(3 * group, 6 * group), np.arange(7 * group, 8 * group)])
    asked.clear()
    assert columns.several_at(["b"], rows)[0].tolist() == (values[rows] + 7).tolist()
    expected = [[(int(starts[c][i]), int(starts[c][j])) for i, j in ((3, 6), (7, 8))] for c in ("b", "a")]
    assert [parts for _, parts in asked] == expected
    asked.clear()
    found = {"b": np.zeros(rows.size, np.int64)}
    columns.fill(found, np.array([3 * group, 7 * group]), np.array([6 * group, 8 * group]))
    assert found["b"].tolist() == (values[rows] + 7).tolist()
    assert [parts for _, parts in asked] == expected
    # the last groups up to the end
    asked.clear()
    columns.fill(found, np.array([n - 4 * group]), np.array([n]))
    assert asked[0][1] == [(int(starts["b"][6]), int(starts["b"][10]))]
