"""Outputs for which there is no space, or in folders where nothing can be written: one clear error, and nothing is left
behind."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.command_line import executed, python
from support.epilog_mutations import recordings
from support.epilog_writer import merged

import tracecols
from tracecols.cli import group
from tracecols.enhance.dataflow import spill
from tracecols.errors import TracecolsError
from tracecols.severity import SeverityCube
from tracecols.store import Store
from tracecols.work import scratch

ROOT = Path(__file__).parents[2]

COMMANDS = {
    "convert": ["convert", "{trace}", "-o", "{out}/x.trace"],
    "convert, EPILOG": ["convert", "{epilog}", "-o", "{out}/x.trace"],
    "convert --correct-clocks": ["convert", "{trace}", "--correct-clocks", "-o", "{out}/x.trace"],
    "analyze": ["analyze", "{store}", "-o", "{out}/x.severity"],
    "export .otf2": ["export", "{store}", "{out}/x.otf2"],
    "export .parquet": ["export", "{store}", "{out}/x.parquet"],
    "export .csv": ["export", "{store}", "{out}/x.csv"],
    "export .json": ["export", "{store}", "{out}/x.json"],
    "export cube .json": ["export", "{cube}", "{out}/x.json"],
    "export cube .parquet": ["export", "{cube}", "{out}/x.parquet"],
    "demo": ["demo", "--no-browser", "-o", "{out}/x"],
}

RUN = """
import resource, sys
# what a full disk does to files: OSError, at the first byte beyond
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from tracecols.cli import group
group(sys.argv[2:])
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory, data) -> dict[str, str]:
    """Traces, a store and a cube to work on."""

    folder = tmp_path_factory.mktemp("made")
    (recording,) = (r for name, r in recordings() if name == "messages")
    epilog = merged(recording).write(folder / "epilog.elg.gz", compress=True)
    store = tracecols.convert(data / "hybrid_2x3", folder / "x.trace")
    cube = tracecols.open(store).analyze().save(folder / "x.severity")
    return {"trace": str(data / "hybrid_2x3"), "epilog": str(epilog), "store": str(store), "cube": str(cube)}


def run(name: str, made: dict[str, str], out: Path | str, size: int, temporary: Path) -> str:
    """Run a command that must fail, and return its error."""
    temporary.mkdir(exist_ok=True)
    arguments = [a.format(**made, out=out) for a in COMMANDS[name]]
    # Python 3.11 would keep compiled modules of which it could write only a part
    done = python("-B", "-c", RUN, str(size), *arguments, env={"TMPDIR": str(temporary)}, code=1)
    # kernels that no test has compiled before cannot be cached either
    note, _, error = done.stderr.rpartition("error: ")
    assert not note or (note.startswith("note: kernels are compiled at every start") and note.count("\n") == 2)
    assert not list(temporary.iterdir())
    return checked(f"error: {error}")


def checked(error: str) -> str:
    """Check that an error has one line, followed by another that says what to do; return it."""
    assert "Traceback" not in error
    assert error.startswith("error: ") and error.count("\n") == 2 and "\n  " in error
    return error


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
@pytest.mark.parametrize("name", ["convert", "analyze", "export .otf2", "export .csv", "export cube .parquet", "demo"])
def test_disk__is_full(name, made, tmp_path):
    (tmp_path / "out").mkdir()
    error = run(name, made, tmp_path / "out", 200, tmp_path / "temporary")
    assert "File too large" in error
    assert "make room" in error
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
def test_disk__of_temporary_files_is_full(made, tmp_path):
    error = run("convert --correct-clocks", made, tmp_path, 200, tmp_path / "temporary")
    assert f"cannot write {tmp_path / 'temporary'}" in error
    assert "TMPDIR" in error


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such folders there")
@pytest.mark.parametrize("name", COMMANDS)
def test_folder__where_nothing_can_be_written(name, made, tmp_path, monkeypatch):
    """Even root cannot make files below these: permissions would not stop a test that runs as root."""
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for out in (tmp_path / "file" / "deeper", *(p for p in (Path("/proc"),) if (p / "self").exists())):
        result = CliRunner().invoke(group, [a.format(**made, out=out) for a in COMMANDS[name]])
        assert result.exit_code == 1
        assert f"cannot write {out}" in checked(result.stderr)
    assert (tmp_path / "file").read_text() == "not a folder"
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
@pytest.mark.parametrize("files", [10, 20])
def test_enhance__with_too_few_open_files_leaves_nothing(files, made, tmp_path):
    store = tmp_path / "x.trace"
    shutil.copytree(made["store"], store)
    done = python("-c", RUN.replace("FSIZE", "NOFILE"), str(files), "enhance", str(store), code=1)
    assert "Too many open files\n  permit more" in checked(done.stderr)
    assert not list(store.rglob(".*.partial"))


