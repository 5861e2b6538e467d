"""Trace formats: lookup by file ending, formats of installed packages, and what they document of their records."""

from __future__ import annotations

import json
import pickle
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from conftest import DATA
from support.command_line import python
from support.kineto_writer import Trace
from support.nsight_writer import Export
from support.otf2_writer import Archive
from support.paraver_writer import PCF, header, write

import tracecols
from tracecols.conversion import OpenedSource
from tracecols.converters import registry
from tracecols.converters.base import Format
from tracecols.errors import SourceError, UnsupportedError
from tracecols.given import packages
from tracecols.store import Store
from tracecols.store.layout import ARCHIVES
from tracecols.testing import Program

CALLED: list[Path] = []


def open_written(path: Path):
    """Open a trace of a format that a package provides."""
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


@pytest.mark.parametrize(
    "name,content,what,todo",
    [
        ("traces.bin", b"sion" + bytes(90), "a SIONlib container", "sionsplit"),
        ("kineto.tar.gz", b"\x1f\x8b", "a tar archive", "unpack it"),
        ("RUN.ZIP", b"", "a zip archive", "unpack it"),
        ("run", b"PK\3\4" + bytes(90), "a zip archive", "unpack it"),
        ("report.nsys-rep", b"x", "a report of Nsight Systems", "nsys export --type sqlite"),
        (
            "report.jsonl",
            b"{}",
            "an export of Nsight Systems that is neither SQLite nor Parquet, or no trace",
            "nsys export --type sqlite",
        ),
        (
            "kernels.ncu-rep",
            b"x",
            "a report of Nsight Compute, which has metrics of kernels and no trace",
            "nsys profile",
        ),
        ("TRACE.mpits", b"x", "what Extrae writes before it is merged", "mpi2prv"),
        ("tautrace.0.0.0.trc", b"x", "a trace in TAU's own format", "TAU_TRACE_FORMAT=otf2"),
        ("run.otf", b"x", "a trace in the first version of OTF", "Score-P"),
        ("run.pftrace", b"x", "a timeline for Perfetto", "--output-format otf2"),
        ("trace.json.zst", b"x", "a compressed file", "decompress it"),
    ],
)
def test_files_of_other_tools__are_refused_by_what_they_are(tmp_path, name, content, what, todo):
    path = tmp_path / name
    path.write_bytes(content)
    for given, begin in ((path, ""), (tmp_path, f"no trace in the folder {tmp_path}: ")):
        with pytest.raises(UnsupportedError) as refused:
            registry.find_anchor(given)
        first, second = str(refused.value).split("\n")
        assert first == f"{begin}{path} is {what}; that is not read" and todo in second


def test_files_of_other_tools__beside_a_trace_do_not_matter(tmp_path):
    (tmp_path / "report.nsys-rep").write_bytes(b"x")
    (tmp_path / "traces.otf2").write_bytes(b"x")
    assert registry.find_anchor(tmp_path) == tmp_path / "traces.otf2"


def test_files_that_are_given__are_those_that_workers_open():
    """Not all files of their folder, of which there are more."""
    given = [DATA / "kineto_gloo_3" / f"rank{rank}.pt.trace.json.gz" for rank in (0, 2)]
    source = registry.open_source(given)
    there = pickle.loads(pickle.dumps(OpenedSource(source))).source
    assert there.definitions == source.definitions and len(there.definitions["processes"]["id"]) == 2


@pytest.mark.slow
def test_files_of_several_formats__are_refused_as_such(tmp_path):
    kineto, nsight = tmp_path / "rank0.json", tmp_path / "rank1.sqlite"
    kineto.write_text('{"traceEvents": []}')
    nsight.write_bytes(b"SQLite format 3\0")
    for files in ((kineto, nsight), (nsight, kineto)):
        with pytest.raises(SourceError, match=r"(?s)different formats: .*give all files of one trace") as raised:
            registry.find_given(files)
        assert all(str(file) in str(raised.value) for file in files)


def test_find_anchor__imports_no_format_that_cannot_be_in_a_file():
    code = (
        "import sys\nfrom pathlib import Path\nfrom tracecols.converters.registry import find_anchor\n"
        f"find_anchor(Path({str(DATA / 'hybrid_2x3' / 'traces.otf2')!r}))\n"
        "print([name for name in ('paraver', 'kineto', 'nsight') if f'tracecols.converters.{name}' in sys.modules])"
    )
    assert python("-c", code).stdout == "[]\n"


@pytest.mark.parametrize("front", [b"", b" \n\t" * 40])
def test_find_anchor__knows_a_format_by_its_content_after_white_space(front, tmp_path):
    text = b'{"schemaVersion": 1, "traceEvents": []}'
    file = tmp_path / "profile.txt"
    file.write_bytes(front + text)
    assert registry.find_anchor(file) == file


def test_names__that_are_not_utf_8_are_latin_1_and_stay_apart(tmp_path):
    """Old programs and compilers write names in Latin-1; such names may not become the same."""
    archive = Archive(tmp_path / "traces.otf2")
    with archive.mpi(1).ranks[0] as rank:
        for time, name in enumerate(("L0se", "L1se", "größe")):
            rank.enter(2 * time, name).leave(2 * time + 1, name)
    archive.write()
    labels = "\nEVENT_TYPE\n6 60000019 User function\nVALUES\n1 L0se\n2 L1se\n3 größe\n"
    events = "".join(f"2:1:1:1:1:{n}:60000019:{n}\n2:1:1:1:1:{n}:60000019:0\n" for n in (1, 2, 3))
    write(tmp_path / "x.prv", header(9, [1]) + events, PCF + labels)
    kineto, export = Trace(), Export()
    for time, name in enumerate(("L0se", "L1se", 'L0se "x"', "größe")):
        kineto.host(2 * time, 2 * time + 1, name)
        export.range(2 * time, 2 * time + 1, name)
    (tmp_path / "x.json").write_text(kineto.text().replace(json.dumps("größe")[1:-1], "größe"))
    export.write(tmp_path / "x.sqlite")
    for name, names in (("traces.otf2", "traces.def"), ("x.prv", "x.pcf"), ("x.json",) * 2, ("x.sqlite",) * 2):
        file = tmp_path / names
        file.write_bytes(file.read_bytes().replace(b"L0se", b"L\xf6se").replace(b"L1se", b"L\xe4se"))
        found = {*registry.open_source(tmp_path / name).definitions["regions"]["name"]}
        assert {"Löse", "Läse", "größe"} <= found
        assert ('Löse "x"' in found) == (name in ("x.json", "x.sqlite"))
