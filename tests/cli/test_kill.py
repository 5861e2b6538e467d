"""Commands that are killed leave nothing that can be opened, and can be run again; the older output stays until the new
one is complete."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import pytest
from conftest import LONG
from support.command_line import python
from support.store_changes import Numbers

import tracecols
from benchmarks.kill import campaign, cases
from tracecols import conversion
from tracecols.errors import SourceError, TracecolsError
from tracecols.store import Store
from tracecols.work.scratch import ScratchFolder

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and locks on folders")

DIE = """
import os, sys
from pathlib import Path
real, calls = os.rename, []
def rename(*names):
    calls.append(names)
    if len(calls) == {at}:
        os.kill(os.getpid(), 9)
    return real(*names)
os.rename = rename
from tracecols.cli import group
group({arguments!r})
"""


def die(at: int, folder: Path, *arguments: object) -> None:
    """Run a command that is killed just before its `at`-th rename, counted from 1."""
    python("-c", DIE.format(at=at, arguments=[str(a) for a in arguments]), cwd=folder, code=-signal.SIGKILL)


def files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, by relative path."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.slow
def test_commands__killed_at_random_moments(tmp_path, data):
    of = cases(tmp_path, data / "hybrid_2x3", data / "late_sender")
    # on a machine with varying load, commands may end before they are killed
    for seed in range(1, 10):
        seen, failures = campaign(of, kills=4, seed=seed)
        assert failures == []
        if any("complete" not in state for found in seen.values() for state in found):
            return
    pytest.fail("no command was killed while it worked")


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2])
def test_convert__killed_while_it_replaces_an_older_store(at, tmp_path, data):
    out = tmp_path / "x.trace"
    old = files(tracecols.convert(data / "coll", out))
    die(at, tmp_path, "convert", data / "late_sender", "-o", "x.trace")
    assert out.exists() == (at == 1)
    (left,) = tmp_path.glob(".*.partial")
    with pytest.raises(TracecolsError):
        tracecols.open(left)
    # commands that fail leave the older store where it was
    (tmp_path / "none.otf2").write_bytes(b"")
    with ScratchFolder(tmp_path, ".other."):
        pass
    assert list(tmp_path.glob(".*.partial")) == [left]
    with pytest.raises(TracecolsError):
        tracecols.convert(data / "none", out)
    assert files(tracecols.convert(data / "late_sender", out)) != old
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_convert__killed_while_the_older_store_was_away__puts_it_back_if_it_fails(tmp_path, data, monkeypatch):
    out = tmp_path / "x.trace"
    old = files(tracecols.convert(data / "coll", out))
    die(2, tmp_path, "convert", data / "late_sender", "-o", "x.trace")
    assert not out.exists()

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tracecols.store.writer.StoreWriter.finish", fail)
    with pytest.raises(KeyboardInterrupt):
        tracecols.convert(data / "late_sender", out)
    assert files(out) == old
    assert [p.name for p in tmp_path.iterdir()] == ["x.trace"]


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 3])
def test_export__killed_while_it_puts_the_archive_in_its_place(at, tmp_path, data):
    store = tracecols.convert(data / "late_sender", tmp_path / "x.trace")
    (tmp_path / "out").mkdir()
    die(at, tmp_path / "out", "export", store, "y.otf2")
    assert not (tmp_path / "out" / "y.otf2").exists()
    python("-m", "tracecols", "export", store, "y.otf2", cwd=tmp_path / "out")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"y", "y.def", "y.otf2"}
    assert Store(tracecols.convert(tmp_path / "out" / "y.otf2", tmp_path / "z.trace")).manifest["n_events"]


@pytest.mark.slow
def test_export__never_takes_back_what_others_made(tmp_path, data):
    """The folder of a killed export is moved away, and somebody makes another one of the same name."""
    store = tracecols.convert(data / "late_sender", tmp_path / "x.trace")
    die(2, tmp_path, "export", store, "y.otf2")
    kept = tmp_path / "kept"
    os.rename(tmp_path / "y", kept)
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "mine").write_text("mine")
    assert "y exists" in python("-m", "tracecols", "export", store, "y.otf2", cwd=tmp_path, code=1).stderr
    assert (tmp_path / "y" / "mine").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_commands__asked_to_end_clear_away_what_they_began(name, code, tmp_path, data):
    program = f"""
