"""Causes of lost time in traces that are too large to try causes on the whole trace."""

import random
from contextlib import contextmanager
from threading import current_thread
from types import SimpleNamespace

import numpy as np
import pytest
from support.late_ranks import late_ranks

from benchmarks.world import World
from tracecols.analysis import pieces
from tracecols.analysis.pieces import NO_MEMORY, SHORT_LOCATIONS
from tracecols.analysis.request import Request
from tracecols.analysis.run import run
from tracecols.findings import search


@pytest.fixture(scope="module")
def trace():
    with late_ranks(120).finish().trace() as trace:
        yield trace


@pytest.fixture
def large(trace, monkeypatch):
    """Return the trace; 90 of its 726 calls are tried in a piece, since all exceed the limit of the replay."""
    monkeypatch.setattr(search, "MOST_CALLS", 200)
    monkeypatch.setattr(pieces, "CALLS", 90)
    monkeypatch.setattr(pieces, "CALLS_EACH", 0)
    return trace


def by_region(diagnosis):
    return {f.cause_region: f for f in diagnosis.findings if f.kind == "computation"}


def test_causes__of_a_piece_are_those_of_the_run(trace, large, monkeypatch):
    found = large.analyze()
    with monkeypatch.context() as whole:
        whole.setattr(search, "MOST_CALLS", 1 << 21)
        wanted = trace.analyze()
    start, stop = found.facts["causes"]["piece"]
    assert (start + stop) / 2 == pytest.approx(wanted.diagnosis().recorded / 2, rel=0.01)
    assert stop - start == pytest.approx(wanted.diagnosis().runtime * 90 / trace.model.n_calls)
    assert "piece" not in wanted.facts["causes"]
    mine, other = by_region(found.diagnosis()), by_region(wanted.diagnosis())
    assert (mine["assemble"].rank, mine["smooth"].rank) == (1, 2)
    for region in ("assemble", "smooth"):
        assert mine[region].gain == pytest.approx(other[region].gain, rel=0.15), region
        assert mine[region].seconds == pytest.approx(other[region].seconds, rel=0.15), region
        assert mine[region].cause.call_path == other[region].cause.call_path
    # all waits have one of these causes
    assert [f.kind for f in found.diagnosis().findings[:2]] == ["computation"] * 2


def test_diagnosis__says_that_causes_are_of_a_piece(large):
    found = large.analyze().diagnosis()
    assert "causes were tried on 67.3 ms in the middle" in found.about_causes
    assert found.about_causes in " ".join(found.text().split())
    assert "whole run" in large.analyze(within="sync").diagnosis().about_causes


@pytest.fixture
def in_four(large, monkeypatch):
    """Return the trace; its causes are tried in four pieces."""
    monkeypatch.setattr(pieces, "EVENTS_EACH", large.manifest["n_events"] / large.model.n_locations / 5)
    return large


def test_pieces__are_spread_evenly_and_add_up(in_four, monkeypatch):
    found = in_four.analyze()
    bounds = np.reshape(found.facts["causes"]["piece"], (-1, 2))
    runtime, recorded = found.diagnosis().runtime, found.diagnosis().recorded
    assert bounds.mean(1) == pytest.approx(recorded * np.array([1, 3, 5, 7]) / 8, rel=0.02)
    assert np.diff(bounds) == pytest.approx(runtime * 90 / in_four.model.n_calls / 4)
    with monkeypatch.context() as whole:
        whole.setattr(search, "MOST_CALLS", 1 << 21)
        wanted = by_region(in_four.analyze().diagnosis())
    mine = by_region(found.diagnosis())
    for region in ("assemble", "smooth"):
        assert mine[region].rank == wanted[region].rank
        assert mine[region].gain == pytest.approx(wanted[region].gain, rel=0.3), region
        assert mine[region].cause.call_path == wanted[region].cause.call_path
    text = "causes were tried on 4 pieces of 16.8 ms each, spread evenly over the run"
    assert text in found.diagnosis().about_causes


def test_pieces__find_what_happens_at_the_end_of_the_run_only(in_four, monkeypatch):
    w = World(random.Random(1), 3, noise=0.0)
    for i in range(120):
        w.everyone("assemble", 1000, 1, 2000 * (i >= 105))
        w.allreduce()
    with w.finish().trace() as late:
        monkeypatch.setattr(pieces, "EVENTS_EACH", 100)
        first = late.analyze().diagnosis().findings[0]
        assert (first.cause_region, first.rank) == ("assemble", 1)
        assert first.gain == pytest.approx(15 * 2000 / w.program.resolution, rel=0.3)
        monkeypatch.setattr(pieces, "EVENTS_EACH", 1 << 17)
        assert late.analyze().diagnosis().findings[0].gain is None


