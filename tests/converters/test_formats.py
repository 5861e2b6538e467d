"""Trace formats: found by ending, also those of installed packages; what they say of their records."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from conftest import DATA

import tracecols
from tracecols.converters import registry
from tracecols.converters.base import Format
from tracecols.errors import SourceError
from tracecols.given import packages
from tracecols.store import Store
from tracecols.store.layout import ARCHIVES
from tracecols.testing import Program

CALLED: list[Path] = []


def open_written(path: Path):
    """Open a trace of a format that a package brings."""
    CALLED.append(path)
    return registry.open_source(DATA / "late_sender")


WRITTEN = Format("written", (".written",), open_written)


@pytest.fixture
def plugin(monkeypatch):
    def install(value: str) -> None:
        point = EntryPoint("written", value, registry.GROUP)
        real = packages.points_of
        monkeypatch.setattr(packages, "points_of", lambda group: [point] if group == registry.GROUP else real(group))

    return install


def test_formats__of_installed_packages_are_found(plugin, tmp_path):
    plugin("test_formats:WRITTEN")
    import sys

    sys.modules.setdefault("test_formats", sys.modules[__name__])
    archive = tmp_path / "x.written"
    archive.write_text("")
    for source in (archive, tmp_path):
        store = tracecols.convert(source, tmp_path / "x.trace")
        assert CALLED[-1] == archive
    assert Store(store).n_rows("events") > 0
    with pytest.raises(SourceError, match=re.escape(", ".join((*ARCHIVES, ".written")))):
        registry.find_anchor(DATA / "late_sender" / "traces.def")


@pytest.mark.parametrize(
    ("value", "words"),
    [("no_such_module:FORMAT", "cannot be loaded"), ("pathlib:Path", "is not a trace format but type")],
)
def test_formats__that_cannot_be_loaded_are_named(plugin, tmp_path, value, words):
    plugin(value)
    (tmp_path / "x.other").write_text("")
    with pytest.raises(SourceError, match=rf"plug-in 'written' \({value}\) {words}"):
        registry.find_anchor(tmp_path / "x.other")


def test_capabilities__are_kept_with_the_store(tmp_path):
    store = Store(tracecols.convert(DATA / "late_sender", tmp_path / "x.trace"))
    assert store.capabilities == frozenset()
    del store.manifest["source"]["capabilities"]
    assert store.capabilities == frozenset()
    store.manifest["source"]["format"] = "EPILOG 1.9"
    assert store.capabilities == {"get completion"}


def test_capabilities__of_a_program_written_down():
    with Program().trace() as trace:
        assert trace.store.capabilities == frozenset()
