"""The severity cube: aggregations, selections, storage."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.command_line import python

from tracecols.errors import SeverityError
from tracecols.report.terminal import Display
from tracecols.search.cube import analyze_model
from tracecols.search.notes import counts
from tracecols.severity import Cells, SeverityCube, storage
from tracecols.severity import cells as cells_of
from tracecols.severity.causes import _take_below
from tracecols.severity.periods import PeriodCells


def test_cells__add_up_without_zeros_in_order():
    cells = Cells.sum(np.array([1, 0, 1, 2]), np.array([0, 3, 0, 0]), np.array([5, 7, -5, 1]))
    assert cells.call_path.tolist() == [0, 2]
    assert cells.location.tolist() == [3, 0]
    assert (cells + cells - cells).value.tolist() == [7, 1]


def test_cells_of__property_exclusive_is_without_the_children(cube):
    exclusive = sum(
        cube.cells_of(p, "eee").value.sum() for p in cube.properties.id if cube.properties.root_of(p) == "time"
    )
    assert exclusive == cube.cells["time"].value.sum()


def test_full_titles__leave_out_headings_unless_they_tell_properties_apart(cube):
    titles = cube.properties.full_title
    assert titles["mpi_latesender"] == "MPI, Late Sender"
    assert titles["mpi_sync_collective"] == "MPI, Synchronization, Collective"
    assert titles["mpi_collective"] == "MPI, Communication, Collective"
    assert len(set(titles.values())) == len(titles)


@pytest.mark.parametrize("call_path", [-1, 0, "!$omp parallel", "MPI_Init"])
def test_take_below__takes_from_openmp_only_on_one_location(cube, call_path):
    if isinstance(call_path, str):
        call_path = next(i for i, name in enumerate(cube.call_paths.name.tolist()) if name.startswith(call_path))
    cells, paths = cube.cells["time"], cube.call_paths
    below = (cells.call_path >= call_path) & (cells.call_path < paths.end[call_path])
    below &= (cells.location == 0) & (paths.paradigm == "openmp")[cells.call_path]
    whole = float(cells.value[below].sum())
    assert (whole > 0) == (call_path < 0 or not paths.name[call_path].startswith("MPI_Init"))
    left, taken = {"time": cells.value.astype(np.float64)}, {"time": np.zeros(len(cells))}
    key = np.array([call_path << 32], np.int64)
    _take_below(cube, {"time": cells}, left, taken, key, np.array([whole / 2]))
    np.testing.assert_allclose(taken["time"], np.where(below, cells.value / 2, 0))
    np.testing.assert_allclose(left["time"], cells.value - taken["time"])


def test_cells_of__call_path_inclusive_adds_up_to_the_roots(cube):
    inclusive = cube.cells_of("time", "iie")
    roots = cube.call_paths.parent[inclusive.call_path] < 0
    assert inclusive.value[roots].sum() == cube.cells["time"].value.sum()
    # by hand for one path: the sum over its subtree
    i = cube.call_paths.path.index("hybrid/main/h_coll")
    below = cube.cells["time"]
    mine = (below.call_path >= i) & (below.call_path < cube.call_paths.end[i])
    assert inclusive.value[inclusive.call_path == i].sum() == below.value[mine].sum()


def test_by_system__inclusive_values_add_up(cube):
    assert cube.by_system("time")[0] == pytest.approx(cube.total("time"))
    assert [cube.system.kind[i] for i in range(4)] == ["machine", "node", "process", "thread"]
    assert cube.by_system("time", aggregation="iee")[0] == 0


@pytest.mark.parametrize("aggregation", ["ie", "xee", "IEE"])
def test_cells_of__refuses_other_letters(cube, aggregation):
    with pytest.raises(SeverityError, match="three letters"):
        cube.cells_of("time", aggregation)


def test_frame__selects_by_names(cube):
    frame = cube.frame(["mpi_barrier_wait", "Wait at Implicit Barrier"], rank=1)
    assert set(frame["rank"]) == {1}
    assert set(frame.property) == {"mpi_barrier_wait", "omp_ibarrier_wait"} & set(frame.property)
    bcast = cube.frame("mpi_latebroadcast", call_path="*/MPI_Bcast")
    assert bcast.value.sum() == pytest.approx(cube.total("mpi_latebroadcast"))


@pytest.mark.slow
def test_xarray__is_the_same_tensor(cube):
    pytest.importorskip("xarray")
    tensor = cube.to_xarray()
    assert tensor.shape == (len(cube.properties.id), len(cube.call_paths), 6)
    for name in ("time", "bytes_sent", "omp_ibarrier_wait"):
        assert float(tensor.sel(property=name).sum()) == pytest.approx(cube.total(name))
    at = cube.frame("mpi_latebroadcast").iloc[0]
    cell = tensor.sel(property="mpi_latebroadcast").where(tensor.path == at.call_path, drop=True)
    assert float(cell.sum()) == pytest.approx(at.value)


def test_save_and_load__give_the_same_cube(cube, tmp_path):
    loaded = SeverityCube.load(cube.save(tmp_path / "h.severity"))
    assert loaded.frame().equals(cube.frame())
    assert loaded.properties == cube.properties
    assert loaded.facts == json.loads(json.dumps(cube.facts))
    assert repr(loaded) == repr(cube)
    assert [t.to_dict() for t in loaded.topologies] == [t.to_dict() for t in cube.topologies]


@pytest.mark.slow
def test_save__writes_the_same_in_blocks_of_any_size(cube, tmp_path, monkeypatch):
    whole = pq.read_table(cube.save(tmp_path / "a.severity") / "cells.parquet")
    monkeypatch.setattr(storage, "ROW_GROUP", 7)
    in_blocks = pq.ParquetFile(cube.save(tmp_path / "b.severity") / "cells.parquet")
    assert in_blocks.metadata.num_row_groups == -(-whole.num_rows // 7)
    assert in_blocks.read().equals(whole)


def test_made__keeps_the_cells_that_were_asked_for_last(monkeypatch):
    monkeypatch.setattr(cells_of, "MOST_KEPT", 5)
    made = []

    def make(name):
        made.append(name)
        return Cells(np.arange(2), np.arange(2))

    found = cells_of.Made("abc", make)
    assert list(found) == ["a", "b", "c"]
    assert "c" in found
    assert not made
    for name in ("a", "b", "a", "c", "a", "b"):
        assert len(found[name]) == 2
    # two results are kept
    assert made == ["a", "b", "c", "b"]
    with pytest.raises(KeyError):
        found["d"]
    # what is kept is not pickled
    again = pickle.loads(pickle.dumps(cells_of.Made("abc", str.upper)))
    assert (list(again), again["b"]) == (["a", "b", "c"], "B")


def test_load__says_what_is_wrong(cube, tmp_path):
    path = cube.save(tmp_path / "h.severity")
    with pytest.raises(SeverityError, match="is not a severity cube"):
        SeverityCube.load(tmp_path)
    manifest = path / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"version": 5', '"version": 99'))
    with pytest.raises(SeverityError, match="severity format 99, this tracecols reads 4 to 5"):
        SeverityCube.load(path)
    manifest.write_text(text.replace('"conventions": "exact"', '"conventions": "expert"'))
    with pytest.raises(SeverityError, match="does not fit its checksum\n  the cube is damaged"):
        SeverityCube.load(path)
    manifest.write_text(text)
    (path / "cells.parquet").write_bytes(b"nonsense")
    with pytest.raises(SeverityError, match="is damaged"):
        SeverityCube.load(path)
    shutil.rmtree(path)


def test_save__leaves_nothing_when_it_fails(cube, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr(storage, "write_table", fail)
    with pytest.raises((SeverityError, OSError)):
        cube.save(tmp_path / "h.severity")
    assert not list(tmp_path.iterdir())


def test_load__of_a_version_without_topologies(cube, tmp_path):
    path = cube.save(tmp_path / "h.severity")
    manifest = path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": 5', '"version": 3'))
    with pytest.raises(
        SeverityError, match="severity format 3, this tracecols reads 4 to 5\n  analyze the trace again"
    ):
        SeverityCube.load(path)


def test_load__of_values_that_come_together_in_no_known_way(cube, tmp_path):
    cube = SeverityCube.load(cube.save(tmp_path / "h.severity"))
    cube.properties.aggregation[0] = "median"
    with pytest.raises(SeverityError, match="no values come together as 'median'"):
        SeverityCube.load(cube.save(tmp_path / "h.severity"))


# -- topologies --------------------------------------------------------------------------------------------------------


def test_topologies__processes_and_threads_are_always_there(cube):
    assert repr(cube.topologies) == "[<Topology 'Process x Thread': 2 x 3 (Process, Thread), 6 locations>]"
    laid = cube.on_topology(0, "omp_ibarrier_wait")
    of = cube.by_location("omp_ibarrier_wait")
    for location, (rank, thread) in enumerate(zip(cube.system.rank, cube.system.thread, strict=True)):
        assert laid[rank, thread] == pytest.approx(of[location], rel=1e-15)
    assert np.nansum(laid) == pytest.approx(cube.total("omp_ibarrier_wait"))


def test_topologies__are_made_where_a_trace_has_none(archive, analyze):
    for rank in archive.mpi(3).ranks:
        rank.enter(1, "main").leave(5, "main")
    (topology,) = analyze(archive).topologies
    assert topology.to_dict() == {
        "name": "Process x Thread",
        "dimensions": ["Process", "Thread"],
        "sizes": [3, 1],
        "periodic": [False, False],
        "locations": [0, 1, 2],
        "coordinates": [[0, 0], [1, 0], [2, 0]],
        "is_artificial": True,
    }


def test_on_topology__places_threads_with_their_process(cube):
    # two processes on three positions: workers have no separate positions
    more = cube.with_topology("line", [3], [[2], [0]], dimensions=["x"], periodic=[True])
    assert [t.name for t in cube.topologies] == ["Process x Thread"]
    assert repr(more.topologies[-1]) == "<Topology 'line': 3 (x), 2 locations>"
    of = cube.by_location("omp_idle_threads")
    by_rank = [of[cube.system.rank == rank].sum() for rank in (0, 1)]
    laid = more.on_topology("LINE", "omp_idle_threads")
    np.testing.assert_allclose(laid, [by_rank[1], np.nan, by_rank[0]], rtol=1e-12)
    # without worker threads, masters are never idle
    np.testing.assert_array_equal(more.on_topology("line", "omp_idle_threads", aggregation="iee"), [0, np.nan, 0])
    assert len(more.topologies) == 2


def test_on_topology__selects_and_aggregates(cube):
    at = "*/MPI_Bcast"
    laid = cube.on_topology(0, "mpi_latebroadcast", at)
    np.testing.assert_allclose(
        laid.ravel(), cube.by_location("mpi_latebroadcast", cube.find_call_paths(at)), rtol=1e-15
    )
    # the inclusive value of the root is the total
    whole = cube.on_topology(0, "time", cube.call_paths.path[0], aggregation="iie")
    assert np.nansum(whole) == pytest.approx(cube.total("time"))
    assert np.nansum(cube.on_topology(0, "mpi", aggregation="eee")) <= np.nansum(cube.on_topology(0, "mpi"))


def test_on_topology__of_a_metric_that_is_a_number_fills_the_grid(cube):
    more = cube.with_metrics("k = 3").with_topology("line", [3], [[2], [0]])
    np.testing.assert_array_equal(more.on_topology("line", "k"), [3, np.nan, 3])
    with pytest.raises(SeverityError, match="three letters"):
        more.on_topology("line", "k", aggregation="x")


def test_grid__of_what_does_not_add_up_is_refused_before_anything_is_shown(cube):
    display = Display(cube.with_metrics("k = 3"))
    with pytest.raises(SeverityError, match="cannot be shown on a grid"):
        next(display.grid("k", None, "0", 80))


def test_on_topology__adds_up_who_shares_a_place(cube):
    shared = cube.with_topology("all in one", [1, 1], [[0, 0]] * 6, locations=range(6))
    assert shared.on_topology("all in one", "visits").tolist() == [[cube.total("visits")]]


def test_on_topology__says_what_is_wrong(cube):
    twice = cube.with_topology("a", [2], order="C").with_topology("A", [2], order="F")
    huge = cube.with_topology("huge", [100_000, 100_000], [[0, 0], [99_999, 1]])
    for of, topology, words in (
        (cube, "grid", "no topology is called 'grid'; give a number\n  0 <Topology 'Process x Thread'"),
        (twice, "a", "2 topologies are called 'a'; give a number"),
        (cube, 1, "no topology 1 in this cube"),
        (cube, -1, "no topology -1 in this cube"),
        (huge, "huge", "too many positions for an array"),
    ):
        with pytest.raises(SeverityError, match=words):
            of.on_topology(topology)
    with pytest.raises(SeverityError, match="no property 'x'"):
        cube.on_topology(0, "x")


def test_topologies__may_be_empty(archive, enhance, tmp_path):
    axis = archive.define("CartDimension", name=archive.string("d"), size=3, cart_periodicity=1)
    for rank in archive.mpi(2).ranks:
        rank.enter(1, "main").leave(5, "main")
    # the members of MPI_COMM_SELF are not known; the other topology has no dimension
    own = archive.comm_self()
    cart = archive.define("CartTopology", name=archive.string("self"), communicator=own, cart_dimensions=[axis])
    archive.define("CartCoordinate", cart_topology=cart, rank=0, coordinates=[1])
    archive.define("CartTopology", name=archive.string("point"), communicator=0, cart_dimensions=[])
    cube = SeverityCube.load(analyze_model(enhance(archive)).save(tmp_path / "x.severity"))
    assert cube.facts["counts"] == {}
    assert [t.name for t in cube.topologies] == ["self", "point", "Process x Thread"]
    assert np.isnan(cube.on_topology("self")).tolist() == [True] * 3
    assert cube.on_topology("point").shape == ()
    assert np.isnan(cube.on_topology("point"))


def test_topologies__of_a_trace_that_do_not_fit_are_counted(archive, enhance):
    axes = [archive.define("CartDimension", name=archive.string("d"), size=n, cart_periodicity=0) for n in (2, 0)]
    for rank in archive.mpi(4).ranks:
        rank.enter(1, "main").leave(5, "main")
    cart = archive.define("CartTopology", name=archive.string("cart"), communicator=0, cart_dimensions=axes)
    for rank, at in enumerate(([0, 0], [2, 0], [1], [1, 7])):
        archive.define("CartCoordinate", cart_topology=cart, rank=rank, coordinates=at)
    archive.define("CartCoordinate", cart_topology=cart, rank=0, coordinates=[1, 1])
    model = enhance(archive)
    cube = analyze_model(model)
    assert cube.facts["counts"] == counts(model) == {"positions that do not fit their topology": 3}
    # the size of the second dimension is not known: it reaches to rank 3
    laid = cube.on_topology("cart", "visits")
    assert laid.shape == (2, 8)
    assert np.argwhere(~np.isnan(laid)).tolist() == [[0, 0], [1, 7]]


def test_repr__names_the_largest_shares_of_the_time(cube):
    text = repr(cube)
    assert text.startswith("<SeverityCube 106 properties x 56 call paths x 6 locations, exact conventions>")
    assert "Wait at Implicit Barrier (omp_ibarrier_wait)" in text
    # without start-up and shutdown; a property with children is listed with its own time: idle time outside of parallel
    # regions
    inside = cube.focused()
    own = inside.total("omp_idle_threads") - inside.total("omp_limited_parallelism")
    assert text.splitlines()[2] == "  focus: MPI_Init to MPI_Finalize, 42.2% of the time"
    assert text.splitlines()[4] == f"  {own / inside.total('time'):7.2%} {own:12.6f} s  Idle Threads (omp_idle_threads)"


# -- parts of a cube ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_cube__shows_itself_whichever_module_it_was_imported_from(cube, tmp_path):
    # the viewer depends on the cube: it registers in tracecols/__init__.py and is imported when it is needed
    cube.save(tmp_path / "h.severity")
    code = (
        "import sys\nfrom tracecols.severity import SeverityCube\n"
        "assert not [name for name in sys.modules if name.startswith('tracecols.report')]\n"
        "cube = SeverityCube.load('h.severity')\n"
        "print(cube.report('h.html'))\nassert cube._repr_html_() and cube._repr_mimebundle_()"
    )
    assert python("-c", code, cwd=tmp_path).stdout.strip() == "h.html"
    assert (tmp_path / "h.html").stat().st_size > 100_000


def test_replaced__keeps_the_rest_and_the_type(cube):
    class Mine(SeverityCube):
        pass

    mine = Mine(cube.properties, cube.call_paths, cube.system, cube.cells, cube.facts, cube.topologies)
    for made in (mine.replaced(facts={}), mine.with_topology("line", [2], [[0], [1]]), mine - mine):
        assert type(made) is Mine
    assert mine.replaced(facts={}).cells is cube.cells


@pytest.mark.parametrize("n", [0, 1, 5, 1000])
@pytest.mark.parametrize("largest", [1, 2**40, 2**62])
def test_sum__of_repeated_cells_is_exact(n, largest):
    """Even if a sum does not fit into a float64, or exceeds 64 bits on the way."""
    chance = np.random.default_rng(n)
    call_path, location = chance.integers(0, 5, n).astype(np.int32), chance.integers(0, 3, n).astype(np.int32)
    value = chance.integers(-largest, largest, n)
    value[n // 2 : 2 * (n // 2)] = -value[: n // 2]
    call_path[n // 2 : 2 * (n // 2)], location[n // 2 : 2 * (n // 2)] = call_path[: n // 2], location[: n // 2]
    expected: dict[tuple[int, int], int] = {}
    for *cell, ticks in zip(call_path.tolist(), location.tolist(), value.tolist(), strict=True):
        expected[tuple(cell)] = expected.get(tuple(cell), 0) + ticks
    found = Cells.sum(call_path, location, value)
    cells = zip(zip(found.call_path.tolist(), found.location.tolist(), strict=True), found.value.tolist(), strict=True)
    assert list(cells) == sorted((cell, ticks) for cell, ticks in expected.items() if ticks)
    by_period = PeriodCells.ordered(call_path, location, np.zeros(n, np.int32), value)
    assert by_period.value.tolist() == found.value.tolist()
    assert found.value.dtype == by_period.value.dtype == np.int64


@pytest.mark.parametrize("largest", [7, 2**31 - 2], ids=["one key", "too large for one key"])
def test_period_cells__are_ordered_and_added_up(largest):
    """Cells of the same place become one, zeros are left out, and the input may be ordered already."""
    rows = [
        (largest, 0, 1, 5),
        (0, largest, -1, 2),
        (0, 3, largest, 1),
        (0, 3, largest, 6),
        (1, 1, 1, 4),
        (1, 1, 1, -4),
    ]
    expected = [(0, 3, largest, 7), (0, largest, -1, 2), (largest, 0, 1, 5)]
    for given in (rows, sorted(rows)):
        found = PeriodCells.ordered(*np.array(given, np.int64).T)
        columns = (found.call_path, found.location, found.period, found.value)
        assert [tuple(row) for row in np.column_stack(columns).tolist()] == expected
