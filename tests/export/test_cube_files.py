"""Severity cubes as .cubex and .cube, and those of other tools."""

from __future__ import annotations

import functools
import gzip
import random
import struct
import tarfile
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import pytest
from conftest import slow
from support.command_line import executed
from support.cube_files import ANCHOR, OLD_CUBE, archive, foreign, index
from support.limits import within
from support.small_cubes import random_cube, small_cube

import tracecols
from tracecols.errors import ForeignCubeWarning, SeverityError
from tracecols.export import cube_parser, cube_read
from tracecols.export.cube_read import read_cube
from tracecols.export.tables import ExportError, write_cube
from tracecols.severity import Cells
from tracecols.severity.axes import CallAxis, PropertyAxis, SystemAxis

KEPT = ("hybrid_2x3", "late_sender")
SHARED = ("otf2/bt-mz_S_4x2", "otf2/cart", "otf2/hpcg_2x2", "epilog/bgq_ctest_epik_hyb_32x64")


@pytest.fixture(scope="module")
def analyzed(store_of, data):
    """Analyze a recorded trace, once; skip where it is not there."""
    from conftest import SHARED as COLLECTION

    @functools.cache
    def run(name):
        folder = data / name if name in KEPT else COLLECTION / name
        if not folder.is_dir():
            pytest.skip("no reference traces beside the repository")
        return tracecols.open(store_of(folder)).analyze("expert" if name.startswith("epilog") else "scalasca")

    return run


def assert_equal(found, cube, *, cube3=False):
    """Assert that two cubes are equal; CUBE 3 has only four system levels, and less information on regions."""
    p, c, s = (vars(axis) for axis in (cube.properties, cube.call_paths, cube.system))
    for name in cube.properties.__dataclass_fields__:
        if not (cube3 and name in ("confidence", "overlaps")):
            assert list(getattr(found.properties, name)) == list(p[name]), name
    for name in cube.call_paths.__dataclass_fields__:
        if not (cube3 and name in ("role", "paradigm")):
            assert np.array_equal(getattr(found.call_paths, name), c[name]), name
    for name in ("rank", "thread", "location_name") if cube3 else cube.system.__dataclass_fields__:
        assert np.array_equal(getattr(found.system, name), s[name]), name
    for name in cube.properties.id:
        mine, theirs = found.cells[name], cube.cells[name]
        assert np.array_equal(mine.key, theirs.key), name
        if theirs.value.dtype.kind == "f" and cube.properties.unit[cube.properties.number[name]] == "sec":
            # fractions of ticks are seconds / resolution rounded, and rounded once more on the way back
            np.testing.assert_array_max_ulp(mine.value.astype(np.float64), theirs.value, 1)
            continue
        assert np.array_equal(mine.value, theirs.value), name
        assert len(mine) == 0 or mine.value.dtype.kind == theirs.value.dtype.kind, name
    assert found.facts == cube.facts


# -- files read by other tools -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT + SHARED)
def test_cubex__is_the_cube_to_pycubexr(name, analyzed, tmp_path):
    pycubexr = pytest.importorskip("pycubexr")
    cube = analyzed(name)
    path = tmp_path / "x.cubex"
    write_cube(cube, path)
    n_cells = 0
    with pycubexr.CubexParser(str(path)) as theirs:
        metrics = theirs.all_metrics()
        assert [m.name for m in metrics] == cube.properties.id
        below = {child.name: m.name for m in metrics for child in m.childs}
        assert [below.get(m.name, "") for m in metrics] == cube.properties.parent
        assert [(m.display_name, m.units) for m in metrics] == [
            *zip(cube.properties.title, cube.properties.unit, strict=True)
        ]
        nodes = sorted(theirs.all_cnodes(), key=lambda node: node.id)
        assert [n.region.name for n in nodes] == cube.call_paths.name.tolist()
        assert [n.parent.id if n.parent else -1 for n in nodes] == cube.call_paths.parent.tolist()
        where = sorted(theirs.get_locations(), key=lambda location: location.id)
        assert [int(location.rank) for location in where] == cube.system.thread.tolist()
        groups = theirs._anchor_result.system_tree_nodes[0].all_location_groups()
        ranks = {location.id: int(g.rank) for g in groups for location in g.all_locations()}
        assert [ranks[location.id] for location in where] == cube.system.rank.tolist()
        for metric in metrics:
            values = theirs.get_metric_values(metric)
            dense = np.zeros((len(nodes), len(where)))
            cells = cube.cells[metric.name]
            dense[cells.call_path, cells.location] = cells.value * cube.scale(metric.name)
            read = np.array([values.cnode_values(node) for node in nodes], np.float64)
            assert np.array_equal(read, dense), metric.name
            n_cells += np.count_nonzero(read)
    assert n_cells == sum(len(c) for c in cube.cells.values()) > 100


def test_cubex__metrics_hold_what_is_below_them(analyzed, tmp_path):
    # for an expanded metric, Cube shows its value less those of its children: this must not become negative, and must
    # be the exclusive value of the property here
    pycubexr = pytest.importorskip("pycubexr")
    cube = analyzed("hybrid_2x3")
    write_cube(cube, tmp_path / "x.cubex")
    with pycubexr.CubexParser(str(tmp_path / "x.cubex")) as theirs:
        root = theirs.get_root_cnodes()[0]

        def total(metric):
            return theirs.get_metric_values(metric).cnode_values(root, convert_to_inclusive=True).sum()

        metrics = theirs.all_metrics()
        for metric in metrics:
            own = total(metric) - sum(total(child) for child in metric.childs)
            wanted = cube.cells_of(metric.name, "eee").value.sum() * cube.scale(metric.name)
            assert own == pytest.approx(wanted, abs=1e-12), metric.name
        assert sum(
            total(m) for m in metrics if m.name in ("execution", "overhead", "omp_idle_threads")
        ) == pytest.approx(cube.total("time"))


