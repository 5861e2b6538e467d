"""The synthetic EPILOG trace is one that the slow twins accept, and they say the same about it."""

from __future__ import annotations

from collections import Counter

import pytest
from oracles.epilog import read_epilog
from oracles.expert import Analysis, severities

import tracecols
from benchmarks.synthetic_epilog import make_merged


@pytest.mark.parametrize("seed", [1, 2])
def test_make_merged__agrees_with_the_oracle(tmp_path, seed):
    path = make_merged(20_000, seed=seed, folder=tmp_path)
    recording = read_epilog(path)
    kinds = Counter(e.name for e in recording.events)
    times = [e.time for e in recording.events]
    assert recording.n_events == len(recording.events) >= 20_000
    assert times == sorted(times)
    assert {"MPI_SEND", "MPI_RECV", "MPI_COLLEXIT", "OMP_FORK", "OMP_JOIN", "OMP_COLLEXIT", "OMP_ALOCK"} < set(kinds)
    assert 0.6 < (kinds["ENTER"] + kinds["EXIT"]) / kinds.total() < 0.75
    # raises if a message has no sender or a region is never left
    assert not any(Analysis(recording).in_transit.values())
    expected = severities(recording)
    table = tracecols.open(tracecols.convert(path, tmp_path / "made.trace")).analyze("expert").frame()
    found = table.groupby(["property", "call_path", "rank", "thread"])["value"].sum().to_dict()
    assert expected.keys() == {k for k, v in found.items() if v}
    # sums of up to 20,000 doubles of seconds; ours are of integers
    assert all(abs(found[k] - v) < 1e-9 for k, v in expected.items())


def test_make_merged__is_found_again(tmp_path):
    path = make_merged(1_000, folder=tmp_path)
    before = path.stat().st_mtime_ns
    assert make_merged(1_000, folder=tmp_path) == path
    assert path.stat().st_mtime_ns == before
    assert [p.name for p in tmp_path.iterdir()] == [path.parent.name]
