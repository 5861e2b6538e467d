"""Nothing in an archive or a store leads outside of it, and nothing there is waited for for ever."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from epilog_mutations import recordings
from epilog_writer import write_archive
from otf2_writer import Archive
from test_store import change

import tracecols
from tracecols.errors import SourceError, StoreError
from tracecols.store import Store

HOSTILE = ("/etc/passwd", "../../../outside", "..", "/", ".", "x/../../y", "C:\\x", "a\0b", "~", "$HOME", "-rf")


@pytest.fixture
def opened(monkeypatch):
    """Notes what is opened while a test runs."""
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
    """Whatever names and properties say."""
    archive = Archive(tmp_path / "in" / "traces.otf2")
    regions = [archive.region(text.replace("\0", "")) for text in HOSTILE]
    rank = archive.mpi(1).ranks[0]
    for i, region in enumerate(regions):
        rank.enter(2 * i, region).leave(2 * i + 1, region)
    anchor = archive.write()
    tracecols.convert(anchor, tmp_path / "out" / "x.trace", jobs=1)
    trace = tracecols.open(tmp_path / "out" / "x.trace")
    trace.analyze().save(tmp_path / "out" / "x.severity")
    assert {p.name for p in tmp_path.iterdir()} == {"in", "out"}
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"x.trace", "x.severity"}
    assert len(opened) > 20
    bad = [n for n in opened if n in HOSTILE or "passwd" in n or "outside" in n]
    assert bad == []


@pytest.mark.parametrize("number", [0, (1 << 64) - 2, 1 << 63])
def test_files__are_named_by_numbers(number, tmp_path):
    archive = Archive(tmp_path / "in" / "traces.otf2")
    region = archive.region("work")
    rank = archive.mpi(1).ranks[0]
    rank.enter(0, region).leave(1, region)
    anchor = archive.write()
    names = sorted(p.name for p in (tmp_path / "in" / "traces").iterdir())
    assert all(n.partition(".")[0].isdigit() for n in names)
    assert Store(tracecols.convert(anchor, tmp_path / "x.trace")).manifest["n_events"] == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_file__is_none(kind, tmp_path, data):
    """A pipe is not waited for."""
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


@pytest.mark.parametrize("name", [*HOSTILE, "", "metrics_", "metrics_0/../x", "definitions"])
def test_store__whose_manifest_names_other_tables(name, tmp_path, data):
    store = Store(tracecols.convert(data / "late_sender", tmp_path / "x.trace"))
    shutil.copytree(store.path / "p2p", tmp_path / "outside")
    tables = {**store.manifest["tables"], name: [{"name": "row", "dtype": "int64"}]}
    with pytest.raises(StoreError, match="no table of a store is called"):
        Store(change(store, tables=tables))


def test_store__replaced_by_links_keeps_what_they_lead_to(tmp_path, data):
    """An older store is removed, not what links in it lead to."""
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
    loaded = SeverityCube.load(path)
    assert "/etc/passwd" in repr(loaded)
    assert "/etc/passwd" not in opened
    assert Path(path).exists()
