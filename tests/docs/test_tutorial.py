"""The tutorial: when executed, it gives the saved output. After a change, save it anew:
``PYTHONPATH=tests python tests/support/tutorial.py``."""

import nbformat
import pytest
from support.tutorial import NOTEBOOK, PICTURE, execute, told


@pytest.fixture(scope="module")
def saved():
    return nbformat.read(NOTEBOOK, 4)


@pytest.mark.slow
def test_tutorial__says_what_is_saved(saved, tmp_path):
    made = execute(tmp_path)
    assert not [o for c in made.cells for o in c.get("outputs", []) if o.get("name") == "stderr"]
    for (source, now), (_, then) in zip(told(made), told(saved), strict=True):
        assert now == then, f"out of date; run PYTHONPATH=tests python tests/support/tutorial.py\n{source}"
    pictures = [o for c in made.cells for o in c.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) >= 6 and all(len(p.data["image/png"]) > 5_000 for p in pictures)
    names = {path.name for path in (tmp_path / "hybrid").iterdir()}
    assert names >= {"hybrid.html", "hybrid.cubex", "hybrid.pftrace", "hybrid.severity", "hybrid.trace"}


@pytest.mark.slow
def test_tutorial__says_what_to_do_without_the_trace(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = next(c.source for c in saved.cells if c.cell_type == "code")
    with pytest.raises(FileNotFoundError, match="in a clone of tracecols, or set SOURCE"):
        exec(first.replace("tests/data/hybrid_2x3", "not/there"), {})


def test_tutorial__is_small_and_of_no_machine(saved):
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 600_000
    assert [c for c in saved.cells if PICTURE in c.get("attachments", {})]
    assert "widget-view+json" not in text and str(NOTEBOOK.parents[2]) not in text and "/tmp" not in text
    table = next(c for c in saved.cells if c.source.startswith("cube.view("))
    assert "<table>" in table.outputs[0].data["text/html"]
