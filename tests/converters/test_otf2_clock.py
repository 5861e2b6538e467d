"""Clocks of locations in generated archives: local times are converted back to the common time, to the tick."""

import numpy as np
import pytest

import tracecols
from benchmarks import generate
from benchmarks.programs.clock import LocalClock
from tracecols.converters.otf2 import decode
from tracecols.store import Store


@pytest.mark.parametrize("offsets", [(0, 0, 0), (5, -7, -900), (-3, -3, -40_000), (-1_000_000, -1_000_001, -1_000_400)])
def test_local_clock__is_the_inverse_of_the_reader(offsets):
    common, offset = np.array([1_000, 50_000, 90_000]), np.array(offsets)
    clock = LocalClock((common, offset))
    times = np.arange(900, 120_000, 7)
    local = clock.local(times)
    assert (np.diff(local) > 0).all()
    at, by = (np.array(v) for v in zip(*clock.records, strict=True))
    slope = np.diff(by) / np.diff(at)
    read = [decode.correct(x, 0, decode.Clock(at[:-1], by[:-1], slope, at[1:])) for x in local.tolist()]
    np.testing.assert_array_equal(read, times)
    np.testing.assert_array_equal(clock.common(local), times)
    # the readings themselves
    np.testing.assert_array_equal(clock.common(at), common)


def test_local_clock__that_runs_slow_never_shows_some_times():
    clock = LocalClock((np.array([0, 1_000]), np.array([0, 500])))
    local = clock.local(np.arange(1_000))
    assert (local < 0).sum() == 500
    shown = local >= 0
    np.testing.assert_array_equal(clock.common(local[shown]), np.flatnonzero(shown))


@pytest.mark.parametrize(
    ("common", "offset"), [([0], [0]), ([0, 10], [0, 10]), ([10, 10], [0, -5]), ([0, 10], [5, 5]), ([10, 0], [0, -50])]
)
def test_local_clock__refuses_what_is_none(common, offset):
    with pytest.raises(ValueError):
        LocalClock((np.array(common), np.array(offset)))


@pytest.mark.slow
@pytest.mark.parametrize(("program", "threads"), [("halo", 1), ("multizone", 3), ("master", 1)])
@pytest.mark.parametrize("skew", [1e-6, 0.5])
def test_generated__with_skew_the_waits_are_found(tmp_path, program, threads, skew):
    source = generate.make(program, 6, threads, 12_000, 4, skew=skew)
    archive = generate.write(source, tmp_path / "skewed", jobs=2)
    plain = generate.write(generate.make(program, 6, threads, 12_000, 4), tmp_path / "plain", jobs=2)
    skewed, one_clock = (tracecols.convert(a, tmp_path / f"{a.parent.name}.trace", jobs=1) for a in (archive, plain))
    # the files differ, the events read from them do not
    assert (tmp_path / "skewed/traces/1.evt").read_bytes() != (tmp_path / "plain/traces/1.evt").read_bytes()
    assert (tmp_path / "skewed/traces/1.def").stat().st_size >= 20 + 2 * 20
    for location in range(6 * threads):
        left, right = (Store(s).read("events", location) for s in (skewed, one_clock))
        for column, values in left.items():
            np.testing.assert_array_equal(values, right[column], column)
    cube = tracecols.open(skewed).analyze()
    for name, expected in source.truth.waits.items():
        found = np.zeros(6 * threads, np.int64)
        if name in cube.cells:
            np.add.at(found, cube.cells[name].location, cube.cells[name].value.astype(np.int64))
        assert found.tolist() == expected.tolist(), name


@pytest.mark.slow
def test_generated__with_skew_is_read_by_the_library(tmp_path):
    pytest.importorskip("otf2")
    from support.otf2_compare import check_definitions, check_events
    from support.otf2_library import Library

    archive = generate.write(generate.make("sweep", 4, 2, 10_000, 1, skew=0.01, depth=3), tmp_path / "out", jobs=1)
    store = Store(tracecols.convert(archive, tmp_path / "x.trace", jobs=1))
    library = Library(archive)
    check_definitions(store, library)
    assert check_events(store, library) == store.manifest["n_events"]
    library.close()
