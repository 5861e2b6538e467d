"""Causes in analyses of a part of a run: a piece of its time, a region, some locations."""

import random

import pytest
from support.late_ranks import late_ranks
from support.severities import cube_of

from benchmarks.mixed import numbered_steps
from benchmarks.world import World


@pytest.fixture(scope="module")
def trace():
    with late_ranks(10).finish().trace() as trace:
        yield trace


@pytest.mark.slow
def test_piece__has_causes_of_its_own(trace):
    whole, piece = trace.analyze().diagnosis(), trace.analyze(start=0.0, stop=0.02).diagnosis()
    first = piece.findings[0]
    assert (first.kind, first.rank, first.cause_region) == ("computation", 1, "assemble")
    # four of ten iterations, and a part of the fifth
    assert first.gain == pytest.approx(4 * 2000e-6, rel=0.15)
    assert whole.findings[0].gain == pytest.approx(10 * 2000e-6, rel=0.05)
    assert piece.name == whole.name and not piece.about_causes


def test_region__has_the_causes_of_the_whole_run_that_explain_something_there(trace):
    whole, inside = trace.analyze().diagnosis(), trace.analyze(within="sync").diagnosis()
    (first, *_) = inside.findings
    assert (first.kind, first.rank, first.cause_region) == ("computation", 2, "smooth")
    assert all(f.cause_region != "assemble" for f in inside.findings)
    (same,) = (f for f in whole.findings if f.cause_region == "smooth")
    assert (first.gain, first.gain_share) == (same.gain, same.gain_share)
    assert first.seconds == pytest.approx(same.seconds, rel=0.01)
    assert inside.about_causes in inside.text() and "whole run" in inside.about_causes


def test_locations__name_who_causes_what_they_wait_for(trace):
    first = trace.analyze(locations=[0]).diagnosis().findings[0]
    assert (first.rank, first.cause_region) == (1, "assemble")
    assert [p.location for p in first.paid_by] == ["rank 0"]


@pytest.mark.slow
def test_delay_costs_of_a_part__are_no_cause(trace):
    """They belong to other waits: for one location, to the waits of others for it."""
    found = trace.analyze(locations=[0], conventions="scalasca")
    found.facts.pop("causes")
    assert all(f.cause is None for f in found.diagnosis().findings)
    assert any(f.cause for f in trace.analyze(conventions="scalasca").diagnosis().findings)


def test_properties__say_that_causes_are_left_out(trace):
    d = trace.analyze(properties="mpi_wait_nxn").diagnosis()
    assert not any(f.what for f in d.findings)
    assert d.about_causes.startswith("no causes") and d.about_causes in d.text()


def test_steps__count_as_one_also_where_they_are_asked_for():
    w, truth = numbered_steps(random.Random(5), True)
    first = cube_of(w.finish()).diagnosis().findings[0]
    assert (first.rank, first.cause_region) == (truth.rank, "forces")
    assert first.evidence["n_pieces"] == 20


def test_steps__of_findings_that_are_properties_count_as_one():
    w = World(random.Random(2), 3, noise=0.0)
    for k in range(8):
        with w.inside(f"step_{k}"):
            for r in range(3):
                w.now[r][0] += 2000 if r == 1 else 1000
            w.allreduce()
    cube = cube_of(w.finish())
    cube.facts.pop("causes")
    first = cube.diagnosis().findings[0]
    assert first.property == "mpi_wait_nxn"
    assert (first.cause.location, first.cause.call_path, first.cause.n_call_paths) == ("rank 1", "step", 8)