import os, signal, sys
# what a shell runs in the background, or nohup, ignores them
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.argv = ["tracecols", "analyze", {str(data / "coll")!r}, "-o", "x.severity"]
from tracecols.severity.cube import SeverityCube
SeverityCube.save = lambda *_: None
from tracecols.analysis import run
def end(*_):
    assert len(os.listdir({str(tmp_path / "temporary")!r})) == 1
    os.kill(os.getpid(), signal.{name})
run.analyze_model = end
from tracecols.cli import main
main()
"""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "work").mkdir()
    done = python("-c", program, env={"TMPDIR": str(tmp_path / "temporary")}, cwd=tmp_path / "work", code=code)
    assert done.stderr == "interrupted; nothing was left behind\n"
    assert not list((tmp_path / "work").iterdir())
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_signal__that_is_ignored_stays_so(name):
    """As by nohup, so that a command goes on after its terminal is closed."""
    program = f"""
import os, signal, sys
signal.signal(signal.{name}, signal.SIG_IGN)
import tracecols.cli
tracecols.cli.group = lambda: os.kill(os.getpid(), signal.{name})
tracecols.cli.main()
"""
    assert python("-c", program).stderr == ""


def test_scratch__of_a_living_process_stays_and_of_a_dead_one_goes(tmp_path):
    program = f"""
import time
from pathlib import Path
from tracecols.work.scratch import ScratchFolder
folder = ScratchFolder(Path({str(tmp_path)!r}), ".x.", ".partial")
(folder.path / "file").write_text("x")
print("ready", flush=True)
time.sleep(60)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        (theirs,) = tmp_path.iterdir()
        with ScratchFolder(tmp_path, ".x.", ".partial") as mine:
            assert {p.name for p in tmp_path.iterdir()} == {theirs.name, mine.name}
        assert (theirs / "file").exists()
        other.kill()
        other.wait()
    assert (theirs / "file").exists()
    elsewhere = tmp_path / theirs.name.replace(theirs.name.split(".")[2].split("-")[0], "0" * 8)
    shutil.copytree(theirs, elsewhere)
    link = tmp_path / theirs.name.replace("-", "-f")
    link.symlink_to(tmp_path.parent)
    with ScratchFolder(tmp_path, ".x.", ".partial") as mine:
        # processes of other machines may still run, so their folders stay; links are never followed
        assert {p.name for p in tmp_path.iterdir()} == {mine.name, elsewhere.name, link.name}


def test_scratch__goes_with_its_object_but_not_with_a_forked_process(tmp_path):
    folder = ScratchFolder(tmp_path, "x-")
    if (child := os.fork()) == 0:
        folder.remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert folder.path.is_dir()
    path = folder.path
    del folder
    assert not path.exists()


def test_interrupt__while_a_scratch_folder_is_removed_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(path, **_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), ScratchFolder(tmp_path, "x-"):
        pass
    assert not list(tmp_path.iterdir())


def test_interrupt__stops_a_conversion_at_once(tmp_path, monkeypatch):
    """It does not wait for the end of the location that is being read."""

    read, reading = [], Event()

    class Endless(Numbers):
        def read(self, location, report, *, salvage=False):
            batch = next(iter(super().read(location, report, salvage=salvage)))
            if location:
                assert reading.wait(LONG)
                raise SourceError("made to fail")
            for number in range(10_000):
                reading.set()
                time.sleep(0.01)
                read.append(number)
                yield batch

    monkeypatch.setattr(conversion, "plan_parts", lambda n: [range(1), range(1, 2)])
    monkeypatch.setattr(conversion, "open_source", lambda _: Endless([2000] * 2))
    with pytest.raises(SourceError, match="made to fail"):
        tracecols.convert("numbers", tmp_path / "x.trace", jobs=2)
    assert len(read) < 10_000
    assert list(tmp_path.iterdir()) == []
