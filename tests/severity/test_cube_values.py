"""Cubes whose values violate the schema although their checksums are right are refused with a message, without crashes."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import slow
from support import cube_mutations
from support.command_line import executed, run
from support.cube_files import ANCHOR, OLD_CUBE, foreign, index
from support.small_cubes import random_cube, small_cube

import tracecols
from tracecols.enhance.definitions.topologies import make_topology
from tracecols.errors import ForeignCubeWarning, SeverityError, StoreError
from tracecols.export.cube_read import read_cube
from tracecols.schema.facts import FACTS, wrong_fact
from tracecols.schema.severity import SEVERITY_TABLES
from tracecols.severity import SeverityCube, checks, storage
from tracecols.severity.periods import PeriodAxis, PeriodCells
from tracecols.store import Store
from tracecols.store.arrow import StoredTable, to_arrow
from tracecols.store.layout import checksum


def make_cube() -> SeverityCube:
    """Make a cube with two trees of properties, a grid, and two bins of time."""
    cube = small_cube(
        {
            "time": {
                ("main", 0, 0): 5,
                ("main/f", 0, 0): 3,
                ("main/f", 1, 0): 4,
                ("main/f/g", 1, 0): 2,
                ("main/h", 0, 0): 1,
            },
            "mpi": {("main/f", 0, 0): 1, ("main/h", 0, 0): 1},
            "counter": {("main/f", 0, 0): 1.5, ("main/h", 1, 0): -2.5},
        },
        parents={"mpi": "time"},
        units={"counter": "#"},
    )
    grid = make_topology("grid", ["x", "y"], [2, 1], [False, True], [(0, [0, 0]), (1, [1, 0])])
    times = np.array([0, 10, 20])
    cells = {
        name: PeriodCells(c.call_path, c.location, np.zeros(len(c), np.int32), c.value)
        for name, c in cube.cells.items()
    }
    bins = PeriodAxis("bin", "2", times[:-1], times[1:], np.full(2, 2, np.int32))
    outside = {name: of.where(of.value > 4) for name, of in cells.items()}
    return cube.replaced(topologies=[grid], periods=bins, period_cells=cells, outside=outside)


@pytest.fixture
def path(tmp_path) -> Path:
    """Return the path of a cube to be changed."""
    return make_cube().save(tmp_path / "x.severity")


def rewrite(path: Path, name: str, change) -> None:
    """Change the rows or columns of a table, and write its pages with right checksums."""
    file = path / f"{name}.parquet"
    table = change(pq.ParquetFile(file).read())
    pq.write_table(table, file, compression="lz4", write_page_checksum=True)


def take(order):
    """Change the order of rows."""
    return lambda table: table.take(pa.array(order(np.arange(table.num_rows))))


def put(column: str, row: int, value):
    """Change one value."""

    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(column)
        values = table.column(column).to_pylist()
        values[row] = value
        return table.set_column(at, table.schema.field(at), to_arrow(values, table.schema.field(at).type))

    return change


def say(path: Path, change) -> None:
    """Change the manifest, its checksum included."""
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    manifest["checksum"] = checksum(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def refusal(path: Path) -> str:
    """Read a cube that must be refused; return the message without its path. Commands end with exit code 1."""
    with pytest.raises(SeverityError) as raised:
        SeverityCube.load(path)
    head, advice = str(raised.value).splitlines()
    assert advice == "  analyze the trace again"
    assert head.startswith(f"{path} is damaged: ")
    assert executed("show", path, code=1) == f"error: {raised.value}\n"
    return head.removeprefix(f"{path} is damaged: ")


bits = np.array([np.nan, np.inf, 1e31]).view(np.int64).tolist()

WRONG = [
    # rows of cells
    ("cells", take(lambda i: np.concatenate([i, i])), r"table cells, row 9: \[0, 0, 0\] follows \[2, 3, 1\], but rows ascend by property, .*"),
    ("cells", take(lambda i: np.repeat(i, 2)), r"table cells, row 1: \[0, 0, 0\] follows \[0, 0, 0\], but rows ascend .* none is there twice"),
    ("cells", take(lambda i: i[::-1]), r"table cells, row \d+: .* but rows ascend .*"),
    ("cells", take(lambda i: np.random.default_rng(1).permutation(i)), r"table cells, row \d+: .* but rows ascend .*"),
    ("cells", put("call_path", 0, -1), "table cells, column call_path, row 0: -1 is not a row of call_paths, which are numbered from 0 to 3"),
    ("cells", put("call_path", 1, 4), "table cells, column call_path, row 1: 4 is not a row of call_paths, .*"),
    ("cells", put("location", 2, -1), "table cells, column location, row 2: -1 is not a row of locations, .*"),
    ("cells", put("location", 2, 2**31 - 1), "table cells, column location, row 2: 2147483647 is not a row of locations, .*"),
    ("cells", put("property", 8, 3), "table cells, column property, row 8: 3 is not a row of properties, .*"),
    ("cells", put("value", 1, -(2**63)), "table cells, column value, row 1: -9223372036854775808 is not a severity, .*"),
    ("cells", put("value", 7, bits[0]), "table cells, column value, row 7: nan is not a severity, .*"),
    ("cells", put("value", 8, bits[1]), "table cells, column value, row 8: inf is not a severity, .*"),
    ("cells", put("value", 7, bits[2]), r"table cells, column value, row 7: 1e\+31 is not a severity, .*"),
    ("period_cells", take(lambda i: np.repeat(i, 2)), r"table period_cells, row 1: \[0, 0, 0, 0\] follows \[0, 0, 0, 0\], but .*"),
    ("period_cells", take(lambda i: i[::-1]), r"table period_cells, row \d+: .* but rows ascend .*"),
    ("period_cells", put("period", 1, 2), "table period_cells, column period, row 1: 2 is not a row of periods, which are numbered from 0 to 1, or -1 for none"),
    ("period_cells", put("value", 8, bits[0]), "table period_cells, column value, row 8: nan is not a severity, .*"),
    # trees
    ("properties", put("id", 1, "time"), "table properties, column id, row 1: 'time' is the id of row 0 already"),
    ("properties", put("id", 1, ""), "table properties, column id, row 1: a property has no id"),
    ("properties", put("parent", 0, "mpi"), "table properties, column parent, row 0: no property above is called 'mpi', and parents come before children"),
    ("properties", put("parent", 2, "nothing"), "table properties, column parent, row 2: no property above is called 'nothing', .*"),
    ("properties", put("aggregation", 0, "median"), "table properties, column aggregation, row 0: no values come together as 'median'"),
    ("properties", put("confidence", 2, np.nan), "table properties, column confidence, row 2: nan, expected a number from 0 to 1"),
    ("properties", put("overlaps", 2, 2), "table properties, column overlaps, row 2: 2, expected a number from 0 to 1"),
    ("call_paths", put("parent", 1, 2), "table call_paths, column parent, row 1: 2, but parents come before children"),
    ("call_paths", put("parent", 0, 0), "table call_paths, column parent, row 0: 0, but parents come before children"),
    ("call_paths", put("parent", 3, -2), "table call_paths, column parent, row 3: -2 is not a row of call_paths, .*"),
    ("call_paths", put("depth", 2, 1), "table call_paths, column depth, row 2: 1, but that of the call path above is 1"),
    ("call_paths", put("end", 2, 4), "table call_paths, column end, row 2: 4, expected more than 2, and at most 3, the end of the call path above"),
    ("call_paths", put("end", 1, 2), "table call_paths, column end, row 2: 3, expected more than 2, and at most 2, .*"),
    ("call_paths", put("end", 2, 2), "table call_paths, column end, row 2: 2, expected more than 2, and at most 3, .*"),
    ("call_paths", put("end", 0, 3), "table call_paths, column end, row 3: 4, expected more than 3, and at most 3, .*"),
    ("call_paths", take(lambda i: i[::-1]), "table call_paths, column parent, row 0: .*"),
    ("system", put("parent", 0, 1), "table system, column parent, row 0: 1, but parents come before children"),
    ("system", put("location", 2, 1), "table system, column location: location 0 is there 0 times, expected once"),
    ("system", put("parent", 2, -1), "table system, row 2: a location is below no process"),
    # grids
    ("topology_positions", put("location", 1, 1), r"table topologies, row 1 of topology_positions: location 1 follows 0, but a topology has each once, in order"),
    ("topology_positions", put("coordinate", 2, 2), "table topologies, row 2 of topology_positions: coordinate 2 is beyond the size 2 of its dimension"),
    ("topology_positions", put("coordinate", 2, -1), "table topology_positions, column coordinate, row 2: -1, expected a number from 0 to 4294967295"),
    ("topology_positions", take(lambda i: i[:3]), "table topologies, topology 0 has 2 dimensions, and 3 coordinates, .*"),
    ("topology_dimensions", put("topology", 1, 1), "table topology_dimensions, column topology, row 1: 1 is not a row of topologies, .*"),
    ("topologies", put("is_artificial", 0, 2), "table topologies, column is_artificial, row 0: 2, expected a number from 0 to 1"),
    ("topology_dimensions", put("size", 1, -3), "table topology_dimensions, column size, row 1: -3, expected .*"),
    # periods
    ("periods", put("n_locations", 1, 3), "table periods, column n_locations, row 1: 3, but there are 2 locations"),
    ("periods", put("begin_time", 1, 12), "table periods, row 1: the bin from 12 to 20 does not follow the one before"),
    ("periods", put("end_time", 1, 9), "table periods, row 1: the bin from 10 to 9 does not follow the one before"),
    # columns
    ("cells", lambda t: t.remove_column(3), r".*cells\.parquet has the columns .*, expected .*"),
    ("system", lambda t: t.append_column(pa.field("more", pa.int64(), nullable=False), t.column("parent").cast(pa.int64())), r".*system\.parquet has the columns .*"),
    ("cells", lambda t: t.cast(pa.schema([(f.name, pa.int64()) for f in t.schema])), r".*cells\.parquet has the columns property \(null or int64\), .*, expected property \(int32\), .*"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "change", "words"), WRONG)
def test_values__that_the_schema_does_not_allow_are_told(table, change, words, path):
    rewrite(path, table, change)
    assert re.fullmatch(words, refusal(path))


@pytest.mark.parametrize("column", ["parent", "depth", "end"])
def test_call_paths__are_in_one_order_only(column, tmp_path):
    """Parents, depths and ends are those of the names: no other value of any of them is taken."""
    cube = random_cube(3)
    n = len(cube.call_paths)
    assert n > 10
    right = getattr(cube.call_paths, column).copy()
    for row in range(n):
        for value in range(-1, n + 1):
            changed = right.copy()
            changed[row] = value
            setattr(cube.call_paths, column, changed)
            tables = storage.tree_tables(cube)
            assert bool(checks.wrong_trees(tables)) == (value != right[row]), (row, value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.pop("facts"), "manifest lacks 'facts', expected an object"),
        (lambda m: m.pop("float_properties"), "manifest lacks 'float_properties', expected a list"),
        (lambda m: m.update(float_properties=[1]), r"manifest.float_properties\[0\] is 1, expected a text"),
        (lambda m: m.pop("periods"), "there is a table periods, but the manifest has no periods"),
        (lambda m: m.update(periods=3), "manifest.periods is 3, expected an object"),
        (lambda m: m["periods"].update(kind="day"), "the manifest: periods are of kind 'day', expected phase or bin"),
        (lambda m: m["facts"].pop("conventions"), "manifest.facts lacks 'conventions', expected a text"),
        (lambda m: m["facts"].update(resolution=0), f"manifest.facts.resolution is 0, expected a whole number from 1 to {2**62 - 1}"),
        (lambda m: m["facts"].update(resolution=True), "manifest.facts.resolution is True, expected a whole number .*"),
        (lambda m: m["facts"].update(resolution=1.5), "manifest.facts.resolution is 1.5, expected a whole number .*"),
        (lambda m: m["facts"].update(counts=[]), r"manifest.facts.counts is \[\], expected an object"),
        (lambda m: m["facts"].update(counts={"x": "y"}), "manifest.facts.counts.x is 'y', expected a whole number .*"),
        (lambda m: m["facts"].update(trace={}), "manifest.facts.trace lacks 'source', expected an object"),
        (lambda m: m["facts"].update(trace={"source": {"path": 3}}), "manifest.facts.trace lacks 'n_events', .*"),
        (lambda m: m["facts"].update(source={"path": None}), "manifest.facts.source.path is None, expected a text"),
        (lambda m: m["facts"].update(operation="mean"), "manifest.facts has 'operation', but lacks 'of'"),
        (lambda m: m["facts"].update(whole={"time": float("nan")}), "manifest.facts.whole.time is nan, expected a finite number"),
        (lambda m: m["facts"].update(mpi_interval={"begin": 1}), "manifest.facts.mpi_interval lacks 'end', .*"),
        (lambda m: m["facts"].update(ideal_runtime=1.5), r"manifest.facts.ideal_runtime is 1.5, expected .*"),
        (lambda m: m["facts"].update(narrowed={"locations": [0, "rank 1", 2.5]}), r"manifest.facts.narrowed.locations\[2\] is 2.5, .*"),
        (lambda m: m["facts"].update(device_efficiencies={"devices": [], "x": None}), "manifest.facts.device_efficiencies.x is None, .*"),
    ],
)  # fmt: skip
def test_facts__are_as_they_are_declared(change, words, path):
    say(path, change)
    assert re.fullmatch(words, refusal(path))


@pytest.mark.slow
def test_facts__of_every_analysis_are_declared(data, tmp_path):
    """All facts of analyses fit their declarations, and every entry is declared."""
    trace = tracecols.open(tracecols.convert(data / "hybrid_2x3", tmp_path / "x.trace", jobs=1), jobs=1)
    whole = trace.analyze(ideal_network=True)
    narrowed = trace.analyze(properties=["mpi"], locations=[0, "rank 1"], start=0.1, stop=0.3, bins=3)
    for cube in (whole, narrowed, whole.focused(), whole - narrowed.additive()):
        facts = json.loads(json.dumps(cube.facts))
        assert wrong_fact(FACTS, facts) == ""
        assert facts.keys() <= {fact.name for fact in FACTS.entries}
    assert {"ideal_runtime", "focus_window", "mpi_interval", "trace"} <= whole.facts.keys()
    assert narrowed.facts["narrowed"].keys() <= {fact.name for fact in FACTS["narrowed"].entries}


def test_parameters__of_patterns_may_be_infinite(tmp_path):
    cube = small_cube({"time": {("main", 0, 0): 5}})
    cube.facts["narrowed"] = {"parameters": {"late": {"threshold": float("inf")}}, "locations": [0, "rank 1"]}
    assert SeverityCube.load(cube.save(tmp_path / "x.severity")).facts == cube.facts


@pytest.mark.parametrize("seed", [*range(4), *slow(range(4, 12))])
def test_cubes__that_are_sound_are_taken(seed, tmp_path):
    cube = random_cube(seed)
    assert cube_mutations.content(SeverityCube.load(cube.save(tmp_path / "x.severity")))["cells"] == {
        name: (c.key.tolist(), c.value.dtype.kind, c.value.tolist()) for name, c in cube.cells.items()
    }


# -- row counts --------------------------------------------------------------------------------------------------------


def bomb(file: Path, n: int) -> None:
    """Repeat the first row of a table many times, in a file of some kilobytes."""
    table = pq.ParquetFile(file).read()
    many = pa.concat_tables([table.slice(0, 1)] * 1000).combine_chunks()
    many = pa.concat_tables([many] * 100)
    with pq.ParquetWriter(file, table.schema, compression="lz4", write_page_checksum=True) as writer:
        for _ in range(max(n // len(many), 1)):
            writer.write_table(many)


@pytest.mark.parametrize("table", SEVERITY_TABLES)
def test_bombs__are_refused_before_anything_is_read(table, path, monkeypatch):
    bomb(path / f"{table}.parquet", 200_000)
    assert (path / f"{table}.parquet").stat().st_size < 200_000
    monkeypatch.setattr(StoredTable, "read", lambda _: pytest.fail("it is read"))
    # a table that limits others is refused first
    assert re.fullmatch(r"table \w+ has [\d,]+ rows, but there can be [\d,]+ at most, one for each .*", refusal(path))


def test_cells__beyond_the_memory_are_refused(path, monkeypatch):
    monkeypatch.setattr(storage, "physical", lambda: 48 * 19 - 1)
    assert (
        refusal(path)
        == "cells, period_cells and outside_cells have 19 rows, which take 912 bytes of memory, more than the 911 there are"
    )
    monkeypatch.setattr(storage, "physical", lambda: 48 * 19)
    SeverityCube.load(path)


def test_tables__packed_otherwise_are_refused(path):
    file = path / "cells.parquet"
    pq.write_table(pq.ParquetFile(file).read(), file, compression="zstd")
    assert refusal(path) == f"{file} is packed as ZSTD, expected LZ4 or SNAPPY or UNCOMPRESSED"


@pytest.mark.slow
def test_texts__that_are_repeated_take_memory_once(tmp_path):
    n, long = 1000, "x" * 100_000
    cube = small_cube({"time": {("main", i, 0): 1 for i in range(n)}})
    cube.system.location_name = [long] * n
    loaded = SeverityCube.load(cube.save(tmp_path / "x.severity"))
    assert loaded.system.location_name == [long] * n
    assert len({id(name) for name in loaded.system.location_name}) == 1


@pytest.mark.parametrize("table", ["regions", "locations", "processes", "segments", "topology_coordinates", "events"])
def test_bombs__in_stores_are_refused_before_they_are_read(table, data, tmp_path):
    store = tracecols.convert(data / "late_sender", tmp_path / "x.trace", jobs=1)
    file = store / "definitions" / f"{table}.parquet"
    if table == "events":
        file = next((store / "events").iterdir())
    if not pq.ParquetFile(file).metadata.num_rows:
        pytest.skip("no such definitions")
    bomb(file, 200_000)
    pa_before = pa.total_allocated_bytes()
    with pytest.raises(StoreError, match=rf"{table}.* has [\d,]+ rows, but ") as raised:
        opened = Store(store)
        opened.definitions, opened.read("events", 0)
    assert "the store is damaged; convert the trace again" in str(raised.value)
    assert pa.total_allocated_bytes() - pa_before < 1 << 20


# -- cubes of other tools ----------------------------------------------------------------------------------------------

GRID = """<topologies><cart name="grid" ndims="1"><dim name="x" size="2" periodic="false"/>
<coord thrdId="0">0</coord><coord thrdId="1">{at}</coord></cart></topologies></system>"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('<cnode id="1"', '<cnode id="0"', "has two elements <cnode> with the id 0"),
        ('<metric id="2">', '<metric id="1">', "has two elements <metric> with the id 1"),
        ('<row cnodeId="1">\n1e-3 2e-3</row>', '<row cnodeId="1">1 2</row>' * 2, "two rows of values of metric 0 for call path 1"),
        ("<uom>sec</uom>", '<uom>sec</uom><attr key="confidence" value="nan"/>', "column confidence, row 0: nan, expected a number"),
    ],
)  # fmt: skip
def test_cube3__whose_values_make_no_sense_is_refused(old, new, words, tmp_path):
    assert old in OLD_CUBE
    file = tmp_path / "x.cube"
    file.write_text(OLD_CUBE.replace(old, new, 1))
    with pytest.raises(SeverityError, match=words) as raised:
        read_cube(file)
    assert str(raised.value).startswith(str(file))
    assert "\n  " in str(raised.value)
    assert run("show", file).exit_code == 1


