"""The first command of a new user: the main job on the trace that the package carries."""

import webbrowser

import pytest
from support.command_line import executed

import tracecols
from tracecols.cli.demo import sample_trace
from tracecols.cli.output import open_in_browser


@pytest.fixture
def opened(monkeypatch):
    """The pages that a browser was asked to open."""
    pages = []
    monkeypatch.setattr(webbrowser, "open", lambda page: pages.append(page) or True)
    return pages


def test_demo__runs_the_main_job_and_shows_each_command(tmp_path, opened):
    folder = tmp_path / "first try"
    output = executed("demo", "-o", folder)
    shown = [line for line in output.splitlines() if line.startswith("$ tracecols ")]
    assert [line.split()[2] for line in shown] == ["convert", "analyze", "show", "report"]
    assert f"'{folder / 'hybrid.trace'}'" in shown[0], "a path with a blank can be copied"
    assert "What costs most" in output
    assert tracecols.SeverityCube.load(folder / "hybrid.severity").total("time") > 0
    assert (folder / "hybrid.html").stat().st_size > 10**5
    assert not opened, "nobody watches"
    assert "open it with a browser" in output
    assert f"tracecols view '{folder / 'hybrid.trace'}'" in output
    executed("demo", "-o", folder, "--no-browser")


def test_demo__ends_with_the_command_that_failed(tmp_path):
    (tmp_path / "hybrid.trace").write_text("mine")
    assert "$ tracecols analyze" not in executed("demo", "-o", tmp_path, code=1)
    assert (tmp_path / "hybrid.trace").read_text() == "mine"


def test_report__is_opened_only_for_a_person(tmp_path, opened, monkeypatch):
    page = tmp_path / "a page.html"
    assert not open_in_browser(page.resolve().as_uri())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert open_in_browser(page.resolve().as_uri())
    assert opened == [page.as_uri()]


def test_sample__is_the_trace_of_the_readme(data):
    names = {path.relative_to(sample_trace()) for path in sample_trace().rglob("*.*") if path.suffix != ".parquet"}
    assert names == {
        path.relative_to(data / "hybrid_2x3")
        for path in (data / "hybrid_2x3").rglob("*.*")
        if path.suffix != ".parquet"
    }
