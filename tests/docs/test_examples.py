"""Pages whose commands run in order and print the output on the page: the worked examples, and the pages of the first
hour."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import tracecols
from benchmarks import training
from benchmarks.worked import PROGRAMS, made
from benchmarks.worked import main as write_program
from tracecols.cli import group

DOCS = Path(tracecols.__file__).parent / "docs"
PAGE = DOCS / "examples.md"
PROGRAMS_OF_PAGES = {"benchmarks.worked": write_program, "benchmarks.training": training.main}
"""Modules that pages run with `python -m`."""


def sections(page: Path) -> dict[str, str]:
    """Return the sections of a page that have commands, by title."""
    parts = re.split(r"^## (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {title: text for title, text in found.items() if MARK in text}


def squeezed(line: str) -> str:
    """Return a line without its layout, which depends on the terminal."""
    return " ".join(line.split())


MARK = "<!-- commands -->\n```sh\n"
FAILS = "# fails"
"""Comment after a command that fails on purpose."""
QUICK = "Threads that idle"


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a command of a page, and return what it prints."""
    words = shlex.split(line, comments=True)
    if words[0] == "python":
        monkeypatch.setattr("sys.argv", words[2:])
        PROGRAMS_OF_PAGES[words[2]]()
        return []
    result = CliRunner().invoke(group, words[1:])
    assert bool(result.exit_code) == line.endswith(FAILS), (line, result.output)
    return [squeezed(printed) for printed in result.output.splitlines()]


def follow(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the commands of a text, and check that they print the lines it shows; return the number of these lines."""
    printed: list[str] = []
    n_told = 0
    for block, told in re.findall(rf"{MARK}(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, flags=re.MULTILINE | re.DOTALL):
        printed = [out for line in block.splitlines() for out in run(line, monkeypatch)]
        lines = [squeezed(line) for line in told.splitlines()]
        assert [line for line in lines if line not in printed] == [], "\n".join(printed)
        n_told += len(lines)
    return n_told


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder in which the commands of the pages run, with the tests' data."""
    (tmp_path / "tests").symlink_to(Path(tracecols.__file__).parents[1] / "tests")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(
    "title", [pytest.param(title, marks=[] if title == QUICK else pytest.mark.slow) for title in sections(PAGE)]
)
def test_example__prints_what_the_page_says(title, clone, monkeypatch):
    assert follow(sections(PAGE)[title], monkeypatch) >= 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "at_least"), [("devices", 18), ("measurement", 7), ("other-traces", 5), ("troubleshooting", 2)]
)
def test_page__prints_what_it_says(name, at_least, clone, monkeypatch):
    """The sections of these pages build on each other."""
    assert follow((DOCS / f"{name}.md").read_text(encoding="utf-8"), monkeypatch) >= at_least


def test_examples__are_all_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"benchmarks.worked {name} " in text for name in PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_example__gain_is_the_one_that_is_predicted(name):
    """The table at the top: predicted and real gain differ by less than a percent of the runtime."""
    before, after = (made(name, is_mended) for is_mended in (False, True))
    real = 1 - after.runtime / before.runtime
    with before.program.trace() as trace:
        if name == "uneven":
            prediction = trace.what_if(balanced=True)
            predicted = prediction.saving / prediction.recorded_runtime
        else:
            predicted = trace.analyze().diagnosis().findings[0].gain_share
    assert predicted == pytest.approx(real, abs=0.01)
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| [{name}]"))
    shares = [float(number) / 100 for number in re.findall(r"([\d.]+) %", row)]
    assert shares == [pytest.approx(predicted, abs=5e-4), pytest.approx(real, abs=5e-4)]
