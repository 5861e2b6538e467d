"""Files of older and newer minor versions: missing columns read as null or a declared default, unknown additions are
ignored and reported."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import run

import tracecols
from tracecols.errors import SeverityError, StoreError
from tracecols.schema import DEFINITIONS, EVENTS, SIDE_TABLES, Column, Table, Version, severity, version_of
from tracecols.schema import FORMAT_VERSION as STORE
from tracecols.schema.versions import difference, newer_note
from tracecols.severity import SeverityCube, storage
from tracecols.store import Store, reader
from tracecols.store.layout import checksum

CUBE = severity.FORMAT_VERSION
NEXT_STORE = Version(STORE.major, STORE.minor + 1)
NEXT_CUBE = Version(CUBE.major, CUBE.minor + 1)


def change(folder: Path, **entries: object) -> None:
    """Change entries of a manifest and update its checksum; None removes an entry."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest = {k: v for k, v in {**manifest, **entries}.items() if v is not None}
    manifest["checksum"] = checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def rewrite(path: Path, with_columns: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> None:
    """Rewrite a Parquet file with additional integer columns, or without some columns; its row groups stay."""
    file = pq.ParquetFile(path)
    groups = []
    n = file.metadata.num_row_groups
    for table in [file.read_row_group(i) for i in range(n)] or [file.read()]:
        table = table.drop_columns(list(without))
        for name in with_columns:
            table = table.append_column(
                pa.field(name, pa.int64(), nullable=False), pa.array(range(table.num_rows), pa.int64())
            )
        groups.append(table)
    with pq.ParquetWriter(path, groups[0].schema, write_page_checksum=True) as writer:
        for table in groups:
            writer.write_table(table, row_group_size=max(table.num_rows, 1))


@pytest.fixture(scope="module")
def made(tmp_path_factory, data):
    """A store, and the cube of its analysis."""
    folder = tmp_path_factory.mktemp("versions")
    path = tracecols.convert(data / "hybrid_2x3", folder / "h.trace")
    return path, tracecols.open(path).analyze().save(folder / "h.severity")


@pytest.fixture
def store(made, tmp_path):
    return Path(shutil.copytree(made[0], tmp_path / "h.trace"))


@pytest.fixture
def cube(made, tmp_path):
    return Path(shutil.copytree(made[1], tmp_path / "h.severity"))


def tables_of(path: Path):
    """Return the definitions and the events of a store; without `segments`, which has rows of tables that are
    ignored."""
    store = Store(path)
    definitions = {name: store.definition(name).to_pydict() for name in DEFINITIONS if name != "segments"}
    n = store.definition("locations").num_rows
    events = {(t, i): {c: v.tolist() for c, v in store.read(t, i).items()} for t in store.tables for i in range(n)}
    return definitions, events


def everything(cube: SeverityCube):
    """Return the contents of a cube, without notes."""
    return [vars(cube.properties), {n: list(v) for n, v in vars(cube.call_paths).items()}, vars(cube.system)["name"]], {
        name: (cells.key.tolist(), cells.value.tolist()) for name, cells in cube.cells.items()
    }


# -- versions ----------------------------------------------------------------------------------------------------------


def test_version__is_read_from_manifests_old_and_new():
    assert version_of({"version": 3}) == Version(3, 0)
    assert version_of({"version": 3, "minor_version": 2}) == (3, 2)
    assert str(Version(3, 2)) == "3.2"
    for wrong in ({}, {"version": "3"}, {"version": True}, {"version": 3, "minor_version": "1"}, {"version": -1}):
        assert version_of(wrong) is None


def test_columns__that_a_file_may_lack_have_something_to_read_as():
    assert [Column("x", t, "", since=(1, 1)).absent for t in ("int32", "string", "list[int64]")] == [-1, "", []]
    assert Column("x", "uint8", "", since=(1, 1), default=7).absent == 7
    for dtype in ("uint8", "float64"):
        with pytest.raises(ValueError, match="has no null\n  declare a default"):
            Column("x", dtype, "", since=(1, 1))
    with pytest.raises(ValueError, match="part of a format from its beginning"):
        Column("x", "int32", "", "", "regions", required=True, since=(1, 1))


def test_columns__since_versions_that_exist():
    for tables, current in (
        ({**DEFINITIONS, **SIDE_TABLES, "events": EVENTS}, STORE),
        (severity.SEVERITY_TABLES, CUBE),
    ):
        for table in tables.values():
            assert table.since <= current and all(c.since <= current for c in table.columns)


TABLE = Table("t", "", (Column("a", "int64", ""), Column("b", "int64", "", since=(1, 2))))
TYPES = {"a": "int64", "b": "int64"}


@pytest.mark.parametrize(
    ("version", "names", "expected"),
    [
        ((1, 2), "ab", ("", "")),
        ((1, 1), "a", ("b", "")),
        ((1, 3), "ab", ("", "")),
        ((1, 3), "axb", ("", "x")),
        # damaged: a column is missing, repeated, unknown, out of order, or newer than the version
        ((1, 2), "a", None),
        ((1, 3), "a", None),
        ((1, 1), "", None),
        ((1, 2), "aab", None),
        ((1, 2), "abx", None),
        ((1, 2), "ba", None),
        ((1, 1), "ab", None),
    ],
)  # fmt: skip
def test_difference__is_what_versions_allow(version, names, expected):
    found = difference(TABLE, [(name, "int64") for name in names], TYPES, Version(*version), Version(1, 2))
    assert (found and ("".join(c.name for c in found.lacking), "".join(found.unknown))) == expected
    assert difference(TABLE, [("a", "int32"), ("b", "int64")], TYPES, Version(1, 2), Version(1, 2)) is None


def test_note__is_empty_for_what_is_not_newer():
    assert newer_note("store", Version(3, 0), Version(3, 1), ()) == ""
    assert newer_note("store", Version(3, 1), Version(3, 1), ()) == ""


# -- stores ------------------------------------------------------------------------------------------------------------


def test_store__says_its_version(store):
    manifest = json.loads((store / "manifest.json").read_text())
    assert (manifest["version"], manifest["minor_version"]) == STORE
    assert f"format {STORE}" in run("info", store).output


def test_store__written_before_there_were_minor_versions_opens(store):
    before = tables_of(store)
    change(store, minor_version=None)
    assert Store(store).version == (STORE.major, 0)
    assert tables_of(store) == before


def newer_store(path: Path) -> None:
    """Make a store newer than this tracecols: an additional column per file, table of each kind, and manifest entry."""
    manifest = json.loads((path / "manifest.json").read_text())
    for file in path.rglob("*.parquet"):
        rewrite(file, ("extra",))
    shutil.copytree(path / "threads", path / "quanta")
    shutil.copy(path / "definitions" / "regions.parquet", path / "definitions" / "quarks.parquet")
    segments = path / "definitions" / "segments.parquet"
    rows = pq.read_table(segments)
    more = rows.slice(rows.column("table").to_pylist().index("threads"), 1).to_pylist()
    more = [{**row, "table": "quanta"} for row in more]
    pq.write_table(
        pa.concat_tables([rows, pa.Table.from_pylist(more, rows.schema)]), segments, write_page_checksum=True
    )
    tables = {name: [*of, {"name": "extra", "dtype": "int64"}] for name, of in manifest["tables"].items()}
    tables["quanta"] = tables["threads"]
    change(path, version=NEXT_STORE.major, minor_version=NEXT_STORE.minor, tables=tables, mood={"good": 1})


@pytest.mark.slow
def test_store__of_a_newer_minor_version_opens_with_a_note(made, store, tmp_path):
    before = tables_of(store)
    newer_store(store)
    assert tables_of(store) == before
    note = Store(store).note
    assert note.startswith(f"store of format {NEXT_STORE}, newer than {STORE}, which this tracecols knows; ignored: ")
    ignored = set(note.split("ignored: ")[1].split(", "))
    tables = {*DEFINITIONS, *Store(store).tables}
    assert ignored == {
        *(f"column {t}.extra" for t in tables),
        "table quanta",
        "table quarks",
        "entry mood of the manifest",
    }
    # the note is shown wherever the store is used; nothing else changes
    assert " ".join(note.split()) in " ".join(run("info", store).output.split())
    found, whole = run("check", store), run("check", made[0])
    assert (found.exit_code, found.stdout) == (whole.exit_code, whole.stdout)
    assert f"note: {note}" in found.stderr
    cube = tracecols.open(store).analyze()
    assert cube.facts["counts"][note] == 1
    assert everything(cube) == everything(SeverityCube.load(made[1]))
    assert f"note: 1 {note}" in run("analyze", store, "-o", tmp_path / "x.severity").stderr
    # a trace slice is written in the version of this tracecols
    with tracecols.open(store).piece(0, 1e9) as piece:
        assert piece.store.version == STORE and not piece.store.note


def test_store__of_a_newer_minor_version_with_nothing_new(store):
    change(store, minor_version=NEXT_STORE.minor)
    assert Store(store).note.endswith("nothing had to be ignored")


@pytest.mark.slow
def test_sql__sees_declared_columns_only(made, store):
    pytest.importorskip("duckdb")
    newer_store(store)
    for table in ("regions", "threads", "events"):
        query = f"select * from {table} order by all"
        assert tracecols.open(store).sql(query).equals(tracecols.open(made[0]).sql(query))


def test_store__of_this_version_with_more_columns_is_damaged(store):
    rewrite(next((store / "threads").glob("*.parquet")), ("extra",))
    with pytest.raises(StoreError, match="has other columns than the manifest says"):
        Store(store).read("threads", 0)
    rewrite(store / "definitions" / "regions.parquet", ("extra",))
    with pytest.raises(StoreError, match="has other columns than expected"):
        Store(store).definition("regions")


@pytest.mark.parametrize("version", [{"version": STORE.major + 1}, {"minor_version": "1"}, {"minor_version": -1}])
def test_store__of_another_major_version_is_refused(version, store):
    change(store, **version)
    with pytest.raises(
        StoreError, match=rf"has store format \d, this tracecols reads {STORE.major}\n  convert the trace again"
    ):
        Store(store)


def since(table: Table, name: str, version: Version) -> Table:
    """Declare a column of a table to have been added by a version."""
    columns = (
        replace(c, since=version, required=False, default=None if c.dtype.startswith(("int", "string", "list")) else 3)
        if c.name == name
        else c
        for c in table.columns
    )
    return replace(table, columns=tuple(columns))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "name"), [("threads", "requested"), ("p2p", "tag"), ("control", "mode"), ("regions", "flags"), ("groups", "members"), ("regions", "file")]
)  # fmt: skip
def test_store__of_an_older_minor_version_lacks_columns(table, name, made, store, monkeypatch):
    expected = tables_of(made[0])
    known = DEFINITIONS if table in DEFINITIONS else SIDE_TABLES
    for file in [store / "definitions" / f"{table}.parquet"] if known is DEFINITIONS else (store / table).glob("*"):
        rewrite(file, without=(name,))
    stored = json.loads((store / "manifest.json").read_text())["tables"]
    if table in stored:
        change(store, tables={**stored, table: [c for c in stored[table] if c["name"] != name]})
    # a store of this version is damaged: only columns that are declared as added later may be missing
    with pytest.raises(StoreError, match="has other columns"):
        tables_of(store)
    monkeypatch.setitem(known, table, since(known[table], name, NEXT_STORE))
    monkeypatch.setattr(reader, "FORMAT_VERSION", NEXT_STORE)
    definitions, events = tables_of(store)
    null = Column("x", known[table][name].dtype, "").absent
    if known is DEFINITIONS:
        assert set(map(str, definitions[table].pop(name))) == {str(null)}
        expected[0][table].pop(name)
    else:
        for (of, _), columns in events.items():
            if of == table and columns["row"]:
                assert set(columns.pop(name)) == {null}
        for (of, _), columns in expected[1].items():
            if of == table and columns["row"]:
                columns.pop(name)
    assert (definitions, events) == expected
    assert f"the store lacks {table}.{name}" in " ".join(run("info", store).output.split())
    assert not Store(store).note
    if table not in ("groups",):
        found = tracecols.open(store).sql(f'select distinct "{name}" as found from {table}')
        assert found.found.tolist() == [null]


