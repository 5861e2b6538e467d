"""No path in an archive or a store leads outside of it, and reading it never blocks for ever."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import LONG, slow
from support.command_line import executed, run
from support.epilog_mutations import recordings
from support.epilog_writer import write_archive
from support.limits import within
from support.otf2_writer import Archive
from support.store_changes import change

import tracecols
from tracecols.enhance.definitions.topologies import load_descriptions
from tracecols.errors import AnalysisError, SeverityError, SourceError, StoreError, TracecolsError
from tracecols.patterns.plugins import load
from tracecols.store import Store, reader

HOSTILE = ("/etc/passwd", "../../../outside", "..", "/", ".", "x/../../y", "C:\\x", "a\0b", "~", "$HOME", "-rf")


@pytest.fixture
def opened(monkeypatch):
    """Record the paths that are opened while a test runs."""
    names: list[str] = []
    active = [True]

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if active[0] and event in (
            "open",
            "os.mkdir",
            "os.rename",
            "os.remove",
            "os.rmdir",
            "os.listdir",
            "os.scandir",
        ):
            names.extend(os.fsdecode(a) for a in arguments[:2] if isinstance(a, str | bytes | os.PathLike))

    sys.addaudithook(note)
    yield names
    active[0] = False


def test_texts__are_never_paths(tmp_path, opened):
    """For any names and properties."""
    archive = Archive(tmp_path / "in" / "traces.otf2")
    regions = [archive.region(text.replace("\0", "")) for text in HOSTILE]
    rank = archive.mpi(1).ranks[0]
    for i, region in enumerate(regions):
        rank.enter(2 * i, region).leave(2 * i + 1, region)
    anchor = archive.write()
    tracecols.convert(anchor, tmp_path / "out" / "x.trace", jobs=1)
    tracecols.open(tmp_path / "out" / "x.trace").analyze().save(tmp_path / "out" / "x.severity")
    assert {p.name for p in tmp_path.iterdir()} == {"in", "out"}
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"x.trace", "x.severity"}
    assert len(opened) > 20
    bad = [n for n in opened if n in HOSTILE or "passwd" in n or "outside" in n]
    assert bad == []


@pytest.mark.parametrize("number", [0, (1 << 64) - 2, 1 << 63])
def test_files__are_named_by_numbers(number, tmp_path):
    archive = Archive(tmp_path / "in" / "traces.otf2")
    region = archive.region("work")
    archive.mpi(1).ranks[0].enter(0, region).leave(1, region)
    anchor = archive.write()
    names = sorted(p.name for p in (tmp_path / "in" / "traces").iterdir())
    assert all(n.partition(".")[0].isdigit() for n in names)
    assert Store(tracecols.convert(anchor, tmp_path / "x.trace")).manifest["n_events"] == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_file__is_none(kind, tmp_path, data):
    """Reading does not block at a pipe."""
    (recording,) = (r for name, r in recordings() if name == "messages")
    write_archive(recording, tmp_path / "epik", 0)
    shutil.copytree(data / "late_sender", tmp_path / "otf2")
    places = [
        *(p.relative_to(tmp_path) for p in (tmp_path / "otf2").rglob("*") if p.suffix in (".otf2", ".def", ".evt")),
        *(p.relative_to(tmp_path) for p in (tmp_path / "epik").rglob("*") if p.is_file()),
    ]
    assert len(places) > 6
    os.mkfifo(tmp_path / "pipe")
    for place in places:
        path = tmp_path / place
        path.rename(tmp_path / "kept")
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(tmp_path / "pipe")
        anchor = tmp_path / "otf2" / "traces.otf2" if place.parts[0] == "otf2" else tmp_path / "epik" / "epik.esd"
        with pytest.raises(SourceError) as raised:
            tracecols.convert(anchor, tmp_path / "x.trace")
        assert "\n  " in str(raised.value)
        path.rmdir() if kind == "folder" else path.unlink()
        (tmp_path / "kept").rename(path)
        assert not (tmp_path / "x.trace").exists()


def test_links__are_read_and_never_written(tmp_path, data):
    """Tools that keep data elsewhere, such as git-annex, put links in place of all files."""
    shutil.copytree(data / "late_sender", tmp_path / "elsewhere")
    (tmp_path / "in" / "traces").mkdir(parents=True)
    for path in (tmp_path / "elsewhere").rglob("*"):
        if path.is_file():
            (tmp_path / "in" / path.relative_to(tmp_path / "elsewhere")).symlink_to(path)
    before = {p: p.read_bytes() for p in (tmp_path / "elsewhere").rglob("*") if p.is_file()}
    store = Store(tracecols.convert(tmp_path / "in", tmp_path / "x.trace"))
    sound = Store(tracecols.convert(data / "late_sender", tmp_path / "y.trace"))
    assert store.manifest["n_events"] == sound.manifest["n_events"]
    assert {p: p.read_bytes() for p in (tmp_path / "elsewhere").rglob("*") if p.is_file()} == before


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HOSTILE, "", "metrics_", "metrics_0/../x", "definitions"])
def test_store__whose_manifest_names_other_tables(name, tmp_path, data):
    store = Store(tracecols.convert(data / "late_sender", tmp_path / "x.trace"))
    shutil.copytree(store.path / "p2p", tmp_path / "outside")
    tables = {**store.manifest["tables"], name: [{"name": "row", "dtype": "int64"}]}
    with pytest.raises(StoreError, match="no table of a store is called"):
        Store(change(store, tables=tables))


def test_store__replaced_by_links_keeps_what_they_lead_to(tmp_path, data):
    """An older store is removed, but not the targets of links in it."""
    out = tracecols.convert(data / "late_sender", tmp_path / "x.trace")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    (out / "link").symlink_to(tmp_path / "mine")
    shutil.rmtree(out / "p2p")
    (out / "p2p").symlink_to(tmp_path / "mine")
    tracecols.convert(data / "late_sender", out)
    assert (tmp_path / "mine" / "file").read_text() == "mine"
    assert not (out / "link").exists()
    assert not (out / "p2p").is_symlink()


@pytest.mark.slow
def test_cube__whose_manifest_says_anything_opens_its_own_files_only(tmp_path, data, opened):
    cube = tracecols.open(tracecols.convert(data / "late_sender", tmp_path / "x.trace")).analyze()
    path = cube.save(tmp_path / "x.severity")
    from tracecols.severity import SeverityCube
    from tracecols.store.layout import checksum

    manifest = json.loads((path / "manifest.json").read_text())
    manifest["facts"]["trace"]["source"]["path"] = "/etc/passwd"
    manifest["float_properties"] = ["/etc/passwd"]
    manifest["checksum"] = checksum(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))
    opened.clear()
    assert "/etc/passwd" in repr(SeverityCube.load(path))
    assert "/etc/passwd" not in opened
    assert Path(path).exists()


# -- pipes, devices and endless input ----------------------------------------------------------------------------------


@contextmanager
def nobody_waits(pipe):
    """Fail, instead of blocking for ever, if the code waits for a writer of a pipe."""
    waited = []

    def release():
        waited.append(True)
        for _ in range(100):
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
            time.sleep(0.01)

    watch = threading.Timer(LONG, release)
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
    assert not waited


@contextmanager
def replaced(path, pipe):
    """Replace a file by a link to a pipe."""
    path.rename(path.with_name("kept"))
    path.symlink_to(pipe)
    yield
    path.unlink()
    path.with_name("kept").rename(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory, data):
    """Make a store with an index, its cube in three formats, and a pipe."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes there")
    folder = tmp_path_factory.mktemp("made")
    trace = tracecols.open(tracecols.convert(data / "late_sender", folder / "x.trace"))
    trace.analyze().save(folder / "x.severity")
    tracecols.earl.EventTrace(folder / "x.trace").event(1)
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.slow
def test_store__with_a_pipe_in_the_place_of_a_file(made):
    files = sorted(p for p in (made / "x.trace").rglob("*") if p.is_file())
    assert len(files) > 30

    def use():
        trace = tracecols.open(made / "x.trace")
        trace.events, trace.messages, trace.analyze()
        for name in (*trace.store.definitions, *trace.store.tables):
            trace.definition(name) if name in trace.store.definitions else trace.table(name)

    with nobody_waits(made / "pipe"):
        for path in files:
            if "earl" in path.parts:
                continue
            with replaced(path, made / "pipe"), pytest.raises(StoreError, match="pipe"):
                use()
    use()