def test_cube3__is_the_cube_to_a_plain_reader(analyzed, tmp_path):
    cube = analyzed("hybrid_2x3")
    write_cube(cube, tmp_path / "x.cube")
    root = ElementTree.parse(tmp_path / "x.cube").getroot()
    assert root.attrib == {"version": "3.0"}
    names = {m.get("id"): m.findtext("uniq_name") for m in root.iter("metric")}
    regions = {r.get("id"): r.findtext("name") for r in root.iter("region")}
    nodes = {n.get("id"): regions[n.get("calleeId")] for n in root.iter("cnode")}
    assert [nodes[str(i)] for i in range(len(nodes))] == cube.call_paths.name.tolist()
    threads = [
        (int(p.findtext("rank")), int(t.findtext("rank"))) for p in root.iter("process") for t in p.iter("thread")
    ]
    found = {}
    for matrix in root.iter("matrix"):
        for row in matrix.iter("row"):
            for thread, value in zip(threads, row.text.split(), strict=True):
                if float(value):
                    found[names[matrix.get("metricId")], int(row.get("cnodeId")), thread] = float(value)
    wanted = {}
    for name, cells in cube.cells.items():
        for call_path, at, value in zip(cells.call_path.tolist(), cells.location.tolist(), cells.value, strict=True):
            wanted[name, call_path, (cube.system.rank[at], cube.system.thread[at])] = value * cube.scale(name)
    assert found == wanted
    assert [m.findtext("name") for m in root.iter("machine")] == [cube.system.name[0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED[-1:])
def test_write__takes_seconds_for_many_cells(name, analyzed, tmp_path):
    # 178,000 cells, 2,048 locations: 0.2 to 0.8 s each on the machine these tests were written on
    cube = analyzed(name)
    with within(30):
        for ending in ("cubex", "cube"):
            write_cube(cube, tmp_path / f"x.{ending}")
            assert_equal(read_cube(tmp_path / f"x.{ending}"), cube, cube3=ending == "cube")


# -- round trips -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [KEPT[0], *slow(KEPT[1:])])
@pytest.mark.parametrize("ending", ["cubex", "cube"])
def test_round_trip__of_an_analysis(name, ending, analyzed, tmp_path):
    path = tmp_path / f"x.{ending}"
    write_cube(analyzed(name), path)
    assert_equal(tracecols.read_cube(path), analyzed(name), cube3=ending == "cube")
    first = path.read_bytes()
    write_cube(tracecols.read_cube(path), path)
    if ending == "cubex":
        assert path.read_bytes() == first


@pytest.mark.parametrize("ending", ["cubex", "cube", "severity"])
@pytest.mark.parametrize("seed", [*range(4), *slow(range(4, 16))])
def test_round_trip__of_random_cubes(seed, ending, tmp_path):
    cube = random_cube(seed)
    write_cube(cube, tmp_path / f"x.{ending}")
    assert_equal(read_cube(tmp_path / f"x.{ending}"), cube, cube3=ending == "cube")


@pytest.mark.parametrize("resolution", [1, 3, 1000, 2596140085, 10**9, 10**14])
def test_ticks__come_back_from_seconds(resolution, tmp_path):
    # around powers of two, where float64 gets coarser, up to 2^51 ticks
    ticks = [sign * ((1 << k) + d) for k in range(2, 51) for d in (-1, 0, 1) for sign in (1, -1)]
    cube = small_cube({"time": {("main", i, 0): t for i, t in enumerate(ticks)}}, resolution=resolution)
    write_cube(cube, tmp_path / "x.cubex")
    back = read_cube(tmp_path / "x.cubex").cells["time"].value
    assert back.dtype == np.int64
    assert back.tolist() == ticks


def test_ticks__of_a_file_that_others_calculated_with_stay_what_they_are(tmp_path):
    cube = small_cube({"time": {("main", 0, 0): 3, ("main", 1, 0): 4}}, resolution=1000)
    write_cube(cube, tmp_path / "x.cube")
    text = (tmp_path / "x.cube").read_text()
    (tmp_path / "x.cube").write_text(text.replace("0.003\n", "0.0035\n"))
    assert read_cube(tmp_path / "x.cube").cells["time"].value.tolist() == [3.5, 4.0]


def test_topologies__travel(tmp_path):
    cube = small_cube({"time": {("main", 0, 0): 3, ("main", 1, 0): 4, ("main", 2, 0): 4}})
    topology = {
        "name": "grid <2d>",
        "sizes": [2, 2],
        "dimensions": ["x", "y"],
        "periodic": [True, False],
        "locations": [0, 2],
        "coordinates": [[0, 0], [1, 1]],
    }
    cube = cube.with_topology(**topology)
    for ending in ("cubex", "cube"):
        write_cube(cube, tmp_path / f"x.{ending}")
        (found,) = read_cube(tmp_path / f"x.{ending}").topologies
        assert found.to_dict() == topology | {"is_artificial": False}


@pytest.mark.parametrize("ending", ["cubex", "cube"])
def test_round_trip__of_a_deep_call_tree(ending, tmp_path):
    cube, n = random_cube(1), 12_000
    c = cube.call_paths
    for name in ("name", "role", "paradigm", "file", "line", "call_site", "end_line"):
        setattr(c, name, np.repeat(getattr(c, name)[:1], n))
    c.parent, c.depth, c.end = np.arange(-1, n - 1, dtype=np.int32), np.arange(n, dtype=np.int32), np.full(n, n)
    write_cube(cube, tmp_path / f"x.{ending}")
    assert_equal(read_cube(tmp_path / f"x.{ending}"), cube, cube3=ending == "cube")


def test_write__of_processes_without_a_node(tmp_path):
    cube = small_cube({"time": {("main", 0, 0): 3, ("main", 1, 0): 4}})
    cube.system.kind, cube.system.name = cube.system.kind[1:], cube.system.name[1:]
    cube.system.parent = [p - 1 for p in cube.system.parent[1:]]
    cube.system.location = cube.system.location[1:]
    for ending in ("cubex", "cube"):
        write_cube(cube, tmp_path / f"x.{ending}")
        found = read_cube(tmp_path / f"x.{ending}")
        assert found.system.kind[0] == "machine"
        assert found.by_location("time").tolist() == [0.003, 0.004]


def test_write__refuses_other_endings(tmp_path):
    with pytest.raises(ExportError, match=r"no format ends in '\.cubx'"):
        write_cube(random_cube(1), tmp_path / "x.cubx")
    assert not list(tmp_path.iterdir())


# -- files of other tools ----------------------------------------------------------------------------------------------


def by_path(cube, name):
    frame = cube.frame(name)
    return {(str(p), int(t)): v for p, t, v in zip(frame.call_path, frame.thread, frame.value, strict=True)}


# rows of main, main/f, main/f/g and main/g for both threads
WANTED = {
    ("main", 0): 1.5, ("main", 1): 2.5, ("main/f", 0): 4.0, ("main/f/g", 0): 5.25, ("main/f/g", 1): 6.0, ("main/g", 1): 7.0,
}  # fmt: skip
EXCLUSIVE = [[1.5, 2.5], [4, 0], [5.25, 6], [0, 7]]


@pytest.mark.filterwarnings("ignore::tracecols.errors.ForeignCubeWarning")
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("deflated", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("kind", ["EXCLUSIVE", "INCLUSIVE", "SIMPLE"])
@pytest.mark.parametrize("packed", [False, True])
def test_read__cubex_of_all_kinds(order, deflated, dense, kind, packed, tmp_path):
    # CubeW numbers call paths depth first for EXCLUSIVE, children together for INCLUSIVE, as defined for SIMPLE
    numbering = {"EXCLUSIVE": [0, 1, 2, 3], "INCLUSIVE": [0, 1, 3, 2], "SIMPLE": [2, 1, 3, 0]}[kind]
    values = np.array(EXCLUSIVE)
    if kind == "INCLUSIVE":
        values[1] += values[2]
        values[0] += values[1] + values[3]
    rows = [values[row].astype(f"{order}f8").tobytes() for row in numbering]
    chosen = [0, 1, 2, 3]
    if not dense:  # rows in another order than their numbers
        chosen = [2, 0, 3, 1]
        rows = [rows[i] for i in chosen]
    if deflated:
        blocks = [zlib.compress(r) for r in rows]
        starts = np.cumsum([0, *map(len, blocks)])
        places = [n for i, b in enumerate(blocks) for n in (16 * i, int(starts[i]), len(b))]
        data = b"ZCUBEX.DATA" + struct.pack(f"{order}13Q", 4, *places) + b"".join(blocks)
    else:
        data = b"CUBEX.DATA" + b"".join(rows)
    path = foreign(tmp_path / "x.cubex", kind, m0_index=index(order, *chosen, dense=dense), m0_data=data)
    if packed:  # only the anchor is compressed, as Score-P does
        members = {"anchor.xml": gzip.compress(ANCHOR.format(kind=kind, dtype="DOUBLE").encode())}
        path = archive(path, members | {"0.index": index(order, *chosen, dense=dense), "0.data": data})
    cube = read_cube(path)
    assert by_path(cube, "time") == WANTED
    assert cube.total("own") == 0
    assert cube.system.rank.tolist() == [7, 7]
    assert cube.system.location_name == ["t0", "t1"]
    assert cube.call_paths.call_site.tolist() == ["", "a.c:12 i=3", "", ""]
    assert cube.call_paths.line.tolist() == [3, 0, 0, 0]
    assert cube.call_paths.end_line.tolist() == [9, 0, 0, 0]
    assert cube.facts["source"]["Creator"] == "Score-P 6.0"
    assert cube.summary() == "1 property x 4 call paths x 2 locations"
    assert cube.properties.summary[0] == "Total.\nMore."


@pytest.mark.filterwarnings("ignore::tracecols.errors.ForeignCubeWarning")
@pytest.mark.parametrize(
    ("dtype", "code", "large"),
    [("UINT64", "Q", 2**64 - 1), ("INT64", "q", -(2**62)), ("INTEGER", "q", 5), ("UINT32", "I", 2**32 - 1),
     ("INT16", "h", -3), ("UINT8", "B", 255), ("FLOAT", "d", 0.1)],
)  # fmt: skip
def test_read__cubex_of_all_types(dtype, code, large, tmp_path):
    data = b"CUBEX.DATA" + struct.pack(f"<2{code}", large, 1)
    cube = read_cube(foreign(tmp_path / "x.cubex", dtype=dtype, m0_index=index("<", 0), m0_data=data))
    assert by_path(cube, "time") == {("main", 0): float(large), ("main", 1): 1}


def test_read__names_what_a_cube_cannot_hold(tmp_path):
    anchor = ANCHOR.replace("MAXDOUBLE", "HISTOGRAM(5)").replace("metric::time()", "sqrt(metric::time())")
    path = foreign(tmp_path / "x.cubex", anchor=anchor, m8_index=index("<", 0), m8_data=b"CUBEX.DATA" + bytes(112))
    with pytest.warns(
        ForeignCubeWarning, match=r": 2 without values.*: longest \(HISTOGRAM\(5\)\), rate \(POSTDERIVED\)"
    ):
        cube = read_cube(path)
    assert cube.properties.id == ["time", "own", "rate", "longest"]
    assert cube.facts["left_out"] == ["longest (HISTOGRAM(5))", "rate (POSTDERIVED)"]


# a profile with minima and maxima of time and statistics of bytes (tuples), as in Score-P
PROFILE = (
    ANCHOR.replace('<metric id="8" type="EXCLUSIVE">', '<metric id="8" type="INCLUSIVE">')
    .replace(
        "</metrics>",
        """<metric id="9" type="INCLUSIVE"><uniq_name>shortest</uniq_name><dtype>MINDOUBLE</dtype><uom>sec</uom></metric>
<metric id="10" type="EXCLUSIVE"><uniq_name>least</uniq_name><dtype>MINDOUBLE</dtype><uom>bytes</uom></metric>
<metric id="11" type="{kind}"><disp_name>Bytes</disp_name><uniq_name>bytes</uniq_name><dtype>TAU_ATOMIC</dtype><uom>bytes</uom></metric>
</metrics>""",
    )
    .replace('<metric id="7" type="POSTDERIVED">', '<metric id="7" type="EXCLUSIVE">')
    .replace("<cubepl>metric::time()</cubepl>", "")
)


def profile(path: Path, kind: str = "EXCLUSIVE") -> Path:
    """Write a profile of main, main/f, main/f/g and main/g for two threads; g is not called by main of thread 0."""
    # two orders of call paths: depth first, and siblings before their children
    deep, wide = index("<", 0, 1, 2, 3), index("<", 0, 1, 2, 3)
    none = 1.7976931348623157e308
    longest = np.array([[9, 8], [5, 4], [2.5, 3], [0, 4.5]])[[0, 1, 3, 2]]
    shortest = np.array([[7, 6], [1.25, none], [0.5, 0.75], [none, 0.25]])[[0, 1, 3, 2]]
    least = np.array([[0, 0], [8, 4], [16, none], [0, 2]])
    tuples = np.zeros((4, 2), [("n", "<u4"), *((name, "<f8") for name in ("min", "max", "sum", "sum2"))])
    tuples[1, 0], tuples[2, 0], tuples[2, 1] = (3, 0, 8, 12, 80), (1, 5, 5, 5, 25), (2, 1, 2, 3, 5)
    tuples = tuples if kind == "EXCLUSIVE" else tuples[[0, 1, 3, 2]]
    head = b"CUBEX.DATA"
    return foreign(
        path,
        kind,
        anchor=PROFILE,
        m8_index=wide,
        m8_data=head + longest.astype("<f8").tobytes(),
        m9_index=wide,
        m9_data=head + shortest.astype("<f8").tobytes(),
        m10_index=deep,
        m10_data=head + least.astype("<f8").tobytes(),
        m11_index=deep,
        m11_data=head + tuples.tobytes(),
    )


def test_read__keeps_extremes_and_statistics_of_a_profile(tmp_path):
    cube = read_cube(profile(tmp_path / "x.cubex"))
    p = cube.properties
    assert p.id[-8:] == [
        "longest", "shortest", "least", "bytes", "bytes_count", "bytes_min", "bytes_max", "bytes_squares",
    ]  # fmt: skip
    assert p.aggregation[-8:] == ["max_inclusive", "min_inclusive", "min", "sum", "sum", "min", "max", "sum"]
    assert "left_out" not in cube.facts
    assert by_path(cube, "longest") == {
        ("main", 0): 9, ("main", 1): 8, ("main/f", 0): 5, ("main/f", 1): 4, ("main/f/g", 0): 2.5, ("main/f/g", 1): 3,
        ("main/g", 1): 4.5,
    }  # fmt: skip
    # the largest float64 in the file means that nothing was measured
    assert by_path(cube, "shortest") == {
        ("main", 0): 7, ("main", 1): 6, ("main/f", 0): 1.25, ("main/f/g", 0): 0.5, ("main/f/g", 1): 0.75,
        ("main/g", 1): 0.25,
    }  # fmt: skip
    # in files of other tools a zero is no minimum, except in tuples, which have a count
    assert by_path(cube, "least") == {("main/f", 0): 8, ("main/f", 1): 4, ("main/f/g", 0): 16, ("main/g", 1): 2}
    assert by_path(cube, "bytes") == {("main/f", 0): 12, ("main/f/g", 0): 5, ("main/f/g", 1): 3}
    assert by_path(cube, "bytes_count") == {("main/f", 0): 3, ("main/f/g", 0): 1, ("main/f/g", 1): 2}
    assert by_path(cube, "bytes_min") == {("main/f", 0): 0, ("main/f/g", 0): 5, ("main/f/g", 1): 1}
    assert by_path(cube, "bytes_max") == {("main/f", 0): 8, ("main/f/g", 0): 5, ("main/f/g", 1): 2}
    assert by_path(cube, "bytes_squares") == {("main/f", 0): 80, ("main/f/g", 0): 25, ("main/f/g", 1): 5}


def test_extremes__never_add_up(tmp_path):
    cube = read_cube(profile(tmp_path / "x.cubex"))
    totals = {name: cube.total(name) for name in cube.properties.id[-8:]}
    assert totals == {
        "longest": 9, "shortest": 0.25, "least": 2, "bytes": 20, "bytes_count": 6, "bytes_min": 0, "bytes_max": 8,
        "bytes_squares": 110,
    }  # fmt: skip
    # main, main/f, main/f/g, main/g; inclusive values of a profile stay unchanged, others become extremes of the
    # subtree
    assert (
        cube.by_call_path("shortest").tolist() == cube.by_call_path("shortest", "iie").tolist() == [6, 1.25, 0.5, 0.25]
    )
    assert cube.by_call_path("least").tolist() == [0, 4, 16, 2]
    assert cube.by_call_path("least", "iie").tolist() == [2, 4, 16, 2]
    assert cube.by_call_path("bytes_max", "iie").tolist() == [8, 8, 5, 0]
    assert cube.by_call_path("bytes", "iie").tolist() == [20, 20, 8, 0]
    assert cube.by_location("least").tolist() == [8, 2]
    assert cube.by_system("least").tolist() == [2, 2, 2, 8]
    # zero is a valid minimum
    assert cube.by_system("bytes_min").tolist() == [0, 0, 1, 0]
    assert cube.violations() == []
    assert "longest" not in cube._repr_html_() and "longest" not in repr(cube)
    grid = cube.with_topology("grid", [2], locations=[0, 1], coordinates=[[0], [1]])
    assert grid.on_topology("grid", "longest").tolist() == [9, 8]
    assert cube.to_hatchet()[0]["metrics"]["least (inc)"] == 2
    # one location for all, and the algebra: extremes of extremes; differences and means of them are left out
    other = read_cube(profile(tmp_path / "y.cubex"))
    other.cells["least"].value[:] = [1, 9, 2, 9]
    runs = tracecols.compare([cube, other], by="aggregate")
    assert runs.united[0].cells["least"].value.tolist() == [4, 16, 2]
    assert runs.minimum().cells["least"].value.tolist() == [1, 2, 2]
    assert runs.maximum().cells["least"].value.tolist() == [4, 16, 9]
    assert runs.merge().total("least") == 2
    assert runs.totals().set_index("property").loc["least", "change"] == -1
    assert runs.difference().facts["left_out"] == runs.mean().facts["left_out"]
    assert len(runs.difference().cells["least"]) == len(runs.mean().cells["least"]) == 0
    assert "least (min)" in runs.mean().facts["left_out"]
    scaling = runs.scaling().set_index("property").loc["least"]
    assert scaling["mean"].isna().all() and scaling["total"].tolist() == [2, 1]


def test_statistics__that_are_inclusive_become_exclusive(tmp_path):
    cube = read_cube(profile(tmp_path / "x.cubex", "INCLUSIVE"))
    # thread 0: main/f has 12 bytes with the 5 of main/f/g; thread 1: main/f/g has 3, which no value above it includes
    assert by_path(cube, "bytes") == {
        ("main", 0): -12, ("main/f", 0): 7, ("main/f/g", 0): 5, ("main/f", 1): -3, ("main/f/g", 1): 3,
    }  # fmt: skip
    assert cube.properties.aggregation[cube.properties.number["bytes_min"]] == "min_inclusive"
    assert cube.by_call_path("bytes_min", "iie").tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("ending", ["cubex", "cube", "severity"])
def test_round_trip__of_extremes(ending, tmp_path):
    cube = read_cube(profile(tmp_path / "x.cubex"))
    cube.facts = {"conventions": "", "resolution": 1, "counts": {}}
    for name in ("bytes", "bytes_count", "bytes_squares"):
        cube.cells[name].value = cube.cells[name].value.astype(np.int64)
    write_cube(cube, tmp_path / f"y.{ending}")
    assert_equal(read_cube(tmp_path / f"y.{ending}"), cube, cube3=ending == "cube")


def test_cubex__extremes_are_those_to_pycubexr(tmp_path):
    pycubexr = pytest.importorskip("pycubexr")
    write_cube(read_cube(profile(tmp_path / "x.cubex")), tmp_path / "y.cubex")
    with pycubexr.CubexParser(str(tmp_path / "x.cubex")) as old, pycubexr.CubexParser(str(tmp_path / "y.cubex")) as new:
        for name in ("longest", "shortest"):
            metrics = [parser.get_metric_by_name(name) for parser in (old, new)]
            assert metrics[0].metric_type == metrics[1].metric_type == "INCLUSIVE"
            assert metrics[0].data_type == metrics[1].data_type
            read = []
            for parser, metric in zip((old, new), metrics, strict=True):
                values = parser.get_metric_values(metric)
                nodes = {n.region.name + str(n.id): n for n in parser.all_cnodes()}
                read.append([values.cnode_values(n).astype(float).tolist() for n in nodes.values()])
            # cells without a value are zero or the largest number
            clean = [[0 if abs(v) > 1e300 else v for v in row] for rows in read for row in rows]
            assert clean[:4] == clean[4:]


@pytest.mark.parametrize("command", ["show", "report", "rules", "export", "compare"])
@pytest.mark.parametrize("ending", ["severity", "cubex", "cube"])
def test_commands__take_any_cube(command, ending, tmp_path):
    cube = read_cube(profile(tmp_path / "x.cubex"))
    path = tmp_path / f"y.{ending}"
    write_cube(cube, path)
    more = {"export": [tmp_path / "y.csv"], "compare": [path], "report": ["-o", tmp_path / "y.html"]}.get(command, [])
    output = executed(command, path, *more)
    if command == "report":
        assert "note: left out, since they do not add up: longest, shortest, least, bytes_min, bytes_max" in output
    if command == "show":
        assert "longest, the greatest of all" in output
        for name in ("shortest", "bytes"):
            for where in ([], ["-c", "main/f/g"]):
                executed("show", path, "-p", name, *where)


# -- cubes without cells, call paths, locations ------------------------------------------------------------------------


def empty_cube(what: str):
    """Make a cube that lacks `what`."""
    cube = small_cube({"time": {("main", 0, 0): 3, ("main/f", 1, 0): 4}})
    p, c, s = cube.properties, cube.call_paths, cube.system
    cube.cells = {"time": Cells.empty()}
    if what in ("call paths", "everything"):
        call_paths = {name: getattr(c, name)[:0] for name in c.__dataclass_fields__}
        cube.call_paths = CallAxis(**call_paths)
    if what in ("locations", "everything"):
        cube.system = SystemAxis([], [], [], [], s.rank[:0], s.thread[:0], [], [])
    if what in ("properties", "everything"):
        cube.properties = PropertyAxis(*([] for _ in p.__dataclass_fields__))
        cube.cells = {}
    return cube


@pytest.mark.parametrize("ending", ["cubex", "cube", "severity", "csv", "parquet", "json"])
@pytest.mark.parametrize("what", ["everything", *slow(["cells", "call paths", "locations", "properties"])])
def test_round_trip__of_an_empty_cube(what, ending, tmp_path):
    cube = empty_cube(what)
    cube.save(tmp_path / "x.severity")
    path = tmp_path / f"y.{ending}"
    for wide in [[], ["--wide"]] if ending in ("csv", "parquet") else [[]]:
        executed("export", tmp_path / "x.severity", path, *wide)
    if ending in ("cubex", "cube", "severity"):
        assert_equal(read_cube(path), cube, cube3=ending == "cube")
        assert read_cube(path).frame().empty
        for command in (["show"], ["report", "-o", str(tmp_path / "y.html")], ["export", str(tmp_path / "z.csv")]):
            executed(command[0], path, *command[1:])


@pytest.mark.slow
def test_one_location_without_events__is_read_back(shared_traces, tmp_path):
    store = tracecols.convert(shared_traces / "otf2_small" / "one_location_no_events", tmp_path / "x.trace")
    cube = tracecols.open(store).analyze()
    for ending in ("cubex", "cube"):
        write_cube(cube, tmp_path / f"x.{ending}")
        assert_equal(read_cube(tmp_path / f"x.{ending}"), cube, cube3=ending == "cube")


# -- regions and nodes that CubeLib unites -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["cubex", "cube"])
def test_regions__have_first_and_last_line(ending, analyzed, tmp_path):
    # CubeLib: regions are the same if name, module, begin and end line are
    cube = analyzed("hybrid_2x3")
    write_cube(cube, tmp_path / f"x.{ending}")
    text = (tmp_path / f"x.{ending}").read_bytes()
    root = ElementTree.fromstring(text if ending == "cube" else text[512 : text.index(b"</cube>") + 7])
    found = {(r.findtext("name"), r.get("mod"), r.get("begin"), r.get("end")) for r in root.iter("region")}
    c = cube.call_paths
    lines = [(str(a) if a > 0 else "-1", str(b) if b > 0 else "-1") for a, b in zip(c.line, c.end_line, strict=True)]
    assert found == {(n, f, *line) for n, f, line in zip(c.name, c.file, lines, strict=True)}
    assert sum(end != "-1" for *_, end in found) > 5


@pytest.mark.filterwarnings("ignore::tracecols.errors.ForeignCubeWarning")
def test_nodes__are_named_after_their_class(tmp_path):
    # Score-P and Scalasca name them so: machine Linux, node vm
    cube = small_cube({"time": {("main", 0, 0): 3}}, machine="Linux")
    s = cube.system
    cube.system = SystemAxis(
        ["machine", "node", *s.kind[1:]],
        ["Linux", "node node", *s.name[1:]],
        [-1, 0, *(p + 1 for p in s.parent[1:])],
        [-1, *s.location],
        s.rank,
        s.thread,
        s.location_name,
        s.location_type,
    )
    write_cube(cube, tmp_path / "x.cubex")
    text = (tmp_path / "x.cubex").read_bytes()
    assert b"<name>machine Linux</name>\n<class>machine</class>" in text
    assert b"<name>node node node</name>\n<class>node</class>" in text
    assert_equal(read_cube(tmp_path / "x.cubex"), cube)
    # a name without its class stays as it is
    cube = read_cube(foreign(tmp_path / "y.cubex", anchor=ANCHOR.replace("<name>m</name>", "<name>machineroom</name>")))
    assert cube.system.name[0] == "machineroom"


@pytest.mark.parametrize("packed", [False, True])
def test_read__cube3_with_call_sites(packed, tmp_path):
    path = tmp_path / ("old.cube.gz" if packed else "old.cube")
    path.write_bytes(gzip.compress(OLD_CUBE.encode()) if packed else OLD_CUBE.encode())
    cube = read_cube(path)
    assert by_path(cube, "mpi") == {("main/MPI_Recv", 0): 1e-3}
    assert cube.frame("time").value.tolist() == [0.5, 0.25, 1e-3, 2e-3]
    assert cube.call_paths.call_site.tolist() == ["", "a.f:5"]
    assert cube.system.kind == ["machine", "node", "process", "thread", "process", "thread"]
    # a VOID metric has no values
    assert cube.total("visits") == 0
    assert cube.violations() == []


@pytest.mark.filterwarnings("ignore::tracecols.errors.ForeignCubeWarning")
def test_read__names_in_latin_1_though_utf_8_is_declared(tmp_path):
    """Scalasca and EXPERT write names as the trace has them."""
    path = tmp_path / "x.cube"
    path.write_bytes(OLD_CUBE.replace("<name>main<", "<name>größe<").encode("latin-1"))
    assert read_cube(path).call_paths.name.tolist() == ["größe", "MPI_Recv"]
    path.write_bytes(OLD_CUBE.replace("<name>main<", "<name>größe<").encode())
    assert read_cube(path).call_paths.name.tolist() == ["größe", "MPI_Recv"]
    path = foreign(tmp_path / "x.cubex", anchor=ANCHOR.replace("<name>main<", "<name>gr0se<"))
    path.write_bytes(path.read_bytes().replace(b"gr0se", "größe".encode("latin-1")))
    assert "größe" in read_cube(path).call_paths.name.tolist()


@pytest.mark.slow
def test_read__deep_call_trees(tmp_path):
    """Recursion; export writes such files."""
    leaf, levels = '<cnode id="1" csiteId="1"/>', 20_100
    below = "".join(f'<cnode id="{i}" csiteId="1">' for i in range(2, levels))
    path = tmp_path / "x.cube"
    path.write_text(OLD_CUBE.replace(leaf, below + leaf + "</cnode>" * (levels - 2)))
    found = read_cube(path)
    assert found.call_paths.depth.max() == levels - 1
    write_cube(found, tmp_path / "y.cubex")
    assert read_cube(tmp_path / "y.cubex").call_paths.depth.max() == levels - 1


# -- damaged files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("<cube version", '<!DOCTYPE cube [<!ENTITY a "b">]><cube version', "declares a document type"),
        ('<cube version="3.0">', '<cube version="5">', "is of version '5'"),
        ("<cube version", "<html version", "begins with <html>"),
        ("</severity>", "", "mismatched tag\n  at line 25, column"),
        ('csiteId="1"', 'csiteId="9"', "call path 1 is of a region that is not described"),
        ('cnodeId="1">\n1e-3', 'cnodeId="4">\n1e-3', "lacks 4"),
        ("1e-3 2e-3", "1e-3 2e-3 5", "has a row of 3 values for 2 locations"),
        ("1e-3 2e-3", "1e-3 two", "something else where a number should be"),
        ("1e-3 2e-3", "1e-3 nan", "not a number, at main/MPI_Recv"),
        ("1e-3 2e-3", "1" * 200, "more than 192 characters in <row>"),
        ('metricId="2"', 'metricId="5"', "values of metric 5, which it does not describe"),
        ("<uniq_name>mpi", "<uniq_name>time", "two metrics 'time'"),
        ('thread Id="1"', 'thread Id="0"', "two locations with the same id"),
        ("<rank>1</rank>", "<rank>one</rank>", "a rank that is not a number"),
        ('<metric id="2">', "<metric>", "lacks 'id'"),
        ("<name>main</name>", f"<name>{'x' * (1 << 20)}y</name>", "more than 1,048,576 characters in <name>"),
        ("<name>m</name>", "<name>m</name>" + '<node Id="1">' * 101 + "</node>" * 101, "nests more than 100 elements <node>"),
        ("<dtype>FLOAT</dtype>", "<dtype>FLOOT</dtype>", "metric 'time' is 'EXCLUSIVE' of 'FLOOT'"),
        ('encoding="UTF-8"', 'encoding="EBCDIC-X"', "unknown encoding"),
    ],
)  # fmt: skip
def test_read__says_what_is_wrong_in_a_cube(old, new, words, tmp_path):
    assert old in OLD_CUBE
    path = tmp_path / "x.cube"
    path.write_text(OLD_CUBE.replace(old, new, 1).replace("</cube>", "</html>" if "<html" in new else "</cube>"))
    with pytest.raises(SeverityError, match=words) as caught:
        read_cube(path)
    assert str(path) in str(caught.value)


