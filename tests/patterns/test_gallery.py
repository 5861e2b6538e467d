"""The page of ten questions has the right outputs; ``python tests/support/gallery.py`` writes them after a change."""

import re

import pandas as pd
import pytest
from support.gallery import PAGE, blocks, execute


@pytest.fixture
def options():
    """Restore the options of pandas."""
    names = ("display.width", "display.max_columns", "display.max_colwidth", "display.precision")
    values = [pd.get_option(name) for name in names]
    yield
    for name, value in zip(names, values, strict=True):
        pd.set_option(name, value)


@pytest.mark.slow
def test_questions__are_ten_and_their_answers_are_real(options, tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+) ", text, re.MULTILINE) == [str(i) for i in range(1, 11)]
    found = blocks(text)
    made = execute([code for code, _ in found], tmp_path)
    for (code, then), now in zip(found, made, strict=True):
        assert now == then.rstrip("\n"), f"out of date; run python tests/support/gallery.py\n{code}"
    assert sum(bool(output) for output in made) >= 13
    assert "/tmp" not in text
