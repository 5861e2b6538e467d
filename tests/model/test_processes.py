"""Several processes on one store, cube or file: each sees a complete output, and the last complete one stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LONG

import tracecols
from tracecols.errors import SeverityError, StoreError
from tracecols.severity import SeverityCube
from tracecols.store import Store, layout, outputs
from tracecols.store.outputs import folder_output

ROOT = Path(__file__).parents[2]

START = """
import sys, tracecols
from pathlib import Path
from tracecols.errors import TracecolsError
print("ready", flush=True)
sys.stdin.readline()
"""


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    """Start a program that waits for the others."""
    program = subprocess.Popen(
        [sys.executable, "-c", START + code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    program.stdout.readline()
    return program


def go(*programs: subprocess.Popen[str]) -> None:
    """Let the waiting programs run."""
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()


def end(*programs: subprocess.Popen[str]) -> list[str]:
    """Wait for programs, which must succeed; return their output."""
    printed = []
    for program in programs:
        out, error = program.communicate(timeout=LONG)
        assert program.returncode == 0, error
        printed.append(out)
    return printed


def columns(store: Store) -> dict[tuple[str, int, str], bytes]:
    """Read all columns of a store."""
    return {
        (table, location, name): values.tobytes()
        for table in store.tables
        for location in range(store.manifest["n_locations"])
        for name, values in store.read(table, location).items()
    } | {(name, 0, ""): repr(table.to_pydict()).encode() for name, table in store.definitions.items()}


@pytest.mark.slow
def test_store__is_converted_by_two_and_read_by_a_third(tmp_path, data):
    sources = [data / "late_sender", data / "coll"]
    whole = [columns(Store(tracecols.convert(s, tmp_path / f"{i}.trace"))) for i, s in enumerate(sources)]
    out = tmp_path / "out" / "x.trace"
    tracecols.convert(sources[0], out)
    programs = [start(f"for _ in range(12): tracecols.convert({str(s)!r}, 'x.trace')", out.parent) for s in sources]
    go(*programs)
    read = 0
    while any(p.poll() is None for p in programs):
        try:
            assert columns(Store(out)) in whole
            read += 1
        except StoreError as error:
            assert any(
                w in str(error) for w in ("was replaced or removed", "no such store", "is missing or unreadable")
            )
    end(*programs)
    assert read > 2
    assert columns(Store(out)) in whole
    assert [p.name for p in out.parent.iterdir()] == ["x.trace"]


@pytest.mark.slow
def test_store__opened_before_it_is_replaced(tmp_path, data):
    out = tracecols.convert(data / "late_sender", tmp_path / "x.trace")
    before, trace = Store(out), tracecols.open(out)
    sound = columns(Store(out))
    for source in ("coll", "late_sender", "late_sender"):
        tracecols.convert(data / source, out)
        with pytest.raises(
            StoreError, match=r"x.trace was replaced or removed while it was being read\n  open it again"
        ):
            columns(before)
        with pytest.raises(StoreError, match="was replaced or removed"):
            trace.analyze()
    assert columns(Store(out)) == sound


def test_store__keeps_the_older_one_if_interrupted_while_it_is_replaced(tmp_path, data, monkeypatch):
    out = tracecols.convert(data / "late_sender", tmp_path / "x.trace")
    sound = columns(Store(out))
    rename = os.rename

    def interrupt(old, new):
        if Path(new) == out and Path(old).name == "new":
            raise KeyboardInterrupt
        rename(old, new)

    monkeypatch.setattr(os, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tracecols.convert(data / "coll", out)
    assert columns(Store(out)) == sound
    assert [p.name for p in tmp_path.iterdir()] == ["x.trace"]


@pytest.mark.parametrize("n_times", [1, 2, 3])
def test_folder__that_is_exchanged_between_two_looks_is_looked_at_again(n_times, tmp_path, data, monkeypatch):
    out = tracecols.convert(data / "late_sender", tmp_path / "x.trace")
    cube = tracecols.open(out).analyze().save(tmp_path / "x.severity")
    read, gone = layout.read_manifest, []

    def read_or_gone(folder):
        if len(gone) < n_times:
            gone.append(folder)
            raise FileNotFoundError
        return read(folder)

    for load in (lambda: Store(out), lambda: SeverityCube.load(cube)):
        gone.clear()
        with monkeypatch.context() as patch:
            patch.setattr(layout, "read_manifest", read_or_gone)
            load()
        assert len(gone) == n_times


@pytest.mark.slow
def test_cube__is_written_by_two_and_read_by_a_third(tmp_path, data):
    cubes = []
    for name in ("late_sender", "coll"):
        store = tracecols.convert(data / name, tmp_path / f"{name}.trace")
        cubes.append(tracecols.open(store).analyze().save(tmp_path / f"{name}.severity"))
    whole = [SeverityCube.load(c).frame() for c in cubes]
    out = tmp_path / "out" / "x.severity"
    SeverityCube.load(cubes[0]).save(out)
    code = "cube = tracecols.SeverityCube.load({!r})\nfor _ in range(20): cube.save('x.severity')"
    programs = [start(code.format(str(c)), out.parent) for c in cubes]
    go(*programs)
    read = 0
    while any(p.poll() is None for p in programs):
        try:
            found = SeverityCube.load(out).frame()
            assert any(found.equals(w) for w in whole)
            read += 1
        except SeverityError as error:
            assert "was replaced or removed" in str(error) or "is not a severity cube\n" in str(error)
    end(*programs)
    assert read > 1
    assert [p.name for p in out.parent.iterdir()] == ["x.severity"]


@pytest.mark.slow
def test_analyses__of_one_store_at_once(tmp_path, data):
    store = tracecols.convert(data / "hybrid_2x3", tmp_path / "x.trace")
    sound = tracecols.open(store).analyze().frame()
    code = "tracecols.open('x.trace').analyze().save('x.severity')"
    programs = [start(code, tmp_path) for _ in range(2)]
    go(*programs)
    end(*programs)
    assert SeverityCube.load(tmp_path / "x.severity").frame().equals(sound)
    assert {p.name for p in tmp_path.iterdir()} == {"x.trace", "x.severity"}


@pytest.mark.slow
def test_exports__of_one_store_at_once(tmp_path, data):
    tracecols.convert(data / "late_sender", tmp_path / "x.trace")
    (tmp_path / "out").mkdir()
    code = """
