"""Names of regions and files come from whoever wrote the trace: nothing in them controls a terminal, a page or a
spreadsheet."""

import io
import json
import re
import unicodedata
import zlib
from base64 import b64decode
from pathlib import Path

import pandas as pd
import pytest
from support.command_line import executed, run
from support.otf2_writer import Archive

import tracecols
from tracecols.export.tables import write_csv
from tracecols.given.printable import escaped, one_line, printable
from tracecols.report.screen import Screen

SOURCES = Path(tracecols.__file__).parent

EVIL = {
    "escape": "clear\x1b[2Jscreen", "title": "osc\x1b]0;owned\x07end", "C1": "csi\x9b31mred", "bidi": "user\u202enimda",
    "isolate": "a\u2066b\u2069c", "return": "do_work\rrm -rf", "backspace": "safe\b\b\b\bevil",
    "markup": "[red]vector[/] [/blue] :smile:",
}  # fmt: skip
LINES = "two\nlines\tapart"


def is_hidden(character):
    """Return whether a character of an output is not shown as itself; joiners belong to some scripts."""
    return character not in "\n\t\u200c\u200d" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a trace in which regions, locations and communicators have such names, and its cube."""
    folder = tmp_path_factory.mktemp("names")
    archive = Archive(folder / "traces.otf2")
    mpi = archive.mpi(2)
    for k, rank in enumerate(mpi.ranks):
        rank.enter(0, "main").enter(1, "MPI_Init").leave(2 + 5 * k, "MPI_Init")
        for i, name in enumerate((*EVIL.values(), LINES, "=1+1")):
            rank.enter(100 * i + 100, name)
            rank.collective(100 * i + 110 + 20 * k, 100 * i + 140 + k, mpi.world, "barrier", None, 0, 0)
            rank.leave(100 * i + 150, name)
        rank.enter(2000, "MPI_Finalize").leave(2010, "MPI_Finalize").leave(2020 + k, "main")
    archive.location("thread\x1b[31m\u202e")
    trace = folder / "x.trace"
    assert run("convert", archive.write(), "-o", trace).exit_code == 0
    assert run("analyze", trace, "-o", folder / "x.severity").exit_code == 0
    return folder


@pytest.mark.slow
def test_printable__shows_what_would_control_a_display():
    assert printable("a\x1b[2J\x7f\x9b\u202e\ud800") == r"a\u001b[2J\u007f\u009b\u202e\ud800"
    assert (
        printable("tab\t, line\n, ünïcödé, 日本語, \u0646\u200c\u0647")
        == "tab\t, line\n, ünïcödé, 日本語, \u0646\u200c\u0647"
    )
    assert one_line("two\nlines\tapart\x00") == r"two\nlines\tapart\u0000"
    assert escaped("<b>\x1b") == r"&lt;b&gt;\u001b"
    hidden = {chr(c) for c in range(0x110000) if is_hidden(chr(c)) and unicodedata.category(chr(c)) not in ("Cf",)}
    assert not any(printable(c) == c for c in hidden)
    # printed text may be JSON
    assert json.loads(printable(json.dumps({"a": "\x7f\x1b"}, ensure_ascii=False))) == {"a": "\x7f\x1b"}


COMMANDS = [
    ("show", "C"), ("show", "C", "-p", "time", "--min-share", "0"), ("show", "C", "-p", "time", "-c", "*main*"),
    ("show", "C", "-p", "time", "-c", "user\u202enimdx"), ("show", "C", "-p", "ti\x1b[2Jme"),
    ("show", "C", "-p", "time", "--topology", "0"), ("diagnose", "C"), ("diagnose", "C", "--json"), ("rules", "C"), ("info", "C"), ("info", "T"),
    ("check", "T"), ("phases", "T"), ("phases", "T", "--json"), ("compare", "C", "C"), ("efficiency", "C"), ("efficiency", "T", "--within", "clear\x1b*"),
    ("what-if", "T", "--scale", "user\u202enimda=0.5"), ("what-if", "T", "--scale", "none\u202e=0.5"), ("patterns", "none\x1b"),
    ("analyze", "T", "-o", "A", "--within", "clear\x1b[2Jscreen"), ("analyze", "T", "-o", "A", "--phases", "bidi\u202e"),
    ("analyze", "T", "-o", "A", "--explain"), ("export", "T", "X", "--around", "\x1b"), ("info", "\x1b[2J"), ("shhow\x1b", "C"),
    ("show", "C", "--what\x1b[2J"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: printable("_".join(c)))
def test_commands__print_nothing_that_controls_a_terminal(command, work):
    paths = {"C": "x.severity", "T": "x.trace", "A": "a.severity", "X": "x.pftrace"}
    result = run(*(work / paths[a] if a in paths else a for a in command))
    assert result.output
    assert [c for c in result.output if is_hidden(c)] == []


def test_show__names_are_one_line_without_markup(work):
    output = run("show", work / "x.severity", "-p", "time", "--min-share", 0).output
    assert r"two\nlines\tapart" in output
    for name in EVIL.values():
        assert printable(name) in output


def test_screen__colours_are_its_own(work):
    out = io.StringIO()
    screen = Screen(file=out, force_terminal=True, color_system="standard")
    screen.print(f"{EVIL['escape']} [bold]", style="red")
    assert out.getvalue() == "\x1b[31mclear\\u001b[2Jscreen [bold]\x1b[0m\n"


def test_reprs__show_names(work):
    cube = tracecols.SeverityCube.load(work / "x.severity")
    diagnosis = cube.diagnosis(with_startup=True)
    shown = [repr(x) for x in (cube, cube.call_paths, cube.system, diagnosis, *diagnosis.findings)]
    assert diagnosis.findings and [c for c in "".join(shown) + str(diagnosis) if is_hidden(c)] == []


def test_sources__print_in_one_place():
    for path in SOURCES.rglob("*.py"):
        where = path.relative_to(SOURCES).as_posix()
        text = path.read_text(encoding="utf-8")
        if not where.startswith("docs/"):
            assert where == "cli/output.py" or not re.search(r"click\.s?echo\(", text), where
            assert where == "report/screen.py" or not re.search(r"\bConsole\(|import Console\b", text), where
            assert where == "given/printable.py" or "html.escape(" not in text, where


def test_report__shows_names(work):
    page = work / "x.html"
    assert run("report", work / "x.severity", "-o", page, "--title", "t\u202e<i>").exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert [c for c in re.split(r"<(?:script|style)", text)[0] if is_hidden(c)] == []
    assert r"t\u202e&lt;i&gt;" in text
    header = b64decode(re.search(r'id="tracecols-header">([^<]*)<', text)[1])
    names = json.loads(zlib.decompress(header, -15))
    assert [c for c in str(names["regions"]) + "".join(names["system"]["name"]) if is_hidden(c)] == []
    assert printable(EVIL["bidi"]) in names["regions"]["name"]


def test_csv__has_no_cell_that_is_a_formula(tmp_path):
    texts = ["=1+1", "+x", "-cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1", "-5", "+1e3", "x=1", "'=1+1"]
    frame = pd.DataFrame(
        {
            "=column": texts,
            "coded": pd.Categorical([*texts[:-1], None]),
            "-integer": [-1] * 10,
            "float": [-0.5] * 10,
            "mixed": [-3, "=x", None, "y", -0.5, "@", 1, 2, 3, True],
        }
    )
    write_csv(frame, tmp_path / "x.csv")
    found = pd.read_csv(tmp_path / "x.csv", dtype=str, keep_default_na=False)
    safe = ["'=1+1", "'+x", "'-cmd|' /C calc'!A0", "'@SUM(1)", "'\t=1", "\\r=1", "-5", "+1e3", "x=1", "'=1+1"]
    assert list(found.columns) == ["'=column", "coded", "'-integer", "float", "mixed"]
    assert found["'=column"].tolist() == safe
    assert found["coded"].tolist() == [*safe[:-1], ""]
    assert found["mixed"].tolist() == ["-3", "'=x", "", "y", "-0.5", "'@", "1", "2", "3", "True"]
    # numbers stay numbers
    again = pd.read_csv(tmp_path / "x.csv")
    assert (again["'-integer"].dtype, again["float"].dtype) == ("int64", "float64")
    assert (again["'-integer"] == -1).all()
    # the frame itself is not changed
    assert frame["=column"].tolist() == texts


def test_csv__of_a_cube_and_of_tables(work, tmp_path):
    for i, arguments in enumerate(
        ((work / "x.severity",), (work / "x.severity", "--wide"), (work / "x.trace", "--table", "regions"))
    ):
        source, *more = arguments
        executed("export", source, tmp_path / f"{i}.csv", *more)
        frame = pd.read_csv(tmp_path / f"{i}.csv", dtype=str, keep_default_na=False)
        cells = [c for name in frame for c in (name, *frame[name])]
        for cell in cells:
            assert not re.match(r"[=+@\t\r]|-(?![0-9.])", cell), cell
    assert any("'=1+1" in cell for cell in cells)