ROW = zlib.compress(bytes(16))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"m0_data": b"CUBEX.DATA"}, "metric 0 'time' has data and no index"),
        ({"m0_index": b"CUBEX", "m0_data": b""}, "its index does not begin with CUBEX.INDEX"),
        ({"m0_index": index("<", 0)[:11] + b"\2" * 11, "m0_data": b""}, "neither its byte order nor its kind at byte 11"),
        ({"m0_index": index("<", 0) + b"1", "m0_data": b""}, "its index is 9 bytes long"),
        ({"m0_index": index("<", 4), "m0_data": b""}, "names a call path twice, or one beyond the 4"),
        ({"m0_index": index("<", 1, 1), "m0_data": b""}, "names a call path twice"),
        ({"m0_index": index("<", 1), "m0_data": b"DATA"}, "its data begin with neither"),
        ({"m0_index": index("<", 1), "m0_data": b"CUBEX.DATA" + bytes(17)}, "its data are 17 bytes, not 1 rows of 16"),
        ({"m0_index": index("<", 1), "m0_data": b"ZCUBEX.DATA" + struct.pack("<Q", 2**40)}, "have 1,099,511,627,776 rows"),
        ({"m0_index": index("<", 1), "m0_data": b"ZCUBEX.DATA" + struct.pack("<4Q", 1, 0, 9, 9) + ROW}, "deflated row should lie"),
        ({"m0_index": index("<", 0, 1), "m0_data": b"ZCUBEX.DATA" + struct.pack("<7Q", 2, 0, 0, len(ROW), 16, 0, len(ROW)) + ROW}, "deflated rows overlap"),
        ({"m0_index": index("<", 1), "m0_data": b"ZCUBEX.DATA" + struct.pack("<4Q", 1, 0, 1, 5) + ROW}, "row 0 is damaged"),
        ({"m0_index": index("<", 1), "m0_data": b"ZCUBEX.DATA" + struct.pack("<4Q", 1, 0, 0, 4) + ROW}, "row 0 is not 16 bytes"),
    ],
)  # fmt: skip
def test_read__says_what_is_wrong_in_a_cubex(members, words, tmp_path):
    with pytest.raises(SeverityError, match=words):
        read_cube(foreign(tmp_path / "x.cubex", **members))


