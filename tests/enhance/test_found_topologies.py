"""Topologies found from the pairs of ranks that communicate: those of known programs, for any placement of ranks, and
none in random graphs."""

import json
import math
import random

import numpy as np
import pytest
from conftest import slow
from support import mpi_recordings
from support.command_line import run
from support.otf2_writer import Archive
from support.sweep_simulation import simulate

import tracecols
from benchmarks.generate import make, write
from tracecols.enhance.definitions.definitions import Definitions
from tracecols.enhance.definitions.shapes import Graph, factorizations, find_shape
from tracecols.enhance.mpi import neighbours
from tracecols.enhance.mpi.neighbours import find_topology, topology_of


def steps(coordinates, sizes, periodic):
    """Return the pairs of neighbouring positions by their numbers, worked out one by one."""
    at = {tuple(c): i for i, c in enumerate(coordinates)}
    found = set()
    for place, i in at.items():
        for d, (size, wraps) in enumerate(zip(sizes, periodic, strict=True)):
            for to in (place[d] - 1, place[d] + 1):
                to = to % size if wraps and size > 2 else to
                j = at.get((*place[:d], to, *place[d + 1 :]))
                if j is not None and j != i:
                    found.add((min(i, j), max(i, j)))
    return found


def graph_of(n, edges, weight=lambda i, j: 10):
    """Make a graph from pairs of nodes."""
    listed = sorted({(min(e), max(e)) for e in edges})
    a, b = np.array(listed, np.int64).reshape(-1, 2).T
    messages = np.array([weight(i, j) for i, j in listed], np.int64)
    return Graph(n, a, b, (messages, 100 * messages))


def places(sizes):
    return list(np.ndindex(*sizes))


def permuted(edges, n, seed):
    number = random.Random(seed).sample(range(n), n)
    return [(number[i], number[j]) for i, j in edges]


GRIDS = [
    ("line", (7,), (False,)), ("line", (40,), (False,)), ("ring", (7,), (True,)), ("ring", (24,), (True,)),
    ("grid", (3, 2), (False, False)), ("grid", (4, 4), (False, False)), ("grid", (5, 3), (False, False)),
    ("torus", (3, 3), (True, True)), ("torus", (5, 4), (True, False)), ("torus", (6, 5), (True, True)),
    ("grid", (4, 3, 2), (False, False, False)), ("torus", (5, 3, 3), (False, True, True)), ("torus", (4, 6), (True, True)),
    ("grid", (3, 3, 3, 2), (False,) * 4), ("torus", (3, 4, 5, 3), (True, False, True, False)),
    ("hypercube", (2, 2, 2), (False,) * 3), ("hypercube", (2,) * 4, (False,) * 4), ("hypercube", (2,) * 6, (False,) * 6),
]  # fmt: skip


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize(("kind", "sizes", "periodic"), GRIDS)
def test_shape__of_a_grid_is_found_wherever_its_nodes_are(kind, sizes, periodic, in_order):
    n = math.prod(sizes)
    edges = steps(places(sizes), sizes, periodic)
    edges = edges if in_order else permuted(edges, n, 1)
    shape = find_shape(graph_of(n, edges))
    assert (shape.found.kind, sorted(zip(shape.sizes, shape.periodic, strict=True))) == (
        kind,
        sorted(zip(sizes, periodic, strict=True)),
    )
    assert steps(map(tuple, shape.coordinates.tolist()), shape.sizes, shape.periodic) == {
        (min(e), max(e)) for e in edges
    }
    assert shape.found.explained == 1
    assert shape.found.confidence > 0.95


TREES = {
    "heap of two": lambda i: (i - 1) // 2,
    "heap of four": lambda i: (i - 1) // 4,
    "binomial": lambda i: i & (i - 1),
    "star": lambda i: 0,
}


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("name", TREES)
def test_shape__of_trees_and_stars(name, in_order):
    n = 20
    edges = [(TREES[name](i), i) for i in range(1, n)]
    shape = find_shape(graph_of(n, edges if in_order else permuted(edges, n, 2)))
    assert shape.found.kind == ("star" if name == "star" else "tree")
    level, position = shape.coordinates.T
    assert len({*zip(level.tolist(), position.tolist(), strict=True)}) == n
    assert sorted(np.bincount(level).tolist())[-1] == shape.sizes[1]
    if in_order:
        depths = [0]
        for i in range(1, n):
            depths.append(depths[TREES[name](i)] + 1)
        assert level.tolist() == depths