def test_store__of_an_older_minor_version_lacks_a_table(store, monkeypatch):
    (store / "definitions" / "topologies.parquet").unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        Store(store).definition("topologies")
    monkeypatch.setitem(DEFINITIONS, "topologies", replace(DEFINITIONS["topologies"], since=NEXT_STORE))
    monkeypatch.setattr(reader, "FORMAT_VERSION", NEXT_STORE)
    assert Store(store).definition("topologies").num_rows == 0


# -- cubes -------------------------------------------------------------------------------------------------------------


def test_cube__of_a_newer_minor_version_opens_with_a_note(cube):
    before = everything(SeverityCube.load(cube))
    for file in cube.glob("*.parquet"):
        rewrite(file, ("extra",))
    shutil.copy(cube / "cells.parquet", cube / "quarks.parquet")
    change(cube, minor_version=NEXT_CUBE.minor, mood=1)
    loaded = SeverityCube.load(cube)
    assert everything(loaded) == before
    (note,) = (what for what in loaded.facts["counts"] if what.startswith("cube of format"))
    assert note.startswith(f"cube of format {NEXT_CUBE}, newer than {CUBE}, which this tracecols knows; ignored: ")
    assert set(note.split("ignored: ")[1].split(", ")) == {
        *(f"column {t}.extra" for t in severity.SEVERITY_TABLES if t not in severity.PERIOD_TABLES),
        "table quarks",
        "entry mood of the manifest",
    }
    assert " ".join(note.split()) in " ".join(run("info", cube).output.split())


