"""Findings on files: who waits for whom, and what a file that takes one access at a time costs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from conftest import slow
from support.severities import cube_of

from benchmarks import kinds
from benchmarks.world import World
from tracecols.findings.order import _rounds
from tracecols.testing import Program


def first_finding(ends, name="fwrite", regions=("write_field", "advance")):
    """Return the first finding of ranks that call a function at the same time, each time until given ticks after, in
    turn over the ranks from time to time; and the share of the run that it gains."""
    ranks = len(ends)
    w = World(Random(0), ranks, noise=0)
    outer, compute = regions
    for k in range(12):
        w.everyone(compute, 1000)
        w.barrier()
        begin = max(now[0] for now in w.now)
        for r in range(ranks):
            w.now[r][0] = begin
            w.at(r).enter(begin, outer).enter(begin, name)
            w.now[r][0] = begin + ends[(r + k) % ranks]
            w.at(r).leave(w.now[r][0]).leave(w.now[r][0])
        w.barrier()
    first = cube_of(w.finish()).diagnosis().findings[0]
    return first, (first.gain or 0) * 10**6 / 12


@pytest.mark.parametrize("name", ["fwrite", *slow(["MPI_File_write_at", "H5Dwrite", "pwrite64"])])
def test_files__that_are_accessed_one_process_after_the_other(name):
    first, gain = first_finding([500, 1000, 1500, 2000], name)
    # each could take 500
    assert (first.kind, first.cause_region) == ("turns", "write_field") and gain == pytest.approx(1500, rel=0.02)
    assert first.what == (
        f"48 calls of {name} in write_field wait for each other: one process after the other, 500 us each"
    )
    assert "collective calls" in first.advice


@pytest.mark.parametrize(
    "ends",
    [
        # at the same time
        [2000, 2010, 1990, 2000],
        # the second and the third do not wait for each other
        [500, 1000, 1000, 2000],
        # two may differ in their work
        *slow([[500, 1000]]),
    ],
)
def test_files__that_are_not_take_long_on_all_alike(ends):
    first, _ = first_finding(ends)
    assert (first.kind, first.cause_region) == ("calls", "write_field")


def test_many_small_writes__are_no_queue():
    """Some of them happen to end one after the other, which gains nothing: the finding on these calls was left out."""
    found = kinds.try_program("small_writes", 3)
    assert found.is_right and found.kind == "calls"


def test_files__of_processes_that_do_nothing_else():
    program = Program(2)
    for process, end in zip(program.masters, (10, 20), strict=True):
        process.call(0, end, "MPI_File_write_at")
    name = "MPI_File_write_at"
    assert [f.what for f in cube_of(program).diagnosis().findings] == [f"2 calls of {name} in {name} take long"]


def test_functions_of_other_names__are_no_files():
    assert first_finding([500, 1000, 1500, 2000], "transform")[0].kind == "changing"


def test_rounds__are_the_shortest_runs_that_were_sent_right_after_each_other():
    # pairs 7 and 3; of the first, messages are sent at 2 1 | 3 | 6 5 4
    pair = np.array([7, 3, 7, 7, 3, 7, 7, 7])
    sent = np.array([2, 9, 1, 3, 8, 6, 5, 4])
    assert _rounds(pair, sent).tolist() == [0, 0, 0, 1, 0, 2, 2, 2]
    assert _rounds(pair[:0], sent[:0]).size == 0


def test_files__that_are_written_from_two_places_are_one_cause():
    """Both call `fwrite`, which calls `write`."""
    w = World(Random(0), 4, noise=0)
    for k in range(12):
        w.everyone("advance", 1000)
        with w.inside(("save_particles", "save_fields")[k % 2]), w.inside("fwrite"):
            w.everyone("write", 1500 + 1000 * (k % 2))
        w.allreduce()
    first, *others = cube_of(w.finish()).diagnosis().findings
    assert first.what == "48 calls of write in save_fields and save_particles take long"
    assert first.gain == pytest.approx(12 * 2000e-6, rel=0.05)
    assert not any(f.kind == "calls" for f in others)
