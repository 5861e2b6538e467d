"""The worked examples: every command of the page runs, and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import tracecols
from benchmarks.worked import PROGRAMS
from benchmarks.worked import main as write_program
from tracecols.cli import group

PAGE = Path(tracecols.__file__).parent / "docs" / "examples.md"


def sections() -> dict[str, str]:
    """The sections of the page that have commands, by title."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def squeezed(line: str) -> str:
    """A line without its layout, which depends on the terminal."""
    return " ".join(line.split())


QUICK = "Threads that idle"


@pytest.mark.parametrize(
    "title", [pytest.param(title, marks=[] if title == QUICK else pytest.mark.slow) for title in sections()]
)
def test_example__prints_what_the_page_says(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text = sections()[title]
    printed: list[str] = []
    n_told = 0
    for kind, block in re.findall(r"^```(sh|text)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        if kind == "text":
            told = [squeezed(line) for line in block.splitlines()]
            assert [line for line in told if line not in printed] == [], "\n".join(printed)
            n_told += len(told)
            continue
        printed = []
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[0] == "python":
                monkeypatch.setattr("sys.argv", words[2:])
                write_program()
                continue
            result = CliRunner().invoke(group, words[1:])
            assert result.exit_code == 0, (line, result.output)
            printed += map(squeezed, result.output.splitlines())
    assert n_told >= 8


def test_examples__are_all_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"benchmarks.worked {name} " in text for name in PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_example__gain_is_the_one_that_is_predicted(name):
    """The table at the top: predicted and real gain differ by less than a percent of the run time."""
    before, after = (PROGRAMS[name](is_mended).run() for is_mended in (False, True))
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
