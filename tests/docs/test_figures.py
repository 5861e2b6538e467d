"""The figures of docs/figures.md: each is made by at most twenty lines, which are executed unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tracecols
from benchmarks import training

matplotlib = pytest.importorskip("matplotlib")
Rectangle = pytest.importorskip("matplotlib.patches").Rectangle
PAGE = Path(tracecols.__file__).parent / "docs" / "figures.md"
PARTS = re.split(r"^### (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
SECTIONS = {
    title: code
    for title, text in zip(PARTS[::2], PARTS[1::2], strict=True)
    for code in re.findall(r"^```python\n(.*?)^```", text.partition("\n## ")[0], flags=re.MULTILINE | re.DOTALL)
}
PREAMBLE = "import matplotlib.pyplot as plt\n\nimport tracecols\n"
OF_DEVICES = {title for title, code in SECTIONS.items() if "gpu." in code}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The folder in which the page runs, and the names that it defines before its figures."""
    matplotlib.use("Agg")
    folder = tmp_path_factory.mktemp("figures")
    (folder / "tests").symlink_to(Path(__file__).parents[1])
    defined: dict[str, object] = {}
    setup = re.findall(
        r"^```python\n(.*?tracecols\.convert\(.*?)^```",
        PAGE.read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    blocks = [block.rpartition("```python\n")[2] for block in setup]
    assert blocks[0].startswith(PREAMBLE) and len(blocks) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", ["training", "training"])
        training.main()
        for block in blocks:
            exec(block, defined)
        yield folder, defined


def test_page__has_the_questions():
    assert len(SECTIONS) == 15 and len(OF_DEVICES) == 5
    assert all(len(code.splitlines()) <= 20 for code in SECTIONS.values())


@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_figure__is_made_by_the_lines_of_the_page(title, names, monkeypatch, capsys):
    """The figure has labelled axes, and something is drawn on each."""
    folder, defined = names
    monkeypatch.chdir(folder)
    plt = defined["plt"]
    plt.close("all")
    exec(SECTIONS[title], dict(defined))
    (file,) = re.findall(r'savefig\("([\w-]+\.png)"', SECTIONS[title])
    assert (folder / file).stat().st_size > 8_000
    axes = [ax for ax in plt.gcf().axes if ax.get_label() != "<colorbar>"]
    assert axes
    assert axes[0].get_xlabel()
    for ax in axes:
        assert ax.get_xlabel() or ax.get_ylabel()
        bars = [bar.get_width() * bar.get_height() for bar in ax.patches if isinstance(bar, Rectangle)]
        assert any(bars) if bars else ax.patches or ax.lines or ax.collections or ax.images


@pytest.mark.slow
def test_figures__show_the_numbers_of_the_tables(names, monkeypatch):
    folder, defined = names
    monkeypatch.chdir(folder)
    scope = dict(defined)
    exec(SECTIONS["What does the runtime consist of? (critical path)"], scope)
    (lines,) = scope["ax"].collections
    drawn = sum(segment[1][0] - segment[0][0] for segment in lines.get_segments())
    assert drawn == pytest.approx(scope["path"].seconds.sum())
    exec(SECTIONS["What are devices busy with? (temporal breakdown)"], scope)
    drawn = sum(bar.get_width() for bar in scope["ax"].patches)
    assert drawn == pytest.approx(1e3 * scope["gpu"].training_steps().seconds.sum())
