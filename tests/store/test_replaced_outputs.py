"""Files that outputs may replace: one rule for every command and kind of output (`tracecols.store.outputs`)."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import stat
from itertools import product
from pathlib import Path

import pytest
from conftest import slow
from support.command_line import executed, run

import tracecols
from tracecols.enhance.definitions.topologies import load_descriptions
from tracecols.errors import SeverityError, StoreError, TracecolsError
from tracecols.export.archive import export_archive
from tracecols.store import Store, reader
from tracecols.store.outputs import folder_output

COMMANDS = {
    "convert": ("convert {trace} -o", ".trace"),
    "convert --correct-clocks": ("convert {trace} --correct-clocks -o", ".trace"),
    "correct": ("correct {store} -o", ".trace"),
    "correct an archive": ("correct {trace} -o", ".trace"),
    "what-if": ("what-if {store} --rows 1 -o", ".trace"),
    "analyze": ("analyze {store} -q -p visits -o", ".severity"),
    "analyze an archive": ("analyze {trace} -q -p visits -o", ".severity"),
    "report": ("report {cube} -o", ".html"),
    **{
        f"export a cube as {e}": ("export {cube}", e)
        for e in (".severity", ".cubex", ".cube", ".csv", ".json", ".parquet")
    },
    **{f"export --wide as {e}": ("export {cube} --wide", e) for e in (".csv", ".parquet")},
    **{f"export a store as {e}": ("export {store} --table messages", e) for e in (".csv", ".json", ".parquet")},
    **{f"export a store as {e}": ("export {store}", e) for e in (".pftrace", ".perfetto-trace", ".trace.json")},
    **{f"compare as {e}": ("compare {cube} {cube} -o", e) for e in (".severity", ".cubex", ".html", ".csv", ".json")},
    "export a store as .otf2": ("export {store}", ".otf2"),
}
SOME = (
    "convert", "what-if", "analyze", "report", "export a cube as .cubex", "export a store as .csv",
    "export a store as .otf2",
)  # fmt: skip
EACH = pytest.mark.parametrize("command", [*SOME, *slow(c for c in COMMANDS if c not in SOME)])
KINDS = ("pipe", "socket", "device", "link to a device", "link that leads nowhere", "folder of somebody else")

REFUSED = [(kind, SOME[(i + 3 * k) % len(SOME)]) for i, kind in enumerate(KINDS) for k in range(2)]
REFUSED_ALSO = {*product(KINDS, SOME[:4])} | {(KINDS[i % len(KINDS)], c) for i, c in enumerate(COMMANDS)}
REFUSED_ALSO = sorted(REFUSED_ALSO - {*REFUSED})
"""Each of `KINDS` with some commands, and each command with one of them."""


@pytest.fixture(scope="module")
def made(tmp_path_factory, data) -> dict[str, Path]:
    """Return a trace, its store and its cube, which no command may change."""
    folder = tmp_path_factory.mktemp("made")
    store = tracecols.convert(data / "late_sender", folder / "s.trace")
    cube = tracecols.open(store).analyze().save(folder / "s.severity")
    return {"trace": data / "late_sender", "store": store, "cube": cube}


def with_output(command: str, made: dict[str, Path], output: Path, *more: str):
    """Run a command with an output."""
    words = COMMANDS[command][0].format(**made).split()
    return run(*words, output, *more)


def digest(folder: Path) -> dict[str, str]:
    """Return the digests of all files in a folder."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()
    }