def cause(kind, call_path, locations, gain, **evidence):
    explains = [[call_path], locations[:1] or [0], [gain]]
    return {
        "kind": kind, "call_path": call_path, "locations": locations, "gain": gain, "evidence": evidence,
        "explains": explains, "in_calls": [0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (cause("messages", 1, [], 5), cause("messages", 1, [], 3), True),
        (cause("messages", 1, [], 5), cause("messages", 2, [], 3), False),
        (cause("messages", 1, [], 5), cause("lock", 1, [], 3), False),
        (cause("computation", 1, [4, 5], 5), cause("computation", 1, [5], 3), True),
        (cause("computation", 1, [4], 5), cause("computation", 1, [5], 3), False),
        (cause("imbalance", 1, [4, 5], 5), cause("changing", 2, [], 3), True),
        (cause("imbalance", 1, [4, 5], 5), cause("changing", 3, [], 3), False),
        (cause("collectives", 2, [], 5, phases="step"), cause("collectives", 3, [], 3, phases="step"), True),
        (cause("collectives", 2, [], 5, phases="step"), cause("collectives", 3, [], 3, phases="solve"), False),
    ],
)
def test_causes__of_two_pieces_are_joined_if_they_are_the_same(one, other, joined):
    """Call path 2 is within call path 1."""
    paths = SimpleNamespace(end=np.array([4, 3, 3, 4]))
    together = pieces._together([[one], [other]], paths)
    assert [c["gain"] for c in together] == ([8] if joined else [5, 3])
    assert together[0]["evidence"] == one["evidence"] and together[0]["call_path"] == one["call_path"]
    assert sum(together[0]["explains"][2]) == together[0]["gain"]
    # causes of one piece are different ones
    assert len(pieces._together([[one, other]], paths)) == 2


def test_piece__of_a_part_of_the_time_lies_in_it(large):
    cube = large.analyze(start=0.1, stop=0.45)
    first, (start, stop) = cube.diagnosis().findings[0], cube.facts["causes"]["piece"]
    assert 0.1 < start < stop < 0.45
    assert first.cause_region == "assemble"
    assert first.gain == pytest.approx(2 / 4.5 * 0.35, rel=0.15)


def test_causes__are_left_out_where_there_is_no_memory_to_cut_a_piece(large, monkeypatch):
    monkeypatch.setattr(pieces, "OPERATION_BYTES", 1 << 30)
    cube = large.analyze(memory="500MB")
    assert "causes" not in cube.facts and cube.facts["counts"][NO_MEMORY] > 200
    assert cube.diagnosis().findings[0].kind != "computation"


def test_causes__are_left_out_if_locations_have_few_events(large, monkeypatch):
    mean = large.manifest["n_events"] / large.model.n_locations
    monkeypatch.setattr(pieces, "FEWEST_EVENTS", mean)
    assert "causes" in large.analyze().facts
    monkeypatch.setattr(pieces, "FEWEST_EVENTS", mean + 1)
    cube = large.analyze()
    assert "causes" not in cube.facts and cube.facts["counts"][SHORT_LOCATIONS] > 200


def test_memory__to_cut_a_piece_is_that_of_the_process_with_the_most_operations(trace):
    counts = trace.store.counts("collectives")
    assert (counts > 0).sum() > 1
    needed = int(pieces.OPERATION_BYTES * counts.max() / pieces.PART)
    assert pieces.can_be_cut(trace.store, needed + 1, 1) and not pieces.can_be_cut(trace.store, needed - 1, 1)
    assert pieces.can_be_cut(trace.store, None, 1)


def test_piece__is_looked_at_while_the_trace_is_analysed_if_memory_suffices_for_both(large, monkeypatch):
    """Otherwise it is analysed afterwards, with a separate progress bar."""
    threads, watched = [], []
    find = pieces.causes_in_pieces

    def found(*given):
        threads.append(current_thread())
        return find(*given)

    @contextmanager
    def watch(what):
        watched.append(what)
        yield None

    monkeypatch.setattr(pieces, "causes_in_pieces", found)
    cubes = []
    for part in (pieces.SPARE, 0):
        monkeypatch.setattr(pieces, "SPARE", part)
        cubes.append(run(Request(), large, watch=watch))
    assert threads[0] is not current_thread() and threads[1] is current_thread()
    assert watched == ["analyzing", "analyzing", "finding causes"]
    assert cubes[0].facts["causes"] == cubes[1].facts["causes"]


def test_memory__for_a_piece_beside_the_analysis_is_that_of_its_calls_and_of_cutting(trace):
    needed = int((pieces.bytes_to_cut(trace.store, 1) + pieces.CALL_BYTES * pieces.CALLS) / pieces.SPARE)
    assert pieces.fits_beside(trace.store, needed + 1, 1) and not pieces.fits_beside(trace.store, needed - 1, 1)
    assert pieces.fits_beside(trace.store, None, 1)


def test_causes__of_what_cannot_be_replayed_are_none(large, monkeypatch):
    monkeypatch.setattr(pieces, "facts_of_causes", lambda replay: None)
    assert "causes" not in large.analyze().facts


def test_call_paths__that_only_a_piece_has_are_in_no_place():
    """Call paths below them are not roots, though these do not have a call path above them in the trace either."""

    def paths(parent, region):
        return SimpleNamespace(parent=np.array(parent), region=np.array(region), call_site=np.full(len(parent), -1))

    whole, of_piece = paths([-1, 0, 0], [5, 6, 7]), paths([-1, 0, 1, 0], [5, 9, 5, 7])
    assert pieces._places_in(whole, of_piece).tolist() == [0, pieces.LACKING, pieces.LACKING, 2, -1]