def test_read__says_what_is_no_cube(tmp_path):
    path = tmp_path / "x.cubex"
    with pytest.raises(SeverityError, match="no such cube: "):
        read_cube(path)
    path.write_bytes(b"")
    with pytest.raises(SeverityError, match=r"neither a \.severity folder, nor"):
        read_cube(path)
    archive(path, {"readme": b"x"})
    with pytest.raises(SeverityError, match=r"archive without anchor\.xml"):
        read_cube(path)
    whole = foreign(path).read_bytes()
    read_cube(path)
    path.write_bytes(whole[:2000])
    with pytest.raises(SeverityError, match=r"is cut off: anchor\.xml should end at byte"):
        read_cube(path)
    archive(path, {"anchor.xml": gzip.compress(b"<cube>")[:-9]})
    with pytest.raises(SeverityError, match=r"anchor\.xml"):
        read_cube(path)


def test_read__notices_members_that_are_missing_in_ours(tmp_path):
    path = tmp_path / "x.cubex"
    write_cube(random_cube(2), path)
    with tarfile.open(path) as tar:
        members = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    last = next(name for name in reversed(members) if name.endswith(".data"))
    archive(path, {name: content for name, content in members.items() if name != last})
    with pytest.raises(SeverityError, match="has no data\n  the archive was cut off"):
        read_cube(path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tracecols.errors.ForeignCubeWarning")
def test_read__does_not_unpack_more_than_a_row(tmp_path):
    # 64 MiB of zeros deflate to 64 KiB; the row should have 16 bytes
    bomb = zlib.compress(bytes(64 << 20))
    data = b"ZCUBEX.DATA" + struct.pack("<4Q", 1, 0, 0, len(bomb)) + bomb
    path = foreign(tmp_path / "x.cubex", m0_index=index("<", 1), m0_data=data)
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(SeverityError, match="row 0 is not 16 bytes long"):
        read_cube(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize("ending", ["cubex", "cube"])
def test_read__keeps_no_more_values_than_memory_has(ending, tmp_path, monkeypatch):
    cube = small_cube({"time": {("main", i, 0): 7 for i in range(20)}, "mpi": {("main", i, 0): 1 for i in range(20)}})
    write_cube(cube, tmp_path / f"x.{ending}")
    assert cube_read.MAX_CELLS >= 1 << 29
    monkeypatch.setattr(cube_read, "MAX_CELLS", 39)
    with pytest.raises(SeverityError, match="has more than 39 values other than zero"):
        read_cube(tmp_path / f"x.{ending}")


def test_read__does_not_unpack_trees_without_end(tmp_path, monkeypatch):
    path = tmp_path / "x.cube.gz"
    monkeypatch.setattr(cube_parser, "MAX_ELEMENTS", 1000)
    many = "".join(f'<region id="{i}"><name>f</name></region>' for i in range(1000))
    path.write_bytes(gzip.compress(OLD_CUBE.replace("<program>", "<program>" + many).encode()))
    with pytest.raises(SeverityError, match="describes more than 1,000 things"):
        read_cube(path)
    monkeypatch.setattr(cube_parser, "MAX_ELEMENTS", 10_000)
    monkeypatch.setattr(cube_parser, "MAX_KEPT", 10_000)
    path.write_bytes(gzip.compress(OLD_CUBE.replace("<name>n<", f"<name>{'n' * 10_000}<").encode()))
    with pytest.raises(SeverityError, match="in more than 10,000 characters"):
        read_cube(path)
    monkeypatch.setattr(cube_read, "CHUNK", 1000)
    monkeypatch.setattr(cube_read, "MAX_XML", 2000)
    path.write_bytes(gzip.compress((OLD_CUBE + " " * 10_000).encode()))
    with pytest.raises(SeverityError, match="GiB of XML"):
        read_cube(path)


@pytest.mark.parametrize(
    "facts",
    [
        "[]", "{", "{}", '{"conventions": "x", "resolution": 0}', '{"conventions": "x", "resolution": "9"}',
        '{"conventions": 3, "resolution": 9}', '{"conventions": "x", "resolution": 9, "operation": "difference"}',
        '{"conventions": "x", "resolution": 9, "whole": {"time": "1"}}', '{"conventions": "x", "resolution": 9, "trace": {}}',
        '{"conventions": "x", "resolution": 9, "trace": {"source": {"path": 1}, "n_events": 3}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_read__refuses_facts_that_make_no_sense(facts, tmp_path):
    path = tmp_path / "x.cube"
    path.write_text(OLD_CUBE.replace("<metrics>", f"<attr key='tracecols facts' value='{facts}'/><metrics>", 1))
    with pytest.raises(SeverityError, match="its attribute 'tracecols facts' is damaged"):
        read_cube(path)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["cubex", "cube"])
def test_read__damaged_files_are_read_or_refused(ending, tmp_path):
    rng = random.Random(3)
    path = tmp_path / f"x.{ending}"
    write_cube(random_cube(7), path)
    sound = path.read_bytes()
    n_refused = 0
    for _ in range(600):
        damaged = bytearray(sound)
        for _ in range(rng.choice([1, 1, 3])):
            at = rng.randrange(len(damaged)) if rng.random() < 0.5 else rng.randrange(min(len(damaged), 9000))
            if rng.random() < 0.7:
                damaged[at] = rng.randrange(256)
            else:
                del damaged[at : at + rng.choice([1, 7, 512])]
        path.write_bytes(damaged)
        try:
            read_cube(path).frame()
        except SeverityError:
            n_refused += 1
    assert 100 < n_refused < 600