def test_sql__with_a_pipe_in_the_place_of_a_file(made):
    pytest.importorskip("duckdb")
    trace = tracecols.open(made / "x.trace")
    files = [made / "x.trace" / "definitions" / "regions.parquet", *(made / "x.trace" / "p2p").iterdir()]
    with nobody_waits(made / "pipe"):
        for path in files:
            with replaced(path, made / "pipe"), pytest.raises(StoreError, match="pipe"):
                trace.sql("select count(*) from events")


def test_index__with_a_pipe_in_the_place_of_a_file(made):
    files = sorted((made / "x.trace").rglob("earl/*.npy"))
    assert len(files) > 10
    with nobody_waits(made / "pipe"):
        for path in files:
            with replaced(path, made / "pipe"), pytest.raises(StoreError, match="pipe"):
                index = tracecols.earl.index.Index(path.parent)
                index[path.stem]


def test_cube__with_a_pipe_in_the_place_of_a_file(made):
    files = sorted(p for p in (made / "x.severity").rglob("*") if p.is_file())
    assert len(files) > 7
    with nobody_waits(made / "pipe"):
        for path in files:
            with replaced(path, made / "pipe"), pytest.raises(SeverityError, match="pipe"):
                tracecols.read_cube(made / "x.severity")


@pytest.mark.parametrize(
    "command", ["show", "report", "rules", "export", "compare", "analyze", "convert", "info", "check"]
)
@pytest.mark.parametrize("ending", [".cubex", ".cube", ".cube.gz", ".otf2", ".elg", ".severity", ".trace"])
def test_command__given_a_pipe(command, ending, tmp_path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes there")
    pipe = tmp_path / f"x{ending}"
    os.mkfifo(pipe)
    more = {"export": [tmp_path / "y.csv"], "compare": [pipe], "report": ["-o", tmp_path / "y.html"]}.get(command, [])
    with nobody_waits(pipe):
        result = run(command, pipe, *more)
    assert result.exit_code == 1
    assert result.output.startswith("error: ") and str(pipe) in result.output, result.output
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device")
@pytest.mark.parametrize("option", ["--topology", "--patterns"])
def test_analyze__given_a_device_for_a_small_file(option, made, tmp_path):
    output = executed("analyze", made / "x.trace", "-o", tmp_path / "y.severity", option, "/dev/zero", code=1)
    assert "cannot read /dev/zero: it is a device, not a regular file\n  give a" in output
    with nobody_waits(made / "pipe"):
        result = run("analyze", made / "x.trace", "-o", tmp_path / "y.severity", option, made / "pipe")
    assert "it is a named pipe (FIFO), not a regular file\n  give a" in result.output


@pytest.mark.parametrize("what", ["device", "large"])
@pytest.mark.parametrize("name", ["x.trace", "x.severity"])
def test_manifest__without_end(what, name, made, tmp_path):
    shutil.copytree(made / name, tmp_path / name)
    manifest = tmp_path / name / "manifest.json"
    manifest.unlink()
    if what == "device":
        manifest.symlink_to("/dev/zero")
    else:
        with manifest.open("wb") as file:
            file.truncate(1 << 40)
    words = "it is a device" if what == "device" else "it has more than 268,435,456 bytes"
    with pytest.raises(TracecolsError, match=words):
        (tracecols.open if name == "x.trace" else tracecols.read_cube)(tmp_path / name)


def test_small_files__have_a_limit(tmp_path):
    for name in ("x.json", "x.py", "x.otf2"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)
    for read, name, error in ((load_descriptions, "x.json", AnalysisError), (load, "x.py", AnalysisError)):
        with pytest.raises(error, match="it has more than 268,435,456 bytes"):
            read(tmp_path / name)
    with pytest.raises(SourceError, match="it has more than 268,435,456 bytes"):
        tracecols.convert(tmp_path / "x.otf2", tmp_path / "x.trace")


@pytest.mark.slow
def test_epilog__that_unpacks_without_measure(tmp_path):
    # 31 kB unpack to 31 MB of 16 million empty records, which used to be read one by one: 19 s and more
    with within(15):
        for head, words in (
            (b"EPILOG\0\1\x09\1", "unpacks to more than 4,194,304, which no trace does\n.*gunzip"),
            (b"EPILOG\0\x09\x09\1", "EPILOG version 9.9, which is not supported"),
            (b"SOMETHING\0", "is not an EPILOG file"),
        ):
            path = tmp_path / "x.elg.gz"
            path.write_bytes(gzip.compress(head + bytes(31 << 20)))
            assert path.stat().st_size < 32_000
            with pytest.raises(SourceError, match=f"(?s){words}"):
                tracecols.convert(path, tmp_path / "x.trace")
        (tmp_path / "x.elg").write_bytes(b"EPILOG\0\1\x09\1" + bytes(31 << 20))
        with pytest.raises(SourceError, match="more than 1,048,576 definitions are of no known type"):
            tracecols.convert(tmp_path / "x.elg", tmp_path / "x.trace")


# -- paths that are not UTF-8, and NUL ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def odd(tmp_path_factory, data):
    """Return a folder whose name is not UTF-8, with an archive, its store and its cube."""
    folder = tmp_path_factory.mktemp("odd") / os.fsdecode(b"\xff")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    shutil.copytree(data / "late_sender", folder / "in\udcfe")
    store = tracecols.convert(folder / "in\udcfe", folder / "s\udcfe.trace")
    tracecols.open(store).analyze().save(folder / "c\udcfe.severity")
    return folder


@pytest.mark.slow
def test_path__that_is_not_utf8_holds_what_others_hold(odd, data, tmp_path):
    ours = tracecols.open(odd / "s\udcfe.trace")
    theirs = tracecols.open(tracecols.convert(data / "late_sender", tmp_path / "s.trace"))
    for name in ("messages", "waits", "region_instances"):
        assert ours.frame(name).equals(theirs.frame(name))
    assert ours.scan("messages").frame().equals(theirs.scan("messages").frame())
    assert str(tracecols.earl.EventTrace(ours.path).event(1)) == str(tracecols.earl.EventTrace(theirs.path).event(1))
    assert tracecols.read_cube(odd / "c\udcfe.severity").frame().equals(theirs.analyze().frame())


def test_sql__of_a_path_that_is_not_utf8_says_so(odd):
    pytest.importorskip("duckdb")
    with pytest.raises(StoreError, match="the path is not valid UTF-8\n  rename"):
        tracecols.open(odd / "s\udcfe.trace").sql("select count(*) from events")


MANY = (
    "report {c} -o {out}.html --sources {in}", "info {s}",
    "compare {c} {c} -o {out}.severity -o {out}.csv -o {out}.json -o {out}.html -o {out}.cubex",
    "efficiency {s} {c}", "analyze {in} -o {out}.severity", "convert {in} -o {out}.trace", "check {s}",
    "analyze {s} -o {out}.severity --from 0.1", "diagnose {c}", "phases {s}", "correct {s} -o {out}.trace",
    "enhance {s}", "rules {s}", "what-if {s} -o {out}.trace",
    *(f"export {{c}} {{out}}{e}" for e in (".cubex", ".cube", ".csv", ".json", ".parquet", ".severity")),
    *(f"export {{s}} {{out}}{e}" for e in (".csv", ".json", ".parquet", ".pftrace", ".trace.json", ".otf2")),
)  # fmt: skip
# one process for all commands, which would otherwise spend most of their time on start-up
RUN_ALL = """
import json, sys
from tracecols.cli import main
for words in json.load(sys.stdin):
    sys.argv = ["tracecols", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{words} ends with {end.code}")
"""


@pytest.mark.parametrize("commands", [["show {c}"], *slow([[*MANY]])])
def test_commands__take_paths_that_are_not_utf8(commands, odd, tmp_path):
    places = {"in": odd / "in\udcfe", "s": odd / "s\udcfe.trace", "c": odd / "c\udcfe.severity"}
    outputs = [tmp_path / str(number) for number in range(len(commands))]
    for folder in outputs:
        folder.mkdir()
    given = [
        [word.format(**places, out=folder / "o\udcfe") for word in words.split()]
        for words, folder in zip(commands, outputs, strict=True)
    ]
    # other programs must be able to decode the output
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL], input=json.dumps(given).encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    done.stdout.decode("utf-8")
    assert [bool(list(folder.iterdir())) for folder in outputs] == ["{out}" in words for words in commands]


