"""The severity cube: views, selections, storage."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import tracecols
from tracecols.errors import SeverityError
from tracecols.severity import Cells, SeverityCube


@pytest.fixture(scope="module")
def cube(tmp_path_factory, data):
    path = tracecols.convert(data / "hybrid_2x3", tmp_path_factory.mktemp("c") / "h.trace")
    return tracecols.open(path).analyze()


def test_cells__add_up_without_zeros_in_order():
    cells = Cells.sum(np.array([1, 0, 1, 2]), np.array([0, 3, 0, 0]), np.array([5, 7, -5, 1]))
    assert cells.call_path.tolist() == [0, 2]
    assert cells.location.tolist() == [3, 0]
    assert (cells + cells - cells).value.tolist() == [7, 1]


def test_view__property_exclusive_is_without_the_children(cube):
    exclusive = sum(cube.view(p, "eee").value.sum() for p in cube.properties.id if cube.properties.root_of(p) == "time")
    assert exclusive == cube.cells["time"].value.sum()


def test_view__call_path_inclusive_adds_up_to_the_roots(cube):
    inclusive = cube.view("time", "iie")
    roots = cube.call_paths.parent[inclusive.call_path] < 0
    assert inclusive.value[roots].sum() == cube.cells["time"].value.sum()
    # by hand for one path: what is below it in the tree
    i = cube.call_paths.path.index("hybrid/main/h_coll")
    below = cube.cells["time"]
    mine = (below.call_path >= i) & (below.call_path < cube.call_paths.end[i])
    assert inclusive.value[inclusive.call_path == i].sum() == below.value[mine].sum()


def test_by_system__inclusive_values_add_up(cube):
    values = cube.by_system("time")
    assert values[0] == pytest.approx(cube.total("time"))
    assert [cube.system.kind[i] for i in range(4)] == ["machine", "node", "process", "thread"]
    assert cube.by_system("time", view="iee")[0] == 0


@pytest.mark.parametrize("view", ["ie", "xee", "IEE"])
def test_view__refuses_other_letters(cube, view):
    with pytest.raises(SeverityError, match="three letters"):
        cube.view("time", view)


def test_frame__selects_by_names(cube):
    frame = cube.frame(["mpi_barrier_wait", "Wait at Implicit Barrier"], rank=1)
    assert set(frame["rank"]) == {1}
    assert set(frame.property) == {"mpi_barrier_wait", "omp_ibarrier_wait"} & set(frame.property)
    bcast = cube.frame("mpi_latebroadcast", call_path="*/MPI_Bcast")
    assert bcast.value.sum() == pytest.approx(cube.total("mpi_latebroadcast"))


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


def test_load__says_what_is_wrong(cube, tmp_path):
    path = cube.save(tmp_path / "h.severity")
    with pytest.raises(SeverityError, match="is not a severity cube"):
        SeverityCube.load(tmp_path)
    manifest = path / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"version": 3', '"version": 99'))
    with pytest.raises(SeverityError, match="severity format 99, this tracecols reads 3"):
        SeverityCube.load(path)
    manifest.write_text(text.replace('"conventions": "scalasca"', '"conventions": "expert"'))
    with pytest.raises(SeverityError, match="does not fit its checksum\n  the cube is damaged"):
        SeverityCube.load(path)
    manifest.write_text(text)
    (path / "cells.parquet").write_bytes(b"nonsense")
    with pytest.raises(SeverityError, match="is damaged"):
        SeverityCube.load(path)
    shutil.rmtree(path)


def test_save__leaves_nothing_when_it_fails(cube, tmp_path, monkeypatch):
    from tracecols.severity import cube as module

    def fail(*_):
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr(module, "write_table", fail)
    with pytest.raises((SeverityError, OSError)):
        cube.save(tmp_path / "h.severity")
    assert not list(tmp_path.iterdir())


def test_repr__names_the_largest_shares_of_the_time(cube):
    text = repr(cube)
    assert text.startswith("<SeverityCube 52 properties x 56 call paths x 6 locations, scalasca conventions>")
    assert "Wait at Implicit Barrier (omp_ibarrier_wait)" in text
    # also what a property with children has of its own: most of the idle time is outside parallel regions
    own = cube.total("omp_idle_threads") - cube.total("omp_limited_parallelism")
    assert text.splitlines()[2] == f"  {own / cube.total('time'):7.2%} {own:12.6f} s  Idle Threads (omp_idle_threads)"