@pytest.mark.parametrize("at", ["1", "2", "-1", "0 0", "", "9" * 30])
def test_cube3__positions_beside_a_grid_are_left_out_with_it(at, tmp_path):
    file = tmp_path / "x.cube"
    file.write_text(OLD_CUBE.replace("</system>", GRID.format(at=at), 1))
    if at == "1":
        assert read_cube(file).topologies[0].coordinates.tolist() == [[0], [1]]
        return
    with pytest.warns(ForeignCubeWarning, match="topologies that are left out, .*: grid"):
        assert read_cube(file).topologies == []


@pytest.mark.filterwarnings("ignore::tracecols.errors.ForeignCubeWarning")
@pytest.mark.parametrize("given", ["", "<dtype></dtype>", "<dtype> </dtype>"])
def test_cubex__that_does_not_say_the_type_of_values_has_floating_point_numbers(given, tmp_path):
    anchor = ANCHOR.replace("<dtype>{dtype}</dtype>", given)
    data = b"CUBEX.DATA" + np.array([1.5, 2.5], "<f8").tobytes()
    cube = read_cube(foreign(tmp_path / "x.cubex", anchor=anchor, m0_index=index("<", 0), m0_data=data))
    assert cube.cells["time"].value.tolist() == [1.5, 2.5]