def test_cube__of_this_version_with_more_columns_is_damaged(cube):
    rewrite(cube / "cells.parquet", ("extra",))
    with pytest.raises(SeverityError, match="is damaged"):
        SeverityCube.load(cube)


FORMULA = ("formula",)
"""Columns of properties since format 5.4."""

DECLARED = ("delay", "part", "is_heading", "is_estimate", *FORMULA)
"""Columns of properties since format 5.3."""


def test_cube__of_an_older_version_lacks_columns(cube):
    """Format 4 had neither last lines nor aggregations; a column missing from a file of format 5 is damage."""
    before = SeverityCube.load(cube)
    rewrite(cube / "properties.parquet", without=("aggregation", "is_wait", *DECLARED))
    rewrite(cube / "call_paths.parquet", without=("end_line",))
    with pytest.raises(SeverityError, match="is damaged"):
        SeverityCube.load(cube)
    change(cube, version=4, minor_version=None)
    old = SeverityCube.load(cube)
    assert old.total("time") == before.total("time")
    assert set(old.properties.aggregation) == {"sum"}
    assert not np.asarray(old.call_paths.end_line).any() and np.asarray(before.call_paths.end_line).any()
    assert not [what for what in old.facts["counts"] if "format" in what]


@pytest.mark.parametrize(("minor", "without"), [(1, ("is_wait", *DECLARED)), (2, DECLARED), (3, FORMULA)])
def test_cube__of_an_older_version_has_what_is_declared(cube, minor, without):
    """Before format 5.2 cubes did not say which properties are waits, before 5.3 they lacked all other columns
    that diagnoses use, before 5.4 no property was computed."""
    before = SeverityCube.load(cube)
    rewrite(cube / "properties.parquet", without=without)
    with pytest.raises(SeverityError, match="is damaged"):
        SeverityCube.load(cube)
    change(cube, minor_version=minor)
    old = SeverityCube.load(cube)
    for column in ("is_wait", *DECLARED):
        assert getattr(old.properties, column) == getattr(before.properties, column), column
    assert "mpi_latesender" in old.properties.waits("mpi")
    assert old.diagnosis().to_dict() == before.diagnosis().to_dict()


@pytest.mark.parametrize(
    "version", [{"version": CUBE.major + 1}, {"version": 3}, {"minor_version": None, "version": "5"}]
)
def test_cube__of_another_major_version_is_refused(version, cube):
    change(cube, **version)
    with pytest.raises(
        SeverityError, match=r"has severity format .*, this tracecols reads 4 to 5\n  analyze the trace again"
    ):
        SeverityCube.load(cube)


def test_cube__of_an_older_minor_version_lacks_a_column(cube, monkeypatch):
    table = severity.SEVERITY_TABLES["properties"]
    monkeypatch.setitem(severity.SEVERITY_TABLES, "properties", since(table, "advice", NEXT_CUBE))
    monkeypatch.setattr(storage, "FORMAT_VERSION", NEXT_CUBE)
    rewrite(cube / "properties.parquet", without=("advice",))
    assert set(SeverityCube.load(cube).properties.advice) == {""}