@pytest.mark.parametrize(
    "words",
    ["info {}", "show {}", "analyze {}", "analyze x.trace -o {}", "patterns --patterns {}", "show x --topology {}"],
)
def test_command__given_nul(words, tmp_path):
    output = executed(*(word.format("a\0b") for word in words.split()), code=2)
    assert "an argument has a NUL character, which no path and no name can have" in output


# -- files without permission ------------------------------------------------------------------------------------------

TODO = "change the permissions of it and its folders, or ask its owner to"


@pytest.mark.parametrize(
    ("place", "mode", "words"),
    [
        *slow(
            [
                ("otf2/traces", 0, "cannot read {folder}/otf2/traces/0.evt: Permission denied"),
                ("epik/ELG", 0, "cannot read {folder}/epik/ELG/00000: Permission denied"),
                ("otf2/traces", 0o444, "cannot read {folder}/otf2/traces/0.evt: Permission denied"),
                ("otf2/traces/0.evt", 0, "cannot read {folder}/otf2/traces/0.evt: Permission denied"),
                ("otf2/traces.def", 0, "cannot read {folder}/otf2/traces.def: Permission denied"),
                ("otf2", 0, "cannot read {folder}/otf2/traces.otf2: Permission denied"),
                ("epik/ELG/00000", 0, "cannot read {folder}/epik/ELG/00000: Permission denied"),
            ]
        )
    ],
)
def test_archive__without_permission_is_not_incomplete(place, mode, words, tmp_path, data, unprivileged, forbid):
    """Files that may not be read are neither missing nor lost, even with --salvage, which would leave out locations."""
    shutil.copytree(data / "late_sender", tmp_path / "otf2")
    write_archive(next(r for name, r in recordings() if name == "messages"), tmp_path / "epik", 0)
    forbid(tmp_path / place, mode)
    anchor = tmp_path / ("otf2/traces.otf2" if place.startswith("otf2") else "epik/epik.esd")
    for more in ([], ["--salvage"]):
        done = unprivileged("convert", anchor, "-o", tmp_path / "x.trace", *more)
        assert done.returncode == 1
        assert done.stderr == f"error: {words.format(folder=tmp_path)}\n  {TODO}\n"
    assert not (tmp_path / "x.trace").exists()


@pytest.mark.parametrize(
    ("place", "command"),
    [("x.trace/definitions/regions.parquet", "info"), *slow([("x.trace/manifest.json", "info"), ("x.severity/manifest.json", "show")])],
)  # fmt: skip
def test_store__without_permission_is_not_damaged(place, command, made, tmp_path, unprivileged, forbid):
    name = place.partition("/")[0]
    shutil.copytree(made / name, tmp_path / name)
    forbid(tmp_path / place, 0)
    done = unprivileged(command, tmp_path / name)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"  {TODO}")
    assert "ermission denied" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "permit more open files"),
        (pa.ArrowException("Unknown error: Failed to launch worker thread: x"), "use fewer threads"),
    ],
)
def test_store__that_the_system_does_not_read_is_not_damaged(error, advice, made, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise error

    trace = tracecols.open(made / "x.trace")
    monkeypatch.setattr(reader, "open_parquet", fail)
    with pytest.raises(StoreError, match=f"cannot be read: .*\n  {advice}"):
        trace.definition("regions")
