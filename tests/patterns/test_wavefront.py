"""Wavefronts: refill waits equal those of a simulation, and other communication is not taken for sweeps."""

import itertools
import json
import random

import numpy as np
import pytest
from conftest import slow
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command_line import executed, run
from support.otf2_writer import Archive
from support.severities import cells
from support.sweep_simulation import CORNERS, SPACE, grid_of, record, refill_truth, simulate

import tracecols
from tracecols.enhance.dataflow.columns import CompoundTable
from tracecols.enhance.definitions.topologies import given_topology
from tracecols.errors import AnalysisError
from tracecols.patterns import wavefront
from tracecols.search.cube import analyze_model

WEST, EAST, NORTH, SOUTH, FRONT, BACK = range(6)


def found(cube):
    """Return the refill waits of the cube, in ticks, by corner and rank."""
    result = {}
    for corner in CORNERS | SPACE:
        values = np.zeros(cube.system.n_locations, np.int64)
        of = cube.cells.get(f"mpi_latesender_wavefront_{corner}")
        if of is not None:
            np.add.at(values, of.location, of.value)
        result[corner] = values.tolist()
    return result


def seen(corner, sizes):
    """Return the corner as the analysis sees it: with one row there is no south, with one column no east."""
    letters = ("n" if sizes[1] == 1 else corner[0]) + ("w" if sizes[0] == 1 else corner[1])
    return letters + ("" if len(sizes) == 2 else corner[2])


def random_sweeps(generator, sizes, least):
    corners = CORNERS if len(sizes) == 2 else SPACE
    chosen = [seen(generator.choice(list(corners)), sizes) for _ in range(generator.randint(1, 12))]
    return [(corner, generator.randint(least, 5)) for corner in chosen]