def test_cubex__that_has_a_row_twice_is_refused(tmp_path):
    row = zlib.compress(bytes(16))
    blocks = struct.pack("<7Q", 2, 0, 0, len(row), 0, len(row), len(row))
    with pytest.raises(SeverityError, match=r"should lie at byte .* once"):
        read_cube(foreign(tmp_path / "x.cubex", m0_index=index("<", 0, 1), m0_data=b"ZCUBEX.DATA" + blocks + row * 2))


# -- random changes ----------------------------------------------------------------------------------------------------


def try_some(cubes: list[Path], first: int, n: int, out: Path) -> None:
    """Make random changes; the campaign is `python -m benchmarks.fuzz --only "*cube*"`."""
    before = {cube: cube_mutations.content(read_cube(cube)) for cube in cubes}
    seen = []
    for seed in range(first, first + n):
        cube = cubes[seed % len(cubes)]
        seen.append(cube_mutations.try_one(cube, seed, out, before[cube]).partition(":")[0])
    assert set(seen) <= {"refused", "same", "another value"}
    assert n // 3 < seen.count("refused") < n


@pytest.mark.slow
def test_random_changes__of_small_cubes_are_refused_or_of_no_harm(tmp_path):
    try_some(cube_mutations.write_cubes(tmp_path), 0, 9, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("first", [10_000])
def test_random_changes__of_values_are_refused_or_of_no_harm(first, data, tmp_path):
    cubes = cube_mutations.write_cubes(tmp_path, data / "hybrid_2x3" / "traces.otf2")
    assert len(cubes) == 9
    try_some(cubes, first, 30, tmp_path / "out")


@pytest.mark.slow
def test_locations_of__has_values_with_ranks_threads_and_names(data, opened):
    """`by_location` is an array without labels."""
    cube = opened(data / "hybrid_2x3").analyze()
    mask = cube.find_call_paths("MPI_Bcast")
    for given in (None, mask):
        found = cube.locations_of("time", given)
        assert list(found) == ["rank", "thread", "name", "value"]
        assert found.value.tolist() == cube.by_location("time", given).tolist()
        assert found["rank"].tolist() == [0, 0, 0, 1, 1, 1] and found.thread.tolist() == [0, 1, 2] * 2
        assert found.name.tolist() == cube.system.location_name