@pytest.mark.parametrize("number", [28, 30, 122])
def test_write__of_any_kind_that_fails(number, made, tmp_path, monkeypatch):
    """No space, a read-only file system, a quota."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    store, cube = Store(made["store"]), SeverityCube.load(made["cube"])
    monkeypatch.setattr(Path, "mkdir", fail)
    for action in (lambda: tracecols.convert(made["trace"], tmp_path / "x.trace"), lambda: cube.save(tmp_path / "y")):
        with pytest.raises(TracecolsError, match=rf"cannot write .*: {os.strerror(number)}\n  choose a folder"):
            action()
    assert store.manifest
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_temporary_files__of_epilog_find_no_room(made, tmp_path, monkeypatch):
    """The trace is sound: the error must not advise to copy it again."""
    from tracecols.converters import temporary

    monkeypatch.setattr(temporary, "IN_MEMORY", 0)
    if hasattr(os, "posix_fallocate"):

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", fail)
            with pytest.raises(
                TracecolsError, match=r"cannot write a temporary file in .*: No space .*\n  make room"
            ) as e:
                tracecols.convert(made["epilog"], tmp_path / "x.trace")
            assert "copy" not in str(e.value)
    monkeypatch.setattr(temporary.tempfile, "TemporaryFile", lambda **_: open("/dev/full", "wb+", buffering=0))  # noqa: SIM115
    if Path("/dev/full").exists():
        with pytest.raises(TracecolsError, match=r"cannot write a temporary file in .*: No space .*\n  make room") as e:
            tracecols.convert(made["epilog"], tmp_path / "x.trace")
        assert "copy" not in str(e.value)
    assert not list(tmp_path.iterdir())


def test_temporary_files__have_no_folder(made, tmp_path, monkeypatch):
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr("tracecols.work.scratch.tempfile.gettempdir", none)
    from tracecols.work.scratch import temporary_folder

    with pytest.raises(TracecolsError, match=r"cannot make a temporary folder in any folder .*\n  .*TMPDIR"):
        temporary_folder()


@pytest.mark.parametrize("is_archive", [False, True], ids=["store", "archive"])
def test_temporary_files__of_an_analysis_are_in_the_given_folder(made, tmp_path, monkeypatch, is_archive):
    where = []
    folder_of = scratch.ScratchFolder

    def noted(parent: Path, prefix: str) -> scratch.ScratchFolder:
        where.append(parent)
        return folder_of(parent, prefix)

    monkeypatch.setattr(scratch, "ScratchFolder", noted)
    part = ["--from", "0.3", "--to", "0.35", "--scratch", str(tmp_path), "-o", str(tmp_path / "x.severity")]
    executed("analyze", made["trace" if is_archive else "store"], *part)
    assert where == [tmp_path] * (1 + is_archive)


def test_temporary_files__of_the_analysis_find_no_room(made, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spill, "BUDGET", 0)
    monkeypatch.setattr(spill.SpilledColumns, "__init__", fail)
    with pytest.raises(TracecolsError, match=r"cannot write the temporary file .*: No space .*\n  make room there"):
        tracecols.open(made["store"]).analyze()


@pytest.mark.parametrize("module", ["opened", "rewritten"])
def test_temporary_stores__of_pieces_and_predictions_find_no_room(module, made, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    trace = tracecols.open(made["store"])
    monkeypatch.setattr(f"tracecols.slices.{module}.write_store", fail)
    with pytest.raises(TracecolsError, match=r"cannot write temporary files in .*: No space .*\n  make room there"):
        trace.analyze(start=0.3) if module == "opened" else trace.what_if(transfer=0).analyze()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
def test_temporary_store__of_analyze_finds_no_room(made, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    done = python(
        "-c",
        RUN,
        "200",
        "analyze",
        made["trace"],
        "-o",
        str(tmp_path / "x.severity"),
        env={"TMPDIR": str(tmp_path / "temporary")},
        code=1,
    )
    assert "File too large" in done.stderr
    assert "TMPDIR in the environment, or --scratch FOLDER of tracecols analyze" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["temporary"]
    assert not list((tmp_path / "temporary").iterdir())


def test_threads__that_the_system_does_not_start_are_one_clear_error(made, tmp_path, monkeypatch):
    def start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    output = executed("analyze", made["store"], "-o", tmp_path / "x.severity", code=1)
    assert output.startswith("error: the system starts no more threads of this user or container\n  use fewer threads")
    assert not list(tmp_path.iterdir())
