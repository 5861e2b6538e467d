"""Generated EPILOG traces are accepted by the slow twins, which say the same about them as the generator and the analysis."""

from __future__ import annotations

from collections import Counter

import pytest
from oracles.epilog import read_epilog
from oracles.expert import Analysis, severities

import tracecols
from benchmarks.generate import make, write


@pytest.mark.parametrize(
    ("program", "processes", "threads", "depth"),
    [("irregular", 4, 2, 6), ("irregular", 3, 3, 0), ("multizone", 4, 3, 3), ("sweep", 6, 1, 4), ("halo", 8, 1, 0)],
)
def test_write_epilog__agrees_with_the_oracles(tmp_path, program, processes, threads, depth):
    source = make(program, processes, threads, 20_000, 1, depth=depth)
    path = write(source, tmp_path, is_epilog=True)
    recording = read_epilog(path)
    kinds = Counter(e.name for e in recording.events)
    times = [e.time for e in recording.events]
    assert recording.n_events == len(recording.events) > 10_000
    assert times == sorted(times)
    omp = {"OMP_FORK", "OMP_JOIN", "OMP_COLLEXIT", "OMP_ALOCK"} if threads > 1 else set()
    assert {"ENTER", "EXIT", "MPI_SEND", "MPI_RECV", "MPI_COLLEXIT", *omp} <= set(kinds)
    assert kinds["MPI_SEND"] == kinds["MPI_RECV"] == source.truth.n_messages
    # raises if a message has no sender or a region is never left
    assert not any(Analysis(recording).in_transit.values())
    expected = severities(recording)
    table = tracecols.open(tracecols.convert(path, tmp_path / "made.trace")).analyze("expert").frame()
    found = table.groupby(["property", "call_path", "rank", "thread"])["value"].sum().to_dict()
    assert expected.keys() == {k for k, v in found.items() if v}
    # sums of up to 20,000 doubles of seconds; ours are of integers
    assert all(abs(found[k] - v) < 1e-9 for k, v in expected.items())
