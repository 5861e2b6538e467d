"""Check errors of archives that cannot be converted."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracecols
from tracecols.errors import SourceError, TracecolsError


def refused(path: Path, *words: object, error: type[Exception] = SourceError, **options) -> str:
    """Check that a conversion fails, the type and words of its error, and that nothing is written; return the text."""
    place = path if path.is_dir() else path.parent
    out = place.with_name("refused")
    out.mkdir(exist_ok=True)
    with pytest.raises(TracecolsError) as raised:
        tracecols.convert(path, out / "x.trace", **options)
    assert list(out.iterdir()) == []
    assert type(raised.value) is error
    text = str(raised.value)
    for word in words:
        assert str(word) in text
    assert str(place) in text, "no file is named"
    assert "\n  " in text, "what to do is missing"
    return text