def test_shape__is_found_among_few_other_messages():
    # all ranks send their results to rank 0 in the end, in small messages
    edges = steps(places((5, 4)), (5, 4), (False, False))
    gather = {(0, i) for i in range(1, 20)}
    shape = find_shape(graph_of(20, edges | gather, lambda i, j: 500 if (i, j) in edges else 1))
    assert (shape.found.kind, shape.sizes) == ("grid", (5, 4))
    assert shape.found.explained == pytest.approx(500 * 31 / (500 * 31 + 17))
    # also found where some neighbours do not communicate
    shape = find_shape(graph_of(20, sorted(edges)[:6] + sorted(edges)[8:]))
    assert (shape.found.kind, shape.sizes) == ("grid", (5, 4))


@pytest.mark.parametrize(
    ("n", "edges"),
    [
        (2, [(0, 1)]),
        (3, [(0, 1), (1, 2)]),
        (4, [(0, 1), (2, 3)]),
        (4, [(i, j) for i in range(4) for j in range(i)]),
        (5, [(0, 1), (1, 3), (3, 2), (2, 4)]),
        (12, [(i, j) for i in range(12) for j in range(i)]),
    ],
    ids=["two", "three", "pairs", "all of four", "a line of five in another order", "all of twelve"],
)
def test_shape__what_proves_nothing_is_none(n, edges):
    assert find_shape(graph_of(n, edges)) is None


def test_confidence__is_the_share_of_random_graphs_that_are_no_such_shape():
    # of the 15 graphs of four nodes and edges, one is the ring and one the grid in order
    ring = find_shape(graph_of(4, [(0, 1), (1, 2), (2, 3), (0, 3)]))
    assert (ring.found.kind, ring.found.confidence) == ("ring", pytest.approx(13 / 15))
    grid = find_shape(graph_of(4, [(0, 1), (1, 3), (2, 3), (0, 2)]))
    assert (grid.found.kind, grid.found.confidence) == ("grid", pytest.approx(13 / 15))
    # a line of six, in any order, is one of 360 of 3,003
    assert find_shape(graph_of(6, [(0, 2), (2, 1), (1, 5), (5, 3), (3, 4)])) is None
    assert find_shape(graph_of(6, [(i, i + 1) for i in range(5)])).found.confidence == pytest.approx(1 - 1 / 3003)


@pytest.mark.parametrize(("n", "least"), [(5, 0.9), (8, 0.98), *slow([(16, 0.98), (64, 1.0)])])
def test_shape__of_random_graphs_is_none(n, least):
    generator = np.random.default_rng(n)
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    trials, found = 300, 0
    for k in range(trials):
        m = int(generator.integers(n - 1, n + 1) if k % 2 else generator.integers(n - 1, min(4 * n, len(pairs)) + 1))
        chosen = pairs[generator.choice(len(pairs), m, replace=False)]
        weights = generator.integers(1, 100, (n, n))
        found += find_shape(graph_of(n, chosen.tolist(), lambda i, j, w=weights: w[i, j])) is not None
    assert 1 - found / trials >= least


@pytest.mark.slow
def test_shape__of_a_hundred_thousand_nodes():
    sizes = (17, 18, 18, 18)
    at = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
    number = np.random.default_rng(3).permutation(len(at))
    pairs = []
    for d, size in enumerate(sizes):
        to = at.copy()
        to[:, d] = (to[:, d] + 1) % size
        pairs.append(np.stack([number, number[np.ravel_multi_index(to.T, sizes)]], axis=1))
    edges = np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)
    messages = np.ones(len(edges), np.int64)
    shape = find_shape(Graph(len(at), *edges.T, (messages,)))
    assert (shape.sizes, shape.periodic) == ((18, 18, 18, 17), (True,) * 4)
    apart = np.abs(shape.coordinates[edges[:, 0]] - shape.coordinates[edges[:, 1]])
    apart = np.minimum(apart, np.array(shape.sizes) - apart)
    assert (apart.sum(1) == 1).all()


def test_factorizations__multiply_to_the_number():
    for n in (2, 7, 12, 36, 64, 100, 210):
        found = list(factorizations(n))
        assert len(set(found)) == len(found)
        brute = {tuple(f for f in fs if f > 1) for fs in np.ndindex(*(n + 1,) * 2) if math.prod(fs) == n}
        assert {f for f in found if len(f) <= 2} == brute
        assert all(math.prod(f) == n and min(f) > 1 and len(f) <= 4 for f in found)


# -- of traces ---------------------------------------------------------------------------------------------------------


