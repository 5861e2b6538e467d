"""The project's own promises: declarations, statements of the README."""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from support.command_line import executed

from tracecols.converters.otf2.records import EVENT_RECORDS
from tracecols.errors import AnalysisError
from tracecols.model.tables import TABLES
from tracecols.patterns.base import Property
from tracecols.patterns.found_by import Pattern, SumOf
from tracecols.patterns.registry import CONVENTIONS, properties
from tracecols.report.properties import guidance
from tracecols.schema import DEFINITIONS, FAMILIES, KINDS, SIDE_TABLES

ROOT = Path(__file__).parents[2]


def test_kinds__every_record_has_a_kind_and_every_family_a_table():
    numbers = {int(k) for k in KINDS}
    assert {r.code for r in EVENT_RECORDS} <= numbers
    assert len(EVENT_RECORDS) == 83
    assert set(FAMILIES) - {"metrics"} <= set(SIDE_TABLES)


def test_tests__import_no_test_module():
    """Code shared by tests is in `tests/support`, so that each module runs alone, and pytest's path has no folder of
    tests."""
    wrong = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(from|import) ([\w.]+\.)?test_", line)
    ]
    assert not wrong


def test_tables__targets_exist():
    tables = {"events", "call_paths", *SIDE_TABLES, *DEFINITIONS, *TABLES}
    for table in [*SIDE_TABLES.values(), *DEFINITIONS.values(), *(spec.schema for spec in TABLES.values())]:
        for column in table.columns:
            assert not column.target or column.target in tables, (table.name, column.name)


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_properties__parents_come_before_children(conventions):
    seen = {""}
    for p in properties(conventions):
        assert p.parent in seen
        assert p.summary.endswith(".")
        seen.add(p.id)


@pytest.mark.parametrize("conventions", CONVENTIONS)
def test_properties__have_advice_or_are_containers(conventions):
    """For a property without advice, the guidance says that it is a container, or whose advice applies."""
    declared = properties(conventions)
    by_id = {p.id: p for p in declared}
    for p in declared:
        said = guidance(p, declared)
        assert said.endswith("."), (p.id, said)
        if said.startswith("Container: "):
            held = said.partition("advice for ")[2].rstrip(".").split(", ")
            assert [by_id[id].parent for id in held] == [p.id] * len(held)
        elif not p.advice:
            # the advice for the whole tree of time is no advice for one kind of time
            assert not said.startswith(f"As for {by_id['time'].title}:"), p.id


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([Property("time", "", "Time", "Again.", SumOf())], "declared twice"),
        ([Property("x", "nowhere", "X", "X.", SumOf())], "is declared below 'nowhere'"),
        ([Property("x", "y", "X", "X.", SumOf()), Property("y", "x", "Y", "Y.", SumOf())], "their own ancestors"),
        ([Property("x", "time", "X", "X.", Pattern("messages"))], "without the function that finds it"),
        ([Property("x", "time", "X", "X.", SumOf(), part="oi")], "count as 'oi', which nothing does"),
    ],
)
def test_properties__contradictions_are_errors(more, words):
    with pytest.raises(AnalysisError, match=words):
        properties("scalasca", more)


def test_readme__commands_and_links_are_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!http)([^)]+)\)", text):
        assert (ROOT / link.partition("#")[0]).exists(), link
    assert "<!-- tests -->" in text
    assert not re.search(r"\b(BENCH_\w+|FIRST seconds)\b", text), "a figure that nobody measured"


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder in which the commands of the pages run: that of a clone, empty but for the tests' data."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_tour__runs(clone):
    pytest.importorskip("duckdb")
    pytest.importorskip("xarray")
    tour = (ROOT / "tracecols" / "docs" / "tour.md").read_text(encoding="utf-8").split("```python")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(compile(tour, "tour.md", "exec"), names)
    cube = names["cube"]
    assert f"{cube.total('mpi_latebroadcast') / cube.total('time'):.4f}" == "0.0065"
    assert len(names["late"]) == 3
    assert (clone / "hybrid.severity").is_dir()


def commands(page):
    """Return the commands in the marked blocks of a page, in order."""
    blocks = re.findall(r"<!-- (?:main job|commands) -->\n```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.removeprefix(".venv/bin/") for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("tracecols ")]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "tracecols/docs/commands.md"])
def test_commands__run_in_their_order(page, clone):
    """No command overwrites the output of another one, and each succeeds."""
    found = commands(ROOT / page)
    assert len(found) > 10
    for command in found:
        executed(*command)


def test_analysis_page__names_functions_that_exist():
    """The page lists the functions that process a message and a barrier."""
    text = (ROOT / "tracecols" / "docs" / "analysis.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| \d+ \| `", line)]
    assert 7 <= len(rows) <= 16
    for row in rows:
        path = row.split("`")[1]
        module, _, name = path.rpartition(".")
        if module.rpartition(".")[2][:1].isupper():
            module, _, cls = module.rpartition(".")
            assert hasattr(getattr(importlib.import_module(f"tracecols.{module}"), cls), name), path
        else:
            assert hasattr(importlib.import_module(f"tracecols.{module}"), name), path


def test_pages__name_files_and_kernels_that_exist():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "tracecols" / "docs").rglob("*.md")]
    texts = {page: page.read_text(encoding="utf-8") for page in pages if page.name != "changelog.md"}
    bases = (ROOT, ROOT / "tracecols")
    wrong = [
        (page.name, path)
        for page, text in texts.items()
        for path in re.findall(r"`(\w+/[\w/]+\.py)(?:::\w+)?`", text)
        if not any((base / path).exists() for base in bases)
    ]
    assert not wrong
    for text in texts.values():
        for module, name in re.findall(r"`(kernels\.\w+)\.(\w+)`", text):
            assert hasattr(importlib.import_module(f"tracecols.{module}"), name), name


def test_wheel__has_all_packages():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    root = ROOT / "tracecols"
    there = {
        ".".join(("tracecols", *path.parent.relative_to(root).parts))
        for top in (root, root / "kernels", root / "converters")
        for path in top.rglob("__init__.py")
    }
    # the site is built from a checkout; the sample is a trace, no code
    assert sorted(listed) == sorted(there - {"tracecols.docs.site"} | {"tracecols.sample"})