SHAPES = [(1, 5), (6, 1), (2, 2), (2, 5), (4, 2), (3, 3), (5, 4), (4, 6), (7, 3)]
IN_SPACE = [(2, 2, 2), (3, 2, 2), (3, 3, 3), (4, 3, 2), (2, 3, 4), (1, 3, 3), (4, 1, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "seed", "conventions"),
    [(sizes, i % 4 // 2, ("scalasca", "expert")[i % 2]) for i, sizes in enumerate(SHAPES + IN_SPACE)],
)
def test_refill__is_what_the_simulation_waits(opened, tmp_path, sizes, seed, conventions):
    generator = random.Random(f"{seed} {sizes}")
    sweeps = random_sweeps(generator, sizes, 2)
    processes, rank_at = simulate(sizes, sweeps, lambda: generator.randint(1, 60))
    archive = Archive(tmp_path / "traces.otf2")
    record(archive, processes)
    trace = opened(archive)
    cube = trace.analyze(conventions, topologies=[grid_of(sizes, rank_at)])
    names = SPACE if len(sizes) == 3 else CORNERS
    assert [n for n in cube.properties.id if "wavefront" in n] == [f"mpi_latesender_wavefront_{c}" for c in names]
    waits = [sum(w for *_, w in p.waits) for p in processes]
    late = cells(cube, "mpi_latesender")
    assert [late.get(("MPI_Recv", rank), 0) for rank in range(len(processes))] == waits
    truth = refill_truth(processes)
    assert found(cube) == truth
    assert cube.violations() == []
    assert any(map(any, truth.values()))
    for corner, values in ((c, truth[c]) for c in names):
        laid = cube.on_topology("grid", f"mpi_latesender_wavefront_{corner}")
        expected = np.empty(sizes)
        for at, rank in rank_at.items():
            expected[at] = values[rank] / cube.resolution
        np.testing.assert_allclose(laid, expected, rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("order", list(itertools.permutations(CORNERS))[::4])
def test_refill__in_every_order_of_the_corners(opened, tmp_path, order):
    generator = random.Random("".join(order))
    sweeps = [(corner, 2) for corner in order for _ in range(2)] * 2
    processes, rank_at = simulate((3, 3), sweeps, lambda: generator.randint(1, 40))
    archive = Archive(tmp_path / "traces.otf2")
    record(archive, processes)
    trace = opened(archive)
    cube = trace.analyze(topologies=[grid_of((3, 3), rank_at)])
    assert found(cube) == refill_truth(processes)
    # every corner is refilled, and the rank at which its sweep begins does not wait for it
    for corner, (x, y) in {"nw": (0, 0), "ne": (2, 0), "sw": (0, 2), "se": (2, 2)}.items():
        assert found(cube)[corner][rank_at[x, y]] == 0
        assert sum(found(cube)[corner]) > 0


@pytest.mark.parametrize("seed", [1, *slow([2, 3])])
def test_refill__of_sweeps_in_three_dimensions(opened, tmp_path, seed):
    # two sweeps from each corner in any order, and every corner is refilled
    generator = random.Random(seed)
    order = random.Random(seed).sample(list(SPACE), 8)
    processes, rank_at = simulate((3, 2, 2), [(corner, 2) for corner in order * 2], lambda: generator.randint(1, 40))
    archive = Archive(tmp_path / "traces.otf2")
    record(archive, processes)
    trace = opened(archive)
    cube = trace.analyze(topologies=[grid_of((3, 2, 2), rank_at)])
    truth = refill_truth(processes)
    assert found(cube) == truth
    assert all(sum(truth[corner]) > 0 for corner in SPACE)
    # the same on the automatically found grid, whose dimensions are in the order of the receives
    assert found(trace.analyze()) == truth


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_refill__of_sweeps_in_one_block_is_told_everywhere_but_at_corners(opened, tmp_path, seed):
    generator = random.Random(seed)
    sweeps = [*random_sweeps(generator, (5, 4), 1), ("nw", 1), ("se", 1), ("ne", 1)]
    processes, rank_at = simulate((5, 4), sweeps, lambda: generator.randint(1, 60))
    archive = Archive(tmp_path / "traces.otf2")
    record(archive, processes)
    trace = opened(archive)
    ours, truth = found(trace.analyze(topologies=[grid_of((5, 4), rank_at)])), refill_truth(processes)
    corners = {rank_at[x, y] for x in (0, 4) for y in (0, 3)}
    for corner, rank in itertools.product(CORNERS, set(rank_at.values()) - corners):
        assert ours[corner][rank] == truth[corner][rank]


# -- reading the sequence of messages ----------------------------------------------------------------------------------


def slow_read(sides, has):
    """Divide the messages of one location into blocks (first, size, corner), one by one."""

    def is_whole(block):
        """Return whether the process can lack the messages that are missing in the block."""
        along = {side // 2 for side in block}
        return all(d in along or not (has[2 * d] and has[2 * d + 1]) for d in range(3))

    blocks, i = [], 0
    while i < len(sides):
        n = 1
        while i + n < len(sides) and sides[i + n] // 2 > sides[i + n - 1] // 2:
            n += 1
        blocks.append(sides[i : i + n])
        i += n
    # E E N N: the end of a sweep with messages from E alone, and the begin of one from N alone
    divided, first = [], 0
    for block in blocks:
        end = first + len(block)
        for n in range(1, len(block)):
            before, after = block[:n], block[n:]
            repeats = first >= n and sides[first - n : first] == before and sides[end : end + len(after)] == after
            if repeats and is_whole(before) and is_whole(after):
                divided += [before, after]
                break
        else:
            divided.append(block)
        first = end
    result, first = [], 0
    for block in divided:
        corner = 0
        for d in range(3):
            mine = [side for side in block if side // 2 == d]
            corner += (mine[0] % 2 if mine else int(has[2 * d])) << d
        result.append((first, len(block), corner if is_whole(block) else -1))
        first += len(block)
    return result


@pytest.mark.slow
@settings(max_examples=400)
@given(
    st.lists(st.tuples(st.tuples(*[st.booleans()] * 6), st.lists(st.sampled_from(range(6)), max_size=25)), max_size=4)
)
def test_read_sweeps__is_its_slow_twin(locations):
    sides = [s for _, of in locations for s in of]
    location = [i for i, (_, of) in enumerate(locations) for _ in of]
    has = np.array([h for h, _ in locations], bool).reshape(-1, 6)
    found = wavefront.read_sweeps(np.array(sides, np.int8), np.array(location, np.int32), has)
    expected, before = [], 0
    for mine, of in locations:
        expected += [(before + i, n, c) for i, n, c in slow_read(of, mine)]
        before += len(of)
    assert list(zip(*(column.tolist() for column in (found.first, found.size, found.corner)), strict=True)) == expected


# -- by hand -----------------------------------------------------------------------------------------------------------


def sender_and_receiver(archive, n, *messages):
    """Let rank 0 receive messages from others, each 10 ticks late: the k-th receive begins at 100 k."""
    mpi = archive.mpi(n)
    for k, (source, comm) in enumerate(messages):
        at = 100 * (k + 1)
        mpi.ranks[source].enter(at + 10, "MPI_Send").send(at + 11, 0, comm, 0, 8).leave(at + 12, "MPI_Send")
        mpi.ranks[0].enter(at, "MPI_Recv").receive(at + 20, source, comm, 0, 8).leave(at + 21, "MPI_Recv")
    return mpi


CROSS = {"name": "cross", "sizes": [3, 3], "coordinates": [[1, 1], [0, 1], [2, 1], [1, 0], [1, 2]]}
"""Rank 0 in the middle, 1 in the west, 2 in the east, 3 in the north, 4 in the south."""


def test_refill__of_both_components(archive, enhance):
    # west and north twice, then west and south: both messages of the first and of the third block
    sender_and_receiver(archive, 5, *[(source, 0) for source in (1, 3, 1, 3, 1, 4)])
    cube = analyze_model(enhance(archive), topologies=[CROSS])
    assert cells(cube, "mpi_latesender_wavefront_nw") == {("MPI_Recv", 0): 20}
    assert cells(cube, "mpi_latesender_wavefront_sw") == {("MPI_Recv", 0): 20}
    assert cells(cube, "mpi_latesender") == {("MPI_Recv", 0): 60}
    assert cube.cells["mpi_latesender_wavefront_ne"].value.size == 0


def test_refill__what_has_no_direction_is_no_part_of_a_sweep(archive, enhance):
    # two from the north in a row: in a sweep, a process in the middle never receives a vertical message alone
    sender_and_receiver(archive, 5, *[(source, 0) for source in (1, 3, 3, 1, 3)])
    cube = analyze_model(enhance(archive), topologies=[CROSS])
    assert cells(cube, "mpi_latesender_wavefront_nw") == {("MPI_Recv", 0): 40}


def test_refill__what_comes_from_afar_does_not_disturb(archive, enhance):
    # rank 4 is no neighbour: west, north, afar, west, north is one sweep
    sender_and_receiver(archive, 5, *[(source, 0) for source in (1, 3, 4, 1, 3)])
    far = {**CROSS, "sizes": [3, 4], "coordinates": [[1, 1], [0, 1], [2, 1], [1, 0], [1, 3]]}
    cube = analyze_model(enhance(archive), topologies=[far])
    assert cells(cube, "mpi_latesender_wavefront_nw") == {("MPI_Recv", 0): 20}
    assert sum(c.value.sum() for n, c in cube.cells.items() if "wavefront" in n) == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sources", "call", "expected"),
    [
        ((3, 1), "MPI_Waitall", 20),  # both of a block at once, in any order; the call has the larger wait
        ((1, 2), "MPI_Waitall", 0),  # from both sides: an exchange
        ((1, 1), "MPI_Waitall", 0),
        ((3,), "MPI_Sendrecv", 0),
    ],
)
def test_refill__exchanges_are_no_sweeps(archive, enhance, sources, call, expected):
    mpi = archive.mpi(5)
    me = mpi.ranks[0]
    for i, source in enumerate(sources):
        at = 110 + 10 * i
        mpi.ranks[source].enter(at, "MPI_Send").send(at + 1, 0, mpi.world, 0, 8).leave(at + 2, "MPI_Send")
        if call == "MPI_Waitall":
            me.enter(10 + 10 * i, "MPI_Irecv").post_receive(11 + 10 * i, i).leave(12 + 10 * i, "MPI_Irecv")
    me.enter(100, call)
    for i, source in enumerate(sources):
        at = 130 + i
        me.complete_receive(at, source, mpi.world, i, 0, 8) if call == "MPI_Waitall" else me.receive(
            at, source, mpi.world, 0, 8
        )
    me.leave(140, call)
    # a sweep from the north-west afterwards
    for k, source in enumerate((1, 3)):
        at = 200 + 100 * k
        mpi.ranks[source].enter(at + 10, "MPI_Send").send(at + 11, 0, mpi.world, 0, 8).leave(at + 12, "MPI_Send")
        me.enter(at, "MPI_Recv").receive(at + 20, source, mpi.world, 0, 8).leave(at + 21, "MPI_Recv")
    cube = analyze_model(enhance(archive), topologies=[CROSS])
    ours = cells(cube, "mpi_latesender_wavefront_nw")
    assert ours.get((call, 0), 0) == expected
    assert ours.get(("MPI_Recv", 0), 0) == (0 if expected else 20)
    assert cells(cube, "mpi_latesender")["MPI_Recv", 0] == 20


def test_refill__has_borders_where_positions_are_empty(archive, enhance):
    # there is no rank north of rank 0: a message from the west alone is a sweep from the north-west, unless one from
    # the south follows
    sender_and_receiver(archive, 5, *[(source, 0) for source in (1, 1, 1, 4)])
    hole = {**CROSS, "coordinates": [[1, 1], [0, 1], [2, 1], None, [1, 2]]}
    cube = analyze_model(enhance(archive), topologies=[hole])
    assert cells(cube, "mpi_latesender_wavefront_nw") == {("MPI_Recv", 0): 10}
    assert cells(cube, "mpi_latesender_wavefront_sw") == {("MPI_Recv", 0): 20}


def test_refill__takes_the_first_grid_a_location_stands_on(archive, enhance):
    # of two grids given by hand, the first holds other ranks
    sender_and_receiver(archive, 5, (1, 0), (3, 0))
    other = {"name": "other", "sizes": [1, 2], "coordinates": [None, None, None, [0, 0], [0, 1]]}
    mirrored = {**CROSS, "coordinates": [[1, 1], [2, 1], [0, 1], [1, 2], [1, 0]]}
    cube = analyze_model(enhance(archive), topologies=[other, CROSS, mirrored])
    # rank 3 is on the other grid: west alone says nothing about a process in the middle
    assert all(cube.cells[n].value.size == 0 for n in cube.cells if "wavefront" in n)
    cube = analyze_model(enhance(archive), topologies=[mirrored, CROSS])
    assert cells(cube, "mpi_latesender_wavefront_se") == {("MPI_Recv", 0): 20}


def test_refill__of_threads_counts_where_their_process_stands(archive, enhance):
    mpi = archive.mpi(2, n_threads=2)
    # a thread of rank 1 sends, a thread of rank 0 receives
    mpi.threads[1][1].enter(20, "MPI_Send").send(21, 0, mpi.world, 0, 8).leave(22, "MPI_Send")
    mpi.threads[0][1].enter(10, "MPI_Recv").receive(30, 1, mpi.world, 0, 8).leave(31, "MPI_Recv")
    cube = analyze_model(enhance(archive), topologies=[{"name": "row", "sizes": [2, 1], "order": "C"}])
    assert cells(cube, "mpi_latesender_wavefront_ne") == {("MPI_Recv", 0, 1): 10}
    assert cube.on_topology("row", "mpi_latesender_wavefront_ne").tolist() == [[1e-8], [0]]


def test_refill__needs_only_the_messages_of_its_receivers(opened, tmp_path):
    generator = random.Random(5)
    processes, rank_at = simulate((4, 3), random_sweeps(generator, (4, 3), 2), lambda: generator.randint(1, 60))
    archive = Archive(tmp_path / "traces.otf2")
    record(archive, processes)
    trace = opened(archive)
    axes = trace.locations["rank"].to_numpy(), trace.locations["thread"].to_numpy()
    model = trace.model.with_topologies([given_topology(grid_of((4, 3), rank_at), *axes)])
    m = model.messages
    whole = wavefront.refills(model, m)
    for receivers in ([0], [3, 7], range(5, 12)):
        rows = np.flatnonzero(np.isin(m.recv_location, list(receivers)))
        part = CompoundTable(m.table, rows.size, {c: m[c][rows] for c in m.table.names})
        np.testing.assert_array_equal(wavefront.refills(model, part), whole[rows])


@pytest.mark.slow
def test_refill__of_one_trace_on_several_grids(archive, opened):
    # a trace caches results, but not the grids of an earlier analysis
    sender_and_receiver(archive, 5, (1, 0), (3, 0))
    trace = opened(archive)
    mirrored = {**CROSS, "coordinates": [[1, 1], [2, 1], [0, 1], [1, 2], [1, 0]]}
    for grid, corner in ((None, ""), (CROSS, "nw"), (mirrored, "se"), (CROSS, "nw"), (None, "")):
        cube = trace.analyze(topologies=[grid] if grid else [])
        found = {n[-2:]: int(c.value.sum()) for n, c in cube.cells.items() if "wavefront" in n and len(c)}
        assert found == ({corner: 20} if corner else {})


def test_refill__is_not_sought_on_lines_and_artificial_grids(archive, enhance):
    sender_and_receiver(archive, 4, (1, 0), (1, 0))
    model = enhance(archive)
    for given_by_hand in ([], [{"name": "line", "sizes": [4], "order": "C"}], [{"sizes": [2, 2, 1], "order": "C"}]):
        cube = analyze_model(model, topologies=given_by_hand)
        has_it = "mpi_latesender_wavefront_nw" in cube.cells
        assert has_it == (len(given_by_hand) == 1 and len(given_by_hand[0]["sizes"]) == 3)
    assert [t.name for t in cube.topologies] == ["by hand", "Process x Thread"]


def test_refill__keeps_to_the_communicator_of_the_grid(archive, enhance):
    axes = [archive.define("CartDimension", name=archive.string("d"), size=n, cart_periodicity=0) for n in (2, 2)]
    mpi = archive.mpi(4)
    comm = archive.comm("cart", range(4))
    cart = archive.define("CartTopology", name=archive.string("cart"), communicator=comm, cart_dimensions=axes)
    for rank, at in enumerate(itertools.product(range(2), range(2))):
        archive.define("CartCoordinate", cart_topology=cart, rank=rank, coordinates=at)
    # rank 0 at (0, 0) receives from rank 2 in the east, then from rank 1 in the south over another communicator
    for k, (source, over) in enumerate([(2, comm), (2, comm), (1, mpi.world), (1, mpi.world)]):
        at = 100 * (k + 1)
        mpi.ranks[source].enter(at + 10, "MPI_Send").send(at + 11, 0, over, 0, 8).leave(at + 12, "MPI_Send")
        mpi.ranks[0].enter(at, "MPI_Recv").receive(at + 20, source, over, 0, 8).leave(at + 21, "MPI_Recv")
    cube = analyze_model(enhance(archive))
    assert cells(cube, "mpi_latesender_wavefront_ne") == {("MPI_Recv", 0): 10}
    assert cells(cube, "mpi_latesender_wavefront_sw") == {}


def test_overlapping_properties__leave_the_others_as_they_are(archive, enhance):
    # the horizontal message is late, the vertical one was sent before: in wrong order, and the start of a sweep
    mpi = archive.mpi(3)
    mpi.ranks[2].enter(10, "MPI_Send").send(11, 0, mpi.world, 0, 8).leave(12, "MPI_Send")
    mpi.ranks[1].enter(60, "MPI_Send").send(61, 0, mpi.world, 0, 8).leave(62, "MPI_Send")
    mpi.ranks[0].enter(20, "MPI_Recv").receive(70, 1, mpi.world, 0, 8).leave(71, "MPI_Recv")
    mpi.ranks[0].enter(80, "MPI_Recv").receive(81, 2, mpi.world, 0, 8).leave(82, "MPI_Recv")
    grid = {"sizes": [2, 2], "coordinates": [[0, 0], [1, 0], [0, 1]]}
    cube = analyze_model(enhance(archive), topologies=[grid])
    assert cells(cube, "mpi_latesender_wavefront_se") == cells(cube, "mpi_latesender_wo") == {("MPI_Recv", 0): 40}
    assert cube.violations() == []
    assert cube.cells_of("mpi_latesender", "eee").value.size == 0
    assert np.isnan(cube.on_topology("by hand")).tolist() == [[False, False], [False, True]]
    # a child that exceeds its parent is reported even if it overlaps
    cube.cells["mpi_latesender_wavefront_se"].value[:] = 41
    assert cube.violations() == [
        "mpi_latesender_wavefront_se exceeds mpi_latesender in 1 cell, most by 1e-09 at MPI_Recv, rank 0 thread 0"
    ]


def test_given_topology__of_arrays_is_that_of_lists(archive, enhance, tmp_path):
    sender_and_receiver(archive, 4, (1, 0))
    at = [[1, 0], [0, 0], [0, 1], [1, 1]]
    arrays = {"sizes": np.array([2, 2]), "locations": np.array([3, 0, 1, 2]), "coordinates": [np.array(x) for x in at]}
    cube = analyze_model(enhance(archive), topologies=[arrays])
    topology = tracecols.SeverityCube.load(cube.save(tmp_path / "x.severity")).topologies[0]
    # in the order of locations, as topologies keep them
    assert (topology.sizes, topology.location.tolist()) == ((2, 2), [0, 1, 2, 3])
    assert topology.coordinates.tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ([2, 2], r"a topology cannot be \[2, 2\]"),
        ({"sizes": [2, 2], "order": "C", "size": 4}, "no key is called size"),
        ({"order": "C"}, "sizes None are not positive numbers"),
        ({"sizes": [0, 4], "order": "C"}, r"sizes \[0, 4\] are not positive"),
        ({"sizes": [2, True], "order": "C"}, "not positive numbers"),
        ({"sizes": "22", "order": "C"}, "not positive numbers"),
        ({"sizes": np.array([[2, 2]]), "order": "C"}, "not positive numbers"),
        ({"sizes": np.array([2.0, 2.0]), "order": "C"}, "not positive numbers"),
        ({"sizes": [1 << 40, 1], "order": "C"}, "not positive numbers"),
        ({"sizes": [2, 2]}, "neither or both of coordinates and order"),
        ({"sizes": [2, 2], "order": "C", "coordinates": []}, "neither or both"),
        ({"sizes": [2, 2], "order": "fast"}, "neither 'C' nor 'F'"),
        ({"sizes": [2, 3], "order": "C"}, "2 x 3 positions for 4 ranks"),
        ({"sizes": [2, 2], "coordinates": [[0, 0]]}, "1 coordinates for 4 ranks"),
        ({"sizes": [2, 2], "coordinates": 4}, "no list of coordinates for 4 ranks"),
        ({"sizes": [2, 2], "coordinates": [[0, 0], [0, 1], [1, 0], [1, 2]]}, r"rank 3 is at \[1, 2\]"),
        ({"sizes": [2, 2], "coordinates": [[0, 0], [0, 1], [1], None]}, r"rank 2 is at \[1\]"),
        ({"sizes": [2, 2], "order": "C", "periodic": [1]}, r"periodic \[1\] does not fit 2 sizes"),
        ({"sizes": [2, 2], "order": "C", "periodic": ["false", True]}, "truth values"),
        ({"sizes": [2, 2], "order": "C", "periodic": [2, 1]}, "truth values"),
        ({"sizes": [2, 2], "order": "C", "dimensions": "xy"}, "dimensions 'xy' does not fit"),
        ({"sizes": [2], "locations": [0, 9], "order": "C"}, "locations are numbers from 0 to 3"),
        ({"sizes": [2], "locations": [1, 1], "order": "C"}, "a location is listed twice"),
    ],
)
def test_given_topology__says_what_is_wrong(archive, enhance, description, words):
    sender_and_receiver(archive, 4, (1, 0))
    with pytest.raises(AnalysisError, match=words):
        analyze_model(enhance(archive), topologies=[description])


# -- the command, and real traces --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_command__takes_topologies_from_files(archive, tmp_path):
    sender_and_receiver(archive, 5, (1, 0), (3, 0))
    store = tracecols.convert(archive.write(), tmp_path / "x.trace")
    grid, other = tmp_path / "grid.json", tmp_path / "lines.json"
    grid.write_text(json.dumps(CROSS))
    other.write_text(
        json.dumps(
            [
                {"name": "a\ud800", "dimensions": ["\ud800"], "sizes": [5], "order": "C"},
                {"name": "b", "sizes": [5, 1], "order": "F"},
            ]
        )
    )
    out = tmp_path / "x.severity"
    executed("analyze", store, "-o", out, "--topology", grid, "--topology", other)
    cube = tracecols.SeverityCube.load(out)
    assert [t.name for t in cube.topologies] == ["cross", "a\\ud800", "b", "Process x Thread"]
    assert cells(cube, "mpi_latesender_wavefront_nw") == {("MPI_Recv", 0): 20}
    for text, words in (
        ("{", "is not JSON"),
        ('{"sizes": [2]}', "neither or both of coordinates and order"),
        ("7", "a topology cannot be 7"),
    ):
        grid.write_text(text)
        assert words in executed("analyze", store, "-o", tmp_path / "y.severity", "--topology", grid, code=1)
        assert not (tmp_path / "y.severity").exists()
    assert run("analyze", store, "--topology", tmp_path / "none.json").exit_code != 0


def refill_rows(trace, topologies):
    """Return the messages that start a sweep, with their corners."""
    axes = trace.locations["rank"].to_numpy(), trace.locations["thread"].to_numpy()
    model = trace.model.with_topologies([given_topology(t, *axes) for t in topologies])
    corner = wavefront.refills(model, model.messages)
    return trace.messages.assign(corner=corner)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "height", "iterations"), [("otf2/sweep3d_4", 2, 2, 5), ("epilog/sweep3d_2x3_50", 2, 3, 12)]
)
def test_sweep3d__is_refilled_from_each_corner_once_per_iteration(
    shared_traces, opened, name, width, height, iterations
):
    trace = opened(shared_traces / name)
    grid = [{"name": "grid", "sizes": [width, height], "order": "F"}]
    m = refill_rows(trace, grid)
    cube = trace.analyze(topologies=grid)
    for name in (n for n in cube.properties.id if "wavefront" in n):
        found = trace.matches(name, topologies=grid, raw=True)
        assert found.severity.sum() == cube.cells[name].value.sum()
        assert (m.loc[found.index, "corner"] >= 0).all()
    starts = m[m.corner >= 0].groupby(["recv_location", "corner"]).size()
    # each process, from each corner it has a neighbour towards: one message per such neighbour and iteration
    for rank, (y, x) in enumerate(itertools.product(range(height), range(width))):
        for number, corner in enumerate(CORNERS):
            dx, dy = CORNERS[corner]
            n = (0 <= x - dx < width) + (0 <= y - dy < height)
            assert starts.get((rank, number), 0) == n * iterations, (rank, corner)
    # these are the first messages of an octant, whose number is part of the tag
    first = m.groupby(["recv_location", "send_location"]).tag.transform(lambda tag: tag != tag.shift())
    assert first[m.corner >= 0].all()


def test_cart__refills_are_the_first_blocks(shared_traces, opened):
    # the tags of this program hold the number of the block, from 0
    trace = opened(shared_traces / "epilog" / "cart_6")
    m = refill_rows(trace, [])
    starts = m[m.corner >= 0]
    assert len(starts) > 20
    assert set(starts.tag) == {100, 200}