def put(kind: str, path: Path) -> None:
    """Create something that is never replaced at the path of an output."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        here = Path.cwd()
        os.chdir(path.parent)  # socket names must be short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
        os.chdir(here)
    elif kind == "link to a device":
        path.symlink_to("/dev/null")
    elif kind == "link that leads nowhere":
        path.symlink_to(path.parent / "nowhere")
    elif kind == "device":
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        path.mkdir()
        (path / "thesis.tex").write_text("...")


@EACH
def test_output__replaces_what_the_same_command_made(command, made, tmp_path):
    output = tmp_path / f"x{COMMANDS[command][1]}"
    assert with_output(command, made, output).exit_code == 0
    again = with_output(command, made, output)
    if output.suffix == ".otf2":
        assert again.exit_code == 1
        assert "never written over anything" in again.output
    else:
        assert again.exit_code == 0, again.output
        assert [p.name for p in tmp_path.iterdir()] == [output.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
@pytest.mark.parametrize(("kind", "command"), [*REFUSED, *slow(REFUSED_ALSO)])
def test_output__never_replaces_what_is_no_regular_file(kind, command, made, tmp_path, monkeypatch):
    monkeypatch.setattr(reader.Store, "read", None)  # refused before events are read
    monkeypatch.setattr(reader.Store, "read_together", None)
    output = tmp_path / f"x{COMMANDS[command][1]}"
    put(kind, output)
    before = output.lstat()
    for more in ([], ["--force"]):
        result = with_output(command, made, output, *more)
        assert result.exit_code == 1, result.output
        assert result.output.startswith(f"error: {output}" if kind != "link to a device" else "error: "), result.output
        assert result.output.count("\n") == 2, result.output
        assert os.path.samestat(output.lstat(), before)
        assert [p.name for p in tmp_path.iterdir()] == [output.name]


@EACH
def test_output__replaces_a_file_of_unknown_origin_only_with_force(command, made, tmp_path, monkeypatch):
    output = tmp_path / f"x{COMMANDS[command][1]}"
    output.write_text("name,what\nnotes,mine\n")
    with monkeypatch.context() as patch:
        patch.setattr(reader.Store, "read", None)
        patch.setattr(reader.Store, "read_together", None)
        result = with_output(command, made, output)
    assert result.exit_code == 1, result.output
    assert output.read_text() == "name,what\nnotes,mine\n"
    if output.suffix == ".otf2":
        return
    assert "--force" in result.output
    assert with_output(command, made, output, "--force").exit_code == 0
    assert output.is_dir() or b"notes,mine" not in output.read_bytes()


@EACH
def test_output__is_never_written_into_a_store_or_cube(command, made, tmp_path):
    ending = COMMANDS[command][1]
    for name in ("store", "cube"):
        before = digest(made[name])
        link = tmp_path / name
        link.symlink_to(made[name])
        places = [made[name] / f"x{ending}", made[name] / "definitions" / f"x{ending}", link / f"x{ending}"]
        if ending in (".json", ".parquet", ".csv"):
            places += [made[name] / "manifest.json", *sorted(made[name].rglob("*.parquet"))[:3]]
            places = [p for p in places if p.suffix == ending]
        for place in places:
            for more in ([], ["--force"]):
                result = with_output(command, made, place, *more)
                assert result.exit_code == 1, (place, result.output)
                assert "nothing else is written there" in result.output, result.output
        assert digest(made[name]) == before


@pytest.mark.parametrize("command", SOME[:-1])
def test_output__follows_a_link(command, made, tmp_path):
    """The target of a link is replaced, not the link, by the same rule."""
    ending = COMMANDS[command][1]
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / f"x{ending}", tmp_path / f"l{ending}"
    assert with_output(command, made, target).exit_code == 0
    link.symlink_to(target)
    assert with_output(command, made, link).exit_code == 0
    assert link.is_symlink()
    if not target.is_dir():
        target.write_text("mine")
        assert with_output(command, made, link).exit_code == 1
        assert target.read_text() == "mine"


def test_reports_issue_30__stay_as_they_are(made, tmp_path):
    """`report -o s.severity/manifest.json` used to replace its input, `export ... regions.parquet` broke a store."""
    before = digest(made["cube"]), digest(made["store"])
    for words in (
        ["report", made["cube"], "-o", made["cube"] / "manifest.json"],
        ["export", made["cube"], made["store"] / "definitions" / "regions.parquet"],
        ["report", made["cube"], "-o", made["cube"]],
        ["analyze", made["store"], "-o", made["store"], "--force"],
        ["convert", made["trace"], "-o", made["cube"], "--force"],
    ):
        executed(*words, code=1)
    assert (digest(made["cube"]), digest(made["store"])) == before


@pytest.mark.slow
def test_store__with_other_times_is_replaced_only_with_force(made, tmp_path):
    recorded, corrected, predicted = (tmp_path / f"{name}.trace" for name in ("recorded", "corrected", "predicted"))
    paths = {"convert": recorded, "correct": corrected, "what-if": predicted}
    for command, path in paths.items():
        assert with_output(command, made, path).exit_code == 0
    for command in paths:
        for path in paths.values():
            before = digest(path)
            result = with_output(command, made, path)
            assert result.exit_code == (0 if path == paths[command] else 1), result.output
            if result.exit_code:
                assert "was made in another way: it is the store of a" in result.output
                assert digest(path) == before
    for command in paths:
        for path in paths.values():
            assert with_output(command, made, path, "--force").exit_code == 0
    assert "is, or holds, what is read" in executed("correct", recorded, "-o", recorded, "--force", code=1)


@pytest.mark.parametrize("command", ["convert", "analyze", *slow(["correct", "export a cube as .severity"])])
def test_folder__with_a_file_of_somebody_else_is_replaced_only_with_force(command, made, tmp_path):
    words, ending = COMMANDS[command]
    output = tmp_path / f"x{ending}"
    words = [*(word.format(**made) for word in words.split()), str(output)]
    executed(*words)
    (output / "mine.txt").write_text("precious")
    refused = run(*words)
    assert refused.exit_code == 1
    assert f"{output} holds mine.txt, which tracecols did not write" in refused.stderr
    assert (output / "mine.txt").read_text() == "precious"
    if "--force" in executed(words[0], "--help"):
        executed(*words, "--force")
        assert not (output / "mine.txt").exists()


@pytest.mark.parametrize(
    "words",
    [
        "convert {trace}/traces.otf2 -o {trace}/traces.otf2",
        "convert {trace} -o {trace}/traces/0.evt",
        "report {cube}x -o {cube}x",
        "export {cube}x {cube}x",
        "analyze {trace} -q -o {trace}",
    ],
)
def test_output__is_never_what_is_read(words, made, tmp_path):
    """With --force, a report used to replace its own cube, and a store the anchor file of its trace."""
    trace = shutil.copytree(made["trace"], tmp_path / "archive")
    cube = tmp_path / "c.cube"
    tracecols.SeverityCube.load(made["cube"]).save(tmp_path / "c.severity")
    executed("export", tmp_path / "c.severity", f"{cube}x")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    done = run(*(w.format(trace=trace, cube=cube) for w in words.split()), "--force")
    assert done.exit_code in (1, 2), done.output
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_python__follows_the_same_rule(made, tmp_path):
    trace = tracecols.open(made["store"])
    cube = trace.analyze(properties="visits")
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    writers = (
        lambda **more: tracecols.convert(made["trace"], notes, **more),
        lambda **more: trace.correct().save(notes, **more),
        lambda **more: trace.what_if().save(notes, **more),
        lambda **more: cube.save(notes, **more),
        lambda **more: cube.report(notes, **more),
    )
    for write in writers:
        with pytest.raises(
            TracecolsError, match=r"exists and is n.*\n  give another name, or force=True to replace it"
        ):
            write()
        assert notes.read_text() == "mine"
    cube.save(tmp_path / "x.severity")
    with pytest.raises(SeverityError, match="was made in another way"):
        trace.analyze().save(tmp_path / "x.severity")
    trace.analyze().save(tmp_path / "x.severity", force=True)
    with pytest.raises(TracecolsError, match="nothing else is written there"):
        export_archive(made["store"], made["store"] / "events" / "x.otf2")
    for write in writers:
        write(force=True)
        assert notes.exists()
        if notes.is_dir():
            notes.rename(tmp_path / f"moved-{len(list(tmp_path.iterdir()))}")
            notes.write_text("mine")


@pytest.mark.parametrize("path", ["x\0y", "folder\0/x"])
def test_path__with_nul_is_refused(path, made, tmp_path):
    cube, trace = tracecols.read_cube(made["cube"]), tracecols.open(made["store"])
    for use in (
        lambda: tracecols.open(path),
        lambda: load_descriptions(Path(path)),
        lambda: trace.analyze(patterns=path),
        lambda: tracecols.read_cube(path),
        lambda: tracecols.convert(path, tmp_path / "x.trace"),
        lambda: tracecols.convert(made["trace"], path),
        lambda: cube.save(path),
        lambda: cube.report(path),
        lambda: cube.report(tmp_path / "x.html", sources=path),
        lambda: export_archive(made["store"], Path(f"{path}.otf2")),
        lambda: tracecols.earl.EventTrace(made["store"], index=path),
    ):
        with pytest.raises(TracecolsError):
            use()
    assert not list(tmp_path.iterdir())


def test_own_tables__are_made_in_the_store(made):
    executed("enhance", made["store"], "messages")
    assert (made["store"] / "enhanced" / "messages" / "manifest.json").is_file()
    with pytest.raises(StoreError, match="nothing else is written there"):
        folder_output(made["store"] / "enhanced" / "x", "an enhanced table").check()
    assert Store(made["store"]).n_rows("events")