RECORDED = {
    "otf2/sweep3d_4": ("grid", (2, 2)), "epilog/sweep3d_2x3_50": ("grid", (2, 3)), "epilog/cart_6": ("grid", (3, 2)),
    "otf2/cart": ("grid", (2, 2)), "otf2/mg_S_4": ("grid", (2, 2)), "otf2/bt-mz_S_4x2": ("grid", (2, 2)),
    "otf2/pipeline": ("line", (4,)), "otf2/metrics_rusage": ("line", (4,)), "injected/wavefront_coarse": ("line", (4,)),
    "injected/chain3": ("line", (4,)), "injected/imbalance_assembly": ("ring", (4,)), "epilog/flush_4_300it": ("ring", (4,)),
    "otf2/mpi_mix_5": ("ring", (5,)),
}  # fmt: skip
"""The topologies of the programs, as documented by their sources and notes."""

NONE = ["epilog/fuzz_1", "epilog/fuzz_14", "epilog/p2p_4", "otf2/late_sender", "otf2/subcomm", "otf2/wrong_order"]
"""Random messages, and test programs without a topology."""


def found_in(trace):
    """Find the topology of a trace, even if the trace defines one."""
    return find_topology(Definitions.of(trace.store))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_recorded__topologies_are_found_again(shared_traces, opened, name):
    trace = opened(shared_traces / name)
    topology, (kind, sizes) = found_in(trace), RECORDED[name]
    assert (topology.found.kind, topology.sizes) == (kind, sizes)
    assert topology.found.confidence > 0.85
    assert topology.found.explained > 0.95
    # a topology defined by the trace has the same neighbours; of two positions, each is the other's on both sides
    defined = [t for t in Definitions.of(trace.store).topologies if not t.is_artificial and len(t.sizes) > 1]
    for own in defined[:1]:
        np.testing.assert_array_equal(own.location, topology.location)
        assert steps(map(tuple, own.coordinates.tolist()), own.sizes, own.periodic) == steps(
            map(tuple, topology.coordinates.tolist()), topology.sizes, topology.periodic
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", NONE)
def test_recorded__none_is_found_where_there_is_none(shared_traces, opened, name):
    assert found_in(opened(shared_traces / name)) is None


OWN = {
    "chain": ("line", (10,), (False,)), "ring": ("ring", (12,), (True,)), "wavefront": ("grid", (3, 4), (False, False)),
    "grid_2d": ("grid", (4, 3), (False, False)), "grid_2d_shuffled": ("grid", (4, 3), (False, False)),
    "torus_2d": ("torus", (5, 3), (True, True)), "torus_2d_shuffled": ("torus", (3, 5), (True, True)),
    "cylinder": ("torus", (4, 4), (True, False)), "grid_3d": ("grid", (3, 2, 2), (False,) * 3),
    "grid_4d": ("hypercube", (2,) * 4, (False,) * 4), "doubling": ("hypercube", (2,) * 3, (False,) * 3),
    "binary_tree": ("tree", (4, 8), (False, False)), "binomial_tree": ("tree", (5, 6), (False, False)),
    "star": ("star", (2, 8), (False, False)),
}  # fmt: skip
"""The topologies that `benchmarks/mpi/programs.c` uses without defining them in MPI."""


def shuffled(n):
    """Return the rank at each position, as `programs.c` computes it."""
    state, order = 7, []
    for i in range(n):
        state = (state * 1664525 + 1013904223) % (1 << 32)
        j = (state >> 8) % (i + 1)
        order.append(i)
        order[i], order[j] = order[j], i
    return order


@pytest.mark.parametrize("name", ["grid_2d_shuffled", *slow(sorted({*OWN} - {"grid_2d_shuffled"}))])
def test_own_recordings__have_the_topology_of_the_program(opened, tmp_path, name):
    topology = found_in(opened(mpi_recordings.write(name, tmp_path)))
    kind, sizes, periodic = OWN[name]
    assert topology.found.kind == kind
    assert sorted(zip(topology.sizes, topology.periodic, strict=True)) == sorted(zip(sizes, periodic, strict=True))
    assert topology.found.confidence > 0.99
    assert topology.found.explained == 1
    if topology.found.is_grid:
        rank_of = shuffled(math.prod(sizes)) if "shuffled" in name else list(range(math.prod(sizes)))
        at = topology.coordinates[np.argsort(topology.location)]
        assert steps(map(tuple, at.tolist()), topology.sizes, topology.periodic) == {
            tuple(sorted((rank_of[i], rank_of[j]))) for i, j in steps(places(sizes), sizes, periodic)
        }


@pytest.mark.parametrize("name", ["random_sparse", *slow(["random_dense"])])
def test_own_recordings__of_random_graphs_have_none(opened, tmp_path, name):
    assert found_in(opened(mpi_recordings.write(name, tmp_path))) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "n", "periodic"),
    [
        ("sweep", 6, False),
        ("sweep", 16, False),
        ("sweep", 30, False),
        ("halo", 24, False),
        ("halo", 64, False),
        ("halo", 27, True),
    ],
)
def test_generated__topologies_are_found_again(opened, tmp_path, program, n, periodic):
    trace = opened(write(make(program, n, 1, 10_000, 1, periodic=periodic), tmp_path))
    (own,) = [t for t in Definitions.of(trace.store).topologies if not t.is_artificial]
    topology = found_in(trace)
    np.testing.assert_array_equal(own.location, topology.location)
    assert steps(map(tuple, own.coordinates.tolist()), own.shape, own.periodic) == steps(
        map(tuple, topology.coordinates.tolist()), topology.sizes, topology.periodic
    )
    # a trace that defines one is not searched
    assert topology_of(trace.store) is None


