"""An archive in the place of a store, a store in the place of an archive, and times without units."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import slow
from support.command_line import executed, run

import tracecols
from tracecols.converters.registry import FORMATS
from tracecols.errors import SeverityError, SourceError, StoreError
from tracecols.store.layout import ARCHIVES


@pytest.fixture(scope="module")
def made(tmp_path_factory, data) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    store = tracecols.convert(data / "late_sender", folder / "s.trace")
    cube = tracecols.open(store).analyze().save(folder / "s.severity")
    assert run("export", cube, folder / "s.cubex").exit_code == 0
    anchor = data / "late_sender" / "traces.otf2"
    return {"folder": anchor.parent, "anchor": anchor, "store": store, "cube": cube, "cubex": folder / "s.cubex"}


IS_ARCHIVE = "is a trace archive, not a store\n  convert it first: tracecols convert "
NO_CUBE = "is a trace archive, not a severity cube\n  analyze it: tracecols analyze "
IS_STORE = "is a store of a trace, not a trace archive\n  it is converted already; analyze it: tracecols analyze "
IS_CUBE = "is a severity cube, not a trace archive\n  look at it: tracecols show "


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        ("enhance {}", "folder", IS_ARCHIVE),
        ("enhance {}", "anchor", IS_ARCHIVE),
        ("export {} {out}.otf2", "folder", IS_ARCHIVE),
        ("export {} {out}.csv", "folder", IS_ARCHIVE),
        ("rules {}", "folder", IS_ARCHIVE),
        ("convert {}", "store", IS_STORE),
        ("convert {}", "cube", IS_CUBE),
        ("convert {}", "cubex", IS_CUBE),
        ("check {}", "cubex", IS_CUBE),
    ],
)
def test_source__of_another_kind_is_recognised(words, given, message, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = executed(*words.format(made[given], made[given], out=tmp_path / "x").split(), code=1)
    assert output == f"error: {made[given]} {message}{made[given]}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("show", "anchor"),
        ("compare", "store"),
        *slow([("diagnose", "folder"), ("diagnose", "store"), ("show", "folder"), ("compare", "anchor")]),
        *slow([("report", "folder"), ("report", "store")]),
    ],
)
def test_trace__in_the_place_of_a_cube_is_analysed(command, given, made, tmp_path, monkeypatch):
    """A command prints the same for a trace as for its cube; nothing but its output is left."""
    monkeypatch.chdir(tmp_path)
    second = [made["cube"]] if command == "compare" else []
    printed = [run(command, made[of], *second) for of in (given, "cube")]
    assert [result.exit_code for result in printed] == [0, 0], printed[0].output
    texts = [result.stdout.replace(str(made[of]), "X") for result, of in zip(printed, (given, "cube"), strict=True)]
    if command in ("diagnose", "show"):
        assert texts[0] == texts[1]
    elif command == "compare":
        assert "no property changed" in texts[0]
    else:
        assert sorted(path.suffix for path in tmp_path.iterdir()) == [".html"] * len(list(tmp_path.iterdir()))


def test_cube__in_the_place_of_a_store(made):
    output = executed("analyze", made["cube"], code=1)
    assert "is not a store of a trace" in output
    assert output.endswith(f"look at it: tracecols show {made['cube']}\n")


def test_python__recognises_it_as_well(made):
    for use, given, error, message in (
        (tracecols.open, "folder", StoreError, IS_ARCHIVE),
        (tracecols.read_cube, "folder", SeverityError, NO_CUBE),
        (tracecols.convert, "store", SourceError, IS_STORE),
    ):
        with pytest.raises(error) as raised:
            use(made[given])
        assert str(raised.value) == f"{made[given]} {message}{made[given]}"


def test_store__that_is_not_there_beside_its_archive(made, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "traces.otf2").write_bytes(b"")
    result = run("analyze", tmp_path / "run.trace")
    assert f"tracecols convert {tmp_path / 'run'} -o {tmp_path / 'run.trace'}" in result.output


def test_endings__are_those_of_the_formats():
    assert tuple(ending for known in FORMATS for ending in known.endings) == ARCHIVES


# -- units -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("what-if {store} --latency 2", "'2' has no unit: write 2us, or another unit such as ms"),
        ("what-if {store} --latency 2e-6", "'2e-6' has no unit"),
        ("what-if {store} --bandwidth 10", "'10' has no unit: write 10GB/s, or another unit such as MB/s"),
        ("what-if {store} --bandwidth 10Gb/s", "'10Gb/s' could be bits: give bytes with a capital B, such as 10GB/s"),
        ("correct {store} -o x.trace --latency 1", "'1' has no unit"),
        ("convert {folder} -o x.trace --correct-clocks --latency 1", "'1' has no unit"),
        ("what-if {store} --latency 2MB", "'2MB' is not of the form 2us"),
        ("what-if {store} --latency -2us", "'-2us' is not of the form 2us"),
        ("analyze {store} --from soon", "'soon' is not a time such as 0.3, 0.3s or 300ms"),
        ("analyze {store} --from nan", "'nan' is not a time"),
        ("analyze {store} --from -1", "'-1' is not a time such as 0.3, 0.3s or 300ms, from 0 on"),
        ("efficiency {store} --to 5%", "'5%' is not a time"),
        ("export {store} x.otf2 --from 1MB", "'1MB' is not a time"),
        ("analyze {store} --bin-width wide", "'wide' is not a time"),
    ],
)
def test_quantity__that_cannot_be_meant_is_refused(words, message, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in " ".join(executed(*words.format(**made).split(), code=2).split())
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_times__with_units_are_those_in_seconds(made, tmp_path):
    piece = [tmp_path / f"{i}.severity" for i in range(3)]
    for path, (start, stop) in zip(piece, [("0.3", "0.31"), ("300ms", "310 ms"), ("0.3s", "310000us")], strict=True):
        assert run("analyze", made["store"], "-q", "-o", path, "--from", start, "--to", stop).exit_code == 0
    cubes = [tracecols.read_cube(path) for path in piece]
    assert all(cube.facts["narrowed"] == {"start": 0.3, "stop": 0.31} for cube in cubes)
    assert all(cube.frame().equals(cubes[0].frame()) for cube in cubes)
    assert run("what-if", made["store"], "--latency", "0", "--bandwidth", "10GB/s", "--rows", "1").exit_code == 0
