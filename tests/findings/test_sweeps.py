"""Pipelines of sweeps: their shape is that of the simulation, and the proposed block size is near the best there."""

import random

import numpy as np
import pytest
from conftest import slow
from support.otf2_writer import Archive
from support.sweep_simulation import CORNERS, SPACE, grid_of, overlap_of, overlap_truth, record, refill_truth, simulate

import tracecols
from benchmarks.generate import make
from tracecols.conversion import write_store
from tracecols.findings.sweeps import NEAR, Shape, shape_of_sweeps
from tracecols.model.model import enhance as model_of
from tracecols.search.choice import with_topologies
from tracecols.severity import wording
from tracecols.store import Store

WORK = 2_000


def shape_of(enhance, path, sizes, sweeps):
    """Return the shape of simulated sweeps, and their processes."""
    processes, rank_at = simulate(sizes, sweeps, lambda: WORK)
    archive = Archive(path / "traces.otf2")
    record(archive, processes)
    return everywhere(enhance(archive), grid_of(sizes, rank_at)), processes


def everywhere(model, grid):
    """Return the shape of all sweeps of a trace on a grid."""
    model = with_topologies(model, [grid])
    return shape_of_sweeps(model, np.ones(len(model.call_paths.whole) + 1, bool))


def runtime(sizes, sweeps, parts):
    """Return the ticks of sweeps with divided blocks, including the last block on processes that send to nobody."""
    processes, _ = simulate(sizes, [(corner, n * parts) for corner, n in sweeps], lambda: WORK // parts)
    return max(p.calls[-1][3] for p in processes) + WORK // parts


SHAPES = [((5, 1),), ((1, 6),), ((3, 4),), ((2, 2, 2),), ((3, 2, 4),)]


@pytest.mark.parametrize("sizes", [(2, 2), *slow(SHAPES)])
def test_shape__is_that_of_the_simulation(tmp_path, enhance, sizes):
    corners = {1: ("nw", "ne") if sizes[0] > 1 else ("nw", "sw")}.get(min(sizes), tuple(CORNERS))
    corners = tuple(SPACE) if len(sizes) == 3 else corners
    sweeps = [(corner, 3) for corner in corners * 2]
    shape, processes = shape_of(enhance, tmp_path, sizes, sweeps)
    assert (shape.n_ranks, shape.n_blocks) == (1 + sum(n - 1 for n in sizes), 3)
    # a process in a corner receives nothing in the sweeps that begin there
    by_rank = [len({number for _, number, _, _ in p.waits}) for p in processes]
    assert shape.n_sweeps == max(by_rank)
    # a send begins exactly one tick after the work
    assert shape.work == WORK + 1
    assert shape.refill == sum(map(sum, refill_truth(processes).values()))
    assert (shape.under_way, shape.overlap) == overlap_truth(processes, sweeps)


@pytest.mark.parametrize("seed", [1, *slow(range(2, 8))])
def test_shape__has_the_overlap_of_the_simulation(tmp_path, enhance, seed):
    # at least two blocks: with one, the messages of corner processes do not show where sweeps begin
    generator = random.Random(seed)
    sizes = generator.choice([(3, 2), (3, 4), (2, 2, 2), (3, 2, 2)])
    corners = list(SPACE if len(sizes) == 3 else CORNERS)
    sweeps = [(generator.choice(corners), generator.randint(2, 4)) for _ in range(12)]
    processes, rank_at = simulate(sizes, sweeps, lambda: generator.randint(1, 200))
    archive = Archive(tmp_path / "traces.otf2")
    record(archive, processes)
    shape = everywhere(enhance(archive), grid_of(sizes, rank_at))
    under_way, overlap = overlap_truth(processes, sweeps)
    assert (shape.under_way, shape.overlap) == (under_way, overlap)
    assert 0 < overlap < under_way


@pytest.mark.slow
def test_shape__has_the_overlap_of_a_generated_program(tmp_path):
    path = tmp_path / "x.trace"
    path.mkdir()
    write_store(make("sweep", 6, 1, 2_000), path, jobs=1, salvage=False, progress=None)
    model = model_of(Store(path), 1)
    shape = shape_of_sweeps(model, np.ones(len(model.call_paths.whole) + 1, bool))
    m = tracecols.open(path).messages
    # tags are numbers of octants, of which two follow each other from each corner; reductions divide the run
    octant = (m.tag - 100) // 2
    c = tracecols.open(path).frame("collective_members", raw=True)
    reductions = np.sort(c[c.location == 0].enter_time.to_numpy())
    turn = np.searchsorted(reductions, m.send_enter_time) * 10 + octant
    ends = [*zip(turn, m.send_enter_time, strict=True), *zip(turn, m.recv_exit_time, strict=True)]
    assert (shape.under_way, shape.overlap) == overlap_of(ends)
    assert shape.overlap > 0


@pytest.mark.parametrize(
    ("sizes", "n"), [((4, 1), 2), *slow([((8, 1), 1), ((6, 6), 2), ((4, 4), 10), ((4, 3, 3), 1), ((3, 3, 3), 4)])]
)
def test_parts__are_as_good_as_the_simulation_with_so_many(tmp_path, enhance, sizes, n):
    shape, _ = shape_of(enhance, tmp_path, sizes, [("nwf"[: len(sizes)], n)])
    parts = shape.parts()
    assert parts > 1
    measured = {k: runtime(sizes, [("nwf"[: len(sizes)], n)], k) for k in {*range(1, 30), parts, 40, 60, 100, 200}}
    assert measured[parts] <= NEAR * 1.05 * min(measured.values())
    # the time of a sweep is predicted if messages take at most a quarter of a block
    for k, ticks in measured.items():
        if WORK / k > 4 * shape.cost:
            assert shape.duration(np.array([k]))[0] == pytest.approx(ticks, rel=0.1), k


def test_parts__are_none_where_blocks_are_small_enough():
    # a hundred blocks through four ranks, and messages that take as long as a block
    assert Shape(4, 100, 1, 1000, 100, 0).parts() == 1
    assert Shape(4, 1, 1, 100, 100, 0).parts() == 1
    assert Shape(4, 1, 1, 100_000, 10, 0).parts() > 10


@pytest.mark.parametrize("is_exchange", [True, False])
def test_shape__of_an_exchange_is_none(archive, enhance, is_exchange):
    # four ranks in a line: neighbours send to each other and then receive, or pass messages on
    mpi = archive.mpi(4)
    for k in range(4):
        for rank, location in enumerate(mpi.ranks):
            at = 1_000 * (k + 1) + (0 if is_exchange else 100 * rank)
            neighbours = [r for r in (rank - 1, rank + 1) if 0 <= r < 4]
            sends = [("MPI_Send", r) for r in neighbours if is_exchange or r > rank]
            receives = [("MPI_Recv", r) for r in neighbours if is_exchange or r < rank]
            calls = sends + receives if is_exchange else receives + sends
            for i, (name, peer) in enumerate(calls):
                begin = at + 10 * i
                location.enter(begin, name)
                event = location.send if name == "MPI_Send" else location.receive
                event(begin + 4 if name == "MPI_Recv" else begin + 1, peer, mpi.world, 0, 8)
                location.leave(begin + 5, name)
    line = {"name": "line", "sizes": [4, 1], "coordinates": [[r, 0] for r in range(4)]}
    assert (everywhere(enhance(archive), line) is None) == is_exchange


def test_wording__of_a_pipeline_that_is_too_short():
    evidence = Shape(4, 2, 12, 10_000, 80, 5_000).evidence(1_000_000)
    facts = {"kind": "pipeline", "evidence": {**evidence, "passed_on": 1.0}}
    subject = wording.Subject("recv_inflow", "")
    assert wording.what(facts, subject) == "a pipeline of 2 blocks in recv_inflow is too short for 4 ranks in turn"
    parts = evidence["parts"]
    assert f"blocks 1/{parts} of their size" in wording.advice(facts, subject)
    assert "60% now" in wording.advice(facts, subject)
    assert "2 blocks of 10 ms through 4 ranks" in wording.evidence(facts, subject)
    assert "messages of one sweep end before those of the next begin" in wording.evidence(facts, subject)
    facts["evidence"] |= Shape(4, 2, 12, 10_000, 80, 5_000, 1_000, 120).evidence(1_000_000)
    assert "messages of the next sweep are under way in 12% of their time" in wording.evidence(facts, subject)