def record(archive, processes, rank_of, tag_of=lambda tag: tag):
    """Write the recording of processes with permuted ranks."""
    mpi = archive.mpi(len(processes))
    for number, process in enumerate(processes):
        location = mpi.ranks[rank_of[number]]
        location.enter(1, "sweep")
        end = 2
        for name, begin, event, end, peer, tag in process.calls:
            location.enter(begin, name)
            (location.send if name == "MPI_Send" else location.receive)(event, rank_of[peer], mpi.world, tag, 8)
            location.leave(end, name)
        location.leave(end + 1, "sweep")


def sweeps(tmp_path, width, height, rank_of=None):
    generator = random.Random(width * height)
    corners = [(corner, generator.randint(2, 5)) for corner in ("nw", "se", "nw", "ne", "sw", "se")]
    processes, rank_at = simulate((width, height), corners, lambda: generator.randint(1, 60))
    archive = Archive(tmp_path / "traces.otf2")
    record(archive, processes, rank_of or list(range(width * height)))
    return tracecols.open(tracecols.convert(archive.write(), tmp_path / "x.trace")), rank_at


@pytest.mark.parametrize(("width", "height"), [(3, 2), *slow([(2, 2), (2, 5), (4, 3)])])
def test_wavefronts__are_found_without_a_topology_given_by_hand(tmp_path, width, height):
    trace, rank_at = sweeps(tmp_path, width, height)
    place = {rank: at for at, rank in rank_at.items()}
    by_hand = {"name": "grid", "sizes": [width, height], "coordinates": [list(place[r]) for r in range(len(place))]}
    cube, expected = trace.analyze(), trace.analyze(topologies=[by_hand])
    assert list(cube.properties.id) == list(expected.properties.id)
    assert sum(cube.total(p) for p in cube.properties.id if "wavefront" in p) > 0
    for name in cube.properties.id:
        assert cube.total(name) == expected.total(name), name
    assert cube.facts["topology_found"]["kind"] == "grid"
    assert cube.topologies[0].sizes == (width, height)
    np.testing.assert_array_equal(cube.on_topology(0, "mpi_latesender"), expected.on_topology("grid", "mpi_latesender"))


@pytest.mark.slow
def test_wavefronts__of_ranks_in_any_order_are_the_same_up_to_names_of_corners(tmp_path):
    trace, _ = sweeps(tmp_path / "a", 4, 3)
    rank_of = random.Random(4).sample(range(12), 12)
    shuffled, _ = sweeps(tmp_path / "b", 4, 3, rank_of)
    by_corner = [
        sorted(cube.total(p) for p in cube.properties.id if "wavefront" in p)
        for cube in (trace.analyze(), shuffled.analyze())
    ]
    assert by_corner[0] == by_corner[1]
    assert by_corner[0][0] > 0


def test_messages__the_first_ones_of_each_location_are_marked(data, opened, monkeypatch):
    store = opened(data / "hybrid_2x3").store
    monkeypatch.setattr(neighbours, "N_FIRST", 2)
    counts = store.counts("p2p")
    filled = np.flatnonzero(counts)
    location, _, is_first = neighbours._read(store, filled, 0, int(counts.max()))
    assert filled.size > 1
    assert (counts[filled] > 8).any()
    assert [is_first[location == i].tolist() for i in filled] == [
        [k < 8 for k in range(n)] for n in counts[filled].tolist()
    ]


@pytest.mark.slow
def test_info__names_what_was_found(tmp_path):
    trace, _ = sweeps(tmp_path, 3, 2)
    said = run("info", trace.store.path).output
    assert "Topology found from who sends to whom: a grid of 3 x 2, 6 processes; confidence 100.0%" in " ".join(
        said.split()
    )
    listed = json.loads(run("info", trace.store.path, "--json").output)
    assert (listed["topology_found"]["kind"], listed["topology_found"]["sizes"]) == ("grid", [3, 2])
    trace.analyze().save(tmp_path / "x.severity")
    listed = json.loads(run("info", tmp_path / "x.severity", "--json").output)
    assert listed["facts"]["topology_found"]["explained"] == 1