from tracecols.export.archive import export_archive
from tracecols.export.tables import export
export(Path("../x.trace"), Path("x.parquet"))
try:
    export_archive(Path("../x.trace"), Path("x.otf2"))
    print("made")
except TracecolsError as error:
    assert "\\n  " in str(error)
    print(error)
"""
    programs = [start(code, tmp_path / "out") for _ in range(2)]
    go(*programs)
    printed = end(*programs)
    assert sum(p == "made\n" for p in printed) == 1, printed
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"x", "x.def", "x.otf2", "x.parquet"}
    again = Store(tracecols.convert(tmp_path / "out" / "x.otf2", tmp_path / "y.trace"))
    assert again.manifest["n_events"] == Store(tmp_path / "x.trace").manifest["n_events"]


def test_new_folder__is_not_refused_while_another_process_replaces_what_stands_there(tmp_path, data, monkeypatch):
    """The folder may disappear between the check that it exists and the reading of its manifest."""

    out = tracecols.convert(data / "coll", tmp_path / "x.trace")
    looked = []

    def is_made_here(path, what):
        looked.append(path)
        if len(looked) > 1:
            return True
        # another process puts the same store there after this one has looked for the manifest
        out.rename(tmp_path / "old")
        shutil.copytree(tmp_path / "old", out)
        return False

    monkeypatch.setattr(outputs, "is_made_here", is_made_here)
    with outputs.folder_output(out, "a store of a trace").new() as folder:
        shutil.copytree(tmp_path / "old", folder, dirs_exist_ok=True)
    assert len(looked) == 3 and Store(out).n_rows("events")


def test_new_folder__of_another_kind_is_refused(tmp_path):
    (tmp_path / "x").mkdir()
    with (
        pytest.raises(StoreError, match="exists and is not a store"),
        folder_output(tmp_path / "x", "a store of a trace").new(),
    ):
        pass
